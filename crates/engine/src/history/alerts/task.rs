//! Alerts as they go on, and end.

use std::sync::{Arc, Weak, atomic::Ordering};

use swiftwater_event::Millis;
use swiftwater_live::Shard;
use swiftwater_views::ViewStoreError;

use super::{
    Alert,
    alert::{Told, WatchError},
    state::AlertState,
    windows::need_windows,
};
use crate::{
    history::{
        durable::{History, causes, heavy},
        views::{ViewChanges, ViewChangesSome},
    },
    shared::Shared,
};

/// While nothing is to be told, the position goes to disk so often: after a crash the view is looked at from there on.
const POSITION_EVERY_MS: Millis = 10_000;

impl History {
    pub(super) async fn keep_alert(&self, shared: &Weak<Shared>, alert: &Arc<Alert>) {
        let (mut closing, mut dropped) = (self.closing(), alert.is_dropped.subscribe());
        if alert.store.is_lost(alert.entry.id) {
            // Which keys are firing, and up to which number that was told, is known from there alone.
            let why = "its files were damaged: which of its messages were told is not known any more; DROP it and CREATE it again";
            alert.tries.failed(why.to_owned());
            tracing::error!(alert = alert.name(), why, "an alert does not go on");
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => {}
            }
        }
        loop {
            if *dropped.borrow() {
                break;
            }
            let watched = tokio::select! {
                watched = self.watch(shared, alert) => watched,
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => break,
            };
            let Err(error) = watched else { break };
            if *closing.borrow() {
                return;
            }
            let (is_news, pause) = alert.tries.failed(causes(&error));
            if is_news {
                let error = &error as &dyn std::error::Error;
                tracing::error!(alert = alert.name(), error, "an alert does not go on; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => break,
            }
        }
        if *dropped.borrow() {
            let dropped = Arc::clone(alert);
            let deleted = tokio::task::spawn_blocking(move || dropped.store.delete(dropped.entry.id)).await;
            if let Ok(Err(error)) = deleted {
                tracing::warn!(alert = alert.name(), %error, "what is kept of an alert that was dropped is deleted at the next start");
            }
        }
    }

    /// Looks at the view, from what is on disk on, until there is nothing more to look at. What was to be told is told first:
    /// so it is what it was.
    async fn watch(&self, shared: &Weak<Shared>, alert: &Alert) -> Result<(), WatchError> {
        let mut known = heavy(usize::MAX, || AlertState::load(alert))?;
        need_windows(alert, &known);
        let changes = ViewChanges::of(self, Arc::clone(&alert.view), Some(known.position));
        let told = alert.told(self)?;
        self.tell(shared, alert, &told, &mut known).await?;
        match alert.view.query.windows() {
            Some(windows) => self.watch_windows(shared, alert, (&told, &mut known), *windows).await,
            None => self.watch_rows(shared, alert, (&told, &mut known), changes).await,
        }
    }

    /// Puts what an alert knows on disk.
    pub(super) async fn keep_known(
        &self,
        alert: &Alert,
        known: &mut AlertState,
    ) -> Result<(), ViewStoreError> {
        let _no_cut_is_made = self.cutting.read().await;
        heavy(usize::MAX, || known.commit(alert))
    }

    /// Takes the changes of the view, until there will be none.
    async fn watch_rows(
        &self,
        shared: &Weak<Shared>,
        alert: &Alert,
        (told, known): (&Told, &mut AlertState),
        mut changes: ViewChanges,
    ) -> Result<(), WatchError> {
        let (mut shard, mut committed_at) = (Shard::default(), self.clock.now());
        // Keys may have gone while nobody watched.
        let mut looks_again = true;
        loop {
            let some = if looks_again {
                let changes = heavy(usize::MAX, || known.rows_of_met(alert, self.clock.now()))?;
                ViewChangesSome { changes, ..ViewChangesSome::default() }
            } else {
                match changes.next().await? {
                    Some(some) => some,
                    None => return Ok(()),
                }
            };
            looks_again = some.ends_walk;
            let now = self.clock.now();
            let meets = heavy(usize::MAX, || alert.meet(&mut shard, &some.changes));
            let passed_over = known.take(alert, &some.changes, &meets, (self.config.alert_keys_max, now));
            known.position = some.position.unwrap_or(known.position);
            alert.counts.passed_over.fetch_add(passed_over, Ordering::Relaxed);
            alert.counts.met.store(known.met() as u64, Ordering::Relaxed);
            alert.counts.position.store(known.position, Ordering::Relaxed);
            if known.has_changed() || now - committed_at >= POSITION_EVERY_MS && some.position.is_some() {
                self.keep_known(alert, known).await?;
                committed_at = now;
            }
            self.tell(shared, alert, told, known).await?;
            alert.tries.came_about();
        }
    }
}
