//! A partition that a worker reads: its operators' records and slices that are not sent yet, and the events that are kept for queries
//! of which the worker learns late.
//!
//! A slice of a query is made of pieces: events between two cuts of all queries of its operator. A query that joins when events that it
//! should see have been matched already sees none of the pieces that there are then: for these its kept events are matched anew (a
//! *round*, for all queries that join at once), and its slices that begin before it joined are made of both.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque, btree_map::Entry},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use swiftwater_event::Millis;
use swiftwater_live::{
    CutCounts, Groups, Index, Partial, QueryStep, RowChunk, Shard, SlicePlan, Slices, SourcePosition,
    StepInput,
};

use crate::{
    Counts, DistributedQuery, NodeName, Output, QueryNumber, Slice,
    operator::{ClassNumber, Operator, OperatorNumber},
    worker::{Batch, Place, WorkerLimits},
};

/// Partitions' operators have numbers below this, and rounds have theirs from it on.
const ROUND: OperatorNumber = 1 << 63;

/// The distance of the offsets that are kept for a successor.
const PLACE_MS: Millis = 250;

/// A partition that a worker reads.
pub(crate) struct Partition {
    shard: Shard,
    pub(crate) next: u64,
    /// All events before this time are in; the least of all times before the first event.
    pub(crate) time: Millis,
    /// Events are seen from this time on.
    pub(crate) from: Millis,
    /// As of [`Place`].
    done: (u64, Millis),
    kept: VecDeque<Batch>,
    pub(crate) kept_bytes: usize,
    /// All events from this time on are kept.
    pub(crate) kept_from: Millis,
    work: BTreeMap<OperatorNumber, Work>,
    /// Operators with something to send.
    ready: BTreeSet<OperatorNumber>,
    /// The first ends of slices of operators that have begun any.
    due: BTreeSet<(Millis, OperatorNumber)>,
    /// Queries for which events are missing, of which no mark has told.
    pub(crate) late: BTreeMap<NodeName, Vec<(QueryNumber, Millis)>>,
    /// Offsets of earlier times, for a successor.
    places: VecDeque<(Millis, u64)>,
    /// All events from this time on are behind the first of them.
    places_from: Millis,
    /// The mark that was sent last.
    pub(crate) marked: Option<(u64, Millis, QueryNumber)>,
}

/// Counts of operators with windows are sent once in so many milliseconds: they go to each of many queries.
const COUNTS_MS: Millis = 1_000;

/// Queries that are over after so many records get as many again after so many milliseconds, if they still stand: their node may have
/// begun to serve them later than this one sent the first.
const MORE_MS: Millis = 1_000;

/// The records of an operator whose queries need no more than so many each.
#[derive(Default)]
struct Needed {
    /// Records so far.
    records: u64,
    /// The number that is enough for all queries that have begun.
    enough: u64,
    /// The time at which there were enough.
    since: Option<Millis>,
    /// The queries that begin later.
    to_begin: BTreeSet<(Millis, QueryNumber)>,
}

/// An operator's results that are not sent yet.
#[derive(Default)]
struct Work {
    parts: Vec<Part>,
    /// None where it was not looked at yet.
    needed: Option<Needed>,
    /// The time at which counts were sent last.
    counts_sent: Option<Millis>,
    slices: BTreeMap<(Millis, Millis), ReadySlice>,
    /// Pieces of slices that are not over, each of the round in which its events came.
    pieces: Slices,
    /// The time up to which slices were made; none while nothing has come.
    made: Option<Millis>,
    /// The first end of a slice that has begun.
    due: Option<Millis>,
    /// The classes whose slices are not wholly in the pieces, and the last time at which such a slice may begin.
    joined: HashMap<ClassNumber, Millis>,
    /// The queries that need a round.
    early: BTreeMap<QueryNumber, Early>,
    /// The ends of their next slices.
    early_due: BTreeSet<(Millis, QueryNumber)>,
    rounds: BTreeMap<u64, Round>,
}

