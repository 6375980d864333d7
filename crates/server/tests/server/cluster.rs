//! Tests events that are sent to a stream of a cluster by HTTP, over a Kafka in memory.

use std::{path::Path, sync::Arc, time::Duration};

use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::{ClusterConfig, HistoryConfig, KafkaConnections};
use swiftwater_kafka::Kafka;
use swiftwater_testkit::{FakeKafka, SendFault};

use crate::client::Running;

const EVENTS: &str = "/v1/streams/s/events";

/// A node, whose stream `s` is over topic `t` of two partitions.
async fn node(directory: &Path, kafka: &FakeKafka, create: &str) -> Running {
    kafka.set_time(1_800_000_000_000);
    kafka.make_topic("t", 2);
    let client: Arc<dyn Kafka> = Arc::new(kafka.client("a"));
    let cluster = ClusterConfig {
        name: "c".to_owned(),
        node: "a".to_owned(),
        kafka: Arc::clone(&client),
        flush: Duration::from_millis(1),
        partial_wait: Duration::from_millis(300),
        session_timeout: Duration::from_secs(10),
        partials: 2,
    };
    let connections =
        KafkaConnections { connections: [("main".into(), client)].into(), ..KafkaConnections::default() };
    let history = HistoryConfig {
        kafka: connections,
        cluster: Some(cluster),
        // Streams of the cluster are no new streams of this node.
        store_new_streams: true,
        log_free_bytes_min: 0,
        ..HistoryConfig::at(directory)
    };
    let server = Running::storing_as(history, |_| {}).await;
    let reply = server.send("POST", "/v1/sql", &[], create.to_owned()).await;
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.text().await);
    server
}

fn values(kafka: &FakeKafka) -> Vec<Value> {
    let messages = (0..2).flat_map(|partition| kafka.committed_messages("t", partition));
    let mut values: Vec<Value> =
        messages.map(|(_, message)| serde_json::from_slice(&message.value.unwrap()).unwrap()).collect();
    values.sort_by_key(|value| value["n"].as_u64());
    values
}

const CREATE: &str = "CREATE STREAM s FROM KAFKA (topic = 't', key = 'k') WITH (produce = true)";

