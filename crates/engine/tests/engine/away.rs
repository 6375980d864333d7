//! Tests an unreachable store, at the start or later, while streams take events and are altered and dropped, until the log
//! is full. No acknowledged event is lost, nothing is half done, and all work resumes by itself when the store is back.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{sync::Arc, time::Duration};

use swiftwater_engine::{AppendOptions, Engine, EngineConfig, Principal};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_sql::ErrorKind;
use swiftwater_testkit::TestClock;

use crate::{
    crashes::{Kind, Machine, look_again, send},
    history::{append, batch, open_when_free, quick, sql, stop as stop_in, try_sql, until_said},
    jobs::START,
};

fn still() -> Arc<TestClock> {
    Arc::new(TestClock::at(START))
}

async fn open(machine: &Machine) -> Engine {
    machine.open(&still()).await.unwrap_or_else(|error| panic!("it opens: {error}"))
}

async fn stop(engine: Engine) {
    stop_in(engine, Duration::ZERO).await;
}

/// Sends `{"n":…}` of these numbers.
async fn numbers(engine: &Engine, stream: &str, numbers: std::ops::Range<u64>) {
    let events: Vec<String> = numbers.clone().map(|number| format!("{{\"n\":{number}}}")).collect();
    let appended = send(engine, stream, (&events, &[]), numbers.start).await.unwrap();
    assert_eq!((appended.position.offset.0, appended.accepted), (numbers.end, numbers.end - numbers.start));
}

const COUNTED: &str = "SELECT count(*) AS n, count(DISTINCT n) AS d, max(_offset) AS o FROM t";

fn counted(count: u64) -> String {
    format!("{{\"n\":{count},\"d\":{count},\"o\":{}}}\n", count - 1)
}

