//! Merges companions into the segment of all their rows, without their texts.
//!
//! The dictionaries are read side by side. Most terms have few rows: these are read from the bytes of a window that moves
//! through each file, as the rows of terms follow one another there. tantivy's reader reads the terms with whole blocks.

use std::{cmp::Ordering, collections::BTreeSet, io, ops::Range, sync::Arc};

use swiftwater_text::SearchField;
use tantivy::{
    DocSet, HasLen, TERMINATED,
    directory::{FileSlice, OwnedBytes},
    postings::{Postings, TermInfo},
};

use crate::{
    companion::Companion,
    dictionary::{FieldTerms, TermStream},
    encoding::{BLOCK_ROWS, FieldsWriter, Parts, TermsWriter},
    error::CompanionError,
    fields::{FieldKind, IndexField, fields_of},
    scratch::BuildLimits,
    segment::Segment,
};

/// Bytes of postings or positions that are read at once.
pub(crate) const WINDOW_BYTES: usize = 16 << 10;
/// The windows of a companion.
pub(crate) const WINDOWS: usize = 2;

/// The fields of the segment that a merge makes.
#[derive(Debug, Clone)]
pub struct MergedFields {
    columns: BTreeSet<String>,
    fields: Vec<IndexField>,
}

impl MergedFields {
    /// The fields of a table with these columns, as an [`crate::IndexBuilder`] makes them.
    pub fn new(columns: &[SearchField]) -> MergedFields {
        MergedFields {
            columns: columns.iter().map(|column| column.name.to_string()).collect(),
            fields: fields_of(columns).into_iter().map(|(_, field)| field).collect(),
        }
    }

    /// True if a companion has no other columns and fields. Those that it lacks have no values in its rows.
    pub fn include(&self, input: &Companion) -> bool {
        let is_known = |field: &IndexField| self.fields.iter().any(|known| known.is_same(field));
        input.columns.is_subset(&self.columns) && input.fields.iter().all(is_known)
    }
}

/// The segment of the rows of some companions, one behind the other. It is the one that an [`crate::IndexBuilder`] makes of
/// the rows. Of their dictionaries ([`Companion::dictionary_bytes`]), one field's are in memory at a time.
pub fn merge(
    inputs: &[&Companion],
    merged: MergedFields,
    limits: Option<&BuildLimits>,
) -> Result<Segment, CompanionError> {
    let MergedFields { columns, mut fields } = merged;
    for field in inputs.iter().flat_map(|input| &input.fields) {
        if let Some(known) = fields.iter_mut().find(|known| known.is_same(field)) {
            known.tokens += field.tokens;
            known.rows += field.rows;
        }
    }
    let mut bases = Vec::with_capacity(inputs.len());
    let mut rows = 0_u32;
    for input in inputs {
        bases.push(rows);
        let sum = rows.checked_add(input.rows);
        rows = sum.ok_or_else(|| CompanionError::encoding("there are more than 4,294,967,295 rows"))?;
    }
    let mut parts = Parts::new(limits);
    let mut writer = FieldsWriter::new(&mut parts);
    for (number, field) in fields.iter_mut().enumerate() {
        let mut lengths = Vec::new();
        let mut sources = Vec::new();
        for (input, base) in inputs.iter().zip(&bases) {
            let found = input.fields.iter().position(|known| known.is_same(field));
            if field.kind.has_lengths() {
                match found {
                    Some(found) => {
                        let norms = input.segment.lengths(found)?;
                        lengths.extend((0..input.rows).map(|row| norms.fieldnorm_id(row)));
                    }
                    None => lengths.resize(lengths.len() + input.rows as usize, 0),
                }
            }
            if let Some(found) = found {
                sources.push(Source::new(input.segment.terms(found)?, *base));
            }
        }
        let mut writer = writer.field(number, field, &lengths)?;
        field.terms = merge_terms(&mut sources, field.kind, &mut writer)?;
        writer.close()?;
    }
    writer.close()?;
    Ok(Segment { rows, columns, fields, parts })
}

/// A field of a companion.
struct Source {
    terms: Arc<FieldTerms>,
    /// The number of its first row in the merged segment.
    base: u32,
    postings: Window,
    positions: Window,
}

/// Bytes of a file from front to back.
struct Window {
    file: FileSlice,
    /// The place of the bytes.
    start: usize,
    bytes: OwnedBytes,
}

/// The rows of a term that has few, with counts and positions.
#[derive(Default)]
struct RowLists {
    rows: Vec<u32>,
    counts: Vec<u32>,
    /// Those of all rows. The first of a row is absolute, the others are differences.
    positions: Vec<u32>,
}

