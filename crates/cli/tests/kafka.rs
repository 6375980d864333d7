//! Tests a stream over a topic of Apache Kafka and a sink into another: with the binary, a broker that `tests/kafka/broker.sh` starts, and
//! clients of another project (`tests/clients/requirements.txt`). Where one of them is missing, the test says so.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![cfg(feature = "kafka")]

mod common;

use std::{
    collections::BTreeMap,
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{TestServer, run, until};

/// The exit code of `broker.sh` where Java, Maven or the network is missing.
const SKIPPED: i32 = 77;

/// A broker of this test.
struct Broker {
    directory: tempfile::TempDir,
    address: String,
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kafka")
}

/// Runs `broker.sh`. What it starts must not have the test's pipes.
fn run_script(directory: &Path, words: &[&str]) -> Result<String, (Option<i32>, String)> {
    let log = directory.join("script.log");
    let mut command = Command::new("bash");
    command.arg(tests().join("broker.sh")).arg(words[0]).arg(directory).args(&words[1..]);
    let errors = std::fs::File::create(&log).unwrap();
    let output = command.stdin(Stdio::null()).stderr(errors).output().expect("bash is there");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        false => Err((output.status.code(), std::fs::read_to_string(log).unwrap())),
    }
}

impl Broker {
    fn start() -> Option<Broker> {
        let directory = tempfile::tempdir().unwrap();
        match run_script(directory.path(), &["start", "0"]) {
            Ok(address) => Some(Broker { directory, address }),
            Err((Some(SKIPPED), reason)) => {
                println!("skipped: {}", reason.trim());
                None
            }
            Err((_, reason)) => panic!("{reason}"),
        }
    }

    /// Ends the broker, and starts it again at its address, with its data.
    fn restart(&self) {
        run_script(self.directory.path(), &["stop"]).unwrap();
        let port = self.address.rsplit(':').next().unwrap();
        run_script(self.directory.path(), &["start", port]).unwrap();
    }

