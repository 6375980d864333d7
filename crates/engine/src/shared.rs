//! What all threads of an engine share, and what they do with it: the shards' loop, the ticker's, and the ends of
//! queries.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::RandomState,
    sync::{
        Arc, Condvar, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use swiftwater_event::{Clock, Millis, StreamName};
use swiftwater_live::{Place, QueryNumber, ResultSet, StepInput, StepNanos};
use tracing::debug;

use crate::{
    EndReason, EngineConfig, EngineError, LATENCY_BOUNDS_MICROS, QueryId, STAGES, ShardStatus,
    gate::Gate,
    running::{EmitContext, QueryHandle, Running, Totals},
    stream::{Merge, Output, ShardState, Stream, Take, Work, lock},
};

pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) streams: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    /// Standing queries, and detached ones that have ended; in order of submission, for ids sort by time.
    pub(crate) queries: RwLock<BTreeMap<QueryId, Arc<QueryHandle>>>,
    pub(crate) next_number: AtomicU64,
    pub(crate) id_secret: RandomState,
    pub(crate) pending: Gate,
    pub(crate) totals: Totals,
    pub(crate) counters: Vec<ShardCounters>,
    pub(crate) read_to_match: [AtomicU64; LATENCY_BOUNDS_MICROS.len() + 1],
    pub(crate) read_to_match_micros: AtomicU64,
    pub(crate) errands: mpsc::Sender<Errand>,
    pub(crate) is_closing: AtomicBool,
    line: Line,
    /// Detached queries that ended, and when they are to be forgotten.
    kept: Mutex<HashMap<QueryId, (Millis, crate::QueryStatus)>>,
}

/// What the ticker is asked to do between its ticks. Not bounded by itself: a query asks for its end at most once, its
/// reader at most once more, and the number of queries is bounded.
#[derive(Debug)]
pub(crate) enum Errand {
    /// End a query.
    End(QueryId, EndReason),
    /// Stop.
    Stop,
}

/// A shard's own numbers.
#[derive(Debug, Default)]
pub(crate) struct ShardCounters {
    batches: AtomicU64,
    events: AtomicU64,
    busy_nanos: [AtomicU64; STAGES.len()],
    started_nanos: AtomicU64,
}

