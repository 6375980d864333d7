//! Conditions on the words of events: searches as the index files and tests them.
//!
//! A search is reduced to a condition on words ([`WordCondition`]). The index files it under its *rarest required word*: of
//! an AND, the word that the fewest events have; of an OR, the rarest word of each operand. Up to [`LITERALS`] other words
//! are filed with it. Of a phrase, each pair of adjacent words counts as a word. Longer phrases, and words that are not
//! filed, are tested on the candidates. Wildcards and whatever else is no word are left to the residual. A search without a
//! required word is no condition, and is evaluated for every event.
//!
//! How rare a word is: the share of the events of the latest sample that have it ([`WordCounts`]), and before there is a
//! sample, and between words that the sample does not have, its length: long words are rare. No answer depends on it.

use std::{collections::HashMap, fmt};

use bumpalo::Bump;
use smallvec::SmallVec;
use swiftwater_event::{Column, WantId};
use swiftwater_text::{EventSearch, EventWords, WordCondition, WordNode};

use super::row_words::{RowWords, SearchedRow, SearchedWord, WordsOfRow};

/// Other terms that are filed with a term.
pub(super) const LITERALS: usize = 3;

/// The most terms of an AND that are considered; others are tested on the candidates.
const TERMS_MAX: usize = 64;

/// The sample counts so many different words; others are as rare as those that it does not have.
const COUNTED_WORDS_MAX: usize = 1 << 16;

/// No further event of the sample is counted after so many words: whoever adds a query waits for it.
const READ_WORDS_MAX: usize = 1 << 17;

/// A sample of few events says little: each word counts as if so many more events had been seen, and its length had told.
const PRIOR_ROWS: f64 = 4.0;

/// The assumed share of the rows with both words of a pair that have them one after the other.
const PAIR_SHARE: f64 = 0.5;

/// The search of an event or a value, as far as words can say it.
#[derive(Debug)]
pub struct WordTest {
    words: Box<[SearchedWord]>,
    node: WordNode,
    /// True if the words say all that the search says.
    pub(super) is_exact: bool,
    /// The share of rows that it may find, where nothing is known of them.
    pub(super) guess: f64,
}

/// A word, or two words one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchTerm<W> {
    Word(W),
    Pair(W, W),
}

/// A term that a search is filed under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordAccess<W> {
    pub(super) term: SearchTerm<W>,
    /// Terms that must be there (`true`) or must not.
    pub(super) others: SmallVec<[(SearchTerm<W>, bool); LITERALS]>,
}

impl<W: Copy> SearchTerm<W> {
    fn map<V>(self, mut map: impl FnMut(W) -> V) -> SearchTerm<V> {
        match self {
            SearchTerm::Word(word) => SearchTerm::Word(map(word)),
            SearchTerm::Pair(one, next) => SearchTerm::Pair(map(one), map(next)),
        }
    }
}

impl fmt::Display for SearchTerm<&str> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchTerm::Word(word) => write!(f, "{word:?}"),
            SearchTerm::Pair(one, next) => write!(f, "\"{one} {next}\""),
        }
    }
}

/// The parts of an AND, with those of ANDs in it.
#[derive(Debug, Default)]
struct Conjunction<'n> {
    /// Terms that must be there, each once.
    there: SmallVec<[SearchTerm<u16>; 8]>,
    /// Words that must not.
    absent: SmallVec<[u16; 4]>,
    /// ORs.
    any: SmallVec<[&'n WordNode; 2]>,
    /// There is more to it.
    has_others: bool,
}

impl<'n> Conjunction<'n> {
    fn of(node: &'n WordNode) -> Conjunction<'n> {
        let mut parts = Conjunction::default();
        parts.add(node);
        parts
    }

    fn add(&mut self, node: &'n WordNode) {
        match node {
            WordNode::Word(word) => self.add_term(SearchTerm::Word(*word)),
            WordNode::Phrase(phrase) => {
                for words in phrase.windows(2).take(TERMS_MAX) {
                    let [(offset, one), (next_offset, next)] = *words else { continue };
                    match next_offset - offset {
                        1 => self.add_term(SearchTerm::Pair(one, next)),
                        _ => [one, next].into_iter().for_each(|word| self.add_term(SearchTerm::Word(word))),
                    }
                }
                self.has_others |= !matches!(**phrase, [_, (1, _)]);
            }
            WordNode::All(all) => all.iter().for_each(|node| self.add(node)),
            WordNode::Any(_) => self.any.push(node),
            WordNode::Not(not) => match &**not {
                WordNode::Word(word) => self.absent.push(*word),
                _ => self.has_others = true,
            },
        }
    }

    fn add_term(&mut self, term: SearchTerm<u16>) {
        match self.there.len() < TERMS_MAX {
            _ if self.there.contains(&term) => {}
            true => self.there.push(term),
            false => self.has_others = true,
        }
    }

    /// True if a term and what is filed with it say all.
    fn is_filed_whole(&self) -> bool {
        let terms = self.there.len() + self.absent.len();
        !self.has_others && self.any.is_empty() && !self.there.is_empty() && terms <= 1 + LITERALS
    }
}

impl WordTest {
    /// The words of a search; none if it requires none. `has_texts_only`: a value that it searches is a text.
    pub(super) fn of(search: &EventSearch, has_texts_only: bool) -> Option<WordTest> {
        let WordCondition { words, node, is_exact } = search.word_condition(has_texts_only)?;
        let words = words.into_iter().map(SearchedWord::new).collect();
        let mut test = WordTest { words, node, is_exact, guess: 1.0 };
        let (share, _) = test.rarest(&test.node, None)?;
        test.guess = share.min(1.0);
        Some(test)
    }

