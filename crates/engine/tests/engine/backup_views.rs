//! Tests backups of the state of views, sinks, alerts and joins. After a restore they resume as if nothing had happened,
//! whatever happened while the backup was taken.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{fmt::Write, fs, ops::Range, path::Path, time::Duration};

use serde_json::Value;
use swiftwater_engine::{BackupManifest, Engine, MANIFEST_NAME, Principal, ViewRange};
use tokio::sync::watch;

use crate::{
    backup::{begin, fetched, restored},
    endpoints::ask,
    history::{append, sql, stop, until_said},
    views::{lines, open, page},
};

/// The objects besides the events: `d` counts by ten, `k` has each event of two hundred apart.
const MADE: [&str; 15] = [
    "CREATE STREAM t (id LONG NOT NULL, k LONG NOT NULL, d LONG NOT NULL, WATERMARK FOR id AS id)",
    "CREATE STREAM changes (key JSON, \"row\" JSON, position LONG)",
    "CREATE STREAM told (state STRING, key JSON)",
    "CREATE STREAM pairs (a LONG, b LONG)",
    "CREATE STREAM odd (id LONG, half LONG)",
    "CREATE TABLE closed (w BIGINT, d BIGINT, n BIGINT)",
    "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(id) AS s FROM STREAM(t) GROUP BY k",
    "CREATE MATERIALIZED VIEW r AS SELECT window_start AS w, d, COUNT(*) AS n FROM STREAM(t) GROUP BY d \
     WINDOWING TUMBLING(30, EVENT(id, 0))",
    "CREATE SINK changed FROM CHANGES OF v INTO STREAM changes WITH (batch_rows = 3)",
    "CREATE SINK into_table FROM r INTO TABLE closed WITH (batch_rows = 2)",
    "CREATE SINK half FROM (SELECT id, (id - 1) / 2 AS half FROM STREAM(t) WHERE id % 2 = 1) INTO STREAM odd \
     WITH (batch_rows = 4)",
    "CREATE MATERIALIZED VIEW over AS SELECT n, COUNT(*) AS k FROM STREAM(v) GROUP BY n",
    "CREATE ALERT whole ON (SELECT d, COUNT(*) AS n FROM STREAM(t) GROUP BY d) WHEN n >= 10 INTO told",
    "CREATE JOIN near INTO pairs AS SELECT x.id AS a, y.id AS b FROM STREAM(t) x JOIN STREAM(t) y \
     ON x.d = y.d AND y.id BETWEEN x.id + INTERVAL '1 ms' AND x.id + INTERVAL '2 ms'",
    "CREATE ENDPOINT GET '/sum/{k}' (k LONG) AS SELECT s FROM v WHERE k = $k ELSE 404 'none'",
];

fn events(ids: Range<u64>) -> String {
    let event = |id: u64| format!("{{\"id\":{id},\"k\":{},\"d\":{}}}", id % 200, id / 10);
    ids.map(event).collect::<Vec<_>>().join("\n")
}

async fn count(engine: &Engine) -> u64 {
    let row: Value = serde_json::from_str(&sql(engine, "SELECT count(*) AS n FROM t").await).unwrap();
    row["n"].as_u64().unwrap()
}

/// Number of a key's events among so many events, and the sum over them.
fn counted(k: u64, count: u64) -> (u64, u64) {
    let ids = (k..count).step_by(200);
    (ids.clone().count() as u64, ids.sum())
}

