//! Tests Bullet's older query form, a JSON object: answers match the sources of that Bullet.
//!
//! `json_form_answers.jsonl` has the events in its first line, then a query and its answer in each. A program computed the
//! answers. It follows the public sources of bullet-core 0.6, whose packages are no longer available, class by class:
//! filters, casts, paths, projection, aggregations, post-aggregations, windows. It uses the quantile sketch of bullet-core
//! 1.5.2, and exact counts where 0.6 has sketches of counts. Queries where the native dialect differs on purpose are not
//! among them.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use serde_json::Value as Json;
use swiftwater_engine::{EngineConfig, InputOptions, InputSource, QueryForm, run_input};
use swiftwater_testkit::TestClock;

const ANSWERS: &str = include_str!("json_form_answers.jsonl");

/// Each emit's records; of windows by record the empty last one is left out.
fn run(query: &Json, events: &str, shards: usize) -> Result<Vec<Vec<Json>>, String> {
    let query = query.to_string();
    assert_eq!(QueryForm::of(&query), QueryForm::Json);
    let options = InputOptions {
        config: EngineConfig { shards, ..EngineConfig::default() },
        form: QueryForm::Json,
        ..InputOptions::default()
    };
    let source = InputSource::Bytes(Bytes::copy_from_slice(events.as_bytes()));
    let mut emits: Vec<Vec<Json>> = Vec::new();
    let clock = Arc::new(TestClock::at(0));
    run_input(source, &query, &options, clock, &mut |_| {}, &mut |emit| {
        let text = String::from_utf8_lossy(&emit.records.text).into_owned();
        emits.push(text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect());
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    Ok(emits)
}

/// Equal but for how a number is written, and for nulls, which Bullet leaves out.
fn is_same(ours: &Json, bullets: &Json) -> bool {
    match (ours, bullets) {
        (Json::Number(ours), Json::Number(bullets)) => ours.as_f64() == bullets.as_f64(),
        (Json::Array(ours), Json::Array(bullets)) => {
            ours.len() == bullets.len()
                && ours.iter().zip(bullets).all(|(ours, bullets)| is_same(ours, bullets))
        }
        (Json::Object(ours), Json::Object(bullets)) => {
            let mut names = ours.keys().chain(bullets.keys());
            names.all(|name| {
                is_same(ours.get(name).unwrap_or(&Json::Null), bullets.get(name).unwrap_or(&Json::Null))
            })
        }
        _ => ours == bullets,
    }
}

fn are_same(ours: &[Json], bullets: &[Json], any_order: bool) -> bool {
    if ours.len() != bullets.len() {
        return false;
    }
    if !any_order {
        return ours.iter().zip(bullets).all(|(ours, bullets)| is_same(ours, bullets));
    }
    let mut left: Vec<&Json> = bullets.iter().collect();
    ours.iter().all(|ours| {
        let found = left.iter().position(|bullets| is_same(ours, bullets));
        found.map(|at| left.swap_remove(at)).is_some()
    })
}

fn difference(case: &Json, events: &str, shards: usize) -> Option<String> {
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let emits = match run(&case["query"], events, shards) {
        Ok(emits) => emits,
        Err(error) => return Some(error),
    };
    let any_order = case["any_order"] == true;
    let (ours, bullets): (Vec<Vec<Json>>, Vec<Vec<Json>>) = match case.get("emits") {
        Some(bullets) => {
            let ours = emits.into_iter().filter(|records| !records.is_empty()).collect();
            (ours, list(bullets).iter().map(list).collect())
        }
        None => (vec![emits.into_iter().flatten().collect()], vec![list(&case["records"])]),
    };
    let same = ours.len() == bullets.len()
        && ours.iter().zip(&bullets).all(|(ours, bullets)| are_same(ours, bullets, any_order));
    (!same).then(|| format!("answered {ours:?}, not {bullets:?}"))
}

#[test]
fn answers_are_those_of_the_bullet_that_read_it() {
    let mut lines = ANSWERS.lines().map(|line| serde_json::from_str::<Json>(line).expect("a line is JSON"));
    let head = lines.next().expect("the first line has the events");
    let events = head["events"].as_array().expect("events are a list");
    let events: String = events.iter().map(|event| format!("{event}\n")).collect();
    let mut count = 0;
    let mut differences = Vec::new();
    for case in lines {
        count += 1;
        for shards in [1, 2] {
            let found = difference(&case, &events, shards);
            differences.extend(found.map(|what| format!("{} ({shards} shards): {what}", case["query"])));
        }
    }
    assert!(count > 100, "only {count} cases were read");
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
}
