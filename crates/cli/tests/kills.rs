//! Tests the real server when SIGKILL ends it at random instants. Meanwhile several clients send, a job copies new events
//! into a table and into a stream, views are maintained, and sinks and alerts deliver.
//!
//! Acknowledged events must be stored once, and so must each copy. Each view must equal its query over all of them (after
//! every second start, too). Each target of windows and changes must receive all of them. Searches run all the time, and
//! find what a comparison of each row finds, with whatever index files a kill left.
//!
//! Each client numbers its requests and sends one again, after a kill, until it is acknowledged. Tables are committed every
//! 50 ms and the catalog is written every 20 ms, so kills hit both. `KILLS` sets the number of kills (10), `KILLS_SEED`
//! their instants; both are printed, with the events.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use common::{TestServer, http::Connection};
use serde_json::Value;
use swiftwater_testkit::Rng;

const CLIENTS: u64 = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn sql(server: &TestServer, text: &str) -> Vec<Value> {
    let authority = server.url.strip_prefix("http://").unwrap();
    let mut connection = Connection::open(authority).unwrap();
    let answer =
        connection.ask_with("POST", "/v1/sql", &["accept: application/json"], text.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).unwrap()
}

/// The present address of the server; empty while there is none.
type Address = Arc<Mutex<String>>;

/// Runs a client that sends batches until it is stopped; returns the number of acknowledged events.
fn client(
    number: u64,
    address: Address,
    stop: Arc<AtomicBool>,
    (sent, tries): (Arc<AtomicU64>, Arc<AtomicU64>),
) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut rng = Rng::new(number);
        let (mut sequence, mut acknowledged) = (0, 0);
        while !stop.load(Ordering::Relaxed) {
            let count = 1 + rng.below(20) as u64;
            let lines: Vec<String> = (0..count)
                .map(|event| format!("{{\"client\":{number},\"number\":{}}}", acknowledged + event))
                .collect();
            let body = lines.join("\n");
            let fields =
                [format!("swiftwater-producer: c{number}"), format!("swiftwater-sequence: {sequence}")];
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            // The same request until it is acknowledged, whatever happens to the server.
            loop {
                let at = address.lock().unwrap().clone();
                tries.fetch_add(1, Ordering::Relaxed);
                let answer = Connection::open(&at).and_then(|mut connection| {
                    connection.ask_with("POST", "/v1/streams/t/events", &fields, body.as_bytes())
                });
                match answer {
                    Ok(answer) if answer.status == 200 => break,
                    Ok(answer) if answer.status < 500 => {
                        panic!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body))
                    }
                    _ => std::thread::park_timeout(Duration::from_millis(5)),
                }
            }
            acknowledged += count;
            sequence += 1;
            sent.fetch_add(count, Ordering::Relaxed);
        }
        acknowledged
    })
}

const JOB: &str = "CREATE TABLE kept (client BIGINT, number BIGINT); \
    CREATE STREAM copies (client LONG, number LONG); \
    CREATE JOB copy SCHEDULE '@hourly' WITH (incremental = true) AS $$ \
    INSERT INTO kept SELECT client, number FROM t; INSERT INTO copies SELECT client, number FROM t $$";

