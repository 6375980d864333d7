//! Tests the nine published statements, as they were printed, over stored streams. They are sent to the real server and by
//! `swiftwater sql`, and compared with a simple loop over the same events. With the packages of
//! `tests/delta/requirements.txt` in `SWIFTWATER_PYTHON`, DuckDB reads the tables, too; without it, that part reports this.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it left out"
)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{TestServer, http::Connection, run};
use serde_json::Value;

const STATEMENTS: [&str; 9] = [
    "INSERT OVERWRITE TABLE cityUsage SELECT metro_area, avg(power_reading) AS avg_usage, min(power_reading) AS min_usage, max(power_reading) AS max_usage FROM smartHomeData GROUP BY metro_area",
    "INSERT OVERWRITE TABLE peakDeviceUsageRange SELECT house_id, (max(power_reading) - min(power_reading)) AS usage_range FROM smartHomeData WHERE is_peak = true AND metro_area = \"Seattle\" GROUP BY house_id",
    "INSERT OVERWRITE TABLE stateAvgUsage SELECT state, avg(power_reading) AS state_avg_usage FROM smartHomeData GROUP BY state",
    "INSERT OVERWRITE TABLE stateUsageDifference SELECT a2.state, (a2.state_avg_usage-a1.overall_avg) AS avg_usage_difference FROM (select avg(state_avg_usage) as overall_avg from stateAvgUsage) as a1 join stateAvgUsage as a2",
    "INSERT OVERWRITE TABLE ct SELECT count(*) FROM smartHomeData",
    "INSERT INTO TABLE wikiAvgArticleLength SELECT AVG(length) as avg_article_length FROM wiki",
    "INSERT INTO TABLE wikiContributorSummary SELECT contributor_username, COUNT(*) as page_count FROM wiki GROUP BY contributor_username",
    "INSERT INTO TABLE wikiTotalArticleLength SELECT SUM(length) as total_article_chars FROM wiki",
    "INSERT INTO TABLE wikiTotalArticlePages SELECT COUNT(*) as total_pages FROM wiki",
];

const STREAMS: &str = "
CREATE STREAM smartHomeData (house_id INT, metro_area STRING, state STRING, device_id INT, power_reading FLOAT, is_peak BOOLEAN);
CREATE STREAM wiki (sha1 STRING, title STRING, revision_ts LONG, contributor_username STRING, contributor_id LONG,
                    comment STRING, model STRING, format STRING, text STRING, length INT)";

/// Rows by their key, or by nothing, each with its numbers.
type Rows = BTreeMap<String, Vec<f64>>;

/// Numbers of a group, added up one after another.
#[derive(Clone, Copy)]
struct Group {
    count: f64,
    sum: f64,
    min: f32,
    max: f32,
}

/// A FLOAT as an answer writes it: with as many digits as tell it from others of 32 bits.
fn shown(number: f32) -> f64 {
    number.to_string().parse().unwrap()
}

fn grouped<'a>(readings: impl Iterator<Item = (&'a str, f32)>) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (key, reading) in readings {
        let new = Group { count: 0.0, sum: 0.0, min: reading, max: reading };
        let group = groups.entry(key.to_owned()).or_insert(new);
        group.count += 1.0;
        group.sum += f64::from(reading);
        group.min = group.min.min(reading);
        group.max = group.max.max(reading);
    }
    groups
}

