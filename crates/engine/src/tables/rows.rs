//! Converts rows that the engine made into events.

use bytes::Bytes;
use swiftwater_event::{CheckLimits, EventBatch, check_block};

/// A JSON object a line as a batch, an event each, however long they are.
pub(crate) fn as_events(text: impl Into<Bytes>) -> EventBatch {
    let limits = CheckLimits { event_bytes_max: usize::MAX, depth_max: 512, ..CheckLimits::default() };
    check_block(text.into(), &limits, 1).batch
}
