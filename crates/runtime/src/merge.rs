//! The outputs of a stream's shards meet here, in the order of its events: its running queries, and the operators that
//! they share. Behind one lock, [`Stream::merge`].
//!
//! With very many queries, a batch matches each of them about once, and the cost is memory that is far from the
//! processor. So shards and the merge prefetch it some queries ahead. For the same reason `COUNT(*)` without groups is
//! one number on each shard, and an emit waits for its reader in a small form
//! ([`subscriber_queue`](crate::subscriber_queue)).

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use swiftwater_event::Millis;
use swiftwater_live::{Fingerprint, FingerprintKey, QueryNumber, QueryStep, SliceBoundaries};

use crate::{EndReason, operator::Operator, query::active::Running, query::totals::Totals};

/// The merge of the outputs of all shards.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    pub(crate) running: HashMap<QueryNumber, Box<Running>>,
    /// The operators that queries share, by their numbers in the index.
    pub(crate) operators: HashMap<QueryNumber, Box<Operator>>,
    /// The operators of each meaning, those opened last at the end.
    pub(crate) by_meaning: HashMap<FingerprintKey, Vec<QueryNumber>>,
    /// The time of the next check of each query with a time window or a duration.
    pub(crate) agenda: BTreeSet<(Millis, QueryNumber)>,
    /// Queries of which windows that are over wait for their turn: each event closes one.
    pub(crate) lagging: BTreeSet<QueryNumber>,
    next_sequence: u64,
    /// Outputs whose predecessors are still being made.
    early: BTreeMap<u64, Output>,
    /// Every event before it was looked at, and its output delivered.
    pub(crate) position: u64,
}

/// The output of a shard for one batch.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) steps: Vec<QueryStep>,
    /// The offset of the batch's first event.
    pub(crate) first: u64,
    /// The offset after the batch.
    pub(crate) position: u64,
    /// Bytes that it takes up among those pending, until it is delivered.
    pub(crate) bytes: usize,
    /// The reason why the queries that were to see the batch must end, if it could not be matched.
    pub(crate) fault: Option<EndReason>,
}

/// The number of operators of one meaning that are tried for a query to join.
const OPERATORS_LOOKED_AT: usize = 8;

impl Merge {
    /// Takes an output; answers those that are now next in the order of the stream.
    pub(crate) fn deliver(&mut self, sequence: u64, output: Output) -> Vec<Output> {
        self.early.insert(sequence, output);
        let mut next = Vec::new();
        while let Some(output) = self.early.remove(&self.next_sequence) {
            self.next_sequence += 1;
            next.push(output);
        }
        next
    }

    /// Reads of some queries what a step of theirs will: of very many all is far from the processor, and what is asked for
    /// together comes together.
    pub(crate) fn touch(&self, numbers: &[QueryNumber]) {
        let mut sum = 0;
        for number in numbers {
            // Numbers of any size, of which no sum is wanted.
            sum ^= match self.operators.get(number) {
                Some(operator) => operator.touch(),
                None => self.running.get(number).map_or(0, |running| running.touch()),
            };
        }
        std::hint::black_box(sum);
    }

    /// Opens an operator, which those of its meaning join from now on.
    pub(crate) fn open(&mut self, number: QueryNumber, operator: Operator) {
        self.by_meaning.entry(operator.meaning.key()).or_default().push(number);
        self.operators.insert(number, Box::new(operator));
    }

    /// An operator that a query of this meaning and with these cuts may join, and where its aggregates are there.
    pub(crate) fn find_operator(
        &self,
        meaning: &Fingerprint,
        cuts: &SliceBoundaries,
    ) -> Option<(QueryNumber, Box<[usize]>)> {
        let latest = self.by_meaning.get(&meaning.key())?.iter().rev().take(OPERATORS_LOOKED_AT);
        latest.filter_map(|number| Some((*number, self.operators.get(number)?))).find_map(
            |(number, operator)| {
                let places = meaning.places_in(&operator.meaning)?;
                operator.has_room(cuts).then_some((number, places))
            },
        )
    }

    /// The windows of a query hold nothing any more of the events before this offset, which is that of the next to be
    /// taken. Nothing is taken meanwhile.
    pub(crate) fn restrict_from(&mut self, number: QueryNumber, offset: u64, now: Millis) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let operator = running.operator().and_then(|operator| self.operators.get_mut(&operator));
        let Some(operator) = operator.filter(|operator| !operator.passes_on) else { return };
        let (_, cuts) = operator.plan.at(offset);
        operator.plan.begin(offset, SliceBoundaries::clone(&cuts), self.position);
        operator.restrict_from(number, offset, now);
        running.work().collector.restrict_epochs(offset..u64::MAX);
    }

    /// Forgets a member that has left, and an operator without any.
    pub(crate) fn forget_member(&mut self, shared: QueryNumber, number: QueryNumber, totals: &Totals) {
        let Some(operator) = self.operators.get_mut(&shared) else { return };
        if operator.forget_member(number) {
            self.drop_slices(shared, 1);
        } else if let Some(mut operator) = self.operators.remove(&shared) {
            operator.forget(totals);
        }
    }

    /// The arrival at which an idle stream closes something of these queries; `None` if nothing is open.
    pub(crate) fn idle_due(&self, numbers: impl Iterator<Item = QueryNumber>) -> Option<Millis> {
        let of_running = |number: QueryNumber| self.running.get(&number)?.idle_due();
        let due = |number: QueryNumber| match self.operators.get(&number) {
            Some(operator) if operator.passes_on => operator.members().filter_map(of_running).min(),
            Some(operator) => operator.lines.idle_due(&operator.slices),
            None => of_running(number),
        };
        numbers.filter_map(due).min()
    }

    /// True if the outputs of all batches before this sequence number were delivered.
    pub(crate) fn has_delivered(&self, sequence: u64) -> bool {
        self.next_sequence >= sequence
    }

    /// Updates a query's counts with the work that its operator did for it.
    pub(crate) fn update_counts(&mut self, number: QueryNumber) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let Some(operator) = running.operator().and_then(|operator| self.operators.get(&operator)) else {
            return;
        };
        let work = running.work();
        work.shared = operator.tally_of(number);
        work.shared_bytes = operator.bytes_share();
    }

    /// Drops the slices that no member of an operator needs any more, now that so many of their windows have closed.
    pub(crate) fn drop_slices(&mut self, operator: QueryNumber, closed: usize) {
        let Some(operator) = self.operators.get_mut(&operator) else { return };
        if !operator.has_closed(closed) {
            return;
        }
        let members = operator.members().filter_map(|member| self.running.get(&member));
        if let Some(from) = members.map(|running| running.needs_from()).min() {
            operator.drop_before(from);
        }
    }

    /// Takes out what waits for its predecessors of one query, in order, with its batch's first offset.
    pub(crate) fn drain_early(&mut self, number: QueryNumber) -> Vec<(u64, QueryStep)> {
        let mut own = Vec::new();
        for output in self.early.values_mut() {
            let first = output.first;
            own.extend(output.steps.extract_if(.., |step| step.number == number).map(|step| (first, step)));
        }
        own
    }
}
