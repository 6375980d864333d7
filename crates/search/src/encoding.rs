//! Writes the fields of a segment: rows, counts and positions in tantivy's encodings.

use std::io;

use tantivy::{
    directory::CompositeWrite,
    positions::PositionSerializer,
    postings::{TermInfo, serializer::PostingsSerializer},
    schema::Field,
};

use crate::{
    dictionary::{DictionaryWriter, write_dictionary},
    fields::{FieldKind, IndexField},
    scratch::{BuildLimits, Spool},
};

/// The rows of a block of postings: a term with as many or more begins with whole blocks.
pub(crate) const BLOCK_ROWS: u32 = 128;

/// The bytes of the number of tokens before the postings of a field.
pub(crate) const TOKENS_BYTES: usize = size_of::<u64>();

/// The bytes of a segment, by what they are.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Parts {
    /// The dictionaries of terms.
    pub(crate) terms: Spool,
    /// The rows of each term.
    pub(crate) postings: Spool,
    /// The positions of each term in each row.
    pub(crate) positions: Spool,
    /// The lengths of texts by row, one byte each.
    pub(crate) lengths: Spool,
}

impl Parts {
    /// Parts without bytes; none: all that are written stay in memory.
    pub(crate) fn new(limits: Option<&BuildLimits>) -> Parts {
        let spool = || Spool::new(limits);
        Parts { terms: spool(), postings: spool(), positions: spool(), lengths: spool() }
    }
}

/// Writes the fields of a segment, one after the other.
pub(crate) struct FieldsWriter<'p> {
    terms: CompositeWrite<&'p mut Spool>,
    postings: CompositeWrite<&'p mut Spool>,
    positions: CompositeWrite<&'p mut Spool>,
    lengths: CompositeWrite<&'p mut Spool>,
}

/// Writes the terms of a field, in the order of their keys.
pub(crate) struct TermsWriter<'w, W: io::Write> {
    kind: FieldKind,
    dictionary: DictionaryWriter<&'w mut W>,
    postings: &'w mut W,
    rows: PostingsSerializer,
    positions: Option<PositionSerializer<&'w mut W>>,
    key: Vec<u8>,
    /// The term that is written.
    term: TermInfo,
    /// Its postings.
    encoded: Vec<u8>,
}

impl<'p> FieldsWriter<'p> {
    pub(crate) fn new(parts: &'p mut Parts) -> FieldsWriter<'p> {
        FieldsWriter {
            terms: CompositeWrite::wrap(&mut parts.terms),
            postings: CompositeWrite::wrap(&mut parts.postings),
            positions: CompositeWrite::wrap(&mut parts.positions),
            lengths: CompositeWrite::wrap(&mut parts.lengths),
        }
    }

    /// Begins the field of a number. `lengths` has a byte for each row, if the field has lengths.
    pub(crate) fn field(
        &mut self,
        number: usize,
        field: &IndexField,
        lengths: &[u8],
    ) -> io::Result<TermsWriter<'_, impl io::Write + use<'p>>> {
        let id = Field::from_field_id(number as u32);
        if field.kind.has_lengths() {
            io::Write::write_all(self.lengths.for_field(id), lengths)?;
        }
        let postings = self.postings.for_field(id);
        io::Write::write_all(postings, &field.tokens.to_le_bytes())?;
        let positions = self.positions.for_field(id);
        Ok(TermsWriter {
            kind: field.kind,
            dictionary: write_dictionary(self.terms.for_field(id))?,
            postings,
            rows: postings_serializer(field.kind),
            positions: (field.kind == FieldKind::Words).then(|| PositionSerializer::new(positions)),
            key: Vec::new(),
            term: TermInfo::default(),
            encoded: Vec::new(),
        })
    }

    pub(crate) fn close(self) -> io::Result<()> {
        self.terms.close()?;
        self.postings.close()?;
        self.positions.close()?;
        self.lengths.close()
    }
}

/// Without lengths, as it would compute the best score of each block of them, which nothing reads.
fn postings_serializer(kind: FieldKind) -> PostingsSerializer {
    PostingsSerializer::new(0.0, kind.record_option(), None)
}

impl<W: io::Write> TermsWriter<'_, W> {
    /// Begins a term. Its key is above those before.
    pub(crate) fn new_term(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.term.doc_freq = 0;
        self.rows.new_term(0, self.kind.has_lengths());
    }

    /// Writes a row, in which the term is so often. The first position is absolute, the others are differences.
    #[inline]
    pub(crate) fn write_row(&mut self, row: u32, count: u32, positions: &[u32]) {
        self.term.doc_freq += 1;
        self.rows.write_doc(row, count);
        if let Some(writer) = &mut self.positions {
            writer.write_positions_delta(positions);
        }
    }

    pub(crate) fn close_term(&mut self) -> io::Result<()> {
        let TermInfo { doc_freq: rows, postings_range: postings, positions_range: positions } =
            &mut self.term;
        self.encoded.clear();
        self.rows.close_term(*rows, &mut self.encoded)?;
        if *rows >= BLOCK_ROWS {
            // It does not forget the last row of the last block.
            self.rows = postings_serializer(self.kind);
        }
        self.postings.write_all(&self.encoded)?;
        *postings = postings.end..postings.end + self.encoded.len();
        if let Some(writer) = &mut self.positions {
            writer.close_term()?;
            *positions = positions.end..writer.written_bytes() as usize;
        }
        self.dictionary.insert(&self.key, &self.term)
    }

    pub(crate) fn close(self) -> io::Result<()> {
        self.dictionary.finish()?;
        self.positions.map_or(Ok(()), PositionSerializer::close)
    }
}
