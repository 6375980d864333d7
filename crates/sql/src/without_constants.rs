//! Hides facts about an operator's input from the planner if they are not true of the operator's output.
//!
//! ```text
//! before: SortMergeJoinExec: type=Left     after: SortMergeJoinExec: type=Left
//!           left                                    left
//!           right                                   PlainExec
//!                                                     right
//! ```
//!
//! DataFusion 55 derives facts about an operator's rows: constant or equal columns after a filter, unique keys, and
//! orders. It drops sort keys that these facts make redundant. But an outer join and grouping sets add rows whose columns
//! are null. The facts are not true of these rows, and DataFusion retains them
//! (<https://github.com/apache/datafusion/issues/16965>). DataFusion also claims the order of a join's other side within
//! equal keys of the first. But each row of the first restarts that order
//! (<https://github.com/apache/datafusion/issues/25053>). Therefore [`WithoutConstants`] puts a [`PlainExec`] between
//! such an operator and its input: it passes rows on, and no facts. The cost is a sort if the facts were true after all;
//! rows cost nothing.
//!
//! The rule must precede the rule that decides on sorts, and no later rule may remove the node. Operators choose how they
//! run by the facts about their input whenever they get a new one.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};

/// The rule.
#[derive(Debug)]
pub(crate) struct WithoutConstants;

impl PhysicalOptimizerRule for WithoutConstants {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let hidden = hidden(node.as_ref());
            let children = node.children();
            if !hidden.iter().zip(&children).any(|(hidden, child)| hidden.applies_to(child)) {
                return Ok(Transformed::no(node));
            }
            let children = hidden.iter().zip(children).map(|(hidden, child)| -> Arc<dyn ExecutionPlan> {
                match hidden.applies_to(child) {
                    true => Arc::new(PlainExec::new(Arc::clone(child), *hidden)),
                    false => Arc::clone(child),
                }
            });
            let children = children.collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "without_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The properties of an input that an operator must not learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    Nothing,
    Order,
    /// The constants, and all orders, which may depend on them.
    Constants,
    Everything,
}

impl Hidden {
    fn applies_to(self, input: &Arc<dyn ExecutionPlan>) -> bool {
        let facts = input.equivalence_properties();
        let has_order = !facts.oeq_class().is_empty();
        match self {
            Hidden::Nothing => false,
            Hidden::Order => has_order,
            Hidden::Constants => !facts.eq_group().is_empty(),
            Hidden::Everything => {
                has_order || !facts.eq_group().is_empty() || !facts.constraints().is_empty()
            }
        }
    }
}

/// The hidden properties of each input of an operator.
fn hidden(node: &dyn ExecutionPlan) -> Vec<Hidden> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        // The right side is read in its order, and the left one is looked up.
        return of_join(*join.join_type(), [Hidden::Order, Hidden::Nothing]);
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let second = match join.join_type() {
            JoinType::Right => [Hidden::Order, Hidden::Nothing],
            _ => [Hidden::Nothing, Hidden::Order],
        };
        return of_join(join.join_type(), second);
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return of_join(*join.join_type(), [Hidden::Nothing; 2]);
    }
    if let Some(join) = node.downcast_ref::<SymmetricHashJoinExec>() {
        return of_join(*join.join_type(), [Hidden::Nothing; 2]);
    }
    if node.is::<UnionExec>() {
        return vec![Hidden::Constants; node.children().len()];
    }
    match node.downcast_ref::<AggregateExec>() {
        Some(aggregate) if !aggregate.group_expr().is_single() => vec![Hidden::Everything],
        _ => Vec::new(),
    }
}

/// Hides everything of a join's inputs whose columns may become null; `otherwise` is for the others.
fn of_join(join: JoinType, otherwise: [Hidden; 2]) -> Vec<Hidden> {
    let [left, right] = otherwise;
    match join {
        JoinType::Inner => vec![left, right],
        JoinType::Left => vec![left, Hidden::Everything],
        JoinType::Right => vec![Hidden::Everything, right],
        JoinType::Full => vec![Hidden::Everything; 2],
        // Their rows are those of one side.
        _ => Vec::new(),
    }
}

/// Passes rows on, and nothing that is known about them.
#[derive(Debug)]
pub(crate) struct PlainExec {
    input: Arc<dyn ExecutionPlan>,
    pub(crate) hidden: Hidden,
    properties: Arc<PlanProperties>,
}

impl PlainExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, hidden: Hidden) -> PlainExec {
        let properties = PlanProperties::clone(input.properties());
        let mut facts = EquivalenceProperties::new(input.schema());
        if hidden == Hidden::Order {
            facts = input.equivalence_properties().clone();
            facts.clear_orderings();
        }
        PlainExec { input, hidden, properties: Arc::new(properties.with_eq_properties(facts)) }
    }
}

impl DisplayAs for PlainExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainExec")
    }
}

impl ExecutionPlan for PlainExec {
    fn name(&self) -> &'static str {
        "PlainExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(PlainExec::new(input, self.hidden)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
