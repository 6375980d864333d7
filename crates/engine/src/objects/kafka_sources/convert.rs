//! Converts messages to events. A message that is no event is described with its topic, partition, offset and key.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, EventBatch, RefusedText, Rejection, check_block};
use swiftwater_kafka::{Message, MessageBatch, TimestampKind};
use swiftwater_lang::ddl::{KafkaField, KafkaFormat, KafkaSource, OnTombstone};

use crate::objects::kafka_schemas::Schemas;

/// The field of an event with the properties of its message.
const PROPERTIES: &str = "_kafka";

/// Bytes that are kept of a bad message.
const REFUSED_BYTES_KEPT: usize = 1 << 16;

/// Bytes of a key in the description of a bad message.
const KEY_BYTES_SHOWN: usize = 64;

/// The largest event of a stream that declares no `event_bytes_max`: brokers take messages of 1 MB, unless they are set to
/// take larger ones.
pub(crate) const EVENT_BYTES_MAX: u64 = 16 << 20;

/// The events of some messages.
#[derive(Debug)]
pub(crate) struct Converted {
    /// The events, in the order of the messages.
    pub(crate) batch: EventBatch,
    /// The offset of each event's message.
    pub(crate) offsets: Vec<u64>,
    /// The messages, or lines of them, that are no events, with their offsets in ascending order.
    pub(crate) refused: Vec<(u64, RefusedText)>,
    /// Messages without a value that were left out.
    pub(crate) tombstones: u64,
}

/// The messages as lines, an event each.
struct Lines {
    text: Vec<u8>,
    /// The start of each line, and its message.
    starts: Vec<(usize, usize)>,
}

/// Converts messages of a partition of a source, whose schemas are known.
pub(crate) fn convert(
    messages: &MessageBatch,
    range: Range<usize>,
    source: &KafkaSource,
    (schemas, event_bytes_max): (&Schemas, Option<u64>),
) -> Converted {
    let bad = BadMessages { messages, topic: &source.topic, schemas };
    let event_bytes_max = usize::try_from(event_bytes_max.unwrap_or(EVENT_BYTES_MAX)).unwrap_or(usize::MAX);
    let mut decoded = Vec::new();
    let (mut refused, mut tombstones) = (Vec::new(), 0);
    let value_bytes = range.clone().map(|place| messages.value(place).map_or(0, <[u8]>::len) + 1);
    let mut lines =
        Lines { text: Vec::with_capacity(value_bytes.sum()), starts: Vec::with_capacity(range.len()) };
    let properties = Properties {
        fields: source.options.include.as_deref().unwrap_or_default(),
        partition: messages.partition(),
    };
    for (place, message) in messages.messages().enumerate().take(range.end).skip(range.start) {
        let written = match message.value() {
            None if source.options.on_tombstone == Some(OnTombstone::Event) => {
                lines.begin(place);
                properties.write_tombstone(message, &mut lines.text);
                Ok(())
            }
            None => {
                tombstones += 1;
                Ok(())
            }
            Some(value) if source.options.format().has_schema() => {
                decoded.clear();
                let written = schemas.write_json(value, event_bytes_max, &mut decoded);
                written.map_err(Cow::Owned).map(|()| {
                    lines.begin(place);
                    properties.write_event(message, &decoded, &mut lines.text);
                })
            }
            Some(value) => lines.add(place, value, source.options.format(), |value, text| {
                properties.write_event(message, value, text);
            }),
        };
        if let Err(reason) = written {
            refused.push(bad.refusal(place, (1, 1), &reason));
        }
    }
    let limits = CheckLimits {
        event_bytes_max,
        refused_bytes_kept: REFUSED_BYTES_KEPT,
        rejections_described_max: usize::MAX,
        ..CheckLimits::default()
    };
    let (batch, places) = lines.check(&limits, |place, line, rejection| {
        refused.push(bad.refusal(place, (line, rejection.column), &rejection.message));
    });
    refused.sort_by_key(|(offset, _)| *offset);
    let offsets = places.into_iter().map(|place| messages.offsets()[place]).collect();
    Converted { batch, offsets, refused, tombstones }
}

