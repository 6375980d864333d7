//! Runs a query over the records of each result of another query.
//!
//! The serialized records are its events. A shard and a collector that exist for this one result parse, match and fold
//! them. Therefore the query has no state between results, and a record means the same to it as to a reader of the
//! result.
//!
//! Memory: the result of the inner query, and its own result; the inner result is decoded [`BLOCK_BYTES`] at a time.
//! Records beyond [`BLOCK_RECORD_BYTES_MAX`] of one block are dropped and counted as a failed operation.

use std::sync::Arc;

use swiftwater_event::{CheckLimits, EventMeta, Millis, check_block};

use super::{Collector, CollectorLimits, ResultSet, Slices};
use crate::{
    matching::Index,
    standing::StandingQuery,
    step::{Shard, SourcePosition, StepInput},
};

/// Bytes of records that are decoded at a time.
const BLOCK_BYTES: usize = 4 << 20;

/// Bytes of the outer query's records of one block; so much is the default of the engine's limit on one answer.
const BLOCK_RECORD_BYTES_MAX: usize = 64 << 20;

/// An outer query, ready to run.
#[derive(Debug)]
pub(crate) struct OuterQuery {
    query: Arc<StandingQuery>,
    index: Index,
}

/// The one query of the index.
const NUMBER: u64 = 0;

impl OuterQuery {
    pub(crate) fn new(query: &Arc<StandingQuery>) -> OuterQuery {
        OuterQuery { index: Index::default().with(NUMBER, query), query: Arc::clone(query) }
    }

    /// The query's answer over the records of `inner`, in its place. No record is a result too; that there could be
    /// none is not.
    pub(crate) fn evaluate(
        &self,
        inner: ResultSet,
        limits: CollectorLimits,
        now: Millis,
        now_micros: i64,
    ) -> ResultSet {
        if inner.failure.is_some() {
            return ResultSet {
                window: inner.window,
                inner_sketches: Some(inner.sketches),
                failure: inner.failure,
                expression_errors: inner.expression_errors,
                ..ResultSet::default()
            };
        }
        let limits = CollectorLimits { one_answer: true, emits_empty_windows: false, times: false, ..limits };
        let mut collector = Collector::new(Arc::clone(&self.query), now, now, limits);
        let mut shard = Shard::default();
        let mut results = Vec::new();
        let mut expression_errors = inner.expression_errors;
        let mut rest = inner.text;
        let mut place = 0;
        while !rest.is_empty() && !collector.is_done() {
            let block = rest.split_to(block_end(&rest));
            let checked = check_block(block, &CHECK_LIMITS, 1);
            // Nothing is refused but what nests deeper than an event may.
            expression_errors += checked.rejected;
            let batch = checked.batch.with_meta(EventMeta { arrival: now, ..EventMeta::default() });
            let input = StepInput {
                batch: &batch,
                arrivals: &[],
                before: None,
                place: SourcePosition::Number(place),
                now_micros,
                record_bytes_max: BLOCK_RECORD_BYTES_MAX,
                nanos: &|| 0,
            };
            let mut steps = Vec::new();
            shard.step(&self.index, &input, &mut steps);
            place += batch.len() as u64;
            for mut step in steps {
                expression_errors += step.expression_errors;
                if let Some(rows) = &mut step.rows {
                    expression_errors += u64::from(rows.is_cut);
                    collector.rows(rows, now_micros, &mut results);
                }
            }
        }
        let mut slices = Slices::default();
        for partial in shard.remove(NUMBER) {
            collector.partial(partial, &mut slices);
        }
        collector.finish(now, &mut slices, now_micros, &mut results);
        let own = results.pop().unwrap_or_default();
        ResultSet {
            window: inner.window,
            expression_errors: expression_errors + own.expression_errors,
            inner_sketches: Some(inner.sketches),
            ..own
        }
    }
}

/// The records were made here: they may be as long as they are.
const CHECK_LIMITS: CheckLimits = CheckLimits {
    event_bytes_max: usize::MAX,
    depth_max: 512,
    rejections_described_max: 0,
    refused_bytes_kept: 0,
};

/// The end of a block of whole records: the last end within [`BLOCK_BYTES`], or else the end of the first record.
fn block_end(text: &[u8]) -> usize {
    let Some(most) = text.get(..BLOCK_BYTES) else { return text.len() };
    let line_end = |at: usize| at + 1;
    let after_first = || text.iter().position(|&byte| byte == b'\n').map_or(text.len(), line_end);
    most.iter().rposition(|&byte| byte == b'\n').map_or_else(after_first, line_end)
}
