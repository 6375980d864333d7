//! Tests of statements beyond their answers: limits, cancelling, progress, files, parameters.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{MemoryTables, batches, block_on, csv, numbers, smart_home, sql};
use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures_util::StreamExt;
use swiftwater_sql::{
    ColumnRole, Dialect, ErrorKind, OtherStatements, Parameter, RecordBatch, RowGenerator, RunMode,
    RunOptions, ScanRequest, Sql, SqlError, SqlOptions, TableProvider, generated_table,
};

fn over_numbers(options: SqlOptions, batches: usize, rows: usize) -> Sql {
    let tables = Arc::new(MemoryTables::default());
    numbers(&tables, "n", batches, rows);
    numbers(&tables, "m", batches, rows);
    sql(tables, options)
}

fn small_memory(directory: &std::path::Path) -> SqlOptions {
    SqlOptions {
        memory_bytes_max: 16 << 20,
        spill_directory: Some(directory.join("spill")),
        ..SqlOptions::default()
    }
}

/// A text that takes far longer than any test waits.
const ENDLESS: &str =
    "SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b WHERE a.value + b.value = -1";

#[test]
fn a_sort_larger_than_its_memory_finishes_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    // 400,000 rows of 76 bytes are 30 MB, and a sort holds more. To merge what was put aside, and then both partitions, takes up
    // to 16 MiB, however little there is, and more where one of them is behind.
    let options = SqlOptions { memory_bytes_max: 24 << 20, ..small_memory(directory.path()) };
    let sql = over_numbers(options, 80, 5_000);
    block_on(async {
        let (_, rows) =
            batches(&sql, "SELECT s, k, g FROM n ORDER BY s DESC", RunOptions::default()).await.unwrap();
        let mut expected = 400_000;
        for batch in &rows {
            let keys = batch.column(1).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
            for &key in keys.values() {
                expected -= 1;
                assert_eq!(key, expected);
            }
        }
        assert_eq!(expected, 0);
    });
    assert!(directory.path().join("spill").exists());
}

#[test]
fn a_join_larger_than_its_memory_finishes_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let text = "SELECT count(*) AS n, sum(a.k) AS k FROM n a JOIN m b ON a.s = b.s AND a.g = b.g";
    let small = over_numbers(small_memory(directory.path()), 80, 5_000);
    block_on(async {
        // Without a merge join it would be refused: the hash table alone is larger than the limit.
        assert_eq!(csv(&small, text, RunOptions::default()).await.unwrap(), "n,k\n400000,79999800000\n");
    });
}

#[test]
fn a_large_limit_of_a_sort_larger_than_its_memory_finishes_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqlOptions { memory_bytes_max: 24 << 20, ..small_memory(directory.path()) };
    let sql = over_numbers(options, 80, 5_000);
    let text =
        "SELECT count(*) AS n, min(k) AS k FROM (SELECT s, k, g FROM n ORDER BY s DESC, g LIMIT 350000)";
    assert_eq!(block_on(csv(&sql, text, RunOptions::default())).unwrap(), "n,k\n350000,50000\n");
}