    /// The committed messages of a topic, by another project's consumer.
    fn consume(&self, python: &Path, topic: &str) -> Vec<serde_json::Value> {
        let output =
            Command::new(python).arg(tests().join("consume.py")).args([&self.address, topic]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn create_topic(&self, python: &Path, topic: &str) {
        let mut command = Command::new(python);
        command.arg(tests().join("produce.py")).args([&self.address, topic, "2", "0", "0"]);
        assert!(command.status().unwrap().success());
    }

    fn produce(&self, python: &Path, numbers: std::ops::Range<u64>) {
        let mut command = Command::new(python);
        command.arg(tests().join("produce.py")).args([&self.address, "orders", "4"]);
        command.args([numbers.start.to_string(), numbers.end.to_string()]);
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = run_script(self.directory.path(), &["stop"]);
    }
}

struct Server {
    server: TestServer,
}

impl Server {
    fn open(data: &Path, broker: &Broker) -> Server {
        let settings = data.join("settings.toml");
        let text = format!(
            "[kafka.main]\nbrokers = \"{}\"\n[pubsub]\nquery_topic = \"queries\"\nresult_topic = \"results\"\n",
            broker.address
        );
        std::fs::write(&settings, text).unwrap();
        let settings = settings.to_str().unwrap().to_owned();
        let server =
            TestServer::over_with(&data.join("data"), &["--config", &settings, "--default-stream", "orders"]);
        Server { server }
    }

    fn sql(&self, text: &str) -> String {
        let ran = run(&["sql", "--server", &self.server.url, text]);
        assert_eq!(ran.code, Some(0), "{text}: {}", ran.err);
        ran.out
    }

    /// Waits until the stream has all numbers below, without those that are no events.
    fn until_read(&self, numbers: u64) {
        let events = numbers - numbers.div_ceil(100);
        let expected = format!("{{\"n\":{events},\"d\":{events}}}\n");
        let counts = "SELECT count(*) AS n, count(DISTINCT id) AS d FROM orders";
        until(&format!("{events} orders"), || self.sql(counts) == expected);
    }
}

/// The rows that a reader of a topic of changes has: the last value of each key. No message repeats the one before of its key.
fn rows_of_changes(messages: &[serde_json::Value]) -> BTreeMap<String, serde_json::Value> {
    let mut rows = BTreeMap::new();
    for message in messages {
        let (key, value) = (message["key"].as_str().unwrap().to_owned(), &message["value"]);
        let before = rows.insert(key, value.clone());
        assert_ne!(before.as_ref(), Some(value), "a change is there twice");
    }
    rows
}

#[test]
fn each_message_is_stored_once_and_each_change_written_once_whatever_is_killed() {
    let Some(python) = std::env::var_os("SWIFTWATER_PYTHON").map(PathBuf::from) else {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/clients/requirements.txt");
        return;
    };
    let Some(broker) = Broker::start() else { return };
    let data = tempfile::tempdir().unwrap();
    broker.create_topic(&python, "queries");
    broker.create_topic(&python, "results");
    let mut server = Server::open(data.path(), &broker);
    // The statements of docs/reference/kafka.md; the topic is not there yet.
    server.sql(
        "CREATE STREAM orders (id LONG NOT NULL, customer STRING, amount DOUBLE) \
         FROM KAFKA (topic = 'orders', start = earliest) WITH (on_bad_event = quarantine); SHOW PARTITIONS",
    );
    until("a missing topic to be shown", || {
        let shown = server.sql("SHOW PARTITIONS");
        shown.contains("\"failing\"") && shown.contains("orders")
    });
    server.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, COUNT(*) AS orders, SUM(amount) AS amount \
         FROM STREAM(orders) GROUP BY customer",
    );
    server.sql("CREATE SINK changes FROM CHANGES OF totals INTO KAFKA (topic = 'totals', key = customer)");
    until("a missing target to be shown", || {
        let shown = server.sql("SHOW SINKS");
        shown.contains("has no topic `totals`")
    });
    broker.create_topic(&python, "totals");
    let kills: u64 = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3);
    const PRODUCED: u64 = 5000;
    for kill in 0..kills {
        std::thread::scope(|scope| {
            let produced = scope.spawn(|| broker.produce(&python, kill * PRODUCED..(kill + 1) * PRODUCED));
            let some = (kill * PRODUCED + PRODUCED / 4) / 100 * 99;
            until("some orders", || {
                let count = server.sql("SELECT count(*) AS n FROM orders");
                let count: u64 =
                    count.trim().trim_start_matches("{\"n\":").trim_end_matches('}').parse().unwrap();
                count > some || produced.is_finished()
            });
            server.server.running.signal("KILL");
            server.server.running.child.wait().unwrap();
            server = Server::open(data.path(), &broker);
            produced.join().unwrap();
        });
        if kill == 0 {
            broker.restart();
        }
    }
    server.until_read(kills * PRODUCED);
    let view = server.sql("SELECT * FROM totals ORDER BY customer");
    let expected: BTreeMap<String, serde_json::Value> = view
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| (row["customer"].as_str().unwrap().to_owned(), row))
        .collect();
    until("all changes", || rows_of_changes(&broker.consume(&python, "totals")) == expected);
    let bad = kills * PRODUCED / 100;
    let quarantined = "SELECT count(*) AS n, count(DISTINCT reason) AS d FROM quarantine";
    until("bad messages", || server.sql(quarantined) == format!("{{\"n\":{bad},\"d\":{bad}}}\n"));
    let reason = server.sql("SELECT reason FROM quarantine LIMIT 1");
    assert!(reason.contains("a message of topic `orders`, partition 0, offset "), "{reason}");
    until("all partitions to be read", || {
        let shown = server.sql("SHOW PARTITIONS");
        shown.lines().count() == 4 && shown.matches("\"caught up\"").count() == 4
    });
    server.sql("ALTER STREAM orders PAUSE");
    broker.produce(&python, kills * PRODUCED..(kills + 1) * PRODUCED);
    assert_eq!(server.sql("SHOW PARTITIONS").matches("\"paused\"").count(), 4);
    server.sql("ALTER STREAM orders RESUME; ALTER STREAM orders SET KAFKA (on_gap = skip)");
    server.until_read((kills + 1) * PRODUCED);
    ask_through_topics(&server, &broker, &python, (kills + 1) * PRODUCED);
    drop(server);
    ask_two_nodes(&broker, &python);
}

