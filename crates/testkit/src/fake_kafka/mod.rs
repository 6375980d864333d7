//! A Kafka of one process: topics in memory behind the traits of `swiftwater-kafka`, moved by the test alone.
//!
//! A consumer sees what the test has written, deleted or broken before its call; nothing happens by time. Batches have at
//! most [`FakeKafka::set_batch_messages`] messages, and partitions take turns.

mod producer;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt::{self, Debug},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
pub use producer::SendFault;
use producer::{FakeProducer, Transactional};
use swiftwater_kafka::{
    Consumer, ConsumerOptions, Fetched, Isolation, Kafka, KafkaError, KafkaErrorKind, MessageBatchBuilder,
    OffsetAt, Producer, ProducerOptions, Timestamp, Topic, TopicId,
};
use tokio::sync::watch;

/// A message to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FakeMessage {
    /// Its key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// Its headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The producer's time; `None` is no timestamp.
    pub timestamp: Option<i64>,
}

impl FakeMessage {
    /// A message without key, headers and timestamp.
    pub fn value(value: impl Into<Vec<u8>>) -> FakeMessage {
        FakeMessage { value: Some(value.into()), ..FakeMessage::default() }
    }
}

/// A transaction of a [`FakeKafka`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FakeTransaction(u64);

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    Open,
    Committed,
    Aborted,
}

/// An offset of a partition.
#[derive(Debug, Clone)]
struct Entry {
    transaction: Option<FakeTransaction>,
    /// None for the marker of a transaction's end.
    message: Option<FakeMessage>,
}

#[derive(Debug, Default)]
struct Partition {
    /// The offset of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    error: Option<KafkaError>,
}

impl Partition {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn entry(&self, offset: u64) -> &Entry {
        &self.entries[(offset - self.first) as usize]
    }
}

#[derive(Debug)]
struct FakeTopic {
    id: TopicId,
    partitions: Vec<Partition>,
    /// The largest batch that it accepts.
    message_bytes_max: usize,
    /// The number of messages without a key that were written to it, which go round all partitions.
    without_key: u32,
}

#[derive(Debug, Default)]
struct State {
    topics: HashMap<String, FakeTopic>,
    topics_made: u128,
    transactions: HashMap<FakeTransaction, TransactionState>,
    commits: BTreeMap<(String, String, u32), u64>,
    transactionals: HashMap<String, Transactional>,
    away: bool,
    /// Failures of the next calls that send messages.
    send_faults: VecDeque<SendFault>,
    batch_messages: usize,
    /// Errors of the next calls of `topic` and `offsets`.
    call_errors: VecDeque<KafkaError>,
    /// Grows with each change.
    version: u64,
}

struct Shared {
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

/// A Kafka in memory. Clones are the same one.
#[derive(Clone)]
pub struct FakeKafka {
    shared: Arc<Shared>,
}

impl Debug for FakeKafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeKafka").finish_non_exhaustive()
    }
}

impl Default for FakeKafka {
    fn default() -> FakeKafka {
        FakeKafka::new()
    }
}

fn unreachable() -> KafkaError {
    KafkaError::new(KafkaErrorKind::Unreachable, "Kafka `fake` cannot be reached: it is away")
}

fn unknown_topic(topic: &str) -> KafkaError {
    KafkaError::new(KafkaErrorKind::UnknownTopic, format!("Kafka `fake` has no topic `{topic}`"))
}

