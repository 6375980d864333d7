//! Tests streams over topics with a `WATERMARK`: the lateness of an event is that of its own partition, whatever the order in
//! which partitions are read, across restarts, and in every kind of query.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{collections::BTreeMap, fmt::Write, path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{
    Engine, EngineConfig, HistoryConfig, KafkaConnections, Principal, QueryForm, SubmitOptions, Subscription,
};
use swiftwater_event::{Clock, SystemClock};
use swiftwater_kafka::Kafka;
use swiftwater_testkit::{FakeKafka, FakeMessage, Rng, TestClock};

use crate::{
    history::{open_when_free, quick, sql, stop, try_sql, until_said},
    kafka::until_shown,
};

const GRACE: Duration = Duration::from_secs(5);

/// Behind all other times of a test.
const FAR: i64 = 1_000_000;

const LATENESS: i64 = 5;
const SIZE: i64 = 10;

const VIEW: &str = "AS SELECT window_start AS w, COUNT(*) AS n, SUM(k) AS k FROM STREAM(s) GROUP BY window_start \
     WINDOWING TUMBLING(10, EVENT)";

fn stream(idle_after: &str) -> String {
    format!(
        "CREATE STREAM s (k LONG NOT NULL CHECK (k >= 0), ts LONG, WATERMARK FOR ts AS ts - INTERVAL '5 ms' MAX AHEAD NONE \
         IDLE AFTER INTERVAL '{idle_after}') FROM KAFKA (topic = 't', start = earliest)"
    )
}

async fn open_at(dir: &Path, kafka: &FakeKafka, clock: Arc<dyn Clock>) -> Engine {
    let config = EngineConfig { shards: 2, tick_ms: 1, ..EngineConfig::default() };
    let kafka: Arc<dyn Kafka> = Arc::new(kafka.clone());
    let connections = [("main".into(), kafka)].into();
    let kafka =
        KafkaConnections { connections, refresh: Duration::from_millis(5), ..KafkaConnections::default() };
    let history = HistoryConfig { kafka, views_commit_interval_ms: 5, ..quick(dir) };
    open_when_free(config, history, clock).await
}

async fn open(dir: &Path, kafka: &FakeKafka) -> Engine {
    open_at(dir, kafka, Arc::new(SystemClock::new())).await
}

/// A message: the number and the time of its event, or no event that moves a watermark.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Event(u64, i64),
    WithoutTime(u64),
    /// The columns refuse it.
    Refused(i64),
    Tombstone,
}

impl Sent {
    fn message(self) -> FakeMessage {
        match self {
            Sent::Event(k, ts) => FakeMessage::value(format!("{{\"k\":{k},\"ts\":{ts}}}")),
            Sent::WithoutTime(k) => FakeMessage::value(format!("{{\"k\":{k}}}")),
            Sent::Refused(ts) => FakeMessage::value(format!("{{\"k\":-1,\"ts\":{ts}}}")),
            Sent::Tombstone => FakeMessage { key: Some(b"k".to_vec()), ..FakeMessage::default() },
        }
    }

    fn is_stored(self) -> bool {
        matches!(self, Sent::Event(..) | Sent::WithoutTime(_))
    }
}

fn random_partition(rng: &mut Rng, numbers: &mut u64) -> Vec<Sent> {
    // Partitions are at different times.
    let mut at = rng.below(200) as i64;
    let mut all: Vec<Sent> = (0..rng.below(60))
        .map(|_| {
            *numbers += 1;
            at += rng.below(8) as i64;
            let ts = if rng.chance(0.3) { (at - rng.below(40) as i64).max(0) } else { at };
            match rng.below(12) {
                0 => Sent::WithoutTime(*numbers),
                1 => Sent::Refused(ts + 500),
                2 => Sent::Tombstone,
                _ => Sent::Event(*numbers, ts),
            }
        })
        .collect();
    *numbers += 1;
    all.push(Sent::Event(*numbers, FAR));
    all
}

