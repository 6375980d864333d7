//! All loops of a runtime in one thread, in an order that follows from a seed; and the test that any order of their steps
//! answers queries as one shard does that runs after each append.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc, thread::JoinHandle};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, StreamName, check_block};
use swiftwater_testkit::{LanguageFeatures, MixedEvents, QueryTexts, Rng, TestClock, fewest};

use super::{LoopState, ThreadLoop, Threads};
use crate::{AppendOptions, EndReason, EngineConfig, Principal, Runtime, SubmitOptions, Subscription};

/// Threads whose loops run in the thread of the test.
struct SeededThreads {
    loops: RefCell<Vec<Box<dyn ThreadLoop>>>,
    rng: RefCell<Rng>,
}

impl SeededThreads {
    fn new(seed: u64) -> SeededThreads {
        SeededThreads { loops: RefCell::default(), rng: RefCell::new(Rng::new(seed)) }
    }

    /// Runs one step of a loop that has something to do. Returns false if none has.
    fn step(&self) -> bool {
        let mut loops = self.loops.borrow_mut();
        let has_batch = loops.iter().any(|work| work.state() == LoopState::HasBatch);
        let (count, first) = (loops.len(), self.rng.borrow_mut().below(loops.len()));
        (0..count).any(|turn| {
            let work = &mut loops[(first + turn) % count];
            let may_run = !has_batch || work.state() != LoopState::NeedsShards;
            may_run && work.step()
        })
    }

    /// Delivers the batches that shards have taken, so that the caller may pass through the locks of all shards.
    fn deliver_taken(&self) {
        let mut loops = self.loops.borrow_mut();
        let has_batch = |work: &&mut Box<dyn ThreadLoop>| work.state() == LoopState::HasBatch;
        loops.iter_mut().filter(has_batch).for_each(|work| _ = work.step());
    }

    /// Runs until no loop has anything to do. After a step of the ticker, which is last in some turns, shards may have.
    fn settle(&self) {
        while self.step() || self.step() {}
    }
}

impl Threads for SeededThreads {
    fn start(&self, work: Box<dyn ThreadLoop>) -> Option<JoinHandle<()>> {
        self.loops.borrow_mut().push(work);
        None
    }
}

const START: i64 = 1_700_000_000_000;

/// A step of a scenario.
#[derive(Debug, Clone)]
enum Action {
    /// A query is submitted.
    Submit(usize),
    /// It is ended.
    End(usize),
    /// These events arrive at once.
    Append(Vec<String>),
    /// The clock advances by so many milliseconds.
    Advance(u64),
    /// The threads run so many steps.
    Run(usize),
}

#[derive(Debug)]
struct Scenario {
    seed: u64,
    texts: Vec<String>,
    actions: Vec<Action>,
}

fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let (mut queries, mut events) = (QueryTexts::new(seed), MixedEvents::new(seed));
    let mut texts: Vec<String> = (0..1 + rng.below(6)).map(|_| queries.wide(LanguageFeatures::ALL)).collect();
    // Some end by themselves, and some share their work with another.
    for text in &mut texts {
        if rng.chance(0.2) {
            let stream = format!("STREAM({}, TIME)", rng.pick(&[1, 100, 400, 1500]));
            *text = text.replacen("STREAM()", &stream, 1);
        }
    }
    let again = rng.pick(&texts);
    texts.push(again);
    let (mut next, mut running, mut now) = (0, Vec::new(), START);
    let mut actions = Vec::new();
    for _ in 0..120 {
        actions.push(match rng.below(10) {
            0 if next < texts.len() => {
                running.push(next);
                next += 1;
                Action::Submit(next - 1)
            }
            1 if rng.chance(0.2) && !running.is_empty() => {
                Action::End(running.swap_remove(rng.below(running.len())))
            }
            0..=2 => Action::Run(1 + rng.below(12)),
            3 | 4 => {
                let millis = rng.pick(&[1, 7, 20, 100, 400]);
                now += millis as i64;
                Action::Advance(millis)
            }
            5 => Action::Run(1),
            _ => {
                let behind = rng.pick(&[0, 0, 3, 50, 300]);
                let count = 1 + rng.below(3);
                Action::Append((0..count).map(|_| events.event_at(now - behind)).collect())
            }
        });
    }
    Scenario { seed, texts, actions }
}

