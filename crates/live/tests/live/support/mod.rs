//! Test drivers for shards and collectors, which the engine drives otherwise.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;
use swiftwater_event::{CheckLimits, EventBatch, check_block};
use swiftwater_live::{
    Collector, CollectorLimits, Index, ResultSet, Shard, Slices, SourcePosition, StandingQuery, StepInput,
};

/// One answer, with all rows there are.
pub(crate) const ONE_ANSWER: CollectorLimits = CollectorLimits {
    one_answer: true,
    answer_rows_default: 1 << 20,
    emits_empty_windows: true,
    times: false,
    closes_singly: false,
    pattern_partials_max: 1000,
};

/// Events as a batch.
pub(crate) fn batch_of(events: &[String]) -> EventBatch {
    let batch = check_block(Bytes::from(events.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    batch
}

/// A step over a batch, at no time in particular.
pub(crate) fn input_of(batch: &EventBatch) -> StepInput<'_> {
    input_from(batch, 0)
}

/// The same, of a batch whose first event has this number.
pub(crate) fn input_from(batch: &EventBatch, first: u64) -> StepInput<'_> {
    StepInput {
        batch,
        arrivals: &[],
        before: None,
        place: SourcePosition::Number(first),
        now_micros: 0,
        record_bytes_max: usize::MAX,
        nanos: &|| 0,
    }
}

/// The counts of a query besides its records.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Done {
    pub(crate) matches: u64,
    pub(crate) expression_errors: u64,
}

/// Runs a query over events dealt in batches of `batch` over `shards` in turn; the results, and what was done.
pub(crate) fn run(
    query: &Arc<StandingQuery>,
    events: &[String],
    batch: usize,
    shards: usize,
) -> (Vec<ResultSet>, Done) {
    let index = Index::default().with(0, query);
    let mut collector = Collector::new(Arc::clone(query), 0, 0, ONE_ANSWER);
    let mut shards: Vec<Shard> = (0..shards).map(|_| Shard::default()).collect();
    let (mut results, mut done) = (Vec::new(), Done::default());
    for (number, events) in events.chunks(batch).enumerate() {
        let first = (number * batch) as u64;
        let (batch, count) = (batch_of(events), shards.len());
        let mut steps = Vec::new();
        shards[number % count].step(&index, &input_from(&batch, first), &mut steps);
        for mut step in steps {
            done.matches += step.matches;
            done.expression_errors += step.expression_errors;
            if let Some(rows) = &mut step.rows {
                collector.rows(rows, 0, &mut results);
            }
        }
        if collector.is_done() {
            break;
        }
    }
    finish(&mut collector, &mut shards, 0, &mut results);
    (results, done)
}

/// Ends a query: what its shards hold, and its last results.
pub(crate) fn finish(
    collector: &mut Collector,
    shards: &mut [Shard],
    number: u64,
    results: &mut Vec<ResultSet>,
) {
    let mut slices = Slices::default();
    for shard in shards {
        shard.remove(number).into_iter().for_each(|partial| collector.partial(partial, &mut slices));
    }
    collector.finish(0, &mut slices, 0, results);
}

/// The records of results.
pub(crate) fn records(results: &[ResultSet]) -> Vec<Json> {
    let text = results.iter().flat_map(|result| result.text.split_inclusive(|&byte| byte == b'\n'));
    let records: Vec<Json> =
        text.map(|line| serde_json::from_slice(line).expect("records are JSON")).collect();
    assert_eq!(records.len() as u64, results.iter().map(|result| result.count).sum::<u64>());
    records
}
