//! Rows that have words one after the other.

use tantivy::{
    DocSet, TERMINATED,
    postings::{Postings, SegmentPostings},
};

/// Positions between two values of one row: more than a phrase that is looked for by positions can reach.
pub(crate) const VALUE_GAP: u32 = 2 * PHRASE_TERMS_MAX;
/// Terms that a phrase may have to be looked for by positions.
pub(crate) const PHRASE_TERMS_MAX: u32 = 1 << 10;

/// The occurrences of the terms that may be at one place of a phrase.
pub(crate) struct PhraseTerm {
    /// The place, relative to the first term.
    pub(crate) offset: u32,
    pub(crate) postings: Vec<SegmentPostings>,
}

/// Visits the rows, ascending, that have all terms at their places, each place of one term. The rarest term is the first.
pub(crate) fn rows_with_exact_phrase(terms: &mut [(u32, SegmentPostings)], mut visit: impl FnMut(u32)) {
    let Some(((offset, first), others)) = terms.split_first_mut() else { return };
    let (mut starts, mut positions) = (Vec::new(), Vec::new());
    let mut row = first.doc();
    'rows: while row != TERMINATED {
        for (_, other) in others.iter_mut() {
            let next = if other.doc() < row { other.seek(row) } else { other.doc() };
            if next > row {
                row = if next == TERMINATED { next } else { first.seek(next) };
                continue 'rows;
            }
        }
        first.positions(&mut positions);
        starts.clear();
        starts.extend(positions.iter().filter_map(|position| position.checked_sub(*offset)));
        for (offset, other) in others.iter_mut() {
            if starts.is_empty() {
                break;
            }
            other.positions(&mut positions);
            let mut rest = positions.iter().peekable();
            starts.retain(|start: &u32| {
                let other_start = |position: &u32| position.checked_sub(*offset);
                while rest
                    .next_if(|position| other_start(position).is_none_or(|other| other < *start))
                    .is_some()
                {}
                rest.peek().is_some_and(|position| other_start(position) == Some(*start))
            });
        }
        if !starts.is_empty() {
            visit(row);
        }
        row = first.advance();
    }
}

/// Visits the rows, ascending, that have all terms at their places. `candidates` are rows that have all terms.
pub(crate) fn rows_with_phrase(
    terms: &mut [PhraseTerm],
    candidates: impl Iterator<Item = u32>,
    mut visit: impl FnMut(u32),
) {
    let (mut starts, mut positions, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    for row in candidates {
        for (number, term) in terms.iter_mut().enumerate() {
            term.starts(row, &mut buffer, &mut positions);
            if number == 0 {
                std::mem::swap(&mut starts, &mut positions);
            } else {
                starts.retain(|start| positions.binary_search(start).is_ok());
            }
            if starts.is_empty() {
                break;
            }
        }
        if !starts.is_empty() {
            visit(row);
        }
    }
}

impl PhraseTerm {
    /// The positions at which the phrase begins by the occurrences of this term in a row, sorted.
    fn starts(&mut self, row: u32, positions: &mut Vec<u32>, starts: &mut Vec<u32>) {
        starts.clear();
        for postings in &mut self.postings {
            let at = postings.doc();
            if at == TERMINATED || at > row {
                continue;
            }
            if at < row && postings.seek(row) != row {
                continue;
            }
            postings.positions(positions);
            starts.extend(positions.iter().filter_map(|position| position.checked_sub(self.offset)));
        }
        starts.sort_unstable();
    }
}
