//! Ends queries, and retains the results of detached ones.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::Dialect;
use swiftwater_live::{Partial, QueryNumber, ResultSet};
use tracing::{debug, warn};

use crate::{
    Counts, EndReason, Finished, QueryCost, QueryId, QueryStatus, Records,
    merge::Merge,
    operator::Operator,
    panic_guard::guarded,
    query::active::{EmitContext, Running},
    query::handle::QueryHandle,
    query::linger::FOR_GOOD,
    shared::{Shared, TickerRequest},
    stream::{Stream, Turn},
    subscriber_queue::{OptionalMeta, QueuedEmit},
};

impl Shared {
    pub(crate) fn ask_to_end(&self, id: QueryId, reason: EndReason) {
        if let Err(error) = self.errands.send(TickerRequest::End(id, reason)) {
            debug!(errand = ?error.0, "the ticker has stopped: shutdown ends all queries");
        }
    }

    /// Ends a query in any state: its reader gets a last emit. Returns true if it was running. Windows that are over by
    /// then are closed first, and a query whose duration is over ends with that reason. So the reader's results depend
    /// on the time of the end, and not on the ticker.
    pub(crate) fn end(&self, id: &QueryId, reason: EndReason) -> bool {
        let handle = self.queries.read().get(id).cloned();
        let Some(handle) = handle else { return false };
        let Some(stream) = self.stream_of(&handle) else { return false };
        let tick = stream.tick.lock();
        // Before it leaves: no window is taken for whole that it has left by then.
        let now = stream.remote_time().unwrap_or_else(|| self.clock.now());
        let is_fault = matches!(reason, EndReason::Failed(_) | EndReason::RateLimited(_) | EndReason::Limit);
        let reason = match handle.ends() {
            Some(ends) if ends <= now && !is_fault => EndReason::Duration,
            _ => reason,
        };
        // A durable query goes by the time of the events that it follows.
        if !is_fault && handle.following.is_none() {
            self.tick_held(&stream, now);
        }
        let has_ended = self.end_held(&stream, &handle, reason, now);
        drop(tick);
        self.forget_if_empty(&stream);
        has_ended
    }

    /// Ends all queries that stand over a name whose events have ended for good, the oldest first.
    pub fn fail_all_over(&self, name: &StreamName, why: &str) {
        let Some(stream) = self.find_stream(name) else { return };
        let mut standing: Vec<QueryId> =
            stream.merge.lock().running.values().map(|running| running.handle.meta.id).collect();
        // The end of the last query frees the stream if nobody else holds it.
        drop(stream);
        standing.sort_unstable();
        for id in standing {
            self.end(&id, EndReason::Failed(why.to_owned()));
        }
    }

    /// Ends a query as [`Shared::end`] does, for the holder of the stream's `tick`: no window is closed meanwhile.
    pub fn end_held(&self, stream: &Stream, handle: &QueryHandle, reason: EndReason, now: Millis) -> bool {
        let Some(leaving) = DetachingQuery::start(stream, handle.number, now) else { return false };
        let groups = leaving.collect_groups(stream);
        match self.finish_leaving(stream, &leaving, groups, reason, now) {
            None => return false,
            Some(EndReason::Failed(why)) => warn!(query = %handle.meta.id, why, "a query was ended"),
            Some(reason) => debug!(query = %handle.meta.id, reason = ?reason, "query ended"),
        }
        true
    }

