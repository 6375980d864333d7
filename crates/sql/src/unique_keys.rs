//! Stops DataFusion from relying on the unique keys of a subquery in the query around it.
//!
//! The rows of `SELECT a, … GROUP BY a` have each `a` once. DataFusion 55 therefore drops whatever such a key decides:
//! sort keys, group keys, DISTINCT, and joins that only test whether a row exists. But it retains the key after the key
//! has ceased to be unique. A join repeats rows, and a second GROUP BY over the join takes the first one's key for a key
//! of its own rows. `unnest` has the same effect (`functional_dependencies.rs`; compare
//! <https://github.com/apache/datafusion/issues/21507>):
//!
//! ```sql
//! -- u.b is dropped
//! SELECT x.a, u.b FROM (SELECT a FROM t GROUP BY a) x JOIN u ON x.a = u.a GROUP BY x.a, u.b ORDER BY x.a, u.b
//! ```
//!
//! ```text
//! before: SubqueryAlias: x                 after: SubqueryAlias: x
//!           Aggregate: groupBy=[a]                  WithoutKeys
//!             TableScan: t                            Aggregate: groupBy=[a]
//!                                                       TableScan: t
//! ```
//!
//! Within one SELECT the key is valid, except for `unnest`. Therefore [`Relations`] plans every subquery and WITH query
//! in a FROM below a node that has its columns and none of its keys. Conditions, limits and unused columns pass through
//! the node. The physical plan contains only its input ([`Planner`]). A sort key is dropped only if an earlier sort key
//! is the same expression ([`rules`]). A correlated subquery has no such node, because DataFusion does not look below one
//! for the outer columns.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, Sort, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::correlation::is_correlated;

/// Plans the relations of a FROM.
#[derive(Debug)]
pub(crate) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let alias = match &mut relation {
            TableFactor::Derived { alias, .. } | TableFactor::Table { alias, args: None, .. } => alias.take(),
            _ => None,
        };
        // One without a name is a table, or it is asked for from here.
        let Some(alias) = alias else { return Ok(RelationPlanning::Original(Box::new(relation))) };
        let plan = context.plan(relation)?;
        let has_keys = !plan.schema().functional_dependencies().is_empty();
        let plan = if has_keys && !is_correlated(&plan) { without_keys(plan)? } else { plan };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(WithoutKeys::new(plan)?) }))
}

/// Rows as they are, without keys.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WithoutKeys {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl WithoutKeys {
    fn new(input: LogicalPlan) -> Result<WithoutKeys> {
        let schema = input.schema().as_ref().clone();
        let schema = Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
        Ok(WithoutKeys { input, schema })
    }
}

impl PartialOrd for WithoutKeys {
    fn partial_cmp(&self, other: &WithoutKeys) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for WithoutKeys {
    fn name(&self) -> &str {
        "WithoutKeys"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithoutKeys")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<WithoutKeys> {
        WithoutKeys::new(inputs.pop().unwrap_or_else(|| self.input.clone()))
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![columns.to_vec()])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

/// Makes physical plans, in which the node is its input.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Inputs)]);
        planner.create_physical_plan(plan, state).await
    }
}

struct Inputs;

#[async_trait]
impl ExtensionPlanner for Inputs {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _state: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let is_own = node.as_any().is::<WithoutKeys>();
        Ok(physical_inputs.first().filter(|_| is_own).map(Arc::clone))
    }
}

/// DataFusion's logical rules, but for the one that drops sort keys because of others.
pub(crate) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let theirs = EliminateDuplicatedExpr::new();
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        if rule.name() == theirs.name() {
            *rule = Arc::new(SortKeysOnce(EliminateDuplicatedExpr::new()));
        }
    }
    rules
}

/// Retains each sort key at its first place; DataFusion's rule does the rest.
#[derive(Debug)]
struct SortKeysOnce(EliminateDuplicatedExpr);

impl OptimizerRule for SortKeysOnce {
    fn name(&self) -> &str {
        "sort_keys_once"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(Sort { mut expr, input, fetch }) = plan else {
            return self.0.rewrite(plan, config);
        };
        let count = expr.len();
        let mut seen = HashSet::with_capacity(count);
        expr.retain(|key| seen.insert(key.expr.clone()));
        let is_changed = expr.len() < count;
        let sort = LogicalPlan::Sort(Sort { expr, input, fetch });
        Ok(if is_changed { Transformed::yes(sort) } else { Transformed::no(sort) })
    }
}
