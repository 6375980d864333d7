//! The topic of Kafka that a sink writes: `INTO KAFKA (…)` in `CREATE SINK`.
//!
//! ```text
//! CREATE SINK name FROM [CHANGES OF] view INTO KAFKA (topic = 'totals' [, option = value, …]) [WITH (…)]
//! ```

use std::fmt;

use super::{
    kafka::{KAFKA_CONNECTION_DEFAULT, connection_name, quoted, topic_name},
    kafka_format::{KafkaFormat, message_name, registry_url, schema_path},
    options::{Value, named},
    print::write_options,
    sink::header_lines,
};

/// The topic that a sink writes, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct KafkaTarget {
    /// The topic.
    pub topic: Box<str>,
    /// The connection of the settings, `[kafka.NAME]`; not set: [`KAFKA_CONNECTION_DEFAULT`].
    pub connection: Option<Box<str>>,
    /// The column whose value is the key of a message; not set: none, and of changes the key of the view.
    pub key: Option<Box<str>>,
    /// Headers of each message, a `Name: value` a line.
    pub headers: Option<Box<str>>,
    /// The content of a message: Avro or Protobuf; not set: JSON.
    pub format: Option<KafkaFormat>,
    /// The URL of the registry at which the schema is registered, without a slash at its end; not set: messages have no prefix.
    pub registry: Option<Box<str>>,
    /// The file with the schema of Avro; not set: the schema is made of the columns.
    pub schema: Option<Box<str>>,
    /// The file with the descriptors of Protobuf.
    pub descriptor: Option<Box<str>>,
    /// The full name of the message in `descriptor`; not set: it has one alone.
    pub message: Option<Box<str>>,
    /// The choice of the partition by the key; not set: as Java's producers do.
    pub partitioner: Option<KafkaPartitioner>,
    /// The guarantee; not set: exactly once.
    pub delivery: Option<KafkaDelivery>,
}

/// The hash function that chooses the partition of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaPartitioner {
    /// As Java's producers do.
    Murmur2,
    /// As librdkafka's producers do.
    Crc32,
}

/// The guarantee of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaDelivery {
    /// Each delivery is a transaction, with its number: consumers of committed messages see each row once.
    ExactlyOnce,
    /// A delivery may be repeated after an error or a restart.
    AtLeastOnce,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaTargetOption {
    /// `topic = 'totals'`.
    Topic,
    /// `connection = main`.
    Connection,
    /// `key = column`.
    Key,
    /// `headers = 'source: swiftwater'`.
    Headers,
    /// `format = json|avro|protobuf`.
    Format,
    /// `registry = 'http://localhost:8081'`.
    Registry,
    /// `schema = 'totals.avsc'`.
    Schema,
    /// `descriptor = 'totals.desc'`.
    Descriptor,
    /// `message = 'shop.Total'`.
    MessageName,
    /// `partitioner = murmur2|crc32`.
    Partitioner,
    /// `delivery = exactly_once|at_least_once`.
    Delivery,
}

impl KafkaTargetOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [KafkaTargetOption; 11] = [
        KafkaTargetOption::Topic,
        KafkaTargetOption::Connection,
        KafkaTargetOption::Key,
        KafkaTargetOption::Headers,
        KafkaTargetOption::Format,
        KafkaTargetOption::Registry,
        KafkaTargetOption::Schema,
        KafkaTargetOption::Descriptor,
        KafkaTargetOption::MessageName,
        KafkaTargetOption::Partitioner,
        KafkaTargetOption::Delivery,
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            KafkaTargetOption::Topic => "topic",
            KafkaTargetOption::Connection => "connection",
            KafkaTargetOption::Key => "key",
            KafkaTargetOption::Headers => "headers",
            KafkaTargetOption::Format => "format",
            KafkaTargetOption::Registry => "registry",
            KafkaTargetOption::Schema => "schema",
            KafkaTargetOption::Descriptor => "descriptor",
            KafkaTargetOption::MessageName => "message",
            KafkaTargetOption::Partitioner => "partitioner",
            KafkaTargetOption::Delivery => "delivery",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<KafkaTargetOption, String> {
        named(&Self::ALL, Self::text, name)
    }

    /// The values that it accepts, for messages.
    fn accepted_values(self) -> &'static str {
        match self {
            KafkaTargetOption::Topic => "the name of a topic: 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`",
            KafkaTargetOption::Connection => "the name of a connection of the settings, as in [kafka.main]",
            KafkaTargetOption::Key => "the name of a column",
            KafkaTargetOption::Headers => "lines of `Name: value` in ASCII",
            KafkaTargetOption::Format => "json, avro or protobuf",
            KafkaTargetOption::Registry => "the URL of a schema registry, such as 'http://localhost:8081'",
            KafkaTargetOption::Schema => {
                "the path of a file below the directory of schemas, such as 'totals.avsc'"
            }
            KafkaTargetOption::Descriptor => {
                "the path of a file below the directory of schemas, such as 'totals.desc'"
            }
            KafkaTargetOption::MessageName => "the full name of a message, such as 'shop.Total'",
            KafkaTargetOption::Partitioner => "murmur2 or crc32",
            KafkaTargetOption::Delivery => "exactly_once or at_least_once",
        }
    }
}

