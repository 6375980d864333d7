//! The topic of a stream, which is made if the stream states with how many partitions.

use std::time::Duration;

use swiftwater_kafka::{Kafka, KafkaError, KafkaErrorKind, Topic};
use swiftwater_lang::ddl::KafkaSource;

/// The time within which all brokers know a new topic, and how often they are asked.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Looks up the topic; makes it if there is none and `partitions` is set.
pub(crate) async fn topic_of(kafka: &dyn Kafka, source: &KafkaSource) -> Result<Topic, KafkaError> {
    match (kafka.topic(&source.topic).await, source.options.partitions) {
        (Err(error), Some(partitions)) if error.kind() == &KafkaErrorKind::UnknownTopic => {
            kafka.create_topic(&source.topic, partitions, &[]).await?;
            // Each broker learns of a new topic by itself, and any of them answers.
            let known = tokio::time::timeout(KNOWN_WITHIN, async {
                loop {
                    match kafka.topic(&source.topic).await {
                        Err(error) if error.kind() == &KafkaErrorKind::UnknownTopic => {
                            tokio::time::sleep(ASK_AGAIN).await;
                        }
                        found => return found,
                    }
                }
            });
            known.await.unwrap_or(Err(error))
        }
        (found, _) => found,
    }
}
