//! PostgreSQL's wire protocol, version 3, so that `psql`, its drivers and business intelligence tools can connect.
//!
//! Supported are simple and extended queries, values in both directions as text and in binary form, COPY in both directions
//! as text and CSV, and cancellation. Not supported are TLS, passwords (it listens where
//! [`ServerConfig::postgres_listen`](crate::ServerConfig) says, by default nowhere), COPY in binary form, and cursors. From
//! the system tables of `pg_catalog`, it supports only the queries that `psql` sends for `\d` and `\dt`, and an empty
//! `pg_extension`.
//!
//! `BEGIN` and `COMMIT` are accepted and have no effect: each statement is a transaction. `ROLLBACK` has no effect either,
//! but is refused if something was written since `BEGIN`. The setting `statement_timeout` of a session (`SET`) is applied,
//! and a time zone other than UTC is refused; all other settings are accepted and ignored.
//! Limits: [`SESSIONS_MAX`], [`MESSAGE_BYTES_MAX`].

mod catalog;
mod copy;
mod message;
mod session;
mod values;

use std::{
    collections::HashMap,
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    pending_connections::{PendingConnection, PendingConnections},
    server::{Phase, Shared, prepare},
};
use message::malformed;
use session::Session;

/// Sessions at once; more are refused.
const SESSIONS_MAX: usize = 200;
/// Connections that have not begun a session; one more sends the oldest away.
const NEWCOMERS_MAX: usize = 200;
/// The time a connection may take to begin.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest message that is read.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Running statements that can be cancelled: the secret of a connection and its statement, by the connection's number.
#[derive(Default)]
pub(crate) struct Cancels {
    running: Mutex<HashMap<u32, (u32, Option<String>)>>,
    secrets: RandomState,
    count: AtomicU32,
}

impl Cancels {
    /// A number and a secret that nobody guesses, for a connection.
    fn begin(&self) -> (u32, u32) {
        let number = self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut hasher = self.secrets.build_hasher();
        hasher.write_u32(number);
        let secret = hasher.finish() as u32;
        self.lock().insert(number, (secret, None));
        (number, secret)
    }

    fn running(&self, number: u32, statement: Option<String>) {
        if let Some(entry) = self.lock().get_mut(&number) {
            entry.1 = statement;
        }
    }

    fn end(&self, number: u32) {
        self.lock().remove(&number);
    }

    /// The statement that is meant, if the secret is right.
    fn find(&self, number: u32, secret: u32) -> Option<String> {
        let running = self.lock();
        let (own, statement) = running.get(&number)?;
        if *own == secret { statement.clone() } else { None }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (u32, Option<String>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes connections until the server drains.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let places = Arc::new(Semaphore::new(SESSIONS_MAX));
    let newcomers = PendingConnections::new(NEWCOMERS_MAX);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = shared.reached(Phase::Draining) => return,
        };
        let stream = match taken {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (shared, alive) = (Arc::clone(&shared), alive.clone());
        let (places, newcomer) = (Arc::clone(&places), newcomers.enter());
        tokio::spawn(async move {
            serve(stream, &shared, &places, newcomer).await;
            drop(alive);
        });
    }
}

/// A connection: it begins in a time, takes one of the places of sessions, and speaks until it goes.
async fn serve(stream: TcpStream, shared: &Arc<Shared>, places: &Semaphore, newcomer: PendingConnection) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "socket options were not set");
    }
    let (number, secret) = shared.postgres.begin();
    let mut session = Session::new(stream, Arc::clone(shared), number, secret);
    let ended = tokio::select! {
        ended = speak(&mut session, places, newcomer) => ended,
        // Idle connections have ended by then.
        () = shared.reached(Phase::Cut) => Ok(()),
    };
    shared.postgres.end(number);
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of PostgreSQL's protocol ended early");
    }
}

async fn speak(session: &mut Session, places: &Semaphore, mut newcomer: PendingConnection) -> io::Result<()> {
    let has_begun = tokio::select! {
        begun = session.begin() => begun?,
        () = newcomer.sent_away() => return Err(malformed("it was idle while others arrived")),
        () = tokio::time::sleep(BEGIN_TIME_MAX) => return Err(malformed("it did not begin in time")),
    };
    drop(newcomer);
    if !has_begun {
        return Ok(());
    }
    let Ok(_place) = places.try_acquire() else {
        tracing::warn!(limit = SESSIONS_MAX, "too many sessions of PostgreSQL's protocol");
        return session.refuse(SESSIONS_MAX).await;
    };
    session.run().await
}
