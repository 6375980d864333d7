//! Alerts: conditions on the rows of views, of which a stream is told when a key begins to meet one, and when it does not
//! any more.
//!
//! An alert takes the changes of its view ([`keeping`]). Which keys meet the condition, what is to be told and from where on the
//! changes are still to be taken goes to disk together, before anybody is told; the stream is told under a number of the
//! alert's, and stores each number once. So after a crash every message is there, once.

mod alert;
mod entry;
mod keeping;
mod show;

pub(crate) use alert::{Alert, as_events};
pub(crate) use entry::{AlertEntry, AlertSnapshot};
