//! The part of the node that was asked: takes the units of all workers, each record and each slice once, and tells up to which
//! time windows may be closed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_lang::plan::Window;
use swiftwater_live::{Groups, Partial, RowChunk, Series, StandingQuery};

use crate::{
    Counts, DistributedQuery, Mark, NodeName, OperatorKey, Output, QueryNumber, ReleasedEvents, Unit,
    events::{TooManyEvents, WaitingEvents},
    marks::{Behind, Done, Partition},
    query::OfEvents,
};

/// Queries that are not served yet of which workers have told that events are missing; of more, those with the lowest numbers are
/// forgotten: they were refused.
const STRANGERS_MAX: usize = 100_000;

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// The time that a window waits for partitions that are behind, in nanoseconds.
    pub wait_nanos: u64,
    /// Bytes of outputs of one partition that wait for their mark; with more, they are dropped, and the partition is missing.
    pub unmarked_bytes_max: usize,
    /// Bytes of events per second, by their messages' times, that a query may have if this node computes it from events. Four times as
    /// many may come at once, or wait.
    pub event_bytes_per_second: u64,
    /// Bytes of events that wait for partitions, of all queries that this node computes from events. With more, the query with the most
    /// is to end.
    pub event_bytes_of_all: u64,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            wait_nanos: 1_000_000_000,
            unmarked_bytes_max: 256 << 20,
            event_bytes_per_second: 16 << 20,
            event_bytes_of_all: 1 << 30,
        }
    }
}

/// The results of a query that were taken.
#[derive(Debug)]
pub struct Accepted {
    /// The query.
    pub query: QueryNumber,
    /// The work of the worker.
    pub counts: Counts,
    /// Records.
    pub rows: Option<RowChunk>,
    /// The offset that the rows of the records are counted from.
    first: u64,
    /// Groups, and the end of the slice of each.
    pub slices: Vec<(Partial, Millis)>,
}

impl Accepted {
    /// Drops what belongs to windows that end before `closed`. Returns the end of what was dropped.
    fn drop_before(&mut self, query: &DistributedQuery, closed: Millis) -> Option<Millis> {
        let late = self.slices.extract_if(.., |(_, end)| *end <= closed).map(|(_, end)| end).max();
        let Some(rows) = self.rows.as_mut().filter(|_| query.query.plan.window != Window::None) else {
            return late;
        };
        let first = rows.arrivals.partition_point(|time| *time < closed);
        let until = first.checked_sub(1).map(|last| rows.arrivals[last] + 1);
        *rows = rows.range(first..rows.len());
        late.max(until)
    }
}

/// The partitions that an emit has, and those that it has not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Completeness {
    /// Nodes that have sent something of the stream.
    pub workers: usize,
    /// The nodes among them whose partitions are in.
    pub answered: usize,
    /// Partitions of the topic.
    pub partitions: usize,
    /// The partitions that are not in, or not wholly.
    pub missing: Vec<u32>,
}

