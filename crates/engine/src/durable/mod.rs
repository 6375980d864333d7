//! Durable state: events, the catalog, tables, and their recovery after a crash.
//!
//! Events of a stored stream are appended to the log, acknowledged when synced, and passed on from there to the stream's
//! table. The log is trimmed when the table has committed them. The catalog lists every named object; its changes are in the
//! same log. A start therefore loads the last snapshot of the catalog, then replays the log, and resumes each table from its
//! committed offset. Knows nothing of HTTP. File formats are those of `log` and `store`, and the catalog's own.

pub(crate) mod history;

pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod snapshots;

pub(crate) mod ack_horizon;
pub(crate) mod admission;
pub(crate) mod append;
pub(crate) mod arrivals;
pub(crate) mod backpressure;
pub(crate) mod dedup;
pub(crate) mod fed_stream;
pub(crate) mod feeds;
pub(crate) mod log_tail;
pub(crate) mod quarantine;
pub(crate) mod readiness;
pub(crate) mod recovered;
pub(crate) mod reopen;
pub(crate) mod replay;
pub(crate) mod retained_positions;
pub(crate) mod stored_stream;

pub(crate) mod backfill;
pub(crate) mod catalog_log;
pub(crate) mod checkpoints;
pub(crate) mod columns;
pub(crate) mod event_shape;
pub(crate) mod found_columns;
pub(crate) mod intake;
pub(crate) mod published;
pub(crate) mod reconcile;
pub(crate) mod source_positions;
pub(crate) mod spec;
pub(crate) mod table_writer;
pub(crate) mod validation;
pub(crate) mod view_store;
