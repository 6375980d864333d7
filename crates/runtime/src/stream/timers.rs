//! The timers of a stream: when a window closes or a query ends next, and when an idle stream advances event time.
//!
//! Reads no clock: the caller passes `now`. Closing itself is the work of the ticker.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_event::{EventBatch, EventMeta, Millis, Offset};

use super::{Stream, intake::Pace};
use crate::merge::Merge;

impl Stream {
    pub(crate) fn set_next_due(&self, merge: &Merge) {
        self.next_due.store(merge.agenda.first().map_or(i64::MAX, |(due, _)| *due), Ordering::Release);
    }

    /// Time of the next close of a window or end of a query; `i64::MAX`: never.
    pub fn next_due(&self) -> Millis {
        self.next_due.load(Ordering::Acquire)
    }

    /// The time up to which windows may be closed at `now`: events that wait belong to the windows of their arrival,
    /// however long they wait.
    pub(crate) fn settle(&self, now: Millis) -> Millis {
        let mut intake = self.intake.lock();
        let until = intake.waiting.front().map_or(now, |oldest| oldest.meta().arrival.min(now));
        intake.settled = intake.settled.max(until);
        until
    }

    /// Arrival of the event that was taken alone, while the windows that it closes are still open; with the offset after
    /// it. For the holder of `tick`.
    pub(crate) fn closed_by_event(&self) -> Option<(Millis, u64)> {
        let intake = self.intake.lock();
        match intake.pace {
            Pace::Waits(at) => Some((at, intake.next_taken)),
            _ => None,
        }
    }

    /// Sets the pace of batches. `lags`: there are queries of which each event closes a window, and none has yet. The caller holds
    /// `tick`.
    pub(crate) fn set_pace(&self, lags: bool) {
        self.intake.lock().pace = if lags { Pace::Singly } else { Pace::Batches };
    }

    /// True if the stream may be idle at `now` for a query, whatever waits. Cheap.
    pub fn may_be_idle(&self, now: Millis) -> bool {
        let intake = self.intake.lock();
        let idle_after = intake.index.idle_after_ms();
        idle_after.is_some_and(|idle_after| now >= intake.newest_arrival.saturating_add_unsigned(idle_after))
    }

    /// The time up to `now` at which the idle stream closes something; none if nothing is due, the stream is not idle, or
    /// events wait.
    pub fn idle_due(&self, now: Millis) -> Option<Millis> {
        let (sequence, index, idle_from) = {
            let intake = self.intake.lock();
            let idle_after = intake.index.idle_after_ms()?;
            let idle_from = intake.taken_arrival?.saturating_add_unsigned(idle_after);
            if !intake.waiting.is_empty() || now < idle_from {
                return None;
            }
            (intake.next_sequence, Arc::clone(&intake.index), idle_from)
        };
        let mut known = self.idle_due.lock();
        let due = match *known {
            Some((at, due)) if at == sequence => due,
            _ => {
                let merge = self.merge.lock();
                if !merge.has_delivered(sequence) {
                    return None;
                }
                let due = merge.idle_due(index.idle_numbers());
                *known = Some((sequence, due));
                due
            }
        };
        due.map(|due| due.max(idle_from)).filter(|due| *due <= now)
    }

    /// Appends an idle tick: a batch without events, which advances event time. Without effect if events wait, as they
    /// advance it themselves. Returns whether the stream must be put in the line of those with work.
    pub fn advance_idle(&self, at: Millis) -> bool {
        let mut intake = self.intake.lock();
        if !intake.waiting.is_empty() {
            return false;
        }
        // No event arrives before that any more.
        intake.settled = intake.settled.max(at);
        let (first, read_micros) = (Offset(intake.next_offset), at.saturating_mul(1000));
        let meta = EventMeta { arrival: at, sent_micros: 0, read_micros, first };
        intake.waiting.push_back(EventBatch::concat(&[]).with_meta(meta));
        !std::mem::replace(&mut intake.is_queued, true)
    }
}
