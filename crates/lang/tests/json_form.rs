//! Tests of Bullet's older query form: the translation of its parts, and the messages of errors.

use proptest::prelude::*;
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, Schema, parse, parse_json};

fn plan_of(text: &str) -> String {
    match parse_json(text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(statement) => statement.query.to_string(),
        Err(errors) => {
            let errors = errors.0.iter().map(|error| {
                let place = error.line.zip(error.column).map(|(line, column)| format!("{line}:{column}: "));
                format!("{}{}", place.unwrap_or_default(), error.message)
            });
            errors.collect::<Vec<_>>().join("; ")
        }
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(plan_of(text), expected, "{text}");
}

/// The form means what the BQL means.
fn check_same(json: &str, bql: &str) {
    let plan = parse(bql, &ParseOptions::new(Dialect::Native, 0)).expect("BQL that can be parsed");
    assert_eq!(plan_of(json), plan.query.to_string(), "{json}");
}

#[test]
fn the_empty_query_asks_for_all() {
    check_same("{}", "SELECT * FROM STREAM()");
    check_same(" {\"filters\": [], \"aggregation\": null}\n", "SELECT * FROM STREAM()");
}

#[test]
fn the_published_load_query() {
    check_same(
        r#"{"filters": [{"field": "id", "operation": "==", "values": ["c14bf3f0-1d38-4d08-a0cd-25dae3f7c0bd"]}],
            "aggregation": {"type": "RAW", "size": 10}, "duration": 30000}"#,
        "SELECT * FROM STREAM(30000, TIME) WHERE id = 'c14bf3f0-1d38-4d08-a0cd-25dae3f7c0bd' LIMIT 10",
    );
    check_same(r#"{"aggregation": {"type": "LIMIT", "size": 1}}"#, "SELECT * FROM STREAM() LIMIT 1");
}

#[test]
fn filters_nest() {
    check_same(
        r#"{"filters": [{"field": "a", "operation": "==", "values": ["x", "y"]},
                        {"operation": "OR", "clauses": [
                            {"field": "b.c", "operation": "==", "values": ["z"]},
                            {"field": "l.0.k", "operation": "==", "values": ["w"]}]}]}"#,
        "SELECT * FROM STREAM() WHERE a IN ('x', 'y') AND (b.c = 'z' OR l[0].k = 'w' OR l['0'].k = 'w')",
    );
    // Only the first clause is negated; a text may then be anything.
    check(
        r#"{"filters": [{"operation": "NOT", "clauses": [
            {"field": "a", "operation": "==", "values": ["x"]}, {"field": "b", "operation": "==", "values": ["y"]}]}]}"#,
        "default stream\nwhere NOT (a = TEXT 'x')\nthe event itself",
    );
    check(
        r#"{"filters": [{"field": "a", "operation": "!=", "values": ["1", "2"]}]}"#,
        "default stream\nwhere (a != TEXT '1') AND (a != TEXT '2')\nthe event itself",
    );
    check(
        r#"{"filters": [{"field": "a", "operation": ">", "values": [5, "x"]}]}"#,
        "default stream\nwhere (a > TEXT '5') OR (a > TEXT 'x')\nthe event itself",
    );
    check_same(
        r#"{"filters": [{"field": "a", "operation": "<", "values": [{"kind": "FIELD", "value": "b"}]}]}"#,
        "SELECT * FROM STREAM() WHERE COALESCE(a < b, FALSE)",
    );
}

