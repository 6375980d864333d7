//! Positions in the log, and its horizons: appended and synced.

/// A place in the one log of a node: bytes of frames before it, counted over all segments, trimmed ones included.
///
/// Positions grow and are never used again. Those that [`Log`](crate::Log) and its readers give out stand between records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

/// The progress of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizons {
    /// The end of what was appended; all of it is synced sooner or later, unless process or machine stop before.
    pub appended: LogPosition,
    /// The end of what is synced: it is there after any crash.
    pub synced: LogPosition,
    /// The reason why nothing is synced at present.
    pub trouble: Option<StallReason>,
}

/// The reason why the log is stalled; it tries again by itself, and no appended record is lost meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallReason {
    /// The disk is full, or the log has reached the bytes it may take.
    Full,
    /// The disk failed a write or a sync.
    Failing,
}

/// The log's use of memory and disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogUsage {
    /// Bytes of all files of the log, those kept for reuse included.
    pub file_bytes: u64,
    /// Files with records.
    pub segments: usize,
    /// Files kept for reuse.
    pub spares: usize,
    /// The earliest record that can still be read begins here.
    pub oldest: LogPosition,
    /// Bytes in memory: appended, not synced.
    pub queued_bytes: u64,
    /// Groups that were written and synced since the log was opened.
    pub groups: u64,
    /// Nanoseconds that their syncs took.
    pub sync_nanos: u64,
}

/// The bytes that a log has of its disk, and those that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of the log's own files that it can use again.
    pub own_bytes: u64,
    /// Bytes that it needs of both: those that it leaves free, and two files, as one that is full goes only when the next is there.
    pub needed_bytes: u64,
}

impl DiskRoom {
    /// Bytes that are lacking.
    pub fn lacking_bytes(&self) -> u64 {
        self.needed_bytes.saturating_sub(self.free_bytes.saturating_add(self.own_bytes))
    }
}
