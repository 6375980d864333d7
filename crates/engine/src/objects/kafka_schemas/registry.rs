//! Asks a schema registry for a schema and all that it refers to, and registers schemas.

use std::time::Duration;

use swiftwater_schema::{Registered, Registration, SCHEMA_BYTES_MAX, Schema, SchemaKind, SchemaReference};
use swiftwater_sinks::{RegistryClient, RegistryError, RegistryOptions};

use crate::{SchemaSettings, durable::history::History};

/// The time a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of a registry's reason that are shown.
const REASON_BYTES_MAX: usize = 500;

/// The most schemas that one refers to, directly or not.
const REFERENCES_MAX: usize = 100;

/// A schema of a registry.
#[derive(Debug)]
pub(crate) struct RegistrySchema {
    /// The schema, or the reason why no message with it can be read.
    pub(crate) schema: Result<Schema, String>,
    /// The bytes of its text, with all that it refers to.
    pub(crate) bytes: usize,
}

/// A registry as one stream uses it.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    client: RegistryClient,
    url: Box<str>,
    connection: Box<str>,
    kind: SchemaKind,
}

impl History {
    /// The registry at a URL, with the identity of the connection if that names this registry. The error has the remedy.
    pub(crate) fn registry(&self, url: &str, connection: &str, kind: SchemaKind) -> Result<Registry, String> {
        let settings = self.config.kafka.schemas.get(connection);
        let settings = settings.filter(|settings| settings.is_registry(url));
        let SchemaSettings { registry_username, registry_password_file, registry_ca_file, .. } =
            settings.cloned().unwrap_or_default();
        let options = RegistryOptions {
            username: registry_username,
            password_file: registry_password_file,
            ca_file: registry_ca_file,
            timeout: TIMEOUT,
            // JSON escapes the quotes of a schema.
            bytes_max: 2 * SCHEMA_BYTES_MAX,
            reaches_private: settings.is_some() || self.config.sinks_private_addresses,
        };
        let registry = |client| Registry { client, url: url.into(), connection: connection.into(), kind };
        RegistryClient::new(url, &options).map(registry).map_err(|error| match error {
            RegistryError::Private(_) => format!(
                "registry `{url}` is at an address of this machine or of a private network: set `registry` of \
                 [kafka.{connection}] to this URL, or `sinks.private_addresses`"
            ),
            error => format!("registry {error}"),
        })
    }
}

impl Registry {
    /// The schema of an id. The error is the reason why it is not known at present, with the remedy.
    pub(crate) async fn schema(&self, id: u32) -> Result<RegistrySchema, String> {
        let root = self.get(&["schemas", "ids", &id.to_string()], &format!("schema {id}")).await?;
        let kind = match &root.kind {
            Ok(kind) if *kind == self.kind => *kind,
            other => {
                let is = other.as_ref().map_or_else(String::as_str, |kind| kind.text());
                return Ok(unusable(
                    id,
                    &format!("it is one of {is}, and the stream reads {}", self.kind.text()),
                ));
            }
        };
        let mut found: Vec<(SchemaReference, Registered)> = Vec::new();
        let mut open: Vec<SchemaReference> = root.references.clone();
        while let Some(reference) = open.pop() {
            match found.iter().find(|(other, _)| other.name == reference.name) {
                Some((other, _)) if *other == reference => continue,
                Some(_) => {
                    let why = format!("it refers to two schemas with the name `{}`", reference.name);
                    return Ok(unusable(id, &why));
                }
                None if found.len() == REFERENCES_MAX => {
                    let why = format!("it refers to more than {REFERENCES_MAX} schemas");
                    return Ok(unusable(id, &why));
                }
                None => {}
            }
            let version = reference.version.to_string();
            let what =
                format!("version {version} of subject `{}`, which schema {id} refers to", reference.subject);
            let registered = self.get(&["subjects", &reference.subject, "versions", &version], &what).await?;
            open.extend(registered.references.iter().cloned());
            found.push((reference, registered));
        }
        let mut references = Vec::new();
        let mut entered = Vec::new();
        root.references.iter().for_each(|reference| order(reference, &found, &mut entered, &mut references));
        let bytes = root.text.len() + references.iter().map(|(_, text)| text.len()).sum::<usize>();
        // A large schema takes a while.
        let parsing =
            move || Schema::registered(kind, &root.text, &references).map_err(|error| error.to_string());
        let parsed = tokio::task::spawn_blocking(parsing).await;
        let schema = parsed.unwrap_or_else(|error| Err(format!("its reader failed: {error}")));
        Ok(schema
            .map_or_else(|why| unusable(id, &why), |schema| RegistrySchema { schema: Ok(schema), bytes }))
    }

