//! The tasks of statements on workers: their end, their memory, their progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use swiftwater_sql::{ErrorKind, RunOptions, Sql, SqlOptions};

use crate::common::{self, MemoryTables};

/// The time in which all tasks of a statement that was cancelled end: a fraction of a second on a machine that is not busy. A call that
/// waits for a task would take 10 s, and a task that does not end as long as the statement, which is minutes.
const END: Duration = Duration::from_secs(8);
/// The time for which a test waits for anything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Statements that compute for minutes without returning a row.
const LONG: [&str; 4] = [
    "SELECT count(*) FROM n a JOIN n b ON CAST(a.k AS DOUBLE) * CAST(b.k AS DOUBLE) < a.k - 1000000",
    // All pairs are visited, and none is returned.
    "SELECT count(*) FROM n a JOIN n b ON a.k * b.k < -1",
    // Each row has very many partners.
    "SELECT sum(a.k + b.k + c.k) FROM n a JOIN n b ON a.g % 2 = b.g % 2 JOIN n c ON b.g % 2 = c.g % 2",
    "SELECT max(a.s || b.s) FROM n a CROSS JOIN n b CROSS JOIN n c",
];

/// Two workers with one thread each, which a task that computes has for itself, and a node that is asked.
fn nodes(memory_bytes_max: usize) -> (Sql, Vec<Sql>) {
    let options = SqlOptions { threads: 1, memory_bytes_max, ..SqlOptions::default() };
    let workers = (0..2).map(|_| crate::node(options.clone(), Arc::default(), Vec::new()));
    let (workers, addresses): (Vec<_>, Vec<_>) = workers.unzip();
    let tables = Arc::new(MemoryTables::default());
    common::numbers(&tables, "n", 12, 5000);
    (crate::node(SqlOptions { threads: 2, ..options }, tables, addresses).0, workers)
}

/// Waits until something holds, and returns the time.
#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
async fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "it did not come true within {limit:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begun.elapsed()
}

fn served(workers: &[Sql]) -> u64 {
    workers.iter().map(|worker| worker.distribution().unwrap().statements_served).sum()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn all_tasks_of_a_cancelled_statement_end() {
    let (sql, workers) = nodes(1 << 30);
    for text in LONG {
        common::block_on(async {
            let options = RunOptions { id: Some("long".to_owned()), ..RunOptions::default() };
            let run = sql.run(text, options);
            let cancel = async {
                until(PATIENCE, || served(&workers) == 2).await;
                assert!(sql.cancel("long"));
                until(END, || served(&workers) == 0).await
            };
            let (end, time) = tokio::join!(run, cancel);
            assert_eq!(end.err().unwrap().to_string(), "the statement was cancelled", "{text}: {time:?}");
            // The one thread of each worker computes it no more.
            let begun = Instant::now();
            let rows = common::csv(&sql, "SELECT count(*) AS c FROM n", RunOptions::default()).await;
            assert_eq!(rows.unwrap(), "c\n60000\n");
            assert!(begun.elapsed() < END, "{text}: {:?}", begun.elapsed());
        });
    }
    assert_eq!(sql.distribution().unwrap().run_here, 0);
}

#[test]
fn tasks_are_listed_with_what_they_have_read() {
    let (sql, workers) = nodes(1 << 30);
    common::block_on(async {
        let options = RunOptions { id: Some("long".to_owned()), ..RunOptions::default() };
        let run = sql.run(LONG[0], options);
        let look = async {
            let tasks = || sql.running().first().map(|run| run.progress.tasks()).unwrap_or_default();
            until(PATIENCE, || tasks().iter().any(|task| task.rows_scanned > 0)).await;
            let found = tasks();
            let mut numbers: Vec<_> = found.iter().map(|task| (task.stage, task.task)).collect();
            let nodes: std::collections::BTreeSet<_> = found.iter().map(|task| &*task.node).collect();
            assert_eq!(nodes.len(), 2, "{found:?}");
            numbers.dedup();
            assert_eq!(numbers.len(), found.len(), "{found:?}");
            let progress = sql.running()[0].progress.read();
            assert!(progress.rows_scanned > 0, "{progress:?}");
            assert!(sql.cancel("long"));
        };
        drop(tokio::join!(run, look));
        until(END, || served(&workers) == 0).await;
    });
}

#[test]
fn the_counts_of_tasks_are_those_of_one_machine() {
    let (sql, _workers) = nodes(1 << 30);
    common::block_on(async {
        let mut answer =
            sql.run("SELECT g, count(*) FROM n GROUP BY g", RunOptions::default()).await.unwrap();
        let progress = Arc::clone(answer.progress());
        while let Some(batch) = futures_util::StreamExt::next(&mut answer).await {
            batch.unwrap();
        }
        let read = progress.read();
        assert_eq!((read.rows_scanned, read.rows_returned, read.percent), (60_000, 100, Some(100.0)));
        assert!(!progress.tasks().is_empty());
    });
}

#[test]
fn a_function_on_a_worker_has_the_memory_of_the_worker() {
    let (sql, workers) = nodes(64 << 20);
    let text = "SELECT max(length(repeat(s, 3000000))) AS c FROM n";
    let error = common::block_on(common::csv(&sql, text, RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("sql.memory_bytes_max"), "{error}");
    common::block_on(until(END, || served(&workers) == 0));
}

#[test]
fn rows_that_were_sent_are_not_counted_as_memory() {
    let (sql, _workers) = nodes(64 << 20);
    // Each worker sends some 290 MB, which is more than a statement may hold.
    let text = "SELECT a.k, repeat(a.s, 16) AS t FROM n a CROSS JOIN range(0, 10)";
    let rows = common::block_on(async {
        let mut rows = sql.run(text, RunOptions::default()).await.unwrap();
        let mut count = 0;
        while let Some(batch) = futures_util::StreamExt::next(&mut rows).await {
            count += batch.unwrap().num_rows();
        }
        count
    });
    assert_eq!(rows, 600_000);
    assert_eq!(sql.distribution().unwrap().run_here, 0);
}
