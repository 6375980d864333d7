//! One view: what it holds, and how events and commits change that.

use std::{
    borrow::Cow,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use swiftwater_catalog::kind::view::ViewEntry;
use swiftwater_event::{EventBatch, EventMeta, Millis, Offset, Path, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors,
    ddl::{CreateStream, CreateView},
    parse_condition, parse_typed,
    plan::{Expr, Query},
};
use swiftwater_live::{
    Changes, Fold, GroupTable, JoinFailure, Key, KeyedPart, KeyedQuery, NO_TIME, Shown, SketchSizes,
    StandingQuery, ViewTime, by_part, count_rows,
};
use swiftwater_views::{KEY_BYTES_MAX, ViewStore, ViewStoreError};
use tokio::sync::{Notify, broadcast, watch};

use super::{
    changefeed::{TOLD_MAX, Told, ToldKey},
    changelog::Changelog,
    defaults::Defaults,
    derived::{Over, check_columns, check_over, check_timeless, meaning_of, rows_as_stream},
    found::Found,
    retention::Needed,
};
use crate::{
    EngineError, RuntimeError,
    durable::{history::History, stored_stream::StoredStream},
    objects::lookup_join::Sources,
};
use swiftwater_runtime::parts::lock;

/// Parts that a view's keys lie in, each with a lock of its own.
const PARTS: usize = 32;

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
    /// What its events are joined with.
    pub(crate) joined: Sources,
    pub(crate) store: Arc<ViewStore>,
    parts: Box<[RwLock<KeyedPart>]>,
    /// Held for writing while a batch goes into the parts, for reading by who wants all of them as they were at one
    /// position; before any part's lock.
    whole: RwLock<()>,
    at: watch::Sender<At>,
    committed: AtomicU64,
    /// Where it stands on disk.
    kept: watch::Sender<At>,
    pub(super) counts: Counts,
    /// It reads values that nothing declares a type of, JSON included.
    pub(super) is_untyped: bool,
    /// What its columns hold then.
    pub(super) found: Mutex<Found>,
    /// Why it is not kept, or does not go on; and whether that is for good.
    failing: Mutex<Option<(String, bool)>>,
    /// It is for good. Readers ask for that alone, and none waits for another.
    is_broken: AtomicBool,
    pub(super) is_dropped: watch::Sender<bool>,
    /// It failed for that what its events are joined with did not go on.
    pub(super) has_waited: AtomicBool,
    /// It lacks events that the log does not have for it.
    pub(super) is_behind: AtomicBool,
    /// Its files were damaged, and it takes its events in again up to this offset; 0: it does not.
    pub(super) rebuilt_at: AtomicU64,
    /// The last key that was looked at for being past; none: they are to be looked at from the first one on.
    looked_at: Mutex<Option<Vec<u8>>>,
    /// Who listens for changes.
    pub(super) told: broadcast::Sender<Arc<Told>>,
    /// Windows that begin before this are no longer looked at by the alert whose own view it is; [`NO_TIME`]: all may be.
    looked_at_before: AtomicI64,
    /// Who else reads its closed windows.
    pub(super) needed: Mutex<Needed>,
    /// What its commits changed.
    pub(super) log: Changelog,
    /// Its changes are the events of a stream at present.
    pub(super) is_streamed: AtomicBool,
    /// Of a view of another's rows, how it stands to that.
    pub(super) over: Option<Over>,
    /// The views over it.
    pub(super) uppers: RwLock<Vec<Arc<View>>>,
    /// What its rows depend on besides its events.
    pub(super) meaning: u64,
    /// Its commits, which are those of all views that are over one another.
    pub(super) commits: Arc<Commits>,
}

/// The commits of a view of a stream and of all that are over it, which are written together.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// Held while one is written.
    pub(super) writing: Mutex<()>,
    /// Wakes the task that makes them.
    pub(super) nudge: Notify,
    /// Somebody waits for the commit that has all before this position.
    pub(super) awaited: AtomicU64,
}

/// How far a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// The offset of the next event that it looks at.
    pub(crate) position: u64,
    /// When the last event arrived that it looked at; 0: there was none since the start.
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

/// What a view counted since the start.
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

