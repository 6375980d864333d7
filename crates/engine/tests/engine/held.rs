//! Tests streams whose shards are slow or fail. The clock that a shard reads delays it, or makes it panic.

use std::{
    pin::pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, Emit, EndReason, Engine, EngineConfig, EngineError, ErrorKind, Principal, RuntimeError,
    SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, Clock, EventBatch, StreamName, check_block};
use swiftwater_lang::Dialect;
use swiftwater_testkit::TestClock;

use crate::history::{open_when_free, quick, sql, stop};

const START: i64 = 1_700_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trap {
    None,
    /// The next shard that looks at a batch waits.
    Hold,
    /// One waits.
    Held,
    /// The next shard that looks at a batch panics.
    Panic,
}

/// A clock that can stop its readers.
struct TrapClock {
    clock: TestClock,
    trap: Mutex<Trap>,
    changed: Condvar,
}

impl TrapClock {
    fn lock(&self) -> MutexGuard<'_, Trap> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, trap: Trap) {
        *self.lock() = trap;
        self.changed.notify_all();
    }

    fn wait_until_held(&self) {
        let mut trap = self.lock();
        while *trap != Trap::Held {
            trap = self.changed.wait(trap).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Clock for TrapClock {
    fn now_micros(&self) -> i64 {
        if std::thread::current().name().is_some_and(|name| name.starts_with("shard-")) {
            let mut trap = self.lock();
            match *trap {
                Trap::Hold => {
                    *trap = Trap::Held;
                    self.changed.notify_all();
                    while *trap == Trap::Held {
                        trap = self.changed.wait(trap).unwrap_or_else(PoisonError::into_inner);
                    }
                }
                Trap::Panic => {
                    *trap = Trap::None;
                    drop(trap);
                    panic!("a test wants this shard to panic");
                }
                Trap::None | Trap::Held => {}
            }
        }
        self.clock.now_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }
}

struct Bench {
    engine: Engine,
    clock: Arc<TrapClock>,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
}

fn batch(text: &str) -> EventBatch {
    check_block(Bytes::copy_from_slice(text.as_bytes()), &CheckLimits::default(), 1).batch
}

impl Bench {
    fn new(shards: usize) -> Bench {
        Bench::with(EngineConfig { shards, ..EngineConfig::default() })
    }

    fn with(config: EngineConfig) -> Bench {
        let stream = StreamName::new("s").expect("a name");
        let config = EngineConfig { default_stream: Some(stream.clone()), tick_ms: 1, ..config };
        let clock =
            TrapClock { clock: TestClock::at(START), trap: Mutex::new(Trap::None), changed: Condvar::new() };
        let clock = Arc::new(clock);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let for_engine: Arc<TrapClock> = Arc::clone(&clock);
        Bench { engine: Engine::start(config, for_engine), clock, stream, runtime }
    }

    fn submit(&self, query: &str) -> Subscription {
        self.engine.submit(&Principal::local(), query, SubmitOptions::default()).expect("a query")
    }

    fn send(&self, text: &str) {
        let options = AppendOptions::default();
        self.engine
            .append_blocking(&Principal::local(), &self.stream, batch(text), options)
            .expect("it runs");
    }

    /// Sends an event that a shard is held at.
    fn send_and_hold(&self, text: &str) {
        self.clock.set(Trap::Hold);
        self.send(text);
        self.clock.wait_until_held();
    }

    /// Makes the ticker tick at least once more.
    fn let_tick(&self) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(30)).await });
    }

    fn drained(&self) {
        self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(10), self.engine.drained())
                .await
                .expect("the shards work on")
        });
    }
}

fn text(emit: &Emit) -> &str {
    std::str::from_utf8(&emit.records.text).expect("UTF-8")
}

fn reason(emit: &Emit) -> Option<&EndReason> {
    emit.meta.finished.as_ref().map(|finished| &finished.reason)
}

