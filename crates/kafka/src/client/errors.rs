//! Errors of librdkafka and of brokers, translated into [`KafkaError`].

use rdkafka_sys as sys;

use super::native::text_at;
use crate::{KafkaError, KafkaErrorKind};

/// An error code of librdkafka: negative if the client itself has it, positive if a broker sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Code(pub(super) i32);

impl Code {
    pub(super) const NONE: Code = Code(0);
    pub(super) const TRANSPORT: Code = Code(-195);
    pub(super) const SSL: Code = Code(-181);
    pub(super) const AUTHENTICATION: Code = Code(-169);
    pub(super) const NO_OFFSET: Code = Code(-168);
    pub(super) const PARTITION_EOF: Code = Code(-191);
    pub(super) const AUTO_OFFSET_RESET: Code = Code(-140);
    pub(super) const FATAL: Code = Code(-150);
    pub(super) const ALL_BROKERS_DOWN: Code = Code(-187);
    pub(super) const TIMED_OUT: Code = Code(-185);
    pub(super) const QUEUE_FULL: Code = Code(-184);
    pub(super) const TOPIC_EXISTS: Code = Code(36);
    pub(super) const INVALID_TOPIC: Code = Code(17);
    pub(super) const UNKNOWN_GROUP: Code = Code(69);

    /// librdkafka's description.
    pub(super) fn text(self) -> String {
        // SAFETY: the codes come from librdkafka, and a description is a static C string.
        unsafe {
            let Ok(code) = sys::rd_kafka_resp_err_t::try_from(self.0) else {
                return format!("error {}", self.0);
            };
            text_at(sys::rd_kafka_err2str(code))
        }
    }

    /// The code of an error with this text: with TLS 1.3 a broker refuses a client's certificate when the client has connected
    /// already, which librdkafka takes for a failure of the network.
    pub(super) fn refined_by(self, text: &str) -> Code {
        let is_refused = self == Code::TRANSPORT && TlsFault::of(text) == Some(TlsFault::CertificateRefused);
        if is_refused { Code::SSL } else { self }
    }

    /// True if the error is about the connection to a broker.
    pub(super) fn is_unreachable(self) -> bool {
        matches!(
            self.0,
            // _TRANSPORT, _RESOLVE, _ALL_BROKERS_DOWN, _TIMED_OUT, _TIMED_OUT_QUEUE, _NODE_UPDATE, _WAIT_COORD.
            -195 | -193 | -187 | -185 | -166 | -182 | -180
            // LEADER_NOT_AVAILABLE, NOT_LEADER_FOR_PARTITION, REQUEST_TIMED_OUT, BROKER_NOT_AVAILABLE,
            // REPLICA_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
            | 5..=9 | 14..=16
            // FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: the leader of a partition has changed.
            | 74 | 75
        )
    }

    /// True if a group has another generation of members by now.
    pub(super) fn is_of_former_generation(self) -> bool {
        // ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH.
        matches!(self.0, 22 | 27 | 113)
    }

    /// True if the broker or the client refused the identity: trying again without a change is useless.
    pub(super) fn is_unauthenticated(self) -> bool {
        // _SSL, _AUTHENTICATION, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE.
        matches!(self.0, -181 | -169 | 58 | 33 | 34)
    }
}

/// A contradiction between the client's settings for TLS and the broker's listener, by the texts of librdkafka 2.12 and of OpenSSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsFault {
    /// The client does not trust the broker's certificate.
    NotTrusted,
    /// The broker requires a certificate, or another one.
    CertificateRefused,
    /// The listener has no TLS, and the client uses it.
    ListenerWithoutTls,
}

/// The alerts of TLS about a certificate: bad, unsupported, revoked, expired, unknown, of an unknown authority, and required.
const CERTIFICATE_ALERTS: [&str; 7] = ["42", "43", "44", "45", "46", "48", "116"];

/// The beginnings of librdkafka's advice, which names its own properties instead of the settings.
const ADVICE: [&str; 3] = [
    ": broker certificate could not be verified",
    ": client SSL authentication might be",
    ": connecting to a PLAINTEXT broker listener?",
];

