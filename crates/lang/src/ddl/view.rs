//! The declaration of a view (`CREATE MATERIALIZED VIEW`).

use super::options::{DurationText, Value, named, parse_duration_ms};

/// `CREATE MATERIALIZED VIEW`: a query without an end, whose groups are kept by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateView {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// `DELETE WHEN`: of which events a key is deleted; a condition over an event, as it is written: what it means depends
    /// on the stream.
    pub delete_when: Option<Box<str>>,
    /// `WITH (…)`.
    pub options: ViewOptions,
    /// The query, as it is written: what it means depends on the stream that it is over.
    pub query: Box<str>,
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ViewOptions {
    /// Milliseconds without an event after which a key is deleted.
    pub ttl_ms: Option<u64>,
    /// The events that the stream has already are counted, too.
    pub backfill: Option<bool>,
    /// Time for which windows are kept after they are closed, by event time, in milliseconds; not set: for ever.
    pub retention_ms: Option<u64>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewOption {
    /// `ttl = '30 days'`.
    Ttl,
    /// `backfill = true|false`.
    Backfill,
    /// `retention = '7 days'`.
    Retention,
}

impl ViewOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [ViewOption; 3] = [ViewOption::Ttl, ViewOption::Backfill, ViewOption::Retention];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            ViewOption::Ttl => "ttl",
            ViewOption::Backfill => "backfill",
            ViewOption::Retention => "retention",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<ViewOption, String> {
        named(&Self::ALL, Self::text, name)
    }
}

impl ViewOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: ViewOption, value: &Value) -> Result<(), String> {
        match (option, value) {
            (ViewOption::Ttl, value) => {
                let ms = match value {
                    Value::Text(text) => parse_duration_ms(text).filter(|ms| *ms > 0),
                    _ => None,
                };
                self.ttl_ms = Some(ms.ok_or_else(|| "`ttl` must be a time such as '30 days'".to_owned())?);
            }
            (ViewOption::Backfill, Value::Text(text)) if text.eq_ignore_ascii_case("true") => {
                self.backfill = Some(true);
            }
            (ViewOption::Backfill, Value::Text(text)) if text.eq_ignore_ascii_case("false") => {
                self.backfill = Some(false);
            }
            (ViewOption::Backfill, _) => return Err("`backfill` must be true or false".to_owned()),
            (ViewOption::Retention, value) => {
                let ms = match value {
                    Value::Text(text) => parse_duration_ms(text).filter(|ms| *ms > 0),
                    _ => None,
                };
                self.retention_ms =
                    Some(ms.ok_or_else(|| "`retention` must be a time such as '7 days'".to_owned())?);
            }
        }
        Ok(())
    }

    /// The options that are set, with their values as written.
    pub fn settings(&self) -> impl Iterator<Item = (ViewOption, String)> + '_ {
        ViewOption::ALL.into_iter().filter_map(|option| {
            let value = match option {
                ViewOption::Ttl => format!("'{}'", DurationText(self.ttl_ms?)),
                ViewOption::Backfill => self.backfill?.to_string(),
                ViewOption::Retention => format!("'{}'", DurationText(self.retention_ms?)),
            };
            Some((option, value))
        })
    }
}
