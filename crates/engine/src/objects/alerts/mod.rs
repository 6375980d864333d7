//! Alerts: conditions on rows by key, of which a stream or a webhook is told when a key begins to meet one, and when it does
//! not any more.
//!
//! An alert takes the changes of its view ([`task`]), or, where that has windows, each that is closed ([`windows`]). An
//! alert on a query has a view for itself, which nobody else finds. Which keys meet the condition, what is to be told and from
//! where on the view is still to be looked at goes to disk together ([`state`]), before anybody is told; each message that is
//! told again after a crash has the number that it had ([`notify`]): so a stream has it once, and a webhook knows it again.

mod alert;
mod create;
mod notify;
mod show;
mod state;
mod task;
mod windows;

pub(crate) use alert::Alert;
