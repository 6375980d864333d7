//! The aggregate function `approx_quantile_kll`.

use std::sync::Arc;

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::{Array, ArrayRef, Float64Array, cast::AsArray},
        datatypes::{DataType, Float64Type},
    },
    exec_err, plan_err,
};
use datafusion_expr::{Signature, Volatility, function::AccumulatorArgs};

use super::{
    accumulate::Sketching,
    aggregate::{SketchFunction, constant},
};
use crate::{Quantiles, SketchSizes};

/// `approx_quantile_kll(x, share)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuantileKll {
    k: u16,
}

impl QuantileKll {
    /// The function with sketches of this size.
    pub fn new(sizes: SketchSizes) -> QuantileKll {
        QuantileKll { k: sizes.quantile_k }
    }
}

impl SketchFunction for QuantileKll {
    type Sketching = QuantileSketching;

    const NAME: &'static str = "approx_quantile_kll";
    const PASSES_OVER_REPEATS: bool = false;

    fn signature(&self) -> Signature {
        Signature::exact(vec![DataType::Float64, DataType::Float64], Volatility::Immutable)
    }

    fn return_type(&self, _argument_types: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<QuantileSketching> {
        match constant(args, 1, Self::NAME)? {
            ScalarValue::Float64(Some(share)) if (0.0..=1.0).contains(&share) => {
                Ok(QuantileSketching { k: self.k, share })
            }
            other => plan_err!("the share of `{}` must be a number from 0 to 1, not {other}", Self::NAME),
        }
    }
}

/// Finds the value at a share of all in order.
#[derive(Debug, Clone)]
pub struct QuantileSketching {
    /// [`SketchSizes::quantile_k`].
    pub k: u16,
    /// The share, from 0, the least value, to 1, the greatest.
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
            return exec_err!("`{}` needs Float64", QuantileKll::NAME);
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

    fn evaluate(&self, sketches: &[Quantiles]) -> Result<ArrayRef> {
        let values = sketches.iter().map(|sketch| sketch.evaluate().quantile(self.share));
        Ok(Arc::new(Float64Array::from_iter(values)))
    }
}
