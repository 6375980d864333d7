//! The sketches as aggregates of DataFusion, so that SQL over history returns the answers of live queries.
//!
//! | function | answer |
//! | --- | --- |
//! | `approx_count_distinct_theta(x, …)` | UInt64: the number of distinct combinations; a row with a null does not count |
//! | `approx_quantile_kll(x, share)` | Float64: the value at that share of all in order, from 0 to 1; null without values |
//! | `approx_top_k(x, k)` | List of {value, count}: the k most frequent values, in that order; nulls do not count |
//!
//! Each is exact while the values are few (see [`SketchSizes`]). A partial state is one Binary column of sketches,
//! serialized by [`serialize`](crate::Distinct::serialize); states merge in any order.

mod accumulate;
mod aggregate;
mod distinct;
mod encode;
mod quantile;
mod top;

use datafusion_common::DataFusionError;
use datafusion_expr::AggregateUDF;

use crate::{ImageError, SketchSizes};

pub use accumulate::{Sketch, SketchAccumulator, SketchGroupsAccumulator, Sketching};
pub use aggregate::{SketchAggregate, SketchFunction};
pub use distinct::{CountDistinctTheta, DistinctSketching};
pub use quantile::{QuantileKll, QuantileSketching};
pub use top::{TopK, TopSketching};

/// All of them, to be registered with a session.
pub fn aggregates(sizes: SketchSizes) -> Vec<AggregateUDF> {
    vec![
        AggregateUDF::from(SketchAggregate::new(CountDistinctTheta::new(sizes))),
        AggregateUDF::from(SketchAggregate::new(QuantileKll::new(sizes))),
        AggregateUDF::from(SketchAggregate::new(TopK::new(sizes))),
    ]
}

impl From<ImageError> for DataFusionError {
    fn from(error: ImageError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}
