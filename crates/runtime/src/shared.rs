//! The state that all threads of a runtime share.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
};

use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_event::{Clock, EventBatch, Millis, StreamName};
use swiftwater_lang::Dialect;
use swiftwater_live::{PlanInterner, SlicePlan};
use tokio::sync::OnceCell;

use crate::lock_order::{OrderedMutex, OrderedRwLock, level};
use crate::{
    AppendOptions, Appended, EndReason, EngineConfig, LATENCY_BOUNDS_MICROS, QueryId, QueryStatus,
    RuntimeError, STAGES, ShardStatus, StreamStatus,
    byte_budget::ByteBudget,
    durable::DurableObjects,
    query::active::{EmitContext, Running},
    query::handle::QueryHandle,
    query::linger::{FOR_GOOD, LingeringQueries},
    query::totals::Totals,
    run_queue::RunQueue,
    steady_clock::SteadyClock,
    stream::{RecentBudget, Stream},
};

/// The state that all threads of a runtime share.
pub struct Shared {
    /// The settings that hold.
    pub config: EngineConfig,
    /// The engine's time.
    pub clock: Arc<dyn Clock>,
    /// The same, as what it is.
    pub steady: Arc<SteadyClock>,
    pub(crate) streams: OrderedRwLock<BTreeMap<StreamName, Arc<Stream>>, level::Streams>,
    /// Standing queries, and detached ones that have ended; in order of submission, for ids sort by time.
    pub queries: OrderedRwLock<BTreeMap<QueryId, Arc<QueryHandle>>, level::Queries>,
    /// Places of queries that are being written down, and are then among `queries`. Raised under the lock of `queries`.
    pub(crate) reserved: AtomicUsize,
    pub(crate) next_number: AtomicU64,
    pub(crate) id_secret: RandomState,
    pub(crate) pending: ByteBudget,
    /// The samples of the newest events; none if there are to be none.
    pub(crate) recent: Option<Arc<RecentBudget>>,
    pub(crate) totals: Totals,
    /// The plan of all queries that have no groups to cut.
    pub(crate) uncut: Arc<SlicePlan>,
    pub(crate) counters: Vec<ShardCounters>,
    pub(crate) read_to_match: [AtomicU64; LATENCY_BOUNDS_MICROS.len() + 1],
    pub(crate) read_to_match_micros: AtomicU64,
    pub(crate) errands: mpsc::Sender<TickerRequest>,
    pub(crate) is_closing: AtomicBool,
    /// Set when all has stopped.
    pub(crate) stopped: OnceCell<()>,
    pub(crate) line: RunQueue,
    /// Detached queries that ended.
    pub(crate) expiring: OrderedMutex<ExpiringQueries, level::Queries>,
    /// Queries that outlive their reader for a while.
    pub(crate) lingering: OrderedMutex<LingeringQueries>,
    /// The interned plans that standing queries share.
    pub(crate) plan_interner: OrderedMutex<PlanInterner>,
    /// The durable state, if there is any; set before callers get the runtime.
    pub(crate) durable: OnceLock<Arc<dyn DurableObjects>>,
}

/// Detached queries that ended, and when they are to be forgotten.
#[derive(Debug, Default)]
pub(crate) struct ExpiringQueries {
    pub(crate) by_id: HashMap<QueryId, (Millis, QueryStatus)>,
    pub(crate) until: BTreeSet<(Millis, QueryId)>,
    /// The queries among them that were killed.
    pub(crate) killed: BTreeSet<QueryId>,
}

/// A request to the ticker between its ticks. Not bounded by itself: a query asks for its end at most once, its
/// reader at most once more, and the number of queries is bounded.
#[derive(Debug)]
pub(crate) enum TickerRequest {
    /// End a query.
    End(QueryId, EndReason),
    /// Stop.
    Stop,
}

