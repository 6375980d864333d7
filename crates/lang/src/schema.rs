//! Declared types of a stream's fields.

use std::collections::BTreeMap;

use swiftwater_event::Type;

/// The fields that are known to have a type. In the Bullet dialect a query may name no others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    fields: BTreeMap<Box<str>, Type>,
}

/// A schema file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// What is wrong, and where.
    pub message: String,
}

impl Schema {
    /// A schema of these fields.
    pub fn new(fields: impl IntoIterator<Item = (Box<str>, Type)>) -> Schema {
        Schema { fields: fields.into_iter().collect() }
    }

    /// The declared type of a field.
    pub fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name)
    }

    /// All fields, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.fields.iter().map(|(name, ty)| (&**name, ty))
    }
}
