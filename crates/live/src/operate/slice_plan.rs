//! The boundaries at which the events of an operator are cut into slices, for readers of its batches.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use swiftwater_event::Millis;

use super::SliceBoundaries;
use crate::standing::StandingQuery;

/// The epochs of an operator: from which offset on, and how each is cut. Shared by all shards; an epoch is added before
/// any batch of it is taken, so what a batch finds here depends on its offset alone.
#[derive(Debug)]
pub struct SlicePlan {
    epochs: RwLock<Vec<(u64, Arc<SliceBoundaries>)>>,
    /// Start of the last of them: most batches need only that one.
    last: AtomicU64,
}

impl Default for SlicePlan {
    fn default() -> SlicePlan {
        SlicePlan::new(SliceBoundaries::default())
    }
}

impl SlicePlan {
    /// The plan of a single query, whose windows by arrival begin at `origin`.
    pub fn of(query: &StandingQuery, origin: Millis) -> SlicePlan {
        SlicePlan::new(SliceBoundaries::of(query, origin))
    }

    /// One epoch, from the stream's first event on.
    pub fn new(cuts: SliceBoundaries) -> SlicePlan {
        SlicePlan { epochs: RwLock::new(vec![(0, Arc::new(cuts))]), last: AtomicU64::new(0) }
    }

    /// Begins an epoch with the event at `first`, which is not yet looked at; forgets those that end at `looked_at` or
    /// before. Epochs that begin later stay as they are.
    pub fn begin(&self, first: u64, cuts: SliceBoundaries, looked_at: u64) {
        let mut epochs = self.epochs.write().unwrap_or_else(PoisonError::into_inner);
        let place = epochs.partition_point(|(of, _)| *of < first);
        match epochs.get_mut(place) {
            Some((of, same)) if *of == first => *same = Arc::new(cuts),
            _ => epochs.insert(place, (first, Arc::new(cuts))),
        }
        let past = epochs.iter().skip(1).take_while(|(of, _)| *of <= looked_at).count();
        epochs.drain(..past);
        self.last.store(epochs.last().map_or(0, |(of, _)| *of), Ordering::Release);
    }

    /// The epoch of an offset, and its cuts.
    pub fn at(&self, offset: u64) -> (u64, Arc<SliceBoundaries>) {
        self.with(offset, |epoch, cuts| (epoch, Arc::clone(cuts)))
    }

    /// Calls `make` with the epoch of an offset and its cuts.
    pub(crate) fn with<T>(&self, offset: u64, make: impl FnOnce(u64, &Arc<SliceBoundaries>) -> T) -> T {
        let epochs = self.epochs.read().unwrap_or_else(PoisonError::into_inner);
        let place = epochs.partition_point(|(first, _)| *first <= offset).saturating_sub(1);
        match epochs.get(place) {
            Some((first, cuts)) => make(*first, cuts),
            None => make(0, &Arc::default()),
        }
    }

    /// The epoch of an offset.
    pub(crate) fn epoch(&self, offset: u64) -> u64 {
        let last = self.last.load(Ordering::Acquire);
        if offset >= last { last } else { self.with(offset, |epoch, _| epoch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_may_begin_before_one_that_is_to_come() {
        let plan = SlicePlan::default();
        for first in [100, 50, 100, 70] {
            plan.begin(first, SliceBoundaries::default(), 0);
        }
        let quickly = |plan: &SlicePlan| [0, 49, 50, 69, 70, 99, 100, 500].map(|offset| plan.epoch(offset));
        assert_eq!(quickly(&plan), [0, 0, 50, 50, 70, 70, 100, 100]);
        let epochs = |plan: &SlicePlan| [0, 49, 50, 69, 70, 99, 100, 500].map(|offset| plan.at(offset).0);
        assert_eq!(epochs(&plan), [0, 0, 50, 50, 70, 70, 100, 100]);
        // Nothing before 70 is looked at any more.
        plan.begin(100, SliceBoundaries::default(), 70);
        assert_eq!(epochs(&plan)[4..], [70, 70, 100, 100]);
        assert_eq!(quickly(&plan), epochs(&plan));
    }
}
