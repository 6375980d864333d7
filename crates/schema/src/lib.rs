//! Messages with a schema, of Avro and Protobuf, as JSON text.
//!
//! ```text
//! message ─► wire format (schema id, indexes) ─► schema, read once ─► JSON text of one line
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
mod wire;

pub use avro::AvroSchema;
pub use error::{Fault, SchemaError};
#[cfg(feature = "protobuf")]
pub use protobuf::ProtobufSchema;
pub use registered::{Registered, SchemaKind, SchemaReference};
pub use wire::{Framed, unframe};

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
}

#[cfg(not(feature = "protobuf"))]
fn without_protobuf() -> SchemaError {
    SchemaError::new("this binary was built without kafka: make build")
}
