//! Finds partitions that make no progress. Pure: the caller passes the time, and asks the broker for their ends.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// The time without progress after which a partition is checked, and after which it is checked again.
pub(crate) const STALL_PERIOD: Duration = Duration::from_secs(30);

/// The times of the last progress, by partition.
#[derive(Debug, Default)]
pub(crate) struct StallDetector {
    partitions: HashMap<u32, Progress>,
}

#[derive(Debug)]
struct Progress {
    position: u64,
    /// The time of the last progress, or of the last check.
    since: Instant,
}

impl StallDetector {
    /// Records the position of a partition.
    pub(crate) fn record(&mut self, partition: u32, position: u64, now: Instant) {
        self.partitions.insert(partition, Progress { position, since: now });
    }

    /// Forgets a partition.
    pub(crate) fn remove(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// Begins all periods anew, as the caller has stopped reading.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.partitions.values_mut().for_each(|progress| progress.since = now);
    }

    /// The partitions to check, in order: those without progress for the period. Their period begins anew.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<u32> {
        let mut due = Vec::new();
        for (partition, progress) in &mut self.partitions {
            if now.saturating_duration_since(progress.since) >= STALL_PERIOD {
                progress.since = now;
                due.push(*partition);
            }
        }
        due.sort_unstable();
        due
    }

    /// The position to assign a partition anew from, if messages before its end were not read.
    pub(crate) fn stalled_at(&self, partition: u32, end: u64) -> Option<u64> {
        let progress = self.partitions.get(&partition)?;
        (progress.position < end).then_some(progress.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_without_progress_is_due_once_a_period() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut stalls = StallDetector::default();
        stalls.record(0, 10, at(0));
        stalls.record(1, 10, at(0));
        assert_eq!(stalls.due(at(29)), [0; 0]);
        stalls.record(1, 11, at(29));
        assert_eq!(stalls.due(at(30)), [0]);
        assert_eq!(stalls.due(at(58)), [0; 0]);
        assert_eq!(stalls.due(at(60)), [0, 1]);
        stalls.restart(at(70));
        assert_eq!(stalls.due(at(99)), [0; 0]);
        stalls.remove(0);
        assert_eq!(stalls.due(at(100)), [1]);
    }

    #[test]
    fn partition_at_its_end_is_not_stalled() {
        let mut stalls = StallDetector::default();
        stalls.record(0, 10, Instant::now());
        assert_eq!(stalls.stalled_at(0, 10), None);
        assert_eq!(stalls.stalled_at(0, 11), Some(10));
        assert_eq!(stalls.stalled_at(1, 11), None);
    }
}
