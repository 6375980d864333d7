//! The settings of the listeners, with units in their names. The binary's settings file uses the same names.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use swiftwater_event::StreamName;
use swiftwater_lang::Schema;

/// The way a server is to listen, and what it accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Addresses to listen on; port 0 takes any free port. Default: 127.0.0.1:8080, which only this machine reaches.
    pub listen: Vec<SocketAddr>,
    /// The address for tasks of SQL statements of other nodes; none: there is none. Default: none.
    pub sql_worker_listen: Option<SocketAddr>,
    /// Names under which clients may reach the server, besides `localhost` and its own addresses: `name` for any port,
    /// `name:port` for one, `*` for every name (a web page can then reach the server by DNS rebinding). Default: none.
    pub hosts_allowed: Vec<String>,
    /// Origins of web pages that may use the server, besides its own: `https://console.example.com`, or `*` for all.
    /// Default: none.
    pub origins_allowed: Vec<String>,
    /// The path under which a proxy serves this server, as `/live`: what answers name as `location` and `results` begins
    /// with it. Empty: as the proxy says in `X-Forwarded-Prefix`. Default: empty.
    pub prefix: String,
    /// Connections at once; one more is answered 503 and closed. Default: 50 000.
    pub connections_max: usize,
    /// Bytes of all that clients have begun and not finished: events without an end, bodies that are gathered whole, heads of
    /// requests, messages of PostgreSQL's protocol. A request that finds no room is refused. Default: 512 MiB.
    pub unfinished_bytes_max: u64,
    /// Milliseconds that a client may take to send a request's head. Default: 30 000.
    pub head_read_timeout_ms: u64,
    /// Milliseconds that a client may pause within a request's body; 0: as long as it likes. Default: 300 000.
    pub body_read_timeout_ms: u64,
    /// The longest body of events, in bytes after decompression; 0: no limit, since no body is ever held whole.
    /// Default: 0.
    pub body_bytes_max: u64,
    /// The longest Parquet file, in bytes: it is held on disk while it is read. Default: 4 GiB.
    pub parquet_bytes_max: u64,
    /// The longest event, in bytes. Default: 1 MiB.
    pub event_bytes_max: usize,
    /// The deepest nesting of lists and objects in an event, itself counted. Default: 128.
    pub event_depth_max: usize,
    /// Bytes of a connection's requests that are read ahead, and of its answers that wait to be written before the next
    /// piece is fetched; at least 8 KiB. Default: 512 KiB.
    pub connection_buffer_bytes: usize,
    /// Milliseconds after which an idle stream of server-sent events gets a comment, so that proxies keep it open.
    /// Default: 15 000.
    pub keep_alive_ms: u64,
    /// Connections of `/v1/ws` at once. Default: 1000.
    pub ws_connections_max: usize,
    /// Subscriptions of one such connection at once. Default: 64.
    pub ws_subscriptions_max: usize,
    /// The page at `/`. Default: on.
    pub console_mode: ConsoleMode,
    /// Origins of pages that may show the console in a frame. Default: none.
    pub console_frame_ancestors: Vec<String>,
    /// Milliseconds that running requests and queries get to finish on shutdown. Default: 10 000.
    pub shutdown_grace_ms: u64,
    /// Streams that have their own numbers in the metrics: the busiest; the others are told as one. Default: 100.
    pub metrics_streams_max: usize,
    /// Milliseconds over which the metrics of each second are remembered; 0: they are not. Default: 900 000.
    pub metrics_history_ms: u64,
    /// Prepared queries that are kept, in memory. Default: 1000.
    pub prepared_max: usize,
    /// The longest text of statements for `/v1/sql`, in bytes. Default: 1 MiB.
    pub sql_text_bytes_max: u64,
    /// Address to listen on for PostgreSQL's wire protocol, without passwords: one that only this machine reaches.
    /// Default: nowhere.
    pub postgres_listen: Option<SocketAddr>,
    /// Syslog.
    pub syslog: SyslogConfig,
    /// Destination of the metrics, if they are pushed. Default: nowhere.
    pub otlp: Option<OtlpConfig>,
    /// Bullet's web API.
    pub bullet: BulletConfig,
}

/// The console, the page at `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsoleMode {
    /// It is served.
    #[default]
    On,
    /// It is served, and sends nothing that changes anything. This is a help for its users and no protection.
    ReadOnly,
    /// `/` is a text.
    Off,
}

