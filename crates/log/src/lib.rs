//! The durable log: one physical log for all streams of a node, so one sync serves all, and catalog changes are ordered
//! with events.
//!
//! [`Log::append`] puts a record into the log's queue, assigns its position and never waits. One thread writes the queue
//! in groups, syncs them, and only then reports them as synced. Synced records are present after any crash, once and in
//! order. Records that were not synced may be lost, from the end. Records are payloads with a small head: the log knows
//! nothing of the contents of payloads, nor of streams. All I/O goes through [`Disk`], so that tests can simulate a power
//! loss at any call.
//!
//! Each format is documented where it is implemented: a segment in `segment.rs`, a frame in `frame.rs`.
//!
//! ```
//! use std::sync::Arc;
//! use swiftwater_log::{Compression, DirDisk, Head, Log, LogOptions, LogPosition, PackedPayload};
//!
//! # let directory = tempfile::tempdir()?;
//! let disk = Arc::new(DirDisk::open(directory.path())?);
//! let clock = Arc::new(swiftwater_event::SystemClock::new());
//! let log = Log::open(disk, clock, LogOptions::default(), Box::new(|_| ()))?;
//!
//! let packed = PackedPayload::new(b"CREATE STREAM flights", Compression::Lz4)?;
//! let room = log.reserve_blocking(packed.bytes())?;
//! let end = log.append(Head::Catalog, packed, room)?;
//! log.wait_synced(end)?;
//!
//! let mut reader = log.read(LogPosition(0));
//! let record = reader.next()?.expect("it was synced");
//! assert_eq!((record.head, record.payload), (Head::Catalog, &b"CREATE STREAM flights"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod position;
mod record;

mod packed;

mod frame;
mod segment;

mod dir_disk;
mod direct;
mod disk;

mod error;
mod options;

mod log;
mod queue;
mod sync_futures;

mod segments;
mod writer;

mod log_snapshot;
mod reader;
mod recovery;
mod window;

pub use dir_disk::{DirDisk, create_directories};
pub use disk::{Disk, DiskFile};
pub use error::{LogError, LogErrorKind};
pub use frame::check_frame;
pub use log::Log;
pub use log_snapshot::{LogRetentionGuard, LogSnapshot, LogSnapshotFile};
pub use options::LogOptions;
pub use packed::{Compression, CompressionPolicy, PackedPayload};
pub use position::{DiskRoom, Horizons, LogPosition, LogUsage, StallReason};
pub use reader::LogReader;
pub use record::{EventsHead, Head, PRODUCER_ID_BYTES_MAX, Producer, Record, StreamId};
pub use sync_futures::{Reservation, ReserveFuture, Synced};
