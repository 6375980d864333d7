//! The events that clients send to a stream of the cluster: any node writes them to the stream's topic.
//!
//! ```text
//! append (any node) ─► checked events as messages ─► queue ─► one task per stream: groups ─► producer ─► answers
//! ```
//!
//! The task writes all requests that wait as one group, so a broker's answer is awaited once per group and never per event. An
//! answer says that all replicas in sync have the events. A group is not atomic: after a failure, some of its events may be in the
//! topic, and the answer says so. Requests that waited behind it were not begun, and fail at once. The bytes of all requests of a
//! node are limited by `engine.pending_bytes_max`.

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Clock, EventBatch, Path, Step, StreamName, check_block};
use swiftwater_kafka::{
    Kafka, KafkaError, MessagePosition, NewMessage, Partitioner, Producer, ProducerOptions, SendError,
};
use swiftwater_lang::ddl::{CreateStream, KafkaField, KafkaSource, SourcePartitioner};
use swiftwater_live::columns::{RejectedEvent, ValidationRule};
use swiftwater_runtime::{Refusal, TopicPlace, TopicPlaces};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{Cluster, ClusterStream, refused};
use crate::{
    AppendOptions, Appended, EngineError,
    durable::history::{History, run_blocking},
    objects::{
        kafka_sources::convert::EVENT_BYTES_MAX,
        sinks::kafka::{column_of, text_of},
    },
    shared::Shared,
    supervisor::{StopSignal, TaskKind},
};

/// Requests that wait for a stream's task.
const REQUESTS_MAX: usize = 1024;

/// Bytes of a group, or one request more.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// The time that a request waits for room.
const ROOM_TIME_MAX: Duration = Duration::from_secs(10);

/// A producer that was opened longer ago may know an old limit of its topic.
const LIMIT_NANOS: u64 = 10_000_000_000;

/// Bytes of the field `_kafka` in an event, without the key.
const INCLUDED_BYTES: usize = 256;

/// A byte of a key as the field `_kafka` has it, at most: `\u0001`.
const KEY_BYTE_BYTES: usize = 6;

/// The requests of one stream.
#[derive(Debug)]
pub(super) struct ProduceQueue(mpsc::Sender<Request>);

/// The events of one call.
#[derive(Debug)]
struct Request {
    messages: Vec<NewMessage>,
    bytes: usize,
    reply: oneshot::Sender<Result<Vec<Outcome>, EngineError>>,
    _room: OwnedSemaphorePermit,
}

/// The outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written(MessagePosition),
    /// It is larger than the topic accepts.
    TooLarge,
}

/// A failure to write a group.
struct Failure {
    error: KafkaError,
    /// Some of the messages may be written.
    is_unsure: bool,
}

impl Shared {
    /// Appends events to a stream of the cluster; none if it is not one.
    pub(crate) async fn append_to_cluster(
        &self,
        name: &StreamName,
        batch: &EventBatch,
        options: &AppendOptions,
    ) -> Result<Option<Appended>, EngineError> {
        let Some(cluster) = self.history.get().and_then(|history| history.cluster()) else { return Ok(None) };
        let stream = match cluster.stream(name) {
            Some(stream) => Some(stream),
            // The first event of a stream that this node does not know: another node may have declared it just now.
            None if !batch.is_empty() && self.find_stream(name).is_none() => cluster.find(name).await?,
            None => None,
        };
        match stream {
            Some(stream) => cluster.produce(&stream, batch, options).await.map(Some),
            None => Ok(None),
        }
    }

    /// True if a stream that this node does not store is one of the cluster.
    pub(crate) async fn is_found_in_cluster(&self, name: &StreamName) -> Result<bool, EngineError> {
        match self.history.get().and_then(|history| history.cluster()) {
            Some(cluster) => Ok(cluster.find(name).await?.is_some()),
            None => Ok(false),
        }
    }
}

impl Cluster {
    /// The stream of this name, also if another node has declared it just now.
    async fn find(&self, name: &StreamName) -> Result<Option<Arc<ClusterStream>>, EngineError> {
        if let Some(stream) = self.stream(name) {
            return Ok(Some(stream));
        }
        self.read_all_objects().await?;
        Ok(self.stream(name))
    }

