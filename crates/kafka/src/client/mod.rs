//! The client of librdkafka: the one implementation of [`Kafka`] that talks to brokers.
//!
//! Each consumer is a client of librdkafka of its own, with a thread that reads its queue; so is each member of a group, and
//! each producer, whose calls have a thread each. One more client makes the calls that describe topics and groups, and look
//! up offsets. Knows librdkafka's functions beside `errors` and `native` in `admin`, `fetcher`, `member` and `producer` only.

mod admin;
mod consumer;
mod errors;
mod fetcher;
mod member;
mod native;
mod new_topics;
mod producer;

use std::{
    collections::HashMap,
    ffi::CStr,
    fmt::{self, Debug},
    fs::File,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use swiftwater_event::Clock;
use tokio::{sync::Notify, time};

use admin::{Call, GroupAnswer, GroupResult};
use consumer::{ClientConsumer, Shared};
use errors::{Access, Code, Place};
use fetcher::{Fetcher, FetcherNames};
use member::ClientMember;
use native::{Callbacks, Handle, HandleKind, Properties, Queue, Wake, c_text};
use new_topics::NewTopics;
use producer::ClientProducer;

use crate::{
    CommittedOffset, ConnectionConfig, Consumer, ConsumerOptions, GroupMember, Isolation, Kafka, KafkaError,
    KafkaErrorKind, MemberDescription, MemberOptions, OffsetAt, Producer, ProducerOptions, Topic,
    TopicPartition, connection::configuration,
};

/// The time after which a call fails if no broker can be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which a coordinator that is not ready is called again.
const COORDINATOR_INTERVAL: Duration = Duration::from_millis(100);

/// The properties of the client for calls.
const PROPERTIES_OF_CALLS: [(&str, &str); 2] = [
    // Calls wait for the broker that was the controller at the last refresh. A client without topics has no other reason to ask
    // for the broker that is the controller now, when that one is dead.
    ("topic.metadata.refresh.interval.ms", "10000"),
    // Otherwise librdkafka 2.12 connects to a dead broker without backing off, while a call waits for it: two threads are busy.
    ("enable.sparse.connections", "false"),
];

/// A password's bytes at most.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

/// A client of the brokers of one cluster. Clones share the connections of calls.
#[derive(Clone)]
pub struct Client {
    settings: Settings,
    calls: Arc<FirstCall>,
    new_topics: Arc<NewTopics>,
}

/// The client of librdkafka for calls, which the first call makes.
#[derive(Default)]
struct FirstCall(Mutex<Option<Arc<Calls>>>);

/// The settings of all of a client's connections.
#[derive(Clone)]
struct Settings {
    config: ConnectionConfig,
    clock: Arc<dyn Clock>,
}

/// The client of librdkafka for calls.
struct Calls {
    /// None while it is dropped, as the queue.
    handle: Option<Arc<Handle>>,
    /// Woken by answers and by callbacks that wait.
    woken: Arc<Notify>,
    callbacks: Option<Queue>,
}

/// Takes the client for calls out of use, unless its call about a group was answered. librdkafka 2.12 ends the process when the
/// coordinator of a group comes up after a call about the group has timed out. So such calls have a long timeout there, and
/// those that are given up end with their client.
struct GroupCallGuard<'c> {
    calls: &'c FirstCall,
    used: Arc<Calls>,
    is_answered: bool,
}

