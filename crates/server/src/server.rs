//! The server's listeners and connections, from start to shutdown.
//!
//! Shutdown has phases. First, no more connections are accepted, and `/readyz` reports this. Then the engine emits every
//! query's final result, which is still written to its client. Then each connection ends after its current answer.
//! Connections that remain after the grace period are closed.

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, response::IntoResponse};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use swiftwater_event::StreamName;
use swiftwater_runtime::StreamStatus;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Semaphore, mpsc, watch},
};

use crate::{
    about::SettingStatus,
    budget::{Budget, Share},
    bullet,
    config::ServerConfig,
    engine::Engine,
    guard::Guard,
    head_bytes::CountedHeads,
    head_timer::HeadTimer,
    http_stats::HttpStats,
    inputs::PARQUET_FILES_MAX,
    metrics::{self, Family, ShownStreams, recorder::Recorder},
    metrics_history,
    otlp::{OtlpSettingError, Pusher},
    postgres,
    prepared::PreparedQueries,
    problem::Problem,
    process, routes,
    syslog::{SyslogPorts, SyslogStats},
};

#[cfg(feature = "history")]
use crate::sql::{SqlAccess, SqlState};

/// The time a listener pauses after an error that is not a connection's own: too many open files, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that wait to be taken, as far as the system lets them. The standard library's 128 are less than a crowd that comes at
/// once, and who finds no room tries again after a second.
const BACKLOG: u32 = 4096;
/// A peer that is silently gone is found by asking it: after this long without a word, and then every tenth of it.
const PEER_SILENT: Duration = Duration::from_secs(60);
const HEADERS_MAX: usize = 100;
/// Connections beyond `connections_max` that are told so; still more are just closed.
const REFUSED_MAX: u64 = 100;

/// A server that has its ports, and begins to serve when it is [run](Server::run).
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    postgres: Option<TcpListener>,
    /// For tasks of SQL statements of other nodes.
    #[cfg(feature = "distributed")]
    sql_worker: Option<TcpListener>,
    syslog: SyslogPorts,
    pusher: Option<Pusher>,
    #[cfg(feature = "history")]
    pubsub: Option<bullet::pubsub::PubSub>,
}

/// A server that cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An address cannot be had.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address of the setting `listen`.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The setting `listen` is empty.
    #[error("the setting `listen` names no address")]
    NoAddress,
    /// A setting cannot be followed.
    #[error("{0}")]
    Setting(String),
}

impl From<OtlpSettingError> for ServerError {
    fn from(error: OtlpSettingError) -> ServerError {
        ServerError::Setting(error.to_string())
    }
}

/// The progress of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No more connections, events and queries are taken.
    Draining,
    /// Connections end after the answer they are at.
    Closing,
    /// Connections end at once.
    Cut,
}

/// State shared by all connections.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) config: ServerConfig,
    pub(crate) guard: Guard,
    pub(crate) stats: HttpStats,
    pub(crate) bullet: bullet::State,
    pub(crate) prepared: PreparedQueries,
    #[cfg(feature = "history")]
    pub(crate) sql: SqlState,
    pub(crate) postgres: postgres::Cancels,
    pub(crate) syslog: SyslogStats,
    /// The budget for all that clients have begun and not finished.
    pub(crate) unfinished: Arc<Budget>,
    /// The places for Parquet files that are held.
    pub(crate) parquet_places: Semaphore,
    /// The places of connections of `/v1/ws`.
    pub(crate) ws_places: Arc<Semaphore>,
    pub(crate) start_micros: i64,
    /// The metrics of the last minutes.
    pub(crate) recorder: Recorder,
    phase: watch::Sender<Phase>,
    shown: ShownStreams,
    /// The settings in effect, set once before the server runs.
    pub(crate) settings: OnceLock<Vec<SettingStatus>>,
}

/// State shared by the requests of one connection; it counts as open until all of them and the work that they began
/// have ended.
pub(crate) struct Connection {
    /// Counts connections, from 0.
    pub(crate) number: u64,
    /// The client's address.
    pub(crate) address: IpAddr,
    /// True if there are too many connections: its first request gets that error, and it ends.
    refused: bool,
    /// Events that came over it so far.
    pub(crate) events: AtomicU64,
    _open: OpenConnection,
}

