//! The node of a cluster: live queries over topics of Kafka that several nodes read together.
//!
//! ```text
//! .objects   CREATE STREAM … FROM KAFKA of all nodes         ─► streams          (each node reads all of it)
//! .queries   queries, with the node that serves each         ─► readers          (each node reads all of it)
//! topic      partitions, assigned by the group `.workers`    ─► reader ─► units  (one task per stream, reader.rs)
//! .partials  units, each to the node that serves             ─► serving ─► the runtime's queries
//! ```
//!
//! The topics are Kafka's and so are the log, the assignment and the failure detection; what a worker computes and how it is merged is
//! in the room `cluster`. A query begins at the time at which the broker recorded it, and has the number of its message.

mod declare;
mod events;
mod member;
mod nodes;
mod orphans;
mod positions;
mod produce;
mod queries;
mod query_text;
mod reader;
mod readers;
mod serving;
mod submit;
mod topics;
mod units;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak, atomic::AtomicU32},
};

use swiftwater_cluster::{NodeName, Place};
use swiftwater_event::{Millis, StreamName};
use swiftwater_kafka::{Producer, TopicId};
use swiftwater_lang::{Schema, ddl::CreateStream};
use swiftwater_runtime::lock_order::OrderedMutex;
use tokio::sync::{Notify, OnceCell, Semaphore, oneshot, watch};

use crate::{
    EngineError,
    config::ClusterConfig,
    durable::{columns::Columns, history::History},
    objects::kafka_schemas::Schemas,
    shared::Shared,
    supervisor::TaskKind,
};
use positions::{PartitionName, Positions};
use produce::ProduceQueue;
use queries::Queries;
use readers::Readers;
use serving::Serving;
use submit::ReadBack;
use topics::Topics;

/// A node of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    config: ClusterConfig,
    topics: Topics,
    /// The node's name with a part that no start of it has twice.
    me: NodeName,
    shared: Weak<Shared>,
    streams: OrderedMutex<BTreeMap<StreamName, Arc<ClusterStream>>>,
    /// The queries of the cluster.
    queries: OrderedMutex<Queries>,
    /// Queries of this node that were written, by their keys, until they are read back.
    written: OrderedMutex<HashMap<String, oneshot::Sender<ReadBack>>>,
    /// All messages of `.objects` and of `.queries` before these offsets were read.
    objects_read: watch::Sender<u64>,
    queries_read: watch::Sender<u64>,
    /// All units for this node before this offset were taken; none before it has begun to read them.
    units_read: watch::Sender<Option<u64>>,
    /// Streams were created or dropped.
    changed: Notify,
    positions: Positions,
    /// The producer of streams and queries, while it works.
    writer: tokio::sync::Mutex<Option<Box<dyn Producer>>>,
    /// The partitions that the group has assigned to this node, with the places that were committed for them.
    owned: OrderedMutex<BTreeMap<PartitionName, Option<Place>>>,
    /// The partitions of the topic of units, once the topics of the cluster are known to exist.
    made: OnceCell<u32>,
    /// The keys of queries that have ended here, and that are to be ended on all nodes.
    ended: OrderedMutex<Vec<String>>,
    has_ended: Notify,
    /// Streams that were dropped, until their queries have ended.
    dropped: OrderedMutex<Vec<Arc<ClusterStream>>>,
    /// This node takes no more work.
    draining: watch::Sender<bool>,
    /// The room for the bytes of events that wait to be written to topics.
    room: Arc<Semaphore>,
    room_bytes: u32,
}

/// A stream of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterStream {
    create: CreateStream,
    topic: Box<str>,
    /// The columns that its events are validated against, and their types; none if it declares none.
    columns: Option<(Columns, Schema)>,
    serving: Arc<Serving>,
    /// The partitions of its topic, as last looked up.
    partitions: AtomicU32,
    readers: Readers,
    /// The topic as it was first looked up: one that is made again is another.
    topic_id: OrderedMutex<Option<TopicId>>,
    /// The events that clients send, if the stream takes any.
    produced: Option<ProduceQueue>,
}

/// The largest event of a stream of a cluster: results may have it whole, and are messages of up to 16 MiB.
const EVENT_BYTES_MAX: u64 = 15 << 20;

impl ClusterStream {
    /// The largest event that it takes.
    fn event_bytes_max(&self) -> Option<u64> {
        Some(self.create.options.event_bytes_max.unwrap_or(EVENT_BYTES_MAX).min(EVENT_BYTES_MAX))
    }

    fn schema(&self) -> Option<&Schema> {
        self.columns.as_ref().map(|(_, schema)| schema)
    }
}

