//! The thread of a consumer: it reads librdkafka's queue in batches while the caller's inbox has room, copies the messages
//! into batches of its own, and asks the broker for the bounds of partitions that lack an offset or make no progress.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::CString,
    ptr, slice,
    sync::Arc,
    time::Duration,
};

use rdkafka_sys as sys;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    admin::Call,
    consumer::{Assignment, News, Shared},
    errors::{Code, Place},
    native::{Handle, PartitionList, Queue, Wake, message_timestamp},
};
use crate::{
    Fetched, Isolation, KafkaError, MessageBatch, MessageBatchBuilder, OffsetAt, Timestamp,
    stall::StallDetector,
};

/// The messages that one read takes at most.
const READ_MESSAGES_MAX: usize = 4096;

/// The bytes after which a batch ends. One message may be larger.
const BATCH_BYTES: usize = 1 << 20;

/// The period in which an error of a partition is reported once.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// The errors whose last report is remembered; when there are more, all are forgotten and may be reported again.
const REPORTS_MAX: usize = 4096;

/// A partition that is assigned in librdkafka.
struct Position {
    assignment: u64,
    next: u64,
}

/// Calls for the bounds of a partition that lacks the wanted offset.
struct GapCalls {
    assignment: u64,
    wanted: u64,
    earliest: Call,
    latest: Call,
    first: Option<u64>,
    end: Option<u64>,
}

/// The thread's state.
pub(super) struct Fetcher {
    shared: Arc<Shared>,
    queue: Queue,
    topic: Box<str>,
    topic_c: CString,
    brokers: Box<str>,
    group: Box<str>,
    isolation: Isolation,
    positions: HashMap<u32, Position>,
    gaps: BTreeMap<u32, GapCalls>,
    stalls: StallDetector,
    stall_call: Option<Call>,
    reports: HashMap<(Option<u32>, Code), Instant>,
    /// The usual size of a message, by which a read is limited to the room in the inbox.
    message_bytes: usize,
    messages: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: the pointers in `messages` are used only during a read.
unsafe impl Send for Fetcher {}

/// The names that a fetcher reports in errors.
pub(super) struct FetcherNames {
    pub(super) topic: Box<str>,
    pub(super) topic_c: CString,
    pub(super) brokers: Box<str>,
    pub(super) group: Box<str>,
}

/// A message as librdkafka has it. It is destroyed when dropped.
struct NativeMessage(*mut sys::rd_kafka_message_t);

impl Drop for NativeMessage {
    fn drop(&mut self) {
        // SAFETY: it was returned by a read, and is destroyed once.
        unsafe { sys::rd_kafka_message_destroy(self.0) }
    }
}

impl NativeMessage {
    fn raw(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: it is alive.
        unsafe { &*self.0 }
    }

    fn code(&self) -> Code {
        Code(self.raw().err as i32)
    }

    fn partition(&self) -> u32 {
        self.raw().partition as u32
    }

    fn key(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: the key has the stated length; null if the message has none.
        (!raw.key.is_null()).then(|| unsafe { slice::from_raw_parts(raw.key.cast(), raw.key_len) })
    }

    fn value(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: the value has the stated length; null if the message has none.
        (!raw.payload.is_null()).then(|| unsafe { slice::from_raw_parts(raw.payload.cast(), raw.len) })
    }

    fn bytes(&self) -> usize {
        self.raw().key_len + self.raw().len
    }

    fn timestamp(&self) -> Timestamp {
        // SAFETY: the message is alive.
        unsafe { message_timestamp(self.0) }
    }

    /// The text of an error.
    fn error_text(&self) -> String {
        // SAFETY: the text of an error is its payload, which lives as long as the message.
        unsafe { super::native::text_at(sys::rd_kafka_message_errstr(self.0)) }
    }

    fn headers(&self) -> Headers<'_> {
        let mut raw = ptr::null_mut();
        // SAFETY: the message is alive, and its headers live as long as it does.
        let code = unsafe { sys::rd_kafka_message_headers(self.0, &raw mut raw) };
        let raw = if Code(code as i32) == Code::NONE { raw } else { ptr::null_mut() };
        Headers { raw, index: 0, message: self }
    }
}

/// The headers of a message, in order.
struct Headers<'m> {
    raw: *mut sys::rd_kafka_headers_t,
    index: usize,
    #[expect(dead_code, reason = "the headers live as long as the message")]
    message: &'m NativeMessage,
}

