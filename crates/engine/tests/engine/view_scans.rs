//! Tests that a statement over a view reads by key the rows that it may need, and that its answer is that of the whole view.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{fmt::Write, time::Duration};

use swiftwater_testkit::Rng;

use crate::{
    history::{append, sql, stop},
    views::open,
};

/// Statements about each view that are tried.
const STATEMENTS: usize = 10;

/// Views, with their key columns; those of `u` have no declared types.
const VIEWS: [(&str, &[&str], &str); 9] = [
    ("of_b", &["b"], "SELECT b, COUNT(*) AS n, SUM(x) AS total FROM STREAM(s) GROUP BY b"),
    ("of_l", &["l"], "SELECT COUNT(*) AS n, l, SUM(x) AS total FROM STREAM(s) GROUP BY l"),
    ("of_d", &["d"], "SELECT d, COUNT(*) AS n FROM STREAM(s) GROUP BY d"),
    ("of_t", &["t"], "SELECT t, COUNT(*) AS n FROM STREAM(s) GROUP BY t HAVING COUNT(*) > 1"),
    ("of_at", &["at"], "SELECT at, COUNT(*) AS n FROM STREAM(s) GROUP BY at"),
    ("of_ltd", &["l", "t", "d"], "SELECT t, d, l, COUNT(*) AS n FROM STREAM(s) GROUP BY l, t, d"),
    (
        "of_windows",
        &["window_start", "l"],
        "SELECT window_start, l, COUNT(*) AS n FROM STREAM(s) GROUP BY l WINDOWING TUMBLING(10, EVENT(ms, 1000))",
    ),
    ("untyped", &["l", "d"], "SELECT l, d, COUNT(*) AS n FROM STREAM(u) GROUP BY l, d"),
    ("untyped_text", &["t"], "SELECT t, COUNT(*) AS n FROM STREAM(u) GROUP BY t"),
];

const LONGS: [&str; 9] =
    ["-3", "0", "1", "2", "3", "40", "9007199254740992", "9007199254740993", "-9223372036854775807"];
const DOUBLES: [&str; 9] = ["-0.0", "0.0", "1.5", "2", "-2.25", "9007199254740992", "1e300", "-1e300", "0.1"];
const TEXTS: [&str; 9] = ["", "a", "ab", "abc", "b", "5", "true", "NaN", "ä"];
const TIMES: [&str; 4] =
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.5Z", "2026-06-01T12:00:00Z"];
const STARTS: [&str; 4] = ["0", "10000", "20000", "90000"];

fn one<'t>(rng: &mut Rng, of: &[&'t str]) -> &'t str {
    of[rng.below(of.len())]
}

fn events(rng: &mut Rng, is_typed: bool, count: usize) -> String {
    let mut events = String::new();
    for number in 0..count {
        let _ = write!(events, "{{\"x\":{number},\"ms\":{}", rng.below(60_000));
        for (field, values) in [("l", &LONGS[..]), ("d", &DOUBLES), ("t", &TEXTS), ("at", &TIMES)] {
            if rng.below(6) == 0 {
                continue;
            }
            let mut value = one(rng, values);
            if !is_typed && field == "d" && value.len() > 12 {
                value = "7";
            }
            let _ = match field {
                "t" if !is_typed && rng.below(3) == 0 => write!(events, ",\"t\":true"),
                "t" | "at" => write!(events, ",\"{field}\":\"{value}\""),
                "d" if rng.below(8) == 0 => write!(events, ",\"d\":\"NaN\""),
                _ => write!(events, ",\"{field}\":{value}"),
            };
        }
        if rng.below(4) > 0 {
            let _ = write!(events, ",\"b\":{}", rng.below(2) == 0);
        }
        events.push_str("}\n");
    }
    events.pop();
    events
}

fn literal(rng: &mut Rng, column: &str) -> String {
    match column {
        "b" => one(rng, &["true", "false"]).to_owned(),
        "l" if rng.below(8) == 0 => one(rng, &["1.5", "2.0", "-0.5", "CAST(3 AS INTEGER)"]).to_owned(),
        "l" => one(rng, &LONGS).to_owned(),
        "window_start" => one(rng, &STARTS).to_owned(),
        "d" if rng.below(8) == 0 => "CAST('NaN' AS DOUBLE)".to_owned(),
        "d" => format!("CAST({} AS DOUBLE)", one(rng, &DOUBLES)),
        "at" => format!("TIMESTAMP '{}'", one(rng, &TIMES)),
        _ => format!("'{}'", one(rng, &TEXTS)),
    }
}

