//! Tests stored streams under conditions at which some other server once failed. These are poison among good events, one
//! huge event among small ones, a store that is away and comes back, a reader that does not read, and endless input. At its
//! end, each test counts the acknowledged events by SQL, and checks that the server's memory stayed within bounds.
//!
//! With `SOAK_SECONDS` set (`make torture`) the tests do more, the store is away for a minute, and the last one runs for
//! that long. Without it, all of them take seconds. Kills in the middle of a commit are in `kills.rs`, disks that get full
//! in `full_disks.rs`.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    io::Read,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};

use common::{
    garbage::Attacker,
    http::Connection,
    seconds,
    tortured::{self, MIB, Tortured, amount, seed, show, soak_seconds},
    until,
};
use serde_json::{Value, json};
use swiftwater_event::{Clock, SystemClock};

/// The memory of a server that does not depend on its input: the binary, stacks, buffers, the queues of the log and of
/// tables that are kept small below, and the temporary memory of SQL.
fn base() -> u64 {
    tortured::base(600 * MIB, 128 * MIB)
}

fn start(data: &Path, more: &[&str]) -> Tortured {
    let data = data.to_str().unwrap();
    let few = [
        "--data",
        data,
        "--data.log-free-bytes-min",
        "0",
        "--data.checkpoint-interval-ms",
        "50",
        "--store.commit-interval-ms",
        "50",
        "--engine.pending-bytes-max",
        "16MiB",
    ];
    Tortured::start(&[&few[..], more].concat())
}

fn try_sql(server: &Tortured, text: &str) -> Result<Value, String> {
    let fields = ["accept: application/json"];
    let answer = server.connect().ask_with("POST", "/v1/sql", &fields, text.as_bytes()).unwrap();
    match answer.status {
        200 => Ok(answer.json()),
        _ => Err(String::from_utf8_lossy(&answer.body).into_owned()),
    }
}

fn sql(server: &Tortured, text: &str) -> Value {
    try_sql(server, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Events of a stream, and how many of them are in its table's commits.
fn committed(server: &Tortured, stream: &str) -> (u64, u64) {
    let streams = sql(server, "SHOW STREAMS");
    let shown = streams.as_array().unwrap().iter().find(|shown| shown["stream"] == stream).unwrap();
    (shown["events"].as_u64().unwrap(), shown["committed"].as_u64().unwrap_or(0))
}

fn until_committed(server: &Tortured, stream: &str) {
    until(&format!("{stream} to be committed"), || {
        let (events, committed) = committed(server, stream);
        committed == events
    });
}

/// A client that nothing may disturb: it sends numbered events to a stored stream, a request at a time, and is told of each.
struct Steady {
    connection: Connection,
    stream: &'static str,
    sent: u64,
    /// The longest that a request took, in seconds.
    longest: f64,
}

impl Steady {
    fn start(server: &Tortured, stream: &'static str) -> Steady {
        sql(server, &format!("CREATE STREAM {stream} (n LONG NOT NULL, pad STRING)"));
        Steady { connection: server.connect(), stream, sent: 0, longest: 0.0 }
    }

    fn round(&mut self, count: u64) {
        let event = |n: u64| format!("{{\"n\":{n},\"pad\":\"{n:060}\"}}\n");
        let body: String = (self.sent..self.sent + count).map(event).collect();
        let path = format!("/v1/streams/{}/events?ack=disk", self.stream);
        let (took, answer) = seconds(|| self.connection.ask("POST", &path, body.as_bytes()).unwrap());
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.json()["accepted"], count);
        self.sent += count;
        self.longest = self.longest.max(took);
    }

    /// Each of its events is there once.
    fn check(&self, server: &Tortured) {
        // Groups go to disk where they do not fit, as what is counted DISTINCT does not.
        let select = format!(
            "SELECT sum(c) AS n, count(*) AS d, max(n) AS top FROM (SELECT n, count(*) AS c FROM {} GROUP BY n)",
            self.stream
        );
        let expected = json!([{"n": self.sent, "d": self.sent, "top": self.sent - 1}]);
        assert_eq!(sql(server, &select), expected);
    }
}

/// Signals the end to the other threads, also if a test fails.
struct OnEnd<'o>(&'o AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Streams that attackers send to and are told of.
const ATTACKED: [&str; 4] = ["broken", "bombs", "mixed", "deep"];

#[test]
fn poison_among_events_stops_nothing_and_what_was_taken_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    for stream in ATTACKED.iter().chain(&["noise", "half", "framing"]) {
        sql(&server, &format!("CREATE STREAM {stream} WITH (store = true)"));
    }
    let mut steady = Steady::start(&server, "steady");
    let (seed, attacks) = (seed(), amount(12, 1_000));
    let (taken, running) = (AtomicU64::new(0), AtomicU64::new(4));
    thread::scope(|scope| {
        for number in 0..4 {
            let (authority, taken, running) = (&server.authority, &taken, &running);
            scope.spawn(move || {
                let mut attacker = Attacker::new(seed * 1_000 + number, authority);
                (0..attacks).for_each(|_| attacker.attack());
                taken.fetch_add(attacker.accepted, Relaxed);
                running.fetch_sub(1, Relaxed);
            });
        }
        while running.load(Relaxed) > 0 {
            steady.round(50);
        }
    });
    let counts = || -> u64 {
        let count = |stream: &&str| -> u64 {
            sql(&server, &format!("SELECT count(*) AS n FROM {stream}"))[0]["n"].as_u64().unwrap()
        };
        ATTACKED.iter().map(count).sum()
    };
    assert_eq!(counts(), taken.into_inner());
    steady.check(&server);
    ATTACKED.iter().chain(&["steady"]).for_each(|stream| until_committed(&server, stream));
    show(&format!(
        "poison: {} events beside it, one request took {:.2} s at most",
        steady.sent, steady.longest
    ));
    server.check_peak("poison", base());
    server.ends_well();
}

