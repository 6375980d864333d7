//! Statements that change the catalog: one at a time, checked before they are written down, written into the log before
//! they take effect.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use swiftwater_catalog::{Change, ChangeRecord};
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::{AlterStream, CreateJob, Ddl};
use swiftwater_live::columns::InferredColumn;
use swiftwater_log::Head;
use swiftwater_store::Table;

use crate::durable::{
    columns::Columns,
    history::{History, causes, heavy, table_error},
    spec::table_spec,
    stored_stream::{Declared, StoredStream, unavailable},
};
use crate::{EngineError, RuntimeError, Ticket, shared::Shared};

/// How long whoever is refused because of the store waits for the cause.
const CAUSE_TIME_MAX: Duration = Duration::from_secs(2);

impl History {
    /// Carries out a statement that changes the catalog; answers whether it changed anything.
    pub(crate) async fn change(self: &Arc<Self>, shared: &Shared, ddl: &Ddl) -> Result<bool, EngineError> {
        let _one_at_a_time = self.changing.lock().await;
        let create = match ddl {
            Ddl::CreateStream(create) => Some(create.clone()),
            // What is wrong with it is said below.
            Ddl::AlterStream(alter) => {
                self.catalog.newest().altered(alter).ok().flatten().map(|entry| entry.create)
            }
            _ => None,
        };
        // First, so that no stream is without it that wants its bad events kept.
        if let Some(create) = create {
            self.make_quarantine(shared, &create).await?;
        }
        self.change_one(shared, ddl).await
    }

    pub(crate) async fn change_one(
        self: &Arc<Self>,
        shared: &Shared,
        ddl: &Ddl,
    ) -> Result<bool, EngineError> {
        match ddl {
            Ddl::CreateStream(create) => {
                Columns::of(create, &[]).map_err(EngineError::Columns)?;
            }
            Ddl::CreateView(create) => return self.create_view(shared, create).await,
            Ddl::CreateAlert(create) => return self.create_alert(shared, create).await,
            Ddl::CreateSink(create) => return self.create_sink(shared, create).await,
            Ddl::CreateJoin(create) => return self.create_join(create).await,
            Ddl::CreateJob(create) => self.has_room_for(create)?,
            Ddl::CreateEndpoint(create) => self.check_endpoint(create)?,
            _ => {}
        }
        let dropped = match ddl {
            Ddl::DropJob { name, .. } => self.catalog.newest().job(name).ok().map(|job| job.id),
            _ => None,
        };
        let of_sink = match ddl {
            Ddl::DropSink { name, .. } => {
                let view = self.with_catalog(|catalog| {
                    catalog.sinks().get(name).ok().map(|sink| sink.create.view.clone())
                });
                view.and_then(|view| self.view(&view).ok())
            }
            _ => None,
        };
        let Some(change) = self.catalog.newest().check(ddl)? else { return Ok(false) };
        match ddl {
            Ddl::CreateStream(create) if create.is_stored() => {
                match self.clear_name(shared, &create.name).await {
                    Err(EngineError::Table(why)) => return Err(self.with_cause(why).await),
                    cleared => cleared?,
                }
            }
            Ddl::AlterStream(alter) => self.prepare_alter(shared, alter).await?,
            _ => {}
        }
        self.record(change).await?;
        match ddl {
            Ddl::CreateStream(create) if create.is_stored() => {
                let opened = self.store.open_table(table_spec(create, &[])).await;
                let entry = self.catalog.newest().stream(&create.name).cloned();
                let opened = opened.map_err(|error| table_error(&error));
                if let (Ok(table), Some(entry)) = (opened.as_ref(), entry) {
                    self.open_stream(shared, &entry, Some(table.clone()), self.config.recovered())?;
                }
                if let Err(error) = opened {
                    let undo = Ddl::DropStream { name: create.name.clone(), if_exists: true };
                    self.record(Change::Ddl(undo.to_string())).await?;
                    // The table may be there all the same: whether it was made is what is not known.
                    self.owes.notify_one();
                    return Err(error);
                }
            }
            Ddl::CreateStream(create) => {
                let entry = self.catalog.newest().stream(&create.name).cloned();
                entry.map_or(Ok(()), |entry| self.unstored.declare(&entry))?;
            }
            Ddl::AlterStream(alter) => {
                self.alter(shared, &alter.name).await?;
                self.set_endpoints(Some(&alter.name));
            }
            Ddl::DropStream { name, .. } => {
                let forget = || {
                    self.unstored.forget(name);
                    self.stored.write().unwrap_or_else(PoisonError::into_inner).remove(name)
                };
                let dropped = match shared.find_stream(name) {
                    Some(stream) => {
                        stream.is_stored.store(false, Ordering::Relaxed);
                        stream.between_appends(forget)
                    }
                    None => forget(),
                };
                if let Some(stored) = dropped {
                    stored.end();
                }
                self.end_follower(shared, name);
                // The stream is gone for good: what is left of its table goes as soon as that can be done.
                if let Err(error) = self.clear_dropped(name).await {
                    tracing::warn!(stream = %name, %error, "the table of a stream that was dropped is deleted later");
                    self.owes.notify_one();
                }
            }
            Ddl::DropView { name, .. } => {
                self.end_view(name);
                if let Ok(stream) = StreamName::new(name) {
                    let why = format!("view `{name}` was dropped");
                    heavy(usize::MAX, || shared.fail_all_over(&stream, &why));
                }
            }
            Ddl::DropAlert { name, .. } => self.end_alert(name),
            Ddl::CreateEndpoint(_) | Ddl::DropEndpoint { .. } => self.set_endpoints(None),
            Ddl::DropJoin { name, .. } => self.end_join(name),
            Ddl::DropSink { .. } => {
                self.sinks.changed.notify_one();
                of_sink.iter().for_each(|view| self.let_go_of_changes(view));
                self.let_go_of_windows();
            }
            Ddl::AlterJob { name, .. } => {
                let id = self.catalog.newest().job(name)?.id;
                self.jobs.wake(id);
            }
            Ddl::DropJob { .. } => dropped.into_iter().for_each(|id| self.jobs.end(id)),
            _ => {}
        }
        Ok(true)
    }

