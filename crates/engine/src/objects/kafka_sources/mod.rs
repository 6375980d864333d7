//! Streams that read a topic of Kafka, `CREATE STREAM … FROM KAFKA (…)`: one task per stream reads all partitions.
//!
//! ```text
//! consumer ─ messages of a partition ─► events (convert) ─► the way of all events, numbered by partition and offset ─► log
//!      │                                    └─ bad messages ─► quarantine, or counted
//!      └─ a message whose schema is not known: its partition waits for the registry ([`super::kafka_schemas`])
//! ```
//!
//! Each partition is a numbered producer of the stream ([`crate::durable::dedup`]): the number of a batch is the offset behind
//! its last message. So events and position are one record of the log, a start resumes behind the last record, and no
//! message is stored twice. Offsets on the broker are written for other programs, and never read.
//!
//! The order of the events is that in which partitions are read; within a partition it is the partition's. With a `WATERMARK` it is the
//! order of event time ([`order`]), and depends on no speed of reading.

pub(super) mod convert;
mod error;
mod order;
mod positions;
mod reader;
mod show;
mod skip;
pub(super) mod topic;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::{EngineError, durable::history::History, objects::kafka_schemas::Schemas, supervisor::TaskKind};
use reader::TopicReader;
use swiftwater_catalog::kind::stream::StreamEntry;
use swiftwater_event::StreamName;
use swiftwater_kafka::Kafka;
use swiftwater_lang::ddl::CreateStream;
use swiftwater_runtime::lock_order::{OrderedMutex, level};

/// The time that a statement waits for a reader to end.
const ENDING: Duration = Duration::from_secs(2);

/// The readers of topics, by the number of their stream.
#[derive(Debug, Default)]
pub(crate) struct TopicReaders {
    readers: OrderedMutex<HashMap<u32, Arc<TopicReader>>, level::TopicReaders>,
    /// A stream was created, altered or dropped.
    pub(crate) changed: Notify,
}

impl TopicReaders {
    /// All of them.
    fn all(&self) -> Vec<Arc<TopicReader>> {
        self.readers.lock().values().cloned().collect()
    }
}

impl History {
    /// A stream was created, altered or dropped: readers begin and end accordingly.
    pub(crate) fn read_topics(&self) {
        self.objects.topic_readers.changed.notify_one();
    }

    /// A stream was altered: the reader by its former definition has ended when this returns, unless that takes very long.
    pub(crate) async fn change_reader(self: &Arc<Self>, name: &StreamName) {
        let altered = self.catalog.newest().stream(name).cloned();
        let before = self.objects.topic_readers.all().into_iter().find(|reader| {
            altered.as_ref().is_some_and(|new| {
                new.id == reader.entry.id && new.create.source.is_some() && new.create != reader.entry.create
            })
        });
        if let Some(before) = before {
            before.end();
            // Only one that is held up by its stream takes longer.
            let _ = tokio::time::timeout(ENDING, before.reading.lock()).await;
        }
        self.start_and_end_readers();
    }

    /// Refuses a stream whose connection the settings do not have, or whose file of schemas cannot be read.
    pub(crate) fn check_connection(&self, create: &CreateStream) -> Result<(), EngineError> {
        let Some(source) = &create.source else { return Ok(()) };
        self.kafka(source.options.connection())?;
        let options = &source.options;
        let of_clusters = [(create.options.produce == Some(true), "produce"), (options.key.is_some(), "key")];
        if let Some((_, option)) = of_clusters.into_iter().find(|(is_set, _)| *is_set) {
            return Err(EngineError::Cluster(format!(
                "stream `{}` is one of this node alone, and `{option}` is for streams of a cluster: leave it out, or set [cluster] and \
                 create the stream without `store` and columns",
                create.name
            )));
        }
        let of = (source, source.options.connection());
        Schemas::open(self, of, reader::RETRY).map(drop).map_err(EngineError::TopicSchemas)
    }

    /// The connection of a name in the settings.
    pub(crate) fn kafka(&self, name: &str) -> Result<Arc<dyn Kafka>, EngineError> {
        let connections = &self.config.kafka.connections;
        if let Some(kafka) = connections.get(name) {
            return Ok(Arc::clone(kafka));
        }
        let names: Vec<&str> = connections.keys().map(|name| &**name).collect();
        let there = match names.as_slice() {
            [] => "they have none".to_owned(),
            names => format!("they have {}", names.join(", ")),
        };
        Err(EngineError::Source(format!("the settings have no connection `{name}` to Kafka: {there}")))
    }

    /// Refuses objects that would deliver into one of these streams if it reads a topic.
    pub(crate) fn check_take_events<'n>(
        &self,
        streams: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), EngineError> {
        let reads_topic = |name: &&str| {
            self.with_catalog(|catalog| {
                let mut entries = catalog.streams().map(|(_, entry)| &entry.create);
                entries.any(|create| create.source.is_some() && create.name.as_str() == *name)
            })
        };
        match streams.into_iter().find(reads_topic) {
            Some(name) => Err(EngineError::ReadsTopic(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Runs a task for each stream that reads a topic, until the engine closes.
    pub(crate) async fn run_topic_readers(self: Arc<Self>) {
        let mut closing = self.supervisor.stop_signal(TaskKind::Reader);
        loop {
            let changed = self.objects.topic_readers.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.start_and_end_readers();
            tokio::select! {
                () = changed => {}
                () = closing.received() => return,
            }
        }
    }

    /// Starts the readers of new streams, and ends those of streams that were dropped, altered or paused.
    fn start_and_end_readers(self: &Arc<Self>) {
        let entries: Vec<StreamEntry> = self.with_catalog(|catalog| {
            let streams = catalog.streams().map(|(_, entry)| entry);
            streams.filter(|entry| entry.create.source.is_some() && self.is_open(entry)).cloned().collect()
        });
        let mut readers = self.objects.topic_readers.readers.lock();
        readers.retain(|id, reader| {
            let is_there = entries.iter().any(|entry| entry.id == *id);
            if !is_there {
                reader.end();
            }
            is_there
        });
        for entry in entries {
            let before = readers.get(&entry.id);
            if before.is_some_and(|reader| reader.entry.create == entry.create) {
                continue;
            }
            before.inspect(|reader| reader.end());
            let reader = Arc::new(TopicReader::new(entry, before.map(Arc::as_ref)));
            readers.insert(reader.entry.id, Arc::clone(&reader));
            self.start_reader(reader);
        }
    }

    /// False while a statement that has declared a stream, or has made it a stored one, still opens its table: a reader would keep its
    /// positions in memory alone.
    fn is_open(&self, entry: &StreamEntry) -> bool {
        match entry.create.is_stored() {
            true => self.stored(&entry.create.name).is_some(),
            false => self.unstored(&entry.create.name).is_some(),
        }
    }

    fn start_reader(self: &Arc<Self>, reader: Arc<TopicReader>) {
        if !reader.source().is_paused {
            self.maintain(reader);
        }
    }
}
