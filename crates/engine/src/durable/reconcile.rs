//! Completes the work in the store that is still pending. It opens the tables of streams, deletes those of dropped streams,
//! and lists the plain tables.
//!
//! An unreachable store delays nothing: the server starts without it, and streams append events to the log. All pending work
//! is retried, in turns, until it is done.

use crate::durable::recovered::Recovered;
use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, Weak},
    time::Duration,
};

use swiftwater_catalog::{CatalogError, ObjectKind, kind::stream::StreamEntry};
use swiftwater_event::{Backoff, StreamName};
use swiftwater_store::{ErrorKind as StoreErrorKind, StoreError, Table};

use crate::{EngineError, shared::Shared, supervisor::TaskKind};
use crate::{
    HistoryError,
    durable::{
        history::{History, causes},
        spec::table_spec,
        stored_stream::StoredStream,
    },
    tables::HistoryTables,
};

/// The time the start of a server waits for one answer of the store.
const START_TIME_MAX: Duration = Duration::from_secs(10);
/// Pauses between rounds that left something.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// One thing to do.
enum PendingWork {
    /// The catalog does not know yet which store it is.
    Identify,
    /// A stream has no table yet.
    Open(Arc<StoredStream>),
    /// A dropped stream may have one still.
    Delete(StreamName),
    /// The names of plain tables.
    Names,
}

/// True if the same may be done later.
fn may_pass(error: &StoreError) -> bool {
    // A table of another kind may be dropped. One that cannot be as its stream is declared is no reason to have none of the others.
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Invalid | StoreErrorKind::Limit)
        || matches!(error, StoreError::TableExists(_))
}

impl History {
    /// Opens a stream's table when the server starts; none if that is left for later.
    pub(crate) async fn open_at_start(&self, entry: &StreamEntry) -> Result<Option<Table>, HistoryError> {
        let name = &entry.create.name;
        let opening = self.store.open_table(table_spec(&entry.create, &entry.found));
        match tokio::time::timeout(START_TIME_MAX, opening).await {
            Ok(Ok(table)) => Ok(Some(table)),
            Ok(Err(error)) if may_pass(&error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(stream = %name, error, "a table cannot be opened; events wait in the log until it can");
                Ok(None)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                tracing::warn!(stream = %name, "a table is slow to open; events wait in the log meanwhile");
                Ok(None)
            }
        }
    }

    /// Refuses a table, or a view, that has more events of a stream than log and catalog count. If lost events of the log are
    /// to be skipped, the stream continues after the events that it has.
    pub(crate) fn check_counted(
        &self,
        entry: &StreamEntry,
        by: &str,
        committed: u64,
        counted: u64,
    ) -> Result<(), HistoryError> {
        if committed <= counted {
            return Ok(());
        }
        let (dir, stream, by) = (self.log_dir(), entry.create.name.to_string(), by.to_owned());
        let error = HistoryError::EventsLost { dir, stream, counted, by, committed };
        if !self.config.log_skip_corrupt {
            return Err(error);
        }
        tracing::error!(%error, "the stream continues after that, because of data.log_skip_corrupt");
        Ok(())
    }

    /// Refuses a log that lacks events which a table has not committed either, unless what is lost of it is to be skipped.
    pub(crate) fn check_log_start(
        &self,
        entry: &StreamEntry,
        state: &Recovered,
        committed: u64,
        counted: u64,
    ) -> Result<(), HistoryError> {
        let Some(Range { start: first, end }) = state.lacks(committed, counted) else { return Ok(()) };
        let (dir, stream) = (self.log_dir(), entry.create.name.to_string());
        let error = HistoryError::EventsMissing { dir, stream, first, end };
        if !self.config.log_skip_corrupt {
            return Err(error);
        }
        tracing::error!(%error, "the stream continues after that, because of data.log_skip_corrupt");
        Ok(())
    }

