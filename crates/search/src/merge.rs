//! Merges companions into the segment of all their rows, without their texts.

use std::collections::BTreeSet;

use swiftwater_text::SearchField;
use tantivy::{
    DocSet, TERMINATED,
    postings::{Postings, SegmentPostings, TermInfo},
};

use crate::{
    companion::Companion,
    encoding::{FieldsWriter, Parts, TermsWriter},
    error::CompanionError,
    fields::{IndexField, fields_of},
    scratch::BuildLimits,
    segment::Segment,
};

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
/// the rows. Their dictionaries ([`Companion::dictionary_bytes`]) are in memory meanwhile.
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
                sources.push((input.segment.terms(found)?, *base));
            }
        }
        let mut writer = writer.field(number, field, &lengths)?;
        field.terms = merge_terms(&sources, field, &mut writer)?;
        writer.close()?;
    }
    writer.close()?;
    Ok(Segment { rows, columns, fields, parts })
}

type Source = (std::sync::Arc<tantivy::InvertedIndexReader>, u32);

/// Writes the terms of all sources in the order of their keys; answers how many.
fn merge_terms(
    sources: &[Source],
    field: &IndexField,
    writer: &mut TermsWriter<'_, '_>,
) -> Result<u64, CompanionError> {
    let mut streams = Vec::with_capacity(sources.len());
    for (terms, _) in sources {
        let mut stream = terms.terms().stream().map_err(CompanionError::from_read)?;
        streams.push(stream.advance().then_some(stream));
    }
    let (mut key, mut count, mut positions) = (Vec::new(), 0, Vec::new());
    let mut found: Vec<(usize, TermInfo)> = Vec::new();
    loop {
        let least = streams.iter().flatten().map(|stream| stream.key()).min();
        let Some(least) = least else { return Ok(count) };
        key.clear();
        key.extend_from_slice(least);
        found.clear();
        for (number, slot) in streams.iter_mut().enumerate() {
            if let Some(stream) = slot.as_mut().filter(|stream| stream.key() == key) {
                found.push((number, stream.value().clone()));
                if !stream.advance() {
                    *slot = None;
                }
            }
        }
        let rows: u32 = found.iter().map(|(_, term)| term.doc_freq).sum();
        writer.new_term(&key, rows, field.kind.has_lengths())?;
        for (number, term) in &found {
            let (terms, base) = &sources[*number];
            let postings = terms.read_postings_from_terminfo(term, field.kind.record_option());
            copy_rows(postings.map_err(CompanionError::from_read)?, *base, field, writer, &mut positions);
        }
        writer.close_term()?;
        count += 1;
    }
}

fn copy_rows(
    mut postings: SegmentPostings,
    base: u32,
    field: &IndexField,
    writer: &mut TermsWriter<'_, '_>,
    positions: &mut Vec<u32>,
) {
    let has_positions = field.kind.record_option().has_positions();
    while postings.doc() != TERMINATED {
        positions.clear();
        if has_positions {
            postings.positions(positions);
            let mut before = 0;
            for position in positions.iter_mut() {
                let delta = *position - before;
                before = std::mem::replace(position, delta);
            }
        }
        let count = if field.kind.has_lengths() { postings.term_freq() } else { 1 };
        writer.write_doc(base + postings.doc(), count, positions);
        postings.advance();
    }
}
