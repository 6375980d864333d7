//! The source of a stream that reads a topic of Kafka: `FROM KAFKA (…)` in `CREATE STREAM`.
//!
//! ```text
//! CREATE STREAM name [(item, …)] FROM KAFKA (topic = 'orders' [, option = value, …]) [WITH (…)]
//! ALTER STREAM name PAUSE | RESUME | SET KAFKA (option = value, …)
//! ALTER STREAM [IF EXISTS] name SKIP PARTITION number TO offset
//! ```

use std::fmt;

use swiftwater_event::{Path, StreamName, from_rfc3339, rfc3339};

use super::{
    kafka_format::{KafkaFormat, message_name, registry_url, schema_path},
    options::{Value, named},
    print::{path_text, write_options},
};

/// The connection that is used if none is named.
pub const KAFKA_CONNECTION_DEFAULT: &str = "main";

/// The longest name of a topic, by Kafka's rules.
const TOPIC_BYTES_MAX: usize = 249;

/// The most partitions with which a topic is made.
const PARTITIONS_MAX: u64 = 10_000;

/// The topic that a stream reads, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSource {
    /// The topic.
    pub topic: Box<str>,
    /// The options beside it.
    pub options: KafkaOptions,
    /// The topic is not read at present.
    pub is_paused: bool,
}

/// `ALTER STREAM … SKIP PARTITION 3 TO 1234`: one partition is read from a later offset on. It changes no declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipPartition {
    /// The stream.
    pub name: StreamName,
    /// `IF EXISTS`: a missing one is no error.
    pub if_exists: bool,
    /// The partition.
    pub partition: u32,
    /// The next offset to read.
    pub to: u64,
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KafkaOptions {
    /// The connection of the settings, `[kafka.NAME]`; not set: [`KAFKA_CONNECTION_DEFAULT`].
    pub connection: Option<Box<str>>,
    /// The partitions with which the topic is made if there is none; not set: it is not made.
    pub partitions: Option<u32>,
    /// The content of a message; not set: JSON.
    pub format: Option<KafkaFormat>,
    /// The URL of the registry with the schemas of Avro or Protobuf, without a slash at its end.
    pub registry: Option<Box<str>>,
    /// The file with the schema of Avro.
    pub schema: Option<Box<str>>,
    /// The file with the descriptors of Protobuf.
    pub descriptor: Option<Box<str>>,
    /// The full name of the message in `descriptor`.
    pub message: Option<Box<str>>,
    /// The first message that is read; not set: the latest at the first start.
    pub start: Option<KafkaStart>,
    /// The messages of transactions that are read; not set: committed ones.
    pub isolation: Option<KafkaIsolation>,
    /// The properties of a message that become the field `_kafka` of its event; not set: none.
    pub include: Option<Vec<KafkaField>>,
    /// The treatment of messages without a value; not set: skipped.
    pub on_tombstone: Option<OnTombstone>,
    /// The treatment of messages that were deleted before they were read; not set: depends on whether events are stored.
    pub on_gap: Option<OnGap>,
    /// The path of the value in an event that is its message's key; not set: messages have no key, or an unknown one.
    pub key: Option<Path>,
    /// The choice of the partition by the key; not set: as Java's producers do, if this server writes the messages.
    pub partitioner: Option<SourcePartitioner>,
}

/// The hash function by which the producers of a topic choose the partition of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourcePartitioner {
    /// As Java's producers do.
    Murmur2,
    /// As librdkafka's producers do.
    Crc32,
    /// Another one, or several.
    Unknown,
}

/// The first message that is read of each partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KafkaStart {
    /// The oldest one.
    Earliest,
    /// The next one.
    Latest,
    /// The first one from this time on, in milliseconds since 1970; beyond the last message: the next one.
    Timestamp(i64),
    /// By partition and offset; partitions that are not named are read from their beginning.
    Offsets(Vec<(u32, u64)>),
}

