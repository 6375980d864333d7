//! The tries of a statement on several machines.
//!
//! The first rows are held back, so that a statement whose worker fails runs again as if nothing had happened: on the workers that can
//! still be reached, [`TRIES`] times in all. Whatever else fails, it runs here: an error of the statement itself is then the one that a
//! single machine reports, with its place.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, execute_stream,
    execution_plan::reset_plan_states,
};
use datafusion_distributed::{
    DistributedMetricsFormat, NetworkBoundaryExt, rewrite_distributed_plan_with_metrics,
};
use futures_util::{StreamExt, stream};
use tonic::{Code, Status};

use super::statements::BUSY;
use super::{DistributedPlan, shown};
use crate::guarded::guard;
use crate::run::Run;
use crate::sliced::sliced;
use crate::stoppable::stoppable_join;
use crate::{ErrorKind, SqlError};

/// Partitions of a plan that is divided: where there is one, there is nothing to divide.
const PARTITIONS_MIN: usize = 2;
/// Bytes of a join's side that each task gets whole, at most, and the part of a statement's memory that it may have. Where only the
/// rows are known, each counts as so many bytes.
const WHOLE_SIDE_BYTES: usize = 32 << 20;
const WHOLE_SIDE_SHARE: usize = 16;
const WHOLE_SIDE_ROW_BYTES: usize = 32;
/// The time for which a statement waits for the counts of its tasks once its rows are complete.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(1);
/// Tries on several machines.
const TRIES: usize = 3;
/// The pause before a worker that has no place is asked again, and how often it is.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const BUSY_TRIES: usize = 600;

/// The end of a try before it returned a row.
enum Failure {
    /// A worker could not be reached, or went away.
    Worker(DataFusionError),
    /// A worker has no place.
    Busy,
    /// Anything else.
    Other(DataFusionError),
}

impl Failure {
    fn of(error: DataFusionError) -> Failure {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(text) if text == BUSY => Failure::Busy,
            _ if is_lost_worker(&error) => Failure::Worker(error),
            _ => Failure::Other(error),
        }
    }
}

/// Whether an error is that of a worker that is gone, or does not answer.
pub(super) fn is_lost_worker(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(of_transport) if is_lost(&**of_transport))
}

/// The texts by which a worker reports that another one, whose rows it read, is gone.
const LOST: [&str; 6] = [
    "transport error",
    "http2 error",
    "h2 protocol error",
    "tcp connect error",
    "connection closed",
    "error trying to connect",
];

/// Whether an error is the transport's, of a peer that is gone. Errors of a statement on a worker are none of the transport.
fn is_lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    match error.downcast_ref::<Status>() {
        Some(status) => matches!(
            status.code(),
            Code::Unavailable | Code::Cancelled | Code::Aborted | Code::DeadlineExceeded | Code::Unknown
        ),
        None => {
            let text = error.to_string();
            LOST.iter().any(|lost| text.contains(lost))
        }
    }
}

