//! Builds a segment of record batches.
//!
//! Each value is analyzed once. The rows and positions of a term are appended to a list of its own in an arena, and written in
//! the order of the terms when the segment is finished. No memory is allocated for a term that is known. A field has a table of
//! its own, so that the table of a few words stays in the processor's cache beside that of a million ids.
//!
//! With [`BuildLimits`], lists that fill half of the memory are written as a sorted run ([`crate::runs`]), and the runs are
//! merged at the end. The segment is the same.

use std::{collections::BTreeSet, io};

use arrow_array::{Array, ArrayRef};
use swiftwater_text::{
    Analyzer, AnalyzerScratch, ColumnIndex, ColumnReader, SearchField, TERM_BYTES_MAX, Value,
};
use tantivy::fieldnorm::FieldNormReader;
use tantivy_stacker::{ExpUnrolledLinkedList, MemoryArena, SharedArenaHashMap};

use crate::{
    encoding::{FieldsWriter, Parts, TermsWriter},
    fields::{FieldKind, IndexField, fields_of},
    numbers::Numbers,
    phrases::VALUE_GAP,
    runs::{Run, RunTerm, Runs, RunsReader},
    scratch::BuildLimits,
    segment::Segment,
    terms::{PRESENT, is_stem, push_boolean, push_number, push_text, push_word},
};

/// Slots of the table of a field at the beginning; it grows.
const TERMS_AT_FIRST: usize = 1 << 6;

/// Builds the segment of a data file, or of a part of it.
pub struct IndexBuilder {
    /// The names of all columns.
    names: BTreeSet<String>,
    columns: Vec<Column>,
    fields: Vec<FieldState>,
    memory: Memory,
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
    /// The lists of its terms, by key.
    terms: SharedArenaHashMap,
    /// The list of its only term, if it is of presence.
    present: TermList,
}