/// The windows, each partition by itself: the number of events that are not late, and the sum of their numbers.
fn oracle(partitions: &[Vec<Sent>]) -> BTreeMap<i64, (u64, u64)> {
    let mut windows = BTreeMap::new();
    for (partition, messages) in partitions.iter().enumerate() {
        let mut latest = i64::MIN;
        for message in messages {
            let Sent::Event(k, ts) = *message else { continue };
            let start = ts.div_euclid(SIZE) * SIZE;
            let is_late = latest != i64::MIN && start + SIZE <= latest - LATENESS;
            // The last message of each partition waits for those of the partitions before it.
            if !is_late && (ts < FAR || partition == 0) {
                let window: &mut (u64, u64) = windows.entry(start).or_default();
                *window = (window.0 + 1, window.1 + k);
            }
            latest = latest.max(ts);
        }
    }
    windows
}

/// Writes all messages: each partition's in its order, the partitions in any. Restarts the server meanwhile.
async fn produce_all(
    (dir, kafka, rng): (&Path, &FakeKafka, &mut Rng),
    partitions: &[Vec<Sent>],
    mut engine: Engine,
    restarts: usize,
) -> Engine {
    let count: usize = partitions.iter().map(Vec::len).sum();
    let mut restarts: Vec<usize> = (0..restarts).map(|_| rng.below(count)).collect();
    let mut done = vec![0; partitions.len()];
    loop {
        let left: Vec<usize> =
            (0..partitions.len()).filter(|one| done[*one] < partitions[*one].len()).collect();
        if left.is_empty() {
            return engine;
        }
        let one = left[rng.below(left.len())];
        for _ in 0..1 + rng.below(20) {
            if let Some(message) = partitions[one].get(done[one]) {
                kafka.append("t", one as u32, message.message());
                done[one] += 1;
            }
        }
        for _ in 0..rng.below(30) {
            tokio::task::yield_now().await;
        }
        let sent: usize = done.iter().sum();
        if let Some(place) = restarts.iter().position(|at| *at <= sent) {
            restarts.remove(place);
            stop(engine, Duration::ZERO).await;
            engine = open(dir, kafka).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lateness_is_that_of_the_partition_in_any_order_of_reading_and_across_restarts() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5);
    let mut late = 0;
    for seed in 0..cases {
        let mut rng = Rng::new(seed);
        let mut numbers = 0;
        let partitions: Vec<Vec<Sent>> =
            (0..1 + rng.below(4)).map(|_| random_partition(&mut rng, &mut numbers)).collect();
        let windows = oracle(&partitions);
        let stored =
            partitions.iter().flatten().filter(|sent| sent.is_stored()).count() + 1 - partitions.len();
        late += stored - windows.values().map(|(n, _)| *n as usize).sum::<usize>();
        let mut expected = String::new();
        for (w, (n, k)) in &windows {
            writeln!(expected, "{{\"w\":{w},\"n\":{n},\"k\":{k}}}").unwrap();
        }
        let mut first = None;
        for run in 0..3 {
            let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
            kafka.make_topic("t", partitions.len() as u32);
            kafka.set_batch_messages(1 + rng.below(20));
            let engine = open(dir.path(), &kafka).await;
            sql(&engine, &stream("1 hour")).await;
            sql(&engine, &format!("CREATE MATERIALIZED VIEW v {VIEW}")).await;
            let restarts = if run == 0 { 0 } else { run };
            let engine = produce_all((dir.path(), &kafka, &mut rng), &partitions, engine, restarts).await;
            until_said(&engine, "SELECT count(*) AS c FROM s", &format!("{{\"c\":{stored}}}\n")).await;
            let shown = "SELECT w, n, k FROM v ORDER BY w";
            until_said(&engine, shown, &expected).await;
            // A view that is made of the table has the same.
            sql(&engine, &format!("CREATE MATERIALIZED VIEW anew WITH (backfill = true) {VIEW}")).await;
            until_said(&engine, &shown.replace(" v ", " anew "), &expected).await;
            let order = sql(&engine, "SELECT k, ts FROM s ORDER BY _offset").await;
            if restarts == 0 {
                assert_eq!(*first.get_or_insert(order.clone()), order, "seed {seed}");
            }
            stop(engine, GRACE).await;
        }
        // Another order of reading, without a restart: the same order of the stream.
        let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
        kafka.make_topic("t", partitions.len() as u32);
        let engine = open(dir.path(), &kafka).await;
        sql(&engine, &stream("1 hour")).await;
        let engine = produce_all((dir.path(), &kafka, &mut rng), &partitions, engine, 0).await;
        until_said(&engine, "SELECT count(*) AS c FROM s", &format!("{{\"c\":{stored}}}\n")).await;
        assert_eq!(Some(sql(&engine, "SELECT k, ts FROM s ORDER BY _offset").await), first, "seed {seed}");
        stop(engine, GRACE).await;
    }
    assert!(late > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_without_messages_holds_up_others_until_it_is_idle() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    kafka.make_topic("t", 2);
    let engine = open_at(dir.path(), &kafka, Arc::clone(&clock) as Arc<dyn Clock>).await;
    sql(&engine, &stream("5 seconds")).await;
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v {VIEW}")).await;
    let send = |partition, k, ts| kafka.append("t", partition, Sent::Event(k, ts).message());
    send(0, 1, 12);
    send(0, 2, 40);
    until_shown(&engine, "\"partition\":0,\"position\":0,\"end\":2,\"lag\":2").await;
    clock.advance_ms(4_999);
    assert_eq!(sql(&engine, "SELECT count(*) AS c FROM s").await, "{\"c\":0}\n");
    clock.advance_ms(1);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":2}\n").await;
    // It is late by the other partition, as its own was idle; the next one is not. Now the other one is idle.
    send(1, 4, 13);
    send(1, 8, 41);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":4}\n").await;
    let rows = "{\"w\":10,\"n\":1,\"k\":1}\n{\"w\":40,\"n\":2,\"k\":10}\n";
    until_said(&engine, "SELECT w, n, k FROM v ORDER BY w", rows).await;
    // A restart after a long time closes nothing: the messages that came meanwhile are not late.
    stop(engine, GRACE).await;
    clock.advance_ms(3_600_000);
    send(0, 16, 42);
    send(1, 32, 43);
    let engine = open_at(dir.path(), &kafka, Arc::clone(&clock) as Arc<dyn Clock>).await;
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":5}\n").await;
    clock.advance_ms(5_000);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":6}\n").await;
    let rows = "{\"w\":10,\"n\":1,\"k\":1}\n{\"w\":40,\"n\":4,\"k\":58}\n";
    until_said(&engine, "SELECT w, n, k FROM v ORDER BY w", rows).await;
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_wait_are_no_part_of_the_position() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 2);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, &stream("1 hour")).await;
    // The end of the partition is behind the marker of the transaction.
    let transaction = kafka.begin();
    for n in 1..=3 {
        kafka.append_in(transaction, "t", 0, Sent::Event(n, 10 * n as i64).message());
    }
    kafka.commit(transaction);
    until_shown(&engine, "\"partition\":0,\"position\":0,\"end\":4,\"lag\":4").await;
    stop(engine, GRACE).await;
    let engine = open(dir.path(), &kafka).await;
    kafka.append("t", 1, Sent::Event(4, 25).message());
    kafka.append("t", 1, Sent::Event(5, 100).message());
    until_said(&engine, "SELECT k FROM s ORDER BY _offset", "{\"k\":1}\n{\"k\":2}\n{\"k\":4}\n{\"k\":3}\n")
        .await;
    until_shown(&engine, "\"partition\":0,\"position\":4,\"end\":4,\"lag\":0").await;
    // A part of what waits is skipped.
    kafka.append("t", 0, Sent::Event(6, 200).message());
    kafka.append("t", 0, Sent::Event(7, 300).message());
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":5}\n").await;
    sql(&engine, "ALTER STREAM s SKIP PARTITION 0 TO 5").await;
    kafka.append("t", 1, Sent::Event(8, 400).message());
    until_said(&engine, "SELECT k FROM s ORDER BY _offset LIMIT 3 OFFSET 4", "{\"k\":5}\n{\"k\":7}\n").await;
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_too_far_ahead_holds_up_nothing() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let now = 1_700_000_000_000_i64;
    let clock = Arc::new(TestClock::at(now));
    kafka.make_topic("t", 2);
    let engine = open_at(dir.path(), &kafka, Arc::clone(&clock) as Arc<dyn Clock>).await;
    let bounded = stream("1 hour").replace("MAX AHEAD NONE", "MAX AHEAD INTERVAL '1 minute'");
    sql(&engine, &bounded).await;
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v {VIEW}")).await;
    let send = |partition, k, ts| kafka.append("t", partition, Sent::Event(k, ts).message());
    send(0, 1, now + 7_200_000);
    send(0, 2, now + 12);
    send(0, 4, now + 100);
    send(1, 8, now + 13);
    send(1, 16, now + 100);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":4}\n").await;
    let rows = format!("{{\"w\":{},\"n\":2,\"k\":10}}\n{{\"w\":{},\"n\":1,\"k\":4}}\n", now + 10, now + 100);
    until_said(&engine, "SELECT w, n, k FROM v ORDER BY w", &rows).await;
    // A time that is too far ahead for a second yet waits for that.
    send(1, 32, now + 61_000);
    send(0, 64, now + 70_000);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":5}\n").await;
    clock.advance_ms(1_000);
    until_said(&engine, "SELECT count(*) AS c FROM s", "{\"c\":6}\n").await;
    stop(engine, GRACE).await;
}

