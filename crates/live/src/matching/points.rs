//! From a value to the postings of those who ask for just this value: hash tables with a bit set in front, which tells
//! most values that nobody asks for.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Postings of one value: from where, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    start: u32,
    count: u32,
}

impl Run {
    #[inline]
    fn of<'p>(&self, postings: &'p [u32]) -> &'p [u32] {
        &postings[self.start as usize..(self.start + self.count) as usize]
    }
}

/// Bits by hash: a clear one means that no value of this hash was put in.
#[derive(Debug, Default)]
struct Bits {
    words: Box<[u64]>,
    shift: u32,
}

impl Bits {
    /// 16 to 32 bits a value.
    fn of(hashes: impl ExactSizeIterator<Item = u64>) -> Bits {
        let bits = (hashes.len() * 16).next_power_of_two().max(64);
        let mut made = Bits { words: vec![0; bits / 64].into(), shift: 64 - bits.trailing_zeros() };
        for hash in hashes {
            let bit = (hash >> made.shift) as usize;
            made.words[bit / 64] |= 1 << (bit % 64);
        }
        made
    }

    #[inline]
    fn has(&self, hash: u64) -> bool {
        let bit = (hash >> self.shift) as usize;
        self.words[bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// Spreads two words over all bits of one: the high and the low half of their product, as in foldhash and wyhash.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x243f_6a88_85a3_08d3) * u128::from(b ^ 0x9e37_79b9_7f4a_7c15);
    product as u64 ^ (product >> 64) as u64
}

/// Keys and their postings.
#[derive(Debug, Default)]
pub(crate) struct Points {
    bits: Bits,
    table: HashTable<(u64, Run)>,
    postings: Box<[u32]>,
}

impl Points {
    pub(crate) fn new(mut pairs: Vec<(u64, u32)>) -> Points {
        pairs.sort_unstable();
        pairs.dedup();
        let runs = runs(&pairs, |a, b| a.0 == b.0);
        let mut table = HashTable::with_capacity(runs.len());
        for &run in &runs {
            let key = pairs[run.start as usize].0;
            table.insert_unique(fold(key, 0), (key, run), |(key, _)| fold(*key, 0));
        }
        let bits = Bits::of(runs.iter().map(|run| fold(pairs[run.start as usize].0, 0)));
        Points { bits, table, postings: pairs.into_iter().map(|(_, posting)| posting).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// Whether somebody may ask for a key.
    #[inline]
    pub(crate) fn may_have(&self, key: u64) -> bool {
        self.bits.has(fold(key, 0))
    }

    /// The postings of a key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> &[u32] {
        let hash = fold(key, 0);
        if !self.bits.has(hash) {
            return &[];
        }
        self.table.find(hash, |(other, _)| *other == key).map_or(&[], |(_, run)| run.of(&self.postings))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bits.words.len() * 8 + self.table.capacity() * 17 + self.postings.len() * 4
    }
}

/// Texts of up to so many bytes are keys by themselves: they stand in their Arrow view.
const SHORT_MAX: usize = 12;

/// Texts and their postings.
#[derive(Debug, Default)]
pub(crate) struct TextPoints {
    bits: Bits,
    hasher: DefaultHashBuilder,
    short: HashTable<(TextKey, Run)>,
    long: HashTable<LongText>,
    bytes: Box<[u8]>,
    postings: Box<[u32]>,
}

#[derive(Debug)]
struct LongText {
    at: u32,
    len: u32,
    run: Run,
}

impl TextPoints {
    /// `None` where the texts are too long for one table (4 GiB together).
    pub(crate) fn new(mut pairs: Vec<(&str, u32)>) -> TextPoints {
        pairs.sort_unstable();
        pairs.dedup();
        let runs = runs(&pairs, |a, b| a.0 == b.0);
        let text = |run: &Run| pairs[run.start as usize].0.as_bytes();
        let shorts = runs.iter().filter(|run| text(run).len() <= SHORT_MAX).count();
        let mut made = TextPoints {
            bits: Bits::of(runs.iter().map(|run| TextKey::of(text(run)).hash())),
            short: HashTable::with_capacity(shorts),
            long: HashTable::with_capacity(runs.len() - shorts),
            ..TextPoints::default()
        };
        let mut bytes = Vec::new();
        for &run in &runs {
            let text = text(&run);
            if text.len() <= SHORT_MAX {
                let key = TextKey::of(text);
                made.short.insert_unique(key.hash(), (key, run), |(key, _)| key.hash());
            } else {
                let row = LongText { at: bytes.len() as u32, len: text.len() as u32, run };
                bytes.extend_from_slice(text);
                let (hasher, bytes) = (&made.hasher, &bytes);
                let again =
                    |row: &LongText| hasher.hash_one(&bytes[row.at as usize..(row.at + row.len) as usize]);
                made.long.insert_unique(hasher.hash_one(text), row, again);
            }
        }
        made.bytes = bytes.into();
        made.postings = pairs.into_iter().map(|(_, posting)| posting).collect();
        made
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// Whether somebody may ask for a text with this key.
    #[inline]
    pub(crate) fn may_have(&self, key: TextKey) -> bool {
        self.bits.has(key.hash())
    }

    /// The postings of a text, whose key this is.
    #[inline]
    pub(crate) fn get(&self, key: TextKey, text: &[u8]) -> &[u32] {
        if text.len() <= SHORT_MAX {
            return self
                .short
                .find(key.hash(), |row| row.0 == key)
                .map_or(&[], |row| row.1.of(&self.postings));
        }
        let same = |row: &LongText| self.bytes[row.at as usize..(row.at + row.len) as usize] == *text;
        self.long.find(self.hasher.hash_one(text), same).map_or(&[], |row| row.run.of(&self.postings))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bits.words.len() * 8
            + self.short.capacity() * 25
            + self.long.capacity() * 17
            + self.bytes.len()
            + self.postings.len() * 4
    }
}

/// All of a short text, or the ends and the length of a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextKey {
    /// The first eight bytes, the first in the lowest place; zeros after a short text's end.
    pub(crate) first: u64,
    /// The next four and the length, or the last eight and the length mixed in.
    rest: u64,
}

impl TextKey {
    #[inline]
    pub(crate) fn of(text: &[u8]) -> TextKey {
        if text.len() <= SHORT_MAX {
            let mut bytes = [0; 16];
            bytes[..text.len()].copy_from_slice(text);
            return TextKey::of_view(u128::from_le_bytes(bytes) << 32 | text.len() as u128);
        }
        let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) else {
            return TextKey { first: 0, rest: 0 };
        };
        let rest = u64::from_le_bytes(*last).rotate_left(17) ^ text.len() as u64;
        TextKey { first: u64::from_le_bytes(*first), rest }
    }

    /// Of the Arrow view of a text of at most [`SHORT_MAX`] bytes.
    #[inline]
    pub(crate) fn of_view(view: u128) -> TextKey {
        TextKey { first: (view >> 32) as u64, rest: (view >> 96) as u64 | u64::from(view as u32) << 32 }
    }

    /// Whether the text of a view stands in it.
    #[inline]
    pub(crate) fn is_short(view: u128) -> bool {
        view as u32 as usize <= SHORT_MAX
    }

    #[inline]
    fn hash(self) -> u64 {
        fold(self.first, self.rest)
    }
}

/// Prefix lengths that are looked up; a prefix of another length is found by its first bytes, as many as the next
/// length below has.
const CLASSES: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64];

/// Prefixes and their postings.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    classes: Vec<PrefixClass>,
    postings: Box<[u32]>,
    bytes: Box<[u8]>,
}

