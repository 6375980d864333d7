//! Tests of `swiftwater search` over files and standard input, and over a server's streams.

mod common;

use std::io::{BufRead, BufReader};

use common::{TestServer, run, run_with};

const EVENTS: &str = "{\"message\": \"read timeout\", \"status\": 500}\n\
    {\"message\": \"ok\", \"status\": 200, \"tags\": [\"Timeout\"]}\n\
    {\"message\": \"接続がタイムアウトしました\"}\n";

#[test]
fn events_are_printed_as_they_are() {
    for (query, expected) in [
        ("timeout", &[0, 1][..]),
        ("timeout status:>=500", &[0]),
        ("tags:timeout", &[1]),
        ("\"read timeout\"", &[0]),
        ("タイムアウト", &[2]),
        ("-timeout", &[2]),
        ("it's OR ok", &[1]),
        ("nothing", &[]),
    ] {
        let ran = run_with(&["search", "--input", "-", query], EVENTS.as_bytes());
        let lines: Vec<&str> = EVENTS.lines().collect();
        let expected: String = expected.iter().map(|line: &usize| format!("{}\n", lines[*line])).collect();
        assert_eq!((ran.code, ran.out), (Some(0), expected), "{query}: {}", ran.err);
    }
}

#[test]
fn events_in_other_spellings_are_found_and_faulty_ones_reported() {
    let events = "{\"message\": \"read timeout\"}\n{\"message\": \"ok\"\n{\"message\": \"time\\u006fut\"}\n\n\
        {\"message\": nothing}\n{\"message\": \"ＴＩＭＥＯＵＴ\"}\n{\"message\": \"ok\"}\n";
    let dir = tempfile::tempdir().expect("a directory is made");
    let path = dir.path().join("events.ndjson");
    std::fs::write(&path, events).expect("it is written");
    let path = path.to_str().expect("a path of tests is text");
    let lines: Vec<&str> = events.lines().collect();
    for (query, expected) in [("timeout", &[0, 2, 5][..]), ("nowhere", &[]), ("-timeout", &[6])] {
        let ran = run(&["search", "--input", path, query]);
        let expected: String = expected.iter().map(|line: &usize| format!("{}\n", lines[*line])).collect();
        let reports = format!(
            "2 of 6 events were rejected:\n  {path}:2:17: the text ends before the event does\n  \
            {path}:5:13: expected `true`, `false` or `null`\n"
        );
        assert_eq!((ran.code, ran.out, ran.err), (Some(0), expected, reports), "{query}");
    }
}

#[test]
fn matches_are_marked_events_counted_and_limited() {
    let dir = tempfile::tempdir().expect("a directory is made");
    let path = dir.path().join("events.ndjson");
    std::fs::write(&path, EVENTS.repeat(1000)).expect("it is written");
    let path = path.to_str().expect("a path of tests is text");
    let ran = run(&["search", "--input", path, "timeout", "--limit", "2", "--color"]);
    let expected = "{\"message\": \"read \u{1b}[1;31mtimeout\u{1b}[0m\", \"status\": 500}\n\
        {\"message\": \"ok\", \"status\": 200, \"tags\": [\"\u{1b}[1;31mTimeout\u{1b}[0m\"]}\n";
    assert_eq!((ran.code, &*ran.out), (Some(0), expected), "{}", ran.err);
    let ran = run(&["search", "--input", path, "timeout", "--count"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "{\"events\":2000}\n"), "{}", ran.err);
}

