//! Writes rows into plain tables and streams: CREATE TABLE … AS, and INSERT, once each where a number is stated.

use super::{HistoryTables, INSERT_BYTES, INSERT_EVENT_BYTES_MAX, SHOWN_CHARACTERS, to_its_end};
use crate::{Ack, AppendOptions, EngineError, Numbered, Refusal, ValidationRule};
use crate::{
    durable::{event_shape::EventShape, history::History, stored_stream::StoredStream},
    error::sql::{from_engine, from_store},
    tables::plain::ReservedName,
};
use arrow_array::RecordBatch;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use std::{pin::pin, sync::Arc};
use swiftwater_event::{CheckLimits, Checker, EventBatch, EventMeta, StreamName};
use swiftwater_runtime::lock_order::OrderedMutex;
use swiftwater_sql::{
    ErrorKind as SqlErrorKind, SchemaRef, SendableRecordBatchStream, SqlError, Tables,
    forms::{Form, FormWriter},
    state,
};
use swiftwater_store::{Application, ErrorKind as StoreErrorKind, StoreError};

impl HistoryTables {
    /// Creates a table as [`Tables::create_table`] does, and records in whose name it was made.
    pub(crate) async fn create_once(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Option<SendableRecordBatchStream>,
        if_not_exists: bool,
        once: Option<&Application>,
    ) -> Result<Option<u64>, SqlError> {
        let exists =
            |kind: &str| SqlError::new(SqlErrorKind::Conflict, format!("{kind} `{name}` already exists"));
        let shared = self.shared()?;
        let history = shared.history.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        // No stream takes the name meanwhile.
        let one_at_a_time = loop {
            self.plain.until_made(name).await;
            let turn = history.statement_lock.lock().await;
            // Another statement may have begun to make it before this one's turn.
            if !self.plain.is_being_made(name) {
                break turn;
            }
        };
        if self.stored(name)?.is_some() {
            return Err(exists("stream"));
        }
        if history.view(name).is_ok() {
            return Err(exists("view"));
        }
        if self.is_plain(name)? {
            // One whose files are gone is no table that could be used.
            self.plain_table(name).await?;
            return if if_not_exists { Ok(None) } else { Err(exists("table")) };
        }
        if let Ok(stream) = StreamName::new(name) {
            history.clear_dropped(&stream).await.map_err(from_engine)?;
        }
        let taken = self.plain.reserve(name);
        let Some(rows) = rows else {
            let (store, name, once) = (history.store.clone(), name.to_owned(), once.cloned());
            let making = async move { store.create_plain(&name, schema, once.as_ref()).await.map(drop) };
            drop(one_at_a_time);
            self.make(history, taken, making).await?;
            return Ok(Some(0));
        };
        let mut table = history.store.begin_plain(name, schema).await.map_err(from_store)?;
        drop(one_at_a_time);
        // A client that disconnects before this point leaves nothing behind; from here on the work is completed.
        let (rows, failure) = failing_apart(rows);
        let count = table.write(rows).await.map_err(|error| failure.or(error))?;
        let once = once.cloned();
        let making = async move { table.commit(once.as_ref()).await.map(drop) };
        self.make(history, taken, making).await?;
        Ok(Some(count))
    }