    /// Makes the last emit of a query that has left the index, and retires it. Returns why it ended; none if it stands no more.
    fn finish_leaving(
        &self,
        stream: &Stream,
        leaving: &DetachingQuery,
        groups: Vec<Partial>,
        reason: EndReason,
        now: Millis,
    ) -> Option<EndReason> {
        let number = leaving.number;
        let mut merge = stream.merge.lock();
        let merge: &mut Merge = &mut merge;
        let early = merge.drain_early(number);
        merge.update_counts(number);
        let mut running = merge.remove_running(number)?;
        stream.set_next_due(merge);
        if let Some(remote) = &stream.remote {
            remote.ended.lock().push((number, reason == EndReason::Shutdown));
        }
        // Events taken after its end were not seen by it.
        running.work().last_position.get_or_insert(leaving.last_position);
        let context = self.context(stream, merge.position);
        let mut results = Vec::new();
        for (first, step) in early {
            running.accept_step(step, first, &mut results, context.now_micros);
        }
        running.accept_slices(groups);
        let operator = leaving.operator.and_then(|operator| merge.operators.get_mut(&operator));
        // Of a window that is not over, the workers hold parts.
        let is_in_parts = stream.is_in_parts() && running.has_windows() && reason != EndReason::Duration;
        let reason = match is_in_parts {
            true => reason,
            false => {
                last_results(&mut running, operator.map(Box::as_mut), reason, now, &context, &mut results)
            }
        };
        if matches!(reason, EndReason::Failed(_) | EndReason::RateLimited(_)) {
            self.totals.failed.fetch_add(1, Ordering::Relaxed);
        }
        running.forget(&self.totals);
        if let Some(operator) = leaving.operator {
            merge.forget_member(operator, number, &self.totals);
        }
        if !running.is_finished {
            running.emit_results(&mut results, Some(reason.clone()), &context);
        }
        running.work().ended = Some(reason.clone());
        self.totals.ended.fetch_add(1, Ordering::Relaxed);
        self.retire(&running, &context);
        Some(reason)
    }

    /// Removes a query that has ended, or keeps a detached one's results. A killed query is neither listed nor counted any
    /// more; its last results can be read by its id.
    fn retire(&self, running: &Running, context: &EmitContext<'_>) {
        let handle = &running.handle;
        if handle.is_detached.load(Ordering::Acquire) && self.config.detached_kept_ms > 0 {
            let mut status = self.status_of(running, context);
            let ended = self.record_end(running, context);
            status.finished = Some(ended);
            let until = ended.saturating_add_unsigned(self.config.detached_kept_ms);
            let mut kept = self.expiring.lock();
            kept.until.insert((until, handle.meta.id));
            kept.by_id.insert(handle.meta.id, (until, status));
            if running.end().0 == EndReason::Killed {
                handle.is_killed.store(true, Ordering::Release);
                kept.killed.insert(handle.meta.id);
            }
            drop(kept);
            // Its reader may have taken the last emit and gone before it was kept.
            if handle.mailbox.is_done_with() && !handle.mailbox.is_attached() {
                self.forget(&handle.meta.id);
            }
        } else {
            self.queries.write().remove(&handle.meta.id);
            self.lingering.lock().remove(&handle.meta.id);
            self.record_forgotten(handle);
        }
    }

    /// Records the end of a durable query; returns its time.
    fn record_end(&self, running: &Running, context: &EmitContext<'_>) -> Millis {
        let handle = &running.handle;
        let Some(following) = &handle.following else { return context.now };
        if let Some(ended) = following.ended.get() {
            return *ended;
        }
        let ended = *following.ended.get_or_init(|| context.now);
        let (reason, offset) = running.end();
        if let Some(durable) = self.durable.get() {
            durable.query_ended(handle.meta.id, reason, offset, ended);
        }
        ended
    }

    /// Records that a durable query was removed.
    fn record_forgotten(&self, handle: &QueryHandle) {
        if handle.following.is_some()
            && let Some(durable) = self.durable.get()
        {
            durable.query_forgotten(handle.meta.id);
        }
    }

