//! Back-pressure: makes the senders of a stream wait for its table and its views.
//!
//! The log takes events faster than tables and views can, and ingest uses resources that they need to advance. The log takes
//! a burst at full speed, up to `data.feed_lag_ms_max`. A reader that lags further, and whose events no longer fit into its
//! feed, makes the stream *pace* its senders:
//!
//! - While a reader catches up from the log, one event is taken in for each two that the reader was given, so it does catch
//!   up.
//! - A reader that has caught up is fed from memory, which is much faster; senders wait for room in its feed.
//! - Pacing ends when the feeds of all readers are nearly empty and no sender has waited for a second: the senders are then
//!   slower than the readers again.
//!
//! A reader that makes no progress delays no sender: its events wait in the log, which has its own bound.

use swiftwater_event::Millis;

use crate::durable::log_tail::LogTail;

/// A reader that was given nothing for so long makes no progress.
const STALLED_MS: i64 = 10_000;

/// The most events that are taken in at once because a reader went on.
const CREDIT_EVENTS_MAX: i64 = 100_000;

/// Pacing ends when less than this part of each feed is used…
const USED_PART_MIN: usize = 4;
/// …and no sender has waited for so long.
const CALM_MS: i64 = 1_000;

/// The back-pressure of a stream's senders, and the bytes admitted of late.
#[derive(Debug)]
pub(crate) struct Backpressure {
    /// 0: senders never wait.
    lag_ms_max: i64,
    is_pacing: bool,
    /// Time at which a sender last waited.
    waited: Millis,
    /// Bytes that were let in and are not in the feeds yet.
    admitted_bytes: usize,
}

/// The way a reader goes on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    given: u64,
    /// Time at which `given` last changed.
    since: Millis,
    /// Events that may be taken in while it catches up.
    credit: i64,
}

/// A reader: its feed, how it goes on, and about when the oldest event arrived that it was not given.
pub(crate) type ReaderAt<'s> = (&'s LogTail, &'s mut Progress, Option<Millis>);

/// The decision about events that a sender wants to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They may go on. Nothing is counted.
    Free,
    /// They may go on, and count until [`Backpressure::entered`].
    Counted,
    Waits,
}

impl Backpressure {
    pub(crate) fn new(lag_ms_max: u64) -> Backpressure {
        let lag_ms_max = i64::try_from(lag_ms_max).unwrap_or(i64::MAX);
        Backpressure { lag_ms_max, is_pacing: false, waited: 0, admitted_bytes: 0 }
    }

    pub(crate) fn is_pacing(&self) -> bool {
        self.is_pacing
    }

    /// The decision whether so many bytes and events may be stored now. Cost: one step for each reader.
    pub(crate) fn admit(
        &mut self,
        readers: &mut [ReaderAt<'_>],
        now: Millis,
        (bytes, events): (usize, u64),
    ) -> Admission {
        if self.lag_ms_max == 0 {
            return Admission::Free;
        }
        let mut going: Vec<&mut ReaderAt<'_>> = Vec::with_capacity(readers.len());
        for reader in readers {
            let (feed, progress, _) = reader;
            progress.observe(feed.given(), now);
            // One that was given nothing yet has not begun: a view is made from the table's events first.
            if feed.given() > 0 && now - progress.since < STALLED_MS {
                going.push(reader);
            }
        }
        let is_late = |(feed, _, oldest): &ReaderAt<'_>| {
            feed.is_overrun() && oldest.is_some_and(|oldest| now - oldest > self.lag_ms_max)
        };
        if !self.is_pacing {
            if !going.iter().any(|reader| is_late(reader)) {
                return Admission::Free;
            }
            (self.is_pacing, self.waited) = (true, now);
            going.iter_mut().for_each(|(_, progress, _)| progress.credit = 0);
        }
        let used = |feed: &LogTail| feed.bytes_and_max().0 + self.admitted_bytes;
        let is_nearly_empty =
            |feed: &LogTail| !feed.is_overrun() && used(feed) < feed.bytes_and_max().1 / USED_PART_MIN;
        let is_calm = now - self.waited >= CALM_MS || going.is_empty();
        if is_calm && going.iter().all(|(feed, ..)| is_nearly_empty(feed)) {
            self.is_pacing = false;
            return Admission::Free;
        }
        let waits = going.iter().any(|(feed, progress, _)| {
            if feed.is_overrun() {
                return progress.credit <= 0;
            }
            let used = used(feed);
            used > 0 && used + bytes > feed.bytes_and_max().1
        });
        if waits {
            self.waited = now;
            return Admission::Waits;
        }
        let events = i64::try_from(events).unwrap_or(i64::MAX);
        for (_, progress, _) in going {
            progress.credit = progress.credit.saturating_sub(events);
        }
        self.admitted_bytes += bytes;
        Admission::Counted
    }

    /// Bytes that were let in and counted are in the feeds, or will not come.
    pub(crate) fn entered(&mut self, bytes: usize) {
        self.admitted_bytes = self.admitted_bytes.saturating_sub(bytes);
    }
}

