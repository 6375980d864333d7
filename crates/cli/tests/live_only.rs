//! The binary without history: live queries work, and everything durable names the remedy. `SWIFTWATER_LIVE_ONLY_BIN` names
//! that binary, which `make test` builds; without it the tests report that they skipped.

#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod common;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
};

use common::{Running, http::Connection, until};

const REMEDY: &str = "this binary was built without history: make build";

/// The binary with these arguments; none if there is no such binary.
fn live_only(args: &[&str]) -> Option<Running> {
    let Some(binary) = std::env::var_os("SWIFTWATER_LIVE_ONLY_BIN") else {
        println!("skipped: SWIFTWATER_LIVE_ONLY_BIN names no binary");
        return None;
    };
    Some(Running::start_by(args, |full| {
        let mut command = Command::new(&binary);
        command.args(full.get_args());
        command
    }))
}

/// A server of that binary, and its authority.
fn server(args: &[&str]) -> Option<(Running, String)> {
    let mut running = live_only(&[&["serve", "--listen", "127.0.0.1:0", "--log", "error"], args].concat())?;
    let line = running.line();
    let authority = line.strip_prefix("listening on http://").expect("it listens").to_owned();
    Some((running, authority))
}

#[test]
fn live_queries_run_and_what_is_durable_names_the_remedy() {
    let Some((_running, authority)) = server(&[]) else { return };
    let url = format!("http://{authority}");
    let text = "SELECT COUNT(*) AS n FROM STREAM(clicks) WINDOWING EVERY(3, RECORD, ALL)";
    let mut query =
        live_only(&["query", "--server", &url, "--output", "ndjson", text]).expect("there is a binary");
    let mut connection = Connection::open(&authority).expect("it accepts");
    until("the query to stand", || {
        let queries = connection.ask("GET", "/v1/queries", b"").expect("it answers");
        queries.json()["queries"].as_array().is_some_and(|queries| !queries.is_empty())
    });
    let sent = connection.ask("POST", "/v1/streams/clicks/events", b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
    let sent = sent.expect("it answers");
    assert!((200..300).contains(&sent.status), "{sent:?}");
    assert_eq!(query.line(), "{\"n\":3}");
    for (method, path, body) in [
        ("POST", "/v1/sql", "{\"sql\":\"SELECT 1\"}"),
        ("GET", "/v1/views/v", ""),
        ("POST", "/v1/backups", ""),
    ] {
        let answer = connection.ask(method, path, body.as_bytes()).expect("it answers");
        assert_eq!(answer.status, 501, "{method} {path}");
        let problem = answer.json();
        assert_eq!(problem["detail"], REMEDY, "{method} {path}: {problem}");
    }
}

#[test]
fn commands_that_need_history_end_with_the_remedy() {
    for args in [&["sql", "SELECT 1"][..], &["backup", "x"], &["restore", "x", "--data", "y"]] {
        let Some(running) = live_only(args) else { return };
        let ended = running.end();
        if ended.code == Some(2) {
            // The words of the command line are wrong, which another test would see.
            panic!("{args:?}: {}", ended.err);
        }
        assert_eq!((ended.code, ended.err.trim_end()), (Some(69), &*format!("error: {REMEDY}")), "{args:?}");
    }
}

#[test]
fn postgres_sessions_begin_and_statements_fail_with_the_remedy() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("there is a port").to_string();
    let Some((_running, _)) = server(&["--server.postgres-listen", &address]) else { return };
    let mut stream = TcpStream::connect(&address).expect("it accepts");
    // Protocol 3.0 without parameters but the user.
    let startup = [&196_608_i32.to_be_bytes()[..], b"user\0me\0\0"].concat();
    let length = i32::try_from(startup.len() + 4).expect("it is short").to_be_bytes();
    let query = b"Q\0\0\0\x0dSELECT 1\0";
    let end = b"X\0\0\0\x04";
    stream.write_all(&[&length[..], &startup, query, end].concat()).expect("it is written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("C0A000\0") && answer.contains(&format!("M{REMEDY}\0")), "{answer:?}");
}