const VIEWS: &str = "CREATE MATERIALIZED VIEW by_client AS \
    SELECT client, COUNT(*) AS n, SUM(number) AS s, MAX(number) AS most FROM STREAM(t) GROUP BY client; \
    CREATE MATERIALIZED VIEW by_event AS \
    SELECT client, number, COUNT(*) AS n FROM STREAM(t) GROUP BY client, number; \
    CREATE MATERIALIZED VIEW in_order AS SELECT client, FIRST(number) AS f, LAST(number) AS l, \
    COLLECT_LIST(number, 5) AS xs, COLLECT_SET(number % 7, 5) AS sevenths FROM STREAM(t) GROUP BY client; \
    CREATE MATERIALIZED VIEW since_tenth DELETE WHEN number % 10 = 0 AS \
    SELECT client, COUNT(*) AS n, SUM(number) AS s FROM STREAM(t) GROUP BY client; \
    CREATE MATERIALIZED VIEW arrived AS SELECT window_start AS w, client, COUNT(*) AS n, SUM(number) AS s FROM STREAM(t) \
    GROUP BY ROLLUP (client) WINDOWING TUMBLING(50, TIME); \
    CREATE MATERIALIZED VIEW by_digit AS SELECT n % 10 AS digit, COUNT(*) AS clients, SUM(s) AS s, AVG(most) AS most \
    FROM STREAM(by_client) GROUP BY n % 10; \
    CREATE MATERIALIZED VIEW by_times AS SELECT n, COUNT(*) AS events, SUM(number) AS s FROM STREAM(by_event) GROUP BY n; \
    CREATE MATERIALIZED VIEW digits AS SELECT COUNT(*) AS digits, SUM(clients) AS clients, SUM(s) AS s FROM STREAM(by_digit); \
    CREATE MATERIALIZED VIEW since AS SELECT n, COUNT(*) AS clients, SUM(s) AS s FROM STREAM(since_tenth) GROUP BY n; \
    CREATE STREAM delivered (w LONG, client LONG, n LONG, s LONG); \
    CREATE SINK closed FROM arrived INTO STREAM delivered WITH (batch_rows = 3); \
    CREATE SINK written FROM arrived INTO FILE 'windows.ndjson'; \
    CREATE STREAM changed (key JSON, \"row\" JSON, position LONG); \
    CREATE SINK changes FROM CHANGES OF since_tenth INTO STREAM changed";

/// Windows with many events of a client.
fn alerts(hook: SocketAddr) -> String {
    let on = "ON (SELECT window_start AS w, client, COUNT(*) AS n FROM STREAM(t) GROUP BY client WINDOWING TUMBLING(50, TIME)) \
        WHEN n > 30";
    format!(
        "CREATE STREAM told (state STRING, key JSON, \"row\" JSON); CREATE ALERT busy {on} INTO told; \
        CREATE ALERT hooked {on} INTO WEBHOOK 'http://{hook}/'"
    )
}

/// Keys and bodies of requests, in the order in which they came.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// The other end of a webhook, which the server is killed without.
fn receiver() -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Requests::default());
    let taken = Arc::clone(&requests);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut request, mut some) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut some) {
                request.extend_from_slice(&some[..count]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let header = |name: &str| {
                    let of = head.lines().filter_map(|line| line.split_once(": "));
                    of.clone()
                        .find(|(other, _)| other.eq_ignore_ascii_case(name))
                        .map(|(_, value)| value.to_owned())
                };
                let length = header("content-length").and_then(|length| length.parse().ok());
                if length.is_some_and(|length: usize| body.len() >= length) {
                    taken.lock().unwrap().push((header("idempotency-key").unwrap(), body.to_owned()));
                    // The client may have been killed.
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    let _ = stream.write_all(answer.as_bytes());
                    break;
                }
            }
        }
    });
    (address, requests)
}

/// Compares the messages to a stream and to a webhook with a loop over the windows, in their order; the webhook got none
/// twice without the key by which it is recognised.
fn check_alerts(server: &TestServer, requests: &Requests, seed: u64) {
    let closed = "SELECT w, client, n FROM arrived WHERE client IS NOT NULL AND w < (SELECT max(w) FROM arrived) ORDER BY w, client";
    let mut windows: BTreeMap<i64, BTreeMap<i64, Value>> = BTreeMap::new();
    for row in sql(server, closed) {
        let number = |name: &str| row[name].as_i64().unwrap();
        windows.entry(number("w")).or_default().insert(number("client"), row.clone());
    }
    let last = sql(server, "SELECT max(w) AS w FROM arrived")[0]["w"].as_i64().unwrap();
    let (mut met, mut expected) = (BTreeSet::new(), BTreeMap::<i64, Vec<(String, Value)>>::new());
    let first = windows.keys().next().copied().unwrap_or(last);
    for w in (first..last).step_by(50) {
        for client in 0..CLIENTS as i64 {
            let row = windows.get(&w).and_then(|rows| rows.get(&client)).cloned().unwrap_or_default();
            let state = match row["n"].as_i64().is_some_and(|n| n > 30) {
                true if met.insert(client) => "firing",
                false if met.remove(&client) => "resolved",
                _ => continue,
            };
            expected.entry(client).or_default().push((state.to_owned(), row));
        }
    }
    let by_client = |messages: Vec<Value>| {
        let mut told = BTreeMap::<i64, Vec<(String, Value)>>::new();
        for message in messages {
            let read = |name: &str| match &message[name] {
                Value::String(text) => serde_json::from_str(text).unwrap(),
                other => other.clone(),
            };
            let state = message["state"].as_str().unwrap().to_owned();
            told.entry(read("key")[0].as_i64().unwrap()).or_default().push((state, read("row")));
        }
        told
    };
    let told = || by_client(sql(server, "SELECT state, key, \"row\" FROM told ORDER BY _offset"));
    let hooked = || {
        let mut known = BTreeMap::new();
        let once = requests
            .lock()
            .unwrap()
            .iter()
            .filter_map(|(key, body)| match known.insert(key.clone(), body.clone()) {
                None => Some(serde_json::from_str(body).unwrap()),
                Some(before) => {
                    assert_eq!(&before, body, "{key}, KILLS_SEED={seed}");
                    None
                }
            })
            .collect();
        by_client(once)
    };
    let count = |told: &BTreeMap<i64, Vec<_>>| told.values().map(Vec::len).sum::<usize>();
    common::until("a stream and a webhook to be told", || {
        count(&told()) >= count(&expected) && count(&hooked()) >= count(&expected)
    });
    assert_eq!(told(), expected, "KILLS_SEED={seed}");
    assert_eq!(hooked(), expected, "KILLS_SEED={seed}");
}

