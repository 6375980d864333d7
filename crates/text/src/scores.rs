//! Scores of rows by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009), with the
//! constants, the idf and the rounded lengths of Apache Lucene.
//!
//! ```text
//! score of a word = weight * idf * n / (n + k1 * (1 - b + b * length / average length))
//! idf             = ln(1 + (rows - rows with the word + 0.5) / (rows with the word + 0.5))
//! ```
//!
//! `n` is the number of its occurrences in the row; a phrase with a slop counts once in each value. Rows without any token in the column count nowhere. The idf of a phrase is
//! the sum of those of its words, and `n` the number of its occurrences. Any other condition that a row satisfies adds its
//! weight: on a number, a range, a wildcard, a whole value. Of a word that is looked for in several columns the best one
//! counts; the scores of the clauses of a query are added. What follows `NOT` adds nothing.

use std::collections::HashMap;

use crate::{
    columns::SearchRow,
    leaf::{Leaf, LeafTest, ValueTest},
    matcher::{Bound, Matcher, MatcherScratch},
    phrase::Phrase,
    table::SearchField,
    term::{Pattern, Term},
};

/// How soon further occurrences add little.
const K1: f64 = 1.2;
/// How much long texts count less.
const B: f64 = 0.75;

/// Lengths below this are not rounded.
const EXACT_LENGTHS: u64 = 24;

/// The terms of a query whose frequencies decide scores.
#[derive(Debug, Default)]
pub(crate) struct ScoredTerms {
    fields: Vec<ScoredField>,
    /// By leaf of the query: its field and terms; none if the leaf adds its weight alone.
    leaves: Vec<Option<(usize, Vec<usize>)>>,
}

/// The texts of one or several columns, divided by one analyzer.
#[derive(Debug)]
struct ScoredField {
    token_set: usize,
    /// The number of each term, of words and of stems.
    terms: [HashMap<Box<str>, usize>; 2],
    count: usize,
}

/// The frequencies of the terms of one query in rows. Those of parts of a table add up to those of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScoreStatistics {
    fields: Vec<FieldStatistics>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FieldStatistics {
    /// Rows with a token.
    rows: u64,
    /// Tokens in all rows.
    tokens: u64,
    /// By term, the rows that have it.
    found: Vec<u64>,
}

/// Words by number: true if it is a stem, and its text.
pub(crate) type Words = Vec<(bool, Box<str>)>;

/// The words of a query that are counted in the texts of some columns together.
#[derive(Debug, Clone, PartialEq)]
pub struct WordsOfColumns {
    /// The columns.
    pub columns: Vec<SearchField>,
    /// The column with the event's own text, which may have other texts.
    pub event: Option<SearchField>,
    /// The words, by number: true if it is a stem, and its text.
    pub words: Vec<(bool, Box<str>)>,
}

impl ScoreStatistics {
    /// Sets the frequencies of the words of [`TableSearch::scored_words`](crate::TableSearch::scored_words) of a number.
    pub fn set(&mut self, number: usize, rows: u64, tokens: u64, found: &[u64]) {
        if let Some(field) = self.fields.get_mut(number) {
            (field.rows, field.tokens) = (rows, tokens);
            field.found.copy_from_slice(found);
        }
    }

    /// Adds the frequencies in other rows, for the same query.
    pub fn merge(&mut self, other: &ScoreStatistics) {
        for (field, other) in self.fields.iter_mut().zip(&other.fields) {
            field.rows += other.rows;
            field.tokens += other.tokens;
            for (found, other) in field.found.iter_mut().zip(&other.found) {
                *found += other;
            }
        }
    }

    /// The memory that it has, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.fields.iter().map(|field| size_of_val(field) + size_of_val(&*field.found)).sum()
    }

    /// The numbers as bytes: of each field the rows, the tokens, and the rows of each term, seven bits a byte.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &self.fields {
            for number in [field.rows, field.tokens].iter().chain(&field.found) {
                let mut number = *number;
                while number >= 0x80 {
                    bytes.push(number as u8 | 0x80);
                    number >>= 7;
                }
                bytes.push(number as u8);
            }
        }
        bytes
    }

    /// Reads [`ScoreStatistics::to_bytes`] into statistics of the same query. False if they are not of it.
    pub fn read_bytes(&mut self, mut bytes: &[u8]) -> bool {
        for field in &mut self.fields {
            for number in [&mut field.rows, &mut field.tokens].into_iter().chain(&mut field.found) {
                let Some(read) = read_number(&mut bytes) else { return false };
                *number = read;
            }
        }
        bytes.is_empty()
    }
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

