//! Tests sinks of a view's changes: every committed change is delivered, each once where the target allows it. Each row is
//! the one that a loop over the events before its position makes.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, HistoryConfig, Principal};
use swiftwater_testkit::Rng;

use crate::{
    history::{append, sql, stop, try_sql, until_said},
    receiver::Receiver,
    views::open,
};

const VIEW: &str = "CREATE MATERIALIZED VIEW v DELETE WHEN x < 0 AS \
     SELECT k, COUNT(*) AS n, SUM(x) AS s FROM STREAM(t) GROUP BY k HAVING SUM(x) < 40";

/// The row of a key after the events before an offset.
fn row_at(events: &[(i64, i64)], key: i64, position: usize) -> Value {
    let (mut count, mut sum) = (0, 0);
    for (_, x) in events[..position].iter().filter(|(k, _)| *k == key) {
        (count, sum) = if *x < 0 { (0, 0) } else { (count + 1, sum + x) };
    }
    if count > 0 && sum < 40 { json!({"k": key, "n": count, "s": sum}) } else { Value::Null }
}

/// Checks changes in the order in which they were delivered; returns the final rows.
fn check(changes: &[Value], events: &[(i64, i64)]) -> BTreeMap<i64, Value> {
    let (mut rows, mut last) = (BTreeMap::new(), (0, -1));
    for change in changes {
        let (key, position) =
            (change["key"][0].as_i64().unwrap(), change["position"].as_u64().unwrap() as usize);
        assert!((position, key) > last, "in the order of the commits, and of the keys of each: {change}");
        last = (position, key);
        assert_eq!(change["row"], row_at(events, key, position), "{change}");
        let before = rows.insert(key, change["row"].clone()).unwrap_or_default();
        assert_ne!(before, change["row"], "what did not change is not delivered: {change}");
    }
    rows
}

fn read(lines: &str) -> Vec<Value> {
    let change = |line: &str| {
        let mut change: Value = serde_json::from_str(line).unwrap();
        for member in ["key", "row"] {
            if let Some(text) = change[member].as_str() {
                change[member] = serde_json::from_str(text).unwrap();
            }
        }
        change
    };
    lines.lines().map(change).collect()
}

