//! The durable log: one physical log for all streams of a node, so that one sync serves all, and what changes the
//! catalog is ordered against events.
//!
//! A record is put into the log's queue by [`Log::append`], which gives it its place and never waits; one thread writes
//! what is queued, in groups, syncs, and only then calls it synced. What was synced is there after any crash, once and
//! in order; what was not may be lost, from the end. Records are payloads with a small head: what is in a payload, and
//! what streams are, is for others to know. All I/O goes through [`Disk`], so that tests can lose power at any call.
//!
//! The format is written down where it is made: a segment in `segment.rs`, a frame in `frame.rs`.
//!
//! ```
//! use std::sync::Arc;
//! use swiftwater_log::{Compression, DirDisk, Head, Log, LogOptions, LogPosition, Packed};
//!
//! # let directory = tempfile::tempdir()?;
//! let disk = Arc::new(DirDisk::open(directory.path())?);
//! let clock = Arc::new(swiftwater_event::SystemClock::new());
//! let log = Log::open(disk, clock, LogOptions::default(), Box::new(|_| ()))?;
//!
//! let packed = Packed::new(b"CREATE STREAM flights", Compression::Lz4)?;
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
pub use log_snapshot::{LogHold, LogSnapshot, LogSnapshotFile};
pub use options::LogOptions;
pub use packed::{Compressing, Compression, Packed};
pub use position::{DiskRoom, Horizons, LogPosition, LogUsage, Trouble};
pub use reader::LogReader;
pub use record::{EventsHead, Head, PRODUCER_ID_BYTES_MAX, Producer, Record, StreamId};
pub use sync_futures::{Reservation, Reserve, Synced};