impl FakeKafka {
    /// A Kafka without topics.
    pub fn new() -> FakeKafka {
        let state = State { batch_messages: 1000, ..State::default() };
        FakeKafka { shared: Arc::new(Shared { state: Mutex::new(state), version: watch::Sender::new(0) }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes all consumers.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        state.version += 1;
        self.shared.version.send_replace(state.version);
        changed
    }

    fn change_partition<T>(
        &self,
        topic: &str,
        partition: u32,
        change: impl FnOnce(&mut Partition) -> T,
    ) -> T {
        self.change(|state| {
            let topic = state.topics.get_mut(topic).expect("the topic was made");
            change(&mut topic.partitions[partition as usize])
        })
    }

    /// Makes a topic; if it is there, it is deleted and made again, with another id.
    pub fn make_topic(&self, name: &str, partitions: u32) -> TopicId {
        self.change(|state| state.add_topic(name, partitions))
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) {
        self.change(|state| state.topics.remove(name));
    }

    /// Adds partitions to a topic, which then has this many.
    pub fn add_partitions(&self, topic: &str, partitions: u32) {
        self.change(|state| {
            let topic = state.topics.get_mut(topic).expect("the topic was made");
            topic.partitions.resize_with(partitions as usize, Partition::default);
        });
    }

    /// Writes a message; its offset.
    pub fn append(&self, topic: &str, partition: u32, message: FakeMessage) -> u64 {
        self.append_entry(topic, partition, Entry { transaction: None, message: Some(message) })
    }

    /// Writes messages without keys, headers and timestamps; the offset of the first.
    pub fn append_values<'v>(
        &self,
        topic: &str,
        partition: u32,
        values: impl IntoIterator<Item = &'v str>,
    ) -> u64 {
        self.change_partition(topic, partition, |partition| {
            let first = partition.end();
            let entry = |value| Entry { transaction: None, message: Some(FakeMessage::value(value)) };
            partition.entries.extend(values.into_iter().map(entry));
            first
        })
    }

    fn append_entry(&self, topic: &str, partition: u32, entry: Entry) -> u64 {
        self.change_partition(topic, partition, |partition| {
            partition.entries.push_back(entry);
            partition.end() - 1
        })
    }

    /// Begins a transaction.
    pub fn begin(&self) -> FakeTransaction {
        self.change(State::begin)
    }

    /// Writes a message in a transaction; its offset.
    pub fn append_in(
        &self,
        transaction: FakeTransaction,
        topic: &str,
        partition: u32,
        message: FakeMessage,
    ) -> u64 {
        self.append_entry(topic, partition, Entry { transaction: Some(transaction), message: Some(message) })
    }

    /// Commits a transaction, which leaves a marker in each partition that it has written to.
    pub fn commit(&self, transaction: FakeTransaction) {
        self.end_transaction(transaction, TransactionState::Committed);
    }

    /// Aborts a transaction, which leaves a marker in each partition that it has written to.
    pub fn abort(&self, transaction: FakeTransaction) {
        self.end_transaction(transaction, TransactionState::Aborted);
    }

    fn end_transaction(&self, transaction: FakeTransaction, end: TransactionState) {
        self.change(|state| state.end_transaction(transaction, end));
    }

    /// Makes the next call that sends messages fail. Several failures come in order.
    pub fn fail_send(&self, fault: SendFault) {
        self.change(|state| state.send_faults.push_back(fault));
    }

    /// Sets the size of the largest batch that a topic accepts; 1 MiB unless it is set.
    pub fn set_message_bytes_max(&self, topic: &str, bytes: usize) {
        self.change(|state| {
            state.topics.get_mut(topic).expect("the topic exists").message_bytes_max = bytes;
        });
    }

    /// The messages of a partition that a consumer of committed messages reads up to now, with their offsets.
    pub fn committed_messages(&self, topic: &str, partition: u32) -> Vec<(u64, FakeMessage)> {
        let state = self.lock();
        let partition = &state.topics[topic].partitions[partition as usize];
        let end = state.readable_end(partition, Isolation::ReadCommitted);
        let visible = (partition.first..end).filter_map(|offset| {
            let entry = partition.entry(offset);
            let message = entry.message.clone()?;
            state.is_visible(entry, Isolation::ReadCommitted).then_some((offset, message))
        });
        visible.collect()
    }

    /// Deletes all messages before an offset, as retention does.
    pub fn delete_before(&self, topic: &str, partition: u32, offset: u64) {
        self.change_partition(topic, partition, |partition| {
            let count = offset.min(partition.end()).saturating_sub(partition.first);
            partition.entries.drain(..count as usize);
            partition.first += count;
        });
    }

    /// Makes the broker unreachable, or reachable again.
    pub fn set_away(&self, away: bool) {
        self.change(|state| state.away = away);
    }

    /// Ends all failures of calls, and those that were to come.
    pub fn end_failures(&self) {
        self.change(|state| {
            state.away = false;
            state.call_errors.clear();
            state.send_faults.clear();
        });
    }

    /// Makes reads of a partition fail until the error is `None` again.
    pub fn set_error(&self, topic: &str, partition: u32, error: Option<KafkaError>) {
        self.change_partition(topic, partition, |partition| partition.error = error);
    }

    /// Makes the next call of `topic` or `offsets` fail. Several errors are returned in order.
    pub fn fail_call(&self, error: KafkaError) {
        self.change(|state| state.call_errors.push_back(error));
    }

    /// Sets the number of messages of one batch at most; 1000 unless it is set.
    pub fn set_batch_messages(&self, messages: usize) {
        self.change(|state| state.batch_messages = messages);
    }

    /// The offset that was committed to a group.
    pub fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<u64> {
        self.lock().commits.get(&(group.to_owned(), topic.to_owned(), partition)).copied()
    }
}

impl State {
    fn end_transaction(&mut self, transaction: FakeTransaction, end: TransactionState) {
        self.transactions.insert(transaction, end);
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if partition.entries.iter().any(|entry| entry.transaction == Some(transaction)) {
                partition.entries.push_back(Entry { transaction: Some(transaction), message: None });
            }
        }
    }