/// The answer to a query: the records by window, and why it ended.
type Answer = (BTreeMap<Option<(i64, i64)>, String>, Option<EndReason>);

fn answer(mut subscription: Subscription) -> Answer {
    let (mut records, mut reason) = (BTreeMap::<_, String>::new(), None);
    while let Some(emit) = subscription.try_next() {
        let window = emit.meta.window.map(|window| (window.start, window.end));
        let text = str::from_utf8(&emit.records.text).expect("records are text");
        records.entry(window).or_default().push_str(text);
        reason = emit.meta.finished.map(|finished| finished.reason);
    }
    (records, reason)
}

/// The answers to the queries of a scenario; none for a query that is refused. With `is_sequential`, all threads run to the end
/// of their work after each action.
fn run(scenario: &Scenario, actions: &[Action], shards: usize, is_sequential: bool) -> Vec<Option<Answer>> {
    let (clock, stream) = (Arc::new(TestClock::at(START)), StreamName::new("s").expect("a name"));
    let threads = SeededThreads::new(scenario.seed);
    let config = EngineConfig {
        shards,
        default_stream: Some(stream.clone()),
        subscriber_emits_max: 1 << 20,
        // The thread that would be waited for is this one.
        query_end_wait_ms: 0,
        ..EngineConfig::default()
    };
    let runtime = Runtime::start_on(&threads, config, Arc::<TestClock>::clone(&clock) as Arc<_>);
    let principal = Principal::local();
    let mut subscriptions: Vec<Option<Subscription>> = scenario.texts.iter().map(|_| None).collect();
    let end = |subscription: &Subscription| {
        // As a caller waits for what was appended before.
        threads.settle();
        let _ = runtime.end_query(&principal, &subscription.query().id, EndReason::Killed);
    };
    for action in actions {
        match action {
            Action::Submit(query) => {
                let text = &scenario.texts[*query];
                subscriptions[*query] = runtime.submit(&principal, text, SubmitOptions::default()).ok();
            }
            Action::End(query) => subscriptions[*query].iter().for_each(end),
            Action::Append(events) => {
                let text = Bytes::from(events.join("\n").into_bytes());
                let batch = check_block(text, &CheckLimits::default(), 1).batch;
                let appended = runtime.append_blocking(&principal, &stream, batch, AppendOptions::default());
                assert!(appended.is_ok(), "{appended:?}");
            }
            Action::Advance(millis) => clock.advance_ms(*millis),
            Action::Run(steps) => (0..*steps).for_each(|_| _ = threads.step()),
        }
        if is_sequential {
            threads.settle();
        }
    }
    threads.deliver_taken();
    subscriptions.iter().flatten().for_each(end);
    threads.settle();
    subscriptions.into_iter().map(|subscription| Some(answer(subscription?))).collect()
}

#[test]
fn any_order_of_steps_on_several_shards_answers_as_one_shard_does() {
    let (mut answers, mut records) = (0, 0);
    for seed in 0..200 {
        let scenario = scenario(seed);
        let shards = 1 + seed as usize % 4;
        let differs =
            |actions: &[Action]| run(&scenario, actions, shards, false) != run(&scenario, actions, 1, true);
        if differs(&scenario.actions) {
            let few = fewest(&scenario.actions, |actions| differs(actions));
            let (got, expected) = (run(&scenario, &few, shards, false), run(&scenario, &few, 1, true));
            for ((text, got), expected) in scenario.texts.iter().zip(got).zip(expected) {
                assert_eq!(got, expected, "seed {seed}, {shards} shards\n{text}\n{few:#?}");
            }
        }
        for (windows, _) in run(&scenario, &scenario.actions, shards, false).iter().flatten() {
            answers += 1;
            records += windows.values().filter(|records| !records.is_empty()).count();
        }
    }
    assert!(answers > 400 && records > 400, "{answers} answers with {records} windows that have records");
}

#[test]
fn seed_repeats_the_order_of_steps() {
    let scenario = scenario(7);
    let all = || run(&scenario, &scenario.actions, 3, false);
    assert_eq!(all(), all());
}
