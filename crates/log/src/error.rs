//! The errors of the log.

use std::io;

use crate::LogPosition;

/// What the caller can do about an error.
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
    /// What was stored is damaged.
    Corrupt,
}

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("cannot {action} the log's file `{name}`")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// With which file; `.` is the directory.
        name: Box<str>,
        /// What the disk says.
        #[source]
        source: io::Error,
    },
    /// A record is larger than the log takes.
    #[error("a record would need {bytes} bytes in the log, limit is {bytes_max}")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
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
    /// What was asked for is no longer there.
    #[error("the log was trimmed up to {}, position {} is gone", oldest.0, position.0)]
    Trimmed {
        /// Where was to be read.
        position: LogPosition,
        /// Where the log begins now.
        oldest: LogPosition,
    },
    /// A frame that was once synced is damaged or missing.
    #[error("the log is damaged at position {}, in `{name}` at byte {at}: {flaw}", position.0)]
    Corrupt {
        /// Where.
        position: LogPosition,
        /// In which file.
        name: Box<str>,
        /// Where in that file.
        at: u64,
        /// What is wrong there.
        flaw: &'static str,
        /// Where the next good record is, or what is intact goes on.
        resumes: Option<LogPosition>,
    },
    /// The log ends before what is known to have been synced: its last files are missing, or damaged to their end.
    #[error("the log ends at position {}, but it was once synced up to {}", end.0, known.0)]
    Short {
        /// Where it ends.
        end: LogPosition,
        /// What was synced came up to here at least.
        known: LogPosition,
    },
    /// A newer version wrote this.
    #[error("the log's file `{name}` has format {version}, this version reads up to {version_max}")]
    Newer {
        /// Which file.
        name: Box<str>,
        /// Its format.
        version: u32,
        /// The newest that can be read.
        version_max: u32,
    },
    /// A setting is out of its range.
    #[error("`{setting}` is {value}, but must be at least {least}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it is.
        value: u64,
        /// What it must be at least.
        least: u64,
    },
}

impl LogError {
    /// What the caller can do about it.
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

    /// What to do, where there is something to say.
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
