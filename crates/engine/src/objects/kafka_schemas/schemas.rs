//! The schemas by which the messages of a topic become JSON text: those of a file, or of a registry.
//!
//! A message whose schema is not known yet is no bad message: its partition is not read until the registry has answered, and
//! then from this message on. Other partitions are read meanwhile. Requests are made beside the reader, one for each schema
//! that is missed, with the usual pauses between attempts.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs,
    io::Read,
    ops::Range,
    path::PathBuf,
};

use swiftwater_event::Backoff;
use swiftwater_kafka::MessageBatch;
use swiftwater_lang::ddl::{KafkaFormat, KafkaSchemas, KafkaSource};
use swiftwater_schema::{SCHEMA_BYTES_MAX, Schema, SchemaKind, unframe};
use tokio::task::JoinSet;

use super::registry::{Registry, RegistrySchema};
use crate::durable::{directory::DataDir, history::History};

/// Schemas of a registry that one stream has in memory. The oldest makes room, and is asked for again.
const KNOWN_MAX: usize = 1000;

/// Bytes of the texts of these schemas, unless one alone has more.
const KNOWN_BYTES_MAX: usize = 64 << 20;

/// The schemas of a stream's messages.
#[derive(Debug)]
pub(crate) enum Schemas {
    /// Messages have none.
    None,
    /// All messages have the one of a file.
    File(Schema),
    /// Each message names its own.
    Registry(Box<RegistrySchemas>),
}

/// The schemas of a registry that were asked for.
#[derive(Debug)]
pub(crate) struct RegistrySchemas {
    registry: Registry,
    pauses: Backoff,
    known: HashMap<u32, RegistrySchema>,
    /// The known ones, the oldest first.
    order: VecDeque<u32>,
    /// The bytes of their texts.
    bytes: usize,
    /// Those that partitions wait for; at least one each.
    missing: BTreeMap<u32, Missing>,
    requests: JoinSet<(u32, Result<RegistrySchema, String>)>,
}

#[derive(Debug)]
struct Missing {
    partitions: Vec<u32>,
    pauses: Backoff,
}

/// The news of a schema that partitions wait for.
#[derive(Debug)]
pub(crate) enum SchemaNews {
    /// It is known: these partitions can be read on.
    Known(Vec<u32>),
    /// It is not known at present, for this reason.
    Away(Vec<u32>, String),
    /// A request ended without an answer: the reader begins anew.
    Failed(String),
}

impl Schemas {
    /// The place of the schemas of a source that is read by a connection. The error has the remedy. `pauses` are those between
    /// attempts to ask a registry.
    pub(crate) fn open(
        history: &History,
        (source, connection): (&KafkaSource, &str),
        pauses: Backoff,
    ) -> Result<Schemas, String> {
        match source.options.schemas() {
            None => Ok(Schemas::None),
            Some(KafkaSchemas::Registry(url)) => {
                let kind = match source.options.format() {
                    KafkaFormat::Protobuf => SchemaKind::Protobuf,
                    _ => SchemaKind::Avro,
                };
                let registry = history.registry(url, connection, kind)?;
                Ok(Schemas::Registry(Box::new(RegistrySchemas::new(registry, pauses))))
            }
            Some(KafkaSchemas::AvroFile(path)) => {
                history.avro_schema(path, connection).map(|(schema, _)| Schemas::File(schema))
            }
            Some(KafkaSchemas::Descriptor { path, message }) => {
                history.protobuf_schema(path, message, connection).map(Schemas::File)
            }
        }
    }

    /// The first messages of a range whose schemas are known, and the schema that the next one has.
    pub(crate) fn known(&self, messages: &MessageBatch, range: Range<usize>) -> (Range<usize>, Option<u32>) {
        let Schemas::Registry(schemas) = self else { return (range, None) };
        for place in range.clone() {
            // A message without a schema's id is a bad one, whatever the registry has.
            let framed = messages.value(place).and_then(|value| unframe(value).ok());
            if let Some(framed) = framed
                && !schemas.known.contains_key(&framed.schema)
            {
                return (range.start..place, Some(framed.schema));
            }
        }
        (range, None)
    }

