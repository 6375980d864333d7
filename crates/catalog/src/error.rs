//! The errors of statements that the catalog refuses, and of catalogs that cannot be read.

use swiftwater_lang::{
    QueryErrors,
    ddl::{AlterError, DefinitionError},
};
use swiftwater_text::IndexKind;

use crate::{Dependency, Object, ObjectKind, ScheduleError};

/// The kind of an error, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Ask differently.
    Invalid,
    /// The object does not exist.
    NotFound,
    /// It is in a state that does not allow this.
    Conflict,
    /// Try again later, or elsewhere.
    Unavailable,
    /// A limit stands against it.
    Limit,
}

/// The reason why a statement does not change the catalog.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CatalogError {
    /// The object does not exist.
    #[error("no {0}")]
    NotFound(Object),
    /// An object of this name exists.
    #[error("{0} already exists")]
    Exists(Object),
    /// Another object depends on it.
    #[error("{0}")]
    InUse(Dependency),
    /// An object of some kind would depend on a stream that is not stored.
    #[error("{}, and `{stream}` is live-only", needs_stored(*.by))]
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
        /// The fault.
        errors: QueryErrors,
    },
    /// A view's query names no stream.
    #[error("the view's query names no stream")]
    NoSource,
    /// An alert would write into the stream that it watches.
    #[error("{watched} reads stream `{stream}`: the alert would trigger itself")]
    AlertOnItself {
        /// The view, or the query.
        watched: String,
        /// The stream.
        stream: String,
    },
    /// The query of an alert is over a view.
    #[error("the query of an alert must read a stream, and `{0}` is a view")]
    AlertOnViewQuery(String),
    /// The query of an alert joins events with rows.
    #[error("the query of an alert must read a stream alone, and this one joins `{0}`")]
    AlertOnJoin(String),
    /// A join would write into a stream that it reads.
    #[error("the join reads stream `{0}`: its pairs would return to it")]
    JoinOfItself(String),
    /// Events written into a stream would come back to it through other objects.
    #[error("rows of stream `{stream}` would return to it{}", cycle(.way))]
    Cycle {
        /// The stream.
        stream: String,
        /// The steps of other objects in order: "by sink `s` into stream `t`".
        way: Vec<String>,
    },
    /// Another sink writes the same file.
    #[error("sink `{sink}` already delivers to file `{path}`")]
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
    /// The definition of a search index is refused.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A search index names a stream or table that does not exist.
    #[error("no stream or table `{0}`")]
    NothingToIndex(String),
    /// A search index would be of a view.
    #[error("a search index needs a stored stream or a table, and `{0}` is a view")]
    ViewIndexed(String),
    /// A search index would be of a column that does not exist.
    #[error("no column `{column}` in {table}")]
    NoIndexedColumn {
        /// The stream or table.
        table: Object,
        /// The column.
        column: String,
        /// It is a column of the server.
        is_system: bool,
        /// A column whose name is similar.
        near: Option<String>,
    },
    /// A column has no values of a kind.
    #[error("column `{column}` is {ty}, and cannot be indexed as {}", .kind.text())]
    NotIndexed {
        /// The column.
        column: String,
        /// Its type.
        ty: String,
        /// The kind.
        kind: IndexKind,
    },
}

/// The reason why an object of a kind needs a stored stream.
fn needs_stored(by: ObjectKind) -> &'static str {
    match by {
        ObjectKind::Alert => "an alert needs a stored target stream",
        ObjectKind::SearchIndex => "a search index needs a stored stream or a table",
        ObjectKind::StreamJoin => "a join needs stored streams as its inputs and its target",
        ObjectKind::Sink => "a sink needs a stored stream",
        _ => "a view needs a stored stream",
    }
}

impl CatalogError {
    /// The error for a missing object of this kind and name.
    pub fn not_found(kind: ObjectKind, name: impl Into<String>) -> CatalogError {
        CatalogError::NotFound(kind.named(name))
    }

    /// The error for an object of this kind and name that exists already.
    pub fn exists(kind: ObjectKind, name: impl Into<String>) -> CatalogError {
        CatalogError::Exists(kind.named(name))
    }

    /// The error for an existing object of this kind and name; if `is_fine`, nothing changes instead.
    pub(crate) fn unless(is_fine: bool, kind: ObjectKind, name: &str) -> Result<bool, CatalogError> {
        if is_fine { Ok(false) } else { Err(CatalogError::exists(kind, name)) }
    }

