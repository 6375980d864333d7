//! The errors of a stream's reader.

use swiftwater_kafka::KafkaError;

use crate::{EngineError, HistoryError};

/// The reason why a topic is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("there is no connection `{0}` to Kafka: the settings need a table [kafka.{0}] with `brokers`")]
    NoConnection(String),
    #[error("{error}{}", .error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Kafka {
        #[source]
        error: KafkaError,
    },
    #[error(
        "topic `{topic}` was deleted and made again: messages of the earlier one that were not read are lost. To read the new \
         one from its beginning: ALTER STREAM {stream} SET KAFKA (on_gap = skip)"
    )]
    MadeAgain { topic: String, stream: String },
    #[error("topic `{0}` is another one than before: it was deleted and made again")]
    Changed(String),
    #[error("`start` names partition {partition} of topic `{topic}`, which has {count}")]
    StartPartition { topic: String, partition: u32, count: u32 },
    #[error(
        "`start` names offset {offset} of partition {partition} of topic `{topic}`, and the next message there has offset {end}: the \
         stream begins when the partition has come to it"
    )]
    StartOffset { topic: String, partition: u32, offset: u64, end: u64 },
    #[error("its events cannot be appended: {0}")]
    Append(#[from] EngineError),
    #[error("its schemas cannot be read: {0}")]
    Schemas(String),
    #[error("its first positions cannot be persisted: {0}")]
    Checkpoint(#[from] HistoryError),
}

impl From<KafkaError> for SourceError {
    fn from(error: KafkaError) -> SourceError {
        SourceError::Kafka { error }
    }
}
