//! Statements over several machines, by datafusion-distributed.
//!
//! ```text
//! before: AggregateExec: Final      after: AggregateExec: Final
//!           RepartitionExec                  NetworkShuffleExec     <- from every worker
//!             AggregateExec: Partial           RepartitionExec
//!               scan of 300 files                AggregateExec: Partial
//!                                                  DistributedLeafExec: 100 files for each of 3 workers
//! ```
//!
//! A statement is planned here as always. If its scans read enough ([`DistributionOptions::above_bytes`]) and there are workers, it is
//! planned again and divided into stages. A stage's tasks run on workers; the last stage runs here. Stored files are read by the
//! workers themselves. Rows that are not in files stay here ([`pinned`]). A statement that cannot be divided, or with an operator that
//! only one machine can run, runs here; `EXPLAIN` says why.
//!
//! A worker that fails ends the try. The statement runs again, as long as no row was returned, and at last here.

mod attempt;
mod channel;
mod codec;
mod functions;
mod headers;
mod pinned;
mod service;
mod statements;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeSet;
use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion_distributed::grpc::create_worker_client;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec, DistributedExt,
    DistributedLeafExec, GetWorkerInfoRequest, NetworkBoundaryExt, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, WorkerResolver, display_plan_ascii,
};
use tokio::runtime::Handle;
use url::Url;

use channel::{Channels, Connections};
use codec::PlanCodec;
use functions::Functions;
use headers::WorkerHeaders;
use pinned::{PinnedExec, PinnedPlans, PinnedStatement};
use statements::TaskStatements;
use worker::TaskSessions;

use crate::session::Sessions;
use crate::{Distributed, DistributionReading, ErrorKind, Progress, SqlError, SqlOptions};

/// The machines on which statements may run, beside this node.
#[derive(Clone, Default)]
pub struct DistributionOptions {
    /// The addresses of workers, such as `http://10.0.0.6:8081`.
    pub workers: Vec<String>,
    /// The address under which workers reach this node.
    pub advertise: String,
    /// The secret that all nodes share; none: whoever reaches the port may use it.
    pub secret: Option<Arc<str>>,
    /// Bytes of files that a statement reads, from which on it runs on several machines.
    pub above_bytes: u64,
    /// Bytes of rows that are held back, so that a statement whose worker fails can run again.
    pub hold_bytes: usize,
    /// Reads and writes scans of stored files; none: there are none.
    pub files: Option<Arc<dyn StoredFiles>>,
}

impl fmt::Debug for DistributionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributionOptions").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Scans of stored files as messages to other machines. DataFusion's own message of a scan has its files, columns and filters; this
/// has what else a scan of tables needs.
pub trait StoredFiles: Send + Sync + 'static {
    /// The bytes for a scan; an error if it is none of stored files.
    fn encode(&self, scan: &FileScanConfig) -> Result<Vec<u8>>;

    /// The scan of a message. `scan` is what DataFusion's message says.
    fn decode(&self, bytes: &[u8], scan: FileScanConfig, runtime: &RuntimeEnv) -> Result<FileScanConfig>;
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct DistributionCounts {
    /// Statements that were divided.
    pub(crate) divided: AtomicU64,
    /// Tries after one that a lost worker ended.
    pub(crate) repeated: AtomicU64,
    /// Those statements that ran on this node in the end.
    pub(crate) run_here: AtomicU64,
    /// Tasks of other nodes' statements that were begun here.
    pub(crate) tasks: Arc<AtomicU64>,
}

/// Divides the statements of a node's sessions.
pub(crate) struct Distribution {
    options: DistributionOptions,
    memory_bytes_max: usize,
    workers: Vec<Url>,
    codec: Arc<PlanCodec>,
    pinned: Arc<PinnedPlans>,
    /// The statements of other nodes with tasks here.
    tasks: Arc<TaskStatements>,
    connections: Arc<Connections>,
    statements: AtomicU64,
    pub(crate) counts: DistributionCounts,
}

/// A plan that runs on several machines.
pub(crate) struct DistributedPlan {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) state: SessionState,
    /// The leaves that workers read here, as long as the plan runs.
    pinned: PinnedStatement,
    /// The headers of its calls.
    headers: WorkerHeaders,
}

/// The addresses of workers.
struct Workers(Vec<Url>);

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Gives a plan that is made already to the library's planner.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(
        &self,
        _plan: &LogicalPlan,
        _session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

