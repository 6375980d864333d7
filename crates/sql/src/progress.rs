//! The progress of a statement: how much its scans have read, of how much, and how many rows it has returned.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use swiftwater_text::IndexedFiles;

/// Counts of a run of statements, read at any time while it runs and after.
#[derive(Debug, Default)]
pub struct Progress {
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
    rows_total: AtomicU64,
    rows_returned: AtomicU64,
    finished: AtomicU64,
    /// Rows that the earlier statements read.
    rows_before: AtomicU64,
    bytes_before: AtomicU64,
    sources_before: Mutex<ScannedSources>,
    indexed_files: Arc<IndexedFiles>,
    tasks: Mutex<Vec<TaskReading>>,
    /// True once the plan has the counts of its tasks.
    has_tasks_counts: AtomicBool,
}

/// A part of a statement that runs on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReading {
    /// The number of its stage.
    pub stage: u32,
    /// Its number in the stage, from 0.
    pub task: u32,
    /// The address of its machine.
    pub node: Arc<str>,
    /// Rows that its scans have read, as of some half a second ago.
    pub rows_scanned: u64,
    /// Bytes that they have read from storage.
    pub bytes_scanned: u64,
}

/// The sources that the scans of a run read, after pruning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScannedSources {
    /// Paths of files, each once.
    pub files: BTreeSet<String>,
    /// Paths of the files whose search index selected their rows. Those of which no row was read are not among `files`.
    pub indexed_files: BTreeSet<String>,
    /// Rows in memory.
    pub memory_rows: u64,
}

/// A reading by [`Progress::read`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProgressReading {
    /// Rows that scans gave on, after what files told to be needless was skipped.
    pub rows_scanned: u64,
    /// Bytes that were read from storage.
    pub bytes_scanned: u64,
    /// Rows of the answer so far.
    pub rows_returned: u64,
    /// Rows scanned of the rows that the tables are known to have, as a share of 100; none if that is not known.
    /// For several statements, it is that of the present one. Skipped rows count when the statement ends.
    pub percent: Option<f64>,
}

impl Progress {
    /// The present progress. Costs a walk over the plan.
    pub fn read(&self) -> ProgressReading {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (rows, bytes) = plan.as_ref().map_or((0, 0), |plan| self.scanned_everywhere(plan.as_ref()));
        let total = self.rows_total.load(Ordering::Relaxed);
        let percent = if self.finished.load(Ordering::Relaxed) == 1 {
            Some(100.0)
        } else {
            (total > 0).then(|| (rows as f64 * 100.0 / total as f64).min(100.0))
        };
        ProgressReading {
            rows_scanned: rows + self.rows_before.load(Ordering::Relaxed),
            bytes_scanned: bytes + self.bytes_before.load(Ordering::Relaxed),
            rows_returned: self.rows_returned.load(Ordering::Relaxed),
            percent,
        }
    }

    /// The files and rows in memory that the scans of all statements so far read. Costs a walk over the plan.
    pub fn sources(&self) -> ScannedSources {
        let mut sources = self.sources_before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(plan) = plan {
            add_sources(plan.as_ref(), &mut sources);
        }
        sources.indexed_files = self.indexed_files.paths();
        sources
    }

    /// The parts of the present statement, or of the last one, that run on other machines, by stage and number.
    pub fn tasks(&self) -> Vec<TaskReading> {
        let mut tasks = self.lock_tasks().clone();
        tasks.sort_by_key(|task| (task.stage, task.task));
        tasks
    }

    fn lock_tasks(&self) -> std::sync::MutexGuard<'_, Vec<TaskReading>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of the statement is sent to another machine.
    #[cfg(feature = "distributed")]
    pub(crate) fn task_begun(&self, stage: u32, task: u32, node: &str) {
        let task = TaskReading { stage, task, node: node.into(), rows_scanned: 0, bytes_scanned: 0 };
        self.lock_tasks().push(task);
    }

    /// A part has read so much.
    #[cfg(feature = "distributed")]
    pub(crate) fn task_read(&self, stage: u32, task: u32, rows: u64, bytes: u64) {
        let mut tasks = self.lock_tasks();
        if let Some(task) = tasks.iter_mut().find(|found| (found.stage, found.task) == (stage, task)) {
            task.rows_scanned = task.rows_scanned.max(rows);
            task.bytes_scanned = task.bytes_scanned.max(bytes);
        }
    }

