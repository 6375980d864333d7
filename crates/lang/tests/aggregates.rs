//! Tests of aggregates: distinct values, distributions, frequent items; filters; Bullet's automatic TOP.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{NOW, both, bullet, native, show};
use swiftwater_lang::{Dialect, ParseOptions, Schema, parse};

#[test]
fn distinct_values() {
    both(
        "SELECT COUNT(DISTINCT a, b + 1) + 1 AS n FROM STREAM()",
        "aggregates #0 = COUNT(DISTINCT a, b + 1) | columns n = #0 + 1",
    );
    native(
        "SELECT k, COUNT(DISTINCT a), SUM(a) FROM STREAM() GROUP BY k ORDER BY COUNT(DISTINCT a) LIMIT 1",
        "keys #0 = k | aggregates #1 = COUNT(DISTINCT a), #2 = SUM(a) \
         | columns k = #0, COUNT(DISTINCT a) = #1, SUM(a) = #2 | order by #1 | limit 1",
    );
    bullet(
        "SELECT k, COUNT(DISTINCT a), SUM(a) FROM STREAM() GROUP BY k ORDER BY COUNT(DISTINCT a) LIMIT 1",
        "the query is of several kinds at once; ORDER BY and COUNT(DISTINCT …) do not go together; \
         LIMIT and COUNT(DISTINCT …) do not go together",
    );
    native(
        "SELECT APPROX_DISTINCT(a) FROM STREAM()",
        "aggregates #0 = COUNT(DISTINCT a) | columns COUNT(DISTINCT a) = #0",
    );
    bullet("SELECT APPROX_DISTINCT(a) FROM STREAM()", "1:23: no function `APPROX_DISTINCT`");
    native("SELECT SUM(DISTINCT a) FROM STREAM()", "1:8: SUM(DISTINCT …) is not supported yet");
    bullet("SELECT SUM(DISTINCT a) FROM STREAM()", "1:12: expected an expression, found `DISTINCT`");
}

#[test]
fn percentiles() {
    native(
        "SELECT APPROX_MEDIAN(a), approx_percentile_cont(a, 0.95) AS p FROM STREAM()",
        "aggregates #0 = APPROX_PERCENTILE_CONT(a) at 0.5, #1 = APPROX_PERCENTILE_CONT(a) at 0.95 \
         | columns APPROX_PERCENTILE_CONT(a, 0.5) = #0, p = #1",
    );
    native("SELECT APPROX_PERCENTILE_CONT(a, 95) FROM STREAM()", "1:34: a percentile must be from 0 to 1");
}

#[test]
fn what_depends_on_the_order_of_events() {
    native(
        "SELECT k, FIRST(a), last(a + 1) AS l, ARG_MIN(a, b), MAX_BY(a, b) AS m FROM STREAM() GROUP BY k",
        "keys #0 = k | aggregates #1 = FIRST(a), #2 = LAST(a + 1), #3 = ARG_MIN(a, b), #4 = ARG_MAX(a, b) \
         | columns k = #0, FIRST(a) = #1, l = #2, ARG_MIN(a, b) = #3, m = #4",
    );
    native(
        "SELECT COLLECT_LIST(a), ARRAY_AGG(a, 5), COLLECT_SET(a, 10000) FILTER (WHERE b) FROM STREAM()",
        "aggregates #0 = COLLECT_LIST(a) of at most 1000, #1 = COLLECT_LIST(a) of at most 5, \
         #2 = COLLECT_SET(a) of at most 10000 where b | columns COLLECT_LIST(a, 1000) = #0, COLLECT_LIST(a, 5) = #1, \
         COLLECT_SET(a, 10000) FILTER (WHERE b) = #2",
    );
    native(
        "SELECT LAST(*) AS event, FIRST(*) FILTER (WHERE a) FROM STREAM()",
        "aggregates #0 = LAST(*), #1 = FIRST(*) where a | columns event = #0, FIRST(*) FILTER (WHERE a) = #1",
    );
    native("SELECT COLLECT_SET(*) FROM STREAM()", "1:20: expected an expression, found `*`");
    // Words of the language all the same, and names of fields.
    native("SELECT first, last FROM STREAM()", "columns first = \"first\", last = \"last\"");
    native(
        "SELECT COLLECT_SET(a, 0) FROM STREAM()",
        "1:23: the number of values that are collected must be above 0",
    );
    native("SELECT COLLECT_SET(a, 10001) FROM STREAM()", "1:23: at most 10000 values can be collected");
    native("SELECT COLLECT_SET(a, b) FROM STREAM()", "1:23: expected a whole number, found `b`");
    native("SELECT ARG_MIN(a) FROM STREAM()", "1:17: expected `,`, found `)`");
    native("SELECT FIRST(MAX(a)) FROM STREAM()", "1:14: an aggregate is not allowed inside an aggregate");
    bullet("SELECT LAST(a) FROM STREAM()", "1:12: no function `LAST`");
}

