//! What is declared of an alert.

use std::fmt::{self, Display};

use swiftwater_event::StreamName;

use super::{
    options::{Value, named},
    print::{when, write_name},
};

/// `CREATE ALERT`: a condition on the rows of a view; a stream is told of each key that meets it, and that does not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateAlert {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// That there is one already is no error.
    pub if_not_exists: bool,
    /// The view that is watched.
    pub view: Box<str>,
    /// The condition, as it is written: what it means depends on the view's columns.
    pub condition: Box<str>,
    /// The stream that is told.
    pub stream: StreamName,
    /// `WITH (…)`.
    pub options: AlertOptions,
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AlertOptions {
    /// That a key does not meet the condition any more is told, too.
    pub resolve: Option<bool>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlertOption {
    /// `resolve = true|false`.
    Resolve,
}

impl AlertOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [AlertOption; 1] = [AlertOption::Resolve];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            AlertOption::Resolve => "resolve",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<AlertOption, String> {
        named(&Self::ALL, Self::text, name)
    }
}

impl AlertOptions {
    /// Sets one; the error says what it takes.
    pub(crate) fn set(&mut self, option: AlertOption, value: &Value) -> Result<(), String> {
        match (option, value) {
            (AlertOption::Resolve, Value::Text(text)) if text.eq_ignore_ascii_case("true") => {
                self.resolve = Some(true);
            }
            (AlertOption::Resolve, Value::Text(text)) if text.eq_ignore_ascii_case("false") => {
                self.resolve = Some(false);
            }
            (AlertOption::Resolve, _) => return Err("`resolve` takes true or false".to_owned()),
        }
        Ok(())
    }
}

impl Display for CreateAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE ALERT {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        f.write_str(" ON ")?;
        write_name(f, &self.view)?;
        write!(f, " WHEN {}\nINTO ", self.condition)?;
        write_name(f, self.stream.as_str())?;
        match self.options.resolve {
            Some(resolve) => write!(f, " WITH (resolve = {resolve})"),
            None => Ok(()),
        }
    }
}
