//! Provides a table to SQL: the files of one version, and after them the rows that wait for their commit, as one snapshot.
//!
//! Files are pruned by their statistics and partitions, and by companions where a filter is a search; within files, DataFusion
//! prunes row groups and pages. The plan above checks the filters again, but for those that a table with companions applies
//! itself ([`crate::applied`]): files of which they are proven are read without them.

use std::{collections::BTreeMap, fmt, sync::Arc};

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
use object_store::{ObjectMeta, path::Path};
use swiftwater_text::{IndexQuery, IndexedFiles};

use crate::{
    applied::{AppliedFilter, AppliedKind, filtered, has_no_nulls, read_columns},
    checksums::CheckedReaders,
    companions::{CompanionFormat, Companions, FileRows, FileSelection},
    layout::Layout,
    load::TableLocation,
    scan_message::FileChecksums,
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
    /// The format of companions as of the snapshot.
    pub(crate) format: Option<Arc<dyn CompanionFormat>>,
}

/// The files of a snapshot that a scan reads, by the numbers of the applied filters that are not proven of them.
type FilesByFilters = BTreeMap<Vec<usize>, Vec<(Arc<FileEntry>, FileRows)>>;

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
        let may_match = self.may_match(state, filter, &self.files)?;
        let files = self.files.iter().zip(may_match).filter(|(_, may_match)| *may_match);
        Ok(files.map(|(file, _)| Arc::clone(file)).collect())
    }

    /// By file, whether a filter may be true for a row of it, by its bounds.
    fn may_match(&self, state: &dyn Session, filter: Expr, files: &[Arc<FileEntry>]) -> Result<Vec<bool>> {
        let schema = DFSchema::try_from(Arc::clone(&self.layout.schema))?;
        let filter = state.create_physical_expr(filter, &schema)?;
        // A filter that says nothing about bounds cannot leave anything out.
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.layout.schema));
        let Ok(predicate) = builder.try_build(filter) else { return Ok(vec![true; files.len()]) };
        predicate.prune(&Bounds { files, schema: &self.layout.schema })
    }

    /// The filters that this scan applies itself. Also those that a plan was not promised: to apply one twice does no harm.
    fn applied(&self, filters: &[Expr]) -> Vec<AppliedFilter> {
        let Some(format) = &self.format else { return Vec::new() };
        let of = |filter: &Expr| AppliedFilter::of(filter, &**format, &self.layout.schema);
        filters.iter().filter_map(of).collect()
    }

    /// The files that are read, with the filters that must be applied to each.
    async fn files_by_filters(
        &self,
        state: &dyn Session,
        filters: &[Expr],
        applied: &[AppliedFilter],
    ) -> Result<FilesByFilters> {
        let files = self.pruned(state, filters)?;
        let mut proven = vec![vec![false; applied.len()]; files.len()];
        for (number, filter) in applied.iter().enumerate() {
            if let AppliedKind::Bounds { column, opposite } = &filter.kind {
                let may_be = self.may_match(state, opposite.clone(), &files)?;
                for ((file, proven), may_be) in files.iter().zip(&mut proven).zip(may_be) {
                    proven[number] = !may_be && has_no_nulls(file, &self.layout.schema, *column);
                }
            }
        }
        let selected = self.selected(&files, filters, applied).await?;
        if let Some(indexed) = state.config().get_extension::<IndexedFiles>() {
            let answered = files.iter().zip(&selected).filter(|(_, selected)| selected.is_indexed);
            indexed.extend(answered.map(|(file, _)| self.location(file).to_string()));
        }
        let mut by_filters = FilesByFilters::new();
        for ((file, selected), proven) in files.into_iter().zip(selected).zip(proven) {
            let is_proven = |number: &usize| match applied[*number].kind {
                AppliedKind::Search(_) => selected.is_exact,
                AppliedKind::Bounds { .. } => proven[*number],
            };
            if selected.rows != FileRows::None {
                let left = (0..applied.len()).filter(|number| !is_proven(number)).collect();
                by_filters.entry(left).or_default().push((file, selected.rows));
            }
        }
        Ok(by_filters)
    }

    /// The rows of each file that companions select.
    async fn selected(
        &self,
        files: &[Arc<FileEntry>],
        filters: &[Expr],
        applied: &[AppliedFilter],
    ) -> Result<Vec<FileSelection>> {
        let searches: Vec<IndexQuery> = applied
            .iter()
            .filter_map(|filter| match &filter.kind {
                AppliedKind::Search(query) => Some(query.clone()),
                AppliedKind::Bounds { .. } => None,
            })
            .collect();
        let all = |queries: Vec<IndexQuery>| match queries.is_empty() {
            true => IndexQuery::Everything,
            false => IndexQuery::All(queries),
        };
        let Some(format) = &self.format else { return Ok(vec![FileSelection::ALL; files.len()]) };
        // Searches beside other conditions, which the plan above evaluates, select rows, too.
        let others = filters.iter().filter_map(|filter| format.query(filter, &self.layout.schema));
        let others: Vec<IndexQuery> = others.filter(|query| !searches.contains(query)).collect();
        if searches.is_empty() && others.is_empty() {
            return Ok(vec![FileSelection::ALL; files.len()]);
        }
        let queries = [all(searches), all(others)];
        let selected = self.companions.select(format, &self.place, files, queries).await;
        selected.map_err(|error| DataFusionError::External(Box::new(error)))
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

    fn location(&self, file: &FileEntry) -> Path {
        file.add.path.split('/').fold(self.place.root(), |path, part| path.join(part))
    }

    fn partitioned(&self, file: &FileEntry, rows: FileRows) -> PartitionedFile {
        let modified = std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(file.add.modification_time.max(0) as u64);
        let meta = ObjectMeta {
            location: self.location(file),
            last_modified: modified.into(),
            size: file.add.size,
            e_tag: None,
            version: None,
        };
        let mut partitioned = PartitionedFile::new_from_meta(meta);
        partitioned.partition_values = file.partition.clone();
        // Set as they are: they cover the partition columns already, nulls among them.
        partitioned.statistics = Some(Arc::clone(&file.statistics));
        partitioned = partitioned.with_extension(FileChecksums(file.checksums.clone()));
        match rows {
            FileRows::Some(selection) => {
                // Bounds are those of all its rows, not of those that are read.
                let mut statistics = file.statistics.as_ref().clone().to_inexact();
                statistics.num_rows = Precision::Exact(selection.row_count());
                partitioned.statistics = Some(Arc::new(statistics));
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
        let applied = self.applied(filters);
        let schema = &self.layout.schema;
        let columns = projection.map_or(schema.fields().len(), Vec::len);
        let by_filters = self.files_by_filters(state, filters, &applied).await?;
        let mut plans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for (left, files) in by_filters {
            let left: Vec<&Expr> = left.iter().map(|number| &applied[*number].filter).collect();
            // With a filter that is evaluated, more rows than the limit must be read to find as many.
            let limit = limit.filter(|_| left.is_empty() && applied.len() == filters.len());
            plans.push(match left.as_slice() {
                [] => self.files_plan(state, projection, files, limit)?,
                left => {
                    let read = read_columns(projection, left, schema)?;
                    filtered(state, self.files_plan(state, Some(&read), files, None)?, left, columns)?
                }
            });
        }
        if !self.tail.is_empty() {
            let all: Vec<&Expr> = applied.iter().map(|applied| &applied.filter).collect();
            let read = match all.as_slice() {
                [] => projection.cloned(),
                all => Some(read_columns(projection, all, schema)?),
            };
            let tail =
                MemorySourceConfig::try_new(std::slice::from_ref(&self.tail), Arc::clone(schema), read)?
                    .with_show_sizes(false);
            plans.push(filtered(state, DataSourceExec::from_data_source(tail), &all, columns)?);
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
        let is_applied = |filter: &Expr| {
            let format = self.format.as_ref();
            format.is_some_and(|format| AppliedFilter::of(filter, &**format, &self.layout.schema).is_some())
        };
        let of = |filter: &&Expr| match is_applied(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(of).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}

/// The URL of a store for DataFusion: stores of one process have different numbers.
pub(crate) fn store_url(number: u64) -> datafusion_common::Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(format!("swiftwater://store-{number}"))
}
