//! The companions of data files as the store asks for them: the room of search indexes builds and reads them.
//!
//! A builder has at most [`CompanionsOf::memory_bytes_max`] bytes of terms in memory: beyond it, the rows so far become a segment, and
//! the segments are merged at the end.

use std::{fmt, io, ops::Range, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{Field, Schema};
use swiftwater_search::{
    Companion, CompanionError, DataFile, FieldKind, IndexBuilder, IndexField, ReadBytes, Segment, merge,
    write_companion,
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
    pub(crate) memory_bytes_max: usize,
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
        let columns: Vec<SearchField> = schema.fields().iter().map(|field| (self.describe)(field)).collect();
        Box::new(Builder {
            now: IndexBuilder::new(&columns),
            columns,
            before: Vec::new(),
            definition: self.name.clone(),
            memory_bytes_max: self.memory_bytes_max,
        })
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
    columns: Vec<SearchField>,
    now: IndexBuilder,
    /// The segments of the rows before.
    before: Vec<Segment>,
    definition: String,
    memory_bytes_max: usize,
}

impl CompanionBuilder for Builder {
    fn places(&self) -> Vec<usize> {
        self.now.places()
    }

    fn add(&mut self, arrays: &[ArrayRef], rows: usize) -> io::Result<()> {
        self.now.add(arrays, rows);
        if self.now.memory_bytes() > self.memory_bytes_max {
            let next = IndexBuilder::new(&self.columns);
            self.before.push(std::mem::replace(&mut self.now, next).finish()?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, file: &CompanionFile) -> io::Result<Vec<u8>> {
        let last = self.now.finish()?;
        let segment = match self.before.is_empty() {
            true => last,
            false => {
                let segments = self.before.into_iter().chain([last]);
                let open =
                    segments.map(Segment::open).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
                merge(&open.iter().collect::<Vec<_>>()).map_err(io::Error::other)?
            }
        };
        let mut bytes = Vec::new();
        write_companion(&segment, &self.definition, &data_file(file), &mut bytes)?;
        Ok(bytes)
    }
}
