//! The durable side of the engine: log, catalog and tables, how they are opened, and how events come in.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_catalog::{
    Catalog, ChangeRecord, Snapshot, WireError,
    kind::{stream::StreamEntry, view::ViewEntry},
};
pub(crate) use swiftwater_event::causes;
use swiftwater_event::{Clock, EventBatch, Millis, StreamName};
use swiftwater_lang::ddl::{self, DefaultValue};
use swiftwater_log::{Disk, Head, Log, LogError, LogOptions, LogPosition, StreamId, Trouble};
use swiftwater_sql::SqlOptions;
use swiftwater_store::{ErrorKind as StoreErrorKind, Store, StoreError, Table};
use swiftwater_views::ViewStore;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    Ack, AppendOptions, Appended, EngineError, HistoryMetrics, RuntimeError, Ticket, shared::Shared,
};
use crate::{
    HistoryConfig, HistoryError,
    backup::Backups,
    durable::{
        columns::{AcceptedColumns, Columns},
        dedup::Receipt,
        directory::DataDir,
        published::Published,
        readiness::Readiness,
        snapshots::Snapshots,
        stored_stream::{Declared, Outcome, Packing, Recovered, StoredStream, unavailable},
        validation::Unstored,
    },
    objects::{
        alerts::Alert,
        durable_query::{FOLLOWER, Followers},
        endpoints::Endpoints,
        jobs::Jobs,
        lookup_join::JoinedTable,
        sinks::SinkTasks,
        stream_joins::{Join, JoinHolds, joins_at_start},
        views::{View, ViewsMemory},
    },
};
use swiftwater_runtime::parts::{Stream, lock};

/// Everything durable of one engine.
pub(crate) struct History {
    pub(crate) config: HistoryConfig,
    pub(crate) clock: Arc<dyn Clock>,
    /// The machine's clock, jumps included: for what is due by the calendar.
    pub(crate) wall: Arc<dyn Clock>,
    pub(crate) log: Arc<Log>,
    pub(crate) store: Store,
    pub(crate) catalog: Published<Catalog>,
    pub(crate) snapshots: Mutex<Snapshots>,
    /// Held while a statement changes the catalog: one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) stored: RwLock<HashMap<StreamName, Arc<StoredStream>>>,
    /// Views at work, by name.
    pub(crate) views: RwLock<BTreeMap<Box<str>, Arc<View>>>,
    pub(crate) views_memory: Mutex<ViewsMemory>,
    /// Alerts at work, by name.
    pub(crate) alerts: RwLock<BTreeMap<Box<str>, Arc<Alert>>>,
    /// Joins at work, by name.
    pub(crate) joins: RwLock<BTreeMap<Box<str>, Arc<Join>>>,
    /// What the log keeps for them.
    pub(crate) join_holds: JoinHolds,
    /// The engine, for those who tell its streams something by themselves.
    pub(crate) engine: OnceLock<Weak<Shared>>,
    /// Where they keep what they keep.
    pub(crate) views_dir: Option<PathBuf>,
    /// What they keep; opened with the first of them.
    pub(crate) view_store: Mutex<Option<Arc<ViewStore>>>,
    /// Tables that events are joined with, by name.
    pub(crate) joined_tables: Mutex<BTreeMap<Box<str>, Arc<JoinedTable>>>,
    /// What durable queries stand on.
    pub(crate) followers: Followers,
    pub(crate) endpoints: Endpoints,
    pub(crate) unstored: Unstored,
    pub(crate) backups: Backups,
    /// Held for reading while a change is put into the log, or what views, alerts and joins keep on disk; for writing while
    /// a backup's cut is made.
    pub(crate) cutting: Arc<tokio::sync::RwLock<()>>,
    pub(crate) tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Told when there is something to do in the store that could not be done yet.
    pub(crate) owes: Notify,
    /// Where the log stood when the catalog was last written down.
    pub(crate) written_down: AtomicU64,
    /// Held while it is.
    pub(crate) writing_down: tokio::sync::Mutex<()>,
    /// Where the history was opened; its tasks run there.
    runtime: Handle,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) jobs: Jobs,
    pub(crate) sinks: SinkTasks,
    /// Whether events can be stored at present.
    pub(crate) readiness: Readiness,
    /// Locked for this process as long as it lives.
    pub(crate) dir: Option<DataDir>,
}