impl Shared {
    /// Ready once the server is so far.
    pub(crate) async fn reached(&self, wanted: Phase) {
        // The sender is this one's own, so there is no error.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }

    /// An empty share of what clients may hold unfinished.
    pub(crate) fn share(&self) -> Share {
        Share::of(&self.unfinished)
    }

    /// True if requests are welcome.
    pub(crate) fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    /// All numbers of this moment.
    pub(crate) fn families(&self) -> Vec<Family> {
        let (most, start) = (self.config.metrics_streams_max, self.start_micros);
        #[cfg(feature = "history")]
        let durable = |table: &mut metrics::Table, shown: &[StreamStatus]| {
            let (history, endpoints) = (self.engine.history_metrics(), crate::endpoints::all(self));
            let searches = self.engine.search_metrics();
            let stored = (history.as_ref(), searches.as_ref());
            metrics::history::families(table, stored, &endpoints, shown);
            if let Some(counts) = self.sql.access.as_ref().and_then(|access| access.sql.distribution()) {
                metrics::history::distribution_families(table, counts);
            }
        };
        #[cfg(not(feature = "history"))]
        let durable = |_: &mut metrics::Table, _: &[StreamStatus]| ();
        metrics::families(
            self.engine.metrics(),
            (&self.stats, self.unfinished.used()),
            &self.syslog,
            process::read(),
            (&self.shown, most),
            start,
            durable,
        )
    }

    /// The numbers of this moment that are cheap to have, with those of these streams alone.
    pub(crate) fn sampled_families(&self, streams: &[StreamName]) -> Vec<Family> {
        #[cfg(feature = "history")]
        let durable = |table: &mut metrics::Table, shown: &[StreamStatus]| {
            let (history, searches) = (self.engine.history_metrics_of(streams), self.engine.search_metrics());
            metrics::history::families(table, (history.as_ref(), searches.as_ref()), &[], shown);
            if let Some(counts) = self.sql.access.as_ref().and_then(|access| access.sql.distribution()) {
                metrics::history::distribution_families(table, counts);
            }
        };
        #[cfg(not(feature = "history"))]
        let durable = |_: &mut metrics::Table, _: &[StreamStatus]| ();
        metrics::families(
            self.engine.metrics_of(streams),
            (&self.stats, self.unfinished.used()),
            &self.syslog,
            process::read(),
            (&ShownStreams::default(), streams.len()),
            self.start_micros,
            durable,
        )
    }
}

impl Server {
    /// Takes the ports; nothing is answered yet, but connections wait.
    pub async fn bind(engine: Engine, config: ServerConfig) -> Result<Server, ServerError> {
        #[cfg(feature = "history")]
        let sql = engine
            .sql()
            .ok()
            .map(|sql| SqlAccess { sql: Arc::clone(sql), others: Some(engine.statements()) });
        #[cfg(feature = "history")]
        let sql = SqlState::new(sql);
        Server::bind_with(
            engine,
            config,
            #[cfg(feature = "history")]
            sql,
        )
        .await
    }

    /// Binds as [`bind`](Server::bind) does, with statements run elsewhere.
    #[cfg(feature = "history")]
    pub async fn bind_with_sql(
        engine: Engine,
        config: ServerConfig,
        sql: Option<SqlAccess>,
    ) -> Result<Server, ServerError> {
        Server::bind_with(engine, config, SqlState::new(sql)).await
    }

