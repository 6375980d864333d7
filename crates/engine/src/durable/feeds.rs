//! The feeds of a stored stream: each reader (the table, a view, durable queries, a sink) reads synced events in order, from
//! memory or, where it is behind, from the log.
//!
//! A sink delays no sender, and the log is retained for it only up to a bound. Beyond, it reads the stream's table.

use super::stored_stream::{FOLLOWER, Reader, StoredStream, ViewFeed};
use crate::durable::{
    backpressure::Progress,
    log_tail::{LogTail, QueuedBatch},
};
use swiftwater_log::LogPosition;

/// The first number of a sink among the views that read a stream. Views count up from 0, and never reach it.
const SINKS: u32 = 1 << 31;

/// The number of a sink among the views that read a stream.
pub(crate) fn number_of_sink(sink: u32) -> u32 {
    SINKS + sink % (FOLLOWER - SINKS)
}

impl ViewFeed {
    /// True if senders may have to wait for it: it is no sink.
    pub(super) fn may_delay(&self) -> bool {
        !(SINKS..FOLLOWER).contains(&self.view)
    }

    /// True if it is behind, and senders may have to wait for it.
    pub(super) fn is_delaying(&self) -> bool {
        self.may_delay() && self.feed.is_overrun()
    }
}

impl StoredStream {
    /// The place in the log before which the stream, its views and its sinks need nothing; none where they need nothing at all.
    /// Sinks need nothing before `sinks_from`.
    pub(crate) fn retained_from(&self, sinks_from: LogPosition) -> Option<LogPosition> {
        let committed = self.committed();
        let mut state = self.state.lock();
        let next = state.next;
        let of_view = |view: &mut ViewFeed| {
            let kept = match view.may_delay() {
                true => 0,
                false => view.feed.first_behind(sinks_from).unwrap_or(next),
            };
            // The last mark before an event has that event, too.
            let first = if kept > view.committed { kept } else { view.committed };
            view.feed.retained_from(first, next)
        };
        let of_views = state.views.iter_mut().filter_map(of_view).min();
        state.feed.retained_from(committed, next).into_iter().chain(of_views).min()
    }

    /// Makes a sink read the events from an offset on: from the log, and then from its feed. Fails with the offset of the first event
    /// that the log is known to have if the log does not have all of them.
    pub(crate) fn resume_sink(&self, view: u32, offset: u64) -> Result<(), u64> {
        let mut state = self.state.lock();
        let next = state.next;
        let Some(ViewFeed { feed, .. }) = state.views.iter_mut().find(|of| of.view == view) else {
            return Ok(());
        };
        let place = feed.place_of(offset);
        if offset < next && place.is_none() {
            return Err(feed.first_marked().unwrap_or(next));
        }
        feed.restart_at(place.filter(|_| offset < next));
        Ok(())
    }

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

    /// True if it is among the readers.
    pub(crate) fn has_view(&self, view: u32) -> bool {
        self.state.lock().views.iter().any(|of| of.view == view)
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
