//! Tests that objects that were created and dropped leave no task, thread, open file, file or memory behind, whatever their
//! kind.

use std::{
    path::Path,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use futures_util::StreamExt;
use swiftwater_engine::{EndReason, Engine, EngineConfig, HistoryConfig, Principal, SubmitOptions};
use swiftwater_event::{Clock, SystemClock};
use swiftwater_sql::RunOptions;

use crate::{BYTES, ONE_AT_A_TIME};

/// Time that tasks and files have to disappear after the last drop.
const PATIENCE_NANOS: u64 = 60_000_000_000;
/// Memory that may remain of one object: caches with a bound, and the allocator's own.
const BYTES_LEFT_MAX: usize = 1 << 10;
/// The same of an object with a keyspace of the key-value store. fjall 3.1 lists keyspaces in a tree that it compacts with a
/// watermark of 0 (`MetaKeyspace::maintenance`): neither tombstones nor earlier versions of the list go, in memory and as
/// files, before the store is opened again. Each version has the index of its own list, so what one leaves grows with the list:
/// from 5 KB at 1,000 to 28 KB at 5,000 keyspaces that were deleted.
const KEYSPACE_BYTES_LEFT_MAX: usize = 48 << 10;
/// Kinds with a keyspace of their own, of a view that they own, or of the changes that they deliver.
const WITH_KEYSPACE: [&str; 5] = ["view", "view of a view", "alert", "sink", "stream join"];
/// Memory that may remain of all of them together: what is created once and kept, such as buffers of the log.
const BYTES_ONCE_MAX: usize = 1 << 20;

/// A kind of object: how the one of a number is created, and how it is dropped.
struct Kind {
    name: &'static str,
    create: &'static str,
    drop: &'static str,
}

/// `#` stands for the number.
const KINDS: [Kind; 11] = [
    Kind { name: "stored stream", create: "CREATE STREAM s# (a LONG)", drop: "DROP STREAM s#" },
    Kind {
        name: "live stream",
        create: "CREATE STREAM s# (a LONG) WITH (store = false)",
        drop: "DROP STREAM s#",
    },
    Kind { name: "table", create: "CREATE TABLE t# (a BIGINT)", drop: "DROP TABLE t#" },
    Kind {
        name: "view",
        create: "CREATE MATERIALIZED VIEW v# AS SELECT k, COUNT(*) AS n FROM STREAM(base) GROUP BY k",
        drop: "DROP VIEW v#",
    },
    Kind {
        name: "view of a view",
        create: "CREATE MATERIALIZED VIEW v# AS SELECT n, COUNT(*) AS ks FROM STREAM(counts) GROUP BY n",
        drop: "DROP VIEW v#",
    },
    Kind {
        name: "alert",
        create: "CREATE ALERT a# ON counts WHEN n > 1000000 INTO told",
        drop: "DROP ALERT a#",
    },
    Kind {
        name: "sink",
        create: "CREATE SINK k# FROM CHANGES OF counts INTO STREAM told",
        drop: "DROP SINK k#",
    },
    Kind {
        name: "stream join",
        create: "CREATE JOIN j# INTO told AS SELECT x.k AS k FROM STREAM(base) x JOIN STREAM(base) y \
                   ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '1 s'",
        drop: "DROP JOIN j#",
    },
    Kind { name: "job", create: "CREATE JOB j# SCHEDULE '@yearly' AS SELECT 1", drop: "DROP JOB j#" },
    Kind {
        name: "endpoint",
        create: "CREATE ENDPOINT POST '/e#' (k LONG) INTO base",
        drop: "DROP ENDPOINT POST '/e#'",
    },
    Kind {
        name: "saved query",
        create: "CREATE SAVED QUERY q# AS $$SELECT k FROM STREAM(base)$$",
        drop: "DROP SAVED QUERY q#",
    },
];

/// The store of views deletes a part once its journal has nothing of it, so the last ones may still be there.
const PARTS_LEFT_MAX: usize = 3;
/// A part is a directory with three entries.
const PART_ENTRIES: usize = 4;

/// Threads that start with the first object of a kind and stay: those of the store of views, and of statements.
const THREADS_ONCE_MAX: usize = 8;

/// The engine's tasks, threads, memory and files at a time.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    tasks: usize,
    threads: usize,
    open_files: usize,
    files: usize,
    bytes: usize,
}

/// The directory in which the key-value store of views lists its keyspaces. It adds files whenever a keyspace is created or
/// deleted, and removes those of before when it is opened again.
const LIST_OF_PARTS: &str = "views/keyspaces/0";
/// Files that list the keyspaces after a restart.
const LIST_FILES_MAX: usize = 16;

/// Entries of a directory and of all below it.
fn entries(directory: &Path) -> usize {
    let Ok(read) = std::fs::read_dir(directory) else { return 0 };
    let below = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => 1 + entries(&entry.path()),
        _ => 1,
    };
    read.flatten().filter(|entry| !entry.path().ends_with(LIST_OF_PARTS)).map(below).sum()
}

/// Files and sockets that this process has open.
fn open_files() -> usize {
    let Ok(read) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let is_counted = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| !path.to_string_lossy().contains(LIST_OF_PARTS))
    };
    read.flatten().filter(is_counted).count()
}

impl Footprint {
    /// The log's segments come and go with time, as do the files of a table that stays; of tables the directories are counted.
    fn now(dir: &Path) -> Footprint {
        let tables = std::fs::read_dir(dir.join("tables")).map_or(0, Iterator::count);
        Footprint {
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            threads: std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count),
            open_files: open_files(),
            files: tables + entries(&dir.join("views")),
            bytes: BYTES.load(Ordering::Relaxed),
        }
    }

    /// True if no more is there than before, but for memory.
    fn is_back_at(&self, before: &Footprint) -> bool {
        self.tasks <= before.tasks
            && self.open_files <= before.open_files
            && self.files <= before.files + PARTS_LEFT_MAX * PART_ENTRIES
    }
}

