//! Tests views with windows and grouping sets: their contents equal the counts of a simple loop over the acknowledged
//! events, at any interruption.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, ops::Bound, path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{Engine, EngineConfig, EngineError, KeyValue, Principal, ViewRange, Wanted};
use swiftwater_event::SystemClock;
use swiftwater_sql::ErrorKind;
use swiftwater_testkit::Rng;
use swiftwater_views::{ViewStore, ViewStoreOptions};

use crate::history::{append, open_when_free, quick, sql, stop, try_sql};

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 2, ..EngineConfig::default() };
    let mut history = quick(dir);
    history.views_commit_interval_ms = 20;
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

/// Windows that end at multiples of `every`, by the events' own time, of which some are 100 ms late.
pub(crate) struct Windows {
    pub(crate) text: &'static str,
    pub(crate) every: i64,
    pub(crate) size: i64,
}

/// One behind another, overlapping, and with gaps between them.
pub(crate) const WINDOWS: [Windows; 3] = [
    Windows { text: "TUMBLING(1000, EVENT(ts, 100))", every: 1000, size: 1000 },
    Windows { text: "EVERY(500, EVENT(ts, 100), LAST, 1700, EVENT)", every: 500, size: 1700 },
    Windows { text: "EVERY(1000, EVENT(ts, 100), LAST, 600, EVENT)", every: 1000, size: 600 },
];

impl Windows {
    /// The starts of the windows that contain an instant.
    pub(crate) fn holding(&self, at: i64) -> impl Iterator<Item = i64> {
        let (first, size) = ((at.div_euclid(self.every) + 1) * self.every, self.size);
        (first..=at + size).step_by(self.every as usize).map(move |end| end - size)
    }
}

/// A window by its start, a set, and the values of its keys.
type Group = (i64, usize, Vec<String>);

/// The counts of a loop over the events, by window.
struct Model<'w> {
    windows: &'w Windows,
    groups: BTreeMap<Group, (i64, i64)>,
    latest: Option<i64>,
}

impl Model<'_> {
    fn take(&mut self, (ts, a, b, v): (i64, i64, i64, i64)) {
        for start in self.windows.holding(ts) {
            if self.latest.is_some_and(|latest| start + self.windows.size <= latest - 100) {
                continue;
            }
            let (a, b) = (a.to_string(), b.to_string());
            for (set, key) in [vec![a.clone()], vec![b.clone(), a], Vec::new()].into_iter().enumerate() {
                let cell = self.groups.entry((start, set, key)).or_default();
                *cell = (cell.0 + 1, cell.1 + v);
            }
        }
        self.latest = Some(self.latest.map_or(ts, |latest| latest.max(ts)));
    }

    /// The rows of windows that ended no longer ago than this.
    fn rows(&self, retention: i64) -> Vec<String> {
        let first = self.latest.unwrap_or(i64::MIN).saturating_sub(100).saturating_sub(retention);
        let kept = self.groups.iter().filter(|((start, ..), _)| start + self.windows.size > first);
        let row = |((start, set, key), (n, s)): (&Group, &(i64, i64))| {
            let (a, b, g) = match (set, &key[..]) {
                (0, [a]) => (a.as_str(), "null", 1),
                (1, [b, a]) => (a.as_str(), b.as_str(), 0),
                _ => ("null", "null", 3),
            };
            format!(r#"{{"window_start":{start},"a":{a},"b":{b},"g":{g},"n":{n},"s":{s}}}"#)
        };
        let mut rows: Vec<String> = kept.map(row).collect();
        rows.sort();
        rows
    }
}

fn rollup(windows: &Windows) -> String {
    format!(
        "CREATE MATERIALIZED VIEW r WITH (retention = '5 seconds') AS \
         SELECT window_start, a, b, GROUPING(a, b) AS g, COUNT(*) AS n, SUM(v) AS s FROM STREAM(x) \
         GROUP BY GROUPING SETS (a, (b, a), ()) WINDOWING {}",
        windows.text
    )
}

