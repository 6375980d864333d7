//! Emits on their way to one reader: bounded, with a stated loss when it is full.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use swiftwater_event::StreamName;
use swiftwater_live::SketchMeta;
use tokio::sync::Notify;

use crate::{
    Counts, Emit, EmitMeta, EndReason, EngineConfig, Finished, QueryMeta, Records, SlowReader, StreamMeta,
    WindowMeta, limits::Full,
};

/// An emit on its way: what all emits of a query have in common is added when it is read, and what few have is apart, for
/// most are one small record.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) records: Records,
    pub(crate) number: u64,
    /// The stream as it stood, as in [`StreamMeta`].
    pub(crate) position: u64,
    pub(crate) lag_ms: u64,
    pub(crate) sample: Option<f64>,
    pub(crate) counts: Counts,
    pub(crate) rest: Option<Box<EmitRest>>,
}

/// What of an emit's meta most emits have not.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EmitRest {
    pub(crate) finished: Option<Finished>,
    pub(crate) window: Option<WindowMeta>,
    pub(crate) sketches: Vec<SketchMeta>,
    pub(crate) inner_sketches: Option<Vec<SketchMeta>>,
    pub(crate) failure: Option<Box<str>>,
    pub(crate) warnings: Vec<String>,
}

/// A queue of emits between a query and its reader.
#[derive(Debug, Default)]
pub(crate) struct SubscriberQueue {
    state: Mutex<MailboxState>,
    /// Made by the first reader that waits: most queries have none most of the time.
    for_tasks: OnceLock<Box<Notify>>,
    for_threads: Condvar,
}

#[derive(Debug, Default)]
struct MailboxState {
    /// Made with the first emit.
    queue: Option<Box<Queue>>,
    /// Whether emits that were read are kept.
    keeps: bool,
    /// What of a query that was there before the server started is still to be told.
    resumed: Option<Box<Resumed>>,
    /// Records lost so far.
    dropped: u64,
    /// The last emit was put in.
    is_closed: bool,
    is_attached: bool,
    /// The newest reader, whether it is still attached or not.
    reader: Reader,
    /// Threads that wait in `for_threads`.
    waiting_threads: u32,
}

/// One reader of a mailbox. A newer reader takes over: the older one then finds no further emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reader(u32);

/// How emits are numbered of which a reader may ask for those after a number, also when they are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Each has the next number.
    Emits,
    /// An emit has the number of its last record: which records come together is a matter of chance.
    Records,
}

impl Numbering {
    /// How many numbers an emit of so many records takes.
    fn width(self, records: u64) -> u64 {
        match self {
            Numbering::Emits => 1,
            Numbering::Records => records.max(1),
        }
    }
}

/// Up to where a query's emits need not be kept, and up to where they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Frontier {
    /// Emits up to this number cannot be asked for any more.
    pub(crate) gone: u64,
    /// Those up to this number were read, or lost.
    pub(crate) read: u64,
    /// Records lost so far.
    pub(crate) dropped: u64,
}

/// A query whose emits may be made again.
#[derive(Debug)]
struct Resumed {
    numbering: Numbering,
    frontier: Frontier,
    /// The number of the last emit that was put in.
    last: u64,
    /// The reader has what comes up to this number.
    has_up_to: u64,
}