#[test]
fn one_event_of_ten_megabytes_among_small_ones_is_stored_like_them() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--server.event-bytes-max", "16MiB"];
    let mut server = start(dir.path(), &more);
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, text STRING)");
    sql(&server, "CREATE STREAM found WITH (store = true)");
    let mut steady = Steady::start(&server, "steady");
    let small = |n: usize| format!("{{\"n\":{n},\"text\":\"small\"}}\n");
    let rounds = amount(3, 50);
    let mut connection = server.connect();
    for round in 0..rounds {
        for stream in ["t", "found"] {
            let mut body: String = (0..100).map(|n| small(1_000 * round + n)).collect();
            body.push_str(&format!(
                "{{\"n\":{},\"text\":\"{}\"}}\n",
                1_000 * round + 100,
                "x".repeat(10 << 20)
            ));
            body.extend((101..200).map(|n| small(1_000 * round + n)));
            let path = format!("/v1/streams/{stream}/events?ack=disk");
            let told = connection.ask("POST", &path, body.as_bytes()).unwrap().json();
            assert_eq!((&told["accepted"], &told["rejected"]), (&json!(200), &json!(0)), "{told}");
        }
        steady.round(50);
    }
    let expected = json!([{"n": 200 * rounds, "d": 200 * rounds, "big": rounds, "longest": 10 << 20}]);
    for after in ["", "after a kill", "after another"] {
        for stream in ["t", "found"] {
            let select = format!(
                "SELECT count(*) AS n, count(DISTINCT n) AS d, count(*) FILTER (WHERE length(text) > 5) AS big, \
                 max(length(text)) AS longest FROM {stream}"
            );
            assert_eq!(sql(&server, &select), expected, "{stream} {after}");
            until_committed(&server, stream);
        }
        steady.check(&server);
        server.check_peak("ten megabytes", base() + 400 * MIB);
        server.signal("KILL");
        drop(server);
        server = start(dir.path(), &more);
    }
    server.ends_well();
}