    /// A document of the registry; the error has the remedy.
    async fn get(&self, path: &[&str], what: &str) -> Result<Registered, String> {
        let url = &self.url;
        let body = self.client.get(path).await.map_err(|error| match error {
            RegistryError::Status(404) => format!(
                "registry `{url}` has no {what}: register it there, or correct `registry` of the stream. The server asks again"
            ),
            RegistryError::Status(status @ (401 | 403)) => {
                format!(
                    "registry `{url}` refuses {what} (it answered {status}): {}",
                    self.identity("read")
                )
            }
            error => self.not_answered(error, &format!("does not have {what} at present")),
        })?;
        Registered::parse(&body).map_err(|error| format!("registry `{url}`, asked for {what}: {error}"))
    }

    /// Registers a schema under a subject, which changes nothing if the subject has it, and returns its id. The error is the reason why
    /// it is not registered at present, with the remedy.
    pub(crate) async fn register(&self, subject: &str, registration: &Registration) -> Result<u32, String> {
        let url = &self.url;
        let mut document = serde_json::json!({ "schema": registration.text });
        // A registry takes one of Avro without a type.
        if registration.kind == SchemaKind::Protobuf {
            document["schemaType"] = "PROTOBUF".into();
        }
        let what = format!("the schema of subject `{subject}`");
        let path = ["subjects", subject, "versions"];
        let answered = self.client.post(&path, document.to_string()).await;
        let body = answered.map_err(|error| match error {
            RegistryError::Refused { status: 409, answer } => format!(
                "registry `{url}` refuses {what}, which is not compatible with the versions there{}: correct the schema, or write \
                 to a topic of its own",
                reason(&answer)
            ),
            RegistryError::Refused { status: status @ (401 | 403), .. } => {
                format!(
                    "registry `{url}` refuses {what} (it answered {status}): {}",
                    self.identity("write")
                )
            }
            RegistryError::Refused { status: status @ (400..=499), answer } => {
                format!("registry `{url}` refuses {what} (it answered {status}{})", reason(&answer))
            }
            error => self.not_answered(error, &format!("does not take {what} at present")),
        })?;
        let answer: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let id = answer.as_ref().and_then(|answer| u32::try_from(answer.get("id")?.as_u64()?).ok());
        id.ok_or_else(|| {
            format!(
                "the answer of registry `{url}` to {what} has no `id`: is it the URL of a schema registry?"
            )
        })
    }

    /// The remedy for an identity that lacks a right.
    fn identity(&self, right: &str) -> String {
        let Registry { connection, .. } = self;
        format!(
            "set `registry` of [kafka.{connection}] to this URL, and `registry_username` and `registry_password_file` to \
             those of an identity that may {right} it"
        )
    }

    /// The fault of a registry that cannot be asked at present.
    fn not_answered(&self, error: RegistryError, does_not: &str) -> String {
        let Registry { url, connection, .. } = self;
        match error {
            RegistryError::NoAnswer(why) => format!(
                "registry `{url}` cannot be reached ({why}): check its URL, the network, and `registry_ca_file` for a \
                 certificate of an authority of your own. The server asks again"
            ),
            RegistryError::Private(_) => format!(
                "registry `{url}` is at an address of this machine or of a private network: set `registry` of \
                 [kafka.{connection}] to this URL, or `sinks.private_addresses`"
            ),
            error => format!("registry `{url}` {does_not}: {error}. The server asks again"),
        }
    }
}

/// The reason in an answer such as `{"error_code": 409, "message": "…"}`, as the end of a clause.
fn reason(answer: &[u8]) -> String {
    let answer: Option<serde_json::Value> = serde_json::from_slice(answer).ok();
    let message = answer.as_ref().and_then(|answer| answer.get("message")?.as_str()).unwrap_or_default();
    let end = message.floor_char_boundary(REASON_BYTES_MAX);
    match message[..end].replace(['\n', '\r'], " ") {
        none if none.is_empty() => none,
        reason => format!(": {reason}"),
    }
}

fn unusable(id: u32, why: &str) -> RegistrySchema {
    let why = format!("schema {id} of the registry cannot be used: {why}");
    RegistrySchema { bytes: why.len(), schema: Err(why) }
}

/// Adds the name and text of a reference behind those that it refers to itself.
fn order(
    reference: &SchemaReference,
    found: &[(SchemaReference, Registered)],
    entered: &mut Vec<String>,
    ordered: &mut Vec<(String, String)>,
) {
    if entered.contains(&reference.name) {
        return;
    }
    entered.push(reference.name.clone());
    let Some((_, registered)) = found.iter().find(|(other, _)| other == reference) else { return };
    registered.references.iter().for_each(|inner| order(inner, found, entered, ordered));
    ordered.push((reference.name.clone(), registered.text.clone()));
}