#[test]
fn distinct_values_larger_than_their_memory_are_counted_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let small = over_numbers(small_memory(directory.path()), 80, 5_000);
    for (text, expected) in [
        ("SELECT count(*) AS n, count(DISTINCT s) AS s FROM n", "n,s\n400000,400000\n"),
        (
            "SELECT k % 2 AS g, avg(k) AS a, count(DISTINCT s) AS s, count(DISTINCT k / 2) AS k, \
             count(DISTINCT s || 'x') FILTER (WHERE k < 1000) AS f FROM n GROUP BY k % 2 ORDER BY g",
            "g,a,s,k,f\n0,199999.0,200000,200000,500\n1,200000.0,200000,200000,500\n",
        ),
    ] {
        assert_eq!(block_on(csv(&small, text, RunOptions::default())).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_nested_loop_join_larger_than_its_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let sql = |memory_bytes_max| {
        let options = SqlOptions { memory_bytes_max, threads: 4, ..small_memory(directory.path()) };
        over_numbers(options, 20, 5_000)
    };
    // The left side is a hundred thousand texts, of several partitions.
    let text = "SELECT count(*) AS n, count(v) AS v, max(length(s)) > 0 AS is \
                FROM n RIGHT JOIN (SELECT value AS v FROM range(0, 20)) ON k < v AND v > 10";
    let error = block_on(csv(&sql(4 << 20), text, RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("`sql.memory_bytes_max`"), "{error}");
    let rows = block_on(csv(&sql(64 << 20), text, RunOptions::default())).unwrap();
    assert_eq!(rows, "n,v,is\n146,146,true\n");
}

/// The numbers from 0 on, a thousand at a time, up to a million times as many; or an error behind the first so many batches.
struct Counted {
    fails_behind: Option<usize>,
    made: AtomicUsize,
}

impl RowGenerator for Counted {
    fn generate(
        &self,
        wanted: &ScanRequest,
        give: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<u64, SqlError> {
        for number in 0..1_000_000 {
            if self.fails_behind == Some(number) {
                return Err(SqlError::new(ErrorKind::Unavailable, "the files were closed"));
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            let from = 1000 * number as i64;
            let column = Int64Array::from_iter_values(from..from + 1000);
            let batch = RecordBatch::try_new(counted_schema(), vec![Arc::new(column)]).unwrap();
            if !give(batch.project(&wanted.columns).unwrap()) {
                return Ok(from as u64);
            }
        }
        Ok(1_000_000)
    }
}

fn counted_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

#[test]
fn rows_that_are_made_in_turn_are_made_as_far_as_they_are_wanted() {
    let tables = Arc::new(MemoryTables::default());
    let put = |name: &str, fails_behind: Option<usize>| {
        let rows = Arc::new(Counted { fails_behind, made: AtomicUsize::new(0) });
        tables.put_provider(name, generated_table(counted_schema(), Arc::clone(&rows) as _));
        rows
    };
    let (endless, failing) = (put("endless", None), put("failing", Some(10)));
    let sql = sql(Arc::clone(&tables), SqlOptions::default());
    let ask = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    assert_eq!(ask("SELECT n FROM endless LIMIT 2 OFFSET 1500").unwrap(), "n\n1500\n1501\n");
    let once = endless.made.load(Ordering::Relaxed);
    assert!(once < 20, "{once} batches of which two were wanted");
    let twice = "SELECT count(*) AS n FROM (SELECT * FROM endless LIMIT 5000) a JOIN (SELECT * FROM endless LIMIT 3000) b USING (n)";
    assert_eq!(ask(twice).unwrap(), "n\n3000\n");
    let error = ask("SELECT sum(n) FROM failing").unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unavailable, "the files were closed"));
    assert_eq!(failing.made.load(Ordering::Relaxed), 10);
}

#[test]
fn what_cannot_spill_is_refused_with_the_setting_to_raise() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqlOptions { memory_bytes_max: 1 << 20, ..small_memory(directory.path()) };
    let sql = over_numbers(options, 8, 50_000);
    let error = block_on(csv(&sql, "SELECT array_agg(s) FROM n", RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.hint().unwrap().contains("sql.memory_bytes_max"), "{error}");
}

#[test]
fn what_an_expression_makes_has_the_statements_memory_and_no_more() {
    if crate::IS_DISTRIBUTED {
        // The workers have another limit, which each has for itself.
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sql = over_numbers(small_memory(directory.path()), 1, 10);
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    for text in [
        "SELECT repeat('a', 20000000)",
        "SELECT max(octet_length(repeat(s, 20000 + k))) FROM n",
        "SELECT lpad('a', 20000000, 'xy')",
        "SELECT rpad('a', 20000000)",
        "SELECT array_repeat('abc', 5000000)",
        "SELECT list_repeat(1, 5000000)",
        "SELECT array_resize([1], 5000000, 0)",
        "SELECT range(5000000)",
        "SELECT generate_series(1, 10000000, 2)",
        "SELECT range(TIMESTAMP '2026-01-01', TIMESTAMP '2026-02-01', INTERVAL '1 second')",
        "SELECT octet_length(regexp_replace(repeat('x', 10000), '.', repeat('z', 3000), 'g'))",
        "SELECT octet_length(regexp_replace(repeat(s, 5000), '[a-z0-9]', repeat('z', 3000), 'gi')) FROM n",
        "SELECT octet_length(regexp_replace(repeat('x', 20000), '.*', repeat('\\1', 2000))) FROM n",
        "SELECT octet_length(array_to_string(range(1000), repeat('z', 100000)))",
        "SELECT octet_length(array_to_string(array_repeat(range(100), 10), repeat('z', 100000)))",
        "SELECT octet_length(array_to_string(array_repeat(NULL, 1000), ',', repeat('z', 100000)))",
        "SELECT array_length(array_replace_all(array_repeat([1], 1000), [1], range(10000)))",
        "SELECT octet_length(array_to_string(array_replace_all(array_repeat(s, 1000), s, repeat('z', 100000)), '')) FROM n",
        "SELECT array_length(array_concat(r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r, r)) FROM (SELECT range(150000) r) q",
        "SELECT octet_length(concat_ws(repeat('z', 900000), s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)) FROM n",
    ] {
        let error = run(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{text}: {error}");
        assert!(error.to_string().contains("`sql.memory_bytes_max`"), "{text}: {error}");
        assert!(error.hint().unwrap().contains("sql.memory_bytes_max"), "{text}: {error}");
    }
    assert_eq!(run("SELECT octet_length(repeat('ab', 500000)) AS n").unwrap(), "n\n1000000\n");
    assert_eq!(run("SELECT sum(octet_length(repeat(s, 100))) AS n FROM n").unwrap(), "n\n60000\n");
    // The actual matches count, not those that a pattern and its flags could have.
    let replaced = "SELECT octet_length(regexp_replace(repeat('x', 10000) || 'Y', 'y', repeat('z', 3000), 'gi')) AS a, \
                    octet_length(regexp_replace(repeat('x', 10000), 'x', repeat('z', 3000))) AS b, \
                    octet_length(regexp_replace(repeat('x', 10000), 'y', repeat('z', 3000), 'g')) AS c, \
                    regexp_replace(s, NULL, repeat('z', 300000), 'g') IS NULL AS d FROM n LIMIT 1";
    assert_eq!(run(replaced).unwrap(), "a,b,c,d\n13000,12999,10000,true\n");
    let joined = "SELECT array_to_string([1, NULL, 3], ', ', '-') AS a, array_to_string([[1, 2], [3]], '+') AS b, \
                  list_to_string(['x', NULL], '') AS c, concat_ws(',', 'a', NULL, 'b') AS d, concat_ws(NULL, 'a', 'b') IS NULL AS e";
    assert_eq!(run(joined).unwrap(), "a,b,c,d,e\n\"1, -, 3\",1+2+3,x,\"a,b\",true\n");
    assert_eq!(
        run("SELECT rpad(lpad('é', 3, 'ü'), 4) AS t, repeat('a', -1) AS e").unwrap(),
        "t,e\n\"üüé \",\"\"\n"
    );
    let lists =
        "SELECT array_repeat(7, 2) AS a, array_resize([1], 2) AS b, range(3, 0, -1) AS c, range(0) AS d";
    assert_eq!(run(lists).unwrap(), "a,b,c,d\n\"[7,7]\",\"[1,null]\",\"[3,2,1]\",[]\n");
}

#[test]
fn what_no_expression_can_do_is_the_statements_fault() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    for text in [
        "SELECT regexp_like('a', '(')",
        "SELECT s FROM n WHERE regexp_like(s, '(')",
        "SELECT regexp_replace('a', '(', 'b')",
        "SELECT max(m) FROM (SELECT MAP {'k': k} AS m FROM n) AS t",
    ] {
        let error = block_on(csv(&sql, text, RunOptions::default())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}: {error}");
        assert!(!error.to_string().contains("bug"), "{text}: {error}");
    }
}

#[test]
fn dropping_an_answer_ends_its_statement() {
    let sql = over_numbers(SqlOptions { statements_max: 1, ..SqlOptions::default() }, 4, 10_000);
    block_on(async {
        let text = "SELECT a.k FROM n a, n b, n c WHERE a.k + b.k + c.k >= 0";
        let mut answer = sql.run(text, RunOptions::default()).await.unwrap();
        answer.next().await.unwrap().unwrap();
        assert_eq!(sql.running().len(), 1);
        drop(answer);
        // It had the only turn; this one gets it when the other has ended.
        let next =
            tokio::time::timeout(Duration::from_secs(30), csv(&sql, "SELECT 1 AS a", RunOptions::default()));
        assert_eq!(next.await.unwrap().unwrap(), "a\n1\n");
    });
}

#[test]
fn statement_whose_answer_nobody_reads_gives_its_turn_away() {
    let options = SqlOptions {
        statements_max: 1,
        unread_max: Some(Duration::from_millis(50)),
        ..SqlOptions::default()
    };
    let sql = over_numbers(options, 4, 10_000);
    block_on(async {
        let mut answer = sql.run("SELECT a.k FROM n a, n b, n c", RunOptions::default()).await.unwrap();
        let next = csv(&sql, "SELECT 1 AS a", RunOptions::default());
        assert_eq!(tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().unwrap(), "a\n1\n");
        // The batches computed before are returned, then the error.
        let mut batches = 0;
        let error = loop {
            match answer.next().await.unwrap() {
                Ok(_) => batches += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(batches, 2);
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.to_string().starts_with("the client read nothing for 50 ms"), "{error}");
        assert!(answer.next().await.is_none() && sql.running().is_empty());
    });
}

#[test]
fn a_statement_is_cancelled_by_its_name() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    block_on(async {
        let options = RunOptions { id: Some("mine".to_owned()), ..RunOptions::default() };
        let run = sql.run(ENDLESS, options.clone());
        let cancel = async {
            while !sql
                .running()
                .iter()
                .any(|running| &*running.id == "mine" && running.progress.read().rows_scanned > 0)
            {
                tokio::task::yield_now().await;
            }
            let taken = sql.run("SELECT 1", options.clone()).await.err().unwrap();
            assert_eq!(taken.kind(), ErrorKind::Conflict);
            assert!(sql.cancel("mine"));
        };
        let (end, ()) = tokio::join!(run, cancel);
        assert_eq!(end.err().unwrap().to_string(), "the statement was cancelled");
        assert!(!sql.cancel("mine"));
        assert!(sql.running().is_empty());
    });
}

/// A table whose scan blocks its thread until it is released: planning, as far as anybody else can see.
#[derive(Debug)]
struct BlockingTable {
    begun: std::sync::mpsc::Sender<()>,
    released: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

#[async_trait]
impl TableProvider for BlockingTable {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]))
    }

    fn table_type(&self) -> datafusion::logical_expr::TableType {
        datafusion::logical_expr::TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn datafusion::catalog::Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[datafusion::logical_expr::Expr],
        _limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
        self.begun.send(()).unwrap();
        let _ = self.released.lock().unwrap().recv();
        datafusion::common::exec_err!("it was released")
    }
}

