//! A worker's part: the partitions of a topic that it reads, and the queries of the cluster over them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use swiftwater_event::{EventBatch, Millis};
use swiftwater_live::Index;

use crate::{
    DistributedQuery, Mark, NodeName, OperatorKey, Output, QueryNumber, Unit,
    operator::{Operator, OperatorNumber},
    partition::{Joining, Partition},
};

/// Limits of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Events of the last so many milliseconds are kept for queries of which the worker learns late, as far as
    /// `kept_bytes` of each partition allow.
    pub kept_ms: u64,
    /// Bytes of events that are kept of each partition.
    pub kept_bytes: usize,
    /// Bytes of events that are kept of all partitions together: each has an equal share at most.
    pub kept_bytes_of_all: usize,
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
            kept_bytes_of_all: 256 << 20,
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

impl Batch {
    /// It in parts with so many bytes of events at most, or one message: records of whole events are not cut.
    fn parts(self, bytes_max: usize) -> Vec<Batch> {
        if self.events.event_bytes() <= bytes_max {
            return vec![self];
        }
        let mut parts = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for message in self.offsets.chunk_by(|one, other| one == other) {
            let before = parts.last().map_or(0, |last: &Range<usize>| last.end);
            let end = start + message.len();
            let more: usize = (start..end).map(|row| self.events.event(row).len()).sum();
            if bytes + more > bytes_max && start > before {
                parts.push(before..start);
                bytes = 0;
            }
            bytes += more;
            start = end;
        }
        let before = parts.last().map_or(0, |last| last.end);
        parts.push(before..self.offsets.len());
        let part = |range: Range<usize>| {
            let rows: Vec<u32> = range.clone().map(|row| row as u32).collect();
            Batch {
                events: self.events.select(&rows),
                next: self.offsets.get(range.end).copied().unwrap_or(self.next),
                offsets: self.offsets[range.clone()].to_vec(),
                times: self.times[range].to_vec(),
            }
        };
        parts.into_iter().map(part).collect()
    }
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
    /// A worker before was done up to this time with the events before this offset: those from there on count at that time at least,
    /// as windows before it may be closed.
    pub done: (u64, Millis),
}

impl Place {
    /// The place of an offset behind which are all events from a time on, where no worker was before.
    pub fn new(offset: u64, from: Millis) -> Place {
        Place { offset, from, time: Millis::MIN, done: (0, Millis::MIN) }
    }
}

/// A query, the node that serves it, and the operator that computes it.
#[derive(Debug)]
struct QueryEntry {
    query: DistributedQuery,
    server: NodeName,
    operator: OperatorNumber,
}

