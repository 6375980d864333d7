//! A shard's loop: takes a batch, processes it, and passes its output on in stream order.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_live::{QueryNumber, QueryStep, ResultSet, SourcePosition, StepInput, StepNanos};

#[cfg(test)]
use crate::threads::LoopState;
use crate::{
    EndReason, LATENCY_BOUNDS_MICROS,
    merge::{Merge, Output},
    panic_guard::guarded,
    query::active::{EmitContext, Running},
    query::fan_out::set_due_sooner,
    shared::Shared,
    stream::{NextWork, ShardState, Stream, Work},
    threads::ThreadLoop,
};

/// The number of queries whose memory is prefetched before the first of them processes its step.
const AHEAD: usize = 16;

/// The loop of a shard.
pub(crate) struct ShardLoop {
    shared: Arc<Shared>,
    number: usize,
    #[cfg(test)]
    next: Option<NextStep>,
}

/// The step of a shard that follows the removal of a stream from the run queue. In [`ShardLoop::run`] they are one.
#[cfg(test)]
enum NextStep {
    /// Windows are to be closed at this time, before the shard takes a batch.
    Close(Arc<Stream>, i64),
    /// A batch is to be matched and delivered.
    Match(Arc<Stream>, Box<Work>),
    /// Windows are to be closed by the event that was matched; its pending bytes.
    CloseByEvent(Arc<Stream>, usize),
}

impl ShardLoop {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> ShardLoop {
        ShardLoop {
            shared,
            number,
            #[cfg(test)]
            next: None,
        }
    }
}

impl ThreadLoop for ShardLoop {
    fn name(&self) -> String {
        format!("shard-{}", self.number)
    }

    fn run(&mut self) {
        self.shared.run_shard(self.number);
    }

    #[cfg(test)]
    fn step(&mut self) -> bool {
        let shared = &self.shared;
        let Some(next) = self.next.take() else {
            let Some(stream) = shared.line.try_pop() else { return false };
            self.next = match stream.next_work(shared.config.batch_bytes_max) {
                NextWork::Nothing => None,
                NextWork::Due(at) => Some(NextStep::Close(stream, at)),
                NextWork::Work(work) => {
                    if work.more {
                        shared.line.push(Arc::clone(&stream));
                    }
                    Some(NextStep::Match(stream, work))
                }
            };
            return true;
        };
        match next {
            NextStep::Close(stream, at) => {
                shared.close_by_event(&stream);
                shared.tick_stream(&stream, at);
                shared.line.push(stream);
            }
            NextStep::Match(stream, work) => {
                let bytes = {
                    let mut state = stream.shards[self.number].lock();
                    shared.match_batch(&stream, self.number, &mut state, &work)
                };
                match work.closes {
                    true => self.next = Some(NextStep::CloseByEvent(stream, bytes)),
                    false => shared.pending.leave(bytes),
                }
            }
            NextStep::CloseByEvent(stream, bytes) => {
                shared.close_by_event(&stream);
                shared.pending.leave(bytes);
            }
        }
        true
    }

    #[cfg(test)]
    fn state(&self) -> LoopState {
        match self.next {
            None => LoopState::Free,
            Some(NextStep::Match(..)) => LoopState::HasBatch,
            Some(NextStep::Close(..) | NextStep::CloseByEvent(..)) => LoopState::NeedsShards,
        }
    }
}

impl Shared {
    /// A shard's life: looks at batches until the line is closed and empty.
    pub(crate) fn run_shard(&self, number: usize) {
        self.counters[number].started_nanos.store(self.clock.monotonic_nanos(), Ordering::Relaxed);
        while let Some(stream) = self.line.pop() {
            let taken = {
                let mut state = stream.shards[number].lock();
                match stream.next_work(self.config.batch_bytes_max) {
                    NextWork::Nothing => continue,
                    NextWork::Due(at) => Err(at),
                    NextWork::Work(work) => {
                        if work.more {
                            self.line.push(Arc::clone(&stream));
                        }
                        Ok((self.match_batch(&stream, number, &mut state, &work), work.closes))
                    }
                }
            };
            match taken {
                Ok((bytes, closes)) => {
                    if closes {
                        self.close_by_event(&stream);
                    }
                    self.pending.leave(bytes);
                }
                Err(at) => {
                    self.close_by_event(&stream);
                    self.tick_stream(&stream, at);
                    self.line.push(stream);
                }
            }
        }
    }

