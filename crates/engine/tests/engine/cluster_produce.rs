//! Tests events that clients send to the nodes of a cluster: each is in the topic once, or refused with its row, or its request fails.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{collections::BTreeSet, time::Duration};

use swiftwater_engine::{
    AppendOptions, Appended, Engine, EngineError, ErrorKind, Numbered, Principal, TopicPlace,
};
use swiftwater_event::{EventBatch, StreamName};
use swiftwater_testkit::{FakeKafka, SendFault};

use crate::{
    cluster::{Node, lines, next, node, try_ask},
    history::{batch, sql, stop, try_sql},
};

const GRACE: Duration = Duration::from_secs(5);

fn kafka(partitions: u32) -> FakeKafka {
    let kafka = FakeKafka::new();
    kafka.set_time(1_800_000_000_000);
    kafka.make_topic("t", partitions);
    kafka.set_append_time("t", true);
    kafka
}

async fn send(engine: &Engine, events: EventBatch) -> Result<Appended, EngineError> {
    let name = StreamName::new("s").unwrap();
    engine.append(&Principal::local(), &name, events, AppendOptions::default()).await
}

/// The messages of topic `t`: partition, offset, key and value.
fn messages(kafka: &FakeKafka, partitions: u32) -> Vec<(u32, u64, Option<String>, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let of = |partition| {
        let all = kafka.committed_messages("t", partition).into_iter();
        all.map(move |(offset, message)| {
            (partition, offset, message.key.map(text), text(message.value.unwrap()))
        })
    };
    (0..partitions).flat_map(of).collect()
}

