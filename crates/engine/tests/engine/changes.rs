//! Tests change feeds of views: a reader of all changes has the view, however slow it is and wherever it begins.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use swiftwater_engine::{
    AppendOptions, EndReason, Engine, EngineError, Principal, SubmitOptions, Subscription, ViewChanges,
    ViewChangesSome, ViewRange,
};
use swiftwater_event::StreamName;
use swiftwater_testkit::Rng;

use crate::{
    history::{append, batch, sql, stop},
    views::{lines, open, page},
};

async fn changes(engine: &Engine, from: Option<u64>) -> ViewChanges {
    engine.view_changes(&Principal::local(), "v", from).await.unwrap()
}

/// A listener's knowledge of a view.
#[derive(Default)]
struct Known {
    rows: BTreeMap<String, String>,
    position: u64,
}

impl Known {
    fn learn(&mut self, some: ViewChangesSome) {
        for change in some.changes {
            let key = String::from_utf8(change.key.json()).unwrap();
            match change.row {
                Some(row) => self.rows.insert(key, String::from_utf8(row).unwrap()),
                None => self.rows.remove(&key),
            };
        }
        self.position = some.position.unwrap_or(self.position);
    }

    async fn learn_until(&mut self, changes: &mut ViewChanges, position: u64) {
        while self.position < position {
            let some = tokio::time::timeout(Duration::from_secs(30), changes.next()).await;
            self.learn(some.expect("there is more").unwrap().unwrap());
        }
    }
}

const VIEW: &str = "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(x) AS x FROM STREAM(t) GROUP BY k \
     HAVING COUNT(*) % 5 != 4";

/// One listener listens from the start, one reads rarely, and one continues where another feed broke off.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_all_changes_has_the_view() {
    for (seed, keys) in [(0, 3), (1, 200), (2, 20_000)] {
        let mut random = Rng::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path(), |_| ()).await;
        sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
        sql(&engine, VIEW).await;
        let (mut eager, mut lazy) = (Known::default(), Known::default());
        let (mut of_eager, mut of_lazy) = (changes(&engine, Some(0)).await, changes(&engine, None).await);
        let mut next = 0;
        for round in 0..40 {
            let events: Vec<String> = (0..1 + random.below(if round % 20 == 0 { 6000 } else { 20 }))
                .map(|_| format!(r#"{{"k":{},"x":{}}}"#, random.below(keys), random.below(9)))
                .collect();
            next += events.len() as u64;
            append(&engine, "t", &events.join("\n"), None).await;
            if random.chance(0.5) {
                eager.learn_until(&mut of_eager, next).await;
            }
            if random.chance(0.05) {
                of_eager = changes(&engine, Some(eager.position)).await;
            }
            if random.chance(0.05) {
                drop((of_eager, of_lazy));
                stop(engine, Duration::ZERO).await;
                engine = open(dir.path(), |_| ()).await;
                of_eager = changes(&engine, Some(eager.position)).await;
                of_lazy = changes(&engine, Some(lazy.position)).await;
            }
        }
        eager.learn_until(&mut of_eager, next).await;
        lazy.learn_until(&mut of_lazy, next).await;
        let all = page(&engine, "v", ViewRange { limit: u64::MAX, ..ViewRange::default() }).await;
        let mut expected = lines(&all.rows);
        expected.sort_unstable();
        drop((of_eager, of_lazy));
        for known in [eager, lazy] {
            let mut rows: Vec<String> = known.rows.into_values().collect();
            rows.sort_unstable();
            assert!(rows == expected, "seed {seed}: {} rows, not {}", rows.len(), expected.len());
        }
        stop(engine, Duration::from_secs(5)).await;
    }
}