#[test]
fn filters() {
    native(
        "SELECT COUNT(*) FILTER (WHERE a > 1), SUM(b) FILTER (WHERE c) AS s FROM STREAM()",
        "aggregates #0 = COUNT(*) where a > 1, #1 = SUM(b) where c \
         | columns COUNT(*) FILTER (WHERE a > 1) = #0, s = #1",
    );
    native(
        "SELECT COUNT(*) FILTER (WHERE SUM(a) > 1) FROM STREAM()",
        "1:31: an aggregate is not allowed inside an aggregate",
    );
    native("SELECT TOP(5, a) FILTER (WHERE b) FROM STREAM()", "1:18: FILTER is for aggregates of one value");
    bullet("SELECT COUNT(*) FILTER (WHERE a) FROM STREAM()", "1:17: expected `,` or FROM, found `FILTER`");
}

#[test]
fn distributions() {
    both(
        "SELECT QUANTILE(a, LINEAR, 5), Value + 1 AS v FROM STREAM()",
        "rows #0 to #1 = QUANTILE(a, 5 points) | columns Quantile = #0, Value = #1, v = #1 + 1",
    );
    both(
        "SELECT freq(a + 1, region, -1, 2.5, 5e-1f) FROM STREAM() ORDER BY Count",
        "rows #0 to #2 = FREQ(a + 1, -1 to 2.5 by 0.5) | columns Range = #0, Probability = #1, Count = #2 | order by #2",
    );
    both(
        "SELECT CUMFREQ(a, MANUAL, 3, 1, 3L, 2.5) FROM STREAM()",
        "rows #0 to #2 = CUMFREQ(a, [1.0, 2.5, 3.0]) | columns Range = #0, Probability = #1, Count = #2",
    );
    native(
        "SELECT k, QUANTILE(a, LINEAR, 3), COUNT(*) FROM STREAM() GROUP BY k ORDER BY Value, COUNT(*)",
        "keys #0 = k | aggregates #1 = COUNT(*) | rows #2 to #3 = QUANTILE(a, 3 points) \
         | columns k = #0, Quantile = #2, Value = #3, COUNT(*) = #1 | order by #3, #1",
    );
    native(
        "SELECT QUANTILE(a, LINEAR, 3), Value AS v, Quantile FROM STREAM()",
        "rows #0 to #1 = QUANTILE(a, 3 points) | columns Value = #1, v = #1, Quantile = #0",
    );
    let of_points = |points: &str, fault: &str| {
        let text = format!("SELECT QUANTILE(a, {points}) FROM STREAM()");
        native(&text, &format!("1:8: {fault}"));
        bullet(&text, fault);
    };
    of_points("REGION, 0.5, 0.1, 0.1", "the first point must be less than the last, and the step above 0");
    of_points("REGION, 0.1, 0.5, 0", "the first point must be less than the last, and the step above 0");
    of_points("REGION, 0, 2, 0.5", "the points of QUANTILE must be from 0 to 1");
    of_points("MANUAL, -1", "the points of QUANTILE must be from 0 to 1");
    native(
        "SELECT QUANTILE(a, MANUAL, 2, -1) FROM STREAM()",
        "1:8: the points of QUANTILE must be from 0 to 1",
    );
    bullet(
        "SELECT QUANTILE(a, MANUAL, 2, -1) FROM STREAM()",
        "rows #0 to #1 = QUANTILE(a, [-1.0, 2.0]) | columns Quantile = #0, Value = #1",
    );
    native("SELECT QUANTILE(a, LINEAR, 0) FROM STREAM()", "1:28: the number of points must be above 0");
    bullet("SELECT QUANTILE(a, LINEAR, 0) FROM STREAM()", "the number of points must be above 0");
    both(
        "SELECT QUANTILE(a, LINAER, 5) FROM STREAM()",
        "1:20: expected LINEAR or REGION or MANUAL, found `LINAER`",
    );
    let value = "QUANTILE, FREQ and CUMFREQ return rows, and cannot be part of an expression";
    native("SELECT QUANTILE(a, LINEAR, 5) + 1 FROM STREAM()", &format!("1:8: {value}"));
    bullet("SELECT QUANTILE(a, LINEAR, 5) + 1 FROM STREAM()", value);
    native(
        "SELECT QUANTILE(a, LINEAR, 5) AS q FROM STREAM()",
        "1:34: this returns the columns Quantile, Value: one alias cannot name them",
    );
    bullet(
        "SELECT QUANTILE(a, LINEAR, 5) AS q FROM STREAM()",
        "rows #0 to #1 = QUANTILE(a, 5 points) | columns Quantile = #0, Value = #1",
    );
    native(
        "SELECT QUANTILE(a, LINEAR, 5), TOP(5, b) FROM STREAM()",
        "1:32: a query can have only one of QUANTILE, FREQ, CUMFREQ and TOP",
    );
    bullet("SELECT QUANTILE(a, LINEAR, 5), TOP(5, b) FROM STREAM()", "the query is of several kinds at once");
    both(
        "SELECT quantile, top, linear FROM STREAM()",
        "columns quantile = \"quantile\", top = \"top\", linear = \"linear\"",
    );
}

