//! The feeds of a stored stream: each reader (the table, a view, durable queries) reads synced events in order, from memory or,
//! where it is behind, from the log.

use super::stored_stream::{Reader, StoredStream, ViewFeed};
use crate::durable::{
    backpressure::Progress,
    log_tail::{LogTail, QueuedBatch},
};
use swiftwater_log::LogPosition;

impl StoredStream {
    /// Takes what is synced out of a reader's feed.
    pub(crate) fn next_fed(&self, reader: Reader, synced: LogPosition, bytes_max: usize) -> Vec<QueuedBatch> {
        let taken = {
            let mut state = self.state.lock();
            state.feed_of(reader).map(|feed| feed.pop_synced(synced, bytes_max)).unwrap_or_default()
        };
        self.went_on.notify_waiters();
        taken
    }

    /// A reader was given these, which it read from the log.
    pub(crate) fn record_emitted(&self, reader: Reader, events: &[QueuedBatch]) {
        if let Some(feed) = self.state.lock().feed_of(reader) {
            feed.record_emitted(events);
        }
        self.went_on.notify_waiters();
    }

    /// The position from which the log is read, because the feed left events out.
    pub(crate) fn behind(&self, reader: Reader) -> Option<LogPosition> {
        self.state.lock().feed_of(reader)?.behind()
    }

    /// Records that the log was read up to here; returns the end of the stream's last events, if that was not all.
    pub(crate) fn caught_up(&self, reader: Reader, read: LogPosition) -> Option<LogPosition> {
        let left = self.state.lock().feed_of(reader)?.caught_up(read);
        self.went_on.notify_waiters();
        left
    }

    /// The end in the log of the first events in the feed.
    pub(crate) fn waits_for(&self, reader: Reader) -> Option<LogPosition> {
        self.state.lock().feed_of(reader)?.waits_for()
    }

    /// Makes a view have the events from the next one on; answers the offset of that.
    pub(crate) fn add_view(&self, view: u32, feed_bytes_max: usize) -> u64 {
        let mut state = self.state.lock();
        let next = state.next;
        let (feed, progress) = (LogTail::new(feed_bytes_max), Progress::default());
        state.views.push(ViewFeed { view, feed, progress, committed: next });
        next
    }

    /// Makes a view read the events from an offset on from the log again.
    pub(crate) fn reread_view(&self, view: u32, position: u64) {
        let mut state = self.state.lock();
        let next = state.next;
        let of = state.views.iter_mut().find(|of| of.view == view);
        if let Some(ViewFeed { feed, .. }) = of {
            let from = if position < next { feed.place_of(position) } else { None };
            feed.restart_at(from);
        }
    }

    /// A view needs nothing more.
    pub(crate) fn remove_view(&self, view: u32) {
        self.state.lock().views.retain(|of| of.view != view);
    }

    /// A view needs no event before this offset any more.
    pub(crate) fn view_committed(&self, view: u32, committed: u64) {
        let mut state = self.state.lock();
        state.views.iter_mut().filter(|of| of.view == view).for_each(|of| of.committed = committed);
    }

    /// Durable queries need the events from an offset on, and have been given those before `given`. The events that they
    /// need are retained in the log from this place on.
    pub(crate) fn retain_for(&self, view: u32, (needed, given): (u64, u64), place: LogPosition) {
        let mut state = self.state.lock();
        let next = state.next;
        if let Some(of) = state.views.iter_mut().find(|of| of.view == view) {
            let kept = of.feed.first_behind(place).unwrap_or(next);
            of.committed = needed.max(kept).min(given);
        }
    }

    /// The offset of the first event that the log still has for a view, where that is not the one that it needs.
    pub(crate) fn view_lacks_up_to(&self, view: u32) -> Option<u64> {
        let mut state = self.state.lock();
        let next = state.next;
        let of = state.views.iter_mut().find(|of| of.view == view)?;
        let first = of.feed.first_marked().unwrap_or(next);
        (of.committed < next && first > of.committed).then_some(first)
    }

    /// Makes the table read the events that it lacks from the log again: those taken out of the feed did not get there.
    pub(crate) fn reread_feed(&self) {
        let committed = self.committed();
        let mut state = self.state.lock();
        let next = state.next;
        let from = state.feed.retained_from(committed, next);
        state.feed.restart_at(from);
    }
}
