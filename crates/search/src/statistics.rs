//! The frequencies of the words of a query in the rows of a companion, as a scan of the rows would count them.

use roaring::RoaringBitmap;
use swiftwater_text::{ScoreStatistics, TableSearch, TokenKind, WordsOfColumns};

use crate::{
    companion::Companion,
    error::CompanionError,
    fields::FieldKind,
    select::{FoundField, rows_of},
    terms::{may_be_shortened, push_word},
};

impl Companion {
    /// The frequencies of a query's words; none if only the rows tell: where they have the event's own text beside columns, or
    /// words too long for the index.
    pub fn statistics(&self, search: &TableSearch) -> Result<Option<ScoreStatistics>, CompanionError> {
        let Some(words) = search.scored_words() else { return Ok(None) };
        let mut statistics = search.no_statistics();
        for (number, words) in words.iter().enumerate() {
            match self.count(words)? {
                Some((rows, tokens, found)) => statistics.set(number, rows, tokens, &found),
                None => return Ok(None),
            }
        }
        Ok(Some(statistics))
    }

    /// The rows with a token in one of the columns, the tokens, and the rows of each word.
    fn count(&self, words: &WordsOfColumns) -> Result<Option<(u64, u64, Vec<u64>)>, CompanionError> {
        if let Some(event) = &words.event {
            match self.field(event, &[FieldKind::Presence]) {
                FoundField::Field(number) if self.fields[number].rows == 0 => {}
                FoundField::NoColumn => {}
                _ => return Ok(None),
            }
        }
        let mut fields = Vec::with_capacity(words.columns.len());
        for column in &words.columns {
            match self.field(column, &[FieldKind::Words, FieldKind::WordCounts]) {
                FoundField::Field(number) => fields.push(number),
                FoundField::NoColumn => {}
                FoundField::Other => return Ok(None),
            }
        }
        let rows = match fields.as_slice() {
            [] => 0,
            [number] => self.fields[*number].rows,
            numbers => self.rows_with_tokens(numbers)?,
        };
        let tokens = fields.iter().map(|number| self.fields[*number].tokens).sum();
        let mut found = Vec::with_capacity(words.words.len());
        for (is_stem, word) in &words.words {
            if may_be_shortened(word) {
                return Ok(None);
            }
            found.push(self.rows_with_word(&fields, *is_stem, word)?);
        }
        Ok(Some((rows, tokens, found)))
    }

    fn rows_with_tokens(&self, fields: &[usize]) -> Result<u64, CompanionError> {
        let mut lengths = Vec::with_capacity(fields.len());
        for number in fields {
            lengths.push(self.segment.lengths(*number)?);
        }
        let has_tokens = |row: &u32| lengths.iter().any(|lengths| lengths.fieldnorm_id(*row) > 0);
        Ok((0..self.rows).filter(has_tokens).count() as u64)
    }

    fn rows_with_word(&self, fields: &[usize], is_stem: bool, word: &str) -> Result<u64, CompanionError> {
        let mut key = Vec::new();
        push_word(if is_stem { TokenKind::Stem } else { TokenKind::Word }, word, &mut key);
        let mut rows = RoaringBitmap::new();
        for number in fields {
            let terms = self.segment.terms(*number)?;
            let Some(term) = terms.get(&key).map_err(CompanionError::from_read)? else { continue };
            if fields.len() == 1 {
                return Ok(u64::from(term.doc_freq));
            }
            rows |= rows_of(&terms, &term)?;
        }
        Ok(rows.len())
    }
}
