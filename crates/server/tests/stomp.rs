//! Tests Bullet's `ws-query` with real clients from npm (`tests/stomp`): @stomp/stompjs over WebSockets and sockjs-client.
//!
//! They are not fetched here: `npm ci --prefix tests/stomp` does that, and scripts/check.sh runs it. Without them, or
//! without node, the test reports that it skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
};

use swiftwater_engine::{Engine, EngineConfig};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_server::{BulletConfig, Server, ServerConfig};
use tokio::sync::oneshot;

#[tokio::test(flavor = "multi_thread")]
async fn clients_from_npm_get_their_answers() {
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/stomp");
    if !project.join("node_modules").is_dir() {
        println!("SKIPPED: npm ci --prefix tests/stomp fetches the clients");
        return;
    }
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: there is no node");
        return;
    }
    let engine = EngineConfig {
        shards: 2,
        default_stream: Some(StreamName::new("s").unwrap()),
        ..EngineConfig::default()
    };
    let engine = Engine::start(engine, Arc::new(SystemClock::new()));
    let config = ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        bullet: BulletConfig {
            disconnect_delay_ms: 500,
            stomp_heart_beat_ms: 1000,
            ..BulletConfig::default()
        },
        ..ServerConfig::default()
    };
    let server = Server::bind(engine, config).await.unwrap();
    let base = format!("http://{}", server.addresses()[0]);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let node = move || {
        let mut node = Command::new("node");
        node.arg("test.mjs").arg(&base).current_dir(&project);
        node
    };
    let mut run = node();
    let output = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    print!("{told}");
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));

    // A client that is connected when the server stops gets the last result, and does not delay the server.
    let mut child = node().arg("hold").stdout(Stdio::piped()).spawn().unwrap();
    let told = child.stdout.take().unwrap();
    let (line, standing) = oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        let _ = line.send(lines.next().unwrap_or_default());
        lines.collect::<Vec<_>>()
    });
    assert_eq!(standing.await.unwrap(), "standing");
    let _ = stop.send(());
    assert_eq!(reading.await.unwrap(), ["told"]);
    assert!(child.wait().unwrap().success());
    serving.await.unwrap();
}
