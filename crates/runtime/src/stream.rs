//! One stream: the events that wait, the shards' states, and the place where the shards' outputs meet in order ([`Merge`]).
//!
//! Locks are taken in this order: `tick`, `change`, a shard's, `merge`, then `intake` or those of
//! the engine as a whole (`queries`, `kept`); none is held while waiting for anything
//! but the next of them. A batch is taken from the intake by a shard that holds its own lock, so whoever has passed
//! through all shards' locks knows that everything taken before was looked at and delivered. A query sees the events that
//! are appended after it was submitted: those that wait then are taken apart from them, and matched without it. Windows
//! are closed, and queries end, one after another, under `tick`: an end takes a query's groups in several steps, and who
//! closed a window between them would find only some.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_catalog::kind::durable_query::QueryCheckpoint;
use swiftwater_event::{EventBatch, EventMeta, Millis, Offset, StreamName};
use swiftwater_live::{Cuts, Index, QueryNumber, QueryStep, Rebuild, Shard, SlicePlan};

use crate::{
    AppendOptions, StreamMeta, StreamStatus, merge::Merge, query::warnings::SeenFields, rate::Looks,
};

/// A stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) name: StreamName,
    intake: Mutex<Intake>,
    pub(crate) shards: Vec<Mutex<ShardState>>,
    pub(crate) merge: Mutex<Merge>,
    /// Whether the index was replaced since a second began.
    has_changed: AtomicBool,
    /// Told whenever `merge.position` has moved on.
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
    pub(crate) looks: Looks,
    /// Events that were looked at before a restart are looked at again.
    pub is_again: AtomicBool,
    /// What its events are seen to have.
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

/// Events that wait, and what they will be matched against.
#[derive(Debug, Default)]
struct Intake {
    waiting: VecDeque<EventBatch>,
    waiting_bytes: usize,
    index: Arc<Index>,
    /// Indexes that were replaced, and that a shard may still look at. Its last holder takes an index apart, which for a
    /// large one takes a while: that is to be no shard.
    replaced: Vec<Arc<Index>>,
    /// The offset of the next event to come, and of the next to be taken.
    next_offset: u64,
    next_taken: u64,
    pace: Pace,
    next_sequence: u64,
    /// Where queries begin behind events that wait: the offset of the first event that they see, and a number that
    /// theirs in the index are not below, while those of all who began before are. At most one for each batch that
    /// waits.
    begins: VecDeque<(u64, QueryNumber)>,
    bytes: u64,
    newest_arrival: Millis,
    /// Windows and durations were looked at up to here: what comes now arrives at this time or later.
    settled: Millis,
    has_events: bool,
    /// The arrival of the last event that was taken.
    taken_arrival: Option<Millis>,
    sample: Option<f64>,
    /// The stream stands in the line of those with work.
    is_queued: bool,
}

/// How many events are taken at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pace {
    /// As many as a batch may have.
    #[default]
    Batches,
    /// One: there are queries of which each event closes a window.
    Singly,
    /// None, until the windows are closed that one of this arrival closes, which was taken alone.
    Waits(Millis),
}

/// A batch may have as many times its usual bytes as there are so many queries that every event is tested for…
const SCANNED_PER_BATCH: usize = 64;
/// …but at most so many times as many.
const BATCH_GROWTH_MAX: usize = 8;

/// A batch to be looked at.
pub(crate) struct Work {
    pub(crate) batch: EventBatch,
    /// Arrival of each event; empty where all have the batch's.
    pub(crate) arrivals: Vec<Millis>,
    /// The arrival of the last event before it; none if there was none.
    pub(crate) before: Option<Millis>,
    pub(crate) sequence: u64,
    pub(crate) index: Arc<Index>,
    /// Events that it stands for.
    pub(crate) events: u64,
    /// Bytes that it took up while it waited.
    pub(crate) bytes: usize,
    /// More is waiting.
    pub(crate) more: bool,
    /// It is one event, which closes windows.
    pub(crate) closes: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Rates {
    events: u64,
    bytes: u64,
    events_per_second: f64,
    bytes_per_second: f64,
}

/// What a query does when the index is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It begins, at this time, with the next event to come. Its number, and that of the operator that is opened for it,
    /// are above those of all who began on the stream before.
    Begins(QueryNumber, Millis),
    /// It leaves, at this time, before the next event to be taken.
    Leaves(Millis),
}