fn invalid(text: String) -> SqlError {
    SqlError::new(ErrorKind::Invalid, text)
}

impl Distribution {
    pub(crate) fn new(
        options: &DistributionOptions,
        sessions: &Arc<Sessions>,
        sql: &SqlOptions,
        connections: Handle,
    ) -> Result<Distribution, SqlError> {
        let workers = options.workers.iter().map(|worker| {
            let url = Url::parse(worker).ok().filter(|url| url.scheme() == "http" && url.has_host());
            url.ok_or_else(|| {
                invalid(format!("`{worker}` is no address of a worker"))
                    .with_hint("Write http://10.0.0.6:8081.")
            })
        });
        let workers = workers.collect::<Result<Vec<_>, SqlError>>()?;
        let pinned = Arc::new(PinnedPlans::new(options.advertise.clone()));
        let functions = Functions::new(sessions.template().clone(), sql.memory_bytes_max);
        let codec = PlanCodec { functions, files: options.files.clone(), pinned: Arc::clone(&pinned) };
        let (own, memory) = (Arc::clone(&pinned), sql.memory_bytes_max);
        let tasks = TaskStatements::new(Arc::clone(sessions), memory, sql.statements_max, own);
        Ok(Distribution {
            options: options.clone(),
            memory_bytes_max: sql.memory_bytes_max,
            workers,
            codec: Arc::new(codec),
            pinned,
            tasks: Arc::new(tasks),
            connections: Arc::new(Connections::new(connections)),
            // Statements of a node that was started again are others.
            statements: AtomicU64::new(uuid::Uuid::new_v4().as_u64_pair().0),
            counts: DistributionCounts::default(),
        })
    }

    /// Bytes that each of so many connections may hold.
    fn connection_bytes(&self, connections: usize) -> usize {
        let share = self.memory_bytes_max / (CONNECTIONS_SHARE * connections.max(1));
        share.clamp(CONNECTION_BYTES.start, CONNECTION_BYTES.end)
    }

    /// Rows of a batch that is sent, so that as many streams can be merged within the memory of a statement.
    fn batch_rows(&self, most: usize, streams: usize) -> usize {
        let rows = self.memory_bytes_max / (ROW_BYTES * streams.max(1));
        rows.max(BATCH_ROWS_MIN).min(most)
    }

    /// The counts since the start, and of what runs.
    pub(crate) fn read(&self) -> DistributionReading {
        DistributionReading {
            divided: self.counts.divided.load(Ordering::Relaxed),
            repeated: self.counts.repeated.load(Ordering::Relaxed),
            run_here: self.counts.run_here.load(Ordering::Relaxed),
            tasks: self.counts.tasks.load(Ordering::Relaxed),
            statements_served: self.tasks.running(),
            received_bytes: self.connections.received_bytes(),
        }
    }

    pub(crate) fn workers(&self) -> &[Url] {
        &self.workers
    }

    fn hold_bytes(&self) -> usize {
        self.options.hold_bytes
    }

    /// The workers that answer within a second. One that refuses to say more, for want of the secret, answers too.
    async fn reachable(&self) -> Vec<Url> {
        let asked = self.workers.iter().map(|worker| async move {
            let mut channel = create_worker_client(self.connections.to(worker).ok()?);
            let answered = channel.get_worker_info(GetWorkerInfoRequest {});
            let is_there = match tokio::time::timeout(PROBE, answered).await {
                Err(_) => false,
                Ok(Ok(_)) => true,
                Ok(Err(error)) => !attempt::is_lost_worker(&error),
            };
            is_there.then(|| worker.clone())
        });
        futures_util::future::join_all(asked).await.into_iter().flatten().collect()
    }

    /// Whether a statement is divided, however little it reads.
    fn is_always(&self, wanted: Distributed) -> bool {
        wanted == Distributed::Always || self.options.above_bytes == 0
    }

    /// The reason why a statement runs here, or none if it is to be divided.
    pub(crate) fn why_here(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        wanted: Distributed,
    ) -> Result<Option<String>> {
        if wanted == Distributed::Never {
            return Ok(Some("swiftwater.distributed is never".to_owned()));
        }
        if self.workers.len() < 2 {
            return Ok(Some(format!("sql.workers has {} workers", self.workers.len())));
        }
        let bytes = file_bytes(plan)?;
        let is_small = !self.is_always(wanted) && bytes < self.options.above_bytes;
        Ok(is_small.then(|| {
            format!(
                "{bytes} bytes of files are read, and sql.distribute_above_bytes is {}",
                self.options.above_bytes
            )
        }))
    }

