//! One delivery: rows of a view, into a stream, a table, a file, or to a webhook. Each is done once where that can be had.

use std::{sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use swiftwater_event::{CheckLimits, EventMeta, StreamName, check_block};
use swiftwater_lang::ddl::{SinkFormat, SinkTarget};
use swiftwater_sinks::{FileSink, FileSinkError, Webhook, WebhookError, WebhookOptions};
use swiftwater_sql::{
    At, RunOptions, SchemaRef, SendableRecordBatchStream, SqlError, TableKind, TableProvider, Tables,
    forms::{Form, FormWriter},
    rows_at_hand,
};
use swiftwater_store::Application;

use super::entry::SinkEntry;
use crate::{
    AppendOptions, EngineError, Numbered,
    history::{
        state::{History, heavy},
        tables::{HistoryTables, from_engine},
        views::{Closed, View},
    },
    shared::Shared,
};

/// How long a webhook may take where the sink does not say.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a delivery did not come about.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliverError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Sql(#[from] SqlError),
    #[error(transparent)]
    File(#[from] FileSinkError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error("the rows are no events of the stream: {0}")]
    Refused(String),
}

impl DeliverError {
    /// Whether the same delivery would fail again.
    pub(super) fn is_final(&self) -> bool {
        match self {
            DeliverError::Webhook(error) => error.is_final(),
            DeliverError::Refused(_) => true,
            DeliverError::Engine(_) | DeliverError::Sql(_) | DeliverError::File(_) => false,
        }
    }
}

/// Where a sink delivers to, made ready.
pub(super) enum Target {
    Stream(StreamName),
    Table(Box<str>),
    File(FileSink, SinkFormat),
    Webhook(Box<Webhook>),
}

impl Target {
    pub(super) fn of(history: &History, entry: &SinkEntry) -> Result<Target, DeliverError> {
        let options = &entry.create.options;
        Ok(match &entry.create.target {
            SinkTarget::Stream(name) => {
                Target::Stream(StreamName::new(name).map_err(|_| EngineError::NoStream(name.to_string()))?)
            }
            SinkTarget::Table(name) => Target::Table(name.clone()),
            SinkTarget::File(path) => {
                let root = history.sinks_dir()?;
                Target::File(FileSink::new(&root, path)?, options.format.unwrap_or(SinkFormat::Ndjson))
            }
            SinkTarget::Webhook(url) => {
                let headers = options.header_lines().map(|(name, value)| (name.to_owned(), value.to_owned()));
                let options = WebhookOptions {
                    headers: headers.collect(),
                    timeout: options.timeout_ms.map_or(TIMEOUT, Duration::from_millis),
                    reaches_private: history.config.sinks_private_addresses,
                };
                Target::Webhook(Box::new(Webhook::new(url, &options)?))
            }
        })
    }

    /// Delivers some rows; of a file, answers its length then.
    pub(super) async fn deliver(
        &mut self,
        history: &Arc<History>,
        shared: &Arc<Shared>,
        entry: &SinkEntry,
        view: &Arc<View>,
        closed: &Closed,
    ) -> Result<u64, DeliverError> {
        let delivered = &entry.delivered;
        match self {
            Target::Stream(stream) => {
                history.append_rows(shared, stream, entry, closed.rows.clone()).await?;
                Ok(0)
            }
            Target::Table(table) => {
                let rows = heavy(usize::MAX, || view.record_batch(closed.rows.clone(), closed.now))?;
                insert(shared, entry, table, rows).await?;
                Ok(0)
            }
            Target::File(file, format) => {
                let bytes = match format {
                    SinkFormat::Ndjson => closed.rows.clone(),
                    SinkFormat::Csv => {
                        let rows = view.record_batch(closed.rows.clone(), closed.now)?;
                        csv(&rows, delivered.bytes == 0)?
                    }
                };
                let (file, length) = (file.clone(), delivered.bytes);
                let appended = tokio::task::spawn_blocking(move || file.append(length, &bytes)).await;
                Ok(appended.map_err(|_| EngineError::ShuttingDown)??)
            }
            Target::Webhook(webhook) => {
                let key = format!("{}-{}", id_of(entry), delivered.count);
                webhook.post(Bytes::from(closed.rows.clone()), &key).await?;
                Ok(0)
            }
        }
    }
}

/// In whose name a sink writes. No other has this one's number and time of creation.
fn id_of(entry: &SinkEntry) -> String {
    format!("swiftwater/sink/{}-{}", entry.id, entry.created)
}

impl History {
    /// Lines of JSON as events of a stream, on disk when this returns, and there once.
    async fn append_rows(
        &self,
        shared: &Arc<Shared>,
        stream: &StreamName,
        entry: &SinkEntry,
        rows: Vec<u8>,
    ) -> Result<(), DeliverError> {
        let stored = self.stored(stream).ok_or_else(|| EngineError::NoStream(stream.to_string()))?;
        let live = shared.stream(stream)?;
        let limits = CheckLimits { event_bytes_max: 64 << 20, ..CheckLimits::default() };
        let batch = check_block(Bytes::from(rows), &limits, 1).batch;
        let read_micros = self.clock.now_micros();
        let meta = EventMeta { arrival: read_micros.div_euclid(1000), read_micros, ..EventMeta::default() };
        let numbered =
            Numbered { producer: id_of(entry).into(), sequence: entry.delivered.count, part: 0, after: 0 };
        let options =
            AppendOptions { numbered: Some(numbered), all_or_none: true, ..AppendOptions::default() };
        let appended = self.append(shared, (&live, &stored), batch.with_meta(meta), options).await?;
        if let Some(refusal) = appended.refusals.first() {
            return Err(DeliverError::Refused(format!("column `{}`: {}", refusal.path, refusal.message)));
        }
        if let Some(ticket) = appended.ticket {
            self.synced(ticket).await?;
        }
        Ok(())
    }

    /// What cannot be delivered goes to the sink's stream for that, an event a row, with the reason.
    pub(super) async fn bury(
        &self,
        shared: &Arc<Shared>,
        entry: &SinkEntry,
        closed: &Closed,
        error: &DeliverError,
    ) -> Result<(), DeliverError> {
        let Some(name) = &entry.create.options.dead_letter else { return Ok(()) };
        let stream = StreamName::new(name).map_err(|_| EngineError::NoStream(name.to_string()))?;
        let head = serde_json::json!({
            "sink": entry.create.name, "delivery": entry.delivered.count, "error": error.to_string(),
        });
        let head = head.to_string();
        let mut events = Vec::new();
        for row in closed.rows.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()) {
            // The object goes on with the row.
            events.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
            events.extend_from_slice(b",\"row\":");
            events.extend_from_slice(row);
            events.extend_from_slice(b"}\n");
        }
        self.append_rows(shared, &stream, entry, events).await
    }
}