/// What came of asking for work.
pub(crate) enum Take {
    Work(Box<Work>),
    /// Windows are to be closed first, at this time.
    Due(Millis),
    Nothing,
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
            looks: Looks::default(),
            is_again: AtomicBool::new(false),
            fields: SeenFields::default(),
            idle_due: Mutex::default(),
        }
    }

    /// Puts events in line; answers the offset after them, and whether the stream must be put in the line of those
    /// with work.
    pub fn append(&self, batch: EventBatch, now_micros: i64, options: &AppendOptions) -> (u64, bool) {
        let stored = self.append_with(batch, now_micros, options, |_, _| Ok::<_, Infallible>((true, ())));
        let Ok((offset, (), is_new_in_line)) = stored;
        (offset, is_new_in_line)
    }

    /// As [`Stream::append`], once `store` has stored them: it is given the offset of the first and their arrival, under
    /// the lock that gives these out, and says whether they are to be put in line at all.
    pub fn append_with<T, E>(
        &self,
        batch: EventBatch,
        now_micros: i64,
        options: &AppendOptions,
        store: impl FnOnce(u64, Millis) -> Result<(bool, T), E>,
    ) -> Result<(u64, T, bool), E> {
        self.fields.look(&batch, now_micros.div_euclid(1000));
        let mut intake = lock(&self.intake);
        let first = Offset(intake.next_offset);
        // Arrival never goes back, even where the machine's clock does.
        let arrival = now_micros.div_euclid(1000).max(intake.newest_arrival).max(intake.settled);
        let (is_taken, stored) = store(first.0, arrival)?;
        if !is_taken {
            return Ok((intake.next_offset, stored, false));
        }
        intake.newest_arrival = arrival;
        intake.has_events = true;
        intake.sample = options.source_sample.or(intake.sample);
        intake.next_offset += batch.len() as u64;
        intake.bytes += batch.event_bytes() as u64;
        intake.waiting_bytes += batch.bytes().len();
        intake.waiting.push_back(batch.with_meta(EventMeta {
            arrival,
            sent_micros: options.sent_micros.unwrap_or(0),
            read_micros: now_micros,
            first,
        }));
        Ok((intake.next_offset, stored, !std::mem::replace(&mut intake.is_queued, true)))
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

    /// Lets a stream that has had no event in this process go on at an offset. `begin` is given the offset of the next event,
    /// under the lock that gives these out.
    pub fn begin_at<T>(&self, offset: u64, begin: impl FnOnce(u64) -> T) -> T {
        let mut merge = lock(&self.merge);
        let mut intake = lock(&self.intake);
        if intake.next_offset < offset && intake.waiting.is_empty() && intake.next_taken == intake.next_offset
        {
            (intake.next_offset, intake.next_taken, merge.position) = (offset, offset, offset);
            intake.has_events |= offset > 0;
        }
        begin(intake.next_offset.max(offset))
    }

    /// Changes what is declared of the stream while no event is appended to it.
    pub fn between_appends<T>(&self, change: impl FnOnce() -> T) -> T {
        let _none_is_appended = lock(&self.intake);
        change()
    }

    /// Waits until all that was appended before this call is looked at, or the time is over.
    pub fn wait_for_appended(&self, time: Duration) {
        let appended = lock(&self.intake).next_offset;
        let merge = lock(&self.merge);
        let is_behind = |merge: &mut Merge| merge.position < appended;
        // What is behind after that time is what the caller was ready to miss.
        let _ = self.delivered.wait_timeout_while(merge, time, is_behind);
    }

    /// From now on no event arrives before `at`: answers the offset of the next one, and the earliest time that it may
    /// arrive at.
    pub fn mark(&self, at: Millis) -> (u64, Millis) {
        let mut intake = lock(&self.intake);
        intake.settled = intake.settled.max(at);
        (intake.next_offset, intake.settled.max(intake.newest_arrival))
    }

    /// Whether all events before an offset are all that there are; then none arrives before `at` any more.
    pub fn is_at(&self, offset: u64, at: Millis) -> bool {
        let mut intake = lock(&self.intake);
        let is_at = intake.next_offset == offset;
        if is_at {
            intake.settled = intake.settled.max(at);
        }
        is_at
    }

    /// Puts events in line that have their offsets and arrivals; answers whether the stream must be put in the line of
    /// those with work. For a stream that follows another.
    pub fn feed(&self, batch: EventBatch, sample: Option<f64>) -> bool {
        let mut intake = lock(&self.intake);
        intake.newest_arrival = intake.newest_arrival.max(batch.meta().arrival);
        intake.has_events = true;
        intake.sample = sample.or(intake.sample);
        intake.next_offset = batch.meta().first.0 + batch.len() as u64;
        intake.bytes += batch.event_bytes() as u64;
        intake.waiting_bytes += batch.bytes().len();
        intake.waiting.push_back(batch);
        !std::mem::replace(&mut intake.is_queued, true)
    }

    /// Goes on at an offset, where there is nothing between; nothing waits.
    pub fn skip_to(&self, offset: u64) {
        let mut merge = lock(&self.merge);
        let mut intake = lock(&self.intake);
        (intake.next_offset, intake.next_taken, merge.position) = (offset, offset, offset);
        intake.has_events |= offset > 0;
    }

    /// The share of its events that its sources send on, where they sample.
    pub fn sample(&self) -> Option<f64> {
        lock(&self.intake).sample
    }

    /// Whether all events and idle ticks that were appended were looked at.
    pub fn is_drained(&self) -> bool {
        let merge = lock(&self.merge);
        let intake = lock(&self.intake);
        let is_handed_on = intake.waiting.is_empty() && merge.has_handed_on(intake.next_sequence);
        is_handed_on && merge.position >= intake.next_offset
    }

    /// Counts events that were refused.
    pub fn count_rejected(&self, count: u64) {
        self.rejected.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes what waits, small batches joined up to `bytes_max`. The caller holds a shard's lock.
    pub(crate) fn take(&self, bytes_max: usize) -> Take {
        let mut intake = lock(&self.intake);
        // Events that follow an idle tick advance time by themselves.
        while intake.waiting.len() > 1 && intake.waiting.front().is_some_and(EventBatch::is_empty) {
            intake.waiting.pop_front();
        }
        let Some(first) = intake.waiting.front() else {
            intake.is_queued = false;
            return Take::Nothing;
        };
        let due = self.next_due.load(Ordering::Acquire);
        let arrival = first.meta().arrival;
        if arrival >= due || matches!(intake.pace, Pace::Waits(_)) {
            return Take::Due(arrival);
        }
        let closes = intake.pace == Pace::Singly && !first.is_empty();
        let mut is_parted = false;
        if closes {
            intake.pace = Pace::Waits(arrival);
            is_parted = intake.part_first();
        }
        let Some(first) = intake.waiting.front() else { return Take::Nothing };
        let offset = first.meta().first.0;
        // The second that an expression may ask for is one for a whole batch.
        let second = first.meta().arrival.div_euclid(1000);
        // What a batch costs whatever its size is spread over more events where it is much.
        let bytes_max = bytes_max * (intake.index.scanned() / SCANNED_PER_BATCH).clamp(1, BATCH_GROWTH_MAX);
        while intake.begins.pop_front_if(|(begin, _)| *begin <= offset).is_some() {}
        // A batch is one for whoever begins behind it, and another for whoever does not.
        let begins = intake.begins.front().copied();
        let mut batches = Vec::new();
        let mut bytes = 0;
        while let Some(next) = intake.waiting.front() {
            let size = next.bytes().len();
            let arrival = next.meta().arrival;
            let is_apart = closes
                || next.meta().sent_micros != 0
                || arrival >= due
                || arrival.div_euclid(1000) != second
                || begins.is_some_and(|(begin, _)| next.meta().first.0 >= begin);
            if !batches.is_empty() && (bytes + size > bytes_max || is_apart) {
                break;
            }
            let alone = next.meta().sent_micros != 0;
            bytes += size;
            batches.extend(intake.waiting.pop_front());
            if alone {
                break;
            }
        }
        // The others of its batch still take up what it does.
        let bytes = if is_parted { 0 } else { bytes };
        intake.waiting_bytes -= bytes;
        let sequence = intake.next_sequence;
        intake.next_sequence += 1;
        let events = batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        intake.next_taken += events;
        let before = intake.record_taken(&batches);
        let more = !intake.waiting.is_empty();
        if !more {
            intake.is_queued = false;
        }
        let index = match begins {
            None => Arc::clone(&intake.index),
            Some((_, number)) => Arc::new(intake.index.before(number)),
        };
        drop(intake);
        let mut arrivals = Vec::new();
        let batch = if batches.len() == 1 {
            batches.swap_remove(0)
        } else {
            if batches.first().map(|batch| batch.meta().arrival)
                != batches.last().map(|batch| batch.meta().arrival)
            {
                arrivals = batches
                    .iter()
                    .flat_map(|batch| std::iter::repeat_n(batch.meta().arrival, batch.len()))
                    .collect();
            }
            // With nobody asking, nothing is read: no need to copy.
            if index.is_empty() && !closes {
                return Take::Work(Box::new(Work::unread(&batches, events, sequence, index, bytes, more)));
            }
            EventBatch::concat(&batches)
        };
        Take::Work(Box::new(Work { batch, arrivals, before, sequence, index, events, bytes, more, closes }))
    }

    /// Takes all that waits, where nobody asks for it and nothing is due: whoever appended it passes it over at once, and no
    /// shard wakes up for it.
    pub(crate) fn take_unasked(&self) -> Option<Work> {
        let mut intake = lock(&self.intake);
        let latest = intake.waiting.back()?.meta().arrival;
        let is_asked = !intake.index.is_empty() || !intake.begins.is_empty() || intake.pace != Pace::Batches;
        if is_asked || latest >= self.next_due.load(Ordering::Acquire) {
            return None;
        }
        let batches: Vec<EventBatch> = intake.waiting.drain(..).collect();
        let bytes = std::mem::take(&mut intake.waiting_bytes);
        let sequence = intake.next_sequence;
        intake.next_sequence += 1;
        let events = batches.iter().map(|batch| batch.len() as u64).sum();
        intake.next_taken += events;
        intake.record_taken(&batches);
        intake.is_queued = false;
        Some(Work::unread(&batches, events, sequence, Arc::clone(&intake.index), bytes, false))
    }

    /// Whether the stream may be idle at `now` for a query, whatever waits. Cheap.
    pub fn may_be_idle(&self, now: Millis) -> bool {
        let intake = lock(&self.intake);
        let idle_after = intake.index.idle_after_ms();
        idle_after.is_some_and(|idle_after| now >= intake.newest_arrival.saturating_add_unsigned(idle_after))
    }

    /// The time up to `now` at which the idle stream closes something; none if nothing is due, the stream is not idle, or
    /// events wait.
    pub fn idle_due(&self, now: Millis) -> Option<Millis> {
        let (sequence, index, idle_from) = {
            let intake = lock(&self.intake);
            let idle_after = intake.index.idle_after_ms()?;
            let idle_from = intake.taken_arrival?.saturating_add_unsigned(idle_after);
            if !intake.waiting.is_empty() || now < idle_from {
                return None;
            }
            (intake.next_sequence, Arc::clone(&intake.index), idle_from)
        };
        let mut known = lock(&self.idle_due);
        let due = match *known {
            Some((at, due)) if at == sequence => due,
            _ => {
                let merge = lock(&self.merge);
                if !merge.has_handed_on(sequence) {
                    return None;
                }
                let due = merge.idle_due(index.idle_numbers());
                *known = Some((sequence, due));
                due
            }
        };
        due.map(|due| due.max(idle_from)).filter(|due| *due <= now)
    }

    /// Appends an idle tick: a batch without events, which advances event time. Does nothing if events wait, as they do it
    /// themselves. Returns whether the stream must be put in the line of those with work.
    pub fn advance_idle(&self, at: Millis) -> bool {
        let mut intake = lock(&self.intake);
        if !intake.waiting.is_empty() {
            return false;
        }
        // No event arrives before that any more.
        intake.settled = intake.settled.max(at);
        let (first, read_micros) = (Offset(intake.next_offset), at.saturating_mul(1000));
        let meta = EventMeta { arrival: at, sent_micros: 0, read_micros, first };
        intake.waiting.push_back(EventBatch::concat(&[]).with_meta(meta));
        !std::mem::replace(&mut intake.is_queued, true)
    }

    /// When the event arrived that was taken alone, and of which the windows that it closes are still to be closed; with
    /// the offset after it. For whoever holds `tick`.
    pub(crate) fn closed_by_event(&self) -> Option<(Millis, u64)> {
        let intake = lock(&self.intake);
        match intake.pace {
            Pace::Waits(at) => Some((at, intake.next_taken)),
            _ => None,
        }
    }

    /// Whether there are queries now of which each event closes a window, and none has yet. For whoever holds `tick`.
    pub(crate) fn set_pace(&self, lags: bool) {
        lock(&self.intake).pace = if lags { Pace::Singly } else { Pace::Batches };
    }

    /// Up to when windows may be closed at `now`: events that wait belong to the windows of their arrival, however long
    /// they wait.
    pub(crate) fn settle(&self, now: Millis) -> Millis {
        let mut intake = lock(&self.intake);
        let until = intake.waiting.front().map_or(now, |oldest| oldest.meta().arrival.min(now));
        intake.settled = intake.settled.max(until);
        until
    }

    /// The index as it stands, for whoever holds `change`.
    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&lock(&self.intake).index)
    }

    /// Forgets replaced indexes that nobody looks at any more; for whoever has replaced one, and holds no lock of the
    /// stream's but `change`.
    pub(crate) fn forget_replaced(&self) {
        let unused: Vec<Arc<Index>> = {
            let mut intake = lock(&self.intake);
            intake.replaced.extract_if(.., |index| Arc::strong_count(index) == 1).collect()
        };
        drop(unused);
    }

    /// Replaces the index by one of the same queries. The caller holds `change`.
    pub(crate) fn set_index(&self, index: Index) {
        self.has_changed.store(true, Ordering::Relaxed);
        lock(&self.intake).replace_index(index);
    }

    /// Begins another second; answers whether queries neither came nor went in the one that is over.
    pub(crate) fn was_quiet(&self) -> bool {
        !self.has_changed.swap(false, Ordering::Relaxed)
    }

    /// A large index that is to be built anew, if it is time; `is_quiet`: queries have not changed for a while.
    pub(crate) fn start_rebuild(&self, is_quiet: bool) -> Option<Rebuild> {
        let index = self.index();
        if !(index.is_rebuild_due() || is_quiet && index.is_in_parts()) {
            return None;
        }
        drop(index);
        let _change = lock(&self.change);
        let mut index = Index::clone(&self.index());
        let rebuild = if is_quiet { index.rebuild_now() } else { index.rebuild() }?;
        self.set_index(index);
        Some(rebuild)
    }

    /// Replaces the index where one is given, for a query that begins or leaves; answers the offset of the first event
    /// that it sees, or that it does not see any more, and when the latest of those before arrived. With an operator's
    /// plan and cuts that is an epoch's first event. The caller holds `change`.
    pub(crate) fn turn(
        &self,
        turn: Turn,
        index: Option<Index>,
        epoch: Option<(&SlicePlan, Cuts, u64)>,
    ) -> (u64, Millis) {
        let mut intake = lock(&self.intake);
        let intake = &mut *intake;
        if let Some(index) = index {
            self.has_changed.store(true, Ordering::Relaxed);
            intake.replace_index(index);
        }
        let (offset, at) = match turn {
            Turn::Begins(number, at) => {
                let offset = intake.next_offset;
                let is_new = intake.begins.back().is_none_or(|(begin, _)| *begin < offset);
                if intake.next_taken < offset && is_new {
                    intake.begins.push_back((offset, number));
                }
                (offset, at)
            }
            Turn::Leaves(at) => (intake.next_taken, at),
        };
        // What comes now arrives neither before the beginning of a query that sees it, nor before the end of one that
        // does not.
        intake.settled = intake.settled.max(at);
        if let Some((plan, cuts, looked_at)) = epoch {
            plan.begin(offset, cuts, looked_at);
        }
        (offset, intake.newest_arrival)
    }

    pub(crate) fn set_next_due(&self, merge: &Merge) {
        self.next_due.store(merge.agenda.first().map_or(i64::MAX, |(due, _)| *due), Ordering::Release);
    }

    /// When the next window closes or the next query ends; `i64::MAX`: never.
    pub fn next_due(&self) -> Millis {
        self.next_due.load(Ordering::Acquire)
    }

    /// Whether it is there for anybody but those who ask about it.
    pub(crate) fn exists(&self) -> bool {
        self.is_stored.load(Ordering::Relaxed) || self.has_events()
    }

    pub(crate) fn has_events(&self) -> bool {
        lock(&self.intake).has_events
    }

    /// As an emit's meta tells it, when everything before `position` was looked at.
    pub(crate) fn meta(&self, position: u64, now: Millis) -> StreamMeta {
        let intake = lock(&self.intake);
        let lag_ms = intake.waiting.front().map_or(0, |oldest| now - oldest.meta().arrival);
        StreamMeta {
            name: self.name.clone(),
            position,
            lag_ms: u64::try_from(lag_ms).unwrap_or(0),
            sample: intake.sample,
        }
    }

    pub(crate) fn status(&self, now: Millis) -> StreamStatus {
        let queries = lock(&self.merge).running.len() as u64;
        let rates = *lock(&self.rates);
        let intake = lock(&self.intake);
        let lag_ms = intake.waiting.front().map_or(0, |oldest| now - oldest.meta().arrival);
        StreamStatus {
            name: self.name.clone(),
            is_stored: self.is_stored.load(Ordering::Relaxed),
            events: intake.next_offset,
            bytes: intake.bytes,
            rejected: self.rejected.load(Ordering::Relaxed),
            position: intake.next_offset,
            newest_arrival: (intake.bytes > 0).then_some(intake.newest_arrival),
            events_per_second: rates.events_per_second,
            bytes_per_second: rates.bytes_per_second,
            queries,
            pending_bytes: intake.waiting_bytes as u64,
            lag_ms: u64::try_from(lag_ms).unwrap_or(0),
            stored_lag_ms: 0,
            sample: intake.sample,
        }
    }

    /// Bytes of the index.
    pub(crate) fn index_bytes(&self) -> u64 {
        lock(&self.intake).index.bytes() as u64
    }

    /// Takes the rates of the time since the last call.
    pub(crate) fn measure_rates(&self, seconds: f64) {
        let (events, bytes) = {
            let intake = lock(&self.intake);
            (intake.next_offset, intake.bytes)
        };
        let mut rates = lock(&self.rates);
        *rates = Rates {
            events,
            bytes,
            events_per_second: (events - rates.events) as f64 / seconds,
            bytes_per_second: (bytes - rates.bytes) as f64 / seconds,
        };
    }
}

