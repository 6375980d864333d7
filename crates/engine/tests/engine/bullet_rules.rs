//! Tests Bullet's rules, one claim per case: its answers that a reader of its manual may not expect. The recorded
//! answers (`bullet_answers.rs`) compare the same engine with Bullet itself; these cases need no recordings.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use swiftwater_engine::{InputError, InputOptions, InputSource, RuntimeError, run_input};
use swiftwater_lang::{Dialect, Schema};
use swiftwater_testkit::TestClock;

/// A query under Bullet's rules.
#[derive(Default)]
struct Ask<'a> {
    bql: &'a str,
    types: Option<&'a str>,
    schema: Option<&'a str>,
    workers: usize,
}

impl Ask<'_> {
    /// Runs it over these records; returns each emit's records, one emit a line. Errors are given with their places.
    fn of(&self, records: &str) -> String {
        let schema = |text: Option<&str>| text.map(|text| Arc::new(Schema::from_json(text).unwrap()));
        let options = InputOptions {
            dialect: Dialect::Bullet,
            types: schema(self.types),
            schema: schema(self.schema),
            workers: self.workers,
            ..InputOptions::default()
        };
        let source = InputSource::Bytes(Bytes::from(records.to_owned()));
        let mut emits = Vec::new();
        let clock = Arc::new(TestClock::at(1_767_225_600_000));
        let ran = run_input(source, self.bql, &options, clock, &mut |_| {}, &mut |emit| {
            let text = String::from_utf8(emit.records.text.to_vec()).unwrap();
            let rows = text.lines().collect::<Vec<_>>().join(" ");
            emits.push(if emit.meta.failure.is_some() { "failed".to_owned() } else { rows });
            ControlFlow::Continue(())
        });
        match ran {
            Ok(_) => emits.join("\n"),
            Err(InputError::Engine(RuntimeError::Query(errors))) => {
                let place = |error: &swiftwater_lang::QueryError| match (error.line, error.column) {
                    (Some(line), Some(column)) => format!("{line}:{column}"),
                    _ => "refused".to_owned(),
                };
                errors.0.iter().map(place).collect::<Vec<_>>().join(" ")
            }
            Err(error) => panic!("{}: {error}", self.bql),
        }
    }
}

/// Checks a query without a schema, with all records of one worker.
fn check(bql: &str, records: &str, expected: &str) {
    let ask = Ask { bql, ..Ask::default() };
    assert_eq!(ask.of(records), expected, "{bql}");
}

/// Checks a query with a schema of these fields, which the records have.
fn check_typed(fields: &str, bql: &str, records: &str, expected: &str) {
    let ask = Ask { bql, types: Some(fields), schema: Some(fields), ..Ask::default() };
    assert_eq!(ask.of(records), expected, "{bql}");
}

