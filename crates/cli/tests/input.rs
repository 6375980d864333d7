//! Tests queries over files and standard input, in the process itself.

mod common;

use std::{
    fs,
    io::{Read, Write},
    process::Stdio,
};

use common::{run, run_with, swiftwater};

const EVENTS: &str = "{\"carrier\":\"UA\",\"delay\":1,\"at\":\"2026-01-01T00:00:00Z\"}\n\
    {\"carrier\":\"AA\",\"delay\":2.5,\"at\":\"2026-01-01T00:00:01Z\"}\n\
    not an event\n\
    {\"carrier\":\"UA\",\"delay\":3,\"at\":\"2026-01-01T00:00:02.5Z\"}\n";
const BY_CARRIER: &str = "SELECT carrier, COUNT(*) AS n FROM STREAM() GROUP BY carrier ORDER BY carrier";

#[test]
fn what_is_piped_in_is_the_input() {
    let ran = run_with(&["query", BY_CARRIER], EVENTS.as_bytes());
    assert_eq!(ran.out, "{\"carrier\":\"AA\",\"n\":1}\n{\"carrier\":\"UA\",\"n\":2}\n");
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("\"counts\":{\"seen\":3,\"matched\":3"), "the closing meta: {}", ran.err);
    assert!(ran.err.contains("1 of 4 events were rejected:\n  standard input:3:1: "), "{}", ran.err);
}

#[test]
fn values_of_parameters_are_given_beside_the_query() {
    let query = "SELECT carrier FROM STREAM() WHERE carrier = $1 AND delay > $2";
    let ran = run_with(&["query", "-p", "UA", "-p", "1.5", query], EVENTS.as_bytes());
    assert_eq!((ran.out.as_str(), ran.code), ("{\"carrier\":\"UA\"}\n", Some(0)));
    let ran = run_with(&["query", "-p", "UA", query], EVENTS.as_bytes());
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("there is no parameter $2"), "{}", ran.err);
    let ran = run_with(&["query", "-p", "[1]", "-p", "0", query], EVENTS.as_bytes());
    assert!(ran.err.contains("parameter $1 is a list"), "{}", ran.err);
}

#[test]
fn a_query_may_be_bullets_older_form() {
    let query = r#"{"filters": [{"field": "carrier", "operation": "==", "values": ["UA"]}],
        "aggregation": {"type": "GROUP", "attributes": {"operations": [{"type": "COUNT"}]}}}"#;
    let ran = run_with(&["query", query], EVENTS.as_bytes());
    assert_eq!((ran.out.as_str(), ran.code), ("{\"COUNT\":2}\n", Some(0)), "{}", ran.err);
    let ran = run_with(&["query", r#"{"filter": []}"#], EVENTS.as_bytes());
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("1:12: unknown member `filter` of the query's JSON"), "{}", ran.err);
    let ran = run_with(&["query", "-p", "5", "{}"], EVENTS.as_bytes());
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--parameter is for BQL"), "{}", ran.err);
}

#[test]
fn a_rejected_event_fails_a_strict_query_only() {
    let ran = run_with(&["query", "--strict", BY_CARRIER], EVENTS.as_bytes());
    assert_eq!((ran.code, ran.out.lines().count()), (Some(1), 2));
}

#[test]
fn files_are_read_packed_or_not_with_the_same_answer() {
    let directory = tempfile::tempdir().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(EVENTS.as_bytes()).unwrap();
    let files = [
        ("plain", EVENTS.as_bytes().to_vec()),
        ("gz", gzip.finish().unwrap()),
        ("zst", zstd::encode_all(EVENTS.as_bytes(), 1).unwrap()),
    ];
    for (name, content) in files {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        for shards in ["1", "3"] {
            let ran = run(&["query", "--input", path.to_str().unwrap(), "--shards", shards, BY_CARRIER]);
            assert_eq!(ran.out, "{\"carrier\":\"AA\",\"n\":1}\n{\"carrier\":\"UA\",\"n\":2}\n", "{name}");
            assert_eq!(ran.code, Some(0), "{name}");
            assert!(ran.err.contains(&format!("{}:3:1: ", path.display())), "{}", ran.err);
        }
    }
}

