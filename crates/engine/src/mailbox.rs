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
    WindowMeta,
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
pub(crate) struct Mailbox {
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
    /// Records lost so far.
    dropped: u64,
    /// The last emit was put in.
    is_closed: bool,
    is_attached: bool,
    /// Threads that wait in `for_threads`.
    waiting_threads: u32,
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
    },
    /// The reader is too slow, and its query is to be ended.
    CutOff,
}

/// What an emit weighs in the queue, its records' text aside.
const EMIT_BYTES: usize = 256;

impl Mailbox {
    /// Puts an emit in; the last one, with `finished`, always fits.
    pub(crate) fn put(&self, emit: Waiting, config: &EngineConfig, total_bytes: &AtomicU64) -> Delivery {
        let mut state = self.lock();
        if state.is_closed {
            return Delivery::Queued { dropped: 0 };
        }
        let is_last = emit.finished().is_some();
        let mut dropped = 0;
        let is_attached = state.is_attached;
        // Mostly one waits: of very many queries none has room for more before more do.
        let queue = state
            .queue
            .get_or_insert_with(|| Box::new(Queue { emits: VecDeque::with_capacity(1), ..Queue::default() }));
        let bytes_max = match total_bytes.load(Ordering::Relaxed) > config.subscribers_bytes_max as u64 {
            true => 0,
            false => config.subscriber_bytes_max,
        };
        while !(queue.emits.is_empty() && queue.taken.is_empty())
            && (queue.bytes + emit.bytes() > bytes_max
                || queue.emits.len() + queue.taken.len() >= config.subscriber_emits_max)
        {
            if let Some(oldest) = queue.taken.pop_front() {
                queue.bytes -= oldest.bytes();
                total_bytes.fetch_sub(oldest.bytes() as u64, Ordering::Relaxed);
                continue;
            }
            if config.slow_reader == SlowReader::CutOff && is_attached && !is_last {
                return Delivery::CutOff;
            }
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
        Delivery::Queued { dropped }
    }

    /// Whether a task has ever waited for it.
    pub(crate) fn has_tasks(&self) -> bool {
        self.for_tasks.get().is_some()
    }

    /// Counts records that are not put in at all: the next emit tells.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.lock().dropped += records;
    }

    /// Takes the next emit; the error says that there will be none.
    pub(crate) fn try_take(&self, total_bytes: &AtomicU64) -> Result<Option<Waiting>, Over> {
        Self::take_from(&mut self.lock(), total_bytes)
    }

    fn take_from(state: &mut MailboxState, total_bytes: &AtomicU64) -> Result<Option<Waiting>, Over> {
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

    pub(crate) async fn take(&self, total_bytes: &AtomicU64) -> Option<Waiting> {
        loop {
            let for_tasks = self.for_tasks.get_or_init(Box::default);
            let mut changed = std::pin::pin!(for_tasks.notified());
            changed.as_mut().enable();
            match self.try_take(total_bytes) {
                Ok(Some(emit)) => return Some(emit),
                Err(Over) => return None,
                Ok(None) => changed.await,
            }
        }
    }

    pub(crate) fn take_blocking(&self, total_bytes: &AtomicU64) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            match Self::take_from(&mut state, total_bytes) {
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

    /// Makes the caller the one reader; false where there is one. It reads what was not read, or what comes after the
    /// emit of a number.
    pub(crate) fn attach(&self, after: Option<u64>) -> bool {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_attached, true) {
            return false;
        }
        let keeps = state.keeps;
        let Some((after, queue)) = after.zip(state.queue.as_mut()) else { return true };
        while let Some(emit) = queue.taken.pop_back_if(|emit| emit.number > after) {
            queue.emits.push_front(emit);
        }
        while keeps && let Some(emit) = queue.emits.pop_front_if(|emit| emit.number <= after) {
            queue.taken.push_back(emit);
        }
        true
    }

    /// From now on keeps what is read, until it is pushed out.
    pub(crate) fn keep(&self) {
        self.lock().keeps = true;
    }

    pub(crate) fn release(&self) {
        self.lock().is_attached = false;
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
}
