//! A producer: messages are queued in librdkafka, and its calls block until the brokers have them.
//!
//! A connection moves to a thread for each call, and back if it succeeds. Where the caller has gone meanwhile,
//! the call ends within [`STEP_MS`], and the connection with it. The sizes of messages are checked before they are sent:
//! librdkafka neither tells which message of a batch was too large, nor goes on with a transaction after it.

use std::{
    collections::HashMap,
    ffi::{CString, c_int, c_void},
    fmt::{self, Debug},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use rdkafka_sys as sys;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Client, Settings,
    errors::{Access, Code, Place},
    native::{Handle, HandleKind, c_text, text_at},
};
use crate::{
    KafkaError, KafkaErrorKind, MessagePosition, NewMessage, Partitioner, Producer, ProducerOptions,
    SendError, connection::configuration,
};

/// The time that a message has to reach all replicas, connecting included.
const MESSAGE_TIMEOUT_MS: u64 = 30_000;

/// The time after which the brokers abort a transaction.
const TRANSACTION_TIMEOUT_MS: u64 = 60_000;

/// The time of one blocking call of librdkafka at most. Those that take longer are continued by the next call.
const STEP_MS: c_int = 200;

/// The partition of a message for which the partitioner chooses one.
const ANY_PARTITION: i32 = -1;

/// The time of an attempt to abort the transaction of a producer that ends.
const ABORT_MS: c_int = 2_000;

/// The largest batch, unless a topic accepts less.
const BATCH_BYTES_MAX: usize = 1_000_000;

/// The largest message that is sent at all; the topic's own limit is usually smaller.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// A producer of librdkafka.
pub(super) struct ClientProducer {
    client: Client,
    options: ProducerOptions,
    /// The largest batch that each topic accepts.
    limits: HashMap<Arc<str>, usize>,
    /// None before it is open, while it is at work, and after a call that was cancelled.
    connection: Option<Connection>,
    /// The caller has gone.
    ended: Arc<AtomicBool>,
}

struct Connection {
    settings: Settings,
    transactional_id: Option<String>,
    /// None while it is dropped.
    handle: Option<Handle>,
    /// A transaction has begun, and its commit has not.
    is_open: AtomicBool,
    ended: Arc<AtomicBool>,
}

impl Debug for ClientProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientProducer").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for ClientProducer {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

/// Aborts an open transaction, so that readers of its topics need not wait for its time to be over.
impl Drop for Connection {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let is_open = self.is_open.load(Relaxed);
        // Ending librdkafka's threads takes a moment, for which an asynchronous caller must not wait. If no thread can be
        // started, the handle is dropped here, and the caller waits.
        let _ = std::thread::Builder::new().name("kafka-close".to_owned()).spawn(move || {
            if is_open {
                // SAFETY: the handle is alive. What cannot be aborted in time is aborted by the brokers later.
                drop(call_error(unsafe { sys::rd_kafka_abort_transaction(handle.raw(), ABORT_MS) }));
            }
            drop(handle);
        });
    }
}

impl ClientProducer {
    pub(super) fn new(client: Client, options: ProducerOptions) -> ClientProducer {
        let (limits, ended) = (HashMap::new(), Arc::new(AtomicBool::new(false)));
        ClientProducer { client, options, limits, connection: None, ended }
    }

    /// Runs blocking calls in a thread of their own: those of the runtime are few, and for computation. Their connection is lost
    /// if the caller does not wait for the end.
    async fn run<T, E>(&self, calls: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<KafkaError> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let thread = std::thread::Builder::new().name("kafka-producer".to_owned());
        // Nobody waits for the result of a call that was cancelled.
        let spawned = thread.spawn(move || drop(done.send(calls())));
        spawned
            .map_err(|error| configuration(format!("the thread of a producer does not start: {error}")))?;
        let guard = CancelGuard(Some(&self.ended));
        let result = result.await;
        guard.disarm();
        result.unwrap_or_else(|_| Err(ended().into()))
    }
}

fn ended() -> KafkaError {
    KafkaError::new(KafkaErrorKind::Other, "the producer has ended")
}

/// Tells the calls that their caller has gone, if it is dropped before they have ended.
struct CancelGuard<'c>(Option<&'c AtomicBool>);

impl CancelGuard<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(ended) = self.0 {
            ended.store(true, Relaxed);
        }
    }
}