impl Completeness {
    /// True if all partitions are in.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The queries over a topic that a node serves.
#[derive(Debug, Default)]
pub struct Server {
    limits: ServerLimits,
    partitions: Vec<Partition>,
    queries: BTreeMap<QueryNumber, Served>,
    operators: HashMap<OperatorKey, Operator>,
    /// Those that this node computes from events.
    of_events: BTreeSet<QueryNumber>,
    /// By query and partition, the time from which on events are there, of queries that are to be served soon.
    strangers: BTreeMap<QueryNumber, BTreeMap<u32, Millis>>,
    /// Outputs that wait for their mark, and their bytes.
    unmarked: HashMap<(NodeName, u32), (Vec<Output>, usize)>,
    /// Windows that end here or before are closed.
    closed: Millis,
    /// The same for queries that wait for all partitions.
    closed_whole: Millis,
    /// The end of the window that waits for partitions that are behind, and the beginning of that.
    waiting: Option<(Millis, u64)>,
}

#[derive(Debug)]
struct Served {
    query: DistributedQuery,
    /// Its events, if this node computes it from them.
    events: Option<WaitingEvents>,
    /// By partition, the time from which on a worker had its events.
    from: BTreeMap<u32, Millis>,
}

/// The queries that one operator of each worker computes.
#[derive(Debug)]
struct Operator {
    query: Arc<StandingQuery>,
    members: BTreeSet<QueryNumber>,
    /// Those whose groups are cut by each series.
    by_series: BTreeMap<Series, BTreeSet<QueryNumber>>,
}

impl Operator {
    /// The queries that may have a slice which begins here.
    fn cut_at(&self, start: Millis) -> impl Iterator<Item = QueryNumber> {
        let mut from = Some(Series { every: 0, phase: 0 });
        let of_each = std::iter::from_fn(move || {
            let every = self.by_series.range(from?..).next()?.0.every;
            from = every.checked_add(1).map(|every| Series { every, phase: 0 });
            Some(self.by_series.get(&Series::new(every, start)))
        });
        of_each.flatten().flatten().copied()
    }
}

impl Served {
    /// Its number, and that nothing of it was taken.
    fn nothing_of(&self) -> (QueryNumber, Done) {
        (self.query.number, Done { time: self.query.begins, next: 0 })
    }
}

impl Server {
    /// A server of a topic with so many partitions, from a time on.
    pub fn new(limits: ServerLimits, partitions: u32) -> Server {
        let mut server =
            Server { limits, closed: Millis::MIN, closed_whole: Millis::MIN, ..Server::default() };
        server.set_partitions(partitions);
        server
    }

    /// The topic has so many partitions by now.
    pub fn set_partitions(&mut self, partitions: u32) {
        if self.partitions.len() < partitions as usize {
            let mut behind = Behind::default();
            for (number, nothing) in self.queries.values().map(Served::nothing_of) {
                behind.insert(number, nothing);
            }
            self.partitions.resize_with(partitions as usize, || Partition {
                node: None,
                done: Done::NOTHING,
                behind: behind.clone(),
                is_missing: false,
            });
        }
    }

    /// Serves a query from now on.
    pub fn add(&mut self, query: DistributedQuery) {
        let from = self.strangers.remove(&query.number).unwrap_or_default();
        let rate = self.limits.event_bytes_per_second;
        let events = query.events.map(|of| WaitingEvents::new(query.begins, of.in_order, rate));
        if events.is_some() {
            self.of_events.insert(query.number);
        }
        let served = Served { query, events, from };
        let (number, nothing) = served.nothing_of();
        let operator = self.operators.entry(served.query.operator).or_insert_with(|| Operator {
            query: Arc::clone(&served.query.query),
            members: BTreeSet::new(),
            by_series: BTreeMap::new(),
        });
        operator.members.insert(number);
        if served.query.has_groups() {
            for series in served.query.cuts.series() {
                operator.by_series.entry(*series).or_default().insert(number);
            }
        }
        for partition in &mut self.partitions {
            partition.behind.insert(number, nothing);
        }
        self.queries.insert(number, served);
    }

    /// Serves a query no more.
    pub fn remove(&mut self, number: QueryNumber) {
        let Some(served) = self.queries.remove(&number) else { return };
        self.of_events.remove(&number);
        for partition in &mut self.partitions {
            partition.behind.remove(number);
        }
        let key = served.query.operator;
        let Some(operator) = self.operators.get_mut(&key) else { return };
        operator.members.remove(&number);
        for series in served.query.cuts.series() {
            if let Some(of) = operator.by_series.get_mut(series) {
                of.remove(&number);
                if of.is_empty() {
                    operator.by_series.remove(series);
                }
            }
        }
        if operator.members.is_empty() {
            self.operators.remove(&key);
        }
    }

