//! The task of a stream that reads a topic: assigns its partitions, and appends their messages to the stream.

mod buffer;
mod gap;
mod start;

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use futures_util::FutureExt;
use swiftwater_catalog::{Object, kind::stream::StreamEntry};
use swiftwater_event::{Backoff, RefusedText};
use swiftwater_kafka::{Consumer, ConsumerOptions, Fetched, Isolation, Kafka, MessageBatch, OffsetAt, Topic};
use swiftwater_lang::ddl::{KafkaIsolation, KafkaSource};
use swiftwater_runtime::lock_order::OrderedMutex;
use tokio::time::{interval, sleep};

use super::{
    convert::{Converted, convert},
    error::SourceError,
    positions::{Positions, producer},
    topic::topic_of,
};
use crate::{
    Ack, AppendOptions, EngineError,
    durable::{append::SourceBatch, history::History},
    objects::kafka_schemas::{SchemaNews, Schemas},
    shared::Shared,
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
};
use buffer::MessageBuffer;

/// Bytes of messages that become one record of the log.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of messages, and the number of batches and events of the consumer, that one look at the topic is for.
const AT_HAND_BYTES_MAX: usize = 4 << 20;
const AT_HAND_MAX: usize = 64;

/// Pauses between attempts. A broker that is back is found within the longest.
pub(super) const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Bytes of a message beside its key and its value.
const MESSAGE_BYTES: usize = 128;

/// The progress of a partition.
#[derive(Debug, Clone, Default)]
pub(super) struct PartitionProgress {
    /// The next offset to read.
    pub(super) position: u64,
    /// The end of the partition when it was last looked at.
    pub(super) end: u64,
    /// Messages that were deleted before they were read.
    pub(super) lost: u64,
    /// Offsets that a statement has skipped.
    pub(super) skipped: u64,
    /// Messages without a value that were left out.
    pub(super) tombstones: u64,
    /// True if reading has stopped, and only a statement lets it go on.
    pub(super) is_stopped: bool,
    /// The reason why it is not read, or was last not.
    pub(super) error: Option<String>,
}

/// The reader of a stream's topic.
#[derive(Debug)]
pub(crate) struct TopicReader {
    /// The stream as it was when the reader began; another reader begins when it changes.
    pub(super) entry: StreamEntry,
    dropped: DropSignal,
    /// Held while the topic is read: the next reader begins when this one has ended.
    pub(super) reading: Arc<tokio::sync::Mutex<()>>,
    /// The positions of a stream that is not stored.
    pub(super) in_memory: Arc<OrderedMutex<BTreeMap<String, u64>>>,
    pub(super) partitions: Arc<OrderedMutex<BTreeMap<u32, PartitionProgress>>>,
    /// The reason why nothing is read, and the pauses since.
    failing: OrderedMutex<(Option<String>, Backoff)>,
}

/// A run of the reader, from its connection to its next failure.
struct Run<'r> {
    reader: &'r TopicReader,
    history: &'r Arc<History>,
    shared: Arc<Shared>,
    kafka: Arc<dyn Kafka>,
    topic: Topic,
    positions: Positions,
    consumer: Box<dyn Consumer>,
    schemas: Schemas,
    /// The messages that wait for their turn, of a stream with a watermark.
    buffer: Option<MessageBuffer>,
}

impl TopicReader {
    /// The reader of a stream, which takes over the state of the one before.
    pub(super) fn new(entry: StreamEntry, before: Option<&TopicReader>) -> TopicReader {
        TopicReader {
            entry,
            dropped: DropSignal::default(),
            reading: before.map_or_else(Arc::default, |before| Arc::clone(&before.reading)),
            in_memory: before.map_or_else(Arc::default, |before| Arc::clone(&before.in_memory)),
            partitions: before.map_or_else(Arc::default, |before| Arc::clone(&before.partitions)),
            failing: OrderedMutex::new((None, RETRY)),
        }
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.dropped.send();
    }

    /// The topic, and how it is read.
    pub(super) fn source(&self) -> &KafkaSource {
        self.entry.create.source.as_ref().expect("only streams with a source have a reader")
    }

    /// The reason why nothing is read.
    pub(super) fn failing(&self) -> Option<String> {
        self.failing.lock().0.clone()
    }