#[async_trait]
impl Producer for ClientProducer {
    async fn open(&mut self) -> Result<(), KafkaError> {
        for topic in &self.options.topics {
            let limit = self.client.message_bytes_max(topic).await?;
            self.limits.insert(Arc::clone(topic), limit);
        }
        let limit = self.limits.values().copied().min();
        let (settings, options) = (self.client.settings.clone(), self.options.clone());
        let ended = Arc::clone(&self.ended);
        let opened = self.run(move || Connection::open(settings, options, limit, ended)).await;
        self.connection = Some(opened?);
        Ok(())
    }

    async fn send(&mut self, messages: &[NewMessage]) -> Result<Vec<MessagePosition>, SendError> {
        // A producer that failed, or was cancelled, has no connection any more.
        let connection = self.connection.take().ok_or_else(ended)?;
        let mut too_large = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            // Otherwise a broker might create it.
            let limit = self.limits.get(&message.topic).ok_or_else(|| {
                configuration(format!("the producer was not opened for topic `{}`", message.topic))
            })?;
            if message.batch_bytes() > *limit {
                too_large.push(index);
            }
        }
        if !too_large.is_empty() {
            self.connection = Some(connection);
            return Err(SendError::TooLarge(too_large));
        }
        let messages = messages.to_vec();
        let sent = self.run(move || connection.send(&messages).map(|written| (connection, written))).await;
        let (connection, written) = sent?;
        self.connection = Some(connection);
        Ok(written)
    }
}

/// An error of a call about transactions.
struct CallError {
    code: Code,
    text: String,
    /// The same call continues what this one began.
    is_retriable: bool,
    is_fatal: bool,
    /// The transaction has failed.
    requires_abort: bool,
}

/// The error of a call; none if it succeeded.
fn call_error(raw: *mut sys::rd_kafka_error_t) -> Option<CallError> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the error is alive until it is destroyed here, and its text is copied.
    unsafe {
        let error = CallError {
            code: Code(sys::rd_kafka_error_code(raw) as i32),
            text: text_at(sys::rd_kafka_error_string(raw)),
            is_retriable: sys::rd_kafka_error_is_retriable(raw) != 0,
            is_fatal: sys::rd_kafka_error_is_fatal(raw) != 0,
            requires_abort: sys::rd_kafka_error_txn_requires_abort(raw) != 0,
        };
        sys::rd_kafka_error_destroy(raw);
        Some(error)
    }
}

