//! Tests SQL over several machines: an owner of tables and three workers, each a process, with files, rows that are not in files, and
//! a view. Each statement returns on the workers what it returns on the owner alone, also while workers are killed.
//!
//! `WORKER_KILLS` sets the number of kills (3).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

mod common;

use std::{
    net::TcpListener,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use common::{TestServer, http::Connection, run_with, seconds, until};
use serde_json::{Value, json};
use swiftwater_testkit::{Moto, Rng};

const WORKERS: usize = 3;

/// Events of a first part, which are in files, and of a second one, which need not be.
const EVENTS: [std::ops::Range<u64>; 2] = [0..24_000, 24_000..24_500];

/// Statements that can be divided.
const STATEMENTS: [&str; 17] = [
    "SELECT count(*) AS n, sum(price) AS s, avg(price) AS a, min(id) AS x, max(id) AS y FROM sales",
    "SELECT city, count(*) AS n, sum(price) AS s FROM sales GROUP BY city ORDER BY city",
    "SELECT id % 1000 AS k, count(*) AS n, sum(price) AS s FROM sales GROUP BY id % 1000 ORDER BY k",
    "SELECT count(DISTINCT city) AS c, count(DISTINCT id % 777) AS d FROM sales",
    "SELECT id, price FROM sales WHERE city = 'Oslo' ORDER BY price DESC, id LIMIT 20",
    "SELECT a.city, count(*) AS n FROM sales a JOIN sales b ON a.id = b.id + 1 GROUP BY a.city ORDER BY a.city",
    "SELECT s.city, v.n, count(*) AS m FROM sales s JOIN by_city v ON s.city = v.city GROUP BY s.city, v.n ORDER BY s.city",
    "SELECT city, id, row_number() OVER (PARTITION BY city ORDER BY id) AS r FROM sales ORDER BY city, id LIMIT 50",
    "SELECT count(*) AS n FROM sales WHERE price > (SELECT avg(price) FROM sales)",
    "SELECT count(*) AS n, sum(price) AS s FROM sales WHERE search(note, 'late')",
    "SELECT id, search_snippet(note, 'late', 20) AS s FROM sales WHERE search(note, 'late') ORDER BY id LIMIT 30",
    "SELECT id, _score FROM search('sales', 'late OR came') ORDER BY _score DESC, id LIMIT 30",
    "SELECT city FROM sales WHERE id < 40 UNION ALL SELECT city FROM by_city ORDER BY city",
    "SELECT id FROM sales WHERE id NOT IN (SELECT id + 3 FROM sales) ORDER BY id",
    "SELECT t, count(*) AS n, sum(id) AS s FROM tiny GROUP BY t ORDER BY t",
    "SELECT tiny.t, count(*) AS n FROM sales JOIN tiny ON sales.id % 7 = tiny.id GROUP BY tiny.t ORDER BY tiny.t",
    "SELECT approx_distinct(id) AS d, median(price) AS m, max(note || city) AS t FROM sales",
];

/// The number of statements so far.
static STATEMENTS_ASKED: AtomicU64 = AtomicU64::new(0);

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// An owner and its workers. Workers that are killed are missing.
struct Nodes {
    directory: tempfile::TempDir,
    /// The options for the store.
    store: Vec<String>,
    addresses: Vec<String>,
    workers: Vec<Option<TestServer>>,
    owner: TestServer,
}

impl Nodes {
    fn start(directory: tempfile::TempDir, store: &[&str]) -> Nodes {
        let store: Vec<String> = store.iter().map(|&option| option.to_owned()).collect();
        let (data, secret) = (directory.path().join("data"), directory.path().join("secret"));
        std::fs::write(&secret, "a-secret-of-the-tests\n").unwrap();
        let addresses: Vec<String> = (0..WORKERS).map(|_| free_address()).collect();
        let workers = addresses.iter().map(|address| Some(worker(address, &store, &secret))).collect();
        let urls: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
        let (urls, own) = (urls.join(","), free_address());
        let owner = [
            "--data",
            data.to_str().unwrap(),
            "--data.log-free-bytes-min",
            "0",
            // So long that events of the second part are not in files when they are asked for.
            "--store.commit-interval-ms",
            "1500",
            "--sql.worker-listen",
            &own,
            "--sql.worker-secret-file",
            secret.to_str().unwrap(),
            "--sql.workers",
            &urls,
        ];
        let options: Vec<&str> = owner.into_iter().chain(store.iter().map(String::as_str)).collect();
        let owner = TestServer::start(&options);
        Nodes { directory, store, addresses, workers, owner }
    }

    fn start_again(&mut self, number: usize) {
        let secret = self.directory.path().join("secret");
        self.workers[number] = Some(worker(&self.addresses[number], &self.store, &secret));
    }

    /// Stores the events of both parts, of which the second one need not be in files.
    fn fill(&self) {
        let owner = &self.owner;
        rows(owner, "CREATE STREAM sales (id BIGINT, city STRING, price DOUBLE, note STRING)", "auto");
        for part in EVENTS[0].clone().step_by(8000) {
            send(owner, part..part + 8000);
            until("a file", || {
                let streams = rows(owner, "SHOW STREAMS", "auto");
                streams[0]["committed"].as_u64().is_some_and(|committed| committed >= part + 8000)
            });
        }
        send(owner, EVENTS[1].clone());
    }

    /// Checks that no statement has failed on the workers, and that nothing of one is left there.
    fn check_workers(&self) {
        let metrics = self.owner.get("/metrics");
        assert!(metrics.contains("\nswiftwater_sql_fallbacks_total 0\n"), "{metrics}");
        for worker in self.workers.iter().flatten() {
            assert!(metric(worker, "swiftwater_sql_tasks_total") > 10);
            worker.wait_for("/metrics", "\nswiftwater_sql_statements_served 0\n");
        }
    }
}

fn metric(server: &TestServer, name: &str) -> u64 {
    let metrics = server.get("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
}

/// A worker at an address.
fn worker(address: &str, store: &[String], secret: &Path) -> TestServer {
    let options = [
        "--sql-worker",
        "--sql.worker-listen",
        address,
        "--sql.worker-secret-file",
        secret.to_str().unwrap(),
        "--sql.threads",
        "1",
    ];
    TestServer::start(&options.into_iter().chain(store.iter().map(String::as_str)).collect::<Vec<_>>())
}

fn answer(server: &TestServer, text: &str, distributed: &str) -> (u16, Value) {
    let mut connection = Connection::open(server.url.strip_prefix("http://").unwrap()).unwrap();
    let distributed = format!("swiftwater-distributed: {distributed}");
    // One that has failed may end a moment after its answer: each has a name of its own.
    let id = format!("asked-{}", STATEMENTS_ASKED.fetch_add(1, Ordering::Relaxed));
    let name = format!("swiftwater-statement: {id}");
    let fields = ["accept: application/json", &name, &distributed];
    match connection.ask_with("POST", "/v1/sql", &fields, text.as_bytes()) {
        Ok(answer) => (answer.status, answer.json()),
        Err(error) => panic!("{text}: {error}: {}", server.get(&format!("/v1/sql/{id}"))),
    }
}

fn rows(server: &TestServer, text: &str, distributed: &str) -> Value {
    let (status, rows) = answer(server, text, distributed);
    assert_eq!(status, 200, "{distributed}: {text}: {rows}");
    rows
}

fn send(server: &TestServer, events: std::ops::Range<u64>) {
    let cities = ["Oslo", "Rome", "Lima", "Kyoto", "São Paulo"];
    let event = |id: u64| {
        let (city, price) = (cities[(id * 7 % 5) as usize], (id * 7919 % 10_007) as f64 / 10.0);
        let note = if id.is_multiple_of(97) { "came late" } else { "in time" };
        format!("{{\"id\":{id},\"city\":\"{city}\",\"price\":{price},\"note\":\"{note}\"}}\n")
    };
    let text: String = events.map(event).collect();
    let sent = run_with(&["ingest", "--server", &server.url, "sales"], text.as_bytes());
    assert_eq!(sent.code, Some(0), "{}", sent.err);
}

#[test]
fn statements_on_workers_return_what_one_machine_returns_whatever_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("tables");
    std::fs::create_dir(&store).unwrap();
    let mut nodes = Nodes::start(directory, &["--store.location", store.to_str().unwrap()]);
    nodes.fill();
    let owner = &nodes.owner;
    rows(
        owner,
        "CREATE MATERIALIZED VIEW by_city AS SELECT city, COUNT(*) AS n FROM STREAM(sales) GROUP BY city",
        "auto",
    );
    rows(owner, "CREATE SEARCH INDEX ON sales (note TEXT)", "auto");
    owner.wait_for("/v1/streams/sales/search/index?wait=10s", "\"waiting_files\":0");
    // Files of one row each.
    rows(owner, "CREATE TABLE tiny (id BIGINT, t STRING)", "auto");
    for id in 0..7 {
        rows(owner, &format!("INSERT INTO tiny VALUES ({id}, 'number {id}')"), "auto");
    }
    let expected: Vec<Value> = STATEMENTS.iter().map(|text| rows(owner, text, "never")).collect();
    let mut divided = 0;
    for (text, expected) in STATEMENTS.iter().zip(&expected) {
        assert_eq!(rows(owner, text, "always"), *expected, "{text}");
        let plan = rows(owner, &format!("EXPLAIN {text}"), "always").to_string();
        divided += usize::from(plan.contains("on 3 workers"));
    }
    // Where all rows of a join are on few files, it may have no parts.
    assert!(divided >= STATEMENTS.len() - 2, "{divided} are divided");
    nodes.check_workers();
    // An error is that of one machine.
    for text in [
        "SELECT sum(1 / (id - 5)) FROM sales",
        "SELECT sum(CAST(CASE WHEN id = 777 THEN 'x' ELSE '1' END AS BIGINT)) FROM sales",
    ] {
        assert_eq!(answer(owner, text, "always"), answer(owner, text, "never"), "{text}");
    }
    let explained = rows(owner, "EXPLAIN SELECT count(*) FROM sales", "auto").to_string();
    assert!(explained.contains("sql.distribute_above_bytes is 2147483648"), "{explained}");
    a_statement_that_is_ended_ends_everywhere(&nodes);

    rows(owner, "CREATE TABLE copies (kill BIGINT, id BIGINT, city STRING)", "auto");
    let kills: usize = std::env::var("WORKER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut rng = Rng::new(7);
    let mut longest = 0_f64;
    for kill in 0..kills {
        let victim = rng.below(WORKERS);
        let delay = Duration::from_millis(rng.below(300) as u64);
        let (workers, owner, expected) = (&mut nodes.workers, &nodes.owner, &expected);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::park_timeout(delay);
                drop(workers[victim].take());
            });
            let insert = format!(
                "INSERT INTO copies SELECT {kill}, id, max(city) FROM sales WHERE id % 10 = 0 GROUP BY id"
            );
            if kill % 2 == 0 {
                rows(owner, &insert, "always");
            }
            for (text, expected) in STATEMENTS.iter().zip(expected) {
                let (took, rows) = seconds(|| rows(owner, text, "always"));
                assert_eq!(rows, *expected, "kill {kill}: {text}");
                longest = longest.max(took);
            }
            if kill % 2 == 1 {
                rows(owner, &insert, "always");
            }
        });
        nodes.start_again(victim);
    }
    // Each INSERT has put in each row once.
    let copies = "SELECT count(*) AS n, count(DISTINCT kill * 100000 + id) AS d, count(DISTINCT kill) AS k FROM copies";
    let inserted = kills as u64 * EVENTS[1].end / 10;
    assert_eq!(rows(&nodes.owner, copies, "never"), json!([{"n": inserted, "d": inserted, "k": kills}]));
    println!("{kills} kills of workers; the slowest statement took {longest:.1} s");
    assert!(longest < 120.0, "{longest}");
}