#[test]
fn events_that_waited_are_in_the_window_of_their_arrival() {
    let bench = Bench::new(1);
    let mut counts =
        bench.submit("SELECT COUNT(*) AS n FROM STREAM(2000, TIME) WINDOWING TUMBLING(1000, TIME)");
    let mut rows = bench.submit("SELECT a FROM STREAM(2000, TIME) WINDOWING TUMBLING(1000, TIME)");
    bench.send_and_hold("{\"a\":1}");
    bench.send("{\"a\":2}");
    bench.clock.clock.advance_ms(1000);
    bench.send("{\"a\":3}");
    bench.let_tick();
    bench.clock.set(Trap::None);
    bench.drained();
    bench.clock.clock.advance_ms(1000);
    assert_eq!(text(&counts.next_blocking().unwrap()), "{\"n\":2}\n");
    assert_eq!(text(&counts.next_blocking().unwrap()), "{\"n\":1}\n");
    assert_eq!(text(&rows.next_blocking().unwrap()), "{\"a\":1}\n{\"a\":2}\n");
    assert_eq!(text(&rows.next_blocking().unwrap()), "{\"a\":3}\n");
}

#[test]
fn events_that_waited_on_other_streams_are_in_the_window_of_their_arrival() {
    let bench = Bench::new(1);
    let mut counts = bench.submit("SELECT COUNT(*) AS n FROM STREAM(other, 1000, TIME)");
    let _query = bench.submit("SELECT * FROM STREAM()");
    // The only shard is held at an event of another stream.
    bench.send_and_hold("{\"a\":1}");
    let other = StreamName::new("other").unwrap();
    bench.engine.append_blocking(&Principal::local(), &other, batch("{}"), AppendOptions::default()).unwrap();
    bench.clock.clock.advance_ms(1000);
    bench.let_tick();
    bench.clock.set(Trap::None);
    bench.drained();
    let answer = counts.next_blocking().unwrap();
    assert_eq!((text(&answer), reason(&answer)), ("{\"n\":1}\n", Some(&EndReason::Duration)));
    assert_eq!(answer.meta.counts.seen, 1);
}

#[test]
fn a_shard_that_panics_ends_the_queries_concerned_and_works_on() {
    let bench = Bench::new(1);
    let mut query = bench.submit("SELECT a FROM STREAM()");
    bench.clock.set(Trap::Panic);
    bench.send("{\"a\":1}");
    bench.drained();
    let last = query.next_blocking().unwrap();
    assert!(matches!(reason(&last), Some(EndReason::Failed(_))), "{last:?}");
    let mut other = bench.submit("SELECT a FROM STREAM()");
    bench.send("{\"a\":2}");
    let emit = other.next_blocking().unwrap();
    assert_eq!((text(&emit), emit.meta.stream.position), ("{\"a\":2}\n", 2));
}

#[test]
fn sources_wait_for_a_slow_shard_whose_events_are_to_be_delivered_first() {
    let bench = Bench::with(EngineConfig { shards: 2, pending_bytes_max: 10_000, ..EngineConfig::default() });
    let _query = bench.submit("SELECT * FROM STREAM()");
    bench.send_and_hold("{\"a\":1}");
    let event = format!("{{\"a\":\"{}\"}}", "x".repeat(90));
    let mut sent = 0;
    while sent < 1000 {
        let principal = Principal::local();
        let append = bench.engine.append(&principal, &bench.stream, batch(&event), AppendOptions::default());
        let limit = Duration::from_millis(200);
        if bench.runtime.block_on(async { tokio::time::timeout(limit, append).await }).is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent <= 10_000 / 90, "{sent} events are ahead of the one that is held");
    bench.clock.set(Trap::None);
    bench.drained();
}