impl Numbering {
    /// Of emits that were read, so many can be asked for again after a restart.
    fn read_again(self) -> usize {
        match self {
            Numbering::Emits => 8,
            Numbering::Records => 64,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    emits: VecDeque<Waiting>,
    /// Emits that were read and may be asked for again, because the connection that carried them broke.
    taken: VecDeque<Waiting>,
    /// Of both.
    bytes: usize,
}

/// What became of an emit that was put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It waits for the reader.
    Queued {
        /// Records lost for it.
        dropped: u64,
        /// What there was no room in, where these are the first that are lost.
        full: Option<Full>,
    },
    /// The reader is too slow, and its query is to be ended.
    CutOff(Full),
}

/// What an emit weighs in the queue, its records' text aside.
const EMIT_BYTES: usize = 256;

impl SubscriberQueue {
    /// Puts an emit in; the last one, with `finished`, always fits.
    pub(crate) fn put(&self, emit: Waiting, config: &EngineConfig, total_bytes: &AtomicU64) -> Delivery {
        let mut state = self.lock();
        if state.is_closed {
            return Delivery::Queued { dropped: 0, full: None };
        }
        let is_last = emit.finished().is_some();
        let Some(emit) = state.made_again(emit, total_bytes) else {
            // The last one is put in, whoever has read it.
            return Delivery::Queued { dropped: 0, full: None };
        };
        let (mut dropped, mut full) = (0, None);
        let (is_attached, lost_before) = (state.is_attached, state.dropped);
        // Mostly one waits: of very many queries none has room for more before more do.
        let queue = state
            .queue
            .get_or_insert_with(|| Box::new(Queue { emits: VecDeque::with_capacity(1), ..Queue::default() }));
        let (all_bytes, all_max) = (total_bytes.load(Ordering::Relaxed), config.subscribers_bytes_max as u64);
        let bytes_max = if all_bytes > all_max { 0 } else { config.subscriber_bytes_max };
        while !(queue.emits.is_empty() && queue.taken.is_empty())
            && (queue.bytes + emit.bytes() > bytes_max
                || queue.emits.len() + queue.taken.len() >= config.subscriber_emits_max)
        {
            if let Some(oldest) = queue.taken.pop_front() {
                queue.bytes -= oldest.bytes();
                total_bytes.fetch_sub(oldest.bytes() as u64, Ordering::Relaxed);
                continue;
            }
            let (setting, held, limit) = if all_bytes > all_max {
                ("engine.subscribers_bytes_max", all_bytes, all_max)
            } else if queue.bytes + emit.bytes() > bytes_max {
                ("engine.subscriber_bytes_max", queue.bytes as u64, bytes_max as u64)
            } else {
                ("engine.subscriber_emits_max", queue.emits.len() as u64, config.subscriber_emits_max as u64)
            };
            let passed = Full { setting, held, limit };
            if config.slow_reader == SlowReader::CutOff && is_attached && !is_last {
                return Delivery::CutOff(passed);
            }
            full = full.or(Some(passed));
            if let Some(oldest) = queue.emits.pop_front() {
                queue.bytes -= oldest.bytes();
                total_bytes.fetch_sub(oldest.bytes() as u64, Ordering::Relaxed);
                dropped += oldest.records.count;
            }
        }
        queue.bytes += emit.bytes();
        total_bytes.fetch_add(emit.bytes() as u64, Ordering::Relaxed);
        queue.emits.push_back(emit);
        state.dropped += dropped;
        state.is_closed = is_last;
        let waiting_threads = state.waiting_threads;
        drop(state);
        // A reader makes it before it looks whether there is an emit: one that finds none has made it by now.
        if let Some(for_tasks) = self.for_tasks.get() {
            for_tasks.notify_waiters();
        }
        // To wake nobody costs a system call all the same.
        if waiting_threads > 0 {
            self.for_threads.notify_all();
        }
        Delivery::Queued { dropped, full: full.filter(|_| lost_before == 0 && dropped > 0) }
    }

    /// Whether a task has ever waited for it.
    pub(crate) fn has_tasks(&self) -> bool {
        self.for_tasks.get().is_some()
    }

    /// Counts records that are not put in at all: the next emit tells.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.lock().dropped += records;
    }

    /// Takes the next emit; the error says that there will be none for this reader.
    pub(crate) fn try_take(&self, reader: Reader, total_bytes: &AtomicU64) -> Result<Option<Waiting>, Over> {
        Self::take_from(&mut self.lock(), reader, total_bytes)
    }

    fn take_from(
        state: &mut MailboxState,
        reader: Reader,
        total_bytes: &AtomicU64,
    ) -> Result<Option<Waiting>, Over> {
        if state.reader != reader {
            return Err(Over);
        }
        let taken = state.queue.as_mut().and_then(|queue| Some((queue.emits.pop_front()?, queue)));
        let Some((mut emit, queue)) = taken else {
            return if state.is_closed { Err(Over) } else { Ok(None) };
        };
        if state.keeps {
            queue.taken.push_back(emit.clone());
        } else {
            queue.bytes -= emit.bytes();
            total_bytes.fetch_sub(emit.bytes() as u64, Ordering::Relaxed);
        }
        emit.counts.dropped = state.dropped;
        if queue.emits.is_empty() && queue.emits.capacity() > 64 {
            queue.emits.shrink_to(8);
        }
        Ok(Some(emit))
    }

