//! Tests the whole engine with a loss of power at every call to a disk or to the store. Acknowledged data is present once;
//! other data is present once or not at all; and all work resumes.
//!
//! One client does one thing after another. It declares streams, a job, search indexes and endpoints, and sends numbered events, good and
//! bad ones, some of them to an endpoint. It alters a stream, drops one and declares another of its name, runs the job, and
//! restarts the server. Meanwhile tables are committed and compacted, checkpoints and the catalog's snapshot are written,
//! and the log is trimmed. At a call, all of it stops: the disks lose unsynced data, or any part of it. Another engine opens
//! the remains, possibly with one more loss of power. Then the client repeats what was not confirmed, and continues to the
//! end. It numbers its requests, so the final state is the same whatever happened.
//!
//! A crash occurs at every n-th call: `SWIFTWATER_ENGINE_CRASH_STEP` (1 is at each); and one in each kind of call.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{ObjectStore, path::Path};
use serde_json::Value;
use swiftwater_engine::{
    AppendOptions, Appended, Disks, EndpointInput, EndpointLimits, EndpointRoute, Engine, EngineConfig,
    HistoryConfig, HistoryError, Numbered, Principal,
};
use swiftwater_event::{CheckLimits, Checker, Clock, StreamName};
use swiftwater_log::{Compression, CompressionPolicy, Disk};
use swiftwater_store::{Durability, Durable, Store, StoreOptions};
use swiftwater_testkit::{At, FailingStore, Power, Rng, SimDisk, TestClock};

use crate::{
    history::{quick, try_sql},
    jobs::START,
};

