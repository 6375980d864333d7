//! A member of a consumer group, and the thread that polls librdkafka for it.
//!
//! librdkafka joins, sends heartbeats and computes assignments. It is never given a partition to read: what it reports as
//! assigned or revoked is confirmed with an empty list, so that it fetches nothing. The thread confirms a revocation when the
//! caller asks for the next event; until then librdkafka reports no further change.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::{self, Debug},
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use rdkafka_sys as sys;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout},
};
use tracing::warn;

use super::{
    Client,
    errors::{Code, Place},
    native::{Handle, HandleKind, PartitionList, Queue, Rebalance, RebalanceKind, c_text, text_at},
};
use crate::{
    GroupEvent, GroupMember, GroupProtocol, KafkaError, KafkaErrorKind, MemberOptions, TopicPartition,
    connection::configuration,
};

/// The events that wait for the caller, at most. When there are more, the thread polls no more, and the session ends.
const INBOX_EVENTS_MAX: usize = 1024;

/// The time after which an idle thread polls.
const TICK: Duration = Duration::from_secs(1);

/// The time that a member has to release what is revoked, unless its session is longer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// The period in which an error is reported once.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// The time that a member which closes waits for the end of its join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The time after which a member that waits for its join looks again.
const JOIN_TICK: Duration = Duration::from_millis(10);

/// The time that [`GroupMember::leave`] waits.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which topics are looked up again, unless a property sets it: new topics and partitions are found with it.
const METADATA_INTERVAL_MS: u64 = 10_000;
const METADATA_INTERVAL: &str = "topic.metadata.refresh.interval.ms";

/// The messages that one poll takes: errors, as there are no others.
const POLL_MESSAGES: usize = 64;

/// The member's side of what it shares with its thread.
pub(super) struct ClientMember {
    options: MemberOptions,
    shared: Arc<Shared>,
    /// The number of times that the caller has seen all partitions lost: commits from before the last one are not valid.
    losses: u64,
    /// The event before was a revocation.
    has_revoked: bool,
    /// Ends with the thread.
    ended: oneshot::Receiver<()>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes the caller.
    news: Notify,
}

/// An offset to commit, with its text, and the losses that the caller had seen.
type Commit = (u64, String, u64);

#[derive(Default)]
struct State {
    /// The wanted subscription, if it differs from that of the thread.
    topics: Option<Vec<String>>,
    /// The offsets to commit; the last one of each partition.
    commits: BTreeMap<TopicPartition, Commit>,
    /// What was revoked is released.
    is_released: bool,
    /// The queue of librdkafka may have something.
    is_ready: bool,
    is_closed: bool,
    inbox: VecDeque<GroupEvent>,
    failure: Option<KafkaError>,
}

/// The work of one turn of the thread.
struct Work {
    topics: Option<Vec<String>>,
    commits: BTreeMap<TopicPartition, Commit>,
    is_released: bool,
    is_closed: bool,
    has_room: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state for the thread.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.work.notify_one();
    }

    /// Adds an event for the caller.
    fn send(&self, event: GroupEvent) {
        self.lock().inbox.push_back(event);
        self.news.notify_one();
    }

    /// Waits for work, for [`TICK`] at most.
    fn wait(&self) -> Work {
        let is_idle = |state: &mut State| {
            let can_poll = state.is_ready && state.inbox.len() < INBOX_EVENTS_MAX;
            let is_asked = state.topics.is_some() || !state.commits.is_empty() || state.is_released;
            !(can_poll || is_asked || state.is_closed)
        };
        let waited = self.work.wait_timeout_while(self.lock(), TICK, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_room = state.inbox.len() < INBOX_EVENTS_MAX;
        if has_room {
            state.is_ready = false;
        }
        Work {
            topics: state.topics.take(),
            commits: std::mem::take(&mut state.commits),
            is_released: std::mem::take(&mut state.is_released),
            is_closed: state.is_closed,
            has_room,
        }
    }
}

