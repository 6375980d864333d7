//! Tests missing or damaged parts of the log: the server reports them. If a server is to continue without them, nothing else
//! is lost, and nothing waits for data that never comes.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{Engine, EngineConfig, HistoryConfig, HistoryError};
use swiftwater_event::SystemClock;
use swiftwater_log::{Compression, CompressionPolicy};

use crate::{
    crashes::look_again,
    history::{append, open_when_free, quick, sql, stop, until_said},
};

/// Enough for all tables to be committed.
const GRACE: Duration = Duration::from_secs(20);

fn config() -> EngineConfig {
    EngineConfig { shards: 1, ..EngineConfig::default() }
}

/// Settings that go on without what is lost, or do not.
fn settings(dir: &Path, skips: bool) -> HistoryConfig {
    let mut history = quick(dir);
    (history.log_segment_bytes, history.log_compression) =
        (1 << 20, CompressionPolicy::Always(Compression::None));
    history.log_skip_corrupt = skips;
    history
}

async fn open(history: HistoryConfig) -> Engine {
    open_when_free(config(), history, Arc::new(SystemClock::new())).await
}

/// The error for which a directory is not opened.
async fn refused(history: HistoryConfig) -> HistoryError {
    loop {
        match Engine::open(config(), history.clone(), Arc::new(SystemClock::new())).await {
            Ok(_) => panic!("it opens"),
            Err(HistoryError::Locked(_) | HistoryError::View(_)) => look_again().await,
            Err(error) => return error,
        }
    }
}

async fn numbers(engine: &Engine, numbers: std::ops::Range<u64>) {
    for number in numbers {
        append(engine, "z", &format!("{{\"a\":{number}}}"), None).await;
    }
}

async fn check_counted(engine: &Engine, count: u64) {
    let counted = sql(engine, "SELECT count(*) AS n, count(DISTINCT a) AS d, max(_offset) AS o FROM z").await;
    assert_eq!(counted, format!("{{\"n\":{count},\"d\":{count},\"o\":{}}}\n", count - 1));
}

/// Copies a directory with all below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if let Err(error) = fs::copy(entry.path(), &to) {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
    }
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.join("log")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "segment")).collect()
}

/// Changes a bit wherever a text occurs in the log; returns the number of places.
fn damage(dir: &Path, text: &[u8]) -> usize {
    let mut damaged = 0;
    for segment in segments(dir) {
        let mut bytes = fs::read(&segment).unwrap();
        while let Some(at) = bytes.windows(text.len()).position(|window| window == text) {
            bytes[at] ^= 1;
            damaged += 1;
        }
        fs::write(&segment, bytes).unwrap();
    }
    damaged
}

#[tokio::test(flavor = "multi_thread")]
async fn log_without_its_segments_is_refused_and_gone_on_behind_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(settings(dir.path(), false)).await;
    sql(&engine, "CREATE STREAM z (a LONG)").await;
    numbers(&engine, 0..50).await;
    stop(engine, GRACE).await;
    for segment in segments(dir.path()) {
        fs::remove_file(segment).unwrap();
    }
    for _ in 0..2 {
        let error = refused(settings(dir.path(), false)).await;
        let HistoryError::LogLost { dir: told, end, known } = &error else { panic!("{error}") };
        assert_eq!((told, *end), (&dir.path().join("log"), 0));
        assert!(*known > 0, "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--data.log-skip-corrupt yes")));
    }
    let engine = open(settings(dir.path(), true)).await;
    numbers(&engine, 50..60).await;
    check_counted(&engine, 60).await;
    stop(engine, Duration::ZERO).await;
    // Events acknowledged since are read again.
    let engine = open(settings(dir.path(), false)).await;
    check_counted(&engine, 60).await;
    numbers(&engine, 60..61).await;
    check_counted(&engine, 61).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn table_with_more_events_than_were_counted_is_refused_and_gone_on_behind_when_told_to() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open(settings(dir.path(), false)).await;
    sql(&engine, "CREATE STREAM z (a LONG)").await;
    numbers(&engine, 0..10).await;
    stop(engine, GRACE).await;
    for part in ["catalog", "log"] {
        copy(&dir.path().join(part), &kept.path().join(part));
    }
    let engine = open(settings(dir.path(), false)).await;
    numbers(&engine, 10..15).await;
    stop(engine, GRACE).await;
    for part in ["catalog", "log"] {
        fs::remove_dir_all(dir.path().join(part)).unwrap();
        copy(&kept.path().join(part), &dir.path().join(part));
    }
    for _ in 0..2 {
        let error = refused(settings(dir.path(), false)).await;
        let HistoryError::EventsLost { stream, counted, committed, .. } = &error else { panic!("{error}") };
        assert_eq!((&**stream, *counted, *committed), ("z", 10, 15));
    }
    let engine = open(settings(dir.path(), true)).await;
    check_counted(&engine, 15).await;
    numbers(&engine, 15..16).await;
    check_counted(&engine, 16).await;
    stop(engine, Duration::ZERO).await;
    let engine = open(settings(dir.path(), false)).await;
    check_counted(&engine, 16).await;
}