    /// Divides a plan; none if it has nothing to divide.
    pub(crate) async fn divide(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        wanted: Distributed,
        workers: &[Url],
        progress: &Arc<Progress>,
    ) -> Result<Option<DistributedPlan>> {
        let statement = self.statements.fetch_add(1, Ordering::Relaxed);
        let mut pinned = self.pinned.statement(statement);
        let partitions = state.config().target_partitions().max(1) as u64;
        let a_task = file_bytes(&plan)? / (workers.len().max(1) as u64 * partitions);
        let plan = plan.transform_up(|node| {
            Ok(match node.children().is_empty() && !travels(&node) {
                true => Transformed::yes(Arc::new(pinned.pin(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        });
        let plan = plan.data()?;
        let headers = WorkerHeaders::new(self.options.secret.as_ref(), statement)?;
        let channels = Channels {
            connections: Arc::clone(&self.connections),
            codec: Arc::clone(&self.codec),
            headers: headers.clone(),
            progress: Some(Arc::clone(progress)),
        };
        let (tasks_max, is_always) = (workers.len(), self.is_always(wanted));
        let mut config = state.config().clone();
        config.set_extension(Arc::new(headers.clone()));
        let builder = SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_query_planner(Arc::new(Planned(plan)))
            .with_distributed_worker_resolver(Workers(workers.to_vec()))
            .with_distributed_channel_resolver(channels)
            .with_distributed_user_codec_arc(Arc::clone(&self.codec) as _)
            .with_distributed_file_scan_config_bytes_per_partition(
                usize::try_from(a_task).unwrap_or(usize::MAX).max(1),
            )?
            .with_distributed_worker_connection_buffer_budget_bytes(self.connection_bytes(workers.len()))?
            .with_distributed_shuffle_batch_size(
                self.batch_rows(state.config().batch_size(), workers.len() * partitions as usize),
            )?
            .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
                if !event.plan.children().is_empty() {
                    return None;
                }
                // Operators that need all rows in one partition take those of such a leaf as they are.
                if event.plan.properties().partitioning.partition_count() < 2 {
                    return Some(Ok(DesiredTaskCountEventResponse::maximum(1)));
                }
                let pinned = event.plan.downcast_ref::<PinnedExec>()?;
                let tasks = if is_always && pinned.is_at_hand() { tasks_max } else { 1 };
                Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
            })
            .with_distributed_scale_up_leaf_node_handler(shares_of_leaf)
            .with_distributed_planner();
        let state = builder.build();
        // The planner that has the plan looks at no other.
        let none = LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(datafusion::common::DFSchema::empty()),
        });
        let plan = state.query_planner().create_physical_plan(&none, &state).await?;
        if !is_divided(&plan)? {
            return Ok(None);
        }
        self.check_travels(&plan)?;
        Ok(Some(DistributedPlan { plan, state, pinned, headers }))
    }

    /// Checks that each stage below the last one can be written as a message.
    fn check_travels(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        plan.apply(|node| {
            let stage = node.as_network_boundary().map(|boundary| boundary.input_stage());
            if let Some(plan) = stage.and_then(|stage| stage.local_plan()) {
                self.codec.encode(without_boundaries(plan)?)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// Reads from time to time what a statement's tasks have read so far, until the task that is returned is dropped.
    fn read_progress(&self, headers: WorkerHeaders, progress: &Arc<Progress>) -> SpawnedTask<()> {
        let (connections, progress) = (Arc::clone(&self.connections), Arc::downgrade(progress));
        SpawnedTask::spawn(async move {
            loop {
                tokio::time::sleep(PROGRESS_INTERVAL).await;
                let Some(progress) = progress.upgrade() else { return };
                let nodes: BTreeSet<_> = progress.tasks().into_iter().map(|task| task.node).collect();
                for node in nodes {
                    let worker = Url::parse(&node).ok().and_then(|node| connections.to(&node).ok());
                    let Some(worker) = worker else { continue };
                    let read = service::progress(worker, headers.clone());
                    // A worker that does not answer leaves its numbers as they are.
                    if let Ok(Ok(read)) = tokio::time::timeout(PROBE, read).await {
                        for task in read.tasks {
                            progress.task_read(task.stage, task.task, task.rows, task.bytes);
                        }
                    }
                }
            }
        })
    }

    /// Serves the tasks of other nodes until `stop` completes.
    pub(crate) async fn serve(
        &self,
        sessions: Arc<Sessions>,
        threads: Handle,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), SqlError> {
        let sessions = TaskSessions {
            sessions,
            codec: Arc::clone(&self.codec),
            connections: Arc::clone(&self.connections),
            secret: self.options.secret.clone(),
            statements: Arc::clone(&self.tasks),
            tasks: Arc::clone(&self.counts.tasks),
        };
        worker::serve(sessions, threads, listener, stop).await
    }
}

/// The time in which a worker answers.
const PROBE: std::time::Duration = std::time::Duration::from_secs(1);

/// The time between two readings of the progress of a statement's tasks.
const PROGRESS_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// Bytes that a connection between two nodes may hold, at least and at most.
const CONNECTION_BYTES: std::ops::Range<usize> = 256 << 10..4 << 20;
/// The part of a statement's memory that all its connections on one node may hold.
const CONNECTIONS_SHARE: usize = 4;
/// Rows of a batch that is sent, at least.
const BATCH_ROWS_MIN: usize = 256;
/// Memory for each row of a batch of each stream that is merged: a merge has several batches of each, as they are and as keys.
const ROW_BYTES: usize = 16 << 10;

/// Bytes of the files that a plan's scans read.
fn file_bytes(plan: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let mut bytes = 0_u64;
    plan.apply(|node| {
        let scan = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        if let Some(scan) = scan.and_then(|source| source.downcast_ref::<FileScanConfig>()) {
            let files = scan.file_groups.iter().flat_map(|group| group.files());
            bytes = files.fold(bytes, |bytes, file| bytes.saturating_add(file.effective_size()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// Whether a leaf can be sent whole: it has no rows, or makes them of nothing, or reads files.
fn travels(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    let scan = leaf.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    scan.is_some_and(|source| source.is::<FileScanConfig>())
        || leaf.is::<EmptyExec>()
        || leaf.is::<PlaceholderRowExec>()
        || leaf.is::<LazyMemoryExec>()
}

fn is_divided(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<DistributedExec>()))
}

/// The leaf that several tasks read, and that may be pinned; any other operator as it is.
pub(crate) fn leaf_of_all_tasks(plan: &dyn ExecutionPlan) -> &dyn ExecutionPlan {
    let plan = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, |leaf| leaf.original().as_ref());
    plan.downcast_ref::<PinnedExec>().and_then(PinnedExec::leaf).map_or(plan, AsRef::as_ref)
}

/// The leaf as each task of a stage reads it.
fn shares_of_leaf(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let pinned = event.plan.downcast_ref::<PinnedExec>()?;
    let partitions = pinned.properties().partitioning.partition_count();
    let is_at_hand = pinned.is_at_hand();
    let shares = (0..event.task_count).map(|task| -> Arc<dyn ExecutionPlan> {
        match (is_at_hand, task) {
            (true, _) => Arc::new(pinned.with_share(task, event.task_count)),
            (false, 0) => Arc::new(pinned.clone()),
            (false, _) => Arc::new(EmptyExec::new(pinned.schema()).with_partitions(partitions)),
        }
    });
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), shares);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// The plan of a stage with empty inputs instead of those that come from other stages, and one task's share of each leaf.
fn without_boundaries(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = Arc::clone(plan).transform_down(|node| {
        if node.is_network_boundary() {
            let partitions = node.properties().partitioning.partition_count();
            let empty: Arc<dyn ExecutionPlan> =
                Arc::new(EmptyExec::new(node.schema()).with_partitions(partitions));
            return Ok(Transformed::new(empty, true, TreeNodeRecursion::Jump));
        }
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
            let first = leaf.variants().first().map_or_else(|| Arc::clone(leaf.original()), Arc::clone);
            return Ok(Transformed::new(first, true, TreeNodeRecursion::Jump));
        }
        Ok(Transformed::no(node))
    });
    plan.data()
}

/// The stages and tasks of a plan, as text.
fn shown(plan: &DistributedPlan) -> String {
    display_plan_ascii(plan.plan.as_ref(), false)
}
