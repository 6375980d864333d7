//! The semantics of `Producer`, whoever implements it.

use std::sync::Arc;

use bytes::Bytes;
use swiftwater_kafka::{
    Fetched, Isolation, KafkaErrorKind, NewMessage, Partitioner, Producer, ProducerOptions, SendError,
    TimestampKind,
};

use crate::cluster::*;

pub(crate) fn message(topic: &str, key: Option<&str>, value: &str) -> NewMessage {
    NewMessage {
        topic: topic.into(),
        partition: None,
        key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Arc::default(),
    }
}

fn in_partition(topic: &str, partition: u32, value: &str) -> NewMessage {
    NewMessage { partition: Some(partition), ..message(topic, None, value) }
}

async fn producer(
    cluster: &dyn Cluster,
    transactional_id: Option<&str>,
    topics: &[&str],
) -> Box<dyn Producer> {
    let options = ProducerOptions {
        transactional_id: transactional_id.map(str::to_owned),
        topics: topics.iter().map(|topic| (*topic).into()).collect(),
        ..ProducerOptions::default()
    };
    let mut producer = cluster.kafka().producer(&options).unwrap();
    producer.open().await.unwrap();
    producer
}

/// The values that a consumer of committed messages reads of a partition.
async fn committed(cluster: &dyn Cluster, topic: &str, partition: u32) -> Vec<String> {
    let mut consumer = cluster.kafka().consumer(topic, &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(partition, 0);
    let (messages, _) = read(&mut consumer, partition).await;
    texts(&messages).into_iter().map(|(_, text)| text).collect()
}

pub(crate) async fn messages_are_written_as_they_are(cluster: &dyn Cluster) {
    cluster.make_topic("written", 1).await;
    let mut producer = producer(cluster, None, &["written"]).await;
    let headers: Arc<[(Box<str>, Box<str>)]> = [("h".into(), "1".into()), ("h".into(), "".into())].into();
    let forms =
        [(None, None), (None, Some("")), (Some(""), None), (Some(""), Some("")), (Some("k"), Some("v"))];
    let bytes = |text: Option<&'static str>| text.map(|text| Bytes::from_static(text.as_bytes()));
    let messages = forms.map(|(key, value)| NewMessage {
        topic: "written".into(),
        partition: Some(0),
        key: bytes(key),
        value: bytes(value),
        headers: Arc::clone(&headers),
    });
    producer.send(&messages).await.unwrap();
    producer.send(&[]).await.unwrap();
    let mut consumer = cluster.kafka().consumer("written", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let (read, _) = read(&mut consumer, 0).await;
    assert_eq!(read.len(), forms.len());
    for ((_, read), (key, value)) in read.iter().zip(forms) {
        assert_eq!(read.key.as_deref(), key.map(str::as_bytes));
        assert_eq!(read.value.as_deref(), value.map(str::as_bytes));
        let value = |text: &str| ("h".to_owned(), Some(text.as_bytes().to_vec()));
        assert_eq!(read.headers, [value("1"), value("")]);
    }
}

pub(crate) async fn keys_choose_partitions_as_stated(cluster: &dyn Cluster) {
    for (topic, partitioner) in [("murmur2", Partitioner::Murmur2), ("crc32", Partitioner::Crc32)] {
        cluster.make_topic(topic, 5).await;
        let topics = vec![topic.into()];
        let options = ProducerOptions { partitioner, topics, ..ProducerOptions::default() };
        let mut producer = cluster.kafka().producer(&options).unwrap();
        producer.open().await.unwrap();
        let keys: Vec<String> = (0..200).map(|n| format!("key {}", "x".repeat(n))).collect();
        let messages: Vec<NewMessage> = keys.iter().map(|key| message(topic, Some(key), key)).collect();
        producer.send(&messages).await.unwrap();
        for partition in 0..5 {
            let is_here = |key: &&String| partitioner.partition(Some(key.as_bytes()), 5) == Some(partition);
            let expected: Vec<String> = keys.iter().filter(is_here).cloned().collect();
            assert_eq!(committed(cluster, topic, partition).await, expected);
        }
    }
}

pub(crate) async fn transaction_is_whole_over_topics(cluster: &dyn Cluster) {
    cluster.make_topic("whole-a", 2).await;
    cluster.make_topic("whole-b", 1).await;
    let mut producer = producer(cluster, Some("whole"), &["whole-a", "whole-b"]).await;
    for round in 0..3 {
        let values: Vec<String> = (0..500).map(|n| format!("{round} {n}")).collect();
        let mut messages: Vec<NewMessage> = values
            .iter()
            .enumerate()
            .map(|(n, value)| in_partition("whole-a", n as u32 % 2, value))
            .collect();
        messages.push(in_partition("whole-b", 0, &round.to_string()));
        producer.send(&messages).await.unwrap();
    }
    let of = |partition: usize| {
        let values = (0..3).flat_map(move |round| (0..500).map(move |n| (round, n)));
        let here = values.filter(move |(_, n)| n % 2 == partition);
        here.map(|(round, n)| format!("{round} {n}")).collect::<Vec<_>>()
    };
    assert_eq!(committed(cluster, "whole-a", 0).await, of(0));
    assert_eq!(committed(cluster, "whole-a", 1).await, of(1));
    assert_eq!(committed(cluster, "whole-b", 0).await, ["0", "1", "2"]);
}

pub(crate) async fn earlier_producer_of_a_name_is_fenced(cluster: &dyn Cluster) {
    cluster.make_topic("fenced", 1).await;
    let mut first = producer(cluster, Some("fenced"), &["fenced"]).await;
    first.send(&[in_partition("fenced", 0, "a")]).await.unwrap();
    let mut second = producer(cluster, Some("fenced"), &["fenced"]).await;
    second.send(&[in_partition("fenced", 0, "b")]).await.unwrap();
    let fenced = first.send(&[in_partition("fenced", 0, "c")]).await;
    match fenced {
        Err(SendError::Failed(error)) => assert!(error.to_string().contains("another producer"), "{error}"),
        other => panic!("{other:?}"),
    }
    second.send(&[in_partition("fenced", 0, "d")]).await.unwrap();
    assert_eq!(committed(cluster, "fenced", 0).await, ["a", "b", "d"]);
}

pub(crate) async fn message_that_is_too_large_is_named(cluster: &dyn Cluster) {
    // A batch of the small ones exceeds the limit, which none of them does.
    cluster.make_topic_of("sizes", 1, 70_000).await;
    let small: Vec<String> = (0..60).map(|n| format!("{n:-<60000}")).collect();
    let large = "x".repeat(110_000);
    for id in [None, Some("sizes")] {
        let mut producer = producer(cluster, id, &["sizes"]).await;
        let mut messages: Vec<NewMessage> =
            small.iter().map(|value| in_partition("sizes", 0, value)).collect();
        messages.insert(7, in_partition("sizes", 0, &large));
        messages.push(in_partition("sizes", 0, &large));
        let sent = producer.send(&messages).await;
        assert_eq!(sent, Err(SendError::TooLarge(vec![7, 61])), "{id:?}");
        let before = committed(cluster, "sizes", 0).await.len();
        let good: Vec<NewMessage> = small.iter().map(|value| in_partition("sizes", 0, value)).collect();
        producer.send(&good).await.unwrap();
        assert_eq!(committed(cluster, "sizes", 0).await[before..], small);
    }
}

pub(crate) async fn limit_of_a_topic_is_exact(cluster: &dyn Cluster) {
    cluster.make_topic_of("limits", 1, 5_000).await;
    let mut producer = producer(cluster, None, &["limits"]).await;
    let largest = (4_000..5_000)
        .map(|length| in_partition("limits", 0, &"x".repeat(length)))
        .take_while(|message| message.batch_bytes() <= 5_000)
        .last()
        .unwrap();
    assert_eq!(largest.batch_bytes(), 5_000);
    producer.send(&[largest]).await.unwrap();
    assert_eq!(committed(cluster, "limits", 0).await.len(), 1);
}

pub(crate) async fn producer_of_an_unknown_topic_does_not_open(cluster: &dyn Cluster) {
    let topics = vec!["there-is-none".into()];
    let options = ProducerOptions { topics, ..ProducerOptions::default() };
    let mut producer = cluster.kafka().producer(&options).unwrap();
    let error = producer.open().await.unwrap_err();
    assert_eq!(error.kind(), &KafkaErrorKind::UnknownTopic, "{error}");
    assert!(error.to_string().contains("there-is-none"), "{error}");
    assert!(cluster.kafka().topic("there-is-none").await.is_err());
}

pub(crate) async fn topic_is_created_once(cluster: &dyn Cluster) {
    let kafka = cluster.kafka();
    let properties = [("cleanup.policy", "compact"), ("segment.bytes", "16777216")];
    kafka.create_topic("created", 1, &properties).await.unwrap();
    let made = kafka.topic("created").await.unwrap();
    kafka.create_topic("created", 3, &[]).await.unwrap();
    assert_eq!(kafka.topic("created").await.unwrap(), made);
    assert_eq!(made.partitions, 1);
}

pub(crate) async fn places_of_messages_are_returned(cluster: &dyn Cluster) {
    let kafka = cluster.kafka();
    for (topic, id, of_the_broker) in [
        ("places-created", None, false),
        ("places-appended", None, true),
        ("places-transaction", Some("places"), true),
    ] {
        let kind = if of_the_broker { "LogAppendTime" } else { "CreateTime" };
        kafka.create_topic(topic, 3, &[("message.timestamp.type", kind)]).await.unwrap();
        let mut producer = producer(cluster, id, &[topic]).await;
        let mut written = Vec::new();
        for round in 0..3 {
            let messages: Vec<NewMessage> =
                (0..400).map(|n| in_partition(topic, n % 2 + 1, &format!("{round} {n}"))).collect();
            let sent = producer.send(&messages).await.unwrap();
            assert_eq!(sent.len(), messages.len());
            written.extend(messages.into_iter().zip(sent));
        }
        assert!(producer.send(&[]).await.unwrap().is_empty());
        for partition in [1, 2] {
            let mut consumer = kafka.consumer(topic, &options(Isolation::ReadCommitted)).unwrap();
            let mut here = Vec::new();
            for (message, place) in &written {
                if message.partition == Some(partition) {
                    here.push((message, place));
                }
            }
            // The broker may have messages of an earlier run.
            consumer.assign(partition, here[0].1.offset.unwrap());
            let mut read = 0;
            while read < here.len() {
                let Fetched::Messages(batch) = next_settled(&mut consumer).await else { continue };
                for message in batch.messages() {
                    let (sent, place) = here[read];
                    read += 1;
                    assert_eq!(message.value(), sent.value.as_deref());
                    assert_eq!(place.partition, partition);
                    assert_eq!(place.offset, Some(message.offset()));
                    assert_eq!(place.timestamp, message.timestamp(), "{topic}");
                    assert_eq!(place.timestamp.kind == TimestampKind::Append, of_the_broker, "{topic}");
                }
            }
        }
    }
}
