//! The settings of a connection to Kafka, and the client properties that they mean.
//!
//! Settings name files of secrets and never have secrets. Properties of librdkafka that a setting owns are refused with the
//! name of the setting; the others pass through, and the client refuses unknown ones. Reads no file and opens no connection.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Display},
    path::PathBuf,
    str::FromStr,
};

use crate::{KafkaError, KafkaErrorKind};

/// The default of [`ConnectionConfig::memory_bytes`].
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

/// The least memory of a consumer, with which a message of the broker's usual limit (1 MiB) still passes.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// The most: librdkafka's queue, which is half of it, has less than 2 GiB.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The most that librdkafka accepts for its queue.
const QUEUE_KBYTES_MAX: u64 = i32::MAX as u64 / 1024;

/// The encryption and authentication of a broker's listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityProtocol {
    /// Neither.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    fn has_tls(self) -> bool {
        matches!(self, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    fn has_sasl(self) -> bool {
        matches!(self, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    }
}

impl Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecurityProtocol::Plaintext => "plaintext",
            SecurityProtocol::Ssl => "ssl",
            SecurityProtocol::SaslPlaintext => "sasl_plaintext",
            SecurityProtocol::SaslSsl => "sasl_ssl",
        })
    }
}

impl FromStr for SecurityProtocol {
    type Err = KafkaError;

    fn from_str(text: &str) -> Result<SecurityProtocol, KafkaError> {
        match text.to_ascii_lowercase().as_str() {
            "plaintext" => Ok(SecurityProtocol::Plaintext),
            "ssl" => Ok(SecurityProtocol::Ssl),
            "sasl_plaintext" => Ok(SecurityProtocol::SaslPlaintext),
            "sasl_ssl" => Ok(SecurityProtocol::SaslSsl),
            _ => Err(configuration(format!("`security_protocol` cannot be `{text}`"))
                .with_hint("Use `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`.")),
        }
    }
}

/// The way in which the client proves its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself, which TLS must protect.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
    /// A bearer token, which another program writes to a file.
    OauthBearer,
}

impl SaslMechanism {
    fn has_password(self) -> bool {
        self != SaslMechanism::OauthBearer
    }
}

impl Display for SaslMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
            SaslMechanism::OauthBearer => "OAUTHBEARER",
        })
    }
}

impl FromStr for SaslMechanism {
    type Err = KafkaError;

    fn from_str(text: &str) -> Result<SaslMechanism, KafkaError> {
        const SUPPORTED: &str =
            "Use `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, or `OAUTHBEARER` with a `token_file`.";
        match text.to_ascii_uppercase().as_str() {
            "PLAIN" => Ok(SaslMechanism::Plain),
            "SCRAM-SHA-256" => Ok(SaslMechanism::ScramSha256),
            "SCRAM-SHA-512" => Ok(SaslMechanism::ScramSha512),
            "OAUTHBEARER" => Ok(SaslMechanism::OauthBearer),
            "GSSAPI" => Err(configuration("`sasl_mechanism` cannot be `GSSAPI`: this build has no Kerberos")
                .with_hint(SUPPORTED)),
            _ => Err(configuration(format!("`sasl_mechanism` cannot be `{text}`")).with_hint(SUPPORTED)),
        }
    }
}

/// The settings of a connection. Its `Debug` form names the properties without their values.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// Brokers to connect to first, as `HOST:PORT`, separated by commas. They name the others of the cluster.
    pub brokers: String,
    /// The encryption and authentication of the brokers' listeners.
    pub security_protocol: SecurityProtocol,
    /// The way in which the client proves its identity; required where the protocol has SASL.
    pub sasl_mechanism: Option<SaslMechanism>,
    /// The user of `PLAIN` and `SCRAM`.
    pub username: Option<String>,
    /// A file with the password. A line feed at its end is not a part of it.
    pub password_file: Option<PathBuf>,
    /// A file with certificates (PEM) of authorities to trust; those of the system if none is set.
    pub ca_file: Option<PathBuf>,
    /// A file with the client's certificate (PEM), for brokers that require one.
    pub certificate_file: Option<PathBuf>,
    /// A file with the private key (PEM, not encrypted) of the certificate.
    pub key_file: Option<PathBuf>,
    /// A file with the bearer token of `OAUTHBEARER`. It is read again every minute.
    pub token_file: Option<PathBuf>,
    /// The memory of all queues of one consumer together, for all its partitions: 8 MiB to 4 GiB. When they are full,
    /// the consumer fetches no more.
    pub memory_bytes: u64,
    /// Further properties of librdkafka by name, such as `broker.address.family`.
    pub properties: BTreeMap<String, String>,
}