    /// Reconciles the store at the start of the server, within the time of one answer.
    pub(crate) async fn reconcile_at_start(&self, tables: &HistoryTables) {
        let settling = async {
            self.identify_store().await?;
            let dropped: Vec<StreamName> = self.with_catalog(|catalog| catalog.dropped().cloned().collect());
            for name in &dropped {
                self.clear_dropped(name).await?;
            }
            self.name_tables(tables).await
        };
        // A failure is found again when the rest is settled.
        let _ = tokio::time::timeout(START_TIME_MAX, settling).await;
    }

    /// Does the remaining work in the store, until the engine ends.
    pub(crate) async fn reconcile_store(self: Arc<Self>, shared: Weak<Shared>) {
        let mut stop = self.supervisor.stop_signal(TaskKind::Table);
        let working = async {
            let mut backoff = RETRY;
            while let Some(shared) = shared.upgrade() {
                let pending_store_work = self.pending_store_work.notified();
                let is_done = self.reconcile_round(&shared, backoff.failures() as usize).await;
                drop(shared);
                if is_done {
                    backoff.reset();
                    pending_store_work.await;
                } else {
                    tokio::time::sleep(backoff.pause()).await;
                }
            }
        };
        tokio::select! {
            () = working => {}
            () = stop.received() => {}
        }
    }

    /// Tries one thing after another, in every round another one first, up to the first that fails. Returns true if
    /// nothing is left.
    async fn reconcile_round(&self, shared: &Shared, round: usize) -> bool {
        let Some(tables) = shared.tables.get() else { return false };
        let unopened = self.all_stored().into_iter().filter(|stored| stored.table().is_none());
        let mut debts: Vec<PendingWork> = unopened.map(PendingWork::Open).collect();
        if self.with_catalog(|catalog| catalog.store.is_none()) {
            debts.push(PendingWork::Identify);
        }
        debts.extend(
            self.with_catalog(|catalog| catalog.dropped().cloned().collect::<Vec<_>>())
                .into_iter()
                .map(PendingWork::Delete),
        );
        if !tables.knows_plain() || tables.doubts_plain() {
            debts.push(PendingWork::Names);
        }
        let count = debts.len();
        debts.rotate_left(round % count.max(1));
        for debt in debts {
            // No stream is made, altered or dropped meanwhile.
            let _one_at_a_time = self.statement_lock.lock().await;
            let settled = match &debt {
                PendingWork::Identify => self.identify_store().await,
                PendingWork::Open(stored) => self.open_late(stored).await,
                PendingWork::Delete(name) => self.clear_dropped(name).await,
                PendingWork::Names => self.name_tables(tables).await,
            };
            if let Err(error) = settled {
                if round == 0 && !matches!(debt, PendingWork::Open(_)) {
                    tracing::warn!(%error, "the store cannot be reached; the server retries");
                }
                return false;
            }
        }
        true
    }

    /// Remembers which store it is, if that is not known.
    async fn identify_store(&self) -> Result<(), EngineError> {
        if self.with_catalog(|catalog| catalog.store.is_some()) {
            return Ok(());
        }
        let id = self.store.identify().await.map_err(|error| EngineError::Table(causes(&error)))?;
        self.store.expect(&id);
        self.change_catalog(|catalog| catalog.store = Some(id));
        self.checkpoint().await.map(drop).map_err(|error| EngineError::NotStored(causes(&error)))
    }

    async fn open_late(&self, stored: &Arc<StoredStream>) -> Result<(), EngineError> {
        let entry = self.with_catalog(|catalog| catalog.stream(&stored.name).cloned());
        let Some(entry) = entry.filter(|_| self.is_current(stored)) else { return Ok(()) };
        let opened = self.store.open_table(table_spec(&entry.create, &entry.found)).await;
        let given = opened.map_err(|error| causes(&error)).and_then(|table| stored.set_table(table));
        match given {
            Ok(()) => {
                if let Some(table) = stored.table() {
                    self.connect_index(stored.name.as_str(), table);
                }
                tracing::info!(stream = %stored.name, "the table is open");
                Ok(())
            }
            Err(why) => {
                if stored.record_unopened(why.clone()) {
                    tracing::warn!(stream = %stored.name, why, "the table cannot be opened yet; the server retries");
                }
                Err(EngineError::Table(why))
            }
        }
    }

