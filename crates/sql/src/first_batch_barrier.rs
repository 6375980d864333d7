//! Delays the first groups of a grouped plan until every partition has computed its own.
//!
//! ```text
//! before: AggregateExec: gby=[k], 4 partitions     after: FirstTogetherExec
//!           input                                           AggregateExec: gby=[k], 4 partitions
//!                                                             input
//! ```
//!
//! A plan that exceeds its memory can be planned again only while none of its rows have been returned. A partition
//! returns its groups when it has read all its input, and needs no more memory then; another partition may still need
//! some. Therefore the first rows of all partitions wait for each other. An error is returned at once.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures_util::{StreamExt, stream};
use tokio::sync::Barrier;

/// A plan whose partitions give groups, made so that they wait for each other; any other as it is.
pub(crate) fn groups_together(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.output_partitioning().partition_count() > 1 && gives_groups(&plan) {
        Arc::new(FirstTogetherExec::new(plan))
    } else {
        plan
    }
}

fn gives_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let passes_on =
        plan.downcast_ref::<ProjectionExec>().is_some() || plan.downcast_ref::<FilterExec>().is_some();
    match plan.children().as_slice() {
        [input] if passes_on => gives_groups(input),
        _ => plan.downcast_ref::<AggregateExec>().is_some(),
    }
}

/// A plan all of whose partitions are run at once.
#[derive(Debug)]
struct FirstTogetherExec {
    input: Arc<dyn ExecutionPlan>,
    have_first: Arc<Barrier>,
}

impl FirstTogetherExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> FirstTogetherExec {
        let partitions = input.output_partitioning().partition_count();
        FirstTogetherExec { input, have_first: Arc::new(Barrier::new(partitions)) }
    }
}

impl DisplayAs for FirstTogetherExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstTogetherExec")
    }
}

impl ExecutionPlan for FirstTogetherExec {
    fn name(&self) -> &'static str {
        "FirstTogetherExec"
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
        Ok(Arc::new(FirstTogetherExec::new(input)))
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
        let mut input = self.input.execute(partition, context)?;
        let (schema, have_first) = (input.schema(), Arc::clone(&self.have_first));
        let rows = async move {
            let first = input.next().await;
            // An error ends all of it at once.
            if !matches!(first, Some(Err(_))) {
                have_first.wait().await;
            }
            stream::iter(first).chain(input)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(rows).flatten())))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::DataFusionError;
    use datafusion::physical_plan::execute_stream;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use datafusion::prelude::SessionContext;
    use futures_util::TryStreamExt;

    use super::*;

    /// Rows, and behind some of them an error.
    #[derive(Debug)]
    struct Part(SchemaRef, Vec<Option<i64>>);

    impl PartitionStream for Part {
        fn schema(&self) -> &SchemaRef {
            &self.0
        }

        fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
            let schema = Arc::clone(&self.0);
            let rows = stream::iter(self.1.clone()).then(move |row| {
                let schema = Arc::clone(&schema);
                async move {
                    match row {
                        Some(row) => {
                            Ok(RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![row]))])?)
                        }
                        None => {
                            for _ in 0..100 {
                                tokio::task::yield_now().await;
                            }
                            Err(DataFusionError::ResourcesExhausted("no memory".to_owned()))
                        }
                    }
                }
            });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), rows))
        }
    }

    fn plan(parts: Vec<Vec<Option<i64>>>) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let parts = parts.into_iter().map(|rows| Arc::new(Part(Arc::clone(&schema), rows)) as _).collect();
        let scan = StreamingTableExec::try_new(Arc::clone(&schema), parts, None, [], false, None).unwrap();
        Arc::new(FirstTogetherExec::new(Arc::new(scan)))
    }

    #[tokio::test]
    async fn nothing_comes_before_a_partition_that_fails_at_its_first_rows() {
        let context = SessionContext::new().task_ctx();
        let mut rows =
            execute_stream(plan(vec![vec![Some(1)], vec![None], vec![]]), Arc::clone(&context)).unwrap();
        assert!(matches!(rows.next().await, Some(Err(DataFusionError::ResourcesExhausted(_)))));
        let whole = plan(vec![vec![Some(1), Some(2)], vec![Some(3)], vec![]]);
        let rows: Vec<RecordBatch> = execute_stream(whole, context).unwrap().try_collect().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    }

    #[tokio::test]
    async fn only_groups_wait_for_each_other() {
        let context = SessionContext::new();
        for (text, wait) in [
            ("SELECT g % 3 AS k, count(DISTINCT g) AS n FROM t GROUP BY g % 3 HAVING count(*) > 1", true),
            ("SELECT g FROM t WHERE g > 1", false),
            ("SELECT count(*) FROM t", false),
        ] {
            let made = "CREATE TABLE IF NOT EXISTS t AS SELECT value AS g FROM range(0, 20000)";
            context.sql(made).await.unwrap().collect().await.unwrap();
            let physical = context.sql(text).await.unwrap().create_physical_plan().await.unwrap();
            let is_parted = physical.output_partitioning().partition_count() > 1;
            let together = groups_together(physical);
            assert_eq!(together.name() == "FirstTogetherExec", wait && is_parted, "{text}");
        }
    }
}
