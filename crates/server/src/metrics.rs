//! The one table of all metrics, from which both the Prometheus page and the OTLP push are written.
//!
//! Names follow Prometheus's convention: `swiftwater_`, the thing counted, the full unit, and `_total` for counters.

#[cfg(feature = "history")]
pub(crate) mod history;
pub(crate) mod recorder;

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use swiftwater_event::StreamName;
use swiftwater_runtime::{LATENCY_BOUNDS_MICROS, Metrics, STAGES, StreamStatus};

use crate::{http_stats::HttpStats, process::ProcessNumbers, syslog::SyslogStats};

/// The label of the streams that have no numbers of their own; no stream can have this name.
const OTHER_STREAMS: &str = "(others)";

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are distributions.
    Histogram,
}

/// Numbers of one meaning, told apart by labels.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<Sample>,
}

/// One number with its labels.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) number: Number,
}

#[derive(Debug, Clone)]
pub(crate) enum Number {
    Whole(u64),
    Real(f64),
    /// Seconds: counts up to each of [`bounds_seconds`], not cumulative, one more above, and the sum.
    Seconds {
        counts: [u64; LATENCY_BOUNDS_MICROS.len() + 1],
        sum: f64,
    },
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

/// Upper bounds of all histograms, in seconds.
pub(crate) fn bounds_seconds() -> [f64; LATENCY_BOUNDS_MICROS.len()] {
    LATENCY_BOUNDS_MICROS.map(|micros| micros as f64 / 1e6)
}

/// The streams that have numbers of their own. Once a stream has them it keeps them, since a counter that moved to and
/// fro between its own series and that of the others would look like a restart.
#[derive(Debug, Default)]
pub(crate) struct ShownStreams(Mutex<BTreeSet<StreamName>>);

impl ShownStreams {
    /// Splits the streams into those that are shown, and the sum of the others if there are any. Room that is left up
    /// to `most` goes to the busiest.
    fn split(
        &self,
        mut streams: Vec<StreamStatus>,
        most: usize,
    ) -> (Vec<StreamStatus>, Option<StreamStatus>) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.name.cmp(&b.name)));
        for stream in &streams {
            if shown.len() >= most {
                break;
            }
            shown.insert(stream.name.clone());
        }
        let (mut own, rest): (Vec<_>, Vec<_>) =
            streams.into_iter().partition(|stream| shown.contains(&stream.name));
        own.sort_by(|a, b| a.name.cmp(&b.name));
        let others = rest.into_iter().reduce(|mut sum, stream| {
            sum.events += stream.events;
            sum.bytes += stream.bytes;
            sum.rejected += stream.rejected;
            sum.queries += stream.queries;
            sum.pending_bytes += stream.pending_bytes;
            sum.lag_ms = sum.lag_ms.max(stream.lag_ms);
            sum.stored_lag_ms = sum.stored_lag_ms.max(stream.stored_lag_ms);
            sum
        });
        (own, others)
    }
}

/// Builds the families; each method adds one.
#[derive(Default)]
pub(crate) struct Table(Vec<Family>);

impl Table {
    fn family(&mut self, kind: Kind, name: &'static str, help: &'static str, samples: Vec<Sample>) {
        self.0.push(Family { name, help, kind, samples });
    }

    fn counter(&mut self, name: &'static str, help: &'static str, number: impl Into<Number>) {
        self.family(Kind::Counter, name, help, vec![Sample { labels: vec![], number: number.into() }]);
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, number: impl Into<Number>) {
        self.family(Kind::Gauge, name, help, vec![Sample { labels: vec![], number: number.into() }]);
    }
}

/// Kind, name, help, and what the number is of each row.
type Numbers<'f, R> = &'f [(Kind, &'static str, &'static str, fn(&R) -> Number)];

impl Table {
    /// Families with a number of each row, told apart by the row's name.
    fn of_rows<R>(&mut self, label: &'static str, rows: &[(&str, &R)], families: Numbers<'_, R>) {
        for (kind, name, help, number) in families {
            let samples = rows
                .iter()
                .map(|(row, of)| Sample { labels: vec![(label, (*row).to_owned())], number: number(of) });
            self.family(*kind, name, help, samples.collect());
        }
    }
}

/// The rows with numbers of their own, and all others as one.
fn own_and_others<'r, R>(own: &'r [R], name: fn(&R) -> &str, others: Option<&'r R>) -> Vec<(&'r str, &'r R)> {
    own.iter().map(|row| (name(row), row)).chain(others.map(|sum| (OTHER_STREAMS, sum))).collect()
}

/// All numbers, as they stand in `engine`, `http` and `process`; `durable` adds those of what is durable, given the streams that have
/// numbers of their own.
pub(crate) fn families(
    engine: Metrics,
    (http, unfinished_bytes): (&HttpStats, u64),
    syslog: &SyslogStats,
    process: ProcessNumbers,
    (shown, streams_max): (&ShownStreams, usize),
    start_micros: i64,
    durable: impl FnOnce(&mut Table, &[StreamStatus]),
) -> Vec<Family> {
    let mut table = Table::default();
    process_families(&mut table, process, start_micros);
    query_families(&mut table, &engine);
    shard_families(&mut table, &engine);
    let (own, others) = shown.split(engine.streams, streams_max);
    stream_families(&mut table, &own, others.as_ref());
    durable(&mut table, &own);
    http_families(&mut table, http);
    let unfinished = "Bytes of unfinished input of all protocols.";
    table.gauge("swiftwater_unfinished_bytes", unfinished, unfinished_bytes);
    syslog_families(&mut table, syslog);
    table.0
}