/// Writes the terms of all sources in the order of their keys; answers how many.
fn merge_terms<W: io::Write>(
    sources: &mut [Source],
    kind: FieldKind,
    writer: &mut TermsWriter<'_, W>,
) -> Result<u64, CompanionError> {
    let dictionaries: Vec<Arc<FieldTerms>> = sources.iter().map(|source| Arc::clone(&source.terms)).collect();
    let mut streams = Vec::with_capacity(sources.len());
    // The numbers of the sources that have a term left, by the key of their next one, the least last.
    let mut order: Vec<usize> = Vec::with_capacity(sources.len());
    for (number, terms) in dictionaries.iter().enumerate() {
        let mut stream = terms.with_prefix(b"").map_err(CompanionError::from_read)?;
        let has_term = stream.advance();
        streams.push(stream);
        if has_term {
            insert(&mut order, &streams, number);
        }
    }
    let (mut key, mut count, mut lists) = (Vec::new(), 0, RowLists::default());
    while let Some(&first) = order.last() {
        key.clear();
        key.extend_from_slice(streams[first].key());
        writer.new_term(&key);
        while let Some(number) = order.pop_if(|number| streams[*number].key() == key) {
            let copied = sources[number].copy(streams[number].term(), kind, &mut lists, writer);
            copied.map_err(CompanionError::from_read)?;
            if streams[number].advance() {
                insert(&mut order, &streams, number);
            }
        }
        writer.close_term()?;
        count += 1;
    }
    Ok(count)
}

/// Inserts a source at its place.
fn insert(order: &mut Vec<usize>, streams: &[TermStream<'_>], number: usize) {
    let is_before = |other: &usize| {
        let by_key = streams[*other].key().cmp(streams[number].key());
        // Sources with the same term are read in the order of their rows.
        by_key.then(other.cmp(&number)) == Ordering::Greater
    };
    order.insert(order.partition_point(is_before), number);
}

impl Source {
    fn new(terms: Arc<FieldTerms>, base: u32) -> Source {
        let window = |file: &FileSlice| Window { file: file.clone(), start: 0, bytes: OwnedBytes::empty() };
        let (postings, positions) = (window(terms.postings()), window(terms.positions()));
        Source { terms, base, postings, positions }
    }

    /// Copies the rows of a term: all at once if they are few, else one by one.
    fn copy<W: io::Write>(
        &mut self,
        term: &TermInfo,
        kind: FieldKind,
        lists: &mut RowLists,
        writer: &mut TermsWriter<'_, W>,
    ) -> io::Result<()> {
        lists.clear();
        if term.doc_freq < BLOCK_ROWS && self.read_short(term, kind, lists)? {
            lists.write(self.base, kind, writer);
            return Ok(());
        }
        let mut postings = self.terms.rows(term, kind.record_option())?;
        let positions = &mut lists.positions;
        positions.clear();
        while postings.doc() != TERMINATED {
            if kind == FieldKind::Words {
                postings.positions(positions);
                let mut before = 0;
                for position in positions.iter_mut() {
                    let delta = *position - before;
                    before = std::mem::replace(position, delta);
                }
            }
            let count = if kind.has_lengths() { postings.term_freq() } else { 1 };
            writer.write_row(self.base + postings.doc(), count, positions);
            postings.advance();
        }
        Ok(())
    }

    /// Reads the rows of a term without whole blocks; false if its positions have some.
    fn read_short(&mut self, term: &TermInfo, kind: FieldKind, lists: &mut RowLists) -> io::Result<bool> {
        let count = term.doc_freq as usize;
        let mut bytes = self.postings.read(&term.postings_range)?;
        let mut row = 0;
        for _ in 0..count {
            row += next_number(&mut bytes)?;
            lists.rows.push(row);
        }
        if kind.has_lengths() {
            for _ in 0..count {
                lists.counts.push(next_number(&mut bytes)?);
            }
        }
        if kind == FieldKind::Words {
            let mut bytes = self.positions.read(&term.positions_range)?;
            let blocks = next_number(&mut bytes)?;
            if blocks > 0 {
                return Ok(false);
            }
            while !bytes.is_empty() {
                lists.positions.push(next_number(&mut bytes)?);
            }
        }
        Ok(true)
    }
}

/// Takes a number in tantivy's encoding: seven bits a byte, the lowest first, the highest bit of the last byte set.
#[inline]
fn next_number(bytes: &mut &[u8]) -> io::Result<u32> {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first()
        && shift < u32::BITS
    {
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if *byte >= 0x80 {
            return Ok(number);
        }
        shift += 7;
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

impl Window {
    /// The bytes of a range, which begins at the end of the range before or behind it.
    fn read(&mut self, range: &Range<usize>) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len();
        if range.start < self.start || range.end > end {
            let end = range.end.max(range.start.saturating_add(WINDOW_BYTES).min(self.file.len()));
            self.bytes = self.file.read_bytes_slice(range.start..end)?;
            self.start = range.start;
        }
        let range = range.start - self.start..range.end - self.start;
        self.bytes.get(range).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl RowLists {
    fn clear(&mut self) {
        self.rows.clear();
        self.counts.clear();
        self.positions.clear();
    }

    fn write<W: io::Write>(&self, base: u32, kind: FieldKind, writer: &mut TermsWriter<'_, W>) {
        let mut rest = self.positions.as_slice();
        for (at, row) in self.rows.iter().enumerate() {
            let count = if kind.has_lengths() { self.counts[at] } else { 1 };
            let positions;
            (positions, rest) = rest.split_at(rest.len().min(count as usize));
            writer.write_row(base + row, count, positions);
        }
    }
}
