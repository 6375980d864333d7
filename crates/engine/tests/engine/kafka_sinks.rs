//! Tests sinks into topics of a Kafka in memory: a consumer of committed messages sees each row once, whatever fails.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, KafkaConnections};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{Kafka, KafkaError, KafkaErrorKind, Partitioner};
use swiftwater_testkit::{FakeKafka, FakeMessage, Rng, SendFault};

use crate::history::{append, open_when_free, quick, sql, stop, try_sql, until_said};

const GRACE: Duration = Duration::from_secs(5);

async fn open(dir: &std::path::Path, kafka: &FakeKafka) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let connection: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let connections = [("main".into(), connection)].into();
    let history = HistoryConfig {
        kafka: KafkaConnections {
            connections,
            refresh: Duration::from_millis(5),
            ..KafkaConnections::default()
        },
        views_commit_interval_ms: 10,
        ..quick(dir)
    };
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

fn text(bytes: &Option<Vec<u8>>) -> Option<String> {
    bytes.as_ref().map(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

/// All committed messages of a topic, by partition.
fn messages(kafka: &FakeKafka, topic: &str, partitions: u32) -> Vec<Vec<FakeMessage>> {
    let of = |partition| {
        let messages = kafka.committed_messages(topic, partition).into_iter();
        messages.map(|(_, message)| message).collect()
    };
    (0..partitions).map(of).collect()
}

/// The values of a topic, in order.
fn values(kafka: &FakeKafka, topic: &str, partitions: u32) -> Vec<String> {
    let messages = messages(kafka, topic, partitions).concat();
    let mut values: Vec<String> = messages.iter().map(|message| text(&message.value).unwrap()).collect();
    values.sort_unstable();
    values
}

/// Waits until something is true of the topics, with the statuses of sinks if it is not in time.
pub(crate) async fn until(engine: &Engine, is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
        panic!("{}", sql(engine, "SHOW SINKS").await);
    }
}

/// Waits until `SHOW SINKS` has this text.
pub(crate) async fn until_shown(engine: &Engine, part: &str) {
    let waiting = async {
        while !sql(engine, "SHOW SINKS").await.contains(part) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
        panic!("{part} is not in {}", sql(engine, "SHOW SINKS").await);
    }
}

/// The rows that the sinks must deliver, by a loop over the events.
#[derive(Default)]
struct Model {
    /// By window and key: the number of events and their sum.
    windows: BTreeMap<(i64, i64), (u64, i64)>,
    latest: i64,
    /// By key: the number of events and their sum.
    rows: BTreeMap<i64, (u64, i64)>,
}

impl Model {
    fn add(&mut self, ts: i64, k: i64, x: i64) {
        let cell = self.windows.entry((ts - ts.rem_euclid(1000), k)).or_default();
        *cell = (cell.0 + 1, cell.1 + x);
        self.latest = self.latest.max(ts);
        if x < 0 {
            self.rows.remove(&k);
        } else {
            let row = self.rows.entry(k).or_default();
            *row = (row.0 + 1, row.1 + x);
        }
    }

    /// The rows of closed windows, as text and in its order.
    fn closed(&self) -> Vec<String> {
        let closed = self.windows.iter().filter(|((start, _), _)| start + 1000 <= self.latest);
        let mut rows: Vec<String> =
            closed.map(|((w, k), (n, s))| format!(r#"{{"w":{w},"k":{k},"n":{n},"s":{s}}}"#)).collect();
        rows.sort_unstable();
        rows
    }

    /// The current rows of the view by key; those that HAVING leaves out are not there.
    fn rows(&self) -> BTreeMap<String, Value> {
        let shown = self.rows.iter().filter(|(_, (_, s))| *s < 100);
        shown.map(|(k, (n, s))| (k.to_string(), json!({"k": k, "n": n, "s": s}))).collect()
    }
}

/// The rows that a reader of the changes has: the last value of each key. No message repeats the one before of its key, and each
/// key is in its partition.
fn read_changes(kafka: &FakeKafka, partitions: u32) -> BTreeMap<String, Value> {
    let mut rows = BTreeMap::new();
    for (partition, messages) in messages(kafka, "changes", partitions).iter().enumerate() {
        for message in messages {
            let key = text(&message.key).unwrap();
            let expected = Partitioner::Murmur2.partition(Some(key.as_bytes()), partitions);
            assert_eq!(expected, Some(partition as u32), "{key}");
            assert_eq!(message.headers, [("source".to_owned(), Some(b"sw".to_vec()))]);
            let value = text(&message.value).map(|value| serde_json::from_str::<Value>(&value).unwrap());
            let before = match &value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(&key),
            };
            assert_ne!(before, value, "a change of `{key}` is there twice");
        }
    }
    rows
}

const STATEMENTS: [&str; 6] = [
    "CREATE STREAM t (ts LONG NOT NULL, k LONG NOT NULL, x LONG)",
    "CREATE MATERIALIZED VIEW w AS SELECT window_start AS w, k, COUNT(*) AS n, SUM(x) AS s FROM STREAM(t) \
     GROUP BY k WINDOWING TUMBLING(1000, EVENT(ts, 0))",
    "CREATE MATERIALIZED VIEW v DELETE WHEN x < 0 AS SELECT k, COUNT(*) AS n, SUM(x) AS s FROM STREAM(t) \
     GROUP BY k HAVING SUM(x) < 100",
    "CREATE SINK closed FROM w INTO KAFKA (topic = 'closed', key = k) WITH (batch_rows = 3)",
    "CREATE SINK changes FROM CHANGES OF v INTO KAFKA (topic = 'changes', headers = 'source: sw') \
     WITH (batch_rows = 4)",
    "CREATE SINK twice FROM w INTO KAFKA (topic = 'twice', delivery = at_least_once, partitioner = crc32)",
];

/// Lets some of the next sends fail, and the brokers go away or come back; then other tasks run for a while.
pub(crate) async fn fail_at_random(kafka: &FakeKafka, rng: &mut Rng) {
    if rng.chance(0.4) {
        let partly = SendFault::Partly(rng.below(8));
        kafka.fail_send(if rng.chance(0.5) { partly } else { SendFault::AckLost });
    }
    if rng.chance(0.1) {
        kafka.fail_call(KafkaError::new(KafkaErrorKind::Other, "on demand"));
    }
    if rng.chance(0.3) {
        kafka.set_away(rng.chance(0.5));
    }
    for _ in 0..rng.below(400) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_in_the_topic_once_whatever_fails() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6);
    for seed in 0..cases {
        let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
        let (kafka, mut model) = (FakeKafka::new(), Model::default());
        let partitions = 1 + rng.below(3) as u32;
        for topic in ["closed", "changes", "twice"] {
            kafka.make_topic(topic, partitions);
        }
        let mut engine = open(dir.path(), &kafka).await;
        for statement in STATEMENTS {
            sql(&engine, statement).await;
        }
        for _ in 0..8 {
            for _ in 0..1 + rng.below(6) {
                let mut lines = Vec::new();
                for _ in 0..1 + rng.below(20) {
                    let (ts, k) = (model.latest + rng.below(300) as i64, rng.below(6) as i64);
                    let x = if rng.chance(0.1) { -1 } else { rng.below(30) as i64 };
                    model.add(ts, k, x);
                    lines.push(format!(r#"{{"ts":{ts},"k":{k},"x":{x}}}"#));
                }
                append(&engine, "t", &lines.join("\n"), None).await;
                fail_at_random(&kafka, &mut rng).await;
            }
            stop(engine, if rng.chance(0.3) { GRACE } else { Duration::ZERO }).await;
            engine = open(dir.path(), &kafka).await;
        }
        stop(engine, Duration::ZERO).await;
        kafka.end_failures();
        let engine = open(dir.path(), &kafka).await;
        until(&engine, || {
            values(&kafka, "closed", partitions) == model.closed()
                && read_changes(&kafka, partitions) == model.rows()
        })
        .await;
        let keys = messages(&kafka, "closed", partitions);
        for (partition, message) in (0..).zip(&keys).flat_map(|(n, all)| all.iter().map(move |m| (n, m))) {
            let row: Value = serde_json::from_str(&text(&message.value).unwrap()).unwrap();
            assert_eq!(text(&message.key).unwrap(), row["k"].to_string());
            let expected = Partitioner::Murmur2.partition(message.key.as_deref(), partitions);
            assert_eq!(expected, Some(partition));
        }
        // Without transactions each row is there at least once.
        until(&engine, || {
            let mut values = values(&kafka, "twice", partitions);
            values.dedup();
            values == model.closed()
        })
        .await;
        stop(engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_is_too_large_goes_to_the_dead_letter_stream() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    kafka.set_message_bytes_max("t", 400);
    let engine = open(dir.path(), &kafka).await;
    for statement in [
        "CREATE STREAM s (k TEXT NOT NULL, x LONG)",
        "CREATE STREAM lost (sink TEXT, delivery LONG, error TEXT, \"row\" JSON)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM STREAM(s) GROUP BY k",
        "CREATE SINK z FROM CHANGES OF v INTO KAFKA (topic = 't') WITH (dead_letter = lost)",
    ] {
        sql(&engine, statement).await;
    }
    let large = "x".repeat(500);
    let lines = ["a", &large, "b"].map(|k| format!(r#"{{"k":"{k}","x":1}}"#));
    append(&engine, "s", &lines.join("\n"), None).await;
    until_said(&engine, "SELECT count(*) AS c FROM lost", "{\"c\":1}\n").await;
    until(&engine, || kafka.committed_messages("t", 0).len() == 2).await;
    let keys: Vec<Option<String>> =
        messages(&kafka, "t", 1)[0].iter().map(|message| text(&message.key)).collect();
    assert_eq!(keys, [Some("a".to_owned()), Some("b".to_owned())]);
    let lost = sql(&engine, "SELECT sink, error FROM lost").await;
    assert!(lost.contains("larger than a message of the topic may be"), "{lost}");
    until_shown(&engine, "\"dead_rows\":1").await;
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_given_up_only_if_the_topic_does_not_have_them() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 1);
    let engine = open(dir.path(), &kafka).await;
    for statement in [
        "CREATE STREAM s (k LONG NOT NULL)",
        "CREATE STREAM lost (sink TEXT, delivery LONG, error TEXT, \"row\" JSON)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k",
        "CREATE SINK z FROM CHANGES OF v INTO KAFKA (topic = 't') WITH (retries = 0, dead_letter = lost)",
    ] {
        sql(&engine, statement).await;
    }
    // Twice: the first failure of a group makes its deliveries single ones.
    for (k, faults, given_up) in [
        (1, &[SendFault::AckLost, SendFault::AckLost][..], 0),
        (2, &[SendFault::Partly(0), SendFault::Partly(1)], 0),
        (3, &[SendFault::Partly(0); 3], 1),
        (4, &[], 1),
    ] {
        faults.iter().for_each(|fault| kafka.fail_send(*fault));
        append(&engine, "s", &format!("{{\"k\":{k}}}"), None).await;
        until_shown(&engine, &format!("\"rows\":{k},\"dead_rows\":{given_up}")).await;
        until_said(&engine, "SELECT count(*) AS c FROM lost", &format!("{{\"c\":{given_up}}}\n")).await;
    }
    let keys: Vec<Option<String>> =
        messages(&kafka, "t", 1)[0].iter().map(|message| text(&message.key)).collect();
    assert_eq!(keys, ["1", "2", "4"].map(|key| Some(key.to_owned())));
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sink_cannot_write_is_refused_or_shown_with_the_reason() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let engine = open(dir.path(), &kafka).await;
    for statement in [
        STATEMENTS[0],
        STATEMENTS[1],
        STATEMENTS[2],
        "CREATE STREAM read (ts LONG NOT NULL, k LONG NOT NULL) FROM KAFKA (topic = 'read')",
        "CREATE MATERIALIZED VIEW r AS SELECT k, COUNT(*) AS n FROM STREAM(read) GROUP BY k",
        "CREATE MATERIALIZED VIEW g AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k \
         WINDOWING TUMBLING(1000, EVENT(ts, 0))",
    ] {
        sql(&engine, statement).await;
    }
    for (statement, fault) in [
        ("CREATE SINK s FROM w INTO KAFKA (topic = 'x', connection = 'no')", "no connection `no` to Kafka"),
        (
            "CREATE SINK s FROM w INTO KAFKA (topic = 'x', key = no)",
            "view `w` has no column `no`: it has w, k",
        ),
        (
            "CREATE SINK s FROM CHANGES OF v INTO KAFKA (topic = 'x', key = n)",
            "changes have the key of the view, (k), and not `n`",
        ),
        (
            "CREATE SINK s FROM CHANGES OF g INTO KAFKA (topic = 'x', key = k)",
            "changes have the key of the view, (window_start, k), and not `k`",
        ),
        ("CREATE SINK s FROM CHANGES OF v INTO STREAM read", "stream `read` reads a topic of Kafka"),
        (
            "CREATE SINK s FROM CHANGES OF v INTO FILE 'x' WITH (retries = 1, dead_letter = read)",
            "stream `read` reads a topic of Kafka",
        ),
        ("CREATE SINK s FROM CHANGES OF r INTO KAFKA (topic = 'read')", "read"),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err().to_string();
        assert!(error.contains(fault), "{statement}: {error}");
    }
    // A topic that does not exist yet is written once it does.
    sql(&engine, "CREATE SINK s FROM CHANGES OF v INTO KAFKA (topic = 'later', key = k)").await;
    until_shown(&engine, "has no topic `later`").await;
    append(&engine, "t", r#"{"ts":1,"k":7,"x":1}"#, None).await;
    kafka.make_topic("later", 1);
    until(&engine, || kafka.committed_messages("later", 0).len() == 1).await;
    let message = &messages(&kafka, "later", 1)[0][0];
    assert_eq!(text(&message.key).as_deref(), Some("7"));
    assert_eq!(text(&message.value).as_deref(), Some(r#"{"k":7,"n":1,"s":1}"#));
    until_shown(&engine, "\"rows\":1").await;
    stop(engine, GRACE).await;
}
