//! Makes one delivery: rows into a stream, a table, a file, a topic of Kafka, or to a webhook. Each delivery takes effect once
//! where the target allows it.

use std::{sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use swiftwater_catalog::{ObjectKind, kind::sink::SinkEntry};
use swiftwater_event::{EventMeta, Millis, StreamName};
use swiftwater_kafka::KafkaError;
use swiftwater_lang::ddl::{SinkFormat, SinkOptions, SinkTarget};
use swiftwater_sinks::{FileSink, FileSinkError, Webhook, WebhookError, WebhookOptions};
use swiftwater_sql::{
    At, RunOptions, SqlError, TableProvider,
    forms::{Form, FormWriter},
    rows_at_hand,
};
use swiftwater_store::Application;

use super::{kafka::KafkaTopic, rows::Rows};
use crate::{
    Ack, AppendOptions, Appended, EngineError, Numbered, Refusal, RuntimeError, SinkError,
    durable::{
        history::{History, causes, run_blocking},
        table_writer::TableWriterError,
    },
    hash_of,
    shared::Shared,
    tables::{
        HistoryTables,
        rows::as_events,
        scoped::{ScopedTables, TableOverrides},
    },
};

/// The time a webhook may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliverError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The events of a sink cannot be read.
    #[error("{}", causes(.0))]
    Events(#[from] TableWriterError),
    #[error(transparent)]
    File(#[from] FileSinkError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// A topic is not written. It is to be opened again.
    #[error("{}", with_hint(.0))]
    Kafka(#[from] KafkaError),
    /// Some of its rows, by their number in order, are larger than the topic accepts as a message.
    #[error("{} of the rows are larger than a message of the topic may be (`max.message.bytes`)", .0.len())]
    TooLarge(Vec<usize>),
    /// A registry does not have the schema of the messages. It is to be asked again.
    #[error("{0}")]
    Registry(String),
    /// Some of its rows, at least one, in order, cannot be written by the schema of the messages.
    #[error("{}", described(.0))]
    Unfit(Vec<UnfitRow>),
    /// Some of its rows, at least one, in order, are invalid.
    #[error("the rows are not valid events of the stream: {}", .0.first().map_or("", |refusal| &*refusal.message))]
    Refused(Vec<Refusal>),
}

/// A row that does not fit the schema of a topic's messages.
#[derive(Debug)]
pub(crate) struct UnfitRow {
    /// Its number in the delivery, from 0.
    pub(super) row: usize,
    /// The first bytes of its key, if it has one.
    pub(super) key: Option<String>,
    /// The field, and the reason.
    pub(super) why: String,
}

fn described(rows: &[UnfitRow]) -> String {
    let count = rows.len();
    rows.first().map_or_else(String::new, |UnfitRow { row, key, why }| {
        let key = key.as_ref().map_or_else(String::new, |key| format!(" with the key `{key}`"));
        format!(
            "{count} of the rows do not fit the schema of the topic's messages; the first is row {} of the delivery{key}: {why}",
            row + 1
        )
    })
}

fn with_hint(error: &KafkaError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}. {hint}"))
}

impl DeliverError {
    /// True if the same delivery would fail again.
    pub(super) fn is_final(&self) -> bool {
        match self {
            DeliverError::Webhook(error) => error.is_final(),
            DeliverError::Refused(_) | DeliverError::TooLarge(_) | DeliverError::Unfit(_) => true,
            DeliverError::Engine(_)
            | DeliverError::Registry(_)
            | DeliverError::Sql(_)
            | DeliverError::Events(_)
            | DeliverError::File(_)
            | DeliverError::Kafka(_) => false,
        }
    }

    /// The reason why a row of the delivery is not delivered; none if other rows are the reason.
    fn of_row(&self, row: usize) -> Option<String> {
        match self {
            DeliverError::Refused(refusals) => {
                let place = refusals.binary_search_by_key(&row, |refusal| refusal.row as usize).ok()?;
                Some(format!("the row is not a valid event of the stream: {}", refusals[place].message))
            }
            DeliverError::TooLarge(rows) => rows.binary_search(&row).is_ok().then(|| {
                "the row is larger than a message of the topic may be (`max.message.bytes`)".to_owned()
            }),
            DeliverError::Unfit(rows) => {
                let place = rows.binary_search_by_key(&row, |unfit| unfit.row).ok()?;
                Some(format!("the row does not fit the schema of the topic's messages: {}", rows[place].why))
            }
            error => Some(error.to_string()),
        }
    }

    /// True if other rows of the delivery can be delivered.
    fn is_of_some_rows(&self) -> bool {
        matches!(self, DeliverError::Refused(_) | DeliverError::TooLarge(_) | DeliverError::Unfit(_))
    }
}

/// One delivery. A repetition is the same in all fields.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// The writer. No other has it.
    pub(crate) by: String,
    /// Number of the delivery.
    pub(crate) number: u64,
    /// JSON objects, a line each.
    pub(crate) rows: Bytes,
    /// A hash of the rows, if others under this number are to be refused; 0: they are the same without fail.
    pub(crate) hash: u64,
}

/// The target of a sink, opened.
pub(super) enum Target {
    Stream(StreamName),
    Table(Box<str>),
    File(FileSink, SinkFormat),
    Webhook(Box<Webhook>),
    Kafka(Box<KafkaTopic>),
}

impl Target {
    pub(super) async fn open(
        history: &History,
        entry: &SinkEntry,
        rows: &Rows,
    ) -> Result<Target, DeliverError> {
        let create = &entry.create;
        let options = &create.options;
        Ok(match &create.target {
            SinkTarget::Stream(name) => Target::Stream(stream_name(name)?),
            SinkTarget::Table(name) => Target::Table(name.clone()),
            SinkTarget::File(path) => {
                let root = history.sinks_dir()?;
                Target::File(FileSink::new(&root, path)?, options.format.unwrap_or(SinkFormat::Ndjson))
            }
            SinkTarget::Webhook(url) => Target::Webhook(Box::new(history.webhook(url, options, true)?)),
            SinkTarget::Kafka(target) => {
                Target::Kafka(Box::new(KafkaTopic::open(history, entry, target, &rows.columns()).await?))
            }
        })
    }

    /// Delivers some rows, as they were at a time. A file has `length` bytes of earlier deliveries; returns its
    /// new length.
    pub(super) async fn deliver(
        &mut self,
        history: &History,
        shared: &Arc<Shared>,
        delivery: &Delivery,
        (source, now): (&Rows, Millis),
        length: u64,
    ) -> Result<u64, DeliverError> {
        match self {
            Target::Stream(stream) => {
                history.append_whole(shared, stream, delivery).await?;
                Ok(0)
            }
            Target::Table(table) => {
                let rows = run_blocking(usize::MAX, || source.record_batch(delivery.rows.to_vec(), now))?;
                let by = Application::one(delivery.by.as_str(), delivery.number);
                insert(shared, by, (&**table, source.name()), rows).await?;
                Ok(0)
            }
            Target::File(file, format) => {
                let bytes = match format {
                    SinkFormat::Ndjson => delivery.rows.clone(),
                    SinkFormat::Csv => {
                        csv(&source.record_batch(delivery.rows.to_vec(), now)?, length == 0)?.into()
                    }
                };
                let file = file.clone();
                let appended = tokio::task::spawn_blocking(move || file.append(length, &bytes)).await;
                Ok(appended.map_err(|_| EngineError::Runtime(RuntimeError::ShuttingDown))??)
            }
            Target::Webhook(webhook) => {
                delivery.post(webhook).await?;
                Ok(0)
            }
            Target::Kafka(topic) => {
                topic.write(std::slice::from_ref(&delivery.rows), delivery.number).await?;
                Ok(0)
            }
        }
    }
}

impl Delivery {
    /// Its rows, and where they stand.
    fn rows(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.rows.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()).enumerate()
    }

    /// The delivery without the rows that are at fault; none if no row is left.
    pub(super) fn without(&self, error: &DeliverError) -> Option<Delivery> {
        let good = self.rows().filter(|(place, _)| error.of_row(*place).is_none());
        let rows: Vec<u8> = good.flat_map(|(_, row)| [row, b"\n"].concat()).collect();
        (!rows.is_empty()).then(|| Delivery { rows: rows.into(), ..self.clone() })
    }

    /// Posts it, with a key that it has whenever it is posted again.
    pub(crate) async fn post(&self, webhook: &Webhook) -> Result<(), DeliverError> {
        Ok(webhook.post(self.rows.clone(), &format!("{}-{}", self.by, self.number)).await?)
    }
}

