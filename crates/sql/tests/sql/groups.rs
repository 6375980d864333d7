//! Compares groups by one text column with groups by that column and a constant one, which another operator computes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use arrow::array::{Float32Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;
use swiftwater_sql::{RecordBatch, RunOptions, SqlOptions, TableKind};

use crate::common::{MemoryTables, block_on, csv, sql};

/// A text of a number: of some a short one, of others a longer one, of one none.
fn text(number: u32) -> Option<String> {
    match number % 7 {
        0 if number == 0 => None,
        0 | 1 => Some(format!("{number}")),
        2 => Some(format!("a text that is longer than a view: {number}")),
        3 if number == 3 => Some(String::new()),
        _ => Some(format!("text {number:07}")),
    }
}

fn batch(numbers: &[(u32, Option<i8>)]) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("s", DataType::Utf8View, true),
        Field::new("x", DataType::Float32, true),
        Field::new("same", DataType::Int64, false),
    ]);
    let texts: StringViewArray = numbers.iter().map(|(number, _)| text(*number)).collect();
    let values: Float32Array = numbers.iter().map(|(_, value)| value.map(f32::from)).collect();
    let same = Int64Array::from(vec![1; numbers.len()]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts), Arc::new(values), Arc::new(same)]).unwrap()
}

const SELECTED: &str = "s, count(*) AS n, count(x) AS c, sum(x) AS total, avg(x) AS a, min(x) AS l, max(x) AS m, \
                        count(*) FILTER (WHERE x > 3) AS f, min(s) AS t";

/// The filters; those of one short text are run by `short_texts`, except for the one that is written otherwise.
const FILTERS: [&str; 5] = [
    "",
    "WHERE x > -50 AND s <> 'text 0000004'",
    "WHERE x > -50 AND s = 'text 0000004'",
    "WHERE s = '' OR '7' = s OR NOT (s = '8')",
    "WHERE (s = 'text 000') IS NULL OR s = 'text 0000006'",
];

/// The answers with this operator and without it, and true if the first plan has it.
fn both(batches: Vec<RecordBatch>, options: &SqlOptions, filter: &str) -> (String, String, bool) {
    let tables = Arc::new(MemoryTables::default());
    tables.put("t", TableKind::Table, batches[0].schema(), batches);
    let sql = sql(tables, options.clone());
    let ask = |text: String| block_on(csv(&sql, &text, RunOptions::default())).unwrap();
    let by = |columns: &str| format!("SELECT {SELECTED} FROM t {filter} GROUP BY {columns} ORDER BY s");
    let plan = ask(format!("EXPLAIN {}", by("s")));
    assert!(!ask(format!("EXPLAIN {}", by("s, same"))).contains("FewGroups"));
    (ask(by("s")), ask(by("s, same")), plan.contains("FewGroups"))
}

/// Threads enough that there are two stages.
fn options(batch_rows: usize) -> SqlOptions {
    SqlOptions { threads: 3, batch_rows, ..SqlOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn groups_by_text_are_those_that_are_found_otherwise(
        rows in prop::collection::vec((0..60_u32, prop::option::weighted(0.9, any::<i8>())), 1..900),
        spread in prop::sample::select(vec![1_u32, 7, 1_000]),
        batch_rows in 1..400_usize,
        filter in prop::sample::select(FILTERS.to_vec()),
    ) {
        let rows: Vec<_> = rows.into_iter().map(|(number, value)| (number * spread, value)).collect();
        let batches = rows.chunks(batch_rows).map(batch).collect();
        let (ours, theirs, is_ours) = both(batches, &options(batch_rows), filter);
        // If one text is all that is left, there is nothing to group.
        prop_assert!(is_ours || filter.contains("s = "));
        prop_assert_eq!(ours, theirs);
    }
}

#[test]
fn rows_of_a_short_text_are_those_of_that_text() {
    let rows: Vec<_> = (0..3_000_u32).map(|row| (row % 50, Some(1))).collect();
    let tables = Arc::new(MemoryTables::default());
    tables.put("t", TableKind::Table, batch(&rows).schema(), rows.chunks(700).map(batch).collect());
    let sql = sql(tables, SqlOptions::default());
    let ask = |text: &str| block_on(csv(&sql, text, RunOptions::default())).unwrap();
    for number in 0..50 {
        let counted = text(number).map(|text| {
            // As a text of which nothing is known when the plan is made.
            let other = format!("SELECT count(*) AS n FROM t WHERE substr(s, 1) = '{text}'");
            (ask(&format!("SELECT count(*) AS n FROM t WHERE s = '{text}'")), ask(&other))
        });
        assert!(counted.is_none_or(|(ours, theirs)| ours == theirs && ours == "n\n60\n"), "{number}");
    }
}

#[test]
fn many_groups_are_the_same_ones_whenever_they_turn_out_to_be_many() {
    // Few at first, in some partitions for long; then more than are kept, within a batch and over many batches.
    for (few, all) in [(0, 20_000), (3_000, 20_000), (11_900, 12_000)] {
        for each in [1_u32, 3] {
            let number = |row: u32| if row < few { row % 5 } else { row / each };
            let rows: Vec<_> = (0..all).map(|row| (number(row), Some((row % 100) as i8))).collect();
            for batch_rows in [500, 5_000] {
                let batches = rows.chunks(batch_rows).map(batch).collect();
                let (ours, theirs, is_ours) = both(batches, &options(8192), "");
                assert!(is_ours);
                assert_eq!(ours, theirs, "{few} of {all}, by {batch_rows}");
            }
        }
    }
}

#[test]
fn groups_whose_functions_hold_much_pass_their_memory_on() {
    let options = SqlOptions { memory_bytes_max: 4 << 20, ..options(8192) };
    let rows: Vec<_> = (0..200_000_u32).map(|row| (row % 40, Some((row % 100) as i8))).collect();
    let tables = Arc::new(MemoryTables::default());
    tables.put("t", TableKind::Table, batch(&rows).schema(), rows.chunks(5_000).map(batch).collect());
    let sql = sql(tables, options);
    let ask = |text: &str| block_on(csv(&sql, text, RunOptions::default())).unwrap();
    let text = "SELECT s, count(DISTINCT x) AS d, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s LIMIT 3";
    assert_eq!(ask(text), ask(&text.replace("GROUP BY s", "GROUP BY s, same")));
}