/// The memory of all fields.
#[derive(Default)]
struct Memory {
    keys: MemoryArena,
    lists: MemoryArena,
    /// A key.
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
            fields.push(FieldState {
                field,
                lengths: Vec::new(),
                terms: SharedArenaHashMap::with_capacity(TERMS_AT_FIRST),
                present: TermList::default(),
            });
        }
        let (reader, scratch) = (ColumnReader::default(), AnalyzerScratch::default());
        IndexBuilder {
            names: columns.iter().map(|column| column.name.to_string()).collect(),
            columns: indexed,
            fields,
            memory: Memory::default(),
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
        match self.limits.clone() {
            Some(limits) if self.memory_bytes() > limits.memory_bytes_max / 2 => {
                let run = self.take_run(&limits)?;
                self.runs.push(run, &limits)
            }
            _ => Ok(()),
        }
    }

    /// Writes all lists as a run, and begins anew.
    fn take_run(&mut self, limits: &BuildLimits) -> io::Result<Run> {
        let mut run = Run::new(limits);
        let Memory { keys, lists, .. } = &self.memory;
        let (mut bytes, mut run_key) = (Vec::new(), Vec::new());
        for (number, state) in self.fields.iter_mut().enumerate() {
            for (_, key, list) in sorted_terms(&state.terms, state.present, keys) {
                run_key.clear();
                run_key.extend_from_slice(&field_prefix(number));
                run_key.extend_from_slice(key);
                bytes.clear();
                list.list.read_to_end(lists, &mut bytes);
                run.push(&run_key, list.of_run(&bytes), &bytes)?;
            }
            state.terms = SharedArenaHashMap::with_capacity(TERMS_AT_FIRST);
            state.present = TermList::default();
        }
        self.memory = Memory::default();
        Ok(run)
    }

    /// The rows so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The memory that its terms have, in bytes.
    fn memory_bytes(&self) -> usize {
        let tables: usize = self.fields.iter().map(|field| field.terms.mem_usage()).sum();
        self.memory.keys.mem_usage() + self.memory.lists.mem_usage() + tables
    }

    fn add_value(&mut self, number: usize, array: &dyn Array, at: usize) {
        let IndexBuilder { columns, fields, memory, rows, reader, scratch, .. } = self;
        let column = &columns[number];
        let row = *rows + at as u32;
        let mut texts = RowTexts::default();
        let mut is_present = false;
        reader.for_each_value(&column.field, array, at, |value| {
            is_present = true;
            for state in &mut fields[column.fields.clone()] {
                match state.field.kind {
                    FieldKind::Presence => {}
                    FieldKind::Words | FieldKind::WordCounts => {
                        if let Value::Text(text) = value {
                            texts.add(text, row, column, (state, memory), scratch);
                        }
                    }
                    FieldKind::Values => state.add_value(row, value, memory),
                    FieldKind::Categories => state.add_category(row, value, &column.index, memory),
                }
            }
        });
        if is_present {
            let presence = &mut fields[column.fields.start];
            presence.present.record(&mut memory.lists, FieldKind::Presence, row, 0);
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
        match self.limits.clone() {
            Some(limits) if !self.runs.is_empty() => {
                let mut runs = std::mem::take(&mut self.runs);
                runs.push(self.take_run(&limits)?, &limits)?;
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
        let Memory { keys, lists, .. } = &self.memory;
        let (mut bytes, mut positions) = (Vec::new(), Vec::new());
        for (number, state) in self.fields.iter_mut().enumerate() {
            let FieldState { field, lengths, terms, present } = state;
            let terms = sorted_terms(terms, *present, keys);
            let mut writer = writer.field(number, field, lengths)?;
            for (_, key, list) in &terms {
                bytes.clear();
                list.list.read_to_end(lists, &mut bytes);
                writer.new_term(key);
                write_rows(list.of_run(&bytes), field.kind, &bytes, &mut positions, &mut writer);
                writer.close_term()?;
            }
            writer.close()?;
            field.terms = terms.len() as u64;
        }
        writer.close()
    }
}

/// The number of a field before the keys of its terms in a run.
fn field_prefix(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

/// Writes the terms of runs.
fn write_runs(runs: &[Run], fields: &mut [FieldState], parts: &mut Parts) -> io::Result<()> {
    let mut writer = FieldsWriter::new(parts);
    let mut terms = RunsReader::new(runs)?;
    let (mut key, mut list, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for (number, FieldState { field, lengths, .. }) in fields.iter_mut().enumerate() {
        let prefix = field_prefix(number);
        let mut writer = writer.field(number, field, lengths)?;
        field.terms = 0;
        while terms.next_key(&prefix).is_some() && terms.next_term(&mut key)? {
            writer.new_term(&key[prefix.len()..]);
            for at in 0..terms.lists() {
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
        row: u32,
        column: &Column,
        (state, memory): (&mut FieldState, &mut Memory),
        scratch: &mut AnalyzerScratch,
    ) {
        let (first, mut end) = (self.next, self.next);
        column.analyzer.for_each_token(text, scratch, |token| {
            let position = first.saturating_add(token.position);
            end = position;
            self.tokens += 1;
            if token.text.len() <= TERM_BYTES_MAX && !is_stem(token.kind) {
                // Its key is the text itself.
                state.record(token.text.as_bytes(), row, position, memory);
            } else {
                state.record_with(row, position, memory, |key| push_word(token.kind, token.text, key));
            }
        });
        self.next = end.saturating_add(VALUE_GAP);
    }
}

impl FieldState {
    /// Adds a whole value.
    fn add_value(&mut self, row: u32, value: Value<'_>, memory: &mut Memory) {
        match value {
            Value::Text(text) => self.record_with(row, 0, memory, |key| push_text(text, key)),
            Value::Number(of) => self.record_with(row, 0, memory, |key| push_number(of, key)),
            Value::Boolean(of) => self.record_with(row, 0, memory, |key| push_boolean(of, key)),
            Value::Time(_) => {}
        }
    }

    /// Adds a value and its ancestors.
    fn add_category(&mut self, row: u32, value: Value<'_>, index: &ColumnIndex, memory: &mut Memory) {
        let Value::Text(text) = value else { return };
        self.record_with(row, 0, memory, |key| push_text(text, key));
        let separator = index.facet.as_ref().and_then(|facet| facet.separator.as_deref());
        for (at, _) in separator.into_iter().flat_map(|separator| text.match_indices(separator)) {
            self.record_with(row, 0, memory, |key| push_text(&text[..at], key));
        }
    }

    /// Records that a row has a term, whose key is to be written, at a position.
    fn record_with(
        &mut self,
        row: u32,
        position: u32,
        memory: &mut Memory,
        push_key: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut key = std::mem::take(&mut memory.key);
        key.clear();
        push_key(&mut key);
        self.record(&key, row, position, memory);
        memory.key = key;
    }

    /// Records that a row has a term at a position.
    fn record(&mut self, key: &[u8], row: u32, position: u32, memory: &mut Memory) {
        let Memory { keys, lists, .. } = memory;
        let kind = self.field.kind;
        self.terms.mutate_or_create(key, keys, |list: Option<TermList>| {
            let mut list = list.unwrap_or_default();
            list.record(lists, kind, row, position);
            list
        });
    }
}

/// Terms in the order of their keys, each after its [`key_start`].
fn sorted_terms<'k>(
    terms: &'k SharedArenaHashMap,
    present: TermList,
    keys: &'k MemoryArena,
) -> Vec<(u64, &'k [u8], TermList)> {
    let mut sorted = Vec::with_capacity(terms.len().max(1));
    if present.rows > 0 {
        sorted.push((0, PRESENT, present));
    }
    sorted.extend(terms.iter(keys).map(|(key, address)| (key_start(key), key, keys.read(address))));
    sorted.sort_unstable_by(|(start, key, _), (other_start, other, _)| {
        start.cmp(other_start).then_with(|| key.cmp(other))
    });
    sorted
}

/// The first eight bytes of a key as a number. Numbers that differ compare as the keys do, without a read of the keys.
fn key_start(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

impl TermList {
    fn record(&mut self, arena: &mut MemoryArena, kind: FieldKind, row: u32, position: u32) {
        let mut numbers = Encoded::default();
        if self.rows == 0 || self.row != row {
            if self.rows > 0 {
                match kind {
                    // Ends the positions of the row before.
                    FieldKind::Words => numbers.push(0),
                    FieldKind::WordCounts => numbers.push(self.count),
                    _ => {}
                }
            }
            numbers.push(row - self.row);
            (self.row, self.rows, self.count, self.position) = (row, self.rows + 1, 0, 0);
        }
        // A word and its first part are one term.
        let is_known = self.count > 0 && self.position == position;
        if kind.has_lengths() && !is_known {
            if kind == FieldKind::Words {
                numbers.push(position - self.position + 1);
            }
            self.count += 1;
            self.position = position;
        }
        self.list.writer(arena).extend_from_slice(numbers.bytes());
    }

    /// Its rows, recorded as `bytes`, without its key.
    fn of_run(&self, bytes: &[u8]) -> RunTerm {
        RunTerm { rows: self.rows, count: self.count, bytes: bytes.len() as u32 }
    }
}

/// Writes the rows of a term that were recorded as `bytes`.
fn write_rows<W: io::Write>(
    term: RunTerm,
    kind: FieldKind,
    bytes: &[u8],
    positions: &mut Vec<u32>,
    writer: &mut TermsWriter<'_, W>,
) {
    let mut numbers = Numbers { bytes }.map(|number| number as u32);
    let mut row = 0;
    for at in 0..term.rows {
        row += numbers.next().unwrap_or(0);
        let is_last = at + 1 == term.rows;
        match kind {
            FieldKind::Words => {
                positions.clear();
                // The first is absolute, the others are differences.
                positions.extend(numbers.by_ref().take_while(|number| *number > 0).map(|number| number - 1));
                writer.write_row(row, positions.len() as u32, positions);
            }
            FieldKind::WordCounts if is_last => writer.write_row(row, term.count, &[]),
            FieldKind::WordCounts => writer.write_row(row, numbers.next().unwrap_or(1), &[]),
            _ => writer.write_row(row, 1, &[]),
        }
    }
}

/// The numbers of one occurrence, at most three of 32 bits.
#[derive(Default)]
struct Encoded {
    bytes: [u8; 16],
    length: usize,
}

impl Encoded {
    #[inline]
    fn push(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes[self.length] = number as u8 | 0x80;
            number >>= 7;
            self.length += 1;
        }
        self.bytes[self.length] = number as u8;
        self.length += 1;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
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
                most = most.max(builder.memory_bytes());
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
