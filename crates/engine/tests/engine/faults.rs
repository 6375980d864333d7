//! Tests that a panic in a thread of the engine ends at most the queries of one stream; windows of all others still close.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use swiftwater_engine::{AppendOptions, EndReason, Engine, EngineConfig, Principal, SubmitOptions, faults};
use swiftwater_event::{CheckLimits, Clock, Millis, StreamName, check_block};
use swiftwater_testkit::TestClock;

use crate::live::{START, reason, text};

/// A clock that panics once, at a given call by the threads of one name, and is right otherwise.
struct FaultyClock {
    clock: TestClock,
    armed: Mutex<Option<Fault>>,
    fired: AtomicU64,
}

struct Fault {
    /// The beginning of the threads' name.
    thread: &'static str,
    /// Calls before the clock shows this (milliseconds since 1970) do not count.
    from: Millis,
    /// Number of their calls that still succeed.
    after: u64,
}

impl FaultyClock {
    fn arm(&self, thread: &'static str, from: Millis, after: u64) {
        *self.armed.lock().expect("no panic holds it") = Some(Fault { thread, from, after });
    }

    fn look(&self, shown: Millis) {
        let thread = std::thread::current();
        let is_concerned = |fault: &Fault| {
            shown >= fault.from && thread.name().is_some_and(|name| name.starts_with(fault.thread))
        };
        let mut armed = self.armed.lock().expect("no panic holds it");
        match armed.as_mut().filter(|fault| is_concerned(fault)) {
            None => return,
            Some(fault) if fault.after > 0 => {
                fault.after -= 1;
                return;
            }
            Some(_) => *armed = None,
        }
        drop(armed);
        self.fired.fetch_add(1, Ordering::SeqCst);
        panic!("the clock fails, as the test wants");
    }
}

impl Clock for FaultyClock {
    fn now_micros(&self) -> i64 {
        let micros = self.clock.now_micros();
        self.look(micros / 1000);
        micros
    }

    fn monotonic_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }
}

struct Setup {
    engine: Engine,
    clock: Arc<FaultyClock>,
    runtime: tokio::runtime::Runtime,
}

impl Setup {
    fn new() -> Setup {
        let clock = Arc::new(FaultyClock {
            clock: TestClock::at(START),
            armed: Mutex::default(),
            fired: AtomicU64::new(0),
        });
        let given: Arc<dyn Clock> = Arc::<FaultyClock>::clone(&clock);
        let config = EngineConfig { shards: 1, tick_ms: 1, ..EngineConfig::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Setup { engine: Engine::start(config, given), clock, runtime }
    }

    fn ask(&self, query: &str) -> swiftwater_engine::Subscription {
        self.engine.submit(&Principal::local(), query, SubmitOptions::default()).expect("a query")
    }

    fn send(&self, stream: &str, events: &str) {
        let batch = check_block(Bytes::copy_from_slice(events.as_bytes()), &CheckLimits::default(), 1).batch;
        let stream = StreamName::new(stream).expect("a name");
        self.engine
            .append_blocking(&Principal::local(), &stream, batch, AppendOptions::default())
            .expect("it is taken");
    }

    fn fired(&self) {
        while self.clock.fired.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn windows_go_on_closing_after_a_panic_in_the_ticker() {
    let setup = Setup::new();
    let mut query =
        setup.ask("SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME) WINDOWING TUMBLING(1000, TIME)");
    setup.send("s", "{}\n{}");
    setup.runtime.block_on(setup.engine.drained());
    let before = faults();
    // The ticker's own look at the clock, outside of any stream.
    setup.clock.arm("ticker", START, 0);
    setup.fired();
    setup.clock.clock.advance_ms(1000);
    let window = query.next_blocking().expect("a window closes");
    assert_eq!((text(&window), reason(&window)), ("{\"n\":2}\n", None));
    assert!(faults() > before);
}

#[test]
fn panic_while_windows_close_ends_the_queries_of_that_stream_only() {
    let setup = Setup::new();
    let text_of = |stream| {
        format!("SELECT COUNT(*) AS n FROM STREAM({stream}, MAX, TIME) WINDOWING TUMBLING(1000, TIME)")
    };
    let mut queries = [setup.ask(&text_of("one")), setup.ask(&text_of("two"))];
    setup.send("one", "{}");
    setup.send("two", "{}\n{}");
    setup.runtime.block_on(setup.engine.drained());
    // The ticker's own look, and then what the first stream gets whose windows are over.
    setup.clock.arm("ticker", START + 1000, 1);
    setup.clock.clock.advance_ms(1000);
    setup.fired();
    let first = queries.each_mut().map(|query| query.next_blocking().expect("an emit"));
    let ended = first.iter().filter(|emit| matches!(reason(emit), Some(EndReason::Failed(_)))).count();
    let closed = first.iter().filter(|emit| reason(emit).is_none()).count();
    assert_eq!((ended, closed), (1, 1), "{first:?}");
    // The stream whose queries ended answers new ones.
    for stream in ["one", "two"] {
        let mut again = setup.ask(&text_of(stream));
        setup.send(stream, "{}\n{}\n{}");
        setup.runtime.block_on(setup.engine.drained());
        setup.clock.clock.advance_ms(1000);
        assert_eq!(text(&again.next_blocking().expect("a window closes")), "{\"n\":3}\n");
    }
}

#[test]
fn panic_while_results_are_handed_on_ends_who_was_to_see_them_and_no_shard() {
    for calls in 0..2 {
        let setup = Setup::new();
        let mut query = setup.ask("SELECT a FROM STREAM(s, MAX, TIME)");
        // A shard looks at the clock before it looks at a batch, and once more before it hands the results on.
        setup.clock.arm("shard", START, calls);
        setup.send("s", "{\"a\":1}");
        setup.fired();
        let last = query.next_blocking().expect("an end");
        assert!(matches!(reason(&last), Some(EndReason::Failed(_))), "{calls}: {last:?}");
        assert_eq!(query.next_blocking(), None);
        let mut again = setup.ask("SELECT a FROM STREAM(s, MAX, TIME)");
        setup.send("s", "{\"a\":2}");
        assert_eq!(text(&again.next_blocking().expect("a record")), "{\"a\":2}\n");
        setup.runtime.block_on(setup.engine.drained());
    }
}