#[test]
fn csv_is_read_by_the_name_of_its_file_packed_or_not() {
    let directory = tempfile::tempdir().unwrap();
    let csv = "\u{feff}carrier,zip\nUA,01234\nAA,12345\nUA,1,2\nUA,\"x\"\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv.as_bytes()).unwrap();
    let types = directory.path().join("types.json");
    fs::write(&types, r#"{"carrier": "STRING", "zip": "STRING"}"#).unwrap();
    for (name, content) in [
        ("t.csv", csv.as_bytes().to_vec()),
        ("t.CSV.gz", gzip.finish().unwrap()),
        ("t.csv.zst", zstd::encode_all(csv.as_bytes(), 1).unwrap()),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        let ran = run(&["query", "--input", path.to_str().unwrap(), BY_CARRIER]);
        assert_eq!(
            ran.out, "{\"carrier\":\"AA\",\"n\":1}\n{\"carrier\":\"UA\",\"n\":2}\n",
            "{name}: {}",
            ran.err
        );
        assert!(ran.err.contains(&format!("{}:4: 3 values, and 2 names", path.display())), "{}", ran.err);
        let query = "SELECT zip FROM STREAM() WHERE zip LIKE '12%'";
        let ran =
            run(&["query", "--input", path.to_str().unwrap(), "--types", types.to_str().unwrap(), query]);
        assert_eq!(ran.out, "{\"zip\":\"12345\"}\n", "{name}: {}", ran.err);
    }
}

#[test]
fn byte_order_mark_before_a_query_is_no_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("query.bql");
    fs::write(&path, format!("\u{feff}{BY_CARRIER}")).unwrap();
    let ran = run_with(&["query", "--file", path.to_str().unwrap(), "--input", "-"], EVENTS.as_bytes());
    assert_eq!(ran.out, "{\"carrier\":\"AA\",\"n\":1}\n{\"carrier\":\"UA\",\"n\":2}\n", "{}", ran.err);
}

#[test]
fn a_query_that_can_match_nothing_is_warned_of_or_refused() {
    let ran = run_with(
        &["query", "--output", "table", "SELECT carrier FROM STREAM() WHERE at = NULL"],
        EVENTS.as_bytes(),
    );
    assert!(ran.err.contains("warning: 1:36: `at = NULL` is never true"), "{}", ran.err);
    let directory = tempfile::tempdir().unwrap();
    let types = directory.path().join("types.json");
    fs::write(&types, r#"{"carrier": "STRING"}"#).unwrap();
    let query = "SELECT carrier FROM STREAM() WHERE carrier = 5";
    let ran = run_with(&["query", "--types", types.to_str().unwrap(), query], EVENTS.as_bytes());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("are never compared"), "{}", ran.err);
}

#[test]
fn an_answer_has_the_form_that_is_asked_for() {
    let out = |form: &str| run_with(&["query", "--output", form, BY_CARRIER], EVENTS.as_bytes()).out;
    assert_eq!(out("csv"), "carrier,n\nAA,1\nUA,2\n");
    assert_eq!(out("table"), "carrier  n\n───────  ─\nAA       1\nUA       2\n");
    let json: serde_json::Value = serde_json::from_str(&out("json")).unwrap();
    assert_eq!(json["records"][1]["n"], 2);
    assert_eq!(json["meta"]["query"]["reason"], "end_of_input");
    let emits = out("emits");
    let last: serde_json::Value = serde_json::from_str(emits.lines().last().unwrap()).unwrap();
    assert_eq!(last["meta"]["counts"]["seen"], 3);
}

#[test]
fn windows_close_by_the_events_own_time() {
    let query = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(2000, TIME)";
    let ran = run_with(&["query", "--time-field", "at", query], EVENTS.as_bytes());
    assert_eq!(ran.out, "{\"n\":2}\n{\"n\":1}\n", "{}", ran.err);
}

#[test]
fn an_input_has_no_views_to_be_joined_with() {
    let ran = run_with(&["query", "SELECT u.x FROM STREAM() JOIN users u ON u.id = id"], EVENTS.as_bytes());
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("this server has no views and tables to join with"), "{}", ran.err);
}

