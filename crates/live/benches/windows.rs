//! Measures the cost of closing one of a row of overlapping windows, by the number of its slices.
//!
//! It compares the slice tree with a merge of all slices of each window. Every slice has the same 200 groups.

use std::sync::Arc;

use bytes::Bytes;
use divan::{Bencher, black_box};
use swiftwater_event::{CheckLimits, EventMeta, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{
    Collector, CollectorLimits, Groups, Index, Partial, Shard, Slices, SourcePosition, StandingQuery,
    StepInput,
};

fn main() {
    divan::main();
}

/// Slices of one window.
const SLICES: [i64; 6] = [1, 4, 16, 64, 250, 1000];

const GROUPS: usize = 200;
const STEP_MS: i64 = 1000;

fn query(slices: i64) -> Arc<StandingQuery> {
    let text = format!(
        "SELECT COUNT(*) AS n FROM STREAM() GROUP BY k HAVING COUNT(*) < 0
         WINDOWING EVERY({STEP_MS}, TIME, LAST, {}, TIME)",
        slices * STEP_MS
    );
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
    Arc::new(StandingQuery::compile(plan).expect("a query"))
}

/// The groups of one slice.
fn groups(query: &Arc<StandingQuery>) -> Groups {
    let events: Vec<String> = (0..GROUPS).map(|key| format!("{{\"k\":\"key-{key}\"}}")).collect();
    let text = Bytes::from(events.join("\n").into_bytes());
    let batch = check_block(text, &CheckLimits::default(), 1).batch.with_meta(EventMeta::default());
    let input = StepInput {
        batch: &batch,
        arrivals: &[],
        before: None,
        place: SourcePosition::Number(0),
        now_micros: 0,
        record_bytes_max: usize::MAX,
        nanos: &|| 0,
    };
    let mut shard = Shard::default();
    shard.step(&Index::default().with(0, query), &input, &mut Vec::new());
    shard.remove(0).pop().expect("a slice").groups
}

#[divan::bench(args = SLICES)]
fn close_here(bencher: Bencher<'_, '_>, count: i64) {
    let query = query(count);
    let groups = groups(&query);
    let limits = CollectorLimits {
        one_answer: false,
        answer_rows_default: 0,
        emits_empty_windows: true,
        times: false,
        closes_singly: false,
        pattern_partials_max: 1000,
    };
    let mut collector = Collector::new(query, 0, 0, limits);
    let mut slices = Slices::default();
    let mut at = 0;
    let mut close = || {
        slices.add(Partial { epoch: 0, start: at, groups: groups.clone() });
        at += STEP_MS;
        let mut out = Vec::new();
        collector.close_by_arrival(at, &mut slices, 0, &mut out);
        out
    };
    (0..count).for_each(|_| drop(close()));
    bencher.bench_local(|| black_box(close()));
}

#[divan::bench(args = SLICES)]
fn merge_of_all(bencher: Bencher<'_, '_>, count: i64) {
    let groups = groups(&query(count));
    bencher.with_inputs(|| vec![groups.clone(); count as usize]).bench_local_values(|parts| {
        let mut slices = Slices::default();
        parts.into_iter().for_each(|groups| slices.add(Partial { epoch: 0, start: 0, groups }));
        black_box(slices)
    });
}