#[test]
fn events_that_nobody_asks_for_are_counted_and_wake_no_shard() {
    let bench = Bench::new(1);
    bench.send("{}");
    for _ in 0..10 {
        bench.send("{}\n{}");
    }
    bench.drained();
    let streams = bench.engine.streams(&Principal::local());
    let told: Vec<(u64, u64)> = streams.iter().map(|stream| (stream.events, stream.pending_bytes)).collect();
    assert_eq!((told, bench.engine.metrics().shards[0].events), (vec![(21, 0)], 0));
}

#[test]
fn the_time_is_that_of_each_events_arrival() {
    let bench = Bench::new(1);
    let options = SubmitOptions { dialect: Dialect::Bullet, ..SubmitOptions::default() };
    let text_of_query = "SELECT UNIXTIMESTAMP() AS t FROM STREAM() LIMIT 3";
    let mut query = bench.engine.submit(&Principal::local(), text_of_query, options).unwrap();
    bench.send_and_hold("{}");
    bench.send("{}");
    bench.clock.clock.advance_ms(1000);
    bench.send("{}");
    bench.clock.set(Trap::None);
    bench.drained();
    let all = query.next_blocking().unwrap();
    let t = START / 1000;
    assert_eq!(text(&all), format!("{{\"t\":{t}}}\n{{\"t\":{t}}}\n{{\"t\":{}}}\n", t + 1));
}

#[test]
fn windows_of_very_many_queries_close_together_and_each_has_its_answer() {
    let bench = Bench::new(2);
    // More than are closed at a time, of those that stand alone and of those that share.
    let ask = |query: &dyn Fn(i32) -> String| (0..600).map(|n| bench.submit(&query(n))).collect::<Vec<_>>();
    let window = "WINDOWING TUMBLING(1000, TIME)";
    let rows = ask(&|n| format!("SELECT a FROM STREAM(2000, TIME) WHERE a = {n} {window}"));
    let counts = ask(&|n| format!("SELECT COUNT(*) AS n FROM STREAM(2000, TIME) WHERE a >= {n} {window}"));
    let alike = ask(&|_| format!("SELECT SUM(a) AS s FROM STREAM(2000, TIME) {window}"));
    let events: String = (0..600).map(|n| format!("{{\"a\":{n}}}\n")).collect();
    bench.send(events.trim_end());
    bench.drained();
    bench.clock.clock.advance_ms(1000);
    for (n, ((mut row, mut count), mut sum)) in rows.into_iter().zip(counts).zip(alike).enumerate() {
        assert_eq!(text(&row.next_blocking().unwrap()), format!("{{\"a\":{n}}}\n"));
        assert_eq!(text(&count.next_blocking().unwrap()), format!("{{\"n\":{}}}\n", 600 - n));
        assert_eq!(text(&sum.next_blocking().unwrap()), "{\"s\":179700}\n");
    }
}

