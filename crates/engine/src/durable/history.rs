//! The durable side of the engine: opens the log, the catalog and the tables, and appends events.

use crate::durable::recovered::Recovered;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_catalog::{Catalog, kind::stream::StreamEntry};
pub(crate) use swiftwater_event::causes;
use swiftwater_event::{Clock, StreamName};
use swiftwater_lang::ddl::{self, DefaultValue};
use swiftwater_log::{Disk, Log, LogError, LogPosition, StallReason, StreamId};
use swiftwater_sql::SqlOptions;
use swiftwater_store::{ErrorKind as StoreErrorKind, Store, StoreError, Table};
use tokio::sync::Notify;

use crate::{
    Ack, EngineError, HistoryMetrics, RuntimeError, Ticket,
    shared::Shared,
    sql_nodes,
    supervisor::{Registry, StopSignal, Supervisor, TaskKind},
};
use crate::{
    HistoryConfig, HistoryError,
    backup::Backups,
    companions::IndexBuilds,
    durable::{
        columns::Columns,
        directory::DataDir,
        files::{OpenFiles, open_files},
        published::Published,
        readiness::Readiness,
        retained_positions::RetainedPositions,
        snapshots::Snapshots,
        stored_stream::{Declared, StoredStream, unavailable},
        validation::Unstored,
        view_store::ViewFiles,
    },
    objects::Objects,
};
use swiftwater_runtime::lock_order::{OrderedMutex, OrderedRwLock};

/// The durable part of an engine.
pub(crate) struct History {
    pub(crate) config: HistoryConfig,
    pub(crate) clock: Arc<dyn Clock>,
    /// The machine's clock, jumps included: for schedules by the calendar.
    pub(crate) wall: Arc<dyn Clock>,
    pub(crate) log: Arc<Log>,
    pub(crate) store: Store,
    pub(crate) catalog: Published<Catalog>,
    pub(crate) snapshots: OrderedMutex<Snapshots>,
    /// Locked while a statement changes the catalog: one at a time.
    pub(crate) statement_lock: tokio::sync::Mutex<()>,
    pub(crate) stored: OrderedRwLock<HashMap<StreamName, Arc<StoredStream>>>,
    pub(crate) objects: Objects,
    pub(crate) index_builds: Arc<IndexBuilds>,
    /// The objects that tasks maintain.
    pub(crate) registry: Registry,
    /// Positions of the log that joins need.
    pub(crate) retained: RetainedPositions,
    /// The engine, for tasks that append to its streams.
    pub(crate) engine: OnceLock<Weak<Shared>>,
    pub(crate) view_files: ViewFiles,
    pub(crate) unstored: Unstored,
    pub(crate) backups: Backups,
    /// Locked for reading while a change of the catalog is logged, and while a view, an alert or a join commits; for writing
    /// while a backup takes its snapshots.
    pub(crate) backup_lock: Arc<tokio::sync::RwLock<()>>,
    /// Notified when work in the store is pending, such as the opening of a table.
    pub(crate) pending_store_work: Notify,
    /// The position of the last checkpoint: the end of the log when the catalog's last snapshot was taken.
    pub(crate) checkpointed_position: AtomicU64,
    /// Locked during a checkpoint.
    pub(crate) checkpoint_lock: tokio::sync::Mutex<()>,
    pub(crate) supervisor: Supervisor,
    /// The readiness to store events.
    pub(crate) readiness: Readiness,
    /// Locked for this process as long as it lives.
    pub(crate) dir: Option<DataDir>,
}

/// The disks that a history is on; in tests they are made up.
pub struct Disks {
    /// The log's.
    pub log: Arc<dyn Disk>,
    /// The disk of the catalog's snapshots.
    pub catalog: Arc<dyn Disk>,
    /// The directory of the store of views and joins; none: views and joins cannot be created.
    pub views: Option<PathBuf>,
}

