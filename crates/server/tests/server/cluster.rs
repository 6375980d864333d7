//! Tests events that are sent to a stream of a cluster by HTTP, over a Kafka in memory.

use std::{path::Path, sync::Arc, time::Duration};

use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::{ClusterConfig, HistoryConfig, KafkaConnections, Role};
use swiftwater_kafka::{GroupProtocol, Kafka};
use swiftwater_testkit::{FakeKafka, SendFault};

use crate::client::Running;

const EVENTS: &str = "/v1/streams/s/events";

/// A node, whose stream `s` is over topic `t` of two partitions.
async fn node(directory: &Path, kafka: &FakeKafka, create: &str) -> Running {
    kafka.set_time(1_800_000_000_000);
    kafka.make_topic("t", 2);
    let server = node_with(directory, kafka, ("a", None, &Role::ALL)).await;
    let reply = server.send("POST", "/v1/sql", &[], create.to_owned()).await;
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.text().await);
    server
}

/// A node of this name, which has told this address, with these roles.
async fn node_with(
    directory: &Path,
    kafka: &FakeKafka,
    (name, advertise, roles): (&str, Option<&str>, &[Role]),
) -> Running {
    let client: Arc<dyn Kafka> = Arc::new(kafka.client(name));
    let cluster = ClusterConfig {
        name: "c".to_owned(),
        node: name.to_owned(),
        roles: roles.iter().copied().collect(),
        advertise: advertise.map(str::to_owned),
        kafka: Arc::clone(&client),
        connection: "main".to_owned(),
        flush: Duration::from_millis(1),
        partial_wait: Duration::from_millis(300),
        event_bytes_per_second: 16 << 20,
        group_protocol: GroupProtocol::Classic,
        sweep: Duration::from_secs(10),
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
    Running::storing_as(history, |_| {}).await
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

/// The answer of `/v1/cluster` when it is as wanted.
async fn until_cluster(server: &Running, is: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let reply = server.send("GET", "/v1/cluster", &[], "").await;
            let told = if reply.status == 200 { reply.json().await } else { Value::Null };
            if is(&told) {
                return told;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect("the cluster is as wanted")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_what_another_node_does_are_sent_on_to_it() {
    let (directory, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let a = node(&directory.path().join("a"), &kafka, CREATE).await;
    let b = node_with(&directory.path().join("b"), &kafka, ("b", Some("http://b:80/"), &Role::ALL)).await;
    let c = node_with(&directory.path().join("c"), &kafka, ("c", None, &[Role::Work])).await;
    let has_all = |told: &Value| told["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3);
    let told = until_cluster(&c, |told| has_all(told) && told["partitions"][1]["node"].is_string()).await;
    assert_eq!((&told["node"], &told["nodes"][1]["address"]), (&json!("c"), &json!("http://b:80/")));
    assert_eq!(told["nodes"][2]["roles"], json!(["work"]));
    let warnings = told["warnings"].as_array().unwrap();
    let names_a = |warning: &Value| warning.as_str().unwrap().starts_with("node `a` tells no address");
    assert_eq!(warnings.iter().filter(|warning| names_a(warning)).count(), 1, "{told}");

    // A node without the roles for it sends events and queries on, with their paths.
    let reply = c.send("POST", &format!("{EVENTS}?ack=none"), &[], "{\"n\": 1}").await;
    assert_eq!(reply.field("location"), format!("http://b:80{EVENTS}?ack=none"));
    let problem = reply.problem(StatusCode::TEMPORARY_REDIRECT, "other-node").await;
    assert_eq!((&problem["node"], &problem["address"]), (&json!("b"), &json!("http://b:80/")));
    // Those of senders that follow no redirect are written.
    let bulk = "{\"index\":{\"_index\":\"s\"}}\n{\"n\": 3}\n";
    let told = c.send("POST", "/_bulk", &[], bulk).await.json().await;
    assert_eq!((&told["errors"], values(&kafka)), (&json!(false), vec![json!({"n": 3})]));
    let reply = c.send("POST", "/v1/queries", &[], "SELECT n FROM STREAM(s)").await;
    assert_eq!((reply.status, reply.field("location")), (307, "http://b:80/v1/queries"));

    // A query is found through any node; where the one that serves it tells no address, it is named.
    for (at, other, status) in [(&a, &b, 421), (&b, &a, 307)] {
        let reply = at.send("POST", "/v1/queries?detach=true", &[], "SELECT n FROM STREAM(s)").await;
        assert_eq!(reply.status, StatusCode::CREATED);
        let id = reply.json().await["id"].as_str().unwrap().to_owned();
        let listed = other.send("GET", "/v1/cluster/queries?limit=1", &[], "").await.json().await;
        assert_eq!((&listed["queries"][0]["id"], &listed["queries"][0]["stream"]), (&json!(id), &json!("s")));
        for (method, path) in [("GET", ""), ("GET", "/results"), ("DELETE", "")] {
            let path = format!("/v1/queries/{id}{path}");
            let reply = other.send(method, &path, &[], "").await;
            assert_eq!(reply.status, status, "{method} {path}");
        }
        assert_eq!(at.send("DELETE", &format!("/v1/queries/{id}"), &[], "").await.status, 204);
        let gone = async || {
            let listed = other.send("GET", "/v1/cluster/queries", &[], "").await.json().await;
            listed["queries"] == json!([])
        };
        let ended = async { while !gone().await {} };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("all nodes forget it");
    }
    assert_eq!(c.send("GET", "/v1/queries/01ARZ3NDEKTSV4RRFFQ69G5FAV", &[], "").await.status, 404);

    // One that drains is of no use to others, until it takes work again.
    assert_eq!(b.send("POST", "/v1/cluster/drain", &[], "").await.status, StatusCode::ACCEPTED);
    until_cluster(&a, |told| told["nodes"][1]["state"] == "draining" && told["nodes"][1]["partitions"] == 0)
        .await;
    let reply = c.send("POST", EVENTS, &[], "{\"n\": 2}").await;
    let problem = reply.problem(StatusCode::MISDIRECTED_REQUEST, "other-node").await;
    assert!(problem["hint"].as_str().unwrap().contains("cluster.advertise"), "{problem}");
    assert_eq!(b.send("DELETE", "/v1/cluster/drain", &[], "").await.status, StatusCode::ACCEPTED);
    until_cluster(&a, |told| told["nodes"][1]["state"] == "up").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_its_own_is_no_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let history = HistoryConfig { log_free_bytes_min: 0, ..HistoryConfig::at(directory.path()) };
    let server = Running::storing_as(history, |_| {}).await;
    for (method, path) in
        [("GET", "/v1/cluster"), ("GET", "/v1/cluster/queries"), ("POST", "/v1/cluster/drain")]
    {
        let reply = server.send(method, path, &[], "").await;
        let problem = reply.problem(StatusCode::CONFLICT, "conflict").await;
        assert!(problem["hint"].as_str().unwrap().contains("cluster.name"), "{problem}");
    }
}