#[tokio::test(flavor = "multi_thread")]
async fn events_are_written_to_the_topic_and_the_answer_has_their_positions() {
    let (directory, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let server = node(directory.path(), &kafka, CREATE).await;
    let body = "{\"n\": 1, \"k\": \"foobar\"}\n{\"n\": 2, \"k\": \"21\"}\n{\"n\": 3,}\n{\"n\": 4, \"k\": \"\\ud800\"}\n{\"n\": 5, \"k\": \"foobar\"}\n";
    let reply = server.ingest("s", body).await;
    assert_eq!((reply.status, reply.headers.get("warning")), (200, None));
    let told = reply.json().await;
    // The hashes of the keys by murmur2, as Kafka's own tests have them.
    let partition = |hash: i32| (hash & 0x7fff_ffff) % 2;
    let (foobar, number) = (partition(-790_332_482), partition(-973_932_308));
    let mut ends = std::collections::BTreeMap::from([(foobar, 2)]);
    *ends.entry(number).or_insert(0) += 1;
    let positions: Vec<Value> = ends
        .into_iter()
        .map(|(partition, end)| json!({"source": "t", "partition": partition, "offset": end}))
        .collect();
    assert_eq!(told["positions"], json!(positions), "{told}");
    assert_eq!(
        (&told["accepted"], &told["rejected"], &told["position"]),
        (&json!(3), &json!(2), &Value::Null)
    );
    let errors: Vec<_> =
        told["errors"].as_array().unwrap().iter().map(|error| (&error["line"], &error["path"])).collect();
    assert_eq!(errors, [(&json!(3), &Value::Null), (&json!(4), &Value::Null)], "{told}");
    let numbers: Vec<_> = values(&kafka).iter().map(|value| value["n"].clone()).collect();
    assert_eq!(numbers, [1, 2, 5]);

    // Elasticsearch's bulk helper, and OpenTelemetry's logs.
    let body = "{\"index\":{\"_index\":\"s\"}}\n{\"n\": 6, \"k\": \"foobar\"}\n{\"create\":{\"_index\":\"s\",\"_id\":\"x\"}}\n{\"n\": 7, \"k\": \"foobar\"}\n";
    let told = server.send("POST", "/_bulk", &[], body).await.json().await;
    assert_eq!(told["errors"], false, "{told}");
    let (first, second) = (&told["items"][0]["index"], &told["items"][1]["create"]);
    let offset = first["_seq_no"].as_u64().unwrap();
    assert_eq!(first["_id"], format!("{foobar}:{offset}"));
    assert_eq!((&second["_id"], &second["_seq_no"]), (&json!("x"), &json!(offset + 1)));
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "up"}}]}]}]});
    let form = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/logs?stream=s", &form, logs.to_string()).await;
    assert_eq!((reply.status, reply.json().await), (200, json!({"partialSuccess": {}})));
    assert_eq!(values(&kafka).iter().filter(|value| value["body"] == "up").count(), 1);
    // No stream of this node was made beside it.
    assert_eq!(server.engine.ack(&swiftwater_event::StreamName::new("s").unwrap()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_cannot_be_written_are_refused_and_the_answer_says_which() {
    let (directory, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let server = node(directory.path(), &kafka, CREATE).await;
    kafka.set_away(true);
    let reply = server.ingest("s", "{\"n\": 1}").await;
    assert_eq!(reply.field("retry-after"), "1");
    let problem = reply.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    assert_eq!(
        (&problem["accepted"], &problem["next"]),
        (&json!(0), &json!({"line": 1, "column": 1})),
        "{problem}"
    );
    assert!(problem["hint"].as_str().unwrap().contains("none of them is written"), "{problem}");
    kafka.set_away(false);
    // The second piece of a body fails: the first one counts, and events of the second may be written.
    let line = format!("{{\"n\": 1, \"text\": \"{}\"}}\n", "x".repeat(1 << 10));
    let lines = 1500;
    let pieces = line.repeat(lines);
    kafka.fail_send_to("t", 1, SendFault::Partly(1));
    let reply = server.ingest("s", pieces).await;
    assert_eq!(reply.field("retry-after"), "1");
    let problem = reply.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    let accepted = problem["accepted"].as_u64().unwrap();
    assert!((1..lines as u64).contains(&accepted), "{problem}");
    assert_eq!(problem["next"], json!({"line": accepted + 1, "column": 1}), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("may be written"), "{problem}");
    assert_eq!(values(&kafka).len() as u64, accepted + 1);
    assert!(!problem["positions"].as_array().unwrap().is_empty(), "{problem}");

    let numbered = [("swiftwater-producer", "p"), ("swiftwater-sequence", "1")];
    let reply = server.send("POST", EVENTS, &numbered, "{}").await;
    let problem = reply.problem(StatusCode::CONFLICT, "not-stored").await;
    assert!(problem["detail"].as_str().unwrap().contains("of the cluster"), "{problem}");
    let reply = server.send("POST", "/v1/streams/s/events?ack=disk", &[], "{}").await;
    let problem = reply.problem(StatusCode::CONFLICT, "not-stored").await;
    assert!(problem["hint"].as_str().unwrap().contains("replicas"), "{problem}");
    kafka.set_message_bytes_max("t", 200);
    let reply = server.ingest("s", format!("{{\"n\": \"{}\"}}", "x".repeat(200))).await;
    let problem = reply.problem(StatusCode::BAD_REQUEST, "events-rejected").await;
    assert_eq!(problem["errors"][0]["line"], 1, "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_produce_takes_no_events_and_says_why() {
    let (directory, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let server = node(directory.path(), &kafka, "CREATE STREAM s FROM KAFKA (topic = 't')").await;
    let problem = server.ingest("s", "{\"n\": 1}").await.problem(StatusCode::CONFLICT, "conflict").await;
    assert!(problem["hint"].as_str().unwrap().contains("produce = true"), "{problem}");
    assert!(values(&kafka).is_empty());
}
