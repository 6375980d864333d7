//! Provides a table to SQL: the files of one version, and after them the rows that wait for their commit, as one snapshot.
//!
//! Files are pruned by their statistics and partitions, and by companions where a filter is a search; within files, DataFusion
//! prunes row groups and pages. The plan above checks the filters again, so pruning is all that happens here.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion_catalog::{Session, TableProvider};
use datafusion_common::{
    Column, DFSchema, DataFusionError, Result, ScalarValue, Statistics, pruning::PruningStatistics,
    stats::Precision,
};
use datafusion_datasource::{
    PartitionedFile, TableSchema, compute_all_files_statistics, file_groups::FileGroup,
    file_scan_config::FileScanConfigBuilder, memory::MemorySourceConfig, source::DataSourceExec,
};
use datafusion_datasource_parquet::{
    CachedParquetFileReaderFactory, ParquetRowSelection, source::ParquetSource,
};
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction};
use datafusion_physical_plan::{ExecutionPlan, empty::EmptyExec, union::UnionExec};
use datafusion_pruning::PruningPredicateBuilder;
use object_store::ObjectMeta;

use crate::{
    checksums::CheckedReaders,
    companions::{Companions, FileRows},
    layout::Layout,
    load::TableLocation,
    table_version::FileEntry,
};

/// The end of a file that is read first: its footer, and usually its page index.
const FOOTER_BYTES: usize = 256 << 10;

/// Average bytes on disk of a batch of rows with texts, lists or the like: DataFusion counts the rows of a batch, not their
/// bytes, and a thousand events may be a gigabyte.
const BATCH_BYTES: u64 = 16 << 20;
/// Size from which a file counts for the estimate of rows' sizes.
const LARGE_BYTES: u64 = 1 << 20;

/// One snapshot of one table.
pub(crate) struct Snapshot {
    pub(crate) place: TableLocation,
    /// The URL of the store for DataFusion.
    pub(crate) url: ObjectStoreUrl,
    /// The present schema of the table; files may have fewer columns.
    pub(crate) layout: Layout,
    pub(crate) files: Vec<Arc<FileEntry>>,
    /// Conforms to the layout.
    pub(crate) tail: Vec<RecordBatch>,
    pub(crate) companions: Arc<Companions>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("table", &self.place.table)
            .field("files", &self.files.len())
            .field("tail", &self.tail.len())
            .finish_non_exhaustive()
    }
}

/// Statistics of files, side by side.
struct Bounds<'a> {
    files: &'a [Arc<FileEntry>],
    schema: &'a SchemaRef,
}