    /// Takes a unit of a worker. Returns what is new in it, when its mark is there. Outputs that cannot be read are of a newer
    /// release or damaged: their partition is missing from then on, until it is read again.
    pub fn accept(&mut self, node: &NodeName, unit: Unit) -> Vec<Accepted> {
        let place = (NodeName::clone(node), unit.partition);
        let Some(mark) = unit.mark else {
            let (waiting, bytes) = self.unmarked.entry(place).or_default();
            *bytes = bytes.saturating_add(unit.outputs.iter().map(Output::bytes).sum::<usize>());
            match *bytes <= self.limits.unmarked_bytes_max {
                true => waiting.extend(unit.outputs),
                false => waiting.clear(),
            }
            return Vec::new();
        };
        let (mut outputs, bytes) = self.unmarked.remove(&place).unwrap_or_default();
        let mut is_whole = bytes <= self.limits.unmarked_bytes_max;
        outputs.extend(unit.outputs);
        self.set_partitions(unit.partition.saturating_add(1));
        // What other runs have sent in part is most often never marked. If it is, it is not whole.
        for ((_, of), (outputs, bytes)) in &mut self.unmarked {
            if *of == unit.partition && *bytes > 0 {
                (*outputs, *bytes) = (Vec::new(), usize::MAX);
            }
        }
        if !is_whole {
            outputs.clear();
        }
        let (mut accepted, mut lacking, is_readable) = self.accepted(unit.partition, outputs, &mark);
        self.take_events(unit.partition, &mut accepted, &mark, &mut lacking);
        is_whole &= is_readable;
        lacking.extend(mark.late.iter().copied());
        self.lacking(unit.partition, is_whole, &mark, &mut lacking);
        for (query, from) in lacking {
            self.lack(unit.partition, query, from);
        }
        let partition = &mut self.partitions[unit.partition as usize];
        partition.node = Some(NodeName::clone(node));
        partition.done = partition.done.max(Done { time: mark.time, next: mark.next });
        // Windows wait for it again when it is behind by no more than they wait.
        let near = self.closed.saturating_sub_unsigned(self.limits.wait_nanos / 1_000_000);
        if partition.time() >= near {
            partition.is_missing = false;
        }
        accepted
    }

    /// Takes out the events of queries that this node computes.
    fn take_events(
        &mut self,
        partition: u32,
        accepted: &mut Vec<Accepted>,
        mark: &Mark,
        lacking: &mut Vec<(QueryNumber, Millis)>,
    ) {
        if self.of_events.is_empty() {
            return;
        }
        let mut has_any = false;
        accepted.retain(|new| {
            let served = self.queries.get_mut(&new.query);
            let Some(events) = served.and_then(|served| served.events.as_mut()) else { return true };
            let Some(rows) = &new.rows else { return false };
            has_any = true;
            lacking.extend(events.push(partition, new.first, rows).map(|until| (new.query, until)));
            if rows.is_cut {
                lacking.push((new.query, mark.time));
            }
            false
        });
        if has_any {
            self.end_largest();
        }
    }

    /// Ends the queries whose events have the most bytes, while those of all have more than may be.
    fn end_largest(&mut self) {
        loop {
            let of_events = self.of_events.iter();
            let sizes = of_events
                .filter_map(|number| Some((self.queries.get(number)?.events.as_ref()?.held(), *number)));
            let (all, largest) =
                sizes.fold((0, (0, 0)), |(all, largest), size| (all + size.0, largest.max(size)));
            if all <= self.limits.event_bytes_of_all {
                return;
            }
            let events = self.queries.get_mut(&largest.1).and_then(|served| served.events.as_mut());
            events.into_iter().for_each(|events| events.end(TooManyEvents::OfAll));
        }
    }

    /// The events that queries of this node are to see next, but for those that still take the ones before.
    pub fn release(&mut self, is_busy: impl Fn(QueryNumber) -> bool) -> Vec<ReleasedEvents> {
        let mut released = Vec::new();
        for number in self.of_events.iter().filter(|number| !is_busy(**number)) {
            let Some(served) = self.queries.get_mut(number) else { continue };
            let waits = served.query.waits;
            let present = self.partitions.iter().filter(|partition| waits || !partition.is_missing);
            let until = present.map(|partition| partition.done_of(*number).time).min();
            if let (Some(events), Some(until)) = (&mut served.events, until) {
                released.extend(events.release(*number, until));
            }
        }
        released
    }

