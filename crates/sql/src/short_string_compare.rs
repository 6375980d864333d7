//! Speeds up filters that compare a text column with a short constant: `metro = 'Seattle'`.
//!
//! ```text
//! before: FilterExec: metro = 'Seattle'     after: FilterExec: IsShortText(metro, 'Seattle')
//! ```
//!
//! A text of up to twelve bytes is its Arrow view, so equal texts have equal views, whatever else the column contains.
//! Arrow compares lengths and prefixes. If the column also has longer texts, it compares their bytes as well. This
//! expression does one comparison a row.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::builder::make_view;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

/// Longer texts lie outside of their views.
const SHORT_BYTES: usize = 12;

/// Inserts [`IsShortText`] into filters.
#[derive(Debug)]
pub(crate) struct ShortStringCompare;

impl PhysicalOptimizerRule for ShortStringCompare {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            let schema = filter.input().schema();
            let predicate = Arc::clone(filter.predicate());
            let predicate = predicate.transform_up(|expr| Ok(instead(expr, &schema)))?;
            if !predicate.transformed {
                return Ok(Transformed::no(node));
            }
            let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
            Ok(Transformed::yes(Arc::new(filter)))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "short_texts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn instead(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Transformed<Arc<dyn PhysicalExpr>> {
    match IsShortText::of(&expr, schema) {
        Some(is) => Transformed::yes(Arc::new(is)),
        None => Transformed::no(expr),
    }
}

/// Compares a text with this one; null where it is null.
#[derive(Debug)]
struct IsShortText {
    column: Arc<dyn PhysicalExpr>,
    text: Box<str>,
}

impl IsShortText {
    /// Returns the comparison if an expression is one.
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<IsShortText> {
        let equal = expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq)?;
        let text = match equal.right().downcast_ref::<Literal>()?.value() {
            ScalarValue::Utf8View(Some(text)) if text.len() <= SHORT_BYTES => text.as_str().into(),
            _ => return None,
        };
        let column = equal.left();
        let is_texts = column.downcast_ref::<Column>()?.data_type(schema).ok()? == DataType::Utf8View;
        is_texts.then(|| IsShortText { column: Arc::clone(column), text })
    }
}

/// The plan with its filters as they were before [`ShortStringCompare`].
#[cfg(feature = "distributed")]
pub(crate) fn without_short_compares(
    node: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let predicate = Arc::clone(filter.predicate()).transform_up(|expr| {
        let Some(is) = expr.downcast_ref::<IsShortText>() else { return Ok(Transformed::no(expr)) };
        let text = ScalarValue::Utf8View(Some(is.text.to_string()));
        let literal = Arc::new(Literal::new(text));
        Ok(Transformed::yes(Arc::new(BinaryExpr::new(Arc::clone(&is.column), Operator::Eq, literal))))
    })?;
    if !predicate.transformed {
        return Ok(Transformed::no(node));
    }
    let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
    Ok(Transformed::yes(Arc::new(filter)))
}

// Written out, as the derived ones do not go with what is behind a pointer (rust-lang/rust#78808).
impl PartialEq for IsShortText {
    fn eq(&self, other: &IsShortText) -> bool {
        self.column.eq(&other.column) && self.text == other.text
    }
}

impl Eq for IsShortText {}

impl Hash for IsShortText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.text.hash(state);
    }
}

impl fmt::Display for IsShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.column, self.text)
    }
}

impl PhysicalExpr for IsShortText {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.column.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        let texts = texts.as_string_view();
        let (views, wanted) = (&texts.views()[..], make_view(self.text.as_bytes(), 0, 0));
        let is = BooleanBuffer::collect_bool(views.len(), |row| views[row] == wanted);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(is, texts.nulls().cloned()))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.pop().unwrap_or_else(|| Arc::clone(&self.column));
        Ok(Arc::new(IsShortText { column, text: self.text.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)?;
        write!(f, " = '{}'", self.text.replace('\'', "''"))
    }
}