    pub(crate) async fn take(&self, reader: Reader, total_bytes: &AtomicU64) -> Option<Waiting> {
        loop {
            let for_tasks = self.for_tasks.get_or_init(Box::default);
            let mut changed = std::pin::pin!(for_tasks.notified());
            changed.as_mut().enable();
            match self.try_take(reader, total_bytes) {
                Ok(Some(emit)) => return Some(emit),
                Err(Over) => return None,
                Ok(None) => changed.await,
            }
        }
    }

    pub(crate) fn take_blocking(&self, reader: Reader, total_bytes: &AtomicU64) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            match Self::take_from(&mut state, reader, total_bytes) {
                Ok(Some(emit)) => return Some(emit),
                Err(Over) => return None,
                Ok(None) => {
                    state.waiting_threads += 1;
                    state = self.for_threads.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting_threads -= 1;
                }
            }
        }
    }

    /// Makes the caller the one reader: one that was attached before finds no further emit. The reader gets what was not
    /// read, or what comes after the emit of a number.
    pub(crate) fn attach(&self, after: Option<u64>, total_bytes: &AtomicU64) -> Reader {
        let mut state = self.lock();
        state.reader = Reader(state.reader.0.wrapping_add(1));
        let reader = state.reader;
        let replaces = std::mem::replace(&mut state.is_attached, true);
        if let Some(after) = after {
            state.go_back_to(after, total_bytes);
        }
        drop(state);
        if replaces {
            self.wake_readers();
        }
        reader
    }

    fn wake_readers(&self) {
        if let Some(for_tasks) = self.for_tasks.get() {
            for_tasks.notify_waiters();
        }
        self.for_threads.notify_all();
    }

    /// Its emits may be made again: those that cannot be asked for any more are then not put in.
    pub(crate) fn resume(&self, numbering: Numbering, frontier: Frontier) {
        let mut state = self.lock();
        state.dropped = frontier.dropped;
        state.resumed = Some(Box::new(Resumed { numbering, frontier, last: 0, has_up_to: 0 }));
    }

    /// How far its reader is.
    pub(crate) fn frontier(&self) -> Frontier {
        self.lock().frontier()
    }

    /// Ends what a reader waits for without a last emit: the query goes on without this server.
    pub(crate) fn leave_off(&self) {
        self.lock().is_closed = true;
        self.wake_readers();
    }

    /// From now on keeps what is read, until it is pushed out.
    pub(crate) fn keep(&self) {
        self.lock().keeps = true;
    }

    /// The reader leaves. Answers whether it was the newest: of an older one nothing is left to release.
    pub(crate) fn release(&self, reader: Reader) -> bool {
        let mut state = self.lock();
        let is_newest = state.reader == reader;
        if is_newest {
            state.is_attached = false;
        }
        is_newest
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.lock().is_attached
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Whether nobody will ask again: the last emit was read, and it says that the query was killed. Who has a query
    /// killed wants no more of it than that; any other end may reach the reader over a connection that breaks.
    pub(crate) fn is_done_with(&self) -> bool {
        let state = self.lock();
        let Some(queue) = &state.queue else { return false };
        let last = queue.taken.back().and_then(Waiting::finished);
        queue.emits.is_empty() && last.is_some_and(|finished| finished.reason == EndReason::Killed)
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws away what waits, for a query whose reader is gone for good.
    pub(crate) fn clear(&self, total_bytes: &AtomicU64) {
        let mut state = self.lock();
        let bytes = state.queue.take().map_or(0, |queue| queue.bytes);
        total_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        state.is_closed = true;
    }
}

impl MailboxState {
    /// Puts the emits after a number back in line, those up to it away.
    fn go_back_to(&mut self, after: u64, total_bytes: &AtomicU64) {
        let keeps = self.keeps;
        let numbering = self.resumed.as_ref().map(|resumed| resumed.numbering);
        if let Some(resumed) = &mut self.resumed {
            // That it has this may have been written down nowhere before what is made again was gone.
            resumed.has_up_to = after;
        }
        let Some(queue) = &mut self.queue else { return };
        while let Some(emit) = queue.taken.pop_back_if(|emit| emit.number > after) {
            queue.emits.push_front(emit);
        }
        while keeps && let Some(emit) = queue.emits.pop_front_if(|emit| emit.number <= after) {
            queue.taken.push_back(emit);
        }
        if numbering == Some(Numbering::Records)
            && let Some(first) = queue.emits.front_mut()
        {
            let before = first.bytes();
            first.cut_up_to(after);
            queue.bytes -= before - first.bytes();
            total_bytes.fetch_sub((before - first.bytes()) as u64, Ordering::Relaxed);
        }
    }

    fn frontier(&self) -> Frontier {
        let Some(resumed) = &self.resumed else { return Frontier::default() };
        let before =
            |emit: &Waiting| emit.number - resumed.numbering.width(emit.records.count).min(emit.number);
        let (taken, unread) = match &self.queue {
            None => (None, None),
            Some(queue) => {
                let again = queue.taken.len().saturating_sub(resumed.numbering.read_again());
                (queue.taken.get(again).map(before), queue.emits.front().map(before))
            }
        };
        let read = unread.unwrap_or(resumed.last).max(resumed.frontier.read);
        // Until all is made again that was there, what is to come is not known.
        let gone = match resumed.last < resumed.frontier.read {
            true => resumed.frontier.gone,
            false => taken.unwrap_or(read).min(read),
        };
        Frontier { gone: gone.max(resumed.frontier.gone), read, dropped: self.dropped }
    }

    /// What of an emit is to be put in for the reader: what was gone is left out, and what was read before is put among
    /// what was read.
    fn made_again(&mut self, mut emit: Waiting, total_bytes: &AtomicU64) -> Option<Waiting> {
        let Some(resumed) = &mut self.resumed else { return Some(emit) };
        resumed.last = resumed.last.max(emit.number);
        let gone = resumed.frontier.gone;
        let read = resumed.frontier.read.max(resumed.has_up_to);
        let is_last = emit.finished().is_some();
        if emit.number <= gone && !is_last {
            return None;
        }
        if resumed.numbering == Numbering::Records {
            emit.cut_up_to(gone);
        }
        let first = emit.number - resumed.numbering.width(emit.records.count).min(emit.number);
        if first >= read || is_last && emit.number <= read {
            return Some(emit);
        }
        let (again, rest) = match emit.number <= read {
            true => (emit, None),
            // An emit of records that were read and such that were not.
            false => {
                let mut again = emit.clone();
                again.records = again.records.first(read - first);
                again.number = read;
                again.rest = None;
                emit.cut_up_to(read);
                (again, Some(emit))
            }
        };
        total_bytes.fetch_add(again.bytes() as u64, Ordering::Relaxed);
        let queue = self.queue.get_or_insert_default();
        queue.bytes += again.bytes();
        queue.taken.push_back(again);
        rest
    }
}

/// There will be no further emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl Waiting {
    fn finished(&self) -> Option<&Finished> {
        self.rest.as_ref()?.finished.as_ref()
    }

    /// It whole, for its reader.
    pub(crate) fn into_emit(self, query: &Arc<QueryMeta>, stream: &StreamName) -> Emit {
        let EmitRest { finished, window, sketches, inner_sketches, failure, warnings } =
            self.rest.map_or_else(EmitRest::default, |rest| *rest);
        Emit {
            records: self.records,
            meta: EmitMeta {
                query: Arc::clone(query),
                number: self.number,
                finished,
                window,
                stream: StreamMeta {
                    name: stream.clone(),
                    position: self.position,
                    lag_ms: self.lag_ms,
                    sample: self.sample,
                },
                counts: self.counts,
                sketches,
                inner_sketches,
                failure,
                warnings,
            },
        }
    }

    fn bytes(&self) -> usize {
        self.records.text.len() + EMIT_BYTES
    }

    /// Leaves out the records up to this number, of an emit that has the number of its last record.
    fn cut_up_to(&mut self, number: u64) {
        let before = self.number - self.records.count.min(self.number);
        if number > before {
            let all = self.records.count;
            let left = self.records.first(number - before);
            self.records.text = self.records.text.slice(left.text.len()..);
            self.records.count = all - left.count;
        }
    }
}
