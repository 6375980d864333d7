//! Tests Bullet's own answers through its web API. Recorded queries are sent to `http-query`, and to `sse-query` if they
//! have windows; the results are compared with Bullet's answers.
//!
//! The recordings are beside the project, not in it; without them the test reports that it skipped.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;
use swiftwater_engine::{EndReason, EngineConfig, Principal, QueryId};
use swiftwater_event::StreamName;
use swiftwater_lang::Schema;
use swiftwater_testkit::recorded::{RecordedCase, RecordedEmit, places, recorded_cases};

use crate::client::{Running, soon};

/// Cases whose answer is known to differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

/// Cases that are asked at once.
const AT_ONCE: usize = 4;

enum Outcome {
    Passed,
    NotRun(&'static str),
    Failed(String),
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_queries_are_answered_as_bullet_did() {
    let Some(cases) = recorded_cases() else {
        println!("skipped: no recorded cases beside the project");
        return;
    };
    let mut passed = 0;
    let mut not_run: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for group in cases.chunks(AT_ONCE) {
        let checks: Vec<_> = group.iter().map(|case| tokio::spawn(check(case.clone()))).collect();
        for (case, outcome) in group.iter().zip(checks) {
            let known = KNOWN_DIFFERENCES.iter().find(|(known, _)| *known == case.name());
            match (outcome.await.unwrap(), known.map(|(_, why)| *why)) {
                (Outcome::Passed, _) => passed += 1,
                (Outcome::NotRun(why), _) | (Outcome::Failed(_), Some(why)) => {
                    *not_run.entry(why).or_default() += 1;
                }
                (Outcome::Failed(why), None) => {
                    failed.push(format!("{}: {}\n    {why}", case.name(), case.bql()));
                }
            }
        }
    }
    println!("{passed} passed, {} failed", failed.len());
    for (why, count) in &not_run {
        println!("{count} not run ({why})");
    }
    assert!(failed.is_empty(), "{} answers differ:\n{}", failed.len(), failed.join("\n"));
}

async fn check(case: RecordedCase) -> Outcome {
    if case.steps().is_some() || case.config().is_some() {
        return Outcome::NotRun("time passes in it, or it has settings of its own: run through the library");
    }
    if case.workers() > 1 {
        return Outcome::NotRun("dealt to several workers: run at the command line");
    }
    if case.types() != case.schema() && !types_can_be_seen(&case) {
        return Outcome::NotRun("records typed apart from any schema: run at the command line");
    }
    let schema = case.schema().map(|types| Arc::new(Schema::from_json(&types.to_string()).unwrap()));
    let engine = EngineConfig { default_stream: StreamName::new("s").ok(), ..EngineConfig::default() };
    let server = Running::with(engine, |config| config.bullet.schema = schema).await;
    let has_windows = case.bql().to_ascii_uppercase().contains(" WINDOWING ");
    let path = if has_windows { "sse-query" } else { "http-query" };
    let path = format!("/api/bullet/queries/{path}");
    let text = ask(&server, &path, &case).await;
    let results: Result<Vec<Json>, _> = if has_windows {
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(serde_json::from_str).collect()
    } else {
        serde_json::from_str(&text).map(|result| vec![result])
    };
    let Ok(results) = results else { return Outcome::Failed(format!("not results: {text}")) };
    let checked =
        if case.is_rejected() { check_rejected(&case, &results) } else { check_answered(&case, results) };
    match checked {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

/// Submits the query, sends the records when it runs, and ends it. Returns the whole body.
async fn ask(server: &Running, path: &str, case: &RecordedCase) -> String {
    let mut client = server.client().await;
    let (path, query) = (path.to_owned(), case.bql().to_owned());
    let asking = tokio::spawn(async move {
        client.send("POST", &path, &[("content-type", "text/plain")], query).await.text().await
    });
    let standing = soon(async {
        while !asking.is_finished() {
            let queries = server.get("/v1/queries").await.json().await;
            if let Some(query) = queries["queries"].as_array().and_then(|queries| queries.first()) {
                return query["id"].as_str().map(str::to_owned);
            }
        }
        None
    });
    if let Some(id) = standing.await {
        let id: QueryId = id.parse().unwrap();
        let records: Vec<String> = case.records().iter().map(Json::to_string).collect();
        if !records.is_empty() {
            assert_eq!(server.ingest("s", records.join("\n")).await.status, 200);
        }
        // One that has all it asked for is gone already.
        let engine = server.engine.clone();
        let end = move || engine.end_query(&Principal::local(), &id, EndReason::Duration);
        let _ = tokio::task::spawn_blocking(end).await.unwrap();
    }
    soon(asking).await.unwrap()
}

/// True if the records' types are those that their values seem to have.
fn types_can_be_seen(case: &RecordedCase) -> bool {
    let seems = |value: &Json, ty: &str| match value {
        Json::Null => true,
        Json::Bool(_) => ty == "BOOLEAN",
        Json::Number(number) => match number.as_i64() {
            Some(whole) => ty == if i32::try_from(whole).is_ok() { "INTEGER" } else { "LONG" },
            None => ty == "DOUBLE",
        },
        Json::String(text) => ty == "STRING" && !matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity"),
        // Containers of one kind are what they hold.
        Json::Array(_) | Json::Object(_) => ty.starts_with("STRING_"),
    };
    case.schema().is_none()
        && case.records().iter().filter_map(Json::as_object).flatten().all(|(field, value)| {
            let declared = case.types().and_then(|types| types[field].as_str());
            declared.is_none_or(|ty| seems(value, ty))
        })
}

fn check_answered(case: &RecordedCase, results: Vec<Json>) -> Result<(), String> {
    let last = results.len().saturating_sub(1);
    let emits: Result<Vec<RecordedEmit>, String> = results
        .into_iter()
        .enumerate()
        .map(|(place, mut result)| {
            let is_last = !result["meta"]["Query"]["Finish Time"].is_null();
            if is_last != (place == last) {
                return Err(format!("the last result alone has a finish time: {result}"));
            }
            result["kind"] = Json::from(if is_last { "final" } else { "window" });
            RecordedEmit::parse(&result.to_string())
        })
        .collect();
    case.difference(&emits?).map_or(Ok(()), Err)
}

fn check_rejected(case: &RecordedCase, results: &[Json]) -> Result<(), String> {
    let (wanted, has_placeless) = case.error_places();
    let errors = &case.json["expected"]["errors"];
    let [result] = results else { return Err(format!("{results:?}")) };
    let (got, _) = places(&result["meta"]["errors"]);
    let is_same = if has_placeless { wanted.is_subset(&got) } else { wanted == got };
    if result["meta"]["errors"].is_array() && is_same {
        Ok(())
    } else {
        Err(format!("got    {result}\n    wanted {errors}"))
    }
}
