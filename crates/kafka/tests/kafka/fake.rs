//! The suite against the Kafka in memory, and what only that can do.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use swiftwater_kafka::{
    ConsumerOptions, Fetched, GroupEvent, GroupMember, GroupProtocol, Isolation, Kafka, KafkaError,
    KafkaErrorKind, MemberOptions, MessagePosition, OffsetAt, ProducerOptions, Timestamp, TopicPartition,
};
use swiftwater_testkit::FakeKafka;

use crate::{
    cluster::{Cluster, Message, next, options, read, values},
    suite::{self, each_case, message},
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

    async fn add_partitions(&self, topic: &str, partitions: u32) {
        FakeKafka::add_partitions(self, topic, partitions);
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

fn member_options(client: &str) -> MemberOptions {
    MemberOptions {
        group: "g".to_owned(),
        topics: vec!["t".to_owned()],
        instance_id: None,
        client_id: Some(client.to_owned()),
        session_timeout: Duration::from_secs(6),
        protocol: GroupProtocol::Classic,
    }
}

fn partitions(range: std::ops::Range<u32>) -> Vec<TopicPartition> {
    range.map(|partition| TopicPartition::new("t", partition)).collect()
}

/// The next event, if there is one already.
async fn event(member: &mut Box<dyn GroupMember>) -> Option<GroupEvent> {
    tokio::select! {
        biased;
        event = member.next() => Some(event),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn member_that_is_cut_off_keeps_its_partitions_until_its_session_ends() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 4);
    let (a, b) = (kafka.client("a"), kafka.client("b"));
    let mut one = a.member(&member_options("a")).unwrap();
    let mut two = b.member(&member_options("b")).unwrap();
    assert_eq!(event(&mut one).await, Some(GroupEvent::Assigned(partitions(0..4))));
    kafka.set_cut_off("a", true);
    assert_eq!(event(&mut two).await, None);
    assert!(
        matches!(event(&mut one).await, Some(GroupEvent::Waiting(error)) if error.kind() == &KafkaErrorKind::Unreachable)
    );
    assert_eq!(event(&mut one).await, None);
    assert!(a.topic("t").await.is_err() && b.topic("t").await.is_ok());
    kafka.expire("a");
    assert_eq!(event(&mut two).await, Some(GroupEvent::Assigned(partitions(0..4))));
    assert_eq!(event(&mut one).await, None);
    kafka.set_cut_off("a", false);
    one.commit(&[(TopicPartition::new("t", 0), 5, "late".to_owned())]);
    assert_eq!(event(&mut one).await, Some(GroupEvent::Lost(partitions(0..4))));
    assert!(
        matches!(event(&mut one).await, Some(GroupEvent::Waiting(error)) if error.to_string().contains("not assigned to this member"))
    );
    assert_eq!(kafka.committed("g", "t", 0), None);
    // It is a member again, and waits for what the other one releases.
    assert_eq!(event(&mut one).await, None);
    assert_eq!(event(&mut two).await, Some(GroupEvent::Revoked(partitions(2..4))));
    assert_eq!(event(&mut one).await, None);
    assert_eq!(event(&mut two).await, None);
    assert_eq!(event(&mut one).await, Some(GroupEvent::Assigned(partitions(2..4))));
}

#[tokio::test]
async fn revocation_that_was_released_while_cut_off_is_not_lost() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 2);
    let mut one = kafka.member(&member_options("a")).unwrap();
    let mut two = kafka.member(&member_options("b")).unwrap();
    assert_eq!(event(&mut one).await, Some(GroupEvent::Assigned(partitions(0..2))));
    assert_eq!(event(&mut two).await, None);
    assert_eq!(event(&mut one).await, Some(GroupEvent::Revoked(partitions(1..2))));
    kafka.set_cut_off("a", true);
    assert!(matches!(event(&mut one).await, Some(GroupEvent::Waiting(_))));
    // The release has not reached the broker.
    assert_eq!(event(&mut two).await, None);
    kafka.expire("a");
    assert_eq!(event(&mut two).await, Some(GroupEvent::Assigned(partitions(0..2))));
    kafka.set_cut_off("a", false);
    assert_eq!(event(&mut one).await, Some(GroupEvent::Lost(partitions(0..1))));
}