/// The messages of transactions that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaIsolation {
    /// Those of committed transactions.
    ReadCommitted,
    /// All.
    ReadUncommitted,
}

/// A property of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KafkaField {
    /// Its key.
    Key,
    /// Its headers.
    Headers,
    /// Its timestamp.
    Timestamp,
    /// Its partition.
    Partition,
    /// Its offset.
    Offset,
}

/// The treatment of a message without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnTombstone {
    /// It is left out.
    Skip,
    /// It becomes an event with `_deleted`.
    Event,
}

/// The treatment of messages that were deleted before they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnGap {
    /// The partition is not read until a statement allows it.
    Stop,
    /// Reading goes on behind them, and they are counted.
    Skip,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaOption {
    /// `topic = 'orders'`.
    Topic,
    /// `connection = main`.
    Connection,
    /// `partitions = 4`.
    Partitions,
    /// `format = json|ndjson|text|avro|protobuf`.
    Format,
    /// `registry = 'http://localhost:8081'`.
    Registry,
    /// `schema = 'orders.avsc'`.
    Schema,
    /// `descriptor = 'orders.desc'`.
    Descriptor,
    /// `message = 'shop.Order'`.
    MessageName,
    /// `start = earliest|latest|'2026-01-01T00:00:00Z'|'0:5,1:10'`.
    Start,
    /// `isolation = read_committed|read_uncommitted`.
    Isolation,
    /// `include = (key, headers, timestamp, partition, offset)`.
    Include,
    /// `on_tombstone = skip|event`.
    OnTombstone,
    /// `on_gap = stop|skip`.
    OnGap,
    /// `key = 'user.id'`.
    Key,
    /// `partitioner = murmur2|crc32|unknown`.
    Partitioner,
    /// `paused = true|false`.
    Paused,
}

impl KafkaField {
    /// All of them, in the order in which an event has them.
    pub const ALL: [KafkaField; 5] = [
        KafkaField::Key,
        KafkaField::Headers,
        KafkaField::Timestamp,
        KafkaField::Partition,
        KafkaField::Offset,
    ];

    /// The name in the option and in an event.
    pub fn text(self) -> &'static str {
        match self {
            KafkaField::Key => "key",
            KafkaField::Headers => "headers",
            KafkaField::Timestamp => "timestamp",
            KafkaField::Partition => "partition",
            KafkaField::Offset => "offset",
        }
    }
}

impl SourcePartitioner {
    /// All of them.
    const ALL: [SourcePartitioner; 3] =
        [SourcePartitioner::Murmur2, SourcePartitioner::Crc32, SourcePartitioner::Unknown];

    /// Its name.
    fn text(self) -> &'static str {
        match self {
            SourcePartitioner::Murmur2 => "murmur2",
            SourcePartitioner::Crc32 => "crc32",
            SourcePartitioner::Unknown => "unknown",
        }
    }
}

