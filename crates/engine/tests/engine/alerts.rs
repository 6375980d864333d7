//! Alerts: the stream is told of each key that begins to meet the condition, and of its end, once each, whatever happens.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use swiftwater_engine::Engine;
use swiftwater_testkit::Rng;

use crate::{
    history::{append, sql, stop, try_sql},
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

/// Asks until the answer is this: what an alert tells comes some time after what it is of.
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
    let dir = tempfile::tempdir().unwrap();
    let mut engine = start(dir.path()).await;
    append(&engine, "t", "{\"k\":1,\"x\":50}\n{\"k\":2,\"x\":1}", None).await;
    sql(&engine, "CREATE ALERT high ON v WHEN x > 10 INTO told").await;
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
            "view `v` is of stream `t`: its alert would tell of itself",
        ),
        ("CREATE ALERT a ON v WHEN y > 1 INTO told", "no column `y`"),
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
        ("DROP STREAM told", "alert `a` tells stream `told`"),
        ("CREATE ALERT a ON v WHEN x > 1 INTO told", "there is a alert `a` already"),
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
