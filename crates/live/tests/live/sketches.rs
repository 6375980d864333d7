//! Tests of aggregates that are sketches.
//!
//! They test the answers case by case and the reported error bounds. The answers do not depend on how events are split
//! over batches and shards.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use swiftwater_lang::{
    Dialect, ParseOptions,
    plan::{
        Aggregate, AggregateFunction, Body, DistributionPoints, Expr, OutputColumn, Query, TableAggregate,
        TableFunction,
    },
};
use swiftwater_live::{ResultSet, SketchFigures, SketchSizes, StandingQuery};

use AggregateFunction::{Count, CountDistinct, Percentile};
use Dialect::{Bullet, Native};

/// A query over events, with columns named by slot: `#0`, `#1`, ….
struct SketchQuery<'t> {
    dialect: Dialect,
    keys: &'t [&'t str],
    /// The function, its arguments, its filter.
    aggregates: &'t [(AggregateFunction, &'t [&'t str], Option<&'t str>)],
    table: Option<(TableFunction, &'t [&'t str])>,
    limit: Option<u64>,
}

const NOTHING: SketchQuery<'_> =
    SketchQuery { dialect: Native, keys: &[], aggregates: &[], table: None, limit: None };

fn expr(text: &str, dialect: Dialect) -> Expr {
    let text = format!("SELECT {text} AS v FROM STREAM()");
    match swiftwater_lang::parse(&text, &ParseOptions::new(dialect, 0)).unwrap().query.body {
        Body::Raw(raw) => raw.columns[0].expr.clone(),
        Body::Group(_) => panic!("{text}"),
    }
}

fn plan(asked: &SketchQuery<'_>) -> Query {
    let exprs = |texts: &[&str]| texts.iter().map(|text| expr(text, asked.dialect)).collect::<Vec<_>>();
    let options = ParseOptions::new(asked.dialect, 0);
    let mut query = swiftwater_lang::parse("SELECT COUNT(*) FROM STREAM()", &options).unwrap().query;
    let Body::Group(group) = &mut query.body else { panic!("it groups") };
    group.keys = exprs(asked.keys);
    group.aggregates = asked
        .aggregates
        .iter()
        .map(|(function, arguments, filter)| Aggregate {
            function: *function,
            arguments: exprs(arguments),
            filter: filter.map(|filter| expr(filter, asked.dialect)),
        })
        .collect();
    group.table = asked.table.as_ref().map(|(function, arguments)| TableAggregate {
        function: function.clone(),
        arguments: exprs(arguments),
        listed: Vec::new(),
    });
    let rows = group.table.iter().map(|table| table.function.columns(table.arguments.len())).sum::<usize>();
    group.columns = (0..group.keys.len() + group.aggregates.len() + rows)
        .map(|slot| OutputColumn { name: format!("#{slot}").into(), expr: Expr::Slot(slot) })
        .collect();
    query.limit = asked.limit;
    query
}

/// Runs a query over events dealt in batches of `batch` over `shards` in turn.
fn run(
    asked: &SketchQuery<'_>,
    sizes: SketchSizes,
    events: &[String],
    batch: usize,
    shards: usize,
) -> ResultSet {
    let query = Arc::new(StandingQuery::compile_sized(plan(asked), sizes).unwrap());
    crate::support::run(&query, events, batch, shards).0.pop().unwrap()
}

fn records(result: &ResultSet) -> Vec<Json> {
    crate::support::records(std::slice::from_ref(result))
}

#[track_caller]
fn check(asked: &SketchQuery<'_>, events: &[Json], expected: Json) {
    let events: Vec<String> = events.iter().map(Json::to_string).collect();
    let result = run(asked, SketchSizes::default(), &events, 3, 2);
    assert_eq!(Json::Array(records(&result)), expected);
    assert!(result.sketches.iter().all(|sketch| !sketch.is_estimated));
}

#[test]
fn distinct_combinations_are_typed_or_text() {
    let events = [
        json!({"x": 1, "y": "a"}),
        json!({"x": "1", "y": "a"}),
        json!({"x": null, "y": "a"}),
        json!({"x": "null", "y": "a"}),
        json!({"y": "a"}),
        json!({"x": 1.0, "y": "a"}),
        json!({"x": "1|a", "y": ""}),
        json!({"x": "1", "y": "a|"}),
        json!({"x": [1], "y": "a"}),
    ];
    let asked = |dialect, arguments| SketchQuery { dialect, aggregates: arguments, ..NOTHING };
    let of_both: &[_] = &[(CountDistinct, &["x", "y"][..], None)];
    let of_one: &[_] = &[(CountDistinct, &["x"][..], None)];
    check(&asked(Native, of_one), &events, json!([{"#0": 5}]));
    check(&asked(Native, of_both), &events, json!([{"#0": 6}]));
    check(&asked(Bullet, of_one), &events, json!([{"#0": 4}]));
    check(&asked(Bullet, of_both), &events, json!([{"#0": 4}]));
    check(&asked(Bullet, of_both), &[], json!([{"#0": 0}]));
}

