//! `swiftwater bench seeds` and `swiftwater bench validate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    ClientArgs, ReportForm,
    value::{count, rate, share},
};

/// `swiftwater bench seeds`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater bench seeds
  swiftwater bench seeds --only bullet-1-latency --only telecom
  swiftwater bench seeds --output html > seeds.html
  swiftwater bench seeds --full --data /big/disk --output json > full.json
  swiftwater bench seeds --from full.json --output markdown > SEEDS.md

Starts servers of its own, each a process of this binary with a directory that goes with it, or uses a running one. A scenario
whose answers are not complete and right has failed, whatever its speed. A ratio says how many times better ours is: more of a
rate, less of a time. Where a rate that was asked for was not reached, it says so and tells both.
Exit status: 0 all passed, 1 a scenario failed, 2 it could not be begun, 130 ended by Ctrl-C.")]
pub(crate) struct SeedsArgs {
    /// Runs only this scenario, or those whose names begin so; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Runs the published sizes; says first what that needs; what the disk cannot hold is done in the short form
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) full: bool,
    /// Runs the least that shows whether everything works
    #[arg(long)]
    pub(crate) smoke: bool,
    /// A running server; scenarios that need settings of their own fail [default: servers of its own]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Where data directories are made [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// How the report is written
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = SeedsForm::Table)]
    pub(crate) output: SeedsForm,
    /// Runs nothing, and writes a report again that was written with `--output json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "full", "smoke", "server", "data"])]
    pub(crate) from: Option<PathBuf>,
    /// Prints the scenarios there are
    #[arg(long)]
    pub(crate) list: bool,
    /// Tells nothing on standard error but what is wrong
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How the report of published experiments is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeedsForm {
    /// Aligned columns
    Table,
    /// One document, with the points of all curves
    Json,
    /// A table in Markdown
    Markdown,
    /// A page with curves that needs nothing else
    Html,
}

/// `swiftwater bench validate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater bench validate --queries 1000 --events 1_000_000
  swiftwater bench validate --server http://other:8080 --queries 50000 --rate 20_000 --events 200_000

Each query asks for one value of one field; the events have the fields of a published load test, 92 in 1.8 KB, and one in a
hundred has the value of one query. The stream should have no declared columns that refuse them, and nobody else's events.
Exit status: 0 all answers are right, 1 one is not, 2 it could not be begun, 130 ended by Ctrl-C.")]
pub(crate) struct ValidateArgs {
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// How many queries stand at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub(crate) queries: usize,
    /// How many events are sent
    #[arg(long, short = 'n', value_name = "NUMBER", default_value = "100000", value_parser = count)]
    pub(crate) events: u64,
    /// Sends at most so many events a second
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The share of events that match a query
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = share)]
    pub(crate) match_share: f64,
    /// The stream that events are sent to
    #[arg(long, value_name = "NAME", default_value = "validate")]
    pub(crate) stream: String,
    /// What chance follows from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the report is written
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
    /// Shows no progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
