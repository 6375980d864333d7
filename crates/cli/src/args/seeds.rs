//! The arguments of `swiftwater bench seeds` and `swiftwater bench validate`.

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

The command starts its own servers, each with a temporary directory, or uses a running server. A scenario passes only if its
answers are complete and correct, whatever its speed. A ratio above 1 means that Swiftwater is better: a higher rate or a
shorter time. If a requested rate was not reached, the report shows the requested and the reached rate.
Exit status: 0 all scenarios passed, 1 a scenario failed, 2 the command could not start, 130 ended by Ctrl-C.")]
pub(crate) struct SeedsArgs {
    /// Scenario to run, or a prefix of scenarios' names; may be repeated [default: all]
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Runs the published sizes, and first prints their needs; a scenario that exceeds the disk runs in its short form
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) full: bool,
    /// Runs the smallest sizes, as a check that every scenario works
    #[arg(long)]
    pub(crate) smoke: bool,
    /// URL of a running server; scenarios that need their own settings fail there [default: the command starts servers]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Directory of the servers' data directories [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = SeedsForm::Table)]
    pub(crate) output: SeedsForm,
    /// Runs nothing, and formats this report of an earlier `--output json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "full", "smoke", "server", "data"])]
    pub(crate) from: Option<PathBuf>,
    /// Prints the names of all scenarios
    #[arg(long)]
    pub(crate) list: bool,
    /// Prints only errors on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Format of the report of published experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeedsForm {
    /// Aligned columns
    Table,
    /// One document, with the points of all curves
    Json,
    /// A table in Markdown
    Markdown,
    /// A self-contained page with curves
    Html,
}

/// `swiftwater bench validate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater bench validate --queries 1000 --events 1_000_000
  swiftwater bench validate --server http://other:8080 --queries 50000 --rate 20_000 --events 200_000

Each query filters one value of one field. The events have the 92 fields (1.8 KB) of a published load test, and one event in a
hundred matches one query. Use a stream without declared columns and without other senders.
Exit status: 0 all answers are correct, 1 an answer is wrong, 2 the command could not start, 130 ended by Ctrl-C.")]
pub(crate) struct ValidateArgs {
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Number of queries that run at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub(crate) queries: usize,
    /// Number of events to send
    #[arg(long, short = 'n', value_name = "NUMBER", default_value = "100000", value_parser = count)]
    pub(crate) events: u64,
    /// Maximum number of events per second [default: no limit]
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Share of events that match a query
    #[arg(long, value_name = "SHARE", default_value = "0.01", value_parser = share)]
    pub(crate) match_share: f64,
    /// Stream of the events
    #[arg(long, value_name = "NAME", default_value = "validate")]
    pub(crate) stream: String,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Format of the report
    #[arg(long, short, value_enum, value_name = "FORM", default_value_t = ReportForm::Table)]
    pub(crate) output: ReportForm,
    /// Hides the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
