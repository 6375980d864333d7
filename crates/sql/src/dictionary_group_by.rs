//! Speeds up GROUP BY over one text column with few distinct values, which is the most common kind of grouping.
//!
//! ```text
//! before: AggregateExec: mode=Partial, gby=[metro]     after: FewGroupsExec: mode=Partial, gby=[metro]
//!           input                                               input
//! ```
//!
//! DataFusion hashes and compares the text of every row. But Arrow stores each text as a view, and equal texts mostly
//! have equal views. A short text is its view, and a longer one lies once in the dictionary of its file. A small table
//! from views to groups therefore finds the group of nearly every row in a few instructions. A view that is not in the
//! table is looked up by its text.
//!
//! This operator is the first of two stages; the second stage merges its groups. It may therefore emit its groups at any
//! time. It emits them when it has more than [`VIEWS_MAX`] views at once or [`GROUPS_MAX`] groups, or when no memory is
//! left. The rest of its input then goes through DataFusion's own first stage.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, aggregate_expressions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    ReplaceChildrenOptions,
};
use futures_util::{StreamExt, TryStreamExt, stream};

/// Views that are known at once.
const VIEWS_MAX: usize = 1024;
/// Places in the table of views: a power of two, so many that most views stand where they are first looked for.
const PLACES: usize = 4 * VIEWS_MAX;
/// Places that are tried for one view; if there are more, the texts are unfavourable.
const PLACES_TRIED_MAX: usize = 32;
/// Groups between two times of giving on.
const GROUPS_MAX: usize = 4096;

/// Replaces first stages by [`FewGroupsExec`] where it computes the same.
#[derive(Debug)]
pub(crate) struct DictionaryGroupBy;

