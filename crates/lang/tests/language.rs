//! Tests of queries and their plans, or their errors.
//!
//! A plan is printed as EXPLAIN shows it, its lines joined by ` | `. Its first part (the stream) is omitted if it is the
//! default stream without a duration.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{NOW, both, bullet, check, native, show};
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, Schema, parse, plan::Explain};

/// An expression, its plan in the native dialect and in Bullet's.
#[track_caller]
fn expr(text: &str, native_plan: &str, bullet_plan: &str) {
    let query = format!("SELECT * FROM STREAM() WHERE {text}");
    native(&query, &format!("where {native_plan} | the event itself"));
    bullet(&query, &format!("where {bullet_plan} | the event itself"));
}

/// A fault in an expression that begins at column 1.
#[track_caller]
fn fault(dialect: Dialect, text: &str, expected: &str) {
    let query = format!("SELECT * FROM STREAM() WHERE\n{text}");
    check(dialect, &query, expected);
}

#[track_caller]
fn hint(text: &str, expected: &str) {
    let errors = parse(text, &ParseOptions::new(Dialect::Native, NOW)).unwrap_err();
    assert_eq!(errors.0[0].hint.as_deref(), Some(expected), "{text}");
}

#[test]
fn streams() {
    both("SELECT * FROM STREAM()", "the event itself");
    both("select * from stream();", "the event itself");
    both("SELECT * FROM STREAM(30000, TIME)", "default stream for 30000 ms | the event itself");
    both("SELECT * FROM STREAM(MAX, TIME)", "the event itself");
    native("SELECT * FROM STREAM(flights)", "stream flights | the event itself");
    native(
        "SELECT * FROM STREAM(\"my-flights.x\", 5, TIME)",
        "stream my-flights.x for 5 ms | the event itself",
    );
    native("SELECT * FROM STREAM(flights, MAX, TIME)", "stream flights | the event itself");
    native("SELECT * FROM STREAM(\"max\")", "stream max | the event itself");
    native("SELECT * FROM STREAM(f, INTERVAL 1 MINUTE, TIME)", "stream f for 60000 ms | the event itself");
    native(
        "SELECT * FROM STREAM(\"1a\")",
        "1:22: `1a` cannot be a stream's name: it must begin with a letter A-Z, a-z or `_` (`[A-Za-z_][A-Za-z0-9_.-]*`)",
    );
    bullet("SELECT * FROM STREAM(flights)", "1:22: a stream cannot be named in Bullet's dialect");
    native("SELECT * FROM STREAM(0, TIME)", "1:22: the duration of the query must be above 0");
    bullet("SELECT * FROM STREAM(0, TIME)", "the duration of the query must be above 0");
    native("SELECT * FROM STREAM(-5, TIME)", "1:22: the duration of the query must be above 0");
    bullet("SELECT * FROM STREAM(-5, TIME)", "1:22: expected a whole number, found `-`");
    both("SELECT * FROM STREAM(5, RECORD)", "1:25: a query's duration is a time, not a number of records");
    both("SELECT * FROM flights", "1:15: expected STREAM(…), found `flights`");
    hint("SELECT * FROM flights", "Name a stream with `STREAM(flights)`.");
    hint("SELECT * FROM STREAM(a-b)", "Write a stream's name with `-` or `.` in double quotes.");
    let statement =
        parse("EXPLAIN SELECT * FROM STREAM()", &ParseOptions::new(Dialect::Native, NOW)).unwrap();
    assert_eq!(statement.explain, Some(Explain::Plan));
    let statement =
        parse("explain analyze SELECT analyze FROM STREAM()", &ParseOptions::new(Dialect::Native, NOW))
            .unwrap();
    assert_eq!(statement.explain, Some(Explain::Analyze));
}

#[test]
fn samples() {
    native("SELECT * FROM STREAM() SAMPLE 0.1", "sample 0.1 | the event itself");
    native("SELECT * FROM STREAM() SAMPLE .25 WHERE a", "sample 0.25 | where a | the event itself");
    native("SELECT * FROM STREAM() SAMPLE 10% LIMIT 5", "sample 0.1 | the event itself | limit 5");
    native("SELECT * FROM STREAM() SAMPLE 1", "sample 1 | the event itself");
    native(
        "SELECT * FROM STREAM() SAMPLE 0",
        "1:31: the share of SAMPLE must be above 0 and at most 1, or 100%",
    );
    native(
        "SELECT * FROM STREAM() SAMPLE 101%",
        "1:31: the share of SAMPLE must be above 0 and at most 1, or 100%",
    );
    bullet("SELECT * FROM STREAM() SAMPLE 0.1", "1:24: expected the end of the query, found `SAMPLE`");
}