impl KafkaOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [KafkaOption; 16] = [
        KafkaOption::Topic,
        KafkaOption::Connection,
        KafkaOption::Partitions,
        KafkaOption::Format,
        KafkaOption::Registry,
        KafkaOption::Schema,
        KafkaOption::Descriptor,
        KafkaOption::MessageName,
        KafkaOption::Start,
        KafkaOption::Isolation,
        KafkaOption::Include,
        KafkaOption::OnTombstone,
        KafkaOption::OnGap,
        KafkaOption::Key,
        KafkaOption::Partitioner,
        KafkaOption::Paused,
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            KafkaOption::Topic => "topic",
            KafkaOption::Connection => "connection",
            KafkaOption::Partitions => "partitions",
            KafkaOption::Format => "format",
            KafkaOption::Registry => "registry",
            KafkaOption::Schema => "schema",
            KafkaOption::Descriptor => "descriptor",
            KafkaOption::MessageName => "message",
            KafkaOption::Start => "start",
            KafkaOption::Isolation => "isolation",
            KafkaOption::Include => "include",
            KafkaOption::OnTombstone => "on_tombstone",
            KafkaOption::OnGap => "on_gap",
            KafkaOption::Key => "key",
            KafkaOption::Partitioner => "partitioner",
            KafkaOption::Paused => "paused",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<KafkaOption, String> {
        named(&Self::ALL, Self::text, name)
    }

    /// True if it can be changed after the stream was created: what was read so far keeps its meaning.
    pub(crate) fn can_change(self) -> bool {
        use KafkaOption::{Key, Partitioner, Partitions, Paused, Start, Topic};
        !matches!(self, Topic | Partitions | Start | Key | Partitioner | Paused)
    }

    /// The values that it accepts, for messages.
    fn accepted_values(self) -> &'static str {
        match self {
            KafkaOption::Topic => "the name of a topic: 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`",
            KafkaOption::Connection => "the name of a connection of the settings, as in [kafka.main]",
            KafkaOption::Partitions => "a number from 1 to 10000",
            KafkaOption::Format => "json, ndjson, text, avro or protobuf",
            KafkaOption::Registry => "the URL of a schema registry, such as 'http://localhost:8081'",
            KafkaOption::Schema => "the path of a file below the directory of schemas, such as 'orders.avsc'",
            KafkaOption::Descriptor => {
                "the path of a file below the directory of schemas, such as 'orders.desc'"
            }
            KafkaOption::MessageName => "the full name of a message, such as 'shop.Order'",
            KafkaOption::Start => {
                "earliest, latest, a time such as '2026-01-01T00:00:00Z', or offsets such as '0:5,1:10'"
            }
            KafkaOption::Isolation => "read_committed or read_uncommitted",
            KafkaOption::Include => "a list of key, headers, timestamp, partition and offset, in parentheses",
            KafkaOption::OnTombstone => "skip or event",
            KafkaOption::OnGap => "stop or skip",
            KafkaOption::Key => "the path of a value in the events, such as 'user.id'",
            KafkaOption::Partitioner => "murmur2, crc32 or unknown",
            KafkaOption::Paused => "true or false",
        }
    }
}

impl KafkaStart {
    fn parse(text: &str) -> Option<KafkaStart> {
        match text {
            _ if text.eq_ignore_ascii_case("earliest") => Some(KafkaStart::Earliest),
            _ if text.eq_ignore_ascii_case("latest") => Some(KafkaStart::Latest),
            _ => match from_rfc3339(text.as_bytes()) {
                Some(micros) => Some(KafkaStart::Timestamp(micros.div_euclid(1000))),
                None => KafkaStart::parse_offsets(text),
            },
        }
    }

    /// `0:5,1:10`, each partition once; in their order.
    fn parse_offsets(text: &str) -> Option<KafkaStart> {
        let mut offsets = Vec::new();
        for part in text.split(',') {
            let (partition, offset) = part.trim().split_once(':')?;
            let partition: u32 = partition.trim().parse().ok().filter(|number| *number <= i32::MAX as u32)?;
            let offset: u64 = offset.trim().parse().ok().filter(|number| *number <= i64::MAX as u64)?;
            offsets.push((partition, offset));
        }
        offsets.sort_unstable();
        let is_twice = offsets.windows(2).any(|pair| pair[0].0 == pair[1].0);
        (!is_twice).then_some(KafkaStart::Offsets(offsets))
    }
}

impl fmt::Display for KafkaStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KafkaStart::Earliest => f.write_str("earliest"),
            KafkaStart::Latest => f.write_str("latest"),
            KafkaStart::Timestamp(ms) => write!(f, "'{}'", rfc3339(ms.saturating_mul(1000))),
            KafkaStart::Offsets(offsets) => {
                let parts: Vec<String> =
                    offsets.iter().map(|(part, offset)| format!("{part}:{offset}")).collect();
                write!(f, "'{}'", parts.join(","))
            }
        }
    }
}

