//! Faults of messages, with their place, and of schemas.

use std::fmt;

use crate::DEPTH_MAX;

/// The fields of a path that a fault shows.
const PATH_FIELDS_MAX: usize = 16;

/// The reason why a message does not have the form of its schema. It names the field, and has none of the message's content
/// beside numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    text: Box<str>,
    /// The fields around the place, the innermost first.
    path: Vec<Box<str>>,
}

impl Fault {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Fault {
        Fault { text: text.into(), path: Vec::new() }
    }

    /// The fault of a message that ends before its value does.
    pub(crate) fn truncated() -> Fault {
        Fault::new("the message ends too early")
    }

    pub(crate) fn too_deep() -> Fault {
        Fault::new(format!("it nests deeper than {DEPTH_MAX} levels"))
    }

    pub(crate) fn too_long(bytes_max: usize) -> Fault {
        Fault::new(format!("its JSON text has more than {bytes_max} bytes"))
    }

    /// The fault of a field's value.
    #[must_use]
    #[cold]
    pub(crate) fn within(mut self, field: &str) -> Fault {
        if self.path.len() < PATH_FIELDS_MAX {
            self.path.push(field.into());
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            f.write_str("field `")?;
            for (place, field) in self.path.iter().rev().enumerate() {
                write!(f, "{}{field}", if place > 0 { "." } else { "" })?;
            }
            f.write_str("`: ")?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// The reason why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SchemaError {
    text: Box<str>,
}

impl SchemaError {
    pub(crate) fn new(text: impl Into<Box<str>>) -> SchemaError {
        SchemaError { text: text.into() }
    }
}
