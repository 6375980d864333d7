//! Tests of aggregates that depend on the order of the events.
//!
//! They test the answers case by case, and that these do not depend on how events are split over batches and shards.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::StandingQuery;

use crate::support::{records, run};

fn query(text: &str) -> Arc<StandingQuery> {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    Arc::new(StandingQuery::compile(plan).unwrap())
}

/// Checks the one record of aggregates over all events, for several ways to deal them.
#[track_caller]
fn check(aggregates: &str, events: &[Json], expected: Json) {
    let texts: Vec<String> = events.iter().map(Json::to_string).collect();
    for (batch, shards) in [(1, 1), (1, 3), (2, 2), (100, 1)] {
        let (results, _) = run(&query(&format!("SELECT {aggregates} FROM STREAM()")), &texts, batch, shards);
        assert_eq!(records(&results), std::slice::from_ref(&expected), "{aggregates} in batches of {batch}");
    }
}

#[test]
fn first_and_last_pass_over_nulls_and_keep_any_value() {
    let events = [
        json!({"x": null, "y": 1}),
        json!({"x": {"a": [1, 2.0]}, "y": 2}),
        json!({"x": "last", "y": 3}),
        json!({"y": null}),
    ];
    check(
        "FIRST(x) AS f, LAST(x) AS l, FIRST(y) FILTER (WHERE y > 1) AS g, LAST(z) AS n",
        &events,
        json!({"f": {"a": [1, 2.0]}, "l": "last", "g": 2, "n": null}),
    );
}

#[test]
fn a_whole_event_is_kept_with_its_nulls() {
    let events = [
        json!({"id": 1, "x": "a", "nested": {"l": [1, 2.5, null]}}),
        json!({"id": 2, "x": null, "big": 12345678901_i64}),
        json!({"id": 3, "x": "c\n"}),
    ];
    check(
        "FIRST(*) AS f, LAST(*) AS l, LAST(*) FILTER (WHERE id < 3) AS m, LAST(*) FILTER (WHERE id > 5) AS n",
        &events,
        json!({"f": events[0], "l": events[2], "m": events[1], "n": null}),
    );
}

#[test]
fn of_equal_values_the_first_row_is_chosen() {
    let events = [
        json!({"x": "a", "w": 2}),
        json!({"x": "b", "w": 1}),
        json!({"x": "c", "w": 1.0}),
        json!({"x": "d", "w": 2.0}),
        json!({"x": null, "w": 0}),
        json!({"x": "e", "w": null}),
        json!({"x": "f", "w": [9]}),
    ];
    check(
        "ARG_MIN(x, w) AS lo, ARG_MAX(x, w) AS hi, MAX_BY(x, w) FILTER (WHERE x != 'a') AS other",
        &events,
        json!({"lo": "b", "hi": "a", "other": "d"}),
    );
}

#[test]
fn collected_values_are_the_first_ones() {
    let events: Vec<Json> =
        [json!(3), json!(null), json!("x"), json!(3.0), json!(1), json!([1]), json!([1.0]), json!("y")]
            .into_iter()
            .map(|x| json!({"x": x}))
            .collect();
    check(
        "COLLECT_LIST(x, 4) AS l, ARRAY_AGG(x) AS all, COLLECT_SET(x, 4) AS s, COLLECT_SET(x) AS whole",
        &events,
        json!({
            "l": [3, "x", 3.0, 1],
            "all": [3, "x", 3.0, 1, [1], [1.0], "y"],
            "s": [3, "x", 1, [1]],
            "whole": [3, "x", 1, [1], "y"],
        }),
    );
    check("COLLECT_LIST(y) AS l, COLLECT_SET(y, 2) AS s", &events, json!({"l": [], "s": []}));
}

#[test]
fn values_that_are_too_long_together_are_left_out_from_the_first_on() {
    // Four of these are more than what may be kept of a group.
    let long = "x".repeat(300_000);
    let mut events: Vec<Json> = (0..5).map(|n| json!({"x": format!("{n}{long}")})).collect();
    events.push(json!({"x": "short"}));
    let texts: Vec<String> = events.iter().map(Json::to_string).collect();
    for (batch, shards) in [(1, 1), (1, 2), (1, 5), (2, 3), (100, 1)] {
        let text = "SELECT COLLECT_LIST(x) AS l, COLLECT_SET(x) AS s FROM STREAM()";
        let (results, _) = run(&query(text), &texts, batch, shards);
        let record = &records(&results)[0];
        for name in ["l", "s"] {
            let values = record[name].as_array().unwrap();
            assert!(values.iter().eq(events[..3].iter().map(|event| &event["x"])), "{name} {}", values.len());
        }
    }
}

