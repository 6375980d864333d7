//! The command line: commands, flags and their help, with examples.

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

/// Live queries over event streams: a query reads the events that arrive after it.
#[derive(Debug, Parser)]
#[command(name = "swiftwater", version, propagate_version = true, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  swiftwater demo                  a server with two live streams and example queries
  cat events.ndjson | swiftwater query \"SELECT kind, COUNT(*) AS n FROM STREAM() GROUP BY kind\"
  swiftwater serve                 a server for your own events, on http://127.0.0.1:8080
  swiftwater ingest logs app.ndjson
  swiftwater query \"SELECT * FROM STREAM(logs, MAX, TIME) LIMIT 10\"";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a server that receives events and answers queries
    Serve(ServeArgs),
    /// Runs a server with two live streams for first queries
    Demo(DemoArgs),
    /// Sends events from files or standard input to a server
    Ingest(IngestArgs),
    /// Runs a live query on a server, or on a file or standard input without a server
    Query(QueryArgs),
    /// Finds stored events of a server, or those of a file or standard input, by their words
    Search(SearchArgs),
    /// Prints the stored events of all streams that share an id, such as that of a trace
    Activity(ActivityArgs),
    /// Continues with the results of a running query
    Attach(AttachArgs),
    /// Ends queries of a server
    Kill(KillArgs),
    /// Runs SQL over the stored streams and tables of a server, or opens a prompt
    Sql(SqlArgs),
    /// Copies the data of a running server into a directory, or verifies such a copy
    Backup(BackupArgs),
    /// Creates a data directory from a backup
    Restore(RestoreArgs),
    /// Shows the nodes of a cluster, looks for faults, and drains a node
    Cluster(ClusterArgs),
    /// Shows the load of a server's streams, queries and shards
    Top(TopArgs),
    /// Generates events of a published workload from a seed
    Generate(GenerateArgs),
    /// Measures a server under load
    Bench(BenchArgs),
    /// Prints a completion script for a shell
    #[command(after_help = "\
Examples:
  swiftwater completions bash > ~/.local/share/bash-completion/completions/swiftwater
  swiftwater completions zsh > ~/.zfunc/_swiftwater
  swiftwater completions fish > ~/.config/fish/completions/swiftwater.fish")]
    Completions {
        /// Shell of the script
        shell: Shell,
    },
}

/// Flags of a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// Address and port that the server listens on; port 0 selects any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Directory of stored streams and tables [default: none, nothing is stored]
    #[arg(long, value_name = "DIR", aliases = ["datadir", "data-dir"])]
    pub(crate) data: Option<String>,
    /// Settings file [default: swiftwater.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "SWIFTWATER_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Stream that `STREAM()` names [default: none; of `demo`: flights]
    #[arg(long, value_name = "NAME")]
    pub(crate) default_stream: Option<String>,
    /// Messages that are logged on standard error: a level, or directives such as `info,swiftwater_engine=debug` [default: info, and warn for some libraries]
    #[arg(long, value_name = "FILTER", env = "SWIFTWATER_LOG")]
    pub(crate) log: Option<String>,
    /// Format of log lines: `text` or `json` [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// All other settings.
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
  swiftwater serve --sql-worker --sql.worker-listen 10.0.0.6:8082 --sql.worker-secret-file secret --store.location s3://bucket/tables
  swiftwater serve --syslog.tcp-listen 127.0.0.1:6514 --syslog.udp-listen 127.0.0.1:5514
  swiftwater serve --print-config > swiftwater.toml

