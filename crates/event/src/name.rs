//! Validates the names of streams.

use std::{fmt, sync::Arc};

/// A stream's name: 1 to 128 of letters, digits, `_`, `-`, `.`, the first a letter or `_`. Letters are ASCII, so a
/// name is itself in a URL, a file name, a metric label and a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(Arc<str>);

/// A name that no stream can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be a stream's name: {why} (`[A-Za-z_][A-Za-z0-9_.-]*`)")]
pub struct NameError {
    /// The name, cut to 128 characters.
    pub name: String,
    /// The rule that it breaks.
    pub why: &'static str,
}

impl StreamName {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks the rules for names.
    pub fn new(name: &str) -> Result<StreamName, NameError> {
        let refuse = |why| Err(NameError { name: name.chars().take(Self::BYTES_MAX).collect(), why });
        let Some(first) = name.chars().next() else { return refuse("it is empty") };
        if name.len() > Self::BYTES_MAX {
            return refuse("it is longer than 128 bytes");
        }
        if !(first.is_ascii_alphabetic() || first == '_') {
            return refuse("it must begin with a letter A-Z, a-z or `_`");
        }
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) {
            return refuse("only letters A-Z, a-z, digits, `_`, `-` and `.` are allowed in it");
        }
        Ok(StreamName(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