#[test]
fn store_that_is_away_and_comes_back_gets_all_that_was_taken_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("tables-of-it");
    let location = tables.to_str().unwrap().to_owned();
    let more =
        ["--store.location", &location, "--store.tail-bytes-max", "64MiB", "--data.feed-bytes-max", "16MiB"];
    let mut server = start(&dir.path().join("data"), &more);
    let mut steady = Steady::start(&server, "steady");
    sql(&server, "CREATE TABLE copies (n BIGINT)");
    sql(
        &server,
        "CREATE JOB copy SCHEDULE '@daily' WITH (incremental = true) AS INSERT INTO copies SELECT n FROM steady",
    );
    steady.round(500);
    sql(&server, "RUN JOB copy");
    until_committed(&server, "steady");
    let away_seconds = if soak_seconds().is_some() { 60.0 } else { 2.0 };
    let aside = dir.path().join("aside");
    for is_started_without in [false, true] {
        // A file stands where the directory was: nothing below it can be read, written or made.
        std::fs::rename(&tables, &aside).unwrap();
        std::fs::write(&tables, "no directory").unwrap();
        if is_started_without {
            server.signal("KILL");
            drop(server);
            // The server opens its location when it starts, so it must be a directory.
            std::fs::remove_file(&tables).unwrap();
            std::fs::create_dir(&tables).unwrap();
            std::fs::write(tables.join("steady"), "no directory either").unwrap();
            server = start(&dir.path().join("data"), &more);
            steady.connection = server.connect();
        }
        let clock = SystemClock::new();
        let before = steady.sent;
        while clock.monotonic_nanos() as f64 / 1e9 < away_seconds {
            steady.round(500);
        }
        let (events, in_commits) = committed(&server, "steady");
        assert_eq!(events, steady.sent);
        assert!(in_commits <= before, "{in_commits} are committed to a store that is away");
        if tables.is_dir() {
            std::fs::remove_dir_all(&tables).unwrap();
        } else {
            std::fs::remove_file(&tables).unwrap();
        }
        std::fs::rename(&aside, &tables).unwrap();
        let (took, ()) = seconds(|| until_committed(&server, "steady"));
        show(&format!(
            "{} events while the store was away for {away_seconds} s, all committed {took:.2} s after; one request took \
             {:.2} s at most",
            steady.sent - before,
            steady.longest
        ));
        server.check_peak("a store that was away", base());
        // This takes memory for each number, up to the limit.
        steady.check(&server);
        if is_started_without {
            // An empty directory has no tables: that there is one of copies is seen at the next start.
            server.signal("KILL");
            drop(server);
            server = start(&dir.path().join("data"), &more);
            steady.connection = server.connect();
        }
        until("the job to be done", || try_sql(&server, "RUN JOB copy").is_ok());
        if is_started_without {
            server.check_peak("a job over all of it", base());
        }
        let copied = sql(
            &server,
            "SELECT sum(c) AS n, count(*) AS d FROM (SELECT n, count(*) AS c FROM copies GROUP BY n)",
        );
        assert_eq!(copied, json!([{"n": steady.sent, "d": steady.sent}]));
    }
    server.ends_well();
}

#[test]
fn reader_of_stored_events_that_does_not_read_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--sql.unread-ms-max", "1s"]);
    let mut steady = Steady::start(&server, "steady");
    let rounds = amount(40, 1_000) as u64;
    (0..rounds).for_each(|_| steady.round(2_000));
    until_committed(&server, "steady");
    // Answers of many megabytes of which only the first bytes are read; more than statements may run at once
    // (`sql.statements_max`, 8): one that is not read loses its place.
    let mut readers: Vec<Connection> = (0..12).map(|_| server.connect()).collect();
    for reader in &mut readers {
        reader.send("POST", "/v1/sql", &["accept: application/x-ndjson"], b"SELECT * FROM steady").unwrap();
        reader.reader.read_exact(&mut [0; 12]).unwrap();
    }
    steady.longest = 0.0;
    (0..rounds).for_each(|_| steady.round(2_000));
    until_committed(&server, "steady");
    // As many statements as may run hold what they read ahead.
    server.check_peak("readers that do not read", base() + 8 * 32 * MIB);
    steady.check(&server);
    show(&format!("beside readers that do not read: a request took {:.2} s at most", steady.longest));
    assert!(steady.longest < 10.0, "a request took {} s", steady.longest);
    drop(readers);
    server.ends_well();
}

