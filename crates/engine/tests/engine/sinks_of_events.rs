//! Tests sinks of a stream's events: the row of each selected event is delivered once, in the order of the events, whatever fails.
//! The expected rows are those of a loop over the events.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, KafkaConnections};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{Kafka, Partitioner};
use swiftwater_testkit::{FakeKafka, Rng, TestClock};

use crate::{
    crashes::{Kind, Machine, send},
    history::{append, open_when_free, quick, sql, stop, try_sql},
    kafka_sinks::fail_at_random,
    receiver::Receiver,
};

const GRACE: Duration = Duration::from_secs(5);

async fn open(dir: &Path, kafka: &FakeKafka, change: impl FnOnce(&mut HistoryConfig)) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let connection: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let connections = [("main".into(), connection)].into();
    let mut history = HistoryConfig {
        kafka: KafkaConnections {
            connections,
            refresh: Duration::from_millis(5),
            ..KafkaConnections::default()
        },
        views_commit_interval_ms: 10,
        sinks_private_addresses: true,
        ..quick(dir)
    };
    change(&mut history);
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

/// Waits until something is true, with the statuses of sinks if it is not in time.
async fn until(engine: &Engine, what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
        panic!("{what}: {}", sql(engine, "SHOW SINKS").await);
    }
}

/// An event, of which some have no `x`.
#[derive(Debug, Clone)]
struct Event {
    k: i64,
    x: Option<i64>,
    note: String,
}

impl Event {
    fn random(rng: &mut Rng) -> Event {
        let x = (!rng.chance(0.2)).then(|| rng.below(40) as i64 - 10);
        Event { k: rng.below(5) as i64, x, note: format!("ä{}", rng.below(1000)) }
    }