impl Lines {
    /// Checks the lines. Each is one event, or `refuse` is called with its message, its number in the message, and the fault.
    /// Returns the events, with the message of each.
    fn check(
        self,
        limits: &CheckLimits,
        mut refuse: impl FnMut(usize, u64, &Rejection),
    ) -> (EventBatch, Vec<usize>) {
        // Only a text whose first line has the number 1 may begin with a byte order mark.
        const FIRST_LINE: u64 = 2;
        let Lines { text, starts } = self;
        let text = Bytes::from(text);
        let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([text.len()]);
        // Without the line end.
        let lines: Vec<Range<usize>> =
            starts.iter().zip(ends).map(|((start, _), end)| *start..end - 1).collect();
        let checked = check_block(text.clone(), limits, FIRST_LINE);
        let is_line = |(row, line): (usize, &Range<usize>)| checked.batch.span(row) == *line;
        if checked.rejected == 0
            && checked.batch.len() == lines.len()
            && lines.iter().enumerate().all(is_line)
        {
            return (checked.batch, starts.into_iter().map(|(_, message)| message).collect());
        }
        // An event that does not end in its line may have taken others with it, so each line is checked alone.
        let (mut good, mut places, mut before) = (Vec::new(), Vec::new(), None);
        for (line, (_, message)) in lines.into_iter().zip(&starts) {
            let number = match before {
                Some((last, number)) if last == *message => number + 1,
                _ => 1,
            };
            before = Some((*message, number));
            let alone = check_block(text.slice(line), limits, FIRST_LINE);
            match alone.rejections.first() {
                Some(rejection) => refuse(*message, number, rejection),
                None if alone.batch.len() != 1 => {
                    let message_text = "the message is not one event".to_owned();
                    let several = Rejection { line: 1, column: 1, message: message_text, oversize: false };
                    refuse(*message, number, &several);
                }
                None => {
                    good.push(alone.batch);
                    places.push(*message);
                }
            }
        }
        (EventBatch::concat(&good), places)
    }

    fn begin(&mut self, message: usize) {
        self.starts.push((self.text.len(), message));
    }

    /// Adds the lines of a message; the error is the reason why it is no event.
    fn add(
        &mut self,
        message: usize,
        value: &[u8],
        format: KafkaFormat,
        write: impl Fn(&[u8], &mut Vec<u8>),
    ) -> Result<(), Cow<'static, str>> {
        let value = value.trim_ascii();
        match format {
            KafkaFormat::Json if value.is_empty() => return Err("the message is empty".into()),
            KafkaFormat::Json => {
                let line = on_one_line(value)?;
                self.begin(message);
                write(&line, &mut self.text);
            }
            KafkaFormat::Ndjson => {
                for line in value.split(|byte| *byte == b'\n') {
                    let line = line.trim_ascii();
                    if !line.is_empty() {
                        self.begin(message);
                        write(line, &mut self.text);
                    }
                }
                if value.is_empty() {
                    return Err("the message is empty".into());
                }
            }
            // The caller has decoded messages with a schema, which are JSON.
            KafkaFormat::Avro | KafkaFormat::Protobuf => return Err("the stream has no schema".into()),
            KafkaFormat::Text => {
                let Ok(text) = std::str::from_utf8(value) else {
                    return Err("the message is not UTF-8".into());
                };
                let event = serde_json::json!({ "message": text }).to_string();
                self.begin(message);
                write(event.as_bytes(), &mut self.text);
            }
        }
        Ok(())
    }
}

/// A JSON text without line ends, which are white space in JSON; the error is that it is no JSON.
fn on_one_line(value: &[u8]) -> Result<Cow<'_, [u8]>, Cow<'static, str>> {
    if memchr::memchr2(b'\n', b'\r', value).is_none() {
        return Ok(Cow::Borrowed(value));
    }
    // A line end within a string is a fault, which must not disappear.
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(value) {
        return Err(error.to_string().into());
    }
    Ok(value.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect())
}

/// The properties of a message that its event gets.
struct Properties<'s> {
    fields: &'s [KafkaField],
    partition: u32,
}

