//! Owned values of librdkafka: a handle with its callbacks, a queue, and a list of partitions.
//!
//! All `unsafe` code about lifetimes is here: a handle outlives its queues, and its callbacks outlive the handle.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::PathBuf,
    ptr, slice,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rdkafka_sys as sys;
use swiftwater_event::Clock;
use tracing::debug;

use super::errors::{Code, NativeError, start_error};
use crate::{KafkaError, MessagePosition, Timestamp, TopicPartition, connection::configuration};

/// Errors of a handle that wait to be read; more are dropped, as each comes again while its cause lasts.
const ERRORS_MAX: usize = 64;

/// The seconds after which a token file is read again: librdkafka asks at four fifths of a token's lifetime.
const TOKEN_REFRESH_SECONDS: i64 = 60;

const TEXT_BYTES: usize = 512;

/// The facility of librdkafka's log for connections that have failed or were closed.
const CONNECTION_FAILED: &str = "FAIL";

/// The text in a buffer that librdkafka has filled.
pub(super) fn text_in(buffer: &[c_char]) -> String {
    // SAFETY: librdkafka ends its texts with a zero inside the buffer, which is all zeros at first.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

/// A text of librdkafka.
///
/// # Safety
///
/// `text` is null or a C string.
pub(super) unsafe fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A text for librdkafka; an error if it has a zero byte.
pub(super) fn c_text(text: &str, name: &str) -> Result<CString, KafkaError> {
    CString::new(text).map_err(|_| configuration(format!("`{name}` has a zero byte")))
}

/// Client properties that are checked and not in use yet.
pub(super) struct Properties {
    raw: *mut sys::rd_kafka_conf_t,
}

impl Properties {
    pub(super) fn new() -> Properties {
        // SAFETY: it has no conditions.
        Properties { raw: unsafe { sys::rd_kafka_conf_new() } }
    }

    /// Sets a property. The error has librdkafka's reason, and never the value.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), KafkaError> {
        let (c_name, c_value) = (c_text(name, "properties")?, c_text(value, name)?);
        let mut reason = [0; TEXT_BYTES];
        // SAFETY: the texts are C strings, and the buffer has the stated length.
        let result = unsafe {
            sys::rd_kafka_conf_set(
                self.raw,
                c_name.as_ptr(),
                c_value.as_ptr(),
                reason.as_mut_ptr(),
                TEXT_BYTES,
            )
        };
        if result == sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
            return Ok(());
        }
        let reason = text_in(&reason);
        let reason = if value.is_empty() { reason } else { reason.replace(value, "(the value)") };
        Err(configuration(format!("the property `{name}` is refused by the Kafka client: {reason}"))
            .with_hint("The properties are those of librdkafka 2.12, in its CONFIGURATION.md."))
    }
}

impl Drop for Properties {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: no handle has taken it.
            unsafe { sys::rd_kafka_conf_destroy(self.raw) }
        }
    }
}

/// The outcome of a message that was produced: the value that was given with it, and its place or the code.
pub(super) type DeliveryReport = (usize, Result<MessagePosition, Code>);

/// The kind of a change of a member's partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RebalanceKind {
    Assigned,
    Revoked,
    /// Revoked, and perhaps another member's already.
    Lost,
}

/// A change of a member's partitions. The next one comes after it is confirmed: see [`Handle::confirm`].
pub(super) struct Rebalance {
    pub(super) kind: RebalanceKind,
    pub(super) partitions: Vec<TopicPartition>,
}

/// The receiver of a handle's callbacks.
pub(super) struct Callbacks {
    errors: Mutex<Vec<NativeError>>,
    /// The last failure of a connection in librdkafka's log; empty if there was none.
    connection_failure: Mutex<String>,
    /// At most one for each message that is produced.
    reports: Mutex<Vec<DeliveryReport>>,
    /// One at most, as the next one waits for its confirmation.
    rebalances: Mutex<Vec<Rebalance>>,
    /// Rebalances are confirmed at once, and not added.
    confirms_rebalances: AtomicBool,
    token_file: Option<PathBuf>,
    clock: Arc<dyn Clock>,
}

