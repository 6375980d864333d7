//! The aggregate function `approx_count_distinct_theta`.

use std::sync::Arc;

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::{Array, ArrayRef, UInt64Array},
        datatypes::DataType,
    },
};
use datafusion_expr::{Signature, Volatility, function::AccumulatorArgs};

use super::{accumulate::Sketching, aggregate::SketchFunction, encode::for_each_value};
use crate::{Distinct, SketchSizes};

/// `approx_count_distinct_theta(x, …)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CountDistinctTheta {
    entries: u32,
}

impl CountDistinctTheta {
    /// The function with sketches of this size.
    pub fn new(sizes: SketchSizes) -> CountDistinctTheta {
        CountDistinctTheta { entries: sizes.distinct_entries }
    }
}

impl SketchFunction for CountDistinctTheta {
    type Sketching = DistinctSketching;

    const NAME: &'static str = "approx_count_distinct_theta";
    const PASSES_OVER_REPEATS: bool = true;

    fn signature(&self) -> Signature {
        Signature::variadic_any(Volatility::Immutable)
    }

    fn return_type(&self, _argument_types: &[DataType]) -> DataType {
        DataType::UInt64
    }

    fn default_value(&self) -> Option<ScalarValue> {
        Some(ScalarValue::UInt64(Some(0)))
    }

    fn sketching(&self, _args: &AccumulatorArgs<'_>) -> Result<DistinctSketching> {
        Ok(DistinctSketching { entries: self.entries })
    }
}

/// Counts distinct combinations of the columns' values.
#[derive(Debug, Clone)]
pub struct DistinctSketching {
    /// [`SketchSizes::distinct_entries`].
    pub entries: u32,
}

impl Sketching for DistinctSketching {
    type Sketch = Distinct;

    fn empty(&self) -> Distinct {
        Distinct::new(self.entries)
    }

    fn update(
        &self,
        sketches: &mut [Distinct],
        values: &[ArrayRef],
        group_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        if let [values] = values {
            return for_each_value(values, |row, bytes| {
                if let Some(group) = group_of(row) {
                    sketches[group].update(bytes);
                }
            });
        }
        let rows = values.first().map_or(0, |values| values.len());
        // Each value after its length, so that no combination is the beginning of another.
        let mut combinations = vec![(0, Vec::new()); rows];
        for column in values {
            for_each_value(column, |row, bytes| {
                let (there, combination) = &mut combinations[row];
                *there += 1;
                combination.extend((bytes.len() as u64).to_le_bytes());
                combination.extend_from_slice(bytes);
            })?;
        }
        for (row, (there, combination)) in combinations.iter().enumerate() {
            if *there == values.len()
                && let Some(group) = group_of(row)
            {
                sketches[group].update(combination);
            }
        }
        Ok(())
    }

    fn evaluate(&self, sketches: &[Distinct]) -> Result<ArrayRef> {
        let counts = sketches.iter().map(|sketch| sketch.evaluate().round() as u64);
        Ok(Arc::new(UInt64Array::from_iter_values(counts)))
    }
}
