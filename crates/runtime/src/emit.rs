//! Emits: the records that a standing query returns, and their metadata.

use std::sync::Arc;

use bytes::Bytes;
use swiftwater_catalog::kind::durable_query::EndReason;
use swiftwater_event::{Millis, StreamName};
use swiftwater_live::SketchMeta;

use crate::{QueryCost, QueryId};

/// Records as JSON text: one object a line, each line ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The lines.
    pub text: Bytes,
    /// The number of records.
    pub count: u64,
}

impl Records {
    /// The first so many of them.
    pub(crate) fn first(&self, count: u64) -> Records {
        let mut ends = self.text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let end = match count {
            0 => 0,
            _ => ends.nth(usize::try_from(count - 1).unwrap_or(usize::MAX)).unwrap_or(self.text.len()),
        };
        Records { text: self.text.slice(..end), count: count.min(self.count) }
    }
}

/// One answer, or one part of an answer that never ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Emit {
    /// The records.
    pub records: Records,
    /// The metadata.
    pub meta: EmitMeta,
}

/// The metadata of an emit.
#[derive(Debug, Clone, PartialEq)]
pub struct EmitMeta {
    /// The query; the same for all its emits.
    pub query: Arc<QueryMeta>,
    /// Counts the query's emits, from 1, whether they were read or lost. For a durable query that returns each match as
    /// it comes, it is the number of the emit's last record.
    pub number: u64,
    /// The end of the query; only in its last emit, which always comes.
    pub finished: Option<Finished>,
    /// The window that the records are of; none where the query has none.
    pub window: Option<WindowMeta>,
    /// The stream, as it stood.
    pub stream: StreamMeta,
    /// Events since the query began.
    pub counts: Counts,
    /// The workers and partitions whose events the records are of; only over a cluster.
    pub cluster: Option<ClusterMeta>,
    /// The error bounds of approximate answers.
    pub sketches: Vec<SketchMeta>,
    /// If the records are an outer query's: the error bounds of the result that it read.
    pub inner_sketches: Option<Vec<SketchMeta>>,
    /// The reason why there are no records, if this result could not be made; the query continues.
    pub failure: Option<Box<str>>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The time of a query's end, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The time.
    pub at: Millis,
    /// The reason.
    pub reason: EndReason,
    /// Its share of the work.
    pub cost: QueryCost,
}

/// The constants of a query's life.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryMeta {
    /// Its identity.
    pub id: QueryId,
    /// Its text, as received.
    pub text: Arc<str>,
    /// Its text in Bullet's normal form, where it is by Bullet's rules.
    pub printed: Arc<str>,
    /// Time at which it was received.
    pub received: Millis,
    /// Its share of the stream's events, where it asked for a sample.
    pub sample: Option<f64>,
    /// Names of the records' columns in order, where they are known before the events are (not for `*`).
    pub columns: Option<Arc<[Box<str>]>>,
}

/// The window of an emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowMeta {
    /// `tumbling`, `hopping`, `additive`, `session` or `record`.
    pub kind: &'static str,
    /// The number, from 1.
    pub number: u64,
    /// The matched events of a window by record; 0 for other windows.
    pub records: u64,
    /// Its first instant (that of the first record, for windows by record).
    pub start: Millis,
    /// The first instant after it (that of the last record, for windows by record).
    pub end: Millis,
    /// Time at which it was emitted.
    pub emitted: Millis,
}

/// The part of a cluster's events that an emit is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMeta {
    /// The nodes that match events of the stream.
    pub workers: usize,
    /// The nodes among them whose partitions are all in.
    pub answered: usize,
    /// The partitions of the topic.
    pub partitions: usize,
    /// The partitions that are not in, or not wholly, as `topic/partition`.
    pub missing: Vec<Box<str>>,
}

/// A stream as an emit saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamMeta {
    /// Its name.
    pub name: StreamName,
    /// The next event to read.
    pub position: u64,
    /// Milliseconds that the oldest event not yet looked at has waited; 0 where none waits.
    pub lag_ms: u64,
    /// The share of its events that its sources send on, where they sample.
    pub sample: Option<f64>,
    /// Messages that its source deleted before they were read, since the start of the server; 0 of a stream of a cluster.
    pub lost: u64,
}

/// Events since a query began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Looked at.
    pub seen: u64,
    /// Matched.
    pub matched: u64,
    /// Matched or tested events with a value that did not fit the wanted type.
    pub mistyped: u64,
    /// Events that came after their window was closed.
    pub late: u64,
    /// Events whose times were too far ahead of their arrival: they belong to no window.
    pub ahead: u64,
    /// Records that were answered and then lost, because the subscriber read too slowly.
    pub dropped: u64,
    /// Operations that could not be done, and gave null.
    pub expression_errors: u64,
}