#[test]
fn tests_of_text_and_containers() {
    let one = |operation: &str, values: &str| {
        format!(r#"{{"filters": [{{"field": "a", "operation": "{operation}", "values": {values}}}]}}"#)
    };
    check_same(
        &one("RLIKE", r#"["x.*", "y"]"#),
        "SELECT * FROM STREAM() WHERE COALESCE(CAST(a AS STRING) RLIKE 'x.*', FALSE) OR \
         COALESCE(CAST(a AS STRING) RLIKE 'y', FALSE)",
    );
    check_same(&one("SIZEIS", r#"["3", "x"]"#), "SELECT * FROM STREAM() WHERE COALESCE(SIZEIS(a, 3), FALSE)");
    check_same(&one("SIZEIS", r#"["x"]"#), "SELECT * FROM STREAM() WHERE FALSE");
    check_same(
        &one("CONTAINSKEY", r#"["k"]"#),
        "SELECT * FROM STREAM() WHERE COALESCE(CONTAINSKEY(a, 'k'), FALSE)",
    );
    check_same(
        &one("containsvalue", r#"["7"]"#),
        "SELECT * FROM STREAM() WHERE COALESCE(CONTAINSVALUE(a, '7'), FALSE) OR \
         COALESCE(CONTAINSVALUE(a, 7L), FALSE)",
    );
    check_same(&one("==", "[]"), "SELECT * FROM STREAM() WHERE FALSE");
    check_same(&one("!=", "[]"), "SELECT * FROM STREAM() WHERE TRUE");
}

#[test]
fn projections_and_groups() {
    check_same(
        r#"{"projection": {"fields": {"a.b": "x", "c": "c", "d": ""}}}"#,
        "SELECT a.b AS x, c, d FROM STREAM()",
    );
    check_same(
        r#"{"aggregation": {"type": "GROUP", "size": 5, "fields": {"a": "k"}, "attributes": {"operations": [
            {"type": "COUNT", "newName": "n"}, {"type": "SUM", "field": "b", "newName": "s"}, {"type": "AVG", "field": "b"}]}}}"#,
        "SELECT a AS k, COUNT(*) AS n, SUM(b) AS s, AVG(b) AS AVG_b FROM STREAM() GROUP BY a LIMIT 5",
    );
    check_same(
        r#"{"aggregation": {"type": "DISTINCT", "fields": {"a": "k", "b": "l"}}}"#,
        "SELECT DISTINCT a AS k, b AS l FROM STREAM()",
    );
    check_same(
        r#"{"aggregation": {"type": "GROUP", "attributes": {"operations": [{"type": "COUNT"}]}}}"#,
        "SELECT COUNT(*) AS \"COUNT\" FROM STREAM()",
    );
    check_same(
        r#"{"aggregation": {"type": "DISTINCT", "fields": {"a.b": null}}}"#,
        "SELECT DISTINCT a.b AS \"a.b\" FROM STREAM()",
    );
}

#[test]
fn sketches() {
    check(
        r#"{"aggregation": {"type": "COUNT DISTINCT", "fields": {"a": "a", "b": "b"}, "attributes": {"newName": "n"}}}"#,
        "default stream\naggregates #0 = COUNT(DISTINCT a, b)\ncolumns n = #0",
    );
    check(
        r#"{"aggregation": {"type": "DISTRIBUTION", "fields": {"a": ""}, "attributes": {"type": "QUANTILE", "numberOfPoints": 3}}}"#,
        "default stream\nrows #0 to #1 = QUANTILE(a, 3 points)\ncolumns Quantile = #0, Value = #1",
    );
    check(
        r#"{"aggregation": {"type": "DISTRIBUTION", "fields": {"a": ""}, "attributes": {"type": "CDF", "points": [2, 1, 2.0]}}}"#,
        "default stream\nrows #0 to #2 = CUMFREQ(a, [1.0, 2.0])\ncolumns Range = #0, Probability = #1, Count = #2",
    );
    check(
        r#"{"aggregation": {"type": "TOP K", "size": 7, "fields": {"a": "x"}, "attributes": {"threshold": 2}}}"#,
        "default stream\nrows #0 to #1 = TOP(7, 2, a)\ncolumns x = #0, COUNT = #1",
    );
}

#[test]
fn a_size_is_the_most_points_of_a_distribution() {
    let points = |points: &str| {
        let plan = plan_of(&format!(
            r#"{{"aggregation": {{"type": "DISTRIBUTION", "size": 3, "fields": {{"a": ""}}, "attributes": {{"type": "PMF", {points}}}}}}}"#
        ));
        plan.lines().nth(1).unwrap_or(&plan).to_owned()
    };
    assert_eq!(points(r#""numberOfPoints": 5"#), "rows #0 to #2 = FREQ(a, 3 points)");
    assert_eq!(points(r#""points": [4, 3, 2, 1]"#), "rows #0 to #2 = FREQ(a, [1.0, 2.0, 3.0])");
    assert_eq!(
        points(r#""points": [], "start": 0, "end": 10, "increment": 2"#),
        "rows #0 to #2 = FREQ(a, 0 to 5 by 2)"
    );
}

#[test]
fn not_equal_is_what_equal_is_not() {
    let one = |operation: &str, value: &str| {
        format!(r#"{{"filters": [{{"field": "a", "operation": "{operation}", "values": [{value}]}}]}}"#)
    };
    check_same(
        &one("!=", r#"{"kind": "FIELD", "value": "b"}"#),
        "SELECT * FROM STREAM() WHERE NOT COALESCE(a = b, FALSE)",
    );
    check_same(
        &one("!=", r#"{"kind": "VALUE", "type": "LONG", "value": "5.7"}"#),
        "SELECT * FROM STREAM() WHERE NOT COALESCE(a = CAST(5.7 AS LONG), FALSE)",
    );
    check_same(
        &one("<=", r#"{"kind": "FIELD", "type": "DOUBLE", "value": "b"}"#),
        "SELECT * FROM STREAM() WHERE COALESCE(a <= CAST(b AS DOUBLE), FALSE)",
    );
    check(
        &one("==", r#"{"kind": "VALUE", "type": "LNG", "value": "5"}"#),
        "1:85: a value cannot be cast to `LNG`",
    );
}

#[test]
fn clauses_without_clauses_are_true() {
    for operation in ["AND", "OR", "NOT"] {
        let clause = format!(r#"{{"filters": [{{"operation": "{operation}", "clauses": []}}]}}"#);
        check_same(&clause, "SELECT * FROM STREAM() WHERE TRUE");
    }
    check_same(
        r#"{"filters": [{"operation": "NOT", "clauses": [{"operation": "OR", "clauses": []}]}]}"#,
        "SELECT * FROM STREAM() WHERE NOT TRUE",
    );
    check("{\"filters\": [{\"operation\": \"AND\"}]}", "1:14: `clauses` is missing here");
}

#[test]
fn what_not_passes_over_is_checked_all_the_same() {
    check(
        r#"{"filters": [{"operation": "NOT", "clauses": [
            {"field": "a", "operation": "==", "values": ["x"]}, {"field": "b", "operation": "="}]}]}"#,
        "2:65: `values` is missing here",
    );
}

#[test]
fn a_part_of_a_path_that_is_a_number_is_a_place_or_a_key() {
    check_same(
        r#"{"projection": {"fields": {"codes.200": "ok"}}}"#,
        "SELECT COALESCE(codes[200], codes['200']) AS ok FROM STREAM()",
    );
    check_same(
        r#"{"filters": [{"field": "codes.200", "operation": "!=", "values": [{"kind": "FIELD", "value": "b"}]}]}"#,
        "SELECT * FROM STREAM() WHERE NOT COALESCE(COALESCE(codes[200], codes['200']) = b, FALSE)",
    );
    check(
        r#"{"projection": {"fields": {"a.1.2.3.4": ""}}}"#,
        "1:41: a path has at most 3 parts that are numbers",
    );
}

#[test]
fn whole_numbers_may_be_written_as_fractions() {
    check_same(
        r#"{"duration": 20000.0, "aggregation": {"size": 1e1}}"#,
        "SELECT * FROM STREAM(20000, TIME) LIMIT 10",
    );
    check(r#"{"duration": 0.5}"#, "1:14: a duration must be a whole number above 0");
    check(r#"{"duration": 1e19}"#, "1:14: a duration must be a whole number above 0");
}

#[test]
fn steps_after_the_aggregation_go_in_order() {
    check_same(
        r#"{"aggregation": {"type": "GROUP", "fields": {"a": "k"}, "attributes": {"operations": [
              {"type": "SUM", "field": "b", "newName": "s"}]}},
            "postAggregations": [
              {"type": "ORDERBY", "fields": ["k"]},
              {"type": "COMPUTATION", "newName": "half", "expression": {"operation": "/", "type": "LONG",
                "left": {"value": {"kind": "FIELD", "value": "s"}},
                "right": {"value": {"kind": "VALUE", "value": "2", "type": "INTEGER"}}}},
              {"type": "ORDERBY", "fields": ["half"], "direction": "DESC"}]}"#,
        "SELECT a AS k, SUM(b) AS s, CAST(CAST(SUM(b) AS DOUBLE) / CAST(2L AS INTEGER) AS LONG) AS half FROM STREAM() GROUP BY a \
         ORDER BY half DESC, k",
    );
    check_same(
        r#"{"projection": {"fields": {"a": "x"}}, "postAggregations": [{"type": "ORDERBY", "fields": ["x", "b"]}]}"#,
        "SELECT a AS x FROM STREAM() ORDER BY x, b",
    );
    check_same(
        r#"{"postAggregations": [{"type": "ORDERBY", "direction": "DESC",
              "fields": [{"field": "a", "direction": "ASC"}, "b", {"field": "c"}]}]}"#,
        "SELECT * FROM STREAM() ORDER BY a, b DESC, c DESC",
    );
    check(
        r#"{"postAggregations": [{"type": "ORDERBY", "fields": []}]}"#,
        "1:53: an order has 1 to 64 fields",
    );
}

#[test]
fn a_computation_that_cannot_be_done_leaves_what_was_there() {
    let computed = |projection: &str| {
        format!(
            r#"{{{projection}"postAggregations": [{{"type": "COMPUTATION", "newName": "a",
                 "expression": {{"value": {{"kind": "FIELD", "value": "b", "type": "LONG"}}}}}}]}}"#
        )
    };
    check_same(&computed(""), "SELECT *, COALESCE(CAST(b AS LONG), a) AS a FROM STREAM()");
    check_same(
        &computed(r#""projection": {"fields": {"c": "a"}}, "#),
        "SELECT COALESCE(CAST(b AS LONG), c) AS a FROM STREAM()",
    );
    check_same(
        &computed(r#""projection": {"fields": {"c": "c"}}, "#),
        "SELECT c, CAST(b AS LONG) AS a FROM STREAM()",
    );
}

#[test]
fn windows_and_durations() {
    let window = |emit: &str, include: &str| {
        format!(
            r#"{{"aggregation": {{"type": "GROUP", "attributes": {{"operations": [{{"type": "COUNT"}}]}}}},
                "window": {{"emit": {emit}{include}}}, "duration": 5000}}"#
        )
    };
    check_same(
        &window(r#"{"type": "TIME", "every": 1000}"#, r#", "include": {"type": "TIME", "first": 1000}"#),
        "SELECT COUNT(*) AS \"COUNT\" FROM STREAM(5000, TIME) WINDOWING TUMBLING(1000, TIME)",
    );
    check_same(
        &window(r#"{"type": "TIME", "every": 1000}"#, r#", "include": {"type": "ALL"}"#),
        "SELECT COUNT(*) AS \"COUNT\" FROM STREAM(5000, TIME) WINDOWING EVERY(1000, TIME, ALL)",
    );
    check_same(
        r#"{"window": {"emit": {"type": "RECORD", "every": 1}}}"#,
        "SELECT * FROM STREAM() WINDOWING TUMBLING(1, RECORD)",
    );
    assert_eq!(
        plan_of(&window(r#"{"type": "RECORD", "every": 1}"#, "")).split(": ").last(),
        Some("a window counted in records is for queries without aggregation")
    );
}

#[test]
fn the_schema_tells_places_from_keys() {
    let map_of_maps = Type::parse("MAP[MAP[LONG]]").expect("a type");
    let schema = Schema::new([("m".into(), map_of_maps)]);
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
    let text = r#"{"projection": {"fields": {"m.0.1": "x", "u.0.1": "y"}}}"#;
    let plan = parse_json(text, &options).expect("a query").query;
    let paths: Vec<String> = plan.paths().iter().map(|(path, ty)| format!("{path} {ty}")).collect();
    assert_eq!(paths.join(", "), "m.0.1 LONG, u.0.1 ANY, u.0[1] ANY, u[0].1 ANY, u[0][1] ANY");
}

#[test]
fn faults_tell_their_place() {
    check("", "1:1: this is not JSON: EOF while parsing a value");
    check("{\"filters\": [}", "1:14: this is not JSON: expected value");
    check("[]", "1:1: a query must be an object");
    check("{\"filter\": []}", "1:12: unknown member `filter` of the query's JSON");
    check("{\"duration\": 0}", "1:14: a duration must be a whole number above 0");
    check("{\"filters\": {}}", "1:13: `filters` must be a list");
    check(
        "{\"filters\": [\n {\"field\": \"a\", \"operation\": \"=\", \"values\": []}]}",
        "2:30: no operation `=`",
    );
    check(
        "{\"filters\": [{\"field\": \"a\", \"operation\": \"==\", \"values\": [\"x\", {\"kind\": \"VALUE\"}]}]}",
        "1:58: values are either all plain, or all objects with `kind` and `value`",
    );
    check(
        "{\"filters\": [{\"field\": \"a..b\", \"operation\": \"==\", \"values\": []}]}",
        "1:24: a part of a path cannot be empty",
    );
    check("{\"aggregation\": {\"type\": \"MODE\"}}", "1:26: no aggregation `MODE`");
    check(
        "{\"aggregation\": {\"type\": \"DISTRIBUTION\", \"fields\": {\"a\": \"\"}, \"attributes\": {\"type\": \"QUANTILE\", \
         \"start\": 0, \"end\": 2, \"increment\": 1}}}",
        "1:17: the points of QUANTILE must be from 0 to 1",
    );
    check(
        "{\"postAggregations\": [{\"type\": \"ORDERBY\", \"fields\": [\"z\"]}], \"aggregation\": {\"type\": \"COUNT DISTINCT\", \
         \"fields\": {\"a\": \"\"}}}",
        "1:54: the result has no column `z`",
    );
    let deep = |levels: usize| {
        let clause = r#"{"field": "a", "operation": "==", "values": ["x"]}"#.to_owned();
        let nested =
            (0..levels).fold(clause, |inner, _| format!(r#"{{"operation": "NOT", "clauses": [{inner}]}}"#));
        format!(r#"{{"filters": [{nested}]}}"#)
    };
    assert!(plan_of(&deep(20)).contains("where NOT"), "{}", plan_of(&deep(20)));
    assert!(plan_of(&deep(1000)).contains("filters nest at most 64 deep"));
}

fn json_texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"filters\"",
        "\"field\"",
        "\"a.b\"",
        "\"operation\"",
        "\"==\"",
        "\"values\"",
        "\"clauses\"",
        "\"AND\"",
        "\"NOT\"",
        "\"aggregation\"",
        "\"type\"",
        "\"GROUP\"",
        "\"TOP K\"",
        "\"size\"",
        "5",
        "-1",
        "1e999",
        "null",
        "\"\\u0000\"",
        "\"postAggregations\"",
        "\"window\"",
        "\"emit\"",
        "\"every\"",
        "\"TIME\"",
        " ",
        "ä",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_text_panics(text in json_texts()) {
        // An error or a plan: either will do.
        let _ = parse_json(&text, &ParseOptions::new(Dialect::Native, 0)).map_err(|errors| errors.to_string());
    }
}
