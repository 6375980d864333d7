//! A record as fields in order, each spelled as in the answer.

use std::{borrow::Cow, fmt, io};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Names and values, as they stand in the record.
pub(super) struct Record<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Record<'a> {
    /// Reads one record.
    pub(super) fn read(line: &'a [u8]) -> io::Result<Record<'a>> {
        Ok(serde_json::from_slice(line)?)
    }

    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Record<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Record<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Record<'de>, M::Error> {
                let mut fields = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    fields.push((name, value));
                }
                Ok(Record(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value as text without JSON's quotes: text as itself, all else as it is spelled; none for null.
pub(super) fn plain(value: &RawValue) -> Option<Cow<'_, str>> {
    let spelled = value.get();
    match spelled.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => {
            Some(serde_json::from_str::<String>(spelled).map_or(Cow::Borrowed(spelled), Cow::Owned))
        }
        _ => Some(Cow::Borrowed(spelled)),
    }
}

/// Returns true if a value is a number.
pub(super) fn is_number(value: &RawValue) -> bool {
    value.get().as_bytes().first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit())
}
