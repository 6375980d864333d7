//! Appends events to an engine with running queries, each with a subscription that is read to the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use swiftwater_engine::{AppendOptions, Engine, EngineConfig, Principal, SubmitOptions, Subscription};
use swiftwater_event::{CheckLimits, StreamName, SystemClock, check_block};

use crate::{
    args::Tuning,
    machine,
    task::{Blocks, Outcome, Stopwatch, Task},
};

/// The reader looks at all subscriptions at least this far apart.
const READ_EVERY: Duration = Duration::from_millis(10);

/// An engine in which no reader is too slow: a record that is lost would be a wrong answer.
pub(crate) fn config(tuning: Tuning) -> anyhow::Result<EngineConfig> {
    let default = EngineConfig::default();
    Ok(EngineConfig {
        shards: tuning.shards,
        default_stream: Some(stream()?),
        pending_bytes_max: match tuning.pending_mib {
            0 => default.pending_bytes_max,
            mib => mib << 20,
        },
        queries_max: 2_000_000,
        subscriber_bytes_max: 1 << 30,
        subscribers_bytes_max: 8 << 30,
        subscriber_emits_max: 1 << 24,
        ..default
    })
}

pub(crate) fn stream() -> anyhow::Result<StreamName> {
    StreamName::new("load").context("`load` is a name")
}

/// Submits the queries, appends all events, and counts the answers of each query.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let engine = Engine::start(config(task.tuning)?, Arc::new(SystemClock::new()));
    let submitting = Instant::now();
    let mut subscriptions = Vec::new();
    for query in &task.queries() {
        let subscription = engine.submit(&Principal::local(), query, SubmitOptions::default());
        subscriptions.push(subscription.with_context(|| format!("`{query}` was refused"))?);
    }
    let submit_seconds = submitting.elapsed().as_secs_f64();
    let blocks = Blocks::new(bytes, task.tuning);
    let feeders = if task.tuning.feeders == 0 { machine::cores() } else { task.tuning.feeders };
    let is_fed = Arc::new(AtomicBool::new(false));

    let since = Stopwatch::now();
    let reader = {
        let is_fed = Arc::clone(&is_fed);
        thread::Builder::new().name("reader".to_owned()).spawn(move || read(subscriptions, &is_fed))?
    };
    let feeders = (0..feeders).map(|number| {
        let (engine, blocks) = (engine.clone(), Arc::clone(&blocks));
        thread::Builder::new().name(format!("feeder-{number}")).spawn(move || feed(&engine, &blocks))
    });
    let mut outcome = Outcome { submit_seconds, ..Outcome::default() };
    for feeder in feeders.collect::<Vec<_>>() {
        let (events, rejected) = joined(feeder?)??;
        outcome.events += events;
        outcome.rejected += rejected;
    }
    runtime.block_on(engine.drained());
    is_fed.store(true, Ordering::Release);
    reader.thread().unpark();
    let read = joined(reader)?;
    since.record(&mut outcome);
    outcome.matches = read.records;
    outcome.peak_own_bytes = read.peak_own_bytes;
    outcome.dropped = engine.metrics().records_dropped;
    drop(read.subscriptions);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    Ok(outcome)
}

pub(crate) fn joined<T>(thread: thread::JoinHandle<T>) -> anyhow::Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))
}

/// Checks and appends blocks while there are some; counts good events and others.
pub(crate) fn feed(engine: &Engine, blocks: &Blocks) -> anyhow::Result<(u64, u64)> {
    let (principal, stream, limits) = (Principal::local(), stream()?, CheckLimits::default());
    let (mut events, mut rejected) = (0, 0);
    while let Some(block) = blocks.next() {
        let checked = check_block(block, &limits, 1);
        events += checked.batch.len() as u64;
        rejected += checked.rejected;
        let options = AppendOptions { rejected: checked.rejected, ..AppendOptions::default() };
        engine.append_blocking(&principal, &stream, checked.batch, options)?;
    }
    Ok((events, rejected))
}

/// The answers that the reader got.
pub(crate) struct Read {
    pub(crate) subscriptions: Vec<Subscription>,
    /// By subscription.
    pub(crate) records: Vec<u64>,
    peak_own_bytes: u64,
}

/// Takes emits from all subscriptions until all events were looked at and nothing is left.
pub(crate) fn read(subscriptions: Vec<Subscription>, is_fed: &AtomicBool) -> Read {
    let mut read = Read { records: vec![0; subscriptions.len()], subscriptions, peak_own_bytes: 0 };
    loop {
        let is_last = is_fed.load(Ordering::Acquire);
        let start = Instant::now();
        for (subscription, records) in read.subscriptions.iter_mut().zip(&mut read.records) {
            while let Some(emit) = subscription.try_next() {
                *records += emit.records.count;
            }
        }
        read.peak_own_bytes = read.peak_own_bytes.max(machine::memory("self").own);
        if is_last {
            return read;
        }
        // Looking is kept to a small part of the time, however many there are; whoever says that all is fed wakes this thread.
        thread::park_timeout(READ_EVERY.max(start.elapsed() * 20));
    }
}
