//! The events of a sink's stream, in order: from its feed and the log, and from the stream's table what the log no longer has.
//!
//! The log is retained for sinks up to `sinks.log_bytes_max`. Events that the stream's retention has deleted before they were read
//! are counted.

use std::sync::Arc;

use swiftwater_catalog::kind::sink::SinkEntry;
use swiftwater_event::{EventBatch, EventMeta, Offset};
use swiftwater_log::{LogError, LogReader};

use super::{deliver::DeliverError, event_query::EventQuery};
use crate::{
    EngineError, RuntimeError,
    durable::{
        backfill::{NullFields, PAST_EVENTS, first_past, past_events},
        feeds::number_of_sink,
        history::History,
        stored_stream::Reader,
        table_writer::TableWriterError,
    },
    objects::views::Next,
};

/// The events of a stream from an offset on.
pub(super) struct EventSource {
    pub(super) query: Arc<EventQuery>,
    /// Its number among the readers of the stream.
    feed: u32,
    /// The log has the next event and those after it, and the feed was set to it.
    is_resumed: bool,
    log: Option<LogReader>,
    /// The offset after the last event that was read.
    next: u64,
    /// The number of events that were deleted before they were read.
    lost: u64,
}

impl EventSource {
    pub(super) fn new(query: Arc<EventQuery>, entry: &SinkEntry) -> EventSource {
        let (feed, next) = (number_of_sink(entry.id), entry.delivered.offset());
        EventSource { query, feed, is_resumed: false, log: None, next, lost: 0 }
    }

    /// The offset after the last event that was read.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of events since the last call that were deleted before they were read.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The log need not be retained for events before an offset.
    pub(super) fn release(&self, offset: u64) {
        self.query.stored.view_committed(self.feed, offset);
    }

    /// Waits for the next events. There may be none where events were deleted. Nothing is lost where it is left off.
    pub(super) async fn read(&mut self, history: &History) -> Result<Vec<EventBatch>, DeliverError> {
        let stored = Arc::clone(&self.query.stored);
        if !self.is_resumed {
            match stored.resume_sink(self.feed, self.next) {
                Ok(()) => self.is_resumed = true,
                Err(first) => return self.read_table(history, first).await,
            }
        }
        let reader = (Reader::View(self.feed), self.next);
        let next = match history.next_events(&stored, reader, &mut self.log).await {
            // So far behind that the log gave up the next events since: they are in the table.
            Err(TableWriterError::Log(LogError::Trimmed { .. })) => {
                (self.is_resumed, self.log) = (false, None);
                return Ok(Vec::new());
            }
            next => next?,
        };
        match next {
            Next::Events(fed) => Ok(fed.into_iter().filter_map(|fed| self.next_of(fed.batch)).collect()),
            // The sink was dropped.
            Next::Lost(_) if !stored.has_view(self.feed) => std::future::pending().await,
            Next::Lost(end) => {
                self.pass_lost(end);
                Ok(Vec::new())
            }
        }
    }

    /// Reads some events before `first` from the stream's table.
    async fn read_table(&mut self, history: &History, first: u64) -> Result<Vec<EventBatch>, DeliverError> {
        let stored = Arc::clone(&self.query.stored);
        let until = first.min(self.next.saturating_add(PAST_EVENTS));
        let shared = history.shared()?;
        let sql = shared.sql.get().ok_or(EngineError::NoHistory)?;
        let mut progress = stored.opened().await.progress();
        stored.request_flush(until);
        progress
            .wait_for(|progress| progress.appended.0 >= until)
            .await
            .map_err(|_| EngineError::Runtime(RuntimeError::ShuttingDown))?;
        let read = past_events(sql, &stored, (self.next, until), NullFields::LeftOut).await?;
        let until = match read.is_empty() {
            true => first_past(sql, &stored, (until, first)).await?.unwrap_or(first),
            false => until,
        };
        let read = read.into_iter().filter_map(|batch| self.next_of(batch)).collect();
        self.pass_lost(until);
        Ok(read)
    }

    /// The events of a batch that were not read before.
    fn next_of(&mut self, batch: EventBatch) -> Option<EventBatch> {
        let first = batch.meta().first.0;
        let end = first + batch.len() as u64;
        if end <= self.next {
            return None;
        }
        self.pass_lost(first);
        let from = (self.next - first) as usize;
        self.next = end;
        Some(part(&batch, from, batch.len()))
    }

    /// Goes on at an offset, if that is further: the events before it are deleted.
    fn pass_lost(&mut self, offset: u64) {
        if offset <= self.next {
            return;
        }
        let (stream, first) = (self.query.stored.name.as_str(), self.next);
        tracing::warn!(stream, first, end = offset, "events were deleted before a sink has read them");
        self.lost += offset - self.next;
        self.next = offset;
    }
}

/// Some rows of a batch, with their offsets.
pub(super) fn part(batch: &EventBatch, from: usize, to: usize) -> EventBatch {
    if from == 0 && to == batch.len() {
        return batch.clone();
    }
    let rows: Vec<u32> = (from as u32..to as u32).collect();
    let first = Offset(batch.meta().first.0 + from as u64);
    batch.select(&rows).with_meta(EventMeta { first, ..*batch.meta() })
}