impl Properties<'_> {
    /// Writes an event with the properties at its end, where they take the place of a field of this name.
    fn write_event(&self, message: Message<'_>, event: &[u8], text: &mut Vec<u8>) {
        match event.split_last() {
            Some((b'}', head)) if !self.fields.is_empty() => {
                text.extend_from_slice(head);
                let is_empty = head.trim_ascii_end() == b"{";
                text.extend_from_slice(if is_empty { b"" } else { b"," });
                self.write(message, text);
                text.extend_from_slice(b"}\n");
            }
            _ => {
                text.extend_from_slice(event);
                text.push(b'\n');
            }
        }
    }

    fn write_tombstone(&self, message: Message<'_>, text: &mut Vec<u8>) {
        text.push(b'{');
        if !self.fields.is_empty() {
            self.write(message, text);
            text.push(b',');
        }
        text.extend_from_slice(b"\"_deleted\":true}\n");
    }

    /// `"_kafka":{…}`.
    fn write(&self, message: Message<'_>, text: &mut Vec<u8>) {
        let mut properties = serde_json::Map::new();
        for field in self.fields {
            let value = match field {
                KafkaField::Key => message.key().map_or(serde_json::Value::Null, bytes_as_json),
                KafkaField::Headers => {
                    let headers = message.headers().map(|(name, value)| {
                        let name = String::from_utf8_lossy(name).into_owned();
                        (name, value.map_or(serde_json::Value::Null, bytes_as_json))
                    });
                    serde_json::Value::Object(headers.collect())
                }
                KafkaField::Timestamp if message.timestamp().kind == TimestampKind::Missing => {
                    serde_json::Value::Null
                }
                KafkaField::Timestamp => message.timestamp().millis.into(),
                KafkaField::Partition => self.partition.into(),
                KafkaField::Offset => message.offset().into(),
            };
            properties.insert(field.text().to_owned(), value);
        }
        text.extend_from_slice(format!("\"{PROPERTIES}\":").as_bytes());
        text.extend_from_slice(serde_json::Value::Object(properties).to_string().as_bytes());
    }
}

/// Bytes as a text; those that are no UTF-8 as an object with their hexadecimal digits.
fn bytes_as_json(bytes: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({ "hex": digits })
        }
    }
}

/// Describes messages that are no events.
struct BadMessages<'m> {
    messages: &'m MessageBatch,
    topic: &'m str,
    schemas: &'m Schemas,
}

