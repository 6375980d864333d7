//! Companions: a file beside each data file of an indexed table, by which a scan reads only the rows that a search selects.
//!
//! ```text
//! part-1.parquet      _search/DEFINITION/part-1.parquet.idx
//! ```
//!
//! This room writes, lists, reads and deletes them as bytes; another one knows their format ([`CompanionFormat`]). A companion is
//! a function of its data file and of the definition, so it may be missing, damaged or deleted at any time: then its data file is
//! scanned, and maintenance builds it anew, newest file first. It is whole or not there, as the object store puts it under its
//! name at once. It goes with its data file, or when its definition has ended.
//!
//! When files are merged, the companion of the new file is merged from theirs, after the commit. The merges that are due are in
//! memory only: after a restart, these companions are built from their files. Until a merge is done, vacuum leaves its sources.
//!
//! Bounds: [`OPEN_MAX`] companions of a table are held open, and [`MERGES_MAX`] merges are due.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt, io,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow_array::ArrayRef;
use arrow_schema::Schema;
use datafusion_expr::Expr;
use futures_util::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use roaring::RoaringBitmap;
use swiftwater_text::{IndexKind, IndexQuery, ScoreStatistics, TableSearch};
use tokio::{runtime::Handle, sync::watch, time::Instant};
use tracing::warn;

use crate::{
    companion_build::CompanionWriter,
    error::{Result, StoreError},
    io_threads::run_blocking,
    load::TableLocation,
    table_version::{FileEntry, TableVersions},
};

/// The folder of companions in a table.
const FOLDER: &str = "_search";
/// The end of the name of a companion.
const ENDING: &str = ".idx";
/// Companions of a table that are held open.
const OPEN_MAX: usize = 4096;
/// Merges of companions that are due; for more, the companions of the oldest are built from their files.
const MERGES_MAX: usize = 64;
/// A file is read whole if more than one row in so many is selected and these must be evaluated.
const DENSE: u64 = 4;

/// The data file that a companion is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionFile {
    /// Its path in the table.
    pub path: Box<str>,
    /// Its size.
    pub bytes: u64,
    /// Its rows.
    pub rows: u32,
}

/// The format of companions, and the definition that they follow.
pub trait CompanionFormat: Send + Sync + fmt::Debug {
    /// The name of the definition: a part of a path. Companions of another definition are others.
    fn definition(&self) -> &str;
    /// The query of companions that a filter on a table with these columns contains, if it contains one.
    fn query(&self, filter: &Expr, schema: &Schema) -> Option<IndexQuery>;
    /// A builder for a data file of a table with these columns.
    fn builder(&self, schema: &Schema) -> Box<dyn CompanionBuilder>;
    /// Writes the companion of a data file from those of others: its rows are theirs, one behind the other. Returns false if that
    /// is not possible. Then, and after a fault, `out` is discarded, and the companion is built from the rows.
    fn merge(
        &self,
        schema: &Schema,
        sources: &[(Arc<dyn CompanionBytes>, CompanionFile)],
        file: &CompanionFile,
        out: &mut dyn io::Write,
    ) -> std::result::Result<bool, CompanionFault>;
    /// Opens a companion.
    fn open(
        &self,
        bytes: Arc<dyn CompanionBytes>,
        file: &CompanionFile,
    ) -> std::result::Result<Arc<dyn OpenCompanion>, CompanionFault>;
}

/// Builds a companion of the rows of a data file.
pub trait CompanionBuilder: Send {
    /// The places of the columns that it reads.
    fn places(&self) -> Vec<usize>;
    /// Adds rows: the columns of [`CompanionBuilder::places`], in their order.
    fn add(&mut self, arrays: &[ArrayRef], rows: usize) -> io::Result<()>;
    /// Writes the companion.
    fn finish(self: Box<Self>, file: &CompanionFile, out: &mut dyn io::Write) -> io::Result<()>;
}

