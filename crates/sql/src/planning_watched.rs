//! Ends the planning of a statement that was cancelled, or that has allocated more memory than it may.
//!
//! ```text
//! before: rule 1, rule 2, …     after: still_wanted, rule 1, still_wanted, rule 2, …
//! ```
//!
//! Planning computes without yielding, so its task cannot be aborted meanwhile. The rule `still_wanted` precedes each
//! rule of DataFusion's analyzer and optimizers. It changes nothing, and fails once the statement is to end.
//! [`plan_size`](crate::plan_size) bounds the cost of a single rule.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::watched;

/// The session, with its planning watched.
pub(crate) fn planning_watched(state: SessionState) -> SessionState {
    let analyzers = between(&state.analyzer().rules, Arc::new(CancellationCheck) as _);
    let optimizers = between(state.optimizers(), Arc::new(CancellationCheck) as _);
    let physical = between(state.physical_optimizers(), Arc::new(CancellationCheck) as _);
    let rewrites = state.analyzer().function_rewrites().to_vec();
    let mut builder = SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzers)
        .with_optimizer_rules(optimizers)
        .with_physical_optimizer_rules(physical);
    // The builder made an analyzer without them.
    if let Some(analyzer) = builder.analyzer() {
        rewrites.into_iter().for_each(|rewrite| analyzer.add_function_rewrite(rewrite));
    }
    builder.build()
}

fn between<T: ?Sized>(rules: &[Arc<T>], wanted: Arc<T>) -> Vec<Arc<T>> {
    rules.iter().flat_map(|rule| [Arc::clone(&wanted), Arc::clone(rule)]).collect()
}

/// Fails the planning of a statement that was cancelled.
#[derive(Debug)]
struct CancellationCheck;

const NAME: &str = "still_wanted";

impl AnalyzerRule for CancellationCheck {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        watched::check()?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        NAME
    }
}

impl OptimizerRule for CancellationCheck {
    fn name(&self) -> &str {
        NAME
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        watched::check()?;
        Ok(Transformed::no(plan))
    }
}

impl PhysicalOptimizerRule for CancellationCheck {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        watched::check()?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
