//! The state of one aggregate for many groups, in columns: update, merge, evaluate.
//!
//! Cells are mergeable in any order: no result depends on how the events were split over batches and shards.

pub(crate) mod image;

use std::{cmp::Ordering, ops::Range};

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::AggregateFunction};
use swiftwater_sketch::{Distinct, ExactSum, Quantiles, SketchSizes};

use super::{
    group_input::{InputValues, PASSED_OVER, SelectedRows},
    ordered_cells::{OrderedCells, RowChoice, StreamOrder},
    owned::OwnedValue,
    sketch_cells::{merge_sketches, update_distinct, update_quantiles},
    sketch_meta::{SketchMeta, distinct_meta, quantiles_meta},
};
use crate::expr::{cast_to_double, total_order};

/// One aggregate's cells, one per group.
#[derive(Debug, Clone)]
pub(crate) enum Cells {
    Count(Vec<u64>),
    Sum(Vec<SumCell>),
    Average(Vec<SumCell>),
    Least(Vec<OwnedValue>),
    Greatest(Vec<OwnedValue>),
    Distinct {
        cells: Vec<Distinct>,
        entries: u32,
    },
    Quantile {
        cells: Vec<Quantiles>,
        k: u16,
        /// The quantile, in millionths.
        millionths: u32,
    },
    Ordered(OrderedCells),
}

/// The usable values of a group, added up.
#[derive(Debug, Clone, Default)]
pub(crate) struct SumCell {
    count: u64,
    integers: i128,
    /// The number of values that were a FLOAT or DOUBLE: where there are any, the sum is one too.
    fractions: u64,
    doubles: ExactSum,
}

impl Cells {
    pub(crate) fn new(function: AggregateFunction, sizes: &SketchSizes) -> Cells {
        match function {
            AggregateFunction::Count => Cells::Count(Vec::new()),
            AggregateFunction::Sum => Cells::Sum(Vec::new()),
            AggregateFunction::Avg => Cells::Average(Vec::new()),
            AggregateFunction::Min => Cells::Least(Vec::new()),
            AggregateFunction::Max => Cells::Greatest(Vec::new()),
            AggregateFunction::CountDistinct => {
                Cells::Distinct { cells: Vec::new(), entries: sizes.distinct_entries }
            }
            AggregateFunction::Percentile { millionths } => {
                Cells::Quantile { cells: Vec::new(), k: sizes.quantile_k, millionths }
            }
            AggregateFunction::First => Cells::Ordered(OrderedCells::choosing(RowChoice::First)),
            AggregateFunction::Last => Cells::Ordered(OrderedCells::choosing(RowChoice::Last)),
            AggregateFunction::FirstEvent => Cells::Ordered(OrderedCells::choosing(RowChoice::FirstEvent)),
            AggregateFunction::LastEvent => Cells::Ordered(OrderedCells::choosing(RowChoice::LastEvent)),
            AggregateFunction::ArgMin => Cells::Ordered(OrderedCells::choosing(RowChoice::Least)),
            AggregateFunction::ArgMax => Cells::Ordered(OrderedCells::choosing(RowChoice::Greatest)),
            AggregateFunction::CollectList { values_max } => {
                Cells::Ordered(OrderedCells::collecting(false, values_max))
            }
            AggregateFunction::CollectSet { values_max } => {
                Cells::Ordered(OrderedCells::collecting(true, values_max))
            }
        }
    }

    /// The same without groups.
    pub(crate) fn emptied(&self) -> Cells {
        match *self {
            Cells::Count(_) => Cells::Count(Vec::new()),
            Cells::Sum(_) => Cells::Sum(Vec::new()),
            Cells::Average(_) => Cells::Average(Vec::new()),
            Cells::Least(_) => Cells::Least(Vec::new()),
            Cells::Greatest(_) => Cells::Greatest(Vec::new()),
            Cells::Distinct { entries, .. } => Cells::Distinct { cells: Vec::new(), entries },
            Cells::Quantile { k, millionths, .. } => Cells::Quantile { cells: Vec::new(), k, millionths },
            Cells::Ordered(ref cells) => Cells::Ordered(cells.emptied()),
        }
    }

