//! Batches the events that wait, for one shard to match: joins small batches and cuts where a query begins or a window
//! closes.
//!
//! A batch is cut so that all its events have the same second of arrival, the same index, and no window that is due before
//! the last of them. It has the events that wait when a shard becomes free: one when idle, thousands under load. It grows, up
//! to eight times, with the number of queries that every event must be tested for. Sequence numbers are assigned here; [`crate::merge`] delivers outputs in their order.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_event::{EventBatch, EventMeta, Millis, Offset};
use swiftwater_live::{Index, QueryNumber};

use super::{
    Stream,
    intake::{Intake, Pace},
};

/// A batch may have as many times its usual bytes as there are so many queries that every event is tested for…
const SCANNED_PER_BATCH: usize = 64;

/// …but at most so many times as many.
const BATCH_GROWTH_MAX: usize = 8;

/// A batch to be looked at.
pub(crate) struct Work {
    pub(crate) batch: EventBatch,
    /// Arrival of each event; empty where all have the batch's.
    pub(crate) arrivals: Vec<Millis>,
    /// The arrival of the last event before it; none if there was none.
    pub(crate) before: Option<Millis>,
    pub(crate) sequence: u64,
    pub(crate) index: Arc<Index>,
    /// Events that it stands for.
    pub(crate) events: u64,
    /// Bytes that it took up while it waited.
    pub(crate) bytes: usize,
    /// True if more events wait.
    pub(crate) more: bool,
    /// It is one event, which closes windows.
    pub(crate) closes: bool,
}

/// The outcome of a request for work.
pub(crate) enum NextWork {
    Work(Box<Work>),
    /// Windows are to be closed first, at this time.
    Due(Millis),
    Nothing,
}

impl Stream {
    /// Takes what waits, small batches joined up to `bytes_max`. The caller holds a shard's lock.
    pub(crate) fn next_work(&self, bytes_max: usize) -> NextWork {
        let mut intake = self.intake.lock();
        // Events that follow an idle tick advance time by themselves.
        while intake.waiting.len() > 1 && intake.waiting.front().is_some_and(EventBatch::is_empty) {
            intake.waiting.pop_front();
        }
        let Some(first) = intake.waiting.front() else {
            intake.is_queued = false;
            return NextWork::Nothing;
        };
        let due = self.next_due.load(Ordering::Acquire);
        let arrival = first.meta().arrival;
        if arrival >= due || matches!(intake.pace, Pace::Waits(_)) {
            return NextWork::Due(arrival);
        }
        let closes = intake.pace == Pace::Singly && !first.is_empty();
        let mut is_parted = false;
        if closes {
            intake.pace = Pace::Waits(arrival);
            is_parted = intake.part_first();
        }
        let begins = intake.next_begin();
        let taken = intake.take_batches(bytes_max, due, closes, begins.map(|(begin, _)| begin));
        let Some((batches, bytes)) = taken else { return NextWork::Nothing };
        // The others of its batch still take up what it does.
        let bytes = if is_parted { 0 } else { bytes };
        intake.waiting_bytes -= bytes;
        let (sequence, events, before) = intake.record_taken(&batches);
        let more = !intake.waiting.is_empty();
        if !more {
            intake.is_queued = false;
        }
        let index = match begins {
            None => Arc::clone(&intake.index),
            Some((_, number)) => Arc::new(intake.index.before(number)),
        };
        drop(intake);
        // With nobody asking, nothing is read: no need to copy.
        if batches.len() > 1 && index.is_empty() && !closes {
            return NextWork::Work(Box::new(Work::unread(&batches, events, sequence, index, bytes, more)));
        }
        let (batch, arrivals) = joined(batches);
        NextWork::Work(Box::new(Work {
            batch,
            arrivals,
            before,
            sequence,
            index,
            events,
            bytes,
            more,
            closes,
        }))
    }

    /// Takes all waiting events, if no query reads them and nothing is due: their sender skips them at once, and no shard
    /// wakes up for it.
    pub(crate) fn drain_unread(&self) -> Option<Work> {
        let mut intake = self.intake.lock();
        let latest = intake.waiting.back()?.meta().arrival;
        let is_asked = !intake.index.is_empty() || !intake.begins.is_empty() || intake.pace != Pace::Batches;
        if is_asked || latest >= self.next_due.load(Ordering::Acquire) {
            return None;
        }
        let batches: Vec<EventBatch> = intake.waiting.drain(..).collect();
        let bytes = std::mem::take(&mut intake.waiting_bytes);
        let (sequence, events, _) = intake.record_taken(&batches);
        intake.is_queued = false;
        Some(Work::unread(&batches, events, sequence, Arc::clone(&intake.index), bytes, false))
    }
}

impl Intake {
    /// The next beginning of a query after the first event that waits: one batch must not have events before and after it.
    fn next_begin(&mut self) -> Option<(u64, QueryNumber)> {
        let offset = self.waiting.front()?.meta().first.0;
        while self.begins.pop_front_if(|(begin, _)| *begin <= offset).is_some() {}
        self.begins.front().copied()
    }

