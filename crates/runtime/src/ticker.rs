//! The ticker: closes windows as time passes, ends queries whose duration is over, and runs errands between.
//!
//! Windows are closed and queries ended one at a time (a stream's `tick`), each with one reading of the clock. Windows
//! that are due by then are closed first, so an answer and the reason of its end do not depend on who came first. If
//! very many queries are due together, they are closed in portions of 256. The locks of the shards and of the merge are
//! released between portions.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use swiftwater_event::Millis;
use swiftwater_live::QueryNumber;

#[cfg(test)]
use crate::threads::LoopState;
use crate::{
    EndReason, QueryId,
    indexer::IndexErrand,
    merge::Merge,
    panic_guard::guarded,
    query::active::EmitContext,
    query::handle::QueryHandle,
    shared::{Shared, TickerRequest},
    stream::Stream,
    threads::ThreadLoop,
};

/// Errands that are run before the clock is looked at again.
const ERRANDS_MAX: usize = 256;

/// Number of queries whose windows are closed before the locks of the shards and of the merge are released.
const PORTION: usize = 256;

/// The loop of the ticker.
pub(crate) struct TickerLoop {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<TickerRequest>,
    indexer: mpsc::Sender<IndexErrand>,
    /// The clock's nanoseconds when rates were measured last.
    measured: u64,
}

impl TickerLoop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: mpsc::Receiver<TickerRequest>,
        indexer: mpsc::Sender<IndexErrand>,
    ) -> TickerLoop {
        let measured = shared.clock.monotonic_nanos();
        TickerLoop { shared, inbox, indexer, measured }
    }

    /// Runs an errand and those behind it, then a tick. Returns false if the runtime stops.
    fn turn(&mut self, errand: Option<TickerRequest>) -> bool {
        if let Some(errand) = errand {
            for errand in std::iter::once(errand).chain(self.inbox.try_iter().take(ERRANDS_MAX)) {
                match errand {
                    TickerRequest::End(id, reason) => self.shared.end_guarded(&id, reason),
                    TickerRequest::Stop => return false,
                }
            }
        }
        self.tick();
        true
    }

    /// Closes and ends what is due on all streams, and starts the rebuilds of indexes that are due.
    fn tick(&mut self) {
        let (shared, indexer) = (&self.shared, &self.indexer);
        let now = shared.clock.now();
        for stream in shared.streams_with_queries() {
            shared.tick_stream(&stream, now);
            shared.tick_idle(&stream, now);
            start_rebuild(&stream, false, indexer);
        }
        let followed = shared.durable.get().map(|durable| durable.followed()).unwrap_or_default();
        for stream in &followed {
            start_rebuild(stream, false, indexer);
        }
        let seconds = (shared.clock.monotonic_nanos() - self.measured) as f64 / 1e9;
        if seconds >= 1.0 {
            self.measured = shared.clock.monotonic_nanos();
            for stream in shared.all_streams() {
                stream.measure_rates(seconds);
                stream.forget_replaced();
                start_rebuild(&stream, stream.was_quiet(), indexer);
                stream.rest_without_queries();
            }
            for stream in &followed {
                stream.forget_replaced();
                start_rebuild(stream, stream.was_quiet(), indexer);
            }
            shared.end_lingering(now);
            shared.forget_expired(now);
            shared.forget_empty_streams();
        }
    }
}

impl ThreadLoop for TickerLoop {
    fn name(&self) -> String {
        "ticker".to_owned()
    }

    fn run(&mut self) {
        let tick = Duration::from_millis(self.shared.config.tick_ms.max(1));
        loop {
            let errand = match self.inbox.recv_timeout(tick) {
                Ok(errand) => Some(errand),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            if !self.turn(errand) {
                return;
            }
        }
    }

    /// A tick that finds no errand counts as nothing to do.
    #[cfg(test)]
    fn step(&mut self) -> bool {
        let errand = self.inbox.try_recv().ok();
        let has_errand = errand.is_some();
        self.turn(errand);
        has_errand
    }

    #[cfg(test)]
    fn state(&self) -> LoopState {
        LoopState::NeedsShards
    }
}

impl Shared {
    /// Ends a query as [`Shared::end`] does; a panic does not affect other requests and the ticks.
    fn end_guarded(&self, id: &QueryId, reason: EndReason) {
        // `guarded` logs the fault; the query's reader has left or finds its mailbox closed.
        let _ = guarded("a query could not be ended", || self.end(id, reason));
    }

    /// Closes the windows that are over, and ends the queries whose duration is.
    pub fn tick_stream(&self, stream: &Stream, now: Millis) {
        stream.clock_samples.add(now);
        if now < stream.next_due() {
            return;
        }
        // Held until all that is due is done, so that no shard takes what arrived after a query's end before it ended, and
        // nobody ends a query whose windows are being closed.
        let _tick = stream.tick.lock();
        self.tick_held(stream, now);
    }

