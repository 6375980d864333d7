//! Bullet's PubSub over topics of Kafka: queries are read from one topic, and their results are written to another.
//!
//! ```text
//! query topic ─ id, text ─► query ─ results ─► queue ─► result topic, under the same key
//!             └ id, KILL ─► its end
//! ```
//!
//! Queries are those that are written while the server runs; it commits no offsets. They run by Bullet's rules, within
//! `bullet.queries_max`. A result that is not written waits, and its query's next results wait in the engine, within its limits.
//! Each result is written at least once. Bullet's own web service cannot take part: its Kafka messages are Java objects.

mod request;
mod results;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use swiftwater_event::Backoff;
use swiftwater_kafka::{
    Consumer, ConsumerOptions, Fetched, Isolation, Kafka, KafkaError, Message, OffsetAt, TopicId,
};
use swiftwater_runtime::Subscription;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::AbortHandle,
    time::sleep,
};

use super::{error_result, failure_of, is_killed, result_text, submit, too_many_queries};
use crate::server::{Phase, Shared};
use request::{Action, Reply, Request};
use results::{ResultMessage, Signal};

/// Results that wait to be written.
const RESULTS_MAX: usize = 4096;
/// Interval between looks for new partitions of the query topic.
const REFRESH: Duration = Duration::from_secs(10);
/// Pauses between attempts to read the query topic.
const RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// The topics of Bullet's PubSub.
#[derive(Debug, Clone)]
pub struct PubSub {
    /// Their cluster.
    pub kafka: Arc<dyn Kafka>,
    /// The topic of queries.
    pub query_topic: String,
    /// The topic of results, unless a query names another.
    pub result_topic: String,
}

impl PubSub {
    /// Takes queries until the server drains, and writes results until all queries have ended.
    pub(crate) fn serve(self, shared: &Arc<Shared>, alive: &mpsc::Sender<()>) {
        let (results, waiting) = mpsc::channel(RESULTS_MAX);
        let (kafka, topic) = (Arc::clone(&self.kafka), self.result_topic.as_str().into());
        let writer = results::Writer::new(kafka, topic);
        let (of_writer, of_reader) = (Arc::clone(shared), Arc::clone(shared));
        let (alive_of_writer, alive_of_reader) = (alive.clone(), alive.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = writer.run(waiting) => {}
                () = of_writer.reached(Phase::Cut) => {}
            }
            drop(alive_of_writer);
        });
        tokio::spawn(async move {
            let queries = Queries { shared: Arc::clone(&of_reader), results, running: HashMap::new() };
            tokio::select! {
                () = read(&self, queries) => {}
                () = of_reader.reached(Phase::Draining) => {}
            }
            drop(alive_of_reader);
        });
    }
}

/// The position in the query topic.
#[derive(Default)]
struct Position {
    topic: Option<TopicId>,
    /// The next offset of each partition.
    next: BTreeMap<u32, u64>,
}

/// Reads the query topic without end.
async fn read(pubsub: &PubSub, mut queries: Queries) {
    let (mut position, mut backoff) = (Position::default(), RETRY);
    loop {
        let before = position.next.clone();
        let Err(error) = read_from(pubsub, &mut position, &mut queries).await;
        if position.next != before {
            backoff = RETRY;
        }
        let (topic, hint) = (&*pubsub.query_topic, error.hint().unwrap_or_default());
        tracing::warn!(topic, %error, hint, "queries cannot be read; the server tries again");
        sleep(backoff.pause()).await;
    }
}

/// Reads the query topic from a position on, until that fails.
async fn read_from(
    pubsub: &PubSub,
    position: &mut Position,
    queries: &mut Queries,
) -> Result<std::convert::Infallible, KafkaError> {
    let PubSub { kafka, query_topic, result_topic } = pubsub;
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, group: "swiftwater.pubsub".to_owned() };
    let mut consumer = kafka.consumer(query_topic, &options)?;
    let default_topic: Arc<str> = result_topic.as_str().into();
    position.assign_new(pubsub, &mut *consumer, true).await?;
    loop {
        let fetched = tokio::select! {
            fetched = consumer.next() => fetched,
            () = sleep(REFRESH) => {
                position.assign_new(pubsub, &mut *consumer, false).await?;
                continue;
            }
        };
        match fetched {
            Fetched::Messages(batch) => {
                for message in batch.messages() {
                    queries.take(&message, &default_topic).await;
                }
                position.next.insert(batch.partition(), batch.next());
            }
            Fetched::End { .. } => {}
            Fetched::Gap { partition, wanted, first, .. } => {
                tracing::warn!(
                    topic = query_topic,
                    partition,
                    wanted,
                    first,
                    "queries were deleted before they were read"
                );
                position.next.insert(partition, first);
                consumer.assign(partition, first);
            }
            Fetched::Waiting { partition, error } => {
                tracing::warn!(topic = query_topic, partition, %error, "queries cannot be read at present");
            }
            Fetched::Failed(error) => return Err(error),
        }
    }
}

