//! Converts rows inserted into a stream to the structure of its events. A column declared with a PATH is placed at that
//! path, within objects. A text in a JSON column becomes the JSON that it contains.
//!
//! Knows nothing of logs and tables: record batches go in, and record batches that serialize as the events come out.
//! Limits: a path into a list cannot be inserted, nor can two columns of which one is within the other.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, StructArray, UnionArray, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, UnionFields};
use swiftwater_event::{Path, Step, Type};
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};

use crate::durable::stored_stream::Declared;

/// The way events are made of rows with certain columns.
pub(crate) struct EventShape {
    members: Vec<Member>,
    /// The columns of what is made.
    pub(crate) schema: SchemaRef,
}

/// A field of an event, or of an object within.
struct Member {
    key: Box<str>,
    value: Part,
}

enum Part {
    /// A column of the rows.
    Column {
        place: usize,
        name: Box<str>,
        is_json: bool,
    },
    Object(Vec<Member>),
}

impl EventShape {
    /// The shape of a stream's events where these columns are given.
    pub(crate) fn new(declared: &Declared, rows: &Schema) -> Result<EventShape, SqlError> {
        let mut members = Vec::new();
        for (place, field) in rows.fields().iter().enumerate() {
            let name: Box<str> = field.name().as_str().into();
            let known = declared.create.columns.iter().find(|column| column.name == name);
            let (path, is_json) = match known {
                Some(column) => (column.event_path(), column.ty == Type::Any),
                None => (Path::field(name.clone()), declared.columns.is_found_as_json(&name)),
            };
            put(&mut members, path.steps(), Part::Column { place, name, is_json })?;
        }
        let empty = RecordBatch::new_empty(Arc::new(rows.clone()));
        let (fields, _) = built(&members, &empty)?;
        Ok(EventShape { members, schema: Arc::new(Schema::new(fields)) })
    }

    /// Rows as their events, one column for each field.
    pub(crate) fn events(&self, rows: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let (_, columns) = built(&self.members, rows)?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(broken)
    }
}

fn broken(error: arrow_schema::ArrowError) -> SqlError {
    SqlError::new(SqlErrorKind::Internal, "rows cannot be converted to events").with_source(error)
}

/// Adds a column at its path below these.
fn put(members: &mut Vec<Member>, steps: &[Step], column: Part) -> Result<(), SqlError> {
    let name = match &column {
        Part::Column { name, .. } => name.clone(),
        Part::Object(_) => "".into(),
    };
    let (key, rest) = match steps {
        [Step::Key(key), rest @ ..] => (key, rest),
        _ => {
            let what = format!("column `{name}` is inside a list, which INSERT cannot create");
            return Err(SqlError::new(SqlErrorKind::Invalid, what).with_hint(
                "Name the other columns: INSERT INTO s (…); or send events to POST /v1/streams/{stream}/events.",
            ));
        }
    };
    let known = members.iter_mut().find(|member| member.key == *key);
    match (known, rest) {
        (None, []) => members.push(Member { key: key.clone(), value: column }),
        (None, rest) => {
            let mut within = Vec::new();
            put(&mut within, rest, column)?;
            members.push(Member { key: key.clone(), value: Part::Object(within) });
        }
        (Some(Member { value: Part::Object(within), .. }), [_, ..]) => put(within, rest, column)?,
        (Some(other), _) => {
            let what =
                format!("columns `{}` and `{name}` have the same path in the event", first(&other.value));
            return Err(SqlError::new(SqlErrorKind::Invalid, what)
                .with_hint("Name only one of them: INSERT INTO s (…)."));
        }
    }
    Ok(())
}

/// The first column of a part.
fn first(part: &Part) -> &str {
    match part {
        Part::Column { name, .. } => name,
        Part::Object(members) => members.first().map_or("", |member| first(&member.value)),
    }
}

fn built(members: &[Member], rows: &RecordBatch) -> Result<(Vec<FieldRef>, Vec<ArrayRef>), SqlError> {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(members.len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(members.len());
    for Member { key, value } in members {
        let column: ArrayRef = match value {
            Part::Column { place, is_json: true, .. } => json(rows.column(*place))?,
            Part::Column { place, .. } => Arc::clone(rows.column(*place)),
            Part::Object(within) => {
                let (fields, columns) = built(within, rows)?;
                Arc::new(StructArray::try_new(Fields::from(fields), columns, None).map_err(broken)?)
            }
        };
        fields.push(Arc::new(Field::new(&**key, column.data_type().clone(), true)));
        columns.push(column);
    }
    Ok((fields, columns))
}

/// Texts that are JSON as that, others as texts: a union, as SQL writes what is of several kinds.
fn json(column: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let texts: Vec<Option<&str>> = match column.data_type() {
        DataType::Utf8View => column.as_string_view().iter().collect(),
        DataType::Utf8 => column.as_string::<i32>().iter().collect(),
        _ => return Ok(Arc::clone(column)),
    };
    // A line break can only stand between the parts of JSON, and would end the event.
    let as_json = |text: &&str| is_json(text).then(|| text.replace(['\n', '\r'], " "));
    let json: Vec<Option<String>> = texts.iter().map(|text| text.as_ref().and_then(as_json)).collect();
    let kinds: Vec<i8> = json.iter().map(|json| i8::from(json.is_some())).collect();
    let others = texts.iter().zip(&json).map(|(text, json)| if json.is_some() { None } else { *text });
    let others: StringArray = others.collect();
    let fields = UnionFields::from_iter([
        (0, Arc::new(Field::new("str", DataType::Utf8, true))),
        (1, Arc::new(Field::new("object", DataType::Utf8, true))),
    ]);
    let children: Vec<ArrayRef> = vec![Arc::new(others), Arc::new(StringArray::from(json))];
    let union = UnionArray::try_new(fields, ScalarBuffer::from(kinds), None, children).map_err(broken)?;
    Ok(Arc::new(union))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