    /// Writes events to the topic of their stream; returns when all replicas in sync have them.
    async fn produce(
        &self,
        stream: &ClusterStream,
        batch: &EventBatch,
        options: &AppendOptions,
    ) -> Result<Appended, EngineError> {
        let name = &stream.create.name;
        let (Some(queue), Some(source)) = (&stream.produced, &stream.create.source) else {
            return Err(EngineError::TakesNoEvents(name.to_string()));
        };
        if options.numbered.is_some() {
            return Err(refused(format!(
                "stream `{name}` of the cluster remembers no numbers of requests: send the events without one"
            )));
        }
        let topic: Arc<str> = (&*stream.topic).into();
        let convert = || {
            let rejected = stream.rejected_by_columns(batch, source);
            messages(batch, (&topic, source), stream.event_bytes_max(), &rejected)
        };
        let Converted { messages, rows, mut refusals } = run_blocking(batch.bytes().len(), convert);
        let mut appended = Appended::live(name, 0, 0);
        if !messages.is_empty() {
            let outcomes = self.write_events(queue, (&topic, batch), messages).await?;
            let mut events = Vec::with_capacity(outcomes.len());
            for (row, outcome) in rows.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::TooLarge => refusals.push(too_large(row, &topic)),
                    Outcome::Written(MessagePosition { partition, offset, .. }) => {
                        events.push(TopicPlace { partition, offset });
                    }
                }
            }
            appended.accepted = events.len() as u64;
            appended.written = Some(TopicPlaces { topic: (&*topic).into(), events });
        }
        refusals.sort_by_key(|refusal| refusal.row);
        Ok(Appended { refusals, ..appended })
    }

    async fn write_events(
        &self,
        queue: &ProduceQueue,
        (topic, batch): (&Arc<str>, &EventBatch),
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Outcome>, EngineError> {
        let bytes = batch.bytes().len() + messages.len() * mem::size_of::<NewMessage>();
        let not_written = |why: String, is_unsure| {
            let topic = topic.to_string();
            EngineError::NotWritten { topic, why, is_unsure }
        };
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.room_bytes);
        let room = Arc::clone(&self.room).acquire_many_owned(permits);
        let room = tokio::time::timeout(ROOM_TIME_MAX, room).await;
        let Ok(Ok(room)) = room else {
            let why = "too many bytes wait to be written (engine.pending_bytes_max)";
            return Err(not_written(why.to_owned(), false));
        };
        let (reply, answer) = oneshot::channel();
        let closed =
            |is_unsure| not_written("the stream was dropped, or the server shuts down".to_owned(), is_unsure);
        let request = Request { messages, bytes, reply, _room: room };
        queue.0.send(request).await.map_err(|_| closed(false))?;
        answer.await.unwrap_or_else(|_| Err(closed(true)))
    }
}

impl ClusterStream {
    /// The events that do not fit the columns. Where a field of the message is put into the event, readers alone can tell.
    fn rejected_by_columns(&self, batch: &EventBatch, source: &KafkaSource) -> Vec<RejectedEvent> {
        match &self.columns {
            Some((columns, _)) if source.options.include.is_none() => columns.accept(batch.clone(), 0).2,
            _ => Vec::new(),
        }
    }
}

/// Events as messages.
struct Converted {
    messages: Vec<NewMessage>,
    /// The row of each message.
    rows: Vec<u32>,
    refusals: Vec<Refusal>,
}