impl Callbacks {
    pub(super) fn new(token_file: Option<PathBuf>, clock: Arc<dyn Clock>) -> Callbacks {
        Callbacks {
            errors: Mutex::default(),
            connection_failure: Mutex::default(),
            reports: Mutex::default(),
            rebalances: Mutex::default(),
            confirms_rebalances: AtomicBool::new(false),
            token_file,
            clock,
        }
    }

    fn add_error(&self, error: NativeError) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < ERRORS_MAX {
            errors.push(error);
        }
    }

    /// The last failure of a connection. librdkafka reports only that all brokers are down when the broker closes a connection, as
    /// it does without the TLS or SASL that it expects.
    fn connection_failure(&self) -> Option<String> {
        let failure = self.connection_failure.lock().unwrap_or_else(PoisonError::into_inner);
        (!failure.is_empty()).then(|| failure.clone())
    }

    /// The token in the file, or the reason why there is none.
    fn token(&self) -> Result<CString, String> {
        let file = self.token_file.as_ref().ok_or("no `token_file` is set")?;
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("the file `{}` of the token cannot be read: {error}", file.display()))?;
        if text.trim().is_empty() {
            return Err(format!("the file `{}` of the token is empty", file.display()));
        }
        CString::new(text.trim())
            .map_err(|_| format!("the file `{}` of the token has a zero byte", file.display()))
    }
}

unsafe extern "C" fn on_error(
    _: *mut sys::rd_kafka_t,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is the `Callbacks` of the handle, which outlives it.
    let (callbacks, text) = unsafe { (&*opaque.cast::<Callbacks>(), text_at(reason)) };
    let code = Code(code).refined_by(&text);
    let text = match code {
        Code::ALL_BROKERS_DOWN => callbacks.connection_failure().unwrap_or(text),
        _ => text,
    };
    callbacks.add_error(NativeError { code, text, partition: None });
}

unsafe extern "C" fn on_commit(
    _: *mut sys::rd_kafka_t,
    code: sys::rd_kafka_resp_err_t,
    partitions: *mut sys::rd_kafka_topic_partition_list_t,
    opaque: *mut c_void,
) {
    let mut code = Code(code as i32);
    if code == Code::NONE {
        // SAFETY: the list is null or alive during the call.
        let failed = unsafe { elements(partitions) }.iter().map(|element| Code(element.err as i32));
        code = failed.into_iter().find(|code| *code != Code::NONE).unwrap_or(Code::NONE);
    }
    // At each rebalance, commits of the generation before may come too late; the successor begins at the commit before those.
    if code.is_of_former_generation() {
        tracing::debug!(code = code.0, "offsets are not committed: the members of the group have changed");
    } else if code != Code::NONE && code != Code::NO_OFFSET {
        // SAFETY: `opaque` is the `Callbacks` of the handle, which outlives it.
        let callbacks = unsafe { &*opaque.cast::<Callbacks>() };
        let text = format!("offsets are not committed: {}", code.text());
        callbacks.add_error(NativeError { code, text, partition: None });
    }
}

unsafe extern "C" fn on_rebalance(
    handle: *mut sys::rd_kafka_t,
    code: sys::rd_kafka_resp_err_t,
    partitions: *mut sys::rd_kafka_topic_partition_list_t,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is the `Callbacks` of the handle, which outlives it. The list is alive during the call.
    let (callbacks, partitions) = unsafe { (&*opaque.cast::<Callbacks>(), topic_partitions(partitions)) };
    let kind = if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
        RebalanceKind::Assigned
    // SAFETY: the handle is alive.
    } else if unsafe { sys::rd_kafka_assignment_lost(handle) } != 0 {
        RebalanceKind::Lost
    } else {
        RebalanceKind::Revoked
    };
    if callbacks.confirms_rebalances.load(Relaxed) {
        // SAFETY: the handle is alive.
        unsafe { confirm(handle, kind) };
    } else {
        let mut rebalances = callbacks.rebalances.lock().unwrap_or_else(PoisonError::into_inner);
        rebalances.push(Rebalance { kind, partitions });
    }
}

