//! `swiftwater bench size`: computes cores, machines, memory, disk and network for a load, line by line.
//!
//! Pure arithmetic over the costs of an event ([`Costs`]), which come from a table ([`Costs::of_table`]) or are measured
//! ([`super::seeds::costs`]). Rates, sizes and counts are `f64`: nothing here is exact to a unit.

mod text;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use swiftwater_engine::{EngineConfig, HistoryConfig};
use swiftwater_event::Clock;

use super::seeds::costs;
use crate::{
    args::{ReportForm, SizeArgs},
    exit::{Failure, Outcome},
    output::grouped,
    stdio::write_out,
};

/// The exit status when what is asked for cannot be.
const NOT_BEGUN: u8 = 2;

/// Whence the table's figures are. The constants below name the document of each.
const SOURCE: &str =
    "bench/RESULTS.md (Intel Xeon) and docs/reference/tuning.md (AMD EPYC), 2 cores each, release builds";

/// Nanoseconds of one core.
#[derive(Debug, Clone, Copy)]
struct Cost {
    each: f64,
    byte: f64,
}

impl Cost {
    fn of(self, bytes: f64) -> f64 {
        self.each + self.byte * bytes
    }
}

/// An event in a large body, read off the connection and checked: 0.7 to 0.8 ns a byte of swipes and articles, 0.9 to 1.4 of
/// readings, 1.1 to 1.4 of records with nested objects.
const INTAKE: Cost = Cost { each: 20.0, byte: 1.4 };
/// A message of Kafka, fetched, decompressed (LZ4) and checked: 5.9 to 6.3 µs of 1,965 bytes with one query, 2.1 µs of 129 bytes in Avro
/// (`bench/kafka.py`).
const MESSAGE: Cost = Cost { each: 1_700.0, byte: 2.1 };
/// Size of a topic as a share of the events' bytes, with LZ4, at most; and the number of copies that brokers hold of it.
const TOPIC_SHARE: f64 = 0.9;
const REPLICAS: f64 = 3.0;
/// A request, whatever its body: that of one swipe, not stored, takes 18 to 25 µs.
const REQUEST_NANOS: f64 = 25_000.0;
/// The cost of the values that a query reads of an event: 0.14 to 0.32 ns a byte.
const DECODE: Cost = Cost { each: 0.0, byte: 0.2 };
/// The additional cost of so many queries over one query: equality over 50 paths, 1 % of events match.
/// `bench/results/queries.svg`, nanoseconds an event times the cores that were busy.
const MORE_QUERIES: [(f64, f64); 7] = [
    (1.0, 0.0),
    (10.0, 93.0),
    (100.0, 750.0),
    (1_000.0, 1_030.0),
    (10_000.0, 1_235.0),
    (100_000.0, 1_542.0),
    (1_000_000.0, 5_984.0),
];
/// A record given to a query: 3.1 µs for a whole event of 1,856 bytes (`bench/results/matches.svg`, ten matches an event).
const DELIVERY: Cost = Cost { each: 1_200.0, byte: 1.0 };
/// Log, columns and commits: 5 ns a byte of readings and swipes, 9 of articles, 16 of records with eighty nested fields.
const STORE: Cost = Cost { each: 60.0, byte: 12.0 };
/// Size of the log as a share of the events' bytes, with LZ4: 0.86 of swipes, 0.18 of readings.
const LOG_SHARE: f64 = 0.9;
/// An event counted by key and written down: 250 ns where the same 43,000 keys come again, 1,300 where most are new ones.
const VIEW_NANOS: f64 = 1_300.0;

/// A server under load, with nothing in its queues: 75 to 90 MiB, 250 with a log and tables.
const BASE_BYTES: f64 = 250.0 * MIB;
/// A standing query. Measured with 99,999.
const QUERY_BYTES: f64 = 1_262.0;
/// A key of a view with a count, in memory, and on disk.
const KEY_BYTES: f64 = 80.0;
const KEY_DISK_BYTES: f64 = 180.0;