impl Position {
    /// Assigns partitions that are not assigned: at the first start from their ends, later ones from their beginnings. With
    /// `all`, none is assigned so far.
    async fn assign_new(
        &mut self,
        pubsub: &PubSub,
        consumer: &mut dyn Consumer,
        all: bool,
    ) -> Result<(), KafkaError> {
        let topic = pubsub.kafka.topic(&pubsub.query_topic).await?;
        let (is_first, is_made_again) =
            (self.topic.is_none(), self.topic.is_some_and(|known| known != topic.id));
        if is_made_again {
            self.next.clear();
        }
        let place = if is_first { OffsetAt::Latest } else { OffsetAt::Earliest };
        let new: Vec<(u32, OffsetAt)> = (0..topic.partitions)
            .filter(|partition| !self.next.contains_key(partition))
            .map(|partition| (partition, place))
            .collect();
        let offsets = match new.as_slice() {
            [] => Vec::new(),
            new => pubsub.kafka.offsets(&pubsub.query_topic, new).await?,
        };
        let known = if all { std::mem::take(&mut self.next) } else { BTreeMap::new() };
        let found = new.iter().map(|(partition, _)| *partition).zip(offsets);
        for (partition, offset) in known.into_iter().chain(found) {
            consumer.assign(partition, offset);
            self.next.insert(partition, offset);
        }
        self.topic = Some(topic.id);
        Ok(())
    }
}

/// The queries of the topic.
struct Queries {
    shared: Arc<Shared>,
    results: mpsc::Sender<ResultMessage>,
    /// By id. Some may have ended.
    running: HashMap<Arc<str>, AbortHandle>,
}

impl Queries {
    /// Begins or ends a query.
    async fn take(&mut self, message: &Message<'_>, default_topic: &Arc<str>) {
        let request = match Request::of(message, default_topic) {
            Ok(request) => request,
            Err(why) => {
                tracing::warn!(offset = message.offset(), why, "a message of the query topic is no query");
                return;
            }
        };
        let Request { id, action, reply } = request;
        match action {
            Action::Kill => {
                // As in Bullet, there is no result of a query that was killed by its client.
                if let Some(query) = self.running.remove(&id) {
                    query.abort();
                }
            }
            Action::Begin(text) => self.begin(id, &text, reply).await,
        }
    }

    async fn begin(&mut self, id: Arc<str>, text: &str, reply: Reply) {
        if self.running.get(&id).is_some_and(|query| !query.is_finished()) {
            // The topic may have a query twice.
            tracing::debug!(%id, "a query of this id runs already");
            return;
        }
        if self.running.len() >= 2 * self.shared.config.bullet.queries_max {
            self.running.retain(|_, query| !query.is_finished());
        }
        let place = Arc::clone(&self.shared.bullet.places).try_acquire_owned();
        let begun = match place {
            Err(_) => Err(too_many_queries()),
            Ok(place) => submit(&self.shared, text, false).map(|subscription| (subscription, place)),
        };
        match begun {
            Ok(query) => {
                let (of_id, results) = (Arc::clone(&id), self.results.clone());
                let query = tokio::spawn(run(of_id, query, reply, results));
                self.running.insert(id, query.abort_handle());
            }
            Err(errors) => {
                let refused = ResultMessage::new(&id, &reply, errors, Some(Signal::Fail));
                // Only when the server ends, there is no writer any more.
                let _ = self.results.send(refused).await;
            }
        }
    }
}

/// Passes on the results of a query until its end.
async fn run(
    id: Arc<str>,
    (mut subscription, _place): (Subscription, OwnedSemaphorePermit),
    reply: Reply,
    results: mpsc::Sender<ResultMessage>,
) {
    let is_refused = Arc::new(AtomicBool::new(false));
    while let Some(emit) = subscription.next().await {
        let signal = match &emit.meta.finished {
            None => None,
            Some(_) if is_killed(&emit) || failure_of(&emit).is_some() => Some(Signal::Fail),
            Some(_) => Some(Signal::Complete),
        };
        let mut result = ResultMessage::new(&id, &reply, result_text(&emit), signal);
        result.is_refused = Some(Arc::clone(&is_refused));
        if results.send(result).await.is_err() || signal.is_some() || is_refused.load(Relaxed) {
            return;
        }
    }
}

/// The result in the place of one that the topic does not accept.
fn too_large() -> String {
    error_result(
        "The result is larger than a message of its topic may be",
        &["Ask for fewer records, or raise max.message.bytes of the topic."],
    )
}
