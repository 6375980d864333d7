//! Reopens the streams and views of the catalog at a start, each at its last position.

use super::history::History;
use crate::durable::{
    feeds::number_of_sink,
    recovered::Recovered,
    stored_stream::{FOLLOWER, StoredStream},
    view_store::LastCommit,
};
use crate::{EngineError, HistoryError, shared::Shared};
use std::{collections::BTreeMap, sync::Arc};
use swiftwater_catalog::{
    Catalog, WireError,
    kind::{sink::SinkEntry, stream::StreamEntry, view::ViewEntry},
};
use swiftwater_log::LogPosition;

impl History {
    /// Restores the catalog's streams and views, with the tables as far as the store can be reached.
    pub(super) async fn restore_objects(
        self: &Arc<Self>,
        shared: &Shared,
        mut recovered: BTreeMap<u32, Recovered>,
    ) -> Result<(), HistoryError> {
        let entries: Vec<StreamEntry> =
            self.catalog.newest().streams().map(|(_, entry)| entry.clone()).collect();
        let (entries, unstored): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.create.is_stored());
        for entry in &unstored {
            self.unstored.declare(entry).map_err(|error| statement_failed(entry, error))?;
        }
        let mut is_away = false;
        let mut views: Vec<PendingView> = Vec::new();
        for entry in &entries {
            let state = recovered.remove(&entry.id).unwrap_or_else(|| self.config.recovered());
            views.extend(self.reopen_stream(shared, entry, state, &mut is_away).await?);
        }
        self.record_lost_files();
        self.reopen_views(shared, views);
        self.retain_for_joins().map_err(HistoryError::View)?;
        self.delete_dropped_views();
        self.maintain_views();
        self.set_endpoints(None);
        Ok(())
    }

    /// Opens a stored stream with its table, unless the store cannot be reached. Returns its views, which are opened after all streams.
    async fn reopen_stream(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &StreamEntry,
        mut state: Recovered,
        is_away: &mut bool,
    ) -> Result<Vec<PendingView>, HistoryError> {
        let counted = state.next;
        let of_stream = |view: &&ViewEntry| view.stream == entry.id;
        let views: Vec<ViewEntry> =
            self.with_catalog(|catalog| catalog.views().filter(of_stream).cloned().collect());
        let (views, over): (Vec<_>, Vec<_>) = views.into_iter().partition(|view| view.of.is_none());
        let mut pending: Vec<PendingView> =
            over.into_iter().map(|entry| PendingView { entry, source: None }).collect();
        let views = self.recover_views(entry, views, &mut state)?;
        if let Some(needed) = self.with_catalog(|catalog| catalog.durable_queries().first_needed(entry.id)) {
            state.views.push((FOLLOWER, needed));
        }
        self.recover_sinks(entry, &mut state);
        let table = if *is_away { None } else { self.open_at_start(entry).await? };
        *is_away |= table.is_none();
        if let Some(table) = &table {
            let committed = table.committed().0;
            self.check_counted(entry, "its table", committed, counted)?;
            self.check_log_start(entry, &state, committed, counted)?;
        }
        self.open_stream(shared, entry, table, state).map_err(|error| statement_failed(entry, error))?;
        if let Some(stored) = self.stored(&entry.create.name) {
            if let Some(table) = stored.table() {
                self.connect_index(entry.create.name.as_str(), table);
            }
            pending.extend(views.into_iter().map(|(entry, commit)| {
                let source = Some((Arc::clone(&stored), commit));
                PendingView { entry, source }
            }));
        }
        Ok(pending)
    }

    /// Reads the last commits of a stream's views, and has the stream retain the events after them.
    fn recover_views(
        &self,
        entry: &StreamEntry,
        views: Vec<ViewEntry>,
        state: &mut Recovered,
    ) -> Result<Vec<(ViewEntry, LastCommit)>, HistoryError> {
        let (counted, was_stored) = (state.next, state.last > LogPosition(0));
        let mut recovered = Vec::new();
        for view in views {
            let (store, position) = self.view_position(&view).map_err(HistoryError::View)?;
            let from = position.map_or(view.from, |(position, _)| position);
            // Events from before the stream was stored are not counted.
            if was_stored && from > view.from {
                let name = &view.create.name;
                self.check_counted(entry, &format!("view `{name}`"), from, counted)?;
            }
            // Nor is an offset given again that a view has seen, if the log was lost.
            state.next = state.next.max(from);
            state.views.push((view.id, from));
            recovered.push((view, (store, position)));
        }
        Ok(recovered)
    }

    /// Has a stream retain the events that sinks of its events did not deliver, up to the bound for sinks.
    fn recover_sinks(&self, entry: &StreamEntry, state: &mut Recovered) {
        let offset = |sink: &SinkEntry| (number_of_sink(sink.id), sink.delivered.offset());
        let sinks: Vec<(u32, u64)> = self.with_catalog(|catalog| {
            catalog.sinks().of_events(entry.create.name.as_str()).map(offset).collect()
        });
        // No offset is given again that a sink has delivered, if the log was lost.
        state.next = sinks.iter().map(|(_, offset)| *offset).fold(state.next, u64::max);
        state.views.extend(sinks);
    }

    /// Opens views. One that cannot be opened is not maintained.
    fn reopen_views(self: &Arc<Self>, shared: &Shared, mut views: Vec<PendingView>) {
        // A view may join those before it, and be of one of them.
        views.sort_by_key(|view| view.entry.id);
        for PendingView { entry: view, source } in views {
            let opened = match source {
                Some((stored, commit)) => {
                    let opened = self.open_view(shared, &view, &stored, commit);
                    if opened.is_err() {
                        stored.remove_view(view.id);
                    }
                    opened
                }
                None => {
                    let name =
                        |catalog: &Catalog| catalog.below(&view).map(|below| below.create.name.clone());
                    let Some(below) = self.with_catalog(name) else { continue };
                    self.open_over(shared, &view, &below)
                }
            };
            if let Err(error) = opened {
                tracing::error!(view = &*view.create.name, %error, "a view cannot be opened, and is not maintained");
            }
        }
    }

    /// A view is created after its files have a directory. If that is a new one at a start, all that it held is lost.
    fn record_lost_files(&self) {
        let Some(store) = self.view_files.opened().filter(|store| store.is_new()) else { return };
        let lost: Vec<u32> = self.with_catalog(|catalog| {
            let views = catalog.views().filter(|view| view.of.is_none()).map(|view| view.id);
            let alerts = catalog.alerts().map(|alert| alert.id);
            views.chain(alerts).chain(catalog.joins().map(|join| join.id)).collect()
        });
        lost.into_iter().for_each(|id| store.record_lost(id));
    }
}

/// A view that is to be opened.
struct PendingView {
    entry: ViewEntry,
    /// The stream that it reads, and its last commit; none for a view over another view.
    source: Option<(Arc<StoredStream>, LastCommit)>,
}

fn statement_failed(entry: &StreamEntry, error: EngineError) -> HistoryError {
    HistoryError::Wire(WireError::statement(entry.create.name.as_str(), error))
}
