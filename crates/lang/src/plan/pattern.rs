//! The plan of MATCH_RECOGNIZE: a pattern of events that is matched key by key.
//!
//! The slots of a match are the keys, its start and its end (LONG, milliseconds), then its measures. In a condition on a
//! candidate event, that event's values follow.

use super::{Expr, WindowClock};

/// Which events make a match, and what is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// PARTITION BY: over the event. Events of equal keys are one sequence.
    pub keys: Vec<Expr>,
    /// What events are told apart as.
    pub variables: Vec<Variable>,
    /// What comes one after another; at least one of them needs an event.
    pub elements: Vec<Element>,
    /// A match takes less time than this, from its first event on.
    pub within_ms: u64,
    /// In whose order, and by which times.
    pub clock: WindowClock,
    /// Which matches may have events in common.
    pub skip: Skip,
    /// What conditions and measures read of an event: over the event.
    pub values: Vec<Expr>,
    /// What is kept of a match while it is made.
    pub measures: Vec<Measure>,
    /// Keeps a match only where this is true; over its slots.
    pub filter: Option<Expr>,
}

/// A variable of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: Box<str>,
    /// What of its condition can be told of an event alone; over the event. `None`: every event may be it.
    pub condition: Option<Expr>,
    /// The rest; over the slots of the match so far and the values of the event.
    pub further: Option<Expr>,
}

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Of which variable its events are.
    pub variable: usize,
    /// So many at least.
    pub least: u32,
    /// So many at most; `None`: any number.
    pub most: Option<u32>,
    /// Variables of which no event may come once it has its least, until the next step's first event is taken (behind the
    /// last step: until the time is over).
    pub absent: Vec<usize>,
}

/// Where one looks for further matches of a key when there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Behind its last event: no event is in two matches.
    PastLastRow,
    /// Behind its first event.
    ToNextRow,
}

/// What is kept of the events that a match takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// How.
    pub function: MeasureFunction,
    /// Of this variable's events; `None`: of all that are taken.
    pub variable: Option<usize>,
    /// Of which of the values; `None`: COUNT(*).
    pub value: Option<usize>,
}

/// The way a measure is made of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureFunction {
    /// That of the first event.
    First,
    /// That of the last one.
    Last,
    /// How many are not null; without a value, how many events.
    Count,
    /// As the aggregate.
    Sum,
    /// As the aggregate.
    Avg,
    /// As the aggregate.
    Min,
    /// As the aggregate.
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
