//! Members of consumer groups: a group divides the partitions of topics among its members, and moves them when members come
//! and go.
//!
//! A member fetches nothing. Its caller reads the partitions that it is assigned with a [`Consumer`](crate::Consumer), from
//! offsets of its own or from those that the group has committed.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::KafkaError;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: u32,
}

impl TopicPartition {
    /// A partition of a topic.
    pub fn new(topic: impl Into<Arc<str>>, partition: u32) -> TopicPartition {
        TopicPartition { topic: topic.into(), partition }
    }
}

/// The protocol of a group. All members of a group have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupProtocol {
    /// A member computes the assignment of all, with the strategy `cooperative-sticky`: a partition moves only if that
    /// balances the group. Supported by all brokers.
    #[default]
    Classic,
    /// The broker computes the assignment (KIP-848). Supported by brokers of Kafka 4.0 and later.
    Consumer,
}

/// The settings of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberOptions {
    /// The group. Offsets of a group that has members can be committed by a member only: a
    /// [`Consumer::commit`](crate::Consumer::commit) to it fails.
    pub group: String,
    /// The topics whose partitions the group divides. An unknown one has no partitions until it is made.
    pub topics: Vec<String>,
    /// The name of a static member. Its partitions remain assigned to it after it has ended, until the session is over:
    /// if a member of this name joins before, it is assigned the same. `None`: the partitions go to others at once.
    pub instance_id: Option<String>,
    /// The `client.id`, by which [`MemberDescription`] and the broker name the member; `None`: `swiftwater`.
    pub client_id: Option<String>,
    /// The time without a heartbeat after which the group assigns the member's partitions to others. A broker accepts 6 s
    /// to 30 min unless it is configured otherwise. With [`GroupProtocol::Consumer`], the broker's own setting
    /// `group.consumer.session.timeout.ms` applies instead.
    pub session_timeout: Duration,
    /// The protocol.
    pub protocol: GroupProtocol,
}

/// The news of a member. Lists of partitions are in ascending order and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// Partitions that are assigned to the member, beside those that it has. No other member has them.
    Assigned(Vec<TopicPartition>),
    /// Partitions that go to other members. They stay this member's until the next call of [`GroupMember::next`], so that the
    /// caller can finish and commit first. The whole group waits for it: see [`GroupMember::next`].
    Revoked(Vec<TopicPartition>),
    /// All partitions of the member, as its session is over: they may be another member's already. Commits of them fail.
    /// The member joins again by itself.
    Lost(Vec<TopicPartition>),
    /// The member waits for the broker or for a topic, or a commit has failed, which is not repeated. The member continues by
    /// itself when the cause is gone. The same error is returned every 10 s at most.
    Waiting(KafkaError),
    /// The member has ended. Its partitions may be another member's already. A static member ends when another one of its name
    /// joins (with [`GroupProtocol::Consumer`], it is the later one that ends, while the earlier one has a session). With
    /// [`GroupProtocol::Consumer`], a missing right on the group ends a member, too; otherwise it waits for the right.
    Failed(KafkaError),
}

/// The committed offset of a partition, the next one to read, with the text that was committed with it.
pub type CommittedOffset = (u64, String);

/// A member of a consumer group. It joins at the first call of `next`, and sends heartbeats until it is dropped, also while
/// nobody calls it.
///
/// Dropping it leaves the group, and does not wait for that; a static member does not leave, and its session ends later.
#[async_trait]
pub trait GroupMember: Debug + Send {
    /// Waits for the next news. First releases the partitions that the call before has returned as revoked. Cancelling the
    /// future loses nothing. After [`GroupEvent::Failed`], it returns that again.
    ///
    /// Revocations wait for the next call, and with them the new members of all revoked partitions. A member that does not
    /// call for 60 s after a revocation (for the session's time if that is longer) loses all its partitions.
    async fn next(&mut self) -> GroupEvent;

    /// Subscribes to these topics instead. The group is rebalanced: partitions of topics that are not among them are revoked.
    fn subscribe(&mut self, topics: &[String]);

    /// Commits offsets, the next ones to read, each with a text of at most 4096 bytes (the broker's
    /// `offset.metadata.max.bytes`). The partitions are the member's; those that were returned as revoked are, until the next call
    /// of [`GroupMember::next`]. Does not wait for the broker; a failure comes as [`GroupEvent::Waiting`].
    fn commit(&mut self, offsets: &[(TopicPartition, u64, String)]);

    /// Leaves the group after its commits are written, and returns when the broker has been told, or after 5 s. All
    /// partitions are released. A static member does not leave: its session ends later.
    async fn leave(self: Box<Self>);
}

/// A member of a group as its broker describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// The name that the broker has given it.
    pub id: String,
    /// The name of a static member.
    pub instance_id: Option<String>,
    /// Its `client.id`.
    pub client_id: String,
    /// The host from which it is connected, such as `/10.0.0.7`.
    pub host: String,
    /// The partitions that are assigned to it, in ascending order.
    pub partitions: Vec<TopicPartition>,
}
