//! Tests `serve` and the commands that connect to it.

mod common;

use std::{fs, io::Write};

use common::{Running, TestServer, http::Connection, run, swiftwater, until};

#[test]
fn flag_of_another_program_is_answered_with_the_one_that_is_meant() {
    for (args, said) in [
        (&["query", "--json", "x"][..], "'--output json'"),
        (&["sql", "--csv", "x"], "'--output csv'"),
        (&["attach", "id", "--ndjson"], "'--output ndjson'"),
        (&["sql", "--format", "json", "x"], "'--output', which is one of table, ndjson, json, csv, arrow"),
        (&["sql", "--format=json", "x"], "'--output', which is one of"),
        // Any other is left to the nearest that there is.
        (&["sql", "--outptu", "json", "x"], "'--output'"),
        (&["ingest", "s", "--json"], "unexpected argument '--json'"),
    ] {
        let ran = run(args);
        assert!(ran.code == Some(2) && ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    for flag in ["--datadir", "--data-dir", "--data"] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let server = TestServer::start(&[flag, data.to_str().unwrap()]);
        assert!(server.get("/readyz").contains("ready") && data.is_dir(), "{flag}");
    }
}

#[test]
fn sender_is_told_once_that_nothing_of_a_stream_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::over(directory.path());
    let file = directory.path().join("e.ndjson");
    std::fs::write(&file, "{}\n").unwrap();
    let file = file.to_str().unwrap();
    let ran = run(&["ingest", "--server", &server.url, "s", file, file]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = ran.err.matches("warning: stream `s` is live-only").count();
    assert!(told == 1 && ran.err.contains("2 events accepted\n"), "{}", ran.err);
    drop(server);
    let server = TestServer::over_with(directory.path(), &["--data.store-new-streams", "yes"]);
    let ran = run(&["ingest", "--server", &server.url, "s", file]);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert!(server.get("/v1/streams/s").contains("\"stored\":true"));
}

#[test]
fn settings_are_shown_with_their_origins_and_without_secrets() {
    let server = TestServer::start(&[
        "--engine.tick-ms",
        "20ms",
        "--otlp.endpoint",
        "http://127.0.0.1:9",
        "--otlp.headers",
        "authorization: Bearer abc",
    ]);
    let settings: serde_json::Value = serde_json::from_str(&server.get("/v1/settings")).unwrap();
    let settings = settings["settings"].as_array().unwrap();
    let setting = |name: &str| settings.iter().find(|setting| setting["name"] == name).unwrap().clone();
    let tick = setting("engine.tick_ms");
    assert_eq!((&tick["value"], &tick["origin"]), (&"\"20ms\"".into(), &"flag --engine.tick-ms".into()));
    assert!(tick["doc"].as_str().unwrap().len() > 10 && tick["allowed"].as_str().unwrap().contains(" to "));
    assert_eq!(setting("engine.shards")["origin"], "default");
    let headers = setting("otlp.headers")["value"].to_string();
    assert!(headers.contains("authorization: (hidden)") && !headers.contains("abc"), "{headers}");
    let some = server.get("/v1/settings?prefix=otlp.");
    assert!(some.contains("otlp.headers") && !some.contains("engine."), "{some}");
}

#[test]
fn events_go_in_and_answers_come_out() {
    let server = TestServer::start(&["--default-stream", "clicks"]);
    let mut query = Running::start(&["query", "--server", &server.url, "SELECT * FROM STREAM() LIMIT 2"]);
    server.wait_for("/v1/queries", "LIMIT 2");
    let sent = server.ingest("clicks", "{\"n\":1.0}\n{\"n\":2}\n{\"n\":3}\n");
    assert_eq!((sent.code, sent.err.as_str()), (Some(0), "3 events accepted\n"));
    assert_eq!((query.line(), query.line()), ("{\"n\":1.0}".to_owned(), "{\"n\":2}".to_owned()));
    let ran = query.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert!(ran.err.contains("\"reason\":\"limit\""), "{}", ran.err);
}

#[test]
fn an_interrupted_query_gives_its_final_result() {
    let server = TestServer::start(&[]);
    let query = "SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)";
    let query = Running::start(&["query", "--server", &server.url, "--output", "json", query]);
    server.wait_for("/v1/queries", "COUNT");
    assert_eq!(server.ingest("s", "{}\n{}\n").code, Some(0));
    server.wait_for("/v1/queries", "\"matches\":2");
    query.signal("INT");
    let ran = query.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["records"][0]["n"], 2);
    server.wait_for("/v1/queries", "\"queries\":[]");
}