fn csv(rows: &RecordBatch, is_first: bool) -> Result<Vec<u8>, SqlError> {
    let mut writer = FormWriter::new(Form::Csv, &rows.schema())?;
    let (mut head, mut out) = (Vec::new(), Vec::new());
    writer.begin(&mut head);
    writer.batch(rows, &mut out)?;
    Ok(if is_first { [head, out].concat() } else { out })
}

/// Inserts rows into a table, by their names, once.
async fn insert(
    shared: &Arc<Shared>,
    entry: &SinkEntry,
    table: &str,
    rows: RecordBatch,
) -> Result<(), DeliverError> {
    let sql = shared.sql.get().ok_or(EngineError::NoHistory)?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = rows.schema().fields().iter().map(|field| quoted(field.name())).collect();
    let names = names.join(", ");
    let statement =
        format!("INSERT INTO {} ({names}) SELECT {names} FROM {}", quoted(table), quoted(&entry.create.view));
    let tables = SinkTables {
        tables: Arc::clone(shared.tables.get().ok_or(EngineError::NoHistory)?),
        view: entry.create.view.clone(),
        rows,
        application: Application { id: id_of(entry).into(), version: entry.delivered.count },
    };
    let options = RunOptions { tables: Some(Arc::new(tables)), has_turn: true, ..RunOptions::default() };
    let mut answer = sql.run(&statement, options).await?;
    while let Some(batch) = answer.next().await {
        batch?;
    }
    Ok(())
}

/// The tables of SQL, but that of the view only the rows of one delivery, which an INSERT takes once.
struct SinkTables {
    tables: Arc<HistoryTables>,
    view: Box<str>,
    rows: RecordBatch,
    application: Application,
}

#[async_trait]
impl Tables for SinkTables {
    fn names(&self) -> Vec<(String, TableKind)> {
        self.tables.names()
    }

    fn names_all(&self) -> bool {
        self.tables.names_all()
    }

    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        if name == &*self.view {
            return rows_at_hand(self.rows.clone()).map(Some);
        }
        self.tables.table(name, at).await
    }

    fn system_names(&self) -> &'static [&'static str] {
        self.tables.system_names()
    }

    async fn system_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        self.tables.system_table(name).await
    }

    async fn insertable(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        self.tables.insertable(name).await
    }

    async fn create_table(&self, name: &str, _: SchemaRef, _: bool) -> Result<bool, SqlError> {
        Err(from_engine(EngineError::NoSink(name.to_owned())))
    }

    async fn drop_table(&self, name: &str) -> Result<(), SqlError> {
        Err(from_engine(EngineError::NoSink(name.to_owned())))
    }

    async fn insert(
        &self,
        name: &str,
        rows: SendableRecordBatchStream,
        overwrite: bool,
    ) -> Result<u64, SqlError> {
        self.tables.insert_once(name, rows, overwrite, &self.application).await
    }
}