#[test]
fn search_that_is_wrong_ends_with_all_its_faults() {
    let ran = run(&["search", "--input", "-", "a~3 message:/(?=x)/"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), ""));
    let expected = "error: the search cannot be read:\n  \
        character 2: `~` after a word needs the number of differing characters, 1 or 2\n    \
        Write refuzed~1, or put \\ before `~`.\n  \
        character 5: regular expressions cannot look around\n    \
        Join two expressions by AND or NOT: column:/a/ AND NOT column:/b/.\n";
    assert_eq!(ran.err, expected);
    let ran = run(&["search", "--input", "/nowhere/x.ndjson", "a"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
}

#[test]
fn stored_events_are_found_on_a_server() {
    let directory = tempfile::tempdir().expect("a directory is made");
    let server = TestServer::over_with(directory.path(), &["--data.store-new-streams", "yes"]);
    let lines: Vec<String> =
        (0..2500).map(|n| format!("{{\"n\":{n},\"message\":\"line {n}\",\"odd\":{}}}", n % 2 == 1)).collect();
    assert_eq!(server.ingest("logs", &lines.join("\n")).code, Some(0));
    assert_eq!(server.ingest("traces", "{\"note\":\"line 7 of a trace\"}\n").code, Some(0));
    let search = |words: &[&str]| run(&[&["search", "--server", &server.url], words].concat());
    for (words, expected) in [
        (&["logs", "2499"][..], "{\"n\":2499,\"message\":\"line 2499\",\"odd\":true}\n".to_owned()),
        (&["logs", "line", "--count"], "{\"events\":2500}\n".to_owned()),
        (&["logs", "line", "--all", "--sort", "n"], lines.join("\n") + "\n"),
        (&["logs", "odd:true", "--limit", "2", "--columns", "n"], "{\"n\":2499}\n{\"n\":2497}\n".to_owned()),
        (
            &["logs", "line", "--last", "1h", "--limit", "1", "--sort", "-n", "--columns", "n"],
            "{\"n\":2499}\n".to_owned(),
        ),
        (&["logs", "line", "--to", "2026-01-01", "--count"], "{\"events\":0}\n".to_owned()),
        (
            &["logs", "traces", "\"line 7\"", "--sort", "_time", "--color"],
            "{\"n\":7,\"message\":\"\u{1b}[1;31mline\u{1b}[0m \u{1b}[1;31m7\u{1b}[0m\",\"odd\":true}\n\
          {\"note\":\"\u{1b}[1;31mline\u{1b}[0m \u{1b}[1;31m7\u{1b}[0m of a trace\"}\n"
                .to_owned(),
        ),
        (&["logs", "nothing"], String::new()),
    ] {
        let ran = search(words);
        let out = match words.contains(&"--color") {
            // The times of arrival stand before the events.
            true => ran
                .out
                .lines()
                .map(|line| format!("{}\n", &line[line.find("\u{1b}[0m ").expect("a time") + 5..]))
                .collect(),
            false => ran.out,
        };
        assert_eq!((ran.code, out), (Some(0), expected), "{words:?}: {}", ran.err);
    }
    let ran = search(&["logs", "line", "--facet", "odd;limit=1", "--histogram", "_time:1d"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        (ran.code, lines[0]),
        (Some(0), "{\"facet\":\"odd\",\"value\":false,\"count\":1250}"),
        "{}",
        ran.err
    );
    assert!(
        lines.len() >= 2 && lines[1].starts_with("{\"time\":\"") && lines[1].ends_with("\"count\":2500}"),
        "{}",
        ran.out
    );
    let ran = search(&["logs", "line", "--facet", "odd", "--color"]);
    assert!(ran.out.starts_with("odd: 2 values, 0 events without\n  false 1250 █████"), "{}", ran.out);
    let ran = search(&["logs", "odd:true", "--around", "7", "--limit", "1", "--columns", "n"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "{\"n\":5}\n{\"n\":7}\n{\"n\":9}\n"), "{}", ran.err);
    let ran = search(&["logs", "line", "--explain"]);
    assert!(ran.out.starts_with("{\"explain\":{") && ran.out.contains("_offset < 2500"), "{}", ran.out);
    let ran = search(&["logs", "line", "--explain", "--color"]);
    assert!(ran.out.contains("STAGE") && ran.out.contains("\nscan "), "{}", ran.out);
    let ran = search(&["logs", "n:7", "--hits"]);
    assert!(ran.out.starts_with("{\"stream\":\"logs\",\"offset\":7,\"time\":\""), "{}", ran.out);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_swiftwater"))
        .args([
            "search",
            "--server",
            &server.url,
            "logs",
            "line",
            "--follow",
            "--limit",
            "2",
            "--columns",
            "n",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut followed = BufReader::new(child.stdout.take().expect("its output is read")).lines();
    let mut next = || followed.next().expect("there is a line").expect("it is text");
    assert_eq!([next(), next()], ["{\"n\":2498}", "{\"n\":2499}"]);
    assert_eq!(server.ingest("logs", "{\"n\":-1,\"message\":\"line of now\"}\n").code, Some(0));
    assert_eq!(next(), "{\"n\":-1}");
    // The server is killed and comes back at its address.
    let address = server.url.strip_prefix("http://").expect("it is a URL").to_owned();
    server.running.signal("KILL");
    drop(server);
    let server = TestServer::start_as(
        &["serve", "--log", "warn", "--listen", &address],
        &["--data", directory.path().to_str().expect("a path of tests is text")],
    );
    assert_eq!(server.ingest("logs", "{\"n\":-2,\"message\":\"line of later\"}\n").code, Some(0));
    assert_eq!(next(), "{\"n\":-2}");
    let search = |words: &[&str]| run(&[&["search", "--server", &server.url], words].concat());
    child.kill().expect("it is ended");
    child.wait().expect("it has ended");
    for (words, expected) in [
        (&["logs", "a OR"][..], "`OR` has nothing after it"),
        (&["logs", "mesage:a"], "Did you mean `message:`?"),
        (&["timeout"], "name a stream before the search"),
        (&["logs", "a", "--limit", "0"], "0 is not in"),
    ] {
        let ran = search(words);
        assert!(ran.code == Some(2) && ran.err.contains(expected), "{words:?}: {}", ran.err);
    }
    let ran = search(&["log", "a"]);
    assert!(ran.code == Some(1) && ran.err.contains("Did you mean `logs`?"), "{}", ran.err);
}

#[test]
fn events_of_an_id_are_printed_across_streams() {
    let directory = tempfile::tempdir().expect("a directory is made");
    let server = TestServer::over_with(directory.path(), &[]);
    let schema = "CREATE STREAM logs (trace STRING, n LONG); CREATE STREAM orders (order_id LONG, trace STRING); \
        CREATE SEARCH INDEX ON logs (trace ID CORRELATION); \
        CREATE SEARCH INDEX ON orders (order_id ID CORRELATION, trace ID CORRELATION)";
    assert_eq!(run(&["sql", "--server", &server.url, schema]).code, Some(0));
    let lines: Vec<String> = (0..1500).map(|n| format!("{{\"trace\":\"a b\",\"n\":{n}}}")).collect();
    assert_eq!(server.ingest("logs", &lines.join("\n")).code, Some(0));
    let orders = "{\"order_id\":7,\"trace\":\"a b\"}\n{\"order_id\":7,\"trace\":\"c\"}\n";
    assert_eq!(server.ingest("orders", orders).code, Some(0));
    let activity = |words: &[&str]| run(&[&["activity", "--server", &server.url], words].concat());
    let ran = activity(&["7"]);
    let printed: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!((ran.code, printed.len()), (Some(0), 2), "{}", ran.err);
    assert_eq!(
        (&printed[1]["stream"], &printed[1]["offset"], &printed[1]["event"]["trace"]),
        (&"orders".into(), &1.into(), &"c".into())
    );
    // Of several pages.
    assert_eq!(activity(&["a b", "--last", "1h"]).out.lines().count(), 1501);
    assert_eq!(activity(&["a b", "--limit", "1001"]).out.lines().count(), 1001);
    assert_eq!(activity(&["a b", "--stream", "orders", "--to", "now+1h"]).out.lines().count(), 1);
    let ran = activity(&["c", "--depth", "1", "--color"]);
    let shown: Vec<&str> = ran.out.lines().map(|line| line.split_once(' ').expect("a time").1).collect();
    assert_eq!(
        shown,
        [
            "orders (order_id=7)\u{1b}[0m {\"order_id\":7,\"trace\":\"a b\"}",
            "orders\u{1b}[0m {\"order_id\":7,\"trace\":\"c\"}"
        ],
        "{}",
        ran.err
    );
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_swiftwater"))
        .args(["activity", "--server", &server.url, "c", "--follow"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut followed = BufReader::new(child.stdout.take().expect("its output is read")).lines();
    let mut next = || followed.next().expect("there is a line").expect("it is text");
    assert!(next().starts_with("{\"stream\":\"orders\",\"offset\":1,"));
    assert_eq!(server.ingest("logs", "{\"trace\":\"c\",\"n\":-1}\n").code, Some(0));
    assert!(next().starts_with("{\"stream\":\"logs\",\"offset\":1500,"));
    child.kill().expect("it is ended");
    child.wait().expect("it has ended");
    for (words, code, expected) in [
        (&["c", "--depth", "9"][..], 2, "`depth` is 9"),
        (&["c", "--stream", "log"], 1, "Did you mean `logs`?"),
        (&["c", "--depth", "1", "--follow"], 2, "cannot be used with"),
    ] {
        let ran = activity(words);
        assert!(
            ran.code == Some(code) && ran.err.contains(expected),
            "{words:?}: {:?} {}",
            ran.code,
            ran.err
        );
    }
}
