//! Tests that queries that share an operator answer as each would alone, whenever they join and leave.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, StreamName, check_block};
use swiftwater_testkit::{Rng, TestClock};

const START: i64 = 1_700_000_000_000;

struct Bench {
    engine: Engine,
    clock: Arc<TestClock>,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new(shards: usize) -> Bench {
        let stream = StreamName::new("s").expect("a name");
        let config = EngineConfig {
            shards,
            default_stream: Some(stream.clone()),
            tick_ms: 1,
            ..EngineConfig::default()
        };
        let clock = Arc::new(TestClock::at(START));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let for_engine: Arc<TestClock> = Arc::clone(&clock);
        Bench { engine: Engine::start(config, for_engine), clock, stream, runtime }
    }

    fn submit(&self, query: &str) -> Subscription {
        self.engine.submit(&Principal::local(), query, SubmitOptions::default()).expect(query)
    }

    fn send(&self, text: &str) {
        let batch = check_block(Bytes::copy_from_slice(text.as_bytes()), &CheckLimits::default(), 1).batch;
        let options = AppendOptions::default();
        self.engine.append_blocking(&Principal::local(), &self.stream, batch, options).expect("it runs");
        self.runtime.block_on(self.engine.drained());
    }

    fn end(&self, query: &Subscription) {
        let id = &query.query().id;
        // One whose duration is over has ended already.
        let _ = self.engine.end_query(&Principal::local(), id, EndReason::Client);
    }

    fn stop(&self) {
        self.runtime.block_on(self.engine.shutdown(Duration::from_secs(10)));
    }
}

/// The actions, in order.
#[derive(Debug, Clone)]
enum Action {
    Join(usize, String),
    Leave(usize),
    Send(String),
    Pass(u64),
}

fn query(rng: &mut Rng) -> String {
    let filter = rng.pick(&[
        "a > 1 AND b < 8",
        "b < 8 AND 1 < a",
        "(8 > b) AND a > 1 AND a > 1",
        "a > 1",
        "k = 'k1' AND a > 1",
    ]);
    let columns = rng.pick(&[
        "k, COUNT(*) AS n, SUM(a) AS s",
        "k AS key, COUNT(*), SUM(a)",
        "SUM(a) AS s, k, COUNT(*) AS n",
        "k, SUM(a) AS s, COUNT(DISTINCT b) AS d, COUNT(*) AS n",
        "k, COUNT(DISTINCT b) AS d, COUNT(*) AS n",
        "k, COUNT(*) AS n",
        "k",
    ]);
    let rest = rng.pick(&[
        "",
        "HAVING COUNT(*) > 1",
        "HAVING MIN(a) > 2",
        "ORDER BY k LIMIT 1",
        "WINDOWING TUMBLING(1000, TIME)",
        "WINDOWING TUMBLING(700, TIME)",
        "WINDOWING EVERY(500, TIME, LAST, 1500, TIME)",
        "WINDOWING EVERY(600, TIME, LAST, 200, TIME)",
        "WINDOWING EVERY(900, TIME, FIRST, 400, TIME)",
        "WINDOWING EVERY(800, TIME, ALL)",
        "WINDOWING TUMBLING(700, EVENT(ts))",
        "WINDOWING TUMBLING(700, EVENT(ts, 300))",
        "WINDOWING TUMBLING(1000, EVENT(ts, 300))",
        "WINDOWING EVERY(500, EVENT(ts), LAST, 1500, EVENT)",
        "WINDOWING EVERY(500, EVENT(ts, 100), LAST, 2000, EVENT)",
        "WINDOWING EVERY(600, EVENT(ts), LAST, 200, EVENT)",
        "WINDOWING EVERY(900, EVENT(ts, 100), FIRST, 400, EVENT)",
        "WINDOWING EVERY(800, EVENT(ts), ALL)",
        "WINDOWING SESSION(400, TIME)",
        "WINDOWING SESSION(50, TIME)",
        "WINDOWING SESSION(300, EVENT(ts))",
        "WINDOWING SESSION(200, EVENT(ts, 500))",
        "WINDOWING TUMBLING(3, RECORD)",
        "WINDOWING EVERY(2, RECORD, LAST, 5, RECORD)",
        "WINDOWING EVERY(4, RECORD, ALL)",
    ]);
    let duration = rng.pick(&["", "MAX, TIME", "2500, TIME"]);
    let (group, rest) = match rest.split_once("WINDOWING") {
        Some((before, window)) => (before, format!("WINDOWING{window}")),
        None => (rest, String::new()),
    };
    format!("SELECT {columns} FROM STREAM({duration}) WHERE {filter} GROUP BY k {group} {rest}")
}