impl History {
    /// Opens a data directory, or creates one, and restores its streams and objects.
    pub(crate) async fn open(
        config: HistoryConfig,
        dir: Option<DataDir>,
        disks: Disks,
        store: Store,
        shared: &Shared,
    ) -> Result<Arc<History>, HistoryError> {
        let clock = Arc::clone(&shared.clock);
        let (log_clock, began) = (Arc::clone(&clock), clock.monotonic_nanos());
        let (settings, log_dir) = (config.clone(), log_dir(&config, dir.as_ref()));
        let opened = tokio::task::spawn_blocking(move || open_files(&settings, &log_dir, disks, &log_clock));
        let mut files = opened.await.map_err(|_| HistoryError::Broken)??;
        if let Some(last) = files.replay.last_arrival {
            shared.steady.start_at(last);
        }
        if let Some(id) = &files.replay.catalog.store {
            store.expect(id);
        }
        let recovered = std::mem::take(&mut files.replay.recovered);
        let history = Arc::new(History::new(config, dir, files, store, shared));
        if let Err(error) = history.restore_objects(shared, recovered).await {
            history.end_opening().await;
            return Err(error);
        }
        history.report_if_not_ready();
        history.start_services();
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        let streams = history.stored.read().len();
        tracing::info!(streams, millis = nanos / 1_000_000, "the data directory was opened");
        Ok(history)
    }

    /// A history over open files, whose streams and views are still to be brought back.
    fn new(
        config: HistoryConfig,
        dir: Option<DataDir>,
        files: OpenFiles,
        store: Store,
        shared: &Shared,
    ) -> History {
        let objects = Objects::new(&config);
        let (scratch, tasks) = (dir.as_ref().map(DataDir::spill), store.upkeep_tasks_max());
        let index_builds = Arc::new(IndexBuilds::new(scratch, config.search_memory_bytes_max, tasks));
        History {
            config,
            clock: Arc::clone(&shared.clock),
            wall: Arc::clone(shared.steady.wall()),
            log: Arc::new(files.log),
            store,
            catalog: Published::new(files.replay.catalog),
            snapshots: OrderedMutex::new(files.snapshots),
            statement_lock: tokio::sync::Mutex::default(),
            stored: OrderedRwLock::default(),
            objects,
            index_builds,
            registry: Registry::default(),
            retained: RetainedPositions::default(),
            engine: OnceLock::new(),
            view_files: files.view_files,
            unstored: Unstored::default(),
            backups: Backups::default(),
            backup_lock: Arc::default(),
            pending_store_work: Notify::new(),
            checkpointed_position: AtomicU64::new(files.checkpointed_position),
            checkpoint_lock: tokio::sync::Mutex::default(),
            supervisor: Supervisor::new(),
            readiness: Readiness::default(),
            dir,
        }
    }

    fn start_services(self: &Arc<Self>) {
        self.run_service((TaskKind::Table, "the refresh of joined tables"), |history| async move {
            history.maintain_joined_tables().await;
        });
        self.run_service((TaskKind::Checkpoint, "checkpoints"), |history| async move {
            history.run_checkpoints().await
        });
        self.run_service((TaskKind::Checkpoint, "the watch over readiness"), |history| async move {
            history.watch_readiness().await;
        });
    }

    /// Ends the tasks of a history that cannot be opened. Writes no checkpoint.
    async fn end_opening(&self) {
        self.supervisor.abort().await;
        self.store.close().await;
    }

    /// The directory of the log, for messages.
    pub(crate) fn log_dir(&self) -> PathBuf {
        log_dir(&self.config, self.dir.as_ref())
    }