/// The disks that a history is on; in tests they are made up.
pub struct Disks {
    /// The log's.
    pub log: Arc<dyn Disk>,
    /// That of the catalog's snapshots.
    pub catalog: Arc<dyn Disk>,
    /// The directory of what views and joins keep; none: there can be none of them.
    pub views: Option<PathBuf>,
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
        let log_dir = log_dir(&config, dir.as_ref());
        let Disks { log: disk, catalog, views: views_dir } = disks;
        let (log_clock, began) = (Arc::clone(&clock), clock.monotonic_nanos());
        let (settings, kept_in) = (config.clone(), views_dir.clone());
        let opened = tokio::task::spawn_blocking(move || -> Result<_, HistoryError> {
            let (snapshots, snapshot) = Snapshots::open(catalog)?;
            let written_down = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
            let open_log = |known_end| {
                let options = LogOptions { known_end, ..settings.log() };
                let opened = Log::open(Arc::clone(&disk), Arc::clone(&log_clock), options, Box::new(|_| ()));
                opened.map_err(|error| match error {
                    LogError::Short { end, known } => {
                        HistoryError::LogLost { dir: log_dir.clone(), end: end.0, known: known.0 }
                    }
                    source => HistoryError::LogUnopened { dir: log_dir.clone(), source },
                })
            };
            let mut log = open_log(LogPosition(snapshot.as_ref().map_or(0, Snapshot::log_end)))?;
            // It is trimmed up to there at most.
            let begins = log.usage().oldest.0;
            if begins > written_down {
                let dir = log_dir.clone();
                let error = HistoryError::LogFrontLost { dir, begins, known: written_down };
                if !settings.log_skip_corrupt {
                    return Err(error);
                }
                tracing::error!(%error, "all goes on without, as it was told to");
            }
            let replay = Replay::of(&settings, &log, snapshot)?;
            let (view_store, read) = joins_at_start(&settings, &replay.catalog, kept_in.as_deref())?;
            // Which joins there are is known when the log is read. Nothing was written to it yet: what is missing may be put back.
            if read > log.horizons().appended {
                drop(log);
                log = open_log(read)?;
            }
            Ok((log, snapshots, written_down, replay, view_store))
        });
        let opened = opened.await.map_err(|_| HistoryError::Broken)??;
        let (log, snapshots, written_down, replay, view_store) = opened;
        if let Some(last) = replay.last_arrival {
            shared.steady.begin_at(last);
        }
        if let Some(id) = &replay.catalog.store {
            store.expect(id);
        }
        let jobs = Jobs::new(config.jobs_running_max);
        let history = Arc::new(History {
            config,
            clock: Arc::clone(&clock),
            wall: Arc::clone(shared.steady.wall()),
            log: Arc::new(log),
            store,
            catalog: Published::new(replay.catalog),
            snapshots: Mutex::new(snapshots),
            changing: tokio::sync::Mutex::default(),
            stored: RwLock::default(),
            views: RwLock::default(),
            views_memory: Mutex::default(),
            alerts: RwLock::default(),
            joins: RwLock::default(),
            join_holds: JoinHolds::default(),
            engine: OnceLock::new(),
            views_dir,
            view_store: Mutex::new(view_store),
            joined_tables: Mutex::default(),
            followers: Followers::default(),
            endpoints: Endpoints::default(),
            unstored: Unstored::default(),
            backups: Backups::default(),
            cutting: Arc::default(),
            tasks: Mutex::default(),
            owes: Notify::new(),
            written_down: AtomicU64::new(written_down),
            writing_down: tokio::sync::Mutex::default(),
            runtime: Handle::current(),
            closing: watch::Sender::new(false),
            jobs,
            sinks: SinkTasks::default(),
            readiness: Readiness::default(),
            dir,
        });
        if let Err(error) = history.bring_back(shared, replay.recovered).await {
            history.end_opening().await;
            return Err(error);
        }
        history.report_if_not_ready();
        let joining = Arc::clone(&history);
        history.spawn(async move { joining.maintain_joined_tables().await });
        let housekeeping = Arc::clone(&history);
        history.spawn(async move { housekeeping.run_checkpoints().await });
        let looking = Arc::clone(&history);
        history.spawn(async move { looking.watch_readiness().await });
        let nanos = clock.monotonic_nanos().saturating_sub(began);
        let streams = history.stored.read().unwrap_or_else(PoisonError::into_inner).len();
        tracing::info!(streams, millis = nanos / 1_000_000, "what is stored was opened");
        Ok(history)
    }

    /// Ends what was begun of a history that cannot be opened, and writes nothing down.
    async fn end_opening(&self) {
        self.closing.send_replace(true);
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        self.store.close().await;
    }

    /// Where the log lies, for those who are told that something is wrong with it.
    pub(crate) fn log_dir(&self) -> PathBuf {
        log_dir(&self.config, self.dir.as_ref())
    }

    /// Lets the catalog's streams go on where they were, with their tables, as far as the store can be reached.
    async fn bring_back(
        self: &Arc<Self>,
        shared: &Shared,
        mut recovered: BTreeMap<u32, Recovered>,
    ) -> Result<(), HistoryError> {
        let entries: Vec<StreamEntry> =
            self.catalog.newest().streams().map(|(_, entry)| entry.clone()).collect();
        let statement_failed = |entry: &StreamEntry, error: EngineError| {
            HistoryError::Wire(WireError::statement(entry.create.name.as_str(), error))
        };
        let (entries, unstored): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.create.is_stored());
        for entry in &unstored {
            self.unstored.declare(entry).map_err(|error| statement_failed(entry, error))?;
        }
        let (mut is_away, mut kept_views) = (false, Vec::new());
        for entry in entries {
            let mut state = recovered.remove(&entry.id).unwrap_or_else(|| self.config.recovered());
            let (counted, was_stored) = (state.next, state.last > LogPosition(0));
            let of_stream = |view: &&ViewEntry| view.stream == entry.id;
            let views: Vec<ViewEntry> =
                self.with_catalog(|catalog| catalog.views().filter(of_stream).cloned().collect());
            let (views, over): (Vec<_>, Vec<_>) = views.into_iter().partition(|view| view.of.is_none());
            kept_views.extend(over.into_iter().map(|view| (view, None)));
            let mut kept = Vec::new();
            for view in views {
                let (store, position) = self.view_position(&view).map_err(HistoryError::View)?;
                let from = position.map_or(view.from, |(position, _)| position);
                // What a stream had before it was stored is not counted.
                if was_stored && from > view.from {
                    let name = &view.create.name;
                    self.check_counted(&entry, &format!("view `{name}`"), from, counted)?;
                }
                // Nor is an offset given again that a view has seen, if the log was lost.
                state.next = state.next.max(from);
                state.views.push((view.id, from));
                kept.push((view, store, position));
            }
            if let Some(needed) = self.with_catalog(|catalog| catalog.durable_queries().needs_from(entry.id))
            {
                state.views.push((FOLLOWER, needed));
            }
            let table = if is_away { None } else { self.open_at_start(&entry).await? };
            is_away |= table.is_none();
            if let Some(table) = &table {
                let committed = table.committed().0;
                self.check_counted(&entry, "its table", committed, counted)?;
                self.check_kept(&entry, &state, committed, counted)?;
            }
            self.open_stream(shared, &entry, table, state)
                .map_err(|error| statement_failed(&entry, error))?;
            let Some(stored) = self.stored(&entry.create.name) else { continue };
            kept_views.extend(
                kept.into_iter().map(|(view, store, at)| (view, Some((Arc::clone(&stored), store, at)))),
            );
        }
        self.record_lost_files();
        // A view may join those before it, and be of one of them.
        kept_views.sort_by_key(|(view, _)| view.id);
        for (view, kept) in kept_views {
            let opened = match kept {
                Some((stored, store, position)) => {
                    let opened = self.open_view(shared, &view, &stored, (store, position));
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
                tracing::error!(view = &*view.create.name, %error, "a view cannot be opened, and is not kept");
            }
        }
        self.retain_for_joins().map_err(HistoryError::View)?;
        self.delete_dropped_views();
        self.maintain_views();
        self.set_endpoints(None);
        Ok(())
    }

    /// A view is created after its files have a directory. If that is a new one at a start, all that it held is lost.
    fn record_lost_files(&self) {
        let Some(store) = lock(&self.view_store).clone().filter(|store| store.is_new()) else { return };
        let lost: Vec<u32> = self.with_catalog(|catalog| {
            let views = catalog.views().filter(|view| view.of.is_none()).map(|view| view.id);
            let alerts = catalog.alerts().map(|alert| alert.id);
            views.chain(alerts).chain(catalog.joins().map(|join| join.id)).collect()
        });
        lost.into_iter().for_each(|id| store.record_lost(id));
    }

    /// Lets a stream be stored from now on. Without a table its events wait in the log until that can be opened.
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
        let stored = stream.begin_at(state.next.max(committed), |next| {
            state.next = next;
            let stored = Arc::new(StoredStream::new(StreamId(entry.id), declared, table, state));
            let mut all = self.stored.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(entry.create.name.clone(), Arc::clone(&stored));
            drop(all);
            self.unstored.forget(&entry.create.name);
            stored
        });
        stream.is_stored.store(true, Ordering::Relaxed);
        if !is_open {
            self.owes.notify_one();
        }
        self.maintain(stored);
        Ok(())
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        // A statement that begins one may be on threads that are for SQL.
        tasks.push(self.runtime.spawn(task));
    }

    /// A stream that is stored.
    pub(crate) fn stored(&self, name: &StreamName) -> Option<Arc<StoredStream>> {
        self.stored.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether the stream is there still, and was not dropped, perhaps to be created again.
    pub(crate) fn is_current(&self, stored: &Arc<StoredStream>) -> bool {
        self.stored(&stored.name).is_some_and(|there| Arc::ptr_eq(&there, stored))
    }

    /// All that are.
    pub(crate) fn all_stored(&self) -> Vec<Arc<StoredStream>> {
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
            views: self.views_metrics(),
            joins: self.joins_metrics(),
            jobs: self.job_status(),
            sinks: self.sink_statuses(),
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
        (stream, stored): (&Arc<Stream>, &Arc<StoredStream>),
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        let now_micros = self.clock.now_micros();
        let mut declared = stored.declared();
        if let Some(numbered) = &options.numbered
            && let Some(receipt) = stored.look(numbered, options.ack)?
        {
            return self.repeated(shared, (stream, stored), receipt, (batch, now_micros), &options).await;
        }
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        loop {
            let mut held = declared.hold(batch.clone(), now_micros);
            let refusals = held.refusals();
            let none = Appended { refusals, ..Appended::live(&stored.name, stored.next(), 0) };
            if options.all_or_none && held.has_bad() {
                return Ok(none);
            }
            let events = held.good.len() as u64;
            let appended = match events {
                0 => none,
                _ => {
                    let good = (held.good.clone(), held.columns.take(), batch.bytes().len());
                    let validated_by = (stream, stored, &declared);
                    let Some((offset, outcome)) =
                        self.put(shared, validated_by, good, now_micros, &options).await?
                    else {
                        declared = stored.declared();
                        continue;
                    };
                    Appended { refusals: none.refusals, ..stored.appended(outcome, offset, events) }
                }
            };
            let taken = (events, appended.is_repeated);
            let kept = self.quarantine_bad(shared, (stream, &declared), &held, &options, taken).await?;
            let ticket = appended.ticket.max(kept.ticket);
            return Ok(Appended { quarantined: kept.count, ticket, ..appended });
        }
    }

    /// Puts good events into the log and in line; answers the offset after them. None are put where another declaration holds by
    /// then than the one that they were validated by.
    async fn put(
        &self,
        shared: &Shared,
        (stream, stored, declared): (&Arc<Stream>, &Arc<StoredStream>, &Arc<Declared>),
        (good, columns, bytes): (EventBatch, Option<AcceptedColumns>, usize),
        now_micros: i64,
        options: &AppendOptions,
    ) -> Result<Option<(u64, Outcome)>, EngineError> {
        let mut closing = self.closing();
        let _admitted = tokio::select! {
            admitted = stored.admit(&*self.clock, (bytes, good.len() as u64)) => admitted,
            _ = closing.wait_for(|closing| *closing) => return Err(EngineError::Runtime(RuntimeError::ShuttingDown)),
        };
        let packed = heavy(bytes, || self.log.pack(lines(&good))).map_err(unavailable)?;
        let refused = |error| self.with_numbers(unavailable(error));
        let room = self.log.reserve(packed.bytes()).await.map_err(refused)?;
        shared.enter(bytes).await?;
        let mut packing = Packing { batch: good.clone(), columns, packed, room };
        let result = stream.append_with(good, now_micros, options, |first, arrival| {
            if !self.is_current(stored) {
                return Err(EngineError::Runtime(RuntimeError::StreamReplaced(stored.name.to_string())));
            }
            if !Arc::ptr_eq(declared, &stored.declared()) {
                return Ok((false, None));
            }
            // Arrivals never go back; columns that were filled with another one are read again.
            packing.columns.take_if(|_| declared.has_now() && arrival != now_micros.div_euclid(1000));
            match stored.store(&self.log, packing, (first, arrival), options)? {
                outcome @ Outcome::Appended(_) => Ok((true, Some(outcome))),
                outcome @ Outcome::Repeated(_) => Ok((false, Some(outcome))),
            }
        });
        if !matches!(result, Ok((_, Some(Outcome::Appended(_)), _))) {
            shared.leave(bytes);
        }
        let (offset, outcome, is_new_in_line) = result?;
        if is_new_in_line {
            shared.enqueue(Arc::clone(stream));
        }
        Ok(outcome.map(|outcome| (offset, outcome)))
    }

    /// What is said of events that were stored before. They are held against the columns once more, so that the same is told
    /// of each; nothing is counted again. Bad ones are kept now if the earlier try did not come to that.
    async fn repeated(
        &self,
        shared: &Shared,
        (stream, stored): (&Stream, &StoredStream),
        receipt: Receipt,
        (batch, now_micros): (EventBatch, i64),
        options: &AppendOptions,
    ) -> Result<Appended, EngineError> {
        let (declared, events) = (stored.declared(), batch.len());
        // Of those that are stored together or not at all none was refused.
        let held = if options.all_or_none { batch.select(&[]) } else { batch };
        let held = declared.hold(held, now_micros);
        let refusals = held.refusals();
        let accepted = (events - refusals.len()) as u64;
        let appended = stored.appended(Outcome::Repeated(receipt), receipt.offset, accepted);
        let kept = self.quarantine_bad(shared, (stream, &declared), &held, options, (accepted, true)).await?;
        Ok(Appended {
            refusals,
            quarantined: kept.count,
            ticket: appended.ticket.max(kept.ticket),
            ..appended
        })
    }

    /// Waits until what a ticket stands for is on disk.
    pub(crate) async fn synced(&self, Ticket(position): Ticket) -> Result<(), EngineError> {
        self.log.synced(LogPosition(position)).await.map_err(unavailable)
    }

    /// Waits until all that was written into the log, so all that the catalog has, is on disk.
    pub(crate) async fn all_synced(&self) -> Result<(), EngineError> {
        self.log.synced(self.log.horizons().appended).await.map_err(unavailable)
    }

    /// Why the log takes nothing at present, if so.
    pub(crate) fn trouble(&self) -> Option<EngineError> {
        let of_log = self.log.horizons().trouble.map(|trouble| match trouble {
            Trouble::Full => EngineError::DiskFull,
            Trouble::Failing => unavailable(LogError::Failing),
        });
        of_log.or_else(|| self.refusal())
    }

    /// The engine's streams, as long as they are there.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>, EngineError> {
        self.engine.get().and_then(Weak::upgrade).ok_or(EngineError::Runtime(RuntimeError::ShuttingDown))
    }

    /// Looks at the catalog as it is now; no statement that changes it is waited for.
    pub(crate) fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.catalog.newest())
    }

    /// Changes the catalog where that need not be logged.
    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        self.catalog.changing().apply(change);
    }

    /// Pauses, for less where the engine closes meanwhile: its end waits for nobody who sleeps.
    pub(crate) async fn pause(&self, time: Duration) {
        let mut closing = self.closing();
        // Whether it closes is looked at by who pauses.
        let _ = tokio::time::timeout(time, closing.wait_for(|closing| *closing)).await;
    }

    /// Tells whether the engine is ending.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Limits of SQL, and where it puts things aside.
    pub(crate) fn sql_options(&self) -> SqlOptions {
        SqlOptions {
            memory_bytes_max: self.config.sql_memory_bytes_max,
            spill_directory: self.dir.as_ref().map(DataDir::spill),
            spill_bytes_max: self.config.sql_spill_bytes_max,
            threads: self.config.sql_threads,
            statements_max: self.config.sql_statements_max,
            statements_max_per_client: self.config.sql_statements_max_per_client,
            unread_max: Some(self.config.sql_unread_ms_max)
                .filter(|millis| *millis > 0)
                .map(Duration::from_millis),
            output_roots: self.dir.iter().map(DataDir::exports).collect(),
            ..SqlOptions::default()
        }
    }
}