impl Connection {
    /// Connects. `limit`: the size of the largest batch that all topics accept.
    fn open(
        settings: Settings,
        options: ProducerOptions,
        limit: Option<usize>,
        ended: Arc<AtomicBool>,
    ) -> Result<Connection, KafkaError> {
        let mut properties = settings.properties()?;
        let shares = settings.config.memory_shares(1);
        let partitioner = match options.partitioner {
            Partitioner::Murmur2 => "murmur2_random",
            Partitioner::Crc32 => "consistent_random",
        };
        let batch_bytes = limit.unwrap_or(BATCH_BYTES_MAX).clamp(1, BATCH_BYTES_MAX);
        let mut own = vec![
            ("enable.idempotence", "true".to_owned()),
            // Unlike a consumer, a producer would let the broker make a topic that was deleted.
            ("allow.auto.create.topics", "false".to_owned()),
            ("acks", "all".to_owned()),
            ("message.timeout.ms", MESSAGE_TIMEOUT_MS.to_string()),
            ("message.max.bytes", MESSAGE_BYTES_MAX.to_string()),
            ("batch.size", batch_bytes.to_string()),
            ("queue.buffering.max.kbytes", shares.queue_kbytes.max(MESSAGE_BYTES_MAX / 1024).to_string()),
            ("queue.buffering.max.messages", shares.queue_messages.to_string()),
            ("partitioner", partitioner.to_owned()),
        ];
        if let Some(id) = &options.transactional_id {
            own.push(("transactional.id", id.clone()));
            own.push(("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS.to_string()));
        }
        for (name, value) in &own {
            properties.set(name, value)?;
        }
        let handle = Handle::new(HandleKind::Producer, properties, settings.callbacks())?;
        let connection = Connection {
            settings,
            transactional_id: options.transactional_id,
            handle: Some(handle),
            is_open: AtomicBool::new(false),
            ended,
        };
        if connection.transactional_id.is_some() {
            let init = |handle: &Handle| {
                // SAFETY: the handle is alive.
                unsafe { sys::rd_kafka_init_transactions(handle.raw(), STEP_MS) }
            };
            connection.until_done(init)?;
        }
        Ok(connection)
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("only a connection that is dropped has none")
    }

    fn place<'p>(&'p self, topic: &'p str) -> Place<'p> {
        Place {
            access: Access::Write,
            transactional_id: self.transactional_id.as_deref().unwrap_or_default(),
            ..self.settings.place(topic)
        }
    }

    /// The reason to give up before the time is over: the caller has gone, or the brokers refuse the client.
    fn check(&self, unreachable: &mut Option<KafkaError>) -> Result<(), KafkaError> {
        if self.ended.load(Relaxed) {
            return Err(ended());
        }
        for error in self.handle().take_errors() {
            let found = self.place("").error(error.code, &error.text);
            if error.code.is_unauthenticated() || matches!(found.kind(), KafkaErrorKind::Unauthorized { .. })
            {
                return Err(found);
            }
            // That all are down says less than the reason why one is.
            if error.code.is_unreachable() && (error.code != Code::ALL_BROKERS_DOWN || unreachable.is_none())
            {
                *unreachable = Some(found);
            }
        }
        Ok(())
    }

    /// Repeats a call about transactions until it has succeeded, or failed for good, or takes too long.
    fn until_done(&self, call: impl Fn(&Handle) -> *mut sys::rd_kafka_error_t) -> Result<(), KafkaError> {
        let handle = self.handle();
        let deadline = Instant::now() + Duration::from_millis(MESSAGE_TIMEOUT_MS);
        let mut unreachable = None;
        loop {
            let Some(error) = call_error(call(handle)) else { return Ok(()) };
            handle.serve_callbacks();
            self.check(&mut unreachable)?;
            let continues = (error.is_retriable || error.code == Code::TIMED_OUT) && !error.is_fatal;
            if !continues || Instant::now() >= deadline {
                return Err(unreachable.unwrap_or_else(|| self.place("").error(error.code, &error.text)));
            }
            if error.code != Code::TIMED_OUT {
                // It failed at once.
                // SAFETY: the handle is alive.
                unsafe { sys::rd_kafka_poll(handle.raw(), STEP_MS) };
            }
        }
    }

    /// Writes messages, in one transaction if there are any; their places.
    fn send(&self, messages: &[NewMessage]) -> Result<Vec<MessagePosition>, SendError> {
        let has_transaction = self.transactional_id.is_some();
        if has_transaction {
            // SAFETY: the handle is alive.
            let begun = call_error(unsafe { sys::rd_kafka_begin_transaction(self.handle().raw()) });
            if let Some(error) = begun {
                return Err(self.place("").error(error.code, &error.text).into());
            }
        }
        self.is_open.store(has_transaction, Relaxed);
        let written = match self.write(messages) {
            Ok(written) => written,
            Err(error) => return Err(self.transaction_failure().unwrap_or(error).into()),
        };
        self.is_open.store(false, Relaxed);
        if has_transaction {
            // SAFETY: the handle is alive during each call.
            self.until_done(|handle| unsafe { sys::rd_kafka_commit_transaction(handle.raw(), STEP_MS) })?;
        }
        Ok(written)
    }

    /// The reason why a transaction has failed; none if it has not. Reports of its messages say only that they were not sent.
    fn transaction_failure(&self) -> Option<KafkaError> {
        self.transactional_id.as_ref()?;
        // SAFETY: the handle is alive. No transaction can begin within another one: of one that has failed, the call returns the
        // reason.
        let error = call_error(unsafe { sys::rd_kafka_begin_transaction(self.handle().raw()) })?;
        (error.is_fatal || error.requires_abort).then(|| self.place("").error(error.code, &error.text))
    }

    /// Writes messages, and waits for the reports of all of them; their places. After an error the connection is of no further
    /// use.
    fn write(&self, messages: &[NewMessage]) -> Result<Vec<MessagePosition>, KafkaError> {
        let mut unreachable = None;
        let mut written = vec![None; messages.len()];
        let produced = self.produce_all(messages, &mut unreachable);
        // Each message has a report in the end: it is written, or its time is over.
        // SAFETY: the handle is alive.
        while Code(unsafe { sys::rd_kafka_flush(self.handle().raw(), STEP_MS) } as i32) != Code::NONE {
            self.check(&mut unreachable)?;
            self.take_places(messages, &mut written, &unreachable)?;
        }
        self.take_places(messages, &mut written, &unreachable)?;
        produced?;
        let places: Option<Vec<MessagePosition>> = written.into_iter().collect();
        places
            .ok_or_else(|| KafkaError::new(KafkaErrorKind::Other, "a message has no report of its delivery"))
    }

    /// Takes the places of messages from their reports, or the error of one.
    fn take_places(
        &self,
        messages: &[NewMessage],
        written: &mut [Option<MessagePosition>],
        unreachable: &Option<KafkaError>,
    ) -> Result<(), KafkaError> {
        for (index, report) in self.handle().take_reports() {
            match report {
                Ok(place) => written[index] = Some(place),
                Err(code) => return Err(self.failure(&messages[index], code, unreachable.clone())),
            }
        }
        Ok(())
    }

    /// The error of a message that was not written.
    fn failure(&self, message: &NewMessage, code: Code, unreachable: Option<KafkaError>) -> KafkaError {
        let error = self.place(&message.topic).error(code, "");
        match (error.kind(), unreachable) {
            (KafkaErrorKind::Unreachable, Some(reason)) => reason,
            _ => error,
        }
    }

    fn produce_all(
        &self,
        messages: &[NewMessage],
        unreachable: &mut Option<KafkaError>,
    ) -> Result<(), KafkaError> {
        let mut topic = (None, CString::default());
        for (index, message) in messages.iter().enumerate() {
            if topic.0 != Some(&message.topic) {
                topic = (Some(&message.topic), c_text(&message.topic, "topic")?);
            }
            loop {
                match produce(self.handle(), &topic.1, index, message) {
                    Code::NONE => break,
                    Code::QUEUE_FULL => {
                        // SAFETY: the handle is alive. It waits for reports, which make room.
                        unsafe { sys::rd_kafka_poll(self.handle().raw(), STEP_MS) };
                        self.check(unreachable)?;
                    }
                    code => return Err(self.place(&message.topic).error(code, "")),
                }
            }
        }
        Ok(())
    }
}

/// Puts one message into the queue of librdkafka, which copies it.
fn produce(handle: &Handle, topic: &CString, index: usize, message: &NewMessage) -> Code {
    let headers = headers(message);
    let part = |bytes: Option<&bytes::Bytes>| match bytes {
        // The address of no bytes is not null, which would be a null key or value.
        Some(bytes) if bytes.is_empty() => (c"".as_ptr().cast::<c_void>(), 0),
        Some(bytes) => (bytes.as_ptr().cast::<c_void>(), bytes.len()),
        None => (ptr::null(), 0),
    };
    let ((key, key_length), (value, value_length)) =
        (part(message.key.as_ref()), part(message.value.as_ref()));
    use sys::rd_kafka_vtype_t::*;
    // SAFETY: the arguments have the types that their kinds ask for, and the end is marked. The topic is a C string; key and
    // value have the stated lengths and are copied. The headers belong to the client if the call succeeds.
    let code = unsafe {
        sys::rd_kafka_producev(
            handle.raw(),
            RD_KAFKA_VTYPE_TOPIC,
            topic.as_ptr(),
            RD_KAFKA_VTYPE_PARTITION,
            message.partition.map_or(ANY_PARTITION, |partition| partition as i32),
            RD_KAFKA_VTYPE_MSGFLAGS,
            sys::RD_KAFKA_MSG_F_COPY,
            RD_KAFKA_VTYPE_KEY,
            key,
            key_length,
            RD_KAFKA_VTYPE_VALUE,
            value,
            value_length,
            RD_KAFKA_VTYPE_HEADERS,
            headers,
            RD_KAFKA_VTYPE_OPAQUE,
            ptr::without_provenance_mut::<c_void>(index),
            RD_KAFKA_VTYPE_END,
        )
    };
    let code = Code(code as i32);
    if code != Code::NONE && !headers.is_null() {
        // SAFETY: they are alive, and were not taken over.
        unsafe { sys::rd_kafka_headers_destroy(headers) };
    }
    code
}

/// The headers of a message; null if it has none.
fn headers(message: &NewMessage) -> *mut sys::rd_kafka_headers_t {
    if message.headers.is_empty() {
        return ptr::null_mut();
    }
    // SAFETY: it has no conditions.
    let headers = unsafe { sys::rd_kafka_headers_new(message.headers.len()) };
    for (name, value) in message.headers.iter() {
        // SAFETY: the list is alive, and copies both texts, whose lengths are stated.
        unsafe {
            sys::rd_kafka_header_add(
                headers,
                name.as_ptr().cast(),
                name.len() as isize,
                value.as_ptr().cast(),
                value.len() as isize,
            );
        }
    }
    headers
}