impl Run {
    /// The rows of a query that is divided; none if it runs here.
    pub(crate) async fn open_divided(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        physical: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<SendableRecordBatchStream>, SqlError> {
        let Some(distribution) = &self.inner.distribution else { return Ok(None) };
        if distribution.why_here(physical, self.options.distributed)?.is_some() || !can_be_divided(plan)? {
            return Ok(None);
        }
        let mut divided = match self.divide(state, plan, physical, distribution.workers()).await {
            Ok(Some(divided)) => divided,
            // It has no parts.
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::debug!(%error, "the statement runs on this node: it cannot be divided");
                return Ok(None);
            }
        };
        distribution.counts.divided.fetch_add(1, Ordering::Relaxed);
        let (mut lost, mut busy) = (0, 0);
        let mut workers = distribution.workers().to_vec();
        loop {
            match self.first_rows(divided).await {
                Ok(rows) => return Ok(Some(rows)),
                Err(Failure::Busy) if busy < BUSY_TRIES => {
                    busy += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(Failure::Worker(error)) if lost + 1 < TRIES => {
                    lost += 1;
                    distribution.counts.repeated.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, lost, "a worker failed: the statement runs again on the others");
                    workers = distribution.reachable().await;
                    if workers.len() < 2 {
                        tracing::warn!(
                            "the statement runs on this node: fewer than two workers can be reached"
                        );
                        break;
                    }
                }
                Err(Failure::Worker(error) | Failure::Other(error)) => {
                    tracing::warn!(%error, "the statement runs on this node: it failed on several");
                    break;
                }
                Err(Failure::Busy) => {
                    return Err(SqlError::new(ErrorKind::Limit, "all workers run as many statements as they may")
                        .with_hint("Try again, raise sql.statements_max on the workers, or set swiftwater.distributed to never."));
                }
            }
            match self.divide(state, plan, physical, &workers).await? {
                Some(again) => divided = again,
                None => break,
            }
        }
        distribution.counts.run_here.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    /// The plan of operators for a query.
    async fn physical(&self, state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = guard(state.optimize(plan)?, self.inner.options.memory_bytes_max)?;
        state.query_planner().create_physical_plan(&optimized, state).await
    }

    /// The place where a query runs, and its stages if there are several.
    pub(crate) async fn distribution_shown(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<Option<String>, SqlError> {
        let Some(distribution) = &self.inner.distribution else { return Ok(None) };
        let physical = self.physical(state, plan).await?;
        if let Some(why) = distribution.why_here(&physical, self.options.distributed)? {
            return Ok(Some(format!("on this node: {why}")));
        }
        if !can_be_divided(plan)? {
            return Ok(Some(
                "on this node: a function over a window, or a subquery for a value, runs on one machine"
                    .to_owned(),
            ));
        }
        Ok(Some(match self.divide(state, plan, &physical, distribution.workers()).await {
            Ok(Some(divided)) => format!("on {} workers\n{}", distribution.workers().len(), shown(&divided)),
            Ok(None) => "on this node: the statement has no parts for several machines".to_owned(),
            Err(error) => format!("on this node: {}", error.strip_backtrace()),
        }))
    }

    async fn divide(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        physical: &Arc<dyn ExecutionPlan>,
        workers: &[url::Url],
    ) -> Result<Option<DistributedPlan>> {
        let Some(distribution) = &self.inner.distribution else { return Ok(None) };
        // Each try has a plan of its own: a scan that was begun has given some of its files away.
        let (mut state, mut physical) = (Cow::Borrowed(state), reset_plan_states(Arc::clone(physical))?);
        let is_planned_again = state.config().target_partitions() < PARTITIONS_MIN
            || physical.exists(|node| Ok(node.is::<ScalarSubqueryExec>() || node.is::<HashJoinExec>()))?;
        if is_planned_again {
            let settings = state.to_mut().config_mut().options_mut();
            settings.execution.target_partitions = settings.execution.target_partitions.max(PARTITIONS_MIN);
            // A value that is computed beside a plan does not reach its tasks: it is joined instead.
            settings.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
            // A side that each task has whole is sent once for each; otherwise the rows of both sides are sent.
            let bytes = (self.inner.options.memory_bytes_max / WHOLE_SIDE_SHARE).min(WHOLE_SIDE_BYTES);
            settings.optimizer.hash_join_single_partition_threshold = bytes;
            settings.optimizer.hash_join_single_partition_threshold_rows = bytes / WHOLE_SIDE_ROW_BYTES;
            physical = self.physical(&state, plan).await?;
        }
        let wanted = self.options.distributed;
        distribution.divide(sliced(physical)?, &state, wanted, workers, &self.progress).await
    }

    /// Starts a divided plan, up to as many rows as are held back.
    async fn first_rows(&self, divided: DistributedPlan) -> Result<SendableRecordBatchStream, Failure> {
        let DistributedPlan { plan, state, pinned, headers } = divided;
        let plan = stoppable_stage(plan).map_err(Failure::Other)?;
        self.progress.begin(&plan);
        let reading = self.inner.distribution.as_ref();
        let reading = reading.map(|distribution| distribution.read_progress(headers, &self.progress));
        let mut rows = execute_stream(Arc::clone(&plan), state.task_ctx()).map_err(Failure::of)?;
        let (mut held, mut bytes) = (Vec::new(), 0_usize);
        let hold_bytes = self.inner.distribution.as_ref().map_or(0, |distribution| distribution.hold_bytes());
        loop {
            match rows.next().await {
                Some(Ok(batch)) => {
                    bytes = bytes.saturating_add(row_bytes(&batch));
                    held.push(batch);
                    if bytes >= hold_bytes {
                        break;
                    }
                }
                Some(Err(error)) => return Err(Failure::of(error)),
                None => break,
            }
        }
        let schema = rows.schema();
        let held = stream::iter(held.into_iter().map(Ok::<RecordBatch, DataFusionError>));
        let progress = Arc::clone(&self.progress);
        let counted = stream::once(async move {
            let counts = rewrite_distributed_plan_with_metrics(plan, DistributedMetricsFormat::Aggregated);
            if let Ok(Ok(plan)) = tokio::time::timeout(COUNTS_TIMEOUT, counts).await {
                progress.measured(plan);
            }
            // The leaves of this node are pinned until here.
            drop((pinned, reading));
        });
        let counted = counted.filter_map(|()| std::future::ready(None));
        let all = held.chain(rows.fuse()).chain(counted);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}

/// The stage that runs here, with joins that end when they are told to.
fn stoppable_stage(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if node.is_network_boundary() || node.children().is_empty() {
        return Ok(node);
    }
    let inputs = node.children().into_iter().map(|input| stoppable_stage(Arc::clone(input)));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let node = node.replace_children(inputs, options)?;
    Ok(stoppable_join(&node)?.unwrap_or(node))
}

/// Bytes of a batch's rows. Its buffers may have those of other batches, too.
pub(super) fn row_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
    columns.fold(0, usize::saturating_add)
}

/// The functions over windows whose messages have all that they are. DataFusion 55 leaves `IGNORE NULLS`, and that a function goes
/// backwards, out of the messages of others.
const WINDOW_FUNCTIONS: [&str; 19] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "var_samp",
    "stddev_samp",
    "bool_and",
    "bool_or",
];

/// Whether a statement can be divided: it is a query, and all of it can be written as messages.
fn can_be_divided(plan: &LogicalPlan) -> Result<bool> {
    // Files are written by this node alone.
    if matches!(plan, LogicalPlan::Copy(_) | LogicalPlan::Explain(_)) {
        return Ok(false);
    }
    let mut can_be = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                can_be &= match expr {
                    Expr::WindowFunction(window) => {
                        window.params.filter.is_none()
                            && window.params.null_treatment.is_none()
                            && WINDOW_FUNCTIONS.contains(&window.fun.name())
                    }
                    // It is joined, and more rows than one would multiply those that it is joined with: no error.
                    Expr::ScalarSubquery(query) if query.outer_ref_columns.is_empty() => {
                        query.subquery.max_rows().is_some_and(|rows| rows <= 1)
                    }
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if can_be { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(can_be)
}
