//! Cancels a statement inside joins that return no rows, or very many, for a long time.
//!
//! ```text
//! before: HashJoinExec: filter=c     after: HashJoinExec, as StoppableExec: filter=CancellableCondition(c)
//! ```
//!
//! An aborted task ends only when it next yields, and DataFusion's operators yield according to what their leaves have
//! read. A join turns few input rows into many. From one batch it returns thousands of batches, or, if its condition
//! never matches, visits all pairs without returning any. Therefore the rows that a join returns count as read. Its
//! condition checks for cancellation at each batch of pairs.
//!
//! Limits: a cancel does not interrupt one batch of any other operator, nor a window function over one large partition.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures_util::StreamExt;

use crate::watched;

/// The plan, with joins that end when they are told to.
pub(crate) fn stoppable(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        Ok(match stoppable_join(&node)? {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// The join, if the node is one, as it ends when it is told to.
pub(crate) fn stoppable_join(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    Ok(with_checked_condition(node)?.map(|join| Arc::new(StoppableExec { join }) as Arc<dyn ExecutionPlan>))
}

fn with_checked_condition(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let looking = |filter: &JoinFilter| {
        let condition = Arc::new(CancellableCondition { condition: Arc::clone(filter.expression()) });
        JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    if node.downcast_ref::<CrossJoinExec>().is_some() {
        return Ok(Some(Arc::clone(node)));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let filter = join.filter().map(looking);
        return Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = join.filter().map(looking);
        return Ok(Some(join.builder().with_filter(filter).build_exec()?));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let join = SortMergeJoinExec::try_new(
            Arc::clone(&join.left),
            Arc::clone(&join.right),
            join.on.clone(),
            join.filter.as_ref().map(looking),
            join.join_type,
            join.sort_options.clone(),
            join.null_equality,
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

/// A join whose rows count as read, and that fails once its statement is to end. It takes the place of the join, with its inputs,
/// name and metrics.
#[derive(Debug)]
pub(crate) struct StoppableExec {
    join: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for StoppableExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.join.fmt_as(form, f)
    }
}

impl ExecutionPlan for StoppableExec {
    fn name(&self) -> &str {
        self.join.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).replace_children(children, options)?;
        Ok(Arc::new(StoppableExec { join }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.join.metrics()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.join.execute(partition, context)?;
        let (schema, checked) = (rows.schema(), rows.map(|batch| watched::check().and(batch)));
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, checked))))
    }
}

/// The condition of a join; an error once the statement is cancelled.
#[derive(Debug)]
struct CancellableCondition {
    condition: Arc<dyn PhysicalExpr>,
}

impl PartialEq for CancellableCondition {
    fn eq(&self, other: &CancellableCondition) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for CancellableCondition {}

impl Hash for CancellableCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for CancellableCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.condition, f)
    }
}

impl PhysicalExpr for CancellableCondition {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        watched::check()?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| Arc::clone(&self.condition));
        Ok(Arc::new(CancellableCondition { condition }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
