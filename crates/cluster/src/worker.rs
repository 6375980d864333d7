//! A worker's part: the partitions of a topic that it reads, and the queries of the cluster over them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use swiftwater_event::{EventBatch, Millis};
use swiftwater_live::{Index, Partial, QueryStep, RowChunk, Shard, SourcePosition, StepInput};

use crate::{Counts, DistributedQuery, Mark, NodeName, Output, QueryNumber, Slice, Unit};

/// Limits of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Events of the last so many milliseconds are kept for queries of which the worker learns late, as far as
    /// `kept_bytes` of each partition allow.
    pub kept_ms: u64,
    /// Bytes of events that are kept of each partition.
    pub kept_bytes: usize,
    /// Bytes of one query's records of one batch; with more, they are cut.
    pub record_bytes_max: usize,
    /// Bytes of a unit, about; what is more goes into further ones.
    pub unit_bytes_max: usize,
    /// A successor of a partition begins at most so many milliseconds back.
    pub resume_ms_max: u64,
}

impl Default for WorkerLimits {
    fn default() -> WorkerLimits {
        WorkerLimits {
            kept_ms: 2_000,
            kept_bytes: 8 << 20,
            record_bytes_max: 4 << 20,
            unit_bytes_max: 512 << 10,
            resume_ms_max: 60_000,
        }
    }
}

/// Events of a partition.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The events.
    pub events: EventBatch,
    /// The offset of each event's message, ascending.
    pub offsets: Vec<u64>,
    /// The time of each event's message.
    pub times: Vec<Millis>,
    /// The next offset to read.
    pub next: u64,
}

/// A place in a partition at which a worker begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The offset that is read first.
    pub offset: u64,
    /// All events from this time on are behind it.
    pub from: Millis,
    /// The time of the events before it: those behind it count at that time if their messages say an earlier one. The least of all
    /// times if it is not known.
    pub time: Millis,
}

/// A query, and the node that serves it.
#[derive(Debug)]
struct QueryEntry {
    query: DistributedQuery,
    server: NodeName,
}

/// The queries and partitions of a worker, of one topic.
#[derive(Default)]
pub struct Worker {
    limits: WorkerLimits,
    index: Index,
    queries: BTreeMap<QueryNumber, QueryEntry>,
    /// All queries with lower numbers are known.
    queries_next: QueryNumber,
    /// Queries that this worker cannot compute, with their servers.
    unreadable: BTreeMap<QueryNumber, NodeName>,
    /// The servers of the queries, and the number of their queries.
    servers: BTreeMap<NodeName, usize>,
    partitions: BTreeMap<u32, Partition>,
}

/// A partition that the worker reads.
struct Partition {
    shard: Shard,
    next: u64,
    /// All events before this time are in; the least of all times before the first event.
    time: Millis,
    /// Events are seen from this time on.
    from: Millis,
    kept: VecDeque<Batch>,
    kept_bytes: usize,
    /// All events from this time on are kept.
    kept_from: Millis,
    outputs: BTreeMap<QueryNumber, Pending>,
    /// The ends of the slices that queries have begun, the first of each.
    due: BTreeSet<(Millis, QueryNumber)>,
    due_of: HashMap<QueryNumber, Millis>,
    late: BTreeMap<QueryNumber, Millis>,
    /// Offsets of earlier times, for a successor.
    places: VecDeque<(Millis, u64)>,
    /// All events from this time on are behind the first of them.
    places_from: Millis,
    /// The mark that was sent last.
    marked: Option<(u64, Millis, QueryNumber)>,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition {
            shard: Shard::default(),
            next: 0,
            time: Millis::MIN,
            from: Millis::MIN,
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_from: Millis::MIN,
            outputs: BTreeMap::new(),
            due: BTreeSet::new(),
            due_of: HashMap::new(),
            late: BTreeMap::new(),
            places: VecDeque::new(),
            places_from: Millis::MIN,
            marked: None,
        }
    }
}

/// Results of a query that are not sent yet.
#[derive(Default)]
struct Pending {
    counts: Counts,
    rows: Vec<(u64, RowChunk)>,
    slices: Vec<Slice>,
}

/// The distance of the offsets that are kept for a successor.
const PLACE_MS: Millis = 250;

impl Worker {
    /// A worker without partitions and queries.
    pub fn new(limits: WorkerLimits) -> Worker {
        Worker { limits, ..Worker::default() }
    }

