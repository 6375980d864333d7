//! A bare HTTP server with only the required work: a route that reads the body and answers 201, and one that answers with a
//! constant. It is a separate process, on the same libraries as Swiftwater's.

use std::process::{Child, Command, Stdio};
use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header},
    routing::{get, post},
};

use crate::server::{READY, ready};

/// The first argument of this program as such a server.
pub(crate) const WORD: &str = "bare-http";

/// A bare server that ends with this.
pub(super) struct Bare {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Bare {
    /// Starts one whose GETs answer with this.
    pub(super) fn start(answer: &str) -> anyhow::Result<Bare> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(program);
        command.arg(WORD).env("ANSWER", answer).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a bare server")?;
        let address = ready(&mut child);
        // From here on it is ended, come what may.
        let mut bare = Bare { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        bare.address = address?;
        Ok(bare)
    }

    /// Its process's number.
    pub(super) fn process(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program as a bare server, until it is killed.
pub(crate) fn run() -> anyhow::Result<()> {
    let answer = Bytes::from(std::env::var("ANSWER").unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let app = Router::new()
            .route("/swipe/{direction}/", post(|_body: Bytes| async { StatusCode::CREATED }))
            .route(
                "/{what}/{user}/",
                get(move || {
                    let answer = answer.clone();
                    async move { ([(header::CONTENT_TYPE, "application/json")], answer) }
                }),
            );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{READY}{}", listener.local_addr()?);
        axum::serve(listener, app).await?;
        tokio::time::sleep(Duration::MAX).await;
        Ok(())
    })
}
