//! Wraps functions that compute for long or return large results, so that they run over a few rows at a time.
//!
//! ```text
//! before: repeat(name, n)     a || b            after: guarded(repeat)(name, n)     guarded(||)(a, b)
//! ```
//!
//! DataFusion calls a function once for a batch of up to 8,192 rows. Neither a cancel nor a memory limit interrupts that
//! call. In an optimized plan, this module wraps each function and `||`. If rows are large, or their result may be, the
//! wrapper calls the function for some rows at a time. It checks the statement between the calls
//! ([`watched`](crate::watched)). Batches of small rows pass through in one call. Three functions cost more than reading
//! their arguments ([`Cost`]); the others are measured by the bytes of their arguments.
//!
//! Limits: [`STEPS_MAX`] steps for one row. The arguments of one row may use the statement's memory. The result of one
//! call may use half of it; beyond that, the call is repeated with smaller batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, exec_err, human_readable_size};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowFunctionDefinition,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{self, Column, Literal};

use crate::guarded_windows::guarded_aggregate;
use crate::spread::{is_spread, spread};
use crate::watched;

/// Bytes that one call may read or make before the statement is checked again.
const CALL_BYTES: u64 = 1 << 20;
/// Steps of a function for one row; more take seconds, and nothing can end them.
const STEPS_MAX: u64 = 250_000_000;
/// Steps that cost as much as reading one byte.
const STEPS_PER_BYTE: u64 = 8;
/// One result may have the memory of its statement divided by this.
const RESULT_SHARE: usize = 2;

/// Functions that are not wrapped: operators and file formats know them by their type, or they take no rows.
const KNOWN_BY_TYPE: [&str; 4] = ["get_field", "input_file_name", "file_row_index", "arrow_cast"];