/// A shard's own numbers.
#[derive(Debug, Default)]
pub(crate) struct ShardCounters {
    pub(crate) batches: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) busy_nanos: [AtomicU64; STAGES.len()],
    pub(crate) started_nanos: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        config: EngineConfig,
        clock: Arc<dyn Clock>,
    ) -> (Shared, mpsc::Receiver<TickerRequest>) {
        let (errands, inbox) = mpsc::channel();
        let shards = config.shards;
        let steady = Arc::new(SteadyClock::new(clock));
        let shared = Shared {
            pending: ByteBudget::new(config.pending_bytes_max),
            recent: (config.recent_bytes_max > 0).then(|| RecentBudget::new(config.recent_bytes_max)),
            config,
            clock: Arc::<SteadyClock>::clone(&steady),
            steady,
            streams: OrderedRwLock::default(),
            queries: OrderedRwLock::default(),
            reserved: AtomicUsize::new(0),
            next_number: AtomicU64::new(1),
            id_secret: RandomState::new(),
            totals: Totals::default(),
            uncut: Arc::default(),
            counters: (0..shards).map(|_| ShardCounters::default()).collect(),
            read_to_match: Default::default(),
            read_to_match_micros: AtomicU64::new(0),
            errands,
            is_closing: AtomicBool::new(false),
            stopped: OnceCell::new(),
            line: RunQueue::default(),
            expiring: OrderedMutex::default(),
            lingering: OrderedMutex::default(),
            plan_interner: OrderedMutex::default(),
            durable: OnceLock::new(),
        };
        (shared, inbox)
    }

    /// The stream of this name, if there is one.
    pub fn find_stream(&self, name: &StreamName) -> Option<Arc<Stream>> {
        self.streams.read().get(name).cloned()
    }

    /// The names of streams that have had events.
    pub(crate) fn stream_names(&self) -> Vec<String> {
        let streams = self.streams.read();
        streams.values().filter(|stream| stream.has_events()).map(|stream| stream.name.to_string()).collect()
    }

    /// True if the catalog has a stream of this name.
    pub(crate) fn is_declared(&self, name: &StreamName) -> bool {
        self.durable.get().is_some_and(|durable| durable.is_declared(name))
    }

    /// Waits until there is room for so many bytes among those that wait to be looked at.
    pub async fn enter(&self, bytes: usize) -> Result<(), RuntimeError> {
        self.pending.enter(bytes).await.map_err(|_| RuntimeError::ShuttingDown)
    }

    /// Does the same as [`Shared::enter`], for a thread that may wait.
    pub(crate) fn enter_blocking(&self, bytes: usize) -> Result<(), RuntimeError> {
        self.pending.enter_blocking(bytes).map_err(|_| RuntimeError::ShuttingDown)
    }

    /// Releases so many pending bytes.
    pub fn leave(&self, bytes: usize) {
        self.pending.leave(bytes);
    }

    /// Counts a query as submitted that did not come through [`crate::Runtime::submit`].
    pub fn count_submitted(&self) {
        self.totals.submitted.fetch_add(1, Ordering::Relaxed);
    }

    /// True if a query has ended and its results wait for pick-up.
    pub fn is_kept(&self, id: &QueryId) -> bool {
        self.expiring.lock().by_id.contains_key(id)
    }

    /// Appends events, for whose bytes there is room, if `may` allows it under the lock of the stream's intake: the beginning
    /// of storage and changes of declarations hold that lock.
    pub fn put(
        &self,
        name: &StreamName,
        batch: EventBatch,
        options: &AppendOptions,
        may: impl FnOnce() -> bool,
    ) -> Result<Appended, RuntimeError> {
        if self.durable.get().is_some_and(|durable| durable.is_view(name.as_str())) {
            self.pending.leave(batch.bytes().len());
            return Err(CatalogError::exists(ObjectKind::View, name.as_str()).into());
        }
        if batch.is_empty() {
            let Some(stream) = self.find_stream(name) else { return Ok(Appended::live(name, 0, 0)) };
            stream.count_rejected(options.rejected);
            return Ok(Appended::live(name, stream.status(0).position, 0));
        }
        let (bytes, events) = (batch.bytes().len(), batch.len() as u64);
        let stream = self.stream(name).inspect_err(|_| self.pending.leave(bytes))?;
        let appended = stream.append_with(batch, self.clock.now_micros(), options, |_, _| match may() {
            true => Ok((true, ())),
            false => Err(RuntimeError::StreamReplaced(name.to_string())),
        });
        let (offset, (), is_new_in_line) = appended.inspect_err(|_| self.pending.leave(bytes))?;
        stream.count_rejected(options.rejected);
        if is_new_in_line {
            self.enqueue(stream);
        }
        Ok(Appended::live(name, offset, events))
    }

    /// The stream of this name, made if there is none yet.
    pub fn stream(&self, name: &StreamName) -> Result<Arc<Stream>, RuntimeError> {
        if let Some(stream) = self.find_stream(name) {
            return Ok(stream);
        }
        let mut streams = self.streams.write();
        if !streams.contains_key(name) && streams.len() >= self.config.streams_max {
            return Err(RuntimeError::Limit {
                what: "number of streams",
                setting: "engine.streams_max",
                wanted: streams.len() as u64 + 1,
                limit: self.config.streams_max as u64,
            });
        }
        let new = || {
            let stream = Stream::new(name.clone(), self.config.shards);
            Arc::new(stream.with_recent(self.recent.as_ref()))
        };
        Ok(Arc::clone(streams.entry(name.clone()).or_insert_with(new)))
    }

    /// Schedules a stream with waiting events for a shard, if a query reads it.
    pub fn enqueue(&self, stream: Arc<Stream>) {
        match stream.drain_unread() {
            Some(work) => self.pass_over(&stream, &work),
            None => self.line.push(stream),
        }
    }

    pub(crate) fn context<'e>(&'e self, stream: &'e Stream, position: u64) -> EmitContext<'e> {
        let now_micros = self.clock.now_micros();
        let now = now_micros.div_euclid(1000);
        EmitContext {
            config: &self.config,
            totals: &self.totals,
            stream: stream.meta(position, now),
            looks: Some(&stream.clock_samples),
            stream_exists: stream.has_events() || stream.coverage().is_some(),
            coverage: stream.coverage(),
            now,
            now_micros,
            is_again: stream.is_again.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn status_of(&self, running: &Running, context: &EmitContext<'_>) -> QueryStatus {
        QueryStatus {
            emits: running.emits(),
            records: running.records(),
            state_bytes: running.state_bytes(),
            cost: running.cost(),
            ..self.status_before(&running.handle, context)
        }
    }

    /// The stream that a query stands on.
    pub(crate) fn stream_of(&self, handle: &QueryHandle) -> Option<Arc<Stream>> {
        match (&handle.following, &handle.remote) {
            (Some(following), _) => Some(Arc::clone(&following.stream)),
            (None, Some(remote)) => Some(Arc::clone(remote)),
            (None, None) => self.find_stream(&handle.stream),
        }
    }

    /// The status of a query that has not begun.
    pub(crate) fn status_before(&self, handle: &QueryHandle, context: &EmitContext<'_>) -> QueryStatus {
        QueryStatus {
            id: handle.meta.id,
            text: Arc::clone(&handle.meta.text),
            dialect: dialect_name(handle.dialect),
            stream: handle.stream.clone(),
            stream_exists: context.stream_exists,
            received: handle.meta.received,
            ends: handle.ends(),
            finished: None,
            detached: handle.is_detached.load(Ordering::Acquire)
                && handle.linger_ms.load(Ordering::Acquire) == FOR_GOOD,
            durable: handle.following.is_some(),
            fleeting: handle.fleeting.get().map(|fleeting| fleeting.why(&handle.stream, &self.config)),
            attached: handle.mailbox.is_attached(),
            emits: 0,
            records: 0,
            dropped: handle.mailbox.dropped(),
            state_bytes: 0,
            cost: crate::QueryCost::default(),
            lag_ms: context.stream.lag_ms,
        }
    }

    /// The status of a query that stands, or of one that has ended and waits for pick-up.
    pub(crate) fn status(&self, handle: &QueryHandle) -> Option<QueryStatus> {
        if let Some((_, status)) = self.expiring.lock().by_id.get(&handle.meta.id) {
            let attached = handle.mailbox.is_attached();
            return Some(QueryStatus { attached, dropped: handle.mailbox.dropped(), ..status.clone() });
        }
        let stream = self.stream_of(handle)?;
        let mut merge = stream.merge.lock();
        merge.update_counts(handle.number);
        let context = self.context(&stream, merge.position);
        match merge.running.get(&handle.number) {
            Some(running) => Some(self.status_of(running, &context)),
            // It begins when its stream has come so far.
            None => handle.following.as_ref().map(|_| self.status_before(handle, &context)),
        }
    }

    /// The way a stream is, the durable queries over it counted as standing on it.
    pub(crate) fn status_of_stream(&self, stream: &Stream, now: Millis) -> StreamStatus {
        let objects = self.durable.get();
        let durable = objects.map_or(0, |objects| objects.durable_queries(&stream.name));
        let oldest_arrival = objects.and_then(|objects| objects.oldest_pending_arrival(&stream.name));
        let status = stream.status(now);
        StreamStatus {
            queries: status.queries + durable,
            stored_lag_ms: oldest_arrival.map_or(0, |since| u64::try_from(now - since).unwrap_or(0)),
            ..status
        }
    }

    pub(crate) fn all_streams(&self) -> Vec<Arc<Stream>> {
        self.streams.read().values().cloned().collect()
    }

    /// The streams that the ticker looks at.
    pub(crate) fn streams_with_queries(&self) -> Vec<Arc<Stream>> {
        self.streams.read().values().filter(|stream| stream.has_queries()).cloned().collect()
    }

    pub(crate) fn close_line(&self) {
        self.line.close();
    }

    pub(crate) fn shard_status(&self) -> Vec<ShardStatus> {
        let now = self.clock.monotonic_nanos();
        self.counters
            .iter()
            .map(|counters| ShardStatus {
                batches: counters.batches.load(Ordering::Relaxed),
                events: counters.events.load(Ordering::Relaxed),
                busy_nanos: std::array::from_fn(|stage| counters.busy_nanos[stage].load(Ordering::Relaxed)),
                up_nanos: now.saturating_sub(counters.started_nanos.load(Ordering::Relaxed)),
            })
            .collect()
    }
}

fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Native => "native",
        Dialect::Bullet => "bullet",
    }
}
