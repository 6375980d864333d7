//! A compiled expression: its nodes, the inputs that it reads, and its error counts.

use std::ops::Range;

use bumpalo::Bump;
use swiftwater_event::{Column, Decoded, Millis, Value, WantId};
use swiftwater_lang::{Dialect, plan};

use super::compile::{self, CompileError};
use super::predicate::Truth;
use super::value_node::{self, Constant, Node};
use super::{Scratch, Wants, cast};

/// A compiled expression: immutable, shared by all threads that run it.
#[derive(Debug)]
pub struct Program {
    root: Node,
    dialect: Dialect,
}

/// The input of a program.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Rows of a decoded batch.
    Events {
        /// The batch.
        decoded: &'a Decoded,
        /// The column of each of the program's wants, by place in its [`Wants`].
        bindings: &'a [WantId],
        /// The rows to run over; the results are in this order.
        rows: &'a [u32],
        /// The arrival time of the batch.
        now: Millis,
    },
    /// Rows that lateral views made of events.
    Exploded {
        /// The values of the program's wants, by place in its [`Wants`], then by event ([`requested_values`]).
        events: &'a [Vec<Value<'a>>],
        /// The event of each row.
        event_of_row: &'a [u32],
        /// The views' columns, by row: what a slot reads.
        slots: &'a [Vec<Value<'a>>],
        /// The rows to run over; the results are in this order.
        rows: &'a [u32],
        /// The arrival time of the batch.
        now: Millis,
    },
    /// The slots of aggregated rows, one vector per slot.
    Slots {
        /// The values by slot, then by row.
        columns: &'a [Vec<Value<'a>>],
        /// Rows.
        count: usize,
        /// The time of the result.
        now: Millis,
    },
    /// The slots of a single row.
    Row {
        /// The values by slot.
        slots: &'a [Value<'a>],
        /// The time of the result.
        now: Millis,
    },
}

impl<'a> Rows<'a> {
    /// A part of the rows, by place. Slots are run over as a whole: they stay as they are.
    pub(crate) fn part(self, places: Range<usize>) -> Rows<'a> {
        match self {
            Rows::Events { decoded, bindings, rows, now } => {
                Rows::Events { decoded, bindings, rows: &rows[places], now }
            }
            Rows::Exploded { events, event_of_row, slots, rows, now } => {
                Rows::Exploded { events, event_of_row, slots, rows: &rows[places], now }
            }
            Rows::Slots { .. } | Rows::Row { .. } => self,
        }
    }
}

impl<'a> Rows<'a> {
    /// The rows to run over, where they are stated.
    pub(crate) fn selection(&self) -> &'a [u32] {
        match *self {
            Rows::Events { rows, .. } | Rows::Exploded { rows, .. } => rows,
            Rows::Slots { .. } | Rows::Row { .. } => &[],
        }
    }

    /// These rows to run over.
    pub(crate) fn select(self, rows: &'a [u32]) -> Rows<'a> {
        match self {
            Rows::Events { decoded, bindings, now, .. } => Rows::Events { decoded, bindings, rows, now },
            Rows::Exploded { events, event_of_row, slots, now, .. } => {
                Rows::Exploded { events, event_of_row, slots, rows, now }
            }
            Rows::Slots { .. } | Rows::Row { .. } => self,
        }
    }
}

/// The values of some wants of some rows: for each of `bindings`, one value a row, as programs would read them.
pub(crate) fn requested_values<'a>(
    decoded: &'a Decoded,
    bindings: &[WantId],
    rows: &[u32],
    dialect: Dialect,
    arena: &'a Bump,
) -> Vec<Vec<Value<'a>>> {
    let columns = bindings.iter().map(|want| decoded.columns.get(want.0 as usize));
    columns
        .map(|column| {
            let mut values = Vec::with_capacity(rows.len());
            match column {
                Some(column) => value_node::fill_from_column(column, rows, dialect, arena, &mut values),
                None => values.resize(rows.len(), Value::Null),
            }
            values
        })
        .collect()
}

