//! Deliveries into a topic of Kafka: a message a row, a transaction a delivery.
//!
//! With `delivery = exactly_once`, the transaction has one more message: the number of the delivery, under the sink's key in the
//! topic `_swiftwater.ID.sinks`, where ID is that of the data directory. A start aborts what is open of the sink's transactional
//! id, and reads the number: deliveries up to it are not written again. All sinks of a directory share that topic, which is
//! compacted. Without, a delivery whose acknowledgement is lost is written again.
//!
//! The value of a message is the row as JSON text, or by a schema ([`super::row_schema`]).

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use swiftwater_catalog::kind::sink::{Delivered, SinkEntry};
use swiftwater_kafka::{
    ConsumerOptions, Fetched, Isolation, Kafka, KafkaError, KafkaErrorKind, MessageBatch, NewMessage,
    OffsetAt, Partitioner, Producer, ProducerOptions, SendError,
};
use swiftwater_lang::ddl::{KafkaPartitioner, KafkaTarget};

use super::{
    deliver::{DeliverError, UnfitRow},
    group_commit::{Gathered, NotGrouped},
    row_schema::{RowColumns, RowSchema},
    rows::Rows,
};
use crate::{
    EngineError, SinkError,
    durable::history::{History, run_blocking},
};

/// The properties of the topic of numbers: small segments are compacted early, and so read fast at a start.
const NUMBERS_PROPERTIES: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];

/// Bytes of a key in the description of a row.
const KEY_BYTES_SHOWN: usize = 64;

/// The topic of a sink, open for writing.
pub(super) struct KafkaTopic {
    topic: Arc<str>,
    form: RowForm,
    /// The schema of the messages' values, which are JSON otherwise.
    schema: Option<RowSchema>,
    headers: Arc<[(Box<str>, Box<str>)]>,
    producer: Box<dyn Producer>,
    /// Of `exactly_once`.
    numbers: Option<Numbers>,
}

/// The numbers of the deliveries of a sink.
struct Numbers {
    topic: Arc<str>,
    key: Bytes,
    /// The last delivery that the topic has.
    last: Option<u64>,
}

/// The message that a row becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RowForm {
    /// The row as value, and one of its columns as key.
    Row { key: Option<Box<str>> },
    /// A change: the key of the view as key, and the row as value; without a row a tombstone.
    Change,
}

impl KafkaTopic {
    pub(super) async fn open(
        history: &History,
        entry: &SinkEntry,
        target: &KafkaTarget,
        columns: &RowColumns,
    ) -> Result<KafkaTopic, DeliverError> {
        let schema = RowSchema::open(history, &entry.create, target, columns).await?;
        let kafka = history.kafka(target.connection())?;
        let topic: Arc<str> = (&*target.topic).into();
        let sink = format!("{}-{}", entry.id, entry.created);
        let mut options = ProducerOptions {
            transactional_id: None,
            partitioner: match target.partitioner {
                Some(KafkaPartitioner::Crc32) => Partitioner::Crc32,
                Some(KafkaPartitioner::Murmur2) | None => Partitioner::Murmur2,
            },
            topics: vec![Arc::clone(&topic)],
        };
        let mut numbers = None;
        if target.is_exactly_once() {
            let id = history.with_catalog(|catalog| catalog.store.clone());
            let id = id.ok_or_else(|| {
                EngineError::Table(
                    "the data directory has no id yet, as its tables were not reached".to_owned(),
                )
            })?;
            let numbers_topic: Arc<str> = format!("_swiftwater.{id}.sinks").into();
            make_numbers_topic(&*kafka, &numbers_topic).await?;
            options.topics.push(Arc::clone(&numbers_topic));
            options.transactional_id = Some(format!("swiftwater.{id}.sink.{sink}"));
            numbers = Some(Numbers { topic: numbers_topic, key: sink.into(), last: None });
        }
        let mut producer = kafka.producer(&options)?;
        producer.open().await?;
        // No earlier producer of the sink can write any more.
        if let Some(numbers) = &mut numbers {
            numbers.last = last_number(&*kafka, numbers).await?;
        }
        let form = match entry.create.is_of_changes() {
            true => RowForm::Change,
            false => RowForm::Row { key: target.key.clone() },
        };
        let headers = target.header_lines().map(|(name, value)| (name.into(), value.into())).collect();
        Ok(KafkaTopic { topic, form, schema, headers, producer, numbers })
    }

    /// The last delivery that the topic has.
    fn last(&self) -> Option<u64> {
        self.numbers.as_ref().and_then(|numbers| numbers.last)
    }

