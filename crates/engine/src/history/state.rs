//! The durable side of the engine: log, catalog, tables, and what goes on between them.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_event::{Clock, EventBatch, Millis, StreamName};
use swiftwater_lang::ddl::{self, AlterStream, CreateJob, Ddl};
use swiftwater_live::columns::InferredColumn;
use swiftwater_log::{Disk, Head, Log, LogPosition, Packed, StreamId};
use swiftwater_sql::SqlOptions;
use swiftwater_store::{ErrorKind as StoreErrorKind, Store, StoreError, Table};
use swiftwater_views::ViewStore;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
};

use super::{
    HistoryConfig, HistoryError,
    backup::Backups,
    catalog::{Catalog, Change, ChangeRecord, Snapshot, StreamEntry, ViewEntry},
    columns::Columns,
    directory::DataDir,
    jobs::Jobs,
    quarantine::BadEvent,
    snapshots::Snapshots,
    spec::table_spec,
    stored::{Declared, Outcome, Packing, Recovered, Stored, unavailable},
    views::View,
};
use crate::{
    Ack, AppendOptions, Appended, EngineError, HistoryMetrics, Refusal, Ticket,
    shared::Shared,
    stream::{Stream, lock},
};

/// Everything durable of one engine.
pub(crate) struct History {
    pub(crate) config: HistoryConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<Log>,
    pub(crate) store: Store,
    catalog: Mutex<Catalog>,
    snapshots: Mutex<Snapshots>,
    /// Held while a statement changes the catalog: one at a time.
    pub(super) changing: tokio::sync::Mutex<()>,
    stored: RwLock<HashMap<StreamName, Arc<Stored>>>,
    /// Views at work, by name.
    pub(super) views: RwLock<BTreeMap<Box<str>, Arc<View>>>,
    /// What they keep; opened with the first of them.
    pub(super) view_store: Mutex<Option<Arc<ViewStore>>>,
    pub(super) backups: Backups,
    /// Held for reading while a change is put into the log, for writing while a backup's cut is made.
    pub(super) cutting: tokio::sync::RwLock<()>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Told when there is something to do in the store that could not be done yet.
    pub(super) owes: Notify,
    /// Where the log stood when the catalog was last written down.
    written_down: AtomicU64,
    /// Held while it is.
    writing_down: tokio::sync::Mutex<()>,
    /// Where the history was opened; its tasks run there.
    runtime: Handle,
    closing: watch::Sender<bool>,
    pub(crate) jobs: Jobs,
    /// Locked for this process as long as it lives.
    dir: Option<DataDir>,
}

/// The disks that a history is on; in tests they are made up.
pub struct Disks {
    /// The log's.
    pub log: Arc<dyn Disk>,
    /// That of the catalog's snapshots.
    pub catalog: Arc<dyn Disk>,
}

impl History {
    /// Opens a data directory, or makes a new one, and brings its streams back as they were.
    pub(crate) async fn open(
        config: HistoryConfig,
        dir: Option<DataDir>,
        disks: Disks,
        store: Store,
        shared: &Shared,
    ) -> Result<Arc<History>, HistoryError> {
        let clock = Arc::clone(&shared.clock);
        let options = config.log();
        let Disks { log, catalog } = disks;
        let (log_clock, began) = (Arc::clone(&clock), clock.monotonic_nanos());
        let opened = tokio::task::spawn_blocking(move || -> Result<_, HistoryError> {
            let (snapshots, snapshot) = Snapshots::open(catalog)?;
            Ok((Log::open(log, log_clock, options, Box::new(|_| ()))?, snapshots, snapshot))
        });
        let (log, snapshots, snapshot) = opened.await.map_err(|_| HistoryError::Broken)??;
        let written_down = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        let replay = Replay::of(&config, &log, snapshot)?;
        let jobs = Jobs::new(config.jobs_running_max);
        let history = Arc::new(History {
            config,
            clock: Arc::clone(&clock),
            log: Arc::new(log),
            store,
            catalog: Mutex::new(replay.catalog),
            snapshots: Mutex::new(snapshots),
            changing: tokio::sync::Mutex::default(),
            stored: RwLock::default(),
            views: RwLock::default(),
            view_store: Mutex::default(),
            backups: Backups::default(),
            cutting: tokio::sync::RwLock::default(),
            tasks: Mutex::default(),
            owes: Notify::new(),
            written_down: AtomicU64::new(written_down),
            writing_down: tokio::sync::Mutex::default(),
            runtime: Handle::current(),
            closing: watch::Sender::new(false),
            jobs,
            dir,
        });
        history.bring_back(shared, replay.recovered).await?;
        let housekeeping = Arc::clone(&history);
        history.spawn(async move { housekeeping.keep_house().await });
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        let streams = history.stored.read().unwrap_or_else(PoisonError::into_inner).len();
        tracing::info!(streams, millis = nanos / 1_000_000, "what is stored was opened");
        Ok(history)
    }