impl PhysicalOptimizerRule for DictionaryGroupBy {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<AggregateExec>().filter(|aggregate| is_for(aggregate)) {
                Some(aggregate) => Transformed::yes(Arc::new(FewGroupsExec::new(aggregate.clone()))),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "dictionary_group_by"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_for(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let is_by_text = match groups.expr() {
        [(key, _)] => matches!(key.data_type(&aggregate.input().schema()), Ok(DataType::Utf8View)),
        _ => false,
    };
    let plain = aggregate.aggr_expr().iter().all(|function| {
        function.groups_accumulator_supported() && !function.is_distinct() && function.order_bys().is_empty()
    });
    *aggregate.mode() == AggregateMode::Partial
        && groups.is_single()
        && is_by_text
        && plain
        && aggregate.limit_options().is_none()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
}

/// The first stage of an aggregation by one column of texts.
pub(crate) struct FewGroupsExec {
    /// The aggregate that it replaces.
    pub(crate) aggregate: AggregateExec,
    metrics: ExecutionPlanMetricsSet,
}

impl FewGroupsExec {
    pub(crate) fn new(aggregate: AggregateExec) -> FewGroupsExec {
        FewGroupsExec { aggregate, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl fmt::Debug for FewGroupsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FewGroupsExec").finish_non_exhaustive()
    }
}

impl DisplayAs for FewGroupsExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FewGroups")?;
        self.aggregate.fmt_as(form, f)
    }
}

impl ExecutionPlan for FewGroupsExec {
    fn name(&self) -> &'static str {
        "FewGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::new(self.aggregate.clone()).replace_children(children, options)?;
        Ok(match aggregate.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(FewGroupsExec::new(aggregate.clone())),
            None => aggregate,
        })
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
        self.aggregate.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.aggregate.input().execute(partition, Arc::clone(&context))?;
        let schema = self.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stage = Stage::new(self.aggregate.clone(), &context, metrics)?;
        let rows = stream::once(stage.run(input, context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition at work.
struct Stage {
    aggregate: AggregateExec,
    /// Arguments of the functions.
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    functions: Vec<Box<dyn GroupsAccumulator>>,
    groups: Groups,
    /// The group of each row of a batch.
    rows: Vec<usize>,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

impl Stage {
    fn new(aggregate: AggregateExec, context: &TaskContext, metrics: BaselineMetrics) -> Result<Stage> {
        let functions = aggregate.aggr_expr();
        Ok(Stage {
            arguments: aggregate_expressions(functions, aggregate.mode(), 1)?,
            functions: functions
                .iter()
                .map(|function| function.create_groups_accumulator())
                .collect::<Result<_>>()?,
            groups: Groups::new(),
            rows: Vec::new(),
            memory: MemoryConsumer::new("FewGroups").register(context.memory_pool()),
            metrics,
            aggregate,
        })
    }

    async fn run(
        mut self,
        mut input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut rest = None;
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let time = self.metrics.elapsed_compute().clone();
            let _timed = time.timer();
            if !self.accept_batch(&batch)? {
                rest = Some(Some(batch));
                break;
            }
            if self.memory.try_resize(self.bytes()).is_err() {
                rest = Some(None);
                break;
            }
        }
        let schema = self.aggregate.schema();
        let before = self.emit_partial()?;
        let before = stream::iter(before.map(Ok));
        let Some(batch) = rest else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, before)));
        };
        let input_schema = input.schema();
        let input = stream::iter(batch.map(Ok)).chain(input);
        let rest = RemainingInput::plan(Box::pin(RecordBatchStreamAdapter::new(input_schema, input)))?;
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let theirs = Arc::new(self.aggregate).replace_children(vec![rest], recompute)?;
        drop((self.functions, self.groups, self.memory));
        let after = theirs.execute(0, context)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, before.chain(after))))
    }

    /// Accepts the rows of a batch, all or, where they have too many texts, none.
    fn accept_batch(&mut self, batch: &RecordBatch) -> Result<bool> {
        if batch.num_rows() == 0 {
            return Ok(true);
        }
        let [(key, _)] = self.aggregate.group_expr().expr() else {
            return Err(DataFusionError::Internal("one column is grouped by".to_owned()));
        };
        let keys = key.evaluate(batch)?.into_array(batch.num_rows())?;
        if !self.groups.of(keys.as_string_view(), &mut self.rows) {
            return Ok(false);
        }
        let filters = self.aggregate.filter_expr();
        for ((function, arguments), filter) in self.functions.iter_mut().zip(&self.arguments).zip(filters) {
            let evaluate = |of: &Arc<dyn PhysicalExpr>| of.evaluate(batch)?.into_array(batch.num_rows());
            let values = arguments.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
            let filter = filter.as_ref().map(evaluate).transpose()?;
            let filter = filter.as_ref().map(|filter| filter.as_boolean() as &BooleanArray);
            function.update_batch(&values, &self.rows, filter, self.groups.count())?;
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        let functions: usize = self.functions.iter().map(|function| function.size()).sum();
        functions + self.groups.bytes() + self.rows.capacity() * size_of::<usize>()
    }

    /// Emits the partial aggregates of the groups so far to the second stage; none without groups.
    fn emit_partial(&mut self) -> Result<Option<RecordBatch>> {
        if self.groups.count() == 0 {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.groups.texts())];
        for function in &mut self.functions {
            columns.extend(function.state(EmitTo::All)?);
        }
        let batch = RecordBatch::try_new(self.aggregate.schema(), columns)?;
        self.metrics.record_output(batch.num_rows());
        Ok(Some(batch))
    }
}

/// Texts, and a number for each from 0 on.
struct Groups {
    /// Views with their groups; an empty place has [`NONE`].
    places: Vec<(u128, u32)>,
    /// Places that are not empty.
    used: Vec<u16>,
    /// Buffers of the longer texts: with another buffer, the same view means another text.
    buffers: Vec<Buffer>,
    by_text: HashMap<Arc<str>, u32>,
    /// The text of each group; none is null.
    texts: Vec<Option<Arc<str>>>,
    null: Option<u32>,
    bytes: usize,
}

const NONE: u32 = u32::MAX;
const _: () = assert!(PLACES <= 1 << 16 && PLACES.is_power_of_two());

