//! Tests of `swiftwater search` over files and standard input.

mod common;

use common::{run, run_with};

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