/// Records and counts of some queries.
#[derive(Default)]
struct Part {
    /// They are for queries from this one on, and below the other; none: all that are known when they are sent.
    from: QueryNumber,
    below: Option<QueryNumber>,
    counts: Counts,
    rows: Vec<(u64, RowChunk)>,
}

struct ReadySlice {
    /// Parts of the groups.
    groups: Vec<Bytes>,
    servers: BTreeSet<NodeName>,
}

/// A query that joined when events that it should see had come.
struct Early {
    query: DistributedQuery,
    server: NodeName,
    /// Its slices that begin at this time or before need the round.
    until: Millis,
    round: u64,
    /// The start of its first slice that was not made.
    next: Millis,
}

/// Events that queries had missed when they joined.
struct Round {
    pieces: Slices,
    /// The queries that need it.
    queries: usize,
}

/// The queries of an operator that have joined since the last look.
pub(crate) struct Joining<'j> {
    pub(crate) number: OperatorNumber,
    pub(crate) operator: &'j Operator,
    /// They, with the nodes that serve them, by ascending numbers.
    pub(crate) queries: Vec<(&'j DistributedQuery, &'j NodeName)>,
    /// The operator had none before.
    pub(crate) is_new: bool,
    /// The number of this look.
    pub(crate) round: u64,
}

impl Partition {
    pub(crate) fn new(place: Place) -> Partition {
        let Place { offset: next, from, time, done } = place;
        Partition {
            shard: Shard::default(),
            next,
            time,
            from,
            done,
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_from: from,
            work: BTreeMap::new(),
            ready: BTreeSet::new(),
            due: BTreeSet::new(),
            late: BTreeMap::new(),
            places: VecDeque::new(),
            places_from: from,
            marked: None,
        }
    }

    pub(crate) fn take(
        &mut self,
        mut batch: Batch,
        index: &Index,
        operators: &BTreeMap<OperatorNumber, Operator>,
        limits: &WorkerLimits,
        now_micros: i64,
    ) {
        if batch.next <= self.next && batch.offsets.iter().all(|offset| *offset < self.next) {
            return;
        }
        // Time never goes back: an event whose message says an earlier time counts at the latest so far.
        for (time, offset) in batch.times.iter_mut().zip(&batch.offsets) {
            self.advance_to(*offset);
            self.time = self.time.max(*time);
            *time = self.time;
        }
        if let (Some(time), Some(offset)) = (batch.times.first(), batch.offsets.first())
            && self.places.back().is_none_or(|(last, _)| *time >= last + PLACE_MS)
        {
            self.places.push_back((*time, *offset));
            let horizon = self.time.saturating_sub_unsigned(limits.resume_ms_max);
            // The last one before the horizon stays.
            while let Some((time, _)) = self.places.get(1).copied().filter(|(time, _)| *time <= horizon) {
                self.places.pop_front();
                self.places_from = time.saturating_add(1);
            }
        }
        self.next = self.next.max(batch.next);
        self.advance_to(self.next);
        if batch.events.is_empty() {
            return;
        }
        for step in self.step(index, &batch, limits, now_micros) {
            if let Some(operator) = operators.get(&step.number) {
                self.accept(operator, step, &batch, None);
            }
        }
        self.keep(batch, limits);
    }

    /// All before this offset was read: time is at least that of a worker before.
    pub(crate) fn advance_to(&mut self, offset: u64) {
        if offset >= self.done.0 {
            self.time = self.time.max(self.done.1);
        }
    }

    /// Matches events, and returns the steps of the operators.
    fn step(
        &mut self,
        index: &Index,
        batch: &Batch,
        limits: &WorkerLimits,
        now_micros: i64,
    ) -> Vec<QueryStep> {
        if index.is_empty() {
            return Vec::new();
        }
        let mut meta = *batch.events.meta();
        meta.arrival = batch.times.last().copied().unwrap_or(self.time);
        let events = batch.events.clone().with_meta(meta);
        let input = StepInput {
            batch: &events,
            arrivals: &batch.times,
            before: None,
            place: SourcePosition::Number(batch.offsets.first().copied().unwrap_or(0)),
            now_micros,
            record_bytes_max: limits.record_bytes_max,
            nanos: &|| 0,
        };
        let mut steps = Vec::new();
        self.shard.step(index, &input, &mut steps);
        steps
    }

