//! The reasons for which a companion cannot be read.

use std::io;

/// The reason for which a companion cannot be read. In each case its data file is scanned instead; what is damaged or foreign is built anew.
#[derive(Debug, thiserror::Error)]
pub enum CompanionError {
    /// Its bytes cannot be had now.
    #[error("a search index file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Its bytes are not the ones that were written.
    #[error("a search index file is damaged: {0}")]
    Damaged(String),
    /// It is of another format, definition or data file.
    #[error("a search index file is of {0}")]
    Foreign(String),
}

impl CompanionError {
    /// A failure while bytes were read: damage, or bytes that cannot be had.
    pub(crate) fn from_read(error: io::Error) -> CompanionError {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                CompanionError::Damaged(error.to_string())
            }
            _ => CompanionError::Io(error),
        }
    }

    /// Damage that shows while tantivy's encodings are read.
    pub(crate) fn encoding(error: impl std::fmt::Display) -> CompanionError {
        CompanionError::Damaged(error.to_string())
    }
}
