//! `approx_count_distinct_theta`.

use std::sync::Arc;

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::{Array, ArrayRef, UInt64Array},
        datatypes::{DataType, Field, FieldRef},
    },
};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
    utils::format_state_name,
};

use super::{
    accumulate::{SketchAccumulator, SketchGroupsAccumulator, Sketching},
    encode::for_each_value,
};
use crate::{Distinct, SketchSizes};

/// `approx_count_distinct_theta(x, …)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CountDistinctTheta {
    signature: Signature,
    entries: u32,
}

impl CountDistinctTheta {
    /// With sketches of this size.
    pub fn new(sizes: SketchSizes) -> CountDistinctTheta {
        let signature = Signature::variadic_any(Volatility::Immutable);
        CountDistinctTheta { signature, entries: sizes.distinct_entries }
    }

    fn sketching(&self) -> DistinctSketching {
        DistinctSketching { entries: self.entries }
    }
}

impl AggregateUDFImpl for CountDistinctTheta {
    fn name(&self) -> &str {
        "approx_count_distinct_theta"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::UInt64(Some(0)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![state_field(args.name)])
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SketchAccumulator::new(self.sketching())))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(SketchGroupsAccumulator::new(self.sketching())))
    }
}

/// The one column of a partial state.
pub(super) fn state_field(name: &str) -> FieldRef {
    Arc::new(Field::new(format_state_name(name, "sketch"), DataType::Binary, true))
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

    fn merge(&self, ours: &mut Distinct, theirs: &Distinct) {
        ours.merge(theirs);
    }

    fn serialize(&self, sketch: &Distinct) -> Vec<u8> {
        sketch.serialize()
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<Distinct> {
        Ok(Distinct::deserialize(bytes)?)
    }

    fn bytes(&self, sketch: &Distinct) -> usize {
        sketch.bytes()
    }

    fn evaluate(&self, sketches: &[Distinct]) -> Result<ArrayRef> {
        let counts = sketches.iter().map(|sketch| sketch.evaluate().round() as u64);
        Ok(Arc::new(UInt64Array::from_iter_values(counts)))
    }
}
