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

/// Texts of up to so many bytes are keys by themselves.
const SHORT_MAX: usize = 16;

/// Texts and their postings.
#[derive(Debug, Default)]
pub(crate) struct TextPoints {
    bits: Bits,
    hasher: DefaultHashBuilder,
    short: HashTable<([u64; 2], u32, Run)>,
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
            bits: Bits::of(runs.iter().map(|run| quick_hash(text(run)))),
            short: HashTable::with_capacity(shorts),
            long: HashTable::with_capacity(runs.len() - shorts),
            ..TextPoints::default()
        };
        let mut bytes = Vec::new();
        for &run in &runs {
            let text = text(&run);
            if text.len() <= SHORT_MAX {
                let row = (words(text), text.len() as u32, run);
                made.short.insert_unique(quick_hash(text), row, |(words, len, _)| {
                    quick_hash_of(*words, *len as usize)
                });
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

    /// The postings of a text.
    #[inline]
    pub(crate) fn get(&self, text: &[u8]) -> &[u32] {
        if text.len() <= SHORT_MAX {
            let words = words(text);
            let hash = quick_hash_of(words, text.len());
            if !self.bits.has(hash) {
                return &[];
            }
            let same = |row: &([u64; 2], u32, Run)| row.0 == words && row.1 == text.len() as u32;
            return self.short.find(hash, same).map_or(&[], |row| row.2.of(&self.postings));
        }
        if !self.bits.has(quick_hash(text)) {
            return &[];
        }
        let same = |row: &LongText| self.bytes[row.at as usize..(row.at + row.len) as usize] == *text;
        self.long.find(self.hasher.hash_one(text), same).map_or(&[], |row| row.run.of(&self.postings))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bits.words.len() * 8
            + self.short.capacity() * 33
            + self.long.capacity() * 17
            + self.bytes.len()
            + self.postings.len() * 4
    }
}

/// All of a short text, or the ends of a longer one, as two words.
#[inline]
fn words(text: &[u8]) -> [u64; 2] {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        [u64::from_le_bytes(*first), u64::from_le_bytes(*last)]
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        [u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last))]
    } else {
        let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or(0));
        [byte(0) | byte(1) << 8 | byte(2) << 16, 0]
    }
}

/// Of a text's ends and its length: all there is to a short one.
#[inline]
fn quick_hash(text: &[u8]) -> u64 {
    quick_hash_of(words(text), text.len())
}

#[inline]
fn quick_hash_of(words: [u64; 2], len: usize) -> u64 {
    fold(words[0], words[1].rotate_left(17) ^ len as u64)
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
struct PrefixClass {
    length: usize,
    bits: Bits,
    table: HashTable<PrefixRow>,
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
            let hash = quick_hash(&prefix[..CLASSES[class].min(prefix.len())]);
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

    /// Tells the postings of all that a text begins with.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], mut found: impl FnMut(&[u32])) {
        for class in &self.classes {
            let Some(start) = text.get(..class.length) else { return };
            let hash = quick_hash(start);
            if !class.bits.has(hash) {
                continue;
            }
            for row in class.table.iter_hash(hash) {
                if text.starts_with(&self.bytes[row.at as usize..(row.at + row.len) as usize]) {
                    found(row.run.of(&self.postings));
                }
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let tables =
            self.classes.iter().map(|class| class.table.capacity() * 25 + class.bits.words.len() * 8);
        tables.sum::<usize>() + self.bytes.len() + self.postings.len() * 4
    }
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
                prop_assert_eq!(points.get(text.as_bytes()), &expected);
                let mut found = Vec::new();
                prefixes.find(text.as_bytes(), |postings| found.extend_from_slice(postings));
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
