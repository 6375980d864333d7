//! Tests of lateral views and outer queries.
//!
//! They test the answers case by case, and that these do not depend on how events are split over batches and shards.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use swiftwater_lang::{
    Dialect, ParseOptions,
    plan::{Body, Expr, LateralView, Query},
};
use swiftwater_live::{ResultSet, StandingQuery};

use crate::support::{Done, records};
use Dialect::{Bullet, Native};

/// A view: its container's text, whether it is OUTER, its columns.
type View<'t> = (&'t str, bool, &'t [&'t str]);

/// The plan of a query with views, whose text names their columns as if they were fields.
fn plan(dialect: Dialect, text: &str, views: &[View<'_>]) -> Query {
    let parse = |text: &str| swiftwater_lang::parse(text, &ParseOptions::new(dialect, 0)).unwrap().query;
    let mut query = parse(text);
    let columns: Vec<&str> = views.iter().flat_map(|(_, _, columns)| columns.iter().copied()).collect();
    query.views = views
        .iter()
        .map(|(container, is_outer, columns)| {
            let Body::Raw(raw) = parse(&format!("SELECT {container} AS v FROM STREAM()")).body else {
                panic!("{container}")
            };
            LateralView {
                expr: raw.columns[0].expr.clone(),
                is_outer: *is_outer,
                columns: columns.iter().map(|&column| column.into()).collect(),
                join: None,
            }
        })
        .collect();
    for view in &mut query.views {
        read_slots(&mut view.expr, &columns);
    }
    query.filter.iter_mut().for_each(|filter| read_slots(filter, &columns));
    match &mut query.body {
        Body::Raw(raw) => {
            raw.columns.iter_mut().for_each(|column| read_slots(&mut column.expr, &columns));
            query.order_by.iter_mut().for_each(|key| read_slots(&mut key.expr, &columns));
        }
        Body::Group(group) => {
            group.keys.iter_mut().for_each(|key| read_slots(key, &columns));
            let aggregates = group.aggregates.iter_mut();
            aggregates.flat_map(|aggregate| &mut aggregate.arguments).for_each(|x| read_slots(x, &columns));
        }
    }
    query
}

fn read_slots(expr: &mut Expr, columns: &[&str]) {
    match expr {
        Expr::Path { path, .. } => {
            if let Some(slot) = columns.iter().position(|column| path.to_string() == *column) {
                *expr = Expr::Slot(slot);
            }
        }
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| read_slots(arg, columns)),
        Expr::Literal(_) | Expr::Slot(_) => {}
    }
}

/// Runs a query over events dealt in batches of `batch` over `shards` in turn; the results, and what was done.
fn run(plan: Query, events: &[String], batch: usize, shards: usize) -> (Vec<ResultSet>, Done) {
    crate::support::run(&Arc::new(StandingQuery::compile(plan).unwrap()), events, batch, shards)
}

