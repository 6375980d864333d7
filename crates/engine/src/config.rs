//! The settings of durable state, with units in their names. The binary's settings file uses the same names.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use swiftwater_cluster::Roles;
use swiftwater_kafka::{GroupProtocol, Kafka};
use swiftwater_log::{CompressionPolicy, LogOptions};
use swiftwater_sql::SqlOptions;
use swiftwater_store::StoreOptions;

use crate::Ack;

/// Location and settings of stored events.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryConfig {
    /// The data directory.
    pub dir: PathBuf,
    /// The directory is gone after the end of the process: objects that are kept there are refused.
    pub is_temporary: bool,
    /// Acknowledgement of events of a stored stream, unless its declaration or the request says otherwise.
    pub ack: Ack,
    /// Streams that begin by their first events are stored, as `CREATE STREAM name WITH (store = true)` declares them.
    pub store_new_streams: bool,
    /// Compression of events in the log.
    pub log_compression: CompressionPolicy,
    /// The most bytes that the log writes before it syncs.
    pub log_commit_bytes: u64,
    /// Microseconds that the log waits for more before it writes and syncs; 0: not at all.
    pub log_linger_micros: u64,
    /// Bytes of one segment file of the log; at most half of `log_bytes_max`.
    pub log_segment_bytes: u64,
    /// Bytes that may wait to be synced; senders wait beyond.
    pub log_queue_bytes_max: u64,
    /// The most bytes of all files of the log.
    pub log_bytes_max: u64,
    /// Bytes that the log leaves free on its disk.
    pub log_free_bytes_min: u64,
    /// Go on behind what is damaged in the log, which is then lost.
    pub log_skip_corrupt: bool,
    /// Producers whose numbers are remembered, for each stream.
    pub producers_max: usize,
    /// Bytes of events that wait in memory for each table; what is more is read from the log again.
    pub feed_bytes_max: usize,
    /// Milliseconds that a table or a view may lag, once events do not fit there, before senders wait for it; 0: they never do.
    pub feed_lag_ms_max: u64,
    /// Location of the tables: a directory, or `s3://bucket/prefix`; empty: in the data directory.
    pub store_location: String,
    /// Options of the object store, as `name=value`.
    pub store_options: Vec<String>,
    /// Milliseconds that the first uncommitted row of a table waits for its commit at most.
    pub store_commit_interval_ms: u64,
    /// Bytes of uncommitted columns that start a commit before that.
    pub store_commit_bytes: usize,
    /// Bytes of uncommitted columns in memory, for each table.
    pub store_tail_bytes_max: usize,
    /// Files that compaction makes are about this large.
    pub store_compact_bytes: u64,
    /// Milliseconds that earlier versions of a table can be read.
    pub store_versions_kept_ms: u64,
    /// Milliseconds that a backup waits for the log to sync; statements wait meanwhile.
    pub backup_sync_ms_max: u64,
    /// Milliseconds between snapshots of the catalog, after which the log is trimmed.
    pub checkpoint_interval_ms: u64,
    /// Bytes of memory that one statement of SQL may hold; beyond, sorts, groups and joins go to disk.
    pub sql_memory_bytes_max: usize,
    /// Bytes that all statements together may have on disk.
    pub sql_spill_bytes_max: u64,
    /// Threads for SQL; 0: one per core.
    pub sql_threads: usize,
    /// Statements that run at once; others wait.
    pub sql_statements_max: usize,
    /// Statements of one client that run at once; 0: three quarters of `sql_statements_max`.
    pub sql_statements_max_per_client: usize,
    /// The other machines on which statements run, and whose tasks this node runs.
    pub sql_nodes: SqlNodes,
    /// Bytes of the log that are kept for durable queries besides what tables and views need; what is older comes from the
    /// stream's table.
    pub detached_log_bytes_max: u64,
    /// The limits of saved objects.
    pub saved: SavedLimits,
    /// The most endpoints that there can be.
    pub endpoints_max: usize,
    /// The most views that there can be.
    pub views_max: usize,
    /// The most alerts that there can be.
    pub alerts_max: usize,
    /// Keys that may meet an alert's condition at once; more are passed over and counted.
    pub alert_keys_max: usize,
    /// Bytes of keys and their states that all views together hold in memory, about; others are read from disk.
    pub views_memory_bytes_max: usize,
    /// Bytes of the views' files that are held in memory, for reading.
    pub views_cache_bytes: usize,
    /// Milliseconds between the commits of a view; after a crash, events since the last one are read again.
    pub views_commit_interval_ms: u64,
    /// Bytes that a table may take in memory which events are joined with, about.
    pub joined_bytes_max: usize,
    /// The most joins that there can be.
    pub joins_max: usize,
    /// Bytes of kept events that all joins together hold in memory, about; others are read from disk.
    pub joins_memory_bytes_max: usize,
    /// Bytes that one join keeps of events at most; one that would keep more does not go on.
    pub joins_state_bytes_max: u64,
    /// The most sinks that there can be.
    pub sinks_max: usize,
    /// Changes kept of a view for sinks that have not delivered them; beyond the limit, the oldest are dropped.
    pub sinks_changes_max: u64,
    /// Bytes of the log that are retained for sinks of events alone; older events are read from the stream's table.
    pub sinks_log_bytes_max: u64,
    /// The directory that files of sinks are below; empty: `sinks` in the data directory.
    pub sinks_dir: String,
    /// Webhooks may be at addresses of this machine and of private networks.
    pub sinks_private_addresses: bool,
    /// Milliseconds that the statements of a text may take together; 0: as long as they take.
    pub sql_timeout_ms: u64,
    /// Milliseconds that a statement waits for the reader of its answer to take rows; 0: as long as it takes.
    pub sql_unread_ms_max: u64,
    /// The most jobs that there can be.
    pub jobs_max: usize,
    /// Jobs that run at once; others wait.
    pub jobs_running_max: usize,
    /// Milliseconds that a job rests after a first failure; twice as long after each further one.
    pub jobs_retry_pause_ms_min: u64,
    /// The longest such rest.
    pub jobs_retry_pause_ms_max: u64,
    /// Milliseconds that an attempt at a job's run may take, where the job does not say; 0: as long as it takes.
    pub jobs_timeout_ms: u64,
    /// Milliseconds that a search may take.
    pub search_timeout_ms: u64,
    /// The most hits of one search.
    pub search_hits_max: usize,
    /// The most streams of one search.
    pub search_streams_max: usize,
    /// The most values that a facet or a histogram of a search counts.
    pub search_facet_values_max: usize,
    /// The most searches that run at once; others wait.
    pub search_searches_max: usize,
    /// The most searches that wait; others are refused.
    pub search_waiting_max: usize,
    /// The most bytes of memory that builds and merges of index files take together.
    pub search_memory_bytes_max: usize,
    /// The connections to Kafka.
    pub kafka: KafkaConnections,
    /// The cluster that this server is a node of.
    pub cluster: Option<ClusterConfig>,
}

