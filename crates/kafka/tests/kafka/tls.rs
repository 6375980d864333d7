//! TLS, against a broker's listeners that require it.

use std::{sync::Arc, time::Duration};

use swiftwater_event::SystemClock;
use swiftwater_kafka::{
    Client, ConnectionConfig, Fetched, Isolation, Kafka, KafkaError, KafkaErrorKind, SaslMechanism,
    SecurityProtocol,
};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    broker::Broker,
    cluster::{Cluster, next, options, read, values},
};

/// The settings of clients of one broker.
struct Settings {
    broker: Broker,
}

impl Settings {
    fn file(&self, name: &str) -> Option<std::path::PathBuf> {
        Some(self.broker.file(&format!("tls/{name}")))
    }

    /// A client with a certificate, at the listener that requires one.
    fn certificate(&self) -> ConnectionConfig {
        ConnectionConfig {
            brokers: self.broker.address_of("certificate"),
            security_protocol: SecurityProtocol::Ssl,
            ca_file: self.file("ca.pem"),
            certificate_file: self.file("admin.pem"),
            key_file: self.file("admin.key"),
            ..ConnectionConfig::default()
        }
    }

    /// A client with a password, at the listener with TLS and SASL.
    fn password(&self) -> ConnectionConfig {
        ConnectionConfig {
            brokers: self.broker.address_of("tls"),
            security_protocol: SecurityProtocol::SaslSsl,
            sasl_mechanism: Some(SaslMechanism::ScramSha512),
            username: Some("admin".to_owned()),
            password_file: Some(self.broker.file("password")),
            ca_file: self.file("ca.pem"),
            ..ConnectionConfig::default()
        }
    }
}

