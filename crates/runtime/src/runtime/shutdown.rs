//! Shuts a runtime down: no more events, last results, end of the threads, in this order.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tracing::info;

use super::Runtime;
use crate::{EndReason, query::handle::QueryHandle, shared::TickerRequest};

/// The least time that shutdown waits for its threads, however short the grace period is.
const THREADS_GRACE: Duration = Duration::from_secs(1);

impl Runtime {
    /// Waits until every event appended so far was looked at.
    pub async fn drained(&self) {
        self.shared.pending.empty().await;
    }

    /// Takes no more events and queries, looks at what waits, gives every query its final result, and stops; after `grace`
    /// it no longer waits for events to be looked at. A second caller waits for the same end; if the first is dropped
    /// half-way, the second continues.
    pub async fn shutdown(&self, grace: Duration) {
        self.shutdown_with(|| self.stop(grace)).await;
    }

    /// Shuts down as [`Runtime::shutdown`] does, by the steps of the caller that has added the durable parts: among them
    /// [`Runtime::close_intake`], [`Runtime::end_all`] and [`Runtime::stop_threads`], in this order.
    pub async fn shutdown_with<F: Future<Output = ()>>(&self, stop: impl FnOnce() -> F) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.stopped.get_or_init(stop).await;
    }

    async fn stop(&self, grace: Duration) {
        self.close_intake(grace).await;
        self.end_all();
        self.stop_threads(grace).await;
    }

    /// Takes no more events, and looks at what waits. A first part of [`Runtime::shutdown`].
    pub async fn close_intake(&self, grace: Duration) {
        self.shared.pending.close();
        if tokio::time::timeout(grace, self.drained()).await.is_err() {
            info!("events were still waiting when the grace period was over");
        }
    }

    /// Sends every query its final result; durable ones remain as they are. The part of [`Runtime::shutdown`] that follows
    /// [`Runtime::close_intake`].
    pub fn end_all(&self) {
        let handles: Vec<Arc<QueryHandle>> = self.shared.queries.read().values().cloned().collect();
        for handle in &handles {
            match handle.following {
                Some(_) => handle.mailbox.close(),
                None => _ = self.shared.end(&handle.meta.id, EndReason::Shutdown),
            }
        }
    }

    /// The last part of [`Runtime::shutdown`]: shards, ticker and index builder end.
    pub async fn stop_threads(&self, grace: Duration) {
        self.shared.close_line();
        // The ticker may have stopped on its own only when every sender is gone, and this is one.
        let _ = self.shared.errands.send(TickerRequest::Stop);
        let threads = std::mem::take(&mut *self.threads.lock());
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        // They have nothing more to do.
        let _ = tokio::time::timeout(grace.max(THREADS_GRACE), joined).await;
    }
}