impl Groups {
    fn new() -> Groups {
        Groups {
            places: vec![(0, NONE); PLACES],
            used: Vec::new(),
            buffers: Vec::new(),
            by_text: HashMap::new(),
            texts: Vec::new(),
            null: None,
            bytes: 0,
        }
    }

    fn count(&self) -> usize {
        self.texts.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.places.capacity() * size_of::<(u128, u32)>()
    }

    fn texts(&self) -> StringViewArray {
        self.texts.iter().map(Option::as_deref).collect()
    }

    /// The group of each row. False where there are too many; then there are as many groups as before.
    fn of(&mut self, texts: &StringViewArray, rows: &mut Vec<usize>) -> bool {
        self.reset_on_new_buffers(texts.data_buffers());
        let before = self.count();
        rows.clear();
        rows.reserve(texts.len());
        let has_nulls = texts.null_count() > 0;
        for (row, view) in texts.views().iter().enumerate() {
            let group = match has_nulls && texts.is_null(row) {
                true => Some(self.of_null()),
                false => self.of_view(*view, texts, row),
            };
            let Some(group) = group else {
                self.forget_from(before);
                return false;
            };
            rows.push(group as usize);
        }
        true
    }

    /// Forgets the views if they are of other buffers.
    fn reset_on_new_buffers(&mut self, buffers: &[Buffer]) {
        let is_same = buffers.len() == self.buffers.len()
            && buffers.iter().zip(&self.buffers).all(|(a, b)| a.as_ptr() == b.as_ptr() && a.len() == b.len());
        if is_same {
            return;
        }
        // The buffers are retained, so that no other buffer can have their address.
        self.buffers = buffers.to_vec();
        for place in self.used.drain(..) {
            self.places[usize::from(place)] = (0, NONE);
        }
    }

    #[inline]
    fn of_view(&mut self, view: u128, texts: &StringViewArray, row: usize) -> Option<u32> {
        let mixed = (view as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ ((view >> 64) as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let first = (mixed >> (64 - PLACES.trailing_zeros())) as usize;
        for tried in 0..PLACES_TRIED_MAX {
            let place = (first + tried) % PLACES;
            let (known, group) = self.places[place];
            if group == NONE {
                return self.intern(view, place, texts.value(row));
            }
            if known == view {
                return Some(group);
            }
        }
        None
    }

    #[cold]
    fn intern(&mut self, view: u128, place: usize, text: &str) -> Option<u32> {
        if self.used.len() >= VIEWS_MAX {
            return None;
        }
        let group = match self.by_text.get(text) {
            Some(group) => *group,
            None if self.count() >= GROUPS_MAX => return None,
            None => {
                let (text, group) = (Arc::<str>::from(text), self.count() as u32);
                self.bytes += 64 + text.len();
                self.texts.push(Some(Arc::clone(&text)));
                self.by_text.insert(text, group);
                group
            }
        };
        self.places[place] = (view, group);
        self.used.push(place as u16);
        Some(group)
    }

    fn of_null(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            self.texts.push(None);
            self.texts.len() as u32 - 1
        })
    }

    fn forget_from(&mut self, count: usize) {
        self.texts.truncate(count);
        self.null = self.null.filter(|group| (*group as usize) < count);
        self.by_text.retain(|_, group| (*group as usize) < count);
    }
}

/// The rest of an input, as a plan that is executed once.
struct RemainingInput {
    schema: SchemaRef,
    input: Mutex<Option<SendableRecordBatchStream>>,
}

impl RemainingInput {
    fn plan(input: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let rest = RemainingInput { schema: Arc::clone(&schema), input: Mutex::new(Some(input)) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(rest)], None, [], false, None)?))
    }
}

impl fmt::Debug for RemainingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemainingInput").finish_non_exhaustive()
    }
}

impl PartitionStream for RemainingInput {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let twice = || DataFusionError::Internal("what is left of an input is read once".to_owned());
        input.unwrap_or_else(|| {
            let error = stream::iter([Err(twice())]);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), error))
        })
    }
}
