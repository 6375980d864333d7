//! Adds and ends thousands of queries a second, while others run and events flow.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use swiftwater_engine::{
    AppendOptions, EndReason, Engine, LATENCY_BOUNDS_MICROS, Metrics, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, SystemClock, check_block};

use crate::{
    args::Tuning,
    run_engine::{config, joined, read, stream},
    task::{Blocks, Outcome, Stopwatch, Task},
    workload::{Answer, Mixed, Workload},
};

/// Names of what is measured: milliseconds of each change; changes a second; by phase, the bound in microseconds below
/// which 99 % of the batches were matched, and that of the slowest.
pub(crate) const ADD: &str = "add";
pub(crate) const END: &str = "end";
pub(crate) const PACED: &str = "paced";
pub(crate) const UNPACED: &str = "unpaced";
pub(crate) const QUIET_BATCHES: &str = "batches without changes";
pub(crate) const CHANGING_BATCHES: &str = "batches with changes";

/// Changes a second that should be sustained.
pub(crate) const CHANGES_PER_SECOND: f64 = 10_000.0;
/// Events a second that flow meanwhile.
pub(crate) const EVENTS_PER_SECOND: f64 = 20_000.0;
/// Queries that come and go; each is there for as long as this many later ones come.
const COMING: usize = 1000;
/// Different queries that come.
const TEXTS: usize = 20_000;
const SEED: u64 = 77;
const BLOCK_KIB: usize = 64;

/// One phase takes so long; there are three.
pub(crate) fn phase(is_quick: bool) -> Duration {
    Duration::from_secs(if is_quick { 1 } else { 5 })
}

/// Submits the queries; measures without changes, with paced ones, and with as many as possible.
pub(crate) fn run(task: Task, bytes: Bytes, is_quick: bool) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let engine = Engine::start(config(task.tuning)?, Arc::new(SystemClock::new()));
    let submitting = Instant::now();
    let mut standing = Vec::new();
    for query in &task.queries() {
        let subscription = engine.submit(&Principal::local(), query, SubmitOptions::default());
        standing.push(subscription.with_context(|| format!("`{query}` was refused"))?);
    }
    let mut outcome = Outcome { submit_seconds: submitting.elapsed().as_secs_f64(), ..Outcome::default() };
    let coming = Mixed::new(SEED, TEXTS, Answer::Field).queries();
    let (is_over, is_fed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let events = Arc::new(AtomicU64::new(0));

    let since = Stopwatch::now();
    let reader = {
        let is_fed = Arc::clone(&is_fed);
        thread::Builder::new().name("reader".to_owned()).spawn(move || read(standing, &is_fed))?
    };
    let feeder = {
        let (engine, events, is_over) = (engine.clone(), Arc::clone(&events), Arc::clone(&is_over));
        let tuning = Tuning { block_kib: BLOCK_KIB, ..task.tuning };
        let work = move || feed(&engine, &Blocks::new(bytes, tuning), &events, &is_over);
        thread::Builder::new().name("feeder".to_owned()).spawn(work)?
    };
    let span = phase(is_quick);
    let mut changes = Changes { engine: &engine, texts: &coming, next: 0, here: VecDeque::new() };
    changes.fill()?;
    let before = engine.metrics();
    thread::sleep(span);
    let quiet = engine.metrics();
    let paced = changes.run(span, Some(CHANGES_PER_SECOND))?;
    let changing = engine.metrics();
    let unpaced = changes.run(span, None)?;
    drop(changes);
    is_over.store(true, Ordering::Release);
    joined(feeder)??;
    runtime.block_on(engine.drained());
    is_fed.store(true, Ordering::Release);
    reader.thread().unpark();
    let got = joined(reader)?;
    since.record(&mut outcome);

    outcome.events = events.load(Ordering::Acquire);
    outcome.matches = got.records;
    outcome.dropped = engine.metrics().records_dropped;
    let millis = |spans: Vec<Duration>| spans.into_iter().map(|span| span.as_secs_f64() * 1e3).collect();
    outcome.spans = vec![
        (ADD.to_owned(), millis(paced.adds)),
        (END.to_owned(), millis(paced.ends)),
        (PACED.to_owned(), vec![paced.rate]),
        (UNPACED.to_owned(), vec![unpaced.rate]),
        (QUIET_BATCHES.to_owned(), batches(&before, &quiet)),
        (CHANGING_BATCHES.to_owned(), batches(&quiet, &changing)),
    ];
    drop(got.subscriptions);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    Ok(outcome)
}