    /// Ends a durable query that cannot go on and has not begun.
    pub fn fail_before(&self, handle: &Arc<QueryHandle>, stream: &Stream, why: String) {
        let context = self.context(stream, 0);
        let finished =
            Finished { at: context.now, reason: EndReason::Failed(why), cost: QueryCost::default() };
        let emit = QueuedEmit {
            records: Records::default(),
            number: handle.mailbox.frontier().read + 1,
            position: 0,
            lag_ms: 0,
            sample: None,
            counts: Counts::default(),
            rest: Some(Box::new(OptionalMeta { finished: Some(finished), ..OptionalMeta::default() })),
        };
        handle.mailbox.push(emit, &self.config, &self.totals.subscriber_bytes);
        self.queries.write().insert(handle.meta.id, Arc::clone(handle));
        let status = QueryStatus { finished: Some(context.now), ..self.status_before(handle, &context) };
        let until = context.now.saturating_add_unsigned(self.config.detached_kept_ms);
        let mut kept = self.expiring.lock();
        kept.until.insert((until, handle.meta.id));
        kept.by_id.insert(handle.meta.id, (until, status));
    }

    /// Forgets a query that has ended; false where it still stands.
    pub fn forget(&self, id: &QueryId) -> bool {
        {
            let mut kept = self.expiring.lock();
            let Some((until, _)) = kept.by_id.remove(id) else { return false };
            kept.until.remove(&(until, *id));
            kept.killed.remove(id);
        }
        self.lingering.lock().remove(id);
        if let Some(handle) = self.queries.write().remove(id) {
            handle.mailbox.clear(&self.totals.subscriber_bytes);
            self.record_forgotten(&handle);
        }
        true
    }

    /// Makes room by forgetting the ended query that is to be forgotten next; false where there is none.
    pub(crate) fn forget_oldest_kept(&self) -> bool {
        let oldest = self.expiring.lock().until.first().map(|(_, id)| *id);
        oldest.is_some_and(|id| self.forget(&id))
    }

    /// A stream that was only asked about, and no longer is, leaves no trace.
    fn forget_if_empty(&self, stream: &Arc<Stream>) {
        if stream.exists() {
            return;
        }
        let mut streams = self.streams.write();
        if !stream.exists() && stream.merge.lock().running.is_empty() && Arc::strong_count(stream) <= 2 {
            streams.remove(&stream.name);
        }
    }

    /// Does the same as [`Shared::forget_if_empty`] for all: a holder of a stream whose last query ended meanwhile has
    /// released it by now.
    pub(crate) fn forget_empty_streams(&self) {
        let mut streams = self.streams.write();
        streams.retain(|_, stream| {
            Arc::strong_count(stream) > 1 || stream.exists() || !stream.merge.lock().running.is_empty()
        });
    }

    /// Begins the time of a query whose reader has left, if it has one. A query that has ended and has no time is forgotten.
    pub(crate) fn begin_lingering(&self, handle: &QueryHandle) {
        let (id, ms) = (handle.meta.id, handle.linger_ms.load(Ordering::Acquire));
        if ms == FOR_GOOD || ms == 0 && self.forget(&id) {
            return;
        }
        let end = self.clock.now().saturating_add_unsigned(u64::from(ms));
        self.lingering.lock().insert(id, end);
        // It may have been forgotten since its reader looked.
        if !self.queries.read().contains_key(&id) {
            self.lingering.lock().remove(&id);
        }
    }

    /// Ends and forgets the queries whose time is over.
    pub(crate) fn end_lingering(&self, now: Millis) {
        loop {
            let Some(id) = self.lingering.lock().take_over(now) else { return };
            let handle = self.queries.read().get(&id).cloned();
            // A reader that has attached meanwhile begins its time anew when it leaves.
            if handle.is_some_and(|handle| !handle.mailbox.is_attached()) {
                // `guarded` logs the fault.
                let _ = guarded("a query could not be ended", || self.end(&id, EndReason::Client));
                self.forget(&id);
            }
        }
    }

    pub(crate) fn forget_expired(&self, now: Millis) {
        let kept = self.expiring.lock();
        let over: Vec<QueryId> =
            kept.until.iter().take_while(|(until, _)| *until <= now).map(|(_, id)| *id).collect();
        drop(kept);
        for id in over {
            self.forget(&id);
        }
    }
}

/// A query that leaves its stream: events taken from `last_position` on are not matched for it any more.
struct DetachingQuery {
    number: QueryNumber,
    /// The offset of the first event that it does not see.
    last_position: u64,
    /// The operator that it is a member of.
    operator: Option<QueryNumber>,
    /// It is the last member of that.
    is_last: bool,
}

