//! Writes `COPY … PARTITIONED BY`: sorts the rows by partition, and writes a limited number of partitions at a time.
//!
//! ```text
//! before: COPY (q) TO 'd/' PARTITIONED BY (k)     after: COPY (q ORDER BY k, q's own order) TO 'd/' PARTITIONED BY (k)
//! ```
//!
//! DataFusion opens a file for each partition that it meets, and closes all of them after the last row. An open Parquet
//! file takes hundreds of kilobytes that no limit counts. Therefore the rows are sorted first; the sort spills to disk
//! when memory is short. The sink receives runs of [`OPEN_MAX`] partitions and closes the files of a run at its end. A
//! partition is one file as before.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::partition;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Column, Result};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures_util::Stream;

/// Partitions whose files are written at the same time.
const OPEN_MAX: usize = 16;

/// The copy of the rows by partition, and in each in the order that they have, where the copy's query gives them one.
pub(crate) fn sorted(copy: CopyTo) -> Result<CopyTo> {
    if copy.partition_by.is_empty() {
        return Ok(copy);
    }
    let mut order: Vec<SortExpr> = Vec::new();
    for name in &copy.partition_by {
        let column = copy.input.schema().qualified_field_with_unqualified_name(name)?;
        order.push(Expr::Column(Column::from(column)).sort(true, true));
    }
    let by_partition = order.clone();
    order.extend_from_slice(order_of(&copy.input));
    let sort = |order| LogicalPlanBuilder::from(copy.input.as_ref().clone()).sort(order)?.build();
    // The sort key of the rows need not be a column of them.
    let input = sort(order).or_else(|_| sort(by_partition))?;
    Ok(CopyTo { input: Arc::new(input), ..copy })
}

/// The order of a plan's rows, if it says one.
fn order_of(plan: &LogicalPlan) -> &[SortExpr] {
    match plan {
        LogicalPlan::Sort(sort) => &sort.expr,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Limit(_) => {
            plan.inputs().first().map_or(&[], |input| order_of(input))
        }
        _ => &[],
    }
}

/// The plan, with its rows handed over in runs where it is that of a copy by partition.
pub(crate) fn in_runs(
    physical: Arc<dyn ExecutionPlan>,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(physical) };
    let Some(sink) = physical.downcast_ref::<DataSinkExec>().filter(|_| !copy.partition_by.is_empty()) else {
        return Ok(physical);
    };
    let (input, order) = (Arc::clone(sink.input()), sink.sort_order().clone());
    let schema = input.schema();
    let columns = copy.partition_by.iter().map(|name| Ok(schema.index_of(name)?)).collect::<Result<_>>()?;
    let runs = PartitionRunSink { sink: physical, columns };
    Ok(Arc::new(DataSinkExec::new(input, Arc::new(runs), order)))
}

/// Writes one run after another with another sink.
#[derive(Debug)]
struct PartitionRunSink {
    /// A [`DataSinkExec`].
    sink: Arc<dyn ExecutionPlan>,
    /// The columns whose values are the partitions, by their places.
    columns: Vec<usize>,
}

impl PartitionRunSink {
    fn sink(&self) -> &dyn DataSink {
        self.sink.downcast_ref::<DataSinkExec>().expect("it is one").sink()
    }
}

impl DisplayAs for PartitionRunSink {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InRuns ")?;
        self.sink().fmt_as(form, f)
    }
}

#[async_trait]
impl DataSink for PartitionRunSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.sink().schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let schema = data.schema();
        let left = RemainingRows { rows: data, batch: None, last: None, has_ended: false };
        let left = Arc::new(Mutex::new(left));
        let mut written = 0;
        loop {
            let run = Run {
                schema: Arc::clone(&schema),
                left: Arc::clone(&left),
                columns: self.columns.clone(),
                partitions: 0,
            };
            written += self.sink().write_all(Box::pin(run), context).await?;
            if left.lock().unwrap_or_else(PoisonError::into_inner).has_ended {
                return Ok(written);
            }
        }
    }
}

/// Sorted rows that are in no run yet.
struct RemainingRows {
    rows: SendableRecordBatchStream,
    batch: Option<RecordBatch>,
    /// The last row's partition.
    last: Option<Vec<ArrayRef>>,
    has_ended: bool,
}

/// The rows of the next partitions.
struct Run {
    schema: SchemaRef,
    left: Arc<Mutex<RemainingRows>>,
    columns: Vec<usize>,
    /// Number of partitions that it has begun.
    partitions: usize,
}

impl Run {
    /// Number of rows from the beginning that belong to the run.
    fn length(&mut self, left: &RemainingRows, batch: &RecordBatch) -> Result<usize> {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
        let ranges: Vec<Range<usize>> = partition(&columns)?.ranges();
        for (number, range) in ranges.iter().enumerate() {
            let goes_on = number == 0
                && self.partitions > 0
                && left.last.as_ref().is_some_and(|last| is_same(last, &columns));
            if !goes_on && self.partitions == OPEN_MAX {
                return Ok(range.start);
            }
            self.partitions += usize::from(!goes_on);
        }
        Ok(batch.num_rows())
    }
}

/// Returns true if the one row of `last` has the values of the first row of `columns`.
fn is_same(last: &[ArrayRef], columns: &[ArrayRef]) -> bool {
    last.iter().zip(columns).all(|(last, column)| last.as_ref() == column.slice(0, 1).as_ref())
}

impl Stream for Run {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let left = Arc::clone(&self.left);
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = match left.batch.take() {
            Some(batch) => batch,
            None => match ready!(Pin::new(&mut left.rows).poll_next(context)) {
                Some(Ok(batch)) => batch,
                other => {
                    left.has_ended = true;
                    return Poll::Ready(other);
                }
            },
        };
        if batch.num_rows() == 0 {
            return Poll::Ready(Some(Ok(batch)));
        }
        let length = self.length(&left, &batch)?;
        if length < batch.num_rows() {
            left.batch = Some(batch.slice(length, batch.num_rows() - length));
        }
        if length == 0 {
            return Poll::Ready(None);
        }
        let last = self.columns.iter().map(|column| batch.column(*column).slice(length - 1, 1));
        left.last = Some(last.collect());
        Poll::Ready(Some(Ok(batch.slice(0, length))))
    }
}

impl RecordBatchStream for Run {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
