//! Tests Bullet's windows by time where the clock runs ahead of them, in a running engine. The reference is a model of
//! Bullet's two stages that is as simple as can be, one per query, which shares nothing with the engine.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, StreamName, check_block};
use swiftwater_lang::Dialect;
use swiftwater_testkit::{Rng, TestClock};

const START: i64 = 1_767_225_600_000;

/// An engine whose clock is moved by hand.
struct Bench {
    engine: Engine,
    clock: Arc<TestClock>,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new(shards: usize) -> Bench {
        Bench::limited(shards, (0, 100))
    }

    /// One where a query may answer so many times in so many milliseconds.
    fn limited(shards: usize, (emits_max, interval_ms): (u64, u64)) -> Bench {
        let stream = StreamName::new("s").unwrap();
        let config = EngineConfig {
            shards,
            // Only by hand: a look of the engine's own may fall between an event and what it closes.
            tick_ms: 3_600_000,
            default_stream: Some(stream.clone()),
            bullet_emits_max: emits_max,
            emits_interval_ms: interval_ms,
            ..EngineConfig::default()
        };
        let clock = Arc::new(TestClock::at(START));
        let for_engine: Arc<TestClock> = Arc::clone(&clock);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Bench { engine: Engine::start(config, for_engine), clock, stream, runtime }
    }

    fn submit(&self, bql: &str, dialect: Dialect) -> Subscription {
        let options = SubmitOptions { dialect, ..SubmitOptions::default() };
        self.engine.submit(&Principal::local(), bql, options).unwrap()
    }

    /// Sends events, `n` from `first` on, at once.
    fn send(&self, first: u64, count: u64) {
        let lines: String = (first..first + count).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let batch = check_block(Bytes::from(lines.into_bytes()), &CheckLimits::default(), 1).batch;
        let options = AppendOptions::default();
        self.engine.append_blocking(&Principal::local(), &self.stream, batch, options).unwrap();
        self.runtime.block_on(self.engine.drained());
    }

    fn advance(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.engine.tick();
    }

    /// Ends a query; its emits, one a line: `number (due at the millisecond after START): records`.
    fn emits(&self, query: Subscription) -> Vec<String> {
        let emits = self.whole_emits(query);
        let show = |emit: &Emit| {
            let window = emit.meta.window.unwrap();
            format!("{} ({}): {}", window.number, window.end - START, values(emit))
        };
        emits.iter().map(show).collect()
    }

    fn whole_emits(&self, mut query: Subscription) -> Vec<Emit> {
        let _ = self.engine.end_query(&Principal::local(), &query.query().id, EndReason::Duration);
        let mut emits = Vec::new();
        while let Some(emit) = query.next_blocking() {
            emits.push(emit);
        }
        emits
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.shutdown(Duration::from_secs(10)));
    }
}

/// The values of an emit's records.
fn values(emit: &Emit) -> String {
    let text = String::from_utf8(emit.records.text.to_vec()).unwrap();
    let value = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["n"].to_string()
    };
    text.lines().map(value).collect::<Vec<_>>().join(" ")
}

/// The result of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rows,
    Count,
    CountOfAll,
}

/// One query as Bullet runs it: matched events go to one stage, what it gathered until its window closed to the next.
#[derive(Debug)]
struct Model {
    kind: Kind,
    /// It matches every so many-th event.
    nth: u64,
    length: i64,
    first: Stage,
    second: Stage,
    emits: Vec<String>,
}

#[derive(Debug)]
struct Stage {
    closes: i64,
    held: Vec<u64>,
}

impl Model {
    fn new(kind: Kind, nth: u64, length: i64, now: i64) -> Model {
        let stage = || Stage { closes: now + length, held: Vec::new() };
        Model { kind, nth, length, first: stage(), second: stage(), emits: Vec::new() }
    }

    fn bql(&self) -> String {
        let Model { nth, length, .. } = self;
        let (item, window) = match self.kind {
            Kind::Rows => ("n", format!("TUMBLING({length}, TIME)")),
            Kind::Count => ("COUNT(*) AS n", format!("EVERY({length}, TIME, FIRST, {length}, TIME)")),
            Kind::CountOfAll => ("COUNT(*) AS n", format!("EVERY({length}, TIME, ALL)")),
        };
        format!("SELECT {item} FROM STREAM() WHERE n % {nth} = 0 WINDOWING {window}")
    }

    fn event(&mut self, n: u64, now: i64) {
        if n.is_multiple_of(self.nth) {
            self.first.held.push(n);
        }
        if self.close_first(now) && now >= self.second.closes {
            self.close_second();
        }
    }