impl<'m> Iterator for Headers<'m> {
    type Item = (&'m [u8], Option<&'m [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.raw.is_null() {
            return None;
        }
        let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers are alive; a name is a C string, and a value has the stated length.
        unsafe {
            let code = sys::rd_kafka_header_get_all(
                self.raw,
                self.index,
                &raw mut name,
                &raw mut value,
                &raw mut bytes,
            );
            if Code(code as i32) != Code::NONE {
                return None;
            }
            self.index += 1;
            let name = std::ffi::CStr::from_ptr(name).to_bytes();
            Some((name, (!value.is_null()).then(|| slice::from_raw_parts(value.cast(), bytes))))
        }
    }
}

impl Fetcher {
    pub(super) fn new(
        shared: &Arc<Shared>,
        handle: &Arc<Handle>,
        names: FetcherNames,
        isolation: Isolation,
    ) -> Fetcher {
        let woken = Arc::clone(shared);
        let queue = Queue::consumer(handle, Box::new(move || woken.set_queue_ready()));
        let FetcherNames { topic, topic_c, brokers, group } = names;
        Fetcher {
            shared: Arc::clone(shared),
            queue,
            topic,
            topic_c,
            brokers,
            group,
            isolation,
            positions: HashMap::new(),
            gaps: BTreeMap::new(),
            stalls: StallDetector::default(),
            stall_call: None,
            reports: HashMap::new(),
            message_bytes: 1024,
            messages: vec![ptr::null_mut(); READ_MESSAGES_MAX],
        }
    }

    /// Reads until the consumer is dropped.
    pub(super) fn run(mut self) {
        while let Some(work) = self.shared.wait() {
            self.change(&work.changes);
            self.commit(&work.commits);
            if work.room_bytes == 0 {
                self.stalls.restart(Instant::now());
            } else if work.queue_ready {
                self.read(work.room_bytes);
            }
            if !self.report_errors() {
                break;
            }
            self.answer_gaps();
            self.check_stalls();
        }
    }

    fn place(&self) -> Place<'_> {
        Place { brokers: &self.brokers, topic: &self.topic, group: &self.group, ..Place::default() }
    }

    fn wake(&self) -> Wake {
        let shared = Arc::clone(&self.shared);
        Box::new(move || shared.set_calls_ready())
    }

    fn change(&mut self, changes: &BTreeMap<u32, Option<Assignment>>) {
        if changes.is_empty() {
            return;
        }
        let removed: Vec<u32> =
            changes.keys().filter(|partition| self.positions.contains_key(partition)).copied().collect();
        self.unassign(&removed);
        let mut added = Vec::new();
        for (partition, assignment) in changes {
            self.gaps.remove(partition);
            if let Some(Assignment { number, from }) = *assignment {
                self.positions.insert(*partition, Position { assignment: number, next: from });
                self.stalls.record(*partition, from, Instant::now());
                added.push((*partition, from));
            }
        }
        self.assign(&added);
    }

    fn unassign(&mut self, partitions: &[u32]) {
        if partitions.is_empty() {
            return;
        }
        let list = PartitionList::new(&self.topic_c, partitions.iter().map(|partition| (*partition, 0)));
        // SAFETY: handle and list are alive.
        let error = unsafe { sys::rd_kafka_incremental_unassign(self.queue.handle().raw(), list.raw()) };
        self.report_assignment(error);
        for partition in partitions {
            self.positions.remove(partition);
            self.stalls.remove(*partition);
        }
    }

    fn assign(&mut self, partitions: &[(u32, u64)]) {
        if partitions.is_empty() {
            return;
        }
        let offset = |from: u64| i64::try_from(from).unwrap_or(i64::MAX);
        let list = PartitionList::new(
            &self.topic_c,
            partitions.iter().map(|(partition, from)| (*partition, offset(*from))),
        );
        // SAFETY: handle and list are alive.
        let error = unsafe { sys::rd_kafka_incremental_assign(self.queue.handle().raw(), list.raw()) };
        self.report_assignment(error);
    }

    /// Reports the error of an assignment, and destroys it.
    fn report_assignment(&mut self, error: *mut sys::rd_kafka_error_t) {
        if error.is_null() {
            return;
        }
        // SAFETY: the error is owned, and its text is copied.
        let (code, text) = unsafe {
            let code = Code(sys::rd_kafka_error_code(error) as i32);
            let text = super::native::text_at(sys::rd_kafka_error_string(error));
            sys::rd_kafka_error_destroy(error);
            (code, text)
        };
        self.report(None, code, &text);
    }

