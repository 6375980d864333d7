//! Tests missing or damaged files of views and tables: an answer is right, or an error reports the damage, and the rest is
//! served.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use swiftwater_engine::{Engine, EngineConfig, Principal, ViewStatus, Wanted};
use swiftwater_log::{Compression, CompressionPolicy, Disk};
use swiftwater_testkit::{Rng, TestClock};

use crate::{
    crashes::{Kind, Machine},
    history::{append, sql, stop, try_sql, until_said},
    views::{open, row},
};

/// Enough for all that waits to be committed.
const GRACE: Duration = Duration::from_secs(20);

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let to = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
}

fn status(engine: &Engine, view: &str) -> ViewStatus {
    engine.view(&Principal::local(), view).unwrap()
}

const STREAM: &str = "CREATE STREAM t (k LONG NOT NULL, pad STRING)";
const VIEW: &str = "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k";
const OTHER: &str = "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM STREAM(t)";
const OVER: &str = "CREATE MATERIALIZED VIEW over AS SELECT n, COUNT(*) AS k FROM STREAM(v) GROUP BY n";
const ALERT: &str = "CREATE ALERT many ON v WHEN n >= 3 INTO told";
const JOIN: &str = "CREATE JOIN near INTO pairs AS SELECT x.id AS a, y.id AS b FROM STREAM(s) x JOIN STREAM(s) y \
     ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '10 ms' WHERE x.id <> y.id";

