//! Tests `swiftwater backup` and `restore` with the real server: killed at any instant, damaged, run again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use common::{ProcessOutput, Running, TestServer, http::Connection, run, swiftwater};
use serde_json::Value;
use swiftwater_testkit::{Moto, Rng};

fn ask(server: &str, path: &str, body: &str) -> Value {
    let mut connection = Connection::open(server.strip_prefix("http://").unwrap()).unwrap();
    let answer = connection.ask_with("POST", path, &["accept: application/json"], body.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{body}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

const COUNTED: &str = "CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM STREAM(t)";

fn sql(server: &TestServer, text: &str) -> Value {
    ask(&server.url, "/v1/sql", text)
}

/// Events, a request each, until it is told to stop; `sent` counts those that are acknowledged.
fn sender(server: &TestServer, stop: &Arc<AtomicBool>, sent: &Arc<AtomicU64>) -> std::thread::JoinHandle<()> {
    let (url, stop, sent) = (server.url.clone(), Arc::clone(stop), Arc::clone(sent));
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let next = sent.load(Ordering::SeqCst);
            let lines: Vec<String> = (next..next + 20).map(|number| format!("{{\"n\":{number}}}")).collect();
            ask(&url, "/v1/streams/t/events", &lines.join("\n"));
            sent.store(next + 20, Ordering::SeqCst);
        }
    })
}

fn backup(server: &TestServer, dir: &Path) -> ProcessOutput {
    run(&["backup", "--server", &server.url, dir.to_str().unwrap()])
}

fn verify(dir: &Path) -> ProcessOutput {
    run(&["backup", "--verify", dir.to_str().unwrap()])
}