    fn tick(&mut self, now: i64) {
        self.close_first(now);
        if now >= self.second.closes {
            self.close_second();
        }
    }

    /// Returns true if anything was sent on: rows only if there are some.
    fn close_first(&mut self, now: i64) -> bool {
        if now < self.first.closes {
            return false;
        }
        self.first.closes += self.length;
        let is_sent = self.kind != Kind::Rows || !self.first.held.is_empty();
        self.second.held.append(&mut self.first.held);
        is_sent
    }

    fn close_second(&mut self) {
        let values = match self.kind {
            Kind::Rows => self.second.held.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
            Kind::Count | Kind::CountOfAll => self.second.held.len().to_string(),
        };
        self.emits.push(format!("{} ({}): {values}", self.emits.len() + 1, self.second.closes - START));
        self.second.closes += self.length;
        if self.kind != Kind::CountOfAll {
            self.second.held.clear();
        }
    }

    fn end(mut self) -> Vec<String> {
        self.second.held.append(&mut self.first.held);
        self.close_second();
        self.emits
    }
}

/// Steps are so many events at once, or `+` and so many milliseconds.
fn run(bench: &Bench, steps: &str) {
    let mut sent = 0;
    for step in steps.split(' ') {
        match step.strip_prefix('+') {
            Some(ms) => bench.advance(ms.parse().unwrap()),
            None => {
                let count = step.parse().unwrap();
                bench.send(sent, count);
                sent += count;
            }
        }
    }
}

fn check(bql: &str, steps: &str, expected: &[&str]) {
    let bench = Bench::new(2);
    let query = bench.submit(bql, Dialect::Bullet);
    run(&bench, steps);
    assert_eq!(bench.emits(query), expected, "{bql} after {steps}");
}

/// Checks the answers under a rate limit; the emit that ends the query is marked.
fn check_limited(limit: (u64, u64), bql: &str, steps: &str, expected: &[&str]) {
    let bench = Bench::limited(1, limit);
    let query = bench.submit(bql, Dialect::Bullet);
    run(&bench, steps);
    let show = |emit: &Emit| match emit.meta.finished.as_ref().map(|finished| &finished.reason) {
        None => values(emit),
        Some(EndReason::RateLimited(_)) => format!("limited: {}", values(emit)),
        Some(_) => format!("ended: {}", values(emit)),
    };
    let emits: Vec<String> = bench.whole_emits(query).iter().map(show).collect();
    assert_eq!(emits, expected, "{bql} after {steps}, of {limit:?}");
}

#[test]
fn what_matching_hands_on_is_limited_as_results_are() {
    let pairs = "SELECT n FROM STREAM() WINDOWING TUMBLING(2, RECORD)";
    // Five events were handed on, though only two windows were full; the last result has what came of the third.
    check_limited((4, 1000), pairs, "5 +1000 9", &["0 1", "2 3", "limited: 4"]);
    check_limited((4, 1000), pairs, "4 +1000 1", &["0 1", "2 3", "ended: 4"]);
    check_limited((4, 1000), pairs, "5 +999 1", &["0 1", "2 3", "4 5", "ended: "]);
    // By time a window is handed on as a whole, also one without rows.
    let timed = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)";
    check_limited((1, 1000), timed, "9 +1000 9 +1000", &["9", "9", "ended: 0"]);
    let none = "SELECT n FROM STREAM() WHERE n < 0 WINDOWING TUMBLING(1000, TIME)";
    check_limited((2, 2000), none, "+4000 3 1 +2000", &["", "limited: "]);
}

#[test]
fn an_interval_of_the_limit_ends_with_a_look_though_nothing_was_told() {
    let each = "SELECT n FROM STREAM() WINDOWING TUMBLING(1, RECORD)";
    check_limited((2, 1000), each, "+1000 +500 3 +500", &["0", "1", "2", "limited: "]);
    check_limited((2, 1000), each, "+1500 3 +500", &["0", "1", "2", "ended: "]);
    check_limited((2, 1000), each, "3 +3000", &["0", "1", "2", "ended: "]);
}

#[test]
fn what_was_not_handed_on_when_the_limit_was_passed_is_not_told() {
    let count = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)";
    // The clock runs ahead, so that events close windows faster than there may be.
    check_limited((2, 1000), count, "1 +5000 6 +1000", &["1", "1", "1", "1", "1", "limited: 0"]);
    let all = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING EVERY(1000, TIME, ALL)";
    check_limited((2, 1000), all, "1 +5000 6 +1000", &["1", "2", "3", "4", "5", "limited: 5"]);
}

