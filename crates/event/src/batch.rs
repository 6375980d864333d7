//! An event batch: the bytes of many events in one buffer, with their boundaries, times and positions.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{Millis, Offset, structure::Marks};

/// Events whose structure and UTF-8 were checked ([`crate::Checker`] makes them): each is one JSON object.
///
/// Cloning is cheap: the bytes, the boundaries and the marks of structure are shared. Memory: the bytes, a quarter of them
/// for the marks, and 8 bytes an event.
#[derive(Debug, Clone)]
pub struct EventBatch {
    bytes: Bytes,
    /// Start and end of each event in `bytes`; in order, not overlapping.
    spans: Arc<[(u32, u32)]>,
    marks: Arc<Marks>,
    meta: EventMeta,
}

/// The properties that all events of a batch share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventMeta {
    /// Arrival of the batch.
    pub arrival: Millis,
    /// The time at which its sender says it was sent, in microseconds since 1970; 0: not stated.
    pub sent_micros: i64,
    /// Time at which its last byte was read, in microseconds since 1970.
    pub read_micros: i64,
    /// The offset of the first event in its stream; the others follow without a gap.
    pub first: Offset,
}

impl EventBatch {
    /// Every span must hold one checked JSON object, and the marks be theirs.
    pub(crate) fn new(bytes: Bytes, spans: Vec<(u32, u32)>, marks: Marks) -> EventBatch {
        debug_assert!(spans.iter().all(|&(start, end)| start < end && end as usize <= bytes.len()));
        EventBatch { bytes, spans: spans.into(), marks: Arc::new(marks), meta: EventMeta::default() }
    }

    /// No events.
    pub(crate) fn empty() -> EventBatch {
        EventBatch::new(Bytes::new(), Vec::new(), Marks::default())
    }

    /// The most bytes that one batch can hold: boundaries are 32-bit.
    pub const BYTES_MAX: usize = 1 << 30;

    /// The same events with other times and positions.
    #[must_use]
    pub fn with_meta(mut self, meta: EventMeta) -> EventBatch {
        self.meta = meta;
        self
    }

    /// Events in the batch.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there is no event.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The text of event `row`, as it arrived, without space around it.
    pub fn event(&self, row: usize) -> &[u8] {
        &self.bytes[self.span(row)]
    }

    /// The range of event `row` in [`EventBatch::bytes`].
    pub fn span(&self, row: usize) -> Range<usize> {
        let (start, end) = self.spans[row];
        start as usize..end as usize
    }

    pub(crate) fn spans(&self) -> &[(u32, u32)] {
        &self.spans
    }

    /// The buffer that holds all events, with whatever stood between them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes of the events themselves, without what stands between them.
    pub fn event_bytes(&self) -> usize {
        self.spans.iter().map(|&(start, end)| (end - start) as usize).sum()
    }

    /// The structure of the events.
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Times and positions.
    pub fn meta(&self) -> &EventMeta {
        &self.meta
    }

    /// Selects events by row, sharing the buffer; times are unchanged, and offsets do not apply.
    #[must_use]
    pub fn select(&self, rows: &[u32]) -> EventBatch {
        let spans = rows.iter().map(|&row| self.spans[row as usize]).collect();
        EventBatch { spans, ..self.clone() }
    }

    /// Joins batches into one buffer, with the times and positions of the first: the events of the others must follow
    /// it without a gap. Copies every event once; for many small batches, not for large ones.
    pub fn concat(batches: &[EventBatch]) -> EventBatch {
        let mut builder = EventBatchBuilder::default();
        for batch in batches {
            for row in 0..batch.len() {
                builder.push_checked(batch.event(row));
            }
        }
        builder.finish().with_meta(batches.first().map_or_else(EventMeta::default, |batch| batch.meta))
    }
}

/// Collects events that are known to be checked (taken from other batches) into a new batch.
#[derive(Debug, Default)]
pub struct EventBatchBuilder {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
}

impl EventBatchBuilder {
    fn push_checked(&mut self, event: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(event);
        self.spans.push((start, self.bytes.len() as u32));
        self.bytes.push(b'\n');
    }

    /// Adds event `row` of `batch`.
    pub fn push(&mut self, batch: &EventBatch, row: usize) {
        self.push_checked(batch.event(row));
    }

    /// Events so far.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there is none yet.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The batch.
    pub fn finish(self) -> EventBatch {
        let marks = Marks::of(&self.bytes, &self.spans);
        EventBatch::new(self.bytes.into(), self.spans, marks)
    }
}
