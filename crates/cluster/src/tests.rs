//! Workers come and go, freeze and wake up, and learn of queries late; the server's windows are compared with a loop over all
//! events. All from a seed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use proptest::prelude::*;
use swiftwater_event::{CheckLimits, Millis, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse, plan::Window};
use swiftwater_live::{Collector, CollectorLimits, ResultSet, ResultWindow, Slices, StandingQuery};

use super::*;

const PARTITIONS: u32 = 3;
const SERVERS: [&str; 2] = ["server-0", "server-1"];

const FIRST: Place = Place { offset: 0, from: 0, time: Millis::MIN, done: (0, Millis::MIN) };

/// A message of a partition: its time, its key, its value.
type Message = (Millis, u8, i64);

fn compiled(text: &str) -> Arc<StandingQuery> {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    Arc::new(StandingQuery::compile(plan).expect(text))
}

fn distributed(number: QueryNumber, begins: Millis, text: &str) -> DistributedQuery {
    let query = compiled(text);
    let ends = query.plan.duration_ms.map(|duration| begins.saturating_add_unsigned(duration));
    let mut distributed = match DistributedQuery::new(number, begins, ends, Arc::clone(&query)) {
        Err(NotDistributed::NeedsEvents) => DistributedQuery::of_events(number, begins, ends, &query.plan),
        other => other,
    }
    .expect(text);
    distributed.waits = number % 3 == 2;
    distributed
}

fn batch(messages: &[Message], first: u64) -> Batch {
    let text: String = messages
        .iter()
        .enumerate()
        .map(|(place, (_, key, value))| {
            format!("{{\"k\":{key},\"v\":{value},\"at\":{}}}\n", first + place as u64)
        })
        .collect();
    let checked = check_block(Bytes::from(text), &CheckLimits::default(), 2);
    assert_eq!(checked.batch.len(), messages.len());
    let offsets = (first..).take(messages.len()).collect();
    let times = messages.iter().map(|(time, ..)| *time).collect();
    Batch { events: checked.batch, offsets, times, next: first + messages.len() as u64 }
}

/// A query as its node answers it.
struct Served {
    query: DistributedQuery,
    server: usize,
    has_ended: bool,
    collector: Collector,
    slices: Slices,
    results: Vec<(ResultSet, Completeness)>,
    /// The events that it has seen, if it is computed from events; and the time up to which it has all.
    released: Vec<String>,
    until: Millis,
}

struct Node {
    worker: Worker,
    name: NodeName,
    /// Units that were sent and have not arrived.
    sent: VecDeque<(usize, Unit)>,
    /// It knows so many queries, and so many ends.
    known: usize,
    known_ends: usize,
}

/// A cluster of one topic, with two servers.
struct Cluster {
    log: Vec<Vec<Message>>,
    nodes: Vec<Node>,
    /// The owner of each partition.
    owners: Vec<usize>,
    /// The place at which a successor of each partition begins.
    commits: Vec<Place>,
    queries: Vec<DistributedQuery>,
    ended: Vec<QueryNumber>,
    servers: [Server; 2],
    served: BTreeMap<QueryNumber, Served>,
    started: u32,
    kept_ms: u64,
    nanos: u64,
    /// The brokers' clock.
    now: Millis,
    /// Nothing new happens.
    is_last: bool,
}

impl Cluster {
    fn new(nodes: usize, kept_ms: u64) -> Cluster {
        let mut cluster = Cluster {
            log: vec![Vec::new(); PARTITIONS as usize],
            nodes: Vec::new(),
            owners: (0..PARTITIONS as usize).map(|partition| partition % nodes).collect(),
            commits: vec![FIRST; PARTITIONS as usize],
            queries: Vec::new(),
            ended: Vec::new(),
            servers: [(); 2].map(|()| Server::new(ServerLimits::default(), PARTITIONS)),
            served: BTreeMap::new(),
            started: 0,
            kept_ms,
            nanos: 0,
            now: 1000,
            is_last: false,
        };
        for _ in 0..nodes {
            let node = cluster.fresh();
            cluster.nodes.push(node);
        }
        for partition in 0..PARTITIONS {
            let owner = cluster.owners[partition as usize];
            cluster.nodes[owner].worker.start(partition, FIRST);
        }
        cluster
    }

