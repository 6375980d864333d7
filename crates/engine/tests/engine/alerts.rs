//! Tests alerts: the stream gets one message for each key that begins to meet the condition, and one for its end, whatever
//! happens.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, Principal};
use swiftwater_testkit::Rng;

use crate::{
    history::{append, sql, stop, try_sql},
    receiver::Receiver,
    rollups::{WINDOWS, Windows},
    views::open,
};

async fn start(dir: &std::path::Path) -> Engine {
    let engine = open(dir, |history| history.alert_keys_max = 50).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM told (state STRING, key JSON, \"row\" JSON)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS x FROM STREAM(t) GROUP BY k HAVING SUM(x) < 100",
    ] {
        sql(&engine, text).await;
    }
    engine
}

/// Every message so far, by key: the states in order.
async fn told(engine: &Engine) -> BTreeMap<i64, Vec<String>> {
    let rows = sql(engine, "SELECT state, key FROM told ORDER BY _offset").await;
    let mut told: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let key = serde_json::from_str::<Vec<i64>>(row["key"].as_str().unwrap()).unwrap()[0];
        told.entry(key).or_default().push(row["state"].as_str().unwrap().to_owned());
    }
    told
}

/// Repeats a query until it has this answer: an alert's messages come some time after its events.
async fn until(engine: &Engine, expected: &BTreeMap<i64, Vec<String>>) {
    let asking = async {
        while &told(engine).await != expected {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(30), asking).await.is_err() {
        assert_eq!(&told(engine).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_beginning_and_each_end_is_told_once() {
    each_is_told_once("v").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_on_a_query_tells_what_one_on_a_view_of_it_does() {
    each_is_told_once("(SELECT k, SUM(x) AS x FROM STREAM(t) GROUP BY k HAVING SUM(x) < 100)").await;
}

async fn each_is_told_once(source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = start(dir.path()).await;
    let first = "{\"k\":1,\"x\":50}\n{\"k\":2,\"x\":1}";
    let is_view = source == "v";
    if is_view {
        append(&engine, "t", first, None).await;
    }
    sql(&engine, &format!("CREATE ALERT high ON {source} WHEN x > 10 INTO told")).await;
    if !is_view {
        // It is of what comes after it was created.
        append(&engine, "t", first, None).await;
    }
    let mut random = Rng::new(5);
    let mut sums: BTreeMap<i64, i64> = [(1, 50), (2, 1)].into();
    let mut expected: BTreeMap<i64, Vec<String>> = [(1, vec!["firing".to_owned()])].into();
    until(&engine, &expected).await;
    for round in 0..60 {
        let key = random.below(4) as i64;
        let x = random.below(60) as i64 - 30;
        append(&engine, "t", &format!("{{\"k\":{key},\"x\":{x}}}"), None).await;
        let sum = sums.entry(key).or_insert(0);
        let meets = |sum: i64| sum > 10 && sum < 100;
        let before = meets(*sum);
        *sum += x;
        if before != meets(*sum) {
            let state = if before { "resolved" } else { "firing" };
            expected.entry(key).or_default().push(state.to_owned());
        }
        // A change that is undone before anybody looks is none: so each is waited for, or its engine ends with it.
        until(&engine, &expected).await;
        if round % 20 == 10 {
            stop(engine, Duration::ZERO).await;
            engine = open(dir.path(), |_| ()).await;
        }
    }
    assert!(expected.values().map(Vec::len).sum::<usize>() > 10, "{expected:?}");
    let alert = sql(&engine, "SHOW ALERTS").await;
    let alert: Value = serde_json::from_str(&alert).unwrap();
    let firing = expected.values().filter(|states| states.len() % 2 == 1).count();
    assert_eq!((&alert["alert"], &alert["firing"]), (&"high".into(), &firing.into()), "{alert}");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_against_an_alert_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let wrong = [
        ("CREATE ALERT a ON none WHEN x > 1 INTO told", "no view `none`"),
        ("CREATE ALERT a ON v WHEN x > 1 INTO none", "no stream `none`"),
        (
            "CREATE ALERT a ON v WHEN x > 1 INTO t",
            "view `v` reads stream `t`: the alert would trigger itself",
        ),
        ("CREATE ALERT a ON v WHEN y > 1 INTO told", "no column `y`"),
        ("CREATE ALERT a ON v WHEN x + 1 INTO told", "a condition is BOOLEAN, and this is LONG"),
        (
            "CREATE ALERT a ON (SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k) WHEN y > 1 INTO told",
            "the query has no column `y`",
        ),
        (
            "CREATE ALERT a ON (SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k) WHEN n > 1 INTO t",
            "the query reads stream `t`: the alert would trigger itself",
        ),
        (
            "CREATE ALERT a ON (SELECT k FROM STREAM(t)) WHEN k > 1 INTO told",
            "the query of an alert needs GROUP BY",
        ),
        (
            "CREATE ALERT a ON (SELECT k, COUNT(*) AS n FROM STREAM(none) GROUP BY k) WHEN n > 1 INTO told",
            "no stream `none`",
        ),
        (
            "CREATE ALERT a ON v WHEN x > 1 INTO WEBHOOK 'http://x/' WITH (retries = 1, dead_letter = none)",
            "no stream `none`",
        ),
        (
            "CREATE ALERT a ON v WHEN x > 1 INTO WEBHOOK 'http://x/' WITH (retries = 1, dead_letter = t)",
            "view `v` reads stream `t`",
        ),
        ("DROP ALERT a", "no alert `a`"),
    ];
    for (text, expected) in wrong {
        let error = try_sql(&engine, text).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    sql(&engine, "CREATE ALERT a ON v WHEN x > 1 INTO told WITH (resolve = false)").await;
    sql(&engine, "CREATE ALERT IF NOT EXISTS a ON v WHEN x > 5 INTO told").await;
    for (text, expected) in [
        ("DROP VIEW v", "alert `a` watches view `v`"),
        ("DROP STREAM told", "alert `a` writes into stream `told`"),
        ("CREATE ALERT a ON v WHEN x > 1 INTO told", "alert `a` already exists"),
    ] {
        assert_eq!(try_sql(&engine, text).await.unwrap_err().to_string(), expected);
    }
    let shown = sql(&engine, "SHOW CREATE ALERT a").await;
    assert!(shown.contains("ON v WHEN x > 1\\nINTO told WITH (resolve = false)"), "{shown}");
    // So many keys that not all are told, of which none is told of its end.
    let events: Vec<String> = (0..60).map(|key| format!("{{\"k\":{key},\"x\":5}}")).collect();
    append(&engine, "t", &events.join("\n"), None).await;
    let counted = async {
        loop {
            let alert: Value = serde_json::from_str(&sql(&engine, "DESCRIBE ALERT a").await).unwrap();
            if alert["position"] == 60 && alert["messages"] == 50 {
                assert_eq!((&alert["firing"], &alert["passed_over"]), (&50.into(), &10.into()));
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.unwrap();
    sql(&engine, "DROP ALERT a").await;
    sql(&engine, "DROP VIEW v").await;
    sql(&engine, "DROP STREAM told").await;
    assert_eq!(sql(&engine, "SHOW ALERTS").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_query_of_an_alert_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let query = "SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k";
    // Faults have their places in the whole statement.
    for text in [
        "CREATE ALERT a ON (SELECT k,\n SUM(nix(x)) AS n FROM STREAM(t) GROUP BY k) WHEN n > 1 INTO told",
        "CREATE ALERT a ON (SELECT k, COUNT(*) AS n FROM STREAM(t)\n GROUP BY k) WHEN n > nix(n) INTO told",
    ] {
        let error = try_sql(&engine, text).await.unwrap_err();
        assert_eq!(error.place().map(|place| place.line), Some(2), "{text}: {error}");
    }
    sql(&engine, &format!("CREATE ALERT a ON ({query}) WHEN n > 1 INTO told")).await;
    let shown = sql(&engine, "SHOW CREATE ALERT a").await;
    assert_eq!(
        serde_json::from_str::<Value>(&shown).unwrap()["statement"],
        json!(format!("CREATE ALERT a ON ({query}) WHEN n > 1\nINTO told"))
    );
    let shown: Value = serde_json::from_str(&sql(&engine, "DESCRIBE ALERT a").await).unwrap();
    assert_eq!(
        (&shown["view"], &shown["query"], &shown["target"]),
        (&Value::Null, &query.into(), &"told".into())
    );
    // No other statement finds its state.
    assert!(!sql(&engine, "SHOW VIEWS").await.contains("alert"));
    assert_eq!(engine.views(&Principal::local()).len(), 1);
    for text in [
        "SELECT * FROM \"alert a\"",
        "DROP VIEW \"alert a\"",
        "CREATE SINK s FROM CHANGES OF \"alert a\" INTO STREAM told",
    ] {
        try_sql(&engine, text).await.unwrap_err();
    }
    assert_eq!(engine.view(&Principal::local(), "alert a").unwrap_err().to_string(), "no view `alert a`");
    for (text, expected) in [
        ("DROP STREAM told", "alert `a` writes into stream `told`"),
        ("ALTER STREAM t ALTER COLUMN k TYPE DOUBLE", "view `v` reads stream `t`"),
    ] {
        assert_eq!(try_sql(&engine, text).await.unwrap_err().to_string(), expected);
    }
    sql(&engine, "DROP VIEW v").await;
    let error = try_sql(&engine, "DROP STREAM t").await.unwrap_err().to_string();
    assert_eq!(error, "the query of alert `a` reads stream `t`");
    append(&engine, "t", "{\"k\":1}\n{\"k\":2}\n{\"k\":1}", None).await;
    until(&engine, &[(1, vec!["firing".to_owned()])].into()).await;
    // It stays what it was when the log is gone through again, and when the catalog was written down.
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "t", "{\"k\":2}", None).await;
    until(&engine, &[(1, vec!["firing".to_owned()]), (2, vec!["firing".to_owned()])].into()).await;
    sql(&engine, "DROP ALERT a").await;
    sql(&engine, "DROP STREAM t").await;
    assert_eq!(sql(&engine, "SHOW ALERTS").await, "");
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path(), |history| history.views_max = 0).await;
    sql(&engine, "CREATE STREAM t (k LONG)").await;
    let error =
        try_sql(&engine, &format!("CREATE ALERT a ON ({query}) WHEN n > 1 INTO told")).await.unwrap_err();
    assert_eq!(error.to_string(), "number of views would be 1, limit is 0");
    assert_eq!(sql(&engine, "SHOW ALERTS").await, "");
}

/// Windows as a loop over the events has them: what is told of each key, and the row.
fn told_of_windows(windows: &Windows, events: &[(i64, i64, i64)]) -> BTreeMap<i64, Vec<(String, Value)>> {
    let (mut sums, mut latest) = (BTreeMap::<(i64, i64), i64>::new(), i64::MIN);
    for (ts, k, x) in events {
        for start in windows.holding(*ts) {
            if start + windows.size > latest.saturating_sub(100) {
                *sums.entry((start, *k)).or_default() += x;
            }
        }
        latest = latest.max(*ts);
    }
    let Some(first) = sums.keys().next().map(|(window, _)| *window) else { return BTreeMap::new() };
    let (mut met, mut told) = (std::collections::BTreeSet::new(), BTreeMap::<i64, Vec<_>>::new());
    for window in (first..=latest - 100 - windows.size).step_by(windows.every as usize) {
        for k in 0..5 {
            let sum = sums.get(&(window, k));
            let row = sum.map(|x| json!({"w": window, "k": k, "x": x})).unwrap_or_default();
            let meets = sum.is_some_and(|x| *x > 20);
            let state = match meets {
                true if met.insert(k) => "firing",
                false if met.remove(&k) => "resolved",
                _ => continue,
            };
            told.entry(k).or_default().push((state.to_owned(), row));
        }
    }
    told
}

fn messages<'m>(lines: impl Iterator<Item = &'m str>) -> BTreeMap<i64, Vec<(String, Value)>> {
    let mut told = BTreeMap::<i64, Vec<_>>::new();
    for line in lines {
        let mut message: Value = serde_json::from_str(line).unwrap();
        // In a stream they are texts of JSON.
        for member in ["key", "row"] {
            if let Some(text) = message[member].as_str() {
                message[member] = serde_json::from_str(text).unwrap();
            }
        }
        let state = message["state"].as_str().unwrap().to_owned();
        told.entry(message["key"][0].as_i64().unwrap()).or_default().push((state, message["row"].take()));
    }
    told
}

fn by_window(windows: &Windows) -> String {
    let text = windows.text;
    format!("(SELECT window_start AS w, k, SUM(x) AS x FROM STREAM(t) GROUP BY k WINDOWING {text})")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_window_is_looked_at_once_when_it_is_closed_however_often_that_is_cut_off() {
    // At once: most of each is waiting.
    let [first, second, third] = &WINDOWS;
    tokio::join!(look_at_windows(first), look_at_windows(second), look_at_windows(third));
}

async fn look_at_windows(windows: &Windows) {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(|_, before| if before == 0 { 503 } else { 200 });
    let (mut random, mut events, mut now) = (Rng::new(11), Vec::new(), 0);
    for round in 0..9 {
        let engine = open(dir.path(), |history| history.sinks_private_addresses = true).await;
        if round == 0 {
            for text in [
                "CREATE STREAM t (ts LONG, k LONG, x LONG)",
                "CREATE STREAM told (state STRING, key JSON, \"row\" JSON)",
                &format!("CREATE ALERT a ON {} WHEN x > 20 INTO told", by_window(windows)),
                &format!(
                    "CREATE ALERT hook ON {} WHEN x > 20 INTO WEBHOOK 'http://{}/in'",
                    by_window(windows),
                    receiver.address
                ),
            ] {
                sql(&engine, text).await;
            }
        }
        let mut lines = Vec::new();
        for _ in 0..40 {
            // Now and then nothing comes for some windows.
            now += if random.chance(0.05) { 2500 } else { random.below(150) as i64 };
            let event = (now - random.below(400) as i64, random.below(5) as i64, random.below(15) as i64);
            events.push(event);
            lines.push(format!(r#"{{"ts":{},"k":{},"x":{}}}"#, event.0, event.1, event.2));
        }
        append(&engine, "t", &lines.join("\n"), None).await;
        if round % 3 != 2 {
            stop(engine, Duration::ZERO).await;
            continue;
        }
        let expected = told_of_windows(windows, &events);
        let in_stream = async || {
            let rows = sql(&engine, "SELECT state, key, \"row\" FROM told ORDER BY _offset").await;
            messages(rows.lines())
        };
        let told = async || {
            let hooked = receiver.lines();
            (in_stream().await, messages(hooked.iter().map(String::as_str)))
        };
        let waiting = async {
            while told().await != (expected.clone(), expected.clone()) {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err() {
            let (stream, hooked) = told().await;
            assert_eq!(stream, expected, "{}", sql(&engine, "SHOW ALERTS").await);
            assert_eq!(hooked, expected, "{}", sql(&engine, "SHOW ALERTS").await);
        }
        stop(engine, Duration::from_secs(5)).await;
    }
    let resolved =
        told_of_windows(windows, &events).into_values().flatten().filter(|(state, _)| state == "resolved");
    let (without, with): (Vec<_>, Vec<_>) = resolved.partition(|(_, row)| row.is_null());
    assert!(without.len() > 3 && with.len() > 3, "both ways to be resolved are there");
    assert!(receiver.requests().iter().all(|request| request.content_type == "application/json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_closed_windows_of_a_view_are_looked_at_however_short_they_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM t (ts LONG NOT NULL, k LONG, x LONG)",
        "CREATE STREAM told (state STRING, key JSON, \"row\" JSON)",
        "CREATE MATERIALIZED VIEW w WITH (retention = '1 second') AS \
         SELECT k, SUM(x) AS x FROM STREAM(t) GROUP BY k WINDOWING TUMBLING(1000, EVENT(ts))",
        "CREATE ALERT a ON w WHEN x > 10 INTO told",
    ] {
        sql(&engine, text).await;
    }
    // Every other window meets it; all but the last two are past `retention` when they first come to disk.
    let event = |number: i64| format!("{{\"ts\":{},\"k\":7,\"x\":{}}}", number * 1000, 20 - number % 2 * 15);
    append(&engine, "t", &(0..100).map(event).collect::<Vec<_>>().join("\n"), None).await;
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), |_| ()).await;
    let states: Vec<String> = (0..99).map(|number| ["firing", "resolved"][number % 2].to_owned()).collect();
    until(&engine, &[(7, states)].into()).await;
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM w").await, "{\"n\":2}\n");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_were_looked_at_are_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM t (ts LONG, k LONG, x LONG)",
        "CREATE STREAM told (state STRING, key JSON, \"row\" JSON)",
        "CREATE MATERIALIZED VIEW w AS SELECT k, COUNT(*) AS x FROM STREAM(t) GROUP BY k WINDOWING TUMBLING(1000, EVENT(ts, 100))",
        &format!("CREATE ALERT own ON {} WHEN x > 0 INTO told", by_window(&WINDOWS[0])),
    ] {
        sql(&engine, text).await;
    }
    // One on a view begins with the window that is open when it is created.
    append(&engine, "t", "{\"ts\":100,\"k\":7,\"x\":1}\n{\"ts\":5000,\"k\":8,\"x\":1}", None).await;
    until(&engine, &[(7, vec!["firing".to_owned(), "resolved".to_owned()])].into()).await;
    let waiting = async { while sql(&engine, "SELECT count(*) AS n FROM w").await != "{\"n\":2}\n" {} };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
    sql(&engine, "DROP ALERT own").await;
    sql(&engine, "CREATE ALERT on_view ON w WHEN x > 0 INTO told WITH (resolve = false)").await;
    append(&engine, "t", "{\"ts\":9000,\"k\":9,\"x\":1}", None).await;
    let states = ["firing", "resolved"].map(str::to_owned).to_vec();
    until(&engine, &[(7, states), (8, vec!["firing".to_owned()])].into()).await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_webhook_is_told_comes_in_order_and_goes_elsewhere_where_it_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    // The first of each key is not answered well, and what is of key 7 never.
    let receiver = Receiver::start(|body, before| match (body.contains("\"key\":[7]"), before) {
        (_, 0) => 503,
        (true, _) => 400,
        (false, _) => 204,
    });
    let local = |history: &mut swiftwater_engine::HistoryConfig| history.sinks_private_addresses = true;
    let mut engine = open(dir.path(), local).await;
    for text in [
        "CREATE STREAM t (k LONG, x LONG)",
        "CREATE STREAM lost WITH (store = true)",
        "CREATE STREAM told (state STRING, key JSON, \"row\" JSON)",
        &format!(
            "CREATE ALERT hook ON (SELECT k, SUM(x) AS x FROM STREAM(t) GROUP BY k) WHEN x > 10 INTO WEBHOOK 'http://{}/' \
             WITH (retries = 5, dead_letter = lost, batch_rows = 2, headers = 'X-Of: swiftwater')",
            receiver.address
        ),
    ] {
        sql(&engine, text).await;
    }
    let mut expected: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for round in 0..8 {
        let state = ["firing", "resolved"][round % 2];
        for k in [1, 2, 3] {
            expected.entry(k).or_default().push(state.to_owned());
        }
        let x = if round % 2 == 0 { 20 } else { -20 };
        let events = [1, 2, 3].map(|k| format!("{{\"k\":{k},\"x\":{x}}}"));
        append(&engine, "t", &events.join("\n"), None).await;
        let states = || {
            let lines = receiver.lines();
            let told = messages(lines.iter().map(String::as_str));
            told.into_iter()
                .map(|(key, told)| (key, told.into_iter().map(|(state, _)| state).collect()))
                .collect::<BTreeMap<i64, Vec<String>>>()
        };
        let waiting = async {
            while states() != expected {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), waiting).await.is_err() {
            assert_eq!(states(), expected, "{}", sql(&engine, "SHOW ALERTS").await);
        }
        if round % 3 == 1 {
            stop(engine, Duration::ZERO).await;
            engine = open(dir.path(), local).await;
        }
    }
    assert!(receiver.requests().iter().all(|request| request.content_type == "application/x-ndjson"));
    append(&engine, "t", "{\"k\":7,\"x\":20}", None).await;
    let shown = async {
        loop {
            let alert: Value = serde_json::from_str(&sql(&engine, "SHOW ALERTS").await).unwrap();
            if alert["dead"] == 1 {
                break alert;
            }
        }
    };
    let alert = tokio::time::timeout(Duration::from_secs(30), shown).await.unwrap();
    let lost = sql(&engine, "SELECT alert, error FROM lost").await;
    assert_eq!(lost, "{\"alert\":\"hook\",\"error\":\"it answered 400\"}\n");
    assert_eq!(
        (&alert["target"], &alert["failing"]),
        (&format!("WEBHOOK 'http://{}/'", receiver.address).into(), &Value::Null)
    );
    assert_eq!(
        try_sql(&engine, "DROP STREAM lost").await.unwrap_err().to_string(),
        "alert `hook` writes into stream `lost`"
    );
    stop(engine, Duration::from_secs(5)).await;
    // If the settings do not allow this machine, it is not reached.
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "t", "{\"k\":1,\"x\":20}", None).await;
    let failing = async {
        loop {
            let alert: Value = serde_json::from_str(&sql(&engine, "SHOW ALERTS").await).unwrap();
            if alert["failing"].as_str().is_some_and(|why| why.contains("which the settings do not allow")) {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), failing).await.unwrap();
}