    fn commit(&mut self, commits: &BTreeMap<u32, u64>) {
        if commits.is_empty() {
            return;
        }
        let list = PartitionList::new(
            &self.topic_c,
            commits.iter().map(|(partition, next)| (*partition, *next as i64)),
        );
        // SAFETY: handle and list are alive.
        let code = unsafe { sys::rd_kafka_commit(self.queue.handle().raw(), list.raw(), 1) };
        if Code(code as i32) != Code::NONE {
            self.report(None, Code(code as i32), "");
        }
    }

    /// Reports an error, unless it was reported in this period.
    fn report(&mut self, partition: Option<u32>, code: Code, text: &str) {
        let now = Instant::now();
        if self.reports.len() >= REPORTS_MAX {
            self.reports.clear();
        }
        // A broker that is away has several errors in turn; the first one has the reason.
        let kind = if code.is_unreachable() { Code::ALL_BROKERS_DOWN } else { code };
        let last = self.reports.get(&(partition, kind));
        if last.is_some_and(|last| now.saturating_duration_since(*last) < REPORT_PERIOD) {
            return;
        }
        self.reports.insert((partition, kind), now);
        let error = self.place().error(code, text);
        let assignment = partition.and_then(|partition| self.positions.get(&partition));
        let assignment = assignment.map_or(0, |position| position.assignment);
        self.shared.send([News { assignment, fetched: Fetched::Waiting { partition, error } }]);
    }

    /// Reports the errors of the client's callbacks; false if one ends the consumer.
    fn report_errors(&mut self) -> bool {
        for error in self.queue.handle().take_errors() {
            if error.code == Code::FATAL {
                self.shared.fail(self.place().error(error.code, &error.text));
                return false;
            }
            self.report(error.partition, error.code, &error.text);
        }
        true
    }