    /// Writes portions of rows, JSON lines, in one transaction under the number of the last one. Does nothing if the topic has
    /// that.
    pub(super) async fn write(&mut self, portions: &[Bytes], number: u64) -> Result<(), DeliverError> {
        if self.last().is_some_and(|last| last >= number) {
            return Ok(());
        }
        let bytes = portions.iter().map(Bytes::len).sum();
        let mut messages = run_blocking(bytes, || self.messages(portions))?;
        if let Some(numbers) = &self.numbers {
            messages.push(NewMessage {
                topic: Arc::clone(&numbers.topic),
                partition: Some(0),
                key: Some(numbers.key.clone()),
                value: Some(number.to_string().into()),
                headers: Arc::default(),
            });
        }
        match self.producer.send(&messages).await {
            Ok(_) => {}
            Err(SendError::Failed(error)) => return Err(error.into()),
            Err(SendError::TooLarge(rows)) => return Err(DeliverError::TooLarge(rows)),
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.last = Some(number);
        }
        Ok(())
    }

    fn messages(&self, portions: &[Bytes]) -> Result<Vec<NewMessage>, DeliverError> {
        let mut messages = Vec::new();
        let mut unfit = Vec::new();
        for portion in portions {
            let lines = portion.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for (row, line) in lines.enumerate() {
                let no_object = |error| SinkError::Target(format!("a row is no JSON object: {error}"));
                let (key, value) =
                    self.form.key_and_value(portion, line).map_err(no_object).map_err(EngineError::from)?;
                let value = match (&self.schema, value) {
                    (Some(schema), Some(value)) => match schema.encode(&value) {
                        Ok(message) => Some(message.into()),
                        Err(fault) => {
                            let key = key.as_deref().map(shown);
                            unfit.push(UnfitRow { row, key, why: fault.to_string() });
                            continue;
                        }
                    },
                    (_, value) => value,
                };
                messages.push(NewMessage {
                    topic: Arc::clone(&self.topic),
                    partition: None,
                    key,
                    value,
                    headers: Arc::clone(&self.headers),
                });
            }
            // Of a group, each delivery is written by itself when one cannot be.
            if !unfit.is_empty() {
                return Err(DeliverError::Unfit(unfit));
            }
        }
        Ok(messages)
    }
}

/// The first bytes of a key, for messages.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[..key.len().min(KEY_BYTES_SHOWN)]).into_owned()
}

/// A change as a view writes it. Its position is not in the message.
#[derive(Deserialize)]
struct ChangeLine<'l> {
    #[serde(borrow)]
    key: &'l RawValue,
    #[serde(borrow)]
    row: &'l RawValue,
}

impl RowForm {
    /// The key and the value of a line within its portion.
    fn key_and_value(
        &self,
        portion: &Bytes,
        line: &[u8],
    ) -> Result<(Option<Bytes>, Option<Bytes>), serde_json::Error> {
        match self {
            RowForm::Row { key: None } => Ok((None, Some(portion.slice_ref(line)))),
            RowForm::Row { key: Some(column) } => {
                let key = column_of(line, column)?.filter(|value| value.get() != "null");
                Ok((key.map(text_of).transpose()?, Some(portion.slice_ref(line))))
            }
            RowForm::Change => {
                let ChangeLine { key, row } = serde_json::from_slice(line)?;
                let values: Vec<&RawValue> = serde_json::from_str(key.get())?;
                let key = match values.as_slice() {
                    [value] => text_of(value)?,
                    _ => Bytes::copy_from_slice(key.get().as_bytes()),
                };
                let row = (row.get() != "null").then(|| portion.slice_ref(row.get().as_bytes()));
                Ok((Some(key), row))
            }
        }
    }
}

/// A value as a key: a text without its quotes, everything else as JSON.
pub(crate) fn text_of(value: &RawValue) -> Result<Bytes, serde_json::Error> {
    match value.get().starts_with('"') {
        true => serde_json::from_str::<String>(value.get()).map(Bytes::from),
        false => Ok(Bytes::copy_from_slice(value.get().as_bytes())),
    }
}

/// The value of a column in a row.
pub(crate) fn column_of<'l>(line: &'l [u8], column: &str) -> Result<Option<&'l RawValue>, serde_json::Error> {
    struct Column<'c>(&'c str);

    impl<'de> serde::de::Visitor<'de> for Column<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                if name == self.0 {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut reader = serde_json::Deserializer::from_slice(line);
    serde::Deserializer::deserialize_map(&mut reader, Column(column))
}