/// The errors of evaluation, for the answer's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EvalCounts {
    /// Operations that had no result. Native: each operation on each row, at the place where its null arose. Bullet:
    /// rows whose result is an error.
    pub expression_errors: u64,
}

impl Program {
    /// Compiles an expression, adding the paths that it reads to `wants`.
    pub fn compile(expr: &plan::Expr, dialect: Dialect, wants: &mut Wants) -> Result<Program, CompileError> {
        Ok(Program { root: compile::node(expr, dialect, wants)?, dialect })
    }

    /// One value per row into `out` (cleared first), in the order of the rows. In the native dialect none is
    /// [`Value::Error`]. Values borrow from the batch or the arena, never from the program.
    pub fn evaluate<'a>(
        &self,
        rows: &Rows<'a>,
        scratch: &mut Scratch,
        arena: &'a Bump,
        counts: &mut EvalCounts,
        out: &mut Vec<Value<'a>>,
    ) {
        out.clear();
        let mut context = Context { rows, arena, dialect: self.dialect, counts, scratch };
        context.with_all_rows(|context, selection| self.root.evaluate(selection, context, out));
        if self.dialect == Dialect::Bullet {
            counts.expression_errors +=
                out.iter().filter(|value| matches!(value, Value::Error)).count() as u64;
        }
    }

    /// The rows (numbers as in [`Rows::Events`] and [`Rows::Exploded`]; places from 0 for slots) where the expression is true, into `out`
    /// (cleared first), in order. Any primitive is cast to BOOLEAN.
    ///
    /// The operands of an AND run in order, each on the rows only where all before it were true: so of a row that a
    /// null already rules out no further error is counted.
    pub fn filter_rows<'a>(
        &self,
        rows: &Rows<'a>,
        scratch: &mut Scratch,
        arena: &'a Bump,
        counts: &mut EvalCounts,
        out: &mut Vec<u32>,
    ) {
        out.clear();
        let mut context = Context { rows, arena, dialect: self.dialect, counts, scratch };
        context.with_all_rows(|context, selection| match &self.root {
            Node::Truth(predicate) => predicate.select(selection, context, out),
            root => {
                let mut values = context.scratch.take_values();
                root.evaluate(selection, context, &mut values);
                for (value, &row) in values.iter().zip(selection) {
                    match cast::truth(*value, context.dialect) {
                        Truth::True => out.push(row),
                        Truth::Error => context.counts.expression_errors += 1,
                        Truth::False | Truth::Null => {}
                    }
                }
                context.scratch.emit_values(values);
            }
        });
    }

    /// The value, if it is the same for all rows.
    pub fn constant<'a>(&self, arena: &'a Bump) -> Option<Value<'a>> {
        match &self.root {
            Node::Constant(constant) => Some(constant.in_arena(arena)),
            _ => None,
        }
    }

    /// True if the expression is the value of a slot, as it is.
    pub(crate) fn is_slot(&self) -> bool {
        self.as_slot().is_some()
    }

    /// The slot, if the expression is just the value of a slot.
    pub fn as_slot(&self) -> Option<usize> {
        match &self.root {
            Node::Slot(slot) => Some(*slot),
            _ => None,
        }
    }

    /// The value over a single row, and how many operations had no result.
    pub fn value<'a>(
        &self,
        slots: &'a [Value<'a>],
        now: Millis,
        scratch: &mut Scratch,
        arena: &'a Bump,
    ) -> (Value<'a>, u64) {
        if let Node::Slot(slot) = &self.root {
            return (slots.get(*slot).copied().unwrap_or(Value::Null), 0);
        }
        let mut values = scratch.take_values();
        let mut counts = EvalCounts::default();
        self.evaluate(&Rows::Row { slots, now }, scratch, arena, &mut counts, &mut values);
        let value = values.first().copied().unwrap_or(Value::Null);
        scratch.emit_values(values);
        (value, counts.expression_errors)
    }

    /// The want, if the expression is just the value of a want.
    pub fn as_want(&self) -> Option<usize> {
        match &self.root {
            Node::Column(column) => Some(column.want),
            _ => None,
        }
    }
}

