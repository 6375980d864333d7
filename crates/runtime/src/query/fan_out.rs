//! Fans out the output of a shared operator for a batch to its members.

use std::collections::{BTreeMap, BTreeSet};

use swiftwater_event::Millis;
use swiftwater_live::{EventTimeFold, QueryNumber, QueryStep, ResultSet};

use crate::{
    EndReason,
    lines::By,
    merge::Merge,
    panic_guard::guarded,
    query::active::{EmitContext, Running},
    shared::Shared,
};

impl Shared {
    /// Passes one shard's step on one batch, whose first event has the offset `first`, to an operator, and the results
    /// to its members. Returns true if the agenda has changed.
    pub(crate) fn accept_shared_step(
        &self,
        merge: &mut Merge,
        mut step: QueryStep,
        first: u64,
        context: &EmitContext<'_>,
    ) -> bool {
        let number = step.number;
        let mut is_due_changed = false;
        let taken = guarded("matches could not be processed", || {
            if let Some(failure) = &step.failure {
                return Some(EndReason::Failed(failure.to_string()));
            }
            let operator = merge.operators.get_mut(&number)?;
            operator.accept_step(&step, first);
            if operator.passes_on {
                is_due_changed = self.pass_on(merge, &step, first, context);
            } else if let Some(timed) = step.timed.take() {
                is_due_changed = self.accept_timed(merge, number, *timed, first, context);
            } else {
                // As most of very many do: what there is to do with it is done.
                return operator.account(&self.config, &self.totals).map(EndReason::Failed);
            }
            let operator = merge.operators.get_mut(&number)?;
            operator.account(&self.config, &self.totals).map(EndReason::Failed)
        });
        let Some(reason) = taken.unwrap_or_else(Some) else { return is_due_changed };
        let Some(operator) = merge.operators.get(&number) else { return is_due_changed };
        for member in operator.members() {
            let Some(running) = merge.running.get_mut(&member) else { continue };
            if !std::mem::replace(&mut running.is_ending, true) {
                self.ask_to_end(running.handle.meta.id, reason.clone());
            }
        }
        is_due_changed
    }

    /// Passes the matched events of a batch to each member: it sees those after it has joined, as if it were alone.
    fn pass_on(&self, merge: &mut Merge, step: &QueryStep, first: u64, context: &EmitContext<'_>) -> bool {
        let Some(operator) = merge.operators.get(&step.number) else { return false };
        let mut is_due_changed = false;
        for member in operator.members_at(first) {
            let Some(running) = merge.running.get_mut(&member).filter(|running| !running.is_ending) else {
                continue;
            };
            // Slices are none of it: of time, only how far it has come.
            let timed = step.timed.as_ref().map(|timed| EventTimeFold { generations: Vec::new(), ..**timed });
            let mut results = Vec::new();
            if let Some(until) = timed.as_ref().and_then(|timed| timed.idle_until) {
                running.advance_idle(until, &mut results, context.now_micros);
            }
            running.accept_in_order(step.single_rows.clone(), timed, &mut results, context.now_micros);
            is_due_changed |= self.emit_to_member(merge, member, results, context);
        }
        is_due_changed
    }

    /// Emits a member's results; returns true if the agenda has changed.
    fn emit_to_member(
        &self,
        merge: &mut Merge,
        member: QueryNumber,
        mut results: Vec<ResultSet>,
        context: &EmitContext<'_>,
    ) -> bool {
        if !results.is_empty() {
            merge.update_counts(member);
        }
        let Some(running) = merge.running.get_mut(&member) else { return false };
        let reason =
            if results.is_empty() { None } else { running.emit_results(&mut results, None, context) };
        if let Some(reason) = reason.or_else(|| running.account(&self.config, &self.totals)) {
            self.ask_to_end(running.handle.meta.id, reason);
        }
        merge.set_due_sooner(member)
    }

    /// The outcome of a batch by event time: slices, and between them the closing of windows.
    fn accept_timed(
        &self,
        merge: &mut Merge,
        number: QueryNumber,
        timed: EventTimeFold,
        first: u64,
        context: &EmitContext<'_>,
    ) -> bool {
        let mut results: BTreeMap<QueryNumber, Vec<ResultSet>> = BTreeMap::new();
        if let Some(until) = timed.idle_until {
            merge.close_by_event(number, By::Idle(until), first, context, &mut results);
        }
        for generation in timed.generations {
            merge.close_by_event(number, By::Event(generation.peak), first, context, &mut results);
            let Some(operator) = merge.operators.get_mut(&number) else { return false };
            for (partial, events) in generation.partials {
                if operator.lines.admit(partial.start, events, first) {
                    operator.slices.add(partial);
                }
            }
        }
        merge.close_by_event(number, By::Event(timed.latest), first, context, &mut results);
        if results.is_empty() {
            return false;
        }
        let mut is_due_changed = false;
        merge.drop_slices(number, results.len());
        for (member, results) in results {
            is_due_changed |= self.emit_to_member(merge, member, results, context);
        }
        is_due_changed
    }
}

impl Merge {
    /// Closes the windows of an operator's members that end at the new event time.
    fn close_by_event(
        &mut self,
        number: QueryNumber,
        by: By,
        first: u64,
        context: &EmitContext<'_>,
        results: &mut BTreeMap<QueryNumber, Vec<ResultSet>>,
    ) {
        let Some(operator) = self.operators.get_mut(&number) else { return };
        let is_shared = operator.is_shared();
        for (member, latest) in operator.lines.advance(by, first) {
            let standing = |running: &&mut Box<Running>| !running.is_ending;
            let Some(running) = self.running.get_mut(&member).filter(standing) else { continue };
            let collector = &mut running.work().collector;
            collector.share(is_shared);
            let out = results.entry(member).or_default();
            collector.advance(latest, &mut operator.slices, context.now_micros, out);
        }
    }

    /// Moves a query on the agenda to an earlier time; returns true if it is earlier. A later time is found out at the
    /// query's check.
    pub(crate) fn set_due_sooner(&mut self, number: QueryNumber) -> bool {
        let Some(running) = self.running.get_mut(&number) else { return false };
        set_due_sooner(&mut self.agenda, running)
    }
}

/// Does the same as [`Merge::set_due_sooner`] for a given query.
pub(crate) fn set_due_sooner(agenda: &mut BTreeSet<(Millis, QueryNumber)>, running: &mut Running) -> bool {
    let Some(next) = running.next_due() else { return false };
    if running.due.is_some_and(|due| due <= next) {
        return false;
    }
    let number = running.handle.number;
    if let Some(due) = running.due.replace(next) {
        agenda.remove(&(due, number));
    }
    agenda.insert((next, number));
    true
}
