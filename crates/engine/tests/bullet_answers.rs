//! Bullet's own answers, through the whole engine: every recorded query that the language has so far is asked of the
//! records it saw, and each emit compared with Bullet's.
//!
//! The recorded cases lie beside the project, not in it; without them the test says that it skipped.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value as Json};
use swiftwater_engine::{AppendOptions, EndReason, Engine, EngineConfig, Principal, SubmitOptions};
use swiftwater_event::{CheckLimits, StreamName, Type, check_block};
use swiftwater_lang::{Dialect, Schema};
use swiftwater_testkit::TestClock;

const START: i64 = 1_767_225_600_000;

/// Cases whose answer is known to differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    (
        "raw-049",
        "the record's own type is another than the schema's: events in JSON have no types of their own",
    ),
    ("group-by-048", "which 500 of more than 512 groups stay is up to Bullet's sketch"),
    ("top-027", "Bullet runs this as its approximate TOP, which the language does not have yet"),
];

type Row = BTreeMap<String, Json>;

enum Outcome {
    Passed,
    OutOfScope(&'static str),
    Failed(String),
}

#[test]
fn answers_are_those_of_bullet() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/reference/bullet-cases.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        println!("skipped: no recorded cases at {file}");
        return;
    };
    let mut passed = 0;
    let mut out_of_scope: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for line in text.lines() {
        let case: Json = serde_json::from_str(line).expect("a case is JSON");
        let name = case["name"].as_str().expect("a case has a name");
        match run(&case) {
            Outcome::Passed => passed += 1,
            Outcome::OutOfScope(why) => *out_of_scope.entry(why).or_default() += 1,
            Outcome::Failed(_) if KNOWN_DIFFERENCES.iter().any(|(known, _)| *known == name) => {
                *out_of_scope.entry("known difference").or_default() += 1;
            }
            Outcome::Failed(why) => failed.push(format!("{name}: {}\n    {why}", case["bql"])),
        }
    }
    println!("{passed} passed, {} failed, out of scope: {out_of_scope:?}", failed.len());
    assert!(failed.is_empty(), "{} answers differ:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "no case was in scope");
}

fn run(case: &Json) -> Outcome {
    let expected = &case["expected"];
    if expected["status"] != "ok" {
        return Outcome::OutOfScope("not answered");
    }
    if !case["config"].as_object().is_none_or(Map::is_empty) {
        return Outcome::OutOfScope("other settings");
    }
    let records = case["records"].as_array().cloned().unwrap_or_default();
    let records = by_worker(records, case["partitions"].as_u64().unwrap_or(1) as usize);
    let types = case["types"].as_object().cloned().unwrap_or_default();
    if case["schema"].is_null() && !types.is_empty() {
        return Outcome::OutOfScope("typed records without a schema");
    }
    let schema = case["schema"].as_object().map(|fields| {
        let ty = |ty: &Json| Type::parse(ty.as_str().expect("a type is text")).expect("a type of Bullet's");
        Arc::new(Schema::new(fields.iter().map(|(name, text)| (name.as_str().into(), ty(text)))))
    });
    let clock = Arc::new(TestClock::at(START));
    let stream = StreamName::new("s").expect("a name");
    let config = EngineConfig {
        shards: 1,
        tick_ms: 1,
        default_stream: Some(stream.clone()),
        ..EngineConfig::default()
    };
    let for_engine: Arc<TestClock> = Arc::clone(&clock);
    let engine = Engine::start(config, for_engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = SubmitOptions { dialect: Dialect::Bullet, schema, ..SubmitOptions::default() };
    let bql = case["bql"].as_str().expect("a query");
    let mut query = match engine.submit(&Principal::local(), bql, options) {
        Ok(query) => query,
        Err(error) if error.to_string().contains("not supported yet") => {
            return Outcome::OutOfScope("not in the language yet");
        }
        Err(error) => return Outcome::Failed(format!("refused: {error}")),
    };
    let send = |records: &[Json]| {
        let lines: Vec<String> = records.iter().map(Json::to_string).collect();
        let checked = check_block(Bytes::from(lines.join("\n").into_bytes()), &CheckLimits::default(), 1);
        let sent =
            engine.append_blocking(&Principal::local(), &stream, checked.batch, AppendOptions::default());
        assert!(sent.is_ok());
        runtime.block_on(engine.drained());
    };
    match case["steps"].as_array() {
        None => send(&records),
        Some(steps) => {
            for step in steps {
                if let Some(records) = step["records"].as_array() {
                    send(records);
                }
                if let Some(ms) = step["advance_ms"].as_u64() {
                    clock.advance_ms(ms);
                    // An event that arrives now closes what is due, as the next tick would.
                    send(&[]);
                }
            }
        }
    }
    // A query that ended by itself is gone already.
    let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Duration);
    let mut emits = Vec::new();
    while let Some(emit) = query.next_blocking() {
        let text = String::from_utf8(emit.records.text.to_vec()).expect("records are text");
        emits.push(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Row>>());
    }
    runtime.block_on(engine.shutdown(std::time::Duration::from_secs(10)));
    compare(&emits, expected)
}