#[test]
fn a_client_is_answered_though_its_statement_does_not_yield() {
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let tables = Arc::new(MemoryTables::default());
    tables
        .put_provider("stuck", Arc::new(BlockingTable { begun, released: std::sync::Mutex::new(released) }));
    let sql = sql(tables, SqlOptions { statements_max: 1, threads: 2, ..SqlOptions::default() });
    block_on(async {
        let mine = RunOptions { id: Some("mine".to_owned()), ..RunOptions::default() };
        let run = sql.run("SELECT * FROM stuck", mine.clone());
        let cancel = async {
            while has_begun.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            assert!(sql.cancel("mine"));
        };
        let (end, ()) = tokio::join!(run, cancel);
        assert_eq!(end.err().unwrap().to_string(), "the statement was cancelled");
        // It keeps its place until it ends, so that there are never more of them than statements that may run.
        assert_eq!(sql.running().len(), 1);
        let short = RunOptions { duration_max: Some(Duration::from_millis(50)), ..RunOptions::default() };
        let error = csv(&sql, "SELECT 1", short.clone()).await.unwrap_err();
        assert_eq!(error.to_string(), "the statement took longer than 50 ms");
        release.send(()).unwrap();
        assert_eq!(csv(&sql, "SELECT 1 AS x", RunOptions::default()).await.unwrap(), "x\n1\n");
        // So it is when its time is over.
        let error = csv(&sql, "SELECT * FROM stuck", short).await.unwrap_err();
        assert_eq!(error.to_string(), "the statement took longer than 50 ms");
        release.send(()).unwrap();
    });
}

