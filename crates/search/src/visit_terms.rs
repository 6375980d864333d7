//! The terms of a companion, one after the other, with the bytes that they take.

use crate::{companion::Companion, error::CompanionError, fields::IndexField};

impl Companion {
    /// Visits the terms of all fields: each with its field, its key, and the bytes of its key, postings and positions. Reads the
    /// terms, and none of the postings.
    pub fn visit_terms(&self, visit: &mut dyn FnMut(&IndexField, &[u8], u64)) -> Result<(), CompanionError> {
        for (number, field) in self.fields.iter().enumerate() {
            let terms = self.segment.terms(number)?;
            let mut stream = terms.with_prefix(b"").map_err(CompanionError::from_read)?;
            while stream.advance() {
                let (key, term) = (stream.key(), stream.term());
                let bytes = key.len() + term.postings_range.len() + term.positions_range.len();
                visit(field, key, bytes as u64);
            }
        }
        Ok(())
    }
}
