//! Identities and rights, against a broker's listener that requires SASL.

use std::{path::Path, sync::Arc, time::Duration};

use swiftwater_event::SystemClock;
use swiftwater_kafka::{
    Client, ConnectionConfig, Fetched, GroupEvent, GroupProtocol, Isolation, Kafka, KafkaError,
    KafkaErrorKind, MemberOptions, SaslMechanism, SecurityProtocol, TopicPartition,
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    broker::Broker,
    cluster::{Cluster, next, options, read, values},
};

/// An unsigned token of `admin` until the year 2100, which a broker accepts unless it is configured to check signatures.
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImlhdCI6MCwiZXhwIjo0MTAyNDQ0ODAwfQ.";

/// A client with a mechanism, and a password or token in a file.
fn client(address: &str, mechanism: SaslMechanism, username: &str, secret: &Path) -> Client {
    let mut config = ConnectionConfig {
        brokers: address.to_owned(),
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl_mechanism: Some(mechanism),
        ..ConnectionConfig::default()
    };
    if mechanism == SaslMechanism::OauthBearer {
        config.token_file = Some(secret.to_owned());
    } else {
        config.username = Some(username.to_owned());
        config.password_file = Some(secret.to_owned());
    }
    Client::new(config, Arc::new(SystemClock::new())).unwrap()
}

/// The error of a call, which must come long before its timeout.
async fn error_of(client: &Client) -> KafkaError {
    timeout(Duration::from_secs(30), client.topic("rights")).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn identities_and_rights_are_checked() {
    let Some(broker) = Broker::start_with_identities(false) else { return };
    let address = broker.address_of("sasl");
    broker.make_topic("rights", 1).await;
    broker.append("rights", 0, &values(0..3)).await;
    let directory = TempDir::new().unwrap();
    let file = |name: &str, secret: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("{secret}\n")).unwrap();
        path
    };
    let (admin, reader) = (file("admin", "admin-password"), file("reader", "reader-password"));
    let (wrong, token) = (file("wrong", "WR0NG-password"), file("token", TOKEN));

    for (mechanism, secret) in [
        (SaslMechanism::Plain, &admin),
        (SaslMechanism::ScramSha256, &admin),
        (SaslMechanism::ScramSha512, &admin),
        (SaslMechanism::OauthBearer, &token),
    ] {
        let client = client(&address, mechanism, "admin", secret);
        assert_eq!(client.topic("rights").await.map(|topic| topic.partitions), Ok(1), "{mechanism}");
        let mut consumer = client.consumer("rights", &options(Isolation::ReadCommitted)).unwrap();
        consumer.assign(0, 0);
        assert_eq!(read(&mut consumer, 0).await.0.len(), 3, "{mechanism}");
    }

    for mechanism in [SaslMechanism::Plain, SaslMechanism::ScramSha512] {
        let client = client(&address, mechanism, "admin", &wrong);
        let error = error_of(&client).await;
        assert_eq!(error.kind(), &KafkaErrorKind::Unauthenticated, "{mechanism}: {error}");
        assert!(!format!("{error:?}").contains("WR0NG"), "{error:?}");
        let mut consumer = client.consumer("rights", &options(Isolation::ReadCommitted)).unwrap();
        consumer.assign(0, 0);
        match next(&mut consumer).await {
            Fetched::Waiting { error, .. } => {
                assert_eq!(error.kind(), &KafkaErrorKind::Unauthenticated, "{mechanism}: {error}");
                assert!(!format!("{error:?}").contains("WR0NG"), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    let missing = client(&address, SaslMechanism::OauthBearer, "", &directory.path().join("no-token"));
    let error = error_of(&missing).await;
    assert_eq!(error.kind(), &KafkaErrorKind::Unauthenticated, "{error}");
    assert!(error.to_string().contains("no-token"), "{error}");

    let client_without_rights = client(&address, SaslMechanism::Plain, "reader", &reader);
    let error = error_of(&client_without_rights).await;
    let KafkaErrorKind::Unauthorized { right } = error.kind() else { panic!("{error:?}") };
    assert_eq!(&**right, "READ and DESCRIBE on topic `rights`");
    assert!(error.hint().is_some_and(|hint| hint.contains("ACL")), "{error:?}");
    let mut consumer = client_without_rights.consumer("rights", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    match next(&mut consumer).await {
        Fetched::Waiting { error, .. } => {
            assert!(matches!(error.kind(), KafkaErrorKind::Unauthorized { .. }), "{error}");
        }
        other => panic!("{other:?}"),
    }

    let options = MemberOptions {
        group: "rights".to_owned(),
        topics: vec!["rights".to_owned()],
        instance_id: None,
        client_id: None,
        session_timeout: Duration::from_secs(6),
        protocol: GroupProtocol::Classic,
    };
    for protocol in [GroupProtocol::Classic, GroupProtocol::Consumer] {
        let options = MemberOptions { protocol, ..options.clone() };
        let mut member = client_without_rights.member(&options).unwrap();
        // The topic may be reported first.
        let mut rights = Vec::new();
        while !rights.contains(&"READ on group `rights`".to_owned()) {
            let error = match timeout(Duration::from_secs(30), member.next()).await.unwrap() {
                GroupEvent::Waiting(error) => error,
                GroupEvent::Failed(error) if protocol == GroupProtocol::Consumer => error,
                other => panic!("{other:?}"),
            };
            let KafkaErrorKind::Unauthorized { right } = error.kind() else { panic!("{error:?}") };
            rights.push(right.to_string());
        }
        let committed =
            client_without_rights.group_offsets("rights", &[TopicPartition::new("rights", 0)]).await;
        let error = committed.unwrap_err();
        let right = KafkaErrorKind::Unauthorized { right: "DESCRIBE on group `rights`".into() };
        assert_eq!(error.kind(), &right, "{error}");
        let error = client_without_rights.group("rights").await.unwrap_err();
        assert_eq!(error.kind(), &right, "{error}");
    }

    // Clients without SASL, and with TLS, at this listener.
    for security_protocol in [SecurityProtocol::Plaintext, SecurityProtocol::Ssl] {
        let config =
            ConnectionConfig { brokers: address.clone(), security_protocol, ..ConnectionConfig::default() };
        let client = Client::new(config, Arc::new(SystemClock::new())).unwrap();
        let error = error_of(&client).await;
        assert_eq!(error.kind(), &KafkaErrorKind::Unreachable, "{error}");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("TLS") || hint.contains("certificates")),
            "{error:?}"
        );
    }
}
