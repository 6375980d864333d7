//! Conditions on the words of events: searches as the index files and tests them.
//!
//! A search is reduced to a condition on words ([`WordCondition`]). The index files it under its *rarest required word*: of
//! an AND, the word that the fewest events have; of an OR, the rarest word of each operand. The other words are tested on
//! the events that have this word; phrases, wildcards and whatever else is no word are left to the residual. A search
//! without a required word is no condition, and is evaluated for every event.
//!
//! How rare a word is: the share of the events of the latest sample that have it ([`WordCounts`]), and before there is a
//! sample, and between words that the sample does not have, its length: long words are rare. No answer depends on it.

use std::collections::HashMap;

use bumpalo::Bump;
use smallvec::SmallVec;
use swiftwater_event::Column;
use swiftwater_text::{EventSearch, EventWords, WordCondition, WordNode};

use super::{points::TextKey, row_words::WordsOfRow};

/// The sample counts so many different words; others are as rare as those that it does not have.
const COUNTED_WORDS_MAX: usize = 1 << 16;

/// A sample of few events says little: each word counts as if so many more events had been seen, and its length had told.
const PRIOR_ROWS: f64 = 4.0;

/// The search of an event or a value, as far as words can say it.
#[derive(Debug)]
pub struct WordTest {
    words: Box<[RequiredWord]>,
    node: WordNode,
    /// True if the words say all that the search says.
    pub(super) is_exact: bool,
}

/// A word of a search.
#[derive(Debug)]
pub(super) struct RequiredWord {
    pub(super) text: Box<str>,
    pub(super) key: TextKey,
}

/// Numbers of words of a [`WordTest`].
pub(super) type WordNumbers = SmallVec<[u16; 4]>;

impl WordTest {
    /// The words of a search; none if it requires none. `has_texts_only`: a value that it searches is a text.
    pub(super) fn of(search: &EventSearch, has_texts_only: bool) -> Option<WordTest> {
        let WordCondition { words, node, is_exact } = search.word_condition(has_texts_only)?;
        let key = |text: Box<str>| RequiredWord { key: TextKey::of(text.as_bytes()), text };
        let words = words.into_iter().map(key).collect();
        let test = WordTest { words, node, is_exact };
        test.rarest(&test.node, None).is_some().then_some(test)
    }

    /// True if a row with these words satisfies it.
    pub(super) fn holds(&self, of_row: &WordsOfRow<'_>) -> bool {
        self.node.is_satisfied(&mut |word| of_row.has(&self.words[usize::from(word)]))
    }

    /// True if a row of a column satisfies it. Reads the row's words anew.
    pub(super) fn holds_at(&self, column: &Column, row: usize) -> bool {
        let mut is_there = vec![false; self.words.len()];
        let arena = Bump::new();
        EventWords::default().for_each_word(&column.value(row, &arena), |word| {
            for (wanted, is_there) in self.words.iter().zip(&mut is_there) {
                *is_there |= *wanted.text == *word;
            }
        });
        self.node.is_satisfied(&mut |word| is_there[usize::from(word)])
    }

    /// True if it is satisfied where one of the words that it is filed under is.
    pub(super) fn is_proven_when_found(&self) -> bool {
        match &self.node {
            WordNode::Word(_) => true,
            WordNode::Any(any) => any.iter().all(|node| matches!(node, WordNode::Word(_))),
            WordNode::All(_) | WordNode::Not(_) => false,
        }
    }

    /// The words that it is filed under: every row that satisfies it has one of them.
    pub(super) fn access_words(&self, counts: Option<&WordCounts>) -> impl Iterator<Item = &str> {
        let (_, words) = self.rarest(&self.node, counts).unwrap_or_default();
        words.into_iter().map(|word| &*self.words[usize::from(word)].text)
    }

    /// The share of rows that have one of the words that it is filed under.
    pub(super) fn share(&self, counts: Option<&WordCounts>) -> f64 {
        self.rarest(&self.node, counts).map_or(1.0, |(share, _)| share.min(1.0))
    }

