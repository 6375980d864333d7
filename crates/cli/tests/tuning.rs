//! Tests the promises of [docs/reference/tuning.md](../../../docs/reference/tuning.md). Settings change at a restart, and
//! all stored data stays. A setting without effect is refused, and an exceeded limit is reported with its remedy. The sizing
//! table matches the output of `swiftwater bench size`.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::path::Path;

use common::{TestServer, http::Connection, run, until};
use serde_json::{Value, json};

fn ask(server: &TestServer, method: &str, path: &str, body: &str) -> common::http::Answer {
    let authority = server.url.strip_prefix("http://").unwrap();
    let fields = ["accept: application/json"];
    Connection::open(authority).unwrap().ask_with(method, path, &fields, body.as_bytes()).unwrap()
}

fn sql(server: &TestServer, text: &str) -> Value {
    let answer = ask(server, "POST", "/v1/sql", text);
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).unwrap()
}

/// Ends a server as an operator does; what it logged.
fn ended(server: TestServer) -> String {
    server.running.signal("TERM");
    let ran = server.running.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.err
}

/// Sends events with the numbers from..to, of ten keys.
fn send(server: &TestServer, from: u64, to: u64) {
    let events: String = (from..to).map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 10)).collect();
    let ran = server.ingest("s", &events);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

const DECLARED: &str = "CREATE STREAM s (k STRING NOT NULL, n LONG NOT NULL); \
    CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(n) AS sum FROM STREAM(s) GROUP BY k; \
    CREATE ENDPOINT GET '/n/{k}' (k STRING) AS SELECT n, sum FROM v WHERE k = $k ELSE 404 'no such key'";

/// All that is kept of so many events is there.
fn check(server: &TestServer, events: u64) {
    let counted = sql(server, "SELECT count(*) AS c, count(DISTINCT n) AS d, max(n) AS top FROM s");
    assert_eq!(counted, json!([{"c": events, "d": events, "top": events - 1}]));
    let sum = |key: u64| (0..events).filter(|n| n % 10 == key).sum::<u64>();
    let rows: Vec<Value> =
        (0..10).map(|key| json!({"k": format!("k{key}"), "n": events / 10, "sum": sum(key)})).collect();
    until("the view to have all", || sql(server, "SELECT k, n, sum FROM v ORDER BY k") == json!(rows));
    let answer = ask(server, "GET", "/n/k3", "");
    assert_eq!(answer.json(), json!({"n": events / 10, "sum": sum(3)}));
}

#[test]
fn another_number_of_shards_and_other_limits_keep_all_that_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::over_with(dir.path(), &["--engine.shards", "1"]);
    sql(&server, DECLARED);
    let query = "SELECT k, COUNT(*) AS n FROM STREAM(s, MAX, TIME) GROUP BY k";
    let answer = ask(&server, "POST", "/v1/queries?detach=true", query).json();
    assert_eq!(answer["durable"], true, "{answer}");
    let id = answer["id"].as_str().unwrap().to_owned();
    send(&server, 0, 1000);
    check(&server, 1000);
    ended(server);

    // All settings that the experiments sweep, with smaller values.
    let small = [
        "--engine.shards",
        "3",
        "--engine.batch-bytes-max",
        "1KiB",
        "--engine.pending-bytes-max",
        "1MiB",
        "--engine.query-state-bytes-max",
        "1MiB",
        "--data.log-commit-bytes",
        "4KiB",
        "--data.log-linger-micros",
        "500",
        "--data.log-compression",
        "zstd",
        "--data.feed-bytes-max",
        "1MiB",
        "--store.commit-bytes",
        "1KiB",
        "--store.tail-bytes-max",
        "1MiB",
        "--sql.memory-bytes-max",
        "32MiB",
        "--sql.threads",
        "1",
        "--views.memory-bytes-max",
        "1MiB",
        "--views.cache-bytes",
        "1MiB",
    ];
    let server = TestServer::over_with(dir.path(), &small);
    check(&server, 1000);
    send(&server, 1000, 2000);
    check(&server, 2000);
    // A crash this time.
    drop(server);

    let last = ["--engine.shards", "2", "--engine.query-end-wait-ms", "1min"];
    let server = TestServer::over_with(dir.path(), &last);
    check(&server, 2000);
    send(&server, 2000, 3000);
    check(&server, 3000);
    // It sees events when they are on disk, and goes through those from before first: its end waits for that.
    assert_eq!(run(&["kill", "--server", &server.url, &id]).code, Some(0));
    let ran = run(&["attach", "--server", &server.url, &id, "--after", "0"]);
    let mut counted: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    counted.sort_by_key(|row| row["k"].as_str().unwrap().to_owned());
    let expected: Vec<Value> = (0..10).map(|key| json!({"k": format!("k{key}"), "n": 300})).collect();
    assert_eq!(counted, expected, "{}", ran.err);
}