Every setting is also a flag (see --help), an environment variable (SWIFTWATER_ENGINE__SHARDS=4) and a line of the
settings file. Flags override the environment; the environment overrides the file.
When the server is ready, it prints `listening on http://ADDRESS:PORT` as the first line on standard output.
After SIGTERM or Ctrl-C, the server sends each running query's final result and stops. A second signal stops it at once.")]
pub(crate) struct ServeArgs {
    /// Flags of the server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Runs as a worker of SQL alone: parts of other nodes' statements, over the tables at `store.location`
    #[arg(long)]
    pub(crate) sql_worker: bool,
    /// Prints the effective settings and their sources, and exits
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
  swiftwater demo --data ~/swiftwater-demo

The streams are `flights` (a replay of New York's flights of 2013; `STREAM()` names it) and `host` (samples of this machine).
Their events are stored in a temporary directory, which is removed at the end; --data keeps them, and --no-data stores nothing.")]
pub(crate) struct DemoArgs {
    /// Flags of the server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Replay speed of the flights, as a multiple of the speed in 2013, or `max`
    #[arg(long, default_value_t = Speed::DEFAULT)]
    pub(crate) speed: Speed,
    /// Share of the flights that are sent, above 0 and up to 1 [default: all]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) sample: Option<f64>,
    /// Omits the stream `host`
    #[arg(long)]
    pub(crate) no_host: bool,
    /// Omits the stream `flights`
    #[arg(long)]
    pub(crate) no_flights: bool,
    /// Stores no events
    #[arg(long, conflicts_with = "data")]
    pub(crate) no_data: bool,
}

/// The server of a client command.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// URL of the server [default: http://127.0.0.1:8080]
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

Events are JSON objects (one per line, or in an array), lines of CSV whose first line names the fields, or rows of Parquet.
The command recognises gzip and zstd files by their content.
If the server has no room, the command waits and continues after the last accepted event.
Requests to a stored stream are numbered: with --retry, the server stores each event once, even if it fails and restarts.
To resume a failed run, repeat it with the --producer that its error names. Without --producer, a second run sends all
events again.
Exit status: 0 all events were accepted, 1 some were rejected, 2 the command failed to send.")]
pub(crate) struct IngestArgs {
    /// Name of the stream
    pub(crate) stream: String,
    /// Files of events; `-` is standard input [default: standard input]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Format of the files [default: csv for `.csv`, parquet for `.parquet`, else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<InputForm>,
    /// Continues with appended lines, through rotation and truncation, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// With --follow: begins at the ends of the files
    #[arg(long, requires = "follow")]
    pub(crate) from_end: bool,
    /// Share of the events that the server uses, above 0 and up to 1; it reports the sampling in the results [default: all]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) sample: Option<f64>,
    /// Maximum number of events per second [default: no limit]
    #[arg(long, value_name = "EVENTS", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Maximum bytes that are read and sent at once
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = batch_bytes)]
    pub(crate) batch_bytes: usize,
    /// Time for which failed requests are retried [default: 0 if the server fails or cannot be reached, 10m if it has no room (429, 503); 30s without a value]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "30s", value_parser = duration)]
    pub(crate) retry: Option<Duration>,
    /// Name of the run: a stored stream stores each file of a name once, however often it is sent. The path identifies the file; the command refuses a file whose sent part has changed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["follow", "rate"], value_parser = producer)]
    pub(crate) producer: Option<String>,
    /// Exits with 0 although events were rejected
    #[arg(long)]
    pub(crate) allow_rejected: bool,
    /// Hides the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Format of a file of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputForm {
    /// JSON objects, one per line or in an array
    Json,
    /// CSV whose first line names the fields
    Csv,
    /// Rows of Parquet
    Parquet,
}

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Aligned columns; on a terminal each window replaces the previous one
    Table,
    /// One record per line; the closing meta on standard error
    Ndjson,
    /// One emit per line, with its records and its meta
    Emits,
    /// One document, written at the end
    Json,
    /// A header, and one record per line
    Csv,
}

/// Format of an answer to SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SqlForm {
    /// Aligned columns
    Table,
    /// One JSON object per line
    Ndjson,
    /// One JSON array
    Json,
    /// A header, and one row per line
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

Separate several statements by `;`; the command prints the answer of the last one. Ctrl-C cancels the running statement.
Exit status: 0 success, 1 the command could not run, 2 a statement is invalid or failed, 130 ended by Ctrl-C.")]
pub(crate) struct SqlArgs {
    /// The statements [default: a prompt]
    #[arg(value_name = "SQL")]
    pub(crate) text: Option<String>,
    /// The statements, as with psql
    #[arg(short, long = "command", value_name = "SQL", allow_hyphen_values = true, conflicts_with_all = ["text", "file"])]
    pub(crate) command: Option<String>,
    /// File of the statements; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Format of the answer [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<SqlForm>,
    /// Uses the dialect of Hive and Spark: "x" is text, and the first INSERT creates its target
    #[arg(long)]
    pub(crate) spark: bool,
    /// Value of $1, then of $2 and so on: a number, true, false or null, else text (`'"5"'` is text too)
    #[arg(short, long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) parameters: Vec<String>,
}

/// `swiftwater backup`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater backup /mnt/backups/monday
  swiftwater backup /mnt/backups/monday          again: copies only changed files
  swiftwater backup --verify /mnt/backups/monday
  swiftwater restore /mnt/backups/monday --data ~/swiftwater-again

