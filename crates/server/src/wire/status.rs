//! Writes the JSON of queries, streams, positions and refused events.

use serde_json::{Value, json};
use swiftwater_event::Position;
use swiftwater_runtime::{QueryStatus, StreamStatus};

use super::time_text;
use crate::ingest::RejectedEvent;

/// A standing query and its cost. `ends` and `finished` are null where there is no such time; `durable` is there for those that
/// outlive their client, `not_durable` where one was asked that does not outlive the server.
pub fn query_json(query: &QueryStatus) -> Value {
    let mut value = json!({
        "id": query.id.to_string(),
        "text": query.text.as_ref(),
        "dialect": query.dialect,
        "stream": query.stream.as_str(),
        "stream_exists": query.stream_exists,
        "received": time_text(query.received),
        "ends": query.ends.map(time_text),
        "finished": query.finished.map(time_text),
        "detached": query.detached,
        "attached": query.attached,
        "emits": query.emits,
        "records": query.records,
        "dropped": query.dropped,
        "state_bytes": query.state_bytes,
        "lag_ms": query.lag_ms,
        "cost": {
            "candidates": query.cost.candidates,
            "residual_tests": query.cost.residual_tests,
            "matches": query.cost.matches,
            "bytes_out": query.cost.bytes_out,
            "cpu_nanos": query.cost.cpu_nanos,
        },
    });
    if query.detached {
        value["durable"] = query.durable.into();
    }
    if let Some(why) = &query.fleeting {
        value["not_durable"] = why.as_ref().into();
    }
    value
}

/// A stream. `newest_arrival` is null before its first event, `sample` is there only where its sources sample.
pub fn stream_json(stream: &StreamStatus) -> Value {
    let mut value = json!({
        "name": stream.name.as_str(),
        "stored": stream.is_stored,
        "events": stream.events,
        "bytes": stream.bytes,
        "rejected": stream.rejected,
        "position": stream.position,
        "newest_arrival": stream.newest_arrival.map(time_text),
        "events_per_second": stream.events_per_second,
        "bytes_per_second": stream.bytes_per_second,
        "queries": stream.queries,
        "pending_bytes": stream.pending_bytes,
        "lag_ms": stream.lag_ms,
        "stored_lag_ms": stream.stored_lag_ms,
    });
    if let Some(share) = stream.sample {
        value["sample"] = share.into();
    }
    value
}

/// A place in a source.
pub fn position_json(position: &Position) -> Value {
    json!({"source": position.source.as_ref(), "partition": position.partition, "offset": position.offset.0})
}

/// An event that was refused; `path` is the column at fault, or null, since faults of structure have none.
pub(crate) fn refused_json(refused: &RejectedEvent) -> Value {
    json!({"line": refused.line, "column": refused.column, "path": refused.path, "message": refused.message})
}
