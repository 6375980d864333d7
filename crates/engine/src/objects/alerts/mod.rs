//! Alerts: conditions on rows by key. An alert notifies a stream or a webhook when a key starts to meet the condition and
//! when it stops.
//!
//! An alert reads the changes of its view ([`task`]) or, if the view has windows, each closed window ([`windows`]). An alert
//! on a query owns a view that is hidden from everything else. An alert persists the keys that meet the condition, the
//! pending messages and its position in the view together ([`state`]), before it sends any message. A message that is resent
//! after a crash has its original number ([`notify`]). A stream therefore stores it once, and a webhook can deduplicate it.

mod alert;
mod ddl;
mod notify;
mod show;
mod state;
mod task;
mod windows;

pub(crate) use alert::Alert;
pub(crate) use ddl::DropAlert;
