//! Tests of MATCH_RECOGNIZE: plans, and errors with their places.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{NOW, bullet, native};
use swiftwater_lang::{Dialect, ParseOptions, Schema, TimeBounds, parse};

/// Compares the plan of a pattern; `inner` is the text after the first parenthesis.
#[track_caller]
fn pattern(inner: &str, expected: &str) {
    native(&format!("SELECT * FROM STREAM() MATCH_RECOGNIZE (\n{inner}"), expected);
}

fn hint(inner: &str) -> String {
    let text = format!("SELECT * FROM STREAM() MATCH_RECOGNIZE (\n{inner}");
    parse(&text, &ParseOptions::new(Dialect::Native, NOW)).unwrap_err().0[0].hint.clone().unwrap_or_default()
}

#[test]
fn patterns() {
    pattern(
        "PARTITION BY user MEASURES FIRST(A.ts) AS began, LAST(B.amount) - A.amount AS more, COUNT(B.*) AS n, COUNT(*) AS all_of_them PATTERN (A B{2,5}) WITHIN INTERVAL '10 minutes' DEFINE A AS kind = 'a', B AS kind = 'b' AND B.amount > A.amount)",
        "where kind = 'a' OR kind = 'b' | pattern A B{2,5} within 600000 ms of arrival, no event in two matches | A is kind = 'a' | B is kind = 'b' and then #8 > #3 | by #0 = user | measures #3 = LAST(amount) of A, #4 = FIRST(ts) of A, #5 = LAST(amount) of B, #6 = COUNT(*) of B, #7 = COUNT(*) | values #8 = amount, #9 = ts | columns user = #0, began = #4, more = #5 - #3, n = #6, all_of_them = #7",
    );
    pattern(
        "PARTITION BY user.id AS u, city ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ !C B? !D) WITHIN 1000 DEFINE A AS a, B AS b, C AS c, D AS A.x < x)",
        "pattern A{1,} !C B{0,1} !D within 1000 ms of arrival, from every event on | A is a | C is c | B is b | D is #4 < #5 | by #0 = user.id, #1 = city | measures #4 = LAST(x) of A | values #5 = x | columns u = #0, city = #1",
    );
    pattern(
        "MEASURES SUM(A.x * A.y) AS s, AVG(A.x) AS v, MIN(A.x) AS lo, MAX(A.x) AS hi, match_end - match_start AS took PATTERN (A{3}) WITHIN 5 DEFINE A AS A.x > 1 AND match_start < 5)",
        "where x > 1 | pattern A{3} within 5 ms of arrival, no event in two matches | A is x > 1 and then #0 < 5 | measures #2 = SUM(x * y) of A, #3 = AVG(x) of A, #4 = MIN(x) of A, #5 = MAX(x) of A | values #6 = x * y, #7 = x | columns s = #2, v = #3, lo = #4, hi = #5, took = #1 - #0",
    );
    pattern(
        "PARTITION BY k MEASURES k AS again, A.l[0] AS first PATTERN (A{,3} B+?) WITHIN 5 DEFINE B AS B.x IN (1, 2) OR y)",
        "pattern A{0,3} B{1,} within 5 ms of arrival, no event in two matches | A is any event | B is x IN (1, 2) OR y | by #0 = k | measures #3 = LAST(l[0]) of A | columns k = #0, again = #0, first = #3",
    );
    pattern(
        "PARTITION BY k ORDER BY EVENT(ts, INTERVAL '5 seconds') PATTERN (A !B) WITHIN 5 DEFINE A AS x = 1, B AS x = 2)",
        "where x = 1 OR x = 2 | pattern A !B within 5 ms by ts, up to 5000 ms late, no event in two matches | A is x = 1 | B is x = 2 | by #0 = k | columns k = #0",
    );
    pattern(
        "PARTITION BY k PATTERN (A B) WITHIN 5 DEFINE A AS x = 1, B AS y = 2 AND (x > 3 OR COUNT(A.*) = 2)) WHERE k = 'z' AND match_start > 5",
        "where k = 'z' AND (x = 1 OR y = 2) | pattern A B within 5 ms of arrival, no event in two matches | A is x = 1 | B is y = 2 and then #4 > 3 OR #3 = 2 | by #0 = k | measures #3 = COUNT(*) of A | values #4 = x | matches where #1 > 5 | columns k = #0",
    );
    pattern(
        "PARTITION BY k MEASURES B.x AS x PATTERN (A B) WITHIN 5 DEFINE A AS x = 1) WINDOWING TUMBLING(5, RECORD) LIMIT 2",
        "pattern A B within 5 ms of arrival, no event in two matches | A is x = 1 | B is any event | by #0 = k | measures #3 = LAST(x) of B | columns k = #0, x = #3 | window every 5 matched events | limit 2",
    );
}

