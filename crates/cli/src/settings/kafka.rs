//! The connections to Kafka, `[kafka.NAME]`: a table of settings per connection, in the file and in the environment.
//!
//! `brokers` under `[kafka.main]` is `SWIFTWATER_KAFKA__MAIN__BROKERS`; a name that has capitals is in the file only.

use std::{collections::BTreeMap, path::PathBuf};

use swiftwater_engine::SchemaSettings;
use swiftwater_event::did_you_mean;
use swiftwater_kafka::ConnectionConfig;
use toml::de::DeValue;

use super::{Fault, Origin, keys::quoted, parse_bytes};

/// The section of the file.
pub(crate) const SECTION: &str = "kafka";

/// The settings of a connection.
const FIELDS: [&str; 16] = [
    "brokers",
    "security_protocol",
    "sasl_mechanism",
    "username",
    "password_file",
    "token_file",
    "ca_file",
    "certificate_file",
    "key_file",
    "memory_bytes",
    "properties",
    "registry",
    "registry_username",
    "registry_password_file",
    "registry_ca_file",
    "schema_dir",
];

/// The connections of the settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct KafkaSettings(BTreeMap<String, Connection>);

/// A connection.
#[derive(Debug, Clone, PartialEq)]
struct Connection {
    config: ConnectionConfig,
    schemas: SchemaSettings,
    /// The place where it was first named.
    origin: Origin,
}

