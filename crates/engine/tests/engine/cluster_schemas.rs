//! Tests streams of a cluster over topics of Avro and Protobuf, and the messages that nodes leave out: a schema that is not known
//! holds up its partition alone, and what is in no answer is counted.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use serde_json::{Value, json};
use swiftwater_engine::{Role, Subscription};
use swiftwater_kafka::Kafka as _;
use swiftwater_testkit::{FakeKafka, FakeMessage};

use crate::{
    cluster::{Node, START, ask, lines, next, node_of, try_ask, until},
    history::{sql, stop, try_sql},
    kafka_schemas::{Registry, framed, of_registry},
};

const NUMBER: &str = r#"{"type":"record","name":"R","fields":[{"name":"n","type":"long"}]}"#;

/// A topic of two partitions, with the brokers' time.
fn topic() -> FakeKafka {
    let kafka = FakeKafka::new();
    kafka.set_time(START);
    kafka.make_topic("t", 2);
    kafka.set_append_time("t", true);
    kafka
}

async fn nodes(kafka: &FakeKafka, registry: &Registry, options: &str) -> [Node; 2] {
    let node = async |name| node_of(kafka, name, &Role::ALL, of_registry(registry)).await;
    let nodes = [node("a").await, node("b").await];
    sql(&nodes[0].engine, &format!("CREATE STREAM s {options}")).await;
    until("the stream is on all nodes", async || {
        try_ask(&nodes[1].engine, "SELECT COUNT(*) AS n FROM STREAM(s)").await.is_err()
    })
    .await;
    // Each reads one of the partitions.
    until("the partitions are divided", async || {
        let members = kafka.group("_swiftwater.c.workers").await.unwrap();
        members.len() == 2 && members.iter().all(|member| member.partitions.len() == 1)
    })
    .await;
    nodes
}

fn produce(kafka: &FakeKafka, partition: u32, value: Option<Vec<u8>>) {
    let message = FakeMessage { value, ..FakeMessage::value("") };
    kafka.append("t", partition, message);
}

/// A record with a number below 64.
fn number(schema: u32, n: u8) -> Option<Vec<u8>> {
    Some(framed(schema, &[2 * n]))
}

