//! The suite against the Kafka in memory, and what only that can do.

use std::sync::Arc;

use async_trait::async_trait;
use swiftwater_kafka::{Fetched, Isolation, Kafka, KafkaError, KafkaErrorKind};
use swiftwater_testkit::FakeKafka;

use crate::{
    cluster::{Cluster, Message, next, options, read, values},
    suite::{self, each_case},
};

#[async_trait]
impl Cluster for FakeKafka {
    fn kafka(&self) -> Arc<dyn Kafka> {
        Arc::new(self.clone())
    }

    async fn make_topic_of(&self, topic: &str, partitions: u32, message_bytes_max: usize) {
        FakeKafka::make_topic(self, topic, partitions);
        self.set_message_bytes_max(topic, message_bytes_max);
    }

    async fn append(&self, topic: &str, partition: u32, messages: &[Message]) {
        for message in messages {
            FakeKafka::append(self, topic, partition, message.clone());
        }
    }

    async fn append_in_transaction(&self, topic: &str, messages: &[Message], commits: bool) {
        let transaction = self.begin();
        for message in messages {
            self.append_in(transaction, topic, 0, message.clone());
        }
        if commits {
            self.commit(transaction);
        } else {
            self.abort(transaction);
        }
    }

    async fn delete_before(&self, topic: &str, partition: u32, offset: u64) {
        FakeKafka::delete_before(self, topic, partition, offset);
    }

    async fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<u64> {
        FakeKafka::committed(self, group, topic, partition)
    }
}

macro_rules! tests {
    ($($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let kafka = FakeKafka::new();
                kafka.set_batch_messages(70);
                suite::$case(&kafka).await;
            }
        )*
    };
}
each_case!(tests);

#[tokio::test]
async fn broker_that_is_away_is_reported_once_and_reading_continues() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 1);
    kafka.append_values("t", 0, ["a"]);
    let mut consumer = kafka.consumer("t", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    kafka.set_away(true);
    assert!(kafka.topic("t").await.is_err_and(|error| error.kind() == &KafkaErrorKind::Unreachable));
    assert!(matches!(next(&mut consumer).await, Fetched::Waiting { partition: None, .. }));
    kafka.set_away(false);
    let (messages, _) = read(&mut consumer, 0).await;
    assert_eq!(messages.len(), 1);
}

#[tokio::test]
async fn error_of_a_partition_leaves_the_others() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 2);
    kafka.append_values("t", 0, ["a"]);
    let right = KafkaErrorKind::Unauthorized { right: "READ on topic `t`".into() };
    kafka.set_error("t", 0, Some(KafkaError::new(right, "the identity has no right")));
    let mut consumer = kafka.consumer("t", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    consumer.assign(1, 0);
    assert!(matches!(next(&mut consumer).await, Fetched::Waiting { partition: Some(0), .. }));
    assert!(matches!(next(&mut consumer).await, Fetched::End { partition: 1, next: 0 }));
    kafka.set_error("t", 0, None);
    let (messages, _) = read(&mut consumer, 0).await;
    assert_eq!(messages.len(), 1);
    kafka.fail_call(KafkaError::new(KafkaErrorKind::Other, "on demand"));
    assert!(kafka.topic("t").await.is_err());
    assert!(kafka.topic("t").await.is_ok());
}

#[tokio::test]
async fn open_transaction_ends_reading_until_it_is_committed() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 1);
    let transaction = kafka.begin();
    kafka.append_in(transaction, "t", 0, Message::value("a"));
    Cluster::append(&kafka, "t", 0, &values(0..1)).await;
    let mut consumer = kafka.consumer("t", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    assert_eq!(read(&mut consumer, 0).await, (vec![], 0));
    kafka.commit(transaction);
    let (messages, next) = read(&mut consumer, 0).await;
    assert_eq!((messages.len(), next), (2, 3));
}
