//! A Kafka of one process: topics in memory behind the traits of `swiftwater-kafka`, moved by the test alone.
//!
//! A consumer sees what the test has written, deleted or broken before its call; nothing happens by time. Batches have at
//! most [`FakeKafka::set_batch_messages`] messages, and partitions take turns. A test that has several clients gives each a
//! name ([`FakeKafka::client`]), by which it is cut off the brokers or frozen.

mod group;
mod producer;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::{self, Debug},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use group::{FakeMember, Group};
pub use producer::SendFault;
use producer::{FakeProducer, Transactional};
use swiftwater_kafka::{
    CommittedOffset, Consumer, ConsumerOptions, Fetched, GroupMember, Isolation, Kafka, KafkaError,
    KafkaErrorKind, MemberDescription, MemberOptions, MessageBatchBuilder, OffsetAt, Producer,
    ProducerOptions, Timestamp, Topic, TopicId, TopicPartition,
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

/// The name of a client that has been given none.
const CLIENT: &str = "swiftwater";

/// An offset of a partition.
#[derive(Debug, Clone)]
struct Entry {
    transaction: Option<FakeTransaction>,
    /// The broker's time, in topics that have it.
    appended: Option<i64>,
    /// None for the marker of a transaction's end.
    message: Option<FakeMessage>,
}

impl Entry {
    fn timestamp(&self) -> Timestamp {
        let created = self.message.as_ref().and_then(|message| message.timestamp);
        match (self.appended, created) {
            (Some(millis), _) => Timestamp::append(millis),
            (None, Some(millis)) => Timestamp::create(millis),
            (None, None) => Timestamp::MISSING,
        }
    }
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

    /// Writes an entry; its offset.
    fn push(
        &mut self,
        transaction: Option<FakeTransaction>,
        appended: Option<i64>,
        message: Option<FakeMessage>,
    ) -> u64 {
        self.entries.push_back(Entry { transaction, appended, message });
        self.end() - 1
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
    /// Its messages have the broker's time.
    has_append_time: bool,
    /// The number of messages without a key that were written to it, which go round all partitions.
    without_key: u32,
}

#[derive(Debug, Default)]
struct State {
    topics: HashMap<String, FakeTopic>,
    topics_made: u128,
    transactions: HashMap<FakeTransaction, TransactionState>,
    commits: BTreeMap<(String, String, u32), CommittedOffset>,
    groups: BTreeMap<String, Group>,
    transactionals: HashMap<String, Transactional>,
    /// The time of the brokers, once it is set.
    now: Option<i64>,
    away: bool,
    /// The clients that do not reach the brokers.
    cut_off: BTreeSet<String>,
    /// The clients that stand still.
    frozen: BTreeSet<String>,
    /// Failures of the next calls that send messages.
    send_faults: VecDeque<SendFault>,
    /// Failures of calls that write to a topic: its name, and the calls before that succeed.
    topic_faults: Vec<(String, usize, SendFault)>,
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
    client: Arc<str>,
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
        let shared = Shared { state: Mutex::new(state), version: watch::Sender::new(0) };
        FakeKafka { shared: Arc::new(shared), client: CLIENT.into() }
    }

    /// The same Kafka for a client of this name, such as one of several servers.
    pub fn client(&self, client: &str) -> FakeKafka {
        FakeKafka { shared: Arc::clone(&self.shared), client: client.into() }
    }

    /// Cuts a client off the brokers, or connects it again: with all its consumers, producers, calls, and the members of this
    /// `client.id`. Sessions in groups do not end by that: see [`FakeKafka::expire`].
    pub fn set_cut_off(&self, client: &str, cut_off: bool) {
        self.change(|state| {
            if cut_off {
                state.cut_off.insert(client.to_owned());
            } else {
                state.cut_off.remove(client);
            }
        });
    }

    /// Lets a client stand still, as a process does that is stopped, or continue: its calls do not return meanwhile, and what
    /// they write is written when it continues.
    pub fn set_frozen(&self, client: &str, frozen: bool) {
        self.change(|state| {
            if frozen {
                state.frozen.insert(client.to_owned());
            } else {
                state.frozen.remove(client);
            }
        });
    }

    /// Ends the sessions of a client's members in all groups, by the members' `client.id`: their partitions go to others. A
    /// member that is alive returns that it has lost them with its next call that reaches the brokers, and joins again.
    pub fn expire(&self, client: &str) {
        self.change(|state| state.expire(client));
    }

    /// Sets the time of the brokers, in milliseconds since 1970. From then on messages of producers have it as their time of
    /// creation, too, which otherwise have no timestamp.
    pub fn set_time(&self, millis: i64) {
        self.change(|state| state.now = Some(millis));
    }

    /// Lets the messages that are written to a topic from now on have the time of the brokers
    /// (`message.timestamp.type=LogAppendTime`); it is 0 before it is set.
    pub fn set_append_time(&self, topic: &str, has_append_time: bool) {
        self.change(|state| {
            state.topics.get_mut(topic).expect("the topic exists").has_append_time = has_append_time;
        });
    }

    /// Waits until a client, and the one of this connection, are not frozen.
    async fn until_thawed(&self, client: &str) {
        let mut version = self.shared.version.subscribe();
        loop {
            version.borrow_and_update();
            let is_frozen = {
                let state = self.lock();
                state.is_frozen(&self.client) || state.is_frozen(client)
            };
            if !is_frozen {
                return;
            }
            // The sender is a part of `self`, and so lives.
            let _ = version.changed().await;
        }
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
        self.change(|state| {
            let id = state.add_topic(name, partitions);
            state.rebalance_all();
            id
        })
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) {
        self.change(|state| {
            state.topics.remove(name);
            state.rebalance_all();
        });
    }

    /// Adds partitions to a topic, which then has this many.
    pub fn add_partitions(&self, topic: &str, partitions: u32) {
        self.change(|state| {
            let topic = state.topics.get_mut(topic).expect("the topic was made");
            topic.partitions.resize_with(partitions as usize, Partition::default);
            state.rebalance_all();
        });
    }

    /// Writes a message; its offset.
    pub fn append(&self, topic: &str, partition: u32, message: FakeMessage) -> u64 {
        self.change(|state| state.append(topic, partition, None, message))
    }

    /// Writes messages without keys, headers and timestamps; the offset of the first.
    pub fn append_values<'v>(
        &self,
        topic: &str,
        partition: u32,
        values: impl IntoIterator<Item = &'v str>,
    ) -> u64 {
        self.change(|state| {
            let first = state.topics[topic].partitions[partition as usize].end();
            for value in values {
                state.append(topic, partition, None, FakeMessage::value(value));
            }
            first
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
        self.change(|state| state.append(topic, partition, Some(transaction), message))
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

    /// Makes a call that sends messages to a topic fail, after so many that succeed.
    pub fn fail_send_to(&self, topic: &str, after: usize, fault: SendFault) {
        self.change(|state| state.topic_faults.push((topic.to_owned(), after, fault)));
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
            state.cut_off.clear();
            state.frozen.clear();
            state.call_errors.clear();
            state.send_faults.clear();
            state.topic_faults.clear();
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
        self.committed_with_text(group, topic, partition).map(|(next, _)| next)
    }

    /// The offset that was committed to a group, with its text.
    pub fn committed_with_text(&self, group: &str, topic: &str, partition: u32) -> Option<CommittedOffset> {
        self.lock().commits.get(&(group.to_owned(), topic.to_owned(), partition)).cloned()
    }
}

impl State {
    fn end_transaction(&mut self, transaction: FakeTransaction, end: TransactionState) {
        self.transactions.insert(transaction, end);
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if partition.entries.iter().any(|entry| entry.transaction == Some(transaction)) {
                partition.push(Some(transaction), None, None);
            }
        }
    }

    fn add_topic(&mut self, name: &str, partitions: u32) -> TopicId {
        self.topics_made += 1;
        let id = TopicId(0x5357_0000_0000_0000_0000_0000_0000_0000 | self.topics_made);
        let partitions = (0..partitions).map(|_| Partition::default()).collect();
        let topic =
            FakeTopic { id, partitions, message_bytes_max: 1 << 20, has_append_time: false, without_key: 0 };
        self.topics.insert(name.to_owned(), topic);
        id
    }

    fn begin(&mut self) -> FakeTransaction {
        let transaction = FakeTransaction(self.transactions.len() as u64);
        self.transactions.insert(transaction, TransactionState::Open);
        transaction
    }

    /// Writes a message; its offset.
    fn append(
        &mut self,
        topic: &str,
        partition: u32,
        transaction: Option<FakeTransaction>,
        message: FakeMessage,
    ) -> u64 {
        let now = self.now.unwrap_or(0);
        let topic = self.topics.get_mut(topic).expect("the topic was made");
        let appended = topic.has_append_time.then_some(now);
        topic.partitions[partition as usize].push(transaction, appended, Some(message))
    }

    /// True if a client does not reach the brokers.
    fn is_away(&self, client: &str) -> bool {
        self.away || self.cut_off.contains(client)
    }

    fn is_frozen(&self, client: &str) -> bool {
        self.frozen.contains(client)
    }

    fn check_call(&mut self, client: &str) -> Result<(), KafkaError> {
        if let Some(error) = self.call_errors.pop_front() {
            return Err(error);
        }
        if self.is_away(client) { Err(unreachable()) } else { Ok(()) }
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
        self.until_thawed(&self.client).await;
        let mut state = self.lock();
        state.check_call(&self.client)?;
        let topic = state.topics.get(name).ok_or_else(|| unknown_topic(name))?;
        Ok(Topic { id: topic.id, partitions: topic.partitions.len() as u32 })
    }

    async fn offsets(&self, topic: &str, places: &[(u32, OffsetAt)]) -> Result<Vec<u64>, KafkaError> {
        self.until_thawed(&self.client).await;
        let mut state = self.lock();
        state.check_call(&self.client)?;
        let found = state.topics.get(topic).ok_or_else(|| unknown_topic(topic))?;
        let offset = |(number, place): &(u32, OffsetAt)| {
            let partition = found.partitions.get(*number as usize).ok_or_else(|| unknown_topic(topic))?;
            Ok(match *place {
                OffsetAt::Earliest => partition.first,
                OffsetAt::Latest => partition.end(),
                OffsetAt::Timestamp(millis) => {
                    let is_later = |entry: &Entry| {
                        let timestamp = entry.timestamp();
                        timestamp != Timestamp::MISSING && timestamp.millis >= millis
                    };
                    let found = partition.entries.iter().position(is_later);
                    found.map_or(partition.end(), |index| partition.first + index as u64)
                }
            })
        };
        places.iter().map(offset).collect()
    }

    async fn create_topic(
        &self,
        name: &str,
        partitions: u32,
        properties: &[(&str, &str)],
    ) -> Result<(), KafkaError> {
        self.until_thawed(&self.client).await;
        self.change(|state| {
            state.check_call(&self.client)?;
            if !state.topics.contains_key(name) {
                state.add_topic(name, partitions);
                if let Some(topic) = state.topics.get_mut(name) {
                    topic.has_append_time = properties.contains(&("message.timestamp.type", "LogAppendTime"));
                    let limit = properties.iter().find(|(name, _)| *name == "max.message.bytes");
                    let limit = limit.and_then(|(_, bytes)| bytes.parse().ok());
                    topic.message_bytes_max = limit.unwrap_or(topic.message_bytes_max);
                }
                state.rebalance_all();
            }
            Ok(())
        })
    }

    fn member(&self, options: &MemberOptions) -> Result<Box<dyn GroupMember>, KafkaError> {
        Ok(Box::new(FakeMember::new(self, options)))
    }

    async fn group(&self, group: &str) -> Result<Vec<MemberDescription>, KafkaError> {
        self.until_thawed(&self.client).await;
        let mut state = self.lock();
        state.check_call(&self.client)?;
        Ok(state.describe(group))
    }

    async fn group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<CommittedOffset>>, KafkaError> {
        self.until_thawed(&self.client).await;
        let mut state = self.lock();
        state.check_call(&self.client)?;
        let committed = |partition: &TopicPartition| {
            let place = (group.to_owned(), partition.topic.to_string(), partition.partition);
            state.commits.get(&place).cloned()
        };
        Ok(partitions.iter().map(committed).collect())
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
            errors: VecDeque::new(),
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
    /// Errors of commits.
    errors: VecDeque<KafkaError>,
    version: watch::Receiver<u64>,
}

impl FakeConsumer {
    fn poll(&mut self) -> Option<Fetched> {
        let state = self.kafka.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_frozen(&self.kafka.client) {
            return None;
        }
        if state.is_away(&self.kafka.client) {
            let was_reported = std::mem::replace(&mut self.reported_away, true);
            return (!was_reported).then(|| Fetched::Waiting { partition: None, error: unreachable() });
        }
        self.reported_away = false;
        if let Some(error) = self.errors.pop_front() {
            return Some(Fetched::Waiting { partition: None, error });
        }
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
            let headers = message.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
            builder.push(
                offset,
                entry.timestamp(),
                message.key.as_deref(),
                message.value.as_deref(),
                headers,
            );
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
        let group = &self.options.group;
        let client = &self.kafka.client;
        let error = if state.is_away(client) || state.is_frozen(client) {
            Some(unreachable())
        } else if state.has_members(group) {
            let text =
                format!("offsets are not committed: group `{group}` has members, and this is none of them");
            Some(KafkaError::new(KafkaErrorKind::Other, text))
        } else {
            None
        };
        if let Some(error) = error {
            if self.errors.back() != Some(&error) {
                self.errors.push_back(error);
            }
            return;
        }
        for (partition, next) in offsets {
            let place = (group.clone(), self.topic.clone(), *partition);
            state.commits.insert(place, (*next, String::new()));
        }
    }

    fn stalls(&self) -> u64 {
        0
    }
}