/// Addresses and limits of the syslog input. It knows neither encryption nor senders' names: listen where only senders
/// reach it.
#[derive(Debug, Clone, PartialEq)]
pub struct SyslogConfig {
    /// Address to listen on for messages over TCP. Default: nowhere.
    pub tcp_listen: Option<SocketAddr>,
    /// Address to listen on for messages over UDP. Default: nowhere.
    pub udp_listen: Option<SocketAddr>,
    /// The stream whose events they become. Default: `syslog`.
    pub stream: StreamName,
    /// The longest message, in bytes; of a longer one its beginning is kept. Default: 64 KiB.
    pub message_bytes_max: usize,
    /// Connections at once; more are closed. Default: 1000.
    pub connections_max: usize,
    /// Bytes of datagrams that wait to become events; what finds no room is lost and counted. Default: 16 MiB.
    pub queue_bytes_max: usize,
    /// Minutes by which times without a zone, as in RFC 3164, are ahead of UTC. Default: 0.
    pub utc_offset_minutes: i16,
}

impl Default for SyslogConfig {
    fn default() -> Self {
        SyslogConfig {
            tcp_listen: None,
            udp_listen: None,
            stream: StreamName::new("syslog").expect("it is a name"),
            message_bytes_max: 64 << 10,
            connections_max: 1_000,
            queue_bytes_max: 16 << 20,
            utc_offset_minutes: 0,
        }
    }
}

/// Settings of Bullet's web API. The defaults are Bullet's, where it has such a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct BulletConfig {
    /// The fields of events that are declared: what `columns` tells and queries are checked against. Default: none.
    pub schema: Option<Arc<Schema>>,
    /// Queries of `http-query`, `sse-query` and `ws-query` at once. Default: 500.
    pub queries_max: usize,
    /// The longest message that a client of `ws-query` may send, in bytes. Default: 64 KiB.
    pub message_bytes_max: usize,
    /// Bytes that wait for one client of `ws-query`; one message may be larger. Default: 1 MiB.
    pub session_buffer_bytes_max: usize,
    /// Milliseconds that a message may wait to be sent before the client is given up. Default: 10 000.
    pub send_timeout_ms: u64,
    /// Sessions of `ws-query` by plain requests at once. (Those over WebSockets are connections.) Default: 10 000.
    pub sessions_max: usize,
    /// Milliseconds after which such a session ends when nobody receives. Default: 5000.
    pub disconnect_delay_ms: u64,
    /// Milliseconds between SockJS's heart-beats. Default: 25 000.
    pub sockjs_heart_beat_ms: u64,
    /// Milliseconds between STOMP's heart-beats, in either direction, where a client wants them; 0: none. Default:
    /// 10 000.
    pub stomp_heart_beat_ms: u64,
}

impl Default for BulletConfig {
    fn default() -> Self {
        BulletConfig {
            schema: None,
            queries_max: 500,
            message_bytes_max: 64 << 10,
            session_buffer_bytes_max: 1 << 20,
            send_timeout_ms: 10_000,
            sessions_max: 10_000,
            disconnect_delay_ms: 5_000,
            sockjs_heart_beat_ms: 25_000,
            stomp_heart_beat_ms: 10_000,
        }
    }
}

/// Destination and interval of the metrics pushed as OTLP over HTTP in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The collector: `http://host:port`, without `/v1/metrics`. Only `http`: a collector beside the server does TLS.
    pub endpoint: String,
    /// Milliseconds between pushes; at least 100. Default: 10 000.
    pub interval_ms: u64,
    /// Header fields to send with each push.
    pub headers: Vec<(String, String)>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))],
            sql_worker_listen: None,
            hosts_allowed: Vec::new(),
            origins_allowed: Vec::new(),
            prefix: String::new(),
            connections_max: 50_000,
            unfinished_bytes_max: 512 << 20,
            head_read_timeout_ms: 30_000,
            body_read_timeout_ms: 300_000,
            body_bytes_max: 0,
            parquet_bytes_max: 4 << 30,
            event_bytes_max: 1 << 20,
            event_depth_max: 128,
            connection_buffer_bytes: 512 << 10,
            keep_alive_ms: 15_000,
            console_mode: ConsoleMode::On,
            console_frame_ancestors: Vec::new(),
            ws_connections_max: 1_000,
            ws_subscriptions_max: 64,
            shutdown_grace_ms: 10_000,
            metrics_streams_max: 100,
            metrics_history_ms: 900_000,
            prepared_max: 1_000,
            sql_text_bytes_max: 1 << 20,
            postgres_listen: None,
            syslog: SyslogConfig::default(),
            otlp: None,
            bullet: BulletConfig::default(),
        }
    }
}

impl OtlpConfig {
    /// A push every ten seconds.
    pub fn new(endpoint: impl Into<String>) -> OtlpConfig {
        OtlpConfig { endpoint: endpoint.into(), interval_ms: 10_000, headers: Vec::new() }
    }
}
