//! A log snapshot: the log up to what is synced, as files that form a log of their own.
//!
//! Each file is a segment up to the beginning of the next segment, or to the end of the snapshot. Copied under their
//! names into an empty directory, the files open as a log that ends where the snapshot does. A snapshot holds its
//! segments open. Retention may remove a segment meanwhile; its file is not reused, and the snapshot still reads it to
//! the end. Therefore neither writing nor retention waits for a snapshot, however long it is read. Its cost is the disk
//! space of the segments until it is dropped.

use std::sync::Arc;

use crate::{LogError, LogPosition, queue::Shared, segments::Segment};

/// The log up to a position.
pub struct LogSnapshot {
    end: LogPosition,
    files: Vec<LogSnapshotFile>,
}

/// A file of a cut.
pub struct LogSnapshotFile {
    segment: Arc<Segment>,
    bytes: u64,
}

impl LogSnapshot {
    pub(crate) fn new(shared: &Shared) -> LogSnapshot {
        let synced = shared.queue().synced;
        let live = shared.live();
        let begins = |at: usize| live.segments.get(at).map(|segment| segment.id.base);
        let files = live.segments.iter().enumerate().filter(|(_, segment)| segment.id.base < synced);
        let files = files.map(|(at, segment)| {
            let end = begins(at + 1).map_or(synced, |next| next.min(synced));
            LogSnapshotFile { segment: Arc::clone(segment), bytes: segment.id.place(end) }
        });
        LogSnapshot { end: LogPosition(synced), files: files.collect() }
    }

    /// Its end: it contains all before this, as far as the log still had it.
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// Its files, in the order of the log.
    pub fn files(&self) -> &[LogSnapshotFile] {
        &self.files
    }
}

impl LogSnapshotFile {
    /// The name that it has in the log's directory.
    pub fn name(&self) -> &str {
        &self.segment.name
    }

    /// Bytes of the file that belong to the snapshot.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills a buffer with what stands at a place, which must not reach beyond [`bytes`](Self::bytes).
    pub fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> Result<(), LogError> {
        let failed = |source| LogError::io("read", self.name(), source);
        while !into.is_empty() {
            match self.segment.file.read_at(into, at).map_err(failed)? {
                0 => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                read => (into, at) = (&mut into[read..], at + read as u64),
            }
        }
        Ok(())
    }
}

/// The guard while which the log deletes no segments.
pub struct LogRetentionGuard {
    shared: Arc<Shared>,
}

impl LogRetentionGuard {
    pub(crate) fn new(shared: &Arc<Shared>) -> LogRetentionGuard {
        shared.live().holds += 1;
        LogRetentionGuard { shared: Arc::clone(shared) }
    }
}

impl Drop for LogRetentionGuard {
    fn drop(&mut self) {
        self.shared.live().holds -= 1;
        // The segments that were released meanwhile can be deleted now.
        let mut queue = self.shared.queue();
        queue.maintenance.trim = true;
        self.shared.notify_writer(&mut queue);
    }
}