/// The settings of a node of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The name of the cluster; its topics begin with it.
    pub name: String,
    /// The name of the node, which no other node of the cluster has.
    pub node: String,
    /// The work that the node takes.
    pub roles: Roles,
    /// The address by which clients and other nodes reach the node, as `http://10.0.0.5:8080`.
    pub advertise: Option<String>,
    /// The brokers.
    pub kafka: Arc<dyn Kafka>,
    /// The name of their connection, of which the settings for schemas are.
    pub connection: String,
    /// The time between two units of a worker.
    pub flush: Duration,
    /// The time that a window waits for partitions that are behind.
    pub partial_wait: Duration,
    /// Bytes of events per second, by their messages' times, that a query may have if one node computes it; four times as many at once.
    pub event_bytes_per_second: u64,
    /// The protocol of the groups of nodes.
    pub group_protocol: GroupProtocol,
    /// The time without a heartbeat after which the partitions of a node go to others; with [`GroupProtocol::Consumer`] the brokers set it.
    pub session_timeout: Duration,
    /// The time between two looks for queries whose nodes are gone.
    pub sweep: Duration,
    /// The partitions of the topic of units, if the node makes it.
    pub partials: u32,
}

impl PartialEq for ClusterConfig {
    fn eq(&self, other: &ClusterConfig) -> bool {
        self.name == other.name && self.node == other.node
    }
}

