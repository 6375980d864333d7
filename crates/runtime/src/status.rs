//! Metrics of the running queries and streams and their cost, for `GET /v1/…`, `/metrics` and `swiftwater top`.

use std::sync::Arc;

use swiftwater_event::{Millis, StreamName};

use crate::QueryId;

/// One standing query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryStatus {
    /// Its identity.
    pub id: QueryId,
    /// Its text.
    pub text: Arc<str>,
    /// `native` or `bullet`.
    pub dialect: &'static str,
    /// Its stream.
    pub stream: StreamName,
    /// True if the stream has had an event yet.
    pub stream_exists: bool,
    /// Time at which it was received.
    pub received: Millis,
    /// End of its duration.
    pub ends: Option<Millis>,
    /// Time of its end, for detached queries whose results wait.
    pub finished: Option<Millis>,
    /// True if it outlives its client.
    pub detached: bool,
    /// True if it goes on after a restart.
    pub durable: bool,
    /// The reason why it does not, if it outlives its client.
    pub fleeting: Option<Box<str>>,
    /// True if somebody reads its results.
    pub attached: bool,
    /// Emits so far.
    pub emits: u64,
    /// Records so far.
    pub records: u64,
    /// Records lost because the reader was slow.
    pub dropped: u64,
    /// Bytes of groups, rows and windows that it holds.
    pub state_bytes: u64,
    /// Its share of the work.
    pub cost: QueryCost,
    /// The lag, as in an emit's meta.
    pub lag_ms: u64,
}

/// A query's share of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryCost {
    /// Events that its access predicate found (all, for a query without one).
    pub candidates: u64,
    /// Events on which its residual was tested.
    pub residual_tests: u64,
    /// Events that it matched.
    pub matches: u64,
    /// Bytes of records given out.
    pub bytes_out: u64,
    /// Nanoseconds of shards' time spent on its residual and operators.
    pub cpu_nanos: u64,
}

/// One stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamStatus {
    /// Its name.
    pub name: StreamName,
    /// True if its events are kept.
    pub is_stored: bool,
    /// Events accepted.
    pub events: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Events refused.
    pub rejected: u64,
    /// The next offset.
    pub position: u64,
    /// Arrival of the newest event.
    pub newest_arrival: Option<Millis>,
    /// Events a second, over the last second.
    pub events_per_second: f64,
    /// Bytes a second, over the last second.
    pub bytes_per_second: f64,
    /// Queries that stand on it.
    pub queries: u64,
    /// Bytes that wait to be looked at.
    pub pending_bytes: u64,
    /// Milliseconds that the oldest of them has waited.
    pub lag_ms: u64,
    /// Milliseconds that the oldest event has waited that the stream's table, or a view of it, has not committed, about; 0 if
    /// there is no such event.
    pub stored_lag_ms: u64,
    /// The share that its sources send on, where they sample.
    pub sample: Option<f64>,
}

/// The newest events of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentEvents {
    /// A sample, oldest first: every event of a slow stream, about fifty a second of a fast one.
    pub events: Vec<RecentEvent>,
    /// The number of events that arrived since the first of them, itself counted; 0 where there is none.
    pub arrived: u64,
}

/// An event of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentEvent {
    /// The time of its arrival.
    pub arrival: Millis,
    /// Its offset in the stream.
    pub offset: u64,
    /// Its JSON text, as it arrived.
    pub event: Arc<[u8]>,
}

/// Stages of a shard's work, in order.
pub const STAGES: [&str; 4] = ["decode", "match", "operate", "deliver"];

/// One shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardStatus {
    /// Batches looked at.
    pub batches: u64,
    /// Events looked at.
    pub events: u64,
    /// Nanoseconds spent in each of [`STAGES`].
    pub busy_nanos: [u64; STAGES.len()],
    /// Nanoseconds since the shard began.
    pub up_nanos: u64,
}

/// Upper bounds, in microseconds, of the read-to-match histogram; a last bucket holds what is above.
pub const LATENCY_BOUNDS_MICROS: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000,
];

/// All numbers at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    /// Every stream.
    pub streams: Vec<StreamStatus>,
    /// Every shard.
    pub shards: Vec<ShardStatus>,
    /// Standing queries.
    pub queries: u64,
    /// Queries ever submitted.
    pub queries_submitted: u64,
    /// Queries ever refused.
    pub queries_refused: u64,
    /// Queries ever ended, by anything.
    pub queries_ended: u64,
    /// The number of those that ended by a failure.
    pub queries_failed: u64,
    /// Records ever given out.
    pub records_out: u64,
    /// Bytes of them.
    pub bytes_out: u64,
    /// Records ever lost to slow readers.
    pub records_dropped: u64,
    /// Batches from their reading to the end of their matching: a count for each of [`LATENCY_BOUNDS_MICROS`], and one above.
    pub read_to_match: [u64; LATENCY_BOUNDS_MICROS.len() + 1],
    /// Sum of the same, in microseconds.
    pub read_to_match_micros: u64,
    /// Bytes that wait to be looked at, and the most that may.
    pub pending_bytes: (u64, u64),
    /// Bytes of emits that wait for subscribers.
    pub subscriber_bytes: u64,
    /// Bytes that queries hold, and the most that they may.
    pub state_bytes: (u64, u64),
    /// Bytes of the samples of the streams' newest events, and the most that there may be.
    pub recent_bytes: (u64, u64),
    /// Bytes of the matcher's index; none where they were not asked for.
    pub index_bytes: Option<u64>,
    /// The engine's time less the machine's clock.
    pub clock_offset_seconds: f64,
}