#[test]
fn literals() {
    native("SELECT * FROM STREAM() WHERE NULL", "where NULL | the event itself");
    bullet("SELECT * FROM STREAM() WHERE NULL", "1:30: WHERE needs a value that can be BOOLEAN, not NULL");
    expr("true", "true", "true");
    expr("5", "5", "5");
    expr("-5", "-5", "-5");
    expr("5L", "5L", "5L");
    expr("10000000000", "10000000000L", "10000000000L");
    expr("-2147483648", "-2147483648L", "-2147483648L");
    expr("-9223372036854775808", "-9223372036854775808L", "-9223372036854775808L");
    expr("5.", "5.0", "5.0");
    expr("1e10", "1.0E10", "1.0E10");
    expr("5.5f", "5.5f", "5.5f");
    expr("'it''s'", "'it''s'", "'it''s'");
    both("SELECT [1, 2] FROM STREAM()", "columns [1, 2] = [1, 2]");
    expr("NOW", "1700000000123L", "1700000000123L");
    expr("UNIXTIMESTAMP()", "1700000000L", "UNIXTIMESTAMP()");
    expr("\"a b\"", "\"a b\"", "\"a b\"");
    native("SELECT .5 AS x FROM STREAM()", "columns x = 0.5");
    fault(Dialect::Bullet, ".5", "2:1: expected an expression, found `.`");
    fault(Dialect::Native, "9223372036854775808", "2:1: this number is out of the range of LONG");
    fault(Dialect::Native, "1e999", "2:1: this number is too large");
    fault(Dialect::Native, "[]", "2:1: a list cannot be empty");
    fault(Dialect::Bullet, "[1, 'a']", "2:1: `[1, 'a']` needs elements of one type, not INTEGER, STRING");
    native("SELECT * FROM STREAM() -- all\n /* and\n more */ WHERE a", "where a | the event itself");
    fault(Dialect::Bullet, "a -- b", "2:6: expected a number, found `b`");
}

#[test]
fn paths() {
    expr("a.b", "a.b", "a.b");
    expr("a['b']", "a.b", "a.b");
    expr("a['b c']", "a['b c']", "a['b c']");
    expr("a[0].c", "a[0].c", "a[0].c");
    expr("\"a\".\"b c\"", "a['b c']", "a['b c']");
    expr("a[b]", "a[b]", "a[b]");
    expr("a[b].c", "a[b]['c']", "a[b]['c']");
    expr("a[-1]", "a[-1]", "a[-1]");
    expr("a[b + 1]['k']", "a[b + 1]['k']", "a[b + 1]['k']");
    expr("a : LONG", "a : LONG", "a");
    expr("a.b : MAP[STRING]", "a.b : MAP[STRING]", "a.b");
    expr("a[0].b : LIST[MAP[LONG]] > 5", "a[0].b : LIST[MAP[LONG]] > 5", "a[0].b > 5");
    expr("a[b] : MAP[LONG]", "a[b] : MAP[LONG]", "a[b]");
    native("SELECT a.b.c.d[5].e AS x FROM STREAM()", "columns x = a.b.c.d[5].e");
    native("SELECT a.select AS x FROM STREAM()", "columns x = a.select");
    native(
        "SELECT COALESCE(a, b)[0] AS x, [1, 2][i] AS y FROM STREAM()",
        "columns x = COALESCE(a, b)[0], y = [1, 2][i]",
    );
    fault(Dialect::Bullet, "a.b.c.d", "2:6: a path has at most three parts in Bullet's dialect");
    fault(Dialect::Bullet, "a.select", "2:3: expected a name, found `select`");
    fault(
        Dialect::Native,
        "a.b : LIST[LONG]",
        "2:1: `a.b` is not possible: a value of type LIST[LONG] has no keys",
    );
    fault(Dialect::Native, "a : LIST[LIST[LONG]]", "2:5: there is no type LIST[LIST[LONG]]");
    fault(Dialect::Native, "a : MAP[MAP[MAP[LONG]]]", "2:5: a type nests at most two levels deep");
    fault(Dialect::Native, "a : LNG", "2:5: no type `LNG`");
    hint("SELECT a : LOGN FROM STREAM()", "Did you mean LONG?");
}

