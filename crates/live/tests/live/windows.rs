//! Compares windows of every kind with a plain loop over all events.
//!
//! The answers do not depend on how events are split over batches and shards, nor on when the clock is checked.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Path, Type, check_block};
use swiftwater_lang::{
    Dialect, ParseOptions,
    plan::{Expr, Query, Window, WindowClock, WindowContents},
};
use swiftwater_live::{
    Collector, CollectorLimits, Index, ResultSet, Shard, SlicePlan, Slices, SourcePosition, StandingQuery,
    StepInput,
};
use swiftwater_testkit::oracle;

const START: i64 = 1000;

/// Arrival of an event, and the event.
type Event = (i64, Json);

fn plan(text: &str, window: Window) -> Query {
    let mut query = swiftwater_lang::parse(text, &ParseOptions::new(Dialect::Native, 0)).unwrap().query;
    query.window = window;
    query
}

/// The way events are dealt.
#[derive(Debug, Clone)]
struct InputSplit {
    shards: usize,
    /// Lengths of the batches, over and over.
    batches: Vec<usize>,
    /// True for each batch after which the clock is read, over and over.
    ticks: Vec<bool>,
    emits_empty: bool,
}

struct Run {
    query: Arc<StandingQuery>,
    collector: Collector,
    slices: Slices,
    shards: Vec<Shard>,
    results: Vec<ResultSet>,
    /// Arrival of the last event.
    last: Option<i64>,
}

impl Run {
    fn new(plan: &Query, deal: &InputSplit) -> Run {
        let query = Arc::new(StandingQuery::compile(plan.clone()).unwrap());
        let limits = CollectorLimits {
            one_answer: true,
            answer_rows_default: 1 << 20,
            emits_empty_windows: deal.emits_empty,
            times: false,
            closes_singly: false,
            pattern_partials_max: 1000,
        };
        Run {
            collector: Collector::new(Arc::clone(&query), START, START, limits),
            query,
            slices: Slices::default(),
            shards: (0..deal.shards).map(|_| Shard::default()).collect(),
            results: Vec::new(),
            last: None,
        }
    }