impl Intake {
    /// Notes batches that were taken. Returns the arrival of the last event before them.
    fn record_taken(&mut self, batches: &[EventBatch]) -> Option<Millis> {
        let before = self.taken_arrival;
        let last = batches.iter().rev().find(|batch| !batch.is_empty());
        self.taken_arrival = last.map(|batch| batch.meta().arrival).or(before);
        before
    }

    /// Makes the first event that waits a batch of its own; answers whether there were others in its batch. These keep
    /// what the batch takes up, which all share.
    fn part_first(&mut self) -> bool {
        let Some(batch) = self.waiting.front().filter(|batch| batch.len() > 1) else { return false };
        let rows: Vec<u32> = (1..batch.len() as u32).collect();
        let (meta, alone) = (*batch.meta(), EventBatch::concat(&[batch.select(&[0])]));
        let others = batch.select(&rows).with_meta(EventMeta { first: Offset(meta.first.0 + 1), ..meta });
        self.waiting.pop_front();
        self.waiting.push_front(others);
        self.waiting.push_front(alone.with_meta(meta));
        true
    }

    fn replace_index(&mut self, index: Index) {
        let replaced = std::mem::replace(&mut self.index, Arc::new(index));
        self.replaced.push(replaced);
    }
}

impl Work {
    /// Batches that nobody asks for: only their count matters.
    fn unread(
        batches: &[EventBatch],
        events: u64,
        sequence: u64,
        index: Arc<Index>,
        bytes: usize,
        more: bool,
    ) -> Work {
        let mut batch = batches[0].clone();
        let first = batch.meta().first.0;
        // The first batch stands for all: its meta must lead to the position after the last.
        let meta = EventMeta { first: Offset(first + events - batch.len() as u64), ..*batch.meta() };
        batch = batch.with_meta(meta);
        Work {
            batch,
            arrivals: Vec::new(),
            before: None,
            sequence,
            index,
            events,
            bytes,
            more,
            closes: false,
        }
    }

    /// The offset after the batch.
    pub(crate) fn position(&self) -> u64 {
        self.batch.meta().first.0 + self.batch.len() as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails a test")]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    #[test]
    fn events_taken_one_by_one_give_back_what_their_batch_took_up() {
        let stream = Stream::new(StreamName::new("s").unwrap(), 1);
        let text = Bytes::from_static(b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        let batch = check_block(text, &CheckLimits::default(), 1).batch;
        let appended = batch.bytes().len();
        stream.append(batch, 0, &AppendOptions::default());
        let mut taken = Vec::new();
        loop {
            stream.set_pace(true);
            match stream.take(1 << 20) {
                Take::Work(work) => taken.push((work.events, work.bytes)),
                Take::Nothing => break,
                Take::Due(at) => panic!("due at {at}"),
            }
        }
        assert_eq!(taken, [(1, 0), (1, 0), (1, appended)]);
        assert_eq!(stream.status(0).pending_bytes, 0);
    }
}