/// Crashes in a change's tests are so many calls apart.
const STEP: u64 = 197;
/// Runs at the same time: most of one is waiting.
const AT_ONCE: usize = 4;
/// Time that an undisturbed operation may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The steps of the client, in order.
enum Step {
    /// A statement that may be repeated.
    Do(&'static str),
    /// One that may not, done when there is this column in this stream.
    Alter(&'static str, (&'static str, &'static str)),
    /// A numbered request: a stream, its good events, its bad ones.
    Send(&'static str, Vec<String>, Vec<&'static str>),
    /// The job.
    Run,
    /// Waits until the tables have everything.
    Commit,
    /// Waits until a segment of the log was given up.
    Trim,
    /// The server ends and starts again.
    Restart,
}

fn steps() -> Vec<Step> {
    use Step::*;
    let a = |numbers: std::ops::Range<u64>, pad: usize| -> Vec<String> {
        let event = |k: u64| {
            let (day, pad) = (1 + k % 2, "x".repeat(pad));
            format!("{{\"k\":{k},\"t\":\"2026-01-0{day}T00:00:00Z\",\"pad\":\"{pad}\"}}")
        };
        numbers.map(event).collect()
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let mut steps = vec![
        Do(
            "CREATE STREAM IF NOT EXISTS quarantine (stream STRING, path STRING, reason STRING, event STRING)",
        ),
        Do("CREATE STREAM IF NOT EXISTS a (k INTEGER NOT NULL CHECK (k >= 0), t TIMESTAMP, pad STRING, \
            WATERMARK FOR t AS t - INTERVAL '5 seconds') WITH (on_bad_event = quarantine, partition_by = day)"),
        Do("CREATE STREAM IF NOT EXISTS b WITH (store = true)"),
        Do("CREATE STREAM IF NOT EXISTS d (z LONG)"),
        Do("CREATE STREAM IF NOT EXISTS copies (k LONG)"),
        Do("CREATE TABLE IF NOT EXISTS kept (k BIGINT)"),
        Do("CREATE JOB IF NOT EXISTS j SCHEDULE '@hourly' WITH (incremental = true) AS $$ \
            INSERT INTO kept SELECT k FROM a; INSERT INTO copies SELECT k FROM a $$"),
        Do("CREATE SEARCH INDEX IF NOT EXISTS ON a (pad TEXT)"),
        Do("CREATE SEARCH INDEX IF NOT EXISTS ON d (z ID)"),
        Do("CREATE SEARCH INDEX IF NOT EXISTS ON kept (k ID)"),
        // An index is gone with its table.
        Do("CREATE TABLE IF NOT EXISTS brief (k BIGINT)"),
        Do("CREATE SEARCH INDEX IF NOT EXISTS ON brief (k ID)"),
        Do("DROP TABLE IF EXISTS brief"),
        Do("CREATE ENDPOINT IF NOT EXISTS POST '/a' (k LONG NOT NULL) INTO a"),
        Do("CREATE OR REPLACE SAVED QUERY q AS $$SELECT k FROM STREAM(a)$$"),
        Do("CREATE ENDPOINT IF NOT EXISTS POST '/d' (z LONG) INTO d"),
        Do("CREATE OR REPLACE SAVED QUERY q AS $$SELECT z FROM STREAM(d)$$"),
        Do("CREATE ENDPOINT IF NOT EXISTS GET '/up' AS SELECT 'up' AS status"),
        Send("a", a(0..4, 10), vec!["{\"k\":-1}", "{\"t\":\"none\"}"]),
        Send("b", texts(&["{\"x\":0}", "{\"x\":1,\"y\":\"s\"}"]), vec![]),
        Send("d", texts(&["{\"z\":0}", "{\"z\":1}"]), vec![]),
        Run,
        Commit,
        Send("a", a(4..6, 10), vec!["{\"k\":-2}"]),
        Alter("ALTER STREAM a ADD COLUMN w LONG, ALTER COLUMN k TYPE LONG", ("a", "w")),
        Send("a", texts(&["{\"k\":5000000000,\"w\":7}"]), vec![]),
        Send("b", texts(&["{\"x\":2,\"n\":1.5}"]), vec![]),
        // Repeated, it is the same definition.
        Do("ALTER SEARCH INDEX ON a DROP pad, ADD pad TEXT BOOST 2"),
        Do("DROP SEARCH INDEX IF EXISTS ON kept"),
        Do("DROP ENDPOINT IF EXISTS POST '/d'"),
        Do("DROP STREAM IF EXISTS d"),
        Do("CREATE STREAM IF NOT EXISTS d (z LONG, y STRING)"),
        Send("d", texts(&["{\"z\":100,\"y\":\"new\"}"]), vec![]),
    ];
    steps.extend((0..4).map(|part| Send("a", a(10 + 4 * part..14 + 4 * part, 1_000), vec![])));
    steps.extend([
        Commit,
        Trim,
        Restart,
        Send("a", a(30..32, 10), vec!["{\"k\":-3}"]),
        Send("b", texts(&["{\"x\":3,\"m\":true}"]), vec![]),
        Run,
        Commit,
        // All of them go on.
        Send("a", a(32..33, 10), vec![]),
        Send("b", texts(&["{\"x\":4}"]), vec![]),
        Send("d", texts(&["{\"z\":101}"]), vec![]),
    ]);
    steps
}

/// Tables, each with the rows that tell of its events, in order.
type Rows = BTreeMap<&'static str, Vec<String>>;

/// The way the rows of a table are asked for.
const SELECTS: [(&str, &str); 6] = [
    ("a", "SELECT k AS v FROM a ORDER BY _offset"),
    ("b", "SELECT x AS v FROM b ORDER BY _offset"),
    ("d", "SELECT z AS v FROM d ORDER BY _offset"),
    ("quarantine", "SELECT event AS v FROM quarantine ORDER BY _offset"),
    ("kept", "SELECT k AS v FROM kept ORDER BY k"),
    ("copies", "SELECT k AS v FROM copies ORDER BY k"),
];

/// The rows of which the client is certain after these steps.
fn told(steps: &[Step]) -> Rows {
    let mut rows = Rows::new();
    for step in steps {
        match step {
            Step::Do(text) => {
                let words: Vec<&str> = text.split(' ').collect();
                match words[..] {
                    ["CREATE", "STREAM" | "TABLE", "IF", "NOT", "EXISTS", name, ..] => {
                        rows.insert(name, Vec::new());
                    }
                    ["DROP", "STREAM" | "TABLE", "IF", "EXISTS", name] => _ = rows.remove(name),
                    _ => {}
                }
            }
            Step::Send(stream, good, bad) => {
                let value = |text: &String| -> String {
                    let event: Value = serde_json::from_str(text).unwrap();
                    ["k", "x", "z"].iter().find_map(|key| event.get(key)).unwrap().to_string()
                };
                rows.get_mut(stream).unwrap().extend(good.iter().map(value));
                let quoted = bad.iter().map(|text| Value::from(*text).to_string());
                rows.get_mut("quarantine").unwrap().extend(quoted);
            }
            Step::Run => {
                let mut read: Vec<u64> = rows["a"].iter().map(|k| k.parse().unwrap()).collect();
                read.sort_unstable();
                let read: Vec<String> = read.iter().map(ToString::to_string).collect();
                rows.insert("kept", read.clone());
                rows.insert("copies", read);
            }
            Step::Alter(..) | Step::Commit | Step::Trim | Step::Restart => {}
        }
    }
    rows
}

/// Declarations by name.
type Declared = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Disk,
    Remote,
}

#[derive(Debug)]
struct Synced(FailingStore);

#[async_trait]
impl Durability for Synced {
    async fn sync_file(&self, location: &Path) -> object_store::Result<()> {
        self.0.sync_file(location).await
    }

    async fn sync_names(&self, location: &Path) -> object_store::Result<()> {
        self.0.sync_names(location).await
    }
}

/// The machine of an engine: its disks and its store, on one power supply.
pub(crate) struct Machine {
    kind: Kind,
    pub(crate) power: Power,
    pub(crate) log: SimDisk,
    catalog: SimDisk,
    pub(crate) store: FailingStore,
    /// The directory of what views and joins keep, which is a real one.
    pub(crate) views: Option<PathBuf>,
}

impl Machine {
    pub(crate) fn new(kind: Kind) -> Machine {
        let power = Power::new();
        let store = match kind {
            Kind::Disk => FailingStore::disk_on(&power),
            Kind::Remote => FailingStore::remote_on(&power),
        };
        let (log, catalog) = (SimDisk::on(&power, "log", 1), SimDisk::on(&power, "catalog", 2));
        Machine { kind, power, log, catalog, store, views: None }
    }

    /// Its power goes off now.
    pub(crate) fn cut(&self) {
        while !self.power.is_off() {
            self.power.off_at(self.power.calls() + 1, false);
            for _ in 0..3 {
                let _ = self.log.names();
            }
        }
    }

    /// The machine with the data left, with the power on again.
    pub(crate) async fn after_power_loss(&self, seed: u64) -> Machine {
        let power = Power::new();
        let log = self.log.after_power_loss(&power, "log", seed);
        let catalog = self.catalog.after_power_loss(&power, "catalog", seed + 1);
        let store = self.store.after_power_loss(&power).await;
        Machine { kind: self.kind, power, log, catalog, store, views: self.views.clone() }
    }

    pub(crate) async fn open(&self, clock: &Arc<TestClock>) -> Result<Engine, HistoryError> {
        self.open_with(clock, Machine::settings()).await
    }

    /// Settings under which much happens in little time, and little of it in memory.
    pub(crate) fn settings() -> (HistoryConfig, StoreOptions) {
        let mut history = quick(std::path::Path::new("unused"));
        (history.log_segment_bytes, history.log_compression) =
            (8 << 10, CompressionPolicy::Always(Compression::None));
        (history.checkpoint_interval_ms, history.sql_threads) = (3, 1);
        let options = StoreOptions {
            commit_interval: Duration::from_millis(2),
            upkeep_interval: Duration::from_millis(5),
            compact_files: 2,
            checkpoint_commits: 3,
            log_retention: Duration::ZERO,
            vacuum_retention: Duration::ZERO,
            ..StoreOptions::at("memory")
        };
        (history, options)
    }

    pub(crate) async fn open_with(
        &self,
        clock: &Arc<TestClock>,
        settings: (HistoryConfig, StoreOptions),
    ) -> Result<Engine, HistoryError> {
        self.open_all(clock, EngineConfig { shards: 1, ..EngineConfig::default() }, settings).await
    }

    /// Opens the engine with these settings.
    pub(crate) async fn open_as(
        &self,
        clock: &Arc<TestClock>,
        config: EngineConfig,
    ) -> Result<Engine, HistoryError> {
        self.open_all(clock, config, Machine::settings()).await
    }

    async fn open_all(
        &self,
        clock: &Arc<TestClock>,
        config: EngineConfig,
        (history, options): (HistoryConfig, StoreOptions),
    ) -> Result<Engine, HistoryError> {
        let disk = |disk: &SimDisk| Arc::new(disk.clone()) as Arc<dyn Disk>;
        let disks = Disks { log: disk(&self.log), catalog: disk(&self.catalog), views: self.views.clone() };
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let objects: Arc<dyn ObjectStore> = match self.kind {
            Kind::Disk => {
                Arc::new(Durable::new(Arc::new(self.store.clone()), Arc::new(Synced(self.store.clone()))))
            }
            Kind::Remote => Arc::new(self.store.clone()),
        };
        let store = Store::open_at(objects, options, Arc::clone(&clock)).await?;
        Engine::open_with(config, history, (disks, store), clock).await
    }

    /// The result of an operation, or nothing if the power goes off before: then a caller may wait for ever.
    pub(crate) async fn unless_off<T, E: std::fmt::Display>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let off = async {
            while !self.power.is_off() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            result = work => match result {
                Ok(done) => Some(done),
                Err(_) if self.power.is_off() => None,
                Err(error) => panic!("{what}: {error}"),
            },
            () = off => None,
            () = tokio::time::sleep(PATIENCE) => panic!("{what}: it takes too long"),
        }
    }
}

/// An engine on a machine; none if the power is off. Opening ends by itself, whatever fails.
async fn open(client: &Client, machine: &Machine) -> Option<Engine> {
    let opened = tokio::time::timeout(PATIENCE, machine.open(&client.clock)).await;
    match opened.unwrap_or_else(|_| panic!("opening takes too long: {}", client.tell())) {
        Ok(engine) => Some(engine),
        Err(_) if machine.power.is_off() => None,
        Err(error) => {
            let causes =
                std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            panic!("it does not open: {}: {}", causes.join(": "), client.tell())
        }
    }
}

/// Continues with the client's present step; `false`: the power went off.
async fn go_on(client: &mut Client, machine: &Machine, engine: &mut Option<Engine>) -> bool {
    if let Step::Restart = client.steps[client.at] {
        if let Some(engine) = engine.take() {
            engine.shutdown(Duration::from_millis(200)).await;
        }
        // Files retained for their readers may be deleted now.
        client.clock.advance_ms(1_000);
        *engine = open(client, machine).await;
        if engine.is_none() || machine.power.is_off() {
            return false;
        }
    } else {
        let Some(engine) = engine else { return false };
        if machine.unless_off(&client.tell(), client.step(engine, machine)).await.is_none() {
            return false;
        }
    }
    client.at += 1;
    true
}

/// One client, and what it has come to.
struct Client {
    clock: Arc<TestClock>,
    steps: Vec<Step>,
    /// The step that it is at.
    at: usize,
    crashes: Vec<String>,
    /// All declarations before each step, in a run without crashes.
    declared: Arc<Vec<Declared>>,
}

impl Client {
    async fn step(&self, there: &Engine, machine: &Machine) -> Result<(), String> {
        match &self.steps[self.at] {
            Step::Do(text) => try_sql(there, text).await.map(drop).map_err(|error| error.to_string()),
            Step::Alter(text, (stream, column)) => {
                let described = try_sql(there, &format!("DESCRIBE STREAM {stream}")).await;
                let described = described.map_err(|error| error.to_string())?;
                if described.contains(&format!("\"column\":\"{column}\"")) {
                    return Ok(());
                }
                try_sql(there, text).await.map(drop).map_err(|error| error.to_string())
            }
            Step::Send("a", good, bad) if good.len() == 1 && bad.is_empty() => {
                post(there, &good[0], self.at as u64).await
            }
            Step::Send(stream, good, bad) => {
                let sent = send(there, stream, (good, bad), self.at as u64).await?;
                assert!(sent.is_repeated || sent.accepted == good.len() as u64, "{sent:?}");
                if self.steps[..self.at].iter().any(|step| matches!(step, Step::Restart)) {
                    // A request of before is still known.
                    let (first, (stream, good, bad)) = self.first_request();
                    let again = send(there, stream, (good, bad), first).await?;
                    assert!(again.is_repeated, "{again:?}");
                }
                Ok(())
            }
            Step::Run => loop {
                match try_sql(there, "RUN JOB j").await {
                    Ok(_) => return Ok(()),
                    // An open attempt of the previous run resumes by itself.
                    Err(error) if error.to_string().contains("is running") => look_again().await,
                    Err(error) => return Err(error.to_string()),
                }
            },
            Step::Commit => loop {
                let streams = try_sql(there, "SHOW STREAMS").await.map_err(|error| error.to_string())?;
                let is_in = |line: &str| {
                    let stream: Value = serde_json::from_str(line).unwrap();
                    stream["committed"] == stream["events"]
                };
                if streams.lines().all(is_in) {
                    return Ok(());
                }
                look_again().await;
            },
            Step::Trim => {
                let has_trimmed = || {
                    machine
                        .power
                        .counts()
                        .keys()
                        .any(|call| ["log: rename", "log: remove"].contains(&&**call))
                };
                // After a crash it may have been before.
                while self.crashes.is_empty() && !has_trimmed() {
                    look_again().await;
                }
                Ok(())
            }
            Step::Restart => unreachable!("it is not done with an engine"),
        }
    }

