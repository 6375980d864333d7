//! Replaces a filter whose conditions contradict each other by an empty relation, also above an aggregate without groups.
//!
//! ```text
//! SELECT * FROM (SELECT count(*) AS n FROM t) q WHERE n = 2 AND n = 0
//!
//! before: Filter: n = 2 AND n = 0        DataFusion's rule: Aggregate: count(*)     after: EmptyRelation: rows=0
//!           Aggregate: count(*)                               EmptyRelation: rows=0
//!             TableScan: t
//! ```
//!
//! DataFusion's filter pushdown finds that no value meets both conditions (since apache/datafusion#16362). It replaces
//! them by the constant `false`. A constant has no columns, so the rule treats it as a condition on group keys and pushes
//! it below the aggregate. The aggregate then returns a row over no input: `n = 0` here, or the total of grouping sets.
//! The same happens to a condition that becomes constant during optimization, as `z <> z` does in
//! `SELECT 1 AS z, min(x) FROM t`. Therefore this rule looks at each filter before the pushdown does. It finds
//! contradictions in the filter and in filters directly below it. It removes constant conditions above such an aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{EmptyRelation, Expr, Filter, LogicalPlan};
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, simplify_predicates};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rules, of which the one that pushes filters down sees no filter that is a contradiction.
pub(crate) fn skip_contradictions(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let found_first = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() {
        "push_down_filter" => Arc::new(SkipContradictions(rule)) as _,
        _ => rule,
    };
    rules.into_iter().map(found_first).collect()
}

#[derive(Debug)]
struct SkipContradictions(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for SkipContradictions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return self.0.rewrite(plan, config) };
        if is_contradiction(&filter)? {
            return Ok(Transformed::yes(no_rows(&filter)));
        }
        if !has_row_over_nothing(&filter.input) {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        }
        let (constants, others): (Vec<Expr>, Vec<Expr>) = split_conjunction(&filter.predicate)
            .into_iter()
            .cloned()
            .partition(|condition| condition.column_refs().is_empty());
        for constant in &constants {
            match value_of(constant, &filter, config)? {
                condition if is_never_true(&condition) => return Ok(Transformed::yes(no_rows(&filter))),
                Expr::Literal(ScalarValue::Boolean(Some(true)), _) => {}
                // It has a value when the statement runs; the filter stays where it is.
                _ => return Ok(Transformed::no(LogicalPlan::Filter(filter))),
            }
        }
        let is_changed = !constants.is_empty();
        let rest = match conjunction(others) {
            Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?),
            None => return Ok(Transformed::yes(Arc::unwrap_or_clone(filter.input))),
        };
        let mut pushed = self.0.rewrite(rest, config)?;
        pushed.transformed |= is_changed;
        Ok(pushed)
    }
}

fn no_rows(filter: &Filter) -> LogicalPlan {
    let schema = Arc::clone(filter.input.schema());
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
}

/// Returns true if a plan is an aggregate that returns a row for an empty input.
fn has_row_over_nothing(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let mut keys = aggregate.group_expr.iter();
            aggregate.group_expr.is_empty() || keys.any(|key| matches!(key, Expr::GroupingSet(_)))
        }
        _ => false,
    }
}

/// A condition without columns, as far as it can be computed now.
fn value_of(condition: &Expr, filter: &Filter, config: &dyn OptimizerConfig) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::clone(filter.input.schema()))
        .with_config_options(config.options())
        .with_query_execution_start_time(config.query_execution_start_time())
        .build();
    ExprSimplifier::new(context).simplify(condition.clone())
}

/// Returns true if no row can meet all conditions of a filter and of the filters right below it.
fn is_contradiction(filter: &Filter) -> Result<bool> {
    let mut conditions: Vec<Expr> = Vec::new();
    let mut next = Some(filter);
    while let Some(filter) = next {
        conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
        next = match filter.input.as_ref() {
            LogicalPlan::Filter(below) => Some(below),
            _ => None,
        };
    }
    Ok(simplify_predicates(conditions)?.iter().any(is_never_true))
}

fn is_never_true(condition: &Expr) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(None | Some(false)) | ScalarValue::Null, _))
}
