//! Tests the applications of `examples/`, each by its one command and in a short form, with its expected answers.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use common::run;
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// The output of an example, with so many events.
fn output(name: &str, events: u64) -> String {
    script(name, "run.sh", events)
}

/// The output of an example's script.
fn script(name: &str, script: &str, events: u64) -> String {
    let binary = std::env::var_os("SWIFTWATER_BIN");
    let mut command = Command::new("sh");
    command.arg(example(name).join(script)).arg(events.to_string());
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("SWIFTWATER") {
            command.env_remove(variable);
        }
    }
    command.env("SWIFTWATER_BIN", binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_swiftwater").into()));
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert!(ran.status.success(), "{name}/{script}: {out}\n{err}");
    out
}

/// The lines of the answer to a statement that begins so, from below its header on.
fn answer<'o>(output: &'o str, statement: &str) -> Vec<&'o str> {
    let mut lines = output.lines().skip_while(|line| !line.starts_with(&format!("> {statement}")));
    assert!(lines.next().is_some(), "nobody asked `{statement}`: {output}");
    // A statement may have several lines; a rule stands below the names of columns.
    let rows = lines.skip_while(|line| !line.starts_with("---")).skip(1);
    rows.take_while(|line| !line.is_empty()).map(str::trim).collect()
}

#[test]
fn smart_home_tells_what_is_overused_and_sums_up() {
    let out = output("smart-home", 5000);
    let made = run(&["generate", "smart-home", "--events", "5000"]).out;
    let events: Vec<Value> = made.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let over =
        |limit: f64| events.iter().filter(|event| event["power_reading"].as_f64().unwrap() > limit).count();
    assert!(over(950.0) > 0);
    // The job put onto the stream what the view counts.
    assert_eq!(answer(&out, "SELECT count(*) AS readings FROM overusedReadings"), [over(950.0).to_string()]);
    let counted = answer(&out, "SELECT metro_area, count(*) AS devices");
    let readings =
        counted.iter().map(|row| row.split_whitespace().rev().nth(1).unwrap().parse::<usize>().unwrap());
    assert_eq!(readings.sum::<usize>(), over(950.0), "{counted:?}");
    assert_eq!(answer(&out, "SELECT * FROM cityUsage").len(), 10);
    assert_eq!(answer(&out, "SELECT * FROM stateUsageDifference").len(), 9);
    assert_eq!(answer(&out, "SELECT * FROM ct"), ["5000"]);
    let jobs = answer(&out, "SELECT job, run, state, rows FROM system.job_runs");
    assert!(jobs.len() == 2 && jobs.iter().all(|row| row.contains("succeeded")), "{jobs:?}");
}

#[test]
fn flights_are_kept_by_airport_route_and_weather() {
    let out = output("flights", 300);
    let airports = answer(&out, "SELECT * FROM airports");
    assert!((1..=3).contains(&airports.len()), "{airports:?}");
    assert!(!answer(&out, "SELECT sky,").is_empty(), "{out}");
    assert_eq!(answer(&out, "SELECT (SELECT sum(flights) FROM airports) <="), ["true"]);
    let jfk = out.lines().find(|line| line.starts_with("{\"airport\":\"JFK\"")).unwrap();
    let jfk: Value = serde_json::from_str(jfk).unwrap();
    assert_eq!(jfk["name"], "John F Kennedy Intl");
}