    /// Takes the step of an operator on a batch: for all its queries, or for those from one number on and below another.
    fn accept(
        &mut self,
        operator: &Operator,
        step: QueryStep,
        batch: &Batch,
        only: Option<(QueryNumber, QueryNumber)>,
    ) {
        let number = step.number & !ROUND;
        let work = self.work.entry(number).or_default();
        let part = work.part(only);
        let chunk = step.rows.filter(|chunk| !chunk.is_empty());
        part.counts.add(Counts {
            candidates: step.candidates,
            residual_tests: step.residual_tests,
            // Records tell which of them a query saw.
            matches: if operator.has_groups { step.matches } else { 0 },
            mistyped: step.mistyped,
            expression_errors: step.expression_errors,
        });
        if operator.has_groups {
            if let Some(first) = batch.times.first().filter(|_| step.number == number && work.made.is_none())
            {
                work.made = Some(*first);
                work.set_due(number, operator.cuts.end_of(*first), &mut self.due);
            }
            if work.counts_sent.is_none_or(|sent| self.time >= sent.saturating_add(COUNTS_MS)) {
                self.ready.insert(number);
            }
            return;
        }
        self.ready.insert(number);
        let Some(chunk) = chunk else { return };
        let begun = chunk.arrivals.partition_point(|time| *time < operator.first_begin());
        let mut chunk = chunk.range(begun..chunk.len());
        if only.is_none() {
            let needed = work.needed.get_or_insert_with(|| Needed::of(operator));
            chunk = needed.first(chunk, operator.records_max(), operator.is_limited());
        }
        let part = work.part(only);
        let Some(row) = chunk.rows.first() else { return };
        let base = batch.offsets[*row as usize];
        for row in &mut chunk.rows {
            // Offsets of one batch are no further apart than its messages.
            *row = u32::try_from(batch.offsets[*row as usize] - base).unwrap_or(u32::MAX);
        }
        part.rows.push((base, chunk));
    }

    /// Keeps events for queries that come late.
    fn keep(&mut self, batch: Batch, limits: &WorkerLimits) {
        self.kept_bytes += batch.events.event_bytes();
        self.kept.push_back(batch);
        self.drop_old(limits);
    }

    /// Keeps no more events than the limits say.
    pub(crate) fn drop_old(&mut self, limits: &WorkerLimits) {
        let horizon = self.time.saturating_sub_unsigned(limits.kept_ms);
        while let Some(oldest) = self.kept.front() {
            let is_old = oldest.times.last().is_none_or(|last| *last < horizon);
            if !is_old && self.kept_bytes <= limits.kept_bytes {
                return;
            }
            self.kept_bytes -= oldest.events.event_bytes();
            let last = oldest.times.last().map_or(self.kept_from, |last| last.saturating_add(1));
            self.kept_from = self.kept_from.max(last);
            self.kept.pop_front();
        }
    }

