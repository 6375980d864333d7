//! Prepares the input of aggregates for the rows of a batch once, for all aggregations of the same shape.
//!
//! The input is the values themselves, or the form that a sketch needs: hashes, numbers, combinations as bytes.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;
use swiftwater_lang::{
    Dialect,
    plan::{AggregateFunction, TableFunction},
};
use swiftwater_sketch::hash_of_bytes;

use super::{ordered_cells::StreamOrder, packed_counters::CounterInput, sketch_cells::encode_combination};
use crate::{
    expr::{Program, cast_to_double, encode_group_value},
    standing::CompiledGroup,
};

/// The value in place of a group's number for a row of no group, which is not taken in.
pub(crate) const PASSED_OVER: u32 = u32::MAX;

/// The form in which an aggregate consumes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputForm {
    Values,
    Pairs,
    /// Values, of which only counts whether they are there.
    Ones,
    /// Values that are added up.
    Wholes,
    Hashes,
    Numbers,
    Combinations,
}

/// The input values of one aggregate, by row.
#[derive(Debug)]
pub(crate) enum InputValues<'v> {
    /// COUNT(*): the rows themselves.
    Rows,
    Values(Vec<Value<'v>>),
    /// Values, and others to choose among them by.
    Pairs(Vec<Value<'v>>, Vec<Value<'v>>),
    /// The values are in the input of the lanes.
    Words,
    /// Hashes of combinations of values; `None` if one does not count.
    Hashes(Vec<Option<u64>>),
    Numbers(Vec<NumericInput>),
    Combinations(Combinations),
}

/// A value where a number is required.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NumericInput {
    Nothing,
    /// It is of a type that is no number's.
    Unusable,
    Is(f64),
}

/// Combinations of values as bytes, by row.
#[derive(Debug, Default)]
pub(crate) struct Combinations {
    /// The place of each row's combination; [`PASSED_OVER`] where it does not count.
    pub(crate) place_of_row: Vec<u32>,
    /// Their bytes, one after another, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// A selection of input rows, each with its group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectedRows<'p> {
    groups: &'p [u32],
    /// `None`: they are all rows.
    rows: Option<&'p [u32]>,
}

/// All that an aggregation takes in.
#[derive(Debug, Default)]
pub(crate) struct GroupInput<'v> {
    /// The keys by key, then by row.
    pub(crate) keys: Vec<Vec<Value<'v>>>,
    /// The inputs by aggregate.
    pub(crate) aggregates: Vec<InputValues<'v>>,
    /// The input of counts and sums of whole numbers.
    pub(crate) lanes: CounterInput,
    /// The input of the aggregate that returns rows.
    pub(crate) table: Option<InputValues<'v>>,
    pub(crate) order: StreamOrder<'v>,
    /// True for each row that deletes its group; empty if none can.
    pub(crate) deletes: Vec<bool>,
}

impl InputForm {
    /// The form for an aggregate.
    pub(crate) fn of(function: AggregateFunction, dialect: Dialect) -> InputForm {
        let adds_wholes = !dialect.aggregates_are_double();
        match function {
            AggregateFunction::Count if adds_wholes => InputForm::Ones,
            AggregateFunction::Sum | AggregateFunction::Avg if adds_wholes => InputForm::Wholes,
            AggregateFunction::CountDistinct => InputForm::Hashes,
            AggregateFunction::Percentile { .. } => InputForm::Numbers,
            AggregateFunction::ArgMin | AggregateFunction::ArgMax => InputForm::Pairs,
            _ => InputForm::Values,
        }
    }

    /// The form for an aggregate that returns rows.
    pub(crate) fn of_table(function: &TableFunction) -> InputForm {
        match function {
            TableFunction::Top { .. } => InputForm::Combinations,
            _ => InputForm::Numbers,
        }
    }