    /// A run begins: its partitions are not stopped, and go on counting.
    fn begin_run(&self, count: u32) {
        let mut partitions = self.partitions.lock();
        partitions.retain(|partition, _| *partition < count);
        for progress in partitions.values_mut() {
            progress.is_stopped = false;
            progress.error = None;
        }
    }

    pub(super) fn update(&self, partition: u32, change: impl FnOnce(&mut PartitionProgress)) {
        change(self.partitions.lock().entry(partition).or_default());
    }

    /// Messages were deleted before they were read: queries say so.
    pub(super) fn count_lost(&self, shared: &Shared, partition: u32, lost: u64) {
        self.update(partition, |progress| progress.lost += lost);
        let all: u64 = self.partitions.lock().values().map(|progress| progress.lost).sum();
        if let Ok(stream) = shared.stream(&self.entry.create.name) {
            stream.set_lost(all);
        }
    }
}

impl Maintained for TopicReader {
    type Error = SourceError;

    fn object(&self) -> Object {
        self.entry.object()
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Reader
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), SourceError> {
        let _alone = self.reading.lock().await;
        let mut run = Run::begin(self, history).await?;
        *self.failing.lock() = (None, RETRY);
        run.read().await
    }

    fn failed(&self, _: &Arc<History>, error: SourceError) -> NextAttempt {
        let text = error.to_string();
        let mut failing = self.failing.lock();
        if failing.0.as_ref() != Some(&text) {
            let stream = self.entry.create.name.as_str();
            tracing::warn!(stream, error = text, "a topic is not read; the server retries");
            failing.0 = Some(text);
        }
        NextAttempt::After(failing.1.pause())
    }
}

