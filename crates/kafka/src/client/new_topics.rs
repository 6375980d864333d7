//! Topics that were just made: each broker learns of them by itself, and any of them answers a call.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{self, Instant};

use crate::{KafkaError, KafkaErrorKind};

/// The time that a broker has to know a new topic, and how often it is asked.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The topics of this client's calls to make one, with the time until which a broker may not know them.
#[derive(Default)]
pub(super) struct NewTopics(Mutex<Vec<(Box<str>, Instant)>>);

impl NewTopics {
    pub(super) fn insert(&self, topic: &str) {
        self.insert_for(topic, KNOWN_WITHIN);
    }

    fn insert_for(&self, topic: &str, time: Duration) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        topics.retain(|(name, until)| **name != *topic && *until > now);
        topics.push((topic.into(), now + time));
    }

    /// The time until which a broker may not know the topic.
    fn known_at(&self, topic: &str) -> Option<Instant> {
        let topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        topics.iter().find(|(name, _)| **name == *topic).map(|(_, until)| *until)
    }

    /// Makes a call about a topic, and repeats it as long as it fails because the topic is new.
    pub(super) async fn call<T, Called>(
        &self,
        topic: &str,
        call: impl Fn() -> Called,
    ) -> Result<T, KafkaError>
    where
        Called: Future<Output = Result<T, KafkaError>>,
    {
        loop {
            let answer = call().await;
            let may_be_new = matches!(&answer, Err(error) if is_of_new_topic(error));
            if !may_be_new || self.known_at(topic).is_none_or(|until| Instant::now() >= until) {
                return answer;
            }
            time::sleep(ASK_AGAIN).await;
        }
    }
}

/// Whether a topic that was just made can be the reason: it is unknown, or has no leader.
fn is_of_new_topic(error: &KafkaError) -> bool {
    matches!(error.kind(), KafkaErrorKind::UnknownTopic | KafkaErrorKind::Unreachable)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    /// An answer that is an error at the first calls.
    async fn answer(calls: &AtomicU32, fails: u32, kind: KafkaErrorKind) -> Result<u32, KafkaError> {
        match calls.fetch_add(1, Relaxed) {
            call if call < fails => Err(KafkaError::new(kind, "no such topic")),
            call => Ok(call),
        }
    }

    #[tokio::test]
    async fn calls_about_a_new_topic_are_repeated_until_brokers_know_it() {
        let (topics, calls) = (NewTopics::default(), AtomicU32::new(0));
        topics.insert("t");
        let found = topics.call("t", || answer(&calls, 7, KafkaErrorKind::UnknownTopic)).await;
        assert_eq!(found.ok(), Some(7));
        topics.insert_for("t", 3 * ASK_AGAIN);
        let calls = AtomicU32::new(0);
        assert!(topics.call("t", || answer(&calls, u32::MAX, KafkaErrorKind::UnknownTopic)).await.is_err());
        assert!((1..=4).contains(&calls.load(Relaxed)));
        // From then on it is unknown, as other topics are at once; other errors are not repeated.
        topics.insert("v");
        for (topic, kind) in [
            ("t", KafkaErrorKind::UnknownTopic),
            ("u", KafkaErrorKind::UnknownTopic),
            ("v", KafkaErrorKind::Configuration),
        ] {
            let calls = AtomicU32::new(0);
            assert!(topics.call(topic, || answer(&calls, 1, kind.clone())).await.is_err(), "{topic}");
            assert_eq!(calls.load(Relaxed), 1, "{topic}");
        }
    }
}
