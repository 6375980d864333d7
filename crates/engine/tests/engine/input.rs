//! Tests one query over an input that ends: its errors, its times.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use swiftwater_engine::{EngineConfig, InputError, InputOptions, InputSource, InputSummary, run_input};
use swiftwater_event::{CheckLimits, Clock, Path};
use swiftwater_lang::Dialect;
use swiftwater_testkit::TestClock;

fn options(time_field: Option<&str>) -> InputOptions {
    InputOptions {
        config: EngineConfig { shards: 2, ..EngineConfig::default() },
        check: CheckLimits::default(),
        dialect: Dialect::Native,
        schema: None,
        time_field: time_field.map(Path::field),
        times: false,
        ..InputOptions::default()
    }
}

/// The start of each emit's window, and its records.
type Emits = Vec<(Option<i64>, String)>;

/// Runs the query; answers each emit's window start and text.
fn run(
    query: &str,
    events: &str,
    time_field: Option<&str>,
    clock: Arc<dyn Clock>,
) -> (Result<InputSummary, InputError>, Emits) {
    let mut emits = Vec::new();
    let source = InputSource::Bytes(Bytes::copy_from_slice(events.as_bytes()));
    let outcome = run_input(source, query, &options(time_field), clock, &mut |_| {}, &mut |emit| {
        let text = String::from_utf8_lossy(&emit.records.text).into_owned();
        emits.push((emit.meta.window.map(|window| window.start), text));
        ControlFlow::Continue(())
    });
    (outcome, emits)
}

/// A clock that fails the shards of an input.
struct FailingClock;

impl Clock for FailingClock {
    fn now_micros(&self) -> i64 {
        let on_shard = std::thread::current().name().is_some_and(|name| name.starts_with("input-"));
        assert!(!on_shard, "a test wants this shard to panic");
        0
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

#[test]
fn a_shard_that_panics_is_an_error_and_no_answer() {
    let events = "{\"a\": 1}\n".repeat(1_000_000);
    let (outcome, emits) = run("SELECT COUNT(*) FROM STREAM()", &events, None, Arc::new(FailingClock));
    assert!(matches!(outcome, Err(InputError::Read(_))), "{outcome:?}");
    assert_eq!(emits, []);
}

#[test]
fn events_before_the_first_time_are_in_the_first_window() {
    let query = "SELECT a FROM STREAM() WINDOWING TUMBLING(1, RECORD)";
    let events = "{\"a\":1}\n{\"a\":2,\"t\":5000}\n{\"a\":3}";
    let (outcome, emits) = run(query, events, Some("t"), Arc::new(TestClock::at(0)));
    outcome.expect("it is read to its end");
    let starts: Vec<Option<i64>> = emits.iter().map(|(start, _)| *start).collect();
    assert_eq!(starts[..3], [Some(0), Some(5000), Some(5000)]);
}