    /// Adds cells for all groups below `groups`.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            Cells::Count(cells) => cells.resize(groups, 0),
            Cells::Sum(cells) | Cells::Average(cells) => cells.resize_with(groups, SumCell::default),
            Cells::Least(cells) | Cells::Greatest(cells) => cells.resize_with(groups, || OwnedValue::NULL),
            Cells::Distinct { cells, entries } => cells.resize_with(groups, || Distinct::new(*entries)),
            Cells::Quantile { cells, k, .. } => cells.resize_with(groups, || Quantiles::new(*k)),
            Cells::Ordered(cells) => cells.resize(groups),
        }
    }

    /// Makes a group's cell a new one. Returns the change of bytes on the heap.
    pub(crate) fn reset(&mut self, group: usize) -> isize {
        let before = self.heap_bytes(group) as isize;
        match self {
            Cells::Count(cells) => cells.get_mut(group).into_iter().for_each(|cell| *cell = 0),
            // A lane may have no cells.
            Cells::Sum(cells) | Cells::Average(cells) => {
                cells.get_mut(group).into_iter().for_each(|cell| *cell = SumCell::default());
            }
            Cells::Least(cells) | Cells::Greatest(cells) => cells[group] = OwnedValue::NULL,
            Cells::Distinct { cells, entries } => cells[group] = Distinct::new(*entries),
            Cells::Quantile { cells, k, .. } => cells[group] = Quantiles::new(*k),
            Cells::Ordered(cells) => cells.reset(group),
        }
        self.heap_bytes(group) as isize - before
    }

    /// For SUM, AVG and COUNT: true if any group has a cell.
    pub(crate) fn is_in_use(&self) -> bool {
        match self {
            Cells::Count(cells) => !cells.is_empty(),
            Cells::Sum(cells) | Cells::Average(cells) => !cells.is_empty(),
            _ => true,
        }
    }

    /// Bytes of one cell, without what it keeps on the heap.
    pub(crate) fn cell_bytes(&self) -> usize {
        match self {
            Cells::Count(_) => size_of::<u64>(),
            Cells::Sum(_) | Cells::Average(_) => size_of::<SumCell>(),
            Cells::Least(_) | Cells::Greatest(_) => size_of::<OwnedValue>(),
            Cells::Distinct { .. } => size_of::<Distinct>(),
            Cells::Quantile { .. } => size_of::<Quantiles>(),
            Cells::Ordered(cells) => cells.cell_bytes(),
        }
    }

    /// Takes in rows. Returns the number of values that could not be used for their type, and the new bytes on the
    /// heap.
    pub(crate) fn update(
        &mut self,
        rows: SelectedRows<'_>,
        taken: &InputValues<'_>,
        order: &StreamOrder<'_>,
        dialect: Dialect,
    ) -> (u64, isize) {
        let (mut mistyped, mut heap) = (0, 0);
        match (self, taken) {
            (Cells::Count(cells), InputValues::Rows) => rows.iter().for_each(|(group, _)| cells[group] += 1),
            (Cells::Count(cells), InputValues::Values(values)) => {
                for (group, row) in rows.iter() {
                    cells[group] += u64::from(!matches!(values[row], Value::Null | Value::Error));
                }
            }
            (Cells::Sum(cells) | Cells::Average(cells), InputValues::Values(values)) => {
                for (group, row) in rows.iter() {
                    mistyped += u64::from(!cells[group].add(&values[row], dialect));
                }
            }
            (Cells::Least(cells), InputValues::Values(values)) => {
                for (group, row) in rows.iter() {
                    let kept =
                        replace_if(&mut cells[group], &values[row], dialect, &mut heap, Ordering::is_lt);
                    mistyped += u64::from(!kept);
                }
            }
            (Cells::Greatest(cells), InputValues::Values(values)) => {
                for (group, row) in rows.iter() {
                    let kept =
                        replace_if(&mut cells[group], &values[row], dialect, &mut heap, Ordering::is_gt);
                    mistyped += u64::from(!kept);
                }
            }
            (Cells::Distinct { cells, .. }, InputValues::Hashes(hashes)) => {
                heap = update_distinct(cells, rows, hashes);
            }
            (Cells::Quantile { cells, .. }, InputValues::Numbers(numbers)) => {
                (mistyped, heap) = update_quantiles(cells, rows, numbers);
            }
            (Cells::Ordered(cells), taken) => (mistyped, heap) = cells.update(rows, taken, order),
            // An aggregate without arguments that needs one takes in nothing; other forms are those of other aggregates.
            _ => {}
        }
        (mistyped, heap)
    }

    /// Takes in the cells of another partial: its group `g` is our group `group_of[g]`, where it is not passed over.
    pub(crate) fn merge(&mut self, other: &Cells, group_of: &[u32], dialect: Dialect) -> isize {
        let mut heap = 0;
        let arena = Bump::new();
        // Each of their cells with the number of ours.
        fn pairs<'t, T>(group_of: &'t [u32], theirs: &'t [T]) -> impl Iterator<Item = (usize, &'t T)> {
            let pairs = group_of.iter().zip(theirs).filter(|(group, _)| **group != PASSED_OVER);
            pairs.map(|(group, cell)| (*group as usize, cell))
        }
        match (self, other) {
            (Cells::Count(ours), Cells::Count(theirs)) => {
                pairs(group_of, theirs).for_each(|(group, count)| ours[group] += count);
            }
            (Cells::Sum(ours), Cells::Sum(theirs)) | (Cells::Average(ours), Cells::Average(theirs)) => {
                pairs(group_of, theirs).for_each(|(group, sum)| ours[group].merge(sum));
            }
            (Cells::Least(ours), Cells::Least(theirs)) => {
                for (group, value) in pairs(group_of, theirs) {
                    replace_if(&mut ours[group], &value.get(&arena), dialect, &mut heap, Ordering::is_lt);
                }
            }
            (Cells::Greatest(ours), Cells::Greatest(theirs)) => {
                for (group, value) in pairs(group_of, theirs) {
                    replace_if(&mut ours[group], &value.get(&arena), dialect, &mut heap, Ordering::is_gt);
                }
            }
            (Cells::Distinct { cells: ours, .. }, Cells::Distinct { cells: theirs, .. }) => {
                heap = merge_sketches(ours, theirs, group_of, Distinct::merge, Distinct::bytes);
            }
            (Cells::Quantile { cells: ours, .. }, Cells::Quantile { cells: theirs, .. }) => {
                heap = merge_sketches(ours, theirs, group_of, Quantiles::merge, Quantiles::bytes);
            }
            (Cells::Ordered(ours), Cells::Ordered(theirs)) => heap = ours.merge(theirs, group_of),
            _ => unreachable!("partials of one query have the same aggregates in the same order"),
        }
        heap
    }

    /// Retracts from sums what those of another partial have: the inverse of [`Cells::merge`].
    pub(crate) fn retract(&mut self, other: &Cells, group_of: &[u32]) {
        if let (Cells::Sum(ours), Cells::Sum(theirs)) | (Cells::Average(ours), Cells::Average(theirs)) =
            (self, other)
        {
            let pairs = group_of.iter().zip(theirs).filter(|(group, _)| **group != PASSED_OVER);
            pairs.for_each(|(group, sum)| ours[*group as usize].retract(sum));
        }
    }

    /// The value of each of some groups, in order; the state stays. A LONG sum that fits no LONG is an error.
    pub(crate) fn evaluate<'a>(
        &'a self,
        groups: Range<usize>,
        dialect: Dialect,
        arena: &'a Bump,
        out: &mut Vec<Value<'a>>,
    ) {
        match self {
            Cells::Count(cells) => out.extend(cells[groups].iter().map(|&count| Value::Long(count as i64))),
            Cells::Sum(cells) => out.extend(cells[groups].iter().map(|cell| cell.sum(dialect))),
            Cells::Average(cells) => {
                out.extend(cells[groups].iter().map(|cell| -> Value<'a> { cell.average() }));
            }
            Cells::Least(cells) | Cells::Greatest(cells) => {
                out.extend(cells[groups].iter().map(|cell| cell.get(arena)))
            }
            Cells::Distinct { cells, .. } => {
                out.extend(cells[groups].iter().map(|cell| Value::Long(cell.evaluate().round() as i64)));
            }
            Cells::Quantile { cells, millionths, .. } => out.extend(cells[groups].iter().map(|cell| {
                let value = cell.evaluate().quantile(f64::from(*millionths) / 1e6);
                value.map_or(Value::Null, Value::Double)
            })),
            Cells::Ordered(cells) => cells.evaluate(groups, arena, out),
        }
    }

    /// The metadata of the least exact sketch, if these are sketches.
    pub(crate) fn meta(&self, aggregate: &str) -> Option<SketchMeta> {
        match self {
            Cells::Distinct { cells, .. } => distinct_meta(aggregate, cells),
            Cells::Quantile { cells, .. } => quantiles_meta(aggregate, cells),
            _ => None,
        }
    }
}

impl SumCell {
    /// False where the value is of a type that cannot be added.
    pub(super) fn add(&mut self, value: &Value<'_>, dialect: Dialect) -> bool {
        match *value {
            Value::Null | Value::Error => return true,
            _ if dialect.aggregates_are_double() => match cast_to_double(value) {
                Some(x) => self.doubles.add(x),
                None => return false,
            },
            Value::Integer(x) => self.integers += i128::from(x),
            Value::Long(x) => self.integers += i128::from(x),
            Value::Float(x) => self.add_double(f64::from(x)),
            Value::Double(x) => self.add_double(x),
            _ => return false,
        }
        self.count += 1;
        true
    }

    /// Adds to what is counted already.
    pub(crate) fn add_whole(&mut self, sum: i128) {
        self.integers += sum;
    }

    /// Adds so many whole numbers, which come to this. Adds `count` whole numbers with this sum. After a retraction
    /// elsewhere the count is below 0.
    pub(crate) fn add_wholes(&mut self, sum: i64, count: u64) {
        self.integers += i128::from(sum);
        self.count = self.count.wrapping_add(count);
    }

    /// The count and the sum, if all numbers are whole and the sum fits.
    pub(crate) fn as_whole(&self) -> Option<(u64, i64)> {
        let is_small = |sum: &i64| sum.unsigned_abs() <= i64::MAX as u64 / 2;
        let sum = i64::try_from(self.integers).ok().filter(is_small)?;
        (self.fractions == 0).then_some((self.count, sum))
    }

    fn add_double(&mut self, x: f64) {
        self.fractions += 1;
        self.doubles.add(x);
    }

    fn merge(&mut self, other: &SumCell) {
        self.count = self.count.wrapping_add(other.count);
        self.integers += other.integers;
        self.fractions = self.fractions.wrapping_add(other.fractions);
        self.doubles.merge(&other.doubles);
    }

    /// Retracts the values that another has added up.
    fn retract(&mut self, other: &SumCell) {
        self.count = self.count.wrapping_sub(other.count);
        self.integers -= other.integers;
        self.fractions = self.fractions.wrapping_sub(other.fractions);
        self.doubles.retract(&other.doubles);
    }

    /// True if no more of so many rows was taken out than there was.
    pub(crate) fn is_sound(&self, rows: u64) -> bool {
        let (_, _, specials) = self.doubles.parts();
        let is_empty = self.count > 0 || self.integers == 0 && self.doubles.is_empty();
        self.count <= rows && self.fractions <= self.count && specials.count() <= self.fractions && is_empty
    }

    pub(crate) fn sum(&self, dialect: Dialect) -> Value<'static> {
        if self.count == 0 {
            Value::Null
        } else if self.fractions > 0 || dialect.aggregates_are_double() {
            Value::Double(self.as_double())
        } else {
            i64::try_from(self.integers).map_or(Value::Error, Value::Long)
        }
    }

    pub(crate) fn average(&self) -> Value<'static> {
        if self.count == 0 { Value::Null } else { Value::Double(self.as_double() / self.count as f64) }
    }

    fn as_double(&self) -> f64 {
        let mut sum = self.doubles.clone();
        sum.add_integer(self.integers);
        sum.round()
    }
}