/// The rows of `SHOW PARTITIONS`.
async fn partitions(node: &Node) -> Vec<Value> {
    let shown = sql(&node.engine, "SHOW PARTITIONS").await;
    shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until both nodes show this of a partition.
async fn until_shown(nodes: &[Node; 2], partition: usize, expected: Value) {
    for node in nodes {
        until(&format!("partition {partition} has {expected}"), async || {
            let shown = partitions(node).await;
            let Some(shown) = shown.get(partition) else { return false };
            expected.as_object().unwrap().iter().all(|(name, value)| shown[name] == *value)
        })
        .await;
    }
}

async fn records(query: &mut Subscription, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(lines(&next(query).await));
    }
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_that_is_not_known_holds_up_its_partition_alone() {
    let (kafka, registry) = (topic(), Registry::start());
    registry.avro(1, NUMBER);
    let options = format!("FROM KAFKA (topic = 't', format = avro, registry = '{}')", registry.url());
    let nodes = nodes(&kafka, &registry, &options).await;
    let mut query = ask(&nodes[1].engine, "SELECT n FROM STREAM(s)").await;
    let mut windows = ask(
        &nodes[0].engine,
        "SELECT n, COUNT(*) AS c FROM STREAM(s) GROUP BY n WINDOWING TUMBLING(500, TIME)",
    )
    .await;
    for (partition, schema, n) in [(0, 1, 1), (0, 2, 2), (0, 1, 3), (1, 1, 11), (1, 1, 12)] {
        produce(&kafka, partition, number(schema, n));
    }
    assert_eq!(records(&mut query, 3).await, [r#"{"n":11}"#, r#"{"n":12}"#, r#"{"n":1}"#]);
    let missing = format!(
        "registry `{}` has no schema 2: register it there, or correct `registry` of the stream. The server asks again",
        registry.url()
    );
    until_shown(&nodes, 0, json!({"state": "waiting", "position": 1, "error": missing, "rejected": 0})).await;
    until_shown(&nodes, 1, json!({"state": "caught up", "position": 2, "error": null})).await;
    // The window lacks the partition, and says so.
    let mut now = START;
    let emit = loop {
        now += 100;
        kafka.set_time(now);
        if let Ok(emit) = tokio::time::timeout(std::time::Duration::from_millis(50), windows.next()).await {
            break emit.unwrap();
        }
    };
    let of = emit.meta.cluster.clone().unwrap();
    assert!(of.missing.len() == 1 && of.missing[0].ends_with("/0"), "{of:?}");
    // It is read on when the registry has the schema, while the registry is away not.
    registry.set_status(Some(503));
    registry.avro(2, NUMBER);
    let status = nodes[1].engine.cluster_status().await.unwrap();
    assert!(status.partitions[0].error.is_some());
    registry.set_status(None);
    assert_eq!(records(&mut query, 2).await, [r#"{"n":2}"#, r#"{"n":3}"#]);
    until_shown(&nodes, 0, json!({"state": "caught up", "position": 3, "error": null})).await;
    for node in nodes {
        stop(node.engine, std::time::Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_no_events_are_counted() {
    let (kafka, registry) = (topic(), Registry::start());
    registry.protobuf(1, "syntax = \"proto3\"; message M { int64 n = 1; string s = 2; }");
    let options = format!(
        "(n LONG CHECK (n < 50)) FROM KAFKA (topic = 't', format = protobuf, registry = '{}') WITH (store = false)",
        registry.url()
    );
    let nodes = nodes(&kafka, &registry, &options).await;
    let mut query = ask(&nodes[0].engine, "SELECT n FROM STREAM(s)").await;
    let message = |n: u8| Some(framed(1, &[0, 8, n]));
    for value in [message(1), Some(b"no".to_vec()), message(60), None, Some(framed(1, &[0, 8])), message(2)] {
        produce(&kafka, 0, value);
    }
    produce(&kafka, 1, message(3));
    assert_eq!(records(&mut query, 3).await, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
    let left_out = json!({"rejected": 3, "tombstones": 1, "lost": 0, "position": 6, "state": "caught up"});
    until_shown(&nodes, 0, left_out).await;
    until_shown(&nodes, 1, json!({"rejected": 0, "tombstones": 0})).await;
    // A reader that begins anew counts none of them again.
    kafka.set_away(true);
    kafka.set_away(false);
    produce(&kafka, 0, Some(b"no".to_vec()));
    produce(&kafka, 0, message(4));
    assert_eq!(records(&mut query, 1).await, [r#"{"n":4}"#]);
    until_shown(&nodes, 0, json!({"rejected": 4, "tombstones": 1})).await;
    for node in nodes {
        stop(node.engine, std::time::Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_json_that_are_no_events_are_counted() {
    let (kafka, registry) = (topic(), Registry::start());
    let nodes = nodes(&kafka, &registry, "FROM KAFKA (topic = 't', format = ndjson)").await;
    let mut query = ask(&nodes[0].engine, "SELECT n FROM STREAM(s)").await;
    produce(&kafka, 1, Some(b"{\"n\":1}\n{\"n\":\n[]\n{\"n\":2}".to_vec()));
    assert_eq!(records(&mut query, 2).await, [r#"{"n":1}"#, r#"{"n":2}"#]);
    until_shown(&nodes, 1, json!({"rejected": 2, "tombstones": 0})).await;
    let status = nodes[0].engine.cluster_status().await.unwrap();
    assert_eq!(status.partitions[1].rejected, 2);
    for node in nodes {
        stop(node.engine, std::time::Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_whose_schema_this_node_cannot_find_is_refused() {
    let (kafka, registry) = (topic(), Registry::start());
    let node = node_of(&kafka, "a", &Role::ALL, of_registry(&registry)).await;
    for (options, fault) in [
        ("format = avro, schema = 'n.avsc'", "n.avsc cannot be read: No such file or directory"),
        (
            "format = avro, registry = 'http://127.0.0.1:1'",
            "is at an address of this machine or of a private network",
        ),
    ] {
        let error =
            try_sql(&node.engine, &format!("CREATE STREAM s FROM KAFKA (topic = 't', {options})")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(fault), "{error}");
    }
    stop(node.engine, std::time::Duration::from_secs(5)).await;
}
