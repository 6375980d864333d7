//! Tracks up to which offset a stream's events were acknowledged to their senders.
//!
//! Events are acknowledged when they are appended or when they are synced, as the sender chooses. While a disk neither
//! accepts nor refuses a write, its events are not acknowledged. A reader that requests all acknowledged events does not
//! wait for them.

use std::collections::VecDeque;

use swiftwater_log::LogPosition;

use crate::Ack;

/// The horizon of a stream's acknowledged events.
#[derive(Debug)]
pub(crate) struct AckHorizon {
    /// The offset before which events may have been acknowledged.
    next: u64,
    /// The horizons to come with the next syncs: ends in the log, and offsets after the last event; both ascend. The log's queue,
    /// which has these events, bounds it.
    unsynced: VecDeque<(LogPosition, u64)>,
}

impl AckHorizon {
    /// The horizon of a stream whose events before an offset are all synced.
    pub(crate) fn new(next: u64) -> AckHorizon {
        AckHorizon { next, unsynced: VecDeque::new() }
    }

    /// Events were taken that end at a place in the log, and before an offset.
    pub(crate) fn record(&mut self, (end, next): (LogPosition, u64), ack: Ack, synced: LogPosition) {
        self.sync(synced);
        match ack {
            Ack::None | Ack::Memory => self.at_once(next),
            Ack::Disk => self.unsynced.push_back((end, next)),
        }
    }

    /// The events before an offset were acknowledged, synced or not.
    pub(crate) fn at_once(&mut self, next: u64) {
        self.next = self.next.max(next);
        while self.unsynced.front().is_some_and(|(_, next)| *next <= self.next) {
            self.unsynced.pop_front();
        }
    }

    /// The log is synced up to here.
    fn sync(&mut self, synced: LogPosition) {
        while let Some((_, next)) = self.unsynced.pop_front_if(|(end, _)| *end <= synced) {
            self.next = self.next.max(next);
        }
    }

    /// The offset before which events may have been acknowledged, where the log is synced up to here.
    pub(crate) fn up_to(&mut self, synced: LogPosition) -> u64 {
        self.sync(synced);
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_disk_is_acknowledged_with_its_sync_and_the_rest_at_once() {
        let at = LogPosition;
        let mut acknowledged = AckHorizon::new(7);
        assert_eq!(acknowledged.up_to(at(0)), 7);
        acknowledged.record((at(10), 8), Ack::Disk, at(0));
        acknowledged.record((at(20), 9), Ack::Disk, at(0));
        assert_eq!((acknowledged.up_to(at(9)), acknowledged.up_to(at(10))), (7, 8));
        acknowledged.record((at(30), 12), Ack::Memory, at(10));
        assert_eq!(acknowledged.up_to(at(10)), 12, "with all before it");
        acknowledged.record((at(40), 13), Ack::Disk, at(10));
        acknowledged.record((at(50), 14), Ack::Disk, at(40));
        assert_eq!(acknowledged.unsynced, [(at(50), 14)]);
        assert_eq!((acknowledged.up_to(at(40)), acknowledged.up_to(at(60))), (13, 14));
        acknowledged.at_once(3);
        assert_eq!(acknowledged.up_to(at(60)), 14, "it never goes back");
    }
}
