//! The changes of each commit of a view, for sinks that deliver them: written with the commit, in the same batch, by
//! position and key, while there is such a sink. So no committed change is left out, whatever crashes, and the changes
//! at a position are the same for every reader.
//!
//! A commit compares rows with those on disk, so the log has no row that did not change. It deletes the changes that all
//! sinks have recorded on disk as delivered.
//! Limits: `sinks.changes_max`; beyond it, the oldest changes are deleted, and counted.

use std::{
    collections::HashMap,
    ops::Bound,
    sync::atomic::{AtomicU64, Ordering},
};

use swiftwater_event::Millis;
use swiftwater_live::{Changes, Key};
use swiftwater_views::{PrunedChanges, ViewStoreError, change_at, place_of};

use super::{Portion, View, ViewChange, changefeed::ShownChange};
use crate::EngineError;
use swiftwater_runtime::lock_order::OrderedMutex;

/// No key in the order of its values begins so: a place behind all of a commit.
const BEHIND: &[u8] = &[0xff];

/// The changes of a commit to the change log.
pub(super) struct Logged<'c> {
    /// The place up to which changes are removed from it, and the number of further ones.
    pub(super) done: Vec<u8>,
    pub(super) over: u64,
    /// Keys whose rows show what they showed, in order: these changes do not go into it.
    pub(super) without: Vec<&'c [u8]>,
    /// Changes that do.
    pub(super) changes: usize,
}

/// The sinks for which changes are kept, and the number of changes.
#[derive(Debug, Default)]
pub(super) struct Changelog {
    /// The place up to which each sink has them, by number, as far as that is on disk: after a crash it may want the rest
    /// again. None: the sink that is being created. They are kept while there is one.
    sinks: OrderedMutex<HashMap<Option<u32>, Vec<u8>>>,
    /// Changes that are on disk.
    held: AtomicU64,
    /// Number of changes dropped since the start before all sinks had them.
    lost: AtomicU64,
}

impl Changelog {
    /// The place up to which all sinks have them; none without a sink.
    fn done(&self) -> Option<Vec<u8>> {
        self.sinks.lock().values().min().cloned()
    }

    /// A sink is being created, which wants those behind a place. No commit comes between that it is looked for and kept.
    fn add_pending_sink(&self, after: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let mut sinks = self.sinks.lock();
        let after = after();
        sinks.insert(None, after.clone());
        after
    }

    /// A sink has those up to a place. If the sink is gone, or not known yet, this has no effect.
    fn delivered(&self, sink: u32, place: Vec<u8>) {
        if let Some(delivered) = self.sinks.lock().get_mut(&Some(sink)) {
            *delivered = place;
        }
    }

    /// Sets the sinks; a new one is the one that was being created. Returns true if the last one is gone.
    fn set_sinks(&self, sinks: &[u32]) -> bool {
        let mut known = self.sinks.lock();
        let had_any = !known.is_empty();
        let created = known.remove(&None);
        known.retain(|sink, _| sink.is_some_and(|sink| sinks.contains(&sink)));
        for sink in sinks {
            known.entry(Some(*sink)).or_insert_with(|| created.clone().unwrap_or_default());
        }
        had_any && known.is_empty()
    }
}

impl View {
    /// Retains changes for a sink that is being created; returns the place after which they are.
    pub(crate) fn retain_changes(&self) -> Vec<u8> {
        // Changes cut from here on have a later position, or changed nothing since.
        self.log.add_pending_sink(|| place_of(self.at().position, BEHIND))
    }

    /// A sink has the changes up to a place, and that it has them is on disk.
    pub(crate) fn changes_delivered(&self, sink: u32, place: Vec<u8>) {
        self.log.delivered(sink, place);
    }

    /// These are all the sinks of its changes, by number.
    pub(crate) fn set_sinks_of_changes(&self, sinks: &[u32]) {
        if self.log.set_sinks(sinks) {
            self.log.held.store(0, Ordering::Relaxed);
            if let Err(error) = self.store.delete_log(self.id()) {
                tracing::warn!(view = self.name(), %error, "changes without a sink are deleted at the next start");
            }
        }
    }

