//! Tests nodes of a cluster over a Kafka in memory: windows equal a loop over all messages, or name the partitions that they lack.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use swiftwater_engine::{
    ClusterConfig, ClusterStatus, Emit, EndReason, Engine, EngineConfig, EngineError, HistoryConfig,
    KafkaConnections, Principal, Role, Roles, SchemaSettings, SubmitOptions, Subscription,
};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{GroupProtocol, Kafka};
use swiftwater_testkit::{FakeKafka, FakeMessage, Rng};
use tempfile::TempDir;

use crate::history::{open_when_free, quick, sql, stop, try_sql};

pub(crate) const GRACE: Duration = Duration::from_secs(5);
pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) struct Node {
    pub(crate) engine: Engine,
    _dir: TempDir,
}

pub(crate) async fn node(kafka: &FakeKafka, name: &str) -> Node {
    node_with(kafka, name, &Role::ALL).await
}

async fn node_with(kafka: &FakeKafka, name: &str, roles: &[Role]) -> Node {
    node_of(kafka, name, roles, SchemaSettings::default()).await
}

/// A node that may reach the registry of these settings.
pub(crate) async fn node_of(kafka: &FakeKafka, name: &str, roles: &[Role], schemas: SchemaSettings) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let client: Arc<dyn Kafka> = Arc::new(kafka.client(name));
    let connections = [("main".into(), Arc::clone(&client))].into();
    let cluster = ClusterConfig {
        name: "c".to_owned(),
        node: name.to_owned(),
        roles: roles.iter().copied().collect::<Roles>(),
        advertise: Some(format!("http://{name}:8080")),
        kafka: client,
        connection: "main".to_owned(),
        flush: Duration::from_millis(1),
        partial_wait: Duration::from_millis(300),
        event_bytes_per_second: 16 << 20,
        group_protocol: GroupProtocol::Classic,
        sweep: Duration::from_secs(1),
        session_timeout: Duration::from_secs(10),
        partials: 4,
    };
    let history = HistoryConfig {
        kafka: KafkaConnections {
            connections,
            schemas: [("main".into(), schemas)].into(),
            refresh: Duration::from_millis(5),
        },
        cluster: Some(cluster),
        ..quick(dir.path())
    };
    // Some nodes have several readers of a stream.
    let shards = if name == "b" { 3 } else { 1 };
    let config = EngineConfig { shards, ..EngineConfig::default() };
    Node { engine: open_when_free(config, history, Arc::new(SystemClock::new())).await, _dir: dir }
}

pub(crate) async fn ask(engine: &Engine, text: &str) -> Subscription {
    try_ask(engine, text).await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) async fn try_ask(engine: &Engine, text: &str) -> Result<Subscription, EngineError> {
    let mut options = SubmitOptions::default();
    engine.ask_cluster(text, &mut options).await?;
    Ok(engine.submit(&Principal::local(), text, options)?)
}

/// The brokers' time, and the messages so far: partition, time, key.
pub(crate) struct Source {
    pub(crate) kafka: FakeKafka,
    partitions: u32,
    pub(crate) now: i64,
    messages: Vec<(u32, i64, u64)>,
}

impl Source {
    pub(crate) fn new(partitions: u32) -> Source {
        let kafka = FakeKafka::new();
        kafka.set_time(START);
        kafka.make_topic("t", partitions);
        kafka.set_append_time("t", true);
        Source { kafka, partitions, now: START, messages: Vec::new() }
    }

    pub(crate) fn pass(&mut self, millis: i64) {
        self.now += millis;
        self.kafka.set_time(self.now);
    }

    fn write(&mut self, rng: &mut Rng, count: usize) {
        for _ in 0..count {
            self.pass(rng.below(30) as i64);
            let (partition, key) = (rng.below(self.partitions as usize) as u32, rng.below(5) as u64);
            let n = self.messages.len();
            self.kafka.append("t", partition, FakeMessage::value(format!("{{\"k\":{key},\"n\":{n}}}")));
            self.messages.push((partition, self.now, key));
        }
    }

