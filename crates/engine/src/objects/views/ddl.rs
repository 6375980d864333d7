//! CREATE VIEW and DROP VIEW, and whether views go on when their stream is altered.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use swiftwater_catalog::{
    CatalogError, Change, Dependency, ObjectKind,
    kind::{stream::StreamEntry, view::ViewEntry},
};
use swiftwater_event::{StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateStream, CreateView, Ddl, StreamChange},
};
use swiftwater_live::{SketchSizes, ViewTime};
use swiftwater_views::ViewStore;

use super::{
    Compiled,
    behind::check_past,
    compile::{Source, plan_view},
    compile_view,
    derived::{check_timeless, rows_as_stream},
    view::View,
};
use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
    durable::{
        history::{History, run_blocking},
        stored_stream::{Declared, StoredStream},
    },
    shared::Shared,
};

/// A view that can be created.
pub(crate) enum Prepared {
    /// The events of a stream.
    OfEvents(OfEvents),
    /// The rows of another view.
    OfRows { lower: Arc<View>, compiled: Compiled },
}

/// A view of the events of a stream.
pub(crate) struct OfEvents {
    stored: Arc<StoredStream>,
    declared: Arc<Declared>,
    sizes: SketchSizes,
    compiled: Compiled,
    store: Arc<ViewStore>,
    /// The first event that it has.
    from: u64,
    id: u32,
}

impl Statement for CreateView {
    type Prepared = Prepared;

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<Prepared>>, EngineError> {
        let checked = history.with_catalog(|catalog| catalog.check_view(self))?;
        let Some((stream, below)) = checked else { return Ok(None) };
        history.check_room_for_view()?;
        if let Some(tables) = shared.tables.get()
            && tables.is_plain(&self.name).unwrap_or(false)
        {
            return Err(CatalogError::exists(ObjectKind::Table, &*self.name).into());
        }
        let stored = history
            .stored(&stream)
            .ok_or_else(|| EngineError::not_found(ObjectKind::Stream, stream.as_str()))?;
        let text = ddl.to_string();
        if let Some(below) = below {
            let (lower, compiled) = history.prepare_derived(shared, self, &below)?;
            let change = Change::View { text, from: lower.entry.from, tables: Vec::new() };
            return Ok(Some(Planned { change, prepared: Prepared::OfRows { lower, compiled } }));
        }
        let options = ParseOptions::new(Dialect::Native, history.clock.now());
        history.pin_joined(shared, &self.query, &options).await?;
        let (declared, sizes) = (stored.declared(), shared.config.sketch_sizes());
        let source = Source::Stream(&declared.create);
        let compiled = compile_view(history, self, source, sizes, history.clock.now())?;
        let has_past = self.options.backfill == Some(true);
        if has_past {
            check_past(&declared.create)?;
        }
        let store = history.view_store(&self.name)?;
        let id = history.with_catalog(|catalog| catalog.next_view());
        // From here on the log keeps what the view needs, unless that begins with what the table has.
        let from = if has_past { 0 } else { stored.add_view(id, history.config.feed_bytes_max) };
        let tables = compiled.joined.columns_of_tables();
        let prepared = Prepared::OfEvents(OfEvents { stored, declared, sizes, compiled, store, from, id });
        Ok(Some(Planned { change: Change::View { text, from, tables }, prepared }))
    }

    fn abandon(&self, _: &History, prepared: Prepared) {
        if let Prepared::OfEvents(OfEvents { stored, id, .. }) = prepared {
            stored.remove_view(id);
        }
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        prepared: Prepared,
    ) -> Result<(), EngineError> {
        let entry = history.with_catalog(|catalog| catalog.view(&self.name).cloned())?;
        match prepared {
            Prepared::OfRows { lower, compiled } => {
                history.start_derived(&lower, View::over(entry, &lower, compiled, None, 0));
            }
            Prepared::OfEvents(OfEvents { stored, declared, sizes, compiled, store, from, .. }) => {
                let source = Source::Stream(&declared.create);
                let compiled = compile_view(history, self, source, sizes, entry.created).unwrap_or(compiled);
                let at = (from, ViewTime::default());
                let view = View::new(entry, stored, compiled, store, at, true);
                let is_behind = self.options.backfill == Some(true);
                view.iter().for_each(|view| view.is_behind.store(is_behind, Ordering::Relaxed));
                history.start_view(view);
            }
        }
        Ok(())
    }
}

/// `DROP VIEW`.
pub(crate) struct DropView<'d>(pub(crate) &'d str);

impl LoggedAsWritten for DropView<'_> {
    async fn apply_effect(&self, Context { history, shared }: Context<'_>) -> Result<(), EngineError> {
        history.end_view(self.0);
        if let Ok(stream) = StreamName::new(self.0) {
            let why = format!("view `{}` was dropped", self.0);
            run_blocking(usize::MAX, || shared.fail_all_over(&stream, &why));
        }
        Ok(())
    }
}

impl History {
    /// Compiles a view of another view's rows.
    fn prepare_derived(
        &self,
        shared: &Shared,
        create: &CreateView,
        below: &str,
    ) -> Result<(Arc<View>, Compiled), EngineError> {
        let lower = self.view(below)?;
        if let Some(why) = lower.broken() {
            return Err(lower.unavailable(why));
        }
        if lower.below().is_none() {
            let declared = lower.stored.declared();
            check_timeless(&lower.entry.create, &declared.create, &lower.joined.sources.known)?;
        }
        let rows = lower.declared();
        let (source, now) = (Source::View(below, &rows), self.clock.now());
        let compiled = compile_view(self, create, source, shared.config.sketch_sizes(), now)?;
        Ok((lower, compiled))
    }

    /// An error where there are as many views as there can be.
    pub(crate) fn check_room_for_view(&self) -> Result<(), EngineError> {
        let views = self.with_catalog(|catalog| catalog.views().len());
        check_room("number of views", "views.views_max", views, self.config.views_max)
    }

    /// Fails if a view of a stream cannot continue when the stream is altered.
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
            // The present counts were computed with the old types.
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

    /// Fails if a view of a stream means something else when the stream is altered. It goes on as it was compiled, and is
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
        match alter.changes.iter().find(changes_it).and_then(StreamChange::column) {
            Some(column) if view.owner.is_none() => {
                let stream = ObjectKind::Stream.named(alter.name.as_str());
                Err(CatalogError::InUse(Dependency::on_column(view.object(), stream, column)).into())
            }
            _ => Err(view.uses(&alter.name).into()),
        }
    }
}
