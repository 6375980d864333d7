//! Tests of GROUPING SETS, ROLLUP, CUBE and GROUPING: the resulting sets, or the errors.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{NOW, bullet, native, show};
use swiftwater_lang::{Dialect, ParseOptions, parse_typed};

#[test]
fn sets_of_keys() {
    let sets = |by: &str, expected: &str| {
        let text = format!("SELECT COUNT(*) AS n FROM STREAM() GROUP BY {by}");
        native(
            &text,
            &format!(
                "{expected} | aggregates {} = COUNT(*) | columns n = {}",
                slot(expected),
                slot(expected)
            ),
        );
    };
    sets("GROUPING SETS (a, b)", "keys #0 = a, #1 = b | grouping sets (#0), (#1)");
    sets("GROUPING SETS ((a), (b, c), ())", "keys #0 = a, #1 = b, #2 = c | grouping sets (#0), (#1, #2), ()");
    sets("ROLLUP (a, b)", "keys #0 = a, #1 = b | grouping sets (#0, #1), (#0), ()");
    sets("rollup ((a, b), c.d)", "keys #0 = a, #1 = b, #2 = c.d | grouping sets (#0, #1, #2), (#0, #1), ()");
    sets("CUBE (a, b)", "keys #0 = a, #1 = b | grouping sets (#0, #1), (#0), (#1), ()");
    sets("a, GROUPING SETS (b, c)", "keys #0 = a, #1 = b, #2 = c | grouping sets (#0, #1), (#0, #2)");
    sets("GROUPING SETS (CUBE (a), (a, a))", "keys #0 = a | grouping sets (#0), (), (#0)");
    // Not sets: an expression in parentheses, and fields that have the names.
    sets("(a)", "keys #0 = a");
    sets("(a + b) * c", "keys #0 = (a + b) * c");
    sets("rollup, \"cube\"", "keys #0 = rollup, #1 = cube");
    sets("grouping", "keys #0 = grouping");
    sets("(a, b), c", "keys #0 = a, #1 = b, #2 = c | grouping sets (#0, #1, #2)");
}

fn slot(keys: &str) -> String {
    format!("#{}", keys.matches(" = ").count())
}

#[test]
fn what_a_row_is_of() {
    native(
        "SELECT a, GROUPING(a) AS g, GROUPING(b, a) AS h, window_start FROM STREAM() GROUP BY ROLLUP (a, b) \
         HAVING GROUPING_ID() < 3 ORDER BY g WINDOWING TUMBLING(5, TIME)",
        "keys #0 = a, #1 = b | grouping sets (#0, #1), (#0), () | bits #2 = GROUPING(#0), #3 = GROUPING(#1, #0), \
         #4 = GROUPING(#0, #1) | having #4 < 3 | columns a = #0, g = #2, h = #3, window_start = #5 | order by #2 | \
         window every 5 ms of arrival",
    );
}

#[test]
fn grouping_is_the_same_before_a_list_of_rows_and_behind_it() {
    let options = ParseOptions { lists_rows: true, ..ParseOptions::new(Dialect::Native, NOW) };
    let check = |items: &str, columns: &str, types: &[&str]| {
        let text = format!("SELECT {items} FROM STREAM() GROUP BY ROLLUP (a) HAVING g = 1 ORDER BY g");
        let groups = "keys #0 = a | grouping sets (#0), () | aggregates #1 = COUNT(*) | rows as a list #2 = TOP(2, n) \
             | bits #3 = GROUPING(#0) | having #3 = 1";
        assert_eq!(show(&text, &options), format!("{groups} | columns {columns} | order by #3"));
        let (_, columns) = parse_typed(&text, &options).unwrap();
        let told: Vec<String> = columns.unwrap().iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        assert_eq!(told, types);
    };
    check(
        "GROUPING(a) AS g, COUNT(*) AS c, TOP(2, n) AS top",
        "g = #3, c = #1, top = #2",
        &["g LONG", "c LONG", "top ANY"],
    );
    check(
        "TOP(2, n) AS top, COUNT(*) AS c, GROUPING(a) AS g",
        "top = #2, c = #1, g = #3",
        &["top ANY", "c LONG", "g LONG"],
    );
    check(
        "GROUPING(a) + 1 AS h, TOP(2, n) AS top, COUNT(*) AS c, GROUPING(a) AS g",
        "h = #3 + 1, top = #2, c = #1, g = #3",
        &["h LONG", "top ANY", "c LONG", "g LONG"],
    );
}

#[test]
fn faults() {
    native(
        "SELECT GROUPING(c) AS g FROM STREAM() GROUP BY ROLLUP (a)",
        "1:17: this is not a key of GROUP BY",
    );
    native("SELECT a FROM STREAM() WHERE GROUPING(a) = 1 GROUP BY a", "1:30: GROUPING is not allowed here");
    native("SELECT GROUPING(a) AS g FROM STREAM()", "1:8: GROUPING is not allowed here");
    native(
        "SELECT a FROM STREAM() GROUP BY CUBE (a, b, c, d, e, f, g, h, i, j, k)",
        "1:33: a query has at most 1024 grouping sets",
    );
    native(
        "SELECT a FROM STREAM() GROUP BY CUBE (a, b, c, d, e, f), CUBE (g, h, i, j, k)",
        "1:58: a query has at most 1024 grouping sets",
    );
    native(
        "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY ROLLUP (a) WINDOWING SESSION(5, TIME)",
        "1:59: a session belongs to one group, and grouping sets put an event into several",
    );
    bullet("SELECT COUNT(*) FROM STREAM() GROUP BY ROLLUP (a)", "1:47: no function `ROLLUP`");
}