/// Replaces `kept` by `value` where it is better. False where the value is of a type without an order.
pub(super) fn replace_if(
    kept: &mut OwnedValue,
    value: &Value<'_>,
    dialect: Dialect,
    heap: &mut isize,
    better: impl Fn(Ordering) -> bool,
) -> bool {
    let value = match *value {
        Value::Null | Value::Error => return true,
        _ if dialect.aggregates_are_double() => match cast_to_double(value) {
            Some(x) => Value::Double(x),
            None => return false,
        },
        Value::List(_) | Value::Map(_) => return false,
        other => other,
    };
    let is_nan = |value: &Value<'_>| matches!(value, Value::Double(x) if x.is_nan());
    let replace = match kept {
        OwnedValue::Plain(Value::Null) => true,
        // In Java no number is less or greater than NaN: there NaN stays only where it came first, here where it is all
        // there is, so that no order matters.
        OwnedValue::Plain(old) if dialect.aggregates_are_double() && (is_nan(old) || is_nan(&value)) => {
            !is_nan(&value)
        }
        OwnedValue::Plain(old) => better(tie_broken(&value, old)),
        OwnedValue::String(old) => better(tie_broken(&value, &Value::String(old))),
        OwnedValue::List(_) | OwnedValue::Map(_) => false,
    };
    if replace {
        let new = OwnedValue::of(&value);
        *heap += new.heap_bytes() as isize - kept.heap_bytes() as isize;
        *kept = new;
    }
    true
}