    /// The first request that was sent, with its number.
    fn first_request(&self) -> (u64, (&str, &[String], &[&str])) {
        let mut numbered = (0..).zip(&self.steps);
        let found = numbered.find_map(|(number, step)| match step {
            Step::Send(stream, good, bad) => Some((number, (*stream, &good[..], &bad[..]))),
            _ => None,
        });
        found.expect("events are sent")
    }

    /// Each event that was told of is there once, in order, and of what the client is at, all or the beginning.
    async fn check(&self, engine: &Engine, (least, most): (&Rows, &Rows)) -> Result<(), String> {
        for (table, select) in SELECTS {
            let found = match try_sql(engine, select).await {
                Ok(found) => found,
                // Its columns are found in its events.
                Err(error) if table == "b" && error.to_string().contains("no column") => String::new(),
                Err(error) if error.to_string().contains("no table") => {
                    assert!(
                        !least.contains_key(table) || !most.contains_key(table),
                        "{table} is gone: {}",
                        self.tell()
                    );
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            let found: Vec<&str> =
                found.lines().map(|line| &line["{\"v\":".len()..line.len() - "}".len()]).collect();
            let is_old = least.get(table).is_some_and(|rows| found == *rows);
            let is_new = most.get(table).is_some_and(|rows| {
                let known = least.get(table).map_or(0, Vec::len);
                found.len() >= known && found.len() <= rows.len() && found == rows[..found.len()]
            });
            assert!(is_old || is_new, "{table} holds {found:?}, told of were {least:?}: {}", self.tell());
            if select.ends_with("_offset") {
                let counted = format!("SELECT count(DISTINCT _offset) AS n FROM {table}");
                let counted = try_sql(engine, &counted).await.map_err(|error| error.to_string())?;
                assert_eq!(counted, format!("{{\"n\":{}}}\n", found.len()), "{table}: {}", self.tell());
            }
        }
        Ok(())
    }

    /// The catalog is as it was before the step that the client is at, or after it.
    async fn check_declared(&self, engine: &Engine) -> Result<(), String> {
        let (found, known) = (declared(engine).await?, &self.declared[self.at..]);
        assert!(
            known.iter().take(2).any(|known| *known == found),
            "{found:#?} is declared, not {:#?}: {}",
            known[0],
            self.tell()
        );
        Ok(())
    }

    fn tell(&self) -> String {
        let mut text = format!("step {}", self.at);
        for crash in &self.crashes {
            let _ = write!(text, ", crashed at {crash}");
        }
        text
    }
}

/// Every table's name, with the statement that declares it if it is a stream.
async fn declared(engine: &Engine) -> Result<Declared, String> {
    let mut declared = Declared::new();
    let tables = try_sql(engine, "SHOW TABLES").await.map_err(|error| error.to_string())?;
    for line in tables.lines() {
        let table: Value = serde_json::from_str(line).unwrap();
        let name = table["table_name"].as_str().unwrap_or_else(|| panic!("no name in {line}"));
        let statement = try_sql(engine, &format!("SHOW CREATE STREAM {name}")).await.unwrap_or_default();
        declared.insert(name.to_owned(), statement);
    }
    let indexes = try_sql(engine, "SHOW SEARCH INDEXES").await.map_err(|error| error.to_string())?;
    for line in indexes.lines() {
        let index: Value = serde_json::from_str(line).unwrap();
        let table = index["table"].as_str().unwrap();
        let statement =
            try_sql(engine, &format!("SHOW CREATE SEARCH INDEX ON {table}")).await.unwrap_or_default();
        declared.insert(format!("search index on {table}"), statement);
    }
    let saved = try_sql(engine, "SHOW CREATE SAVED QUERY q").await.unwrap_or_default();
    declared.insert("saved query q".to_owned(), saved);
    let endpoints = try_sql(engine, "SHOW ENDPOINTS").await.map_err(|error| error.to_string())?;
    for line in endpoints.lines() {
        let endpoint: Value = serde_json::from_str(line).unwrap();
        let name =
            format!("{} '{}'", endpoint["method"].as_str().unwrap(), endpoint["path"].as_str().unwrap());
        assert!(endpoint["failing"].is_null(), "{line}");
        let statement = try_sql(engine, &format!("SHOW CREATE ENDPOINT {name}")).await.unwrap_or_default();
        declared.insert(name, statement);
    }
    Ok(declared)
}

pub(crate) async fn look_again() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Sends an event as a numbered request of the endpoint of stream `a`.
async fn post(engine: &Engine, body: &str, sequence: u64) -> Result<(), String> {
    let EndpointRoute::Endpoint(endpoint) = engine.route("POST", "/a") else {
        panic!("there is no endpoint")
    };
    let input = EndpointInput { texts: vec![None], body: Bytes::from(body.to_owned()) };
    let numbered = Some(Numbered { producer: "client".into(), sequence, part: 0, after: 0, hash: 0 });
    let limits = EndpointLimits { body_bytes_max: 1 << 20, depth_max: 64 };
    let taken = engine.accept_event(&Principal::local(), &endpoint, &input, (numbered, &limits)).await;
    taken.map(drop).map_err(|error| error.to_string())
}

/// Sends events as a numbered request, and waits until they are acknowledged.
pub(crate) async fn send(
    engine: &Engine,
    stream: &str,
    (good, bad): (&[String], &[&str]),
    sequence: u64,
) -> Result<Appended, String> {
    let lines = good.iter().map(String::as_str).chain(bad.iter().copied());
    let text = lines.map(|line| format!("{line}\n")).collect::<String>();
    let batch = Checker::new(CheckLimits::default()).push(Bytes::from(text)).batch;
    let numbered = Some(Numbered { producer: "client".into(), sequence, part: 0, after: 0, hash: 0 });
    let options = AppendOptions { numbered, ..AppendOptions::default() };
    let name = StreamName::new(stream).unwrap();
    let appended = engine.append(&Principal::local(), &name, batch, options).await;
    let appended = appended.map_err(|error| error.to_string())?;
    if let Some(ticket) = appended.ticket {
        engine.synced(ticket).await.map_err(|error| error.to_string())?;
    }
    Ok(appended)
}

/// One run; answers in which calls the power went off.
async fn run(kind: Kind, (at, has_effect): (At, bool), declared: Arc<Vec<Declared>>) -> Vec<String> {
    let mut machine = Machine::new(kind);
    machine.power.off_at(at.clone(), has_effect);
    let (At::Call(seed) | At::Kind(_, seed)) = at;
    let mut rng = Rng::new(seed);
    let clock = Arc::new(TestClock::at(START));
    let mut client = Client { clock, steps: steps(), at: 0, crashes: Vec::new(), declared };
    loop {
        let mut engine = None;
        if live(&mut client, &machine, &mut engine).await {
            return client.crashes;
        }
        client.crashes.push(format!("{at:?}, {}", machine.power.went_off_at().unwrap()));
        if let Some(engine) = engine {
            engine.shutdown(Duration::ZERO).await;
        }
        machine = machine.after_power_loss(rng.below(1 << 30) as u64).await;
        if client.crashes.len() == 1 && rng.chance(0.5) {
            // While what is left is taken up.
            machine.power.off_at(rng.below(120) as u64, rng.chance(0.5));
        }
    }
}

/// Opens what there is and goes on to the end; `false`: the power went off.
async fn live(client: &mut Client, machine: &Machine, engine: &mut Option<Engine>) -> bool {
    *engine = open(client, machine).await;
    let Some(opened) = engine.clone() else { return false };
    let count = client.steps.len();
    if !client.crashes.is_empty() {
        let least = told(&client.steps[..client.at]);
        let most = told(&client.steps[..count.min(client.at + 1)]);
        let checked = async {
            client.check_declared(&opened).await?;
            client.check(&opened, (&least, &most)).await
        };
        if machine.unless_off(&client.tell(), checked).await.is_none() {
            return false;
        }
    }
    drop(opened);
    while client.at < count {
        if !go_on(client, machine, engine).await {
            return false;
        }
    }
    machine.unless_off(&client.tell(), end(client, engine.as_ref())).await.is_some()
}

/// All is as it is without crashes.
async fn end(client: &Client, engine: Option<&Engine>) -> Result<(), String> {
    let engine = engine.ok_or("there is no engine")?;
    let all = told(&client.steps);
    client.check_declared(engine).await?;
    client.check(engine, (&all, &all)).await?;
    engine.shutdown(Duration::ZERO).await;
    Ok(())
}

/// All declarations before each step and at the end, and the calls of a run, by their kind.
async fn undisturbed(kind: Kind) -> (Arc<Vec<Declared>>, BTreeMap<String, u64>) {
    let machine = Machine::new(kind);
    let clock = Arc::new(TestClock::at(START));
    let mut client = Client { clock, steps: steps(), at: 0, crashes: Vec::new(), declared: Arc::default() };
    let mut engine = open(&client, &machine).await;
    let mut all = Vec::new();
    while client.at < client.steps.len() {
        all.push(declared(engine.as_ref().unwrap()).await.unwrap());
        assert!(go_on(&mut client, &machine, &mut engine).await);
    }
    all.push(declared(engine.as_ref().unwrap()).await.unwrap());
    client.declared = Arc::new(all);
    machine.unless_off("the end", end(&client, engine.as_ref())).await.unwrap();
    (Arc::clone(&client.declared), machine.power.counts())
}

/// Calls that a run must make, so that a crash in each of them is tried.
const CALLS: [&str; 12] = [
    "catalog: rename",
    "catalog: sync",
    "catalog: sync names",
    "catalog: write",
    "log: create",
    "log: rename",
    "log: sync",
    "log: sync names",
    "log: write",
    "store: delete",
    "store: get",
    "store: list",
];

async fn crash_everywhere(kind: Kind) {
    let (declared, counts) = undisturbed(kind).await;
    let puts: &[&str] = match kind {
        Kind::Disk => &["store: sync file", "store: sync names", "store: name parquet", "store: name commit"],
        Kind::Remote => &["store: put parquet", "store: put commit"],
    };
    for call in CALLS.iter().chain(puts) {
        assert!(counts.contains_key(*call), "no {call} in {counts:?}");
    }
    assert!(counts.keys().any(|call| call.ends_with("checkpoint")), "{counts:?}");
    let step = std::env::var("SWIFTWATER_ENGINE_CRASH_STEP").ok().and_then(|step| step.parse().ok());
    let step: u64 = step.unwrap_or(STEP).max(1);
    let crashed = Mutex::new(BTreeMap::<String, u64>::new());
    let crash = async |at: At, has_effect: bool| {
        let crashes = tokio::spawn(run(kind, (at, has_effect), Arc::clone(&declared))).await;
        let crashes = crashes.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        for crash in &crashes {
            let (_, what) = crash.rsplit_once(", ").unwrap();
            *crashed.lock().unwrap().entry(what.to_owned()).or_default() += 1;
        }
        !crashes.is_empty()
    };
    // The number of a run's calls depends on events that coincide in time: the last calls are those that no run
    // reaches.
    let end = Mutex::new(u64::MAX);
    let mut runs = futures_util::stream::iter(0..)
        .map(async |number| {
            let call = step / 2 + number * step;
            if call >= *end.lock().unwrap() {
                return false;
            }
            if !crash(At::Call(call), number % 2 == 1).await {
                let mut end = end.lock().unwrap();
                *end = call.min(*end);
            }
            true
        })
        .buffered(AT_ONCE);
    while let Some(true) = runs.next().await {}
    drop(runs);
    // A call that a run makes once or twice would be skipped by most steps, and by chance by all.
    let kinds =
        futures_util::stream::iter((0..).zip(CALLS.iter().chain(puts))).map(async |(number, what)| {
            for before in [counts[*what] / 2, 0, 0, 0] {
                if crash(At::Kind(what.to_string(), before), number % 2 == 1).await {
                    return;
                }
            }
            panic!("no {what} in four runs");
        });
    kinds.buffer_unordered(AT_ONCE).collect::<()>().await;
    let (end, crashed) = (end.into_inner().unwrap(), crashed.into_inner().unwrap());
    let count: u64 = crashed.values().sum();
    assert!(count >= end / step && end > 200, "{count} crashes in {end} calls");
    assert!(CALLS.iter().chain(puts).all(|call| crashed.contains_key(*call)), "{crashed:?}");
    println!(
        "{kind:?}: the power went off {count} times in runs of {end} calls: {crashed:?}; a run makes {counts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn power_that_goes_off_at_any_call_of_a_machine_loses_and_doubles_nothing() {
    crash_everywhere(Kind::Disk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn power_that_goes_off_at_any_call_with_object_storage_loses_and_doubles_nothing() {
    crash_everywhere(Kind::Remote).await;
}
