//! Tests stored streams: acknowledged events are in SQL at once, and after a restart, once.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use swiftwater_engine::{
    Ack, AppendOptions, Appended, DedupError, Engine, EngineConfig, EngineError, HistoryConfig, HistoryError,
    Numbered, Principal, RuntimeError,
};
use swiftwater_event::{
    CheckLimits, Checker, Clock, EventBatch, RefusedText, Rejection, StreamName, SystemClock,
};
use swiftwater_log::{Compression, CompressionPolicy};
use swiftwater_sql::{
    ErrorKind, RunOptions, SqlError,
    forms::{Form, FormWriter},
};
use swiftwater_testkit::TestClock;

use crate::{crashes::look_again, jobs_crashes::Parts};

/// Settings under which much happens in little time.
pub(crate) fn quick(dir: &Path) -> HistoryConfig {
    let mut history = HistoryConfig::at(dir);
    (history.log_free_bytes_min, history.store_commit_interval_ms) = (0, 50);
    history.checkpoint_interval_ms = 20;
    history
}

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 2, ..EngineConfig::default() };
    open_when_free(config, quick(dir), Arc::new(SystemClock::new())).await
}

/// Opens a directory, if necessary after the earlier engine has released it: one that was given no time ends its
/// threads after its shutdown.
pub(crate) async fn open_when_free(
    config: EngineConfig,
    history: HistoryConfig,
    clock: Arc<dyn Clock>,
) -> Engine {
    let patience = SystemClock::new();
    let deadline = patience.monotonic_nanos() + 60_000_000_000;
    loop {
        match Engine::open(config.clone(), history.clone(), Arc::clone(&clock)).await {
            Ok(engine) => return engine,
            // The files of views are released when their last commit is written.
            Err(HistoryError::Locked(_) | HistoryError::View(_)) if patience.monotonic_nanos() < deadline => {
                tokio::task::yield_now().await
            }
            Err(error) => panic!("the directory opens: {error}"),
        }
    }
}

/// Stops the engine; without time nothing is committed any more.
pub(crate) async fn stop(engine: Engine, grace: Duration) {
    engine.shutdown(grace).await;
}

pub(crate) fn batch(text: &str) -> EventBatch {
    let mut checker = Checker::new(CheckLimits::default());
    let batch = checker.push(Bytes::from(format!("{text}\n"))).batch;
    assert!(checker.finish().batch.is_empty());
    batch
}

pub(crate) async fn append(
    engine: &Engine,
    stream: &str,
    text: &str,
    numbered: Option<Numbered>,
) -> Appended {
    let options = AppendOptions { numbered, ..AppendOptions::default() };
    let name = StreamName::new(stream).unwrap();
    let appended =
        engine.append(&Principal::local(), &name, batch(text), options).await.expect("it is taken");
    if let Some(ticket) = appended.ticket {
        engine.synced(ticket).await.expect("it is synced");
    }
    appended
}

