//! The tests of statements, of which each runs on three workers as far as it can be divided.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../sql/common/mod.rs"]
mod common;
#[path = "../sql/groups.rs"]
mod groups;
#[path = "../sql/ordered.rs"]
mod ordered;
mod plans;
#[path = "../sql/postgres.rs"]
mod postgres;
#[path = "../sql/reference/mod.rs"]
mod reference;
#[path = "../sql/slt.rs"]
mod slt;
#[path = "../sql/statements.rs"]
mod statements;
#[path = "../sql/subqueries.rs"]
mod subqueries;
#[path = "../sql/sums.rs"]
mod sums;

mod tasks;

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::TcpListener;
use std::sync::{Arc, LazyLock};

use common::MemoryTables;
use swiftwater_sql::{
    Distributed, DistributionOptions, RunOptions, Sql, SqlOptions, count_allocated, count_freed,
};

/// The system's allocator, counted for statements as the server's is.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocated(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn statements_are_divided_or_say_why_not() {
    let tables = Arc::new(MemoryTables::default());
    common::numbers(&tables, "n", 6, 1000);
    common::smart_home(&tables, 1, 4, 1000);
    let sql = start(SqlOptions { threads: 2, ..SqlOptions::default() }, tables);
    let place = |text: &str, distributed: Distributed| {
        let options = RunOptions { distributed, ..RunOptions::default() };
        let plan = common::block_on(common::csv(&sql, &format!("EXPLAIN {text}"), options)).unwrap();
        plan.split_once("distribution,").unwrap().1.trim_matches(['"', '\n']).to_owned()
    };
    for text in [
        "SELECT k FROM n",
        "SELECT k FROM n ORDER BY k LIMIT 3",
        "SELECT max(k) FROM n",
        "SELECT g, count(*), sum(k * 0.1) FROM n GROUP BY g",
        "SELECT metro_area, avg(power_reading) FROM \"smartHomeData\" WHERE state = 'Texas' GROUP BY metro_area",
        "SELECT a.k FROM n a JOIN n b ON a.k = b.g",
        "SELECT g, k, row_number() OVER (PARTITION BY g ORDER BY k) FROM n",
        "SELECT row_number() OVER (ORDER BY k) FROM n",
        "SELECT g, k, sum(k) OVER (PARTITION BY g ORDER BY k) FROM n",
        "SELECT count(*) FROM n WHERE k > (SELECT avg(k) FROM n)",
        "SELECT k FROM n WHERE k NOT IN (SELECT g FROM n)",
        "SELECT k FROM n UNION ALL SELECT 1",
        "SELECT upper(s) || 'x', CASE WHEN k % 2 = 0 THEN round(k / 3.0) END FROM n WHERE s LIKE '%1%'",
        "SELECT approx_distinct(k), median(k), count(DISTINCT g) FROM n",
    ] {
        common::block_on(common::csv(&sql, text, RunOptions::default())).unwrap();
        let place = place(text, Distributed::Auto);
        assert!(place.starts_with("on 3 workers\n"), "{text}: {place}");
        assert!(place.contains("Stage 1"), "{text}: {place}");
    }
    let counts = sql.distribution().unwrap();
    common::block_on(common::csv(&sql, "SELECT 1", RunOptions::default())).unwrap();
    assert_eq!(sql.distribution(), Some(counts), "a statement without parts is not counted");
    // They ran there, and not here after a failure.
    assert_eq!((counts.run_here, counts.received_bytes > 0), (0, true));
    assert_eq!(
        place("SELECT 1", Distributed::Auto),
        "on this node: the statement has no parts for several machines"
    );
    assert_eq!(place("SELECT k FROM n", Distributed::Never), "on this node: swiftwater.distributed is never");
}

#[test]
fn a_worker_with_another_secret_does_not_run_tasks() {
    let tables = Arc::new(MemoryTables::default());
    common::numbers(&tables, "n", 6, 1000);
    let workers: Vec<String> = (0..2)
        .map(|_| {
            let (sql, address) =
                node_with(SqlOptions::default(), Arc::default(), Vec::new(), "another secret");
            std::mem::forget(sql);
            address
        })
        .collect();
    let (sql, _) = node(SqlOptions::default(), tables, workers);
    // It runs here.
    let rows =
        common::block_on(common::csv(&sql, "SELECT max(k) AS n FROM n", RunOptions::default())).unwrap();
    assert_eq!(rows, "n\n5999\n");
    assert_eq!(sql.distribution().map(|counts| (counts.divided, counts.run_here)), Some((1, 1)));
}

