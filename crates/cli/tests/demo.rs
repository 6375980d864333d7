//! Tests that the examples that the demo suggests answer soon.

mod common;

use std::process::Command;

use common::{Running, TestServer, run, seconds, until};

/// Two seconds are promised; the rest is for a machine that runs many tests at once.
const SECONDS_MAX: f64 = 2.0 + 2.0;

/// The words of a command as a shell splits them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.trim().chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            (Some(open), c) if c == open => quote = None,
            (_, c) => words.last_mut().expect("it began with one").push(c),
        }
    }
    words
}

#[test]
fn what_it_tells_to_try_answers_soon() {
    let command = ["demo", "--listen", "127.0.0.1:0", "--log", "warn"];
    let mut server = TestServer::start_as(&command, &[]);
    let mut tried = 0;
    loop {
        let line = server.running.line();
        if line.starts_with("Ctrl-C") {
            break;
        }
        let words = words(&line);
        let args: Vec<&str> = words.iter().map(String::as_str).skip(1).collect();
        if args.first() == Some(&"sql") {
            let ran = run(&args);
            assert!(ran.code == Some(0) && ran.out.contains("UA"), "{}{}", ran.out, ran.err);
            tried += 1;
        }
        if args.first() != Some(&"query") {
            continue;
        }
        let (took, line) = seconds(|| Running::start(&args).line());
        assert!(line.starts_with('{') && line.len() > 2, "{line}");
        assert!(took < SECONDS_MAX, "{args:?} took {took} s");
        tried += 1;
    }
    assert_eq!(tried, 5);
    let ran = run(&["top", "--server", &server.url, "--once"]);
    assert!(ran.out.contains("\nflights ") && ran.out.contains("\nhost "), "{}", ran.out);
    server.running.signal("INT");
    assert_eq!(server.running.end().code, Some(0));
}

#[test]
fn the_default_stream_is_what_there_is() {
    let server = TestServer::start_as(&["demo", "--listen", "127.0.0.1:0", "--no-flights"], &[]);
    let ran =
        run(&["query", "--server", &server.url, "--output", "csv", "SELECT kind FROM STREAM() LIMIT 1"]);
    assert_eq!((ran.code, ran.out.lines().next()), (Some(0), Some("kind")), "{}", ran.err);
    assert_eq!(run(&["demo", "--no-flights", "--no-host"]).code, Some(1));
}

#[test]
fn stored_events_go_with_the_demo_unless_they_are_to_be_kept() {
    let directory = tempfile::tempdir().unwrap();
    let folders = || std::fs::read_dir(directory.path()).unwrap().count();
    let command = ["demo", "--listen", "127.0.0.1:0", "--log", "warn", "--no-host"];
    let count =
        |url: &str| run(&["sql", "--server", url, "--output", "csv", "SELECT count(*) AS n FROM flights"]);
    let start = |more: &[&str]| {
        let command: Vec<&str> = command.iter().chain(more).copied().collect();
        let mut demo = Running::start_by(&command, |plain| {
            let mut command = Command::new(plain.get_program());
            command.args(plain.get_args()).env("TMPDIR", directory.path());
            command
        });
        let url = demo.line().strip_prefix("listening on ").unwrap().to_owned();
        (demo, url)
    };
    let (demo, url) = start(&[]);
    until("flights are stored", || count(&url).out.lines().nth(1).is_some_and(|n| n != "0"));
    assert_eq!(folders(), 1);
    demo.signal("INT");
    assert_eq!((demo.end().code, folders()), (Some(0), 0));

    let data = directory.path().join("data");
    let (demo, url) = start(&["--data", data.to_str().unwrap()]);
    until("flights are stored", || count(&url).out.lines().nth(1).is_some_and(|n| n != "0"));
    demo.signal("INT");
    assert_eq!((demo.end().code, folders(), data.is_dir()), (Some(0), 1, true));

    let (demo, url) = start(&["--no-data"]);
    assert!(count(&url).err.contains("nothing is stored here"));
    demo.signal("INT");
    demo.end();
    let both = run(&["demo", "--no-data", "--data", "x"]);
    assert!(both.code == Some(2) && both.err.contains("cannot be used with"), "{}", both.err);
}

#[test]
fn flights_go_on_when_their_stream_is_dropped_and_declared_anew() {
    let server =
        TestServer::start_as(&["demo", "--listen", "127.0.0.1:0", "--no-host", "--log", "error"], &[]);
    let sql = |text: &str| run(&["sql", "--server", &server.url, "--output", "csv", text]);
    for _ in 0..20 {
        let ran = sql("DROP STREAM flights; CREATE STREAM flights (carrier STRING NOT NULL)");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let count = || sql("SELECT count(*) AS n FROM flights").out;
    until("flights are stored", || count().lines().nth(1).is_some_and(|n| n != "0"));
}
