//! What is durable beside live queries: stored streams, views, alerts, sinks, joins, jobs, endpoints, tables, backups, and SQL
//! over them. Joins the rooms below; knows nothing of HTTP.

mod engine;
mod error;
mod history;
mod shared;
mod status;

pub use engine::Engine;
pub use error::{EngineError, ErrorKind};
pub use history::{
    BACKUP_KEPT, BACKUPS_MAX, Backup, BackupFault, BackupFile, BackupManifest, BackupReadError, Checksum,
    Detached, Disks, Endpoint, EndpointAnswer, EndpointCounts, EndpointError, EndpointInput, EndpointLimits,
    EndpointPlace, EndpointRoute, HistoryConfig, HistoryError, JoinsMetrics, KeyValue, MANIFEST_NAME,
    ManifestError, PRODUCER_BYTES_MAX, QUARANTINED_BYTES, RestoreError, SinkStatus, ViewChange, ViewChanges,
    ViewChangesSome, ViewPage, ViewRange, ViewReading, ViewStatus, Wanted, restore, verify_backup,
};
pub use status::{HistoryMetrics, JobStatus, TableMetrics, ViewsMetrics};
pub use swiftwater_catalog::{CatalogError, ObjectKind, ScheduleError, kind::stream::QUARANTINE};
pub use swiftwater_log::{Compressing, Compression};
pub use swiftwater_runtime::*;
pub use swiftwater_store::causes;