/// Every change of a view that was committed was delivered once, in order: what they come to is the view.
fn check_changes(server: &TestServer, seed: u64) {
    let view = sql(server, "SELECT client, n, s FROM since_tenth ORDER BY client");
    let changes = || sql(server, "SELECT key, \"row\", position FROM changed ORDER BY _offset");
    let rows = || {
        let (mut rows, mut last) = (BTreeMap::new(), (0, -1));
        for change in changes() {
            let read = |name: &str| -> Value {
                serde_json::from_str(change[name].as_str().unwrap_or("null")).unwrap()
            };
            let key = read("key")[0].as_i64().unwrap();
            let place = (change["position"].as_i64().unwrap(), key);
            assert!(place > last, "{place:?} after {last:?}, KILLS_SEED={seed}");
            last = place;
            rows.insert(key, read("row"));
        }
        rows.into_values().filter(|row| !row.is_null()).collect::<Vec<Value>>()
    };
    common::until("changes to be delivered", || rows() == view);
}

/// Windows hold every event once, in the group of its client and in the total; and those that are closed were delivered once.
fn check_windows(server: &TestServer, dir: &std::path::Path, events: u64, seed: u64) {
    let sums = sql(
        server,
        "SELECT sum(n) FILTER (WHERE client IS NULL) AS total, sum(n) FILTER (WHERE client IS NOT NULL) AS n FROM arrived",
    );
    assert_eq!(
        (sums[0]["total"].as_u64(), sums[0]["n"].as_u64()),
        (Some(events), Some(events)),
        "KILLS_SEED={seed}"
    );
    // Nothing has arrived since the last window began, so that one is open.
    let closed = "SELECT w, client, n, s FROM arrived WHERE w < (SELECT max(w) FROM arrived) ORDER BY w, client NULLS LAST";
    let expected = sql(server, closed);
    let delivered = || sql(server, "SELECT w, client, n, s FROM delivered ORDER BY w, client NULLS LAST");
    common::until("windows to be delivered", || delivered().len() >= expected.len());
    assert_eq!(delivered(), expected, "KILLS_SEED={seed}");
    let written = || std::fs::read_to_string(dir.join("sinks/windows.ndjson")).unwrap_or_default();
    common::until("windows to be written", || written().lines().count() >= expected.len());
    let rows: Vec<Value> = written().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows, expected, "KILLS_SEED={seed}");
}

