//! The settings of stored data: the data directory, the log, the tables; SQL and jobs over it.

#[cfg(feature = "history")]
use swiftwater_engine::{Ack, Compression, CompressionPolicy};

#[cfg(feature = "history")]
use super::{DAY, GIB, HOUR, KIB, MIB, SECOND, TIB};
use super::{Key, Kind, Value};

pub(super) fn keys() -> Vec<Key> {
    let dir = text!(
        "data.dir",
        Kind::Text(|_| Ok(())),
        data_dir,
        "Directory of stored streams, tables and the catalog. Empty: nothing is stored, and no stream can \
         be created."
    );
    #[cfg(feature = "history")]
    let keys = std::iter::once(dir).chain(durable()).collect();
    #[cfg(not(feature = "history"))]
    let keys = vec![dir];
    keys
}

#[cfg(feature = "history")]
fn durable() -> Vec<Key> {
    vec![
        Key {
            name: "data.ack",
            doc: "Time at which events of a stored stream are acknowledged, unless the stream or the \
                  request states another: on disk, in memory, or after validation.",
            kind: Kind::Choice(&["disk", "memory", "none"]),
            get: |settings| {
                let word = match settings.history.ack {
                    Ack::Disk => "disk",
                    Ack::Memory => "memory",
                    Ack::None => "none",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.ack = match text.as_str() {
                        "memory" => Ack::Memory,
                        "none" => Ack::None,
                        _ => Ack::Disk,
                    };
                }
            },
        },
        Key {
            name: "data.store_new_streams",
            doc: "Whether a stream that begins with its first event is stored, as by `CREATE STREAM … WITH \
                  (store = true)`. `no`: it is live-only, and its senders are warned.",
            kind: Kind::Choice(&["no", "yes"]),
            get: |settings| {
                Value::Text(if settings.history.store_new_streams { "yes" } else { "no" }.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.store_new_streams = text == "yes";
                }
            },
        },
        Key {
            name: "data.log_compression",
            doc: "Compression of events in the log. `auto`: LZ4 while the disk is slower than the senders, \
                  or while the log uses half of its space; otherwise none.",
            kind: Kind::Choice(&["auto", "lz4", "zstd", "none"]),
            get: |settings| {
                let word = match settings.history.log_compression {
                    CompressionPolicy::AsNeeded => "auto",
                    CompressionPolicy::Always(Compression::Lz4) => "lz4",
                    CompressionPolicy::Always(Compression::Zstd) => "zstd",
                    CompressionPolicy::Always(Compression::None) => "none",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.log_compression = match text.as_str() {
                        "lz4" => CompressionPolicy::Always(Compression::Lz4),
                        "zstd" => CompressionPolicy::Always(Compression::Zstd),
                        "none" => CompressionPolicy::Always(Compression::None),
                        _ => CompressionPolicy::AsNeeded,
                    };
                }
            },
        },
        number!(
            "data.log_commit_bytes",
            Kind::Bytes(KIB, GIB),
            history.log_commit_bytes,
            "Maximum bytes that the log writes before it syncs and acknowledges them."
        ),
        number!(
            "data.log_linger_micros",
            Kind::Count(0, 10_000_000),
            history.log_linger_micros,
            "Microseconds for which the log waits for more events before it writes and syncs. 0: events \
             that arrive during one sync are written by the next. Larger values save syncs and delay each \
             acknowledgement."
        ),
        number!(
            "data.log_segment_bytes",
            Kind::Bytes(32 * MIB, 16 * GIB),
            history.log_segment_bytes,
            "Size of one file of the log. A file is deleted whole when it is no longer needed and the next \
             one exists. At most half of `data.log_bytes_max`, and of the free disk space beyond \
             `data.log_free_bytes_min`."
        ),
        number!(
            "data.log_queue_bytes_max",
            Kind::Bytes(32 * MIB, 16 * GIB),
            history.log_queue_bytes_max,
            "Maximum bytes that wait for a sync. Senders wait beyond it."
        ),
        number!(
            "data.detached_log_bytes_max",
            Kind::Bytes(0, TIB),
            history.detached_log_bytes_max,
            "Maximum bytes of the log that are retained for durable queries alone. Older events are read \
             from the stream's table after a restart, as far as the table has them."
        ),
        number!(
            "data.log_bytes_max",
            Kind::Bytes(128 * MIB, 1024 * TIB),
            history.log_bytes_max,
            "Maximum bytes of the log on disk. If it is reached because a table cannot be written, events \
             are refused with 429 until there is space. One more file (`data.log_segment_bytes`) is in \
             reserve, so that statements that free space still run."
        ),
        number!(
            "data.log_free_bytes_min",
            Kind::Bytes(0, 1024 * TIB),
            history.log_free_bytes_min,
            "Free disk space that the log never uses. Events are refused with 429 instead."
        ),
        Key {
            name: "data.log_skip_corrupt",
            doc: "Whether a server starts with a log that is damaged in the middle, without the lost \
                  events.",
            kind: Kind::Choice(&["no", "yes"]),
            get: |settings| {
                Value::Text(if settings.history.log_skip_corrupt { "yes" } else { "no" }.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.log_skip_corrupt = text == "yes";
                }
            },
        },
        number!(
            "data.producers_max",
            Kind::Count(1, 10_000_000),
            history.producers_max,
            "Number of producers of each stream whose request numbers are remembered: those that sent \
             last."
        ),
        number!(
            "data.feed_bytes_max",
            Kind::Bytes(MIB, 16 * GIB),
            history.feed_bytes_max,
            "Maximum bytes of events that wait in memory for each table. Further events are read from the \
             log again."
        ),
        number!(
            "data.feed_lag_ms_max",
            Kind::Millis(0, HOUR),
            history.feed_lag_ms_max,
            "Lag of a table or view, once its events do not fit into the feed, at which senders begin to \
             wait for it. 0: they never wait."
        ),
        number!(
            "data.checkpoint_interval_ms",
            Kind::Millis(10, HOUR),
            history.checkpoint_interval_ms,
            "Time between snapshots of the catalog. The log is trimmed after each."
        ),
        text!(
            "store.location",
            Kind::Text(|_| Ok(())),
            history.store_location,
            "Location of the tables: a directory, or `s3://bucket/prefix`. Empty: in the data directory."
        ),
        list!(
            "store.options",
            option,
            history.store_options,
            "Options of the object store, as `name=value`: `aws_access_key_id=…`, `aws_endpoint=http://…`. \
             They override `AWS_…` of the environment."
        ),
        number!(
            "store.commit_interval_ms",
            Kind::Millis(10, HOUR),
            history.store_commit_interval_ms,
            "Maximum time that a row waits for its commit. SQL reads the row before that. A longer time \
             makes larger files."
        ),
        number!(
            "store.commit_bytes",
            Kind::Bytes(KIB, GIB),
            history.store_commit_bytes,
            "Bytes of columns that cause a commit before `store.commit_interval_ms`."
        ),
        number!(
            "store.tail_bytes_max",
            Kind::Bytes(MIB, 64 * GIB),
            history.store_tail_bytes_max,
            "Maximum bytes of columns that wait in memory for their commit, per table. Further rows stay \
             in the log."
        ),
        number!(
            "store.compact_bytes",
            Kind::Bytes(MIB, 16 * GIB),
            history.store_compact_bytes,
            "Size of the files into which compaction merges small files."
        ),
        number!(
            "store.versions_kept_ms",
            Kind::Millis(SECOND, 3650 * DAY),
            history.store_versions_kept_ms,
            "Time for which earlier versions of a table, and the files that only they need, are retained."
        ),
        number!(
            "sql.memory_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.sql_memory_bytes_max,
            "Maximum memory of one statement. Beyond, its sorts, groups and joins spill to disk."
        ),
        number!(
            "sql.spill_bytes_max",
            Kind::Bytes(0, 1024 * TIB),
            history.sql_spill_bytes_max,
            "Maximum bytes that all statements together spill to disk."
        ),
        number!(
            "sql.threads",
            Kind::Count(0, 1_024),
            history.sql_threads,
            "Number of threads for statements. 0: one per core."
        ),
        number!(
            "sql.statements_max",
            Kind::Count(1, 100_000),
            history.sql_statements_max,
            "Maximum number of statements that run at once. Others wait."
        ),
        number!(
            "sql.statements_max_per_client",
            Kind::Count(0, 100_000),
            history.sql_statements_max_per_client,
            "Maximum number of statements of one address that run at once. 0: three quarters of \
             `sql.statements_max`."
        ),
        number!(
            "sql.timeout_ms",
            Kind::Millis(0, 365 * DAY),
            history.sql_timeout_ms,
            "Time that the statements of one text may take together, those of jobs excepted. Then the running one \
             fails. 0: no limit."
        ),
        number!(
            "sql.unread_ms_max",
            Kind::Millis(0, DAY),
            history.sql_unread_ms_max,
            "Time for which a statement waits for a client that does not read its answer. Then the \
             statement fails. 0: no limit."
        ),
        list!(
            "sql.workers",
            worker,
            history.sql_nodes.workers,
            "Addresses of the workers on which large statements run: `http://10.0.0.6:8082`. Empty: all run on \
             this node."
        ),
        text!(
            "sql.worker_listen",
            Kind::Text(socket),
            history.sql_nodes.listen,
            "Address on which this node runs parts of other nodes' statements, and lets workers read its rows. \
             Empty: none. Other addresses than loopback need `sql.worker_secret_file`."
        ),
        text!(
            "sql.worker_advertise",
            Kind::Text(worker_or_none),
            history.sql_nodes.advertise,
            "Address under which workers reach this node: `http://10.0.0.5:8082`. Empty: `http://` and \
             `sql.worker_listen`."
        ),
        text!(
            "sql.worker_secret_file",
            Kind::Text(|_| Ok(())),
            history.sql_nodes.secret_file,
            "File with the secret that this node and its workers share, of 16 to 4096 printable ASCII \
             characters. Empty: none."
        ),
        number!(
            "sql.distribute_above_bytes",
            Kind::Bytes(0, 1024 * TIB),
            history.sql_nodes.above_bytes,
            "Bytes of files that a statement reads, from which on it runs on `sql.workers`. 0: every statement \
             that can be divided."
        ),
        number!(
            "sql.hold_bytes",
            Kind::Bytes(0, 16 * GIB),
            history.sql_nodes.hold_bytes,
            "Bytes of rows that are held back while a statement runs on workers, so that it can run again if \
             one fails."
        ),
        Key {
            name: "sql.worker",
            doc: "Whether this node is a worker alone: it reads tables at `store.location`, owns none, and needs \
                  no data directory (--sql-worker).",
            kind: Kind::Choice(&["no", "yes"]),
            get: |settings| {
                Value::Text(if settings.history.sql_nodes.is_worker { "yes" } else { "no" }.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.sql_nodes.is_worker = text == "yes";
                }
            },
        },
        number!(
            "search.timeout_ms",
            Kind::Millis(1, DAY),
            history.search_timeout_ms,
            "Time that a search may take. Then it fails."
        ),
        number!(
            "search.hits_max",
            Kind::Count(0, 1_000_000),
            history.search_hits_max,
            "Maximum number of hits of one answer. Further hits are on further pages."
        ),
        number!(
            "search.streams_max",
            Kind::Count(1, 10_000),
            history.search_streams_max,
            "Maximum number of streams of one search."
        ),
        number!(
            "search.facet_values_max",
            Kind::Count(1, 100_000_000),
            history.search_facet_values_max,
            "Maximum number of different values that a facet or a histogram counts. A search with more fails."
        ),
        number!(
            "search.searches_max",
            Kind::Count(1, 100_000),
            history.search_searches_max,
            "Maximum number of searches that run at once. Others wait."
        ),
        number!(
            "search.waiting_max",
            Kind::Count(0, 100_000),
            history.search_waiting_max,
            "Maximum number of searches that wait. Others are refused with 429."
        ),
        number!(
            "search.memory_bytes_max",
            Kind::Bytes(8 * MIB, 16 * TIB),
            history.search_memory_bytes_max,
            "Approximate maximum memory in which index files are built and merged. What needs more is written to \
             temporary files."
        ),
        number!("views.views_max", Kind::Count(0, 100_000), history.views_max, "Maximum number of views."),
        number!("views.alerts_max", Kind::Count(0, 100_000), history.alerts_max, "Maximum number of alerts."),
        number!(
            "views.alert_keys_max",
            Kind::Count(1, 100_000_000),
            history.alert_keys_max,
            "Maximum number of keys of one alert that meet its condition at once. Further keys are skipped \
             and counted."
        ),
        number!(
            "views.memory_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.views_memory_bytes_max,
            "Approximate maximum bytes of keys and their states in memory, for all views together. Other \
             keys are read from disk."
        ),
        number!(
            "views.cache_bytes",
            Kind::Bytes(MIB, 16 * TIB),
            history.views_cache_bytes,
            "Size of the read cache of the views' files."
        ),
        number!(
            "views.commit_interval_ms",
            Kind::Millis(1, HOUR),
            history.views_commit_interval_ms,
            "Time between commits of changed keys to disk. After a crash, later events are counted again \
             from the log."
        ),
        number!(
            "views.joined_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.joined_bytes_max,
            "Approximate maximum memory of a table that events are joined with."
        ),
        number!("joins.joins_max", Kind::Count(0, 100_000), history.joins_max, "Maximum number of joins."),
        number!(
            "joins.memory_bytes_max",
            Kind::Bytes(0, 16 * TIB),
            history.joins_memory_bytes_max,
            "Approximate maximum bytes of events in memory, for all joins together. Other events are read \
             from disk."
        ),
        number!(
            "joins.state_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            history.joins_state_bytes_max,
            "Maximum bytes of events that one join stores on disk. A join that needs more stops."
        ),
        number!("sinks.sinks_max", Kind::Count(0, 100_000), history.sinks_max, "Maximum number of sinks."),
        number!(
            "sinks.changes_max",
            Kind::Count(1, 1_000_000_000_000),
            history.sinks_changes_max,
            "Maximum number of changes of a view that wait for its sinks. Beyond, the oldest are deleted \
             and counted."
        ),
        number!(
            "sinks.log_bytes_max",
            Kind::Bytes(0, TIB),
            history.sinks_log_bytes_max,
            "Maximum bytes of the log that are retained for sinks of events alone. Older events are read from \
             the stream's table."
        ),
        text!(
            "sinks.dir",
            Kind::Text(|_| Ok(())),
            history.sinks_dir,
            "Directory of the files of sinks. Empty: `sinks` in the data directory."
        ),
        Key {
            name: "sinks.private_addresses",
            doc: "Whether webhooks and schema registries may be at addresses of this machine and of private networks.",
            kind: Kind::Choice(&["no", "yes"]),
            get: |settings| {
                Value::Text(if settings.history.sinks_private_addresses { "yes" } else { "no" }.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.sinks_private_addresses = text == "yes";
                }
            },
        },
        number!(
            "endpoints.endpoints_max",
            Kind::Count(0, 100_000),
            history.endpoints_max,
            "Maximum number of endpoints."
        ),
        number!("jobs.jobs_max", Kind::Count(0, 100_000), history.jobs_max, "Maximum number of jobs."),
        number!(
            "jobs.running_max",
            Kind::Count(1, 1_024),
            history.jobs_running_max,
            "Maximum number of jobs that run at once, beside other statements. Others wait."
        ),
        number!(
            "jobs.retry_pause_ms_min",
            Kind::Millis(10, DAY),
            history.jobs_retry_pause_ms_min,
            "Time before the first retry of a failed job. It doubles with each further failure."
        ),
        number!(
            "jobs.retry_pause_ms_max",
            Kind::Millis(10, DAY),
            history.jobs_retry_pause_ms_max,
            "Maximum time before a retry."
        ),
        number!(
            "jobs.timeout_ms",
            Kind::Millis(0, 365 * DAY),
            history.jobs_timeout_ms,
            "Maximum duration of an attempt at a run, if the job has no `timeout`. 0: no limit."
        ),
    ]
}

#[cfg(feature = "history")]
fn option(text: &str) -> Result<(), String> {
    match text.split_once('=') {
        Some((name, _)) if !name.trim().is_empty() => Ok(()),
        _ => Err("not an option; write for example `aws_region=eu-central-1`".to_owned()),
    }
}

/// Returns the fault of the address of a worker.
#[cfg(feature = "history")]
fn worker(address: &str) -> Result<(), String> {
    let is_address = address.strip_prefix("http://").is_some_and(|rest| {
        let host = rest.strip_suffix('/').unwrap_or(rest);
        host.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    });
    match is_address {
        true => Ok(()),
        false => Err("not the address of a worker; write for example http://10.0.0.6:8082".to_owned()),
    }
}

#[cfg(feature = "history")]
fn worker_or_none(address: &str) -> Result<(), String> {
    if address.is_empty() { Ok(()) } else { worker(address) }
}

#[cfg(feature = "history")]
fn socket(address: &str) -> Result<(), String> {
    match address.is_empty() || address.parse::<std::net::SocketAddr>().is_ok() {
        true => Ok(()),
        false => Err("not an address and port; write for example 10.0.0.6:8082".to_owned()),
    }
}
