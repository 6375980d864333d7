//! Writes events from the log to the tables: one task for each stored stream.
//!
//! The task takes the synced events of the stream's feed; events that the feed left out, it reads from the log. The order is
//! that of the offsets. A table that cannot take rows makes the task wait. The feed is bounded, so only the log grows.
//! Everything that fails is retried from the log.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_catalog::{Object, ObjectKind};
use swiftwater_event::{Backoff, CheckLimits, Checker, EventBatch, EventMeta, Offset};
use swiftwater_live::columns::InferredColumn;
use swiftwater_log::{EventsHead, Head, LogError, LogPosition, LogReader, StreamId};
use swiftwater_store::{StoreError, Table};
use tokio::task::JoinError;

use crate::{
    durable::{
        columns::{AcceptedColumns, rows},
        history::{History, run_blocking},
        log_tail::{QueuedBatch, joined},
        stored_stream::{Reader, StoredStream},
    },
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
};

/// Bytes of events that are made into rows at once.
pub(crate) const ROWS_BYTES: usize = 4 << 20;

/// Pauses between attempts.
pub(crate) const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(30));

/// Bytes below which the next events are gathered for [`GATHER_TIME`], or until a caller waits for them.
const GATHERED_BYTES: usize = 256 << 10;
const GATHER_TIME: Duration = Duration::from_millis(20);

