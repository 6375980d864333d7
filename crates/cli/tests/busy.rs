//! Tests `swiftwater ingest` against a server that has no room for a while. It waits, resumes after the last event that was
//! taken, and each event is stored once, whatever the file contains.
//!
//! A real server has a small log, and its store is away until the client reports that it waits. The log is therefore full
//! after some hundred megabytes and has room again after a commit, however fast the machine is. With `SOAK_SECONDS` set (`make
//! torture`) there are files of all forms.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Stdio,
    thread::JoinHandle,
};

use common::{ProcessOutput, TestServer, http::Connection, run_with, swiftwater, tortured::soak_seconds};
use serde_json::{Value, json};

/// Events of a file, and the bytes of each.
const EVENTS: u64 = 24_000;
const EVENT_BYTES: usize = 8_000;

fn start(directory: &Path) -> TestServer {
    TestServer::start(&[
        "--data",
        directory.join("data").to_str().unwrap(),
        "--store.location",
        directory.join("tables").to_str().unwrap(),
        "--data.log-free-bytes-min",
        "0",
        "--data.log-bytes-max",
        "128MiB",
        "--data.log-segment-bytes",
        "32MiB",
        "--data.log-compression",
        "none",
        "--data.detached-log-bytes-max",
        "0",
        "--store.commit-interval-ms",
        "50",
    ])
}