/// Views are their queries over the stream's table.
fn check_views(server: &TestServer, seed: u64) {
    for (view, query) in [
        (
            "SELECT client, n, s, most FROM by_client ORDER BY client",
            "SELECT client, count(*) AS n, sum(number) AS s, max(number) AS most FROM t GROUP BY client ORDER BY client",
        ),
        (
            "SELECT count(*) AS keys, sum(n) AS n, max(n) AS most FROM by_event",
            "SELECT count(*) AS keys, count(*) AS n, 1 AS most FROM t",
        ),
        (
            "SELECT client, f, l, xs FROM in_order ORDER BY client",
            "SELECT client, first_value(number ORDER BY _offset) AS f, last_value(number ORDER BY _offset) AS l, \
             array_slice(array_agg(number ORDER BY _offset), 1, 5) AS xs FROM t GROUP BY client ORDER BY client",
        ),
        (
            "SELECT client, n, s FROM since_tenth ORDER BY client",
            "SELECT client, count(*) AS n, sum(number) AS s FROM t LEFT JOIN \
             (SELECT client AS c, max(_offset) AS tenth FROM t WHERE number % 10 = 0 GROUP BY client) ON c = client \
             WHERE _offset > coalesce(tenth, -1) GROUP BY client ORDER BY client",
        ),
    ] {
        assert_eq!(sql(server, view), sql(server, query), "{view}, KILLS_SEED={seed}");
    }
    // Views of views are their queries over the rows below.
    for (view, query) in [
        (
            "SELECT digit, clients, s, most FROM by_digit ORDER BY digit",
            "SELECT n % 10 AS digit, count(*) AS clients, sum(s) AS s, avg(most) AS most FROM by_client \
             GROUP BY n % 10 ORDER BY digit",
        ),
        ("SELECT n, events, s FROM by_times", "SELECT 1 AS n, count(*) AS events, sum(number) AS s FROM t"),
        (
            "SELECT digits, clients, s FROM digits",
            "SELECT count(DISTINCT n % 10) AS digits, count(*) AS clients, sum(s) AS s FROM by_client",
        ),
        (
            "SELECT n, clients, s FROM since ORDER BY n",
            "SELECT n, count(*) AS clients, sum(s) AS s FROM since_tenth GROUP BY n ORDER BY n",
        ),
    ] {
        assert_eq!(sql(server, view), sql(server, query), "{view}, KILLS_SEED={seed}");
    }
}

/// Runs the job again and again until it is stopped; returns the number of successful answers.
fn runner(address: Address, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut ran = 0;
        while !stop.load(Ordering::Relaxed) {
            let at = address.lock().unwrap().clone();
            let answer = Connection::open(&at)
                .and_then(|mut connection| connection.ask_with("POST", "/v1/sql", &[], b"RUN JOB copy"));
            match answer {
                Ok(answer) if answer.status == 200 => ran += 1,
                // The server is away, or has taken up itself what was left of the last run.
                _ => std::thread::park_timeout(Duration::from_millis(5)),
            }
        }
        ran
    })
}

/// Searches until it is stopped; returns the number of searches that were answered.
fn searcher(address: Address, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
            let at = address.lock().unwrap().clone();
            let path = format!("/v1/streams/t/search?q=client:{}%20number:7&limit=5", answered % CLIENTS);
            let answer = Connection::open(&at).and_then(|mut connection| {
                connection.ask_with("GET", &path, &["accept: application/json"], b"")
            });
            match answer {
                Ok(answer) if answer.status == 200 => {
                    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
                    let events = answer["hits"].as_array().unwrap();
                    assert!(events.len() <= 1, "an event is stored once: {answer}");
                    assert_eq!(answer["total"], events.len(), "{answer}");
                    answered += 1;
                }
                Ok(answer) if answer.status < 500 => {
                    panic!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body))
                }
                _ => std::thread::park_timeout(Duration::from_millis(5)),
            }
        }
        answered
    })
}

/// An index finds what a comparison of each row finds. No events come meanwhile.
fn check_searches(server: &TestServer, seed: u64) {
    let by_index = "SELECT count(*) AS n, sum(number) AS s FROM t WHERE search('client:1')";
    // An index does not answer conditions on expressions.
    let by_row = "SELECT count(*) AS n, sum(number) AS s FROM t WHERE client + 0 = 1";
    assert_eq!(sql(server, by_index), sql(server, by_row), "KILLS_SEED={seed}");
}

/// Copies are what was copied, and runs have read one after another.
fn check_copies(server: &TestServer, events: u64, seed: u64) -> u64 {
    let is_done = || {
        let ran = sql(server, "SHOW JOBS");
        ran[0]["state"] == "succeeded"
    };
    common::until("the run that was left to be taken up", is_done);
    sql(server, "RUN JOB copy");
    for table in ["kept", "copies"] {
        let select =
            format!("SELECT count(*) AS n, count(DISTINCT client * 1000000000 + number) AS d FROM {table}");
        let copied = sql(server, &select);
        let counts = (copied[0]["n"].as_u64(), copied[0]["d"].as_u64());
        assert_eq!(counts, (Some(events), Some(events)), "{table}, KILLS_SEED={seed}");
    }
    let runs = sql(
        server,
        "SELECT run, json_get_int(reads, 't', 'from') AS \"from\", json_get_int(reads, 't', 'to') AS \"to\" \
         FROM system.job_runs WHERE job = 'copy' ORDER BY run",
    );
    for pair in runs.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "{} and {}", pair[0], pair[1]);
    }
    runs.last().unwrap()["run"].as_u64().unwrap()
}

