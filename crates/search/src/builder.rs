//! Builds a segment of record batches.
//!
//! Each value is analyzed once. The rows and positions of a term are appended to a list of its own in an arena, and written in
//! the order of the terms when the segment is finished. No memory is allocated for a term that is known.

use std::{collections::BTreeSet, io};

use arrow_array::{Array, ArrayRef};
use swiftwater_text::{Analyzer, AnalyzerScratch, ColumnIndex, ColumnReader, SearchField, Value};
use tantivy::fieldnorm::FieldNormReader;
use tantivy_stacker::{ArenaHashMap, ExpUnrolledLinkedList, MemoryArena};

use crate::{
    encoding::{FieldsWriter, Parts, TermsWriter},
    fields::{FieldKind, IndexField, fields_of},
    phrases::VALUE_GAP,
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
            fields.push(FieldState { field, lengths: Vec::new() });
        }
        let lists = Lists {
            terms: ArenaHashMap::with_capacity(TERMS_AT_FIRST),
            arena: MemoryArena::default(),
            key: Vec::new(),
        };
        let (reader, scratch) = (ColumnReader::default(), AnalyzerScratch::default());
        IndexBuilder {
            names: columns.iter().map(|column| column.name.to_string()).collect(),
            columns: indexed,
            fields,
            lists,
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
        let lengths: usize = self.fields.iter().map(|field| field.lengths.capacity()).sum();
        self.lists.terms.mem_usage() + self.lists.arena.mem_usage() + lengths
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
        let mut parts = Parts::default();
        let mut writer = FieldsWriter::new(&mut parts);
        let mut terms: Vec<(&[u8], TermList)> = Vec::with_capacity(self.lists.terms.len());
        terms.extend(self.lists.terms.iter().map(|(key, address)| (key, self.lists.terms.read(address))));
        terms.sort_unstable_by_key(|(key, _)| *key);
        let (mut from, mut bytes, mut positions) = (0, Vec::new(), Vec::new());
        for (number, FieldState { field, lengths }) in self.fields.iter_mut().enumerate() {
            let prefix = (number as u16).to_be_bytes();
            let count = terms[from..].partition_point(|(key, _)| key.starts_with(&prefix));
            let mut writer = writer.field(number, field, lengths)?;
            for (key, list) in &terms[from..from + count] {
                bytes.clear();
                list.list.read_to_end(&self.lists.arena, &mut bytes);
                writer.new_term(&key[prefix.len()..], list.rows, field.kind.has_lengths())?;
                list.write(field.kind, &bytes, &mut positions, &mut writer);
                writer.close_term()?;
            }
            writer.close()?;
            field.terms = count as u64;
            from += count;
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

impl Lists {
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

    /// Writes the rows that were recorded as `bytes`.
    fn write(
        &self,
        kind: FieldKind,
        bytes: &[u8],
        positions: &mut Vec<u32>,
        writer: &mut TermsWriter<'_, '_>,
    ) {
        let mut numbers = Numbers { bytes };
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
                    writer.write_doc(row, positions.len() as u32, positions);
                }
                FieldKind::WordCounts if is_last => writer.write_doc(row, self.count, &[]),
                FieldKind::WordCounts => writer.write_doc(row, numbers.next().unwrap_or(1), &[]),
                _ => writer.write_doc(row, 1, &[]),
            }
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
