//! Builds a segment of record batches.
//!
//! Each value is analyzed once. The rows and positions of a term are appended to a list of its own in an arena, and written in
//! the order of the terms when the segment is finished. No memory is allocated for a term that is known.
//!
//! With [`BuildLimits`], lists that fill half of the memory are written as a sorted run ([`crate::runs`]), and the runs are merged at
//! the end. The segment is the same.

use std::{collections::BTreeSet, io};

use arrow_array::{Array, ArrayRef};
use swiftwater_text::{Analyzer, AnalyzerScratch, ColumnIndex, ColumnReader, SearchField, Value};
use tantivy::fieldnorm::FieldNormReader;
use tantivy_stacker::{ArenaHashMap, ExpUnrolledLinkedList, MemoryArena};

use crate::{
    encoding::{FieldsWriter, Parts, TermsWriter},
    fields::{FieldKind, IndexField, fields_of},
    phrases::VALUE_GAP,
    runs::{Run, RunTerm, Runs, RunsReader},
    scratch::BuildLimits,
    segment::Segment,
    terms::{PRESENT, push_boolean, push_number, push_text, push_word},
};

/// Slots of the table of terms at the beginning; it grows.
const TERMS_AT_FIRST: usize = 1 << 12;

/// Builds the segment of a data file, or of a part of it.
pub struct IndexBuilder {
    /// The names of all columns.
    names: BTreeSet<String>,
    columns: Vec<Column>,
    fields: Vec<FieldState>,
    lists: Lists,
    rows: u32,
    reader: ColumnReader,
    scratch: AnalyzerScratch,
    /// None: all terms are in memory.
    limits: Option<BuildLimits>,
    runs: Runs,
}

/// A column that is indexed.
struct Column {
    place: usize,
    field: SearchField,
    index: ColumnIndex,
    analyzer: Analyzer,
    /// Its fields, by number.
    fields: std::ops::Range<usize>,
}

struct FieldState {
    field: IndexField,
    /// A byte for each row, if the field has lengths.
    lengths: Vec<u8>,
}

/// The lists of all terms.
struct Lists {
    terms: ArenaHashMap,
    arena: MemoryArena,
    /// The number of the field, and the key of the term.
    key: Vec<u8>,
}

/// The rows of a term so far, and the positions in each.
#[derive(Debug, Clone, Copy, Default)]
struct TermList {
    list: ExpUnrolledLinkedList,
    rows: u32,
    row: u32,
    /// In the last row.
    count: u32,
    position: u32,
}

impl std::fmt::Debug for IndexBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexBuilder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl IndexBuilder {
    /// A builder for the rows of a table with these columns, whose fields say which of them the index covers.
    /// `limits` bound its memory; none: all terms are in memory.
    pub fn new(columns: &[SearchField], limits: Option<BuildLimits>) -> IndexBuilder {
        let mut indexed: Vec<Column> = Vec::new();
        let mut fields = Vec::new();
        for (place, field) in fields_of(columns) {
            let number = fields.len();
            match indexed.last_mut().filter(|column| column.place == place) {
                Some(column) => column.fields.end = number + 1,
                None => {
                    let field = columns[place].clone();
                    let index = field.column_index().unwrap_or_default();
                    let analyzer = Analyzer::new(index.analyzer_options());
                    indexed.push(Column { place, field, index, analyzer, fields: number..number + 1 });
                }
            }
            fields.push(FieldState { field, lengths: Vec::new() });
        }
        let lists = Lists::default();
        let (reader, scratch) = (ColumnReader::default(), AnalyzerScratch::default());
        IndexBuilder {
            names: columns.iter().map(|column| column.name.to_string()).collect(),
            columns: indexed,
            fields,
            lists,
            rows: 0,
            reader,
            scratch,
            limits,
            runs: Runs::default(),
        }
    }

