//! Metrics of the durable state and its cost, as counters and gauges, for `/metrics` and `SHOW`.

use swiftwater_event::{Millis, StreamName};

/// A job, in numbers since it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// Its name.
    pub name: Box<str>,
    /// An attempt is being made.
    pub is_running: bool,
    /// Runs that succeeded.
    pub runs: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Attempts after a failure that came to their end.
    pub retries: u64,
    /// Rows that its statements wrote.
    pub rows: u64,
    /// Milliseconds that its statements took, those that failed included.
    pub millis: u64,
}

/// The metrics of the durable state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryMetrics {
    /// Bytes that the log has ever synced.
    pub log_bytes: u64,
    /// Bytes appended to the log and not yet synced.
    pub log_queued_bytes: u64,
    /// Bytes of the log's files, those kept for reuse included.
    pub log_file_bytes: u64,
    /// Groups that were written and synced since the start.
    pub log_syncs: u64,
    /// Nanoseconds that their syncs took.
    pub log_sync_nanos: u64,
    /// The table of every stored stream.
    pub tables: Vec<TableMetrics>,
    /// All views together.
    pub views: ViewsMetrics,
    /// All joins together.
    pub joins: JoinsMetrics,
    /// Every job, by name.
    pub jobs: Vec<JobStatus>,
    /// All sinks, by name.
    pub sinks: Vec<SinkStatus>,
    /// The topics that streams read, by stream.
    pub topics: Vec<TopicMetrics>,
}

/// The topic that a stream reads, all its partitions together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicMetrics {
    /// The stream.
    pub stream: String,
    /// Messages between the positions and the ends of the partitions.
    pub lag: u64,
    /// Messages that were deleted before they were read, since the server started.
    pub lost: u64,
    /// Offsets that statements have skipped, since the server started.
    pub skipped: u64,
    /// Messages without a value that were left out, since the server started.
    pub tombstones: u64,
    /// Partitions that are not read at present because of an error; all of them if the topic cannot be read.
    pub failing_partitions: u64,
}

/// All views together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewsMetrics {
    /// The number of views.
    pub views: u64,
    /// Events that were taken and that a view does not count yet, of all views.
    pub lag_events: u64,
    /// Keys in memory.
    pub keys_held: u64,
    /// Bytes that these take, about.
    pub held_bytes: u64,
    /// Keys that were looked for and found in memory, since the start.
    pub reads_held: u64,
    /// Keys that were looked for on disk, since the start.
    pub reads_stored: u64,
    /// Views that are not kept on disk, or do not go on.
    pub failing: u64,
    /// The number of alerts there are.
    pub alerts: u64,
    /// Keys that meet the condition of one.
    pub alerts_firing: u64,
    /// Alerts that do not go on at present.
    pub alerts_failing: u64,
}

/// A stored stream's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMetrics {
    /// The name of the stream.
    pub name: StreamName,
    /// Events that the stream has taken and the table has not committed.
    pub lag_events: u64,
    /// Commits of events since the start, and those of upkeep.
    pub commits: u64,
    /// Files of its newest version.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Requests that waited because the table, or a view of the stream, lagged.
    pub held_back: u64,
    /// Bytes of rows that wait in memory for their commit.
    pub waiting_bytes: u64,
    /// The next commit is being tried again, as the store has failed.
    pub is_failing: bool,
}

/// All joins together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinsMetrics {
    /// The number of joins.
    pub joins: u64,
    /// Pairs that they told since they were created.
    pub pairs: u64,
    /// Events that they keep, and bytes of these.
    pub kept_events: u64,
    /// Bytes of what they keep of these.
    pub kept_bytes: u64,
    /// Events that were late.
    pub late: u64,
    /// Events whose times were too far ahead of their arrival.
    pub ahead: u64,
    /// Joins that do not go on at present.
    pub failing: u64,
}

/// The status of a sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkStatus {
    /// Its name.
    pub name: String,
    /// The view that it is of, if it is of one.
    pub view: Option<String>,
    /// The stream whose events it is of, if it is of events.
    pub stream: Option<String>,
    /// Its target: `STREAM s`.
    pub target: String,
    /// Time of its creation.
    pub created: Millis,
    /// Deliveries so far, and rows in them.
    pub delivered: (u64, u64),
    /// Rows that went to the stream for what cannot be delivered.
    pub dead_rows: u64,
    /// Milliseconds of event time from the end of what is delivered to the last window that is closed; none before the first.
    pub behind_ms: Option<u64>,
    /// For a sink of changes: the changes held for the sinks of its view, and those of them that went undelivered since
    /// the start because there were too many.
    pub changes: Option<(u64, u64)>,
    /// For a sink of events: the events of its stream that it has not delivered or passed, and those that were deleted before it
    /// has read them.
    pub events: Option<(u64, u64)>,
    /// Tries since the last delivery.
    pub tries: u32,
    /// The error of the last attempt, if it failed.
    pub failing: Option<String>,
}

/// A cluster that this server is a node of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Its name.
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// The nodes, by name.
    pub nodes: Vec<ClusterNode>,
    /// The partitions of the cluster's streams.
    pub partitions: Vec<ClusterPartition>,
    /// Queries that stand, of all nodes.
    pub queries: u64,
    /// Sentences on what is wrong.
    pub warnings: Vec<String>,
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// The address by which clients reach it, if it has told one.
    pub address: Option<String>,
    /// The host that it is connected to the brokers from.
    pub host: String,
    /// Its release.
    pub version: String,
    /// The names of its roles; none while it is draining.
    pub roles: Vec<&'static str>,
    /// It takes no more work.
    pub is_draining: bool,
    /// It is a member of the group that divides the partitions.
    pub is_worker: bool,
    /// Partitions that are assigned to it.
    pub partitions: u64,
    /// Messages of these partitions that it had not read about a second ago.
    pub lag: u64,
    /// Queries that it serves.
    pub queries: u64,
}

impl ClusterNode {
    /// Its state, as one word.
    pub fn state(&self) -> &'static str {
        if self.is_draining { "draining" } else { "up" }
    }
}

/// A partition of a stream of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPartition {
    /// The stream.
    pub stream: String,
    /// Its topic.
    pub topic: String,
    /// The number of the partition.
    pub partition: u32,
    /// The node that it is assigned to.
    pub node: Option<String>,
    /// The next offset to read, as of about a second ago; none before a node has read it.
    pub next: Option<u64>,
    /// The offset behind its last message.
    pub end: u64,
    /// Messages that are no events, and lines of them, which are in no answer: since the node reads the partition, as `next`.
    pub rejected: u64,
    /// Messages without a value that were left out, since then.
    pub tombstones: u64,
    /// Messages that were deleted before they were read, since then.
    pub lost: u64,
    /// The reason why it is not read at present: its next message has a schema that is not known.
    pub error: Option<String>,
}

impl ClusterPartition {
    /// Messages that were not read; none if that is unknown.
    pub fn lag(&self) -> Option<u64> {
        Some(self.end.saturating_sub(self.next?))
    }
}

/// A query over a stream of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterQueryStatus {
    /// Its identity.
    pub id: String,
    /// Its stream.
    pub stream: String,
    /// Its text.
    pub text: String,
    /// The node that serves it.
    pub node: String,
    /// The time from which on it sees events.
    pub begins: Millis,
}
