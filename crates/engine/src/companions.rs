//! The companions of data files as the store asks for them: the room of search indexes builds, merges and reads them.
//!
//! Builds and merges share `search.memory_bytes_max`: the store runs so many at a time, and each has an equal part. A build that
//! needs more writes sorted runs to the directory of spilled files. A merge has the dictionaries of one field of all its
//! sources in memory; if all their dictionaries are larger than a third of its part, the companion is built from the rows.

use std::{
    fmt,
    fs::{self, File},
    io,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_array::ArrayRef;
use arrow_schema::{Field, Schema};
use swiftwater_search::{
    BLOCK_BYTES, BuildLimits, Companion, CompanionError, DataFile, FieldKind, IndexBuilder, IndexField,
    MergedFields, ReadAhead, ReadBytes, ScratchFiles, merge, write_companion,
};
use swiftwater_sql::{Expr, index_query};
use swiftwater_store::{
    CompanionBuilder, CompanionBytes, CompanionFault, CompanionFile, CompanionFormat, CompanionTerm,
    OpenCompanion, SelectedRows,
};
use swiftwater_text::{IndexKind, IndexQuery, ScoreStatistics, SearchField, TableSearch};

/// Describes a field as searches of the table see it.
pub(crate) type DescribeField = Box<dyn Fn(&Field) -> SearchField + Send + Sync>;

/// The companions of the files of one table.
pub(crate) struct CompanionsOf {
    /// The name of the definition in paths.
    pub(crate) name: String,
    pub(crate) describe: DescribeField,
    pub(crate) builds: Arc<IndexBuilds>,
}

/// Limits and counts of the builds and merges of all index files.
#[derive(Debug)]
pub(crate) struct IndexBuilds {
    limits: BuildLimits,
    built: AtomicU64,
    merged: AtomicU64,
}

impl IndexBuilds {
    /// `directory` is that of spilled files; none: the system's directory for temporary files. `tasks` run at a time.
    pub(crate) fn new(directory: Option<PathBuf>, memory_bytes_max: usize, tasks: usize) -> IndexBuilds {
        let scratch = ScratchDirectory {
            path: directory.unwrap_or_else(std::env::temp_dir),
            number: AtomicU64::new(0),
        };
        let memory_bytes_max = memory_bytes_max / tasks.max(1);
        let limits = BuildLimits { memory_bytes_max, scratch: Arc::new(scratch) };
        IndexBuilds { limits, built: AtomicU64::new(0), merged: AtomicU64::new(0) }
    }

    /// The index files that were built from rows, and those that were merged from others.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.built.load(Ordering::Relaxed), self.merged.load(Ordering::Relaxed))
    }

    /// The memory with which each of some companions is read, for a merge of all of them; none if that is too much.
    fn read_ahead(&self, companions: &[(Arc<dyn CompanionBytes>, CompanionFile)]) -> Option<usize> {
        // A short file is read whole.
        let least = |length: usize| if length <= BLOCK_BYTES { length } else { ReadAhead::BYTES_MIN };
        let share = self.limits.memory_bytes_max / 4;
        let needed: usize = companions.iter().map(|(bytes, _)| least(bytes.length())).sum();
        (needed <= share).then(|| share / companions.len().max(1))
    }
}

/// A directory for scratch files. It is emptied when the server starts, for those that were created when it was killed.
#[derive(Debug)]
struct ScratchDirectory {
    path: PathBuf,
    number: AtomicU64,
}

impl ScratchFiles for ScratchDirectory {
    fn create(&self) -> io::Result<File> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("index-{}-{number}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }
}

impl CompanionsOf {
    fn columns(&self, schema: &Schema) -> Vec<SearchField> {
        schema.fields().iter().map(|field| (self.describe)(field)).collect()
    }
}

impl fmt::Debug for CompanionsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompanionsOf").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CompanionFormat for CompanionsOf {
    fn definition(&self) -> &str {
        &self.name
    }

    fn query(&self, filter: &Expr, schema: &Schema) -> Option<IndexQuery> {
        index_query(filter, schema)
    }

    fn builder(&self, schema: &Schema) -> Box<dyn CompanionBuilder> {
        Box::new(Builder {
            builder: IndexBuilder::new(&self.columns(schema), Some(self.builds.limits.clone())),
            definition: self.name.clone(),
            builds: Arc::clone(&self.builds),
        })
    }

