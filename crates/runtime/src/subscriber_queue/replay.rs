//! Replays emits: a reader may ask for those after a number, also after a restart, when a durable query makes them again.
//!
//! The queue retains what was read until newer emits need the room. After a restart the last 8 emits that were read can be read
//! again, or 64 if records are numbered; the [`Frontier`] of a checkpoint records them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{QueueState, queued_emit::QueuedEmit};

/// The numbering of emits, by which a reader asks for those after a number, also after a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Each has the next number.
    Emits,
    /// An emit has the number of its last record: which records come together is a matter of chance.
    Records,
}

impl Numbering {
    /// The count of numbers that an emit of so many records takes.
    fn width(self, records: u64) -> u64 {
        match self {
            Numbering::Emits => 1,
            Numbering::Records => records.max(1),
        }
    }

    /// The number of read emits that can be read again after a restart.
    fn read_again(self) -> usize {
        match self {
            Numbering::Emits => 8,
            Numbering::Records => 64,
        }
    }
}

/// The numbers up to which a query's emits need not be kept, and up to which they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Frontier {
    /// Emits up to this number cannot be asked for any more.
    pub(crate) gone: u64,
    /// The number up to which they were read, or lost.
    pub(crate) read: u64,
    /// Records lost so far.
    pub(crate) dropped: u64,
}

/// A query whose emits may be made again.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) numbering: Numbering,
    pub(super) frontier: Frontier,
    /// The number of the last emit that was put in.
    pub(super) last: u64,
    /// The reader has what comes up to this number.
    pub(super) has_up_to: u64,
}

impl QueueState {
    /// Returns the emits after a number to the queue, and removes those up to it.
    pub(super) fn rewind_to(&mut self, after: u64, total_bytes: &AtomicU64) {
        let keeps = self.keeps;
        let numbering = self.resumed.as_ref().map(|resumed| resumed.numbering);
        if let Some(resumed) = &mut self.resumed {
            // The record of its position may be older than the repeated emits.
            resumed.has_up_to = after;
        }
        let Some(queue) = &mut self.queue else { return };
        while let Some(emit) = queue.taken.pop_back_if(|emit| emit.number > after) {
            queue.emits.push_front(emit);
        }
        while keeps && let Some(emit) = queue.emits.pop_front_if(|emit| emit.number <= after) {
            queue.taken.push_back(emit);
        }
        if numbering == Some(Numbering::Records)
            && let Some(first) = queue.emits.front_mut()
        {
            let before = first.bytes();
            first.cut_up_to(after);
            queue.bytes -= before - first.bytes();
            total_bytes.fetch_sub((before - first.bytes()) as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn frontier(&self) -> Frontier {
        let Some(resumed) = &self.resumed else { return Frontier::default() };
        let before =
            |emit: &QueuedEmit| emit.number - resumed.numbering.width(emit.records.count).min(emit.number);
        let (taken, unread) = match &self.queue {
            None => (None, None),
            Some(queue) => {
                let again = queue.taken.len().saturating_sub(resumed.numbering.read_again());
                (queue.taken.get(again).map(before), queue.emits.front().map(before))
            }
        };
        let read = unread.unwrap_or(resumed.last).max(resumed.frontier.read);
        // Until all is made again that was there, what is to come is not known.
        let gone = match resumed.last < resumed.frontier.read {
            true => resumed.frontier.gone,
            false => taken.unwrap_or(read).min(read),
        };
        Frontier { gone: gone.max(resumed.frontier.gone), read, dropped: self.dropped }
    }

    /// The part of a replayed emit that the reader still needs: what was gone is left out, and what was read before is put among
    /// what was read.
    pub(super) fn replay_emit(
        &mut self,
        mut emit: QueuedEmit,
        total_bytes: &AtomicU64,
    ) -> Option<QueuedEmit> {
        let Some(resumed) = &mut self.resumed else { return Some(emit) };
        resumed.last = resumed.last.max(emit.number);
        let gone = resumed.frontier.gone;
        let read = resumed.frontier.read.max(resumed.has_up_to);
        let is_last = emit.finished().is_some();
        if emit.number <= gone && !is_last {
            return None;
        }
        if resumed.numbering == Numbering::Records {
            emit.cut_up_to(gone);
        }
        let first = emit.number - resumed.numbering.width(emit.records.count).min(emit.number);
        if first >= read || is_last && emit.number <= read {
            return Some(emit);
        }
        let (again, rest) = match emit.number <= read {
            true => (emit, None),
            // An emit of records that were read and such that were not.
            false => {
                let mut again = emit.clone();
                again.records = again.records.first(read - first);
                again.number = read;
                again.rest = None;
                emit.cut_up_to(read);
                (again, Some(emit))
            }
        };
        total_bytes.fetch_add(again.bytes() as u64, Ordering::Relaxed);
        let queue = self.queue.get_or_insert_default();
        queue.bytes += again.bytes();
        queue.taken.push_back(again);
        rest
    }
}