async fn run(engine: &Engine, text: &str) {
    let options = RunOptions { others: Some(engine.statements()), ..RunOptions::default() };
    let mut answer = engine
        .sql()
        .expect("there is SQL")
        .run(text, options)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    while let Some(rows) = answer.next().await {
        rows.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// Yields until the condition holds; fails if that takes too long.
async fn until(dir: &Path, name: &str, expected: &Footprint, mut is_so: impl FnMut(Footprint) -> bool) {
    let clock = SystemClock::new();
    let deadline = clock.monotonic_nanos() + PATIENCE_NANOS;
    loop {
        let now = Footprint::now(dir);
        if is_so(now) {
            return;
        }
        assert!(clock.monotonic_nanos() < deadline, "{name}: expected {expected:?}, found {now:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Creates and drops so many objects, by `create` and `drop`, and compares what is there afterwards with what was before.
async fn check(name: &str, dir: &Path, count: usize, create: impl AsyncFn(usize), drop: impl AsyncFn(usize)) {
    let round = async |numbers: std::ops::Range<usize>| {
        for number in numbers.clone() {
            create(number).await;
        }
        let most = Footprint::now(dir);
        for number in numbers {
            drop(number).await;
        }
        most
    };
    let idle = Footprint::now(dir);
    // Caches and buffers are filled by a first round.
    round(0..count.div_ceil(4)).await;
    until(dir, name, &idle, |now| now.is_back_at(&idle)).await;
    let before = Footprint::now(dir);
    let most = round(0..count).await;
    until(dir, name, &before, |now| now.is_back_at(&before)).await;
    // Memory is freed when the last task has released it.
    let left_max = if WITH_KEYSPACE.contains(&name) { KEYSPACE_BYTES_LEFT_MAX } else { BYTES_LEFT_MAX };
    let allowed = before.bytes + BYTES_ONCE_MAX + count * left_max;
    until(dir, name, &before, |now| now.bytes <= allowed).await;
    let after = Footprint::now(dir);
    eprintln!(
        "{name}: {count} created and dropped: before {before:?}, with all of them {most:?}, after {after:?}"
    );
}

#[test]
fn objects_that_were_dropped_leave_nothing_behind() {
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // There is one view already, and 1,000 may be.
    let count = if std::env::var_os("SOAK_CASES").is_some() { 999 } else { 40 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime is built");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("a directory is made");
        let mut history = HistoryConfig::at(dir.path());
        (history.log_free_bytes_min, history.checkpoint_interval_ms) = (0, 100);
        // A cache that is full after some objects does not look like memory that is lost.
        history.views_cache_bytes = 1 << 20;
        history.joins_max = 1_000;
        let config = EngineConfig { shards: 2, ..EngineConfig::default() };
        let opened = Engine::open(config.clone(), history.clone(), Arc::new(SystemClock::new())).await;
        let engine = opened.expect("it opens");
        for text in [
            "CREATE STREAM base (k LONG, ts LONG, WATERMARK FOR ts AS ts)",
            "CREATE STREAM told WITH (store = true)",
            "CREATE MATERIALIZED VIEW counts AS SELECT k, COUNT(*) AS n FROM STREAM(base) GROUP BY k",
            "INSERT INTO base VALUES (1, 1000)",
        ] {
            run(&engine, text).await;
        }
        let one =
            async |text: &str, number: usize| run(&engine, &text.replace('#', &number.to_string())).await;
        let start = Footprint::now(dir.path());
        for kind in KINDS {
            let create = async |number| one(kind.create, number).await;
            let drop = async |number| one(kind.drop, number).await;
            check(kind.name, dir.path(), count, create, drop).await;
        }
        let ids = std::sync::Mutex::new(Vec::new());
        let local = Principal::local();
        let create = async |_| {
            let text = "SELECT COUNT(*) AS n FROM STREAM(base, MAX, TIME) WINDOWING TUMBLING(1000, TIME)";
            let submitted = engine.submit_detached(&local, text, SubmitOptions::default()).await;
            ids.lock().expect("nobody panics with it").push(submitted.expect("it is submitted").id);
        };
        let drop = async |_| {
            let id = ids.lock().expect("nobody panics with it").pop().expect("it was submitted");
            engine.end_query(&local, &id, EndReason::Killed).expect("it is there");
            // Once it has ended, another call forgets it.
            while engine.query(&local, &id).is_ok() {
                let _ = engine.end_query(&local, &id, EndReason::Killed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // The durable queries of a stream share a task, which is there as long as one of them is.
        create(0).await;
        check("durable query", dir.path(), count, create, drop).await;
        // Threads for blocking work end when they have had none for ten seconds.
        until(dir.path(), "all kinds", &start, |now| now.threads <= start.threads + THREADS_ONCE_MAX).await;
        engine.shutdown(Duration::from_secs(5)).await;
        std::mem::drop(engine);
        let engine =
            Engine::open(config, history, Arc::new(SystemClock::new())).await.expect("it opens again");
        let listed = entries(&dir.path().join(LIST_OF_PARTS));
        assert!(listed <= LIST_FILES_MAX, "{listed} files list the keyspaces after a restart");
        let reopened = Footprint::now(dir.path());
        let allowed = start.bytes + BYTES_ONCE_MAX + count * BYTES_LEFT_MAX;
        assert!(reopened.bytes <= allowed, "started with {start:?}, opened again with {reopened:?}");
        engine.shutdown(Duration::from_secs(5)).await;
    });
}
