//! Plans as messages to other machines.
//!
//! The library's codec writes DataFusion's operators and its own, and calls [`PlanCodec`] for those of this room. It does not call it
//! for functions, so [`SendingCodec`] does; what it writes has the form that the library's reader expects. Some parts of a plan
//! are left out and made anew by the receiver: short comparisons ([`crate::short_string_compare`]), and the reader of stored files,
//! which [`StoredFiles`] knows.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_err, internal_datafusion_err, not_impl_err};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use datafusion_distributed::DistributedCodec;
use datafusion_proto::bytes::physical_plan_to_bytes_with_proto_converter;
use datafusion_proto::physical_plan::to_proto::serialize_partitioning;
use datafusion_proto::physical_plan::{
    ComposedPhysicalExtensionCodec, DeduplicatingProtoConverter, PhysicalExtensionCodec,
    PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use super::StoredFiles;
use super::functions::{AggregateMessage, FunctionMessage, Functions};
use super::pinned::{PinnedExec, PinnedMessage, PinnedPlans};
use crate::dictionary_group_by::FewGroupsExec;
use crate::short_string_compare::{ShortStringCompare, without_short_compares};
use crate::sliced::SlicedExec;
use crate::spill_rules::RunOnceExec;
use crate::without_constants::{Hidden, PlainExec};

/// The place of [`PlanCodec`] behind the library's own codec.
const PLACE: u32 = 1;

/// Reads and writes the operators and functions of this room.
pub(super) struct PlanCodec {
    pub(super) functions: Functions,
    pub(super) files: Option<Arc<dyn StoredFiles>>,
    pub(super) pinned: Arc<PinnedPlans>,
}

impl fmt::Debug for PlanCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCodec").finish_non_exhaustive()
    }
}

/// An operator of this room. Its inputs are beside it.
#[derive(Clone, PartialEq, Message)]
struct OperatorMessage {
    #[prost(oneof = "OperatorForm", tags = "1, 2, 3, 4, 5, 6")]
    form: Option<OperatorForm>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OperatorForm {
    /// The aggregate that [`FewGroupsExec`] replaces, over an empty input.
    #[prost(message, tag = "1")]
    FewGroups(Box<PhysicalPlanNode>),
    /// The rows of a slice.
    #[prost(uint64, tag = "2")]
    Sliced(u64),
    #[prost(message, tag = "3")]
    RunOnce(()),
    /// The number of what is hidden.
    #[prost(uint32, tag = "4")]
    Plain(u32),
    #[prost(message, tag = "5")]
    Pinned(PinnedMessage),
    #[prost(message, tag = "6")]
    StoredFiles(Box<StoredFilesMessage>),
}

/// A scan of stored files.
#[derive(Clone, PartialEq, Message)]
struct StoredFilesMessage {
    /// DataFusion's message of it.
    #[prost(message, optional, boxed, tag = "1")]
    scan: Option<Box<PhysicalPlanNode>>,
    /// The parts that DataFusion's message lacks.
    #[prost(bytes = "vec", tag = "2")]
    files: Vec<u8>,
}

/// The message of a function or aggregate with the place of the codec that reads it, as the library's reader expects.
#[derive(Clone, PartialEq, Message)]
struct PlacedMessage {
    #[prost(uint32, tag = "1")]
    place: u32,
    #[prost(bytes = "vec", tag = "2")]
    message: Vec<u8>,
}

fn hidden_number(hidden: Hidden) -> u32 {
    match hidden {
        Hidden::Nothing => 0,
        Hidden::Order => 1,
        Hidden::Constants => 2,
        Hidden::Everything => 3,
    }
}

fn hidden_of(number: u32) -> Result<Hidden> {
    Ok(match number {
        0 => Hidden::Nothing,
        1 => Hidden::Order,
        2 => Hidden::Constants,
        3 => Hidden::Everything,
        other => return exec_err!("a plan hides {other}, which this machine does not know"),
    })
}

fn only(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        other => exec_err!("an operator of one input has {}", other.len()),
    }
}