    /// The files that search indexes have answered, to which scans add.
    pub(crate) fn indexed_files(&self) -> &Arc<IndexedFiles> {
        &self.indexed_files
    }

    /// A plan begins; what the one before read is kept.
    pub(crate) fn begin(&self, plan: &Arc<dyn ExecutionPlan>) {
        self.accumulate();
        self.lock_tasks().clear();
        self.has_tasks_counts.store(false, Ordering::Relaxed);
        self.rows_total.store(rows_known(plan.as_ref()).unwrap_or(0), Ordering::Relaxed);
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(plan));
    }

    /// The plan that began, with the counts of all its tasks.
    #[cfg(feature = "distributed")]
    pub(crate) fn measured(&self, plan: Arc<dyn ExecutionPlan>) {
        let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = current.replace(plan) {
            let mut sources = self.sources_before.lock().unwrap_or_else(PoisonError::into_inner);
            add_sources(before.as_ref(), &mut sources);
        }
        self.has_tasks_counts.store(true, Ordering::Relaxed);
    }

    /// Records the end of all statements: the plans, and the files that they hold open, are released.
    pub(crate) fn finish(&self) {
        self.accumulate();
        self.finished.store(1, Ordering::Relaxed);
    }

    pub(crate) fn returned(&self, rows: usize) {
        self.rows_returned.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Rows and bytes that a plan has read, here and in its tasks.
    fn scanned_everywhere(&self, plan: &dyn ExecutionPlan) -> (u64, u64) {
        let here = scanned(plan);
        if self.has_tasks_counts.load(Ordering::Relaxed) {
            return here;
        }
        let tasks = self.lock_tasks();
        tasks.iter().fold(here, |(rows, bytes), task| (rows + task.rows_scanned, bytes + task.bytes_scanned))
    }

    fn accumulate(&self) {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plan.take() {
            let (rows, bytes) = self.scanned_everywhere(plan.as_ref());
            self.rows_before.fetch_add(rows, Ordering::Relaxed);
            self.bytes_before.fetch_add(bytes, Ordering::Relaxed);
            let mut sources = self.sources_before.lock().unwrap_or_else(PoisonError::into_inner);
            add_sources(plan.as_ref(), &mut sources);
        }
    }
}

/// Adds the sources of a plan's leaves.
fn add_sources(plan: &dyn ExecutionPlan, sources: &mut ScannedSources) {
    let children = plan.children();
    for child in &children {
        add_sources(child.as_ref(), sources);
    }
    #[cfg(feature = "distributed")]
    let plan = crate::distributed::leaf_of_all_tasks(plan);
    let Some(scan) = plan.downcast_ref::<DataSourceExec>().filter(|_| children.is_empty()) else { return };
    let source = scan.data_source();
    if let Some(files) = source.downcast_ref::<FileScanConfig>() {
        let files = files.file_groups.iter().flat_map(|group| group.files());
        sources.files.extend(files.map(|file| file.object_meta.location.to_string()));
    } else if let Some(memory) = source.downcast_ref::<MemorySourceConfig>() {
        let batches = memory.partitions().iter().flatten();
        sources.memory_rows += batches.map(|batch| batch.num_rows() as u64).sum::<u64>();
    }
}

/// Rows and bytes that the leaves of a plan have read so far.
pub(crate) fn scanned(plan: &dyn ExecutionPlan) -> (u64, u64) {
    let children = plan.children();
    if children.is_empty() {
        let Some(metrics) = plan.metrics() else {
            return (0, 0);
        };
        let bytes = metrics.sum_by_name("bytes_scanned").map_or(0, |value| value.as_usize());
        return (metrics.output_rows().unwrap_or(0) as u64, bytes as u64);
    }
    children.iter().map(|child| scanned(child.as_ref())).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
}

/// Rows that all leaves of a plan have, if each knows it.
fn rows_known(plan: &dyn ExecutionPlan) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok()?;
        return statistics.num_rows.get_value().map(|rows| *rows as u64);
    }
    children.iter().map(|child| rows_known(child.as_ref())).sum()
}
