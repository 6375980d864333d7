//! A standing query as it runs: its collector, its reader, what it has cost, and how its results become emits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{
    Dialect,
    plan::{Query, Window},
};
use swiftwater_live::{Collector, Partial, QueryNumber, QueryStep, ResultSet, ResultWindow, Slices};

use crate::{
    Counts, Emit, EmitMeta, EndReason, EngineConfig, Finished, QueryCost, QueryMeta, Records, StreamMeta,
    WindowMeta,
    mailbox::{Delivery, Mailbox},
    operator::{Operator, Tally},
    rate::EmitRate,
};

/// What everybody may know of a query without a lock.
#[derive(Debug)]
pub(crate) struct QueryHandle {
    pub(crate) number: QueryNumber,
    pub(crate) meta: Arc<QueryMeta>,
    pub(crate) stream: StreamName,
    pub(crate) dialect: &'static str,
    /// When its duration will be over.
    pub(crate) ends: Option<Millis>,
    pub(crate) is_detached: AtomicBool,
    pub(crate) mailbox: Mailbox,
}

/// What changes as it runs; its stream's merge lock guards it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) handle: Arc<QueryHandle>,
    pub(crate) collector: Collector,
    /// Its merged groups, where it shares them with nobody.
    pub(crate) slices: Slices,
    /// The operator whose groups it looks at, where others may too; what that has done for it, and its share of that
    /// one's bytes.
    pub(crate) operator: Option<QueryNumber>,
    pub(crate) shared: Tally,
    pub(crate) shared_bytes: u64,
    /// The first event that it sees.
    pub(crate) first_offset: u64,
    /// The position after the last event that it sees, once LIMIT is reached or its end has begun.
    pub(crate) last_position: Option<u64>,
    pub(crate) counts: Counts,
    pub(crate) cost: QueryCost,
    pub(crate) emits: u64,
    pub(crate) rate: EmitRate,
    /// The kind of the window of a last emit that nothing is left for; none where it needs none.
    pub(crate) last_window: Option<&'static str>,
    pub(crate) records: u64,
    /// Bytes that its groups hold on the shards.
    pub(crate) shard_bytes: i64,
    /// What was last added to the engine's total for it.
    pub(crate) accounted_bytes: u64,
    /// Its end was asked for, so that it is not asked for again.
    pub(crate) is_ending: bool,
    /// Records were lost to the bound on one batch's.
    pub(crate) is_cut: bool,
    /// It is being taken out of the stream.
    pub(crate) is_leaving: bool,
    /// Its last emit was made.
    pub(crate) is_finished: bool,
    /// Its place in the stream's agenda.
    pub(crate) due: Option<Millis>,
}

/// Numbers of the whole engine that queries add to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) submitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) records_out: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) records_dropped: AtomicU64,
    pub(crate) subscriber_bytes: AtomicU64,
    pub(crate) state_bytes: AtomicU64,
}

/// What is known where emits are made.
pub(crate) struct EmitContext<'e> {
    pub(crate) config: &'e EngineConfig,
    pub(crate) totals: &'e Totals,
    pub(crate) stream: StreamMeta,
    pub(crate) stream_exists: bool,
    pub(crate) now: Millis,
    pub(crate) now_micros: i64,
}

impl Running {
    /// A query that has done nothing yet.
    pub(crate) fn new(handle: Arc<QueryHandle>, collector: Collector, first_offset: u64) -> Running {
        Running {
            handle,
            collector,
            slices: Slices::default(),
            operator: None,
            shared: Tally::default(),
            shared_bytes: 0,
            first_offset,
            last_position: None,
            counts: Counts::default(),
            cost: QueryCost::default(),
            emits: 0,
            rate: EmitRate::default(),
            last_window: None,
            records: 0,
            shard_bytes: 0,
            accounted_bytes: 0,
            is_ending: false,
            is_leaving: false,
            is_cut: false,
            is_finished: false,
            due: None,
        }
    }

