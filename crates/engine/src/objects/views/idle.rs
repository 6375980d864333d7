//! Closes windows of views whose streams are idle.
//!
//! Before a view of an idle stream advances its event time, it writes a tick into the log and waits until that is
//! synced. A restart gives no event an arrival before a tick (unless the machine's clock is behind by more than a day).
//! So a window that was delivered to a sink stays closed, and a rebuild of the view closes it before the same event.
//! Event time is committed beside the position. Live queries need no tick, as they do not outlive the process. Durable
//! queries replay each tick at the time at which it is due.

use std::{sync::Weak, time::Duration};

use swiftwater_event::{Backoff, Millis};

use super::view::View;
use crate::durable::history::History;

/// Pauses between looks at the clock by a view of an idle stream; they grow while a tick cannot be written.
const IDLE_LOOKS: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(10));

impl History {
    /// Waits until an idle stream closes a window of the view. Returns the arrival that event time advances to, after a tick with
    /// it is durable in the log: no event can arrive before it, whatever happens. A tick that cannot be written is retried.
    /// Cancellation is safe.
    pub(super) async fn idle_close(&self, view: &View) -> Millis {
        let mut backoff = IDLE_LOOKS;
        let mut pause = backoff.pause();
        loop {
            match view.idle_due() {
                Some(due) if due <= self.clock.now() => {
                    pause = backoff.pause();
                    if let Some(until) = self.write_idle_tick(view).await {
                        return until;
                    }
                }
                Some(_) => {
                    backoff.reset();
                    pause = backoff.pause();
                }
                // The next event changes that.
                None => std::future::pending().await,
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Writes a tick with the present time into the log, if the view has all events before it. Returns its time when it is
    /// durable.
    async fn write_idle_tick(&self, view: &View) -> Option<Millis> {
        let shared = self.engine.get().and_then(Weak::upgrade)?;
        let source = shared.stream(&view.stream).ok()?;
        let (next, at) = source.mark(self.clock.now());
        drop(shared);
        if next != view.at().position {
            return None;
        }
        let end = self.tick_where_there_is_room(at).await.ok()?;
        self.log.synced(end).await.ok()?;
        Some(at)
    }
}
