//! Views from their CREATE, or the engine's start, to their DROP: what is checked, and which are at work.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use swiftwater_catalog::{
    CatalogError, Change, Dependency, ObjectKind,
    kind::{stream::StreamEntry, view::ViewEntry},
};
use swiftwater_event::{Millis, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateStream, CreateView, StreamChange},
};
use swiftwater_live::{NO_TIME, Peak, ViewTime};
use swiftwater_views::{ViewStore, ViewStoreError, ViewStoreOptions};

use super::{
    Compiled,
    behind::check_past,
    compile_view,
    derived::{check_timeless, rows_as_stream},
    task::delete_kept,
    view::{At, Source, View, plan_view},
};
use crate::{
    EngineError, HistoryConfig, RuntimeError,
    durable::{
        history::{History, heavy},
        stored_stream::StoredStream,
    },
    shared::Shared,
};
use swiftwater_runtime::parts::lock;

/// A view's store, and its last commit: the position and the event time.
type Kept = (Arc<ViewStore>, Option<(u64, ViewTime)>);

impl History {
    /// The files of the views, opened when they are first needed.
    pub(crate) fn view_store(&self, name: &str) -> Result<Arc<ViewStore>, EngineError> {
        let unavailable = |why: String| EngineError::ViewUnavailable { view: name.to_owned(), why };
        let mut store = lock(&self.view_store);
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let path =
            self.views_dir.clone().ok_or_else(|| unavailable("there is no directory for it".to_owned()))?;
        let opened = heavy(usize::MAX, || open_view_store(&self.config, &path));
        let opened = opened.map_err(|error| unavailable(error.to_string()))?;
        *store = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Creates a view; answers whether that changed anything. The caller changes the catalog, one at a time.
    pub(crate) async fn create_view(
        self: &Arc<Self>,
        shared: &Shared,
        create: &CreateView,
    ) -> Result<bool, EngineError> {
        let checked = self.with_catalog(|catalog| catalog.check_view(create))?;
        let Some((stream, below)) = checked else { return Ok(false) };
        self.has_room_for_view()?;
        if let Some(tables) = shared.tables.get()
            && tables.is_plain(&create.name).unwrap_or(false)
        {
            return Err(CatalogError::exists(ObjectKind::Table, &*create.name).into());
        }
        let stored = self
            .stored(&stream)
            .ok_or_else(|| EngineError::not_found(ObjectKind::Stream, stream.as_str()))?;
        if let Some(below) = below {
            return self.create_over(shared, create, &below).await;
        }
        let options = ParseOptions::new(Dialect::Native, self.clock.now());
        self.pin_joined(shared, &create.query, &options).await?;
        let declared = &stored.declared().create;
        let sizes = shared.config.sketch_sizes();
        let compile = |now| compile_view(self, create, Source::Stream(declared), sizes, now);
        let compiled = compile(self.clock.now())?;
        let has_past = create.options.backfill == Some(true);
        if has_past {
            check_past(declared)?;
        }
        let store = self.view_store(&create.name)?;
        let id = self.with_catalog(|catalog| catalog.next_view());
        // From here on the log keeps what the view needs, unless that begins with what the table has.
        let from = if has_past { 0 } else { stored.add_view(id, self.config.feed_bytes_max) };
        let text = swiftwater_lang::ddl::Ddl::CreateView(create.clone()).to_string();
        let tables = compiled.joined.columns_of_tables();
        if let Err(error) = self.record(Change::View { text, from, tables }).await {
            stored.remove_view(id);
            return Err(error);
        }
        let entry = self.with_catalog(|catalog| catalog.view(&create.name).cloned())?;
        let compiled = compile(entry.created).unwrap_or(compiled);
        let view = View::new(entry, stored, compiled, store, (from, ViewTime::default()), true);
        view.iter().for_each(|view| view.is_behind.store(has_past, Ordering::Relaxed));
        self.start_view(view);
        Ok(true)
    }

    /// As [`History::create_view`], of a view of another's rows.
    async fn create_over(
        self: &Arc<Self>,
        shared: &Shared,
        create: &CreateView,
        below: &str,
    ) -> Result<bool, EngineError> {
        let lower = self.view(below)?;
        if let Some(why) = lower.broken() {
            return Err(lower.unavailable(why));
        }
        if lower.below().is_none() {
            check_timeless(
                &lower.entry.create,
                &lower.stored.declared().create,
                &lower.joined.sources.known,
            )?;
        }
        let rows = lower.declared();
        let source = Source::View(below, &rows);
        let now = self.clock.now();
        let compiled = compile_view(self, create, source, shared.config.sketch_sizes(), now)?;
        let text = swiftwater_lang::ddl::Ddl::CreateView(create.clone()).to_string();
        self.record(Change::View { text, from: lower.entry.from, tables: Vec::new() }).await?;
        let entry = self.with_catalog(|catalog| catalog.view(&create.name).cloned())?;
        self.start_derived(&lower, View::over(entry, &lower, compiled, None, 0));
        Ok(true)
    }

    /// Lets a view of another's rows that is in the catalog go on where it was; where that was does not go with the other
    /// one any more, it is made anew. The other one must not be kept yet ([`History::maintain_views`]): its next commit would
    /// leave this one behind.
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
        let unavailable = |error: ViewStoreError| EngineError::ViewUnavailable {
            view: entry.create.name.to_string(),
            why: error.to_string(),
        };
        let noted = lower.store.noted(entry.id).map_err(unavailable)?;
        let lower_at = lower.store.position(lower.id()).map_err(unavailable)?.unwrap_or(0);
        let view = View::over(entry.clone(), &lower, compiled, noted.as_ref(), lower_at);
        if matches!(view, Some((_, true))) {
            tracing::info!(
                view = &*entry.create.name,
                below,
                "a view is made anew of the view that it is of"
            );
            lower.store.delete(entry.id).map_err(unavailable)?;
        }
        if lower.store.is_lost(entry.id) {
            tracing::error!(
                view = &*entry.create.name,
                below,
                "the files of a view were damaged; it is rebuilt from the view that it is of"
            );
            lower.store.record_rebuilt(entry.id);
        }
        self.start_derived(&lower, view);
        Ok(())
    }