    /// A query has processed the events that were released.
    pub fn fed(&mut self, number: QueryNumber) {
        let events = self.queries.get_mut(&number).and_then(|served| served.events.as_mut());
        events.into_iter().for_each(WaitingEvents::fed);
    }

    /// The first time at which events of such a query wait for partitions.
    pub fn first_waiting(&self) -> Option<Millis> {
        let served = self.of_events.iter().filter_map(|number| self.queries.get(number));
        let events = served.filter(|served| !served.query.waits).filter_map(|served| served.events.as_ref());
        events.filter_map(WaitingEvents::first).min()
    }

    /// The queries that this node computes and that had more events than may be, with the reason: they lack some.
    pub fn with_too_many(&self) -> impl Iterator<Item = (QueryNumber, TooManyEvents)> {
        self.of_events.iter().filter_map(|number| {
            let events = self.queries.get(number)?.events.as_ref()?;
            Some((*number, events.too_many?))
        })
    }

    /// True if a query waits for all partitions.
    pub fn waits(&self, number: QueryNumber) -> bool {
        self.queries.get(&number).is_some_and(|served| served.query.waits)
    }

    /// The new parts of outputs, and the queries that lack what is before a time; false if some cannot be read.
    fn accepted(
        &self,
        partition: u32,
        outputs: Vec<Output>,
        mark: &Mark,
    ) -> (Vec<Accepted>, Vec<(QueryNumber, Millis)>, bool) {
        let of_partition = &self.partitions[partition as usize];
        let (mut accepted, mut lacking, mut is_readable) = (Vec::new(), Vec::new(), true);
        for output in outputs {
            let Some(operator) = self.operators.get(&output.operator) else { continue };
            let Some(new) = self.accepted_of(operator, output, of_partition, mark) else {
                is_readable = false;
                continue;
            };
            for mut new in new {
                let Some(served) = self.queries.get(&new.query) else { continue };
                // Windows were closed without what comes only now.
                let closed = if served.query.waits { self.closed_whole } else { self.closed };
                if let Some(until) = new.drop_before(&served.query, closed) {
                    lacking.push((new.query, until));
                }
                // A worker that began in the middle of a slice has a part of it.
                let begins = served.query.begins;
                if new.slices.iter().any(|(slice, _)| slice.start.max(begins) < mark.from) {
                    lacking.push((new.query, mark.from));
                }
                accepted.push(new);
            }
        }
        (accepted, lacking, is_readable)
    }

    /// The new part of an output for each query of its operator that the worker knew. None if it cannot be read.
    fn accepted_of(
        &self,
        operator: &Operator,
        output: Output,
        partition: &Partition,
        mark: &Mark,
    ) -> Option<Vec<Accepted>> {
        let mut accepted = Vec::new();
        let known = output.queries.start..output.queries.end.min(mark.queries);
        let has_any = output.rows.is_some() || output.counts != Counts::default();
        let rows = output.rows.map(|(base, bytes)| Some((base, rows(&bytes)?)));
        let rows = match rows {
            Some(rows) => Some(rows?),
            None => None,
        };
        let members = (has_any && !known.is_empty()).then(|| operator.members.range(known));
        for served in members.into_iter().flatten().filter_map(|number| self.queries.get(number)) {
            let query = &served.query;
            // Events that it did not see are counted only where they came with some that it did.
            if mark.time < query.begins || query.ends.is_some_and(|ends| mark.since.0 >= ends) {
                continue;
            }
            let new = rows
                .as_ref()
                .map(|(base, chunk)| new_rows(query, *base, chunk, partition.done_of(query.number)));
            let new = new.filter(|chunk| !chunk.is_empty());
            let mut counts = output.counts;
            counts.matches += new.as_ref().map_or(0, |rows| rows.matched(rows.len()));
            let first = rows.as_ref().map_or(0, |(base, _)| *base);
            accepted.push(Accepted { query: query.number, counts, rows: new, first, slices: Vec::new() });
        }
        let mut of_groups: BTreeMap<QueryNumber, Vec<(Partial, Millis)>> = BTreeMap::new();
        for slice in output.slices {
            let of_slice = groups(&operator.query, &slice.groups)?;
            let members: BTreeSet<QueryNumber> = operator.cut_at(slice.start).collect();
            for served in members.range(..mark.queries).filter_map(|number| self.queries.get(number)) {
                let query = &served.query;
                let is_its = query.sees(slice.start)
                    && query.cuts.start_of(slice.start) == slice.start
                    && query.cuts.end_of(slice.start) == slice.end;
                if is_its && slice.end > partition.done_of(query.number).time {
                    let partial = Partial { epoch: 0, start: slice.start, groups: of_slice.clone() };
                    of_groups.entry(query.number).or_default().push((partial, slice.end));
                }
            }
        }
        let nothing =
            |query| Accepted { query, counts: Counts::default(), rows: None, first: 0, slices: Vec::new() };
        accepted.extend(of_groups.into_iter().map(|(query, slices)| Accepted { slices, ..nothing(query) }));
        Some(accepted)
    }

