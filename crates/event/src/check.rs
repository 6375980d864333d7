//! Splits bytes into events and checks each one's structure and UTF-8, whoever asks or not.

use bytes::Bytes;

use crate::EventBatch;

/// What is refused, and how much is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    /// The longest event, in bytes.
    pub event_bytes_max: usize,
    /// The deepest nesting of lists and objects, the event itself counted.
    pub depth_max: usize,
    /// How many rejections are described; all are counted.
    pub rejections_described_max: usize,
}

impl Default for CheckLimits {
    fn default() -> Self {
        CheckLimits { event_bytes_max: 1 << 20, depth_max: 128, rejections_described_max: 10 }
    }
}

/// One event that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Line of the fault in the whole input, from 1.
    pub line: u64,
    /// Column of the fault, in bytes from 1.
    pub column: u64,
    /// What is wrong there.
    pub message: String,
    /// Whether it was refused for its size.
    pub oversize: bool,
}

/// What became of a piece of input.
#[derive(Debug)]
pub struct Checked {
    /// The good events, in order.
    pub batch: EventBatch,
    /// How many were refused.
    pub rejected: u64,
    /// The first of them.
    pub rejections: Vec<Rejection>,
}