impl KafkaTarget {
    /// The connection of the settings.
    pub fn connection(&self) -> &str {
        self.connection.as_deref().unwrap_or(KAFKA_CONNECTION_DEFAULT)
    }

    /// The headers of each message.
    pub fn header_lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().flat_map(|text| header_lines(text).flatten())
    }

    /// True if each row is seen once.
    pub fn is_exactly_once(&self) -> bool {
        self.delivery != Some(KafkaDelivery::AtLeastOnce)
    }

    /// Sets an option; the error has the allowed values.
    pub(crate) fn set(&mut self, option: KafkaTargetOption, value: &Value) -> Result<(), String> {
        if let (KafkaTargetOption::Registry, Value::Text(text)) = (option, value) {
            self.registry = Some(registry_url(text)?);
            return Ok(());
        }
        self.set_known(option, value)
            .ok_or_else(|| format!("`{}` must be {}", option.text(), option.accepted_values()))
    }

    fn set_known(&mut self, option: KafkaTargetOption, value: &Value) -> Option<()> {
        let Value::Text(text) = value else { return None };
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        match option {
            KafkaTargetOption::Topic => self.topic = topic_name(text)?,
            KafkaTargetOption::Connection => self.connection = Some(connection_name(text)?),
            KafkaTargetOption::Key if !text.is_empty() => self.key = Some(text.clone()),
            KafkaTargetOption::Headers if header_lines(text).all(|line| line.is_some()) => {
                self.headers = Some(text.clone());
            }
            KafkaTargetOption::Format if is("json") => self.format = None,
            KafkaTargetOption::Format if is("avro") => self.format = Some(KafkaFormat::Avro),
            KafkaTargetOption::Format if is("protobuf") => self.format = Some(KafkaFormat::Protobuf),
            KafkaTargetOption::Schema => self.schema = Some(schema_path(text)?),
            KafkaTargetOption::Descriptor => self.descriptor = Some(schema_path(text)?),
            KafkaTargetOption::MessageName => self.message = Some(message_name(text)?),
            KafkaTargetOption::Partitioner if is("murmur2") => {
                self.partitioner = Some(KafkaPartitioner::Murmur2);
            }
            KafkaTargetOption::Partitioner if is("crc32") => {
                self.partitioner = Some(KafkaPartitioner::Crc32);
            }
            KafkaTargetOption::Delivery if is("exactly_once") => {
                self.delivery = Some(KafkaDelivery::ExactlyOnce);
            }
            KafkaTargetOption::Delivery if is("at_least_once") => {
                self.delivery = Some(KafkaDelivery::AtLeastOnce);
            }
            _ => return None,
        }
        Some(())
    }

    /// The options that are set, with their values as written.
    fn settings(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        KafkaTargetOption::ALL.into_iter().filter_map(move |option| {
            let value = match option {
                KafkaTargetOption::Topic => quoted(&self.topic),
                KafkaTargetOption::Connection => quoted(self.connection.as_ref()?),
                KafkaTargetOption::Key => quoted(self.key.as_ref()?),
                KafkaTargetOption::Headers => quoted(self.headers.as_ref()?),
                KafkaTargetOption::Format => self.format?.text().to_owned(),
                KafkaTargetOption::Registry => quoted(self.registry.as_ref()?),
                KafkaTargetOption::Schema => quoted(self.schema.as_ref()?),
                KafkaTargetOption::Descriptor => quoted(self.descriptor.as_ref()?),
                KafkaTargetOption::MessageName => quoted(self.message.as_ref()?),
                KafkaTargetOption::Partitioner => match self.partitioner? {
                    KafkaPartitioner::Murmur2 => "murmur2".to_owned(),
                    KafkaPartitioner::Crc32 => "crc32".to_owned(),
                },
                KafkaTargetOption::Delivery => match self.delivery? {
                    KafkaDelivery::ExactlyOnce => "exactly_once".to_owned(),
                    KafkaDelivery::AtLeastOnce => "at_least_once".to_owned(),
                },
            };
            Some((option.text(), value))
        })
    }
}

