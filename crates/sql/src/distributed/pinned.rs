//! Rows that are not in files: the tail of a stream, a view, a table of the engine itself. They stay where they are, pinned for
//! the statement, and the machines that want them read them there.
//!
//! ```text
//! before: DataSourceExec: 1 partition of rows      after: PinnedExec: DataSourceExec: …
//! ```
//!
//! A plan that travels has the address of the node, the statement and the number of the leaf instead of rows.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use datafusion_distributed::{
    ExecuteTaskRequest, MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, WorkerChannel,
    WorkerToCoordinatorMsg, get_distributed_channel_resolver,
};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::oneshot;
use url::Url;
use uuid::Uuid;

use super::headers::WorkerHeaders;

/// The leaf of a statement, as a message.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PinnedMessage {
    /// The address of the node that has the rows.
    #[prost(string, tag = "1")]
    node: String,
    #[prost(uint64, tag = "2")]
    statement: u64,
    #[prost(uint64, tag = "3")]
    leaf: u64,
    #[prost(uint64, tag = "4")]
    partitions: u64,
    #[prost(message, optional, tag = "5")]
    schema: Option<datafusion_proto::protobuf::Schema>,
    /// The share of a task in the rows, and the number of shares.
    #[prost(uint64, tag = "6")]
    share: u64,
    #[prost(uint64, tag = "7")]
    shares: u64,
    /// The number of the node's process, by which it knows itself.
    #[prost(uint64, tag = "8")]
    process: u64,
}

/// The number of a statement, and of a leaf in it.
type LeafKey = (u64, u64);

/// The leaves that this node has pinned.
#[derive(Debug, Default)]
pub(super) struct PinnedPlans {
    /// The address under which others reach this node.
    node: String,
    /// A number that no other node has.
    process: u64,
    leaves: Mutex<HashMap<LeafKey, Arc<dyn ExecutionPlan>>>,
}

/// The leaves of one statement. They are pinned as long as this exists.
#[derive(Debug)]
pub(super) struct PinnedStatement {
    plans: Arc<PinnedPlans>,
    statement: u64,
    leaves: u64,
}

impl PinnedPlans {
    pub(super) fn new(node: String) -> PinnedPlans {
        PinnedPlans { node, process: Uuid::new_v4().as_u64_pair().0, leaves: Mutex::default() }
    }

    pub(super) fn statement(self: &Arc<Self>, statement: u64) -> PinnedStatement {
        PinnedStatement { plans: Arc::clone(self), statement, leaves: 0 }
    }

