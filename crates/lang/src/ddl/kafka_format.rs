//! The content of a topic's messages, and where their schemas are: the options `format`, `registry`, `schema`, `descriptor`
//! and `message` of a stream that reads a topic, and of a sink that writes one.

use super::{
    kafka::{KafkaOption, KafkaOptions},
    kafka_target::{KafkaTarget, KafkaTargetOption},
};

/// The longest URL of a registry.
const URL_BYTES_MAX: usize = 2048;

/// The longest path of a file, and the longest name of a message.
const NAME_BYTES_MAX: usize = 1024;

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaFormat {
    /// One JSON object.
    Json,
    /// JSON objects, one per line.
    Ndjson,
    /// A text, which becomes the field `message` of an event.
    Text,
    /// A record of Avro.
    Avro,
    /// A message of Protobuf.
    Protobuf,
}

/// The place of the schemas of Avro or Protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KafkaSchemas<'s> {
    /// A schema registry at this URL, without a slash at its end. Each message begins with the id of its schema.
    Registry(&'s str),
    /// A file with one schema of Avro, by its path. Messages have no prefix.
    AvroFile(&'s str),
    /// A file with descriptors of Protobuf, by its path. Messages have no prefix.
    Descriptor {
        /// The file.
        path: &'s str,
        /// The full name of the message; `None` if the file defines one alone.
        message: Option<&'s str>,
    },
}

impl KafkaFormat {
    pub(super) const ALL: [KafkaFormat; 5] =
        [KafkaFormat::Json, KafkaFormat::Ndjson, KafkaFormat::Text, KafkaFormat::Avro, KafkaFormat::Protobuf];

    /// The value of the option.
    pub fn text(self) -> &'static str {
        match self {
            KafkaFormat::Json => "json",
            KafkaFormat::Ndjson => "ndjson",
            KafkaFormat::Text => "text",
            KafkaFormat::Avro => "avro",
            KafkaFormat::Protobuf => "protobuf",
        }
    }

    /// True if its messages have a schema.
    pub fn has_schema(self) -> bool {
        matches!(self, KafkaFormat::Avro | KafkaFormat::Protobuf)
    }

    /// The options of this format that say where schemas are.
    fn options(self) -> &'static [KafkaOption] {
        match self {
            KafkaFormat::Json | KafkaFormat::Ndjson | KafkaFormat::Text => &[],
            KafkaFormat::Avro => &[KafkaOption::Registry, KafkaOption::Schema],
            KafkaFormat::Protobuf => {
                &[KafkaOption::Registry, KafkaOption::Descriptor, KafkaOption::MessageName]
            }
        }
    }
}