/// The options in parentheses, behind KAFKA.
impl fmt::Display for KafkaTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        write_options(f, self.settings())?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use crate::ddl::tests::normal_form_or_fault as shown;

    #[test]
    fn targets_read_as_they_are_printed() {
        for text in [
            "CREATE SINK s FROM v INTO KAFKA (topic = 'totals')",
            "CREATE SINK s FROM CHANGES OF v INTO KAFKA (topic = 't', connection = 'other', key = 'a b', \
             headers = 'x: 1\ny: it''s', partitioner = crc32, delivery = at_least_once) WITH (batch_rows = 7)",
            "CREATE SINK s FROM v INTO KAFKA (topic = 't', partitioner = murmur2, delivery = exactly_once) \
             WITH (retries = 3, dead_letter = 'lost')",
            "CREATE SINK s FROM v INTO KAFKA (topic = 't', key = 'k', format = avro, registry = 'http://localhost:8081')",
            "CREATE SINK s FROM v INTO KAFKA (topic = 't', format = avro, registry = 'https://r', schema = 'a/t.avsc', \
             delivery = at_least_once)",
            "CREATE SINK s FROM v INTO KAFKA (topic = 't', format = protobuf, descriptor = 't.desc')",
            "CREATE SINK s FROM v INTO KAFKA (topic = 't', format = protobuf, registry = 'http://r', descriptor = 't.desc', \
             message = 'shop.Total')",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown("create sink s from v into kafka (KEY = k, format = JSON, Topic = totals)"),
            "CREATE SINK s FROM v INTO KAFKA (topic = 'totals', key = 'k')"
        );
    }

    #[test]
    fn faulty_targets_are_refused_with_their_place() {
        for (text, fault) in [
            ("CREATE SINK s FROM v INTO KAFKA totals", "1:33: expected `(`, found `totals`"),
            ("CREATE SINK s FROM v INTO KAFKA (key = k)", "1:27: `INTO KAFKA` needs a topic"),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = '')",
                "1:42: `topic` must be the name of a topic: 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, format = avro)",
                "1:27: `format = avro` needs `registry` or `schema`",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, format = protobuf, registry = 'http://r')",
                "1:27: `format = protobuf` needs `descriptor`",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, format = avro, schema = 'a', message = 'M')",
                "1:27: `message` has no meaning with `format = avro`",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, registry = 'http://r')",
                "1:27: `registry` has no meaning with `format = json`",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, format = text)",
                "1:54: `format` must be json, avro or protobuf",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, format = avro, schema = '/etc/t')",
                "1:69: `schema` must be the path of a file below the directory of schemas, such as 'totals.avsc'",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t, delivery = once)",
                "1:56: `delivery` must be exactly_once or at_least_once",
            ),
            ("CREATE SINK s FROM v INTO KAFKA (topic = t, keys = k)", "1:45: no option `keys`"),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t) WITH (headers = 'a: b')",
                "1:61: a topic has no option `headers` in WITH",
            ),
            (
                "CREATE SINK s FROM v INTO KAFKA (topic = t) WITH (timeout = '1 s')",
                "1:61: a topic has no option `timeout` in WITH",
            ),
        ] {
            assert_eq!(shown(text), fault, "{text}");
        }
    }
}
