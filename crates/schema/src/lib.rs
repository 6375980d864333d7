//! Messages with a schema, of Avro and Protobuf, as JSON text, and rows of JSON text as such messages.
//!
//! ```text
//! message ─► wire format (schema id, indexes) ─► schema, read once ─► JSON text of one line
//! row, JSON text ─► values whose numbers keep their digits ─► schema, read once ─► message
//! ```
//!
//! Pure: knows no Kafka, no network and no files. The caller fetches schemas and their references, and keeps them.
//! Nothing in a message makes decoding fail other than by a [`Fault`]: nesting has at most [`DEPTH_MAX`] levels, the text at
//! most the bytes that the caller states, and no length is believed before its bytes are there.

mod avro;
mod error;
mod json;
#[cfg(feature = "protobuf")]
mod protobuf;
mod registered;
mod row;
mod wire;

pub use avro::AvroSchema;
pub use error::{Fault, SchemaError};
#[cfg(feature = "protobuf")]
pub use protobuf::ProtobufSchema;
pub use registered::{Registered, SchemaKind, SchemaReference};
pub use wire::{Framed, frame, unframe};

use swiftwater_event::Type;

/// The deepest nesting of lists and objects of a message, the message itself counted.
pub const DEPTH_MAX: usize = 128;

/// The largest schema, with all that it refers to.
pub const SCHEMA_BYTES_MAX: usize = 4 << 20;

/// A schema, ready to decode its messages.
#[derive(Debug)]
pub enum Schema {
    /// Of Avro.
    Avro(AvroSchema),
    /// Of Protobuf.
    #[cfg(feature = "protobuf")]
    Protobuf(ProtobufSchema),
}

impl Schema {
    /// Reads a schema of a registry. `references` are the schemas that it refers to, directly or not, each with the name by
    /// which it is imported, and behind those that it refers to itself.
    pub fn registered(
        kind: SchemaKind,
        text: &str,
        references: &[(String, String)],
    ) -> Result<Schema, SchemaError> {
        let bytes = text.len() + references.iter().map(|(_, text)| text.len()).sum::<usize>();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(SchemaError::new(format!(
                "it has {bytes} bytes; at most {SCHEMA_BYTES_MAX} are read"
            )));
        }
        match kind {
            SchemaKind::Avro => {
                let references: Vec<&str> = references.iter().map(|(_, text)| &**text).collect();
                AvroSchema::parse(text, &references).map(Schema::Avro)
            }
            #[cfg(feature = "protobuf")]
            SchemaKind::Protobuf => ProtobufSchema::parse(text, references).map(Schema::Protobuf),
            #[cfg(not(feature = "protobuf"))]
            SchemaKind::Protobuf => Err(without_protobuf()),
        }
    }

    /// Reads a file with one schema of Avro.
    pub fn avro_file(text: &str) -> Result<Schema, SchemaError> {
        Schema::registered(SchemaKind::Avro, text, &[])
    }

    /// Reads a file with descriptors of Protobuf (`protoc --include_imports --descriptor_set_out`), and chooses a message of it:
    /// the one of this full name, or the only one.
    #[cfg(feature = "protobuf")]
    pub fn descriptor_file(bytes: &[u8], message: Option<&str>) -> Result<Schema, SchemaError> {
        if bytes.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::new(format!("it has more than {SCHEMA_BYTES_MAX} bytes")));
        }
        ProtobufSchema::of_descriptors(bytes, message).map(Schema::Protobuf)
    }

    /// Refuses descriptors of Protobuf: the library for them is not a part of this build.
    #[cfg(not(feature = "protobuf"))]
    pub fn descriptor_file(_: &[u8], _: Option<&str>) -> Result<Schema, SchemaError> {
        Err(without_protobuf())
    }

    /// Adds the JSON text of a message to `out`, on one line; `out` is as before if there is a fault. `payload` is what follows
    /// the id of a registered schema, or a whole message if the schema is from a file. The text has at most `bytes_max` bytes.
    pub fn write_json(&self, payload: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let begin = out.len();
        let written = match self {
            Schema::Avro(schema) => schema.write_json(payload, bytes_max, out),
            #[cfg(feature = "protobuf")]
            Schema::Protobuf(schema) => schema.write_json(payload, bytes_max, out),
        };
        if written.is_err() {
            out.truncate(begin);
        }
        written
    }

    /// Adds the message of a row, a JSON object, to `out`, with at most `bytes_max` bytes; `out` is as before if there is a fault. The
    /// message is what [`Schema::write_json`] reads of a schema from a file. Values are those that it writes; numbers are
    /// also accepted in other forms that mean the same. A field that the row lacks has the default of the schema, or is null.
    pub fn encode(&self, row: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let begin = out.len();
        let written = row::Json::parse(row).and_then(|row| match self {
            Schema::Avro(schema) => schema.encode(&row, bytes_max, out),
            #[cfg(feature = "protobuf")]
            Schema::Protobuf(schema) => schema.encode(&row, bytes_max, out),
        });
        if written.is_err() {
            out.truncate(begin);
        }
        written
    }

    /// Fails if rows have a column that the schema does not have; if `columns` are all of the rows, also if the schema has a
    /// field that needs a value and is not among them.
    pub fn check_columns(&self, columns: &[&str], are_all: bool) -> Result<(), SchemaError> {
        match self {
            Schema::Avro(schema) => schema.check_columns(columns, are_all),
            #[cfg(feature = "protobuf")]
            Schema::Protobuf(schema) => schema.check_columns(columns, are_all),
        }
    }
}

/// A schema as it is registered, to write messages with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its kind.
    pub kind: SchemaKind,
    /// Its text.
    pub text: String,
    /// The bytes of a message between the id of the schema and the payload: of Protobuf, the indexes of the message's type.
    pub indexes: Vec<u8>,
}

impl Registration {
    /// The registration of a file with one schema of Avro.
    pub fn avro(text: &str) -> Registration {
        Registration { kind: SchemaKind::Avro, text: text.to_owned(), indexes: Vec::new() }
    }

    /// The registration of a schema of [`Schema::descriptor_file`]. Fails if its message cannot be registered by itself.
    pub fn protobuf(schema: &Schema) -> Result<Registration, SchemaError> {
        match schema {
            Schema::Avro(_) => Err(SchemaError::new("it is a schema of Avro")),
            #[cfg(feature = "protobuf")]
            Schema::Protobuf(schema) => {
                let (text, indexes) = schema.registration()?;
                Ok(Registration { kind: SchemaKind::Protobuf, text, indexes })
            }
        }
    }
}

/// The text of an Avro schema of rows with these columns: a record of this name, whose fields may all be null. Characters of the
/// name that Avro does not allow become `_`. Fails for a column whose name Avro does not allow, or whose type is not known.
pub fn avro_of_columns(name: &str, columns: &[(Box<str>, Type)]) -> Result<String, SchemaError> {
    avro::schema_of_columns(name, columns)
}

#[cfg(not(feature = "protobuf"))]
fn without_protobuf() -> SchemaError {
    SchemaError::new("this binary was built without kafka: make build")
}
