//! Admits requests to a stored stream: a request waits while the table is too far behind.

use super::stored_stream::{LOOKS_APART, State, StoredStream, ViewFeed};
use crate::durable::{
    backpressure::{Admission, ReaderAt},
    log_tail::LogTail,
};
use std::sync::atomic::Ordering;
use swiftwater_event::{Clock, Millis};

/// Leave to store events, which readers make room for.
#[derive(Debug)]
pub(crate) struct Admitted<'s> {
    stored: &'s StoredStream,
    bytes: usize,
}

impl StoredStream {
    /// Waits until the stream's readers let so many bytes and events in; in the order of those who wait. They count as on their
    /// way until what this answers is dropped. It does not wait for readers that do not go on, nor once the stream is dropped.
    pub(crate) async fn admit(&self, clock: &dyn Clock, (bytes, events): (usize, u64)) -> Admitted<'_> {
        let mut admitted = Admitted { stored: self, bytes: 0 };
        if !self.may_wait.load(Ordering::Relaxed) {
            return admitted;
        }
        let _turn = self.turn.lock().await;
        let mut has_waited = false;
        loop {
            let went_on = self.went_on.notified();
            tokio::pin!(went_on);
            went_on.as_mut().enable();
            match self.try_admit(clock.now(), (bytes, events)) {
                Admission::Free => return admitted,
                Admission::Counted => {
                    admitted.bytes = bytes;
                    return admitted;
                }
                Admission::Waits => {}
            }
            if !std::mem::replace(&mut has_waited, true) {
                self.held_back.fetch_add(1, Ordering::Relaxed);
            }
            tokio::select! {
                () = went_on => {}
                // A reader that does not go on tells nobody.
                () = tokio::time::sleep(LOOKS_APART) => {}
                () = self.ended() => return admitted,
            }
        }
    }

    fn try_admit(&self, now: Millis, request: (usize, u64)) -> Admission {
        // The table goes on, as far as that is known.
        let goes_on = self.table().is_some_and(|table| !table.is_failing());
        let mut state = self.state.lock();
        let State { feed, progress, views, pressure, arrivals, .. } = &mut *state;
        let at = |feed: &LogTail| arrivals.at(feed.given());
        let views = views.iter_mut().filter(|view| view.may_delay());
        let of_views = views.map(|ViewFeed { feed, progress, .. }| -> ReaderAt<'_> {
            let oldest = at(feed);
            (feed, progress, oldest)
        });
        let oldest = at(feed);
        let of_table: Option<ReaderAt<'_>> = goes_on.then_some((&*feed, progress, oldest));
        let mut readers: Vec<ReaderAt<'_>> = of_views.chain(of_table).collect();
        let admission = pressure.admit(&mut readers, now, request);
        let is_overrun = readers.iter().any(|(feed, ..)| feed.is_overrun());
        if !pressure.is_pacing() && !is_overrun {
            self.may_wait.store(false, Ordering::Relaxed);
        }
        admission
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.stored.state.lock().pressure.entered(self.bytes);
            self.stored.went_on.notify_waiters();
        }
    }
}