fn predicate(rng: &mut Rng, columns: &[&str], depth: usize) -> String {
    if depth > 0 && rng.below(2) == 0 {
        let (left, right) = (predicate(rng, columns, depth - 1), predicate(rng, columns, depth - 1));
        return match rng.below(5) {
            0 | 1 => format!("({left} AND {right})"),
            2 | 3 => format!("({left} OR {right})"),
            _ => format!("(NOT {left})"),
        };
    }
    let column = one(rng, columns);
    let (one_value, other) = (literal(rng, column), literal(rng, column));
    match rng.below(9) {
        0 | 1 => format!("{column} = {one_value}"),
        2 => format!("{column} {} {one_value}", one(rng, &["<", "<=", ">", ">=", "<>"])),
        3 => format!("{one_value} {} {column}", one(rng, &["<", "<=", ">", ">=", "="])),
        4 => format!("{column} BETWEEN {one_value} AND {other}"),
        5 => {
            let more: Vec<String> = (0..rng.below(6)).map(|_| literal(rng, column)).collect();
            let null = if rng.below(4) == 0 { ", NULL" } else { "" };
            format!(
                "{column} IN ({one_value}, {other}{}{null})",
                more.iter().fold(String::new(), |all, one| all + ", " + one)
            )
        }
        6 => format!("{column} IS {}NULL", one(rng, &["", "NOT "])),
        7 if matches!(column, "t") => {
            format!("t LIKE '{}'", one(rng, &["a%", "ab%", "_b%", "a", "%", "tr%", "N%"]))
        }
        7 if column == "b" => {
            one(rng, &["b", "NOT b", "b IS TRUE", "b IS FALSE", "b IS NOT TRUE"]).to_owned()
        }
        _ => format!("{column} IS NOT DISTINCT FROM {one_value}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_keys_answer_as_over_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(
        &engine,
        "CREATE STREAM s (b BOOLEAN, l LONG, d DOUBLE, t STRING, at TIMESTAMP(ms), ms LONG, x LONG)",
    )
    .await;
    sql(&engine, "CREATE STREAM u WITH (store = true)").await;
    for (name, _, query) in VIEWS {
        sql(&engine, &format!("CREATE MATERIALIZED VIEW {name} AS {query}")).await;
    }
    let mut rng = Rng::new(11);
    for _ in 0..2 {
        append(&engine, "s", &events(&mut rng, true, 150), None).await;
        append(&engine, "u", &events(&mut rng, false, 150), None).await;
        for (name, keys, _) in VIEWS {
            for number in 0..STATEMENTS {
                let condition = predicate(&mut rng, keys, 2);
                let (order, first) = (keys.join(", "), keys[0]);
                let columns = if number % 2 == 0 { "*" } else { first };
                // A filter does not go below a limit.
                let whole = format!("(SELECT * FROM {name} LIMIT 1000000) AS whole");
                for (what, end) in
                    [(columns, format!("ORDER BY {order}, n")), ("count(*) AS c", String::new())]
                {
                    let asked = format!("SELECT {what} FROM {name} WHERE {condition} {end}");
                    let naive = format!("SELECT {what} FROM {whole} WHERE {condition} {end}");
                    assert_eq!(sql(&engine, &asked).await, sql(&engine, &naive).await, "{asked}");
                }
            }
            let counted = sql(&engine, &format!("SELECT count(*) AS c FROM {name}")).await;
            let rows = sql(&engine, &format!("SELECT * FROM {name}")).await.lines().count();
            assert_eq!(counted, format!("{{\"c\":{rows}}}\n"), "{name}");
            let some = sql(&engine, &format!("SELECT n FROM {name} LIMIT 2")).await.lines().count();
            assert_eq!(some, rows.min(2), "{name}");
        }
    }
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statement_reads_the_keys_that_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM s (k LONG, t STRING)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT k, t, COUNT(*) AS n FROM STREAM(s) GROUP BY k, t")
        .await;
    let events: Vec<String> =
        (0..1000).map(|number| format!("{{\"k\":{},\"t\":\"t{}\"}}", number / 10, number % 10)).collect();
    append(&engine, "s", &events.join("\n"), None).await;
    for (condition, shown, read) in [
        ("k = 5 AND t = 't3'", "k = Int64(5)", 1),
        ("k = 5", "k = Int64(5)", 10),
        ("k IN (5, 7, 8, 9, 2000)", "k IN ", 40),
        ("k IN (5, 7, 8, 9) AND t LIKE 't3%'", "k IN ", 4),
        ("k BETWEEN 5 AND 6", "k >= Int64(5)", 20),
        ("k IS NULL", "k IS NULL", 0),
        ("k = 5 OR k >= 99", "k = Int64(5) OR ", 20),
        ("t = 't3'", "t = ", 1000),
        ("n = 1", "keys=[all]", 1000),
    ] {
        let plan = sql(&engine, &format!("EXPLAIN SELECT n FROM v WHERE {condition}")).await;
        assert!(plan.contains("ViewExec: keys=[") && plan.contains(shown), "{condition}: {plan}");
        let plan = sql(&engine, &format!("EXPLAIN ANALYZE SELECT n FROM v WHERE {condition}")).await;
        let found = plan.split_once("keys_read=").map(|(_, rest)| rest.split([']', ',']).next().unwrap());
        // Large numbers are shown so.
        let read = if read == 1000 { "1.00 K".to_owned() } else { read.to_string() };
        assert_eq!(found, Some(&read[..]), "{condition}: {plan}");
    }
    let plan = sql(&engine, "EXPLAIN SELECT count(*) FROM v").await;
    assert!(plan.contains("keys=[all], columns=[]"), "{plan}");
    stop(engine, Duration::from_secs(5)).await;
}