    /// Takes a mark for each query, and adds those that lack something by it. Costs what queries are new, or behind others, unless
    /// something was lost.
    fn lacking(
        &mut self,
        partition: u32,
        is_whole: bool,
        mark: &Mark,
        lacking: &mut Vec<(QueryNumber, Millis)>,
    ) {
        let partition = &mut self.partitions[partition as usize];
        let marked = Done { time: mark.time, next: mark.next };
        let done_now = partition.done.max(marked);
        let looked_at: Vec<QueryNumber> = match is_whole && mark.since.0 <= partition.done.time {
            true => {
                let behind: BTreeSet<QueryNumber> = partition.behind.of.keys().copied().collect();
                let new = self.queries.range(mark.since.1..).map(|(number, _)| *number);
                behind.into_iter().chain(new).collect::<BTreeSet<_>>().into_iter().collect()
            }
            false => self.queries.keys().copied().collect(),
        };
        for query in looked_at {
            let Some(served) = self.queries.get(&query) else { continue };
            let before = partition.done_of(query);
            let begins = served.query.begins;
            let is_known_by_worker = query < mark.queries;
            // The worker has sent what it has of a query since it began, of others since its mark before.
            let since = if query < mark.since.1 { mark.since.0 } else { mark.from.max(begins) };
            let now = if is_known_by_worker { before.max(marked) } else { before };
            if is_known_by_worker && !is_whole {
                lacking.push((query, mark.time));
            } else if is_known_by_worker && since > before.time {
                lacking.push((query, since));
            }
            match now == done_now {
                true => partition.behind.remove(query),
                false => partition.behind.insert(query, now),
            }
        }
    }

    /// A query lacks events of a partition before a time.
    fn lack(&mut self, partition: u32, query: QueryNumber, from: Millis) {
        let known = match self.queries.get_mut(&query) {
            Some(served) if from <= served.query.begins => return,
            Some(served) => served.from.entry(partition).or_insert(from),
            None => {
                if self.strangers.len() >= STRANGERS_MAX {
                    self.strangers.pop_first();
                }
                self.strangers.entry(query).or_default().entry(partition).or_insert(from)
            }
        };
        *known = from.max(*known);
    }

    /// The time up to which all partitions that are not missing are done, for all queries; none before they have all sent a mark.
    /// It never goes back.
    pub fn time(&mut self) -> Option<Millis> {
        let times = (0..self.partitions.len())
            .filter(|place| !self.partitions[*place].is_missing)
            .map(|place| self.partitions[place].time());
        let least = times.min().filter(|time| *time != Millis::MIN)?;
        self.closed = self.closed.max(least);
        Some(self.closed)
    }

    /// The time up to which all partitions are done, for queries that wait for all; none before they have all sent a mark. It never goes
    /// back.
    pub fn whole_time(&mut self) -> Option<Millis> {
        let least = self.partitions.iter().map(Partition::time).min().filter(|time| *time != Millis::MIN)?;
        self.closed_whole = self.closed_whole.max(least);
        Some(self.closed_whole)
    }

