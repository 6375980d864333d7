//! What the commits of a view changed, for sinks that deliver it: kept with each commit, in the same write, while there is
//! such a sink. So nothing that was committed is left out, whoever crashes, and what a place of the log has is never another.
//! Limits: `sinks.changes_max`; of more, the oldest are let go of, and counted.

use std::{
    ops::Bound,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use swiftwater_event::Millis;
use swiftwater_live::Key;
use swiftwater_views::{Cleared, change_at, place_of};

use super::{Portion, View, ViewChange};
use crate::{EngineError, stream::lock};

/// No key in the order of its values begins so: a place behind all of a commit.
const BEHIND: &[u8] = &[0xff];

/// Whether changes are kept, and how many.
#[derive(Debug, Default)]
pub(super) struct ChangesLog {
    is_kept: AtomicBool,
    /// What is kept up to here has been delivered to all.
    done: Mutex<Vec<u8>>,
    /// Changes that are on disk.
    held: AtomicU64,
    /// Those that were let go of since the start though not all had them.
    lost: AtomicU64,
}

impl View {
    /// Keeps changes from now on; answers the place after which they are.
    pub(crate) fn keep_changes(&self) -> Vec<u8> {
        self.log.is_kept.store(true, Ordering::Release);
        // What is cut from here on is of a later position, or changed nothing since.
        place_of(self.at().position, BEHIND)
    }

    /// All have what is up to a place; none: nobody wants any.
    pub(crate) fn changes_done(&self, done: Option<Vec<u8>>) {
        let is_kept = done.is_some();
        *lock(&self.log.done) = done.unwrap_or_default();
        if self.log.is_kept.swap(is_kept, Ordering::AcqRel) && !is_kept {
            self.log.held.store(0, Ordering::Relaxed);
            if let Err(error) = self.store.delete_log(self.id()) {
                tracing::warn!(view = self.name(), %error, "changes that no sink wants are deleted at the next start");
            }
        }
    }

    /// Goes on with what was kept before a restart; `done` is as in [`View::changes_done`].
    pub(super) fn go_on_keeping_changes(&self, done: Option<Vec<u8>>) {
        let Some(done) = done else { return };
        let held =
            self.store.log(self.id()).map(|log| log.range((Bound::Unbounded, Bound::Unbounded)).count());
        self.log.held.store(held.unwrap_or(0) as u64, Ordering::Relaxed);
        *lock(&self.log.done) = done;
        self.log.is_kept.store(true, Ordering::Release);
    }

    /// Changes that are kept for sinks, and those that were let go of too early since the start.
    pub(crate) fn changes_held(&self) -> (u64, u64) {
        (self.log.held.load(Ordering::Relaxed), self.log.lost.load(Ordering::Relaxed))
    }

    /// What becomes of the log when so many changes are committed: up to which place, and how many more, go out of it, where
    /// it may have `changes_max`. None: no changes are kept.
    pub(super) fn log_cut(&self, changes: usize, changes_max: u64) -> Option<(Vec<u8>, u64)> {
        let is_kept = self.log.is_kept.load(Ordering::Acquire);
        let held = self.log.held.load(Ordering::Relaxed) + changes as u64;
        is_kept.then(|| (lock(&self.log.done).clone(), held.saturating_sub(changes_max)))
    }

    /// So many changes were committed, and what went out of the log with them.
    pub(super) fn log_written(&self, changes: usize, cleared: Cleared) {
        let held = self.log.held.load(Ordering::Relaxed) + changes as u64;
        self.log.held.store(held.saturating_sub(cleared.done + cleared.over), Ordering::Relaxed);
        self.log.lost.fetch_add(cleared.over, Ordering::Relaxed);
    }

    /// What the next commit behind a place changed, at most so much of it, up to where the view stands on disk. Asked again
    /// it answers the same.
    pub(crate) fn changes_kept(
        &self,
        after: Option<&[u8]>,
        position: u64,
        limit: u64,
        now: Millis,
    ) -> Result<Option<Portion>, EngineError> {
        let log = self.store.log(self.id()).map_err(|error| self.unavailable(error))?;
        let end = place_of(position, BEHIND);
        if after.is_some_and(|after| after >= &end[..]) {
            return Ok(None);
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut portion = Portion { rows: Vec::new(), count: 0, last: Vec::new(), now };
        let mut commit = None;
        for pair in log.range((from, Bound::Excluded(&end[..]))) {
            let (place, state) = pair.map_err(|error| self.unavailable(error))?;
            let damaged = || self.unavailable("a change of it is damaged, or of another version");
            let (of, ordered) = change_at(&place).ok_or_else(damaged)?;
            if commit.is_some_and(|commit| commit != of) || portion.count >= limit {
                break;
            }
            commit = Some(of);
            let key = Key::of_ordered(ordered).map_err(|error| self.unavailable(error))?;
            let row = match state.is_empty() {
                true => None,
                false => {
                    self.query.row_of_state(&key, &state, now).map_err(|error| self.unavailable(error))?
                }
            };
            ViewChange::of(key, row).push_json(of, &mut portion.rows);
            portion.count += 1;
            portion.last = place;
        }
        Ok((portion.count > 0).then_some(portion))
    }
}

impl ViewChange {
    /// Appends the change as a JSON object on a line of its own.
    fn push_json(&self, position: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"key\":");
        out.extend_from_slice(&self.key.json());
        out.extend_from_slice(b",\"row\":");
        out.extend_from_slice(self.row.as_deref().unwrap_or(b"null"));
        out.extend_from_slice(format!(",\"position\":{position}}}\n").as_bytes());
    }
}
