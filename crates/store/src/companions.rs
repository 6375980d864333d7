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
//! Bounds: [`OPEN_MAX`] companions of a table are held open.

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
use futures_util::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use parquet::arrow::{
    ParquetRecordBatchStreamBuilder, ProjectionMask,
    arrow_reader::{RowSelection, RowSelector},
};
use roaring::RoaringBitmap;
use swiftwater_text::{IndexKind, IndexQuery, ScoreStatistics, TableSearch};
use tokio::{runtime::Handle, sync::watch, time::Instant};
use tracing::warn;

use crate::{
    error::{Result, StoreError},
    io_threads::run_blocking,
    layout::Layout,
    load::TableLocation,
    maintenance::{rows_at_once, with_partition},
    read::ObjectReader,
    table_version::{FileEntry, TableVersions},
};

/// The folder of companions in a table.
const FOLDER: &str = "_search";
/// The end of the name of a companion.
const ENDING: &str = ".idx";
/// Companions of a table that are held open.
const OPEN_MAX: usize = 4096;
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
    /// The bytes of the companion.
    fn finish(self: Box<Self>, file: &CompanionFile) -> io::Result<Vec<u8>>;
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
struct ObjectBytes {
    store: Arc<dyn ObjectStore>,
    path: Path,
    length: usize,
    runtime: Handle,
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

fn companion_path(place: &TableLocation, definition: &str, file: &str) -> Path {
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
        let State { present, open, .. } = &mut *state;
        let Some(present) = present else { return 0 };
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
        !file.and_then(|file| file.strip_suffix(ENDING)).is_some_and(is_kept)
    }

    /// Builds the companion of the newest file that has none; first looks for those that are there.
    pub(crate) async fn build_next(&self, place: &TableLocation, ledger: &TableVersions) -> Result<()> {
        let Some(format) = self.format() else { return Ok(()) };
        if self.state().present.is_none() {
            let present = list(place, format.definition()).await?;
            self.with_definition(format.definition(), |state| state.present = Some(present));
        }
        let next = {
            let state = self.state();
            let present = state.present.as_ref();
            present
                .and_then(|present| ledger.files.iter().rev().find(|file| is_missing(present, file)).cloned())
        };
        let Some((file, described)) =
            next.and_then(|file| Some((Arc::clone(&file), CompanionFile::of(&file)?)))
        else {
            return Ok(());
        };
        let begun = Instant::now();
        let bytes = build(&*format, place, &ledger.layout, &file, &described).await?;
        place.check().await?;
        let path = companion_path(place, format.definition(), &described.path);
        let put = place.store.put(&path, PutPayload::from(bytes)).await;
        put.map_err(StoreError::store("writing a search index file"))?;
        self.with_definition(format.definition(), |state| {
            state.rows_built += u64::from(described.rows);
            state.build_micros += u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            state.present.get_or_insert_default().insert(described.path);
        });
        Ok(())
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
        let length = match runtime.block_on(place.store.head(&object)) {
            Ok(found) => usize::try_from(found.size).unwrap_or(usize::MAX),
            Err(object_store::Error::NotFound { .. }) => {
                return Err(CompanionFault::Unusable("it is not there".to_owned()));
            }
            Err(error) => return Err(CompanionFault::Unavailable(error.to_string())),
        };
        let store = Arc::clone(&place.store);
        let bytes = Arc::new(ObjectBytes { store, path: object, length, runtime: runtime.clone() });
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

/// The bytes of the companion of a file.
async fn build(
    format: &dyn CompanionFormat,
    place: &TableLocation,
    layout: &Layout,
    file: &Arc<FileEntry>,
    described: &CompanionFile,
) -> Result<Vec<u8>> {
    let failed = StoreError::parquet("reading a file to index it");
    let mut builder = format.builder(&layout.schema);
    let places = builder.places();
    let store = Arc::new(place.checked(std::slice::from_ref(file)));
    let reader = ObjectReader { store, path: place.file(&file.add.path), size: file.add.size };
    let stream = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(&failed)?;
    let rows = rows_at_once(stream.metadata());
    let is_read = |name: &str| places.iter().any(|place| layout.schema.field(*place).name() == name);
    let roots = stream.parquet_schema().root_schema().get_fields().iter().enumerate();
    let read = roots.filter(|(_, field)| is_read(field.name())).map(|(number, _)| number);
    let mask = ProjectionMask::roots(stream.parquet_schema(), read.collect::<Vec<_>>());
    let mut batches = stream.with_projection(mask).with_batch_size(rows).build().map_err(&failed)?;
    let failed_building = |_| StoreError::Task("building a search index file");
    while let Some(batch) = batches.next().await {
        let batch = with_partition(&batch.map_err(&failed)?, layout, file)?;
        let arrays = places.iter().map(|place| layout.column(*place, &batch)).collect::<Result<Vec<_>>>()?;
        builder.add(&arrays, batch.num_rows()).map_err(&failed_building)?;
    }
    builder.finish(described).map_err(&failed_building)
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