#[test]
fn faults() {
    pattern(
        "PATTERN (A* B) WITHIN 5 DEFINE A AS x)",
        "1:8: the pattern has neither keys nor measures, so there is nothing to select",
    );
    pattern("PATTERN (A B) DEFINE A AS x)", "2:15: expected WITHIN, found `DEFINE`");
    pattern("PATTERN (A (B C)+ !D) WITHIN 5)", "2:12: a group within PATTERN is not supported yet");
    pattern("PATTERN (A | B) WITHIN 5)", "2:12: a choice within PATTERN is not supported yet");
    pattern("PATTERN (!A B) WITHIN 5)", "2:10: a pattern cannot begin with an absent variable");
    pattern("PATTERN (A? B*) WITHIN 5)", "2:1: this pattern is complete without any event");
    pattern("PATTERN (A !B{2}) WITHIN 5)", "2:14: an absent variable has no quantifier");
    pattern(
        "PATTERN (A{3,2}) WITHIN 5)",
        "2:11: a quantifier's most must be its least or more, and at least 1",
    );
    pattern("PATTERN (A{2 B) WITHIN 5)", "2:14: expected `}`, found `B`");
    pattern("PATTERN () WITHIN 5)", "2:10: expected a variable, found `)`");
    pattern("PATTERN (A B) WITHIN 0)", "2:22: the time of a match must be above 0");
    pattern("PATTERN (A) WITHIN 5 DEFINE B AS x)", "2:29: `B` is not in PATTERN");
    pattern("PATTERN (A) WITHIN 5 DEFINE A AS x, A AS y)", "2:37: `A` is defined twice");
    pattern(
        "MEASURES x AS x PATTERN (A) WITHIN 5)",
        "2:10: `x` does not name the variable whose events it reads",
    );
    pattern("MEASURES A.x PATTERN (A) WITHIN 5)", "2:14: expected AS, found `PATTERN`");
    pattern("MEASURES A AS a PATTERN (A) WITHIN 5)", "2:10: `A` is a variable of the pattern");
    pattern("MEASURES B.x AS x PATTERN (A !B) WITHIN 5)", "2:10: `B` must be absent, so it has no events");
    pattern(
        "MEASURES A.x + B.y AS x, SUM(A.x + B.y) AS s PATTERN (A B) WITHIN 5)",
        "2:26: this reads several variables at once",
    );
    pattern(
        "MEASURES SUM(A.x + y) AS s PATTERN (A B) WITHIN 5)",
        "2:20: this name does not name the variable whose events it reads",
    );
    pattern(
        "MEASURES COUNT(DISTINCT A.x) AS s PATTERN (A B) WITHIN 5)",
        "2:10: this aggregate cannot be a measure of a pattern",
    );
    pattern(
        "MEASURES COUNT(A.x) FILTER (WHERE A.y) AS s PATTERN (A B) WITHIN 5)",
        "2:10: a measure of a pattern has no FILTER",
    );
    pattern(
        "MEASURES FIRST(FIRST(A.x)) AS s PATTERN (A B) WITHIN 5)",
        "2:16: FIRST and LAST are not allowed inside each other or inside an aggregate",
    );
    pattern("MEASURES A.x AS x, A.y AS x PATTERN (A B) WITHIN 5)", "2:27: two columns are named `x`");
    pattern("PATTERN (A B) WITHIN 5 DEFINE A AS B.x > 1)", "2:36: `B` comes only after `A`");
    pattern(
        "PATTERN (A B+) WITHIN 5 DEFINE B AS B.x > LAST(B.x))",
        "2:43: the condition of `B` cannot read its other events",
    );
    pattern(
        "PATTERN (A B+) WITHIN 5 DEFINE B AS match_end > 1)",
        "2:37: a condition cannot know when the match will end",
    );
    pattern("ALL ROWS PER MATCH PATTERN (A B) WITHIN 5)", "2:1: ALL ROWS PER MATCH is not supported yet");
    pattern(
        "AFTER MATCH SKIP TO LAST A PATTERN (A B) WITHIN 5)",
        "2:18: SKIP TO a variable is not supported yet",
    );
    pattern(
        "AFTER MATCH SKIP SOMEWHERE PATTERN (A B) WITHIN 5)",
        "2:18: expected PAST LAST ROW or TO NEXT ROW, found `SOMEWHERE`",
    );
    pattern(
        "ORDER BY ts PATTERN (A B) WITHIN 5)",
        "2:10: a pattern is ordered by the stream's declared time, or by EVENT",
    );
    pattern(
        "ORDER BY EVENT PATTERN (A B) WITHIN 5)",
        "2:10: EVENT needs the path of an event's time: the stream declares no WATERMARK",
    );
    pattern(
        "ORDER BY EVENT(ts) DESC PATTERN (A B) WITHIN 5)",
        "2:20: a pattern is matched in ascending order of time only",
    );
    pattern("ORDER BY EVENT(ts), x PATTERN (A B) WITHIN 5)", "2:19: a pattern is ordered by one time");
    pattern("PATTERN (A B) WITHIN 5 MEASURES A.x AS x)", "2:24: expected `)`, found `MEASURES`");
    pattern("PATTERN (A B) WITHIN 5) AS t", "2:25: the result of MATCH_RECOGNIZE has no name");
    pattern("PATTERN (A B) WITHIN 5) SAMPLE 0.5", "1:24: SAMPLE and MATCH_RECOGNIZE do not go together");
    pattern(
        "PATTERN (A B) WITHIN 5) LATERAL VIEW EXPLODE(x) AS y",
        "2:38: EXPLODE and MATCH_RECOGNIZE do not go together",
    );
    pattern(
        "MEASURES A.x AS x PATTERN (A B) WITHIN 5) WHERE y = 1",
        "2:49: MATCH_RECOGNIZE returns no column `y`",
    );
    pattern(
        "MEASURES A.x AS x PATTERN (A B) WITHIN 5) WINDOWING TUMBLING(5, EVENT(x))",
        "2:43: the matches of a pattern have no windows by EVENT",
    );
    pattern(
        "MEASURES A.x AS x ORDER BY EVENT(ts) PATTERN (A B) WITHIN 5) WINDOWING TUMBLING(5, TIME)",
        "2:19: expected PATTERN, found `ORDER`",
    );
    pattern(
        "ORDER BY EVENT(ts) MEASURES A.x AS x PATTERN (A B) WITHIN 5) WINDOWING TUMBLING(5, TIME)",
        "2:62: the matches of a pattern that is ordered by event time have windows by RECORD only",
    );
    pattern(
        "PATTERN (A B) WITHIN 5)",
        "1:8: the pattern has neither keys nor measures, so there is nothing to select",
    );
    pattern("PATTERNN (A B) WITHIN 5)", "2:1: expected PATTERN, found `PATTERNN`");
    pattern(
        "PATTERN (A B) WITHIN 5 DEFINE A AS x +",
        "2:39: expected an expression, found the end of the query",
    );
}

