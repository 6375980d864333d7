//! Tests a running engine: queries come and go while events do, on several shards, and each answers as if it were alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value as Json;
use swiftwater_engine::{
    AppendOptions, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, Clock, StreamName, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_testkit::{
    QueryTexts, Rng, TestClock, fewest,
    oracle::{self, QueryLifetime, ReceivedEmit},
};

use crate::cases::{WIDE, got, repeats, seeds, show, timed_events};

const START: i64 = 1_700_000_000_000;

/// A step of the test on an engine.
#[derive(Debug, Clone)]
enum Step {
    /// A query is asked.
    Ask(usize),
    /// It is ended.
    End(usize),
    /// These events arrive at once.
    Send(Vec<String>),
    /// Time passes.
    Wait(u64),
    /// All that was sent has been looked at.
    Settle,
}

struct Story {
    seed: u64,
    texts: Vec<String>,
    steps: Vec<Step>,
    shards: usize,
    /// Its threads are held up, and somebody watches.
    is_disturbed: bool,
}

fn story(seed: u64) -> Story {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut queries = QueryTexts::new(seed);
    let mut texts: Vec<String> = (0..1 + rng.below(10)).map(|_| queries.wide(WIDE)).collect();
    // Some end by themselves.
    for text in &mut texts {
        if rng.chance(0.2) {
            let stream = format!("STREAM({}, TIME)", rng.pick(&[1, 100, 400, 1000, 1500]));
            *text = text.replacen("STREAM()", &stream, 1);
        }
    }
    // The same again, so that there is something to share.
    for _ in 0..rng.below(4) {
        let again = rng.pick(&texts);
        texts.push(again);
    }
    let mut steps = Vec::new();
    let mut unasked: Vec<usize> = (0..texts.len()).collect();
    let mut asked = Vec::new();
    let mut at = START;
    for (arrival, event) in timed_events(seed, START, 80) {
        if (arrival == START || rng.chance(0.05)) && !unasked.is_empty() {
            let place = unasked.remove(0);
            asked.push(place);
            steps.push(Step::Ask(place));
        }
        if rng.chance(0.01) && !asked.is_empty() {
            let place = asked.remove(rng.below(asked.len()));
            steps.push(Step::End(place));
        }
        if rng.chance(0.1) {
            steps.push(Step::Settle);
        }
        if arrival > at {
            steps.push(Step::Wait((arrival - at) as u64));
            at = arrival;
        }
        match steps.last_mut() {
            Some(Step::Send(events)) if rng.chance(0.7) => events.push(event),
            _ => steps.push(Step::Send(vec![event])),
        }
    }
    steps.push(Step::Wait(rng.below(3000) as u64));
    let (shards, is_disturbed) = (1 + rng.below(3), rng.chance(0.5));
    Story { seed, texts, steps, shards, is_disturbed }
}

/// A clock that delays its readers now and then: so threads interleave in the middle of their work.
#[derive(Debug)]
struct SlowClock {
    clock: Arc<TestClock>,
    looks: AtomicU64,
    seed: u64,
}

impl SlowClock {
    fn hold_up(&self) {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        match Rng::new(self.seed ^ look.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(64) {
            0 => (0..50).for_each(|_| std::thread::yield_now()),
            1..8 => std::thread::yield_now(),
            _ => {}
        }
    }
}

impl Clock for SlowClock {
    fn now_micros(&self) -> i64 {
        let now = self.clock.now_micros();
        self.hold_up();
        now
    }

    fn monotonic_nanos(&self) -> u64 {
        self.hold_up();
        self.clock.monotonic_nanos()
    }
}

/// Ends its thread's loop when it is dropped.
struct Watching {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watching {
    /// Lists all queries again and again: the readers interfere with the threads that change them.
    fn of(engine: &Engine) -> Watching {
        let (engine, stop) = (engine.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let watch = move || {
            while !stopped.load(Ordering::Relaxed) {
                engine.queries(&Principal::local());
                std::thread::yield_now();
            }
        };
        Watching { stop, thread: Some(std::thread::spawn(watch)) }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(|thread| thread.join());
    }
}

struct Asked {
    subscription: Subscription,
    started: i64,
    ended: Option<i64>,
    events: Vec<(i64, String)>,
}

/// Compares the emits of each query with the expected ones.
fn run(story: &Story, steps: &[Step]) -> Result<u64, String> {
    let clock = Arc::new(TestClock::at(START));
    let stream = StreamName::new("s").expect("a name");
    let config = EngineConfig {
        shards: story.shards,
        tick_ms: 1,
        default_stream: Some(stream.clone()),
        subscriber_emits_max: 1 << 20,
        // However busy the machine is, what was sent before a query's end belongs to its answer.
        query_end_wait_ms: 600_000,
        ..EngineConfig::default()
    };
    let (clock_of_all, looks) = (Arc::clone(&clock), AtomicU64::new(0));
    let engine = match story.is_disturbed {
        true => Engine::start(config, Arc::new(SlowClock { clock: clock_of_all, looks, seed: story.seed })),
        false => Engine::start(config, clock_of_all),
    };
    let watching = story.is_disturbed.then(|| Watching::of(&engine));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let principal = Principal::local();
    let mut asked: Vec<Option<Asked>> = story.texts.iter().map(|_| None).collect();
    let mut now = START;
    for step in steps {
        match step {
            Step::Ask(place) => {
                let submitted = engine.submit(&principal, &story.texts[*place], SubmitOptions::default());
                if let Ok(subscription) = submitted {
                    asked[*place] =
                        Some(Asked { subscription, started: now, ended: None, events: Vec::new() });
                }
            }
            Step::End(place) => {
                if let Some(asked) = &mut asked[*place] {
                    let _ = engine.end_query(&principal, &asked.subscription.query().id, EndReason::Killed);
                    asked.ended = Some(now);
                }
            }
            Step::Send(events) => {
                let text = Bytes::from(events.join("\n").into_bytes());
                let batch = check_block(text, &CheckLimits::default(), 1).batch;
                let sent = engine.append_blocking(&principal, &stream, batch, AppendOptions::default());
                assert!(sent.is_ok(), "{sent:?}");
                for asked in asked.iter_mut().flatten().filter(|asked| asked.ended.is_none()) {
                    asked.events.extend(events.iter().map(|event| (now, event.clone())));
                }
            }
            Step::Wait(millis) => {
                clock.advance_ms(*millis);
                now += *millis as i64;
            }
            Step::Settle => runtime.block_on(engine.drained()),
        }
    }
    runtime.block_on(engine.drained());
    let mut compared = 0;
    let mut outcome = Ok(());
    for (text, asked) in story.texts.iter().zip(asked) {
        let Some(mut asked) = asked else { continue };
        // One that has ended by itself is gone already.
        let _ = engine.end_query(&principal, &asked.subscription.query().id, EndReason::Killed);
        let mut emits: Vec<ReceivedEmit> = Vec::new();
        let mut reason = None;
        while let Some(emit) = asked.subscription.next_blocking() {
            emits.push(got(&emit));
            reason = emit.meta.finished.map(|finished| finished.reason);
        }
        let plan = parse(text, &ParseOptions::new(Dialect::Native, START)).expect("it was taken").query;
        let ends = plan.duration_ms.map_or(i64::MAX, |ms| asked.started + ms as i64);
        let ended = asked.ended.unwrap_or(now);
        let life = QueryLifetime { start: asked.started, end: ended.min(ends), emits_empty: true };
        let due = if ends <= ended { EndReason::Duration } else { EndReason::Killed };
        if reason != Some(EndReason::Limit) && reason.as_ref() != Some(&due) {
            outcome = outcome.and(Err(format!("{text}\n{life:?}\nended by {reason:?}, not {due:?}")));
        }
        asked.events.retain(|(at, _)| *at < ends);
        let texts: Vec<&str> = asked.events.iter().map(|(_, text)| &**text).collect();
        let events: Vec<(i64, Json)> =
            asked.events.iter().map(|(at, _)| *at).zip(oracle::read(&texts)).collect();
        let Ok(expected) = oracle::emits(&plan, life, &events) else { continue };
        compared += 1;
        if let Err(why) = expected.check(&emits) {
            outcome = outcome.and(Err(format!("{text}\n{life:?}\n{why}\ngot: {emits:?}")));
        }
    }
    drop(watching);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    outcome.map(|()| compared)
}

#[test]
fn queries_that_come_and_go_answer_as_if_alone() {
    let mut compared = 0;
    let mut differing = Vec::new();
    for seed in seeds(600).step_by(10).flat_map(|seed| (0..repeats()).map(move |_| seed)) {
        let story = story(seed);
        match run(&story, &story.steps) {
            Ok(queries) => compared += queries,
            Err(first) => {
                let few = fewest(&story.steps, |steps| run(&story, steps).is_err());
                // A difference of timing may not show again: then the first one is all there is.
                let why = run(&story, &few).err();
                let why = why.unwrap_or_else(|| format!("it does not always fail; at first:\n{first}"));
                let steps: Vec<String> = few.iter().map(|step| format!("{step:?}")).collect();
                differing.push(format!(
                    "seed {seed}, {} shards, disturbed: {}\n{why}\nsteps:\n{}",
                    story.shards,
                    story.is_disturbed,
                    steps.join("\n")
                ));
                if differing.len() == 5 {
                    break;
                }
            }
        }
    }
    show(&format!("{compared} queries of running engines were as they should be"));
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}