    async fn bind_with(
        engine: Engine,
        config: ServerConfig,
        #[cfg(feature = "history")] sql: SqlState,
    ) -> Result<Server, ServerError> {
        if config.listen.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let pusher = config.otlp.as_ref().map(Pusher::new).transpose()?;
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for &address in &config.listen {
            let failed = |source| ServerError::Listen { address, source };
            let listener = listen(address).map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        let postgres = match config.postgres_listen {
            None => None,
            Some(address) => Some(listen(address).map_err(|source| ServerError::Listen { address, source })?),
        };
        #[cfg(feature = "distributed")]
        let sql_worker = match config.sql_worker_listen {
            None => None,
            Some(address) => Some(listen(address).map_err(|source| ServerError::Listen { address, source })?),
        };
        let syslog = SyslogPorts::bind(&config.syslog).await?;
        let shared = Shared {
            guard: Guard::new(&config, &addresses),
            stats: HttpStats::default(),
            bullet: bullet::State::new(&config.bullet),
            prepared: PreparedQueries::default(),
            #[cfg(feature = "history")]
            sql,
            postgres: postgres::Cancels::default(),
            syslog: SyslogStats::default(),
            unfinished: Arc::new(Budget::new(config.unfinished_bytes_max)),
            parquet_places: Semaphore::new(PARQUET_FILES_MAX),
            ws_places: Arc::new(Semaphore::new(config.ws_connections_max.min(Semaphore::MAX_PERMITS))),
            start_micros: engine.clock().now_micros(),
            recorder: Recorder::new(config.metrics_history_ms),
            phase: watch::Sender::new(Phase::Running),
            shown: ShownStreams::default(),
            settings: OnceLock::new(),
            engine,
            config,
        };
        Ok(Server {
            shared: Arc::new(shared),
            listeners,
            addresses,
            postgres,
            #[cfg(feature = "distributed")]
            sql_worker,
            syslog,
            pusher,
            #[cfg(feature = "history")]
            pubsub: None,
        })
    }

    /// The server with a list of its settings, for those who ask.
    #[must_use]
    pub fn with_settings(self, settings: Vec<SettingStatus>) -> Server {
        // The first list counts; a server is built once.
        let _ = self.shared.settings.set(settings);
        self
    }

    /// The server with Bullet's PubSub over topics of Kafka.
    #[cfg(feature = "history")]
    #[must_use]
    pub fn with_pubsub(self, pubsub: bullet::pubsub::PubSub) -> Server {
        Server { pubsub: Some(pubsub), ..self }
    }

    /// The addresses it listens on, with the ports that were taken for port 0, in the order of the setting `listen`.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address for PostgreSQL's protocol, if it is served.
    pub fn postgres_address(&self) -> Option<SocketAddr> {
        self.postgres.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address for syslog messages over TCP, if it is served.
    pub fn syslog_tcp_address(&self) -> Option<SocketAddr> {
        self.syslog.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address for syslog messages over UDP, if it is served.
    pub fn syslog_udp_address(&self) -> Option<SocketAddr> {
        self.syslog.udp.as_ref().and_then(|socket| socket.local_addr().ok())
    }

    /// Serves until `shutdown` is ready, shuts the engine down, and ends when the last client has its answer, or after
    /// the grace.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (postgres_address, syslog_tcp, syslog_udp) =
            (self.postgres_address(), self.syslog_tcp_address(), self.syslog_udp_address());
        #[cfg(feature = "history")]
        let pubsub = self.pubsub;
        #[cfg(feature = "distributed")]
        let sql_worker = self.sql_worker;
        let Server { shared, listeners, addresses, postgres, syslog, pusher, .. } = self;
        // Every task holds a sender; when all are gone, so are the tasks.
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        let router = routes::router(&shared);
        for listener in listeners {
            tokio::spawn(accept(listener, router.clone(), Arc::clone(&shared), alive.clone()));
        }
        if let Some(listener) = postgres {
            tokio::spawn(postgres::accept(listener, Arc::clone(&shared), alive.clone()));
        }
        #[cfg(feature = "distributed")]
        if let Some(listener) = sql_worker {
            serve_tasks(listener, &shared, alive.clone());
        }
        syslog.serve(&shared, &alive);
        metrics_history::serve(&shared, &alive);
        #[cfg(feature = "history")]
        if let Some(pubsub) = pubsub {
            tracing::info!(
                queries = pubsub.query_topic,
                results = pubsub.result_topic,
                "taking queries from Kafka"
            );
            pubsub.serve(&shared, &alive);
        }
        if let Some(pusher) = pusher {
            let (shared, phase, alive) = (Arc::clone(&shared), shared.phase.subscribe(), alive.clone());
            tokio::spawn(async move {
                pusher.run(shared, phase).await;
                drop(alive);
            });
        }
        drop(alive);
        tracing::info!(?addresses, "serving");
        if let Some(address) = postgres_address {
            tracing::info!(%address, "listening for PostgreSQL's protocol");
        }
        for (transport, address) in [("tcp", syslog_tcp), ("udp", syslog_udp)] {
            if let Some(address) = address {
                tracing::info!(%address, transport, "taking syslog");
            }
        }
        shutdown.await;

        tracing::info!(connections = shared.stats.connections(), "shutting down");
        let grace = Duration::from_millis(shared.config.shutdown_grace_ms);
        let everything = async {
            shared.phase.send_replace(Phase::Draining);
            shared.engine.shutdown(grace).await;
            shared.phase.send_replace(Phase::Closing);
            all_gone.recv().await;
        };
        // Statements have the grace; what is left of them then is ended.
        let statements = async {
            tokio::time::sleep(grace).await;
            #[cfg(feature = "history")]
            if let Ok(access) = shared.sql.access() {
                access.sql.shut_down();
            }
            std::future::pending::<()>().await
        };
        let ended = tokio::time::timeout(grace + HAND_OVER, async {
            tokio::select! {
                () = everything => {}
                () = statements => {}
            }
        });
        if ended.await.is_err() {
            tracing::warn!(
                connections = shared.stats.connections(),
                "closing connections that did not end in time"
            );
            shared.phase.send_replace(Phase::Cut);
            all_gone.recv().await;
        }
        tracing::info!("shut down");
    }
}

/// Time after the grace in which statements send their end to their clients, and the engine writes to its disk.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Takes a port.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // One that was left by an earlier server's connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, router: Router, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let mut phase = shared.phase.subscribe();
    let mut failing = false;
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            _ = phase.wait_for(|phase| *phase > Phase::Running) => return,
        };
        match taken {
            Ok((stream, peer)) => {
                failing = false;
                let (open, most) = (shared.stats.connections(), shared.config.connections_max as u64);
                let refused = open >= most;
                if refused {
                    shared.stats.connections_refused.fetch_add(1, Ordering::Relaxed);
                }
                if open >= most.saturating_add(REFUSED_MAX) {
                    continue;
                }
                let number = shared.stats.connections_taken.fetch_add(1, Ordering::Relaxed);
                let open = OpenConnection { shared: Arc::clone(&shared), _alive: alive.clone() };
                let connection = Connection {
                    number,
                    address: peer.ip(),
                    refused,
                    events: AtomicU64::new(0),
                    _open: open,
                };
                tracing::debug!(%peer, number, "connection");
                tokio::spawn(serve(stream, connection, router.clone(), Arc::clone(&shared)));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "connections cannot be accepted; the server retries");
                }
                failing = true;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// True if the fault is of the one connection that would have been taken.
fn is_of_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Counts a connection as ended when it is dropped, however it ends.
struct OpenConnection {
    shared: Arc<Shared>,
    _alive: mpsc::Sender<()>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.stats.connections_ended.fetch_add(1, Ordering::Relaxed);
    }
}

async fn serve(stream: TcpStream, connection: Connection, router: Router, shared: Arc<Shared>) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "socket options were not set");
    }
    let config = &shared.config;
    let connection = Arc::new(connection);
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let (shared, router, connection) = (&shared, &router, &connection);
        async move {
            Ok::<_, Infallible>(match connection.refused {
                false => routes::answer(shared, router, connection, request).await,
                true => too_many_connections().into_response(),
            })
        }
    });
    let (head, head_timeout) = (HeadTimer::new(), Duration::from_millis(config.head_read_timeout_ms.max(1)));
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(head.clone())
        .header_read_timeout(head_timeout)
        .max_buf_size(config.connection_buffer_bytes.max(8 << 10))
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(CountedHeads::new(stream, head.clone(), shared.share())), service)
        .with_upgrades();
    let (mut serving, mut head_passed) = (pin!(serving), pin!(head.passed(head_timeout)));
    let mut phase = shared.phase.subscribe();
    let mut has_passed = false;
    loop {
        tokio::select! {
            biased;
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(number = connection.number, %error, "connection ended early");
                }
                return;
            }
            _ = phase.changed() => {}
            () = head_passed.as_mut(), if !has_passed => has_passed = true,
        }
        let now = *phase.borrow_and_update();
        match now {
            Phase::Running | Phase::Draining => {}
            Phase::Closing => serving.as_mut().graceful_shutdown(),
            Phase::Cut => return,
        }
    }
}

