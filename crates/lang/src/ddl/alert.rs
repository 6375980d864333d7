//! The declaration of an alert (`CREATE ALERT`): the rows that raise it, and its target.
//!
//! ```text
//! CREATE ALERT [IF NOT EXISTS] name ON source WHEN condition INTO target [WITH (option = value, …)]
//!   source = view | (query)
//!   target = [STREAM] name | WEBHOOK 'http(s)://…'
//! DROP ALERT [IF EXISTS] name          SHOW ALERTS          SHOW CREATE ALERT name          DESCRIBE ALERT name
//! ```

use std::fmt::{self, Display};

use swiftwater_event::StreamName;

use super::{
    options::{Value, named},
    print::{when, write_name, write_options, write_quoted},
    sink::{SinkOption, SinkOptions},
};

/// `CREATE ALERT`: a condition on rows by key; somebody is told of each key that meets it, and that does not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateAlert {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// The source of the watched rows.
    pub source: AlertSource,
    /// The condition, as it is written: what it means depends on the columns of the source.
    pub condition: Box<str>,
    /// The target of the messages.
    pub target: AlertTarget,
    /// `WITH (…)`.
    pub options: AlertOptions,
}

/// The source of an alert's rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AlertSource {
    /// A view's.
    View(Box<str>),
    /// The rows of a query, as written, which is maintained as a view of the alert's own.
    Query(Box<str>),
}

/// The target of an alert's messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AlertTarget {
    /// A stream: an event a message.
    Stream(StreamName),
    /// A URL that messages are posted to.
    Webhook(Box<str>),
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AlertOptions {
    /// True if the alert also reports that a key no longer meets the condition.
    pub resolve: Option<bool>,
    /// The way a webhook is told: as by a sink.
    pub delivery: SinkOptions,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlertOption {
    /// `resolve = true|false`.
    Resolve,
    /// One that sinks have, too.
    Delivery(SinkOption),
}

impl AlertOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [AlertOption; 6] = [
        AlertOption::Resolve,
        AlertOption::Delivery(SinkOption::BatchRows),
        AlertOption::Delivery(SinkOption::Retries),
        AlertOption::Delivery(SinkOption::DeadLetter),
        AlertOption::Delivery(SinkOption::Timeout),
        AlertOption::Delivery(SinkOption::Headers),
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            AlertOption::Resolve => "resolve",
            AlertOption::Delivery(option) => option.text(),
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<AlertOption, String> {
        named(&Self::ALL, Self::text, name)
    }
}

impl AlertOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: AlertOption, value: &Value) -> Result<(), String> {
        match (option, value) {
            (AlertOption::Resolve, Value::Text(text)) if text.eq_ignore_ascii_case("true") => {
                self.resolve = Some(true);
            }
            (AlertOption::Resolve, Value::Text(text)) if text.eq_ignore_ascii_case("false") => {
                self.resolve = Some(false);
            }
            (AlertOption::Resolve, _) => return Err("`resolve` must be true or false".to_owned()),
            (AlertOption::Delivery(option), value) => self.delivery.set(option, value)?,
        }
        Ok(())
    }

    fn settings(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let resolve = self.resolve.map(|resolve| (AlertOption::Resolve.text(), resolve.to_string()));
        resolve.into_iter().chain(self.delivery.settings().map(|(option, value)| (option.text(), value)))
    }
}

impl CreateAlert {
    /// The view that it watches, if that is not its own.
    pub fn view(&self) -> Option<&str> {
        match &self.source {
            AlertSource::View(name) => Some(name),
            AlertSource::Query(_) => None,
        }
    }

    /// The query that it watches.
    pub fn query(&self) -> Option<&str> {
        match &self.source {
            AlertSource::View(_) => None,
            AlertSource::Query(query) => Some(query),
        }
    }

    /// The streams that it may write to: the one that is told, and that which takes what cannot be told.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        let told = match &self.target {
            AlertTarget::Stream(name) => Some(name.as_str()),
            AlertTarget::Webhook(_) => None,
        };
        told.into_iter().chain(self.options.delivery.dead_letter.as_deref())
    }
}

impl Display for AlertTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlertTarget::Stream(name) => write_name(f, name.as_str()),
            AlertTarget::Webhook(address) => {
                f.write_str("WEBHOOK ")?;
                write_quoted(f, address, '\'')
            }
        }
    }
}

impl Display for CreateAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE ALERT {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        f.write_str(" ON ")?;
        match &self.source {
            AlertSource::View(name) => write_name(f, name)?,
            AlertSource::Query(query) => write!(f, "({query})")?,
        }
        write!(f, " WHEN {}\nINTO {}", self.condition, self.target)?;
        if self.options == AlertOptions::default() {
            return Ok(());
        }
        f.write_str(" WITH (")?;
        write_options(f, self.options.settings())?;
        f.write_str(")")
    }
}
