//! The input of aggregations of one shape, computed once a batch for all of them.
//!
//! Aggregations have one shape if their keys and arguments are equal, whatever their filters are. If enough of their
//! matches are in a batch, keys and arguments are evaluated once over all its rows, into the form that the aggregates
//! take ([`group_input`](crate::operate)): hashes, numbers, combinations as bytes. Each aggregation picks its rows out
//! of that. Native dialect only, and only where evaluation has no errors: an error must be counted for the query that it
//! concerns.

use std::collections::HashMap;

use bumpalo::Bump;
use swiftwater_event::{Decoded, Millis, Value};
use swiftwater_lang::{Dialect, plan::Window};

use super::MaterializedColumns;
use crate::{
    expr::{EvalCounts, Program, Rows, Scratch},
    matching::{Entry, Matched},
    operate::{Combinations, GroupInput},
    standing::{CompiledBody, CompiledGroup},
};

/// Number of aggregations of a shape below which each evaluates by itself.
const SHARERS_MIN: usize = 3;

/// One shape's input: a row per row of the decoded columns.
pub(super) struct ShapeInput<'a> {
    pub(super) values: GroupInput<'a>,
    pub(super) keys: Combinations,
}

/// The shapes of a batch that are worth it, by their hashes.
#[derive(Default)]
pub(super) struct Shapes<'a> {
    inputs: HashMap<u64, (&'a Entry, ShapeInput<'a>)>,
}

impl<'a> ShapeInput<'a> {
    fn evaluate(
        group: &CompiledGroup,
        rows: &Rows<'a>,
        count: usize,
        scratch: &mut Scratch,
        arena: &'a Bump,
    ) -> Option<ShapeInput<'a>> {
        let mut counts = EvalCounts::default();
        let mut evaluate = |program: &Program| {
            let mut values: Vec<Value<'a>> = Vec::new();
            program.evaluate(rows, scratch, arena, &mut counts, &mut values);
            values
        };
        let values = GroupInput::evaluate(group, count, Dialect::Native, true, &mut evaluate);
        if counts.expression_errors > 0 {
            return None;
        }
        let keys = values.encoded_keys(count);
        Some(ShapeInput { values, keys })
    }
}

impl<'a> Shapes<'a> {
    /// Evaluates the values of the matches that many queries need.
    pub(super) fn of(
        matched: &[Matched<'a>],
        decoded: &'a Decoded,
        late: Option<&'a MaterializedColumns>,
        all_rows: &'a [u32],
        now: Millis,
        scratch: &mut Scratch,
        arena: &'a Bump,
    ) -> Shapes<'a> {
        let mut shapes = Shapes::default();
        if matched.len() < SHARERS_MIN {
            return shapes;
        }
        let mut sharers: HashMap<u64, (&'a Entry, usize, usize)> = HashMap::new();
        for found in matched {
            let Some(group) = sharing(found.entry) else { continue };
            let (_, count, rows) = sharers.entry(group.shape.hash).or_insert((found.entry, 0, 0));
            *count += 1;
            *rows += found.rows.len();
        }
        for (hash, (entry, count, rows)) in sharers {
            let late = late.filter(|_| entry.body_is_late && !entry.body().is_empty());
            let (decoded, rows_there) =
                late.map_or((decoded, all_rows.len()), |late| (&late.decoded, late.decoded.rows));
            if count < SHARERS_MIN || rows < rows_there {
                continue;
            }
            let Some(group) = sharing(entry) else { continue };
            let rows = Rows::Events { decoded, bindings: entry.body(), rows: &all_rows[..rows_there], now };
            if let Some(input) = ShapeInput::evaluate(group, &rows, rows_there, scratch, arena) {
                shapes.inputs.insert(hash, (entry, input));
            }
        }
        shapes
    }

    /// The input for an aggregation, where it is there.
    pub(super) fn input_of(&self, entry: &Entry) -> Option<&ShapeInput<'a>> {
        let shape = &sharing(entry)?.shape;
        let (of, input) = self.inputs.get(&shape.hash)?;
        let is_same = sharing(of).is_some_and(|of| of.shape.text == shape.text)
            && of.body() == entry.body()
            && of.body_is_late == entry.body_is_late;
        is_same.then_some(input)
    }
}

/// The aggregation of an entry, where it may share with others of its shape.
fn sharing(entry: &Entry) -> Option<&CompiledGroup> {
    if entry.counts_rows.is_some() {
        return None;
    }
    let query = &entry.query;
    let CompiledBody::Group(group) = &query.body else { return None };
    let is_plain = query.views.is_none()
        && query.event_time.is_none()
        && query.pattern.is_none()
        && matches!(query.plan.window, Window::None | Window::Time { .. });
    let is_plain = is_plain && group.sets.is_empty();
    // If the order of events counts, the input has positions, which are those of one query's matches.
    (is_plain && !group.is_ordered() && group.deletes.is_none() && query.dialect() == Dialect::Native)
        .then_some(group)
}
