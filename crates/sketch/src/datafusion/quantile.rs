//! `approx_quantile_kll`.

use std::sync::Arc;

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::{Array, ArrayRef, Float64Array, cast::AsArray},
        datatypes::{DataType, FieldRef, Float64Type},
    },
    exec_err, plan_err,
};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
};

use super::{
    accumulate::{SketchAccumulator, SketchGroupsAccumulator, Sketching},
    constant,
    distinct::state_field,
};
use crate::{Quantiles, SketchSizes};

const NAME: &str = "approx_quantile_kll";

/// `approx_quantile_kll(x, share)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuantileKll {
    signature: Signature,
    k: u16,
}

impl QuantileKll {
    /// With sketches of this size.
    pub fn new(sizes: SketchSizes) -> QuantileKll {
        let types = vec![DataType::Float64, DataType::Float64];
        QuantileKll { signature: Signature::exact(types, Volatility::Immutable), k: sizes.quantile_k }
    }

    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<QuantileSketching> {
        match constant(args, 1, NAME)? {
            ScalarValue::Float64(Some(share)) if (0.0..=1.0).contains(&share) => {
                Ok(QuantileSketching { k: self.k, share })
            }
            other => plan_err!("the share of `{NAME}` must be a number from 0 to 1, not {other}"),
        }
    }
}

impl AggregateUDFImpl for QuantileKll {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![state_field(args.name)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SketchAccumulator::new(self.sketching(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(SketchGroupsAccumulator::new(self.sketching(&args)?)))
    }
}

/// Finds the value at a share of all in order.
#[derive(Debug, Clone)]
pub struct QuantileSketching {
    /// [`SketchSizes::quantile_k`].
    pub k: u16,
    /// From 0, the least value, to 1, the greatest.
    pub share: f64,
}

impl Sketching for QuantileSketching {
    type Sketch = Quantiles;

    fn empty(&self) -> Quantiles {
        Quantiles::new(self.k)
    }

    fn update(
        &self,
        sketches: &mut [Quantiles],
        values: &[ArrayRef],
        group_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let Some(numbers) = values.first().and_then(|values| values.as_primitive_opt::<Float64Type>()) else {
            return exec_err!("`{NAME}` takes in Float64");
        };
        for row in 0..numbers.len() {
            if numbers.is_valid(row)
                && let Some(group) = group_of(row)
            {
                sketches[group].update(numbers.value(row));
            }
        }
        Ok(())
    }

    fn merge(&self, ours: &mut Quantiles, theirs: &Quantiles) {
        ours.merge(theirs);
    }

    fn serialize(&self, sketch: &Quantiles) -> Vec<u8> {
        sketch.serialize()
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<Quantiles> {
        Ok(Quantiles::deserialize(bytes)?)
    }

    fn bytes(&self, sketch: &Quantiles) -> usize {
        sketch.bytes()
    }

    fn evaluate(&self, sketches: &[Quantiles]) -> Result<ArrayRef> {
        let values = sketches.iter().map(|sketch| sketch.evaluate().quantile(self.share));
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
}