#[test]
fn frequent_items() {
    both("SELECT TOP(10, a) FROM STREAM()", "rows #0 to #1 = TOP(10, a) | columns a = #0, Count = #1");
    let named = "SELECT TOP(10, 3, a, b + 1) AS n, a AS x, n * 2 AS m FROM STREAM()";
    let rows = "rows #0 to #2 = TOP(10, 3, a, b + 1)";
    native(named, &format!("{rows} | columns b + 1 = #1, n = #2, x = #0, m = #2 * 2"));
    bullet(named, &format!("{rows} | columns x = #0, b + 1 = #1, n = #2, m = #2 * 2"));
    native(
        "SELECT k, TOP(3, a), SUM(b) FROM STREAM() GROUP BY k HAVING Count > 5",
        "keys #0 = k | aggregates #1 = SUM(b) | rows #2 to #3 = TOP(3, a) | having #3 > 5 \
         | columns k = #0, a = #2, Count = #3, SUM(b) = #1",
    );
    native("SELECT TOP(0, a) FROM STREAM()", "1:12: the number of rows of TOP must be above 0");
    bullet("SELECT TOP(0, a) FROM STREAM()", "rows #0 to #1 = TOP(0, a) | columns a = #0, Count = #1");
    bullet(
        "SELECT TOP(5, a) FROM STREAM() ORDER BY a LIMIT 5",
        "ORDER BY and TOP do not go together; LIMIT and TOP do not go together",
    );
    bullet("SELECT TOP(5, a), TOP(5, b) FROM STREAM()", "there can be only one TOP");
    bullet("SELECT TOP(99999999999, a) FROM STREAM()", "the number of rows of TOP can be at most 2147483647");
}

#[test]
fn bullets_automatic_top() {
    let text = "SELECT k AS x, COUNT(*) AS n, n * 2 AS m FROM STREAM() GROUP BY k HAVING n >= 2.9 ORDER BY n DESC LIMIT 5";
    bullet(text, "rows #0 to #1 = TOP(5, 2, k) | columns x = #0, n = #1, m = #1 * 2");
    native(
        text,
        "keys #0 = k | aggregates #1 = COUNT(*) | having #1 >= 2.9 | columns x = #0, n = #1, m = #1 * 2 \
         | order by #1 DESC | limit 5",
    );
    let plain = "keys #0 = k | aggregates #1 = COUNT(*) | columns k = #0, COUNT(*) = #1 | order by #1";
    let group = "SELECT k, COUNT(*) FROM STREAM() GROUP BY k";
    both(&format!("{group} ORDER BY COUNT(*) DESC"), &format!("{plain} DESC"));
    bullet(&format!("{group} ORDER BY COUNT(*) LIMIT 5"), &format!("{plain} | limit 5"));
    bullet(&format!("{group} ORDER BY COUNT(*) DESC, k LIMIT 5"), &format!("{plain} DESC, #0 | limit 5"));
    bullet(
        &format!("{group} ORDER BY \"COUNT(*)\" DESC LIMIT 5"),
        "rows #0 to #1 = TOP(5, k) | columns k = #0, COUNT(*) = #1",
    );
    bullet(
        "SELECT k FROM STREAM() GROUP BY k ORDER BY COUNT(*) DESC LIMIT 5",
        "keys #0 = k | aggregates #1 = COUNT(*) | columns k = #0 | order by #1 DESC | limit 5",
    );
}

#[test]
fn bounds_of_windows() {
    native(
        "SELECT k, COUNT(*), window_start FROM STREAM() GROUP BY k HAVING window_end > 5 ORDER BY Window_Start",
        "keys #0 = k | aggregates #1 = COUNT(*) | having #3 > 5 | columns k = #0, COUNT(*) = #1, window_start = #2 \
         | order by #2",
    );
    native(
        "SELECT window_start, QUANTILE(a, LINEAR, 2), window_end FROM STREAM()",
        "rows #0 to #1 = QUANTILE(a, 2 points) | columns window_start = #2, Quantile = #0, Value = #1, window_end = #3",
    );
    native(
        "SELECT window_start, COUNT(*) FROM STREAM() GROUP BY window_start",
        "keys #0 = window_start | aggregates #1 = COUNT(*) | columns window_start = #0, COUNT(*) = #1",
    );
    native("SELECT window_start FROM STREAM()", "columns window_start = window_start");
    bullet(
        "SELECT window_start, COUNT(*) FROM STREAM() GROUP BY window_start WINDOWING TUMBLING(5, TIME)",
        "keys #0 = window_start | aggregates #1 = COUNT(*) | columns window_start = #0, COUNT(*) = #1 \
         | window every 5 ms of arrival",
    );
    bullet(
        "SELECT COUNT(*), window_start FROM STREAM()",
        "1:18: `window_start` is neither a key of the groups nor within an aggregate",
    );
}