impl BadMessages<'_> {
    fn refusal(&self, place: usize, (line, column): (u64, u64), reason: &str) -> (u64, RefusedText) {
        let offset = self.messages.offsets()[place];
        let key = self.messages.key(place).map_or_else(String::new, |key| {
            let shown = String::from_utf8_lossy(&key[..key.len().min(KEY_BYTES_SHOWN)]).into_owned();
            format!(", key `{shown}`")
        });
        let (topic, partition) = (self.topic, self.messages.partition());
        let value = self.messages.value(place).unwrap_or_default();
        let schema = self.schemas.id(value).map_or_else(String::new, |id| format!(", schema {id}"));
        let message = format!(
            "{reason}; a message of topic `{topic}`, partition {partition}, offset {offset}{key}{schema}"
        );
        let kept = &value[..value.len().min(REFUSED_BYTES_KEPT)];
        let rejection = Rejection { line, column, message, oversize: false };
        (offset, RefusedText { rejection, text: kept.to_vec(), is_cut: kept.len() < value.len() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use swiftwater_kafka::{MessageBatchBuilder, Timestamp};
    use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_ddl};

    use super::*;

    fn source(options: &str) -> KafkaSource {
        let text = format!("CREATE STREAM s FROM KAFKA (topic = 't'{options})");
        let parsed = parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)).unwrap();
        let Some(Ddl::CreateStream(create)) = parsed else { panic!("{text}") };
        create.source.unwrap()
    }

    fn messages(values: &[Option<&[u8]>]) -> MessageBatch {
        let mut builder = MessageBatchBuilder::with_capacity(3, values.len(), 100);
        for (at, value) in values.iter().enumerate() {
            let key = format!("k{at}");
            let headers = [(&b"h"[..], Some(&b"\xff"[..])), (&b"g"[..], None)];
            builder.push(10 + at as u64, Timestamp::create(5), Some(key.as_bytes()), *value, headers);
        }
        builder.finish(10 + values.len() as u64)
    }

    fn converted(options: &str, values: &[Option<&[u8]>]) -> (Vec<String>, Vec<String>, u64) {
        let messages = messages(values);
        let Converted { batch, offsets, refused, tombstones } =
            convert(&messages, 0..messages.len(), &source(options), (&Schemas::None, Some(1000)));
        assert_eq!(offsets.len(), batch.len());
        let events = (0..batch.len()).map(|row| String::from_utf8_lossy(batch.event(row)).into_owned());
        let refused = refused.iter().map(|(_, RefusedText { rejection, .. })| {
            format!("{}:{}: {}", rejection.line, rejection.column, rejection.message)
        });
        (events.collect(), refused.collect(), tombstones)
    }

    #[test]
    fn message_is_one_event_of_json() {
        let (events, refused, tombstones) = converted(
            "",
            &[
                Some(b" {\"a\":1} "),
                None,
                Some(b""),
                Some(b"{\"a\":\n 2}"),
                Some(b"{\"a\":3"),
                Some(b"{\"a\":4}{\"a\":5}"),
                Some(b"{\"a\":6} x"),
                Some(b"[{\"a\":7}]"),
                Some(b"{\"a\":\"\n\"}"),
                Some(b"{\"a\":8}"),
                Some(&[b'x'; 2000]),
            ],
        );
        assert_eq!(events, ["{\"a\":1}", "{\"a\":  2}", "{\"a\":8}"]);
        assert_eq!(tombstones, 1);
        let offsets: Vec<&str> = refused.iter().map(|text| text.split("offset ").nth(1).unwrap()).collect();
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            [
                "12, key `k2`",
                "14, key `k4`",
                "15, key `k5`",
                "16, key `k6`",
                "17, key `k7`",
                "18, key `k8`",
                "20, key `k10`"
            ]
        );
        assert!(
            refused.iter().all(|text| text.contains("; a message of topic `t`, partition 3, offset ")),
            "{refused:?}"
        );
        assert!(refused[0].starts_with("1:1: the message is empty"), "{refused:?}");
    }

    #[test]
    fn lines_and_texts_become_events() {
        let (events, refused, _) =
            converted(", format = ndjson", &[Some(b"{\"a\":1}\n\n{\"a\":2}\r\n{\"a\":\n"), Some(b"\n")]);
        assert_eq!(events, ["{\"a\":1}", "{\"a\":2}"]);
        assert_eq!(refused.len(), 2);
        assert!(refused.iter().any(|text| text.starts_with("3:")), "{refused:?}");
        let (events, refused, _) =
            converted(", format = text", &[Some(b"read \"x\"\nat"), Some(b"\xff"), Some(b"")]);
        assert_eq!(events, ["{\"message\":\"read \\\"x\\\"\\nat\"}", "{\"message\":\"\"}"]);
        assert_eq!(
            refused,
            ["1:1: the message is not UTF-8; a message of topic `t`, partition 3, offset 11, key `k1`"]
        );
    }

    #[test]
    fn event_has_the_properties_of_its_message() {
        let all = ", include = (key, headers, timestamp, partition, offset), on_tombstone = event";
        let (events, refused, tombstones) =
            converted(all, &[Some(b"{\"a\":1}"), Some(b"{ }"), None, Some(b"\"}"), Some(b"{\"a\":1}}")]);
        let properties = |at: usize| {
            format!(
                "\"_kafka\":{{\"key\":\"k{at}\",\"headers\":{{\"h\":{{\"hex\":\"ff\"}},\"g\":null}},\"timestamp\":5,\"partition\":3,\"offset\":{}}}",
                10 + at
            )
        };
        let expected = [
            format!("{{\"a\":1,{}}}", properties(0)),
            format!("{{ {}}}", properties(1)),
            format!("{{{},\"_deleted\":true}}", properties(2)),
        ];
        assert_eq!((events, tombstones), (expected.to_vec(), 0));
        assert_eq!(refused.len(), 2, "{refused:?}");
        let (events, _, _) = converted(", on_tombstone = event", &[None]);
        assert_eq!(events, ["{\"_deleted\":true}"]);
    }
}
