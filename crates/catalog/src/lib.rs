//! The catalog: the named durable objects, their dependencies, and the changes that statements make to them.
//!
//! Objects are streams, views, alerts, sinks, stream joins, jobs, endpoints, durable queries, search indexes and saved objects. It lists
//! plain tables by name only. A statement is first checked against the catalog ([`Catalog::check`] and its siblings). Its change is then
//! written to the log, and then applied ([`Catalog::apply`]). After a restart, the last snapshot and the changes after it
//! restore the same catalog.
//!
//! Pure: reads no clock, does no I/O, knows no task. The engine writes the log, and starts and ends the objects' tasks.

mod catalog;
mod change;
mod cycles;
mod dependency;
mod error;
mod format;
pub mod kind;
mod object;
mod schedule;
mod statement;
mod wire;

pub use catalog::{Catalog, SourceNames};
pub use change::{Change, ChangeRecord};
pub use dependency::{Dependency, Role};
pub use error::{CatalogError, ErrorKind, WireError};
pub use format::FORMAT;
pub use kind::stream::{ReceiptSnapshot, StreamNumbers};
pub use object::{Object, ObjectKind};
pub use schedule::{Schedule, ScheduleError};
pub use statement::read;
pub use wire::Snapshot;

#[cfg(test)]
mod tests;
