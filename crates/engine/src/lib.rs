//! The running engine: streams with their queues, shards that look at every event, standing queries and their limits,
//! the ticker, shutdown. Joins the rooms below; knows nothing of HTTP.

mod analyze;
mod append;
mod config;
mod emit;
mod engine;
mod error;
mod history;
mod input;
mod status;
mod validate;
mod warnings;

mod byte_budget;
mod fan_out;
mod id;
mod limits;
mod lines;
mod listing;
mod merge;
mod operator;
mod rate;
mod run_queue;
mod running;
mod subscriber_queue;

mod finish;
mod indexer;
mod panic_guard;
mod resume_point;
mod shard;
mod shared;
mod steady_clock;
mod stream;
mod submit;
mod ticker;

pub use analyze::Analysis;
pub use append::{Ack, AppendOptions, Appended, Numbered, Refusal, Ticket, hash_of, is_reserved_producer};
pub use config::{EngineConfig, FastQuery, SlowReader};
pub use emit::{Counts, Emit, EmitMeta, Finished, QueryMeta, Records, StreamMeta, WindowMeta};
pub use engine::{Engine, Principal, QueryForm, SubmitOptions, Subscription};
pub use error::{EngineError, ErrorKind};
pub use history::{
    BACKUP_KEPT, BACKUPS_MAX, Backup, BackupFault, BackupFile, BackupManifest, BackupReadError, Checksum,
    Detached, Disks, Endpoint, EndpointAnswer, EndpointCounts, EndpointError, EndpointInput, EndpointLimits,
    EndpointPlace, EndpointRoute, HistoryConfig, HistoryError, JoinsMetrics, KeyValue, MANIFEST_NAME,
    ManifestError, PRODUCER_BYTES_MAX, QUARANTINED_BYTES, RestoreError, SinkStatus, ViewChange, ViewChanges,
    ViewChangesSome, ViewPage, ViewRange, ViewReading, ViewStatus, Wanted, restore, verify_backup,
};
pub use id::{NotAnId, QueryId};
pub use input::{InputError, InputOptions, InputSource, InputSummary, run_input};
pub use listing::{QueryList, QueryPage, QuerySort};
pub use panic_guard::faults;
pub use status::{
    HistoryMetrics, JobStatus, LATENCY_BOUNDS_MICROS, Metrics, QueryCost, QueryStatus, STAGES, ShardStatus,
    StreamStatus, TableMetrics, ViewsMetrics,
};
pub use swiftwater_catalog::{
    CatalogError, ObjectKind, ScheduleError,
    kind::{durable_query::EndReason, stream::QUARANTINE},
};
pub use swiftwater_live::columns::Rule;
pub use swiftwater_live::{DistinctFigures, Row, SketchFigures, SketchMeta};
pub use swiftwater_log::{Compressing, Compression};
pub use swiftwater_store::causes;
pub use validate::QueryFacts;
