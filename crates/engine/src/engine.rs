//! The face of the engine.

use std::{
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_event::{Clock, EventBatch, Millis, Step, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors, Schema,
    ddl::ColumnDef,
    parse, parse_json,
    plan::{Literal, Statement, Window},
    stream_of,
};
use swiftwater_live::{StandingQuery, explain};
use swiftwater_log::{DirDisk, Disk};
use swiftwater_sql::{OtherStatements, Sql, Tables};
use swiftwater_store::Store;
use tracing::info;

use crate::{
    Ack, AppendOptions, Appended, Backup, Disks, Emit, EndReason, EngineConfig, EngineError, HistoryConfig,
    HistoryError, Metrics, Numbered, QueryId, QueryMeta, QueryStatus, StreamStatus, Ticket,
    append::is_reserved_producer,
    history::{DataDir, Declared, History, HistoryTables, JoinSources, Statements},
    indexer::run_indexer,
    panic_guard::restarted,
    running::{Fleeting, QueryHandle},
    shared::{Errand, Shared},
    stream::lock,
    submit::WantedQuery,
    subscriber_queue::{Reader, Waiting},
};

/// How long somebody waits for a disk that takes nothing.
const TROUBLE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long threads are waited for that were told to end, however short the grace is.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// Who asks. Every call into the engine carries one, so that rights can be checked where things are done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// A name for logs and, later, for rights.
    pub name: Arc<str>,
}

impl Principal {
    /// Whoever reaches a server that asks nobody who they are.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into() }
    }

    /// The process itself: its demo sources, its own input.
    pub fn local() -> Principal {
        Principal { name: "local".into() }
    }
}

/// How a query is to stand.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// Whose rules hold.
    pub dialect: Dialect,
    /// One answer is wanted, at the end, rather than a stream of them.
    pub one_answer: bool,
    /// It outlives its asker.
    pub detach: bool,
    /// Each record tells when its event was sent, read, matched and answered (under `_times`).
    pub times: bool,
    /// Declared types of the stream's fields.
    pub schema: Option<Arc<Schema>>,
    /// What the events hold, where that is known apart from the schema.
    pub types: Option<Arc<Schema>>,
    /// What `$1`, `$2`, … of the text stand for.
    pub parameters: Vec<Literal>,
    /// How the query is written.
    pub form: QueryForm,
}

/// How a query is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryForm {
    /// As BQL.
    #[default]
    Bql,
    /// As a JSON object, Bullet's older form.
    Json,
}

impl QueryForm {
    /// The form that a text can only have: BQL never begins with a brace.
    #[must_use]
    pub fn of(text: &str) -> QueryForm {
        match text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
            true => QueryForm::Json,
            false => QueryForm::Bql,
        }
    }

    /// The text's plan, or all faults found in it.
    pub fn parse(self, text: &str, options: &ParseOptions<'_>) -> Result<Statement, QueryErrors> {
        match self {
            QueryForm::Bql => parse(text, options),
            // A byte order mark is no part of it.
            QueryForm::Json => parse_json(text.strip_prefix('\u{feff}').unwrap_or(text), options),
        }
    }
}

/// A running engine. Clones are the same engine; it stops with [`Engine::shutdown`], or with the process.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// The reading end of a standing query. Dropping it ends the query, unless it is detached.
pub struct Subscription {
    shared: Arc<Shared>,
    handle: Arc<QueryHandle>,
    reader: Reader,
}

