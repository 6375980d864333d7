//! Tests of a query's sources: lateral views, other queries; and of parameters, schemas and types.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{NOW, both, bullet, native, show};
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, Schema, plan::Literal};

fn schema(fields: &[(&str, &str)]) -> Schema {
    Schema::new(fields.iter().map(|(name, ty)| ((*name).into(), Type::parse(ty).unwrap())))
}

#[test]
fn lateral_views() {
    native(
        "SELECT x, x + 1 FROM STREAM() LATERAL VIEW EXPLODE(l) AS x WHERE x > 1",
        "views l as x | where #0 > 1 | columns x = #0, x + 1 = #0 + 1",
    );
    bullet(
        "SELECT x, x + 1 FROM STREAM() LATERAL VIEW EXPLODE(l) AS x WHERE x > 1",
        "views l as x | where COALESCE(#0, x) > 1 | columns x = COALESCE(#0, x), x + 1 = COALESCE(#0, x) + 1",
    );
    native(
        "SELECT a, v FROM STREAM() LATERAL VIEW EXPLODE(l) AS m LATERAL VIEW OUTER EXPLODE(m) AS (k, v)",
        "views l as m, outer #0 as k, v | columns a = a, v = #2",
    );
    bullet(
        "SELECT a, v FROM STREAM() LATERAL VIEW EXPLODE(l) AS m LATERAL VIEW OUTER EXPLODE(m) AS (k, v)",
        "views l as m, outer COALESCE(#0, m) as k, v | columns a = a, v = COALESCE(#2, v)",
    );
    native(
        "SELECT * FROM STREAM() LATERAL VIEW EXPLODE(l) AS x ORDER BY x",
        "views l as x | the event itself | columns x = #0 | order by #0",
    );
    bullet(
        "SELECT * FROM STREAM() LATERAL VIEW EXPLODE(l) AS x ORDER BY x",
        "views l as x | the event itself | columns x = COALESCE(#0, x) | order by COALESCE(#0, x)",
    );
    native(
        "SELECT *, x AS y FROM STREAM() LATERAL VIEW EXPLODE(l) AS x",
        "views l as x | the event itself | columns x = #0, y = #0",
    );
    bullet(
        "SELECT *, x AS y FROM STREAM() LATERAL VIEW EXPLODE(l) AS x",
        "views l as x | the event itself without x | columns y = COALESCE(#0, x)",
    );
    native(
        "SELECT x FROM STREAM() LATERAL VIEW EXPLODE(a) AS x LATERAL VIEW EXPLODE(x) AS x",
        "views a as x, #0 as x | columns x = #1",
    );
    bullet(
        "SELECT x FROM STREAM() LATERAL VIEW EXPLODE(a) AS x LATERAL VIEW EXPLODE(x) AS x",
        "views a as x, COALESCE(#0, x) as x | columns x = COALESCE(#1, #0, x)",
    );
    native(
        "SELECT v.k, COUNT(*) FROM STREAM() LATERAL VIEW EXPLODE(l) AS v GROUP BY v.k",
        "views l as v | keys #0 = #0['k'] | aggregates #1 = COUNT(*) | columns v.k = #0, COUNT(*) = #1",
    );
    bullet(
        "SELECT v.k, COUNT(*) FROM STREAM() LATERAL VIEW EXPLODE(l) AS v GROUP BY v.k",
        "views l as v | keys #0 = COALESCE(#0, v)['k'] | aggregates #1 = COUNT(*) | columns v.k = #0, COUNT(*) = #1",
    );
    native("SELECT X FROM STREAM() LATERAL VIEW EXPLODE(l) AS x", "views l as x | columns X = #0");
    bullet("SELECT X FROM STREAM() LATERAL VIEW EXPLODE(l) AS x", "views l as x | columns X = X");
    both(
        "SELECT a FROM STREAM() WHERE a LATERAL VIEW EXPLODE(l) AS x",
        "1:32: LATERAL must come before WHERE",
    );
    both("SELECT x FROM STREAM() LATERAL VIEW l AS x", "1:37: expected EXPLODE, found `l`");
    both("SELECT x FROM STREAM() LATERAL VIEW EXPLODE(l) x", "1:48: expected AS, found `x`");
    native(
        "SELECT x FROM STREAM() LATERAL VIEW EXPLODE(SUM(l)) AS x",
        "1:45: EXPLODE cannot contain aggregates",
    );
    bullet("SELECT x FROM STREAM() LATERAL VIEW EXPLODE(SUM(l)) AS x", "EXPLODE cannot contain aggregates");
    native("SELECT EXPLODE(l) + 1 FROM STREAM()", "1:19: expected AS, found `+`");
    native(
        "SELECT 1 + EXPLODE(l) FROM STREAM()",
        "1:12: EXPLODE returns rows, and cannot be part of an expression",
    );
}

