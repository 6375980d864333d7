//! Sinks: where the closed windows of views go, or what changes in them.
//!
//! A sink reads what its view has on disk, a part of one window at a time, or of what one commit changed
//! ([`crate::objects::views`]), and delivers it: as events of a stream, as rows of a table, behind the end of a file, or to a webhook.
//! Neither a closed window nor what a commit changed is ever another, so a delivery that is made again after a crash has the
//! same rows; it has a number by which stream, table and webhook know it, and a file is cut back to what was delivered. How
//! far a sink is, is in the catalog, so in the log. Nothing waits for a sink: it holds no rows but those of one delivery, and
//! takes none of the view's locks. Alerts deliver by the same means ([`deliver`], [`retry`]).
//! Limits: `sinks.*` of the settings.

mod deliver;
mod group_commit;
mod retry;
mod show;
mod task;

pub use show::SinkStatus;

pub(crate) use deliver::{DeliverError, Delivery};
pub(crate) use retry::Retry;
pub(crate) use task::SinkTasks;