    /// True if a row with these words satisfies it.
    pub(super) fn holds(&self, row: WordsOfRow<'_>) -> bool {
        self.node.is_satisfied(&SearchedRow { row, searched: &self.words })
    }

    /// True if a row of a column satisfies it. Reads the row's words anew.
    pub(super) fn holds_at(&self, column: &Column, row: usize) -> bool {
        self.holds(RowWords::default().of_row(WantId(0), column, row + 1, row))
    }

    /// True if it is satisfied where one of the words that it is filed under is, with the others that are filed.
    pub(super) fn is_proven_when_found(&self) -> bool {
        match &self.node {
            WordNode::Any(any) => any.iter().all(|node| Conjunction::of(node).is_filed_whole()),
            node => Conjunction::of(node).is_filed_whole(),
        }
    }

    /// The terms that it is filed under: every row that satisfies it has one of them.
    pub(super) fn accesses(&self, counts: Option<&WordCounts>) -> impl Iterator<Item = WordAccess<&str>> {
        let text = |word: u16| &*self.words[usize::from(word)].text;
        let (_, all) = self.rarest(&self.node, counts).unwrap_or_default();
        all.into_iter().map(move |WordAccess { term, others }| WordAccess {
            term: term.map(text),
            others: others.into_iter().map(|(term, is_there)| (term.map(text), is_there)).collect(),
        })
    }

    /// The share of rows that have one of the terms that it is filed under.
    pub(super) fn share(&self, counts: Option<&WordCounts>) -> f64 {
        self.rarest(&self.node, counts).map_or(1.0, |(share, _)| share.min(1.0))
    }

    /// The share of rows that may have a term.
    fn share_of(&self, term: SearchTerm<u16>, counts: Option<&WordCounts>) -> f64 {
        let share = |word: u16| share_of(&self.words[usize::from(word)].text, counts);
        match term {
            SearchTerm::Word(word) => share(word),
            SearchTerm::Pair(one, next) => share(one).min(share(next)) * PAIR_SHARE,
        }
    }

    /// The rarest terms one of which is there where a part is satisfied, and the share of rows that have one of them; none
    /// if none is required.
    fn rarest(&self, node: &WordNode, counts: Option<&WordCounts>) -> Option<(f64, Vec<WordAccess<u16>>)> {
        if let WordNode::Any(any) = node {
            let mut all = (0.0, Vec::new());
            for node in any {
                let (share, alternatives) = self.rarest(node, counts)?;
                all.0 += share;
                all.1.extend(alternatives);
            }
            return Some(all);
        }
        let Conjunction { there, absent, any, .. } = Conjunction::of(node);
        let mut there: Vec<(f64, SearchTerm<u16>)> =
            there.into_iter().map(|term| (self.share_of(term, counts), term)).collect();
        there.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let alone = |term| vec![WordAccess { term, others: SmallVec::new() }];
        let by_term = there.first().map(|&(share, term)| (share, alone(term)));
        let by_any = any.iter().filter_map(|node| self.rarest(node, counts));
        let (share, mut alternatives) =
            by_term.into_iter().chain(by_any).min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        for WordAccess { term, others } in &mut alternatives {
            let all = there.iter().map(|(_, other)| (*other, true));
            let all = all.chain(absent.iter().map(|word| (SearchTerm::Word(*word), false)));
            let room = LITERALS - others.len();
            others.extend(all.filter(|other| *other != (*term, true)).take(room));
        }
        Some((share, alternatives))
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
        let (mut read, mut counted_rows) = (0, 0);
        for row in 0..rows {
            if read > READ_WORDS_MAX {
                break;
            }
            counted_rows += 1;
            reader.for_each_word(&column.value(row, &arena), |word| {
                let Some(word) = word else { return };
                read += 1;
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
        WordCounts { rows: counted_rows, rows_by_word }
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
        Some(
            test.accesses(counts)
                .map(|access| access.term.to_string())
                .collect::<Vec<_>>()
                .join(" ")
                .replace('"', ""),
        )
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
            ("\"information id\"", Some("information id"), Some("information id")),
            ("\"id information\" rare7", Some("id information"), Some("rare7")),
            ("-information", None, None),
            ("inform*", None, None),
            ("information OR inform*", None, None),
        ] {
            assert_eq!(access_words(query, None).as_deref(), unseen, "{query}");
            assert_eq!(access_words(query, Some(&counts)).as_deref(), seen, "{query}");
        }
    }
}