/// All that an evaluation passes down to its nodes.
pub(super) struct Context<'r, 'a> {
    pub(super) rows: &'r Rows<'a>,
    pub(super) arena: &'a Bump,
    pub(super) dialect: Dialect,
    pub(super) counts: &'r mut EvalCounts,
    pub(super) scratch: &'r mut Scratch,
}

impl<'a> Context<'_, 'a> {
    fn with_all_rows(&mut self, run: impl FnOnce(&mut Self, &[u32])) {
        match *self.rows {
            Rows::Events { rows, .. } | Rows::Exploded { rows, .. } => run(self, rows),
            Rows::Row { .. } => run(self, &[0]),
            Rows::Slots { count, .. } => {
                let mut all = self.scratch.take_rows();
                all.extend(0..u32::try_from(count).unwrap_or(u32::MAX));
                run(self, &all);
                self.scratch.emit_rows(all);
            }
        }
    }

    /// The column of a want; `None` over anything but events, or where nothing is bound.
    pub(super) fn column(&self, want: usize) -> Option<&'a Column> {
        match *self.rows {
            Rows::Events { decoded, bindings, .. } => {
                bindings.get(want).and_then(|id| decoded.columns.get(id.0 as usize))
            }
            Rows::Exploded { .. } | Rows::Slots { .. } | Rows::Row { .. } => None,
        }
    }

    /// The values of a want by event, and the event of each row, where rows were made of events.
    pub(super) fn exploded(&self, want: usize) -> Option<(&'a [Value<'a>], &'a [u32])> {
        match *self.rows {
            Rows::Exploded { events, event_of_row, .. } => Some((events.get(want)?, event_of_row)),
            Rows::Events { .. } | Rows::Slots { .. } | Rows::Row { .. } => None,
        }
    }

    /// The values of a slot; `None` over events.
    pub(super) fn slot(&self, slot: usize) -> Option<&'a [Value<'a>]> {
        match *self.rows {
            Rows::Slots { columns, .. } => columns.get(slot).map(Vec::as_slice),
            Rows::Exploded { slots, .. } => slots.get(slot).map(Vec::as_slice),
            Rows::Row { slots, .. } => slots.get(slot).map(std::slice::from_ref),
            Rows::Events { .. } => None,
        }
    }

    /// The time of the rows.
    pub(super) fn now(&self) -> Millis {
        match *self.rows {
            Rows::Events { now, .. }
            | Rows::Exploded { now, .. }
            | Rows::Slots { now, .. }
            | Rows::Row { now, .. } => now,
        }
    }

    /// Native: errors become null and are counted. Every node calls this on what it made, so that no operand of
    /// another is ever an error.
    pub(super) fn nullify_errors(&mut self, values: &mut [Value<'a>]) {
        if !self.dialect.errors_become_null() {
            return;
        }
        for value in values {
            if matches!(value, Value::Error) {
                *value = Value::Null;
                self.counts.expression_errors += 1;
            }
        }
    }

    /// [`Context::nullify_errors`] for truths.
    pub(super) fn nullify_truth_errors(&mut self, truths: &mut [Truth]) {
        if !self.dialect.errors_become_null() {
            return;
        }
        for truth in truths {
            if *truth == Truth::Error {
                *truth = Truth::Null;
                self.counts.expression_errors += 1;
            }
        }
    }
}

impl Constant {
    /// The value, its text and elements copied into the arena: once per evaluation, not per row.
    pub(super) fn in_arena<'a>(&self, arena: &'a Bump) -> Value<'a> {
        match self {
            Constant::Null => Value::Null,
            Constant::Boolean(truth) => Value::Boolean(*truth),
            Constant::Integer(number) => Value::Integer(*number),
            Constant::Long(number) => Value::Long(*number),
            Constant::Float(number) => Value::Float(*number),
            Constant::Double(number) => Value::Double(*number),
            Constant::String(text) => Value::String(arena.alloc_str(text)),
            Constant::List(items) => {
                Value::List(arena.alloc_slice_fill_iter(items.iter().map(|item| item.in_arena(arena))))
            }
        }
    }
}
