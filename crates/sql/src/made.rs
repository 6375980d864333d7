//! Tables that are made of others, or of rows at hand.

use std::ops::Range;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::datasource::{MemTable, ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};

use crate::SqlError;

/// The rows of a table whose whole number in `column` lies in a range; those for which it is null are not among them.
///
/// The condition goes into the table's own scan, which may leave out files by it.
pub fn rows_between(
    table: Arc<dyn TableProvider>,
    column: &str,
    range: Range<u64>,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let bound = |offset: u64| lit(i64::try_from(offset).unwrap_or(i64::MAX));
    let column = || Expr::Column(Column::from_name(column));
    let is_in_range = column().gt_eq(bound(range.start)).and(column().lt(bound(range.end)));
    let plan =
        LogicalPlanBuilder::scan("rows", provider_as_source(table), None)?.filter(is_in_range)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// A table of these rows.
pub fn rows_at_hand(rows: RecordBatch) -> Result<Arc<dyn TableProvider>, SqlError> {
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}