    /// Advances the event time of an idle stream if that closes something.
    pub(crate) fn tick_idle(&self, stream: &Arc<Stream>, now: Millis) {
        if stream.idle_due(now).is_some() && stream.advance_idle(now) {
            self.enqueue(Arc::clone(stream));
        }
    }

    /// Does the same as [`Shared::tick_stream`], for the holder of the stream's `tick`.
    pub(crate) fn tick_held(&self, stream: &Stream, now: Millis) {
        self.close_by_event_held(stream);
        if now < stream.next_due() {
            return;
        }
        let now = stream.settle(now);
        if now < stream.next_due() {
            return;
        }
        self.close_at(stream, now, None);
    }

    /// Closes what the event closes that was taken last, if it was taken alone and nobody else has.
    pub(crate) fn close_by_event(&self, stream: &Stream) {
        if stream.closed_by_event().is_some() {
            let _tick = stream.tick.lock();
            self.close_by_event_held(stream);
        }
    }

    /// Does the same as [`Shared::close_by_event`], for the holder of the stream's `tick`.
    fn close_by_event_held(&self, stream: &Stream) {
        if let Some((at, after)) = stream.closed_by_event() {
            self.close_at(stream, at, Some(after));
        }
    }

    /// Closes what is due at `now`; or, with the offset after an event that arrived then, what that closes. A panic that
    /// is no single query's ends all queries of the stream: which windows were lost is unknown.
    fn close_at(&self, stream: &Stream, now: Millis, after: Option<u64>) {
        if let Err(fault) = guarded("windows could not be closed", || self.close_due(stream, now, after)) {
            for shard in &stream.shards {
                shard.lock().shard.recover();
            }
            let mut merge = stream.merge.lock();
            self.fail_from(&mut merge, u64::MAX, &fault);
            // All of them end: nothing is due until the ticker has seen to that, or it would fail again at once.
            merge.agenda.clear();
            merge.lagging.clear();
            stream.set_next_due(&merge);
        }
    }

    /// Closes what [`Shared::look`] finds due, some queries at a time: between these, queries begin and statuses are read. Nothing
    /// that came after `now` is taken meanwhile, as the stream stays due until the last of them is closed.
    fn close_due(&self, stream: &Stream, now: Millis, after: Option<u64>) {
        let DueWork { queries, over, operators } = find_due(&stream.merge.lock(), now, after);
        for portion in operators.chunks(PORTION) {
            flush_operators(stream, portion);
        }
        let mut ended: Vec<(Arc<QueryHandle>, EndReason)> =
            over.into_iter().map(|handle| (handle, EndReason::Duration)).collect();
        // One for all: windows that close together are told at one time.
        let mut context = None;
        for portion in queries.chunks(PORTION) {
            flush_queries(stream, portion);
            let mut merge = stream.merge.lock();
            let context = context.get_or_insert_with(|| self.context(stream, merge.position));
            for &(number, _) in portion {
                ended.extend(self.close_windows(&mut merge, number, now, after, context));
            }
        }
        for portion in operators.chunks(PORTION) {
            self.drop_closed_slices(&mut stream.merge.lock(), portion);
        }
        {
            let merge = stream.merge.lock();
            stream.set_next_due(&merge);
            stream.set_pace(!merge.lagging.is_empty());
        }
        for (handle, reason) in ended {
            self.end_held(stream, &handle, reason, now);
        }
    }

    /// Closes the windows of one query that are over, emits their results, and reschedules it. Returns why it is to end, if it
    /// is.
    fn close_windows(
        &self,
        merge: &mut Merge,
        number: QueryNumber,
        now: Millis,
        after: Option<u64>,
        context: &EmitContext<'_>,
    ) -> Option<(Arc<QueryHandle>, EndReason)> {
        merge.update_counts(number);
        let running = merge.running.get_mut(&number)?;
        let ends = running.handle.ends().filter(|ends| *ends <= now);
        let closed = guarded("a window could not be closed", || {
            if let Some(reason) = running.exceeds_rate(context) {
                return Some(reason);
            }
            let mut results = Vec::new();
            let operator = running.operator().and_then(|number| merge.operators.get_mut(&number));
            // In Bullet the window that is open when a query's time is over is its last result, whatever others
            // would have been over by then.
            if ends.is_none() || !running.closes_singly() {
                let at = after.is_none().then(|| ends.unwrap_or(now));
                running.close(operator.map(Box::as_mut), at, context.now_micros, &mut results);
            }
            if ends.is_none() && !running.is_ending && running.work().collector.is_done() {
                // The last match that LIMIT asks for was complete when its time was over.
                running.is_ending = true;
                self.finish_at_limit(running, &mut results, context);
                return Some(EndReason::Limit);
            }
            let reason = running.emit_results(&mut results, None, context);
            reason.or_else(|| running.account(&self.config, &self.totals))
        });
        let ended = closed.unwrap_or_else(Some).map(|reason| (Arc::clone(&running.handle), reason));
        merge.reschedule(number);
        if let Some(after) = after {
            // The next window holds nothing of what this one does.
            merge.restrict_from(number, after, now);
        }
        ended
    }

