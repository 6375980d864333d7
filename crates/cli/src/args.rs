//! What can be said on the command line. Each command's examples stand in its help.

pub(crate) mod hints;
mod load;
mod seeds;
mod size;
mod value;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::load::{
    BenchArgs, BenchCommand, GenerateArgs, LoadArgs, MadeArgs, ReportForm, Workload,
};
#[cfg(feature = "history")]
pub(crate) use self::seeds::SeedsForm;
pub(crate) use self::seeds::{SeedsArgs, ValidateArgs};
pub(crate) use self::size::SizeArgs;
use self::value::{batch_bytes, duration, interval, producer, rate, share};
use crate::{demo::Speed, settings::SettingFlags};

/// Live queries over event streams: ask about events that have not arrived yet.
#[derive(Debug, Parser)]
#[command(name = "swiftwater", version, propagate_version = true, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  swiftwater demo                  a server with two live streams, and queries to try on them
  cat events.ndjson | swiftwater query \"SELECT kind, COUNT(*) AS n FROM STREAM() GROUP BY kind\"
  swiftwater serve                 a server of your own, on http://127.0.0.1:8080
  swiftwater ingest logs app.ndjson
  swiftwater query \"SELECT * FROM STREAM(logs, MAX, TIME) LIMIT 10\"";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a server that takes events in and answers queries
    Serve(ServeArgs),
    /// Runs a server with two live streams to try queries on
    Demo(DemoArgs),
    /// Sends events from files or standard input to a server
    Ingest(IngestArgs),
    /// Asks a query of a server's live streams, or of a file or standard input
    Query(QueryArgs),
    /// Goes on with the answer of a query that stands at a server
    Attach(AttachArgs),
    /// Ends queries at a server
    Kill(KillArgs),
    /// Runs SQL over what a server has stored, or offers a prompt for it
    Sql(SqlArgs),
    /// Fetches what a server keeps into a directory, or checks such a directory
    Backup(BackupArgs),
    /// Makes a data directory of a backup
    Restore(RestoreArgs),
    /// Shows a server's streams, queries and shards at work
    Top(TopArgs),
    /// Writes events of a published workload, made from a seed
    Generate(GenerateArgs),
    /// Sends load to a server and tells how long answers take
    Bench(BenchArgs),
    /// Prints a script that completes commands and flags in a shell
    #[command(after_help = "\
Examples:
  swiftwater completions bash > ~/.local/share/bash-completion/completions/swiftwater
  swiftwater completions zsh > ~/.zfunc/_swiftwater
  swiftwater completions fish > ~/.config/fish/completions/swiftwater.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What a server is told.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The address and port to listen on [default: 127.0.0.1:8080]; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The directory that stored streams and tables are kept in [default: nothing is kept]
    #[arg(long, value_name = "DIR", aliases = ["datadir", "data-dir"])]
    pub(crate) data: Option<String>,
    /// The settings file [default: swiftwater.toml, if it is there]
    #[arg(long, value_name = "FILE", env = "SWIFTWATER_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The stream that `STREAM()` means
    #[arg(long, value_name = "NAME")]
    pub(crate) default_stream: Option<String>,
    /// What is logged, on standard error: a level, or directives as `info,swiftwater_engine=debug` [default: info, and warn for the library that reads Delta logs]
    #[arg(long, value_name = "FILTER", env = "SWIFTWATER_LOG")]
    pub(crate) log: Option<String>,
    /// How it is logged: `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// All others.
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// `swiftwater serve`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater serve
  swiftwater serve --data ~/swiftwater
  swiftwater serve --listen 127.0.0.1:0 --default-stream clicks
  swiftwater serve --engine.shards 4 --engine.pending-bytes-max 1GiB
  swiftwater serve --syslog.tcp-listen 127.0.0.1:6514 --syslog.udp-listen 127.0.0.1:5514
  swiftwater serve --print-config > swiftwater.toml

