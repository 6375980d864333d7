//! Tests Bullet's own answers at the command line. The binary runs every recorded query without time steps or settings of
//! its own over the records it saw; its output is compared with Bullet's answer.
//!
//! The recordings are beside the project, not in it; without them the test reports that it skipped.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use common::{ProcessOutput, swiftwater};
use serde_json::Value as Json;
use swiftwater_testkit::recorded::{RecordedCase, RecordedEmit, places, recorded_cases};

/// Cases whose answer is known to differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

enum Outcome {
    Passed,
    NotRun(&'static str),
    Failed(String),
}

#[test]
fn recorded_queries_are_answered_as_bullet_did() {
    let Some(cases) = recorded_cases() else {
        println!("skipped: no recorded cases beside the project");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from) * 2;
    thread::scope(|scope| {
        for worker in 0..workers {
            let directory = directory.path().join(worker.to_string());
            fs::create_dir(&directory).unwrap();
            let (next, cases, outcomes) = (&next, &cases, &outcomes);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = check(case, &directory);
                    outcomes.lock().unwrap().push((case.name(), case.bql(), outcome));
                }
            });
        }
    });
    let mut passed = 0;
    let mut not_run: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, bql, outcome) in outcomes.into_inner().unwrap() {
        let known = KNOWN_DIFFERENCES.iter().find(|(known, _)| *known == name);
        match (outcome, known.map(|(_, why)| *why)) {
            (Outcome::Passed, _) => passed += 1,
            (Outcome::NotRun(why), _) | (Outcome::Failed(_), Some(why)) => {
                not_run.entry(why).or_default().push(name);
            }
            (Outcome::Failed(why), None) => failed.push(format!("{name}: {bql}\n    {why}")),
        }
    }
    failed.sort();
    println!("{passed} passed, {} failed", failed.len());
    for (why, names) in &not_run {
        println!("{} not run ({why}): {}", names.len(), names.join(", "));
    }
    assert!(failed.is_empty(), "{} answers differ:\n{}", failed.len(), failed.join("\n"));
}

fn check(case: &RecordedCase, directory: &Path) -> Outcome {
    if case.steps().is_some() {
        return Outcome::NotRun("time passes in it: run through the library");
    }
    if case.config().is_some() {
        return Outcome::NotRun("it has settings of its own: run through the library");
    }
    let ran = run(case, directory);
    let checked = if case.is_rejected() { check_rejected(case, &ran) } else { check_answered(case, &ran) };
    match checked {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

fn run(case: &RecordedCase, directory: &Path) -> ProcessOutput {
    let file = |name: &str, content: String| {
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let records: Vec<String> = case.records().iter().map(Json::to_string).collect();
    let mut args = vec!["query".to_owned(), "--bullet".to_owned()];
    for (flag, types) in [("--types", case.types()), ("--schema", case.schema())] {
        if let Some(types) = types {
            args.extend([flag.to_owned(), file(flag, types.to_string())]);
        }
    }
    args.extend(["--shards".to_owned(), case.workers().to_string()]);
    args.extend(["--input".to_owned(), file("records", records.join("\n"))]);
    args.extend(["--".to_owned(), case.bql().to_owned()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    swiftwater(&args).output().unwrap().into()
}

fn check_answered(case: &RecordedCase, ran: &ProcessOutput) -> Result<(), String> {
    if ran.code != Some(0) {
        return Err(format!("exit status {:?}: {}{}", ran.code, ran.out, ran.err));
    }
    let emits = ran.out.lines().map(RecordedEmit::parse).collect::<Result<Vec<_>, _>>()?;
    let difference = case.difference(&emits).or_else(|| case.meta_difference(&emits));
    difference.map_or(Ok(()), Err)
}

fn check_rejected(case: &RecordedCase, ran: &ProcessOutput) -> Result<(), String> {
    let (wanted, has_placeless) = case.error_places();
    let errors = &case.json["expected"]["errors"];
    if ran.code != Some(2) {
        return Err(format!("exit status {:?}, wanted {errors}: {}{}", ran.code, ran.out, ran.err));
    }
    let answer: Json = serde_json::from_str(&ran.out).map_err(|error| format!("{error}: {}", ran.out))?;
    let (got, _) = places(&answer["meta"]["errors"]);
    let is_same = if has_placeless { wanted.is_subset(&got) } else { wanted == got };
    if answer["records"] != Json::Array(Vec::new()) || !is_same {
        return Err(format!("got    {}\n    wanted {errors}", ran.out.trim_end()));
    }
    Ok(())
}