impl DetachingQuery {
    /// Takes a query out of the stream's index, and its operator too if it is the last member. None if it does not stand, or
    /// leaves already.
    fn start(stream: &Stream, number: QueryNumber, now: Millis) -> Option<DetachingQuery> {
        let _change = stream.change.lock();
        let shared = {
            let mut merge = stream.merge.lock();
            // A second caller finds that the query is being ended already.
            let running = merge.running.get_mut(&number).filter(|running| !running.is_leaving)?;
            running.is_leaving = true;
            let shared = running.operator();
            shared.and_then(|shared| Some((shared, merge.operators.get(&shared)?.is_last(number))))
        };
        // Without the lock, which every shard needs: nobody else joins or leaves meanwhile.
        let index = match shared {
            None => Some(stream.index().without(number)),
            Some((operator, true)) => Some(stream.index().without(operator)),
            Some((_, false)) => None,
        };
        let last_position = match shared {
            None => stream.turn(Turn::Leaves(now), index, None).0,
            Some(_) => stream.merge.lock().leave(stream, number, now, index)?,
        };
        stream.forget_replaced();
        let (operator, is_last) = shared.unzip();
        Some(DetachingQuery { number, last_position, operator, is_last: is_last.unwrap_or(false) })
    }

    /// Collects its groups from all shards: those of its own are returned, those of its operator handed to that.
    fn collect_groups(&self, stream: &Stream) -> Vec<Partial> {
        let mut groups = Vec::new();
        for shard in &stream.shards {
            let mut state = shard.lock();
            let Some(operator) = self.operator else {
                groups.extend(state.shard.remove(self.number));
                continue;
            };
            // The slices are stored before the shard is released: the next thread leaves after this.
            let slices = match self.is_last {
                true => state.shard.remove(operator),
                false => state.shard.flush_epochs(operator, self.last_position),
            };
            if let Some(operator) = stream.merge.lock().operators.get_mut(&operator) {
                operator.accept_slices(slices);
            }
        }
        groups
    }
}

/// Makes the last results of a query that ends at `now`, as far as its reader is to have them. Returns why it ends; after a panic
/// that is the fault.
fn last_results(
    running: &mut Running,
    operator: Option<&mut Operator>,
    reason: EndReason,
    now: Millis,
    context: &EmitContext<'_>,
    results: &mut Vec<ResultSet>,
) -> EndReason {
    let at = match reason {
        EndReason::Duration => running.handle.ends().unwrap_or(now),
        _ => now,
    };
    let mut reason = reason;
    if !matches!(reason, EndReason::Failed(_)) && !running.is_finished {
        if matches!(reason, EndReason::RateLimited(_)) {
            running.cut_off();
        }
        let finished = guarded("a final result could not be computed", || {
            running.finish(operator, at, context.now_micros, results);
        });
        reason = finished.err().unwrap_or(reason);
    }
    match &reason {
        EndReason::Failed(_) => results.clear(),
        EndReason::RateLimited(_) => {
            // Only the window that it was ended in is told; in Bullet with what is in it.
            let last = results.pop().map(|last| match running.handle.dialect {
                Dialect::Bullet => last,
                Dialect::Native => ResultSet { window: last.window, ..ResultSet::default() },
            });
            results.clear();
            results.extend(last);
        }
        _ => {}
    }
    reason
}

impl Merge {
    /// Removes a query that ends, and what is planned for it.
    fn remove_running(&mut self, number: QueryNumber) -> Option<Box<Running>> {
        let running = self.running.remove(&number)?;
        // A table keeps its size when queries leave: a crowd that is gone is not to be paid for.
        if self.running.len() * 4 < self.running.capacity() && self.running.capacity() > 256 {
            self.running.shrink_to(self.running.len() * 2);
        }
        if let Some(due) = running.due {
            self.agenda.remove(&(due, number));
        }
        self.lagging.remove(&number);
        Some(running)
    }
}
