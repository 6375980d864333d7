//! Tests the server from its first connection to its last.

use bytes::Bytes;
use hyper::{StatusCode, body::Frame};
use swiftwater_engine::Engine;
use swiftwater_server::{OtlpConfig, Server, ServerConfig, ServerError};
use tokio::net::TcpStream;

use crate::client::{Running, soon};

#[tokio::test(flavor = "multi_thread")]
async fn data_directory_that_goes_away_is_not_ready_and_refuses_events() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    let created = server.send("POST", "/v1/sql", &[], "CREATE STREAM s (a LONG)").await;
    assert_eq!(created.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);
    for part in ["log", "catalog"] {
        let (path, away) = (dir.path().join(part), dir.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        let problem =
            server.get("/readyz").await.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
        assert!(problem["detail"].as_str().unwrap().contains(path.to_str().unwrap()), "{problem}");
        let refused = server.ingest("s", "{\"a\": 1}").await;
        refused.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
        std::fs::rename(&away, &path).unwrap();
        assert_eq!(server.get("/readyz").await.status, 200);
        assert_eq!(server.ingest("s", "{\"a\": 1}").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_get_their_final_result_on_shutdown() {
    let mut server = Running::start().await;
    let address = server.address;
    assert_eq!(server.get("/readyz").await.status, 200);
    let mut lines = server.ask("*/*", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let events = server.ask("text/event-stream", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let mut client = server.client().await;
    let answer = tokio::spawn(async move {
        let text = "SELECT * FROM STREAM(s, MAX, TIME)";
        client.send("POST", "/v1/queries", &[("accept", "application/json")], text).await
    });
    server.until_queries(3).await;
    server.ingest("s", "{\"n\": 1}").await;
    assert_eq!(lines.records(1).await.len(), 1);
    server.begin_stop();
    let last = lines.emit().await.unwrap();
    assert_eq!(last["meta"]["query"]["reason"], "shutdown");
    assert!(lines.emit().await.is_none());
    assert!(events.text().await.contains("\"reason\":\"shutdown\""));
    let answer = answer.await.unwrap().json().await;
    assert_eq!(answer["meta"]["query"]["reason"], "shutdown");
    assert_eq!(answer["records"].as_array().unwrap().len(), 1);
    server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_during_shutdown_are_refused_and_the_taken_ones_told() {
    let mut server = Running::start().await;
    let mut lines = server.ask("*/*", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let (pieces, reply) = server.client().await.stream("/v1/streams/s/events", &[]);
    pieces.send(Ok(Frame::data(Bytes::from("{\"n\": 1}\n")))).await.unwrap();
    assert_eq!(lines.records(1).await.len(), 1);
    server.begin_stop();
    assert_eq!(lines.emit().await.unwrap()["meta"]["query"]["reason"], "shutdown");
    pieces.send(Ok(Frame::data(Bytes::from("{\"n\": 2}\n")))).await.unwrap();
    let problem =
        soon(reply).await.unwrap().unwrap().problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    assert_eq!(problem["accepted"], 1);
    drop(pieces);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_end_are_cut() {
    let mut server = Running::with(Default::default(), |config| config.shutdown_grace_ms = 10).await;
    let (pieces, reply) = server.client().await.stream("/v1/streams/s/events", &[]);
    pieces.send(Ok(Frame::data(Bytes::from("{\"n\": 1}\n")))).await.unwrap();
    soon(async {
        while server.get("/v1/streams").await.json().await["streams"].as_array().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.begin_stop();
    server.stopped().await;
    assert!(soon(reply).await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_begin_says_why() {
    let engine =
        |()| Engine::start(Default::default(), std::sync::Arc::new(swiftwater_event::SystemClock::new()));
    let config = ServerConfig { listen: vec![], ..ServerConfig::default() };
    assert!(matches!(Server::bind(engine(()), config).await, Err(ServerError::NoAddress)));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = ServerConfig { listen: vec![taken.local_addr().unwrap()], ..ServerConfig::default() };
    assert!(matches!(Server::bind(engine(()), config).await, Err(ServerError::Listen { .. })));
    let otlp = Some(OtlpConfig::new("https://collector.example"));
    let config =
        ServerConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], otlp, ..ServerConfig::default() };
    assert!(matches!(Server::bind(engine(()), config).await, Err(ServerError::Setting(_))));
}