    /// Completes the creation of a table even if the caller no longer waits. If that fails, the store is asked if the table
    /// was made.
    async fn make(
        &self,
        history: &Arc<History>,
        taken: ReservedName,
        making: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Result<(), SqlError> {
        let (plain, keeper) = (Arc::clone(&self.plain), Arc::clone(history));
        let made = to_its_end(history, async move {
            let made = making.await;
            match &made {
                Ok(()) => {
                    // Before the name can be used: a table that is dropped at once is not noted afterwards.
                    keeper.record_plain(taken.name(), true).await;
                    taken.record_created();
                }
                Err(error) => {
                    if error.kind() == StoreErrorKind::Unavailable {
                        plain.doubt();
                    }
                    drop(taken);
                    keeper.pending_store_work.notify_one();
                }
            }
            made
        });
        made.await?.map_err(from_store)
    }

    /// True if a table was made in the name of this version of the application.
    pub(crate) async fn was_made_by(&self, name: &str, application: &Application) -> Result<bool, SqlError> {
        match self.plain_table(name).await? {
            Some(table) => table.has_inserted(application).await.map_err(from_store),
            None => Ok(false),
        }
    }

    /// The last version of an application that a table has rows of.
    pub(crate) async fn last_inserted(&self, name: &str, application: &str) -> Result<Option<u64>, SqlError> {
        match self.plain_table(name).await? {
            Some(table) => table.last_inserted(application).await.map_err(from_store),
            None => Ok(None),
        }
    }

    /// Inserts as [`Tables::insert`] does, unless this version of the application has inserted before.
    ///
    /// Into a table that is exact. Into a stream it is where the rows are no more than [`INSERT_BYTES`]; of more, those of
    /// an attempt that did not come to its end stay.
    pub(crate) async fn insert_once(
        &self,
        name: &str,
        rows: SendableRecordBatchStream,
        overwrite: bool,
        application: &Application,
    ) -> Result<u64, SqlError> {
        if let (Some(stored), false) = (self.stored(name)?, overwrite) {
            let sequence = application.version;
            let number =
                Numbered { producer: (*application.id).into(), sequence, part: 0, after: 0, hash: 0 };
            return self.insert_events(&stored, rows, Some(number)).await;
        }
        match self.plain_table(name).await? {
            Some(table) => {
                let (rows, failure) = failing_apart(rows);
                let inserted = table.insert_once(rows, overwrite, application.clone()).await;
                Ok(inserted.map_err(|error| failure.or(error))?.unwrap_or(0))
            }
            None => self.insert(name, rows, overwrite).await,
        }
    }

    /// Rows as events: appended in pieces, on disk when this returns. With a number, which the last piece has, that is
    /// done once.
    pub(super) async fn insert_events(
        &self,
        stored: &Arc<StoredStream>,
        rows: SendableRecordBatchStream,
        number: Option<Numbered>,
    ) -> Result<u64, SqlError> {
        if let Some(number) = &number
            && let Some(receipt) = stored.find_receipt(number, Ack::Disk).map_err(from_engine)?
        {
            return Ok(receipt.accepted);
        }
        let shared = self.shared()?;
        let history = shared.history.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        let stream = shared.stream(&stored.name).map_err(from_engine)?;
        let (mut count, mut ticket) = (0, None);
        let shape = EventShape::new(&stored.declared(), &rows.schema())?;
        let mut writer = FormWriter::new(Form::Ndjson, &shape.schema)?;
        let mut rows = pin!(rows.peekable());
        let mut is_end = false;
        while !is_end {
            let mut json = Vec::new();
            while json.len() < INSERT_BYTES {
                let Some(batch) = rows.next().await else { break };
                writer.batch(&shape.events(&batch.map_err(SqlError::from)?)?, &mut json)?;
            }
            is_end = rows.as_mut().peek().await.is_none();
            let batch = check_events(json)?;
            if batch.is_empty() {
                continue;
            }
            let read_micros = shared.clock.now_micros();
            let meta =
                EventMeta { arrival: read_micros.div_euclid(1000), read_micros, ..EventMeta::default() };
            let numbered = number.clone().filter(|_| is_end);
            let options =
                AppendOptions { numbered, all_or_none: true, ack: Ack::Disk, ..AppendOptions::default() };
            let appended = history
                .append(&shared, (&stream, stored), batch.clone().with_meta(meta), options)
                .await
                .map_err(from_engine)?;
            if let Some(refusal) = appended.refusals.first() {
                return Err(describe_refusal(refusal, &batch));
            }
            count += appended.accepted;
            ticket = ticket.max(appended.ticket);
        }
        if let Some(ticket) = ticket {
            history.synced(ticket).await.map_err(from_engine)?;
        }
        Ok(count)
    }
}

/// Validates the events of one append: JSON objects, a line each.
fn check_events(json: Vec<u8>) -> Result<EventBatch, SqlError> {
    let mut checker =
        Checker::new(CheckLimits { event_bytes_max: INSERT_EVENT_BYTES_MAX, ..CheckLimits::default() });
    let (first, rest) = (checker.push(Bytes::from(json)), checker.finish());
    if let Some(rejection) = first.rejections.first().or(rest.rejections.first()) {
        let state = if rejection.oversize { state::TOO_LONG } else { state::TYPE_MISMATCH };
        return Err(SqlError::new(SqlErrorKind::Invalid, &*rejection.message).with_state(state));
    }
    let mut batch = first.batch;
    if !rest.batch.is_empty() {
        batch = EventBatch::concat(&[batch, rest.batch]);
    }
    Ok(batch)
}

/// The error of a statement whose row the stream refuses.
fn describe_refusal(refusal: &Refusal, batch: &EventBatch) -> SqlError {
    let state = match refusal.rule {
        ValidationRule::Type => state::TYPE_MISMATCH,
        ValidationRule::NotNull => state::NOT_NULL,
        ValidationRule::Check => state::CHECK,
        ValidationRule::Size => state::TOO_LONG,
    };
    let row = shown(batch.event(refusal.row as usize));
    SqlError::new(SqlErrorKind::Invalid, &*refusal.message)
        .with_state(state)
        .with_hint(format!("The row is {row}"))
}

/// The beginning of an event, for a message.
fn shown(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The error of the written rows, if they failed.
pub(super) struct RowsFailure(Arc<OrderedMutex<Option<SqlError>>>);

impl RowsFailure {
    /// Returns that error, or the error of the table.
    pub(super) fn or(&self, error: StoreError) -> SqlError {
        self.0.lock().take().unwrap_or_else(|| from_store(error))
    }
}

/// Rows for the store, which knows errors by their texts alone, and the error of the statement that gives them as it is.
pub(super) fn failing_apart(
    rows: SendableRecordBatchStream,
) -> (impl Stream<Item = Result<RecordBatch, String>> + Send, RowsFailure) {
    let failure = Arc::new(OrderedMutex::new(None));
    let kept = Arc::clone(&failure);
    let rows = rows.map_err(move |error| {
        let told = error.to_string();
        *kept.lock() = Some(SqlError::from(error));
        told
    });
    (rows, RowsFailure(failure))
}