#[test]
fn a_setting_that_does_nothing_is_refused_with_what_it_lacks() {
    let ran = run(&["serve", "--listen", "127.0.0.1:0", "--sql.threads", "2", "--engine.shards", "1"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains("the settings have an error")
            && ran.err.contains("flag --sql.threads: `sql.threads` = 2 has no effect")
            && ran.err.contains("set `data.dir`, too (--data DIR)"),
        "{}",
        ran.err
    );
    let ran = run(&["serve", "--listen", "127.0.0.1:0", "--engine.shard", "1"]);
    assert!(ran.code == Some(2) && ran.err.contains("--engine.shards"), "{}", ran.err);
}

/// The error of a query that holds too much, and the lines of the log.
fn failed(setting: &str, value: &str, query: &str, events: &str) -> (String, String) {
    let server = TestServer::start(&[setting, value]);
    let id = run(&["query", "--server", &server.url, "--detach", query]).out;
    assert_eq!(server.ingest("s", events).code, Some(0));
    let ran = run(&["attach", "--server", &server.url, id.trim_end()]);
    assert!(ran.err.contains("\"reason\":\"failed\""), "{}", ran.err);
    (ran.err, ended(server))
}

#[test]
fn a_query_that_holds_too_much_is_told_which_limit_how_much_and_what_to_do() {
    let events: String = (0..100_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let query = "SELECT n, COUNT(*) AS c FROM STREAM(s, MAX, TIME) GROUP BY n";
    let told = failed("--engine.query-state-bytes-max", "64KiB", query, &events);
    for text in [told.0, told.1] {
        assert!(text.contains("the query has "), "{text}");
        assert!(
            text.contains("limit is 65536 (`engine.query_state_bytes_max`): shorten its window"),
            "{text}"
        );
    }
    let told = failed("--engine.state-bytes-max", "1MiB", query, &events);
    for text in [told.0, told.1] {
        assert!(text.contains("all queries have "), "{text}");
        assert!(text.contains("limit is 1048576 (`engine.state_bytes_max`): end the largest"), "{text}");
    }
    let event = format!("{{\"text\":\"{}\"}}\n", "x".repeat(10_000));
    let told = failed("--engine.emit-bytes-max", "4KiB", "SELECT * FROM STREAM(s, MAX, TIME)", &event);
    for text in [told.0, told.1] {
        assert!(text.contains("4096") && text.contains("(`engine.emit_bytes_max`): select less"), "{text}");
    }
}

#[test]
fn what_a_slow_reader_loses_is_logged_once_with_the_limit() {
    let server = TestServer::start(&["--engine.subscriber-emits-max", "2"]);
    let id = run(&["query", "--server", &server.url, "--detach", "SELECT * FROM STREAM(s, MAX, TIME)"]).out;
    for n in 0..6 {
        assert_eq!(server.ingest("s", &format!("{{\"n\":{n}}}\n")).code, Some(0));
        server.wait_for("/metrics", &format!("swiftwater_records_out_total {}\n", n + 1));
    }
    assert_eq!(run(&["kill", "--server", &server.url, id.trim_end()]).code, Some(0));
    let ran = run(&["attach", "--server", &server.url, id.trim_end()]);
    assert!(ran.err.contains("\"dropped\":"), "{}", ran.err);
    let log = ended(server);
    assert_eq!(log.matches("a reader is slower than its results").count(), 1, "{log}");
    assert!(log.contains("engine.subscriber_emits_max") && log.contains("limit=2"), "{log}");
}

#[test]
fn a_statement_that_needs_too_much_is_told_which_limit_how_much_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let few = [
        "--data",
        data,
        "--data.log-free-bytes-min",
        "0",
        "--sql.memory-bytes-max",
        "1MiB",
        "--sql.threads",
        "1",
    ];
    let of = |spill: &str, text: &str| {
        let server = TestServer::start(&[&few[..], &["--sql.spill-bytes-max", spill]].concat());
        let answer = ask(&server, "POST", "/v1/sql", text);
        (answer.status, String::from_utf8(answer.body).unwrap(), ended(server))
    };
    let aggregated = "SELECT cardinality(array_agg(value)) AS n FROM range(0, 3000000)";
    let (status, answer, log) = of("64GiB", aggregated);
    assert_eq!(status, 422, "{answer}");
    for text in [&answer, &log] {
        assert!(text.contains("exceeds its memory, limit is 1024.0 KB (`sql.memory_bytes_max`)"), "{text}");
        assert!(text.contains("raise sql.memory_bytes_max"), "{text}");
    }
    let sorted = "SELECT sum(r * (value % 7)) AS m \
                  FROM (SELECT value, row_number() OVER (ORDER BY value % 1000003) AS r FROM range(0, 2000000))";
    let (status, answer, log) = of("1MiB", sorted);
    assert_eq!(status, 422, "{answer}");
    for text in [&answer, &log] {
        assert!(text.contains("more than 1024.0 KB to disk (`sql.spill_bytes_max`)"), "{text}");
        assert!(text.contains("raise sql.spill_bytes_max"), "{text}");
    }
}

fn size(words: &[&str]) -> Value {
    let ran = run(&[&["bench", "size", "--output", "json"], words].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn the_sizing_table_of_the_guide_is_what_is_computed() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tuning.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut rows = Vec::new();
    for rate in ["10,000", "100,000", "1,000,000", "10,000,000"] {
        for kept in ["0", "30d"] {
            let number = rate.replace(',', "");
            let sized = size(&[
                "--events-per-second",
                &number,
                "--bytes",
                "1000",
                "--queries",
                "1000",
                "--keep",
                kept,
            ]);
            let total = &sized["total"];
            let of = |name: &str| total[name].as_f64().unwrap();
            rows.push(format!(
                "| {rate} | {} | {:.2} | {} | {} | {:.0} GiB | {:.1} TiB | {:.0} MB/s |",
                if kept == "0" { "no" } else { "30 days" },
                of("cores"),
                sized["cores"],
                sized["machines"],
                of("memory_bytes") / f64::from(1 << 30),
                of("disk_bytes") / (1_u64 << 40) as f64,
                of("network_bytes_per_second") / 1e6,
            ));
        }
    }
    let missing: Vec<_> = rows.iter().filter(|row| !guide.contains(*row)).collect();
    assert!(missing.is_empty(), "docs/reference/tuning.md should have these rows:\n{}", rows.join("\n"));
    // The example that stands there whole.
    let shown = guide.split("```text\n").find_map(|block| {
        let (block, _) = block.split_once("```")?;
        block.starts_with("100,000 events/s").then_some(block)
    });
    let ran =
        run(&["bench", "size", "--events-per-second", "100_000", "--bytes", "1000", "--keys", "1_000_000"]);
    assert_eq!(shown, Some(ran.out.as_str()), "{}", ran.out);
}

#[test]
fn every_setting_that_the_guide_names_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/reference/tuning.md")).unwrap();
    let all = std::fs::read_to_string(root.join("config/default.toml")).unwrap();
    let mut section = String::new();
    let mut settings = Vec::new();
    for line in all.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            settings.push(format!("{section}.{name}"));
        }
    }
    let sections: Vec<&str> = settings.iter().filter_map(|name| name.split('.').next()).collect();
    let named = guide.split('`').skip(1).step_by(2).filter(|text| {
        let is_name = text.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '.');
        is_name
            && text.split_once('.').is_some_and(|(section, name)| sections.contains(&section) && name != "rs")
    });
    let (mut count, mut unknown) = (0, Vec::new());
    for name in named {
        count += 1;
        if !settings.iter().any(|setting| setting == name) {
            unknown.push(name);
        }
    }
    assert!(count > 15 && unknown.is_empty(), "{count} settings, of which there are not {unknown:?}");
}