impl Progress {
    fn observe(&mut self, given: u64, now: Millis) {
        if given == self.given {
            return;
        }
        let more = i64::try_from(given.saturating_sub(self.given)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(more / 2).min(CREDIT_EVENTS_MAX);
        (self.given, self.since) = (given, now);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, Checker, EventMeta, Offset};
    use swiftwater_log::LogPosition;

    use super::*;
    use crate::durable::{arrivals::Arrivals, log_tail::QueuedBatch};

    const LAG_MS: u64 = 5_000;
    /// A feed has room for so many events, and so many are offered at a time.
    const FEED_EVENTS: u64 = 1_000;
    const BATCH_EVENTS: u64 = 50;
    const EVENT_BYTES: u64 = 10;

    /// A stream with one reader, at one step a millisecond.
    struct Simulated {
        now: Millis,
        next: u64,
        /// Events that the reader took from the log, where it reads that.
        reads_log: Option<u64>,
        feed: LogTail,
        progress: Progress,
        pressure: Backpressure,
        arrivals: Arrivals,
    }

    impl Simulated {
        fn new(lag_ms_max: u64) -> Simulated {
            Simulated {
                now: 0,
                next: 0,
                reads_log: None,
                feed: LogTail::new((FEED_EVENTS * EVENT_BYTES) as usize),
                progress: Progress::default(),
                pressure: Backpressure::new(lag_ms_max),
                arrivals: Arrivals::new(),
            }
        }

        /// `events`, each of 10 bytes of the log.
        fn batch(first: u64, events: u64) -> QueuedBatch {
            let mut checker = Checker::new(CheckLimits::default());
            let text = Bytes::from(b"{\"a\":1000}\n".repeat(events as usize));
            let mut batch = checker.push(text).batch;
            if batch.len() < events as usize {
                batch = swiftwater_event::EventBatch::concat(&[batch, checker.finish().batch]);
            }
            let meta = EventMeta { first: Offset(first), ..EventMeta::default() };
            QueuedBatch {
                batch: batch.with_meta(meta),
                columns: None,
                end: LogPosition((first + events) * EVENT_BYTES),
            }
        }

        /// Offers a batch; returns true if it was taken in.
        fn offer(&mut self) -> bool {
            let oldest = self.arrivals.at(self.feed.given());
            let (start, fed) =
                (LogPosition(self.next * EVENT_BYTES), Simulated::batch(self.next, BATCH_EVENTS));
            let bytes = fed.batch.bytes().len();
            let mut readers = [(&self.feed, &mut self.progress, oldest)];
            match self.pressure.admit(&mut readers, self.now, (bytes, BATCH_EVENTS)) {
                Admission::Waits => return false,
                Admission::Counted => self.pressure.entered(bytes),
                Admission::Free => {}
            }
            self.arrivals.record(self.next, self.now);
            self.feed.mark(self.next, start, fed.end);
            self.feed.push(fed, start);
            self.next += BATCH_EVENTS;
            true
        }

        /// Advances the reader by about so many events, from its feed or from the log.
        fn read(&mut self, from_feed: u64, from_log: u64) {
            self.arrivals.of(self.feed.given());
            if let Some(read) = self.reads_log {
                let until = (read + from_log).min(self.next);
                if until > read {
                    self.feed.record_emitted(&[Simulated::batch(read, until - read)]);
                }
                self.reads_log = Some(until);
                if self.feed.caught_up(LogPosition(until * EVENT_BYTES)).is_none() {
                    self.reads_log = None;
                }
                return;
            }
            // With the line ends between them.
            self.feed.pop_synced(LogPosition(u64::MAX), (from_feed * (EVENT_BYTES + 1)) as usize);
            self.reads_log = self.feed.behind().map(|from| from.0 / EVENT_BYTES);
        }

        fn lag_ms(&self) -> i64 {
            let oldest = self.arrivals.at(self.feed.given()).unwrap_or(self.now);
            if self.feed.given() < self.next { self.now - oldest } else { 0 }
        }
    }

    #[test]
    fn senders_who_are_too_fast_go_at_the_pace_of_the_reader_and_the_lag_stays_bounded() {
        let mut stream = Simulated::new(LAG_MS);
        let (mut lag_max, mut late) = (0, 0);
        for step in 0..80_000 {
            stream.now = step;
            // Twice what the reader can take from memory, and four times what it can read from the log.
            for _ in 0..4 {
                stream.offer();
            }
            let before = stream.feed.given();
            stream.read(100, 50);
            lag_max = lag_max.max(stream.lag_ms());
            late += if step >= 60_000 { stream.feed.given() - before } else { 0 };
        }
        let bound = LAG_MS as i64 * 5;
        assert!(lag_max > LAG_MS as i64 && lag_max < bound, "{lag_max} ms");
        // In the end it is fed from memory: nothing is read from the log.
        assert!(late > 20_000 * 95 && stream.lag_ms() < 500, "{late} events, {} ms", stream.lag_ms());
    }

    #[test]
    fn burst_is_taken_in_at_once_and_senders_who_are_slow_never_wait() {
        let mut stream = Simulated::new(LAG_MS);
        for step in 0..20_000 {
            stream.now = step;
            let offered = if step < 500 { 8 } else { step % 2 };
            (0..offered).for_each(|_| assert!(stream.offer(), "at {step}"));
            stream.read(100, 100);
        }
        assert!(!stream.pressure.is_pacing());
    }

    #[test]
    fn reader_that_does_not_go_on_holds_nobody_up_for_long() {
        let mut stream = Simulated::new(LAG_MS);
        let mut waited = 0;
        for step in 0..60_000 {
            stream.now = step;
            waited += u32::from(!stream.offer());
            if step < 1_000 {
                stream.read(10, 10);
            }
        }
        assert!(waited <= STALLED_MS as u32, "{waited} ms");
        let next = stream.next;
        assert!(stream.offer() && stream.next > next);
    }

    #[test]
    fn nobody_waits_where_the_setting_is_zero() {
        let mut stream = Simulated::new(0);
        for step in 0..30_000 {
            stream.now = step;
            assert!(stream.offer());
            stream.read(10, 10);
        }
    }
}
