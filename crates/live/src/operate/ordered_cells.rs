//! Aggregate cells that depend on the order of the events: FIRST, LAST, ARG_MIN, ARG_MAX, COLLECT_LIST and COLLECT_SET.
//!
//! Each value is stored with the position of its row in the stream, and positions alone decide which values are kept.
//! Therefore cells merge in any order, and no result depends on how the events were split over batches and shards. Null
//! values are skipped.
//!
//! Memory: FIRST and its like store one value. Collections are bounded in number and bytes ([`CollectedValues`]).

mod collected;

use std::ops::Range;

use bumpalo::Bump;
use swiftwater_event::{Value, parse_value};
use swiftwater_lang::Dialect;

pub(crate) use self::collected::CollectedValues;
use super::{
    cells::image::{InvalidState, decode_value, encode_value, push_varint, read_varint},
    group_input::{InputValues, SelectedRows},
    owned::OwnedValue,
    sketch_cells::merge_sketches,
};
use crate::expr::{encode_group_value, total_order};

/// The position of a row in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct RowPosition {
    /// The event's number in the stream, or the place of its first byte.
    pub(crate) event: u64,
    /// Number of the row among those that lateral views make of the event.
    pub(crate) row: u32,
}

/// The positions of an input's rows, and their events; both empty if no aggregation needs them.
#[derive(Debug, Default)]
pub(crate) struct StreamOrder<'v> {
    /// The positions by row.
    pub(crate) positions: Vec<RowPosition>,
    /// The text of each row's event.
    pub(crate) events: Vec<&'v str>,
}

/// One aggregate's cells, one per group.
#[derive(Debug, Clone)]
pub(crate) enum OrderedCells {
    Chosen { choice: RowChoice, cells: Vec<ChosenRow> },
    Collected { is_set: bool, values_max: u32, cells: Vec<CollectedValues> },
}

/// The row whose value is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowChoice {
    First,
    Last,
    /// The event itself, kept as its text.
    FirstEvent,
    LastEvent,
    /// The row with the least other value; of equal ones the first.
    Least,
    /// The row with the greatest other value; of equal ones the first.
    Greatest,
}

/// The value of a row.
#[derive(Debug, Clone)]
pub(crate) struct ChosenRow {
    at: RowPosition,
    /// The value by which it was chosen; null if that is the position.
    by: OwnedValue,
    /// Null where there is none yet.
    value: OwnedValue,
}

impl OrderedCells {
    /// Cells of one value each.
    pub(crate) fn choosing(choice: RowChoice) -> OrderedCells {
        OrderedCells::Chosen { choice, cells: Vec::new() }
    }

    /// Cells of at most so many values, of a set each once.
    pub(crate) fn collecting(is_set: bool, values_max: u32) -> OrderedCells {
        OrderedCells::Collected { is_set, values_max, cells: Vec::new() }
    }

    /// The same without groups.
    pub(crate) fn emptied(&self) -> OrderedCells {
        match *self {
            OrderedCells::Chosen { choice, .. } => OrderedCells::Chosen { choice, cells: Vec::new() },
            OrderedCells::Collected { is_set, values_max, .. } => {
                OrderedCells::Collected { is_set, values_max, cells: Vec::new() }
            }
        }
    }