#[test]
fn swipes_are_answered_as_published_and_none_is_lost() {
    let out = output("swipes", 600);
    // The answer to each request of the script, in its order.
    let answers: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("    ")).take(18).collect();
    let codes: Vec<&str> = answers.iter().map(|answer| answer.split(' ').next().unwrap()).collect();
    let expected = "200 201 201 201 201 200 200 200 400 400 400 400 400 400 400 404 404 404";
    assert_eq!(codes.join(" "), expected, "{answers:#?}");
    assert_eq!(answers[5], "200 {\"numLlikes\":2,\"numDislikes\":1,\"numLikes\":2}");
    assert_eq!(answers[6], "200 {\"matchList\":[\"12\"]}");
    assert_eq!(answers[7], "200 {\"mutual\":true}");
    assert_eq!(answers[8], "400 {\"message\":\"swipe left or right\"}");
    assert!(out.contains("600 succeeded and 0 failed"), "{out}");
    let swipes =
        answer(&out, "SELECT (SELECT count(*) FROM swipes)")[0].split_whitespace().collect::<Vec<_>>();
    // Those of the script, of the first load, and of the mixed one.
    let sent = 4 + 600 + 300_usize.div_ceil(9);
    assert!(
        swipes[0] == swipes[1] && (sent - 1..=sent).contains(&swipes[0].parse().unwrap()),
        "{swipes:?}, {sent}"
    );
}

#[test]
fn telecom_rollups_add_up_to_what_the_records_give() {
    let out = output("telecom", 2500);
    let words = |row: &&str| row.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let rollups = answer(&out, "SELECT count(DISTINCT records) AS totals");
    // In each window, rollups over each of the 62 dimensions come to one total, which is that of the records.
    assert!(rollups.len() == 3 && rollups.iter().all(|row| row.starts_with("1 ")), "{rollups:?}");
    let records = answer(&out, "SELECT date_bin");
    assert_eq!(rollups.iter().map(words).collect::<Vec<_>>(), records.iter().map(words).collect::<Vec<_>>());
    assert!(!answer(&out, "SELECT window_start, radio_region, svc_cat").is_empty(), "{out}");
    let delivered =
        answer(&out, "SELECT count(*) AS rows, count(DISTINCT window_start) AS windows FROM rollup_rows");
    let delivered: Vec<_> =
        delivered[0].split_whitespace().map(|count| count.parse::<u64>().unwrap()).collect();
    assert!(delivered[0] > 0 && delivered[1] == 2, "{out}");
}

#[test]
fn telecom_curves_are_drawn() {
    let out = script("telecom", "curves.sh", 50);
    for curve in ["L1", "L2", "L3", "L4", "L5", "L6"] {
        let points = out.lines().skip_while(|line| !line.starts_with(curve)).skip(1);
        let points: Vec<_> = points.take_while(|line| line.starts_with("  ")).collect();
        assert!(
            points.len() >= 4 && points.iter().all(|point| point.contains(" records/s ")),
            "{curve}: {out}"
        );
    }
}

#[test]
fn traces_are_found_across_streams() {
    let out = output("traces", 40);
    let events = |request: &str| -> Vec<Value> {
        let lines = out.lines().skip_while(|line| *line != format!("> activity {request}")).skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let count = |events: &[Value], stream: &str, depth: u64| {
        let is_wanted = |event: &&Value| event["stream"] == stream && event["depth"] == depth;
        events.iter().filter(is_wanted).count()
    };
    let own = events("activity-000009");
    assert_eq!((own.len(), count(&own, "messages", 0), count(&own, "orders", 0)), (7, 6, 1), "{out}");
    let both = events("activity-000009 --depth 1");
    assert_eq!((both.len(), count(&both, "messages", 1)), (13, 6), "{out}");
    let order = events("4 --depth 1");
    assert_eq!((order.len(), count(&order, "orders", 0), count(&order, "messages", 1)), (13, 1, 12), "{out}");
    let failed = out.lines().find(|line| line.starts_with("{\"activities\":")).unwrap();
    let failed: Value = serde_json::from_str(failed).unwrap();
    assert_eq!((&failed["total"], &failed["complete"]), (&4.into(), &false.into()), "{failed}");
    assert_eq!(failed["activities"][0]["events"], serde_json::json!({"messages": 6, "orders": 1}));
    assert_eq!(answer(&out, "SELECT service, status").len(), 4, "{out}");
}
