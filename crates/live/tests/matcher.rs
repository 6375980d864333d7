//! The matcher against a loop over all queries, through additions and ends, with events whose fields change their type.

use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use swiftwater_event::{CheckLimits, Clock, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Place, Shard, StandingQuery, StepInput};
use swiftwater_testkit::{MixedEvents, QueryTexts, Rng, TestClock, oracle};

struct Standing {
    text: String,
    query: Arc<StandingQuery>,
}

fn standing(text: String) -> Standing {
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0))
        .unwrap_or_else(|errors| panic!("{text}: {errors}"));
    let query = StandingQuery::compile(plan.query).unwrap_or_else(|error| panic!("{text}: {error}"));
    Standing { text, query: Arc::new(query) }
}

/// A query with a condition that an index can serve, alone or beside others.
fn query_text(texts: &mut QueryTexts, rng: &mut Rng) -> String {
    let indexed = rng.pick(&[
        "a = 'abc'",
        "s = 'a'",
        "'a' = s",
        "n = 1",
        "n = 1.0",
        "n IN (0, 1, 9007199254740993L)",
        "s IN ('a', 'abc', 'é')",
        "a = 'a' OR a = 'abc'",
        "t = TRUE",
        "m.k = 'x'",
        "o.p.q = 10",
    ]);
    let condition = match rng.below(4) {
        0 => texts.condition(),
        1 => indexed.to_owned(),
        2 => format!("({indexed}) AND ({})", texts.condition()),
        _ => format!("({}) AND {} AND ({indexed})", texts.condition(), texts.condition()),
    };
    format!("SELECT a FROM STREAM() WHERE {condition}")
}

#[test]
fn matcher_agrees_with_a_loop_over_all_queries() {
    let clock = TestClock::at(0);
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut texts = QueryTexts::new(seed);
        let mut index = Index::default();
        let mut queries: BTreeMap<u64, Standing> = BTreeMap::new();
        let mut shard = Shard::default();
        let mut next = 0;
        for round in 0..12 {
            for _ in 0..rng.below(40) {
                let query = standing(query_text(&mut texts, &mut rng));
                index = index.with(next, &query.query);
                queries.insert(next, query);
                next += 1;
            }
            let ending: Vec<u64> = queries.keys().copied().filter(|_| rng.chance(0.3)).collect();
            for number in ending {
                index = index.without(number);
                queries.remove(&number);
            }
            assert_eq!(index.len(), queries.len());
            let events = MixedEvents::new(seed * 100 + round).events(1 + rng.below(30));
            let batch =
                check_block(Bytes::from(events.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
            assert_eq!(batch.len(), events.len());
            let nanos = || clock.monotonic_nanos();
            let input = StepInput {
                batch: &batch,
                arrivals: &[],
                place: Place::Number(0),
                now_micros: 0,
                record_bytes_max: usize::MAX,
                nanos: &nanos,
            };
            let mut steps = Vec::new();
            shard.step(&index, &input, &mut steps);
            let read = oracle::read(&events);
            let matches: BTreeMap<u64, usize> =
                steps.iter().map(|step| (step.number, step.matches as usize)).collect();
            assert!(matches.keys().all(|number| queries.contains_key(number)), "an ended query was matched");
            for (number, query) in &queries {
                let Ok(expected) = oracle::matching(&query.query.plan, &read) else { continue };
                let found = matches.get(number).copied().unwrap_or(0);
                assert_eq!(
                    found,
                    expected.len(),
                    "seed {seed}, round {round}: {}\n{}",
                    query.text,
                    events.join("\n")
                );
            }
        }
    }
}