    /// The places of the columns that are read.
    pub fn places(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.place).collect()
    }

    /// Adds rows. `arrays` are the columns of [`IndexBuilder::places`], in their order, of `rows` rows each.
    pub fn add(&mut self, arrays: &[ArrayRef], rows: usize) -> io::Result<()> {
        let step = self.rows_at_once(arrays, rows);
        for from in (0..rows).step_by(step) {
            for (number, array) in arrays.iter().enumerate().take(self.columns.len()) {
                for row in from..(from + step).min(rows) {
                    self.add_value(number, &**array, row);
                }
            }
            self.leave_memory_if_full()?;
        }
        self.rows += rows as u32;
        Ok(())
    }

    /// The rows after which it looks at its memory. The terms of a text may take many times its bytes.
    fn rows_at_once(&self, arrays: &[ArrayRef], rows: usize) -> usize {
        let Some(limits) = &self.limits else { return rows.max(1) };
        let bytes: usize = arrays.iter().map(|array| array.get_array_memory_size()).sum();
        let a_row = bytes.div_ceil(rows.max(1)).max(1);
        (limits.memory_bytes_max / 64 / a_row).clamp(1, rows.max(1))
    }

    fn leave_memory_if_full(&mut self) -> io::Result<()> {
        match &self.limits {
            Some(limits) if self.lists.memory_bytes() > limits.memory_bytes_max / 2 => {
                self.runs.push(self.lists.take_run(limits)?, limits)
            }
            _ => Ok(()),
        }
    }

    /// The rows so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    fn add_value(&mut self, number: usize, array: &dyn Array, at: usize) {
        let IndexBuilder { columns, fields, lists, rows, reader, scratch, .. } = self;
        let column = &columns[number];
        let row = *rows + at as u32;
        let mut texts = RowTexts::default();
        let mut is_present = false;
        reader.for_each_value(&column.field, array, at, |value| {
            is_present = true;
            for number in column.fields.clone() {
                let kind = fields[number].field.kind;
                match kind {
                    FieldKind::Presence => {}
                    FieldKind::Words | FieldKind::WordCounts => {
                        if let Value::Text(text) = value {
                            texts.add(text, (number, kind, row), column, lists, scratch);
                        }
                    }
                    FieldKind::Values => lists.add_value(number, row, value),
                    FieldKind::Categories => lists.add_category(number, row, value, &column.index),
                }
            }
        });
        if is_present {
            lists.record(column.fields.start, FieldKind::Presence, (row, 0), |key| key.extend(PRESENT));
        }
        for number in column.fields.clone() {
            let state = &mut fields[number];
            if state.field.kind.has_lengths() {
                state.lengths.push(FieldNormReader::fieldnorm_to_id(texts.tokens));
                state.field.tokens += u64::from(texts.tokens);
                state.field.rows += u64::from(texts.tokens > 0);
            } else {
                state.field.rows += u64::from(is_present);
            }
        }
    }

    /// Writes the segment.
    pub fn finish(mut self) -> io::Result<Segment> {
        let mut parts = Parts::new(self.limits.as_ref());
        match &self.limits {
            Some(limits) if !self.runs.is_empty() => {
                let mut runs = std::mem::take(&mut self.runs);
                runs.push(self.lists.take_run(limits)?, limits)?;
                write_runs(&runs.into_runs(), &mut self.fields, &mut parts)?;
            }
            _ => self.write_lists(&mut parts)?,
        }
        let fields = self.fields.into_iter().map(|state| state.field).collect();
        Ok(Segment { rows: self.rows, columns: self.names, fields, parts })
    }

    /// Writes the terms in memory.
    fn write_lists(&mut self, parts: &mut Parts) -> io::Result<()> {
        let mut writer = FieldsWriter::new(parts);
        let terms = self.lists.sorted();
        let (mut from, mut bytes, mut positions) = (0, Vec::new(), Vec::new());
        for (number, FieldState { field, lengths }) in self.fields.iter_mut().enumerate() {
            let prefix = (number as u16).to_be_bytes();
            let count = terms[from..].partition_point(|(key, _)| key.starts_with(&prefix));
            let mut writer = writer.field(number, field, lengths)?;
            for (key, list) in &terms[from..from + count] {
                bytes.clear();
                list.list.read_to_end(&self.lists.arena, &mut bytes);
                writer.new_term(&key[prefix.len()..], list.rows, field.kind.has_lengths())?;
                write_rows(list.of_run(&bytes), field.kind, &bytes, &mut positions, &mut writer);
                writer.close_term()?;
            }
            writer.close()?;
            field.terms = count as u64;
            from += count;
        }
        writer.close()
    }
}