/// The plan, optimized before, with its functions wrapped.
pub(crate) fn guard(plan: LogicalPlan, memory_bytes_max: usize) -> Result<LogicalPlan> {
    let bytes_max = memory_bytes_max / RESULT_SHARE;
    plan.transform_up_with_subqueries(|node| {
        // Each of its constants is there once.
        if matches!(node, LogicalPlan::Values(_)) {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let guarded = expr.transform_up(|expr| {
                spread(expr, memory_bytes_max)?.transform_data(|expr| Ok(guarded(expr, bytes_max)))
            })?;
            Ok(guarded.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

/// The function that a plan calls, without the wrapper.
pub(crate) fn unguarded(function: &ScalarUDF) -> &ScalarUDF {
    function.inner().downcast_ref::<Guarded>().map_or(function, |guarded| &guarded.inner)
}

/// The function that a wrapper calls; none if it is not one.
#[cfg(feature = "distributed")]
pub(crate) fn guarded_inner(function: &ScalarUDF) -> Option<&ScalarUDF> {
    function.inner().downcast_ref::<Guarded>().map(|guarded| &*guarded.inner)
}

/// The function, wrapped.
#[cfg(feature = "distributed")]
pub(crate) fn guarded_function(inner: ScalarUDF, memory_bytes_max: usize) -> ScalarUDF {
    let (cost, bytes_max) = (Cost::of(inner.name()), memory_bytes_max / RESULT_SHARE);
    ScalarUDF::from(Guarded { inner: Arc::new(inner), cost, bytes_max })
}

/// `||` of texts.
#[cfg(feature = "distributed")]
pub(crate) fn concatenation() -> ScalarUDF {
    ScalarUDF::from(Concatenation::new())
}

fn guarded(expr: Expr, bytes_max: usize) -> Transformed<Expr> {
    let call = |inner: Arc<ScalarUDF>, cost: Cost, args: Vec<Expr>| {
        let func = Arc::new(ScalarUDF::from(Guarded { inner, cost, bytes_max }));
        Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
    };
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if !args.is_empty()
                && !func.short_circuits()
                && !is_spread(&func)
                && !KNOWN_BY_TYPE.contains(&func.name())
                && !func.inner().is::<Guarded>() =>
        {
            let cost = Cost::of(func.name());
            call(func, cost, args)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            call(Arc::new(ScalarUDF::from(Concatenation::new())), Cost::Bytes, vec![*left, *right])
        }
        Expr::WindowFunction(mut window) => match window.fun {
            WindowFunctionDefinition::AggregateUDF(aggregate) => {
                window.fun = WindowFunctionDefinition::AggregateUDF(guarded_aggregate(aggregate));
                Transformed::yes(Expr::WindowFunction(window))
            }
            _ => Transformed::no(Expr::WindowFunction(window)),
        },
        other => Transformed::no(other),
    }
}

/// The cost of a call, computed from its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cost {
    /// The bytes of its arguments.
    Bytes,
    /// The bytes of two texts, multiplied: it compares each character with each.
    Compare,
    /// The bytes of a text and of what stands instead of what a pattern finds, multiplied: all of it may be found.
    Replace,
}

impl Cost {
    fn of(function: &str) -> Cost {
        match function {
            "levenshtein" => Cost::Compare,
            "regexp_replace" => Cost::Replace,
            _ => Cost::Bytes,
        }
    }

    /// The cost of one row, whose arguments have so many bytes.
    fn row(self, bytes: &[u64]) -> u64 {
        let all = bytes.iter().fold(0_u64, |all, bytes| all.saturating_add(*bytes));
        let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
        match self {
            Cost::Bytes => all,
            Cost::Compare => all.saturating_add(at(0).saturating_mul(at(1)) / STEPS_PER_BYTE),
            Cost::Replace => all.saturating_add(at(0).saturating_mul(at(2))),
        }
    }
}

/// A function, called for some rows at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Guarded {
    inner: Arc<ScalarUDF>,
    cost: Cost,
    bytes_max: usize,
}

impl Guarded {
    fn too_large(&self, bytes: usize) -> DataFusionError {
        // Worded as the pool's own, which errors are made of.
        DataFusionError::ResourcesExhausted(format!(
            "Failed to allocate additional {} for what `{}` makes at once, which may be half of the limit for the total memory \
             pool: expressions(pool_size: {})",
            human_readable_size(bytes),
            self.inner.name(),
            human_readable_size(self.bytes_max * RESULT_SHARE),
        ))
    }

    /// Refuses a row that nothing could end, and one whose arguments take more than the statement may have: the same constant may be
    /// there many times, and be so often in the result.
    fn check_row(&self, bytes: &[u64]) -> Result<()> {
        let all = usize::try_from(Cost::Bytes.row(bytes)).unwrap_or(usize::MAX);
        if all > self.bytes_max.saturating_mul(RESULT_SHARE) {
            return Err(self.too_large(all));
        }
        let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
        if self.cost == Cost::Compare && at(0).saturating_mul(at(1)) > STEPS_MAX {
            return exec_err!(
                "`{}` of texts of {} and {} bytes: the product of their lengths is limited to {STEPS_MAX}",
                self.inner.name(),
                at(0),
                at(1)
            );
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        watched::check()?;
        let rows = arguments.number_rows;
        let bytes: Vec<Bytes> = arguments.args.iter().map(Bytes::of).collect::<Result<_>>()?;
        let has_columns = arguments.args.iter().any(|value| matches!(value, ColumnarValue::Array(_)));
        let all: Vec<u64> = bytes.iter().map(|bytes| bytes.largest()).collect();
        // The sum over all rows is at most this.
        let rows_counted = if has_columns { rows as u64 } else { 1 };
        if self.cost.row(&all).saturating_mul(rows_counted) <= CALL_BYTES {
            return self.inner.invoke_with_args(arguments);
        }
        if !has_columns {
            self.check_row(&all)?;
            return self.inner.invoke_with_args(arguments);
        }
        let (mut parts, mut made, mut from) = (Vec::new(), 0_usize, 0);
        let mut row_bytes = vec![0; bytes.len()];
        while from < rows {
            let (mut to, mut cost) = (from, 0_u64);
            while to < rows {
                for (row_bytes, bytes) in row_bytes.iter_mut().zip(&bytes) {
                    *row_bytes = bytes.at(to);
                }
                cost = cost.saturating_add(self.cost.row(&row_bytes));
                if to > from && cost > CALL_BYTES {
                    break;
                }
                self.check_row(&row_bytes)?;
                to += 1;
            }
            let part = self.inner.invoke_with_args(slice(&arguments, from, to))?.into_array(to - from)?;
            made = made.saturating_add(slice_bytes(&part));
            if made > self.bytes_max {
                return Err(self.too_large(made));
            }
            parts.push(part);
            from = to;
            watched::check()?;
        }
        if let [one] = parts.as_slice() {
            return Ok(ColumnarValue::Array(Arc::clone(one)));
        }
        watched::check_room(made)?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }
}

fn slice(arguments: &ScalarFunctionArgs, from: usize, to: usize) -> ScalarFunctionArgs {
    let args = arguments.args.iter().map(|value| match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, to - from)),
        ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
    });
    ScalarFunctionArgs {
        args: args.collect(),
        arg_fields: arguments.arg_fields.clone(),
        number_rows: to - from,
        return_field: Arc::clone(&arguments.return_field),
        config_options: Arc::clone(&arguments.config_options),
    }
}