/// Why a view cannot take events.
#[derive(Debug, thiserror::Error)]
pub(super) enum TakeError {
    #[error(transparent)]
    Store(#[from] ViewStoreError),
    #[error("what is kept of a key cannot be read: it is damaged, or of another version")]
    State,
    #[error("its events cannot be joined")]
    Join(#[from] JoinFailure),
    #[error("the events at offset {0} made it fail: this is a fault of the engine")]
    Panic(u64),
}

/// What a view is of.
pub(crate) struct Compiled {
    pub(crate) query: KeyedQuery,
    /// Its columns, by name and type.
    pub(crate) columns: Vec<(Box<str>, Type)>,
    /// What its events are joined with.
    pub(crate) joined: Sources,
}

/// What a view is to be compiled over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'s> {
    /// The events of a stream.
    Stream(&'s CreateStream),
    /// The rows of a view: its name, and its rows as if they were a stream's events.
    View(&'s str, &'s CreateStream),
}

/// What a view makes of its events, with the defaults of their stream put in: where it is the same, its rows are.
#[derive(Debug, PartialEq)]
pub(super) struct ViewPlan {
    query: Query,
    deletes: Option<Expr>,
    pub(super) columns: Option<Vec<(Box<str>, Type)>>,
}

/// Compiles what a view is of, which is created `now`: that is what NOW and UNIXTIMESTAMP() are, whenever it is opened again.
pub(crate) fn compile_view(
    history: &History,
    create: &CreateView,
    source: Source<'_>,
    sizes: SketchSizes,
    now: Millis,
) -> Result<Compiled, EngineError> {
    let stream = match source {
        Source::Stream(stream) => stream,
        Source::View(lower, rows) => {
            check_over(create, lower)?;
            rows
        }
    };
    let (ViewPlan { mut query, deletes, columns }, sources) = plan_view(history, create, stream, now)?;
    let mut counting = None;
    if let Source::View(lower, rows) = source {
        check_timeless(create, rows, &sources.sources.known)?;
        check_columns(&query, lower, rows)?;
        if query.views.iter().any(|view| view.join.is_some()) {
            let message = format!("rows of view `{lower}` cannot be joined with others");
            let hint = "Join the stream that it is of, or join in SQL over both views.";
            let error = QueryError { hint: Some(hint.to_owned()), ..query_error(message) };
            return Err(EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![error]))));
        }
        counting = Some(count_rows(&mut query).map_err(EngineError::Unfit)?);
    }
    let query = StandingQuery::compile_view(query, sizes, deletes.as_ref()).map_err(|error| {
        EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(error.to_string())])))
    })?;
    sources.sources.attach(&query);
    let query = KeyedQuery::new(query, create.options.ttl_ms).map_err(EngineError::Unfit)?;
    let query = match counting {
        Some(counting) => query.of_rows(counting),
        None => query,
    };
    if create.options.retention_ms.is_some() && query.windows().is_none() {
        return Err(EngineError::Unfit(swiftwater_live::Unfit::Retention));
    }
    Ok(Compiled { query, columns: columns.unwrap_or_default(), joined: sources })
}

/// Plans a view that is created `now`, and finds what its events are joined with.
pub(super) fn plan_view(
    history: &History,
    create: &CreateView,
    stream: &CreateStream,
    now: Millis,
) -> Result<(ViewPlan, Sources), EngineError> {
    let schema = stream.is_declared().then(|| stream.schema());
    let options =
        ParseOptions { schema: schema.as_ref(), lists_rows: true, ..ParseOptions::new(Dialect::Native, now) };
    let sources = history.sources_of(&create.query, &options);
    let options = ParseOptions { joined: Some(&sources.sources.known), ..options };
    let (mut statement, columns) = parse_typed(&create.query, &options).map_err(RuntimeError::Query)?;
    let deletes = create.delete_when.as_deref().map(|condition| {
        parse_condition(condition, &options).map_err(|QueryErrors(errors)| {
            // Places are those in the query.
            let within = |error: QueryError| QueryError {
                line: None,
                column: None,
                message: format!("in DELETE WHEN: {}", error.message),
                ..error
            };
            EngineError::Runtime(RuntimeError::Query(QueryErrors(errors.into_iter().map(within).collect())))
        })
    });
    let mut deletes = deletes.transpose()?;
    let defaults = Defaults::of(stream).map_err(RuntimeError::Query)?;
    statement.query.event_exprs_mut().into_iter().chain(&mut deletes).for_each(|expr| defaults.put(expr));
    Ok((ViewPlan { query: statement.query, deletes, columns }, sources))
}

