//! One view: its state in memory, and how events and commits change that.
//!
//! A view folds a batch of synced events into groups of its own, which are merged into the groups of its keys. Keys that
//! are not in memory are fetched first, so that nothing fails half way. Keys lie in 32 parts by hash, each with a lock,
//! so a reader waits for one merge of one part at most.
//!
//! A commit cuts the changed keys out as bytes and writes them with the position, while events continue. Committed keys
//! may be evicted, the least recently changed first. A start therefore reads a position, and no keys.

use super::{
    accept::AcceptError,
    compile::{Compiled, reads_untyped},
};
use crate::supervisor::DropSignal;
use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use swiftwater_catalog::kind::view::ViewEntry;
use swiftwater_event::{Millis, StreamName, Type};
use swiftwater_lang::ddl::CreateStream;
use swiftwater_live::{Changes, Key, KeyedPart, KeyedQuery, NO_TIME, ViewTime};
use swiftwater_views::{KEY_BYTES_MAX, ViewStore};
use tokio::sync::{Notify, broadcast, watch};

use super::lookup::Sources;
use super::{
    changefeed::{ANNOUNCED_BATCHES_MAX, ChangedKey, ChangedKeys},
    changelog::Changelog,
    derived::{DerivedFrom, meaning_of, rows_as_stream},
    found::FoundKinds,
    retention::Needed,
};
use crate::durable::stored_stream::StoredStream;
use swiftwater_runtime::lock_order::{
    OrderedMutex, OrderedReadGuard, OrderedRwLock, OrderedWriteGuard, level,
};

/// Parts that a view's keys lie in, each with a lock of its own.
pub(super) const PARTS: usize = 32;

/// The longest key, as groups have it; groups of longer ones are passed over and counted.
pub(super) const GROUP_KEY_BYTES_MAX: usize = KEY_BYTES_MAX / 3;

/// A view at work.
pub(crate) struct View {
    pub(crate) entry: ViewEntry,
    pub(crate) stream: StreamName,
    pub(crate) stored: Arc<StoredStream>,
    pub(crate) query: KeyedQuery,
    /// Its columns, by name and type.
    pub(crate) columns: Vec<(Box<str>, Type)>,
    /// The tables and views that its events are joined with.
    pub(crate) joined: Sources,
    pub(crate) store: Arc<ViewStore>,
    pub(super) parts: Box<[OrderedRwLock<KeyedPart, level::ViewPart>]>,
    /// Locked for writing while a batch is added to the parts, and for reading all of them at one position; before
    /// any part's lock.
    pub(super) whole: OrderedRwLock<(), level::ViewPosition>,
    pub(super) at: watch::Sender<At>,
    committed: AtomicU64,
    /// Its position on disk.
    durable: watch::Sender<At>,
    pub(super) counts: Counts,
    /// It reads values that nothing declares a type of, JSON included.
    pub(super) is_untyped: bool,
    /// The types of its columns that follow from its rows so far.
    pub(super) found: OrderedMutex<FoundKinds>,
    /// The reason why it is not maintained, or does not continue, and true if that is permanent.
    failing: OrderedMutex<Option<(String, bool)>>,
    /// It is for good. Readers ask for that alone, and none waits for another.
    is_broken: AtomicBool,
    pub(super) dropped: DropSignal,
    /// It failed for that what its events are joined with did not go on.
    pub(super) has_waited: AtomicBool,
    /// It lacks events that the log does not have for it.
    pub(super) is_behind: AtomicBool,
    /// Its files were damaged, and it takes its events in again up to this offset; 0: it does not.
    pub(super) rebuilt_at: AtomicU64,
    /// The last key that was looked at for being past; none: they are to be looked at from the first one on.
    looked_at: OrderedMutex<Option<Vec<u8>>>,
    /// The listeners for changes.
    pub(super) listeners: broadcast::Sender<Arc<ChangedKeys>>,
    /// Windows that begin before this are no longer looked at by the alert whose own view it is; [`NO_TIME`]: all may be.
    looked_at_before: AtomicI64,
    /// The other readers of its closed windows.
    pub(super) needed: OrderedMutex<Needed>,
    /// The changes of its commits.
    pub(super) log: Changelog,
    /// Its changes are the events of a stream at present.
    pub(super) is_streamed: AtomicBool,
    /// The relation of a view to the view whose rows it reads.
    pub(super) over: Option<DerivedFrom>,
    /// The views over it.
    pub(super) uppers: OrderedRwLock<Vec<Arc<View>>>,
    /// The version of all that its rows depend on besides its events.
    pub(super) meaning: u64,
    /// Its commits, which are those of all views that are over one another.
    pub(super) commits: Arc<Commits>,
}