#[test]
fn one_window_is_closed_a_look_and_each_event_closes_one_until_the_clock_is_caught_up_with() {
    let count = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)";
    check(count, "3 +3500 5", &["1 (1000): 3", "2 (2000): 1", "3 (3000): 1", "4 (4000): 3"]);
    check(count, "3 +3500 +1 +1 2", &["1 (1000): 3", "2 (2000): 0", "3 (3000): 0", "4 (4000): 2"]);
    check(count, "3 +3500", &["1 (1000): 3", "2 (2000): 0"]);
    let all = "SELECT COUNT(*) AS n FROM STREAM() WINDOWING EVERY(1000, TIME, ALL)";
    check(all, "3 +3500 5", &["1 (1000): 3", "2 (2000): 4", "3 (3000): 5", "4 (4000): 8"]);
}

#[test]
fn rows_that_do_not_match_close_no_result_but_the_part_that_is_open_for_matches() {
    let even = "SELECT n FROM STREAM() WHERE n % 2 = 0 WINDOWING TUMBLING(1000, TIME)";
    check(even, "2 +3500 2", &["1 (1000): 0", "2 (2000): 2", "3 (3000): "]);
    // Both late windows have closed for matches, so what matches then waits for its own.
    check(
        even,
        "1 +3500 3 2 +500 +1",
        &["1 (1000): 0", "2 (2000): 2", "3 (3000): 4", "4 (4000): ", "5 (5000): "],
    );
}

#[test]
fn a_duration_that_is_over_ends_the_window_that_is_open() {
    let timed = "SELECT COUNT(*) AS n FROM STREAM(2500, TIME) WINDOWING TUMBLING(1000, TIME)";
    check(timed, "3 +9000 4", &["1 (1000): 3"]);
    check(timed, "3 +2000 1 1 +500 2", &["1 (1000): 3", "2 (2000): 1", "3 (3000): 1"]);
}

#[test]
fn few_windows_wait_after_a_leap_of_a_century() {
    let bench = Bench::new(1);
    let query =
        bench.submit("SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)", Dialect::Bullet);
    bench.advance(100 * 365 * 86_400_000);
    bench.send(0, 5000);
    let emits = bench.emits(query);
    assert_eq!(emits.len(), 1002, "the first one, a thousand of one event each, and what is left");
    assert!(emits[1001].ends_with(": 4000"), "{}", emits[1001]);
}

/// Queries come and go while events come and the clock leaps; those of one meaning share what they hold.
#[test]
fn windows_are_those_of_two_stages_whoever_shares_them() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let bench = Bench::new(1 + (seed % 3) as usize);
        let native =
            bench.submit("SELECT COUNT(*) AS n FROM STREAM() WINDOWING TUMBLING(700, TIME)", Dialect::Native);
        let mut queries: Vec<(Subscription, Model)> = Vec::new();
        let (mut now, mut sent) = (START, 0);
        for _ in 0..60 {
            match rng.below(8) {
                0..2 if queries.len() < 12 => {
                    let kind = [Kind::Rows, Kind::Count, Kind::CountOfAll][rng.below(3)];
                    let length = [1000, 1500, 5000][rng.below(3)];
                    let model = Model::new(kind, 1 + rng.below(3) as u64, length, now);
                    queries.push((bench.submit(&model.bql(), Dialect::Bullet), model));
                }
                2 if !queries.is_empty() => {
                    let (query, model) = queries.swap_remove(rng.below(queries.len()));
                    let bql = model.bql();
                    assert_eq!(bench.emits(query), model.end(), "seed {seed}, {bql}");
                }
                3..5 => {
                    let ms = [1, 400, 1000, 1600, 12_000][rng.below(5)];
                    now += ms as i64;
                    queries.iter_mut().for_each(|(_, model)| model.tick(now));
                    bench.advance(ms);
                }
                _ => {
                    let count = 1 + rng.below(6) as u64;
                    for n in sent..sent + count {
                        queries.iter_mut().for_each(|(_, model)| model.event(n, now));
                    }
                    bench.send(sent, count);
                    sent += count;
                }
            }
        }
        for (query, model) in queries {
            let bql = model.bql();
            assert_eq!(bench.emits(query), model.end(), "seed {seed}, {bql}");
        }
        let counted = bench
            .emits(native)
            .iter()
            .map(|emit| emit.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum::<u64>();
        assert_eq!(counted, sent, "seed {seed}: a native query sees every event once");
    }
}