/// A companion that can be asked.
pub trait OpenCompanion: Send + Sync + fmt::Debug {
    /// The rows that satisfy a query, as far as the companion knows.
    fn select(&self, query: &IndexQuery) -> std::result::Result<SelectedRows, CompanionFault>;
    /// The frequencies of a search's words in the rows; none if only the rows tell.
    fn statistics(
        &self,
        search: &TableSearch,
    ) -> std::result::Result<Option<ScoreStatistics>, CompanionFault>;
    /// Visits its columns with the number of rows that each has terms of.
    fn visit_columns(&self, visit: &mut dyn FnMut(&str, IndexKind, u64));
    /// Visits its terms.
    fn visit_terms(
        &self,
        visit: &mut dyn FnMut(CompanionTerm<'_>),
    ) -> std::result::Result<(), CompanionFault>;
}

/// A term of a companion.
#[derive(Debug, Clone, Copy)]
pub struct CompanionTerm<'t> {
    /// The column.
    pub column: &'t str,
    /// The kind that the column is indexed as.
    pub kind: IndexKind,
    /// Its key.
    pub key: &'t [u8],
    /// Bytes of its key, postings and positions.
    pub bytes: u64,
}

/// The rows that a companion selects.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedRows {
    /// Rows that may satisfy the query: all others do not.
    pub possible: RoaringBitmap,
    /// True if all of them do.
    pub is_exact: bool,
}

/// The bytes of a companion.
pub trait CompanionBytes: Send + Sync + fmt::Debug {
    /// The number of bytes.
    fn length(&self) -> usize;
    /// Reads some of them, all or an error. May wait for the store, so it is not called on threads that serve others.
    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>>;
}

/// The reason for which a companion gives no answer. Its data file is scanned.
#[derive(Debug)]
pub enum CompanionFault {
    /// Its bytes cannot be had now.
    Unavailable(String),
    /// It is damaged, or of something else: it is built anew.
    Unusable(String),
}

/// The progress of a table's companions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompanionStatus {
    /// Data files that have one.
    pub indexed_files: usize,
    /// Data files that wait for one.
    pub waiting_files: usize,
    /// Rows of the files that wait.
    pub waiting_rows: u64,
    /// The earliest time of their rows, in microseconds since 1970; none if the files do not tell.
    pub waiting_since_micros: Option<i64>,
    /// Companions that were found to be unusable, since the table was opened.
    pub unusable: u64,
    /// Rows of the companions that were built, since the table was opened.
    pub rows_built: u64,
    /// Microseconds that it took to build them.
    pub build_micros: u64,
}

/// The companions of a table.
#[derive(Debug, Default)]
pub(crate) struct Companions {
    state: Mutex<State>,
    /// Changes whenever a companion is built or found to be missing.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Unset until the owner of definitions has said whether there is one.
    format: Option<Option<Arc<dyn CompanionFormat>>>,
    /// The data files that have a companion; none until they have been listed.
    present: Option<HashSet<Box<str>>>,
    open: HashMap<Box<str>, Arc<dyn OpenCompanion>>,
    /// In the order in which they were opened.
    opened: VecDeque<Box<str>>,
    unusable: u64,
    rows_built: u64,
    build_micros: u64,
    /// The oldest first.
    merges: VecDeque<Merge>,
}

/// A companion that is to be merged from others.
#[derive(Debug, Clone)]
struct Merge {
    file: Box<str>,
    sources: Vec<CompanionFile>,
}

/// The part of a file that a scan reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FileRows {
    All,
    Some(RowSelection),
    None,
}

/// The rows of a file that a scan reads, as companions select them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FileSelection {
    pub(crate) rows: FileRows,
    /// True if the first of the queries is true of all of them.
    pub(crate) is_exact: bool,
    /// True if the file's companion answered.
    pub(crate) is_indexed: bool,
}

impl FileSelection {
    /// All rows, of which nothing is known.
    pub(crate) const ALL: FileSelection =
        FileSelection { rows: FileRows::All, is_exact: false, is_indexed: false };
}

/// Ends a search of companions whose statement has ended.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A companion in the store.
#[derive(Debug)]
pub(crate) struct ObjectBytes {
    store: Arc<dyn ObjectStore>,
    path: Path,
    length: usize,
    runtime: Handle,
}

impl ObjectBytes {
    /// Looks a companion up; may wait for the store.
    pub(crate) fn open(
        place: &TableLocation,
        path: Path,
        runtime: &Handle,
    ) -> std::result::Result<ObjectBytes, CompanionFault> {
        let length = match runtime.block_on(place.store.head(&path)) {
            Ok(found) => usize::try_from(found.size).unwrap_or(usize::MAX),
            Err(object_store::Error::NotFound { .. }) => {
                return Err(CompanionFault::Unusable("it is not there".to_owned()));
            }
            Err(error) => return Err(CompanionFault::Unavailable(error.to_string())),
        };
        Ok(ObjectBytes { store: Arc::clone(&place.store), path, length, runtime: runtime.clone() })
    }
}

