//! Flags of `swiftwater generate` and `swiftwater bench`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use swiftwater_generate::Fault;

use super::{
    seeds::{SeedsArgs, ValidateArgs},
    size::SizeArgs,
    value::{count, duration, fault, interval, rate, time_ms},
};

/// A published workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Records of probes in a telephone network: 62 dimensions and 20 measures in nested objects, 2 KB each
    Telecom,
    /// Swipes of a matching app: swiper, swipee, direction, comment; 330 bytes each
    Swipes,
    /// Log lines of services: ts, level, service, host, trace_id, span_id, message, status, duration_ms, sometimes stack;
    /// 350 bytes each
    Logs,
    /// Readings of devices: house_id, metro_area, state, device_id, power_reading, is_peak; 115 bytes each
    SmartHome,
    /// Articles of an encyclopaedia: sha1, title, revision_ts, contributor_username, contributor_id, comment, model,
    /// format, text, length; 3.5 KB each
    Articles,
}

/// `swiftwater generate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater generate smart-home --events 100_000_000 | swiftwater ingest smart_home
  swiftwater generate articles --events 50000 --seed 7 --output articles.ndjson
  swiftwater generate logs --events 1_000_000 --output logs.ndjson
  swiftwater generate swipes --posted --events 500_000 --output bodies.ndjson
  swiftwater generate telecom --now --events 1000000 --rate 5000 | swiftwater ingest probes
  swiftwater generate telecom --flows --variant corrupt,null=0.05 --events 10000 | swiftwater ingest probes --allow-rejected

Events are JSON objects, one per line. The same seed and options generate the same bytes on every machine.")]
pub(crate) struct GenerateArgs {
    /// The workload
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// Number of events
    #[arg(long, short = 'n', value_name = "NUMBER", default_value = "3000", value_parser = count)]
    pub(crate) events: u64,
    /// Maximum number of events per second [default: no limit]
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Output file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The events.
    #[command(flatten)]
    pub(crate) made: MadeArgs,
    /// Hides the progress bar and the counts of faults
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Options of generated events.
#[derive(Debug, Args)]
pub(crate) struct MadeArgs {
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Faults in a share of the events, separated by commas [default share: 0.01 for corrupt, 0.1 for others]
    ///
    /// missing: a nested object is missing. null: a value is null. number-as-text: a number is a string.
    /// unknown-field: an additional field. unicode-escape: a character is escaped as \u0000. duplicate-key: a field
    /// occurs twice, and the second value is correct. corrupt: the line is not JSON.
    #[arg(long = "variant", value_name = "FAULT[=SHARE]", value_delimiter = ',', value_parser = fault)]
    pub(crate) variants: Vec<(Fault, f64)>,
    /// telecom, swipes: exponent of the Zipf distribution of some values; 0: uniform [default: 1 for telecom, 0 for
    /// swipes]
    #[arg(long, value_name = "EXPONENT")]
    pub(crate) skew: Option<f64>,
    /// telecom: replaces `svc` and `meas` by a list `flows` of one to eight objects with both
    #[arg(long)]
    pub(crate) flows: bool,
    /// telecom, logs: time of the first event (of a record, its end), in RFC 3339 [default: 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = time_ms, conflicts_with = "now")]
    pub(crate) start: Option<i64>,
    /// telecom, logs: sets the time of the first event to now
    #[arg(long)]
    pub(crate) now: bool,
    /// telecom, logs: number of events per second of event time [default: --rate, else 100000 for telecom, 10000 for logs]
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) event_rate: Option<f64>,
    /// telecom: number of further parts of messages per record, 290 bytes each, which no query reads [default: 2]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) noise: Option<u32>,
    /// swipes: writes them as bodies of a POST, with numbers as strings and without the direction
    #[arg(long)]
    pub(crate) posted: bool,
    /// swipes: number of users who swipe [default: 50000]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) swipers: Option<u64>,
    /// swipes: number of users who are swiped [default: 50000]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) swipees: Option<u64>,
}

/// `swiftwater bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// The commands of `swiftwater bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Sends HTTP requests over many connections, in a closed loop or at a fixed rate
    Load(Box<LoadArgs>),
    /// Repeats published experiments of four systems, and prints their figures beside the measured ones
    Seeds(SeedsArgs),
    /// Computes the cores, machines, memory, disk and network that a load needs
    Size(Box<SizeArgs>),
    /// Runs many queries with known answers at once, sends the events, and compares the results with the answers
    Validate(ValidateArgs),
}

/// `swiftwater bench load`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater bench load --connections 200 --requests 500_000 --retries 5 'POST /swipe/{left|right}/ generate:swipes'
  swiftwater bench load --connections 200 --requests 144_000 '1 POST /swipe/{left|right}/ generate:swipes' \\
                        '4 GET /matches/{1..50000}/' '4 GET /stats/{1..50000}/'
  swiftwater bench load --rate 5000 --duration 60s --csv requests.csv 'GET /stats/{1..50000}'
  swiftwater bench load --body-file events.ndjson --target http://127.0.0.1:8080/v1/streams/clicks/events

A request is `[WEIGHT] METHOD PATH [BODY]`. The weight is its share among several requests. In the path and the body,
`{1..50000}` is a number of this range, `{left|right}` one of these words, `{n}` the number of the request. A body is a text,
`@FILE` for the lines of a file in turn, or `generate:WORKLOAD` for events of `swiftwater generate` (swipes as with --posted).

Without --rate, each connection sends its next request when the previous one is answered (closed loop). With --rate, requests
are due at even intervals, and a latency counts from the time at which the request was due (open loop).
A request fails if it has no answer, or if its status is 400 or above and not in --expect. A KB is 1024 bytes, heads included.
Exit status: 0 success, 1 a request failed or was not sent in time, 2 the command could not start, 130 ended by Ctrl-C.")]
pub(crate) struct LoadArgs {
    /// Requests [default: GET of the target's path, or POST if there is a body]
    #[arg(value_name = "REQUEST")]
    pub(crate) requests: Vec<String>,
    /// URL of the server, with a path if there is no REQUEST [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", env = "SWIFTWATER_SERVER")]
    pub(crate) target: Option<String>,
    /// Requests per second, of all kinds together [default: a closed loop]
    #[arg(long, value_name = "REQUESTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Number of open connections
    #[arg(long, short, value_name = "NUMBER", default_value_t = 50)]
    pub(crate) connections: usize,
    /// Number of threads that share the connections [default: half the number of cores]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Number of requests after which the run ends, those of the warm-up included [default: no limit]
    #[arg(long = "requests", short = 'n', value_name = "NUMBER", value_parser = count)]
    pub(crate) requests_max: Option<u64>,
    /// Time after which the run ends [default: 10s, or no limit with --requests]
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Time at the beginning whose requests are not counted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) warm_up: Duration,
    /// Maximum number of retries of a request before it counts as failed
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Statuses of 400 and above that are not failures, separated by commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(400..=599))]
    pub(crate) expect: Vec<u16>,
    /// Maximum duration of an attempt
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Further header field of every request
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Body of the requests that have no body of their own and may have one
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// File whose lines are these bodies in turn
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// Producer name: requests are numbered with `Swiftwater-Producer` and `Swiftwater-Sequence`, so that the server stores each once
    #[arg(long, value_name = "NAME")]
    pub(crate) producer: Option<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time between progress reports on standard error [default: 1s on a terminal, else none]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// File for one line of CSV per request [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
    /// Prints only errors on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// Aligned columns
    Table,
    /// One document
    Json,
}