/// Streams, each with an event.
type Events<'a> = &'a [(&'a str, &'a str)];

/// Makes a directory in which only views and joins know of some events: `more` came after `events`, and were counted when a
/// statement had its answer.
async fn known_to_views_only(
    dir: &Path,
    statements: &[&str],
    (events, more): (Events<'_>, Events<'_>),
    (text, expected): (&str, &str),
) {
    let (kept, parts) = (tempfile::tempdir().unwrap(), ["catalog", "log", "tables"]);
    let engine = open(settings(dir, false)).await;
    for statement in statements {
        sql(&engine, statement).await;
    }
    for (stream, event) in events {
        append(&engine, stream, event, None).await;
    }
    stop(engine, GRACE).await;
    for part in parts {
        copy(&dir.join(part), &kept.path().join(part));
    }
    let engine = open(settings(dir, false)).await;
    for (stream, event) in more {
        append(&engine, stream, event, None).await;
    }
    until_said(&engine, text, expected).await;
    stop(engine, GRACE).await;
    for part in parts {
        fs::remove_dir_all(dir.join(part)).unwrap();
        copy(&kept.path().join(part), &dir.join(part));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_that_ends_before_what_a_join_has_read_is_refused_and_gone_on_behind_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let statements = [
        "CREATE STREAM l (k LONG, t LONG, WATERMARK FOR t AS t)",
        "CREATE STREAM r (k LONG, t LONG, WATERMARK FOR t AS t)",
        "CREATE STREAM pairs (a LONG, b LONG)",
        "CREATE JOIN j INTO pairs AS SELECT x.k AS a, y.k AS b FROM STREAM(l) AS x JOIN STREAM(r) AS y \
         ON x.k = y.k AND y.t BETWEEN x.t - INTERVAL '10 ms' AND x.t + INTERVAL '10 ms'",
    ];
    let first = "{\"k\":1,\"t\":1000}";
    let pair = |key: u64| {
        let pairs = format!("SELECT count(*) AS n FROM pairs WHERE a = {key} AND b = {key}");
        (pairs, "{\"n\":1}\n")
    };
    // The results that it has written are on disk.
    let (text, expected) = pair(1);
    let more = [("l", first), ("r", first)];
    known_to_views_only(dir.path(), &statements, (&[], &more), (&text, expected)).await;
    for _ in 0..2 {
        let error = refused(settings(dir.path(), false)).await;
        let HistoryError::LogLost { end, known, .. } = &error else { panic!("{error}") };
        assert!(known > end, "{error}");
    }
    let engine = open(settings(dir.path(), true)).await;
    for stream in ["l", "r"] {
        append(&engine, stream, "{\"k\":2,\"t\":1000}", None).await;
    }
    let (text, expected) = pair(2);
    until_said(&engine, &text, expected).await;
    stop(engine, GRACE).await;
    let engine = open(settings(dir.path(), true)).await;
    for stream in ["l", "r"] {
        append(&engine, stream, "{\"k\":3,\"t\":1000}", None).await;
    }
    for key in [2, 3] {
        let (text, expected) = pair(key);
        until_said(&engine, &text, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_with_more_events_than_were_counted_is_refused_and_gone_on_behind_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let statements =
        ["CREATE STREAM z (a LONG)", "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(z)"];
    let event = ("z", "{\"a\":1}");
    let select = "SELECT n FROM v";
    known_to_views_only(dir.path(), &statements, (&[event; 3], &[event; 2]), (select, "{\"n\":5}\n")).await;
    for _ in 0..2 {
        let error = refused(settings(dir.path(), false)).await;
        let HistoryError::EventsLost { stream, counted, by, committed, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((&**stream, *counted, &**by, *committed), ("z", 3, "view `v`", 5));
    }
    let engine = open(settings(dir.path(), true)).await;
    append(&engine, "z", event.1, None).await;
    assert_eq!(sql(&engine, select).await, "{\"n\":6}\n");
    let stored = "SELECT count(*) AS n, max(_offset) AS o FROM z";
    assert_eq!(sql(&engine, stored).await, "{\"n\":4,\"o\":5}\n");
    stop(engine, GRACE).await;
    let engine = open(settings(dir.path(), false)).await;
    assert_eq!(sql(&engine, select).await, "{\"n\":6}\n");
}

/// Waits until the catalog that is written down counts so many events of some stream.
async fn until_counted(dir: &Path, events: u64) {
    let counts = |path: &Path| {
        let is_whole = path.extension().is_some_and(|extension| extension == "json");
        let text = fs::read_to_string(path).unwrap_or_default();
        is_whole && text.contains(&format!("\"next_offset\": {events},"))
    };
    while !fs::read_dir(dir.join("catalog")).unwrap().any(|entry| counts(&entry.unwrap().path())) {
        look_again().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_events_that_were_skipped_with_a_damaged_part_of_the_log() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut history = settings(dir.path(), false);
    // All is in the log only.
    history.store_commit_interval_ms = 3_600_000;
    let engine = open(history).await;
    sql(&engine, "CREATE STREAM z (a STRING)").await;
    sql(&engine, "CREATE STREAM y (a STRING)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(z)").await;
    for (stream, text) in [("z", "one"), ("z", "two"), ("z", "needle"), ("y", "behind")] {
        append(&engine, stream, &format!("{{\"a\":\"{text}\"}}"), None).await;
    }
    until_counted(dir.path(), 3).await;
    for part in ["catalog", "log", "tables"] {
        copy(&dir.path().join(part), &crashed.path().join(part));
    }
    stop(engine, Duration::ZERO).await;
    assert_eq!(damage(crashed.path(), b"needle"), 1);
    let error = refused(settings(crashed.path(), false)).await;
    assert!(matches!(error, HistoryError::LogUnopened { .. }), "{error}");
    assert!(error.hint().unwrap().contains("--data.log-skip-corrupt yes"));
    let engine = open(settings(crashed.path(), true)).await;
    let (select, view) = ("SELECT count(*) AS n, max(_offset) AS o FROM z", "SELECT n FROM v");
    for (text, expected) in [(select, "{\"n\":2,\"o\":1}\n"), (view, "{\"n\":2}\n")] {
        let asked = tokio::time::timeout(Duration::from_secs(20), sql(&engine, text)).await;
        assert_eq!(asked.expect("nobody waits"), expected);
    }
    assert_eq!(sql(&engine, "SELECT a FROM y").await, "{\"a\":\"behind\"}\n");
    append(&engine, "z", "{\"a\":\"three\"}", None).await;
    let expected = ["{\"n\":3,\"o\":3}\n", "{\"n\":3}\n"];
    assert_eq!([sql(&engine, select).await, sql(&engine, view).await], expected);
    stop(engine, GRACE).await;
    let engine = open(settings(crashed.path(), true)).await;
    assert_eq!([sql(&engine, select).await, sql(&engine, view).await], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_behind_a_damaged_part_of_the_log_keep_their_offsets() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut history = settings(dir.path(), false);
    // All is in the log only.
    history.store_commit_interval_ms = 3_600_000;
    let engine = open(history).await;
    // Columns that are declared, and columns that are found.
    for statement in [
        "CREATE STREAM z (a STRING)",
        "CREATE STREAM y WITH (store = true)",
        "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(z)",
    ] {
        sql(&engine, statement).await;
    }
    for text in ["one", "two", "needle", "three", "four", "needle", "five"] {
        for stream in ["z", "y"] {
            append(&engine, stream, &format!("{{\"a\":\"{text}\"}}"), None).await;
        }
    }
    until_counted(dir.path(), 7).await;
    for part in ["catalog", "log", "tables"] {
        copy(&dir.path().join(part), &crashed.path().join(part));
    }
    stop(engine, Duration::ZERO).await;
    assert_eq!(damage(crashed.path(), b"needle"), 4);
    let expected = [(0, "one"), (1, "two"), (3, "three"), (4, "four"), (6, "five")];
    let lines = expected.map(|(offset, text)| format!("{{\"_offset\":{offset},\"a\":\"{text}\"}}\n"));
    for _ in 0..2 {
        let engine = open(settings(crashed.path(), true)).await;
        for stream in ["z", "y"] {
            let text = format!("SELECT _offset, a FROM {stream} ORDER BY _offset");
            assert_eq!(sql(&engine, &text).await, lines.concat(), "{stream}");
        }
        assert_eq!(sql(&engine, "SELECT n FROM v").await, "{\"n\":5}\n");
        stop(engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_without_its_first_segment_is_refused_and_gone_on_behind_when_told_to() {
    let [dir, early, late] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut history = settings(dir.path(), false);
    // All is in the log only.
    history.store_commit_interval_ms = 3_600_000;
    let engine = open(history).await;
    sql(&engine, "CREATE STREAM z (a LONG, pad STRING)").await;
    until_counted(dir.path(), 0).await;
    // A snapshot may be replaced while it is copied.
    let is_whole = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
    };
    let to = early.path().join("catalog");
    while !fs::read_dir(&to).is_ok_and(|mut entries| entries.any(is_whole)) {
        copy(&dir.path().join("catalog"), &to);
    }
    let pad = "x".repeat(30_000);
    for number in 0..120 {
        append(&engine, "z", &format!("{{\"a\":{number},\"pad\":\"{pad}\"}}"), None).await;
    }
    until_counted(dir.path(), 120).await;
    copy(&dir.path().join("catalog"), &late.path().join("catalog"));
    for (part, to) in [("log", &early), ("tables", &early), ("log", &late), ("tables", &late)] {
        copy(&dir.path().join(part), &to.path().join(part));
    }
    stop(engine, Duration::ZERO).await;
    for dir in [&early, &late] {
        let segments = segments(dir.path());
        assert!(segments.len() > 2, "{segments:?}");
        fs::remove_file(segments.iter().min().unwrap()).unwrap();
    }
    let error = refused(settings(early.path(), false)).await;
    let HistoryError::LogFrontLost { begins, known, .. } = &error else { panic!("{error}") };
    assert!(begins > known, "{error}");
    let mut lost = 0;
    for _ in 0..2 {
        let error = refused(settings(late.path(), false)).await;
        let HistoryError::EventsMissing { stream, first, end, .. } = &error else { panic!("{error}") };
        assert_eq!((&**stream, *first), ("z", 0));
        assert!(error.hint().is_some_and(|hint| hint.contains("--data.log-skip-corrupt yes")));
        lost = *end;
    }
    assert!((1..120).contains(&lost), "{lost}");
    let expected = format!("{{\"n\":{},\"o\":119}}\n", 120 - lost);
    for dir in [&early, &late] {
        for skips in [true, false] {
            let engine = open(settings(dir.path(), skips)).await;
            let counted = sql(&engine, "SELECT count(*) AS n, max(_offset) AS o FROM z").await;
            assert_eq!(counted, expected);
            stop(engine, GRACE).await;
        }
    }
}