async fn open_local(dir: &std::path::Path) -> Engine {
    open(dir, |history: &mut HistoryConfig| history.sinks_private_addresses = true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_key_is_delivered_once_however_often_that_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(|_, before| if before == 0 { 503 } else { 200 });
    let (mut random, mut events) = (Rng::new(7), Vec::new());
    for round in 0..9 {
        let engine = open_local(dir.path()).await;
        if round == 0 {
            for text in [
                "CREATE STREAM t (k LONG, x LONG)",
                "CREATE STREAM changed (key JSON, \"row\" JSON, position LONG)",
                VIEW,
                "CREATE SINK into_stream FROM CHANGES OF v INTO STREAM changed WITH (batch_rows = 3)",
                "CREATE SINK into_file FROM CHANGES OF v INTO FILE 'changes.ndjson'",
                &format!("CREATE SINK hook FROM CHANGES OF v INTO WEBHOOK 'http://{}/'", receiver.address),
            ] {
                sql(&engine, text).await;
            }
        }
        for _ in 0..6 {
            let mut lines = Vec::new();
            for _ in 0..1 + random.below(12) {
                let key = random.below(8) as i64;
                let x = if random.chance(0.2) { -1 } else { random.below(15) as i64 };
                events.push((key, x));
                lines.push(format!(r#"{{"k":{key},"x":{x}}}"#));
            }
            append(&engine, "t", &lines.join("\n"), None).await;
            // Longer than a commit takes, now and then.
            if random.chance(0.5) {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        if round % 3 != 2 {
            stop(engine, Duration::ZERO).await;
            continue;
        }
        let expected: BTreeMap<i64, Value> =
            (0..8).map(|key| (key, row_at(&events, key, events.len()))).collect();
        let delivered = async || {
            let stream = sql(&engine, "SELECT key, \"row\", position FROM changed ORDER BY _offset").await;
            let file = std::fs::read_to_string(dir.path().join("sinks/changes.ndjson")).unwrap_or_default();
            [read(&stream), read(&file), read(&receiver.lines().join("\n"))]
        };
        // A key that never had a row is not told of.
        let check = |changes: &[Value], events: &[(i64, i64)]| {
            let rows = check(changes, events);
            (0..8).map(|key| (key, rows.get(&key).cloned().unwrap_or_default())).collect::<BTreeMap<_, _>>()
        };
        let is_done = |changes: &Vec<Value>| check(changes, &events) == expected;
        let waiting = async {
            while !delivered().await.iter().all(is_done) {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
            for changes in delivered().await {
                assert_eq!(check(&changes, &events), expected, "{}", sql(&engine, "SHOW SINKS").await);
            }
        }
        let [stream, file, hook] = delivered().await;
        assert_eq!((&stream, &stream), (&file, &hook));
        stop(engine, Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_of_changes_begins_when_it_is_created_and_what_nobody_wants_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_local(dir.path()).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM changed (key JSON, \"row\" JSON, position LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(t)",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "t", "{\"k\":1}\n{\"k\":2}", None).await;
    assert_eq!(sql(&engine, "SELECT n FROM v").await, "{\"n\":2}\n");
    let wrong = [
        ("CREATE SINK s FROM CHANGES OF none INTO STREAM changed", "no view `none`"),
        ("CREATE SINK s FROM CHANGES OF v INTO STREAM t", "the view reads stream `t`"),
        ("CREATE SINK s FROM CHANGES OF v INTO STREAM none", "no stream `none`"),
        (
            "CREATE SINK s FROM CHANGES OF v INTO TABLE x",
            "a table as the target of changes is not supported yet",
        ),
        ("CREATE SINK s FROM v INTO STREAM changed", "view `v` has no windows"),
    ];
    for (text, expected) in wrong {
        let error = try_sql(&engine, text).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    sql(&engine, "CREATE SINK s FROM CHANGES OF v INTO STREAM changed").await;
    let shown = sql(&engine, "SHOW CREATE SINK s").await;
    assert!(shown.contains("CREATE SINK s FROM CHANGES OF v INTO STREAM changed"), "{shown}");
    assert_eq!(try_sql(&engine, "DROP VIEW v").await.unwrap_err().to_string(), "sink `s` reads view `v`");
    append(&engine, "t", "{\"k\":3}", None).await;
    let changed = async |expected: &str| {
        let all = "SELECT key, \"row\", position FROM changed ORDER BY _offset";
        let waiting = async { while sql(&engine, all).await != expected {} };
        if tokio::time::timeout(Duration::from_secs(30), waiting).await.is_err() {
            assert_eq!(sql(&engine, all).await, expected, "{}", sql(&engine, "SHOW SINKS").await);
        }
    };
    let first = "{\"key\":\"[]\",\"row\":\"{\\\"n\\\":3}\",\"position\":3}\n";
    changed(first).await;
    // Changes that another sink, whose target never answers, has not delivered are held for that sink alone.
    sql(&engine, "CREATE SINK away FROM CHANGES OF v INTO WEBHOOK 'http://127.0.0.1:1/'").await;
    append(&engine, "t", "{\"k\":4}", None).await;
    let second = first.replace('3', "4");
    changed(&format!("{first}{second}")).await;
    let held = || engine.sinks(&Principal::local()).iter().filter_map(|sink| sink.changes).max();
    assert!(held().is_some_and(|(held, lost)| held > 0 && lost == 0), "{:?}", held());
    sql(&engine, "DROP SINK away; DROP SINK s; CREATE SINK s FROM CHANGES OF v INTO STREAM changed").await;
    assert_eq!(held(), Some((0, 0)));
    append(&engine, "t", "{\"k\":5}", None).await;
    let third = first.replace('3', "5");
    changed(&format!("{first}{second}{third}")).await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_row_did_not_change_is_not_delivered_across_commits_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open_local(dir.path()).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM changed (key JSON, \"row\" JSON, position LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, FIRST(x) AS f, MAX(x) AS hi FROM STREAM(t) GROUP BY k HAVING COUNT(*) > 1",
        "CREATE MATERIALIZED VIEW w AS SELECT hi, COUNT(*) AS ks FROM STREAM(v) GROUP BY hi HAVING SUM(f) < 100",
        "CREATE SINK s FROM CHANGES OF v INTO STREAM changed",
        "CREATE SINK u FROM CHANGES OF w INTO STREAM changed",
    ] {
        sql(&engine, text).await;
    }
    let mut told = String::new();
    for (place, (event, shown)) in [
        (r#"{"k":1,"x":5}"#, &[][..]),
        (r#"{"k":1,"x":3}"#, &[r#"{"k":1,"f":5,"hi":5}"#, r#"{"hi":5,"ks":1}"#]),
        (r#"{"k":1,"x":5}"#, &[]),
        (r#"{"k":1}"#, &[]),
        (r#"{"k":1,"x":7}"#, &[r#"{"k":1,"f":5,"hi":7}"#, "null", r#"{"hi":7,"ks":1}"#]),
        (r#"{"k":1,"x":6}"#, &[]),
        (r#"{"k":2,"x":500}"#, &[]),
        (r#"{"k":2,"x":7}"#, &[r#"{"k":2,"f":500,"hi":500}"#]),
        (r#"{"k":2,"x":8}"#, &[]),
        (r#"{"k":1,"x":8}"#, &[r#"{"k":1,"f":5,"hi":8}"#, "null", r#"{"hi":8,"ks":1}"#]),
    ]
    .into_iter()
    .enumerate()
    {
        let position = place as u64 + 1;
        append(&engine, "t", event, None).await;
        let is_kept = async {
            while engine.views(&Principal::local()).iter().any(|view| view.committed < position) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_kept).await.unwrap();
        if place % 3 == 2 {
            stop(engine, Duration::from_secs(5)).await;
            engine = open_local(dir.path()).await;
        }
        let mut rows: Vec<String> =
            shown.iter().map(|row| format!("{} {position}\n", row.replace('"', ""))).collect();
        rows.sort_unstable();
        told.extend(rows);
    }
    let all = "SELECT coalesce(replace(\"row\", '\"', ''), 'null') || ' ' || position AS r FROM changed ORDER BY position, r";
    let expected: String = told.lines().map(|row| format!("{{\"r\":{}}}\n", Value::from(row))).collect();
    until_said(&engine, all, &expected).await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_view_over_a_view_are_delivered_after_a_restart_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_local(dir.path()).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM changed (key JSON, \"row\" JSON, position LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k",
        "CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS ks FROM STREAM(v) GROUP BY n",
        "CREATE SINK s FROM CHANGES OF w INTO STREAM changed",
    ] {
        sql(&engine, text).await;
    }
    let changed = "SELECT count(*) AS n FROM changed";
    append(&engine, "t", "{\"k\":1}", None).await;
    until_said(&engine, changed, "{\"n\":1}\n").await;
    stop(engine, Duration::from_secs(5)).await;
    let engine = open_local(dir.path()).await;
    // No key has one event any more, and one has two.
    append(&engine, "t", "{\"k\":1}", None).await;
    until_said(&engine, changed, "{\"n\":3}\n").await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_changes_than_may_wait_the_oldest_go_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let few = |history: &mut HistoryConfig| {
        history.sinks_private_addresses = true;
        history.sinks_changes_max = 10;
    };
    let engine = open(dir.path(), few).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k",
        "CREATE SINK away FROM CHANGES OF v INTO WEBHOOK 'http://127.0.0.1:1/'",
    ] {
        sql(&engine, text).await;
    }
    for round in 0..4 {
        let events: Vec<String> = (0..5).map(|key| format!("{{\"k\":{key},\"x\":{round}}}")).collect();
        append(&engine, "t", &events.join("\n"), None).await;
        let is_kept = async {
            while engine.views(&Principal::local())[0].committed < (round + 1) * 5 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_kept).await.unwrap();
    }
    assert_eq!(engine.sinks(&Principal::local())[0].changes, Some((10, 10)));
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_come_back_over_other_streams_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for stream in ["a", "b", "c", "d", "e"] {
        sql(&engine, &format!("CREATE STREAM {stream} (k LONG, ts LONG, WATERMARK FOR ts AS ts)")).await;
        let query = format!("SELECT k, COUNT(*) AS n FROM STREAM({stream}) GROUP BY k");
        sql(&engine, &format!("CREATE MATERIALIZED VIEW v{stream} AS {query}")).await;
    }
    let join = |from: &str, into: &str| {
        format!(
            "CREATE JOIN j INTO {into} AS SELECT x.k AS k FROM STREAM({from}) x JOIN STREAM({from}) y \
             ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '1 s'"
        )
    };
    for text in [
        "CREATE MATERIALIZED VIEW over_a AS SELECT n, COUNT(*) AS ks FROM STREAM(va) GROUP BY n",
        "CREATE SINK s FROM CHANGES OF over_a INTO STREAM b",
        "CREATE ALERT w ON vb WHEN n > 1 INTO c",
        &join("c", "d"),
    ] {
        sql(&engine, text).await;
    }
    let (by_sink, by_alert) = ("by sink `s` into stream `b`", "by alert `w` into stream `c`");
    let by_join = "by join `j` into stream `d`";
    for (text, stream, way) in [
        ("CREATE SINK back FROM CHANGES OF vb INTO STREAM a", "a", by_sink.to_owned()),
        (
            "CREATE SINK back FROM CHANGES OF vb INTO WEBHOOK 'http://x/' WITH (retries = 1, dead_letter = a)",
            "a",
            by_sink.to_owned(),
        ),
        ("CREATE ALERT back ON vb WHEN n > 1 INTO a", "a", by_sink.to_owned()),
        (
            "CREATE ALERT back ON (SELECT k, COUNT(*) AS n FROM STREAM(c) GROUP BY k) WHEN n > 1 INTO a",
            "a",
            format!("{by_sink}, {by_alert}"),
        ),
        (&join("b", "a").replace(" j ", " back "), "a", by_sink.to_owned()),
        ("CREATE SINK back FROM CHANGES OF vd INTO STREAM b", "b", format!("{by_alert}, {by_join}")),
    ] {
        let error = try_sql(&engine, text).await.unwrap_err().to_string();
        assert_eq!(
            error,
            format!("rows of stream `{stream}` would return to it in a cycle: {way}"),
            "{text}"
        );
    }
    // Round by another way is no better, and what leads nowhere back is fine.
    let back = "CREATE SINK back FROM CHANGES OF vd INTO STREAM a";
    sql(&engine, &format!("DROP SINK s; {back}; CREATE SINK onward FROM CHANGES OF va INTO STREAM e")).await;
    let error = try_sql(&engine, "CREATE SINK s FROM CHANGES OF over_a INTO STREAM b").await.unwrap_err();
    assert!(
        error.to_string().ends_with(&format!("{by_alert}, {by_join}, by sink `back` into stream `a`")),
        "{error}"
    );
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_the_stream_refuses_go_elsewhere_with_their_own_reasons_and_the_others_are_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_local(dir.path()).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM lost WITH (store = true)",
        "CREATE STREAM half (key JSON, \"row\" JSON, position LONG, kk LONG PATH 'row.k' CHECK (kk < 5), s LONG PATH 'row.s' \
         CHECK (s <> 8))",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM STREAM(t) GROUP BY k",
        "CREATE SINK part FROM CHANGES OF v INTO STREAM half WITH (dead_letter = lost)",
    ] {
        sql(&engine, text).await;
    }
    let events: Vec<String> = (0..10).map(|k| format!("{{\"k\":{k},\"x\":{}}}", 2 * k)).collect();
    append(&engine, "t", &events.join("\n"), None).await;
    let expected = [0, 1, 2, 3].map(|k| format!("{{\"kk\":{k}}}\n")).concat();
    until_said(&engine, "SELECT kk FROM half ORDER BY kk", &expected).await;
    let why = |k: i64| match k {
        4 => "column `s`: `CHECK (s <> 8)` failed",
        _ => "column `kk`: `CHECK (kk < 5)` failed",
    };
    let expected = [4, 5, 6, 7, 8, 9].map(|k: i64| {
        let error = format!("the row is not a valid event of the stream: {}", why(k));
        format!("{{\"sink\":\"part\",\"error\":\"{error}\",\"k\":{k}}}\n")
    });
    let lost = "SELECT sink, error, json_get_int(\"row\", 'row', 'k') AS k FROM lost ORDER BY json_get_int(\"row\", 'row', 'k')";
    until_said(&engine, lost, &expected.concat()).await;
    let sink: Value = serde_json::from_str(&sql(&engine, "SHOW SINKS").await).unwrap();
    assert_eq!((&sink["rows"], &sink["dead_rows"], &sink["failing"]), (&json!(10), &json!(6), &Value::Null));
}
