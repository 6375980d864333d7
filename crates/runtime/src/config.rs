//! The runtime's settings, with units in their names. The binary's settings file uses the same names.

use swiftwater_event::StreamName;
use swiftwater_live::SketchSizes;

/// The treatment of a subscriber that reads slower than its query answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowReader {
    /// Its oldest waiting emits are dropped and counted in the next one's meta.
    Drop,
    /// Its query is ended with an error.
    CutOff,
}

/// The treatment of a native query that answers more often than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastQuery {
    /// It is ended with an error.
    End,
    /// The emits that are too many are dropped, and their records counted in the next one's meta.
    Drop,
}

/// The way an engine is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// Threads that decode, match and operate; 0: one per core.
    pub shards: usize,
    /// The meaning of `STREAM()`.
    pub default_stream: Option<StreamName>,
    /// Streams that may exist at once.
    pub streams_max: usize,
    /// Bytes of events that wait to be looked at, over all streams; a source that sends more waits.
    pub pending_bytes_max: usize,
    /// Bytes of small batches that are joined into one before a shard looks at them.
    /// Up to eight times as many where many queries are tested on every event.
    pub batch_bytes_max: usize,
    /// Bytes of the samples of the streams' newest events, all streams together; 0: there are no samples.
    pub recent_bytes_max: usize,
    /// Milliseconds between looks at the clock, for windows and durations.
    pub tick_ms: u64,
    /// Queries that may stand at once.
    pub queries_max: usize,
    /// The longest query text.
    pub query_text_bytes_max: usize,
    /// The longest that a query may stand; 0: no limit.
    pub query_duration_ms_max: u64,
    /// The time a query stands that does not say so; 0: as long as it may.
    pub query_duration_ms_default: u64,
    /// The time for which a manual end of a query waits for the events that were sent before, so that its last answer has them.
    pub query_end_wait_ms: u64,
    /// Emits that a query may give in each `emits_interval_ms`; one that gives more is ended; 0: no limit.
    pub query_emits_max: u64,
    /// The treatment of a query that emits more; one by Bullet's rules is always ended.
    pub fast_query: FastQuery,
    /// The same for queries by Bullet's rules, where each event that a window by record takes in counts too.
    pub bullet_emits_max: u64,
    /// The time over which a query's emits are counted.
    pub emits_interval_ms: u64,
    /// Queries by Bullet's rules are run as if they had no WINDOWING.
    pub bullet_ignores_windows: bool,
    /// Rows of an answer that is given as one (no window, not streaming) where the query states no LIMIT.
    pub answer_rows_default: u64,
    /// The most bytes of records in one emit; a larger result ends its query with an error.
    pub emit_bytes_max: usize,
    /// The most bytes of groups, rows and windows that one query may hold.
    pub query_state_bytes_max: usize,
    /// The most matches of a pattern that may be begun with one key: an event of that key is looked at for each of them.
    pub pattern_partials_max: usize,
    /// The most bytes that all queries together may hold.
    pub state_bytes_max: usize,
    /// Bytes of emits that wait for one subscriber.
    pub subscriber_bytes_max: usize,
    /// Emits that wait for one subscriber.
    pub subscriber_emits_max: usize,
    /// Bytes of emits that wait for all subscribers together; beyond, each one's oldest give way to its newest.
    pub subscribers_bytes_max: usize,
    /// The treatment of a reader when either is exceeded.
    pub slow_reader: SlowReader,
    /// Milliseconds that a detached query that ended is kept for pick-up.
    pub detached_kept_ms: u64,
    /// The most milliseconds for which a query that is not detached may outlive its reader.
    pub linger_ms_max: u64,
    /// Detached queries over stored streams that may stand and go on after a restart; further ones do not go on.
    pub detached_durable_max: usize,
    /// Milliseconds after which it is written down how far such queries are.
    pub detached_noted_ms: u64,
    /// Distinct values that COUNT(DISTINCT) counts exactly: [`SketchSizes::distinct_entries`].
    pub distinct_entries: u32,
    /// Values of which quantiles and distributions are exact: [`SketchSizes::quantile_k`].
    pub quantile_k: u16,
    /// Entries of TOP's map, three quarters of which are counted exactly: [`SketchSizes::top_entries`].
    pub top_entries: u32,
}

impl EngineConfig {
    /// The size limits of the sketches of queries.
    pub fn sketch_sizes(&self) -> SketchSizes {
        SketchSizes {
            distinct_entries: self.distinct_entries,
            quantile_k: self.quantile_k,
            top_entries: self.top_entries,
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        let sketches = SketchSizes::default();
        EngineConfig {
            shards: 0,
            default_stream: None,
            streams_max: 10_000,
            pending_bytes_max: 256 << 20,
            batch_bytes_max: 256 << 10,
            recent_bytes_max: 64 << 20,
            tick_ms: 10,
            queries_max: 100_000,
            query_text_bytes_max: 64 << 10,
            query_duration_ms_max: 0,
            query_duration_ms_default: 0,
            query_end_wait_ms: 1_000,
            query_emits_max: 0,
            fast_query: FastQuery::End,
            bullet_emits_max: 50,
            emits_interval_ms: 100,
            bullet_ignores_windows: false,
            answer_rows_default: 500,
            emit_bytes_max: 64 << 20,
            query_state_bytes_max: 256 << 20,
            pattern_partials_max: 1000,
            state_bytes_max: 4 << 30,
            subscriber_bytes_max: 8 << 20,
            subscriber_emits_max: 4096,
            subscribers_bytes_max: 1 << 30,
            slow_reader: SlowReader::Drop,
            detached_kept_ms: 600_000,
            linger_ms_max: 600_000,
            detached_durable_max: 1_000,
            detached_noted_ms: 1_000,
            distinct_entries: sketches.distinct_entries,
            quantile_k: sketches.quantile_k,
            top_entries: sketches.top_entries,
        }
    }
}