    fn start_derived(self: &Arc<Self>, lower: &View, view: Option<(View, bool)>) {
        let Some(view) = view.map(|(view, _)| Arc::new(view)) else { return };
        heavy(usize::MAX, || view.go_on_keeping_changes(self.sinks_of_changes(&view)));
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(view.entry.create.name.clone(), Arc::clone(&view));
        drop(views);
        // Before anything changes in it: those who stand over its name see all of that.
        self.stream_new_view(&view);
        lower.add_upper(view);
    }

    /// An error where there are as many views as there can be.
    pub(crate) fn has_room_for_view(&self) -> Result<(), EngineError> {
        let views = self.with_catalog(|catalog| catalog.views().len());
        if views < self.config.views_max {
            return Ok(());
        }
        Err(EngineError::Runtime(RuntimeError::Limit {
            what: "number of views",
            setting: "views.views_max",
            wanted: views as u64 + 1,
            limit: self.config.views_max as u64,
        }))
    }

    /// Lets a view that is in the catalog go on where it was, once it is kept ([`History::maintain_views`]).
    pub(crate) fn open_view(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &ViewEntry,
        stored: &Arc<StoredStream>,
        (store, position): Kept,
    ) -> Result<(), EngineError> {
        let declared = stored.declared();
        self.know_joined(&entry.tables);
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
                "a view takes events from the table"
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

    /// Whether a stream's views can go on when it is altered; an error if not.
    pub(crate) fn check_views(
        &self,
        shared: &Shared,
        alter: &AlterStream,
        altered: &StreamEntry,
    ) -> Result<(), EngineError> {
        let of_stream = |view: &&ViewEntry| view.stream == altered.id;
        let mut views: Vec<ViewEntry> =
            self.with_catalog(|catalog| catalog.views().filter(of_stream).cloned().collect());
        // A view below another is older.
        views.sort_unstable_by_key(|view| view.id);
        let mut rows_of: HashMap<u32, (Box<str>, CreateStream)> = HashMap::new();
        let sizes = shared.config.sketch_sizes();
        for view in views {
            // What was counted so far was counted by the old types.
            let retypes = |change: &StreamChange| matches!(change, StreamChange::ColumnType { .. });
            let source = match view.of.and_then(|of| rows_of.get(&of)) {
                // They change only where what is refused below changes.
                Some((lower, rows)) => Source::View(lower, rows),
                None => Source::Stream(&altered.create),
            };
            let compiled = compile_view(self, &view.create, source, sizes, view.created);
            let columns: Vec<(Box<str>, Type)> = match compiled {
                Ok(Compiled { columns, .. }) if !alter.changes.iter().any(retypes) => columns,
                _ => return Err(view.uses(&alter.name).into()),
            };
            if view.of.is_none() {
                self.check_plan(&view, alter, altered)?;
            }
            let rows = rows_as_stream(&alter.name, &columns);
            rows_of.insert(view.id, (view.create.name, rows));
        }
        Ok(())
    }

    /// Whether a view of a stream means the same when that is altered; an error if not. It goes on as it was compiled, and is
    /// compiled anew when it is opened again.
    fn check_plan(
        &self,
        view: &ViewEntry,
        alter: &AlterStream,
        altered: &StreamEntry,
    ) -> Result<(), EngineError> {
        let before = self.with_catalog(|catalog| catalog.stream(&alter.name).cloned());
        let before = before.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, alter.name.as_str()))?;
        let plan = |stream: &CreateStream| {
            plan_view(self, &view.create, stream, view.created).ok().map(|(plan, _)| plan)
        };
        let planned = plan(&before.create);
        if planned.is_some() && planned == plan(&altered.create) {
            return Ok(());
        }
        let changes_it = |change: &&StreamChange| {
            let alone = AlterStream { changes: vec![(*change).clone()], ..alter.clone() };
            before.create.altered(&alone).is_ok_and(|altered| planned != plan(&altered))
        };
        match alter.changes.iter().find(changes_it).and_then(column_of) {
            Some(column) if view.owner.is_none() => {
                let stream = ObjectKind::Stream.named(alter.name.as_str());
                Err(CatalogError::InUse(Dependency::on_column(view.object(), stream, column)).into())
            }
            _ => Err(view.uses(&alter.name).into()),
        }
    }

    /// The store of the views, and a view's committed position and event time.
    pub(crate) fn view_position(&self, entry: &ViewEntry) -> Result<Kept, EngineError> {
        let store = self.view_store(&entry.create.name)?;
        let noted = store.noted(entry.id).map_err(|error| EngineError::ViewUnavailable {
            view: entry.create.name.to_string(),
            why: error.to_string(),
        })?;
        Ok((store, noted.map(|(position, note)| (position, time_of(&note)))))
    }

    /// Lets a new view be read, and keeps it.
    pub(crate) fn start_view(self: &Arc<Self>, view: Option<View>) {
        if let Some(view) = self.add_view(view) {
            self.spawn_view(view);
        }
    }

    fn add_view(self: &Arc<Self>, view: Option<View>) -> Option<Arc<View>> {
        let view = Arc::new(view?);
        heavy(usize::MAX, || view.go_on_keeping_changes(self.sinks_of_changes(&view)));
        *lock(&view.needed) = self.readers_of_windows(&view);
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(view.entry.create.name.clone(), Arc::clone(&view));
        drop(views);
        // Before anything changes in it: those who stand over its name see all of that.
        self.stream_new_view(&view);
        Some(view)
    }

    fn spawn_view(self: &Arc<Self>, view: Arc<View>) {
        let history = Arc::clone(self);
        self.spawn(async move { history.maintain_view(&view).await });
    }

    /// Lets all views that were opened take events in. Those over them are open by then, and in each of their commits.
    pub(crate) fn maintain_views(self: &Arc<Self>) {
        self.all_views()
            .into_iter()
            .filter(|view| view.below().is_none())
            .for_each(|view| self.spawn_view(view));
    }

    /// Ends a view that is no longer in the catalog.
    pub(crate) fn end_view(&self, name: &str) {
        let removed = self.views.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(view) = removed {
            // Its task deletes what is kept of it, when that is no longer being written. First, so that it knows why nothing comes.
            view.is_dropped.send_replace(true);
            view.stored.remove_view(view.id());
            self.forget_memory_of(&view);
            if view.below().is_some() {
                view.leave_lower();
                self.spawn(async move { delete_kept(&view).await });
            }
        }
    }

    /// Deletes what is kept of views that are not in the catalog, and changes that no sink wants.
    pub(crate) fn delete_dropped_views(&self) {
        let Some(store) = lock(&self.view_store).clone() else { return };
        let known: Vec<u32> = self.with_catalog(|catalog| {
            let alerts = catalog.alerts().map(|alert| alert.id);
            let joins = catalog.joins().map(|join| join.id);
            catalog.views().map(|view| view.id).chain(alerts).chain(joins).collect()
        });
        let kept = store.views().unwrap_or_default().into_iter().chain(store.lost());
        for view in kept.filter(|view| !known.contains(view)) {
            if let Err(error) = store.delete(view) {
                tracing::warn!(view, %error, "what is kept of a view that was dropped cannot be deleted");
            }
        }
        let is_wanted =
            |view: &u32| self.with_catalog(|catalog| catalog.sinks().changes_done(*view).is_some());
        for view in store.logs().unwrap_or_default().into_iter().filter(|view| !is_wanted(view)) {
            if let Err(error) = store.delete_log(view) {
                tracing::warn!(view, %error, "changes of a view that no sink wants cannot be deleted");
            }
        }
    }

    /// A view at work; not one that an alert has for itself.
    pub(crate) fn view(&self, name: &str) -> Result<Arc<View>, EngineError> {
        self.with_catalog(|catalog| catalog.view(name).map(|_| ()))?;
        self.view_at_work(name)
    }

    /// A view at work that is in the catalog, whoever has it.
    pub(crate) fn view_at_work(&self, name: &str) -> Result<Arc<View>, EngineError> {
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(name) {
            return Ok(Arc::clone(view));
        }
        let why = "it could not be opened; the server's log says why".to_owned();
        Err(EngineError::ViewUnavailable { view: name.to_owned(), why })
    }

    /// All views at work that have a name of their own, by name.
    pub(crate) fn named_views(&self) -> Vec<Arc<View>> {
        let mut views = self.all_views();
        views.retain(|view| view.entry.owner.is_none());
        views
    }

    /// All views at work, those of alerts, too.
    pub(crate) fn all_views(&self) -> Vec<Arc<View>> {
        self.views.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// The column that a change of a stream is of.
fn column_of(change: &StreamChange) -> Option<&str> {
    match change {
        StreamChange::AddColumn { column, .. } => Some(&column.name),
        StreamChange::ColumnType { column, .. }
        | StreamChange::ColumnDefault { column, .. }
        | StreamChange::DropNotNull { column } => Some(column),
        StreamChange::Set(_) | StreamChange::Reset(_) => None,
    }
}

/// Opens the files of the views, and of joins and alerts.
pub(crate) fn open_view_store(config: &HistoryConfig, path: &Path) -> Result<Arc<ViewStore>, ViewStoreError> {
    let options = ViewStoreOptions { cache_bytes: config.views_cache_bytes as u64 };
    ViewStore::open(path, options).map(Arc::new)
}

impl View {
    /// The note that is committed with the position: the event time.
    pub(super) fn note_of(&self, at: At) -> Vec<u8> {
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
    ViewTime { peak: Peak { time: next(), arrival: next() }, event: next(), last: next() }
}