/// Prefixes that are found by as many bytes.
#[derive(Debug)]
pub(crate) struct PrefixClass {
    length: usize,
    bits: Bits,
    table: HashTable<PrefixRow>,
}

impl PrefixClass {
    /// Bytes that a text must have.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Whether some prefix may be that of a text; `first`: its first eight bytes.
    #[inline]
    pub(crate) fn may_have<'t>(&self, first: u64, text: impl Fn() -> &'t [u8]) -> bool {
        let hash = if self.length <= 8 {
            short_prefix_hash(first, self.length)
        } else {
            prefix_hash(first, text(), self.length)
        };
        self.bits.has(hash)
    }
}

#[derive(Debug)]
struct PrefixRow {
    hash: u64,
    at: u32,
    len: u32,
    run: Run,
}

impl Prefixes {
    /// None may be empty.
    pub(crate) fn new(mut pairs: Vec<(&[u8], u32)>) -> Prefixes {
        pairs.sort_unstable();
        pairs.dedup();
        let runs = runs(&pairs, |a, b| a.0 == b.0);
        let mut bytes: Vec<u8> = Vec::new();
        let mut rows: Vec<Vec<PrefixRow>> = CLASSES.iter().map(|_| Vec::new()).collect();
        for run in runs {
            let prefix = pairs[run.start as usize].0;
            let class = CLASSES.partition_point(|&length| length <= prefix.len()).saturating_sub(1);
            let length = CLASSES[class];
            let hash = prefix_hash(TextKey::of(prefix).first, prefix, length);
            rows[class].push(PrefixRow { hash, at: bytes.len() as u32, len: prefix.len() as u32, run });
            bytes.extend_from_slice(prefix);
        }
        let class = |(length, rows): (&usize, Vec<PrefixRow>)| {
            let bits = Bits::of(rows.iter().map(|row| row.hash));
            let mut table = HashTable::with_capacity(rows.len());
            for row in rows {
                table.insert_unique(row.hash, row, |row| row.hash);
            }
            PrefixClass { length: *length, bits, table }
        };
        let classes = CLASSES.iter().zip(rows).filter(|(_, rows)| !rows.is_empty()).map(class).collect();
        let postings = pairs.into_iter().map(|(_, posting)| posting).collect();
        Prefixes { classes, postings, bytes: bytes.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// Tells the postings of all that a text begins with; `first`: its first eight bytes.
    #[inline]
    pub(crate) fn find(&self, first: u64, text: &[u8], mut found: impl FnMut(&[u32])) {
        for class in &self.classes {
            if text.len() < class.length {
                return;
            }
            self.find_in(class, first, text, &mut found);
        }
    }

    /// The classes that there are prefixes of.
    pub(crate) fn classes(&self) -> &[PrefixClass] {
        &self.classes
    }

    /// As [`find`](Prefixes::find), of one class; the text must be as long as that has it.
    #[inline]
    pub(crate) fn find_in(
        &self,
        class: &PrefixClass,
        first: u64,
        text: &[u8],
        mut found: impl FnMut(&[u32]),
    ) {
        let hash = prefix_hash(first, text, class.length);
        if !class.bits.has(hash) {
            return;
        }
        for row in class.table.iter_hash(hash) {
            if text.starts_with(&self.bytes[row.at as usize..(row.at + row.len) as usize]) {
                found(row.run.of(&self.postings));
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let tables =
            self.classes.iter().map(|class| class.table.capacity() * 25 + class.bits.words.len() * 8);
        tables.sum::<usize>() + self.bytes.len() + self.postings.len() * 4
    }
}

/// Of a text's first bytes, so many; `first`: the first eight.
#[inline]
fn prefix_hash(first: u64, text: &[u8], length: usize) -> u64 {
    if length <= 8 {
        return short_prefix_hash(first, length);
    }
    TextKey::of(&text[..length]).hash()
}

/// Of up to eight bytes, and at least one.
#[inline]
fn short_prefix_hash(first: u64, length: usize) -> u64 {
    fold(first & (u64::MAX >> (64 - 8 * length as u32)), length as u64)
}

/// Runs of equal neighbours.
fn runs<T>(sorted: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Run> {
    let mut start = 0;
    let run = |chunk: &[T]| {
        let run = Run { start, count: chunk.len() as u32 };
        start += run.count;
        run
    };
    sorted.chunk_by(same).map(run).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tables_find_what_was_put_in(
            texts in proptest::collection::vec("[abé]{0,30}", 0..40),
            asked in proptest::collection::vec("[abé]{0,30}", 0..40),
            numbers in proptest::collection::vec(0_u64..30, 0..40),
        ) {
            let pairs: Vec<(&str, u32)> = texts.iter().zip(0..).map(|(text, at)| (text.as_str(), at)).collect();
            let points = TextPoints::new(pairs);
            let nonempty = || texts.iter().zip(0..).filter(|(text, _)| !text.is_empty());
            let prefixes = Prefixes::new(nonempty().map(|(text, at)| (text.as_bytes(), at)).collect());
            for text in asked.iter().chain(&texts) {
                let expected: Vec<u32> =
                    texts.iter().zip(0..).filter(|(other, _)| *other == text).map(|(_, at)| at).collect();
                let key = TextKey::of(text.as_bytes());
                prop_assert_eq!(points.get(key, text.as_bytes()), &expected);
                prop_assert!(expected.is_empty() || points.may_have(key));
                let mut found = Vec::new();
                prefixes.find(key.first, text.as_bytes(), |postings| found.extend_from_slice(postings));
                found.sort_unstable();
                let expected: Vec<u32> =
                    nonempty().filter(|(other, _)| text.starts_with(*other)).map(|(_, at)| at).collect();
                prop_assert_eq!(found, expected);
            }
            let points = Points::new(numbers.iter().copied().zip(0..).collect());
            for key in 0..40 {
                let expected: Vec<u32> =
                    numbers.iter().zip(0..).filter(|(other, _)| **other == key).map(|(_, at)| at).collect();
                prop_assert_eq!(points.get(key), &expected);
            }
        }
    }
}
