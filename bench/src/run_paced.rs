//! Appends events at a steady rate to an engine with running queries, and measures the time from reading an event to each of
//! its matches.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use memchr::memmem;
use swiftwater_engine::{AppendOptions, Engine, Principal, SubmitOptions};
use swiftwater_event::{CheckLimits, SystemClock, check_block};

use crate::{
    args::Tuning,
    run_engine::{config, stream},
    task::{Blocks, Outcome, Stopwatch, Task},
};

/// Events a second: what Bullet's published tests had on hundreds of cores.
pub(crate) const EVENTS_PER_SECOND: f64 = 68_400.0;
/// The name of the spans from reading an event to giving out its record.
pub(crate) const READ_TO_ANSWER: &str = "read to answer";
/// About a millisecond's events.
const BLOCK_KIB: usize = 128;

/// Submits the queries, appends all events at their rate, and only then reads: answers that wait to be read do not
/// slow the shard down, and a reader of as many mailboxes would.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let engine = Engine::start(config(task.tuning)?, Arc::new(SystemClock::new()));
    let principal = Principal::local();
    let mut subscriptions = Vec::new();
    for query in &task.queries() {
        let options = SubmitOptions { times: true, ..SubmitOptions::default() };
        let subscription = engine.submit(&principal, query, options);
        subscriptions.push(subscription.with_context(|| format!("`{query}` was refused"))?);
    }
    let blocks = Blocks::new(bytes, Tuning { block_kib: BLOCK_KIB, ..task.tuning });
    let (stream, limits) = (stream()?, CheckLimits::default());
    let mut outcome = Outcome::default();
    let since = Stopwatch::now();
    let start = Instant::now();
    while let Some(block) = blocks.next() {
        let due = start + Duration::from_secs_f64(outcome.events as f64 / EVENTS_PER_SECOND);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let checked = check_block(block, &limits, 1);
        outcome.events += checked.batch.len() as u64;
        outcome.rejected += checked.rejected;
        engine.append_blocking(&principal, &stream, checked.batch, AppendOptions::default())?;
    }
    runtime.block_on(engine.drained());
    since.record(&mut outcome);
    let mut micros = Vec::new();
    for subscription in &mut subscriptions {
        let mut records = 0;
        while let Some(emit) = subscription.try_next() {
            records += emit.records.count;
            for line in emit.records.text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let time = |name: &str| time(line, name).with_context(|| format!("a record without {name}"));
                micros.push((time("\"answered\":")? - time("\"read\":")?) as f64);
            }
        }
        outcome.matches.push(records);
    }
    outcome.spans.push((READ_TO_ANSWER.to_owned(), micros));
    outcome.dropped = engine.metrics().records_dropped;
    drop(subscriptions);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    Ok(outcome)
}

/// The number behind the last such name.
fn time(record: &[u8], name: &str) -> Option<i64> {
    let at = memmem::rfind(record, name.as_bytes())? + name.len();
    let digits = record[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}