/// Checks a query's records, for every way to deal the events.
fn check(dialect: Dialect, text: &str, views: &[View<'_>], events: &[Json], expected: &[Json]) {
    let events: Vec<String> = events.iter().map(Json::to_string).collect();
    for (batch, shards) in [(1, 1), (2, 3), (100, 1)] {
        let (results, _) = run(plan(dialect, text, views), &events, batch, shards);
        assert_eq!(records(&results), expected, "{text} in batches of {batch}");
    }
}

#[test]
fn list_gives_a_row_per_element() {
    let events = [
        json!({"i": 1, "l": [1, null, "x"]}),
        json!({"i": 2, "l": []}),
        json!({"i": 3}),
        json!({"i": 4, "l": {"a": 1}}),
        json!({"i": 5, "l": [{"a": 5}]}),
    ];
    let rows = [
        json!({"i": 1, "v": 1}),
        json!({"i": 1, "v": null}),
        json!({"i": 1, "v": "x"}),
        json!({"i": 5, "v": {"a": 5}}),
    ];
    check(Native, "SELECT i, v FROM STREAM()", &[("l", false, &["v"])], &events, &rows);
    let outer_rows = [
        json!({"i": 1, "v": 1}),
        json!({"i": 1}),
        json!({"i": 1, "v": "x"}),
        json!({"i": 2}),
        json!({"i": 3}),
        json!({"i": 4}),
        json!({"i": 5, "v": {"a": 5}}),
    ];
    check(Bullet, "SELECT i, v FROM STREAM()", &[("l", true, &["v"])], &events, &outer_rows);
}

#[test]
fn map_gives_a_row_per_entry() {
    let events =
        [json!({"m": {"jane": 1, "bob": null}, "i": 1}), json!({"m": [1], "i": 2}), json!({"m": {}, "i": 3})];
    // Bullet's order is that of Java's hash table.
    let rows =
        [json!({"i": 1, "k": "bob"}), json!({"i": 1, "k": "jane", "v": 1}), json!({"i": 2}), json!({"i": 3})];
    check(Bullet, "SELECT i, k, v FROM STREAM()", &[("m", true, &["k", "v"])], &events, &rows);
    let rows = [json!({"k": "bob", "v": null}), json!({"k": "jane", "v": 1})];
    let events = [r#"{"m": {"bob": null, "jane": 1}}"#, r#"{"m": {"z": 1, "a": 2}}"#].map(str::to_owned);
    let (results, _) =
        run(plan(Native, "SELECT k, v FROM STREAM()", &[("m", false, &["k", "v"])]), &events, 2, 1);
    let native = records(&results);
    assert_eq!(native[..2], rows);
    assert_eq!(native[2..], [json!({"k": "z", "v": 1}), json!({"k": "a", "v": 2})], "the order of the text");
}

#[test]
fn views_nest_and_the_filter_sees_both_events_and_rows() {
    let events = [
        json!({"i": 1, "l": [{"a": 1, "b": 2}, {"c": 3}]}),
        json!({"i": 2, "l": [{"a": 9}]}),
        json!({"i": 1, "l": [{}, null, {"d": 4}]}),
    ];
    let views: [View<'_>; 2] = [("l", false, &["m"]), ("m", false, &["k", "v"])];
    let rows = [json!({"k": "b", "v": 2}), json!({"k": "c", "v": 3}), json!({"k": "d", "v": 4})];
    check(Native, "SELECT k, v FROM STREAM() WHERE i = 1 AND v > 1", &views, &events, &rows);
    check(Native, "SELECT k, v FROM STREAM() WHERE v > i AND i = 1", &views, &events, &rows);
    check(
        Native,
        "SELECT i, SUM(v) AS s, COUNT(*) AS n FROM STREAM() GROUP BY i",
        &views,
        &events,
        &[json!({"i": 1, "s": 10, "n": 4}), json!({"i": 2, "s": 9, "n": 1})],
    );
}

#[test]
fn container_without_a_type_is_none_in_bullet() {
    let events =
        [json!({"i": 1, "l": [[1], [2]]}), json!({"i": 2, "l": [1, "x"]}), json!({"i": 3, "l": [{}]})];
    let views: [View<'_>; 1] = [("l", false, &["v"])];
    let rows = [json!({"i": 2, "v": 1}), json!({"i": 2, "v": "x"}), json!({"i": 3, "v": {}})];
    check(Bullet, "SELECT i, v FROM STREAM()", &views, &events, &rows);
    let counts =
        [json!({"i": 1, "COUNT(*)": 2}), json!({"i": 2, "COUNT(*)": 2}), json!({"i": 3, "COUNT(*)": 1})];
    check(Native, "SELECT i, COUNT(*) FROM STREAM() GROUP BY i", &views, &events, &counts);
    check(Bullet, "SELECT SIZEOF(v) AS n FROM STREAM() WHERE i = 3", &views, &events, &[json!({"n": 0})]);
}

#[test]
fn star_has_the_event_and_the_columns() {
    let events = [json!({"i": 1, "l": [2, null]})];
    let rows = [json!({"i": 1, "l": [2, null], "v": 2}), json!({"i": 1, "l": [2, null], "v": null})];
    check(Native, "SELECT *, v AS v FROM STREAM()", &[("l", false, &["v"])], &events, &rows);
}

#[test]
fn limit_counts_rows() {
    let events: Vec<String> = (0..5).map(|i| json!({"i": i, "l": [1, 2, 3]}).to_string()).collect();
    let views: [View<'_>; 1] = [("l", false, &["v"])];
    for batch in [1, 2, 5] {
        let limited = plan(Native, "SELECT i, v FROM STREAM() LIMIT 4", &views);
        let (results, done) = run(limited, &events, batch, 1);
        assert_eq!(records(&results).last(), Some(&json!({"i": 1, "v": 1})));
        assert_eq!(results[0].count, 4);
        assert!(done.matches >= 2);
        let ordered = plan(Native, "SELECT i, v FROM STREAM() ORDER BY v DESC, i LIMIT 2", &views);
        let (results, _) = run(ordered, &events, batch, 1);
        assert_eq!(records(&results), [json!({"i": 0, "v": 3}), json!({"i": 1, "v": 3})]);
    }
}

#[test]
fn event_that_would_become_too_many_rows_is_cut_and_counted() {
    // 2^21 rows of the second view, whose limit is half of that.
    let items: Vec<u32> = (0..1 << 11).collect();
    let half: Vec<u32> = (0..1 << 10).collect();
    let events = [json!({"l": items, "m": half}).to_string(), json!({"l": [1], "m": [1]}).to_string()];
    let views: [View<'_>; 2] = [("l", false, &["a"]), ("m", false, &["b"])];
    let (results, done) = run(plan(Native, "SELECT COUNT(*) AS n FROM STREAM()", &views), &events, 2, 1);
    assert_eq!(records(&results), [json!({"n": (1 << 20) + 1})]);
    assert_eq!(done, Done { matches: 2, expression_errors: 1 });
}

#[test]
fn what_is_no_container_of_the_kind_is_counted() {
    let events = [json!({"l": 5}), json!({"l": {"a": 1}}), json!({"l": null}), json!({"l": []})]
        .map(|x| x.to_string());
    let (_, done) = run(plan(Native, "SELECT v FROM STREAM()", &[("l", false, &["v"])]), &events, 4, 1);
    assert_eq!(done, Done { matches: 4, expression_errors: 2 });
}

fn with_outer(inner: &str, outer: &str) -> Query {
    with_outer_in(Native, inner, outer)
}

fn with_outer_in(dialect: Dialect, inner: &str, outer: &str) -> Query {
    let parse = |text: &str| swiftwater_lang::parse(text, &ParseOptions::new(dialect, 0)).unwrap().query;
    Query { outer: Some(Box::new(parse(outer))), ..parse(inner) }
}

#[test]
fn outer_query_runs_over_the_records_of_the_inner() {
    let events: Vec<String> = ["a", "b", "a", "c", "a", "c"].map(|k| json!({"k": k}).to_string()).into();
    for batch in [1, 6] {
        let query = with_outer(
            "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k",
            "SELECT n, k FROM STREAM() WHERE n > 1 ORDER BY n",
        );
        let (results, _) = run(query, &events, batch, 2);
        assert_eq!(records(&results), [json!({"n": 2, "k": "c"}), json!({"n": 3, "k": "a"})]);
        assert_eq!(results[0].count, 2);
        let query = with_outer("SELECT k FROM STREAM() LIMIT 3", "SELECT COUNT(*) AS n FROM STREAM()");
        let (results, _) = run(query, &events, batch, 2);
        assert_eq!(records(&results), [json!({"n": 3})]);
    }
}

#[test]
fn outer_query_of_nothing_still_answers() {
    let query = with_outer(
        "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k",
        "SELECT COUNT(*) AS n, SUM(n) AS s FROM STREAM()",
    );
    let (results, _) = run(query, &[], 1, 1);
    assert_eq!(records(&results), [json!({"n": 0, "s": null})]);
    assert_eq!(results[0].inner_sketches, Some(Vec::new()));
}

#[test]
fn null_that_the_inner_query_shows_is_passed_on() {
    let events = [json!({"a": null, "b": 1}).to_string()];
    let query =
        with_outer_in(Bullet, "SELECT COUNT(*) AS n, SUM(c) AS s FROM STREAM()", "SELECT * FROM STREAM()");
    let (results, _) = run(query, &events, 1, 1);
    assert_eq!(records(&results), [json!({"n": 1, "s": null})]);
    let query = with_outer_in(Bullet, "SELECT * FROM STREAM()", "SELECT * FROM STREAM()");
    let (results, _) = run(query, &events, 1, 1);
    assert_eq!(records(&results), [json!({"b": 1})]);
}

#[test]
fn outer_query_reads_more_records_than_a_block_holds() {
    let text = "x".repeat(1000);
    let events: Vec<String> = (0..9000).map(|i| json!({"i": i, "t": text}).to_string()).collect();
    let query = with_outer(
        "SELECT i, t FROM STREAM()",
        "SELECT COUNT(*) AS n, MAX(i) AS m, MIN(i) AS l FROM STREAM()",
    );
    let (results, _) = run(query, &events, 1000, 1);
    assert_eq!(records(&results), [json!({"n": 9000, "m": 8999, "l": 0})]);
}

/// A list or map of the wished kind, or something else.
fn container(inner: BoxedStrategy<Json>) -> BoxedStrategy<Json> {
    let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array);
    let map = prop::collection::btree_map("[a-c]", inner.clone(), 0..4).prop_map(|map| json!(map));
    prop_oneof![3 => list, 2 => map, 1 => inner].boxed()
}

fn events() -> impl Strategy<Value = Vec<Json>> {
    let leaf = prop_oneof![Just(Json::Null), (0..4).prop_map(Json::from), Just(json!("x"))].boxed();
    let event = (0..3, container(container(leaf.clone())), container(leaf))
        .prop_map(|(i, l, m)| json!({"i": i, "l": l, "m": m}));
    prop::collection::vec(event, 0..30)
}

/// The rows of one view over one value, said as plainly as can be.
fn exploded(value: &Json, is_outer: bool, columns: usize) -> Vec<Vec<Json>> {
    let mut rows: Vec<Vec<Json>> = match (value, columns) {
        (Json::Array(items), 1) => items.iter().map(|item| vec![item.clone()]).collect(),
        (Json::Object(map), 2) => {
            map.iter().map(|(key, value)| vec![Json::from(key.as_str()), value.clone()]).collect()
        }
        _ => Vec::new(),
    };
    if rows.is_empty() && is_outer {
        rows.push(vec![Json::Null; columns]);
    }
    rows
}

const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];

proptest! {
    #[test]
    fn views_agree_with_a_loop(
        events in events(),
        shape in prop::collection::vec((0..3usize, any::<bool>(), 1..3usize), 1..3),
        batch in 1..12usize,
        shards in 1..4usize,
        limit in prop::option::of(1..20u64),
    ) {
        let mut views: Vec<View<'_>> = Vec::new();
        let mut from = 0;
        for (place, (source, is_outer, columns)) in shape.iter().enumerate() {
            // Over the event's containers, or over what the view before has made.
            let container = if place > 0 && *source == 2 { NAMES[from - 1] } else { ["l", "m", "l"][*source] };
            views.push((container, *is_outer, &NAMES[from..from + columns]));
            from += columns;
        }
        let columns = &NAMES[..from];
        let mut wanted = Vec::new();
        for event in events.iter().filter(|event| event["i"] != 2) {
            let mut rows = vec![Vec::new()];
            for (container, is_outer, made) in &views {
                rows = rows.into_iter().flat_map(|row: Vec<Json>| {
                    let slot = NAMES.iter().position(|name| name == container);
                    let value = slot.map_or(&event[*container], |slot| &row[slot]);
                    let new = exploded(value, *is_outer, made.len());
                    new.into_iter().map(move |new| [row.clone(), new].concat()).collect::<Vec<_>>()
                }).collect();
            }
            wanted.extend(rows.into_iter().filter(|row| row[0] != Json::Null).map(|row| {
                let mut record = json!({"i": event["i"]});
                for (name, value) in columns.iter().zip(row) {
                    record[*name] = value;
                }
                record
            }));
        }
        let limit_text = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let text = format!("SELECT i, {} FROM STREAM() WHERE i != 2 AND v0 IS NOT NULL{limit_text}", columns.join(", "));
        let events: Vec<String> = events.iter().map(Json::to_string).collect();
        let (results, _) = run(plan(Native, &text, &views), &events, batch, shards);
        wanted.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(records(&results), wanted);
    }

    #[test]
    fn groups_of_views_do_not_depend_on_batches(
        events in events(),
        batch in 1..12usize,
        shards in 1..4usize,
    ) {
        let events: Vec<String> = events.iter().map(Json::to_string).collect();
        let views: [View<'_>; 2] = [("l", true, &["v"]), ("v", false, &["w"])];
        let text = "SELECT w, COUNT(*) AS n, MAX(i) AS m FROM STREAM() WHERE w IS NOT NULL GROUP BY w";
        let (whole, done) = run(plan(Native, text, &views), &events, events.len().max(1), 1);
        let (split, also_done) = run(plan(Native, text, &views), &events, batch, shards);
        prop_assert_eq!(records(&whole), records(&split));
        prop_assert_eq!(done, also_done);
    }
}
