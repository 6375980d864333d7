//! Changes of views: who takes them all has the view, however slow they are and wherever they begin.

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

/// What a listener knows of a view.
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

/// Whoever listens from the start, whoever reads rarely, and whoever goes on where another feed broke off.
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
    assert_eq!(error, EngineError::NoView("v".to_owned()));
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
            // What the view took in late of the round before may be among them.
            let k = row["k"].as_i64().unwrap();
            assert!(k % 10 == 2 && k <= 10 * round + 2, "{row}");
            assert!(row["x"].as_i64().unwrap() > 9 && row["x"].as_i64().unwrap() % 6 == 0, "{row}");
        }
    }
    let (principal, name) = (Principal::local(), StreamName::new("v").unwrap());
    let appended = engine.append(&principal, &name, batch("{}"), AppendOptions::default()).await;
    let error = appended.unwrap_err();
    assert_eq!(error.to_string(), "there is a view `v` already");
}

fn ask(engine: &Engine, text: &str, detach: bool) -> Subscription {
    let options = SubmitOptions { detach, ..SubmitOptions::default() };
    engine.submit(&Principal::local(), text, options).unwrap()
}

/// What a live query gives next, or why it ended.
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