    /// Arguments, each by row, in this form. With `share`, equal combinations have one place.
    fn convert<'v>(
        self,
        mut arguments: Vec<Vec<Value<'v>>>,
        dialect: Dialect,
        share: bool,
    ) -> InputValues<'v> {
        let Some(first) = arguments.first() else { return InputValues::Rows };
        match self {
            InputForm::Values | InputForm::Ones | InputForm::Wholes => {
                InputValues::Values(arguments.swap_remove(0))
            }
            InputForm::Pairs => {
                let by = arguments.pop().unwrap_or_default();
                InputValues::Pairs(arguments.pop().unwrap_or_default(), by)
            }
            InputForm::Numbers => {
                InputValues::Numbers(first.iter().map(|value| NumericInput::of(value, dialect)).collect())
            }
            InputForm::Hashes => {
                let mut bytes = Vec::new();
                let hash = |row| {
                    bytes.clear();
                    let is_one = encode_combination(&arguments, row, dialect, false, &mut bytes);
                    // Bullet's sketch takes in no empty text.
                    let counts = is_one && !(bytes.is_empty() && dialect.keys_are_text());
                    counts.then(|| hash_of_bytes(&bytes))
                };
                InputValues::Hashes((0..first.len()).map(hash).collect())
            }
            InputForm::Combinations => {
                InputValues::Combinations(Combinations::new(first.len(), share, |row, out| {
                    encode_combination(&arguments, row, dialect, true, out)
                }))
            }
        }
    }
}

impl NumericInput {
    fn of(value: &Value<'_>, dialect: Dialect) -> NumericInput {
        match value {
            Value::Null | Value::Error => NumericInput::Nothing,
            Value::Boolean(_) | Value::String(_) | Value::Timestamp(_)
                if !dialect.aggregates_are_double() =>
            {
                NumericInput::Unusable
            }
            value => cast_to_double(value).map_or(NumericInput::Unusable, NumericInput::Is),
        }
    }
}

impl Combinations {
    /// The combinations of so many rows, as `encode` appends them; it returns false if the row does not count. With
    /// `share`, equal ones have one place.
    fn new(rows: usize, share: bool, mut encode: impl FnMut(usize, &mut Vec<u8>) -> bool) -> Combinations {
        let mut all = Combinations::default();
        let (hasher, mut table) = (DefaultHashBuilder::default(), HashTable::<u32>::new());
        for row in 0..rows {
            let (start, next) = (all.bytes.len(), all.ends.len() as u32);
            if !encode(row, &mut all.bytes) {
                all.bytes.truncate(start);
                all.place_of_row.push(PASSED_OVER);
                continue;
            }
            let mut place = next;
            if share {
                let Combinations { bytes, ends, .. } = &all;
                let of = |place: u32| {
                    if place == next { &bytes[start..] } else { slice(bytes, ends, place) }
                };
                let hash = hasher.hash_one(of(next));
                let entry =
                    table.entry(hash, |&place| of(place) == of(next), |&place| hasher.hash_one(of(place)));
                place = *entry.or_insert(next).get();
            }
            if place == next {
                all.ends.push(all.bytes.len());
            } else {
                all.bytes.truncate(start);
            }
            all.place_of_row.push(place);
        }
        all
    }

    /// One for each row, as `encode` appends it; a row's place is its number.
    pub(crate) fn of_rows(rows: usize, mut encode: impl FnMut(usize, &mut Vec<u8>)) -> Combinations {
        let mut all = Combinations::default();
        for row in 0..rows {
            encode(row, &mut all.bytes);
            all.ends.push(all.bytes.len());
        }
        all
    }

    /// Different places.
    pub(crate) fn places(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a place.
    pub(crate) fn get(&self, place: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, place)
    }
}

fn slice<'b>(bytes: &'b [u8], ends: &[usize], place: u32) -> &'b [u8] {
    let place = place as usize;
    let start = if place == 0 { 0 } else { ends[place - 1] };
    &bytes[start..ends[place]]
}

impl<'p> SelectedRows<'p> {
    /// All rows, by the group of each.
    pub(crate) fn all(groups: &'p [u32]) -> SelectedRows<'p> {
        SelectedRows { groups, rows: None }
    }

    /// The selection of these rows, with the group of each.
    pub(crate) fn some(rows: &'p [u32], groups: &'p [u32]) -> SelectedRows<'p> {
        SelectedRows { groups, rows: Some(rows) }
    }

    /// Number of rows.
    pub(crate) fn len(self) -> usize {
        self.groups.len()
    }

    /// The group of the row at a place.
    pub(crate) fn group_at(self, place: usize) -> Option<u32> {
        self.groups.get(place).copied()
    }

