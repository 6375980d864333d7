//! Replaces the index of a stream's queries when a query begins or leaves, and has a large one rebuilt.
//!
//! Readers share an index by `Arc`, so a replacement never waits for a shard. Replaced indexes are dropped outside all locks.

use std::sync::{Arc, atomic::Ordering};

use swiftwater_event::Millis;
use swiftwater_live::{Index, QueryNumber, Rebuild, SliceBoundaries, SlicePlan};

use super::Stream;

/// The change of a query that replaces the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It begins, at this time, with the next event to come. Its number, and that of the operator that is opened for it,
    /// are above those of all who began on the stream before.
    Begins(QueryNumber, Millis),
    /// It leaves, at this time, before the next event to be taken.
    Leaves(Millis),
}

impl Stream {
    /// Replaces the index where one is given, for a query that begins or leaves; answers the offset of the first event
    /// that it sees, or that it does not see any more, and when the latest of those before arrived. With an operator's
    /// plan and cuts that is an epoch's first event. The caller holds `change`.
    pub(crate) fn turn(
        &self,
        turn: Turn,
        index: Option<Index>,
        epoch: Option<(&SlicePlan, SliceBoundaries, u64)>,
    ) -> (u64, Millis) {
        let mut intake = self.intake.lock();
        let intake = &mut *intake;
        if let Some(index) = index {
            self.has_changed.store(true, Ordering::Relaxed);
            intake.replace_index(index);
        }
        let (offset, at) = match turn {
            Turn::Begins(number, at) => {
                self.has_queries.store(true, Ordering::Release);
                let offset = intake.next_offset;
                let is_new = intake.begins.back().is_none_or(|(begin, _)| *begin < offset);
                if intake.next_taken < offset && is_new {
                    intake.begins.push_back((offset, number));
                }
                (offset, at)
            }
            Turn::Leaves(at) => (intake.next_taken, at),
        };
        // Later events arrive neither before the beginning of a query that sees them, nor before the end of one that
        // does not.
        intake.settled = intake.settled.max(at);
        if let Some((plan, cuts, looked_at)) = epoch {
            plan.begin(offset, cuts, looked_at);
        }
        (offset, intake.newest_arrival)
    }

    /// The present index, for the holder of `change`.
    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.intake.lock().index)
    }

    /// Replaces the index by one of the same queries. The caller holds `change`.
    pub(crate) fn set_index(&self, index: Index) {
        self.has_changed.store(true, Ordering::Relaxed);
        self.intake.lock().replace_index(index);
    }

    /// Frees replaced indexes without readers; for the caller that has replaced one, and holds no lock of the
    /// stream's but `change`.
    pub(crate) fn forget_replaced(&self) {
        let unused: Vec<Arc<Index>> = {
            let mut intake = self.intake.lock();
            intake.replaced.extract_if(.., |index| Arc::strong_count(index) == 1).collect()
        };
        drop(unused);
    }

    /// A large index that is to be built anew, if it is time; `is_quiet`: queries have not changed for a while.
    pub(crate) fn start_rebuild(&self, is_quiet: bool) -> Option<Rebuild> {
        let index = self.index();
        if !(index.is_rebuild_due() || is_quiet && index.is_in_parts()) {
            return None;
        }
        drop(index);
        let _change = self.change.lock();
        let mut index = Index::clone(&self.index());
        let rebuild = if is_quiet { index.rebuild_now() } else { index.rebuild() }?;
        self.set_index(index);
        Some(rebuild)
    }

    /// Begins another second; returns true if queries neither came nor went in the last one.
    pub(crate) fn was_quiet(&self) -> bool {
        !self.has_changed.swap(false, Ordering::Relaxed)
    }

    /// True if the ticker has to look at it.
    pub(crate) fn has_queries(&self) -> bool {
        self.has_queries.load(Ordering::Acquire)
    }

    /// Has the ticker pass it over if its last query has ended.
    pub(crate) fn rest_without_queries(&self) {
        let is_over = || self.running_count() == 0 && self.next_due() == Millis::MAX;
        if !self.has_queries() || !is_over() {
            return;
        }
        // No query begins meanwhile.
        let _change = self.change.lock();
        if is_over() {
            self.has_queries.store(false, Ordering::Release);
        }
    }

    /// Bytes of the index.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.intake.lock().index.bytes() as u64
    }
}