    /// The kind of the error, by what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CatalogError::NotFound(_) | CatalogError::NothingToIndex(_) => ErrorKind::NotFound,
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
            | CatalogError::Alter(_)
            | CatalogError::Definition(_)
            | CatalogError::ViewIndexed(_)
            | CatalogError::NoIndexedColumn { .. }
            | CatalogError::NotIndexed { .. } => ErrorKind::Invalid,
        }
    }

    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            CatalogError::NotFound(object) => match object.kind {
                ObjectKind::Stream => "SHOW STREAMS, SHOW VIEWS and SHOW TABLES list the names.",
                ObjectKind::Table => return None,
                ObjectKind::View => "SHOW VIEWS lists all views.",
                ObjectKind::Alert => "SHOW ALERTS lists all alerts.",
                ObjectKind::StreamJoin => "SHOW JOINS lists all joins.",
                ObjectKind::Endpoint => "SHOW ENDPOINTS lists all endpoints.",
                ObjectKind::Sink => "SHOW SINKS lists all sinks.",
                ObjectKind::Job => "SHOW JOBS lists all jobs.",
                ObjectKind::SearchIndex => "SHOW SEARCH INDEXES lists all search indexes.",
                ObjectKind::SavedQuery => "SHOW SAVED QUERIES lists all saved queries.",
                ObjectKind::Dashboard => "SHOW SAVED DASHBOARDS lists all dashboards.",
                ObjectKind::Notebook => "SHOW SAVED NOTEBOOKS lists all notebooks.",
            },
            CatalogError::InUse(dependency) => return Some(dependency.remedy()),
            CatalogError::NotStored { stream, .. } => {
                return Some(format!(
                    "ALTER STREAM {stream} SET (store = true) stores its events from then on."
                ));
            }
            CatalogError::NoSource => "Write FROM STREAM(name).",
            CatalogError::AlertOnItself { .. } => "Choose another target stream.",
            CatalogError::AlertOnViewQuery(view) => {
                return Some(format!(
                    "Put the condition on the rows, CREATE ALERT … ON {view} WHEN …, or on a view of this query."
                ));
            }
            CatalogError::AlertOnJoin(_) => "Create a view of the query, and an alert on the view.",
            CatalogError::JoinOfItself(_) => "Choose another target stream.",
            CatalogError::Cycle { .. } => {
                "Choose another target stream, or drop an object of the cycle first."
            }
            CatalogError::Schedule(error) => error.hint(),
            CatalogError::Alter(error) => return error.hint().map(str::to_owned),
            CatalogError::Definition(error) => return error.hint(),
            CatalogError::NothingToIndex(_) => "SHOW STREAMS and SHOW TABLES list the names.",
            CatalogError::ViewIndexed(_) => "Create the index on the stream that the view reads.",
            CatalogError::NoIndexedColumn { near: Some(near), .. } => {
                return Some(format!("Did you mean `{near}`?"));
            }
            CatalogError::NoIndexedColumn { is_system: true, .. } => {
                "The server makes this column; `*` covers the text of `_event`."
            }
            CatalogError::NoIndexedColumn { table, .. } if table.kind == ObjectKind::Stream => {
                return Some(format!(
                    "DESCRIBE {} lists the columns; a stream without declared columns has those that its events had so far.",
                    table.name
                ));
            }
            CatalogError::NoIndexedColumn { table, .. } => {
                return Some(format!("DESCRIBE {} lists the columns.", table.name));
            }
            CatalogError::NotIndexed { kind: IndexKind::Text, .. } => {
                "TEXT is for texts, and for lists, maps and JSON with texts."
            }
            CatalogError::NotIndexed { kind: IndexKind::Id, .. } => {
                "ID is for texts, whole numbers and booleans, and for lists, maps and JSON of them."
            }
            CatalogError::NotIndexed { kind: IndexKind::Facet, .. } => {
                "FACET is for texts, whole numbers and booleans; with a separator, for texts."
            }
            CatalogError::Exists(_)
            | CatalogError::Query(_)
            | CatalogError::AlertQuery { .. }
            | CatalogError::SinkFileTaken { .. } => return None,
        };
        Some(text.to_owned())
    }
}

/// The reason why a snapshot or a change of the catalog cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A newer version wrote it.
    #[error("{what} has format {found}, written by {written_by}; this version reads up to {known}")]
    Newer {
        /// The part of the data directory, such as the catalog.
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
        /// The part.
        what: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A statement cannot be carried out again.
    #[error("cannot replay `{text}`: {why}")]
    Statement {
        /// The statement.
        text: String,
        /// The reason.
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
        WireError::statement(text, "it is not the expected statement")
    }
}

fn cycle(way: &[String]) -> String {
    match way {
        [] => String::new(),
        way => format!(" in a cycle: {}", way.join(", ")),
    }
}