/// All that is made of so many events is what loops over them make, each once and in order.
async fn check(engine: &Engine, count: u64) {
    let all = ViewRange { limit: 100_000, ..ViewRange::default() };
    let row = |k: u64| {
        let (n, s) = counted(k, count);
        format!(r#"{{"k":{k},"n":{n},"s":{s}}}"#)
    };
    let rows: Vec<String> = (0..count.min(200)).map(row).collect();
    assert_eq!(lines(&page(engine, "v", all.clone()).await.rows), rows);
    let answer = ask(engine, "/sum/7").await.unwrap();
    assert_eq!(answer.body.unwrap().trim_ascii(), format!(r#"{{"s":{}}}"#, counted(7, count).1).as_bytes());
    let groups = |end: u64| {
        let group = |d: u64| {
            let n = (count - 10 * d).min(10);
            format!("{{\"w\":{},\"d\":{d},\"n\":{n}}}", 10 * d / 30 * 30)
        };
        (0..end).map(group).collect::<Vec<_>>()
    };
    assert_eq!(lines(&page(engine, "r", all).await.rows), groups(count.div_ceil(10)));
    // A window is closed by an event at its end or later.
    let closed = groups((count - 1) / 30 * 3).iter().fold(String::new(), |all, row| all + row + "\n");
    until_said(engine, "SELECT w, d, n FROM closed ORDER BY w, d", &closed).await;
    let whole = (0..count / 10).fold(String::new(), |mut all, d| {
        writeln!(all, "{{\"state\":\"firing\",\"key\":\"[{d}]\"}}").unwrap();
        all
    });
    until_said(engine, "SELECT state, key FROM told ORDER BY length(key), key", &whole).await;
    let mut pairs = String::new();
    for b in 0..count {
        for a in b.saturating_sub(2).max(b / 10 * 10)..b {
            writeln!(pairs, "{{\"a\":{a},\"b\":{b}}}").unwrap();
        }
    }
    until_said(engine, "SELECT a, b FROM pairs ORDER BY _offset", &pairs).await;
    let odd = (0..count / 2).fold(String::new(), |mut all, half| {
        writeln!(all, "{{\"id\":{},\"half\":{half}}}", 2 * half + 1).unwrap();
        all
    });
    until_said(engine, "SELECT id, half FROM odd ORDER BY _offset", &odd).await;
    let (of_all, of_some) = (count / 200, count % 200);
    let over = [(of_all, 200 - of_some), (of_all + 1, of_some)];
    let over = over.iter().filter(|(n, k)| *n > 0 && *k > 0);
    let over = over.fold(String::new(), |all, (n, k)| all + &format!("{{\"n\":{n},\"k\":{k}}}\n"));
    until_said(engine, "SELECT n, k FROM over ORDER BY n", &over).await;
    let told = "SELECT key, \"row\", position FROM changes ORDER BY _offset";
    let all_told = async { while wrong_in(&sql(engine, told).await, count).is_some() {} };
    if tokio::time::timeout(Duration::from_secs(60), all_told).await.is_err() {
        panic!("{:?}, {}", wrong_in(&sql(engine, told).await, count), sql(engine, "SHOW SINKS").await);
    }
}

/// The fault in changes of the view: each commit has the keys of the events since the one before it, in their order, with
/// their rows then; the last has all events.
fn wrong_in(changes: &str, count: u64) -> Option<String> {
    let changes: Vec<Value> = changes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut before = 0;
    for commit in changes.chunk_by(|one, other| one["position"] == other["position"]) {
        let position = commit[0]["position"].as_u64().unwrap();
        let mut keys: Vec<u64> = (before..position).map(|id| id % 200).collect();
        keys.sort_unstable();
        keys.dedup();
        let row = |k: u64| {
            let (n, s) = counted(k, position);
            (format!("[{k}]"), format!(r#"{{"k":{k},"n":{n},"s":{s}}}"#))
        };
        let expected: Vec<(String, String)> = keys.into_iter().map(row).collect();
        let of = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
        let told: Vec<_> = commit.iter().map(|change| (of(change, "key"), of(change, "row"))).collect();
        if told != expected {
            return Some(format!("from {before} to {position}: {told:?}, not {expected:?}"));
        }
        before = position;
    }
    (before != count).then(|| format!("there are {before} of {count}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_of_events_goes_on_from_a_backup_as_if_nothing_had_happened() {
    let data = tempfile::tempdir().unwrap();
    let engine = open(data.path(), |history| history.views_commit_interval_ms = 2).await;
    for text in MADE {
        sql(&engine, text).await;
    }
    let (sent, mut acknowledged) = watch::channel(0);
    // Events come while a backup is taken, and not while what came of it is looked at.
    let (sends, mut is_to_send) = watch::channel(false);
    let sending = tokio::spawn({
        let engine = engine.clone();
        async move {
            while is_to_send.wait_for(|is_to_send| *is_to_send).await.is_ok() {
                let next = *sent.borrow();
                append(&engine, "t", &events(next..next + 7), None).await;
                sent.send_replace(next + 7);
            }
        }
    });
    for round in 1..=3 {
        sends.send_replace(true);
        acknowledged.wait_for(|sent| *sent >= 350 * round).await.unwrap();
        let before = *acknowledged.borrow();
        let backup = begin(&engine).await;
        sends.send_replace(false);
        let put_aside = || {
            let spilled = fs::read_dir(data.path().join("spill")).unwrap();
            let names = spilled.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.ends_with(".views")).count()
        };
        assert_eq!(put_aside(), 1);
        let (copy, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fetched(&backup, copy.path()).await;
        engine.end_backup(&Principal::local(), &backup.manifest().id).unwrap();
        drop(backup);
        assert_eq!(put_aside(), 0);
        restored(copy.path(), other.path()).await.unwrap();
        let again = open(other.path(), |_| ()).await;
        let kept = count(&again).await;
        assert!(kept >= before, "{kept} of {before}");
        check(&again, kept).await;
        for more in [1, 40, 400] {
            let next = count(&again).await;
            append(&again, "t", &events(next..next + more), None).await;
        }
        check(&again, kept + 441).await;
        stop(again, Duration::ZERO).await;
    }
    drop(sends);
    sending.await.unwrap();
    let sent = *acknowledged.borrow();
    check(&engine, sent).await;
    stop(engine, Duration::from_secs(5)).await;
}

/// A small backup with some of everything, of so many events.
async fn small(copy: &Path, count: u64) {
    let data = tempfile::tempdir().unwrap();
    let engine = open(data.path(), |_| ()).await;
    for text in MADE {
        sql(&engine, text).await;
    }
    append(&engine, "t", &events(0..count), None).await;
    check(&engine, count).await;
    fetched(&*begin(&engine).await, copy).await;
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_before_a_backup_is_not_told_again_and_a_backup_without_views_is_restored_as_ever() {
    let copy = tempfile::tempdir().unwrap();
    small(copy.path(), 65).await;
    let other = tempfile::tempdir().unwrap();
    restored(copy.path(), other.path()).await.unwrap();
    let engine = open(other.path(), |_| ()).await;
    check(&engine, 65).await;
    append(&engine, "t", &events(65..301), None).await;
    check(&engine, 301).await;
    stop(engine, Duration::ZERO).await;

    // As it was written before there were views in it.
    let path = copy.path().join(MANIFEST_NAME);
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["format"] = 1.into();
    manifest["files"].as_array_mut().unwrap().retain(|file| file["name"] != "views/kept");
    let checksum = serde_json::from_value::<BackupManifest>(manifest.clone()).unwrap().checksum();
    manifest["crc32c"] = checksum.to_string().into();
    fs::write(&path, manifest.to_string()).unwrap();
    let other = tempfile::tempdir().unwrap();
    restored(copy.path(), other.path()).await.unwrap();
    let engine = open(other.path(), |_| ()).await;
    assert_eq!(count(&engine).await, 65);
    let rows = sql(&engine, "SELECT count(*) AS n, sum(n) AS s FROM v").await;
    assert_eq!(rows, "{\"n\":65,\"s\":65}\n", "it is made anew of the events that are there");
    let is_lost = async { while !sql(&engine, "SHOW JOINS").await.contains("its files were damaged") {} };
    tokio::time::timeout(Duration::from_secs(60), is_lost).await.expect("the join says so");
    stop(engine, Duration::ZERO).await;
}
