//! Tests backups: everything acknowledged before a backup is in it once, whatever happens meanwhile, and damage is detected.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::TryStreamExt;
use swiftwater_engine::{
    Ack, AppendOptions, BACKUP_KEPT, BACKUPS_MAX, Backup, BackupError, BackupManifest, BackupOptions, Engine,
    EngineConfig, EngineError, ErrorKind, HistoryConfig, HistoryError, MANIFEST_NAME, Numbered, Principal,
    RestoreError, restore, verify_backup,
};
use swiftwater_event::{Clock, StreamName, SystemClock};
use swiftwater_testkit::TestClock;

use crate::{
    history::{append, batch, sql, stop, try_sql},
    jobs_crashes::Parts,
};

fn config(dir: &Path) -> HistoryConfig {
    let mut history = HistoryConfig::at(dir);
    (history.log_free_bytes_min, history.store_commit_interval_ms) = (0, 20);
    history.checkpoint_interval_ms = 20;
    history
}

async fn open(dir: &Path) -> Engine {
    try_open(dir, Arc::new(SystemClock::new())).await.expect("the directory opens")
}

async fn try_open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Engine, HistoryError> {
    Engine::open(EngineConfig { shards: 2, ..EngineConfig::default() }, config(dir), clock).await
}

pub(crate) async fn begin(engine: &Engine) -> Arc<Backup> {
    engine.start_backup(&Principal::local(), BackupOptions::default()).await.expect("a backup can be taken")
}

/// Fetches all of a backup, each file in two parts.
pub(crate) async fn fetched(backup: &Backup, to: &Path) {
    for file in &backup.manifest().files {
        let path = to.join(file.place());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        for range in [0..file.bytes / 3, file.bytes / 3..file.bytes] {
            let pieces: Vec<_> = backup.read(&file.name, range).unwrap().try_collect().await.unwrap();
            bytes.extend(pieces.concat());
        }
        fs::write(path, bytes).unwrap();
    }
    fs::write(to.join(MANIFEST_NAME), backup.manifest().to_json()).unwrap();
}

pub(crate) async fn restored(from: &Path, to: &Path) -> Result<BackupManifest, RestoreError> {
    restore(&config(to), from, Arc::new(SystemClock::new()), |_, _| {}).await
}

