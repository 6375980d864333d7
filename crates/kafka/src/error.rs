//! Errors of Kafka: their kinds, by which a caller acts, and the remedy for each.

/// The kind of an error, by which a caller acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KafkaErrorKind {
    /// No broker answers; try again.
    Unreachable,
    /// The broker refused the identity of the client: its certificate, password or token.
    Unauthenticated,
    /// The identity lacks a right on a topic, a group or the cluster.
    Unauthorized {
        /// The missing right, such as "READ on topic `orders`".
        right: Box<str>,
    },
    /// The broker has no such topic or partition.
    UnknownTopic,
    /// A setting is invalid, or contradicts another one.
    Configuration,
    /// The broker sent bytes that are not what their checksum or length states.
    Corrupt,
    /// Any other error; the text has the client's own reason.
    Other,
}

impl KafkaErrorKind {
    /// True if the same call can succeed later without a change of settings.
    pub fn is_transient(&self) -> bool {
        matches!(self, KafkaErrorKind::Unreachable | KafkaErrorKind::Corrupt | KafkaErrorKind::Other)
    }
}

/// An error of Kafka. It names the place, and its hint the remedy; it has no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct KafkaError {
    kind: KafkaErrorKind,
    text: Box<str>,
    hint: Option<Box<str>>,
}

impl KafkaError {
    /// An error with the usual hint of its kind; a configuration error has none.
    pub fn new(kind: KafkaErrorKind, text: impl Into<Box<str>>) -> KafkaError {
        let hint = match &kind {
            KafkaErrorKind::Unreachable => Some(
                "Check `brokers` and the network. A listener that expects TLS or SASL closes connections without it: then \
                 set `security_protocol` to `ssl`, `sasl_ssl` or `sasl_plaintext`, as the listener has it."
                    .into(),
            ),
            KafkaErrorKind::Unauthenticated => Some(
                "Check `sasl_mechanism`, `username`, and the files of password, token and certificates against those of \
                 the broker's listener."
                    .into(),
            ),
            KafkaErrorKind::Unauthorized { right } => {
                Some(format!("Add an ACL on the broker that allows this identity {right}.").into())
            }
            KafkaErrorKind::UnknownTopic => Some(
                "Create the topic, or correct its name. Without the right DESCRIBE, a topic seems not to exist.".into(),
            ),
            KafkaErrorKind::Corrupt => Some(
                "The client fetches again. If it persists, check the broker's log and disk.".into(),
            ),
            KafkaErrorKind::Configuration | KafkaErrorKind::Other => None,
        };
        KafkaError { kind, text: text.into(), hint }
    }

    /// The error with another hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> KafkaError {
        self.hint = Some(hint.into());
        self
    }

    /// The kind, by which a caller acts.
    pub fn kind(&self) -> &KafkaErrorKind {
        &self.kind
    }

    /// The remedy, where there is one to name.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