    fn fresh(&mut self) -> Node {
        self.started += 1;
        let name = format!("node-{}", self.started).into();
        Node {
            worker: Worker::new(WorkerLimits { kept_ms: self.kept_ms, ..WorkerLimits::default() }),
            name,
            sent: VecDeque::new(),
            known: 0,
            known_ends: 0,
        }
    }

    fn ask(&mut self, begins: Millis, text: &str) {
        let number = self.queries.len() as u64;
        let query = distributed(number, begins, text);
        let limits = CollectorLimits {
            one_answer: false,
            answer_rows_default: 500,
            emits_empty_windows: true,
            times: false,
            closes_singly: false,
            pattern_partials_max: 1,
        };
        let collector = Collector::new(Arc::clone(&query.query), begins, begins, limits);
        let server = number as usize % 2;
        self.servers[server].add(query.clone());
        self.queries.push(query.clone());
        let served = Served {
            query,
            server,
            has_ended: false,
            collector,
            slices: Slices::default(),
            results: Vec::new(),
            released: Vec::new(),
            until: begins,
        };
        self.served.insert(number, served);
    }

    /// A node learns of the next query that it does not know.
    fn add_queries(&mut self, node: usize, all: bool) {
        let node = &mut self.nodes[node];
        let until = if all { self.queries.len() } else { (node.known + 1).min(self.queries.len()) };
        for query in &self.queries[node.known..until] {
            let server = SERVERS[query.number as usize % 2];
            node.worker.add_query(query.clone(), server.into(), 0);
        }
        node.known = until;
        // Ends come after their queries.
        let until = if all { self.ended.len() } else { (node.known_ends + 1).min(self.ended.len()) };
        while node.known_ends < until && (self.ended[node.known_ends] as usize) < node.known {
            node.worker.remove_query(self.ended[node.known_ends]);
            node.known_ends += 1;
        }
    }

    /// A query ends before its time.
    fn end(&mut self, number: QueryNumber) {
        let Some(served) = self.served.get_mut(&number).filter(|served| !served.has_ended) else { return };
        served.has_ended = true;
        self.servers[served.server].remove(number);
        self.ended.push(number);
    }

    /// A node reads some messages of its partitions.
    fn read(&mut self, node: usize, most: usize) {
        let partitions: Vec<u32> = self.nodes[node].worker.partitions().collect();
        for partition in partitions {
            let worker = &mut self.nodes[node].worker;
            let (next, _) = worker.progress(partition).unwrap();
            let log = &self.log[partition as usize];
            let end = (next as usize).saturating_add(most).min(log.len());
            if next as usize <= end && (next as usize) < log.len() {
                worker.take(partition, batch(&log[next as usize..end], next), 0);
            }
        }
    }

    /// A node sends what came of its messages.
    fn send(&mut self, node: usize) {
        let units = self.nodes[node].worker.flush().into_iter().map(|(server, unit)| {
            let server = SERVERS.iter().position(|name| **name == *server).unwrap();
            (server, Unit::decode(unit.encode().into()).unwrap())
        });
        let units: Vec<(usize, Unit)> = units.collect();
        self.nodes[node].sent.extend(units);
    }

    fn commit(&mut self, node: usize) {
        self.send(node);
        let partitions: Vec<u32> = self.nodes[node].worker.partitions().collect();
        for partition in partitions.into_iter().filter(|of| self.owners[*of as usize] == node) {
            self.commits[partition as usize] = self.nodes[node].worker.resume(partition).unwrap();
        }
    }

    /// A partition gets another owner. The former one goes on with it if it is frozen and does not know.
    fn reassign(&mut self, partition: u32, to: usize, knows: bool) {
        let from = std::mem::replace(&mut self.owners[partition as usize], to);
        if from == to {
            return;
        }
        if knows {
            self.nodes[from].worker.stop(partition);
        }
        // The new one reads all queries first.
        self.add_queries(to, true);
        let place = self.commits[partition as usize];
        self.nodes[to].worker.start(partition, place);
    }

