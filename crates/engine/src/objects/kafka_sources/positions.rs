//! The offsets up to which the partitions of a topic are read: of a stored stream, the numbers of its producers.

use std::{collections::BTreeMap, sync::Arc};

use swiftwater_kafka::TopicId;
use swiftwater_runtime::lock_order::OrderedMutex;

use super::reader::TopicReader;
use crate::durable::{dedup::SOURCE_PRODUCER, history::History, stored_stream::StoredStream};

/// The partitions that were read, with the next offset of each. Those of the topic before it was made again stay.
#[derive(Debug, Clone)]
pub(super) enum Positions {
    /// Part of the log's records and of the catalog's snapshots.
    Stored(Arc<StoredStream>),
    /// For as long as the engine runs.
    InMemory(Arc<OrderedMutex<BTreeMap<String, u64>>>),
}

/// The name under which a partition numbers its batches.
pub(super) fn producer(topic: TopicId, partition: u32) -> String {
    format!("{SOURCE_PRODUCER}{topic}/{partition}")
}

impl Positions {
    /// The positions of a reader's stream.
    pub(super) fn of_reader(history: &History, reader: &TopicReader) -> Positions {
        match history.stored(&reader.entry.create.name) {
            Some(stored) => Positions::Stored(stored),
            None => Positions::InMemory(Arc::clone(&reader.in_memory)),
        }
    }

    /// The next offset of a partition; none if it was not read yet.
    pub(super) fn of(&self, topic: TopicId, partition: u32) -> Option<u64> {
        let producer = producer(topic, partition);
        match self {
            Positions::Stored(stored) => stored.source_position(&producer),
            Positions::InMemory(positions) => positions.lock().get(&producer).copied(),
        }
    }

    /// Records the next offset of a partition, unless it is behind the recorded one.
    pub(super) fn record(&self, topic: TopicId, partition: u32, next: u64) {
        let producer = producer(topic, partition);
        match self {
            Positions::Stored(stored) => stored.record_source_position(&producer, next),
            Positions::InMemory(positions) => {
                let mut positions = positions.lock();
                let position = positions.entry(producer).or_insert(next);
                *position = next.max(*position);
            }
        }
    }

    /// True if a partition of this topic was read, and true if one of another topic was: of the same name, before it was
    /// deleted and made again.
    pub(super) fn know(&self, topic: TopicId) -> (bool, bool) {
        let prefix = format!("{SOURCE_PRODUCER}{topic}/");
        let producers: Vec<String> = match self {
            Positions::Stored(stored) => stored.sources(),
            Positions::InMemory(positions) => positions.lock().keys().cloned().collect(),
        };
        let is_of_topic = |producer: &String| producer.starts_with(&prefix);
        (producers.iter().any(is_of_topic), producers.iter().any(|producer| !is_of_topic(producer)))
    }
}
