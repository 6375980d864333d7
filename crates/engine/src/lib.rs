//! Adds durable state to live queries: stored streams, views, alerts, sinks, joins, jobs, endpoints, tables, backups, and
//! SQL over them. Connects the rooms below; knows nothing of HTTP.
//!
//! [`Engine`] is the façade over a [`Runtime`]. The runtime runs live queries and reaches durable state only through
//! [`swiftwater_runtime::DurableObjects`]. [`durable`] stores events and the catalog, [`objects`] runs the objects that
//! statements create, [`tables`] provides the tables of SQL, and [`ddl`] changes the catalog.
//!
//! The modules have floors (crates/testkit/tests/floors.rs), from the top:
//!
//! ```text
//!  engine       the façade
//!  statements   SHOW, DESCRIBE and the way into DDL (beside it: backup, durable_objects)
//!  objects      one module per kind: streams, above alerts, durable_query, endpoints, jobs, stream_joins, above sinks, views, lookup_join
//!  ddl          the steps of a statement that changes the catalog
//!  tables       the tables of SQL
//!  durable      log, catalog, stored streams, checkpoints
//!  shared       the state that all tasks share; supervisor: their tasks
//!  error        (beside it: answer, config, status)
//! ```

mod answer;
mod companions;
mod config;
mod engine;
mod error;
mod history_error;
mod shared;
mod sql_nodes;
mod status;

mod ddl;
mod durable_objects;
mod statements;
mod supervisor;

mod backup;
mod durable;
mod objects;
mod saved;
mod search;
mod searches;
mod tables;

pub use backup::{
    BACKUP_KEPT, BACKUPS_MAX, Backup, BackupFault, BackupFile, BackupManifest, BackupOptions,
    BackupReadError, Checksum, MANIFEST_NAME, ManifestError, RestoreError, restore, verify_backup,
};
pub use config::{ClusterConfig, HistoryConfig, KafkaConnections, SavedLimits, SchemaSettings, SqlNodes};
pub use durable::history::Disks;
pub use engine::Engine;
pub use error::{BackupError, DedupError, EngineError, ErrorKind, SinkError, SkipError};
pub use history_error::HistoryError;
pub use objects::{
    endpoints::{
        Endpoint, EndpointAnswer, EndpointCounts, EndpointError, EndpointInput, EndpointLimits,
        EndpointPlace, EndpointRoute,
    },
    saved::{ContentError, ContentFault, DASHBOARD_SCHEMA, NOTEBOOK_SCHEMA, is_json, title_of},
    views::{
        KeyValue, ViewChange, ViewChanges, ViewChangesSome, ViewPage, ViewRange, ViewReading, ViewStatus,
        Wanted,
    },
};
pub use saved::{SaveCondition, Saved, SavedError, SavedList};
pub use search::{
    ACTIVITY_DEPTH_MAX, ActivitiesAnswer, ActivitiesRequest, ActivityAnswer, ActivityEvent, ActivityFollow,
    ActivityRequest, ActivityStream, ActivitySummary, ActivityTree, AggregateRequest, Bucket, ContextRequest,
    Drill, Facet, FacetRequest, FieldSummary, FieldsAnswer, Followed, FollowedActivity, HistogramRequest,
    Piece, RangeCount, RangeRequest, SearchAnswer, SearchFollow, SearchHit, SearchRequest, SearchSort,
    SearchedFiles, SearchedStream, Stage, ValueCount,
};
pub use searches::{RunningSearch, SearchError, SearchMetrics, SearchState};
pub use status::{
    ClusterNode, ClusterPartition, ClusterQueryStatus, ClusterStatus, HistoryMetrics, JobStatus,
    JoinsMetrics, SinkStatus, TableMetrics, TopicMetrics, ViewsMetrics,
};
pub use swiftwater_catalog::{
    CatalogError, ObjectKind, ScheduleError,
    kind::{
        saved::{LINK_BYTES_MAX, SAVED_BYTES_MAX, SavedEntry},
        stream::QUARANTINE,
    },
};
pub use swiftwater_cluster::{NotARole, Role, Roles};
pub use swiftwater_log::{Compression, CompressionPolicy};
pub use swiftwater_runtime::*;
pub use tables::index_files::IndexProgress;
