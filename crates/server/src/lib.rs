//! The listeners of a running engine: events come in over HTTP, queries are asked and answered over HTTP, and what the
//! engine does is told to whoever measures it.
//!
//! This is the only room that knows the wire. It parses and writes; what an event or a query means is the engine's to
//! say. Every queue here is bounded by the socket: a body is read no faster than the engine takes its events, and an
//! answer is fetched from the engine no faster than its client reads.

mod config;
mod server;

mod guard;
mod head_bytes;
mod head_timer;
mod routes;

mod backups;
mod body;
mod budget;
mod bullet;
mod changes;
mod endpoints;
mod ingest;
mod inputs;
mod newcomers;
mod numbered;
mod postgres;
mod queries;
mod received;
mod results;
mod sql;
mod status;
mod syslog;
mod views;

mod openapi;
mod prefix;
mod prepared;

mod accept;
mod ask;
mod parameters;
mod problem;
pub mod wire;

mod http_stats;
mod metrics;
mod otlp;
mod process;
mod prometheus;

pub use inputs::CsvEvents;

pub use config::{BulletConfig, OtlpConfig, ServerConfig, SyslogConfig};
pub use prefix::is_prefix;
pub use server::{Server, ServerError};
pub use sql::SqlAccess;
