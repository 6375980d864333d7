//! The errors of the log.

use std::io;

use crate::LogPosition;

/// The kind of an error, by which the caller acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogErrorKind {
    /// Ask differently.
    Invalid,
    /// It is no longer there.
    NotFound,
    /// Try again later.
    Unavailable,
    /// A limit stands against it; if it is that of the disk, try again later.
    Limit,
    /// Stored data is damaged.
    Corrupt,
}

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("cannot {action} the log's file `{name}`")]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file; `.` is the directory.
        name: Box<str>,
        /// The error of the disk.
        #[source]
        source: io::Error,
    },
    /// A record is larger than the log takes.
    #[error("a record would need {bytes} bytes in the log, limit is {bytes_max}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The id of a producer is too long.
    #[error("the producer's id has {bytes} bytes, limit is {bytes_max}")]
    ProducerId {
        /// Its length.
        bytes: usize,
        /// The greatest length.
        bytes_max: usize,
    },
    /// The disk is full, or the log has reached the bytes that it may take.
    #[error("the log is full")]
    Full,
    /// The disk fails writes at present.
    #[error("the log cannot be written at present")]
    Failing,
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
    /// The position is no longer in the log.
    #[error("the log was trimmed up to {}, position {} is gone", oldest.0, position.0)]
    Trimmed {
        /// The position to read.
        position: LogPosition,
        /// The present beginning of the log.
        oldest: LogPosition,
    },
    /// A frame that was once synced is damaged or missing.
    #[error("the log is damaged at position {}, in `{name}` at byte {at}: {flaw}", position.0)]
    Corrupt {
        /// The position.
        position: LogPosition,
        /// The file.
        name: Box<str>,
        /// The byte in that file.
        at: u64,
        /// The fault.
        flaw: &'static str,
        /// The next good record, or the start of the next intact part.
        resumes: Option<LogPosition>,
    },
    /// The log ends before what is known to have been synced: its last files are missing, or damaged to their end.
    #[error("the log ends at position {}, but it was once synced up to {}", end.0, known.0)]
    Short {
        /// Its end.
        end: LogPosition,
        /// The least position up to which it was synced.
        known: LogPosition,
    },
    /// A newer version wrote this.
    #[error("the log's file `{name}` has format {version}, this version reads up to {version_max}")]
    Newer {
        /// The file.
        name: Box<str>,
        /// Its format.
        version: u32,
        /// The newest that can be read.
        version_max: u32,
    },
    /// A setting is out of its range.
    #[error("`{setting}` is {value}, but must be at least {least}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// Its least value.
        least: u64,
    },
}

impl LogError {
    /// The coarse kind, by which the caller acts.
    pub fn kind(&self) -> LogErrorKind {
        match self {
            LogError::ProducerId { .. } | LogError::Setting { .. } | LogError::Newer { .. } => {
                LogErrorKind::Invalid
            }
            LogError::Trimmed { .. } => LogErrorKind::NotFound,
            LogError::Io { .. } | LogError::Failing | LogError::Closed => LogErrorKind::Unavailable,
            LogError::TooLarge { .. } | LogError::Full => LogErrorKind::Limit,
            LogError::Corrupt { .. } | LogError::Short { .. } => LogErrorKind::Corrupt,
        }
    }

    /// The advice to the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LogError::Full => Some("Free space on the log's disk, or raise the limit of the log's bytes."),
            LogError::TooLarge { .. } => Some("Send less at a time, or raise the limit of a record's bytes."),
            LogError::Corrupt { resumes: Some(_), .. } => {
                Some("Restore a backup, or open the log without the damaged records.")
            }
            LogError::Short { .. } => Some(
                "Move the missing files back, restore a backup, or open the log without the lost records.",
            ),
            LogError::Newer { .. } => Some("Use the version that wrote it, or a newer one."),
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, name: &str, source: io::Error) -> LogError {
        LogError::Io { action, name: name.into(), source }
    }
}
