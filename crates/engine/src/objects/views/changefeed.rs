//! The changes of a view, as they happen: for feeds, and as events for live queries over the view.
//!
//! The task that takes a batch announces the keys whose rows it changed ([`ChangedKeys`]). A feed reads the rows when it
//! returns them. So a key that changed several times meanwhile comes once, as it is then, and a key whose row is as
//! before does not come. While a feed exists, rows are compared by hash before and after a batch. A feed remembers the
//! rows that it returned ahead of an announced batch, and does not return them again.
//!
//! A feed that is too slow, or that begins at an earlier position, gets the rows of all keys that had events since; a
//! walk over the view finds them. So a feed needs little memory, and a key's last change is never missed. A walk does
//! not know the earlier rows, so it may return some that did not change.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use swiftwater_event::{Clock, Millis, StreamName};
use swiftwater_live::{Changes, GroupTable, InvalidState, Key, KeyedQuery, Row, RowHash};
use swiftwater_views::ViewStoreError;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{
    View,
    propagate::ROWS_AT_ONCE,
    requests::{ViewReading, Wanted},
};
use crate::{
    AppendOptions, EngineError,
    durable::history::{History, run_blocking},
    shared::Shared,
    supervisor::{StopSignal, TaskKind},
    tables::rows::as_events,
};
use swiftwater_runtime::parts::Stream;

/// Batches that wait for a listener; one that is slower walks over the view instead.
pub(super) const ANNOUNCED_BATCHES_MAX: usize = 32;
/// Keys that are told at once.
const ANNOUNCED_KEYS_MAX: usize = 4096;
/// Keys of a batch that are told, in half the places of who listens; where more changed, they walk.
const BATCH_KEYS_MAX: usize = ANNOUNCED_BATCHES_MAX / 2 * ANNOUNCED_KEYS_MAX;
/// Keys that a feed gave out further than their batches were told of; beyond that it tells some twice.
const AHEAD_KEYS_MAX: usize = 1 << 14;
/// Keys that are looked at in one go of a walk.
const WALK_KEYS: usize = 1 << 16;
/// Rows that are given out at once by a walk.
const WALK_ROWS: usize = 1024;

/// The keys whose rows a batch changed.
#[derive(Debug)]
pub(super) struct ChangedKeys {
    /// The position after the batch.
    position: u64,
    /// The changed keys; none: not known, or too many.
    keys: Option<Vec<ChangedKey>>,
    /// No more keys of the batch come behind these.
    is_last: bool,
    /// True if time changed them, rather than events.
    are_past: bool,
}

/// A key whose row a batch changed: what that showed before the batch, and behind it.
#[derive(Debug)]
pub(super) struct ChangedKey {
    pub(super) key: Key,
    pub(super) before: RowHash,
    pub(super) after: RowHash,
}

/// A key whose state a commit changes, and what its row shows before and behind it.
#[derive(Debug)]
pub(super) struct ShownChange<'c> {
    /// The key in the order of its values.
    pub(super) key: &'c [u8],
    pub(super) before: RowHash,
    pub(super) after: RowHash,
}

/// A key that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewChange {
    /// It.
    pub key: Key,
    /// Its row as it is now, a JSON object; none where it has none any more.
    pub row: Option<Vec<u8>>,
}

/// A part of a view's changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewChangesSome {
    /// A key is among them once.
    pub changes: Vec<ViewChange>,
    /// The position up to which all changes were returned with these: a feed can continue from here. None: more belong
    /// to them. None: more belong to them.
    pub position: Option<u64>,
    /// They end a walk, which does not find keys that are no longer there.
    pub ends_walk: bool,
}

/// The changes of a view, one after another.
pub struct ViewChanges {
    view: Arc<View>,
    clock: Arc<dyn Clock>,
    /// The engine is ending.
    closing: StopSignal,
    receiver: Receiver<Arc<ChangedKeys>>,
    /// All changes before this position were given.
    given: u64,
    walk: Option<Walk>,
    /// Hashes of returned rows that were newer than the batch that announced them: the next change of such a key may
    /// have been returned already.
    ahead: HashMap<Vec<u8>, RowHash>,
    /// Rows may have been given that are further than this position, and it is not known which: all that is told of is given, up
    /// to the first batch behind it.
    unsure: Option<u64>,
}