    /// Adds cells for all groups below `groups`.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            OrderedCells::Chosen { cells, .. } => cells.resize_with(groups, || ChosenRow::NONE),
            OrderedCells::Collected { cells, .. } => cells.resize_with(groups, CollectedValues::default),
        }
    }

    /// Makes a group's cell a new one.
    pub(crate) fn reset(&mut self, group: usize) {
        match self {
            OrderedCells::Chosen { cells, .. } => cells[group] = ChosenRow::NONE,
            OrderedCells::Collected { cells, .. } => cells[group] = CollectedValues::default(),
        }
    }

    /// Bytes of one cell, without what it keeps on the heap.
    pub(crate) fn cell_bytes(&self) -> usize {
        match self {
            OrderedCells::Chosen { .. } => size_of::<ChosenRow>(),
            OrderedCells::Collected { .. } => size_of::<CollectedValues>(),
        }
    }

    /// Bytes of a group's cell on the heap.
    pub(crate) fn heap_bytes(&self, group: usize) -> usize {
        match self {
            OrderedCells::Chosen { cells, .. } => cells[group].bytes(),
            OrderedCells::Collected { cells, .. } => cells[group].bytes(),
        }
    }

    /// Takes in rows. Returns the number of values that could not be used for their type, and the new bytes on the
    /// heap.
    pub(crate) fn update(
        &mut self,
        rows: SelectedRows<'_>,
        taken: &InputValues<'_>,
        order: &StreamOrder<'_>,
    ) -> (u64, isize) {
        let mut mistyped = 0;
        let positions = &order.positions;
        let heap = match (self, taken) {
            (OrderedCells::Chosen { choice, cells }, InputValues::Rows | InputValues::Values(_)) => {
                let value = |row: usize| match taken {
                    InputValues::Values(values) if !choice.is_event() => values[row],
                    // The value for an event only says if it counts.
                    InputValues::Values(values) if matches!(values[row], Value::Null | Value::Error) => {
                        Value::Null
                    }
                    _ => Value::String(order.events[row]),
                };
                let mut heap = 0;
                let mut take = |(group, row): (usize, usize)| {
                    heap += cells[group].take(*choice, positions[row], &Value::Null, &value(row));
                };
                match choice {
                    // The last of a batch's rows first: the others then change nothing.
                    RowChoice::Last | RowChoice::LastEvent => rows.iter().rev().for_each(&mut take),
                    _ => rows.iter().for_each(&mut take),
                }
                heap
            }
            (OrderedCells::Chosen { choice, cells }, InputValues::Pairs(values, by)) => {
                let mut heap = 0;
                for (group, row) in rows.iter() {
                    if matches!(by[row], Value::List(_) | Value::Map(_)) {
                        mistyped += 1;
                    } else if !matches!(by[row], Value::Null | Value::Error) {
                        heap += cells[group].take(*choice, positions[row], &by[row], &values[row]);
                    }
                }
                heap
            }
            (OrderedCells::Collected { is_set, values_max, cells }, InputValues::Values(values)) => {
                let mut bytes = Vec::new();
                rows.fold(cells, CollectedValues::bytes, |cell, row| {
                    let (value, at) = (&values[row], positions[row]);
                    if matches!(value, Value::Null | Value::Error) || !cell.may_take(at) {
                        return;
                    }
                    bytes.clear();
                    match is_set {
                        true => encode_group_value(value, Dialect::Native, &mut bytes),
                        false => encode_value(value, &mut bytes),
                    }
                    cell.take(at, &bytes, *is_set, *values_max);
                })
            }
            _ => 0,
        };
        (mistyped, heap)
    }

    /// Takes in the cells of another partial: its group `g` is our group `group_of[g]`, where it is not passed over.
    /// Returns the new bytes on the heap.
    pub(crate) fn merge(&mut self, other: &OrderedCells, group_of: &[u32]) -> isize {
        match (self, other) {
            (OrderedCells::Chosen { choice, cells: ours }, OrderedCells::Chosen { cells: theirs, .. }) => {
                let choice = *choice;
                merge_sketches(
                    ours,
                    theirs,
                    group_of,
                    |ours, theirs| ours.merge(choice, theirs),
                    ChosenRow::bytes,
                )
            }
            (
                OrderedCells::Collected { is_set, values_max, cells: ours },
                OrderedCells::Collected { cells: theirs, .. },
            ) => {
                let (is_set, most) = (*is_set, *values_max);
                let merge =
                    |ours: &mut CollectedValues, theirs: &CollectedValues| ours.merge(theirs, is_set, most);
                merge_sketches(ours, theirs, group_of, merge, CollectedValues::bytes)
            }
            _ => unreachable!("partials of one query have the same aggregates in the same order"),
        }
    }

    /// The value of each of some groups, in order; what is collected is a list, empty where nothing is.
    pub(crate) fn evaluate<'a>(&'a self, groups: Range<usize>, arena: &'a Bump, out: &mut Vec<Value<'a>>) {
        match self {
            OrderedCells::Chosen { choice, cells } => {
                out.extend(cells[groups].iter().map(|cell| match &cell.value {
                    // Events are objects that were checked when they came in.
                    OwnedValue::String(event) if choice.is_event() => {
                        parse_value(event, arena).unwrap_or(Value::Null)
                    }
                    value => value.get(arena),
                }))
            }
            OrderedCells::Collected { is_set, cells, .. } => {
                out.extend(cells[groups].iter().map(|cell| cell.evaluate(*is_set, arena)));
            }
        }
    }

    /// Appends a group's state.
    pub(crate) fn encode(&self, group: usize, out: &mut Vec<u8>) {
        match self {
            OrderedCells::Chosen { cells, .. } => cells[group].encode(out),
            OrderedCells::Collected { cells, .. } => cells[group].encode(out),
        }
    }

    /// Appends a cell with the state that `bytes` begin with.
    pub(crate) fn decode(&mut self, bytes: &mut &[u8]) -> Result<(), InvalidState> {
        match self {
            OrderedCells::Chosen { cells, .. } => cells.push(ChosenRow::decode(bytes)?),
            OrderedCells::Collected { cells, .. } => cells.push(CollectedValues::decode(bytes)?),
        }
        Ok(())
    }
}