/// Waits until all that was taken is committed.
async fn until_committed(engine: &Engine, stream: &str, count: u64) {
    let start = format!("{{\"stream\":\"{stream}\",");
    let end = format!("\"events\":{count},\"in_table\":{count},\"committed\":{count}}}");
    loop {
        let streams = sql(engine, "SHOW STREAMS").await;
        if streams.lines().any(|line| line.starts_with(&start) && line.ends_with(&end)) {
            return;
        }
        look_again().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_starts_without_its_store_takes_events_and_commits_them_later() {
    for kind in [Kind::Disk, Kind::Remote] {
        let machine = Machine::new(kind);
        let engine = open(&machine).await;
        sql(&engine, "CREATE STREAM t (n LONG); CREATE STREAM other (n LONG); CREATE TABLE p (a BIGINT)")
            .await;
        sql(&engine, "INSERT INTO p VALUES (7)").await;
        numbers(&engine, "t", 0..10).await;
        until_committed(&engine, "t", 10).await;
        numbers(&engine, "t", 10..15).await;
        stop(engine).await;

        machine.store.set_away(true);
        let engine = open(&machine).await;
        numbers(&engine, "t", 15..25).await;
        numbers(&engine, "other", 0..3).await;
        let shown = sql(&engine, "SHOW STREAMS").await;
        assert!(shown.contains("\"events\":25,\"in_table\":null,\"committed\":null"), "{shown}");
        for (text, says) in [
            (COUNTED, "the table of stream `t` cannot be read yet"),
            ("SELECT * FROM p", "table `p` cannot be looked up"),
            ("CREATE STREAM fresh (n LONG)", "table `fresh` cannot be looked up"),
            ("CREATE TABLE fresh (a BIGINT)", "table `fresh` cannot be looked up"),
            ("ALTER STREAM t ADD COLUMN c LONG", "the table of stream `t` is not open yet"),
        ] {
            let error = try_sql(&engine, text).await.unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
        }
        // It may start anew, and crash, as often as it likes.
        stop(engine).await;
        let engine = open(&machine).await;
        numbers(&engine, "t", 25..30).await;

        machine.store.set_away(false);
        until_said(&engine, COUNTED, &counted(30)).await;
        until_said(&engine, "SELECT count(*) AS n FROM other", "{\"n\":3}\n").await;
        until_said(&engine, "SELECT a FROM p", "{\"a\":7}\n").await;
        until_committed(&engine, "t", 30).await;
        sql(&engine, "ALTER STREAM t ADD COLUMN c LONG; CREATE STREAM fresh (n LONG)").await;
        stop(engine).await;
        let engine = open(&machine).await;
        numbers(&engine, "t", 30..31).await;
        assert_eq!(sql(&engine, COUNTED).await, counted(31));
        stop(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_of_a_disk_that_is_not_mounted_is_no_empty_store() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, disk) = (dir.path().join("tables"), dir.path().join("disk"));
    let clock = || Arc::new(SystemClock::new());
    let open = async || open_when_free(EngineConfig::default(), quick(dir.path()), clock()).await;
    let engine = open().await;
    sql(&engine, "CREATE STREAM t (n LONG); CREATE TABLE p (a BIGINT); INSERT INTO p VALUES (7)").await;
    append(&engine, "t", "{\"n\":0}", None).await;
    stop_in(engine, Duration::from_secs(5)).await;

    std::fs::rename(&tables, &disk).unwrap();
    for has_another in [false, true] {
        if has_another {
            std::fs::write(tables.join("_swiftwater_store"), "another\n").unwrap();
        }
        let engine = open().await;
        append(&engine, "t", &format!("{{\"n\":{}}}", 1 + i32::from(has_another)), None).await;
        for text in
            ["SELECT * FROM t", "SELECT * FROM p", "CREATE TABLE q (a BIGINT)", "CREATE STREAM u (n LONG)"]
        {
            let error = try_sql(&engine, text).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}: {error}");
        }
        stop(engine).await;
        let there: Vec<_> =
            std::fs::read_dir(&tables).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(there.len(), usize::from(has_another), "nothing was written: {there:?}");
    }
    let engine = open().await;
    std::fs::remove_dir_all(&tables).unwrap();
    std::fs::rename(&disk, &tables).unwrap();
    until_said(&engine, COUNTED, &counted(3)).await;
    until_said(&engine, "SELECT a FROM p", "{\"a\":7}\n").await;
    stop_in(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_that_is_unmounted_while_events_come_loses_none() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, disk) = (dir.path().join("tables"), dir.path().join("disk"));
    let clock = || Arc::new(SystemClock::new());
    let open = async || open_when_free(EngineConfig::default(), quick(dir.path()), clock()).await;
    let mut sent = 0;
    // In the life in which the store got its id, and in others.
    for comes_back in [true, false, true] {
        let engine = open().await;
        sql(&engine, "CREATE STREAM IF NOT EXISTS t (n LONG)").await;
        numbers(&engine, "t", sent..sent + 10).await;
        until_committed(&engine, "t", sent + 10).await;
        std::fs::rename(&tables, &disk).unwrap();
        std::fs::create_dir(&tables).unwrap();
        numbers(&engine, "t", sent + 10..sent + 20).await;
        sent += 20;
        let error = try_sql(&engine, "CREATE STREAM u (n LONG)").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let mount = || {
            assert_eq!(std::fs::read_dir(&tables).unwrap().count(), 0, "nothing is written below the mount");
            std::fs::remove_dir(&tables).unwrap();
            std::fs::rename(&disk, &tables).unwrap();
        };
        let engine = if comes_back {
            mount();
            engine
        } else {
            // It tries to commit what waits before it ends.
            stop_in(engine, Duration::from_millis(300)).await;
            mount();
            open().await
        };
        until_committed(&engine, "t", sent).await;
        assert_eq!(sql(&engine, COUNTED).await, counted(sent));
        stop_in(engine, Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_while_the_store_is_away_never_comes_back() {
    let machine = Machine::new(Kind::Remote);
    let engine = open(&machine).await;
    sql(&engine, "CREATE STREAM t (n LONG); CREATE STREAM u (n LONG)").await;
    numbers(&engine, "t", 0..10).await;
    until_committed(&engine, "t", 10).await;
    machine.store.set_away(true);
    assert_eq!(sql(&engine, "DROP STREAM t").await, "{\"changed\":true}\n");
    let error = try_sql(&engine, "CREATE STREAM t (z STRING)").await.unwrap_err();
    assert!(
        error.to_string().contains(
            "files of a dropped or incompletely created stream `t` cannot be deleted from the store yet"
        ),
        "{error}"
    );
    // A crash before it is deleted: it is no table of anybody's.
    let machine = machine.after_power_loss(1).await;
    stop(engine).await;
    machine.store.set_away(true);
    let engine = open(&machine).await;
    assert!(try_sql(&engine, "SELECT * FROM t").await.is_err());
    let error = try_sql(&engine, "SHOW TABLES").await.unwrap_err().to_string();
    assert!(error.contains("the tables cannot be listed"), "{error}");
    machine.store.set_away(false);
    while try_sql(&engine, "CREATE STREAM t (n LONG, z STRING)").await.is_err() {
        look_again().await;
    }
    assert_eq!(sql(&engine, "SHOW TABLES").await, sql_tables(&["t", "u"]));
    numbers(&engine, "t", 0..2).await;
    assert_eq!(sql(&engine, COUNTED).await, counted(2));
    stop(engine).await;
    let engine = open(&machine).await;
    assert_eq!(sql(&engine, COUNTED).await, counted(2), "what is owed was paid");
    stop(engine).await;
}

/// The answer of SHOW TABLES for streams of these names.
fn sql_tables(streams: &[&str]) -> String {
    streams.iter().map(|name| format!("{{\"table_name\":\"{name}\",\"table_type\":\"STREAM\"}}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_whose_table_cannot_be_altered_stays_as_it_was() {
    let machine = Machine::new(Kind::Remote);
    let engine = open(&machine).await;
    sql(&engine, "CREATE STREAM t (n INTEGER)").await;
    numbers(&engine, "t", 0..10).await;
    until_committed(&engine, "t", 10).await;
    let declared = sql(&engine, "SHOW CREATE STREAM t").await;
    machine.store.set_away(true);
    let alter = "ALTER STREAM t ALTER COLUMN n TYPE LONG, ADD COLUMN c STRING";
    let error = try_sql(&engine, alter).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(sql(&engine, "SHOW CREATE STREAM t").await, declared);
    let refused = send(&engine, "t", (&["{\"n\":5000000000}".to_owned()], &[]), 100).await.unwrap();
    assert_eq!((refused.accepted, refused.refusals.len()), (0, 1), "it is an INTEGER still");
    numbers(&engine, "t", 10..12).await;
    machine.store.set_away(false);
    until_committed(&engine, "t", 12).await;
    stop(engine).await;
    let engine = open(&machine).await;
    assert_eq!(sql(&engine, "SHOW CREATE STREAM t").await, declared);
    sql(&engine, alter).await;
    let wide = send(&engine, "t", (&["{\"n\":5000000000,\"c\":\"x\"}".to_owned()], &[]), 101).await.unwrap();
    assert_eq!(wide.accepted, 1);
    assert_eq!(
        sql(&engine, "SELECT max(n) AS n, max(c) AS c FROM t").await,
        "{\"n\":5000000000,\"c\":\"x\"}\n"
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_that_got_full_gives_room_again_when_the_store_is_back() {
    let machine = Machine::new(Kind::Remote);
    let settings = || {
        let (mut history, mut options) = Machine::settings();
        (history.log_bytes_max, history.feed_bytes_max) = (80 << 10, 4 << 10);
        (options.commit_bytes, options.tail_bytes_max) = (1 << 10, 1 << 10);
        (history, options)
    };
    let mut engine = machine.open_with(&still(), settings()).await.unwrap();
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    machine.store.set_away(true);
    // Every event brings a column, which is to be written down before its table has it.
    let event = |number: u64| format!("{{\"n\":{number},\"c{number}\":1,\"pad\":\"{}\"}}", "x".repeat(900));
    let mut count = 0;
    let error = loop {
        match send(&engine, "t", (&[event(count)], &[]), count).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(error.contains("the log has reached its limit") && count > 20, "{count}: {error}");
    for round in 0..2 {
        if round == 1 {
            // Full as it is, the server may also start.
            stop(engine).await;
            engine = machine.open_with(&still(), settings()).await.unwrap();
            assert!(send(&engine, "t", (&[event(count)], &[]), count).await.is_err());
        }
    }
    machine.store.set_away(false);
    while send(&engine, "t", (&[event(count)], &[]), count).await.is_err() {
        look_again().await;
    }
    count += 1;
    until_committed(&engine, "t", count).await;
    let found = format!("SELECT count(c0) AS a, count(c{}) AS b FROM t", count - 1);
    for _ in 0..2 {
        assert_eq!(sql(&engine, COUNTED).await, counted(count));
        assert_eq!(sql(&engine, &found).await, "{\"a\":1,\"b\":1}\n");
        stop(engine).await;
        engine = machine.open_with(&still(), settings()).await.unwrap();
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statement_is_carried_out_to_its_end_though_nobody_waits_for_it() {
    let machine = Machine::new(Kind::Remote);
    let engine = open(&machine).await;
    sql(&engine, "CREATE STREAM before (n LONG)").await;
    machine.log.block_syncs(true);
    let asker = tokio::spawn({
        let engine = engine.clone();
        async move { drop(try_sql(&engine, "CREATE STREAM t (n LONG)").await) }
    });
    // It is written into the log, and not synced.
    while !sql(&engine, "SHOW STREAMS").await.contains("{\"stream\":\"t\",") {
        look_again().await;
    }
    asker.abort();
    let _ = asker.await;
    machine.log.block_syncs(false);
    until_said(&engine, "SELECT count(*) AS n FROM t", "{\"n\":0}\n").await;
    numbers(&engine, "t", 0..5).await;
    assert_eq!(sql(&engine, COUNTED).await, counted(5));
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_how_long_its_events_have_waited_for_a_table_that_does_not_commit() {
    let (machine, clock) = (Machine::new(Kind::Remote), still());
    let engine = machine.open(&clock).await.unwrap();
    sql(&engine, "CREATE STREAM t (n LONG)").await;
    let lag = || {
        let streams = engine.streams(&Principal::local());
        streams.iter().find(|stream| stream.name.as_str() == "t").unwrap().stored_lag_ms
    };
    assert_eq!(lag(), 0, "it has no events");
    numbers(&engine, "t", 0..10).await;
    until_committed(&engine, "t", 10).await;
    assert_eq!(lag(), 0, "all are committed");
    machine.store.set_away(true);
    numbers(&engine, "t", 10..20).await;
    clock.advance_ms(30_000);
    numbers(&engine, "t", 20..30).await;
    clock.advance_ms(30_000);
    assert_eq!(lag(), 60_000, "the oldest of them counts");
    machine.store.set_away(false);
    until_committed(&engine, "t", 30).await;
    assert_eq!(lag(), 0, "all are committed again");
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_wait_for_a_table_that_lags_and_not_for_one_that_does_not_go_on() {
    let (machine, clock) = (Machine::new(Kind::Remote), still());
    let (mut settings, options) = Machine::settings();
    settings.feed_bytes_max = 4 << 10;
    let engine = machine.open_with(&clock, (settings, options)).await.unwrap();
    sql(&engine, "CREATE STREAM t (n LONG)").await;
    let held_back = || {
        let metrics = engine.history_metrics().unwrap();
        metrics.tables.iter().map(|table| table.held_back).sum::<u64>()
    };
    let send = |numbers: std::ops::Range<u64>| {
        let events: Vec<String> = numbers.map(|number| format!("{{\"n\":{number}}}")).collect();
        let engine = engine.clone();
        async move {
            let name = StreamName::new("t").unwrap();
            let options = AppendOptions::default();
            engine.append(&Principal::local(), &name, batch(&events.join("\n")), options).await.unwrap()
        }
    };
    send(0..10).await;
    until_committed(&engine, "t", 10).await;
    let mut next = 10;
    for goes_on in [true, false] {
        // Senders have not waited for a while.
        clock.advance_ms(2_000);
        // Events that are not synced do not reach the table, and the second batch does not fit into its feed.
        machine.log.block_syncs(true);
        for _ in 0..2 {
            send(next..next + 300).await;
            next += 300;
        }
        assert_eq!(held_back(), u64::from(!goes_on));
        clock.advance_ms(6_000);
        let waiting = tokio::spawn(send(next..next + 1));
        next += 1;
        while held_back() == u64::from(!goes_on) {
            look_again().await;
        }
        assert!(!waiting.is_finished());
        if goes_on {
            machine.log.block_syncs(false);
            waiting.await.unwrap();
        } else {
            clock.advance_ms(10_000);
            waiting.await.unwrap();
            machine.log.block_syncs(false);
        }
        until_committed(&engine, "t", next).await;
    }
    assert_eq!(sql(&engine, COUNTED).await, counted(next));
    stop(engine).await;
}
