//! Streams as Delta Lake tables, each written by one owner: rows come in as record batches with the offsets of their
//! events, and are in the table exactly once, whatever fails, since each commit says how far the stream is in it.
//!
//! Knows nothing of logs, JSON or SQL text. A [`Store`] holds tables at a directory or on S3; a [`Table`] takes rows
//! ([`Table::append`]), shows them to DataFusion at once ([`Table::provider`]), and commits them by time and bytes.
//! Compaction, checkpoints, vacuum and retention run beside that, without conflict.
//! Limits: [`StoreOptions`]. After Armbrust et al., "Delta Lake: High-Performance ACID Table Storage over Cloud Object
//! Stores", VLDB 2020, and the Delta Lake protocol.

mod actions;
mod apart;
mod checksums;
mod cut;
mod disk;
mod encode;
mod error;
mod insert;
mod layout;
mod ledger;
mod life;
mod load;
mod location;
mod making;
mod mark;
mod options;
mod owner;
mod provider;
mod read;
mod schema;
mod spec;
mod stats;
mod store;
mod table;
mod tail;
mod upkeep;

pub use cut::{FilePut, StoreCut, StoredFile};
pub use disk::{Durability, Durable};
pub use error::{ErrorKind, Result, StoreError, causes};
pub use making::NewTable;
pub use options::StoreOptions;
pub use spec::{
    ColumnSpec, DAY_COLUMN, EVENT_COLUMN, HOUR_COLUMN, OFFSET_COLUMN, PARTITION_COLUMNS_MAX, Partitioning,
    TIME_COLUMN, TableSpec, arrow_type,
};
pub use store::Store;
pub use table::{Application, At, Failing, Progress, Rows, Status, Table};