async fn rows(engine: &Engine) -> Vec<String> {
    let range = ViewRange { limit: 100_000, ..ViewRange::default() };
    let page = engine.view_rows(&Principal::local(), "r", &range, Wanted::AckHorizon).await.unwrap();
    let mut rows: Vec<String> = String::from_utf8(page.rows).unwrap().lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_a_view_are_exact_however_often_it_is_cut_off() {
    for windows in &WINDOWS {
        cut_off(windows).await;
    }
}

async fn cut_off(windows: &Windows) {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model { windows, groups: BTreeMap::new(), latest: None };
    let (mut rng, mut now) = (Rng::new(5), 1_000_000);
    for round in 0..8 {
        let engine = open(dir.path()).await;
        if round == 0 {
            sql(&engine, "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, b LONG NOT NULL, v LONG)")
                .await;
            sql(&engine, &rollup(windows)).await;
        }
        for _ in 0..4 {
            let mut lines = Vec::new();
            for _ in 0..rng.below(60) {
                now += rng.below(60) as i64;
                let event = (
                    now - rng.below(400) as i64,
                    rng.below(3) as i64,
                    rng.below(4) as i64,
                    rng.below(9) as i64,
                );
                model.take(event);
                let (ts, a, b, v) = event;
                lines.push(format!(r#"{{"ts":{ts},"a":{a},"b":{b},"v":{v}}}"#));
            }
            if !lines.is_empty() {
                append(&engine, "x", &lines.join("\n"), None).await;
            }
            assert_eq!(rows(&engine).await, model.rows(5000), "round {round}");
        }
        let count = sql(&engine, "SELECT count(*) AS n FROM r").await;
        assert_eq!(count, format!("{{\"n\":{}}}\n", model.rows(5000).len()));
        // With time to commit, and without.
        stop(engine, if round % 3 == 0 { Duration::from_secs(5) } else { Duration::ZERO }).await;
    }
    assert!(model.groups.len() > 2 * model.rows(5000).len(), "most windows are no longer kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_read_by_its_window_its_set_and_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    sql(&engine, "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, b LONG NOT NULL, v LONG)").await;
    sql(&engine, &rollup(&WINDOWS[0])).await;
    append(
        &engine,
        "x",
        "{\"ts\":1500,\"a\":1,\"b\":2,\"v\":3}\n{\"ts\":1700,\"a\":1,\"b\":5,\"v\":4}",
        None,
    )
    .await;
    let row = async |key: &[&str]| {
        let key: Vec<KeyValue> = key.iter().map(|value| KeyValue::Written((*value).to_owned())).collect();
        let row = engine.view_row(&Principal::local(), "r", &key, Wanted::AckHorizon).await;
        row.map(|(row, _)| row.map(|row| String::from_utf8(row.json).unwrap()).unwrap_or_default())
    };
    let of_a = r#"{"window_start":1000,"a":1,"b":null,"g":1,"n":2,"s":7}"#;
    assert_eq!(row(&["1000", "0", "1"]).await.unwrap(), of_a);
    let of_both = r#"{"window_start":1000,"a":1,"b":5,"g":0,"n":1,"s":4}"#;
    assert_eq!(row(&["1000", "1", "5", "1"]).await.unwrap(), of_both);
    let total = r#"{"window_start":1000,"a":null,"b":null,"g":3,"n":2,"s":7}"#;
    assert_eq!(row(&["1000", "2"]).await.unwrap(), total);
    // Keys that there are not, and such as no key is.
    for key in
        [&["2000", "0", "1"][..], &["1000", "9"], &["1000", "0", "7"], &["x", "y"], &["null", "null", "null"]]
    {
        assert_eq!(row(key).await.unwrap(), "", "{key:?}");
    }
    let error = row(&["1000"]).await.unwrap_err();
    assert_eq!(error, EngineError::KeyValues { view: "r".to_owned(), wanted: 4, found: 1 });
    let error = try_sql(&engine, "CREATE MATERIALIZED VIEW w WITH (retention = '1 day') AS SELECT a, COUNT(*) AS n FROM STREAM(x) GROUP BY a").await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("`retention` is the time for which closed windows are stored")
    );
}

/// Engines of the tests below reach this machine.
async fn open_local(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 2, ..EngineConfig::default() };
    let mut history = quick(dir);
    history.views_commit_interval_ms = 20;
    history.sinks_private_addresses = true;
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

fn totals(windows: &Windows) -> String {
    let text = windows.text;
    format!(
        "CREATE MATERIALIZED VIEW t AS SELECT window_start AS w, a, COUNT(*) AS n, SUM(v) AS s FROM STREAM(x) \
         GROUP BY a WINDOWING {text}"
    )
}

/// Waits until a statement answers this.
async fn until(engine: &Engine, statement: &str, expected: &str) {
    for _ in 0..600 {
        if sql(engine, statement).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{statement}: {}\n{}", sql(engine, statement).await, sql(engine, "SHOW SINKS").await);
}

/// The rows of the windows that are closed, as a loop counts them, in their order.
fn closed(windows: &Windows, events: &[(i64, i64, i64)]) -> Vec<String> {
    let (mut groups, mut latest) = (BTreeMap::<(i64, i64), (i64, i64)>::new(), i64::MIN);
    for (ts, a, v) in events {
        for start in windows.holding(*ts) {
            if start + windows.size > latest.saturating_sub(100) {
                let cell = groups.entry((start, *a)).or_default();
                *cell = (cell.0 + 1, cell.1 + v);
            }
        }
        latest = latest.max(*ts);
    }
    let closed = groups.iter().filter(|((start, _), _)| start + windows.size <= latest - 100);
    closed.map(|((w, a), (n, s))| format!(r#"{{"w":{w},"a":{a},"n":{n},"s":{s}}}"#)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_windows_go_into_streams_tables_and_files_once_however_often_that_is_cut_off() {
    for windows in &WINDOWS[..2] {
        deliver_closed(windows).await;
    }
}

async fn deliver_closed(windows: &Windows) {
    let dir = tempfile::tempdir().unwrap();
    let (mut rng, mut events, mut now) = (Rng::new(3), Vec::new(), 0);
    for round in 0..7 {
        let engine = open_local(dir.path()).await;
        if round == 0 {
            for statement in [
                "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
                "CREATE STREAM out (w LONG, a LONG, n LONG, s LONG)",
                "CREATE TABLE kept (w BIGINT, a BIGINT, n BIGINT, s BIGINT)",
                &totals(windows),
                "CREATE SINK into_stream FROM t INTO STREAM out WITH (batch_rows = 3)",
                "CREATE SINK into_table FROM t INTO TABLE kept",
                "CREATE SINK into_file FROM t INTO FILE 'a/t.ndjson' WITH (batch_rows = 2)",
                "CREATE SINK into_csv FROM t INTO FILE 't.csv' WITH (format = csv)",
            ] {
                sql(&engine, statement).await;
            }
        }
        let mut lines = Vec::new();
        for _ in 0..60 {
            now += rng.below(120) as i64;
            let event = (now - rng.below(500) as i64, rng.below(5) as i64, rng.below(9) as i64);
            events.push(event);
            lines.push(format!(r#"{{"ts":{},"a":{},"v":{}}}"#, event.0, event.1, event.2));
        }
        append(&engine, "x", &lines.join("\n"), None).await;
        // Half of the time the engine goes while they are at work.
        if round % 2 == 0 {
            tokio::time::sleep(Duration::from_millis(rng.below(60) as u64)).await;
            stop(engine, Duration::ZERO).await;
            continue;
        }
        let rows = closed(windows, &events);
        let count = format!("{{\"n\":{}}}\n", rows.len());
        until(&engine, "SELECT count(*) AS n FROM out", &count).await;
        until(&engine, "SELECT count(*) AS n FROM kept", &count).await;
        let sent: u64 = rows.len() as u64;
        for _ in 0..600 {
            if engine.sinks(&Principal::local()).iter().all(|sink| sink.delivered.1 == sent) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let all = format!("{}\n", rows.join("\n"));
        assert_eq!(sql(&engine, "SELECT w, a, n, s FROM out ORDER BY w, a").await, all);
        assert_eq!(sql(&engine, "SELECT w, a, n, s FROM kept ORDER BY w, a").await, all);
        assert_eq!(std::fs::read_to_string(dir.path().join("sinks/a/t.ndjson")).unwrap(), all);
        let csv = std::fs::read_to_string(dir.path().join("sinks/t.csv")).unwrap();
        assert!(csv.starts_with("w,a,n,s\r\n"), "{csv}");
        assert_eq!(csv.lines().count(), rows.len() + 1);
        stop(engine, Duration::from_secs(5)).await;
    }
}

/// Events of so many windows of a second, from the first on.
fn seconds(windows: std::ops::Range<i64>) -> String {
    let event = |n: i64| format!(r#"{{"ts":{},"a":{},"v":{n}}}"#, n * 1000 + 500, n % 3);
    windows.map(event).collect::<Vec<_>>().join("\n")
}

/// Commits in the Delta log of a table.
fn commits(dir: &Path, table: &str) -> usize {
    let log = dir.join("tables").join(table).join("_delta_log");
    let names = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".json")).count()
}

const SINK_INTO_TABLE: [&str; 3] = [
    "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
    "CREATE TABLE kept (w BIGINT, a BIGINT, n BIGINT, s BIGINT)",
    "CREATE SINK into_table FROM t INTO TABLE kept",
];

async fn open_with_sink_into_table(dir: &Path) -> Engine {
    let engine = open_local(dir).await;
    let [stream, table, sink] = SINK_INTO_TABLE;
    for statement in [stream, table, &totals(&WINDOWS[0]), sink] {
        sql(&engine, statement).await;
    }
    engine
}

/// Waits until a table has the windows of so many seconds but the last, and checks that each is there once.
async fn until_kept(engine: &Engine, seconds: i64) {
    let sum: i64 = (0..seconds - 1).sum();
    let expected = format!("{{\"n\":{0},\"d\":{0},\"s\":{sum}}}\n", seconds - 1);
    until(engine, "SELECT count(*) AS n, count(DISTINCT w) AS d, sum(s) AS s FROM kept", &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_have_gathered_go_into_a_table_by_few_commits() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with_sink_into_table(dir.path()).await;
    append(&engine, "x", &seconds(0..700), None).await;
    until_kept(&engine, 700).await;
    // One for each window would be 699, and the first is the table's own.
    assert!(commits(dir.path(), "kept") < 70, "{}", commits(dir.path(), "kept"));
    let delivered = async {
        while engine.sinks(&Principal::local())[0].delivered != (699, 699) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let noted = tokio::time::timeout(Duration::from_secs(60), delivered).await;
    assert!(noted.is_ok(), "{:?}", engine.sinks(&Principal::local()));
    stop(engine, Duration::from_secs(5)).await;
}

/// Copies the files of directories below one into another.
fn copy(from: &Path, to: &Path, parts: [&str; 2]) {
    for part in parts {
        let _ = std::fs::remove_dir_all(to.join(part));
        std::fs::create_dir_all(to.join(part)).unwrap();
        for entry in std::fs::read_dir(from.join(part)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(part).join(entry.file_name())).unwrap();
        }
    }
}

/// The table has a commit of which the log knows nothing, and more windows have closed when they are read again.
#[tokio::test(flavor = "multi_thread")]
async fn windows_that_a_table_has_and_the_log_does_not_know_of_are_not_inserted_again() {
    let (dir, before) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (kept, away) = (dir.path().join("tables/kept"), before.path().join("kept"));
    let grace = Duration::from_secs(5);
    stop(open_with_sink_into_table(dir.path()).await, grace).await;
    // Without its files the table takes nothing: windows gather.
    let gather = async |windows: std::ops::Range<i64>| {
        std::fs::rename(&kept, &away).unwrap();
        let engine = open_local(dir.path()).await;
        append(&engine, "x", &seconds(windows), None).await;
        let failing = async {
            while engine.sinks(&Principal::local())[0].failing.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let failed = tokio::time::timeout(Duration::from_secs(60), failing).await;
        assert!(failed.is_ok(), "{:?}", engine.sinks(&Principal::local()));
        stop(engine, grace).await;
        std::fs::rename(&away, &kept).unwrap();
    };
    gather(0..300).await;
    copy(dir.path(), before.path(), ["log", "catalog"]);
    let engine = open_local(dir.path()).await;
    until_kept(&engine, 300).await;
    stop(engine, grace).await;
    // As after a crash before the record of the delivery was synced.
    copy(before.path(), dir.path(), ["log", "catalog"]);
    gather(300..400).await;
    let engine = open_local(dir.path()).await;
    until_kept(&engine, 400).await;
    assert!(commits(dir.path(), "kept") < 40, "{}", commits(dir.path(), "kept"));
    stop(engine, grace).await;
}

/// Keys of the only view that are on disk. The engine was stopped.
async fn keys_on_disk(dir: &Path) -> usize {
    for _ in 0..600 {
        // Its files are released when its threads have ended.
        let opened = ViewStore::open(&dir.join("views"), ViewStoreOptions { cache_bytes: 1 << 20 });
        let Ok(store) = opened else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let views = store.views().unwrap();
        assert_eq!(views.len(), 1);
        let snapshot = store.snapshot(views[0]).unwrap();
        return snapshot.range((Bound::Unbounded, Bound::Unbounded)).count();
    }
    panic!("the files of views are still in use");
}

/// Waits until the only sink has made so many deliveries.
async fn until_delivered(engine: &Engine, deliveries: u64) {
    let asking = async {
        while engine.sinks(&Principal::local())[0].delivered.0 < deliveries {
            tokio::task::yield_now().await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(60), asking).await;
    assert!(asked.is_ok(), "{:?}", engine.sinks(&Principal::local()));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_closed_windows_go_into_a_sink_however_short_they_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open_local(dir.path()).await;
    for statement in [
        "CREATE STREAM rs (ts LONG NOT NULL)",
        "CREATE MATERIALIZED VIEW rsv WITH (retention = '5 seconds') AS \
         SELECT window_start, COUNT(*) AS n FROM STREAM(rs) WINDOWING TUMBLING(1000, EVENT(ts))",
        "CREATE STREAM rso (window_start LONG, n LONG)",
        "CREATE SINK rss FROM rsv INTO STREAM rso",
    ] {
        sql(&engine, statement).await;
    }
    // In one go, so most windows are past `retention` when they first come to disk.
    let events: Vec<String> = (0..1000).map(|number| format!("{{\"ts\":{}}}", number * 100)).collect();
    append(&engine, "rs", &events.join("\n"), None).await;
    // The engine goes before the sink does anything, perhaps, and in the midst.
    for deliveries in [0, 1, 20, 60] {
        until_delivered(&engine, deliveries).await;
        stop(engine, Duration::ZERO).await;
        engine = open_local(dir.path()).await;
    }
    let delivered = |windows: i64| -> String {
        (0..windows).map(|window| format!("{{\"window_start\":{},\"n\":10}}\n", window * 1000)).collect()
    };
    until_delivered(&engine, 99).await;
    let all = "SELECT window_start, n FROM rso ORDER BY window_start";
    until(&engine, all, &delivered(99)).await;
    assert_eq!(engine.sinks(&Principal::local())[0].delivered, (99, 99));
    // Readers see what is kept, and late is what it was.
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM rsv").await, "{\"n\":6}\n");
    append(&engine, "rs", "{\"ts\":98999}\n{\"ts\":100500}", None).await;
    until(&engine, all, &delivered(100)).await;
    assert_eq!(engine.view(&Principal::local(), "rsv").unwrap().late, 1);
    // Delivered windows are deleted with the next commit.
    append(&engine, "rs", "{\"ts\":100600}", None).await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM rsv").await, "{\"n\":6}\n");
    stop(engine, Duration::from_secs(5)).await;
    assert_eq!(keys_on_disk(dir.path()).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_wait_on_disk_for_a_sink_that_fails_and_are_delivered_whole() {
    let dir = tempfile::tempdir().unwrap();
    // There is a directory in the place of the file.
    let file = dir.path().join("sinks/r.ndjson");
    std::fs::create_dir_all(&file).unwrap();
    let (mut appended, mut lines) = (0, Vec::new());
    let mut engine = open_local(dir.path()).await;
    for statement in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL)",
        "CREATE MATERIALIZED VIEW r WITH (retention = '5 seconds') AS SELECT window_start AS w, a, COUNT(*) AS n \
         FROM STREAM(x) GROUP BY a HAVING a < 4 WINDOWING TUMBLING(1000, EVENT(ts))",
        "CREATE SINK s FROM r INTO FILE 'r.ndjson' WITH (batch_rows = 2)",
    ] {
        sql(&engine, statement).await;
    }
    for round in 0..4 {
        // Twenty windows of five groups with two events each.
        let events: Vec<String> = (appended..appended + 200)
            .map(|number| format!("{{\"ts\":{},\"a\":{}}}", number * 100, number % 5))
            .collect();
        append(&engine, "x", &events.join("\n"), None).await;
        appended += 200;
        let committing = async {
            while engine.view(&Principal::local(), "r").unwrap().committed < appended {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), committing).await.unwrap();
        // Waiting windows are not in memory.
        assert!(engine.view(&Principal::local(), "r").unwrap().keys_held <= 30);
        stop(engine, if round % 2 == 0 { Duration::ZERO } else { Duration::from_secs(5) }).await;
        engine = open_local(dir.path()).await;
    }
    for window in 0..79 {
        // Three looks at each, of which the last finds no row.
        let groups = [0, 1, 2, 3].map(|a| format!("{{\"w\":{},\"a\":{a},\"n\":2}}\n", window * 1000));
        lines.extend(groups);
    }
    std::fs::remove_dir(&file).unwrap();
    until_delivered(&engine, 79 * 2).await;
    let status = engine.sinks(&Principal::local()).remove(0);
    assert_eq!((status.delivered, status.dead_rows), ((79 * 2, 79 * 4), 0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines.concat());
    // One that is no more needs nothing.
    sql(&engine, "DROP SINK s").await;
    append(&engine, "x", "{\"ts\":80000,\"a\":0}", None).await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM r").await, "{\"n\":21}\n");
    stop(engine, Duration::from_secs(5)).await;
    assert_eq!(keys_on_disk(dir.path()).await, 26);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_does_not_take_is_tried_again_and_then_goes_elsewhere() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let engine = open_local(dir.path()).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The webhook answers each request by the row's status, the first of a key always by 503.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut keys = std::collections::HashSet::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            let mut some = [0; 4096];
            loop {
                let count = stream.read(&mut some).unwrap_or(0);
                request.extend_from_slice(&some[..count]);
                let text = String::from_utf8_lossy(&request);
                let head = text.split("\r\n\r\n").next().unwrap_or_default().to_lowercase();
                let length =
                    head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                if count == 0 || length.is_some_and(|length: usize| body.len() >= length) {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let key = text
                .to_lowercase()
                .split("idempotency-key: ")
                .nth(1)
                .and_then(|rest| rest.lines().next().map(str::to_owned));
            let status = match (keys.insert(key), text.contains("\"a\":7")) {
                (true, _) => "503 Later",
                (false, true) => "400 Never",
                (false, false) => "200 OK",
            };
            let _ = stream.write_all(
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
            );
            let _ = tell.send((
                status,
                text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()),
            ));
        }
    });
    for statement in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
        "CREATE STREAM lost WITH (store = true)",
        &totals(&WINDOWS[0]),
        &format!(
            "CREATE SINK hook FROM t INTO WEBHOOK 'http://{address}/in' WITH (batch_rows = 1, retries = 5, dead_letter = lost)"
        ),
    ] {
        sql(&engine, statement).await;
    }
    append(
        &engine,
        "x",
        "{\"ts\":100,\"a\":1,\"v\":3}\n{\"ts\":200,\"a\":7,\"v\":4}\n{\"ts\":9000,\"a\":1,\"v\":1}",
        None,
    )
    .await;
    // The success of the last attempt is recorded shortly after its delivery.
    for _ in 0..600 {
        let status = engine.sinks(&Principal::local()).remove(0);
        if status.delivered.1 == 2 && status.tries == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = engine.sinks(&Principal::local()).remove(0);
    assert_eq!((status.delivered, status.dead_rows, status.tries), ((2, 2), 1, 0), "{status:?}");
    let got: Vec<(&str, String)> = told.try_iter().collect();
    let (first, dead) = ("{\"w\":0,\"a\":1,\"n\":1,\"s\":3}\n", "{\"w\":0,\"a\":7,\"n\":1,\"s\":4}\n");
    let expected = [("503 Later", first), ("200 OK", first), ("503 Later", dead), ("400 Never", dead)];
    assert_eq!(got, expected.map(|(status, body)| (status, body.to_owned())));
    let lost = sql(&engine, "SELECT sink, delivery, error FROM lost").await;
    assert_eq!(lost, "{\"sink\":\"hook\",\"delivery\":1,\"error\":\"it answered 400\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_cannot_be_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for statement in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
        &totals(&WINDOWS[0]),
        "CREATE MATERIALIZED VIEW plain AS SELECT a, COUNT(*) AS n FROM STREAM(x) GROUP BY a",
        "CREATE SINK one FROM t INTO FILE 'one'",
    ] {
        sql(&engine, statement).await;
    }
    for (statement, expected) in [
        ("CREATE SINK s FROM plain INTO FILE 'x'", "view `plain` has no windows"),
        ("CREATE SINK s FROM nothing INTO FILE 'x'", "no view `nothing`"),
        ("CREATE SINK s FROM t INTO STREAM x", "the view reads stream `x`"),
        ("CREATE SINK s FROM t INTO STREAM y", "no stream `y`"),
        ("CREATE SINK s FROM t INTO TABLE y", "no table `y`"),
        (
            "CREATE SINK s FROM t INTO FILE '../x'",
            "`../x` is not the path of a file below the directory of sinks",
        ),
        ("CREATE SINK s FROM t INTO FILE 'one'", "sink `one` already delivers to file `one`"),
        ("CREATE SINK s FROM t INTO FILE './one'", "sink `one` already delivers to file `./one`"),
        ("CREATE SINK one FROM t INTO FILE 'two'", "sink `one` already exists"),
        ("DROP SINK two", "no sink `two`"),
        ("DROP VIEW t", "sink `one` reads view `t`"),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{statement}: {error}");
    }
    sql(&engine, "CREATE SINK IF NOT EXISTS one FROM t INTO FILE 'two'").await;
    let shown = sql(&engine, "SHOW CREATE SINK one").await;
    assert_eq!(shown, "{\"sink\":\"one\",\"statement\":\"CREATE SINK one FROM t INTO FILE 'one'\"}\n");
    // A webhook that could never be called is refused when it is declared.
    for (webhook, expected) in [
        ("'http://127.0.0.1:1/'", "which the settings do not allow (`sinks.private_addresses`)"),
        ("'http://localhost/'", "which the settings do not allow (`sinks.private_addresses`)"),
        ("'https://user:secret@example.com/'", "the URL contains a user name or a password"),
        (
            "'https://example.com/' WITH (headers = 'Content-Length: 3')",
            "the server sets the header `Content-Length`",
        ),
        ("'ftp://example.com/'", "begin with http:// or https://"),
    ] {
        let statement = format!("CREATE SINK away FROM t INTO WEBHOOK {webhook}");
        let error = try_sql(&engine, &statement).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{statement}: {error}");
    }
    sql(&engine, "DROP SINK one; DROP VIEW t").await;
    assert_eq!(sql(&engine, "SHOW SINKS").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_lacks_columns_of_the_view_is_no_target() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for statement in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
        "CREATE MATERIALIZED VIEW t AS SELECT window_start AS w, a, COUNT(*) AS n, AVG(v) AS mean FROM STREAM(x) \
         GROUP BY a WINDOWING TUMBLING(30, EVENT(ts, 0))",
        "CREATE TABLE lacks (w BIGINT, \"A\" BIGINT, mean DOUBLE)",
        "CREATE TABLE dates (w BIGINT, a BIGINT, n BIGINT, mean DATE)",
        "CREATE TABLE more (w BIGINT, a VARCHAR, n DOUBLE, mean DOUBLE, more BIGINT)",
    ] {
        sql(&engine, statement).await;
    }
    for (table, faults) in [
        ("lacks", "it has no column `a`, it has no column `n`"),
        ("dates", "column `mean` is DATE in the target, and DOUBLE in the view"),
    ] {
        let error = try_sql(&engine, &format!("CREATE SINK s FROM t INTO TABLE {table}")).await.unwrap_err();
        let expected = format!("table `{table}` cannot store the rows of view `t`: {faults}");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, expected));
    }
    assert_eq!(sql(&engine, "CREATE SINK s FROM t INTO TABLE more").await, "{\"changed\":true}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sink_delivers_to_stays_until_the_sink_goes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    for statement in [
        "CREATE STREAM x (ts LONG NOT NULL, a LONG NOT NULL, v LONG)",
        "CREATE STREAM out WITH (store = true)",
        "CREATE STREAM lost WITH (store = true)",
        "CREATE TABLE kept (w BIGINT, a BIGINT, n BIGINT, s BIGINT)",
        &totals(&WINDOWS[0]),
        "CREATE SINK into_stream FROM t INTO STREAM out",
        "CREATE SINK into_table FROM t INTO TABLE kept WITH (retries = 1, dead_letter = lost)",
    ] {
        sql(&engine, statement).await;
    }
    for (statement, expected, hint) in [
        ("DROP STREAM out", "sink `into_stream` delivers to stream `out`", "DROP SINK into_stream first."),
        (
            "DROP STREAM IF EXISTS lost",
            "sink `into_table` delivers to stream `lost`",
            "DROP SINK into_table first.",
        ),
        ("DROP TABLE kept", "sink `into_table` delivers to table `kept`", "DROP SINK into_table first."),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Conflict, expected.to_owned()));
        assert_eq!(error.hint(), Some(hint));
    }
    sql(
        &engine,
        "DROP SINK into_stream; DROP STREAM out; DROP SINK into_table; DROP STREAM lost; DROP TABLE kept",
    )
    .await;
}
