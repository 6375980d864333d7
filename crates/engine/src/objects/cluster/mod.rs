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
use swiftwater_kafka::{OffsetAt, Producer, TopicId};
use swiftwater_lang::{
    Dialect, ParseOptions, Schema,
    ddl::{CreateStream, Ddl, StreamOptions},
    parse_kept_ddl,
};
use swiftwater_runtime::lock_order::OrderedMutex;
use tokio::sync::{Notify, OnceCell, Semaphore, oneshot, watch};

use crate::{
    EngineError,
    config::ClusterConfig,
    durable::{columns::Columns, history::History},
    objects::kafka_schemas::Schemas,
    objects::kafka_sources::topic::topic_of,
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

    /// True if a statement declares a stream of the cluster, and not one of this node.
    pub(crate) fn takes(&self, ddl: &Ddl) -> bool {
        match ddl {
            Ddl::CreateStream(create) => create.source.is_some() && !create.is_stored(),
            Ddl::DropStream { name, .. } => self.streams.lock().contains_key(name),
            _ => false,
        }
    }

    fn stream(&self, name: &StreamName) -> Option<Arc<ClusterStream>> {
        self.streams.lock().get(name).cloned()
    }

    fn all_streams(&self) -> Vec<(StreamName, Arc<ClusterStream>)> {
        self.streams.lock().iter().map(|(name, stream)| (name.clone(), Arc::clone(stream))).collect()
    }

    /// Declares or drops a stream of the cluster on all nodes; returns when this node knows. False where nothing changes.
    pub(crate) async fn change(&self, ddl: &Ddl) -> Result<bool, EngineError> {
        self.read_all_objects().await?;
        let (name, value) = match ddl {
            Ddl::CreateStream(create) => {
                check(create)?;
                self.schemas_of(create).map_err(refused)?;
                self.check_name(&create.name)?;
                if let Some(stream) = self.stream(&create.name) {
                    return match create.if_not_exists || stream.create == *create {
                        true => Ok(false),
                        false => Err(refused(format!("stream `{}` of the cluster exists", create.name))),
                    };
                }
                let Some(source) = &create.source else { return Ok(false) };
                let topic = &*source.topic;
                if let Some((other, _)) =
                    self.all_streams().iter().find(|(_, stream)| *stream.topic == *topic)
                {
                    return Err(refused(format!(
                        "stream `{other}` of the cluster reads topic `{topic}` already"
                    )));
                }
                let known = topic_of(&*self.config.kafka, source).await;
                known.map_err(|error| unavailable(error.to_string()))?;
                (create.name.clone(), Some(create.to_string()))
            }
            Ddl::DropStream { name, .. } => (name.clone(), None),
            _ => return Err(refused("a stream of a cluster can be created and dropped only".to_owned())),
        };
        let written = self.write(&self.topics.objects, name.as_str(), value).await?;
        let mut read = self.objects_read.subscribe();
        let read = read.wait_for(|next| *next > written);
        let is_read = matches!(tokio::time::timeout(topics::READ_BACK, read).await, Ok(Ok(_)));
        match is_read {
            true => self.check_declared(ddl).await,
            false => {
                Err(unavailable("the statement was written, and could not be read back in time".to_owned()))
            }
        }
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

    /// Waits until this node knows all streams that were declared before this call.
    async fn read_all_objects(&self) -> Result<(), EngineError> {
        self.ensure_made().await?;
        let kafka = &self.config.kafka;
        let ends = kafka.offsets(&self.topics.objects, &[(0, OffsetAt::Latest)]).await;
        let ends = ends.map_err(|error| unavailable(error.to_string()))?;
        let end = ends.first().copied().unwrap_or(0);
        let mut read = self.objects_read.subscribe();
        match tokio::time::timeout(topics::READ_BACK, read.wait_for(|next| *next >= end)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(unavailable("the streams of the cluster could not be read in time".to_owned())),
        }
    }

    /// Refuses a stream or a view of this node that would have the name of a stream of the cluster.
    pub(crate) fn check_own_name(&self, ddl: &Ddl) -> Result<(), EngineError> {
        let name = match ddl {
            Ddl::CreateStream(create) => create.name.as_str(),
            Ddl::CreateView(create) => &create.name,
            _ => return Ok(()),
        };
        match StreamName::new(name).is_ok_and(|name| self.stream(&name).is_some()) {
            true => Err(refused(format!("`{name}` is a stream of the cluster: choose another name"))),
            false => Ok(()),
        }
    }

    /// Refuses a name that this node has for something of its own.
    fn check_name(&self, name: &StreamName) -> Result<(), EngineError> {
        let shared = self.shared.upgrade();
        let history = shared.as_ref().and_then(|shared| shared.history.get());
        let is_own = history.is_some_and(|history| {
            history.stored(name).is_some()
                || history.unstored(name).is_some()
                || history.is_view(name.as_str())
        });
        match is_own {
            true => Err(refused(format!("`{name}` is a stream or a view of this node: choose another name"))),
            false => Ok(()),
        }
    }

    /// True if a declaration that was written is the one that counts. Another node may have been first: then its text is written once
    /// more, as compaction keeps the last one of a name.
    async fn check_declared(&self, ddl: &Ddl) -> Result<bool, EngineError> {
        let Ddl::CreateStream(create) = ddl else { return Ok(true) };
        let first = self.stream(&create.name);
        if first.as_ref().is_some_and(|stream| stream.create == *create) {
            return Ok(true);
        }
        let text = first.map(|stream| stream.create.to_string());
        self.write(&self.topics.objects, create.name.as_str(), text).await?;
        Err(refused(format!(
            "another node has declared stream `{}`, or one over its topic, first",
            create.name
        )))
    }

    /// Applies a message of `.objects`.
    fn apply(self: &Arc<Self>, history: &Arc<History>, name: &str, text: Option<&str>) {
        let Ok(name) = StreamName::new(name) else { return };
        let Some(text) = text else {
            let dropped = self.streams.lock().remove(&name);
            if let Some(dropped) = dropped {
                self.dropped.lock().push(dropped);
                self.changed.notify_one();
            }
            return;
        };
        if self.stream(&name).is_some() {
            tracing::warn!(stream = %name, "a second CREATE of a stream of the cluster is void");
            return;
        }
        let ddl = parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0));
        let Ok(Some(Ddl::CreateStream(create))) = ddl else {
            tracing::error!(stream = %name, text, "the cluster has a stream that this release cannot read: upgrade this node");
            return;
        };
        let Some(source) = &create.source else { return };
        if self.all_streams().iter().any(|(_, stream)| *stream.topic == *source.topic) {
            tracing::warn!(stream = %name, "a second stream of the cluster over one topic is void");
            return;
        }
        let columns = match Columns::of(&create, &[]) {
            Ok(columns) => create.is_declared().then(|| (columns, create.schema())),
            Err(error) => {
                tracing::error!(stream = %name, text, %error, "the cluster has a stream that this release cannot read: upgrade this node");
                return;
            }
        };
        let cores = self.shared.upgrade().map_or(1, |shared| shared.config.shards);
        let (readers, inboxes) = Readers::new(cores);
        let topic: Box<str> = source.topic.as_ref().into();
        let serving = Serving::new(name.clone(), topic.clone(), &self.config);
        let stream = Arc::new(ClusterStream {
            produced: ProduceQueue::start(history, &self.config.kafka, &create),
            create,
            topic,
            columns,
            serving,
            topic_id: OrderedMutex::default(),
            partitions: AtomicU32::new(0),
            readers,
        });
        self.streams.lock().insert(name, Arc::clone(&stream));
        for (reader, orders) in inboxes.into_iter().enumerate() {
            self.read_stream(history, &stream, (reader, orders));
        }
        self.changed.notify_one();
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

/// Refuses what a stream of a cluster cannot have.
fn check(create: &CreateStream) -> Result<(), EngineError> {
    let name = &create.name;
    if let Some(column) = create.columns.iter().find(|column| column.default.is_some()) {
        return Err(refused(format!(
            "column `{}` of stream `{name}` of the cluster cannot have a default: queries see the events as they are in the topic",
            column.name
        )));
    }
    Columns::of(create, &[]).map_err(EngineError::Columns)?;
    let StreamOptions { store, event_bytes_max, produce, .. } = create.options.clone();
    if create.options != (StreamOptions { store, event_bytes_max, produce, ..StreamOptions::default() }) {
        return Err(refused(format!(
            "stream `{name}` of the cluster has no options but `event_bytes_max` and `produce`: nothing of it is stored"
        )));
    }
    if event_bytes_max.is_some_and(|bytes| bytes > EVENT_BYTES_MAX) {
        return Err(refused(format!(
            "`event_bytes_max` of stream `{name}` of the cluster is 15 MiB at most: nodes send each other whole events"
        )));
    }
    let own = create.source.as_ref().map(|source| &source.options);
    if own.is_some_and(|own| own.connection.is_some() || own.start.is_some() || own.on_gap.is_some()) {
        return Err(refused(format!(
            "stream `{name}` of the cluster has no `connection`, `start` or `on_gap`: it is read by the connection of the cluster, from \
             the beginning of each query"
        )));
    }
    match create.source.as_ref().is_some_and(|source| source.is_paused) {
        true => Err(refused(format!("stream `{name}` of the cluster cannot be paused"))),
        false => Ok(()),
    }
}
