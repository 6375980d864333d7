//! The façade: what starts, is asked, and stops.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use swiftwater_catalog::ObjectKind;
use swiftwater_event::{Clock, EventBatch, Millis, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors, Schema,
    plan::{Statement, Window},
    stream_of,
};
use swiftwater_live::{StandingQuery, explain};
use tracing::info;

use crate::{
    AppendOptions, Appended, Detached, DurableObjects, EndReason, EngineConfig, JoinSources, Metrics,
    Numbered, Principal, QueryForm, QueryId, QueryStatus, RuntimeError, StreamStatus, SubmitOptions,
    Subscription,
    append::is_reserved_producer,
    indexer::run_indexer,
    panic_guard::restarted,
    query::{
        active::{Fleeting, QueryHandle},
        submit::WantedQuery,
    },
    shared::{Errand, Shared},
    stream::lock,
};

/// How long threads are waited for that were told to end, however short the grace is.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// A running runtime. Clones are the same one; it stops with [`Runtime::shutdown`], or with the process.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Runtime {
    /// Starts shards and ticker. `config.shards` 0 means one per core.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Runtime {
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
        Runtime { shared, threads: Arc::new(Mutex::new(threads)) }
    }

    /// Adds what is durable. Once, before the runtime is given out.
    pub fn set_durable(&self, durable: Arc<dyn DurableObjects>) {
        let _ = self.shared.durable.set(durable);
    }

    /// What all threads of the runtime share.
    pub fn shared(&self) -> &Arc<Shared> {
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

    /// Appends checked events to a stream that is not in the catalog, which comes to be with its first one; waits while too
    /// many bytes wait to be looked at. An empty batch only counts its rejections.
    pub async fn append(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, RuntimeError> {
        self.check_append(stream, &options)?;
        if !batch.is_empty() {
            self.shared.enter(batch.bytes().len()).await?;
        }
        self.shared.put(stream, batch, &options, || !self.shared.is_declared(stream))
    }

    /// As [`Runtime::append`], for a thread that may wait.
    pub fn append_blocking(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, RuntimeError> {
        self.check_append(stream, &options)?;
        if !batch.is_empty() {
            let entered = self.shared.pending.enter_blocking(batch.bytes().len());
            entered.map_err(|_| RuntimeError::ShuttingDown)?;
        }
        self.shared.put(stream, batch, &options, || !self.shared.is_declared(stream))
    }

    fn check_append(&self, stream: &StreamName, options: &AppendOptions) -> Result<(), RuntimeError> {
        if let Some(Numbered { producer, .. }) = &options.numbered
            && is_reserved_producer(producer)
        {
            return Err(RuntimeError::ReservedProducer(producer.to_string()));
        }
        match self.shared.is_declared(stream) {
            true => Err(RuntimeError::Declared),
            false => Ok(()),
        }
    }

    /// Lets a query stand. It sees the events appended after this returns, none that were appended before this call, and of
    /// those appended meanwhile the later ones.
    pub fn submit(
        &self,
        _principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Subscription, RuntimeError> {
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

    /// Lets a query stand that outlives its asker, but not the process, and says why not.
    pub fn submit_fleeting(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
        why: Fleeting,
    ) -> Result<Detached, RuntimeError> {
        let subscription = self.submit(principal, text, SubmitOptions { detach: true, ..options })?;
        let handle = &subscription.handle;
        let _ = handle.fleeting.set(why);
        let fleeting = Some(why.why(&handle.stream, self.config()));
        Ok(Detached { id: handle.meta.id, fleeting, warnings: handle.warnings.to_vec() })
    }

    fn let_stand(&self, text: &str, options: &SubmitOptions) -> Result<Subscription, RuntimeError> {
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
        if let Some(durable) = shared.durable.get() {
            durable.query_began(&stream.name);
        }
        // Shutdown ends what it finds standing; what it came too early to find is ended here.
        if shared.is_closing.load(Ordering::Acquire) {
            shared.end(&handle.meta.id, EndReason::Shutdown);
        }
        Ok(Subscription { shared: Arc::clone(shared), handle, reader })
    }

    /// What is asked for, if it may stand; received at `now`.
    pub fn wanted(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<WantedQuery, RuntimeError> {
        let shared = &self.shared;
        let config = &shared.config;
        if shared.is_closing.load(Ordering::Acquire) {
            return Err(RuntimeError::ShuttingDown);
        }
        let (mut statement, joined) = self.parse_joined(text, options, now)?;
        if config.bullet_ignores_windows && options.dialect == Dialect::Bullet {
            statement.query.window = Window::None;
        }
        let query = compile(statement, config)?;
        joined.attach(&query);
        let stream = query
            .plan
            .stream
            .clone()
            .or_else(|| config.default_stream.clone())
            .ok_or(RuntimeError::NoDefaultStream)?;
        let queries = {
            let queries = shared.queries.read().unwrap_or_else(PoisonError::into_inner);
            queries.len() + shared.reserved.load(Ordering::Relaxed)
        };
        // What is only kept for pick-up gives way to what is to stand.
        if queries >= config.queries_max && !shared.forget_oldest_kept() {
            return Err(RuntimeError::too_many_queries(queries, config));
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

    pub(crate) fn parse(&self, text: &str, options: &SubmitOptions) -> Result<Statement, RuntimeError> {
        self.parse_joined(text, options, self.shared.clock.now()).map(|(statement, _)| statement)
    }

    /// A query's plan, and what its events are joined with.
    fn parse_joined(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<(Statement, JoinSources), RuntimeError> {
        let (statement, sources) = self.with_parse_options(text, options, now, |parse_options| {
            options.form.parse(text, parse_options).map_err(RuntimeError::Query)
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
        let durable = self.shared.durable.get().filter(|_| options.form == QueryForm::Bql);
        let sources = durable.map(|durable| durable.join_sources(text, &parse_options));
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
        let durable = self.shared.durable.get()?;
        let default = || self.shared.config.default_stream.clone();
        let stream = match form {
            QueryForm::Bql => stream_of(text, options)?.or_else(default)?,
            QueryForm::Json => default()?,
        };
        durable.schema(&stream)
    }

    /// The plan of a query as text, for `EXPLAIN` (with or without that word before it).
    pub fn explain(
        &self,
        _principal: &Principal,
        text: &str,
        options: &SubmitOptions,
    ) -> Result<String, RuntimeError> {
        Ok(explain(&compile(self.parse(text, options)?, &self.shared.config)?))
    }

    /// Takes up the results of a detached query where the last reader left off. If a reader is still attached, its
    /// subscription ends without a further emit.
    pub fn attach(&self, principal: &Principal, id: &QueryId) -> Result<Subscription, RuntimeError> {
        self.attach_at(principal, id, None)
    }

    /// Takes up the results of a detached query after the emit of this number (0: from the first on), as far as they
    /// are still there, whether somebody read them or not.
    pub fn attach_after(
        &self,
        principal: &Principal,
        id: &QueryId,
        number: u64,
    ) -> Result<Subscription, RuntimeError> {
        self.attach_at(principal, id, Some(number))
    }

    fn attach_at(
        &self,
        _principal: &Principal,
        id: &QueryId,
        after: Option<u64>,
    ) -> Result<Subscription, RuntimeError> {
        let handle = self.handle(id)?;
        // Without the client that submitted it such a query would end.
        if !handle.is_detached.load(Ordering::Acquire) {
            return Err(RuntimeError::Attached(id.to_string()));
        }
        let reader = handle.mailbox.attach(after, &self.shared.totals.subscriber_bytes);
        Ok(Subscription { shared: Arc::clone(&self.shared), handle, reader })
    }

    /// What is known of a query, or of one that has ended and waits for pick-up.
    pub fn handle(&self, id: &QueryId) -> Result<Arc<QueryHandle>, RuntimeError> {
        let queries = self.shared.queries.read().unwrap_or_else(PoisonError::into_inner);
        queries.get(id).cloned().ok_or_else(|| RuntimeError::NoQuery(id.to_string()))
    }

    /// All standing queries, oldest first, and detached ones whose results wait.
    pub fn queries(&self, _principal: &Principal) -> Vec<QueryStatus> {
        let handles: Vec<Arc<QueryHandle>> =
            self.shared.queries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let listed = handles.iter().filter(|handle| !handle.is_killed.load(Ordering::Acquire));
        listed.filter_map(|handle| self.shared.status(handle)).collect()
    }

    /// One query.
    pub fn query(&self, _principal: &Principal, id: &QueryId) -> Result<QueryStatus, RuntimeError> {
        let handle = self.handle(id)?;
        self.shared.status(&handle).ok_or_else(|| RuntimeError::NoQuery(id.to_string()))
    }

    /// Ends a query: its reader gets a last emit, with the reason. It sees the events appended before this call, if the
    /// shards are at most a second behind. Where its duration is over by now it ends with that reason, whoever comes first.
    /// A detached query that has ended is forgotten.
    pub fn end_query(
        &self,
        _principal: &Principal,
        id: &QueryId,
        reason: EndReason,
    ) -> Result<(), RuntimeError> {
        let handle = self.handle(id)?;
        if let Some(stream) = self.shared.find_stream(&handle.stream) {
            stream.wait_for_appended(Duration::from_millis(self.shared.config.query_end_wait_ms));
        }
        if self.shared.end(id, reason) || self.shared.forget(id) {
            Ok(())
        } else {
            Err(RuntimeError::NoQuery(id.to_string()))
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
    pub fn stream(&self, _principal: &Principal, name: &StreamName) -> Result<StreamStatus, RuntimeError> {
        let stream = self.shared.find_stream(name).filter(|stream| stream.exists());
        let stream = stream.ok_or_else(|| RuntimeError::not_found(ObjectKind::Stream, name.as_str()))?;
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

    /// Takes no more events and queries, looks at what waits, gives every query its final result, and stops; after
    /// `grace` it no longer waits for events to be looked at. Whoever calls it beside another waits for the same end; where
    /// the first is given up half-way, the next goes on with it.
    pub async fn shutdown(&self, grace: Duration) {
        self.shutdown_with(|| self.stop(grace)).await;
    }

    /// As [`Runtime::shutdown`], by the steps of whoever has added what is durable: among them [`Runtime::close_intake`],
    /// [`Runtime::end_all`] and [`Runtime::stop_threads`], in this order.
    pub async fn shutdown_with<F: Future<Output = ()>>(&self, stop: impl FnOnce() -> F) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.stopped.get_or_init(stop).await;
    }

    async fn stop(&self, grace: Duration) {
        self.close_intake(grace).await;
        self.end_all();
        self.stop_threads(grace).await;
    }

    /// Takes no more events, and looks at what waits. A first part of [`Runtime::shutdown`].
    pub async fn close_intake(&self, grace: Duration) {
        self.shared.pending.close();
        if tokio::time::timeout(grace, self.drained()).await.is_err() {
            info!("events were still waiting when the grace period was over");
        }
    }

    /// Gives every query its final result; durable ones are left where they are. The part of [`Runtime::shutdown`] that follows
    /// [`Runtime::close_intake`].
    pub fn end_all(&self) {
        let handles: Vec<Arc<QueryHandle>> =
            self.shared.queries.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for handle in &handles {
            match handle.following {
                Some(_) => handle.mailbox.leave_off(),
                None => _ = self.shared.end(&handle.meta.id, EndReason::Shutdown),
            }
        }
    }

    /// The last part of [`Runtime::shutdown`]: shards, ticker and index builder end.
    pub async fn stop_threads(&self, grace: Duration) {
        self.shared.close_line();
        // The ticker may have stopped on its own only when every sender is gone, and this is one.
        let _ = self.shared.errands.send(Errand::Stop);
        let threads = std::mem::take(&mut *lock(&self.threads));
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        // They have nothing more to do.
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
pub(crate) fn compile(statement: Statement, config: &EngineConfig) -> Result<StandingQuery, RuntimeError> {
    StandingQuery::compile_sized(statement.query, config.sketch_sizes()).map_err(|error| {
        RuntimeError::Query(QueryErrors(vec![QueryError {
            line: None,
            column: None,
            message: error.to_string(),
            hint: None,
            excerpt: String::new(),
        }]))
    })
}