/// Bytes of the values of an argument.
enum Bytes {
    /// All the same, about: numbers, or one constant.
    Each(u64),
    /// Bytes by row.
    Rows(Vec<u64>),
}

impl Bytes {
    fn of(value: &ColumnarValue) -> Result<Bytes> {
        let (array, is_constant) = match value {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let bytes = Bytes::of_array(&array);
        Ok(if is_constant { Bytes::Each(bytes.at(0)) } else { bytes })
    }

    fn of_array(array: &ArrayRef) -> Bytes {
        let long = |bytes: usize| bytes as u64;
        match array.data_type() {
            DataType::Utf8 => Bytes::Rows(lengths(array.as_string::<i32>().value_offsets())),
            DataType::LargeUtf8 => Bytes::Rows(lengths(array.as_string::<i64>().value_offsets())),
            DataType::Binary => Bytes::Rows(lengths(array.as_binary::<i32>().value_offsets())),
            DataType::LargeBinary => Bytes::Rows(lengths(array.as_binary::<i64>().value_offsets())),
            // The length is the lower half of a view.
            DataType::Utf8View => Bytes::Rows(
                array.as_string_view().views().iter().map(|view| u64::from(*view as u32)).collect(),
            ),
            DataType::BinaryView => Bytes::Rows(
                array.as_binary_view().views().iter().map(|view| u64::from(*view as u32)).collect(),
            ),
            ty => match ty.primitive_width() {
                Some(width) => Bytes::Each(long(width)),
                None => Bytes::Each(long(slice_bytes(array) / array.len().max(1))),
            },
        }
    }

    fn at(&self, row: usize) -> u64 {
        match self {
            Bytes::Each(bytes) => *bytes,
            Bytes::Rows(rows) => rows.get(row).copied().unwrap_or(0),
        }
    }

    fn largest(&self) -> u64 {
        match self {
            Bytes::Each(bytes) => *bytes,
            Bytes::Rows(rows) => rows.iter().copied().max().unwrap_or(0),
        }
    }
}

fn lengths<T: Copy + TryInto<i64>>(offsets: &[T]) -> Vec<u64> {
    let at = |offset: T| offset.try_into().unwrap_or(0);
    offsets.windows(2).map(|pair| at(pair[1]).abs_diff(at(pair[0]))).collect()
}

fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or(0)
}

/// `a || b` of texts, as a function, so that it is guarded like the others.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    signature: Signature,
}

impl Concatenation {
    fn new() -> Concatenation {
        Concatenation { signature: Signature::any(2, Volatility::Immutable) }
    }

    fn operator(left: Arc<dyn PhysicalExpr>, right: Arc<dyn PhysicalExpr>) -> expressions::BinaryExpr {
        expressions::BinaryExpr::new(left, Operator::StringConcat, right)
    }
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let field = |(index, ty): (usize, &DataType)| {
            arrow::datatypes::Field::new(index.to_string(), ty.clone(), true)
        };
        let schema = Schema::new(arguments.iter().enumerate().map(field).collect::<Vec<_>>());
        let column = |index: usize| Arc::new(Column::new(&index.to_string(), index));
        Concatenation::operator(column(0), column(1)).data_type(&schema)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let mut sides: Vec<Arc<dyn PhysicalExpr>> = Vec::with_capacity(2);
        for (value, field) in arguments.args.iter().zip(&arguments.arg_fields) {
            sides.push(match value {
                ColumnarValue::Array(array) => {
                    fields.push(field.as_ref().clone().with_nullable(true));
                    columns.push(Arc::clone(array));
                    Arc::new(Column::new(field.name(), columns.len() - 1))
                }
                ColumnarValue::Scalar(value) => Arc::new(Literal::new(value.clone())),
            });
        }
        let [left, right] = sides.as_slice() else {
            return exec_err!("`||` joins two texts");
        };
        let operator = Concatenation::operator(Arc::clone(left), Arc::clone(right));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(arguments.number_rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        operator.evaluate(&batch)
    }
}