impl ScoredTerms {
    pub(crate) fn of(matcher: &Matcher) -> ScoredTerms {
        let mut scored = ScoredTerms::default();
        for leaf in matcher.leaves() {
            let terms = leaf.token_set.zip(scored_phrase(leaf)).and_then(|(set, phrase)| {
                let exact: Option<Vec<(&str, bool)>> =
                    phrase.terms.iter().map(|(_, term)| exact(term)).collect();
                exact.map(|terms| scored.add(set, &terms))
            });
            scored.leaves.push(terms);
        }
        scored
    }

    fn add(&mut self, token_set: usize, terms: &[(&str, bool)]) -> (usize, Vec<usize>) {
        let known = self.fields.iter().position(|field| field.token_set == token_set);
        let place = known.unwrap_or_else(|| {
            self.fields.push(ScoredField { token_set, terms: Default::default(), count: 0 });
            self.fields.len() - 1
        });
        let ScoredField { terms: numbers, count, .. } = &mut self.fields[place];
        let numbers = terms.iter().map(|(text, is_stem)| {
            *numbers[usize::from(*is_stem)].entry((*text).into()).or_insert_with(|| {
                *count += 1;
                *count - 1
            })
        });
        (place, numbers.collect())
    }

    /// The words of each field, with the number of the column that it is of.
    pub(crate) fn words(&self, matcher: &Matcher) -> Vec<(u32, Words)> {
        let of_field = |field: &ScoredField| {
            let mut words = vec![(false, Box::from("")); field.count];
            for (is_stem, terms) in [(false, &field.terms[0]), (true, &field.terms[1])] {
                for (text, number) in terms {
                    words[*number] = (is_stem, text.clone());
                }
            }
            (matcher.column_of(field.token_set), words)
        };
        self.fields.iter().map(of_field).collect()
    }

    /// Statistics of no rows.
    pub(crate) fn no_statistics(&self) -> ScoreStatistics {
        let of_field =
            |field: &ScoredField| FieldStatistics { found: vec![0; field.count], ..Default::default() };
        ScoreStatistics { fields: self.fields.iter().map(of_field).collect() }
    }

    /// Adds a row to statistics.
    pub(crate) fn count(
        &self,
        matcher: &Matcher,
        row: &dyn SearchRow,
        scratch: &mut MatcherScratch,
        statistics: &mut ScoreStatistics,
    ) {
        matcher.begin_row(scratch);
        let mut has: Vec<bool> = Vec::new();
        for (field, counted) in self.fields.iter().zip(&mut statistics.fields) {
            has.clear();
            has.resize(field.count, false);
            let mut tokens = 0;
            for value in matcher.tokens(field.token_set, row, scratch) {
                tokens += value.len() as u64;
                value.for_each(|is_stem, text| {
                    if let Some(term) = field.terms[usize::from(is_stem)].get(text) {
                        has[*term] = true;
                    }
                });
            }
            counted.rows += u64::from(tokens > 0);
            counted.tokens += tokens;
            for (found, has) in counted.found.iter_mut().zip(&has) {
                *found += u64::from(*has);
            }
        }
    }

    /// The score of a row; none if it does not satisfy the query.
    pub(crate) fn score(
        &self,
        matcher: &Matcher,
        row: &dyn SearchRow,
        scratch: &mut MatcherScratch,
        statistics: &ScoreStatistics,
    ) -> Option<f64> {
        matcher.begin_row(scratch);
        Scorer { terms: self, matcher, row, statistics }.score(matcher.root(), scratch)
    }
}

fn scored_phrase(leaf: &Leaf) -> Option<&Phrase> {
    match &leaf.test {
        LeafTest::Value(ValueTest { phrase, .. }) => phrase.as_ref(),
        _ => None,
    }
}

