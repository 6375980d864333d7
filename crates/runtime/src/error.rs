//! The errors of calls to a runtime.

pub use swiftwater_catalog::ErrorKind;
use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_lang::QueryErrors;

use crate::EngineConfig;

/// An error of the runtime.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuntimeError {
    /// The catalog refuses it.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The query cannot be run as it is written.
    #[error("{0}")]
    Query(QueryErrors),
    /// `STREAM()` where no default stream is set.
    #[error("the query names no stream, and this server has no default stream")]
    NoDefaultStream,
    /// The query is over a stream of a cluster, by a way that only streams of one node have.
    #[error(
        "stream `{0}` is one of the cluster: its queries are sent to POST /v1/queries, or by `swiftwater query`"
    )]
    OfCluster(String),
    /// No such query.
    #[error("no query `{0}`")]
    NoQuery(String),
    /// It is not detached: the client that submitted it reads its results.
    #[error("only the client that submitted query `{0}` can read its results")]
    Attached(String),
    /// A limit is exceeded.
    #[error("{what} would be {wanted}, limit is {limit}")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The setting that says so.
        setting: &'static str,
        /// The requested amount.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// A source of the process's own would append to a stream of the catalog.
    #[error("nothing can be stored at present: this source does not write to declared streams")]
    Declared,
    /// A stream was dropped or declared anew while events waited to be appended to it.
    #[error("stream `{0}` was dropped or redeclared while these events waited to be appended")]
    StreamReplaced(String),
    /// A client sends under a name of the server's own.
    #[error(
        "the name of producer `{0}` is reserved: names that begin with `swiftwater/` or `join ` belong to the server"
    )]
    ReservedProducer(String),
    /// The runtime is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl From<CatalogError> for RuntimeError {
    fn from(error: CatalogError) -> RuntimeError {
        match error {
            CatalogError::Query(errors) => RuntimeError::Query(errors),
            error => RuntimeError::Catalog(error),
        }
    }
}

impl RuntimeError {
    /// The error for a missing object of this kind and name.
    pub fn not_found(kind: ObjectKind, name: impl Into<String>) -> RuntimeError {
        RuntimeError::Catalog(CatalogError::not_found(kind, name))
    }

    /// One query more than may stand.
    pub fn too_many_queries(standing: usize, config: &EngineConfig) -> RuntimeError {
        RuntimeError::Limit {
            what: "number of queries",
            setting: "engine.queries_max",
            wanted: standing as u64 + 1,
            limit: config.queries_max as u64,
        }
    }

    /// The kind of the error, by what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            RuntimeError::Catalog(error) => error.kind(),
            RuntimeError::Query(_)
            | RuntimeError::NoDefaultStream
            | RuntimeError::OfCluster(_)
            | RuntimeError::ReservedProducer(_) => ErrorKind::Invalid,
            RuntimeError::NoQuery(_) => ErrorKind::NotFound,
            RuntimeError::Attached(_) => ErrorKind::Conflict,
            RuntimeError::Limit { .. } => ErrorKind::Limit,
            RuntimeError::Declared | RuntimeError::StreamReplaced(_) | RuntimeError::ShuttingDown => {
                ErrorKind::Unavailable
            }
        }
    }

    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            RuntimeError::Catalog(error) => error.hint(),
            RuntimeError::NoDefaultStream => Some(
                "Write FROM STREAM(name, MAX, TIME), or start the server with --default-stream.".to_owned(),
            ),
            RuntimeError::StreamReplaced(_) => {
                Some("Send them again: they are validated against the new declaration.".to_owned())
            }
            RuntimeError::ReservedProducer(_) => Some("Choose another name for the producer.".to_owned()),
            RuntimeError::Limit { setting, .. } => {
                Some(format!("The limit is the setting `{setting}`: reduce the request, or raise it."))
            }
            _ => None,
        }
    }
}