#[test]
fn a_server_that_is_stopped_gives_final_results() {
    let server = TestServer::start(&[]);
    let query = "SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)";
    let query = Running::start(&["query", "--server", &server.url, query]);
    server.wait_for("/v1/queries", "COUNT");
    assert_eq!(server.ingest("s", "{}\n").code, Some(0));
    server.running.signal("TERM");
    let ran = query.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"n\":1}\n"), "{}", ran.err);
    assert!(ran.err.contains("\"reason\":\"shutdown\""), "{}", ran.err);
    let TestServer { running, .. } = server;
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn server_whose_terminal_closes_gives_final_results() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignores_hangup = u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1;
    let server = TestServer::start(&[]);
    let query = "SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)";
    let query = Running::start(&["query", "--server", &server.url, query]);
    server.wait_for("/v1/queries", "COUNT");
    assert_eq!(server.ingest("s", "{}\n").code, Some(0));
    server.running.signal("HUP");
    if ignores_hangup {
        // The tests run under `nohup` or its like: so does the server, and it stays.
        server.wait_for("/v1/queries", "COUNT");
        server.running.signal("TERM");
    }
    let ran = query.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\"n\":1}\n"), "{}", ran.err);
    assert!(ran.err.contains("\"reason\":\"shutdown\""), "{}", ran.err);
    let TestServer { running, .. } = server;
    assert_eq!(running.end().code, Some(0));
}

