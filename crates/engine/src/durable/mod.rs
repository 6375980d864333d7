//! What is durable: events, the catalog, tables, and how they come back after a crash.
//!
//! Events of a stored stream go into the log, are acknowledged when they are synced, and are handed on to the stream's
//! table from there; the log is trimmed when the table has committed them. What has a name is in the catalog, whose
//! changes stand in the same log. So a start is: the last snapshot of the catalog, the log from there on, and each table
//! from the offset that it has committed. Knows nothing of HTTP; formats of files are those of `log` and `store`, and the
//! catalog's own.

pub(crate) mod history;

pub(crate) mod directory;
pub(crate) mod snapshots;

pub(crate) mod ack_horizon;
pub(crate) mod arrivals;
pub(crate) mod backpressure;
pub(crate) mod dedup;
pub(crate) mod log_tail;
pub(crate) mod quarantine;
pub(crate) mod readiness;
pub(crate) mod stored_stream;

pub(crate) mod backfill;
pub(crate) mod checkpoints;
pub(crate) mod columns;
pub(crate) mod published;
pub(crate) mod reconcile;
pub(crate) mod spec;
pub(crate) mod table_writer;
pub(crate) mod validation;