#[test]
fn empty_text_is_no_key_and_no_value_of_its_own_in_bullet() {
    let events = [json!({"x": "", "y": ""}), json!({"x": "", "y": "a"}), json!({"x": "a"})];
    let of_one: &[_] = &[(CountDistinct, &["x"][..], None)];
    check(&SketchQuery { dialect: Bullet, aggregates: of_one, ..NOTHING }, &events, json!([{"#0": 1}]));
    check(&SketchQuery { aggregates: of_one, ..NOTHING }, &events, json!([{"#0": 2}]));
    let count: &[_] = &[(Count, &[][..], None)];
    let grouped = |dialect, keys| SketchQuery { dialect, keys, aggregates: count, ..NOTHING };
    check(&grouped(Bullet, &["x"]), &events, json!([{"#0": "a", "#1": 1}]));
    check(&grouped(Native, &["x"]), &events, json!([{"#0": "", "#1": 2}, {"#0": "a", "#1": 1}]));
    let both = [
        json!({"#0": "", "#1": "", "#2": 1}),
        json!({"#0": "", "#1": "a", "#2": 1}),
        json!({"#0": "a", "#1": "null", "#2": 1}),
    ];
    check(&grouped(Bullet, &["x", "y"]), &events, Json::from(both.to_vec()));
}

#[test]
fn filters_choose_what_an_aggregate_takes_in() {
    let events: Vec<Json> =
        (0..10).map(|n| json!({"n": n, "t": if n == 3 { json!("x") } else { json!(n) }})).collect();
    let aggregates: &[_] = &[
        (Count, &[][..], Some("n > 4")),
        (Count, &[][..], None),
        (CountDistinct, &["n % 2", "n > 7"], Some("n > 4")),
        (Percentile { millionths: 500_000 }, &["n"], Some("n < 5")),
        (Percentile { millionths: 500_000 }, &["n"], Some("n > 50")),
        // Excluded values are not computed: no division by zero is counted.
        (AggregateFunction::Sum, &["6 / (n - 5)"], Some("n > 5")),
    ];
    let asked = SketchQuery { aggregates, ..NOTHING };
    check(&asked, &events, json!([{"#0": 5, "#1": 10, "#2": 4, "#3": 2.0, "#4": null, "#5": 12}]));
    let texts: Vec<String> = events.iter().map(Json::to_string).collect();
    assert_eq!(run(&asked, SketchSizes::default(), &texts, 4, 2).expression_errors, 0);
}

#[test]
fn sketches_are_of_each_group() {
    let events: Vec<Json> = (0..30).map(|n| json!({"g": n % 3, "n": n})).collect();
    let asked = SketchQuery {
        keys: &["g"],
        aggregates: &[(CountDistinct, &["n % 2"], None)],
        table: Some((TableFunction::Quantile(DistributionPoints::Linear(2)), &["n"])),
        ..NOTHING
    };
    check(
        &asked,
        &events,
        json!([
            {"#0": 0, "#1": 2, "#2": 0.0, "#3": 0.0},
            {"#0": 0, "#1": 2, "#2": 1.0, "#3": 27.0},
            {"#0": 1, "#1": 2, "#2": 0.0, "#3": 1.0},
            {"#0": 1, "#1": 2, "#2": 1.0, "#3": 28.0},
            {"#0": 2, "#1": 2, "#2": 0.0, "#3": 2.0},
            {"#0": 2, "#1": 2, "#2": 1.0, "#3": 29.0},
        ]),
    );
    check(
        &SketchQuery { limit: Some(1), ..asked },
        &events,
        json!([{"#0": 0, "#1": 2, "#2": 0.0, "#3": 0.0}]),
    );
}

