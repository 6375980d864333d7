//! Tests that concurrent queries share their common work, and that each answers, and is counted, as if alone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use swiftwater_lang::{Dialect, ParseOptions};
use swiftwater_live::{Collector, CollectorLimits, Index, PlanInterner, QueryNumber, Shard, StandingQuery};
use swiftwater_testkit::MixedEvents;

use crate::support::{ONE_ANSWER, batch_of, finish, input_of};

/// The outcome of a query: its records, matches, mistyped values, and failed operations.
type QueryOutcome = (String, u64, u64, u64);

/// Runs queries together over events in batches.
fn together(texts: &[String], events: &[String], batch: usize) -> Vec<QueryOutcome> {
    let mut commons = PlanInterner::default();
    let queries: Vec<Arc<StandingQuery>> = texts
        .iter()
        .map(|text| {
            let plan = swiftwater_lang::parse(text, &ParseOptions::new(Dialect::Native, 0)).unwrap().query;
            Arc::new(commons.share(StandingQuery::compile(plan).unwrap()))
        })
        .collect();
    let limits = CollectorLimits { one_answer: false, ..ONE_ANSWER };
    let mut collectors: Vec<Collector> =
        queries.iter().map(|query| Collector::new(Arc::clone(query), 0, 0, limits)).collect();
    let mut results: Vec<Vec<_>> = queries.iter().map(|_| Vec::new()).collect();
    let numbered = || queries.iter().enumerate().map(|(number, query)| (number as QueryNumber, query));
    let index = numbered().fold(Index::default(), |index, (number, query)| index.with(number, query));
    let mut told = vec![(String::new(), 0, 0, 0); queries.len()];
    let mut shard = Shard::default();
    for events in events.chunks(batch) {
        let batch = batch_of(events);
        let mut steps = Vec::new();
        shard.step(&index, &input_of(&batch), &mut steps);
        for mut step in steps {
            let place = step.number as usize;
            if let Some(rows) = &mut step.rows {
                collectors[place].rows(rows, 0, &mut results[place]);
            }
            let (_, matches, mistyped, errors) = &mut told[place];
            *matches += step.matches;
            *mistyped += step.mistyped;
            *errors += step.expression_errors;
        }
    }
    for (place, (mut collector, mut results)) in collectors.into_iter().zip(results).enumerate() {
        finish(&mut collector, std::slice::from_mut(&mut shard), place as QueryNumber, &mut results);
        let text = results.iter().map(|result| String::from_utf8_lossy(&result.text).into_owned());
        told[place].0 = text.collect();
    }
    told
}

/// Queries of a few shapes with filters of all kinds.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let items = prop::sample::select(vec![
        "a AS k, COUNT(*) AS n, SUM(b) AS s FROM STREAM() @ GROUP BY a",
        "a % 3 AS k, COUNT(DISTINCT b) AS n, MIN(c) AS s FROM STREAM() @ GROUP BY a % 3",
        "COUNT(*) AS n, SUM(a + b) AS s, MAX(c) AS m FROM STREAM() @",
        "a AS k, SUM(b) FILTER (WHERE c IS NULL) AS s FROM STREAM() @ GROUP BY a",
        "b AS k, QUANTILE(a, MANUAL, 0.5) FROM STREAM() @ GROUP BY b",
        "QUANTILE(a, MANUAL, 0.5) FROM STREAM() @",
        "TOP(5, a, b) FROM STREAM() @",
        "b AS k, TOP(3, a) FROM STREAM() @ GROUP BY b",
        // The same argument, taken in in different forms.
        "COUNT(DISTINCT a) AS n FROM STREAM() @",
        "COUNT(a) AS n FROM STREAM() @",
        "APPROX_MEDIAN(a) AS n FROM STREAM() @",
        // Records, which are made once where the same events are made into the same.
        "* FROM STREAM() @",
        "a, b FROM STREAM() @",
        "a, c FROM STREAM() @ LIMIT 7",
        "a, b FROM STREAM() @ ORDER BY b LIMIT 5",
        "CAST(c AS LONG) + a AS s FROM STREAM() @",
        "CAST(b AS LONG) AS s, e FROM STREAM() LATERAL VIEW EXPLODE(d) AS e @",
    ]);
    let filters = prop::sample::select(vec![
        "",
        "WHERE a < 3",
        "WHERE a < 5",
        "WHERE b IS NOT NULL",
        "WHERE a = 1",
        "WHERE c = 'x'",
        "WHERE a > 0 AND b > 0",
    ]);
    let query = (items, filters).prop_map(|(items, filter)| format!("SELECT {}", items.replace('@', filter)));
    prop::collection::vec(query, 1..16)
}

proptest! {
    #[test]
    fn queries_that_share_a_shape_answer_as_alone(seed: u64, texts in texts(), count in 1usize..40, batch in 1usize..30) {
        let events = MixedEvents::new(seed).events(count);
        let got = together(&texts, &events, batch);
        for (text, got) in texts.iter().zip(got) {
            let alone = together(std::slice::from_ref(text), &events, batch).remove(0);
            prop_assert_eq!(got, alone, "{}", text);
        }
    }
}

#[test]
fn records_of_other_events_are_other_records() {
    let events: Vec<String> = (0..10).map(|n| format!("{{\"a\":{n},\"b\":{}}}", n * n)).collect();
    let of = |middle: u32| format!("SELECT b FROM STREAM() WHERE a IN (1, {middle}, 9)");
    let got = together(
        &[of(2), of(3), of(2), "SELECT a FROM STREAM() WHERE a IN (1, 2, 9)".to_owned()],
        &events,
        10,
    );
    let lines =
        |values: [u32; 3], name: &str| values.map(|value| format!("{{\"{name}\":{value}}}\n")).concat();
    let texts: Vec<&str> = got.iter().map(|told| told.0.as_str()).collect();
    assert_eq!(
        texts,
        [lines([1, 4, 81], "b"), lines([1, 9, 81], "b"), lines([1, 4, 81], "b"), lines([1, 2, 9], "a")]
    );
}