fn log_dir(config: &HistoryConfig, dir: Option<&DataDir>) -> PathBuf {
    dir.map_or_else(|| config.dir.join("log"), DataDir::log)
}

/// What the snapshot and the log come to.
struct Replay {
    catalog: Catalog,
    recovered: BTreeMap<u32, Recovered>,
    /// When the last event in the log arrived, or time was last written there.
    last_arrival: Option<Millis>,
}

impl Replay {
    fn of(config: &HistoryConfig, log: &Log, snapshot: Option<Snapshot>) -> Result<Replay, HistoryError> {
        let mut recovered: BTreeMap<u32, Recovered> = BTreeMap::new();
        let mut catalog = Catalog::default();
        let mut known = LogPosition(0);
        let mut last_arrival = None;
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
                Head::Events(head) => {
                    last_arrival = last_arrival.max(Some(head.arrival));
                    recovered.entry(head.stream.0).or_insert_with(|| config.recovered()).read(
                        head,
                        record.position,
                        record.end,
                    );
                }
                Head::Catalog if record.position >= known => {
                    catalog.apply(&ChangeRecord::from_bytes(record.payload)?)?;
                }
                Head::Tick { now } => last_arrival = last_arrival.max(Some(*now)),
                Head::Catalog => {}
            }
        }
        Ok(Replay { catalog, recovered, last_arrival })
    }
}

impl HistoryConfig {
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered::new((self.feed_bytes_max, self.feed_lag_ms_max), self.producers_max)
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
pub(crate) fn table_error(error: &StoreError) -> EngineError {
    match error.kind() {
        StoreErrorKind::Invalid | StoreErrorKind::Conflict | StoreErrorKind::Limit => {
            EngineError::TableRefuses(causes(error))
        }
        _ => EngineError::Table(causes(error)),
    }
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
    pub(crate) fn new(entry: &StreamEntry) -> Result<Declared, EngineError> {
        let columns = Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
        Ok(Declared { id: StreamId(entry.id), columns, create: entry.create.clone() })
    }

    /// Whether a column's default depends on when an event arrived.
    pub(crate) fn has_now(&self) -> bool {
        self.create.columns.iter().any(|column| column.default == Some(DefaultValue::Now))
    }
}
