//! Runs the matcher alone, on one thread: events are checked and decoded as usual, but only the time of finding queries
//! counts.

use std::{sync::Arc, time::Instant};

use anyhow::Context;
use bytes::Bytes;
use swiftwater_event::{CheckLimits, Decoder, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Matching, StandingQuery};

use crate::{
    machine,
    task::{Blocks, Outcome, Stopwatch, Task},
};

/// An index of these queries, all in its main part; query `n` has the number `n`.
pub(crate) fn index(queries: &[String]) -> anyhow::Result<Index> {
    let mut index = Index::default();
    for (number, text) in queries.iter().enumerate() {
        let statement = parse(text, &ParseOptions::new(Dialect::Native, 0))
            .with_context(|| format!("`{text}` was refused"))?;
        let query = StandingQuery::compile(statement.query).with_context(|| format!("`{text}`"))?;
        index = index.with(number as u64, &Arc::new(query));
        if let Some(rebuild) = index.rebuild() {
            index = index.rebuilt(rebuild.run());
        }
    }
    if let Some(rebuild) = index.rebuild_now() {
        index = index.rebuilt(rebuild.run());
    }
    Ok(index)
}

/// Finds the queries of all events; answers what each query matched, and how long finding took of it.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let submitting = Instant::now();
    let queries = task.queries();
    let index = index(&queries)?;
    let submit_seconds = submitting.elapsed().as_secs_f64();
    let blocks = Blocks::new(bytes, task.tuning);
    let (mut decoder, mut matching) = (Decoder::new(), Matching::default());
    let mut outcome = Outcome { submit_seconds, matches: vec![0; queries.len()], ..Outcome::default() };
    let since = Stopwatch::now();
    while let Some(block) = blocks.next() {
        let checked = check_block(block, &CheckLimits::default(), 1);
        let decoded = decoder.decode(&checked.batch, index.plan());
        let start = machine::thread_seconds();
        matching
            .matches(&index, &decoded, |number, rows| outcome.matches[number as usize] += rows.len() as u64);
        outcome.stage_seconds += machine::thread_seconds() - start;
        outcome.events += checked.batch.len() as u64;
        outcome.rejected += checked.rejected;
    }
    since.record(&mut outcome);
    Ok(outcome)
}