    /// Lets the catalog's streams go on where they were, with their tables, as far as the store can be reached.
    async fn bring_back(
        self: &Arc<Self>,
        shared: &Shared,
        mut recovered: BTreeMap<u32, Recovered>,
    ) -> Result<(), HistoryError> {
        let entries: Vec<StreamEntry> =
            lock(&self.catalog).streams().map(|(_, entry)| entry.clone()).collect();
        let mut is_away = false;
        for entry in entries.into_iter().filter(|entry| entry.create.is_stored()) {
            let mut state = recovered.remove(&entry.id).unwrap_or_else(|| self.config.recovered());
            let of_stream = |view: &&ViewEntry| view.stream == entry.id;
            let views: Vec<ViewEntry> =
                self.with_catalog(|catalog| catalog.views().filter(of_stream).cloned().collect());
            let mut kept = Vec::new();
            for view in views {
                let (store, position) = self.view_position(&view).map_err(HistoryError::View)?;
                state.views.push((view.id, position.unwrap_or(view.from)));
                kept.push((view, store, position));
            }
            let table = if is_away { None } else { self.open_at_start(&entry).await? };
            is_away |= table.is_none();
            self.open_stream(shared, &entry, table, state).map_err(|error| HistoryError::Statement {
                text: entry.create.name.to_string(),
                why: error.to_string(),
            })?;
            for (view, store, position) in kept {
                let Some(stored) = self.stored(&entry.create.name) else { continue };
                self.open_view(shared, &view, &stored, (store, position)).map_err(HistoryError::View)?;
            }
        }
        self.delete_dropped_views();
        Ok(())
    }

    /// Lets a stream be stored from now on. Without a table its events wait in the log until that can be opened.
    fn open_stream(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &StreamEntry,
        table: Option<Table>,
        mut state: Recovered,
    ) -> Result<(), EngineError> {
        let stream = shared.stream(&entry.create.name)?;
        // A table can be ahead of its log only where the log was lost; its offsets are not given again.
        let committed = table.as_ref().map_or(0, |table| table.committed().0);
        state.next = state.next.max(committed).max(stream.status(0).position);
        stream.begin_at(state.next);
        stream.is_stored.store(true, Ordering::Relaxed);
        let declared = Declared::new(entry)?;
        let is_open = table.is_some();
        let stored = Arc::new(Stored::new(StreamId(entry.id), declared, table, state));
        let mut all = self.stored.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(entry.create.name.clone(), Arc::clone(&stored));
        drop(all);
        if !is_open {
            self.owes.notify_one();
        }
        let history = Arc::clone(self);
        self.spawn(async move { history.feed(&stored).await });
        Ok(())
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        // A statement that begins one may be on threads that are for SQL.
        tasks.push(self.runtime.spawn(task));
    }

    /// A stream that is stored.
    pub(crate) fn stored(&self, name: &StreamName) -> Option<Arc<Stored>> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether the stream is there still, and was not dropped, perhaps to be created again.
    pub(super) fn is_current(&self, stored: &Arc<Stored>) -> bool {
        self.stored(&stored.name).is_some_and(|there| Arc::ptr_eq(&there, stored))
    }

    /// All that are.
    pub(crate) fn all_stored(&self) -> Vec<Arc<Stored>> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// How log and tables fare.
    pub(crate) fn metrics(&self) -> HistoryMetrics {
        let usage = self.log.usage();
        let tables = self.all_stored();
        HistoryMetrics {
            log_bytes: self.log.horizons().synced.0,
            log_queued_bytes: usage.queued_bytes,
            log_file_bytes: usage.file_bytes,
            log_syncs: usage.groups,
            log_sync_nanos: usage.sync_nanos,
            tables: tables.iter().map(|stored| stored.metrics()).collect(),
        }
    }

    /// When events of a stream are acknowledged unless the request says otherwise; none if it is not stored.
    pub(crate) fn ack(&self, name: &StreamName) -> Option<Ack> {
        let stored = self.stored(name)?;
        Some(match stored.declared().create.options.ack {
            Some(ddl::Ack::None) => Ack::None,
            Some(ddl::Ack::Memory) => Ack::Memory,
            Some(ddl::Ack::Disk) => Ack::Disk,
            None => self.config.ack,
        })
    }

