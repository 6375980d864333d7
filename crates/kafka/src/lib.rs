//! Apache Kafka: topics, their messages and offsets, behind traits that a client and a fake one implement.
//!
//! Bytes and positions only. Knows no JSON, no streams and no engine. A consumer reads the partitions that its caller assigns,
//! from offsets that the caller has persisted; a member of a consumer group reads nothing, and is told which partitions are
//! its own.
//! The feature `client` adds `Client`, the one implementation that talks to brokers, by librdkafka; `testkit` has a fake.

mod batch;
#[cfg(feature = "client")]
mod client;
mod connection;
mod error;
mod group;
mod partitioner;
mod producer;
#[cfg(feature = "client")]
mod stall;

use std::{
    fmt::{self, Debug, Display},
    str::FromStr,
};

use async_trait::async_trait;

pub use batch::{BUFFER_BYTES_MAX, Message, MessageBatch, MessageBatchBuilder, Timestamp, TimestampKind};
#[cfg(feature = "client")]
pub use client::Client;
pub use connection::{ConnectionConfig, SaslMechanism, SecurityProtocol};
pub use error::{KafkaError, KafkaErrorKind};
pub use group::{
    CommittedOffset, GroupEvent, GroupMember, GroupProtocol, MemberDescription, MemberOptions, TopicPartition,
};
pub use partitioner::Partitioner;
pub use producer::{MessagePosition, NewMessage, Producer, ProducerOptions, SendError};

/// The identity of a topic: a topic that is deleted and made again has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub u128);

/// The digits of base64 for URLs, in the order of their values.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The digits of an identity: 128 bits, 6 a digit.
const ID_DIGITS: usize = 22;

/// As Kafka's own tools print it: 22 digits of base64 for URLs.
impl Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in 0..ID_DIGITS {
            // The last digit has 2 bits of the identity, and 4 zeros.
            let bits = if digit == ID_DIGITS - 1 { self.0 << 4 } else { self.0 >> (122 - 6 * digit) };
            write!(f, "{}", BASE64[(bits & 63) as usize] as char)?;
        }
        Ok(())
    }
}

/// A text that is no identity of a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no topic id: it has 22 digits of base64 for URLs")]
pub struct TopicIdError {
    text: Box<str>,
}

impl FromStr for TopicId {
    type Err = TopicIdError;

    fn from_str(text: &str) -> Result<TopicId, TopicIdError> {
        let invalid = || TopicIdError { text: text.into() };
        if text.len() != ID_DIGITS {
            return Err(invalid());
        }
        let mut id: u128 = 0;
        for (place, character) in text.bytes().enumerate() {
            let digit = BASE64.iter().position(|digit| *digit == character).ok_or_else(invalid)? as u128;
            if place < ID_DIGITS - 1 {
                id = id << 6 | digit;
            } else if digit & 15 == 0 {
                id = id << 2 | digit >> 4;
            } else {
                return Err(invalid());
            }
        }
        Ok(TopicId(id))
    }
}

/// A topic as its broker describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// Its identity.
    pub id: TopicId,
    /// The number of its partitions, which may grow. They are numbered from 0.
    pub partitions: u32,
}

/// A place in a partition that the broker translates into an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffsetAt {
    /// The first message that retention has left.
    Earliest,
    /// The end: the offset of the next message that is written. Messages of open transactions are before it.
    Latest,
    /// The first message with this timestamp or a later one, in milliseconds since 1970; the end if there is none.
    Timestamp(i64),
}

/// The treatment of messages of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Messages of aborted transactions are left out. Reading waits at the first message of an open transaction.
    #[default]
    ReadCommitted,
    /// All messages as they are written.
    ReadUncommitted,
}

/// The settings of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// The treatment of messages of transactions.
    pub isolation: Isolation,
    /// The consumer group that [`Consumer::commit`] writes to. The consumer does not join it. Commits fail while the group
    /// has members.
    pub group: String,
    /// The consumers that share the memory of the connection, with this one.
    pub shares: u32,
}

/// A connection to the brokers of one cluster. It connects at the first call.
#[async_trait]
pub trait Kafka: Debug + Send + Sync {
    /// The topic of this name. It is never created.
    async fn topic(&self, name: &str) -> Result<Topic, KafkaError>;