/// A statement that computes for minutes is listed with its tasks, and ends everywhere when it is ended.
fn a_statement_that_is_ended_ends_everywhere(nodes: &Nodes) {
    let owner = &nodes.owner;
    let text = "SELECT count(*) FROM sales a JOIN sales b ON a.price * b.price < a.id - 1000000";
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut connection = Connection::open(owner.url.strip_prefix("http://").unwrap()).unwrap();
            let fields = ["swiftwater-statement: long", "swiftwater-distributed: always"];
            connection.ask_with("POST", "/v1/sql", &fields, text.as_bytes()).unwrap().status
        });
        let tasks =
            "SELECT count(*) AS n FROM system.statement_tasks WHERE statement = 'long' AND rows_scanned > 0";
        until("tasks that have read rows", || rows(owner, tasks, "never")[0]["n"].as_u64() > Some(0));
        let listed: Value = serde_json::from_str(&owner.get("/v1/sql/long")).unwrap();
        let urls: Vec<String> = nodes.addresses.iter().map(|address| format!("http://{address}/")).collect();
        for task in listed["tasks"].as_array().unwrap() {
            assert!(urls.iter().any(|url| task["node"] == url.as_str()), "{listed}");
        }
        let mut connection = Connection::open(owner.url.strip_prefix("http://").unwrap()).unwrap();
        assert_eq!(connection.ask_with("DELETE", "/v1/sql/long", &[], b"").unwrap().status, 204);
        let (took, ()) = seconds(|| {
            for worker in nodes.workers.iter().flatten() {
                worker.wait_for("/metrics", "\nswiftwater_sql_statements_served 0\n");
            }
        });
        // The one thread of each worker computes it no more.
        let (again, _) = seconds(|| rows(owner, STATEMENTS[0], "always"));
        println!(
            "a statement that was ended was over on all workers after {took:.2} s; the next one took {again:.2} s"
        );
        // It would take minutes.
        assert!(took < 8.0 && again < 8.0, "{took} {again}");
        assert_ne!(running.join().unwrap(), 200);
    });
}

#[test]
fn workers_read_an_object_store() {
    let Some(python) = std::env::var_os("SWIFTWATER_PYTHON") else {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/delta/requirements.txt");
        return;
    };
    let moto = Moto::start(Path::new(&python));
    moto.make_bucket("swiftwater");
    let options = moto.options().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let store = ["--store.location", "s3://swiftwater/tables", "--store.options", &options.join(",")];
    let nodes = Nodes::start(tempfile::tempdir().unwrap(), &store);
    nodes.fill();
    for text in STATEMENTS.iter().filter(|text| !text.contains("by_city") && !text.contains("tiny")) {
        let expected = rows(&nodes.owner, text, "never");
        assert_eq!(rows(&nodes.owner, text, "always"), expected, "{text}");
    }
    nodes.check_workers();
}
