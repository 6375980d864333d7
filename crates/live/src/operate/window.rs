//! Computes the bounds of windows on a line: of time, or of successive matched events.
//!
//! A [`Shape`] defines where a query's windows begin and end. [`SliceBoundaries`] are the points where slices must be cut, so that
//! every window of every query that shares them is a row of whole slices. All of it is arithmetic on arbitrary numbers:
//! an event time can be any LONG, so results saturate at the line's ends.

use std::collections::BTreeMap;

use swiftwater_event::Millis;
use swiftwater_lang::plan::{Window, WindowClock, WindowContents};

use crate::{StandingQuery, standing::CompiledBody};

/// Equally spaced cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// The distance of two cuts; at least 1.
    pub every: u64,
    /// The position of one of them, in `[0, every)`.
    pub phase: u64,
}

/// Places where a line is cut into slices; none: it is one slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SliceBoundaries {
    /// Ascending: those of one distance stand together, by their phases.
    series: Vec<Series>,
    /// The latest times at which the watermark reaches a cut, for the events' own time. Queries that share slices may
    /// have different latenesses.
    reached: Vec<Series>,
}

/// The cuts of several queries, of which some come and go.
#[derive(Debug, Default)]
pub struct CutCounts {
    series: BTreeMap<Series, usize>,
    reached: BTreeMap<Series, usize>,
}

/// A query's windows on its line; they are numbered, and close in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Start of the period of window 0.
    pub(crate) origin: i64,
    /// The distance from one period to the next.
    pub(crate) every: u64,
    pub(super) take: WindowContents,
    /// True if there is nothing before the origin: earlier times count at it.
    pub(super) begins: bool,
}

/// The line on which a query's windows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The query has no window.
    None,
    /// Arrival.
    Arrival,
    /// The events' own time; the watermark is so far behind the latest.
    Event {
        /// Milliseconds.
        lateness: u64,
    },
    /// The number of the matched event.
    Records,
}

impl Series {
    /// Cuts at this distance, one of them at `through`.
    pub fn new(every: u64, through: i64) -> Series {
        let every = every.max(1);
        Series { every, phase: i128::from(through).rem_euclid(i128::from(every)) as u64 }
    }

    /// The last cut that is not after `at`.
    fn before(self, at: i64) -> i64 {
        let (every, phase) = (i128::from(self.every), i128::from(self.phase));
        clamp((i128::from(at) - phase).div_euclid(every) * every + phase)
    }

    /// The first cut after `at`.
    fn after(self, at: i64) -> i64 {
        let (every, phase) = (i128::from(self.every), i128::from(self.phase));
        clamp(((i128::from(at) - phase).div_euclid(every) + 1) * every + phase)
    }
}

impl SliceBoundaries {
    /// These and those.
    #[must_use]
    pub fn and(&self, other: &SliceBoundaries) -> SliceBoundaries {
        let union = |ours: &[Series], theirs: &[Series]| {
            let mut series: Vec<Series> = ours.iter().chain(theirs).copied().collect();
            // Stable: two sorted rows are merged in one run.
            series.sort();
            series.dedup();
            series
        };
        SliceBoundaries {
            series: union(&self.series, &other.series),
            reached: union(&self.reached, &other.reached),
        }
    }

    /// Maximum number of series in which every event is looked up.
    pub fn series_count(&self) -> usize {
        self.series.len().max(self.reached.len())
    }

    /// The latest time at which the watermark has reached what it has at `latest`, and not before: between two latest
    /// times with the same answer no window is closed.
    pub(crate) fn reached_at(&self, latest: Millis) -> Millis {
        self.reached.iter().map(|series| series.before(latest)).max().unwrap_or(Millis::MIN)
    }

    /// Start of the slice of an instant; the least of all instants if nothing is cut.
    pub fn start_of(&self, at: i64) -> i64 {
        let last = |of: &[Series], phase: u64| {
            // The cut in question has the last phase that is not after that of the instant; else the last of all.
            let place = of.partition_point(|series| series.phase <= phase);
            of[place.checked_sub(1).unwrap_or(of.len() - 1)].before(at)
        };
        self.by_distance(at).map(|(of, phase)| last(of, phase)).max().unwrap_or(i64::MIN)
    }

    /// The series of each distance, and the phase of an instant at that distance.
    fn by_distance(&self, at: i64) -> impl Iterator<Item = (&[Series], u64)> {
        let mut left = &self.series[..];
        std::iter::from_fn(move || {
            let every = left.first()?.every;
            let (of, rest) = match left.last() {
                Some(last) if last.every == every => (left, &left[..0]),
                _ => left.split_at(left.partition_point(|series| series.every == every)),
            };
            left = rest;
            Some((of, Series::new(every, at).phase))
        })
    }