impl CompanionBytes for ObjectBytes {
    fn length(&self) -> usize {
        self.length
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let range = range.start as u64..range.end as u64;
        let read = self.runtime.block_on(self.store.get_range(&self.path, range));
        Ok(read.map_err(from_object_store)?.to_vec())
    }
}

fn from_object_store(error: object_store::Error) -> io::Error {
    let kind = match error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl CompanionFile {
    /// The description of a data file; none if its rows are not known.
    fn of(file: &FileEntry) -> Option<CompanionFile> {
        let rows = u32::try_from(file.rows?).ok()?;
        Some(CompanionFile { path: file.add.path.as_str().into(), bytes: file.add.size, rows })
    }
}

/// True if a file of the table's folder is a companion.
pub(crate) fn is_companion(path: &str) -> bool {
    path.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// The folder of the companions of a definition, in the table.
fn folder(definition: &str) -> String {
    format!("{FOLDER}/{definition}/")
}

pub(crate) fn companion_path(place: &TableLocation, definition: &str, file: &str) -> Path {
    place.file(&format!("{}{file}{ENDING}", folder(definition)))
}

impl Companions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which companions the table has; none: it has none, and those that are there go.
    pub(crate) fn set_format(&self, format: Option<Arc<dyn CompanionFormat>>) {
        let mut state = self.state();
        let definition = |format: &Option<Arc<dyn CompanionFormat>>| {
            format.as_ref().map(|format| format.definition().to_owned())
        };
        if state.format.as_ref().is_none_or(|known| definition(known) != definition(&format)) {
            let State { unusable, rows_built, build_micros, .. } = *state;
            *state = State { unusable, rows_built, build_micros, ..State::default() };
        }
        state.format = Some(format);
        self.changes.send_replace(());
    }

    /// Waits for the next change of what [`Companions::status`] says.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn format(&self) -> Option<Arc<dyn CompanionFormat>> {
        self.state().format.clone().flatten()
    }

    /// Their progress. `time` is the place of the column of arrival times.
    pub(crate) fn status(&self, files: &[Arc<FileEntry>], time: Option<usize>) -> CompanionStatus {
        let state = self.state();
        let State { unusable, rows_built, build_micros, .. } = *state;
        let mut status = CompanionStatus { unusable, rows_built, build_micros, ..CompanionStatus::default() };
        let is_present = |file: &FileEntry| {
            state.present.as_ref().is_some_and(|present| present.contains(file.add.path.as_str()))
        };
        for file in files {
            if is_present(file) {
                status.indexed_files += 1;
            } else {
                status.waiting_files += 1;
                status.waiting_rows += file.rows.unwrap_or(0);
                let earliest = time.and_then(|time| file.times_micros(time)).map(|(earliest, _)| earliest);
                status.waiting_since_micros = earliest.into_iter().chain(status.waiting_since_micros).min();
            }
        }
        status
    }

    /// Builds the companions of some files again; answers how many there are.
    pub(crate) fn rebuild(&self, files: &[Arc<FileEntry>]) -> usize {
        let mut state = self.state();
        let State { present, open, merges, .. } = &mut *state;
        let Some(present) = present else { return 0 };
        // What was to be merged is built from its file as well.
        merges.clear();
        let known = files.iter().map(|file| file.add.path.as_str());
        let removed = known.filter(|path| present.remove(*path)).map(|path| open.remove(path)).count();
        self.changes.send_replace(());
        removed
    }

    /// True if companions are to be built, or to be looked for.
    pub(crate) fn is_work_left(&self, files: &[Arc<FileEntry>]) -> bool {
        let state = self.state();
        state.format.iter().flatten().next().is_some()
            && match &state.present {
                None => true,
                Some(present) => files.iter().any(|file| is_missing(present, file)),
            }
    }

    /// True if a file of the table's folder is a companion that is no longer needed. `is_kept` says so of data files.
    pub(crate) fn is_obsolete(&self, path: &str, is_kept: impl Fn(&str) -> bool) -> bool {
        let Some(rest) = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let definition = match &self.state().format {
            None => return false,
            Some(None) => return true,
            Some(Some(format)) => format.definition().to_owned(),
        };
        let file = rest.split_once('/').filter(|(of, _)| *of == definition).map(|(_, file)| file);
        let is_source = |file: &str| {
            let state = self.state();
            state.merges.iter().flat_map(|merge| &merge.sources).any(|source| *source.path == *file)
        };
        !file.and_then(|file| file.strip_suffix(ENDING)).is_some_and(|file| is_kept(file) || is_source(file))
    }

    /// The files of some that have no companion; none before it is known which have one.
    pub(crate) fn missing(&self, files: &[Arc<FileEntry>]) -> Vec<Arc<FileEntry>> {
        let state = self.state();
        let (Some(Some(_)), Some(present)) = (&state.format, &state.present) else { return Vec::new() };
        files.iter().filter(|file| is_missing(present, file)).cloned().collect()
    }

    /// Takes note that the rows of files are in others now, in their order: the companions of these are merged next. A file with
    /// rows of only a part of another one has its companion built.
    pub(crate) fn note_merged(&self, inputs: &[Arc<FileEntry>], outputs: &[Arc<FileEntry>]) {
        let mut state = self.state();
        if state.format.iter().flatten().next().is_none() {
            return;
        }
        let Some(inputs) = inputs.iter().map(|file| CompanionFile::of(file)).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let Some(outputs) = outputs.iter().map(|file| CompanionFile::of(file)).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let rows = |files: &[CompanionFile]| files.iter().map(|file| u64::from(file.rows)).sum::<u64>();
        if rows(&inputs) != rows(&outputs) {
            return;
        }
        for (file, sources) in outputs.iter().zip(sources_of(&outputs, &inputs)) {
            let Some(sources) = sources else { continue };
            // A source that waits for its own merge is replaced by the sources of that.
            let sources = sources.into_iter().flat_map(|source| {
                let own = state.merges.iter().find(|merge| merge.file == source.path);
                own.map_or_else(|| vec![source], |own| own.sources.clone())
            });
            let merge = Merge { file: file.path.clone(), sources: sources.collect() };
            state.merges.push_back(merge);
        }
        state.merges.retain(|merge| !inputs.iter().any(|input| input.path == merge.file));
        while state.merges.len() > MERGES_MAX {
            state.merges.pop_front();
        }
        drop(state);
        self.changes.send_replace(());
    }

    /// True if a companion is to be merged.
    pub(crate) fn is_merge_due(&self) -> bool {
        !self.state().merges.is_empty()
    }

    /// Takes the merge that is due next: it is tried once, so a fault that stays holds up nothing. Those of files that are no
    /// longer part of the table are forgotten, and those without all sources.
    fn take_merge(&self, files: &[Arc<FileEntry>]) -> Option<(Arc<FileEntry>, Vec<CompanionFile>)> {
        let mut state = self.state();
        let State { present: Some(present), merges, .. } = &mut *state else { return None };
        while let Some(merge) = merges.pop_front() {
            let file = files.iter().find(|file| file.add.path == *merge.file && is_missing(present, file));
            let is_possible = merge.sources.iter().all(|source| present.contains(&source.path));
            if let Some(file) = file.filter(|_| is_possible) {
                return Some((Arc::clone(file), merge.sources));
            }
        }
        None
    }

    /// Merges the next companion that is to be merged, or builds that of the newest file that has none, `first` ones before all
    /// others; before that, it looks for those that are there.
    pub(crate) async fn build_next(
        self: &Arc<Self>,
        place: &TableLocation,
        ledger: &TableVersions,
        first: &[Arc<FileEntry>],
    ) -> Result<()> {
        let Some(format) = self.format() else { return Ok(()) };
        if self.state().present.is_none() {
            let present = list(place, format.definition()).await?;
            self.with_definition(format.definition(), |state| state.present = Some(present));
        }
        let merge = self.take_merge(&ledger.files);
        let (next, sources) = match merge {
            Some((file, sources)) => (Some(file), Some(sources)),
            None => {
                let state = self.state();
                let present = state.present.as_ref();
                let is_missing =
                    |file: &&Arc<FileEntry>| present.is_some_and(|present| is_missing(present, file));
                (first.iter().chain(ledger.files.iter().rev()).find(is_missing).cloned(), None)
            }
        };
        let Some((file, described)) =
            next.and_then(|file| Some((Arc::clone(&file), CompanionFile::of(&file)?)))
        else {
            return Ok(());
        };
        let (companions, place, layout) = (Arc::clone(self), place.clone(), ledger.layout.clone());
        let begun = Instant::now();
        let work = move |runtime: &Handle| {
            let writer = CompanionWriter { format: &*format, place: &place, layout: &layout, runtime };
            let is_written = match sources {
                Some(sources) => companions.merge(&writer, &sources, &described),
                None => writer.build(&file, &described).map(|()| true)?,
            };
            if is_written {
                companions.with_definition(format.definition(), |state| {
                    state.rows_built += u64::from(described.rows);
                    state.build_micros += u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    state.present.get_or_insert_default().insert(described.path);
                });
            }
            Ok(())
        };
        run_blocking("building a search index file", work).await
    }

    /// Merges a companion; false if it is to be built.
    fn merge(&self, writer: &CompanionWriter<'_>, sources: &[CompanionFile], file: &CompanionFile) -> bool {
        let fault = match writer.merge(sources, file) {
            Ok(is_merged) => return is_merged,
            Err(fault) => fault,
        };
        let (CompanionFault::Unavailable(error) | CompanionFault::Unusable(error)) = &fault;
        let (table, file) = (&writer.place.table, &*file.path);
        warn!(%table, file, error, "search index files cannot be merged; a new one is built");
        if let CompanionFault::Unusable(_) = fault {
            self.with_definition(writer.format.definition(), |state| state.unusable += 1);
        }
        false
    }

    /// Changes the state, if it is still of a definition.
    fn with_definition(&self, definition: &str, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let is_same = state.format.iter().flatten().any(|format| format.definition() == definition);
        if is_same {
            change(&mut state);
            self.changes.send_replace(());
        }
    }

    /// The rows of each file that may satisfy both queries. `format` is that of the scan's snapshot.
    pub(crate) async fn select(
        self: &Arc<Self>,
        format: &Arc<dyn CompanionFormat>,
        place: &TableLocation,
        files: &[Arc<FileEntry>],
        queries: [IndexQuery; 2],
    ) -> Result<Vec<FileSelection>> {
        let is_of_another = self.format().is_none_or(|now| now.definition() != format.definition());
        if is_of_another || self.state().present.as_ref().is_none_or(HashSet::is_empty) {
            return Ok(vec![FileSelection::ALL; files.len()]);
        }
        let format = Arc::clone(format);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(Arc::clone(&is_cancelled));
        let (companions, place, files) = (Arc::clone(self), place.clone(), files.to_vec());
        let work = move |runtime: &Handle| {
            let mut rows = Vec::with_capacity(files.len());
            for file in &files {
                let stops = is_cancelled.load(Ordering::Relaxed);
                let found = (!stops).then(|| companions.selected(&format, &place, file, &queries, runtime));
                rows.push(match found.flatten() {
                    Some(selected) => FileSelection {
                        rows: rows_of(&selected, file),
                        is_exact: selected.is_exact,
                        is_indexed: true,
                    },
                    None => FileSelection::ALL,
                });
            }
            Ok(rows)
        };
        run_blocking("searching an index", work).await
    }

    /// The frequencies of a search's words in each file; none of a file whose companion does not say.
    pub(crate) async fn statistics(
        self: &Arc<Self>,
        place: &TableLocation,
        files: &[Arc<FileEntry>],
        search: &Arc<TableSearch>,
    ) -> Result<Vec<Option<ScoreStatistics>>> {
        let Some(format) = self.format() else { return Ok(vec![None; files.len()]) };
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(Arc::clone(&is_cancelled));
        let (companions, place, files) = (Arc::clone(self), place.clone(), files.to_vec());
        let search = Arc::clone(search);
        let work = move |runtime: &Handle| {
            let of_file = |file: &Arc<FileEntry>| {
                let stops = is_cancelled.load(Ordering::Relaxed);
                let ask = |open: &dyn OpenCompanion| open.statistics(&search);
                (!stops).then(|| companions.asked(&format, &place, file, runtime, ask)).flatten().flatten()
            };
            Ok(files.iter().map(of_file).collect())
        };
        run_blocking("counting words", work).await
    }

    /// Asks the companions of some files, one after the other.
    pub(crate) async fn visit(
        self: &Arc<Self>,
        place: &TableLocation,
        files: &[Arc<FileEntry>],
        mut visit: impl FnMut(&dyn OpenCompanion) -> std::result::Result<(), CompanionFault> + Send + 'static,
    ) -> Result<()> {
        let Some(format) = self.format() else { return Ok(()) };
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel = CancelOnDrop(Arc::clone(&is_cancelled));
        let (companions, place, files) = (Arc::clone(self), place.clone(), files.to_vec());
        let work = move |runtime: &Handle| {
            for file in files.iter().take_while(|_| !is_cancelled.load(Ordering::Relaxed)) {
                companions.asked(&format, &place, file, runtime, &mut visit);
            }
            Ok(())
        };
        run_blocking("describing an index", work).await
    }

    /// The rows of a file that may satisfy a query; none if its companion does not say.
    fn selected(
        &self,
        format: &Arc<dyn CompanionFormat>,
        place: &TableLocation,
        file: &FileEntry,
        [query, other]: &[IndexQuery; 2],
        runtime: &Handle,
    ) -> Option<SelectedRows> {
        self.asked(format, place, file, runtime, |open| {
            let mut selected = open.select(query)?;
            if !matches!(other, IndexQuery::Everything) {
                selected.possible &= open.select(other)?.possible;
            }
            Ok(selected)
        })
    }

    /// The answer of a file's companion; none if there is none that can be read.
    fn asked<T>(
        &self,
        format: &Arc<dyn CompanionFormat>,
        place: &TableLocation,
        file: &FileEntry,
        runtime: &Handle,
        ask: impl FnOnce(&dyn OpenCompanion) -> std::result::Result<T, CompanionFault>,
    ) -> Option<T> {
        let path = file.add.path.as_str();
        let found = match self.open(format, place, file, runtime) {
            Ok(open) => ask(&*open?),
            Err(fault) => Err(fault),
        };
        match found {
            Ok(answer) => Some(answer),
            Err(CompanionFault::Unavailable(error)) => {
                warn!(table = %place.table, file = path, error, "a search index file cannot be read; its data file is scanned");
                None
            }
            Err(CompanionFault::Unusable(error)) => {
                warn!(table = %place.table, file = path, error, "a search index file is built anew");
                self.with_definition(format.definition(), |state| {
                    state.unusable += 1;
                    state.open.remove(path);
                    if let Some(present) = &mut state.present {
                        present.remove(path);
                    }
                });
                None
            }
        }
    }

    fn open(
        &self,
        format: &Arc<dyn CompanionFormat>,
        place: &TableLocation,
        file: &FileEntry,
        runtime: &Handle,
    ) -> std::result::Result<Option<Arc<dyn OpenCompanion>>, CompanionFault> {
        let path = file.add.path.as_str();
        {
            let state = self.state();
            if !state.present.as_ref().is_some_and(|present| present.contains(path)) {
                return Ok(None);
            }
            if let Some(open) = state.open.get(path) {
                return Ok(Some(Arc::clone(open)));
            }
        }
        let Some(described) = CompanionFile::of(file) else { return Ok(None) };
        let object = companion_path(place, format.definition(), path);
        let bytes = Arc::new(ObjectBytes::open(place, object, runtime)?);
        let open = format.open(bytes, &described)?;
        self.with_definition(format.definition(), |state| {
            if state.open.insert(path.into(), Arc::clone(&open)).is_none() {
                state.opened.push_back(path.into());
            }
            while state.opened.len() > OPEN_MAX {
                let first = state.opened.pop_front();
                first.and_then(|first| state.open.remove(&first));
            }
        });
        Ok(Some(open))
    }
}

