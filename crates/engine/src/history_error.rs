//! The errors of the durable state.

use std::{io, path::PathBuf};

use swiftwater_catalog::WireError;

use crate::{EngineError, ErrorKind};

/// The reason why a data directory cannot be opened, or an operation in it fails.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A view cannot be opened.
    #[error("a view cannot be opened")]
    View(#[source] EngineError),
    /// The directory cannot be had.
    #[error("cannot open the data directory `{}`", path.display())]
    Directory {
        /// Its directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The directory is locked by another process.
    #[error("the data directory `{}` is in use by another process", .0.display())]
    Locked(PathBuf),
    /// A backup was being restored into it, and is not all there.
    #[error("the restore of the data directory `{}` is not complete", .0.display())]
    Restoring(PathBuf),
    /// The catalog cannot be read back.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The catalog's file cannot be read or written.
    #[error("cannot read or write the catalog's file")]
    Snapshot(#[source] io::Error),
    /// The work was not done to its end.
    #[error("a thread of this process ended early")]
    Broken,
    /// The log.
    #[error("the log in the data directory")]
    Log(#[from] swiftwater_log::LogError),
    /// The log cannot be opened.
    #[error("the log in `{}`", dir.display())]
    LogUnopened {
        /// The log's directory.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: swiftwater_log::LogError,
    },
    /// The log has lost what the catalog counts, or a join has read.
    #[error(
        "the log in `{}` ends at position {end}, but the catalog or a join refers to position {known}: part of the \
         log was lost",
        dir.display()
    )]
    LogLost {
        /// The log's directory.
        dir: PathBuf,
        /// The end of the log.
        end: u64,
        /// The least position up to which it was synced.
        known: u64,
    },
    /// The log begins behind where the catalog was written down: its first segments are missing.
    #[error(
        "the log in `{}` begins at position {begins}, but the catalog needs it from {known} on: part of the log was lost",
        dir.display()
    )]
    LogFrontLost {
        /// The log's directory.
        dir: PathBuf,
        /// The start of the log.
        begins: u64,
        /// The position of the catalog's snapshot: later changes are in the log only.
        known: u64,
    },
    /// Events that are counted are neither in the log nor in their table.
    #[error(
        "the log in `{}` lacks events of stream `{stream}`, from offset {first} up to {end}, and its table does not \
         have them: part of the log was lost",
        dir.display()
    )]
    EventsMissing {
        /// The log's directory.
        dir: PathBuf,
        /// The stream.
        stream: String,
        /// The offset of the first event that is missing.
        first: u64,
        /// The offset after the last one.
        end: u64,
    },
    /// A table, or a view, has events that log and catalog do not count.
    #[error(
        "the log in `{}` and the catalog count {counted} events of stream `{stream}`, but {by} has {committed}: \
         part of the log was lost",
        dir.display()
    )]
    EventsLost {
        /// The log's directory.
        dir: PathBuf,
        /// The stream.
        stream: String,
        /// The offset after the last event that is counted.
        counted: u64,
        /// The object that has more.
        by: String,
        /// The offset after the last event that it has.
        committed: u64,
    },
    /// SQL cannot be started.
    #[error("SQL cannot be started")]
    Sql(#[from] swiftwater_sql::SqlError),
    /// The store.
    #[error("the store")]
    Store(#[from] swiftwater_store::StoreError),
}

impl HistoryError {
    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            HistoryError::Locked(_) => Some("Stop the other server, or use another directory: --data DIR."),
            HistoryError::Restoring(_) => Some("Run the same `swiftwater restore` again: it resumes."),
            HistoryError::Wire(WireError::Newer { .. }) => {
                Some("Start the version that wrote it, or a newer one.")
            }
            HistoryError::Wire(_) => Some(
                "The directory may be damaged: restore a backup, or move the directory away and begin with an empty \
                 one.",
            ),
            HistoryError::LogLost { .. }
            | HistoryError::LogFrontLost { .. }
            | HistoryError::EventsLost { .. }
            | HistoryError::EventsMissing { .. } => Some(
                "Move the log's segments back, or restore a backup. To continue without the lost events, start with \
                 --data.log-skip-corrupt yes.",
            ),
            HistoryError::LogUnopened { source: swiftwater_log::LogError::Corrupt { .. }, .. } => Some(
                "Restore a backup. To continue without the damaged records, start with --data.log-skip-corrupt yes.",
            ),
            HistoryError::LogUnopened { source, .. } => source.hint(),
            HistoryError::Directory { .. } => Some("Use a writable directory: --data DIR."),
            _ => None,
        }
    }

    /// The kind of the error, by what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            HistoryError::Locked(_) | HistoryError::Restoring(_) => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        }
    }
}