/// Makes an append wait for room in memory, carries out statements, and makes room. Returns the outcome of the append,
/// and the engine.
async fn appended_across(
    dir: &std::path::Path,
    before: &str,
    event: &str,
    meanwhile: &[&str],
) -> (Result<u64, EngineError>, Engine) {
    let clock =
        TrapClock { clock: TestClock::at(START), trap: Mutex::new(Trap::None), changed: Condvar::new() };
    let clock = Arc::new(clock);
    let config = EngineConfig {
        shards: 1,
        pending_bytes_max: 1,
        default_stream: Some(StreamName::new("busy").expect("a name")),
        ..EngineConfig::default()
    };
    let engine = open_when_free(config, quick(dir), Arc::<TrapClock>::clone(&clock)).await;
    if !before.is_empty() {
        sql(&engine, before).await;
    }
    let _asks = engine
        .submit(&Principal::local(), "SELECT * FROM STREAM()", SubmitOptions::default())
        .expect("a query");
    // The only shard is held at an event, which is all that there may be in memory.
    clock.set(Trap::Hold);
    let (local, busy, t) =
        (Principal::local(), StreamName::new("busy").expect("a name"), StreamName::new("t").expect("a name"));
    engine.append(&local, &busy, batch("{\"a\":1}"), AppendOptions::default()).await.expect("it is taken");
    tokio::task::block_in_place(|| clock.wait_until_held());
    let appended = {
        let mut append = pin!(engine.append(&local, &t, batch(event), AppendOptions::default()));
        assert!(append.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        for statement in meanwhile {
            sql(&engine, statement).await;
        }
        clock.set(Trap::None);
        append.await.map(|appended| appended.accepted)
    };
    (appended, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_waited_do_not_go_into_another_stream_of_the_name() {
    let stored = "CREATE STREAM t (n LONG)";
    let checked = "CREATE STREAM t (n LONG CHECK (n > 5))";
    let live = "CREATE STREAM t (n LONG) WITH (store = false)";
    let live_checked = "CREATE STREAM t (n LONG CHECK (n > 5)) WITH (store = false)";
    let cases: [(&str, &[&str]); 9] = [
        (stored, &["DROP STREAM t", checked]),
        (stored, &["DROP STREAM t", live_checked]),
        (stored, &["DROP STREAM t"]),
        (live, &["DROP STREAM t", checked]),
        (live, &["DROP STREAM t", live_checked]),
        (live, &["DROP STREAM t"]),
        (live, &["ALTER STREAM t SET (store = true)"]),
        ("", &[checked]),
        ("", &[live_checked]),
    ];
    for (before, meanwhile) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (appended, engine) = appended_across(dir.path(), before, "{\"n\":1}", meanwhile).await;
        let error = appended.expect_err(&format!("{before:?}, {meanwhile:?}"));
        assert!(
            matches!(error, EngineError::Runtime(RuntimeError::StreamReplaced(_))),
            "{before:?}, {meanwhile:?}: {error}"
        );
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        if meanwhile.contains(&checked) {
            let (local, t) = (Principal::local(), StreamName::new("t").unwrap());
            let again = |text| engine.append(&local, &t, batch(text), AppendOptions::default());
            assert_eq!(again("{\"n\":1}").await.expect("it is validated").accepted, 0);
            let position = again("{\"n\":6}").await.expect("it is stored").position.offset.0;
            assert_eq!(sql(&engine, "SELECT n FROM t").await, "{\"n\":6}\n");
            assert_eq!(position, 1, "offsets have no gap");
        }
        stop(engine, Duration::from_secs(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_waited_go_into_the_stream_that_is_still_there() {
    for before in ["CREATE STREAM t (n LONG)", "CREATE STREAM t (n LONG) WITH (store = false)", ""] {
        let dir = tempfile::tempdir().unwrap();
        let meanwhile = ["CREATE STREAM other (n LONG)", "DROP STREAM other"];
        let (appended, engine) = appended_across(dir.path(), before, "{\"n\":1}", &meanwhile).await;
        assert_eq!(appended.expect("it is taken"), 1, "{before:?}");
        stop(engine, Duration::from_secs(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_waited_while_their_stream_was_altered_are_validated_again() {
    for (event, accepted) in [("{\"n\":1,\"m\":\"x\"}", 0), ("{\"n\":1,\"m\":2}", 1)] {
        let dir = tempfile::tempdir().unwrap();
        let meanwhile = ["ALTER STREAM t ADD COLUMN m LONG"];
        let (appended, engine) =
            appended_across(dir.path(), "CREATE STREAM t (n LONG)", event, &meanwhile).await;
        assert_eq!(appended.expect("it is looked at"), accepted, "{event}");
        let stored = sql(&engine, "SELECT count(*) AS n, sum(m) AS m FROM t").await;
        assert_eq!(stored, if accepted == 1 { "{\"n\":1,\"m\":2}\n" } else { "{\"n\":0,\"m\":null}\n" });
        stop(engine, Duration::from_secs(10)).await;
    }
}