#[test]
fn a_wrong_query_shows_the_place() {
    let server = TestServer::start(&[]);
    let ran = run(&["query", "--server", &server.url, "SELECT a,\nFROM STREAM(s)"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("\nFROM STREAM(s)\n^"), "{}", ran.err);
    // A server without a default stream.
    let ran = run(&["query", "--server", &server.url, "SELECT * FROM STREAM()"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--default-stream"), "{}", ran.err);
}

#[test]
fn a_plan_is_explained() {
    let server = TestServer::start(&[]);
    let ran =
        run(&["query", "--server", &server.url, "EXPLAIN SELECT a FROM STREAM(s, MAX, TIME) WHERE b = 1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.lines().count() > 3, "{}", ran.out);
}

#[test]
fn events_that_are_none_are_kept_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let server = TestServer::start(&["--data", data, "--data.log-free-bytes-min", "0"]);
    let sql = |text: &str| {
        let ran = run(&["sql", "--server", &server.url, "--output", "json", text]);
        assert_eq!(ran.code, Some(0), "{text}: {}", ran.err);
        ran.out
    };
    sql("CREATE STREAM t (a LONG NOT NULL) WITH (on_bad_event = quarantine)");
    server.ingest("t", "{\"a\": 1}\n{\"a\": 1,}\n  no event \n{\"a\": null}\n{\"a\": 2}\n{\"a\": ");
    let kept = sql("SELECT reason, event FROM quarantine ORDER BY event");
    for event in [r#""{\"a\": 1,}""#, "\"no event\"", r#""{\"a\": null}""#, r#""{\"a\":""#] {
        assert!(kept.contains(event), "no {event}: {kept}");
    }
    assert!(kept.contains("\"line 2, column 9: ") && kept.contains("expected LONG, found nothing"), "{kept}");
    assert_eq!(kept.matches("\"event\"").count(), 4, "{kept}");
    assert!(sql("SELECT sum(a) AS s FROM t").contains("{\"s\":3}"));
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let (path, csv) = ("/v1/streams/t/events", b"a\n7\n8,\"x\ny\"\n");
    let answer = connection.ask_with("POST", path, &["content-type: text/csv"], csv).unwrap();
    assert_eq!((answer.status, answer.json()["quarantined"].as_u64()), (200, Some(1)));
    let kept = sql("SELECT event, reason FROM quarantine WHERE reason LIKE '%header%'");
    assert!(kept.contains(r#""8,\"x\ny\"""#), "{kept}");
    assert!(kept.contains("line 3, column 1: 2 values, and 1 names in the header"), "{kept}");
    sql("CREATE STREAM u WITH (store = true, event_bytes_max = '64B')");
    let sent =
        server.ingest("u", &format!("{{\"a\": 1}}\n{{\"a\": \"{}\"}}\n{{\"a\": 2}}\n", "x".repeat(64)));
    assert!(sent.err.contains("the event has 73 bytes, the limit is 64"), "{}", sent.err);
    assert!(sql("SELECT sum(a) AS s, count(*) AS n FROM u").contains("{\"s\":3,\"n\":2}"));
}

#[test]
fn streams_are_committed_after_a_restart_however_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let start = |interval: &str| {
        let commits = ["--store.commit-interval-ms", interval];
        TestServer::start(&[&["--data", data, "--data.log-free-bytes-min", "0"], &commits[..]].concat())
    };
    // More than there are threads for what blocks, so that all of them are busy with commits at once.
    let streams = (2 * std::thread::available_parallelism().map_or(1, usize::from) + 8).min(90);
    let server = start("1h");
    let create: Vec<String> =
        (0..streams).map(|number| format!("CREATE STREAM s{number} (a LONG)")).collect();
    let ran = run(&["sql", "--server", &server.url, &create.join("; ")]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for number in 0..streams {
        assert_eq!(server.ingest(&format!("s{number}"), "{\"a\": 1}\n").code, Some(0));
    }
    // Killed: what is stopped commits first.
    drop(server);
    let server = start("500ms");
    for number in 0..streams {
        server.wait_for("/metrics", &format!("swiftwater_table_lag_events{{stream=\"s{number}\"}} 0\n"));
    }
}

#[test]
fn a_query_is_analysed_that_has_an_end() {
    let server = TestServer::start(&[]);
    let analyse = |query: &str| run(&["query", "--server", &server.url, &format!("EXPLAIN ANALYZE {query}")]);
    let ran = analyse("SELECT a FROM STREAM(s, 50, TIME) WHERE b = 1");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("\nmatches    0\n"), "{}", ran.out);
    let ran = analyse("SELECT a FROM STREAM(s, MAX, TIME) WHERE b = 1");
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    assert!(ran.err.contains("runs its query to the end") && ran.err.contains("duration"), "{}", ran.err);
}

#[test]
fn a_query_in_bullets_older_form_is_asked_of_the_server() {
    let server = TestServer::start(&["--default-stream", "s"]);
    let ran = run(&["query", "--server", &server.url, "--detach", "{}"]);
    assert_eq!((ran.code, ran.out.trim_end().len()), (Some(0), 26), "{}", ran.err);
    let ran = run(&["query", "--server", &server.url, "{\"filter\": []}"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("unknown member `filter` of the query's JSON"), "{}", ran.err);
}

#[test]
fn a_detached_query_stands_on() {
    let server = TestServer::start(&[]);
    let ran = run(&["query", "--server", &server.url, "--detach", "SELECT * FROM STREAM(s, MAX, TIME)"]);
    assert_eq!((ran.code, ran.out.trim_end().len()), (Some(0), 26), "{}", ran.err);
    assert!(server.get("/v1/queries").contains(ran.out.trim_end()));
}

#[test]
fn a_detached_query_is_read_again_and_ended() {
    let server = TestServer::start(&[]);
    let query = "SELECT * FROM STREAM(s, MAX, TIME) LIMIT 3";
    let id = run(&["query", "--server", &server.url, "--detach", query]).out;
    let id = id.trim_end();
    server.ingest("s", "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
    for after in [&[][..], &["--after", "0"]] {
        let ran = run(&[&["attach", "--server", &server.url, id][..], after].concat());
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("\"reason\":\"limit\""), "{}", ran.err);
    }
    let standing =
        run(&["query", "--server", &server.url, "--detach", "SELECT * FROM STREAM(s, MAX, TIME)"]).out;
    let ran = run(&["kill", "--server", &server.url, standing.trim_end(), "no such/query"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("no such/query: "), "{}", ran.err);
    let ran = run(&["attach", "--server", &server.url, standing.trim_end()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("\"reason\":\"killed\""), "{}", ran.err);
    let ran = run(&["attach", "--server", &server.url, "nobody"]);
    assert_eq!(ran.code, Some(1));
    assert!(!ran.err.is_empty());
}

#[test]
fn rejected_events_are_told_with_file_line_and_column() {
    let server = TestServer::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let (good, bad) = (directory.path().join("good.ndjson"), directory.path().join("bad.ndjson.gz"));
    fs::write(&good, "{\"a\":1}\n{\"a\":2}\n").unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{}\n{\"a\":x}\n").unwrap();
    fs::write(&bad, gzip.finish().unwrap()).unwrap();
    let args = ["ingest", "--server", &server.url, "s", good.to_str().unwrap(), bad.to_str().unwrap()];
    let ran = run(&args);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("3 events accepted, 1 rejected\n"), "{}", ran.err);
    assert!(ran.err.contains(&format!("  {}:2:6: ", bad.display())), "{}", ran.err);
    assert_eq!(run(&[&args[..], &["--allow-rejected"]].concat()).code, Some(0));
    // Nothing good in it is no failure of the sending.
    assert_eq!(server.ingest("s", "x\n").code, Some(1));
    let server = TestServer::start(&["--server.event-bytes-max", "64"]);
    let ran = server.ingest("s", &format!("{{\"a\":\"{}\"}}\n", "x".repeat(100)));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
}

#[test]
fn csv_and_parquet_files_are_sent() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = TestServer::start(&["--data", data.to_str().unwrap()]);
    let sql = |text: &str| {
        let ran = run(&["sql", "--server", &server.url, "--output", "csv", text]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    let ingest = |stream: &str, file: &str, more: &[&str]| {
        run(&[&["ingest", "--server", &server.url, stream, file][..], more].concat())
    };
    sql("CREATE STREAM s (n LONG CHECK (n <> 5), t STRING, at TIMESTAMP)");
    let csv = directory.path().join("rows.CSV");
    let lines: String = (0..10).map(|n| format!("{n},\"two\nlines\",2026-01-31T12:00:00Z\n")).collect();
    fs::write(&csv, format!("n,t,at\n{lines}")).unwrap();
    let ran = ingest("s", csv.to_str().unwrap(), &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("9 events accepted, 1 rejected\n"), "{}", ran.err);
    // The header and five records of two lines stand before it.
    assert!(ran.err.contains("rows.CSV:12: `n`: "), "{}", ran.err);

    sql("COPY (SELECT value AS n, 'x' AS t, CAST('2026-01-31T12:00:00' AS TIMESTAMP) AS at \
         FROM range(0, 3000) ORDER BY value) TO 'rows.parquet'");
    let parquet = data.join("exports/rows.parquet");
    let ran = ingest("s", parquet.to_str().unwrap(), &["--rate", "1000000"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("2,999 events accepted, 1 rejected\n"), "{}", ran.err);
    assert!(ran.err.contains("rows.parquet:row 6: `n`: "), "{}", ran.err);
    assert_eq!(
        sql("SELECT count(*) AS c, sum(n) AS s, count(DISTINCT at) AS ats FROM s WHERE t = 'x'"),
        "c,s,ats\r\n2999,4498495,1\r\n"
    );

    // The name says nothing, or something else.
    let other = directory.path().join("other.txt");
    fs::copy(&parquet, &other).unwrap();
    assert!(
        ingest("t", other.to_str().unwrap(), &["--format", "parquet"])
            .err
            .starts_with("3,000 events accepted")
    );
    let ran = ingest("t", csv.to_str().unwrap(), &["--format", "parquet"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("rows.CSV: the Parquet file cannot be read: "), "{}", ran.err);
    let ran = common::run_with(&["ingest", "--server", &server.url, "t", "--format", "csv"], b"a,b\n1,2\n");
    assert_eq!((ran.code, ran.err.lines().next()), (Some(0), Some("1 events accepted")));
    let csv_of_pipe = ["ingest", "--server", &server.url, "t", "--format", "csv"];
    let ran = common::run_with(&csv_of_pipe, b"a,b\n1,\"x\ny\"\n1,2,3\n\"4");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("1 events accepted, 2 rejected\n"), "{}", ran.err);
    for told in [":4: 3 values, and 2 names in the header\n", ":5: the text ends inside quotes\n"] {
        assert!(ran.err.contains(told), "no {told}: {}", ran.err);
    }
    let ran = ingest("t", "-", &["--format", "parquet"]);
    assert!(ran.err.contains("name the file"), "{}", ran.err);
    let ran = ingest("t", csv.to_str().unwrap(), &["--follow"]);
    assert!(ran.err.contains("--follow needs lines of JSON"), "{}", ran.err);
}

#[test]
fn a_rate_and_a_sample_are_kept() {
    let server = TestServer::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events");
    fs::write(&path, "{}\n".repeat(2_000)).unwrap();
    let file = path.to_str().unwrap();
    let (took, ran) =
        common::seconds(|| run(&["ingest", "--server", &server.url, "s", file, "--rate", "4000"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(took > 0.4, "{took}");
    let ran = run(&["ingest", "--server", &server.url, "t", file, "--sample", "0.5"]);
    assert!(ran.err.contains("left out of the sample"), "{}", ran.err);
    assert!(server.get("/v1/streams/t").contains("\"sample\":0.5"));
}

#[test]
fn a_stream_that_has_had_no_event_is_told_at_once_with_the_name_that_was_meant() {
    let server = TestServer::start(&[]);
    assert_eq!(server.ingest("flights", "{\"carrier\":\"UA\"}\n").code, Some(0));
    let ask = |query: &str| run(&["query", "--server", &server.url, query]);
    let ran = ask("SELECT * FROM STREAM(fligths, 50, TIME)");
    let first = ran.err.lines().next().unwrap_or_default();
    assert_eq!(first, "warning: stream `fligths` has had no event yet. Did you mean `flights`?");
    let ran = ask("SELECT * FROM STREAM(flights, 50, TIME) WHERE carrer = 'UA'");
    assert!(
        ran.err.starts_with("warning: 1:47: no recent event has a field `carrer`. Did you mean `carrier`?"),
        "{}",
        ran.err
    );
    let ran = run(&["query", "--server", &server.url, "--quiet", "SELECT * FROM STREAM(fligths, 50, TIME)"]);
    assert_eq!(ran.err, "");
    let ran = ask("SELECT * FROM STREAM(\"größe\")");
    assert!(ran.err.contains("(`[A-Za-z_][A-Za-z0-9_.-]*`)"), "{}", ran.err);
}

#[test]
fn csv_goes_into_declared_columns_of_text() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&["--data", data.to_str().unwrap()]);
    let sql = |text: &str| run(&["sql", "--server", &server.url, "--output", "csv", text]);
    assert_eq!(sql("CREATE STREAM t (zip STRING, n LONG)").code, Some(0));
    let file = dir.path().join("t.csv");
    std::fs::write(&file, "zip,n\n01234,1\n12345,\"2\"\n").unwrap();
    let ran = run(&["ingest", "--server", &server.url, "t", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let rows = sql("SELECT zip, n FROM t ORDER BY n");
    assert!(rows.out.contains("01234") && rows.out.contains("12345"), "{rows:?}");
}

#[test]
fn a_sending_that_fails_says_why() {
    let nowhere = ["ingest", "--server", "http://127.0.0.1:1", "s", "-"];
    let ran = run(&nowhere);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("cannot reach a server"), "{}", ran.err);
    assert_eq!(run(&[&nowhere[..], &["--retry=200ms"]].concat()).code, Some(2));
    let ran = run(&["ingest", "--server", "https://x", "s", "-"]);
    assert_eq!((ran.code, ran.err.contains("https is not supported")), (Some(2), true), "{}", ran.err);
    let ran = run(&["ingest", "no spaces", "-"]);
    assert_eq!((ran.code, ran.err.contains("cannot be a stream's name")), (Some(2), true), "{}", ran.err);
    let server = TestServer::start(&[]);
    let ran = run(&["ingest", "--server", &server.url, "s", "no/such/file"]);
    assert_eq!((ran.code, ran.err.contains("cannot open no/such/file")), (Some(2), true), "{}", ran.err);
}

#[test]
fn events_are_there_as_soon_as_they_are_piped_in() {
    let server = TestServer::start(&[]);
    let mut child = swiftwater(&["ingest", "--server", &server.url, "s"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"n\":1}\n").unwrap();
    server.wait_for("/v1/streams", "\"events\":1,");
    stdin.write_all(b"{\"n\":2}\n").unwrap();
    server.wait_for("/v1/streams", "\"events\":2,");
    drop(stdin);
    let ran: common::ProcessOutput = child.wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), "2 events accepted\n"));
}

#[test]
fn followed_files_are_sent_as_they_grow_and_rotate() {
    let server = TestServer::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    fs::write(&path, "{\"n\":1}\n{\"n\":").unwrap();
    let follow =
        Running::start(&["ingest", "--server", &server.url, "s", "--follow", path.to_str().unwrap()]);
    server.wait_for("/v1/streams", "\"events\":1,");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"2}\n").unwrap();
    server.wait_for("/v1/streams", "\"events\":2,");
    fs::rename(&path, directory.path().join("log.1")).unwrap();
    fs::write(&path, "{\"n\":3}\nx\n").unwrap();
    server.wait_for("/v1/streams", "\"events\":3,");
    follow.signal("INT");
    let ran = follow.end();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("3 events accepted, 1 rejected\n"), "{}", ran.err);
    assert!(ran.err.contains("log:2:1: "), "{}", ran.err);
}

#[test]
fn top_shows_streams_queries_and_shards() {
    let server = TestServer::start(&["--engine.shards", "2"]);
    assert_eq!(server.ingest("clicks", "{}\n").code, Some(0));
    let id =
        run(&["query", "--server", &server.url, "--detach", "SELECT * FROM STREAM(clicks, MAX, TIME)"]).out;
    let ran = run(&["top", "--server", &server.url, "--once", "--sort", "state"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let shows =
        |start: &str, end: &str| ran.out.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    assert!(shows("clicks ", ""), "{}", ran.out);
    assert!(shows("0 ", "%") && shows("1 ", "%"), "{}", ran.out);
    assert!(shows(id.trim_end(), "SELECT * FROM STREAM(clicks, MAX, TIME)"), "{}", ran.out);
}

#[test]
fn settings_come_from_file_environment_and_flags() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("swiftwater.toml"), "[engine]\ntick_ms = 20\nshards = 3\n").unwrap();
    let config = |args: &[&str]| -> common::ProcessOutput {
        let mut command = swiftwater(&[&["serve", "--print-config"], args].concat());
        command.current_dir(directory.path()).env("SWIFTWATER_ENGINE__SHARDS", "2").output().unwrap().into()
    };
    let ran = config(&["--engine.queries-max", "7", "--default-stream", "s"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let line = |name: &str| {
        let (setting, origin) =
            ran.out.lines().find(|line| line.starts_with(name)).unwrap().split_once('#').unwrap();
        format!("{} #{origin}", setting.trim_end())
    };
    assert_eq!(line("tick_ms"), "tick_ms = \"20ms\" # swiftwater.toml:2");
    assert_eq!(line("shards"), "shards = 2 # environment SWIFTWATER_ENGINE__SHARDS");
    assert_eq!(line("queries_max"), "queries_max = 7 # flag --engine.queries-max");
    assert_eq!(line("default_stream"), "default_stream = \"s\" # flag --engine.default-stream");
    fs::write(directory.path().join("swiftwater.toml"), "[engine]\ntik_ms = 20\n[sever]\n").unwrap();
    let ran = config(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("the settings have 2 errors"), "{}", ran.err);
    assert!(
        ran.err.contains("swiftwater.toml:2: unknown setting `engine.tik_ms`; did you mean"),
        "{}",
        ran.err
    );
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let server = TestServer::start(&[]);
    let address = server.url.strip_prefix("http://").unwrap();
    for command in [["serve", "--listen"], ["demo", "--listen"]] {
        let ran = run(&[&command[..], &[address]].concat());
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(address) && ran.err.contains("--listen 127.0.0.1:0"), "{}", ran.err);
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    // A request that never ends keeps the server from ending by itself.
    let server = TestServer::start(&["--server.shutdown-grace-ms", "10min"]);
    let mut query = Running::start(&["query", "--server", &server.url, "SELECT * FROM STREAM(s, MAX, TIME)"]);
    server.wait_for("/v1/queries", "SELECT");
    assert_eq!(server.ingest("s", "{}\n").code, Some(0));
    query.line();
    let authority = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut stuck = std::net::TcpStream::connect(&authority).unwrap();
    write!(stuck, "POST /v1/streams/s/events HTTP/1.1\r\nhost: {authority}\r\ncontent-length: 100\r\n\r\n{{")
        .unwrap();
    server.running.signal("TERM");
    assert_eq!(query.end().code, Some(0));
    let mut running = server.running;
    until("the server to end", || {
        running.signal("TERM");
        running.child.try_wait().unwrap().is_some()
    });
}

#[test]
fn durable_queries_submitted_at_once_stay_within_the_most_queries() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::over_with(directory.path(), &["--engine.queries-max", "3"]);
    let ask = |method: &str, path: &str, body: &str| {
        let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
        connection.ask(method, path, body.as_bytes()).unwrap()
    };
    assert_eq!(ask("POST", "/v1/sql", "CREATE STREAM s (n LONG)").status, 200);
    // Each is written to disk before it counts among those that stand, and the others are submitted meanwhile.
    let submit = || ask("POST", "/v1/queries?detach=true", "SELECT n FROM STREAM(s, MAX, TIME)");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12).map(|_| scope.spawn(submit)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (admitted, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((admitted.len(), refused.len()), (3, 9), "{answers:?}");
    for answer in refused {
        assert_eq!((answer.status, &answer.json()["setting"]), (429, &"engine.queries_max".into()));
    }
    assert_eq!(ask("GET", "/v1/queries", "").json()["queries"].as_array().unwrap().len(), 3);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.out.contains("ingest") && ran.out.contains("default-stream"), "{shell}");
    }
}

#[test]
fn help_shows_examples() {
    for command in ["serve", "demo", "ingest", "query", "top", "completions"] {
        let ran = run(&[command, "--help"]);
        assert!(
            ran.code == Some(0) && ran.out.contains("Examples") && ran.out.contains("swiftwater "),
            "{command}"
        );
    }
    assert_eq!(run(&["--version"]).out, format!("swiftwater {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_query_is_saved_and_run_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestServer::start(&["--data", directory.path().to_str().unwrap()]);
    let sql = |text: &str| run(&["sql", "--server", &server.url, "--output", "csv", text]);
    let saved =
        sql("CREATE SAVED QUERY over AS $$SELECT COUNT(*) AS n FROM STREAM(s, 300, TIME) WHERE a > $1$$");
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    let ran = run(&["query", "--server", &server.url, "--quiet", "--saved", "over", "-p", "4"]);
    assert!(ran.code == Some(0) && ran.out.contains("\"n\":0"), "{}{}", ran.out, ran.err);
    let ran = run(&["query", "--server", &server.url, "--saved", "other"]);
    assert!(ran.code == Some(1) && ran.err.contains("no saved query `other`"), "{}", ran.err);
    let ran = run(&["query", "--saved", "over", "SELECT"]);
    assert!(ran.code == Some(2) && ran.err.contains("cannot be used with"), "{}", ran.err);
    let wrong = sql("CREATE SAVED QUERY wrong AS $$SELECT a\nFORM STREAM(s)$$");
    assert!(wrong.err.starts_with("2:6: "), "{}", wrong.err);
    let wrong = sql("CREATE SAVED DASHBOARD d AS $${\"version\": 2}$$");
    assert!(wrong.err.contains("/version: this server knows version 1"), "{}", wrong.err);
    assert!(sql("SHOW SAVED QUERIES").out.lines().nth(1).unwrap().starts_with("over,"));
}
