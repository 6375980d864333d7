//! The matcher alone, on one thread: events are checked and decoded as ever, but only the time of finding queries counts.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use bytes::Bytes;
use swiftwater_event::{CheckLimits, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Place, QueryStep, Shard, StandingQuery, StepInput};

use crate::child::{Blocks, Outcome, Since, Task};

/// An index of these queries; query `n` has the number `n`.
pub(crate) fn index(queries: &[String]) -> anyhow::Result<Index> {
    let mut index = Index::default();
    for (number, text) in queries.iter().enumerate() {
        let statement = parse(text, &ParseOptions::new(Dialect::Native, 0))
            .with_context(|| format!("`{text}` was refused"))?;
        let query = StandingQuery::compile(statement.query).with_context(|| format!("`{text}`"))?;
        index = index.with(number as u64, &Arc::new(query));
    }
    Ok(index)
}

/// Steps through all events; answers what each query matched, and how long finding took of it.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let submitting = Instant::now();
    let queries = task.queries();
    let index = index(&queries)?;
    let submit_seconds = submitting.elapsed().as_secs_f64();
    let blocks = Blocks::new(bytes, task.tuning);
    let start = Instant::now();
    let nanos = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (mut shard, mut steps) = (Shard::default(), Vec::<QueryStep>::new());
    let mut outcome = Outcome { submit_seconds, matches: vec![0; queries.len()], ..Outcome::default() };
    let mut matching_nanos = 0;
    let since = Since::now();
    while let Some(block) = blocks.next() {
        let checked = check_block(block, &CheckLimits::default(), 1);
        let input = StepInput {
            batch: &checked.batch,
            arrivals: &[],
            place: Place::Number(outcome.events),
            now_micros: 0,
            record_bytes_max: 64 << 20,
            nanos: &nanos,
        };
        matching_nanos += shard.step(&index, &input, &mut steps).matching;
        outcome.events += checked.batch.len() as u64;
        outcome.rejected += checked.rejected;
        for step in steps.drain(..) {
            outcome.matches[step.number as usize] += step.matches;
        }
    }
    since.note(&mut outcome);
    outcome.stage_seconds = matching_nanos as f64 / 1e9;
    Ok(outcome)
}