impl KafkaOptions {
    /// The place of the schemas; `None` if the format has none.
    pub fn schemas(&self) -> Option<KafkaSchemas<'_>> {
        if let Some(url) = &self.registry {
            return Some(KafkaSchemas::Registry(url));
        }
        if let Some(path) = &self.schema {
            return Some(KafkaSchemas::AvroFile(path));
        }
        let path = self.descriptor.as_deref()?;
        Some(KafkaSchemas::Descriptor { path, message: self.message.as_deref() })
    }

    /// Checks the place of schemas against the format. The error has a message and a hint.
    pub(crate) fn check_schemas(&self) -> Result<(), (String, &'static str)> {
        let format = self.format();
        let set = [
            (KafkaOption::Registry, self.registry.is_some()),
            (KafkaOption::Schema, self.schema.is_some()),
            (KafkaOption::Descriptor, self.descriptor.is_some()),
            (KafkaOption::MessageName, self.message.is_some()),
        ];
        let is_set = |option: KafkaOption| set.contains(&(option, true));
        let allowed = format.options();
        if let Some((option, _)) = set.iter().find(|(option, is_set)| *is_set && !allowed.contains(option)) {
            let message = format!("`{}` has no meaning with `format = {}`", option.text(), format.text());
            return Err((
                message,
                "`registry` and `schema` are for avro; `registry`, `descriptor` and `message` for protobuf.",
            ));
        }
        let (file, hint) = match format {
            KafkaFormat::Avro => (
                KafkaOption::Schema,
                "Write registry = 'http://localhost:8081' for messages that begin with the id of their schema, or \
                 schema = 'orders.avsc' for those without.",
            ),
            KafkaFormat::Protobuf => (
                KafkaOption::Descriptor,
                "Write registry = 'http://localhost:8081' for messages that begin with the id of their schema, or \
                 descriptor = 'orders.desc' for those without.",
            ),
            KafkaFormat::Json | KafkaFormat::Ndjson | KafkaFormat::Text => return Ok(()),
        };
        let fault = |what: &str| {
            let message = format!("`format = {}` {what} `registry` and `{}`", format.text(), file.text());
            Err((message, hint))
        };
        match (is_set(KafkaOption::Registry), is_set(file)) {
            (true, true) => fault("takes one of the options"),
            (false, false) => fault("needs one of the options"),
            (true, false) if is_set(KafkaOption::MessageName) => Err((
                "`message` has no meaning with `registry`".to_owned(),
                "Each message names its type itself.",
            )),
            _ => Ok(()),
        }
    }

    /// Takes over format and place of schemas from `other`. A new place takes that of the present one, and a format that has none
    /// ends it.
    pub(super) fn overlay_schemas(&mut self, other: &KafkaOptions) {
        self.format = other.format.or(self.format);
        let has_place = other.registry.is_some() || other.schema.is_some() || other.descriptor.is_some();
        if has_place || self.format().options().is_empty() {
            (self.registry, self.schema, self.descriptor, self.message) = (None, None, None, None);
        }
        self.registry = other.registry.clone().or(self.registry.take());
        self.schema = other.schema.clone().or(self.schema.take());
        self.descriptor = other.descriptor.clone().or(self.descriptor.take());
        self.message = other.message.clone().or(self.message.take());
    }
}

impl KafkaTarget {
    /// The content of a message.
    pub fn format(&self) -> KafkaFormat {
        self.format.unwrap_or(KafkaFormat::Json)
    }

    /// Checks the place of the schema against the format. The error has a message and a hint.
    pub(crate) fn check_schema(&self) -> Result<(), (String, &'static str)> {
        use KafkaTargetOption::{Descriptor, MessageName, Registry, Schema};
        let format = self.format();
        let allowed: &[KafkaTargetOption] = match format {
            KafkaFormat::Json | KafkaFormat::Ndjson | KafkaFormat::Text => &[],
            KafkaFormat::Avro => &[Registry, Schema],
            KafkaFormat::Protobuf => &[Registry, Descriptor, MessageName],
        };
        let set = [
            (Registry, self.registry.is_some()),
            (Schema, self.schema.is_some()),
            (Descriptor, self.descriptor.is_some()),
            (MessageName, self.message.is_some()),
        ];
        if let Some((option, _)) = set.iter().find(|(option, is_set)| *is_set && !allowed.contains(option)) {
            return Err((
                format!("`{}` has no meaning with `format = {}`", option.text(), format.text()),
                "`registry` and `schema` are for avro; `registry`, `descriptor` and `message` for protobuf.",
            ));
        }
        match format {
            KafkaFormat::Avro if self.registry.is_none() && self.schema.is_none() => Err((
                "`format = avro` needs `registry` or `schema`".to_owned(),
                "Write registry = 'http://localhost:8081' for messages that begin with the id of their schema, \
                 schema = 'totals.avsc' for those without, or both to register the schema of the file.",
            )),
            KafkaFormat::Protobuf if self.descriptor.is_none() => Err((
                "`format = protobuf` needs `descriptor`".to_owned(),
                "Write descriptor = 'totals.desc', and registry = 'http://localhost:8081' to register it.",
            )),
            _ => Ok(()),
        }
    }
}

/// The URL of a registry, without slashes at its end; the error says what to do.
pub(super) fn registry_url(text: &str) -> Result<Box<str>, &'static str> {
    const EXPECTED: &str = "`registry` must be the URL of a schema registry, such as 'http://localhost:8081'";
    let url = text.trim_end_matches('/');
    let scheme = ["http://", "https://"]
        .iter()
        .find(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let rest = scheme.map(|scheme| &url[scheme.len()..]).ok_or(EXPECTED)?;
    let host = rest.split('/').next().unwrap_or_default();
    if rest.contains('@') {
        return Err(
            "`registry` must not contain a user name or a password, which everybody who lists streams would see: set \
                    `registry`, `registry_username` and `registry_password_file` of the connection in the settings",
        );
    }
    let is_part = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\' | '"' | '<' | '>' | '\'');
    let is_url = !host.is_empty() && url.len() <= URL_BYTES_MAX && url.chars().all(is_part);
    if is_url { Ok(url.into()) } else { Err(EXPECTED) }
}