/// Confirms a rebalance, and gives librdkafka no partition to read.
///
/// # Safety
///
/// The handle is alive, and a member of a group.
unsafe fn confirm(handle: *mut sys::rd_kafka_t, kind: RebalanceKind) {
    let none = PartitionList::with_capacity(0);
    // SAFETY: handle and list are alive. An error is destroyed: librdkafka has logged it.
    unsafe {
        if text_at(sys::rd_kafka_rebalance_protocol(handle)) != "COOPERATIVE" {
            // A group that is no more, or was not joined again so far.
            let is_assigned = kind == RebalanceKind::Assigned;
            sys::rd_kafka_assign(handle, if is_assigned { none.raw() } else { ptr::null_mut() });
            return;
        }
        let error = match kind {
            RebalanceKind::Assigned => sys::rd_kafka_incremental_assign(handle, none.raw()),
            RebalanceKind::Revoked | RebalanceKind::Lost => {
                sys::rd_kafka_incremental_unassign(handle, none.raw())
            }
        };
        if !error.is_null() {
            sys::rd_kafka_error_destroy(error);
        }
    }
}

unsafe extern "C" fn on_delivery(
    _: *mut sys::rd_kafka_t,
    message: *const sys::rd_kafka_message_t,
    opaque: *mut c_void,
) {
    // SAFETY: the message is alive during the call; `opaque` is the `Callbacks` of the handle, which outlives it.
    let (callbacks, timestamp, message) =
        unsafe { (&*opaque.cast::<Callbacks>(), message_timestamp(message), &*message) };
    let report = match Code(message.err as i32) {
        Code::NONE => Ok(MessagePosition {
            partition: message.partition as u32,
            // Negative if the broker had the message already.
            offset: u64::try_from(message.offset).ok(),
            timestamp,
        }),
        code => Err(code),
    };
    let mut reports = callbacks.reports.lock().unwrap_or_else(PoisonError::into_inner);
    reports.push((message._private.addr(), report));
}

/// The timestamp of a message.
///
/// # Safety
///
/// The message is alive.
pub(super) unsafe fn message_timestamp(message: *const sys::rd_kafka_message_t) -> Timestamp {
    use sys::rd_kafka_timestamp_type_t::*;
    let mut kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: as promised by the caller.
    let millis = unsafe { sys::rd_kafka_message_timestamp(message, &raw mut kind) };
    match kind {
        RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::MISSING,
        RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::create(millis),
        RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::append(millis),
    }
}

unsafe extern "C" fn on_log(
    handle: *const sys::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    text: *const c_char,
) {
    // SAFETY: both are C strings.
    let (facility, text) = unsafe { (text_at(facility), text_at(text)) };
    if facility == CONNECTION_FAILED && !handle.is_null() {
        // SAFETY: the handle is alive, and its opaque pointer is the `Callbacks`, which outlive it.
        let callbacks = unsafe { &*sys::rd_kafka_opaque(handle).cast::<Callbacks>() };
        // The name of the thread precedes the text.
        let failure = text.split_once("]: ").map_or(text.as_str(), |(_, failure)| failure);
        *callbacks.connection_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure.to_owned();
    }
    // The errors among them come by `on_error`, too; closed connections do not.
    debug!(target: "kafka", level, facility, "{text}");
}

