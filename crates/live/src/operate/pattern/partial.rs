//! A match in progress: its current step, and the stored values of the events that it took.

use std::cmp::Ordering;

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};
use swiftwater_lang::{
    Dialect,
    plan::{Measure, MeasureFunction},
};

use super::automaton::MatchProgress;
use crate::operate::{
    cells::{SumCell, replace_if},
    owned::OwnedValue,
};

/// A match that is not complete.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(super) reached: MatchProgress,
    /// The number of its first event, and of the last that it took.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) start: Millis,
    pub(super) cells: Box<[Cell]>,
}

/// One measure.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Count(u64),
    First(Option<OwnedValue>),
    Last(OwnedValue),
    Least(OwnedValue),
    Greatest(OwnedValue),
    Sum(SumCell),
    Average(SumCell),
}

/// Bytes of a partial match besides its measures, and of its place among those of its key and in the order of time.
const PARTIAL_BYTES: usize = size_of::<Partial>() + 64;

impl Partial {
    pub(super) fn new(measures: &[Measure], reached: MatchProgress, number: u64, start: Millis) -> Partial {
        Partial { reached, first: number, last: number, start, cells: Partial::new_cells(measures) }
    }

    /// The measures of no event.
    pub(super) fn new_cells(measures: &[Measure]) -> Box<[Cell]> {
        measures.iter().map(|measure| Cell::new(measure.function)).collect()
    }

    /// Takes an event in as a variable's; returns the number of its values that could not be used.
    pub(super) fn take(
        &mut self,
        measures: &[Measure],
        variable: usize,
        values: &[OwnedValue],
        dialect: Dialect,
    ) -> u64 {
        let mut mistyped = 0;
        for (measure, cell) in measures.iter().zip(&mut self.cells) {
            if measure.variable.is_none_or(|of| of == variable) {
                let value = measure.value.and_then(|place| values.get(place));
                mistyped += u64::from(!cell.take(value, dialect));
            }
        }
        mistyped
    }

    pub(super) fn bytes(&self) -> usize {
        PARTIAL_BYTES + self.cells.iter().map(|cell| size_of::<Cell>() + cell.heap_bytes()).sum::<usize>()
    }
}

impl Cell {
    fn new(function: MeasureFunction) -> Cell {
        match function {
            MeasureFunction::First => Cell::First(None),
            MeasureFunction::Last => Cell::Last(OwnedValue::NULL),
            MeasureFunction::Count => Cell::Count(0),
            MeasureFunction::Sum => Cell::Sum(SumCell::default()),
            MeasureFunction::Avg => Cell::Average(SumCell::default()),
            MeasureFunction::Min => Cell::Least(OwnedValue::NULL),
            MeasureFunction::Max => Cell::Greatest(OwnedValue::NULL),
        }
    }

    /// Takes in an event, `None`: as such. False where its value cannot be used for its type.
    fn take(&mut self, value: Option<&OwnedValue>, dialect: Dialect) -> bool {
        let arena = Bump::new();
        let given = value.map_or(Value::Null, |value| value.get(&arena));
        match self {
            Cell::Count(count) => {
                *count += u64::from(value.is_none() || !matches!(given, Value::Null | Value::Error));
            }
            Cell::First(first) => {
                first.get_or_insert_with(|| OwnedValue::of(&given));
            }
            Cell::Last(last) => *last = OwnedValue::of(&given),
            Cell::Least(least) => return replace_if(least, &given, dialect, &mut 0, Ordering::is_lt),
            Cell::Greatest(greatest) => {
                return replace_if(greatest, &given, dialect, &mut 0, Ordering::is_gt);
            }
            Cell::Sum(sum) | Cell::Average(sum) => return sum.add(&given, dialect),
        }
        true
    }

    pub(super) fn value<'a>(&'a self, dialect: Dialect, arena: &'a Bump) -> Value<'a> {
        match self {
            Cell::Count(count) => Value::Long(*count as i64),
            Cell::First(first) => first.as_ref().map_or(Value::Null, |first| first.get(arena)),
            Cell::Last(value) | Cell::Least(value) | Cell::Greatest(value) => value.get(arena),
            Cell::Sum(sum) => sum.sum(dialect),
            Cell::Average(sum) => sum.average(),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Cell::First(Some(value)) | Cell::Last(value) | Cell::Least(value) | Cell::Greatest(value) => {
                value.heap_bytes()
            }
            _ => 0,
        }
    }
}
