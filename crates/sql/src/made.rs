//! Tables that are made of others, of rows at hand, or of rows that are made as they are read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Column;
use datafusion::datasource::{MemTable, ViewTable, provider_as_source};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::SqlError;

/// Batches that wait for who reads them.
const BATCHES_READY: usize = 2;

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

/// Rows that are made as a statement reads them, and made again whenever it reads them again: they are the same then.
pub trait RowsInTurn: Send + Sync + 'static {
    /// Makes them, in batches of the table's schema, until there are no more or `give` answers `false`: nobody wants them. Called
    /// on a thread that may wait; `give` waits until there is room.
    fn make(&self, give: &mut dyn FnMut(RecordBatch) -> bool) -> Result<(), SqlError>;
}

/// A table of rows that are made in turn: a few batches are in memory at a time.
pub fn rows_in_turn(
    schema: SchemaRef,
    rows: Arc<dyn RowsInTurn>,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let rows = InTurn { schema: Arc::clone(&schema), rows };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

struct InTurn {
    schema: SchemaRef,
    rows: Arc<dyn RowsInTurn>,
}

impl fmt::Debug for InTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurn").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for InTurn {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut ready = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_READY);
        let (to, rows) = (ready.tx(), Arc::clone(&self.rows));
        ready.spawn_blocking(move || Ok(rows.make(&mut |batch| to.blocking_send(Ok(batch)).is_ok())?));
        ready.build()
    }
}
