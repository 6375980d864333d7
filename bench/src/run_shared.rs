//! Runs aggregations on an engine while events are appended; each is asked for its one answer at the end.

use std::{sync::Arc, thread, time::Duration, time::Instant};

use anyhow::Context;
use bytes::Bytes;
use swiftwater_engine::{EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription};
use swiftwater_event::SystemClock;

use crate::{
    machine,
    run_engine::{config, feed, joined},
    task::Set,
    task::{Blocks, Outcome, Stopwatch, Task},
};

/// Submits the queries, appends all events, and reads each query's answer.
pub(crate) fn run(task: Task, set: Set, bytes: Bytes) -> anyhow::Result<Outcome> {
    let queries: Vec<String> = (0..task.standing).map(|place| set.query(place)).collect();
    run_queries(task, &queries, bytes)
}

/// The queries of the task, each of which counts.
pub(crate) fn run_counts(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let mut outcome = run_queries(task, &task.queries(), bytes)?;
    outcome.matches = std::mem::take(&mut outcome.answers).into_iter().map(|(count, _)| count).collect();
    Ok(outcome)
}

fn run_queries(task: Task, texts: &[String], bytes: Bytes) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let config = EngineConfig { state_bytes_max: 16 << 30, ..config(task.tuning)? };
    let engine = Engine::start(config, Arc::new(SystemClock::new()));
    let before = machine::memory("self").own;
    let submitting = Instant::now();
    let mut queries = Vec::new();
    for query in texts {
        let options = SubmitOptions { one_answer: true, ..SubmitOptions::default() };
        let submitted = engine.submit(&Principal::local(), query, options);
        queries.push(submitted.with_context(|| format!("`{query}` was refused"))?);
    }
    let mut outcome = Outcome { submit_seconds: submitting.elapsed().as_secs_f64(), ..Outcome::default() };
    let blocks = Blocks::new(bytes, task.tuning);
    let feeders = if task.tuning.feeders == 0 { machine::cores() } else { task.tuning.feeders };

    let since = Stopwatch::now();
    let feeders = (0..feeders).map(|number| {
        let (engine, blocks) = (engine.clone(), Arc::clone(&blocks));
        thread::Builder::new().name(format!("feeder-{number}")).spawn(move || feed(&engine, &blocks))
    });
    for feeder in feeders.collect::<Vec<_>>() {
        let (events, rejected) = joined(feeder?)??;
        outcome.events += events;
        outcome.rejected += rejected;
    }
    runtime.block_on(engine.drained());
    since.record(&mut outcome);
    // Pending batches are gone by now: what has come is what the queries hold.
    outcome.bytes_per_query =
        machine::memory("self").own.saturating_sub(before) / task.standing.max(1) as u64;
    for query in &mut queries {
        outcome.answers.push(answer(&engine, query)?);
    }
    drop(queries);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    Ok(outcome)
}

/// Ends a query; answers the sum of its records' column `n`, and how many records there are.
fn answer(engine: &Engine, query: &mut Subscription) -> anyhow::Result<(u64, u64)> {
    engine.end_query(&Principal::local(), &query.query().id, EndReason::EndOfInput)?;
    let (mut sum, mut records) = (0, 0);
    while let Some(emit) = query.next_blocking() {
        records += emit.records.count;
        for line in emit.records.text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let record: serde_json::Value = serde_json::from_slice(line).context("a record is no JSON")?;
            sum += record["n"].as_u64().unwrap_or(0);
        }
    }
    Ok((sum, records))
}