impl KafkaOptions {
    /// The connection of the settings.
    pub fn connection(&self) -> &str {
        self.connection.as_deref().unwrap_or(KAFKA_CONNECTION_DEFAULT)
    }

    /// The content of a message.
    pub fn format(&self) -> KafkaFormat {
        self.format.unwrap_or(KafkaFormat::Json)
    }

    /// The first message that is read.
    pub fn start(&self) -> KafkaStart {
        self.start.clone().unwrap_or(KafkaStart::Latest)
    }

    /// The treatment of messages that were deleted before they were read: of a stored stream, they are not lost in silence.
    pub fn on_gap(&self, is_stored: bool) -> OnGap {
        self.on_gap.unwrap_or(if is_stored { OnGap::Stop } else { OnGap::Skip })
    }

    /// Takes over those that `other` sets.
    pub(crate) fn overlay(&mut self, other: &KafkaOptions) {
        self.connection = other.connection.clone().or(self.connection.take());
        self.partitions = other.partitions.or(self.partitions);
        self.overlay_schemas(other);
        self.start = other.start.clone().or(self.start.take());
        self.isolation = other.isolation.or(self.isolation);
        self.include = other.include.clone().or(self.include.take());
        self.on_tombstone = other.on_tombstone.or(self.on_tombstone);
        self.on_gap = other.on_gap.or(self.on_gap);
        self.key = other.key.clone().or(self.key.take());
        self.partitioner = other.partitioner.or(self.partitioner);
    }

    /// The options that are set, with their values as written.
    fn settings(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let set = |option: KafkaOption| -> Option<String> {
            Some(match option {
                KafkaOption::Topic | KafkaOption::Paused => return None,
                KafkaOption::Connection => quoted(self.connection.as_ref()?),
                KafkaOption::Partitions => self.partitions?.to_string(),
                KafkaOption::Format => self.format?.text().to_owned(),
                KafkaOption::Registry => quoted(self.registry.as_ref()?),
                KafkaOption::Schema => quoted(self.schema.as_ref()?),
                KafkaOption::Descriptor => quoted(self.descriptor.as_ref()?),
                KafkaOption::MessageName => quoted(self.message.as_ref()?),
                KafkaOption::Start => self.start.as_ref()?.to_string(),
                KafkaOption::Isolation => match self.isolation? {
                    KafkaIsolation::ReadCommitted => "read_committed".to_owned(),
                    KafkaIsolation::ReadUncommitted => "read_uncommitted".to_owned(),
                },
                KafkaOption::Include => {
                    let fields: Vec<&str> = self.include.as_ref()?.iter().map(|field| field.text()).collect();
                    format!("({})", fields.join(", "))
                }
                KafkaOption::OnTombstone => match self.on_tombstone? {
                    OnTombstone::Skip => "skip".to_owned(),
                    OnTombstone::Event => "event".to_owned(),
                },
                KafkaOption::OnGap => match self.on_gap? {
                    OnGap::Stop => "stop".to_owned(),
                    OnGap::Skip => "skip".to_owned(),
                },
                KafkaOption::Key => quoted(&path_text(self.key.as_ref()?)),
                KafkaOption::Partitioner => self.partitioner?.text().to_owned(),
            })
        };
        KafkaOption::ALL.into_iter().filter_map(move |option| Some((option.text(), set(option)?)))
    }
}

impl fmt::Display for KafkaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_options(f, self.settings())
    }
}

impl KafkaSource {
    /// A source of nothing yet: a topic is set by its option.
    pub(crate) fn new() -> KafkaSource {
        KafkaSource { topic: "".into(), options: KafkaOptions::default(), is_paused: false }
    }