/// Makes the topic of numbers where there is none.
async fn make_numbers_topic(kafka: &dyn Kafka, topic: &str) -> Result<(), KafkaError> {
    match kafka.topic(topic).await {
        Err(error) if *error.kind() == KafkaErrorKind::UnknownTopic => {
            kafka.create_topic(topic, 1, &NUMBERS_PROPERTIES).await
        }
        known => known.map(|_| ()),
    }
}

/// The number of the last delivery of a sink. Other sinks' transactions may be open: waits for their end, which is a minute away
/// at most.
async fn last_number(kafka: &dyn Kafka, numbers: &Numbers) -> Result<Option<u64>, KafkaError> {
    let places = [(0, OffsetAt::Earliest), (0, OffsetAt::Latest)];
    let offsets = kafka.offsets(&numbers.topic, &places).await?;
    let [first, end] = offsets[..] else {
        return Err(KafkaError::new(KafkaErrorKind::Other, "the broker did not return both offsets"));
    };
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, group: "swiftwater".to_owned(), shares: 1 };
    let mut consumer = kafka.consumer(&numbers.topic, &options)?;
    consumer.assign(0, first);
    let mut last = None;
    loop {
        match consumer.next().await {
            Fetched::Messages(batch) => last = number_in(&batch, numbers).or(last),
            Fetched::End { next, .. } if next >= end => return Ok(last),
            Fetched::End { .. } => {}
            // Compaction never deletes the last number of a key.
            Fetched::Gap { first, .. } => consumer.assign(0, first),
            Fetched::Waiting { error, .. } | Fetched::Failed(error) => return Err(error),
        }
    }
}

/// The last number of a sink in a batch.
fn number_in(batch: &MessageBatch, numbers: &Numbers) -> Option<u64> {
    let of_sink = batch.messages().filter(|message| message.key() == Some(&*numbers.key));
    let number = of_sink.last()?.value().and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    if number.is_none() {
        tracing::warn!(topic = &*numbers.topic, "the topic has a message that is no number of a delivery");
    }
    number
}

impl History {
    /// Writes what has gathered for a sink since its last delivery; returns how far it is then, and nothing where there is none.
    pub(super) async fn write_gathered(
        &self,
        topic: &mut KafkaTopic,
        source: &Rows,
        entry: &SinkEntry,
    ) -> Result<Option<Delivered>, NotGrouped> {
        let gathered = run_blocking(usize::MAX, || self.gather(source, entry, topic.last()));
        let Some(Gathered { portions, delivered }) = gathered.map_err(DeliverError::from)? else {
            return Ok(None);
        };
        if !portions.is_empty() {
            let deliveries = portions.len() as u64;
            let rows: Vec<Bytes> = portions.into_iter().map(|(portion, _)| portion.rows.into()).collect();
            let written = topic.write(&rows, delivered.count - 1).await;
            written.map_err(|error| NotGrouped { deliveries, error })?;
        }
        Ok(Some(delivered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(form: &RowForm, line: &'static str) -> (Option<String>, Option<String>) {
        let portion = Bytes::from_static(line.as_bytes());
        let (key, value) = form.key_and_value(&portion, &portion).unwrap();
        let text = |bytes: Option<Bytes>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        (text(key), text(value))
    }

    #[test]
    fn rows_have_the_key_of_their_column() {
        let row = r#"{"a":1.50,"b":"\u00e4 \"x\"","c":null,"d\"":{"e":[]}}"#;
        let key = |column: &str| message(&RowForm::Row { key: Some(column.into()) }, row).0;
        assert_eq!(key("a").as_deref(), Some("1.50"));
        assert_eq!(key("b").as_deref(), Some("ä \"x\""));
        assert_eq!(key("c"), None);
        assert_eq!(key("d\"").as_deref(), Some(r#"{"e":[]}"#));
        assert_eq!(key("e"), None);
        let whole = message(&RowForm::Row { key: None }, row);
        assert_eq!(whole, (None, Some(row.to_owned())));
    }

    #[test]
    fn changes_have_the_key_of_the_view() {
        let change = |line| {
            let (key, value) = message(&RowForm::Change, line);
            (key.unwrap(), value)
        };
        let row = Some(r#"{"n":1}"#.to_owned());
        assert_eq!(change(r#"{"key":["a"],"row":{"n":1},"position":7}"#), ("a".to_owned(), row.clone()));
        assert_eq!(change(r#"{"key":[null],"row":null,"position":7}"#), ("null".to_owned(), None));
        assert_eq!(change(r#"{"key":[1,"b"],"row":{"n":1},"position":7}"#), (r#"[1,"b"]"#.to_owned(), row));
    }
}
