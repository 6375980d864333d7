//! The memory budget of one statement.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result, human_readable_size};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The most that is kept for what cannot spill.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// DataFusion's name for the memory in which sorts merge their spilled runs. With less they merge fewer files at once.
const SORTS_MERGE: &str = "ExternalSorterMerge";

/// DataFusion's name for the memory of rows on their way between partitions.
const PARTED: &str = "RepartitionExec";

/// DataFusion's fair pool, in which what can do with less leaves room for what cannot.
///
/// Half, up to [`KEPT_BYTES_MAX`], is kept for what cannot spill, and half of that for what is no merge within a sort either.
/// Without it, a sort of one partition takes up all that is left, or such merges do, while that of the sorted partitions, which
/// can give nothing back, needs a little more and fails: which comes first is a matter of luck.
///
/// Rows that are on their way between partitions get what they ask for, and others less: refused, DataFusion 55 puts them aside,
/// and where two tasks do that at once their reader waits for ever for the one whose rows do not come (its issue 24883). They are
/// few, as who sends them waits while each partition has some.
#[derive(Debug)]
pub(crate) struct StatementPool {
    fair: FairSpillPool,
    /// Memory of the consumers that can spill.
    spillable: PoolShare,
    /// Memory of those consumers and of the merges within sorts.
    elastic: PoolShare,
}

/// A part of the pool.
#[derive(Debug)]
struct PoolShare {
    most: usize,
    taken: AtomicUsize,
}

impl PoolShare {
    fn new(most: usize) -> PoolShare {
        PoolShare { most, taken: AtomicUsize::new(0) }
    }

    /// Reserves so much, or returns what is left.
    fn reserve(&self, bytes: usize) -> std::result::Result<(), usize> {
        // Taken first, so that those who ask at once do not get it twice.
        let left = self.most.saturating_sub(self.taken.fetch_add(bytes, Ordering::Relaxed));
        if bytes <= left {
            return Ok(());
        }
        self.release(bytes);
        Err(left)
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl StatementPool {
    pub(crate) fn new(bytes_max: usize) -> StatementPool {
        let kept = (bytes_max / 2).min(KEPT_BYTES_MAX);
        StatementPool {
            fair: FairSpillPool::new(bytes_max),
            spillable: PoolShare::new(bytes_max - kept),
            elastic: PoolShare::new(bytes_max - kept / 2),
        }
    }

    /// The shares to which a consumer's memory counts.
    fn shares(&self, consumer: &MemoryConsumer) -> impl Iterator<Item = &PoolShare> + Clone {
        let is_elastic = consumer.can_spill() || consumer.name().starts_with(SORTS_MERGE);
        let spillable = Some(&self.spillable).filter(|_| consumer.can_spill());
        spillable.into_iter().chain(Some(&self.elastic).filter(|_| is_elastic))
    }
}

impl fmt::Display for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fair.fmt(f)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.fair.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.fair.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        for share in self.shares(reservation.consumer()) {
            share.taken.fetch_add(additional, Ordering::Relaxed);
        }
        self.fair.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shares(reservation.consumer()).for_each(|share| share.release(shrink));
        self.fair.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        if consumer.can_spill() && consumer.name().starts_with(PARTED) {
            self.grow(reservation, additional);
            return Ok(());
        }
        let shares = self.shares(reservation.consumer());
        for (place, share) in shares.clone().enumerate() {
            let Err(left) = share.reserve(additional) else { continue };
            shares.take(place).for_each(|share| share.release(additional));
            // Worded as the fair pool's own, which errors are made of.
            return Err(DataFusionError::ResourcesExhausted(format!(
                "Failed to allocate additional {} for {} with {} already allocated for this reservation - {} remain \
                 available for the total memory pool: {self}",
                human_readable_size(additional),
                reservation.consumer().name(),
                human_readable_size(reservation.size()),
                human_readable_size(left),
            )));
        }
        let grown = self.fair.try_grow(reservation, additional);
        if grown.is_err() {
            shares.for_each(|share| share.release(additional));
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.fair.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.fair.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn rows_on_their_way_are_never_refused_and_leave_less_to_others() {
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementPool::new(1 << 20));
        let parted = MemoryConsumer::new(format!("{PARTED}[1]")).with_can_spill(true).register(&pool);
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        let last = MemoryConsumer::new("last").register(&pool);
        sort.try_grow(1000).unwrap();
        parted.try_grow(2 << 20).unwrap();
        assert!(sort.try_grow(1).is_err() && last.try_grow(1).is_err());
        parted.free();
        sort.try_grow(1000).unwrap();
        last.try_grow(1000).unwrap();
    }

    #[test]
    fn what_can_do_with_less_leaves_room_for_what_cannot() {
        const MIB: usize = 1 << 20;
        for (limit, kept) in [(24, 12), (64, 32), (1024, 32)] {
            let pool: Arc<dyn MemoryPool> = Arc::new(StatementPool::new(limit * MIB));
            let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
            let merge = MemoryConsumer::new(format!("{SORTS_MERGE}[0]")).register(&pool);
            let last = MemoryConsumer::new("last").register(&pool);
            while sort.try_grow(MIB).is_ok() {}
            assert_eq!(sort.size(), (limit - kept) * MIB);
            while merge.try_grow(MIB).is_ok() {}
            assert_eq!(merge.size(), kept / 2 * MIB);
            last.try_grow(kept / 2 * MIB).unwrap();
            assert!(last.try_grow(1).is_err(), "the limit is that of all");
            // Memory that one consumer releases is available to the others of its kind.
            sort.free();
            assert!(sort.try_grow((limit - kept) * MIB + 1).is_err());
            merge.try_grow((limit - kept) * MIB).unwrap();
            assert!(sort.try_grow(1).is_err());
            merge.shrink((limit - kept) * MIB);
            sort.try_grow((limit - kept) * MIB).unwrap();
            assert_eq!(pool.reserved(), limit * MIB);
        }
    }
}
