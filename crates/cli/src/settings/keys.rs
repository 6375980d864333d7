//! The list of settings: names, meanings, allowed ranges, and where each is kept.

use std::{net::SocketAddr, sync::Arc};

use swiftwater_engine::{FastQuery, SlowReader};
use swiftwater_event::StreamName;
use swiftwater_lang::Schema;

use super::{
    Settings,
    value::{bytes_text, millis_text, parse_bytes, parse_count, parse_millis},
};

/// One setting.
pub(crate) struct Key {
    /// `section.name`.
    pub(crate) name: &'static str,
    /// What it does, in sentences.
    pub(crate) doc: &'static str,
    /// What its values are.
    pub(crate) kind: Kind,
    /// Its value.
    pub(crate) get: fn(&Settings) -> Value,
    /// Puts a value that [`Key::check`] let pass.
    pub(crate) set: fn(&mut Settings, Value),
}

/// What a setting's values are.
pub(crate) enum Kind {
    /// Bytes, least and most.
    Bytes(u64, u64),
    /// Milliseconds, least and most.
    Millis(u64, u64),
    /// A whole number, least and most.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that this function finds nothing wrong with.
    Text(Check),
    /// A list of such; in the environment and in flags with commas between.
    List(Check),
}

/// Says what is wrong with a text.
type Check = fn(&str) -> Result<(), String>;

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Of [`Kind::Bytes`], [`Kind::Millis`] and [`Kind::Count`].
    Number(u64),
    /// Of [`Kind::Choice`] and [`Kind::Text`].
    Text(String),
    /// Of [`Kind::List`].
    List(Vec<String>),
}

impl Key {
    /// The part of the name before the dot.
    pub(crate) fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part of the name after the dot.
    pub(crate) fn field(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, field)| field)
    }

    /// As a flag, without the dashes before it.
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// As an environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("SWIFTWATER_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// A value of this setting from text, in range.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Bytes(..) => Value::Number(parse_bytes(text)?),
            Kind::Millis(..) => Value::Number(parse_millis(text)?),
            Kind::Count(..) => Value::Number(parse_count(text)?),
            Kind::Choice(_) | Kind::Text(_) => Value::Text(text.to_owned()),
            Kind::List(_) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::List(items.map(str::to_owned).collect())
            }
        };
        self.check(&value).map(|()| value)
    }

    /// Whether a value may be this setting's.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (
                Kind::Bytes(least, most) | Kind::Millis(least, most) | Kind::Count(least, most),
                Value::Number(number),
            ) => {
                if (*least..=*most).contains(number) {
                    Ok(())
                } else {
                    Err("out of range".to_owned())
                }
            }
            (Kind::Choice(words), Value::Text(text)) => {
                if words.contains(&text.as_str()) {
                    Ok(())
                } else {
                    Err("not one of the words".to_owned())
                }
            }
            (Kind::Text(check), Value::Text(text)) => check(text),
            (Kind::List(check), Value::List(items)) => items.iter().try_for_each(|item| check(item)),
            (Kind::List(_), _) => Err("not a list of texts".to_owned()),
            (Kind::Choice(_) | Kind::Text(_), _) => Err("not text".to_owned()),
            _ => Err("not a number".to_owned()),
        }
    }

    /// What is allowed, in words; empty where that is said otherwise.
    pub(crate) fn allowed(&self) -> String {
        match &self.kind {
            Kind::Bytes(least, most) => format!("{} to {}", bytes_text(*least), bytes_text(*most)),
            Kind::Millis(least, most) => format!("{} to {}", millis_text(*least), millis_text(*most)),
            Kind::Count(least, most) => format!("{least} to {most}"),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Text(_) | Kind::List(_) => String::new(),
        }
    }

    /// A value as it may be shown: of header fields, which may hold tokens, only the names.
    pub(crate) fn shown(&self, value: &Value) -> String {
        match value {
            Value::List(items) if self.name == "otlp.headers" => {
                let name = |item: &String| item.split_once(':').map_or("", |(name, _)| name).to_owned();
                self.toml(&Value::List(
                    items.iter().map(|item| format!("{}: (hidden)", name(item))).collect(),
                ))
            }
            _ => self.toml(value),
        }
    }

    /// A value as it stands in the file.
    pub(crate) fn toml(&self, value: &Value) -> String {
        match (&self.kind, value) {
            (Kind::Bytes(..), Value::Number(number)) if *number > 0 => format!("\"{}\"", bytes_text(*number)),
            (Kind::Millis(..), Value::Number(number)) if *number > 0 => {
                format!("\"{}\"", millis_text(*number))
            }
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Text(text)) => quoted(text),
            (_, Value::List(items)) => {
                format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Text as a TOML string.
fn quoted(text: &str) -> String {
    // JSON's escapes are all TOML's too.
    serde_json::Value::from(text).to_string()
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// A setting kept in a number of `Settings`.
macro_rules! number {
    ($name:literal, $kind:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: $kind,
            get: |settings| Value::Number(settings.$($field).+ as u64),
            set: |settings, value| if let Value::Number(number) = value { settings.$($field).+ = number as _ },
        }
    };
}

/// A setting kept in a `String` of `Settings`.
macro_rules! text {
    ($name:literal, $kind:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: $kind,
            get: |settings| Value::Text(settings.$($field).+.clone()),
            set: |settings, value| if let Value::Text(text) = value { settings.$($field).+ = text },
        }
    };
}

/// A setting kept in a `Vec<String>` of `Settings`.
macro_rules! list {
    ($name:literal, $check:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: Kind::List($check),
            get: |settings| Value::List(settings.$($field).+.clone()),
            set: |settings, value| if let Value::List(items) = value { settings.$($field).+ = items },
        }
    };
}

