//! Sinks: where the closed windows of views go.
//!
//! A sink reads what its view has on disk, a part of one window at a time, and delivers it: as events of a stream, as rows
//! of a table, behind the end of a file, or to a webhook. A window that is closed does not change, so a delivery that is
//! made again after a crash has the same rows; it has a number by which stream, table and webhook know it, and a file is cut
//! back to what was delivered. How far a sink is, is in the catalog, so in the log. Nothing waits for a sink: it holds no
//! rows but those of one delivery, and takes none of the view's locks.
//! Limits: `sinks.*` of the settings.

mod deliver;
mod entry;
mod show;
mod work;

pub use show::SinkStatus;

pub(crate) use entry::{Delivered, Sinks, SinksSnapshot};
pub(crate) use work::SinksAtWork;