const MIB: f64 = 1_048_576.0;
const DAY_SECONDS: f64 = 86_400.0;
/// The body that events come in where nothing else is said.
const BODY_BYTES: f64 = 262_144.0;
/// Queries that an event matches where nothing else is said.
const MATCHES: f64 = 0.01;
/// Merging writes about everything once more.
const TABLE_WRITES: f64 = 2.0;

/// The load to size for.
#[derive(Debug, Clone, PartialEq)]
struct Load {
    events_per_second: f64,
    bytes: f64,
    queries: f64,
    matches: f64,
    record_bytes: f64,
    keys: f64,
    views: f64,
    keep_seconds: f64,
    compressed_to: f64,
    events_per_request: f64,
    is_of_kafka: bool,
    busy: f64,
    machine_cores: f64,
    machine_network: f64,
    machine_disk: f64,
}

/// Nanoseconds of one core that an event costs, by parts.
#[derive(Debug, Clone, PartialEq)]
struct Costs {
    intake: f64,
    queries: f64,
    deliveries: f64,
    store: f64,
    views: f64,
    source: String,
}

/// A line of the answer; what a part does not need is 0.
#[derive(Debug, Clone, Default, PartialEq)]
struct Part {
    name: &'static str,
    nanos_per_event: f64,
    cores: f64,
    memory_bytes: f64,
    disk_bytes: f64,
    network_bytes_per_second: f64,
    made_of: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
struct Sized {
    load: Load,
    source: String,
    parts: Vec<Part>,
    /// The needs of all parts together.
    total: Part,
    /// The cores, including the requested idle share.
    cores: f64,
    machines: f64,
    /// The need that determines the number of machines.
    decided_by: &'static str,
    /// The topic of a load in Kafka; none of other loads.
    topic: Option<TopicSize>,
}

/// The topic of a load, and its brokers, at least.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TopicSize {
    /// A thread of a node reads whole partitions.
    partitions: f64,
    /// Machines like those of the nodes.
    brokers: f64,
}

/// Runs the command.
pub(super) fn run(args: &SizeArgs, clock: Arc<dyn Clock>) -> Outcome {
    let mut load = load(args).map_err(|error| Failure::coded(NOT_BEGUN, error))?;
    let mut costs = Costs::of_table(&load);
    if let Some(path) = &args.measure {
        let lines = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
        let lines = lines.map_err(|error| Failure::coded(NOT_BEGUN, error))?;
        let measured = costs::measure(&lines, args.queries, load.keep_seconds > 0.0, clock)?;
        load.bytes = measured.event_bytes;
        load.record_bytes = args.record_bytes.map_or(load.bytes, |bytes| bytes as f64);
        load.events_per_request =
            args.events_per_request.map_or_else(|| usual_events(load.bytes), |events| events as f64);
        load.compressed_to = measured.compressed_to.unwrap_or(load.compressed_to);
        costs = Costs::of_table(&load).but(&measured, &load);
    }
    let sized = size(load, &costs);
    write_out(|out| match args.output {
        ReportForm::Table => out.write_all(text::table(&sized).as_bytes()),
        ReportForm::Json => writeln!(out, "{:#}", text::document(&sized)),
    })
}