fn process_families(table: &mut Table, process: ProcessNumbers, start_micros: i64) {
    if let Some(bytes) = process.resident_bytes {
        table.gauge("process_resident_memory_bytes", "Resident memory of the process.", bytes);
    }
    if let Some(seconds) = process.cpu_seconds {
        table.counter("process_cpu_seconds_total", "Processor time of the process.", seconds);
    }
    let start = start_micros as f64 / 1e6;
    table.gauge(
        "process_start_time_seconds",
        "Time at which the server started, in seconds since 1970.",
        start,
    );
}

fn query_families(table: &mut Table, engine: &Metrics) {
    let offset = "The engine's time minus the machine's clock; not 0 for some time after the clock jumped.";
    table.gauge("swiftwater_clock_offset_seconds", offset, engine.clock_offset_seconds);
    let faults = "Panics that the engine contained; the server's log describes each.";
    table.counter("swiftwater_faults_total", faults, swiftwater_runtime::faults());
    table.gauge("swiftwater_queries", "Running queries.", engine.queries);
    table.counter("swiftwater_queries_submitted_total", "Accepted queries.", engine.queries_submitted);
    table.counter("swiftwater_queries_refused_total", "Refused queries.", engine.queries_refused);
    table.counter("swiftwater_queries_ended_total", "Ended queries, for any reason.", engine.queries_ended);
    table.counter(
        "swiftwater_queries_failed_total",
        "Queries that ended with an error.",
        engine.queries_failed,
    );
    table.counter("swiftwater_records_out_total", "Records sent to subscribers.", engine.records_out);
    table.counter(
        "swiftwater_record_bytes_out_total",
        "Bytes of records sent to subscribers.",
        engine.bytes_out,
    );
    let dropped = engine.records_dropped;
    table.counter(
        "swiftwater_records_dropped_total",
        "Records dropped because a subscriber read too slowly.",
        dropped,
    );
    let number =
        Number::Seconds { counts: engine.read_to_match, sum: engine.read_to_match_micros as f64 / 1e6 };
    table.family(
        Kind::Histogram,
        "swiftwater_read_to_match_seconds",
        "Time of a batch from its reading to the end of its matching.",
        vec![Sample { labels: vec![], number }],
    );
    let owned =
        |owner: &str, bytes: u64| Sample { labels: vec![("owner", owner.to_owned())], number: bytes.into() };
    table.family(
        Kind::Gauge,
        "swiftwater_memory_bytes",
        "Bytes of memory: events that wait for a shard, emits that wait for subscribers, groups, rows and windows of queries, samples of newest events, the index of query conditions.",
        [
            owned("pending", engine.pending_bytes.0),
            owned("subscribers", engine.subscriber_bytes),
            owned("state", engine.state_bytes.0),
            owned("recent", engine.recent_bytes.0),
        ]
        .into_iter()
        .chain(engine.index_bytes.map(|bytes| owned("index", bytes)))
        .collect(),
    );
    table.family(
        Kind::Gauge,
        "swiftwater_memory_bytes_max",
        "Limit of these bytes, for the owners that have one.",
        vec![
            owned("pending", engine.pending_bytes.1),
            owned("state", engine.state_bytes.1),
            owned("recent", engine.recent_bytes.1),
        ],
    );
}

fn shard_families(table: &mut Table, engine: &Metrics) {
    let shards = || engine.shards.iter().enumerate();
    let label = |shard: usize| ("shard", shard.to_string());
    let batches =
        shards().map(|(at, shard)| Sample { labels: vec![label(at)], number: shard.batches.into() });
    table.family(Kind::Counter, "swiftwater_shard_batches_total", "Batches processed.", batches.collect());
    let events = shards().map(|(at, shard)| Sample { labels: vec![label(at)], number: shard.events.into() });
    table.family(Kind::Counter, "swiftwater_shard_events_total", "Events processed.", events.collect());
    let busy = shards().flat_map(|(at, shard)| {
        STAGES.iter().zip(shard.busy_nanos).map(move |(stage, nanos)| Sample {
            labels: vec![label(at), ("stage", (*stage).to_owned())],
            number: (nanos as f64 / 1e9).into(),
        })
    });
    let help = "Time in each stage of a shard's work.";
    table.family(Kind::Counter, "swiftwater_shard_busy_seconds_total", help, busy.collect());
    let up = shards()
        .map(|(at, shard)| Sample { labels: vec![label(at)], number: (shard.up_nanos as f64 / 1e9).into() });
    table.family(
        Kind::Counter,
        "swiftwater_shard_up_seconds_total",
        "Time since the shard started.",
        up.collect(),
    );
}

