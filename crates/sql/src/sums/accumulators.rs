//! Accumulators for exact sums, of one group and of many, as DataFusion runs them: update, merge, retract, evaluate.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array,
    PrimitiveArray,
};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err, not_impl_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::cells::{Cell, IntegerSum};

/// The form in which a sum is output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SumOutput {
    /// The sum as this type.
    Sum(DataType),
    Average,
    /// The sum's image, to be merged by another aggregate.
    Image,
}

/// The input and output of sums.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) gives: SumOutput,
    /// The input is images, not values.
    pub(super) takes_images: bool,
}

impl Plan {
    fn evaluate<C: Cell>(&self, cells: &[C]) -> Result<ArrayRef> {
        Ok(match &self.gives {
            SumOutput::Sum(ty) => {
                let sums = cells.iter().map(Cell::sum).collect::<Result<PrimitiveArray<C::Of>>>()?;
                Arc::new(sums.with_data_type(ty.clone()))
            }
            SumOutput::Average => Arc::new(cells.iter().map(Cell::average).collect::<Float64Array>()),
            SumOutput::Image => images(cells),
        })
    }
}

fn images<C: Cell>(cells: &[C]) -> ArrayRef {
    let mut out = BinaryBuilder::with_capacity(cells.len(), cells.len() * 32);
    let mut image = Vec::new();
    for cell in cells {
        image.clear();
        cell.write(&mut image);
        out.append_value(&image);
    }
    Arc::new(out.finish())
}

fn as_images(states: &[ArrayRef]) -> Result<&BinaryArray> {
    match states.first().and_then(|states| states.as_binary_opt::<i32>()) {
        Some(images) => Ok(images),
        None => internal_err!("the state of a sum is one column of images"),
    }
}

fn as_values<C: Cell>(values: &[ArrayRef]) -> Result<&PrimitiveArray<C::Of>> {
    match values.first().and_then(|values| values.as_primitive_opt::<C::Of>()) {
        Some(values) => Ok(values),
        None => internal_err!("a sum was given values of another type"),
    }
}

/// The sum of one group.
#[derive(Debug)]
pub(super) struct SingleSum<C> {
    plan: Plan,
    cell: [C; 1],
}

impl<C: Cell> SingleSum<C> {
    pub(super) fn new(plan: Plan) -> SingleSum<C> {
        SingleSum { plan, cell: [C::default()] }
    }
}

impl<C: Cell> Accumulator for SingleSum<C> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.plan.takes_images {
            return self.merge_batch(values);
        }
        let values = as_values::<C>(values)?;
        match values.null_count() {
            0 => values.values().iter().for_each(|value| self.cell[0].add(*value)),
            _ => values.iter().flatten().for_each(|value| self.cell[0].add(value)),
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        as_values::<C>(values)?.iter().flatten().for_each(|value| self.cell[0].retract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        !self.plan.takes_images
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.plan.evaluate(&self.cell)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::try_from_array(&images(&self.cell), 0)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        as_images(states)?.iter().flatten().try_for_each(|image| self.cell[0].merge(image))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.cell[0].heap_bytes()
    }
}

/// The sums of many groups.
#[derive(Debug)]
pub(super) struct Groups<C> {
    plan: Plan,
    cells: Vec<C>,
    /// Bytes of the cells on the heap.
    heap_bytes: usize,
}

impl<C: Cell> Groups<C> {
    pub(super) fn new(plan: Plan) -> Groups<C> {
        Groups { plan, cells: Vec::new(), heap_bytes: 0 }
    }

    fn add(&mut self, group: usize, value: <C::Of as ArrowPrimitiveType>::Native) {
        let cell = &mut self.cells[group];
        let before = cell.heap_bytes();
        cell.add(value);
        self.heap_bytes = (self.heap_bytes + cell.heap_bytes()).saturating_sub(before);
    }