impl Bounds<'_> {
    fn column(
        &self,
        column: &Column,
        of: impl Fn(&Statistics, usize) -> Precision<ScalarValue>,
    ) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        let unknown = ScalarValue::try_from(self.schema.field(index).data_type()).ok()?;
        let values = self.files.iter().map(|file| match of(&file.statistics, index) {
            Precision::Exact(value) | Precision::Inexact(value) => value,
            Precision::Absent => unknown.clone(),
        });
        ScalarValue::iter_to_array(values).ok()
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |statistics, index| statistics.column_statistics[index].min_value.clone())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column, |statistics, index| statistics.column_statistics[index].max_value.clone())
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        let count = |file: &Arc<FileEntry>| match file.statistics.column_statistics[index].null_count {
            Precision::Exact(count) => Some(count as u64),
            _ => None,
        };
        Some(Arc::new(self.files.iter().map(count).collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.files.iter().map(|file| file.rows).collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &std::collections::HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

impl Snapshot {
    /// The files that may hold rows for which the filters are true.
    fn pruned(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<Arc<FileEntry>>> {
        let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(self.files.clone()) };
        let schema = DFSchema::try_from(Arc::clone(&self.layout.schema))?;
        let filter = state.create_physical_expr(filter, &schema)?;
        // A filter that says nothing about bounds cannot leave anything out.
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.layout.schema));
        let Ok(predicate) = builder.try_build(filter) else { return Ok(self.files.clone()) };
        let may_match = predicate.prune(&Bounds { files: &self.files, schema: &self.layout.schema })?;
        let files = self.files.iter().zip(may_match).filter(|(_, may_match)| *may_match);
        Ok(files.map(|(file, _)| Arc::clone(file)).collect())
    }

    fn files_plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        files: Vec<(Arc<FileEntry>, FileRows)>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (files, rows_of_files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        state.runtime_env().register_object_store(self.url.as_ref(), Arc::clone(&self.place.store));
        let table_schema = TableSchema::builder(self.layout.file_schema())
            .with_table_partition_cols(self.layout.partition_fields().to_vec())
            .build();
        let rows = self.rows_at_once(state.config().batch_size(), projection, &files);
        let store = Arc::new(self.place.checked(&files));
        let files: Vec<PartitionedFile> =
            files.iter().zip(rows_of_files).map(|(file, rows)| self.partitioned(file, rows)).collect();
        let groups = FileGroup::new(files).split_files(state.config().target_partitions().max(1));
        let (groups, statistics) =
            compute_all_files_statistics(groups, Arc::clone(&self.layout.schema), true, false)?;
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let reader = CheckedReaders(CachedParquetFileReaderFactory::new(store, cache));
        let source = ParquetSource::new(table_schema)
            .with_table_parquet_options(state.table_options().parquet.clone())
            .with_metadata_size_hint(FOOTER_BYTES)
            .with_parquet_file_reader_factory(Arc::new(reader));
        let config = FileScanConfigBuilder::new(self.url.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_batch_size(Some(rows))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// Rows of a batch that is read: `most`, or fewer where rows are large.
    fn rows_at_once(&self, most: usize, projection: Option<&Vec<usize>>, files: &[Arc<FileEntry>]) -> usize {
        let fields = self.layout.schema.fields();
        let is_of_fixed_size = |index: usize| {
            let ty = fields[index].data_type();
            ty.is_primitive() || *ty == DataType::Boolean
        };
        let all_are = match projection {
            Some(columns) => columns.iter().all(|column| is_of_fixed_size(*column)),
            None => (0..fields.len()).all(is_of_fixed_size),
        };
        if all_are {
            return most;
        }
        // The footer is the largest part of a small file.
        let large = files.iter().filter(|file| file.add.size >= LARGE_BYTES);
        let a_row = large.filter_map(|file| Some(file.add.size / file.rows.filter(|rows| *rows > 0)?)).max();
        usize::try_from(BATCH_BYTES / a_row.unwrap_or(0).max(1)).unwrap_or(most).clamp(1, most.max(1))
    }

    fn partitioned(&self, file: &FileEntry, rows: FileRows) -> PartitionedFile {
        let location = file.add.path.split('/').fold(self.place.root(), |path, part| path.join(part));
        let modified = std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(file.add.modification_time.max(0) as u64);
        let meta = ObjectMeta {
            location,
            last_modified: modified.into(),
            size: file.add.size,
            e_tag: None,
            version: None,
        };
        let mut partitioned = PartitionedFile::new_from_meta(meta);
        partitioned.partition_values = file.partition.clone();
        // Set as they are: they cover the partition columns already, nulls among them.
        partitioned.statistics = Some(Arc::clone(&file.statistics));
        match rows {
            FileRows::Some(selection) => {
                // Statistics of all its rows, not only of those that are read.
                partitioned.statistics = Some(Arc::new(file.statistics.as_ref().clone().to_inexact()));
                partitioned.with_extension(ParquetRowSelection::new(selection))
            }
            FileRows::All | FileRows::None => partitioned,
        }
    }
}

#[async_trait]
impl TableProvider for Snapshot {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.layout.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.pruned(state, filters)?;
        let rows = self.companions.select(&self.place, &files, filters).await;
        let rows = rows.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let files: Vec<(Arc<FileEntry>, FileRows)> =
            files.into_iter().zip(rows).filter(|(_, rows)| *rows != FileRows::None).collect();
        let mut plans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        if !files.is_empty() {
            // With a filter, more rows than the limit must be read to find as many.
            plans.push(self.files_plan(state, projection, files, limit.filter(|_| filters.is_empty()))?);
        }
        if !self.tail.is_empty() {
            let schema = Arc::clone(&self.layout.schema);
            let tail =
                MemorySourceConfig::try_new(std::slice::from_ref(&self.tail), schema, projection.cloned())?
                    .with_show_sizes(false);
            plans.push(DataSourceExec::from_data_source(tail));
        }
        if plans.is_empty() {
            let schema = match projection {
                Some(indices) => Arc::new(self.layout.schema.project(indices)?),
                None => Arc::clone(&self.layout.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        UnionExec::try_new(plans)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}

/// The URL of a store for DataFusion: stores of one process have different numbers.
pub(crate) fn store_url(number: u64) -> datafusion_common::Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(format!("swiftwater://store-{number}"))
}
