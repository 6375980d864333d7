//! What is durable: events, the catalog, tables, and how they come back after a crash.
//!
//! Events of a stored stream go into the log, are acknowledged when they are synced, and are handed on to the stream's
//! table from there; the log is trimmed when the table has committed them. What has a name is in the catalog, whose
//! changes stand in the same log. So a start is: the last snapshot of the catalog, the log from there on, and each table
//! from the offset that it has committed. Knows nothing of HTTP; formats of files are those of `log` and `store`, and the
//! catalog's own.

mod alerts;
mod config;
mod directory;
mod error;

mod snapshots;

mod ack_horizon;
mod arrivals;
mod backpressure;
mod dedup;
mod log_tail;
mod quarantine;
mod readiness;
mod stored_stream;

mod checkpoints;
mod columns;
mod ddl;
mod durable;
mod durable_objects;
mod published;
mod reconcile;
mod spec;
mod table_writer;
mod validation;

mod backfill;
mod durable_query;
mod endpoints;
mod inserted;
mod jobs;
mod lookup_join;
mod plain;
mod rows;
mod scoped;
mod sinks;
mod statements;
mod stream_joins;
mod supervisor;
mod tables;
mod views;

mod backup;

pub use backup::{
    BACKUP_KEPT, BACKUPS_MAX, Backup, BackupFault, BackupFile, BackupManifest, BackupReadError, Checksum,
    MANIFEST_NAME, ManifestError, RestoreError, restore, verify_backup,
};
pub use config::HistoryConfig;
pub use dedup::PRODUCER_BYTES_MAX;
pub use durable::Disks;
pub use durable_query::Detached;
pub use endpoints::{
    Endpoint, EndpointAnswer, EndpointCounts, EndpointError, EndpointInput, EndpointLimits, EndpointPlace,
    EndpointRoute,
};
pub use error::HistoryError;
pub use quarantine::QUARANTINED_BYTES;
pub use sinks::SinkStatus;
pub use stream_joins::JoinsMetrics;
pub use views::{
    KeyValue, ViewChange, ViewChanges, ViewChangesSome, ViewPage, ViewRange, ViewReading, ViewStatus, Wanted,
};

pub(crate) use directory::DataDir;
pub(crate) use durable::History;
pub(crate) use durable_objects::ForRuntime;
pub(crate) use statements::Statements;
pub(crate) use stored_stream::{Declared, StoredStream};
pub(crate) use tables::HistoryTables;
#[cfg(test)]
pub(crate) use tables::from_engine;
