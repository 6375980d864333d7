//! Tests the owner's maintenance between commits: files stay few and memory flat however many commits there were, expired
//! rows are deleted, and other rows stay.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests print, and what fails there fails a test"
)]

use std::{sync::Arc, time::Duration};

use crate::common::*;
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use swiftwater_event::{Clock, Offset, Primitive, TimeUnit, Type};
use swiftwater_store::{At, Rows, Store, StoreOptions, TableSpec};

fn files(directory: &std::path::Path, ends_with: &str) -> usize {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(ends_with)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_commits_leave_few_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    (options.compact_files, options.checkpoint_commits) = (8, 50);
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    // Files are kept as long as the clock stands, so that nothing is deleted under a query.
    let clock = Arc::new(TestClock::at(now() + 60_000));
    let store = Store::open(options.clone(), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(home("homes")).await.unwrap();
    let commits = 300;
    let mut most = 0;
    for part in 0..commits {
        table.append(rows(part * 20, part * 20 + 20)).await.unwrap();
        table.flush().await.unwrap();
        most = most.max(table.status().files);
    }
    // Compaction keeps up while rows come in, with no help.
    assert!(most < 150, "{most} files");
    check_offsets(&table, commits * 20).await;
    clock.advance_ms(1);
    table.upkeep().await.unwrap();
    clock.advance_ms(1);
    table.upkeep().await.unwrap();
    let status = table.status();
    assert!(status.files <= 16, "{status:?}");
    assert_eq!(status.rows, commits * 20);
    assert!(status.upkeep_failing.is_none(), "{status:?}");
    let root = directory.path().join("homes");
    assert_eq!(files(&root, ".parquet"), status.files);
    let log = files(&root.join("_delta_log"), ".json");
    assert!(log < 60, "{log} commits in the log of {}", status.version);
    assert_eq!(files(&root.join("_delta_log"), ".tmp"), 0);
    check_offsets(&table, commits * 20).await;
    store.close().await;
    let table = open(options).await.open_table(home("homes")).await.unwrap();
    assert_eq!(table.committed(), Offset(commits * 20));
    check_offsets(&table, commits * 20).await;
    // The first versions are no longer there, and that is said.
    assert_eq!(
        table.provider(Some(At::Version(1))).await.unwrap_err().kind(),
        swiftwater_store::ErrorKind::NotFound
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_an_earlier_life_go_also_where_the_log_has_forgotten_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 4;
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    // Its clock stands, so it deletes nothing; and it is late, so what it removes has expired when a checkpoint is written.
    let clock = Arc::new(TestClock::at(now() - 120_000));
    let store = Store::open(options.clone(), clock as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(home("homes")).await.unwrap();
    for part in 0..20 {
        table.append(rows(part * 20, part * 20 + 20)).await.unwrap();
        table.flush().await.unwrap();
    }
    for _ in 0..2 {
        table.upkeep().await.unwrap();
    }
    let live = table.status().files;
    store.close().await;
    let root = directory.path().join("homes");
    assert!(files(&root, ".parquet") > live, "nothing was removed");
    // Another program's, which may be at it.
    let theirs = "part-00000-3b1f0f33-6a50-4b53-9d4c-2a4f9d0c8e11-c000.zstd.parquet";
    std::fs::write(root.join(theirs), "x").unwrap();
    let clock = Arc::new(TestClock::at(now() + 60_000));
    let store = Store::open(options, clock as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(home("homes")).await.unwrap();
    table.upkeep().await.unwrap();
    let status = table.status();
    assert!(status.upkeep_failing.is_none(), "{status:?}");
    assert!(root.join(theirs).exists());
    assert_eq!(files(&root, ".parquet"), status.files + 1);
    check_offsets(&table, 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_merged_late_where_rows_wait() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 2;
    let table = open(options).await.open_table(home("homes")).await.unwrap();
    table.set_behind(true);
    let commit = async |part: u64| {
        table.append(rows(part * 20, part * 20 + 20)).await.unwrap();
        table.flush().await.unwrap();
        table.upkeep().await.unwrap();
        table.status().files
    };
    for part in 0..31 {
        assert_eq!(commit(part).await, part as usize + 1);
    }
    // This is sixteen times the usual number.
    assert_eq!(commit(31).await, 1);
    assert_eq!(commit(32).await, 2);
    table.set_behind(false);
    table.upkeep().await.unwrap();
    assert_eq!(table.status().files, 1);
    check_offsets(&table, 33 * 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_lost_are_passed_and_committed_as_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    table.append(rows(0, 10)).await.unwrap();
    table.skip_to(Offset(15)).await.unwrap();
    assert_eq!((table.appended(), table.committed()), (Offset(15), Offset(0)));
    check_offsets(&table, 10).await;
    table.flush().await.unwrap();
    table.skip_to(Offset(20)).await.unwrap();
    table.skip_to(Offset(3)).await.unwrap();
    table.flush().await.unwrap();
    assert_eq!((table.committed(), table.status().files), (Offset(20), 1));
    store.close().await;
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    assert_eq!(table.committed(), Offset(20));
    table.append(rows(15, 22)).await.unwrap();
    let expected: Vec<i64> = (0..10).chain(20..22).collect();
    assert_eq!(offsets(&table).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_rows_go_with_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START_MICROS / 1000));
    let store = Store::open(patient(directory.path()), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let mut spec = home("homes");
    spec.retention = Some(Duration::from_secs(3600));
    let table = store.open_table(spec).await.unwrap();
    let minute = 60_000_000;
    for part in 0..4 {
        table.append(rows_every(part * 30, part * 30 + 30, minute)).await.unwrap();
        table.flush().await.unwrap();
    }
    table.upkeep().await.unwrap();
    check_offsets(&table, 120).await;
    // Rows 0 to 29 are over an hour old now, those up to 59 in part.
    clock.advance(Duration::from_secs(60 * (60 + 45)));
    table.upkeep().await.unwrap();
    assert_eq!(text(&sql(&table, "SELECT MIN(_offset), COUNT(*) FROM t").await), ["30|90"]);
    assert_eq!(table.committed(), Offset(120));
    // The earlier rows can still be queried.
    assert_eq!(text(&sql_at(&table, Some(At::Version(4)), "SELECT COUNT(*) FROM t").await), ["120"]);
}

/// Seconds of the clock of tests of retention.
const SECOND: i64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_fed_keeps_little_more_than_its_retention() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START_MICROS / 1000));
    let mut options = patient(directory.path());
    options.compact_files = 4;
    let store = Store::open(options, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let mut spec = home("homes");
    spec.retention = Some(Duration::from_secs(400));
    let table = store.open_table(spec).await.unwrap();
    // An event every two seconds, a commit every ten, upkeep every fifty, for eight retentions.
    let mut most = 0;
    for commit in 0..8 * 40 {
        table.append(rows_every(commit * 5, commit * 5 + 5, 2 * SECOND)).await.unwrap();
        table.flush().await.unwrap();
        clock.advance(Duration::from_secs(10));
        if commit % 5 != 4 {
            continue;
        }
        table.upkeep().await.unwrap();
        most = most.max(table.status().files);
        let last = (commit * 5 + 4) as i64;
        let found = offsets(&table).await;
        // Nothing goes before its time, and after another quarter of it all has.
        assert!(found[0] <= (last - 198).max(0), "{} is gone after {last}", found[0] - 1);
        assert!(found[0] >= last - 250, "{} is there after {last}", found[0]);
        assert_eq!(found.len() as i64, last + 1 - found[0]);
    }
    // There are six slots, with up to three files each.
    assert!(most <= 18, "{most} files");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_goes_from_a_store_that_has_no_room_for_more() {
    let objects = FailingStore::remote();
    let clock = Arc::new(TestClock::at(START_MICROS / 1000));
    let mut options = StoreOptions::at("memory");
    options.commit_interval = Duration::from_secs(3600);
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    let shared: Arc<dyn ObjectStore> = Arc::new(objects.clone());
    let store = Store::open_at(shared, options, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let mut spec = home("homes");
    spec.retention = Some(Duration::from_secs(400));
    let table = store.open_table(spec).await.unwrap();
    table.append(rows(0, 10)).await.unwrap();
    table.flush().await.unwrap();
    assert_eq!(table.status().files, 1);

    // There is room for what a commit says, and for no file of its rows.
    objects.set_object_bytes_max(Some(4000));
    clock.advance(Duration::from_secs(1000));
    table.append(rows(10, 50_000)).await.unwrap();
    let flushing = table.clone();
    let flushed = tokio::spawn(async move { flushing.flush().await });
    while table.status().failing.is_none() {
        tokio::task::yield_now().await;
    }
    // There is no room for a checkpoint, either; the rest is done.
    assert!(table.upkeep().await.is_err());
    clock.advance_ms(1);
    assert!(table.upkeep().await.is_err());
    assert_eq!(table.status().files, 0, "what has expired is taken out");
    let list: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let parquet = list.iter().filter(|object| object.location.as_ref().ends_with(".parquet"));
    assert_eq!(parquet.count(), 0, "and deleted");
    assert!(table.status().failing.is_some());

    objects.set_object_bytes_max(None);
    flushed.await.unwrap().unwrap();
    assert_eq!(table.committed().0, 50_000);
    store.close().await;
}

/// A stream with a retention of 400 s by its own column `ts`, which stands behind so many others.
fn timed_home(others: usize) -> TableSpec {
    let mut spec = home("homes");
    spec.columns.extend((0..others).map(|place| column(&format!("other_{place}"), Type::LONG)));
    spec.columns.push(column("ts", Type::Primitive(Primitive::Timestamp(TimeUnit::Microsecond))));
    spec.time_column = Some("ts".into());
    spec.retention = Some(Duration::from_secs(400));
    spec
}

/// The row of an offset, with this `ts`.
fn timed(offset: u64, ts: Option<i64>) -> Rows {
    let Rows { first, batch } = rows(offset, offset + 1);
    let (schema, ts) = (batch.schema(), TimestampMicrosecondArray::from(vec![ts]).with_timezone("UTC"));
    let names = schema.fields().iter().map(|field| field.name().as_str()).chain(["ts"]);
    let columns = batch.columns().iter().cloned().chain([Arc::new(ts) as ArrayRef]);
    let columns = names.zip(columns).map(|(name, column)| (name, column, true));
    Rows { first, batch: RecordBatch::try_from_iter_with_nullable(columns).unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_goes_by_a_column_behind_many_others() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START_MICROS / 1000));
    let store = Store::open(patient(directory.path()), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(timed_home(100)).await.unwrap();
    table.append(timed(0, Some(START_MICROS))).await.unwrap();
    table.flush().await.unwrap();
    clock.advance(Duration::from_secs(400));
    table.upkeep().await.unwrap();
    assert_eq!(offsets(&table).await, [0]);
    clock.advance(Duration::from_secs(1));
    table.upkeep().await.unwrap();
    assert!(offsets(&table).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn times_out_of_order_and_far_ahead_leave_few_files_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START_MICROS / 1000));
    let mut options = patient(directory.path());
    options.compact_files = 4;
    let store = Store::open(options, Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(timed_home(0)).await.unwrap();
    let commits: u64 = 200;
    for commit in 0..commits {
        // Each of one event: now, 90 s ago, 300 s ago, long ago, up to four years ahead by a bad clock, at no time.
        let now = START_MICROS + commit as i64 * 10 * SECOND;
        let ts = match commit % 6 {
            0 => Some(now),
            1 => Some(now - 90 * SECOND),
            2 => Some(now - 300 * SECOND),
            3 => Some(now - commit as i64 * 1000 * SECOND),
            4 => Some(now + (SECOND << (commit / 6 % 27))),
            _ => None,
        };
        table.append(timed(commit, ts)).await.unwrap();
        table.flush().await.unwrap();
        clock.advance(Duration::from_secs(10));
    }
    table.upkeep().await.unwrap();
    let now = START_MICROS + commits as i64 * 10 * SECOND;
    let overdue = format!("SELECT COUNT(*) FROM t WHERE ts < to_timestamp_micros({})", now - 500 * SECOND);
    assert_eq!(long(&table, &overdue).await, 0);
    // Rows without a time stay, and so do those of the future.
    assert_eq!(long(&table, "SELECT COUNT(*) FROM t WHERE ts IS NULL").await, 33);
    let ahead = format!("SELECT COUNT(*) FROM t WHERE ts > to_timestamp_micros({})", now - 400 * SECOND);
    assert!(long(&table, &ahead).await >= 27, "what is ahead is there");
    let files = table.status().files;
    assert!(files <= 75, "{files} files");
}

/// Smart-home events of the published load test: houses, devices and peaks at random, readings of random digits.
fn smart_home(first: u64, count: u64, seed: &mut u64) -> Rows {
    let mut random = |bound: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % bound
    };
    const METROS: [(&str, &str); 4] =
        [("Seattle", "WA"), ("Los Angeles", "CA"), ("San Francisco", "CA"), ("New York City", "NY")];
    let (mut houses, mut devices, mut powers, mut peaks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut metros, mut states) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (metro, state) = METROS[random(4) as usize];
        metros.push(metro);
        states.push(state);
        houses.push(1 + random(21) as i32);
        devices.push(1 + random(7) as i32);
        powers.push(random(1 << 24) as f32 / (1 << 24) as f32 * (1 + random(10)) as f32 * 100.0);
        peaks.push(random(2) == 0);
    }
    let times = (first..first + count).map(|offset| START_MICROS + (offset / 1000 * 1000) as i64);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("_offset", Arc::new((first..first + count).map(|offset| offset as i64).collect::<Int64Array>())),
        ("_time", Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))),
        ("house_id", Arc::new(Int32Array::from(houses))),
        ("metro_area", Arc::new(StringViewArray::from_iter_values(metros))),
        ("state", Arc::new(StringViewArray::from_iter_values(states))),
        ("device_id", Arc::new(Int32Array::from(devices))),
        ("power_reading", Arc::new(Float32Array::from(powers))),
        ("is_peak", Arc::new(BooleanArray::from(peaks))),
    ];
    Rows { first: Offset(first), batch: RecordBatch::try_from_iter(columns).unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn smart_home_events_take_under_eight_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let columns = [
        ("house_id", Type::INTEGER),
        ("metro_area", Type::STRING),
        ("state", Type::STRING),
        ("device_id", Type::INTEGER),
        ("power_reading", Type::FLOAT),
        ("is_peak", Type::BOOLEAN),
    ];
    let spec = TableSpec::new("homes", columns.map(|(name, ty)| column(name, ty)).to_vec());
    let table = store.open_table(spec).await.unwrap();
    let mut seed = 7;
    for part in 0..20 {
        table.append(smart_home(part * 10_000, 10_000, &mut seed)).await.unwrap();
    }
    table.flush().await.unwrap();
    let status = table.status();
    let bytes = status.file_bytes as f64 / status.rows as f64;
    println!("{bytes:.2} bytes an event, of {} events", status.rows);
    assert!(bytes < 8.0, "{bytes:.2} bytes an event");
}