/// The events of a server started from a backup: how many, how many different ones, and the one after the last.
fn restored(dir: &Path) -> (u64, u64, u64) {
    let data = tempfile::tempdir().unwrap();
    let ran = run(&["restore", dir.to_str().unwrap(), "--data", data.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let server = TestServer::over(data.path());
    let row = sql(&server, "SELECT count(*) AS n, count(DISTINCT n) AS d, max(n) + 1 AS top FROM t");
    let number = |name: &str| row[0][name].as_u64().unwrap();
    assert_eq!(
        sql(&server, "SELECT n FROM counted")[0]["n"],
        row[0]["n"],
        "the view goes on from what was kept"
    );
    (number("n"), number("d"), number("top"))
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn backup_that_is_killed_again_and_again_goes_on_and_is_whole_in_the_end() {
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = copies.path().join("new/backup");
    let server = TestServer::over(data.path());
    sql(&server, "CREATE STREAM t (n LONG NOT NULL)");
    sql(&server, COUNTED);
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sender = sender(&server, &stop, &sent);
    common::until("some events", || sent.load(Ordering::SeqCst) > 500);
    let mut rng = Rng::new(11);
    let mut killed = 0;
    for _ in 0..12 {
        let mut running = Running::start(&["backup", "--server", &server.url, dir.to_str().unwrap()]);
        std::thread::park_timeout(Duration::from_millis(rng.below(120) as u64));
        running.signal("KILL");
        killed += u64::from(!running.child.wait().unwrap().success());
        if dir.join("manifest.json").exists() {
            assert_eq!(verify(&dir).code, Some(0), "whatever was killed, what says that it is whole is");
        }
    }
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let begun = dir.join("unfinished").exists();
        let before = sent.load(Ordering::SeqCst);
        let ran = backup(&server, &dir);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let after = sent.load(Ordering::SeqCst) + 20;
        let verified = verify(&dir);
        assert_eq!(verified.code, Some(0), "{}", verified.err);
        let (n, different, top) = restored(&dir);
        assert_eq!((different, top), (n, n), "each once, and none left out");
        // A cut that was begun by one that was killed is from before.
        assert!((begun || n >= before) && n <= after, "{before} <= {n} <= {after}, begun: {begun}");
        rounds.push(n);
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    assert!(rounds[1] > rounds[0], "{rounds:?}");
    println!("killed {killed} of 12 times; events restored: {rounds:?}");
}

#[test]
fn second_backup_fetches_what_has_changed_and_what_is_damaged() {
    let (data, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = TestServer::over(data.path());
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, s STRING)");
    sql(&server, COUNTED);
    let lines: Vec<String> = (0..2000).map(|n| format!("{{\"n\":{n},\"s\":\"{n}\"}}")).collect();
    ask(&server.url, "/v1/streams/t/events", &lines.join("\n"));
    let is_committed = || {
        let mut found = Vec::new();
        files(&data.path().join("tables"), &mut found);
        // The first version is the table without rows. A file that is there is not yet part of a version.
        found.iter().any(|path| path.ends_with("_delta_log/00000000000000000001.json"))
    };
    common::until("the events to be in the table", is_committed);
    let ran = backup(&server, dir.path());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let mut found = Vec::new();
    files(&dir.path().join("tables"), &mut found);
    let parquet = found.iter().find(|path| path.to_string_lossy().contains(".parquet")).unwrap();
    // Untouched while it is right: a file that is written again has another time.
    let written = || fs::metadata(parquet).unwrap().modified().unwrap();
    let first = written();
    assert_eq!(backup(&server, dir.path()).code, Some(0));
    assert_eq!(written(), first);
    let whole = fs::read(parquet).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(parquet, &damaged).unwrap();
    let ran = verify(dir.path());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains(parquet.to_str().unwrap()) && ran.err.contains("is damaged"), "{}", ran.err);
    let other = tempfile::tempdir().unwrap();
    let to = other.path().to_str().unwrap();
    let ran = run(&["restore", dir.path().to_str().unwrap(), "--data", to]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains(parquet.to_str().unwrap()), "{}", ran.err);
    // A directory that is restored in part is not opened.
    let ran = run(&["serve", "--listen", "127.0.0.1:0", "--data", to]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("the restore of the data directory"), "{}", ran.err);
    assert!(ran.err.contains("Run the same `swiftwater restore` again"), "{}", ran.err);
    // Cut off in the middle, as by an interruption: the rest is fetched behind what is there.
    fs::write(format!("{}.part", parquet.display()), &whole[..whole.len() / 3]).unwrap();
    let ran = backup(&server, dir.path());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(fs::read(parquet).unwrap(), whole);
    assert_eq!(restored(dir.path()), (2000, 2000, 2000));
    let mut left = Vec::new();
    files(dir.path(), &mut left);
    let manifest: Value =
        serde_json::from_slice(&fs::read(dir.path().join("manifest.json")).unwrap()).unwrap();
    // The manifest and the lock beside the files, and nothing of earlier backups.
    assert_eq!(left.len(), manifest["files"].as_array().unwrap().len() + 2, "{left:?}");
}

/// Rows of both tables of a server and the sums over them.
fn counted(server: &TestServer) -> Value {
    let text = "SELECT (SELECT count(*) FROM t) AS events, (SELECT sum(n) FROM t) AS sum, \
                (SELECT count(DISTINCT n) FROM t) AS different, (SELECT sum(a) FROM plain) AS plain";
    sql(server, text)[0].clone()
}

#[test]
fn backup_is_restored_into_an_object_store_and_taken_from_one() {
    let Some(python) = std::env::var_os("SWIFTWATER_PYTHON") else {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/delta/requirements.txt");
        return;
    };
    let moto = Moto::start(Path::new(&python));
    moto.make_bucket("swiftwater");
    let options = moto.options().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let s3 = ["--store.location", "s3://swiftwater/again", "--store.options", &options.join(",")];
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = copies.path().join("backup");
    let server = TestServer::over(data.path());
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, day STRING) WITH (partition_by = (day))");
    sql(&server, "CREATE TABLE plain AS SELECT value AS a FROM range(0, 1000)");
    let lines = |numbers: std::ops::Range<u64>| {
        let line = |n| format!("{{\"n\":{n},\"day\":\"d {}\"}}", n % 3);
        numbers.map(line).collect::<Vec<String>>().join("\n")
    };
    ask(&server.url, "/v1/streams/t/events", &lines(0..3000));
    common::until("a commit", || sql(&server, "SHOW STREAMS")[0]["committed"] == 3000);
    // Some of these are in the log alone.
    ask(&server.url, "/v1/streams/t/events", &lines(3000..3500));
    let expected = counted(&server);
    assert_eq!((&expected["events"], &expected["plain"]), (&Value::from(3500), &Value::from(499_500)));
    assert_eq!(backup(&server, &dir).code, Some(0));
    drop(server);

    // It breaks off at a file that is damaged, and goes on when that is mended.
    let mut found = Vec::new();
    files(&dir.join("tables"), &mut found);
    let parquet = found.iter().find(|path| path.to_string_lossy().contains(".parquet")).unwrap();
    let whole = fs::read(parquet).unwrap();
    fs::write(parquet, &whole[1..]).unwrap();
    let again = tempfile::tempdir().unwrap();
    let to = again.path().to_str().unwrap();
    // By what S3's own tools read, while the server is told by options.
    let restore = |to: &str| -> ProcessOutput {
        let mut command =
            swiftwater(&[&["restore", dir.to_str().unwrap(), "--data", to][..], &s3[..2]].concat());
        command.envs(moto.options().into_iter().map(|(name, value)| (name.to_uppercase(), value)));
        command.output().unwrap().into()
    };
    let ran = restore(to);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let serve = ["--data", to, "--store.commit-interval-ms", "50", "--data.log-free-bytes-min", "0"];
    fs::write(parquet, &whole).unwrap();
    let ran = restore(to);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        !again.path().join("tables").exists()
            || fs::read_dir(again.path().join("tables")).unwrap().next().is_none()
    );
    // Existing files are not overwritten.
    let other = tempfile::tempdir().unwrap();
    let ran = restore(other.path().to_str().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("`s3://swiftwater/again` is not empty"), "{}", ran.err);

    let server = TestServer::start(&[&serve[..], &s3].concat());
    assert_eq!(counted(&server), expected);
    ask(&server.url, "/v1/streams/t/events", &lines(3500..4000));
    sql(&server, "INSERT INTO plain VALUES (500)");
    common::until("a commit", || sql(&server, "SHOW STREAMS")[0]["committed"] == 4000);
    let expected = counted(&server);
    assert_eq!((&expected["different"], &expected["plain"]), (&Value::from(4000), &Value::from(500_000)));
    // And back from there to a local disk.
    let from_s3 = copies.path().join("from-s3");
    let ran = backup(&server, &from_s3);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    drop(server);
    let local = tempfile::tempdir().unwrap();
    let ran = run(&["restore", from_s3.to_str().unwrap(), "--data", local.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(counted(&TestServer::over(local.path())), expected);
}

#[test]
fn directory_of_something_else_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::over(data.path());
    sql(&server, "CREATE STREAM t (n LONG)");
    let mine = tempfile::tempdir().unwrap();
    fs::create_dir(mine.path().join("log")).unwrap();
    fs::write(mine.path().join("log/mine"), "x").unwrap();
    for dir in [data.path(), mine.path()] {
        let ran = backup(&server, dir);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains("is not empty, and contains no backup"), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(mine.path().join("log/mine")).unwrap(), "x");
    let ran = verify(data.path());
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("it has no manifest.json"), "{}", ran.err);
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(backup(&server, dir.path()).code, Some(0));
    let ran = run(&["restore", dir.path().to_str().unwrap(), "--data", data.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("is in use by another process"), "{}", ran.err);
    drop(server);
    let ran = run(&["restore", dir.path().to_str().unwrap(), "--data", data.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("is not empty"), "{}", ran.err);
    let ran = run(&["restore", dir.path().to_str().unwrap()]);
    assert!(ran.err.contains("name the new data directory"), "{}", ran.err);
    let ran = run(&["backup", "--server", "http://127.0.0.1:1", dir.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cannot reach a server"), "{}", ran.err);
}
