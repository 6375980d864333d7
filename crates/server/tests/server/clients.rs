//! Tests third-party clients from PyPI against a server that stores: SQL reads back the events that they send. Needs Python
//! with the packages of `tests/clients/requirements.txt` in `SWIFTWATER_PYTHON`; without it these tests report this and
//! pass.
//!
//! The script of a client in `tests/clients` contains its actions and expectations, and ends with the number of its checks
//! that failed.

#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::{path::PathBuf, process::Command};

use crate::client::Running;

/// Runs a script against a server of its own; `arguments` are made of where that listens.
async fn check(script: &str, arguments: impl FnOnce(&Running) -> Vec<String>) {
    let Some(python) = std::env::var_os("SWIFTWATER_PYTHON") else {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/clients/requirements.txt");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let mut server = Running::storing(directory.path(), change).await;
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients").join(script);
    let mut command = Command::new(python);
    command.arg(script).args(arguments(&server)).env("PYTHONDONTWRITEBYTECODE", "1");
    // A proxy is not for this machine.
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.lines().filter(|line| line.starts_with("ok ")).count() > 1, "{told}");
    server.begin_stop();
    server.stopped().await;
}

fn url(server: &Running) -> Vec<String> {
    vec![format!("http://{}", server.address)]
}

#[tokio::test(flavor = "multi_thread")]
async fn psycopg_asks_and_writes() {
    check("ask_postgres.py", |server| {
        let address = server.postgres.unwrap();
        vec![address.ip().to_string(), address.port().to_string()]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearchs_helpers_send_documents() {
    check("send_bulk.py", url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opentelemetrys_sdk_sends_logs() {
    check("send_logs.py", url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pyarrows_files_become_events() {
    check("send_tables.py", url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pyarrow_reads_answers() {
    check("read_arrow.py", url).await;
}
