//! The plan of MATCH_RECOGNIZE: a pattern of events that is matched key by key.
//!
//! The slots of a match are the keys, its start and its end (LONG, milliseconds), then its measures. In a condition on a
//! candidate event, that event's values follow.

use super::{Expr, WindowClock};

/// The events that make a match, and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// PARTITION BY: over the event. Events of equal keys are one sequence.
    pub keys: Vec<Expr>,
    /// The variables, which classify events.
    pub variables: Vec<Variable>,
    /// The sequence of variables; at least one of them needs an event.
    pub elements: Vec<Element>,
    /// A match takes less time than this, from its first event on.
    pub within_ms: u64,
    /// The clock, which determines the order of the events and their times.
    pub clock: WindowClock,
    /// Rule for matches that have events in common.
    pub skip: Skip,
    /// The values of an event that conditions and measures read: over the event.
    pub values: Vec<Expr>,
    /// The measures kept of a match while it is made.
    pub measures: Vec<Measure>,
    /// The condition on a match, over its slots.
    pub filter: Option<Expr>,
}

/// A variable of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: Box<str>,
    /// The part of its condition that depends on the event alone; over the event. `None`: every event may be it.
    pub condition: Option<Expr>,
    /// The rest; over the slots of the match so far and the values of the event.
    pub further: Option<Expr>,
}

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The variable of its events.
    pub variable: usize,
    /// The least number.
    pub least: u32,
    /// The greatest number; `None`: no limit.
    pub most: Option<u32>,
    /// Variables of which no event may come once it has its least, until the next step's first event is taken (behind the
    /// last step: until the time is over).
    pub absent: Vec<usize>,
}

/// The place at which the search for further matches of a key continues after a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The search continues after its last event: no event is in two matches.
    PastLastRow,
    /// The search continues after its first event.
    ToNextRow,
}

/// A measure over the events that a match takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The function.
    pub function: MeasureFunction,
    /// The variable whose events it is over; `None`: all that are taken.
    pub variable: Option<usize>,
    /// The place of the value; `None`: COUNT(*).
    pub value: Option<usize>,
}

/// The way a measure is made of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureFunction {
    /// The value of the first event.
    First,
    /// The value of the last one.
    Last,
    /// The number of values that are not null; without a value, the number of events.
    Count,
    /// The sum, as by the aggregate.
    Sum,
    /// The average, as by the aggregate.
    Avg,
    /// The minimum, as by the aggregate.
    Min,
    /// The maximum, as by the aggregate.
    Max,
}

impl Pattern {
    /// The slot of when the first event of a match was.
    pub fn start_slot(&self) -> usize {
        self.keys.len()
    }

    /// The slot of the first measure.
    pub fn first_measure(&self) -> usize {
        self.keys.len() + 2
    }

    /// True if a match is complete only when its time is over: it ends with variables that must be absent.
    pub fn ends_with_absence(&self) -> bool {
        self.elements.last().is_some_and(|last| !last.absent.is_empty())
    }

    /// The expressions over the event.
    pub fn event_exprs(&self) -> impl Iterator<Item = &Expr> {
        let conditions = self.variables.iter().filter_map(|variable| variable.condition.as_ref());
        self.keys.iter().chain(conditions).chain(&self.values).chain(self.event_time())
    }

    /// The events' own time, where it goes by that.
    pub fn event_time(&self) -> Option<&Expr> {
        match &self.clock {
            WindowClock::Event { time, .. } => Some(time),
            WindowClock::Arrival => None,
        }
    }
}