    /// The partitions that it reads.
    pub fn partitions(&self) -> impl Iterator<Item = u32> {
        self.partitions.keys().copied()
    }

    /// The number of queries.
    pub fn query_count(&self) -> usize {
        self.queries.len()
    }

    /// The earliest time at which one of its queries begins.
    pub fn first_begin(&self) -> Option<Millis> {
        self.queries.values().map(|entry| entry.query.begins).min()
    }

    /// The offset that is read next, and the time up to which a partition is done.
    pub fn progress(&self, partition: u32) -> Option<(u64, Millis)> {
        self.partitions.get(&partition).map(|state| (state.next, state.time))
    }

    /// Takes up a query that a node serves. Events that it should have seen and that are kept are looked at again.
    pub fn add_query(&mut self, query: DistributedQuery, server: NodeName, now_micros: i64) {
        let number = query.number;
        self.queries_next = self.queries_next.max(number + 1);
        if self.queries.contains_key(&number) {
            return;
        }
        self.index = self.index.with_slices(number, &query.query, &query.slices());
        *self.servers.entry(NodeName::clone(&server)).or_default() += 1;
        let entry = QueryEntry { query, server };
        for partition in self.partitions.values_mut().filter(|partition| partition.time >= entry.query.begins)
        {
            partition.replay_kept(&entry.query, &self.limits, now_micros);
        }
        self.queries.insert(number, entry);
    }

    /// Takes up a query that this worker cannot compute: its server is told that all partitions are missing.
    pub fn add_unreadable(&mut self, number: QueryNumber, server: NodeName) {
        self.queries_next = self.queries_next.max(number + 1);
        if self.unreadable.insert(number, NodeName::clone(&server)).is_none() {
            *self.servers.entry(server).or_default() += 1;
        }
    }

    /// Forgets a query that has ended.
    pub fn remove_query(&mut self, number: QueryNumber) {
        if let Some(server) = self.unreadable.remove(&number) {
            self.remove_server(&server);
        }
        let Some(entry) = self.queries.remove(&number) else { return };
        self.index = self.index.without(number);
        self.remove_server(&entry.server);
        for partition in self.partitions.values_mut() {
            partition.forget(number);
        }
    }

    fn remove_server(&mut self, server: &NodeName) {
        if let Some(count) = self.servers.get_mut(server) {
            *count -= 1;
            if *count == 0 {
                self.servers.remove(server);
            }
        }
    }

    /// The queries with numbers below this are all known.
    pub fn set_queries_next(&mut self, next: QueryNumber) {
        self.queries_next = self.queries_next.max(next);
    }

    /// Begins to read a partition at a place.
    pub fn start(&mut self, partition: u32, place: Place) {
        let Place { offset: next, from, time } = place;
        self.partitions.insert(
            partition,
            Partition { next, time, from, kept_from: from, places_from: from, ..Partition::default() },
        );
    }