    /// Sets an option; the error has the allowed values.
    pub(crate) fn set(&mut self, option: KafkaOption, value: &Value) -> Result<(), String> {
        if let (KafkaOption::Registry, Value::Text(text)) = (option, value) {
            self.options.registry = Some(registry_url(text)?);
            return Ok(());
        }
        self.set_known(option, value)
            .ok_or_else(|| format!("`{}` must be {}", option.text(), option.accepted_values()))
    }

    fn set_known(&mut self, option: KafkaOption, value: &Value) -> Option<()> {
        let options = &mut self.options;
        if let (KafkaOption::Include, Value::Names(names)) = (option, value) {
            options.include = Some(fields(names)?);
            return Some(());
        }
        if let (KafkaOption::Partitions, Value::Number(partitions @ 1..=PARTITIONS_MAX)) = (option, value) {
            options.partitions = u32::try_from(*partitions).ok();
            return Some(());
        }
        let Value::Text(text) = value else { return None };
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        match option {
            KafkaOption::Topic => self.topic = topic_name(text)?,
            KafkaOption::Connection => options.connection = Some(connection_name(text)?),
            KafkaOption::Format => {
                options.format = Some(KafkaFormat::ALL.into_iter().find(|format| is(format.text()))?)
            }
            KafkaOption::Schema => options.schema = Some(schema_path(text)?),
            KafkaOption::Descriptor => options.descriptor = Some(schema_path(text)?),
            KafkaOption::MessageName => options.message = Some(message_name(text)?),
            KafkaOption::Start => options.start = Some(KafkaStart::parse(text.trim())?),
            KafkaOption::Isolation if is("read_committed") => {
                options.isolation = Some(KafkaIsolation::ReadCommitted)
            }
            KafkaOption::Isolation if is("read_uncommitted") => {
                options.isolation = Some(KafkaIsolation::ReadUncommitted);
            }
            KafkaOption::Include => options.include = Some(fields(std::slice::from_ref(text))?),
            KafkaOption::OnTombstone if is("skip") => options.on_tombstone = Some(OnTombstone::Skip),
            KafkaOption::OnTombstone if is("event") => options.on_tombstone = Some(OnTombstone::Event),
            KafkaOption::OnGap if is("stop") => options.on_gap = Some(OnGap::Stop),
            KafkaOption::OnGap if is("skip") => options.on_gap = Some(OnGap::Skip),
            KafkaOption::Key => options.key = Some(Path::parse(text).ok()?),
            KafkaOption::Partitioner => {
                let named = SourcePartitioner::ALL.into_iter().find(|partitioner| is(partitioner.text()));
                options.partitioner = Some(named?);
            }
            KafkaOption::Paused if is("true") => self.is_paused = true,
            KafkaOption::Paused if is("false") => self.is_paused = false,
            _ => return None,
        }
        Some(())
    }
}

/// Fields by their names, each once, in the order in which an event has them.
fn fields(names: &[Box<str>]) -> Option<Vec<KafkaField>> {
    let field =
        |name: &str| KafkaField::ALL.into_iter().find(|field| field.text().eq_ignore_ascii_case(name));
    let mut fields: Vec<KafkaField> = names.iter().map(|name| field(name)).collect::<Option<_>>()?;
    fields.sort_unstable();
    let is_twice = fields.windows(2).any(|pair| pair[0] == pair[1]);
    (!is_twice).then_some(fields)
}

impl fmt::Display for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = [(KafkaOption::Topic.text(), quoted(&self.topic))].into_iter();
        let paused = self.is_paused.then(|| (KafkaOption::Paused.text(), "true".to_owned()));
        f.write_str("FROM KAFKA (")?;
        write_options(f, topic.chain(self.options.settings()).chain(paused))?;
        f.write_str(")")
    }
}

/// The name of a topic, by Kafka's rules.
pub(super) fn topic_name(text: &str) -> Option<Box<str>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = (1..=TOPIC_BYTES_MAX).contains(&text.len()) && text.chars().all(is_part);
    // Kafka refuses these two.
    (is_name && !matches!(text, "." | "..")).then(|| text.into())
}

