//! Tests that a data directory of an earlier version opens with all its contents. `upgrade/data.tar.zst` contains an object
//! of each kind, a view and a table that lag behind the log, and was left by `kill -9`. `upgrade/answers.txt` has the
//! answers of a server over it.
//!
//! `SWIFTWATER_BLESS=answers` rewrites the answers, `SWIFTWATER_BLESS=data` both. Use them only where a new version adds a
//! kind of object, and beside the existing directory, which later versions must still open.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use common::{TestServer, http::Connection, until};
use serde_json::Value;

/// An object of each kind.
const CREATE: [&str; 14] = [
    "CREATE STREAM quarantine (stream STRING, path STRING, reason STRING, event STRING)",
    "CREATE STREAM orders (id LONG NOT NULL, k STRING, amount DOUBLE CHECK (amount >= 0), at TIMESTAMP(ms), \
     WATERMARK FOR at AS at - INTERVAL '1 second') WITH (on_bad_event = quarantine, partition_by = day)",
    "CREATE STREAM payments (id LONG, ref LONG, at TIMESTAMP(ms), WATERMARK FOR at AS at)",
    "CREATE STREAM found WITH (store = true)",
    "CREATE STREAM pairs (o LONG, p LONG)",
    "CREATE STREAM told WITH (store = true)",
    "CREATE STREAM live (a LONG) WITH (store = false)",
    "CREATE TABLE names (k VARCHAR, name VARCHAR)",
    "INSERT INTO names VALUES ('a', 'Ada'), ('b', 'Berta')",
    "CREATE MATERIALIZED VIEW totals AS SELECT k, COUNT(*) AS n, SUM(id) AS ids, LAST(amount) AS latest FROM STREAM(orders) GROUP BY k",
    "CREATE MATERIALIZED VIEW by_count AS SELECT n, COUNT(*) AS keys FROM STREAM(totals) GROUP BY n",
    "CREATE MATERIALIZED VIEW per_second AS SELECT k, COUNT(*) AS n FROM STREAM(orders) GROUP BY k \
     WINDOWING TUMBLING(1000, EVENT(at, 0))",
    "CREATE MATERIALIZED VIEW named AS SELECT t.name, COUNT(*) AS n FROM STREAM(orders) AS o JOIN names AS t ON t.k = o.k GROUP BY t.name",
    "CREATE JOIN paid INTO pairs AS SELECT o.id AS o, p.id AS p FROM STREAM(orders) AS o JOIN STREAM(payments) AS p \
     ON o.id = p.ref AND p.at BETWEEN o.at AND o.at + INTERVAL '10 seconds'",
];

/// Objects that refer to these, and a job that ran once and is not due again.
const CREATE_MORE: [&str; 9] = [
    "CREATE TABLE windows (k VARCHAR, n BIGINT)",
    "CREATE SINK into_table FROM per_second INTO TABLE windows",
    "CREATE SINK into_stream FROM CHANGES OF totals INTO STREAM told",
    "CREATE ALERT many ON totals WHEN n > 2 INTO told",
    "CREATE ALERT large ON (SELECT k, MAX(id) AS id FROM STREAM(orders) GROUP BY k) WHEN id > 5 INTO told",
    "CREATE ENDPOINT GET '/totals/{k}' (k STRING) AS SELECT n, ids FROM totals WHERE k = $k",
    "CREATE ENDPOINT POST '/orders' (id LONG NOT NULL, k STRING) INTO orders",
    "CREATE TABLE copies (id BIGINT)",
    "CREATE JOB copy SCHEDULE '@yearly' WITH (incremental = true) AS INSERT INTO copies SELECT id FROM orders",
];

