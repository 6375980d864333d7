//! Views: queries without an end whose groups are kept by key.
//!
//! What is checked when one is created or opened, and which are at work: [`lifecycle`].
//!
//! A view reads its stream's events when they are synced, in their order, and folds them into what it holds of their keys
//! ([`view`]). What changed goes to disk with the offset that it stands at, together, every so often ([`task`]); after a
//! crash the events from that offset on are read again from the log, which keeps them until then. So a view is its query
//! over all events from its first one up to its position, exactly, whatever happened. What is read of it is what it holds,
//! and from disk what it does not ([`reading`]), by key and in ranges ([`keys`]), by SQL in columns whose types may have to be found ([`found`]). What changes is told to whoever listens
//! ([`changefeed`]), and kept for sinks that deliver it ([`changelog`]). Events that the log does not have any more come from the stream's
//! table ([`behind`]). Closed windows that sinks and alerts still read stay on disk ([`retention`]). What all of them hold in memory
//! is bounded ([`memory`]). One whose files were damaged takes its events in again ([`rebuild`]). Views of other views' rows ([`derived`]) change with the commits of those ([`propagate`]).

mod behind;
mod changefeed;
mod changelog;
mod closed;
mod defaults;
mod derived;
mod found;
mod key_conditions;
mod keys;
mod lifecycle;
mod memory;
mod propagate;
mod reading;
mod rebuild;
mod retention;
mod show;
mod task;
mod view;

pub use changefeed::{ViewChange, ViewChanges, ViewChangesSome};
pub(crate) use closed::{ClosedGroups, Portion};
pub(crate) use defaults::Defaults;
pub use keys::KeyValue;
pub(crate) use keys::after_prefix;
pub(crate) use lifecycle::open_view_store;
pub(crate) use memory::ViewsMemory;
pub use reading::{ViewPage, ViewRange, ViewReading, Wanted};
pub(crate) use retention::NeededBy;
pub use show::ViewStatus;
pub(crate) use task::Next;
pub(crate) use view::{At, Compiled, Source, View, compile_view, query_error};
