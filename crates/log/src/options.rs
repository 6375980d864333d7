//! The log's settings.

use std::time::Duration;

use crate::{CompressionPolicy, LogError, LogPosition};

/// The way the log writes, and what it may take.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Bytes of frames in a segment; what is trimmed goes by whole segments. 64 MiB.
    pub segment_bytes: u64,
    /// The most bytes that are written before they are synced, unless one record alone has more. 8 MiB.
    pub group_bytes_max: u64,
    /// The time a group that is smaller than `group_bytes_max` is waited for to grow. Nothing: whatever comes while a
    /// group is synced makes the next.
    pub linger: Duration,
    /// The most bytes that are appended and not synced, or reserved for it. 64 MiB.
    pub queue_bytes_max: u64,
    /// The most bytes of one record, as packed. 32 MiB.
    pub record_bytes_max: u64,
    /// The most bytes of all files of the log, beyond which nothing is taken. 16 GiB.
    pub bytes_max: u64,
    /// Bytes that are left free on the disk. 512 MiB.
    pub free_bytes_min: u64,
    /// The number of trimmed segments that are kept to be used again. 8.
    pub spare_segments_max: usize,
    /// The rule for compressing payloads: as needed.
    pub compressing: CompressionPolicy,
    /// Go on behind frames that were synced once and are damaged or missing now, instead of refusing to open.
    pub skip_corrupt: bool,
    /// The position up to which the log is known, from elsewhere, to have been synced: a log that ends before it has
    /// lost a part. 0. 0.
    pub known_end: LogPosition,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            group_bytes_max: 8 << 20,
            linger: Duration::ZERO,
            queue_bytes_max: 64 << 20,
            record_bytes_max: 32 << 20,
            bytes_max: 16 << 30,
            free_bytes_min: 512 << 20,
            spare_segments_max: 8,
            compressing: CompressionPolicy::AsNeeded,
            skip_corrupt: false,
            known_end: LogPosition(0),
        }
    }
}

impl LogOptions {
    /// The largest record that fits into a segment of so many bytes, with its frame.
    pub fn record_bytes_in(segment_bytes: u64) -> u64 {
        segment_bytes.saturating_sub(crate::frame::OVERHEAD_BYTES_MAX)
    }

    /// The largest segments of which a log of so many bytes may have the two that it needs: one that is written, and one that
    /// is still read.
    pub fn segment_bytes_in(bytes_max: u64) -> u64 {
        (bytes_max / 2).saturating_sub(crate::segment::FRAMES_START)
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        let at_least = |setting, value, least| {
            if value < least { Err(LogError::Setting { setting, value, least }) } else { Ok(()) }
        };
        at_least("record_bytes_max", self.record_bytes_max, 1024)?;
        at_least("group_bytes_max", self.group_bytes_max, 1)?;
        // A frame goes into one segment, and so does a group; a group is one frame, or has at most its bytes.
        let frame_bytes_max = self.record_bytes_max + crate::frame::OVERHEAD_BYTES_MAX;
        at_least("segment_bytes", self.segment_bytes, frame_bytes_max.max(self.group_bytes_max))?;
        at_least("queue_bytes_max", self.queue_bytes_max, self.record_bytes_max)?;
        // One that is written and one that is still read, or nothing could ever be trimmed.
        at_least("bytes_max", self.bytes_max, 2 * (self.segment_bytes + crate::segment::FRAMES_START))
    }
}