Every setting is also a flag (see --help), an environment variable (SWIFTWATER_ENGINE__SHARDS=4) and a line of the
settings file; flags win over the environment, the environment over the file.
The first line on standard output is `listening on http://ADDRESS:PORT`, once the server is ready.
SIGTERM or Ctrl-C gives every running query its final result and stops; a second one stops at once.")]
pub(crate) struct ServeArgs {
    /// What the server is told.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Prints the settings that hold and where each was found, and stops
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// `swiftwater demo`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater demo
  swiftwater demo --listen 127.0.0.1:0 --speed 600
  swiftwater demo --no-host --sample 0.1

The streams are `flights` (New York's of 2013, replayed; also what STREAM() means) and `host` (this machine).")]
pub(crate) struct DemoArgs {
    /// What the server is told.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How many times faster than in 2013 the flights leave, or `max`
    #[arg(long, default_value_t = Speed::DEFAULT)]
    pub(crate) speed: Speed,
    /// Sends on only this share of the flights
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) sample: Option<f64>,
    /// Leaves out the stream of this machine
    #[arg(long)]
    pub(crate) no_host: bool,
    /// Leaves out the stream of flights
    #[arg(long)]
    pub(crate) no_flights: bool,
}

/// Which server to talk to.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The server [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", env = "SWIFTWATER_SERVER")]
    pub(crate) server: Option<String>,
}

impl ClientArgs {
    /// The server's address.
    pub(crate) fn url(&self) -> &str {
        self.server.as_deref().filter(|url| !url.is_empty()).unwrap_or("http://127.0.0.1:8080")
    }
}

/// `swiftwater ingest`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater ingest clicks clicks-1.ndjson clicks-2.ndjson.gz
  journalctl -o json -f | swiftwater ingest journal
  swiftwater ingest app --follow /var/log/app.ndjson
  swiftwater ingest clicks big.ndjson.zst --rate 50000 --sample 0.1
  swiftwater ingest trades 2025.csv.gz part-0.parquet

Events are JSON objects, one a line or in an array; lines of CSV, whose first line names the fields; or rows of Parquet.
Files that gzip or zstd packed are recognised by their content.
A server that has no room is waited for; then the sending goes on behind what was taken, each event once.
Requests to a stored stream are numbered, so with --retry a server that fails and comes back has each event once.
A run that failed goes on where it was when it is run again with the --producer that its error names; without --producer,
a second run sends all events again.
Exit status: 0 all events were accepted, 1 some were rejected, 2 the sending failed.")]
pub(crate) struct IngestArgs {
    /// The stream
    pub(crate) stream: String,
    /// Files of events; `-` is standard input, as is no file at all
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// What the files hold [default: what their names end in says, `.csv` or `.parquet`; else JSON]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<InputForm>,
    /// Goes on with what is appended to the files, through rotation and truncation, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// With --follow: begins at the files' ends
    #[arg(long, requires = "follow")]
    pub(crate) from_end: bool,
    /// The server keeps only this share of the events, and tells those who ask about them
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) sample: Option<f64>,
    /// Sends at most so many events a second
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The most bytes that are read and handed on at once
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = batch_bytes)]
    pub(crate) batch_bytes: usize,
    /// Waits this long for a server that cannot be reached, or that fails on the way [default: not at all; 30s without a value], or that takes no event because it has no room (429, 503) [default: 10m]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "30s", value_parser = duration)]
    pub(crate) retry: Option<Duration>,
    /// Names the run: a stored stream stores each file of a name once, however often it is sent. A file is known by its path, and refused if what was sent before has changed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["follow", "rate"], value_parser = producer)]
    pub(crate) producer: Option<String>,
    /// Exits with 0 though events were rejected
    #[arg(long)]
    pub(crate) allow_rejected: bool,
    /// Shows no progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What a file of events holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    /// Objects of JSON, one a line or in an array
    Json,
    /// CSV, whose first line names the fields
    Csv,
    /// Rows of Parquet
    Parquet,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Aligned columns; on a terminal each window replaces the one before it
    Table,
    /// A record a line, and what is known about the answer on standard error at the end
    Ndjson,
    /// An emit a line: its records, and what is known about them
    Emits,
    /// One document, complete at the end
    Json,
    /// A header and a record a line
    Csv,
}

/// How an answer to SQL is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SqlForm {
    /// Aligned columns
    Table,
    /// A JSON object a line
    Ndjson,
    /// One JSON array
    Json,
    /// A header and a line a row
    Csv,
    /// An Arrow IPC stream
    Arrow,
}

