//! The rows that a query selects.
//!
//! Each clause has two sets of rows: those that certainly satisfy it, and those that possibly do. The rows between are for the
//! caller to evaluate. `NOT` exchanges the complements of the two, so a clause that the index cannot answer costs no answer.

use roaring::RoaringBitmap;
use swiftwater_text::{
    EventRows, IndexCondition, IndexLeaf, IndexQuery, Pattern, Phrase, SearchField, key_prefix,
};
use tantivy::{
    postings::{SegmentPostings, TermInfo},
    schema::IndexRecordOption,
};

use crate::{
    companion::Companion,
    dictionary::FieldTerms,
    error::CompanionError,
    fields::{FieldKind, IndexField, type_name},
    phrases::{PHRASE_TERMS_MAX, PhraseTerm, rows_with_exact_phrase, rows_with_phrase},
    terms::{PRESENT, STEM, TEXT, may_be_shortened, push_boolean, push_number, push_text, push_word},
};

/// Terms that one place of a phrase may have to be looked for by positions.
const PLACE_TERMS_MAX: usize = 1 << 10;

/// The rows of a data file that a query selects.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Rows that satisfy the query.
    pub certain: RoaringBitmap,
    /// Rows that satisfy it or may do so: all others do not.
    pub possible: RoaringBitmap,
}

/// Rows that satisfy a condition on one field, and whether all of them certainly do.
struct Hits {
    rows: RoaringBitmap,
    is_exact: bool,
}

/// A field of a companion: of a column, whether it has the field, and as it is declared.
pub(crate) enum FoundField {
    /// By its number.
    Field(usize),
    /// The data file has no such column, so it has no values.
    NoColumn,
    /// The field is of another type or definition.
    Other,
}

impl Selection {
    fn everything(rows: u32) -> Selection {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..rows);
        Selection { certain: all.clone(), possible: all }
    }

    fn nothing() -> Selection {
        Selection { certain: RoaringBitmap::new(), possible: RoaringBitmap::new() }
    }

    fn unknown(rows: u32) -> Selection {
        Selection { certain: RoaringBitmap::new(), ..Selection::everything(rows) }
    }

    /// True if no row is left to be evaluated.
    pub fn is_exact(&self) -> bool {
        self.certain.len() == self.possible.len()
    }
}

impl Companion {
    /// The rows that a query selects. A column that is in no field of the data file has no values.
    pub fn select(&self, query: &IndexQuery) -> Result<Selection, CompanionError> {
        Ok(match query {
            IndexQuery::Everything => Selection::everything(self.rows),
            IndexQuery::Unknown => Selection::unknown(self.rows),
            IndexQuery::All(all) => {
                let mut found = Selection::everything(self.rows);
                for query in all {
                    let one = self.select(query)?;
                    found.certain &= one.certain;
                    found.possible &= one.possible;
                    if found.possible.is_empty() {
                        break;
                    }
                }
                found
            }
            IndexQuery::Any(any) => {
                let mut found = Selection::nothing();
                for query in any {
                    let one = self.select(query)?;
                    found.certain |= one.certain;
                    found.possible |= one.possible;
                }
                found
            }
            IndexQuery::Not(not) => {
                let not = self.select(not)?;
                let all = Selection::everything(self.rows).certain;
                Selection { certain: &all - not.possible, possible: all - not.certain }
            }
            IndexQuery::Leaf(leaf) => self.select_leaf(leaf)?,
        })
    }

    fn select_leaf(&self, leaf: &IndexLeaf) -> Result<Selection, CompanionError> {
        let mut found = Selection::nothing();
        for (column, condition) in &leaf.columns {
            let Some(hits) = self.hits(condition, column)? else {
                return Ok(Selection::unknown(self.rows));
            };
            if leaf.is_exact && hits.is_exact {
                found.certain |= &hits.rows;
            }
            found.possible |= hits.rows;
        }
        let Some(EventRows { column, condition, precedes_columns }) = &leaf.event else { return Ok(found) };
        let Some(with_event) = self.hits(&IndexCondition::Exists, column)? else {
            return Ok(Selection::unknown(self.rows));
        };
        let possible = match condition {
            Some(condition) => self.hits(condition, column)?.map(|hits| hits.rows),
            None => None,
        };
        found.possible |= possible.unwrap_or_else(|| with_event.rows.clone());
        if *precedes_columns {
            found.certain -= with_event.rows;
        }
        Ok(found)
    }