    /// A node is killed, and begins anew. What it had sent arrives; what it had read besides is lost.
    fn kill(&mut self, node: usize, reads: bool) {
        for partition in 0..PARTITIONS {
            let worker = &mut self.nodes[node].worker;
            let log = &self.log[partition as usize];
            if reads
                && let Some((next, _)) = worker.progress(partition)
                && (next as usize) < log.len()
            {
                worker.take(partition, batch(&log[next as usize..], next), 0);
            }
        }
        let fresh = self.fresh();
        let before = std::mem::replace(&mut self.nodes[node], fresh);
        self.deliver_of(before.name, before.sent);
        self.add_queries(node, true);
        for partition in 0..PARTITIONS {
            if self.owners[partition as usize] == node {
                let place = self.commits[partition as usize];
                self.nodes[node].worker.start(partition, place);
            }
        }
    }

    fn deliver(&mut self, node: usize, most: usize) {
        let most = most.min(self.nodes[node].sent.len());
        let units = self.nodes[node].sent.drain(..most).collect();
        self.deliver_of(NodeName::clone(&self.nodes[node].name), units);
    }

    fn deliver_of(&mut self, name: NodeName, units: VecDeque<(usize, Unit)>) {
        for (server, unit) in units {
            for accepted in self.servers[server].accept(&name, unit) {
                let served = self.served.get_mut(&accepted.query).unwrap();
                let mut out = Vec::new();
                for (partial, _) in accepted.slices {
                    served.collector.partial(partial, &mut served.slices);
                }
                if let Some(mut rows) = accepted.rows {
                    served.collector.rows(&mut rows, 0, &mut out);
                }
                served.results.extend(out.into_iter().map(|result| (result, Completeness::default())));
            }
        }
        self.close();
    }

    fn close(&mut self) {
        // Some still take the events before.
        let turn = self.now.unsigned_abs();
        let is_last = self.is_last;
        let is_busy = |number: QueryNumber| !is_last && (turn + number).is_multiple_of(3);
        let mut fed = Vec::new();
        for released in self.servers.iter_mut().flat_map(|server| server.release(is_busy)) {
            let served = self.served.get_mut(&released.query).unwrap();
            let times: Vec<Millis> = released.events.iter().map(|(time, _)| *time).collect();
            assert!(
                times.is_sorted() && times.iter().all(|time| (served.until..released.until).contains(time))
            );
            served.until = released.until;
            let text = |(_, event): &(Millis, Bytes)| String::from_utf8_lossy(event).trim_end().to_owned();
            served.released.extend(released.events.iter().map(text));
            fed.push((served.server, released.query));
        }
        fed.into_iter().for_each(|(server, query)| self.servers[server].fed(query));
        let times = self.servers.each_mut().map(|server| [server.time(), server.whole_time()]);
        let standing = |(_, served): &(&u64, &mut Served)| !served.has_ended && !served.query.is_of_events();
        for (number, served) in self.served.iter_mut().filter(standing) {
            let Some(time) = times[served.server][usize::from(served.query.waits)] else { continue };
            let time = served.query.ends.map_or(time, |ends| time.min(ends));
            let mut out = Vec::new();
            served.collector.close_by_arrival(time, &mut served.slices, 0, &mut out);
            let is_over = served.query.ends.is_some_and(|ends| ends <= time);
            if is_over && served.query.query.plan.window == Window::None && served.results.is_empty() {
                served.collector.finish(time, &mut served.slices, 0, &mut out);
            }
            for result in out {
                let window = result.window.unwrap_or(ResultWindow {
                    kind: "tumbling",
                    number: 1,
                    records: 0,
                    start: served.query.begins,
                    end: time,
                });
                let result = ResultSet { window: Some(window), ..result };
                let complete = self.servers[served.server].completeness(*number, window.start, window.end);
                served.results.push((result, complete));
            }
        }
    }

    /// Windows no longer wait for partitions that are behind.
    fn lose_patience(&mut self) {
        for server in 0..2 {
            let own = self.served.values().filter(|served| served.server == server && !served.has_ended);
            let due = own.filter(|served| !served.query.waits).filter_map(|served| served.collector.due());
            let Some(due) = due.chain(self.servers[server].first_waiting()).min() else { continue };
            for _ in 0..2 {
                self.nanos += 2_000_000_000;
                if self.servers[server].wait(due, self.nanos) {
                    self.close();
                }
            }
        }
    }
}

