//! The intake of a stream: the events that wait, and the index that they will be matched against.

use std::{collections::VecDeque, sync::Arc};

use swiftwater_event::{EventBatch, Millis};
use swiftwater_live::{Index, QueryNumber};

/// Events that wait, and what they will be matched against.
#[derive(Debug, Default)]
pub(super) struct Intake {
    pub(super) waiting: VecDeque<EventBatch>,
    pub(super) waiting_bytes: usize,
    pub(super) index: Arc<Index>,
    /// Indexes that were replaced, and that a shard may still look at. Its last holder takes an index apart, which for a
    /// large one takes a while: that is to be no shard.
    pub(super) replaced: Vec<Arc<Index>>,
    /// The offset of the next event to come, and of the next to be taken.
    pub(super) next_offset: u64,
    pub(super) next_taken: u64,
    pub(super) pace: Pace,
    pub(super) next_sequence: u64,
    /// The beginnings of queries after events that wait. Each has the offset of the first event that the queries
    /// see, and a lower bound of their numbers in the index; the numbers of all earlier queries are below it. At
    /// most one for each batch that waits.
    pub(super) begins: VecDeque<(u64, QueryNumber)>,
    pub(super) bytes: u64,
    pub(super) newest_arrival: Millis,
    /// Windows and durations were looked at up to here: what comes now arrives at this time or later.
    pub(super) settled: Millis,
    pub(super) has_events: bool,
    /// The arrival of the last event that was taken.
    pub(super) taken_arrival: Option<Millis>,
    pub(super) sample: Option<f64>,
    /// The stream stands in the line of those with work.
    pub(super) is_queued: bool,
}

/// The number of events that are taken at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Pace {
    /// Events are taken in full batches.
    #[default]
    Batches,
    /// One: there are queries of which each event closes a window.
    Singly,
    /// No events are taken until the windows are closed that the event of this arrival closes, which was taken alone.
    Waits(Millis),
}

impl Intake {
    /// Replaces the index. The replaced one is remembered until nobody looks at it.
    pub(super) fn replace_index(&mut self, index: Index) {
        let replaced = std::mem::replace(&mut self.index, Arc::new(index));
        self.replaced.push(replaced);
    }
}
