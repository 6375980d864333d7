//! Tests the warnings and errors for queries that can match nothing, and when clients get them.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::time::Duration;

use swiftwater_engine::{Emit, EndReason, Engine, EngineError, Principal, RuntimeError, SubmitOptions};
use swiftwater_event::StreamName;

use crate::{
    history::{append, sql, stop},
    views::open,
};

/// Submits a query; returns the first emit if it is there at once.
fn first(engine: &Engine, text: &str, options: SubmitOptions) -> Option<Emit> {
    engine
        .submit(&Principal::local(), text, options)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .try_next()
}

fn warnings(engine: &Engine, text: &str) -> Vec<String> {
    let emit = first(engine, text, SubmitOptions::default());
    assert!(emit.as_ref().is_none_or(|emit| emit.records.count == 0), "{text}");
    let told = emit.map(|emit| emit.meta.warnings).unwrap_or_default();
    let facts = engine.check(&Principal::local(), text, &SubmitOptions::default()).unwrap();
    assert_eq!(facts.warnings, told, "{text}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_recent_events_cannot_match_is_told_so_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "live", r#"{"host":"web1","status":200}"#, None).await;
    sql(&engine, "CREATE STREAM kept WITH (store = true)").await;
    append(&engine, "kept", r#"{"host":"web1","status":200}"#, None).await;
    for stream in ["live", "kept"] {
        for (condition, expected) in [
            ("host = 'web1' AND status > 100", &[][..]),
            (
                "hots = 'web1'",
                &[format!(
                    "1:{}: no recent event has a field `hots`. Did you mean `host`?",
                    33 + stream.len()
                )],
            ),
            ("status = NULL", &["`status = NULL` is never true".to_owned()]),
        ] {
            let told = warnings(&engine, &format!("SELECT host FROM STREAM({stream}) WHERE {condition}"));
            let is_told = told.len() == expected.len()
                && told.iter().zip(expected).all(|(told, part)| told.contains(part.as_str()));
            assert!(is_told, "{condition}: {told:?}");
        }
    }
    // One answer has them with its end.
    let options = SubmitOptions { one_answer: true, ..SubmitOptions::default() };
    let text = "SELECT host FROM STREAM(live) WHERE hots = 'web1'";
    let mut asked = engine.submit(&Principal::local(), text, options).unwrap();
    assert!(asked.try_next().is_none());
    engine.end_query(&Principal::local(), &asked.query().id, EndReason::Killed).unwrap();
    let last = tokio::time::timeout(Duration::from_secs(30), asked.next()).await.unwrap().unwrap();
    assert!(last.meta.warnings.iter().any(|told| told.contains("Did you mean `host`?")), "{:?}", last.meta);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_declared_types_contradict_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, host STRING, ts TIMESTAMP)").await;
    for (condition, expected) in [
        ("k = 'abc'", "a value of type LONG and one of STRING are never compared"),
        ("ts > 'yesterday'", "'yesterday' is not a time"),
        ("host = \"web1\"", "Write text in single quotes"),
        ("k = NULL", "Write k IS NULL"),
        ("ts > CURRENT_TIMESTAMP", "Write NOW"),
    ] {
        let text = format!("SELECT host FROM STREAM(t) WHERE {condition}");
        let options = SubmitOptions::default();
        let refused = [
            engine.submit(&Principal::local(), &text, options.clone()).err().map(EngineError::from),
            engine.submit_detached(&Principal::local(), &text, options.clone()).await.err(),
            engine.check(&Principal::local(), &text, &options).err().map(EngineError::from),
        ];
        for error in refused {
            let Some(EngineError::Runtime(RuntimeError::Query(errors))) = error else {
                panic!("{text}: {error:?}")
            };
            assert!(errors.to_string().contains(expected), "{text}: {errors}");
        }
    }
    append(&engine, "t", r#"{"k":1}"#, None).await;
    // An event may have more than is declared.
    let told = warnings(&engine, "SELECT host FROM STREAM(t) WHERE hst = 'a'");
    assert!(
        told.iter().any(|told| told.contains("no column `hst` is declared") && told.contains("Did you mean `host`?")),
        "{told:?}"
    );
    append(&engine, "t", r#"{"k":1,"region":"a"}"#, None).await;
    assert_eq!(warnings(&engine, "SELECT host FROM STREAM(t) WHERE region = 'a'"), Vec::<String>::new());
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_events_is_told_with_the_name_that_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "flights", r#"{"host":"web1"}"#, None).await;
    sql(&engine, "CREATE STREAM orders (k LONG)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n FROM STREAM(orders)").await;
    for (name, expected) in [
        ("fligths", "stream `fligths` has had no event yet. Did you mean `flights`?"),
        ("Flights", "stream `Flights` has had no event yet. Did you mean `flights`?"),
        ("order", "stream `order` has had no event yet. Did you mean `orders`?"),
        ("total", "stream `total` has had no event yet. Did you mean `totals`?"),
        ("elsewhere", "stream `elsewhere` has had no event yet"),
    ] {
        let text = format!("SELECT * FROM STREAM(\"{}\")", StreamName::new(name).unwrap());
        let facts = engine.check(&Principal::local(), &text, &SubmitOptions::default()).unwrap();
        assert_eq!(facts.warnings, [expected]);
    }
    stop(engine, Duration::from_secs(5)).await;
}