/// Bullet's workers hand on what they have one after another; record k is the business of worker k mod n.
fn by_worker(records: Vec<Json>, workers: usize) -> Vec<Json> {
    (0..workers).flat_map(|worker| records.iter().skip(worker).step_by(workers).cloned()).collect()
}

fn compare(emits: &[Vec<Row>], expected: &Json) -> Outcome {
    let order = expected["row_order"].as_str().unwrap_or("exact");
    let wanted: Vec<Vec<Row>> = expected["emits"]
        .as_array()
        .expect("emits")
        .iter()
        .map(|emit| serde_json::from_value(emit["records"].clone()).expect("records are objects"))
        .collect();
    if emits.len() != wanted.len() {
        return Outcome::Failed(format!("{} emits, and should be {}: {emits:?}", emits.len(), wanted.len()));
    }
    for (got, wanted) in emits.iter().zip(&wanted) {
        let matches = got.len() == wanted.len()
            && if order == "exact" {
                got.iter().zip(wanted).all(|(got, wanted)| is_equal_row(got, wanted))
            } else {
                let mut left: Vec<&Row> = wanted.iter().collect();
                got.iter().all(|got| {
                    let place = left.iter().position(|wanted| is_equal_row(got, wanted));
                    place.map(|place| left.swap_remove(place)).is_some()
                })
            };
        if !matches {
            let show = |rows: &[Row]| serde_json::to_string(rows).unwrap_or_default();
            return Outcome::Failed(format!("got    {}\n    wanted {}", show(got), show(wanted)));
        }
    }
    Outcome::Passed
}

fn is_equal_row(got: &Row, wanted: &Row) -> bool {
    got.len() == wanted.len()
        && got.iter().zip(wanted).all(|((a, got), (b, wanted))| a == b && is_equal(got, wanted))
}

/// Numbers are equal as doubles but for the last bits: Bullet adds up in the order of arrival, and writes FLOAT as is.
fn is_equal(got: &Json, wanted: &Json) -> bool {
    match (got, wanted) {
        (Json::Number(got), Json::Number(wanted)) => {
            let (Some(got), Some(wanted)) = (got.as_f64(), wanted.as_f64()) else { return false };
            got == wanted || got as f32 == wanted as f32
        }
        (Json::Array(got), Json::Array(wanted)) => {
            got.len() == wanted.len() && got.iter().zip(wanted).all(|(got, wanted)| is_equal(got, wanted))
        }
        (Json::Object(got), Json::Object(wanted)) => {
            got.len() == wanted.len()
                && got.iter().all(|(key, got)| wanted.get(key).is_some_and(|wanted| is_equal(got, wanted)))
        }
        (got, wanted) => got == wanted,
    }
}
