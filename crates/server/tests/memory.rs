//! Tests that a body of any length takes little memory. Alone in its process, whose memory is measured.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{io::Write, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::{Request, body::Frame, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use swiftwater_engine::{Engine, EngineConfig};
use swiftwater_event::SystemClock;
use swiftwater_server::{Server, ServerConfig};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
const BODY_BYTES: usize = 192 * MIB;
const GROWTH_BYTES_MAX: usize = 48 * MIB;

fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or(" 0 kB");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn long_bodies_are_never_held_whole() {
    let config = EngineConfig { shards: 2, pending_bytes_max: 4 * MIB, ..EngineConfig::default() };
    let engine = Engine::start(config, Arc::new(SystemClock::new()));
    let config = ServerConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], ..ServerConfig::default() };
    let server = Server::bind(engine, config).await.unwrap();
    let address = server.addresses()[0];
    tokio::spawn(server.run(std::future::pending()));

    let line = format!("{{\"a\": \"{}\"}}\n", "x".repeat(1000));
    let piece = Bytes::from(line.repeat(64));
    let before = peak_bytes();
    let pieces = BODY_BYTES / piece.len();
    let plain = futures_util::stream::iter(
        (0..pieces).map(move |_| Ok::<_, std::io::Error>(Frame::data(piece.clone()))),
    );
    assert_eq!(send(address, "identity", StreamBody::new(plain)).await["accepted"], pieces * 64);

    // A little of this makes a lot: about a thousand times as much.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..BODY_BYTES / line.len() {
        encoder.write_all(line.as_bytes()).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < MIB);
    let bomb = futures_util::stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from(bomb)))]);
    assert_eq!(send(address, "gzip", StreamBody::new(bomb)).await["accepted"], BODY_BYTES / line.len());
    let growth = peak_bytes() - before;
    assert!(growth < GROWTH_BYTES_MAX, "{} MiB more than before", growth / MIB);
}

async fn send<B>(address: std::net::SocketAddr, encoding: &str, body: B) -> serde_json::Value
where
    B: hyper::body::Body<Data = Bytes, Error = std::io::Error> + Send + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("/v1/streams/s/events")
        .header("host", address.to_string())
        .header("content-encoding", encoding)
        .body(body)
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    serde_json::from_slice(&response.collect().await.unwrap().to_bytes()).unwrap()
}