/// All settings, in the order of the file; those of a section stand together.
pub(crate) static KEYS: &[Key] = &[
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
    number!(
        "server.connections_max",
        Kind::Count(1, 10_000_000),
        server.connections_max,
        "Connections at once; one more is answered 503 and closed."
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
        "server.event_bytes_max",
        Kind::Bytes(64, 64 * MIB),
        server.event_bytes_max,
        "The longest event."
    ),
    number!(
        "server.event_depth_max",
        Kind::Count(1, 1_024),
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
        "The time that running requests and queries get to finish on shutdown."
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
    text!("log.format", Kind::Choice(&["text", "json"]), log_format, "How it is logged, on standard error."),
    number!(
        "engine.shards",
        Kind::Count(0, 1_024),
        engine.shards,
        "Threads that decode, match and operate; 0: one per core."
    ),
    Key {
        name: "engine.default_stream",
        doc: "The stream that `STREAM()` means; empty: none, so that queries have to name theirs.",
        kind: Kind::Text(stream_name_or_empty),
        get: |settings| {
            let name = settings.engine.default_stream.as_ref();
            Value::Text(name.map_or_else(String::new, |name| name.as_str().to_owned()))
        },
        set: |settings, value| {
            if let Value::Text(text) = value {
                settings.engine.default_stream = StreamName::new(&text).ok();
            }
        },
    },
    number!(
        "engine.streams_max",
        Kind::Count(1, 1_000_000),
        engine.streams_max,
        "Streams that may exist at once."
    ),
    number!(
        "engine.pending_bytes_max",
        Kind::Bytes(MIB, TIB),
        engine.pending_bytes_max,
        "Bytes of events that wait to be looked at, over all streams; a source that sends more waits."
    ),
    number!(
        "engine.batch_bytes_max",
        Kind::Bytes(KIB, 64 * MIB),
        engine.batch_bytes_max,
        "Bytes of small batches that are joined into one before a shard looks at them."
    ),
    number!(
        "engine.tick_ms",
        Kind::Millis(1, SECOND),
        engine.tick_ms,
        "Time between looks at the clock, for windows and durations."
    ),
    number!(
        "engine.queries_max",
        Kind::Count(1, 10_000_000),
        engine.queries_max,
        "Queries that may stand at once."
    ),
    number!(
        "engine.query_text_bytes_max",
        Kind::Bytes(256, 16 * MIB),
        engine.query_text_bytes_max,
        "The longest query text."
    ),
    number!(
        "engine.query_duration_ms_max",
        Kind::Millis(0, 3_650 * DAY),
        engine.query_duration_ms_max,
        "The longest that a query may stand; 0: no limit."
    ),
    number!(
        "engine.query_duration_ms_default",
        Kind::Millis(0, 3_650 * DAY),
        engine.query_duration_ms_default,
        "How long a query stands that does not say so; 0: as long as it may."
    ),
    number!(
        "engine.query_emits_max",
        Kind::Count(0, 1_000_000_000),
        engine.query_emits_max,
        "Emits that a query may give in each `emits_interval_ms`; 0: no limit."
    ),
    Key {
        name: "engine.fast_query",
        doc: "What happens to a query that gives more: it is ended with an error, or the emits that are too many are \
              dropped and counted in the next one's meta; one by Bullet's rules is always ended.",
        kind: Kind::Choice(&["end", "drop"]),
        get: |settings| {
            let word = match settings.engine.fast_query {
                FastQuery::End => "end",
                FastQuery::Drop => "drop",
            };
            Value::Text(word.to_owned())
        },
        set: |settings, value| {
            if let Value::Text(text) = value {
                settings.engine.fast_query = if text == "drop" { FastQuery::Drop } else { FastQuery::End };
            }
        },
    },
    number!(
        "engine.bullet_emits_max",
        Kind::Count(0, 1_000_000_000),
        engine.bullet_emits_max,
        "The same for queries by Bullet's rules, where each event that a window by record takes in counts too."
    ),
    number!(
        "engine.emits_interval_ms",
        Kind::Millis(1, DAY),
        engine.emits_interval_ms,
        "The time over which a query's emits are counted."
    ),
    Key {
        name: "engine.bullet_windows",
        doc: "Whether queries by Bullet's rules have windows, or are run as if they had no WINDOWING.",
        kind: Kind::Choice(&["run", "ignore"]),
        get: |settings| {
            let word = if settings.engine.bullet_ignores_windows { "ignore" } else { "run" };
            Value::Text(word.to_owned())
        },
        set: |settings, value| {
            if let Value::Text(text) = value {
                settings.engine.bullet_ignores_windows = text == "ignore";
            }
        },
    },
    number!(
        "engine.answer_rows_default",
        Kind::Count(1, 1_000_000_000),
        engine.answer_rows_default,
        "Rows of an answer that is given as one (no window, not streaming) where the query states no LIMIT."
    ),
    number!(
        "engine.emit_bytes_max",
        Kind::Bytes(4 * KIB, GIB),
        engine.emit_bytes_max,
        "The most bytes of records in one emit; a larger result ends its query with an error."
    ),
    number!(
        "engine.query_state_bytes_max",
        Kind::Bytes(64 * KIB, TIB),
        engine.query_state_bytes_max,
        "The most bytes of groups, rows and windows that one query may hold."
    ),
    number!(
        "engine.state_bytes_max",
        Kind::Bytes(MIB, TIB),
        engine.state_bytes_max,
        "The most bytes that all queries together may hold."
    ),
    number!(
        "engine.subscriber_bytes_max",
        Kind::Bytes(4 * KIB, GIB),
        engine.subscriber_bytes_max,
        "Bytes of emits that wait for one subscriber."
    ),
    number!(
        "engine.subscriber_emits_max",
        Kind::Count(1, 1_000_000),
        engine.subscriber_emits_max,
        "Emits that wait for one subscriber."
    ),
    number!(
        "engine.subscribers_bytes_max",
        Kind::Bytes(KIB, TIB),
        engine.subscribers_bytes_max,
        "Bytes of emits that wait for all subscribers together; beyond, each one's oldest give way to its newest."
    ),
    Key {
        name: "engine.slow_reader",
        doc: "What happens when either is passed: its oldest waiting emits are dropped and counted in the next one's \
              meta, or its query is ended with an error.",
        kind: Kind::Choice(&["drop", "cut_off"]),
        get: |settings| {
            let word = match settings.engine.slow_reader {
                SlowReader::Drop => "drop",
                SlowReader::CutOff => "cut_off",
            };
            Value::Text(word.to_owned())
        },
        set: |settings, value| {
            if let Value::Text(text) = value {
                settings.engine.slow_reader =
                    if text == "cut_off" { SlowReader::CutOff } else { SlowReader::Drop };
            }
        },
    },
    number!(
        "engine.detached_kept_ms",
        Kind::Millis(0, 365 * DAY),
        engine.detached_kept_ms,
        "How long a detached query that ended is kept for pick-up."
    ),
    number!(
        "engine.distinct_entries",
        Kind::Count(32, 67_108_864),
        engine.distinct_entries,
        "Distinct values that COUNT(DISTINCT) counts exactly, of each group; the next power of two is taken. Of more it \
         gives an estimate with its bounds."
    ),
    number!(
        "engine.quantile_k",
        Kind::Count(8, 65_535),
        engine.quantile_k,
        "Values of which quantiles and distributions are exact, of each group. Of more they are estimates with their \
         bounds."
    ),
    number!(
        "engine.top_entries",
        Kind::Count(8, 67_108_864),
        engine.top_entries,
        "Entries of the map of TOP, of which three quarters are counted exactly; the next power of two is taken. Of more \
         values it gives estimates with their bounds."
    ),
    Key {
        name: "bullet.schema",
        doc: "A file that declares the fields of events (`{\"carrier\": \"STRING\"}`, or Bullet's own form): what \
              `/api/bullet/columns` tells and queries asked there are checked against; empty: none.",
        kind: Kind::Text(|path| schema_file(path).map(drop)),
        get: |settings| Value::Text(settings.bullet_schema.clone()),
        set: |settings, value| {
            if let Value::Text(path) = value {
                settings.server.bullet.schema = schema_file(&path).ok().flatten().map(Arc::new);
                settings.bullet_schema = path;
            }
        },
    },
    number!(
        "bullet.queries_max",
        Kind::Count(1, 10_000_000),
        server.bullet.queries_max,
        "Queries of Bullet's `http-query`, `sse-query` and `ws-query` at once; one more is told that there are too many."
    ),
    number!(
        "bullet.message_bytes_max",
        Kind::Bytes(KIB, 64 * MIB),
        server.bullet.message_bytes_max,
        "The longest message that a client of Bullet's `ws-query` may send."
    ),
    number!(
        "bullet.session_buffer_bytes_max",
        Kind::Bytes(KIB, 128 * MIB),
        server.bullet.session_buffer_bytes_max,
        "Bytes that wait for one client of `ws-query`; a message that is longer has the place for itself."
    ),
    number!(
        "bullet.send_timeout_ms",
        Kind::Millis(100, HOUR),
        server.bullet.send_timeout_ms,
        "The time that a message may wait to be sent before the client is given up."
    ),
    number!(
        "bullet.sessions_max",
        Kind::Count(0, 10_000_000),
        server.bullet.sessions_max,
        "Sessions of `ws-query` by plain requests at once (those over WebSockets are connections)."
    ),
    number!(
        "bullet.disconnect_delay_ms",
        Kind::Millis(100, HOUR),
        server.bullet.disconnect_delay_ms,
        "The time after which such a session ends when nobody receives."
    ),
    number!(
        "bullet.sockjs_heart_beat_ms",
        Kind::Millis(100, HOUR),
        server.bullet.sockjs_heart_beat_ms,
        "The time between SockJS's heart-beats."
    ),
    number!(
        "bullet.stomp_heart_beat_ms",
        Kind::Millis(0, HOUR),
        server.bullet.stomp_heart_beat_ms,
        "The time between STOMP's heart-beats, in either direction, where a client wants them; 0: none."
    ),
];

/// The schema in a file; none for no file.
fn schema_file(path: &str) -> Result<Option<Schema>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{path}` cannot be read: {error}"))?;
    Schema::from_json(&text).map(Some).map_err(|error| format!("`{path}`:{error}"))
}

fn log_filter(text: &str) -> Result<(), String> {
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    parsed.map(drop).map_err(|error| format!("not a filter of logs: {error}"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
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

fn stream_name_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() { Ok(()) } else { StreamName::new(text).map(drop).map_err(|error| error.to_string()) }
}