/// A walk over the view, for what changed since [`ViewChanges::given`].
#[derive(Debug, Default)]
struct Walk {
    /// The view was there when the walk began.
    until: u64,
    /// The last key that was looked at.
    after: Option<Vec<u8>>,
}

impl ChangedKey {
    /// The merged groups whose row changed; `shown` is that before and after, in their order.
    pub(super) fn of_groups(
        groups: &GroupTable,
        by_part: &[Vec<u32>],
        shown: impl Iterator<Item = (RowHash, RowHash)>,
    ) -> Vec<ChangedKey> {
        let changed = by_part.iter().flatten().zip(shown).filter(|(_, (before, after))| before != after);
        let told = changed.map(|(&group, (before, after))| {
            let key = Key::of_group(groups.key(group as usize));
            ChangedKey { key, before, after }
        });
        told.collect()
    }

    /// The same of a commit's changes.
    pub(super) fn of_shown(changes: &[ShownChange<'_>]) -> Result<Vec<ChangedKey>, InvalidState> {
        let changed = changes.iter().filter(|change| change.before != change.after);
        let told = changed.map(|&ShownChange { key, before, after }| {
            Ok(ChangedKey { key: Key::of_ordered(key)?, before, after })
        });
        told.collect()
    }
}

impl View {
    /// Announces the changed keys to the listeners, in parts; none: not known. `are_past`: they expired.
    pub(super) fn announce(&self, keys: Option<Vec<ChangedKey>>, position: u64, are_past: bool) {
        let told = |keys, is_last| {
            // Without listeners the send has no effect.
            let _ = self.listeners.send(Arc::new(ChangedKeys { position, keys, is_last, are_past }));
        };
        let Some(mut keys) = keys.filter(|keys| are_past || keys.len() <= BATCH_KEYS_MAX) else {
            return told(None, true);
        };
        while keys.len() > ANNOUNCED_KEYS_MAX {
            let rest = keys.split_off(ANNOUNCED_KEYS_MAX);
            told(Some(std::mem::replace(&mut keys, rest)), false);
        }
        told(Some(keys), true);
    }

    /// The rows of the keys that a commit changes, on disk and with the commit. One whose state on disk cannot be read counts
    /// as changed.
    pub(super) fn shown_changes<'c>(
        &self,
        changes: &'c Changes,
    ) -> Result<Vec<ShownChange<'c>>, ViewStoreError> {
        let all: Vec<(&[u8], Option<&[u8]>)> = changes.iter().collect();
        let mut shown = Vec::with_capacity(all.len());
        for some in all.chunks(ROWS_AT_ONCE) {
            let kept = some.iter().map(|(key, _)| self.store.get(self.id(), key));
            let kept = kept.collect::<Result<Vec<_>, _>>()?;
            let before = some.iter().zip(&kept).map(|((key, _), state)| (*key, state.as_deref()));
            let before = self.query.shown_by_states(before);
            let after = self.query.shown_by_states(some.iter().copied());
            let (before, after) = match (before, after) {
                (Ok(before), Ok(after)) => (before, after),
                _ => (vec![None; some.len()], vec![Some(0); some.len()]),
            };
            let keys = some.iter().map(|(key, _)| *key);
            let pairs = keys.zip(before).zip(after);
            shown.extend(pairs.map(|((key, before), after)| ShownChange { key, before, after }));
        }
        Ok(shown)
    }
}

impl View {
    /// Some of the keys that changed at or after `since`, in order, behind `after`; and the last key read, if there are
    /// more.
    fn changed_since(
        &self,
        since: u64,
        after: Option<&[u8]>,
        now: Millis,
    ) -> Result<(Vec<ViewChange>, Option<Vec<u8>>), EngineError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut changes, mut looked_at, mut last) = (Vec::new(), 0, None);
        let (_, is_end) = self.walk((from, Bound::Unbounded), |ordered, state| {
            let changed = KeyedQuery::changed_of_state(state).map_err(|error| self.unavailable(error))?;
            if changed > since {
                let key = Key::of_ordered(&ordered).map_err(|error| self.unavailable(error))?;
                let row = self.query.row_of_state(&key, state, now);
                changes.push(ViewChange::of(key, row.map_err(|error| self.unavailable(error))?));
            }
            last = Some(ordered);
            looked_at += 1;
            let is_enough = looked_at >= WALK_KEYS || changes.len() >= WALK_ROWS;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok((changes, last.filter(|_| !is_end)))
    }
}

