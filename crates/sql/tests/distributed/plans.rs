//! Plans whose form or rows are hard on an exchange between machines. Each returns what one machine returns.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use futures_util::StreamExt;
use swiftwater_sql::{RunOptions, Sql, SqlOptions, TableKind};

use crate::common::{self, MemoryTables};

/// A table of two columns: `k` by a function of the row, and `t`, a text of so many bytes.
fn texts(
    tables: &MemoryTables,
    name: &str,
    batches: usize,
    rows: usize,
    bytes: usize,
    key: impl Fn(i64) -> i64,
) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("t", DataType::Utf8, true),
    ]));
    let batch = |batch: usize| {
        let numbers = || (0..rows).map(move |row| (batch * rows + row) as i64);
        let text = |number: i64| format!("{}{number:05}", "x".repeat(bytes.saturating_sub(5)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(numbers().map(&key))),
            Arc::new(StringArray::from_iter_values(numbers().map(text))),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    tables.put(name, TableKind::Table, Arc::clone(&schema), (0..batches).map(batch).collect());
}

/// Runs statements over the same tables on three workers and on one machine. Those that are listed must have run on workers.
fn same_as_alone(tables: MemoryTables, statements: &[&str]) {
    let tables = Arc::new(tables);
    let options = SqlOptions { threads: 2, ..SqlOptions::default() };
    let sql = crate::start(options.clone(), Arc::clone(&tables));
    let alone = Sql::new(options, tables).unwrap();
    for text in statements {
        let run = |sql: &Sql| common::block_on(common::csv(sql, text, RunOptions::default())).unwrap();
        let before = sql.distribution().unwrap();
        assert_eq!(run(&sql), run(&alone), "{text}");
        let after = sql.distribution().unwrap();
        assert_eq!((after.divided, after.run_here), (before.divided + 1, before.run_here), "{text}");
    }
}

#[test]
fn one_scan_on_both_sides_of_a_join() {
    let tables = MemoryTables::default();
    common::numbers(&tables, "n", 6, 1000);
    same_as_alone(
        tables,
        &[
            "WITH a AS (SELECT k, g FROM n WHERE k % 3 < 2) SELECT count(*), sum(x.k), sum(y.g) FROM a x JOIN a y ON x.k = y.k",
            "WITH a AS (SELECT g, count(*) AS c, max(k) AS m FROM n GROUP BY g) SELECT x.g, x.c, y.m FROM a x JOIN a y ON x.g = y.g ORDER BY x.g",
            "WITH a AS (SELECT k, g FROM n), b AS (SELECT g, sum(k) AS s FROM a GROUP BY g), c AS (SELECT g, min(k) AS s FROM a GROUP BY g) \
             SELECT b.g, b.s, c.s, count(*) FROM b JOIN c ON b.g = c.g JOIN a ON a.g = b.g GROUP BY b.g, b.s, c.s ORDER BY b.g",
        ],
    );
}

#[test]
fn rows_that_are_many_times_what_an_exchange_holds() {
    let tables = MemoryTables::default();
    // 48 MB on each side. A join reads one side to its end before it begins the other one, whose buffers are full by then.
    texts(&tables, "x", 12, 200, 20_000, |number| number);
    texts(&tables, "y", 12, 200, 20_000, |number| number * 7 % 2400);
    same_as_alone(
        tables,
        &[
            "SELECT count(*), sum(length(x.t) + length(y.t)) FROM x JOIN y ON x.k = y.k",
            "SELECT count(*) FROM x JOIN y ON x.t = y.t",
            "SELECT count(*) FROM (SELECT t FROM x UNION SELECT t FROM y) AS u",
        ],
    );
}

#[test]
fn a_key_that_most_rows_have() {
    let tables = MemoryTables::default();
    texts(&tables, "x", 12, 1000, 20, |number| if number % 10 < 9 { 1 } else { number });
    texts(&tables, "y", 6, 100, 20, |number| number);
    same_as_alone(
        tables,
        &[
            "SELECT k, count(*) AS c, min(t) AS t FROM x GROUP BY k ORDER BY k",
            "SELECT x.k, count(*) AS c, max(y.t) AS t FROM x JOIN y ON x.k = y.k GROUP BY x.k ORDER BY x.k",
            "SELECT k, t, row_number() OVER (PARTITION BY k ORDER BY t) AS r FROM x ORDER BY k, t",
        ],
    );
}

#[test]
fn stages_without_rows() {
    let tables = MemoryTables::default();
    common::numbers(&tables, "n", 6, 1000);
    texts(&tables, "none", 3, 0, 1, |number| number);
    same_as_alone(
        tables,
        &[
            "SELECT g, count(*) AS c FROM n WHERE k < 0 GROUP BY g",
            "SELECT count(*) AS c, sum(k) AS s, max(s) AS m FROM n WHERE k < 0",
            "SELECT n.k, none.t FROM n LEFT JOIN none ON n.k = none.k WHERE n.k < 5 ORDER BY n.k",
            "SELECT count(*) AS c FROM n JOIN none ON n.k = none.k",
            "SELECT k FROM n WHERE k NOT IN (SELECT k FROM none) ORDER BY k LIMIT 3",
        ],
    );
}

#[test]
fn a_thousand_columns() {
    let tables = MemoryTables::default();
    let fields = (0..1000).map(|column| Field::new(format!("c{column}"), DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |batch: i64| {
        let column = |column: i64| {
            Arc::new(Int64Array::from_iter_values((0..20).map(|row| batch * 20 + row + column)))
        };
        let columns = (0..1000).map(|number| column(number) as ArrayRef).collect();
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    tables.put("wide", TableKind::Table, Arc::clone(&schema), (0..6).map(batch).collect());
    let sums: Vec<String> = (0..1000).map(|column| format!("sum(c{column}) AS s{column}")).collect();
    let sums = format!("SELECT c0 % 3 AS g, {} FROM wide GROUP BY c0 % 3 ORDER BY g", sums.join(", "));
    same_as_alone(tables, &["SELECT * FROM wide ORDER BY c0", &sums]);
}

#[test]
fn texts_of_ten_megabytes() {
    let tables = MemoryTables::default();
    texts(&tables, "x", 3, 1, 10 << 20, |number| number);
    same_as_alone(
        tables,
        &[
            "SELECT k, length(t) AS l, right(t, 3) AS r FROM x ORDER BY k",
            "SELECT t, count(*) AS c FROM x GROUP BY t ORDER BY t",
        ],
    );
}

#[test]
fn a_reader_that_stops_for_a_while_gets_all_rows() {
    let tables = Arc::new(MemoryTables::default());
    texts(&tables, "x", 30, 100, 20_000, |number| number);
    let sql = crate::start(SqlOptions { threads: 2, ..SqlOptions::default() }, tables);
    common::block_on(async {
        let mut rows = sql.run("SELECT k, t FROM x", RunOptions::default()).await.unwrap();
        let mut count = rows.next().await.unwrap().unwrap().num_rows();
        // Others run meanwhile.
        for _ in 0..3 {
            let other = common::csv(&sql, "SELECT count(*) AS c, max(t) AS t FROM x", RunOptions::default());
            assert!(other.await.unwrap().starts_with("c,t\n3000,"));
        }
        while let Some(batch) = rows.next().await {
            count += batch.unwrap().num_rows();
        }
        assert_eq!(count, 3000);
    });
}
