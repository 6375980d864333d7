//! A condition on rows that belongs to no stream: finds the rows of a batch that meet it.

use std::sync::Arc;

use swiftwater_event::EventBatch;
use swiftwater_lang::plan::Body;

use crate::{
    StandingQuery,
    matching::Index,
    step::{Shard, SourcePosition, StepInput},
};

/// The one query of the index.
const NUMBER: u64 = 0;

/// The filter of a query over single events, without its columns.
#[derive(Debug)]
pub struct RowCondition {
    index: Index,
}

impl RowCondition {
    /// The condition of a query; none where that is of groups.
    pub fn new(query: StandingQuery) -> Option<RowCondition> {
        let is_raw = matches!(query.plan.body, Body::Raw(_));
        is_raw.then(|| RowCondition { index: Index::default().with(NUMBER, &Arc::new(query)) })
    }

    /// The rows of a batch that meet it, ascending. `shard` is its caller's scratch.
    pub fn rows(&self, shard: &mut Shard, batch: &EventBatch) -> Vec<u32> {
        let meta = batch.meta();
        let input = StepInput {
            batch,
            arrivals: &[],
            before: None,
            place: SourcePosition::Number(meta.first.0),
            now_micros: meta.arrival.saturating_mul(1000),
            record_bytes_max: usize::MAX,
            nanos: &|| 0,
        };
        let mut steps = Vec::new();
        shard.step(&self.index, &input, &mut steps);
        steps.into_iter().filter_map(|step| step.rows).flat_map(|chunk| chunk.rows.into_iter()).collect()
    }
}