    /// The rows that satisfy a condition on a column; none if the companion cannot tell.
    fn hits(&self, condition: &IndexCondition, column: &SearchField) -> Result<Option<Hits>, CompanionError> {
        let kinds: &[FieldKind] = match condition {
            IndexCondition::Phrase(_) => &[FieldKind::Words, FieldKind::WordCounts],
            IndexCondition::Whole(_) | IndexCondition::Number(_) | IndexCondition::Boolean(_) => {
                &[FieldKind::Values]
            }
            IndexCondition::Category(_) => &[FieldKind::Categories],
            IndexCondition::Exists => &[FieldKind::Presence],
        };
        let number = match self.field(column, kinds) {
            FoundField::Field(number) => number,
            FoundField::NoColumn => return Ok(Some(Hits { rows: RoaringBitmap::new(), is_exact: true })),
            FoundField::Other => return Ok(None),
        };
        let terms = self.segment.terms(number)?;
        let field = AskedField { terms: &terms, has_positions: self.fields[number].kind == FieldKind::Words };
        let mut key = Vec::new();
        let hits = match condition {
            IndexCondition::Phrase(phrase) => field.phrase(phrase)?,
            IndexCondition::Whole(pattern) | IndexCondition::Category(pattern) => {
                field.matching(Some(TEXT), pattern)?
            }
            IndexCondition::Number(number) => {
                push_number(*number, &mut key);
                field.exactly(&key)?
            }
            IndexCondition::Boolean(boolean) => {
                push_boolean(*boolean, &mut key);
                field.exactly(&key)?
            }
            IndexCondition::Exists => field.exactly(PRESENT)?,
        };
        Ok(Some(hits))
    }

    pub(crate) fn field(&self, column: &SearchField, kinds: &[FieldKind]) -> FoundField {
        let of_column = self.fields.iter().enumerate().filter(|(_, field)| *field.column == *column.name);
        let mut of_column = of_column.peekable();
        if of_column.peek().is_none() {
            // One that the rows had and the definition did not cover is not known.
            return match self.columns.contains(&*column.name) {
                true => FoundField::Other,
                false => FoundField::NoColumn,
            };
        }
        let index = column.index.as_deref().unwrap_or_default();
        let ty = type_name(column);
        let is_asked =
            |field: &IndexField| kinds.contains(&field.kind) && field.ty == ty && field.index == index;
        let found = of_column.find(|(_, field)| is_asked(field));
        found.map_or(FoundField::Other, |(number, _)| FoundField::Field(number))
    }
}

/// The terms that may be at a place of a phrase.
struct Place {
    /// The place, relative to the first term.
    offset: u32,
    /// At most one more than [`PLACE_TERMS_MAX`].
    terms: Vec<TermInfo>,
    /// The rows of all of them; none if they were not read.
    rows: Option<RoaringBitmap>,
    /// True if `terms` are all, and each certainly satisfies the pattern.
    is_exact: bool,
}

/// The terms of one field.
struct AskedField<'f> {
    terms: &'f FieldTerms,
    has_positions: bool,
}