fn too_many_connections() -> Problem {
    let (status, detail) = (StatusCode::SERVICE_UNAVAILABLE, "the server has too many connections");
    Problem::new(status, "limit-passed", "A limit was exceeded", detail)
        .with("setting", "server.connections_max")
        .hint("Try again later, or raise server.connections_max.")
        .closing()
}

/// Sends answers at once, and detects a peer that disappeared.
pub(crate) fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(PEER_SILENT).with_interval(PEER_SILENT / 10);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Serves tasks of SQL statements of other nodes, until the server drains.
#[cfg(feature = "distributed")]
fn serve_tasks(listener: TcpListener, shared: &Arc<Shared>, alive: mpsc::Sender<()>) {
    let mut phase = shared.phase.subscribe();
    let stop = async move {
        // The sender is gone with the server.
        let _ = phase.wait_for(|phase| *phase != Phase::Running).await;
    };
    let address = listener.local_addr().ok();
    let served = shared.sql.access().ok().map(|access| {
        let listener = listener.into_std()?;
        access.sql.serve_tasks(listener, stop).map_err(std::io::Error::other)
    });
    match served {
        None => tracing::error!("tasks of other nodes cannot be served: there is no SQL here"),
        Some(Err(error)) => tracing::error!(%error, "tasks of other nodes cannot be served"),
        Some(Ok(served)) => {
            tracing::info!(?address, "taking tasks of SQL statements");
            tokio::spawn(async move {
                if let Err(error) = served.await {
                    tracing::error!(%error, "tasks of other nodes are served no more");
                }
                drop(alive);
            });
        }
    }
}