#[test]
fn hints() {
    assert!(hint("PATTERN (A B) DEFINE A AS x)").contains("`WITHIN INTERVAL '10 minutes'`"));
    assert_eq!(hint("PATTERN (A | B) WITHIN 5)"), "Write one variable, with OR in its DEFINE.");
    assert_eq!(hint("PATTERNN (A) WITHIN 5)"), "Did you mean PATTERN?");
    assert!(hint("PATTERN (A) WITHIN 5 MEASURES A.x AS x)").starts_with("Its clauses have this order"));
    assert!(hint("MEASURES x AS x PATTERN (A) WITHIN 5)").starts_with("Write `A.x`"));
    assert_eq!(hint("PATTERN (Start) WITHIN 5 DEFINE Strat AS x)"), "Did you mean `Start`?");
}

#[test]
fn queries_around_patterns() {
    let recognize = "MATCH_RECOGNIZE (PARTITION BY k MEASURES A.x AS x, COUNT(*) AS n PATTERN (A B) WITHIN 5 DEFINE A AS a, B AS b)";
    native(
        &format!(
            "SELECT *, n + 1 AS more, x.y[2] AS y FROM STREAM() {recognize} WHERE k = 1 OR n > 2 ORDER BY x DESC LIMIT 3"
        ),
        "where a OR b | pattern A B within 5 ms of arrival, no event in two matches | A is a | B is b | by #0 = k | measures #3 = LAST(x) of A, #4 = COUNT(*) | matches where #0 = 1 OR #4 > 2 | columns k = #0, x = #3, n = #4, more = #4 + 1, y = #3['y'][2] | order by #3 DESC | limit 3",
    );
    native(
        &format!(
            "SELECT n, COUNT(*) AS c, MAX(match_end) AS m FROM STREAM() {recognize} WHERE k IN (1, 2) GROUP BY n HAVING c > 1"
        ),
        "where k IN (1, 2) AND (a OR b) | pattern A B within 5 ms of arrival, no event in two matches | A is a | B is b | by #0 = k | measures #3 = LAST(x) of A, #4 = COUNT(*) | keys #0 = #4 | aggregates #1 = COUNT(*), #2 = MAX(#2) | having #1 > 1 | columns n = #0, c = #1, m = #2",
    );
    native(
        &format!(
            "SELECT COUNT(*) AS c FROM (SELECT k FROM STREAM() {recognize} WINDOWING TUMBLING(5, TIME))"
        ),
        "where a OR b | pattern A B within 5 ms of arrival, no event in two matches | A is a | B is b | by #0 = k | measures #3 = LAST(x) of A, #4 = COUNT(*) | columns k = #0 | window every 5 ms of arrival | and over each result: | default stream | aggregates #0 = COUNT(*) | columns c = #0",
    );
}

