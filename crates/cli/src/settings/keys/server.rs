//! The settings of the listeners, of pushed metrics, and of the log on standard error.

use std::net::SocketAddr;

use super::{DAY, HOUR, KIB, Key, Kind, MIB, TIB, Value};

pub(super) fn keys() -> Vec<Key> {
    let keys = always();
    #[cfg(feature = "history")]
    let keys = {
        let (mut keys, before) = (keys, "server.sql_text_bytes_max");
        let at = keys.iter().position(|key| key.name == before).unwrap_or(keys.len());
        keys.splice(at..at, of_saved_objects());
        keys
    };
    keys
}

#[cfg(feature = "history")]
fn of_saved_objects() -> Vec<Key> {
    vec![
        number!(
            "server.saved_max",
            Kind::Count(0, 1_000_000),
            history.saved.objects_max,
            "Maximum number of saved queries, dashboards and notebooks together."
        ),
        number!(
            "server.saved_bytes_max",
            Kind::Bytes(KIB, 4096 * MIB),
            history.saved.bytes_max,
            "Maximum bytes of all saved queries, dashboards and notebooks. They are in memory, and in each \
             snapshot of the catalog."
        ),
    ]
}

fn always() -> Vec<Key> {
    vec![
        Key {
            name: "server.listen",
            doc: "Addresses and ports that the server listens on. Port 0 selects any free port. Every \
                  client that reaches them can read and write every stream: use the loopback address \
                  unless a proxy in front authenticates clients.",
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
            "Names under which clients may reach the server, besides `localhost` and its own addresses. \
             The forms are `name` for any port, `name:port` for one port, and `*` for every name. With \
             `*`, a web page can reach the server by DNS rebinding."
        ),
        list!(
            "server.origins_allowed",
            filled,
            server.origins_allowed,
            "Origins of web pages that may use the server, besides its own: `https://console.example.com`, \
             or `*` for all."
        ),
        text!(
            "server.prefix",
            Kind::Text(prefix_or_empty),
            server.prefix,
            "Path under which a proxy serves this server, for example `/live`. `location` and `results` in \
             answers begin with it. Empty: the path in `X-Forwarded-Prefix`."
        ),
        number!(
            "server.connections_max",
            Kind::Count(1, 10_000_000),
            server.connections_max,
            "Maximum number of open connections. A further connection is answered 503 and closed. The \
             limit of open files (`ulimit -n`) may allow fewer."
        ),
        number!(
            "server.unfinished_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            server.unfinished_bytes_max,
            "Maximum bytes of unfinished input: incomplete events, bodies that are buffered whole, heads \
             of requests, messages and portals of PostgreSQL's protocol. Input that does not fit is \
             refused. Up to 16 KiB per connection always fit."
        ),
        number!(
            "server.head_read_timeout_ms",
            Kind::Millis(100, HOUR),
            server.head_read_timeout_ms,
            "Time in which a client must send the head of a request."
        ),
        number!(
            "server.body_read_timeout_ms",
            Kind::Millis(0, 7 * DAY),
            server.body_read_timeout_ms,
            "Longest pause of a client within the body of a request. 0: no limit."
        ),
        number!(
            "server.body_bytes_max",
            Kind::Bytes(0, 1024 * TIB),
            server.body_bytes_max,
            "Maximum size of a body of events, after decompression. 0: no limit, because no such body is \
             buffered whole."
        ),
        number!(
            "server.parquet_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            server.parquet_bytes_max,
            "Maximum size of a Parquet file of events. The server stores the file among the system's \
             temporary files while it reads it."
        ),
        number!(
            "server.event_bytes_max",
            Kind::Bytes(64, 64 * MIB),
            server.event_bytes_max,
            "Maximum size of an event."
        ),
        number!(
            "server.event_depth_max",
            Kind::Count(1, 512),
            server.event_depth_max,
            "Maximum nesting of lists and objects in an event, the event itself counted."
        ),
        number!(
            "server.connection_buffer_bytes",
            Kind::Bytes(8 * KIB, 64 * MIB),
            server.connection_buffer_bytes,
            "Bytes of requests that are read ahead on a connection, and bytes of answers that wait to be \
             written before the next part is fetched."
        ),
        number!(
            "server.keep_alive_ms",
            Kind::Millis(100, HOUR),
            server.keep_alive_ms,
            "Time after which an idle stream of server-sent events gets a comment, so that proxies do not \
             close it. Connections of /v1/ws get a ping so often."
        ),
        number!(
            "server.ws_connections_max",
            Kind::Count(0, 1_000_000),
            server.ws_connections_max,
            "Maximum number of connections of /v1/ws. Further ones get 429."
        ),
        number!(
            "server.ws_subscriptions_max",
            Kind::Count(1, 10_000),
            server.ws_subscriptions_max,
            "Maximum number of subscriptions of one connection of /v1/ws."
        ),
        number!(
            "server.shutdown_grace_ms",
            Kind::Millis(0, HOUR),
            server.shutdown_grace_ms,
            "Time in which requests, queries and statements may finish at shutdown. The server ends those \
             that still run then."
        ),
        number!(
            "server.metrics_streams_max",
            Kind::Count(0, 100_000),
            server.metrics_streams_max,
            "Number of streams that have their own series in the metrics: the busiest ones. The others are \
             summed as one."
        ),
        number!(
            "server.metrics_history_ms",
            Kind::Millis(0, HOUR),
            server.metrics_history_ms,
            "Time over which the server remembers its metrics for `/v1/metrics/history`, one value a second. 0: none."
        ),
        number!(
            "server.prepared_max",
            Kind::Count(0, 10_000_000),
            server.prepared_max,
            "Maximum number of prepared queries in memory."
        ),
        number!(
            "server.sql_text_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            server.sql_text_bytes_max,
            "Maximum length of the text of statements for `/v1/sql`."
        ),
        Key {
            name: "server.postgres_listen",
            doc: "Address and port for PostgreSQL's wire protocol, which has no passwords: use an address \
                  that only this machine reaches. Empty: off.",
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
            "Collector that receives the metrics, as OTLP over HTTP in JSON: `http://host:port`, without \
             `/v1/metrics`. Empty: off."
        ),
        number!("otlp.interval_ms", Kind::Millis(100, HOUR), otlp.interval_ms, "Time between pushes."),
        Key {
            name: "otlp.headers",
            doc: "Header fields of each push, as `name: value`.",
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
            "Messages that are logged: a level (`error`, `warn`, `info`, `debug`, `trace`), or directives \
             such as `info,swiftwater_engine=debug`."
        ),
        text!(
            "log.format",
            Kind::Choice(&["text", "json"]),
            log_format,
            "Format of log lines on standard error."
        ),
    ]
}

fn log_filter(text: &str) -> Result<(), String> {
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    parsed.map(drop).map_err(|error| format!("not a log filter: {error}"))
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
    Err("not a path such as `/live`: write one slash at its beginning, and no spaces, quotes, `?` or `#`"
        .to_owned())
}

fn http_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > 7 && text.starts_with("http://") {
        return Ok(());
    }
    Err("not an address such as `http://host:port` (for TLS, use a collector beside the server)".to_owned())
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