/// `swiftwater sql`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater sql                                 a prompt, with completion and history
  swiftwater sql \"SELECT state, count(*) FROM smartHomeData GROUP BY state\"
  swiftwater sql --file nightly.sql --spark
  swiftwater sql -p Seattle \"SELECT count(*) AS n FROM smartHomeData WHERE metro_area = $1\" --output csv

Several statements are set apart by `;`; the last one answers. Ctrl-C ends what runs.
Exit status: 0 done, 1 it could not be done, 2 a statement is wrong or failed, 130 ended by Ctrl-C.")]
pub(crate) struct SqlArgs {
    /// The statements; a prompt, if there are none
    #[arg(value_name = "SQL")]
    pub(crate) text: Option<String>,
    /// The same as SQL, as psql has it
    #[arg(short, long = "command", value_name = "SQL", allow_hyphen_values = true, conflicts_with_all = ["text", "file"])]
    pub(crate) command: Option<String>,
    /// Reads the statements from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// How the answer is written [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<SqlForm>,
    /// Reads the statements as Hive and Spark do: "x" is text, the target of an INSERT is made by the first
    #[arg(long)]
    pub(crate) spark: bool,
    /// The value of $1, then of $2 and so on: a number, true, false or null, else text (`'"5"'` is text too)
    #[arg(short, long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) parameters: Vec<String>,
}

/// `swiftwater backup`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater backup /mnt/backups/monday
  swiftwater backup /mnt/backups/monday          again: fetches what has changed
  swiftwater backup --verify /mnt/backups/monday
  swiftwater restore /mnt/backups/monday --data ~/swiftwater-again