/// The commits of a view of a stream and of all that are over it, which are written together.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// Locked while one is written.
    pub(super) writing: OrderedMutex<(), level::ViewCommit>,
    /// Wakes the task that makes them.
    pub(super) nudge: Notify,
    /// The position up to which callers wait for a commit.
    pub(super) awaited: AtomicU64,
}

/// The progress of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// The offset of the next event that it looks at.
    pub(crate) position: u64,
    /// Arrival of the last event that it read; 0: there was none since the start.
    pub(crate) arrival: Millis,
    /// The event time of a view with windows.
    pub(crate) time: ViewTime,
}

impl At {
    /// The latest event time of a view with windows, advanced by idle periods; [`NO_TIME`] before the first event.
    pub(crate) fn latest(&self) -> Millis {
        self.time.peak.time
    }
}

/// The counters of a view since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(super) events: AtomicU64,
    pub(super) matched: AtomicU64,
    pub(super) mistyped: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Groups that were passed over for the length of their keys.
    pub(super) long_keys: AtomicU64,
    /// Events of windows that were closed.
    pub(super) late: AtomicU64,
    /// Events whose times were too far ahead of their arrival.
    pub(super) ahead: AtomicU64,
    /// Keys that were looked for and found in memory, as there or as gone.
    pub(super) reads_held: AtomicU64,
    /// Keys that were looked for on disk.
    pub(super) reads_stored: AtomicU64,
}

impl View {
    /// A view that goes on from `position`; with `is_new` nothing is kept of it.
    pub(crate) fn new(
        entry: ViewEntry,
        stored: Arc<StoredStream>,
        Compiled { query, columns, joined }: Compiled,
        store: Arc<ViewStore>,
        (position, time): (u64, ViewTime),
        is_new: bool,
    ) -> Option<View> {
        let part = |_| KeyedPart::new(&query, is_new).map(OrderedRwLock::new);
        let parts = (0..PARTS).map(part).collect::<Option<_>>()?;
        let is_untyped = reads_untyped(&query, &stored.declared().create);
        let declared = format!("{:?}", stored.declared().create.columns);
        Some(View {
            meaning: meaning_of(declared, &columns, &entry.create),
            over: None,
            uppers: OrderedRwLock::default(),
            commits: Arc::default(),
            stream: stored.name.clone(),
            entry,
            stored,
            query,
            columns,
            joined,
            store,
            parts,
            whole: OrderedRwLock::default(),
            at: watch::Sender::new(At { position, arrival: 0, time }),
            committed: AtomicU64::new(position),
            durable: watch::Sender::new(At { position, arrival: 0, time }),
            counts: Counts::default(),
            is_untyped,
            found: OrderedMutex::default(),
            failing: OrderedMutex::default(),
            is_broken: AtomicBool::new(false),
            dropped: DropSignal::default(),
            has_waited: AtomicBool::new(false),
            is_behind: AtomicBool::new(false),
            rebuilt_at: AtomicU64::new(0),
            looked_at: OrderedMutex::default(),
            listeners: broadcast::Sender::new(ANNOUNCED_BATCHES_MAX),
            looked_at_before: AtomicI64::new(NO_TIME),
            needed: OrderedMutex::default(),
            log: Changelog::default(),
            is_streamed: AtomicBool::new(false),
        })
    }

    /// Opens a view of another's rows. `noted` is its position and the note beside it at its last commit; `lower_at` is
    /// the position of the other one. Returns true if its persisted state is of no use any more.
    pub(crate) fn over(
        entry: ViewEntry,
        lower: &Arc<View>,
        compiled: Compiled,
        noted: Option<&(u64, Vec<u8>)>,
        lower_at: u64,
    ) -> Option<(View, bool)> {
        let meaning = meaning_of(lower.meaning, &compiled.columns, &entry.create);
        let (over, goes_on) = DerivedFrom::of(lower, noted, meaning, lower_at);
        // Until it has all rows it is of none of the events.
        let at = (if over.is_whole() { lower_at } else { entry.from }, ViewTime::default());
        let (stored, store) = (Arc::clone(&lower.stored), Arc::clone(&lower.store));
        let mut view = View::new(entry, stored, compiled, store, at, false)?;
        (view.over, view.meaning, view.commits) = (Some(over), meaning, Arc::clone(&lower.commits));
        view.is_untyped = lower.is_untyped;
        view.is_behind = AtomicBool::new(!view.is_whole());
        Some((view, noted.is_some() && !goes_on))
    }

