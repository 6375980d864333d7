//! The part of the node that was asked: takes the units of all workers, each record and each slice once, and tells up to which
//! time windows may be closed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_lang::plan::Window;
use swiftwater_live::{Groups, Partial, RowChunk, StandingQuery};

use crate::{Counts, DistributedQuery, NodeName, Output, QueryNumber, Unit};

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// The time that a window waits for partitions that are behind, in nanoseconds.
    pub wait_nanos: u64,
    /// Bytes of outputs of one partition that wait for their mark; with more, they are dropped, and the partition is missing.
    pub unmarked_bytes_max: usize,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits { wait_nanos: 1_000_000_000, unmarked_bytes_max: 256 << 20 }
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
    /// Outputs that wait for their mark, and their bytes.
    unmarked: HashMap<(NodeName, u32), (Vec<Output>, usize)>,
    /// Windows that end here or before are closed.
    closed: Millis,
    /// The end of the window that waits for partitions that are behind, and the beginning of that.
    waiting: Option<(Millis, u64)>,
}

#[derive(Debug)]
struct Served {
    query: DistributedQuery,
    /// By partition, the time from which on a worker had its events.
    from: BTreeMap<u32, Millis>,
}

impl Served {
    /// Its number, and that nothing of it was taken.
    fn nothing_of(&self) -> (QueryNumber, Done) {
        (self.query.number, Done { time: self.query.begins, next: 0 })
    }
}

/// The marks of a partition.
#[derive(Debug)]
struct Partition {
    node: Option<NodeName>,
    /// All queries but those that are behind have what is before this offset, and before this time.
    done: Done,
    /// The queries that have less: of which no worker has sent anything, or only one that is behind another.
    behind: BTreeMap<QueryNumber, Done>,
    /// Windows do not wait for it.
    is_missing: bool,
}

/// The part of a partition that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    time: Millis,
    next: u64,
}

impl Done {
    const NOTHING: Done = Done { time: Millis::MIN, next: 0 };

    fn max(self, other: Done) -> Done {
        Done { time: self.time.max(other.time), next: self.next.max(other.next) }
    }
}

impl Partition {
    /// The time up to which it is done for all queries.
    fn time(&self) -> Millis {
        self.behind.values().map(|done| done.time).chain([self.done.time]).min().unwrap_or(Millis::MIN)
    }
}

impl Server {
    /// A server of a topic with so many partitions, from a time on.
    pub fn new(limits: ServerLimits, partitions: u32) -> Server {
        let mut server = Server { limits, closed: Millis::MIN, ..Server::default() };
        server.set_partitions(partitions);
        server
    }

    /// The topic has so many partitions by now.
    pub fn set_partitions(&mut self, partitions: u32) {
        if self.partitions.len() < partitions as usize {
            let behind: BTreeMap<QueryNumber, Done> =
                self.queries.values().map(|served| served.nothing_of()).collect();
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
        let served = Served { query, from: BTreeMap::new() };
        let (number, nothing) = served.nothing_of();
        for partition in &mut self.partitions {
            partition.behind.insert(number, nothing);
        }
        self.queries.insert(number, served);
    }

    /// Serves a query no more.
    pub fn remove(&mut self, number: QueryNumber) {
        self.queries.remove(&number);
        for partition in &mut self.partitions {
            partition.behind.remove(&number);
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
        let partition = &mut self.partitions[unit.partition as usize];
        let marked = Done { time: mark.time, next: mark.next };
        let (mut accepted, mut lacking) = (Vec::new(), mark.late.clone());
        if !is_whole {
            outputs.clear();
        }
        for output in outputs {
            let query = output.query;
            let Some(served) = self.queries.get(&query) else { continue };
            let done = partition.behind.get(&query).copied().unwrap_or(partition.done);
            let Some(mut new) = accepted_of(&served.query, output, done) else {
                is_whole = false;
                continue;
            };
            // Windows were closed without what comes only now.
            if let Some(until) = new.drop_before(&served.query, self.closed) {
                lacking.push((query, until));
            }
            // A worker that began in the middle of a slice has a part of it.
            let begins = served.query.begins;
            if new.slices.iter().any(|(slice, _)| slice.start.max(begins) < mark.from) {
                lacking.push((query, mark.from));
            }
            accepted.push(new);
        }
        let is_known_by_worker = |query: &QueryNumber| *query < mark.queries;
        let done_now = partition.done.max(marked);
        let is_plain = is_whole
            && partition.behind.is_empty()
            && mark.since.0 <= partition.done.time
            && self.queries.last_key_value().is_none_or(|(last, _)| *last < mark.since.1);
        if !is_plain {
            for (query, served) in &self.queries {
                let before = partition.behind.get(query).copied().unwrap_or(partition.done);
                let begins = served.query.begins;
                // The worker has sent what it has of a query since it began, of others since its mark before.
                let since = if *query < mark.since.1 { mark.since.0 } else { mark.from.max(begins) };
                let now = if is_known_by_worker(query) { before.max(marked) } else { before };
                if is_known_by_worker(query) && !is_whole {
                    lacking.push((*query, mark.time));
                } else if is_known_by_worker(query) && since > before.time {
                    lacking.push((*query, since));
                }
                match now == done_now {
                    true => partition.behind.remove(query),
                    false => partition.behind.insert(*query, now),
                };
            }
        }
        for (query, from) in lacking {
            if let Some(served) = self.queries.get_mut(&query)
                && from > served.query.begins
            {
                let known = served.from.entry(unit.partition).or_insert(from);
                *known = from.max(*known);
            }
        }
        partition.node = Some(NodeName::clone(node));
        partition.done = done_now;
        // Windows wait for it again when it is behind by no more than they wait.
        let near = self.closed.saturating_sub_unsigned(self.limits.wait_nanos / 1_000_000);
        if partition.time() >= near {
            partition.is_missing = false;
        }
        accepted
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
        let start = served.map_or(start, |served| start.max(served.query.begins));
        let has = |(place, partition): (usize, &Partition)| {
            let from = served.and_then(|served| served.from.get(&(place as u32)));
            partition.time() >= end && from.is_none_or(|from| *from <= start)
        };
        let nodes = |partitions: &mut dyn Iterator<Item = &Partition>| {
            partitions.filter_map(|partition| partition.node.as_ref()).collect::<BTreeSet<_>>().len()
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

/// The new part of an output, behind what was taken before. None if it cannot be read.
fn accepted_of(query: &DistributedQuery, output: Output, done: Done) -> Option<Accepted> {
    let mut slices = Vec::new();
    for slice in output.slices.into_iter().filter(|slice| slice.end > done.time) {
        let groups = groups(&query.query, &slice.groups)?;
        slices.push((Partial { epoch: 0, start: slice.start, groups }, slice.end));
    }
    let mut rows = None;
    if let Some((base, bytes)) = output.rows {
        let mut bytes = &bytes[..];
        let chunk = RowChunk::decode(&mut bytes).ok().filter(|_| bytes.is_empty())?;
        let new =
            chunk.rows.iter().position(|row| base + u64::from(*row) >= done.next).unwrap_or(chunk.len());
        rows = Some(chunk.range(new..chunk.len())).filter(|chunk| !chunk.is_empty());
    }
    let mut counts = output.counts;
    counts.matches += rows.as_ref().map_or(0, |rows| rows.matched(rows.len()));
    Some(Accepted { query: query.number, counts, rows, slices })
}

fn groups(query: &Arc<StandingQuery>, mut bytes: &[u8]) -> Option<Groups> {
    Groups::decode(query, &mut bytes).ok().filter(|_| bytes.is_empty())
}