/// Submits a query that outlives its client, and the server; returns its place.
fn detached(server: &TestServer, text: &str) -> String {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let answer = connection.ask_with("POST", "/v1/queries?detach=true", &[], text.as_bytes()).unwrap();
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["durable"], true, "{answer}");
    format!("/v1/queries/{}", answer["id"].as_str().unwrap())
}

/// Ends such a query; answers all its records, and how many events it saw.
fn ended(server: &TestServer, place: &str) -> (Vec<Value>, u64) {
    let ask = |method: &str, place: &str, fields: &[&str]| {
        let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
        connection.ask_with(method, place, fields, b"").unwrap()
    };
    assert_eq!(ask("DELETE", place, &[]).status, 204);
    let answer = ask("GET", &format!("{place}/results"), &["accept: application/json"]);
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["meta"]["query"]["reason"], "killed", "{answer}");
    (answer["records"].as_array().unwrap().clone(), answer["meta"]["counts"]["seen"].as_u64().unwrap())
}

/// Reads the windows of such a query as they come, through all kills, each time after the last one; returns the counts of their
/// events, once the query has ended.
fn window_reader(address: Address, place: String) -> JoinHandle<Vec<u64>> {
    std::thread::spawn(move || {
        let mut counts: Vec<u64> = Vec::new();
        loop {
            let at = address.lock().unwrap().clone();
            let path = format!("{place}/results?after={}", counts.len());
            let results = Connection::open(&at).and_then(|mut connection| {
                connection.send("GET", &path, &[], b"")?;
                connection.results()
            });
            let Ok(mut results) = results else {
                std::thread::park_timeout(Duration::from_millis(5));
                continue;
            };
            while let Ok(Some(emit)) = results.next() {
                let number = emit["meta"]["window"]["number"].as_u64();
                assert_eq!(number, Some(counts.len() as u64 + 1), "each window comes once: {emit}");
                counts.push(emit["records"][0]["n"].as_u64().unwrap());
                if emit["meta"]["query"]["finished"].is_string() {
                    return counts;
                }
            }
        }
    })
}

/// Queries that stood all the time have counted each event once.
fn check_queries(
    server: &TestServer,
    [all, windows, read]: &[String; 3],
    reader: JoinHandle<Vec<u64>>,
    events: u64,
    seed: u64,
) {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    assert_eq!(connection.ask_with("DELETE", read, &[], b"").unwrap().status, 204);
    assert_eq!(reader.join().unwrap().iter().sum::<u64>(), events, "KILLS_SEED={seed}");
    let (records, seen) = ended(server, all);
    let by_client = "SELECT client, count(*) AS n, sum(number) AS s FROM t GROUP BY client ORDER BY client";
    let mut found = records;
    found.sort_by_key(|record| record["client"].as_u64());
    assert_eq!((found, seen), (sql(server, by_client), events), "KILLS_SEED={seed}");
    let (records, seen) = ended(server, windows);
    let sum: u64 = records.iter().map(|record| record["n"].as_u64().unwrap()).sum();
    assert_eq!((sum, seen), (events, events), "KILLS_SEED={seed}");
}