    /// The groups of a window, by a loop.
    fn window(&self, start: i64, end: i64) -> BTreeSet<String> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, _, key) in self.messages.iter().filter(|(_, time, _)| (start..end).contains(time)) {
            *counts.entry(*key).or_default() += 1;
        }
        counts.iter().map(|(key, count)| format!("{{\"k\":{key},\"n\":{count}}}")).collect()
    }
}

pub(crate) async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !is().await {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

pub(crate) async fn next(query: &mut Subscription) -> Emit {
    let next = tokio::time::timeout(Duration::from_secs(60), query.next()).await;
    next.expect("an emit comes").expect("the query stands")
}

pub(crate) fn lines(emit: &Emit) -> BTreeSet<String> {
    std::str::from_utf8(&emit.records.text).unwrap().lines().map(str::to_owned).collect()
}

/// Starts nodes that know stream `s` over topic `t`.
pub(crate) async fn cluster(source: &Source, names: &[&str]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(node(&source.kafka, name).await);
    }
    sql(&nodes[0].engine, "CREATE STREAM s FROM KAFKA (topic = 't')").await;
    for node in &nodes {
        until("the stream is on all nodes", async || {
            try_ask(&node.engine, "SELECT COUNT(*) AS n FROM STREAM(s)").await.is_err()
        })
        .await;
    }
    nodes
}

const WINDOWS: &str = "SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k WINDOWING TUMBLING(500, TIME)";

/// Writes messages while a query stands, and compares so many windows.
async fn compare(source: &mut Source, rng: &mut Rng, query: &mut Subscription, windows: usize) -> usize {
    let mut whole = 0;
    for _ in 0..windows {
        // Until the window is over by the brokers' time.
        let emit = loop {
            source.write(rng, 5);
            source.pass(120);
            if let Ok(emit) = tokio::time::timeout(Duration::from_millis(100), query.next()).await {
                break emit.expect("the query stands");
            }
        };
        let window = emit.meta.window.unwrap();
        let of = emit.meta.cluster.clone().unwrap();
        assert_eq!(of.partitions, source.partitions as usize);
        if of.missing.is_empty() {
            whole += 1;
            assert_eq!(lines(&emit), source.window(window.start, window.end), "{window:?}");
        }
    }
    whole
}

