//! Replaces operators that DataFusion keeps in memory by operators that spill, and refuses runs that would return wrong
//! rows.
//!
//! ```text
//! NestedLoopJoinExec: left, right              becomes  NestedLoopJoinExec: RunOnceExec(left), right
//! RepartitionExec: Hash(keys, n)               becomes  RepartitionExec: Hash(keys, 1)                         Aim::Memory
//! SortExec: TopK(fetch=n), n > 1000            becomes  LocalLimitExec: fetch=n over SortExec without fetch     Aim::Memory
//! ```
//!
//! A top-n sort stores its rows in a heap, which does not spill; a full sort spills. For [`PlanGoal::Memory`], a large LIMIT
//! therefore becomes a limit above a full sort. Nothing is partitioned by its keys then: the two sorts of a merge join
//! share the memory. With two sorts for each partition, the sorts that are ahead may leave too little to those that are
//! behind.
//!
//! A nested-loop join collects its left side. If the side does not fit, DataFusion 55 runs it once more and writes it to
//! disk. But most operators run once only and return nothing the second time. With operators made anew, outer joins lose
//! rows that matched nothing. Therefore the second run fails with an out-of-memory error.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, human_readable_size};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};

use crate::session::PlanGoal;

/// First rows that a heap may keep; where more are wanted, all are sorted.
const FIRST_ROWS_MAX: usize = 1000;

/// The rule.
#[derive(Debug)]
pub(crate) struct SpillRules(pub(crate) PlanGoal);

impl PhysicalOptimizerRule for SpillRules {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
                let left = Arc::new(RunOnceExec::new(Arc::clone(join.left())));
                let children: Vec<Arc<dyn ExecutionPlan>> = vec![left, Arc::clone(join.right())];
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                return Ok(Transformed::yes(node.replace_children(children, options)?));
            }
            if self.0 == PlanGoal::Memory
                && let Some(parted) = node.downcast_ref::<RepartitionExec>()
                && let Partitioning::Hash(keys, _) = parted.partitioning()
            {
                let one = Partitioning::Hash(keys.clone(), 1);
                let mut whole = RepartitionExec::try_new(Arc::clone(parted.input()), one)?;
                if parted.preserve_order() {
                    whole = whole.with_preserve_order();
                }
                return Ok(Transformed::yes(Arc::new(whole)));
            }
            if self.0 == PlanGoal::Memory
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
        "spill_rules"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An input of a join, of one partition, that is run once.
#[derive(Debug)]
pub(crate) struct RunOnceExec {
    input: Arc<dyn ExecutionPlan>,
    has_run: AtomicBool,
}

impl RunOnceExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> RunOnceExec {
        RunOnceExec { input, has_run: AtomicBool::new(false) }
    }
}

impl DisplayAs for RunOnceExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunOnceExec")
    }
}

impl ExecutionPlan for RunOnceExec {
    fn name(&self) -> &'static str {
        "RunOnceExec"
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
        Ok(Arc::new(RunOnceExec::new(input)))
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
        if !self.has_run.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        // Worded as the pool's own, which errors are made of.
        let limit = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => 0,
        };
        Err(DataFusionError::ResourcesExhausted(format!(
            "Failed to allocate additional memory for one side of a join for the total memory pool: \
             joins(pool_size: {})",
            human_readable_size(limit)
        )))
    }
}