/// The reason why a stream's events do not reach its table, or a view.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableWriterError {
    #[error("the log cannot be read")]
    Log(#[from] LogError),
    #[error("the table accepts no rows")]
    Store(#[from] StoreError),
    #[error("the record at position {0} of the log is not an event")]
    NoEvents(u64),
    #[error("the log could not be read to its end")]
    Task(#[from] JoinError),
}

/// The task of a stored stream writes its events into its table.
impl Maintained for StoredStream {
    type Error = TableWriterError;

    fn object(&self) -> Object {
        ObjectKind::Stream.named(self.name.as_str())
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Table
    }

    fn drop_signal(&self) -> &DropSignal {
        StoredStream::drop_signal(self)
    }

    /// The position for its table, and for the views, durable queries and sinks that read it, which have their feeds here.
    fn retains(&self, history: &History) -> Option<LogPosition> {
        self.retained_from(history.retained_for_sinks())
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), TableWriterError> {
        match history.feed_table(self).await? {}
    }

    fn failed(&self, _: &Arc<History>, error: TableWriterError) -> NextAttempt {
        // Before the lock below: each of both is taken under no other.
        self.reread_feed();
        let appended = self.table().map(Table::appended);
        let mut retry = self.retry.lock();
        if retry.0 != appended || retry.1.failures() == 0 {
            *retry = (appended, RETRY);
            let error = &error as &dyn std::error::Error;
            tracing::error!(stream = %self.name, error, "events cannot be written to their table; the server retries");
        }
        NextAttempt::After(retry.1.pause())
    }
}

impl History {
    async fn feed_table(&self, stored: &Arc<StoredStream>) -> Result<Infallible, TableWriterError> {
        let table = stored.opened().await;
        loop {
            let fed = stored.fed.notified();
            tokio::pin!(fed);
            fed.as_mut().enable();
            let synced = self.log.horizons().synced;
            let taken = stored.next_fed(Reader::Table, synced, ROWS_BYTES);
            if !taken.is_empty() {
                let bytes: usize = taken.iter().map(|fed| fed.batch.bytes().len()).sum();
                self.append_rows(stored, table, taken).await?;
                if bytes < GATHERED_BYTES {
                    // Few events cost nearly as much as many: the next ones go on together, unless somebody waits for them.
                    let _ = tokio::time::timeout(GATHER_TIME, stored.awaited.notified()).await;
                }
            } else if let Some(from) = stored.behind(Reader::Table) {
                table.set_behind(true);
                let read = self.read_again(stored, table, from).await;
                table.set_behind(false);
                read?;
            } else if let Some(end) = stored.waits_for(Reader::Table) {
                self.log.synced(end).await?;
            } else if let Some(end) = stored.lost_up_to(table.appended().0) {
                let first = table.appended().0;
                tracing::error!(
                    stream = %stored.name, first, end,
                    "acknowledged events are lost with a part of the log; the table continues after them"
                );
                table.skip_to(Offset(end)).await?;
            } else {
                fed.await;
            }
        }
    }

    /// Reads the log again from a place on, until the feed can be used again.
    async fn read_again(
        &self,
        stored: &Arc<StoredStream>,
        table: &Table,
        from: LogPosition,
    ) -> Result<(), TableWriterError> {
        // The next events are read and checked while the earlier ones are written.
        let read = |mut reader: LogReader| {
            let id = stored.id;
            tokio::task::spawn_blocking(move || {
                read_some(&mut reader, id).map(|(fed, is_end)| (fed, is_end, reader))
            })
        };
        let mut reading = read(self.log.read(from));
        loop {
            let (fed, is_end, reader) = reading.await??;
            let next = if is_end { Err(reader) } else { Ok(read(reader)) };
            stored.record_emitted(Reader::Table, &fed);
            self.append_rows(stored, table, fed).await?;
            let reader = match next {
                Ok(next) => {
                    reading = next;
                    continue;
                }
                Err(reader) => reader,
            };
            let Some(last) = stored.caught_up(Reader::Table, reader.position()) else { return Ok(()) };
            // Events appended since are on their way to the disk.
            self.log.synced(last).await?;
            reading = read(reader);
        }
    }

    async fn append_rows(
        &self,
        stored: &Arc<StoredStream>,
        table: &Table,
        fed: Vec<QueuedBatch>,
    ) -> Result<(), TableWriterError> {
        // A default of NOW is the arrival of the batch that is read.
        for run in runs(fed, stored.declared().has_now()) {
            self.append_run(stored, table, run).await?;
        }
        Ok(())
    }

    /// Appends the rows of one run of events together.
    async fn append_run(
        &self,
        stored: &Arc<StoredStream>,
        table: &Table,
        mut fed: Vec<QueuedBatch>,
    ) -> Result<(), TableWriterError> {
        let Some(first) = fed.first().map(QueuedBatch::first) else { return Ok(()) };
        let appended = table.appended().0;
        // A stream that was not stored at first begins behind what was not.
        if first > appended && appended > 0 {
            tracing::error!(
                stream = %stored.name, first = appended, end = first,
                "acknowledged events are lost with a part of the log; the table continues after them"
            );
        }
        let bytes = fed.iter().map(|fed| fed.batch.bytes().len()).sum();
        let kept: Vec<AcceptedColumns> = fed.iter_mut().filter_map(|fed| fed.columns.take()).collect();
        let arrivals: Vec<(i64, usize)> =
            fed.iter().map(|fed| (fed.batch.meta().arrival, fed.batch.len())).collect();
        let (batch, columns, found) = run_blocking(bytes, || match AcceptedColumns::together(kept) {
            // If more than one batch is decoded already, no text of an event is needed.
            Some(columns) => (fed[0].batch.clone(), columns, None),
            None => {
                let batch = joined(&fed);
                // If the arrival is needed, all events of a run have the same one.
                let (columns, found) = stored.declared().columns.read(&batch, fed[0].batch.meta().arrival);
                (batch, columns, found)
            }
        });
        if let Some(found) = found {
            self.find(stored, table, found).await;
        }
        let rows = run_blocking(bytes, || rows(first, &arrivals, &batch, columns));
        Ok(table.append(rows).await?)
    }

    /// Writes down that columns were found, however often that has to be tried: they are found once.
    async fn find(&self, stored: &StoredStream, table: &Table, found: Vec<InferredColumn>) {
        let mut backoff = RETRY;
        while let Err(error) = self.found(stored, table, found.clone()).await {
            if backoff.failures() == 0 {
                tracing::warn!(stream = %stored.name, %error, "found columns cannot be written to the catalog yet");
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Reads some events of a stream from the log; the flag is true if these are all.
pub(crate) fn read_some(
    reader: &mut LogReader,
    stream: StreamId,
) -> Result<(Vec<QueuedBatch>, bool), TableWriterError> {
    let (mut fed, mut bytes) = (Vec::new(), 0);
    while bytes < ROWS_BYTES {
        let Some(record) = reader.next()? else { return Ok((fed, true)) };
        if let Head::Events(head) = &record.head
            && head.stream == stream
        {
            let batch = events(head, record.payload).ok_or(TableWriterError::NoEvents(record.position.0))?;
            bytes += batch.bytes().len();
            fed.push(QueuedBatch { batch, columns: None, end: record.end });
        }
    }
    Ok((fed, false))
}

/// Cuts events into runs that are made into rows together: those that were decoded when they were accepted, where one
/// declaration says them whole, and those that are still to be decoded, `by_arrival` of one arrival each. The offsets of a run have no
/// gap, as they have where a part of the log is lost.
fn runs(fed: Vec<QueuedBatch>, by_arrival: bool) -> Vec<Vec<QueuedBatch>> {
    let goes_with = |last: &QueuedBatch, next: &QueuedBatch| {
        last.next() == next.first()
            && match (&last.columns, &next.columns) {
                (None, None) => !by_arrival || last.batch.meta().arrival == next.batch.meta().arrival,
                (Some(last), Some(next)) => last.goes_with(next),
                _ => false,
            }
    };
    let mut runs: Vec<Vec<QueuedBatch>> = Vec::new();
    for next in fed {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| goes_with(last, &next)) => run.push(next),
            _ => runs.push(vec![next]),
        }
    }
    runs
}

/// The events of a record. They were checked when they came in, and are again.
pub(crate) fn events(head: &EventsHead, payload: &[u8]) -> Option<EventBatch> {
    let limits = CheckLimits { event_bytes_max: usize::MAX >> 1, depth_max: 512, ..CheckLimits::default() };
    let mut payload = payload.to_vec();
    payload.push(b'\n');
    let mut checker = Checker::new(limits);
    let batch = checker.push(Bytes::from(payload)).batch;
    let is_whole = checker.finish().batch.is_empty() && batch.len() == head.events as usize;
    let meta = EventMeta {
        arrival: head.arrival,
        sent_micros: head.sent_micros,
        first: head.first,
        ..*batch.meta()
    };
    is_whole.then(|| batch.with_meta(meta))
}
