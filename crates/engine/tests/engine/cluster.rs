//! Tests nodes of a cluster over a Kafka in memory: windows equal a loop over all messages, or name the partitions that they lack.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use swiftwater_engine::{
    ClusterConfig, Emit, EndReason, Engine, EngineConfig, EngineError, HistoryConfig, KafkaConnections,
    Principal, SubmitOptions, Subscription,
};
use swiftwater_event::SystemClock;
use swiftwater_kafka::Kafka;
use swiftwater_testkit::{FakeKafka, FakeMessage, Rng};
use tempfile::TempDir;

use crate::history::{open_when_free, quick, sql, stop, try_sql};

const GRACE: Duration = Duration::from_secs(5);
const START: i64 = 1_800_000_000_000;

pub(crate) struct Node {
    pub(crate) engine: Engine,
    _dir: TempDir,
}

pub(crate) async fn node(kafka: &FakeKafka, name: &str) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let client: Arc<dyn Kafka> = Arc::new(kafka.client(name));
    let connections = [("main".into(), Arc::clone(&client))].into();
    let cluster = ClusterConfig {
        name: "c".to_owned(),
        node: name.to_owned(),
        kafka: client,
        flush: Duration::from_millis(1),
        partial_wait: Duration::from_millis(300),
        session_timeout: Duration::from_secs(10),
        partials: 4,
    };
    let history = HistoryConfig {
        kafka: KafkaConnections {
            connections,
            refresh: Duration::from_millis(5),
            ..KafkaConnections::default()
        },
        cluster: Some(cluster),
        ..quick(dir.path())
    };
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    Node { engine: open_when_free(config, history, Arc::new(SystemClock::new())).await, _dir: dir }
}

async fn ask(engine: &Engine, text: &str) -> Subscription {
    try_ask(engine, text).await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) async fn try_ask(engine: &Engine, text: &str) -> Result<Subscription, EngineError> {
    let mut options = SubmitOptions::default();
    engine.ask_cluster(text, &mut options).await?;
    Ok(engine.submit(&Principal::local(), text, options)?)
}

/// The brokers' time, and the messages so far: partition, time, key.
struct Source {
    kafka: FakeKafka,
    partitions: u32,
    now: i64,
    messages: Vec<(u32, i64, u64)>,
}

impl Source {
    fn new(partitions: u32) -> Source {
        let kafka = FakeKafka::new();
        kafka.set_time(START);
        kafka.make_topic("t", partitions);
        kafka.set_append_time("t", true);
        Source { kafka, partitions, now: START, messages: Vec::new() }
    }

    fn pass(&mut self, millis: i64) {
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

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
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
async fn cluster(source: &Source, names: &[&str]) -> Vec<Node> {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_refuses_what_it_cannot_answer() {
    let mut source = Source::new(2);
    let nodes = cluster(&source, &["a"]).await;
    let engine = &nodes[0].engine;
    for (text, why) in [
        ("SELECT COUNT(*) AS n FROM STREAM(s)", "WINDOWING"),
        ("SELECT LAST(n) AS n FROM STREAM(s, 1000, TIME)", "order"),
        ("SELECT COUNT(*) AS n FROM STREAM(s) WINDOWING TUMBLING(5, RECORD)", "TIME"),
    ] {
        let error = try_ask(engine, text).await.err().unwrap().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    // Not asked of the cluster, as by STOMP: refused, and never answered by this node alone.
    let text = "SELECT n FROM STREAM(s)";
    let error = engine.submit(&Principal::local(), text, SubmitOptions::default()).err().unwrap();
    assert!(error.to_string().contains("one of the cluster"), "{error}");
    for (statement, why) in [
        ("CREATE STREAM u (n LONG) FROM KAFKA (topic = 'u')", "columns"),
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
