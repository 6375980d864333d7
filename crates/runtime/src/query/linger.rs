//! Queries that outlive their reader for a stated time, so that a reader whose connection broke attaches again without a gap.
//!
//! Such a query retains the emits that were read, as a detached one does. Its time begins when its reader leaves, and begins
//! anew with each further reader that leaves. When it is over, and nobody has attached, the query ends and is forgotten.

use std::collections::{BTreeSet, HashMap};

use swiftwater_event::Millis;

use crate::QueryId;

/// The time of a query that outlives its reader for good.
pub(crate) const FOR_GOOD: u32 = u32::MAX;

/// Queries whose reader has left, with the times at which they end. Bounded: each has one entry, and their number is.
#[derive(Debug, Default)]
pub(crate) struct LingeringQueries {
    ends: HashMap<QueryId, Millis>,
    by_end: BTreeSet<(Millis, QueryId)>,
}

impl LingeringQueries {
    pub(crate) fn insert(&mut self, id: QueryId, end: Millis) {
        self.remove(&id);
        self.ends.insert(id, end);
        self.by_end.insert((end, id));
    }

    pub(crate) fn remove(&mut self, id: &QueryId) {
        if let Some(end) = self.ends.remove(id) {
            self.by_end.remove(&(end, *id));
        }
    }

    /// Removes a query whose time is over, the first to be.
    pub(crate) fn take_over(&mut self, now: Millis) -> Option<QueryId> {
        let (_, id) = self.by_end.first().copied().filter(|(end, _)| *end <= now)?;
        self.remove(&id);
        Some(id)
    }
}
