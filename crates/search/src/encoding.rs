//! Writes the fields of a segment in tantivy's encodings.

use std::io;

use tantivy::{
    directory::{CompositeWrite, FileSlice},
    fieldnorm::FieldNormReader,
    postings::FieldSerializer,
    schema::Field,
};

use crate::{
    fields::IndexField,
    scratch::{BuildLimits, Spool},
};

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
pub(crate) type TermsWriter<'w, 'p> = FieldSerializer<'w, &'p mut Spool>;

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
    ) -> io::Result<TermsWriter<'_, 'p>> {
        let id = Field::from_field_id(number as u32);
        let mut norms = None;
        if field.kind.has_lengths() {
            io::Write::write_all(self.lengths.for_field(id), lengths)?;
            let bytes = FileSlice::from(lengths.to_vec());
            norms = Some(FieldNormReader::open(bytes).map_err(io::Error::other)?);
        }
        FieldSerializer::create(
            field.kind.record_option(),
            field.tokens,
            self.terms.for_field(id),
            self.postings.for_field(id),
            self.positions.for_field(id),
            norms,
        )
    }

    pub(crate) fn close(self) -> io::Result<()> {
        self.terms.close()?;
        self.postings.close()?;
        self.positions.close()?;
        self.lengths.close()
    }
}