impl Debug for ClientMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMember").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The properties of a member that are not those of the connection.
fn properties(options: &MemberOptions) -> Vec<(&'static str, String)> {
    let session = options.session_timeout;
    let mut properties = vec![
        ("group.id", options.group.clone()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        ("auto.offset.reset", "error".to_owned()),
        ("max.poll.interval.ms", session.max(RELEASE_TIMEOUT).as_millis().to_string()),
    ];
    if let Some(client_id) = &options.client_id {
        properties.push(("client.id", client_id.clone()));
    }
    if let Some(name) = &options.instance_id {
        properties.push(("group.instance.id", name.clone()));
    }
    match options.protocol {
        GroupProtocol::Classic => {
            // A member learns of a rebalance with a heartbeat: the time of one is a part of that of each rebalance.
            let heartbeat = (session / 10).clamp(Duration::from_millis(100), Duration::from_secs(3));
            properties.push(("partition.assignment.strategy", "cooperative-sticky".to_owned()));
            properties.push(("session.timeout.ms", session.as_millis().to_string()));
            properties.push(("heartbeat.interval.ms", heartbeat.as_millis().to_string()));
        }
        GroupProtocol::Consumer => properties.push(("group.protocol", "consumer".to_owned())),
    }
    properties
}

impl ClientMember {
    pub(super) fn new(client: &Client, options: &MemberOptions) -> Result<ClientMember, KafkaError> {
        if options.group.is_empty() {
            return Err(configuration("the name of a consumer group is empty"));
        }
        let mut native = client.settings.properties()?;
        if !client.settings.config.properties.contains_key(METADATA_INTERVAL) {
            native.set(METADATA_INTERVAL, &METADATA_INTERVAL_MS.to_string())?;
        }
        for (name, value) in properties(options) {
            native.set(name, &value)?;
        }
        let handle = Arc::new(Handle::new(HandleKind::Member, native, client.settings.callbacks())?);
        let state = State { topics: Some(options.topics.clone()), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), news: Notify::new() });
        let woken = Arc::clone(&shared);
        let queue = Queue::consumer(&handle, Box::new(move || woken.change(|state| state.is_ready = true)));
        // The thread's own share is the last one, so that the client ends there and not in the caller.
        drop(handle);
        let (end, ended) = oneshot::channel();
        let poller = Poller {
            brokers: client.settings.config.brokers.as_str().into(),
            options: options.clone(),
            shared: Arc::clone(&shared),
            queue,
            owned: BTreeSet::new(),
            is_assigned: false,
            losses: 0,
            revoked: None,
            reports: HashMap::new(),
        };
        let name = format!("kafka {}", options.group);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            poller.run();
            drop(end);
        });
        spawned.map_err(|error| {
            configuration(format!(
                "the thread of a member of group `{}` does not start: {error}",
                options.group
            ))
        })?;
        let options = options.clone();
        Ok(ClientMember { options, shared, losses: 0, has_revoked: false, ended })
    }

    fn take(&mut self) -> Option<GroupEvent> {
        let mut state = self.shared.lock();
        let was_full = state.inbox.len() >= INBOX_EVENTS_MAX;
        let event = state.inbox.pop_front();
        drop(state);
        if was_full {
            self.shared.work.notify_one();
        }
        match &event {
            Some(GroupEvent::Revoked(_)) => self.has_revoked = true,
            Some(GroupEvent::Lost(_)) => self.losses += 1,
            Some(_) => {}
            None => return self.shared.lock().failure.clone().map(GroupEvent::Failed),
        }
        event
    }
}

#[async_trait]
impl GroupMember for ClientMember {
    async fn next(&mut self) -> GroupEvent {
        if std::mem::take(&mut self.has_revoked) {
            self.shared.change(|state| state.is_released = true);
        }
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            let shared = Arc::clone(&self.shared);
            shared.news.notified().await;
        }
    }

    fn subscribe(&mut self, topics: &[String]) {
        self.shared.change(|state| state.topics = Some(topics.to_vec()));
    }

    fn commit(&mut self, offsets: &[(TopicPartition, u64, String)]) {
        let losses = self.losses;
        self.shared.change(|state| {
            for (partition, next, text) in offsets {
                state.commits.insert(partition.clone(), (*next, text.clone(), losses));
            }
        });
    }

    async fn leave(mut self: Box<Self>) {
        self.shared.change(|state| state.is_closed = true);
        if timeout(LEAVE_TIMEOUT, &mut self.ended).await.is_err() {
            let group = &*self.options.group;
            warn!(group, "the broker has not confirmed in time that a member leaves its group");
        }
    }
}

impl Drop for ClientMember {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_closed = true);
    }
}