    /// Takes one shard's step on one batch, whose first event has the offset `first`.
    pub(crate) fn take_step(
        &mut self,
        step: QueryStep,
        first: u64,
        out: &mut Vec<ResultSet>,
        now_micros: i64,
    ) {
        self.cost.candidates += step.candidates;
        self.cost.residual_tests += step.residual_tests;
        self.cost.matches += step.matches;
        self.cost.cpu_nanos += step.nanos;
        self.counts.matched += step.matches;
        self.counts.mistyped += step.mistyped;
        self.counts.expression_errors += step.expression_errors;
        self.shard_bytes += step.grown_bytes;
        if let Some(rows) = &step.rows {
            self.is_cut |= rows.is_cut;
            let taken = self.collector.rows(rows, now_micros, out);
            if self.collector.is_done() {
                // What came after the last record that LIMIT asks for was not looked at, however batches were cut.
                self.counts.matched -= step.matches - rows.matched(taken);
                let last = taken.checked_sub(1).map_or(0, |last| u64::from(rows.rows[last]) + 1);
                self.last_position = Some(first + last);
            }
        }
        if !step.single_rows.is_empty() {
            self.collector.single_rows(step.single_rows, &mut self.slices, now_micros, out);
        }
        if let Some(timed) = step.timed {
            self.collector.timed(timed, &mut self.slices, now_micros, out);
        }
        self.counts.late = self.collector.late();
    }

    /// Takes slices that were held on a shard.
    pub(crate) fn take_slices(&mut self, partials: Vec<Partial>) {
        for partial in partials {
            self.shard_bytes -= partial.groups.bytes() as i64;
            self.collector.partial(partial, &mut self.slices);
        }
    }