/// The expected content of each of the first five tables.
fn of_homes(events: &[Value]) -> Vec<Rows> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    // A FLOAT has 32 bits.
    let reading = |event: &Value| event["power_reading"].as_f64().unwrap() as f32;
    let by = |name: &str| {
        let keyed: Vec<(String, f32)> =
            events.iter().map(|event| (text(event, name), reading(event))).collect();
        grouped(keyed.iter().map(|(key, reading)| (key.as_str(), *reading)))
    };
    let metros = by("metro_area");
    let usage = metros.iter().map(|(metro, group)| {
        (metro.clone(), vec![group.sum / group.count, shown(group.min), shown(group.max)])
    });
    let at_peak = events.iter().filter(|event| event["is_peak"] == true && event["metro_area"] == "Seattle");
    let at_peak: Vec<(String, f32)> =
        at_peak.map(|event| (event["house_id"].to_string(), reading(event))).collect();
    let at_peak = grouped(at_peak.iter().map(|(key, reading)| (key.as_str(), *reading)));
    let range = at_peak.iter().map(|(house, group)| (house.clone(), vec![shown(group.max - group.min)]));
    let states: Rows =
        by("state").into_iter().map(|(state, group)| (state, vec![group.sum / group.count])).collect();
    let overall = states.values().map(|state| state[0]).sum::<f64>() / states.len() as f64;
    let difference = states.iter().map(|(state, average)| (state.clone(), vec![average[0] - overall]));
    vec![
        usage.collect(),
        range.collect(),
        states.clone(),
        difference.collect(),
        Rows::from([(String::new(), vec![events.len() as f64])]),
    ]
}

/// The rows that a run adds to each of the last four tables.
fn of_articles(events: &[Value]) -> Vec<Rows> {
    let total: f64 = events.iter().map(|event| event["length"].as_f64().unwrap()).sum();
    let count = events.len() as f64;
    let mut pages = Rows::new();
    for event in events {
        let contributor = event["contributor_username"].as_str().unwrap().to_owned();
        pages.entry(contributor).or_insert_with(|| vec![0.0])[0] += 1.0;
    }
    let one = |number: f64| Rows::from([(String::new(), vec![number])]);
    vec![one(total / count), pages, one(total), one(count)]
}

/// The name of the table that a statement writes.
fn target(statement: &str) -> &str {
    statement.split_whitespace().nth(3).unwrap()
}

/// A row of an answer: the key, where its first value is one, and the numbers.
fn row(row: &Value) -> (String, Vec<f64>) {
    let values: Vec<(&String, &Value)> = row.as_object().unwrap().iter().collect();
    let is_key = |name: &str| matches!(name, "metro_area" | "house_id" | "state" | "contributor_username");
    let mut key = String::new();
    let mut numbers = Vec::new();
    for (name, value) in values {
        match (is_key(name), value) {
            (true, Value::String(text)) => key.clone_from(text),
            (true, value) => key = value.to_string(),
            (false, value) => numbers.push(value.as_f64().unwrap()),
        }
    }
    (key, numbers)
}

#[track_caller]
fn same(table: &str, found: &Rows, expected: &Rows) {
    let keys = |rows: &Rows| rows.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{table}");
    for (key, expected) in expected {
        let found = &found[key];
        assert_eq!(found.len(), expected.len(), "{table}, {key}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            // Sums of doubles are had in another order.
            let off = (found - expected).abs();
            assert!(off <= 1e-9 * expected.abs().max(1.0), "{table}, {key}: {found}, expected {expected}");
        }
    }
}

struct Published {
    server: TestServer,
    homes: Vec<Value>,
    articles: Vec<Value>,
}

impl Published {
    fn start(data: &Path) -> Published {
        let data = data.to_str().unwrap();
        let server = TestServer::start(&[
            "--data",
            data,
            "--store.commit-interval-ms",
            "50",
            "--data.log-free-bytes-min",
            "0",
        ]);
        let published = Published { server, homes: Vec::new(), articles: Vec::new() };
        published.ask("/v1/sql", STREAMS);
        published
    }