/// Writes the terms of runs.
fn write_runs(runs: &[Run], fields: &mut [FieldState], parts: &mut Parts) -> io::Result<()> {
    let mut writer = FieldsWriter::new(parts);
    let mut terms = RunsReader::new(runs)?;
    let (mut key, mut list, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for (number, FieldState { field, lengths }) in fields.iter_mut().enumerate() {
        let prefix = (number as u16).to_be_bytes();
        let mut writer = writer.field(number, field, lengths)?;
        field.terms = 0;
        while terms.next_key(&prefix).is_some() && terms.next_term(&mut key)? {
            let rows = terms.found().map(|term| term.rows).sum();
            let lists = terms.found().len();
            writer.new_term(&key[prefix.len()..], rows, field.kind.has_lengths())?;
            for at in 0..lists {
                let term = terms.read_list(at, &mut list)?;
                write_rows(term, field.kind, &list, &mut positions, &mut writer);
            }
            writer.close_term()?;
            field.terms += 1;
        }
        writer.close()?;
    }
    writer.close()
}

/// The texts of one row of a column.
#[derive(Debug, Default)]
struct RowTexts {
    tokens: u32,
    /// The first position of the next value.
    next: u32,
}

impl RowTexts {
    fn add(
        &mut self,
        text: &str,
        (number, kind, row): (usize, FieldKind, u32),
        column: &Column,
        lists: &mut Lists,
        scratch: &mut AnalyzerScratch,
    ) {
        let (first, mut end) = (self.next, self.next);
        column.analyzer.for_each_token(text, scratch, |token| {
            let position = first.saturating_add(token.position);
            end = position;
            self.tokens += 1;
            lists.record(number, kind, (row, position), |key| push_word(token.kind, token.text, key));
        });
        self.next = end.saturating_add(VALUE_GAP);
    }
}

impl Default for Lists {
    fn default() -> Lists {
        let terms = ArenaHashMap::with_capacity(TERMS_AT_FIRST);
        Lists { terms, arena: MemoryArena::default(), key: Vec::new() }
    }
}

impl Lists {
    /// The memory that they have, in bytes.
    fn memory_bytes(&self) -> usize {
        self.terms.mem_usage() + self.arena.mem_usage()
    }

    /// The terms with the numbers of their fields before their keys, in order.
    fn sorted(&self) -> Vec<(&[u8], TermList)> {
        let mut terms: Vec<(&[u8], TermList)> = Vec::with_capacity(self.terms.len());
        terms.extend(self.terms.iter().map(|(key, address)| (key, self.terms.read(address))));
        terms.sort_unstable_by_key(|(key, _)| *key);
        terms
    }

    /// Writes all lists as a run, and begins anew.
    fn take_run(&mut self, limits: &BuildLimits) -> io::Result<Run> {
        let mut run = Run::new(limits);
        let mut bytes = Vec::new();
        for (key, list) in self.sorted() {
            bytes.clear();
            list.list.read_to_end(&self.arena, &mut bytes);
            run.push(key, list.of_run(&bytes), &bytes)?;
        }
        *self = Lists::default();
        Ok(run)
    }

    /// Adds a whole value.
    fn add_value(&mut self, number: usize, row: u32, value: Value<'_>) {
        let kind = FieldKind::Values;
        match value {
            Value::Text(text) => self.record(number, kind, (row, 0), |key| push_text(text, key)),
            Value::Number(of) => self.record(number, kind, (row, 0), |key| push_number(of, key)),
            Value::Boolean(of) => self.record(number, kind, (row, 0), |key| push_boolean(of, key)),
            Value::Time(_) => {}
        }
    }

    /// Adds a value and its ancestors.
    fn add_category(&mut self, number: usize, row: u32, value: Value<'_>, index: &ColumnIndex) {
        let Value::Text(text) = value else { return };
        let kind = FieldKind::Categories;
        self.record(number, kind, (row, 0), |key| push_text(text, key));
        let separator = index.facet.as_ref().and_then(|facet| facet.separator.as_deref());
        for (at, _) in separator.into_iter().flat_map(|separator| text.match_indices(separator)) {
            self.record(number, kind, (row, 0), |key| push_text(&text[..at], key));
        }
    }

    /// Records that a row has a term at a position.
    fn record(
        &mut self,
        number: usize,
        kind: FieldKind,
        (row, position): (u32, u32),
        push_key: impl FnOnce(&mut Vec<u8>),
    ) {
        let Lists { terms, arena, key } = self;
        key.clear();
        key.extend_from_slice(&(number as u16).to_be_bytes());
        push_key(key);
        terms.mutate_or_create(key, |list: Option<TermList>| {
            let mut list = list.unwrap_or_default();
            list.record(arena, kind, row, position);
            list
        });
    }
}

impl TermList {
    fn record(&mut self, arena: &mut MemoryArena, kind: FieldKind, row: u32, position: u32) {
        let is_new = self.rows == 0 || self.row != row;
        if is_new {
            match kind {
                _ if self.rows == 0 => {}
                // Ends the positions of the row before.
                FieldKind::Words => push_number_of(&mut self.list, arena, 0),
                FieldKind::WordCounts => push_number_of(&mut self.list, arena, self.count),
                _ => {}
            }
            push_number_of(&mut self.list, arena, row - self.row);
            (self.row, self.rows, self.count, self.position) = (row, self.rows + 1, 0, 0);
        }
        // A word and its first part are one term.
        let is_known = self.count > 0 && self.position == position;
        if kind.has_lengths() && !is_known {
            if kind == FieldKind::Words {
                push_number_of(&mut self.list, arena, position - self.position + 1);
            }
            self.count += 1;
            self.position = position;
        }
    }

    /// Its rows, recorded as `bytes`, without its key.
    fn of_run(&self, bytes: &[u8]) -> RunTerm {
        RunTerm { rows: self.rows, count: self.count, bytes: bytes.len() as u32 }
    }
}

/// Writes the rows of a term that were recorded as `bytes`.
fn write_rows(
    term: RunTerm,
    kind: FieldKind,
    bytes: &[u8],
    positions: &mut Vec<u32>,
    writer: &mut TermsWriter<'_, '_>,
) {
    let mut numbers = Numbers { bytes };
    let mut row = 0;
    for at in 0..term.rows {
        row += numbers.next().unwrap_or(0);
        let is_last = at + 1 == term.rows;
        match kind {
            FieldKind::Words => {
                positions.clear();
                // The first is absolute, the others are differences.
                positions.extend(numbers.by_ref().take_while(|number| *number > 0).map(|number| number - 1));
                writer.write_doc(row, positions.len() as u32, positions);
            }
            FieldKind::WordCounts if is_last => writer.write_doc(row, term.count, &[]),
            FieldKind::WordCounts => writer.write_doc(row, numbers.next().unwrap_or(1), &[]),
            _ => writer.write_doc(row, 1, &[]),
        }
    }
}

/// Appends a number: seven bits a byte, the highest bit of all but the last byte set.
fn push_number_of(list: &mut ExpUnrolledLinkedList, arena: &mut MemoryArena, mut number: u32) {
    let (mut bytes, mut length) = ([0; 5], 0);
    while number >= 0x80 {
        bytes[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = number as u8;
    list.writer(arena).extend_from_slice(&bytes[..=length]);
}

/// The numbers of [`push_number_of`].
struct Numbers<'b> {
    bytes: &'b [u8],
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u32::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, sync::Arc};

    use arrow_array::StringArray;
    use arrow_schema::{DataType, Field};
    use swiftwater_text::{SEARCH_METADATA, TextIndex};

    use super::*;
    use crate::scratch::ScratchFiles;

    #[derive(Debug)]
    struct Scratch;

    impl ScratchFiles for Scratch {
        fn create(&self) -> io::Result<File> {
            tempfile::tempfile()
        }
    }

    #[test]
    fn terms_take_no_more_memory_than_they_may() {
        let index = ColumnIndex { text: Some(TextIndex::default()), ..ColumnIndex::default() };
        let metadata = [(SEARCH_METADATA.to_owned(), index.to_metadata())].into();
        let field = SearchField::of(&Field::new("a", DataType::Utf8, true).with_metadata(metadata));
        let limits = BuildLimits { memory_bytes_max: 8 << 20, scratch: Arc::new(Scratch) };
        let mut builder = IndexBuilder::new(&[field], Some(limits.clone()));
        let mut most = 0;
        // One batch of many rows, and rows of many words.
        for (rows, words) in [(100_000, 2), (100, 5_000)] {
            let text = |row: usize| {
                let words = (0..words).map(|word| format!("w{}", row * 7_919 + word));
                words.collect::<Vec<_>>().join(" ")
            };
            let array: ArrayRef = Arc::new((0..rows).map(|row| Some(text(row))).collect::<StringArray>());
            let step = builder.rows_at_once(&[Arc::clone(&array)], rows);
            for from in (0..rows).step_by(step) {
                for at in from..(from + step).min(rows) {
                    builder.add_value(0, &*array, at);
                }
                most = most.max(builder.lists.memory_bytes());
                builder.leave_memory_if_full().unwrap();
            }
            builder.rows += rows as u32;
        }
        assert!(most > limits.memory_bytes_max / 2, "{most} bytes need no run");
        assert!(most <= limits.memory_bytes_max, "{most} bytes");
        assert!(!builder.runs.is_empty());
        builder.finish().unwrap();
    }
}
