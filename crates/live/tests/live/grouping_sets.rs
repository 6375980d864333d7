//! Tests of grouping sets, and of the packed counts and sums.
//!
//! They equal the answers of a plain loop over all events, however the events are split over batches and shards.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::StandingQuery;
use swiftwater_testkit::oracle;

use crate::support::{records, run};

fn answered(text: &str, events: &[String], batch: usize, shards: usize) -> Vec<Json> {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    let query = Arc::new(StandingQuery::compile(plan).expect(text));
    records(&run(&query, events, batch.max(1), shards).0)
}

#[track_caller]
fn check(text: &str, events: &[&str], expected: &[Json]) {
    let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
    for (batch, shards) in [(1, 1), (2, 3), (100, 1)] {
        assert_eq!(answered(text, &events, batch, shards), expected, "{text}");
    }
}

const EVENTS: [&str; 3] =
    [r#"{"a":1,"b":"x","v":5}"#, r#"{"a":1,"b":null,"v":7}"#, r#"{"a":2,"b":"x","v":1}"#];

#[test]
fn rows_of_sets_come_one_set_behind_another() {
    check(
        "SELECT a, b, SUM(v) AS s, GROUPING(a, b) AS g FROM STREAM() GROUP BY GROUPING SETS (a, b, ())",
        &EVENTS,
        &[
            json!({"a": 1, "b": null, "s": 12, "g": 1}),
            json!({"a": 2, "b": null, "s": 1, "g": 1}),
            json!({"a": null, "b": null, "s": 7, "g": 2}),
            json!({"a": null, "b": "x", "s": 6, "g": 2}),
            json!({"a": null, "b": null, "s": 13, "g": 3}),
        ],
    );
}

#[test]
fn rollup_cube_and_their_combinations_are_sets() {
    let sets_of = |by: &str| {
        let text = format!("SELECT COUNT(*) AS n, GROUPING_ID() AS g FROM STREAM() GROUP BY {by}");
        let events: Vec<String> = EVENTS.iter().map(|event| (*event).to_owned()).collect();
        let mut sets: Vec<i64> =
            answered(&text, &events, 2, 2).iter().map(|row| row["g"].as_i64().unwrap()).collect();
        sets.dedup();
        sets
    };
    assert_eq!(sets_of("ROLLUP (a, b)"), [0, 1, 3]);
    assert_eq!(sets_of("CUBE (a, b)"), [0, 1, 2, 3]);
    assert_eq!(sets_of("ROLLUP ((a, b), v)"), [0, 1, 7]);
    assert_eq!(sets_of("a, ROLLUP (b)"), [0, 1]);
    assert_eq!(sets_of("ROLLUP (a), ROLLUP (b)"), [0, 1, 2, 3]);
    assert_eq!(sets_of("GROUPING SETS (ROLLUP (a, b), (b, v))"), [0b001, 0b011, 0b111, 0b100]);
    assert_eq!(sets_of("GROUPING SETS ((a), (a))"), [0]);
    assert_eq!(sets_of("()"), [0]);
}

#[test]
fn only_the_grand_total_is_there_where_nothing_came() {
    check(
        "SELECT a, COUNT(*) AS n, SUM(v) AS s FROM STREAM() GROUP BY ROLLUP (a)",
        &[],
        &[json!({"a": null, "n": 0, "s": null})],
    );
    check("SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY GROUPING SETS (a)", &[], &[]);
}

#[test]
fn a_value_that_cannot_be_used_is_told_of_once() {
    let plan = |by: &str| {
        let text = format!("SELECT SUM(v) AS s, COUNT(v) AS c FROM STREAM() GROUP BY {by}");
        let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).unwrap().query;
        Arc::new(StandingQuery::compile(plan).unwrap())
    };
    let events = [r#"{"a":1,"v":"no"}"#.to_owned(), r#"{"a":1,"v":2}"#.to_owned(), r#"{"a":1}"#.to_owned()];
    for by in ["a", "CUBE (a, b)"] {
        let rows = records(&run(&plan(by), &events, 2, 2).0);
        assert_eq!(rows[0], json!({"s": 2, "c": 2}), "{by}");
    }
}

/// Random whole numbers, some so great that sums of 64 bits do not suffice, and others.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (-9..20i64).prop_map(|x| x.to_string()),
        1 => Just("9223372036854775807".to_owned()),
        1 => Just("-9223372036854775808".to_owned()),
        1 => (i64::MAX / 5 - 3..i64::MAX / 5).prop_map(|x| x.to_string()),
        1 => prop_oneof![Just("0.1"), Just("1e300"), Just("\"no\""), Just("null"), Just("true")].prop_map(str::to_owned),
    ]
}

fn event() -> impl Strategy<Value = String> {
    let key =
        prop_oneof![(0..3i64).prop_map(|k| k.to_string()), Just("null".to_owned()), Just("\"1\"".to_owned())];
    (key.clone(), key, number(), number())
        .prop_map(|(a, b, v, w)| format!(r#"{{"a":{a},"b":{b},"c":{{"d":{b}}},"v":{v},"w":{w}}}"#))
}

proptest! {
    #[test]
    fn sets_and_sums_are_what_a_plain_loop_answers(
        events in proptest::collection::vec(event(), 0..60),
        by in prop_oneof![Just("a"), Just("a, b"), Just("ROLLUP (a, b)"), Just("CUBE (a, b, c.d)"), Just("GROUPING SETS (a, b, (), (b, a), a + 1)")],
        batch in 1..30usize,
        shards in 1..4usize,
    ) {
        let text = format!(
            "SELECT a, b, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, AVG(w) AS m, SUM(w) FILTER (WHERE v > 0) AS f, MIN(v) AS lo, \
             SUM(v) + SUM(w) AS sw, GROUPING(b) AS g FROM STREAM() GROUP BY {}", if by == "a" { "a, b" } else { by });
        let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
        let expected = oracle::answer(&plan, &oracle::read(&events)).expect("the oracle knows it");
        let got: Vec<serde_json::Map<String, Json>> = answered(&text, &events, batch, shards)
            .into_iter()
            .map(|row| row.as_object().cloned().expect("an object"))
            .collect();
        prop_assert!(expected.check(&got).is_ok(), "{text}: {:?}", expected.check(&got));
    }

    /// The total over any dimension is the grand total.
    #[test]
    fn totals_of_every_dimension_are_the_grand_total(
        events in proptest::collection::vec(event(), 1..60),
        batch in 1..30usize,
        shards in 1..4usize,
    ) {
        let text = "SELECT COUNT(*) AS n, COUNT(v) AS c, GROUPING_ID() AS g FROM STREAM() \
                    GROUP BY GROUPING SETS (a, b, c.d, (a, b), ())";
        let rows = answered(text, &events, batch, shards);
        let total = |set: i64, column: &str| -> i64 {
            rows.iter().filter(|row| row["g"] == set).map(|row| row[column].as_i64().unwrap()).sum()
        };
        for column in ["n", "c"] {
            for set in [0b011, 0b101, 0b110, 0b001] {
                prop_assert_eq!(total(set, column), total(0b111, column));
            }
        }
        prop_assert_eq!(total(0b111, "n"), events.len() as i64);
    }
}
