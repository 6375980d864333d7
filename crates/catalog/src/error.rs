//! Why a statement does not change the catalog, and why a catalog cannot be read back.

use swiftwater_lang::{QueryErrors, ddl::AlterError};

use crate::{Dependency, Object, ObjectKind, ScheduleError};

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Ask differently.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It is in a state that does not allow this.
    Conflict,
    /// Try again later, or elsewhere.
    Unavailable,
    /// A limit stands against it.
    Limit,
}

/// Why a statement does not change the catalog.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CatalogError {
    /// There is no such object.
    #[error("no {0}")]
    NotFound(Object),
    /// There is an object of this name.
    #[error("there is {} already", with_article(.0))]
    Exists(Object),
    /// Another object depends on it.
    #[error("{0}")]
    InUse(Dependency),
    /// An object of some kind would depend on a stream that is not stored.
    #[error("stream `{stream}` is not stored, and {}", needs_stored(*.by))]
    NotStored {
        /// The stream.
        stream: String,
        /// The kind of the object.
        by: ObjectKind,
    },
    /// The query of a view cannot be read.
    #[error("{0}")]
    Query(QueryErrors),
    /// The query of an alert cannot be read.
    #[error("{errors}")]
    AlertQuery {
        /// The query.
        text: Box<str>,
        /// What is wrong with it.
        errors: QueryErrors,
    },
    /// A view's query names no stream.
    #[error("the view's query names no stream")]
    NoSource,
    /// An alert would write into the stream that it watches.
    #[error("{watched} is of stream `{stream}`: its alert would tell of itself")]
    AlertOnItself {
        /// The view, or the query.
        watched: String,
        /// The stream.
        stream: String,
    },
    /// The query of an alert is over a view.
    #[error("the query of an alert is over a stream, and `{0}` is a view")]
    AlertOnViewQuery(String),
    /// The query of an alert joins events with rows.
    #[error("the query of an alert is over a stream alone, and this one is joined with `{0}`")]
    AlertOnJoin(String),
    /// A join would write into a stream that it reads.
    #[error("what goes into stream `{0}` would come back to the join")]
    JoinOfItself(String),
    /// What is written into a stream would come back, through other objects.
    #[error("what goes into stream `{stream}` would come back without end: {}", .way.join(", "))]
    Cycle {
        /// The stream.
        stream: String,
        /// How, in order: "by sink `s` into stream `t`".
        way: Vec<String>,
    },
    /// Another sink writes the same file.
    #[error("sink `{sink}` delivers to file `{path}` already")]
    SinkFileTaken {
        /// The other sink.
        sink: String,
        /// The path.
        path: String,
    },
    /// A job's schedule cannot be used.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A stream cannot be altered so.
    #[error(transparent)]
    Alter(AlterError),
}

fn with_article(object: &Object) -> String {
    let article = if object.kind.word().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {object}")
}

/// Why an object of a kind needs a stream that is stored.
fn needs_stored(by: ObjectKind) -> &'static str {
    match by {
        ObjectKind::Alert => "an alert tells one that is",
        ObjectKind::StreamJoin => "a join is of streams that are, and writes into one",
        _ => "a view is of what is",
    }
}

impl CatalogError {
    /// There is no object of this kind and name.
    pub fn not_found(kind: ObjectKind, name: impl Into<String>) -> CatalogError {
        CatalogError::NotFound(kind.named(name))
    }

    /// There is an object of this kind and name already.
    pub fn exists(kind: ObjectKind, name: impl Into<String>) -> CatalogError {
        CatalogError::Exists(kind.named(name))
    }

    /// There is an object of this kind and name already, which is no error where that is fine; then nothing changes.
    pub(crate) fn unless(is_fine: bool, kind: ObjectKind, name: &str) -> Result<bool, CatalogError> {
        if is_fine { Ok(false) } else { Err(CatalogError::exists(kind, name)) }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CatalogError::NotFound(_) => ErrorKind::NotFound,
            CatalogError::Exists(_)
            | CatalogError::InUse(_)
            | CatalogError::NotStored { .. }
            | CatalogError::SinkFileTaken { .. } => ErrorKind::Conflict,
            CatalogError::Query(_)
            | CatalogError::AlertQuery { .. }
            | CatalogError::NoSource
            | CatalogError::AlertOnItself { .. }
            | CatalogError::AlertOnViewQuery(_)
            | CatalogError::AlertOnJoin(_)
            | CatalogError::JoinOfItself(_)
            | CatalogError::Cycle { .. }
            | CatalogError::Schedule(_)
            | CatalogError::Alter(_) => ErrorKind::Invalid,
        }
    }

    /// What to do, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            CatalogError::NotFound(object) => match object.kind {
                ObjectKind::Stream => {
                    "SHOW STREAMS tells which there are, SHOW VIEWS and SHOW TABLES what else has a name."
                }
                ObjectKind::Table => return None,
                ObjectKind::View => "SHOW VIEWS tells which there are.",
                ObjectKind::Alert => "SHOW ALERTS tells which there are.",
                ObjectKind::StreamJoin => "SHOW JOINS tells which there are.",
                ObjectKind::Endpoint => "SHOW ENDPOINTS tells which there are.",
                ObjectKind::Sink => "SHOW SINKS tells which there are.",
                ObjectKind::Job => "SHOW JOBS tells which there are.",
            },
            CatalogError::InUse(dependency) => return Some(dependency.remedy()),
            CatalogError::NotStored { stream, .. } => {
                return Some(format!(
                    "ALTER STREAM {stream} SET (store = true) keeps its events from then on."
                ));
            }
            CatalogError::NoSource => "Write FROM STREAM(name).",
            CatalogError::AlertOnItself { .. } => "Tell another stream.",
            CatalogError::AlertOnViewQuery(view) => {
                return Some(format!(
                    "Put the condition on the rows, CREATE ALERT … ON {view} WHEN …, or on a view of this query."
                ));
            }
            CatalogError::AlertOnJoin(_) => "Make a view of the query, and an alert on that.",
            CatalogError::JoinOfItself(_) => "Let it write into another stream.",
            CatalogError::Cycle { .. } => {
                "Let it write into another stream, or drop what is on the way first."
            }
            CatalogError::Schedule(error) => error.hint(),
            CatalogError::Alter(error) => return error.hint().map(str::to_owned),
            CatalogError::Exists(_)
            | CatalogError::Query(_)
            | CatalogError::AlertQuery { .. }
            | CatalogError::SinkFileTaken { .. } => return None,
        };
        Some(text.to_owned())
    }
}

/// Why a snapshot or a change of the catalog cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A newer version wrote it.
    #[error("{what} has format {found}, written by {written_by}; this version reads up to {known}")]
    Newer {
        /// What was found.
        what: &'static str,
        /// Its format.
        found: u32,
        /// The newest that is known here.
        known: u32,
        /// The version that wrote it.
        written_by: String,
    },
    /// It is not JSON of the expected form.
    #[error("cannot read {what} in the data directory")]
    Form {
        /// Which part.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A statement cannot be carried out again.
    #[error("cannot carry out again `{text}`: {why}")]
    Statement {
        /// The statement.
        text: String,
        /// Why.
        why: String,
    },
}

impl WireError {
    /// A statement cannot be carried out again.
    pub fn statement(text: &str, why: impl ToString) -> WireError {
        WireError::Statement { text: text.to_owned(), why: why.to_string() }
    }

    /// The text is a statement, but of another kind than its place calls for.
    pub(crate) fn unexpected(text: &str) -> WireError {
        WireError::statement(text, "it is another statement than expected")
    }
}