impl Default for ConnectionConfig {
    fn default() -> ConnectionConfig {
        ConnectionConfig {
            brokers: String::new(),
            security_protocol: SecurityProtocol::default(),
            sasl_mechanism: None,
            username: None,
            password_file: None,
            ca_file: None,
            certificate_file: None,
            key_file: None,
            token_file: None,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            properties: BTreeMap::new(),
        }
    }
}

impl Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionConfig")
            .field("brokers", &self.brokers)
            .field("security_protocol", &self.security_protocol)
            .field("sasl_mechanism", &self.sasl_mechanism)
            .field("username", &self.username)
            .field("password_file", &self.password_file)
            .field("ca_file", &self.ca_file)
            .field("certificate_file", &self.certificate_file)
            .field("key_file", &self.key_file)
            .field("token_file", &self.token_file)
            .field("memory_bytes", &self.memory_bytes)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

/// Properties that a setting or the consumer itself owns, and the remedy. A name that ends in `*` stands for all with this
/// prefix. The first match counts.
const OWNED: &[(&str, &str)] = &[
    ("acks", "Writes always wait for all replicas in sync."),
    ("allow.auto.create.topics", "Create the topic with Kafka's own tools."),
    ("auto.commit.*", "Offsets are committed by the caller."),
    ("auto.offset.reset", "An offset that the partition does not have is reported instead."),
    ("bootstrap.servers", "Use the setting `brokers`."),
    ("client.id", "It is `swiftwater`."),
    ("delivery.timeout.ms", "A message has 30 s to reach all replicas."),
    ("enable.auto.*", "Offsets are committed by the caller."),
    ("enable.gapless.guarantee", "Writes are idempotent already."),
    ("enable.idempotence", "Writes are always idempotent."),
    ("enable.partition.eof", "The consumer needs the ends of partitions."),
    ("enable.sasl.oauthbearer.unsecure.jwt", "Use the setting `token_file`."),
    ("enable.sparse.connections", "Only the client for calls is connected to all brokers."),
    ("fetch.*", "Use the setting `memory_bytes`."),
    ("group.id", "Use the setting `group`."),
    ("group.*", "A source joins no group, and the server sets those of its own group."),
    ("heartbeat.interval.ms", "It follows from the time of a session."),
    ("isolation.level", "Use the setting `isolation`."),
    ("max.partition.fetch.bytes", "Use the setting `memory_bytes`."),
    ("max.poll.interval.ms", "A source joins no group, and the server sets those of its own group."),
    ("metadata.broker.list", "Use the setting `brokers`."),
    ("message.max.bytes", "The topic's property `max.message.bytes` is the limit."),
    ("message.timeout.ms", "A message has 30 s to reach all replicas."),
    ("offset.store.*", "Offsets are committed by the caller."),
    ("partition.assignment.strategy", "A source joins no group, and the server sets those of its own group."),
    ("partitioner*", "Use the option `partitioner` of the sink."),
    ("plugin.library.paths", "Plug-ins are not loaded."),
    ("queue.buffering.backpressure.threshold", "Use the setting `memory_bytes`."),
    ("queue.buffering.max.kbytes", "Use the setting `memory_bytes`."),
    ("queue.buffering.max.messages", "Use the setting `memory_bytes`."),
    ("queued.*", "Use the setting `memory_bytes`."),
    ("receive.message.max.bytes", "Use the setting `memory_bytes`."),
    ("sasl.kerberos.*", "This build has no Kerberos: use another `sasl_mechanism`."),
    ("sasl.mechanism*", "Use the setting `sasl_mechanism`."),
    (
        "sasl.oauthbearer.*",
        "This build has no OIDC: use the setting `token_file`, and let another program write the token.",
    ),
    ("sasl.password", "Use the setting `password_file`."),
    ("sasl.username", "Use the setting `username`."),
    ("sasl.*", "Use the settings `sasl_mechanism`, `username`, `password_file` and `token_file`."),
    ("security.protocol", "Use the setting `security_protocol`."),
    ("session.timeout.ms", "A source joins no group, and the server sets those of its own group."),
    ("ssl.ca.*", "Use the setting `ca_file`."),
    ("ssl.certificate.*", "Use the setting `certificate_file`."),
    ("ssl.engine.*", "Use the settings `certificate_file` and `key_file`."),
    ("ssl.key.*", "Use the setting `key_file`, with a key that is not encrypted."),
    ("ssl.keystore.*", "Use the settings `certificate_file` and `key_file`, in PEM."),
    ("ssl_*", "Use the settings `ca_file`, `certificate_file` and `key_file`."),
    ("transaction.timeout.ms", "A transaction has 60 s."),
    ("transactional.id", "It is chosen by the writer."),
];

