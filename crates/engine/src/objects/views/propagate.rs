//! Propagates the commit of a view to the views over it.
//!
//! For each changed key, each view over the committed one removes the old row from its groups and adds the new row. The same
//! commit writes the resulting changes, which in turn propagate to the views over that one. Nothing is kept in memory: a
//! retry of a failed commit recomputes these changes from the state on disk.

use std::{
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use swiftwater_event::{CheckLimits, Millis, check_block};
use swiftwater_live::{
    Changes, GroupTable, InvalidState, Key, NO_TIME, RowsChanges, RowsError, RowsFold, Shard, ViewTime,
};
use swiftwater_views::{Commit, LogSnapshot, ViewSnapshot, ViewStoreError};

use super::{
    changefeed::ChangedKey,
    changelog::Logged,
    derived::{CountedRows, DerivedFrom},
    view::{At, GROUP_KEY_BYTES_MAX, View},
};

/// Rows that are there already which are taken in with one commit.
const FILLED_KEYS: usize = 1 << 16;

/// Rows of the view below that are made at once, and the bytes of their states.
pub(super) const ROWS_AT_ONCE: usize = 1024;
const ROWS_BYTES: usize = 4 << 20;

/// The changes that a commit makes in a view over the committed one.
pub(super) struct PropagatedChanges {
    view: Arc<View>,
    changes: RowsChanges,
    /// The keys whose rows show something else then, for who listens; none where nobody did.
    changed: Option<Vec<ChangedKey>>,
    counted: CountedRows,
    /// Rows that came, those that it is of, and what was wrong with them.
    counts: [u64; 4],
}

/// The reason why rows cannot be taken in.
#[derive(Debug, thiserror::Error)]
enum PropagateError {
    #[error(transparent)]
    Store(#[from] ViewStoreError),
    #[error("the state of the view below cannot be read: it is damaged, or of another version")]
    Below(#[from] InvalidState),
    #[error("its state does not match the rows of the view below; the next start rebuilds it")]
    Own,
    #[error("the rows of the view below caused a panic: this is a fault of the engine")]
    Panic,
}

impl View {
    /// Writes what changed, and what that changes in the views over it, all or nothing. Waits for the disk.
    pub(super) fn write(
        self: &Arc<View>,
        changes: &Changes,
        at: At,
        changes_max: u64,
    ) -> Result<Vec<PropagatedChanges>, ViewStoreError> {
        let _alone = self.commits.writing.lock();
        let (before, mut raised) = (*self.committed_at().borrow(), Vec::new());
        for upper in self.uppers() {
            upper.raise(self, changes, (before, at), &mut raised)?;
        }
        // The note beside the position is the time, which is the same in a replay.
        let note = self.encode_checkpoint(at);
        let below = self.lowest_needed(at);
        let notes: Vec<Vec<u8>> =
            raised.iter().map(|raised| raised.counted.encode(raised.view.meaning)).collect();
        let own = (self, changes);
        let written: Vec<(&Arc<View>, &Changes)> = [own]
            .into_iter()
            .chain(raised.iter().map(|raised| (&raised.view, &raised.changes.states)))
            .collect();
        let cuts = written.iter().map(|(view, changes)| view.log_cut(changes, changes_max));
        let cuts = cuts.collect::<Result<Vec<Option<Logged<'_>>>, _>>()?;
        let all_notes = [&note[..]].into_iter().chain(notes.iter().map(|note| &note[..]));
        let commits = written.iter().zip(all_notes).zip(&cuts).enumerate();
        let commits = commits.map(|(place, (((view, changes), note), cut))| Commit {
            view: view.id(),
            changes: changes.iter(),
            position: at.position,
            note,
            // Windows go out of the view that has them.
            below: below.as_deref().filter(|_| place == 0),
            log: cut.as_ref().map(|cut| LogSnapshot {
                done: &cut.done,
                over: cut.over,
                without: &cut.without,
            }),
        });
        let cleared = self.store.commit_all(&commits.collect::<Vec<_>>())?;
        for (((view, _), cleared), cut) in written.iter().zip(cleared).zip(&cuts) {
            if let Some(cut) = cut {
                view.log_written(cut.changes, cleared);
            }
        }
        Ok(raised)
    }

    /// The least key of the windows that readers find; none where all are.
    fn lowest_kept(&self, at: At) -> Option<Vec<u8>> {
        self.first_kept(at).map(|first| Key::of_window(first).ordered)
    }

    /// The least key of the windows that stay on disk, as readers find them or a sink or an alert needs them; none where all do.
    fn lowest_needed(&self, at: At) -> Option<Vec<u8>> {
        let (kept, needed) = (self.first_kept(at)?, self.first_needed());
        let first = needed.map_or(kept, |needed| needed.min(kept));
        (first != NO_TIME).then(|| Key::of_window(first).ordered)
    }

    /// Appends what changes in this view, and those over it, where what is kept of the view below changes so. One that
    /// cannot go on is left out from then on.
    fn raise(
        self: &Arc<View>,
        lower: &View,
        changes: &Changes,
        times: (At, At),
        all: &mut Vec<PropagatedChanges>,
    ) -> Result<(), ViewStoreError> {
        if !self.is_at_work() || !lower.is_whole() {
            return Ok(());
        }
        let raised = catch_unwind(AssertUnwindSafe(|| self.changes_by(lower, changes, times)));
        let raised = match raised.unwrap_or(Err(PropagateError::Panic)) {
            Ok(raised) => raised,
            Err(PropagateError::Store(error)) => return Err(error),
            Err(error) => {
                self.break_off(&error.to_string(), true);
                return Ok(());
            }
        };
        for upper in self.uppers() {
            upper.raise(self, &raised.changes.states, times, all)?;
        }
        all.push(raised);
        Ok(())
    }

    fn changes_by(
        self: &Arc<View>,
        lower: &View,
        changes: &Changes,
        (before, after): (At, At),
    ) -> Result<PropagatedChanges, PropagateError> {
        let counted = self.over.as_ref().map_or(CountedRows::All, DerivedFrom::counted);
        let snapshot = lower.store.snapshot(lower.id())?;
        let mut folding = RowFold::new(self, lower)?;
        // Rows of windows that are no longer kept are not there, whenever they are deleted.
        let (low_before, low) = (lower.lowest_kept(before), lower.lowest_kept(after));
        let then = folding.fill(&snapshot, &counted, low.as_deref())?;
        if let Some(low) = low.as_ref().filter(|low| low_before.as_ref() != Some(low)) {
            let from = low_before.as_deref().map_or(Bound::Unbounded, Bound::Included);
            for pair in snapshot.range((from, Bound::Excluded(&low[..]))) {
                let (key, state) = pair?;
                if !counted.has(&key) {
                    break;
                }
                folding.add_row(&key, &state, false)?;
            }
        }
        // A key comes once among those that are made at once.
        folding.flush()?;
        for (key, state) in changes.iter() {
            if !then.has(key) || low.as_ref().is_some_and(|low| key < &low[..]) {
                continue;
            }
            if let Some(old) = snapshot.get(key)? {
                folding.add_row(key, &old, false)?;
            }
            if let Some(new) = state {
                folding.add_row(key, new, true)?;
            }
        }
        folding.flush()?;
        let RowFold { fold, rows_came, .. } = folding;
        let state_of = |key: &Key| self.store.get(self.id(), &key.ordered);
        let changes = self.query.changes_by_rows(&fold, after.position, GROUP_KEY_BYTES_MAX, state_of);
        let changes = changes.map_err(|error| match error {
            RowsError::Kept(error) => PropagateError::Store(error),
            RowsError::State(_) | RowsError::NotThere => PropagateError::Own,
        })?;
        let told = match self.listeners.receiver_count() {
            0 => None,
            _ => Some(ChangedKey::of_shown(&self.shown_changes(&changes.states)?)?),
        };
        let counts = [rows_came, fold.matched, fold.mistyped, fold.expression_errors];
        Ok(PropagatedChanges { view: Arc::clone(self), changes, changed: told, counted: then, counts })
    }

    /// The propagated changes are on disk, with those that they follow from.
    fn committed_raised(&self, raised: PropagatedChanges, at: At) {
        let Some(over) = &self.over else { return };
        let counts = &self.counts;
        let [came, matched, mistyped, errors] = raised.counts;
        for (count, more) in [
            (&counts.events, came),
            (&counts.matched, matched),
            (&counts.mistyped, mistyped),
            (&counts.errors, errors),
            (&counts.long_keys, raised.changes.long_keys),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        self.record_success();
        let was_whole = self.is_whole();
        over.counts(raised.counted);
        if !self.is_whole() {
            return;
        }
        self.is_behind.store(false, Ordering::Relaxed);
        self.set_position(At { time: ViewTime::default(), ..at });
        if self.listeners.receiver_count() > 0 && !(was_whole && raised.changes.keys.is_empty()) {
            self.announce(raised.changed.filter(|_| was_whole), at.position, false);
        }
    }
}

/// The changes that were written together with a view's are on disk.
pub(super) fn committed_all(raised: Vec<PropagatedChanges>, at: At) {
    // The lower ones come last.
    for raised in raised.into_iter().rev() {
        Arc::clone(&raised.view).committed_raised(raised, at);
    }
}

/// Rows of the view below on their way into a view.
struct RowFold<'v> {
    view: &'v View,
    lower: &'v View,
    shard: Shard,
    fold: RowsFold,
    /// The groups of deleted rows and of added rows, and the bytes of their states.
    made_of: [(GroupTable, usize); 2],
    rows_came: u64,
}

impl<'v> RowFold<'v> {
    fn new(view: &'v View, lower: &'v View) -> Result<RowFold<'v>, PropagateError> {
        let no_groups = || lower.query.no_groups().map(|groups| (groups, 0)).ok_or(InvalidState);
        let made_of = [no_groups()?, no_groups()?];
        let (shard, fold) = (Shard::default(), RowsFold::default());
        Ok(RowFold { view, lower, shard, fold, made_of, rows_came: 0 })
    }

    /// Takes in the next rows that are there already, where the view lacks any, from the lowest key on. Returns the part
    /// that it then counts.
    fn fill(
        &mut self,
        snapshot: &ViewSnapshot,
        counted: &CountedRows,
        low: Option<&[u8]>,
    ) -> Result<CountedRows, PropagateError> {
        let CountedRows::UpTo(last) = counted else { return Ok(CountedRows::All) };
        let from = match (last.as_deref(), low) {
            (Some(last), low) if low.is_none_or(|low| last >= low) => Bound::Excluded(last),
            (_, Some(low)) => Bound::Included(low),
            (_, None) => Bound::Unbounded,
        };
        for (place, pair) in snapshot.range((from, Bound::Unbounded)).enumerate() {
            let (key, state) = pair?;
            self.add_row(&key, &state, true)?;
            if place + 1 >= FILLED_KEYS {
                return Ok(CountedRows::UpTo(Some(key)));
            }
        }
        Ok(CountedRows::All)
    }

    /// Takes in the row of a key that came, or went.
    fn add_row(&mut self, key: &[u8], state: &[u8], came: bool) -> Result<(), PropagateError> {
        let (groups, bytes) = &mut self.made_of[usize::from(came)];
        // Expiry is not checked: the row of an expired key exists until it is deleted.
        self.lower.query.add_state(groups, key, state, Millis::MIN)?;
        *bytes += state.len();
        if groups.len() >= ROWS_AT_ONCE || *bytes >= ROWS_BYTES {
            self.flush_one(came)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PropagateError> {
        self.flush_one(false)?;
        self.flush_one(true)
    }

    fn flush_one(&mut self, came: bool) -> Result<(), PropagateError> {
        let (groups, bytes) = &mut self.made_of[usize::from(came)];
        if groups.is_empty() {
            return Ok(());
        }
        *bytes = 0;
        let groups = std::mem::replace(groups, self.lower.query.no_groups().ok_or(InvalidState)?);
        // The input of a view over a view does not depend on the time.
        let rows = self.lower.query.rows(groups, 0);
        if came {
            self.rows_came += rows.count;
        }
        if rows.count > 0 {
            let limits =
                CheckLimits { event_bytes_max: usize::MAX, depth_max: 512, ..CheckLimits::default() };
            let rows = check_block(rows.text, &limits, 1).batch;
            self.view.query.fold_rows(&mut self.shard, &rows, came, &mut self.fold);
        }
        Ok(())
    }
}