/// The answer of the last statement, a row a line.
pub(crate) async fn sql(engine: &Engine, text: &str) -> String {
    try_sql(engine, text).await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The same, or the error.
pub(crate) async fn try_sql(engine: &Engine, text: &str) -> Result<String, SqlError> {
    let options = RunOptions { others: Some(engine.statements()), ..RunOptions::default() };
    let mut answer = engine.sql().expect("there is SQL").run(text, options).await?;
    let mut out = Vec::new();
    let mut writer = FormWriter::new(Form::Ndjson, answer.schema()).unwrap();
    while let Some(rows) = answer.next().await {
        writer.batch(&rows?, &mut out).unwrap();
    }
    Ok(String::from_utf8(out).unwrap())
}

fn number(producer: &str, sequence: u64) -> Option<Numbered> {
    Some(Numbered { producer: producer.into(), sequence, part: 0, after: 0, hash: 0 })
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_event_is_in_sql_at_once_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL, b STRING)").await;
    assert!(engine.streams(&Principal::local()).iter().all(|stream| stream.is_stored));
    for number in 0..20 {
        append(&engine, "t", &format!("{{\"a\":{number},\"b\":\"x{number}\"}}"), None).await;
        let counted = sql(&engine, "SELECT count(*) AS n, max(a) AS a FROM t").await;
        assert_eq!(counted, format!("{{\"n\":{},\"a\":{number}}}\n", number + 1));
    }
    stop(engine, Duration::from_secs(5)).await;
    for round in 0..3 {
        let engine = open(dir.path()).await;
        let counted =
            sql(&engine, "SELECT count(*) AS n, count(DISTINCT a) AS d, max(_offset) AS o FROM t").await;
        assert_eq!(counted, format!("{{\"n\":{0},\"d\":{0},\"o\":{1}}}\n", 20 + round, 19 + round));
        append(&engine, "t", &format!("{{\"a\":{}}}", 100 + round), None).await;
        // Events that are not in the table are in the log.
        stop(engine, Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_stream_that_is_not_stored_takes_no_event_that_breaks_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    let create = "CREATE STREAM d (a LONG NOT NULL, b STRING CHECK (b <> 'no')) \
                  WITH (store = false, on_bad_event = quarantine)";
    sql(&engine, create).await;
    let events = "{\"a\":1}\n{\"b\":\"x\"}\n{\"a\":\"text\"}\n{\"a\":2,\"b\":\"no\"}\n{\"a\":3}";
    for _ in 0..2 {
        let appended = append(&engine, "d", events, None).await;
        let rows: Vec<u32> = appended.refusals.iter().map(|refusal| refusal.row).collect();
        assert_eq!((appended.accepted, rows, appended.quarantined), (2, vec![1, 2, 3], 3));
        assert_eq!(appended.position.offset.0, 2);
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path()).await;
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine WHERE stream = 'd'").await, "{\"n\":6}\n");
    let accepted = async |engine: &Engine| append(engine, "d", events, None).await.accepted;
    sql(&engine, "ALTER STREAM d ALTER COLUMN a DROP NOT NULL").await;
    assert_eq!(accepted(&engine).await, 3);
    sql(&engine, "ALTER STREAM d SET (store = true)").await;
    assert_eq!(accepted(&engine).await, 3, "as a stored one");
    sql(&engine, "DROP STREAM d").await;
    assert_eq!(accepted(&engine).await, 5, "of which nothing is declared");
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_request_is_stored_once_whatever_happens_between() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    let first = append(&engine, "t", "{\"a\":1}\n{\"a\":2}", number("p", 7)).await;
    let again = append(&engine, "t", "{\"a\":1}\n{\"a\":2}", number("p", 7)).await;
    assert!(!first.is_repeated && again.is_repeated);
    assert_eq!((again.position, again.accepted), (first.position, 2));
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path()).await;
    assert!(append(&engine, "t", "{\"a\":1}\n{\"a\":2}", number("p", 7)).await.is_repeated);
    assert!(!append(&engine, "t", "{\"a\":3}", number("p", 8)).await.is_repeated);
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM t").await, "{\"n\":3}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_event_is_refused_or_kept_apart_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL CHECK (a > 0)) WITH (on_bad_event = quarantine)").await;
    let appended = append(&engine, "t", "{\"a\":1}\n{\"a\":-1}\n{\"b\":1}\n{\"a\":2}", None).await;
    assert_eq!((appended.accepted, appended.refusals.len(), appended.quarantined), (2, 2, 2));
    assert_eq!(appended.refusals[0].row, 1);
    assert_eq!(sql(&engine, "SELECT sum(a) AS s FROM t").await, "{\"s\":3}\n");
    let kept = sql(&engine, "SELECT stream, path, event FROM quarantine ORDER BY _offset").await;
    let expected = "{\"stream\":\"t\",\"path\":\"a\",\"event\":\"{\\\"a\\\":-1}\"}\n\
                    {\"stream\":\"t\",\"path\":\"a\",\"event\":\"{\\\"b\\\":1}\"}\n";
    assert_eq!(kept, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_events_of_a_retried_request_are_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    sql(&engine, "CREATE STREAM u (a LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    // None of them is good, so the stream itself keeps nothing of the request.
    let bad = "{\"a\":null}\n{\"b\":1}";
    for stream in ["t", "u", "t"] {
        let appended = append(&engine, stream, bad, number("p", 7)).await;
        assert_eq!((appended.accepted, appended.quarantined), (0, 2), "{stream}");
    }
    let select = "SELECT stream, count(*) AS n FROM quarantine GROUP BY stream ORDER BY stream";
    let kept = "{\"stream\":\"t\",\"n\":2}\n{\"stream\":\"u\",\"n\":2}\n";
    assert_eq!(sql(&engine, select).await, kept);
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    append(&engine, "t", bad, number("p", 7)).await;
    assert_eq!(sql(&engine, select).await, kept, "after a restart, too");
    append(&engine, "t", bad, number("p", 8)).await;
    append(&engine, "t", bad, None).await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine WHERE stream = 't'").await, "{\"n\":6}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_an_undeclared_stream_are_found_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    append(&engine, "t", "{\"a\":1}\n{\"a\":2,\"b\":\"x\"}\n{\"a\":\"odd\"}", None).await;
    let rows = "{\"a\":1,\"b\":null,\"_event\":null}\n{\"a\":2,\"b\":\"x\",\"_event\":null}\n\
                {\"a\":null,\"b\":null,\"_event\":\"{\\\"a\\\":\\\"odd\\\"}\"}\n";
    let select = "SELECT a, b, _event FROM t ORDER BY _offset";
    assert_eq!(sql(&engine, select).await, rows);
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, select).await, rows);
    append(&engine, "t", "{\"c\":1.5}", None).await;
    assert_eq!(sql(&engine, "SELECT c FROM t WHERE c IS NOT NULL").await, "{\"c\":1.5}\n");
    let described = sql(&engine, "DESCRIBE STREAM t").await;
    assert!(described.contains("\"column\":\"c\",\"type\":\"DOUBLE\""), "{described}");
    sql(&engine, "CREATE STREAM declared (j JSON)").await;
    let described = sql(&engine, "DESCRIBE STREAM declared").await;
    assert!(described.contains("\"column\":\"j\",\"type\":\"JSON\""), "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_column_stays_in_the_events_text() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    // Names that the table has of its own, and more fields than are found.
    let fields: Vec<String> = (0..1200).map(|number| format!("\"k{number}\":{number}")).collect();
    append(&engine, "t", &format!("{{\"_day\":1,\"_Hour\":2,{}}}", fields.join(",")), None).await;
    sql(&engine, "CREATE STREAM u WITH (store = true)").await;
    // Numbers that no DOUBLE is.
    append(&engine, "u", "{\"m\":0.5}\n{\"m\":12345678901234567890}\n{\"m\":1e400}", None).await;
    for _ in 0..2 {
        let select = "SELECT k0, k999, _event LIKE '{\"_day\":1,\"_Hour\":2,%\"k1199\":1199}' AS kept FROM t";
        assert_eq!(sql(&engine, select).await, "{\"k0\":0,\"k999\":999,\"kept\":true}\n");
        let kept = "{\"_event\":null}\n{\"_event\":\"{\\\"m\\\":12345678901234567890}\"}\n\
                    {\"_event\":\"{\\\"m\\\":1e400}\"}\n";
        assert_eq!(sql(&engine, "SELECT _event FROM u ORDER BY _offset").await, kept);
        stop(engine, Duration::ZERO).await;
        engine = open(dir.path()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_that_comes_twice_within_an_object_stays_in_the_events_text() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    sql(&engine, "CREATE STREAM d (m MAP[LONG], l LIST[MAP[LONG]])").await;
    append(&engine, "t", "{\"o\":{\"k\":1,\"k\":2}}\n{\"e\":{\"a\":1,\"a\":\"x\"}}\n{\"o\":{\"k\":3}}", None)
        .await;
    append(&engine, "d", "{\"m\":{\"k\":1,\"k\":2}}\n{\"l\":[{\"k\":1,\"k\":2}]}\n{\"m\":{\"k\":3}}", None)
        .await;
    for _ in 0..2 {
        assert_eq!(
            sql(&engine, "SELECT _event FROM t ORDER BY _offset").await,
            "{\"_event\":\"{\\\"o\\\":{\\\"k\\\":1,\\\"k\\\":2}}\"}\n\
             {\"_event\":\"{\\\"e\\\":{\\\"a\\\":1,\\\"a\\\":\\\"x\\\"}}\"}\n{\"_event\":null}\n"
        );
        assert_eq!(
            sql(&engine, "SELECT _event FROM d ORDER BY _offset").await,
            "{\"_event\":\"{\\\"m\\\":{\\\"k\\\":1,\\\"k\\\":2}}\"}\n\
             {\"_event\":\"{\\\"l\\\":[{\\\"k\\\":1,\\\"k\\\":2}]}\"}\n{\"_event\":null}\n"
        );
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_text_in_a_partition_column_is_null_from_the_first_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (k STRING, n LONG) WITH (partition_by = (k))").await;
    sql(&engine, "CREATE STREAM u (k STRING NOT NULL) WITH (partition_by = (k))").await;
    append(&engine, "t", "{\"k\":\"\",\"n\":1}\n{\"k\":\"a\",\"n\":2}", None).await;
    sql(&engine, "INSERT INTO t (k, n) VALUES ('', 3)").await;
    let appended = append(&engine, "u", "{\"k\":\"\"}\n{\"k\":\"a\"}", None).await;
    assert_eq!((appended.accepted, appended.refusals.len()), (1, 1));
    assert!(appended.refusals[0].message.contains("is partitioned by it"), "{:?}", appended.refusals);
    let refused = try_sql(&engine, "INSERT INTO u VALUES ('')").await.unwrap_err();
    assert!(refused.to_string().contains("is partitioned by it"), "{refused}");
    for _ in 0..2 {
        assert_eq!(
            sql(&engine, "SELECT k, n, _event IS NULL AS whole FROM t ORDER BY n").await,
            "{\"k\":null,\"n\":1,\"whole\":false}\n{\"k\":\"a\",\"n\":2,\"whole\":true}\n\
             {\"k\":null,\"n\":3,\"whole\":false}\n"
        );
        assert_eq!(sql(&engine, "SELECT k FROM u").await, "{\"k\":\"a\"}\n");
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_is_told_what_became_of_each_event_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (id LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    let body = "{\"bad\":1}\n{\"id\":900}";
    let first = append(&engine, "t", body, number("me", 91)).await;
    let again = append(&engine, "t", body, number("me", 91)).await;
    assert!(!first.is_repeated && again.is_repeated);
    assert_eq!((again.accepted, &again.refusals, &again.position), (1, &first.refusals, &first.position));
    let kept = sql(&engine, "SELECT count(*) AS n FROM quarantine").await;
    assert_eq!(kept, "{\"n\":1}\n", "it is kept once");
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_the_engine_s_own_are_nobody_else_s() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    let name = StreamName::new("t").unwrap();
    for producer in [
        "swiftwater/sink/0-1",
        "swiftwater/alert/1-1",
        "swiftwater/job/0-1/0",
        "swiftwater/quarantine/0/0/p",
        "join 0-1",
    ] {
        let options = AppendOptions { numbered: number(producer, 2), ..AppendOptions::default() };
        let refused = engine.append(&Principal::local(), &name, batch("{\"a\":1}"), options).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, EngineError::Runtime(RuntimeError::ReservedProducer(found)) if found == producer),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
    for producer in ["swiftwater", "joiner", "my/swiftwater/"] {
        assert_eq!(append(&engine, "t", "{\"a\":1}", number(producer, 2)).await.accepted, 1, "{producer}");
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM t").await, "{\"n\":3}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn number_that_is_used_again_for_other_events_is_refused_after_restarts_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    let name = StreamName::new("t").unwrap();
    let numbered = |sequence, text: &str| {
        let hash = swiftwater_engine::hash_of([text.as_bytes()]);
        Some(Numbered { producer: "p".into(), sequence, part: 0, after: 0, hash })
    };
    append(&engine, "t", "{\"a\":1}", numbered(1, "{\"a\":1}")).await;
    // The request is known from the log first, then from the catalog's snapshot.
    for grace in [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(5)] {
        assert!(append(&engine, "t", "{\"a\":1}", numbered(1, "{\"a\":1}")).await.is_repeated);
        let options = AppendOptions { numbered: numbered(1, "{\"a\":2}"), ..AppendOptions::default() };
        let refused = engine.append(&Principal::local(), &name, batch("{\"a\":2}"), options).await;
        let error = refused.unwrap_err();
        assert!(matches!(error, EngineError::Dedup(DedupError::NumberReused { sequence: 1, .. })), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("under an unused number")));
        stop(engine, grace).await;
        engine = open(dir.path()).await;
    }
    assert_eq!(sql(&engine, "SELECT sum(a) AS s FROM t").await, "{\"s\":1}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_events_are_kept_and_counted_once_their_request_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let mut history = quick(dir.path());
    history.log_bytes_max = 128 << 20;
    history.log_compression = CompressionPolicy::Always(Compression::None);
    // No record is longer.
    history.log_queue_bytes_max = 8 << 20;
    let engine = open_when_free(EngineConfig::default(), history, Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL, pad STRING) WITH (on_bad_event = quarantine)").await;
    let name = StreamName::new("t").unwrap();
    let counted = |engine: &Engine| {
        let all = engine.streams(&Principal::local());
        all.iter().find(|stream| stream.name == name).unwrap().rejected
    };
    // Longer than a record of the log may be, so that it is refused after its events were looked at.
    let pad = "x".repeat(40 << 20);
    let body = format!("{{\"a\":null}}\n{{\"a\":1,\"pad\":\"{pad}\"}}");
    for numbered in [number("p", 1), None] {
        let options = AppendOptions { numbered, rejected: 1, ..AppendOptions::default() };
        let large = {
            let limits = CheckLimits { event_bytes_max: 80 << 20, ..CheckLimits::default() };
            Checker::new(limits).push(Bytes::from(format!("{body}\n"))).batch
        };
        assert_eq!(large.len(), 2);
        let refused = engine.append(&Principal::local(), &name, large, options).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine").await, "{\"n\":0}\n");
    assert_eq!(counted(&engine), 0);
    let body = "{\"a\":null}\n{\"a\":1}";
    for _ in 0..2 {
        let appended = append(&engine, "t", body, number("p", 1)).await;
        assert_eq!((appended.accepted, appended.quarantined), (1, 1));
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine").await, "{\"n\":1}\n");
    assert_eq!(counted(&engine), 1, "a retry is counted once");
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_has_as_many_as_it_says_however_long_they_are_and_retries_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    // Control characters take six bytes each where they are kept.
    let texts = |count: usize| -> Vec<RefusedText> {
        let rejection = Rejection { line: 1, column: 1, message: "no".to_owned(), oversize: false };
        let text = RefusedText { rejection, text: vec![1; 64 << 10], is_cut: false };
        vec![text; count]
    };
    let name = StreamName::new("t").unwrap();
    for _ in 0..2 {
        for (part, count) in [(0, 32), (1, 32), (2, 5)] {
            let options = AppendOptions {
                numbered: number("p", 1),
                refused: texts(count),
                refused_part: part,
                rejected: count as u64,
                ..AppendOptions::default()
            };
            let none = batch("{\"a\":1}").select(&[]);
            let appended = engine.append(&Principal::local(), &name, none, options).await.unwrap();
            assert_eq!(appended.quarantined, count as u64);
        }
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine").await, "{\"n\":69}\n");
    let options = AppendOptions { refused: texts(100), rejected: 100, ..AppendOptions::default() };
    let appended = engine.append(&Principal::local(), &name, batch("{\"a\":1}"), options).await.unwrap();
    assert_eq!((appended.accepted, appended.quarantined), (1, 100), "more than a record of the log has");
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM quarantine").await, "{\"n\":169}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_is_not_dropped_while_a_stream_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    let error = try_sql(&engine, "DROP STREAM quarantine").await.unwrap_err();
    assert_eq!(error.to_string(), "stream `quarantine` receives the bad events of stream `t`");
    assert_eq!(append(&engine, "t", "{\"b\":1}", None).await.quarantined, 1);
    sql(&engine, "DROP STREAM t").await;
    sql(&engine, "DROP STREAM quarantine").await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL) WITH (on_bad_event = quarantine)").await;
    assert_eq!(append(&engine, "t", "{\"b\":1}", None).await.quarantined, 1, "it is made again");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_may_be_as_small_as_its_setting_allows() {
    let dir = tempfile::tempdir().unwrap();
    let mut history = quick(dir.path());
    history.log_bytes_max = 128 << 20;
    let engine = open_when_free(EngineConfig::default(), history, Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    assert_eq!(append(&engine, "t", "{\"a\":1}", None).await.accepted, 1);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_is_altered_and_dropped_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a INTEGER)").await;
    append(&engine, "t", "{\"a\":1}", None).await;
    sql(&engine, "ALTER STREAM t ADD COLUMN b STRING, ALTER COLUMN a TYPE LONG").await;
    append(&engine, "t", "{\"a\":5000000000,\"b\":\"x\"}", None).await;
    let select = "SELECT a, b FROM t ORDER BY _offset";
    let rows = "{\"a\":1,\"b\":null}\n{\"a\":5000000000,\"b\":\"x\"}\n";
    assert_eq!(sql(&engine, select).await, rows);
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, select).await, rows);
    sql(&engine, "DROP STREAM t").await;
    let options = RunOptions::default();
    assert!(engine.sql().unwrap().run("SELECT * FROM t", options.clone()).await.is_err());
    sql(&engine, "CREATE STREAM t (z STRING)").await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM t").await, "{\"n\":0}\n");
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    append(&engine, "t", "{\"z\":\"new\"}", None).await;
    assert_eq!(sql(&engine, "SELECT z FROM t").await, "{\"z\":\"new\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn alteration_that_the_table_does_not_take_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG, b TIMESTAMP)").await;
    append(&engine, "t", "{\"a\":1}", None).await;
    let declared = sql(&engine, "SHOW CREATE STREAM t").await;
    let error =
        try_sql(&engine, "ALTER STREAM t ADD COLUMN c LONG, SET (partition_by = day)").await.unwrap_err();
    assert!(error.to_string().contains("how it is partitioned cannot be changed"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = try_sql(&engine, "ALTER STREAM t SET (store = false)").await.unwrap_err();
    assert_eq!(error.to_string(), "stream `t` is stored, and cannot become live-only");
    assert_eq!(sql(&engine, "SHOW CREATE STREAM t").await, declared);
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, "SHOW CREATE STREAM t").await, declared);
    append(&engine, "t", "{\"a\":2,\"c\":1}", None).await;
    assert_eq!(sql(&engine, "SELECT sum(a) AS s FROM t").await, "{\"s\":3}\n");
    sql(&engine, "ALTER STREAM t ADD COLUMN c STRING").await;
    append(&engine, "t", "{\"a\":3,\"c\":\"x\"}", None).await;
    assert_eq!(sql(&engine, "SELECT c FROM t WHERE a = 3").await, "{\"c\":\"x\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_was_live_is_stored_from_its_alteration_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t").await;
    assert_eq!(append(&engine, "t", "{\"a\":1}", None).await.ticket, None);
    sql(&engine, "ALTER STREAM t SET (store = true)").await;
    assert!(append(&engine, "t", "{\"a\":2}", None).await.ticket.is_some());
    let select = "SELECT a, _offset FROM t";
    until_said(&engine, select, "{\"a\":2,\"_offset\":1}\n").await;
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, select).await, "{\"a\":2,\"_offset\":1}\n");
}

/// Repeats a statement until this is the answer.
pub(crate) async fn until_said(engine: &Engine, text: &str, expected: &str) {
    let asked = tokio::time::timeout(Duration::from_secs(60), async {
        while try_sql(engine, text).await.ok().as_deref() != Some(expected) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    if asked.await.is_err() {
        panic!("{text}: {:?}, not {expected}", try_sql(engine, text).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_into_streams_and_tables_by_statement() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG, b STRING)").await;
    sql(&engine, "INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')").await;
    sql(&engine, "CREATE STREAM narrow (a LONG CHECK (a < 2)) WITH (on_bad_event = quarantine)").await;
    let refused = try_sql(&engine, "INSERT INTO narrow SELECT a FROM t").await.unwrap_err();
    assert!(refused.to_string().starts_with("column `a`: "), "{refused}");
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM narrow").await, "{\"n\":0}\n", "all or none");
    sql(&engine, "CREATE TABLE u AS SELECT b, sum(a) AS s FROM t GROUP BY b").await;
    sql(&engine, "INSERT INTO u VALUES ('z', 3)").await;
    let select = "SELECT b, s FROM u ORDER BY b";
    assert_eq!(
        sql(&engine, select).await,
        "{\"b\":\"x\",\"s\":1}\n{\"b\":\"y\",\"s\":2}\n{\"b\":\"z\",\"s\":3}\n"
    );
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM u").await, "{\"n\":3}\n");
    sql(&engine, "DROP TABLE u").await;
    assert!(engine.sql().unwrap().run("SELECT * FROM u", RunOptions::default()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn inserted_columns_lie_where_they_are_declared() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(
        &engine,
        "CREATE STREAM flights (carrier STRING, origin STRING PATH 'route.from', dest STRING PATH 'route.to', \
         gate LONG PATH 'route.gates.first' DEFAULT 7, odd STRING PATH 'route[''a b'']', doc JSON)",
    )
    .await;
    sql(
        &engine,
        "INSERT INTO flights (carrier, origin, dest, odd, doc) VALUES ('AA', 'JFK', 'LAX', 'x', '{\"k\":\n[1, \"v\"]}'); \
         INSERT INTO flights (dest, gate, doc) VALUES ('SFO', 3, 'no json')",
    )
    .await;
    let all = "SELECT carrier, origin, dest, gate, odd, doc FROM flights ORDER BY _offset";
    let rows = "{\"carrier\":\"AA\",\"origin\":\"JFK\",\"dest\":\"LAX\",\"gate\":7,\"odd\":\"x\",\"doc\":\"{\\\"k\\\": [1, \\\"v\\\"]}\"}\n\
                {\"carrier\":null,\"origin\":null,\"dest\":\"SFO\",\"gate\":3,\"odd\":null,\"doc\":\"\\\"no json\\\"\"}\n";
    assert_eq!(sql(&engine, all).await, rows);
    // The events have the objects, so a stream that finds its columns finds them.
    let event = sql(&engine, "SELECT _event ->> 'route' AS route FROM flights WHERE _offset = 0").await;
    assert!(event.contains("JFK") && event.contains("a b"), "{event}");
    // Selected rows can be inserted again, into the same stream and another.
    let columns = "carrier, origin, dest, gate, odd, doc";
    sql(&engine, &format!("INSERT INTO flights ({columns}) SELECT {columns} FROM flights")).await;
    let distinct = format!("SELECT count(*) AS n FROM (SELECT DISTINCT {columns} FROM flights)");
    assert_eq!(sql(&engine, &distinct).await, "{\"n\":2}\n");
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM flights").await, "{\"n\":4}\n");
    // An event that cannot be made is refused, and reported.
    sql(&engine, "CREATE STREAM lists (a LONG, b LONG PATH 'l[0]', c JSON PATH 'o', d LONG PATH 'o.x')")
        .await;
    for (text, expected) in [
        ("INSERT INTO lists (b) VALUES (1)", "column `b` is inside a list, which INSERT cannot create"),
        ("INSERT INTO lists (c, d) VALUES ('x', 1)", "columns `c` and `d` have the same path in the event"),
        ("INSERT INTO lists (d, c) VALUES (1, 'x')", "columns `d` and `c` have the same path in the event"),
    ] {
        let error = try_sql(&engine, text).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().is_some_and(|hint| hint.starts_with("Name ")), "{:?}", error.hint());
    }
    sql(&engine, "INSERT INTO lists (a, d) VALUES (1, 2)").await;
    assert_eq!(sql(&engine, "SELECT a, b, d FROM lists").await, "{\"a\":1,\"b\":null,\"d\":2}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_belongs_to_one_engine() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let second =
        Engine::open(EngineConfig::default(), HistoryConfig::at(dir.path()), Arc::new(SystemClock::new()))
            .await;
    let error = second.err().expect("it is in use");
    assert!(error.to_string().contains("is in use by another process"), "{error}");
    let unknown = StreamName::new("live").unwrap();
    assert_eq!(engine.ack(&unknown), None);
    let live = engine.append(&Principal::local(), &unknown, batch("{}"), AppendOptions::default()).await;
    assert_eq!(live.map(|appended| appended.ticket), Ok::<_, EngineError>(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_say_whether_something_is_there_or_depended_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM s (a LONG) WITH (store = true)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM STREAM(s) GROUP BY a").await;
    for (text, state) in [
        ("DROP STREAM s", "2BP01"),
        ("CREATE STREAM s (a LONG)", "42P07"),
        ("ALTER STREAM s SET (store = false)", "55000"),
        ("DROP STREAM v", "42P01"),
    ] {
        let error = try_sql(&engine, text).await.unwrap_err();
        assert_eq!(error.state(), state, "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_that_breaks_a_rule_of_the_stream_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG NOT NULL CHECK (a > 0), b LONG, c STRING, CHECK (a <> b))").await;
    let long = "ä".repeat(300);
    let told = format!("{{\"a\":0,\"c\":\"{}…", "ä".repeat(188));
    for (rows, state, message, row) in [
        ("(a, b) VALUES (0, 1)", "23514", "column `a`: `CHECK (a > 0)` failed", r#"{"a":0,"b":1}"#),
        (
            "(a, b) VALUES (NULL, 1)",
            "23502",
            "column `a`: expected LONG, found nothing",
            r#"{"a":null,"b":1}"#,
        ),
        ("(a, b) VALUES (1, 2), (2, 2)", "23514", "`CHECK (a <> b)` failed", r#"{"a":2,"b":2}"#),
        (&format!("(a, c) VALUES (0, '{long}')"), "23514", "column `a`: `CHECK (a > 0)` failed", &told),
    ] {
        let error = try_sql(&engine, &format!("INSERT INTO t {rows}")).await.unwrap_err();
        assert_eq!((error.state(), &*error.to_string()), (state, message));
        assert_eq!(error.hint(), Some(&*format!("The row is {row}")));
    }
    sql(&engine, "INSERT INTO t (a, b) VALUES (1, 2)").await;
    assert_eq!(sql(&engine, "SELECT a, b FROM t").await, "{\"a\":1,\"b\":2}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_disk_that_takes_nothing_is_told_so() {
    let (parts, clock) = (Parts::new(), Arc::new(TestClock::at(0)));
    let engine = parts.open(&clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    parts.log.fail_all(Some(std::io::ErrorKind::StorageFull));
    let (name, options) = (StreamName::new("s").unwrap(), AppendOptions::default());
    let taken = engine.append(&Principal::local(), &name, batch("{\"a\":1}"), options).await.unwrap();
    let ticket = taken.ticket.unwrap();
    let told = engine.synced(ticket).await.unwrap_err();
    assert!(matches!(told, EngineError::DiskFull), "{told}");
    parts.log.fail_all(None);
    engine.synced(ticket).await.unwrap();
    assert_eq!(sql(&engine, "SELECT a FROM s").await, "{\"a\":1}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn start_on_a_disk_that_is_too_small_says_which_bytes_the_log_needs_and_what_to_lower() {
    let (parts, clock) = (Parts::new(), Arc::new(TestClock::at(0)));
    parts.log.set_bytes_max(300 << 20);
    let open = async |free_bytes_min| {
        parts.open_with(&clock, |history| history.log_free_bytes_min = free_bytes_min).await
    };
    let engine = open(512 << 20).await;
    let error = engine.not_ready().unwrap();
    let EngineError::DiskTooSmall { dir, needed_bytes, has_bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((&**dir, needed_bytes / 1_000_000, *has_bytes), ("unused/log", 671, 300 << 20));
    let told = error.to_string();
    for part in [
        "the log in `unused/log` needs 67",
        "data.log_free_bytes_min (536870912)",
        "twice data.log_segment_bytes (67108864)",
        "and there are 314572800",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let hint = error.hint().unwrap();
    let lacking = needed_bytes - has_bytes;
    assert!(
        hint.starts_with(&format!("Free {lacking} bytes of that disk, or lower data.log_free_bytes_min"))
    );
    engine.shutdown(Duration::ZERO).await;
    // As it says.
    let engine = open((512 << 20) - lacking).await;
    assert_eq!(engine.not_ready(), None);
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    append(&engine, "s", "{\"a\":1}", None).await;
    assert_eq!(engine.not_ready(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_that_stands_still_is_not_ready_and_refuses_events_at_once() {
    let (parts, clock) = (Parts::new(), Arc::new(TestClock::at(0)));
    let engine = parts.open(&clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    assert_eq!(engine.not_ready(), None);
    parts.log.block_syncs(true);
    let (name, options) = (StreamName::new("s").unwrap(), AppendOptions::default());
    let send = async || engine.append(&Principal::local(), &name, batch("{\"a\":1}"), options.clone()).await;
    let ticket = send().await.unwrap().ticket.unwrap();
    // The first look finds that something waits; that it has waited for long, a later one.
    assert_eq!(engine.not_ready(), None);
    clock.advance_ms(9_999);
    assert_eq!(engine.not_ready(), None);
    clock.advance_ms(1);
    assert_eq!(engine.not_ready(), Some(EngineError::DiskStalled { seconds: 10 }));
    assert!(matches!(send().await, Err(EngineError::DiskStalled { .. })));
    parts.log.block_syncs(false);
    engine.synced(ticket).await.unwrap();
    assert_eq!(engine.not_ready(), None);
    send().await.unwrap();
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM s").await, "{\"n\":2}\n");
}

#[tokio::test]
async fn events_that_are_neither_on_disk_nor_refused_hold_up_nobody_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let mut parts = Parts::new();
    parts.views = Some(dir.path().into());
    let clock = Arc::new(TestClock::at(0));
    let engine = parts.open(&clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM STREAM(s) GROUP BY a").await;
    let (name, local) = (StreamName::new("s").unwrap(), Principal::local());
    let append = async |text: &str, ack| {
        let options = AppendOptions { ack, ..AppendOptions::default() };
        engine.append(&local, &name, batch(text), options).await.unwrap().ticket.unwrap()
    };
    engine.synced(append("{\"a\":1}", Ack::Disk).await).await.unwrap();
    parts.log.fail_all(Some(std::io::ErrorKind::StorageFull));
    let in_doubt = append("{\"a\":2}", Ack::Disk).await;
    assert_eq!(sql(&engine, "SELECT a FROM s").await, "{\"a\":1}\n");
    assert_eq!(sql(&engine, "SELECT a FROM v").await, "{\"a\":1}\n");
    parts.log.fail_all(None);
    engine.synced(in_doubt).await.unwrap();
    assert_eq!(sql(&engine, "SELECT a FROM s").await, "{\"a\":1}\n{\"a\":2}\n");
    append("{\"a\":3}", Ack::Memory).await;
    assert_eq!(sql(&engine, "SELECT a FROM s").await, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
}

#[tokio::test]
async fn a_shutdown_that_was_given_up_is_gone_on_with_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    append(&engine, "s", "{\"a\":1}", None).await;
    assert!(engine.shutdown(Duration::from_secs(60)).now_or_never().is_none());
    stop(engine, Duration::from_secs(60)).await;
    // Threads that went on would hold the directory.
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, "SELECT a FROM s").await, "{\"a\":1}\n");
    stop(engine, Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_leaves_neither_a_task_nor_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let directories = || std::fs::read_dir(dir.path().join("tables")).map_or(0, Iterator::count);
    let (tasks_before, directories_before) = (tasks(), directories());
    let create = async |number: usize| {
        let day = if number.is_multiple_of(2) { ", partition_by = day" } else { "" };
        sql(&engine, &format!("CREATE STREAM t{number} (a LONG) WITH (store = true{day})")).await;
    };
    for number in 0..20 {
        create(number).await;
        if number > 9 {
            append(&engine, &format!("t{number}"), "{\"a\":1}", None).await;
            assert_eq!(sql(&engine, &format!("SELECT a FROM t{number}")).await, "{\"a\":1}\n");
        }
    }
    assert!(tasks() >= tasks_before + 20 && directories() >= directories_before + 20);
    for number in 0..20 {
        sql(&engine, &format!("DROP STREAM t{number}")).await;
    }
    assert_eq!(directories(), directories_before);
    let ended = async {
        while tasks() > tasks_before + 5 {
            look_again().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("their tasks end");
    // The name is free, and its directory is made again.
    create(12).await;
    append(&engine, "t12", "{\"a\":2}", None).await;
    assert_eq!(sql(&engine, "SELECT a FROM t12").await, "{\"a\":2}\n");
    stop(engine, Duration::from_secs(5)).await;
}
