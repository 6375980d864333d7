//! Live queries over the partitions of a topic, computed on several nodes: pure steps, without network, clock or threads.
//!
//! ```text
//! partition ─► Worker (one node reads it) ─► units ─► Server (the node that was asked) ─► rows and slices of windows
//! ```
//!
//! The unit of work is a partition: what a query's slice of it holds depends on the messages of the partition alone, whoever
//! computes it. An event's time is that of its message; a query sees the events from its own beginning on, which is the time at
//! which the brokers recorded it. So two workers that read the same partition, one after another or both at once, send the same,
//! and the server takes each record and each slice once: no transaction, no election and no order between workers is needed.
//!
//! A worker sends records as they match, slices when they are over, and after them a mark: the offset and the time up to which
//! the partition is done. What comes between two marks counts when the second is there. A window closes when the marks of all
//! partitions are behind its end; if a partition's is late, the window closes without it, and says so ([`Completeness`]).
//!
//! Queries whose answers depend on the order of all events are computed by the node that was asked: workers send it the events that match,
//! and the server releases them by their messages' times, once all partitions are past these ([`ReleasedEvents`]).

mod events;
mod marks;
mod node;
mod operator;
mod partition;
mod query;
mod server;
#[cfg(test)]
mod tests;
mod unit;
mod worker;

use std::sync::Arc;

pub use events::{ReleasedEvents, TooManyEvents};
pub use node::{NodeDescription, NotARole, Role, Roles};
pub use query::{DistributedQuery, NotDistributed, OperatorKey, events_of};
pub use server::{Accepted, Completeness, Server, ServerLimits};
pub use unit::{Counts, InvalidUnit, Mark, Output, Slice, Unit};
pub use worker::{Batch, Place, Worker, WorkerLimits};

/// The name of a node.
pub type NodeName = Arc<str>;

/// The number of a query: the offset of its message among those of all queries of the cluster.
pub type QueryNumber = u64;