impl KafkaSettings {
    /// The connections by name.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (&str, &ConnectionConfig)> {
        self.0.iter().map(|(name, connection)| (&**name, &connection.config))
    }

    /// The settings of schemas, by connection.
    pub(crate) fn schemas(&self) -> BTreeMap<Box<str>, SchemaSettings> {
        self.0.iter().map(|(name, connection)| (name.as_str().into(), connection.schemas.clone())).collect()
    }

    /// Reads `[kafka.NAME]` of a file; `origin` is the place of a byte of it.
    pub(super) fn read_section(
        &mut self,
        section: &DeValue<'_>,
        at: usize,
        origin: &dyn Fn(usize) -> Origin,
        faults: &mut Vec<Fault>,
    ) {
        let mut fault = |at, message: String| faults.push(Fault { origin: origin(at), message });
        let DeValue::Table(connections) = section else {
            return fault(
                at,
                "`kafka` has a section for each connection: write [kafka.main] and `brokers` below"
                    .to_owned(),
            );
        };
        for (name, settings) in connections {
            let at = name.span().start;
            let name: &str = name.get_ref().as_ref();
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if name.is_empty() || !name.chars().all(is_part) {
                fault(at, format!("`{name}` is no name of a connection: use A-Z, a-z, 0-9, `_` and `-`"));
                continue;
            }
            let DeValue::Table(settings) = settings.get_ref() else {
                fault(at, format!("`kafka.{name}` is a section: write [kafka.{name}] and `brokers` below"));
                continue;
            };
            let connection = self.entry(name, origin(at));
            for (field, value) in settings {
                let set = match (field.get_ref().as_ref(), value.get_ref()) {
                    ("properties", DeValue::Table(properties)) => {
                        properties.iter().try_for_each(|(property, value)| {
                            let text = text_of(value.get_ref())
                                .ok_or("a property is a text, a number, true or false")?;
                            connection.config.properties.insert(property.get_ref().to_string(), text);
                            Ok(())
                        })
                    }
                    (field, value) => match text_of(value) {
                        Some(text) => set_field(connection, field, &text),
                        None => Err("it is a text or a number".to_owned()),
                    },
                };
                if let Err(why) = set {
                    fault(field.span().start, format!("`kafka.{name}.{}`: {why}", field.get_ref()));
                }
            }
        }
    }

    /// Reads a variable of the environment; returns false if it names no connection.
    pub(super) fn read_variable(&mut self, name: &str, text: &str, faults: &mut Vec<Fault>) -> bool {
        let named = name.strip_prefix("SWIFTWATER_KAFKA__").and_then(|rest| rest.split_once("__"));
        let Some((connection, field)) = named else { return false };
        let origin = Origin::Environment(name.to_owned());
        let connection = connection.to_lowercase();
        let settings = self.entry(&connection, origin.clone());
        if let Err(why) = set_field(settings, &field.to_lowercase(), text) {
            faults.push(Fault {
                origin,
                message: format!("`kafka.{connection}.{}`: {why}", field.to_lowercase()),
            });
        }
        true
    }

    /// Checks the settings of each connection against one another.
    pub(super) fn check(&self, faults: &mut Vec<Fault>) {
        for (name, Connection { config, schemas, origin }) in &self.0 {
            let mut fault = |message: String| {
                let message = format!("connection `kafka.{name}`: {message}");
                faults.push(Fault { origin: origin.clone(), message });
            };
            if let Err(error) = config.validate() {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                fault(format!("{error}{hint}"));
            }
            let has_identity =
                schemas.registry_username.is_some() || schemas.registry_password_file.is_some();
            if schemas.registry.is_none() && (has_identity || schemas.registry_ca_file.is_some()) {
                fault(
                    "`registry_…` settings are for the registry of `registry`, which is not set".to_owned(),
                );
            }
            if schemas.registry_username.is_some() != schemas.registry_password_file.is_some() {
                fault("`registry_username` and `registry_password_file` need each other".to_owned());
            }
        }
    }

    /// The settings that are not at their default, as a file that can be read back.
    pub(super) fn toml(&self) -> String {
        let mut out = String::new();
        for (name, Connection { config, schemas, origin }) in &self.0 {
            out.push_str(&format!("\n[{SECTION}.{name}] # {origin}\n"));
            let file = |file: &Option<PathBuf>| file.as_ref().map(|path| path.display().to_string());
            let texts = [
                ("brokers", Some(config.brokers.clone())),
                ("security_protocol", Some(config.security_protocol.to_string())),
                ("sasl_mechanism", config.sasl_mechanism.map(|mechanism| mechanism.to_string())),
                ("username", config.username.clone()),
                ("password_file", file(&config.password_file)),
                ("token_file", file(&config.token_file)),
                ("ca_file", file(&config.ca_file)),
                ("certificate_file", file(&config.certificate_file)),
                ("key_file", file(&config.key_file)),
                ("registry", schemas.registry.clone()),
                ("registry_username", schemas.registry_username.clone()),
                ("registry_password_file", file(&schemas.registry_password_file)),
                ("registry_ca_file", file(&schemas.registry_ca_file)),
                ("schema_dir", file(&schemas.schema_dir)),
            ];
            for (field, text) in texts {
                let text = text.map(|text| quoted(&text));
                text.into_iter().for_each(|text| out.push_str(&format!("{field} = {text}\n")));
            }
            out.push_str(&format!("memory_bytes = {}\n", config.memory_bytes));
            if !config.properties.is_empty() {
                // Their values may be secrets.
                let names: Vec<&str> = config.properties.keys().map(String::as_str).collect();
                out.push_str(&format!("# properties: {}\n", names.join(", ")));
            }
        }
        out
    }

    fn entry(&mut self, name: &str, origin: Origin) -> &mut Connection {
        self.0.entry(name.to_owned()).or_insert_with(|| Connection {
            config: ConnectionConfig::default(),
            schemas: SchemaSettings::default(),
            origin,
        })
    }
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn set_field(connection: &mut Connection, field: &str, text: &str) -> Result<(), String> {
    let Connection { config, schemas, .. } = connection;
    let explained = |error: swiftwater_kafka::KafkaError| match error.hint() {
        Some(hint) => format!("{error}. {hint}"),
        None => error.to_string(),
    };
    let path = || (!text.is_empty()).then(|| PathBuf::from(text));
    let some_text = || (!text.is_empty()).then(|| text.to_owned());
    match field {
        "brokers" => config.brokers = text.to_owned(),
        "security_protocol" => config.security_protocol = text.parse().map_err(explained)?,
        "sasl_mechanism" => config.sasl_mechanism = Some(text.parse().map_err(explained)?),
        "username" => config.username = some_text(),
        "password_file" => config.password_file = path(),
        "token_file" => config.token_file = path(),
        "ca_file" => config.ca_file = path(),
        "certificate_file" => config.certificate_file = path(),
        "key_file" => config.key_file = path(),
        "memory_bytes" => config.memory_bytes = parse_bytes(text)?,
        "registry" => {
            schemas.registry = some_text();
            if text.contains('@') {
                schemas.registry = None;
                return Err("it must not contain a user name or a password: set `registry_username` and \
                            `registry_password_file`"
                    .to_owned());
            }
        }
        "registry_username" => schemas.registry_username = some_text(),
        "registry_password_file" => schemas.registry_password_file = path(),
        "registry_ca_file" => schemas.registry_ca_file = path(),
        "schema_dir" => schemas.schema_dir = path(),
        "properties" => return Err("it is a table of librdkafka's properties, in the file".to_owned()),
        "password" => return Err("secrets are in files: set `password_file`".to_owned()),
        "registry_password" => return Err("secrets are in files: set `registry_password_file`".to_owned()),
        _ => {
            let near = did_you_mean(field, FIELDS);
            return Err(match near {
                Some(near) => format!("there is no such setting; did you mean `{near}`?"),
                None => format!("there is no such setting; a connection has {}", FIELDS.join(", ")),
            });
        }
    }
    Ok(())
}