/// The streams that have work, and the shards that wait for some.
#[derive(Debug, Default)]
struct Line {
    state: Mutex<LineState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineState {
    streams: VecDeque<Arc<Stream>>,
    is_closed: bool,
}

impl Line {
    fn push(&self, stream: Arc<Stream>) {
        lock(&self.state).streams.push_back(stream);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<Arc<Stream>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(stream) = state.streams.pop_front() {
                return Some(stream);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}

impl Shared {
    pub(crate) fn new(config: EngineConfig, clock: Arc<dyn Clock>) -> (Shared, mpsc::Receiver<Errand>) {
        let (errands, inbox) = mpsc::channel();
        let shards = config.shards;
        let shared = Shared {
            pending: Gate::new(config.pending_bytes_max),
            config,
            clock,
            streams: RwLock::default(),
            queries: RwLock::default(),
            next_number: AtomicU64::new(1),
            id_secret: RandomState::new(),
            totals: Totals::default(),
            counters: (0..shards).map(|_| ShardCounters::default()).collect(),
            read_to_match: Default::default(),
            read_to_match_micros: AtomicU64::new(0),
            errands,
            is_closing: AtomicBool::new(false),
            line: Line::default(),
            kept: Mutex::default(),
        };
        (shared, inbox)
    }

    pub(crate) fn find_stream(&self, name: &StreamName) -> Option<Arc<Stream>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The stream of this name, made if there is none yet.
    pub(crate) fn stream(&self, name: &StreamName) -> Result<Arc<Stream>, EngineError> {
        if let Some(stream) = self.find_stream(name) {
            return Ok(stream);
        }
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if !streams.contains_key(name) && streams.len() >= self.config.streams_max {
            return Err(EngineError::Limit {
                what: "number of streams",
                setting: "engine.streams_max",
                wanted: streams.len() as u64 + 1,
                limit: self.config.streams_max as u64,
            });
        }
        let new = || Arc::new(Stream::new(name.clone(), self.config.shards));
        Ok(Arc::clone(streams.entry(name.clone()).or_insert_with(new)))
    }

    pub(crate) fn put_in_line(&self, stream: Arc<Stream>) {
        self.line.push(stream);
    }

    /// A shard's life: looks at batches until the line is closed and empty.
    pub(crate) fn run_shard(&self, number: usize) {
        self.counters[number].started_nanos.store(self.clock.monotonic_nanos(), Ordering::Relaxed);
        while let Some(stream) = self.line.pop() {
            let taken = {
                let mut state = lock(&stream.shards[number]);
                match stream.take(self.config.batch_bytes_max) {
                    Take::Nothing => continue,
                    Take::Due(at) => Err(at),
                    Take::Work(work) => {
                        if work.more {
                            self.line.push(Arc::clone(&stream));
                        }
                        self.look_at(&stream, number, &mut state, &work);
                        Ok(work.bytes)
                    }
                }
            };
            match taken {
                Ok(bytes) => self.pending.leave(bytes),
                Err(at) => {
                    self.tick_stream(&stream, at);
                    self.line.push(stream);
                }
            }
        }
    }

    fn look_at(&self, stream: &Stream, number: usize, state: &mut ShardState, work: &Work) {
        let clock = &self.clock;
        let nanos = || clock.monotonic_nanos();
        let mut spent = StepNanos::default();
        let now_micros = clock.now_micros();
        if !work.index.is_empty() {
            let input = StepInput {
                batch: &work.batch,
                arrivals: &work.arrivals,
                place: Place::Number(work.batch.meta().first.0),
                now_micros,
                nanos: &nanos,
            };
            spent = state.shard.step(&work.index, &input, &mut state.steps);
        }
        let start = nanos();
        let waited = u64::try_from(now_micros - work.batch.meta().read_micros).unwrap_or(0);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|&bound| bound < waited);
        self.read_to_match[bucket].fetch_add(1, Ordering::Relaxed);
        self.read_to_match_micros.fetch_add(waited, Ordering::Relaxed);
        let output = Output {
            steps: std::mem::take(&mut state.steps),
            first: work.batch.meta().first.0,
            position: work.position(),
        };
        self.deliver(stream, work.sequence, output);
        let counters = &self.counters[number];
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters.events.fetch_add(work.batch.len() as u64, Ordering::Relaxed);
        let deliver = nanos() - start;
        for (counter, nanos) in
            counters.busy_nanos.iter().zip([spent.decode, spent.matching, spent.operate, deliver])
        {
            counter.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Hands a shard's output on, in the order of the stream.
    fn deliver(&self, stream: &Stream, sequence: u64, output: Output) {
        let mut merge = lock(&stream.merge);
        let merge = &mut *merge;
        for output in merge.deliver(sequence, output) {
            merge.position = output.position;
            if output.steps.is_empty() {
                continue;
            }
            let context = self.context(stream, merge.position);
            for step in output.steps {
                let Some(running) = merge.running.get_mut(&step.number) else { continue };
                if running.is_ending {
                    continue;
                }
                let mut results = Vec::new();
                running.take_step(step, output.first, &mut results, context.now_micros);
                let mut ending = None;
                if running.collector.is_done() {
                    ending = Some(EndReason::Limit);
                    running.is_ending = true;
                } else if !results.is_empty() {
                    ending = running.give_out(std::mem::take(&mut results), None, &context);
                }
                ending = ending.or_else(|| running.account(&self.config, &self.totals));
                if let Some(reason) = ending {
                    if reason == EndReason::Limit {
                        self.finish_at_limit(running, results, &context);
                    }
                    self.ask_to_end(running.handle.meta.id.clone(), reason);
                }
            }
        }
    }

    /// The last emit of a query that has all it asked for: at once, whatever the ticker is doing.
    fn finish_at_limit(&self, running: &mut Running, mut results: Vec<ResultSet>, context: &EmitContext<'_>) {
        running.collector.finish(context.now, context.now_micros, &mut results);
        running.give_out(results, Some(EndReason::Limit), context);
    }

    pub(crate) fn ask_to_end(&self, id: QueryId, reason: EndReason) {
        if let Err(error) = self.errands.send(Errand::End(id, reason)) {
            debug!(errand = ?error.0, "the ticker has stopped: shutdown ends all queries");
        }
    }

    fn context(&self, stream: &Stream, position: u64) -> EmitContext<'_> {
        let now_micros = self.clock.now_micros();
        let now = now_micros.div_euclid(1000);
        EmitContext {
            config: &self.config,
            totals: &self.totals,
            stream: stream.meta(position, now),
            stream_exists: stream.has_events(),
            now,
            now_micros,
        }
    }

    /// Closes the windows that are over, and ends the queries whose duration is.
    pub(crate) fn tick_stream(&self, stream: &Stream, now: Millis) {
        if now < stream.next_due() {
            return;
        }
        let tick = lock(&stream.tick);
        let mut due: Vec<(QueryNumber, Option<u64>)> = Vec::new();
        let mut over: Vec<QueryId> = Vec::new();
        {
            let merge = lock(&stream.merge);
            for (_, number) in merge.agenda.iter().take_while(|(at, _)| *at <= now) {
                let Some(running) = merge.running.get(number) else { continue };
                if running.handle.ends.is_some_and(|ends| ends <= now) {
                    over.push(running.handle.meta.id.clone());
                }
                due.push((*number, running.collector.grid().map(|grid| grid.number(now))));
            }
        }
        for shard in &stream.shards {
            let mut state = lock(shard);
            let mut merge = lock(&stream.merge);
            for &(number, open) in &due {
                let Some(open) = open else { continue };
                let groups = state.shard.flush(number, open);
                if let Some(running) = merge.running.get_mut(&number) {
                    for (window, groups) in groups {
                        running.shard_bytes -= groups.bytes() as i64;
                        running.collector.groups(window, groups);
                    }
                }
            }
        }
        let mut ended: Vec<(QueryId, EndReason)> =
            over.into_iter().map(|id| (id, EndReason::Duration)).collect();
        {
            let mut merge = lock(&stream.merge);
            let merge = &mut *merge;
            let context = self.context(stream, merge.position);
            for (number, _) in due {
                let Some(running) = merge.running.get_mut(&number) else { continue };
                let until = running.handle.ends.map_or(now, |ends| ends.min(now));
                let mut results = Vec::new();
                running.collector.close(until, context.now_micros, &mut results);
                let reason = running.give_out(results, None, &context);
                let reason = reason.or_else(|| running.account(&self.config, &self.totals));
                ended.extend(reason.map(|reason| (running.handle.meta.id.clone(), reason)));
                let due = running.due.take();
                running.due = running.next_due().filter(|due| *due > now);
                let next = running.due;
                if let Some(due) = due {
                    merge.agenda.remove(&(due, number));
                }
                if let Some(next) = next {
                    merge.agenda.insert((next, number));
                }
            }
            stream.set_next_due(merge);
        }
        drop(tick);
        for (id, reason) in ended {
            self.end(&id, reason);
        }
    }

    /// Ends a query, wherever it stands: its reader gets a last emit. Answers whether it stood.
    pub(crate) fn end(&self, id: &QueryId, reason: EndReason) -> bool {
        let handle = self.queries.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let Some(handle) = handle else { return false };
        let Some(stream) = self.find_stream(&handle.stream) else { return false };
        let number = handle.number;
        {
            let _change = lock(&stream.change);
            let mut merge = lock(&stream.merge);
            // Whoever comes second finds that somebody else is ending it.
            let Some(running) = merge.running.get_mut(&number).filter(|running| !running.is_leaving) else {
                return false;
            };
            running.is_leaving = true;
            drop(merge);
            stream.set_index(stream.index().without(number));
        }
        let mut left = Vec::new();
        for shard in &stream.shards {
            left.extend(lock(shard).shard.remove(number));
        }
        {
            let mut merge = lock(&stream.merge);
            let merge: &mut Merge = &mut merge;
            let early = merge.take_early(number);
            let Some(mut running) = merge.running.remove(&number) else { return false };
            if let Some(due) = running.due {
                merge.agenda.remove(&(due, number));
            }
            stream.set_next_due(merge);
            let context = self.context(&stream, merge.position);
            let mut results = Vec::new();
            for (first, step) in early {
                running.take_step(step, first, &mut results, context.now_micros);
            }
            for (window, groups) in left {
                running.collector.groups(window, groups);
            }
            let at = match reason {
                EndReason::Duration => running.handle.ends.unwrap_or(context.now),
                _ => context.now,
            };
            if matches!(reason, EndReason::Failed(_)) {
                self.totals.failed.fetch_add(1, Ordering::Relaxed);
                results.clear();
            } else if !running.is_finished {
                running.collector.finish(at, context.now_micros, &mut results);
            }
            running.forget(&self.totals);
            if !running.is_finished {
                running.give_out(results, Some(reason.clone()), &context);
            }
            self.totals.ended.fetch_add(1, Ordering::Relaxed);
            self.put_away(&running, &context);
        }
        self.forget_if_empty(&stream);
        debug!(query = %id, reason = ?reason, "query ended");
        true
    }

    /// What is left of a query that has ended: nothing, or a detached one's results.
    fn put_away(&self, running: &Running, context: &EmitContext<'_>) {
        let handle = &running.handle;
        if handle.is_detached.load(Ordering::Acquire) && self.config.detached_kept_ms > 0 {
            let mut status = self.status_of(running, context);
            status.finished = Some(context.now);
            let until = context.now + self.config.detached_kept_ms as i64;
            lock(&self.kept).insert(handle.meta.id.clone(), (until, status));
        } else {
            self.queries.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.meta.id);
        }
    }

    pub(crate) fn status_of(&self, running: &Running, context: &EmitContext<'_>) -> crate::QueryStatus {
        let handle = &running.handle;
        crate::QueryStatus {
            id: handle.meta.id.clone(),
            text: Arc::clone(&handle.meta.text),
            dialect: handle.dialect,
            stream: handle.stream.clone(),
            stream_exists: context.stream_exists,
            received: handle.meta.received,
            ends: handle.ends,
            finished: None,
            detached: handle.is_detached.load(Ordering::Acquire),
            attached: handle.mailbox.is_attached(),
            emits: running.emits,
            records: running.records,
            dropped: handle.mailbox.dropped(),
            state_bytes: running.state_bytes(),
            cost: running.cost,
            lag_ms: context.stream.lag_ms,
        }
    }

    /// The status of a query that stands, or of one that has ended and waits for pick-up.
    pub(crate) fn status(&self, handle: &QueryHandle) -> Option<crate::QueryStatus> {
        if let Some((_, status)) = lock(&self.kept).get(&handle.meta.id) {
            let attached = handle.mailbox.is_attached();
            return Some(crate::QueryStatus {
                attached,
                dropped: handle.mailbox.dropped(),
                ..status.clone()
            });
        }
        let stream = self.find_stream(&handle.stream)?;
        let merge = lock(&stream.merge);
        let context = self.context(&stream, merge.position);
        merge.running.get(&handle.number).map(|running| self.status_of(running, &context))
    }

    /// Forgets a query that has ended; false where it still stands.
    pub(crate) fn forget(&self, id: &QueryId) -> bool {
        if lock(&self.kept).remove(id).is_none() {
            return false;
        }
        if let Some(handle) = self.queries.write().unwrap_or_else(PoisonError::into_inner).remove(id) {
            handle.mailbox.clear(&self.totals.subscriber_bytes);
        }
        true
    }

    /// A stream that was only asked about, and no longer is, leaves no trace.
    fn forget_if_empty(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if !stream.has_events() && lock(&stream.merge).running.is_empty() && Arc::strong_count(stream) <= 2 {
            streams.remove(&stream.name);
        }
    }

    /// The ticker's life: looks at the clock every tick, runs errands between.
    pub(crate) fn run_ticker(&self, inbox: &mpsc::Receiver<Errand>) {
        let tick = Duration::from_millis(self.config.tick_ms.max(1));
        let mut measured = self.clock.monotonic_nanos();
        loop {
            match inbox.recv_timeout(tick) {
                Ok(Errand::End(id, reason)) => {
                    self.end(&id, reason);
                    while let Ok(errand) = inbox.try_recv() {
                        match errand {
                            Errand::End(id, reason) => {
                                self.end(&id, reason);
                            }
                            Errand::Stop => return,
                        }
                    }
                }
                Ok(Errand::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let now = self.clock.now();
            for stream in self.all_streams() {
                self.tick_stream(&stream, now);
            }
            let seconds = (self.clock.monotonic_nanos() - measured) as f64 / 1e9;
            if seconds >= 1.0 {
                measured = self.clock.monotonic_nanos();
                for stream in self.all_streams() {
                    stream.measure_rates(seconds);
                }
                self.forget_what_was_kept_long_enough(now);
            }
        }
    }

    fn forget_what_was_kept_long_enough(&self, now: Millis) {
        let over: Vec<QueryId> = lock(&self.kept)
            .iter()
            .filter(|(_, (until, _))| *until <= now)
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.forget(&id);
        }
    }

    pub(crate) fn all_streams(&self) -> Vec<Arc<Stream>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
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