    /// The series.
    pub fn series(&self) -> &[Series] {
        &self.series
    }
}

impl SliceBoundaries {
    /// Those that the windows of a query need for its groups; windows by arrival begin at `origin`.
    pub fn of(query: &StandingQuery, origin: Millis) -> SliceBoundaries {
        match (&query.body, Axis::of(&query.plan.window)) {
            (CompiledBody::Group(_), axis @ (Axis::Arrival | Axis::Event { .. })) => {
                Shape::of(query, origin).map_or_else(SliceBoundaries::default, |shape| shape.cuts_by(axis))
            }
            _ => SliceBoundaries::default(),
        }
    }

    /// One cut.
    pub fn at(instant: i64) -> SliceBoundaries {
        SliceBoundaries { series: vec![Series::new(1 << 63, instant)], reached: Vec::new() }
    }

    /// The end of the slice of an instant, the first instant after it; the last of all instants if nothing is cut there.
    pub fn end_of(&self, at: i64) -> i64 {
        let first = |of: &[Series], phase: u64| {
            let place = of.partition_point(|series| series.phase <= phase);
            of[if place < of.len() { place } else { 0 }].after(at)
        };
        self.by_distance(at).map(|(of, phase)| first(of, phase)).min().unwrap_or(i64::MAX)
    }
}

impl CutCounts {
    /// A query with these has come.
    pub fn add(&mut self, cuts: &SliceBoundaries) {
        for (counts, series) in [(&mut self.series, &cuts.series), (&mut self.reached, &cuts.reached)] {
            series.iter().for_each(|one| *counts.entry(*one).or_default() += 1);
        }
    }

    /// A query with these is gone.
    pub fn remove(&mut self, cuts: &SliceBoundaries) {
        for (counts, series) in [(&mut self.series, &cuts.series), (&mut self.reached, &cuts.reached)] {
            for one in series {
                let count = counts.get_mut(one).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if count == 0 {
                    counts.remove(one);
                }
            }
        }
    }

    /// The boundaries of all series.
    pub fn cuts(&self) -> SliceBoundaries {
        SliceBoundaries {
            series: self.series.keys().copied().collect(),
            reached: self.reached.keys().copied().collect(),
        }
    }
}

impl Axis {
    pub(crate) fn of(window: &Window) -> Axis {
        match window {
            Window::None => Axis::None,
            Window::Records { .. } => Axis::Records,
            Window::Time { clock, .. } | Window::Session { clock, .. } => match clock {
                WindowClock::Arrival => Axis::Arrival,
                WindowClock::Event { lateness_ms, .. } => Axis::Event { lateness: *lateness_ms },
            },
        }
    }
}

impl Shape {
    /// The windows of a query; by arrival they begin at `origin`. None for sessions, and where there are no windows.
    pub(crate) fn of(query: &StandingQuery, origin: Millis) -> Option<Shape> {
        let (every, take, origin, begins) = match &query.plan.window {
            Window::None | Window::Session { .. } => return None,
            Window::Records { every, take } => (*every, *take, 0, true),
            Window::Time { every_ms, take, clock } => {
                let every = (*every_ms).max(query.dialect().window_ms_min());
                // A tumbling window stays one when it is made longer.
                let take = if *take == WindowContents::First(*every_ms) {
                    WindowContents::First(every)
                } else {
                    *take
                };
                match clock {
                    WindowClock::Arrival => (every, take, origin, true),
                    WindowClock::Event { .. } => (every, take, 0, false),
                }
            }
        };
        let every = every.max(1);
        let take = match take {
            WindowContents::First(size) => WindowContents::First(size.clamp(1, every)),
            WindowContents::Last(size) => WindowContents::Last(size.max(1)),
            WindowContents::All => WindowContents::All,
        };
        Some(Shape { origin, every, take, begins })
    }

    /// The same without a beginning.
    pub(crate) fn unbounded(self) -> Shape {
        Shape { begins: false, ..self }
    }

    /// The slice boundaries that these windows need.
    pub(crate) fn cuts(&self) -> SliceBoundaries {
        let main = Series::new(self.every, self.origin);
        let other = match self.take {
            WindowContents::First(size) => Series::new(self.every, self.origin.saturating_add_unsigned(size)),
            WindowContents::Last(size) => Series::new(self.every, self.origin.saturating_sub_unsigned(size)),
            WindowContents::All => main,
        };
        let cut = |series| SliceBoundaries { series: vec![series], reached: Vec::new() };
        cut(main).and(&cut(other))
    }

