//! The topic of a stream, which is made if the stream states with how many partitions.

use swiftwater_kafka::{Kafka, KafkaError, KafkaErrorKind, Topic};
use swiftwater_lang::ddl::KafkaSource;

/// Looks up the topic; makes it if there is none and `partitions` is set.
pub(crate) async fn topic_of(kafka: &dyn Kafka, source: &KafkaSource) -> Result<Topic, KafkaError> {
    match (kafka.topic(&source.topic).await, source.options.partitions) {
        (Err(error), Some(partitions)) if error.kind() == &KafkaErrorKind::UnknownTopic => {
            kafka.create_topic(&source.topic, partitions, &[]).await?;
            kafka.topic(&source.topic).await
        }
        (found, _) => found,
    }
}