    /// The rows of an answer over HTTP.
    fn ask(&self, path: &str, text: &str) -> Vec<Value> {
        let mut connection = Connection::open(self.server.url.strip_prefix("http://").unwrap()).unwrap();
        let fields = ["accept: application/json"];
        let answer = connection.ask_with("POST", path, &fields, text.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
        answer.json().as_array().unwrap().clone()
    }

    /// Sends so many more events of both kinds.
    fn send(&mut self, homes: &str, articles: &str, seed: &str) {
        for (workload, stream, count) in
            [("smart-home", "smartHomeData", homes), ("articles", "wiki", articles)]
        {
            let made = run(&["generate", workload, "-n", count, "--seed", seed]);
            assert_eq!(made.code, Some(0), "{}", made.err);
            let sent = self.server.ingest(stream, &made.out);
            assert_eq!(sent.code, Some(0), "{}", sent.err);
            let events = made.out.lines().map(|line| serde_json::from_str(line).unwrap());
            match workload {
                "smart-home" => self.homes.extend(events),
                _ => self.articles.extend(events),
            }
        }
    }

    /// Compares the first five tables, which are overwritten, with all events.
    fn check_homes(&self) {
        for (statement, expected) in STATEMENTS.iter().zip(of_homes(&self.homes)) {
            let table = target(statement);
            let rows = self.ask("/v1/sql", &format!("SELECT * FROM {table}"));
            let found: Rows = rows.iter().map(row).collect();
            assert_eq!(found.len(), rows.len(), "{table} has a key twice: {rows:?}");
            same(table, &found, &expected);
        }
    }

    /// Compares the others with all runs so far, each of which added its rows.
    fn check_articles(&self, runs: &[Vec<Rows>]) {
        for (place, statement) in STATEMENTS[5..].iter().enumerate() {
            let table = target(statement);
            let rows = self.ask("/v1/sql", &format!("SELECT * FROM {table}"));
            let mut found: Vec<(String, Vec<f64>)> = rows.iter().map(row).collect();
            let by_key = |a: &(String, Vec<f64>), b: &(String, Vec<f64>)| {
                a.0.cmp(&b.0).then(a.1[0].total_cmp(&b.1[0]))
            };
            found.sort_by(by_key);
            let expected = runs.iter().flat_map(|run| run[place].clone());
            let mut expected: Vec<(String, Vec<f64>)> = expected.collect();
            expected.sort_by(by_key);
            assert_eq!(found.len(), expected.len(), "{table}");
            for (found, expected) in found.iter().zip(&expected) {
                let pair = |row: &(String, Vec<f64>)| Rows::from([row.clone()]);
                same(table, &pair(found), &pair(expected));
            }
        }
    }

    /// Waits until every event is in a version of its table, where other readers find it.
    fn until_committed(&self) {
        common::until("all events to be committed", || {
            let streams = self.ask("/v1/sql", "SHOW STREAMS");
            assert_eq!(streams.len(), 2, "{streams:?}");
            streams.iter().all(|stream| stream["events"] == stream["committed"])
        });
    }
}

#[test]
fn published_statements_give_what_a_plain_look_at_the_events_gives() {
    let data = tempfile::tempdir().unwrap();
    let mut published = Published::start(data.path());
    published.send("3000", "300", "5");
    // All of them in one text, right after the events were acknowledged.
    published.ask("/v1/sql?dialect=spark", &STATEMENTS.join(";\n"));
    let first = of_articles(&published.articles);
    published.check_homes();
    published.check_articles(std::slice::from_ref(&first));
    // Once more over more events, as a script from a file, and one by one as arguments.
    published.send("2000", "150", "6");
    let script = data.path().join("nightly.sql");
    fs::write(&script, STATEMENTS[..5].join(";\n") + ";\n").unwrap();
    let url = published.server.url.clone();
    let ran = run(&["sql", "--server", &url, "--spark", "--file", script.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for statement in &STATEMENTS[5..] {
        let ran = run(&["sql", "--server", &url, "--spark", statement]);
        assert_eq!(ran.code, Some(0), "{statement}: {}", ran.err);
    }
    published.check_homes();
    published.check_articles(&[first, of_articles(&published.articles)]);
    published.until_committed();
    read_by_duckdb(&data.path().join("tables"));
}

/// Runs the same statements over the streams' Delta tables in DuckDB, and compares the rows with those of the tables
/// written.
fn read_by_duckdb(tables: &Path) {
    let Some(python) = std::env::var_os("SWIFTWATER_PYTHON") else {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/delta/requirements.txt");
        return;
    };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/delta/published.py");
    let mut command = Command::new(python);
    command.arg(script).arg(tables).args(STATEMENTS).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<String> =
        STATEMENTS.iter().map(|statement| format!("ok {}", target(statement))).collect();
    let found: Vec<&str> = told.lines().collect();
    assert_eq!(found, expected, "{told}");
}
