//! Checks the content of saved objects: that a query can be parsed, and that dashboards and notebooks have the form of their
//! schema. All faults are found, each with its place.

mod checker;
mod dashboard;
mod notebook;

use std::fmt;

use serde_json::Value;
use swiftwater_catalog::kind::saved::{SAVED_BYTES_MAX, bytes_of};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{
    ParseOptions, QueryErrors,
    ddl::{CreateSaved, SAVED_COMMENT_BYTES_MAX, SavedKind, placeholders},
    parse, parse_json,
};

pub use self::checker::ContentFault;
use self::checker::Faults;

/// The JSON Schema of dashboards, version 1.
pub const DASHBOARD_SCHEMA: &str = include_str!("dashboard-1.json");

/// The JSON Schema of notebooks, version 1.
pub const NOTEBOOK_SCHEMA: &str = include_str!("notebook-1.json");

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentError::Query(QueryErrors(errors)) => {
                f.write_str(errors.first().map_or("the query is wrong", |first| &first.message))
            }
            ContentError::TooLarge { bytes, bytes_max } => {
                write!(f, "{bytes} bytes cannot be saved as one object, limit is {bytes_max}")
            }
            ContentError::Head(fault) => f.write_str(fault),
            ContentError::Form(faults) => {
                let Some(ContentFault { path, message }) = faults.first() else { return Ok(()) };
                let at = if path.is_empty() { "" } else { ": " };
                write!(f, "{path}{at}{message}")
            }
        }
    }
}

/// The reason why a content is refused.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentError {
    /// A query cannot be parsed.
    Query(QueryErrors),
    /// It is larger than it may be.
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Its name or its comment cannot be used.
    Head(String),
    /// A dashboard or a notebook does not have its form. At least one fault.
    Form(Vec<ContentFault>),
}

/// Checks a saved object: its name, its comment and its content. The text of a query has at most `query_bytes_max`.
pub(crate) fn check(create: &CreateSaved, query_bytes_max: usize, now: Millis) -> Result<(), ContentError> {
    let bytes = bytes_of(create);
    if bytes > SAVED_BYTES_MAX {
        return Err(ContentError::TooLarge { bytes, bytes_max: SAVED_BYTES_MAX });
    }
    if let Err(error) = StreamName::new(&create.name.name) {
        let (name, kind) = (&error.name, create.name.kind.noun());
        return Err(ContentError::Head(format!("`{name}` cannot be the name of a {kind}: {}", error.why)));
    }
    if create.comment.as_ref().is_some_and(|comment| comment.len() > SAVED_COMMENT_BYTES_MAX) {
        return Err(ContentError::Head(format!("a comment has at most {SAVED_COMMENT_BYTES_MAX} bytes")));
    }
    match create.name.kind {
        SavedKind::Query => check_query(create, query_bytes_max, now),
        SavedKind::Dashboard => check_json(&create.text, dashboard::check),
        SavedKind::Notebook => check_json(&create.text, notebook::check),
    }
}

/// A text with parameters can be parsed only with values for them, so it is checked when it is run. Streams and their columns may
/// be declared later, and are checked then, too.
fn check_query(create: &CreateSaved, bytes_max: usize, now: Millis) -> Result<(), ContentError> {
    let bytes = create.text.len();
    if bytes > bytes_max {
        return Err(ContentError::TooLarge { bytes, bytes_max });
    }
    let options = ParseOptions::new(create.dialect, now);
    let parsed = match is_json(&create.text) {
        true => parse_json(&create.text, &options),
        false if placeholders(&create.text) > 0 => return Ok(()),
        false => parse(&create.text, &options),
    };
    parsed.map(drop).map_err(ContentError::Query)
}

/// True if the text of a query is in Bullet's JSON form.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn check_json(text: &str, check: fn(&Value, &mut Faults)) -> Result<(), ContentError> {
    let mut faults = Faults::default();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => check(&value, &mut faults),
        Err(error) => faults.add("", format!("the content is not valid JSON: {error}")),
    }
    match faults.into_list() {
        list if list.is_empty() => Ok(()),
        list => Err(ContentError::Form(list)),
    }
}

/// The title of a dashboard or a notebook.
pub fn title_of(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Titled {
        title: String,
    }
    serde_json::from_str(text).ok().map(|titled: Titled| titled.title)
}

#[cfg(test)]
mod tests;