#[test]
fn a_join_ends_when_it_is_cancelled_though_it_gives_nothing() {
    const SERIES: &str = "(SELECT value AS x FROM generate_series(1, 200000))";
    // Each takes minutes, once one side is read and the other begun.
    let joins = [
        "SELECT max(abs(a.x - b.x)) FROM big a CROSS JOIN big b",
        "SELECT count(*) FROM big a JOIN big b ON a.x * b.x < -1",
        "SELECT count(*) FROM big a JOIN big b ON a.x / 300000 = b.x / 300000 AND a.x * b.x < -1",
    ];
    for join in joins {
        let sql = over_numbers(SqlOptions::default(), 1, 10);
        block_on(async {
            let text = join.replace("big", SERIES);
            let options = RunOptions { id: Some("mine".to_owned()), ..RunOptions::default() };
            let run = sql.run(text.as_str(), options);
            let cancel = async {
                while !sql.running().iter().any(|running| running.progress.read().rows_scanned > 200_000) {
                    tokio::task::yield_now().await;
                }
                assert!(sql.cancel("mine"));
            };
            let (end, ()) =
                tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(run, cancel) })
                    .await
                    .unwrap_or_else(|_| panic!("it does not end: {join}"));
            assert_eq!(end.err().unwrap().to_string(), "the statement was cancelled");
        });
        let options = RunOptions { duration_max: Some(Duration::from_millis(200)), ..RunOptions::default() };
        let text = join.replace("big", SERIES);
        let error = block_on(csv(&sql, &text, options)).unwrap_err();
        assert_eq!(error.to_string(), "the statement took longer than 200 ms");
    }
}

#[test]
fn a_statement_has_its_time_and_no_more() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let options = RunOptions { duration_max: Some(Duration::from_millis(50)), ..RunOptions::default() };
    let error = block_on(csv(&sql, ENDLESS, options)).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Limit, "the statement took longer than 50 ms")
    );
}

