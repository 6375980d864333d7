//! The state of a stored stream that a start has recovered from the snapshot and the log, before the stream opens.

use crate::durable::{
    arrivals::Arrivals,
    backpressure::Backpressure,
    dedup::{Producers, Receipt},
    log_tail::LogTail,
};
use std::ops::Range;
use swiftwater_catalog::StreamNumbers;
use swiftwater_log::{EventsHead, LogPosition, Producer};

/// The state of a stream in the log and in the catalog's snapshot when a server starts.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) next: u64,
    pub(crate) last: LogPosition,
    /// The offset of the first event that was stored; none if there was none, or that is not known.
    pub(crate) kept_from: Option<u64>,
    pub(crate) feed: LogTail,
    pub(crate) pressure: Backpressure,
    pub(crate) producers: Producers,
    pub(crate) arrivals: Arrivals,
    /// Its views, by number, each with the offset that it goes on from.
    pub(crate) views: Vec<(u32, u64)>,
}

impl Recovered {
    pub(crate) fn new((feed_bytes_max, lag_ms_max): (usize, u64), producers_max: usize) -> Recovered {
        Recovered {
            next: 0,
            last: LogPosition(0),
            kept_from: None,
            arrivals: Arrivals::new(),
            feed: LogTail::new(feed_bytes_max),
            pressure: Backpressure::new(lag_ms_max),
            producers: Producers::new(producers_max),
            views: Vec::new(),
        }
    }

    /// Sets the state to that of a snapshot.
    pub(crate) fn restore(&mut self, snapshot: &StreamNumbers) {
        self.next = snapshot.next_offset;
        self.last = LogPosition(snapshot.position);
        self.kept_from = snapshot.kept_from;
        for (id, receipts) in &snapshot.producers {
            for &(sequence, parts, accepted, offset, log_position) in receipts {
                self.producers.record(id, Receipt { sequence, parts, accepted, offset, log_position }, 0);
            }
        }
        for (id, sequence, part, hash) in &snapshot.hashes {
            self.producers.record_hash(id, *sequence, *part, *hash);
        }
    }

    /// The range of events before `counted` that the log lacks at its beginning, if a table has committed the events before
    /// `committed`. Events from before the stream was stored are not lacking.
    pub(crate) fn lacks(&self, committed: u64, counted: u64) -> Option<Range<u64>> {
        // If the beginning of its storage is unknown, an empty table proves nothing.
        let is_known = self.kept_from.is_some() || committed > 0;
        let needed = committed.max(self.kept_from.unwrap_or(0));
        let found = self.feed.first_marked().unwrap_or(counted);
        let lacks = self.last > LogPosition(0) && is_known && needed < counted && found > needed;
        lacks.then_some(needed..found)
    }

    /// Takes over events of the log.
    pub(crate) fn read(&mut self, head: &EventsHead, start: LogPosition, end: LogPosition) {
        // Needed for the table, whatever the snapshot knows of them.
        self.feed.mark(head.first.0, start, end);
        self.arrivals.record(head.first.0, head.arrival);
        if start < self.last {
            return;
        }
        let (events, first) = (u64::from(head.events), head.first.0);
        if self.last == LogPosition(0) {
            self.kept_from = Some(first);
        }
        self.next = first + events;
        self.last = end;
        if let Some(Producer { id, sequence, hash }) = &head.producer {
            let receipt = Receipt {
                sequence: *sequence,
                parts: u32::from(head.part) + 1,
                accepted: events,
                offset: first + events,
                log_position: end.0,
            };
            self.producers.record(id, receipt, *hash);
        }
    }
}