/// The requested load, if it is valid.
fn load(args: &SizeArgs) -> anyhow::Result<Load> {
    let within = |flag: &str, value: u64, least: u64, most: u64| {
        ensure!((least..=most).contains(&value), "`--{flag} {value}`: allowed: {least} to {most}");
        Ok(value as f64)
    };
    let bytes = within("bytes", args.bytes.unwrap_or(1000), 2, 64 << 20)?;
    let queries = within("queries", args.queries, 0, 10_000_000)?;
    let matches = args.matches.unwrap_or_else(|| queries.min(MATCHES));
    ensure!(
        matches >= 0.0 && matches <= queries,
        "`--matches {matches}`: allowed: 0 to the number of queries, {}",
        args.queries
    );
    let keep_seconds = args.keep.as_secs_f64();
    ensure!(keep_seconds <= 36_500.0 * DAY_SECONDS, "`--keep`: allowed: 0 to 36500d");
    ensure!(
        args.keys == 0 || keep_seconds > 0.0,
        "`--keys {}` with `--keep 0`: views need stored streams",
        args.keys
    );
    let record_bytes =
        args.record_bytes.map(|bytes| within("record-bytes", bytes, 2, 64 << 20)).transpose()?;
    let per_request = args.events_per_request.map(|events| within("events-per-request", events, 1, 1 << 30));
    Ok(Load {
        events_per_second: within("events-per-second", args.events_per_second, 1, 1_000_000_000_000)?,
        bytes,
        queries,
        matches,
        record_bytes: record_bytes.unwrap_or(bytes),
        keys: within("keys", args.keys, 0, 1_000_000_000_000)?,
        views: within("views", args.views, 1, 1000)?,
        keep_seconds,
        compressed_to: args.compressed_to,
        events_per_request: per_request.transpose()?.unwrap_or_else(|| usual_events(bytes)),
        is_of_kafka: args.kafka,
        busy: args.busy,
        machine_cores: within("machine-cores", args.machine_cores, 1, 1024)?,
        machine_network: within("machine-network", args.machine_network, 1_000_000, 1 << 50)?,
        machine_disk: within("machine-disk", args.machine_disk, 1_000_000, 1 << 50)?,
    })
}

fn usual_events(bytes: f64) -> f64 {
    (BODY_BYTES / bytes).floor().max(1.0)
}

impl Costs {
    fn of_table(load: &Load) -> Costs {
        let is_stored = load.keep_seconds > 0.0;
        Costs {
            intake: match load.is_of_kafka {
                true => MESSAGE.of(load.bytes),
                false => INTAKE.of(load.bytes) + REQUEST_NANOS / load.events_per_request,
            },
            queries: if load.queries < 1.0 {
                0.0
            } else {
                DECODE.of(load.bytes) + more_queries(load.queries)
            },
            deliveries: load.matches * DELIVERY.of(load.record_bytes),
            store: if is_stored { STORE.of(load.bytes) } else { 0.0 },
            views: if load.keys > 0.0 { load.views * VIEW_NANOS } else { 0.0 },
            source: SOURCE.to_owned(),
        }
    }

    /// Replaces the figures of the table by measured ones.
    fn but(self, measured: &costs::Measured, load: &Load) -> Costs {
        Costs {
            intake: match load.is_of_kafka {
                true => self.intake,
                false => measured.intake_nanos + REQUEST_NANOS / load.events_per_request,
            },
            queries: measured.queries_nanos,
            store: measured.store_nanos.unwrap_or(self.store),
            source: format!(
                "measured here{}: {}, log and tables, with {} events; {}, deliveries and views as in {SOURCE}",
                if cfg!(debug_assertions) {
                    " with a debug build, which is many times slower than a release build"
                } else {
                    ""
                },
                if load.is_of_kafka { "queries" } else { "ingest, queries" },
                measured.events,
                if load.is_of_kafka { "messages" } else { "requests" },
            ),
            ..self
        }
    }
}

/// The additional cost of so many queries over one, interpolated between the measured points by the number's logarithm.
fn more_queries(queries: f64) -> f64 {
    let [.., before_last, last] = MORE_QUERIES;
    let pair = MORE_QUERIES.windows(2).find(|pair| queries <= pair[1].0);
    let ((from, low), (to, high)) = pair.map_or((before_last, last), |pair| (pair[0], pair[1]));
    // Beyond the last point in proportion: each query is a miss of the cache.
    if queries > to {
        return high * queries / to;
    }
    low + (high - low) * (queries / from).ln().max(0.0) / (to / from).ln()
}

