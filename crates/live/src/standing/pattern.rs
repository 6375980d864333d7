//! Compiles a pattern (MATCH_RECOGNIZE).

use swiftwater_lang::plan::{Expr, Measure, Pattern, Skip, WindowClock};

use crate::{
    expr::{CompileError, Program, Wants},
    operate::Automaton,
};
use swiftwater_lang::Dialect;

/// A compiled [`Pattern`].
#[derive(Debug)]
pub struct CompiledPattern {
    /// The keys over the event.
    pub keys: Vec<Program>,
    /// The condition of each variable, over the event. `None`: all.
    pub conditions: Vec<Option<Program>>,
    /// The rest of the conditions, by variable; over the slots of a match and the values of an event.
    pub further: Vec<Option<Program>>,
    /// The values over the event.
    pub values: Vec<Program>,
    /// The measures to keep of a match.
    pub measures: Vec<Measure>,
    /// The order of the variables.
    pub(crate) automaton: Automaton,
    /// The condition on a match, over its slots.
    pub filter: Option<Program>,
    /// A match takes less time than this, in milliseconds.
    pub within_ms: u64,
    /// The lateness in milliseconds, for patterns by the events' own time.
    pub lateness_ms: Option<u64>,
    /// Rule for matches that have events in common.
    pub skip: Skip,
}

impl CompiledPattern {
    /// `wants`: where the paths of the events go.
    pub(super) fn compile(
        pattern: &Pattern,
        dialect: Dialect,
        wants: &mut Wants,
    ) -> Result<CompiledPattern, CompileError> {
        let mut slots = Wants::new();
        let mut compile = |expr: &Expr| Program::compile(expr, dialect, wants);
        let mut over_slots = |expr: &Expr| Program::compile(expr, dialect, &mut slots);
        let variables = || pattern.variables.iter();
        Ok(CompiledPattern {
            keys: pattern.keys.iter().map(&mut compile).collect::<Result<_, _>>()?,
            conditions: variables()
                .map(|variable| variable.condition.as_ref().map(&mut compile).transpose())
                .collect::<Result<_, _>>()?,
            further: variables()
                .map(|variable| variable.further.as_ref().map(&mut over_slots).transpose())
                .collect::<Result<_, _>>()?,
            values: pattern.values.iter().map(&mut compile).collect::<Result<_, _>>()?,
            measures: pattern.measures.clone(),
            automaton: Automaton::new(&pattern.elements),
            filter: pattern.filter.as_ref().map(&mut over_slots).transpose()?,
            within_ms: pattern.within_ms,
            lateness_ms: match pattern.clock {
                WindowClock::Arrival => None,
                WindowClock::Event { lateness_ms, .. } => Some(lateness_ms),
            },
            skip: pattern.skip,
        })
    }
}
