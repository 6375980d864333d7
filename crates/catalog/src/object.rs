//! The kinds of objects, and how an object is named.

use std::fmt;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A stream.
    Stream,
    /// A plain table of the store.
    Table,
    /// A view.
    View,
    /// An alert.
    Alert,
    /// A join of two streams.
    StreamJoin,
    /// An endpoint.
    Endpoint,
    /// A sink.
    Sink,
    /// A job.
    Job,
    /// A search index.
    SearchIndex,
    /// The saved text of a live query.
    SavedQuery,
    /// A saved dashboard.
    Dashboard,
    /// A saved notebook.
    Notebook,
}

impl ObjectKind {
    /// The kind as sentences name it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::Stream => "stream",
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::Alert => "alert",
            ObjectKind::StreamJoin => "join",
            ObjectKind::Endpoint => "endpoint",
            ObjectKind::Sink => "sink",
            ObjectKind::Job => "job",
            ObjectKind::SearchIndex => "search index",
            ObjectKind::SavedQuery => "saved query",
            ObjectKind::Dashboard => "dashboard",
            ObjectKind::Notebook => "notebook",
        }
    }

    /// The object of this kind and a name.
    pub fn named(self, name: impl Into<String>) -> Object {
        Object { kind: self, name: name.into() }
    }
}

/// An object, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name; of an endpoint, method and path; of a search index, its stream or table.
    pub name: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ObjectKind::Endpoint => write!(f, "endpoint {}", self.name),
            ObjectKind::SearchIndex => write!(f, "search index on `{}`", self.name),
            kind => write!(f, "{} `{}`", kind.word(), self.name),
        }
    }
}