    /// Takes events of a stored stream in.
    pub(crate) async fn append(
        &self,
        shared: &Shared,
        (stream, stored): (&Arc<Stream>, &Arc<Stored>),
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        let now_micros = self.clock.now_micros();
        stream.count_rejected(options.rejected);
        if let Some(numbered) = &options.numbered
            && let Some(receipt) = stored.look(numbered)?
        {
            return Ok(stored.appended(Outcome::Repeated(receipt), receipt.offset, batch.len() as u64));
        }
        let declared = stored.declared();
        let mut bad = Vec::new();
        if declared.quarantines() {
            bad.extend(options.refused.iter().map(BadEvent::of_text));
        }
        if batch.is_empty() {
            let (quarantined, ticket) = self.quarantine(shared, stored, &bad, &options).await?;
            return Ok(Appended { quarantined, ticket, ..Appended::live(&stored.name, stored.next(), 0) });
        }
        let bytes = batch.bytes().len();
        let (good, columns, rejected) =
            heavy(bytes, || declared.columns.accept(batch.clone(), now_micros.div_euclid(1000)));
        let mut appended = Appended {
            refusals: rejected.iter().map(Refusal::from).collect(),
            ..Appended::live(&stored.name, stored.next(), 0)
        };
        if options.all_or_none && !rejected.is_empty() {
            return Ok(appended);
        }
        stream.count_rejected(rejected.len() as u64);
        if declared.quarantines() {
            bad.extend(rejected.iter().map(|rejected| BadEvent::of_row(&batch, rejected)));
        }
        (appended.quarantined, appended.ticket) = self.quarantine(shared, stored, &bad, &options).await?;
        let events = good.len() as u64;
        if events == 0 {
            return Ok(appended);
        }
        let compression = self.config.log_compression;
        let packed = heavy(bytes, || Packed::new(&lines(&good), compression)).map_err(unavailable)?;
        let room = self.log.reserve(packed.bytes()).await.map_err(unavailable)?;
        shared.pending.enter(bytes).await.map_err(|_| EngineError::ShuttingDown)?;
        let packing = Packing { batch: good.clone(), columns, packed, room };
        let result = stream.append_with(good, now_micros, &options, |first, arrival| {
            match stored.store(&self.log, packing, (first, arrival), &options)? {
                outcome @ Outcome::Appended(_) => Ok((true, outcome)),
                outcome @ Outcome::Repeated(_) => Ok((false, outcome)),
            }
        });
        if !matches!(result, Ok((_, Outcome::Appended(_), _))) {
            shared.pending.leave(bytes);
        }
        let (offset, outcome, is_new_in_line) = result?;
        if is_new_in_line {
            shared.put_in_line(Arc::clone(stream));
        }
        let stored = stored.appended(outcome, offset, events);
        Ok(Appended {
            ticket: stored.ticket.max(appended.ticket),
            refusals: appended.refusals,
            quarantined: appended.quarantined,
            ..stored
        })
    }

    /// Waits until what a ticket stands for is on disk.
    pub(crate) async fn synced(&self, Ticket(position): Ticket) -> Result<(), EngineError> {
        self.log.synced(LogPosition(position)).await.map_err(unavailable)
    }

    /// Carries out a statement that changes the catalog; answers whether it changed anything.
    pub(crate) async fn change(self: &Arc<Self>, shared: &Shared, ddl: &Ddl) -> Result<bool, EngineError> {
        let _one_at_a_time = self.changing.lock().await;
        let create = match ddl {
            Ddl::CreateStream(create) => Some(create.clone()),
            // What is wrong with it is said below.
            Ddl::AlterStream(alter) => {
                lock(&self.catalog).altered(alter).ok().flatten().map(|entry| entry.create)
            }
            _ => None,
        };
        // First, so that no stream is without it that wants its bad events kept.
        if let Some(create) = create {
            self.make_quarantine(shared, &create).await?;
        }
        self.change_one(shared, ddl).await
    }

