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