/// The name of a connection of the settings.
pub(super) fn connection_name(text: &str) -> Option<Box<str>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (!text.is_empty() && text.chars().all(is_part)).then(|| text.into())
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use crate::ddl::tests::normal_form_or_fault as shown;

    #[test]
    fn sources_read_as_they_are_printed() {
        for text in [
            "CREATE STREAM s FROM KAFKA (topic = 'orders')",
            "CREATE STREAM s (\n  a LONG\n) FROM KAFKA (topic = 'a.b-c_d', connection = 'other', format = text, start = earliest, \
             isolation = read_uncommitted, include = (key, offset), on_tombstone = event, on_gap = skip, paused = true) \
             WITH (store = false)",
            "CREATE STREAM s FROM KAFKA (topic = 't', partitions = 4, start = '0:5,1:10')",
            "CREATE STREAM s FROM KAFKA (topic = 't', start = '2026-01-01T00:00:00.250Z')",
            "CREATE STREAM s (\n  ts LONG,\n  WATERMARK FOR ts AS ts MAX AHEAD NONE IDLE AFTER INTERVAL '5 seconds'\n) FROM KAFKA (topic = 't')",
            "ALTER STREAM s PAUSE",
            "ALTER STREAM s RESUME, SET (retention = '1 day')",
            "ALTER STREAM s SET KAFKA (connection = 'other', on_gap = skip)",
            "ALTER STREAM s SKIP PARTITION 3 TO 1234",
            "ALTER STREAM IF EXISTS \"a-b\" SKIP PARTITION 0 TO 9223372036854775807",
        ] {
            assert_eq!(shown(text), text);
        }
        for text in [
            "CREATE STREAM s FROM KAFKA (topic = 't') WITH (produce = true)",
            "CREATE STREAM s FROM KAFKA (topic = 't', key = 'user[0].id', partitioner = crc32) WITH (event_bytes_max = \
             '64KiB', produce = true)",
            "CREATE STREAM s FROM KAFKA (topic = 't', key = '[''a.b'']', partitioner = unknown) WITH (produce = false)",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown(
                "create stream s from kafka (topic = t, PARTITIONER = Murmur2, key = k) with (PRODUCE = True)"
            ),
            "CREATE STREAM s FROM KAFKA (topic = 't', key = 'k', partitioner = murmur2) WITH (produce = true)"
        );
        assert_eq!(
            shown("CREATE STREAM s (ts LONG, WATERMARK FOR ts AS ts) FROM KAFKA (topic = t)"),
            "CREATE STREAM s (\n  ts LONG,\n  WATERMARK FOR ts AS ts MAX AHEAD INTERVAL '1 hour' IDLE AFTER INTERVAL '30 seconds'\n) \
             FROM KAFKA (topic = 't')"
        );
        assert_eq!(
            shown(
                "create stream s from kafka (TOPIC = orders, include = (offset, KEY), start = ' 1:2 , 0:1')"
            ),
            "CREATE STREAM s FROM KAFKA (topic = 'orders', start = '0:1,1:2', include = (key, offset))"
        );
    }

    #[test]
    fn faulty_sources_are_refused_with_their_place() {
        for (text, fault) in [
            ("CREATE STREAM s FROM orders", "1:22: expected KAFKA, found `orders`"),
            ("CREATE STREAM s FROM KAFKA (format = json)", "1:22: `FROM KAFKA` needs a topic"),
            (
                "CREATE STREAM s FROM KAFKA (topic = 'a b')",
                "1:37: `topic` must be the name of a topic: 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, format = xml)",
                "1:49: `format` must be json, ndjson, text, avro or protobuf",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, start = '0:1,0:2')",
                "1:48: `start` must be earliest, latest, a time such as '2026-01-01T00:00:00Z', or offsets such as '0:5,1:10'",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, include = (key, value))",
                "1:50: `include` must be a list of key, headers, timestamp, partition and offset, in parentheses",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, partitions = 0)",
                "1:53: `partitions` must be a number from 1 to 10000",
            ),
            ("CREATE STREAM s FROM KAFKA (topic = t, topics = u)", "1:40: no option `topics`"),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, key = 'a..b')",
                "1:46: `key` must be the path of a value in the events, such as 'user.id'",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, key = a, partitioner = crc)",
                "1:63: `partitioner` must be murmur2, crc32 or unknown",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, partitioner = crc32)",
                "1:22: `partitioner` of a topic needs `key`",
            ),
            (
                "CREATE STREAM s (ts LONG, WATERMARK FOR ts AS ts) FROM KAFKA (topic = t, format = ndjson)",
                "1:51: a stream with a WATERMARK cannot have `format = ndjson`",
            ),
            (
                "CREATE STREAM s (TS LONG DEFAULT NOW, WATERMARK FOR ts AS ts) FROM KAFKA (topic = t)",
                "1:34: the column of a WATERMARK over a topic can have no default",
            ),
            ("CREATE STREAM s WITH (produce = true)", "1:33: `produce` needs a topic"),
            (
                "CREATE STREAM s FROM KAFKA (topic = t) WITH (produce = 1)",
                "1:56: `produce` must be true or false",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t) WITH (store = true, produce = true)",
                "1:70: a stored stream cannot `produce`",
            ),
            (
                "CREATE STREAM s (a LONG) FROM KAFKA (topic = t) WITH (produce = true)",
                "1:65: a stored stream cannot `produce`",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, format = text) WITH (produce = true)",
                "1:71: messages in text cannot be produced: `format` must be json",
            ),
            (
                "CREATE STREAM s FROM KAFKA (topic = t, key = a, partitioner = unknown) WITH (produce = true)",
                "1:88: events with a `key` cannot be produced by an unknown `partitioner`",
            ),
            ("ALTER STREAM s SKIP 3", "1:21: expected PARTITION, found `3`"),
            (
                "ALTER STREAM s SKIP PARTITION",
                "1:30: expected the number of a partition, found the end of the query",
            ),
            ("ALTER STREAM s SKIP PARTITION -1 TO 2", "1:31: expected the number of a partition, found `-`"),
            (
                "ALTER STREAM s SKIP PARTITION 4294967296 TO 2",
                "1:31: the number of a partition can be at most 2147483647",
            ),
            ("ALTER STREAM s SKIP PARTITION 1 2", "1:33: expected TO, found `2`"),
            ("ALTER STREAM s SKIP PARTITION 1 TO x", "1:36: expected an offset, found `x`"),
            (
                "ALTER STREAM s SKIP PARTITION 1 TO 9223372036854775808",
                "1:36: an offset can be at most 9223372036854775807",
            ),
            (
                "ALTER STREAM s SKIP PARTITION 1 TO 2, RESUME",
                "1:37: SKIP PARTITION is a statement of its own",
            ),
            (
                "ALTER STREAM s RESUME, SKIP PARTITION 1 TO 2",
                "1:24: SKIP PARTITION is a statement of its own",
            ),
            ("ALTER STREAM s SET (produce = true)", "1:16: `produce` of a stream cannot be changed"),
            ("ALTER STREAM s RESET (ack, produce)", "1:16: `produce` of a stream cannot be changed"),
            ("ALTER STREAM s SET KAFKA (key = k)", "1:27: `key` of a stream cannot be changed"),
            ("ALTER STREAM s SET KAFKA (topic = t)", "1:27: `topic` of a stream cannot be changed"),
            ("ALTER STREAM s SET KAFKA (start = latest)", "1:27: `start` of a stream cannot be changed"),
        ] {
            assert_eq!(shown(text), fault, "{text}");
        }
    }
}