fn size(load: Load, costs: &Costs) -> Sized {
    let rate = load.events_per_second;
    let is_stored = load.keep_seconds > 0.0;
    let part = |name, nanos_per_event: f64| Part {
        name,
        nanos_per_event,
        cores: rate * nanos_per_event / 1e9,
        ..Part::default()
    };
    let bytes_in = rate * load.bytes;
    let mut parts = vec![
        Part {
            network_bytes_per_second: bytes_in,
            made_of: match load.is_of_kafka {
                true => "messages of Kafka, fetched and decompressed; every event is checked".to_owned(),
                false => {
                    format!("HTTP, {:.0} events per request; every event is checked", load.events_per_request)
                }
            },
            ..part("intake", costs.intake)
        },
        Part {
            memory_bytes: load.queries * QUERY_BYTES,
            made_of: format!(
                "decode the fields of {} queries, find matching queries",
                grouped(load.queries as u64)
            ),
            ..part("decode and match", costs.queries)
        },
        Part {
            network_bytes_per_second: rate * load.matches * load.record_bytes,
            made_of: format!("{} records per event, of {:.0} bytes", load.matches, load.record_bytes),
            ..part("deliveries", costs.deliveries)
        },
    ];
    let table_bytes_per_second = bytes_in * load.compressed_to;
    let log_bytes_per_second = bytes_in * LOG_SHARE;
    if is_stored {
        let versions_seconds =
            (HistoryConfig::at("").store_versions_kept_ms as f64 / 1e3).min(load.keep_seconds);
        parts.push(Part {
            disk_bytes: table_bytes_per_second * (load.keep_seconds + versions_seconds),
            made_of: format!(
                "compress, sync, columns, commit, merge; files of {:.0} % of the JSON for {} days, merged ones a day longer",
                100.0 * load.compressed_to,
                text::plain(load.keep_seconds / DAY_SECONDS)
            ),
            ..part("log and tables", costs.store)
        });
    }
    if load.keys > 0.0 {
        parts.push(Part {
            memory_bytes: (load.keys * KEY_BYTES).min(HistoryConfig::at("").views_memory_bytes_max as f64),
            disk_bytes: load.keys * KEY_DISK_BYTES,
            made_of: format!(
                "{} per event, {} keys; beyond 1 GiB on disk",
                load.views,
                grouped(load.keys as u64)
            ),
            ..part("views", costs.views)
        });
    }
    let cores: f64 = parts.iter().map(|part| part.cores).sum();
    let cores = (cores / load.busy).ceil().max(1.0);
    let out: f64 = rate * load.matches * load.record_bytes;
    let written = if is_stored { log_bytes_per_second + TABLE_WRITES * table_bytes_per_second } else { 0.0 };
    let needs = [
        ("cores", cores / load.machine_cores),
        ("network", bytes_in.max(out) / load.machine_network),
        ("disk", written / load.machine_disk),
    ];
    let (decided_by, machines) =
        needs.into_iter().fold(("", 0.0), |most, need| if need.1 > most.1 { need } else { most });
    let machines = machines.ceil().max(1.0);
    parts.push(limits(machines, is_stored));
    let total = parts.iter().fold(Part { name: "all", ..Part::default() }, |all, part| Part {
        nanos_per_event: all.nanos_per_event + part.nanos_per_event,
        cores: all.cores + part.cores,
        memory_bytes: all.memory_bytes + part.memory_bytes,
        disk_bytes: all.disk_bytes + part.disk_bytes,
        network_bytes_per_second: all.network_bytes_per_second + part.network_bytes_per_second,
        ..all
    });
    let topic = load.is_of_kafka.then(|| {
        let received = bytes_in * TOPIC_SHARE * REPLICAS;
        let brokers = (received / load.machine_network).max(received / load.machine_disk);
        TopicSize { partitions: cores, brokers: brokers.ceil().max(REPLICAS) }
    });
    Sized { load, source: costs.source.clone(), parts, total, cores, machines, decided_by, topic }
}

