//! Divides the offsets of a stream into slices, which are searched one after another.
//!
//! A search that needs not all events, or that may end early, begins with the newest ones (or the oldest, if hits are
//! ordered so) and searches larger slices as it goes on. Events between the offsets of finished slices are searched
//! completely, which is the claim of a partial answer. Arrival times never go back along the offsets, so the first slices
//! have the first hits by time. Every other search has one slice.

use std::ops::Range;

/// Events of the first slice.
const FIRST_EVENTS: u64 = 32_768;
/// Events of the largest slice of a search that may end early; a finished slice is the least that it can answer.
const PARTIAL_EVENTS_MAX: u64 = 1 << 20;

/// The order in which the offsets of a stream are searched.
#[derive(Debug)]
pub(super) struct Slices {
    /// Not searched yet.
    rest: Range<u64>,
    is_ascending: bool,
    events: u64,
    events_max: u64,
}

impl Slices {
    /// All at once.
    pub(super) fn whole(offsets: Range<u64>) -> Slices {
        Slices { rest: offsets, is_ascending: false, events: u64::MAX, events_max: u64::MAX }
    }

    /// One after another, each larger than the one before.
    pub(super) fn growing(offsets: Range<u64>, is_ascending: bool, is_partial: bool) -> Slices {
        let events_max = if is_partial { PARTIAL_EVENTS_MAX } else { u64::MAX };
        Slices { rest: offsets, is_ascending, events: FIRST_EVENTS, events_max }
    }

    /// The next slice; none behind the last.
    pub(super) fn next(&mut self) -> Option<Range<u64>> {
        if self.rest.is_empty() {
            return None;
        }
        let slice = match self.is_ascending {
            true => self.rest.start..self.rest.end.min(self.rest.start.saturating_add(self.events)),
            false => self.rest.start.max(self.rest.end.saturating_sub(self.events))..self.rest.end,
        };
        match self.is_ascending {
            true => self.rest.start = slice.end,
            false => self.rest.end = slice.start,
        }
        Some(slice)
    }

    /// The slice had so many rows. Offsets of events that retention deleted have none, so slices grow over them.
    pub(super) fn finished(&mut self, rows: u64) {
        let events_max = if rows == 0 { u64::MAX } else { self.events_max };
        self.events = self.events.saturating_mul(2).min(events_max.max(FIRST_EVENTS));
    }

    /// No more slices are needed.
    pub(super) fn stop(&mut self) {
        self.rest.end = self.rest.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_one_another_over_all_offsets() {
        for (offsets, is_ascending) in
            [(0..1_000_000, false), (0..1_000_000, true), (7..40_000, false), (5..5, true)]
        {
            let mut slices = Slices::growing(offsets.clone(), is_ascending, true);
            let mut rest = offsets.clone();
            while let Some(slice) = slices.next() {
                assert!(!slice.is_empty());
                match is_ascending {
                    true => assert_eq!(std::mem::replace(&mut rest.start, slice.end), slice.start),
                    false => assert_eq!(std::mem::replace(&mut rest.end, slice.start), slice.end),
                }
                slices.finished(1);
            }
            assert!(rest.is_empty(), "{offsets:?}");
        }
        let mut slices = Slices::whole(0..u64::MAX);
        assert_eq!((slices.next(), slices.next()), (Some(0..u64::MAX), None));
    }

    #[test]
    fn slices_of_a_partial_search_are_bounded_except_over_deleted_events() {
        let mut slices = Slices::growing(0..u64::MAX, false, true);
        for _ in 0..20 {
            let slice = slices.next().unwrap();
            assert!(slice.end - slice.start <= PARTIAL_EVENTS_MAX);
            slices.finished(1);
        }
        let mut count = 0;
        while slices.next().is_some() {
            slices.finished(0);
            count += 1;
        }
        assert!(count < 64, "{count}");
    }
}
