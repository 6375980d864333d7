//! Tests which events a query sees, and how it ends, where the shards are behind.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, Clock, StreamName, check_block};
use swiftwater_testkit::TestClock;

const START: i64 = 1_700_000_000_000;

/// A clock by which a shard is stopped: a thread that reads it for accounting waits until it is released.
#[derive(Debug)]
struct StoppingClock {
    clock: TestClock,
    stops: AtomicBool,
    has_stopped: AtomicBool,
}

impl Clock for StoppingClock {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        let thread = std::thread::current();
        while thread.name().is_some_and(|name| name.starts_with("shard"))
            && self.stops.load(Ordering::Acquire)
        {
            self.has_stopped.store(true, Ordering::Release);
            std::thread::yield_now();
        }
        self.clock.monotonic_nanos()
    }
}

struct Bench {
    engine: Engine,
    clock: Arc<StoppingClock>,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Bench {
        let stream = StreamName::new("s").expect("a name");
        let config = EngineConfig {
            shards: 1,
            tick_ms: 1,
            default_stream: Some(stream.clone()),
            ..EngineConfig::default()
        };
        let clock = Arc::new(StoppingClock {
            clock: TestClock::at(START),
            stops: AtomicBool::new(false),
            has_stopped: AtomicBool::new(false),
        });
        let for_engine: Arc<StoppingClock> = Arc::clone(&clock);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Bench { engine: Engine::start(config, for_engine), clock, stream, runtime }
    }

    fn submit(&self, query: &str) -> Subscription {
        self.engine.submit(&Principal::local(), query, SubmitOptions::default()).expect("a query")
    }

    fn send(&self, event: &str) {
        let batch = check_block(Bytes::copy_from_slice(event.as_bytes()), &CheckLimits::default(), 1).batch;
        let sent =
            self.engine.append_blocking(&Principal::local(), &self.stream, batch, AppendOptions::default());
        sent.expect("it runs");
    }

    /// Stops the shard in the middle of a batch of one event.
    fn stop_at(&self, event: &str) {
        self.clock.stops.store(true, Ordering::Release);
        self.send(event);
        while !self.clock.has_stopped.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn let_go(&self) {
        self.clock.stops.store(false, Ordering::Release);
        self.runtime.block_on(self.engine.drained());
    }

    /// The records of a query that is killed, and why it says that it ended.
    fn end(&self, query: &mut Subscription) -> (String, Option<EndReason>) {
        let _ = self.engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
        let (mut text, mut reason) = (String::new(), None);
        while let Some(emit) = query.next_blocking() {
            text.push_str(&String::from_utf8_lossy(&emit.records.text));
            reason = emit.meta.finished.map(|finished| finished.reason);
        }
        (text, reason)
    }
}

const QUERIES: [&str; 5] = [
    "SELECT a FROM STREAM() WHERE a > 0",
    "SELECT a, COUNT(*) AS n FROM STREAM() WHERE a > 0 GROUP BY a ORDER BY a",
    // The same in meaning, so that it joins.
    "SELECT a, COUNT(*) AS n FROM STREAM() WHERE 0 < a GROUP BY a ORDER BY a",
    "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a ORDER BY a WINDOWING TUMBLING(3, RECORD)",
    "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a ORDER BY a WINDOWING TUMBLING(1000, TIME)",
];

fn expected(query: usize, seen: std::ops::Range<i64>) -> String {
    seen.map(|a| if query == 0 { format!("{{\"a\":{a}}}\n") } else { format!("{{\"a\":{a},\"n\":1}}\n") })
        .collect()
}

#[test]
fn a_query_sees_nothing_that_waited_when_it_was_asked() {
    let bench = Bench::new();
    let mut early: Vec<Subscription> = QUERIES.map(|query| bench.submit(query)).into();
    bench.stop_at("{\"a\":1}");
    bench.send("{\"a\":2}");
    let mut middle: Vec<Subscription> = QUERIES.map(|query| bench.submit(query)).into();
    bench.send("{\"a\":3}");
    bench.send("{\"a\":4}");
    let mut late: Vec<Subscription> = QUERIES.map(|query| bench.submit(query)).into();
    // One that is gone before anything reaches it.
    drop(bench.submit(QUERIES[1]));
    bench.send("{\"a\":5}");
    bench.let_go();
    for (from, queries) in [(1, &mut early), (3, &mut middle), (5, &mut late)] {
        for (place, query) in queries.iter_mut().enumerate() {
            let id = query.query().id;
            let counts = bench.engine.query(&Principal::local(), &id).expect("it stands").cost;
            assert_eq!(counts.matches, (6 - from) as u64, "{}", QUERIES[place]);
            assert_eq!(bench.end(query).0, expected(place, from..6), "{} from {from}", QUERIES[place]);
        }
    }
}

#[test]
fn an_end_by_duration_comes_before_a_kill_after_it() {
    for late_ms in [-1, 0, 1] {
        let bench = Bench::new();
        let mut query =
            bench.submit("SELECT COUNT(*) AS n FROM STREAM(1000, TIME) WINDOWING TUMBLING(500, TIME)");
        bench.send("{\"a\":1}");
        bench.runtime.block_on(bench.engine.drained());
        bench.clock.clock.advance_ms((1000 + late_ms) as u64);
        bench.send("{\"a\":2}");
        let (text, reason) = bench.end(&mut query);
        let due = if late_ms < 0 { EndReason::Killed } else { EndReason::Duration };
        let last = i64::from(late_ms < 0);
        assert_eq!(
            (text, reason),
            (format!("{{\"n\":1}}\n{{\"n\":{last}}}\n"), Some(due)),
            "{late_ms} ms late"
        );
    }
}
