//! The tail: rows that wait in memory for their commit, readable by SQL, bounded by bytes.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use tokio::time::Instant;

use crate::layout::bytes_of;

/// Batches in the order of their offsets.
#[derive(Debug, Default)]
pub(crate) struct PendingBatches {
    batches: VecDeque<(RecordBatch, u64, usize)>,
    bytes: usize,
    rows: usize,
    /// Arrival of the oldest of them.
    since: Option<Instant>,
}

/// The batches of one commit.
#[derive(Debug, Clone)]
pub(crate) struct CommitBatch {
    pub(crate) batches: Vec<RecordBatch>,
    /// The offset after the last row.
    pub(crate) end: u64,
    /// Bytes of the batches in memory.
    pub(crate) bytes: usize,
}

impl PendingBatches {
    pub(crate) fn push(&mut self, batch: RecordBatch, end: u64, now: Instant) {
        let bytes = bytes_of(&batch);
        self.bytes += bytes;
        self.rows += batch.num_rows();
        self.since.get_or_insert(now);
        self.batches.push_back((batch, end, bytes));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    pub(crate) fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.batches.iter().map(|(batch, ..)| batch)
    }

    /// The oldest batches, up to some bytes; one at least. `None` if there is nothing.
    pub(crate) fn cut(&self, bytes_max: usize) -> Option<CommitBatch> {
        let (mut batches, mut end, mut taken) = (Vec::new(), None, 0);
        for (batch, batch_end, bytes) in &self.batches {
            if end.is_some() && taken + bytes > bytes_max {
                break;
            }
            batches.push(batch.clone());
            (end, taken) = (Some(*batch_end), taken + bytes);
        }
        Some(CommitBatch { batches, end: end?, bytes: taken })
    }

    /// Forgets the oldest batches, which are committed now.
    pub(crate) fn forget(&mut self, count: usize, now: Instant) {
        for (batch, _, bytes) in self.batches.drain(..count.min(self.batches.len())) {
            self.bytes -= bytes;
            self.rows -= batch.num_rows();
        }
        self.since = if self.batches.is_empty() { None } else { Some(now) };
    }
}