    /// Closes the windows by arrival that are over; of its operator's groups, where there is one.
    pub(crate) fn close(
        &mut self,
        operator: Option<&mut Operator>,
        now: Millis,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut self.slices, |operator| &mut operator.slices);
        self.collector.close_by_arrival(now, slices, now_micros, out);
    }

    /// Makes the last results.
    pub(crate) fn finish(
        &mut self,
        operator: Option<&mut Operator>,
        now: Millis,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut self.slices, |operator| &mut operator.slices);
        self.collector.finish(now, slices, now_micros, out);
    }

    /// Gives results to the reader. With `finished`, the last of them (or an empty one) is the query's last emit.
    /// Answers why the query must be ended, if it must.
    pub(crate) fn give_out(
        &mut self,
        results: Vec<ResultSet>,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Option<EndReason> {
        let mut results = results;
        if finished.is_none()
            && !self.is_ending
            && let Some(too_often) = self.rate.check(context.now)
        {
            self.is_ending = true;
            return Some(EndReason::RateLimited(too_often));
        }
        if finished.is_some() && results.is_empty() {
            results.push(self.nothing(context.now));
        }
        self.rate.add(results.len() as u64);
        self.is_finished |= finished.is_some();
        let count = results.len();
        let mut must_end = None;
        for (place, result) in results.into_iter().enumerate() {
            let is_last = finished.is_some() && place + 1 == count;
            if !is_last && !self.rate.admits(context.now) {
                self.counts.expression_errors += result.expression_errors;
                self.handle.mailbox.count_dropped(result.count);
                context.totals.records_dropped.fetch_add(result.count, Ordering::Relaxed);
                continue;
            }
            let emit = self.emit(result, finished.clone().filter(|_| is_last), context);
            let size = emit.records.text.len();
            if size > context.config.emit_bytes_max && finished.is_none() {
                must_end = Some(EndReason::Failed(format!(
                    "one result has {size} bytes, limit is {} (`engine.emit_bytes_max`)",
                    context.config.emit_bytes_max
                )));
                break;
            }
            let totals = context.totals;
            match self.handle.mailbox.put(emit, context.config, &totals.subscriber_bytes) {
                Delivery::Queued { dropped } => {
                    totals.records_dropped.fetch_add(dropped, Ordering::Relaxed);
                }
                Delivery::CutOff => {
                    must_end = Some(EndReason::Failed(
                        "the reader is slower than the answers (`engine.slow_reader` is `cut_off`)"
                            .to_owned(),
                    ));
                    break;
                }
            }
        }
        must_end.filter(|_| !std::mem::replace(&mut self.is_ending, true))
    }

    /// A result without records. By Bullet's rules it has a window wherever the query has one.
    pub(crate) fn nothing(&self, now: Millis) -> ResultSet {
        let number = self.emits + 1;
        let window =
            self.last_window.map(|kind| ResultWindow { kind, number, records: 0, start: now, end: now });
        ResultSet { window, ..ResultSet::default() }
    }

    pub(crate) fn emit(
        &mut self,
        result: ResultSet,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Emit {
        self.emits += 1;
        self.records += result.count;
        self.counts.expression_errors += result.expression_errors;
        self.cost.bytes_out += result.text.len() as u64;
        context.totals.records_out.fetch_add(result.count, Ordering::Relaxed);
        context.totals.bytes_out.fetch_add(result.text.len() as u64, Ordering::Relaxed);
        let mut warnings = Vec::new();
        if !context.stream_exists {
            warnings.push(format!("stream `{}` has had no event yet", context.stream.name));
        }
        Emit {
            records: Records { text: result.text.into(), count: result.count },
            meta: EmitMeta {
                query: Arc::clone(&self.handle.meta),
                number: self.emits,
                finished: finished.map(|reason| Finished { at: context.now, reason }),
                window: result.window.map(|window| WindowMeta {
                    kind: window.kind,
                    number: window.number,
                    records: window.records,
                    start: window.start,
                    end: window.end,
                    emitted: context.now,
                }),
                stream: context.stream.clone(),
                counts: self.counts(context.stream.position),
                sketches: result.sketches,
                inner_sketches: result.inner_sketches,
                failure: result.failure,
                warnings,
            },
        }
    }

    /// What it has counted, when all before `position` were looked at.
    fn counts(&self, position: u64) -> Counts {
        Counts {
            seen: self.seen(position),
            matched: self.counts.matched + self.shared.matches,
            mistyped: self.counts.mistyped + self.shared.mistyped,
            expression_errors: self.counts.expression_errors + self.shared.expression_errors,
            late: self.counts.late + self.shared.late,
            ..self.counts
        }
    }

    /// What it has cost.
    pub(crate) fn cost(&self) -> QueryCost {
        QueryCost {
            candidates: self.cost.candidates + self.shared.candidates,
            residual_tests: self.cost.residual_tests + self.shared.residual_tests,
            matches: self.cost.matches + self.shared.matches,
            cpu_nanos: self.cost.cpu_nanos + self.shared.nanos,
            ..self.cost
        }
    }

    /// Events seen, when all before `position` were looked at.
    pub(crate) fn seen(&self, position: u64) -> u64 {
        self.last_position.unwrap_or(position).saturating_sub(self.first_offset)
    }

    /// Bytes of state held anywhere.
    pub(crate) fn state_bytes(&self) -> u64 {
        let merged = self.collector.bytes() + self.slices.bytes();
        merged as u64 + u64::try_from(self.shard_bytes).unwrap_or(0)
    }

    /// Brings the engine's total up to date; answers why the query must be ended, if it holds too much.
    pub(crate) fn account(&mut self, config: &EngineConfig, totals: &Totals) -> Option<EndReason> {
        let bytes = self.state_bytes();
        let before = std::mem::replace(&mut self.accounted_bytes, bytes);
        let total = totals.state_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        let total = total.wrapping_add(bytes).wrapping_sub(before);
        let reason = if self.is_cut {
            format!("the records of one batch pass {} bytes (`engine.emit_bytes_max`)", config.emit_bytes_max)
        } else if bytes > config.query_state_bytes_max as u64 {
            format!(
                "the query holds {bytes} bytes of groups and rows, limit is {} (`engine.query_state_bytes_max`)",
                config.query_state_bytes_max
            )
        } else if bytes > before && total > config.state_bytes_max as u64 {
            format!(
                "all queries hold {total} bytes of groups and rows, limit is {} (`engine.state_bytes_max`)",
                config.state_bytes_max
            )
        } else {
            return None;
        };
        if std::mem::replace(&mut self.is_ending, true) { None } else { Some(EndReason::Failed(reason)) }
    }

    /// When it is next to be looked at: a window closes, or its duration is over.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        [self.collector.due(), self.handle.ends, self.rate.due()].into_iter().flatten().min()
    }

    /// Takes its state out of the engine's total.
    pub(crate) fn forget(&mut self, totals: &Totals) {
        totals.state_bytes.fetch_sub(std::mem::take(&mut self.accounted_bytes), Ordering::Relaxed);
    }
}

/// The kind of the window that Bullet tells of a last emit, though nothing is left for it.
pub(crate) fn last_window(plan: &Query) -> Option<&'static str> {
    match plan.window {
        Window::None => None,
        _ if plan.dialect == Dialect::Native => None,
        Window::Records { .. } => Some("record"),
        _ => Some("tumbling"),
    }
}