    /// Takes up queries that have joined an operator. Events that they should have seen and that are kept are looked at again.
    pub(crate) fn join(&mut self, joining: &Joining<'_>, limits: &WorkerLimits, now_micros: i64) {
        let Joining { number, operator, queries, is_new, round } = joining;
        let early: Vec<_> = queries.iter().filter(|(query, _)| query.begins <= self.time).copied().collect();
        for (query, server) in &early {
            if self.kept_from > query.begins {
                let late = self.late.entry(NodeName::clone(server)).or_default();
                late.push((query.number, self.kept_from));
            }
        }
        let first = early.iter().map(|(query, _)| query.begins).min();
        if let (Some(first), true) = (first, *is_new) {
            let plan = Arc::clone(&operator.plan);
            self.replay(operator, (*number, plan), first, None, limits, now_micros);
        } else if let Some(first) = first {
            let cuts = operator.has_groups.then(|| {
                let mut cuts = CutCounts::default();
                early.iter().for_each(|(query, _)| cuts.add(&query.cuts));
                cuts.cuts()
            });
            let all = early[0].0.number..early[early.len() - 1].0.number + 1;
            self.seal(*number, *round, all.start);
            let plan = Arc::new(SlicePlan::new(cuts.unwrap_or_default()));
            self.replay(
                operator,
                (number | ROUND, plan),
                first,
                Some((all.start, all.end)),
                limits,
                now_micros,
            );
            if operator.has_groups {
                self.begin_round(joining, &early);
            }
        }
        if let Some(needed) =
            self.work.get_mut(number).and_then(|work| work.needed.as_mut()).filter(|_| !is_new)
        {
            for (query, _) in queries {
                match query.begins <= self.time {
                    true => needed.begin(needed.records, operator.records_max()),
                    false => {
                        needed.to_begin.insert((query.begins, query.number));
                    }
                }
            }
        }
        // A slice of theirs may be the first that is over.
        if let Some(work) = self.work.get_mut(number)
            && let Some(made) = work.made
        {
            work.set_due(*number, operator.cuts.end_of(made), &mut self.due);
        }
    }

    /// Matches kept events from a time on anew.
    fn replay(
        &mut self,
        operator: &Operator,
        (number, plan): (OperatorNumber, Arc<SlicePlan>),
        first: Millis,
        only: Option<(QueryNumber, QueryNumber)>,
        limits: &WorkerLimits,
        now_micros: i64,
    ) {
        let is_wanted = |batch: &Batch| batch.times.last().is_some_and(|last| *last >= first);
        let wanted = self.kept.iter().rev().take_while(|batch| is_wanted(batch)).count();
        if wanted == 0 {
            return;
        }
        let kept = std::mem::take(&mut self.kept);
        let index = Index::default().with_slices(number, &operator.query, &plan);
        for batch in kept.iter().skip(kept.len() - wanted) {
            for step in self.step(&index, batch, limits, now_micros) {
                self.accept(operator, step, batch, only);
            }
        }
        self.kept = kept;
    }

    /// Ends what has come for the queries of an operator so far: those that join from now on see nothing of it.
    fn seal(&mut self, number: OperatorNumber, round: u64, below: QueryNumber) {
        let Some(work) = self.work.get_mut(&number) else { return };
        for part in work.parts.iter_mut().filter(|part| part.below.is_none()) {
            part.below = Some(below);
        }
        for partial in self.shard.remove(number) {
            work.pieces.add(Partial { epoch: round - 1, ..partial });
        }
    }

    fn begin_round(&mut self, joining: &Joining<'_>, early: &[(&DistributedQuery, &NodeName)]) {
        let Joining { number, operator, round, .. } = joining;
        let mut pieces = Slices::default();
        self.shard.remove(number | ROUND).into_iter().for_each(|partial| pieces.add(partial));
        let work = self.work.entry(*number).or_default();
        work.separate();
        work.pieces.add_border(*round);
        work.rounds.insert(*round, Round { pieces, queries: early.len() });
        for (query, server) in early {
            if let Some(class) = operator.classes.number(&query.cuts)
                && operator.classes.is_new(class)
            {
                work.joined.insert(class, self.time);
            }
            work.early_due.insert((query.cuts.end_of(query.begins), query.number));
            let early = Early {
                query: (*query).clone(),
                server: NodeName::clone(server),
                until: self.time,
                round: *round,
                next: query.begins,
            };
            work.early.insert(query.number, early);
        }
        if let Some((end, _)) = work.early_due.first() {
            work.set_due(*number, *end, &mut self.due);
        }
    }

    /// Forgets a query of an operator that has others, and its class if it has none.
    pub(crate) fn forget(&mut self, number: OperatorNumber, query: QueryNumber, class: Option<ClassNumber>) {
        if let Some(work) = self.work.get_mut(&number) {
            work.forget_early(query);
            class.and_then(|class| work.joined.remove(&class));
        }
    }