    /// Deletes what is left of the table of a stream of this name that was dropped, as is one that could not be created to
    /// the end. No stream changes meanwhile.
    pub(crate) async fn clear_dropped(&self, name: &StreamName) -> Result<(), EngineError> {
        if !self.with_catalog(|catalog| catalog.is_dropped(name)) {
            return Ok(());
        }
        self.store.drop_stream_table(name.as_str()).await.map_err(|error| {
            let why = causes(&error);
            EngineError::Table(format!(
                "files of a dropped or incompletely created stream `{name}` cannot be deleted from the store yet: {why}"
            ))
        })?;
        self.change_catalog(|catalog| catalog.forget_dropped(name));
        Ok(())
    }

    /// Removes a table that is in the way of a stream that is to be stored.
    pub(crate) async fn clear_name(&self, shared: &Shared, name: &StreamName) -> Result<(), EngineError> {
        self.clear_dropped(name).await?;
        let Some(tables) = shared.tables.get() else { return Ok(()) };
        match tables.is_plain(name.as_str()) {
            Ok(false) => Ok(()),
            Ok(true) => Err(CatalogError::exists(ObjectKind::Table, name.as_str()).into()),
            Err(error) => Err(EngineError::Table(error.to_string())),
        }
    }

    /// Finds out which plain tables there are.
    async fn name_tables(&self, tables: &HistoryTables) -> Result<(), EngineError> {
        if self.with_catalog(|catalog| catalog.dropped().next().is_some()) {
            // One that is left of a dropped stream would be taken for a plain one.
            return Err(EngineError::Table("tables of dropped streams still exist".to_owned()));
        }
        self.store.finish_left().await.map_err(|error| EngineError::Table(causes(&error)))?;
        let names = self.store.tables().await.map_err(|error| EngineError::Table(causes(&error)))?;
        let is_stream = |name: &str| StreamName::new(name).is_ok_and(|name| self.stored(&name).is_some());
        let there: BTreeSet<Box<str>> = names.into_iter().filter(|name| !is_stream(name)).collect();
        // One that was there, and was not dropped, is not forgotten because its files are gone.
        let known = self.with_catalog(|catalog| catalog.plain.clone());
        let missing = known.iter().filter(|name| !there.contains(*name) && !is_stream(name));
        for table in missing.clone() {
            tracing::error!(%table, "the files of a table are missing: its directory, or its Delta log, is gone");
        }
        if !tables.knows_plain() {
            // The server stopped between the end of a table and that of its index. No table is made before its name can be known.
            let is_table = |name: &str| there.contains(name) || known.contains(name);
            for table in self.with_catalog(|catalog| catalog.orphaned_indexes(is_table)) {
                self.drop_index_of(&table).await;
            }
        }
        tables.name_plain(there.iter().chain(missing).map(ToString::to_string));
        if there.iter().any(|name| !known.contains(name)) {
            self.change_catalog(|catalog| catalog.plain.extend(there));
        }
        Ok(())
    }

    /// Records the names of plain tables, after one was made or before one is dropped. If that fails, the record lacks a
    /// table or has one too many.
    pub(crate) async fn record_plain(&self, name: &str, is_there: bool) {
        {
            let _no_cut_is_made = self.backup_lock.read().await;
            self.change_catalog(|catalog| {
                match is_there {
                    true => catalog.plain.insert(name.into()),
                    false => catalog.plain.remove(name),
                };
            });
        }
        if let Err(error) = self.checkpoint().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(table = name, error, "the list of tables cannot be written at present");
        }
    }
}