    /// Reads messages once, as many as the inbox takes.
    fn read(&mut self, room_bytes: usize) {
        let limit = (room_bytes / self.message_bytes).clamp(1, READ_MESSAGES_MAX);
        // SAFETY: the queue is alive, and the buffer has room for the limit. It does not wait.
        let count = unsafe {
            sys::rd_kafka_consume_batch_queue(self.queue.raw(), 0, self.messages.as_mut_ptr(), limit)
        };
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return;
        }
        // More may be there: the callback reports only the first message of an empty queue.
        self.shared.set_queue_ready();
        let messages: Vec<NativeMessage> =
            self.messages[..count].iter().map(|raw| NativeMessage(*raw)).collect();
        let bytes: usize = messages.iter().map(NativeMessage::bytes).sum();
        self.message_bytes = ((self.message_bytes * 3 + bytes / count) / 4).max(64);
        let mut news = Vec::new();
        let mut rest = &messages[..];
        while let Some(first) = rest.first() {
            if first.code() != Code::NONE {
                self.add_event(first, &mut news);
                rest = &rest[1..];
                continue;
            }
            let run = run_length(rest);
            news.extend(self.batch(&rest[..run]));
            rest = &rest[run..];
        }
        self.shared.send(news);
    }

    /// The messages of one run as a batch; `None` if the partition is not assigned, or has had them.
    fn batch(&mut self, run: &[NativeMessage]) -> Option<News> {
        let partition = run[0].partition();
        let position = self.positions.get_mut(&partition)?;
        let bytes = run.iter().map(NativeMessage::bytes).sum();
        let mut builder = MessageBatchBuilder::with_capacity(partition, run.len(), bytes);
        let mut next = position.next;
        for message in run {
            let offset = message.raw().offset as u64;
            if offset < next {
                continue;
            }
            builder.push(offset, message.timestamp(), message.key(), message.value(), message.headers());
            next = offset + 1;
        }
        position.next = next;
        let assignment = position.assignment;
        self.stalls.record(partition, next, Instant::now());
        if builder.is_empty() {
            return None;
        }
        let batch: MessageBatch = builder.finish(next);
        Some(News { assignment, fetched: Fetched::Messages(batch) })
    }

    /// Adds what the client reports about a partition beside its messages.
    fn add_event(&mut self, event: &NativeMessage, news: &mut Vec<News>) {
        let partition = event.partition();
        let Some(position) = self.positions.get_mut(&partition) else { return };
        let assignment = position.assignment;
        match event.code() {
            Code::PARTITION_EOF => {
                let next = (event.raw().offset as u64).max(position.next);
                position.next = next;
                self.stalls.record(partition, next, Instant::now());
                news.push(News { assignment, fetched: Fetched::End { partition, next } });
            }
            Code::AUTO_OFFSET_RESET => {
                let wanted = position.next;
                self.unassign(&[partition]);
                self.ask_bounds(partition, assignment, wanted);
            }
            code => {
                // Reported in order: what precedes it is sent first.
                self.shared.send(std::mem::take(news));
                self.report(Some(partition), code, &event.error_text());
            }
        }
    }

    fn ask_bounds(&mut self, partition: u32, assignment: u64, wanted: u64) {
        let ask = |place| {
            let places = [(partition, place)];
            Call::offsets(
                self.queue.handle(),
                &self.topic_c,
                &places,
                Isolation::ReadUncommitted,
                self.wake(),
            )
        };
        let (earliest, latest) = (ask(OffsetAt::Earliest), ask(OffsetAt::Latest));
        self.gaps
            .insert(partition, GapCalls { assignment, wanted, earliest, latest, first: None, end: None });
    }

    /// Reports the gaps whose bounds are there. Bounds that the broker did not return are asked for again.
    fn answer_gaps(&mut self) {
        let mut failures: Vec<(u32, u64, u64, KafkaError)> = Vec::new();
        let mut complete = Vec::new();
        let place =
            Place { brokers: &self.brokers, topic: &self.topic, group: &self.group, ..Place::default() };
        for (partition, gap) in &mut self.gaps {
            for (call, bound) in [(&gap.earliest, &mut gap.first), (&gap.latest, &mut gap.end)] {
                match call.partition_offsets(place) {
                    Some(Ok(offsets)) => *bound = offsets.first().map(|(_, offset)| (*offset).max(0) as u64),
                    Some(Err(error)) => failures.push((*partition, gap.assignment, gap.wanted, error)),
                    None => {}
                }
            }
            if let (Some(first), Some(end)) = (gap.first, gap.end) {
                complete.push(*partition);
                let fetched = Fetched::Gap { partition: *partition, wanted: gap.wanted, first, end };
                self.shared.send([News { assignment: gap.assignment, fetched }]);
            }
        }
        for partition in complete {
            self.gaps.remove(&partition);
        }
        // The broker has answered, or 15 s are over: asking again at once is no busy loop.
        for (partition, assignment, wanted, error) in failures {
            self.shared
                .send([News { assignment, fetched: Fetched::Waiting { partition: Some(partition), error } }]);
            self.ask_bounds(partition, assignment, wanted);
        }
    }

    /// Assigns partitions anew that have messages before their end and have returned none for a period.
    fn check_stalls(&mut self) {
        if let Some(call) = &self.stall_call {
            match call.partition_offsets(self.place()) {
                Some(Ok(ends)) => {
                    self.stall_call = None;
                    self.reassign_stalled(&ends);
                }
                Some(Err(error)) => {
                    info!(%error, topic = %self.topic, "the ends of idle partitions are unknown");
                    self.stall_call = None;
                }
                None => return,
            }
        }
        let due = self.stalls.due(Instant::now());
        if due.is_empty() {
            return;
        }
        let places: Vec<(u32, OffsetAt)> =
            due.into_iter().map(|partition| (partition, OffsetAt::Latest)).collect();
        let call = Call::offsets(self.queue.handle(), &self.topic_c, &places, self.isolation, self.wake());
        self.stall_call = Some(call);
    }

    fn reassign_stalled(&mut self, ends: &[(u32, i64)]) {
        for (partition, end) in ends {
            let end = (*end).max(0) as u64;
            let Some(from) = self.stalls.stalled_at(*partition, end) else { continue };
            let Some(assignment) = self.positions.get(partition).map(|position| position.assignment) else {
                continue;
            };
            warn!(topic = %self.topic, partition, from, end, "no messages arrive: the partition is assigned anew");
            self.unassign(&[*partition]);
            self.positions.insert(*partition, Position { assignment, next: from });
            self.stalls.record(*partition, from, Instant::now());
            self.assign(&[(*partition, from)]);
            self.shared.add_stall();
        }
    }
}

/// The number of messages at the start that belong into one batch: those of one partition, up to a size.
fn run_length(messages: &[NativeMessage]) -> usize {
    let partition = messages[0].partition();
    let mut bytes = 0;
    let mut length = 0;
    for message in messages {
        let is_same = message.code() == Code::NONE && message.partition() == partition;
        if !is_same || (length > 0 && bytes + message.bytes() > BATCH_BYTES) {
            break;
        }
        bytes += message.bytes();
        length += 1;
    }
    length
}
