//! Alerts on views with windows: evaluates the condition once per window, group by group, when the window is closed and on
//! disk.
//!
//! A group is identified by its key without the window's start. A group that meets the condition continues to meet it until
//! the next closed window in which it does not, or has no row. Windows close in sequence, even those into which no event of
//! any group falls. The groups of a window are read in key order, as are the groups that meet the condition. The end of the
//! last read therefore determines which of them were evaluated.

use std::{ops::Bound, sync::atomic::Ordering};

use swiftwater_event::Millis;
use swiftwater_live::{Key, Shard, ViewWindows};

use super::{
    Alert,
    alert::{NotificationTarget, WatchError},
    state::AlertState,
};
use crate::{
    EngineError,
    durable::history::{History, run_blocking},
    objects::views::{At, ClosedGroups, NeededBy, ViewChange},
};

/// Groups that are looked at in one go.
const LOOK_GROUPS: u64 = 4096;

/// The view need not keep windows before the one that was looked at last, now that this is on disk.
pub(super) fn need_windows(alert: &Alert, known: &AlertState) {
    let looked_at = known.last.as_deref().and_then(Key::window_of_ordered);
    if !alert.has_own_view() {
        let first = looked_at.or(alert.entry.from);
        alert.view.needs_windows_from(NeededBy::Alert(alert.entry.id), first);
    } else if let Some(window) = looked_at {
        alert.view.release_before(window);
    }
}

impl History {
    /// Checks each closed window, until no message is left.
    pub(super) async fn watch_windows(
        &self,
        alert: &Alert,
        (told, known): (&NotificationTarget, &mut AlertState),
        windows: ViewWindows,
    ) -> Result<(), WatchError> {
        let (mut kept, mut shard) = (alert.view.committed_at(), Shard::default());
        loop {
            let at = *kept.borrow_and_update();
            loop {
                let (after, from, now) = (known.last.as_deref(), alert.entry.from, self.clock.now());
                let read = || alert.view.closed_groups(after, from, at.latest(), LOOK_GROUPS, now);
                let Some(groups) = run_blocking(usize::MAX, read)? else { break };
                run_blocking(usize::MAX, || {
                    self.look_at_groups(alert, known, &mut shard, &windows, groups, now)
                })?;
                known.position = at.position;
                self.persist_state(alert, known).await?;
                need_windows(alert, known);
                self.send_messages(alert, told, known).await?;
            }
            self.look_behind_last(alert, known, &windows, at)?;
            known.position = at.position;
            if known.has_changed() {
                self.persist_and_notify(alert, (told, &mut *known)).await?;
            }
            alert.counts.position.store(known.position, Ordering::Relaxed);
            alert.counts.met.store(known.met() as u64, Ordering::Relaxed);
            alert.tries.record_success();
            need_windows(alert, known);
            if let Some(why) = alert.view.broken() {
                return Err(alert.view.unavailable(why).into());
            }
            if kept.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn persist_and_notify(
        &self,
        alert: &Alert,
        (told, known): (&NotificationTarget, &mut AlertState),
    ) -> Result<(), WatchError> {
        self.persist_state(alert, known).await?;
        self.send_messages(alert, told, known).await
    }

    fn look_at_groups(
        &self,
        alert: &Alert,
        known: &mut AlertState,
        shard: &mut Shard,
        windows: &ViewWindows,
        groups: ClosedGroups,
        now: Millis,
    ) -> Result<(), EngineError> {
        let last = known.last.as_deref();
        let same_window = last.and_then(Key::window_of_ordered) == Some(groups.window);
        if !same_window {
            self.end_window(alert, known, windows, groups.window, now)?;
        }
        let after = known.last.as_deref().filter(|_| same_window).map(Key::within_window).transpose();
        let after = after.map_err(|error| alert.view.unavailable(error))?;
        let from = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(&after.ordered[..]));
        let to = groups.groups.last().map_or(Bound::Unbounded, |last| Bound::Included(&last.key.ordered[..]));
        let is_there =
            |key: &Vec<u8>| groups.groups.binary_search_by(|group| group.key.ordered.cmp(key)).is_ok();
        let gone: Vec<Vec<u8>> =
            known.met_between((from, to)).filter(|key| !is_there(key)).cloned().collect();
        self.resolve(alert, known, gone, now)?;
        let meets = alert.meet(shard, &groups.groups);
        let passed_over = known.apply(alert, &groups.groups, &meets, (self.config.alert_keys_max, now));
        alert.counts.passed_over.fetch_add(passed_over, Ordering::Relaxed);
        known.last = Some(groups.last);
        Ok(())
    }

    /// All windows up to the first open one were looked at: what is left of the last of them that has groups, and those behind
    /// it, has none.
    fn look_behind_last(
        &self,
        alert: &Alert,
        known: &mut AlertState,
        windows: &ViewWindows,
        at: At,
    ) -> Result<(), EngineError> {
        match windows.first_open(at.latest()) {
            Some(open) => self.end_window(alert, known, windows, open, self.clock.now()),
            None => Ok(()),
        }
    }

    /// Groups that meet the condition and have no row in what is left of the last window, or in one between that and `next`,
    /// do not meet it any more.
    fn end_window(
        &self,
        alert: &Alert,
        known: &mut AlertState,
        windows: &ViewWindows,
        next: Millis,
        now: Millis,
    ) -> Result<(), EngineError> {
        let Some(last) = &known.last else { return Ok(()) };
        let window = Key::window_of_ordered(last)
            .ok_or_else(|| alert.view.unavailable("the state of its alert is damaged"))?;
        let behind = match windows.next(window) < next {
            true => None,
            false => Some(Key::within_window(last).map_err(|error| alert.view.unavailable(error))?),
        };
        let from = behind.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last.ordered[..]));
        let gone: Vec<Vec<u8>> = known.met_between((from, Bound::Unbounded)).cloned().collect();
        self.resolve(alert, known, gone, now)
    }

    /// Groups without a row in a window.
    fn resolve(
        &self,
        alert: &Alert,
        known: &mut AlertState,
        gone: Vec<Vec<u8>>,
        now: Millis,
    ) -> Result<(), EngineError> {
        let change = |ordered: Vec<u8>| match Key::of_ordered(&ordered) {
            Ok(key) => Ok(ViewChange::of(key, None)),
            Err(error) => Err(alert.view.unavailable(error)),
        };
        let changes: Vec<ViewChange> = gone.into_iter().map(change).collect::<Result<_, _>>()?;
        let meets = vec![false; changes.len()];
        known.apply(alert, &changes, &meets, (self.config.alert_keys_max, now));
        Ok(())
    }
}