fn actions(seed: u64) -> Vec<Action> {
    let mut rng = Rng::new(seed);
    let mut actions = Vec::new();
    let mut standing = Vec::new();
    let mut joined = 0;
    let mut time = 0;
    for _ in 0..60 {
        actions.push(match rng.below(10) {
            0..=2 => {
                standing.push(joined);
                joined += 1;
                Action::Join(joined - 1, query(&mut rng))
            }
            3 if !standing.is_empty() => {
                let place = rng.below(standing.len());
                Action::Leave(standing.swap_remove(place))
            }
            3..=6 => {
                let mut event = |rng: &mut Rng| {
                    let (k, a, b) = (rng.below(3), rng.below(9), rng.below(10));
                    time += rng.pick(&[0, 10, 40, 100, 400]);
                    // Now and then one is far ahead, so that who joins behind it is not as far as the others.
                    let behind = rng.pick(&[0, 0, 30, 200, 900, -1500]);
                    let ts = if rng.below(20) == 0 { "null".to_owned() } else { (time - behind).to_string() };
                    format!("{{\"k\":\"k{k}\",\"a\":{a},\"b\":{b},\"ts\":{ts}}}")
                };
                let events: Vec<String> = (0..1 + rng.below(6)).map(|_| event(&mut rng)).collect();
                Action::Send(events.join("\n"))
            }
            _ => Action::Pass(rng.pick(&[1, 50, 100, 333, 500, 1000])),
        });
    }
    actions
}

/// A reader's view of an emit.
fn seen(emit: &Emit) -> String {
    let window = emit.meta.window.map(|window| (window.kind, window.number, window.start, window.end));
    let counts = emit.meta.counts;
    let finished = emit.meta.finished.as_ref().map(|finished| &finished.reason);
    let records = std::str::from_utf8(&emit.records.text).expect("UTF-8");
    let (matched, late, mistyped) = (counts.matched, counts.late, counts.mistyped);
    format!(
        "{records} {window:?} {matched} of {}, {late} late, {mistyped} mistyped, {finished:?}",
        counts.seen
    )
}

/// Runs these actions; only the queries that `stands` says join. The emits of each.
fn run(actions: &[Action], shards: usize, stands: impl Fn(usize) -> bool) -> Vec<(usize, Vec<String>)> {
    let bench = Bench::new(shards);
    let mut queries: Vec<(usize, Subscription)> = Vec::new();
    for action in actions {
        match action {
            Action::Join(number, text) if stands(*number) => queries.push((*number, bench.submit(text))),
            Action::Leave(number) => {
                if let Some((_, query)) = queries.iter().find(|(other, _)| other == number) {
                    bench.end(query);
                }
            }
            Action::Send(text) => bench.send(text),
            Action::Pass(ms) => {
                bench.clock.advance_ms(*ms);
                // An event that arrives now closes what is due, whether or not the ticker was there before it.
                bench.send("{}");
            }
            Action::Join(..) => {}
        }
    }
    for (_, query) in &queries {
        bench.end(query);
    }
    let emits = queries.into_iter().map(|(number, mut query)| {
        let mut emits = Vec::new();
        while let Some(emit) = query.next_blocking() {
            emits.push(seen(&emit));
        }
        (number, emits)
    });
    let emits = emits.collect();
    bench.stop();
    emits
}

#[test]
fn members_answer_as_each_would_alone() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    // In the last one a query ends at the very instant at which a window closes and a gap begins.
    for seed in (0..cases).chain([1365]) {
        let actions = actions(seed);
        let shards = 1 + (seed % 3) as usize;
        for (number, emits) in run(&actions, shards, |_| true) {
            let alone = run(&actions, 1, |other| other == number);
            assert_eq!(alone.len(), 1);
            assert_eq!(emits, alone[0].1, "seed {seed}, query {number} of {actions:#?}");
        }
    }
}