#[test]
fn what_was_acknowledged_is_there_once_however_often_the_server_is_killed() {
    let (kills, seed) = (setting("KILLS", 10), setting("KILLS_SEED", 1));
    let dir = tempfile::tempdir().unwrap();
    let (hook, requests) = receiver();
    let over = || TestServer::over_with(dir.path(), &["--sinks.private-addresses", "yes"]);
    let mut server = over();
    sql(&server, "CREATE STREAM t (client LONG NOT NULL, number LONG NOT NULL)");
    sql(&server, JOB);
    sql(&server, "CREATE SEARCH INDEX ON t (client ID, number ID)");
    sql(&server, VIEWS);
    sql(&server, &alerts(hook));
    let queries = [
        "SELECT client, COUNT(*) AS n, SUM(number) AS s FROM STREAM(t, MAX, TIME) GROUP BY client",
        "SELECT COUNT(*) AS n FROM STREAM(t, MAX, TIME) WINDOWING TUMBLING(500, TIME)",
        "SELECT COUNT(*) AS n FROM STREAM(t, MAX, TIME) WINDOWING TUMBLING(200, TIME)",
    ];
    let queries = queries.map(|text| detached(&server, text));
    let address: Address = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (sent, tries) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let set_address = |server: &TestServer| {
        *address.lock().unwrap() = server.url.strip_prefix("http://").unwrap().to_owned();
    };
    set_address(&server);
    let reader = window_reader(Arc::clone(&address), queries[2].clone());
    let clients: Vec<JoinHandle<u64>> = (0..CLIENTS)
        .map(|number| {
            let counts = (Arc::clone(&sent), Arc::clone(&tries));
            client(number, Arc::clone(&address), Arc::clone(&stop), counts)
        })
        .collect();
    let runner = runner(Arc::clone(&address), Arc::clone(&stop));
    let searcher = searcher(Arc::clone(&address), Arc::clone(&stop));
    let mut rng = Rng::new(seed);
    for kill in 0..kills {
        // Some progress first, so that no kill is of a server that did nothing.
        let before = sent.load(Ordering::Relaxed);
        common::until("events to be acknowledged", || sent.load(Ordering::Relaxed) > before);
        std::thread::park_timeout(Duration::from_millis(rng.below(300) as u64));
        server.running.signal("KILL");
        drop(server);
        server = over();
        if kill % 2 == 0 {
            // Nothing comes yet. Each time, not at the end alone: what a start gets wrong the next one may make anew.
            check_views(&server, seed);
            check_searches(&server, seed);
        }
        set_address(&server);
    }
    stop.store(true, Ordering::Relaxed);
    let acknowledged: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let answered = runner.join().unwrap();
    let searches = searcher.join().unwrap();
    assert!(searches > 0, "searches are answered");
    check_searches(&server, seed);
    let indexed = "/v1/streams/t/search/index?wait=30s";
    let path = server.url.strip_prefix("http://").unwrap();
    let fields = ["accept: application/json"];
    let answer = Connection::open(path).unwrap().ask_with("GET", indexed, &fields, b"").unwrap();
    let progress: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&progress["complete"], &progress["unusable_files"]), (&true.into(), &0.into()), "{progress}");
    check_searches(&server, seed);
    let rows = sql(
        &server,
        "SELECT client, count(*) AS n, count(DISTINCT number) AS d, max(number) AS top FROM t GROUP BY client",
    );
    let found: HashMap<u64, (u64, u64, u64)> = rows
        .iter()
        .map(|row| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (number("client"), (number("n"), number("d"), number("top")))
        })
        .collect();
    for (number, count) in (0..CLIENTS).zip(&acknowledged) {
        assert_eq!(
            found.get(&number),
            Some(&(*count, *count, count - 1)),
            "client {number}, KILLS_SEED={seed}"
        );
    }
    check_views(&server, seed);
    check_windows(&server, dir.path(), acknowledged.iter().sum(), seed);
    check_alerts(&server, &requests, seed);
    check_changes(&server, seed);
    let offsets =
        sql(&server, "SELECT count(*) AS n, count(DISTINCT _offset) AS d, max(_offset) AS top FROM t");
    let events: u64 = acknowledged.iter().sum();
    assert_eq!(offsets[0]["d"].as_u64(), Some(events));
    assert_eq!(offsets[0]["top"].as_u64(), Some(events - 1), "no offset is left out");
    check_queries(&server, &queries, reader, events, seed);
    let runs = check_copies(&server, events, seed);
    assert!(runs > answered, "a run that was answered is remembered");
    // Also where the test passes, whose output is not shown otherwise.
    let _ = writeln!(
        std::io::stderr(),
        "killed {kills} times under {CLIENTS} clients, who tried {} requests; {events} events acknowledged, found once, and \
         copied once in {runs} runs of a job, and counted once in 4 views and 3 detached queries, {searches} searches answered, KILLS_SEED={seed}",
        tries.load(Ordering::Relaxed)
    );
}