/// The thread of a member.
struct Poller {
    brokers: Box<str>,
    options: MemberOptions,
    shared: Arc<Shared>,
    queue: Queue,
    /// The partitions of the member, with those that are revoked and not released.
    owned: BTreeSet<TopicPartition>,
    /// The group has assigned something, maybe no partition, since the member began or lost all.
    is_assigned: bool,
    /// The number of times that all partitions were lost.
    losses: u64,
    /// Partitions that are revoked and not released.
    revoked: Option<Vec<TopicPartition>>,
    reports: HashMap<(String, Code), Instant>,
}

impl Poller {
    fn run(mut self) {
        loop {
            let work = self.shared.wait();
            if let Some(topics) = work.topics {
                self.subscribe(&topics);
            }
            self.commit(work.commits);
            if work.is_closed {
                break self.close();
            }
            if work.is_released {
                self.release();
            }
            if work.has_room && !self.poll() {
                // The group has no use for a member that has failed.
                break;
            }
        }
    }

    fn raw(&self) -> *mut sys::rd_kafka_t {
        self.queue.handle().raw()
    }

    fn place<'p>(&'p self, topic: &'p str) -> Place<'p> {
        Place {
            brokers: &self.brokers,
            topic,
            group: &self.options.group,
            instance_id: self.options.instance_id.as_deref().unwrap_or_default(),
            ..Place::default()
        }
    }

    fn subscribe(&mut self, topics: &[String]) {
        // librdkafka takes a name that begins with `^` as a regular expression.
        let (invalid, topics): (Vec<&String>, Vec<&String>) =
            topics.iter().partition(|topic| topic.starts_with('^') || c_text(topic, "topic").is_err());
        for topic in invalid {
            self.report(topic, Code::INVALID_TOPIC, "it has other characters");
        }
        let list = PartitionList::of_topics(topics.into_iter().map(String::as_str));
        // SAFETY: handle and list are alive; the client copies the list.
        let code = unsafe {
            if list.is_empty() {
                sys::rd_kafka_unsubscribe(self.raw())
            } else {
                sys::rd_kafka_subscribe(self.raw(), list.raw())
            }
        };
        if Code(code as i32) != Code::NONE {
            self.report("", Code(code as i32), "");
        }
    }

    fn commit(&mut self, commits: BTreeMap<TopicPartition, Commit>) {
        let is_valid = |(partition, (_, _, losses)): &(TopicPartition, Commit)| {
            *losses == self.losses && self.owned.contains(partition)
        };
        let (valid, invalid): (Vec<_>, Vec<_>) = commits.into_iter().partition(is_valid);
        if let Some((partition, _)) = invalid.first() {
            let text = format!(
                "offsets are not committed: partition {} of `{}` is not assigned to this member of group `{}`",
                partition.partition, partition.topic, self.options.group
            );
            self.shared.send(GroupEvent::Waiting(KafkaError::new(KafkaErrorKind::Other, text)));
        }
        if valid.is_empty() {
            return;
        }
        let list = PartitionList::of_offsets(
            valid.iter().map(|(partition, (next, text, _))| (partition, *next as i64, text.as_str())),
        );
        // SAFETY: handle and list are alive. It does not wait; the outcome comes by a callback.
        let code = unsafe { sys::rd_kafka_commit(self.raw(), list.raw(), 1) };
        if Code(code as i32) != Code::NONE {
            self.report("", Code(code as i32), "");
        }
    }

    /// Confirms a revocation.
    fn release(&mut self) {
        if let Some(revoked) = self.revoked.take() {
            for partition in &revoked {
                self.owned.remove(partition);
            }
            self.queue.handle().confirm(RebalanceKind::Revoked);
        }
    }

    /// Takes what librdkafka has; false if the member has failed.
    fn poll(&mut self) -> bool {
        let mut messages = [ptr::null_mut(); POLL_MESSAGES];
        loop {
            // SAFETY: the queue is alive, and the buffer has room for the limit. It does not wait. It runs callbacks, too.
            let count = unsafe {
                let (buffer, limit) = (messages.as_mut_ptr(), messages.len());
                sys::rd_kafka_consume_batch_queue(self.queue.raw(), 0, buffer, limit)
            };
            let count = usize::try_from(count).unwrap_or(0);
            for message in &messages[..count] {
                // SAFETY: the message is alive until it is destroyed here; its texts are copied.
                let (code, topic, text) = unsafe {
                    let raw = &**message;
                    let topic = match raw.rkt.is_null() {
                        true => String::new(),
                        false => text_at(sys::rd_kafka_topic_name(raw.rkt)),
                    };
                    let text = text_at(sys::rd_kafka_message_errstr(*message));
                    let code = Code(raw.err as i32);
                    sys::rd_kafka_message_destroy(*message);
                    (code, topic, text)
                };
                if code == Code::FATAL {
                    self.fail();
                    return false;
                }
                if code != Code::NONE {
                    self.report(&topic, code, &text);
                }
            }
            for rebalance in self.queue.handle().take_rebalances() {
                self.apply(rebalance);
            }
            for error in self.queue.handle().take_errors() {
                if error.code == Code::FATAL {
                    self.fail();
                    return false;
                }
                self.report("", error.code, &error.text);
            }
            if count < POLL_MESSAGES {
                return true;
            }
        }
    }

