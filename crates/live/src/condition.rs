//! Queries over single events that belong to no stream: a condition finds the events of a batch that meet it, and a query makes a
//! row of each event that it selects.

use std::sync::Arc;

use swiftwater_event::EventBatch;
use swiftwater_lang::plan::Body;

use crate::{
    RowChunk, StandingQuery,
    matching::Index,
    step::{Shard, SourcePosition, StepInput},
};

/// The one query of the index.
const NUMBER: u64 = 0;

/// A filter and the columns of a row, without windows, order, limit and lateral views.
#[derive(Debug)]
pub struct RowQuery {
    index: Index,
}

/// The filter of a query over single events, without its columns.
#[derive(Debug)]
pub struct RowCondition(RowQuery);

impl RowQuery {
    /// The rows of a query; none where it is of groups.
    pub fn new(query: StandingQuery) -> Option<RowQuery> {
        let is_raw = matches!(query.plan.body, Body::Raw(_));
        is_raw.then(|| RowQuery { index: Index::default().with(NUMBER, &Arc::new(query)) })
    }

    /// The rows of a batch, in its order; none where it selects no event. They depend on the events, their offsets and their arrival alone.
    /// `shard` is its caller's scratch.
    pub fn rows(&self, shard: &mut Shard, batch: &EventBatch) -> Option<Box<RowChunk>> {
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
        steps.into_iter().find_map(|step| step.rows)
    }
}

impl RowCondition {
    /// The condition of a query; none where that is of groups.
    pub fn new(query: StandingQuery) -> Option<RowCondition> {
        RowQuery::new(query).map(RowCondition)
    }

    /// The rows of a batch that meet it, ascending. `shard` is its caller's scratch.
    pub fn rows(&self, shard: &mut Shard, batch: &EventBatch) -> Vec<u32> {
        self.0.rows(shard, batch).map(|chunk| chunk.rows.to_vec()).unwrap_or_default()
    }
}
