//! Generates random queries, events and times.

#![allow(clippy::print_stderr, reason = "figures are shown beside a test that fails")]

use serde_json::{Map, Value as Json};
use swiftwater_engine::Emit;
use swiftwater_testkit::{LanguageFeatures, MixedEvents, Rng, oracle::ReceivedEmit};

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not `{text}`")))
}

/// The seeds of a test's cases: `short` of them, or as many as are asked for.
pub(crate) fn seeds(short: u64) -> std::ops::Range<u64> {
    let first = number("TORTURE_SEED").unwrap_or(0);
    first..first + number("SOAK_CASES").unwrap_or(short)
}

/// Number of repetitions of each story in a running engine: its threads may interleave differently each time.
pub(crate) fn repeats() -> u64 {
    number("SOAK_REPEATS").unwrap_or(1)
}

/// Prints the steps of a test: shown if it fails, or if asked for.
pub(crate) fn show(text: &str) {
    eprintln!("{text}");
}

/// Features of the language that the queries use.
pub(crate) const WIDE: LanguageFeatures = LanguageFeatures::ALL;

/// An event and when it arrives.
pub(crate) type Timed = (i64, String);

/// Random events that arrive from `start` on within some seconds, each with its arrival in the field `at` and a time
/// of its own, often earlier, in `ts`.
pub(crate) fn timed_events(seed: u64, start: i64, count: usize) -> Vec<Timed> {
    let mut rng = Rng::new(seed.wrapping_mul(31) + 5);
    let mut mixed = MixedEvents::new(seed);
    let mut at = start;
    let mut events = Vec::new();
    for _ in 0..count {
        at += rng.pick(&[0, 0, 0, 1, 7, 20, 100, 400]);
        let behind = rng.pick(&[0, 0, 0, 0, 3, 50, 300, 1500]);
        let event = mixed.event_at(at - behind);
        events.push((at, format!("{{\"at\":{at},{}", &event[1..])));
    }
    events
}

/// An emit's window and records.
pub(crate) fn got(emit: &Emit) -> ReceivedEmit {
    let lines = emit.records.text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let record = |line: &[u8]| -> Map<String, Json> {
        serde_json::from_slice(line).expect("a record is a JSON object")
    };
    let records = lines.map(record).collect();
    (emit.meta.window.map(|window| (window.start, window.end)), records)
}