impl Engine {
    /// Starts shards and ticker. `config.shards` 0 means one per core.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Engine {
        let config = with_shards(config);
        let (shared, inbox) = Shared::new(config, clock);
        let shared = Arc::new(shared);
        let mut threads = Vec::new();
        for number in 0..shared.config.shards {
            let shared = Arc::clone(&shared);
            threads.push(spawn_restarted(format!("shard-{number}"), move || shared.run_shard(number)));
        }
        let ticking = Arc::clone(&shared);
        let (indexer, to_be_built) = mpsc::channel();
        threads.push(spawn_restarted("ticker".to_owned(), move || ticking.run_ticker(&inbox, &indexer)));
        threads.push(spawn_restarted("indexer".to_owned(), move || run_indexer(&to_be_built)));
        Engine { shared, threads: Arc::new(Mutex::new(threads)) }
    }

    /// As [`Engine::start`], with what is kept in a data directory: stored streams go on where they were.
    pub async fn open(
        config: EngineConfig,
        history: HistoryConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        let path = history.dir.clone();
        let dir = tokio::task::spawn_blocking(move || DataDir::open(&path));
        let dir = dir.await.map_err(|_| HistoryError::Broken)??;
        let disk = |path: PathBuf| -> Result<Arc<dyn Disk>, HistoryError> {
            let opened = DirDisk::open(&path);
            Ok(Arc::new(opened.map_err(|source| HistoryError::Directory { path, source })?))
        };
        let disks = Disks { log: disk(dir.log())?, catalog: disk(dir.catalog())?, views: Some(dir.views()) };
        let location = dir.tables().to_string_lossy().into_owned();
        let store = Store::open(history.store(location), Arc::clone(&clock)).await?;
        Engine::open_on(config, history, (Some(dir), disks, store), clock).await
    }

    /// As [`Engine::open`], on disks and a store that are given: for tests that have them fail.
    pub async fn open_with(
        config: EngineConfig,
        history: HistoryConfig,
        (disks, store): (Disks, Store),
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        Engine::open_on(config, history, (None, disks, store), clock).await
    }

    async fn open_on(
        config: EngineConfig,
        history: HistoryConfig,
        (dir, disks, store): (Option<DataDir>, Disks, Store),
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        let engine = Engine::start(config, clock);
        match History::open(history, dir, disks, store, &engine.shared).await {
            Ok(history) => {
                let tables = Arc::new(HistoryTables::new(&engine.shared));
                history.settle_at_start(&tables).await;
                let given: Arc<dyn Tables> = Arc::<HistoryTables>::clone(&tables);
                let sql = Sql::new(history.sql_options(), given)?;
                let _ = engine.shared.history.set(Arc::clone(&history));
                let _ = engine.shared.sql.set(Arc::new(sql));
                let _ = engine.shared.tables.set(tables);
                history.start_alerts(&engine.shared);
                history.start_joins(&engine.shared);
                history.start_followers(&engine);
                let jobs = Arc::clone(&history).run_jobs(Arc::downgrade(&engine.shared));
                history.spawn(jobs);
                let sinks = Arc::clone(&history).run_sinks();
                history.spawn(sinks);
                let store = Arc::clone(&history).reconcile_store(Arc::downgrade(&engine.shared));
                history.spawn(store);
                Ok(engine)
            }
            Err(error) => {
                engine.shutdown(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Makes a cut of everything durable, to be fetched: see [`Backup`].
    pub async fn start_backup(&self, _principal: &Principal) -> Result<Arc<Backup>, EngineError> {
        self.shared.history.get().ok_or(EngineError::NoHistory)?.start_backup().await
    }

    /// A cut that stands.
    pub fn backup(&self, _principal: &Principal, id: &str) -> Result<Arc<Backup>, EngineError> {
        self.shared.history.get().ok_or(EngineError::NoHistory)?.backup(id)
    }

    /// Lets a cut go.
    pub fn end_backup(&self, _principal: &Principal, id: &str) -> Result<(), EngineError> {
        self.shared.history.get().ok_or(EngineError::NoHistory)?.end_backup(id)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The settings that hold.
    pub fn config(&self) -> &EngineConfig {
        &self.shared.config
    }

    /// The engine's time: the clock that it was given, without its jumps.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Appends checked events to a stream, which comes to be with its first one; waits while too many bytes wait to be
    /// looked at, or to be stored. An empty batch only counts its rejections. A stored stream's events are on disk when
    /// [`Engine::synced`] says so.
    pub async fn append(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        let shared = &self.shared;
        if let Some(Numbered { producer, .. }) = &options.numbered
            && is_reserved_producer(producer)
        {
            return Err(EngineError::ReservedProducer(producer.to_string()));
        }
        if let Some((history, stored)) = shared.stored(stream) {
            let stream = shared.stream(stream)?;
            return history.append(shared, (&stream, &stored), batch, options).await;
        }
        if let Some((history, declared)) = shared.unstored(stream) {
            let live = shared.stream(stream)?;
            let held = declared.hold(batch, shared.clock.now_micros());
            if !held.good.is_empty() {
                shared.pending.enter(held.good.bytes().len()).await.map_err(|_| EngineError::ShuttingDown)?;
            }
            // Those are counted beside the ones that the columns refuse.
            let put = self.put(
                stream,
                Some(&declared),
                held.good.clone(),
                &AppendOptions { rejected: 0, ..options.clone() },
            )?;
            let taken = (put.accepted, false);
            let kept = history.quarantine_bad(shared, (&live, &declared), &held, &options, taken).await?;
            let refusals = held.refusals();
            return Ok(Appended { refusals, quarantined: kept.count, ticket: kept.ticket, ..put });
        }
        if !batch.is_empty() {
            shared.pending.enter(batch.bytes().len()).await.map_err(|_| EngineError::ShuttingDown)?;
        }
        self.put(stream, None, batch, &options)
    }

    /// Whether a stream keeps events that it does not take: then [`AppendOptions::refused`] is to have their texts.
    pub fn quarantines(&self, stream: &StreamName) -> bool {
        match self.shared.stored(stream) {
            Some((_, stored)) => stored.declared().quarantines(),
            None => self.shared.unstored(stream).is_some_and(|(_, declared)| declared.quarantines()),
        }
    }

    /// Whether the server stores events, and the stream is declared neither as stored nor as live-only: nothing of its events is
    /// stored, and its sender may not know.
    pub fn keeps_nothing_of(&self, stream: &StreamName) -> bool {
        let shared = &self.shared;
        shared.history.get().is_some() && shared.stored(stream).is_none() && shared.unstored(stream).is_none()
    }

    /// Creates a stream whose first events are about to be appended, where the settings say that such streams are stored.
    pub async fn ensure_stored(
        &self,
        _principal: &Principal,
        stream: &StreamName,
    ) -> Result<(), EngineError> {
        match self.shared.history.get() {
            Some(history) if history.stores_new_streams() && self.keeps_nothing_of(stream) => {
                history.create_stream(&self.shared, stream).await
            }
            _ => Ok(()),
        }
    }

    /// The fields that a stream declares columns for, by name, with their types; without those that lie deeper in its events.
    pub fn declared_fields(&self, stream: &StreamName) -> Vec<(Box<str>, Type)> {
        let declared = match (self.shared.stored(stream), self.shared.unstored(stream)) {
            (Some((_, stored)), _) => stored.declared(),
            (None, Some((_, declared))) => declared,
            (None, None) => return Vec::new(),
        };
        let field = |column: &ColumnDef| match column.event_path().steps() {
            [Step::Key(name)] => Some((name.clone(), column.ty.clone())),
            _ => None,
        };
        declared.create.columns.iter().filter_map(field).collect()
    }

    /// As [`Engine::append`], for a thread that may wait, and for streams that are not in the catalog.
    pub fn append_blocking(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        if self.shared.stored(stream).is_some() || self.shared.unstored(stream).is_some() {
            return Err(EngineError::NotStored("this source gives no events to declared streams".to_owned()));
        }
        if !batch.is_empty() {
            self.shared.pending.enter_blocking(batch.bytes().len()).map_err(|_| EngineError::ShuttingDown)?;
        }
        self.put(stream, None, batch, &options)
    }

    /// Puts events in line that were validated against a declaration, or against none, unless that has changed meanwhile.
    fn put(
        &self,
        name: &StreamName,
        declared: Option<&Declared>,
        batch: EventBatch,
        options: &AppendOptions,
    ) -> Result<Appended, EngineError> {
        let shared = &self.shared;
        if shared.history.get().is_some_and(|history| history.is_view(name.as_str())) {
            shared.pending.leave(batch.bytes().len());
            return Err(CatalogError::exists(ObjectKind::View, name.as_str()).into());
        }
        if batch.is_empty() {
            let Some(stream) = shared.find_stream(name) else { return Ok(Appended::live(name, 0, 0)) };
            stream.count_rejected(options.rejected);
            return Ok(Appended::live(name, stream.status(0).position, 0));
        }
        let (bytes, events) = (batch.bytes().len(), batch.len() as u64);
        let stream = shared.stream(name).inspect_err(|_| shared.pending.leave(bytes))?;
        let appended = stream.append_with(batch, shared.clock.now_micros(), options, |_, _| {
            match shared.is_declared_as(name, declared) {
                true => Ok((true, ())),
                false => Err(EngineError::StreamReplaced(name.to_string())),
            }
        });
        let (offset, (), is_new_in_line) = appended.inspect_err(|_| shared.pending.leave(bytes))?;
        stream.count_rejected(options.rejected);
        if is_new_in_line {
            shared.enqueue(stream);
        }
        Ok(Appended::live(name, offset, events))
    }

    /// SQL over what is stored.
    pub fn sql(&self) -> Result<&Arc<Sql>, EngineError> {
        self.shared.sql.get().ok_or(EngineError::NoHistory)
    }

    /// Who carries out the statements that are not SQL's but the engine's.
    pub fn statements(&self) -> Arc<dyn OtherStatements> {
        Arc::new(Statements::new(&self.shared))
    }

    /// When events of a stream are acknowledged unless the request says otherwise; none if the stream is not stored.
    pub fn ack(&self, stream: &StreamName) -> Option<Ack> {
        self.shared.history.get()?.ack(stream)
    }

    /// Why events cannot be stored at present, where they are to be; none also where nothing is stored.
    pub fn not_ready(&self) -> Option<EngineError> {
        self.shared.history.get()?.not_ready()
    }

    /// Waits until events that were appended are on disk. Where the log cannot write them for ten seconds it says why: they may
    /// be stored later, or never.
    pub async fn synced(&self, ticket: Ticket) -> Result<(), EngineError> {
        let history = self.shared.history.get().ok_or(EngineError::NoHistory)?;
        let mut synced = pin!(history.synced(ticket));
        loop {
            if let Ok(done) = tokio::time::timeout(TROUBLE_TIME_MAX, &mut synced).await {
                return done;
            }
            if let Some(error) = history.trouble() {
                return Err(error);
            }
        }
    }

    /// Sees to it that the tables which a query is joined with are held in memory: before it is looked at or submitted.
    pub async fn pin_joined(&self, text: &str, options: &SubmitOptions) -> Result<(), EngineError> {
        let Some(history) = self.shared.history.get().filter(|_| options.form == QueryForm::Bql) else {
            return Ok(());
        };
        let parse_options = ParseOptions {
            parameters: &options.parameters,
            text_bytes_max: self.shared.config.query_text_bytes_max,
            ..ParseOptions::new(options.dialect, self.shared.clock.now())
        };
        history.pin_joined(&self.shared, text, &parse_options).await
    }

    /// Lets a query stand. It sees the events appended after this returns, none that were appended before this call, and of
    /// those appended meanwhile the later ones.
    pub fn submit(
        &self,
        _principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Subscription, EngineError> {
        let shared = &self.shared;
        let refused = || shared.totals.refused.fetch_add(1, Ordering::Relaxed);
        let result = self.let_stand(text, &options).inspect_err(|_| {
            refused();
        });
        if result.is_ok() {
            shared.totals.submitted.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn let_stand(&self, text: &str, options: &SubmitOptions) -> Result<Subscription, EngineError> {
        let shared = &self.shared;
        let now = shared.clock.now();
        let mut wanted = self.wanted(text, options, now)?;
        wanted.warnings = self.warnings(text, options, now, &wanted.stream)?.into();
        let stream = shared.stream(&wanted.stream)?;
        let change = lock(&stream.change);
        // Under that lock, so that on a stream numbers grow in the order in which queries begin.
        let (handle, reader) = shared.new_handle(&wanted, &stream.name, options.detach);
        let admitted = shared.admit(&handle);
        if admitted.is_ok() {
            shared.begin(&stream, &handle, &wanted, options);
        }
        drop(change);
        admitted?;
        // Who asks for one answer has them with that; who detaches, with the query's id.
        if !options.one_answer && !options.detach && !wanted.warnings.is_empty() {
            shared.emit_warnings(&stream, &handle);
        }
        if let Some(history) = shared.history.get() {
            history.stream_view(shared, &stream.name);
        }
        // Shutdown ends what it finds standing; what it came too early to find is ended here.
        if shared.is_closing.load(Ordering::Acquire) {
            shared.end(&handle.meta.id, EndReason::Shutdown);
        }
        Ok(Subscription { shared: Arc::clone(shared), handle, reader })
    }

    /// What is asked for, if it may stand; received at `now`.
    pub(crate) fn wanted(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<WantedQuery, EngineError> {
        let shared = &self.shared;
        let config = &shared.config;
        if shared.is_closing.load(Ordering::Acquire) {
            return Err(EngineError::ShuttingDown);
        }
        let (mut statement, joined) = self.parse_joined(text, options, now)?;
        if config.bullet_ignores_windows && options.dialect == Dialect::Bullet {
            statement.query.window = Window::None;
        }
        let query = compile(statement, config)?;
        if let Some(history) = shared.history.get() {
            history.attach_joined(&joined, &query);
        }
        let stream = query
            .plan
            .stream
            .clone()
            .or_else(|| config.default_stream.clone())
            .ok_or(EngineError::NoDefaultStream)?;
        let queries = {
            let queries = shared.queries.read().unwrap_or_else(PoisonError::into_inner);
            queries.len() + shared.reserved.load(Ordering::Relaxed)
        };
        // What is only kept for pick-up gives way to what is to stand.
        if queries >= config.queries_max && !shared.forget_oldest_kept() {
            return Err(EngineError::too_many_queries(queries, config));
        }
        let default_ms = Some(config.query_duration_ms_default).filter(|&default_ms| default_ms > 0);
        let duration_ms = match (query.plan.duration_ms.or(default_ms), config.query_duration_ms_max) {
            (stated, 0) => stated,
            (stated, max) => Some(stated.unwrap_or(max).min(max)),
        };
        let ends = duration_ms.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
        let joined = joined.known.first().map(|joined| joined.name.clone());
        Ok(shared.wanted_of(query, stream, now, ends, joined))
    }

    pub(crate) fn parse(&self, text: &str, options: &SubmitOptions) -> Result<Statement, EngineError> {
        self.parse_joined(text, options, self.shared.clock.now()).map(|(statement, _)| statement)
    }

    /// A query's plan, and what its events are joined with.
    fn parse_joined(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<(Statement, JoinSources), EngineError> {
        let (statement, sources) = self.with_parse_options(text, options, now, |parse_options| {
            options.form.parse(text, parse_options).map_err(EngineError::Query)
        });
        Ok((statement?, sources))
    }

    /// Does something with what a query's text is read under; also answers what its events are joined with.
    pub(crate) fn with_parse_options<R>(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
        act: impl FnOnce(&ParseOptions<'_>) -> R,
    ) -> (R, JoinSources) {
        let mut parse_options = ParseOptions {
            dialect: options.dialect,
            schema: options.schema.as_deref(),
            types: options.types.as_deref(),
            joined: None,
            parameters: &options.parameters,
            lists_rows: false,
            now,
            text_bytes_max: self.shared.config.query_text_bytes_max,
        };
        let declared = self.declared(text, options.form, &parse_options);
        parse_options.schema = parse_options.schema.or(declared.as_ref());
        let history = self.shared.history.get().filter(|_| options.form == QueryForm::Bql);
        let sources = history.map(|history| history.join_sources(text, &parse_options));
        parse_options.joined = sources.as_ref().map(|sources| &*sources.known);
        let done = act(&parse_options);
        (done, sources.unwrap_or_default())
    }

    /// What is declared of the stream that a native query is over, where nobody said otherwise what its fields are.
    fn declared(&self, text: &str, form: QueryForm, options: &ParseOptions<'_>) -> Option<Schema> {
        let is_told = options.schema.is_some() || options.types.is_some();
        if is_told || options.dialect != Dialect::Native {
            return None;
        }
        let history = self.shared.history.get()?;
        let default = || self.shared.config.default_stream.clone();
        let stream = match form {
            QueryForm::Bql => stream_of(text, options)?.or_else(default)?,
            QueryForm::Json => default()?,
        };
        if let Ok(view) = history.view(stream.as_str()) {
            return Some(view.declared().schema());
        }
        history.with_catalog(|catalog| {
            let create = &catalog.stream(&stream)?.create;
            create.is_declared().then(|| create.schema())
        })
    }

    /// The plan of a query as text, for `EXPLAIN` (with or without that word before it).
    pub fn explain(
        &self,
        _principal: &Principal,
        text: &str,
        options: &SubmitOptions,
    ) -> Result<String, EngineError> {
        Ok(explain(&compile(self.parse(text, options)?, &self.shared.config)?))
    }

    /// Takes up the results of a detached query where the last reader left off. If a reader is still attached, its
    /// subscription ends without a further emit.
    pub fn attach(&self, principal: &Principal, id: &QueryId) -> Result<Subscription, EngineError> {
        self.attach_at(principal, id, None)
    }

    /// Takes up the results of a detached query after the emit of this number (0: from the first on), as far as they
    /// are still there, whether somebody read them or not.
    pub fn attach_after(
        &self,
        principal: &Principal,
        id: &QueryId,
        number: u64,
    ) -> Result<Subscription, EngineError> {
        self.attach_at(principal, id, Some(number))
    }

    fn attach_at(
        &self,
        _principal: &Principal,
        id: &QueryId,
        after: Option<u64>,
    ) -> Result<Subscription, EngineError> {
        let handle = self.handle(id)?;
        // Without the client that submitted it such a query would end.
        if !handle.is_detached.load(Ordering::Acquire) {
            return Err(EngineError::Attached(id.to_string()));
        }
        let reader = handle.mailbox.attach(after, &self.shared.totals.subscriber_bytes);
        Ok(Subscription { shared: Arc::clone(&self.shared), handle, reader })
    }

    pub(crate) fn handle(&self, id: &QueryId) -> Result<Arc<QueryHandle>, EngineError> {
        let queries = self.shared.queries.read().unwrap_or_else(PoisonError::into_inner);
        queries.get(id).cloned().ok_or_else(|| EngineError::NoQuery(id.to_string()))
    }

    /// All standing queries, oldest first, and detached ones whose results wait.
    pub fn queries(&self, _principal: &Principal) -> Vec<QueryStatus> {
        let handles: Vec<Arc<QueryHandle>> =
            self.shared.queries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let listed = handles.iter().filter(|handle| !handle.is_killed.load(Ordering::Acquire));
        listed.filter_map(|handle| self.shared.status(handle)).collect()
    }

    /// One query.
    pub fn query(&self, _principal: &Principal, id: &QueryId) -> Result<QueryStatus, EngineError> {
        let handle = self.handle(id)?;
        self.shared.status(&handle).ok_or_else(|| EngineError::NoQuery(id.to_string()))
    }

    /// Ends a query: its reader gets a last emit, with the reason. It sees the events appended before this call, if the
    /// shards are at most a second behind. Where its duration is over by now it ends with that reason, whoever comes first.
    /// A detached query that has ended is forgotten.
    pub fn end_query(
        &self,
        _principal: &Principal,
        id: &QueryId,
        reason: EndReason,
    ) -> Result<(), EngineError> {
        let handle = self.handle(id)?;
        if handle.following.is_some() {
            return match self.end_durable(&handle, reason)? || self.shared.forget(id) {
                true => Ok(()),
                false => Err(EngineError::NoQuery(id.to_string())),
            };
        }
        if let Some(stream) = self.shared.find_stream(&handle.stream) {
            stream.wait_for_appended(Duration::from_millis(self.shared.config.query_end_wait_ms));
        }
        if self.shared.end(id, reason) || self.shared.forget(id) {
            Ok(())
        } else {
            Err(EngineError::NoQuery(id.to_string()))
        }
    }

    /// All streams that were created or have had an event, by name.
    pub fn streams(&self, _principal: &Principal) -> Vec<StreamStatus> {
        let now = self.shared.clock.now();
        let streams = self.shared.all_streams();
        let streams = streams.iter().filter(|stream| stream.exists());
        streams.map(|stream| self.shared.status_of_stream(stream, now)).collect()
    }

    /// One stream.
    pub fn stream(&self, _principal: &Principal, name: &StreamName) -> Result<StreamStatus, EngineError> {
        let stream = self.shared.find_stream(name).filter(|stream| stream.exists());
        let stream = stream.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name.as_str()))?;
        Ok(self.shared.status_of_stream(&stream, self.shared.clock.now()))
    }

    /// All numbers at this moment.
    pub fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let totals = &shared.totals;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let now = shared.clock.now();
        let streams = shared.all_streams();
        // By itself: its lock comes after the streams'.
        let killed = lock(&shared.kept).killed.len();
        let queries = shared.queries.read().unwrap_or_else(PoisonError::into_inner).len();
        let queries = queries.saturating_sub(killed) as u64;
        Metrics {
            queries,
            index_bytes: streams.iter().map(|stream| stream.index_bytes()).sum(),
            streams: streams.iter().map(|stream| shared.status_of_stream(stream, now)).collect(),
            shards: shared.shard_status(),
            jobs: shared.history.get().map(|history| history.job_status()).unwrap_or_default(),
            sinks: shared.history.get().map(|history| history.sink_statuses()).unwrap_or_default(),
            queries_submitted: read(&totals.submitted),
            queries_refused: read(&totals.refused),
            queries_ended: read(&totals.ended),
            queries_failed: read(&totals.failed),
            records_out: read(&totals.records_out),
            bytes_out: read(&totals.bytes_out),
            records_dropped: read(&totals.records_dropped),
            read_to_match: std::array::from_fn(|bucket| read(&shared.read_to_match[bucket])),
            read_to_match_micros: read(&shared.read_to_match_micros),
            pending_bytes: shared.pending.used_and_max(),
            subscriber_bytes: read(&totals.subscriber_bytes),
            state_bytes: (read(&totals.state_bytes), shared.config.state_bytes_max as u64),
            history: shared.history.get().map(|history| history.metrics()),
            clock_offset_seconds: shared.steady.offset_seconds(),
        }
    }

    /// Looks at the clock now, as is done every `tick_ms`: for whoever moves a clock by hand. Two looks at one instant are
    /// one.
    pub fn tick(&self) {
        let now = self.shared.clock.now();
        for stream in self.shared.all_streams() {
            self.shared.tick_stream(&stream, now);
            // The ticker may be at it: what is due at this moment is done when that is.
            drop(lock(&stream.tick));
            self.shared.tick_idle(&stream, now);
        }
    }

    /// Waits until every event appended so far was looked at.
    pub async fn drained(&self) {
        self.shared.pending.empty().await;
    }

    /// Waits until durable queries, who see events when these are on disk, have seen every event appended so far, and their
    /// windows and durations are closed that are over now.
    pub async fn followed(&self) {
        if let Some(history) = self.shared.history.get() {
            history.all_followed().await;
        }
    }

    /// Takes no more events and queries, looks at what waits, gives every query its final result, and stops; after
    /// `grace` it no longer waits for events to be looked at. Whoever calls it beside another waits for the same end; where
    /// the first is given up half-way, the next goes on with it.
    pub async fn shutdown(&self, grace: Duration) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.stopped.get_or_init(|| self.stop(grace)).await;
    }

    async fn stop(&self, grace: Duration) {
        if let Some(history) = self.shared.history.get()
            && tokio::time::timeout(grace, history.jobs.stop()).await.is_err()
        {
            info!("jobs were still ending when the grace period was over");
        }
        self.shared.pending.close();
        if tokio::time::timeout(grace, self.drained()).await.is_err() {
            info!("events were still waiting when the grace period was over");
        }
        let handles: Vec<Arc<QueryHandle>> =
            self.shared.queries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        if let Some(history) = self.shared.history.get() {
            // Before their readers go: how far they were.
            let _ = tokio::time::timeout(grace, history.stop_followers()).await;
        }
        for handle in &handles {
            match handle.following {
                Some(_) => handle.mailbox.leave_off(),
                None => _ = self.shared.end(&handle.meta.id, EndReason::Shutdown),
            }
        }
        if let Some(history) = self.shared.history.get() {
            history.close(grace).await;
        }
        self.shared.close_line();
        // The ticker may have stopped on its own only when every sender is gone, and this is one.
        let _ = self.shared.errands.send(Errand::Stop);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        // They have nothing more to do, and hold the data directory locked as long as they are there.
        let _ = tokio::time::timeout(grace.max(THREADS_GRACE), joined).await;
    }
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .expect("the system starts threads when a process begins")
}

/// Spawns a thread whose loop starts again after a panic.
fn spawn_restarted(name: String, run: impl FnMut() + Send + 'static) -> JoinHandle<()> {
    let thread = name.clone();
    spawn(&name, move || restarted(&thread, run))
}

/// Shards as they will be: one per core where none are stated.
pub(crate) fn with_shards(mut config: EngineConfig) -> EngineConfig {
    if config.shards == 0 {
        config.shards = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    }
    config
}

/// Compiles a plan; what is wrong with a constant in it is an error of the query.
pub(crate) fn compile(statement: Statement, config: &EngineConfig) -> Result<StandingQuery, EngineError> {
    StandingQuery::compile_sized(statement.query, config.sketch_sizes()).map_err(|error| {
        EngineError::Query(QueryErrors(vec![QueryError {
            line: None,
            column: None,
            message: error.to_string(),
            hint: None,
            excerpt: String::new(),
        }]))
    })
}

impl Subscription {
    /// What is known of the query from the start.
    pub fn query(&self) -> &Arc<QueryMeta> {
        &self.handle.meta
    }

    /// The next emit; `None` after the last one, and once a newer reader has taken over. May be cancelled without losing an emit.
    pub async fn next(&mut self) -> Option<Emit> {
        let waiting = self.handle.mailbox.take(self.reader, &self.shared.totals.subscriber_bytes).await?;
        Some(self.whole(waiting))
    }

    /// The next emit if there is one now.
    pub fn try_next(&mut self) -> Option<Emit> {
        let waiting = self
            .handle
            .mailbox
            .try_take(self.reader, &self.shared.totals.subscriber_bytes)
            .unwrap_or_default()?;
        Some(self.whole(waiting))
    }

    /// As [`Subscription::next`], for a thread that may wait.
    pub fn next_blocking(&mut self) -> Option<Emit> {
        let waiting = self.handle.mailbox.take_blocking(self.reader, &self.shared.totals.subscriber_bytes)?;
        Some(self.whole(waiting))
    }

    fn whole(&self, waiting: Waiting) -> Emit {
        waiting.into_emit(&self.handle.meta, &self.handle.stream)
    }

    /// Lets the query stand without this reader, though it was not submitted as detached.
    pub fn detach(self) -> QueryId {
        self.handle.mailbox.keep();
        self.handle.is_detached.store(true, Ordering::Release);
        self.handle.meta.id
    }
}

impl Subscription {
    /// Notes why a query that outlives its asker does not outlive the server.
    pub(crate) fn set_fleeting(&self, why: Fleeting) {
        let _ = self.handle.fleeting.set(why);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let is_newest = self.handle.mailbox.release(self.reader);
        let id = &self.handle.meta.id;
        if self.handle.is_detached.load(Ordering::Acquire) {
            if is_newest && self.handle.mailbox.is_done_with() {
                self.shared.forget(id);
            }
        } else {
            self.handle.mailbox.clear(&self.shared.totals.subscriber_bytes);
            self.shared.ask_to_end(*id, EndReason::Client);
        }
    }
}
