//! Tests where Bullet's dialect reports an error: at the first word that cannot be there, and nowhere else.

mod common;

use common::bullet;

/// A query and the place of its only fault.
#[track_caller]
fn at(text: &str, place: &str) {
    let shown = common::show(
        text,
        &swiftwater_lang::ParseOptions::new(swiftwater_lang::Dialect::Bullet, common::NOW),
    );
    let (found, _) = shown.split_once(": ").unwrap_or((&shown, ""));
    assert_eq!((found, shown.matches("; ").count()), (place, 0), "{text}\n{shown}");
}

#[test]
fn the_first_word_that_cannot_be() {
    at("SELECT foo(a) FROM STREAM()", "1:11");
    at("SELECT NOW() FROM STREAM()", "1:11");
    at("SELECT first(a) FROM STREAM()", "1:13");
    at("SELECT a NOT LIKE 'x' FROM STREAM()", "1:14");
    at("SELECT a NOT b FROM STREAM()", "1:14");
    at("SELECT ABS a FROM STREAM()", "1:12");
    at("SELECT ABS(a, b) FROM STREAM()", "1:13");
    at("SELECT SIZEIS(a) FROM STREAM()", "1:16");
    at("SELECT SIZEIS(a, 1, 2) FROM STREAM()", "1:19");
    at("SELECT a FROM STREAM WHERE a", "1:22");
    at("SELECT a FROM (b)", "1:16");
    at("SELECT a : LIST[LIST[LONG]] FROM STREAM()", "1:17");
    at("SELECT a : LIST[TIMESTAMP] FROM STREAM()", "1:17");
    at("SELECT a : LIST FROM STREAM()", "1:17");
    at("SELECT a : STRING_MAP FROM STREAM()", "1:12");
    at("SELECT CAST(a AS LIST[LONG]) FROM STREAM()", "1:18");
    at("SELECT CAST(a, LONG) FROM STREAM()", "1:14");
    at("SELECT EXPLODE a FROM STREAM()", "1:16");
    at("SELECT OUTER a FROM STREAM()", "1:14");
    at("SELECT 1 + EXPLODE(a) FROM STREAM()", "1:12");
    at("SELECT ünder FROM STREAM()", "1:8");
    at("SELECT aé FROM STREAM()", "1:9");
    at("SELECT 1e3x FROM STREAM()", "1:8");
    at("SELECT a FROM STREAM()\u{a0}", "1:23");
    at("SELECT a FROM STREAM() -- all", "1:24");
    at("SELECT a FROM STREAM(5L, TIME)", "1:22");
    at("SELECT a FROM STREAM(-5, TIME)", "1:22");
    at("SELECT a FROM STREAM() LIMIT 5L", "1:30");
    at("SELECT a FROM STREAM() LIMIT -5", "1:30");
    at("SELECT a FROM STREAM() GROUP BY ROLLUP(a)", "1:39");
    at("SELECT a FROM STREAM() GROUP BY GROUPING SETS ((a))", "1:42");
    at("EXPLAIN SELECT a FROM STREAM()", "1:1");
    at("SELECT a FROM STREAM() WHERE a = = b ORDER FROM LIMIT", "1:34");
    at("SELECT a b c, d FROM STREAM() WHERE 'x", "1:12");
    at("SELECT 'x, 5x FROM STREAM()", "1:8");
}

#[test]
fn what_may_run_on() {
    bullet("SELECT 5.5b, 5.x FROM STREAM()", "columns b = 5.5, x = 5.0");
    bullet("SELECT now.x, now FROM STREAM()", "columns now.x = \"now\".x, 1700000000123L = 1700000000123L");
    bullet("SELECT CASE WHEN FROM STREAM()", "columns WHEN = \"CASE\"");
}

#[test]
fn a_number_that_is_too_large_is_a_fault_of_the_whole_and_comes_last() {
    bullet("SELECT 99999999999999999999 FROM STREAM()", "a number is out of the range of LONG");
    bullet("SELECT 99999999999999999999 FROM STREAM() LIMIT 0 LIMIT", "1:51: LIMIT occurs twice");
    bullet(
        "SELECT a FROM STREAM(99999999999999999999, TIME) LIMIT 99999999999",
        "a duration can be at most 9223372036854775807",
    );
    bullet("SELECT 1e999 AS x FROM STREAM()", "columns x = Infinity");
}

#[test]
fn what_is_told_once() {
    let text = "SELECT 'a' + 1, ('a' + 1) * 2, SUM('a' + 1) FROM STREAM() GROUP BY 'a' + 1";
    // Keys are looked at first, and what stands for a key behind them not again.
    bullet(text, "1:68: `'a' + 1` needs two numbers, not STRING, INTEGER");
    bullet(
        "SELECT 'a' + 1, 'a' + 1 AS x, SUM('a' + 1) FROM STREAM()",
        "1:8: `'a' + 1` needs two numbers, not STRING, INTEGER; 1:35: `'a' + 1` needs two numbers, not STRING, INTEGER",
    );
    bullet(
        "SELECT a FROM STREAM() WHERE IF(a, 1) OR UPPER(5) = 1 AND UPPER(5) = 2",
        // Nothing is told of a function with an operand of unknown type, not even that one is missing.
        "1:42: `UPPER(5)` needs a STRING, not INTEGER; \
         1:42: `UPPER(5) = 1` needs operands that can be compared, not STRING, INTEGER; \
         1:59: `UPPER(5) = 2` needs operands that can be compared, not STRING, INTEGER",
    );
}