    /// Adds the JSON text of a message to `out`; the error is the reason why it has none.
    pub(crate) fn write_json(
        &self,
        message: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Schemas::None => Err("the stream has no schema".to_owned()),
            Schemas::File(schema) => {
                schema.write_json(message, bytes_max, out).map_err(|fault| fault.to_string())
            }
            Schemas::Registry(schemas) => {
                let framed = unframe(message).map_err(|fault| fault.to_string())?;
                let known = schemas.known.get(&framed.schema).ok_or("its schema is not known")?;
                let schema = known.schema.as_ref().map_err(String::clone)?;
                schema.write_json(framed.payload, bytes_max, out).map_err(|fault| fault.to_string())
            }
        }
    }

    /// The id of a message's schema, for descriptions.
    pub(crate) fn id(&self, message: &[u8]) -> Option<u32> {
        match self {
            Schemas::Registry(_) => unframe(message).ok().map(|framed| framed.schema),
            Schemas::None | Schemas::File(_) => None,
        }
    }

    /// A partition waits for a schema.
    pub(crate) fn miss(&mut self, id: u32, partition: u32) {
        if let Schemas::Registry(schemas) = self {
            schemas.miss(id, partition);
        }
    }

    /// True if a partition waits for a schema.
    pub(crate) fn waits(&self, partition: u32) -> bool {
        let Schemas::Registry(schemas) = self else { return false };
        schemas.missing.values().any(|missing| missing.partitions.contains(&partition))
    }

    /// Waits for news of a schema; for ever if no partition waits for one. Cancelling the future loses nothing.
    pub(crate) async fn news(&mut self) -> SchemaNews {
        match self {
            Schemas::Registry(schemas) => schemas.news().await,
            Schemas::None | Schemas::File(_) => std::future::pending().await,
        }
    }
}

impl RegistrySchemas {
    fn new(registry: Registry, pauses: Backoff) -> RegistrySchemas {
        let (known, order, missing) = (HashMap::new(), VecDeque::new(), BTreeMap::new());
        RegistrySchemas { registry, pauses, known, order, bytes: 0, missing, requests: JoinSet::new() }
    }

    fn miss(&mut self, id: u32, partition: u32) {
        let pauses = self.pauses.clone();
        let is_new = !self.missing.contains_key(&id);
        let missing = self.missing.entry(id).or_insert_with(|| Missing { partitions: Vec::new(), pauses });
        missing.partitions.push(partition);
        if is_new {
            let registry = self.registry.clone();
            self.requests.spawn(async move { (id, registry.schema(id).await) });
        }
    }

    async fn news(&mut self) -> SchemaNews {
        loop {
            let Some(answered) = self.requests.join_next().await else {
                return std::future::pending().await;
            };
            let (id, answer) = match answered {
                Ok(answered) => answered,
                Err(error) => return SchemaNews::Failed(format!("a request for a schema failed: {error}")),
            };
            match answer {
                Ok(known) => {
                    self.add(id, known);
                    let missing = self.missing.remove(&id);
                    return SchemaNews::Known(missing.map_or_else(Vec::new, |missing| missing.partitions));
                }
                Err(why) => {
                    let Some(missing) = self.missing.get_mut(&id) else { continue };
                    let (registry, pause) = (self.registry.clone(), missing.pauses.pause());
                    self.requests.spawn(async move {
                        tokio::time::sleep(pause).await;
                        (id, registry.schema(id).await)
                    });
                    return SchemaNews::Away(missing.partitions.clone(), why);
                }
            }
        }
    }

    fn add(&mut self, id: u32, known: RegistrySchema) {
        self.bytes += known.bytes;
        while (self.order.len() >= KNOWN_MAX || self.bytes > KNOWN_BYTES_MAX)
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.known.remove(&oldest).map_or(0, |oldest| oldest.bytes);
        }
        self.order.push_back(id);
        self.known.insert(id, known);
    }
}

impl History {
    /// The schema of a file of Avro, and its text.
    pub(crate) fn avro_schema(&self, path: &str, connection: &str) -> Result<(Schema, String), String> {
        let (file, bytes) = self.schema_file(path, connection)?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
        let schema = text.and_then(|text| {
            let schema = Schema::avro_file(&text).map_err(|error| error.to_string())?;
            Ok((schema, text))
        });
        schema.map_err(|why| format!("schema {}: {why}", file.display()))
    }

    /// The schema of a message of a file of descriptors of Protobuf.
    pub(crate) fn protobuf_schema(
        &self,
        path: &str,
        message: Option<&str>,
        connection: &str,
    ) -> Result<Schema, String> {
        let (file, bytes) = self.schema_file(path, connection)?;
        let schema = Schema::descriptor_file(&bytes, message);
        schema.map_err(|error| format!("descriptor {}: {error}", file.display()))
    }

    /// A file below the directory of schemas, and its bytes.
    fn schema_file(&self, path: &str, connection: &str) -> Result<(PathBuf, Vec<u8>), String> {
        let configured =
            self.config.kafka.schemas.get(connection).and_then(|settings| settings.schema_dir.clone());
        let dir = configured.or_else(|| self.dir.as_ref().map(DataDir::schemas));
        let dir =
            dir.ok_or("files of schemas are in the data directory, and there is none: set `data.dir`")?;
        let path = dir.join(path);
        let bytes = || -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            fs::File::open(&path)?.take(SCHEMA_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match bytes() {
            Ok(bytes) if bytes.len() > SCHEMA_BYTES_MAX => {
                Err(format!("{} has more than {SCHEMA_BYTES_MAX} bytes", path.display()))
            }
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => Err(format!(
                "{} cannot be read: {error}. Files of schemas are in `schema_dir` of [kafka.{connection}]",
                path.display()
            )),
        }
    }
}