    fn apply(&mut self, rebalance: Rebalance) {
        let Rebalance { kind, mut partitions } = rebalance;
        partitions.sort();
        match kind {
            RebalanceKind::Assigned => {
                self.owned.extend(partitions.iter().cloned());
                self.is_assigned = true;
                self.queue.handle().confirm(kind);
                if !partitions.is_empty() {
                    self.shared.send(GroupEvent::Assigned(partitions));
                }
            }
            RebalanceKind::Revoked if !partitions.is_empty() => {
                self.revoked = Some(partitions.clone());
                self.shared.send(GroupEvent::Revoked(partitions));
            }
            RebalanceKind::Revoked => self.queue.handle().confirm(kind),
            RebalanceKind::Lost => {
                self.owned.clear();
                self.is_assigned = false;
                self.queue.handle().confirm(kind);
                if !partitions.is_empty() {
                    self.losses += 1;
                    self.shared.send(GroupEvent::Lost(partitions));
                }
            }
        }
    }

    /// Ends the member with the client's fatal error.
    fn fail(&self) {
        let (code, text) = self.queue.handle().fatal_error();
        self.shared.lock().failure = Some(self.place("").error(code, &text));
        self.shared.news.notify_one();
    }

    /// Reports an error, unless it was reported in this period.
    fn report(&mut self, topic: &str, code: Code, text: &str) {
        let now = Instant::now();
        self.reports.retain(|_, last| now.saturating_duration_since(*last) < REPORT_PERIOD);
        // A broker that is away has several errors in turn; the first one has the reason.
        let kind = if code.is_unreachable() { Code::ALL_BROKERS_DOWN } else { code };
        if self.reports.contains_key(&(topic.to_owned(), kind)) {
            return;
        }
        self.reports.insert((topic.to_owned(), kind), now);
        self.shared.send(GroupEvent::Waiting(self.place(topic).error(code, text)));
    }

    /// Waits for the end of a join that is under way. librdkafka may send no leave before that, so the broker would keep the
    /// member until its session ends.
    fn wait_for_join(&mut self) {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        while self.is_joining() && Instant::now() < deadline && self.poll() {
            // Nothing wakes a thread when the broker answers.
            let waited = self.shared.work.wait_timeout(self.shared.lock(), JOIN_TICK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn is_joining(&self) -> bool {
        // SAFETY: the handle is alive, and what it returns is read here and freed once.
        let (is_named, epoch) = unsafe {
            let metadata = sys::rd_kafka_consumer_group_metadata(self.raw());
            if metadata.is_null() {
                return false;
            }
            let id = text_at(sys::rd_kafka_consumer_group_metadata_member_id(metadata));
            let epoch = sys::rd_kafka_consumer_group_metadata_generation_id(metadata);
            sys::rd_kafka_consumer_group_metadata_destroy(metadata);
            (!id.is_empty(), epoch)
        };
        match self.options.protocol {
            // The broker gives the name with its first answer. The assignment, maybe an empty one, comes with the last one.
            GroupProtocol::Classic => is_named && !self.is_assigned,
            GroupProtocol::Consumer => epoch <= 0,
        }
    }

    /// Leaves the group, when the commits before are written. Waits for the broker, for the session's time at most.
    fn close(mut self) {
        self.wait_for_join();
        self.queue.handle().confirm_all_rebalances();
        self.release();
        for rebalance in self.queue.handle().take_rebalances() {
            self.queue.handle().confirm(rebalance.kind);
        }
        // librdkafka tells the group of the end of a cooperative member only if it has partitions: one without leaves by this.
        if self.owned.is_empty() && self.options.instance_id.is_none() {
            self.subscribe(&[]);
        }
        // SAFETY: the handle is alive. Its callbacks confirm what is revoked meanwhile.
        unsafe { sys::rd_kafka_consumer_close(self.raw()) };
    }
}
