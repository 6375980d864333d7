//! The topics of a cluster: their names, their properties, and the way a node reads and writes them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_event::{Backoff, Millis};
use swiftwater_kafka::{
    Consumer, ConsumerOptions, Fetched, Isolation, Kafka, KafkaError, KafkaErrorKind, NewMessage, OffsetAt,
    Producer, ProducerOptions, SendError,
};

use super::{Cluster, unavailable};
use crate::EngineError;

/// The time that a statement or a query waits until this node has read it.
pub(super) const READ_BACK: Duration = Duration::from_secs(15);

/// Pauses between attempts.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The largest message of the topic of units.
const UNIT_BYTES_MAX: &str = "16777216";

/// The names of a cluster's topics and groups.
#[derive(Debug)]
pub(super) struct Topics {
    pub(super) objects: Arc<str>,
    pub(super) queries: Arc<str>,
    pub(super) partials: Arc<str>,
    /// The group that assigns the partitions.
    pub(super) workers: String,
    /// The group whose members are the nodes.
    pub(super) nodes: String,
}

impl Topics {
    pub(super) fn of(cluster: &str) -> Topics {
        Topics {
            objects: format!("_swiftwater.{cluster}.objects").into(),
            queries: format!("_swiftwater.{cluster}.queries").into(),
            partials: format!("_swiftwater.{cluster}.partials").into(),
            workers: format!("_swiftwater.{cluster}.workers"),
            nodes: format!("_swiftwater.{cluster}.nodes"),
        }
    }
}

/// Makes a topic where there is none; returns the number of its partitions.
async fn ensure(
    kafka: &dyn Kafka,
    topic: &str,
    partitions: u32,
    properties: &[(&str, &str)],
) -> Result<u32, KafkaError> {
    match kafka.topic(topic).await {
        Err(error) if *error.kind() == KafkaErrorKind::UnknownTopic => {
            kafka.create_topic(topic, partitions, properties).await?;
            Ok(kafka.topic(topic).await?.partitions)
        }
        known => Ok(known?.partitions),
    }
}

impl Cluster {
    /// Makes the topics of the cluster where there are none. Returns the partitions of the topic of units. Tries again without end.
    pub(super) async fn ensure_topics(&self) -> u32 {
        let mut retry = RETRY;
        loop {
            match self.try_ensure_topics().await {
                Ok(partials) => return partials,
                Err(error) => {
                    tracing::warn!(cluster = self.config.name, %error, hint = error.hint(), "the topics of the cluster cannot be used");
                    tokio::time::sleep(retry.pause()).await;
                }
            }
        }
    }

