//! What makes events and sends load: `swiftwater generate`, `swiftwater bench`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use swiftwater_generate::Fault;

use super::{
    seeds::{SeedsArgs, ValidateArgs},
    size::SizeArgs,
    value::{count, duration, fault, interval, rate, time_ms},
};

/// Whose events are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Records of probes in a telephone network: 62 dimensions and 20 measures in nested objects; 2 KB each
    Telecom,
    /// Swipes of a matching app: swiper, swipee, direction, comment; 330 bytes each
    Swipes,
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
  swiftwater generate swipes --posted --events 500_000 --output bodies.ndjson
  swiftwater generate telecom --now --events 1000000 --rate 5000 | swiftwater ingest probes
  swiftwater generate telecom --flows --variant corrupt,null=0.05 --events 10000 | swiftwater ingest probes --allow-rejected

Events are JSON objects, one a line. The same seed and options give the same bytes, on every machine.")]
pub(crate) struct GenerateArgs {
    /// Whose events
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// How many
    #[arg(long, short = 'n', value_name = "NUMBER", default_value = "3000", value_parser = count)]
    pub(crate) events: u64,
    /// Writes at most so many events a second
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Writes to this file rather than to standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What the events are.
    #[command(flatten)]
    pub(crate) made: MadeArgs,
    /// Shows no progress bar, and does not say how many events have which fault
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What generated events are.
#[derive(Debug, Args)]
pub(crate) struct MadeArgs {
    /// What the events are made from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Does this to a share of the events; several stand between commas [default share: 0.01 for corrupt, 0.1 for others]
    ///
    /// missing: an object within is left out. null: a value is null. number-as-text: a number is a text.
    /// unknown-field: a field that nobody knows. unicode-escape: a character as \u0000. duplicate-key: a field
    /// comes twice, the second time right. corrupt: the line is no JSON.
    #[arg(long = "variant", value_name = "FAULT[=SHARE]", value_delimiter = ',', value_parser = fault)]
    pub(crate) variants: Vec<(Fault, f64)>,
    /// telecom, swipes: the exponent of Zipf's law by which some values come more often than others; 0: all alike
    /// [default: 1 for telecom, 0 for swipes]
    #[arg(long, value_name = "EXPONENT")]
    pub(crate) skew: Option<f64>,
    /// telecom: instead of `svc` and `meas`, a list `flows` of one to eight objects with both
    #[arg(long)]
    pub(crate) flows: bool,
    /// telecom: when the first record ends, as RFC 3339 [default: 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = time_ms, conflicts_with = "now")]
    pub(crate) start: Option<i64>,
    /// telecom: the first record ends now
    #[arg(long)]
    pub(crate) now: bool,
    /// telecom: how many records end in a second of their own time [default: --rate, else 100000]
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) event_rate: Option<f64>,
    /// telecom: how many parts of messages, 290 bytes each, a record has that nobody asks for [default: 2]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) noise: Option<u32>,
    /// swipes: as the body of a POST has them, with numbers as texts and without the direction
    #[arg(long)]
    pub(crate) posted: bool,
    /// swipes: how many users swipe [default: 50000]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) swipers: Option<u64>,
    /// swipes: how many users are swiped [default: 50000]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) swipees: Option<u64>,
}

/// `swiftwater bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What `swiftwater bench` does.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Sends HTTP requests over many connections, as fast as they are answered or at a steady rate
    Load(Box<LoadArgs>),
    /// Runs published experiments of four systems again, and prints their figures and ours side by side
    Seeds(SeedsArgs),
    /// Says how many cores and machines, and how much memory, disk and network, a load takes
    Size(Box<SizeArgs>),
    /// Asks many queries at once whose answers are known, sends the events, and holds what comes against what has to
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

A request is `[WEIGHT] METHOD PATH [BODY]`; of several, each has the share of its weight. In the path and the body, `{1..50000}`
is a number of these, `{left|right}` one of these words, `{n}` the request's number. A body is a text, `@FILE` for the lines
of a file by turns, or `generate:WORKLOAD` for events as `swiftwater generate` makes them (swipes as they are posted).

Without --rate each connection sends its next request when the last is answered (closed loop). With --rate requests are due at
even distances, whatever becomes of them, and a latency counts from when the request was due (open loop).
A request whose answer has status 400 or above (but for --expect), or that has none, has failed. KB are 1024 bytes, heads included.
Exit status: 0 all went well, 1 a request failed or was not sent in time, 2 it could not be begun, 130 ended by Ctrl-C.")]
pub(crate) struct LoadArgs {
    /// What is sent [default: GET of the target's path, or POST if there is a body]
    #[arg(value_name = "REQUEST")]
    pub(crate) requests: Vec<String>,
    /// The server, with a path if no request is given [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", env = "SWIFTWATER_SERVER")]
    pub(crate) target: Option<String>,
    /// Requests that are due a second, of all kinds together
    #[arg(long, value_name = "REQUESTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Connections that are kept open
    #[arg(long, short, value_name = "NUMBER", default_value_t = 50)]
    pub(crate) connections: usize,
    /// Threads that share the connections [default: half as many as there are cores]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Ends after so many requests, those of the warm-up included
    #[arg(long = "requests", short = 'n', value_name = "NUMBER", value_parser = count)]
    pub(crate) requests_max: Option<u64>,
    /// Ends after so long [default: 10s, unless a number of requests is given]
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Does not count what is due in this time at the beginning
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) warm_up: Duration,
    /// Sends a request that failed up to so many times again before it counts as failed
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Statuses of 400 and above that are no failures; several stand between commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(400..=599))]
    pub(crate) expect: Vec<u16>,
    /// The longest that an attempt may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// A further field of every request's head
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The body of requests that have none of their own and may have one
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// The same, the lines of a file by turns
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// Numbers requests by `Swiftwater-Producer` and `Swiftwater-Sequence`, so that a server that stores them does so once
    #[arg(long, value_name = "NAME")]
    pub(crate) producer: Option<String>,
    /// What chance follows from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Tells every so often how it goes, on standard error [default: 1s on a terminal]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Writes a line of CSV for every request to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// How the report is written
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
    /// Tells nothing on standard error but what is wrong
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportForm {
    /// Aligned columns
    Table,
    /// One document
    Json,
}
