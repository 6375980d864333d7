//! Events of a query that one node computes: they wait until all partitions are past their time, and are then in one order.

use std::collections::BTreeMap;

use bytes::Bytes;
use swiftwater_event::Millis;
use swiftwater_live::RowChunk;

use crate::QueryNumber;

/// So many times the bytes of a second may come at once, or wait.
const BURST: u64 = 4;

/// Events that a query is to see next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasedEvents {
    /// The query.
    pub query: QueryNumber,
    /// The events, by ascending times.
    pub events: Vec<(Millis, Bytes)>,
    /// The query has all events before this time, but for those of partitions that are missing.
    pub until: Millis,
}

/// The reason why a query is to end that this node computes from events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooManyEvents {
    /// It had more bytes in a second, or that waited, than one query may have.
    OfQuery,
    /// The events of all such queries that waited had more bytes than may be; those of this one had the most.
    OfAll,
}

/// The events of one query.
#[derive(Debug)]
pub(crate) struct WaitingEvents {
    /// False if the query may see events as they come.
    in_order: bool,
    /// By time, partition and offset; those of one message by their order in it.
    waiting: BTreeMap<(Millis, u32, u64, u32), Bytes>,
    /// The bytes that wait, and of those that were released and are not processed.
    bytes: u64,
    released: u64,
    /// All before this time were released.
    pub(crate) until: Millis,
    /// The latest time that was released.
    latest: Millis,
    bytes_per_second: u64,
    /// The bytes that may come now, and the time of the last event.
    allowed: (u64, Millis),
    /// There were more than may be.
    pub(crate) too_many: Option<TooManyEvents>,
}

impl WaitingEvents {
    pub(crate) fn new(begins: Millis, in_order: bool, bytes_per_second: u64) -> WaitingEvents {
        WaitingEvents {
            in_order,
            waiting: BTreeMap::new(),
            bytes: 0,
            released: 0,
            until: begins,
            latest: begins,
            bytes_per_second,
            allowed: (bytes_per_second.saturating_mul(BURST), begins),
            too_many: None,
        }
    }

    /// Takes events of a partition. Returns the end of those that come too late.
    pub(crate) fn push(&mut self, partition: u32, first: u64, rows: &RowChunk) -> Option<Millis> {
        let mut late = None;
        if self.too_many.is_some() {
            return late;
        }
        let mut before = (u64::MAX, 0);
        for row in 0..rows.len() {
            let (time, event) = (rows.arrivals[row], rows.text.slice_ref(rows.record(row)));
            let offset = first + u64::from(rows.rows[row]);
            before = if before.0 == offset { (offset, before.1 + 1) } else { (offset, 0) };
            if self.in_order && time < self.until {
                late = late.max(Some(time.saturating_add(1)));
                continue;
            }
            self.bytes += event.len() as u64;
            if self.held() > self.bytes_per_second.saturating_mul(BURST) {
                self.end(TooManyEvents::OfQuery);
                return late;
            }
            self.waiting.insert((time, partition, offset, before.1), event);
        }
        late
    }

    /// Drops all, and takes no more.
    pub(crate) fn end(&mut self, why: TooManyEvents) {
        self.too_many = Some(why);
        self.waiting.clear();
        (self.bytes, self.released) = (0, 0);
    }

    /// The bytes that it holds.
    pub(crate) fn held(&self) -> u64 {
        self.bytes + self.released
    }

    /// The events that were released are processed.
    pub(crate) fn fed(&mut self) {
        self.released = 0;
    }

    /// The time of the first event that waits.
    pub(crate) fn first(&self) -> Option<Millis> {
        self.waiting.first_key_value().map(|((time, ..), _)| *time)
    }

    /// The partitions are done up to a time: takes out the events before it.
    pub(crate) fn release(&mut self, query: QueryNumber, until: Millis) -> Option<ReleasedEvents> {
        if self.too_many.is_some() {
            return None;
        }
        let is_later = until > self.until;
        self.until = self.until.max(until);
        let rest = match self.in_order {
            true => self.waiting.split_off(&(self.until, 0, 0, 0)),
            false => BTreeMap::new(),
        };
        let events: Vec<(Millis, Bytes)> = std::mem::replace(&mut self.waiting, rest)
            .into_iter()
            .map(|((time, ..), event)| (time.max(self.latest), event))
            .collect();
        for (time, event) in &events {
            self.latest = self.latest.max(*time);
            self.bytes -= event.len() as u64;
            self.released += event.len() as u64;
            let (allowed, before) = self.allowed;
            let passed = time.abs_diff(before).saturating_mul(self.bytes_per_second) / 1000;
            let allowed = allowed.saturating_add(passed).min(self.bytes_per_second.saturating_mul(BURST));
            match allowed.checked_sub(event.len() as u64) {
                Some(left) => self.allowed = (left, *time),
                None => {
                    self.end(TooManyEvents::OfQuery);
                    return None;
                }
            }
        }
        (is_later || !events.is_empty()).then_some(ReleasedEvents { query, events, until: self.until })
    }
}
