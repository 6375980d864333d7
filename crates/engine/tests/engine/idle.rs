//! Tests idle streams, whose time follows the clock: the windows that this closes are the same in every replay, and nothing
//! else closes.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use swiftwater_engine::{
    EndReason, Engine, EngineConfig, HistoryError, Principal, QueryForm, SubmitOptions, Subscription,
};
use swiftwater_event::Clock;
use swiftwater_testkit::TestClock;

use crate::{
    crashes::{Kind, Machine, look_again},
    history::{append, open_when_free, quick, sql, stop, until_said},
};

const START: i64 = 1_700_000_000_000;

/// The events' own time is that of 1970.
const STREAM: &str = "CREATE STREAM s (k LONG, ts LONG, \
     WATERMARK FOR ts AS ts - INTERVAL '1 second' IDLE AFTER INTERVAL '5 seconds')";

const VIEW: &str = "AS SELECT window_start AS w, COUNT(*) AS n FROM STREAM(s) GROUP BY window_start \
     WINDOWING TUMBLING(10000, EVENT)";

async fn open(dir: &Path, clock: &Arc<TestClock>) -> Engine {
    let config = EngineConfig { shards: 2, tick_ms: 1, ..EngineConfig::default() };
    let mut history = quick(dir);
    history.views_commit_interval_ms = 5;
    open_when_free(config, history, Arc::clone(clock) as Arc<dyn Clock>).await
}

async fn send(engine: &Engine, stream: &str, events: &[(i64, i64)]) {
    let lines: Vec<String> = events.iter().map(|(k, ts)| format!("{{\"k\":{k},\"ts\":{ts}}}")).collect();
    append(engine, stream, &lines.join("\n"), None).await;
}

async fn shown(engine: &Engine, text: &str) -> Value {
    serde_json::from_str(sql(engine, text).await.lines().next().unwrap()).unwrap()
}

fn ask(engine: &Engine, text: &str) -> Subscription {
    let options = SubmitOptions { form: QueryForm::Bql, ..SubmitOptions::default() };
    engine.submit(&Principal::local(), text, options).unwrap()
}

