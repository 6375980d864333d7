//! Writes results to topics: those of a query in their order, each at least once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::json;
use swiftwater_event::Backoff;
use swiftwater_kafka::{Kafka, KafkaError, NewMessage, Producer, ProducerOptions, SendError};
use tokio::{sync::mpsc, time::sleep};

use super::{request::Reply, too_large};

/// Results that are written at once.
const RESULTS_AT_ONCE: usize = 1000;
/// Topics to which the server has producers at once, beside the result topic.
const REPLY_TOPICS_MAX: usize = 64;
/// Pauses between attempts to write to the result topic.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// The end of a query, as a header of its last result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Complete,
    Fail,
}

impl Signal {
    fn text(self) -> &'static str {
        match self {
            Signal::Complete => "COMPLETE",
            Signal::Fail => "FAIL",
        }
    }
}

/// A result that is to be written.
pub(super) struct ResultMessage {
    id: Arc<str>,
    reply: Reply,
    result: String,
    signal: Option<Signal>,
    /// Set when the topic does not accept a result of the query, which has failed then.
    pub(super) is_refused: Option<Arc<AtomicBool>>,
}

impl ResultMessage {
    pub(super) fn new(id: &Arc<str>, reply: &Reply, result: String, signal: Option<Signal>) -> ResultMessage {
        ResultMessage { id: Arc::clone(id), reply: reply.clone(), result, signal, is_refused: None }
    }

    fn message(&self) -> NewMessage {
        let value = match &self.reply.metadata {
            None => self.result.clone(),
            Some(content) => {
                let signal = self.signal.map(Signal::text);
                let metadata = json!({"signal": signal, "content": **content});
                json!({"id": *self.id, "content": self.result, "metadata": metadata}).to_string()
            }
        };
        let signal = self.signal.map(|signal| ("signal".into(), signal.text().into()));
        NewMessage {
            topic: Arc::clone(&self.reply.topic),
            partition: self.reply.partition,
            key: Some(self.id.to_string().into()),
            value: Some(value.into()),
            headers: signal.into_iter().collect(),
        }
    }
}

/// The writer of all results.
pub(super) struct Writer {
    kafka: Arc<dyn Kafka>,
    result_topic: Arc<str>,
    /// Those that are open, by topic.
    producers: HashMap<Arc<str>, Box<dyn Producer>>,
}

impl Writer {
    pub(super) fn new(kafka: Arc<dyn Kafka>, result_topic: Arc<str>) -> Writer {
        Writer { kafka, result_topic, producers: HashMap::new() }
    }

    /// Writes results until no query can have any more.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<ResultMessage>) {
        let mut results = Vec::new();
        while waiting.recv_many(&mut results, RESULTS_AT_ONCE).await > 0 {
            let mut by_topic: HashMap<Arc<str>, Vec<ResultMessage>> = HashMap::new();
            for result in results.drain(..) {
                by_topic.entry(Arc::clone(&result.reply.topic)).or_default().push(result);
            }
            for (topic, results) in by_topic {
                self.write(&topic, results).await;
            }
        }
    }

    /// Writes to the result topic, however long it takes. To other topics there are two attempts, as one that does not exist must
    /// not hold up all results.
    async fn write(&mut self, topic: &Arc<str>, mut results: Vec<ResultMessage>) {
        let (mut backoff, mut attempts) = (RETRY, 0);
        loop {
            let error = match self.attempt(topic, &mut results).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.producers.remove(topic);
            attempts += 1;
            let hint = error.hint().unwrap_or_default();
            if *topic != self.result_topic && attempts > 1 {
                let count = results.len();
                tracing::warn!(topic = &**topic, %error, hint, count, "results are lost: their topic cannot be written");
                return;
            }
            tracing::warn!(topic = &**topic, %error, hint, "results cannot be written; the server tries again");
            sleep(backoff.pause()).await;
        }
    }

    async fn attempt(
        &mut self,
        topic: &Arc<str>,
        results: &mut Vec<ResultMessage>,
    ) -> Result<(), KafkaError> {
        if !self.producers.contains_key(topic) {
            if self.producers.len() > REPLY_TOPICS_MAX {
                self.producers.clear();
            }
            let options = ProducerOptions { topics: vec![Arc::clone(topic)], ..ProducerOptions::default() };
            let mut producer = self.kafka.producer(&options)?;
            producer.open().await?;
            self.producers.insert(Arc::clone(topic), producer);
        }
        let Some(producer) = self.producers.get_mut(topic) else { return Ok(()) };
        loop {
            let messages: Vec<NewMessage> = results.iter().map(ResultMessage::message).collect();
            match producer.send(&messages).await {
                Ok(()) => return Ok(()),
                Err(SendError::Failed(error)) => return Err(error),
                Err(SendError::TooLarge(places)) => {
                    for place in places.into_iter().rev() {
                        let result = &mut results[place];
                        if result.result == too_large() {
                            tracing::warn!(
                                id = &*result.id,
                                topic = &**topic,
                                "the end of a query is too large"
                            );
                            results.remove(place);
                            continue;
                        }
                        (result.result, result.signal) = (too_large(), Some(Signal::Fail));
                        if let Some(is_refused) = &result.is_refused {
                            is_refused.store(true, Relaxed);
                        }
                    }
                }
            }
        }
    }
}