    /// Its rows as the events of a stream.
    pub(crate) fn declared(&self) -> CreateStream {
        rows_as_stream(&self.stream, &self.columns)
    }

    /// Sets the position, which is also that on disk.
    pub(super) fn set_position(&self, at: At) {
        self.committed.store(at.position, Ordering::Relaxed);
        self.durable.send_replace(at);
        self.at.send_replace(at);
    }

    /// Wakes all that wait for its position.
    pub(super) fn wake_waiters(&self) {
        self.at.send_modify(|_| {});
    }

    pub(crate) fn id(&self) -> u32 {
        self.entry.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.create.name
    }

    /// It was dropped.
    pub(crate) fn has_ended(&self) -> bool {
        self.dropped.is_sent()
    }

    /// Its progress.
    pub(crate) fn at(&self) -> At {
        *self.at.borrow()
    }

    /// A receiver of its positions.
    pub(crate) fn progress(&self) -> watch::Receiver<At> {
        self.at.subscribe()
    }

    /// Its position on disk, and the changes of it.
    pub(crate) fn committed_at(&self) -> watch::Receiver<At> {
        self.durable.subscribe()
    }

    /// The offset up to which all is on disk.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// The reason why it is not maintained or does not continue, if so.
    pub(crate) fn failing(&self) -> Option<String> {
        self.failing.lock().as_ref().map(|(why, _)| why.clone())
    }

    /// The reason why it does not continue, if that is permanent.
    pub(crate) fn broken(&self) -> Option<String> {
        self.is_broken.load(Ordering::Acquire).then(|| self.failing()).flatten()
    }

    /// Records a failure; returns true if it is new.
    pub(super) fn record_failure(&self, why: String, is_for_good: bool) -> bool {
        let mut failing = self.failing.lock();
        if failing.as_ref().is_some_and(|(_, is_for_good)| *is_for_good) {
            return false;
        }
        let is_news = failing.as_ref().is_none_or(|(before, _)| *before != why);
        *failing = Some((why, is_for_good));
        self.is_broken.store(is_for_good, Ordering::Release);
        is_news
    }

    pub(super) fn record_success(&self) {
        self.failing.lock().take_if(|(_, is_for_good)| !*is_for_good);
    }