#[test]
fn operators() {
    expr("a + b * c - d", "a + b * c - d", "a + b * c - d");
    expr("a - (b - c)", "a - (b - c)", "a - (b - c)");
    expr("(a + b) * c", "(a + b) * c", "(a + b) * c");
    expr("a == b", "a = b", "a = b");
    expr("a <> b", "a != b", "a != b");
    expr("a < ANY [1, 2]", "a < ANY [1, 2]", "a < ANY [1, 2]");
    expr("a >= ALL b", "a >= ALL b", "a >= ALL b");
    expr("a = all", "a = \"all\"", "a = \"all\"");
    expr("a < b = c < d", "a < b = c < d", "a < b = c < d");
    expr("s RLIKE 'a.*'", "s RLIKE 'a.*'", "s RLIKE 'a.*'");
    expr("s NOT RLIKE ANY ['a']", "s NOT RLIKE ANY ['a']", "s NOT RLIKE ANY ['a']");
    expr("a IN (1)", "a IN (1)", "a IN (1)");
    expr("a NOT IN (1, 2)", "a NOT IN (1, 2)", "a NOT IN (1, 2)");
    expr("a IN [1, 2]", "a IN (1, 2)", "a IN (1, 2)");
    expr("a IN b", "a IN b", "a IN b");
    expr("a BETWEEN (1, 2)", "a BETWEEN (1, 2)", "a BETWEEN (1, 2)");
    expr("BETWEEN(a, 1, 2)", "a BETWEEN (1, 2)", "a BETWEEN (1, 2)");
    expr("a NOT BETWEEN (1, 2) AND b", "a NOT BETWEEN (1, 2) AND b", "a NOT BETWEEN (1, 2) AND b");
    expr("a AND b AND (c AND d) OR e OR f", "a AND b AND c AND d OR e OR f", "a AND b AND c AND d OR e OR f");
    expr("a OR b XOR c AND d", "a OR b XOR c AND d", "a OR b XOR c AND d");
    expr("a AND (b OR c)", "a AND (b OR c)", "a AND (b OR c)");
    // The differences follow.
    expr("NOT a = b", "NOT a = b", "(NOT a) = b");
    expr("NOT a AND b", "NOT a AND b", "NOT a AND b");
    native("SELECT a / b IS NULL AS x FROM STREAM()", "columns x = a / b IS NULL");
    fault(Dialect::Bullet, "5 / 2 IS NULL", "2:1: `5 / 2 IS NULL` needs two numbers, not INTEGER, BOOLEAN");
    // An unknown type is not checked.
    bullet("SELECT a / 2 IS NULL AS x FROM STREAM()", "columns x = a / (2 IS NULL)");
    expr("a = b IS NULL", "a = b IS NULL", "a = (b IS NULL)");
}

#[test]
fn functions() {
    expr("SIZEOF(a)", "SIZEOF(a)", "SIZEOF(a)");
    expr("SIZEOF a", "SIZEOF(a)", "SIZEOF(a)");
    expr("substr(a, 1)", "SUBSTRING(a, 1)", "SUBSTRING(a, 1)");
    expr("CAST(a AS Long)", "CAST(a AS LONG)", "CAST(a AS LONG)");
    expr("IF(a, b, c)", "IF(a, b, c)", "IF(a, b, c)");
    expr("FILTER(a, [true])", "FILTER(a, [true])", "FILTER(a, [true])");
    fault(Dialect::Native, "IF(a, b)", "2:1: IF takes 3 arguments, not 2");
    fault(Dialect::Native, "SUBSTR(a)", "2:1: SUBSTRING takes 2 to 3 arguments, not 1");
    fault(Dialect::Native, "UPER(a)", "2:1: no function `UPER`");
    fault(Dialect::Native, "CAST(a AS LIST[LONG])", "2:11: a value cannot be cast to LIST[LONG]");
    hint("SELECT UPER(a) FROM STREAM()", "Did you mean UPPER?");
    // Their names are no words of the native dialect unless they are called.
    native(
        "SELECT upper, filter, hash FROM STREAM()",
        "columns upper = \"upper\", filter = \"filter\", hash = \"hash\"",
    );
    fault(Dialect::Bullet, "upper", "2:6: expected `(`, found the end of the query");
}