impl RowChoice {
    fn is_event(self) -> bool {
        matches!(self, RowChoice::FirstEvent | RowChoice::LastEvent)
    }
}

impl ChosenRow {
    const NONE: ChosenRow =
        ChosenRow { at: RowPosition { event: 0, row: 0 }, by: OwnedValue::NULL, value: OwnedValue::NULL };

    fn is_none(&self) -> bool {
        matches!(self.value, OwnedValue::Plain(Value::Null))
    }

    fn bytes(&self) -> usize {
        self.by.heap_bytes() + self.value.heap_bytes()
    }

    /// True if a row's value replaces the one that is there. The choice between two rows does not depend on
    /// their order of arrival.
    fn is_replaced_by(&self, choice: RowChoice, at: RowPosition, by: &Value<'_>) -> bool {
        if self.is_none() {
            return true;
        }
        let arena = Bump::new();
        let order = || total_order(by, &self.by.get(&arena));
        let order = match choice {
            RowChoice::First | RowChoice::FirstEvent => at.cmp(&self.at),
            RowChoice::Last | RowChoice::LastEvent => self.at.cmp(&at),
            RowChoice::Least => order().then(at.cmp(&self.at)),
            RowChoice::Greatest => order().reverse().then(at.cmp(&self.at)),
        };
        order.is_lt()
    }

    /// Takes a value if it replaces the present one; returns the new bytes on the heap.
    fn take(&mut self, choice: RowChoice, at: RowPosition, by: &Value<'_>, value: &Value<'_>) -> isize {
        if matches!(value, Value::Null | Value::Error) || !self.is_replaced_by(choice, at, by) {
            return 0;
        }
        let before = self.bytes() as isize;
        *self = ChosenRow { at, by: OwnedValue::of(by), value: OwnedValue::of(value) };
        self.bytes() as isize - before
    }

    fn merge(&mut self, choice: RowChoice, other: &ChosenRow) {
        let arena = Bump::new();
        if !other.is_none() && self.is_replaced_by(choice, other.at, &other.by.get(&arena)) {
            *self = other.clone();
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let arena = Bump::new();
        encode_value(&self.value.get(&arena), out);
        encode_value(&self.by.get(&arena), out);
        push_varint(self.at.event, out);
        push_varint(u64::from(self.at.row), out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<ChosenRow, InvalidState> {
        let arena = Bump::new();
        let value = OwnedValue::of(&decode_value(bytes, &arena)?);
        let by = OwnedValue::of(&decode_value(bytes, &arena)?);
        let event = read_varint(bytes)?;
        let row = u32::try_from(read_varint(bytes)?).map_err(|_| InvalidState)?;
        Ok(ChosenRow { at: RowPosition { event, row }, by, value })
    }
}