/// The windows of counts by key over all partitions, by a loop.
fn expected(log: &[Vec<Message>], (start, end): (Millis, Millis)) -> BTreeSet<String> {
    let mut groups: BTreeMap<u8, (i64, i64)> = BTreeMap::new();
    for (time, key, value) in log.iter().flatten() {
        if (start..end).contains(time) {
            let group = groups.entry(*key).or_default();
            *group = (group.0 + 1, group.1 + value);
        }
    }
    groups.iter().map(|(key, (count, sum))| format!("{{\"k\":{key},\"n\":{count},\"s\":{sum}}}")).collect()
}

fn records(text: &[u8]) -> Vec<String> {
    std::str::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[derive(Debug, Clone)]
enum Step {
    /// Messages arrive in a partition.
    Write(u32, Vec<(u8, u8, i64)>),
    AddQuery(usize),
    /// A node reads so many messages, and sends what comes of them now or later.
    Read(usize, usize, bool),
    Deliver(usize, usize),
    Commit(usize),
    Reassign(u32, usize, bool),
    Kill(usize, bool),
    /// So many queries, with the time between them.
    Ask(usize, usize, u8),
    End(u64),
    LosePatience,
}

const TEXTS: [&str; 8] = [
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM(200, TIME) GROUP BY k",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM() GROUP BY k WINDOWING TUMBLING(100, TIME)",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM() GROUP BY k WINDOWING EVERY(50, TIME, LAST, 120, TIME)",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM(300, TIME) GROUP BY k WINDOWING TUMBLING(70, TIME)",
    "SELECT at, k FROM STREAM() WHERE v > 0",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM() GROUP BY k HAVING COUNT(*) > 0 WINDOWING TUMBLING(100, TIME)",
    "SELECT at, k FROM STREAM() WHERE v > 0 LIMIT 3",
    "SELECT LAST(v) AS v FROM STREAM() WHERE v > 0 WINDOWING TUMBLING(3, RECORD)",
];

fn step(nodes: usize, faults: bool) -> impl Strategy<Value = Step> {
    let node = move || 0..nodes;
    let messages = proptest::collection::vec((0u8..60, 0u8..4, -5i64..6), 1..5);
    let fault = u32::from(faults);
    prop_oneof![
        8 => (0..PARTITIONS, messages).prop_map(|(partition, messages)| Step::Write(partition, messages)),
        3 => node().prop_map(Step::AddQuery),
        8 => (node(), 1usize..6, any::<bool>())
            .prop_map(|(node, most, sends)| Step::Read(node, most, sends)),
        8 => (node(), 1usize..6).prop_map(|(node, most)| Step::Deliver(node, most)),
        2 => node().prop_map(Step::Commit),
        2 => (0..TEXTS.len(), prop_oneof![Just(1usize), 2usize..5], 0u8..40)
            .prop_map(|(text, count, apart)| Step::Ask(text, count, apart)),
        1 => (0u64..20).prop_map(Step::End),
        2 * fault => (0..PARTITIONS, node(), any::<bool>())
            .prop_map(|(partition, to, knows)| Step::Reassign(partition, to, knows)),
        fault => (node(), any::<bool>()).prop_map(|(node, reads)| Step::Kill(node, reads)),
        fault => Just(Step::LosePatience),
    ]
}

fn run(nodes: usize, steps: Vec<Step>, faults: bool) {
    // Without faults no worker learns of a query after its events are gone.
    let kept_ms = if faults { 500 } else { 1_000_000 };
    let mut cluster = Cluster::new(nodes, kept_ms);
    for step in steps {
        match step {
            Step::Write(partition, messages) => {
                for (later, key, value) in messages {
                    cluster.now += Millis::from(later);
                    cluster.log[partition as usize].push((cluster.now, key, value));
                }
            }
            Step::AddQuery(node) => cluster.add_queries(node, false),
            Step::Read(node, most, sends) => {
                cluster.read(node, most);
                if sends {
                    cluster.send(node);
                }
            }
            Step::Deliver(node, most) => cluster.deliver(node, most),
            Step::Commit(node) => cluster.commit(node),
            Step::Reassign(partition, to, knows) => cluster.reassign(partition, to, knows),
            Step::Kill(node, reads) => cluster.kill(node, reads),
            Step::Ask(text, count, apart) => {
                for _ in 0..count {
                    cluster.ask(cluster.now, TEXTS[text]);
                    cluster.now += Millis::from(apart);
                }
            }
            Step::End(number) => cluster.end(number),
            Step::LosePatience => cluster.lose_patience(),
        }
    }
    // All that is left arrives, and the time goes on.
    cluster.is_last = true;
    cluster.now += 1000;
    let now = cluster.now;
    for _ in 0..2 {
        for node in 0..nodes {
            cluster.add_queries(node, true);
            for partition in 0..PARTITIONS as usize {
                if cluster.owners[partition] == node
                    && cluster.nodes[node]
                        .worker
                        .progress(partition as u32)
                        .is_some_and(|(next, _)| next == cluster.log[partition].len() as u64)
                {
                    let next = cluster.log[partition].len() as u64;
                    cluster.nodes[node].worker.advance(partition as u32, next, now);
                }
            }
            cluster.read(node, usize::MAX);
            cluster.send(node);
            cluster.deliver(node, usize::MAX);
        }
    }
    check(&cluster, faults);
}

/// A query has seen the events that match before a time, in their order, or says that some are missing.
fn check_events(cluster: &Cluster, served: &Served, faults: bool) {
    let begins = served.query.begins;
    let mut expected = Vec::new();
    for (partition, log) in cluster.log.iter().enumerate() {
        for (place, (time, key, value)) in log.iter().enumerate() {
            if (begins..served.until).contains(time) && *value > 0 {
                let event = format!("{{\"k\":{key},\"v\":{value},\"at\":{place}}}");
                expected.push((*time, partition, place, event));
            }
        }
    }
    expected.sort_unstable();
    let expected: Vec<String> = expected.into_iter().map(|(.., event)| event).collect();
    let whole = cluster.servers[served.server].completeness(served.query.number, begins, served.until);
    if whole.is_complete() && !served.has_ended {
        assert_eq!(served.released, expected, "events of {:?}", served.query.number);
    } else {
        assert!(faults || served.has_ended, "events of {:?} miss {whole:?}", served.query.number);
        let mut left = expected.iter();
        assert!(served.released.iter().all(|one| left.any(|other| other == one)));
    }
    assert!(faults || served.has_ended || served.until >= cluster.now - 1000, "{:?}", served.until);
}

fn check(cluster: &Cluster, faults: bool) {
    for served in cluster.served.values() {
        let begins = served.query.begins;
        if served.query.is_of_events() {
            check_events(cluster, served, faults);
            continue;
        }
        if !served.query.has_groups() {
            let mut seen: Vec<String> =
                served.results.iter().flat_map(|(result, _)| records(&result.text)).collect();
            let mut expected: Vec<String> = Vec::new();
            for log in &cluster.log {
                for (place, (time, key, value)) in log.iter().enumerate() {
                    if *time >= begins && *value > 0 {
                        expected.push(format!("{{\"at\":{place},\"k\":{key}}}"));
                    }
                }
            }
            seen.sort_unstable();
            expected.sort_unstable();
            let of_server = &cluster.servers[served.server];
            let whole = of_server.completeness(served.query.number, begins, cluster.now);
            let limit = served.query.query.plan.limit.map_or(usize::MAX, |limit| limit as usize);
            if whole.is_complete() && !served.has_ended && expected.len() <= limit {
                assert_eq!(seen, expected, "records of {:?}", served.query.number);
            } else if whole.is_complete() && !served.has_ended {
                assert_eq!(seen.len(), limit, "records of {:?}", served.query.number);
                let mut left = expected.iter();
                assert!(seen.iter().all(|one| left.any(|other| other == one)), "{seen:?} of {expected:?}");
            } else {
                assert!(faults || served.has_ended, "records of {:?} miss {whole:?}", served.query.number);
                let mut left = expected.iter();
                assert!(seen.iter().all(|one| left.any(|other| other == one)), "{seen:?} of {expected:?}");
            }
            continue;
        }
        assert!(served.has_ended || !served.results.is_empty());
        let mut end = begins;
        for (result, completeness) in &served.results {
            let window = result.window.unwrap();
            let until = served.query.ends.map_or(window.end, |ends| window.end.min(ends));
            let expected = expected(&cluster.log, (window.start.max(begins), until));
            let seen: BTreeSet<String> = records(&result.text).into_iter().collect();
            assert!(window.end > end, "windows close in their order");
            end = window.end;
            if completeness.is_complete() {
                assert_eq!(seen, expected, "query {} from {begins}, {window:?}", served.query.number);
            } else {
                assert!(faults, "{window:?} misses {completeness:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn windows_are_those_of_a_loop_over_all_events(
        (nodes, steps) in (1usize..4)
            .prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec(step(nodes, false), 0..120))),
    ) {
        run(nodes, steps, false);
    }

    #[test]
    fn windows_are_whole_or_marked_whatever_fails(
        (nodes, steps) in (1usize..4)
            .prop_flat_map(|nodes| (Just(nodes), proptest::collection::vec(step(nodes, true), 0..150))),
    ) {
        run(nodes, steps, true);
    }

    #[test]
    fn other_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = Unit::decode(bytes.into());
    }
}

#[test]
fn queries_that_partitions_cannot_answer_need_events() {
    for text in [
        "SELECT k, FIRST(v) AS v FROM STREAM(1000, TIME) GROUP BY k",
        "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(5, RECORD)",
        "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(5, EVENT(t))",
        "SELECT COUNT(*) AS n FROM STREAM() WINDOWING SESSION(5, TIME)",
        "SELECT * FROM STREAM() MATCH_RECOGNIZE (MEASURES A.v AS v PATTERN (A) WITHIN 5 DEFINE A AS v > 1)",
    ] {
        let query = compiled(text);
        let ends = query.plan.duration_ms.map(|ms| ms as i64);
        assert_eq!(
            DistributedQuery::new(0, 0, ends, Arc::clone(&query)).unwrap_err(),
            NotDistributed::NeedsEvents
        );
        assert!(DistributedQuery::of_events(0, 0, ends, &query.plan).unwrap().is_of_events(), "{text}");
    }
    let endless = compiled("SELECT COUNT(*) AS n FROM STREAM()");
    assert_eq!(DistributedQuery::new(0, 0, None, endless).unwrap_err(), NotDistributed::NoEnd);
    let sampled = compiled("SELECT LAST(v) AS v FROM STREAM(1000, TIME) SAMPLE 10%");
    assert_eq!(
        DistributedQuery::of_events(0, 0, Some(1000), &sampled.plan).unwrap_err(),
        NotDistributed::Sample
    );
}

#[test]
fn large_batches_lose_no_record() {
    let log: Vec<Message> = (0..200).map(|n| (n, (n % 4) as u8, n)).collect();
    let mut whole = Worker::new(WorkerLimits { record_bytes_max: 100, ..WorkerLimits::default() });
    whole.add_query(distributed(0, 0, "SELECT * FROM STREAM() WHERE v >= 0"), "server".into(), 0);
    whole.start(0, FIRST);
    whole.take(0, batch(&log, 0), 0);
    let mut server = Server::new(ServerLimits::default(), 1);
    server.add(distributed(0, 0, "SELECT * FROM STREAM() WHERE v >= 0"));
    let mut records = 0;
    for (_, unit) in whole.flush() {
        for accepted in server.accept(&"node".into(), unit) {
            let rows = accepted.rows.unwrap();
            assert!(!rows.is_cut);
            records += rows.len();
        }
    }
    assert_eq!(records, log.len());
}

/// A worker of one partition whose events are at so many milliseconds.
fn worker_of(queries: impl IntoIterator<Item = DistributedQuery>) -> Worker {
    let mut worker = Worker::new(WorkerLimits::default());
    worker.start(0, FIRST);
    queries.into_iter().for_each(|query| {
        let server = SERVERS[query.number as usize % 2];
        worker.add_query(query, server.into(), 0);
    });
    worker
}

#[test]
fn equal_queries_are_matched_as_one_and_sent_as_one() {
    for (text, slices) in [(TEXTS[4], 0), (TEXTS[1], 50)] {
        // Those of an even number are served by the first node: they begin at 50 different times, for windows of 100 ms.
        let mut worker =
            worker_of((0..1000).map(|number| distributed(number, 1000 + number as i64 % 100, text)));
        let messages: Vec<Message> = (1000..1199).map(|time| (time, 1, 1)).collect();
        worker.take(0, batch(&messages, 0), 0);
        worker.advance(0, 199, 1199);
        assert_eq!(worker.operator_count(), 1);
        let units = worker.flush();
        assert_eq!(units.len(), 2);
        for (server, unit) in units {
            assert_eq!(unit.outputs.len(), 1, "one output for 500 queries");
            // Each begins and ends at its node's queries' cuts alone; the last of them are not over.
            let ends: BTreeSet<Millis> = unit.outputs[0].slices.iter().map(|slice| slice.end).collect();
            let odd = Millis::from(*server == *SERVERS[1]);
            assert_eq!(ends.len(), slices, "{text}");
            assert!(ends.iter().all(|end| end % 2 == odd && (1100..1200).contains(end)));
        }
        for number in 0..1000 {
            worker.remove_query(number);
        }
        assert_eq!(worker.operator_count(), 0);
    }
}

#[test]
fn queries_of_other_filters_lengths_or_columns_are_computed_apart() {
    let of = |text: &str| distributed(0, 1000, text).operator;
    let windows = |rest: &str| of(&format!("SELECT k, COUNT(*) AS n FROM STREAM() {rest}"));
    let first = windows("WHERE v > 0 GROUP BY k WINDOWING TUMBLING(100, TIME)");
    let same = "WHERE v > 0 GROUP BY k HAVING COUNT(*) > 3 ORDER BY k WINDOWING TUMBLING(100, TIME) LIMIT 2";
    assert_eq!(windows(same), first);
    for other in [
        "WHERE v > 1 GROUP BY k WINDOWING TUMBLING(100, TIME)",
        "WHERE v > 0 GROUP BY k, v WINDOWING TUMBLING(100, TIME)",
        "WHERE v > 0 GROUP BY k WINDOWING TUMBLING(200, TIME)",
        "WHERE v > 0 GROUP BY k WINDOWING EVERY(100, TIME, LAST, 300, TIME)",
    ] {
        assert_ne!(windows(other), first, "{other}");
    }
    let records = of("SELECT k FROM STREAM() WHERE v > 0");
    assert_eq!(of("SELECT k FROM STREAM(100, TIME) WHERE v > 0 LIMIT 3"), records);
    for other in ["SELECT v FROM STREAM() WHERE v > 0", "SELECT k FROM STREAM() WHERE v > NOW()"] {
        assert_ne!(of(other), records, "{other}");
    }
    let now = |now: Millis| {
        let options = ParseOptions::new(Dialect::Native, now);
        let plan = parse("SELECT k FROM STREAM() WHERE v > NOW()", &options).unwrap().query;
        DistributedQuery::new(0, now, None, Arc::new(StandingQuery::compile(plan).unwrap())).unwrap().operator
    };
    assert_ne!(now(1), now(2));
}

#[test]
fn a_worker_sends_no_more_records_than_a_limit_needs() {
    let limited = |number, begins| distributed(number, begins, "SELECT k FROM STREAM() WHERE v > 0 LIMIT 3");
    let mut worker = worker_of([limited(0, 1010), limited(2, 1050)]);
    let mut next = 0;
    // The times of the records that are sent, of so many events, one a millisecond.
    let mut sent = |worker: &mut Worker, from: Millis, until: Millis| -> Vec<Millis> {
        let messages: Vec<Message> = (from..until).map(|time| (time, 1, 1)).collect();
        worker.take(0, batch(&messages, next), 0);
        next += messages.len() as u64;
        let outputs = worker.flush().into_iter().flat_map(|(_, unit)| unit.outputs);
        let chunks = outputs.filter_map(|output| output.rows);
        let chunks = chunks.map(|(_, bytes)| swiftwater_live::RowChunk::decode(&mut &bytes[..]).unwrap());
        chunks.flat_map(|chunk| chunk.arrivals.into_vec()).collect()
    };
    assert_eq!(sent(&mut worker, 1000, 1040), [1010, 1011, 1012]);
    assert!(sent(&mut worker, 1040, 1045).is_empty());
    // All up to the third of the second query: that there were enough for the first is not known of each event.
    assert_eq!(sent(&mut worker, 1045, 1100).last(), Some(&1052));
    assert!(sent(&mut worker, 1100, 1200).is_empty());
    // The first was lost, as their node had not begun.
    assert_eq!(sent(&mut worker, 2200, 2300), [2200, 2201, 2202]);
    worker.add_query(distributed(4, 2300, "SELECT k FROM STREAM() WHERE v > 0"), SERVERS[0].into(), 0);
    assert_eq!(sent(&mut worker, 2300, 2400).len(), 100);
    worker.remove_query(4);
    assert!(sent(&mut worker, 2400, 2500).is_empty());
}

#[test]
fn partitions_share_the_bytes_of_kept_events() {
    let limits = WorkerLimits { kept_bytes_of_all: 20_000, ..WorkerLimits::default() };
    let mut worker = Worker::new(limits);
    for partition in 0..4 {
        worker.start(partition, FIRST);
        for first in (0..1000).step_by(10) {
            let messages: Vec<Message> = (first..first + 10).map(|time| (time, 1, 1)).collect();
            worker.take(partition, batch(&messages, first as u64), 0);
        }
    }
    let kept: Vec<usize> = worker.kept_bytes().collect();
    assert!(kept.iter().all(|bytes| (4_000..=5_000).contains(bytes)), "{kept:?}");
    // Those of a partition without more events are too old some time.
    worker.advance(0, 1000, 10_000);
    assert_eq!(worker.kept_bytes().next(), Some(0));
}

#[test]
fn the_largest_query_ends_when_the_events_of_all_are_too_many() {
    let text = |least: i64| format!("SELECT LAST(v) AS v FROM STREAM(60000, TIME) WHERE v >= {least}");
    let mut server = Server::new(ServerLimits { event_bytes_of_all: 3_000, ..ServerLimits::default() }, 2);
    let mut worker = Worker::new(WorkerLimits::default());
    worker.start(0, FIRST);
    for (number, least) in [(0, 90), (1, 0)] {
        server.add(distributed(number, 0, &text(least)));
        worker.add_query(distributed(number, 0, &text(least)), SERVERS[0].into(), 0);
    }
    let messages: Vec<Message> = (0..100).map(|n| (n, 1, n)).collect();
    let mut next = 0;
    let mut send = |server: &mut Server| {
        worker.take(0, batch(&messages, next), 0);
        next += 100;
        worker.flush().into_iter().for_each(|(_, unit)| drop(server.accept(&"node".into(), unit)));
        server.with_too_many().collect::<Vec<_>>()
    };
    assert_eq!(send(&mut server), []);
    assert_eq!(send(&mut server), [(1, TooManyEvents::OfAll)]);
    // The other goes on.
    assert_eq!(send(&mut server).len(), 1);
}

#[test]
fn an_event_that_comes_behind_what_a_worker_was_done_with_counts_for_its_successor_as_for_it() {
    let text = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(100, TIME)";
    for is_restart in [false, true] {
        let mut server = Server::new(ServerLimits::default(), 1);
        server.add(distributed(0, 1000, text));
        let mut worker = worker_of([distributed(0, 1000, text)]);
        let mut starts = Vec::new();
        let mut send = |worker: &mut Worker| {
            for (_, unit) in worker.flush() {
                for accepted in server.accept(&"node".into(), unit) {
                    starts.extend(accepted.slices.iter().map(|(slice, _)| slice.start));
                }
            }
        };
        let log: [Message; 2] = [(1010, 1, 1), (1020, 1, 1)];
        worker.take(0, batch(&log[..1], 0), 0);
        // Without events, brokers tell how far it is.
        worker.advance(0, 1, 1550);
        send(&mut worker);
        let place = worker.resume(0).unwrap();
        assert_eq!((place.offset, place.done), (0, (1, 1550)));
        if is_restart {
            worker = worker_of([distributed(0, 1000, text)]);
            worker.start(0, place);
        }
        // Its producer says that it is of the first window, which is closed.
        let next = worker.progress(0).unwrap().0;
        worker.take(0, batch(&log[next as usize..], next), 0);
        worker.advance(0, 2, 1700);
        send(&mut worker);
        assert_eq!(starts, [1000, 1500], "{is_restart}");
    }
}