async fn next(query: &mut Subscription) -> String {
    let emit = tokio::time::timeout(Duration::from_secs(60), query.next()).await.expect("something closes");
    String::from_utf8(emit.expect("it goes on").records.text.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_queries_over_a_live_only_stream_close_windows_by_the_least_partition() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    kafka.make_topic("t", 2);
    let engine = open(dir.path(), &kafka).await;
    sql(&engine, &format!("{} WITH (store = false)", stream("1 hour"))).await;
    let text = "SELECT COUNT(*) AS n, SUM(k) AS k FROM STREAM(s, 3600000, TIME) WINDOW TUMBLING(10, EVENT)";
    let options = SubmitOptions { form: QueryForm::Bql, ..SubmitOptions::default() };
    let mut query =
        engine.submit(&Principal::local(), &text.replace(" WINDOW ", " WINDOWING "), options).unwrap();
    let send = |partition, k, ts| kafka.append("t", partition, Sent::Event(k, ts).message());
    send(0, 1, 11);
    send(0, 2, 500);
    send(0, 4, 12);
    // Late by its own partition only.
    send(1, 8, 15);
    send(1, 16, 60);
    send(1, 32, 600);
    assert_eq!(next(&mut query).await, "{\"n\":2,\"k\":9}\n");
    assert_eq!(next(&mut query).await, "{\"n\":1,\"k\":16}\n");
    stop(engine, GRACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watermarks_that_cannot_be_are_refused() {
    let (dir, kafka) = (tempfile::tempdir().unwrap(), FakeKafka::new());
    let engine = open(dir.path(), &kafka).await;
    let text = stream("1 hour").replace("start = earliest", "format = ndjson");
    let error = try_sql(&engine, &text).await.unwrap_err().to_string();
    assert!(error.contains("a stream with a WATERMARK cannot have `format = ndjson`"), "{error}");
    sql(&engine, &stream("1 hour")).await;
    let error = try_sql(&engine, "ALTER STREAM s SET KAFKA (format = ndjson)").await.unwrap_err().to_string();
    assert!(error.contains("cannot have `format = ndjson`"), "{error}");
    stop(engine, GRACE).await;
}
