//! Groups an operator's members by their event-time windows: members whose windows close together share one line.
//!
//! A member sees the events from an offset on, and its watermark is that of these events. A member that joins after a time
//! far ahead has a line of its own, until event time has passed that time again. Cost of a batch: a few comparisons per line
//! and slice. Cost of closing a window: its members.

use std::collections::{BTreeMap, HashMap};

use swiftwater_event::Millis;
use swiftwater_live::{MaxEventTime, QueryNumber, Slices, Timeline};

#[derive(Debug)]
struct Line {
    timeline: Timeline,
    /// The first offset that it sees, and the first that it does not.
    first: u64,
    last: Option<u64>,
    members: Vec<QueryNumber>,
}

/// A cause that advances event time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// The latest time of a batch so far.
    Event(MaxEventTime),
    /// The stream was idle until this arrival.
    Idle(Millis),
}

/// All lines of an operator.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: BTreeMap<u64, Line>,
    next: u64,
    /// Each member's line, and what its late events are more than those of the line.
    members: HashMap<QueryNumber, (u64, i64)>,
}

impl Line {
    fn sees(&self, offset: u64) -> bool {
        self.first <= offset && self.last.is_none_or(|last| offset < last)
    }
}

impl Lines {
    /// A member sees the events from `first` on.
    pub(crate) fn join(&mut self, number: QueryNumber, timeline: Timeline, first: u64) {
        let like = |line: &Line| line.first == first && line.last.is_none() && line.timeline == timeline;
        let place = self.lines.iter().find(|(_, line)| like(line)).map(|(place, _)| *place);
        let place =
            place.unwrap_or_else(|| self.open(Line { timeline, first, last: None, members: Vec::new() }));
        if let Some(line) = self.lines.get_mut(&place) {
            line.members.push(number);
        }
        self.members.insert(number, (place, 0));
    }

    fn open(&mut self, line: Line) -> u64 {
        self.next += 1;
        self.lines.insert(self.next, line);
        self.next
    }

    /// A member sees nothing from `last` on.
    pub(crate) fn leave(&mut self, number: QueryNumber, last: u64) {
        let Some((place, more)) = self.members.get(&number).copied() else { return };
        let Some(line) = self.lines.get_mut(&place) else { return };
        line.members.retain(|member| *member != number);
        let own = Line {
            timeline: line.timeline.clone(),
            first: line.first,
            last: Some(last),
            members: vec![number],
        };
        if line.members.is_empty() {
            self.lines.remove(&place);
        }
        let own = self.open(own);
        self.members.insert(number, (own, more));
    }

    pub(crate) fn forget(&mut self, number: QueryNumber) {
        let Some((place, _)) = self.members.remove(&number) else { return };
        let Some(line) = self.lines.get_mut(&place) else { return };
        line.members.retain(|member| *member != number);
        if line.members.is_empty() {
            self.lines.remove(&place);
        }
    }

    /// A member's late events.
    pub(crate) fn late_of(&self, number: QueryNumber) -> u64 {
        let Some((place, more)) = self.members.get(&number) else { return 0 };
        self.lines.get(place).map_or(0, |line| line.timeline.late().saturating_add_signed(*more))
    }

    /// Advances event time before or within a batch whose first event has the offset `first`. Returns the members whose windows
    /// close, each with its new peak.
    pub(crate) fn advance(&mut self, by: By, first: u64) -> Vec<(QueryNumber, MaxEventTime)> {
        let mut over = Vec::new();
        let mut moved = Vec::new();
        for (place, line) in self.lines.iter_mut().filter(|(_, line)| line.sees(first)) {
            let latest = match by {
                By::Event(latest) => latest,
                By::Idle(until) => line.timeline.peak().advanced_to(until),
            };
            if line.timeline.advance(latest) {
                over.extend(line.members.iter().map(|member| (*member, latest)));
                moved.push(*place);
            }
        }
        moved.into_iter().for_each(|place| self.join_up(place));
        over
    }

    /// Makes a line one with another that it has caught up with.
    fn join_up(&mut self, place: u64) {
        let Some(line) = self.lines.get(&place).filter(|line| line.last.is_none()) else { return };
        let level = self.lines.iter().find(|(other, with)| {
            **other != place && with.last.is_none() && with.timeline.is_level_with(&line.timeline)
        });
        let Some(into) = level.map(|(other, _)| *other) else { return };
        let Some(line) = self.lines.remove(&place) else { return };
        let Some(with) = self.lines.get_mut(&into) else { return };
        for member in &line.members {
            if let Some((of, more)) = self.members.get_mut(member) {
                *of = into;
                *more += line.timeline.late() as i64 - with.timeline.late() as i64;
            }
        }
        with.members.extend(line.members);
    }

    /// The arrival at which an idle stream closes the next window that is not empty.
    pub(crate) fn idle_due(&self, slices: &Slices) -> Option<Millis> {
        let due = |line: &Line| line.timeline.idle_due(|from| slices.first_of_any(from));
        self.lines.values().filter(|line| line.last.is_none()).filter_map(due).min()
    }

    /// Counts the events of a slice for the members for which they are late; returns true if a window still needs them.
    pub(crate) fn admit(&mut self, start: i64, events: u64, first: u64) -> bool {
        let mut is_held = false;
        for line in self.lines.values_mut().filter(|line| line.sees(first)) {
            is_held |= line.timeline.admit(start, events);
        }
        is_held
    }
}