    /// Drops the slices of operators that no member needs any more.
    fn drop_closed_slices(&self, merge: &mut Merge, portion: &[DueOperator]) {
        for &DueOperator { number, members, .. } in portion {
            merge.drop_slices(number, members);
            if let Some(operator) = merge.operators.get_mut(&number) {
                // A limit that is exceeded is found out with the next batch.
                operator.account(&self.config, &self.totals);
            }
        }
    }
}

/// The work that is due at one tick.
struct DueWork {
    /// Queries of which windows may close; where they share no operator, with the start of their slice that is still open.
    queries: Vec<(QueryNumber, Option<i64>)>,
    /// The queries among them whose duration is over.
    over: Vec<Arc<QueryHandle>>,
    operators: Vec<DueOperator>,
}

/// An operator with members that are due.
struct DueOperator {
    number: QueryNumber,
    /// The start of its slice that is still open: those before it are over.
    open: i64,
    /// The number of its members that are due.
    members: usize,
}

/// Finds what is due at `now`; with the offset after an event, what that event closes.
fn find_due(merge: &Merge, now: Millis, after: Option<u64>) -> DueWork {
    let on_agenda = merge.agenda.iter().take_while(|(at, _)| *at <= now).map(|(_, number)| number);
    let looked_at: Vec<QueryNumber> = match after {
        None => on_agenda.copied().collect(),
        Some(_) => merge.lagging.iter().copied().collect(),
    };
    let mut queries = Vec::new();
    let mut over = Vec::new();
    let mut operators: BTreeMap<QueryNumber, DueOperator> = BTreeMap::new();
    for number in looked_at {
        let Some(running) = merge.running.get(&number) else { continue };
        if running.handle.ends().is_some_and(|ends| ends <= now) {
            over.push(Arc::clone(&running.handle));
        }
        // A window that is closed by an event holds it.
        let all = after.map(|_| i64::MAX);
        match running.operator().and_then(|shared| Some((shared, merge.operators.get(&shared)?))) {
            Some((shared, operator)) => {
                let entry = operators.entry(shared).or_insert_with(|| {
                    let open = all.unwrap_or_else(|| operator.cuts().start_of(now));
                    DueOperator { number: shared, open, members: 0 }
                });
                entry.members += 1;
                queries.push((number, None));
            }
            None => queries.push((number, all.or_else(|| running.is_over_before(now)))),
        }
    }
    DueWork { queries, over, operators: operators.into_values().collect() }
}

/// Collects the slices of operators that are over from all shards.
fn flush_operators(stream: &Stream, portion: &[DueOperator]) {
    for shard in &stream.shards {
        let mut state = shard.lock();
        let mut merge = stream.merge.lock();
        for &DueOperator { number, open, .. } in portion {
            let slices = state.shard.flush(number, open);
            if let Some(operator) = merge.operators.get_mut(&number) {
                operator.accept_slices(slices);
            }
        }
    }
}

/// Collects the slices that are over of queries without an operator from all shards.
fn flush_queries(stream: &Stream, portion: &[(QueryNumber, Option<i64>)]) {
    // Those of operators have theirs.
    let alone: Vec<(QueryNumber, i64)> =
        portion.iter().filter_map(|(number, open)| Some((*number, (*open)?))).collect();
    // Through all shards in any case: then all that was taken is delivered.
    for shard in &stream.shards {
        let mut state = shard.lock();
        let mut merge = stream.merge.lock();
        for &(number, open) in &alone {
            let slices = state.shard.flush(number, open);
            if let Some(running) = merge.running.get_mut(&number) {
                running.accept_slices(slices);
            }
        }
    }
}

impl Merge {
    /// Puts a query on the agenda at its next due time, and among the lagging ones if it lags. A query whose duration is over
    /// stays due until it has ended.
    fn reschedule(&mut self, number: QueryNumber) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let next = running.next_due();
        if let Some(due) = std::mem::replace(&mut running.due, next) {
            self.agenda.remove(&(due, number));
        }
        if let Some(next) = next {
            self.agenda.insert((next, number));
        }
        if running.lags() {
            self.lagging.insert(number);
        } else {
            self.lagging.remove(&number);
        }
    }
}

fn start_rebuild(stream: &Arc<Stream>, is_quiet: bool, indexer: &mpsc::Sender<IndexErrand>) {
    if let Some(rebuild) = stream.start_rebuild(is_quiet) {
        // The indexer stops after the ticker only.
        let _ = indexer.send((Arc::clone(stream), rebuild));
    }
}
