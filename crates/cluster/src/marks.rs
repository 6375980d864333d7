//! The marks of a partition: the part of it that was taken, of each query.

use std::collections::{BTreeMap, BTreeSet};

use swiftwater_event::Millis;

use crate::{NodeName, QueryNumber};

/// The marks of a partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) node: Option<NodeName>,
    /// All queries but those that are behind have what is before this offset, and before this time.
    pub(crate) done: Done,
    /// The queries that have less: of which no worker has sent anything, or only one that is behind another.
    pub(crate) behind: Behind,
    /// Windows do not wait for it.
    pub(crate) is_missing: bool,
}

/// The part of a partition that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) time: Millis,
    pub(crate) next: u64,
}

impl Done {
    pub(crate) const NOTHING: Done = Done { time: Millis::MIN, next: 0 };

    pub(crate) fn max(self, other: Done) -> Done {
        Done { time: self.time.max(other.time), next: self.next.max(other.next) }
    }
}

/// Queries of which less was taken than of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behind {
    pub(crate) of: BTreeMap<QueryNumber, Done>,
    pub(crate) times: BTreeSet<(Millis, QueryNumber)>,
}

impl Behind {
    pub(crate) fn insert(&mut self, query: QueryNumber, done: Done) {
        self.remove(query);
        self.of.insert(query, done);
        self.times.insert((done.time, query));
    }

    pub(crate) fn remove(&mut self, query: QueryNumber) {
        if let Some(before) = self.of.remove(&query) {
            self.times.remove(&(before.time, query));
        }
    }
}

impl Partition {
    /// The time up to which it is done for all queries.
    pub(crate) fn time(&self) -> Millis {
        self.behind.times.first().map_or(self.done.time, |(time, _)| self.done.time.min(*time))
    }

    /// The part of it that was taken of a query.
    pub(crate) fn done_of(&self, query: QueryNumber) -> Done {
        self.behind.of.get(&query).copied().unwrap_or(self.done)
    }
}
