//! Alerts as they are created, go on, and end.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use swiftwater_event::Millis;
use swiftwater_lang::ddl::CreateAlert;
use swiftwater_live::Shard;
use swiftwater_views::ViewStoreError;

use super::{
    Alert, AlertEntry,
    alert::{Known, as_events, compile},
};
use crate::{
    AppendOptions, EngineError, Numbered,
    history::{
        state::{History, causes, heavy},
        views::{ViewChanges, ViewChangesSome},
    },
    shared::Shared,
};

/// The pause after a first failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// While nothing is to be told, the position goes to disk so often: after a crash the view is looked at from there on.
const POSITION_EVERY_MS: Millis = 10_000;

/// Why an alert does not go on.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("what it knows cannot be kept")]
    Store(#[from] ViewStoreError),
    #[error("its view cannot be looked at, or its stream not be told")]
    Engine(#[from] EngineError),
    #[error("its stream refuses a message: {0}")]
    Refused(String),
}

impl History {
    /// What can be wrong with an alert that is to be created.
    pub(in crate::history) fn check_alert(&self, create: &CreateAlert) -> Result<(), EngineError> {
        let (alerts, limit) = (self.with_catalog(|catalog| catalog.alerts().len()), self.config.alerts_max);
        if alerts >= limit {
            return Err(EngineError::Limit {
                what: "number of alerts",
                setting: "views.alerts_max",
                wanted: alerts as u64 + 1,
                limit: limit as u64,
            });
        }
        compile(create, &*self.view(&create.view)?, self.clock.now()).map(drop)
    }

    /// Lets an alert of the catalog watch its view.
    pub(in crate::history) fn begin_alert(self: &Arc<Self>, entry: &AlertEntry) -> Result<(), EngineError> {
        let shared = self.engine.get().cloned().unwrap_or_default();
        let name = &entry.create.stream;
        let stored = self.stored(name).ok_or_else(|| EngineError::NoStream(name.to_string()))?;
        let view = self.view(&entry.create.view)?;
        let store = Arc::clone(&view.store);
        let alert = Arc::new(Alert::new(entry.clone(), (view, stored), store, self.clock.now())?);
        let mut alerts = self.alerts.write().unwrap_or_else(PoisonError::into_inner);
        alerts.insert(entry.create.name.clone(), Arc::clone(&alert));
        drop(alerts);
        let history = Arc::clone(self);
        self.spawn(async move { history.keep_alert(&shared, &alert).await });
        Ok(())
    }

    /// Lets all alerts of the catalog go on.
    pub(crate) fn begin_alerts(self: &Arc<Self>, shared: &Arc<Shared>) {
        let entries: Vec<AlertEntry> = self.with_catalog(|catalog| catalog.alerts().cloned().collect());
        let _ = self.engine.set(Arc::downgrade(shared));
        for entry in entries {
            if let Err(error) = self.begin_alert(&entry) {
                tracing::error!(alert = &*entry.create.name, %error, "an alert cannot go on");
            }
        }
    }

    /// Ends an alert that is no longer in the catalog.
    pub(in crate::history) fn end_alert(&self, name: &str) {
        let removed = self.alerts.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(alert) = removed {
            // Its task deletes what is kept of it.
            alert.is_dropped.send_replace(true);
        }
    }

    /// All alerts at work, by name.
    pub(super) fn all_alerts(&self) -> Vec<Arc<Alert>> {
        self.alerts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    async fn keep_alert(&self, shared: &Weak<Shared>, alert: &Arc<Alert>) {
        let (mut closing, mut dropped) = (self.closing(), alert.is_dropped.subscribe());
        let mut pause = PAUSE_MIN;
        loop {
            let told = alert.counts.messages.load(Ordering::Relaxed);
            let watched = tokio::select! {
                watched = self.watch(shared, alert) => watched,
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => break,
            };
            let Err(error) = watched else { break };
            if alert.counts.messages.load(Ordering::Relaxed) > told {
                pause = PAUSE_MIN;
            }
            if alert.note_failure(Some(causes(&error))) {
                let error = &error as &dyn std::error::Error;
                tracing::error!(alert = alert.name(), error, "an alert does not go on; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
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

    /// Takes the changes of the view, from what is on disk on, until there will be none.
    async fn watch(&self, shared: &Weak<Shared>, alert: &Alert) -> Result<(), WatchError> {
        let mut known = heavy(usize::MAX, || Known::load(alert))?;
        let mut changes = ViewChanges::of(self, Arc::clone(&alert.view), Some(known.position));
        self.tell(shared, alert, &mut known).await?;
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
            alert.counts.met.store(known.met().len() as u64, Ordering::Relaxed);
            alert.counts.position.store(known.position, Ordering::Relaxed);
            if known.has_changed() || now - committed_at >= POSITION_EVERY_MS && some.position.is_some() {
                if !known.to_tell.is_empty() {
                    known.number += 1;
                }
                heavy(usize::MAX, || known.commit(alert))?;
                committed_at = now;
            }
            self.tell(shared, alert, &mut known).await?;
            alert.note_failure(None);
        }
    }

    /// Tells the stream what it is to be told, once: it has the number, or gets it.
    async fn tell(&self, shared: &Weak<Shared>, alert: &Alert, known: &mut Known) -> Result<(), WatchError> {
        if known.to_tell.is_empty() {
            return Ok(());
        }
        let shared = shared.upgrade().ok_or(EngineError::ShuttingDown)?;
        let batch = as_events(known.to_tell.clone());
        let events = batch.len() as u64;
        let numbered =
            Numbered { producer: alert.producer().into(), sequence: known.number, part: 0, after: 0 };
        let options = AppendOptions { numbered: Some(numbered), ..AppendOptions::default() };
        let stream = shared.stream(&alert.stored.name)?;
        match self.append(&shared, (&stream, &alert.stored), batch, options).await {
            Ok(appended) => {
                if let Some(ticket) = appended.ticket {
                    self.synced(ticket).await?;
                }
                if let Some(refusal) = appended.refusals.first() {
                    let error = WatchError::Refused(refusal.message.clone());
                    tracing::error!(alert = alert.name(), stream = %alert.stored.name, %error, "a message is lost");
                    alert.counts.refused.fetch_add(appended.refusals.len() as u64, Ordering::Relaxed);
                }
            }
            // So old that it is no longer known by its number: it was stored.
            Err(EngineError::NumberForgotten { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        alert.counts.messages.fetch_add(events, Ordering::Relaxed);
        known.to_tell.clear();
        heavy(usize::MAX, || known.commit(alert))?;
        Ok(())
    }
}