#[test]
fn a_crowd_by_event_time_is_one_entry_of_the_index() {
    let bench = Bench::new(2);
    let query = |window: usize| {
        let window = [
            "TUMBLING(100, EVENT(ts))",
            "TUMBLING(100, EVENT(ts, 50))",
            "EVERY(100, EVENT(ts), LAST, 1000, EVENT)",
        ][window % 3];
        bench.submit(&format!("SELECT COUNT(*) AS n FROM STREAM() WHERE a > 0 WINDOWING {window}"))
    };
    let alone = query(0);
    let before = bench.engine.metrics().index_bytes;
    let mut crowd: Vec<Subscription> = (1..200).map(query).collect();
    assert_eq!(bench.engine.metrics().index_bytes, before);
    bench.send("{\"a\":1,\"ts\":10}\n{\"a\":1,\"ts\":210}\n{\"a\":1,\"ts\":70}");
    for (place, query) in crowd.iter_mut().enumerate() {
        bench.end(query);
        let emits: Vec<String> = std::iter::from_fn(|| query.next_blocking().as_ref().map(seen)).collect();
        let late = if place % 3 == 1 { 0 } else { 1 };
        assert!(emits[0].starts_with("{\"n\":1}"), "{emits:?}");
        assert!(emits.last().is_some_and(|last| last.contains(&format!("3 of 3, {late} late"))), "{emits:?}");
    }
    bench.end(&alone);
    assert_eq!(bench.engine.metrics().state_bytes.0, 0);
    bench.stop();
}

#[test]
fn crowds_with_sessions_and_windows_by_record_are_one_entry_each() {
    let bench = Bench::new(2);
    let query = |window: &str| {
        bench.submit(&format!(
            "SELECT k, COUNT(*) AS n FROM STREAM() WHERE a > 0 GROUP BY k WINDOWING {window}"
        ))
    };
    let first = [query("SESSION(100, TIME)"), query("TUMBLING(2, RECORD)")];
    let before = bench.engine.metrics().index_bytes;
    let mut crowd: Vec<Subscription> = (1..100)
        .flat_map(|number| {
            [query(&format!("SESSION({number}, TIME)")), query(&format!("TUMBLING({number}, RECORD)"))]
        })
        .collect();
    assert_eq!(bench.engine.metrics().index_bytes, before);
    // A query that joins between two events of a session or window sees the second one.
    bench.send("{\"k\":1,\"a\":1}");
    let late = [query("SESSION(100, TIME)"), query("TUMBLING(2, RECORD)")];
    assert_eq!(bench.engine.metrics().index_bytes, before);
    bench.send("{\"k\":1,\"a\":1}");
    for (count, queries) in [(2, first), (1, late)] {
        for mut query in queries {
            bench.end(&query);
            let emit = query.next_blocking().expect("an emit");
            assert_eq!(seen(&emit).split('\n').next(), Some(&*format!("{{\"k\":1,\"n\":{count}}}")));
        }
    }
    crowd.iter().for_each(|query| bench.end(query));
    crowd.clear();
    assert_eq!(bench.engine.metrics().state_bytes.0, 0);
    bench.stop();
}

#[test]
fn a_crowd_of_one_meaning_is_one_entry_of_the_index() {
    let bench = Bench::new(2);
    let alone = bench.submit("SELECT k, COUNT(*) AS n FROM STREAM() WHERE a > 0 GROUP BY k");
    let before = bench.engine.metrics().index_bytes;
    let mut crowd: Vec<Subscription> = (0..200)
        .map(|number| {
            bench.submit(&format!("SELECT COUNT(*) AS n{number}, k FROM STREAM() WHERE 0 < a GROUP BY k"))
        })
        .collect();
    assert_eq!(bench.engine.metrics().index_bytes, before);
    bench.send("{\"k\":1,\"a\":1}\n{\"k\":1,\"a\":0}");
    for (number, query) in crowd.iter_mut().enumerate() {
        bench.end(query);
        let emit = query.next_blocking().expect("a last emit");
        assert_eq!(seen(&emit).split(' ').next(), Some(&*format!("{{\"n{number}\":1,\"k\":1}}\n")));
    }
    bench.end(&alone);
    assert_eq!(bench.engine.metrics().state_bytes.0, 0);
    bench.stop();
}