/// The queries and partitions of a worker, of one topic.
#[derive(Default)]
pub struct Worker {
    limits: WorkerLimits,
    index: Index,
    operators: BTreeMap<OperatorNumber, Operator>,
    by_key: HashMap<OperatorKey, OperatorNumber>,
    last_operator: OperatorNumber,
    queries: BTreeMap<QueryNumber, QueryEntry>,
    /// The queries that have joined operators since partitions were told, and the operators whose queries have changed since.
    joined: BTreeMap<OperatorNumber, Vec<QueryNumber>>,
    changed: BTreeSet<OperatorNumber>,
    /// The number of looks at queries that have joined.
    round: u64,
    /// The time of the last query that was taken up, in microseconds since 1970.
    now_micros: i64,
    /// All queries with lower numbers are known.
    queries_next: QueryNumber,
    /// Queries that this worker cannot compute, with their servers.
    unreadable: BTreeMap<QueryNumber, NodeName>,
    /// The servers of the queries, and the number of their queries.
    servers: BTreeMap<NodeName, usize>,
    /// The beginnings of all queries, of those with windows over groups, and of those with groups until they end.
    begins: BTreeSet<(Millis, QueryNumber)>,
    begins_windows: BTreeSet<(Millis, QueryNumber)>,
    begins_groups: BTreeSet<(Millis, QueryNumber)>,
    /// The lengths of windows' slices, and the number of queries that have each.
    spans: BTreeMap<u64, usize>,
    partitions: BTreeMap<u32, Partition>,
}

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

    /// The number of operators that compute them.
    pub fn operator_count(&self) -> usize {
        self.operators.len()
    }

    /// The bytes of events that are kept of each partition.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> impl Iterator<Item = usize> {
        self.partitions.values().map(|partition| partition.kept_bytes)
    }

    /// The earliest time at which one of its queries begins.
    pub fn first_begin(&self) -> Option<Millis> {
        self.begins.first().map(|first| first.0)
    }

    /// The offset that is read next, and the time up to which a partition is done.
    pub fn progress(&self, partition: u32) -> Option<(u64, Millis)> {
        self.partitions.get(&partition).map(|state| (state.next, state.time))
    }

    /// Takes up a query that a node serves; queries come by ascending numbers. Events that it should have seen and that are kept are
    /// looked at again.
    pub fn add_query(&mut self, mut query: DistributedQuery, server: NodeName, now_micros: i64) {
        let number = query.number;
        if self.queries.contains_key(&number) {
            return;
        }
        // What was sent so far is of the queries that were known then.
        if number < self.queries_next {
            return self.add_unreadable(number, server);
        }
        self.queries_next = number + 1;
        self.now_micros = now_micros;
        let shared = self.by_key.get(&query.operator).copied();
        let operator = shared.unwrap_or_else(|| {
            self.last_operator += 1;
            self.by_key.insert(query.operator, self.last_operator);
            self.operators.insert(self.last_operator, Operator::new(&query));
            self.last_operator
        });
        if let Some(state) = self.operators.get_mut(&operator) {
            state.add(&query, &server);
            // One compiled query for all.
            query.query = Arc::clone(&state.query);
            query.matched = Arc::clone(&state.query);
        }
        self.joined.entry(operator).or_default().push(number);
        self.changed.insert(operator);
        *self.servers.entry(NodeName::clone(&server)).or_default() += 1;
        self.begins.insert((query.begins, number));
        match query.span_ms {
            Some(span) => {
                self.begins_windows.insert((query.begins, number));
                *self.spans.entry(span).or_default() += 1;
            }
            None if query.has_groups() => {
                self.begins_groups.insert((query.begins, number));
            }
            None => {}
        }
        self.queries.insert(number, QueryEntry { query, server, operator });
    }

    /// Takes up a query that this worker cannot compute: its server is told that all partitions are missing.
    pub fn add_unreadable(&mut self, number: QueryNumber, server: NodeName) {
        self.queries_next = self.queries_next.max(number + 1);
        if self.unreadable.insert(number, NodeName::clone(&server)).is_none() {
            for partition in self.partitions.values_mut() {
                partition.late.entry(NodeName::clone(&server)).or_default().push((number, Millis::MAX));
            }
            *self.servers.entry(server).or_default() += 1;
        }
    }

    /// Forgets a query that has ended.
    pub fn remove_query(&mut self, number: QueryNumber) {
        if let Some(server) = self.unreadable.remove(&number) {
            self.remove_server(&server);
        }
        // Those that joined with it are told of first.
        if !self.joined.is_empty() {
            self.settle();
        }
        let Some(QueryEntry { query, server, operator }) = self.queries.remove(&number) else { return };
        self.remove_server(&server);
        self.begins.remove(&(query.begins, number));
        self.begins_windows.remove(&(query.begins, number));
        self.begins_groups.remove(&(query.begins, number));
        if let Some(span) = query.span_ms
            && let Some(count) = self.spans.get_mut(&span)
        {
            *count -= 1;
            if *count == 0 {
                self.spans.remove(&span);
            }
        }
        let Some(state) = self.operators.get_mut(&operator) else { return };
        let class = state.remove(&query, &server);
        if !state.servers.is_empty() {
            self.changed.insert(operator);
            self.partitions.values_mut().for_each(|partition| partition.forget(operator, number, class));
            return;
        }
        self.by_key.remove(&query.operator);
        self.operators.remove(&operator);
        self.changed.remove(&operator);
        self.index = self.index.without(operator);
        self.partitions.values_mut().for_each(|partition| partition.forget_operator(operator));
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

    /// Tells the partitions of the queries that have joined or left since the last call, before more is read or sent.
    fn settle(&mut self) {
        if self.changed.is_empty() {
            return;
        }
        self.round += 1;
        for number in std::mem::take(&mut self.changed) {
            let Some(operator) = self.operators.get_mut(&number) else { continue };
            operator.cut();
            let Some(joined) = self.joined.remove(&number) else { continue };
            let is_new = operator.is_new();
            if is_new {
                self.index = self.index.with_slices(number, &operator.query, &operator.plan);
            }
            let entries = joined.iter().filter_map(|query| self.queries.get(query));
            let queries = entries.map(|entry| (&entry.query, &entry.server)).collect();
            let joining = Joining { number, operator, queries, is_new, round: self.round };
            for partition in self.partitions.values_mut() {
                partition.join(&joining, &self.limits, self.now_micros);
            }
            operator.told();
        }
    }

    /// Begins to read a partition at a place.
    pub fn start(&mut self, partition: u32, place: Place) {
        self.settle();
        let mut state = Partition::new(place);
        for (query, server) in &self.unreadable {
            state.late.entry(NodeName::clone(server)).or_default().push((*query, Millis::MAX));
        }
        self.partitions.insert(partition, state);
        let limits = self.limits_of_each();
        self.partitions.values_mut().for_each(|partition| partition.drop_old(&limits));
    }

    /// The limits, with the share of each partition.
    fn limits_of_each(&self) -> WorkerLimits {
        let share = self.limits.kept_bytes_of_all / self.partitions.len().max(1);
        WorkerLimits { kept_bytes: self.limits.kept_bytes.min(share), ..self.limits }
    }

    /// Reads a partition no more; another worker does.
    pub fn stop(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// Takes the next events of a partition. `read_micros` is now, in microseconds since 1970, for the times that records tell.
    pub fn take(&mut self, partition: u32, batch: Batch, read_micros: i64) {
        self.settle();
        let limits = self.limits_of_each();
        let Some(state) = self.partitions.get_mut(&partition) else { return };
        for part in batch.parts(self.limits.record_bytes_max) {
            state.take(part, &self.index, &self.operators, &limits, read_micros);
        }
    }

    /// No event of a partition that is before `next` or is yet to come is before this time.
    pub fn advance(&mut self, partition: u32, next: u64, time: Millis) {
        self.settle();
        let limits = self.limits_of_each();
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.next = state.next.max(next);
            state.time = state.time.max(time);
            state.advance_to(next);
            state.drop_old(&limits);
        }
    }

    /// Takes out the units to send, each with its server: results, slices that are over, and marks that are new.
    pub fn flush(&mut self) -> Vec<(NodeName, Unit)> {
        self.settle();
        let mut units = Vec::new();
        let bytes_max = self.limits.unit_bytes_max;
        for (&number, partition) in &mut self.partitions {
            let mut by_server = partition.flush(&self.operators, (self.round, self.queries_next), bytes_max);
            let mut late = std::mem::take(&mut partition.late);
            let mark = (partition.next, partition.time, self.queries_next);
            if by_server.is_empty() && late.is_empty() && partition.marked == Some(mark) {
                continue;
            }
            let before = partition.marked.replace(mark);
            let since = before.map_or((partition.from, 0), |(_, time, queries)| (time, queries));
            for server in self.servers.keys() {
                let mark = Mark {
                    next: partition.next,
                    time: partition.time,
                    queries: self.queries_next,
                    from: partition.from,
                    since,
                    late: late.remove(server).unwrap_or_default(),
                };
                let outputs = by_server.remove(server).unwrap_or_default();
                let units_of = in_units(number, outputs, mark, bytes_max).into_iter();
                units.extend(units_of.map(|unit| (NodeName::clone(server), unit)));
            }
        }
        units
    }

    /// The place at which a successor of a partition begins: no slice that is open now began before, as far as
    /// [`WorkerLimits::resume_ms_max`] allows. The cost does not depend on the number of queries: slices of windows may have begun
    /// as long ago as the longest of them lasts.
    pub fn resume(&self, partition: u32) -> Option<Place> {
        let state = self.partitions.get(&partition)?;
        let windows = self.spans.last_key_value().zip(self.begins_windows.first());
        let windows =
            windows.map(|((span, _), (begins, _))| state.time.saturating_sub_unsigned(*span).max(*begins));
        let groups = self.begins_groups.first().map(|(begins, _)| *begins);
        let open = windows.into_iter().chain(groups).min().unwrap_or(state.time).min(state.time);
        Some(state.place_before(open, self.limits.kept_ms))
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
