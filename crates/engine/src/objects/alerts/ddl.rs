//! CREATE ALERT and DROP ALERT, and how alerts start with the view that keeps their query.

use std::sync::Arc;

use swiftwater_catalog::{
    Change, ObjectKind,
    kind::alert::{AlertEntry, AlertStart, own_view},
};
use swiftwater_lang::ddl::{AlertTarget, CreateAlert, CreateView, Ddl};
use swiftwater_live::{SketchSizes, ViewTime};
use swiftwater_views::ViewStore;

use super::{Alert, alert::compile};
use crate::{
    EngineError, RuntimeError,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
    durable::{
        history::History,
        stored_stream::{Declared, StoredStream},
    },
    objects::views::{Compiled, NeededBy, Source, View, compile_view},
    shared::Shared,
};

/// The view that an alert on a query has for itself, before the alert is logged.
pub(crate) struct OwnView {
    create: CreateView,
    stored: Arc<StoredStream>,
    declared: Arc<Declared>,
    sizes: SketchSizes,
    compiled: Compiled,
    store: Arc<ViewStore>,
    /// The first event that it has.
    from: u64,
    id: u32,
}

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

impl Statement for CreateAlert {
    /// The view that the alert has for itself, if it is on a query.
    type Prepared = Option<OwnView>;

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        _: &Ddl,
    ) -> Result<Option<Planned<Option<OwnView>>>, EngineError> {
        if !history.with_catalog(|catalog| catalog.check_alert(self))? {
            return Ok(None);
        }
        let alerts = history.with_catalog(|catalog| catalog.alerts().len());
        check_room("number of alerts", "views.alerts_max", alerts, history.config.alerts_max)?;
        history.check_take_events(self.streams())?;
        if let AlertTarget::Webhook(url) = &self.target {
            history.check_webhook(url, &self.options.delivery)?;
        }
        let (own, start) = match own_view(self) {
            Some(create) => {
                let own = history.prepare_own_view(shared, self, create)?;
                let start = AlertStart { events_from: Some(own.from), from: None };
                (Some(own), start)
            }
            None => {
                let view = history.view(self.view().unwrap_or_default())?;
                compile(self, &view.columns, history.clock.now())?;
                // Before it is looked how far the view is, so that no commit deletes what is closed from here on. Its task
                // states where it begins.
                let id = history.with_catalog(|catalog| catalog.next_view());
                view.needs_windows(NeededBy::Alert(id));
                let from = view.query.windows().and_then(|windows| windows.first_open(view.at().latest()));
                (None, AlertStart { events_from: None, from })
            }
        };
        let change = Change::Alert { text: self.to_string(), start };
        Ok(Some(Planned { change, prepared: own }))
    }

    fn abandon(&self, history: &History, own: Option<OwnView>) {
        match own {
            Some(own) => own.stored.remove_view(own.id),
            None => history.release_windows(),
        }
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        own: Option<OwnView>,
    ) -> Result<(), EngineError> {
        if let Some(OwnView { create, stored, declared, sizes, compiled, store, from, id }) = own {
            let entry = history.with_catalog(|catalog| catalog.views().find(|entry| entry.id == id).cloned());
            let entry = entry.ok_or_else(|| EngineError::not_found(ObjectKind::Alert, &*self.name))?;
            let source = Source::Stream(&declared.create);
            let compiled = compile_view(history, &create, source, sizes, entry.created).unwrap_or(compiled);
            let at = (from, ViewTime::default());
            history.start_view(View::new(entry, stored, compiled, store, at, true));
        }
        let entry = history.with_catalog(|catalog| catalog.alert(&self.name).cloned())?;
        history.start_alert(&entry)
    }
}

/// `DROP ALERT`.
pub(crate) struct DropAlert<'d>(pub(crate) &'d str);

impl LoggedAsWritten for DropAlert<'_> {
    async fn apply_effect(&self, Context { history, .. }: Context<'_>) -> Result<(), EngineError> {
        history.end_alert(self.0);
        Ok(())
    }
}

impl History {
    /// Compiles the query of an alert as a view that the alert has for itself.
    fn prepare_own_view(
        &self,
        shared: &Shared,
        alert: &CreateAlert,
        create: CreateView,
    ) -> Result<OwnView, EngineError> {
        self.check_room_for_view()?;
        let stream = self.with_catalog(|catalog| {
            catalog.stream_of_own_view(&create).map(|entry| entry.create.name.clone())
        })?;
        let stored = self
            .stored(&stream)
            .ok_or_else(|| EngineError::not_found(ObjectKind::Stream, stream.as_str()))?;
        let (declared, sizes) = (stored.declared(), shared.config.sketch_sizes());
        let source = Source::Stream(&declared.create);
        let compiled = compile_view(self, &create, source, sizes, self.clock.now())
            .map_err(|error| of_query(error, &create.query))?;
        compile(alert, &compiled.columns, self.clock.now())?;
        let store = self.view_store(&create.name)?;
        let id = self.with_catalog(|catalog| catalog.next_view());
        // From here on the log keeps what the query needs.
        let from = stored.add_view(id, self.config.feed_bytes_max);
        Ok(OwnView { create, stored, declared, sizes, compiled, store, from, id })
    }

    /// Starts an alert of the catalog.
    pub(super) fn start_alert(self: &Arc<Self>, entry: &AlertEntry) -> Result<(), EngineError> {
        let view = self.view_at_work(&entry.view())?;
        let alert = Arc::new(Alert::new(entry.clone(), view, entry.created)?);
        let mut alerts = self.objects.alerts.write();
        alerts.insert(entry.create.name.clone(), Arc::clone(&alert));
        drop(alerts);
        self.maintain(alert);
        Ok(())
    }

    /// Starts all alerts of the catalog.
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
        let removed = self.objects.alerts.write().remove(name);
        self.release_windows();
        let Some(alert) = removed else { return };
        // Its task deletes what is kept of it.
        alert.dropped.send();
        if alert.has_own_view() {
            self.end_view(alert.view.name());
        }
    }

    /// All alerts at work, by name.
    pub(super) fn all_alerts(&self) -> Vec<Arc<Alert>> {
        self.objects.alerts.read().values().cloned().collect()
    }
}
