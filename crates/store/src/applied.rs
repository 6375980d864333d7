//! Filters that a scan of a table with companions applies itself, so that the plan above does not: searches, and comparisons of
//! whole numbers and times with constants. Where a companion has found the rows, or the bounds of a file decide, nothing is
//! evaluated, and the columns of the filter are not read.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion_catalog::Session;
use datafusion_common::{DFSchema, Result, stats::Precision};
use datafusion_expr::{BinaryExpr, Expr, Operator, utils::conjunction};
use datafusion_physical_plan::{ExecutionPlan, filter::FilterExecBuilder};
use swiftwater_text::IndexQuery;

use crate::{companions::CompanionFormat, table_version::FileEntry};

/// A filter that a scan applies.
pub(crate) struct AppliedFilter {
    pub(crate) filter: Expr,
    pub(crate) kind: AppliedKind,
}

/// The proof that a filter is true of all rows of a file that are read.
pub(crate) enum AppliedKind {
    /// The file's companion.
    Search(IndexQuery),
    /// The file's bounds: no row has the opposite.
    Bounds {
        /// The place of the column.
        column: usize,
        /// The opposite.
        opposite: Expr,
    },
}

impl AppliedFilter {
    /// The filter, if a scan applies it. That depends on nothing that changes while a statement is planned.
    pub(crate) fn of(filter: &Expr, format: &dyn CompanionFormat, schema: &Schema) -> Option<AppliedFilter> {
        let kind = match format.query(filter, schema) {
            Some(query) if is_known(&query) => AppliedKind::Search(query),
            Some(_) => return None,
            None => opposite(filter, schema)?,
        };
        Some(AppliedFilter { filter: filter.clone(), kind })
    }
}

/// True if an index answers every part of a query.
fn is_known(query: &IndexQuery) -> bool {
    match query {
        IndexQuery::Unknown => false,
        IndexQuery::Everything | IndexQuery::Leaf(_) => true,
        IndexQuery::All(all) | IndexQuery::Any(all) => all.iter().all(is_known),
        IndexQuery::Not(not) => is_known(not),
    }
}

/// The opposite of a comparison of a column with a constant. Floating-point numbers are left out: NaN is in no bounds.
fn opposite(filter: &Expr, schema: &Schema) -> Option<AppliedKind> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    let (Expr::Column(column), Expr::Literal(value, _)) = (&**left, &**right) else { return None };
    let place = schema.index_of(column.name()).ok()?;
    let ty = schema.field(place).data_type();
    let is_exact = ty.is_integer() || matches!(ty, DataType::Timestamp(..) | DataType::Date32);
    if !is_exact || value.is_null() || value.data_type() != *ty {
        return None;
    }
    let op = match op {
        Operator::Lt => Operator::GtEq,
        Operator::LtEq => Operator::Gt,
        Operator::Gt => Operator::LtEq,
        Operator::GtEq => Operator::Lt,
        _ => return None,
    };
    let opposite = Expr::BinaryExpr(BinaryExpr { left: left.clone(), op, right: right.clone() });
    Some(AppliedKind::Bounds { column: place, opposite })
}

/// True if no row of a file has null in a column.
pub(crate) fn has_no_nulls(file: &FileEntry, schema: &Schema, column: usize) -> bool {
    let known = file.statistics.column_statistics.get(column).map(|statistics| &statistics.null_count);
    !schema.field(column).is_nullable() || known == Some(&Precision::Exact(0))
}

/// The columns that a plan reads for filters beside those of a projection.
pub(crate) fn read_columns(
    projection: Option<&Vec<usize>>,
    filters: &[&Expr],
    schema: &Schema,
) -> Result<Vec<usize>> {
    let mut columns = match projection {
        None => (0..schema.fields().len()).collect(),
        Some(projection) => projection.clone(),
    };
    let mut needed = Vec::new();
    for filter in filters {
        for column in filter.column_refs() {
            needed.push(schema.index_of(column.name())?);
        }
    }
    // In their own order, whatever the order of a set.
    needed.sort_unstable();
    needed.dedup();
    needed.retain(|column| !columns.contains(column));
    columns.extend(needed);
    Ok(columns)
}

/// The rows of a plan over these columns for which all filters are true, with its first columns.
pub(crate) fn filtered(
    state: &dyn Session,
    input: Arc<dyn ExecutionPlan>,
    filters: &[&Expr],
    columns: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(filter) = conjunction(filters.iter().map(|filter| (*filter).clone())) else { return Ok(input) };
    let schema = DFSchema::try_from(input.schema())?;
    let predicate = state.create_physical_expr(filter, &schema)?;
    let all = input.schema().fields().len();
    let projection = (columns < all).then(|| (0..columns).collect::<Vec<_>>());
    let filter = FilterExecBuilder::new(predicate, input)
        .with_batch_size(state.config().batch_size())
        .apply_projection(projection)?;
    Ok(Arc::new(filter.build()?))
}