    /// Reads a partition no more; another worker does.
    pub fn stop(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// Takes the next events of a partition. `read_micros` is now, in microseconds since 1970, for the times that records tell.
    pub fn take(&mut self, partition: u32, batch: Batch, read_micros: i64) {
        let Some(state) = self.partitions.get_mut(&partition) else { return };
        state.take(batch, &self.index, &self.queries, &self.limits, read_micros);
    }

    /// No event of a partition that is before `next` or is yet to come is before this time.
    pub fn advance(&mut self, partition: u32, next: u64, time: Millis) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.next = state.next.max(next);
            state.time = state.time.max(time);
        }
    }

    /// Takes out the units to send, each with its server: results, slices that are over, and marks that are new.
    pub fn flush(&mut self) -> Vec<(NodeName, Unit)> {
        let mut units = Vec::new();
        for (&number, partition) in &mut self.partitions {
            partition.flush_slices(&self.queries, self.limits.unit_bytes_max);
            let mut by_server: BTreeMap<NodeName, Vec<Output>> = BTreeMap::new();
            for (query, pending) in std::mem::take(&mut partition.outputs) {
                let Some(entry) = self.queries.get(&query) else { continue };
                let outputs = by_server.entry(NodeName::clone(&entry.server)).or_default();
                pending.outputs(query, self.limits.unit_bytes_max, outputs);
            }
            let mark = (partition.next, partition.time, self.queries_next);
            if by_server.is_empty() && partition.marked == Some(mark) {
                continue;
            }
            let before = partition.marked.replace(mark);
            let since = before.map_or((partition.from, 0), |(_, time, queries)| (time, queries));
            for server in self.servers.keys() {
                let mine = |query: &QueryNumber| {
                    self.queries.get(query).is_some_and(|entry| entry.server == *server)
                };
                let late = partition.late.iter().filter(|(query, _)| mine(query));
                let unreadable = self.unreadable.iter().filter(|(_, of)| *of == server);
                let mark = Mark {
                    next: partition.next,
                    time: partition.time,
                    queries: self.queries_next,
                    from: partition.from,
                    since,
                    late: late
                        .map(|(query, from)| (*query, *from))
                        .chain(unreadable.map(|(query, _)| (*query, Millis::MAX)))
                        .collect(),
                };
                let outputs = by_server.remove(server).unwrap_or_default();
                let server = || NodeName::clone(server);
                units.extend(
                    in_units(number, outputs, mark, self.limits.unit_bytes_max)
                        .into_iter()
                        .map(|unit| (server(), unit)),
                );
            }
        }
        units
    }

    /// The place at which a successor of a partition begins: no slice that is open now began before, as far as [`WorkerLimits::resume_ms_max`] allows.
    pub fn resume(&self, partition: u32) -> Option<Place> {
        let state = self.partitions.get(&partition)?;
        let begun = self.queries.values().map(|entry| &entry.query);
        let open = begun
            .filter(|query| query.has_groups() && query.begins <= state.time)
            .map(|query| query.cuts.start_of(state.time).max(query.begins));
        // A successor also looks at what this worker keeps for queries that it does not know yet.
        let recent = state.time.saturating_sub_unsigned(self.limits.kept_ms);
        let wanted = open.chain([recent]).min().unwrap_or(recent).max(state.from);
        // Events of the same time may be before an offset, but none of a later time.
        let earlier = state.places.iter().rev().find(|(time, _)| *time < wanted);
        Some(match (earlier, state.places.front()) {
            (Some((time, offset)), _) => Place { offset: *offset, from: wanted, time: *time },
            (None, Some((time, offset))) => {
                Place { offset: *offset, from: wanted.max(state.places_from), time: *time }
            }
            (None, None) => Place { offset: state.next, from: state.time.max(state.from), time: state.time },
        })
    }
}

/// Outputs in units of about this size, the last of which has the mark.
fn in_units(partition: u32, outputs: Vec<Output>, mark: Mark, bytes_max: usize) -> Vec<Unit> {
    let mut units = vec![Unit { partition, outputs: Vec::new(), mark: None }];
    let mut bytes = 0;
    for output in outputs {
        let more = output.bytes();
        if bytes > 0 && bytes + more > bytes_max {
            units.push(Unit { partition, outputs: Vec::new(), mark: None });
            bytes = 0;
        }
        bytes += more;
        units.last_mut().expect("there is a first").outputs.push(output);
    }
    units.last_mut().expect("there is a first").mark = Some(mark);
    units
}

impl Pending {
    /// The outputs, each of about this size.
    fn outputs(self, query: QueryNumber, bytes_max: usize, outputs: &mut Vec<Output>) {
        let mut current = Output { query, counts: self.counts, rows: None, slices: Vec::new() };
        for slice in self.slices {
            if !current.slices.is_empty() && current.bytes() + slice.groups.len() > bytes_max {
                let full = Output { query, counts: Counts::default(), rows: None, slices: Vec::new() };
                outputs.push(std::mem::replace(&mut current, full));
            }
            current.slices.push(slice);
        }
        let mut rows = self.rows.into_iter().map(|(first, chunk)| {
            let mut bytes = Vec::new();
            chunk.encode(&mut bytes);
            (first, Bytes::from(bytes))
        });
        current.rows = rows.next();
        outputs.push(current);
        outputs.extend(rows.map(|rows| Output {
            query,
            counts: Counts::default(),
            rows: Some(rows),
            slices: Vec::new(),
        }));
    }
}