impl<'r> Run<'r> {
    /// Connects, and assigns the partitions from their positions on.
    async fn begin(reader: &'r TopicReader, history: &'r Arc<History>) -> Result<Run<'r>, SourceError> {
        let shared = history.shared()?;
        let source = reader.source();
        let connection = source.options.connection();
        let kafka = history.config.kafka.connections.get(connection);
        let kafka = Arc::clone(kafka.ok_or_else(|| SourceError::NoConnection(connection.to_owned()))?);
        let schemas = Schemas::open(history, (source, connection), RETRY).map_err(SourceError::Schemas)?;
        let topic = topic_of(&*kafka, source).await?;
        let positions = Positions::of_reader(history, reader);
        let isolation = match source.options.isolation {
            Some(KafkaIsolation::ReadUncommitted) => Isolation::ReadUncommitted,
            None | Some(KafkaIsolation::ReadCommitted) => Isolation::ReadCommitted,
        };
        let id = history.with_catalog(|catalog| catalog.store.clone());
        let group = id.map_or_else(|| "swiftwater".to_owned(), |id| format!("swiftwater.{id}"));
        let consumer = kafka.consumer(&source.topic, &ConsumerOptions { isolation, group, shares: 1 })?;
        let buffer = MessageBuffer::of(&reader.entry.create);
        let mut run = Run { reader, history, shared, kafka, topic, positions, consumer, schemas, buffer };
        run.find_first_positions().await?;
        reader.begin_run(topic.partitions);
        run.assign(0..topic.partitions);
        run.look_at_ends().await?;
        Ok(run)
    }

    /// Reads partitions from their positions on.
    fn assign(&mut self, partitions: Range<u32>) {
        for partition in partitions {
            let position = self.positions.of(self.topic.id, partition).unwrap_or(0);
            let now = self.history.clock.now();
            let behind = self.buffer.as_mut().and_then(|buffer| buffer.assigned(partition, now));
            self.consumer.assign(partition, behind.unwrap_or(position));
            self.reader.update(partition, |progress| progress.position = position);
        }
    }

    /// Reads until something fails.
    async fn read(&mut self) -> Result<(), SourceError> {
        let mut refresh = interval(self.history.config.kafka.refresh);
        refresh.reset();
        loop {
            self.append_buffered().await?;
            let pause = self.buffer.as_ref().and_then(|buffer| buffer.wait_time(self.history.clock.now()));
            let fetched = tokio::select! {
                fetched = self.consumer.next() => fetched,
                () = sleep(pause.unwrap_or_default()), if pause.is_some() => continue,
                news = self.schemas.news() => {
                    self.take_schema(news)?;
                    continue;
                }
                _ = refresh.tick() => {
                    self.refresh().await?;
                    continue;
                }
            };
            let fetched = self.with_those_at_hand(fetched);
            if fetched.iter().any(|fetched| matches!(fetched, Fetched::Messages(_))) {
                self.check_topic().await?;
            }
            for fetched in fetched {
                self.take(fetched).await?;
            }
        }
    }

    /// Adds the news that can be had without waiting, so that one call checks the topic for all of them.
    fn with_those_at_hand(&mut self, first: Fetched) -> Vec<Fetched> {
        let bytes_of = |fetched: &Fetched| match fetched {
            Fetched::Messages(messages) => messages.bytes().len(),
            _ => 0,
        };
        let mut bytes = bytes_of(&first);
        let mut all = vec![first];
        while bytes < AT_HAND_BYTES_MAX
            && all.len() < AT_HAND_MAX
            && let Some(next) = self.consumer.next().now_or_never()
        {
            bytes += bytes_of(&next);
            all.push(next);
        }
        all
    }

    async fn take(&mut self, fetched: Fetched) -> Result<(), SourceError> {
        match fetched {
            Fetched::Messages(messages) => self.append(Arc::new(messages)).await?,
            // It was fetched before its partition began to wait for a schema.
            Fetched::End { partition, .. } if self.schemas.waits(partition) => {}
            Fetched::End { partition, next } => {
                self.reader.update(partition, |progress| progress.end = next.max(progress.end));
                self.take_behind(partition, fetched).await?;
            }
            Fetched::Gap { partition, .. } => self.take_behind(partition, fetched).await?,
            Fetched::Waiting { partition, error } => {
                let text = match error.hint() {
                    Some(hint) => format!("{error} ({hint})"),
                    None => error.to_string(),
                };
                self.waits(|number| partition.is_none_or(|only| only == number), &text);
            }
            Fetched::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes news of a partition that are behind its messages, unless some of these wait.
    async fn take_behind(&mut self, partition: u32, news: Fetched) -> Result<(), SourceError> {
        let news = match &mut self.buffer {
            Some(buffer) => buffer.defer(partition, news),
            None => Some(news),
        };
        match news {
            Some(Fetched::End { partition, next }) => self.record(partition, next),
            Some(Fetched::Gap { partition, wanted, first, end }) => {
                self.gap(partition, wanted, first..end).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes sure that the messages at hand are those of the topic whose positions are recorded: they were fetched before, and it
    /// is there still. Offsets of a topic that was made again continue none of the earlier one.
    async fn check_topic(&mut self) -> Result<(), SourceError> {
        let topic = self.kafka.topic(&self.reader.source().topic).await?;
        match topic.id == self.topic.id {
            true => Ok(()),
            false => Err(SourceError::Changed(self.reader.source().topic.to_string())),
        }
    }

    /// Looks for new partitions, for another topic of the name, and at the ends of partitions. What cannot be asked at present
    /// is asked again later: reading goes on meanwhile.
    async fn refresh(&mut self) -> Result<(), SourceError> {
        let source = self.reader.source();
        let topic = match self.kafka.topic(&source.topic).await {
            Ok(topic) => topic,
            Err(error) if error.kind().is_transient() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if topic.id != self.topic.id {
            // The next run decides whether the new topic is read.
            return Err(SourceError::Changed(source.topic.to_string()));
        }
        let known = std::mem::replace(&mut self.topic, topic).partitions;
        if topic.partitions > known {
            self.find_first_positions().await?;
            self.assign(known..topic.partitions);
        }
        match self.look_at_ends().await {
            Err(SourceError::Kafka { error }) if !error.kind().is_transient() => return Err(error.into()),
            _ => {}
        }
        let positions: Vec<(u32, u64)> =
            self.reader.partitions.lock().iter().map(|(partition, at)| (*partition, at.position)).collect();
        self.consumer.commit(&positions);
        Ok(())
    }

    async fn look_at_ends(&mut self) -> Result<(), SourceError> {
        let places: Vec<(u32, OffsetAt)> =
            (0..self.topic.partitions).map(|partition| (partition, OffsetAt::Latest)).collect();
        let ends = self.kafka.offsets(&self.reader.source().topic, &places).await?;
        for ((partition, _), end) in places.into_iter().zip(ends) {
            self.reader.update(partition, |progress| progress.end = end);
        }
        Ok(())
    }

    /// Takes the news of a schema that partitions wait for.
    fn take_schema(&mut self, news: SchemaNews) -> Result<(), SourceError> {
        match news {
            SchemaNews::Known(partitions) => {
                for partition in partitions {
                    self.assign(partition..partition + 1);
                    self.reader.update(partition, |progress| progress.error = None);
                }
                Ok(())
            }
            SchemaNews::Away(partitions, why) => {
                self.waits(|partition| partitions.contains(&partition), &why);
                Ok(())
            }
            SchemaNews::Failed(why) => Err(SourceError::Schemas(why)),
        }
    }

    /// Appends the messages of a partition, some at a time, up to the first whose schema is not known.
    async fn append(&mut self, messages: Arc<MessageBatch>) -> Result<(), SourceError> {
        if self.schemas.waits(messages.partition()) {
            // They follow the message that it waits for, and are fetched again.
            return Ok(());
        }
        let mut first = 0;
        while first < messages.len() {
            let mut bytes = 0;
            let fits = |place: &usize| {
                let is_first = bytes == 0;
                // Some more for the properties that its event gets.
                let parts = [messages.key(*place), messages.value(*place)];
                bytes += parts.iter().map(|part| part.map_or(0, <[u8]>::len)).sum::<usize>() + MESSAGE_BYTES;
                is_first || bytes <= CHUNK_BYTES
            };
            let end = first + (first..messages.len()).take_while(fits).count();
            let (known, missing) = self.schemas.known(&messages, first..end);
            let end = known.end;
            let next = match end == messages.len() {
                true => messages.next(),
                false => messages.offsets()[end],
            };
            if end > first && self.buffer.is_some() {
                self.buffer_messages(&messages, first..end, next);
            } else if end > first {
                self.append_range(&messages, first..end, next).await?;
            }
            if let Some(schema) = missing {
                // It goes on at this message: those before it are appended, or wait for their turn.
                self.consumer.unassign(messages.partition());
                self.schemas.miss(schema, messages.partition());
                return Ok(());
            }
            first = end;
        }
        Ok(())
    }

    async fn append_range(
        &mut self,
        messages: &MessageBatch,
        range: Range<usize>,
        next: u64,
    ) -> Result<(), SourceError> {
        let create = &self.reader.entry.create;
        let source = self.reader.source();
        let Converted { batch, offsets, refused, tombstones } =
            convert(messages, range, source, (&self.schemas, create.options.event_bytes_max));
        let ack = self.history.ack(&create.name).unwrap_or(Ack::Memory);
        match &self.positions {
            Positions::Stored(stored) => {
                let stream = self.shared.stream(&create.name).map_err(EngineError::from)?;
                let producer = producer(self.topic.id, messages.partition());
                let batch = SourceBatch { producer, next, batch, offsets, refused };
                self.history.append_of_source(&self.shared, (&stream, stored), &batch, ack).await?;
            }
            Positions::InMemory(_) => {
                let refused: Vec<RefusedText> = refused.into_iter().map(|(_, text)| text).collect();
                let rejected = refused.len() as u64;
                let options = AppendOptions { rejected, refused, ack, ..AppendOptions::default() };
                self.shared.append_unstored(&create.name, batch, options).await?;
            }
        }
        self.record(messages.partition(), next);
        self.reader.update(messages.partition(), |progress| progress.tombstones += tombstones);
        Ok(())
    }

    /// The partition is read up to an offset.
    fn record(&self, partition: u32, next: u64) {
        self.positions.record(self.topic.id, partition, next);
        self.reader.update(partition, |progress| {
            progress.position = next;
            progress.end = progress.end.max(next);
            progress.error = None;
        });
    }

    /// Some partitions are not read at present.
    fn waits(&self, is_one: impl Fn(u32) -> bool, why: &str) {
        let stream = self.reader.entry.create.name.as_str();
        let mut partitions = self.reader.partitions.lock();
        let waiting = partitions.iter_mut().filter(|(number, at)| is_one(**number) && !at.is_stopped);
        let mut is_news = false;
        for (_, at) in waiting {
            is_news |= at.error.replace(why.to_owned()).as_deref() != Some(why);
        }
        drop(partitions);
        if is_news {
            tracing::warn!(stream, error = why, "partitions of a topic are not read at present");
        }
    }
}