fn is_missing(present: &HashSet<Box<str>>, file: &FileEntry) -> bool {
    !present.contains(file.add.path.as_str()) && CompanionFile::of(file).is_some()
}

/// The data files that have a companion of a definition.
async fn list(place: &TableLocation, definition: &str) -> Result<HashSet<Box<str>>> {
    let root = place.root();
    let folder = folder(definition);
    let listed = place.store.list(Some(&place.file(folder.trim_end_matches('/'))));
    let paths = listed.map_ok(|object| {
        let parts = object.location.prefix_match(&root)?;
        let path = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
        path.strip_prefix(&folder)?.strip_suffix(ENDING).map(Box::from)
    });
    let paths: Vec<Option<Box<str>>> =
        paths.try_collect().await.map_err(StoreError::store("listing search index files"))?;
    Ok(paths.into_iter().flatten().collect())
}

/// The companions that the table has of some data files, as they are stored.
pub(crate) async fn stored(
    place: &TableLocation,
    definition: &str,
    files: &[Arc<FileEntry>],
) -> Result<Vec<ObjectMeta>> {
    let wanted: HashSet<Path> =
        files.iter().map(|file| companion_path(place, definition, &file.add.path)).collect();
    let listed = place.store.list(Some(&place.file(folder(definition).trim_end_matches('/'))));
    let listed: Vec<ObjectMeta> =
        listed.try_collect().await.map_err(StoreError::store("listing search index files"))?;
    Ok(listed.into_iter().filter(|object| wanted.contains(&object.location)).collect())
}