    fn add_topic(&mut self, name: &str, partitions: u32) -> TopicId {
        self.topics_made += 1;
        let id = TopicId(0x5357_0000_0000_0000_0000_0000_0000_0000 | self.topics_made);
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        let topic = FakeTopic { id, partitions, message_bytes_max: 1 << 20, without_key: 0 };
        self.topics.insert(name.to_owned(), topic);
        id
    }

    fn begin(&mut self) -> FakeTransaction {
        let transaction = FakeTransaction(self.transactions.len() as u64);
        self.transactions.insert(transaction, TransactionState::Open);
        transaction
    }

    fn check_call(&mut self) -> Result<(), KafkaError> {
        if let Some(error) = self.call_errors.pop_front() {
            return Err(error);
        }
        if self.away { Err(unreachable()) } else { Ok(()) }
    }

    /// The end up to which a consumer reads: the first message of an open transaction, if it reads committed ones only.
    fn readable_end(&self, partition: &Partition, isolation: Isolation) -> u64 {
        let is_open = |entry: &Entry| {
            entry
                .transaction
                .is_some_and(|transaction| self.transactions[&transaction] == TransactionState::Open)
        };
        match isolation {
            Isolation::ReadUncommitted => partition.end(),
            Isolation::ReadCommitted => {
                let open = partition.entries.iter().position(is_open);
                open.map_or(partition.end(), |place| partition.first + place as u64)
            }
        }
    }

    fn is_visible(&self, entry: &Entry, isolation: Isolation) -> bool {
        let is_aborted = entry
            .transaction
            .is_some_and(|transaction| self.transactions[&transaction] == TransactionState::Aborted);
        entry.message.is_some() && !(is_aborted && isolation == Isolation::ReadCommitted)
    }
}

#[async_trait]
impl Kafka for FakeKafka {
    async fn topic(&self, name: &str) -> Result<Topic, KafkaError> {
        let mut state = self.lock();
        state.check_call()?;
        let topic = state.topics.get(name).ok_or_else(|| unknown_topic(name))?;
        Ok(Topic { id: topic.id, partitions: topic.partitions.len() as u32 })
    }

    async fn offsets(&self, topic: &str, places: &[(u32, OffsetAt)]) -> Result<Vec<u64>, KafkaError> {
        let mut state = self.lock();
        state.check_call()?;
        let found = state.topics.get(topic).ok_or_else(|| unknown_topic(topic))?;
        let offset = |(number, place): &(u32, OffsetAt)| {
            let partition = found.partitions.get(*number as usize).ok_or_else(|| unknown_topic(topic))?;
            Ok(match *place {
                OffsetAt::Earliest => partition.first,
                OffsetAt::Latest => partition.end(),
                OffsetAt::Timestamp(millis) => {
                    let is_later = |entry: &Entry| {
                        let timestamp = entry.message.as_ref().and_then(|message| message.timestamp);
                        timestamp.is_some_and(|timestamp| timestamp >= millis)
                    };
                    let found = partition.entries.iter().position(is_later);
                    found.map_or(partition.end(), |index| partition.first + index as u64)
                }
            })
        };
        places.iter().map(offset).collect()
    }

    async fn create_topic(&self, name: &str, partitions: u32, _: &[(&str, &str)]) -> Result<(), KafkaError> {
        self.change(|state| {
            state.check_call()?;
            if !state.topics.contains_key(name) {
                state.add_topic(name, partitions);
            }
            Ok(())
        })
    }

    fn producer(&self, options: &ProducerOptions) -> Result<Box<dyn Producer>, KafkaError> {
        Ok(Box::new(FakeProducer::new(self, options)))
    }

    fn consumer(&self, topic: &str, options: &ConsumerOptions) -> Result<Box<dyn Consumer>, KafkaError> {
        Ok(Box::new(FakeConsumer {
            kafka: self.clone(),
            topic: topic.to_owned(),
            options: options.clone(),
            partitions: BTreeMap::new(),
            turn: 0,
            reported_away: false,
            version: self.shared.version.subscribe(),
        }))
    }
}

