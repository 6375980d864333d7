//! Producers: the messages to write, and the outcome.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{KafkaError, Partitioner, Timestamp};

/// The settings of a producer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProducerOptions {
    /// The name under which it writes in transactions. The brokers let one producer of a name write: the last one that was
    /// opened. `None`: without transactions.
    pub transactional_id: Option<String>,
    /// The choice of the partition of a message that names none.
    pub partitioner: Partitioner,
    /// The topics that it writes to. They exist when it is opened.
    pub topics: Vec<Arc<str>>,
}

/// A message to write. Its timestamp is the time at which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; `None`: chosen by the producer's partitioner.
    pub partition: Option<u32>,
    /// The key; `None`: null.
    pub key: Option<Bytes>,
    /// The value; `None`: null, a tombstone.
    pub value: Option<Bytes>,
    /// Names and values.
    pub headers: Arc<[(Box<str>, Box<str>)]>,
}

/// The bytes of a batch without its messages, in Kafka's format 2.
const BATCH_HEAD_BYTES: usize = 61;

/// The bytes of a signed number of variable length.
fn varint_bytes(number: i64) -> usize {
    let zigzag = (number << 1 ^ number >> 63) as u64;
    (u64::BITS - zigzag.leading_zeros()).div_ceil(7).max(1) as usize
}

impl NewMessage {
    /// The bytes of a batch of this message alone, not compressed: what a topic's `max.message.bytes` limits.
    pub fn batch_bytes(&self) -> usize {
        let part = |bytes: Option<usize>| match bytes {
            Some(bytes) => varint_bytes(bytes as i64) + bytes,
            None => varint_bytes(-1),
        };
        let headers = self.headers.iter();
        let headers: usize =
            headers.map(|(name, value)| part(Some(name.len())) + part(Some(value.len()))).sum();
        // The attributes, and the distances from the batch's first timestamp and offset.
        let message = 3
            + part(self.key.as_ref().map(Bytes::len))
            + part(self.value.as_ref().map(Bytes::len))
            + varint_bytes(self.headers.len() as i64)
            + headers;
        BATCH_HEAD_BYTES + varint_bytes(message as i64) + message
    }
}

/// The position of a message that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessagePosition {
    /// The partition.
    pub partition: u32,
    /// The offset. `None` if the broker had the message already from an earlier attempt, and did not return its offset: this
    /// is rare, as brokers know the offsets of the last five batches of a producer.
    pub offset: Option<u64>,
    /// The timestamp as readers see it: the broker's time if the topic has `message.timestamp.type=LogAppendTime`, otherwise
    /// the time at which the message was sent.
    pub timestamp: Timestamp,
}

/// The reason why messages are not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The producer cannot go on: open another one.
    #[error(transparent)]
    Failed(#[from] KafkaError),
    /// Some of the messages, by their index in ascending order, are larger than their topic accepts: see
    /// [`NewMessage::batch_bytes`]. Nothing is written.
    #[error("{} of the messages are larger than the topic accepts (`max.message.bytes`)", .0.len())]
    TooLarge(Vec<usize>),
}

/// A writer of messages.
#[async_trait]
pub trait Producer: Debug + Send {
    /// Connects, and looks up the limits of the topics. With transactions, it ends the producer of the same name before it,
    /// and aborts its open transaction. Called once, before `send`.
    async fn open(&mut self) -> Result<(), KafkaError>;

    /// Writes messages, those of a partition in this order, and returns when the brokers have them on all replicas in sync: the
    /// place of each message, in the order of the request. With transactions, they become visible together or not at all;
    /// after [`SendError::Failed`], the next producer of the name shows which. Without, some may be written then. Cancelling
    /// the future fails the producer.
    async fn send(&mut self, messages: &[NewMessage]) -> Result<Vec<MessagePosition>, SendError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_batch_are_those_of_the_format() {
        for (number, bytes) in [(0, 1), (-1, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), (1 << 40, 6)] {
            assert_eq!(varint_bytes(number), bytes, "{number}");
        }
        let message = |value: usize| NewMessage {
            topic: "t".into(),
            partition: None,
            key: None,
            value: Some(vec![0; value].into()),
            headers: Arc::default(),
        };
        // Length, attributes, two distances, no key, the value's length and none of headers.
        assert_eq!(message(0).batch_bytes(), BATCH_HEAD_BYTES + 1 + 3 + 1 + 1 + 1);
        assert_eq!(message(100).batch_bytes(), BATCH_HEAD_BYTES + 2 + 3 + 1 + 2 + 100 + 1);
    }
}
