//! A bounded queue of events between the log and one reader of a stream: its table or a view.
//!
//! Events are queued as they are appended, and are released to the reader when the log has synced them. Events that do not
//! fit are not queued. The reader reads them from the log once the queue is empty, until it has caught up with the appends.
//! Then the queue is used again. A start after a crash takes the same path.
//! Knows log positions and batches of events, nothing of tables; takes no lock and waits for nothing.

use std::collections::VecDeque;

use crate::durable::columns::AcceptedColumns;
use swiftwater_event::EventBatch;
use swiftwater_log::LogPosition;

/// Events on their way to the table, or to a view.
#[derive(Debug, Clone)]
pub(crate) struct QueuedBatch {
    /// The events with their offsets and arrival.
    pub(crate) batch: EventBatch,
    /// Decoded, where that was done for the whole batch when it was accepted.
    pub(crate) columns: Option<AcceptedColumns>,
    /// They are in the log before here.
    pub(crate) end: LogPosition,
}

impl QueuedBatch {
    pub(crate) fn first(&self) -> u64 {
        self.batch.meta().first.0
    }

    /// The offset after the last of them.
    pub(crate) fn next(&self) -> u64 {
        self.first() + self.batch.len() as u64
    }
}

/// Batches that follow one another as one.
pub(crate) fn joined(fed: &[QueuedBatch]) -> EventBatch {
    match fed {
        [one] => one.batch.clone(),
        _ => {
            let batches: Vec<EventBatch> = fed.iter().map(|fed| fed.batch.clone()).collect();
            EventBatch::concat(&batches)
        }
    }
}

/// The line of one stream.
#[derive(Debug, Clone)]
pub(crate) struct LogTail {
    line: VecDeque<QueuedBatch>,
    bytes: usize,
    bytes_max: usize,
    /// The position from which the log is read once the queue is empty.
    behind: Option<LogPosition>,
    /// The end of the last events of the stream in the log.
    last: LogPosition,
    /// The offset after the last event that was given to the reader; 0 before the first.
    given: u64,
    /// Places of some events in the log: offset of the first event, and place. Ascending; those that are committed are
    /// dropped when asked for.
    marks: VecDeque<(u64, LogPosition)>,
}

/// Marks stand so many bytes of the log apart.
const MARK_BYTES: u64 = 1 << 20;

impl LogTail {
    pub(crate) fn new(bytes_max: usize) -> LogTail {
        LogTail {
            line: VecDeque::new(),
            bytes: 0,
            bytes_max,
            behind: None,
            last: LogPosition::default(),
            given: 0,
            marks: VecDeque::new(),
        }
    }

    /// Records the place of events in the log: `start` is at or before their beginning.
    pub(crate) fn mark(&mut self, first: u64, start: LogPosition, end: LogPosition) {
        if self.marks.back().is_none_or(|(_, last)| start.0 >= last.0 + MARK_BYTES) {
            self.marks.push_back((first, start));
        }
        self.last = end;
    }

    /// Adds events to the feed, as far as there is room. They were marked.
    pub(crate) fn push(&mut self, fed: QueuedBatch, start: LogPosition) {
        if self.behind.is_some() {
            return;
        }
        let bytes = fed.batch.bytes().len();
        if self.bytes > 0 && self.bytes + bytes > self.bytes_max {
            self.behind = Some(start);
            return;
        }
        self.bytes += bytes;
        self.line.push_back(fed);
    }