    /// Forgets an operator without queries.
    pub(crate) fn forget_operator(&mut self, number: OperatorNumber) {
        self.shard.remove(number);
        self.ready.remove(&number);
        if let Some(due) = self.work.remove(&number).and_then(|work| work.due) {
            self.due.remove(&(due, number));
        }
    }

    /// Takes out what is to be sent to each node.
    pub(crate) fn flush(
        &mut self,
        operators: &BTreeMap<OperatorNumber, Operator>,
        (round, known): (u64, QueryNumber),
        bytes_max: usize,
    ) -> BTreeMap<NodeName, Vec<Output>> {
        while let Some((due, number)) = self.due.first().copied().filter(|(due, _)| *due <= self.time) {
            self.due.remove(&(due, number));
            let (Some(work), Some(operator)) = (self.work.get_mut(&number), operators.get(&number)) else {
                continue;
            };
            work.due = None;
            for partial in self.shard.flush(number, operator.cuts.start_of(self.time)) {
                work.pieces.add(Partial { epoch: round, ..partial });
            }
            work.make_slices(operator, self.time, bytes_max);
            if !work.slices.is_empty() || !work.parts.is_empty() {
                self.ready.insert(number);
            }
            let holds = self.shard.holds(number) || work.pieces.first_of_any(Millis::MIN).is_some();
            if !holds && work.early.is_empty() {
                // The counts of the last events wait for nothing.
                (work.made, work.counts_sent) = (None, None);
                continue;
            }
            let early = work.early_due.first().map_or(Millis::MAX, |(end, _)| *end);
            let next = operator.cuts.end_of(self.time).min(early);
            work.set_due(number, next, &mut self.due);
        }
        let mut by_server = BTreeMap::new();
        for number in std::mem::take(&mut self.ready) {
            if let (Some(work), Some(operator)) = (self.work.get_mut(&number), operators.get(&number)) {
                work.outputs(operator, (known, self.time), bytes_max, &mut by_server);
            }
        }
        by_server
    }

    /// The place at which a successor begins that is to see the events from a time on.
    pub(crate) fn place_before(&self, open: Millis, kept_ms: u64) -> Place {
        // A successor also looks at what this worker keeps for queries that it does not know yet.
        let recent = self.time.saturating_sub_unsigned(kept_ms);
        let wanted = open.min(recent).max(self.from);
        let done = if self.next >= self.done.0 { (self.next, self.time) } else { self.done };
        let place = |time: Millis, offset: u64, from: Millis| Place { offset, from, time, done };
        // Events of the same time may be before an offset, but none of a later time.
        let earlier = self.places.iter().rev().find(|(time, _)| *time < wanted);
        match (earlier, self.places.front()) {
            (Some((time, offset)), _) => place(*time, *offset, wanted),
            (None, Some((time, offset))) => place(*time, *offset, wanted.max(self.places_from)),
            // There was no event since the beginning.
            (None, None) => place(self.time, self.next, wanted),
        }
    }
}

impl Needed {
    /// Those of an operator of which nothing has come.
    fn of(operator: &Operator) -> Needed {
        Needed { to_begin: operator.begins.clone(), ..Needed::default() }
    }

    /// A query begins after so many records.
    fn begin(&mut self, records: u64, most: u64) {
        let enough = records.saturating_add(most);
        if enough > self.enough {
            self.enough = enough;
            self.since = None;
        }
    }

    /// The first of these records, as many as are needed if no query needs more than so many, or all if one needs all.
    fn first(&mut self, chunk: RowChunk, most: u64, is_limited: bool) -> RowChunk {
        let Some(last) = chunk.arrivals.last().copied() else { return chunk };
        while let Some((begins, _)) = self.to_begin.first().copied().filter(|(begins, _)| *begins <= last) {
            self.to_begin.pop_first();
            let before = chunk.arrivals.partition_point(|time| *time < begins);
            self.begin(self.records + before as u64, most);
        }
        if self.since.is_some_and(|since| last >= since.saturating_add(MORE_MS)) {
            self.begin(self.records, most);
        }
        let left = usize::try_from(self.enough.saturating_sub(self.records)).unwrap_or(usize::MAX);
        let count = if is_limited { chunk.len().min(left) } else { chunk.len() };
        self.records += count as u64;
        if self.records >= self.enough && self.since.is_none() {
            self.since = Some(last);
        }
        chunk.range(0..count)
    }
}

