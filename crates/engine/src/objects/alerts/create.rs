//! Creates and starts alerts: checks the statement, records it in the catalog, and creates the view of the alert's query.

use std::sync::{Arc, PoisonError};

use swiftwater_catalog::kind::alert::{AlertEntry, AlertStart};
use swiftwater_catalog::{Change, ObjectKind, kind::alert::own_view};
use swiftwater_lang::ddl::{AlertTarget, CreateAlert, CreateView};
use swiftwater_live::ViewTime;

use super::{Alert, alert::compile};
use crate::{
    EngineError, RuntimeError,
    durable::history::History,
    objects::views::{NeededBy, Source, View, compile_view},
    shared::Shared,
};

/// The fault is in the query of an alert, and not in its condition.
fn of_query(error: EngineError, query: &str) -> EngineError {
    match error {
        EngineError::Runtime(RuntimeError::Query(errors)) => {
            EngineError::Expression { text: query.into(), errors }
        }
        EngineError::Unfit(swiftwater_live::UnsupportedView::NoGroups) => EngineError::AlertOfEvents,
        error => error,
    }
}

impl History {
    /// Creates an alert; answers whether that changed anything. The caller changes the catalog, one at a time.
    pub(crate) async fn create_alert(
        self: &Arc<Self>,
        shared: &Shared,
        create: &CreateAlert,
    ) -> Result<bool, EngineError> {
        if !self.with_catalog(|catalog| catalog.check_alert(create))? {
            return Ok(false);
        }
        let (alerts, limit) = (self.with_catalog(|catalog| catalog.alerts().len()), self.config.alerts_max);
        if alerts >= limit {
            return Err(EngineError::Runtime(RuntimeError::Limit {
                what: "number of alerts",
                setting: "views.alerts_max",
                wanted: alerts as u64 + 1,
                limit: limit as u64,
            }));
        }
        if let AlertTarget::Webhook(url) = &create.target {
            self.check_webhook(url, &create.options.delivery)?;
        }
        match own_view(create) {
            Some(view) => self.create_on_query(shared, create, &view).await?,
            None => {
                let view = self.view(create.view().unwrap_or_default())?;
                compile(create, &view.columns, self.clock.now())?;
                // Before it is looked how far the view is, so that no commit deletes what is closed from here on. Its task
                // says where it begins.
                view.needs_windows(NeededBy::Alert(self.with_catalog(|catalog| catalog.next_view())));
                let from = view.query.windows().and_then(|windows| windows.first_open(view.at().latest()));
                let recorded = self.record_alert(create, AlertStart { events_from: None, from }).await;
                if recorded.is_err() {
                    self.let_go_of_windows();
                }
                recorded?;
            }
        }
        let entry = self.with_catalog(|catalog| catalog.alert(&create.name).cloned())?;
        self.start_alert(&entry)?;
        Ok(true)
    }

    async fn create_on_query(
        self: &Arc<Self>,
        shared: &Shared,
        create: &CreateAlert,
        view: &CreateView,
    ) -> Result<(), EngineError> {
        self.has_room_for_view()?;
        let stream = self.with_catalog(|catalog| {
            catalog.stream_of_own_view(view).map(|entry| entry.create.name.clone())
        })?;
        let stored = self
            .stored(&stream)
            .ok_or_else(|| EngineError::not_found(ObjectKind::Stream, stream.as_str()))?;
        let (declared, sizes) = (stored.declared(), shared.config.sketch_sizes());
        let compile_at = |now| compile_view(self, view, Source::Stream(&declared.create), sizes, now);
        let compiled = compile_at(self.clock.now()).map_err(|error| of_query(error, &view.query))?;
        compile(create, &compiled.columns, self.clock.now())?;
        let store = self.view_store(&view.name)?;
        let id = self.with_catalog(|catalog| catalog.next_view());
        // From here on the log keeps what the query needs.
        let from = stored.add_view(id, self.config.feed_bytes_max);
        let start = AlertStart { events_from: Some(from), from: None };
        if let Err(error) = self.record_alert(create, start).await {
            stored.remove_view(id);
            return Err(error);
        }
        let entry = self.with_catalog(|catalog| catalog.views().find(|entry| entry.id == id).cloned());
        let entry = entry.ok_or_else(|| EngineError::not_found(ObjectKind::Alert, &*create.name))?;
        let compiled = compile_at(entry.created).unwrap_or(compiled);
        self.start_view(View::new(entry, stored, compiled, store, (from, ViewTime::default()), true));
        Ok(())
    }

    async fn record_alert(&self, create: &CreateAlert, start: AlertStart) -> Result<(), EngineError> {
        self.record(Change::Alert { text: create.to_string(), start }).await
    }

    /// Lets an alert of the catalog watch its view.
    pub(super) fn start_alert(self: &Arc<Self>, entry: &AlertEntry) -> Result<(), EngineError> {
        let view = self.view_at_work(&entry.view())?;
        let alert = Arc::new(Alert::new(entry.clone(), view, entry.created)?);
        let mut alerts = self.alerts.write().unwrap_or_else(PoisonError::into_inner);
        alerts.insert(entry.create.name.clone(), Arc::clone(&alert));
        drop(alerts);
        self.maintain(alert);
        Ok(())
    }

    /// Lets all alerts of the catalog go on.
    pub(crate) fn start_alerts(self: &Arc<Self>, shared: &Arc<Shared>) {
        let entries: Vec<AlertEntry> = self.with_catalog(|catalog| catalog.alerts().cloned().collect());
        let _ = self.engine.set(Arc::downgrade(shared));
        for entry in entries {
            if let Err(error) = self.start_alert(&entry) {
                tracing::error!(alert = &*entry.create.name, %error, "an alert cannot continue");
            }
        }
    }

    /// Ends an alert that is no longer in the catalog, and the view that it has for itself.
    pub(crate) fn end_alert(&self, name: &str) {
        let removed = self.alerts.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.let_go_of_windows();
        let Some(alert) = removed else { return };
        // Its task deletes what is kept of it.
        alert.dropped.send();
        if alert.has_own_view() {
            self.end_view(alert.view.name());
        }
    }

    /// All alerts at work, by name.
    pub(super) fn all_alerts(&self) -> Vec<Arc<Alert>> {
        self.alerts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
