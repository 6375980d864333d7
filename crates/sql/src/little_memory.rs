//! What DataFusion plans so that it stays in memory, planned so that it spills.
//!
//! The first rows of many are kept in a heap, which does not spill; a whole sort does. So a large LIMIT is put above one.
//! A nested-loop join collects its left side; where that does not fit, DataFusion 55 runs the side once more and writes it to disk,
//! but its operators run once only, and give nothing the second time. So below such a join they are made anew for a second
//! run; and where each partition of the right side would tell for itself which rows on the left found nobody, there is one.
//! Both is for [`Aim::Memory`]; a plan for [`Aim::Speed`] is out of memory where such a join would run its side again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::execution::memory_pool::{MemoryLimit, human_readable_size};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};

use crate::session::Aim;

/// First rows that a heap may keep; where more are wanted, all are sorted.
const FIRST_ROWS_MAX: usize = 1000;

/// The rule.
#[derive(Debug)]
pub(crate) struct LittleMemory(pub(crate) Aim);

impl PhysicalOptimizerRule for LittleMemory {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let children = self.children(join);
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                return Ok(Transformed::yes(node.replace_children(children, options)?));
            }
            if self.0 == Aim::Memory
                && let Some(sort) = node.downcast_ref::<SortExec>()
                && let Some(fetch) = sort.fetch().filter(|fetch| *fetch > FIRST_ROWS_MAX)
            {
                let all = Arc::new(sort.with_fetch(None));
                return Ok(Transformed::yes(Arc::new(LocalLimitExec::new(all, fetch))));
            }
            Ok(Transformed::no(node))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "little_memory"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl LittleMemory {
    fn children(&self, join: &NestedLoopJoinExec) -> Vec<Arc<dyn ExecutionPlan>> {
        let (left, right) = (join.left(), join.right());
        let tells_of_left = matches!(
            join.join_type(),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Full
        );
        let is_many = right.output_partitioning().partition_count() > 1;
        let right = match self.0 == Aim::Memory && tells_of_left && is_many {
            true => Arc::new(CoalescePartitionsExec::new(Arc::clone(right))),
            false => Arc::clone(right),
        };
        vec![Arc::new(RunAgainExec::new(Arc::clone(left), self.0)), right]
    }
}

/// An input that may be run a second time.
#[derive(Debug)]
struct RunAgainExec {
    input: Arc<dyn ExecutionPlan>,
    aim: Aim,
    has_run: AtomicBool,
}

impl RunAgainExec {
    fn new(input: Arc<dyn ExecutionPlan>, aim: Aim) -> RunAgainExec {
        RunAgainExec { input, aim, has_run: AtomicBool::new(false) }
    }
}

impl DisplayAs for RunAgainExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunAgainExec")
    }
}

impl ExecutionPlan for RunAgainExec {
    fn name(&self) -> &'static str {
        "RunAgainExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(RunAgainExec::new(input, self.aim)))
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
        // A join has one partition on its left.
        if !self.has_run.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        if self.aim == Aim::Speed || is_recursive(&self.input)? {
            // Worded as the pool's own, which errors are made of.
            let limit = match context.memory_pool().memory_limit() {
                MemoryLimit::Finite(bytes) => bytes,
                _ => 0,
            };
            return Err(DataFusionError::ResourcesExhausted(format!(
                "Failed to allocate additional memory for one side of a join for the total memory pool: \
                 joins(pool_size: {})",
                human_readable_size(limit)
            )));
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, context)
    }
}

/// Whether it is part of a recursion, or has one in it: that cannot be run again.
fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        Ok(node.downcast_ref::<RecursiveQueryExec>().is_some()
            || node.downcast_ref::<WorkTableExec>().is_some())
    })
}
