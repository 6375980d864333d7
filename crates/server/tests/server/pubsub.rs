//! Tests Bullet's PubSub over topics of a Kafka in memory.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;
use swiftwater_event::StreamName;
use swiftwater_server::{PubSub, ServerConfig};
use swiftwater_testkit::{FakeKafka, FakeMessage, SendFault};

use crate::client::Running;

fn with_topics() -> FakeKafka {
    let kafka = FakeKafka::new();
    kafka.make_topic("queries", 2);
    kafka.make_topic("results", 2);
    kafka
}

fn pubsub(kafka: &FakeKafka) -> PubSub {
    PubSub {
        kafka: Arc::new(kafka.clone()),
        query_topic: "queries".to_owned(),
        result_topic: "results".to_owned(),
    }
}

async fn start(kafka: &FakeKafka, change: impl FnOnce(&mut ServerConfig)) -> Running {
    let stream = StreamName::new("s").unwrap();
    let engine = EngineConfig { default_stream: Some(stream), ..EngineConfig::default() };
    let server = Running::with_pubsub(engine, change, pubsub(kafka)).await;
    // It reads from the end on, which it has found when it answers.
    let answered = async {
        while results(kafka, "results", "probe").is_empty() {
            ask(kafka, "probe", "no query", &[]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), answered).await.unwrap();
    server
}

fn ask(kafka: &FakeKafka, id: &str, text: &str, headers: &[(&str, &str)]) {
    let header = |(name, value): &(&str, &str)| ((*name).to_owned(), Some(value.as_bytes().to_vec()));
    let headers = headers.iter().map(header).collect();
    let message = FakeMessage { key: Some(id.into()), headers, ..FakeMessage::value(text) };
    kafka.append("queries", id.len() as u32 % 2, message);
}

/// The results of a query in a topic: value and signal, in their order.
fn results(kafka: &FakeKafka, topic: &str, id: &str) -> Vec<(Value, Option<String>)> {
    let messages = (0..2).flat_map(|partition| kafka.committed_messages(topic, partition));
    let of_query =
        messages.map(|(_, message)| message).filter(|message| message.key.as_deref() == Some(id.as_bytes()));
    of_query
        .map(|message| {
            let signal = message.headers.iter().find(|(name, _)| name == "signal");
            let signal = signal.and_then(|(_, value)| value.clone());
            let value = serde_json::from_slice(&message.value.unwrap()).unwrap();
            (value, signal.map(|signal| String::from_utf8(signal).unwrap()))
        })
        .collect()
}

async fn until_results(
    kafka: &FakeKafka,
    topic: &str,
    id: &str,
    count: usize,
) -> Vec<(Value, Option<String>)> {
    let waiting = async {
        while results(kafka, topic, id).len() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    let results = results(kafka, topic, id);
    assert!(waited.is_ok() && results.len() == count, "{results:?}");
    results
}

const FIRST: &str = "SELECT n FROM STREAM(MAX, TIME) LIMIT 1";

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_a_topic_are_answered_in_another() {
    let kafka = with_topics();
    ask(&kafka, "before", FIRST, &[]);
    let mut server = start(&kafka, |_| {}).await;

    ask(&kafka, "plain", FIRST, &[]);
    ask(&kafka, "plain", FIRST, &[]);
    ask(&kafka, "form", "{\"aggregation\": {\"size\": 1}, \"duration\": 30000}", &[]);
    kafka.make_topic("others", 2);
    ask(&kafka, "elsewhere", FIRST, &[("reply", "others:1")]);
    ask(&kafka, "lost", FIRST, &[("reply", "there-is-none")]);
    let wrapped =
        json!({"id": "w", "content": FIRST, "metadata": {"signal": null, "content": {"client": 7}}});
    kafka.append("queries", 0, FakeMessage::value(wrapped.to_string()));
    let window = "SELECT n FROM STREAM(MAX, TIME) WINDOWING TUMBLING(1, RECORD)";
    ask(&kafka, "windows", window, &[]);
    ask(&kafka, "killed", "SELECT n FROM STREAM(MAX, TIME)", &[]);
    server.until_queries(7).await;
    ask(&kafka, "killed", "", &[("signal", "KILL")]);
    server.until_queries(6).await;
    server.ingest("s", "{\"n\": 1}").await;

    for id in ["plain", "form"] {
        let results = until_results(&kafka, "results", id, 1).await;
        assert_eq!(results[0].0["records"], json!([{"n": 1}]), "{id}");
        assert_eq!(results[0].1.as_deref(), Some("COMPLETE"), "{id}");
    }
    let elsewhere = until_results(&kafka, "others", "elsewhere", 1).await;
    assert_eq!(elsewhere[0].0["records"], json!([{"n": 1}]));
    assert_eq!(kafka.committed_messages("others", 1).len(), 1);
    let (result, signal) = until_results(&kafka, "results", "w", 1).await.remove(0);
    assert_eq!((&result["id"], signal.as_deref()), (&json!("w"), Some("COMPLETE")));
    assert_eq!(result["metadata"], json!({"signal": "COMPLETE", "content": {"client": 7}}));
    let content: Value = serde_json::from_str(result["content"].as_str().unwrap()).unwrap();
    assert_eq!(content["records"], json!([{"n": 1}]));

    server.until_queries(1).await;
    server.ingest("s", "{\"n\": 2}").await;
    let windows = until_results(&kafka, "results", "windows", 2).await;
    let records: Vec<&Value> = windows.iter().map(|(result, _)| &result["records"]).collect();
    assert_eq!(records, [&json!([{"n": 1}]), &json!([{"n": 2}])]);
    assert!(windows.iter().all(|(_, signal)| signal.is_none()));
    for id in ["killed", "before"] {
        assert_eq!(results(&kafka, "results", id), [], "{id}");
    }
    // The last results of those that run are written before the server ends.
    server.begin_stop();
    server.stopped().await;
    let windows = results(&kafka, "results", "windows");
    assert!(windows.len() == 3 && windows[2].1.is_some(), "{windows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_results_and_hold_up_no_other() {
    let kafka = with_topics();
    let mut server = start(&kafka, |config| config.bullet.queries_max = 1).await;
    let failed = async |id: &str, text: &str| {
        let (result, signal) = until_results(&kafka, "results", id, 1).await.remove(0);
        let error = result["meta"]["errors"][0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(text) && signal.as_deref() == Some("FAIL"), "{id}: {result} {signal:?}");
    };
    ask(&kafka, "wrong", "SELEKT", &[]);
    failed("wrong", "1:1: ").await;
    // These have no id, or no place for results: nobody can be answered.
    ask(&kafka, "", FIRST, &[]);
    ask(&kafka, "nowhere", FIRST, &[("reply", "a b")]);
    ask(&kafka, "loop", FIRST, &[("reply", "queries")]);
    ask(&kafka, "partition", "SELEKT", &[("reply", "999")]);
    ask(&kafka, "first", FIRST, &[]);
    server.until_queries(1).await;
    ask(&kafka, "second", FIRST, &[]);
    failed("second", "Too many").await;
    // A result that is too large, and results while the topic cannot be written.
    kafka.set_message_bytes_max("results", 400);
    kafka.fail_send(SendFault::Partly(0));
    kafka.fail_send(SendFault::Partly(0));
    server.ingest("s", format!("{{\"n\": \"{}\"}}", "x".repeat(500))).await;
    failed("first", "larger than a message of its topic").await;
    server.until_queries(0).await;
    kafka.set_message_bytes_max("results", 100_000);
    kafka.set_away(true);
    kafka.set_away(false);
    ask(&kafka, "third", FIRST, &[]);
    server.until_queries(1).await;
    server.ingest("s", "{\"n\": 3}").await;
    let third = until_results(&kafka, "results", "third", 1).await;
    assert_eq!(third[0].0["records"], json!([{"n": 3}]));
    server.begin_stop();
    server.stopped().await;
}
