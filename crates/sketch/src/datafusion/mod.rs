//! The sketches as aggregates of DataFusion, so that SQL over history gives the answers of live queries.
//!
//! | function | answer |
//! | --- | --- |
//! | `approx_count_distinct_theta(x, …)` | UInt64: how many distinct combinations; a row in which one is null counts not |
//! | `approx_quantile_kll(x, share)` | Float64: the value at that share of all in order, from 0 to 1; null of none |
//! | `approx_top_k(x, k)` | List of {value, count}: the k most frequent values, the most frequent first; nulls count not |
//!
//! Each is exact while the values are few (see [`SketchSizes`]). A partial state is one Binary column of sketches as
//! [`serialize`](crate::Distinct::serialize) makes them; states merge in any order.

mod accumulate;
mod distinct;
mod encode;
mod quantile;
mod top;

use datafusion_common::{DataFusionError, Result, ScalarValue, arrow::array::RecordBatch, plan_err};
use datafusion_expr::{AggregateUDF, ColumnarValue, function::AccumulatorArgs};

use crate::{ImageError, SketchSizes};

pub use accumulate::{SketchAccumulator, SketchGroupsAccumulator, Sketching};
pub use distinct::{CountDistinctTheta, DistinctSketching};
pub use quantile::{QuantileKll, QuantileSketching};
pub use top::{TopK, TopSketching};

/// All of them, to be registered with a session.
pub fn aggregates(sizes: SketchSizes) -> Vec<AggregateUDF> {
    vec![
        AggregateUDF::from(CountDistinctTheta::new(sizes)),
        AggregateUDF::from(QuantileKll::new(sizes)),
        AggregateUDF::from(TopK::new(sizes)),
    ]
}

/// The value of an argument that must be a constant.
fn constant(args: &AccumulatorArgs<'_>, place: usize, function: &str) -> Result<ScalarValue> {
    let Some(expr) = args.exprs.get(place) else {
        return plan_err!("`{function}` takes {} arguments", place + 1);
    };
    // A constant is the same over no rows; whatever reads a column gives an array.
    match expr.evaluate(&RecordBatch::new_empty(args.schema.clone().into()))? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(_) => plan_err!("argument {} of `{function}` must be a constant", place + 1),
    }
}

impl From<ImageError> for DataFusionError {
    fn from(error: ImageError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}