    /// The rarest words one of which is there where a part is satisfied, and the share of rows that have one of them; none
    /// if none is required.
    fn rarest(&self, node: &WordNode, counts: Option<&WordCounts>) -> Option<(f64, WordNumbers)> {
        match node {
            WordNode::Word(word) => {
                let share = share_of(&self.words[usize::from(*word)].text, counts);
                Some((share, smallvec::smallvec![*word]))
            }
            WordNode::All(all) => {
                let each = all.iter().filter_map(|node| self.rarest(node, counts));
                each.min_by(|(one, _), (other, _)| one.total_cmp(other))
            }
            WordNode::Any(any) => {
                let mut all = (0.0, WordNumbers::new());
                for node in any {
                    let (share, words) = self.rarest(node, counts)?;
                    all.0 += share;
                    all.1.extend(words);
                }
                Some(all)
            }
            WordNode::Not(_) => None,
        }
    }
}

/// The share of rows that may have a word.
fn share_of(word: &str, counts: Option<&WordCounts>) -> f64 {
    let guess = guess(word);
    let Some(counts) = counts else { return guess };
    let found = counts.rows_by_word.get(word).copied().unwrap_or(0);
    (f64::from(found) + guess * PRIOR_ROWS) / (counts.rows as f64 + PRIOR_ROWS)
}

/// As [`share_of`], where nothing is known of the rows.
fn guess(word: &str) -> f64 {
    0.25 * 0.8_f64.powi(word.len().min(24) as i32)
}

/// How many rows of a sample have each word.
#[derive(Debug, Default)]
pub(super) struct WordCounts {
    rows: usize,
    /// By word: rows that have it.
    rows_by_word: HashMap<Box<str>, u32>,
}

impl WordCounts {
    pub(super) fn of(column: &Column, rows: usize) -> WordCounts {
        // By word: how many rows have it, and the last of them.
        let mut found: HashMap<Box<str>, (u32, usize)> = HashMap::new();
        let (mut reader, mut arena) = (EventWords::default(), Bump::new());
        for row in 0..rows {
            reader.for_each_word(&column.value(row, &arena), |word| {
                if let Some((count, last)) = found.get_mut(word) {
                    *count += u32::from(*last != row);
                    *last = row;
                } else if found.len() < COUNTED_WORDS_MAX {
                    found.insert(word.into(), (1, row));
                }
            });
            arena.reset();
        }
        let rows_by_word = found.into_iter().map(|(word, (count, _))| (word, count)).collect();
        WordCounts { rows, rows_by_word }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, DecodePlan, Decoder, Path, Type, Want, check_block};
    use swiftwater_text::query::Operator;

    use super::*;

    fn access_words(query: &str, counts: Option<&WordCounts>) -> Option<String> {
        let search = EventSearch::of_event(query, Operator::And, None).unwrap();
        let test = WordTest::of(&search, false)?;
        Some(test.access_words(counts).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn searches_are_filed_under_their_rarest_words() {
        let events: String = (0..100)
            .map(|number| {
                let often = if number < 50 { "information" } else { "warn" };
                format!("{{\"m\":\"{often} {often} rare{number}\",\"l\":[\"id\"]}}\n")
            })
            .collect();
        let batch = check_block(Bytes::from(events), &CheckLimits::default(), 1).batch;
        let want = Want { path: Path::event(), ty: Type::Any };
        let decoded = Decoder::default().decode(&batch, &DecodePlan::new([want]));
        let counts = WordCounts::of(&decoded.columns[0], 100);
        assert_eq!((counts.rows_by_word["warn"], counts.rows_by_word["id"]), (50, 100));
        for (query, unseen, seen) in [
            ("rare7", Some("rare7"), Some("rare7")),
            ("information rare7", Some("information"), Some("rare7")),
            ("information id", Some("information"), Some("information")),
            ("information OR rare7 id", Some("information rare7"), Some("information rare7")),
            ("(information OR rare7) nowhere", Some("nowhere"), Some("nowhere")),
            ("(information id) OR (warn rare7)", Some("information rare7"), Some("information rare7")),
            ("a -information", Some("a"), Some("a")),
            ("\"information id\"", Some("information"), Some("information")),
            ("-information", None, None),
            ("inform*", None, None),
            ("information OR inform*", None, None),
        ] {
            assert_eq!(access_words(query, None).as_deref(), unseen, "{query}");
            assert_eq!(access_words(query, Some(&counts)).as_deref(), seen, "{query}");
        }
    }
}