#[test]
fn an_answer_has_no_more_rows_than_it_may() {
    let sql = over_numbers(SqlOptions::default(), 1, 10_000);
    let options = RunOptions { rows_max: Some(100), ..RunOptions::default() };
    let error = block_on(csv(&sql, "SELECT * FROM n", options.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    block_on(csv(&sql, "SELECT * FROM n LIMIT 100", options)).unwrap();
}

#[test]
fn too_many_that_wait_are_refused() {
    let options = SqlOptions { statements_max: 1, statements_waiting_max: 0, ..SqlOptions::default() };
    let sql = over_numbers(options, 4, 10_000);
    block_on(async {
        let mut answer = sql.run("SELECT a.k FROM n a, n b, n c", RunOptions::default()).await.unwrap();
        answer.next().await.unwrap().unwrap();
        let error = csv(&sql, "SELECT 1", RunOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn progress_tells_rows_read_of_how_many() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let tables = Arc::new(MemoryTables::default());
    numbers(&tables, "n", 4, 10_000);
    let sql =
        sql(Arc::clone(&tables), SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() });
    block_on(async {
        csv(&sql, "COPY n TO 'n.parquet'", RunOptions::default()).await.unwrap();
        let context = datafusion::prelude::SessionContext::new();
        let file = root.join("n.parquet");
        context.register_parquet("p", file.to_str().unwrap(), Default::default()).await.unwrap();
        tables.put_provider("p", context.table_provider("p").await.unwrap());
        let mut answer =
            sql.run("SELECT g, count(*) FROM p GROUP BY g", RunOptions::default()).await.unwrap();
        let mut rows = 0;
        while let Some(batch) = answer.next().await {
            rows += batch.unwrap().num_rows();
        }
        let reading = answer.progress().read();
        assert_eq!((rows, reading.rows_returned, reading.rows_scanned), (100, 100, 40_000));
        assert!(reading.bytes_scanned > 100, "{reading:?}");
        assert_eq!(reading.percent, Some(100.0));
    });
}

#[test]
fn parameters_take_the_types_that_are_wanted() {
    let sql = over_numbers(SqlOptions::default(), 1, 1000);
    let ask = |text: &'static str, parameters: &[Parameter]| {
        let options = RunOptions { parameters: parameters.to_vec(), ..RunOptions::default() };
        block_on(csv(&sql, text, options))
    };
    let text = "SELECT count(*) AS n FROM n WHERE k < $1 AND g = $2";
    assert_eq!(ask(text, &[Parameter::Long(500), Parameter::Text("7".into())]).unwrap(), "n\n5\n");
    assert_eq!(ask(text, &[Parameter::Null, Parameter::Long(1)]).unwrap(), "n\n0\n");
    assert_eq!(
        ask("SELECT $1 AS a, $2 AS b", &[Parameter::Boolean(true), Parameter::Double(0.5)]).unwrap(),
        "a,b\ntrue,0.5\n"
    );
    let error = ask(text, &[Parameter::Long(500)]).unwrap_err();
    assert_eq!(error.to_string(), "there is no value for $2");
    let error = ask(text, &[Parameter::Text("x".into()), Parameter::Long(1)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Invalid, "parameter $1 is not a valid BIGINT")
    );
    // A number with a fraction is compared as it is.
    let count = "SELECT count(*) AS n FROM n WHERE k < $1";
    for (parameter, below) in [
        (Parameter::Double(2.5), 3),
        (Parameter::Double(2.0), 2),
        (Parameter::Double(f64::NAN), 1000),
        (Parameter::Decimal(25, 1), 3),
        (Parameter::Decimal(20, 1), 2),
    ] {
        assert_eq!(
            ask(count, std::slice::from_ref(&parameter)).unwrap(),
            format!("n\n{below}\n"),
            "{parameter:?}"
        );
    }
    let list = Parameter::List(vec![Parameter::Long(3), Parameter::Null, Parameter::Long(5)]);
    assert_eq!(ask("SELECT count(*) AS n FROM n WHERE k = ANY($1)", &[list]).unwrap(), "n\n2\n");
}

#[test]
fn files_are_written_and_hold_all_rows() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("out");
    std::fs::create_dir(&root).unwrap();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 2, 1000);
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    assert_eq!(run("COPY n TO 'n.csv'").unwrap(), "rows\n2000\n");
    assert_eq!(std::fs::read_to_string(root.join("n.csv")).unwrap().lines().count(), 2001);
    assert_eq!(run("COPY (SELECT K, g FROM N WHERE k < 10 ORDER BY k) TO 'few.json'").unwrap(), "rows\n10\n");
    let few = std::fs::read_to_string(root.join("few.json")).unwrap();
    assert_eq!(few.lines().nth(1), Some(r#"{"k":1,"g":1}"#));
    assert_eq!(run("COPY n TO 'deep/n.parquet'").unwrap(), "rows\n2000\n");
    let parquet = std::fs::read(root.join("deep/n.parquet")).unwrap();
    assert_eq!((&parquet[..4], &parquet[parquet.len() - 4..]), (b"PAR1".as_slice(), b"PAR1".as_slice()));
    for refused in
        ["COPY n TO '../n.csv'", "COPY n TO '/etc/n.csv'", "COPY n TO 'n.exe'", "COPY n TO 's3://b/n.csv'"]
    {
        assert_eq!(run(refused).unwrap_err().kind(), ErrorKind::Invalid, "{refused}");
    }
    assert!(!directory.path().join("n.csv").exists());
}

#[test]
fn directories_of_files_are_whole_and_never_mixed_with_others() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 2, 1000);
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    let refused = |text: &str| {
        let error = run(text).unwrap_err();
        (error.kind(), error.to_string().replace(&format!("{}/", root.canonicalize().unwrap().display()), ""))
    };
    let files = |name: &str| std::fs::read_dir(root.join(name)).unwrap().count();

    // A name alone is a file's.
    assert_eq!(run("COPY n TO 'n' STORED AS CSV").unwrap(), "rows\n2000\n");
    assert_eq!(std::fs::read_to_string(root.join("n")).unwrap().lines().count(), 2001);
    assert_eq!(run("COPY n TO 'deep/parts/' STORED AS CSV").unwrap(), "rows\n2000\n");
    assert!(files("deep/parts") > 0);
    let by_k = "COPY (SELECT k % 3 AS k, g FROM n) TO 'by_k' STORED AS PARQUET PARTITIONED BY (k)";
    assert_eq!(run(by_k).unwrap(), "rows\n2000\n");
    assert_eq!(files("by_k"), 3);

    // However many parts there are, each is one file, in the order of the query.
    let many = "COPY (SELECT k % 700 AS part, k, g FROM n ORDER BY k DESC) TO 'many' STORED AS CSV PARTITIONED BY (part)";
    assert_eq!(run(many).unwrap(), "rows\n2000\n");
    assert_eq!(files("many"), 700);
    let mut rows = 0;
    for part in std::fs::read_dir(root.join("many")).unwrap().map(|part| part.unwrap().path()) {
        let number: usize = part.to_str().unwrap().rsplit_once('=').unwrap().1.parse().unwrap();
        let mut files = std::fs::read_dir(&part).unwrap();
        let text = std::fs::read_to_string(files.next().unwrap().unwrap().path()).unwrap();
        assert!(files.next().is_none(), "{number}");
        let keys = text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap());
        let keys: Vec<usize> = keys.collect();
        assert!(keys.iter().all(|k| k % 700 == number) && keys.is_sorted_by(|a, b| a >= b), "{keys:?}");
        rows += keys.len();
    }
    assert_eq!(rows, 2000);

    let taken = |what: &str| (ErrorKind::Conflict, what.to_owned());
    assert_eq!(refused(by_k), taken("`by_k` is a directory that is not empty"));
    assert_eq!(refused("COPY n TO 'n/' STORED AS CSV"), taken("`n` is a file"));
    assert_eq!(refused("COPY n TO 'by_k' STORED AS CSV"), taken("`by_k` is a directory"));
    assert_eq!(files("by_k"), 3);
    std::fs::create_dir(root.join("empty")).unwrap();
    assert_eq!(run("COPY n TO 'empty/' STORED AS CSV").unwrap(), "rows\n2000\n");
    assert!(files("empty") > 0);

    // Columns have the names that answers have.
    assert_eq!(
        run("COPY (SELECT 1 + 1, a.k, b.k FROM n a JOIN n b ON a.k = b.k LIMIT 1) TO 'names.csv'").unwrap(),
        "rows\n1\n"
    );
    let names = std::fs::read_to_string(root.join("names.csv")).unwrap();
    assert_eq!(names.lines().next(), Some("1 + 1,k,k_2"));

    // One that fails leaves nothing, and one without rows is there too.
    let fails = "COPY (SELECT 1 / (k - 500) AS x FROM n) TO 'fails/' STORED AS PARQUET";
    assert_eq!(run(fails).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(!root.join("fails").exists());
    for nothing in ["nothing/", "nothing.csv", "nothing.parquet", "nothing.json"] {
        let text = format!("COPY (SELECT k FROM n WHERE k < 0) TO '{nothing}' STORED AS ");
        let format = nothing.rsplit_once('.').map_or("csv", |(_, ending)| ending);
        assert_eq!(run(&(text + format)).unwrap(), "rows\n0\n", "{nothing}");
        assert!(root.join(nothing).exists(), "{nothing}");
    }
    let hidden = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    assert!(!std::fs::read_dir(&root).unwrap().any(|entry| hidden(entry.unwrap())));
}

#[test]
fn what_a_killed_process_left_unfinished_goes_away() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let left = root.join(".unfinished-0");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("file.csv"), "k\n1").unwrap();
    std::fs::write(root.join("whole.csv"), "k\n1\n").unwrap();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 1, 10);
    assert!(!left.exists() && root.join("whole.csv").exists());
    block_on(csv(&sql, "COPY n TO 'n.csv'", RunOptions::default())).unwrap();
    let error = block_on(csv(&sql, "COPY n TO '.unfinished-1/n.csv'", RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn files_of_parquet_have_types_that_all_readers_know() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 1, 10);
    let text = "COPY (SELECT arrow_cast('a', 'Utf8View') AS t, [arrow_cast('b', 'Utf8View')] AS l, \
                {x: arrow_cast('c', 'Utf8View')} AS s FROM n LIMIT 2) TO 'w.parquet'";
    assert_eq!(block_on(csv(&sql, text, RunOptions::default())).unwrap(), "rows\n2\n");
    let file = std::fs::File::open(root.join("w.parquet")).unwrap();
    let reader =
        datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let types: Vec<String> =
        reader.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types.len(), 3);
    assert!(types.iter().all(|ty| ty.contains("Utf8") && !ty.contains("View")), "{types:?}");
}

