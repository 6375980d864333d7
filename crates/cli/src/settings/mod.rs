//! The server's settings: one name for each, in a file (`swiftwater.toml`), in the environment and as a flag.
//!
//! `engine.tick_ms` is `tick_ms` under `[engine]` in the file, `SWIFTWATER_ENGINE__TICK_MS` in the environment and
//! `--engine.tick-ms` as a flag. The file overrides defaults, the environment overrides the file, and flags override the
//! environment. All settings are read first and checked then, and all errors are reported at once. [`KEYS`] is the one list
//! of settings; the file that documents it (`config/default.toml`) is printed from that list.

mod flags;
#[cfg(feature = "history")]
mod kafka;
mod keys;
mod load;
mod print;
mod unused;
mod value;

#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf};

#[cfg(feature = "history")]
use swiftwater_engine::HistoryConfig;
use swiftwater_runtime::EngineConfig;
use swiftwater_server::{OtlpConfig, ServerConfig};

pub(crate) use flags::SettingFlags;
#[cfg(feature = "history")]
pub(crate) use kafka::KafkaSettings;
#[cfg(feature = "history")]
pub(crate) use keys::roles_of;
pub(crate) use keys::{KEYS, Key, Kind, Value};
pub(crate) use load::{FILE_NAME, Loaded, Sources, environment, load};
pub(crate) use value::{parse_bytes, parse_millis};

/// All that a server can be told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The listeners; its `otlp` is left out, see [`Settings::server`].
    pub(crate) server: ServerConfig,
    /// The file that `server.bullet.schema` was read from; empty: none.
    pub(crate) bullet_schema: String,
    /// Destination of the metrics; none if its endpoint is empty.
    pub(crate) otlp: OtlpConfig,
    /// The filter of log messages, as `tracing` directives.
    pub(crate) log_filter: String,
    /// `text` or `json`.
    pub(crate) log_format: String,
    /// Streams, queries and their limits.
    pub(crate) engine: EngineConfig,
    /// The data directory; empty: nothing is kept.
    pub(crate) data_dir: String,
    /// The settings of stored data; its `dir` is omitted, see [`Settings::history`].
    #[cfg(feature = "history")]
    pub(crate) history: HistoryConfig,
    /// The connections to Kafka.
    #[cfg(feature = "history")]
    pub(crate) kafka: KafkaSettings,
    /// Bullet's PubSub.
    #[cfg(feature = "history")]
    pub(crate) pubsub: PubSubSettings,
    /// The cluster that this server is a node of.
    #[cfg(feature = "history")]
    pub(crate) cluster: ClusterSettings,
}

/// The topics of Bullet's PubSub; empty: it is off.
#[cfg(feature = "history")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PubSubSettings {
    pub(crate) query_topic: String,
    pub(crate) result_topic: String,
    /// The connection of `[kafka.NAME]`.
    pub(crate) connection: String,
}

/// The cluster that this server is a node of; an empty name: none.
#[cfg(feature = "history")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClusterSettings {
    pub(crate) name: String,
    pub(crate) node_id: String,
    /// The address by which others reach this node; empty: none.
    pub(crate) advertise: String,
    /// The roles of the node, separated by commas.
    pub(crate) roles: String,
    /// The connection of `[kafka.NAME]`.
    pub(crate) connection: String,
    pub(crate) flush_ms: u64,
    pub(crate) partial_wait_ms: u64,
    pub(crate) event_bytes_per_second: u64,
    /// The protocol of the groups of nodes: `classic` or `consumer`.
    pub(crate) group_protocol: String,
    pub(crate) session_timeout_ms: u64,
}

#[cfg(feature = "history")]
impl ClusterSettings {
    /// The name of the node: else it is made of the address.
    pub(crate) fn node(&self) -> String {
        if !self.node_id.is_empty() {
            return self.node_id.clone();
        }
        let address = self.advertise.split("://").last().unwrap_or_default();
        let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name = address.trim_end_matches('/').chars().map(|c| if is_kept(c) { c } else { '-' });
        name.collect::<String>().trim_matches('-').to_owned()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            server: ServerConfig::default(),
            bullet_schema: String::new(),
            otlp: OtlpConfig::new(""),
            log_filter: "info,buoyant_kernel=warn,fjall=warn,lsm_tree=warn".to_owned(),
            log_format: "text".to_owned(),
            engine: EngineConfig::default(),
            data_dir: String::new(),
            #[cfg(feature = "history")]
            history: HistoryConfig::at(""),
            #[cfg(feature = "history")]
            kafka: KafkaSettings::default(),
            #[cfg(feature = "history")]
            pubsub: PubSubSettings {
                query_topic: String::new(),
                result_topic: String::new(),
                connection: "main".to_owned(),
            },
            #[cfg(feature = "history")]
            cluster: ClusterSettings {
                name: String::new(),
                node_id: String::new(),
                advertise: String::new(),
                roles: "work,serve,receive".to_owned(),
                connection: "main".to_owned(),
                flush_ms: 5,
                partial_wait_ms: 1000,
                event_bytes_per_second: 16 << 20,
                group_protocol: "classic".to_owned(),
                session_timeout_ms: 10_000,
            },
        }
    }
}

impl Settings {
    /// The listeners' settings, whole.
    pub(crate) fn server(&self) -> ServerConfig {
        let otlp = (!self.otlp.endpoint.is_empty()).then(|| self.otlp.clone());
        ServerConfig {
            otlp,
            #[cfg(feature = "history")]
            sql_worker_listen: self.history.sql_nodes.listen.parse().ok(),
            ..self.server.clone()
        }
    }

    /// The settings of stored data, if any is stored.
    #[cfg(feature = "history")]
    pub(crate) fn history(&self) -> Option<HistoryConfig> {
        let dir = PathBuf::from(&self.data_dir);
        (!self.data_dir.is_empty()).then(|| HistoryConfig { dir, ..self.history.clone() })
    }
}

/// The source of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// The settings file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// This environment variable.
    Environment(String),
    /// This flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Its place.
    pub(crate) origin: Origin,
    /// The fault, with the key, the value and the allowed values.
    pub(crate) message: String,
}

/// All that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsError(pub(crate) Vec<Fault>);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the settings have an error")?,
            n => write!(f, "the settings have {n} errors")?,
        }
        for Fault { origin, message } in &self.0 {
            write!(f, "\n  {origin}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}
