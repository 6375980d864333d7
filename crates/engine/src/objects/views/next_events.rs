//! Reads the next synced events of a stream, for a view or for durable queries: from memory, or again from the log where they
//! are there no longer.

use swiftwater_log::LogReader;

use crate::durable::{
    history::{History, run_blocking},
    log_tail::QueuedBatch,
    stored_stream::{Reader, StoredStream},
    table_writer::{ROWS_BYTES, TableWriterError, read_some},
};

/// The next events of a stream.
pub(crate) enum Next {
    Events(Vec<QueuedBatch>),
    /// The events before this offset are lost: they were counted once, and a part of the log is gone.
    Lost(u64),
}

impl History {
    /// The next events of a view, or of durable queries, which have all before `position`, in order; waits until there are any.
    /// Nothing is lost where it is left off.
    pub(crate) async fn next_events(
        &self,
        stored: &StoredStream,
        (reader, position): (Reader, u64),
        again: &mut Option<LogReader>,
    ) -> Result<Next, TableWriterError> {
        loop {
            let fed = stored.fed.notified();
            tokio::pin!(fed);
            fed.as_mut().enable();
            if let Some(log) = again {
                let (events, is_end) = run_blocking(usize::MAX, || read_some(log, stored.id))?;
                stored.record_emitted(reader, &events);
                let left = if is_end { stored.caught_up(reader, log.position()) } else { None };
                if is_end && left.is_none() {
                    *again = None;
                }
                if !events.is_empty() {
                    return Ok(Next::Events(events));
                }
                if let Some(last) = left {
                    self.log.synced(last).await?;
                }
                continue;
            }
            // An event counted here is in the feed when that is read, or left out of it to be read from the log, or
            // lost.
            let counted = stored.next();
            let taken = stored.next_fed(reader, self.log.horizons().synced, ROWS_BYTES);
            if !taken.is_empty() {
                return Ok(Next::Events(taken));
            }
            if let Some(from) = stored.behind(reader) {
                *again = Some(self.log.read(from));
            } else if let Some(end) = stored.waits_for(reader) {
                self.log.synced(end).await?;
            } else if position < counted {
                return Ok(Next::Lost(counted));
            } else {
                fed.await;
            }
        }
    }
}