impl TlsFault {
    fn of(text: &str) -> Option<TlsFault> {
        let alert = text.split_once("SSL alert number ").map(|(_, rest)| rest);
        let alert = alert.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        if alert.is_some_and(|alert| CERTIFICATE_ALERTS.contains(&alert))
            || text.contains("client SSL authentication might be")
        {
            return Some(TlsFault::CertificateRefused);
        }
        if text.contains("certificate verify failed") {
            return Some(TlsFault::NotTrusted);
        }
        // librdkafka's own advice is in some of these texts only.
        let is_closed = text.contains("Disconnected") || text.contains("reset by peer");
        let in_handshake = is_closed && text.contains("in state SSL_HANDSHAKE");
        (in_handshake || text.contains("wrong version number")).then_some(TlsFault::ListenerWithoutTls)
    }

    fn error(self, brokers: &str, text: &str) -> KafkaError {
        let text = without_advice(text);
        match self {
            TlsFault::NotTrusted => KafkaError::new(
                KafkaErrorKind::Unauthenticated,
                format!("the certificate of Kafka `{brokers}` is not trusted: {text}"),
            )
            .with_hint(
                "Set `ca_file` to the certificate of the authority that signed the broker's. The broker's certificate must \
                 not have expired, and must name the broker's host as `brokers` and its advertised listener write it.",
            ),
            TlsFault::CertificateRefused => KafkaError::new(
                KafkaErrorKind::Unauthenticated,
                format!("Kafka `{brokers}` refuses the client's certificate, or requires one: {text}"),
            )
            .with_hint(
                "Set `certificate_file` and `key_file` to a certificate that is valid and that an authority in the \
                 broker's truststore has signed. Or use a listener that requires none.",
            ),
            TlsFault::ListenerWithoutTls => KafkaError::new(
                KafkaErrorKind::Unreachable,
                format!("Kafka `{brokers}` cannot be reached: {text}"),
            )
            .with_hint(
                "Check `brokers` and the network. A listener without TLS closes connections with it: then set \
                 `security_protocol` to `plaintext` or `sasl_plaintext`, or `brokers` to a listener with TLS.",
            ),
        }
    }
}

/// A text of librdkafka without its advice.
fn without_advice(text: &str) -> String {
    let Some(start) = ADVICE.iter().filter_map(|advice| text.find(advice)).min() else {
        return text.to_owned();
    };
    // Time and state of the connection follow.
    let end = text[start..].rfind(" (after ").map_or(text.len(), |end| start + end);
    format!("{}{}", &text[..start], &text[end..])
}

/// The error of a client that does not start for this reason of librdkafka.
pub(super) fn start_error(reason: &str) -> KafkaError {
    let files = [
        ("ssl.ca.location", "ca_file", "It must have certificates of authorities, in PEM."),
        ("ssl.certificate.location", "certificate_file", "It must have the client's certificate, in PEM."),
        (
            "ssl.key.location",
            "key_file",
            "It must have the private key of the certificate in `certificate_file`, in PEM and not encrypted.",
        ),
    ];
    for (property, setting, hint) in files {
        if let Some(reason) = reason.strip_prefix(property) {
            let reason = reason.trim_start_matches(" failed").trim_start_matches(": ");
            let text = format!("the Kafka client refuses the file of `{setting}`: {reason}");
            return KafkaError::new(KafkaErrorKind::Configuration, text).with_hint(hint);
        }
    }
    KafkaError::new(KafkaErrorKind::Configuration, format!("the Kafka client does not start: {reason}"))
}

/// An error as librdkafka reports it.
#[derive(Debug, Clone)]
pub(super) struct NativeError {
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) partition: Option<u32>,
}

/// The kind of access to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Access {
    #[default]
    Read,
    Write,
    Create,
    Limits,
    /// The description of a group, or its offsets.
    Group,
}

/// The place of an error.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place<'p> {
    pub(super) brokers: &'p str,
    pub(super) topic: &'p str,
    pub(super) access: Access,
    pub(super) group: &'p str,
    pub(super) instance_id: &'p str,
    pub(super) transactional_id: &'p str,
}