#[test]
fn explode_in_the_select_list() {
    both("SELECT EXPLODE(l) AS x FROM STREAM()", "views l as x | columns x = #0");
    both(
        "SELECT OUTER EXPLODE(m) AS (k, v), LOWER(k), v AS w FROM STREAM() WHERE v > 1",
        "views outer m as k, v | where #1 > 1 | columns k = #0, v = #1, LOWER(k) = LOWER(#0), w = #1",
    );
    both("SELECT EXPLODE(l) AS x, a FROM STREAM()", "1:25: EXPLODE returns no column `a`");
    let name = "the names of keys and values are the same";
    both("SELECT EXPLODE(m) AS (k, k) FROM STREAM()", &format!("1:8: {name}"));
    let several = "EXPLODE can be selected only once";
    let two = "SELECT EXPLODE(a) AS x, EXPLODE(b) AS y FROM STREAM()";
    native(two, &format!("1:25: {several}"));
    bullet(two, several);
    let kinds = "EXPLODE in the select list is allowed with single fields only";
    for text in ["SELECT EXPLODE(a) AS x, COUNT(*) FROM STREAM()", "SELECT EXPLODE(a) AS x, * FROM STREAM()"]
    {
        native(text, &format!("1:8: {kinds}"));
        bullet(text, kinds);
    }
}

#[test]
fn queries_over_queries() {
    both(
        "SELECT a FROM (SELECT * FROM STREAM(5, TIME))",
        "default stream for 5 ms | the event itself | and over each result: | default stream | columns a = a",
    );
    native(
        "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k) GROUP BY n HAVING m > 1 LIMIT 2",
        "keys #0 = k | aggregates #1 = COUNT(*) | columns k = #0, n = #1 | and over each result: | default stream \
         | keys #0 = n : LONG | aggregates #1 = COUNT(*) | having #1 > 1 | columns n = #0, m = #1 | limit 2",
    );
    bullet(
        "SELECT k FROM (SELECT k, COUNT(*) FROM STREAM() GROUP BY k) WHERE \"COUNT(*)\" > 1",
        "keys #0 = k | aggregates #1 = COUNT(*) | columns k = #0, COUNT(*) = #1 | and over each result: | default stream \
         | where \"COUNT(*)\" : LONG > 1 | columns k = k : STRING",
    );
    both("SELECT nope FROM (SELECT k FROM STREAM())", "1:8: the inner query has no column `nope`");
    both("SELECT a FROM (SELECT b FROM (SELECT c FROM STREAM()))", "1:30: queries can be nested only once");
    let window = "SELECT a FROM (SELECT a FROM STREAM()) WINDOWING TUMBLING(1, TIME)";
    both(window, "1:40: WINDOWING belongs to the inner query");
    both(
        "SELECT Value FROM (SELECT QUANTILE(a, LINEAR, 3) FROM STREAM()) WHERE Quantile > 0.4",
        "rows #0 to #1 = QUANTILE(a, 3 points) | columns Quantile = #0, Value = #1 | and over each result: \
         | default stream | where \"Quantile\" : DOUBLE > 0.4 | columns Value = Value : DOUBLE",
    );
    let fields = schema(&[("a", "LONG"), ("s", "STRING")]);
    let options = ParseOptions { schema: Some(&fields), ..ParseOptions::new(Dialect::Bullet, NOW) };
    assert_eq!(
        show("SELECT a, b FROM (SELECT *, s AS b FROM STREAM())", &options),
        "the event itself without s | columns b = s : STRING | and over each result: | default stream \
         | columns a = a : LONG, b = b : STRING"
    );
    assert_eq!(
        show("SELECT s FROM (SELECT *, s AS b FROM STREAM())", &options),
        // By the text of the inner expression.
        "the event itself without s | columns b = s : STRING | and over each result: | default stream \
         | columns s = b : STRING"
    );
    assert_eq!(
        show("SELECT s + 1 FROM (SELECT s FROM STREAM())", &options),
        "1:8: `s + 1` needs two numbers, not STRING, INTEGER"
    );
}

