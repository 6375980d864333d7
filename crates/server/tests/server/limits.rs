//! What is too much.

use bytes::Bytes;
use hyper::{StatusCode, body::Frame};
use serde_json::json;
use swiftwater_engine::EngineConfig;

use crate::client::{Running, soon};

const EVENTS: &str = "/v1/streams/s/events";

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

    let bomb = zstd::encode_all(&vec![b' '; 1 << 20][..], 1).unwrap();
    let reply = server.send("POST", EVENTS, &[("content-encoding", "zstd")], bomb).await;
    reply.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn connections_past_the_limit_are_told() {
    let server = Running::with(EngineConfig::default(), |config| config.connections_max = 1).await;
    let mut first = server.client().await;
    assert_eq!(first.send("GET", "/healthz", &[], "").await.status, 200);
    let problem = server.get("/healthz").await.problem(StatusCode::SERVICE_UNAVAILABLE, "limit-passed").await;
    assert_eq!(problem["setting"], "server.connections_max");
    assert_eq!(first.send("GET", "/healthz", &[], "").await.status, 200);
}
