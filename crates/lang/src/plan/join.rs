//! The plan of a join of two streams.

use swiftwater_event::StreamName;

use super::{Expr, OutputColumn};

/// Pairs of events of two streams that have equal keys and happened within some time of one another.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinPlan {
    /// The left stream and the right one; they may be the same.
    pub sides: [JoinSide; 2],
    /// The least time of the right event minus that of the left one, in milliseconds.
    pub low_ms: i64,
    /// The greatest.
    pub high_ms: i64,
    /// The condition on a pair. Over slots: the left side's values, then the right side's.
    pub filter: Option<Expr>,
    /// The columns of a pair, over the same slots.
    pub columns: Vec<OutputColumn>,
}

/// One of the two streams.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinSide {
    /// The stream.
    pub stream: StreamName,
    /// The time of an event; a path.
    pub time: Expr,
    /// Milliseconds by which events may be late.
    pub lateness_ms: u64,
    /// Milliseconds by which an event's time may be ahead of its arrival; none: no limit.
    pub max_ahead_ms: Option<u64>,
    /// The time without an event, in milliseconds, after which its event time advances; none: never.
    pub idle_after_ms: Option<u64>,
    /// The keys, each equal to that of the other side at the same place; over the event.
    pub keys: Vec<Expr>,
    /// Events for which this is not true join nothing; over the event.
    pub filter: Option<Expr>,
    /// The values of an event that pairs need; paths.
    pub values: Vec<Expr>,
}