/// Asked over the opened directory, in order. Times that depend on the clock are left out by [`steady`].
const QUESTIONS: [&str; 36] = [
    "SHOW STREAMS",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW JOINS",
    "SHOW SINKS",
    "SHOW ALERTS",
    "SHOW JOBS",
    "SHOW ENDPOINTS",
    "SHOW CREATE STREAM orders",
    "SHOW CREATE STREAM found",
    "SHOW CREATE STREAM live",
    "SHOW CREATE VIEW totals",
    "SHOW CREATE VIEW per_second",
    "SHOW CREATE JOIN paid",
    "SHOW CREATE SINK into_table",
    "SHOW CREATE SINK into_stream",
    "SHOW CREATE ALERT many",
    "SHOW CREATE ALERT large",
    "SHOW CREATE ENDPOINT GET '/totals/{k}'",
    "DESCRIBE STREAM orders",
    "DESCRIBE STREAM found",
    "DESCRIBE VIEW totals",
    "SELECT _offset, id, k, amount, at FROM orders ORDER BY _offset",
    "SELECT _offset, a, b FROM found ORDER BY _offset",
    "SELECT id, ref FROM payments ORDER BY _offset",
    "SELECT stream, path, reason, event FROM quarantine ORDER BY _offset",
    "SELECT * FROM totals ORDER BY k",
    "SELECT * FROM by_count ORDER BY n",
    "SELECT * FROM per_second ORDER BY k, n",
    "SELECT * FROM named ORDER BY name",
    "SELECT o, p FROM pairs ORDER BY o, p",
    "SELECT * FROM windows ORDER BY k, n",
    "SELECT * FROM names ORDER BY k",
    "SELECT id FROM copies ORDER BY id",
    "SELECT count(*) AS n FROM told",
    "INSERT INTO orders (id, k, amount, at) VALUES (100, 'c', 1.5, TIMESTAMP '2026-01-01 00:01:00')",
];

/// Fields of answers that depend on the clock, on how far background work is, or on the machine.
const UNSTEADY: [&str; 26] = [
    "created",
    "in_table",
    "committed",
    "lag_ms",
    "position",
    "from_table",
    "behind",
    "behind_ms",
    "bytes",
    "state_bytes",
    "log_bytes",
    "last_run",
    "next_run",
    "began",
    "ended",
    "delivered",
    "tries",
    "events_held",
    "held",
    "late",
    "held_bytes",
    "behind_bytes",
    "lag_events",
    "keys_held",
    "kept_bytes",
    "kept_events",
];

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade")
}

/// A server that commits tables so often.
fn start(data: &Path, commit_interval_ms: u32) -> TestServer {
    let commit_interval_ms = commit_interval_ms.to_string();
    TestServer::start(&[
        "--data",
        data.to_str().expect("a path of tests is text"),
        "--store.commit-interval-ms",
        &commit_interval_ms,
        "--data.checkpoint-interval-ms",
        "20",
        "--data.log-free-bytes-min",
        "0",
        "--views.commit-interval-ms",
        "30",
    ])
}

fn ask(server: &TestServer, method: &str, path: &str, fields: &[&str], body: &str) -> (u16, String) {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let answer = connection.ask_with(method, path, fields, body.as_bytes()).unwrap();
    (answer.status, String::from_utf8(answer.body).unwrap())
}

/// The answer of a statement, a row a line.
fn sql(server: &TestServer, text: &str) -> String {
    let (status, body) = ask(server, "POST", "/v1/sql", &["accept: application/x-ndjson"], text);
    assert_eq!(status, 200, "{text}: {body}");
    body
}

/// Sends events under a number.
fn send(server: &TestServer, stream: &str, sequence: u64, events: &str) -> String {
    let sequence = format!("swiftwater-sequence: {sequence}");
    let fields = ["content-type: application/x-ndjson", "swiftwater-producer: till", &sequence];
    let (_, body) = ask(server, "POST", &format!("/v1/streams/{stream}/events"), &fields, events);
    body
}

/// A row without what is unsteady.
fn steady(row: &str) -> String {
    let Ok(Value::Object(mut row)) = serde_json::from_str(row) else { return row.to_owned() };
    row.retain(|name, _| !UNSTEADY.contains(&name.as_str()));
    Value::Object(row).to_string()
}

/// Packs a directory as a server that was killed left it.
fn pack(data: &Path, into: &Path) {
    let packed =
        Command::new("tar").args(["--sparse", "-cf", "-", "-C"]).arg(data).arg(".").output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    std::fs::write(into, zstd::encode_all(&packed.stdout[..], 19).unwrap()).unwrap();
}

fn unpack(from: &Path, data: &Path) {
    let archive = zstd::decode_all(&std::fs::read(from).unwrap()[..]).unwrap();
    std::fs::create_dir_all(data).unwrap();
    let tar = data.with_extension("tar");
    std::fs::write(&tar, archive).unwrap();
    let status = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(data).status().unwrap();
    assert!(status.success());
}