/// Appends events at their rate, from the first on, until it is over.
fn feed(engine: &Engine, blocks: &Blocks, events: &AtomicU64, is_over: &AtomicBool) -> anyhow::Result<()> {
    let (principal, stream, limits) = (Principal::local(), stream()?, CheckLimits::default());
    let start = Instant::now();
    while !is_over.load(Ordering::Acquire)
        && let Some(block) = blocks.next()
    {
        let due = start + Duration::from_secs_f64(events.load(Ordering::Relaxed) as f64 / EVENTS_PER_SECOND);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let checked = check_block(block, &limits, 1);
        let count = checked.batch.len() as u64;
        engine.append_blocking(&principal, &stream, checked.batch, AppendOptions::default())?;
        events.fetch_add(count, Ordering::AcqRel);
    }
    Ok(())
}

struct Changes<'e> {
    engine: &'e Engine,
    texts: &'e [String],
    next: usize,
    here: VecDeque<Subscription>,
}

/// The duration of each change, and their number per second.
struct ChangeDurations {
    adds: Vec<Duration>,
    ends: Vec<Duration>,
    rate: f64,
}

impl Changes<'_> {
    /// Adds as many as are present at a time, so that from here on one ends for each new one.
    fn fill(&mut self) -> anyhow::Result<()> {
        while self.here.len() < COMING {
            self.add()?;
        }
        Ok(())
    }

    /// Adds the next query; answers how long it took.
    fn add(&mut self) -> anyhow::Result<Duration> {
        let text = &self.texts[self.next % self.texts.len()];
        self.next += 1;
        let began = Instant::now();
        let added = self.engine.submit(&Principal::local(), text, SubmitOptions::default());
        let took = began.elapsed();
        self.here.push_back(added.with_context(|| format!("`{text}` was refused"))?);
        Ok(took)
    }

    fn run(&mut self, span: Duration, per_second: Option<f64>) -> anyhow::Result<ChangeDurations> {
        let mut took = ChangeDurations { adds: Vec::new(), ends: Vec::new(), rate: 0.0 };
        let start = Instant::now();
        while start.elapsed() < span {
            if let Some(rate) = per_second {
                let done = took.adds.len() + took.ends.len();
                let due = start + Duration::from_secs_f64(done as f64 / rate);
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            took.adds.push(self.add()?);
            if self.here.len() > COMING
                && let Some(oldest) = self.here.pop_front()
            {
                let id = oldest.query().id;
                let began = Instant::now();
                self.engine.end_query(&Principal::local(), &id, EndReason::Client)?;
                took.ends.push(began.elapsed());
            }
        }
        took.rate = (took.adds.len() + took.ends.len()) as f64 / start.elapsed().as_secs_f64();
        Ok(took)
    }
}

/// The batches between two moments: the bound below which 99 % were, that of the slowest, and their number. The last
/// bucket has no bound: twice the one before stands for it.
fn batches(before: &Metrics, after: &Metrics) -> Vec<f64> {
    let counts: Vec<u64> =
        after.read_to_match.iter().zip(before.read_to_match).map(|(after, before)| after - before).collect();
    let total: u64 = counts.iter().sum();
    let bound = |bucket: usize| {
        let last = LATENCY_BOUNDS_MICROS[LATENCY_BOUNDS_MICROS.len() - 1];
        LATENCY_BOUNDS_MICROS.get(bucket).copied().unwrap_or(2 * last) as f64
    };
    let mut so_far = 0;
    let p99 = counts.iter().position(|count| {
        so_far += count;
        so_far * 100 >= total * 99
    });
    let slowest = counts.iter().rposition(|&count| count > 0);
    vec![p99.map_or(0.0, bound), slowest.map_or(0.0, bound), total as f64]
}
