//! Reports the standing queries, the streams and the metrics of a runtime.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use swiftwater_catalog::ObjectKind;
use swiftwater_event::StreamName;

use super::Runtime;
use crate::{
    Metrics, Principal, QueryId, QueryStatus, RecentEvents, RuntimeError, StreamStatus,
    query::handle::QueryHandle, stream::Stream,
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

    /// The newest events of a stream.
    pub fn recent_events(
        &self,
        _principal: &Principal,
        name: &StreamName,
    ) -> Result<RecentEvents, RuntimeError> {
        let stream = self.shared.find_stream(name).filter(|stream| stream.exists());
        let stream = stream.ok_or_else(|| RuntimeError::not_found(ObjectKind::Stream, name.as_str()))?;
        let (events, arrived) = stream.recent();
        Ok(RecentEvents { events, arrived })
    }

    /// The number of events of every stream that was created or has had one, by name: cheaper than [`Runtime::streams`].
    pub fn event_counts(&self) -> Vec<(StreamName, u64)> {
        let streams = self.shared.all_streams();
        streams.iter().filter_map(|stream| Some((stream.name.clone(), stream.event_count()?))).collect()
    }

    /// All numbers at this moment.
    pub fn metrics(&self) -> Metrics {
        let streams = self.shared.all_streams();
        let index_bytes = streams.iter().map(|stream| stream.index_bytes()).sum();
        Metrics { index_bytes: Some(index_bytes), ..self.metrics_over(&streams) }
    }

    /// All numbers at this moment except for `index_bytes`, with the streams of these names alone: its cost does not grow with
    /// the number of streams.
    pub fn metrics_of(&self, streams: &[StreamName]) -> Metrics {
        let streams: Vec<Arc<Stream>> =
            streams.iter().filter_map(|name| self.shared.find_stream(name)).collect();
        self.metrics_over(&streams)
    }

    fn metrics_over(&self, streams: &[Arc<Stream>]) -> Metrics {
        let shared = &self.shared;
        let totals = &shared.totals;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = shared.clock.now();
        // By itself: its lock comes after the streams'.
        let killed = shared.expiring.lock().killed.len();
        let queries = shared.queries.read().len();
        let queries = queries.saturating_sub(killed) as u64;
        Metrics {
            queries,
            index_bytes: None,
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
            recent_bytes: shared.recent.as_ref().map_or((0, 0), |recent| recent.used_and_max()),
            state_bytes: (read(&totals.state_bytes), shared.config.state_bytes_max as u64),
            clock_offset_seconds: shared.steady.offset_seconds(),
        }
    }
}
