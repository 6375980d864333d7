//! Declared types of a stream's fields, and the file that declares them.
//!
//! ```text
//! {"carrier": "STRING", "delays": "LIST[LONG]"}                        native
//! [{"name": "carrier", "type": "STRING", "description": "…"}, …]       Bullet's; its other entries are ignored
//! ```
//!
//! A stream's declaration contains more than a file: the path of a column in an event, and the lateness of events.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use swiftwater_event::{Path, Type, did_you_mean};

use crate::lexer::short;

/// A watermark's bounds, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeBounds {
    /// The lateness.
    pub lateness_ms: u64,
    /// `MAX AHEAD`; none: no bound.
    pub max_ahead_ms: Option<u64>,
    /// `IDLE AFTER`; none: event time never advances without an event.
    pub idle_after_ms: Option<u64>,
}

/// The fields that are known to have a type. In the Bullet dialect a query may name no others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    fields: BTreeMap<Box<str>, Type>,
    /// The paths that are not the event's field of their name.
    paths: BTreeMap<Box<str>, Path>,
    watermark: Option<(Box<str>, TimeBounds)>,
}

/// A schema file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// The fault and its place.
    pub message: String,
}

impl Schema {
    /// A schema of these fields.
    pub fn new(fields: impl IntoIterator<Item = (Box<str>, Type)>) -> Schema {
        Schema { fields: fields.into_iter().collect(), ..Schema::default() }
    }

    /// The same, with fields that lie elsewhere in the event than in its field of that name.
    #[must_use]
    pub fn with_paths(self, paths: impl IntoIterator<Item = (Box<str>, Path)>) -> Schema {
        Schema { paths: paths.into_iter().collect(), ..self }
    }

    /// The same, with the field that has the event time, and its bounds.
    #[must_use]
    pub fn with_watermark(self, field: impl Into<Box<str>>, bounds: TimeBounds) -> Schema {
        Schema { watermark: Some((field.into(), bounds)), ..self }
    }

    /// Reads a schema file in either form; see the head of this module.
    pub fn from_json(text: &str) -> Result<Schema, SchemaError> {
        let fields: Fields = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            // serde_json's text ends in the place, which stands first in ours.
            let text = error.to_string();
            let what = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
            SchemaError { message: format!("{line}:{column}: {what}") }
        })?;
        Ok(Schema { fields: fields.0, ..Schema::default() })
    }

    /// The declared type of a field.
    pub fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name)
    }

    /// The path of a field in an event.
    pub fn path(&self, name: &str) -> Path {
        self.paths.get(name).cloned().unwrap_or_else(|| Path::field(name))
    }

    /// The fields that lie elsewhere than in the event's field of that name.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.paths.iter().map(|(name, path)| (&**name, path))
    }

    /// The field that has the event time, and its bounds.
    pub fn watermark(&self) -> Option<(&str, TimeBounds)> {
        self.watermark.as_ref().map(|(field, bounds)| (&**field, *bounds))
    }

    /// All fields, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.fields.iter().map(|(name, ty)| (&**name, ty))
    }
}

/// The fields of a file. Read by hand so that faults within it have a line and column.
#[derive(Default)]
struct Fields(BTreeMap<Box<str>, Type>);

impl Fields {
    fn insert<E: Error>(&mut self, name: String, ty: &str) -> Result<(), E> {
        if name.is_empty() {
            return Err(E::custom("a field's name cannot be empty"));
        }
        let parsed = match ty.trim() {
            // Bullet's word for containers of mixed or no elements.
            ty if ty.to_ascii_uppercase().starts_with("UNKNOWN") => Type::Any,
            ty => Type::parse(ty).map_err(|error| {
                const TYPES: [&str; 6] = ["STRING", "BOOLEAN", "INTEGER", "LONG", "FLOAT", "DOUBLE"];
                let near =
                    did_you_mean(ty, TYPES).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                E::custom(format!("field `{}`: {error}{near}", short(&name)))
            })?,
        };
        match self.0.insert(name.as_str().into(), parsed) {
            Some(_) => Err(E::custom(format!("field `{}` is declared twice", short(&name)))),
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields and their types, or a list of objects with `name` and `type`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some((name, ty)) = map.next_entry::<String, String>()? {
            fields.insert(name, &ty)?;
        }
        Ok(fields)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Fields, A::Error> {
        #[derive(Deserialize)]
        struct Declared {
            name: String,
            #[serde(rename = "type")]
            ty: String,
        }
        let mut fields = Fields::default();
        while let Some(field) = seq.next_element::<Declared>()? {
            fields.insert(field.name, &field.ty)?;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match Schema::from_json(text) {
            Ok(schema) => {
                schema.fields().map(|(name, ty)| format!("{name} {ty}")).collect::<Vec<_>>().join(", ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn both_forms_are_read() {
        check("{}", "");
        check(r#"{"b": "long", "a": "LIST[MAP[STRING]]"}"#, "a LIST[MAP[STRING]], b LONG");
        check(
            r#"[{"name": "m", "type": "STRING_MAP_LIST", "description": "x", "subFields": []}]"#,
            "m LIST[MAP[STRING]]",
        );
        check(
            r#"[{"name": "u", "type": "UNKNOWN_MAP"}, {"name": "t", "type": "TIMESTAMP"}]"#,
            "t TIMESTAMP, u ANY",
        );
    }

    #[test]
    fn faults_tell_their_place() {
        check(
            "{\"a\": \"LONG\",\n \"b\": \"STRNG\"}",
            "2:14: field `b`: no type `STRNG` (did you mean STRING?)",
        );
        check("{\"a\": \"LONG\", \"a\": \"LONG\"}", "1:26: field `a` is declared twice");
        check("{\"\": \"LONG\"}", "1:12: a field's name cannot be empty");
        check("{\"a\": 5}", "1:7: invalid type: integer `5`, expected a string");
        check("[{\"name\": \"a\"}]", "1:14: missing field `type`");
        check("{\"a\": \"LONG\"", "1:12: EOF while parsing an object");
        check(
            "5",
            "1:1: invalid type: integer `5`, expected an object of fields and their types, or a list of objects with \
             `name` and `type`",
        );
    }
}