/// The place of a consumer in a partition.
#[derive(Debug)]
struct Place {
    next: u64,
    paused: bool,
    /// The end that was reported last.
    reported_end: Option<u64>,
    reported_error: Option<KafkaError>,
}

/// A consumer of a [`FakeKafka`].
#[derive(Debug)]
struct FakeConsumer {
    kafka: FakeKafka,
    topic: String,
    options: ConsumerOptions,
    partitions: BTreeMap<u32, Place>,
    /// The first partition to look at.
    turn: u32,
    reported_away: bool,
    version: watch::Receiver<u64>,
}

impl FakeConsumer {
    fn poll(&mut self) -> Option<Fetched> {
        let state = self.kafka.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.away {
            let was_reported = std::mem::replace(&mut self.reported_away, true);
            return (!was_reported).then(|| Fetched::Waiting { partition: None, error: unreachable() });
        }
        self.reported_away = false;
        let (before, after): (Vec<u32>, Vec<u32>) =
            self.partitions.keys().partition(|partition| **partition < self.turn);
        for number in after.into_iter().chain(before) {
            let place = self.partitions.get_mut(&number).expect("it is one of the keys");
            if place.paused {
                continue;
            }
            let Some(fetched) = poll_partition(&state, &self.topic, number, place, self.options.isolation)
            else {
                continue;
            };
            if matches!(fetched, Fetched::Gap { .. }) {
                self.partitions.remove(&number);
            }
            self.turn = number + 1;
            return Some(fetched);
        }
        None
    }
}

/// The news of one partition; `None` if there are none.
fn poll_partition(
    state: &State,
    topic: &str,
    number: u32,
    place: &mut Place,
    isolation: Isolation,
) -> Option<Fetched> {
    let found = state.topics.get(topic).and_then(|topic| topic.partitions.get(number as usize));
    let error = match found {
        Some(partition) => partition.error.clone(),
        None => Some(unknown_topic(topic)),
    };
    if let Some(error) = error {
        if place.reported_error.as_ref() == Some(&error) {
            return None;
        }
        place.reported_error = Some(error.clone());
        return Some(Fetched::Waiting { partition: Some(number), error });
    }
    place.reported_error = None;
    let partition = found?;
    if place.next < partition.first || place.next > partition.end() {
        let (first, end) = (partition.first, partition.end());
        return Some(Fetched::Gap { partition: number, wanted: place.next, first, end });
    }
    let end = state.readable_end(partition, isolation);
    let mut builder = MessageBatchBuilder::with_capacity(number, 0, 0);
    let mut offset = place.next;
    while offset < end && builder.len() < state.batch_messages {
        let entry = partition.entry(offset);
        if let Some(message) = entry.message.as_ref().filter(|_| state.is_visible(entry, isolation)) {
            let timestamp = message.timestamp.map_or(Timestamp::MISSING, Timestamp::create);
            let headers = message.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
            builder.push(offset, timestamp, message.key.as_deref(), message.value.as_deref(), headers);
            place.next = offset + 1;
        }
        offset += 1;
    }
    if !builder.is_empty() {
        return Some(Fetched::Messages(builder.finish(place.next)));
    }
    place.next = offset.max(place.next);
    if place.next < end || place.reported_end == Some(place.next) {
        return None;
    }
    place.reported_end = Some(place.next);
    Some(Fetched::End { partition: number, next: place.next })
}

#[async_trait]
impl Consumer for FakeConsumer {
    fn assign(&mut self, partition: u32, from: u64) {
        let place = Place { next: from, paused: false, reported_end: None, reported_error: None };
        self.partitions.insert(partition, place);
    }

    fn unassign(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    fn pause(&mut self, partition: u32) {
        if let Some(place) = self.partitions.get_mut(&partition) {
            place.paused = true;
        }
    }

    fn resume(&mut self, partition: u32) {
        if let Some(place) = self.partitions.get(&partition).filter(|place| place.paused) {
            self.assign(partition, place.next);
        }
    }

    async fn next(&mut self) -> Fetched {
        loop {
            self.version.borrow_and_update();
            if let Some(fetched) = self.poll() {
                return fetched;
            }
            // The sender is a part of `self.kafka`, and so lives.
            let _ = self.version.changed().await;
        }
    }

    fn commit(&mut self, offsets: &[(u32, u64)]) {
        let mut state = self.kafka.lock();
        for (partition, next) in offsets {
            state.commits.insert((self.options.group.clone(), self.topic.clone(), *partition), *next);
        }
    }

    fn stalls(&self) -> u64 {
        0
    }
}
