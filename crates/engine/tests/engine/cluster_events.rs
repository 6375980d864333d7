//! Tests queries over a cluster that one node computes from the events of all: they answer as an input with the same events does.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_engine::{
    Engine, EngineConfig, InputOptions, InputSource, Principal, SubmitOptions, Subscription, run_input,
};
use swiftwater_event::Path;
use swiftwater_lang::plan::Literal;
use swiftwater_testkit::{FakeMessage, Rng, TestClock};

use crate::cluster::{GRACE, START, Source, ask, cluster, failure, next, try_ask, until};
use crate::history::{sql, stop};

/// Queries that depend on the order of all events, on their own times, or on a pattern.
const QUERIES: [&str; 12] = [
    "SELECT k, LAST(x) AS x, FIRST(n) AS n, ARG_MAX(n, x) AS m FROM STREAM(s) GROUP BY k WINDOWING TUMBLING(1000, TIME)",
    "SELECT COLLECT_LIST(n, 5) AS l FROM STREAM(s) WHERE kind = 'a' WINDOWING EVERY(500, TIME, LAST, 1000, TIME)",
    "SELECT COUNT(*) AS c, MIN(n) AS n FROM STREAM(s) WHERE x > 3 WINDOWING TUMBLING(7, RECORD)",
    "SELECT n, k FROM STREAM(s) WHERE k = 2 WINDOWING TUMBLING(3, RECORD)",
    "SELECT k, COUNT(*) AS c, LAST(n) AS n FROM STREAM(s) GROUP BY k WINDOWING SESSION(150, TIME)",
    "SELECT k, COUNT(*) AS c FROM STREAM(s) WHERE x < 8 GROUP BY k WINDOWING TUMBLING(400, EVENT(ts, 20))",
    "SELECT n FROM STREAM(s) WHERE kind = 'b' WINDOWING TUMBLING(400, EVENT(ts, 10))",
    "SELECT k, COUNT(*) AS c FROM STREAM(s) GROUP BY k WINDOWING SESSION(100, EVENT(ts, 20))",
    "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k MEASURES COUNT(F.*) AS c, SUM(F.x) AS s, match_end AS e
       PATTERN (F{2,} S) WITHIN 300 DEFINE F AS kind = 'a', S AS kind = 'b')",
    "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k MEASURES A.n AS n, match_end AS e
       PATTERN (A !B) WITHIN 200 DEFINE A AS kind = 'a', B AS kind = 'b')",
    "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY k ORDER BY EVENT(ts, 20) MEASURES A.ts AS a, B.ts AS b
       PATTERN (A B) WITHIN 60 DEFINE A AS kind = 'a', B AS kind = 'b' AND B.x >= A.x)",
    "SELECT m, COUNT(*) AS c, LAST(n) AS n FROM STREAM(s) LATERAL VIEW EXPLODE(l) AS m WHERE x > 1 AND m < 3 GROUP BY m
       WINDOWING TUMBLING(1000, TIME)",
];