fn events(keys: u64, times: u64) -> String {
    (0..keys * times).map(|n| format!("{{\"k\":{}}}", n % keys)).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_file_of_the_views_is_damaged_the_server_starts_and_counts_are_right() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let made = dir.path().join("made");
    let engine = open(&made, |_| ()).await;
    for statement in [STREAM, VIEW, OTHER, OVER] {
        sql(&engine, statement).await;
    }
    append(&engine, "t", &events(5, 3), None).await;
    until_said(&engine, "SELECT * FROM over", "{\"n\":3,\"k\":5}\n").await;
    stop(engine, GRACE).await;
    let mut rng = Rng::new(7);
    let all = files(&made.join("views"));
    for (number, file) in all.iter().enumerate() {
        let name = file.strip_prefix(&made).unwrap();
        let case = dir.path().join(format!("case-{number}"));
        copy(&made, &case);
        let bytes = fs::read(file).unwrap();
        // `current` is the file without which a keyspace is taken for a new one.
        let how = if name.ends_with("current") { 0 } else { rng.below(3) };
        match how {
            0 => fs::remove_file(case.join(name)).unwrap(),
            1 => fs::write(case.join(name), vec![0; bytes.len()]).unwrap(),
            _ => fs::write(case.join(name), &bytes[..bytes.len() / 2]).unwrap(),
        }
        let what = format!("{} in way {how}", name.display());
        let engine = open(&case, |_| ()).await;
        append(&engine, "t", "{\"k\":2}", None).await;
        assert_eq!(row(&engine, "v", &["2"]).await, "{\"k\":2,\"n\":4}", "{what}");
        assert_eq!(row(&engine, "w", &[]).await, "{\"n\":16}", "{what}");
        until_said(&engine, "SELECT * FROM over ORDER BY n", "{\"n\":3,\"k\":4}\n{\"n\":4,\"k\":1}\n").await;
        assert_eq!(status(&engine, "v").failing, None, "{what}");
        stop(engine, Duration::ZERO).await;
        // Without a grace period, the view store may still create a file meanwhile. The rest goes with the directory of the test.
        let _ = fs::remove_dir_all(case);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_that_lost_its_files_is_rebuilt_from_the_table_once_the_log_has_given_its_events_up() {
    let dir = tempfile::tempdir().unwrap();
    let small = |history: &mut swiftwater_engine::HistoryConfig| {
        history.log_segment_bytes = 1 << 20;
        history.log_compression = CompressionPolicy::Always(Compression::None);
    };
    let engine = open(dir.path(), small).await;
    sql(&engine, STREAM).await;
    sql(&engine, VIEW).await;
    let pad = "x".repeat(100_000);
    for round in 0..50 {
        append(&engine, "t", &format!("{{\"k\":{},\"pad\":\"{pad}\"}}", round % 5), None).await;
    }
    assert_eq!(row(&engine, "v", &["1"]).await, "{\"k\":1,\"n\":10}");
    stop(engine, GRACE).await;
    for keyspace in fs::read_dir(dir.path().join("views/keyspaces")).unwrap() {
        let _ = fs::remove_file(keyspace.unwrap().path().join("current"));
    }
    let engine = open(dir.path(), small).await;
    append(&engine, "t", "{\"k\":1}", None).await;
    assert_eq!(row(&engine, "v", &["1"]).await, "{\"k\":1,\"n\":11}");
    until_said(&engine, "SELECT sum(n) AS n FROM v", "{\"n\":51}\n").await;
    stop(engine, GRACE).await;
    let engine = open(dir.path(), small).await;
    assert_eq!(row(&engine, "v", &["1"]).await, "{\"k\":1,\"n\":11}");
    assert_eq!(status(&engine, "v").failing, None);
}

/// Neither the log nor the table has the events that it had counted.
#[tokio::test(flavor = "multi_thread")]
async fn view_that_lost_its_files_and_whose_events_retention_deleted_fails_and_counts_nothing_anew() {
    for lost in ["current", "views", "views and their mark"] {
        let clock = Arc::new(TestClock::at(1_700_000_000_000));
        let dir = tempfile::tempdir().unwrap();
        let mut machine = Machine::new(Kind::Disk);
        let views = dir.path().join("views");
        machine.views = Some(views.clone());
        let open = async || {
            let config = EngineConfig { shards: 1, ..EngineConfig::default() };
            machine.open_as(&clock, config).await.unwrap()
        };
        let engine = open().await;
        sql(&engine, "CREATE STREAM t (k LONG NOT NULL, pad STRING) WITH (retention = '1 second')").await;
        sql(&engine, VIEW).await;
        let pad = "x".repeat(5_000);
        for round in 0..20 {
            append(&engine, "t", &format!("{{\"k\":{},\"pad\":\"{pad}\"}}", round % 5), None).await;
        }
        assert_eq!(row(&engine, "v", &["1"]).await, "{\"k\":1,\"n\":4}");
        let patience = async {
            // The log has a segment of each event.
            let segments =
                || machine.log.names().unwrap().iter().filter(|name| name.ends_with(".segment")).count();
            while sql(&engine, "SELECT count(*) AS n FROM t").await != "{\"n\":0}\n" || segments() > 10 {
                clock.advance_ms(100);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), patience).await.unwrap();
        stop(engine, GRACE).await;
        match lost {
            "current" => {
                for file in files(&views).into_iter().filter(|file| file.ends_with(lost)) {
                    fs::remove_file(file).unwrap();
                }
            }
            "views" => fs::remove_dir_all(&views).unwrap(),
            _ => {
                fs::remove_dir_all(&views).unwrap();
                fs::remove_file(dir.path().join("views.mark")).unwrap();
            }
        }
        for _ in 0..2 {
            let engine = open().await;
            append(&engine, "t", "{\"k\":1}", None).await;
            let failing = async {
                loop {
                    clock.advance_ms(100);
                    // Until that is known, its error reports its progress; a file may be deleted while it is read,
                    // which is tried again.
                    let is_passing = |failing: &str| {
                        !failing.contains("cannot be rebuilt")
                            && (failing.contains("it is rebuilt")
                                || failing.contains("cannot be read from the table"))
                    };
                    match status(&engine, "v").failing {
                        Some(failing) if !is_passing(&failing) => break failing,
                        _ => tokio::time::sleep(Duration::from_millis(2)).await,
                    }
                }
            };
            let failing = tokio::time::timeout(Duration::from_secs(60), failing).await;
            let failing = failing.unwrap_or_else(|_| panic!("{lost}: {:?}", status(&engine, "v")));
            assert!(failing.contains("cannot be rebuilt") && failing.contains("DROP"), "{lost}: {failing}");
            let rows = engine.view_rows(&Principal::local(), "v", &Default::default(), Wanted::AsItIs).await;
            assert!(rows.unwrap_err().to_string().contains("cannot be rebuilt"), "{lost}");
            stop(engine, GRACE).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rebuilt_says_so_and_what_to_do_and_can_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for statement in [
        STREAM,
        VIEW,
        "CREATE STREAM told (state STRING, key JSON)",
        "CREATE STREAM s (id LONG, k STRING, ts LONG, WATERMARK FOR ts AS ts)",
        "CREATE STREAM pairs (a LONG, b LONG)",
        "CREATE TABLE names AS SELECT 1 AS k, 'one' AS name",
        ALERT,
        JOIN,
        "CREATE MATERIALIZED VIEW named AS SELECT o.name, COUNT(*) AS n FROM STREAM(t) AS e JOIN names AS o \
         ON e.k = o.k GROUP BY o.name",
    ] {
        sql(&engine, statement).await;
    }
    append(&engine, "t", &events(3, 3), None).await;
    until_said(&engine, "SELECT count(*) AS n FROM told", "{\"n\":3}\n").await;
    until_said(&engine, "SELECT n FROM named", "{\"n\":3}\n").await;
    append(&engine, "s", "{\"id\":1,\"k\":\"a\",\"ts\":5}\n{\"id\":2,\"k\":\"a\",\"ts\":6}", None).await;
    until_said(&engine, "SELECT a, b FROM pairs", "{\"a\":1,\"b\":2}\n").await;
    stop(engine, GRACE).await;
    fs::remove_dir_all(dir.path().join("views")).unwrap();
    let engine = open(dir.path(), |_| ()).await;
    assert_eq!(row(&engine, "v", &["1"]).await, "{\"k\":1,\"n\":3}", "it is rebuilt");
    let failing = status(&engine, "named").failing.unwrap();
    assert!(failing.contains("joined with rows that have changed") && failing.contains("DROP"), "{failing}");
    let refused = engine.view_rows(&Principal::local(), "named", &Default::default(), Wanted::AsItIs).await;
    assert!(refused.unwrap_err().to_string().contains("cannot be rebuilt"));
    let said = "files were damaged";
    let failing = async |show: &str| sql(&engine, show).await.contains(said);
    while !failing("SHOW ALERTS").await || !failing("SHOW JOINS").await {
        tokio::task::yield_now().await;
    }
    for statement in ["DROP ALERT many", "DROP JOIN near", "DROP VIEW named", ALERT, JOIN] {
        sql(&engine, statement).await;
    }
    until_said(&engine, "SELECT count(*) AS n FROM told", "{\"n\":6}\n").await;
    stop(engine, GRACE).await;
    let engine = open(dir.path(), |_| ()).await;
    assert!(!sql(&engine, "SHOW ALERTS").await.contains(said));
    assert!(!sql(&engine, "SHOW JOINS").await.contains(said));
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_of_a_table_s_file_gives_the_right_answer_or_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let tables = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    let engine = open(dir.path(), |_| ()).await;
    for table in 0..tables {
        let select =
            "SELECT value AS a, value * 1.5 AS b, concat('text ', value % 100) AS c FROM range(0, 20000)";
        sql(&engine, &format!("CREATE TABLE t{table} AS {select}")).await;
    }
    let answer = "SELECT sum(a) AS a, sum(b) AS b, count(DISTINCT c) AS c, max(length(c)) AS l FROM ";
    let right = sql(&engine, &format!("{answer} t0")).await;
    stop(engine, GRACE).await;
    let (mut rng, mut wrong) = (Rng::new(11), 0);
    let mut flipped = Vec::new();
    for table in 0..tables {
        let place = dir.path().join(format!("tables/t{table}"));
        let file =
            files(&place).into_iter().find(|file| file.extension().is_some_and(|end| end == "parquet"));
        let file = file.unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let (at, bit) = (rng.below(bytes.len()), rng.below(8));
        bytes[at] ^= 1 << bit;
        fs::write(&file, bytes).unwrap();
        flipped.push((file.file_name().unwrap().to_str().unwrap().to_owned(), at, bit));
    }
    let engine = open(dir.path(), |_| ()).await;
    for (table, (file, at, bit)) in flipped.iter().enumerate() {
        match try_sql(&engine, &format!("{answer} t{table}")).await {
            Ok(told) => assert_eq!(told, right, "bit {bit} of byte {at}"),
            Err(error) => {
                wrong += 1;
                assert!(error.to_string().contains(file), "bit {bit} of byte {at}: {error}");
            }
        }
    }
    assert!(wrong > 0, "some flip is found");
}

#[tokio::test(flavor = "multi_thread")]
async fn table_whose_files_are_gone_is_named_and_refused_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    for (name, gone) in [("whole", ""), ("log", "_delta_log")] {
        sql(&engine, "CREATE TABLE kept AS SELECT 1 AS a").await;
        sql(&engine, &format!("CREATE TABLE {name} (a BIGINT)")).await;
        sql(&engine, &format!("INSERT INTO {name} VALUES (7)")).await;
        let place = dir.path().join("tables").join(name).join(gone);
        for is_running in [true, false] {
            if !is_running {
                stop(engine, GRACE).await;
                engine = open(dir.path(), |_| ()).await;
            } else {
                fs::remove_dir_all(&place).unwrap();
            }
            assert!(sql(&engine, "SHOW TABLES").await.contains(name), "running: {is_running}");
            let statements =
                [format!("SELECT count(*) AS n FROM {name}"), format!("INSERT INTO {name} VALUES (8)")];
            let taken = try_sql(&engine, &format!("CREATE TABLE {name} (a BIGINT)")).await.unwrap_err();
            assert!(taken.to_string().contains("already exists"), "{taken}");
            for statement in statements {
                let error = try_sql(&engine, &statement).await.unwrap_err().to_string();
                let expected = format!("the files of table `{name}` are missing");
                assert!(error.contains(&expected), "running: {is_running}, {statement}: {error}");
            }
            assert_eq!(sql(&engine, "SELECT a FROM kept").await, "{\"a\":1}\n");
        }
        sql(&engine, &format!("DROP TABLE {name}")).await;
        sql(&engine, &format!("CREATE TABLE {name} AS SELECT 9 AS a")).await;
        assert_eq!(sql(&engine, &format!("SELECT a FROM {name}")).await, "{\"a\":9}\n");
        sql(&engine, "DROP TABLE kept").await;
    }
    stop(engine, GRACE).await;
    let engine = open(dir.path(), |_| ()).await;
    assert!(!sql(&engine, "SHOW TABLES").await.contains("kept"), "what was dropped is not missed");
}

#[tokio::test(flavor = "multi_thread")]
async fn table_whose_creation_is_cancelled_can_be_listed_dropped_or_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for cut in 0..40_u32 {
        let create = try_sql(&engine, "CREATE TABLE made (a BIGINT)");
        // Left off wherever it waits the next time but so many.
        let mut create = Box::pin(create);
        for _ in 0..cut {
            if futures_util::poll!(&mut create).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(create);
        sql(&engine, "CREATE TABLE IF NOT EXISTS made (a BIGINT)").await;
        assert!(sql(&engine, "SHOW TABLES").await.contains("made"), "left off after {cut}");
        sql(&engine, "INSERT INTO made VALUES (1)").await;
        sql(&engine, "DROP TABLE made").await;
        assert_eq!(sql(&engine, "SHOW TABLES").await, "", "left off after {cut}");
    }
}
