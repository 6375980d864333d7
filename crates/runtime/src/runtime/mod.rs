//! The runtime's façade: it starts the threads, appends events, submits queries and ends them.
//!
//! The way a query's text is planned, what is reported, and the shutdown lie in the modules below.

mod planning;
mod shutdown;
mod status;

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use swiftwater_event::{Clock, EventBatch, StreamName};

pub(crate) use self::planning::compile;
use crate::lock_order::OrderedMutex;
use crate::{
    AppendOptions, Appended, Detached, DurableObjects, EndReason, EngineConfig, Numbered, Principal, QueryId,
    RuntimeError, SubmitOptions, Subscription,
    append::is_reserved_producer,
    indexer::IndexerLoop,
    query::handle::Fleeting,
    shard::ShardLoop,
    shared::Shared,
    threads::{SystemThreads, ThreadLoop, Threads},
    ticker::TickerLoop,
};

/// A running runtime. Clones are the same one; it stops with [`Runtime::shutdown`], or with the process.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Arc<OrderedMutex<Vec<JoinHandle<()>>>>,
}

impl Runtime {
    /// Starts shards and ticker. `config.shards` 0 means one per core.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Runtime {
        Runtime::start_on(&SystemThreads, config, clock)
    }

    /// Starts a runtime as [`Runtime::start`] does, on given threads.
    pub(crate) fn start_on(threads: &dyn Threads, config: EngineConfig, clock: Arc<dyn Clock>) -> Runtime {
        let config = with_shards(config);
        let (shared, inbox) = Shared::new(config, clock);
        let shared = Arc::new(shared);
        let (indexer, to_be_built) = mpsc::channel();
        let shards = 0..shared.config.shards;
        let mut loops: Vec<Box<dyn ThreadLoop>> = Vec::new();
        loops.extend(
            shards.map(|number| -> Box<dyn ThreadLoop> {
                Box::new(ShardLoop::new(Arc::clone(&shared), number))
            }),
        );
        loops.push(Box::new(TickerLoop::new(Arc::clone(&shared), inbox, indexer)));
        loops.push(Box::new(IndexerLoop::new(to_be_built)));
        let threads = loops.into_iter().filter_map(|work| threads.start(work)).collect();
        Runtime { shared, threads: Arc::new(OrderedMutex::new(threads)) }
    }

    /// Adds what is durable. Once, before the runtime is given out.
    pub fn set_durable(&self, durable: Arc<dyn DurableObjects>) {
        let _ = self.shared.durable.set(durable);
    }

    /// The state that all threads of the runtime share.
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

    /// Appends checked events to a stream that is not in the catalog, which exists from its first one on; waits while too
    /// many bytes wait to be matched. An empty batch only counts its rejections.
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
        self.append_entered(stream, batch, &options)
    }

    /// Appends as [`Runtime::append`] does, for a thread that may wait.
    pub fn append_blocking(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, RuntimeError> {
        self.check_append(stream, &options)?;
        if !batch.is_empty() {
            self.shared.enter_blocking(batch.bytes().len())?;
        }
        self.append_entered(stream, batch, &options)
    }

    /// The part of an append that follows the wait for room among the pending bytes.
    fn append_entered(
        &self,
        stream: &StreamName,
        batch: EventBatch,
        options: &AppendOptions,
    ) -> Result<Appended, RuntimeError> {
        self.shared.put(stream, batch, options, || !self.shared.is_declared(stream))
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

    /// Starts a query. It sees the events appended after this returns, none that were appended before this call, and of
    /// those appended meanwhile the later ones.
    pub fn submit(
        &self,
        _principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Subscription, RuntimeError> {
        let shared = &self.shared;
        let refused = || shared.totals.refused.fetch_add(1, Ordering::Relaxed);
        let result = self.start_query(text, &options).inspect_err(|_| {
            refused();
        });
        if result.is_ok() {
            shared.totals.submitted.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Starts a query that outlives its client, but not the process, and returns the reason.
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

    fn start_query(&self, text: &str, options: &SubmitOptions) -> Result<Subscription, RuntimeError> {
        let shared = &self.shared;
        let remote = options.remote.as_ref();
        let now = remote.map_or_else(|| shared.clock.now(), |remote| remote.begins);
        let mut wanted = self.wanted(text, options, now)?;
        let warnings = self.warnings(text, options, now, &wanted.stream)?;
        wanted.warnings = warnings.into_iter().chain(options.warning.clone()).collect();
        let stream = match remote {
            // Its results come query by query.
            Some(remote) => {
                wanted.meaning = None;
                Arc::clone(&remote.stream)
            }
            None if shared.durable.get().is_some_and(|durable| durable.is_remote(&wanted.stream)) => {
                return Err(RuntimeError::OfCluster(wanted.stream.to_string()));
            }
            None => shared.stream(&wanted.stream)?,
        };
        let change = stream.change.lock();
        // Under that lock, so that on a stream numbers grow in the order in which queries begin.
        let (handle, reader) = shared.new_handle(&wanted, &stream, options);
        let admitted = shared.admit(&handle);
        if admitted.is_ok() {
            shared.begin(&stream, &handle, &wanted, options);
            if let Some(remote) = remote {
                let _ = remote.number.set(handle.number);
            }
        }
        drop(change);
        admitted?;
        // A request for one answer gets them with it; a request that detaches, with the query's id.
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

    /// Ends a query: its reader gets a last emit, with the reason. It sees the events appended before this call, if the
    /// shards are at most a second behind. If its duration is over by now, it ends with that reason, independently of the
    /// caller. A detached query that has ended is forgotten.
    pub fn end_query(
        &self,
        _principal: &Principal,
        id: &QueryId,
        reason: EndReason,
    ) -> Result<(), RuntimeError> {
        let handle = self.handle(id)?;
        if let Some(stream) = self.shared.stream_of(&handle) {
            stream.wait_for_appended(Duration::from_millis(self.shared.config.query_end_wait_ms));
        }
        if self.shared.end(id, reason) || self.shared.forget(id) {
            Ok(())
        } else {
            Err(RuntimeError::NoQuery(id.to_string()))
        }
    }

    /// Reads the clock now, as is done every `tick_ms`: for tests that move a clock by hand. Two looks at one instant are
    /// one.
    pub fn tick(&self) {
        let now = self.shared.clock.now();
        for stream in self.shared.all_streams() {
            self.shared.tick_stream(&stream, now);
            // The ticker may be at it: what is due at this moment is done when that is.
            drop(stream.tick.lock());
            self.shared.tick_idle(&stream, now);
        }
    }
}

/// Shards as they will be: one per core where none are stated.
pub(crate) fn with_shards(mut config: EngineConfig) -> EngineConfig {
    if config.shards == 0 {
        config.shards = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    }
    config
}
