//! The reading end of a standing query.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::{
    Emit, EndReason, QueryId, QueryMeta,
    query::handle::QueryHandle,
    query::linger::FOR_GOOD,
    shared::Shared,
    subscriber_queue::{QueuedEmit, Reader},
};

/// The reading end of a standing query. Dropping it ends the query, unless it is detached.
pub struct Subscription {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: Arc<QueryHandle>,
    pub(crate) reader: Reader,
}

impl Subscription {
    /// The query's metadata, known from the start.
    pub fn query(&self) -> &Arc<QueryMeta> {
        &self.handle.meta
    }

    /// The next emit; `None` after the last one, and once a newer reader has taken over. May be cancelled without losing an emit.
    pub async fn next(&mut self) -> Option<Emit> {
        let waiting = self.handle.mailbox.next(self.reader, &self.shared.totals.subscriber_bytes).await?;
        Some(self.whole(waiting))
    }

    /// The next emit if there is one now.
    pub fn try_next(&mut self) -> Option<Emit> {
        let waiting = self
            .handle
            .mailbox
            .try_next(self.reader, &self.shared.totals.subscriber_bytes)
            .unwrap_or_default()?;
        Some(self.whole(waiting))
    }

    /// Does the same as [`Subscription::next`], for a thread that may wait.
    pub fn next_blocking(&mut self) -> Option<Emit> {
        let waiting = self.handle.mailbox.next_blocking(self.reader, &self.shared.totals.subscriber_bytes)?;
        Some(self.whole(waiting))
    }

    fn whole(&self, waiting: QueuedEmit) -> Emit {
        waiting.into_emit(&self.handle.meta, &self.handle.stream)
    }

    /// Ends the query, if this is its newest reader; what is left can still be read. A query that outlives its readers for a
    /// stated time is forgotten once this reader leaves. It sees the events appended before, as [`crate::Runtime::end_query`]
    /// says.
    pub fn end(&self, reason: EndReason) {
        if !self.handle.mailbox.is_newest(self.reader) {
            return;
        }
        if self.handle.linger_ms.load(Ordering::Acquire) != FOR_GOOD {
            self.handle.linger_ms.store(0, Ordering::Release);
        }
        if let Some(stream) = self.shared.stream_of(&self.handle) {
            stream.wait_for_appended(Duration::from_millis(self.shared.config.query_end_wait_ms));
        }
        self.shared.end(&self.handle.meta.id, reason);
    }

    /// True if a newer reader has taken over.
    pub fn is_replaced(&self) -> bool {
        !self.handle.mailbox.is_newest(self.reader)
    }

    /// Detaches the query from this reader, though it was not submitted as detached.
    pub fn detach(self) -> QueryId {
        self.handle.mailbox.retain_read();
        self.handle.linger_ms.store(FOR_GOOD, Ordering::Release);
        self.handle.is_detached.store(true, Ordering::Release);
        self.handle.meta.id
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let is_newest = self.handle.mailbox.release(self.reader);
        let id = &self.handle.meta.id;
        if self.handle.is_detached.load(Ordering::Acquire) {
            if !is_newest {
                return;
            }
            if self.handle.mailbox.is_done_with() {
                self.shared.forget(id);
            } else if !self.shared.queries.read().contains_key(id) {
                // It was forgotten while it was read: nobody asks for its emits again.
                self.handle.mailbox.clear(&self.shared.totals.subscriber_bytes);
            } else {
                self.shared.begin_lingering(&self.handle);
            }
        } else {
            self.handle.mailbox.clear(&self.shared.totals.subscriber_bytes);
            self.shared.ask_to_end(*id, EndReason::Client);
        }
    }
}
