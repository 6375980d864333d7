//! Tests full disks: of the log, of the tables, of both. A real server runs on small file systems in memory, which another
//! file fills to the last byte. Acknowledged events are stored once, whatever is full and although the server is killed
//! meanwhile. The server resumes by itself when there is room.
//!
//! If no file system can be mounted, the tests report that they skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

mod common;

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use common::{TestServer, http::Connection, until};
use serde_json::Value;
use swiftwater_testkit::{Mount, Rng};

/// Events of a request, each of about a kilobyte.
const EVENTS: u64 = 1_000;

/// The disk that is small.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Small {
    Log,
    Tables,
    Both,
}

struct Disks {
    data: PathBuf,
    tables: PathBuf,
}

impl Disks {
    fn start(&self) -> TestServer {
        self.start_with(&["--data.log-free-bytes-min", "0"])
    }

    fn start_with(&self, more: &[&str]) -> TestServer {
        let arguments = [
            "--data",
            self.data.to_str().unwrap(),
            "--store.location",
            self.tables.to_str().unwrap(),
            "--store.commit-interval-ms",
            "50",
            "--data.checkpoint-interval-ms",
            "50",
            "--data.log-segment-bytes",
            "32MiB",
            "--data.log-compression",
            "none",
        ];
        TestServer::start(&[&arguments, more].concat())
    }
}

fn connect(server: &TestServer) -> Connection {
    Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap()
}