/// The records of the next emit.
async fn next(query: &mut Subscription) -> String {
    let emit = tokio::time::timeout(Duration::from_secs(60), query.next()).await.expect("something closes");
    String::from_utf8(emit.expect("it goes on").records.text.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_a_view_closes_without_an_event_and_stays_closed_in_every_replay() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let mut engine = open(dir.path(), &clock).await;
    for text in [
        STREAM.to_owned(),
        "CREATE STREAM still (k LONG, ts LONG, WATERMARK FOR ts AS ts - INTERVAL '1 second')".to_owned(),
        format!("CREATE MATERIALIZED VIEW v {VIEW}"),
        format!("CREATE MATERIALIZED VIEW q {}", VIEW.replace("(s)", "(still)")),
        "CREATE TABLE closed AS SELECT * FROM v LIMIT 0".to_owned(),
        "CREATE TABLE never AS SELECT * FROM q LIMIT 0".to_owned(),
        "CREATE SINK out FROM v INTO TABLE closed".to_owned(),
        "CREATE SINK none FROM q INTO TABLE never".to_owned(),
    ] {
        sql(&engine, &text).await;
    }
    let events = [(1, 12_000), (2, 15_500), (3, 14_000)];
    send(&engine, "s", &events).await;
    send(&engine, "still", &events).await;
    // The window [10 s, 20 s) ends at 20 s; the event that moved the watermark last says 15.5 s, less a second.
    clock.advance_ms(5_499);
    until_said(&engine, "SELECT n FROM v", "{\"n\":3}\n").await;
    let late = |engine: &Engine, view: &str| engine.view(&Principal::local(), view).unwrap().late;
    assert_eq!(late(&engine, "v"), 0);
    assert_eq!(sql(&engine, "SELECT * FROM closed").await, "");
    clock.advance_ms(1);
    let closed = "{\"w\":10000,\"n\":3}\n";
    until_said(&engine, "SELECT w, n FROM closed", closed).await;
    // It is no event: nothing has an offset of it.
    let counted = "SELECT count(*) AS n, max(_offset) AS o FROM s";
    assert_eq!(sql(&engine, counted).await, "{\"n\":3,\"o\":2}\n");
    // The first is late now, the second is of the next window.
    send(&engine, "s", &[(4, 19_999), (5, 20_000)]).await;
    let rows = "{\"w\":10000,\"n\":3}\n{\"w\":20000,\"n\":1}\n";
    until_said(&engine, "SELECT w, n FROM v ORDER BY w", rows).await;
    assert_eq!(late(&engine, "v"), 1);
    stop(engine, Duration::from_secs(5)).await;
    engine = open(dir.path(), &clock).await;
    send(&engine, "s", &[(6, 19_998)]).await;
    until_said(&engine, "SELECT count(*) AS n FROM s", "{\"n\":6}\n").await;
    assert_eq!(sql(&engine, "SELECT w, n FROM v ORDER BY w").await, rows);
    assert_eq!(late(&engine, "v"), 1, "since the start");
    // Made anew of the table, which knows nothing but arrivals.
    sql(&engine, &format!("CREATE MATERIALIZED VIEW anew WITH (backfill = true) {VIEW}")).await;
    until_said(&engine, "SELECT w, n FROM anew ORDER BY w", rows).await;
    assert_eq!(late(&engine, "anew"), 2);
    // Each window comes once, and that of a stream without IDLE AFTER not at all.
    clock.advance_ms(86_400_000);
    let all = "{\"w\":10000,\"n\":3}\n{\"w\":20000,\"n\":1}\n";
    until_said(&engine, "SELECT w, n FROM closed ORDER BY w", all).await;
    assert_eq!(sql(&engine, "SELECT * FROM never").await, "");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_a_sink_was_given_stays_closed_after_a_crash() {
    for seed in 0..3 {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
        let mut machine = Machine::new(Kind::Disk);
        machine.views = Some(dir.path().join("views"));
        let config = || EngineConfig { shards: 1, tick_ms: 1, ..EngineConfig::default() };
        let engine = machine.open_as(&clock, config()).await.unwrap();
        for text in [
            STREAM.to_owned(),
            format!("CREATE MATERIALIZED VIEW v {VIEW}"),
            "CREATE TABLE closed AS SELECT * FROM v LIMIT 0".to_owned(),
            "CREATE SINK out FROM v INTO TABLE closed".to_owned(),
        ] {
            sql(&engine, &text).await;
        }
        send(&engine, "s", &[(1, 12_000)]).await;
        clock.advance_ms(9_000);
        let closed = "{\"w\":10000,\"n\":1}\n";
        until_said(&engine, "SELECT w, n FROM closed", closed).await;
        machine.cut();
        engine.shutdown(Duration::ZERO).await;
        drop(engine);
        machine = machine.after_power_loss(seed).await;
        // The machine's clock is behind: what arrives now does not arrive before the window closed.
        clock.set(START + 6_000);
        let engine = loop {
            match machine.open_as(&clock, config()).await {
                Ok(engine) => break engine,
                // The earlier engine releases the views' files after its last commit.
                Err(HistoryError::View(_)) => look_again().await,
                Err(error) => panic!("{error}"),
            }
        };
        send(&engine, "s", &[(2, 13_000), (3, 21_500)]).await;
        let rows = "{\"w\":10000,\"n\":1}\n{\"w\":20000,\"n\":1}\n";
        until_said(&engine, "SELECT w, n FROM v ORDER BY w", rows).await;
        sql(&engine, &format!("CREATE MATERIALIZED VIEW anew WITH (backfill = true) {VIEW}")).await;
        until_said(&engine, "SELECT w, n FROM anew ORDER BY w", rows).await;
        assert_eq!(sql(&engine, "SELECT w, n FROM closed").await, closed);
        engine.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_leaves_a_window_open_until_it_can() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let mut machine = Machine::new(Kind::Disk);
    machine.views = Some(dir.path().join("views"));
    let config = EngineConfig { shards: 1, tick_ms: 1, ..EngineConfig::default() };
    let engine = machine.open_as(&clock, config).await.unwrap();
    sql(&engine, STREAM).await;
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v {VIEW}")).await;
    send(&engine, "s", &[(1, 12_000)]).await;
    until_said(&engine, "SELECT w, n FROM v", "{\"w\":10000,\"n\":1}\n").await;
    let watermark = || engine.view(&Principal::local(), "v").unwrap().watermark;
    let tried = machine.log.calls() + 3;
    machine.log.fail_all(Some(std::io::ErrorKind::StorageFull));
    clock.advance_ms(9_000);
    let has_tried = async {
        while machine.log.calls() < tried {
            look_again().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), has_tried).await.expect("it is tried again");
    assert_eq!(watermark(), Some(11_000));
    machine.log.fail_all(None);
    let closes = async {
        while watermark() != Some(20_000) {
            look_again().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closes).await.expect("it closes");
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_windows_sessions_and_patterns_close_without_an_event() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, STREAM).await;
    sql(&engine, &format!("{} WITH (store = false)", STREAM.replace("STREAM s", "STREAM live"))).await;
    for stream in ["s", "live"] {
        // Each query, the idle time in milliseconds after the event of 15.5 s, and the result.
        let cases = [
            ("SELECT COUNT(*) AS n FROM STREAM(s) WINDOWING TUMBLING(10000, EVENT)", 5_500, "{\"n\":2}\n"),
            (
                "SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING TUMBLING(20000, EVENT)",
                5_500,
                "{\"k\":1,\"n\":1}\n{\"k\":2,\"n\":1}\n",
            ),
            ("SELECT k FROM STREAM(s) WINDOWING TUMBLING(10000, EVENT)", 5_500, "{\"k\":1}\n{\"k\":2}\n"),
            (
                "SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING SESSION(9000, EVENT)",
                6_500,
                "{\"k\":1,\"n\":1}\n",
            ),
            (
                "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k ORDER BY EVENT MEASURES A.ts AS at \
                 PATTERN (A !B) WITHIN 12000 DEFINE B AS ts > 13000)",
                9_500,
                "{\"k\":1,\"at\":12000}\n",
            ),
        ];
        for (text, after, expected) in cases {
            let mut query = ask(&engine, &text.replace("(s)", &format!("({stream})")));
            send(&engine, stream, &[(1, 12_000), (2, 15_500)]).await;
            engine.drained().await;
            clock.advance_ms(after - 1);
            engine.tick();
            // Nothing yet: an event of that time is not late.
            assert!(query.try_next().is_none(), "{text}");
            clock.advance_ms(1);
            engine.tick();
            assert_eq!(next(&mut query).await, expected, "{text}");
            let id = query.query().id;
            let _ = engine.end_query(&Principal::local(), &id, EndReason::Killed);
        }
    }
    // A query that names its own time is not affected.
    let own = "SELECT COUNT(*) AS n FROM STREAM(s) WINDOWING TUMBLING(1000, EVENT(ts, 0))";
    let mut query = ask(&engine, own);
    send(&engine, "s", &[(1, 12_000)]).await;
    engine.drained().await;
    for _ in 0..3 {
        clock.advance_ms(3_600_000);
        engine.tick();
    }
    assert!(query.try_next().is_none());
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_after_idleness_is_late_whether_somebody_looked_or_not() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, STREAM).await;
    let text = "SELECT COUNT(*) AS n FROM STREAM(s) WINDOWING TUMBLING(10000, EVENT)";
    let mut query = ask(&engine, text);
    // The clock stands where it is until the next event is there: nobody sees the time between.
    for (ts, after) in [(12_000, 4_999), (13_000, 5_000), (13_000, 8_000), (19_000, 0), (29_000, 0)] {
        send(&engine, "s", &[(1, ts)]).await;
        engine.drained().await;
        clock.advance_ms(after);
    }
    // 13,000 + 5,000 is not yet past 20,000; with 8,000 more it is: the fourth is late.
    assert_eq!(next(&mut query).await, "{\"n\":3}\n");
    let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
    let mut last = None;
    while let Some(emit) = query.next().await {
        last = Some((String::from_utf8(emit.records.text.to_vec()).unwrap(), emit.meta.counts.late));
    }
    assert_eq!(last, Some(("{\"n\":1}\n".to_owned(), 1)));
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_lets_go_of_what_waits_for_a_stream_without_events() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let mut engine = open(dir.path(), &clock).await;
    for text in [
        STREAM,
        "CREATE STREAM busy (k LONG, ts LONG, WATERMARK FOR ts AS ts)",
        "CREATE STREAM pairs (a LONG, b LONG)",
        "CREATE JOIN j INTO pairs AS SELECT x.ts AS a, y.ts AS b FROM STREAM(s) x JOIN STREAM(busy) y \
         ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '2 s'",
    ] {
        sql(&engine, text).await;
    }
    send(&engine, "s", &[(1, 10_000)]).await;
    send(&engine, "busy", &[(1, 10_500)]).await;
    for second in 1..=20 {
        clock.advance_ms(1_000);
        send(&engine, "busy", &[(1, 10_500 + 1_000 * second)]).await;
    }
    let pairs = "{\"a\":10000,\"b\":10500}\n{\"a\":10000,\"b\":11500}\n";
    until_said(&engine, "SELECT a, b FROM pairs ORDER BY b", pairs).await;
    // The watermark of `s` is 10,000 + 20,000 - 1,000. The rest lies in buckets of 2 s, the first of which begins at 28,000.
    let kept = async |engine: &Engine, count: u64| {
        let kept = async {
            while shown(engine, "SHOW JOINS").await["kept_events"] != count {
                look_again().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), kept).await.expect("the rest is let go of");
    };
    kept(&engine, 3).await;
    stop(engine, Duration::from_secs(5)).await;
    engine = open(dir.path(), &clock).await;
    kept(&engine, 3).await;
    // The first is late, the second finds what was kept.
    send(&engine, "s", &[(1, 28_999), (1, 29_000)]).await;
    let pairs = format!("{pairs}{}", "{\"a\":29000,\"b\":29500}\n{\"a\":29000,\"b\":30500}\n");
    until_said(&engine, "SELECT a, b FROM pairs ORDER BY b", &pairs).await;
    assert_eq!(shown(&engine, "SHOW JOINS").await["late"], 1);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_declaration_says_it_and_reads_back() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let mut engine = open(dir.path(), &clock).await;
    sql(&engine, STREAM).await;
    for _ in 0..2 {
        let shown = sql(&engine, "SHOW CREATE STREAM s").await;
        let expected = "WATERMARK FOR ts AS ts - INTERVAL '1 second' MAX AHEAD INTERVAL '1 hour' IDLE AFTER INTERVAL '5 seconds'";
        assert!(shown.contains(expected), "{shown}");
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path(), &clock).await;
    }
    stop(engine, Duration::from_secs(5)).await;
}