Events that were acknowledged with ack=disk before it was begun are in the backup, once. The server goes on meanwhile.
What is interrupted goes on where it was when it is run again; an older backup in the directory stands until the new one is
whole. What COPY … TO wrote, and settings, are not in it.
Exit status: 0 the backup is whole, 1 it could not be taken or read, 2 --verify found damage.")]
pub(crate) struct BackupArgs {
    /// The directory of the backup: a new one, an empty one, or that of an earlier backup of the same server
    pub(crate) dir: PathBuf,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Holds every file of the backup that is there against its checksum, and asks no server
    #[arg(long)]
    pub(crate) verify: bool,
    /// Shows no progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater restore`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater restore /mnt/backups/monday --data ~/swiftwater-again
  swiftwater restore /mnt/backups/monday --data ~/again --store.location s3://bucket/again

Every byte is held against the backup's checksums on its way. An interrupted restore goes on when it is run again, and no
server opens the directory before it is whole. Settings are found as `swiftwater serve` finds them; give it the same ones.
Exit status: 0 all is restored, 1 it could not be, 2 the backup is damaged.")]
pub(crate) struct RestoreArgs {
    /// The directory of the backup
    pub(crate) dir: PathBuf,
    /// The new data directory
    #[arg(long, value_name = "DIR", aliases = ["datadir", "data-dir"])]
    pub(crate) data: Option<String>,
    /// The settings file [default: swiftwater.toml, if it is there]
    #[arg(long, value_name = "FILE", env = "SWIFTWATER_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Shows no progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// All others.
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// `swiftwater query`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples, of a server's live streams:
  swiftwater query \"SELECT * FROM STREAM(flights, MAX, TIME) WHERE dep_delay > 60 LIMIT 5\"
  swiftwater query \"SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier
                    WINDOWING TUMBLING(1000, TIME)\"
  swiftwater query --file top-pages.bql --output csv > pages.csv
  swiftwater query --server http://other:8080 \"EXPLAIN SELECT …\"
And of a file or standard input, with no server:
  cat events.ndjson | swiftwater query \"SELECT kind, COUNT(*) AS n FROM STREAM() GROUP BY kind\"
  swiftwater query --input events.ndjson.zst \"SELECT * FROM STREAM() WHERE status >= 500\"
  SWIFTWATER_ENGINE__QUERY_STATE_BYTES_MAX=8GiB swiftwater query --input …     # limits are a server's settings

As Bullet would answer, in Bullet's own form, an emit a line:
  swiftwater query --bullet --input events.ndjson \"SELECT TOP(5, path) FROM STREAM(60000, TIME)\"

The answer is a table on a terminal and NDJSON in a pipe. Ctrl-C ends the query and shows its final result.
Exit status: 0 done, 1 it could not be done, 2 the query is wrong.")]
pub(crate) struct QueryArgs {
    /// The query, in BQL or in Bullet's older JSON form
    #[arg(value_name = "BQL", required_unless_present = "file")]
    pub(crate) query: Option<String>,
    /// Reads the query from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub(crate) file: Option<PathBuf>,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// How the answer is written [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<OutputForm>,
    /// Leaves the query standing at the server and prints its id
    #[arg(long, conflicts_with_all = ["input", "output"])]
    pub(crate) detach: bool,
    /// Each record tells when its event was sent, read, matched and answered, under `_times`
    #[arg(long)]
    pub(crate) times: bool,
    /// The value of $1, then of $2 and so on: a number, true, false or null, else text (`'"5"'` is text too)
    #[arg(short, long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) parameters: Vec<String>,
    /// The rules of Bullet hold
    #[arg(long)]
    pub(crate) bullet: bool,
    /// Asks of this file (or `-`, standard input) in this process, with no server; `STREAM()` means it
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// With an input: a file that declares types of fields
    #[arg(long, value_name = "FILE")]
    pub(crate) types: Option<PathBuf>,
    /// With an input and Bullet's rules: a file of types that the query is checked against, as Bullet does with a schema
    #[arg(long, value_name = "FILE", requires = "bullet")]
    pub(crate) schema: Option<PathBuf>,
    /// With an input: threads that look at it; 0: one per core. With Bullet's rules: workers that records are dealt to,
    /// one by one
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) shards: Option<u16>,
    /// With an input: the field that tells when an event arrived; without it windows by time close at the end
    #[arg(long, value_name = "PATH")]
    pub(crate) time_field: Option<String>,
    /// With an input: exits with 1 if an event was rejected
    #[arg(long)]
    pub(crate) strict: bool,
    /// Shows no progress bar, and no closing meta on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater attach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  id=$(swiftwater query --detach \"SELECT COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(1000, TIME)\")
  swiftwater attach $id
  swiftwater attach $id --after 0

Goes on where the last reader left off. Ctrl-C leaves the query standing; `swiftwater kill` ends it.
Exit status: 0 the query has ended, 1 it could not be read, 130 it was left.")]
pub(crate) struct AttachArgs {
    /// The query's id, as `query --detach` prints and `top` shows it
    pub(crate) id: String,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Begins after this emit, as far as the server still has what follows; 0: at the first
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    /// How the answer is written [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<OutputForm>,
    /// Shows no closing meta on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater kill`
#[derive(Debug, Args)]
#[command(after_help = "\
Whoever reads such a query gets its final result, with the reason `killed`. Queries of Bullet's web API are ended too.
Exit status: 0 all are ended, 1 one is not there or could not be ended.")]
pub(crate) struct KillArgs {
    /// The queries' ids, as `query --detach` prints and `top` shows them
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// What `top` sorts queries by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopSort {
    /// Processor time
    Cpu,
    /// Bytes of state
    State,
    /// Events matched
    Matches,
    /// Bytes given out
    Out,
    /// The newest first
    Age,
}

/// `swiftwater top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater top
  swiftwater top --once --sort state
Keys: q ends it; c, s, m, o, a sort queries by processor time, state, matches, output, age.")]
pub(crate) struct TopArgs {
    /// Which server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Prints one picture and stops
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between pictures
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// What queries are sorted by
    #[arg(long, value_enum, default_value_t = TopSort::Cpu)]
    pub(crate) sort: TopSort,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_are_flags_in_either_spelling() {
        for flag in ["--engine.tick-ms", "--engine.tick_ms"] {
            let cli = Cli::try_parse_from(["swiftwater", "serve", flag, "20ms"]).unwrap();
            let Command::Serve(args) = cli.command else { panic!("not serve") };
            assert_eq!(args.server.settings.0, [("engine.tick_ms", "20ms".to_owned())]);
        }
    }
}
