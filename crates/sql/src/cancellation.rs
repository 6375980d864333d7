//! Cancels a statement inside operators that return no rows for a long time.
//!
//! ```text
//! before: HashJoinExec: filter=c     after: CooperativeExec
//!                                             HashJoinExec: filter=WhileWanted(c)
//! ```
//!
//! An aborted task ends only when it next yields, and DataFusion's operators yield according to what their leaves have
//! read. A join turns few input rows into many. From one batch it returns thousands of batches, or, if its condition
//! never matches, visits all pairs without returning any. Therefore the rows that a join returns count as read. Its
//! condition checks for cancellation at each batch of pairs.
//!
//! Limits: a cancel does not interrupt one batch of any other operator, nor a window function over one large partition.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{cancelled, shutting_down};
use crate::{ErrorKind, SqlError};

/// Time that a stopped run has to end by itself before its client is answered without it.
const GRACE: Duration = Duration::from_millis(1000);

/// Stop signal and time limit of a run of statements.
#[derive(Debug)]
pub(crate) struct Cancellation {
    told: AtomicBool,
    /// The same, for who waits for it.
    changes: watch::Sender<bool>,
    /// True if all runs end, rather than because of its reader.
    is_shutdown: AtomicBool,
    /// End of the time limit, and its duration.
    end: Option<(Instant, Duration)>,
}

impl Cancellation {
    /// The state for a run that begins now.
    pub(crate) fn new(duration_max: Option<Duration>) -> Cancellation {
        let end = duration_max.and_then(|duration| Some((Instant::now().checked_add(duration)?, duration)));
        let (changes, _) = watch::channel(false);
        Cancellation { told: AtomicBool::new(false), changes, is_shutdown: AtomicBool::new(false), end }
    }

    /// Cancels the run: nobody needs its result any more.
    pub(crate) fn cancel(&self) {
        self.told.store(true, Ordering::Relaxed);
        self.changes.send_replace(true);
    }

    /// Completes [`GRACE`] after the run was stopped or its time was over, with the reason.
    ///
    /// A run that computes without yielding does not notice either before it yields. Its client gets this error instead of
    /// waiting. The abandoned run keeps its place among those that run until it yields, so there are never more than
    /// `statements_max` of them.
    pub(crate) async fn grace_expired(self: Arc<Cancellation>) -> SqlError {
        let mut changes = self.changes.subscribe();
        let told = async {
            // The sender is part of `self`, so it outlives this.
            let _ = changes.wait_for(|told| *told).await;
        };
        match self.end {
            None => told.await,
            Some((at, _)) => tokio::select! {
                () = told => {}
                () = tokio::time::sleep_until(at) => {}
            },
        }
        tokio::time::sleep(GRACE).await;
        self.check().err().unwrap_or_else(cancelled)
    }

    /// All runs end.
    pub(crate) fn report_shutdown(&self) {
        self.is_shutdown.store(true, Ordering::Relaxed);
        self.cancel();
    }

    /// The reason why the run was stopped.
    pub(crate) fn why(&self) -> SqlError {
        if self.is_shutdown.load(Ordering::Relaxed) { shutting_down() } else { cancelled() }
    }

    /// An error once it is not wanted any more, or its time is over.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        if self.told.load(Ordering::Relaxed) {
            return Err(self.why());
        }
        match self.end {
            Some((at, duration)) if at <= Instant::now() => Err(timeout_error(duration)),
            _ => Ok(()),
        }
    }
}

/// The error of a statement that exceeded its time limit.
pub(crate) fn timeout_error(duration: Duration) -> SqlError {
    SqlError::new(ErrorKind::Limit, format!("the statement took longer than {} ms", duration.as_millis()))
}

/// The plan, with joins that end when they are told to.
pub(crate) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Arc<Cancellation>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        Ok(match stoppable_join(&node, stop)? {
            Some(join) => Transformed::yes(Arc::new(CooperativeExec::new(join))),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// The join, if the node is one, as it ends when it is told to.
pub(crate) fn stoppable_join(
    node: &Arc<dyn ExecutionPlan>,
    stop: &Arc<Cancellation>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let looking = |filter: &JoinFilter| {
        let condition = Arc::new(CancellableCondition {
            condition: Arc::clone(filter.expression()),
            stop: Arc::clone(stop),
        });
        JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    if node.downcast_ref::<CrossJoinExec>().is_some() {
        return Ok(Some(Arc::clone(node)));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let filter = join.filter().map(looking);
        return Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = join.filter().map(looking);
        return Ok(Some(join.builder().with_filter(filter).build_exec()?));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let join = SortMergeJoinExec::try_new(
            Arc::clone(&join.left),
            Arc::clone(&join.right),
            join.on.clone(),
            join.filter.as_ref().map(looking),
            join.join_type,
            join.sort_options.clone(),
            join.null_equality,
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

/// The condition of a join; an error once the statement is cancelled.
#[derive(Debug)]
struct CancellableCondition {
    condition: Arc<dyn PhysicalExpr>,
    stop: Arc<Cancellation>,
}

// All conditions of one statement have the same `stop`.
impl PartialEq for CancellableCondition {
    fn eq(&self, other: &CancellableCondition) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for CancellableCondition {}

impl Hash for CancellableCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for CancellableCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.condition, f)
    }
}

impl PhysicalExpr for CancellableCondition {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.stop.check()?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| Arc::clone(&self.condition));
        Ok(Arc::new(CancellableCondition { condition, stop: Arc::clone(&self.stop) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