    fn merge(
        &self,
        schema: &Schema,
        sources: &[(Arc<dyn CompanionBytes>, CompanionFile)],
        file: &CompanionFile,
        out: &mut dyn io::Write,
    ) -> Result<bool, CompanionFault> {
        let limits = &self.builds.limits;
        let Some(read_ahead) = self.builds.read_ahead(sources) else { return Ok(false) };
        let fields = MergedFields::new(&self.columns(schema));
        let (mut companions, mut dictionary_bytes, mut rows) = (Vec::with_capacity(sources.len()), 0, 0);
        for (bytes, of) in sources {
            let bytes = ReadAhead::new(Arc::new(Bytes(Arc::clone(bytes))), read_ahead);
            let source = Companion::open(Arc::new(bytes), &self.name, &data_file(of)).map_err(fault)?;
            dictionary_bytes += source.dictionary_bytes();
            rows += u64::from(source.rows());
            // The dictionary that is written has at most as much in memory as those that are read.
            if !fields.include(&source) || dictionary_bytes > limits.memory_bytes_max / 3 {
                return Ok(false);
            }
            companions.push(source);
        }
        if rows != u64::from(file.rows) {
            return Ok(false);
        }
        let segment = merge(&companions.iter().collect::<Vec<_>>(), fields, Some(limits)).map_err(fault)?;
        drop(companions);
        write_companion(&segment, &self.name, &data_file(file), out)
            .map_err(|error| CompanionFault::Unavailable(error.to_string()))?;
        self.builds.merged.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn open(
        &self,
        bytes: Arc<dyn CompanionBytes>,
        file: &CompanionFile,
    ) -> Result<Arc<dyn OpenCompanion>, CompanionFault> {
        let open = Companion::open(Arc::new(Bytes(bytes)), &self.name, &data_file(file));
        Ok(Arc::new(Open(open.map_err(fault)?)))
    }
}

fn data_file(file: &CompanionFile) -> DataFile {
    DataFile { path: file.path.to_string(), bytes: file.bytes, rows: file.rows }
}

fn fault(error: CompanionError) -> CompanionFault {
    let text = error.to_string();
    match error {
        CompanionError::Io(error) if error.kind() != io::ErrorKind::NotFound => {
            CompanionFault::Unavailable(text)
        }
        _ => CompanionFault::Unusable(text),
    }
}

#[derive(Debug)]
struct Bytes(Arc<dyn CompanionBytes>);

impl ReadBytes for Bytes {
    fn length(&self) -> usize {
        self.0.length()
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        self.0.read(range)
    }
}

#[derive(Debug)]
struct Open(Companion);

impl OpenCompanion for Open {
    fn select(&self, query: &IndexQuery) -> Result<SelectedRows, CompanionFault> {
        let selection = self.0.select(query).map_err(fault)?;
        Ok(SelectedRows { is_exact: selection.is_exact(), possible: selection.possible })
    }

    fn statistics(&self, search: &TableSearch) -> Result<Option<ScoreStatistics>, CompanionFault> {
        self.0.statistics(search).map_err(fault)
    }

    fn visit_columns(&self, visit: &mut dyn FnMut(&str, IndexKind, u64)) {
        for field in self.0.fields() {
            if let Some(kind) = kind_of(field) {
                visit(&field.column, kind, field.rows);
            }
        }
    }

    fn visit_terms(&self, visit: &mut dyn FnMut(CompanionTerm<'_>)) -> Result<(), CompanionFault> {
        let visited = self.0.visit_terms(&mut |field, key, bytes| {
            if let Some(kind) = kind_of(field) {
                visit(CompanionTerm { column: &field.column, kind, key, bytes });
            }
        });
        visited.map_err(fault)
    }
}

/// The kind that a field of an index is of; none if it has no terms of its own.
fn kind_of(field: &IndexField) -> Option<IndexKind> {
    match field.kind {
        FieldKind::Words | FieldKind::WordCounts => Some(IndexKind::Text),
        FieldKind::Values => Some(IndexKind::Id),
        FieldKind::Categories => Some(IndexKind::Facet),
        FieldKind::Presence => None,
    }
}

struct Builder {
    builder: IndexBuilder,
    definition: String,
    builds: Arc<IndexBuilds>,
}

impl CompanionBuilder for Builder {
    fn places(&self) -> Vec<usize> {
        self.builder.places()
    }

    fn add(&mut self, arrays: &[ArrayRef], rows: usize) -> io::Result<()> {
        self.builder.add(arrays, rows)
    }

    fn finish(self: Box<Self>, file: &CompanionFile, out: &mut dyn io::Write) -> io::Result<()> {
        let segment = self.builder.finish()?;
        write_companion(&segment, &self.definition, &data_file(file), out)?;
        self.builds.built.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow_array::{ArrayRef, StringArray};
    use arrow_schema::DataType;
    use swiftwater_text::{ColumnIndex, SEARCH_METADATA, TextIndex};

    use super::*;

    const ROWS: u32 = 60_000;

    /// The index file of many words.
    fn build(directory: &Path, memory_bytes_max: usize) -> io::Result<Vec<u8>> {
        let index = ColumnIndex { text: Some(TextIndex::default()), ..ColumnIndex::default() };
        let metadata = [(SEARCH_METADATA.to_owned(), index.to_metadata())].into();
        let schema = Schema::new(vec![Field::new("a", DataType::Utf8, true).with_metadata(metadata)]);
        let builds = Arc::new(IndexBuilds::new(Some(directory.to_owned()), memory_bytes_max, 1));
        let describe: DescribeField = Box::new(SearchField::of);
        let format = CompanionsOf { name: "d1".to_owned(), describe, builds: Arc::clone(&builds) };
        let mut builder = format.builder(&schema);
        for from in (0..ROWS).step_by(10_000) {
            let text = |row: u32| Some(format!("w{row} v{} common {}", row * 31 % 40_009, row % 7));
            let array: ArrayRef = Arc::new((from..from + 10_000).map(text).collect::<StringArray>());
            builder.add(&[array], 10_000)?;
        }
        let mut bytes = Vec::new();
        builder.finish(&CompanionFile { path: "part".into(), bytes: 1, rows: ROWS }, &mut bytes)?;
        assert_eq!(builds.counts(), (1, 0));
        Ok(bytes)
    }

    #[test]
    fn the_least_memory_suffices_for_any_file_and_leaves_no_scratch_file() {
        let directory = tempfile::tempdir().unwrap();
        let least = build(directory.path(), 8 << 20).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "scratch files are left");
        let missing = directory.path().join("missing");
        assert!(build(&missing, 8 << 20).is_err(), "no scratch file was needed");
        assert!(build(&missing, 1 << 30).unwrap() == least, "the files differ");
    }
}