    pub(super) async fn change_one(
        self: &Arc<Self>,
        shared: &Shared,
        ddl: &Ddl,
    ) -> Result<bool, EngineError> {
        match ddl {
            Ddl::CreateStream(create) => {
                Columns::of(create, &[]).map_err(EngineError::Columns)?;
            }
            Ddl::CreateView(create) => return self.create_view(shared, create).await,
            Ddl::CreateJob(create) => self.has_room_for(create)?,
            _ => {}
        }
        let dropped = match ddl {
            Ddl::DropJob { name, .. } => lock(&self.catalog).job(name).ok().map(|job| job.id),
            _ => None,
        };
        let Some(change) = lock(&self.catalog).check(ddl)? else { return Ok(false) };
        match ddl {
            Ddl::CreateStream(create) if create.is_stored() => {
                self.clear_name(shared, &create.name).await?;
            }
            Ddl::AlterStream(alter) => self.prepare_alter(shared, alter).await?,
            _ => {}
        }
        self.record(change).await?;
        match ddl {
            Ddl::CreateStream(create) if create.is_stored() => {
                let opened = self.store.open_table(table_spec(create, &[])).await;
                let entry = lock(&self.catalog).stream(&create.name).cloned();
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
            Ddl::AlterStream(alter) => self.alter(shared, &alter.name).await?,
            Ddl::DropStream { name, .. } => {
                if let Some(stream) = shared.find_stream(name) {
                    stream.is_stored.store(false, Ordering::Relaxed);
                }
                self.stored.write().unwrap_or_else(PoisonError::into_inner).remove(name);
                // The stream is gone for good: what is left of its table goes as soon as that can be done.
                if let Err(error) = self.clear_dropped(name).await {
                    tracing::warn!(stream = %name, %error, "the table of a stream that was dropped is deleted later");
                    self.owes.notify_one();
                }
            }
            Ddl::DropView { name, .. } => self.end_view(name).await,
            Ddl::AlterJob { name, .. } => {
                let id = lock(&self.catalog).job(name)?.id;
                self.jobs.wake(id);
            }
            Ddl::DropJob { .. } => dropped.into_iter().for_each(|id| self.jobs.end(id)),
            _ => {}
        }
        Ok(true)
    }

    fn has_room_for(&self, create: &CreateJob) -> Result<(), EngineError> {
        let (jobs, limit) = (lock(&self.catalog).jobs().len(), self.config.jobs_max);
        if jobs < limit || lock(&self.catalog).job(&create.name).is_ok() {
            return Ok(());
        }
        Err(EngineError::Limit {
            what: "number of jobs",
            setting: "jobs.jobs_max",
            wanted: jobs as u64 + 1,
            limit: limit as u64,
        })
    }

    /// Writes a change into the log and, when it is on disk, into the catalog.
    pub(crate) async fn record(&self, change: Change) -> Result<(), EngineError> {
        let record = ChangeRecord::new(self.clock.now(), change);
        let packed = Packed::new(&record.to_bytes(), self.config.log_compression).map_err(unavailable)?;
        let room = self.log.reserve(packed.bytes()).await.map_err(unavailable)?;
        // Under the catalog's lock from the log on, so that a snapshot holds the changes before its position and no other.
        let end = {
            let _no_cut_is_made = self.cutting.read().await;
            let mut catalog = lock(&self.catalog);
            let end = self.log.append(Head::Catalog, packed, room).map_err(unavailable)?;
            catalog.apply(&record).map_err(|error| EngineError::NotStored(error.to_string()))?;
            end
        };
        self.synced(Ticket(end.0)).await
    }

    /// What can fail of altering a stream, before that is written down: so it is altered whole or not at all.
    async fn prepare_alter(&self, shared: &Shared, alter: &AlterStream) -> Result<(), EngineError> {
        let Some(entry) = lock(&self.catalog).altered(alter)? else { return Ok(()) };
        Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
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
        let entry = lock(&self.catalog).stream(name).cloned();
        let Some(entry) = entry else { return Ok(()) };
        let Some(stored) = self.stored(name) else {
            if entry.create.is_stored() {
                self.open_stream(shared, &entry, None, self.config.recovered())?;
            }
            return Ok(());
        };
        let spec = table_spec(&entry.create, &entry.found);
        if let Some(table) = stored.table() {
            table.alter(&spec).await.map_err(|error| table_error(&error))?;
        }
        stored.declare(Declared::new(&entry)?);
        Ok(())
    }

    /// Writes down that columns were found in a stream's events, and gives them to its table.
    pub(super) async fn found(
        &self,
        stored: &Stored,
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
        let entry = lock(&self.catalog).stream(&stored.name).cloned();
        let Some(entry) = entry.filter(|entry| entry.id == stored.id.0) else { return Ok(()) };
        let spec = table_spec(&entry.create, &entry.found);
        table.alter(&spec).await.map_err(|error| table_error(&error))
    }

    /// Takes a change into the catalog and writes that down whole, where the log has no room for the change.
    async fn write_down(&self, change: Change) -> Result<(), EngineError> {
        let record = ChangeRecord::new(self.clock.now(), change);
        let applied = lock(&self.catalog).apply(&record);
        applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
        let written = self.checkpoint().await;
        written.map(drop).map_err(|error| EngineError::NotStored(causes(&error)))
    }

    /// Looks at the catalog.
    pub(crate) fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&lock(&self.catalog))
    }

    /// Changes the catalog where that need not be logged.
    pub(super) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        change(&mut lock(&self.catalog));
    }

    /// Tells whether the engine is ending.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Writes snapshots and trims the log, until the end.
    async fn keep_house(&self) {
        let mut closing = self.closing();
        let interval = self.checkpoint_interval();
        let mut was = None;
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                _ = closing.changed() => return,
            }
            self.backups.expire();
            let appended = self.log.horizons().appended;
            // What a table has committed since may be given up, also where nothing can be appended until it is.
            if was != Some((appended, Some(self.needed_from()))) {
                // Time goes on in the log only where something happened in it.
                if was.is_none_or(|(before, _)| before != appended)
                    && let Err(error) = self.tick(self.clock.now()).await
                {
                    tracing::warn!(%error, "the time could not be written into the log");
                }
                let trimmed = self.checkpoint().await.inspect_err(|error| {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, "the catalog could not be written down");
                });
                was = Some((self.log.horizons().appended, trimmed.ok()));
            }
        }
    }

    fn checkpoint_interval(&self) -> Duration {
        Duration::from_millis(self.config.checkpoint_interval_ms.max(1))
    }

    /// The place in the log from which on a table may need events, as far as is synced.
    fn needed_from(&self) -> LogPosition {
        // Read first: what is appended from here on is needed whoever asks.
        let mut needed = self.log.horizons().synced;
        for position in self.all_stored().iter().filter_map(|stored| stored.needs_from()) {
            needed = needed.min(position);
        }
        needed
    }

    pub(super) async fn tick(&self, now: Millis) -> Result<(), EngineError> {
        let room = self.log.reserve(Packed::empty().bytes()).await.map_err(unavailable)?;
        self.log.append(Head::Tick { now }, Packed::empty(), room).map_err(unavailable).map(|_| ())
    }

    /// The catalog as it is, with how far each stream is. It counts what may not be synced yet.
    pub(super) fn snapshot(&self) -> Snapshot {
        let stored: HashMap<u32, Arc<Stored>> =
            self.all_stored().into_iter().map(|stored| (stored.id.0, stored)).collect();
        let catalog = lock(&self.catalog);
        let position = self.log.horizons().appended;
        catalog.snapshot(position.0, |entry| stored.get(&entry.id).map(|stored| stored.numbers()))
    }

    /// Writes the catalog down and lets go of what nobody needs of the log; answers up to where.
    pub(crate) async fn checkpoint(&self) -> Result<LogPosition, HistoryError> {
        // One at a time: an older snapshot must not take the place of a newer one.
        let _one_at_a_time = self.writing_down.lock().await;
        let snapshot = self.snapshot();
        let counted = LogPosition(snapshot.position);
        let appended = self.log.horizons().appended;
        // What the snapshot counts as stored is to be on disk before the snapshot is.
        loop {
            // A log that is full may not get there before it is trimmed: what the last snapshot counts may go at once.
            let written_down = LogPosition(self.written_down.load(Ordering::Relaxed));
            self.log.trim(self.needed_from().min(written_down));
            let synced = tokio::time::timeout(self.checkpoint_interval(), self.log.synced(appended)).await;
            if let Ok(synced) = synced {
                break synced?;
            }
        }
        heavy(usize::MAX, || lock(&self.snapshots).write(&snapshot))?;
        self.written_down.store(counted.0, Ordering::Relaxed);
        let needed = self.needed_from().min(counted);
        self.log.trim(needed);
        Ok(needed)
    }

    /// Stops taking anything in, commits what waits, writes the catalog down.
    pub(crate) async fn close(&self, grace: Duration) {
        let commit = async {
            for stored in self.all_stored() {
                self.hurry(&stored).await;
            }
        };
        if tokio::time::timeout(grace, commit).await.is_err() {
            tracing::info!(
                "not all tables were committed when the grace period was over; the log has the rest"
            );
        }
        self.closing.send_replace(true);
        // A log that cannot sync is not waited for: what it has is read again at the next start.
        if let Ok(Err(error)) = tokio::time::timeout(grace, self.checkpoint()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the catalog could not be written down");
        }
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for mut task in tasks {
            if tokio::time::timeout(grace, &mut task).await.is_err() {
                task.abort();
                let _ = task.await;
            }
        }
        self.store.close().await;
    }

    /// Lets a table commit all that was appended to its stream.
    async fn hurry(&self, stored: &Stored) {
        let Some(next) = stored.awaited() else { return };
        let Some(table) = stored.table() else { return };
        let mut progress = table.progress();
        let _ = progress.wait_for(|progress| progress.appended.0 >= next).await;
        let _ = table.flush().await;
    }

    /// Where views are kept.
    pub(super) fn views_path(&self) -> Option<PathBuf> {
        self.dir.as_ref().map(DataDir::views)
    }

    /// Limits of SQL, and where it puts things aside.
    pub(crate) fn sql_options(&self) -> SqlOptions {
        SqlOptions {
            memory_bytes_max: self.config.sql_memory_bytes_max,
            spill_directory: self.dir.as_ref().map(DataDir::spill),
            spill_bytes_max: self.config.sql_spill_bytes_max,
            threads: self.config.sql_threads,
            statements_max: self.config.sql_statements_max,
            output_roots: self.dir.iter().map(DataDir::exports).collect(),
            ..SqlOptions::default()
        }
    }
}