    /// Removes and returns synced events, in order, up to about so many bytes.
    pub(crate) fn pop_synced(&mut self, synced: LogPosition, bytes_max: usize) -> Vec<QueuedBatch> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.line.front()
            && next.end <= synced
            && (taken.is_empty() || bytes + next.batch.bytes().len() <= bytes_max)
            && let Some(next) = self.line.pop_front()
        {
            bytes += next.batch.bytes().len();
            taken.push(next);
        }
        self.bytes -= bytes;
        self.record_emitted(&taken);
        taken
    }

    /// These were given to the reader.
    pub(crate) fn record_emitted(&mut self, events: &[QueuedBatch]) {
        self.given = events.last().map_or(self.given, QueuedBatch::next);
    }

    /// The offset after the last event that was given to the reader; 0 before the first.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Events were left out, and the reader has not caught up yet.
    pub(crate) fn is_overrun(&self) -> bool {
        self.behind.is_some()
    }

    /// The bytes of the line, and the most that it may have.
    pub(crate) fn bytes_and_max(&self) -> (usize, usize) {
        (self.bytes, self.bytes_max)
    }

    /// True if all that came was taken, and nothing is to be read from the log.
    pub(crate) fn is_idle(&self) -> bool {
        self.line.is_empty() && self.behind.is_none()
    }

    /// The position from which the log is read, if the queue is empty because events were left out.
    pub(crate) fn behind(&self) -> Option<LogPosition> {
        self.behind.filter(|_| self.line.is_empty())
    }

    /// Removes the marked events from this place on: they are read from the log again.
    pub(crate) fn fall_behind(&mut self, from: LogPosition) {
        self.behind = Some(from);
    }

    /// A place in the log at or before the event at an offset, and after as few others as may be.
    pub(crate) fn place_of(&self, offset: u64) -> Option<LogPosition> {
        let marks = self.marks.iter().take_while(|(first, _)| *first <= offset);
        marks.last().map(|(_, start)| *start)
    }

    /// The offset of the first event that is marked.
    pub(crate) fn first_marked(&self) -> Option<u64> {
        self.marks.front().map(|(first, _)| *first)
    }

    /// The offset of the first event that is marked at or behind a place in the log.
    pub(crate) fn first_behind(&self, place: LogPosition) -> Option<u64> {
        self.marks.iter().find(|(_, start)| *start >= place).map(|(first, _)| *first)
    }

    /// Drops all queued events; the reader reads them from the log again, from this position on, if there is one.
    pub(crate) fn restart_at(&mut self, from: Option<LogPosition>) {
        (self.line, self.bytes, self.behind) = (VecDeque::new(), 0, from);
    }

    /// A reader has read the log up to here. If that was all, the feed is used again; otherwise returns the end of the
    /// last events.
    pub(crate) fn caught_up(&mut self, read: LogPosition) -> Option<LogPosition> {
        let left = (read < self.last).then_some(self.last);
        self.behind = left.map(|_| read);
        left
    }

    /// The end in the log of the first queued events.
    pub(crate) fn waits_for(&self) -> Option<LogPosition> {
        self.line.front().map(|fed| fed.end)
    }

    /// The place in the log before which the stream needs nothing, where its table has committed what is before this
    /// offset; none where it needs nothing at all. `next` is the offset of the next event to come.
    pub(crate) fn retained_from(&mut self, committed: u64, next: u64) -> Option<LogPosition> {
        if committed >= next {
            self.marks.clear();
            return None;
        }
        while self.marks.get(1).is_some_and(|(first, _)| *first <= committed) {
            self.marks.pop_front();
        }
        self.marks.front().map(|(_, start)| *start)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, Checker, EventMeta, Offset};

    use super::*;

    /// One event of 10 bytes.
    fn queued(first: u64, end: u64) -> QueuedBatch {
        let mut checker = Checker::new(CheckLimits::default());
        let batch = checker.push(Bytes::from_static(b"{\"a\":1000}")).batch;
        let meta = EventMeta { first: Offset(first), ..EventMeta::default() };
        QueuedBatch { batch: batch.with_meta(meta), columns: None, end: LogPosition(end) }
    }

    fn firsts(feed: &mut LogTail, synced: u64, bytes_max: usize) -> Vec<u64> {
        feed.pop_synced(LogPosition(synced), bytes_max).iter().map(QueuedBatch::first).collect()
    }

    #[test]
    fn only_what_is_synced_goes_on() {
        let mut feed = LogTail::new(1000);
        for event in 0..3 {
            feed.push(queued(event, 10 * (event + 1)), LogPosition(10 * event));
        }
        assert_eq!(firsts(&mut feed, 9, 1000), [0u64; 0]);
        assert_eq!(firsts(&mut feed, 20, 1000), [0, 1]);
        assert_eq!(firsts(&mut feed, 30, 1000), [2]);
        assert_eq!(feed.bytes, 0);
    }

    #[test]
    fn what_does_not_fit_is_read_again_from_where_it_begins() {
        let mut feed = LogTail::new(20);
        for event in 0..5 {
            let (start, end) = (LogPosition(10 * event), LogPosition(10 * (event + 1)));
            feed.mark(event, start, end);
            feed.push(queued(event, end.0), start);
        }
        assert_eq!(feed.behind(), None, "the line comes first");
        assert_eq!(firsts(&mut feed, 100, 15), [0]);
        assert_eq!(firsts(&mut feed, 100, 15), [1]);
        assert_eq!(feed.behind(), Some(LogPosition(20)));
        assert_eq!(feed.caught_up(LogPosition(40)), Some(LogPosition(50)));
        assert_eq!(feed.behind(), Some(LogPosition(40)));
        assert_eq!(feed.caught_up(LogPosition(50)), None);
        feed.push(queued(5, 60), LogPosition(50));
        assert_eq!(firsts(&mut feed, 60, 15), [5]);
    }

    #[test]
    fn what_was_taken_in_vain_is_read_again_with_all_behind_it() {
        let mut feed = LogTail::new(1000);
        for event in 0..3 {
            let (start, end) = (LogPosition(10 * event), LogPosition(10 * (event + 1)));
            feed.mark(event, start, end);
            feed.push(queued(event, end.0), start);
        }
        assert_eq!(firsts(&mut feed, 30, 10), [0]);
        let from = feed.retained_from(0, 3);
        feed.restart_at(from);
        assert_eq!((feed.behind(), feed.bytes), (Some(LogPosition(0)), 0));
        assert_eq!(firsts(&mut feed, 30, 1000), [0u64; 0]);
        assert_eq!(feed.caught_up(LogPosition(30)), None);
        feed.push(queued(3, 40), LogPosition(30));
        assert_eq!(firsts(&mut feed, 40, 1000), [3]);
    }

    #[test]
    fn log_is_needed_from_the_first_event_that_is_not_committed() {
        let mut feed = LogTail::new(20);
        assert_eq!(feed.retained_from(0, 0), None);
        for mark in 0..4 {
            let start = mark * MARK_BYTES;
            feed.mark(mark * 10, LogPosition(start), LogPosition(start + MARK_BYTES));
        }
        assert_eq!(feed.retained_from(0, 40), Some(LogPosition(0)));
        assert_eq!(feed.retained_from(9, 40), Some(LogPosition(0)));
        assert_eq!(feed.retained_from(25, 40), Some(LogPosition(2 * MARK_BYTES)));
        assert_eq!(feed.retained_from(40, 40), None);
    }
}