#[test]
fn a_wrong_query_shows_the_place_and_is_told_before_the_input_is_read() {
    let mut child = swiftwater(&["query", "SELECT FROM STREAM()"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe stays open and empty all the while.
    let _stdin = child.stdin.take();
    let ran: common::ProcessOutput = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("SELECT FROM STREAM()\n       ^^^^"), "{}", ran.err);
}

#[test]
fn a_plan_is_explained() {
    let ran = run_with(&["query", "EXPLAIN SELECT carrier FROM STREAM() WHERE delay > 1"], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("carrier") && ran.out.contains("delay"), "{}", ran.out);
}

#[test]
fn what_a_query_cost_is_told_with_its_plan() {
    let ran =
        run_with(&["query", "EXPLAIN ANALYZE SELECT * FROM STREAM() WHERE k = 'a' AND LOWER(t) = 'abc'"], {
            br#"{"k": "a", "t": "abc"} {"k": "a", "t": "b"} {"k": "b", "t": "abc"} {"k": "b"}"#
        });
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let line = |name: &str| {
        let line = ran.out.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}: {}", ran.out)).trim().to_owned()
    };
    assert!(line("access").contains("hash table"), "{}", ran.out);
    assert_eq!(line("events"), "4 seen, 0 late, 0 mistyped");
    assert_eq!(line("candidates"), "2, 50.0000 % of the events");
    assert_eq!(line("tested"), "2 by the residual");
    assert_eq!(line("matches"), "1, 25.0000 % of the events");
    assert!(line("answered").starts_with("1 records, "), "{}", ran.out);
    assert!(line("cpu").ends_with(" ms of shards, for its tests and operators"), "{}", ran.out);
    assert!(!ran.out.contains("\"abc\""), "records are not shown: {}", ran.out);
}

#[test]
fn a_query_may_stand_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("query.bql");
    fs::write(&path, BY_CARRIER).unwrap();
    let ran = run_with(&["query", "--file", path.to_str().unwrap()], EVENTS.as_bytes());
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.err);
}

#[test]
fn types_may_be_declared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("types.json");
    fs::write(&path, "{\"carrier\": \"STRING\", \"delay\": \"DOUBLE\"}").unwrap();
    let types = path.to_str().unwrap();
    let ran =
        run_with(&["query", "--types", types, "SELECT SUM(delay) AS s FROM STREAM()"], EVENTS.as_bytes());
    assert_eq!(ran.out, "{\"s\":6.5}\n", "{}", ran.err);
    fs::write(&path, "{\n\"carrier\": \"STRINGS\"}").unwrap();
    let ran = run_with(&["query", "--types", types, "SELECT * FROM STREAM()"], b"");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(types) && ran.err.contains("2:"), "{}", ran.err);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let mut child = swiftwater(&["query", "SELECT * FROM STREAM()"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // An endless input.
    let writer = std::thread::spawn(move || {
        let block = "{\"a\":1}\n".repeat(10_000);
        while stdin.write_all(block.as_bytes()).is_ok() {}
    });
    stdout.read_exact(&mut [0; 8]).unwrap();
    drop(stdout);
    let ran: common::ProcessOutput = child.wait_with_output().unwrap().into();
    writer.join().unwrap();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_leaves_ends_it_though_nothing_is_written() {
    let mut child = swiftwater(&["query", "SELECT COUNT(*) FROM STREAM()"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _stdin = child.stdin.take();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_interrupted_input_gives_its_final_result() {
    let mut child = swiftwater(&["query", "SELECT COUNT(*) AS n FROM STREAM()"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    common::until_interrupts_are_caught(child.id());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    // The pipe stays open all the while.
    let ran: common::ProcessOutput = child.wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"n\":0}\n"), "{}", ran.err);
    // It does not matter any more if it is read.
    let _ = stdin.write_all(b"{}\n");
}

#[test]
fn nothing_on_standard_input_means_a_server() {
    let ran = run(&["query", "--server", "http://127.0.0.1:1", "SELECT * FROM STREAM()"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cannot reach a server at http://127.0.0.1:1"), "{}", ran.err);
    let ran = run(&["query", "--strict", "SELECT * FROM STREAM()"]);
    assert!(ran.err.contains("--strict needs an input"), "{}", ran.err);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let ran = run(&["query", "--input", "no/such/file", "SELECT * FROM STREAM()"]);
    assert_eq!(
        (ran.code, ran.err.starts_with("error: cannot open no/such/file: ")),
        (Some(1), true),
        "{}",
        ran.err
    );
}