    /// Whether a statement is one of this node.
    pub(super) fn is_of(&self, statement: u64) -> bool {
        self.lock().keys().any(|(of, _)| *of == statement)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<LeafKey, Arc<dyn ExecutionPlan>>> {
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PinnedStatement {
    /// Pins a leaf.
    pub(super) fn pin(&mut self, leaf: Arc<dyn ExecutionPlan>) -> PinnedExec {
        let key = (self.statement, self.leaves);
        self.leaves += 1;
        self.plans.lock().insert(key, Arc::clone(&leaf));
        let properties = Arc::clone(leaf.properties());
        PinnedExec {
            node: self.plans.node.clone(),
            process: self.plans.process,
            key,
            leaf: Some(leaf),
            share: (0, 1),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl Drop for PinnedStatement {
    fn drop(&mut self) {
        let mut leaves = self.plans.lock();
        for leaf in 0..self.leaves {
            leaves.remove(&(self.statement, leaf));
        }
    }
}

/// Reads the rows of a pinned leaf: here, or from the node that has it.
#[derive(Clone)]
pub(super) struct PinnedExec {
    node: String,
    process: u64,
    key: LeafKey,
    /// The leaf; none where another node has it.
    leaf: Option<Arc<dyn ExecutionPlan>>,
    /// The number of a share in the rows, and the number of all shares.
    share: (u64, u64),
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for PinnedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedExec").field("node", &self.node).field("key", &self.key).finish_non_exhaustive()
    }
}

impl PinnedExec {
    /// The leaf, on the node that has it.
    pub(super) fn leaf(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.leaf.as_ref()
    }

    /// Whether each task can read a share at no more cost than that of the share: the rows are at hand.
    pub(super) fn is_at_hand(&self) -> bool {
        let source = self.leaf.as_ref().and_then(|leaf| leaf.downcast_ref::<DataSourceExec>());
        source.is_some_and(|source| source.data_source().is::<MemorySourceConfig>())
    }

    /// The leaf as a task reads it.
    pub(super) fn with_share(&self, share: usize, shares: usize) -> PinnedExec {
        PinnedExec { share: (share as u64, shares as u64), ..self.clone() }
    }

    pub(super) fn message(&self) -> Result<PinnedMessage> {
        Ok(PinnedMessage {
            node: self.node.clone(),
            process: self.process,
            statement: self.key.0,
            leaf: self.key.1,
            partitions: self.properties.partitioning.partition_count() as u64,
            schema: Some(self.schema().as_ref().try_into()?),
            share: self.share.0,
            shares: self.share.1,
        })
    }

    /// The leaf of a message: from this node, if it is pinned here.
    pub(super) fn read(message: PinnedMessage, pinned: &PinnedPlans) -> Result<Arc<dyn ExecutionPlan>> {
        let key = (message.statement, message.leaf);
        let share = (message.share, message.shares.max(1));
        let (leaf, properties) = if message.process == pinned.process {
            let Some(leaf) = pinned.lock().get(&key).cloned() else {
                return exec_err!("the statement has ended, whose rows are read");
            };
            let properties = Arc::clone(leaf.properties());
            (Some(leaf), properties)
        } else {
            let Some(schema) = &message.schema else { return exec_err!("rows have no columns") };
            let schema =
                Schema::try_from(schema).map_err(|error| DataFusionError::External(Box::new(error)))?;
            let partitions = usize::try_from(message.partitions).unwrap_or(usize::MAX);
            let properties = PlanProperties::new(
                EquivalenceProperties::new(Arc::new(schema)),
                Partitioning::UnknownPartitioning(partitions),
                EmissionType::Incremental,
                Boundedness::Bounded,
            );
            (None, Arc::new(properties))
        };
        let PinnedMessage { node, process, .. } = message;
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(PinnedExec { node, process, key, leaf, share, properties, metrics }))
    }

    /// The rows of a partition, from the node that has them.
    fn remote(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, metrics) = (self.schema(), self.metrics.clone());
        let headers = context.session_config().get_extension::<WorkerHeaders>().unwrap_or_default();
        let read = MetricBuilder::new(&self.metrics).output_rows(partition);
        let node = Url::parse(&self.node).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let plan = Arc::new(self.clone()) as Arc<dyn ExecutionPlan>;
        let rows = async move {
            let mut channel =
                get_distributed_channel_resolver(&context).get_worker_client_for_url(&node).await?;
            let task_key = TaskKey { query_id: Uuid::new_v4(), stage_id: 1, task_number: 0 };
            let request = SetPlanRequest {
                task_key,
                task_count: 1,
                plan: MaybeEncoded::Decoded(plan),
                work_unit_feed_declarations: Vec::new(),
                target_worker_url: node,
                query_start_time_ns: 0,
            };
            // The node has the task as long as this stream does not end.
            let (open, closed) = oneshot::channel::<()>();
            let requests = closed.into_stream().filter_map(|_| std::future::ready(None)).boxed();
            let headers = headers.0.clone();
            let answers = channel
                .coordinator_channel(headers.clone(), request, requests, metrics.clone(), &context)
                .await?;
            let request = ExecuteTaskRequest {
                task_key,
                target_partition_start: partition,
                target_partition_end: partition + 1,
                producer_head: ProducerHead::None,
            };
            let rows = channel.execute_task(headers, request, metrics, &context).await?;
            let rows = stream::iter(rows).flatten();
            let rows = rows.inspect_ok(move |batch| read.add(batch.num_rows()));
            Ok::<_, DataFusionError>(RemoteRows { rows: rows.boxed(), _open: (open, answers, channel) })
        };
        let rows = rows.into_stream().try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Rows of another node, with what keeps their task there.
struct RemoteRows {
    rows: BoxStream<'static, Result<RecordBatch>>,
    _open: (oneshot::Sender<()>, BoxStream<'static, Result<WorkerToCoordinatorMsg>>, Box<dyn WorkerChannel>),
}

impl Stream for RemoteRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.poll_next_unpin(context)
    }
}

impl DisplayAs for PinnedExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinnedExec: ")?;
        match &self.leaf {
            Some(leaf) => leaf.fmt_as(form, f),
            None => write!(f, "node={}", self.node),
        }
    }
}

impl ExecutionPlan for PinnedExec {
    fn name(&self) -> &'static str {
        "PinnedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(leaf) = &self.leaf else { return self.remote(partition, context) };
        let rows = leaf.execute(partition, context)?;
        match self.share {
            (_, 1) => Ok(rows),
            share => Ok(Box::pin(ShareOfRows { rows, share })),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match &self.leaf {
            Some(leaf) => leaf.metrics(),
            None => Some(self.metrics.clone_inner()),
        }
    }
}

/// A share of each batch. All shares together are the rows, each once.
struct ShareOfRows {
    rows: SendableRecordBatchStream,
    share: (u64, u64),
}

impl Stream for ShareOfRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = match ready!(self.rows.poll_next_unpin(context)) {
            Some(Ok(batch)) => batch,
            other => return Poll::Ready(other),
        };
        let (share, shares) = self.share;
        let place = |share: u64| (batch.num_rows() as u128 * u128::from(share) / u128::from(shares)) as usize;
        let (from, to) = (place(share), place(share + 1));
        Poll::Ready(Some(Ok(batch.slice(from, to - from))))
    }
}

impl RecordBatchStream for ShareOfRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