#[test]
fn shut_down_ends_what_runs_and_lets_nothing_begin() {
    let sql = over_numbers(SqlOptions::default(), 4, 10_000);
    block_on(async {
        let mut answer = sql.run("SELECT a.k FROM n a, n b, n c", RunOptions::default()).await.unwrap();
        answer.next().await.unwrap().unwrap();
        sql.shut_down();
        let error = loop {
            if let Err(error) = answer.next().await.unwrap() {
                break error;
            }
        };
        assert_eq!((error.state(), error.to_string().as_str()), ("57P01", "the server is shutting down"));
        let error = csv(&sql, "SELECT 1", RunOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.state()), (ErrorKind::Unavailable, "57P01"));
    });
}

#[test]
fn files_of_csv_hold_lists_maps_and_structs_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 1, 10);
    let text = "COPY (SELECT k, [k, NULL] AS l, {a: k} AS s, MAP {'k': 1.5} AS m FROM n WHERE k < 2 ORDER BY k) TO 'w.csv'";
    assert_eq!(block_on(csv(&sql, text, RunOptions::default())).unwrap(), "rows\n2\n");
    let lines =
        ["k,l,s,m", r#"0,"[0,null]","{""a"":0}","{""k"":1.5}""#, r#"1,"[1,null]","{""a"":1}","{""k"":1.5}""#];
    let written = std::fs::read_to_string(root.join("w.csv")).unwrap();
    assert_eq!(written.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn copy_that_fails_leaves_no_file_and_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let sql = over_numbers(SqlOptions { output_roots: vec![root.clone()], ..SqlOptions::default() }, 4, 1000);
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    std::fs::write(root.join("there.csv"), "k\n1\n").unwrap();
    for file in ["new.csv", "new.json", "new.parquet", "there.csv"] {
        let error = run(&format!("COPY (SELECT 1 / (k - 1500) AS x FROM n) TO '{file}'")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{file}: {error}");
    }
    let files: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["there.csv"]);
    assert_eq!(std::fs::read_to_string(root.join("there.csv")).unwrap(), "k\n1\n");
    let text = "COPY (SELECT k % 3 AS k FROM n) TO 'parts/' STORED AS CSV PARTITIONED BY (k)";
    assert_eq!(run(text).unwrap_err().to_string(), "PARTITIONED BY leaves no column for the files");
    assert!(!root.join("parts").exists());
    run("COPY (SELECT 2 AS k) TO 'there.csv'").unwrap();
    assert_eq!(std::fs::read_to_string(root.join("there.csv")).unwrap(), "k\n2\n");
}

#[test]
fn explain_tells_the_plan_and_analyze_what_it_cost() {
    let tables = Arc::new(MemoryTables::default());
    smart_home(&tables, 1, 2, 100);
    let sql = sql(tables, SqlOptions::default());
    let text = "EXPLAIN SELECT state, count(*) FROM smarthomedata GROUP BY state";
    let plan = block_on(csv(&sql, text, RunOptions::default())).unwrap();
    assert!(plan.contains("AggregateExec") && !plan.contains("output_rows"), "{plan}");
    let plan =
        block_on(csv(&sql, &text.replace("EXPLAIN", "EXPLAIN ANALYZE"), RunOptions::default())).unwrap();
    assert!(plan.contains("output_rows"), "{plan}");
}

/// A date and an interval make a time; the column of dates is compared as it is, so that statistics of files rule files out.
#[test]
fn a_date_is_compared_with_a_date_and_an_interval_as_dates_are() {
    let sql = sql(Arc::default(), SqlOptions::default());
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default())).unwrap();
    let rows = "(VALUES (DATE '1994-12-31'), (DATE '1995-01-01'), (DATE '1995-01-02'), (NULL)) AS t(d)";
    let plan = run(&format!("EXPLAIN SELECT * FROM {rows} WHERE d < DATE '1994-01-01' + INTERVAL '1 year'"));
    assert!(!plan.contains("CAST(") && plan.contains("1995-01-01"), "{plan}");
    let days = |condition: &str| run(&format!("SELECT d FROM {rows} WHERE {condition} ORDER BY d"));
    assert_eq!(days("d < DATE '1994-01-01' + INTERVAL '1 year'"), "d\n1994-12-31\n");
    assert_eq!(days("d < DATE '1994-01-01' + INTERVAL '1 year 1 hour'"), "d\n1994-12-31\n1995-01-01\n");
    assert_eq!(days("DATE '1995-01-02' - INTERVAL '1 hour' <= d"), "d\n1995-01-02\n");
    assert_eq!(days("d = DATE '1995-01-02' - INTERVAL '1 hour'"), "d\n");
    let between = "d BETWEEN DATE '1995-01-01' AND DATE '1995-01-01' + INTERVAL '23 hours'";
    assert_eq!(days(between), "d\n1995-01-01\n");
    assert_eq!(days(&format!("NOT ({between})")), "d\n1994-12-31\n1995-01-02\n");
}

