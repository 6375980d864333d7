//! Slices the input of a grouping with many grouping sets into small batches.
//!
//! ```text
//! before: AggregateExec: gby=[CUBE of twelve keys]     after: AggregateExec: gby=[CUBE of twelve keys]
//!           input                                               CooperativeExec
//!                                                                 SlicedExec
//!                                                                   input
//! ```
//!
//! DataFusion computes all grouping sets of a batch in one call. `CUBE` of twelve keys makes 4,096 copies of the keys of
//! 8,192 rows. These are gigabytes that no pool counts, and the call ends only when it has grouped them all. Therefore
//! the batches are cut into slices, and the statement is checked before each slice ([`watched`](crate::watched)). Cutting
//! copies nothing.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures_util::{Stream, StreamExt};

use crate::watched;

/// Rows times grouping sets that one call may compute.
const CELLS_MAX: usize = 1 << 16;
/// Number of sets below which batches are not divided.
const SETS_MIN: usize = 16;

/// The plan, with the input of large groupings sliced.
pub(crate) fn sliced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(grouping) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        let sets = grouping.group_expr().groups().len();
        if sets < SETS_MIN {
            return Ok(Transformed::no(node));
        }
        let rows = (CELLS_MAX / sets).max(1);
        let slices = Arc::new(SlicedExec { input: Arc::clone(grouping.input()), rows });
        let input: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(slices));
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(node.replace_children(vec![input], options)?))
    })
    .data()
}

/// Its input, cut into batches of at most `rows`.
#[derive(Debug)]
pub(crate) struct SlicedExec {
    pub(crate) input: Arc<dyn ExecutionPlan>,
    pub(crate) rows: usize,
}

impl DisplayAs for SlicedExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlicedExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for SlicedExec {
    fn name(&self) -> &'static str {
        "SlicedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(SlicedExec { input, rows: self.rows }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(SlicedStream { input, rows: self.rows, rest: None }))
    }
}

struct SlicedStream {
    input: SendableRecordBatchStream,
    rows: usize,
    /// The rest of a batch.
    rest: Option<RecordBatch>,
}

impl Stream for SlicedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = watched::check() {
            return Poll::Ready(Some(Err(error)));
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        if batch.num_rows() <= self.rows {
            return Poll::Ready(Some(Ok(batch)));
        }
        self.rest = Some(batch.slice(self.rows, batch.num_rows() - self.rows));
        Poll::Ready(Some(Ok(batch.slice(0, self.rows))))
    }
}

impl RecordBatchStream for SlicedStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
