//! Counts the requests of an endpoint by status and by latency.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::LATENCY_BOUNDS_MICROS;

/// The counts of an endpoint's requests since the start.
#[derive(Debug, Default)]
pub struct EndpointCounts {
    /// The requests by the first digit of the status.
    classes: [AtomicU64; 6],
    /// The requests by duration: up to each of [`LATENCY_BOUNDS_MICROS`], and beyond.
    times: [AtomicU64; LATENCY_BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl EndpointCounts {
    /// Counts a request that was answered after so long.
    pub fn count(&self, status: u16, micros: u64) {
        let class = usize::from(status / 100).min(self.classes.len() - 1);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        self.times[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Requests by the first digit of their status.
    pub fn classes(&self) -> [u64; 6] {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }

    /// Requests by how long they took, and how long all of them together took, in microseconds.
    pub fn times(&self) -> ([u64; LATENCY_BOUNDS_MICROS.len() + 1], u64) {
        let times = std::array::from_fn(|bucket| self.times[bucket].load(Ordering::Relaxed));
        (times, self.micros.load(Ordering::Relaxed))
    }

    pub(super) fn copied(&self) -> EndpointCounts {
        let copy = |counter: &AtomicU64| AtomicU64::new(counter.load(Ordering::Relaxed));
        EndpointCounts {
            classes: std::array::from_fn(|class| copy(&self.classes[class])),
            times: std::array::from_fn(|bucket| copy(&self.times[bucket])),
            micros: copy(&self.micros),
        }
    }
}
