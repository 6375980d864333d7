//! Tests `generate` and `bench load`, with each other and with a server.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::fs;

use common::{TestServer, run};
use serde_json::Value;

#[test]
fn load_is_sent_and_told_and_every_event_is_there_once() {
    let (data, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::over(data.path());
    let created = run(&["sql", "--server", &server.url, "CREATE STREAM swipes (swiper STRING NOT NULL)"]);
    assert_eq!(created.code, Some(0), "{}", created.err);
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (bodies, csv) = (path("bodies.ndjson"), path("requests.csv"));
    let made = run(&["generate", "swipes", "--posted", "-n", "70", "--output", &bodies]);
    assert_eq!((made.code, made.err.as_str()), (Some(0), ""));
    let post = format!("1 POST /v1/streams/swipes/events @{bodies}");
    let load = ["bench", "load", "--target", &server.url, "--connections", "4", "--requests", "300"];
    let requests = ["--output", "json", "--csv", &csv, "--producer", "test", &post, "2 GET /v1/streams"];
    let ran = run(&[&load[..], &requests].concat());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let kinds = report["requests"].as_array().unwrap();
    let shown: Vec<_> =
        kinds.iter().map(|kind| (kind["samples"].as_u64(), kind["failures"].as_u64())).collect();
    assert_eq!(shown, [(Some(100), Some(0)), (Some(200), Some(0))]);
    assert_eq!(
        (&report["total"]["samples"], &report["total"]["outcomes"]["200"]),
        (&300.into(), &300.into())
    );
    let latency = &report["total"]["latency_ms"];
    let least_first = ["min", "median", "p90", "p95", "p99", "p99.9", "max"];
    assert!(least_first.map(|name| latency[name].as_f64().unwrap()).is_sorted(), "{latency}");
    let stream: Value = serde_json::from_str(&server.get("/v1/streams/swipes")).unwrap();
    assert_eq!(stream["events"], 100);
    let lines = fs::read_to_string(&csv).unwrap();
    assert_eq!(lines.lines().count(), 301);
    assert_eq!(lines.lines().filter(|line| line.contains(",\"GET /v1/streams\",")).count(), 200);
}

#[test]
fn what_fails_is_told_in_the_table_and_by_the_exit_status() {
    let server = TestServer::start(&[]);
    let missing =
        ["bench", "load", "--target", &server.url, "-n", "20", "--retries", "2", "GET /v1/streams/s{n}"];
    let ran = run(&missing);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("0 succeeded and 20 failed"), "{}", ran.out);
    assert!(ran.out.contains("40 sent again") && ran.out.contains("404 × 20"), "{}", ran.out);
    let ran = run(&["bench", "load", "--target", "http://127.0.0.1:1", "-n", "1"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("cannot reach a server at 127.0.0.1:1"), "{}", ran.err);
    let ran = run(&["bench", "load", "--target", &server.url, "GET /{id}"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("`GET /{id}` is not a request"), "{}", ran.err);
}

#[test]
fn a_target_with_a_path_needs_no_request() {
    let server = TestServer::start(&[]);
    let url = format!("{}/v1/streams/s/events?ack=memory", server.url);
    let ran = run(&["bench", "load", "--target", &url, "-n", "25", "--body", "{\"n\":{1..9}}"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("25 succeeded and 0 failed"), "{}", ran.out);
    assert!(ran.out.contains("by Little's law: 50 connections"), "{}", ran.out);
    let stream: Value = serde_json::from_str(&server.get("/v1/streams/s")).unwrap();
    assert_eq!(stream["events"], 25);
}

#[test]
fn corrupt_lines_are_counted_and_the_rest_is_taken() {
    let server = TestServer::start(&[]);
    let made =
        run(&["generate", "telecom", "-n", "500", "--variant", "missing,null,unknown-field,duplicate-key"]);
    let sent = server.ingest("probes", &made.out);
    assert_eq!((sent.code, sent.err.as_str()), (Some(0), "500 events accepted\n"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("probes.ndjson");
    let file = file.to_str().unwrap();
    let made = run(&["generate", "telecom", "--flows", "-n", "2000", "--variant", "corrupt", "-o", file]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let corrupt = made.err.split(' ').next().unwrap();
    assert!(made.err.ends_with(" of 2,000 events: corrupt\n"), "{}", made.err);
    let sent = run(&["ingest", "--server", &server.url, "--allow-rejected", "flows", file]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    let good = 2000 - corrupt.parse::<u64>().unwrap();
    let good = format!("{},{:03}", good / 1000, good % 1000);
    assert!(sent.err.starts_with(&format!("{good} events accepted, {corrupt} rejected\n")), "{}", sent.err);
}