/// The remedy for a property that a setting owns; none where the property may pass.
fn owner(property: &str) -> Option<&'static str> {
    let matches = |entry: &str| match entry.strip_suffix('*') {
        Some(start) => property.starts_with(start),
        None => property == entry,
    };
    OWNED.iter().find(|(entry, _)| matches(entry)).map(|(_, remedy)| *remedy)
}

pub(crate) fn configuration(text: impl Into<Box<str>>) -> KafkaError {
    KafkaError::new(KafkaErrorKind::Configuration, text)
}

impl ConnectionConfig {
    /// Checks the settings against each other, without reading files. The error names all faults.
    ///
    /// Only the client can check the names and values in `properties`, and does it when it is made.
    pub fn validate(&self) -> Result<(), KafkaError> {
        let mut faults = Vec::new();
        let mut hints = Vec::new();
        self.check_brokers(&mut faults);
        self.check_tls(&mut faults);
        self.check_sasl(&mut faults);
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&self.memory_bytes) {
            faults.push(format!(
                "`memory_bytes` cannot be {}: it is {MEMORY_BYTES_MIN} to {MEMORY_BYTES_MAX}",
                self.memory_bytes
            ));
        }
        for property in self.properties.keys() {
            if let Some(remedy) = owner(property) {
                faults.push(format!("`{property}` cannot be set as a property"));
                hints.push(remedy);
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        hints.dedup();
        let error = configuration(faults.join("; "));
        Err(if hints.is_empty() { error } else { error.with_hint(hints.join(" ")) })
    }

    fn check_brokers(&self, faults: &mut Vec<String>) {
        if self.brokers.trim().is_empty() {
            faults.push("`brokers` is empty: set it to `HOST:PORT`, several separated by commas".to_owned());
            return;
        }
        for broker in self.brokers.split(',').map(str::trim) {
            let port = broker.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.is_none_or(|(_, port)| {
                port.parse::<u16>().is_ok_and(|port| port == 0) || port.parse::<u16>().is_err()
            }) {
                faults.push(format!("`brokers` has `{broker}`, which is not `HOST:PORT`"));
            }
        }
    }

    fn check_tls(&self, faults: &mut Vec<String>) {
        let files = [
            ("ca_file", &self.ca_file),
            ("certificate_file", &self.certificate_file),
            ("key_file", &self.key_file),
        ];
        if !self.security_protocol.has_tls() {
            for (name, _) in files.iter().filter(|(_, file)| file.is_some()) {
                faults.push(format!(
                    "`{name}` needs `security_protocol` `ssl` or `sasl_ssl`, and it is `{}`",
                    self.security_protocol
                ));
            }
        }
        if self.certificate_file.is_some() != self.key_file.is_some() {
            faults.push("`certificate_file` and `key_file` are set together, or none of them".to_owned());
        }
    }

    fn check_sasl(&self, faults: &mut Vec<String>) {
        let mut require = |name: &str, is_set: bool, required: bool, of: &str| {
            if required && !is_set {
                faults.push(format!("{of} needs `{name}`"));
            } else if is_set && !required {
                faults.push(format!("`{name}` is set, and {of} does not use it"));
            }
        };
        let of = format!("`security_protocol` `{}`", self.security_protocol);
        require("sasl_mechanism", self.sasl_mechanism.is_some(), self.security_protocol.has_sasl(), &of);
        let mechanism = self.sasl_mechanism;
        let of = mechanism.map_or(of, |mechanism| format!("`sasl_mechanism` `{mechanism}`"));
        let has_password = mechanism.is_some_and(SaslMechanism::has_password);
        require("username", self.username.is_some(), has_password, &of);
        require("password_file", self.password_file.is_some(), has_password, &of);
        require("token_file", self.token_file.is_some(), mechanism == Some(SaslMechanism::OauthBearer), &of);
    }

    /// The client properties of these settings, without secrets; an error if the settings are invalid.
    pub fn client_properties(&self) -> Result<Vec<(String, String)>, KafkaError> {
        self.validate()?;
        let mut properties = Vec::new();
        let mut set = |name: &str, value: String| properties.push((name.to_owned(), value));
        set("client.id", "swiftwater".to_owned());
        set("bootstrap.servers", self.brokers.clone());
        set("security.protocol", self.security_protocol.to_string());
        if let Some(mechanism) = self.sasl_mechanism {
            set("sasl.mechanism", mechanism.to_string());
        }
        if let Some(username) = &self.username {
            set("sasl.username", username.clone());
        }
        let files = [
            ("ssl.ca.location", &self.ca_file),
            ("ssl.certificate.location", &self.certificate_file),
            ("ssl.key.location", &self.key_file),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                let path = file
                    .to_str()
                    .ok_or_else(|| configuration(format!("the path `{}` is not UTF-8", file.display())))?;
                set(name, path.to_owned());
            }
        }
        properties.extend(self.properties.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(properties)
    }

    /// The shares of [`ConnectionConfig::memory_bytes`], of each of so many clients.
    pub fn memory_shares(&self, clients: u32) -> MemoryShares {
        let memory_bytes = self.memory_bytes / u64::from(clients.max(1));
        let response_bytes = (memory_bytes / 16).clamp(1 << 20, 64 << 20);
        MemoryShares {
            queue_kbytes: (memory_bytes / 2 / 1024).clamp(1, QUEUE_KBYTES_MAX),
            queue_messages: (memory_bytes / 2 / 1024).clamp(1000, 1_000_000),
            response_bytes,
            partition_bytes: response_bytes / 4,
            caller_bytes: (memory_bytes / 8) as usize,
        }
    }
}

/// The shares of a consumer's memory. Half is librdkafka's queue. A response that was requested before the queue was full
/// still arrives, decompressed: three eighths are for that. An eighth is for batches that wait for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryShares {
    /// `queued.max.messages.kbytes`: all partitions together.
    pub queue_kbytes: u64,
    /// `queued.min.messages`, above which nothing is requested: a message costs memory beside its bytes.
    pub queue_messages: u64,
    /// `fetch.max.bytes`: one response of a broker, compressed.
    pub response_bytes: u64,
    /// `fetch.message.max.bytes`: the part of one partition in a response. A larger message arrives alone.
    pub partition_bytes: u64,
    /// The batches that wait for the caller.
    pub caller_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ConnectionConfig {
        ConnectionConfig { brokers: "a:9092,[::1]:9093".to_owned(), ..ConnectionConfig::default() }
    }