fn stream_name(name: &str) -> Result<StreamName, EngineError> {
    StreamName::new(name).map_err(|_| EngineError::not_found(ObjectKind::Stream, name))
}

impl History {
    /// Refuses a webhook that could never be told anything, when it is declared.
    pub(crate) fn check_webhook(&self, url: &str, options: &SinkOptions) -> Result<(), EngineError> {
        Webhook::check(url, &self.webhook_options(options, true))
            .map_err(|error| SinkError::Target(error.to_string()).into())
    }

    /// A webhook as options have it; with `is_lines` a request may have several rows.
    pub(crate) fn webhook(
        &self,
        url: &str,
        options: &SinkOptions,
        is_lines: bool,
    ) -> Result<Webhook, DeliverError> {
        Ok(Webhook::new(url, &self.webhook_options(options, is_lines))?)
    }

    fn webhook_options(&self, options: &SinkOptions, is_lines: bool) -> WebhookOptions {
        let headers = options.header_lines().map(|(name, value)| (name.to_owned(), value.to_owned()));
        WebhookOptions {
            content_type: if is_lines { "application/x-ndjson" } else { "application/json" },
            headers: headers.collect(),
            timeout: options.timeout_ms.map_or(TIMEOUT, Duration::from_millis),
            reaches_private: self.config.sinks_private_addresses,
        }
    }

