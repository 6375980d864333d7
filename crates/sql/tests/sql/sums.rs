//! Compares sums of doubles with sums of the same numbers as whole numbers, over random rows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use swiftwater_sql::{RunOptions, Sql, SqlOptions, TableKind};

use crate::common::{Chance, MemoryTables, batches, block_on, sql};

/// Numbers are whole multiples of two to the power of minus this.
const SCALE: i32 = 40;
const GROUPS: u64 = 5;

/// A number with the same in units.
fn number(chance: &mut Chance) -> (f64, i128) {
    let units = i128::from(chance.below(1 << 24)) << chance.below(2 * SCALE as u64);
    let units = if chance.below(2) == 0 { units } else { -units };
    (units as f64 * 2f64.powi(-SCALE), units)
}

fn double(units: i128) -> f64 {
    units as f64 * 2f64.powi(-SCALE)
}

struct Rows {
    /// Group, distinct key, number.
    rows: Vec<(i64, i64, f64, i128)>,
}

fn rows(chance: &mut Chance, count: usize) -> Rows {
    let rows = (0..count).map(|_| {
        let (x, units) = number(chance);
        (chance.below(GROUPS) as i64, chance.below(7) as i64, x, units)
    });
    Rows { rows: rows.collect() }
}

fn over(rows: &Rows, batch_rows: usize) -> Sql {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("g", DataType::Int64, true),
        Field::new("k", DataType::Int64, true),
        Field::new("x", DataType::Float64, true),
    ]));
    let numbered: Vec<_> = rows.rows.iter().enumerate().collect();
    let batches = numbered.chunks(batch_rows).map(|rows| {
        let columns: Vec<Arc<dyn Array>> = vec![
            Arc::new(rows.iter().map(|(i, _)| *i as i64).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|(_, row)| row.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|(_, row)| row.1).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|(_, row)| row.2).collect::<Float64Array>()),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    });
    let tables = Arc::new(MemoryTables::default());
    tables.put("t", TableKind::Table, Arc::clone(&schema), batches.collect());
    sql(tables, SqlOptions { batch_rows: 16, ..SqlOptions::default() })
}

/// Rows of a whole number and a double.
fn pairs(sql: &Sql, text: &str) -> Vec<(i64, f64)> {
    let (_, batches) = block_on(batches(sql, text, RunOptions::default())).unwrap();
    let mut pairs = Vec::new();
    for batch in &batches {
        let keys = batch.column(0).as_primitive::<Int64Type>();
        let values = batch.column(1).as_primitive::<Float64Type>();
        pairs.extend(keys.values().iter().copied().zip(values.values().iter().copied()));
    }
    pairs
}

#[test]
fn sums_of_doubles_are_rounded_once() {
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6);
    for seed in 0..cases {
        let mut chance = Chance(seed);
        let (count, batch_rows) = (1 + chance.below(200) as usize, 1 + chance.below(40) as usize);
        let rows = rows(&mut chance, count);
        let sql = over(&rows, batch_rows);
        let mut by_group: BTreeMap<i64, (i128, i128)> = BTreeMap::new();
        for (group, _, _, units) in &rows.rows {
            let entry = by_group.entry(*group).or_default();
            *entry = (entry.0 + units, entry.1 + 1);
        }
        let sums: Vec<(i64, f64)> = by_group.iter().map(|(g, (units, _))| (*g, double(*units))).collect();
        let averages: Vec<(i64, f64)> =
            by_group.iter().map(|(g, (units, count))| (*g, double(*units) / *count as f64)).collect();
        assert_eq!(pairs(&sql, "SELECT g, sum(x) FROM t GROUP BY g ORDER BY g"), sums, "seed {seed}");
        assert_eq!(pairs(&sql, "SELECT g, avg(x) FROM t GROUP BY g ORDER BY g"), averages, "seed {seed}");
        let beside = "SELECT g, sum(x), count(DISTINCT k) FROM t GROUP BY g ORDER BY g";
        assert_eq!(pairs(&sql, beside), sums, "seed {seed}");
        let beside = "SELECT g, avg(x), count(DISTINCT k), sum(DISTINCT k) FROM t GROUP BY g ORDER BY g";
        assert_eq!(pairs(&sql, beside), averages, "seed {seed}");
        let whole: i128 = rows.rows.iter().map(|row| row.3).sum();
        assert_eq!(
            pairs(&sql, "SELECT count(*), sum(x) FROM t"),
            [(count as i64, double(whole))],
            "seed {seed}"
        );
        let width = 1 + chance.below(9) as usize;
        let frame = format!(
            "SELECT i, sum(x) OVER (ORDER BY i ROWS BETWEEN {width} PRECEDING AND CURRENT ROW) FROM t ORDER BY i"
        );
        let moving: Vec<(i64, f64)> = (0..count)
            .map(|i| {
                let units: i128 = rows.rows[i.saturating_sub(width)..=i].iter().map(|row| row.3).sum();
                (i as i64, double(units))
            })
            .collect();
        assert_eq!(pairs(&sql, &frame), moving, "seed {seed}");
    }
}