impl ViewChange {
    pub(crate) fn of(key: Key, row: Option<Row>) -> ViewChange {
        ViewChange { key, row: row.map(|row| row.json) }
    }
}

impl ViewChanges {
    /// The changes after position `from`, or after now.
    pub(crate) fn of(history: &History, view: Arc<View>, from: Option<u64>) -> ViewChanges {
        // Before the position is looked at: nothing falls between.
        let told = view.listeners.subscribe();
        let position = view.at().position;
        let given = from.unwrap_or(position);
        let walk = (given < position).then_some(Walk { until: position, after: None });
        let (clock, closing) = (Arc::clone(&history.clock), history.closing());
        ViewChanges { view, clock, closing, receiver: told, given, walk, ahead: HashMap::new(), unsure: None }
    }

    /// The position up to which all was returned.
    pub fn position(&self) -> u64 {
        self.given
    }

    /// The progress of the view.
    pub fn reading(&self) -> ViewReading {
        self.view.reading(self.view.at(), self.clock.now())
    }

    /// The next changes; waits until there are any. None when the view was dropped, or the engine ends. Nothing is lost where this is left off.
    pub async fn next(&mut self) -> Result<Option<ViewChangesSome>, EngineError> {
        let view = Arc::clone(&self.view);
        let dropped = &view.dropped;
        loop {
            if dropped.is_sent() || self.closing.is_sent() {
                return Ok(None);
            }
            if let Some(why) = self.view.broken() {
                return Err(self.view.unavailable(why));
            }
            if !self.view.is_whole() {
                tokio::select! {
                    () = self.view.filled() => {}
                    () = dropped.received() => {}
                    () = self.closing.received() => {}
                }
                continue;
            }
            if self.walk.is_some() {
                let some = run_blocking(usize::MAX, || self.continue_walk())?;
                if some.position.is_some() || !some.changes.is_empty() {
                    return Ok(Some(some));
                }
                tokio::task::yield_now().await;
                continue;
            }
            let told = tokio::select! {
                told = self.receiver.recv() => told,
                () = dropped.received() => return Ok(None),
                () = self.closing.received() => return Ok(None),
            };
            match told {
                Ok(told) if told.position <= self.given && !told.are_past => {}
                Ok(told) => match &told.keys {
                    Some(keys) => {
                        let changes = run_blocking(usize::MAX, || self.rows_of(&told, keys))?;
                        if told.is_last {
                            self.given = self.given.max(told.position);
                        }
                        let position = told.is_last.then_some(self.given);
                        return Ok(Some(ViewChangesSome { changes, position, ends_walk: false }));
                    }
                    None => self.walk_from_here(),
                },
                Err(RecvError::Lagged(_)) => self.walk_from_here(),
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }

    /// The rows of keys that a batch changed, as they are now, but for those that are what was given of them before.
    fn rows_of(&mut self, told: &ChangedKeys, keys: &[ChangedKey]) -> Result<Vec<ViewChange>, EngineError> {
        let is_unsure = self.unsure.is_some();
        if self.unsure.is_some_and(|until| told.position > until && told.is_last) {
            self.unsure = None;
        }
        let (now, mut changes) = (self.clock.now(), Vec::new());
        for ChangedKey { key, before, after } in keys {
            let row = self.view.row(key, now)?;
            let shown = row.as_ref().and_then(Row::shown);
            let given = self.ahead.remove(&key.ordered).unwrap_or(*before);
            if shown != *after {
                if self.ahead.len() >= AHEAD_KEYS_MAX {
                    self.forget_returned();
                }
                self.ahead.insert(key.ordered.clone(), shown);
            }
            if shown != given || is_unsure {
                changes.push(ViewChange::of(key.clone(), row));
            }
        }
        Ok(changes)
    }

    fn forget_returned(&mut self) {
        self.ahead.clear();
        self.unsure = Some(self.view.at().position);
    }

    fn walk_from_here(&mut self) {
        self.walk = Some(Walk { until: self.view.at().position, after: None });
    }

    fn continue_walk(&mut self) -> Result<ViewChangesSome, EngineError> {
        let Some(walk) = &mut self.walk else { return Ok(ViewChangesSome::default()) };
        let (changes, after) =
            self.view.changed_since(self.given, walk.after.as_deref(), self.clock.now())?;
        match after {
            Some(after) => {
                walk.after = Some(after);
                Ok(ViewChangesSome { changes, position: None, ends_walk: false })
            }
            None => {
                self.given = self.given.max(walk.until);
                self.walk = None;
                self.forget_returned();
                Ok(ViewChangesSome { changes, position: Some(self.given), ends_walk: true })
            }
        }
    }
}

impl History {
    /// The changes of a view after a position, or from now on. A position that the log has not come to is refused: it is of another
    /// stream, or of one that was restored since, and its changes might never come.
    pub(crate) async fn view_changes(
        self: &Arc<Self>,
        name: &str,
        from: Option<u64>,
    ) -> Result<ViewChanges, EngineError> {
        let view = self.view_as(name, Wanted::AsItIs).await?;
        let end = view.stored.next().max(view.at().position);
        if let Some(position) = from.filter(|position| *position > end) {
            return Err(EngineError::BeyondEnd { stream: view.stream.to_string(), position, end });
        }
        Ok(ViewChanges::of(self, view, from))
    }

    /// True if there is a view of this name.
    pub(crate) fn is_view(&self, name: &str) -> bool {
        self.objects.views.read().contains_key(name)
    }

    /// Streams the changes of a view's rows as events to the queries over its name, from now on.
    pub(crate) fn stream_view(self: &Arc<Self>, name: &StreamName) {
        let Ok(view) = self.view(name.as_str()) else { return };
        // Before the engine is given out no query is running.
        let Some(shared) = self.engine.get() else { return };
        if !view.is_streamed.swap(true, Ordering::AcqRel) {
            let changes = ViewChanges::of(self, view, None);
            let (shared, name) = (Weak::clone(shared), name.clone());
            self.supervisor
                .spawn(TaskKind::Reader, async move { stream_changes(changes, &shared, &name).await });
        }
    }

    /// As [`History::stream_view`], for a new view that queries named before it existed. Later queries find the view
    /// themselves.
    pub(super) fn stream_new_view(self: &Arc<Self>, view: &View) {
        // Before the engine is given out, as views are opened at its start, no query is running.
        let Some(shared) = self.engine.get().and_then(Weak::upgrade) else { return };
        let Ok(name) = StreamName::new(view.name()) else { return };
        if asked(&shared, &name).is_some() {
            self.stream_view(&name);
        }
    }
}

/// The stream of this name, if queries stand over it.
fn asked(shared: &Shared, name: &StreamName) -> Option<Arc<Stream>> {
    shared.find_stream(name).filter(|stream| stream.running_count() > 0)
}

/// Appends the rows of changes to a stream, until no query is running over it.
async fn stream_changes(mut changes: ViewChanges, shared: &Weak<Shared>, name: &StreamName) {
    let view = Arc::clone(&changes.view);
    let is_streamed: &AtomicBool = &view.is_streamed;
    while let Ok(Some(some)) = changes.next().await {
        let Some(shared) = shared.upgrade() else { return };
        let stream = match asked(&shared, name) {
            Some(stream) => stream,
            None => {
                is_streamed.store(false, Ordering::Release);
                // One that came meanwhile has found that there is somebody, or finds that there is nobody.
                match asked(&shared, name) {
                    Some(stream) if !is_streamed.swap(true, Ordering::AcqRel) => stream,
                    _ => return,
                }
            }
        };
        let mut text = Vec::new();
        for row in some.changes.iter().filter_map(|change| change.row.as_ref()) {
            text.extend_from_slice(row);
            text.push(b'\n');
        }
        if text.is_empty() {
            continue;
        }
        let batch = run_blocking(text.len(), || as_events(text));
        let bytes = batch.bytes().len();
        if shared.enter(bytes).await.is_err() {
            return;
        }
        // A later query for its name means another view.
        if view.has_ended() {
            shared.leave(bytes);
            return;
        }
        let (_, is_new_in_line) = stream.append(batch, shared.clock.now_micros(), &AppendOptions::default());
        if is_new_in_line {
            shared.enqueue(stream);
        }
    }
    is_streamed.store(false, Ordering::Release);
}
