//! Aggregations that stand together share what they have in common; each must answer, and be counted, as if alone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use swiftwater_lang::{Dialect, ParseOptions};
use swiftwater_live::{Collector, Index, QueryNumber, Shard, StandingQuery};
use swiftwater_testkit::MixedEvents;

use crate::support::{ONE_ANSWER, batch_of, finish, input_of};

/// What came of a query: its records, matches, mistyped values, and operations that could not be done.
type Told = (String, u64, u64, u64);

/// Lets queries stand together over events in batches.
fn together(texts: &[String], events: &[String], batch: usize) -> Vec<Told> {
    let queries: Vec<Arc<StandingQuery>> = texts
        .iter()
        .map(|text| {
            let plan = swiftwater_lang::parse(text, &ParseOptions::new(Dialect::Native, 0)).unwrap().query;
            Arc::new(StandingQuery::compile(plan).unwrap())
        })
        .collect();
    let numbered = || queries.iter().enumerate().map(|(number, query)| (number as QueryNumber, query));
    let index = numbered().fold(Index::default(), |index, (number, query)| index.with(number, query));
    let mut told = vec![(String::new(), 0, 0, 0); queries.len()];
    let mut shard = Shard::default();
    for events in events.chunks(batch) {
        let batch = batch_of(events);
        let mut steps = Vec::new();
        shard.step(&index, &input_of(&batch), &mut steps);
        for step in steps {
            let (_, matches, mistyped, errors) = &mut told[step.number as usize];
            *matches += step.matches;
            *mistyped += step.mistyped;
            *errors += step.expression_errors;
        }
    }
    for (number, query) in numbered() {
        let mut collector = Collector::new(Arc::clone(query), 0, 0, ONE_ANSWER);
        let mut results = Vec::new();
        finish(&mut collector, std::slice::from_mut(&mut shard), number, &mut results);
        let text = results.iter().map(|result| String::from_utf8_lossy(&result.text).into_owned());
        told[number as usize].0 = text.collect();
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
        // Of one argument, taken in in different forms.
        "COUNT(DISTINCT a) AS n FROM STREAM() @",
        "COUNT(a) AS n FROM STREAM() @",
        "APPROX_MEDIAN(a) AS n FROM STREAM() @",
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