unsafe extern "C" fn on_token(handle: *mut sys::rd_kafka_t, _: *const c_char, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `Callbacks` of the handle, which outlives it.
    let callbacks = unsafe { &*opaque.cast::<Callbacks>() };
    let failure = match callbacks.token() {
        Ok(token) => {
            let until = callbacks.clock.now() + TOKEN_REFRESH_SECONDS * 1000 * 5 / 4;
            let mut reason = [0; TEXT_BYTES];
            // SAFETY: the token is a C string, there are no extensions, and the buffer has the stated length.
            let code = unsafe {
                sys::rd_kafka_oauthbearer_set_token(
                    handle,
                    token.as_ptr(),
                    until,
                    c"swiftwater".as_ptr(),
                    ptr::null_mut(),
                    0,
                    reason.as_mut_ptr(),
                    TEXT_BYTES,
                )
            };
            (Code(code as i32) != Code::NONE).then(|| format!("the token is refused: {}", text_in(&reason)))
        }
        Err(reason) => Some(reason),
    };
    let Some(failure) = failure else { return };
    if let Ok(reason) = CString::new(failure.clone()) {
        // SAFETY: the reason is a C string. The client asks again after 10 s.
        unsafe { sys::rd_kafka_oauthbearer_set_token_failure(handle, reason.as_ptr()) };
    }
    callbacks.add_error(NativeError { code: Code::AUTHENTICATION, text: failure, partition: None });
}

/// A client of librdkafka, with its threads and connections.
pub(super) struct Handle {
    raw: *mut sys::rd_kafka_t,
    /// The `Callbacks` that the client's opaque pointer names.
    callbacks: Box<Callbacks>,
}

// SAFETY: librdkafka's functions may be called by any thread, several at once.
unsafe impl Send for Handle {}
// SAFETY: as above; the callbacks are behind a lock.
unsafe impl Sync for Handle {}

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandleKind {
    /// It reads, and makes calls.
    Consumer,
    /// It is a member of a group, and does not read.
    Member,
    /// It writes.
    Producer,
}