/// The order of values, with equal numbers of different types ordered by type, and the two zeros of a type, so that of
/// 1 and 1.0 the same one is kept whichever came first.
fn tie_broken(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    fn rank(value: &Value<'_>) -> u8 {
        match value {
            Value::Long(_) => 0,
            Value::Integer(_) => 1,
            Value::Double(x) => 2 + u8::from(x.is_sign_negative()),
            Value::Float(x) => 4 + u8::from(x.is_sign_negative()),
            _ => 6,
        }
    }
    total_order(a, b).then_with(|| rank(a).cmp(&rank(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_of(values: [Value<'_>; 2]) -> String {
        best_of(AggregateFunction::Min, Dialect::Native, values)
    }

    fn best_of(function: AggregateFunction, dialect: Dialect, values: [Value<'_>; 2]) -> String {
        let mut cells = Cells::new(function, &SketchSizes::default());
        cells.resize(1);
        cells.update(
            SelectedRows::all(&[0, 0]),
            &InputValues::Values(values.to_vec()),
            &StreamOrder::default(),
            dialect,
        );
        let (arena, mut out) = (Bump::new(), Vec::new());
        cells.evaluate(0..1, dialect, &arena, &mut out);
        format!("{:?}", out[0])
    }

    #[test]
    fn least_of_two_zeros_does_not_depend_on_their_order() {
        let (zero, negative) = (Value::Double(0.0), Value::Double(-0.0));
        assert_eq!(least_of([zero, negative]), least_of([negative, zero]));
    }

    #[test]
    fn nan_is_passed_over_in_bullet_where_there_is_a_number() {
        let (nan, one) = (Value::Double(f64::NAN), Value::Double(1.0));
        for function in [AggregateFunction::Min, AggregateFunction::Max] {
            for values in [[nan, one], [one, nan]] {
                assert_eq!(best_of(function, Dialect::Bullet, values), "Double(1.0)");
            }
            assert_eq!(best_of(function, Dialect::Bullet, [nan, nan]), "Double(NaN)");
        }
        assert_eq!(best_of(AggregateFunction::Max, Dialect::Native, [nan, one]), "Double(NaN)");
    }
}
