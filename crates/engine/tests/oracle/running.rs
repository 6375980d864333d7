//! A running engine: queries come and go while events do, on several shards, and each answers as if it were alone.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value as Json;
use swiftwater_engine::{
    AppendOptions, EndReason, Engine, EngineConfig, Principal, SubmitOptions, Subscription,
};
use swiftwater_event::{CheckLimits, StreamName, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_testkit::{
    QueryTexts, Rng, TestClock, fewest,
    oracle::{self, GotEmit, Life},
};

use crate::cases::{WIDE, got, seeds, show, timed_events};

const START: i64 = 1_700_000_000_000;

/// What happens to an engine.
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
    texts: Vec<String>,
    steps: Vec<Step>,
    shards: usize,
}

fn story(seed: u64) -> Story {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut queries = QueryTexts::new(seed);
    let mut texts: Vec<String> = (0..1 + rng.below(10)).map(|_| queries.wide(WIDE)).collect();
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
    Story { texts, steps, shards: 1 + rng.below(3) }
}

struct Asked {
    subscription: Subscription,
    started: i64,
    ended: Option<i64>,
    events: Vec<(i64, String)>,
}

/// What each query that the language has emitted, and what it should have.
fn run(story: &Story, steps: &[Step]) -> Result<u64, String> {
    let clock = Arc::new(TestClock::at(START));
    let stream = StreamName::new("s").expect("a name");
    let config = EngineConfig {
        shards: story.shards,
        tick_ms: 1,
        default_stream: Some(stream.clone()),
        subscriber_emits_max: 1 << 20,
        ..EngineConfig::default()
    };
    let for_engine: Arc<TestClock> = Arc::clone(&clock);
    let engine = Engine::start(config, for_engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let principal = Principal::local();
    let mut asked: Vec<Option<Asked>> = story.texts.iter().map(|_| None).collect();
    let mut now = START;
    for step in steps {
        match step {
            Step::Ask(place) => {
                // A query may see what waits to be looked at when it is asked.
                runtime.block_on(engine.drained());
                let submitted = engine.submit(&principal, &story.texts[*place], SubmitOptions::default());
                if let Ok(subscription) = submitted {
                    asked[*place] =
                        Some(Asked { subscription, started: now, ended: None, events: Vec::new() });
                }
            }
            Step::End(place) => {
                if let Some(asked) = &mut asked[*place] {
                    let _ = engine.end_query(&principal, &asked.subscription.query().id, EndReason::Duration);
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
        let _ = engine.end_query(&principal, &asked.subscription.query().id, EndReason::Duration);
        let mut emits: Vec<GotEmit> = Vec::new();
        while let Some(emit) = asked.subscription.next_blocking() {
            emits.push(got(&emit));
        }
        let plan = parse(text, &ParseOptions::new(Dialect::Native, START)).expect("it was taken").query;
        let life = Life { start: asked.started, end: asked.ended.unwrap_or(now), emits_empty: true };
        let texts: Vec<&str> = asked.events.iter().map(|(_, text)| &**text).collect();
        let events: Vec<(i64, Json)> =
            asked.events.iter().map(|(at, _)| *at).zip(oracle::read(&texts)).collect();
        let Ok(expected) = oracle::emits(&plan, life, &events) else { continue };
        compared += 1;
        if let Err(why) = expected.check(&emits) {
            outcome = outcome.and(Err(format!("{text}\n{life:?}\n{why}\ngot: {emits:?}")));
        }
    }
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    outcome.map(|()| compared)
}

#[test]
fn queries_that_come_and_go_answer_as_if_alone() {
    let mut compared = 0;
    let mut differing = Vec::new();
    for seed in seeds(600).step_by(10) {
        let story = story(seed);
        match run(&story, &story.steps) {
            Ok(queries) => compared += queries,
            Err(_) => {
                let few = fewest(&story.steps, |steps| run(&story, steps).is_err());
                let why = run(&story, &few).err().unwrap_or_else(|| "it does not always fail".to_owned());
                let steps: Vec<String> = few.iter().map(|step| format!("{step:?}")).collect();
                differing.push(format!(
                    "seed {seed}, {} shards:\n{why}\nsteps:\n{}",
                    story.shards,
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