    /// Rows as events of a stream, on disk when this returns, and there once. With `all_or_none` they are there all or not
    /// at all; otherwise without those that the stream refuses.
    pub(crate) async fn append_once(
        &self,
        shared: &Arc<Shared>,
        stream: &StreamName,
        delivery: &Delivery,
        all_or_none: bool,
    ) -> Result<Appended, EngineError> {
        let stored =
            self.stored(stream).ok_or_else(|| EngineError::not_found(ObjectKind::Stream, stream.as_str()))?;
        let live = shared.stream(stream)?;
        let batch = run_blocking(delivery.rows.len(), || as_events(delivery.rows.clone()));
        let read_micros = self.clock.now_micros();
        let meta = EventMeta { arrival: read_micros.div_euclid(1000), read_micros, ..EventMeta::default() };
        let producer = delivery.by.as_str().into();
        let numbered =
            Numbered { producer, sequence: delivery.number, part: 0, after: 0, hash: delivery.hash };
        let options = AppendOptions {
            numbered: Some(numbered),
            all_or_none,
            ack: Ack::Disk,
            ..AppendOptions::default()
        };
        let appended = self.append(shared, (&live, &stored), batch.with_meta(meta), options).await?;
        if let Some(ticket) = appended.ticket {
            self.synced(ticket).await?;
        }
        Ok(appended)
    }

    async fn append_whole(
        &self,
        shared: &Arc<Shared>,
        stream: &StreamName,
        delivery: &Delivery,
    ) -> Result<(), DeliverError> {
        let appended = self.append_once(shared, stream, delivery, true).await?;
        match appended.refusals.is_empty() {
            true => Ok(()),
            false => Err(DeliverError::Refused(appended.refusals)),
        }
    }

    /// Rows that are at fault go to the stream for that, if there is one: an event a row, with the reason. `what` and `name`
    /// say whose they were. Returns their number.
    pub(crate) async fn to_dead_letter(
        &self,
        shared: &Arc<Shared>,
        (what, name): (&str, &str),
        dead_letter: Option<&str>,
        delivery: &Delivery,
        error: &DeliverError,
    ) -> Result<u64, DeliverError> {
        let Some(stream) = dead_letter else { return Ok(0) };
        let stream = stream_name(stream)?;
        let (mut events, mut dead) = (Vec::new(), Vec::new());
        for (place, row) in delivery.rows() {
            let Some(why) = error.of_row(place) else { continue };
            let head =
                serde_json::json!({ (what): name, "delivery": delivery.number, "error": why }).to_string();
            // The object goes on with the row.
            events.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
            events.extend_from_slice(b",\"row\":");
            events.extend_from_slice(row);
            events.extend_from_slice(b"}\n");
            dead.push((place as u64).to_le_bytes());
        }
        // If the other rows cannot be delivered in the end, all go to the dead-letter stream, which is no repetition of
        // this. Of the rows that fit their schema, some may be too large.
        let by = match error {
            DeliverError::Unfit(_) => format!("{}-unfit", delivery.by),
            error if error.is_of_some_rows() => format!("{}-refused", delivery.by),
            _ => delivery.by.clone(),
        };
        // The limit of a topic, or a stream's columns, may change between two attempts. Then other rows are at fault, and this
        // fails rather than that one of them is nowhere.
        let (count, hash) = (dead.len() as u64, hash_of(dead.iter().map(|place| &place[..])));
        let events = Delivery { by, rows: events.into(), hash, ..delivery.clone() };
        self.append_whole(shared, &stream, &events).await?;
        Ok(count)
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
pub(super) async fn insert(
    shared: &Arc<Shared>,
    application: Application,
    (table, source): (&str, &str),
    rows: RecordBatch,
) -> Result<(), DeliverError> {
    let sql = shared.sql.get().ok_or(EngineError::NoHistory)?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = rows.schema().fields().iter().map(|field| quoted(field.name())).collect();
    let names = names.join(", ");
    let statement = format!("INSERT INTO {} ({names}) SELECT {names} FROM {}", quoted(table), quoted(source));
    let tables = ScopedTables {
        tables: Arc::clone(shared.tables.get().ok_or(EngineError::NoHistory)?),
        otherwise: DeliveredRows { name: source.into(), rows },
        application,
    };
    let options = RunOptions { tables: Some(Arc::new(tables)), has_turn: true, ..RunOptions::default() };
    let mut answer = sql.run(&statement, options).await?;
    while let Some(batch) = answer.next().await {
        batch?;
    }
    Ok(())
}

/// A view or a stream restricted to the rows of one delivery.
struct DeliveredRows {
    name: Box<str>,
    rows: RecordBatch,
}

#[async_trait]
impl TableOverrides for DeliveredRows {
    async fn table(
        &self,
        _: &HistoryTables,
        name: &str,
        _: Option<At>,
    ) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        if name == &*self.name { rows_at_hand(self.rows.clone()).map(Some) } else { Ok(None) }
    }
}