/// What the snapshot and the log come to.
struct Replay {
    catalog: Catalog,
    recovered: BTreeMap<u32, Recovered>,
}

impl Replay {
    fn of(config: &HistoryConfig, log: &Log, snapshot: Option<Snapshot>) -> Result<Replay, HistoryError> {
        let mut recovered: BTreeMap<u32, Recovered> = BTreeMap::new();
        let mut catalog = Catalog::default();
        let mut known = LogPosition(0);
        if let Some(snapshot) = snapshot {
            catalog = Catalog::from_snapshot(&snapshot)?;
            known = LogPosition(snapshot.position);
            for stream in &snapshot.streams {
                let mut state = config.recovered();
                state.take(&stream.numbers);
                recovered.insert(stream.id, state);
            }
        }
        let mut reader = log.read(log.usage().oldest);
        while let Some(record) = reader.next()? {
            match &record.head {
                Head::Events(head) => recovered
                    .entry(head.stream.0)
                    .or_insert_with(|| config.recovered())
                    .read(head, record.position, record.end),
                Head::Catalog if record.position >= known => {
                    catalog.apply(&ChangeRecord::from_bytes(record.payload)?)?;
                }
                Head::Catalog | Head::Tick { .. } => {}
            }
        }
        Ok(Replay { catalog, recovered })
    }
}