#[tokio::test]
async fn frozen_client_writes_when_it_continues() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 1);
    let client = kafka.client("a");
    let mut member = client.member(&member_options("a")).unwrap();
    assert_eq!(event(&mut member).await, Some(GroupEvent::Assigned(partitions(0..1))));
    let mut producer =
        client.producer(&ProducerOptions { topics: vec!["t".into()], ..ProducerOptions::default() }).unwrap();
    producer.open().await.unwrap();
    kafka.set_frozen("a", true);
    member.commit(&[(TopicPartition::new("t", 0), 1, "x".to_owned())]);
    assert_eq!(event(&mut member).await, None);
    assert_eq!(kafka.committed("g", "t", 0), None);
    let sent = tokio::spawn(async move { producer.send(&[message("t", None, "late")]).await });
    let mut other = kafka.client("b").consumer("t", &options(Isolation::ReadCommitted)).unwrap();
    other.assign(0, 0);
    assert_eq!(read(&mut other, 0).await, (vec![], 0));
    // An operating system that stops a process does not end its session: that takes its time.
    assert_eq!(kafka.group("g").await.unwrap().len(), 1);
    kafka.set_frozen("a", false);
    assert_eq!(sent.await.unwrap().unwrap()[0].offset, Some(0));
    assert_eq!(event(&mut member).await, None);
    assert_eq!(kafka.committed_with_text("g", "t", 0), Some((1, "x".to_owned())));
    // It does not leave while it is frozen.
    kafka.set_frozen("a", true);
    drop(member);
    assert_eq!(kafka.group("g").await.unwrap().len(), 1);
    kafka.expire("a");
    assert_eq!(kafka.group("g").await.unwrap(), []);
}

#[tokio::test]
async fn static_member_that_does_not_come_back_loses_its_partitions_with_its_session() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 2);
    let named = |name: &str| MemberOptions { instance_id: Some(name.to_owned()), ..member_options(name) };
    let (mut one, mut two) = (kafka.member(&named("a")).unwrap(), kafka.member(&named("b")).unwrap());
    assert_eq!(event(&mut one).await, Some(GroupEvent::Assigned(partitions(0..2))));
    one.leave().await;
    assert_eq!(event(&mut two).await, None);
    kafka.expire("a");
    assert_eq!(event(&mut two).await, Some(GroupEvent::Assigned(partitions(0..2))));
}

#[tokio::test]
async fn commit_of_a_consumer_to_a_group_with_members_fails() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "t", 1);
    let mut member = kafka.member(&member_options("a")).unwrap();
    assert!(event(&mut member).await.is_some());
    let options = ConsumerOptions { group: "g".to_owned(), ..options(Isolation::ReadCommitted) };
    let mut consumer = kafka.consumer("t", &options).unwrap();
    consumer.commit(&[(0, 1)]);
    assert!(matches!(next(&mut consumer).await, Fetched::Waiting { partition: None, .. }));
    assert_eq!(kafka.committed("g", "t", 0), None);
}

#[tokio::test]
async fn messages_have_the_time_of_the_broker_where_the_topic_says_so() {
    let kafka = FakeKafka::new();
    FakeKafka::make_topic(&kafka, "created", 1);
    FakeKafka::make_topic(&kafka, "appended", 1);
    kafka.set_append_time("appended", true);
    let topics = vec!["created".into(), "appended".into()];
    let mut producer = kafka.producer(&ProducerOptions { topics, ..ProducerOptions::default() }).unwrap();
    producer.open().await.unwrap();
    for (millis, offset) in [(1_000, 0), (5_000, 1), (3_000, 2)] {
        kafka.set_time(millis);
        let sent = producer.send(&[message("created", None, "x"), message("appended", None, "x")]).await;
        let place = |timestamp| MessagePosition { partition: 0, offset: Some(offset), timestamp };
        assert_eq!(sent, Ok(vec![place(Timestamp::create(millis)), place(Timestamp::append(millis))]));
    }
    let mut consumer = kafka.consumer("appended", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let Fetched::Messages(batch) = next(&mut consumer).await else { panic!("messages are there") };
    assert_eq!(batch.timestamps(), [1_000, 5_000, 3_000].map(Timestamp::append));
    assert_eq!(kafka.offsets("appended", &[(0, OffsetAt::Timestamp(1_001))]).await, Ok(vec![1]));
}