    /// Does the same as [`Shape::cuts`], for a query on this axis.
    pub(crate) fn cuts_by(&self, axis: Axis) -> SliceBoundaries {
        let cuts = self.cuts();
        let Axis::Event { lateness } = axis else { return cuts };
        let later = |series: &Series| Series {
            every: series.every,
            phase: ((u128::from(series.phase) + u128::from(lateness)) % u128::from(series.every)) as u64,
        };
        let reached = cuts.series.iter().map(later).collect();
        SliceBoundaries { reached, ..cuts }
    }

    /// The name of such windows.
    pub(crate) fn kind(&self) -> &'static str {
        match self.take {
            WindowContents::First(_) => "tumbling",
            WindowContents::Last(_) => "hopping",
            WindowContents::All => "additive",
        }
    }

    /// True if a window holds all that came before it too.
    pub(crate) fn is_additive(&self) -> bool {
        self.take == WindowContents::All
    }

    /// True if what a window holds may be in the next one too.
    pub(crate) fn overlaps(&self) -> bool {
        matches!(self.take, WindowContents::Last(size) if size > self.every)
    }

    /// Start of the period of a window: the windows of two periods are emitted one period apart.
    pub(crate) fn period(&self, number: i64) -> i64 {
        self.at(number, 0)
    }

    /// The first instant of a window.
    pub(crate) fn start(&self, number: i64) -> i64 {
        let start = match self.take {
            WindowContents::First(_) => self.at(number, 0),
            WindowContents::Last(size) => self.at(number, i128::from(self.every) - i128::from(size)),
            WindowContents::All => self.origin,
        };
        if self.begins { start.max(self.origin) } else { start }
    }

    /// The first instant after a window: where it closes.
    pub(crate) fn end(&self, number: i64) -> i64 {
        match self.take {
            WindowContents::First(size) => self.at(number, i128::from(size)),
            WindowContents::Last(_) | WindowContents::All => self.at(number, i128::from(self.every)),
        }
    }

    /// The start from which on slices belong to a window, or, if it is additive, to it and to none before it.
    pub(crate) fn from(&self, number: i64) -> i64 {
        let from = match self.take {
            WindowContents::All if !self.begins => i64::MIN,
            WindowContents::All => self.period(number),
            _ => self.start(number),
        };
        if self.begins && from <= self.origin { i64::MIN } else { from }
    }

    /// The first window that closes after an instant.
    pub(crate) fn closing_after(&self, at: i64) -> i64 {
        let number = match self.take {
            WindowContents::First(size) => self.number(at, -i128::from(size)).saturating_add(1),
            WindowContents::Last(_) | WindowContents::All => self.number(at, 0),
        };
        if self.begins { number.max(0) } else { number }
    }

    /// The first window that holds an instant; none where it lies in a gap between windows.
    pub(crate) fn first_holding(&self, at: i64) -> Option<i64> {
        let at = if self.begins { at.max(self.origin) } else { at };
        let number = self.number(at, 0);
        match self.take {
            WindowContents::First(_) => (at < self.end(number)).then_some(number),
            WindowContents::Last(_) => (self.start(number) <= at).then_some(number),
            WindowContents::All => Some(number),
        }
    }

    /// The first window from `number` on that is not empty. `first_from` returns the first slice from a place on.
    pub(crate) fn first_held(&self, number: i64, first_from: impl Fn(i64) -> Option<i64>) -> Option<i64> {
        let mut from = if number == i64::MIN { i64::MIN } else { self.from(number) };
        loop {
            let start = first_from(from)?;
            if let Some(first) = self.first_holding(start) {
                return Some(first.max(number));
            }
            from = start.checked_add(1)?;
        }
    }

    /// The last window that holds an instant; none where it lies in a gap between windows. For additive windows it is the
    /// last that exists.
    pub(crate) fn last_holding(&self, at: i64) -> Option<i64> {
        let first = self.first_holding(at)?;
        let at = if self.begins { at.max(self.origin) } else { at };
        Some(match self.take {
            WindowContents::First(_) => first,
            WindowContents::Last(size) => self.number(at, i128::from(size)).saturating_sub(1).max(first),
            WindowContents::All => i64::MAX,
        })
    }

    /// True if all windows that hold an instant come before this one; false where none does.
    pub(crate) fn holds_only_before(&self, at: i64, number: i64) -> bool {
        self.last_holding(at).is_some_and(|last| last < number)
    }

    /// The number of windows that can hold one instant; none where there is no end of them.
    pub(crate) fn holding_most(&self) -> Option<u64> {
        match self.take {
            WindowContents::First(_) => Some(1),
            WindowContents::Last(size) => Some(size.div_ceil(self.every)),
            WindowContents::All => None,
        }
    }

    /// The length of a window; none where each is longer than the one before.
    pub(crate) fn size(&self) -> Option<u64> {
        match self.take {
            WindowContents::First(size) | WindowContents::Last(size) => Some(size),
            WindowContents::All => None,
        }
    }

    fn at(&self, number: i64, offset: i128) -> i64 {
        clamp(i128::from(self.origin) + i128::from(number) * i128::from(self.every) + offset)
    }

    fn number(&self, at: i64, offset: i128) -> i64 {
        let from = i128::from(at) - i128::from(self.origin) + offset;
        clamp(from.div_euclid(i128::from(self.every)))
    }
}

