//! The streams of the cluster: `CREATE STREAM` and `DROP STREAM` are messages of `.objects`, which all nodes read. The first one of a name, or
//! over a topic, counts.

use std::sync::{Arc, atomic::AtomicU32};

use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_event::StreamName;
use swiftwater_kafka::OffsetAt;
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{CreateStream, Ddl, StreamOptions},
    parse_kept_ddl,
};
use swiftwater_runtime::lock_order::OrderedMutex;

use super::{
    Cluster, ClusterStream, EVENT_BYTES_MAX, produce::ProduceQueue, readers::Readers, refused,
    serving::Serving, topics::READ_BACK, unavailable,
};
use crate::{
    EngineError, RuntimeError,
    durable::{columns::Columns, history::History},
    objects::kafka_sources::topic::topic_of,
};

impl History {
    /// The error of a statement about a stream that this node does not have; if it is one of the cluster, the error says so.
    pub(crate) fn of_cluster(&self, error: EngineError) -> EngineError {
        let name = match &error {
            EngineError::Runtime(RuntimeError::Catalog(CatalogError::NotFound(object)))
                if object.kind == ObjectKind::Stream =>
            {
                StreamName::new(object.name.as_str())
            }
            _ => return error,
        };
        match name {
            Ok(name) if self.is_of_cluster(&name) => refused(format!(
                "`{name}` is a stream of the cluster: it has live queries, no views, alerts, sinks, joins and tables, and is not altered. For \
                 those, create a stream of this node over its topic, of another name and with `WITH (store = true)`"
            )),
            _ => error,
        }
    }
}

impl Cluster {
    /// True if a statement declares a stream of the cluster, and not one of this node.
    pub(crate) fn takes(&self, ddl: &Ddl) -> bool {
        match ddl {
            Ddl::CreateStream(create) => create.source.is_some() && !create.is_stored(),
            Ddl::DropStream { name, .. } => self.streams.lock().contains_key(name),
            _ => false,
        }
    }

    /// The streams of the cluster.
    pub(crate) fn stream_names(&self) -> Vec<StreamName> {
        self.streams.lock().keys().cloned().collect()
    }

    /// The statement that has declared a stream of the cluster.
    pub(crate) fn statement_of(&self, name: &StreamName) -> Option<String> {
        Some(self.stream(name)?.create.to_string())
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
        let is_read = matches!(tokio::time::timeout(READ_BACK, read).await, Ok(Ok(_)));
        match is_read {
            true => self.check_declared(ddl).await,
            false => {
                Err(unavailable("the statement was written, and could not be read back in time".to_owned()))
            }
        }
    }

    /// Waits until this node knows all streams that were declared before this call.
    pub(super) async fn read_all_objects(&self) -> Result<(), EngineError> {
        self.ensure_made().await?;
        let kafka = &self.config.kafka;
        let ends = kafka.offsets(&self.topics.objects, &[(0, OffsetAt::Latest)]).await;
        let ends = ends.map_err(|error| unavailable(error.to_string()))?;
        let end = ends.first().copied().unwrap_or(0);
        let mut read = self.objects_read.subscribe();
        match tokio::time::timeout(READ_BACK, read.wait_for(|next| *next >= end)).await {
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
    pub(super) fn apply(self: &Arc<Self>, history: &Arc<History>, name: &str, text: Option<&str>) {
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