#[test]
fn native_additions() {
    native("SELECT -a AS x FROM STREAM()", "columns x = -1 * a");
    native("SELECT a || 'x' AS x FROM STREAM()", "columns x = a || 'x'");
    native("SELECT a NOT LIKE 'x%' AS x FROM STREAM()", "columns x = a NOT LIKE 'x%'");
    native("SELECT COALESCE(a, b, 0) AS x FROM STREAM()", "columns x = COALESCE(a, b, 0)");
    native(
        "SELECT CASE WHEN a THEN 1 END AS x FROM STREAM()",
        "columns x = CASE WHEN a THEN 1 ELSE NULL END",
    );
    native(
        "SELECT CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'y' ELSE 'z' END AS x FROM STREAM()",
        "columns x = CASE WHEN a = 1 THEN 'x' WHEN a = 2 THEN 'y' ELSE 'z' END",
    );
    native("SELECT a BETWEEN 1 AND 2 AND b AS x FROM STREAM()", "columns x = a BETWEEN (1, 2) AND b");
    native("SELECT a BETWEEN (1) AND (b + 2) AS x FROM STREAM()", "columns x = a BETWEEN (1, b + 2)");
    native("SELECT CAST(a AS TIMESTAMP(S)) AS x FROM STREAM()", "columns x = CAST(a AS TIMESTAMP(S))");
    native("SELECT COUNT(a) FROM STREAM()", "aggregates #0 = COUNT(a) | columns COUNT(a) = #0");
    fault(Dialect::Native, "a = NOT b", "2:5: NOT binds more loosely than the operator before it");
    fault(Dialect::Bullet, "a LIKE 'x'", "2:3: Bullet's dialect has no LIKE");
    fault(Dialect::Bullet, "a || 'x'", "2:3: Bullet's dialect has no `||`");
    fault(Dialect::Bullet, "COALESCE(a, b)", "2:9: no function `COALESCE`");
    fault(Dialect::Bullet, "a BETWEEN 1 AND 2", "2:11: expected `(`, found `1`");
    fault(Dialect::Bullet, "-a", "2:2: expected a number, found `a`");
    fault(Dialect::Bullet, "a : TIMESTAMP", "2:5: expected a type, found `TIMESTAMP`");
}

#[test]
fn raw_queries() {
    both("SELECT a, b + 1 FROM STREAM()", "columns a = a, b + 1 = b + 1");
    both("SELECT a x, b AS \"y z\" FROM STREAM()", "columns x = a, y z = b");
    both("SELECT a, a FROM STREAM()", "columns a = a");
    native("SELECT a, a AS b FROM STREAM()", "columns a = a, b = a");
    bullet("SELECT a, a AS b FROM STREAM()", "columns b = a");
    native("SELECT a AS x, a AS y FROM STREAM()", "columns x = a, y = a");
    bullet("SELECT a AS x, a AS y FROM STREAM()", "an expression cannot have several aliases");
    native("SELECT a, b AS a FROM STREAM()", "1:16: two columns are named `a`");
    bullet("SELECT a, b AS a FROM STREAM()", "several columns have the same name: a");
    native("SELECT a : LONG, a : STRING FROM STREAM()", "1:18: two columns are named `a`");
    bullet("SELECT a : LONG, a : STRING FROM STREAM()", "columns a = a");
    native("SELECT a : LONG AS x, a : STRING AS y FROM STREAM()", "columns x = a : LONG, y = a : STRING");
    native("SELECT *, a AS b FROM STREAM()", "the event itself | columns b = a");
    bullet("SELECT *, a AS b FROM STREAM()", "the event itself without a | columns b = a");
    bullet("SELECT *, a AS b, b AS a FROM STREAM()", "the event itself | columns b = a, a = b");
    bullet("SELECT *, a AS b, a FROM STREAM()", "the event itself | columns b = a");
    both("SELECT a FROM STREAM() ORDER BY b DESC, c LIMIT 5", "columns a = a | order by b DESC, c | limit 5");
    both("SELECT a AS b, b AS a FROM STREAM() ORDER BY a", "columns b = a, a = b | order by b");
    both("SELECT a AS b, b AS a FROM STREAM() ORDER BY a + 5", "columns b = a, a = b | order by b + 5");
    both("SELECT m AS x FROM STREAM() ORDER BY x.k", "columns x = m | order by m.k");
    both("SELECT a + 1 FROM STREAM() ORDER BY \"a + 1\"", "columns a + 1 = a + 1 | order by a + 1");
    native("SELECT a AS Big FROM STREAM() ORDER BY big", "columns Big = a | order by a");
    bullet("SELECT a AS Big FROM STREAM() ORDER BY big", "columns Big = a | order by big");
    native("SELECT a, b + 1 FROM STREAM() ORDER BY 2", "columns a = a, b + 1 = b + 1 | order by b + 1");
    bullet("SELECT a FROM STREAM() ORDER BY 2", "columns a = a | order by 2");
    native("SELECT a FROM STREAM() ORDER BY 2", "1:33: there is no column 2: columns are 1 to 1");
    native("SELECT *, a FROM STREAM() ORDER BY 1", "1:36: a position is ambiguous after `*`");
    native("SELECT a FROM STREAM() LIMIT 0", "1:30: LIMIT must be above 0");
    bullet("SELECT a FROM STREAM() LIMIT 0", "LIMIT must be above 0");
    bullet("SELECT a FROM STREAM() LIMIT 99999999999", "LIMIT can be at most 2147483647");
}

