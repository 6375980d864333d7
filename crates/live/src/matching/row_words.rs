//! The words of the rows of a batch, read once for all searches.
//!
//! A row is divided into words when the first table or test asks for it; all segments of the index and all tests of
//! candidates share the result. Words are stored as the keys that tables are asked by, and in full where a key does not
//! say all.
//!
//! Limits: the words of a column take [`COLUMN_BYTES_MAX`]; beyond, those of earlier rows are forgotten and read anew when
//! they are asked for. From one batch to the next, memory up to [`KEPT_BYTES_MAX`] a column is kept.

use bumpalo::Bump;
use swiftwater_event::{Column, WantId};
use swiftwater_text::{EventWords, RowWordSet};

use super::points::{SHORT_MAX, TextKey};

/// Bytes of words of one column.
const COLUMN_BYTES_MAX: usize = 64 << 20;
/// Bytes that a column keeps for the next batch.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The words of a batch, by column.
#[derive(Debug, Default)]
pub(super) struct RowWords {
    columns: Vec<ColumnWords>,
    reader: EventWords,
    arena: Bump,
}

#[derive(Debug, Default)]
struct ColumnWords {
    /// By row, where its words are; empty before the first is asked for.
    spans: Vec<Option<(u32, u32)>>,
    words: Vec<Word>,
    /// The texts of words whose keys do not say all.
    texts: Vec<u8>,
}

/// A word of a row, or the end of a text, which is no word.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    key: TextKey,
    /// The place of its text, if that is longer than a key.
    at: u32,
    len: u32,
}

/// A word that a search asks for.
#[derive(Debug)]
pub(super) struct SearchedWord {
    pub(super) text: Box<str>,
    key: TextKey,
}

/// The words of one row, as often as they are there, and the ends of texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordsOfRow<'w> {
    words: &'w [Word],
    texts: &'w [u8],
}

/// A row, as it is asked for numbered words.
pub(super) struct SearchedRow<'w> {
    pub(super) row: WordsOfRow<'w>,
    /// By their numbers.
    pub(super) searched: &'w [SearchedWord],
}

impl RowWords {
    /// Forgets the words of the batch before.
    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            match column.bytes() > KEPT_BYTES_MAX {
                true => *column = ColumnWords::default(),
                false => column.clear(),
            }
        }
    }

    /// The words of a row of a column with so many rows.
    #[inline]
    pub(super) fn of_row(&mut self, id: WantId, column: &Column, rows: usize, row: usize) -> WordsOfRow<'_> {
        let place = id.0 as usize;
        if self.columns.len() <= place {
            self.columns.resize_with(place + 1, ColumnWords::default);
        }
        let RowWords { columns, reader, arena } = self;
        let words = &mut columns[place];
        let (from, to) = match words.spans.get(row) {
            Some(Some(span)) => *span,
            _ => {
                arena.reset();
                words.read(column, rows, row, reader, arena)
            }
        };
        WordsOfRow { words: &words.words[from as usize..to as usize], texts: &words.texts }
    }
}

impl ColumnWords {
    fn read(
        &mut self,
        column: &Column,
        rows: usize,
        row: usize,
        reader: &mut EventWords,
        arena: &Bump,
    ) -> (u32, u32) {
        if self.words.len() * size_of::<Word>() + self.texts.len() > COLUMN_BYTES_MAX {
            self.clear();
        }
        self.spans.resize(rows, None);
        let from = self.words.len() as u32;
        let ColumnWords { words, texts, .. } = self;
        reader.for_each_word(&column.value(row, arena), |word| {
            let Some(word) = word else { return words.push(Word::default()) };
            let text = word.as_bytes();
            let at = texts.len() as u32;
            if text.len() > SHORT_MAX {
                texts.extend_from_slice(text);
            }
            words.push(Word { key: TextKey::of(text), at, len: text.len() as u32 });
        });
        let span = (from, self.words.len() as u32);
        self.spans[row] = Some(span);
        span
    }

    fn clear(&mut self) {
        self.spans.clear();
        self.words.clear();
        self.texts.clear();
    }

    /// Bytes held.
    fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<Word>() + self.texts.capacity()
    }
}

impl SearchedWord {
    pub(super) fn new(text: Box<str>) -> SearchedWord {
        SearchedWord { key: TextKey::of(text.as_bytes()), text }
    }
}

impl<'w> WordsOfRow<'w> {
    /// Calls for each word, with its key and its text, and with none for the end of a text. The text of a short word is
    /// empty: its key says all.
    #[inline]
    pub(super) fn for_each(&self, mut visit: impl FnMut(Option<(TextKey, &[u8])>)) {
        for word in self.words {
            visit((word.len > 0).then(|| (word.key, self.long_text(word))));
        }
    }

    #[inline]
    fn is(&self, word: &Word, searched: &SearchedWord) -> bool {
        let text = searched.text.as_bytes();
        word.key == searched.key
            && word.len as usize == text.len()
            && (text.len() <= SHORT_MAX || self.long_text(word) == text)
    }

    fn long_text(&self, word: &Word) -> &'w [u8] {
        let (at, len) = (word.at as usize, word.len as usize);
        if len > SHORT_MAX { &self.texts[at..at + len] } else { &[] }
    }
}

impl RowWordSet for SearchedRow<'_> {
    fn has_word(&self, word: u16) -> bool {
        let searched = &self.searched[usize::from(word)];
        self.row.words.iter().any(|word| self.row.is(word, searched))
    }

    /// The default analyzer has one token at each position, so places are positions.
    fn has_phrase(&self, phrase: &[(u32, u16)]) -> bool {
        let words = self.row.words;
        let is_at = |place: usize, word: u16| {
            let found = words.get(place);
            found.is_some_and(|found| self.row.is(found, &self.searched[usize::from(word)]))
        };
        let Some((&(_, first), rest)) = phrase.split_first() else { return true };
        let last = phrase.last().map_or(0, |(offset, _)| *offset as usize);
        (0..words.len()).any(|from| {
            is_at(from, first)
                && rest.iter().all(|(offset, word)| is_at(from + *offset as usize, *word))
                && words[from..=from + last].iter().all(|word| word.len > 0)
        })
    }
}