#[test]
fn costs_are_measured_with_lines_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.ndjson");
    let file = path.to_str().unwrap();
    assert_eq!(run(&["generate", "swipes", "--events", "500", "-q", "--output", file]).code, Some(0));
    let sized = size(&["--events-per-second", "1000", "--queries", "10", "--measure", file]);
    assert!(sized["source"].as_str().unwrap().starts_with("measured here"), "{sized}");
    assert!((250.0..400.0).contains(&sized["bytes"].as_f64().unwrap()), "{sized}");
    let nanos = |name: &str| {
        let parts = sized["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        part["nanoseconds_per_event"].as_f64().unwrap()
    };
    assert!(
        nanos("intake") > 0.0 && nanos("decode and match") > 0.0 && nanos("log and tables") > 0.0,
        "{sized}"
    );
    assert!((0.01..1.0).contains(&sized["compressed_to"].as_f64().unwrap()), "{sized}");
    let ran = run(&["bench", "size", "--events-per-second", "1", "--measure", "/no/such/file"]);
    assert!(ran.code == Some(2) && ran.err.contains("cannot read `/no/such/file`"), "{}", ran.err);
    let ran = run(&["bench", "size", "--events-per-second", "0", "--bytes", "10"]);
    assert!(ran.code == Some(2) && ran.err.contains("`--events-per-second 0`: allowed: 1 to"), "{}", ran.err);
}