/// A fault of a query as a whole.
pub(crate) fn query_error(message: String) -> QueryError {
    QueryError { line: None, column: None, message, hint: None, excerpt: String::new() }
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
        let part = |_| KeyedPart::new(&query, is_new).map(RwLock::new);
        let parts = (0..PARTS).map(part).collect::<Option<_>>()?;
        let is_untyped = reads_untyped(&query, &stored.declared().create);
        let declared = format!("{:?}", stored.declared().create.columns);
        Some(View {
            meaning: meaning_of(declared, &columns, &entry.create),
            over: None,
            uppers: RwLock::default(),
            commits: Arc::default(),
            stream: stored.name.clone(),
            entry,
            stored,
            query,
            columns,
            joined,
            store,
            parts,
            whole: RwLock::default(),
            at: watch::Sender::new(At { position, arrival: 0, time }),
            committed: AtomicU64::new(position),
            kept: watch::Sender::new(At { position, arrival: 0, time }),
            counts: Counts::default(),
            is_untyped,
            found: Mutex::default(),
            failing: Mutex::default(),
            is_broken: AtomicBool::new(false),
            is_dropped: watch::Sender::new(false),
            has_waited: AtomicBool::new(false),
            is_behind: AtomicBool::new(false),
            rebuilt_at: AtomicU64::new(0),
            looked_at: Mutex::default(),
            told: broadcast::Sender::new(TOLD_MAX),
            looked_at_before: AtomicI64::new(NO_TIME),
            needed: Mutex::default(),
            log: Changelog::default(),
            is_streamed: AtomicBool::new(false),
        })
    }

    /// A view of another's rows. `noted` is its position and what was noted beside it when it was kept last; `lower_at` is
    /// where the other one was. Answers whether what is kept of it is of no use any more.
    pub(crate) fn over(
        entry: ViewEntry,
        lower: &Arc<View>,
        compiled: Compiled,
        noted: Option<&(u64, Vec<u8>)>,
        lower_at: u64,
    ) -> Option<(View, bool)> {
        let meaning = meaning_of(lower.meaning, &compiled.columns, &entry.create);
        let (over, goes_on) = Over::of(lower, noted, meaning, lower_at);
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

    /// Stands there now, and so on disk.
    pub(super) fn stands_at(&self, at: At) {
        self.committed.store(at.position, Ordering::Relaxed);
        self.kept.send_replace(at);
        self.at.send_replace(at);
    }

    /// Lets those who wait for how far it is look again.
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
        *self.is_dropped.borrow()
    }

    /// How far it is.
    pub(crate) fn at(&self) -> At {
        *self.at.borrow()
    }

    /// Tells when that changes.
    pub(crate) fn progress(&self) -> watch::Receiver<At> {
        self.at.subscribe()
    }

    /// Where it stands on disk, and tells when that changes.
    pub(crate) fn kept_at(&self) -> watch::Receiver<At> {
        self.kept.subscribe()
    }

    /// Up to which offset all is on disk.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Why it is not kept or does not go on, if so.
    pub(crate) fn failing(&self) -> Option<String> {
        lock(&self.failing).as_ref().map(|(why, _)| why.clone())
    }

    /// Why it does not go on, and never will.
    pub(crate) fn broken(&self) -> Option<String> {
        self.is_broken.load(Ordering::Acquire).then(|| self.failing()).flatten()
    }

    /// Answers whether that is news.
    pub(super) fn record_failure(&self, why: String, is_for_good: bool) -> bool {
        let mut failing = lock(&self.failing);
        if failing.as_ref().is_some_and(|(_, is_for_good)| *is_for_good) {
            return false;
        }
        let is_news = failing.as_ref().is_none_or(|(before, _)| *before != why);
        *failing = Some((why, is_for_good));
        self.is_broken.store(is_for_good, Ordering::Release);
        is_news
    }

    pub(super) fn record_success(&self) {
        lock(&self.failing).take_if(|(_, is_for_good)| !*is_for_good);
    }

    pub(super) fn part(&self, key: &Key) -> RwLockReadGuard<'_, KeyedPart> {
        self.parts[key.part(PARTS)].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All parts as they are at one position.
    pub(super) fn all_parts(&self) -> Vec<RwLockReadGuard<'_, KeyedPart>> {
        let _one_position = self.whole.read().unwrap_or_else(PoisonError::into_inner);
        // Whoever writes holds one at a time.
        self.parts.iter().map(|part| part.read().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    fn change(&self, part: usize) -> RwLockWriteGuard<'_, KeyedPart> {
        self.parts[part].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys in memory, and the bytes that they take.
    pub(crate) fn held(&self) -> (u64, u64) {
        let parts = self.parts.iter().map(|part| part.read().unwrap_or_else(PoisonError::into_inner));
        parts.fold((0, 0), |(keys, bytes), part| (keys + part.len() as u64, bytes + part.bytes() as u64))
    }

    /// Bytes of keys in memory that changed since the last cut, about.
    pub(super) fn changed_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.read().unwrap_or_else(PoisonError::into_inner));
        parts.map(|part| part.changed_bytes() as u64).sum()
    }

    /// Takes in a batch, whole or not at all; events that it has taken before are passed over. Nothing of the view depends on
    /// `now`: it is when readers find the rows that who listens is told of.
    pub(super) fn take(
        &self,
        shard: &mut swiftwater_live::Shard,
        batch: &EventBatch,
        now: Millis,
    ) -> Result<(), TakeError> {
        let Some(batch) = rest_of(batch, self.at().position) else { return Ok(()) };
        let (batch, first) = (&*batch, batch.meta().first.0);
        let next = first + batch.len() as u64;
        let folded = catch_unwind(AssertUnwindSafe(|| self.query.fold(shard, batch, self.at().time)));
        let mut fold: Fold = folded.map_err(|_| {
            shard.recover();
            TakeError::Panic(first)
        })?;
        if let Some(failure) = fold.failure.take() {
            return Err(failure.into());
        }
        let groups = fold.groups.take();
        let by_part = groups.as_ref().map(|groups| by_part(groups, PARTS, GROUP_KEY_BYTES_MAX));
        let (by_part, long_keys) = by_part.unwrap_or_default();
        if let Some(groups) = &groups {
            // All that may fail comes before the first change.
            for (place, chosen) in by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty()) {
                let lacked =
                    self.parts[place].read().unwrap_or_else(PoisonError::into_inner).lacks(groups, chosen);
                let mut found = Vec::new();
                for key in lacked {
                    found.extend(self.store.get(self.id(), &key.ordered)?.map(|state| (key, state)));
                }
                let mut part = self.change(place);
                for (key, state) in &found {
                    part.load(&self.query, key, state).map_err(|_| TakeError::State)?;
                }
            }
        }
        // Only this task changes the parts, so before and after it they are as they were left.
        let listened = groups.as_ref().filter(|_| self.told.receiver_count() > 0);
        let before = listened.map(|groups| self.shown(groups, &by_part, now));
        let one_position = self.whole.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(groups) = &groups {
            for (place, chosen) in by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty()) {
                self.change(place).merge(&self.query, groups, chosen, (next, batch.meta().arrival));
            }
        }
        let Fold { matched, mistyped, expression_errors, time, late, ahead, .. } = fold;
        for (count, more) in [
            (&self.counts.events, batch.len() as u64),
            (&self.counts.matched, matched),
            (&self.counts.mistyped, mistyped),
            (&self.counts.errors, expression_errors),
            (&self.counts.long_keys, long_keys),
            (&self.counts.late, late),
            (&self.counts.ahead, ahead),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        // Before another may look at all parts: they are told with the position that they have.
        self.at.send_replace(At { position: next, arrival: batch.meta().arrival, time });
        drop(one_position);
        if let Some(groups) = &groups
            && self.told.receiver_count() > 0
        {
            let keys = before.map(|before| {
                let after = self.shown(groups, &by_part, now);
                ToldKey::of_groups(groups, &by_part, before.into_iter().zip(after))
            });
            self.tell(keys, next, false);
        }
        Ok(())
    }

    /// What the rows of the keys of some groups show, part by part.
    fn shown(&self, groups: &GroupTable, by_part: &[Vec<u32>], now: Millis) -> Vec<Shown> {
        let chosen = by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty());
        let shown = chosen.flat_map(|(place, chosen)| {
            let part = self.parts[place].read().unwrap_or_else(PoisonError::into_inner);
            part.shown(&self.query, groups, chosen, now)
        });
        shown.collect()
    }

    /// Whether it has changes that are not committed.
    pub(super) fn is_changed(&self) -> bool {
        let (at, kept) = (self.at(), *self.kept.borrow());
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
    /// they are there, but no reader finds them. Only whoever takes batches in calls this.
    pub(super) fn delete_past(&self, keys_max: usize) -> Result<(), TakeError> {
        // The time of the log, so that nothing depends on the clock. None before the first event since the start.
        let now = self.at().arrival;
        if self.query.ttl_ms().is_none() || now == 0 {
            return Ok(());
        }
        let after = lock(&self.looked_at).take();
        let snapshot = self.store.snapshot(self.id())?;
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut deleted, is_listened_to) = (Vec::new(), self.told.receiver_count() > 0);
        for (place, pair) in snapshot.range((from, Bound::Unbounded)).enumerate() {
            let (ordered, state) = pair?;
            if self.query.is_state_past(&state, now).map_err(|_| TakeError::State)? {
                let key = Key::of_ordered(&ordered).map_err(|_| TakeError::State)?;
                let mut before = None;
                if is_listened_to {
                    before = match self.part(&key).shown_of(&self.query, &key) {
                        Some(shown) => shown,
                        None => {
                            let kept = self.query.shown_by_states([(&ordered[..], Some(&state[..]))]);
                            kept.map_err(|_| TakeError::State)?.into_iter().next().flatten()
                        }
                    };
                }
                // A row that nobody saw, as HAVING left it out, does not go.
                if self.change(key.part(PARTS)).delete_past(&self.query, &key, now) && before.is_some() {
                    deleted.push(ToldKey { key, before, after: None });
                }
            }
            if place + 1 >= keys_max {
                *lock(&self.looked_at) = Some(ordered);
                break;
            }
        }
        if !deleted.is_empty() {
            self.tell(Some(deleted), self.at().position, true);
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
    pub(crate) fn looked_at_before(&self, window: Millis) {
        self.looked_at_before.store(window, Ordering::Relaxed);
    }

    /// What changed since the last cut, and where that is. Only whoever takes batches in calls this.
    pub(super) fn cut(&self) -> (Changes, At) {
        let mut changes = Changes::default();
        for place in 0..self.parts.len() {
            self.change(place).cut(&self.query, &mut changes);
        }
        (changes, self.at())
    }

    /// The last cut is on disk.
    pub(super) fn kept(&self, at: At) {
        let first = self.first_kept(at);
        for place in 0..self.parts.len() {
            let mut part = self.change(place);
            part.kept();
            first.iter().for_each(|first| part.expire(*first));
        }
        let position = at.position;
        self.committed.store(position, Ordering::Relaxed);
        self.kept.send_replace(at);
        self.stored.view_committed(self.id(), position);
        if self.is_rebuilding() {
            self.end_rebuilding();
        }
    }

    /// The last cut is not on disk.
    pub(super) fn put_back(&self) {
        for place in 0..self.parts.len() {
            self.change(place).put_back();
        }
    }

    /// Lets go of what is on disk, where it holds more than so many bytes.
    pub(super) fn evict(&self, bytes_max: usize) {
        let (_, bytes) = self.held();
        if bytes as usize > bytes_max {
            for place in 0..self.parts.len() {
                self.change(place).evict(bytes_max / PARTS / 2);
            }
        }
    }
}

/// Whether a query reads values of a stream's events that have no declared type, and are not declared as JSON either; or of rows
/// that they are joined with.
fn reads_untyped(query: &KeyedQuery, stream: &CreateStream) -> bool {
    let plan = &query.query().plan;
    let is_json = |path: &Path| {
        let mut columns = stream.columns.iter().filter(|column| column.ty == Type::Any);
        columns.any(|column| path.steps().starts_with(column.event_path().steps()))
    };
    let is_untyped = |(path, ty): &(&Path, &Type)| **ty == Type::Any && !is_json(path);
    plan.paths().iter().any(is_untyped) || plan.views.iter().any(|view| view.join.is_some())
}

/// The events of a batch from an offset on; none where all stand before it. What came from the table ends anywhere within what
/// the log has as one batch.
fn rest_of(batch: &EventBatch, from: u64) -> Option<Cow<'_, EventBatch>> {
    let first = batch.meta().first.0;
    let known = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
    if known >= batch.len() {
        return None;
    }
    if known == 0 {
        return Some(Cow::Borrowed(batch));
    }
    let rows: Vec<u32> = (known as u32..batch.len() as u32).collect();
    let meta = EventMeta { first: Offset(from), ..*batch.meta() };
    Some(Cow::Owned(batch.select(&rows).with_meta(meta)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    #[test]
    fn events_that_were_taken_are_left_out() {
        let batch =
            check_block(Bytes::from_static(b"{\"k\":5}\n{\"k\":6}\n{\"k\":7}"), &CheckLimits::default(), 1)
                .batch;
        let batch = batch.with_meta(EventMeta { first: Offset(5), ..EventMeta::default() });
        let left = |from: u64| {
            rest_of(&batch, from).map(|rest| {
                let events: Vec<_> = (0..rest.len()).map(|row| rest.event(row).to_vec()).collect();
                (rest.meta().first.0, String::from_utf8(events.concat()).unwrap())
            })
        };
        let all = (5, "{\"k\":5}{\"k\":6}{\"k\":7}".to_owned());
        for (from, expected) in [
            (0, Some(all.clone())),
            (5, Some(all)),
            (6, Some((6, "{\"k\":6}{\"k\":7}".to_owned()))),
            (7, Some((7, "{\"k\":7}".to_owned()))),
            (8, None),
            (u64::MAX, None),
        ] {
            assert_eq!(left(from), expected, "from {from}");
        }
    }
}
