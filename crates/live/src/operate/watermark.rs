//! Determines which event-time windows are closed, once for all queries whose windows close together.
//!
//! The watermark of a query follows from the latest event time that it has seen, and its closed windows follow from the
//! watermark alone. Therefore queries with the same windows and lateness that have seen the same latest time behave as
//! one. Many such standing queries cost a batch no more than one does, until a window closes.

use swiftwater_event::Millis;

use super::window::Shape;
use crate::MaxEventTime;

/// The progress of the windows of such queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    shape: Shape,
    lateness: u64,
    /// The latest time so far.
    peak: MaxEventTime,
    /// The first window that is not closed.
    open: i64,
    /// Events that came after the last window that would hold them was closed.
    late: u64,
}

impl Timeline {
    pub(crate) fn new(shape: Shape, lateness: u64) -> Timeline {
        Timeline { shape, lateness, peak: MaxEventTime::NONE, open: i64::MIN, late: 0 }
    }

    /// Takes in the latest time of the events so far; returns true if further windows are over.
    pub fn advance(&mut self, latest: MaxEventTime) -> bool {
        if latest.time <= self.peak.time {
            return false;
        }
        self.peak = latest;
        let open = self.shape.closing_after(latest.time.saturating_sub_unsigned(self.lateness));
        let is_over = open > self.open;
        self.open = self.open.max(open);
        is_over
    }

    /// Counts the events of a slice where they are late; returns whether an open window admits them.
    pub fn admit(&mut self, start: i64, events: u64) -> bool {
        if self.shape.holds_only_before(start, self.open) {
            self.late += events;
            return false;
        }
        self.shape.first_holding(start).is_some()
    }

    /// The latest event time.
    pub fn peak(&self) -> MaxEventTime {
        self.peak
    }

    /// The arrival at which an idle stream closes its next window that is not empty; none if all are. `first_from` returns the
    /// first slice from a place on.
    pub fn idle_due(&self, first_from: impl Fn(i64) -> Option<i64>) -> Option<Millis> {
        let number = self.shape.first_held(self.open, first_from)?;
        self.peak.idle_arrival_of(self.shape.end(number).checked_add_unsigned(self.lateness)?)
    }

    /// The first window that is not closed.
    pub(crate) fn open(&self) -> i64 {
        self.open
    }

    /// Events that came after the last window that would hold them was closed.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// True if all that is still to come will be the same for both.
    pub fn is_level_with(&self, other: &Timeline) -> bool {
        (self.shape, self.lateness, self.peak, self.open)
            == (other.shape, other.lateness, other.peak, other.open)
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::plan::WindowContents;

    use super::*;

    #[test]
    fn windows_are_over_when_the_latest_time_is_a_lateness_past_them() {
        let shape = Shape { origin: 0, every: 10, take: WindowContents::First(10), begins: false };
        let mut timeline = Timeline::new(shape, 5);
        let at = |time| MaxEventTime { time, arrival: time };
        assert!(timeline.advance(at(5)));
        let mut other = timeline.clone();
        assert!(!timeline.advance(at(14)));
        assert!(timeline.admit(0, 2));
        assert!(timeline.advance(at(15)));
        assert!(!timeline.admit(0, 3));
        assert_eq!(timeline.late(), 3);
        assert!(!other.is_level_with(&timeline));
        assert!(other.advance(at(15)));
        assert!(other.is_level_with(&timeline));
        assert_eq!(other.late(), 0);
    }
}