#[test]
fn grouped_queries() {
    both("SELECT COUNT(*) FROM STREAM()", "aggregates #0 = COUNT(*) | columns COUNT(*) = #0");
    native(
        "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k ORDER BY n DESC LIMIT 3",
        "keys #0 = k | aggregates #1 = COUNT(*) | columns k = #0, n = #1 | order by #1 DESC | limit 3",
    );
    bullet(
        "SELECT SUM(a) / COUNT(*) AS m, SUM(a) FROM STREAM() GROUP BY k HAVING SUM(a) > 5 AND m < 7",
        "1:86: `m` is neither a key of the groups nor within an aggregate",
    );
    native(
        "SELECT SUM(a) / COUNT(*) AS m, SUM(a) FROM STREAM() GROUP BY k HAVING SUM(a) > 5 AND m < 7",
        "keys #0 = k | aggregates #1 = SUM(a), #2 = COUNT(*) | having #1 > 5 AND #1 / #2 < 7 \
         | columns m = #1 / #2, SUM(a) = #1",
    );
    both(
        "SELECT a + 5 FROM STREAM() GROUP BY a + 5 ORDER BY (a + 5) * 10",
        "keys #0 = a + 5 | columns a + 5 = #0 | order by #0 * 10",
    );
    both("SELECT a + 5 FROM STREAM() GROUP BY a", "keys #0 = a | columns a + 5 = #0 + 5");
    both("SELECT k FROM STREAM() GROUP BY k, k", "keys #0 = k | columns k = #0");
    both("SELECT a AS b, b + 1 FROM STREAM() GROUP BY a", "keys #0 = a | columns b = #0, b + 1 = #0 + 1");
    both("SELECT b + 1, a AS b FROM STREAM() GROUP BY a", "keys #0 = a | columns b + 1 = #0 + 1, b = #0");
    both(
        "SELECT AVG(a), \"AVG(a)\" + 5 FROM STREAM()",
        "aggregates #0 = AVG(a) | columns AVG(a) = #0, AVG(a) + 5 = #0 + 5",
    );
    both(
        "SELECT k FROM STREAM() GROUP BY k ORDER BY MAX(a) DESC",
        "keys #0 = k | aggregates #1 = MAX(a) | columns k = #0 | order by #1 DESC",
    );
    both("SELECT m.k FROM STREAM() GROUP BY m.k", "keys #0 = m.k | columns m.k = #0");
    both("SELECT m.k FROM STREAM() GROUP BY m", "keys #0 = m | columns m.k = #0['k']");
    both(
        "SELECT COUNT(*), 5 AS five FROM STREAM()",
        "aggregates #0 = COUNT(*) | columns COUNT(*) = #0, five = 5",
    );
    both("SELECT DISTINCT a, b AS c FROM STREAM()", "keys #0 = a, #1 = b | columns a = #0, c = #1");
    both(
        "SELECT DISTINCT a + 5, d AS a FROM STREAM() ORDER BY a + 5, a",
        "keys #0 = a + 5, #1 = d | columns a + 5 = #0, a = #1 | order by #0, #1",
    );
    native(
        "SELECT k AS x, COUNT(*) FROM STREAM() GROUP BY x",
        "keys #0 = k | aggregates #1 = COUNT(*) | columns x = #0, COUNT(*) = #1",
    );
    native(
        "SELECT LOWER(k), COUNT(*) FROM STREAM() GROUP BY 1",
        "keys #0 = LOWER(k) | aggregates #1 = COUNT(*) | columns LOWER(k) = #0, COUNT(*) = #1",
    );
    bullet(
        "SELECT COUNT(*) FROM STREAM() GROUP BY 1",
        "keys #0 = 1 | aggregates #1 = COUNT(*) | columns COUNT(*) = #1",
    );
    native("SELECT COUNT(*) FROM STREAM() GROUP BY 1", "1:40: an aggregate is not allowed in GROUP BY");
    native("SELECT k FROM STREAM() GROUP BY 2", "1:33: there is no column 2: columns are 1 to 1");
}