    fn fault(config: &ConnectionConfig) -> String {
        let error = config.validate().expect_err("it is refused");
        assert_eq!(error.kind(), &KafkaErrorKind::Configuration);
        format!("{error}. {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn settings_become_client_properties() {
        let config = ConnectionConfig {
            security_protocol: SecurityProtocol::SaslSsl,
            sasl_mechanism: Some(SaslMechanism::ScramSha512),
            username: Some("u".to_owned()),
            password_file: Some("/p".into()),
            ca_file: Some("/ca.pem".into()),
            properties: [("broker.address.family".to_owned(), "v4".to_owned())].into(),
            ..config()
        };
        let properties = config.client_properties().unwrap();
        let properties: Vec<String> =
            properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            properties,
            [
                "client.id=swiftwater",
                "bootstrap.servers=a:9092,[::1]:9093",
                "security.protocol=sasl_ssl",
                "sasl.mechanism=SCRAM-SHA-512",
                "sasl.username=u",
                "ssl.ca.location=/ca.pem",
                "broker.address.family=v4",
            ]
        );
    }

    #[test]
    fn owned_property_is_refused_with_its_setting() {
        let owned = [
            ("group.id", "`group`"),
            ("enable.auto.commit", "committed by the caller"),
            ("auto.offset.reset", "reported"),
            ("enable.auto.offset.store", "committed"),
            ("isolation.level", "`isolation`"),
            ("transactional.id", "the writer"),
            ("enable.idempotence", "idempotent"),
            ("acks", "replicas"),
            ("queued.min.messages", "`memory_bytes`"),
            ("fetch.wait.max.ms", "`memory_bytes`"),
            ("enable.partition.eof", "ends"),
            ("client.id", "swiftwater"),
            ("bootstrap.servers", "`brokers`"),
            ("security.protocol", "`security_protocol`"),
            ("sasl.password", "`password_file`"),
            ("sasl.oauthbearer.method", "OIDC"),
            ("sasl.kerberos.keytab", "Kerberos"),
            ("ssl.ca.location", "`ca_file`"),
            ("ssl.key.password", "`key_file`"),
        ];
        for (property, remedy) in owned {
            let properties = [(property.to_owned(), "S3CRET".to_owned())].into();
            let fault = fault(&ConnectionConfig { properties, ..config() });
            assert!(fault.contains(&format!("`{property}`")) && fault.contains(remedy), "{fault}");
            assert!(!fault.contains("S3CRET"), "{fault}");
        }
    }