fn exact(term: &Term) -> Option<(&str, bool)> {
    match &term.pattern {
        Pattern::Exact(text) => Some((text, term.is_stem)),
        _ => None,
    }
}

/// The score of one row.
struct Scorer<'s> {
    terms: &'s ScoredTerms,
    matcher: &'s Matcher,
    row: &'s dyn SearchRow,
    statistics: &'s ScoreStatistics,
}

impl Scorer<'_> {
    fn score(&self, bound: &Bound, scratch: &mut MatcherScratch) -> Option<f64> {
        match bound {
            Bound::Everything => Some(0.0),
            Bound::Not(not) => self.score(not, scratch).is_none().then_some(0.0),
            Bound::Any(any) => self.sum(any, scratch),
            Bound::All { required, optional } => {
                let mut sum = 0.0;
                for bound in required {
                    sum += self.score(bound, scratch)?;
                }
                match self.sum(optional, scratch) {
                    Some(score) => Some(sum + score),
                    None if required.is_empty() && !optional.is_empty() => None,
                    None => Some(sum),
                }
            }
            Bound::OneOf(leaves) => {
                let scores = leaves.clone().filter_map(|number| self.leaf(number, scratch));
                scores.reduce(f64::max)
            }
        }
    }

    /// The sum of the scores of the clauses that are satisfied; none if there is none.
    fn sum(&self, bounds: &[Bound], scratch: &mut MatcherScratch) -> Option<f64> {
        let scores = bounds.iter().filter_map(|bound| self.score(bound, scratch));
        scores.reduce(|sum, score| sum + score)
    }

    fn leaf(&self, number: usize, scratch: &mut MatcherScratch) -> Option<f64> {
        let leaf = &self.matcher.leaves()[number];
        let weight = f64::from(leaf.weight);
        if let Some((field, terms)) = &self.terms.leaves[number]
            && let Some(phrase) = scored_phrase(leaf)
        {
            let statistics = &self.statistics.fields[*field];
            let set = self.terms.fields[*field].token_set;
            let (mut length, mut count) = (0, 0);
            for value in self.matcher.tokens(set, self.row, scratch) {
                length += value.len() as u64;
                count += phrase.count(value);
            }
            if count > 0 {
                return Some(weight * statistics.score(terms, count, length));
            }
        }
        self.matcher.has_leaf(leaf, self.row, scratch).then_some(weight)
    }
}

impl FieldStatistics {
    fn score(&self, terms: &[usize], count: u64, length: u64) -> f64 {
        let rows = self.rows as f64;
        let idf = |term: &usize| {
            let found = self.found[*term] as f64;
            // Rows that were not counted, as those of another snapshot, do no harm.
            (1.0 + (rows - found + 0.5).max(0.0) / (found + 0.5)).ln()
        };
        let idf: f64 = terms.iter().map(idf).sum();
        let average = (self.tokens as f64 / rows.max(1.0)).max(1.0);
        let count = count as f64;
        idf * count / (count + K1 * (1.0 - B + B * rounded(length) as f64 / average))
    }
}

/// The length that Lucene keeps, in one byte: the highest four bits of what is above [`EXACT_LENGTHS`].
fn rounded(length: u64) -> u64 {
    let above = length.min(i32::MAX as u64).saturating_sub(EXACT_LENGTHS);
    let bits = u64::BITS - above.leading_zeros();
    let shift = bits.saturating_sub(4);
    length.min(EXACT_LENGTHS) + (above >> shift << shift)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn lengths_are_rounded_as_by_lucene() {
        // Values of org.apache.lucene.util.SmallFloat.byte4ToInt(intToByte4(length)).
        for (length, expected) in [
            (0, 0),
            (23, 23),
            (24, 24),
            (39, 39),
            (40, 40),
            (41, 40),
            (42, 42),
            (56, 56),
            (59, 56),
            (60, 60),
            (1000, 984),
            (2_147_483_647, 2_013_265_944),
        ] {
            assert_eq!(rounded(length), expected, "{length}");
        }
    }
}
