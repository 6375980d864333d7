//! What is kept: the data directory, the log, the tables; SQL and jobs over it.

#[cfg(feature = "history")]
use swiftwater_engine::{Ack, Compressing, Compression};

#[cfg(feature = "history")]
use super::{DAY, GIB, HOUR, KIB, MIB, SECOND, TIB};
use super::{Key, Kind, Value};

pub(super) fn keys() -> Vec<Key> {
    let dir = text!(
        "data.dir",
        Kind::Text(|_| Ok(())),
        data_dir,
        "The directory that stored streams, tables and the catalog are kept in; empty: nothing is kept, and no \
             stream can be created."
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
            doc: "When events of a stored stream are acknowledged, unless its declaration or the request says otherwise: \
                  when they are on disk, when they are in memory, or when they were checked.",
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
            doc: "Whether a stream that begins by its first events is stored, as CREATE STREAM … WITH (store = true) declares it. \
                  `no`: its events reach live queries only, and its senders are warned.",
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
            doc: "How events are compressed in the log. `auto`: by lz4 while the disk holds up whoever sends, or the log has taken \
                  half of what it may; else not at all, as compressing takes longer than writing.",
            kind: Kind::Choice(&["auto", "lz4", "zstd", "none"]),
            get: |settings| {
                let word = match settings.history.log_compression {
                    Compressing::AsNeeded => "auto",
                    Compressing::Always(Compression::Lz4) => "lz4",
                    Compressing::Always(Compression::Zstd) => "zstd",
                    Compressing::Always(Compression::None) => "none",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.history.log_compression = match text.as_str() {
                        "lz4" => Compressing::Always(Compression::Lz4),
                        "zstd" => Compressing::Always(Compression::Zstd),
                        "none" => Compressing::Always(Compression::None),
                        _ => Compressing::AsNeeded,
                    };
                }
            },
        },
        number!(
            "data.log_commit_bytes",
            Kind::Bytes(KIB, GIB),
            history.log_commit_bytes,
            "Bytes that the log writes at most before it syncs them, and acknowledges."
        ),
        number!(
            "data.log_linger_micros",
            Kind::Count(0, 10_000_000),
            history.log_linger_micros,
            "Microseconds that the log waits for more before it writes and syncs. 0: what comes during one sync is the \
             next one's; more saves syncs, and makes every acknowledgement wait."
        ),
        number!(
            "data.log_segment_bytes",
            Kind::Bytes(32 * MIB, 16 * GIB),
            history.log_segment_bytes,
            "Bytes of one file of the log, which goes as a whole when it is not needed any more and the next is there; at \
             most half of data.log_bytes_max, and of what the disk has beyond data.log_free_bytes_min."
        ),
        number!(
            "data.log_queue_bytes_max",
            Kind::Bytes(32 * MIB, 16 * GIB),
            history.log_queue_bytes_max,
            "Bytes that may wait to be synced; senders wait beyond."
        ),
        number!(
            "data.detached_log_bytes_max",
            Kind::Bytes(0, TIB),
            history.detached_log_bytes_max,
            "Bytes of the log that are kept for durable queries besides what else needs them; what is older they have from \
             the stream's table after a restart, as far as that tells it."
        ),
        number!(
            "data.log_bytes_max",
            Kind::Bytes(128 * MIB, 1024 * TIB),
            history.log_bytes_max,
            "The most bytes that the log may take of the disk for events. When it has them, because a table cannot be written, \
             events are refused with 429 until it has room again. It keeps one file more (data.log_segment_bytes) in \
             reserve, so that statements that make room are taken then, too."
        ),
        number!(
            "data.log_free_bytes_min",
            Kind::Bytes(0, 1024 * TIB),
            history.log_free_bytes_min,
            "Bytes that the log leaves free on its disk; events are refused with 429 rather than take them."
        ),
        Key {
            name: "data.log_skip_corrupt",
            doc: "Whether a server starts with a log that is damaged in the middle, without what is lost there.",
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
            "Producers of each stream whose numbers of requests are remembered, those that sent last."
        ),
        number!(
            "data.feed_bytes_max",
            Kind::Bytes(MIB, 16 * GIB),
            history.feed_bytes_max,
            "Bytes of events that wait in memory on the way to each table; what is more is read from the log again."
        ),
        number!(
            "data.feed_lag_ms_max",
            Kind::Millis(0, HOUR),
            history.feed_lag_ms_max,
            "The time that a table or view may lag, once events do not fit in its feed, before senders wait for it; 0: they never do."
        ),
        number!(
            "data.checkpoint_interval_ms",
            Kind::Millis(10, HOUR),
            history.checkpoint_interval_ms,
            "The time between snapshots of the catalog, after which the log is trimmed."
        ),
        text!(
            "store.location",
            Kind::Text(|_| Ok(())),
            history.store_location,
            "Where tables lie: a directory, or `s3://bucket/prefix`; empty: in the data directory."
        ),
        list!(
            "store.options",
            option,
            history.store_options,
            "Options of the object store, as `name=value`: `aws_access_key_id=…`, `aws_endpoint=http://…`. They win over `AWS_…` of the environment."
        ),
        number!(
            "store.commit_interval_ms",
            Kind::Millis(10, HOUR),
            history.store_commit_interval_ms,
            "The time that a row waits for its commit at most. SQL sees it before; longer makes larger files."
        ),
        number!(
            "store.commit_bytes",
            Kind::Bytes(KIB, GIB),
            history.store_commit_bytes,
            "Bytes of columns that are committed before that time is over."
        ),
        number!(
            "store.tail_bytes_max",
            Kind::Bytes(MIB, 64 * GIB),
            history.store_tail_bytes_max,
            "Bytes of columns that wait for their commit in memory, for each table; beyond, rows stay in the log."
        ),
        number!(
            "store.compact_bytes",
            Kind::Bytes(MIB, 16 * GIB),
            history.store_compact_bytes,
            "Small files of a table are joined into ones of about this size."
        ),
        number!(
            "store.versions_kept_ms",
            Kind::Millis(SECOND, 3650 * DAY),
            history.store_versions_kept_ms,
            "How long earlier versions of a table can be read, and what they alone need is kept."
        ),
        number!(
            "sql.memory_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.sql_memory_bytes_max,
            "Memory that one statement may hold; beyond, its sorts, groups and joins go to disk."
        ),
        number!(
            "sql.spill_bytes_max",
            Kind::Bytes(0, 1024 * TIB),
            history.sql_spill_bytes_max,
            "Bytes that all statements together may have on disk at once."
        ),
        number!(
            "sql.threads",
            Kind::Count(0, 1_024),
            history.sql_threads,
            "Threads that work on statements; 0: one per core."
        ),
        number!(
            "sql.statements_max",
            Kind::Count(1, 100_000),
            history.sql_statements_max,
            "Statements that run at once; others wait for their turn."
        ),
        number!(
            "sql.statements_max_per_client",
            Kind::Count(0, 100_000),
            history.sql_statements_max_per_client,
            "Statements of one address that run at once; 0: three quarters of statements_max."
        ),
        number!(
            "sql.unread_ms_max",
            Kind::Millis(0, DAY),
            history.sql_unread_ms_max,
            "How long a statement waits for a client that does not read its answer, before it fails; 0: any time."
        ),
        number!(
            "views.views_max",
            Kind::Count(0, 100_000),
            history.views_max,
            "The most views that there can be."
        ),
        number!(
            "views.alerts_max",
            Kind::Count(0, 100_000),
            history.alerts_max,
            "The most alerts that there can be."
        ),
        number!(
            "views.alert_keys_max",
            Kind::Count(1, 100_000_000),
            history.alert_keys_max,
            "Keys that may meet an alert's condition at once; more are passed over and counted."
        ),
        number!(
            "views.memory_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.views_memory_bytes_max,
            "Bytes of keys and their states that all views together hold in memory, about; others are read from disk."
        ),
        number!(
            "views.cache_bytes",
            Kind::Bytes(MIB, 16 * TIB),
            history.views_cache_bytes,
            "Bytes of the views' files that are held in memory, for reading."
        ),
        number!(
            "views.commit_interval_ms",
            Kind::Millis(1, HOUR),
            history.views_commit_interval_ms,
            "How often what changed in a view is put on disk; after a crash, events since then are read again."
        ),
        number!(
            "views.joined_bytes_max",
            Kind::Bytes(MIB, 16 * TIB),
            history.joined_bytes_max,
            "Bytes that a table may take in memory which events are joined with, about."
        ),
        number!(
            "joins.joins_max",
            Kind::Count(0, 100_000),
            history.joins_max,
            "The most joins that there can be."
        ),
        number!(
            "joins.memory_bytes_max",
            Kind::Bytes(0, 16 * TIB),
            history.joins_memory_bytes_max,
            "Bytes of the events that all joins together hold in memory, about; others are read from disk."
        ),
        number!(
            "joins.state_bytes_max",
            Kind::Bytes(MIB, 1024 * TIB),
            history.joins_state_bytes_max,
            "Bytes of events that one join keeps at most, on disk; one that would keep more does not go on."
        ),
        number!(
            "sinks.sinks_max",
            Kind::Count(0, 100_000),
            history.sinks_max,
            "The most sinks that there can be."
        ),
        number!(
            "sinks.changes_max",
            Kind::Count(1, 1_000_000_000_000),
            history.sinks_changes_max,
            "Changes that are kept of a view for sinks that have not delivered them; of more, the oldest are let go of and \
             counted."
        ),
        text!(
            "sinks.dir",
            Kind::Text(|_| Ok(())),
            history.sinks_dir,
            "The directory that files of sinks are below; empty: `sinks` in the data directory."
        ),
        Key {
            name: "sinks.private_addresses",
            doc: "Whether webhooks may be at addresses of this machine and of private networks.",
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
            "The most endpoints that there can be."
        ),
        number!(
            "jobs.jobs_max",
            Kind::Count(0, 100_000),
            history.jobs_max,
            "The most jobs that there can be."
        ),
        number!(
            "jobs.running_max",
            Kind::Count(1, 1_024),
            history.jobs_running_max,
            "Jobs that run at once, beside other statements; others wait for their turn."
        ),
        number!(
            "jobs.retry_pause_ms_min",
            Kind::Millis(10, DAY),
            history.jobs_retry_pause_ms_min,
            "The time after which a job that failed is tried again; twice as long after each further failure."
        ),
        number!(
            "jobs.retry_pause_ms_max",
            Kind::Millis(10, DAY),
            history.jobs_retry_pause_ms_max,
            "The longest time that a job that goes on failing waits to be tried again."
        ),
        number!(
            "jobs.timeout_ms",
            Kind::Millis(0, 365 * DAY),
            history.jobs_timeout_ms,
            "How long an attempt at a job's run may take, where the job's `timeout` does not say; 0: any time."
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
