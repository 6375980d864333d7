//! The catalog: the named durable objects, their dependencies, and the changes that statements make to them.
//!
//! Objects are streams, views, alerts, sinks, stream joins, jobs, endpoints, durable queries and search indexes. It lists
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
pub mod kind;
mod object;
mod schedule;
mod wire;

pub use catalog::{Catalog, SourceNames, read};
pub use change::{Change, ChangeRecord, FORMAT};
pub use dependency::{Dependency, Role};
pub use error::{CatalogError, ErrorKind, WireError};
pub use object::{Object, ObjectKind};
pub use schedule::{Schedule, ScheduleError};
pub use wire::{ReceiptSnapshot, Snapshot, StreamNumbers};

#[cfg(test)]
mod tests;