/// A query of the cluster, as its message has it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct QueryMessage {
    stream: String,
    /// The query that workers compute.
    text: String,
    /// The form of that.
    #[serde(default)]
    form: TextForm,
    /// The values of its parameters, as literals of the language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<String>,
    /// The text that a client sent, and its form, if it is another one: then the node that serves the query computes it from events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<(String, TextForm)>,
    duration_ms: Option<u64>,
    server: String,
    /// The name of its operator ([`swiftwater_cluster::OperatorKey`]).
    operator: (u64, u64),
    /// It goes on without its client, and without the node that serves it.
    #[serde(default)]
    is_detached: bool,
    /// Its windows wait for all partitions.
    #[serde(default)]
    waits: bool,
    /// Its records tell their times.
    #[serde(default)]
    times: bool,
}

/// The form of a query's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum TextForm {
    /// The native dialect.
    #[default]
    Native,
    /// Bullet's dialect: workers send the events that match the query.
    Bullet,
    /// The same, as JSON.
    BulletJson,
}

/// A query of the cluster.
#[derive(Debug, Clone)]
struct ClusterQuery {
    key: String,
    begins: Millis,
    asked: QueryMessage,
}

impl History {
    /// This node of a cluster, if it is one.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.objects.cluster.get()
    }

    /// The types of the columns of a stream of the cluster, if it declares any.
    pub(crate) fn schema_of_cluster(&self, name: &StreamName) -> Option<Schema> {
        let stream = self.cluster()?.stream(name)?;
        stream.schema().cloned()
    }

    /// True if a stream is one of the cluster, so that its events are on all nodes.
    pub(crate) fn is_of_cluster(&self, name: &StreamName) -> bool {
        self.cluster().is_some_and(|cluster| cluster.stream(name).is_some())
    }

    /// Takes part in the cluster that the settings name.
    pub(crate) fn start_cluster(self: &Arc<Self>, shared: &Arc<Shared>) {
        if let Some(config) = &self.config.cluster {
            let _ = self.objects.cluster.set(Cluster::start(config.clone(), shared, self));
        }
    }
}

impl Cluster {
    /// Starts a node.
    pub(crate) fn start(config: ClusterConfig, shared: &Arc<Shared>, history: &Arc<History>) -> Arc<Cluster> {
        let me = format!("{}/{}", config.node, shared.clock.now_micros());
        let room_bytes = u32::try_from(shared.config.pending_bytes_max).unwrap_or(u32::MAX);
        let cluster = Arc::new(Cluster {
            room: Arc::new(Semaphore::new(room_bytes as usize)),
            room_bytes,
            topics: Topics::of(&config.name),
            me: me.into(),
            shared: Arc::downgrade(shared),
            streams: OrderedMutex::default(),
            queries: OrderedMutex::default(),
            written: OrderedMutex::default(),
            objects_read: watch::Sender::new(0),
            queries_read: watch::Sender::new(0),
            units_read: watch::Sender::new(None),
            changed: Notify::new(),
            positions: Positions::default(),
            writer: tokio::sync::Mutex::default(),
            owned: OrderedMutex::default(),
            made: OnceCell::new(),
            ended: OrderedMutex::default(),
            has_ended: Notify::new(),
            dropped: OrderedMutex::default(),
            draining: watch::Sender::new(false),
            config,
        });
        let run = |name: &'static str, work: fn(Arc<Cluster>, Arc<History>) -> Running| {
            let cluster = Arc::clone(&cluster);
            history.run_service((TaskKind::Reader, name), move |history| work(Arc::clone(&cluster), history));
        };
        run("the streams of the cluster", |cluster, history| Box::pin(cluster.read_objects(history)));
        run("the queries of the cluster", |cluster, history| Box::pin(cluster.read_queries(history)));
        run("the units of workers", |cluster, history| Box::pin(cluster.serve(history)));
        run("the ends of queries", |cluster, history| Box::pin(cluster.write_ends(history)));
        run("the queries of nodes that are gone", |cluster, history| Box::pin(cluster.sweep(history)));
        run("the membership in the cluster", |cluster, history| Box::pin(cluster.join(history)));
        run("the description of this node", |cluster, history| Box::pin(cluster.join_nodes(history)));
        cluster
    }

    fn stream(&self, name: &StreamName) -> Option<Arc<ClusterStream>> {
        self.streams.lock().get(name).cloned()
    }

    fn all_streams(&self) -> Vec<(StreamName, Arc<ClusterStream>)> {
        self.streams.lock().iter().map(|(name, stream)| (name.clone(), Arc::clone(stream))).collect()
    }

    /// The schemas of a stream's messages, as this node finds them. The error has the remedy.
    fn schemas_of(&self, create: &CreateStream) -> Result<Schemas, String> {
        let shared = self.shared.upgrade();
        let history = shared.as_ref().and_then(|shared| shared.history.get());
        match (history, &create.source) {
            (Some(history), Some(source)) => {
                Schemas::open(history, (source, &self.config.connection), Cluster::retry())
            }
            _ => Err("the node is shutting down".to_owned()),
        }
    }
}

/// The future of a task.
type Running = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn refused(why: String) -> EngineError {
    EngineError::Cluster(why)
}

fn unavailable(why: String) -> EngineError {
    EngineError::ClusterAway(why)
}
