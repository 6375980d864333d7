//! Measures the cost of a batch by the number of equivalent queries: as one member of an operator, and as a thousand. By
//! arrival, by event time, and with windows of two lengths.

use std::sync::Arc;

use bytes::Bytes;
use divan::{Bencher, counter::ItemsCount};
use swiftwater_event::{CheckLimits, EventBatch, StreamName, check_block};
use swiftwater_runtime::{AppendOptions, EngineConfig, Principal, Runtime, SubmitOptions, Subscription};
use swiftwater_testkit::TestClock;

fn main() {
    divan::main();
}

const EVENTS: usize = 2000;
const BATCHES: usize = 16;
const QUERIES: [usize; 3] = [1, 100, 1000];

struct Standing {
    engine: Runtime,
    stream: StreamName,
    runtime: tokio::runtime::Runtime,
    _queries: Vec<Subscription>,
    time: usize,
}

impl Standing {
    fn new(count: usize, window: impl Fn(usize) -> &'static str) -> Standing {
        let stream = StreamName::new("s").expect("a name");
        let config =
            EngineConfig { shards: 1, default_stream: Some(stream.clone()), ..EngineConfig::default() };
        let engine = Runtime::start(config, Arc::new(TestClock::at(0)));
        let submit = |number: usize| {
            let text = format!(
                "SELECT k, COUNT(*) AS n{number}, SUM(a) AS s FROM STREAM() WHERE a > 100 GROUP BY k {}",
                window(number)
            );
            engine.submit(&Principal::local(), &text, SubmitOptions::default()).expect("it stands")
        };
        let queries = (0..count).map(submit).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Standing { engine, stream, runtime, _queries: queries, time: 0 }
    }

    /// Batches whose events are a millisecond apart.
    fn batches(&mut self) -> Vec<EventBatch> {
        let batch = |from: usize| {
            let event = |number: usize| {
                format!("{{\"k\":\"key-{}\",\"a\":{},\"ts\":{number}}}", number % 50, number % 1000)
            };
            let text: Vec<String> = (from..from + EVENTS).map(event).collect();
            check_block(Bytes::from(text.join("\n").into_bytes()), &CheckLimits::default(), 1).batch
        };
        let from = self.time;
        self.time += BATCHES * EVENTS;
        (0..BATCHES).map(|number| batch(from + number * EVENTS)).collect()
    }

    fn take(&self, batches: Vec<EventBatch>) {
        for batch in batches {
            let options = AppendOptions::default();
            let appended = self.engine.append_blocking(&Principal::local(), &self.stream, batch, options);
            assert!(appended.is_ok());
        }
        self.runtime.block_on(self.engine.drained());
    }
}

fn bench(bencher: Bencher<'_, '_>, mut standing: Standing) {
    // The preparation is not measured; times continue from one sample to the next.
    let batches: Vec<Vec<EventBatch>> = (0..64).map(|_| standing.batches()).collect();
    let next = std::cell::Cell::new(0);
    let of = || {
        let place = next.replace(next.get() + 1);
        batches[place % batches.len()].clone()
    };
    bencher
        .counter(ItemsCount::new(EVENTS * BATCHES))
        .with_inputs(of)
        .bench_local_values(|batches| standing.take(batches));
}

#[divan::bench(args = QUERIES, sample_count = 32, sample_size = 1)]
fn without_windows(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, Standing::new(count, |_| ""));
}

/// A window of each closes once in five batches.
#[divan::bench(args = QUERIES, sample_count = 32, sample_size = 1)]
fn by_event_time(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, Standing::new(count, |_| "WINDOWING TUMBLING(10000, EVENT(ts, 1000))"));
}

#[divan::bench(args = QUERIES, sample_count = 32, sample_size = 1)]
fn by_event_time_of_two_lengths(bencher: Bencher<'_, '_>, count: usize) {
    let window = |number: usize| match number % 2 {
        0 => "WINDOWING TUMBLING(10000, EVENT(ts, 1000))",
        _ => "WINDOWING EVERY(10000, EVENT(ts, 1000), LAST, 100000, EVENT)",
    };
    bench(bencher, Standing::new(count, window));
}
