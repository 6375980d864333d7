//! The catalog: the objects that have a name and are durable, what they depend on, and what a statement changes of them.
//!
//! Objects are streams, views, alerts, sinks, stream joins, jobs, endpoints and durable queries; of plain tables only the names
//! stand here. A statement is checked against the catalog first ([`Catalog::check`] and its siblings), the change that it makes is
//! written into the log, and then applied ([`Catalog::apply`]). After a restart the last snapshot and the changes behind it
//! give the same catalog.
//!
//! Pure: reads no clock, does no I/O, knows no task. The engine writes the log, and starts and ends what an object does.

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
