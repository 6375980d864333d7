//! Tests Bullet's own answers through the running engine. Every recorded query runs over the records it saw, step by step
//! where time passes, and each emit is compared with Bullet's.
//!
//! The recordings are beside the project, not in it; without them the test reports that it skipped.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value as Json;
use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, StreamName, check_block};
use swiftwater_lang::{Dialect, Schema};
use swiftwater_testkit::{
    TestClock,
    recorded::{RecordedCase, RecordedEmit, recorded_cases},
};

const START: i64 = 1_767_225_600_000;

/// Cases whose answer is known to differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

enum Outcome {
    Passed,
    NotRun(&'static str),
    Failed(String),
}

#[test]
fn answers_are_those_of_bullet() {
    let Some(cases) = recorded_cases() else {
        println!("skipped: no recorded cases beside the project");
        return;
    };
    let mut passed = 0;
    let mut not_run: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut failed = Vec::new();
    for case in &cases {
        let known = KNOWN_DIFFERENCES.iter().find(|(known, _)| *known == case.name());
        match (run(case), known.map(|(_, why)| *why)) {
            (Outcome::Passed, _) => passed += 1,
            (Outcome::NotRun(why), _) | (Outcome::Failed(_), Some(why)) => {
                not_run.entry(why).or_default().push(case.name());
            }
            (Outcome::Failed(why), None) => {
                failed.push(format!("{}: {}\n    {why}", case.name(), case.bql()))
            }
        }
    }
    println!("{passed} passed, {} failed", failed.len());
    for (why, names) in &not_run {
        println!("{} not run ({why}): {}", names.len(), names.join(", "));
    }
    assert!(failed.is_empty(), "{} answers differ:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "no case was run");
}

fn run(case: &RecordedCase) -> Outcome {
    if case.is_rejected() {
        return Outcome::NotRun("refused: held at the command line and in the parser's tests");
    }
    if case.workers() > 1 && case.steps().is_none() {
        return Outcome::NotRun("dealt to several workers: run at the command line");
    }
    let clock = Arc::new(TestClock::at(START));
    let stream = StreamName::new("s").expect("a name");
    let config = config(case, stream.clone());
    let for_engine: Arc<TestClock> = Arc::clone(&clock);
    let engine = Engine::start(config, for_engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let schema = |types: Option<&Json>| {
        types.map(|types| Arc::new(Schema::from_json(&types.to_string()).expect("types of Bullet's")))
    };
    let options = SubmitOptions {
        dialect: Dialect::Bullet,
        schema: schema(case.schema()),
        types: schema(case.types()),
        ..SubmitOptions::default()
    };
    let mut query = match engine.submit(&Principal::local(), case.bql(), options) {
        Ok(query) => query,
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
    match case.steps() {
        None => send(case.records()),
        Some(steps) => {
            for step in steps {
                if let Some(records) = step["records"].as_array() {
                    send(records);
                }
                if let Some(ms) = step["advance_ms"].as_u64() {
                    clock.advance_ms(ms);
                    engine.tick();
                }
            }
        }
    }
    // A query that ended by itself is gone already.
    let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Duration);
    let emits = all_emits(&mut query);
    runtime.block_on(engine.shutdown(std::time::Duration::from_secs(10)));
    match case.difference(&emits) {
        None => Outcome::Passed,
        Some(difference) => Outcome::Failed(difference),
    }
}

/// Bullet's settings, by the names that they have here.
fn config(case: &RecordedCase, stream: StreamName) -> EngineConfig {
    let mut config =
        EngineConfig { shards: 1, tick_ms: 1, default_stream: Some(stream), ..EngineConfig::default() };
    for (name, value) in case.config().into_iter().flatten() {
        let number = value.as_u64().unwrap_or_default();
        match name.as_str() {
            "bullet.query.window.disable" => config.bullet_ignores_windows = value == &Json::Bool(true),
            "bullet.query.max.duration.ms" => config.query_duration_ms_max = number,
            "bullet.query.default.duration.ms" => config.query_duration_ms_default = number,
            "bullet.query.rate.limit.max.emit.count" => config.bullet_emits_max = number,
            "bullet.query.rate.limit.time.interval" => config.emits_interval_ms = number,
            name => panic!("no setting is known for {name}"),
        }
    }
    config
}

fn all_emits(query: &mut Subscription) -> Vec<RecordedEmit> {
    let mut emits = Vec::new();
    while let Some(emit) = query.next_blocking() {
        emits.push(recorded(&emit));
    }
    emits
}

fn recorded(emit: &Emit) -> RecordedEmit {
    let text = String::from_utf8(emit.records.text.to_vec()).expect("records are text");
    let kind = match emit.meta.finished.as_ref().map(|finished| &finished.reason) {
        None => "window",
        Some(EndReason::RateLimited(_)) => "rate_limited",
        Some(_) => "final",
    };
    RecordedEmit {
        kind: kind.to_owned(),
        records: text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        meta: Json::Null,
    }
}
