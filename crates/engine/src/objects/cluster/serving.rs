//! The queries of a stream that this node was asked: units of all workers become their results.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use swiftwater_cluster::{Accepted, DistributedQuery, NodeName, QueryNumber, Server, ServerLimits, Unit};
use swiftwater_event::{Millis, StreamName};
use swiftwater_live::QueryStep;
use swiftwater_runtime::{
    ClusterMeta,
    lock_order::OrderedMutex,
    parts::{Coverage, RemoteResult, Stream},
};

use crate::{config::ClusterConfig, shared::Shared};

/// A look that comes so long after the one before tells nothing of partitions that are behind: their units may not have been read.
const TICKS_LATE_NANOS: u64 = 200_000_000;

/// The time that a query has to begin on this node after it was read back.
const BEGIN_NANOS_MAX: u64 = 10_000_000_000;

/// The queries of a stream that this node serves.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) name: StreamName,
    /// The stream on which those stand whose windows close without partitions that are behind.
    stream: Arc<Stream>,
    /// The stream of those whose windows wait for all partitions.
    patient: Arc<Stream>,
    /// The queries that were read back, and that are not added yet.
    begin_soon: Arc<OrderedMutex<BTreeSet<QueryNumber>>>,
    pub(super) state: Arc<State>,
}

/// A query that is about to be added: the units of its stream wait for it.
#[derive(Debug)]
pub(super) struct BeginsSoon(Arc<OrderedMutex<BTreeSet<QueryNumber>>>, QueryNumber);

impl Drop for BeginsSoon {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// The state by which each emit says which partitions it has.
#[derive(Debug)]
pub(super) struct State {
    topic: Box<str>,
    pub(super) served: OrderedMutex<Served>,
}

#[derive(Debug)]
pub(super) struct Served {
    limits: ServerLimits,
    pub(super) server: Server,
    pub(super) queries: BTreeMap<QueryNumber, Query>,
    /// The streams of those that this node computes from events: each has one of its own.
    own: BTreeMap<QueryNumber, Arc<Stream>>,
    /// The same by their keys, and those that stand by their numbers in this process.
    by_key: HashMap<String, QueryNumber>,
    numbers: HashMap<u64, QueryNumber>,
    /// The time of the last look.
    ticked: u64,
    /// Those that do not stand yet.
    waiting: BTreeSet<QueryNumber>,
    /// Numbers in this process of those that have ended, and were not known to stand.
    ended: BTreeSet<u64>,
}

#[derive(Debug)]
pub(super) struct Query {
    key: String,
    /// Its number in this process, once it stands.
    number: Arc<OnceLock<u64>>,
    /// The stream on which it stands.
    pub(super) stream: Arc<Stream>,
    /// The time by which it must stand.
    begin_by: Option<u64>,
    /// It outlives this node.
    is_detached: bool,
    /// Others go on with it: it is not ended there when it ends here.
    is_others: bool,
    /// The reason why it is to end, as soon as it stands.
    failed: Option<&'static str>,
}

impl Coverage for State {
    fn of(&self, query: u64, window: Option<(Millis, Millis)>) -> Option<ClusterMeta> {
        let mut served = self.served.lock();
        let number = match served.numbers.get(&query) {
            Some(number) => *number,
            None => {
                served.look_for_begun();
                *served.numbers.get(&query)?
            }
        };
        let now = served.server.time().unwrap_or(Millis::MIN);
        let (start, end) = window.unwrap_or((Millis::MIN, now));
        let found = served.server.completeness(number, start, end);
        let name = |partition: &u32| format!("{}/{partition}", self.topic).into();
        Some(ClusterMeta {
            workers: found.workers,
            answered: found.answered,
            partitions: found.partitions,
            missing: found.missing.iter().map(name).collect(),
        })
    }
}

impl Served {
    /// Looks which of those that wait have begun.
    fn look_for_begun(&mut self) {
        let Served { queries, numbers, waiting, .. } = self;
        waiting.retain(|number| match queries.get(number).map(|query| query.number.get()) {
            Some(Some(own)) => {
                numbers.insert(*own, *number);
                false
            }
            Some(None) => true,
            None => false,
        });
    }

    /// Forgets a query; answers its key, if it is to be ended everywhere.
    fn remove(&mut self, number: QueryNumber) -> Option<String> {
        let query = self.queries.remove(&number)?;
        self.server.remove(number);
        self.waiting.remove(&number);
        self.own.remove(&number);
        self.by_key.remove(&query.key);
        if let Some(own) = query.number.get() {
            self.numbers.remove(own);
        }
        (!query.is_others).then_some(query.key)
    }