#[test]
fn events_are_no_aggregates_of_matches() {
    let text = "SELECT k, LAST(*) AS e FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k PATTERN (A) WITHIN 5) GROUP BY k";
    native(text, "1:11: FIRST(*) and LAST(*) return one event, and a match has several");
}

#[test]
fn declared_time_orders_a_pattern() {
    let schema = Schema::from_json(r#"{"ts": "TIMESTAMP", "k": "STRING"}"#).unwrap();
    let schema = schema.with_watermark("ts", TimeBounds { lateness_ms: 5000, ..TimeBounds::default() });
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, NOW) };
    for order in ["EVENT", "ts", "TS ASC"] {
        let text = format!(
            "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k ORDER BY {order} PATTERN (A) WITHIN 5)"
        );
        let plan = common::show(&text, &options);
        assert!(plan.contains("by ts : TIMESTAMP, up to 5000 ms late"), "{order}: {plan}");
    }
}

#[test]
fn words_of_patterns_are_names_elsewhere() {
    native(
        "SELECT pattern, within, measures FROM STREAM() WHERE firsts = 1 AND match_start > 2",
        "where firsts = 1 AND match_start > 2 | columns pattern = pattern, within = within, measures = measures",
    );
    native("SELECT * FROM STREAM() WHERE a ! b", "1:32: unexpected `!`");
    bullet(
        "SELECT * FROM STREAM() MATCH_RECOGNIZE (PATTERN (A) WITHIN 5)",
        "1:24: expected the end of the query, found `MATCH_RECOGNIZE`",
    );
}

#[test]
fn joins_of_streams_are_refused() {
    let fault = |place: &str| format!("{place}: a join of streams is not supported yet");
    native("SELECT * FROM STREAM(a) JOIN STREAM(b) ON x = y", &fault("1:25"));
    native("SELECT * FROM STREAM(a) AS l LEFT JOIN STREAM(b) AS r ON l.x = r.y WITHIN 5", &fault("1:30"));
    native("SELECT * FROM STREAM(a) l JOIN STREAM(b) r ON l.x = r.y WHERE l.x > 1", &fault("1:27"));
    native(
        "SELECT left, \"join\" FROM STREAM(a) WHERE left = 1",
        "stream a | where left = 1 | columns left = left, join = join",
    );
}
