//! Applies the steps of a query: what a shard matched in a batch, slices, the passing of time, the end.
//!
//! Each appends the results that it makes to `out`; [`super::emits`] turns them into emits.

use swiftwater_event::Millis;
use swiftwater_live::{EventTimeFold, Partial, QueryStep, ResultSet, SingleRow};

use super::Running;
use crate::operator::Operator;

impl Running {
    /// Takes one shard's step on one batch, whose first event has the offset `first`.
    pub(crate) fn accept_step(
        &mut self,
        mut step: QueryStep,
        first: u64,
        out: &mut Vec<ResultSet>,
        now_micros: i64,
    ) {
        let work = self.work();
        work.cost.candidates += step.candidates;
        work.cost.residual_tests += step.residual_tests;
        work.cost.matches += step.matches;
        work.cost.cpu_nanos += step.nanos;
        work.counts.matched += step.matches;
        work.counts.mistyped += step.mistyped;
        work.counts.ahead += step.ahead;
        work.counts.expression_errors += step.expression_errors;
        work.shard_bytes += step.grown_bytes;
        if let Some(until) = step.timed.as_ref().and_then(|timed| timed.idle_until) {
            work.collector.advance_idle(until, &mut work.slices, now_micros, out);
            if work.collector.is_done() {
                work.last_position = Some(first);
            }
        }
        let mut done_at = None;
        let mut is_cut = false;
        if let Some(rows) = &mut step.rows {
            is_cut = rows.is_cut;
            let taken = work.collector.rows(rows, now_micros, out);
            if work.collector.is_done() {
                // Events after the last record that LIMIT asks for do not count, independently of the cut of batches.
                work.counts.matched -= step.matches - rows.matched(taken);
                let last = taken.checked_sub(1).map_or(0, |last| u64::from(rows.rows[last]) + 1);
                done_at = Some(first + last);
            }
        }
        work.last_position = done_at.or(work.last_position);
        if let Some(chunk) = step.pattern.take() {
            let rows: Vec<u32> = chunk.events.iter().map(|event| event.row).collect();
            let taken = work.collector.pattern_events(*chunk, &mut work.slices, now_micros, out);
            if work.collector.is_done() {
                work.counts.matched -= (rows.len() - taken) as u64;
                let last = taken.checked_sub(1).map_or(0, |last| u64::from(rows[last]) + 1);
                work.last_position = Some(first + last);
            }
        }
        let is_in_order = !step.single_rows.is_empty() || step.timed.is_some();
        work.counts.late = work.collector.late();
        self.is_cut |= is_cut;
        if is_in_order {
            self.accept_in_order(step.single_rows, step.timed.map(|timed| *timed), out, now_micros);
        }
        self.count_pattern_faults();
    }

    /// Takes the matched events of a batch one by one, and what it brings by the events' own time.
    pub(crate) fn accept_in_order(
        &mut self,
        single_rows: Vec<SingleRow>,
        timed: Option<EventTimeFold>,
        out: &mut Vec<ResultSet>,
        now_micros: i64,
    ) {
        let work = self.work();
        if !single_rows.is_empty() {
            work.collector.single_rows(single_rows, &mut work.slices, now_micros, out);
        }
        if let Some(timed) = timed {
            work.collector.timed(timed, &mut work.slices, now_micros, out);
        }
        work.counts.late = work.collector.late();
    }

    /// Takes slices that were held on a shard.
    pub(crate) fn accept_slices(&mut self, partials: Vec<Partial>) {
        for partial in partials {
            let work = self.work();
            work.shard_bytes -= partial.groups.bytes() as i64;
            work.collector.partial(partial, &mut work.slices);
        }
    }

    /// Advances event time, as the stream was idle until then.
    pub(crate) fn advance_idle(&mut self, until: Millis, out: &mut Vec<ResultSet>, now_micros: i64) {
        let work = self.work();
        work.collector.advance_idle(until, &mut work.slices, now_micros, out);
    }

    /// Closes the windows by arrival that are over at `now`, or the one that the last event closes; of its operator's
    /// groups, where there is one.
    pub(crate) fn close(
        &mut self,
        operator: Option<&mut Operator>,
        now: Option<Millis>,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let work = self.work();
        let operator = operator.filter(|operator| !operator.passes_on);
        work.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut work.slices, |operator| &mut operator.slices);
        let parts = work.collector.parts();
        match now {
            Some(now) => work.collector.close_by_arrival(now, slices, now_micros, out),
            None => work.collector.close_by_event(slices, now_micros, out),
        }
        let parts = work.collector.parts() - parts;
        if let Some(rate) = &mut work.rate {
            rate.add_parts(parts);
        }
        self.count_pattern_faults();
    }

    /// Its last result is to hold only what matching had handed on by the last look at the clock.
    pub(crate) fn cut_off(&mut self) {
        self.work().collector.cut_off();
    }

    /// Makes the last results.
    pub(crate) fn finish(
        &mut self,
        operator: Option<&mut Operator>,
        now: Millis,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let work = self.work();
        let operator = operator.filter(|operator| !operator.passes_on);
        work.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut work.slices, |operator| &mut operator.slices);
        work.collector.finish(now, slices, now_micros, out);
        self.count_pattern_faults();
    }

    /// Counts what making the matches of a pattern could not do or use.
    fn count_pattern_faults(&mut self) {
        let work = self.work();
        let faults = work.collector.drain_pattern_faults();
        work.counts.mistyped += faults.mistyped;
        work.counts.expression_errors += faults.expression_errors;
    }
}
