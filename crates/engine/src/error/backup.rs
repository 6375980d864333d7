//! Errors of the start, the reading and the end of a backup.

use super::ErrorKind;

/// An error of a backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// No backup with this id is open.
    #[error("no backup `{0}` is open")]
    NotFound(String),
    /// The backup has no such file.
    #[error("backup `{id}` has no file `{name}`")]
    NoFile {
        /// The backup.
        id: String,
        /// The name that was asked for.
        name: String,
    },
    /// A table of the backup was dropped.
    #[error("the backup is invalid: table `{table}` was dropped")]
    TableDropped {
        /// The table.
        table: String,
    },
    /// The limit of open backups is reached.
    #[error("{standing} backups are open, which is the limit")]
    TooMany {
        /// Open backups.
        standing: usize,
    },
    /// No backup can be started.
    #[error("no backup can be started at present: {0}")]
    Unavailable(String),
}

impl BackupError {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            BackupError::NotFound(_) | BackupError::NoFile { .. } => ErrorKind::NotFound,
            BackupError::TableDropped { .. } => ErrorKind::Conflict,
            BackupError::TooMany { .. } => ErrorKind::Limit,
            BackupError::Unavailable(_) => ErrorKind::Unavailable,
        }
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            BackupError::NotFound(_) | BackupError::TableDropped { .. } => {
                Some("Begin another backup: unchanged files need not be fetched again.")
            }
            BackupError::TooMany { .. } => Some(
                "End one with DELETE /v1/backups/{id}. The server ends an unread backup after ten minutes.",
            ),
            _ => None,
        }
    }
}