impl AskedField<'_> {
    /// The rows with the term of a key.
    fn exactly(&self, key: &[u8]) -> Result<Hits, CompanionError> {
        let term = self.terms.get(key).map_err(CompanionError::from_read)?;
        let rows = match term {
            Some(term) => self.rows(&term)?,
            None => RoaringBitmap::new(),
        };
        Ok(Hits { rows, is_exact: true })
    }

    /// The rows with a term that satisfies a pattern.
    fn matching(&self, mark: Option<u8>, pattern: &Pattern) -> Result<Hits, CompanionError> {
        let mut hits = Hits { rows: RoaringBitmap::new(), is_exact: true };
        let mut failure = None;
        self.for_each_term(mark, pattern, |term, is_exact| {
            match self.rows(term) {
                Ok(rows) => hits.rows |= rows,
                Err(error) => failure = Some(error),
            }
            hits.is_exact &= is_exact;
            failure.is_none()
        })?;
        failure.map_or(Ok(hits), Err)
    }

    fn phrase(&self, phrase: &Phrase) -> Result<Hits, CompanionError> {
        let mark = |is_stem: bool| is_stem.then_some(STEM);
        if let [(_, term)] = phrase.terms.as_slice() {
            return self.matching(mark(term.is_stem), &term.pattern);
        }
        let mut is_exact =
            self.has_positions && phrase.slop == 0 && phrase.terms.len() <= PHRASE_TERMS_MAX as usize;
        let last = phrase.terms.last().map_or(0, |(offset, _)| *offset);
        is_exact &= last < PHRASE_TERMS_MAX;
        let mut places: Vec<Place> = Vec::with_capacity(phrase.terms.len());
        for (offset, term) in &phrase.terms {
            let place = self.place(*offset, mark(term.is_stem), &term.pattern)?;
            if place.terms.is_empty() {
                return Ok(Hits { rows: RoaringBitmap::new(), is_exact: true });
            }
            is_exact &= place.is_exact;
            places.push(place);
        }
        // The rarest place first, as it leaves the fewest positions to compare.
        places.sort_by_key(|place| place.terms.iter().map(|term| u64::from(term.doc_freq)).sum::<u64>());
        let has_one_term = |place: &Place| place.terms.len() == 1 && place.rows.is_none();
        if is_exact && places.iter().all(has_one_term) {
            return self.exact_phrase(&places);
        }
        let mut all: Option<RoaringBitmap> = None;
        for place in &mut places {
            let rows = match (place.rows.take(), place.terms.first()) {
                (Some(rows), _) => rows,
                (None, Some(term)) => self.rows(term)?,
                (None, None) => RoaringBitmap::new(),
            };
            all = Some(match all {
                Some(before) => before & rows,
                None => rows,
            });
        }
        let all = all.unwrap_or_default();
        if !is_exact || all.is_empty() {
            return Ok(Hits { is_exact: all.is_empty(), rows: all });
        }
        let mut terms = Vec::with_capacity(places.len());
        for place in &places {
            let postings = place.terms.iter().map(|term| self.positions(term));
            terms.push(PhraseTerm { offset: place.offset, postings: postings.collect::<Result<_, _>>()? });
        }
        let mut rows = RoaringBitmap::new();
        rows_with_phrase(&mut terms, all.iter(), |row| {
            rows.insert(row);
        });
        Ok(Hits { rows, is_exact })
    }

    /// The terms that may be at a place of a phrase.
    fn place(&self, offset: u32, mark: Option<u8>, pattern: &Pattern) -> Result<Place, CompanionError> {
        let mut place = Place { offset, terms: Vec::new(), rows: None, is_exact: true };
        let mut failure = None;
        self.for_each_term(mark, pattern, |term, is_whole| {
            place.is_exact &= is_whole;
            // The rows of an only term may be found with their positions.
            if !matches!(pattern, Pattern::Exact(_)) {
                match self.rows(term) {
                    Ok(rows) => *place.rows.get_or_insert_default() |= rows,
                    Err(error) => failure = Some(error),
                }
            }
            if place.terms.len() <= PLACE_TERMS_MAX {
                place.terms.push(term.clone());
            }
            failure.is_none()
        })?;
        place.is_exact &= place.terms.len() <= PLACE_TERMS_MAX;
        failure.map_or(Ok(place), Err)
    }

    /// The rows of a phrase with one term at each place, the rarest first.
    fn exact_phrase(&self, places: &[Place]) -> Result<Hits, CompanionError> {
        let mut terms = Vec::with_capacity(places.len());
        for place in places {
            for term in &place.terms {
                terms.push((place.offset, self.positions(term)?));
            }
        }
        let mut rows = RoaringBitmap::new();
        rows_with_exact_phrase(&mut terms, |row| {
            rows.insert(row);
        });
        Ok(Hits { rows, is_exact: true })
    }

    /// The rows of a term with its positions in them.
    fn positions(&self, term: &TermInfo) -> Result<SegmentPostings, CompanionError> {
        let option = IndexRecordOption::WithFreqsAndPositions;
        self.terms.rows(term, option).map_err(CompanionError::from_read)
    }

    /// Visits the terms that satisfy a pattern, or may do so as their keys are shortened, until the visitor has enough.
    fn for_each_term(
        &self,
        mark: Option<u8>,
        pattern: &Pattern,
        mut visit: impl FnMut(&TermInfo, bool) -> bool,
    ) -> Result<(), CompanionError> {
        let mut key: Vec<u8> = mark.into_iter().collect();
        let marked = key.len();
        if let Pattern::Exact(text) = pattern {
            key.clear();
            match mark {
                Some(TEXT) => push_text(text, &mut key),
                Some(_) => push_word(swiftwater_text::TokenKind::Stem, text, &mut key),
                None => push_word(swiftwater_text::TokenKind::Word, text, &mut key),
            }
            let term = self.terms.get(&key).map_err(CompanionError::from_read)?;
            if let Some(term) = term {
                visit(&term, !may_be_shortened(text));
            }
            return Ok(());
        }
        key.extend_from_slice(key_prefix(pattern.prefix()).as_bytes());
        let mut stream = self.terms.with_prefix(&key).map_err(CompanionError::from_read)?;
        while stream.advance() {
            // A key without a mark that is no text is a stem.
            let Ok(text) = std::str::from_utf8(&stream.key()[marked..]) else { continue };
            let is_shortened = may_be_shortened(text);
            if (is_shortened || pattern.matches(text)) && !visit(stream.term(), !is_shortened) {
                break;
            }
        }
        Ok(())
    }

    /// The rows of a term.
    fn rows(&self, term: &TermInfo) -> Result<RoaringBitmap, CompanionError> {
        rows_of(self.terms, term)
    }
}

/// The rows that have a term.
pub(crate) fn rows_of(terms: &FieldTerms, term: &TermInfo) -> Result<RoaringBitmap, CompanionError> {
    let mut postings = terms.row_blocks(term).map_err(CompanionError::from_read)?;
    let mut rows = RoaringBitmap::new();
    while !postings.docs().is_empty() {
        rows.append(postings.docs().iter().copied()).map_err(CompanionError::encoding)?;
        postings.advance();
    }
    Ok(rows)
}
