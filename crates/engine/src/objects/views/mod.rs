//! Views: queries without an end whose groups are stored by key.
//!
//! [`lifecycle`] checks a view when it is created or opened, and lists the running views.
//!
//! A view reads its stream's synced events in order ([`next_events`]), and folds them into the states of their keys
//! ([`view`]). At intervals it commits the changed keys together with its offset ([`task`]). After a crash it rereads the
//! events from that offset from the log, which retains them until then. A view therefore equals its query over all events
//! from its first one up to its position, exactly, whatever happened.
//!
//! Readers get a view's rows from memory, and from disk what memory does not have ([`reading`]). They read by key and in
//! ranges ([`keys`]), or by SQL, in columns whose types may have to be inferred ([`found`]). Changes are sent to subscribers
//! ([`changefeed`]), and persisted for sinks that deliver them ([`changelog`]). Events that the log no longer has come from
//! the stream's table ([`behind`]). An idle stream closes windows by the clock ([`idle`]). Closed windows that sinks and
//! alerts still read stay on disk ([`retention`]). The memory of all views is bounded ([`memory`]). A view whose files were
//! damaged rereads its events ([`rebuild`]). Views over other views' rows ([`derived`]) change with the commits of those
//! ([`propagate`]).

mod accept;
mod behind;
mod changefeed;
mod changelog;
mod closed;
mod compile;
mod ddl;
mod defaults;
mod derived;
mod found;
mod idle;
mod key_conditions;
mod keys;
mod lifecycle;
mod lookup;
mod memory;
mod next_events;
mod propagate;
mod reading;
mod rebuild;
mod requests;
mod retention;
mod show;
mod task;
mod view;

pub use changefeed::{ViewChange, ViewChanges, ViewChangesSome};
pub(crate) use closed::{ClosedGroups, Portion};
pub(crate) use compile::{Compiled, Source, compile_view, query_error};
pub(crate) use ddl::DropView;
pub(crate) use defaults::Defaults;
pub use keys::KeyValue;
pub(crate) use keys::after_prefix;
pub(crate) use memory::ViewsMemory;
pub(crate) use next_events::Next;
pub use requests::{ViewPage, ViewRange, ViewReading, Wanted};
pub(crate) use retention::NeededBy;
pub use show::ViewStatus;
pub(crate) use view::{At, View};
