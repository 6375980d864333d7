//! Appends events to a stream: assigns offsets and arrival times, and puts the events in the intake.
//!
//! Offsets and arrival times never decrease, whatever the machine's clock does. No limit is checked here: the byte budget
//! bounds the bytes of all events that wait, and is entered before.

use std::{convert::Infallible, sync::atomic::Ordering};

use swiftwater_event::{EventBatch, EventMeta, Millis, Offset};

use super::Stream;
use crate::{AppendOptions, RecentEvent};

impl Stream {
    /// Appends events; returns the offset after them, and true if the stream must be put in the queue of those
    /// with work.
    pub fn append(&self, batch: EventBatch, now_micros: i64, options: &AppendOptions) -> (u64, bool) {
        let stored = self.append_with(batch, now_micros, options, |_, _| Ok::<_, Infallible>((true, ())));
        let Ok((offset, (), is_new_in_line)) = stored;
        (offset, is_new_in_line)
    }

    /// Appends as [`Stream::append`] does, once `store` has stored them: it receives the offset of the first and their
    /// arrival, under the lock that assigns these, and returns true if they are to be appended at all.
    pub fn append_with<T, E>(
        &self,
        batch: EventBatch,
        now_micros: i64,
        options: &AppendOptions,
        store: impl FnOnce(u64, Millis) -> Result<(bool, T), E>,
    ) -> Result<(u64, T, bool), E> {
        self.fields.sample(&batch, now_micros.div_euclid(1000));
        let recent = self.recent.as_ref().filter(|recent| recent.is_due(now_micros));
        let to_copy = recent.map(|recent| (recent, batch.clone()));
        let mut intake = self.intake.lock();
        let first = Offset(intake.next_offset);
        // Arrival never goes back, even where the machine's clock does.
        let arrival = now_micros.div_euclid(1000).max(intake.newest_arrival).max(intake.settled);
        let (is_taken, stored) = store(first.0, arrival)?;
        if !is_taken {
            return Ok((intake.next_offset, stored, false));
        }
        intake.newest_arrival = arrival;
        intake.has_events = true;
        intake.sample = options.source_sample.or(intake.sample);
        intake.next_offset += batch.len() as u64;
        intake.bytes += batch.event_bytes() as u64;
        intake.waiting_bytes += batch.bytes().len();
        intake.waiting.push_back(batch.with_meta(EventMeta {
            arrival,
            sent_micros: options.sent_micros.unwrap_or(0),
            read_micros: now_micros,
            first,
        }));
        let (next, is_new_in_line) = (intake.next_offset, !std::mem::replace(&mut intake.is_queued, true));
        drop(intake);
        if let Some((recent, batch)) = to_copy {
            recent.keep(&batch, (first.0, arrival), now_micros);
        }
        Ok((next, stored, is_new_in_line))
    }

    /// The sample of its newest events, oldest first, and the number of events that arrived since the first of them,
    /// itself counted.
    pub(crate) fn recent(&self) -> (Vec<RecentEvent>, u64) {
        let events = self.recent.as_ref().map_or_else(Vec::new, |recent| recent.events());
        let next = self.intake.lock().next_offset;
        let arrived = events.first().map_or(0, |oldest| next.saturating_sub(oldest.offset));
        (events, arrived)
    }

    /// Forgets the sample of its newest events.
    pub fn forget_recent(&self) {
        if let Some(recent) = &self.recent {
            let next = self.intake.lock().next_offset;
            recent.forget(next);
        }
    }

    /// Appends events that have their offsets and arrivals; returns true if the stream must be put in the queue of
    /// those with work. For a stream that follows another.
    pub fn feed(&self, batch: EventBatch, sample: Option<f64>) -> bool {
        let mut intake = self.intake.lock();
        intake.newest_arrival = intake.newest_arrival.max(batch.meta().arrival);
        intake.has_events = true;
        intake.sample = sample.or(intake.sample);
        intake.next_offset = batch.meta().first.0 + batch.len() as u64;
        intake.bytes += batch.event_bytes() as u64;
        intake.waiting_bytes += batch.bytes().len();
        intake.waiting.push_back(batch);
        !std::mem::replace(&mut intake.is_queued, true)
    }

    /// Sets the offset of a stream that has had no event in this process. `begin` is given the offset of the next event,
    /// under the lock that gives these out.
    pub fn start_at<T>(&self, offset: u64, begin: impl FnOnce(u64) -> T) -> T {
        let mut merge = self.merge.lock();
        let mut intake = self.intake.lock();
        if intake.next_offset < offset && intake.waiting.is_empty() && intake.next_taken == intake.next_offset
        {
            (intake.next_offset, intake.next_taken, merge.position) = (offset, offset, offset);
            intake.has_events |= offset > 0;
        }
        begin(intake.next_offset.max(offset))
    }

    /// Continues at an offset without the events before it; no event waits.
    pub fn skip_to(&self, offset: u64) {
        let mut merge = self.merge.lock();
        let mut intake = self.intake.lock();
        (intake.next_offset, intake.next_taken, merge.position) = (offset, offset, offset);
        intake.has_events |= offset > 0;
    }

    /// Changes what is declared of the stream while no event is appended to it.
    pub fn between_appends<T>(&self, change: impl FnOnce() -> T) -> T {
        let _none_is_appended = self.intake.lock();
        change()
    }

    /// Ensures that no later event arrives before `at`: returns the offset of the next one, and its earliest arrival.
    pub fn mark(&self, at: Millis) -> (u64, Millis) {
        let mut intake = self.intake.lock();
        intake.settled = intake.settled.max(at);
        (intake.next_offset, intake.settled.max(intake.newest_arrival))
    }

    /// True if all events before an offset are all that there are; then none arrives before `at` any more.
    pub fn is_at(&self, offset: u64, at: Millis) -> bool {
        let mut intake = self.intake.lock();
        let is_at = intake.next_offset == offset;
        if is_at {
            intake.settled = intake.settled.max(at);
        }
        is_at
    }

    /// Sets the number of messages that its source deleted before they were read.
    pub fn set_lost(&self, count: u64) {
        self.lost.store(count, Ordering::Relaxed);
    }

    /// Counts events that were refused.
    pub fn count_rejected(&self, count: u64) {
        self.rejected.fetch_add(count, Ordering::Relaxed);
    }
}
