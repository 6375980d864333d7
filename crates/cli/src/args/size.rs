//! `swiftwater bench size`.

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

Says line by line what each part costs: taking events in over HTTP, finding the queries that they match, giving records out,
the log and the tables, views. Processor time comes from a table that was measured on one machine, which is named; with
--measure it is measured here, with a server of its own that gets the lines of a file for some seconds. Cost goes by the events:
readings with six short fields cost a fifth of what records with eighty nested ones do, a byte. So measure with your own.

A server is one machine: what needs more is several servers with a part of the streams each. No query reads two of them.
Exit status: 0 done, 1 it could not be measured, 2 what was asked for cannot be.")]
pub(crate) struct SizeArgs {
    /// Events that come in a second, at the busiest
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) events_per_second: u64,
    /// Bytes of an event, as JSON
    #[arg(long, value_name = "BYTES", value_parser = bytes, required_unless_present = "measure")]
    pub(crate) bytes: Option<u64>,
    /// Live queries that stand at once
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = count)]
    pub(crate) queries: u64,
    /// Of these, how many match an event on average; each is given the record [default: 0.01]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) matches: Option<f64>,
    /// Bytes of a record that is given out [default: those of the event]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) record_bytes: Option<u64>,
    /// Keys of all views together; 0: there are no views
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = count)]
    pub(crate) keys: u64,
    /// Views that an event counts in
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = count)]
    pub(crate) views: u64,
    /// How long events are kept; 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration)]
    pub(crate) keep: Duration,
    /// What is left of an event's bytes in a table's files: 0.08 of readings, 0.5 of short texts made by chance
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub(crate) compressed_to: f64,
    /// Events that come with a request [default: as many as make 256 KiB]
    #[arg(long, value_name = "NUMBER", value_parser = count)]
    pub(crate) events_per_request: Option<u64>,
    /// The share of its cores that a machine is to use at the busiest
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub(crate) busy: f64,
    /// Cores of one machine
    #[arg(long, value_name = "NUMBER", default_value = "32", value_parser = count)]
    pub(crate) machine_cores: u64,
    /// Bytes a second that the network of one machine carries, in each direction
    #[arg(long, value_name = "BYTES", default_value = "1.25GB", value_parser = bytes)]
    pub(crate) machine_network: u64,
    /// Bytes a second that the disk of one machine writes
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = bytes)]
    pub(crate) machine_disk: u64,
    /// Measures here what an event costs, with the lines of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bytes", "compressed_to"])]
    pub(crate) measure: Option<PathBuf>,
    /// How the answer is written
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
}