    #[test]
    fn contradictions_are_named_all_at_once() {
        let config = ConnectionConfig {
            brokers: "a,b:0".to_owned(),
            sasl_mechanism: Some(SaslMechanism::OauthBearer),
            password_file: Some("/p".into()),
            ca_file: Some("/ca.pem".into()),
            key_file: Some("/key.pem".into()),
            memory_bytes: 1,
            ..ConnectionConfig::default()
        };
        let fault = fault(&config);
        for expected in [
            "`brokers` has `a`",
            "`brokers` has `b:0`",
            "`sasl_mechanism` is set",
            "`password_file` is set",
            "needs `token_file`",
            "`ca_file` needs `security_protocol`",
            "`certificate_file` and `key_file`",
            "`memory_bytes` cannot be 1",
        ] {
            assert!(fault.contains(expected), "{expected}: {fault}");
        }
        assert!(super::ConnectionConfig::default().validate().is_err());
    }

    #[test]
    fn kerberos_is_refused() {
        let error = "GSSAPI".parse::<SaslMechanism>().unwrap_err();
        assert!(error.to_string().contains("no Kerberos") && error.hint().unwrap().contains("SCRAM-SHA-256"));
        assert_eq!("scram-sha-256".parse(), Ok(SaslMechanism::ScramSha256));
        assert_eq!("SASL_SSL".parse(), Ok(SecurityProtocol::SaslSsl));
        assert!("tls".parse::<SecurityProtocol>().is_err());
    }

    #[test]
    fn debug_form_has_no_values_of_properties() {
        let properties = [("x.password".to_owned(), "S3CRET".to_owned())].into();
        let text = format!("{:?}", ConnectionConfig { properties, ..config() });
        assert!(text.contains("x.password") && !text.contains("S3CRET"), "{text}");
    }

    #[test]
    fn shares_of_memory_fit_in_it() {
        for memory_bytes in [MEMORY_BYTES_MIN, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MAX] {
            let shares = ConnectionConfig { memory_bytes, ..config() }.memory_shares(1);
            let total = shares.queue_kbytes * 1024 + shares.response_bytes + shares.caller_bytes as u64;
            assert!(total <= memory_bytes && shares.queue_kbytes <= QUEUE_KBYTES_MAX, "{shares:?}");
        }
    }
}
