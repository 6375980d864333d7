//! Listeners, metrics that are pushed, the log on standard error.

use std::net::SocketAddr;

use super::{DAY, HOUR, KIB, Key, Kind, MIB, TIB, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key {
            name: "server.listen",
            doc: "The addresses and ports to listen on. Port 0 takes any free one. Whoever can reach them can read and write \
                  every stream: leave it at the loopback address unless something in front of it checks who asks.",
            kind: Kind::List(|text| address(text).map(drop)),
            get: |settings| Value::List(settings.server.listen.iter().map(ToString::to_string).collect()),
            set: |settings, value| {
                if let Value::List(items) = value {
                    settings.server.listen = items.iter().filter_map(|item| address(item).ok()).collect();
                }
            },
        },
        list!(
            "server.hosts_allowed",
            filled,
            server.hosts_allowed,
            "Names under which clients may reach the server, besides `localhost` and its own addresses: `name` for any port, \
             `name:port` for one, `*` for every name (a web page can then reach the server by DNS rebinding)."
        ),
        list!(
            "server.origins_allowed",
            filled,
            server.origins_allowed,
            "Origins of web pages that may use the server, besides its own: `https://console.example.com`, or `*` for all."
        ),
        text!(
            "server.prefix",
            Kind::Text(prefix_or_empty),
            server.prefix,
            "The path under which a proxy serves this server, as `/live`: what answers name as `location` and `results` begins \
             with it; empty: as the proxy says in `X-Forwarded-Prefix`."
        ),
        number!(
            "server.connections_max",
            Kind::Count(1, 10_000_000),
            server.connections_max,
            "Connections at once; one more is answered 503 and closed. The limit of open files may allow fewer."
        ),
        number!(
            "server.unfinished_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            server.unfinished_bytes_max,
            "All that clients have begun and not finished: events without an end, bodies that are gathered whole, heads of \
             requests, messages and portals of PostgreSQL's protocol. What finds no room is refused; up to 16 KiB of a \
             connection always has room."
        ),
        number!(
            "server.head_read_timeout_ms",
            Kind::Millis(100, HOUR),
            server.head_read_timeout_ms,
            "The time that a client may take to send a request's head."
        ),
        number!(
            "server.body_read_timeout_ms",
            Kind::Millis(0, 7 * DAY),
            server.body_read_timeout_ms,
            "The time that a client may pause within a request's body; 0: as long as it likes."
        ),
        number!(
            "server.body_bytes_max",
            Kind::Bytes(0, 1024 * TIB),
            server.body_bytes_max,
            "The longest body of events, after decompression; 0: no limit, since no body is ever held whole."
        ),
        number!(
            "server.parquet_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            server.parquet_bytes_max,
            "The longest Parquet file of events: it is held on disk while it is read, among the system's temporary files."
        ),
        number!(
            "server.event_bytes_max",
            Kind::Bytes(64, 64 * MIB),
            server.event_bytes_max,
            "The longest event."
        ),
        number!(
            "server.event_depth_max",
            Kind::Count(1, 512),
            server.event_depth_max,
            "The deepest nesting of lists and objects in an event, itself counted."
        ),
        number!(
            "server.connection_buffer_bytes",
            Kind::Bytes(8 * KIB, 64 * MIB),
            server.connection_buffer_bytes,
            "Bytes of a connection's requests that are read ahead, and of its answers that wait to be written before the \
             next piece is fetched."
        ),
        number!(
            "server.keep_alive_ms",
            Kind::Millis(100, HOUR),
            server.keep_alive_ms,
            "The time after which an idle stream of server-sent events gets a comment, so that proxies keep it open."
        ),
        number!(
            "server.shutdown_grace_ms",
            Kind::Millis(0, HOUR),
            server.shutdown_grace_ms,
            "The time that running requests, queries and statements get to finish on shutdown; what still runs then is ended."
        ),
        number!(
            "server.metrics_streams_max",
            Kind::Count(0, 100_000),
            server.metrics_streams_max,
            "Streams that have their own numbers in the metrics: the busiest; the others are told as one."
        ),
        number!(
            "server.prepared_max",
            Kind::Count(0, 10_000_000),
            server.prepared_max,
            "Prepared queries that are kept, in memory."
        ),
        number!(
            "server.sql_text_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            server.sql_text_bytes_max,
            "The longest text of statements for `/v1/sql`."
        ),
        Key {
            name: "server.postgres_listen",
            doc: "The address and port to speak PostgreSQL's wire protocol at, without passwords: one that only this \
                  machine reaches; empty: nowhere.",
            kind: Kind::Text(address_or_empty),
            get: |settings| {
                Value::Text(
                    settings.server.postgres_listen.map(|address| address.to_string()).unwrap_or_default(),
                )
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.server.postgres_listen = address(&text).ok();
                }
            },
        },
        text!(
            "otlp.endpoint",
            Kind::Text(http_or_empty),
            otlp.endpoint,
            "Where to push the metrics, as OTLP over HTTP in JSON: `http://host:port`, without `/v1/metrics`; empty: nowhere."
        ),
        number!("otlp.interval_ms", Kind::Millis(100, HOUR), otlp.interval_ms, "The time between pushes."),
        Key {
            name: "otlp.headers",
            doc: "Header fields to send with each push, as `name: value`.",
            kind: Kind::List(|text| header(text).map(drop)),
            get: |settings| {
                Value::List(
                    settings.otlp.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
                )
            },
            set: |settings, value| {
                if let Value::List(items) = value {
                    settings.otlp.headers = items.iter().filter_map(|item| header(item).ok()).collect();
                }
            },
        },
        text!(
            "log.filter",
            Kind::Text(log_filter),
            log_filter,
            "What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), or directives as \
             `info,swiftwater_engine=debug`."
        ),
        text!(
            "log.format",
            Kind::Choice(&["text", "json"]),
            log_format,
            "How it is logged, on standard error."
        ),
    ]
}

fn log_filter(text: &str) -> Result<(), String> {
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    parsed.map(drop).map_err(|error| format!("not a filter of logs: {error}"))
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let numbers = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let why = || {
        format!(
            "`{text}` is not an address and a port; write for example `127.0.0.1:8080`, `[::1]:8080` or `localhost:0`"
        )
    };
    numbers.as_deref().unwrap_or(text).parse().map_err(|_| why())
}

fn filled(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("one of the texts is empty".to_owned()) } else { Ok(()) }
}

pub(super) fn address_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() { Ok(()) } else { address(text).map(drop) }
}

fn prefix_or_empty(text: &str) -> Result<(), String> {
    if swiftwater_server::is_prefix(text) {
        return Ok(());
    }
    Err("not a path as `/live`: one slash at its beginning, no spaces, quotes, `?` or `#`".to_owned())
}

fn http_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > 7 && text.starts_with("http://") {
        return Ok(());
    }
    Err("not an address as `http://host:port` (only http: a collector beside the server does TLS)".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    match parts.filter(|(name, _)| hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok()) {
        Some((name, value)) if hyper::header::HeaderValue::from_str(value).is_ok() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("not a header field; write for example `x-tenant: blue`".to_owned()),
    }
}
