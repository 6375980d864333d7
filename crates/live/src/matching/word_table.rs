//! Finds searches by the words of a row.
//!
//! Each search is filed under a term, a word or two adjacent words, with up to [`LITERALS`] other terms that must be there, or
//! must not. All terms of all searches have numbers; those of a row are looked up once and noted in a bitmap. A search that
//! is filed under a frequent word then costs a few tests of bits, and is a candidate only where its other terms are there,
//! too.

use std::collections::HashMap;

use super::{
    bloom_filter::Mask,
    points::{PointIndex, TextPointIndex},
    row_words::WordsOfRow,
    table::Hits,
    word_test::{LITERALS, SearchTerm, WordAccess},
};

/// Searches by word.
#[derive(Debug, Default)]
pub(super) struct WordTable {
    /// The number of each word.
    numbers: TextPointIndex,
    /// The number of each pair, by those of its words.
    pairs: PointIndex,
    /// By number of a term: where the searches that are filed under it end; they begin where those of the term before end.
    ends: Box<[u32]>,
    filed: Box<[WordPosting]>,
}

/// A search that is filed under a term.
#[derive(Debug)]
struct WordPosting {
    posting: u32,
    /// Each the number of a term, twice, and one more if it must not be there; [`ALWAYS`] behind the last.
    literals: [u32; LITERALS],
}

/// The number of no term, which every row has.
const ALWAYS: u32 = 0;

/// The numbers of the terms that a row has; empty between rows.
#[derive(Debug, Default)]
pub(super) struct RowWordNumbers {
    bits: Vec<u64>,
    numbers: Vec<u32>,
}

impl WordTable {
    pub(super) fn new(accesses: Vec<(WordAccess<&str>, u32)>) -> WordTable {
        let mut numbers = TermNumbers { count: ALWAYS + 1, ..TermNumbers::default() };
        let mut filed: Vec<(u32, WordPosting)> = Vec::with_capacity(accesses.len());
        for (WordAccess { term, others }, posting) in accesses {
            let mut literals = [ALWAYS << 1; LITERALS];
            for (literal, (other, is_there)) in literals.iter_mut().zip(others) {
                *literal = numbers.of(other) << 1 | u32::from(!is_there);
            }
            filed.push((numbers.of(term), WordPosting { posting, literals }));
        }
        filed.sort_unstable_by_key(|(term, filed)| (*term, filed.posting));
        let end = |term: u32| filed.partition_point(|(other, _)| *other <= term) as u32;
        WordTable {
            ends: (0..numbers.count).map(end).collect(),
            numbers: TextPointIndex::new(numbers.words.into_iter().collect()),
            pairs: PointIndex::new(numbers.pairs.into_iter().collect()),
            filed: filed.into_iter().map(|(_, filed)| filed).collect(),
        }
    }

    /// Appends who is found by the words of a row; somebody may be found more than once.
    pub(super) fn look_up(
        &self,
        words: WordsOfRow<'_>,
        row: usize,
        found: &mut RowWordNumbers,
        hits: &mut Hits,
    ) {
        found.bits.resize(found.bits.len().max(self.ends.len().div_ceil(64)), 0);
        found.bits[0] = 1 << ALWAYS;
        // The number of the word before, in the same text.
        let mut before: Option<u32> = None;
        words.for_each(|word| {
            let number = word.and_then(|(key, text)| {
                let may_be_there = self.numbers.sieve().has(Mask::ALL.hash(key.as_view()));
                if may_be_there { self.numbers.get(key, text).first().copied() } else { None }
            });
            if let Some(number) = number {
                found.insert(number);
                if let Some(pair) = before.and_then(|before| self.pair(before, number)) {
                    found.insert(pair);
                }
            }
            before = number;
        });
        for &number in &found.numbers {
            let number = number as usize;
            let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            for filed in &self.filed[from as usize..self.ends[number] as usize] {
                if found.satisfies(&filed.literals) {
                    hits.push(u64::from(filed.posting) << 32 | row as u64);
                }
            }
        }
        found.clear();
    }

    #[inline]
    fn pair(&self, one: u32, next: u32) -> Option<u32> {
        let key = pair_key(one, next);
        if self.pairs.may_have(key) { self.pairs.get(key).first().copied() } else { None }
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.bytes()
            + self.pairs.bytes()
            + self.ends.len() * 4
            + self.filed.len() * size_of::<WordPosting>()
    }
}

/// Numbers terms in the order of their first use.
#[derive(Debug, Default)]
struct TermNumbers<'t> {
    words: HashMap<&'t str, u32>,
    pairs: HashMap<u64, u32>,
    count: u32,
}

impl<'t> TermNumbers<'t> {
    fn of(&mut self, term: SearchTerm<&'t str>) -> u32 {
        match term {
            SearchTerm::Word(word) => self.of_word(word),
            SearchTerm::Pair(one, next) => {
                let key = pair_key(self.of_word(one), self.of_word(next));
                let number = *self.pairs.entry(key).or_insert(self.count);
                self.count = self.count.max(number + 1);
                number
            }
        }
    }

    fn of_word(&mut self, word: &'t str) -> u32 {
        let number = *self.words.entry(word).or_insert(self.count);
        self.count = self.count.max(number + 1);
        number
    }
}

fn pair_key(one: u32, next: u32) -> u64 {
    u64::from(one) << 32 | u64::from(next)
}

impl RowWordNumbers {
    #[inline]
    fn insert(&mut self, number: u32) {
        let (word, bit) = (&mut self.bits[number as usize / 64], 1 << (number % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.numbers.push(number);
        }
    }

    #[inline]
    fn satisfies(&self, literals: &[u32; LITERALS]) -> bool {
        let is_true = |literal: u32| {
            let number = literal >> 1;
            (self.bits[number as usize / 64] >> (number % 64)) as u32 & 1 != literal & 1
        };
        let [first, second, third] = *literals;
        is_true(first) && is_true(second) && is_true(third)
    }

    fn clear(&mut self) {
        for number in self.numbers.drain(..) {
            self.bits[number as usize / 64] = 0;
        }
    }
}