    /// Stores a stream's events from now on. Without a table they wait in the log until the table can be opened.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        shared: &Shared,
        entry: &StreamEntry,
        table: Option<Table>,
        mut state: Recovered,
    ) -> Result<(), EngineError> {
        let stream = shared.stream(&entry.create.name)?;
        // A table can be ahead of its log only where the log was lost; its offsets are not given again.
        let committed = table.as_ref().map_or(0, |table| table.committed().0);
        let declared = Declared::new(entry)?;
        let is_open = table.is_some();
        // Events that were to be appended before are refused from here on: they were not to be stored, or into another table.
        let (stored, registration) = stream.start_at(state.next.max(committed), |next| {
            state.next = next;
            let stored = Arc::new(StoredStream::new(StreamId(entry.id), declared, table, state));
            // The log retains its events before there are any.
            let registration = self.registry.register(&stored);
            let mut all = self.stored.write();
            all.insert(entry.create.name.clone(), Arc::clone(&stored));
            drop(all);
            self.unstored.forget(&entry.create.name);
            (stored, registration)
        });
        stream.is_stored.store(true, Ordering::Relaxed);
        if !is_open {
            self.pending_store_work.notify_one();
        }
        self.maintain_registered(stored, registration);
        Ok(())
    }

    /// A stream that is stored.
    pub(crate) fn stored(&self, name: &StreamName) -> Option<Arc<StoredStream>> {
        self.stored.read().get(name).cloned()
    }

    /// True if the stream is there still, and was not dropped, perhaps to be created again.
    pub(crate) fn is_current(&self, stored: &Arc<StoredStream>) -> bool {
        self.stored(&stored.name).is_some_and(|there| Arc::ptr_eq(&there, stored))
    }

    /// All stored streams.
    pub(crate) fn all_stored(&self) -> Vec<Arc<StoredStream>> {
        self.stored.read().values().cloned().collect()
    }

    /// The metrics of log and tables.
    pub(crate) fn metrics(&self) -> HistoryMetrics {
        let tables = self.all_stored();
        HistoryMetrics {
            tables: tables.iter().map(|stored| stored.metrics()).collect(),
            jobs: self.job_status(),
            sinks: self.sink_statuses(),
            topics: self.topic_metrics(),
            ..self.metrics_of(&[])
        }
    }

    /// The metrics without jobs, sinks and topics, and with the tables of these streams alone.
    pub(crate) fn metrics_of(&self, streams: &[StreamName]) -> HistoryMetrics {
        let usage = self.log.usage();
        let tables = streams.iter().filter_map(|name| self.stored(name));
        HistoryMetrics {
            log_bytes: self.log.horizons().synced.0,
            log_queued_bytes: usage.queued_bytes,
            log_file_bytes: usage.file_bytes,
            log_syncs: usage.groups,
            log_sync_nanos: usage.sync_nanos,
            tables: tables.map(|stored| stored.metrics()).collect(),
            views: self.views_metrics(),
            joins: self.joins_metrics(),
            ..HistoryMetrics::default()
        }
    }

    /// Acknowledgement of a stream's events unless the request says otherwise; none if it is not stored.
    pub(crate) fn ack(&self, name: &StreamName) -> Option<Ack> {
        let stored = self.stored(name)?;
        Some(match stored.declared().create.options.ack {
            Some(ddl::Ack::None) => Ack::None,
            Some(ddl::Ack::Memory) => Ack::Memory,
            Some(ddl::Ack::Disk) => Ack::Disk,
            None => self.config.ack,
        })
    }

    /// Waits until the events of a ticket are on disk.
    pub(crate) async fn synced(&self, Ticket(position): Ticket) -> Result<(), EngineError> {
        self.log.synced(LogPosition(position)).await.map_err(unavailable)
    }

    /// Waits until all that was written into the log, so all that the catalog has, is on disk.
    pub(crate) async fn all_synced(&self) -> Result<(), EngineError> {
        self.log.synced(self.log.horizons().appended).await.map_err(unavailable)
    }

    /// The reason why the log accepts nothing at present, if so.
    pub(crate) fn stall_error(&self) -> Option<EngineError> {
        let of_log = self.log.horizons().trouble.map(|trouble| match trouble {
            StallReason::Full => EngineError::DiskFull,
            StallReason::Failing => unavailable(LogError::Failing),
        });
        of_log.or_else(|| self.refusal())
    }

    /// The engine's streams, as long as they are there.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>, EngineError> {
        self.engine.get().and_then(Weak::upgrade).ok_or(EngineError::Runtime(RuntimeError::ShuttingDown))
    }

    /// Reads the present catalog, without waiting for a statement that changes it.
    pub(crate) fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.catalog.newest())
    }

    /// Changes the catalog where that need not be logged.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        self.catalog.changing().apply(change);
    }

    /// Pauses a task of a kind until the time is over or the kind is stopped, which the caller checks next.
    pub(crate) async fn pause(&self, kind: TaskKind, time: Duration) {
        let _ = tokio::time::timeout(time, self.supervisor.stop_signal(kind).received()).await;
    }

    /// The signal that the engine is closing, for requests.
    pub(crate) fn closing(&self) -> StopSignal {
        self.supervisor.stop_signal(TaskKind::Reader)
    }

    /// Limits of SQL, and where it puts things aside.
    pub(crate) async fn sql_options(&self) -> Result<SqlOptions, HistoryError> {
        #[cfg(feature = "distributed")]
        let distribution = {
            let store = match self.config.worker_location() {
                Some(location) => {
                    sql_nodes::check_location(location)?;
                    let options = self.config.store_at(location.to_owned());
                    Store::open(options, Arc::clone(&self.clock)).await?
                }
                None => self.store.clone(),
            };
            sql_nodes::options(&self.config, store)?
        };
        #[cfg(not(feature = "distributed"))]
        sql_nodes::check(&self.config)?;
        Ok(SqlOptions {
            #[cfg(feature = "distributed")]
            distribution,
            memory_bytes_max: self.config.sql_memory_bytes_max,
            spill_directory: self.dir.as_ref().map(DataDir::spill),
            spill_bytes_max: self.config.sql_spill_bytes_max,
            threads: self.config.sql_threads,
            statements_max: self.config.sql_statements_max,
            statements_max_per_client: self.config.sql_statements_max_per_client,
            duration_max: Some(self.config.sql_timeout_ms)
                .filter(|millis| *millis > 0)
                .map(Duration::from_millis),
            unread_max: Some(self.config.sql_unread_ms_max)
                .filter(|millis| *millis > 0)
                .map(Duration::from_millis),
            output_roots: self.dir.iter().map(DataDir::exports).collect(),
            ..SqlOptions::default()
        })
    }
}