impl HistoryConfig {
    /// The defaults, in a data directory.
    pub fn at(dir: impl Into<PathBuf>) -> HistoryConfig {
        let (log, store, sql) = (LogOptions::default(), StoreOptions::at(""), SqlOptions::default());
        HistoryConfig {
            dir: dir.into(),
            is_temporary: false,
            ack: Ack::Disk,
            store_new_streams: false,
            log_compression: CompressionPolicy::AsNeeded,
            log_commit_bytes: log.group_bytes_max,
            log_linger_micros: 0,
            log_segment_bytes: log.segment_bytes,
            log_queue_bytes_max: log.queue_bytes_max,
            log_bytes_max: log.bytes_max,
            log_free_bytes_min: log.free_bytes_min,
            log_skip_corrupt: log.skip_corrupt,
            producers_max: 10_000,
            feed_bytes_max: 64 << 20,
            feed_lag_ms_max: 5_000,
            store_location: String::new(),
            store_options: Vec::new(),
            store_commit_interval_ms: store.commit_interval.as_millis() as u64,
            store_commit_bytes: store.commit_bytes,
            store_tail_bytes_max: store.tail_bytes_max,
            store_compact_bytes: store.compact_file_bytes,
            store_versions_kept_ms: store.vacuum_retention.as_millis() as u64,
            backup_sync_ms_max: 10_000,
            checkpoint_interval_ms: 5_000,
            sql_memory_bytes_max: sql.memory_bytes_max,
            sql_spill_bytes_max: sql.spill_bytes_max,
            sql_threads: sql.threads,
            sql_statements_max: sql.statements_max,
            sql_statements_max_per_client: sql.statements_max_per_client,
            sql_nodes: SqlNodes::default(),
            detached_log_bytes_max: 1 << 30,
            views_max: 1_000,
            alerts_max: 1_000,
            alert_keys_max: 100_000,
            saved: SavedLimits::default(),
            endpoints_max: 1_000,
            views_memory_bytes_max: 1 << 30,
            views_cache_bytes: 128 << 20,
            views_commit_interval_ms: 1_000,
            joined_bytes_max: 256 << 20,
            joins_max: 100,
            joins_memory_bytes_max: 256 << 20,
            joins_state_bytes_max: 16 << 30,
            sinks_max: 1_000,
            sinks_changes_max: 10_000_000,
            sinks_log_bytes_max: 1 << 30,
            sinks_dir: String::new(),
            sinks_private_addresses: false,
            sql_timeout_ms: 60 * 60 * 1_000,
            sql_unread_ms_max: sql.unread_max.map_or(0, |time| time.as_millis() as u64),
            jobs_max: 1_000,
            jobs_running_max: 4,
            jobs_retry_pause_ms_min: 1_000,
            jobs_retry_pause_ms_max: 300_000,
            jobs_timeout_ms: 24 * 60 * 60 * 1_000,
            search_timeout_ms: 30_000,
            search_hits_max: 10_000,
            search_streams_max: 64,
            search_facet_values_max: 100_000,
            search_searches_max: 16,
            search_waiting_max: 100,
            search_memory_bytes_max: 128 << 20,
            kafka: KafkaConnections::default(),
            cluster: None,
        }
    }

    pub(crate) fn log(&self) -> LogOptions {
        let log = LogOptions::default();
        let segment_bytes = self.log_segment_bytes.min(LogOptions::segment_bytes_in(self.log_bytes_max));
        let fitting = LogOptions::record_bytes_in(segment_bytes).min(self.log_queue_bytes_max);
        LogOptions {
            record_bytes_max: log.record_bytes_max.min(fitting),
            group_bytes_max: self.log_commit_bytes.min(segment_bytes),
            segment_bytes,
            linger: Duration::from_micros(self.log_linger_micros),
            queue_bytes_max: self.log_queue_bytes_max,
            bytes_max: self.log_bytes_max,
            free_bytes_min: self.log_free_bytes_min,
            compressing: self.log_compression,
            skip_corrupt: self.log_skip_corrupt,
            ..log
        }
    }

    pub(crate) fn store(&self, default_location: String) -> StoreOptions {
        let is_default = self.store_location.is_empty() || self.worker_location().is_some();
        let location = if is_default { default_location } else { self.store_location.clone() };
        self.store_at(location)
    }

