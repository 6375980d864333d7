//! Tests that rows are visible at once, committed once, and present after reopening.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests print, and what fails there fails a test"
)]

use std::{sync::Arc, time::Duration};

use crate::common::*;
use arrow_array::{
    ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use swiftwater_event::{Clock, Offset, Type};
use swiftwater_store::{
    Application, At, ErrorKind, OFFSET_COLUMN, Partitioning, Progress, Rows, Store, StoreError, StoreOptions,
    TIME_COLUMN, Table, TableSpec,
};

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_seen_at_once_and_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    table.append(rows(0, 1000)).await.unwrap();
    assert_eq!((table.appended(), table.committed()), (Offset(1000), Offset(0)));
    check_offsets(&table, 1000).await;

    table.flush().await.unwrap();
    assert_eq!(table.committed(), Offset(1000));
    table.append(rows(1000, 1500)).await.unwrap();
    check_offsets(&table, 1500).await;
    assert_eq!(long(&table, "SELECT COUNT(*) FROM t WHERE metro_area = 'Seattle' AND is_peak").await, 375);
    let status = table.status();
    assert_eq!((status.files, status.rows, status.tail_rows, status.version), (1, 1000, 500, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_appended_again_after_reopening_are_there_once() {
    let directory = tempfile::tempdir().unwrap();
    for (first, end) in [(0, 700), (0, 1000), (900, 1300), (1300, 1300), (500, 600)] {
        let store = open(patient(directory.path())).await;
        let table = store.open_table(home("homes")).await.unwrap();
        let committed = table.committed().0;
        assert_eq!(table.appended().0, committed);
        table.append(rows(first, end)).await.unwrap();
        assert_eq!(table.appended().0, committed.max(end));
        table.flush().await.unwrap();
        check_offsets(&table, committed.max(end)).await;
        // Rows that are not flushed are forgotten, and come again from the stream's log.
        table.append(rows(table.appended().0, table.appended().0 + 50)).await.unwrap();
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_go_by_time_and_by_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.commit_interval = Duration::from_millis(20);
    let store = open(options.clone()).await;
    let table = store.open_table(home("by_time")).await.unwrap();
    let mut progress = table.progress();
    table.append(rows(0, 10)).await.unwrap();
    let whole = |progress: &Progress| progress.committed == progress.appended && progress.committed.0 > 0;
    progress.wait_for(whole).await.unwrap();

    options.commit_interval = Duration::from_secs(3600);
    (options.commit_bytes, options.tail_bytes_max) = (100_000, 200_000);
    let store = open(options).await;
    let table = store.open_table(home("by_bytes")).await.unwrap();
    let mut progress = table.progress();
    // Far more than the tail holds: appends wait for commits.
    for part in 0..100 {
        table.append(rows(part * 1000, part * 1000 + 1000)).await.unwrap();
        assert!(table.status().tail_bytes < 300_000, "{:?}", table.status());
    }
    progress.wait_for(|progress| progress.committed.0 > 90_000).await.unwrap();
    check_offsets(&table, 100_000).await;
}

#[test]
fn tables_get_on_with_a_single_thread_for_what_blocks() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let store = open(StoreOptions { compact_files: 2, ..patient(directory.path()) }).await;
        let mut tables = Vec::new();
        for name in ["one", "two", "three"] {
            tables.push(store.open_table(home(name)).await.unwrap());
        }
        for part in 0..4 {
            for table in &tables {
                table.append(rows(part * 100, part * 100 + 100)).await.unwrap();
            }
            // Writing files and merging them go on beside one another.
            let all = futures_util::future::join_all(tables.iter().map(Table::flush));
            let done = tokio::time::timeout(Duration::from_secs(60), all).await;
            assert!(done.is_ok_and(|all| all.iter().all(Result::is_ok)), "commits wait for one another");
        }
        for table in &tables {
            assert_eq!(table.status().rows, 400);
        }
        // Waits for what is being merged.
        let closed = tokio::time::timeout(Duration::from_secs(60), store.close()).await;
        assert!(closed.is_ok(), "merging waits for itself");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    let unknown = Rows {
        first: Offset(0),
        batch: RecordBatch::try_from_iter([("x", Arc::new(StringArray::from(vec!["y"])) as _)]).unwrap(),
    };
    let no_time = Rows {
        first: Offset(0),
        batch: RecordBatch::try_from_iter([("_offset", Arc::new(Int64Array::from(vec![0])) as _)]).unwrap(),
    };
    let mut shifted = rows(5, 10);
    shifted.first = Offset(4);
    for bad in [unknown, no_time, shifted] {
        let error = table.append(bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(table.appended(), Offset(0));
    table.append(rows(0, 3)).await.unwrap();
    check_offsets(&table, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_versions_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(1_000_000));
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
    let store = Store::open(patient(directory.path()), shared).await.unwrap();
    clock.advance_ms(5);
    let table = store.open_table(home("homes")).await.unwrap();
    let mut times = Vec::new();
    for part in 0..3 {
        table.append(rows(part * 10, part * 10 + 10)).await.unwrap();
        table.flush().await.unwrap();
        times.push(clock.now());
        clock.advance_ms(1);
    }
    table.append(rows(30, 40)).await.unwrap();
    for (version, time) in times.iter().enumerate() {
        let expected = ((version + 1) * 10).to_string();
        for at in [At::Version(version as i64 + 1), At::Timestamp(*time)] {
            let answer = text(&sql_at(&table, Some(at), "SELECT COUNT(*), MAX(_offset) + 1 FROM t").await);
            assert_eq!(answer, [format!("{expected}|{expected}")], "{at:?}");
        }
    }
    for at in [At::Version(9), At::Version(-1), At::Timestamp(1_000_000)] {
        assert_eq!(table.provider(Some(at)).await.unwrap_err().kind(), ErrorKind::NotFound, "{at:?}");
    }
    let error = table.provider(Some(At::Timestamp(999_999))).await.unwrap_err();
    assert_eq!(error.to_string(), "table `homes` has no version at 1970-01-01T00:16:39.999Z");
    let error = table.provider(Some(At::Timestamp(i64::MIN))).await.unwrap_err();
    assert_eq!(error.to_string(), format!("table `homes` has no version at {} ms", i64::MIN));
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_added_with_the_commit_that_has_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let spec = TableSpec::new("grows", vec![column("a", Type::LONG)]);
    let table = store.open_table(spec.clone()).await.unwrap();
    let batch = |first: u64, extra: bool| {
        let all = rows(first, first + 10).batch;
        let mut columns = vec![
            ("_offset", Arc::clone(all.column(0))),
            ("_time", Arc::clone(all.column(1))),
            ("a", Arc::clone(all.column(0))),
        ];
        if extra {
            columns.push(("b", Arc::clone(all.column(3))));
        }
        Rows { first: Offset(first), batch: RecordBatch::try_from_iter(columns).unwrap() }
    };
    table.append(batch(0, false)).await.unwrap();
    table.flush().await.unwrap();
    table.append(batch(10, false)).await.unwrap();
    let mut wider = spec.clone();
    wider.columns.push(column("b", Type::STRING));
    table.alter(&wider).await.unwrap();
    assert_eq!(long(&table, "SELECT COUNT(*) FROM t WHERE b IS NULL").await, 20);
    table.append(batch(20, true)).await.unwrap();
    let check = "SELECT COUNT(*), COUNT(b), SUM(a) FROM t";
    assert_eq!(text(&sql(&table, check).await), ["30|10|435"]);
    table.flush().await.unwrap();
    assert_eq!(text(&sql(&table, check).await), ["30|10|435"]);
    store.close().await;

    let store = open(patient(directory.path())).await;
    let table = store.open_table(spec).await.unwrap();
    assert_eq!(text(&sql(&table, check).await), ["30|10|435"]);
    let narrow = TableSpec::new("grows", vec![column("a", Type::STRING)]);
    assert_eq!(table.alter(&narrow).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_widened_by_a_rewrite() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    for part in 0..3 {
        table.append(rows(part * 100, part * 100 + 100)).await.unwrap();
        table.flush().await.unwrap();
    }
    table.append(rows(300, 400)).await.unwrap();
    let check = "SELECT COUNT(*), SUM(house_id), SUM(power_reading) > 6600 FROM t";
    let before = text(&sql(&table, check).await);
    let mut wider = home("homes");
    wider.columns[0].ty = Type::LONG;
    wider.columns[3].ty = Type::DOUBLE;
    table.alter(&wider).await.unwrap();
    let schema = table.schema();
    assert_eq!(schema.field_with_name("house_id").unwrap().data_type().to_string(), "Int64");
    table.append(rows(400, 500)).await.unwrap();
    assert_eq!(text(&sql(&table, &format!("{check} WHERE _offset < 400")).await), before);
    check_offsets(&table, 500).await;
    table.flush().await.unwrap();
    store.close().await;
    let table = open(patient(directory.path())).await.open_table(wider).await.unwrap();
    assert_eq!(text(&sql(&table, &format!("{check} WHERE _offset < 400")).await), before);
    check_offsets(&table, 500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_and_bounds_leave_files_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let day_micros = 86_400_000_000;
    for (name, partition_by, files, of_one_day) in [
        ("none", Partitioning::None, 1, 1),
        ("days", Partitioning::Day, 4, 1),
        ("hours", Partitioning::Hour, 8, 2),
        ("metros", Partitioning::Columns(vec!["metro_area".into(), "is_peak".into()]), 4, 4),
    ] {
        let mut spec = home(name);
        spec.partition_by = partition_by;
        let table = store.open_table(spec.clone()).await.unwrap();
        table.append(rows_every(0, 8, day_micros / 2)).await.unwrap();
        let of_day = "SELECT COUNT(*) FROM t WHERE _time >= TIMESTAMP '2026-01-02T00:00:00Z' \
                      AND _time < TIMESTAMP '2026-01-03T00:00:00Z'";
        assert_eq!(long(&table, of_day).await, 2, "{name}, in the tail");
        table.flush().await.unwrap();
        assert_eq!(table.status().files, files, "{name}");
        assert_eq!(long(&table, of_day).await, 2, "{name}");
        check_offsets(&table, 8).await;
        let plan = text(&sql(&table, &format!("EXPLAIN {of_day}")).await).join("\n");
        assert_eq!(plan.matches(".parquet").count(), of_one_day, "{name}: {plan}");
        store.close().await;
        let table = store.open_table(spec).await.unwrap();
        assert_eq!(long(&table, of_day).await, 2, "{name}, reopened");
        let by_metro = "SELECT metro_area, is_peak, COUNT(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2";
        assert_eq!(
            text(&sql(&table, by_metro).await),
            [
                "Boston|true|2",
                "Los Angeles-Long Beach-Anaheim, CA|false|2",
                "Miami|false|2",
                "Seattle|true|2"
            ],
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_listed_and_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("b")).await.unwrap();
    store.open_table(home("a")).await.unwrap();
    assert_eq!(store.tables().await.unwrap(), ["a".into(), "b".into()]);
    table.append(rows(0, 10)).await.unwrap();
    table.flush().await.unwrap();
    assert!(store.drop_table("b").await.unwrap());
    assert!(!store.drop_table("b").await.unwrap());
    assert_eq!(store.tables().await.unwrap(), ["a".into()]);
    assert!(matches!(table.append(rows(10, 20)).await, Err(StoreError::Closed(_))));
    let table = store.open_table(home("b")).await.unwrap();
    assert_eq!((table.committed(), table.status().rows), (Offset(0), 0));
    for name in ["", "../x", "a/b", "_delta_log/x"] {
        assert_eq!(store.open_table(home(name)).await.unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        assert!(store.table(name).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn table_of_a_stream_is_dropped_though_its_log_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    table.append(rows(0, 10)).await.unwrap();
    table.flush().await.unwrap();
    store.close().await;
    let commit = |table: &str, version: u64| {
        directory.path().join(table).join("_delta_log").join(format!("{version:020}.json"))
    };
    let (damaged, foreign) = (commit("homes", 1), commit("foreign", 0));
    assert!(damaged.exists());
    std::fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    for path in [&damaged, &foreign] {
        std::fs::write(path, "no commit\n").unwrap();
    }
    let store = open(patient(directory.path())).await;
    assert!(store.table("homes").await.is_err());
    assert!(store.drop_stream_table("homes").await.unwrap());
    assert!(!damaged.exists());
    // No record says that this is a stream's.
    assert!(!matches!(store.drop_stream_table("foreign").await, Ok(true)));
    assert!(foreign.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_tables_take_rows_and_are_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let batch = |from: u64| {
        let numbers = arrow_array::UInt64Array::from_iter_values(from..from + 10);
        let names = StringArray::from_iter_values((from..from + 10).map(|n| format!("name {n}")));
        RecordBatch::try_from_iter([("n", Arc::new(numbers) as _), ("name", Arc::new(names) as _)]).unwrap()
    };
    let table = store.create_plain("plain", batch(0).schema(), None).await.unwrap();
    assert!(matches!(
        store.create_plain("plain", batch(0).schema(), None).await,
        Err(StoreError::TableExists(_))
    ));
    let stream =
        |batches: Vec<RecordBatch>| futures_util::stream::iter(batches.into_iter().map(Ok::<_, String>));
    assert_eq!(table.insert(stream(vec![batch(0), batch(10)]), false).await.unwrap(), 20);
    assert_eq!(table.insert(stream(vec![batch(20)]), false).await.unwrap(), 10);
    assert_eq!(text(&sql(&table, "SELECT COUNT(*), SUM(n), MAX(name) FROM t").await), ["30|435|name 9"]);
    let failing = futures_util::stream::iter(vec![Ok(batch(0)), Err("no more".to_owned())]);
    assert_eq!(table.insert(failing, true).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(text(&sql(&table, "SELECT COUNT(*) FROM t").await), ["30"]);
    assert_eq!(table.insert(stream(vec![batch(100)]), true).await.unwrap(), 10);
    assert_eq!(text(&sql(&table, "SELECT COUNT(*), MIN(n) FROM t").await), ["10|100"]);
    assert_eq!(text(&sql_at(&table, Some(At::Version(2)), "SELECT COUNT(*) FROM t").await), ["30"]);
    table.insert(stream(Vec::new()), true).await.unwrap();
    assert_eq!(text(&sql(&table, "SELECT COUNT(*) FROM t").await), ["0"]);
    store.close().await;
    let table = store.table("plain").await.unwrap().unwrap();
    assert_eq!(text(&sql(&table, "SELECT COUNT(*) FROM t").await), ["0"]);
    assert!(matches!(store.open_table(home("plain")).await, Err(StoreError::TableExists(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_version_of_an_application_are_inserted_once_whatever_happens_between() {
    let directory = tempfile::tempdir().unwrap();
    let options = || StoreOptions { checkpoint_commits: 2, ..patient(directory.path()) };
    let store = open(options()).await;
    let batch = |value: i64| {
        let values = Int64Array::from(vec![value, value]);
        RecordBatch::try_from_iter([("n", Arc::new(values) as _)]).unwrap()
    };
    let table = store.create_plain("plain", batch(0).schema(), None).await.unwrap();
    let insert = |table: &Table, id: &str, version: u64, value: i64, overwrite: bool| {
        let (table, application) = (table.clone(), Application::one(id, version));
        let rows = futures_util::stream::iter([Ok::<_, String>(batch(value))]);
        async move { table.insert_once(rows, overwrite, application).await.unwrap() }
    };
    assert_eq!(insert(&table, "a", 1, 1, false).await, Some(2));
    assert_eq!(insert(&table, "a", 1, 10, false).await, None);
    assert_eq!(insert(&table, "b", 1, 100, false).await, Some(2));
    assert_eq!(long(&table, "SELECT SUM(n) FROM t").await, 202);
    store.close().await;
    let store = open(options()).await;
    let table = store.table("plain").await.unwrap().unwrap();
    assert_eq!(insert(&table, "a", 1, 10, false).await, None);
    assert_eq!(insert(&table, "a", 2, 1, false).await, Some(2));
    // The log is read from a checkpoint on.
    table.upkeep().await.unwrap();
    store.close().await;
    let checkpoints = std::fs::read_dir(directory.path().join("plain/_delta_log")).unwrap();
    assert!(checkpoints.flatten().any(|file| file.file_name().to_string_lossy().contains("checkpoint")));
    let store = open(options()).await;
    let table = store.table("plain").await.unwrap().unwrap();
    assert_eq!(insert(&table, "b", 1, 10, true).await, None, "nothing is overwritten again either");
    assert_eq!(insert(&table, "a", 2, 10, false).await, None);
    assert_eq!(long(&table, "SELECT SUM(n) FROM t").await, 204);
    assert_eq!(insert(&table, "a", 7, 5, true).await, Some(2));
    assert_eq!(long(&table, "SELECT SUM(n) FROM t").await, 10);
}

/// Rows with these numbers.
fn powers(first: u64, powers: &[f32]) -> Rows {
    let Rows { first, batch } = rows(first, first + powers.len() as u64);
    let place = batch.schema().index_of("power_reading").unwrap();
    let mut columns = batch.columns().to_vec();
    columns[place] = Arc::new(Float32Array::from(powers.to_vec()));
    Rows { first, batch: RecordBatch::try_new(batch.schema(), columns).unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_number_is_found_in_files_as_it_is_before() {
    const STATEMENTS: [&str; 5] = [
        "SELECT power_reading FROM t ORDER BY _offset",
        "SELECT COUNT(*) FROM t WHERE power_reading > 10",
        "SELECT COUNT(*) FROM t WHERE power_reading = 5",
        "SELECT MAX(power_reading), MIN(power_reading) FROM t",
        "SELECT power_reading FROM t ORDER BY power_reading DESC, _offset LIMIT 1",
    ];
    async fn answers(table: &Table) -> Vec<Vec<String>> {
        let mut answers = Vec::new();
        for statement in STATEMENTS {
            answers.push(text(&sql(table, statement).await));
        }
        answers
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    let mut next = 0;
    // One commit each, of one batch or several: the bounds that a file has leave NaN out.
    for batches in [&[&[5.0, f32::NAN][..]][..], &[&[5.0, 5.0]], &[&[7.0], &[-f32::NAN, 8.0], &[9.0]]] {
        for batch in batches {
            table.append(powers(next, batch)).await.unwrap();
            next += batch.len() as u64;
        }
        let before = answers(&table).await;
        table.flush().await.unwrap();
        assert_eq!(answers(&table).await, before);
    }
    let mut wider = home("homes");
    wider.columns[3] = column("power_reading", Type::DOUBLE);
    let before = answers(&table).await;
    table.alter(&wider).await.unwrap();
    assert_eq!(answers(&table).await, before, "written anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_with_long_texts_come_a_few_at_a_time() {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(TableSpec::new("texts", vec![column("text", Type::STRING)])).await.unwrap();
    // 160 texts of 256 KiB, of which nothing can be pressed out but two bits of each letter.
    let mut state = 1_u64;
    let mut text = || -> String {
        let letters = (0..256 << 10).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(LETTERS[(state >> 58) as usize])
        });
        letters.collect()
    };
    let times = TimestampMicrosecondArray::from_iter_values(std::iter::repeat_n(START_MICROS, 160));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (OFFSET_COLUMN, Arc::new(Int64Array::from_iter_values(0..160))),
        (TIME_COLUMN, Arc::new(times.with_timezone("UTC"))),
        ("text", Arc::new(StringViewArray::from_iter_values((0..160).map(|_| text())))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    table.append(Rows { first: Offset(0), batch }).await.unwrap();
    table.flush().await.unwrap();
    let largest = |batches: Vec<RecordBatch>| {
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 160);
        batches.iter().map(RecordBatch::num_rows).max().unwrap()
    };
    // 16 MiB on disk are some ninety of them.
    let rows = largest(sql(&table, "SELECT text FROM t").await);
    assert!((64..100).contains(&rows), "{rows}");
    assert_eq!(largest(sql(&table, "SELECT _offset FROM t").await), 160, "offsets are short");
}
