//! What can go wrong when the engine is asked for something.

use swiftwater_lang::QueryErrors;

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

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The query cannot be run as it is written.
    #[error("{0}")]
    Query(QueryErrors),
    /// `STREAM()` where no default stream is set.
    #[error("the query names no stream, and this server has no default stream")]
    NoDefaultStream,
    /// No such query.
    #[error("no query `{0}`")]
    NoQuery(String),
    /// No such stream.
    #[error("no stream `{0}`")]
    NoStream(String),
    /// Somebody else reads its results.
    #[error("the results of query `{0}` are being read by another client")]
    Attached(String),
    /// More than a limit allows.
    #[error("{what} would be {wanted}, limit is {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The setting that says so.
        setting: &'static str,
        /// What was asked for.
        wanted: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The engine is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl EngineError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Query(_) | EngineError::NoDefaultStream => ErrorKind::Invalid,
            EngineError::NoQuery(_) | EngineError::NoStream(_) => ErrorKind::NotFound,
            EngineError::Attached(_) => ErrorKind::Conflict,
            EngineError::Limit { .. } => ErrorKind::Limit,
            EngineError::ShuttingDown => ErrorKind::Unavailable,
        }
    }

    /// What to do, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::NoDefaultStream => Some(
                "Write FROM STREAM(name, MAX, TIME), or start the server with --default-stream.".to_owned(),
            ),
            EngineError::Limit { setting, .. } => Some(format!("The limit is the setting `{setting}`.")),
            _ => None,
        }
    }
}