fn sql(server: &TestServer, text: &str) -> Value {
    let accept = ["accept: application/json"];
    let answer = connect(server).ask_with("POST", "/v1/sql", &accept, text.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// A client that numbers its requests, and sends one until it is acknowledged.
struct Client {
    stream: &'static str,
    acknowledged: u64,
}

impl Client {
    fn new(stream: &'static str) -> Client {
        Client { stream, acknowledged: 0 }
    }

    /// Sends the next request, or that which was refused; whether it is acknowledged, or else the status.
    fn send(&mut self, server: &TestServer) -> Result<(), u16> {
        let number = self.acknowledged;
        let mut rng = Rng::new(number);
        let mut body = String::new();
        for event in number * EVENTS..(number + 1) * EVENTS {
            body.push_str(&format!("{{\"n\":{event},\"pad\":\""));
            // Nothing that would be small in a table.
            (0..60).for_each(|_| body.push_str(&format!("{:016x}", rng.bits())));
            body.push_str("\"}\n");
        }
        let fields = ["swiftwater-producer: p", &format!("swiftwater-sequence: {number}")];
        let path = format!("/v1/streams/{}/events", self.stream);
        let answer = connect(server).ask_with("POST", &path, &fields, body.as_bytes()).unwrap();
        match answer.status {
            200 => {
                self.acknowledged += 1;
                Ok(())
            }
            status => Err(status),
        }
    }

    fn check(&self, server: &TestServer, what: &str) {
        let text =
            format!("SELECT count(*) AS n, count(DISTINCT n) AS d, max(n) AS top FROM {}", self.stream);
        let counted = sql(server, &text);
        let events = self.acknowledged * EVENTS;
        let expected = serde_json::json!([{"n": events, "d": events, "top": events - 1}]);
        assert_eq!(counted, expected, "{what}");
    }
}

/// Takes all that is left of a file system.
fn fill(path: &Path) -> PathBuf {
    let hog = path.join("hog");
    let mut file = File::options().create(true).append(true).open(&hog).unwrap();
    for piece in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
    hog
}

fn in_table(server: &TestServer) -> (u64, u64) {
    let stream = sql(server, "SHOW STREAMS")[0].clone();
    (stream["events"].as_u64().unwrap(), stream["committed"].as_u64().unwrap_or(0))
}

fn full(small: Small) {
    let (roomy, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let size = match small {
        Small::Log => "120m",
        Small::Tables => "80m",
        Small::Both => "220m",
    };
    let mount = match Mount::new(mounted.path(), size) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: 1 test, no file system can be mounted here: {why}"),
    };
    let on = |is_small: bool, name: &str| if is_small { mount.path() } else { roomy.path() }.join(name);
    let disks = Disks { data: on(small != Small::Tables, "data"), tables: on(small != Small::Log, "tables") };
    let mut server = disks.start();
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, pad STRING)");
    let mut client = Client::new("t");
    (0..5).for_each(|_| client.send(&server).unwrap());
    until("the first events to be committed", || {
        let (events, committed) = in_table(&server);
        committed == events
    });

    let hog = fill(mount.path());
    let before = client.acknowledged;
    let mut refused = None;
    // The log has room up to the end of its segment, and takes no more than that; with a log that has room, all is taken.
    while client.acknowledged < before + 20 || (small != Small::Tables && refused.is_none()) {
        refused = client.send(&server).err();
        assert!(client.acknowledged < before + 100, "nothing is refused");
        if refused.is_some() {
            break;
        }
    }
    match small {
        Small::Tables => assert_eq!(refused, None),
        Small::Log | Small::Both => assert_eq!(refused, Some(429), "the log is full"),
    }
    client.check(&server, "while it is full");
    if small != Small::Log {
        let (events, committed) = in_table(&server);
        assert!(committed < events, "{committed} of {events} are on a disk that is full");
    }
    server.running.signal("KILL");
    drop(server);
    server = disks.start();
    client.check(&server, "after a kill while it is full");

    std::fs::remove_file(hog).unwrap();
    until("events to be taken again", || client.send(&server).is_ok());
    (0..5).for_each(|_| until("one more to be taken", || client.send(&server).is_ok()));
    until("all to be committed", || {
        let (events, committed) = in_table(&server);
        committed == events
    });
    client.check(&server, "when there is room");
    server.running.signal("KILL");
    drop(server);
    server = disks.start();
    client.check(&server, "after a kill in the end");
    client.send(&server).unwrap();
    client.check(&server, "and on");
    println!("{small:?}: {} events acknowledged, {} while it was full", client.acknowledged * EVENTS, {
        (client.acknowledged - before) * EVENTS
    });
}

#[test]
fn full_disk_of_the_log_refuses_what_it_cannot_keep_and_loses_nothing() {
    full(Small::Log);
}

#[test]
fn full_disk_of_the_tables_keeps_nobody_from_sending_and_loses_nothing() {
    full(Small::Tables);
}

#[test]
fn full_disk_of_everything_loses_nothing() {
    full(Small::Both);
}

/// Changes of a view, and of the view over it, that cannot be persisted are persisted when there is room, and nothing
/// is counted twice.
#[test]
fn views_that_cannot_be_kept_for_a_while_count_nothing_twice() {
    let (roomy, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = match Mount::new(mounted.path(), "160m") {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: 1 test, no file system can be mounted here: {why}"),
    };
    let disks = Disks { data: mount.path().join("data"), tables: roomy.path().join("tables") };
    let mut server = disks.start();
    sql(&server, "CREATE STREAM t (n LONG NOT NULL, pad STRING)");
    sql(
        &server,
        "CREATE MATERIALIZED VIEW v AS SELECT n % 1500 AS k, COUNT(*) AS c, SUM(n) AS s, LAST(pad) AS pad FROM STREAM(t) \
         GROUP BY n % 1500 HAVING COUNT(*) != 2; \
         CREATE MATERIALIZED VIEW w AS SELECT c, COUNT(*) AS keys, SUM(s) AS s, SUM(s / 7.0) AS d FROM STREAM(v) GROUP BY c",
    );
    let mut client = Client::new("t");
    (0..2).for_each(|_| client.send(&server).unwrap());
    let check = |server: &TestServer, client: &Client, what: &str| {
        let expected = "SELECT c, count(*) AS keys, sum(s) AS s FROM \
             (SELECT count(*) AS c, sum(n) AS s FROM t GROUP BY n % 1500) WHERE c != 2 GROUP BY c ORDER BY c";
        assert_eq!(sql(server, "SELECT c, keys, s FROM w ORDER BY c"), sql(server, expected), "{what}");
        let near = "SELECT count(*) AS n FROM w WHERE abs(d - s / 7.0) > 0.001";
        assert_eq!(sql(server, near), serde_json::json!([{"n": 0}]), "{what}");
        client.check(server, what);
    };
    check(&server, &client, "while there is room");
    let hog = fill(mount.path());
    let sent = (0..4).filter(|_| client.send(&server).is_ok()).count();
    assert!(sent > 0, "the log has room up to the end of its segment");
    let failing = |server: &TestServer| {
        let views = sql(server, "SHOW VIEWS");
        views.as_array().unwrap().iter().filter(|view| !view["failing"].is_null()).count()
    };
    until("views to fail", || failing(&server) == 2);
    std::fs::remove_file(hog).unwrap();
    until("events to be taken again", || client.send(&server).is_ok());
    until("views to be kept", || failing(&server) == 0);
    check(&server, &client, "when there is room again");
    server.running.signal("KILL");
    drop(server);
    server = disks.start();
    check(&server, &client, "after a kill");
}

/// The statements that make room are accepted though there is none, and are sufficient: nobody has to find files that
/// may be deleted.
#[test]
fn full_disk_takes_the_statements_that_make_room_and_goes_on() {
    let mounted = tempfile::tempdir().unwrap();
    let mount = match Mount::new(mounted.path(), "1200m") {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: 1 test, no file system can be mounted here: {why}"),
    };
    let disks = Disks { data: mount.path().join("data"), tables: mount.path().join("tables") };
    // The events that wait in the log are fewer than those that are dropped.
    let start =
        || disks.start_with(&["--data.log-free-bytes-min", "48MiB", "--data.log-bytes-max", "128MiB"]);
    let mut server = start();
    sql(
        &server,
        "CREATE STREAM t (n LONG NOT NULL, pad STRING); CREATE STREAM old (n LONG NOT NULL, pad STRING)",
    );
    sql(
        &server,
        "CREATE MATERIALIZED VIEW v AS SELECT n % 1000 AS k, COUNT(*) AS n FROM STREAM(old) GROUP BY n % 1000",
    );
    sql(&server, "CREATE JOB j SCHEDULE '@daily' AS CREATE TABLE IF NOT EXISTS one AS SELECT 1 AS a");
    let (mut client, mut older) = (Client::new("t"), Client::new("old"));
    (0..150).for_each(|_| until("the older events to be taken", || older.send(&server).is_ok()));
    client.send(&server).unwrap();
    let is_committed = |server: &TestServer, stream: &str| {
        let streams = sql(server, "SHOW STREAMS");
        let row = streams.as_array().unwrap().iter().find(|row| row["stream"] == stream).unwrap();
        row["events"] == row["committed"]
    };
    until("all to be committed", || is_committed(&server, "old") && is_committed(&server, "t"));

    let fill_all = |server: &TestServer, client: &mut Client| {
        until("everything to be full", || {
            fill(mount.path());
            client.send(server) == Err(429)
        });
    };
    for text in [
        "ALTER STREAM t SET (retention = '30 days')",
        "DROP VIEW v",
        "DROP JOB j",
        "CREATE STREAM small (a LONG) WITH (store = false)",
    ] {
        fill_all(&server, &mut client);
        sql(&server, text);
    }
    fill_all(&server, &mut client);
    let answer = connect(&server).ask("POST", "/v1/sql", b"CREATE TABLE one AS SELECT pad FROM old").unwrap();
    let told = String::from_utf8_lossy(&answer.body);
    assert!(answer.status == 503 && told.contains("No space left on device"), "{told}");
    server.running.signal("KILL");
    drop(server);
    server = start();
    assert_eq!(sql(&server, "SHOW VIEWS"), serde_json::json!([]));
    fill_all(&server, &mut client);
    sql(&server, "DROP STREAM old");
    until("events to be taken again", || client.send(&server).is_ok());
    until("all to be committed", || is_committed(&server, "t"));
    client.check(&server, "when there is room");
    server.running.signal("KILL");
    drop(server);
    server = start();
    client.check(&server, "after a kill in the end");
    let streams = sql(&server, "SHOW STREAMS");
    assert_eq!(streams.as_array().unwrap().len(), 2, "{streams}");
}