fn log_dir(config: &HistoryConfig, dir: Option<&DataDir>) -> PathBuf {
    dir.map_or_else(|| config.dir.join("log"), DataDir::log)
}

impl HistoryConfig {
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered::new((self.feed_bytes_max, self.feed_lag_ms_max), self.producers_max)
    }
}

/// Converts an error of the store to that of a statement.
pub(crate) fn table_error(error: &StoreError) -> EngineError {
    match error.kind() {
        StoreErrorKind::Invalid | StoreErrorKind::Conflict | StoreErrorKind::Limit => {
            EngineError::TableRefuses(causes(error))
        }
        _ => EngineError::Table(causes(error)),
    }
}

/// Runs blocking work on so many bytes without delaying other tasks of its thread.
pub(crate) fn run_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor::MultiThread};
    const INLINE_BYTES_MAX: usize = 128 << 10;
    let can_block = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == MultiThread);
    if bytes <= INLINE_BYTES_MAX || !can_block {
        return work();
    }
    tokio::task::block_in_place(work)
}

impl Declared {
    pub(crate) fn new(entry: &StreamEntry) -> Result<Declared, EngineError> {
        let columns = Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
        Ok(Declared { id: StreamId(entry.id), columns, create: entry.create.clone() })
    }

    /// True if a column's default depends on when an event arrived.
    pub(crate) fn has_now(&self) -> bool {
        self.create.columns.iter().any(|column| column.default == Some(DefaultValue::Now))
    }
}