/// A node of a cluster.
fn node(directory: &Path, name: &str, broker: &Broker) -> TestServer {
    let settings = directory.join(format!("{name}.toml"));
    // Free a moment ago: other nodes are told before the server listens.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "[kafka.main]\nbrokers = \"{}\"\n[cluster]\nname = \"c\"\nnode_id = \"{name}\"\nsession_timeout_ms = \"6s\"\n\
         advertise = \"http://127.0.0.1:{port}\"\n",
        broker.address
    );
    std::fs::write(&settings, text).unwrap();
    let listen = format!("127.0.0.1:{port}");
    let data = directory.join(name);
    let args = ["--data", data.to_str().unwrap(), "--config", settings.to_str().unwrap()];
    TestServer::start_as(&["serve", "--listen", &listen, "--log", "warn"], &args)
}

/// Two nodes answer a query over a topic together; when one is killed, the other goes on, and each record comes once.
fn ask_two_nodes(broker: &Broker, python: &Path) {
    let directory = tempfile::tempdir().unwrap();
    broker.create_topic(python, "flights");
    let mut first = node(directory.path(), "a", broker);
    let second = node(directory.path(), "b", broker);
    // The statement of docs/reference/cluster.md.
    let create =
        "CREATE STREAM flights FROM KAFKA (topic = 'flights', key = 'airline') WITH (produce = true)";
    let created = run(&["sql", "--server", &first.url, create]);
    assert_eq!(created.code, Some(0), "{}", created.err);
    let text = "SELECT id FROM STREAM(flights)";
    let answers = directory.path().join("answers");
    let mut query = Command::new(env!("CARGO_BIN_EXE_swiftwater"));
    query.args(["query", "--server", &second.url, text]).stdin(Stdio::null());
    let mut query = query.stdout(std::fs::File::create(&answers).unwrap()).spawn().unwrap();
    until("the query to run on the second node", || {
        second.get("/v1/queries").contains("FROM STREAM(flights)")
    });
    let produce = |numbers: std::ops::Range<u64>| {
        let mut command = Command::new(python);
        command.arg(tests().join("produce.py")).args([&broker.address, "flights", "2"]);
        command.args([numbers.start.to_string(), numbers.end.to_string()]);
        assert!(command.status().unwrap().success());
    };
    let ids = || -> Vec<u64> {
        let text = std::fs::read_to_string(&answers).unwrap();
        let values = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        values.filter_map(|value| value["id"].as_u64()).collect()
    };
    let distinct = || ids().into_iter().collect::<std::collections::BTreeSet<u64>>();
    // Either node shows and ends the queries of the other.
    let id = {
        let listed: serde_json::Value = serde_json::from_str(&first.get("/v1/cluster/queries")).unwrap();
        assert_eq!(listed["queries"][0]["node"], "b", "{listed}");
        listed["queries"][0]["id"].as_str().unwrap().to_owned()
    };
    let shown = run(&["cluster", "status", "--server", &first.url]);
    assert!(
        shown.code == Some(0) && shown.out.contains("flights") && shown.out.contains(&second.url),
        "{shown:?}"
    );
    until("the nodes to share the partitions", || {
        let checked = run(&["cluster", "check", "--server", &first.url]);
        checked.code == Some(0) && checked.out.contains("2 nodes and 2 partitions")
    });
    let other =
        run(&["query", "--server", &first.url, "--detach", "SELECT id FROM STREAM(flights) WHERE id = -1"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    let killed = run(&["kill", "--server", &second.url, other.out.trim()]);
    assert_eq!(killed.code, Some(0), "{killed:?}");
    until("it to be forgotten", || !second.get("/v1/cluster/queries").contains("id = -1"));
    assert!(second.get("/v1/cluster/queries").contains(&id));
    produce(0..1000);
    until("the records of both nodes", || distinct().len() == 990);
    // Events by HTTP, through each node.
    for (server, from) in [(&first, 1_000_000), (&second, 1_000_100)] {
        let events: String = (from..from + 100)
            .map(|id| format!("{{\"id\": {id}, \"airline\": \"a{}\"}}\n", id % 7))
            .collect();
        let file = directory.path().join("events.ndjson");
        std::fs::write(&file, events).unwrap();
        let sent = run(&["ingest", "--server", &server.url, "flights", file.to_str().unwrap()]);
        assert_eq!(sent.code, Some(0), "{}", sent.err);
    }
    until("the events that were sent", || distinct().len() == 1190);
    first.running.signal("KILL");
    first.running.child.wait().unwrap();
    produce(1000..3000);
    until("all records", || distinct().len() == 3170);
    assert_eq!(ids().len(), 3170, "a record came twice");
    let _ = query.kill();
    query.wait().unwrap();
    until("the query to end", || second.get("/v1/cluster/queries").contains("\"queries\":[]"));
    let drained = run(&["cluster", "drain", "--server", &second.url, "--timeout", "1m"]);
    assert!(drained.code == Some(0) && drained.out.contains("has no partitions"), "{drained:?}");
    let refused = run(&["query", "--server", &second.url, text]);
    assert!(refused.code == Some(1) && refused.err.contains("takes no queries"), "{refused:?}");
    assert_eq!(run(&["cluster", "resume", "--server", &second.url]).code, Some(0));
    until("it to have the partitions again", || {
        run(&["cluster", "status", "--server", &second.url]).out.contains("work serve receive")
            && second.get("/v1/cluster").contains("\"partitions\":2")
    });
}

/// A query through a topic has its results in another.
fn ask_through_topics(server: &Server, broker: &Broker, python: &Path, next: u64) {
    let mut asking = Command::new(python);
    asking.arg(tests().join("ask.py")).args([&broker.address, "queries", "results", "q 1"]);
    asking.arg("SELECT customer FROM STREAM(MAX, TIME) WHERE amount >= 0 LIMIT 3");
    let mut asking = asking.stdout(Stdio::piped()).spawn().unwrap();
    until("a query of the topic to run", || server.server.get("/v1/queries").contains("amount >= 0"));
    broker.produce(python, next..next + 1000);
    let mut text = String::new();
    asking.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(asking.wait().unwrap().success(), "{text}");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["signal"], "COMPLETE", "{text}");
    assert_eq!(last["value"]["records"].as_array().map(Vec::len), Some(3), "{text}");
}

#[test]
fn faulty_connections_are_refused_with_their_place() {
    let data = tempfile::tempdir().unwrap();
    let settings = data.path().join("settings.toml");
    for (text, expected) in [
        (
            "[kafka.main]\nbroker = \"a:1\"\n",
            "settings.toml:2: `kafka.main.broker`: there is no such setting; did you mean `brokers`?",
        ),
        (
            "[kafka.main]\nbrokers = \"a\"\n",
            "settings.toml:1: connection `kafka.main`: `brokers` has `a`, which is not `HOST:PORT`",
        ),
        (
            "[kafka]\nbrokers = \"a:1\"\n",
            "settings.toml:2: `kafka.brokers` is a section: write [kafka.brokers] and `brokers` below",
        ),
        (
            "[kafka.main]\nbrokers = \"a:1\"\npassword = \"secret\"\n",
            "settings.toml:3: `kafka.main.password`: secrets are in files: set `password_file`",
        ),
        (
            "[kafka.main]\nbrokers = \"a:1\"\nproperties = { \"group.id\" = \"g\" }\n",
            "`group.id` cannot be set as a property",
        ),
        ("[kafka.main]\nbrokers = \"a:1\"\nproperties = { \"no.such\" = 1 }\n", "no.such"),
    ] {
        std::fs::write(&settings, text).unwrap();
        let (settings, dir) = (settings.to_str().unwrap(), data.path().join("data"));
        let ran =
            run(&["serve", "--listen", "127.0.0.1:0", "--config", settings, "--data", dir.to_str().unwrap()]);
        assert!(ran.code != Some(0) && ran.err.contains(expected), "{text}: {}", ran.err);
        assert!(!ran.err.contains("secret\""), "{}", ran.err);
    }
    std::fs::write(&settings, "[kafka.main]\nbrokers = \"a:1\"\nmemory_bytes = \"64MiB\"\n").unwrap();
    let ran = run(&["serve", "--print-config", "--config", settings.to_str().unwrap()]);
    assert!(
        ran.out.contains("[kafka.main]") && ran.out.contains("memory_bytes = 67108864\n"),
        "{} {}",
        ran.out,
        ran.err
    );
}
