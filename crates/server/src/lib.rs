//! The listeners of a running engine: accept events and queries over HTTP, answer them, and expose the engine's metrics.
//!
//! This is the only room that knows the wire. It parses and writes; the engine interprets events and queries. The socket
//! bounds every queue here. A body is read no faster than the engine takes its events. An answer is fetched from the engine
//! no faster than its client reads.

// Without history, the code that only history uses remains unused.
#![cfg_attr(not(feature = "history"), allow(dead_code, unused_imports))]

mod config;
mod engine;
#[cfg(not(feature = "history"))]
mod live_only;
mod server;

mod guard;
mod head_bytes;
mod head_timer;
mod routes;

#[cfg(feature = "history")]
mod backups;
mod body;
mod budget;
mod bullet;
#[cfg(feature = "history")]
mod changes;
#[cfg(feature = "history")]
mod cluster;
mod columns;
mod complete;
mod console;
#[cfg(feature = "history")]
mod endpoints;
mod ingest;
mod inputs;
mod numbered;
mod pending_connections;
#[cfg_attr(not(feature = "history"), path = "postgres_live_only.rs")]
mod postgres;
mod queries;
mod received;
mod recent;
mod results;
#[cfg(feature = "history")]
mod saved;
#[cfg(feature = "history")]
mod search;
#[cfg(feature = "history")]
mod sql;
mod status;
mod syslog;
#[cfg(feature = "history")]
mod views;
mod ws;

mod openapi;
mod prefix;
mod prepared;

mod about;
mod accept;
mod parameters;
mod problem;
mod query_request;
pub mod wire;

mod http_stats;
mod metrics;
mod metrics_history;
mod otlp;
mod process;
mod prometheus;

#[cfg(feature = "history")]
pub use bullet::pubsub::PubSub;
pub use inputs::CsvEvents;

pub use about::SettingStatus;
pub use config::{BulletConfig, ConsoleMode, OtlpConfig, ServerConfig, SyslogConfig};
pub use engine::{Engine, EngineError, WITHOUT_HISTORY, is_shutting_down};
pub use prefix::is_prefix;
pub use server::{Server, ServerError};
#[cfg(feature = "history")]
pub use sql::SqlAccess;