fn stream_families(table: &mut Table, own: &[StreamStatus], others: Option<&StreamStatus>) {
    let families: Numbers<'_, StreamStatus> = &[
        (Kind::Counter, "swiftwater_stream_events_total", "Accepted events.", |stream| stream.events.into()),
        (Kind::Counter, "swiftwater_stream_bytes_total", "Bytes of accepted events.", |stream| {
            stream.bytes.into()
        }),
        (Kind::Counter, "swiftwater_stream_rejected_total", "Rejected events.", |stream| {
            stream.rejected.into()
        }),
        (Kind::Gauge, "swiftwater_stream_queries", "Running queries over the stream.", |stream| {
            stream.queries.into()
        }),
        (
            Kind::Gauge,
            "swiftwater_stream_pending_bytes",
            "Bytes of events that wait for a shard.",
            |stream| stream.pending_bytes.into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_stream_lag_seconds",
            "Age of the oldest event that a shard has not processed, or that the table or a view has not committed.",
            |stream| (stream.lag_ms.max(stream.stored_lag_ms) as f64 / 1e3).into(),
        ),
    ];
    table.of_rows("stream", &own_and_others(own, |stream| stream.name.as_str(), others), families);
}

/// The families of HTTP connections and requests.
fn http_families(table: &mut Table, http: &HttpStats) {
    table.gauge("swiftwater_http_connections", "Open connections.", http.connections());
    let taken = http.connections_taken.load(Ordering::Relaxed);
    table.counter("swiftwater_http_connections_taken_total", "Accepted connections.", taken);
    let refused = http.connections_refused.load(Ordering::Relaxed);
    table.counter(
        "swiftwater_http_connections_refused_total",
        "Connections refused because of server.connections_max.",
        refused,
    );
    let requests = http.requests();
    let counts = requests.counts.into_iter().map(|((route, method, status), count)| Sample {
        labels: vec![
            ("route", route.to_owned()),
            ("method", method.to_owned()),
            ("status", status.to_string()),
        ],
        number: count.into(),
    });
    let help = "Answered requests by route, method and status.";
    table.family(Kind::Counter, "swiftwater_http_requests_total", help, counts.collect());
    let times = requests.times.into_iter().map(|(route, times)| Sample {
        labels: vec![("route", route.to_owned())],
        number: Number::Seconds { counts: times.counts, sum: times.sum_micros as f64 / 1e6 },
    });
    let help = "Time from the head of a request to the head of its answer.";
    table.family(Kind::Histogram, "swiftwater_http_request_seconds", help, times.collect());
}

/// The families of the syslog input.
fn syslog_families(table: &mut Table, syslog: &SyslogStats) {
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let of = |transport: &str, number: &AtomicU64| Sample {
        labels: vec![("transport", transport.to_owned())],
        number: read(number).into(),
    };
    table.family(
        Kind::Counter,
        "swiftwater_syslog_messages_total",
        "Received syslog messages.",
        vec![of("tcp", &syslog.tcp_messages), of("udp", &syslog.udp_messages)],
    );
    let malformed = "Malformed syslog messages; they are stored with the reason.";
    table.counter("swiftwater_syslog_malformed_total", malformed, read(&syslog.malformed));
    let dropped = "Lost syslog messages: no room, or not allowed as an event.";
    table.counter("swiftwater_syslog_dropped_total", dropped, read(&syslog.dropped));
    let unkept = "Syslog messages that are not stored, because nobody created the stream.";
    table.counter("swiftwater_syslog_unkept_total", unkept, read(&syslog.unkept));
    let ended = read(&syslog.connections_ended);
    let open = read(&syslog.connections_taken).saturating_sub(ended);
    table.gauge("swiftwater_syslog_connections", "Open syslog connections.", open);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str, events: u64) -> StreamStatus {
        StreamStatus {
            is_stored: false,
            name: StreamName::new(name).unwrap(),
            events,
            bytes: events * 10,
            rejected: 1,
            position: events,
            newest_arrival: None,
            events_per_second: 0.0,
            bytes_per_second: 0.0,
            queries: 0,
            pending_bytes: 0,
            lag_ms: events,
            stored_lag_ms: 0,
            sample: None,
        }
    }

    #[test]
    fn the_busiest_streams_are_shown_and_stay_shown() {
        let shown = ShownStreams::default();
        let names = |streams: &[StreamStatus]| {
            streams.iter().map(|stream| stream.name.to_string()).collect::<Vec<_>>()
        };
        let (own, others) = shown.split(vec![stream("a", 1), stream("b", 3), stream("c", 2)], 2);
        assert_eq!(names(&own), ["b", "c"]);
        assert_eq!(others.unwrap().events, 1);
        let (own, others) =
            shown.split(vec![stream("a", 100), stream("b", 3), stream("c", 2), stream("d", 5)], 2);
        assert_eq!(names(&own), ["b", "c"]);
        let others = others.unwrap();
        assert_eq!((others.events, others.bytes, others.rejected, others.lag_ms), (105, 1050, 2, 100));
    }
}