    /// Each row's group and the row, without those that are passed over.
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = (usize, usize)> + 'p {
        let rows = self.groups.iter().enumerate().filter(|(_, group)| **group != PASSED_OVER);
        rows.map(move |(place, &group)| {
            (group as usize, self.rows.map_or(place, |rows| rows[place] as usize))
        })
    }

    /// Calls `update` with each row's cell and the row; answers by how much the cells grew. Rows of one group that stand
    /// together are measured together: a look at a sketch's size costs as much as an update.
    pub(crate) fn fold<T>(
        self,
        cells: &mut [T],
        bytes: impl Fn(&T) -> usize,
        mut update: impl FnMut(&mut T, usize),
    ) -> isize {
        let mut heap = 0;
        let mut rows = self.iter().peekable();
        while let Some((group, row)) = rows.next() {
            let cell = &mut cells[group];
            let before = bytes(cell) as isize;
            update(cell, row);
            while let Some((_, row)) = rows.next_if(|(next, _)| *next == group) {
                update(cell, row);
            }
            heap += bytes(cell) as isize - before;
        }
        heap
    }
}

impl<'v> GroupInput<'v> {
    /// All that an aggregation takes in of so many rows, each program evaluated by `evaluate`. `share`: equal combinations are looked
    /// for, which is worth it where many aggregations take them in.
    pub(crate) fn evaluate(
        group: &CompiledGroup,
        rows: usize,
        dialect: Dialect,
        share: bool,
        evaluate: &mut impl FnMut(&Program) -> Vec<Value<'v>>,
    ) -> GroupInput<'v> {
        let keys = group.keys.iter().map(&mut *evaluate).collect();
        let is_true = |value: &Value<'_>| matches!(value, Value::Boolean(true));
        let deletes = group.deletes.as_ref().map(|deletes| evaluate(deletes).iter().map(is_true).collect());
        let deletes = deletes.unwrap_or_default();
        let mut taken = |form: InputForm, arguments: &[Program]| {
            form.convert(arguments.iter().map(&mut *evaluate).collect(), dialect, share)
        };
        let aggregates = group.aggregates.iter().map(|one| {
            let form = InputForm::of(one.function, dialect);
            (form, taken(form, &one.arguments))
        });
        let mut aggregates: Vec<_> = aggregates.collect();
        GroupInput {
            keys,
            lanes: CounterInput::of(rows, &mut aggregates),
            aggregates: aggregates.into_iter().map(|(_, taken)| taken).collect(),
            table: group
                .table
                .as_ref()
                .map(|table| taken(InputForm::of_table(&table.function), &table.arguments)),
            order: StreamOrder::default(),
            deletes,
        }
    }

    /// The native keys of so many rows, equal ones once.
    pub(crate) fn encoded_keys(&self, rows: usize) -> Combinations {
        Combinations::new(rows, true, |row, out| {
            self.keys.iter().for_each(|column| encode_group_value(&column[row], Dialect::Native, out));
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_combinations_have_one_place_where_they_are_shared() {
        let texts = ["a", "", "b", "a", "-", ""];
        let made = |share| {
            Combinations::new(texts.len(), share, |row, out| {
                out.extend(texts[row].bytes());
                texts[row] != "-"
            })
        };
        let shared = made(true);
        assert_eq!(shared.place_of_row, [0, 1, 2, 0, PASSED_OVER, 1]);
        assert_eq!(shared.places(), 3);
        let alone = made(false);
        assert_eq!(alone.place_of_row, [0, 1, 2, 3, PASSED_OVER, 4]);
        for all in [shared, alone] {
            for (row, text) in texts.iter().enumerate().filter(|(_, text)| **text != "-") {
                assert_eq!(all.get(all.place_of_row[row]), text.as_bytes());
            }
        }
    }

    #[test]
    fn cells_grow_by_what_their_rows_bring() {
        let groups = [0, 0, PASSED_OVER, 1, 0];
        let mut cells = vec![Vec::new(), Vec::new()];
        let grown = SelectedRows::some(&[9, 8, 7, 6, 5], &groups)
            .fold(&mut cells, Vec::len, |cell, row| cell.push(row));
        assert_eq!((grown, cells), (4, vec![vec![9, 8, 5], vec![6]]));
    }
}
