//! Creates, opens, starts and drops views: the checks at CREATE and at the engine's start, and the list of running views.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_catalog::{ObjectKind, kind::view::ViewEntry};
use swiftwater_event::Millis;
use swiftwater_live::{MaxEventTime, NO_TIME, ViewTime};
use swiftwater_views::ViewStoreError;

use super::{
    compile::Source,
    compile_view,
    view::{At, View},
};
use crate::{
    EngineError,
    durable::{
        history::{History, run_blocking},
        stored_stream::StoredStream,
        view_store::LastCommit,
    },
    shared::Shared,
    supervisor::TaskKind,
};

impl History {
    /// Opens a view over another view's rows, from the catalog, at its last position; it is rebuilt if that no longer fits
    /// the other one. The other one must not be maintained yet ([`History::maintain_views`]): its next commit would leave
    /// this one behind.
    pub(crate) fn open_over(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &ViewEntry,
        below: &str,
    ) -> Result<(), EngineError> {
        let lower = self.view(below)?;
        let rows = lower.declared();
        let source = Source::View(below, &rows);
        let sizes = shared.config.sketch_sizes();
        let compiled = compile_view(self, &entry.create, source, sizes, entry.created)?;
        let unavailable = |error: ViewStoreError| {
            EngineError::unavailable(ObjectKind::View.named(&*entry.create.name), error)
        };
        let noted = lower.store.checkpoint(entry.id).map_err(unavailable)?;
        let lower_at = lower.store.position(lower.id()).map_err(unavailable)?.unwrap_or(0);
        let view = View::over(entry.clone(), &lower, compiled, noted.as_ref(), lower_at);
        if matches!(view, Some((_, true))) {
            tracing::info!(
                view = &*entry.create.name,
                below,
                "a view is rebuilt from the view that it reads"
            );
            lower.store.delete(entry.id).map_err(unavailable)?;
        }
        if lower.store.is_lost(entry.id) {
            tracing::error!(
                view = &*entry.create.name,
                below,
                "the files of a view were damaged; it is rebuilt from the view that it reads"
            );
            lower.store.record_rebuilt(entry.id);
        }
        self.start_derived(&lower, view);
        Ok(())
    }

    pub(super) fn start_derived(self: &Arc<Self>, lower: &View, view: Option<(View, bool)>) {
        let Some(view) = view.map(|(view, _)| Arc::new(view)) else { return };
        run_blocking(usize::MAX, || view.resume_changelog(self.sinks_of_changes(&view)));
        let mut views = self.objects.views.write();
        views.insert(view.entry.create.name.clone(), Arc::clone(&view));
        drop(views);
        // Before anything changes in it: those who stand over its name see all of that.
        self.stream_new_view(&view);
        lower.add_upper(view);
    }

    /// Resumes a view of the catalog at its position, once it is kept ([`History::maintain_views`]).
    pub(crate) fn open_view(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &ViewEntry,
        stored: &Arc<StoredStream>,
        (store, position): LastCommit,
    ) -> Result<(), EngineError> {
        let declared = stored.declared();
        self.restore_joined(&entry.tables);
        let source = Source::Stream(&declared.create);
        let sizes = shared.config.sketch_sizes();
        let compiled = compile_view(self, &entry.create, source, sizes, entry.created)?;
        let (from, time) = position.unwrap_or((entry.from, ViewTime::default()));
        let at = (from, time);
        let view = View::new(entry.clone(), Arc::clone(stored), compiled, store, at, position.is_none());
        if let Some(view) = &view
            && let Some(first) = stored.view_lacks_up_to(entry.id)
        {
            let (view_name, stream) = (view.name(), stored.name.as_str());
            tracing::info!(
                view = view_name,
                stream,
                from,
                until = first,
                "a view reads events from the table"
            );
            // The log is not to keep what the view does not read from it.
            stored.remove_view(entry.id);
            view.is_behind.store(true, Ordering::Relaxed);
        }
        if let Some(view) = &view
            && view.store.is_lost(entry.id)
        {
            view.start_rebuilding();
        }
        self.add_view(view);
        Ok(())
    }

    /// The store of the views, and a view's committed position and event time.
    pub(crate) fn view_position(&self, entry: &ViewEntry) -> Result<LastCommit, EngineError> {
        let store = self.view_store(&entry.create.name)?;
        let noted = store
            .checkpoint(entry.id)
            .map_err(|error| EngineError::unavailable(ObjectKind::View.named(&*entry.create.name), error))?;
        Ok((store, noted.map(|(position, note)| (position, time_of(&note)))))
    }

    /// Lists a new view, and starts its task.
    pub(crate) fn start_view(self: &Arc<Self>, view: Option<View>) {
        if let Some(view) = self.add_view(view) {
            self.maintain(view);
        }
    }