/// An error that a client's settings must have: its name, the settings, the kind, a part of its text and one of its hint.
type Fault = (&'static str, ConnectionConfig, KafkaErrorKind, &'static str, &'static str);

/// Settings that contradict the listener.
fn faults_of_connections(settings: &Settings) -> Vec<Fault> {
    use KafkaErrorKind::{Unauthenticated, Unreachable};
    let (certificate, password) = (|| settings.certificate(), || settings.password());
    let of = ConnectionConfig::default;
    let [without, sasl] = [settings.broker.address().to_owned(), settings.broker.address_of("sasl")];
    let (tls, mutual) = (password().brokers, certificate().brokers);
    let v4 = || [("broker.address.family".to_owned(), "v4".to_owned())].into();
    let untrusted = ("is not trusted", "`ca_file`");
    let refused = ("refuses the client's certificate, or requires one", "`certificate_file` and `key_file`");
    let with_tls = ("closed by peer", "`plaintext` or `sasl_plaintext`");
    let without_tls = ("closed by peer", "`ssl`, `sasl_ssl`");
    let case = |name, config, kind, (text, hint)| (name, config, kind, text, hint);
    vec![
        case(
            "another authority",
            ConnectionConfig { ca_file: settings.file("other-ca.pem"), ..password() },
            Unauthenticated,
            untrusted,
        ),
        case(
            "the system's authorities",
            ConnectionConfig { ca_file: None, ..password() },
            Unauthenticated,
            untrusted,
        ),
        case(
            "another host than the certificate's",
            ConnectionConfig {
                brokers: tls.replace("127.0.0.1", "localhost"),
                properties: v4(),
                ..password()
            },
            Unauthenticated,
            ("is not trusted", "name the broker's host"),
        ),
        case(
            "no certificate",
            ConnectionConfig { certificate_file: None, key_file: None, ..certificate() },
            Unauthenticated,
            refused,
        ),
        case(
            "a certificate of another authority",
            ConnectionConfig {
                certificate_file: settings.file("other.pem"),
                key_file: settings.file("other.key"),
                ..certificate()
            },
            Unauthenticated,
            refused,
        ),
        case(
            "a password instead of a certificate",
            ConnectionConfig { brokers: mutual.clone(), ..password() },
            Unauthenticated,
            refused,
        ),
        case(
            "TLS at a listener without",
            ConnectionConfig { brokers: without, ..certificate() },
            Unreachable,
            with_tls,
        ),
        case(
            "TLS and SASL at a listener with SASL alone",
            ConnectionConfig { brokers: sasl, ..password() },
            Unreachable,
            with_tls,
        ),
        case(
            "no TLS at the listener with TLS and SASL",
            ConnectionConfig { brokers: tls.clone(), ..of() },
            Unreachable,
            without_tls,
        ),
        case(
            "no TLS at the listener with certificates",
            ConnectionConfig { brokers: mutual, ..of() },
            Unreachable,
            without_tls,
        ),
        case(
            "SASL without TLS",
            ConnectionConfig {
                security_protocol: SecurityProtocol::SaslPlaintext,
                ca_file: None,
                ..password()
            },
            Unreachable,
            without_tls,
        ),
        case(
            "TLS without SASL",
            ConnectionConfig { brokers: tls, ..certificate() },
            Unreachable,
            ("closed by peer", "TLS or SASL"),
        ),
        case(
            "another password",
            ConnectionConfig { username: Some("reader".to_owned()), ..password() },
            Unauthenticated,
            ("SASL authentication", "`username`"),
        ),
    ]
}

fn new(config: ConnectionConfig) -> Result<Client, KafkaError> {
    Client::new(config, Arc::new(SystemClock::new()))
}

/// Checks the error of a call, and that of a consumer.
async fn check_fault((name, config, kind, text, hint): Fault) {
    let client = new(config).unwrap();
    let check = |error: &KafkaError| {
        assert_eq!(error.kind(), &kind, "{name}: {error}");
        assert!(error.to_string().contains(text), "{name}: {error}");
        assert!(error.hint().is_some_and(|found| found.contains(hint)), "{name}: {error:?}");
        assert!(!format!("{error:?}").contains("ssl.ca.location"), "{name}: {error:?}");
    };
    // Long before the timeout of a call.
    check(&timeout(Duration::from_secs(30), client.topic("encrypted")).await.unwrap().unwrap_err());
    let mut consumer = client.consumer("encrypted", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    match next(&mut consumer).await {
        Fetched::Waiting { error, .. } => check(&error),
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn connections_are_encrypted_and_faults_name_the_setting() {
    let Some(broker) = Broker::start_with_identities(true) else { return };
    broker.make_topic("encrypted", 1).await;
    broker.append("encrypted", 0, &values(0..3)).await;
    std::fs::write(broker.file("password"), "admin-password\n").unwrap();
    let settings = Settings { broker };

    for config in [settings.password(), settings.certificate()] {
        let client = new(config).unwrap();
        assert_eq!(client.topic("encrypted").await.map(|topic| topic.partitions), Ok(1));
        let mut consumer = client.consumer("encrypted", &options(Isolation::ReadCommitted)).unwrap();
        consumer.assign(0, 0);
        assert_eq!(read(&mut consumer, 0).await.0.len(), 3);
    }

    // A call waits for some seconds before it reports that no broker is reached.
    let mut faults = JoinSet::new();
    for fault in faults_of_connections(&settings) {
        faults.spawn(check_fault(fault));
    }
    while let Some(checked) = faults.join_next().await {
        checked.unwrap();
    }

    let certificate = || settings.certificate();
    let absent = settings.file("absent.pem");
    for (setting, config) in [
        ("`ca_file`", ConnectionConfig { ca_file: absent.clone(), ..certificate() }),
        ("`certificate_file`", ConnectionConfig { certificate_file: absent.clone(), ..certificate() }),
        ("`key_file`", ConnectionConfig { key_file: absent, ..certificate() }),
    ] {
        let error = new(config).unwrap_err();
        assert_eq!(error.kind(), &KafkaErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(setting) && error.to_string().contains("absent.pem"), "{error}");
    }
    for (setting, config, hint) in [
        ("`ca_file`", ConnectionConfig { ca_file: settings.file("ca.key"), ..certificate() }, "authorities"),
        (
            "`certificate_file`",
            ConnectionConfig { certificate_file: settings.file("admin.key"), ..certificate() },
            "the client's certificate",
        ),
        (
            "`key_file`",
            ConnectionConfig { key_file: settings.file("other.key"), ..certificate() },
            "`certificate_file`",
        ),
    ] {
        let error = new(config).unwrap().topic("encrypted").await.unwrap_err();
        assert_eq!(error.kind(), &KafkaErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(setting), "{error}");
        assert!(error.hint().is_some_and(|found| found.contains(hint)), "{error:?}");
    }
}
