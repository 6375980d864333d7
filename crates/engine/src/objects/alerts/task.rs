//! The task of an alert: reads the changes of the view, persists the alert's state, and ends with the alert.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_catalog::Object;
use swiftwater_event::Millis;
use swiftwater_live::Shard;
use swiftwater_views::ViewStoreError;

use super::{
    Alert,
    alert::{NotificationTarget, WatchError},
    state::AlertState,
    windows::need_windows,
};
use crate::{
    durable::history::{History, causes, run_blocking},
    objects::views::{ViewChanges, ViewChangesSome},
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
};

/// Interval at which the position is written to disk without messages: after a crash the view is read from there on.
const POSITION_EVERY_MS: Millis = 10_000;

impl Maintained for Alert {
    type Error = WatchError;

    fn object(&self) -> Object {
        self.entry.object()
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Reader
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), WatchError> {
        if self.store.is_lost(self.entry.id) {
            return Err(WatchError::Damaged);
        }
        history.watch(self).await
    }

    fn failed(&self, _: &Arc<History>, error: WatchError) -> NextAttempt {
        let (is_news, pause) = self.tries.failed(causes(&error));
        let is_damaged = matches!(error, WatchError::Damaged);
        if is_news {
            let error = &error as &dyn std::error::Error;
            tracing::error!(
                alert = self.name(),
                error,
                "an alert is stopped; the server retries unless its files are damaged"
            );
        }
        if is_damaged { NextAttempt::Never } else { NextAttempt::After(pause) }
    }

    async fn drop_data(&self, _: &Arc<History>) {
        let (store, id) = (Arc::clone(&self.store), self.entry.id);
        let deleted = tokio::task::spawn_blocking(move || store.delete(id)).await;
        if let Ok(Err(error)) = deleted {
            tracing::warn!(alert = self.name(), %error, "the state of a dropped alert is deleted at the next start");
        }
    }
}

impl History {
    /// Reads the view's changes, from the position on disk on, until there are no more. Pending messages are sent first,
    /// with their original content.
    async fn watch(&self, alert: &Alert) -> Result<(), WatchError> {
        let mut known = run_blocking(usize::MAX, || AlertState::load(alert))?;
        need_windows(alert, &known);
        let changes = ViewChanges::of(self, Arc::clone(&alert.view), Some(known.position));
        let told = alert.target(self)?;
        self.send_messages(alert, &told, &mut known).await?;
        match alert.view.query.windows() {
            Some(windows) => self.watch_windows(alert, (&told, &mut known), *windows).await,
            None => self.watch_rows(alert, (&told, &mut known), changes).await,
        }
    }

    /// Writes an alert's state to disk.
    pub(super) async fn persist_state(
        &self,
        alert: &Alert,
        known: &mut AlertState,
    ) -> Result<(), ViewStoreError> {
        let _no_cut_is_made = self.backup_lock.read().await;
        run_blocking(usize::MAX, || known.commit(alert))
    }

    /// Takes the changes of the view, until there will be none.
    async fn watch_rows(
        &self,
        alert: &Alert,
        (told, known): (&NotificationTarget, &mut AlertState),
        mut changes: ViewChanges,
    ) -> Result<(), WatchError> {
        let (mut shard, mut committed_at) = (Shard::default(), self.clock.now());
        // Keys may have gone while nobody watched.
        let mut looks_again = true;
        loop {
            let some = if looks_again {
                let changes = run_blocking(usize::MAX, || known.rows_of_met(alert, self.clock.now()))?;
                ViewChangesSome { changes, ..ViewChangesSome::default() }
            } else {
                match changes.next().await? {
                    Some(some) => some,
                    None => return Ok(()),
                }
            };
            looks_again = some.ends_walk;
            let now = self.clock.now();
            let meets = run_blocking(usize::MAX, || alert.meet(&mut shard, &some.changes));
            let passed_over = known.apply(alert, &some.changes, &meets, (self.config.alert_keys_max, now));
            known.position = some.position.unwrap_or(known.position);
            alert.counts.passed_over.fetch_add(passed_over, Ordering::Relaxed);
            alert.counts.met.store(known.met() as u64, Ordering::Relaxed);
            alert.counts.position.store(known.position, Ordering::Relaxed);
            if known.has_changed() || now - committed_at >= POSITION_EVERY_MS && some.position.is_some() {
                self.persist_state(alert, known).await?;
                committed_at = now;
            }
            self.send_messages(alert, told, known).await?;
            alert.tries.record_success();
        }
    }
}