#[test]
fn the_most_frequent_combinations() {
    let mut events = vec![json!({"k": "a", "j": 1}); 4];
    events.extend(vec![json!({"k": "b", "j": 2}); 2]);
    events.extend([json!({"k": "p|q", "j": 3}), json!({"j": 1})]);
    let top = |count, threshold| TableFunction::Top { count, threshold };
    let asked = |dialect, function| SketchQuery { dialect, table: Some((function, &["k", "j"])), ..NOTHING };
    check(
        &asked(Native, top(10, None)),
        &events,
        json!([
            {"#0": "a", "#1": 1, "#2": 4},
            {"#0": "b", "#1": 2, "#2": 2},
            {"#0": null, "#1": 1, "#2": 1},
            {"#0": "p|q", "#1": 3, "#2": 1},
        ]),
    );
    check(
        &asked(Bullet, top(10, None)),
        &events,
        json!([
            {"#0": "a", "#1": "1", "#2": 4},
            {"#0": "b", "#1": "2", "#2": 2},
            {"#0": "null", "#1": "1", "#2": 1},
            {"#0": "p", "#1": "q", "#2": 1},
        ]),
    );
    check(&asked(Bullet, top(1, None)), &events, json!([{"#0": "a", "#1": "1", "#2": 4}]));
    let frequent = json!([{"#0": "a", "#1": 1, "#2": 4}, {"#0": "b", "#1": 2, "#2": 2}]);
    check(&asked(Native, top(0, Some(2))), &events, frequent);
    check(&asked(Native, top(0, None)), &[], json!([]));
}

#[test]
fn distributions_take_in_numbers() {
    let events =
        [json!({"v": 1}), json!({"v": "3"}), json!({"v": true}), json!({"v": "x"}), json!({"v": 2.5})];
    let function = TableFunction::CumulativeFrequency(DistributionPoints::Manual(vec![2.0]));
    let asked = |dialect| SketchQuery { dialect, table: Some((function.clone(), &["v"])), ..NOTHING };
    let rows = |low: f64, count: f64| {
        json!([
            {"#0": "(-∞ to 2.0)", "#1": low / count, "#2": low / count * count},
            {"#0": "(-∞ to +∞)", "#1": 1.0, "#2": count},
        ])
    };
    check(&asked(Native), &events, rows(1.0, 2.0));
    check(&asked(Bullet), &events, rows(2.0, 4.0));
}

#[test]
fn bullets_limit_is_of_points() {
    let events: Vec<Json> = (1..=10).map(|v| json!({"v": v})).collect();
    let function =
        TableFunction::Frequency(DistributionPoints::Region { start: 0.0, end: 500.0, increment: 1.0 });
    let asked =
        |limit| SketchQuery { dialect: Bullet, table: Some((function.clone(), &["v"])), limit, ..NOTHING };
    let count = |limit| {
        let events: Vec<String> = events.iter().map(Json::to_string).collect();
        run(&asked(limit), SketchSizes::default(), &events, 100, 1).count
    };
    assert_eq!((count(None), count(Some(3)), count(Some(1000))), (101, 4, 101));
    let too_many = TableFunction::Quantile(DistributionPoints::Linear(1 << 40));
    let asked = SketchQuery { table: Some((too_many, &["v"])), ..NOTHING };
    assert!(StandingQuery::compile(plan(&asked)).is_err());
}

#[test]
fn bullets_keys_are_one_where_their_texts_are() {
    let asked =
        SketchQuery { dialect: Bullet, keys: &["x", "y"], aggregates: &[(Count, &[], None)], ..NOTHING };
    let events =
        [json!({"x": "a|b", "y": "c"}), json!({"x": "a", "y": "b|c"}), json!({"x": 1}), json!({"x": [1]})];
    check(&asked, &events, json!([{"#0": "1", "#1": "null", "#2": 1}, {"#0": "a|b", "#1": "c", "#2": 2}]));
}

