//! Puts the side of a cross join that is one row first.
//!
//! ```text
//! before: CrossJoinExec              after: CrossJoinExec
//!           part: 20,000 rows                AggregateExec: count(*)
//!           AggregateExec: count(*)          part: 20,000 rows
//! ```
//!
//! A cross join collects its first side and joins each row of it with each batch of the second. A value that is joined,
//! as the count of nulls that `NOT IN` needs, is the second side in DataFusion's plans. The join then returns a batch for
//! each row. DataFusion swaps the sides if it knows the sizes of both; here the size of one is enough.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// The rule. It must precede the rule that decides on partitions.
#[derive(Debug)]
pub(crate) struct OneRowFirst;

impl PhysicalOptimizerRule for OneRowFirst {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<CrossJoinExec>() else { return Ok(Transformed::no(node)) };
            if !is_one_row(join.right().as_ref())? || is_one_row(join.left().as_ref())? {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(join.swap_inputs()?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "one_row_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_one_row(plan: &dyn ExecutionPlan) -> Result<bool> {
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new())?;
    Ok(statistics.num_rows == Precision::Exact(1))
}
