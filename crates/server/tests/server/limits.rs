//! Tests input that exceeds a limit.

use std::{io::Write, time::Duration};

use bytes::Bytes;
use hyper::{StatusCode, body::Frame};
use serde_json::json;
use swiftwater_engine::{EngineConfig, FastQuery};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Running, soon};

const EVENTS: &str = "/v1/streams/s/events";

/// Compressed bodies of so many bytes of space, in each format: a thousandth of that, or less.
fn bombs(bytes: usize) -> [(&'static str, Vec<u8>); 3] {
    let plain = vec![b' '; bytes];
    let level = flate2::Compression::best();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    gzip.write_all(&plain).unwrap();
    zlib.write_all(&plain).unwrap();
    [
        ("gzip", gzip.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("zstd", zstd::encode_all(&plain[..], 1).unwrap()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_held_whole_have_a_limit_after_unpacking() {
    let server = Running::with(EngineConfig::default(), |config| config.body_bytes_max = 1 << 20).await;
    for (path, content_type) in [("/v1/logs", "application/json"), ("/_bulk", "application/x-ndjson")] {
        for (encoding, bomb) in bombs(8 << 20) {
            assert!(bomb.len() < 64 << 10, "{encoding}");
            let fields = [("content-type", content_type), ("content-encoding", encoding)];
            let reply = server.send("POST", path, &fields, bomb).await;
            assert_eq!(reply.status, 413, "{path} {encoding}");
            let told = reply.text().await;
            assert!(told.contains("longer than 1048576 bytes"), "{path} {encoding}: {told}");
        }
    }
}

/// The head of an answer, and its body, of which the head tells the length.
async fn answer(stream: &mut tokio::net::TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(soon(stream.read_u8()).await.unwrap());
    }
    let head = String::from_utf8(text).unwrap().to_lowercase();
    let (_, rest) = head.split_once("content-length: ").unwrap();
    let mut body = vec![0; rest.split("\r\n").next().unwrap().parse().unwrap()];
    soon(stream.read_exact(&mut body)).await.unwrap();
    head
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_goes_on_after_a_request_that_was_refused_before_its_body_came() {
    let server = Running::start().await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let host = server.address;
    for (request, status) in [
        ("POST /nothing", "404"),
        ("POST /v1/streams", "405"),
        ("POST /v1/streams/s/events?unknown=1", "400"),
        ("POST /v1/streams/s/events", "415"),
    ] {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {host}\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let told = answer(&mut stream).await;
        assert!(told.starts_with(&format!("http/1.1 {status} ")), "{request}: {told}");
        assert!(!told.contains("connection:"), "{told}");
        stream.write_all(b"{\"n\": 1}\n").await.unwrap();
    }
    let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("http/1.1 200 "));

    // A body that is not sent, or longer than what is read off, ends the connection, and the answer says so.
    for field in ["Content-Length: 9\r\nExpect: 100-continue", "Content-Length: 99999999"] {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let head = format!("POST /nothing HTTP/1.1\r\nHost: {host}\r\n{field}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let told = answer(&mut stream).await;
        assert!(told.starts_with("http/1.1 404 ") && told.contains("connection: close"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_past_its_limit_is_cut_and_what_was_taken_is_told() {
    let server = Running::with(EngineConfig::default(), |config| config.body_bytes_max = 25).await;
    // The length is known, so nothing is read.
    let problem = server.ingest("s", "{\"n\": 1}\n".repeat(4)).await;
    let problem = problem.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    assert_eq!((&problem["setting"], &problem["limit"]), (&json!("server.body_bytes_max"), &json!(25)));
    assert_eq!(problem["accepted"], 0);

    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    let body = "{\"n\": 1}\n".repeat(4);
    pieces.send(Ok(Frame::data(body.into()))).await.unwrap();
    drop(pieces);
    let problem =
        soon(reply).await.unwrap().unwrap().problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    assert_eq!((&problem["accepted"], &problem["rejected"]), (&json!(2), &json!(0)));
    assert_eq!(problem["position"]["offset"], 2);

    for (encoding, bomb) in bombs(1 << 20) {
        let reply = server.send("POST", EVENTS, &[("content-encoding", encoding)], bomb).await;
        reply.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    }
    assert_eq!(server.ingest("s", "{\"n\": 1}\n".repeat(2)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_past_its_limit_is_refused_alone() {
    let server = Running::with(EngineConfig::default(), |config| config.event_bytes_max = 100).await;
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(100));
    let reply = server.ingest("s", format!("{{}}\n{long}\n{{}}\n")).await;
    assert_eq!(reply.status, 200);
    let reply = reply.json().await;
    assert_eq!((&reply["accepted"], &reply["rejected"]), (&json!(2), &json!(1)));
    assert_eq!(reply["errors"][0]["line"], 2);
    let problem = server.ingest("s", long).await.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    assert_eq!((&problem["setting"], &problem["limit"]), (&json!("server.event_bytes_max"), &json!(100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_ten_megabytes_goes_through() {
    let server = Running::with(EngineConfig::default(), |config| config.event_bytes_max = 16 << 20).await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let value = "x".repeat(10 << 20);
    let event = format!("{{\"a\": \"{value}\"}}");
    assert_eq!(server.ingest("s", event).await.json().await["accepted"], 1);
    assert_eq!(results.records(1).await[0]["a"], value);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_pauses_too_long_is_answered() {
    let server = Running::with(EngineConfig::default(), |config| config.body_read_timeout_ms = 20).await;
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    pieces.send(Ok(Frame::data(Bytes::from("{\"n\": 1}\n{")))).await.unwrap();
    let problem = soon(reply).await.unwrap().unwrap().problem(StatusCode::REQUEST_TIMEOUT, "timeout").await;
    assert_eq!((&problem["accepted"], &problem["rejected"]), (&json!(1), &json!(1)));
    assert_eq!(problem["setting"], "server.body_read_timeout_ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_engine_are_named() {
    let engine =
        EngineConfig { streams_max: 1, queries_max: 1, query_text_bytes_max: 60, ..EngineConfig::default() };
    let server = Running::with(engine, |_| {}).await;
    assert_eq!(server.ingest("a", "{}").await.status, 200);
    let problem = server.ingest("b", "{}").await.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    assert_eq!((&problem["setting"], &problem["accepted"]), (&json!("engine.streams_max"), &json!(0)));

    let _standing = server.ask("*/*", "SELECT * FROM STREAM(a, MAX, TIME)").await;
    let reply = server.send("POST", "/v1/queries", &[], "SELECT * FROM STREAM(a, MAX, TIME)").await;
    let problem = reply.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    assert_eq!(problem["setting"], "engine.queries_max");

    for length in [100, 10_000] {
        let text = format!("SELECT * FROM STREAM(a, MAX, TIME){}", " ".repeat(length));
        let reply = server.send("POST", "/v1/queries", &[], text).await;
        let problem = reply.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
        assert_eq!(problem["setting"], "engine.query_text_bytes_max");
    }
}

/// The unfinished bytes of clients, from the metrics.
async fn unfinished_bytes(server: &Running) -> u64 {
    let text = server.get("/metrics").await.text().await;
    let line = text.lines().find_map(|line| line.strip_prefix("swiftwater_unfinished_bytes ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_never_end_hold_no_more_than_all_may() {
    const MOST: u64 = 1 << 20;
    const EACH: usize = 200 << 10;
    let server = Running::with(EngineConfig::default(), |config| config.unfinished_bytes_max = MOST).await;
    let begin = format!("{{\"x\":\"{}", "y".repeat(EACH));
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
        pieces.send(Ok(Frame::data(Bytes::from(begin.clone())))).await.unwrap();
        waiting.push((pieces, reply));
    }
    // Five have room; the others are refused.
    let mut refused = 0;
    while refused < 15 {
        let before = waiting.len();
        let mut still = Vec::new();
        for (pieces, reply) in waiting {
            if reply.is_finished() {
                let problem = reply.await.unwrap().unwrap();
                let problem = problem.problem(StatusCode::SERVICE_UNAVAILABLE, "limit-passed").await;
                assert_eq!(problem["setting"], "server.unfinished_bytes_max");
                refused += 1;
            } else {
                still.push((pieces, reply));
            }
        }
        waiting = still;
        if waiting.len() == before {
            tokio::task::yield_now().await;
        }
    }
    let held = unfinished_bytes(&server).await;
    assert!((5 * EACH as u64..=MOST).contains(&held), "{held}");
    // A client that holds little goes on, with an event in two pieces, too.
    assert_eq!(server.ingest("s", "{\"a\": 1}").await.status, 200);
    let (pieces, reply) = server.client().await.stream(EVENTS, &[]);
    for piece in ["{\"a\"", ": 1}"] {
        pieces.send(Ok(Frame::data(Bytes::from(piece)))).await.unwrap();
    }
    drop(pieces);
    assert_eq!(reply.await.unwrap().unwrap().status, 200);
    // Those that have room can end.
    for (pieces, reply) in waiting {
        pieces.send(Ok(Frame::data(Bytes::from("\"}")))).await.unwrap();
        drop(pieces);
        assert_eq!(reply.await.unwrap().unwrap().status, 200);
    }
    soon(async {
        while unfinished_bytes(&server).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_bodies_and_heads_hold_no_more_than_all_may() {
    let server = Running::with(EngineConfig::default(), |config| config.unfinished_bytes_max = 1 << 20).await;
    for (path, content_type) in [("/v1/logs", "application/json"), ("/_bulk", "application/x-ndjson")] {
        let fields = [("content-type", content_type)];
        let reply = server.send("POST", path, &fields, vec![b' '; 3 << 20]).await;
        assert_eq!(reply.status, 503, "{path}");
    }
    let mut heads = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "y".repeat(200 << 10));
        // If there is no room, the connection is closed.
        let _ = stream.write_all(head.as_bytes()).await;
        heads.push(stream);
    }
    let held = unfinished_bytes(&server).await;
    assert!(held <= (1 << 20) + 20 * (16 << 10), "{held}");
    assert_eq!(server.get("/healthz").await.status, 200);
    drop(heads);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_past_the_limit_are_told() {
    let server = Running::with(EngineConfig::default(), |config| config.connections_max = 1).await;
    let mut first = server.client().await;
    assert_eq!(first.send("GET", "/healthz", &[], "").await.status, 200);
    let problem = server.get("/healthz").await.problem(StatusCode::SERVICE_UNAVAILABLE, "limit-passed").await;
    assert_eq!(problem["setting"], "server.connections_max");
    assert_eq!(first.send("GET", "/healthz", &[], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_in_time_ends_its_connection() {
    const WHOLE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // The time is for each head, and for nothing else: the second connection asks for longer than one may take.
    let server = Running::with(EngineConfig::default(), |config| config.head_read_timeout_ms = 300).await;
    for (whole, pause_ms) in [(0, 0), (1, 0), (7, 100)] {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        for _ in 0..whole {
            stream.write_all(WHOLE.as_bytes()).await.unwrap();
            let mut answer = vec![0; 4096];
            let length = soon(stream.read(&mut answer)).await.unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{whole} {length}");
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
        let mut rest = Vec::new();
        // Closed, whether with an answer or without.
        let _ = soon(stream.read_to_end(&mut rest)).await;
    }
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(server.ingest("s", "{\"a\": 1}").await.status, 200);
    assert_eq!(results.records(1).await[0]["a"], 1);
}

/// The configuration that allows one emit a second.
fn rarely(fast_query: FastQuery) -> EngineConfig {
    EngineConfig { query_emits_max: 1, emits_interval_ms: 1000, fast_query, ..EngineConfig::default() }
}

const EACH: &str = "SELECT n FROM STREAM(s, MAX, TIME) WINDOWING TUMBLING(1, RECORD)";
const FEW: &str = "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_answers_too_often_is_ended_and_told_what_to_do() {
    let server = Running::with(rarely(FastQuery::End), |_| {}).await;
    let mut results = server.ask("application/x-ndjson", EACH).await;
    server.ingest("s", FEW).await;
    let mut last = json!(null);
    while let Some(emit) = results.emit().await {
        last = emit;
    }
    assert_eq!(last["meta"]["query"]["reason"], "rate_limited");
    let error = &last["meta"]["error"];
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("limit is 1.00 (`engine.query_emits_max`)"), "{message}");
    assert!(error["hint"].as_str().unwrap().contains("`engine.fast_query`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_slowed_down_says_by_which_limit() {
    let server = Running::with(rarely(FastQuery::Drop), |_| {}).await;
    let mut results = server.ask("application/x-ndjson", EACH).await;
    server.ingest("s", FEW).await;
    assert_eq!(results.emit().await.unwrap()["records"], json!([{"n": 1}]));
    let queries = server.get("/v1/queries").await.json().await;
    let path = format!("/v1/queries/{}", queries["queries"][0]["id"].as_str().unwrap());
    server.send("DELETE", &path, &[], "").await;
    let last = results.emit().await.unwrap();
    assert_eq!(last["meta"]["counts"]["dropped"], 2);
    let warning = last["meta"]["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("2 emits were dropped"), "{warning}");
    assert!(warning.contains("`engine.query_emits_max`"), "{warning}");
}
