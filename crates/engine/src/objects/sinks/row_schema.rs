//! The schema of the messages that a sink writes into a topic: of a file, or made from the columns of its rows. With a registry it
//! is registered under the subject `TOPIC-value`, and each message begins with its id.

use swiftwater_event::Type;
use swiftwater_lang::ddl::{CreateSink, KafkaFormat, KafkaTarget};
use swiftwater_schema::{Fault, Registration, Schema, SchemaKind, avro_of_columns, frame};

use super::{deliver::DeliverError, event_query::EventQuery};
use crate::{EngineError, SinkError, durable::history::History, objects::views::View};

/// The largest message, which is more than brokers take.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The columns of rows, as far as they are known before there is a row.
#[derive(Debug)]
pub(super) struct RowColumns {
    /// Those that are known.
    pub(super) names: Vec<Box<str>>,
    /// No row has another one.
    pub(super) are_all: bool,
    /// Their types; the error is the reason why they are not all known.
    pub(super) typed: Result<Vec<(Box<str>, Type)>, String>,
}

impl RowColumns {
    /// The columns of a view's rows.
    pub(super) fn of_view(view: &View) -> RowColumns {
        RowColumns {
            names: view.columns.iter().map(|(name, _)| name.clone()).collect(),
            are_all: true,
            typed: Ok(view.columns.clone()),
        }
    }

    /// The columns of the rows of a query over events.
    pub(super) fn of_query(query: &EventQuery) -> RowColumns {
        let columns = query.columns();
        let declared = query.stored.declared();
        let fields = declared.create.columns.iter().map(|column| column.name.clone());
        let computed = columns.computed.iter().map(|(name, _)| name.clone());
        RowColumns {
            names: fields.filter(|_| columns.has_star).chain(computed).collect(),
            are_all: !columns.has_star,
            typed: columns.typed().map(<[_]>::to_vec),
        }
    }
}

/// The schema of a sink's messages.
#[derive(Debug)]
pub(super) struct RowSchema {
    schema: Schema,
    /// The bytes before each message; empty without a registry.
    prefix: Vec<u8>,
}

impl RowSchema {
    /// The schema of a sink's messages, registered; none if they are JSON.
    pub(super) async fn open(
        history: &History,
        create: &CreateSink,
        target: &KafkaTarget,
        columns: &RowColumns,
    ) -> Result<Option<RowSchema>, DeliverError> {
        let Some((schema, registration)) = declared(history, create, target, columns)? else {
            return Ok(None);
        };
        let prefix = match (&target.registry, registration) {
            (Some(url), Some(registration)) => {
                let registry = history.registry(url, target.connection(), registration.kind);
                let registry = registry.map_err(DeliverError::Registry)?;
                let subject = format!("{}-value", target.topic);
                let id = registry.register(&subject, &registration).await.map_err(DeliverError::Registry)?;
                frame(id, &registration.indexes)
            }
            _ => Vec::new(),
        };
        Ok(Some(RowSchema { schema, prefix }))
    }

    /// The message of a row, a JSON object.
    pub(super) fn encode(&self, row: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut message = self.prefix.clone();
        self.schema.encode(row, MESSAGE_BYTES_MAX, &mut message)?;
        Ok(message)
    }
}

impl History {
    /// Refuses a sink whose schema cannot be read, or does not have the columns of the rows, as far as that can be known without
    /// asking a registry.
    pub(super) fn check_row_schema(
        &self,
        create: &CreateSink,
        target: &KafkaTarget,
        columns: &RowColumns,
    ) -> Result<(), EngineError> {
        declared(self, create, target, columns)?;
        if let Some(url) = &target.registry {
            let kind = match target.format() {
                KafkaFormat::Protobuf => SchemaKind::Protobuf,
                _ => SchemaKind::Avro,
            };
            let registry = self.registry(url, target.connection(), kind);
            registry.map(drop).map_err(SinkError::Target)?;
        }
        Ok(())
    }
}

/// The schema of a sink's messages, and what is to be registered if it has a registry; none if they are JSON.
fn declared(
    history: &History,
    create: &CreateSink,
    target: &KafkaTarget,
    columns: &RowColumns,
) -> Result<Option<(Schema, Option<Registration>)>, EngineError> {
    let refused = |why: String| EngineError::from(SinkError::Target(why));
    let connection = target.connection();
    let (schema, registration, place) = match (target.format(), &target.schema, &target.descriptor) {
        (KafkaFormat::Avro, Some(path), _) => {
            let (schema, text) = history.avro_schema(path, connection).map_err(refused)?;
            (schema, Some(Registration::avro(&text)), format!("schema `{path}`"))
        }
        (KafkaFormat::Avro, None, _) => {
            let schema = of_columns(&target.topic, columns).map_err(|why| {
                refused(format!(
                    "the schema of sink `{}` cannot be made from the columns of its rows: {why}. Or write the schema: schema = \
                     'file.avsc'",
                    create.name
                ))
            })?;
            return Ok(Some(schema));
        }
        (KafkaFormat::Protobuf, _, Some(path)) => {
            let schema = history.protobuf_schema(path, target.message.as_deref(), connection);
            let schema = schema.map_err(refused)?;
            let registration = match target.registry.is_some() {
                true => Some(Registration::protobuf(&schema).map_err(|error| {
                    refused(format!("descriptor `{path}` cannot be registered: {error}"))
                })?),
                false => None,
            };
            (schema, registration, format!("descriptor `{path}`"))
        }
        _ => return Ok(None),
    };
    let names: Vec<&str> = columns.names.iter().map(|name| &**name).collect();
    let checked = schema.check_columns(&names, columns.are_all);
    checked.map_err(|error| refused(format!("{place} is not one of the rows of the sink: {error}")))?;
    Ok(Some((schema, registration)))
}

fn of_columns(topic: &str, columns: &RowColumns) -> Result<(Schema, Option<Registration>), String> {
    let typed = columns.typed.as_ref().map_err(String::clone)?;
    let text = avro_of_columns(topic, typed).map_err(|error| error.to_string())?;
    let schema = Schema::avro_file(&text).map_err(|error| error.to_string())?;
    Ok((schema, Some(Registration::avro(&text))))
}