struct Streams;

#[async_trait]
impl OtherStatements for Streams {
    fn takes(&self, words: &[&str]) -> bool {
        matches!(words, ["CREATE" | "DROP", "STREAM", ..] | ["SHOW", "STREAMS", ..])
    }

    fn check(&self, text: &str) -> Result<(), SqlError> {
        match text.contains("(") {
            true => Ok(()),
            false => Err(SqlError::new(ErrorKind::Invalid, "no columns")),
        }
    }

    async fn run(&self, text: &str) -> Result<Option<RecordBatch>, SqlError> {
        if text.starts_with("DROP") {
            return Err(SqlError::new(ErrorKind::NotFound, format!("cannot: {text}")));
        }
        Ok(None)
    }
}

#[test]
fn statements_of_the_engines_are_handed_to_it_as_they_are_written() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let options = || RunOptions { others: Some(Arc::new(Streams)), ..RunOptions::default() };
    let text = "CREATE STREAM s (a LONG, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (ack = disk);\n\
                SELECT 1 AS a";
    assert_eq!(block_on(csv(&sql, text, options())).unwrap(), "a\n1\n");
    let error = block_on(csv(&sql, "SELECT 1;\nDROP STREAM \"x;y\" ;", options())).unwrap_err();
    assert_eq!(error.to_string(), "cannot: DROP STREAM \"x;y\"");
    let error = block_on(csv(&sql, "CREATE STREAM s (a LONG)", RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_read_only_run_refuses_what_changes_something_before_it_does() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let options =
        || RunOptions { others: Some(Arc::new(Streams)), mode: RunMode::ReadOnly, ..RunOptions::default() };
    for (text, words) in [
        ("CREATE TABLE t AS SELECT 1 AS a", "CREATE TABLE"),
        ("SELECT 1; INSERT INTO n SELECT * FROM n", "INSERT INTO"),
        ("DROP TABLE n", "DROP TABLE"),
        ("COPY (SELECT 1) TO 'x.csv'", "COPY"),
        ("CREATE STREAM s (a LONG)", "CREATE STREAM"),
        ("drop stream s", "DROP STREAM"),
    ] {
        let error = block_on(csv(&sql, text, options())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        let message = error.to_string();
        assert!(message.contains(words) && message.contains("changes something"), "{text}: {message}");
    }
    for text in
        ["SELECT 1 AS a", "EXPLAIN ANALYZE SELECT * FROM n", "SHOW TABLES", "SHOW STREAMS", "DESCRIBE n"]
    {
        block_on(csv(&sql, text, options())).unwrap();
    }
}

#[test]
fn a_planned_run_has_columns_and_does_nothing() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let planned = |text: &str| {
        let options =
            RunOptions { others: Some(Arc::new(Streams)), mode: RunMode::Plan, ..RunOptions::default() };
        block_on(async {
            let mut answer = sql.run(text, options).await?;
            assert!(answer.next().await.is_none(), "{text}");
            let names = answer.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            Ok::<_, SqlError>((names.join(","), answer.changes()))
        })
    };
    // It would take for ever.
    let endless = "SELECT count(*) AS n FROM range(0, 1000000000) a, range(0, 1000000000) b";
    assert_eq!(planned(endless).unwrap(), ("n".to_owned(), false));
    for text in [
        "CREATE TABLE t AS SELECT 1 AS a",
        "INSERT INTO n SELECT * FROM n",
        "DROP TABLE n",
        "COPY (SELECT 1) TO 'x.csv'",
        "CREATE STREAM s (a LONG)",
    ] {
        assert_eq!(planned(text).unwrap(), (String::new(), true), "{text}");
    }
    for text in [
        "SELECT no_such FROM n",
        "SELECT * FROM no_such",
        "SELECT",
        "INSERT INTO n SELECT no_such FROM n",
        "SELECT 1 AS a INTO t",
        "CREATE STREAM s",
    ] {
        planned(text).unwrap_err();
    }
}

#[test]
fn columns_have_roles() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let roles = |text: &str| {
        let answer = block_on(sql.run(text, RunOptions::default())).unwrap();
        let word = |role: &ColumnRole| match role {
            ColumnRole::Key => "key".to_owned(),
            ColumnRole::Measure(aggregate) => format!("measure {}", aggregate.as_deref().unwrap_or("-")),
            ColumnRole::Time => "time".to_owned(),
            ColumnRole::Other => "other".to_owned(),
        };
        let words = answer.roles().iter().map(word).collect::<Vec<_>>();
        assert!(words.is_empty() || words.len() == answer.schema().fields().len(), "{text}");
        words.join(", ")
    };
    for (text, expected) in [
        ("SELECT value, value + 1 AS b FROM range(0, 3)", "other, other"),
        (
            "SELECT value % 2 AS k, count(*) AS n, sum(value) / count(*) AS m FROM range(0, 9) GROUP BY 1 ORDER BY n DESC LIMIT 1",
            "key, measure COUNT, measure -",
        ),
        (
            "SELECT n, k || 'x' AS y FROM (SELECT 'a' AS k, count(*) AS n FROM range(0, 9) GROUP BY k) AS t WHERE n > 1",
            "measure COUNT, key",
        ),
        ("SELECT DISTINCT value FROM range(0, 9)", "key"),
        (
            "SELECT date_trunc('hour', to_timestamp(value)) AS h, max(value) AS m FROM range(0, 9) GROUP BY 1",
            "time, measure MAX",
        ),
        ("SELECT now() AS t, 1 AS x", "time, other"),
        ("SELECT value AS v, row_number() OVER (ORDER BY value) AS r FROM range(0, 3)", "other, other"),
        ("SELECT value AS k, count(*) AS n FROM range(0, 3) GROUP BY ROLLUP (value)", "key, measure COUNT"),
        ("SELECT 1 AS a UNION ALL SELECT 2", "other"),
        ("SHOW TABLES", ""),
        ("EXPLAIN SELECT value AS k, count(*) AS n FROM range(0, 3) GROUP BY value", "other, other"),
    ] {
        assert_eq!(roles(text), expected, "{text}");
    }
}