    /// Continues with the changes kept before a restart for these sinks, each with the place up to which it has them.
    pub(super) fn resume_changelog(&self, sinks: HashMap<u32, Vec<u8>>) {
        if sinks.is_empty() {
            return;
        }
        let held =
            self.store.log(self.id()).map(|log| log.range((Bound::Unbounded, Bound::Unbounded)).count());
        self.log.held.store(held.unwrap_or(0) as u64, Ordering::Relaxed);
        *self.log.sinks.lock() = sinks.into_iter().map(|(sink, place)| (Some(sink), place)).collect();
    }

    /// Number of changes kept for sinks, and of those dropped too early since the start.
    pub(crate) fn changes_held(&self) -> (u64, u64) {
        (self.log.held.load(Ordering::Relaxed), self.log.lost.load(Ordering::Relaxed))
    }

    /// The changes of the log with this commit, if it may have `changes_max`. None: no changes are kept.
    pub(super) fn log_cut<'c>(
        &self,
        changes: &'c Changes,
        changes_max: u64,
    ) -> Result<Option<Logged<'c>>, ViewStoreError> {
        let Some(done) = self.log.done() else { return Ok(None) };
        let shown = self.shown_changes(changes)?;
        let is_same = |change: &ShownChange<'c>| change.before == change.after;
        let mut without: Vec<&[u8]> =
            shown.iter().filter(|change| is_same(change)).map(|change| change.key).collect();
        without.sort_unstable();
        let changes = changes.len() - without.len();
        let held = self.log.held.load(Ordering::Relaxed) + changes as u64;
        Ok(Some(Logged { done, over: held.saturating_sub(changes_max), without, changes }))
    }

    /// Records the committed changes, and those that were removed from the log with them.
    pub(super) fn log_written(&self, changes: usize, cleared: PrunedChanges) {
        let held = self.log.held.load(Ordering::Relaxed) + changes as u64;
        self.log.held.store(held.saturating_sub(cleared.done + cleared.over), Ordering::Relaxed);
        self.log.lost.fetch_add(cleared.over, Ordering::Relaxed);
    }

    /// The changes of the next commit behind a place, at most so many of them, up to where the view stands on disk. Asked again
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
            let damaged = || self.unavailable("a stored change is damaged, or of another version");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(position: u64) -> Vec<u8> {
        place_of(position, BEHIND)
    }

    #[test]
    fn changes_go_when_all_sinks_have_them_on_disk() {
        let log = Changelog::default();
        assert_eq!(log.done(), None);
        assert_eq!(log.add_pending_sink(|| behind(3)), behind(3));
        assert_eq!(log.done(), Some(behind(3)));
        assert!(!log.set_sinks(&[7]));
        log.delivered(7, behind(9));
        assert_eq!(log.done(), Some(behind(9)));
        // Another one begins before it is known here; the first goes on meanwhile.
        log.add_pending_sink(|| behind(11));
        log.delivered(8, behind(12));
        log.delivered(7, behind(13));
        assert_eq!(log.done(), Some(behind(11)));
        assert!(!log.set_sinks(&[7, 8]));
        assert_eq!(log.done(), Some(behind(11)));
        log.delivered(8, behind(14));
        assert_eq!(log.done(), Some(behind(13)));
        // A delivery of a dropped sink does not count, nor does one of a sink whose creation failed.
        assert!(!log.set_sinks(&[8]));
        log.delivered(7, behind(1));
        log.add_pending_sink(|| behind(13));
        assert!(!log.set_sinks(&[8]));
        assert_eq!(log.done(), Some(behind(14)));
        assert!(log.set_sinks(&[]));
        assert_eq!(log.done(), None);
        assert!(!log.set_sinks(&[]));
    }
}