    /// An error of the store with what it says now, if it says that at once.
    async fn with_cause(&self, why: String) -> EngineError {
        match tokio::time::timeout(CAUSE_TIME_MAX, self.store.tables()).await {
            Ok(Err(error)) if !why.contains(&error.to_string()) => {
                EngineError::Table(format!("{why}: {}", causes(&error)))
            }
            _ => EngineError::Table(why),
        }
    }

    fn has_room_for(&self, create: &CreateJob) -> Result<(), EngineError> {
        let (jobs, limit) = (self.catalog.newest().jobs().len(), self.config.jobs_max);
        if jobs < limit || self.catalog.newest().job(&create.name).is_ok() {
            return Ok(());
        }
        Err(EngineError::Runtime(RuntimeError::Limit {
            what: "number of jobs",
            setting: "jobs.jobs_max",
            wanted: jobs as u64 + 1,
            limit: limit as u64,
        }))
    }

    /// Writes a change into the log and, when it is on disk, into the catalog.
    pub(crate) async fn record(&self, change: Change) -> Result<(), EngineError> {
        let is_urgent = change.is_urgent();
        let record = ChangeRecord::new(self.clock.now(), change);
        let packed = self.log.pack(record.to_bytes().into()).map_err(unavailable)?;
        let bytes = packed.bytes();
        let room = if is_urgent { self.log.reserve_urgent(bytes) } else { self.log.reserve(bytes) };
        let room = room.await.map_err(unavailable)?;
        // One change at a time from the log on, so that a snapshot holds the changes before its position and no other.
        let end = {
            let _no_cut_is_made = self.cutting.read().await;
            let catalog = self.catalog.changing();
            let end = self.log.append(Head::Catalog, packed, room).map_err(unavailable)?;
            let applied = catalog.apply(|catalog| catalog.apply(&record));
            applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
            end
        };
        self.synced(Ticket(end.0)).await
    }

    /// What can fail of altering a stream, before that is written down: so it is altered whole or not at all.
    async fn prepare_alter(&self, shared: &Shared, alter: &AlterStream) -> Result<(), EngineError> {
        let Some(entry) = self.catalog.newest().altered(alter)? else { return Ok(()) };
        Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
        self.check_views(shared, alter, &entry)?;
        self.check_joins(alter, &entry)?;
        self.check_endpoints_of(&entry.create)?;
        let Some(stored) = self.stored(&alter.name) else {
            return if entry.create.is_stored() {
                self.clear_name(shared, &alter.name).await
            } else {
                Ok(())
            };
        };
        if !entry.create.is_stored() {
            return Err(EngineError::StaysStored(alter.name.to_string()));
        }
        let table = stored.table().ok_or_else(|| {
            let why = stored.unopened().unwrap_or_default();
            EngineError::Table(format!("the table of stream `{}` is not open yet: {why}", alter.name))
        })?;
        let prepared = table.prepare(&table_spec(&entry.create, &entry.found)).await;
        prepared.map_err(|error| table_error(&error))
    }

    /// Lets a stream be as it was altered.
    async fn alter(self: &Arc<Self>, shared: &Shared, name: &StreamName) -> Result<(), EngineError> {
        let entry = self.catalog.newest().stream(name).cloned();
        let Some(entry) = entry else { return Ok(()) };
        let Some(stored) = self.stored(name) else {
            return match entry.create.is_stored() {
                true => self.open_stream(shared, &entry, None, self.config.recovered()),
                false => self.unstored.declare(&entry),
            };
        };
        let spec = table_spec(&entry.create, &entry.found);
        if let Some(table) = stored.table() {
            table.alter(&spec).await.map_err(|error| table_error(&error))?;
        }
        stored.declare(Declared::new(&entry)?);
        Ok(())
    }

    /// Writes down that columns were found in a stream's events, and gives them to its table.
    pub(crate) async fn found(
        &self,
        stored: &StoredStream,
        table: &Table,
        columns: Vec<InferredColumn>,
    ) -> Result<(), EngineError> {
        let columns = columns.into_iter().map(|column| (column.name, column.ty.to_string())).collect();
        let change = Change::Found { stream: stored.id.0, columns };
        match self.record(change.clone()).await {
            // The log gets room when the table has these events, and it gets them when this is written down.
            Err(EngineError::DiskFull) => self.write_down(change).await?,
            recorded => recorded?,
        }
        let entry = self.catalog.newest().stream(&stored.name).cloned();
        let Some(entry) = entry.filter(|entry| entry.id == stored.id.0) else { return Ok(()) };
        let spec = table_spec(&entry.create, &entry.found);
        table.alter(&spec).await.map_err(|error| table_error(&error))
    }

    /// Takes a change into the catalog and writes that down whole, where the log has no room for the change.
    async fn write_down(&self, change: Change) -> Result<(), EngineError> {
        let record = ChangeRecord::new(self.clock.now(), change);
        let applied = self.catalog.changing().apply(|catalog| catalog.apply(&record));
        applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
        let written = self.checkpoint().await;
        written.map(drop).map_err(|error| EngineError::NotStored(causes(&error)))
    }
}
