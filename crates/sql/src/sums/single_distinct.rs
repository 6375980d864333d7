//! Disables DataFusion's rule that makes distinct values groups, for statements with a sum beside the distinct values.
//!
//! ```text
//! SELECT count(DISTINCT x), sum(y) FROM t
//!
//! before: DataFusion's rule makes groups of x   after: it leaves the plan unchanged, and DistinctRewrite rewrites it
//! ```
//!
//! The rule would add up sums that are rounded already, and fail if a part is out of range.
//! [`DistinctRewrite`](crate::distinct_rewrite::DistinctRewrite) rewrites such statements and preserves images.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rules, of which the one is passed over where there are sums.
pub(crate) fn exactly(
    rules: &[Arc<dyn OptimizerRule + Send + Sync>],
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = rules.iter().map(|rule| match rule.name() {
        "single_distinct_aggregation_to_group_by" => Arc::new(WithoutSums(Arc::clone(rule))) as _,
        _ => Arc::clone(rule),
    });
    rules.collect()
}

#[derive(Debug)]
struct WithoutSums(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for WithoutSums {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let has_sum = match &plan {
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().any(is_sum),
            _ => false,
        };
        if has_sum { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

fn is_sum(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_sum(&alias.expr),
        Expr::AggregateFunction(aggregate) => {
            !aggregate.params.distinct && aggregate.func.name().eq_ignore_ascii_case("sum")
        }
        _ => false,
    }
}