    /// Returns the number of pending bytes that are delivered with it: a batch that others must precede is pending
    /// until then, so that no source gets far ahead of a slow shard.
    fn match_batch(&self, stream: &Stream, number: usize, state: &mut ShardState, work: &Work) -> usize {
        let clock = &self.clock;
        let nanos = || clock.monotonic_nanos();
        let mut spent = StepNanos::default();
        let mut now_micros = work.batch.meta().read_micros;
        let looked = guarded("a batch could not be processed", || {
            now_micros = clock.now_micros();
            if !work.index.is_empty() {
                let input = StepInput {
                    batch: &work.batch,
                    arrivals: &work.arrivals,
                    before: work.before,
                    place: SourcePosition::Number(work.batch.meta().first.0),
                    now_micros,
                    record_bytes_max: self.config.emit_bytes_max,
                    nanos: &nanos,
                };
                spent = state.shard.step(&work.index, &input, &mut state.steps);
            }
        });
        if looked.is_err() {
            state.shard.recover();
            state.steps.clear();
        }
        let start = nanos();
        let waited = u64::try_from(now_micros - work.batch.meta().read_micros).unwrap_or(0);
        // An idle tick does not count.
        let is_events = u64::from(work.events > 0);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|&bound| bound < waited);
        self.read_to_match[bucket].fetch_add(is_events, Ordering::Relaxed);
        self.read_to_match_micros.fetch_add(waited * is_events, Ordering::Relaxed);
        let output = Output {
            steps: std::mem::take(&mut state.steps),
            first: work.batch.meta().first.0,
            position: work.position(),
            bytes: work.bytes,
            fault: looked.err(),
        };
        let delivered = self.deliver(stream, work.sequence, output);
        let counters = &self.counters[number];
        counters.batches.fetch_add(is_events, Ordering::Relaxed);
        counters.events.fetch_add(work.events, Ordering::Relaxed);
        let deliver = nanos() - start;
        for (counter, nanos) in
            counters.busy_nanos.iter().zip([spent.decode, spent.matching, spent.operate, deliver])
        {
            counter.fetch_add(nanos, Ordering::Relaxed);
        }
        delivered
    }

    /// Passes events that no query reads, in the order of the stream.
    pub(crate) fn pass_over(&self, stream: &Stream, work: &Work) {
        let output = Output {
            steps: Vec::new(),
            first: work.batch.meta().first.0,
            position: work.position(),
            bytes: work.bytes,
            fault: None,
        };
        let delivered = self.deliver(stream, work.sequence, output);
        self.pending.leave(delivered);
    }

    /// Delivers a shard's output, in the order of the stream. Returns the pending bytes of all delivered outputs.
    fn deliver(&self, stream: &Stream, sequence: u64, output: Output) -> usize {
        let mut merge = stream.merge.lock();
        let merge = &mut *merge;
        let mut delivered = 0;
        for mut output in merge.deliver(sequence, output) {
            delivered += output.bytes;
            merge.position = output.position;
            let first = output.first;
            let fault = output.fault.take().or_else(|| {
                guarded("results could not be delivered", || self.deliver_output(stream, merge, output)).err()
            });
            if let Some(fault) = fault {
                self.fail_from(merge, first, &fault);
            }
        }
        stream.delivered.notify_all();
        delivered
    }

    /// Delivers the output of one batch to operators, and to the queries without one.
    fn deliver_output(&self, stream: &Stream, merge: &mut Merge, output: Output) {
        if output.steps.is_empty() {
            return;
        }
        let context = self.context(stream, merge.position);
        let mut is_due_changed = false;
        let mut results = Vec::new();
        let mut asked_for = 0;
        let numbers: Vec<QueryNumber> = output.steps.iter().map(|step| step.number).collect();
        for (place, step) in output.steps.into_iter().enumerate() {
            if place == asked_for {
                asked_for = numbers.len().min(place + AHEAD);
                merge.touch(&numbers[place..asked_for]);
            }
            let number = step.number;
            if merge.operators.contains_key(&number) {
                is_due_changed |= self.accept_shared_step(merge, step, output.first, &context);
                continue;
            }
            let Some(running) = merge.running.get_mut(&number) else { continue };
            if running.is_ending {
                continue;
            }
            let taken = guarded("matches could not be processed", || {
                self.accept_step(running, step, output.first, &mut results, &context)
            });
            let ending = taken.unwrap_or_else(|fault| {
                running.is_ending = true;
                Some(fault)
            });
            if let Some(reason) = ending {
                running.is_ending = true;
                self.ask_to_end(running.handle.meta.id, reason);
            } else {
                // A session may have begun that ends before anything that was due.
                is_due_changed |= set_due_sooner(&mut merge.agenda, running);
            }
        }
        if is_due_changed {
            stream.set_next_due(merge);
        }
    }

    /// Ends all queries that were to see the events from `first` on: nobody knows what they missed.
    pub(crate) fn fail_from(&self, merge: &mut Merge, first: u64, fault: &EndReason) {
        let concerned = merge.running.values_mut().filter(|running| running.first_offset <= first);
        for running in concerned.filter(|running| !running.is_ending) {
            running.is_ending = true;
            self.ask_to_end(running.handle.meta.id, fault.clone());
        }
    }

    /// Passes one step of a shard to a query, and the results to its reader. Returns the reason why the query
    /// must end, if it must.
    pub(crate) fn accept_step(
        &self,
        running: &mut Running,
        step: QueryStep,
        first: u64,
        results: &mut Vec<ResultSet>,
        context: &EmitContext<'_>,
    ) -> Option<EndReason> {
        results.clear();
        if let Some(failure) = &step.failure {
            return Some(EndReason::Failed(failure.to_string()));
        }
        running.count_parts(&step, context);
        running.accept_step(step, first, results, context.now_micros);
        if running.work().collector.is_done() {
            running.is_ending = true;
            self.finish_at_limit(running, results, context);
            return Some(EndReason::Limit);
        }
        let ending = if results.is_empty() { None } else { running.emit_results(results, None, context) };
        ending.or_else(|| running.account(&self.config, &self.totals))
    }

    /// The last emit of a query that has all it asked for: at once, whatever the ticker is doing.
    pub(crate) fn finish_at_limit(
        &self,
        running: &mut Running,
        results: &mut Vec<ResultSet>,
        context: &EmitContext<'_>,
    ) {
        running.finish(None, context.now, context.now_micros, results);
        running.emit_results(results, Some(EndReason::Limit), context);
    }
}