fn clamp(at: i128) -> i64 {
    at.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape() -> impl Strategy<Value = Shape> {
        let take = prop_oneof![
            (1u64..60).prop_map(WindowContents::First),
            (1u64..200).prop_map(WindowContents::Last),
            Just(WindowContents::All),
        ];
        (-50i64..50, 1u64..60, take, any::<bool>()).prop_map(|(origin, every, take, begins)| {
            let take = match take {
                WindowContents::First(size) => WindowContents::First(size.min(every)),
                other => other,
            };
            Shape { origin, every, take, begins }
        })
    }

    fn holds(shape: &Shape, number: i64, at: i64) -> bool {
        if shape.begins && number < 0 {
            return false;
        }
        let at = if shape.begins { at.max(shape.origin) } else { at };
        let starts = shape.is_additive() || shape.start(number) <= at;
        starts && at < shape.end(number)
    }

    proptest! {
        #[test]
        fn a_slice_is_between_the_nearest_cuts_of_all_series(
            all in proptest::collection::vec((prop_oneof![1u64..5, Just(40u64), Just(1 << 63)], -60i64..60), 0..12),
            at in prop_oneof![8 => -100i64..100, 1 => any::<i64>()],
        ) {
            let one = |(every, through): &(u64, i64)| SliceBoundaries {
                series: vec![Series::new(*every, *through)],
                reached: Vec::new(),
            };
            let cuts = all.iter().fold(SliceBoundaries::default(), |cuts, series| cuts.and(&one(series)));
            let before = cuts.series.iter().map(|series| series.before(at)).max();
            let after = cuts.series.iter().map(|series| series.after(at)).min();
            prop_assert_eq!(cuts.start_of(at), before.unwrap_or(i64::MIN));
            prop_assert_eq!(cuts.end_of(at), after.unwrap_or(i64::MAX));
        }

        #[test]
        fn windows_are_found_by_what_they_hold(shape in shape(), at in -300i64..300) {
            let numbers = || -800i64..800;
            let first = numbers().find(|&number| holds(&shape, number, at));
            prop_assert_eq!(shape.first_holding(at), first);
            let holding: Vec<i64> = numbers().filter(|&number| holds(&shape, number, at)).collect();
            if let Some(most) = shape.holding_most() {
                prop_assert_eq!(shape.last_holding(at), holding.last().copied());
                prop_assert!(holding.len() as u64 <= most);
                for number in holding.into_iter().filter(|_| !shape.begins) {
                    prop_assert_eq!(shape.size(), Some((shape.end(number) - shape.start(number)) as u64));
                }
            }
            let closing = numbers().filter(|&n| !shape.begins || n >= 0).find(|&n| shape.end(n) > at);
            prop_assert_eq!(Some(shape.closing_after(at)), closing);
            for number in [-3, 0, 1, 2, 5] {
                let only_before = first.is_some() && !(number..800).any(|other| holds(&shape, other, at));
                prop_assert_eq!(shape.holds_only_before(at, number), only_before);
            }
        }

        #[test]
        fn a_slice_is_wholly_in_a_window_or_out_of_it(shape in shape(), at in -300i64..300) {
            let start = shape.cuts().start_of(at);
            prop_assert!(start <= at);
            let first = if shape.begins { 0 } else { -400 };
            for between in start..at {
                for number in first..400 {
                    prop_assert_eq!(holds(&shape, number, between), holds(&shape, number, at));
                }
            }
        }

        #[test]
        fn instants_may_be_anything(shape in shape(), at in any::<i64>(), number in any::<i64>()) {
            prop_assert!(shape.cuts().start_of(at) <= at);
            shape.first_holding(at);
            shape.holds_only_before(at, number);
            prop_assert!(shape.start(number) <= shape.end(number).max(shape.origin));
        }
    }
}