#[test]
fn faults_of_grouped_queries() {
    both(
        "SELECT a, COUNT(*) FROM STREAM()",
        "1:8: `a` is neither a key of the groups nor within an aggregate",
    );
    both(
        "SELECT a, b, COUNT(*) FROM STREAM() GROUP BY k",
        "1:8: `a` is neither a key of the groups nor within an aggregate; \
         1:11: `b` is neither a key of the groups nor within an aggregate",
    );
    both(
        "SELECT a + 1 AS a, COUNT(*) FROM STREAM()",
        "1:8: `a` is neither a key of the groups nor within an aggregate",
    );
    native("SELECT AVG(SUM(a)) FROM STREAM()", "1:12: an aggregate is not allowed inside an aggregate");
    bullet("SELECT AVG(SUM(a)) FROM STREAM()", "an aggregate is not allowed inside an aggregate");
    native("SELECT a FROM STREAM() WHERE SUM(a) > 5", "1:30: an aggregate is not allowed in WHERE");
    bullet("SELECT a FROM STREAM() WHERE SUM(a) > 5", "an aggregate is not allowed in WHERE");
    native("SELECT a FROM STREAM() GROUP BY SUM(a)", "1:33: an aggregate is not allowed in GROUP BY");
    bullet("SELECT a FROM STREAM() GROUP BY SUM(a)", "an aggregate is not allowed in GROUP BY");
    native("SELECT a FROM STREAM() HAVING a", "1:24: HAVING needs GROUP BY");
    bullet("SELECT a FROM STREAM() HAVING a", "HAVING needs GROUP BY");
    native("SELECT * FROM STREAM() GROUP BY a", "1:8: `*` and GROUP BY do not go together");
    bullet("SELECT * FROM STREAM() GROUP BY a", "the query is of several kinds at once");
    native("SELECT *, COUNT(*) FROM STREAM()", "1:8: `*` and aggregates do not go together");
    bullet("SELECT *, COUNT(*) FROM STREAM()", "the query is of several kinds at once");
    native("SELECT DISTINCT * FROM STREAM()", "1:17: DISTINCT and `*` do not go together");
    bullet("SELECT DISTINCT * FROM STREAM()", "the query is of several kinds at once");
    native("SELECT DISTINCT a FROM STREAM() GROUP BY a", "1:33: DISTINCT and GROUP BY do not go together");
    bullet("SELECT DISTINCT a FROM STREAM() GROUP BY a", "the query is of several kinds at once");
    native("SELECT DISTINCT SUM(a) FROM STREAM()", "1:8: DISTINCT and aggregates do not go together");
    bullet("SELECT DISTINCT SUM(a) FROM STREAM()", "the query is of several kinds at once");
    native("SELECT COUNT(*) AS a, SUM(b) AS a FROM STREAM()", "1:33: two columns are named `a`");
    bullet("SELECT COUNT(*) AS a, SUM(b) AS a FROM STREAM()", "several columns have the same name: a");
    bullet(
        "SELECT *, SUM(a) FROM STREAM() WHERE SUM(a) > 5 HAVING a",
        "an aggregate is not allowed in WHERE; HAVING needs GROUP BY; the query is of several kinds at once",
    );
    native(
        "SELECT *, SUM(a) FROM STREAM() WHERE SUM(a) > 5 HAVING a",
        "1:8: `*` and aggregates do not go together; 1:38: an aggregate is not allowed in WHERE; 1:49: HAVING needs \
         GROUP BY",
    );
}

