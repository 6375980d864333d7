//! Avro: schemas in JSON, and their binary data ([specification](https://avro.apache.org/docs/1.12.0/specification/)).
//!
//! Schema and data are read by our own code, and not by `apache-avro` 0.21: that reads a `fixed` with the logical type `uuid`
//! as if it had a length, panics at a name that is no name, follows a recursive schema until the stack is exhausted, and
//! allocates what a length in the data states.

mod columns;
mod decode;
mod encode;
mod schema;

pub(crate) use columns::schema_of_columns;
pub use schema::AvroSchema;

#[cfg(test)]
mod tests;