    fn add_view(self: &Arc<Self>, view: Option<View>) -> Option<Arc<View>> {
        let view = Arc::new(view?);
        run_blocking(usize::MAX, || view.resume_changelog(self.sinks_of_changes(&view)));
        *view.needed.lock() = self.readers_of_windows(&view);
        let mut views = self.objects.views.write();
        views.insert(view.entry.create.name.clone(), Arc::clone(&view));
        drop(views);
        // Before anything changes in it: those who stand over its name see all of that.
        self.stream_new_view(&view);
        Some(view)
    }

    /// Starts the tasks of all opened views. Those over them are open by then, and in each of their commits.
    pub(crate) fn maintain_views(self: &Arc<Self>) {
        self.all_views()
            .into_iter()
            .filter(|view| view.below().is_none())
            .for_each(|view| self.maintain(view));
    }

    /// Ends a view that is no longer in the catalog.
    pub(crate) fn end_view(&self, name: &str) {
        let removed = self.objects.views.write().remove(name);
        if let Some(view) = removed {
            // Its task deletes what is kept of it, when that is no longer being written. First, so that it knows why nothing comes.
            view.dropped.send();
            view.stored.remove_view(view.id());
            self.forget_memory_of(&view);
            if view.below().is_some() {
                view.leave_lower();
                self.supervisor.spawn(TaskKind::View, async move { delete_state(&view).await });
            }
        }
    }

    /// Deletes what is kept of views that are not in the catalog, and changes that no sink wants.
    pub(crate) fn delete_dropped_views(&self) {
        let Some(store) = self.view_files.opened() else { return };
        let known: Vec<u32> = self.with_catalog(|catalog| {
            let alerts = catalog.alerts().map(|alert| alert.id);
            let joins = catalog.joins().map(|join| join.id);
            catalog.views().map(|view| view.id).chain(alerts).chain(joins).collect()
        });
        let kept = store.views().unwrap_or_default().into_iter().chain(store.lost());
        for view in kept.filter(|view| !known.contains(view)) {
            if let Err(error) = store.delete(view) {
                tracing::warn!(view, %error, "the state of a dropped view cannot be deleted");
            }
        }
        let is_wanted =
            |view: &u32| self.with_catalog(|catalog| catalog.sinks().changes_done(*view).is_some());
        for view in store.logs().unwrap_or_default().into_iter().filter(|view| !is_wanted(view)) {
            if let Err(error) = store.delete_log(view) {
                tracing::warn!(view, %error, "changes of a view without sinks cannot be deleted");
            }
        }
    }

    /// A view at work; not one that an alert has for itself.
    pub(crate) fn view(&self, name: &str) -> Result<Arc<View>, EngineError> {
        self.with_catalog(|catalog| catalog.view(name).map(|_| ()))?;
        self.view_at_work(name)
    }

    /// An active view of the catalog, with any owner.
    pub(crate) fn view_at_work(&self, name: &str) -> Result<Arc<View>, EngineError> {
        let views = self.objects.views.read();
        if let Some(view) = views.get(name) {
            return Ok(Arc::clone(view));
        }
        let why = "it could not be opened; the server's log has the reason";
        Err(EngineError::unavailable(ObjectKind::View.named(name), why))
    }

    /// All views at work that have a name of their own, by name.
    pub(crate) fn named_views(&self) -> Vec<Arc<View>> {
        let mut views = self.all_views();
        views.retain(|view| view.entry.owner.is_none());
        views
    }

    /// All views at work, those of alerts, too.
    pub(crate) fn all_views(&self) -> Vec<Arc<View>> {
        self.objects.views.read().values().cloned().collect()
    }
}

impl View {
    /// The note that is committed with the position: the event time.
    pub(super) fn encode_checkpoint(&self, at: At) -> Vec<u8> {
        let ViewTime { peak, event, last } = at.time;
        let times = match self.query.windows() {
            None => &[][..],
            Some(windows) if windows.advances_when_idle() => &[peak.time, peak.arrival, event, last][..],
            Some(_) => &[peak.time][..],
        };
        times.iter().flat_map(|time| time.to_be_bytes()).collect()
    }
}

/// The event time that was committed as a note.
fn time_of(note: &[u8]) -> ViewTime {
    let mut times = note.as_chunks().0.iter().map(|bytes| Millis::from_be_bytes(*bytes));
    let mut next = || times.next().unwrap_or(NO_TIME);
    ViewTime { peak: MaxEventTime { time: next(), arrival: next() }, event: next(), last: next() }
}

/// Deletes what is kept of a view that was dropped.
pub(super) async fn delete_state(view: &View) {
    let (store, commits, id) = (Arc::clone(&view.store), Arc::clone(&view.commits), view.id());
    let deleted = tokio::task::spawn_blocking(move || {
        // Nothing of it is being written any more.
        let _alone = commits.writing.lock();
        store.delete(id)
    });
    if let Ok(Err(error)) = deleted.await {
        tracing::warn!(view = view.name(), %error, "the state of a dropped view is deleted at the next start");
    }
}