fn sql(server: &TestServer, text: &str) -> Value {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let answer =
        connection.ask_with("POST", "/v1/sql", &["accept: application/json"], text.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// Sends a file of which no more fits than a part at first; `rejected` of what it holds are no events.
fn check(server: &TestServer, directory: &Path, (stream, file): (&str, &str), rejected: u64) {
    sql(server, &format!("CREATE STREAM {stream} (n LONG NOT NULL, pad STRING)"));
    // A file stands where the tables were: nothing is committed, and the log keeps all.
    let (tables, aside) = (directory.join("tables"), directory.join("aside"));
    std::fs::rename(&tables, &aside).unwrap();
    std::fs::write(&tables, "no directory").unwrap();
    let file = directory.join(file);
    let ingest = ["ingest", stream, file.to_str().unwrap(), "--server", &server.url, "--allow-rejected"];
    let mut child = swiftwater(&ingest).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains("waiting until the server has room") {
        assert!(lines.read_line(&mut err).unwrap() > 0, "the log has no room: {err}");
    }
    std::fs::remove_file(&tables).unwrap();
    std::fs::rename(&aside, &tables).unwrap();
    lines.read_to_string(&mut err).unwrap();
    let ran = ProcessOutput { code: child.wait().unwrap().code(), out: String::new(), err };
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(
        ran.err.matches("waiting until the server has room").count(),
        1,
        "it is told once: {}",
        ran.err
    );
    let lost = match rejected {
        0 => String::new(),
        rejected => format!(", {rejected} rejected"),
    };
    assert!(ran.err.contains(&format!("24,000 events accepted{lost}\n")), "{}", ran.err);
    let counted = sql(
        server,
        &format!(
            "SELECT count(*) AS n, count(DISTINCT n) AS d, min(n) AS low, max(n) AS top, min(length(pad)) AS pad FROM {stream}"
        ),
    );
    let expected = json!([{"n": EVENTS, "d": EVENTS, "low": 0, "top": EVENTS - 1, "pad": EVENT_BYTES}]);
    assert_eq!(counted, expected, "{stream}");
    let told: Value = serde_json::from_str(&server.get(&format!("/v1/streams/{stream}"))).unwrap();
    assert_eq!(told["position"], EVENTS, "the next offset of {stream}: {told}");
}

fn write(path: &Path, event: impl Fn(u64, &str) -> String) {
    let pad = "x".repeat(EVENT_BYTES);
    let mut file = BufWriter::new(File::create(path).unwrap());
    (0..EVENTS).for_each(|n| file.write_all(event(n, &pad).as_bytes()).unwrap());
    file.flush().unwrap();
}

#[test]
fn each_event_is_there_once_though_the_log_was_full() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let path = |name: &str| directory.path().join(name);

    write(&path("lines.ndjson"), |n, pad| {
        // Each thousandth line has one before it that is no event.
        let bad = if n % 1_000 == 999 { "no event\n" } else { "" };
        format!("{bad}{{\"n\":{n},\"pad\":\"{pad}\"}}\n")
    });
    check(&server, directory.path(), ("lines", "lines.ndjson"), 24);

    write(&path("records.csv"), |n, pad| format!("{}{n},\"{pad}\"\n", if n == 0 { "n,pad\n" } else { "" }));
    write(&path("array.json"), |n, pad| {
        let (before, after) = (if n == 0 { "[" } else { "," }, if n + 1 == EVENTS { "]" } else { "" });
        format!("{before}\n {{\"n\":{n},\n  \"pad\":\"{pad}\"}}{after}")
    });
    if soak_seconds().is_some() {
        check(&server, directory.path(), ("arrays", "array.json"), 0);
        check(&server, directory.path(), ("records", "records.csv"), 0);
    }

    // Sent as it is, whole, until all of it was taken.
    let mut packed = zstd::Encoder::new(File::create(path("packed.zst")).unwrap(), 1).unwrap();
    std::io::copy(&mut File::open(path("array.json")).unwrap(), &mut packed).unwrap();
    packed.finish().unwrap();
    check(&server, directory.path(), ("packed", "packed.zst"), 0);
}

/// The next request: its connection, and what is behind its head, which says that it comes in chunks.
fn request(listener: &TcpListener) -> (TcpStream, BufReader<TcpStream>) {
    loop {
        let stream = listener.accept().unwrap().0;
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
        // Before the first event it is asked whether numbers of requests are remembered.
        if head.contains("swiftwater-sequence") {
            let (mut stream, body) = (&stream, "{\"type\":\"urn:swiftwater:problem:not-stored\"}");
            let length = body.len();
            write!(stream, "HTTP/1.1 409 Conflict\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            continue;
        }
        // Another connection may only check for a server, and send nothing.
        if !head.is_empty() {
            assert!(head.to_lowercase().contains("transfer-encoding: chunked"), "{head}");
            return (stream, reader);
        }
    }
}

/// A server that reads so many bytes of a request before it refuses it, and then returns the content of a second one.
fn server_that_reads_ahead(bytes: u64) -> (String, JoinHandle<Vec<u8>>) {
    let answer = |stream: &mut TcpStream, status: &str, body: &Value| {
        let body = body.to_string();
        let fields = format!("retry-after: 0\r\nconnection: close\r\ncontent-length: {}", body.len());
        write!(stream, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{fields}\r\n\r\n{body}")
            .unwrap();
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, mut reader) = request(&listener);
        std::io::copy(&mut reader.by_ref().take(bytes), &mut std::io::sink()).unwrap();
        let next = json!({"line": 1, "column": 1});
        answer(&mut stream, "429 Too Many Requests", &json!({"accepted": 0, "rejected": 0, "next": next}));
        // Its sender closes when it has seen that.
        let _ = std::io::copy(&mut reader, &mut std::io::sink());

        let (mut stream, mut reader) = request(&listener);
        let mut body = Vec::new();
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).unwrap();
            let size = u64::from_str_radix(size.trim(), 16).unwrap();
            reader.by_ref().take(size).read_to_end(&mut body).unwrap();
            assert_eq!(reader.read_line(&mut String::new()).unwrap(), 2, "a line ends behind each chunk");
            if size == 0 {
                break;
            }
        }
        let lines = memchr::memchr_iter(b'\n', &body).count();
        answer(&mut stream, "200 OK", &json!({"accepted": lines, "rejected": 0, "errors": []}));
        body
    });
    (url, thread)
}

#[test]
fn what_a_server_read_and_did_not_take_is_sent_again_however_much_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines.ndjson");
    let pad = "x".repeat(EVENT_BYTES);
    let lines: String = (0..10_000).map(|n| format!("{{\"n\":{n},\"pad\":\"{pad}\"}}\n")).collect();
    std::fs::write(&path, &lines).unwrap();
    // More of a file than is kept, and of a pipe as much as a server reads behind a refusal.
    for (input, bytes) in [(path.to_str().unwrap(), 60 << 20), ("-", 64 << 20)] {
        let (url, server) = server_that_reads_ahead(bytes);
        let text = if input == "-" { lines.as_bytes() } else { b"" };
        let ran = run_with(&["ingest", "s", input, "--server", &url], text);
        assert_eq!(ran.code, Some(0), "{input}: {}", ran.err);
        assert!(ran.err.contains("10,000 events accepted"), "{input}: {}", ran.err);
        assert!(server.join().unwrap() == lines.as_bytes(), "{input}: all is sent again, and nothing else");
    }
}