impl Partition {
    fn take(
        &mut self,
        mut batch: Batch,
        index: &Index,
        queries: &BTreeMap<QueryNumber, QueryEntry>,
        limits: &WorkerLimits,
        now_micros: i64,
    ) {
        if batch.next <= self.next && batch.offsets.iter().all(|offset| *offset < self.next) {
            return;
        }
        // Time never goes back: an event whose message says an earlier time counts at the latest so far.
        for time in &mut batch.times {
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
        if batch.events.is_empty() {
            return;
        }
        for (query, step) in self.step(index, &batch, limits, now_micros) {
            if let Some(entry) = queries.get(&query) {
                self.accept(&entry.query, step, &batch, 0);
            }
        }
        self.keep(batch, limits);
    }

    /// Matches events, and returns the steps of the queries.
    fn step(
        &mut self,
        index: &Index,
        batch: &Batch,
        limits: &WorkerLimits,
        now_micros: i64,
    ) -> Vec<(QueryNumber, QueryStep)> {
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
        steps.into_iter().map(|step| (step.number, step)).collect()
    }

    /// Takes the step of a query on a batch, of which it had not seen the events from `first` on.
    fn accept(&mut self, query: &DistributedQuery, step: QueryStep, batch: &Batch, first: usize) {
        let pending = self.outputs.entry(query.number).or_default();
        let seen = batch.times[first..].iter().filter(|time| query.sees(**time)).count();
        let whole = seen == batch.times.len() - first;
        pending.counts.add(Counts {
            candidates: step.candidates,
            residual_tests: step.residual_tests,
            // Records tell which of them were seen; of groups only batches at the ends of a query's life count more.
            matches: if step.rows.is_some() || (!whole && seen == 0) { 0 } else { step.matches },
            mistyped: step.mistyped,
            expression_errors: step.expression_errors,
        });
        if query.has_groups() {
            let start = batch.times[first..].iter().find(|time| query.sees(**time));
            if let Some(start) = start
                && !self.due_of.contains_key(&query.number)
            {
                let end = query.cuts.end_of(*start);
                self.due_of.insert(query.number, end);
                self.due.insert((end, query.number));
            }
            return;
        }
        let Some(chunk) = step.rows else { return };
        let start = chunk.arrivals.iter().position(|time| query.sees(*time)).unwrap_or(chunk.len());
        let end = start + chunk.arrivals[start..].iter().take_while(|time| query.sees(**time)).count();
        let mut chunk = chunk.range(start..end);
        let Some(row) = chunk.rows.first() else { return };
        let base = batch.offsets[*row as usize];
        for row in &mut chunk.rows {
            // Offsets of one batch are no further apart than its messages.
            *row = u32::try_from(batch.offsets[*row as usize] - base).unwrap_or(u32::MAX);
        }
        pending.rows.push((base, chunk));
    }

    /// Keeps events for queries that come late.
    fn keep(&mut self, batch: Batch, limits: &WorkerLimits) {
        self.kept_bytes += batch.events.event_bytes();
        self.kept.push_back(batch);
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

    /// Shows a query the kept events that it should have seen.
    fn replay_kept(&mut self, query: &DistributedQuery, limits: &WorkerLimits, now_micros: i64) {
        let kept = std::mem::take(&mut self.kept);
        if self.kept_from > query.begins {
            self.late.insert(query.number, self.kept_from);
        }
        let index = Index::default().with_slices(query.number, &query.query, &query.slices());
        for batch in &kept {
            if !batch.times.iter().any(|time| query.sees(*time)) {
                continue;
            }
            for (_, step) in self.step(&index, batch, limits, now_micros) {
                self.accept(query, step, batch, 0);
            }
        }
        self.kept = kept;
    }

    fn forget(&mut self, number: QueryNumber) {
        self.shard.remove(number);
        self.outputs.remove(&number);
        self.late.remove(&number);
        if let Some(end) = self.due_of.remove(&number) {
            self.due.remove(&(end, number));
        }
    }

    /// Takes out the slices that are over.
    fn flush_slices(&mut self, queries: &BTreeMap<QueryNumber, QueryEntry>, bytes_max: usize) {
        while let Some((end, number)) = self.due.first().copied().filter(|(end, _)| *end <= self.time) {
            self.due.remove(&(end, number));
            self.due_of.remove(&number);
            let Some(entry) = queries.get(&number) else { continue };
            let query = &entry.query;
            let flushed = self.shard.flush(number, query.cuts.start_of(self.time));
            if !flushed.is_empty() {
                let end = query.cuts.end_of(self.time);
                self.due_of.insert(number, end);
                self.due.insert((end, number));
            }
            let pending = self.outputs.entry(number).or_default();
            for Partial { start, groups, .. } in flushed {
                if !query.sees(start) {
                    continue;
                }
                let end = query.cuts.end_of(start);
                let parts = groups.encode(bytes_max).into_iter();
                pending.slices.extend(parts.map(|groups| Slice { start, end, groups: groups.into() }));
            }
        }
    }
}
