//! The schemas of messages in topics of Kafka: from a file, or from a registry that is asked for them, or told of them.

mod registry;
mod schemas;

pub(crate) use schemas::{SchemaNews, Schemas};