#[test]
fn a_window_in_group_by_adds_nothing() {
    let window = "WINDOWING TUMBLING(5, TIME)";
    let by_k = "keys #0 = k | aggregates #1 = COUNT(*) | columns w = #2, k = #0, n = #1";
    for by in ["k", "window_start, k", "Window_Start, k, window_end", "w, k", "1, 2"] {
        native(
            &format!("SELECT window_start AS w, k, COUNT(*) AS n FROM STREAM() GROUP BY {by} {window}"),
            &format!("{by_k} | window every 5 ms of arrival"),
        );
    }
    native(
        &format!("SELECT window_start FROM STREAM() GROUP BY window_start HAVING window_end > 5 {window}"),
        "having #1 > 5 | columns window_start = #0 | window every 5 ms of arrival",
    );
    native(
        &format!("SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY window_start, ROLLUP (k) {window}"),
        "keys #0 = k | grouping sets (#0), () | aggregates #1 = COUNT(*) | columns k = #0, n = #1 \
         | window every 5 ms of arrival",
    );
    native(
        &format!("SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY ROLLUP (window_start, k) {window}"),
        "1:56: the window is part of every group, and cannot be in some grouping sets only",
    );
    // Columns that have the name are what they are.
    native(
        &format!("SELECT x AS window_start, COUNT(*) AS n FROM STREAM() GROUP BY window_start {window}"),
        "keys #0 = x | aggregates #1 = COUNT(*) | columns window_start = #0, n = #1 | window every 5 ms of arrival",
    );
    native(
        &format!(
            "SELECT window_start, COUNT(*) AS n FROM STREAM() LATERAL VIEW EXPLODE(l) AS window_start \
             GROUP BY window_start {window}"
        ),
        "views l as window_start | keys #0 = #0 | aggregates #1 = COUNT(*) | columns window_start = #0, n = #1 \
         | window every 5 ms of arrival",
    );
}

#[test]
fn a_declared_column_hides_the_window() {
    let schema = Schema::from_json(r#"{"window_start": "LONG", "k": "STRING"}"#).unwrap();
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, NOW) };
    let text = |by: &str| {
        format!("SELECT window_start, COUNT(*) AS n FROM STREAM() GROUP BY {by} WINDOWING TUMBLING(5, TIME)")
    };
    assert!(show(&text("window_start"), &options).starts_with("keys #0 = window_start : LONG | "));
    let errors = parse(&text("k"), &options).unwrap_err().0;
    assert_eq!(errors[0].message, "`window_start` is neither a key of the groups nor within an aggregate");
    let hint = errors[0].hint.as_deref().unwrap();
    assert!(hint.ends_with("rename that column where it is created (`window_start AS ws`)."), "{hint}");
}

#[test]
fn what_bullet_sees_behind_an_aggregation() {
    // An item sees keys and aggregates by name and by text; not other items.
    bullet(
        "SELECT SUM(a) AS s, s + 1, SUM(a) + 2 FROM STREAM()",
        "aggregates #0 = SUM(a) | columns s = #0, s + 1 = #0 + 1, SUM(a) + 2 = #0 + 2",
    );
    bullet(
        "SELECT SUM(a) AS s, s + 1 AS t, t + 1 AS u FROM STREAM()",
        "1:33: `t` is neither a key of the groups nor within an aggregate",
    );
    // A column with the name of an aggregate replaces it.
    bullet(
        "SELECT AVG(a), AVG(a) + 5 AS \"AVG(a)\" FROM STREAM() ORDER BY AVG(a)",
        "aggregates #0 = AVG(a) | columns AVG(a) = #0 + 5 | order by #0 + 5",
    );
    bullet("SELECT SUM(a) + 1 AS s, SUM(b) + 1 AS s FROM STREAM()", "several columns have the same name: s");
}

#[test]
fn queries_within_expressions_are_not_there_yet() {
    native(
        "SELECT a IN (SELECT b FROM STREAM()) FROM STREAM()",
        "1:14: a query within an expression is not supported yet",
    );
}
