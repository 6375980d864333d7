//! Errors of `ALTER STREAM … SKIP PARTITION`.

use super::ErrorKind;

/// The reason why the position of a partition is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipError {
    /// The topic has fewer partitions.
    #[error("topic `{topic}` has no partition {partition}")]
    NoPartition {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The number of its partitions.
        partitions: u32,
    },
    /// The partition was never read.
    #[error("partition {partition} of topic `{topic}` has no position yet")]
    NoPosition {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
    },
    /// The offset is before the position.
    #[error("offset {to} is behind the position of partition {partition} of topic `{topic}`, {position}")]
    Behind {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offset of the statement.
        to: u64,
        /// The next offset to read.
        position: u64,
    },
    /// The partition does not have the offset yet.
    #[error("offset {to} is beyond the end of partition {partition} of topic `{topic}`, {end}")]
    Beyond {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The offset of the statement.
        to: u64,
        /// The end of the partition.
        end: u64,
    },
    /// The brokers do not answer, or refuse.
    #[error("the end of partition {partition} of topic `{topic}` cannot be read at present: {why}")]
    Away {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The cause.
        why: String,
    },
    /// The position is set in memory, and cannot be written.
    #[error("the position of partition {partition} of topic `{topic}` cannot be persisted: {why}")]
    NotPersisted {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The cause.
        why: String,
    },
}

impl SkipError {
    /// The kind of the error.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            SkipError::NoPartition { .. } | SkipError::Behind { .. } | SkipError::Beyond { .. } => {
                ErrorKind::Invalid
            }
            SkipError::NoPosition { .. } => ErrorKind::Conflict,
            SkipError::Away { .. } | SkipError::NotPersisted { .. } => ErrorKind::Unavailable,
        }
    }

    /// The advice to the user.
    pub(super) fn hint(&self) -> String {
        match self {
            SkipError::NoPartition { partitions, .. } => {
                format!("Its partitions are 0 to {}.", partitions.saturating_sub(1))
            }
            SkipError::NoPosition { .. } => {
                "Wait until SHOW PARTITIONS has the partition; RESUME the stream if it is paused.".to_owned()
            }
            SkipError::Behind { .. } => {
                "A position is set forward only. To read messages again, create another stream with `start`."
                    .to_owned()
            }
            SkipError::Beyond { end, .. } => format!("TO {end} skips all messages that are there."),
            SkipError::Away { .. } => "Try again when the brokers answer.".to_owned(),
            SkipError::NotPersisted { .. } => {
                "Try again: the position may be in effect, and a restart may read the skipped messages."
                    .to_owned()
            }
        }
    }
}