fn text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The places of all files of a backup.
fn places(dir: &Path) -> Vec<PathBuf> {
    let (manifest, faults) = verify_backup(dir, |_, _| {}).unwrap();
    assert!(faults.is_empty(), "{faults:?}");
    manifest.files.iter().map(|file| dir.join(file.place())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_taken_while_events_come_in_has_what_was_acknowledged_before_once() {
    const SENDERS: u64 = 3;
    let data = tempfile::tempdir().unwrap();
    // Files that no version needs are deleted at once, except for backups.
    let hasty = HistoryConfig { store_versions_kept_ms: 0, ..config(data.path()) };
    let clock = Arc::new(SystemClock::new());
    let engine = Engine::open(EngineConfig::default(), hasty, clock).await.expect("the directory opens");
    sql(&engine, "CREATE STREAM t (sender LONG NOT NULL, number LONG NOT NULL)").await;
    sql(&engine, "CREATE STREAM found WITH (store = true)").await;
    sql(&engine, "CREATE TABLE kept AS SELECT 1 AS a, 'x' AS b").await;
    let stopped = Arc::new(AtomicBool::new(false));
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..SENDERS).map(|_| AtomicU64::new(0)).collect());
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (engine, stopped) = (engine.clone(), Arc::clone(&stopped));
            let acknowledged = Arc::clone(&acknowledged);
            tokio::spawn(async move {
                let mut number = 0;
                while !stopped.load(Ordering::Relaxed) {
                    let event = format!("{{\"sender\":{sender},\"number\":{number}}}");
                    let numbered = Numbered {
                        producer: format!("s{sender}").into(),
                        sequence: number,
                        part: 0,
                        after: 0,
                        hash: 0,
                    };
                    append(&engine, "t", &event, Some(numbered)).await;
                    append(&engine, "found", &event, None).await;
                    number += 1;
                    acknowledged[sender as usize].store(number, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let count = |sender: u64| acknowledged[sender as usize].load(Ordering::SeqCst);
    // Commits of the tables pass by, with the compactions that follow them.
    let commits = async |wanted: u64| {
        let least = (0..SENDERS).map(count).min().unwrap_or(0) + wanted;
        while (0..SENDERS).any(|sender| count(sender) < least) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    for round in 0..3 {
        commits(60).await;
        let before: Vec<u64> = (0..SENDERS).map(count).collect();
        let backup = begin(&engine).await;
        // A request may be stored and its sender not yet told.
        let after: Vec<u64> = (0..SENDERS).map(|sender| count(sender) + 1).collect();
        commits(60).await;
        let (copy, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fetched(&backup, copy.path()).await;
        engine.end_backup(&Principal::local(), &backup.manifest().id).unwrap();
        assert_eq!(verify_backup(copy.path(), |_, _| {}).unwrap().0, *backup.manifest());
        restored(copy.path(), other.path()).await.unwrap();
        let again = open(other.path()).await;
        for sender in 0..SENDERS {
            let least = before[sender as usize]..=after[sender as usize];
            for table in ["t", "found"] {
                let rows = sql(
                    &again,
                    &format!(
                        "SELECT count(*) AS n, count(DISTINCT number) AS d, max(number) + 1 AS top \
                         FROM {table} WHERE sender = {sender}"
                    ),
                )
                .await;
                let row: serde_json::Value = serde_json::from_str(&rows).unwrap();
                let n = row["n"].as_u64().unwrap();
                assert!(least.contains(&n), "round {round}, {table}, sender {sender}: {n} of {least:?}");
                assert_eq!((&row["d"], &row["top"]), (&row["n"], &row["n"]), "round {round}, {table}");
                if table == "t" {
                    let numbered = Numbered {
                        producer: format!("s{sender}").into(),
                        sequence: n - 1,
                        part: 0,
                        after: 0,
                        hash: 0,
                    };
                    let event = format!("{{\"sender\":{sender},\"number\":{}}}", n - 1);
                    let repeated = append(&again, "t", &event, Some(numbered)).await;
                    assert!(repeated.is_repeated, "round {round}: a producer's numbers are in the backup");
                }
            }
        }
        let offsets = sql(
            &again,
            "SELECT count(*) = max(_offset) + 1 AND count(*) = count(DISTINCT _offset) AS whole FROM t",
        );
        assert_eq!(offsets.await, "{\"whole\":true}\n");
        assert_eq!(sql(&again, "SELECT * FROM kept").await, "{\"a\":1,\"b\":\"x\"}\n");
        stop(again, Duration::from_secs(5)).await;
    }
    stopped.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_that_runs_while_a_backup_is_taken_leaves_nothing_out_and_doubles_nothing() {
    let data = tempfile::tempdir().unwrap();
    let engine = open(data.path()).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE TABLE counts (n BIGINT)").await;
    // They are looked at after `counts`, which takes time in which a run may end.
    for number in 0..20 {
        sql(&engine, &format!("CREATE TABLE z{number} (n BIGINT)")).await;
    }
    sql(
        &engine,
        "CREATE JOB j SCHEDULE '@yearly' WITH (incremental = true) AS INSERT INTO counts SELECT count(*) FROM s",
    )
    .await;
    // The missing counts are for the next run.
    let count =
        "SELECT (SELECT count(*) FROM s) AS events, (SELECT coalesce(sum(n), 0) FROM counts) AS counted";
    let counted = async |engine: &Engine| {
        let row: serde_json::Value = serde_json::from_str(&sql(engine, count).await).unwrap();
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("events"), number("counted"))
    };
    let stopped = Arc::new(AtomicBool::new(false));
    let running = tokio::spawn({
        let (engine, stopped) = (engine.clone(), Arc::clone(&stopped));
        async move {
            while !stopped.load(Ordering::Relaxed) {
                append(&engine, "s", "{\"a\":1}", None).await;
                // One that runs already is not begun again.
                let _ = try_sql(&engine, "RUN JOB j").await;
            }
        }
    });
    for _ in 0..3 {
        let before = counted(&engine).await.1;
        let later = tokio::time::timeout(Duration::from_secs(30), async {
            while counted(&engine).await.1 == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        later.await.expect("the job runs");
        let backup = begin(&engine).await;
        let (copy, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fetched(&backup, copy.path()).await;
        engine.end_backup(&Principal::local(), &backup.manifest().id).unwrap();
        restored(copy.path(), other.path()).await.unwrap();
        let again = open(other.path()).await;
        let all = tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                let (events, counted) = counted(&again).await;
                if events == counted {
                    break;
                }
                assert!(counted < events, "{counted} of {events} events are counted");
                let _ = try_sql(&again, "RUN JOB j").await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        if all.await.is_err() {
            let (events, counted) = counted(&again).await;
            panic!("of {events} events {counted} are counted");
        }
        stop(again, Duration::ZERO).await;
    }
    stopped.store(true, Ordering::Relaxed);
    running.await.unwrap();
    stop(engine, Duration::from_secs(5)).await;
}

/// A backup of a small server: some events in the table, some in the log alone.
async fn small_backup(copy: &Path) {
    let data = tempfile::tempdir().unwrap();
    let engine = open(data.path()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM STREAM(t)").await;
    append(&engine, "t", "{\"a\":1}\n{\"a\":2}", None).await;
    sql(&engine, "SELECT count(*) FROM t").await;
    while !fs::read_dir(data.path().join("tables/t"))
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".parquet"))
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    append(&engine, "t", "{\"a\":3}", None).await;
    fetched(&*begin(&engine).await, copy).await;
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_anywhere_is_found_and_told_with_its_file() {
    let copy = tempfile::tempdir().unwrap();
    small_backup(copy.path()).await;
    for path in places(copy.path()) {
        let bytes = fs::read(&path).unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, damaged).unwrap();
            let (_, faults) = verify_backup(copy.path(), |_, _| {}).unwrap();
            assert_eq!(faults.len(), 1, "{}", path.display());
            assert_eq!(faults[0].path, path);
            let other = tempfile::tempdir().unwrap();
            let error = restored(copy.path(), other.path()).await.unwrap_err();
            assert!(text(&error).contains(path.to_str().unwrap()), "{}", text(&error));
        }
        for (damaged, what) in
            [(&bytes[..bytes.len() - 1], "bytes, expected"), (&[&bytes[..], b"x"].concat(), "more than")]
        {
            fs::write(&path, damaged).unwrap();
            let (_, faults) = verify_backup(copy.path(), |_, _| {}).unwrap();
            assert!(faults.len() == 1 && faults[0].to_string().contains(what), "{faults:?}");
        }
        fs::remove_file(&path).unwrap();
        let (_, faults) = verify_backup(copy.path(), |_, _| {}).unwrap();
        assert!(faults[0].to_string().ends_with("is missing"), "{faults:?}");
        fs::write(&path, bytes).unwrap();
    }
    fs::remove_file(copy.path().join(MANIFEST_NAME)).unwrap();
    let error = restored(copy.path(), tempfile::tempdir().unwrap().path()).await.unwrap_err();
    assert!(matches!(error, RestoreError::NoBackup(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_restore_goes_on_and_nobody_opens_what_it_has_left() {
    let (copy, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    small_backup(copy.path()).await;
    let places = places(copy.path());
    for path in &places {
        let (data, bytes) = (tempfile::tempdir().unwrap(), fs::read(path).unwrap());
        // The restore reaches the damaged file, and stops there.
        fs::write(path, &bytes[1..]).unwrap();
        restored(copy.path(), data.path()).await.unwrap_err();
        fs::write(path, &bytes).unwrap();
        let refused = try_open(data.path(), Arc::new(SystemClock::new())).await.err();
        assert!(matches!(refused, Some(HistoryError::Restoring(_))), "{refused:?}");
        restored(copy.path(), data.path()).await.unwrap();
        let engine = open(data.path()).await;
        assert_eq!(sql(&engine, "SELECT count(*) AS n, sum(a) AS s FROM t").await, "{\"n\":3,\"s\":6}\n");
        assert_eq!(sql(&engine, "SELECT s FROM v").await, "{\"s\":6}\n");
        stop(engine, Duration::ZERO).await;
        // Threads of the engine may hold the directory for some moments more.
        let error = loop {
            match restored(copy.path(), data.path()).await.unwrap_err() {
                RestoreError::Directory(HistoryError::Locked(_)) => tokio::task::yield_now().await,
                error => break error,
            }
        };
        assert!(matches!(error, RestoreError::NotEmpty(_)), "{error}");
    }
    // Into a store elsewhere, which must be empty too.
    let data = tempfile::tempdir().unwrap();
    let mut elsewhere = config(data.path());
    elsewhere.store_location = store.path().to_str().unwrap().to_owned();
    fs::write(store.path().join("mine"), "x").unwrap();
    let into = async |config: &HistoryConfig| {
        restore(config, copy.path(), Arc::new(SystemClock::new()), |_, _| {}).await
    };
    let error = into(&elsewhere).await.unwrap_err();
    assert!(matches!(&error, RestoreError::NotEmpty(place) if *place == elsewhere.store_location), "{error}");
    fs::remove_file(store.path().join("mine")).unwrap();
    into(&elsewhere).await.unwrap();
    assert!(store.path().join("t/_delta_log").exists() && !data.path().join("tables/t").exists());
    // A restore that another one began is not continued.
    let (other, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    small_backup(other.path()).await;
    let (bytes, last) = (fs::read(&places[0]).unwrap(), &places[0]);
    fs::write(last, b"").unwrap();
    restored(copy.path(), data.path()).await.unwrap_err();
    fs::write(last, bytes).unwrap();
    let error = restored(other.path(), data.path()).await.unwrap_err();
    assert!(matches!(error, RestoreError::Other(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_end_when_nobody_reads_them_and_there_are_few() {
    let data = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let engine = try_open(data.path(), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let local = Principal::local();
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    append(&engine, "t", "{\"a\":1}", None).await;
    let mut standing = Vec::new();
    for _ in 0..BACKUPS_MAX {
        standing.push(begin(&engine).await.manifest().id.clone());
    }
    let refused = engine.start_backup(&local, BackupOptions::default()).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    let (kept, left) = (&standing[0], &standing[1]);
    clock.advance(BACKUP_KEPT / 2);
    let file = engine.backup(&local, kept).unwrap().manifest().files[0].name.clone();
    clock.advance(BACKUP_KEPT / 2);
    let backup = engine.backup(&local, kept).expect("it was looked at");
    assert_eq!(engine.backup(&local, left).err(), Some(BackupError::NotFound(left.clone()).into()));
    assert_eq!(backup.file("log/nix").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    // A file that is being read exists until it is read.
    let pieces = backup.read(&file, 0..u64::MAX).unwrap();
    drop(backup);
    engine.end_backup(&local, kept).unwrap();
    assert_eq!(engine.end_backup(&local, kept).err(), Some(BackupError::NotFound(kept.clone()).into()));
    assert!(!pieces.try_collect::<Vec<_>>().await.unwrap().concat().is_empty());
    let backup = begin(&engine).await;
    sql(&engine, "DROP STREAM t").await;
    let void = engine.backup(&local, &backup.manifest().id).err();
    assert_eq!(void, Some(BackupError::TableDropped { table: "t".to_owned() }.into()));
    stop(engine, Duration::ZERO).await;
    let without = Engine::start(EngineConfig::default(), clock);
    assert_eq!(
        without.start_backup(&local, BackupOptions::default()).await.err(),
        Some(EngineError::NoHistory)
    );
    without.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn backup_whose_log_cannot_be_written_is_refused_and_holds_up_nobody_for_long() {
    let (parts, clock) = (Parts::new(), Arc::new(TestClock::at(0)));
    let engine = parts.open_with(&clock, |history| history.backup_sync_ms_max = 2_000).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    let name = StreamName::new("s").unwrap();
    let options = AppendOptions { ack: Ack::Memory, ..AppendOptions::default() };
    for (kind, said) in
        [(std::io::ErrorKind::StorageFull, "is full"), (std::io::ErrorKind::Other, "cannot be written")]
    {
        parts.log.fail_all(Some(kind));
        // Until the log has found it out.
        while engine.append(&Principal::local(), &name, batch("{\"a\":1}"), options.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let refused = engine.start_backup(&Principal::local(), BackupOptions::default()).await.err().unwrap();
        assert!(refused.to_string().contains(said), "{refused}");
        parts.log.fail_all(None);
        drop(begin(&engine).await);
    }
    assert!(sql(&engine, "SELECT count(*) >= 2 AS is FROM s").await.contains("true"));
}