fn numbers(count: usize) -> String {
    (0..count).map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

#[test]
fn raw_results_have_at_most_a_hundred_rows() {
    for bql in ["SELECT n FROM STREAM()", "SELECT n FROM STREAM() LIMIT 500"] {
        let answer = Ask { bql, ..Ask::default() }.of(&numbers(150));
        assert_eq!(answer.matches("{\"n\":").count(), 100, "{bql}");
        assert!(answer.ends_with("{\"n\":99}"), "the first ones: {answer}");
    }
    let bql = "SELECT n FROM STREAM() WINDOWING TUMBLING(1000, TIME)";
    let answer = Ask { bql, ..Ask::default() }.of(&numbers(150));
    assert_eq!(answer.matches("{\"n\":").count(), 100);
}

#[test]
fn first_rows_are_taken_and_then_sorted() {
    check("SELECT n FROM STREAM() ORDER BY n LIMIT 2", "{\"n\":3}{\"n\":2}{\"n\":1}", "{\"n\":2} {\"n\":3}");
}

#[test]
fn nulls_come_first_ascending_and_last_descending() {
    let records = "{\"n\":1,\"s\":\"a\"}{\"s\":\"b\"}{\"n\":0,\"s\":\"c\"}";
    check("SELECT s FROM STREAM() ORDER BY n", records, "{\"s\":\"b\"} {\"s\":\"c\"} {\"s\":\"a\"}");
    check("SELECT s FROM STREAM() ORDER BY n DESC", records, "{\"s\":\"a\"} {\"s\":\"c\"} {\"s\":\"b\"}");
    check("SELECT s FROM STREAM() ORDER BY 1 / n", records, "{\"s\":\"b\"} {\"s\":\"c\"} {\"s\":\"a\"}");
}

#[test]
fn records_are_dealt_to_workers_one_by_one() {
    let check = |bql: &str, workers: usize, expected: &str| {
        assert_eq!(Ask { bql, workers, ..Ask::default() }.of(&numbers(7)), expected, "{bql}, {workers}");
    };
    let rows = |rows: &[usize]| rows.iter().map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>().join(" ");
    check("SELECT n FROM STREAM()", 1, &rows(&[0, 1, 2, 3, 4, 5, 6]));
    check("SELECT n FROM STREAM()", 3, &rows(&[0, 3, 6, 1, 4, 2, 5]));
    check("SELECT n FROM STREAM() LIMIT 2", 3, &rows(&[0, 3]));
    check("SELECT n FROM STREAM() WHERE n > 0 LIMIT 2", 3, &rows(&[1, 4]));
    check("SELECT n FROM STREAM() LIMIT 4", 3, &rows(&[0, 3, 6, 1]));
    check("SELECT n FROM STREAM() LIMIT 2 ", 9, &rows(&[0, 1]));
    // A window waits for its end, however much its workers hold.
    check("SELECT n FROM STREAM() WINDOWING TUMBLING(1000, TIME) LIMIT 4", 2, &rows(&[0, 2, 4, 6]));
    // Windows by record take each match as it comes.
    let by_record = format!("{}\n{}\n{}", rows(&[0, 1, 2]), rows(&[3, 4, 5]), rows(&[6]));
    check("SELECT n FROM STREAM() WINDOWING TUMBLING(3, RECORD)", 3, &by_record);
    check("SELECT COUNT(*) AS c FROM STREAM()", 3, "{\"c\":7}");
}

#[test]
fn windows_by_record_end_with_what_is_left() {
    check(
        "SELECT n FROM STREAM() WINDOWING EVERY(2, RECORD, FIRST, 2, RECORD)",
        &numbers(4),
        "{\"n\":0} {\"n\":1}\n{\"n\":2} {\"n\":3}\n",
    );
    // LIMIT drops the rest of each window, which still counts all.
    check(
        "SELECT n FROM STREAM() WINDOWING TUMBLING(3, RECORD) LIMIT 2",
        &numbers(5),
        "{\"n\":0} {\"n\":1}\n{\"n\":3} {\"n\":4}",
    );
    check("SELECT n FROM STREAM() WINDOWING TUMBLING(3, RECORD)", "", "");
}

#[test]
fn windows_that_cannot_be_are_refused() {
    for window in [
        "EVERY(5, TIME, FIRST, 4, TIME)",
        "EVERY(5, TIME, FIRST, 5, RECORD)",
        "EVERY(5, RECORD, FIRST, 3, RECORD)",
        "EVERY(5, RECORD, ALL)",
        "EVERY(5000, TIME, ALL)",
        "TUMBLING(0, TIME)",
        "EVERY(0, RECORD, FIRST, 0, RECORD)",
        // Those are not Bullet's.
        "EVERY(1000, TIME, LAST, 5000, TIME)",
        "SESSION(1000, TIME)",
    ] {
        let bql = format!("SELECT n FROM STREAM() WINDOWING {window}");
        let answer = Ask { bql: &bql, ..Ask::default() }.of("");
        assert!(answer.starts_with("refused") || answer.starts_with("1:"), "{bql}: {answer}");
    }
    let bql = "SELECT COUNT(*) FROM STREAM() WINDOWING TUMBLING(5, RECORD)";
    assert!(!Ask { bql, ..Ask::default() }.of("").contains('{'));
    // All but RAW may have everything since the start.
    check("SELECT COUNT(*) FROM STREAM() WINDOWING EVERY(5000, TIME, ALL)", "{}{}", "{\"COUNT(*)\":2}");
}

#[test]
fn one_group_of_all_is_there_without_any_record() {
    check(
        "SELECT COUNT(*), SUM(n), MIN(n), MAX(n), AVG(n) FROM STREAM()",
        "",
        "{\"COUNT(*)\":0,\"SUM(n)\":null,\"MIN(n)\":null,\"MAX(n)\":null,\"AVG(n)\":null}",
    );
    check("SELECT k, COUNT(*) FROM STREAM() GROUP BY k", "", "");
    check("SELECT DISTINCT k FROM STREAM()", "", "");
    // LIMIT and ORDER BY are let pass, and change nothing.
    check("SELECT COUNT(*) FROM STREAM() LIMIT 5", "{}", "{\"COUNT(*)\":1}");
}

#[test]
fn aggregates_take_what_can_be_read_as_a_number_and_are_doubles() {
    let records = "{\"v\":1}{\"v\":\" 2.5 \"}{\"v\":\"x\"}{\"v\":true}{}{\"v\":[1]}";
    check(
        "SELECT SUM(v) AS s, MIN(v) AS a, MAX(v) AS b, AVG(v) AS m, COUNT(*) AS n FROM STREAM()",
        records,
        "{\"s\":4.5,\"a\":1.0,\"b\":2.5,\"m\":1.5,\"n\":6}",
    );
}

#[test]
fn keys_of_groups_are_text() {
    let records = "{\"k\":1}{\"k\":\"1\"}{\"k\":true}{}{\"k\":\"null\"}{\"k\":1.5}";
    check(
        "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k ORDER BY k",
        records,
        "{\"k\":\"1\",\"n\":2} {\"k\":\"1.5\",\"n\":1} {\"k\":\"null\",\"n\":2} {\"k\":\"true\",\"n\":1}",
    );
    let numbers = "{\"k\":10}{\"k\":9}{\"k\":100}";
    check(
        "SELECT k FROM STREAM() GROUP BY k ORDER BY k",
        numbers,
        "{\"k\":\"10\"} {\"k\":\"100\"} {\"k\":\"9\"}",
    );
    check("SELECT k FROM STREAM() GROUP BY k HAVING k > 5", numbers, "");
    check(
        "SELECT CAST(k AS INTEGER) AS c FROM STREAM() GROUP BY k ORDER BY c",
        numbers,
        "{\"c\":9} {\"c\":10} {\"c\":100}",
    );
    // Text that is joined by | is one key; the first one is shown.
    let joined = "{\"a\":\"a|b\",\"b\":\"c\"}{\"a\":\"a\",\"b\":\"b|c\"}";
    check(
        "SELECT a, b, COUNT(*) AS n FROM STREAM() GROUP BY a, b",
        joined,
        "{\"a\":\"a|b\",\"b\":\"c\",\"n\":2}",
    );
    // A list or map is no key, and its record is passed over.
    check(
        "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k",
        "{\"k\":[1]}{\"k\":{\"a\":1}}{\"k\":2}",
        "{\"k\":\"2\",\"n\":1}",
    );
    // A number is a constant, not a place.
    check("SELECT COUNT(*) AS n FROM STREAM() GROUP BY 1", numbers, "{\"n\":3}");
}

#[test]
fn distinct_values_are_counted_as_text() {
    let records = "{\"v\":1}{\"v\":\"1\"}{}{\"v\":\"null\"}{\"v\":2}";
    check("SELECT COUNT(DISTINCT v) FROM STREAM()", records, "{\"COUNT(DISTINCT v)\":3}");
    check(
        "SELECT COUNT(DISTINCT a, b) AS n FROM STREAM()",
        "{\"a\":\"a|b\",\"b\":\"c\"}{\"a\":\"a\",\"b\":\"b|c\"}",
        "{\"n\":1}",
    );
    check("SELECT COUNT(DISTINCT v) AS n FROM STREAM()", "", "{\"n\":0}");
    check("SELECT COUNT(DISTINCT v) FROM STREAM() LIMIT 5", "", "refused");
}

#[test]
fn distributions_name_points_and_ranges() {
    let records = "{\"v\":5}{\"v\":10}{\"v\":15}{\"v\":20}";
    check(
        "SELECT FREQ(v, MANUAL, 10, 20) FROM STREAM()",
        records,
        "{\"Range\":\"(-∞ to 10.0)\",\"Probability\":0.25,\"Count\":1.0} {\"Range\":\"[10.0 to 20.0)\",\"Probability\":0.5,\"Count\":2.0} {\"Range\":\"[20.0 to +∞)\",\"Probability\":0.25,\"Count\":1.0}",
    );
    check(
        "SELECT CUMFREQ(v, MANUAL, 20, 10, 10) FROM STREAM()",
        records,
        "{\"Range\":\"(-∞ to 10.0)\",\"Probability\":0.25,\"Count\":1.0} {\"Range\":\"(-∞ to 20.0)\",\"Probability\":0.75,\"Count\":3.0} {\"Range\":\"(-∞ to +∞)\",\"Probability\":1.0,\"Count\":4.0}",
    );
    check(
        "SELECT QUANTILE(v, LINEAR, 3) FROM STREAM()",
        "",
        "{\"Quantile\":0.0,\"Value\":\"Infinity\"} {\"Quantile\":0.5,\"Value\":\"NaN\"} {\"Quantile\":1.0,\"Value\":\"-Infinity\"}",
    );
    check(
        "SELECT QUANTILE(v, REGION, 0, 1, 0.4) FROM STREAM()",
        "{\"v\":7}",
        "{\"Quantile\":0.0,\"Value\":7.0} {\"Quantile\":0.4,\"Value\":7.0} {\"Quantile\":0.8,\"Value\":7.0}",
    );
    check(
        "SELECT QUANTILE(v, LINEAR, 3) FROM STREAM() LIMIT 2",
        "{\"v\":7}",
        "{\"Quantile\":0.0,\"Value\":7.0} {\"Quantile\":1.0,\"Value\":7.0}",
    );
}

#[test]
fn distributions_that_cannot_be_are_refused() {
    for points in [
        "LINEAR, 0",
        "LINEAR, -3",
        "REGION, 5, 5, 1",
        "REGION, 0, 1, 0",
        "REGION, 0, 2, 0.5",
        "MANUAL, -1, 0.5",
    ] {
        let bql = format!("SELECT QUANTILE(v, {points}) FROM STREAM()");
        let answer = Ask { bql: &bql, ..Ask::default() }.of("");
        assert!(!answer.contains('{') && !answer.is_empty(), "{bql}: {answer}");
    }
}

#[test]
fn most_frequent_are_told_with_their_keys_as_text() {
    let records = "{\"k\":1}{\"k\":1}{\"k\":\"b\"}{}{\"k\":1}{\"k\":\"b\"}";
    check(
        "SELECT TOP(5, k) FROM STREAM()",
        records,
        "{\"k\":\"1\",\"Count\":3} {\"k\":\"b\",\"Count\":2} {\"k\":\"null\",\"Count\":1}",
    );
    check("SELECT TOP(1, k) AS n FROM STREAM()", records, "{\"k\":\"1\",\"n\":3}");
    check(
        "SELECT TOP(5, 2, k) FROM STREAM()",
        records,
        "{\"k\":\"1\",\"Count\":3} {\"k\":\"b\",\"Count\":2}",
    );
    // The joined text is cut where it has a |.
    check(
        "SELECT TOP(5, a, b) FROM STREAM()",
        "{\"a\":\"x|y\",\"b\":\"z\"}",
        "{\"a\":\"x\",\"b\":\"y\",\"Count\":1}",
    );
    check("SELECT TOP(5, k) FROM STREAM() ORDER BY k", records, "refused");
    check("SELECT TOP(5, k) FROM STREAM() LIMIT 5", records, "refused");
}

#[test]
fn biggest_groups_are_run_as_top() {
    let records = "{\"k\":1}{\"k\":1}{\"k\":2}{\"k\":1}{\"k\":2}{\"k\":3}";
    let bql =
        "SELECT k, COUNT(*) FROM STREAM() GROUP BY k HAVING COUNT(*) >= 2.9 ORDER BY COUNT(*) DESC LIMIT 5";
    check(bql, records, "{\"k\":\"1\",\"COUNT(*)\":3} {\"k\":\"2\",\"COUNT(*)\":2}");
    // Without LIMIT they are groups, and exact.
    let bql = "SELECT k, COUNT(*) FROM STREAM() GROUP BY k HAVING COUNT(*) >= 2.9 ORDER BY COUNT(*) DESC";
    check(bql, records, "{\"k\":\"1\",\"COUNT(*)\":3}");
}

#[test]
fn columns_that_cannot_be_had_are_left_out() {
    check("SELECT n, 1 / n AS q, x FROM STREAM()", "{\"n\":0}{\"n\":1}", "{\"n\":0} {\"n\":1,\"q\":1}");
    check("SELECT l[5] AS v, n FROM STREAM()", "{\"l\":[1],\"n\":1}", "{\"n\":1}");
    check("SELECT n FROM STREAM() WHERE l[5] IS NULL", "{\"l\":[1],\"n\":1}{\"n\":2}", "{\"n\":2}");
    check("SELECT n FROM STREAM() WHERE m.k IS NULL", "{\"m\":{\"a\":1},\"n\":1}", "{\"n\":1}");
    check("SELECT n FROM STREAM() WHERE n / 0 = 1 OR n = 1", "{\"n\":1}", "");
}

#[test]
fn bare_not_binds_tightest() {
    check("SELECT n FROM STREAM() WHERE NOT n = 1", "", "1:30");
    check(
        "SELECT n FROM STREAM() WHERE NOT n = m",
        "{\"n\":1,\"m\":false}{\"n\":0,\"m\":false}",
        "{\"n\":1}",
    );
    check("SELECT n FROM STREAM() WHERE NOT (n = 1)", "{\"n\":1}{\"n\":0}", "{\"n\":0}");
    check_typed("{\"n\":\"INTEGER\"}", "SELECT n FROM STREAM() WHERE NOT n = 1", "", "1:30");
}

#[test]
fn every_item_beside_a_star_renames() {
    check("SELECT *, a AS b FROM STREAM()", "{\"a\":1,\"c\":2}", "{\"c\":2,\"b\":1}");
    check("SELECT *, a AS b, a FROM STREAM()", "{\"a\":1}", "{\"a\":1,\"b\":1}");
    check("SELECT *, a + 1 AS b FROM STREAM()", "{\"a\":1}", "{\"a\":1,\"b\":2}");
}

#[test]
fn item_beside_a_star_renames_a_column_of_a_lateral_view() {
    let records = "{\"n\":1,\"l\":[7,8]}";
    let of = |items: &str| format!("SELECT {items} FROM STREAM() LATERAL VIEW EXPLODE(l) AS x");
    let event = "\"n\":1,\"l\":[7,8]";
    check(&of("*, x AS y"), records, &format!("{{{event},\"y\":7}} {{{event},\"y\":8}}"));
    check(&of("*, x AS y, x"), records, &format!("{{{event},\"x\":7,\"y\":7}} {{{event},\"x\":8,\"y\":8}}"));
    check(&of("*, x + 1 AS y"), records, &format!("{{{event},\"x\":7,\"y\":8}} {{{event},\"x\":8,\"y\":9}}"));
    check(&of("*, x : LONG AS l, l AS x"), "{\"l\":[7]}", "{\"x\":[7],\"l\":7}");
    check(&of("*, x AS n"), records, "{\"l\":[7,8],\"n\":7} {\"l\":[7,8],\"n\":8}");
    // The row has one `x`, whichever of the event and the view it is from.
    check(&of("*, x AS y"), "{\"l\":[7],\"x\":1}", "{\"l\":[7],\"y\":7}");
    let outer = "SELECT *, x AS y FROM STREAM() LATERAL VIEW OUTER EXPLODE(l) AS x";
    check(outer, "{\"l\":[],\"x\":1}", "{\"l\":[],\"y\":1}");
    let map = "SELECT *, v AS w FROM STREAM() LATERAL VIEW EXPLODE(m) AS (k, v) WHERE v > 1 ORDER BY v DESC";
    check(map, "{\"m\":{\"a\":2}}", "{\"m\":{\"a\":2},\"k\":\"a\",\"w\":2}");
    let chain =
        "SELECT *, v AS w FROM STREAM() LATERAL VIEW EXPLODE(l) AS m LATERAL VIEW EXPLODE(m) AS (k, v)";
    check(chain, "{\"l\":[{\"a\":2}]}", "{\"l\":[{\"a\":2}],\"m\":{\"a\":2},\"k\":\"a\",\"w\":2}");
    let whole = "SELECT y FROM (SELECT *, x AS y FROM STREAM() LATERAL VIEW EXPLODE(l) AS x)";
    check(whole, records, "{\"y\":7} {\"y\":8}");
}

#[test]
fn views_explode_before_where() {
    let records = "{\"n\":1,\"l\":[1,2]}{\"n\":2,\"l\":[]}{\"n\":3}{\"n\":4,\"l\":[null]}";
    check(
        "SELECT n, x FROM STREAM() LATERAL VIEW EXPLODE(l) AS x",
        records,
        "{\"n\":1,\"x\":1} {\"n\":1,\"x\":2} {\"n\":4}",
    );
    check(
        "SELECT n, x FROM STREAM() LATERAL VIEW OUTER EXPLODE(l) AS x",
        records,
        "{\"n\":1,\"x\":1} {\"n\":1,\"x\":2} {\"n\":2} {\"n\":3} {\"n\":4}",
    );
    check("SELECT n FROM STREAM() LATERAL VIEW EXPLODE(l) AS x WHERE x > 1", records, "{\"n\":1}");
    check(
        "SELECT * FROM STREAM() LATERAL VIEW EXPLODE(m) AS (k, v)",
        "{\"m\":{\"a\":1}}",
        "{\"m\":{\"a\":1},\"k\":\"a\",\"v\":1}",
    );
    // A new column hides a field of its name where it is not null.
    check("SELECT n FROM STREAM() LATERAL VIEW EXPLODE(l) AS n", records, "{\"n\":1} {\"n\":2} {\"n\":4}");
    check("SELECT EXPLODE(l) AS x FROM STREAM()", records, "{\"x\":1} {\"x\":2} {}");
    check(
        "SELECT x, y FROM STREAM() LATERAL VIEW EXPLODE(l) AS x LATERAL VIEW EXPLODE(l) AS y",
        "{\"l\":[1,2]}",
        "{\"x\":1,\"y\":1} {\"x\":1,\"y\":2} {\"x\":2,\"y\":1} {\"x\":2,\"y\":2}",
    );
}

#[test]
fn outer_queries_look_at_each_result_afresh() {
    let records = numbers(5);
    check(
        "SELECT COUNT(*) FROM (SELECT n FROM STREAM() WINDOWING TUMBLING(3, RECORD))",
        &records,
        "{\"COUNT(*)\":3}\n{\"COUNT(*)\":2}",
    );
    check("SELECT n + 1 AS m FROM (SELECT n FROM STREAM()) WHERE n > 2 LIMIT 1", &records, "{\"m\":4}");
    check(
        "SELECT SUM(c) AS s FROM (SELECT k, COUNT(*) AS c FROM STREAM() GROUP BY k)",
        "{\"k\":1}{\"k\":2}{\"k\":1}",
        "{\"s\":3.0}",
    );
    check("SELECT * FROM (SELECT COUNT(*) FROM STREAM() GROUP BY k)", "", "");
}

#[test]
fn kinds_of_queries_do_not_mix() {
    for bql in [
        "SELECT DISTINCT * FROM STREAM()",
        "SELECT *, COUNT(*) FROM STREAM()",
        "SELECT DISTINCT c FROM STREAM() GROUP BY c",
        "SELECT COUNT(DISTINCT c), COUNT(*) FROM STREAM()",
        "SELECT TOP(1, c), TOP(1, d) FROM STREAM()",
        "SELECT COUNT(DISTINCT c) FROM STREAM() HAVING c > 1",
        "SELECT a AS x, a AS y FROM STREAM()",
        "SELECT a AS x, b AS x FROM STREAM()",
        "SELECT a FROM STREAM() LIMIT 0",
        "SELECT a FROM STREAM(0, TIME)",
        "SELECT SUM(SUM(a)) FROM STREAM()",
        "SELECT a FROM STREAM() WHERE SUM(a) > 1",
        "SELECT TOP(1, c) + 1 FROM STREAM()",
    ] {
        let answer = Ask { bql, ..Ask::default() }.of("{}");
        assert!(!answer.contains('{') && !answer.is_empty(), "{bql}: {answer}");
    }
}

#[test]
fn schema_turns_checks_on_and_types_tell_what_records_hold() {
    let fields = "{\"i\":\"INTEGER\",\"s\":\"STRING\",\"im\":\"MAP[INTEGER]\",\"f\":\"FLOAT\"}";
    let records = "{\"i\":1,\"s\":\"a\",\"im\":{\"k\":1},\"f\":0.1}";
    check_typed(fields, "SELECT s FROM STREAM() WHERE s = 5", records, "1:30");
    check_typed(fields, "SELECT nope FROM STREAM()", records, "1:8");
    check_typed(fields, "SELECT s FROM STREAM() WHERE CONTAINSVALUE(im, 1L)", records, "1:30");
    check("SELECT s FROM STREAM() WHERE CONTAINSVALUE(im, 1L)", records, "{\"s\":\"a\"}");
    check_typed(fields, "SELECT s FROM STREAM() WHERE SIZEIS(s, 1L)", records, "");
    check_typed(fields, "SELECT s FROM STREAM() WHERE SIZEIS(s, 1)", records, "{\"s\":\"a\"}");
    check_typed(fields, "SELECT i FROM STREAM() WHERE i = NULL", records, "1:30");
    check("SELECT i FROM STREAM() WHERE i = NULL", records, "");
    // A float is narrower than the number it is compared with.
    check_typed(fields, "SELECT i FROM STREAM() WHERE f = 0.1", records, "");
    check("SELECT i FROM STREAM() WHERE f = 0.1", records, "{\"i\":1}");
    // A hint converts nothing.
    check("SELECT i : STRING FROM STREAM()", records, "{\"i\":1}");
}

#[test]
fn texts_are_ordered_and_measured_by_utf16_units() {
    let records = "{\"s\":\"\u{ff5e}\"}{\"s\":\"\u{1f600}\"}";
    check("SELECT SIZEOF(s) AS n FROM STREAM() ORDER BY s", records, "{\"n\":2} {\"n\":1}");
    check("SELECT SIZEOF(s) AS n FROM STREAM() GROUP BY s ORDER BY s", records, "{\"n\":2} {\"n\":1}");
}

#[test]
fn rows_that_cannot_be_sorted_are_no_result() {
    let records = "{\"n\":1,\"v\":1}{\"n\":2,\"v\":\"a\"}";
    check("SELECT n FROM STREAM() ORDER BY v", records, "failed");
    check("SELECT n FROM STREAM() ORDER BY m", "{\"n\":1,\"m\":{}}{\"n\":2,\"m\":{}}", "failed");
    check("SELECT n FROM STREAM() ORDER BY n, v", records, "{\"n\":1} {\"n\":2}");
    check("SELECT n FROM STREAM() ORDER BY v", "{\"n\":1,\"v\":[]}", "{\"n\":1}");
    check(
        "SELECT n FROM STREAM() ORDER BY v",
        "{\"n\":1,\"v\":1}{\"n\":2}{\"n\":3,\"v\":-0.5}",
        "{\"n\":2} {\"n\":3} {\"n\":1}",
    );
}

#[test]
fn points_that_cannot_be_are_found_when_the_result_is_made() {
    check("SELECT QUANTILE(a, MANUAL, 2, -1) FROM STREAM()", r#"{"a": 1}"#, "failed");
    check("SELECT QUANTILE(a, MANUAL, 0.5, 5, 1) FROM STREAM()", "", "failed");
    // The points that LIMIT leaves are fine.
    let row = r#"{"Quantile":0.5,"Value":1.0}"#;
    check("SELECT QUANTILE(a, MANUAL, 0.5, 5, 1) FROM STREAM() LIMIT 1", r#"{"a": 1}"#, row);
    let infinite = r#"{"a": "Infinity"} {"a": "-Infinity"}"#;
    check("SELECT FREQ(a, LINEAR, 3) FROM STREAM()", infinite, "failed");
}

#[test]
fn points_are_added_up_and_rounded_as_decimal_numbers() {
    let rows = concat!(
        r#"{"Range":"(-∞ to 0.0)","Probability":0.0,"Count":0.0} "#,
        r#"{"Range":"[0.0 to +∞)","Probability":1.0,"Count":1.0}"#
    );
    check("SELECT FREQ(a, LINEAR, 2) FROM STREAM()", r#"{"a": -0.0}"#, rows);
}

#[test]
fn a_null_that_was_cast_cannot_be_ordered() {
    let records = r#"{"a": 1, "k": 1} {"k": 2}"#;
    check("SELECT k FROM STREAM() ORDER BY CAST(a AS LONG)", records, "failed");
    // A column that a record holds has lost its type again, and so has what could not be cast.
    let rows = r#"{"q":null} {"q":1}"#.replace(r#"{"q":null}"#, "{}");
    check("SELECT CAST(a AS LONG) AS q FROM STREAM() ORDER BY q", records, &rows);
    check("SELECT k FROM STREAM() ORDER BY CAST(a AS LONG) + 1", records, r#"{"k":2} {"k":1}"#);
    check("SELECT k FROM STREAM() ORDER BY k, CAST(a AS LONG)", records, r#"{"k":1} {"k":2}"#);
}

#[test]
fn an_outer_query_of_a_failed_result_has_no_records() {
    let bql = "SELECT COUNT(*) FROM (SELECT a FROM STREAM() ORDER BY b)";
    check(bql, r#"{"b": 1} {"b": "x"}"#, "failed");
}

#[test]
fn a_column_has_one_name() {
    let grouped = r#"{"k":"1","COUNT(*)":1}"#;
    check("SELECT a AS k, COUNT(*), k AS z FROM STREAM() GROUP BY a", r#"{"a": 1}"#, grouped);
    let ranges = "SELECT CUMFREQ(a, MANUAL, 2), \"Range\" AS x, \"Count\" + 1 AS y FROM STREAM()";
    let rows = concat!(
        r#"{"Range":"(-∞ to 2.0)","Probability":1.0,"Count":1.0,"y":2.0} "#,
        r#"{"Range":"(-∞ to +∞)","Probability":1.0,"Count":1.0,"y":2.0}"#
    );
    check(ranges, r#"{"a": 1}"#, rows);
    // A constant that is grouped by is a key like any other.
    check("SELECT 1, COUNT(*) FROM STREAM() GROUP BY 1", r#"{"a": 1}"#, r#"{"1":"1","COUNT(*)":1}"#);
}

#[test]
fn an_outer_query_finds_columns_by_the_text_of_what_they_are() {
    let records = r#"{"a": 5} {"a": 7}"#;
    let both = r#"{"a":5} {"a":7}"#;
    check("SELECT a FROM (SELECT a AS b FROM STREAM())", records, both);
    check(
        "SELECT \"a + 1\" * 2 AS q FROM (SELECT a + 1 AS b FROM STREAM())",
        records,
        r#"{"q":12} {"q":16}"#,
    );
    check("SELECT b FROM (SELECT a AS b FROM STREAM()) WHERE a = 5", records, r#"{"b":5}"#);
    // Fields alone are read from the records under the names that are written.
    check("SELECT SUM(a) FROM (SELECT a AS b FROM STREAM())", records, r#"{"SUM(a)":null}"#);
    check("SELECT SUM(a + 0) AS s FROM (SELECT a AS b FROM STREAM())", records, r#"{"s":12.0}"#);
    check(
        "SELECT a, COUNT(*) FROM (SELECT a AS b FROM STREAM()) GROUP BY a",
        records,
        r#"{"a":"null","COUNT(*)":2}"#,
    );
    check("SELECT b FROM (SELECT a AS b FROM STREAM()) ORDER BY a DESC", records, r#"{"b":5} {"b":7}"#);
}

#[test]
fn the_automatic_top_goes_by_the_name_of_the_count() {
    let records = r#"{"a": 1} {"a": 1} {"a": 2}"#;
    let having = |order: &str| {
        let bql = format!(
            "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a HAVING COUNT(*) >= 1.5 ORDER BY {order} DESC LIMIT 5"
        );
        Ask { bql: &bql, ..Ask::default() }.of(records)
    };
    // Its threshold is cut to 1.
    assert_eq!(having("n"), r#"{"a":"1","n":2} {"a":"2","n":1}"#);
    assert_eq!(having("COUNT(*)"), r#"{"a":"1","n":2} {"a":"2","n":1}"#);
    // Not the name that it has: an exact query.
    assert_eq!(having("\"COUNT(*)\""), r#"{"a":"1","n":2}"#);
}