#[test]
fn names_of_columns() {
    let name = |text: &str, expected: &str| {
        native(&format!("SELECT {text} FROM STREAM() ORDER BY \"{expected}\"").replace('\n', " "), &{
            let query = format!("SELECT {text} AS x FROM STREAM()");
            let plan = show(&query, &ParseOptions::new(Dialect::Native, NOW));
            let value = plan.strip_prefix("columns x = ").unwrap().to_owned();
            format!("columns {expected} = {value} | order by {value}")
        });
    };
    name("a  ==  5", "a = 5");
    name("((a + 5))", "a + 5");
    name("a * (5 + 1)", "a * (5 + 1)");
    name("a AND (b OR c)", "a AND b OR c");
    name("(SIZEOF(a)) + 5", "SIZEOF(a) + 5");
    name("substr(a, +5)", "SUBSTRING(a, 5)");
    name("a[0]['k'].b", "a[0]['k'].b");
    name("a : LONG + 1e10", "a + 1.0E10");
    name("'it''s'", "'it's'");
    name("cast(a as long)", "CAST(a AS LONG)");
    name("a between (1, 2)", "a BETWEEN (1, 2)");
    name("NOW", "NOW");
    name("TRUE", "true");
    name("5.0f", "5.0f");
    name("-a", "-a");
    name("CASE WHEN a THEN b END", "CASE WHEN a THEN b END");
}

#[test]
fn faults_point_and_advise() {
    both("", "the query is empty");
    native("  \n", "the query is empty");
    bullet("  \n", "2:1: expected SELECT, found the end of the query");
    both("not a query", "1:1: expected SELECT, found `not`");
    both("SELECT * FROM STREAM();\n ;", "2:2: expected the end of the query, found `;`");
    both("SELECT a FORM STREAM()", "1:15: expected `,` or FROM, found `STREAM`");
    hint("SELECT a FORM STREAM()", "Did you mean FROM rather than `FORM`?");
    hint("SELECT a FROM STREAM() WITH (ttl = '1 h')", "Write the options of a view, WITH (…), before AS.");
    hint("SELECT a FROM STREAM() WEHRE a", "Did you mean WHERE rather than `WEHRE`?");
    both("SELECT FROM STREAM()", "1:8: expected a select list, found `FROM`");
    both("SELECT a AS select FROM STREAM()", "1:13: expected a name, found `select`");
    hint("SELECT a AS 'x' FROM STREAM()", "Write names in double quotes, and text in single quotes.");
    both(
        "SELECT a FROM STREAM() WHERE a = 5 AND",
        "1:39: expected an expression, found the end of the query",
    );
    both("SELECT 'abc FROM STREAM()", "1:8: this string is not closed");
    native("SELECT COUNT() FROM STREAM()", "1:14: expected `*` or an expression, found `)`");
    bullet("SELECT COUNT() FROM STREAM()", "1:14: expected `*` or DISTINCT, found `)`");
    bullet(
        "SELECT a +, b FROM STREAM() WHERE = 5 ORDER BY LIMIT 0",
        "1:11: expected an expression, found `,`",
    );
    native(
        "SELECT a +, b FROM STREAM() WHERE = 5 ORDER BY LIMIT 0",
        "1:11: expected an expression, found `,`; 1:35: expected an expression, found `=`; \
         1:54: expected the end of the query, found `0`",
    );
    both("SELECT a FROM STREAM() ORDER BY a WHERE b", "1:35: WHERE must come before ORDER BY");
    both("SELECT a FROM STREAM() WHERE a WHERE b", "1:32: WHERE occurs twice");
    let errors =
        parse("SELECT a\nFROM STREAM()\nWHERE\ta ! b", &ParseOptions::new(Dialect::Native, NOW)).unwrap_err();
    assert_eq!(errors.to_string(), "3:9: unexpected `!`\nWHERE a ! b\n        ^\nWrite `NOT`, or `!=`.");
}

#[test]
fn limits() {
    let mut options = ParseOptions::new(Dialect::Native, NOW);
    options.text_bytes_max = 10;
    assert_eq!(show("SELECT * FROM STREAM()", &options), "the query has 22 bytes, the limit is 10");
    for dialect in [Dialect::Native, Dialect::Bullet] {
        let options = ParseOptions::new(dialect, NOW);
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("NOT ", ""),
            ("- ", ""),
            ("+ ", ""),
            ("SIZEOF ", ""),
            ("SIZEOF(", ")"),
            ("a[", "]"),
            ("CASE WHEN ", " THEN 1 END"),
            ("a + ", ""),
            ("a = ", ""),
            ("a IN ", ""),
            ("a IN (", ")"),
            ("a BETWEEN (1, ", ")"),
            ("CAST(", " AS LONG)"),
            ("a AND (b OR ", ")"),
            ("a.", ""),
            ("a : LIST[", "]"),
            ("SUM(", ")"),
            ("a XOR ", ""),
            ("a || ", ""),
            ("a IS NULL = ", ""),
        ] {
            for count in [100, 127, 129, 10_000] {
                let text = format!("SELECT {}a{} FROM STREAM()", open.repeat(count), close.repeat(count));
                let shown = show(&text, &options);
                assert!(count == 100 || !shown.is_empty(), "{open}");
            }
        }
    }
    // Long, but flat.
    let many = vec!["a"; 20_000];
    native(
        &format!("SELECT * FROM STREAM() WHERE {}", many.join(" OR ")),
        &format!("where {} | the event itself", many.join(" OR ")),
    );
    native(
        &format!("SELECT * FROM STREAM() WHERE a IN ({})", many.join(", ")),
        &format!("where a IN ({}) | the event itself", many.join(", ")),
    );
}