impl HistoryConfig {
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered::new(self.feed_bytes_max, self.producers_max)
    }
}

/// The events as the log has them: each on a line of its own.
fn lines(batch: &EventBatch) -> bytes::Bytes {
    let is_lines = (1..batch.len()).all(|row| batch.span(row).start == batch.span(row - 1).end + 1)
        && (1..batch.len()).all(|row| batch.bytes()[batch.span(row).start - 1] == b'\n');
    if is_lines && !batch.is_empty() {
        return batch.bytes().slice(batch.span(0).start..batch.span(batch.len() - 1).end);
    }
    let mut lines = Vec::with_capacity(batch.event_bytes() + batch.len());
    for row in 0..batch.len() {
        lines.extend_from_slice(batch.event(row));
        lines.push(b'\n');
    }
    lines.into()
}

/// An error of the store as whoever asks for a change sees it.
pub(super) fn table_error(error: &StoreError) -> EngineError {
    match error.kind() {
        StoreErrorKind::Invalid | StoreErrorKind::Conflict | StoreErrorKind::Limit => {
            EngineError::TableRefuses(causes(error))
        }
        _ => EngineError::Table(causes(error)),
    }
}

/// An error with all that caused it, on one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Does work on so many bytes without keeping other tasks from their thread.
pub(crate) fn heavy<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor::MultiThread};
    const INLINE_BYTES_MAX: usize = 128 << 10;
    let can_block = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == MultiThread);
    if bytes <= INLINE_BYTES_MAX || !can_block {
        return work();
    }
    tokio::task::block_in_place(work)
}

impl Declared {
    fn new(entry: &StreamEntry) -> Result<Declared, EngineError> {
        let columns = Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
        Ok(Declared { columns, create: entry.create.clone() })
    }
}