fn unreadable(error: &prost::DecodeError) -> DataFusionError {
    internal_datafusion_err!("a plan of another machine cannot be read: {error}")
}

impl PlanCodec {
    /// The bytes of a plan.
    pub(super) fn encode(self: &Arc<Self>, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
        let plan = plan.transform_up(|node| {
            check_limits(&node)?;
            let node = without_short_compares(node)?;
            node.transform_data(|node| Ok(self.for_sending(node)))
        });
        let (codec, converter) = (SendingCodec::new(self), DeduplicatingProtoConverter::default());
        physical_plan_to_bytes_with_proto_converter(plan.data()?, &codec, &converter)
            .map(|bytes| bytes.to_vec())
    }

    /// The bytes of a partitioning.
    pub(super) fn encode_partitioning(self: &Arc<Self>, partitioning: &Partitioning) -> Result<Vec<u8>> {
        let (codec, converter) = (SendingCodec::new(self), DeduplicatingProtoConverter::default());
        Ok(serialize_partitioning(partitioning, &codec, &converter)?.encode_to_vec())
    }

    fn for_sending(&self, node: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
        let is_of_files = self.files.is_some() && scan_of_files(&node).is_some();
        match is_of_files {
            true => Transformed::yes(Arc::new(StoredFilesExec(node))),
            false => Transformed::no(node),
        }
    }

    fn form(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<OperatorForm> {
        Ok(if let Some(few) = node.downcast_ref::<FewGroupsExec>() {
            let empty = Arc::new(EmptyExec::new(few.aggregate.input().schema()));
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            let aggregate = Arc::new(few.aggregate.clone()).replace_children(vec![empty], options)?;
            OperatorForm::FewGroups(Box::new(converter.execution_plan_to_proto(&aggregate, codec)?))
        } else if let Some(sliced) = node.downcast_ref::<SlicedExec>() {
            OperatorForm::Sliced(sliced.rows as u64)
        } else if node.is::<RunOnceExec>() {
            OperatorForm::RunOnce(())
        } else if let Some(plain) = node.downcast_ref::<PlainExec>() {
            OperatorForm::Plain(hidden_number(plain.hidden))
        } else if let Some(pinned) = node.downcast_ref::<PinnedExec>() {
            OperatorForm::Pinned(pinned.message()?)
        } else if let (Some(scan), Some(files)) = (node.downcast_ref::<StoredFilesExec>(), &self.files) {
            let Some(config) = scan_of_files(&scan.0) else {
                return exec_err!("a scan of files has none");
            };
            // The receiver reads its own store. A URL that each machine knows stands for it.
            let mut of_any = config.clone();
            of_any.object_store_url = ObjectStoreUrl::local_filesystem();
            let of_any: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(of_any);
            let message = StoredFilesMessage {
                scan: Some(Box::new(converter.execution_plan_to_proto(&of_any, codec)?)),
                files: files.encode(config)?,
            };
            OperatorForm::StoredFiles(Box::new(message))
        } else {
            return not_impl_err!("operator `{}` runs on one machine only", node.name());
        })
    }
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message = OperatorMessage::decode(buf).map_err(|error| unreadable(&error))?;
        let plan = |node: &PhysicalPlanNode| {
            let codec = DistributedCodec::new_combined_with_user(ctx.session_config());
            converter.proto_to_execution_plan(node, &PhysicalPlanDecodeContext::new(ctx, &codec))
        };
        Ok(match message.form {
            None => return exec_err!("a plan has an operator that this machine does not know"),
            Some(OperatorForm::FewGroups(node)) => {
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                let aggregate = plan(&node)?.replace_children(vec![only(inputs)?], options)?;
                match aggregate.downcast_ref::<AggregateExec>() {
                    Some(aggregate) => Arc::new(FewGroupsExec::new(aggregate.clone())),
                    None => return exec_err!("a grouping has no aggregate"),
                }
            }
            Some(OperatorForm::Sliced(rows)) => {
                let rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
                Arc::new(SlicedExec { input: only(inputs)?, rows })
            }
            Some(OperatorForm::RunOnce(())) => Arc::new(RunOnceExec::new(only(inputs)?)),
            Some(OperatorForm::Plain(number)) => Arc::new(PlainExec::new(only(inputs)?, hidden_of(number)?)),
            Some(OperatorForm::Pinned(message)) => PinnedExec::read(message, &self.pinned)?,
            Some(OperatorForm::StoredFiles(message)) => {
                let StoredFilesMessage { scan, files: bytes } = *message;
                let (Some(scan), Some(files)) = (scan, &self.files) else {
                    return exec_err!("this machine has no store for tables");
                };
                let scan = plan(&scan)?;
                let Some(config) = scan_of_files(&scan) else {
                    return exec_err!("a scan of stored files is none of files");
                };
                DataSourceExec::from_data_source(files.decode(&bytes, config.clone(), &ctx.runtime_env())?)
            }
        })
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        write(&OperatorMessage { form: Some(self.form(&node, self, converter)?) }, buf)
    }

