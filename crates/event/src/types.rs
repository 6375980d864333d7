//! The types that a query can request for a path: Bullet's and TIMESTAMP.
//!
//! Section "Record model and types" of Bullet's manual (`reference`) defines Bullet's types. [`Type::Any`] requests whatever
//! kind the event has there, event by event.

use std::fmt;

/// A unit of integer timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimeUnit {
    /// Seconds since 1970-01-01T00:00:00Z.
    Second,
    /// Milliseconds since then.
    Millisecond,
    /// Microseconds since then.
    Microsecond,
    /// Nanoseconds since then.
    Nanosecond,
}

/// A type without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Primitive {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits.
    Integer,
    /// A whole number of 64 bits.
    Long,
    /// A number of 32 bits, binary floating point.
    Float,
    /// A number of 64 bits, binary floating point.
    Double,
    /// Text.
    String,
    /// A point in time, held as microseconds since 1970-01-01T00:00:00Z: read from RFC 3339 text, or from a whole
    /// number of the given unit.
    Timestamp(TimeUnit),
}

/// The type as which a path is wanted. Containers nest at most two levels deep ([`Type::list`], [`Type::map`] check
/// it).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Any type: decodes to a tagged column, so no answer depends on the values of other events.
    Any,
    /// One primitive.
    Primitive(Primitive),
    /// A list whose elements all have one type.
    List(Box<Type>),
    /// A map from strings to values of one type.
    Map(Box<Type>),
}

/// A type that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// Containers within containers within containers.
    #[error("type `{0}` nests more than two levels deep")]
    TooDeep(String),
    /// A word that names no type.
    #[error("no type `{0}`")]
    Unknown(String),
}

impl Type {
    /// BOOLEAN.
    pub const BOOLEAN: Type = Type::Primitive(Primitive::Boolean);
    /// INTEGER.
    pub const INTEGER: Type = Type::Primitive(Primitive::Integer);
    /// LONG.
    pub const LONG: Type = Type::Primitive(Primitive::Long);
    /// FLOAT.
    pub const FLOAT: Type = Type::Primitive(Primitive::Float);
    /// DOUBLE.
    pub const DOUBLE: Type = Type::Primitive(Primitive::Double);
    /// STRING.
    pub const STRING: Type = Type::Primitive(Primitive::String);

    /// A list of `element`.
    pub fn list(element: Type) -> Result<Type, TypeError> {
        Type::List(Box::new(element)).within_two_levels()
    }

    /// A map from strings to `value`.
    pub fn map(value: Type) -> Result<Type, TypeError> {
        Type::Map(Box::new(value)).within_two_levels()
    }

    /// Levels of containers: 0 for a primitive, 2 for `LIST[MAP[LONG]]`.
    pub fn depth(&self) -> usize {
        match self {
            Type::Any | Type::Primitive(_) => 0,
            Type::List(inner) | Type::Map(inner) => 1 + inner.depth(),
        }
    }

    /// True if the type contains `ANY`, be it within containers.
    pub(crate) fn contains_any(&self) -> bool {
        match self {
            Type::Any => true,
            Type::Primitive(_) => false,
            Type::List(inner) | Type::Map(inner) => inner.contains_any(),
        }
    }

    fn within_two_levels(self) -> Result<Type, TypeError> {
        if self.depth() > 2 { Err(TypeError::TooDeep(self.to_string())) } else { Ok(self) }
    }

    /// Reads a type as it is written in a query or a type file: `LONG`, `LIST[MAP[STRING]]`, or Bullet's
    /// `STRING_MAP_LIST` (a list of maps of strings). Letter case does not matter.
    pub fn parse(text: &str) -> Result<Type, TypeError> {
        let text = text.trim();
        let upper = text.to_ascii_uppercase();
        for (open, is_list) in [("LIST[", true), ("MAP[", false)] {
            if let Some(inner) = upper.strip_prefix(open).and_then(|rest| rest.strip_suffix(']')) {
                let inner = Type::parse(inner)?;
                return if is_list { Type::list(inner) } else { Type::map(inner) };
            }
        }
        if let Some(inner) = upper.strip_suffix("_LIST") {
            return Type::list(Type::parse(inner)?);
        }
        if let Some(inner) = upper.strip_suffix("_MAP") {
            return Type::map(Type::parse(inner)?);
        }
        let primitive = match upper.as_str() {
            "ANY" => return Ok(Type::Any),
            "BOOLEAN" => Primitive::Boolean,
            "INTEGER" => Primitive::Integer,
            "LONG" => Primitive::Long,
            "FLOAT" => Primitive::Float,
            "DOUBLE" => Primitive::Double,
            "STRING" => Primitive::String,
            "TIMESTAMP" | "TIMESTAMP(MS)" => Primitive::Timestamp(TimeUnit::Millisecond),
            "TIMESTAMP(S)" => Primitive::Timestamp(TimeUnit::Second),
            "TIMESTAMP(US)" => Primitive::Timestamp(TimeUnit::Microsecond),
            "TIMESTAMP(NS)" => Primitive::Timestamp(TimeUnit::Nanosecond),
            _ => return Err(TypeError::Unknown(text.to_owned())),
        };
        Ok(Type::Primitive(primitive))
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Primitive::Boolean => "BOOLEAN",
            Primitive::Integer => "INTEGER",
            Primitive::Long => "LONG",
            Primitive::Float => "FLOAT",
            Primitive::Double => "DOUBLE",
            Primitive::String => "STRING",
            Primitive::Timestamp(TimeUnit::Second) => "TIMESTAMP(S)",
            Primitive::Timestamp(TimeUnit::Millisecond) => "TIMESTAMP",
            Primitive::Timestamp(TimeUnit::Microsecond) => "TIMESTAMP(US)",
            Primitive::Timestamp(TimeUnit::Nanosecond) => "TIMESTAMP(NS)",
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => f.write_str("ANY"),
            Type::Primitive(primitive) => primitive.fmt(f),
            Type::List(inner) => write!(f, "LIST[{inner}]"),
            Type::Map(inner) => write!(f, "MAP[{inner}]"),
        }
    }
}
