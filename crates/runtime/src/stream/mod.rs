//! One stream: the events that wait, the states of its shards, and the place where their outputs meet in order ([`Merge`]).
//!
//! A batch is taken from the intake by a shard that holds its own lock. A thread that has passed through all shards' locks
//! therefore knows that everything taken before was matched and delivered. A query sees the events that are appended after
//! it was submitted: events that wait then are batched apart from them, and matched without it. Windows are closed, and
//! queries ended, one after another under `tick`: an end collects a query's groups in several steps, and a window that
//! closed between them would find only some.
//!
//! The order of the locks is in [`crate::lock_order`].

mod append;
mod batching;
mod index;
mod intake;
pub(crate) mod listing;
mod recent;
mod seen_fields;
mod status;
mod timers;

use std::{
    sync::{
        Arc, Condvar,
        atomic::{AtomicBool, AtomicI64, AtomicU64},
    },
    time::Duration,
};

use swiftwater_catalog::kind::durable_query::QueryCheckpoint;
use swiftwater_event::{Millis, StreamName};
use swiftwater_live::{QueryNumber, QueryStep, Shard};

pub(crate) use self::seen_fields::SeenFields;
pub(crate) use self::{
    batching::{NextWork, Work},
    index::Turn,
    recent::{RecentBudget, StreamSample},
};
use self::{intake::Intake, status::Rates};
use crate::lock_order::{OrderedMutex, level};
use crate::{coverage::RemoteState, merge::Merge, rate::ClockSamples};

/// A stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) name: StreamName,
    intake: OrderedMutex<Intake, level::Intake>,
    pub(crate) shards: Vec<OrderedMutex<ShardState, level::Shard>>,
    pub(crate) merge: OrderedMutex<Merge, level::Merge>,
    /// True if the index was replaced since a second began.
    has_changed: AtomicBool,
    /// True from the beginning of a query on, and false once there is none: only then the ticker passes it over.
    has_queries: AtomicBool,
    /// Notified whenever `merge.position` has advanced.
    pub(crate) delivered: Condvar,
    /// Locked while the set of standing queries changes.
    pub change: OrderedMutex<(), level::QueryChange>,
    /// Locked while windows are closed.
    pub tick: OrderedMutex<(), level::Tick>,
    /// Time of the next close of a window or end of a query; `i64::MAX`: never.
    next_due: AtomicI64,
    rejected: AtomicU64,
    lost: AtomicU64,
    /// True if its events are stored.
    pub is_stored: AtomicBool,
    rates: OrderedMutex<Rates>,
    /// Times at which the ticker read the clock.
    pub(crate) clock_samples: ClockSamples,
    /// Events that were looked at before a restart are looked at again.
    pub is_again: AtomicBool,
    /// The fields seen in its events.
    pub(crate) fields: SeenFields,
    /// A sample of its newest events; none if there are to be no samples.
    recent: Option<Arc<StreamSample>>,
    /// [`Stream::idle_due`] as computed after so many batches.
    idle_due: OrderedMutex<Option<(u64, Option<Millis>)>, level::IdleDue>,
    /// Its events are matched elsewhere.
    pub(crate) remote: Option<RemoteState>,
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

impl Stream {
    /// One without events, for so many shards.
    pub fn new(name: StreamName, shards: usize) -> Stream {
        Stream {
            name,
            intake: OrderedMutex::default(),
            shards: (0..shards).map(|_| OrderedMutex::default()).collect(),
            merge: OrderedMutex::default(),
            has_changed: AtomicBool::new(false),
            has_queries: AtomicBool::new(false),
            delivered: Condvar::new(),
            change: OrderedMutex::default(),
            tick: OrderedMutex::default(),
            next_due: AtomicI64::new(i64::MAX),
            rejected: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            is_stored: AtomicBool::new(false),
            rates: OrderedMutex::default(),
            clock_samples: ClockSamples::default(),
            is_again: AtomicBool::new(false),
            fields: SeenFields::default(),
            recent: None,
            idle_due: OrderedMutex::default(),
            remote: None,
        }
    }

    /// The same stream with a sample of its newest events.
    pub(crate) fn with_recent(self, budget: Option<&Arc<RecentBudget>>) -> Stream {
        Stream { recent: budget.map(RecentBudget::sample), ..self }
    }

    /// The number of queries that stand on it.
    pub fn running_count(&self) -> u64 {
        self.merge.lock().running.len() as u64
    }

    /// The checkpoints of its queries at one moment: `look` is given a function from a query's number, and the time that its stream has
    /// come to, to what is to be written down; none for a query that has not begun.
    pub fn with_checkpoints<T>(
        &self,
        look: impl FnOnce(&dyn Fn(QueryNumber, Millis) -> Option<QueryCheckpoint>) -> T,
    ) -> T {
        let merge = self.merge.lock();
        look(&|number, time| merge.running.get(&number)?.checkpoint(time, merge.position))
    }

    /// Waits until all that was appended before this call is looked at, or the time is over.
    pub fn wait_for_appended(&self, time: Duration) {
        let appended = self.intake.lock().next_offset;
        let merge = self.merge.lock();
        let is_behind = |merge: &mut Merge| merge.position < appended;
        // Events that are still behind after that time are those that the caller was ready to miss.
        drop(merge.wait_timeout_while(&self.delivered, time, is_behind));
    }

    /// True if all events and idle ticks that were appended were looked at.
    pub fn is_drained(&self) -> bool {
        let merge = self.merge.lock();
        let intake = self.intake.lock();
        let is_handed_on = intake.waiting.is_empty() && merge.has_delivered(intake.next_sequence);
        is_handed_on && merge.position >= intake.next_offset
    }
}