/// Compares windows until some in a row are whole.
async fn until_whole(source: &mut Source, rng: &mut Rng, query: &mut Subscription) {
    for _ in 0..300 {
        if compare(source, rng, query, 3).await == 3 {
            return;
        }
    }
    panic!("no windows are whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_over_several_nodes_are_those_of_all_messages() {
    let mut source = Source::new(4);
    let nodes = cluster(&source, &["a", "b", "c"]).await;
    let mut rng = Rng::new(1);
    let mut query = ask(&nodes[1].engine, WINDOWS).await;
    let mut records = ask(&nodes[0].engine, "SELECT n FROM STREAM(s)").await;
    let first = source.messages.len();
    assert_eq!(compare(&mut source, &mut rng, &mut query, 6).await, 6);
    // The same messages, each once, at another node.
    let mut seen = BTreeSet::new();
    while seen.len() < source.messages.len() - first {
        for line in lines(&next(&mut records).await) {
            assert!(seen.insert(line.clone()), "{line} comes twice");
        }
    }
    // All work is divided.
    let members = source.kafka.group("_swiftwater.c.workers").await.unwrap();
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|member| !member.partitions.is_empty()), "{members:?}");
    // A query that ends is forgotten everywhere.
    drop(query);
    drop(records);
    until("the queries have ended", async || {
        let all = source.kafka.committed_messages("_swiftwater.c.queries", 0);
        let mut standing = BTreeSet::new();
        for (_, message) in all {
            match message.value {
                Some(_) => standing.insert(message.key),
                None => standing.remove(&message.key),
            };
        }
        standing.is_empty()
    })
    .await;
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_a_node_that_is_gone_are_read_by_others() {
    let mut source = Source::new(4);
    let mut nodes = cluster(&source, &["a", "b"]).await;
    let mut rng = Rng::new(2);
    let mut query = ask(&nodes[0].engine, WINDOWS).await;
    assert_eq!(compare(&mut source, &mut rng, &mut query, 3).await, 3);
    // It can reach no broker any more, and the group waits for it no longer.
    source.kafka.set_cut_off("b", true);
    compare(&mut source, &mut rng, &mut query, 2).await;
    source.kafka.expire("b");
    until_whole(&mut source, &mut rng, &mut query).await;
    // It is back, with a part of the partitions.
    source.kafka.set_cut_off("b", false);
    until_whole(&mut source, &mut rng, &mut query).await;
    // Another node joins, and one leaves.
    nodes.push(node(&source.kafka, "d").await);
    compare(&mut source, &mut rng, &mut query, 4).await;
    stop(nodes.remove(1).engine, GRACE).await;
    until_whole(&mut source, &mut rng, &mut query).await;
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

/// Waits until the cluster is as wanted, as a node sees it.
async fn until_status(engine: &Engine, what: &str, is: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
    let mut found = None;
    until(what, async || {
        found = engine.cluster_status().await.ok().filter(&is);
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// The reason why a query has ended.
pub(crate) async fn failure(query: &mut Subscription) -> String {
    loop {
        match next(query).await.meta.finished.map(|finished| finished.reason) {
            Some(EndReason::Failed(why)) => return why,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_know_each_other_and_one_that_drains_leaves_its_work_to_others() {
    let mut source = Source::new(4);
    let nodes = cluster(&source, &["a", "b"]).await;
    let c = node_with(&source.kafka, "c", &[Role::Serve]).await;
    let (a, b) = (&nodes[0].engine, &nodes[1].engine);
    let work = |status: &ClusterStatus| {
        status.nodes.iter().map(|node| (node.name.clone(), node.partitions)).collect::<Vec<_>>()
    };
    let is_divided = |status: &ClusterStatus| {
        work(status) == [("a".to_owned(), 2), ("b".to_owned(), 2), ("c".to_owned(), 0)]
            && status.partitions.iter().all(|of| of.lag() == Some(0))
    };
    let status = until_status(b, "partitions are divided", is_divided).await;
    assert_eq!(status.warnings.len(), 1, "{:?}", status.warnings);
    assert!(status.warnings[0].contains("clock"), "the brokers' time is the test's: {:?}", status.warnings);
    let roles: Vec<_> = status.nodes.iter().map(|node| node.roles.join(" ")).collect();
    assert_eq!(roles, ["work serve receive", "work serve receive", "serve"]);
    assert!(sql(a, "SHOW NODES").await.contains("\"node\":\"c\",\"address\":\"http://c:8080\""));
    assert!(sql(a, "SHOW PARTITIONS").await.contains("\"node\":\"b\""));

    // A query is known to all nodes, by the one that serves it.
    let mut rng = Rng::new(7);
    let mut query = ask(b, WINDOWS).await;
    assert_eq!(compare(&mut source, &mut rng, &mut query, 2).await, 2);
    let id = query.query().id;
    let other = a.other_node_of_query(&id).await.unwrap();
    assert!(
        matches!(&other, EngineError::OtherNode { node, address: Some(address), .. }
        if node == "b" && address == "http://b:8080"),
        "{other}"
    );
    assert!(b.other_node_of_query(&id).await.is_none());
    let listed = a.cluster_queries(10).unwrap();
    assert_eq!((listed.len(), &*listed[0].node, &*listed[0].text), (1, "b", WINDOWS));
    assert_eq!(listed[0].id, id.to_string());

    // One that drains serves its queries to their end, and takes nothing new.
    b.drain_cluster_node(true).unwrap();
    let drained = |status: &ClusterStatus| {
        status.nodes.iter().any(|node| node.name == "b" && node.is_draining && node.partitions == 0)
            && status.partitions.iter().all(|of| of.node.as_deref() == Some("a"))
    };
    until_status(a, "the others have its partitions", drained).await;
    until_whole(&mut source, &mut rng, &mut query).await;
    let error = try_ask(b, WINDOWS).await.err().unwrap();
    assert!(matches!(&error, EngineError::OtherNode { node, .. } if node == "a" || node == "c"), "{error}");
    b.drain_cluster_node(false).unwrap();
    until_status(a, "it has work again", |status| work(status)[1] == ("b".to_owned(), 2)).await;
    until_whole(&mut source, &mut rng, &mut query).await;
    drop(query);
    for node in nodes.into_iter().chain([c]) {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_do_not_fit_the_columns_are_left_out_on_every_node() {
    let source = Source::new(2);
    source.kafka.make_topic("typed", 2);
    source.kafka.set_append_time("typed", true);
    let nodes = cluster(&source, &["a", "b"]).await;
    let create = "CREATE STREAM typed (n LONG NOT NULL CHECK (n >= 0), at TIMESTAMP PATH 'when') FROM KAFKA (topic = 'typed') WITH (store = false)";
    sql(&nodes[1].engine, create).await;
    let is_read = |status: &ClusterStatus| {
        let of_topic = || status.partitions.iter().filter(|of| &*of.topic == "typed");
        of_topic().count() == 2 && of_topic().all(|of| of.lag() == Some(0))
    };
    until_status(&nodes[0].engine, "the partitions are read", is_read).await;
    // Only the columns say where `at` is.
    let text = "SELECT n, at FROM STREAM(typed) WHERE at IS NOT NULL";
    let mut query = None;
    until("the stream is on the other node", async || {
        query = try_ask(&nodes[0].engine, text).await.ok();
        query.is_some()
    })
    .await;
    let mut query = query.unwrap();
    let mut expected = BTreeSet::new();
    for n in 0..200_i64 {
        let value = match n % 5 {
            0 => format!("{{\"n\":{n}}}"),
            1 => format!("{{\"n\":-{n},\"when\":\"2026-02-03T04:05:06Z\"}}"),
            2 => format!("{{\"n\":\"{n}\",\"when\":\"2026-02-03T04:05:06Z\"}}"),
            3 => "no event".to_owned(),
            _ => {
                expected.insert(format!("{{\"n\":{n},\"at\":\"2026-02-03T04:05:06.000Z\"}}"));
                format!("{{\"n\":{n},\"when\":\"2026-02-03T04:05:06Z\"}}")
            }
        };
        source.kafka.append("typed", (n % 3 == 0).into(), FakeMessage::value(value));
    }
    let mut seen = BTreeSet::new();
    while seen.len() < expected.len() {
        for line in lines(&next(&mut query).await) {
            assert!(seen.insert(line.clone()), "{line} comes twice");
        }
    }
    assert_eq!(seen, expected);
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_again_ends_its_queries_and_is_read_anew() {
    let mut source = Source::new(2);
    let nodes = cluster(&source, &["a", "b"]).await;
    let mut rng = Rng::new(8);
    let mut query = ask(&nodes[0].engine, WINDOWS).await;
    let mut at_the_other = ask(&nodes[1].engine, WINDOWS).await;
    assert_eq!(compare(&mut source, &mut rng, &mut query, 2).await, 2);
    source.kafka.delete_topic("t");
    source.kafka.make_topic("t", 3);
    source.kafka.set_append_time("t", true);
    source.partitions = 3;
    for query in [&mut query, &mut at_the_other] {
        let why = failure(query).await;
        assert!(why.contains("made again"), "{why}");
    }
    let mut query = ask(&nodes[1].engine, WINDOWS).await;
    until_whole(&mut source, &mut rng, &mut query).await;
    drop(query);
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_nodes_have_written_first_counts() {
    let source = Source::new(2);
    source.kafka.make_topic("u", 1);
    let nodes = cluster(&source, &["a"]).await;
    let engine = &nodes[0].engine;
    // Others took this node for gone, and have ended its query.
    let mut query = ask(engine, WINDOWS).await;
    let key = Some(query.query().id.to_string().into_bytes());
    source.kafka.append(
        "_swiftwater.c.queries",
        0,
        FakeMessage { key, value: None, ..FakeMessage::default() },
    );
    let why = failure(&mut query).await;
    assert!(why.contains("other nodes"), "{why}");
    // A second declaration of a name, and one of a topic, are void.
    for (name, topic) in [("s", "u"), ("v", "t")] {
        let text = format!("CREATE STREAM {name} FROM KAFKA (topic = '{topic}')");
        let key = Some(name.as_bytes().to_vec());
        source.kafka.append(
            "_swiftwater.c.objects",
            0,
            FakeMessage { key, ..FakeMessage::value(text.into_bytes()) },
        );
    }
    sql(engine, "CREATE STREAM w FROM KAFKA (topic = 'u')").await;
    let partitions = engine.cluster_status().await.unwrap().partitions;
    let read: BTreeSet<_> = partitions.iter().map(|of| (&*of.stream, &*of.topic)).collect();
    assert_eq!(read, BTreeSet::from([("s", "t"), ("w", "u")]));
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_refuses_what_it_cannot_answer() {
    let mut source = Source::new(2);
    let nodes = cluster(&source, &["a"]).await;
    let engine = &nodes[0].engine;
    for (text, why) in [
        ("SELECT COUNT(*) AS n FROM STREAM(s)", "WINDOWING"),
        ("SELECT LAST(n) AS n FROM STREAM(s, 1000, TIME) SAMPLE 10%", "SAMPLE"),
    ] {
        let error = try_ask(engine, text).await.err().unwrap().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    // Not asked of the cluster, as by STOMP: refused, and never answered by this node alone.
    let text = "SELECT n FROM STREAM(s)";
    let error = engine.submit(&Principal::local(), text, SubmitOptions::default()).err().unwrap();
    assert!(error.to_string().contains("one of the cluster"), "{error}");
    for (statement, why) in [
        ("CREATE STREAM u (n LONG DEFAULT 1) FROM KAFKA (topic = 'u') WITH (store = false)", "default"),
        ("CREATE STREAM u FROM KAFKA (topic = 't')", "reads topic `t` already"),
        ("CREATE STREAM s FROM KAFKA (topic = 'u')", "exists"),
    ] {
        let error = try_sql(engine, statement).await.unwrap_err().to_string();
        assert!(error.contains(why), "{statement}: {error}");
    }
    // A duration ends a query by the time of the messages.
    let mut query = ask(engine, "SELECT COUNT(*) AS n FROM STREAM(s, 1000, TIME)").await;
    let mut rng = Rng::new(3);
    let begins = source.now;
    let last = loop {
        source.write(&mut rng, 5);
        source.pass(100);
        match tokio::time::timeout(Duration::from_millis(50), query.next()).await {
            Ok(Some(emit)) if emit.meta.finished.is_some() => break emit,
            _ => {}
        }
    };
    assert_eq!(last.meta.finished.unwrap().reason, EndReason::Duration);
    let count = source.messages.iter().filter(|(_, time, _)| (begins..begins + 1000).contains(time)).count();
    assert_eq!(&last.records.text[..], format!("{{\"n\":{count}}}\n").as_bytes());
    // Dropped: its queries end, and its name is free.
    let mut query = ask(engine, text).await;
    sql(engine, "DROP STREAM s").await;
    let end = loop {
        if let Some(finished) = next(&mut query).await.meta.finished {
            break finished;
        }
    };
    assert!(matches!(end.reason, EndReason::Failed(why) if why.contains("dropped")));
    stop(engine.clone(), GRACE).await;
}