/// Makes the directory anew, with this version.
fn make(data: &Path) {
    let mut server = start(data, 50);
    CREATE.iter().chain(&CREATE_MORE).for_each(|text| drop(sql(&server, text)));
    let order = |id: u64, k: &str, second: u64| {
        format!(
            "{{\"id\":{id},\"k\":\"{k}\",\"amount\":{id}.25,\"at\":{}}}\n",
            1_767_225_600_000 + second * 1000
        )
    };
    let first: String = [order(1, "a", 0), order(2, "b", 0), order(3, "a", 1)].concat();
    send(&server, "orders", 1, &(first + "{\"id\":4,\"amount\":-1}\n"));
    send(&server, "found", 1, "{\"a\":1}\n{\"a\":2,\"b\":\"x\"}\n");
    send(&server, "payments", 1, "{\"id\":10,\"ref\":1,\"at\":1767225601000}\n");
    until("all to be committed", || {
        let rows = sql(&server, "SHOW STREAMS");
        let mut rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
        rows.all(|row| row["events"].is_null() || row["events"] == row["committed"])
    });
    sql(&server, "RUN JOB copy; ALTER JOB copy DISABLE");
    until("the pair to be joined", || sql(&server, "SELECT o FROM pairs") == "{\"o\":1}\n");
    server.running.signal("TERM");
    server.running.child.wait().unwrap();

    // From here on nothing is committed any more.
    server = start(data, 3_600_000);
    let query = "SELECT id, k FROM STREAM(orders, MAX, TIME) WHERE id > 4";
    let (status, body) = ask(&server, "POST", "/v1/queries?detach=true", &[], query);
    assert_eq!(status, 201, "{body}");
    assert!(body.contains("\"durable\":true"), "{body}");
    sql(&server, "ALTER STREAM orders ADD COLUMN note STRING");
    send(&server, "orders", 2, &[order(5, "a", 2), order(6, "b", 3)].concat());
    send(&server, "found", 2, "{\"a\":3,\"c\":true}\n");
    send(&server, "payments", 2, "{\"id\":11,\"ref\":6,\"at\":1767225604000}\n");
    until("the second pair to be joined", || sql(&server, "SELECT o FROM pairs").lines().count() == 2);
    server.running.signal("KILL");
    server.running.child.wait().unwrap();
}

/// The answers of a server over the directory to all requests.
fn answers(data: &Path) -> String {
    let server = start(data, 50);
    until("the second window to be delivered", || {
        sql(&server, "SELECT * FROM windows").lines().count() >= 4
            && sql(&server, "SELECT * FROM pairs").lines().count() == 2
    });
    let mut out = String::new();
    for question in QUESTIONS {
        writeln!(out, "> {question}").unwrap();
        sql(&server, question).lines().for_each(|row| writeln!(out, "{}", steady(row)).unwrap());
    }
    // Reads over HTTP are of what a view has counted by then.
    until("the inserted event to be counted", || ask(&server, "GET", "/totals/c", &[], "").0 == 200);
    for path in ["/v1/views/totals/keys/a", "/totals/b", "/totals/c"] {
        let (status, body) = ask(&server, "GET", path, &[], "");
        writeln!(out, "> GET {path}\n{status} {}", body.trim_end()).unwrap();
    }
    // A number that was used before the kill is known.
    let repeated = send(&server, "orders", 1, "{\"id\":1}\n");
    writeln!(out, "> request 1 of till, with other events\n{}", repeated.trim_end()).unwrap();
    let queries: Value = serde_json::from_str(&server.get("/v1/queries")).unwrap();
    for query in queries["queries"].as_array().unwrap() {
        writeln!(out, "> durable query\n{}", query["durable"]).unwrap();
        let path = format!("/v1/queries/{}/results", query["id"].as_str().unwrap());
        let mut results = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
        results.write_head("GET", &path, &["accept: application/x-ndjson"]).unwrap();
        let mut results = results.results().unwrap();
        let mut records = Vec::new();
        while records.len() < 3 {
            records.extend(results.next().unwrap().unwrap()["records"].as_array().unwrap().clone());
        }
        writeln!(out, "{}", Value::Array(records)).unwrap();
    }
    out
}

#[test]
fn data_directory_of_an_earlier_version_opens_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (archive, expected) = (files().join("data.tar.zst"), files().join("answers.txt"));
    let bless = std::env::var("SWIFTWATER_BLESS").unwrap_or_default();
    if bless == "data" {
        let made = directory.path().join("made");
        make(&made);
        pack(&made, &archive);
    }
    unpack(&archive, &data);
    let answers = answers(&data);
    if !bless.is_empty() {
        std::fs::write(&expected, &answers).unwrap();
    }
    assert_eq!(answers, std::fs::read_to_string(&expected).unwrap());
}