    pub(super) fn part(&self, key: &Key) -> OrderedReadGuard<'_, KeyedPart> {
        self.parts[key.part(PARTS)].read()
    }

    /// All parts as they are at one position.
    pub(super) fn all_parts(&self) -> Vec<OrderedReadGuard<'_, KeyedPart>> {
        let _one_position = self.whole.read();
        // Writers lock one part at a time.
        self.parts.iter().map(|part| part.read()).collect()
    }

    pub(super) fn change(&self, part: usize) -> OrderedWriteGuard<'_, KeyedPart> {
        self.parts[part].write()
    }

    /// Keys in memory, and the bytes that they take.
    pub(crate) fn memory_use(&self) -> (u64, u64) {
        let parts = self.parts.iter().map(|part| part.read());
        parts.fold((0, 0), |(keys, bytes), part| (keys + part.len() as u64, bytes + part.bytes() as u64))
    }

    /// Bytes of keys in memory that changed since the last cut, about.
    pub(super) fn changed_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.read());
        parts.map(|part| part.changed_bytes() as u64).sum()
    }

    /// True if it has changes that are not committed.
    pub(super) fn is_changed(&self) -> bool {
        let (at, kept) = (self.at(), *self.durable.borrow());
        at.position > self.committed() || at.latest() > kept.latest()
    }

    /// The arrival at which an idle stream closes the next window; none if nothing is to be closed.
    pub(super) fn idle_due(&self) -> Option<Millis> {
        self.query.windows()?.idle_due(self.at().time)
    }

    /// Advances event time, as the stream was idle until `until`, which the log has as a tick. Only the view's own task calls
    /// this.
    pub(super) fn advance_idle(&self, until: Millis) {
        let Some(windows) = self.query.windows() else { return };
        let at = self.at();
        self.at.send_replace(At { time: windows.advanced_to(at.time, until), ..at });
    }

    /// Passes over what there is not before an offset.
    pub(super) fn pass(&self, next: u64) {
        self.at.send_if_modified(|at| {
            let is_behind = at.position < next;
            at.position = at.position.max(next);
            is_behind
        });
    }

    /// Deletes keys whose time is over, of at most so many that are on disk, from where the last call left off. Until then
    /// they are there, but no reader finds them. Only the task that takes batches in calls this.
    pub(super) fn delete_past(&self, keys_max: usize) -> Result<(), AcceptError> {
        // The time of the log, so that nothing depends on the clock. None before the first event since the start.
        let now = self.at().arrival;
        if self.query.ttl_ms().is_none() || now == 0 {
            return Ok(());
        }
        let after = self.looked_at.lock().take();
        let snapshot = self.store.snapshot(self.id())?;
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut deleted, is_listened_to) = (Vec::new(), self.listeners.receiver_count() > 0);
        for (place, pair) in snapshot.range((from, Bound::Unbounded)).enumerate() {
            let (ordered, state) = pair?;
            if self.query.is_state_past(&state, now).map_err(|_| AcceptError::State)? {
                let key = Key::of_ordered(&ordered).map_err(|_| AcceptError::State)?;
                let mut before = None;
                if is_listened_to {
                    before = match self.part(&key).shown_of(&self.query, &key) {
                        Some(shown) => shown,
                        None => {
                            let kept = self.query.shown_by_states([(&ordered[..], Some(&state[..]))]);
                            kept.map_err(|_| AcceptError::State)?.into_iter().next().flatten()
                        }
                    };
                }
                // A row that nobody saw, as HAVING left it out, does not go.
                if self.change(key.part(PARTS)).delete_past(&self.query, &key, now) && before.is_some() {
                    deleted.push(ChangedKey { key, before, after: None });
                }
            }
            if place + 1 >= keys_max {
                *self.looked_at.lock() = Some(ordered);
                break;
            }
        }
        if !deleted.is_empty() {
            self.announce(Some(deleted), self.at().position, true);
        }
        Ok(())
    }

    /// The first window that readers find, and that is held in memory; none where all are. On disk there may be others
    /// ([`View::first_needed`]).
    pub(super) fn first_kept(&self, at: At) -> Option<Millis> {
        if self.entry.owner.is_some() {
            return Some(self.looked_at_before.load(Ordering::Relaxed)).filter(|first| *first != NO_TIME);
        }
        let retention = self.entry.create.options.retention_ms?;
        self.query.windows()?.first_kept(at.latest(), retention)
    }

    /// Windows that begin before this need not be kept: the alert whose own view it is has looked at them.
    pub(crate) fn release_before(&self, window: Millis) {
        self.looked_at_before.store(window, Ordering::Relaxed);
    }

    /// The changes since the last cut, and their position. Only the task that accepts batches calls this.
    pub(super) fn cut(&self) -> (Changes, At) {
        let mut changes = Changes::default();
        for place in 0..self.parts.len() {
            self.change(place).cut(&self.query, &mut changes);
        }
        (changes, self.at())
    }

    /// The last cut is on disk.
    pub(super) fn commit_succeeded(&self, at: At) {
        let first = self.first_kept(at);
        for place in 0..self.parts.len() {
            let mut part = self.change(place);
            part.checkpoint_committed();
            first.iter().for_each(|first| part.expire(*first));
        }
        let position = at.position;
        self.committed.store(position, Ordering::Relaxed);
        self.durable.send_replace(at);
        self.stored.view_committed(self.id(), position);
        if self.is_rebuilding() {
            self.end_rebuilding();
        }
    }

    /// The last cut is not on disk.
    pub(super) fn commit_failed(&self) {
        for place in 0..self.parts.len() {
            self.change(place).checkpoint_failed();
        }
    }

    /// Evicts groups that are on disk, if it has more than so many bytes.
    pub(super) fn evict(&self, bytes_max: usize) {
        let (_, bytes) = self.memory_use();
        if bytes as usize > bytes_max {
            for place in 0..self.parts.len() {
                self.change(place).evict(bytes_max / PARTS / 2);
            }
        }
    }
}