/// The rows of a feed up to a position; returns how often a row was repeated without a change.
async fn told_until(feed: &mut ViewChanges, known: &mut Known, position: u64) -> usize {
    let mut unchanged = 0;
    while known.position < position {
        let some = tokio::time::timeout(Duration::from_secs(30), feed.next()).await;
        let some = some.expect("there is more").unwrap().unwrap();
        for change in &some.changes {
            let key = String::from_utf8(change.key.json()).unwrap();
            let row = change.row.as_ref().map(|row| String::from_utf8(row.clone()).unwrap());
            unchanged += usize::from(known.rows.get(&key) == row.as_ref());
        }
        known.learn(some);
    }
    unchanged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_does_not_tell_of_rows_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW v DELETE WHEN x = 0 AS SELECT k, FIRST(x) AS f, MAX(x) AS hi, COLLECT_SET(x) AS xs, \
         COUNT(*) FILTER (WHERE x > 7) AS n FROM STREAM(t) GROUP BY k HAVING COUNT(*) % 7 > 1",
    )
    .await;
    let (mut feed, mut known) = (changes(&engine, None).await, Known::default());
    let (mut random, mut next) = (Rng::new(3), 0);
    for round in 0..200 {
        // Many more keys than are told at once, now and then.
        let (count, keys) = if round % 100 == 50 { (12_000, 20_000) } else { (1 + random.below(4), 5) };
        let events: Vec<String> = (0..count)
            .map(|_| format!(r#"{{"k":{},"x":{}}}"#, random.below(keys), random.below(9)))
            .collect();
        next += events.len() as u64;
        append(&engine, "t", &events.join("\n"), None).await;
        // A feed that is behind may find that a row is again what it was.
        if random.chance(0.5) {
            assert_eq!(told_until(&mut feed, &mut known, next).await, 0, "round {round}");
        }
    }
    assert_eq!(told_until(&mut feed, &mut known, next).await, 0);
    let all = page(&engine, "v", ViewRange { limit: u64::MAX, ..ViewRange::default() }).await;
    let mut expected = lines(&all.rows);
    expected.sort_unstable();
    let mut rows: Vec<String> = known.rows.into_values().collect();
    rows.sort_unstable();
    assert!(rows == expected, "{} rows, not {}", rows.len(), expected.len());
    drop(feed);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_of_a_view_of_a_view_does_not_tell_of_rows_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW v AS SELECT k, MAX(x) AS hi, COUNT(*) AS n FROM STREAM(t) GROUP BY k",
    )
    .await;
    let over = "SELECT hi, COUNT(*) AS ks FROM STREAM(v) GROUP BY hi HAVING COUNT(*) > 1 OR SUM(n) > 4";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW w AS {over}")).await;
    let mut feed = engine.view_changes(&Principal::local(), "w", None).await.unwrap();
    let mut told = Vec::new();
    for (k, x) in [(1, 5), (1, 3), (1, 2), (1, 1), (1, 0), (1, 4), (2, 5), (2, 1), (3, 9)] {
        append(&engine, "t", &format!(r#"{{"k":{k},"x":{x}}}"#), None).await;
        // With its own commit.
        assert_eq!(sql(&engine, "SELECT count(*) >= 0 AS is_there FROM w").await, "{\"is_there\":true}\n");
    }
    append(&engine, "t", "{\"k\":4,\"x\":9}", None).await;
    while told.last().is_none_or(|last| last != "{\"hi\":9,\"ks\":2}") {
        let some = tokio::time::timeout(Duration::from_secs(30), feed.next()).await;
        let some = some.expect("there is more").unwrap().unwrap();
        told.extend(
            some.changes
                .into_iter()
                .filter_map(|change| change.row)
                .map(|row| String::from_utf8(row).unwrap()),
        );
    }
    // A key that changes several times before it is read is returned once.
    assert_eq!(told, ["{\"hi\":5,\"ks\":2}", "{\"hi\":9,\"ks\":2}"]);
    drop(feed);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_ends_with_its_view() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(&engine, VIEW).await;
    let mut feed = changes(&engine, None).await;
    sql(&engine, "DROP VIEW v").await;
    assert_eq!(feed.next().await.unwrap(), None);
    drop(feed);
    let error = engine.view_changes(&Principal::local(), "v", None).await.err().unwrap();
    assert_eq!(error, EngineError::not_found(swiftwater_engine::ObjectKind::View, "v"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_cannot_begin_beyond_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(&engine, VIEW).await;
    append(&engine, "t", r#"{"k":1,"x":5}"#, None).await;
    assert_eq!(changes(&engine, Some(1)).await.position(), 1);
    let error = engine.view_changes(&Principal::local(), "v", Some(2)).await.err().unwrap();
    assert_eq!(error, EngineError::BeyondEnd { stream: "t".to_owned(), position: 2, end: 1 });
    assert_eq!(error.to_string(), "there is no position 2 in stream `t`: its log ends at 1");
    append(&engine, "t", r#"{"k":1,"x":5}"#, None).await;
    assert_eq!(changes(&engine, Some(2)).await.position(), 2);
    stop(engine, Duration::ZERO).await;
}

/// A live query over a view sees its rows as they change; while nobody asks, nothing is made of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_query_over_a_view_sees_its_rows_change() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(&engine, VIEW).await;
    append(&engine, "t", r#"{"k":1,"x":5}"#, None).await;
    for round in 0..3 {
        let text = "SELECT k, x FROM STREAM(v) WHERE x > 9 LIMIT 2";
        let mut asked = engine.submit(&Principal::local(), text, SubmitOptions::default()).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            append(&engine, "t", &format!(r#"{{"k":{},"x":6}}"#, 10 * round + 2), None).await;
            while let Some(emit) = asked.try_next() {
                seen.extend(
                    String::from_utf8(emit.records.text.to_vec()).unwrap().lines().map(str::to_owned),
                );
            }
        }
        for row in &seen[..2] {
            let row: Value = serde_json::from_str(row).unwrap();
            // Rows that the view took in late in the previous round may be among them.
            let k = row["k"].as_i64().unwrap();
            assert!(k % 10 == 2 && k <= 10 * round + 2, "{row}");
            assert!(row["x"].as_i64().unwrap() > 9 && row["x"].as_i64().unwrap() % 6 == 0, "{row}");
        }
    }
    let (principal, name) = (Principal::local(), StreamName::new("v").unwrap());
    let appended = engine.append(&principal, &name, batch("{}"), AppendOptions::default()).await;
    let error = appended.unwrap_err();
    assert_eq!(error.to_string(), "view `v` already exists");
}

fn ask(engine: &Engine, text: &str, detach: bool) -> Subscription {
    let options = SubmitOptions { detach, ..SubmitOptions::default() };
    engine.submit(&Principal::local(), text, options).unwrap()
}

/// The next answer of a live query, or the reason of its end.
async fn next(asked: &mut Subscription) -> Result<String, EndReason> {
    let emit = tokio::time::timeout(Duration::from_secs(30), asked.next()).await;
    let emit = emit.expect("there is more").expect("it has not ended");
    match &emit.meta.finished {
        Some(finished) => Err(finished.reason.clone()),
        None => Ok(String::from_utf8(emit.records.text.to_vec()).unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_query_sees_a_view_that_is_created_after_it_and_ends_when_that_is_dropped() {
    const QUERY: &str = "SELECT k, n, x FROM STREAM(v, MAX, TIME)";
    let dropped = || EndReason::Failed("view `v` was dropped".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    for k in 0..3 {
        let mut before = ask(&engine, QUERY, true);
        sql(&engine, VIEW).await;
        let event = format!(r#"{{"k":{k},"x":5}}"#);
        append(&engine, "t", &event, None).await;
        let row = |n: i64| format!("{{\"k\":{k},\"n\":{n},\"x\":{}}}\n", 5 * n);
        assert_eq!(next(&mut before).await, Ok(row(1)));
        let mut after = ask(&engine, QUERY, false);
        append(&engine, "t", &event, None).await;
        assert_eq!(next(&mut before).await, Ok(row(2)));
        assert_eq!(next(&mut after).await, Ok(row(2)));
        sql(&engine, "DROP VIEW v").await;
        let status = engine.query(&Principal::local(), &before.query().id).unwrap();
        assert_eq!((status.finished.is_some(), status.records), (true, 2));
        assert_eq!(next(&mut before).await, Err(dropped()));
        assert_eq!(next(&mut after).await, Err(dropped()));
    }
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_query_sees_a_view_of_a_view_that_is_created_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, x LONG)").await;
    sql(&engine, VIEW).await;
    let mut of_lower = ask(&engine, "SELECT k, n FROM STREAM(v, MAX, TIME)", false);
    let mut before = ask(&engine, "SELECT n, ks FROM STREAM(w, MAX, TIME)", false);
    sql(&engine, "CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS ks FROM STREAM(v) GROUP BY n").await;
    append(&engine, "t", r#"{"k":1,"x":5}"#, None).await;
    assert_eq!(next(&mut before).await, Ok("{\"n\":1,\"ks\":1}\n".to_owned()));
    sql(&engine, "DROP VIEW w").await;
    assert_eq!(next(&mut before).await, Err(EndReason::Failed("view `w` was dropped".to_owned())));
    // Those over the view below stand.
    assert_eq!(next(&mut of_lower).await, Ok("{\"k\":1,\"n\":1}\n".to_owned()));
    append(&engine, "t", r#"{"k":1,"x":5}"#, None).await;
    assert_eq!(next(&mut of_lower).await, Ok("{\"k\":1,\"n\":2}\n".to_owned()));
    stop(engine, Duration::ZERO).await;
}