impl Handle {
    /// A client. It connects when it has a reason to.
    pub(super) fn new(
        kind: HandleKind,
        mut properties: Properties,
        callbacks: Callbacks,
    ) -> Result<Handle, KafkaError> {
        let callbacks = Box::new(callbacks);
        let opaque: *const Callbacks = &raw const *callbacks;
        let mut reason = [0; TEXT_BYTES];
        // SAFETY: the callbacks are in a box that the handle owns, and outlive the client: see `drop`.
        let raw = unsafe {
            let conf = properties.raw;
            sys::rd_kafka_conf_set_opaque(conf, opaque.cast_mut().cast());
            sys::rd_kafka_conf_set_error_cb(conf, Some(on_error));
            sys::rd_kafka_conf_set_log_cb(conf, Some(on_log));
            let kind = match kind {
                HandleKind::Consumer | HandleKind::Member => {
                    sys::rd_kafka_conf_set_offset_commit_cb(conf, Some(on_commit));
                    if kind == HandleKind::Member {
                        sys::rd_kafka_conf_set_rebalance_cb(conf, Some(on_rebalance));
                    }
                    sys::rd_kafka_type_t::RD_KAFKA_CONSUMER
                }
                HandleKind::Producer => {
                    sys::rd_kafka_conf_set_dr_msg_cb(conf, Some(on_delivery));
                    sys::rd_kafka_type_t::RD_KAFKA_PRODUCER
                }
            };
            if callbacks.token_file.is_some() {
                sys::rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, Some(on_token));
            }
            sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), TEXT_BYTES)
        };
        if raw.is_null() {
            let reason = text_in(&reason);
            return Err(start_error(&reason));
        }
        // The client owns them now.
        properties.raw = ptr::null_mut();
        Ok(Handle { raw, callbacks })
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.raw
    }

    /// The errors since the last call.
    pub(super) fn take_errors(&self) -> Vec<NativeError> {
        std::mem::take(&mut *self.callbacks.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The outcomes of messages since the last call.
    pub(super) fn take_reports(&self) -> Vec<DeliveryReport> {
        std::mem::take(&mut *self.callbacks.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rebalances since the last call.
    pub(super) fn take_rebalances(&self) -> Vec<Rebalance> {
        std::mem::take(&mut *self.callbacks.rebalances.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Confirms a rebalance. librdkafka does not read what is assigned.
    pub(super) fn confirm(&self, kind: RebalanceKind) {
        // SAFETY: the handle is alive.
        unsafe { confirm(self.raw, kind) }
    }

    /// Confirms further rebalances at once.
    pub(super) fn confirm_all_rebalances(&self) {
        self.callbacks.confirms_rebalances.store(true, Relaxed);
    }

    /// The error that has ended the client, and its text.
    pub(super) fn fatal_error(&self) -> (Code, String) {
        let mut reason = [0; TEXT_BYTES];
        // SAFETY: the handle is alive, and the buffer has the stated length.
        let code = unsafe { sys::rd_kafka_fatal_error(self.raw, reason.as_mut_ptr(), TEXT_BYTES) };
        (Code(code as i32), text_in(&reason))
    }

    /// Runs the callbacks that wait, without waiting for more.
    pub(super) fn serve_callbacks(&self) {
        // SAFETY: the handle is alive.
        unsafe { sys::rd_kafka_poll(self.raw, 0) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no queue of it is alive: each borrows or shares the handle. It joins its threads, so no callback runs
        // after it.
        unsafe { sys::rd_kafka_destroy_flags(self.raw, sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE as c_int) }
    }
}

/// A function that runs when a queue gets its first item. It must not call librdkafka.
pub(super) type Wake = Box<dyn Fn() + Send + Sync>;

unsafe extern "C" fn on_ready(_: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: `opaque` is the `Wake` of the queue, which outlives the callback: see `Queue::drop`.
    let wake = unsafe { &*opaque.cast::<Wake>() };
    wake();
}

/// A queue of a client, which wakes its reader.
pub(super) struct Queue {
    raw: *mut sys::rd_kafka_queue_t,
    /// In a box of its own: the callback has its address.
    wake: Box<Wake>,
    handle: Arc<Handle>,
}

// SAFETY: queues may be used by any thread.
unsafe impl Send for Queue {}
// SAFETY: as above, several at once.
unsafe impl Sync for Queue {}

impl Queue {
    /// A new queue, for the results of calls.
    pub(super) fn new(handle: &Arc<Handle>, wake: Wake) -> Queue {
        // SAFETY: the handle is alive.
        Queue::from_raw(unsafe { sys::rd_kafka_queue_new(handle.raw) }, handle, wake)
    }

    /// The queue of the callbacks of a client without a consumer's queue.
    pub(super) fn main(handle: &Arc<Handle>, wake: Wake) -> Queue {
        // SAFETY: the handle is alive.
        Queue::from_raw(unsafe { sys::rd_kafka_queue_get_main(handle.raw) }, handle, wake)
    }

    /// The queue of messages, into which the callbacks of the client are forwarded.
    pub(super) fn consumer(handle: &Arc<Handle>, wake: Wake) -> Queue {
        // SAFETY: the handle is alive and has a group.
        let raw = unsafe {
            sys::rd_kafka_poll_set_consumer(handle.raw);
            sys::rd_kafka_queue_get_consumer(handle.raw)
        };
        Queue::from_raw(raw, handle, wake)
    }

    fn from_raw(raw: *mut sys::rd_kafka_queue_t, handle: &Arc<Handle>, wake: Wake) -> Queue {
        let queue = Queue { raw, wake: Box::new(wake), handle: Arc::clone(handle) };
        let opaque: *const Wake = &raw const *queue.wake;
        // SAFETY: the box outlives the callback, which `drop` switches off.
        unsafe { sys::rd_kafka_queue_cb_event_enable(raw, Some(on_ready), opaque.cast_mut().cast()) };
        queue
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.raw
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is alive. librdkafka calls back under the queue's lock, so no callback runs after it is
        // switched off.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.raw, None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.raw);
        }
    }
}

/// A list of partitions with offsets.
pub(super) struct PartitionList {
    raw: *mut sys::rd_kafka_topic_partition_list_t,
}

/// The partition of an element that is about a whole topic.
const WHOLE_TOPIC: i32 = -1;

impl PartitionList {
    fn with_capacity(elements: usize) -> PartitionList {
        // SAFETY: it has no conditions.
        PartitionList { raw: unsafe { sys::rd_kafka_topic_partition_list_new(elements as c_int) } }
    }

    /// Partitions of one topic.
    pub(super) fn new(topic: &CStr, partitions: impl IntoIterator<Item = (u32, i64)>) -> PartitionList {
        let mut list = PartitionList::with_capacity(4);
        for (partition, offset) in partitions {
            list.push(topic, partition as i32).offset = offset;
        }
        list
    }

    /// Whole topics. Their names have no zero bytes.
    pub(super) fn of_topics<'t>(topics: impl Iterator<Item = &'t str>) -> PartitionList {
        let mut list = PartitionList::with_capacity(4);
        for topic in topics.filter_map(|topic| CString::new(topic).ok()) {
            list.push(&topic, WHOLE_TOPIC);
        }
        list
    }

    /// Partitions with offsets and texts. Topics' names have no zero bytes.
    pub(super) fn of_offsets<'p>(
        offsets: impl Iterator<Item = (&'p TopicPartition, i64, &'p str)>,
    ) -> PartitionList {
        let mut list = PartitionList::with_capacity(4);
        for (partition, offset, text) in offsets {
            let Ok(topic) = CString::new(&*partition.topic) else { continue };
            let element = list.push(&topic, partition.partition as i32);
            element.offset = offset;
            if !text.is_empty() {
                // SAFETY: the memory has the text's length; the list frees it.
                unsafe {
                    element.metadata = sys::rd_kafka_mem_malloc(ptr::null_mut(), text.len());
                    ptr::copy_nonoverlapping(text.as_ptr(), element.metadata.cast(), text.len());
                    element.metadata_size = text.len();
                }
            }
        }
        list
    }

    fn push(&mut self, topic: &CStr, partition: i32) -> &mut sys::rd_kafka_topic_partition_t {
        // SAFETY: the list is alive, the topic is a C string that is copied, and the element is the list's until it grows.
        unsafe { &mut *sys::rd_kafka_topic_partition_list_add(self.raw, topic.as_ptr(), partition) }
    }

    pub(super) fn is_empty(&self) -> bool {
        // SAFETY: the list is alive.
        unsafe { (*self.raw).cnt == 0 }
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.raw
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: it is alive, and librdkafka copies what it is passed.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.raw) }
    }
}

/// The elements of a list.
///
/// # Safety
///
/// The list is null, or alive and not changed while the elements are used.
pub(super) unsafe fn elements<'l>(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> &'l [sys::rd_kafka_topic_partition_t] {
    // SAFETY: as promised by the caller.
    match unsafe { list.as_ref() } {
        // SAFETY: a list has so many elements.
        Some(list) if list.cnt > 0 => unsafe { slice::from_raw_parts(list.elems, list.cnt as usize) },
        _ => &[],
    }
}

/// The partitions of a list.
///
/// # Safety
///
/// As for [`elements`].
pub(super) unsafe fn topic_partitions(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> Vec<TopicPartition> {
    // SAFETY: as promised by the caller; topics are C strings.
    unsafe {
        let partition = |element: &sys::rd_kafka_topic_partition_t| {
            TopicPartition::new(text_at(element.topic), element.partition as u32)
        };
        elements(list).iter().map(partition).collect()
    }
}