#[test]
fn statements_whose_messages_would_lack_a_part_run_on_one_machine() {
    let tables = Arc::new(MemoryTables::default());
    common::numbers(&tables, "n", 6, 1000);
    let sql = start(SqlOptions { threads: 2, ..SqlOptions::default() }, Arc::clone(&tables));
    let alone = Sql::new(SqlOptions { threads: 2, ..SqlOptions::default() }, tables).unwrap();
    for text in [
        "SELECT k, count(*) FILTER (WHERE k > 50) OVER (PARTITION BY g) AS c FROM n ORDER BY k",
        "SELECT k, lag(nullif(k % 5, 1)) IGNORE NULLS OVER (PARTITION BY g ORDER BY k) AS c FROM n ORDER BY k",
        "SELECT k, lag(k) OVER (PARTITION BY g ORDER BY k) AS a, lag(k) OVER (PARTITION BY g ORDER BY k DESC) AS b FROM n ORDER BY k",
        "SELECT k, first_value(k) OVER (PARTITION BY g ORDER BY k DESC) AS a FROM n ORDER BY k",
        "SELECT k FROM n ORDER BY k LIMIT 4294967296",
        "SELECT count(*) AS c FROM (SELECT k FROM n LIMIT 4294967300) AS q",
        "SELECT k, (SELECT k FROM n WHERE k < 3) AS a FROM n",
        "SELECT k FROM n WHERE k > (SELECT k FROM n WHERE k < 3)",
        "SELECT g, array_agg(k ORDER BY k DESC) AS a, first_value(k ORDER BY k) AS b FROM n GROUP BY g ORDER BY g",
        "SELECT k, (SELECT max(k) FROM n) AS a FROM n ORDER BY k OFFSET 5990",
    ] {
        let run = |sql: &Sql| {
            let rows = common::block_on(common::csv(sql, text, RunOptions::default()));
            rows.map_err(|error| error.to_string())
        };
        assert_eq!(run(&sql), run(&alone), "{text}");
    }
    let texts = "SELECT CAST('this worker runs as many statements as it may' || k AS BIGINT) AS c FROM n";
    let error = common::block_on(common::csv(&sql, texts, RunOptions::default())).unwrap_err();
    assert!(error.to_string().contains("is not a valid BIGINT"), "{error}");
}

/// Statements run on several machines, each of which has its own memory.
const IS_DISTRIBUTED: bool = true;

/// The workers of all tests.
static WORKERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let worker = |_| {
        let options = SqlOptions { threads: 2, statements_max: 1000, ..SqlOptions::default() };
        let (sql, address) = node(options, Arc::default(), Vec::new());
        // They serve until the process ends.
        std::mem::forget(sql);
        address
    };
    (0..3).map(worker).collect()
});

/// A node that serves tasks, and its address.
fn node(options: SqlOptions, tables: Arc<MemoryTables>, workers: Vec<String>) -> (Sql, String) {
    node_with(options, tables, workers, "secret of the tests")
}

fn node_with(
    options: SqlOptions,
    tables: Arc<MemoryTables>,
    workers: Vec<String>,
    secret: &str,
) -> (Sql, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let distribution = DistributionOptions {
        workers,
        advertise: address.clone(),
        secret: Some(secret.into()),
        above_bytes: 0,
        hold_bytes: 4 << 20,
        files: None,
    };
    let sql = Sql::new(SqlOptions { distribution: Some(distribution), ..options }, tables).unwrap();
    drop(sql.serve_tasks(listener, std::future::pending()).unwrap());
    (sql, address)
}

/// SQL over tables in memory and three workers.
fn start(options: SqlOptions, tables: Arc<MemoryTables>) -> Sql {
    node(options, tables, WORKERS.clone()).0
}
