//! Tests `swiftwater ingest` against a server that fails during a request: killed by SIGKILL while it takes events, or cut
//! off before its answer is read. Each event is stored once, and the reported count is right.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Stdio,
};

use common::{ProcessOutput, TestServer, http::Connection, run, swiftwater, until};
use serde_json::{Value, json};

const EVENTS: u64 = 24_000;

fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

fn sql(server: &TestServer, text: &str) -> Value {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let answer =
        connection.ask_with("POST", "/v1/sql", &["accept: application/json"], text.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// Starts a server over a directory, at a fixed address.
fn start(data: &Path, listen: &str) -> TestServer {
    let args = ["--data", data.to_str().unwrap(), "--data.log-free-bytes-min", "0"];
    TestServer::start_as(&["serve", "--listen", listen, "--log", "error"], &args)
}

fn lines(range: std::ops::Range<u64>) -> String {
    let pad = "x".repeat(1_500);
    let mut lines = String::new();
    for n in range {
        // Each thousandth line has one before it that is no event.
        let bad = if n % 1_000 == 999 { "no event\n" } else { "" };
        writeln!(lines, "{bad}{{\"n\":{n},\"pad\":\"{pad}\"}}").unwrap();
    }
    lines
}

fn check(server: &TestServer, stream: &str, events: u64) {
    let found = sql(server, &format!("SELECT count(*) AS n, count(DISTINCT n) AS d FROM {stream}"));
    assert_eq!(found, json!([{"n": events, "d": events}]), "{stream}");
}

fn position(server: &TestServer, stream: &str) -> u64 {
    let told: Value = serde_json::from_str(&server.get(&format!("/v1/streams/{stream}"))).unwrap();
    told["position"].as_u64().unwrap_or(0)
}

/// Runs `ingest`, and kills the server twice as soon as it has taken more.
fn ingest_under_kills(
    server: &mut TestServer,
    data: &Path,
    args: &[&str],
    input: Option<&str>,
) -> ProcessOutput {
    let stream = args[1];
    let mut command = swiftwater(args);
    command.args(["--server", &server.url]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() }).spawn().unwrap();
    let writer = input.map(|text| {
        let (mut stdin, text) = (child.stdin.take().unwrap(), text.to_owned());
        std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())))
    });
    let mut seen = 0;
    for _ in 0..2 {
        until("events to be taken", || {
            position(server, stream) > seen || child.try_wait().unwrap().is_some()
        });
        seen = position(server, stream);
        server.running.signal("KILL");
        let listen = address(&server.url).to_string();
        server.running.child.wait().unwrap();
        *server = start(data, &listen);
    }
    let ran = child.wait_with_output().unwrap().into();
    writer.into_iter().for_each(|writer| writer.join().unwrap());
    ran
}

#[test]
fn each_event_is_there_once_though_the_server_is_killed_while_it_takes_them() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = start(&data, "127.0.0.1:0");
    let text = lines(0..EVENTS);
    let file = directory.path().join("lines.ndjson");
    std::fs::write(&file, &text).unwrap();
    let packed = directory.path().join("lines.zst");
    std::fs::write(&packed, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let told = "24,000 events accepted, 24 rejected\n";
    for (stream, input, piped) in [
        ("of_file", file.to_str().unwrap(), None),
        ("of_packed", packed.to_str().unwrap(), None),
        ("of_pipe", "-", Some(text.as_str())),
    ] {
        sql(&server, &format!("CREATE STREAM {stream} (n LONG NOT NULL, pad STRING)"));
        let args = ["ingest", stream, input, "--retry=60s", "--allow-rejected"];
        let ran = ingest_under_kills(&mut server, &data, &args, piped);
        assert_eq!(ran.code, Some(0), "{stream}: {}", ran.err);
        assert!(ran.err.contains(told), "{stream}: {}", ran.err);
        check(&server, stream, EVENTS);
    }
}

