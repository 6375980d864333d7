//! A cluster that a test writes to, and what a consumer returns of it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use swiftwater_kafka::{Consumer, ConsumerOptions, Fetched, Isolation, Kafka, MessageBatch};
pub(crate) use swiftwater_testkit::FakeMessage as Message;
use tokio::time::timeout;

/// The time after which a test fails instead of waiting.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A cluster under test. Calls return when the cluster has done it.
#[async_trait]
pub(crate) trait Cluster: Sync {
    fn kafka(&self) -> Arc<dyn Kafka>;
    /// Makes a topic, or deletes it and makes it again.
    async fn make_topic(&self, topic: &str, partitions: u32) {
        self.make_topic_of(topic, partitions, 20_000_000).await;
    }

    /// As [`Cluster::make_topic`], with the size of the largest message.
    async fn make_topic_of(&self, topic: &str, partitions: u32, message_bytes_max: usize);
    async fn append(&self, topic: &str, partition: u32, messages: &[Message]);
    /// Writes messages in one transaction, and commits or aborts it.
    async fn append_in_transaction(&self, topic: &str, messages: &[Message], commits: bool);
    async fn delete_before(&self, topic: &str, partition: u32, offset: u64);
    async fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<u64>;
    /// Adds partitions to a topic, which then has this many.
    async fn add_partitions(&self, topic: &str, partitions: u32);
}

pub(crate) fn options(isolation: Isolation) -> ConsumerOptions {
    ConsumerOptions { isolation, group: "readers".to_owned(), shares: 1 }
}

pub(crate) fn values(range: std::ops::Range<usize>) -> Vec<Message> {
    range.map(|number| Message::value(format!("value {number}"))).collect()
}

pub(crate) async fn next(consumer: &mut Box<dyn Consumer>) -> Fetched {
    timeout(PATIENCE, consumer.next()).await.expect("a consumer has news in time")
}

/// The next news that are no report of a broker that is away for a moment.
pub(crate) async fn next_settled(consumer: &mut Box<dyn Consumer>) -> Fetched {
    loop {
        match next(consumer).await {
            Fetched::Waiting { error, .. } => println!("waiting: {error}"),
            fetched => return fetched,
        }
    }
}

/// The messages of one partition up to its end, and the offset there. Those of others are an error.
pub(crate) async fn read(consumer: &mut Box<dyn Consumer>, partition: u32) -> (Vec<(u64, Message)>, u64) {
    let mut messages = Vec::new();
    let mut expected = None;
    loop {
        match next_settled(consumer).await {
            Fetched::Messages(batch) => {
                assert_eq!(batch.partition(), partition);
                assert!(expected.is_none_or(|next| batch.offsets()[0] >= next), "batches follow each other");
                expected = Some(batch.next());
                messages.extend(contents(&batch));
            }
            Fetched::End { partition: ended, next } => {
                assert_eq!(ended, partition);
                assert!(expected.is_none_or(|expected| next >= expected));
                return (messages, next);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The messages of a batch with their offsets.
pub(crate) fn contents(batch: &MessageBatch) -> Vec<(u64, Message)> {
    let contents = |message: swiftwater_kafka::Message<'_>| {
        let header = |(name, value): (&[u8], Option<&[u8]>)| {
            (String::from_utf8(name.to_vec()).unwrap(), value.map(<[u8]>::to_vec))
        };
        let content = Message {
            key: message.key().map(<[u8]>::to_vec),
            value: message.value().map(<[u8]>::to_vec),
            headers: message.headers().map(header).collect(),
            timestamp: Some(message.timestamp().millis).filter(|millis| *millis >= 0),
        };
        (message.offset(), content)
    };
    batch.messages().map(contents).collect()
}

/// The values of messages as text, with their offsets.
pub(crate) fn texts(messages: &[(u64, Message)]) -> Vec<(u64, String)> {
    let text = |message: &Message| String::from_utf8(message.value.clone().unwrap()).unwrap();
    messages.iter().map(|(offset, message)| (*offset, text(message))).collect()
}