    fn text(&self) -> String {
        let x = self.x.map_or(String::new(), |x| format!(r#""x":{x},"#));
        format!(r#"{{"k":{},{x}"note":"{}"}}"#, self.k, self.note)
    }

    /// The row of [`QUERY`] at an offset, if the event has one: a missing `x` is 3.
    fn row(&self) -> Option<Value> {
        let x = self.x.unwrap_or(3);
        (x >= 0).then(|| json!({"k": self.k, "double": 2 * x, "note": self.note}))
    }
}

const STREAM: &str = "CREATE STREAM t (k LONG NOT NULL, x LONG DEFAULT 3, note STRING)";
const QUERY: &str = "(SELECT k, x * 2 AS \"double\", note FROM STREAM(t) WHERE x >= 0)";

fn rows(events: &[Event]) -> Vec<Value> {
    events.iter().filter_map(Event::row).collect()
}

fn read(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values of a topic by partition; the keys are those of the rows, and each is in its partition.
fn messages(kafka: &FakeKafka, topic: &str, partitions: u32) -> Vec<Vec<Value>> {
    let of = |partition: u32| {
        let messages = kafka.committed_messages(topic, partition).into_iter();
        let value = |(_, message): (u64, swiftwater_testkit::FakeMessage)| {
            let row: Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
            let key = message.key.unwrap();
            assert_eq!(String::from_utf8(key.clone()).unwrap(), row["k"].to_string());
            assert_eq!(Partitioner::Murmur2.partition(Some(&key), partitions), Some(partition));
            assert_eq!(message.headers, [("source".to_owned(), Some(b"sw".to_vec()))]);
            row
        };
        messages.map(value).collect()
    };
    (0..partitions).map(of).collect()
}

/// The same of rows, in the order of the events.
fn partitioned(rows: &[Value], partitions: u32) -> Vec<Vec<Value>> {
    let mut all = vec![Vec::new(); partitions as usize];
    for row in rows {
        let key = row["k"].to_string();
        let partition = Partitioner::Murmur2.partition(Some(key.as_bytes()), partitions).unwrap();
        all[partition as usize].push(row.clone());
    }
    all
}

/// Appends events in requests of some.
async fn append_all(engine: &Engine, events: &[Event], rng: &mut Rng) {
    let mut rest = events;
    while !rest.is_empty() {
        let (some, others) = rest.split_at((1 + rng.below(9)).min(rest.len()));
        let lines: Vec<String> = some.iter().map(Event::text).collect();
        append(engine, "t", &lines.join("\n"), None).await;
        rest = others;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_of_each_event_is_in_the_topic_once_and_in_order_whatever_fails() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5);
    for seed in 0..cases {
        let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
        let (kafka, mut events) = (FakeKafka::new(), Vec::new());
        let partitions = 1 + rng.below(3) as u32;
        kafka.make_topic("rows", partitions);
        // Without room in the log for sinks, what is not in memory comes from the table.
        let (log_bytes, feed_bytes) = if rng.chance(0.5) { (1 << 30, 64 << 20) } else { (0, 100) };
        let open = async || {
            open(dir.path(), &kafka, |history| {
                (history.sinks_log_bytes_max, history.feed_bytes_max) = (log_bytes, feed_bytes);
            })
            .await
        };
        let mut engine = open().await;
        sql(&engine, STREAM).await;
        append_all(&engine, &[Event::random(&mut rng)], &mut rng).await;
        sql(
            &engine,
            &format!(
                "CREATE SINK s FROM {QUERY} INTO KAFKA (topic = 'rows', key = k, headers = 'source: sw') WITH \
                 (batch_rows = {})",
                1 + rng.below(5)
            ),
        )
        .await;
        for _ in 0..8 {
            for _ in 0..1 + rng.below(6) {
                let some: Vec<Event> = (0..1 + rng.below(20)).map(|_| Event::random(&mut rng)).collect();
                append_all(&engine, &some, &mut rng).await;
                events.extend(some);
                fail_at_random(&kafka, &mut rng).await;
            }
            stop(engine, if rng.chance(0.3) { GRACE } else { Duration::ZERO }).await;
            engine = open().await;
        }
        stop(engine, Duration::ZERO).await;
        kafka.end_failures();
        let engine = open().await;
        let expected = partitioned(&rows(&events), partitions);
        let what = format!("seed {seed}: {} rows", rows(&events).len());
        until(&engine, &what, async || {
            messages(&kafka, "rows", partitions).concat().len() >= rows(&events).len()
        })
        .await;
        assert_eq!(messages(&kafka, "rows", partitions), expected, "seed {seed}");
        until(&engine, &what, async || sql(&engine, "SHOW SINKS").await.contains("\"events_behind\":0"))
            .await;
        let shown = sql(&engine, "SHOW SINKS").await;
        assert!(shown.contains(&format!("\"rows\":{},", rows(&events).len())), "seed {seed}: {shown}");
        assert!(shown.contains("\"events_lost\":0"), "seed {seed}: {shown}");
        stop(engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_target_has_each_row_once_however_often_deliveries_are_cut_off() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let receiver = Receiver::start(|_, before| if before == 0 { 503 } else { 200 });
    let (mut rng, mut events) = (Rng::new(11), Vec::new());
    for round in 0..7 {
        let engine = open(dir.path(), &kafka, |_| {}).await;
        if round == 0 {
            let hook = format!("CREATE SINK hook FROM {QUERY} INTO WEBHOOK 'http://{}/'", receiver.address);
            for text in [
                STREAM,
                "CREATE STREAM copies (k LONG, \"double\" LONG, note STRING)",
                "CREATE TABLE kept AS SELECT k, x AS \"double\", note FROM t LIMIT 0",
                &format!("CREATE SINK into_stream FROM {QUERY} INTO STREAM copies WITH (batch_rows = 3)"),
                &format!("CREATE SINK into_table FROM {QUERY} INTO TABLE kept WITH (batch_rows = 2)"),
                &format!("CREATE SINK into_file FROM {QUERY} INTO FILE 'rows.ndjson'"),
                &format!("CREATE SINK into_csv FROM {QUERY} INTO FILE 'rows.csv' WITH (format = csv)"),
                &hook,
            ] {
                sql(&engine, text).await;
            }
        }
        for _ in 0..5 {
            let some: Vec<Event> = (0..1 + rng.below(12)).map(|_| Event::random(&mut rng)).collect();
            append_all(&engine, &some, &mut rng).await;
            events.extend(some);
            // Longer than a delivery takes, now and then.
            if rng.chance(0.5) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        if round % 3 != 0 {
            stop(engine, Duration::ZERO).await;
            continue;
        }
        let expected = rows(&events);
        let file =
            |name: &str| std::fs::read_to_string(dir.path().join("sinks").join(name)).unwrap_or_default();
        let count = expected.len();
        until(&engine, "all rows", async || {
            let kept = sql(&engine, "SELECT count(*) AS n FROM kept").await;
            let copies = sql(&engine, "SELECT count(*) AS n FROM copies").await;
            let lines =
                [file("rows.ndjson").lines().count(), file("rows.csv").lines().count().saturating_sub(1)];
            kept == format!("{{\"n\":{count}}}\n")
                && copies == kept
                && lines == [count; 2]
                && receiver.lines().len() == count
        })
        .await;
        let copies = sql(&engine, "SELECT k, \"double\", note FROM copies ORDER BY _offset").await;
        assert_eq!(read(&copies), expected);
        assert_eq!(read(&file("rows.ndjson")), expected);
        assert_eq!(read(&receiver.lines().join("\n")), expected);
        let line = |row: &Value| format!("{},{},{}", row["k"], row["double"], row["note"].as_str().unwrap());
        let csv: Vec<String> = expected.iter().map(line).collect();
        assert_eq!(file("rows.csv").lines().skip(1).collect::<Vec<_>>(), csv);
        let order = "ORDER BY k, \"double\", note";
        let kept = sql(&engine, &format!("SELECT k, \"double\", note FROM kept {order}")).await;
        assert_eq!(kept, sql(&engine, &format!("SELECT k, \"double\", note FROM copies {order}")).await);
        stop(engine, GRACE).await;
    }
}

/// The files of the log that have records, in order.
fn log_files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("log")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".segment"));
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_trimmed_as_a_sink_goes_on_and_up_to_the_bound_while_its_target_is_away() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    for topic in ["all", "none"] {
        kafka.make_topic(topic, 1);
    }
    let engine = open(dir.path(), &kafka, |history| {
        history.log_segment_bytes = 1 << 20;
        history.sinks_log_bytes_max = 3 << 20;
        history.feed_bytes_max = 1 << 20;
        history.log_compression =
            swiftwater_log::CompressionPolicy::Always(swiftwater_log::Compression::None);
    })
    .await;
    sql(&engine, "CREATE STREAM t (n LONG NOT NULL, pad STRING)").await;
    sql(&engine, "CREATE SINK a FROM (SELECT * FROM STREAM(t)) INTO KAFKA (topic = 'all', key = n)").await;
    sql(&engine, "CREATE SINK z FROM (SELECT n FROM STREAM(t) WHERE n < 0) INTO KAFKA (topic = 'none')")
        .await;
    let pad = "x".repeat(1000);
    let mut sent = 0;
    let mut send = async |engine: &Engine| {
        // Some 8 MiB of the log.
        for _ in 0..80 {
            let lines: Vec<String> =
                (sent..sent + 100).map(|n| format!(r#"{{"n":{n},"pad":"{pad}"}}"#)).collect();
            append(engine, "t", &lines.join("\n"), None).await;
            sent += 100;
        }
        sent
    };
    let total = send(&engine).await;
    until(&engine, "delivered", async || kafka.committed_messages("all", 0).len() == total as usize).await;
    until(&engine, "trimmed to the end", async || log_files(dir.path()).len() <= 2).await;

    kafka.set_away(true);
    let total = send(&engine).await;
    until(&engine, "trimmed to the bound", async || log_files(dir.path()).len() <= 5).await;
    let shown = sql(&engine, "SHOW SINKS").await;
    assert!(shown.contains("\"events_behind\":80"), "{shown}");
    kafka.end_failures();
    until(&engine, "all", async || kafka.committed_messages("all", 0).len() >= total as usize).await;
    let numbers: Vec<i64> = kafka
        .committed_messages("all", 0)
        .into_iter()
        .map(|(_, message)| serde_json::from_slice::<Value>(&message.value.unwrap()).unwrap())
        .map(|row| row["n"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, (0..total).collect::<Vec<_>>());
    until(&engine, "trimmed to the end", async || log_files(dir.path()).len() <= 2).await;
    assert_eq!(kafka.committed_messages("none", 0).len(), 0);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_target_refuses_go_to_the_dead_letter_stream_once() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let mut engine = open(dir.path(), &kafka, |_| {}).await;
    for text in [
        STREAM,
        "CREATE STREAM small (k LONG, \"double\" LONG CHECK (\"double\" < 50), note STRING)",
        "CREATE STREAM lost (sink STRING, delivery LONG, error STRING, \"row\" JSON)",
        &format!("CREATE SINK s FROM {QUERY} INTO STREAM small WITH (batch_rows = 4, dead_letter = lost)"),
    ] {
        sql(&engine, text).await;
    }
    let (mut rng, mut events) = (Rng::new(3), Vec::new());
    for round in 0..4 {
        let some: Vec<Event> = (0..40).map(|_| Event::random(&mut rng)).collect();
        append_all(&engine, &some, &mut rng).await;
        events.extend(some);
        if round % 2 == 0 {
            stop(engine, Duration::ZERO).await;
            engine = open(dir.path(), &kafka, |_| {}).await;
        }
    }
    let (dead, good): (Vec<Value>, Vec<Value>) =
        rows(&events).into_iter().partition(|row| row["double"].as_i64().unwrap() >= 50);
    assert!(!dead.is_empty());
    until(&engine, "all", async || sql(&engine, "SHOW SINKS").await.contains("\"events_behind\":0")).await;
    // Those of a delivery that a crash cut off at its end, one of four rows each time, are not counted.
    let counted = read(&sql(&engine, "SHOW SINKS").await)[0]["dead_rows"].as_u64().unwrap() as usize;
    assert!((dead.len() - 8..=dead.len()).contains(&counted), "{counted} of {}", dead.len());
    let small = sql(&engine, "SELECT k, \"double\", note FROM small ORDER BY _offset").await;
    assert_eq!(read(&small), good);
    let lost = read(&sql(&engine, "SELECT \"row\" FROM lost ORDER BY _offset").await);
    let lost: Vec<Value> =
        lost.iter().map(|row| serde_json::from_str(row["row"].as_str().unwrap()).unwrap()).collect();
    assert_eq!(lost, dead);
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_begins_with_the_next_event_and_its_stream_stays_as_it_is_read() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let engine = open(dir.path(), &kafka, |_| {}).await;
    for text in [
        STREAM,
        "CREATE STREAM u (k LONG, at LONG)",
        "CREATE STREAM live (a LONG) WITH (store = false)",
        "CREATE STREAM listed (a LONG PATH 'a[0]')",
        "CREATE STREAM found WITH (store = true)",
        "CREATE TABLE kept (k BIGINT)",
        "CREATE TABLE dated (d DATE)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "t", r#"{"k":1}"#, None).await;
    let create = "CREATE SINK s FROM (SELECT k, UNIXTIMESTAMP() AS at FROM STREAM(t)) INTO STREAM u";
    sql(&engine, create).await;
    append(&engine, "t", r#"{"k":2}"#, None).await;
    until(&engine, "one row", async || sql(&engine, "SELECT k FROM u").await == "{\"k\":2}\n").await;
    let shown = sql(&engine, "SHOW CREATE SINK s").await;
    assert_eq!(read(&shown)[0]["statement"], create);
    let shown = read(&sql(&engine, "DESCRIBE SINK s").await);
    assert_eq!((&shown[0]["view"], &shown[0]["stream"]), (&Value::Null, &json!("t")));

    for (statement, fault) in [
        ("DROP STREAM t", "reads stream `t`"),
        ("DROP STREAM u", "sink `s` delivers to stream `u`"),
        ("CREATE SINK r FROM (SELECT k FROM STREAM(t)) INTO STREAM t", "the sink reads stream `t`"),
        (
            "CREATE SINK r FROM (SELECT k FROM STREAM(u)) INTO STREAM t",
            "in a cycle: by sink `s` into stream `u`",
        ),
        ("CREATE SINK r FROM (SELECT k FROM STREAM(no)) INTO STREAM u", "no stream `no`"),
        ("CREATE SINK r FROM (SELECT k FROM STREAM(v)) INTO STREAM u", "`v` is a view"),
        (
            "CREATE SINK r FROM (SELECT a FROM STREAM(live)) INTO STREAM u",
            "a sink needs a stored stream, and `live`",
        ),
        ("CREATE SINK r FROM (SELECT a FROM STREAM(listed)) INTO STREAM u", "is inside a list"),
        ("CREATE SINK r FROM (SELECT NOPE(k) AS a FROM STREAM(t)) INTO STREAM u", "NOPE"),
        ("CREATE SINK r FROM (SELECT * FROM STREAM(t)) INTO TABLE kept", "`*` has no columns of known types"),
        (
            "CREATE SINK r FROM (SELECT k FROM STREAM(found)) INTO TABLE kept",
            "the type of column `k` is not known",
        ),
        (
            "CREATE SINK r FROM (SELECT note IS NULL AS d FROM STREAM(t)) INTO TABLE dated",
            "BOOLEAN in the query",
        ),
        ("CREATE SINK r FROM (SELECT k, x FROM STREAM(t)) INTO TABLE kept", "it has no column `x`"),
        (
            "CREATE SINK r FROM (SELECT * FROM STREAM(t)) INTO FILE 'x' WITH (format = csv)",
            "`*` has no columns",
        ),
        (
            "CREATE SINK r FROM (SELECT k FROM STREAM(t)) INTO KAFKA (topic = 'x', key = note)",
            "the query has no column `note`: it has k",
        ),
        (
            "CREATE SINK r FROM (SELECT * FROM STREAM(t)) INTO KAFKA (topic = 'x', key = no)",
            "the query has no column `no`: it has k, x, note",
        ),
    ] {
        let error = match try_sql(&engine, statement).await {
            Ok(_) => panic!("{statement} is accepted"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(fault), "{statement}: {error}");
    }
    sql(&engine, "CREATE SINK r FROM (SELECT CAST(k AS LONG) AS k FROM STREAM(found)) INTO TABLE kept").await;
    sql(&engine, "DROP SINK r").await;
    // Other columns can be altered.
    sql(&engine, "CREATE SINK r FROM (SELECT k, later FROM STREAM(t)) INTO FILE 'x'").await;
    let error = try_sql(&engine, "ALTER STREAM t ADD COLUMN later LONG").await.unwrap_err().to_string();
    assert!(error.contains("sink `r` reads stream `t`"), "{error}");
    sql(&engine, "ALTER STREAM t ADD COLUMN other LONG").await;
    sql(&engine, "DROP SINK r").await;
    sql(&engine, "ALTER STREAM t ADD COLUMN later LONG").await;
    sql(&engine, "CREATE SINK IF NOT EXISTS s FROM (SELECT k FROM STREAM(t)) INTO STREAM u").await;
    sql(&engine, "DROP VIEW v").await;
    let error = try_sql(&engine, "DROP STREAM t").await.unwrap_err().to_string();
    assert!(error.contains("sink `s` reads stream `t`"), "{error}");
    sql(&engine, "DROP SINK s").await;
    sql(&engine, "DROP STREAM t").await;
    stop(engine, GRACE).await;
}

/// Opens a machine whose log has no room for sinks that are behind, so that they read tables.
async fn open_machine(machine: &Machine, clock: &Arc<TestClock>, kafka: &FakeKafka) -> Option<Engine> {
    let (mut history, options) = Machine::settings();
    let connection: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let connections = [("main".into(), connection)].into();
    history.kafka =
        KafkaConnections { connections, refresh: Duration::from_millis(5), ..KafkaConnections::default() };
    (history.sinks_log_bytes_max, history.feed_bytes_max) = (0, 100);
    history.views_commit_interval_ms = 2;
    match machine.open_with(clock, (history, options)).await {
        Ok(engine) => Some(engine),
        Err(_) if machine.power.is_off() => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn power_loss_neither_loses_nor_doubles_the_row_of_an_event() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6);
    for seed in 0..cases {
        let (mut machine, kafka) = (Machine::new(Kind::Disk), FakeKafka::new());
        kafka.make_topic("rows", 1);
        let (clock, mut rng) = (Arc::new(TestClock::at(1_700_000_000_000)), Rng::new(seed));
        let mut engine = open_machine(&machine, &clock, &kafka).await;
        for text in [
            STREAM,
            "CREATE STREAM copies (k LONG, \"double\" LONG, note STRING)",
            &format!("CREATE SINK a FROM {QUERY} INTO STREAM copies WITH (batch_rows = 2)"),
            &format!(
                "CREATE SINK b FROM {QUERY} INTO KAFKA (topic = 'rows', key = k, headers = 'source: sw')"
            ),
        ] {
            sql(engine.as_ref().unwrap(), text).await;
        }
        for sequence in 0..30 {
            if rng.chance(0.3) {
                machine.power.off_at(machine.power.calls() + 1 + rng.below(60) as u64, rng.chance(0.5));
            }
            let lines: Vec<String> = (0..1 + rng.below(6)).map(|_| Event::random(&mut rng).text()).collect();
            if let Some(engine) = &engine {
                let sent = send(engine, "t", (&lines, &[]), sequence);
                machine.unless_off("an append", sent).await;
                for _ in 0..rng.below(100) {
                    tokio::task::yield_now().await;
                }
            }
            if machine.power.is_off() {
                if let Some(engine) = engine.take() {
                    stop(engine, Duration::ZERO).await;
                }
                machine = machine.after_power_loss(rng.below(1 << 30) as u64).await;
                engine = open_machine(&machine, &clock, &kafka).await;
            }
        }
        if let Some(engine) = engine.take() {
            stop(engine, Duration::ZERO).await;
        }
        machine.cut();
        machine = machine.after_power_loss(seed).await;
        let engine = open_machine(&machine, &clock, &kafka).await.unwrap();
        // Those that were not acknowledged may be there or not.
        let events = read(&sql(&engine, "SELECT k, x, note FROM t ORDER BY _offset").await);
        let event = |event: &Value| Event {
            k: event["k"].as_i64().unwrap(),
            x: event["x"].as_i64(),
            note: event["note"].as_str().unwrap().to_owned(),
        };
        let expected = rows(&events.iter().map(event).collect::<Vec<_>>());
        let copies =
            async || read(&sql(&engine, "SELECT k, \"double\", note FROM copies ORDER BY _offset").await);
        until(&engine, &format!("seed {seed}"), async || {
            copies().await.len() >= expected.len() && messages(&kafka, "rows", 1)[0].len() >= expected.len()
        })
        .await;
        assert_eq!(copies().await, expected, "seed {seed}");
        assert_eq!(messages(&kafka, "rows", 1)[0], expected, "seed {seed}");
        stop(engine, Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_retention_deletes_before_a_sink_reads_them_are_counted() {
    let (machine, kafka) = (Machine::new(Kind::Disk), FakeKafka::new());
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let engine = open_machine(&machine, &clock, &kafka).await.unwrap();
    kafka.set_away(true);
    sql(&engine, "CREATE STREAM t (k LONG NOT NULL) WITH (retention = '1 second')").await;
    sql(&engine, "CREATE SINK s FROM (SELECT k FROM STREAM(t)) INTO KAFKA (topic = 'rows')").await;
    for k in 0..5 {
        append(&engine, "t", &format!(r#"{{"k":{k}}}"#), None).await;
    }
    until(&engine, "deleted", async || {
        clock.advance_ms(100);
        sql(&engine, "SELECT count(*) AS n FROM t").await == "{\"n\":0}\n"
    })
    .await;
    append(&engine, "t", r#"{"k":5}"#, None).await;
    kafka.make_topic("rows", 1);
    kafka.end_failures();
    until(&engine, "counted", async || {
        let shown = sql(&engine, "SHOW SINKS").await;
        shown.contains("\"events_behind\":0") && shown.contains("\"events_lost\":5")
    })
    .await;
    let values: Vec<Vec<u8>> =
        kafka.committed_messages("rows", 0).into_iter().map(|(_, message)| message.value.unwrap()).collect();
    assert_eq!(values, [br#"{"k":5}"#]);
    stop(engine, Duration::ZERO).await;
}