    /// Those that have not begun, and will not.
    fn refused(&mut self, nanos: u64) -> Vec<QueryNumber> {
        let Served { queries, waiting, .. } = self;
        let mut refused = Vec::new();
        for number in &*waiting {
            let Some(query) = queries.get_mut(number) else { continue };
            // Where nobody else holds the place of its number, it was refused.
            let begins = Arc::strong_count(&query.number) > 1
                && *query.begin_by.get_or_insert(nanos + BEGIN_NANOS_MAX) > nanos;
            if !begins && query.number.get().is_none() {
                refused.push(*number);
            }
        }
        refused
    }
}

impl Serving {
    pub(super) fn new(name: StreamName, topic: Box<str>, config: &ClusterConfig) -> Arc<Serving> {
        let limits = ServerLimits {
            wait_nanos: config.partial_wait.as_nanos() as u64,
            event_bytes_per_second: config.event_bytes_per_second,
            ..ServerLimits::default()
        };
        let served = Served {
            limits,
            server: Server::new(limits, 0),
            queries: BTreeMap::new(),
            own: BTreeMap::new(),
            by_key: HashMap::new(),
            numbers: HashMap::new(),
            ticked: 0,
            waiting: BTreeSet::new(),
            ended: BTreeSet::new(),
        };
        let state = Arc::new(State { topic, served: OrderedMutex::new(served) });
        let stream = || {
            let coverage: Arc<dyn Coverage> = Arc::<State>::clone(&state);
            Arc::new(Stream::remote(name.clone(), coverage))
        };
        let (stream, patient) = (stream(), stream());
        Arc::new(Serving { name, stream, patient, begin_soon: Arc::default(), state })
    }

    /// Lets units wait for a query that workers may know already.
    pub(super) fn begins_soon(&self, number: QueryNumber) -> BeginsSoon {
        self.begin_soon.lock().insert(number);
        BeginsSoon(Arc::clone(&self.begin_soon), number)
    }

    /// Serves a query, which is to stand soon on the stream that this returns: if the node computes it from events, on one of its own, of
    /// so many shards.
    pub(super) fn add(
        &self,
        query: DistributedQuery,
        key: String,
        number: Arc<OnceLock<u64>>,
        (shards, is_detached): (usize, bool),
    ) -> Arc<Stream> {
        let mut served = self.state.served.lock();
        let stream = if query.is_of_events() {
            let coverage: Arc<dyn Coverage> = Arc::<State>::clone(&self.state);
            let own = Arc::new(Stream::of_events(self.name.clone(), coverage, shards));
            served.own.insert(query.number, Arc::clone(&own));
            own
        } else if query.waits {
            Arc::clone(&self.patient)
        } else {
            Arc::clone(&self.stream)
        };
        served.waiting.insert(query.number);
        served.by_key.insert(key.clone(), query.number);
        let standing = Query {
            key,
            number,
            stream: Arc::clone(&stream),
            begin_by: None,
            is_detached,
            is_others: false,
            failed: None,
        };
        served.queries.insert(query.number, standing);
        served.server.add(query);
        stream
    }

    /// Ends the query with this key now, or when it stands; with `is_others`, other nodes go on with it.
    pub(super) fn fail(&self, key: &str, why: &'static str, is_others: bool) {
        let served = &mut *self.state.served.lock();
        let query = served.by_key.get(key).and_then(|number| served.queries.get_mut(number));
        if let Some(query) = query {
            query.is_others |= is_others;
            query.failed = Some(why);
        }
    }

    /// Ends the queries that stand and are to end.
    fn end_failed(&self, shared: &Shared) {
        let failed: Vec<_> = {
            let mut served = self.state.served.lock();
            let queries = served.queries.values_mut().filter(|query| query.number.get().is_some());
            let failed = |query: &mut Query| {
                Some((Arc::clone(&query.stream), *query.number.get()?, query.failed.take()?))
            };
            queries.filter_map(failed).collect()
        };
        for (stream, number, why) in failed {
            shared.fail_remote(&stream, Some(number), why);
        }
    }

    /// Ends all queries.
    pub(super) fn fail_all(&self, shared: &Shared, why: &'static str) {
        for query in self.state.served.lock().queries.values_mut() {
            query.failed = Some(why);
        }
        for stream in self.streams() {
            shared.fail_remote(&stream, None, why);
        }
    }

    /// The streams that queries stand on.
    fn streams(&self) -> Vec<Arc<Stream>> {
        let own = self.state.served.lock().own.values().cloned().collect::<Vec<_>>();
        own.into_iter().chain([Arc::clone(&self.stream), Arc::clone(&self.patient)]).collect()
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.state.served.lock().by_key.keys().cloned().collect()
    }

    /// The topic is another one: offsets begin anew. The queries end with an error.
    pub(super) fn reset(&self, shared: &Shared) {
        {
            let mut served = self.state.served.lock();
            served.server = Server::new(served.limits, 0);
            // The server knows none of these any more, whether they stand or are about to.
            for query in served.queries.values_mut() {
                query.failed = Some("the topic was deleted and made again");
            }
        }
        self.end_failed(shared);
    }

