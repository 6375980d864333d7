//! Reports the standing queries, the streams and the metrics of a runtime.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use swiftwater_catalog::ObjectKind;
use swiftwater_event::StreamName;

use super::Runtime;
use crate::{
    Metrics, Principal, QueryId, QueryStatus, RuntimeError, StreamStatus, query::handle::QueryHandle,
};

impl Runtime {
    /// The handle of a query, also of one that has ended and waits for pick-up.
    pub fn handle(&self, id: &QueryId) -> Result<Arc<QueryHandle>, RuntimeError> {
        let queries = self.shared.queries.read();
        queries.get(id).cloned().ok_or_else(|| RuntimeError::NoQuery(id.to_string()))
    }

    /// All standing queries, oldest first, and detached ones whose results wait.
    pub fn queries(&self, _principal: &Principal) -> Vec<QueryStatus> {
        let handles: Vec<Arc<QueryHandle>> = self.shared.queries.read().values().cloned().collect();
        let listed = handles.iter().filter(|handle| !handle.is_killed.load(Ordering::Acquire));
        listed.filter_map(|handle| self.shared.status(handle)).collect()
    }

    /// One query.
    pub fn query(&self, _principal: &Principal, id: &QueryId) -> Result<QueryStatus, RuntimeError> {
        let handle = self.handle(id)?;
        self.shared.status(&handle).ok_or_else(|| RuntimeError::NoQuery(id.to_string()))
    }

    /// All streams that were created or have had an event, by name.
    pub fn streams(&self, _principal: &Principal) -> Vec<StreamStatus> {
        let now = self.shared.clock.now();
        let streams = self.shared.all_streams();
        let streams = streams.iter().filter(|stream| stream.exists());
        streams.map(|stream| self.shared.status_of_stream(stream, now)).collect()
    }

    /// One stream.
    pub fn stream(&self, _principal: &Principal, name: &StreamName) -> Result<StreamStatus, RuntimeError> {
        let stream = self.shared.find_stream(name).filter(|stream| stream.exists());
        let stream = stream.ok_or_else(|| RuntimeError::not_found(ObjectKind::Stream, name.as_str()))?;
        Ok(self.shared.status_of_stream(&stream, self.shared.clock.now()))
    }

    /// All numbers at this moment.
    pub fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let totals = &shared.totals;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = shared.clock.now();
        let streams = shared.all_streams();
        // By itself: its lock comes after the streams'.
        let killed = shared.expiring.lock().killed.len();
        let queries = shared.queries.read().len();
        let queries = queries.saturating_sub(killed) as u64;
        Metrics {
            queries,
            index_bytes: streams.iter().map(|stream| stream.index_bytes()).sum(),
            streams: streams.iter().map(|stream| shared.status_of_stream(stream, now)).collect(),
            shards: shared.shard_status(),
            queries_submitted: read(&totals.submitted),
            queries_refused: read(&totals.refused),
            queries_ended: read(&totals.ended),
            queries_failed: read(&totals.failed),
            records_out: read(&totals.records_out),
            bytes_out: read(&totals.bytes_out),
            records_dropped: read(&totals.records_dropped),
            read_to_match: std::array::from_fn(|bucket| read(&shared.read_to_match[bucket])),
            read_to_match_micros: read(&shared.read_to_match_micros),
            pending_bytes: shared.pending.used_and_max(),
            subscriber_bytes: read(&totals.subscriber_bytes),
            state_bytes: (read(&totals.state_bytes), shared.config.state_bytes_max as u64),
            clock_offset_seconds: shared.steady.offset_seconds(),
        }
    }
}