#[test]
fn columns_within_columns_cannot_explode() {
    let doubling: Vec<String> = (1..30).map(|n| format!("c{} + c{} AS c{n}", n - 1, n - 1)).collect();
    let text = format!("SELECT COUNT(*) AS c0, {} FROM STREAM()", doubling.join(", "));
    assert!(show(&text, &ParseOptions::new(Dialect::Native, NOW)).contains("this expression is too large"));
    let case =
        (0..20).fold("a".to_owned(), |inner, _| format!("CASE {inner} WHEN 1 THEN 2 WHEN 3 THEN 4 END"));
    let text = format!("SELECT {case} AS x FROM STREAM()");
    assert!(show(&text, &ParseOptions::new(Dialect::Native, NOW)).contains("this expression is too large"));
    let itself = "SELECT COUNT(*), a + 1 AS b, b + 1 AS a FROM STREAM()";
    assert!(show(itself, &ParseOptions::new(Dialect::Native, NOW)).contains("neither a key"));
}

#[test]
fn schemas() {
    let fields = [("id", Type::STRING), ("Delay", Type::LONG), ("tags", Type::map(Type::STRING).unwrap())];
    let schema = Schema::new(fields.map(|(name, ty)| (name.into(), ty)));
    let check = |dialect, text: &str, expected: &str| {
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(dialect, NOW) };
        assert_eq!(show(text, &options), expected, "{text}");
    };
    check(
        Dialect::Native,
        "SELECT delay, tags.x, new FROM STREAM()",
        "columns delay = Delay : LONG, tags.x = tags.x : MAP[STRING], new = new",
    );
    check(Dialect::Native, "SELECT \"delay\" FROM STREAM()", "columns delay = delay");
    check(Dialect::Bullet, "SELECT Delay FROM STREAM()", "columns Delay = Delay : LONG");
    check(
        Dialect::Bullet,
        "SELECT dleay, \"x y\" FROM STREAM()",
        "1:8: there is no field `dleay`; 1:15: there is no field `x y`",
    );
    check(Dialect::Bullet, "SELECT dleay : LONG FROM STREAM()", "columns dleay = dleay");
    check(
        Dialect::Bullet,
        "SELECT * FROM STREAM() WHERE id > 5",
        "1:30: `id > 5` needs two numbers or two STRINGs, not STRING, INTEGER",
    );
    check(Dialect::Native, "SELECT * FROM STREAM() WHERE id > 5", "where id : STRING > 5 | the event itself");
    check(
        Dialect::Bullet,
        "SELECT tags, COUNT(*) FROM STREAM() GROUP BY tags",
        "1:46: GROUP BY needs primitive values: `tags` is MAP[STRING]",
    );
    check(
        Dialect::Bullet,
        "SELECT SUM(id) FROM STREAM()",
        "1:8: `SUM(id)` needs a number or BOOLEAN, not STRING",
    );
    check(
        Dialect::Bullet,
        "SELECT id.x FROM STREAM()",
        "1:8: `id.x` is not possible: a value of type STRING has no keys",
    );
}

#[test]
fn a_query_knows_its_paths() {
    let text = "SELECT k, SUM(a.b) FROM STREAM() WHERE c > 1 AND k = 'x' GROUP BY k HAVING SUM(d : LONG) > 5";
    let query = parse(text, &ParseOptions::new(Dialect::Native, NOW)).unwrap().query;
    let paths: Vec<_> = query.paths().iter().map(|(path, ty)| format!("{path} {ty}")).collect();
    assert_eq!(paths, ["a.b ANY", "c ANY", "d LONG", "k ANY"]);
}
