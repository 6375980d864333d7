//! The automaton of a pattern: the steps that may follow each step, and the events that must not occur in between.
//!
//! It knows only which variables an event may be.

use smallvec::SmallVec;
use swiftwater_lang::plan::Element;

/// The steps of a pattern.
#[derive(Debug)]
pub(crate) struct Automaton {
    steps: Vec<Step>,
    /// Steps that a match may begin with, the furthest first.
    begins: SmallVec<[usize; 2]>,
    /// A match is complete only when its time is over.
    waits: bool,
}

#[derive(Debug)]
struct Step {
    variable: usize,
    least: u32,
    most: Option<u32>,
    /// The steps that may follow once it has its least, the furthest first.
    next: SmallVec<[usize; 2]>,
    /// Variables of which no event may come then.
    absent: SmallVec<[usize; 1]>,
    /// True if the pattern may end here.
    ends: bool,
}

/// The progress of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatchProgress {
    step: usize,
    /// Events that it took there.
    count: u32,
}

/// The transition of a match by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchTransition {
    /// It is taken as a variable's, and the match is here now.
    Takes(usize, MatchProgress),
    /// It is passed over.
    Passes,
    /// It must not have come.
    Breaks,
}

impl Automaton {
    pub(crate) fn new(elements: &[Element]) -> Automaton {
        // From behind a step on: all up to the first that needs an event.
        let reachable = |from: usize| -> SmallVec<[usize; 2]> {
            let needed = elements[from..].iter().position(|element| element.least > 0);
            let to = needed.map_or(elements.len(), |needed| from + needed + 1);
            (from..to).rev().collect()
        };
        let steps = elements.iter().enumerate().map(|(place, element)| {
            let passed = elements[place + 1..].iter().take_while(|element| element.least == 0);
            let absent = element.absent.iter().chain(passed.flat_map(|element| &element.absent));
            Step {
                variable: element.variable,
                least: element.least,
                most: element.most,
                next: reachable(place + 1),
                absent: absent.copied().collect(),
                ends: elements[place + 1..].iter().all(|element| element.least == 0),
            }
        });
        Automaton {
            steps: steps.collect(),
            begins: reachable(0),
            waits: elements.last().is_some_and(|last| !last.absent.is_empty()),
        }
    }

    /// True if a match is complete only when its time is over.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// The state of a match that begins with an event, if one may: the furthest possible step.
    pub(crate) fn begin(&self, mut may_be: impl FnMut(usize) -> bool) -> Option<(usize, MatchProgress)> {
        let step = self.begins.iter().copied().find(|&step| may_be(self.steps[step].variable))?;
        Some((self.steps[step].variable, MatchProgress { step, count: 1 }))
    }

    /// The transition of a match by an event: the event is taken for the furthest possible step.
    pub(crate) fn walk(
        &self,
        reached: MatchProgress,
        mut may_be: impl FnMut(usize) -> bool,
    ) -> MatchTransition {
        let step = &self.steps[reached.step];
        let has_least = reached.count >= step.least;
        if has_least
            && let Some(next) = step.next.iter().copied().find(|&next| may_be(self.steps[next].variable))
        {
            return MatchTransition::Takes(self.steps[next].variable, MatchProgress { step: next, count: 1 });
        }
        let has_room = step.most.is_none_or(|most| reached.count < most);
        if has_room && may_be(step.variable) {
            let count = reached.count.saturating_add(1);
            return MatchTransition::Takes(step.variable, MatchProgress { count, ..reached });
        }
        let breaks = has_least && step.absent.iter().any(|&absent| may_be(absent));
        if breaks { MatchTransition::Breaks } else { MatchTransition::Passes }
    }

    /// True if nothing more is needed.
    pub(crate) fn is_complete(&self, reached: MatchProgress) -> bool {
        let step = &self.steps[reached.step];
        step.ends && reached.count >= step.least
    }
}