#[test]
fn parameters() {
    let parameters =
        [Literal::Integer(-5), Literal::String("it's".into()), Literal::Null, Literal::Double(0.5)];
    let check = |dialect, count: usize, text: &str, expected: &str| {
        let options = ParseOptions { parameters: &parameters[..count], ..ParseOptions::new(dialect, NOW) };
        assert_eq!(show(text, &options), expected, "{text}");
    };
    for dialect in [Dialect::Native, Dialect::Bullet] {
        check(
            dialect,
            4,
            "SELECT a - $1 AS x FROM STREAM() WHERE b = $2 AND d[$1] IN ($4, 5.5) OR c = $3",
            "where b = 'it''s' AND d[-5] IN (0.5, 5.5) OR c = NULL | columns x = a - -5",
        );
        check(
            dialect,
            1,
            "SELECT a FROM STREAM() WHERE a = $2 OR $1",
            "1:34: there is no parameter $2: one is given, $1",
        );
        check(
            dialect,
            0,
            "SELECT a FROM STREAM() WHERE a = $1",
            "1:34: there is no parameter $1: no parameter is given",
        );
        check(dialect, 1, "SELECT a FROM STREAM() WHERE a = $0", "1:34: there is no parameter $0");
        check(
            dialect,
            2,
            "SELECT a FROM STREAM() WHERE a = $1",
            "parameter $2 is bound, but the query does not use it",
        );
        check(dialect, 1, "SELECT a $1 FROM STREAM()", "1:10: expected `,` or FROM, found `$1`");
    }
    check(Dialect::Native, 1, "SELECT a FROM STREAM() LIMIT $1", "1:30: LIMIT must be above 0");
    let numbers = [Literal::Integer(7), Literal::Long(9)];
    let options = ParseOptions { parameters: &numbers, ..ParseOptions::new(Dialect::Native, NOW) };
    assert_eq!(
        show("SELECT a FROM STREAM($2, TIME) WINDOWING TUMBLING($1, TIME) LIMIT $2", &options),
        "default stream for 9 ms | columns a = a | window every 7 ms of arrival | limit 9"
    );
}

#[test]
fn types_of_the_records() {
    let fields = schema(&[("a", "LONG"), ("m", "MAP[STRING]")]);
    let types = schema(&[("a", "INTEGER"), ("m", "MAP[DOUBLE]"), ("x", "LIST[FLOAT]")]);
    let options = ParseOptions { types: Some(&types), ..ParseOptions::new(Dialect::Bullet, NOW) };
    let check = |options: &ParseOptions<'_>, text: &str, expected: &str| {
        assert_eq!(show(text, options), expected, "{text}");
    };
    check(
        &options,
        "SELECT a, m.k AS k, x[0] AS x0, m[0] AS no, other FROM STREAM()",
        "columns a = a : INTEGER, k = m.k : MAP[DOUBLE], x0 = x[0] : LIST[FLOAT], no = m[0], other = other",
    );
    // Nothing is checked by them.
    check(
        &options,
        "SELECT a FROM STREAM() WHERE a = 'x'",
        "where a : INTEGER = 'x' | columns a = a : INTEGER",
    );
    let checked = ParseOptions { schema: Some(&fields), ..options };
    check(&checked, "SELECT m.k, m FROM STREAM()", "columns m.k = m.k : MAP[DOUBLE], m = m : MAP[DOUBLE]");
    check(
        &checked,
        "SELECT a FROM STREAM() WHERE a = 'x'",
        "1:30: `a = 'x'` needs operands that can be compared, not LONG, STRING",
    );
    check(&checked, "SELECT x FROM STREAM()", "1:8: there is no field `x`");
    let native = ParseOptions { dialect: Dialect::Native, ..options };
    check(&native, "SELECT A, a : STRING AS s FROM STREAM()", "columns A = a : INTEGER, s = a : STRING");
}