    fn try_decode_udf(&self, _name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.functions.function(FunctionMessage::decode(buf).map_err(|error| unreadable(&error))?)
    }

    fn try_decode_udaf(&self, _name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.functions.aggregate(AggregateMessage::decode(buf).map_err(|error| unreadable(&error))?)
    }
}

fn write(message: &impl Message, buf: &mut Vec<u8>) -> Result<()> {
    message.encode(buf).map_err(|error| internal_datafusion_err!("a plan cannot be written: {error}"))
}

/// Writes plans as the codecs of the receiver read them.
#[derive(Debug)]
struct SendingCodec {
    ours: Arc<PlanCodec>,
    library: ComposedPhysicalExtensionCodec,
}

impl SendingCodec {
    fn new(ours: &Arc<PlanCodec>) -> SendingCodec {
        let library = ComposedPhysicalExtensionCodec::new(vec![Arc::new(DistributedCodec)]);
        SendingCodec { ours: Arc::clone(ours), library }
    }
}

fn placed(message: &impl Message, buf: &mut Vec<u8>) -> Result<()> {
    write(&PlacedMessage { place: PLACE, message: message.encode_to_vec() }, buf)
}

impl PhysicalExtensionCodec for SendingCodec {
    fn try_decode(
        &self,
        _buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("plans are read by the receiver")
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if self.library.try_encode(Arc::clone(&node), buf, converter).is_ok() {
            return Ok(());
        }
        buf.clear();
        placed(&OperatorMessage { form: Some(self.ours.form(&node, self, converter)?) }, buf)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        placed(&self.ours.functions.message(function)?, buf)
    }

    fn try_encode_udaf(&self, aggregate: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        placed(&self.ours.functions.aggregate_message(aggregate)?, buf)
    }
}

/// Refuses limits of which DataFusion's messages have the lower 32 bits only.
fn check_limits(node: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let scan = node.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let scan = scan.and_then(|source| source.downcast_ref::<FileScanConfig>());
    let skip = node.downcast_ref::<GlobalLimitExec>().map(GlobalLimitExec::skip);
    let limits = [node.fetch(), skip, scan.and_then(|scan| scan.limit)];
    match limits.into_iter().flatten().find(|limit| u32::try_from(*limit).is_err()) {
        Some(limit) => not_impl_err!("a LIMIT or OFFSET of {limit} runs on one machine only"),
        None => Ok(()),
    }
}

/// The scan of Parquet files; none of another operator.
fn scan_of_files(node: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let config = node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    config.file_source().downcast_ref::<ParquetSource>().map(|_| config)
}

/// A scan of stored files on its way to another machine, where it is a scan again.
#[derive(Debug)]
struct StoredFilesExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for StoredFilesExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(form, f)
    }
}

impl ExecutionPlan for StoredFilesExec {
    fn name(&self) -> &'static str {
        "StoredFilesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// Puts back what a plan lost on its way.
pub(super) fn received(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    ShortStringCompare.optimize(plan, options)
}