#[test]
fn a_text_is_only_so_long_and_has_only_so_many_statements() {
    let options = SqlOptions { text_bytes_max: 100, statements_per_text_max: 3, ..SqlOptions::default() };
    let sql = over_numbers(options, 1, 10);
    let run = |text: &str| block_on(csv(&sql, text, RunOptions::default()));
    assert_eq!(run("SELECT 1; SELECT 2; SELECT 3 AS a;").unwrap(), "a\n3\n");
    assert_eq!(run("SELECT 1; SELECT 2; SELECT 3; SELECT 4").unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(run(&format!("SELECT '{}'", "x".repeat(100))).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(run(" ; ").unwrap(), "");
    assert_eq!(sql.statements("a 1; b 2;/* a 1 */ a 1 ", Dialect::Native).unwrap(), [0..3, 5..8, 19..22]);
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let sql = over_numbers(SqlOptions::default(), 1, 10);
    let text = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let error = block_on(csv(&sql, &text, RunOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(error.to_string(), "the statement is nested 65 deep; the limit is 64");
    // Long sums are trees as deep as they are long.
    let long = format!("SELECT {}1 AS n", "1 + ".repeat(300));
    assert_eq!(block_on(csv(&sql, &long, RunOptions::default())).unwrap(), "n\n301\n");
    let longer = format!("SELECT {}1 AS n", "1 + ".repeat(100_000));
    assert_eq!(block_on(csv(&sql, &longer, RunOptions::default())).unwrap_err().kind(), ErrorKind::Limit);
    let union = format!("SELECT 1 AS n {}", "UNION ALL SELECT 1 ".repeat(100));
    assert_eq!(block_on(csv(&sql, &union, RunOptions::default())).unwrap().lines().count(), 102);
    assert_eq!(block_on(csv(&sql, "SELECT 1 AS a", RunOptions::default())).unwrap(), "a\n1\n");
}