#[test]
fn long_numbered_request_goes_on_behind_a_part_without_a_good_event() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, pad STRING)");
    // A part has 31 such events; none is in the first, nor in the third.
    let pad = "x".repeat(1 << 19);
    let event = |n: usize| match (n / 31) % 2 {
        0 => format!("{{\"n\":\"no number\",\"pad\":\"{pad}\"}}\n"),
        _ => format!("{{\"n\":{n},\"pad\":\"{pad}\"}}\n"),
    };
    let body: String = (0..4 * 31).map(event).collect();
    let fields = ["swiftwater-producer: p", "swiftwater-sequence: 1"];
    for is_again in [false, true] {
        let path = "/v1/streams/t/events?ack=disk";
        let answer = server.connect().ask_with("POST", path, &fields, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.json()["repeated"].as_bool().unwrap_or(false), is_again, "{}", answer.json());
        assert_eq!(sql(&server, "SELECT count(*) AS n FROM t"), json!([{"n": 62}]));
    }
    server.ends_well();
}

#[test]
fn memory_and_log_do_not_grow_however_long_events_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--data.log-segment-bytes", "32MiB", "--store.tail-bytes-max", "64MiB"];
    let server = start(dir.path(), &more);
    let mut steady = Steady::start(&server, "steady");
    sql(&server, "CREATE STREAM busy (client LONG, n LONG, user STRING) WITH (retention = '1 min')");
    sql(&server, "CREATE STREAM found WITH (store = true, retention = '1 min')");
    sql(&server, "CREATE TABLE sums (n BIGINT, total BIGINT)");
    sql(
        &server,
        "CREATE JOB sums SCHEDULE '* * * * *' WITH (incremental = true) AS INSERT INTO sums SELECT count(*), sum(n) FROM busy",
    );
    let duration = soak_seconds().unwrap_or(5) as f64;
    let (over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut memory, mut log) = (Vec::new(), 0);
    let log_bytes = || -> u64 {
        let files = std::fs::read_dir(dir.path().join("log")).unwrap();
        files.map(|file| file.and_then(|file| file.metadata()).map_or(0, |file| file.len())).sum()
    };
    thread::scope(|scope| {
        for client in 0..2 {
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                let _over = OnEnd(over);
                let (mut connection, mut n) = (server.connect(), 0);
                while !over.load(Relaxed) {
                    let stream = if n % 10_000 == 0 { "found" } else { "busy" };
                    let event =
                        |n: u64| format!("{{\"client\":{client},\"n\":{n},\"user\":\"user-{}\"}}\n", n % 997);
                    let body: String = (n..n + 1_000).map(event).collect();
                    let path = format!("/v1/streams/{stream}/events?ack=disk");
                    let answer = connection.ask("POST", &path, body.as_bytes()).unwrap();
                    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
                    n += 1_000;
                }
            });
        }
        scope.spawn(|| {
            let _over = OnEnd(&over);
            while !over.load(Relaxed) {
                sql(
                    &server,
                    "SELECT user, count(*) AS n, sum(n) AS total FROM busy GROUP BY user ORDER BY n LIMIT 3",
                );
                asked.fetch_add(1, Relaxed);
            }
        });
        let _over = OnEnd(&over);
        let clock = SystemClock::new();
        let passed = || clock.monotonic_nanos() as f64 / 1e9;
        while passed() < duration && !over.load(Relaxed) {
            steady.round(100);
            if passed() > memory.len() as f64 * duration / 400.0 {
                memory.push(server.memory().unwrap().now);
                log = log.max(log_bytes());
            }
        }
    });
    let (busy, _) = committed(&server, "busy");
    steady.check(&server);
    ["steady", "busy", "found"].iter().for_each(|stream| until_committed(&server, stream));
    let quarter = (memory.len() / 4).max(1);
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples[samples.len() / 2]
    };
    let (first, last) = (median(&memory[..quarter]), median(&memory[memory.len() - quarter..]));
    show(&format!(
        "{busy} events stored and {} statements in {duration} s; {} MiB in the first quarter, {} MiB in the last; the log \
         had {} MiB at most",
        asked.into_inner(),
        first / MIB,
        last / MIB,
        log / MIB
    ));
    // Within seconds a server has not even warmed up.
    let growth_max = amount(400, 150) as u64 * MIB;
    assert!(last < first + growth_max, "{first} bytes in the first quarter, {last} in the last: {memory:?}");
    // The log has the segment being written, the rows that tables have yet to commit, and segments kept for reuse.
    assert!(log < 16 * 33 * MIB, "the log has {} MiB", log / MIB);
    server.check_peak("a long history", base() + 400 * MIB);
    server.ends_well();
}