    fn step(&mut self, index: &Index, shard: usize, first: u64, events: &[Event]) {
        let text: Vec<String> = events.iter().map(|(_, event)| event.to_string()).collect();
        let batch = check_block(Bytes::from(text.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
        let mut arrivals: Vec<i64> = events.iter().map(|(arrival, _)| *arrival).collect();
        let last = arrivals.last().copied();
        let batch = batch.with_meta(EventMeta { arrival: arrivals[0], ..EventMeta::default() });
        // As the engine does: what came together has one arrival.
        if arrivals.iter().all(|arrival| *arrival == arrivals[0]) {
            arrivals.clear();
        }
        self.step_batch(index, shard, (first, &batch, &arrivals));
        self.last = last;
    }

    /// Time comes, and no event.
    fn advance_idle(&mut self, index: &Index, first: u64, now: i64) {
        let meta = EventMeta { arrival: now, ..EventMeta::default() };
        self.step_batch(index, 0, (first, &EventBatch::concat(&[]).with_meta(meta), &[]));
    }

    fn step_batch(
        &mut self,
        index: &Index,
        shard: usize,
        (first, batch, arrivals): (u64, &EventBatch, &[i64]),
    ) {
        let input = StepInput {
            batch,
            arrivals,
            before: self.last,
            place: SourcePosition::Number(first),
            now_micros: 0,
            record_bytes_max: usize::MAX,
            nanos: &|| 0,
        };
        let mut steps = Vec::new();
        self.shards[shard].step(index, &input, &mut steps);
        for mut step in steps {
            let (slices, out) = (&mut self.slices, &mut self.results);
            if let Some(until) = step.timed.as_ref().and_then(|timed| timed.idle_until) {
                self.collector.advance_idle(until, slices, 0, out);
                assert!(self.collector.idle_due(slices).is_none_or(|due| due > until));
            }
            if let Some(rows) = &mut step.rows {
                self.collector.rows(rows, 0, out);
            }
            self.collector.single_rows(step.single_rows, slices, 0, out);
            if let Some(timed) = step.timed {
                self.collector.timed(*timed, slices, 0, out);
            }
        }
    }

    fn tick(&mut self, now: i64) {
        if let Some(before) = self.collector.is_over_before(now) {
            for shard in &mut self.shards {
                for partial in shard.flush(0, before) {
                    self.collector.partial(partial, &mut self.slices);
                }
            }
        }
        self.collector.close_by_arrival(now, &mut self.slices, 0, &mut self.results);
    }

    fn end(mut self, end: i64) -> (Vec<oracle::ReceivedEmit>, u64) {
        for shard in &mut self.shards {
            for partial in shard.remove(0) {
                self.collector.partial(partial, &mut self.slices);
            }
        }
        self.collector.finish(end, &mut self.slices, 0, &mut self.results);
        let emits = self.results.iter().map(|result| {
            let text = String::from_utf8(result.text.to_vec()).unwrap();
            let records: Vec<Map<String, Json>> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(records.len() as u64, result.count);
            (result.window.map(|window| (window.start, window.end)), records)
        });
        (emits.collect(), self.collector.late())
    }
}

fn run(plan: &Query, deal: &InputSplit, events: &[Event], end: i64) -> (Vec<oracle::ReceivedEmit>, u64) {
    let mut run = Run::new(plan, deal);
    let slices = Arc::new(SlicePlan::of(&run.query, START));
    let index = Index::default().with_slices(0, &run.query, &slices);
    let mut rest = events;
    let mut batches = 0;
    while !rest.is_empty() {
        let mut length = deal.batches[batches % deal.batches.len()].min(rest.len());
        // As the engine does: time goes on between batches alone.
        if let Some(idle) = plan.idle_after_ms() {
            let gap = rest.windows(2).position(|two| two[1].0 - two[0].0 >= idle as i64);
            length = gap.map_or(length, |gap| length.min(gap + 1));
        }
        let (batch, after) = rest.split_at(length);
        let first = (events.len() - rest.len()) as u64;
        run.step(&index, batches % deal.shards, first, batch);
        rest = after;
        if deal.ticks[batches % deal.ticks.len()] {
            // Events that wait are in the windows of their arrival.
            let now = rest.first().map_or(end, |(arrival, _)| *arrival);
            run.tick(now);
            if batches.is_multiple_of(2) {
                run.advance_idle(&index, (events.len() - rest.len()) as u64, now);
            }
        }
        batches += 1;
    }
    run.end(end)
}

/// The oracle's answer, and ours.
fn check(plan: &Query, deal: &InputSplit, events: &[Event]) -> Result<(), TestCaseError> {
    let end = events.last().map_or(START, |(arrival, _)| *arrival) + 3;
    let life = oracle::QueryLifetime { start: START, end, emits_empty: deal.emits_empty };
    let Ok(expected) = oracle::emits(plan, life, events) else { return Ok(()) };
    let (got, late) = run(plan, deal, events, end);
    if let Err(why) = expected.check(&got) {
        return Err(TestCaseError::fail(format!("{why:?}\n{:?}", plan.window)));
    }
    prop_assert_eq!(late, expected.late, "late: {:?}", plan.window);
    Ok(())
}

fn deal() -> impl Strategy<Value = InputSplit> {
    let batches = proptest::collection::vec(1usize..9, 1..5);
    let ticks = proptest::collection::vec(any::<bool>(), 1..5);
    (1usize..4, batches, ticks, any::<bool>()).prop_map(|(shards, batches, ticks, emits_empty)| InputSplit {
        shards,
        batches,
        ticks,
        emits_empty,
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0i64..12, -30i64..10, 0u8..12, 0u8..3, 0i64..6);
    proptest::collection::vec(event, 0..40).prop_map(|events| {
        let mut arrival = START;
        let event = |(after, behind, kind, key, value): (i64, i64, u8, u8, i64)| {
            arrival += after;
            let ts = match kind {
                0 => Json::Null,
                1 => json!("no time"),
                2 => json!("1970-01-01T00:00:01.010Z"),
                _ => json!(arrival + behind),
            };
            (arrival, json!({"ts": ts, "k": format!("k{key}"), "v": value}))
        };
        events.into_iter().map(event).collect()
    })
}

fn clock() -> impl Strategy<Value = WindowClock> {
    let time = Expr::Path { path: Path::field("ts"), ty: Type::Any };
    prop_oneof![
        Just(WindowClock::Arrival),
        (0u64..25, prop::option::of(0u64..25), prop::option::of(1u64..12)).prop_map(
            move |(lateness_ms, max_ahead_ms, idle_after_ms)| {
                WindowClock::Event { time: time.clone(), lateness_ms, max_ahead_ms, idle_after_ms }
            }
        ),
    ]
}

/// Distances of windows, and their content.
fn takes() -> impl Strategy<Value = (u64, WindowContents)> {
    let take = |every: u64| {
        prop_oneof![
            Just(WindowContents::First(every)),
            (1..=every).prop_map(WindowContents::First),
            (1u64..40).prop_map(WindowContents::Last),
            Just(WindowContents::All),
        ]
    };
    (1u64..25).prop_flat_map(move |every| (Just(every), take(every)))
}

fn window() -> impl Strategy<Value = Window> {
    prop_oneof![
        (takes(), clock()).prop_map(|((every_ms, take), clock)| Window::Time { every_ms, take, clock }),
        takes().prop_map(|(every, take)| Window::Records { every, take }),
        (1u64..25, clock()).prop_map(|(gap_ms, clock)| Window::Session { gap_ms, clock }),
    ]
}

fn is_additive(window: &Window) -> bool {
    matches!(
        window,
        Window::Time { take: WindowContents::All, .. } | Window::Records { take: WindowContents::All, .. }
    )
}

proptest! {
    #[test]
    fn groups_are_those_of_a_plain_loop(window in window(), deal in deal(), events in events()) {
        for text in [
            "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM STREAM() WHERE v > 1 GROUP BY k",
            "SELECT k, MAX(v) AS m FROM STREAM() WHERE k = 'k1' GROUP BY k ORDER BY m",
            "SELECT COUNT(*) AS n, MIN(v) AS m FROM STREAM() WHERE v < 4",
            "SELECT COUNT(*) AS n FROM STREAM() WHERE v < 4",
        ] {
            check(&plan(text, window.clone()), &deal, &events)?;
        }
    }

    #[test]
    fn rows_are_those_of_a_plain_loop(window in window(), deal in deal(), events in events()) {
        if is_additive(&window) {
            return Ok(());
        }
        for text in [
            "SELECT k, v FROM STREAM() WHERE v > 1",
            "SELECT k, v, ts FROM STREAM() WHERE k = 'k1' LIMIT 2",
            "SELECT k, v, ts FROM STREAM() ORDER BY v DESC LIMIT 3",
        ] {
            check(&plan(text, window.clone()), &deal, &events)?;
        }
    }
}