/// Converts events into messages. Refused are those that a reader of the topic would leave out, as some that were `rejected`, and
/// those without a readable key.
fn messages(
    batch: &EventBatch,
    (topic, source): (&Arc<str>, &KafkaSource),
    event_bytes_max: Option<u64>,
    rejected: &[RejectedEvent],
) -> Converted {
    let bytes_max = usize::try_from(event_bytes_max.unwrap_or(EVENT_BYTES_MAX)).unwrap_or(usize::MAX);
    let limits = CheckLimits { event_bytes_max: bytes_max, ..CheckLimits::default() };
    let included = source.options.include.as_deref().unwrap_or_default();
    let (messages, rows) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
    let mut converted = Converted { messages, rows, refusals: rejected.iter().map(Refusal::from).collect() };
    let mut rejected = rejected.iter().map(|rejected| rejected.row as usize).peekable();
    for row in 0..batch.len() {
        if rejected.next_if_eq(&row).is_some() {
            continue;
        }
        let event = batch.event(row);
        let mut refuse = |rule, path: String, message| {
            converted.refusals.push(Refusal { row: row as u32, path, rule, message });
        };
        let key = match source.options.key.as_ref().map_or(Ok(None), |path| key_of(event, path)) {
            Ok(key) => key,
            Err(error) => {
                let path = source.options.key.as_ref().map(Path::to_string).unwrap_or_default();
                refuse(ValidationRule::Type, path, format!("the key cannot be read: {error}"));
                continue;
            }
        };
        let added = match (included, &key) {
            ([], _) => 0,
            (fields, Some(key)) if fields.contains(&KafkaField::Key) => {
                INCLUDED_BYTES + key.len() * KEY_BYTE_BYTES
            }
            _ => INCLUDED_BYTES,
        };
        if event.len() + added > bytes_max {
            let message = format!("the event has {} bytes, the limit is {bytes_max}", event.len() + added);
            refuse(ValidationRule::Size, String::new(), message);
            continue;
        }
        if let Some(fault) = depth_fault(event, &limits) {
            refuse(ValidationRule::Size, String::new(), fault);
            continue;
        }
        converted.rows.push(row as u32);
        converted.messages.push(NewMessage {
            topic: Arc::clone(topic),
            // By the key; without one the producer takes the same for all events of a few milliseconds.
            partition: None,
            key,
            value: Some(batch.bytes().slice(batch.span(row))),
            headers: Arc::default(),
        });
    }
    converted
}

/// The fault of an event that nests deeper than readers of topics accept: the limit of this server may be another one.
fn depth_fault(event: &[u8], limits: &CheckLimits) -> Option<String> {
    let opened = event.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if opened <= limits.depth_max {
        return None;
    }
    let limits = CheckLimits { rejections_described_max: 1, ..*limits };
    let checked = check_block(Bytes::copy_from_slice(event), &limits, 1);
    checked.rejections.into_iter().next().map(|rejection| rejection.message)
}

/// The key of an event: a text as it is, other values as JSON; none where it is null or missing.
fn key_of(event: &[u8], path: &Path) -> Result<Option<Bytes>, serde_json::Error> {
    let mut text = event;
    let mut found = None;
    for step in path.steps() {
        let value = match step {
            Step::Key(name) if text.starts_with(b"{") => column_of(text, name)?,
            Step::Index(index) if text.starts_with(b"[") => {
                let values: Vec<&serde_json::value::RawValue> = serde_json::from_slice(text)?;
                values.get(*index as usize).copied()
            }
            Step::Key(_) | Step::Index(_) => None,
        };
        let Some(value) = value else { return Ok(None) };
        text = value.get().as_bytes();
        found = Some(value);
    }
    found.filter(|value| value.get() != "null").map(text_of).transpose()
}

fn too_large(row: u32, topic: &str) -> Refusal {
    let message = format!("the event is larger than topic `{topic}` accepts (`max.message.bytes`)");
    Refusal { row, path: String::new(), rule: ValidationRule::Size, message }
}

impl ProduceQueue {
    /// Starts the task of a stream that takes events; none for another stream. It ends with the stream.
    pub(super) fn start(
        history: &Arc<History>,
        kafka: &Arc<dyn Kafka>,
        create: &CreateStream,
    ) -> Option<ProduceQueue> {
        let source = create.source.as_ref().filter(|_| create.options.produce == Some(true))?;
        let (queue, requests) = mpsc::channel(REQUESTS_MAX);
        let writer = Writer {
            kafka: Arc::clone(kafka),
            clock: Arc::clone(&history.clock),
            topic: (&*source.topic).into(),
            partitioner: match source.options.partitioner {
                Some(SourcePartitioner::Crc32) => Partitioner::Crc32,
                Some(SourcePartitioner::Murmur2 | SourcePartitioner::Unknown) | None => Partitioner::Murmur2,
            },
            producer: None,
            opened_nanos: 0,
            is_failing: false,
        };
        history.supervisor.spawn(TaskKind::Reader, writer.run(requests, history.closing()));
        Some(ProduceQueue(queue))
    }
}