async fn stop_all(nodes: Vec<Node>) {
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_sent_to_any_node_are_seen_once_by_a_query_at_another() {
    let kafka = kafka(4);
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(node(&kafka, name).await);
    }
    sql(&nodes[0].engine, "CREATE STREAM s FROM KAFKA (topic = 't') WITH (produce = true)").await;
    // Node b may not know the stream yet: its first event asks the brokers, and begins no stream of that node alone.
    let first = send(&nodes[1].engine, batch("{\"n\":0}")).await.unwrap();
    assert_eq!(messages(&kafka, 4).len(), 1, "{first:?}");
    // A query sees the events from its time on.
    kafka.set_time(1_800_000_001_000);
    let mut query = loop {
        if let Ok(query) = try_ask(&nodes[2].engine, "SELECT n FROM STREAM(s)").await
            && nodes[2].engine.is_of_cluster(&StreamName::new("s").unwrap())
        {
            break query;
        }
    };
    let mut sending = Vec::new();
    for request in 0..40_u64 {
        let engine = nodes[request as usize % 2].engine.clone();
        // Events may be of several lines.
        let events: String =
            (1..=25).map(|event| format!("{{\n \"n\":{}}}\n", request * 25 + event)).collect();
        sending.push(tokio::spawn(async move { send(&engine, batch(&events)).await.unwrap() }));
    }
    let mut places = BTreeSet::new();
    for sent in sending {
        let sent = sent.await.unwrap();
        let written = sent.written.unwrap();
        assert_eq!((sent.accepted, written.events.len(), &*written.topic), (25, 25, "t"));
        for TopicPlace { partition, offset } in written.events {
            assert!(places.insert((partition, offset.unwrap())), "{partition}:{offset:?} is told twice");
        }
    }
    let mut found: BTreeSet<_> =
        messages(&kafka, 4).into_iter().map(|(partition, offset, ..)| (partition, offset)).collect();
    let TopicPlace { partition, offset } = first.written.unwrap().events[0];
    assert!(found.remove(&(partition, offset.unwrap())));
    assert_eq!(places, found);
    let mut seen = BTreeSet::new();
    while seen.len() < 1000 {
        for line in lines(&next(&mut query).await) {
            assert!(seen.insert(line.clone()), "{line} comes twice");
        }
    }
    assert_eq!(seen, (1..=1000).map(|n| format!("{{\"n\":{n}}}")).collect());
    drop(query);
    stop_all(nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_choose_partitions_as_other_producers_do() {
    let kafka = kafka(7);
    let node = node(&kafka, "a").await;
    let create = |options: &str| {
        format!("CREATE STREAM s FROM KAFKA (topic = 't', key = 'u.id'{options}) WITH (produce = true)")
    };
    sql(&node.engine, &create("")).await;
    let events = "{\"u\":{\"id\":\"foobar\"}}\n{\"u\":{\"id\":21}}\n{\"u\":{\"id\":\"\\u0032\\u0031\"}}\n{\"u\":{\"id\":null}}\n{\"u\":[]}";
    let sent = send(&node.engine, batch(events)).await.unwrap();
    let partitions: Vec<u32> = sent.written.unwrap().events.iter().map(|place| place.partition).collect();
    // The hashes of Kafka's own UtilsTest, without their signs as DefaultPartitioner takes them.
    let murmur2 = |hash: i32| (hash & 0x7fff_ffff) as u32 % 7;
    let (foobar, number) = (murmur2(-790_332_482), murmur2(-973_932_308));
    assert_eq!(partitions[..3], [foobar, number, number]);
    let keys: Vec<_> = messages(&kafka, 7).into_iter().map(|(_, _, key, value)| (value, key)).collect();
    let key = |value: &str| keys.iter().find(|(of, _)| of == value).unwrap().1.clone();
    assert_eq!(key("{\"u\":{\"id\":\"foobar\"}}").as_deref(), Some("foobar"));
    assert_eq!(key("{\"u\":{\"id\":21}}").as_deref(), Some("21"));
    assert_eq!(key("{\"u\":{\"id\":null}}"), None);
    assert_eq!(key("{\"u\":[]}"), None);
    sql(&node.engine, "DROP STREAM s").await;
    sql(&node.engine, &create(", partitioner = crc32")).await;
    let sent = send(&node.engine, batch("{\"u\":{\"id\":\"123456789\"}}")).await.unwrap();
    assert_eq!(sent.written.unwrap().events[0].partition, 0xcbf4_3926 % 7);
    stop(node.engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_no_reader_would_take_are_refused_with_their_rows() {
    let kafka = kafka(1);
    let node = node(&kafka, "a").await;
    kafka.set_message_bytes_max("t", 200);
    sql(
        &node.engine,
        "CREATE STREAM s FROM KAFKA (topic = 't') WITH (produce = true, event_bytes_max = '1KiB')",
    )
    .await;
    let event = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
    let deep = format!("{{\"d\":{}{}}}", "[".repeat(10), "]".repeat(10));
    let events = [event(1), event(300), event(2), event(2000), deep.clone(), event(3), event(400)].join("\n");
    let sent = send(&node.engine, batch(&events)).await.unwrap();
    let refused: Vec<(u32, bool)> = sent
        .refusals
        .iter()
        .map(|refusal| (refusal.row, refusal.message.contains("max.message.bytes")))
        .collect();
    assert_eq!((sent.accepted, refused), (4, vec![(1, true), (3, false), (6, true)]));
    assert!(sent.refusals[1].message.contains("the limit is 1024"), "{:?}", sent.refusals[1]);
    let values: Vec<String> = messages(&kafka, 1).into_iter().map(|(.., value)| value).collect();
    assert_eq!(values, [event(1), event(2), deep, event(3)]);
    // The field `_kafka` counts for its readers.
    sql(&node.engine, "DROP STREAM s").await;
    kafka.set_message_bytes_max("t", 10_000);
    sql(
        &node.engine,
        "CREATE STREAM s FROM KAFKA (topic = 't', include = (offset)) WITH (produce = true, event_bytes_max = '1KiB')",
    )
    .await;
    let sent = send(&node.engine, batch(&[event(1000), event(500)].join("\n"))).await.unwrap();
    assert_eq!((sent.accepted, sent.refusals[0].row), (1, 0));
    // All are refused: nothing is written.
    let sent = send(&node.engine, batch(&event(2000))).await.unwrap();
    assert_eq!((sent.accepted, sent.written, sent.refusals.len()), (0, None, 1));
    stop(node.engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_if_events_may_be_written() {
    let kafka = kafka(1);
    let node = node(&kafka, "a").await;
    sql(&node.engine, "CREATE STREAM s FROM KAFKA (topic = 't') WITH (produce = true)").await;
    let three = || batch("{\"n\":1}\n{\"n\":2}\n{\"n\":3}");
    let is_unsure = |error: EngineError| {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        match error {
            EngineError::NotWritten { is_unsure, .. } => is_unsure,
            other => panic!("{other}"),
        }
    };
    // No broker answers before a producer is open.
    kafka.set_away(true);
    assert!(!is_unsure(send(&node.engine, three()).await.unwrap_err()));
    assert_eq!(messages(&kafka, 1).len(), 0);
    kafka.set_away(false);
    assert_eq!(send(&node.engine, three()).await.unwrap().accepted, 3);
    // A part of a batch, or all without an answer: nobody knows.
    kafka.fail_send_to("t", 0, SendFault::Partly(2));
    assert!(is_unsure(send(&node.engine, three()).await.unwrap_err()));
    assert_eq!(messages(&kafka, 1).len(), 5);
    kafka.fail_send_to("t", 0, SendFault::AckLost);
    assert!(is_unsure(send(&node.engine, three()).await.unwrap_err()));
    assert_eq!(messages(&kafka, 1).len(), 8);
    // The next request has another producer.
    assert_eq!(send(&node.engine, three()).await.unwrap().accepted, 3);
    assert_eq!(messages(&kafka, 1).len(), 11);
    stop(node.engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_take_no_events_refuse_them() {
    let kafka = kafka(1);
    kafka.make_topic("u", 1);
    let node = node(&kafka, "a").await;
    sql(&node.engine, "CREATE STREAM s FROM KAFKA (topic = 't')").await;
    let error = send(&node.engine, batch("{}")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.hint().unwrap().contains("produce = true"), "{error}");
    sql(&node.engine, "DROP STREAM s").await;
    sql(&node.engine, "CREATE STREAM s FROM KAFKA (topic = 't') WITH (produce = true)").await;
    let numbered = Numbered { producer: "p".into(), sequence: 1, part: 0, after: 0, hash: 0 };
    let options = AppendOptions { numbered: Some(numbered), ..AppendOptions::default() };
    let name = StreamName::new("s").unwrap();
    let error = node.engine.append(&Principal::local(), &name, batch("{}"), options).await.unwrap_err();
    assert!(error.to_string().contains("no numbers"), "{error}");
    assert_eq!(messages(&kafka, 1).len(), 0);
    // `key` and `produce` are for streams of a cluster.
    let error = try_sql(
        &node.engine,
        "CREATE STREAM k (n LONG) FROM KAFKA (topic = 'u', key = 'n') WITH (store = true)",
    );
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("`key`") && error.contains("cluster"), "{error}");
    // Without a broker, a node does not know if the stream of a first event is one of the cluster.
    kafka.set_away(true);
    let other = StreamName::new("other").unwrap();
    let sent = node.engine.append(&Principal::local(), &other, batch("{}"), AppendOptions::default()).await;
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::Unavailable);
    kafka.set_away(false);
    let sent = node.engine.append(&Principal::local(), &other, batch("{}"), AppendOptions::default()).await;
    assert_eq!(sent.unwrap().accepted, 1);
    stop(node.engine, GRACE).await;
}