impl Work {
    /// The part that more of some queries comes into.
    fn part(&mut self, only: Option<(QueryNumber, QueryNumber)>) -> &mut Part {
        let (from, below) = only.map_or((0, None), |(from, below)| (from, Some(below)));
        match self.parts.iter().rposition(|part| (part.from, part.below) == (from, below)) {
            Some(place) => &mut self.parts[place],
            None => {
                self.parts.push(Part { from, below, ..Part::default() });
                self.parts.last_mut().expect("one was added")
            }
        }
    }

    fn set_due(&mut self, number: OperatorNumber, due: Millis, all: &mut BTreeSet<(Millis, OperatorNumber)>) {
        if self.due.is_some_and(|before| before <= due) {
            return;
        }
        if let Some(before) = self.due.replace(due) {
            all.remove(&(before, number));
        }
        all.insert((due, number));
    }

    /// Pieces of different rounds are kept apart from now on.
    fn separate(&mut self) {
        if self.rounds.is_empty() {
            self.pieces.add_border(0);
        }
    }

    fn forget_early(&mut self, query: QueryNumber) {
        let Some(early) = self.early.remove(&query) else { return };
        self.early_due.remove(&(early.query.cuts.end_of(early.next), query));
        let Entry::Occupied(mut round) = self.rounds.entry(early.round) else { return };
        round.get_mut().queries -= 1;
        if round.get().queries == 0 {
            round.remove();
            self.pieces.remove_border(early.round);
            if self.rounds.is_empty() {
                self.pieces.remove_border(0);
            }
        }
    }

    /// Makes the slices that are over at a time.
    fn make_slices(&mut self, operator: &Operator, time: Millis, bytes_max: usize) {
        let made = self.made.replace(time).unwrap_or(time);
        for number in operator.classes.cut_between(made, time) {
            let Some(class) = operator.classes.get(number) else { continue };
            let joined = self.joined.get(&number).copied().unwrap_or(Millis::MIN);
            let mut start = class.cuts.start_of(made);
            while let Some(first) = self.pieces.first_of_any(start) {
                start = class.cuts.start_of(first).max(start);
                let end = class.cuts.end_of(start);
                if end > time {
                    break;
                }
                let servers: Vec<&NodeName> = class.servers_at(start).collect();
                if start > joined && !servers.is_empty() {
                    let pieces = &mut self.pieces;
                    let groups = || pieces.window(start..end, &(0..u64::MAX), false);
                    add_slice(&mut self.slices, (start, end), groups, bytes_max);
                    if let Some(slice) = self.slices.get_mut(&(start, end)) {
                        slice.servers.extend(servers.into_iter().map(NodeName::clone));
                    }
                }
                start = end;
            }
            if class.cuts.start_of(time) > joined {
                self.joined.remove(&number);
            }
        }
        self.make_early_slices(time, bytes_max);
        self.pieces.drop_before(operator.open_at(time));
    }

    fn make_early_slices(&mut self, time: Millis, bytes_max: usize) {
        let mut over = Vec::new();
        while let Some((end, number)) = self.early_due.first().copied().filter(|(end, _)| *end <= time) {
            self.early_due.remove(&(end, number));
            let Some(early) = self.early.get_mut(&number) else { continue };
            let Some(round) = self.rounds.get_mut(&early.round) else { continue };
            while early.next <= early.until && early.query.sees(early.next) {
                let (start, end) = (early.next, early.query.cuts.end_of(early.next));
                if end > time {
                    break;
                }
                let groups = || {
                    let missed = round.pieces.window(start..end, &(0..u64::MAX), false);
                    let seen = self.pieces.window(start..end, &(early.round..u64::MAX), false);
                    match (missed, seen) {
                        (Some(mut missed), Some(seen)) => {
                            missed.merge(&seen);
                            Some(missed)
                        }
                        (missed, seen) => missed.or(seen),
                    }
                };
                add_slice(&mut self.slices, (start, end), groups, bytes_max);
                if let Some(slice) = self.slices.get_mut(&(start, end)) {
                    slice.servers.insert(NodeName::clone(&early.server));
                }
                early.next = end;
            }
            match early.next > early.until || !early.query.sees(early.next) {
                true => over.push(number),
                false => {
                    self.early_due.insert((early.query.cuts.end_of(early.next), number));
                }
            }
        }
        over.into_iter().for_each(|query| self.forget_early(query));
    }

