//! Views at work: a task for each takes its stream's synced events in and commits what they changed.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use swiftwater_event::{EventBatch, Millis, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateStream, CreateView, StreamChange},
};
use swiftwater_live::{Changes, NO_TIME, Shard};
use swiftwater_log::LogReader;
use swiftwater_views::{ViewStore, ViewStoreError, ViewStoreOptions};
use tokio::task::{JoinError, JoinHandle};

use super::{
    Compiled,
    behind::{PastError, check_past},
    compile_view,
    over::{check_timeless, rows_as_stream},
    raising::{Raised, kept_all},
    view::{At, Source, TakeError, View, plan_view},
};
use crate::{
    EngineError,
    history::{
        HistoryConfig,
        catalog::{Change, StreamEntry, ViewEntry},
        columns::joined,
        feed::Fed,
        feeding::{FeedError, ROWS_BYTES, read_some},
        joins::{Awaited, TableError, WaitError},
        state::{History, causes, heavy},
        stored::{Reader, Stored},
    },
    shared::Shared,
};

/// The pause after a first failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Of events that come from the table, what so many changed is committed together.
const KEPT_PAST_EVENTS: u64 = 500_000;

/// Why a view does not go on.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("its events cannot be read")]
    Feed(#[from] FeedError),
    #[error("its events cannot be had from the table")]
    Past(#[from] PastError),
    #[error("its events cannot be taken in")]
    Take(#[from] TakeError),
    #[error("its events cannot be joined yet")]
    Wait(#[from] WaitError),
}

impl KeepError {
    /// Whether to try again would end in the same.
    fn is_for_good(&self) -> bool {
        matches!(self, KeepError::Take(TakeError::State | TakeError::Panic(_)))
    }

    /// Whether it is no fault: SQL, by which tables are read, is there last.
    fn is_of_the_start(&self) -> bool {
        matches!(
            self,
            KeepError::Past(PastError::Starting) | KeepError::Wait(WaitError::Table(TableError::Starting))
        )
    }
}

/// Batches that are longer are taken by themselves.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// What comes next of a stream's events.
pub(in crate::history) enum Next {
    Events(Vec<Fed>),
    /// None before this offset: they were counted once, and are lost with a part of the log.
    Lost(u64),
}

/// Events that wait for what they are joined with.
struct Waiting {
    events: Vec<Fed>,
    awaited: Awaited,
}

/// Whether two batches may be taken as one: small ones that follow one another and arrived at the same time. A batch costs
/// a view far more than one of its events, and where each request is one event, most of a second's batches are such.
fn goes_with(fed: &Fed, next: &Fed) -> bool {
    let is_small = |fed: &Fed| fed.batch.bytes().len() <= JOINED_BYTES_MAX;
    is_small(fed)
        && is_small(next)
        && fed.next() == next.first()
        && fed.batch.meta().arrival == next.batch.meta().arrival
}

/// Where a view is kept, and what was kept last: the position, and the latest of its events' own times.
type Kept = (Arc<ViewStore>, Option<(u64, Millis)>);

/// What came of a commit: what was written of the views over it, and where it stands.
type Written = Result<(Result<Vec<Raised>, ViewStoreError>, At), JoinError>;

/// A commit that is being written.
type Keeping = JoinHandle<Written>;

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

impl History {
    /// The files of the views, opened when they are first needed.
    pub(in crate::history) fn view_store(&self, name: &str) -> Result<Arc<ViewStore>, EngineError> {
        let unavailable = |why: String| EngineError::ViewUnavailable { view: name.to_owned(), why };
        let mut store = crate::stream::lock(&self.view_store);
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
    pub(in crate::history) async fn create_view(
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
            return Err(EngineError::Exists { kind: "table", name: create.name.to_string() });
        }
        let stored = self.stored(&stream).ok_or_else(|| EngineError::NoStream(stream.to_string()))?;
        if let Some(below) = below {
            return self.create_over(shared, create, &below).await;
        }
        let options = ParseOptions::new(Dialect::Native, self.clock.now());
        self.hold_joined(shared, &create.query, &options).await?;
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
        let view = View::new(entry, stored, compiled, store, (from, NO_TIME), true);
        view.iter().for_each(|view| view.is_behind.store(has_past, Ordering::Relaxed));
        self.begin_view(view);
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
            check_timeless(&lower.entry.create, &lower.stored.declared().create, &lower.joined.known)?;
        }
        let rows = lower.declared();
        let source = Source::View(below, &rows);
        let now = self.clock.now();
        let compiled = compile_view(self, create, source, shared.config.sketch_sizes(), now)?;
        let text = swiftwater_lang::ddl::Ddl::CreateView(create.clone()).to_string();
        self.record(Change::View { text, from: lower.entry.from, tables: Vec::new() }).await?;
        let entry = self.with_catalog(|catalog| catalog.view(&create.name).cloned())?;
        self.begin_over(&lower, View::over(entry, &lower, compiled, None, 0));
        Ok(true)
    }

    /// Lets a view of another's rows that is in the catalog go on where it was; where that was does not go with the other
    /// one any more, it is made anew.
    pub(in crate::history) fn open_over(
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
        self.begin_over(&lower, view);
        Ok(())
    }

    fn begin_over(self: &Arc<Self>, lower: &View, view: Option<(View, bool)>) {
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
    pub(in crate::history) fn has_room_for_view(&self) -> Result<(), EngineError> {
        let views = self.with_catalog(|catalog| catalog.views().len());
        if views < self.config.views_max {
            return Ok(());
        }
        Err(EngineError::Limit {
            what: "number of views",
            setting: "views.views_max",
            wanted: views as u64 + 1,
            limit: self.config.views_max as u64,
        })
    }

    /// Lets a view that is in the catalog go on where it was.
    pub(in crate::history) fn open_view(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &ViewEntry,
        stored: &Arc<Stored>,
        (store, position): (Arc<ViewStore>, Option<(u64, Millis)>),
    ) -> Result<(), EngineError> {
        let declared = stored.declared();
        self.know_joined(&entry.tables);
        let source = Source::Stream(&declared.create);
        let sizes = shared.config.sketch_sizes();
        let compiled = compile_view(self, &entry.create, source, sizes, entry.created)?;
        let (from, latest) = position.unwrap_or((entry.from, NO_TIME));
        let at = (from, latest);
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
        self.begin_view(view);
        Ok(())
    }

    /// Whether a stream's views can go on when it is altered; an error if not.
    pub(in crate::history) fn check_views(
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
                _ => return Err(view.keeps(&alter.name)),
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
        let before = before.ok_or_else(|| EngineError::NoStream(alter.name.to_string()))?;
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
            Some(column) if view.owner.is_none() => Err(EngineError::ViewReadsColumn {
                view: view.create.name.to_string(),
                stream: alter.name.to_string(),
                column: column.to_owned(),
            }),
            _ => Err(view.keeps(&alter.name)),
        }
    }

    /// The store of the views, and the position of one and its latest time; an error where they cannot be read.
    pub(in crate::history) fn view_position(&self, entry: &ViewEntry) -> Result<Kept, EngineError> {
        let store = self.view_store(&entry.create.name)?;
        let noted = store.noted(entry.id).map_err(|error| EngineError::ViewUnavailable {
            view: entry.create.name.to_string(),
            why: error.to_string(),
        })?;
        let latest =
            |note: Vec<u8>| note.first_chunk().map_or(NO_TIME, |bytes| Millis::from_be_bytes(*bytes));
        Ok((store, noted.map(|(position, note)| (position, latest(note)))))
    }

    pub(in crate::history) fn begin_view(self: &Arc<Self>, view: Option<View>) {
        let Some(view) = view.map(Arc::new) else { return };
        heavy(usize::MAX, || view.go_on_keeping_changes(self.sinks_of_changes(&view)));
        *crate::stream::lock(&view.needed) = self.readers_of_windows(&view);
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(view.entry.create.name.clone(), Arc::clone(&view));
        drop(views);
        // Before anything changes in it: those who stand over its name see all of that.
        self.stream_new_view(&view);
        let history = Arc::clone(self);
        self.spawn(async move { history.keep_view(&view).await });
    }

    /// Ends a view that is no longer in the catalog.
    pub(in crate::history) fn end_view(&self, name: &str) {
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
    pub(in crate::history) fn delete_dropped_views(&self) {
        let Some(store) = crate::stream::lock(&self.view_store).clone() else { return };
        let known: Vec<u32> = self.with_catalog(|catalog| {
            let alerts = catalog.alerts().map(|alert| alert.id);
            let joins = catalog.joins().map(|join| join.id);
            catalog.views().map(|view| view.id).chain(alerts).chain(joins).collect()
        });
        for view in store.views().unwrap_or_default().into_iter().filter(|view| !known.contains(view)) {
            if let Err(error) = store.delete(view) {
                tracing::warn!(view, %error, "what is kept of a view that was dropped cannot be deleted");
            }
        }
        let is_wanted = |view: &u32| self.with_catalog(|catalog| catalog.sinks.changes_done(*view).is_some());
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
    pub(in crate::history) fn view_at_work(&self, name: &str) -> Result<Arc<View>, EngineError> {
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

    /// Takes a view's events in and commits it, until it is dropped, cannot go on, or the engine ends.
    async fn keep_view(&self, view: &Arc<View>) {
        let mut closing = self.closing();
        let mut dropped = view.is_dropped.subscribe();
        let interval = Duration::from_millis(self.config.views_commit_interval_ms.max(1));
        let (mut shard, mut again) = (Shard::default(), None);
        let mut keeping: Option<Keeping> = None;
        let (mut due, mut pause) = (Box::pin(tokio::time::sleep(interval)), PAUSE_MIN);
        let (mut kept_from, mut waiting) = (None, None);
        while view.is_behind.load(Ordering::Relaxed) && view.broken().is_none() {
            let past = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => break,
                _ = dropped.wait_for(|dropped| *dropped) => break,
                past = self.joined_past_of(view, &mut kept_from) => past,
            };
            let taken = match past {
                Ok(None) => {
                    view.is_behind.store(false, Ordering::Relaxed);
                    break;
                }
                Ok(Some((events, until))) => {
                    let bytes = events.iter().map(|batch| batch.bytes().len()).sum();
                    let taken =
                        heavy(bytes, || events.iter().try_for_each(|batch| view.take(&mut shard, batch)));
                    taken.map(|()| view.pass(until)).map_err(KeepError::from)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                note_error(view, &error);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            pause = PAUSE_MIN;
            let is_due = view.at().position >= view.committed() + KEPT_PAST_EVENTS;
            if is_due || self.has_changed_much(view) || view.has_unfilled() {
                let kept = self.begin_keeping(view).await;
                self.note_kept(view, kept);
            }
        }
        while view.broken().is_none() {
            let (is_changed, has_unfilled) = (view.at().position > view.committed(), view.has_unfilled());
            // What is not on disk cannot be let go of: where it is too much, events wait, in the log in the end.
            let is_full = is_changed && self.is_full(view);
            let is_due = is_full || (is_changed && self.has_changed_much(view));
            let is_awaited = is_changed && view.is_awaited();
            if !is_changed && keeping.is_none() && self.holds_too_much(view) {
                self.fit(view);
            }
            if (is_due || has_unfilled || is_awaited) && keeping.is_none() && view.failing().is_none() {
                keeping = Some(self.begin_keeping(view));
            }
            let has_room = !is_full && (keeping.is_none() || !self.has_changed_much(view));
            let event = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => break,
                _ = dropped.wait_for(|dropped| *dropped) => break,
                kept = async { keeping.as_mut().expect("it is looked for").await }, if keeping.is_some() => {
                    keeping = None;
                    due.set(tokio::time::sleep(interval));
                    pause = if self.note_kept(view, kept) { PAUSE_MIN } else {
                        due.set(tokio::time::sleep(pause));
                        (pause * 2).min(PAUSE_MAX)
                    };
                    None
                }
                () = view.commits.nudge.notified() => None,
                () = &mut due, if keeping.is_none() && (is_changed || has_unfilled) => {
                    keeping = Some(self.begin_keeping(view));
                    None
                }
                events = self.next_joined_events(view, &mut again, &mut waiting), if has_room => Some(events),
            };
            let Some(events) = event else { continue };
            let taken = match events {
                Ok(Next::Events(events)) => self.take(view, &mut shard, &events).map_err(KeepError::from),
                Ok(Next::Lost(_)) if view.has_ended() => Ok(()),
                Ok(Next::Lost(end)) => {
                    tell_lost(view, end);
                    view.pass(end);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            let Err(error) = taken else { continue };
            note_error(view, &error);
            if let KeepError::Wait(_) = &error {
                // They are there still.
                tokio::time::sleep(PAUSE_MIN).await;
                continue;
            }
            // From the log, after a while: what was taken out of the feed did not get there.
            view.stored.read_view_again(view.id(), view.at().position);
            again = None;
            tokio::time::sleep(PAUSE_MIN).await;
        }
        if let Some(keeping) = keeping {
            let kept = keeping.await;
            self.note_kept(view, kept);
        }
        if let Some(why) = view.broken() {
            view.note_on_uppers(&why, true);
            // The log need not keep anything for it.
            view.stored.remove_view(view.id());
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => {}
            }
        }
        if *dropped.borrow() {
            delete_kept(view).await;
        } else if view.at().position > view.committed() {
            let kept = self.begin_keeping(view).await;
            self.note_kept(view, kept);
        }
    }

    fn take(&self, view: &View, shard: &mut Shard, events: &[Fed]) -> Result<(), TakeError> {
        // Those that it has are passed over before any are joined.
        let position = view.at().position;
        let known = events.iter().take_while(|fed| fed.next() <= position).count();
        for together in events[known..].chunk_by(goes_with) {
            if together[0].first() > view.at().position {
                tell_lost(view, together[0].first());
            }
            let batch = joined(together);
            heavy(batch.bytes().len(), || view.take(shard, &batch))?;
        }
        Ok(())
    }

    /// Begins to write what changed since the last commit, and what that changes in the views over this one.
    fn begin_keeping(&self, view: &Arc<View>) -> Keeping {
        // Where it only has others take in what it has, it stands where it stood.
        let is_changed = view.at().position > view.committed();
        let (changes, at) = heavy(usize::MAX, || {
            if !is_changed {
                return (Changes::default(), view.at());
            }
            let cut = view.cut();
            // What is deleted goes with the next commit. What cannot be read now is looked at again.
            if let Err(error) = view.delete_past(PAST_KEYS_MIN.max(2 * cut.0.len())) {
                tracing::warn!(view = view.name(), %error, "keys whose time is over cannot be deleted yet");
            }
            cut
        });
        let (view, cutting) = (Arc::clone(view), Arc::clone(&self.cutting));
        let changes_max = self.config.sinks_changes_max;
        tokio::spawn(async move {
            let no_cut_is_made = cutting.read_owned().await;
            let writing = move || {
                let _no_cut_is_made = no_cut_is_made;
                (view.write(&changes, at, changes_max), at)
            };
            tokio::task::spawn_blocking(writing).await
        })
    }

    /// Answers whether it is kept.
    fn note_kept(&self, view: &View, kept: Result<Written, JoinError>) -> bool {
        let why = match kept.flatten() {
            Ok((Ok(raised), at)) => {
                view.kept(at);
                view.note_success();
                kept_all(raised, at);
                self.fit(view);
                return true;
            }
            Ok((Err(error), _)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        view.put_back();
        view.note_on_uppers(&why, false);
        if view.note_failure(why.clone(), false) {
            tracing::error!(view = view.name(), why, "a view cannot be kept on disk; it is tried again");
        }
        false
    }

    /// What a view takes next from the table, when what it is joined with counts all that was acknowledged before.
    async fn joined_past_of(
        &self,
        view: &View,
        kept: &mut Option<u64>,
    ) -> Result<Option<(Vec<EventBatch>, u64)>, KeepError> {
        let past = self.past_of(view, kept).await?;
        Awaited::now(&view.joined).reached(self).await?;
        Ok(past)
    }

    /// The next events of a view, when what it is joined with counts all that was acknowledged before them. Nothing is lost
    /// where it is left off.
    async fn next_joined_events(
        &self,
        view: &View,
        again: &mut Option<LogReader>,
        waiting: &mut Option<Waiting>,
    ) -> Result<Next, KeepError> {
        if waiting.is_none() {
            let reader = (Reader::View(view.id()), view.at().position);
            let events = match self.next_events(&view.stored, reader, again).await? {
                Next::Events(events) if !view.joined.is_empty() => events,
                next => return Ok(next),
            };
            *waiting = Some(Waiting { events, awaited: Awaited::now(&view.joined) });
        }
        if let Some(Waiting { awaited, .. }) = waiting {
            awaited.reached(self).await?;
        }
        if view.has_waited.swap(false, Ordering::Relaxed) {
            view.note_success();
        }
        Ok(Next::Events(waiting.take().map(|waiting| waiting.events).unwrap_or_default()))
    }

    /// The next events of a view, or of durable queries, which have all before `position`, in order; waits until there are any.
    /// Nothing is lost where it is left off.
    pub(in crate::history) async fn next_events(
        &self,
        stored: &Stored,
        (reader, position): (Reader, u64),
        again: &mut Option<LogReader>,
    ) -> Result<Next, FeedError> {
        loop {
            let fed = stored.fed.notified();
            tokio::pin!(fed);
            fed.as_mut().enable();
            if let Some(log) = again {
                let (events, is_end) = heavy(usize::MAX, || read_some(log, stored.id))?;
                let left = if is_end { stored.caught_up(reader, log.position()) } else { None };
                if is_end && left.is_none() {
                    *again = None;
                }
                if !events.is_empty() {
                    return Ok(Next::Events(events));
                }
                if let Some(last) = left {
                    self.log.synced(last).await?;
                }
                continue;
            }
            // What is counted here is in the feed when that is looked at, or left out of it to be read, or it is lost.
            let counted = stored.next();
            let taken = stored.take_fed(reader, self.log.horizons().synced, ROWS_BYTES);
            if !taken.is_empty() {
                return Ok(Next::Events(taken));
            }
            if let Some(from) = stored.behind(reader) {
                *again = Some(self.log.read(from));
            } else if let Some(end) = stored.waits_for(reader) {
                self.log.synced(end).await?;
            } else if position < counted {
                return Ok(Next::Lost(counted));
            } else {
                fed.await;
            }
        }
    }
}

/// Opens the files of the views, and of joins and alerts.
pub(in crate::history) fn open_view_store(
    config: &HistoryConfig,
    path: &Path,
) -> Result<Arc<ViewStore>, ViewStoreError> {
    let options = ViewStoreOptions { cache_bytes: config.views_cache_bytes as u64 };
    ViewStore::open(path, options).map(Arc::new)
}

/// Says that a view goes on at `end`, behind events that are not there.
fn tell_lost(view: &View, end: u64) {
    tracing::error!(
        view = view.name(),
        stream = view.stored.name.as_str(),
        first = view.at().position,
        end,
        "events that were acknowledged are lost with a part of the log; the view goes on behind them"
    );
}

/// Notes why a view does not go on.
fn note_error(view: &View, error: &KeepError) {
    if error.is_of_the_start() {
        return;
    }
    view.has_waited.fetch_or(matches!(error, KeepError::Wait(_)), Ordering::Relaxed);
    if view.note_failure(causes(error), error.is_for_good()) {
        let error = error as &dyn std::error::Error;
        tracing::error!(
            view = view.name(),
            error,
            "a view does not go on; unless that is for good, it is tried again"
        );
    }
}

/// Keys on disk that are looked at for being past with each commit, at least: no fewer than twice those that changed.
const PAST_KEYS_MIN: usize = 1 << 14;

/// Deletes what is kept of a view that was dropped.
async fn delete_kept(view: &Arc<View>) {
    let dropped = Arc::clone(view);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || dropped.delete_kept()).await {
        tracing::warn!(view = view.name(), %error, "what is kept of a view that was dropped is deleted at the next start");
    }
}
