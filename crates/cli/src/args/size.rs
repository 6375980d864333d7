//! The arguments of `swiftwater bench size`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{
    ReportForm,
    value::{bytes, count, duration, share},
};

/// `swiftwater bench size`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater bench size --events-per-second 100_000 --bytes 1000
  swiftwater bench size --events-per-second 1_000_000 --bytes 300 --queries 50_000 --matches 2 --keep 7d
  swiftwater bench size --events-per-second 20_000 --bytes 300 --keys 1_000_000 --events-per-request 1
  swiftwater bench size --events-per-second 50_000 --measure events.ndjson

The command prints the cost of each part: ingest over HTTP, matching, output of records, the log, the tables, the views.
Processor times come from measurements on one machine, which the output names. With --measure, the command measures them on
this machine: it starts a server and sends it the lines of a file for some seconds. The cost per byte depends on the events:
events with six short fields cost a fifth of events with eighty nested fields. So measure with your own events.

A server is one machine. A larger load needs several servers, each with some of the streams. No query reads two servers.
Exit status: 0 success, 1 the measurement failed, 2 the requested size is not possible.")]
pub(crate) struct SizeArgs {
    /// Events per second, at peak
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) events_per_second: u64,
    /// Bytes of an event, as JSON
    #[arg(long, value_name = "BYTES", value_parser = bytes, required_unless_present = "measure")]
    pub(crate) bytes: Option<u64>,
    /// Number of live queries at once
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = count)]
    pub(crate) queries: u64,
    /// Average number of queries that match an event and receive its record [default: 0.01]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) matches: Option<f64>,
    /// Bytes of an output record [default: the bytes of the event]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) record_bytes: Option<u64>,
    /// Number of keys of all views together; 0: no views
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = count)]
    pub(crate) keys: u64,
    /// Number of views that count an event
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = count)]
    pub(crate) views: u64,
    /// Retention of events; 0: events are not stored
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration)]
    pub(crate) keep: Duration,
    /// Compressed size of an event in a table's files, as a share of --bytes: about 0.08 for readings, 0.5 for random short texts
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub(crate) compressed_to: f64,
    /// Events per request [default: 256 KiB of events]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) events_per_request: Option<u64>,
    /// The events are in a topic of Kafka, which the nodes of a cluster read together
    #[arg(long, conflicts_with = "events_per_request")]
    pub(crate) kafka: bool,
    /// Share of its cores that a machine uses at peak
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub(crate) busy: f64,
    /// Number of cores of one machine
    #[arg(long, value_name = "NUMBER", default_value = "32", value_parser = count)]
    pub(crate) machine_cores: u64,
    /// Bytes per second of one machine's network, in each direction
    #[arg(long, value_name = "BYTES", default_value = "1.25GB", value_parser = bytes)]
    pub(crate) machine_network: u64,
    /// Bytes per second that one machine's disk writes
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = bytes)]
    pub(crate) machine_disk: u64,
    /// File of events, with which the command measures the cost of an event on this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bytes", "compressed_to"])]
    pub(crate) measure: Option<PathBuf>,
    /// Format of the answer
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
}