    /// Takes out the outputs for each node, each of about this size.
    fn outputs(
        &mut self,
        operator: &Operator,
        (known, time): (QueryNumber, Millis),
        bytes_max: usize,
        by_server: &mut BTreeMap<NodeName, Vec<Output>>,
    ) {
        let nothing = |queries: Range<QueryNumber>| Output {
            operator: operator.key,
            queries,
            counts: Counts::default(),
            rows: None,
            slices: Vec::new(),
        };
        let is_early = |sent: Millis| operator.has_windows() && time < sent.saturating_add(COUNTS_MS);
        let (waiting, parts) = match self.counts_sent.is_some_and(is_early) {
            true => std::mem::take(&mut self.parts).into_iter().partition(|part| part.below.is_none()),
            false => (Vec::new(), std::mem::take(&mut self.parts)),
        };
        self.parts = waiting;
        if !parts.is_empty() {
            self.counts_sent = Some(time);
        }
        for part in parts {
            let queries = part.from..part.below.unwrap_or(known);
            let mut rows = part.rows.into_iter().map(|(first, chunk)| {
                let mut bytes = Vec::new();
                chunk.encode(&mut bytes);
                (first, Bytes::from(bytes))
            });
            let first = Output { counts: part.counts, rows: rows.next(), ..nothing(queries.clone()) };
            let more = rows.map(|rows| Output { rows: Some(rows), ..nothing(queries.clone()) });
            let outputs: Vec<Output> = [first].into_iter().chain(more).collect();
            let has_queries = |(_, of): &(&NodeName, &BTreeSet<QueryNumber>)| {
                !queries.is_empty() && of.range(queries.clone()).next().is_some()
            };
            for (server, _) in operator.servers.iter().filter(has_queries) {
                by_server.entry(NodeName::clone(server)).or_default().extend(outputs.iter().cloned());
            }
        }
        let mut current: BTreeMap<NodeName, (Output, usize)> = BTreeMap::new();
        for ((start, end), ready) in std::mem::take(&mut self.slices) {
            for server in &ready.servers {
                for groups in &ready.groups {
                    let (output, bytes) =
                        current.entry(NodeName::clone(server)).or_insert_with(|| (nothing(0..known), 0));
                    if *bytes > 0 && *bytes + groups.len() > bytes_max {
                        let full = std::mem::replace(output, nothing(0..known));
                        by_server.entry(NodeName::clone(server)).or_default().push(full);
                        *bytes = 0;
                    }
                    *bytes += groups.len() + 24;
                    output.slices.push(Slice { start, end, groups: groups.clone() });
                }
            }
        }
        for (server, (output, _)) in current {
            let outputs = by_server.entry(server).or_default();
            match outputs.last_mut() {
                Some(last) if last.operator == operator.key && last.slices.is_empty() => {
                    last.slices = output.slices;
                }
                _ => outputs.push(output),
            }
        }
    }
}

/// Adds a slice if it is not there: from whatever pieces it is made, it is the same.
fn add_slice(
    slices: &mut BTreeMap<(Millis, Millis), ReadySlice>,
    place: (Millis, Millis),
    groups: impl FnOnce() -> Option<Groups>,
    bytes_max: usize,
) {
    if let Entry::Vacant(free) = slices.entry(place)
        && let Some(groups) = groups().filter(|groups| !groups.is_empty())
    {
        let groups = groups.encode(bytes_max).into_iter().map(Bytes::from).collect();
        free.insert(ReadySlice { groups, servers: BTreeSet::new() });
    }
}