/// The inputs whose rows each output has, if the rows of all inputs, one behind the other, are those of all outputs; none of an
/// output that begins or ends within an input.
fn sources_of(outputs: &[CompanionFile], inputs: &[CompanionFile]) -> Vec<Option<Vec<CompanionFile>>> {
    let mut rest = inputs.iter();
    // Where the inputs that were taken end, and where the outputs do.
    let (mut input_end, mut output_end) = (0_u64, 0_u64);
    let sources = outputs.iter().map(|output| {
        let begins_with_input = input_end == output_end;
        output_end += u64::from(output.rows);
        let mut sources = Vec::new();
        while input_end < output_end
            && let Some(input) = rest.next()
        {
            input_end += u64::from(input.rows);
            sources.push(input.clone());
        }
        (begins_with_input && input_end == output_end).then_some(sources)
    });
    sources.collect()
}

/// The rows that are read of those that a companion selects, as ranges.
fn rows_of(selected: &SelectedRows, file: &FileEntry) -> FileRows {
    let SelectedRows { possible, is_exact } = selected;
    let rows = file.rows.unwrap_or(0);
    if possible.is_empty() {
        return FileRows::None;
    }
    // Rows that are not read need no evaluation; among many others, to evaluate them costs no more.
    if possible.len() == rows || (!is_exact && possible.len() > rows / DENSE) {
        return FileRows::All;
    }
    let mut selectors = Vec::new();
    let mut at = 0;
    let mut rest = possible.iter().peekable();
    while let Some(from) = rest.next() {
        let mut end = from + 1;
        while rest.next_if_eq(&end).is_some() {
            end += 1;
        }
        selectors.push(RowSelector::skip(from as usize - at));
        selectors.push(RowSelector::select((end - from) as usize));
        at = end as usize;
    }
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    selectors.push(RowSelector::skip(rows.saturating_sub(at)));
    FileRows::Some(RowSelection::from(selectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(rows: &[u32]) -> Vec<CompanionFile> {
        let file = |(number, rows): (usize, &u32)| CompanionFile {
            path: number.to_string().into(),
            bytes: 1,
            rows: *rows,
        };
        rows.iter().enumerate().map(file).collect()
    }

    /// The numbers of the inputs of each output.
    fn check(outputs: &[u32], inputs: &[u32], expected: &[Option<&[usize]>]) {
        let found: Vec<Option<Vec<usize>>> = sources_of(&files(outputs), &files(inputs))
            .into_iter()
            .map(|sources| Some(sources?.iter().map(|source| source.path.parse().unwrap()).collect()))
            .collect();
        let expected: Vec<Option<Vec<usize>>> =
            expected.iter().map(|sources| sources.map(<[usize]>::to_vec)).collect();
        assert_eq!(found, expected, "{outputs:?} of {inputs:?}");
    }

    #[test]
    fn an_output_has_the_inputs_whose_rows_are_its_rows() {
        check(&[6], &[1, 2, 3], &[Some(&[0, 1, 2])]);
        check(&[3, 3], &[1, 2, 3], &[Some(&[0, 1]), Some(&[2])]);
        check(&[3, 3], &[1, 0, 2, 3], &[Some(&[0, 1, 2]), Some(&[3])]);
        // The second input is divided.
        check(&[2, 4, 5], &[1, 2, 3, 5], &[None, None, Some(&[3])]);
        check(&[1, 1, 1, 3], &[1, 2, 3], &[Some(&[0]), None, None, Some(&[2])]);
        check(&[2], &[1], &[None]);
    }
}