    fn merge(&mut self, group: usize, image: &[u8]) -> Result<()> {
        let cell = &mut self.cells[group];
        let before = cell.heap_bytes();
        cell.merge(image)?;
        self.heap_bytes = (self.heap_bytes + cell.heap_bytes()).saturating_sub(before);
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<C> {
        let taken = emit_to.take_needed(&mut self.cells);
        let gone: usize = taken.iter().map(Cell::heap_bytes).sum();
        self.heap_bytes = self.heap_bytes.saturating_sub(gone);
        taken
    }
}

impl<C: Cell> GroupsAccumulator for Groups<C> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.cells.resize_with(total.max(self.cells.len()), C::default);
        let is_kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        if self.plan.takes_images {
            for (row, image) in as_images(values)?.iter().enumerate() {
                if let (Some(image), true) = (image, is_kept(row)) {
                    self.merge(groups[row], image)?;
                }
            }
            return Ok(());
        }
        let values = as_values::<C>(values)?;
        if values.null_count() == 0 && filter.is_none() {
            for (value, group) in values.values().iter().zip(groups) {
                self.add(*group, *value);
            }
            return Ok(());
        }
        for (row, value) in values.iter().enumerate() {
            if let (Some(value), true) = (value, is_kept(row)) {
                self.add(groups[row], value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let cells = self.take(emit_to);
        self.plan.evaluate(&cells)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let cells = self.take(emit_to);
        Ok(vec![images(&cells)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.cells.resize_with(total.max(self.cells.len()), C::default);
        for (image, group) in as_images(states)?.iter().zip(groups) {
            if let Some(image) = image {
                self.merge(*group, image)?;
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut alone = Groups::<C>::new(self.plan.clone());
        let rows = values.first().map_or(0, |values| values.len());
        let each: Vec<usize> = (0..rows).collect();
        alone.update_batch(values, &each, filter, rows)?;
        Ok(vec![images(&alone.cells)])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.cells.capacity() * size_of::<C>() + self.heap_bytes
    }
}

/// The sum of distinct values, which DataFusion's accumulator of them gathers.
#[derive(Debug)]
pub(super) struct DistinctSum<C> {
    plan: Plan,
    values: Box<dyn Accumulator>,
    of: std::marker::PhantomData<C>,
}

impl<C: Cell> DistinctSum<C> {
    pub(super) fn new(plan: Plan, values: Box<dyn Accumulator>) -> DistinctSum<C> {
        DistinctSum { plan, values, of: std::marker::PhantomData }
    }
}

impl<C: Cell> Accumulator for DistinctSum<C> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut one = SingleSum::<C>::new(self.plan.clone());
        for state in self.values.state()? {
            let ScalarValue::List(list) = state else {
                return internal_err!("the state of distinct values is a list");
            };
            one.update_batch(&[Arc::clone(list.values())])?;
        }
        one.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}

/// The sum of the distinct values of a frame that moves, whole numbers each.
#[derive(Debug)]
pub(super) struct SlidingDistinct {
    plan: Plan,
    /// Number of occurrences of each value in the frame.
    counts: HashMap<i64, usize>,
    cell: [IntegerSum<Int64Type>; 1],
}

impl SlidingDistinct {
    pub(super) fn new(plan: Plan) -> SlidingDistinct {
        SlidingDistinct { plan, counts: HashMap::new(), cell: [IntegerSum::default()] }
    }
}

impl Accumulator for SlidingDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in as_values::<IntegerSum<Int64Type>>(values)?.iter().flatten() {
            let count = self.counts.entry(value).or_default();
            *count += 1;
            if *count == 1 {
                self.cell[0].add(value);
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in as_values::<IntegerSum<Int64Type>>(values)?.iter().flatten() {
            let Some(count) = self.counts.get_mut(&value) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.cell[0].retract(value);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.plan.evaluate(&self.cell)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a frame that moves has no parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a frame that moves has no parts")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i64, usize)>()
    }
}
