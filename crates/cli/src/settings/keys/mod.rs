//! The list of settings: names, meanings, allowed ranges, and the field that stores each.

use std::sync::LazyLock;

use super::{
    Settings,
    value::{bytes_text, millis_text, parse_bytes, parse_count, parse_millis},
};

/// One setting.
pub(crate) struct Key {
    /// `section.name`.
    pub(crate) name: &'static str,
    /// Its description, in sentences.
    pub(crate) doc: &'static str,
    /// The kind of its values.
    pub(crate) kind: Kind,
    /// Its value.
    pub(crate) get: fn(&Settings) -> Value,
    /// Sets a value that [`Key::check`] accepted.
    pub(crate) set: fn(&mut Settings, Value),
}

/// True if the name of an option of an object store says that its value is secret.
fn is_secret(name: &str) -> bool {
    let lower = name.to_lowercase();
    ["key", "secret", "token", "password", "credential", "sas"].iter().any(|word| lower.contains(word))
}

/// The kind of a setting's values.
pub(crate) enum Kind {
    /// Bytes, least and most.
    Bytes(u64, u64),
    /// Milliseconds, least and most.
    Millis(u64, u64),
    /// A whole number, least and most.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that this function finds nothing wrong with.
    Text(Check),
    /// A list of such; in the environment and in flags with commas between.
    List(Check),
}

/// Returns the fault of a text.
type Check = fn(&str) -> Result<(), String>;

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A value of [`Kind::Bytes`], [`Kind::Millis`] and [`Kind::Count`].
    Number(u64),
    /// A value of [`Kind::Choice`] and [`Kind::Text`].
    Text(String),
    /// A value of [`Kind::List`].
    List(Vec<String>),
}

impl Key {
    /// The part of the name before the dot.
    pub(crate) fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The part of the name after the dot.
    pub(crate) fn field(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, field)| field)
    }

    /// The name of its flag, without the dashes before it.
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The name of its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("SWIFTWATER_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// A value of this setting from text, in range.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Bytes(..) => Value::Number(parse_bytes(text)?),
            Kind::Millis(..) => Value::Number(parse_millis(text)?),
            Kind::Count(..) => Value::Number(parse_count(text)?),
            Kind::Choice(_) | Kind::Text(_) => Value::Text(text.to_owned()),
            Kind::List(_) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::List(items.map(str::to_owned).collect())
            }
        };
        self.check(&value).map(|()| value)
    }

    /// Checks that a value is allowed for this setting.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (
                Kind::Bytes(least, most) | Kind::Millis(least, most) | Kind::Count(least, most),
                Value::Number(number),
            ) => {
                if (*least..=*most).contains(number) {
                    Ok(())
                } else {
                    Err("out of range".to_owned())
                }
            }
            (Kind::Choice(words), Value::Text(text)) => {
                if words.contains(&text.as_str()) {
                    Ok(())
                } else {
                    Err("not an allowed word".to_owned())
                }
            }
            (Kind::Text(check), Value::Text(text)) => check(text),
            (Kind::List(check), Value::List(items)) => items.iter().try_for_each(|item| check(item)),
            (Kind::List(_), _) => Err("not a list of texts".to_owned()),
            (Kind::Choice(_) | Kind::Text(_), _) => Err("not text".to_owned()),
            _ => Err("not a number".to_owned()),
        }
    }

    /// The allowed values, in words; empty if that is said otherwise.
    pub(crate) fn allowed(&self) -> String {
        match &self.kind {
            Kind::Bytes(least, most) => format!("{} to {}", bytes_text(*least), bytes_text(*most)),
            Kind::Millis(least, most) => format!("{} to {}", millis_text(*least), millis_text(*most)),
            Kind::Count(least, most) => format!("{least} to {most}"),
            Kind::Choice(words) => {
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Kind::Text(_) | Kind::List(_) => String::new(),
        }
    }

    /// A value as it may be shown: of header fields, which may hold tokens, only the names.
    pub(crate) fn shown(&self, value: &Value) -> String {
        match value {
            Value::List(items) if self.name == "otlp.headers" => {
                let name = |item: &String| item.split_once(':').map_or("", |(name, _)| name).to_owned();
                self.toml(&Value::List(
                    items.iter().map(|item| format!("{}: (hidden)", name(item))).collect(),
                ))
            }
            // Options of object stores have keys and tokens among them.
            Value::List(items) if self.name == "store.options" => {
                let hide = |item: &String| match item.split_once('=') {
                    Some((name, _)) if is_secret(name) => format!("{name}=(hidden)"),
                    _ => item.clone(),
                };
                self.toml(&Value::List(items.iter().map(hide).collect()))
            }
            // `http://user:password@host`
            Value::Text(text) => match text.split_once("://").and_then(|(scheme, rest)| {
                let (user, host) = rest.rsplit_once('@')?;
                (!user.contains('/')).then(|| format!("{scheme}://(hidden)@{host}"))
            }) {
                Some(hidden) => self.toml(&Value::Text(hidden)),
                None => self.toml(value),
            },
            _ => self.toml(value),
        }
    }

    /// A value as it stands in the file.
    pub(crate) fn toml(&self, value: &Value) -> String {
        match (&self.kind, value) {
            (Kind::Bytes(..), Value::Number(number)) if *number > 0 => format!("\"{}\"", bytes_text(*number)),
            (Kind::Millis(..), Value::Number(number)) if *number > 0 => {
                format!("\"{}\"", millis_text(*number))
            }
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Text(text)) => quoted(text),
            (_, Value::List(items)) => {
                format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Text as a TOML string.
pub(super) fn quoted(text: &str) -> String {
    // JSON's escapes are all TOML's too.
    serde_json::Value::from(text).to_string()
}

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;
pub(super) const SECOND: u64 = 1_000;
pub(super) const HOUR: u64 = 3_600 * SECOND;
pub(super) const DAY: u64 = 24 * HOUR;

/// A setting kept in a number of `Settings`.
macro_rules! number {
    ($name:literal, $kind:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: $kind,
            get: |settings| Value::Number(settings.$($field).+ as u64),
            set: |settings, value| if let Value::Number(number) = value { settings.$($field).+ = number as _ },
        }
    };
}

/// A setting kept in a `String` of `Settings`.
macro_rules! text {
    ($name:literal, $kind:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: $kind,
            get: |settings| Value::Text(settings.$($field).+.clone()),
            set: |settings, value| if let Value::Text(text) = value { settings.$($field).+ = text },
        }
    };
}

/// A setting kept in a `Vec<String>` of `Settings`.
macro_rules! list {
    ($name:literal, $check:expr, $($field:ident).+, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            kind: Kind::List($check),
            get: |settings| Value::List(settings.$($field).+.clone()),
            set: |settings, value| if let Value::List(items) = value { settings.$($field).+ = items },
        }
    };
}

/// All settings, in the order of the file; those of a section stand together.
pub(crate) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let sections = [
        server::keys(),
        console::keys(),
        engine::keys(),
        data::keys(),
        bullet::keys(),
        #[cfg(feature = "history")]
        pubsub::keys(),
        #[cfg(feature = "history")]
        cluster::keys(),
        syslog::keys(),
    ];
    sections.into_iter().flatten().collect()
});

#[cfg(feature = "history")]
pub(crate) use cluster::roles_of;

mod bullet;
#[cfg(feature = "history")]
mod cluster;
mod console;
mod data;
mod engine;
#[cfg(feature = "history")]
mod pubsub;
mod server;
mod syslog;