#[test]
fn bullets_groups_are_sampled_and_counted_exactly() {
    let events: Vec<String> = (0..12_000).map(|n| json!({"n": n % 6_000}).to_string()).collect();
    let asked = SketchQuery { dialect: Bullet, keys: &["n"], aggregates: &[(Count, &[], None)], ..NOTHING };
    let one = run(&asked, SketchSizes::default(), &events, 1000, 1);
    assert_eq!(one.count, 500);
    assert!(records(&one).iter().all(|record| record["#1"] == 2));
    let SketchFigures::Groups(figures) = &one.sketches[0].figures else { panic!("{:?}", one.sketches) };
    let (low, high) = figures.bounds[2];
    assert!(one.sketches[0].is_estimated && low < 6_000.0 && 6_000.0 < high, "{figures:?}");
    assert!((figures.theta - 512.0 / 6_000.0).abs() < 0.02, "{figures:?}");
    for shards in [2, 5] {
        let other = run(&asked, SketchSizes::default(), &events, 70, shards);
        assert_eq!(other.text, one.text);
    }
    let few = run(&asked, SketchSizes::default(), &events[..512], 100, 3);
    let SketchFigures::Groups(figures) = &few.sketches[0].figures else { panic!("{:?}", few.sketches) };
    assert_eq!((few.count, few.sketches[0].is_estimated, figures.estimate), (500, false, 512.0));
    let none = run(&asked, SketchSizes::default(), &[], 100, 3);
    assert_eq!((none.count, none.sketches.len()), (0, 1));
}

#[test]
fn estimates_say_how_exact_they_are() {
    let events: Vec<String> = (0..5_000).map(|n| json!({"n": n}).to_string()).collect();
    let sizes = SketchSizes { distinct_entries: 256, quantile_k: 64, top_entries: 64 };
    let asked = SketchQuery {
        aggregates: &[(CountDistinct, &["n"], None), (Percentile { millionths: 900_000 }, &["n"], None)],
        table: Some((TableFunction::Top { count: 1, threshold: None }, &["n"])),
        ..NOTHING
    };
    let result = run(&asked, sizes, &events, 300, 3);
    assert!(result.sketches.iter().all(|sketch| sketch.is_estimated) && result.sketches.len() == 3);
    let record = records(&result).pop().unwrap();
    for sketch in &result.sketches {
        match &sketch.figures {
            SketchFigures::Distinct(figures) => {
                let (low, high) = figures.bounds[2];
                assert!(low < 5_000.0 && 5_000.0 < high, "{figures:?}");
                assert_eq!(record["#0"], json!(figures.estimate.round() as i64));
            }
            SketchFigures::Quantiles { items_seen, least, greatest, rank_error, .. } => {
                assert_eq!((*items_seen, *least, *greatest), (5_000, Some(0.0), Some(4_999.0)));
                let rank = record["#1"].as_f64().unwrap() / 5_000.0;
                assert!((rank - 0.9).abs() < 3.0 * rank_error, "{rank} {rank_error}");
            }
            SketchFigures::Frequent { items_seen, count_error, .. } => {
                assert_eq!(*items_seen, 5_000);
                assert!(record["#3"].as_u64().unwrap() <= 1 + count_error);
            }
            SketchFigures::Groups(_) => panic!("{sketch:?}"),
        }
    }
    assert_eq!(&*result.sketches[0].aggregate, "COUNT(DISTINCT n)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn answers_do_not_depend_on_batches_and_shards(
        values in prop::collection::vec((0u8..4, 0u16..60, prop::option::of(-5i32..5)), 0..150),
        (batch, shards) in (1usize..40, 1usize..5),
        dialect in prop::sample::select(vec![Native, Bullet]),
    ) {
        let events: Vec<String> =
            values.iter().map(|(g, n, m)| json!({"g": g, "n": n, "m": m}).to_string()).collect();
        let tables = [
            TableFunction::Quantile(DistributionPoints::Linear(5)),
            TableFunction::Frequency(DistributionPoints::Linear(4)),
            TableFunction::CumulativeFrequency(DistributionPoints::Region { start: -3.0, end: 3.0, increment: 1.5 }),
            TableFunction::Top { count: 7, threshold: Some(2) },
        ];
        // Small sketches too: how many distinct values there are is one number for every split, even as an estimate.
        for sizes in [SketchSizes::default(), SketchSizes { distinct_entries: 32, ..SketchSizes::default() }] {
            for table in &tables {
                let asked = SketchQuery {
                    dialect,
                    keys: if dialect == Native { &["g"] } else { &[] },
                    aggregates: &[(CountDistinct, &["n", "m"], None), (Count, &[], None)],
                    table: Some((table.clone(), &["m"])),
                    limit: None,
                };
                let whole = run(&asked, sizes, &events, 1000, 1);
                let parts = run(&asked, sizes, &events, batch, shards);
                prop_assert_eq!(records(&whole), records(&parts));
                let estimated = |result: &ResultSet| -> Vec<bool> {
                    result.sketches.iter().map(|sketch| sketch.is_estimated).collect()
                };
                prop_assert_eq!(estimated(&whole), estimated(&parts));
            }
        }
    }
}