    /// The offset of each place, in the order of the request. A partition may occur several times.
    async fn offsets(&self, topic: &str, places: &[(u32, OffsetAt)]) -> Result<Vec<u64>, KafkaError>;

    /// Makes a topic with as many replicas as the brokers have by default. Does nothing if there is a topic of this name,
    /// whatever its properties. Returns when a broker knows the topic; calls about it wait for others that do not for a few seconds.
    /// `properties` are Kafka's own, such as `cleanup.policy`.
    async fn create_topic(
        &self,
        name: &str,
        partitions: u32,
        properties: &[(&str, &str)],
    ) -> Result<(), KafkaError>;

    /// A consumer of one topic, without partitions so far. Its errors, an unknown topic among them, come as [`Fetched`].
    fn consumer(&self, topic: &str, options: &ConsumerOptions) -> Result<Box<dyn Consumer>, KafkaError>;

    /// A producer, which is not open so far.
    fn producer(&self, options: &ProducerOptions) -> Result<Box<dyn Producer>, KafkaError>;

    /// A member of a consumer group. It joins at the first call of [`GroupMember::next`].
    fn member(&self, options: &MemberOptions) -> Result<Box<dyn GroupMember>, KafkaError>;

    /// The members of a group, in the order of their ids. None if there is no such group.
    async fn group(&self, group: &str) -> Result<Vec<MemberDescription>, KafkaError>;

    /// The offsets that a group has committed, in the order of the partitions; `None` where it has none.
    async fn group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<CommittedOffset>>, KafkaError>;
}

/// A reader of partitions of one topic. Dropping it ends its connections.
///
/// `assign`, `unassign`, `pause` and `resume` take effect at once for [`Consumer::next`], and on the network soon after.
#[async_trait]
pub trait Consumer: Debug + Send {
    /// Reads a partition from an offset on; if it is assigned, from there anew. The partition is not paused.
    fn assign(&mut self, partition: u32, from: u64);

    /// Reads a partition no more. What was fetched of it is dropped.
    fn unassign(&mut self, partition: u32);

    /// Returns nothing of a partition until [`Consumer::resume`]. What was fetched of it is dropped, and fetched again then:
    /// to slow down all partitions, call [`Consumer::next`] less often instead.
    fn pause(&mut self, partition: u32);

    /// Ends a pause: reading continues at the next offset that was not returned.
    fn resume(&mut self, partition: u32);

    /// Waits for the next news. Cancelling the future loses nothing. After [`Fetched::Failed`], it returns that again.
    async fn next(&mut self) -> Fetched;

    /// Writes offsets, the next ones to read, to the consumer group on the broker. Does not wait for the broker; a failure
    /// comes as [`Fetched::Waiting`].
    fn commit(&mut self, offsets: &[(u32, u64)]);

    /// The number of times that a partition was assigned anew as its end moved and its position did not.
    fn stalls(&self) -> u64;
}

/// The news of a consumer.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// Messages of one partition, at least one. They follow what was returned of it before.
    Messages(MessageBatch),
    /// All of a partition is read, for now. Returned again after each further message that was the last one.
    End {
        /// The partition.
        partition: u32,
        /// The next offset to read. It is after the markers of transactions, which are no messages.
        next: u64,
    },
    /// The partition does not have the offset: retention has deleted it, or the topic was made again. The partition is
    /// no longer assigned.
    Gap {
        /// The partition.
        partition: u32,
        /// The offset that was to be read.
        wanted: u64,
        /// The first offset that the partition has.
        first: u64,
        /// Its end.
        end: u64,
    },
    /// Reading waits for the broker. It continues by itself when the cause is gone. The same error of a partition is
    /// returned every 10 s at most.
    Waiting {
        /// The partition; `None` if it concerns all.
        partition: Option<u32>,
        /// The cause.
        error: KafkaError,
    },
    /// The consumer has ended, and reads no more.
    Failed(KafkaError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_id_is_printed_as_by_kafka() {
        // Uuid.METADATA_TOPIC_ID of Kafka is 0:1; its text ends in `AQ` (RFC 4648).
        assert_eq!(TopicId(1).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210] {
            assert_eq!(TopicId(id).to_string().parse(), Ok(TopicId(id)));
        }
        for text in ["", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAA+Q", "AAAAAAAAAAAAAAAAAAAAAAQ"] {
            assert!(text.parse::<TopicId>().is_err(), "{text}");
        }
    }
}