    pub(super) fn set_partitions(&self, partitions: u32) {
        self.state.served.lock().server.set_partitions(partitions);
    }

    /// The last query that was read back and does not stand yet. Units that came before a later one have nothing of that.
    pub(super) fn last_to_begin(&self) -> Option<QueryNumber> {
        let soon = self.begin_soon.lock().last().copied();
        soon.max(self.state.served.lock().waiting.last().copied())
    }

    /// True if a query up to this one was read back and does not stand yet.
    pub(super) fn waits_for_begin(&self, last: Option<QueryNumber>) -> bool {
        let Some(last) = last else { return false };
        if self.begin_soon.lock().first().is_some_and(|first| *first <= last) {
            return true;
        }
        let mut served = self.state.served.lock();
        served.look_for_begun();
        served.waiting.first().is_some_and(|first| *first <= last)
    }

    /// Takes a unit: passes on the results, and closes what is over.
    pub(super) fn accept(&self, shared: &Shared, node: &NodeName, unit: Unit) {
        let (patient, others): (Vec<_>, Vec<_>) = {
            let mut served = self.state.served.lock();
            let accepted = served.server.accept(node, unit);
            let results = accepted.into_iter().filter_map(|one| {
                let query = served.queries.get(&one.query)?;
                let is_patient = Arc::ptr_eq(&query.stream, &self.patient);
                Some((is_patient, result(*query.number.get()?, one)))
            });
            results.partition(|(is_patient, _)| *is_patient)
        };
        for (stream, results) in [(&self.stream, others), (&self.patient, patient)] {
            if !results.is_empty() {
                shared.accept_remote(stream, results.into_iter().map(|(_, result)| result).collect());
            }
        }
        self.advance(shared);
    }

    fn advance(&self, shared: &Shared) {
        let (time, whole) = {
            let server = &mut self.state.served.lock().server;
            (server.time(), server.whole_time())
        };
        for (stream, time) in [(&self.stream, time), (&self.patient, whole)] {
            if let Some(time) = time {
                shared.advance_remote(stream, time);
            }
        }
    }

    /// Closes windows that waited long enough, and returns the keys of the queries that have ended.
    pub(super) fn tick(&self, shared: &Shared) -> Vec<String> {
        let nanos = shared.clock.monotonic_nanos();
        let streams = self.streams();
        {
            let served = &mut *self.state.served.lock();
            if nanos.saturating_sub(std::mem::replace(&mut served.ticked, nanos)) > TICKS_LATE_NANOS {
                served.server.wait_anew();
            }
        }
        let is_over = {
            let mut served = self.state.served.lock();
            // Those that wait for all partitions have no part in this.
            let of_events = served.own.iter().filter(|(number, _)| !served.server.waits(**number));
            let due = of_events.map(|(_, stream)| stream.next_due()).chain([self.stream.next_due()]).min();
            let due = due.unwrap_or(Millis::MAX);
            let server = &mut served.server;
            let waiting = server.first_waiting().map_or(Millis::MAX, |first| first.saturating_add(1));
            let due = due.min(waiting);
            due != Millis::MAX && server.wait(due, nanos)
        };
        if is_over {
            self.advance(shared);
        }
        self.end_failed(shared);
        let now_ended: Vec<(u64, bool)> =
            streams.iter().flat_map(|stream| shared.take_ended_remote(stream)).collect();
        let mut served = self.state.served.lock();
        served.look_for_begun();
        for (own, is_shutdown) in &now_ended {
            let Served { numbers, queries, .. } = &mut *served;
            if let Some(query) = numbers.get(own).and_then(|number| queries.get_mut(number)) {
                // Another node takes it over, or this one does when it is back.
                query.is_others |= query.is_detached && *is_shutdown;
            }
        }
        let mut over = served.refused(nanos);
        served.ended.extend(now_ended.into_iter().map(|(own, _)| own));
        let Served { ended, numbers, waiting, .. } = &mut *served;
        // One that is not known to stand may be one that waits.
        ended.retain(|own| match numbers.get(own) {
            Some(number) => {
                over.push(*number);
                false
            }
            None => !waiting.is_empty(),
        });
        over.into_iter().filter_map(|number| served.remove(number)).collect()
    }
}

/// A result for the runtime.
fn result(number: u64, accepted: Accepted) -> RemoteResult {
    let Accepted { counts, rows, slices, .. } = accepted;
    let step = QueryStep {
        candidates: counts.candidates,
        residual_tests: counts.residual_tests,
        matches: counts.matches,
        mistyped: counts.mistyped,
        expression_errors: counts.expression_errors,
        rows: rows.map(Box::new),
        ..QueryStep::nothing(number)
    };
    RemoteResult { step, slices: slices.into_iter().map(|(slice, _)| slice).collect() }
}
