//! The channels to workers: the library's, which send plans as [`PlanCodec`] writes them, under the headers of the statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, ProducerHead, SetPlanRequest, TaskMetrics, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use http::HeaderMap;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;
use url::Url;

use super::attempt::row_bytes;
use super::codec::PlanCodec;
use super::headers::WorkerHeaders;
use super::statements::TaskNumber;
use crate::Progress;

/// The time in which a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A node that is silent is asked whether it is there, and is lost if it does not answer: it is dead, frozen or cut off.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that one stream may send before they are read.
const STREAM_BYTES: u32 = 1 << 20;
/// Those of a connection: as many as there can be, so that streams that nobody reads at present do not hold up others.
const CONNECTION_BYTES: u32 = (1 << 31) - 1;
/// Nodes whose connections are kept.
const NODES_MAX: usize = 10_000;

/// Connections to other nodes, one for each.
pub(super) struct Connections {
    /// The thread that reads and writes them: one that computes would not answer those who ask whether this node is there.
    thread: Handle,
    nodes: Mutex<HashMap<Url, BoxCloneSyncChannel>>,
    /// Bytes of rows that came from tasks of other nodes, as they are in memory.
    received: Arc<AtomicU64>,
}

/// Runs the tasks of connections on their thread.
struct OnThread(Handle);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for OnThread {
    fn execute(&self, task: F) {
        drop(self.0.spawn(task));
    }
}

impl Connections {
    pub(super) fn new(thread: Handle) -> Connections {
        Connections { thread, nodes: Mutex::default(), received: Arc::default() }
    }

    /// Bytes of rows that came from tasks of other nodes since the start.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The connection to a node, which is made when it is first used, and again when it was lost.
    pub(super) fn to(&self, node: &Url) -> Result<BoxCloneSyncChannel> {
        let mut connections = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.get(node) {
            return Ok(connection.clone());
        }
        let endpoint = Endpoint::from_shared(node.to_string())
            .map_err(|error| DataFusionError::External(Box::new(error)))?
            .executor(OnThread(self.thread.clone()))
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .tcp_nodelay(true);
        let connection = BoxCloneSyncChannel::new(endpoint.connect_lazy());
        if connections.len() >= NODES_MAX {
            connections.clear();
        }
        connections.insert(node.clone(), connection.clone());
        Ok(connection)
    }
}

/// The channels of one statement. Connections are shared by all statements.
#[derive(Clone)]
pub(super) struct Channels {
    pub(super) connections: Arc<Connections>,
    pub(super) codec: Arc<PlanCodec>,
    pub(super) headers: WorkerHeaders,
    /// The progress of the statement to which tasks are added; none on a worker.
    pub(super) progress: Option<Arc<Progress>>,
}

struct Channel {
    node: Url,
    inner: Box<dyn WorkerChannel>,
    codec: Arc<PlanCodec>,
    headers: WorkerHeaders,
    progress: Option<Arc<Progress>>,
    received: Arc<AtomicU64>,
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let inner = create_worker_client(self.connections.to(url)?);
        Ok(Box::new(Channel {
            node: url.clone(),
            inner,
            codec: Arc::clone(&self.codec),
            headers: self.headers.clone(),
            progress: self.progress.clone(),
            received: Arc::clone(&self.connections.received),
        }))
    }
}

impl Channel {
    fn with_ours(mut headers: HeaderMap, ours: &WorkerHeaders) -> HeaderMap {
        for (name, value) in &ours.0 {
            headers.insert(name, value.clone());
        }
        headers
    }
}

/// The messages of a task, which have its counts at the end: a task that nobody has read sends none, and who waits for those of all
/// tasks would wait in vain.
fn with_counts(
    answers: BoxStream<'static, Result<WorkerToCoordinatorMsg>>,
    operators: usize,
) -> BoxStream<'static, Result<WorkerToCoordinatorMsg>> {
    let has_counts = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&has_counts);
    let answers = answers.inspect_ok(move |message| {
        if matches!(message, WorkerToCoordinatorMsg::TaskMetrics(_)) {
            seen.store(true, Ordering::Relaxed);
        }
    });
    let rest = stream::once(async move {
        // There may be more operators where the task runs: those of the exchange. More counts than operators are ignored.
        let counts = TaskMetrics {
            pre_order_plan_metrics: vec![MetricsSet::new(); 2 * operators + 16],
            task_metrics: MetricsSet::new(),
        };
        (!has_counts.load(Ordering::Relaxed)).then_some(Ok(WorkerToCoordinatorMsg::TaskMetrics(counts)))
    });
    answers.chain(rest.filter_map(std::future::ready)).boxed()
}

#[async_trait]
impl WorkerChannel for Channel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        mut request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let mut operators = 0;
        if let MaybeEncoded::Decoded(plan) = request.plan {
            plan.apply(|_| {
                operators += 1;
                Ok(TreeNodeRecursion::Continue)
            })?;
            request.plan = MaybeEncoded::Encoded(self.codec.encode(plan)?);
        }
        let number = TaskNumber::of(&request.task_key);
        let headers = Channel::with_ours(headers, &self.headers.with_task(number)?);
        if let Some(progress) = &self.progress {
            progress.task_begun(number.stage, number.task, self.node.as_str());
        }
        let answers = self.inner.coordinator_channel(headers, request, messages, metrics, context).await?;
        Ok(with_counts(answers, operators))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        mut request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        if let ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Decoded(partitioning) } =
            &request.producer_head
        {
            let bytes = self.codec.encode_partitioning(partitioning)?;
            request.producer_head =
                ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Encoded(bytes) };
        }
        let headers = Channel::with_ours(headers, &self.headers);
        let rows = self.inner.execute_task(headers, request, metrics, context).await?;
        let counted = rows.into_iter().map(|rows| {
            let received = Arc::clone(&self.received);
            let rows = rows.inspect_ok(move |batch| {
                received.fetch_add(row_bytes(batch) as u64, Ordering::Relaxed);
            });
            rows.boxed()
        });
        Ok(counted.collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await
    }
}
