//! Stores streams as Delta Lake tables, each written by one owner. Rows come in as record batches with the offsets of their
//! events. Each commit records how far the stream is in the table, so every row is in it exactly once, whatever fails.
//!
//! Knows nothing of logs, JSON or SQL text. A [`Store`] contains tables in a directory or on S3. A [`Table`] takes rows
//! ([`Table::append`]), shows them to DataFusion at once ([`Table::provider`]), and commits them by time and bytes.
//! Compaction, checkpoints, vacuum and retention run beside that, without conflict.
//! Limits: [`StoreOptions`]. After Armbrust et al., "Delta Lake: High-Performance ACID Table Storage over Cloud Object
//! Stores", VLDB 2020, and the Delta Lake protocol.

mod actions;
mod applied;
mod checksums;
mod committer;
mod companion_build;
mod companions;
mod disk;
mod encode;
mod error;
mod indexing;
mod insert;
mod io_threads;
mod layout;
mod life;
mod load;
mod location;
mod maintenance;
mod options;
mod pinned_snapshot;
mod provider;
mod read;
mod scan_message;
mod schema;
mod spec;
mod staged_table;
mod stats;
mod store;
mod store_id;
mod table;
mod table_version;
mod tail;

pub use companions::{
    CompanionBuilder, CompanionBytes, CompanionFault, CompanionFile, CompanionFormat, CompanionStatus,
    CompanionTerm, OpenCompanion, SelectedRows,
};
pub use disk::{Durability, Durable};
pub use error::{ErrorKind, Result, StoreError};
pub use options::StoreOptions;
pub use pinned_snapshot::{FilePut, PinnedStore, SnapshotOptions, StoredFile};
pub use scan_message::scan_message;
pub use spec::{
    ColumnSpec, DAY_COLUMN, EVENT_COLUMN, HOUR_COLUMN, OFFSET_COLUMN, PARTITION_COLUMNS_MAX, Partitioning,
    TIME_COLUMN, TableSpec, arrow_type,
};
pub use staged_table::NewTable;
pub use store::Store;
pub use table::{Application, At, CommitFailure, Progress, Rows, Status, Table};