impl Place<'_> {
    /// The error at this place. Where `text` is empty, it has librdkafka's description.
    pub(super) fn error(&self, code: Code, text: &str) -> KafkaError {
        let description = code.text();
        let text = if text.is_empty() { description.as_str() } else { text };
        let Place { brokers, topic, access, group, instance_id, transactional_id } = self;
        let unauthorized = |right: String| {
            let text = format!("the identity has no right {right} at Kafka `{brokers}`");
            KafkaError::new(KafkaErrorKind::Unauthorized { right: right.into() }, text)
        };
        if (code.is_unauthenticated() || code.is_unreachable())
            && let Some(fault) = TlsFault::of(text)
        {
            return fault.error(brokers, text);
        }
        match code.0 {
            29 => unauthorized(match access {
                Access::Read => format!("READ and DESCRIBE on topic `{topic}`"),
                Access::Group => format!("DESCRIBE on topic `{topic}`"),
                Access::Write => format!("WRITE and DESCRIBE on topic `{topic}`"),
                Access::Create => format!("CREATE on topic `{topic}`"),
                Access::Limits => format!("DESCRIBE_CONFIGS on topic `{topic}`"),
            }),
            30 if *access == Access::Group => unauthorized(format!("DESCRIBE on group `{group}`")),
            30 => unauthorized(format!("READ on group `{group}`")),
            // FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.
            82 | 111 => KafkaError::new(
                KafkaErrorKind::Other,
                format!("another member of group `{group}` at Kafka `{brokers}` has the name `{instance_id}`: {text}"),
            )
            .with_hint("Two programs have the same `instance_id`: end one of them, or give it another name."),
            // INVALID_SESSION_TIMEOUT.
            26 => KafkaError::new(
                KafkaErrorKind::Configuration,
                format!("Kafka `{brokers}` does not accept the session timeout of a member of group `{group}`"),
            )
            .with_hint("The broker's settings `group.min.session.timeout.ms` and `group.max.session.timeout.ms` are the limits."),
            // INCONSISTENT_GROUP_PROTOCOL.
            23 => KafkaError::new(
                KafkaErrorKind::Configuration,
                format!("the other members of group `{group}` at Kafka `{brokers}` have another protocol: {text}"),
            )
            .with_hint("Another program uses the same group, or all members must be restarted with one protocol."),
            31 => unauthorized(match access {
                Access::Read | Access::Limits | Access::Group => "DESCRIBE on the cluster".to_owned(),
                Access::Write => "IDEMPOTENT_WRITE on the cluster".to_owned(),
                Access::Create => format!("CREATE on topic `{topic}`"),
            }),
            53 => unauthorized(format!("WRITE and DESCRIBE on transactional id `{transactional_id}`")),
            // INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, _FENCED.
            47 | 90 | -144 => KafkaError::new(
                KafkaErrorKind::Other,
                format!("another producer writes to Kafka `{brokers}` as `{transactional_id}`: {text}"),
            )
            .with_hint("Two servers have the same data directory, or one a copy of it: end one of them. Or a transaction took longer than 60 s."),
            // UNKNOWN_TOPIC_OR_PART, _UNKNOWN_TOPIC, _UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID, and _NOENT, with which calls report
            // that none of the partitions is known.
            3 | -188 | -190 | 100 | -156 => KafkaError::new(
                KafkaErrorKind::UnknownTopic,
                format!("Kafka `{brokers}` has no topic `{topic}`, or not this partition of it: {text}"),
            ),
            17 => KafkaError::new(
                KafkaErrorKind::Configuration,
                format!("`{topic}` cannot be the name of a topic: {text}"),
            )
            .with_hint("A name has up to 249 letters, digits, `.`, `_` and `-`."),
            10 => KafkaError::new(
                KafkaErrorKind::Other,
                format!("a message or a batch is larger than topic `{topic}` of Kafka `{brokers}` accepts"),
            )
            .with_hint("Raise the topic's `max.message.bytes`, or set a lower `batch_rows`."),
            // _MSG_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
            -192 | 19 | 20 => KafkaError::new(
                KafkaErrorKind::Other,
                format!("a message was not acknowledged by topic `{topic}` of Kafka `{brokers}`: {text}"),
            )
            .with_hint(
                "Check the brokers: each partition needs a leader, and as many replicas in sync as the topic's \
                 `min.insync.replicas`.",
            ),
            // CORRUPT_MESSAGE, _BAD_MSG, _BAD_COMPRESSION.
            2 | -199 | -198 => KafkaError::new(
                KafkaErrorKind::Corrupt,
                format!("topic `{topic}` of Kafka `{brokers}` has corrupt bytes: {text}"),
            ),
            _ if code.is_unauthenticated() => KafkaError::new(
                KafkaErrorKind::Unauthenticated,
                format!("Kafka `{brokers}` and this client do not authenticate each other: {text}"),
            ),
            // LEADER_NOT_AVAILABLE, NOT_LEADER_FOR_PARTITION, BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, and those of coordinators.
            5 | 6 | 8 | 9 | 14..=16 | 74 | 75 => KafkaError::new(
                KafkaErrorKind::Unreachable,
                format!("Kafka `{brokers}` is not ready: {text}"),
            )
            .with_hint("The brokers are electing a leader, or have just made the topic. The client tries again."),
            _ if code.is_unreachable() => KafkaError::new(
                KafkaErrorKind::Unreachable,
                format!("Kafka `{brokers}` cannot be reached: {text}"),
            ),
            _ if topic.is_empty() && !group.is_empty() => {
                KafkaError::new(KafkaErrorKind::Other, format!("Kafka `{brokers}`, group `{group}`: {text}"))
            }
            _ => {
                KafkaError::new(KafkaErrorKind::Other, format!("Kafka `{brokers}`, topic `{topic}`: {text}"))
            }
        }
    }

    /// The error of a call that had no answer in time.
    pub(super) fn timeout(&self) -> KafkaError {
        self.error(Code::TIMED_OUT, "no broker answered in time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_client() {
        use sys::rd_kafka_resp_err_t::*;
        assert_eq!(Code::TRANSPORT.0, RD_KAFKA_RESP_ERR__TRANSPORT as i32);
        assert_eq!(Code::SSL.0, RD_KAFKA_RESP_ERR__SSL as i32);
        assert_eq!(Code::AUTHENTICATION.0, RD_KAFKA_RESP_ERR__AUTHENTICATION as i32);
        assert_eq!(Code::NO_OFFSET.0, RD_KAFKA_RESP_ERR__NO_OFFSET as i32);
        assert_eq!(Code::PARTITION_EOF.0, RD_KAFKA_RESP_ERR__PARTITION_EOF as i32);
        assert_eq!(Code::AUTO_OFFSET_RESET.0, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET as i32);
        assert_eq!(Code::FATAL.0, RD_KAFKA_RESP_ERR__FATAL as i32);
        assert_eq!(Code::ALL_BROKERS_DOWN.0, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32);
        assert_eq!(Code::TIMED_OUT.0, RD_KAFKA_RESP_ERR__TIMED_OUT as i32);
        assert_eq!(Code::QUEUE_FULL.0, RD_KAFKA_RESP_ERR__QUEUE_FULL as i32);
        assert_eq!(Code::TOPIC_EXISTS.0, RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS as i32);
        assert_eq!(Code::INVALID_TOPIC.0, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION as i32);
        assert_eq!(Code::UNKNOWN_GROUP.0, RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND as i32);
        let unreachable = [
            RD_KAFKA_RESP_ERR__TRANSPORT,
            RD_KAFKA_RESP_ERR__RESOLVE,
            RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
            RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
            RD_KAFKA_RESP_ERR__NODE_UPDATE,
            RD_KAFKA_RESP_ERR__WAIT_COORD,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
            RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
        ];
        let unknown = [
            RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
            RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
            RD_KAFKA_RESP_ERR__NOENT,
            RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID,
        ];
        let unauthenticated = [
            RD_KAFKA_RESP_ERR__SSL,
            RD_KAFKA_RESP_ERR__AUTHENTICATION,
            RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED,
            RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM,
        ];
        let corrupt =
            [RD_KAFKA_RESP_ERR_INVALID_MSG, RD_KAFKA_RESP_ERR__BAD_MSG, RD_KAFKA_RESP_ERR__BAD_COMPRESSION];
        let place = Place { brokers: "b:1", topic: "t", group: "g", ..Place::default() };
        let cases: [(&[_], _); 4] = [
            (&unreachable, KafkaErrorKind::Unreachable),
            (&unknown, KafkaErrorKind::UnknownTopic),
            (&unauthenticated, KafkaErrorKind::Unauthenticated),
            (&corrupt, KafkaErrorKind::Corrupt),
        ];
        for (codes, kind) in cases {
            for code in codes {
                let error = place.error(Code(*code as i32), "");
                assert_eq!(error.kind(), &kind, "{error}");
                assert!(error.hint().is_some());
            }
        }
        let error = place.error(Code(RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED as i32), "");
        assert_eq!(error.kind(), &KafkaErrorKind::Unauthorized { right: "READ on group `g`".into() });
        for code in [
            RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ] {
            let error = place.error(Code(code as i32), "");
            assert!(error.hint().is_some_and(|hint| hint.contains("`min.insync.replicas`")), "{error:?}");
        }
        let member = Place { instance_id: "i", ..place };
        for code in [RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, RD_KAFKA_RESP_ERR_UNRELEASED_INSTANCE_ID] {
            let error = member.error(Code(code as i32), "");
            assert!(
                error.to_string().contains("another member") && error.to_string().contains("`i`"),
                "{error}"
            );
        }
        for code in [RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT, RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL]
        {
            let error = member.error(Code(code as i32), "");
            assert_eq!(error.kind(), &KafkaErrorKind::Configuration, "{error}");
        }
        let fenced = [
            RD_KAFKA_RESP_ERR__FENCED,
            RD_KAFKA_RESP_ERR_PRODUCER_FENCED,
            RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
        ];
        for code in fenced {
            let error = place.error(Code(code as i32), "");
            assert!(error.to_string().contains("another producer"), "{error}");
        }
        let right = |access: Access, code: sys::rd_kafka_resp_err_t| {
            let error = Place { access, transactional_id: "x", ..place }.error(Code(code as i32), "");
            match error.kind() {
                KafkaErrorKind::Unauthorized { right } => right.to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            right(Access::Write, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED),
            "WRITE and DESCRIBE on topic `t`"
        );
        assert_eq!(
            right(Access::Write, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            "WRITE and DESCRIBE on transactional id `x`"
        );
        assert_eq!(
            right(Access::Group, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED),
            "DESCRIBE on group `g`"
        );
        let error = place.error(Code(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as i32), "");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("READ and DESCRIBE on topic `t`")),
            "{error:?}"
        );
    }

    #[test]
    fn faults_of_tls_are_found_in_texts() {
        let refused = Some(TlsFault::CertificateRefused);
        for alert in [42, 46, 48, 116] {
            let text =
                format!("Receive failed: error:0A: alert: SSL alert number {alert} (after 1ms in state UP)");
            assert_eq!(TlsFault::of(&text), refused, "{text}");
            assert_eq!(Code::TRANSPORT.refined_by(&text), Code::SSL);
            assert_eq!(Code::ALL_BROKERS_DOWN.refined_by(&text), Code::ALL_BROKERS_DOWN);
        }
        for text in [
            "SSL handshake failed: Disconnected: SSL connection closed by peer (after 1ms in state SSL_HANDSHAKE)",
            "Disconnected: SSL connection closed by peer (after 1ms in state SSL_HANDSHAKE)",
            "SSL handshake failed: SSL transport error: Connection reset by peer (after 1ms in state SSL_HANDSHAKE)",
        ] {
            assert_eq!(TlsFault::of(text), Some(TlsFault::ListenerWithoutTls), "{text}");
        }
        for text in [
            "SSL alert number 40",
            "Disconnected (after 1ms in state UP)",
            "SSL alert number 4",
            "Disconnected",
            "",
        ] {
            assert_eq!(TlsFault::of(text), None, "{text}");
            assert_eq!(Code::TRANSPORT.refined_by(text), Code::TRANSPORT);
        }
        let text = "b: certificate verify failed: broker certificate could not be verified, verify (install) (after 7ms)";
        assert_eq!(without_advice(text), "b: certificate verify failed (after 7ms)");
        assert_eq!(without_advice("refused (after 7ms)"), "refused (after 7ms)");
    }
}
