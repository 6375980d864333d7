//! The accumulator for all sketches, of one group and of many.

use std::{fmt::Debug, sync::Arc};

use datafusion_common::{
    Result, ScalarValue,
    arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, cast::AsArray},
    exec_err,
};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::{Distinct, Frequent, ImageError, Quantiles};

/// A sketch, as partial states need it.
pub trait Sketch: Debug + Send + Sync + Sized + 'static {
    /// Takes in all that another sketch has.
    fn merge(&mut self, other: &Self);

    /// The sketch as bytes.
    fn serialize(&self) -> Vec<u8>;

    /// A sketch from bytes.
    fn deserialize(bytes: &[u8]) -> std::result::Result<Self, ImageError>;

    /// Bytes on the heap, about.
    fn bytes(&self) -> usize;
}

macro_rules! sketch {
    ($($sketch:ident)*) => {$(
        impl Sketch for $sketch {
            fn merge(&mut self, other: &Self) {
                $sketch::merge(self, other);
            }

            fn serialize(&self) -> Vec<u8> {
                $sketch::serialize(self)
            }

            fn deserialize(bytes: &[u8]) -> std::result::Result<Self, ImageError> {
                $sketch::deserialize(bytes)
            }

            fn bytes(&self) -> usize {
                $sketch::bytes(self)
            }
        }
    )*};
}

sketch!(Distinct Quantiles Frequent);

/// The way values become sketches, and sketches answers.
pub trait Sketching: Debug + Send + Sync + 'static {
    /// The state of one group.
    type Sketch: Sketch;

    /// A sketch of nothing.
    fn empty(&self) -> Self::Sketch;

    /// Takes in rows; `group_of` is a row's place in `sketches`, `None` where the row is to be passed over.
    fn update(
        &self,
        sketches: &mut [Self::Sketch],
        values: &[ArrayRef],
        group_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()>;

    /// The answers of sketches, a row each.
    fn evaluate(&self, sketches: &[Self::Sketch]) -> Result<ArrayRef>;
}

/// The accumulator of one group.
#[derive(Debug)]
pub struct SketchAccumulator<S: Sketching> {
    sketching: S,
    /// One.
    sketches: [S::Sketch; 1],
}

impl<S: Sketching> SketchAccumulator<S> {
    /// An accumulator without values.
    pub fn new(sketching: S) -> SketchAccumulator<S> {
        let sketches = [sketching.empty()];
        SketchAccumulator { sketching, sketches }
    }
}

impl<S: Sketching> Accumulator for SketchAccumulator<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sketching.update(&mut self.sketches, values, |_| Some(0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.sketching.evaluate(&self.sketches)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sketches[0].bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.sketches[0].serialize()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in images(states)?.iter().flatten() {
            self.sketches[0].merge(&S::Sketch::deserialize(state)?);
        }
        Ok(())
    }
}

/// The accumulator of many groups.
#[derive(Debug)]
pub struct SketchGroupsAccumulator<S: Sketching> {
    sketching: S,
    sketches: Vec<S::Sketch>,
}

impl<S: Sketching> SketchGroupsAccumulator<S> {
    /// An accumulator without groups.
    pub fn new(sketching: S) -> SketchGroupsAccumulator<S> {
        SketchGroupsAccumulator { sketching, sketches: Vec::new() }
    }

    fn states(sketches: &[S::Sketch]) -> ArrayRef {
        Arc::new(BinaryArray::from_iter_values(sketches.iter().map(Sketch::serialize)))
    }

    fn resize(&mut self, groups: usize) {
        if self.sketches.len() < groups {
            self.sketches.resize_with(groups, || self.sketching.empty());
        }
    }
}

impl<S: Sketching> GroupsAccumulator for SketchGroupsAccumulator<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        self.sketching
            .update(&mut self.sketches, values, |row| is_kept(opt_filter, row).then(|| group_indices[row]))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.sketching.evaluate(&emit_to.take_needed(&mut self.sketches))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sketches = emit_to.take_needed(&mut self.sketches);
        Ok(vec![Self::states(&sketches)])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        for (state, &group) in images(values)?.iter().zip(group_indices) {
            if let Some(state) = state {
                self.sketches[group].merge(&S::Sketch::deserialize(state)?);
            }
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let mut sketches = Vec::new();
        sketches.resize_with(rows, || self.sketching.empty());
        self.sketching.update(&mut sketches, values, |row| is_kept(opt_filter, row).then_some(row))?;
        Ok(vec![Self::states(&sketches)])
    }

    fn size(&self) -> usize {
        let kept: usize = self.sketches.iter().map(Sketch::bytes).sum();
        size_of_val(self) + size_of_val(&self.sketches[..]) + kept
    }
}

fn is_kept(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

fn images(states: &[ArrayRef]) -> Result<&BinaryArray> {
    match states.first().and_then(|state| state.as_binary_opt::<i32>()) {
        Some(images) => Ok(images),
        None => exec_err!("the state of a sketch is one Binary column"),
    }
}
