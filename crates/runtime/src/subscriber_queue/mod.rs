//! The queue of emits between a query and its reader: bounded, with a stated loss when it is full.
//!
//! When it is full, the oldest emits are dropped and their records counted, or the query is ended
//! (`slow_reader`). One reader is attached at a time; a newer one takes over.

mod queued_emit;
mod replay;

use std::{
    collections::VecDeque,
    sync::{
        Condvar, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

pub use self::replay::Numbering;
use self::replay::Resumed;
pub(crate) use self::{
    queued_emit::{OptionalMeta, QueuedEmit},
    replay::Frontier,
};
use crate::lock_order::{OrderedMutex, OrderedMutexGuard};
use crate::{EndReason, EngineConfig, SlowReader, limits::Full};

/// A queue of emits between a query and its reader.
#[derive(Debug, Default)]
pub(crate) struct SubscriberQueue {
    state: OrderedMutex<QueueState>,
    /// The notification for tasks, made by the first reader that waits: most queries have none most of the time.
    for_tasks: OnceLock<Box<Notify>>,
    for_threads: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The queue, made with the first emit.
    queue: Option<Box<Queue>>,
    /// True if emits that were read are kept.
    keeps: bool,
    /// The replay of a query that was there before the server started.
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

#[derive(Debug, Default)]
struct Queue {
    emits: VecDeque<QueuedEmit>,
    /// Emits that were read and may be asked for again, because the connection that carried them broke.
    taken: VecDeque<QueuedEmit>,
    /// Bytes for both readers.
    bytes: usize,
}

/// One reader of a queue. A newer reader takes over: the older one then finds no further emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reader(u32);

/// The outcome of an emit that was put into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It waits for the reader.
    Queued {
        /// Records lost for it.
        dropped: u64,
        /// The limit that was reached, if these records are the first that are lost.
        full: Option<Full>,
    },
    /// The reader is too slow, and its query is to be ended.
    CutOff(Full),
}

/// The end of the queue: there will be no further emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueEnded;

impl SubscriberQueue {
    /// Adds an emit; the last one, with `finished`, always fits.
    pub(crate) fn push(&self, emit: QueuedEmit, config: &EngineConfig, total_bytes: &AtomicU64) -> Delivery {
        let mut state = self.lock();
        if state.is_closed {
            return Delivery::Queued { dropped: 0, full: None };
        }
        let is_last = emit.finished().is_some();
        let Some(emit) = state.replay_emit(emit, total_bytes) else {
            // The last one is added, whoever has read it.
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

    /// Counts records that are not put in at all: the next emit tells.
    pub(crate) fn count_dropped(&self, records: u64) {
        self.lock().dropped += records;
    }

    /// Takes the next emit; the error says that there will be none for this reader.
    pub(crate) fn try_next(
        &self,
        reader: Reader,
        total_bytes: &AtomicU64,
    ) -> Result<Option<QueuedEmit>, QueueEnded> {
        Self::next_from(&mut self.lock(), reader, total_bytes)
    }

    fn next_from(
        state: &mut QueueState,
        reader: Reader,
        total_bytes: &AtomicU64,
    ) -> Result<Option<QueuedEmit>, QueueEnded> {
        if state.reader != reader {
            return Err(QueueEnded);
        }
        let taken = state.queue.as_mut().and_then(|queue| Some((queue.emits.pop_front()?, queue)));
        let Some((mut emit, queue)) = taken else {
            return if state.is_closed { Err(QueueEnded) } else { Ok(None) };
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

    pub(crate) async fn next(&self, reader: Reader, total_bytes: &AtomicU64) -> Option<QueuedEmit> {
        loop {
            let for_tasks = self.for_tasks.get_or_init(Box::default);
            let mut changed = std::pin::pin!(for_tasks.notified());
            changed.as_mut().enable();
            match self.try_next(reader, total_bytes) {
                Ok(Some(emit)) => return Some(emit),
                Err(QueueEnded) => return None,
                Ok(None) => changed.await,
            }
        }
    }

    pub(crate) fn next_blocking(&self, reader: Reader, total_bytes: &AtomicU64) -> Option<QueuedEmit> {
        let mut state = self.lock();
        loop {
            match Self::next_from(&mut state, reader, total_bytes) {
                Ok(Some(emit)) => return Some(emit),
                Err(QueueEnded) => return None,
                Ok(None) => {
                    state.waiting_threads += 1;
                    state = state.wait(&self.for_threads);
                    state.waiting_threads -= 1;
                }
            }
        }
    }

    /// True if a task has ever waited for it.
    pub(crate) fn has_tasks(&self) -> bool {
        self.for_tasks.get().is_some()
    }

    /// Makes the caller the one reader: one that was attached before finds no further emit. The reader gets what was not
    /// read, or what comes after the emit of a number.
    pub(crate) fn attach(&self, after: Option<u64>, total_bytes: &AtomicU64) -> Reader {
        let mut state = self.lock();
        state.reader = Reader(state.reader.0.wrapping_add(1));
        let reader = state.reader;
        let replaces = std::mem::replace(&mut state.is_attached, true);
        if let Some(after) = after {
            state.rewind_to(after, total_bytes);
        }
        drop(state);
        if replaces {
            self.wake_readers();
        }
        reader
    }

    /// The reader leaves. Returns true if it was the newest: an older one has nothing left to release.
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

    /// True if no newer reader has taken over.
    pub(crate) fn is_newest(&self, reader: Reader) -> bool {
        self.lock().reader == reader
    }

    /// Retains read emits from now on, until newer ones need the room.
    pub(crate) fn retain_read(&self) {
        self.lock().keeps = true;
    }

    /// Its emits may be made again: those that cannot be asked for any more are then not put in.
    pub(crate) fn resume(&self, numbering: Numbering, frontier: Frontier) {
        let mut state = self.lock();
        state.dropped = frontier.dropped;
        state.resumed = Some(Box::new(Resumed { numbering, frontier, last: 0, has_up_to: 0 }));
    }

    /// The progress of its reader.
    pub(crate) fn frontier(&self) -> Frontier {
        self.lock().frontier()
    }

    /// Ends what a reader waits for without a last emit: the query goes on without this server.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wake_readers();
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// True if nobody will ask again: the last emit was read, and it says that the query was killed. The client that
    /// has a query killed needs no more than that; any other end may reach the reader over a connection that breaks.
    pub(crate) fn is_done_with(&self) -> bool {
        let state = self.lock();
        let Some(queue) = &state.queue else { return false };
        let last = queue.taken.back().and_then(QueuedEmit::finished);
        queue.emits.is_empty() && last.is_some_and(|finished| finished.reason == EndReason::Killed)
    }

    /// Throws away what waits, for a query whose reader is gone for good.
    pub(crate) fn clear(&self, total_bytes: &AtomicU64) {
        let mut state = self.lock();
        let bytes = state.queue.take().map_or(0, |queue| queue.bytes);
        total_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        state.is_closed = true;
    }

    fn wake_readers(&self) {
        if let Some(for_tasks) = self.for_tasks.get() {
            for_tasks.notify_waiters();
        }
        self.for_threads.notify_all();
    }

    fn lock(&self) -> OrderedMutexGuard<'_, QueueState> {
        self.state.lock()
    }
}
