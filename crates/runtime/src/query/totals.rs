//! Totals over all queries of a runtime: what they have given out and lost, and the bytes of state that they hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of the whole engine that queries add to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) submitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) records_out: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) records_dropped: AtomicU64,
    pub(crate) subscriber_bytes: PaddedCounter,
    pub(crate) state_bytes: AtomicU64,
}

impl Totals {
    /// Replaces `before` bytes of state by `bytes`; returns the total. An unchanged size is not written, since
    /// all threads read the total.
    pub(crate) fn account(&self, before: u64, bytes: u64) -> u64 {
        if bytes == before {
            return self.state_bytes.load(Ordering::Relaxed);
        }
        let total = self.state_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        total.wrapping_add(bytes).wrapping_sub(before)
    }
}

/// Alone in its cache lines: readers write it while shards write what stands beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct PaddedCounter(pub(crate) AtomicU64);

impl std::ops::Deref for PaddedCounter {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}