    /// Takes the batches that are matched together, and the bytes that they take up: one where `is_single`, else all up to
    /// some `bytes_max` that arrive before `due` and lie before the offset `begin`. None if nothing waits.
    fn take_batches(
        &mut self,
        bytes_max: usize,
        due: Millis,
        is_single: bool,
        begin: Option<u64>,
    ) -> Option<(Vec<EventBatch>, usize)> {
        // The second that an expression may ask for is one for a whole batch.
        let second = self.waiting.front()?.meta().arrival.div_euclid(1000);
        // A large cost per batch is spread over more events.
        let bytes_max = bytes_max * (self.index.scanned() / SCANNED_PER_BATCH).clamp(1, BATCH_GROWTH_MAX);
        let mut batches = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            let size = next.bytes().len();
            let EventMeta { arrival, sent_micros, first, .. } = *next.meta();
            let is_alone = sent_micros != 0;
            let is_apart = is_single
                || is_alone
                || arrival >= due
                || arrival.div_euclid(1000) != second
                || begin.is_some_and(|begin| first.0 >= begin);
            if !batches.is_empty() && (bytes + size > bytes_max || is_apart) {
                break;
            }
            bytes += size;
            batches.extend(self.waiting.pop_front());
            if is_alone {
                break;
            }
        }
        Some((batches, bytes))
    }

    /// Numbers batches that were taken, and counts their events. Returns their sequence number, how many events they have, and the
    /// arrival of the last event before them.
    fn record_taken(&mut self, batches: &[EventBatch]) -> (u64, u64, Option<Millis>) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let events = batches.iter().map(|batch| batch.len() as u64).sum();
        self.next_taken += events;
        let before = self.taken_arrival;
        let last = batches.iter().rev().find(|batch| !batch.is_empty());
        self.taken_arrival = last.map(|batch| batch.meta().arrival).or(before);
        (sequence, events, before)
    }

    /// Makes the first waiting event a batch of its own; returns true if its batch had others. These keep what the
    /// batch takes up, which all share.
    fn part_first(&mut self) -> bool {
        let Some(batch) = self.waiting.front().filter(|batch| batch.len() > 1) else { return false };
        let rows: Vec<u32> = (1..batch.len() as u32).collect();
        let (meta, alone) = (*batch.meta(), EventBatch::concat(&[batch.select(&[0])]));
        let others = batch.select(&rows).with_meta(EventMeta { first: Offset(meta.first.0 + 1), ..meta });
        self.waiting.pop_front();
        self.waiting.push_front(others);
        self.waiting.push_front(alone.with_meta(meta));
        true
    }
}

/// Batches as one, and the arrival of each event where not all are the same.
fn joined(mut batches: Vec<EventBatch>) -> (EventBatch, Vec<Millis>) {
    if batches.len() == 1 {
        return (batches.swap_remove(0), Vec::new());
    }
    let arrival = |batch: &EventBatch| batch.meta().arrival;
    let arrivals = if batches.first().map(arrival) == batches.last().map(arrival) {
        Vec::new()
    } else {
        batches.iter().flat_map(|batch| std::iter::repeat_n(arrival(batch), batch.len())).collect()
    };
    (EventBatch::concat(&batches), arrivals)
}

impl Work {
    /// Batches that nobody asks for: only their count matters.
    fn unread(
        batches: &[EventBatch],
        events: u64,
        sequence: u64,
        index: Arc<Index>,
        bytes: usize,
        more: bool,
    ) -> Work {
        let mut batch = batches[0].clone();
        let first = batch.meta().first.0;
        // The first batch stands for all: its meta must lead to the position after the last.
        let meta = EventMeta { first: Offset(first + events - batch.len() as u64), ..*batch.meta() };
        batch = batch.with_meta(meta);
        Work {
            batch,
            arrivals: Vec::new(),
            before: None,
            sequence,
            index,
            events,
            bytes,
            more,
            closes: false,
        }
    }

    /// The offset after the batch.
    pub(crate) fn position(&self) -> u64 {
        self.batch.meta().first.0 + self.batch.len() as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails a test")]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, StreamName, check_block};

    use super::*;
    use crate::AppendOptions;

    #[test]
    fn events_taken_one_by_one_give_back_what_their_batch_took_up() {
        let stream = Stream::new(StreamName::new("s").unwrap(), 1);
        let text = Bytes::from_static(b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        let batch = check_block(text, &CheckLimits::default(), 1).batch;
        let appended = batch.bytes().len();
        stream.append(batch, 0, &AppendOptions::default());
        let mut taken = Vec::new();
        loop {
            stream.set_pace(true);
            match stream.next_work(1 << 20) {
                NextWork::Work(work) => taken.push((work.events, work.bytes)),
                NextWork::Nothing => break,
                NextWork::Due(at) => panic!("due at {at}"),
            }
        }
        assert_eq!(taken, [(1, 0), (1, 0), (1, appended)]);
        assert_eq!(stream.status(0).pending_bytes, 0);
    }
}