/// The other memory of each machine, up to its limits.
fn limits(machines: f64, is_stored: bool) -> Part {
    let (engine, history) = (EngineConfig::default(), HistoryConfig::at(""));
    let live = engine.pending_bytes_max + engine.state_bytes_max + engine.subscribers_bytes_max;
    let kept = history.feed_bytes_max + history.store_tail_bytes_max + history.sql_memory_bytes_max;
    let kept = (kept + history.views_cache_bytes) as f64 + history.log_queue_bytes_max as f64;
    let (kept, log) = if is_stored { (kept, history.log_bytes_max as f64) } else { (0.0, 0.0) };
    Part {
        name: "limits",
        memory_bytes: machines * (BASE_BYTES + live as f64 + kept),
        disk_bytes: machines * log,
        made_of: "the server, and the limits of its queues, queries, one statement and the log".to_owned(),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{BenchCommand, Cli, Command};

    fn args(words: &[&str]) -> SizeArgs {
        let words = ["swiftwater", "bench", "size"].iter().chain(words);
        let Command::Bench(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not bench") };
        let BenchCommand::Size(args) = args.command else { panic!("not size") };
        *args
    }

    const USUAL: [&str; 4] = ["--events-per-second", "1_000_000", "--bytes", "1000"];

    fn sized(more: &[&str]) -> Sized {
        let load = load(&args(&[&USUAL[..], more].concat())).unwrap();
        let costs = Costs::of_table(&load);
        size(load, &costs)
    }

    fn refusal(words: &[&str]) -> String {
        load(&args(words)).unwrap_err().to_string()
    }

    #[test]
    fn known_values() {
        let sized = sized(&["--queries", "1000"]);
        let nanos: Vec<_> =
            sized.parts.iter().map(|part| (part.name, part.nanos_per_event.round())).collect();
        // 20 + 1.4 × 1000 + 25,000 / 262; 0.2 × 1000 + 1,030; 0.01 × (1,200 + 1,000); 60 + 12 × 1000.
        let expected = [
            ("intake", 1515.0),
            ("decode and match", 1230.0),
            ("deliveries", 22.0),
            ("log and tables", 12_060.0),
            ("limits", 0.0),
        ];
        assert_eq!(nanos, expected);
        assert_eq!((sized.cores, sized.machines, sized.decided_by), (30.0, 2.0, "disk"));
        assert_eq!(sized.total.network_bytes_per_second, 1e9 + 1e7);
        // Half of the bytes for 31 days, and the log's 16 GiB on each machine.
        let expected = 0.5e9 * 31.0 * 86_400.0 + 2.0 * f64::from(1 << 30) * 16.0;
        assert!((sized.total.disk_bytes - expected).abs() < 1.0, "{}", sized.total.disk_bytes);
    }

    #[test]
    fn a_topic_has_a_partition_for_each_core_and_brokers_for_all_copies() {
        let sized = sized(&["--kafka", "--keep", "0", "--queries", "400"]);
        // 1,700 + 2.1 × 1000.
        assert_eq!(sized.parts[0].nanos_per_event.round(), 3800.0);
        assert!(sized.parts[0].made_of.contains("Kafka"));
        // 2.7 GB/s of copies, and 1 GB/s of each disk.
        let topic = sized.topic.unwrap();
        assert_eq!((topic.partitions, topic.brokers), (sized.cores, 3.0));
        let text = text::table(&sized);
        assert!(text.contains(&format!("at least {:.0} partitions, on 3 brokers", sized.cores)), "{text}");
        assert_eq!(text::document(&sized)["topic"]["brokers"], 3);
        let many = ["--events-per-second", "100_000_000", "--bytes", "1000", "--kafka", "--keep", "0"];
        let load = load(&args(&many)).unwrap();
        assert_eq!(size(load.clone(), &Costs::of_table(&load)).topic.unwrap().brokers, 270.0);
    }

    #[test]
    fn more_of_anything_never_needs_less() {
        let cases: [(&str, &[&str]); 9] = [
            ("--queries", &["0", "1", "5", "10", "999", "1000", "50_000", "1_000_000", "10_000_000"]),
            ("--matches", &["0", "0.5", "1", "1000"]),
            ("--record-bytes", &["10", "1000", "100_000"]),
            ("--keys", &["0", "1", "1_000_000", "1_000_000_000"]),
            ("--keep", &["0", "1h", "1d", "30d", "365d"]),
            ("--compressed-to", &["0.05", "0.5", "1"]),
            ("--events-per-second", &["1", "10_000", "1_000_000", "1_000_000_000"]),
            ("--bytes", &["2", "100", "1855", "10_000"]),
            ("--views", &["1", "2", "1000"]),
        ];
        for (flag, values) in cases {
            let mut last: Option<Sized> = None;
            for value in values {
                let mut words = vec!["--events-per-second", "1_000_000", "--bytes", "1000", "--keys", "10"];
                if flag == "--keep" || flag == "--keys" {
                    words.truncate(4);
                }
                if let Some(at) = words.iter().position(|word| *word == flag) {
                    words.drain(at..at + 2);
                }
                // A flag is given once; a request has as many events whatever their size.
                words.extend(["--events-per-request", "100", flag, value]);
                let load = load(&args(&words)).unwrap();
                let costs = Costs::of_table(&load);
                let now = size(load, &costs);
                if let Some(last) = &last {
                    let (was, is) = (&last.total, &now.total);
                    assert!(was.nanos_per_event <= is.nanos_per_event, "{flag} {value}");
                    assert!(was.cores <= is.cores && last.cores <= now.cores, "{flag} {value}");
                    assert!(was.memory_bytes <= is.memory_bytes, "{flag} {value}");
                    assert!(was.disk_bytes <= is.disk_bytes, "{flag} {value}");
                    assert!(was.network_bytes_per_second <= is.network_bytes_per_second, "{flag} {value}");
                    assert!(last.machines <= now.machines, "{flag} {value}");
                }
                last = Some(now);
            }
        }
        // More room needs fewer machines.
        assert!(sized(&["--busy", "1"]).cores < sized(&["--busy", "0.5"]).cores);
        assert!(sized(&["--machine-disk", "100GB"]).machines <= sized(&[]).machines);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let with = |flag: &str, value: &str| {
            let mut words = USUAL.to_vec();
            words.retain(|word| *word != flag);
            if let Some(at) = USUAL.iter().position(|word| *word == flag) {
                words.remove(at);
            }
            words.extend([flag, value]);
            refusal(&words)
        };
        assert_eq!(with("--events-per-second", "0"), "`--events-per-second 0`: allowed: 1 to 1000000000000");
        assert_eq!(with("--bytes", "0"), "`--bytes 0`: allowed: 2 to 67108864");
        assert!(with("--bytes", "1TiB").contains("allowed: 2 to 67108864"));
        assert!(with("--queries", "10000001").contains("allowed: 0 to 10000000"));
        assert!(with("--matches", "1001").contains("0 to the number of queries, 1000"));
        assert!(with("--matches", "NaN").contains("0 to the number of queries"));
        assert!(with("--machine-cores", "0").contains("allowed: 1 to 1024"));
        assert!(with("--events-per-request", "0").contains("allowed: 1 to"));
        let keys = refusal(&[&USUAL[..], &["--keys", "5", "--keep", "0"]].concat());
        assert!(keys.contains("views need stored streams"), "{keys}");
        for words in [&["--events-per-second", "5"][..], &["--events-per-second", "x", "--bytes", "5"]] {
            let words = ["swiftwater", "bench", "size"].iter().chain(words);
            assert!(Cli::try_parse_from(words).is_err());
        }
    }

    #[test]
    fn what_is_not_kept_needs_no_disk() {
        let sized = sized(&["--keep", "0"]);
        assert_eq!(sized.total.disk_bytes, 0.0);
        assert!(sized.parts.iter().all(|part| part.name != "log and tables"));
    }

    #[test]
    fn queries_cost_what_was_measured_and_between_that() {
        for (queries, nanos) in MORE_QUERIES {
            assert!((more_queries(queries) - nanos).abs() < 1e-6, "{queries}");
        }
        let between = more_queries(30_000.0);
        assert!(between > 1_235.0 && between < 1_542.0, "{between}");
    }

    #[test]
    fn both_forms_tell_the_same() {
        let sized = sized(&["--keys", "1000"]);
        let (table, document) = (text::table(&sized), text::document(&sized));
        for part in &sized.parts {
            assert!(table.contains(part.name), "{table}");
        }
        assert!(table.contains(&format!("{} machine", document["machines"])), "{table}");
        assert_eq!(document["parts"].as_array().unwrap().len(), sized.parts.len());
        assert_eq!(document["cores"], sized.cores);
    }
}