/// Forwards connections, and of the `lost`-th one (from 0) does not give the answer back.
fn cutting_proxy(server: SocketAddr, lost: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            std::thread::spawn(move || {
                if number == lost {
                    // The answer is there, so the request is done.
                    let _ = server.read(&mut [0; 1 << 16]);
                } else {
                    let _ = std::io::copy(&mut server, &mut client);
                }
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    url
}

#[test]
fn request_whose_answer_was_lost_is_stored_once_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory.path().join("data"), "127.0.0.1:0");
    let file = directory.path().join("lines.ndjson");
    std::fs::write(&file, lines(0..12_000)).unwrap();
    let file = file.to_str().unwrap();
    sql(&server, "CREATE STREAM retried (n LONG, pad STRING); CREATE STREAM resumed (n LONG, pad STRING)");
    // The first connection looks whether there is a server, the second one asks about numbers.
    let proxy = cutting_proxy(address(&server.url), 2);
    let ran = run(&["ingest", "retried", file, "--server", &proxy, "--retry=30s", "--allow-rejected"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("12,000 events accepted, 12 rejected\n"), "{}", ran.err);
    assert_eq!(ran.err.matches("waiting until the server answers").count(), 1, "{}", ran.err);
    check(&server, "retried", 12_000);

    // Without --retry it fails, and prints how to continue.
    let proxy = cutting_proxy(address(&server.url), 2);
    let ran = run(&["ingest", "resumed", file, "--server", &proxy]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("the server did not answer the last request"), "{}", ran.err);
    let (_, name) = ran.err.split_once("--producer ").unwrap();
    let name = name.lines().next().unwrap();
    let stored = position(&server, "resumed");
    assert!((1..12_000).contains(&stored), "{stored}");
    let resume =
        || run(&["ingest", "resumed", file, "--server", &server.url, "--producer", name, "--allow-rejected"]);
    let ran = resume();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let before = stored.to_string();
    let before = before.split_at(before.len() - 3);
    let told = format!("12,000 events accepted, {},{} of them by an earlier run", before.0, before.1);
    assert!(ran.err.contains(&told), "{told}: {}", ran.err);
    check(&server, "resumed", 12_000);
    // All of it again.
    assert!(resume().err.contains("12,000 events accepted, 12,000 of them by an earlier run"));
    check(&server, "resumed", 12_000);
}

#[test]
fn name_of_a_run_stores_a_file_once_and_refuses_another_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory.path().join("data"), "127.0.0.1:0");
    sql(&server, "CREATE STREAM s (n LONG)");
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (a, b) = (path("a.ndjson"), path("b.ndjson"));
    std::fs::write(&a, "{\"n\":1}\n{\"n\":2}\n").unwrap();
    std::fs::write(&b, "{\"n\":3}\n").unwrap();
    let ingest = |more: &[&str]| run(&[&["ingest", "s", "--server", &server.url], more].concat());
    assert!(ingest(&[&a, "--producer", "day"]).err.contains("2 events accepted\n"));
    let ran = ingest(&[&b, &a, "--producer", "day"]);
    assert!(ran.err.contains("3 events accepted, 2 of them by an earlier run\n"), "{}", ran.err);
    check(&server, "s", 3);
    // Without a name, and under another one, it is sent again.
    assert!(ingest(&[&b]).err.contains("1 events accepted\n"));
    assert!(ingest(&[&b, "--producer", "other"]).err.contains("1 events accepted\n"));
    assert_eq!(position(&server, "s"), 5);
    std::fs::write(&b, "{\"n\":4}\n").unwrap();
    let ran = ingest(&[&b, "--producer", "day"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("is already stored with other events"), "{}", ran.err);
    assert_eq!(position(&server, "s"), 5);

    for (args, said) in [
        (&["-", "--producer", "day"][..], "--producer needs files"),
        (&[&a, "--producer", "day", "--rate", "5"], "cannot be used with"),
        (&[&a, "--producer", "two words"], "1 to 96 visible ASCII characters"),
    ] {
        let ran = ingest(args);
        assert!(ran.code == Some(2) && ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    let ran = run(&["ingest", "live", &a, "--producer", "day", "--server", &server.url]);
    assert!(ran.err.contains("needs a stored stream, and `live` is live-only"), "{}", ran.err);
}

#[test]
fn file_that_is_shorter_than_what_was_sent_under_its_name_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory.path().join("data"), "127.0.0.1:0");
    sql(&server, "CREATE STREAM s (n LONG)");
    let file = directory.path().join("f.ndjson");
    std::fs::write(&file, "{\"n\":1}\n").unwrap();
    let ingest = || run(&["ingest", "s", file.to_str().unwrap(), "--server", &server.url, "--producer", "p"]);
    assert_eq!(ingest().code, Some(0));
    // As if it had been sent in very many requests.
    let path = file.canonicalize().unwrap();
    let producer = format!("p:{:016x}", swiftwater_engine::hash_of([path.to_str().unwrap().as_bytes()]));
    let authority = server.url.strip_prefix("http://").unwrap();
    let mut connection = Connection::open(authority).unwrap();
    for number in 1..=70 {
        let fields = [format!("swiftwater-producer: {producer}"), format!("swiftwater-sequence: {number}")];
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        assert_eq!(
            connection.ask_with("POST", "/v1/streams/s/events", &fields, b"{\"n\":2}").unwrap().status,
            200
        );
    }
    let ran = ingest();
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("ends before the position that an earlier run"), "{}", ran.err);
    assert_eq!(position(&server, "s"), 71);
}