/// The task of a stream.
struct Writer {
    kafka: Arc<dyn Kafka>,
    clock: Arc<dyn Clock>,
    topic: Arc<str>,
    partitioner: Partitioner,
    /// Kept until it fails.
    producer: Option<Box<dyn Producer>>,
    opened_nanos: u64,
    is_failing: bool,
}

impl Writer {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>, mut stop: StopSignal) {
        loop {
            let first = tokio::select! {
                request = requests.recv() => request,
                () = stop.received() => None,
            };
            let Some(first) = first else { return };
            let mut bytes = first.bytes;
            let mut group = vec![first];
            while bytes < GROUP_BYTES_MAX
                && let Ok(request) = requests.try_recv()
            {
                bytes += request.bytes;
                group.push(request);
            }
            self.answer_group(group, &mut requests).await;
        }
    }

    /// Writes the messages of a group, and answers its requests. After a failure, requests that wait fail too: each would wait for as
    /// long as this group did.
    async fn answer_group(&mut self, mut group: Vec<Request>, requests: &mut mpsc::Receiver<Request>) {
        let counts: Vec<usize> = group.iter().map(|request| request.messages.len()).collect();
        let messages: Vec<NewMessage> =
            group.iter_mut().flat_map(|request| mem::take(&mut request.messages)).collect();
        match self.write(messages).await {
            Ok(outcomes) => {
                self.is_failing = false;
                let mut outcomes = outcomes.into_iter();
                for (request, count) in group.into_iter().zip(counts) {
                    let of_request = outcomes.by_ref().take(count).collect();
                    // Its client may be gone.
                    let _ = request.reply.send(Ok(of_request));
                }
            }
            Err(Failure { error, is_unsure }) => {
                if !mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(topic = %self.topic, %error, hint = error.hint(), "events cannot be written to their topic");
                }
                let failed = |is_unsure| EngineError::NotWritten {
                    topic: self.topic.to_string(),
                    why: error.to_string(),
                    is_unsure,
                };
                // Those that wait now, and not those that come after an answer.
                let waiting: Vec<Request> = std::iter::from_fn(|| requests.try_recv().ok()).collect();
                for request in group {
                    let _ = request.reply.send(Err(failed(is_unsure)));
                }
                for request in waiting {
                    let _ = request.reply.send(Err(failed(false)));
                }
            }
        }
    }

    /// Writes messages; the outcome of each. Those that are too large are left out.
    async fn write(&mut self, mut messages: Vec<NewMessage>) -> Result<Vec<Outcome>, Failure> {
        // The index of each message that is left.
        let mut left: Vec<usize> = (0..messages.len()).collect();
        let mut outcomes = vec![Outcome::TooLarge; messages.len()];
        while !messages.is_empty() {
            let mut producer = match self.producer.take() {
                Some(producer) => producer,
                None => self.open().await.map_err(|error| Failure { error, is_unsure: false })?,
            };
            match producer.send(&messages).await {
                Ok(written) => {
                    self.producer = Some(producer);
                    for (index, position) in left.iter().zip(written) {
                        outcomes[*index] = Outcome::Written(position);
                    }
                    break;
                }
                Err(SendError::Failed(error)) => return Err(Failure { error, is_unsure: true }),
                // Nothing was written. The limit of the topic may have changed meanwhile: it is looked up once more.
                Err(SendError::TooLarge(_)) if self.is_limit_old() => {}
                Err(SendError::TooLarge(indices)) => {
                    self.producer = Some(producer);
                    let mut large = indices.into_iter().peekable();
                    let all = messages.into_iter().zip(left).enumerate();
                    let kept = all.filter(|(index, _)| large.next_if_eq(index).is_none());
                    (messages, left) = kept.map(|(_, message)| message).unzip();
                }
            }
        }
        Ok(outcomes)
    }

    fn is_limit_old(&self) -> bool {
        self.clock.monotonic_nanos().saturating_sub(self.opened_nanos) > LIMIT_NANOS
    }

    async fn open(&mut self) -> Result<Box<dyn Producer>, KafkaError> {
        let topics = vec![Arc::clone(&self.topic)];
        let options = ProducerOptions { transactional_id: None, partitioner: self.partitioner, topics };
        let mut producer = self.kafka.producer(&options)?;
        producer.open().await?;
        self.opened_nanos = self.clock.monotonic_nanos();
        Ok(producer)
    }
}

#[cfg(test)]
mod tests;