/// The records of a query over an input of these events.
fn oracle(query: &str, events: &[String]) -> String {
    let options = InputOptions {
        config: EngineConfig { shards: 1, ..EngineConfig::default() },
        time_field: Some(Path::field("at")),
        ..InputOptions::default()
    };
    let mut records = String::new();
    let source = InputSource::Bytes(Bytes::from(events.join("\n")));
    run_input(source, query, &options, Arc::new(TestClock::at(0)), &mut |_| {}, &mut |emit| {
        records.push_str(&String::from_utf8_lossy(&emit.records.text));
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|why| panic!("{query}\n{why}"));
    records
}

/// Asks a query whose windows wait for all partitions, however busy this machine is.
async fn ask_all(engine: &Engine, text: &str) -> Subscription {
    let mut options = SubmitOptions { waits: true, ..SubmitOptions::default() };
    engine.ask_cluster(text, &mut options).await.unwrap();
    engine.submit(&Principal::local(), text, options).unwrap()
}

/// Waits until the workers of all partitions know the queries that were asked: they answer one that was asked after them. Returns the events
/// for it. A worker that learns of a query late has the events of some seconds before.
async fn until_known(source: &Source, engine: &Engine, partitions: u32) -> Vec<String> {
    let mut probe = ask(engine, "SELECT probe FROM STREAM(s) WHERE probe IS NOT NULL").await;
    let event = |partition: u32| format!("{{\"at\":{},\"probe\":{partition}}}", source.now);
    let events: Vec<String> = (0..partitions).map(event).collect();
    for (partition, event) in (0..).zip(&events) {
        source.kafka.append("t", partition, FakeMessage::value(event.clone()));
    }
    let mut records = 0;
    while records < events.len() {
        records += std::str::from_utf8(&next(&mut probe).await.records.text).unwrap().lines().count();
    }
    events
}

/// Adds what a query answers until its records are at least so long.
async fn read(query: &mut Subscription, records: &mut String, bytes: usize) {
    while records.len() < bytes {
        let emit = next(query).await;
        let of = emit.meta.cluster.as_ref().expect("it is of the cluster");
        assert_eq!(of.missing, Vec::<Box<str>>::new());
        assert!(emit.meta.finished.is_none(), "{:?}", emit.meta.finished);
        records.push_str(std::str::from_utf8(&emit.records.text).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordered_queries_answer_as_an_input_with_the_same_events() {
    for seed in 0..3 {
        let mut source = Source::new(3);
        let nodes = cluster(&source, &["a", "b"]).await;
        let mut rng = Rng::new(seed);
        // Windows of an input begin in 1970, those of a query with it.
        let begins = START + 1000;
        assert_eq!(begins % 1000, 0);
        source.pass(begins - source.now);
        let mut queries = Vec::new();
        for (place, text) in QUERIES.iter().enumerate() {
            queries.push(ask_all(&nodes[place % 2].engine, text).await);
        }
        let probes = until_known(&source, &nodes[0].engine, 3).await;
        // By time, partition and offset.
        let mut events: Vec<(i64, u32, usize, String)> = Vec::new();
        events.extend((0..).zip(probes).map(|(partition, event)| (source.now, partition, 0, event)));
        for n in 1..400 {
            if rng.chance(0.6) {
                source.pass(rng.pick(&[1, 3, 10, 30]));
            }
            if rng.chance(0.05) {
                tokio::task::yield_now().await;
            }
            let (at, partition) = (source.now, rng.below(3) as u32);
            let (k, x, ts) = (rng.below(4), rng.below(10), at - rng.below(30) as i64);
            let kind = rng.pick(&["a", "a", "b", "c"]);
            let event = format!(
                r#"{{"at":{at},"n":{n},"k":{k},"kind":"{kind}","x":{x},"ts":{ts},"l":[{},{}]}}"#,
                rng.below(4),
                rng.below(4)
            );
            source.kafka.append("t", partition, FakeMessage::value(event.clone()));
            events.push((at, partition, n, event));
        }
        events.sort();
        let sorted: Vec<String> = events.iter().map(|(.., event)| event.clone()).collect();
        // All windows are over, and all partitions are past that.
        source.pass(10_000);
        for partition in 0..3 {
            let last =
                format!(r#"{{"at":{},"n":1000,"k":9,"kind":"z","x":0,"ts":{}}}"#, source.now, source.now);
            source.kafka.append("t", partition, FakeMessage::value(last));
        }
        source.pass(1000);
        for (text, query) in QUERIES.iter().zip(&mut queries) {
            let all = oracle(text, &sorted);
            // An input closes the last window, which is over by time in some of these only.
            let whole = if text.contains("RECORD") { all.len() * 9 / 10 } else { all.len() };
            assert!(all.lines().count() > 4, "seed {seed}: {text}: {all}");
            let mut records = String::new();
            read(query, &mut records, whole).await;
            let common = records.len().min(all.len());
            // An input closes sessions by time together, where their keys have an order; here each closes at its time.
            match text.contains("SESSION(150, TIME)") {
                false => assert_eq!(records[..common], all[..common], "seed {seed}: {text}"),
                true => {
                    let all: BTreeSet<&str> = all.lines().collect();
                    assert!(records.lines().all(|line| all.contains(line)), "seed {seed}: {text}: {records}");
                }
            }
            assert!(common >= whole);
        }
        drop(queries);
        for node in nodes {
            stop(node.engine, GRACE).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_joins_and_bullets_dialect_work_over_a_cluster() {
    let mut source = Source::new(2);
    let nodes = cluster(&source, &["a", "b"]).await;
    let engine = &nodes[0].engine;
    sql(engine, "CREATE STREAM names (k LONG, name STRING)").await;
    sql(
        engine,
        "CREATE MATERIALIZED VIEW named AS SELECT k, LAST(name) AS name FROM STREAM(names) GROUP BY k",
    )
    .await;
    sql(engine, "INSERT INTO names (k, name) VALUES (1, 'one'), (2, 'two')").await;
    let mut joined = ask(
        engine,
        "SELECT s.n AS n, v.name AS name FROM STREAM(s) JOIN named AS v ON v.k = s.k WHERE s.n < 100",
    )
    .await;

    let of_parameters = SubmitOptions { parameters: vec![Literal::Integer(2)], ..SubmitOptions::default() };
    let text = "SELECT n FROM STREAM(s) WHERE k = $1";
    let mut options = of_parameters.clone();
    engine.ask_cluster(text, &mut options).await.unwrap();
    let mut with_parameters = engine.submit(&Principal::local(), text, options).unwrap();
    let text = "SELECT LAST(n) AS n FROM STREAM(s) WHERE k = $1 WINDOWING TUMBLING(2, RECORD)";
    let mut options = SubmitOptions { waits: true, ..of_parameters };
    engine.ask_cluster(text, &mut options).await.unwrap();
    let mut ordered = engine.submit(&Principal::local(), text, options).unwrap();
    let text = "SELECT n FROM STREAM(MAX, TIME) WHERE k = 1 LIMIT 2";
    let mut options = SubmitOptions { dialect: swiftwater_lang::Dialect::Bullet, ..SubmitOptions::default() };
    // Bullet's dialect has one stream, the default one.
    assert!(engine.ask_cluster(text, &mut options).await.is_ok() && options.remote.is_none());

    // Several events of one message.
    source.kafka.make_topic("lines", 1);
    source.kafka.set_append_time("lines", true);
    sql(engine, "CREATE STREAM lines FROM KAFKA (topic = 'lines', format = ndjson)").await;
    let mut of_lines = ask_all(engine, "SELECT n FROM STREAM(lines) WINDOWING TUMBLING(3, RECORD)").await;
    source.pass(5);
    let lines = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}".to_owned();
    source.kafka.append("lines", 0, FakeMessage::value(lines));

    let listed = engine.cluster_queries(10).unwrap();
    assert!(listed.iter().any(|query| query.text.contains("LAST(n)")), "{listed:?}");
    for n in 0..6 {
        let event = format!("{{\"n\":{n},\"k\":{}}}", n % 3);
        source.pass(5);
        source.kafka.append("t", n % 2, FakeMessage::value(event));
    }
    source.pass(1000);
    let records = async |query: &mut Subscription, lines: usize| {
        let mut records = Vec::new();
        while records.len() < lines {
            let emit = next(query).await;
            records.extend(std::str::from_utf8(&emit.records.text).unwrap().lines().map(str::to_owned));
        }
        records.sort();
        records
    };
    assert_eq!(
        records(&mut joined, 4).await,
        [
            r#"{"n":1,"name":"one"}"#,
            r#"{"n":2,"name":"two"}"#,
            r#"{"n":4,"name":"one"}"#,
            r#"{"n":5,"name":"two"}"#
        ]
    );
    assert_eq!(records(&mut with_parameters, 2).await, [r#"{"n":2}"#, r#"{"n":5}"#]);
    assert_eq!(records(&mut ordered, 1).await, [r#"{"n":5}"#]);
    assert_eq!(records(&mut of_lines, 3).await, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
    drop((joined, with_parameters, ordered, of_lines));
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn query_with_more_events_than_its_node_takes_ends_with_the_remedy() {
    let mut source = Source::new(2);
    let nodes = cluster(&source, &["a"]).await;
    let engine = &nodes[0].engine;
    let mut many =
        ask_all(engine, "SELECT COUNT(*) AS c FROM STREAM(s) WINDOWING TUMBLING(1000000, RECORD)").await;
    let mut few =
        ask_all(engine, "SELECT LAST(n) AS n FROM STREAM(s) WHERE n = 7 WINDOWING TUMBLING(1, RECORD)").await;
    until_known(&source, engine, 2).await;
    let text = "x".repeat(64 << 10);
    // All in one moment of the brokers.
    for n in 0..1200 {
        source.kafka.append("t", n % 2, FakeMessage::value(format!("{{\"n\":{n},\"t\":\"{text}\"}}")));
    }
    source.pass(1000);
    let why = tokio::time::timeout(Duration::from_secs(60), failure(&mut many)).await.unwrap();
    assert!(why.contains("cluster.event_bytes_per_second"), "{why}");
    assert_eq!(&next(&mut few).await.records.text[..], b"{\"n\":7}\n");
    assert!(
        try_ask(engine, "SELECT LAST(n) AS n FROM STREAM(s) WINDOWING TUMBLING(1, RECORD)").await.is_ok()
    );
    for node in nodes {
        stop(node.engine, GRACE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_query_of_a_node_that_is_gone_begins_anew_on_another() {
    let mut source = Source::new(2);
    let mut nodes = cluster(&source, &["a", "b"]).await;
    let text = "SELECT n FROM STREAM(s) WHERE n >= $1";
    let mut options =
        SubmitOptions { detach: true, parameters: vec![Literal::Integer(5)], ..SubmitOptions::default() };
    let (a, b) = (nodes.remove(0), nodes.remove(0));
    b.engine.ask_cluster(text, &mut options).await.unwrap();
    let id = b.engine.submit_detached(&Principal::local(), text, options).await.unwrap().id;
    stop(b.engine, GRACE).await;
    let mut taken = None;
    until("the other node has taken it over", async || {
        taken = a.engine.attach(&Principal::local(), &id).ok();
        taken.is_some()
    })
    .await;
    let mut query = taken.expect("the other node has it");
    for n in 0..10 {
        source.pass(5);
        source.kafka.append("t", n % 2, FakeMessage::value(format!("{{\"n\":{n}}}")));
    }
    source.pass(1000);
    let (mut records, mut warnings) = (BTreeSet::new(), Vec::new());
    while records.len() < 5 {
        let emit = next(&mut query).await;
        warnings.extend(emit.meta.warnings.iter().map(ToString::to_string));
        records.extend(std::str::from_utf8(&emit.records.text).unwrap().lines().map(str::to_owned));
    }
    assert_eq!(records, (5..10).map(|n| format!("{{\"n\":{n}}}")).collect());
    assert!(warnings.iter().any(|warning| warning.contains("began anew on node `a`")), "{warnings:?}");
    let listed = a.engine.cluster_queries(10).unwrap();
    assert_eq!((listed.len(), &*listed[0].node, listed[0].id.as_str()), (1, "a", &*id.to_string()));
    stop(a.engine, GRACE).await;
}
