//! Builds a segment of record batches.
//!
//! Each value is analyzed once. The rows and positions of a term are appended to a list of its own in an arena, and written in
//! the order of the terms when the segment is finished. No memory is allocated for a term that is known. A field has a table of
//! its own, so that the table of a few words stays in the processor's cache beside that of a million ids.

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
    pub fn new(columns: &[SearchField]) -> IndexBuilder {
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
        }
    }

    /// The places of the columns that are read.
    pub fn places(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.place).collect()
    }

    /// Adds rows. `arrays` are the columns of [`IndexBuilder::places`], in their order, of `rows` rows each.
    pub fn add(&mut self, arrays: &[ArrayRef], rows: usize) {
        for (number, array) in arrays.iter().enumerate().take(self.columns.len()) {
            for row in 0..rows {
                self.add_value(number, &**array, row);
            }
        }
        self.rows += rows as u32;
    }

    /// The rows so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The memory that it has, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of_field = |field: &FieldState| field.terms.mem_usage() + field.lengths.capacity();
        let fields: usize = self.fields.iter().map(of_field).sum();
        self.memory.keys.mem_usage() + self.memory.lists.mem_usage() + fields
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
        let mut parts = Parts::default();
        let mut writer = FieldsWriter::new(&mut parts);
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
                list.write(field.kind, &bytes, &mut positions, &mut writer);
                writer.close_term()?;
            }
            writer.close()?;
            field.terms = terms.len() as u64;
        }
        writer.close()?;
        let fields = self.fields.into_iter().map(|state| state.field).collect();
        Ok(Segment { rows: self.rows, columns: self.names, fields, parts })
    }
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

    /// Writes the rows that were recorded as `bytes`.
    fn write<W: io::Write>(
        &self,
        kind: FieldKind,
        bytes: &[u8],
        positions: &mut Vec<u32>,
        writer: &mut TermsWriter<'_, W>,
    ) {
        let mut numbers = Numbers { bytes }.map(|number| number as u32);
        let mut row = 0;
        for at in 0..self.rows {
            row += numbers.next().unwrap_or(0);
            let is_last = at + 1 == self.rows;
            match kind {
                FieldKind::Words => {
                    positions.clear();
                    // The first is absolute, the others are differences.
                    positions
                        .extend(numbers.by_ref().take_while(|number| *number > 0).map(|number| number - 1));
                    writer.write_row(row, positions.len() as u32, positions);
                }
                FieldKind::WordCounts if is_last => writer.write_row(row, self.count, &[]),
                FieldKind::WordCounts => writer.write_row(row, numbers.next().unwrap_or(1), &[]),
                _ => writer.write_row(row, 1, &[]),
            }
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