    async fn try_ensure_topics(&self) -> Result<u32, KafkaError> {
        let kafka = &*self.config.kafka;
        let log_time = ("message.timestamp.type", "LogAppendTime");
        for topic in [&self.topics.objects, &self.topics.queries] {
            let properties = [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), log_time];
            let partitions = ensure(kafka, topic, 1, &properties).await?;
            if partitions != 1 {
                let why = format!("topic `{topic}` has {partitions} partitions, and its order needs one");
                return Err(KafkaError::new(KafkaErrorKind::Configuration, why)
                    .with_hint("Delete the topic: it is made anew."));
            }
        }
        let properties = [("retention.ms", "600000"), ("max.message.bytes", UNIT_BYTES_MAX), log_time];
        ensure(kafka, &self.topics.partials, self.config.partials, &properties).await
    }

    /// A consumer of one partition, from an offset on; or without one from the beginning or the end; with the offset that is read first.
    pub(super) async fn read_from(
        &self,
        topic: &str,
        partition: u32,
        (offset, at): (Option<u64>, OffsetAt),
    ) -> Result<(Box<dyn Consumer>, u64), KafkaError> {
        let from = match offset {
            Some(offset) => offset,
            None => {
                let found = self.config.kafka.offsets(topic, &[(partition, at)]).await?;
                found.first().copied().unwrap_or(0)
            }
        };
        let options = ConsumerOptions {
            isolation: Isolation::ReadUncommitted,
            group: self.topics.workers.clone(),
            shares: 1,
        };
        let mut consumer = self.config.kafka.consumer(topic, &options)?;
        consumer.assign(partition, from);
        Ok((consumer, from))
    }

    /// Writes one message to a topic of one partition; returns its offset.
    pub(super) async fn write(
        &self,
        topic: &Arc<str>,
        key: &str,
        value: Option<String>,
    ) -> Result<u64, EngineError> {
        self.write_all(topic, vec![(key, value)]).await
    }

    /// Writes messages to a topic of one partition; returns the offset of the first.
    pub(super) async fn write_all(
        &self,
        topic: &Arc<str>,
        messages: Vec<(&str, Option<String>)>,
    ) -> Result<u64, EngineError> {
        let messages = messages.into_iter();
        let messages: Vec<_> = messages
            .map(|(key, value)| message(topic, 0, key, value.map(Bytes::from), Arc::default()))
            .collect();
        let failed = |why: String| unavailable(format!("topic `{topic}` cannot be written: {why}"));
        self.ensure_made().await?;
        // One producer for all: it is kept until it fails.
        let mut kept = self.writer.lock().await;
        let mut producer = match kept.take() {
            Some(producer) => producer,
            None => self
                .producer_of(&[&self.topics.objects, &self.topics.queries])
                .await
                .map_err(|error| failed(error.to_string()))?,
        };
        let sent = producer.send(&messages).await;
        if !matches!(sent, Err(SendError::Failed(_))) {
            *kept = Some(producer);
        }
        match sent {
            Ok(written) => Ok(written.first().and_then(|written| written.offset).unwrap_or(0)),
            Err(SendError::Failed(error)) => Err(failed(error.to_string())),
            Err(SendError::TooLarge(_)) => Err(failed("the text is too large for the topic".to_owned())),
        }
    }

    /// The brokers' time, by a message to nobody. None if none can be written.
    pub(super) async fn broker_time(&self) -> Option<Millis> {
        let partials = *self.made.get()?;
        let mut producer = self.producer_of(&[&self.topics.partials]).await.ok()?;
        let partition = partition_of(&self.me, partials);
        let hello = message(&self.topics.partials, partition, "", None, Arc::default());
        let written = producer.send(&[hello]).await.ok()?;
        written.first().map(|written| written.timestamp.millis)
    }

    /// Makes the topics of the cluster once, for a statement that comes before the tasks of this node have.
    pub(super) async fn ensure_made(&self) -> Result<(), EngineError> {
        let made = self.made.get_or_try_init(|| self.try_ensure_topics()).await;
        made.map_err(|error| unavailable(error.to_string()))?;
        Ok(())
    }

    /// A producer that is open.
    pub(super) async fn producer_of(&self, topics: &[&Arc<str>]) -> Result<Box<dyn Producer>, KafkaError> {
        let topics = topics.iter().map(|topic| Arc::clone(topic)).collect();
        let options = ProducerOptions { topics, ..ProducerOptions::default() };
        let mut producer = self.config.kafka.producer(&options)?;
        producer.open().await?;
        Ok(producer)
    }

    /// Reads a topic of one partition from its beginning: `take` is called with each message's offset, time, key and value, and `read`
    /// with the next offset behind each batch, and at the end. Returns only on an error.
    pub(super) async fn follow(
        &self,
        topic: &str,
        mut take: impl FnMut(u64, i64, &str, Option<&[u8]>),
        read: impl Fn(u64),
    ) -> KafkaError {
        let mut consumer = match self.read_from(topic, 0, (None, OffsetAt::Earliest)).await {
            Ok((consumer, _)) => consumer,
            Err(error) => return error,
        };
        loop {
            match consumer.next().await {
                Fetched::Messages(batch) => {
                    for (place, message) in batch.messages().enumerate() {
                        let key =
                            message.key().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
                        take(batch.offsets()[place], batch.timestamps()[place].millis, key, message.value());
                    }
                    read(batch.next());
                }
                Fetched::End { next, .. } => read(next),
                // Compaction and retention leave gaps, and never a last message of a key.
                Fetched::Gap { first, .. } => consumer.assign(0, first),
                Fetched::Waiting { error, .. } => {
                    tracing::warn!(topic, %error, "a topic of the cluster is not read at present");
                }
                Fetched::Failed(error) => return error,
            }
        }
    }

    /// A pause after a failure, which is logged. Brokers that have just made a topic fail once: that is no warning.
    pub(super) async fn rest(&self, what: &str, error: &KafkaError, retry: &mut Backoff) {
        match retry.failures() {
            0 => tracing::debug!(cluster = self.config.name, %error, "{what}"),
            _ => tracing::warn!(cluster = self.config.name, %error, hint = error.hint(), "{what}"),
        }
        tokio::time::sleep(retry.pause()).await;
    }

    /// The pauses of a task.
    pub(super) fn retry() -> Backoff {
        RETRY
    }
}

/// A message to a partition.
pub(super) fn message(
    topic: &Arc<str>,
    partition: u32,
    key: &str,
    value: Option<Bytes>,
    headers: Arc<[(Box<str>, Box<str>)]>,
) -> NewMessage {
    let key = Some(Bytes::copy_from_slice(key.as_bytes()));
    NewMessage { topic: Arc::clone(topic), partition: Some(partition), key, value, headers }
}

/// The partition of the topic of units for the node that serves.
pub(super) fn partition_of(server: &str, partitions: u32) -> u32 {
    crc32fast::hash(server.as_bytes()) % partitions.max(1)
}