impl Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("config", &self.settings.config).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects at its first call. Checks the settings, the names and values of further properties, and that
    /// the files of password, certificates and key can be read. The clock dates bearer tokens.
    pub fn new(config: ConnectionConfig, clock: Arc<dyn Clock>) -> Result<Client, KafkaError> {
        let settings = Settings { config, clock };
        settings.properties()?;
        Ok(Client { settings, calls: Arc::default(), new_topics: Arc::default() })
    }

    fn calls(&self) -> Result<Arc<Calls>, KafkaError> {
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = &*calls {
            return Ok(Arc::clone(calls));
        }
        let (mut properties, callbacks) = (self.settings.properties()?, self.settings.callbacks());
        for (name, value) in PROPERTIES_OF_CALLS {
            properties.set(name, value)?;
        }
        let handle = Arc::new(Handle::new(HandleKind::Consumer, properties, callbacks)?);
        let woken = Arc::new(Notify::new());
        let callbacks = Queue::main(&handle, wake(&woken));
        let made = Arc::new(Calls { handle: Some(handle), woken, callbacks: Some(callbacks) });
        *calls = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Client {
    /// The size of the largest batch that a topic accepts. Fails if there is no such topic.
    async fn message_bytes_max(&self, topic: &str) -> Result<usize, KafkaError> {
        self.new_topics.call(topic, || self.describe_limit(topic)).await
    }

    async fn describe_limit(&self, topic: &str) -> Result<usize, KafkaError> {
        let calls = self.calls()?;
        let call = Call::properties(calls.handle(), &c_text(topic, "topic")?, wake(&calls.woken));
        let place = Place { access: Access::Limits, ..self.settings.place(topic) };
        let value = calls.wait(place, || call.property("max.message.bytes", place)).await?;
        value.and_then(|value| value.parse().ok()).ok_or_else(|| place.timeout())
    }

    async fn describe(&self, name: &str) -> Result<Topic, KafkaError> {
        let calls = self.calls()?;
        let call = Call::describe(calls.handle(), &c_text(name, "topic")?, wake(&calls.woken));
        let place = self.settings.place(name);
        calls.wait(place, || call.topic(place)).await
    }

    async fn find_offsets(&self, topic: &str, places: &[(u32, OffsetAt)]) -> Result<Vec<u64>, KafkaError> {
        let calls = self.calls()?;
        let place = self.settings.place(topic);
        let name = c_text(topic, "topic")?;
        let mut offsets = vec![0; places.len()];
        let mut ends = Vec::new();
        let mut open = distinct_partitions(places);
        while let Some(places) = open.pop() {
            let wanted: Vec<(u32, OffsetAt)> = places.iter().map(|(_, place)| *place).collect();
            let call =
                Call::offsets(calls.handle(), &name, &wanted, Isolation::ReadUncommitted, wake(&calls.woken));
            let found = calls.wait(place, || call.partition_offsets(place)).await?;
            for (index, (partition, at)) in places {
                let offset =
                    found.iter().find(|(found, _)| *found == partition).map_or(-1, |(_, offset)| *offset);
                match u64::try_from(offset) {
                    Ok(offset) => offsets[index] = offset,
                    // No message has the timestamp or a later one.
                    Err(_) if matches!(at, OffsetAt::Timestamp(_)) => {
                        ends.push((index, (partition, OffsetAt::Latest)))
                    }
                    Err(_) => return Err(place.timeout()),
                }
            }
            if open.is_empty() {
                // Several timestamps of one partition have one end each: they are in different calls.
                let (indexes, ends): (Vec<usize>, Vec<_>) = std::mem::take(&mut ends).into_iter().unzip();
                open = distinct_partitions(&ends);
                for place in open.iter_mut().flatten() {
                    place.0 = indexes[place.0];
                }
            }
        }
        Ok(offsets)
    }

    /// Calls the coordinator of a group. A broker that has just started, or a new cluster, has none for a while.
    async fn group_call<T>(
        &self,
        group: &str,
        call: impl Fn(&Arc<Handle>, &CStr, Wake) -> Call,
        answer: impl Fn(&Call, Place<'_>) -> Option<GroupResult<T>>,
    ) -> Result<T, KafkaError> {
        let name = c_text(group, "group")?;
        let place = Place { access: Access::Group, group, ..self.settings.place("") };
        let deadline = time::Instant::now() + Duration::from_millis(admin::CALL_TIMEOUT_MS as u64);
        let mut unreachable = None;
        loop {
            let calls = self.calls()?;
            let mut guard =
                GroupCallGuard { calls: &self.calls, used: Arc::clone(&calls), is_answered: false };
            let call = call(calls.handle(), &name, wake(&calls.woken));
            let answered = calls.wait(place, || {
                let answer = answer(&call, place);
                guard.is_answered |= answer.is_some();
                answer
            });
            let error = match time::timeout_at(deadline, answered).await {
                Ok(Ok(GroupAnswer::Found(found))) => return Ok(found),
                Ok(Ok(GroupAnswer::NotReady(error))) => error,
                Ok(Err(error)) if error.kind() == &KafkaErrorKind::Unreachable => {
                    unreachable.insert(error).clone()
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(unreachable.unwrap_or_else(|| place.timeout())),
            };
            if time::Instant::now() >= deadline {
                return Err(error);
            }
            time::sleep(COORDINATOR_INTERVAL).await;
        }
    }
}

impl Settings {
    /// The properties that calls, consumers and producers share.
    fn properties(&self) -> Result<Properties, KafkaError> {
        let mut properties = Properties::new();
        // These precede the user's, which may change them.
        properties.set("reconnect.backoff.max.ms", "2000")?;
        properties.set("socket.keepalive.enable", "true")?;
        for (name, value) in self.config.client_properties()? {
            properties.set(&name, &value)?;
        }
        let files = [
            ("ca_file", &self.config.ca_file),
            ("certificate_file", &self.config.certificate_file),
            ("key_file", &self.config.key_file),
        ];
        for (setting, file) in files {
            // librdkafka's own error has no reason.
            if let Some(file) = file
                && let Err(error) = File::open(file)
            {
                return Err(unreadable(setting, file, &format!("cannot be read: {error}")));
            }
        }
        if let Some(file) = &self.config.password_file {
            properties.set("sasl.password", &password(file)?)?;
        }
        Ok(properties)
    }

    fn callbacks(&self) -> Callbacks {
        Callbacks::new(self.config.token_file.clone(), Arc::clone(&self.clock))
    }

    fn place<'p>(&'p self, topic: &'p str) -> Place<'p> {
        Place { brokers: &self.config.brokers, topic, ..Place::default() }
    }
}

fn wake(woken: &Arc<Notify>) -> Wake {
    let woken = Arc::clone(woken);
    Box::new(move || woken.notify_waiters())
}

/// The error of a file that a setting names.
fn unreadable(setting: &str, file: &Path, reason: &str) -> KafkaError {
    configuration(format!("`{setting}`: the file `{}` {reason}", file.display()))
}

/// The password in a file.
fn password(file: &Path) -> Result<String, KafkaError> {
    let unreadable = |reason: String| unreadable("password_file", file, &reason);
    let bytes =
        std::fs::metadata(file).map_err(|error| unreadable(format!("cannot be read: {error}")))?.len();
    if bytes > PASSWORD_BYTES_MAX {
        return Err(unreadable(format!("has {bytes} bytes, at most are {PASSWORD_BYTES_MAX}")));
    }
    let text =
        std::fs::read_to_string(file).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        return Err(unreadable("is empty".to_owned()));
    }
    Ok(password.to_owned())
}

impl Calls {
    fn handle(&self) -> &Arc<Handle> {
        self.handle.as_ref().expect("only a client that is dropped has none")
    }

    /// Waits for an answer, and runs the client's callbacks meanwhile. Fails early if the identity is refused, and after a
    /// while if no broker is reached.
    async fn wait<T>(
        &self,
        place: Place<'_>,
        mut answer: impl FnMut() -> Option<Result<T, KafkaError>>,
    ) -> Result<T, KafkaError> {
        let connect_deadline = time::Instant::now() + CONNECT_TIMEOUT;
        let deadline = time::Instant::now() + Duration::from_millis(admin::CALL_TIMEOUT_MS as u64 + 1000);
        let mut unreachable = None;
        loop {
            // Registered before the checks, so that no wake is lost.
            let woken = self.woken.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            self.handle().serve_callbacks();
            for error in self.handle().take_errors() {
                if error.code.is_unauthenticated() {
                    return Err(place.error(error.code, &error.text));
                }
                // That all are down says less than the reason why one is.
                let adds_reason = error.code != Code::ALL_BROKERS_DOWN || unreachable.is_none();
                if error.code.is_unreachable() && adds_reason {
                    unreachable = Some(place.error(error.code, &error.text));
                }
            }
            if let Some(answer) = answer() {
                return answer;
            }
            let until = if unreachable.is_some() { connect_deadline.min(deadline) } else { deadline };
            if time::timeout_at(until, woken).await.is_err() {
                return Err(unreachable.unwrap_or_else(|| place.timeout()));
            }
        }
    }
}

/// Places of which no two are of one partition, with their places in the request.
fn distinct_partitions(places: &[(u32, OffsetAt)]) -> Vec<Vec<(usize, (u32, OffsetAt))>> {
    let mut calls: Vec<Vec<(usize, (u32, OffsetAt))>> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let free = calls.iter_mut().find(|call| call.iter().all(|(_, (partition, _))| *partition != place.0));
        match free {
            Some(call) => call.push((index, *place)),
            None => calls.push(vec![(index, *place)]),
        }
    }
    calls
}

#[async_trait]
impl Kafka for Client {
    async fn topic(&self, name: &str) -> Result<Topic, KafkaError> {
        self.new_topics.call(name, || self.describe(name)).await
    }

    async fn offsets(&self, topic: &str, places: &[(u32, OffsetAt)]) -> Result<Vec<u64>, KafkaError> {
        self.new_topics.call(topic, || self.find_offsets(topic, places)).await
    }

    async fn create_topic(
        &self,
        name: &str,
        partitions: u32,
        properties: &[(&str, &str)],
    ) -> Result<(), KafkaError> {
        let calls = self.calls()?;
        let call = Call::create(calls.handle(), name, partitions, properties, wake(&calls.woken))?;
        let place = Place { access: Access::Create, ..self.settings.place(name) };
        calls.wait(place, || call.created(place)).await?;
        // Any other error of these calls, such as a missing right, is not one of this call: the topic was made.
        self.new_topics.insert(name);
        self.topic(name).await.ok();
        Ok(())
    }

    fn consumer(&self, topic: &str, options: &ConsumerOptions) -> Result<Box<dyn Consumer>, KafkaError> {
        if options.group.is_empty() {
            return Err(configuration("`group` is empty")
                .with_hint("Name the consumer group that the offsets are committed to."));
        }
        let shares = self.settings.config.memory_shares(options.shares);
        let mut properties = self.settings.properties()?;
        let isolation = match options.isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let own = [
            ("group.id", options.group.clone()),
            ("enable.auto.commit", "false".to_owned()),
            ("enable.auto.offset.store", "false".to_owned()),
            ("auto.offset.reset", "error".to_owned()),
            ("enable.partition.eof", "true".to_owned()),
            ("check.crcs", "true".to_owned()),
            ("isolation.level", isolation.to_owned()),
            ("queued.max.messages.kbytes", shares.queue_kbytes.to_string()),
            ("queued.min.messages", shares.queue_messages.to_string()),
            ("fetch.max.bytes", shares.response_bytes.to_string()),
            ("fetch.message.max.bytes", shares.partition_bytes.to_string()),
            // The default of 1 s is the latency after the queue was full.
            ("fetch.queue.backoff.ms", "5".to_owned()),
        ];
        for (name, value) in &own {
            properties.set(name, value)?;
        }
        let names = FetcherNames {
            topic: topic.into(),
            topic_c: c_text(topic, "topic")?,
            brokers: self.settings.config.brokers.as_str().into(),
            group: options.group.as_str().into(),
        };
        let handle = Arc::new(Handle::new(HandleKind::Consumer, properties, self.settings.callbacks())?);
        let shared = Arc::new(Shared::new(shares.caller_bytes));
        let fetcher = Fetcher::new(&shared, &handle, names, options.isolation);
        // The thread's own share is the last one, so that the client ends there and not in the caller.
        drop(handle);
        let spawned = thread::Builder::new().name(format!("kafka {topic}")).spawn(move || fetcher.run());
        spawned.map_err(|error| {
            configuration(format!("the thread of a consumer of `{topic}` does not start: {error}"))
        })?;
        Ok(Box::new(ClientConsumer::new(shared, topic)))
    }

    fn producer(&self, options: &ProducerOptions) -> Result<Box<dyn Producer>, KafkaError> {
        Ok(Box::new(ClientProducer::new(self.clone(), options.clone())))
    }

    fn member(&self, options: &MemberOptions) -> Result<Box<dyn GroupMember>, KafkaError> {
        Ok(Box::new(ClientMember::new(self, options)?))
    }

    async fn group(&self, group: &str) -> Result<Vec<MemberDescription>, KafkaError> {
        self.group_call(group, Call::group, Call::members).await
    }

    async fn group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<CommittedOffset>>, KafkaError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        for partition in partitions {
            c_text(&partition.topic, "topic")?;
        }
        let mut distinct = partitions.to_vec();
        distinct.sort();
        distinct.dedup();
        let call = |handle: &Arc<Handle>, name: &CStr, wake| Call::committed(handle, name, &distinct, wake);
        let found = self.group_call(group, call, Call::committed_offsets).await?;
        let found: HashMap<TopicPartition, CommittedOffset> = found.into_iter().collect();
        Ok(partitions.iter().map(|partition| found.get(partition).cloned()).collect())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // Ending librdkafka's threads may take a moment, for which an asynchronous caller must not wait. If no thread can be
        // started, the value is dropped here, and the caller waits.
        let parts = (self.callbacks.take(), self.handle.take());
        let _ = thread::Builder::new().name("kafka-close".to_owned()).spawn(move || drop(parts));
    }
}

impl Drop for GroupCallGuard<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Other calls that use it have their answer before it ends.
        calls.take_if(|calls| Arc::ptr_eq(calls, &self.used));
    }
}