    /// Nobody has looked at windows that wait for some time: what has come meanwhile may not have been taken yet, so they begin to wait
    /// anew.
    pub fn wait_anew(&mut self) {
        self.waiting = None;
    }

    /// Looks whether a window that ends at `due` waits for partitions that are behind while others are done, and for how long. Returns
    /// true if it waits no longer: the partitions are missing.
    pub fn wait(&mut self, due: Millis, nanos: u64) -> bool {
        let present: Vec<usize> =
            (0..self.partitions.len()).filter(|place| !self.partitions[*place].is_missing).collect();
        let (behind, done): (Vec<usize>, Vec<usize>) =
            present.into_iter().partition(|place| self.partitions[*place].time() < due);
        if behind.is_empty() || done.is_empty() {
            self.waiting = None;
            return false;
        }
        let since = match self.waiting {
            Some((of, since)) if of == due => since,
            _ => nanos,
        };
        self.waiting = Some((due, since));
        if nanos.saturating_sub(since) < self.limits.wait_nanos {
            return false;
        }
        self.waiting = None;
        behind.into_iter().for_each(|place| self.partitions[place].is_missing = true);
        true
    }

    /// The partitions that a query's emit has, of the window from `start` to `end`, as far as the query saw it.
    pub fn completeness(&self, number: QueryNumber, start: Millis, end: Millis) -> Completeness {
        let served = self.queries.get(&number);
        let of_events = served.and_then(|served| Some((served.query.events?, served.events.as_ref()?)));
        let (start, end) = match of_events {
            // Events' own times tell nothing of those of their messages, but by how much they may be ahead.
            Some((OfEvents { ahead_ms: Some(ahead), .. }, events)) => {
                (start.saturating_sub_unsigned(ahead), events.until)
            }
            Some((_, events)) => (start, end.min(events.until)),
            None => (start, end),
        };
        let start = served.map_or(start, |served| start.max(served.query.begins));
        let has = |(place, partition): (usize, &Partition)| {
            let from = served.and_then(|served| served.from.get(&(place as u32)));
            let time = if of_events.is_some() { partition.done_of(number).time } else { partition.time() };
            time >= end && from.is_none_or(|from| *from <= start)
        };
        let nodes = |partitions: &mut dyn Iterator<Item = &Partition>| {
            let names = partitions.filter_map(|partition| partition.node.as_deref());
            // A node has several readers, each of which adds a part to its name.
            names
                .map(|name| name.rsplit_once('/').map_or(name, |(node, _)| node))
                .collect::<BTreeSet<_>>()
                .len()
        };
        let all = || self.partitions.iter().enumerate();
        Completeness {
            workers: nodes(&mut self.partitions.iter()),
            answered: nodes(&mut all().filter(|one| has(*one)).map(|(_, partition)| partition)),
            partitions: self.partitions.len(),
            missing: all().filter(|one| !has(*one)).map(|(place, _)| place as u32).collect(),
        }
    }
}

/// The records that a query sees, behind what was taken before.
fn new_rows(query: &DistributedQuery, base: u64, chunk: &RowChunk, done: Done) -> RowChunk {
    let is_seen = |time: &Millis| query.ends.is_none_or(|ends| *time < ends);
    let begun = chunk.arrivals.partition_point(|time| *time < query.begins);
    let new = chunk.rows.partition_point(|row| base + u64::from(*row) < done.next);
    let end = chunk.arrivals.partition_point(is_seen);
    let start = begun.max(new).min(end);
    chunk.range(start..end)
}

fn rows(mut bytes: &[u8]) -> Option<RowChunk> {
    RowChunk::decode(&mut bytes).ok().filter(|_| bytes.is_empty())
}

fn groups(query: &Arc<StandingQuery>, mut bytes: &[u8]) -> Option<Groups> {
    Groups::decode(query, &mut bytes).ok().filter(|_| bytes.is_empty())
}