The backup contains, once, each event that was acknowledged with ack=disk before the backup began. The server runs meanwhile.
An interrupted backup resumes when the command is repeated. An older backup in the directory remains valid until the new one
is complete. Files that COPY … TO wrote, and settings, are not part of a backup.
Exit status: 0 the backup is complete, 1 it could not be written or read, 2 --verify found damage.")]
pub(crate) struct BackupArgs {
    /// Directory of the backup: new, empty, or with an earlier backup of the same server
    pub(crate) dir: PathBuf,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Leaves out the files of search indexes: a restored server builds them anew
    #[arg(long)]
    pub(crate) without_search_index: bool,
    /// Checks every file of an existing backup against its checksum, without a server
    #[arg(long)]
    pub(crate) verify: bool,
    /// Hides the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater restore`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater restore /mnt/backups/monday --data ~/swiftwater-again
  swiftwater restore /mnt/backups/monday --data ~/again --store.location s3://bucket/again

The command checks every byte against the backup's checksums. An interrupted restore resumes when the command is repeated; no
server opens the directory before the restore is complete. The command reads settings as `swiftwater serve` does: use the same.
Exit status: 0 the restore is complete, 1 it failed, 2 the backup is damaged.")]
pub(crate) struct RestoreArgs {
    /// Directory of the backup
    pub(crate) dir: PathBuf,
    /// New data directory
    #[arg(long, value_name = "DIR", aliases = ["datadir", "data-dir"])]
    pub(crate) data: Option<String>,
    /// Settings file [default: swiftwater.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "SWIFTWATER_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Hides the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// All other settings.
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// `swiftwater query`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples, on a server's live streams:
  swiftwater query \"SELECT * FROM STREAM(flights, MAX, TIME) WHERE dep_delay > 60 LIMIT 5\"
  swiftwater query \"SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier
                    WINDOWING TUMBLING(1000, TIME)\"
  swiftwater query --file top-pages.bql --output csv > pages.csv
  swiftwater query --server http://other:8080 \"EXPLAIN SELECT …\"
Examples, on a file or standard input without a server:
  cat events.ndjson | swiftwater query \"SELECT kind, COUNT(*) AS n FROM STREAM() GROUP BY kind\"
  swiftwater query --input events.ndjson.zst \"SELECT * FROM STREAM() WHERE status >= 500\"
  SWIFTWATER_ENGINE__QUERY_STATE_BYTES_MAX=8GiB swiftwater query --input …     # limits are a server's settings

Example by Bullet's rules, in Bullet's own format, one emit per line:
  swiftwater query --bullet --input events.ndjson \"SELECT TOP(5, path) FROM STREAM(60000, TIME)\"

The answer is a table on a terminal and NDJSON in a pipe. Ctrl-C ends the query and prints its final result.
Exit status: 0 success, 1 the command failed, 2 the query is invalid.")]
pub(crate) struct QueryArgs {
    /// The query, in BQL or in Bullet's older JSON format
    #[arg(value_name = "BQL", required_unless_present_any = ["file", "saved"])]
    pub(crate) query: Option<String>,
    /// File of the query; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub(crate) file: Option<PathBuf>,
    /// Name of a query that is saved on the server
    #[arg(long, value_name = "NAME", conflicts_with_all = ["query", "file", "input", "bullet"])]
    pub(crate) saved: Option<String>,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Format of the answer [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<OutputForm>,
    /// Prints the query's id and exits; the query continues on the server
    #[arg(long, conflicts_with_all = ["input", "output"])]
    pub(crate) detach: bool,
    /// Over a cluster: windows wait for partitions that are missing, rather than name them
    #[arg(long, conflicts_with = "input")]
    pub(crate) wait_for_missing: bool,
    /// Adds `_times` to each record: when its event was sent, read, matched and answered
    #[arg(long)]
    pub(crate) times: bool,
    /// Value of $1, then of $2 and so on: a number, true, false or null, else text (`'"5"'` is text too)
    #[arg(short, long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) parameters: Vec<String>,
    /// Runs the query by Bullet's rules
    #[arg(long)]
    pub(crate) bullet: bool,
    /// Runs the query on this file in this process, without a server; `-` is standard input, and `STREAM()` names the file
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// With --input: file that declares types of fields
    #[arg(long, value_name = "FILE")]
    pub(crate) types: Option<PathBuf>,
    /// With --input and --bullet: schema that the query is checked against, as in Bullet [default: none]
    #[arg(long, value_name = "FILE", requires = "bullet")]
    pub(crate) schema: Option<PathBuf>,
    /// With --input: number of threads; 0: one per core. With --bullet: number of workers, which receive the records in
    /// turn [default: 0, with --bullet 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) shards: Option<u16>,
    /// With --input: field of an event's arrival time [default: none, windows by time close at the end]
    #[arg(long, value_name = "PATH")]
    pub(crate) time_field: Option<String>,
    /// With --input: exits with 1 if an event was rejected
    #[arg(long)]
    pub(crate) strict: bool,
    /// Hides the progress bar, and the closing meta on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater search`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater search logs 'timeout OR \"connection refused\"' --last 15m
  swiftwater search logs traces 'trace_id:4bf92f35' --sort _time --all
  swiftwater search logs 'status:>=500' --columns host,status,message
  swiftwater search logs timeout --facet host --histogram _time:auto
  swiftwater search logs 'level:error -retry' --follow
  swiftwater search --input app.ndjson.gz 'status:>=500 path:/api*  -method:GET' --limit 20
  journalctl -o json | swiftwater search --input - 'MESSAGE:segfault'

Words are looked for in all strings of an event, at any depth; `column:` names a column or a path into one. Words side by
side must all be there. docs/reference/search.md has every form. Of a server's streams the newest events come first. The
command prints the events as they are, one a line; on a terminal it marks what it found and adds the time of arrival.
Exit status: 0 the events were searched, 1 they could not be read, 2 the search is wrong.")]
pub(crate) struct SearchArgs {
    /// Streams and the search; with --input the search alone
    #[arg(value_name = "STREAM", allow_hyphen_values = true)]
    pub(crate) first: String,
    /// More streams, and the words and conditions of the search
    #[arg(value_name = "SEARCH")]
    pub(crate) rest: Vec<String>,
    /// File that is searched in this process, without a server; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["last", "from", "to", "time", "sort", "all", "columns", "hits", "facet", "histogram", "around", "partial", "explain", "follow"])]
    pub(crate) input: Option<PathBuf>,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Only events that arrived in this time before now, such as 15m, 12h or 7d
    #[arg(long, value_name = "TIME", conflicts_with = "from")]
    pub(crate) last: Option<String>,
    /// Only events from this time on: 2026-01-31T12:00:00Z, a date, milliseconds since 1970, or now-15m
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only events before this time, in the same forms
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// TIMESTAMP column that --last, --from and --to mean [default: the time of arrival]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Column that events are sorted by; with `-` in front the largest value comes first [default: -_time]
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// Number of events after which the command ends [default: 20; with --input: none]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Prints all events that match
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Columns to print, with commas between them [default: the whole event]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Prints each event with its stream, offset and time of arrival
    #[arg(long)]
    pub(crate) hits: bool,
    /// Prints only how many events there are
    #[arg(long)]
    pub(crate) count: bool,
    /// Prints how many events have each value of a column, instead of the events; may be repeated. As in the HTTP call: 'level;limit=5'
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["all", "limit", "count", "hits", "columns", "sort", "around"])]
    pub(crate) facet: Vec<String>,
    /// Prints how many events there are over time, instead of the events: _time:auto, _time:1m, '_time:1h;by=level'
    #[arg(long, value_name = "COLUMN:INTERVAL", conflicts_with_all = ["all", "limit", "count", "hits", "columns", "sort", "around"])]
    pub(crate) histogram: Option<String>,
    /// Prints the events around the one with this offset, in their order; --limit is the number on each side
    #[arg(long, value_name = "OFFSET", conflicts_with_all = ["all", "count", "sort"])]
    pub(crate) around: Option<u64>,
    /// Goes on with each further event that matches, after the newest ones, oldest first
    #[arg(long, short, conflicts_with_all = ["all", "count", "sort", "to", "facet", "histogram", "around", "explain"])]
    pub(crate) follow: bool,
    /// Prints what was found when the time of a search ends, and says which events were searched
    #[arg(long, conflicts_with_all = ["all", "count", "around", "follow"])]
    pub(crate) partial: bool,
    /// Prints how the search was answered and the cost of its parts, instead of the events
    #[arg(long, conflicts_with_all = ["all", "count", "hits"])]
    pub(crate) explain: bool,
    /// Marks what was found also where standard output is not a terminal
    #[arg(long)]
    pub(crate) color: bool,
    /// Hides the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater activity`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater activity 4bf92f35 --last 1h
  swiftwater activity order-7 --depth 1 --stream orders --stream payments
  swiftwater activity 4bf92f35 --follow

The columns with ids are those of CREATE SEARCH INDEX ON logs (trace_id ID CORRELATION). The oldest event comes first. On a
terminal the command prints time, stream and event; elsewhere NDJSON with stream, offset, time, depth, via and event.
Exit status: 0 the events were searched, 1 they could not be read, 2 the request is wrong.")]
pub(crate) struct ActivityArgs {
    /// Id of the activity
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Only events of this stream; may be repeated [default: all streams with ids]
    #[arg(long, value_name = "STREAM")]
    pub(crate) stream: Vec<String>,
    /// Only events that arrived in this time before now, such as 15m, 12h or 7d
    #[arg(long, value_name = "TIME", conflicts_with = "from")]
    pub(crate) last: Option<String>,
    /// Only events from this time on: 2026-01-31T12:00:00Z, a date, milliseconds since 1970, or now-15m
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only events before this time, in the same forms
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Also events that share another id with those found, in so many steps [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) depth: Option<u32>,
    /// Number of events after which the command ends; with --follow, of stored events [default: none; with --follow: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Goes on with each further event that has the id, after the newest ones, oldest first
    #[arg(long, short, conflicts_with_all = ["to", "depth"])]
    pub(crate) follow: bool,
    /// Prints lines for a terminal also where standard output is none
    #[arg(long)]
    pub(crate) color: bool,
}

/// `swiftwater attach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  id=$(swiftwater query --detach \"SELECT COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(1000, TIME)\")
  swiftwater attach $id
  swiftwater attach $id --after 0

The command continues after the last emit that a reader received. After Ctrl-C the query continues; `swiftwater kill` ends it.
Exit status: 0 the query has ended, 1 it could not be read, 130 ended by Ctrl-C.")]
pub(crate) struct AttachArgs {
    /// Id of the query, as `query --detach` and `top` print it
    pub(crate) id: String,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Number of the emit to continue after, if the server still has its successors; 0: from the first [default: the last read emit]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    /// Format of the answer [default: table on a terminal, ndjson elsewhere]
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) output: Option<OutputForm>,
    /// Hides the closing meta on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `swiftwater kill`
#[derive(Debug, Args)]
#[command(after_help = "\
A reader of such a query gets its final result, with the reason `killed`. Queries of Bullet's web API can be ended, too.
Exit status: 0 all queries are ended, 1 a query does not exist or could not be ended.")]
pub(crate) struct KillArgs {
    /// Ids of the queries, as `query --detach` and `top` print them
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// `swiftwater cluster`
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

/// The commands of `swiftwater cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Prints the nodes of the cluster, and the partitions that they read
    Status(ClusterShowArgs),
    /// Looks for faults of the cluster: exit status 0 if nothing is wrong, 1 if something is
    Check(NodeArgs),
    /// Has a node take no more work, and waits until others have its partitions and its queries have ended
    #[command(after_help = "\
Example, before a node is stopped for good or for an upgrade:
  swiftwater cluster drain --server http://10.0.0.5:8080 --timeout 5m && systemctl stop swiftwater

Queries that stand at the node continue until they end or the node stops.
Exit status: 0 the node is drained, 1 it is not yet, or could not be asked.")]
    Drain(DrainArgs),
    /// Has a node that is draining take work again
    Resume(NodeArgs),
}

/// `swiftwater cluster status`
#[derive(Debug, Args)]
pub(crate) struct ClusterShowArgs {
    /// Prints the server's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A node.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// A node of a cluster.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The node.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// `swiftwater cluster drain`
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Maximum wait, such as `5m` [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Returns at once
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Hides the progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The node.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Sort key of the queries in `top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopSort {
    /// Processor time
    Cpu,
    /// Bytes of state
    State,
    /// Matched events
    Matches,
    /// Bytes of output
    Out,
    /// Age, newest first
    Age,
}

/// `swiftwater top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  swiftwater top
  swiftwater top --once --sort state
Keys: q quits; c, s, m, o, a sort queries by processor time, state, matches, output, age.")]
pub(crate) struct TopArgs {
    /// The server.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Prints one snapshot and exits
    #[arg(long)]
    pub(crate) once: bool,
    /// Time between snapshots
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Sort key of the queries
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