#[test]
fn rows_of_one_event_have_an_order() {
    let items: Vec<u32> = (0..3000).collect();
    let events = [json!({"l": items, "t": "a"}), json!({"l": [7, 8], "t": "b"})];
    let texts: Vec<String> = events.iter().map(Json::to_string).collect();
    let text = "SELECT FIRST(v) AS f, LAST(v) AS l, COLLECT_LIST(v, 3000) AS all, COLLECT_SET(v % 7) AS s \
                FROM STREAM() LATERAL VIEW EXPLODE(l) AS v";
    for (batch, shards) in [(1, 1), (1, 2), (2, 1)] {
        let (results, _) = run(&query(text), &texts, batch, shards);
        let expected = json!({"f": 0, "l": 8, "all": items, "s": [0, 1, 2, 3, 4, 5, 6]});
        assert_eq!(records(&results), [expected]);
    }
}

/// The aggregates of the property, computed as simply as possible.
fn naive(events: &[&Json], most: usize) -> Json {
    let xs: Vec<&Json> = events.iter().map(|event| &event["x"]).filter(|x| !x.is_null()).collect();
    let mut set: Vec<&Json> = Vec::new();
    for &x in &xs {
        if !set.contains(&x) {
            set.push(x);
        }
    }
    let numbers: Vec<(i64, &Json)> = events
        .iter()
        .filter(|event| !event["x"].is_null())
        .filter_map(|event| Some((event["w"].as_i64()?, &event["x"])))
        .collect();
    let least = numbers.iter().map(|(by, _)| *by).min();
    let greatest = numbers.iter().map(|(by, _)| *by).max();
    let at = |best: Option<i64>| numbers.iter().find(|(by, _)| Some(*by) == best).map(|(_, x)| *x);
    json!({
        "first": xs.first(),
        "last": xs.last(),
        "lo": at(least),
        "hi": at(greatest),
        "l": xs.iter().take(most).collect::<Vec<_>>(),
        "s": set.iter().take(most).collect::<Vec<_>>(),
        "sf": set.len(),
    })
}

fn events() -> impl Strategy<Value = Vec<Json>> {
    let x = prop_oneof![
        1 => Just(Json::Null),
        4 => (0..40).prop_map(Json::from),
        1 => "[a-c]".prop_map(Json::from),
        1 => (0..3).prop_map(|n| json!([n, {"k": n}])),
    ];
    let by = prop_oneof![1 => Just(Json::Null), 4 => (0..5).prop_map(Json::from)];
    let event = (0..3, x, by).prop_map(|(k, x, by)| json!({"k": k, "x": x, "w": by}));
    prop::collection::vec(event, 0..120)
}

proptest! {
    #[test]
    fn groups_agree_with_a_loop_however_events_are_dealt(
        events in events(),
        batch in 1..40usize,
        shards in 1..5usize,
        most in 1..30usize,
    ) {
        let text = format!(
            "SELECT k, FIRST(x) AS first, LAST(x) AS last, ARG_MIN(x, w) AS lo, ARG_MAX(x, w) AS hi, \
             COLLECT_LIST(x, {most}) AS l, COLLECT_SET(x, {most}) AS s, SIZEOF(COLLECT_SET(x)) AS sf \
             FROM STREAM() GROUP BY k"
        );
        let texts: Vec<String> = events.iter().map(Json::to_string).collect();
        let (results, _) = run(&query(&text), &texts, batch, shards);
        let expected: Vec<Json> = (0..3)
            .filter_map(|k| {
                let members: Vec<&Json> = events.iter().filter(|event| event["k"] == k).collect();
                let mut record = json!({"k": k});
                record.as_object_mut()?.extend(naive(&members, most).as_object()?.clone());
                (!members.is_empty()).then_some(record)
            })
            .collect();
        prop_assert_eq!(records(&results), expected);
    }
}
