//! Evaluates the inputs of a pattern on matched events: their keys, the variables that they may be, and the requested
//! values.
//!
//! It works a column at a time. The collector, where all shards meet, relates events to one another.

use bumpalo::Bump;
use swiftwater_event::Value;

use super::{BatchContext, MaxEventTime, NO_TIME, PART_ROWS, QueryStep, Shard};
use crate::{
    expr::{EvalCounts, Program, Rows, encode_group_value},
    operate::{OwnedValue, PatternEvent, RowTimes},
    standing::CompiledPattern,
};

impl Shard {
    /// `matched` are the rows of the events in the batch.
    pub(super) fn pattern_events(
        &mut self,
        at: &BatchContext<'_>,
        pattern: &CompiledPattern,
        matched: &[u32],
        all_rows: Rows<'_>,
        counts: &mut EvalCounts,
        step: &mut QueryStep,
    ) {
        let (input, dialect) = (at.input, at.entry.query.dialect());
        let chunk = step.pattern.get_or_insert_default();
        let meta = input.batch.meta();
        chunk.times = RowTimes { sent: meta.sent_micros, read: meta.read_micros, matched: input.now_micros };
        chunk.events.reserve(matched.len());
        for (part, matched) in matched.chunks(PART_ROWS).enumerate() {
            let arena = Bump::new();
            let from = part * PART_ROWS;
            let rows = all_rows.part(from..from + matched.len());
            let variables = self.variables_of(pattern, &rows, matched.len(), &arena);
            let scratch = &mut self.scratch;
            let mut evaluate = |program: &Program| {
                let mut values: Vec<Value<'_>> = scratch.take_values();
                program.evaluate(&rows, scratch, &arena, counts, &mut values);
                values
            };
            let keys: Vec<Vec<Value<'_>>> = pattern.keys.iter().map(&mut evaluate).collect();
            let values: Vec<Vec<Value<'_>>> = pattern.values.iter().map(&mut evaluate).collect();
            for (place, &row) in matched.iter().enumerate() {
                let mut key = Vec::new();
                keys.iter().for_each(|column| encode_group_value(&column[place], dialect, &mut key));
                let time = at.times.map(|times| (times.times[row as usize], times.peaks[row as usize]));
                let (time, peak) = time.unwrap_or((NO_TIME, MaxEventTime::NONE));
                chunk.events.push(PatternEvent {
                    row,
                    arrival: input.arrival(row),
                    at: time,
                    peak,
                    key: key.into(),
                    variables: variables[place],
                    values: values.iter().map(|column| OwnedValue::of(&column[place])).collect(),
                });
            }
            keys.into_iter().chain(values).for_each(|values| self.scratch.emit_values(values));
        }
    }

    /// The variables that each row may be, as bits. Errors were counted when the rows were matched.
    fn variables_of(
        &mut self,
        pattern: &CompiledPattern,
        rows: &Rows<'_>,
        count: usize,
        arena: &Bump,
    ) -> Vec<u32> {
        let mut variables = vec![0; count];
        let mut kept = Vec::new();
        for (variable, condition) in pattern.conditions.iter().enumerate() {
            let Some(condition) = condition else {
                variables.iter_mut().for_each(|bits| *bits |= 1 << variable);
                continue;
            };
            condition.filter_rows(rows, &mut self.scratch, arena, &mut EvalCounts::default(), &mut kept);
            // They stand in the order of the rows.
            let mut kept = kept.iter().peekable();
            for (bits, row) in variables.iter_mut().zip(rows.selection()) {
                if kept.next_if(|next| *next == row).is_some() {
                    *bits |= 1 << variable;
                }
            }
        }
        variables
    }
}
