//! Tests `bench seeds` in its smallest form, and `bench validate`.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{TestServer, run};
use serde_json::Value;

/// Runs all scenarios whose names begin so; every row must be there and right.
fn passes(only: &str) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let ran = run(&["bench", "seeds", "--smoke", "--only", only, "--data", data, "--output", "json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.err, ran.out);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["passed"], &report["sizes"]), (&true.into(), &"smoke".into()));
    let rows = report["rows"].as_array().unwrap();
    for scenario in report["scenarios"].as_array().unwrap() {
        let has_row = rows.iter().any(|row| row["scenario"] == scenario["id"] && row["ours"].is_number());
        assert!(has_row, "{} measured nothing: {}", scenario["id"], ran.out);
    }
    assert!(rows.iter().all(|row| !row["verdict"].as_str().unwrap().is_empty()), "{}", ran.out);
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?} was left behind");
}

#[test]
fn bullets_load_tests_run_in_their_least_form() {
    passes("bullet");
}

#[test]
fn the_telecom_flow_runs_in_its_least_form() {
    passes("telecom");
}

#[test]
fn the_matching_app_runs_in_its_least_form() {
    passes("swipes");
}

#[test]
fn what_is_kept_and_asked_by_sql_runs_in_its_least_form() {
    passes("home");
    passes("article");
}

#[test]
fn a_report_that_was_written_is_written_again_in_another_form() {
    let directory = tempfile::tempdir().unwrap();
    let (data, file) = (directory.path().to_str().unwrap(), directory.path().join("report.json"));
    let ran = run(&[
        "bench", "seeds", "--smoke", "--only", "bullet-1", "--data", data, "--output", "json", "--quiet",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    std::fs::write(&file, &ran.out).unwrap();
    let again = |form: &str| {
        let ran = run(&["bench", "seeds", "--from", file.to_str().unwrap(), "--output", form]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    assert_eq!(again("json"), ran.out);
    assert!(again("markdown").contains("\n| bullet-1-latency | "));
    assert!(again("html").contains("<td>bullet-1-latency"));
    std::fs::write(&file, "{}").unwrap();
    let ran = run(&["bench", "seeds", "--from", file.to_str().unwrap()]);
    assert!(ran.code == Some(2) && ran.err.contains("is not a report"), "{}", ran.err);
}

#[test]
fn what_cannot_be_begun_says_why() {
    let ran = run(&["bench", "seeds", "--only", "nothing"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("unknown scenario `nothing`; scenarios are bullet-1-latency"), "{}", ran.err);
    let ran = run(&["bench", "seeds", "--smoke", "--data", "/no/such/directory"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--data /no/such/directory"), "{}", ran.err);
}

#[test]
fn a_server_that_is_not_there_fails_a_scenario_and_not_the_report() {
    let ran = run(&["bench", "seeds", "--smoke", "--only", "bullet-1", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("1 of 1 scenarios failed: bullet-1-latency"), "{}", ran.out);
    assert!(ran.err.contains("cannot reach a server"), "{}", ran.err);
}

#[test]
fn known_answers_are_held_against_a_servers() {
    let server = TestServer::start(&[]);
    let validate = ["bench", "validate", "--server", &server.url, "--queries", "60", "--events", "2000"];
    let ran = run(&[&validate[..], &["--match-share", "0.2", "--output", "json"]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.err, ran.out);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["queries"], &report["events"]), (&60.into(), &2000.into()));
    assert_eq!(report["records_found"], report["records_expected"]);
    let found = report["records_found"].as_u64().unwrap();
    assert!((300..500).contains(&found), "{found} of 2000 at 20 %");
    let ran = run(&["bench", "validate", "--server", &server.url, "--queries", "0"]);
    assert_eq!(ran.code, Some(2));
}
