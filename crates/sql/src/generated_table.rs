//! Tables without storage of their own: a filtered table, rows in memory, and rows that are generated while a statement
//! reads them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result};
use datafusion::datasource::{MemTable, TableType, ViewTable, provider_as_source};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableProviderFilterPushDown, lit};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};

use crate::{KeyCondition, SqlError};

/// Batches that wait for who reads them.
const BATCHES_READY: usize = 2;

/// The rows of a table whose whole number in `column` lies in a range; those for which it is null are not among them.
///
/// The condition goes into the table's own scan, which may leave out files by it.
pub fn rows_between(
    table: Arc<dyn TableProvider>,
    column: &str,
    range: Range<u64>,
) -> std::result::Result<Arc<dyn TableProvider>, SqlError> {
    let bound = |offset: u64| lit(i64::try_from(offset).unwrap_or(i64::MAX));
    let column = || Expr::Column(Column::from_name(column));
    let is_in_range = column().gt_eq(bound(range.start)).and(column().lt(bound(range.end)));
    let plan =
        LogicalPlanBuilder::scan("rows", provider_as_source(table), None)?.filter(is_in_range)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// A table of these rows.
pub fn rows_at_hand(rows: RecordBatch) -> Result<Arc<dyn TableProvider>, SqlError> {
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}

/// Rows that are generated as a statement reads them, and again whenever it reads them again: they are the same then.
pub trait RowGenerator: Send + Sync + 'static {
    /// Returns true if a condition on this column may exclude rows before they are made.
    fn is_key(&self, _column: usize) -> bool {
        false
    }

    /// Generates the requested rows, in batches of the requested columns, until there are no more or `give` returns `false`:
    /// the reader is gone. Rows that the condition excludes may be among them. Returns the number of keys read. Called on a
    /// thread that may wait; `give` waits until there is room.
    fn generate(
        &self,
        wanted: &ScanRequest,
        give: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<u64, SqlError>;
}

/// The rows and columns that a scan of a table reads.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanRequest {
    /// Columns, by their places; without columns, batches have only a number of rows.
    pub columns: Vec<usize>,
    /// All rows that satisfy this are wanted.
    pub condition: KeyCondition,
    /// The most rows.
    pub limit: u64,
}

/// A table of rows that are made in turn: a few batches are in memory at a time.
pub fn generated_table(schema: SchemaRef, rows: Arc<dyn RowGenerator>) -> Arc<dyn TableProvider> {
    Arc::new(GeneratedTable { schema, rows })
}

struct GeneratedTable {
    schema: SchemaRef,
    rows: Arc<dyn RowGenerator>,
}

impl GeneratedTable {
    fn condition(&self, filter: &Expr) -> Option<KeyCondition> {
        KeyCondition::of(filter, &self.schema, &|column| self.rows.is_key(column))
    }
}

impl fmt::Debug for GeneratedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurn").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for GeneratedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.condition(filter) {
            // More rows than satisfy it may be read.
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let (shown, conditions): (Vec<String>, Vec<KeyCondition>) =
            filters.iter().filter_map(|filter| Some((filter.to_string(), self.condition(filter)?))).unzip();
        // With a filter, more rows than the limit must be read to find as many.
        let limit = limit.filter(|_| filters.is_empty()).map_or(u64::MAX, |limit| limit as u64);
        let wanted = ScanRequest { columns, condition: KeyCondition::All(conditions), limit };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Arc::new(GeneratorExec {
            rows: Arc::clone(&self.rows),
            wanted,
            keys: shown.join(" AND "),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// Makes the rows of one scan.
struct GeneratorExec {
    rows: Arc<dyn RowGenerator>,
    wanted: ScanRequest,
    /// The text of the conditions on keys.
    keys: String,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for GeneratorExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratorExec").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl DisplayAs for GeneratorExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|field| &field.name()[..]).collect();
        let keys = if self.keys.is_empty() { "all" } else { &self.keys };
        write!(f, "ViewExec: keys=[{keys}], columns=[{}]", columns.join(", "))?;
        match self.wanted.limit {
            u64::MAX => Ok(()),
            limit => write!(f, ", limit={limit}"),
        }
    }
}

impl ExecutionPlan for GeneratorExec {
    fn name(&self) -> &'static str {
        "ViewExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let keys_read = MetricBuilder::new(&self.metrics).counter("keys_read", partition);
        let mut ready = RecordBatchReceiverStreamBuilder::new(self.schema(), BATCHES_READY);
        let (to, rows, wanted) = (ready.tx(), Arc::clone(&self.rows), self.wanted.clone());
        ready.spawn_blocking(move || {
            let read = rows.generate(&wanted, &mut |batch| to.blocking_send(Ok(batch)).is_ok())?;
            keys_read.add(usize::try_from(read).unwrap_or(usize::MAX));
            Ok(())
        });
        Ok(make_cooperative(ready.build()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