    /// A store at a location.
    pub(crate) fn store_at(&self, location: String) -> StoreOptions {
        let options = self.store_options.iter().filter_map(|option| option.split_once('='));
        StoreOptions {
            storage: options.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect(),
            commit_interval: Duration::from_millis(self.store_commit_interval_ms),
            commit_bytes: self.store_commit_bytes,
            tail_bytes_max: self.store_tail_bytes_max,
            compact_file_bytes: self.store_compact_bytes,
            log_retention: Duration::from_millis(self.store_versions_kept_ms),
            vacuum_retention: Duration::from_millis(self.store_versions_kept_ms),
            ..StoreOptions::at(location)
        }
    }
}

/// SQL's settings about other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlNodes {
    /// The addresses of the workers on which statements run; empty: all run on this node.
    pub workers: Vec<String>,
    /// The address on which this node takes the tasks of other nodes; empty: it takes none.
    pub listen: String,
    /// The address under which workers reach this node; empty: `http://` and [`SqlNodes::listen`].
    pub advertise: String,
    /// The file with the secret that all nodes share; empty: there is none.
    pub secret_file: String,
    /// Bytes of files from which on a statement runs on several machines.
    pub above_bytes: u64,
    /// Bytes of rows that are held back before the first is returned.
    pub hold_bytes: u64,
    /// The node is a worker alone: it reads the tables at `store.location`, and owns none of them.
    pub is_worker: bool,
}

impl Default for SqlNodes {
    fn default() -> SqlNodes {
        SqlNodes {
            workers: Vec::new(),
            listen: String::new(),
            advertise: String::new(),
            secret_file: String::new(),
            above_bytes: 2 << 30,
            hold_bytes: 4 << 20,
            is_worker: false,
        }
    }
}

/// The connections to Kafka, by name, and how they are used.
#[derive(Clone)]
pub struct KafkaConnections {
    /// The connections of the settings.
    pub connections: BTreeMap<Box<str>, Arc<dyn Kafka>>,
    /// The settings of schemas, by connection.
    pub schemas: BTreeMap<Box<str>, SchemaSettings>,
    /// The time between two looks at a topic: for new partitions, ends of partitions, and whether it was made again.
    pub refresh: Duration,
}

/// The settings of a connection for messages with a schema: a registry, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchemaSettings {
    /// The URL of the connection's registry. Name, password and authorities are for it alone.
    pub registry: Option<String>,
    /// The name for basic authentication.
    pub registry_username: Option<String>,
    /// The file with the password.
    pub registry_password_file: Option<PathBuf>,
    /// A PEM file with authorities to trust beside those of the system.
    pub registry_ca_file: Option<PathBuf>,
    /// The directory of files with schemas; not set: `schemas` in the data directory.
    pub schema_dir: Option<PathBuf>,
}

impl SchemaSettings {
    /// True if a URL is that of the connection's registry, up to slashes at the end.
    pub fn is_registry(&self, url: &str) -> bool {
        let registry = self.registry.as_deref();
        registry.is_some_and(|registry| registry.trim_end_matches('/') == url.trim_end_matches('/'))
    }
}

impl Default for KafkaConnections {
    fn default() -> KafkaConnections {
        let refresh = Duration::from_secs(10);
        KafkaConnections { connections: BTreeMap::new(), schemas: BTreeMap::new(), refresh }
    }
}

impl fmt::Debug for KafkaConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.connections.keys()).finish()
    }
}

/// Equal if they are the same connections.
impl PartialEq for KafkaConnections {
    fn eq(&self, other: &KafkaConnections) -> bool {
        let is_there = |name: &str, kafka: &Arc<dyn Kafka>| {
            other.connections.get(name).is_some_and(|there| Arc::ptr_eq(there, kafka))
        };
        let are_there = self.connections.iter().all(|(name, kafka)| is_there(name, kafka));
        are_there && self.connections.len() == other.connections.len() && self.schemas == other.schemas
    }
}

/// The limits of saved objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedLimits {
    /// The most of them.
    pub objects_max: usize,
    /// The most bytes of all their texts and comments, which are in memory and in each snapshot of the catalog.
    pub bytes_max: usize,
}

impl Default for SavedLimits {
    fn default() -> SavedLimits {
        SavedLimits { objects_max: 10_000, bytes_max: 64 << 20 }
    }
}
