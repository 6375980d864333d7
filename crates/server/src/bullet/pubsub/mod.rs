//! Bullet's PubSub over topics of Kafka: queries are read from one topic, and their results are written to another.
//!
//! ```text
//! query topic ─ id, text ─► query ─ results ─► queue ─► result topic, under the same key
//!             └ id, KILL ─► its end
//! ```
//!
//! Queries are those that are written while the server runs; it commits no offsets. They run by Bullet's rules, within
//! `bullet.queries_max`. Results that are not written wait, up to [`RESULTS_BYTES_MAX`]; further ones wait in the engine, whose limits
//! for slow readers then hold. What is written may be written twice. Bullet's own web service cannot take part: its Kafka messages are Java objects.

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
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc},
    task::AbortHandle,
    time::{interval, sleep},
};

use super::{error_result, failure_of, is_killed, result_text, submit, too_many_queries};
use crate::server::{Phase, Shared};
use request::{Action, Reply, Request};
use results::{ResultMessage, Signal};

/// Results that wait to be written, and their bytes.
const RESULTS_MAX: usize = 4096;
const RESULTS_BYTES_MAX: usize = 64 << 20;
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
        let (replies, replies_waiting) = mpsc::channel(RESULTS_MAX);
        // A place that a query has named, and that cannot be written, must not hold up the results of others.
        let writers = [
            (results::Writer::new(Arc::clone(&self.kafka), true), waiting),
            (results::Writer::new(Arc::clone(&self.kafka), false), replies_waiting),
        ];
        for (writer, waiting) in writers {
            let (shared, alive) = (Arc::clone(shared), alive.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = writer.run(waiting) => {}
                    () = shared.reached(Phase::Cut) => {}
                }
                drop(alive);
            });
        }
        let (shared, alive) = (Arc::clone(shared), alive.clone());
        tokio::spawn(async move {
            let room = Arc::new(Semaphore::new(RESULTS_BYTES_MAX));
            let targets = Targets { results, replies, room };
            let queries = Queries { shared: Arc::clone(&shared), targets, running: HashMap::new() };
            tokio::select! {
                () = read(&self, queries) => {}
                () = shared.reached(Phase::Draining) => {}
            }
            drop(alive);
        });
    }
}

/// The ways to the writers.
#[derive(Clone)]
struct Targets {
    results: mpsc::Sender<ResultMessage>,
    /// For places that queries have named.
    replies: mpsc::Sender<ResultMessage>,
    /// A permit is a byte of a result that waits.
    room: Arc<Semaphore>,
}

impl Targets {
    /// Passes a result on, when there is room for it; returns false when the server ends.
    async fn send(&self, mut result: ResultMessage) -> bool {
        let bytes = result.bytes().clamp(1, RESULTS_BYTES_MAX) as u32;
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return false };
        result.room = Some(room);
        let target = if result.reply.is_named { &self.replies } else { &self.results };
        target.send(result).await.is_ok()
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
    let options = ConsumerOptions {
        isolation: Isolation::ReadCommitted,
        group: "swiftwater.pubsub".to_owned(),
        shares: 1,
    };
    let mut consumer = kafka.consumer(query_topic, &options)?;
    let default_topic: Arc<str> = result_topic.as_str().into();
    position.assign_new(pubsub, &mut *consumer, true).await?;
    let mut refresh = interval(REFRESH);
    refresh.reset();
    loop {
        let fetched = tokio::select! {
            fetched = consumer.next() => fetched,
            _ = refresh.tick() => {
                position.assign_new(pubsub, &mut *consumer, false).await?;
                continue;
            }
        };
        match fetched {
            Fetched::Messages(batch) => {
                for message in batch.messages() {
                    queries.take(&message, pubsub, &default_topic).await;
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
    targets: Targets,
    /// By id. Some may have ended.
    running: HashMap<Arc<str>, RunningQuery>,
}

/// A query that was begun.
struct RunningQuery {
    task: AbortHandle,
    end: Arc<QueryEnd>,
}

/// The early end of a query: its client has killed it, or its topic does not accept a result. What waits of it is not written.
#[derive(Default)]
struct QueryEnd {
    has_ended: AtomicBool,
    ended: Notify,
}

impl QueryEnd {
    fn end(&self) {
        self.has_ended.store(true, Relaxed);
        self.ended.notify_one();
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }
}

impl Queries {
    /// Begins or ends a query.
    async fn take(&mut self, message: &Message<'_>, pubsub: &PubSub, default_topic: &Arc<str>) {
        let request = Request::of(message, default_topic).and_then(|request| {
            match *request.reply.topic == *pubsub.query_topic {
                true => Err("its results would be read as queries"),
                false => Ok(request),
            }
        });
        let request = match request {
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
                    query.end.end();
                    query.task.abort();
                }
            }
            Action::Begin(text) => self.begin(id, &text, reply).await,
        }
    }

    async fn begin(&mut self, id: Arc<str>, text: &str, reply: Reply) {
        if self.running.get(&id).is_some_and(|query| !query.task.is_finished()) {
            // The topic may have a query twice.
            tracing::debug!(%id, "a query of this id runs already");
            return;
        }
        if self.running.len() >= 2 * self.shared.config.bullet.queries_max {
            self.running.retain(|_, query| !query.task.is_finished());
        }
        let place = Arc::clone(&self.shared.bullet.places).try_acquire_owned();
        let begun = match place {
            Err(_) => Err(too_many_queries()),
            Ok(place) => submit(&self.shared, text, false).await.map(|subscription| (subscription, place)),
        };
        let end = Arc::new(QueryEnd::default());
        match begun {
            Ok(query) => {
                let of_query = (Arc::clone(&id), reply, Arc::clone(&end));
                let task = tokio::spawn(run(of_query, query, self.targets.clone())).abort_handle();
                self.running.insert(id, RunningQuery { task, end });
            }
            Err(errors) => {
                let refused = ResultMessage::new(&id, &reply, &errors, Some(Signal::Fail), &end);
                // Only when the server ends, there is no writer any more.
                let _ = self.targets.send(refused).await;
            }
        }
    }
}

/// Passes on the results of a query until its end.
async fn run(
    (id, reply, end): (Arc<str>, Reply, Arc<QueryEnd>),
    (mut subscription, _place): (Subscription, OwnedSemaphorePermit),
    targets: Targets,
) {
    loop {
        let emit = tokio::select! {
            emit = subscription.next() => emit,
            () = end.ended.notified() => None,
        };
        let Some(emit) = emit else { return };
        let signal = match &emit.meta.finished {
            None => None,
            Some(_) if is_killed(&emit) || failure_of(&emit).is_some() => Some(Signal::Fail),
            Some(_) => Some(Signal::Complete),
        };
        let result = ResultMessage::new(&id, &reply, &result_text(&emit), signal, &end);
        if !targets.send(result).await || signal.is_some() {
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