/// The path of a file below the directory of schemas.
pub(super) fn schema_path(text: &str) -> Option<Box<str>> {
    let is_below = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let is_path = text.len() <= NAME_BYTES_MAX && !text.chars().any(|c| c.is_control() || c == '\\');
    (is_below && is_path).then(|| text.into())
}

/// The full name of a message, `pkg.Name`.
pub(super) fn message_name(text: &str) -> Option<Box<str>> {
    let is_name = |part: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && part.chars().all(is_part)
    };
    (text.len() <= NAME_BYTES_MAX && text.split('.').all(is_name)).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use crate::ddl::tests::normal_form_or_fault as shown;

    #[test]
    fn formats_with_schemas_read_as_they_are_printed() {
        for text in [
            "CREATE STREAM s FROM KAFKA (topic = 't', format = avro, registry = 'http://localhost:8081')",
            "CREATE STREAM s FROM KAFKA (topic = 't', format = avro, schema = 'a/it''s.avsc')",
            "CREATE STREAM s FROM KAFKA (topic = 't', format = protobuf, registry = 'https://r/path', start = earliest)",
            "CREATE STREAM s FROM KAFKA (topic = 't', format = protobuf, descriptor = 'all.desc', message = 'pkg.Order')",
            "ALTER STREAM s SET KAFKA (registry = 'http://[::1]:8081')",
            "ALTER STREAM s SET KAFKA (format = avro, schema = 'b.avsc')",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown("create stream s from kafka (topic = t, registry = 'http://r:1//', format = AVRO)"),
            "CREATE STREAM s FROM KAFKA (topic = 't', format = avro, registry = 'http://r:1')"
        );
    }

    #[test]
    fn faulty_places_of_schemas_are_refused() {
        let registry = "`registry` must be the URL of a schema registry, such as 'http://localhost:8081'";
        for (options, fault) in [
            ("format = avro", "1:22: `format = avro` needs one of the options `registry` and `schema`"),
            (
                "format = protobuf",
                "1:22: `format = protobuf` needs one of the options `registry` and `descriptor`",
            ),
            (
                "format = avro, registry = 'http://r', schema = 'a'",
                "1:22: `format = avro` takes one of the options `registry` and `schema`",
            ),
            ("format = avro, descriptor = 'a'", "1:22: `descriptor` has no meaning with `format = avro`"),
            ("registry = 'http://r'", "1:22: `registry` has no meaning with `format = json`"),
            (
                "format = avro, schema = 'a', message = 'M'",
                "1:22: `message` has no meaning with `format = avro`",
            ),
            (
                "format = protobuf, registry = 'http://r', message = 'M'",
                "1:22: `message` has no meaning with `registry`",
            ),
            ("format = avro, registry = 'r:8081'", &format!("1:66: {registry}")),
            ("format = avro, registry = 'http://'", &format!("1:66: {registry}")),
            ("format = avro, registry = 'http://r?x=1'", &format!("1:66: {registry}")),
            (
                "format = avro, registry = 'http://me:secret@r:8081'",
                "1:66: `registry` must not contain a user name or a password, which everybody who lists streams would see: set \
                 `registry`, `registry_username` and `registry_password_file` of the connection in the settings",
            ),
            (
                "format = avro, schema = '../a.avsc'",
                "1:64: `schema` must be the path of a file below the directory of schemas, such as 'orders.avsc'",
            ),
            (
                "format = avro, schema = '/etc/passwd'",
                "1:64: `schema` must be the path of a file below the directory of schemas, such as 'orders.avsc'",
            ),
            (
                "format = protobuf, descriptor = 'a', message = 'a b'",
                "1:87: `message` must be the full name of a message, such as 'shop.Order'",
            ),
        ] {
            let text = format!("CREATE STREAM s FROM KAFKA (topic = t, {options})");
            assert_eq!(shown(&text), fault, "{text}");
        }
    }
}
