//! Reports the state of a stream: its status, its rates, and what the meta of an emit says of it.

use std::sync::atomic::Ordering;

use swiftwater_event::Millis;

use super::Stream;
use crate::{StreamMeta, StreamStatus};

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rates {
    events: u64,
    bytes: u64,
    events_per_second: f64,
    bytes_per_second: f64,
}

impl Stream {
    /// True if it is there for anybody but those who ask about it.
    pub(crate) fn exists(&self) -> bool {
        self.is_stored.load(Ordering::Relaxed) || self.has_events()
    }

    pub(crate) fn has_events(&self) -> bool {
        self.intake.lock().has_events
    }

    /// The number of its events; none if nobody but those who ask about it knows it.
    pub(crate) fn event_count(&self) -> Option<u64> {
        let intake = self.intake.lock();
        (intake.has_events || self.is_stored.load(Ordering::Relaxed)).then_some(intake.next_offset)
    }

    /// Events a second, over the last second.
    pub(super) fn events_per_second(&self) -> f64 {
        self.rates.lock().events_per_second
    }

    /// The share of its events that its sources send on, where they sample.
    pub fn sample(&self) -> Option<f64> {
        self.intake.lock().sample
    }

    /// The metadata for an emit, when everything before `position` was matched.
    pub(crate) fn meta(&self, position: u64, now: Millis) -> StreamMeta {
        let intake = self.intake.lock();
        let lag_ms = intake.waiting.front().map_or(0, |oldest| now - oldest.meta().arrival);
        StreamMeta {
            name: self.name.clone(),
            position,
            lag_ms: u64::try_from(lag_ms).unwrap_or(0),
            sample: intake.sample,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn status(&self, now: Millis) -> StreamStatus {
        let queries = self.merge.lock().running.len() as u64;
        let rates = *self.rates.lock();
        let intake = self.intake.lock();
        let lag_ms = intake.waiting.front().map_or(0, |oldest| now - oldest.meta().arrival);
        StreamStatus {
            name: self.name.clone(),
            is_stored: self.is_stored.load(Ordering::Relaxed),
            events: intake.next_offset,
            bytes: intake.bytes,
            rejected: self.rejected.load(Ordering::Relaxed),
            position: intake.next_offset,
            newest_arrival: (intake.bytes > 0).then_some(intake.newest_arrival),
            events_per_second: rates.events_per_second,
            bytes_per_second: rates.bytes_per_second,
            queries,
            pending_bytes: intake.waiting_bytes as u64,
            lag_ms: u64::try_from(lag_ms).unwrap_or(0),
            stored_lag_ms: 0,
            sample: intake.sample,
        }
    }

    /// Takes the rates of the time since the last call.
    pub(crate) fn measure_rates(&self, seconds: f64) {
        let (events, bytes) = {
            let intake = self.intake.lock();
            (intake.next_offset, intake.bytes)
        };
        let mut rates = self.rates.lock();
        *rates = Rates {
            events,
            bytes,
            events_per_second: (events - rates.events) as f64 / seconds,
            bytes_per_second: (bytes - rates.bytes) as f64 / seconds,
        };
    }
}
