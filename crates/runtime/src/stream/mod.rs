//! One stream: the events that wait, the states of its shards, and the place where their outputs meet in order ([`Merge`]).
//!
//! A batch is taken from the intake by a shard that holds its own lock. Whoever has passed through all shards' locks
//! therefore knows that everything taken before was matched and delivered. A query sees the events that are appended after
//! it was submitted: events that wait then are batched apart from them, and matched without it. Windows are closed, and
//! queries ended, one after another under `tick`: an end collects a query's groups in several steps, and a window that
//! closed between them would find only some.
//!
//! # Lock order
//!
//! All locks of this crate, outermost first. A thread that holds one locks only those below it, and waits for nothing else.
//!
//! 1. `Shared::streams`.
//! 2. Of one stream: `tick`, `change`, one shard's, `idle_due`, `merge`, `intake`. No thread holds locks of two streams.
//! 3. `Shared::queries` or `Shared::kept`; no thread holds both.
//! 4. Those under which nothing else is locked: a subscriber queue's, a query's resume points, the interned plans, the run
//!    queue, the byte budget, the clock, a stream's rates, ticks and field names, the threads that shutdown joins.
//!
//! The closures of `append_with`, `begin_at` and `between_appends` run under `intake`; `query_ended` and `query_forgotten` of
//! [`crate::DurableObjects`] are called under `merge`, and `query_forgotten` also under `queries`. Each may lock what lies above
//! this crate, and of this crate only what follows.
//! [`crate::run_input`] has no stream: its locks are those of its feed, `rest` before `flow`.

mod append;
mod batching;
mod index;
mod intake;
mod status;
mod timers;

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64},
    },
    time::Duration,
};

use swiftwater_catalog::kind::durable_query::QueryCheckpoint;
use swiftwater_event::{Millis, StreamName};
use swiftwater_live::{QueryNumber, QueryStep, Shard};

pub(crate) use self::{
    batching::{Take, Work},
    index::Turn,
};
use self::{intake::Intake, status::Rates};
use crate::{merge::Merge, query::warnings::SeenFields, rate::ClockSamples};

/// A stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) name: StreamName,
    intake: Mutex<Intake>,
    pub(crate) shards: Vec<Mutex<ShardState>>,
    pub(crate) merge: Mutex<Merge>,
    /// Whether the index was replaced since a second began.
    has_changed: AtomicBool,
    /// Notified whenever `merge.position` has advanced.
    pub(crate) delivered: Condvar,
    /// Held while the set of standing queries changes.
    pub change: Mutex<()>,
    /// Held while windows are closed.
    pub tick: Mutex<()>,
    /// When the next window closes or the next query ends; `i64::MAX`: never.
    next_due: AtomicI64,
    rejected: AtomicU64,
    /// Whether its events are stored.
    pub is_stored: AtomicBool,
    rates: Mutex<Rates>,
    /// When the ticker looked at the clock.
    pub(crate) looks: ClockSamples,
    /// Events that were looked at before a restart are looked at again.
    pub is_again: AtomicBool,
    /// The fields seen in its events.
    pub(crate) fields: SeenFields,
    /// [`Stream::idle_due`] as computed after so many batches.
    idle_due: Mutex<Option<(u64, Option<Millis>)>>,
}

/// A shard's state for one stream.
#[derive(Default)]
pub(crate) struct ShardState {
    pub(crate) shard: Shard,
    pub(crate) steps: Vec<QueryStep>,
}

impl std::fmt::Debug for ShardState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardState").finish_non_exhaustive()
    }
}

/// Locks, whatever became of who had it locked before: what a panic leaves behind is guarded by whoever contains it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// One without events, for so many shards.
    pub fn new(name: StreamName, shards: usize) -> Stream {
        Stream {
            name,
            intake: Mutex::default(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            merge: Mutex::default(),
            has_changed: AtomicBool::new(false),
            delivered: Condvar::new(),
            change: Mutex::default(),
            tick: Mutex::default(),
            next_due: AtomicI64::new(i64::MAX),
            rejected: AtomicU64::new(0),
            is_stored: AtomicBool::new(false),
            rates: Mutex::default(),
            looks: ClockSamples::default(),
            is_again: AtomicBool::new(false),
            fields: SeenFields::default(),
            idle_due: Mutex::default(),
        }
    }

    /// How many queries stand on it.
    pub fn standing(&self) -> u64 {
        lock(&self.merge).running.len() as u64
    }

    /// How far its queries are at one moment: `look` is given a function from a query's number, and the time that its stream has
    /// come to, to what is to be written down; none for a query that has not begun.
    pub fn with_checkpoints<T>(
        &self,
        look: impl FnOnce(&dyn Fn(QueryNumber, Millis) -> Option<QueryCheckpoint>) -> T,
    ) -> T {
        let merge = lock(&self.merge);
        look(&|number, time| merge.running.get(&number)?.note(time, merge.position))
    }

    /// Waits until all that was appended before this call is looked at, or the time is over.
    pub fn wait_for_appended(&self, time: Duration) {
        let appended = lock(&self.intake).next_offset;
        let merge = lock(&self.merge);
        let is_behind = |merge: &mut Merge| merge.position < appended;
        // What is behind after that time is what the caller was ready to miss.
        let _ = self.delivered.wait_timeout_while(merge, time, is_behind);
    }

    /// Whether all events and idle ticks that were appended were looked at.
    pub fn is_drained(&self) -> bool {
        let merge = lock(&self.merge);
        let intake = lock(&self.intake);
        let is_handed_on = intake.waiting.is_empty() && merge.has_delivered(intake.next_sequence);
        is_handed_on && merge.position >= intake.next_offset
    }
}
