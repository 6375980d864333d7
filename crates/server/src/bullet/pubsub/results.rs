//! Writes results to topics: those of a query in their order. What is written may be written twice.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use swiftwater_event::Backoff;
use swiftwater_kafka::{Kafka, KafkaError, NewMessage, Producer, ProducerOptions, SendError};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::sleep,
};

use super::{QueryEnd, request::Reply, too_large};

/// Results that are written at once.
const RESULTS_AT_ONCE: usize = 1000;
/// Topics to which a writer has producers at once.
const TOPICS_MAX: usize = 64;
/// Pauses between attempts.
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
    id: Bytes,
    pub(super) reply: Reply,
    value: Bytes,
    signal: Option<Signal>,
    end: Arc<QueryEnd>,
    /// The result says that the topic does not accept another one.
    is_refusal: bool,
    /// Its share of what may wait.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl ResultMessage {
    pub(super) fn new(
        id: &Arc<str>,
        reply: &Reply,
        result: &str,
        signal: Option<Signal>,
        end: &Arc<QueryEnd>,
    ) -> ResultMessage {
        let id = Bytes::copy_from_slice(id.as_bytes());
        let value = value_of(&id, reply, result, signal);
        ResultMessage {
            id,
            reply: reply.clone(),
            value,
            signal,
            end: Arc::clone(end),
            is_refusal: false,
            room: None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.id.len() + self.value.len()
    }

    /// The topic does not accept the result: the query has failed.
    fn refuse(&mut self) {
        self.signal = Some(Signal::Fail);
        self.value = value_of(&self.id, &self.reply, &too_large(), self.signal);
        self.is_refusal = true;
    }

    fn message(&self) -> NewMessage {
        let signal = self.signal.map(|signal| ("signal".into(), signal.text().into()));
        NewMessage {
            topic: Arc::clone(&self.reply.topic),
            partition: self.reply.partition,
            key: Some(self.id.clone()),
            value: Some(self.value.clone()),
            headers: signal.into_iter().collect(),
        }
    }
}

/// A result in the form in which its query came.
fn value_of(id: &[u8], reply: &Reply, result: &str, signal: Option<Signal>) -> Bytes {
    match &reply.metadata {
        None => Bytes::copy_from_slice(result.as_bytes()),
        Some(content) => {
            let metadata = json!({"signal": signal.map(Signal::text), "content": **content});
            let id = String::from_utf8_lossy(id);
            json!({"id": id, "content": result, "metadata": metadata}).to_string().into()
        }
    }
}

/// The writer of results.
pub(super) struct Writer {
    kafka: Arc<dyn Kafka>,
    /// It tries again without end; otherwise twice.
    is_patient: bool,
    /// Those that are open, by topic.
    producers: HashMap<Arc<str>, Box<dyn Producer>>,
}

impl Writer {
    pub(super) fn new(kafka: Arc<dyn Kafka>, is_patient: bool) -> Writer {
        Writer { kafka, is_patient, producers: HashMap::new() }
    }

    /// Writes results until no query can have any more.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<ResultMessage>) {
        let mut results = Vec::new();
        while waiting.recv_many(&mut results, RESULTS_AT_ONCE).await > 0 {
            let mut by_place: HashMap<(Arc<str>, Option<u32>), Vec<ResultMessage>> = HashMap::new();
            for result in results.drain(..) {
                let place = (Arc::clone(&result.reply.topic), result.reply.partition);
                by_place.entry(place).or_default().push(result);
            }
            for ((topic, _), results) in by_place {
                self.write(&topic, results).await;
            }
        }
    }

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
            if !self.is_patient && attempts > 1 {
                let count = results.len();
                tracing::warn!(topic = &**topic, %error, hint, count, "results are lost: their place cannot be written");
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
            if self.producers.len() >= TOPICS_MAX {
                self.producers.clear();
            }
            let options = ProducerOptions { topics: vec![Arc::clone(topic)], ..ProducerOptions::default() };
            let mut producer = self.kafka.producer(&options)?;
            producer.open().await?;
            self.producers.insert(Arc::clone(topic), producer);
        }
        let Some(producer) = self.producers.get_mut(topic) else { return Ok(()) };
        loop {
            results.retain(|result| result.is_refusal || !result.end.has_ended());
            let messages: Vec<NewMessage> = results.iter().map(ResultMessage::message).collect();
            match producer.send(&messages).await {
                Ok(_) => return Ok(()),
                Err(SendError::Failed(error)) => return Err(error),
                Err(SendError::TooLarge(places)) => refuse(results, &places),
            }
        }
    }
}

/// Puts a failure in the place of the first result of each query that is too large, and drops the others, also a failure that is too
/// large itself.
fn refuse(results: &mut Vec<ResultMessage>, places: &[usize]) {
    let mut place = 0;
    results.retain_mut(|result| {
        let is_too_large = places.binary_search(&place).is_ok();
        place += 1;
        if !is_too_large {
            return true;
        }
        if result.is_refusal || result.end.has_ended() {
            return false;
        }
        result.refuse();
        result.end.end();
        true
    });
}
