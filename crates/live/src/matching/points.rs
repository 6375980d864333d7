//! Maps a value to the postings of the queries that test for exactly this value.
//!
//! Hash tables follow a Bloom filter, which excludes most values that no query requests.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::bloom_filter::{BloomFilter, Mask};

/// Prefetches the memory of an element that will be needed soon.
#[inline(always)]
pub(crate) fn prefetch<T>(of: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: asking for memory reads nothing and cannot fail, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(of.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (of, at);
}

/// Postings of one value: how many, and from where; a single one stands here itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    start: u32,
    count: u32,
}

impl Run {
    /// The run of these postings, which are to be stored from `start` on.
    pub(super) fn new(start: usize, postings: &[u32]) -> Run {
        match postings {
            [one] => Run { start: *one, count: 1 },
            _ => Run { start: start as u32, count: postings.len() as u32 },
        }
    }

    #[inline]
    pub(super) fn of<'p>(&'p self, postings: &'p [u32]) -> &'p [u32] {
        match self.count {
            1 => std::slice::from_ref(&self.start),
            count => &postings[self.start as usize..(self.start + count) as usize],
        }
    }

    /// True if it has none.
    pub(super) fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// Spreads two words over all bits of one: the high and the low half of their product, as in foldhash and wyhash.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x243f_6a88_85a3_08d3) * u128::from(b ^ 0x9e37_79b9_7f4a_7c15);
    product as u64 ^ (product >> 64) as u64
}

/// The hash by which a sieve knows a number: not as good, and quicker.
#[inline]
fn sieve_hash(key: u64) -> u32 {
    ((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A hash table of keys and runs, each in the first free slot from the one that its hash tells: a look-up reads one cache
/// line, as a rule, which can be asked for beforehand.
#[derive(Debug)]
struct Slots<K> {
    slots: Box<[(K, Run)]>,
}

impl<K> Default for Slots<K> {
    fn default() -> Slots<K> {
        Slots { slots: Box::default() }
    }
}

impl<K: Copy + PartialEq + Default> Slots<K> {
    /// Each key once; none of the runs may be empty.
    fn new(pairs: impl ExactSizeIterator<Item = (u64, K, Run)>) -> Slots<K> {
        // A third of them is free at least.
        let count = pairs.len() + pairs.len() / 2 + 1;
        let mut made = Slots { slots: vec![(K::default(), Run::default()); count].into() };
        for (hash, key, run) in pairs {
            let mut slot = made.slot(hash);
            while !made.slots[slot].1.is_empty() {
                slot = made.after(slot);
            }
            made.slots[slot] = (key, run);
        }
        made
    }

    /// The slot of a hash: its share of all hashes (Lemire, TOMACS 2019).
    #[inline]
    fn slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, self.slot(hash));
    }

    #[inline]
    fn get(&self, hash: u64, key: K) -> Option<&Run> {
        let mut slot = self.slot(hash);
        loop {
            let (other, run) = self.slots.get(slot)?;
            if run.is_empty() {
                return None;
            }
            if *other == key {
                return Some(run);
            }
            slot = self.after(slot);
        }
    }

    fn bytes(&self) -> usize {
        self.slots.len() * size_of::<(K, Run)>()
    }
}

/// Keys and their postings.
#[derive(Debug, Default)]
pub(crate) struct PointIndex {
    sieve: BloomFilter,
    slots: Slots<u64>,
    postings: Box<[u32]>,
}

impl PointIndex {
    pub(crate) fn new(mut pairs: Vec<(u64, u32)>) -> PointIndex {
        pairs.sort_unstable();
        pairs.dedup();
        let postings: Box<[u32]> = pairs.iter().map(|(_, posting)| *posting).collect();
        let runs = runs(&pairs, &postings, |a, b| a.0 == b.0);
        let keys = runs.iter().map(|(at, run)| (fold(pairs[*at].0, 0), pairs[*at].0, *run));
        PointIndex {
            sieve: BloomFilter::of(keys.clone().map(|(_, key, _)| sieve_hash(key))),
            slots: Slots::new(keys),
            postings,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// True if somebody may ask for a key.
    #[inline]
    pub(crate) fn may_have(&self, key: u64) -> bool {
        self.sieve.has(sieve_hash(key))
    }

    /// Prefetches the memory that a look-up of the key will read.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        self.slots.prefetch(fold(key, 0));
    }

    /// The postings of a key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> &[u32] {
        self.slots.get(fold(key, 0), key).map_or(&[], |run| run.of(&self.postings))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.sieve.bytes() + self.slots.bytes() + self.postings.len() * 4
    }
}

/// Texts of up to so many bytes are keys by themselves: they stand in their Arrow view.
pub(super) const SHORT_MAX: usize = 12;

/// Texts and their postings.
#[derive(Debug, Default)]
pub(crate) struct TextPointIndex {
    sieve: BloomFilter,
    hasher: DefaultHashBuilder,
    short: Slots<TextKey>,
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

impl TextPointIndex {
    pub(crate) fn new(mut pairs: Vec<(&str, u32)>) -> TextPointIndex {
        pairs.sort_unstable();
        pairs.dedup();
        let postings: Box<[u32]> = pairs.iter().map(|(_, posting)| *posting).collect();
        let runs = runs(&pairs, &postings, |a, b| a.0 == b.0);
        let all = runs.iter().map(|(at, run)| (pairs[*at].0.as_bytes(), *run));
        let keys = all.clone().map(|(text, _)| TextKey::of(text));
        let short: Vec<(u64, TextKey, Run)> = all
            .clone()
            .filter(|(text, _)| text.len() <= SHORT_MAX)
            .map(|(text, run)| (TextKey::of(text).hash(), TextKey::of(text), run))
            .collect();
        let mut made = TextPointIndex {
            sieve: BloomFilter::of(keys.map(|key| Mask::ALL.hash(key.as_view()))),
            long: HashTable::with_capacity(runs.len() - short.len()),
            short: Slots::new(short.into_iter()),
            ..TextPointIndex::default()
        };
        let mut bytes = Vec::new();
        for (text, run) in all.filter(|(text, _)| text.len() > SHORT_MAX) {
            let row = LongText { at: bytes.len() as u32, len: text.len() as u32, run };
            bytes.extend_from_slice(text);
            let (hasher, bytes) = (&made.hasher, &bytes);
            let again =
                |row: &LongText| hasher.hash_one(&bytes[row.at as usize..(row.at + row.len) as usize]);
            made.long.insert_unique(hasher.hash_one(text), row, again);
        }
        made.bytes = bytes.into();
        made.postings = postings;
        made
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// The filter for texts that no query asks for.
    pub(super) fn sieve(&self) -> &BloomFilter {
        &self.sieve
    }

    /// Prefetches the memory that a look-up of the key will read.
    #[inline]
    pub(crate) fn prefetch(&self, key: TextKey) {
        self.short.prefetch(key.hash());
    }

    /// The postings of a text, whose key this is.
    #[inline]
    pub(crate) fn get(&self, key: TextKey, text: &[u8]) -> &[u32] {
        if text.len() <= SHORT_MAX {
            return self.short.get(key.hash(), key).map_or(&[], |run| run.of(&self.postings));
        }
        if self.long.is_empty() {
            return &[];
        }
        let same = |row: &LongText| self.bytes[row.at as usize..(row.at + row.len) as usize] == *text;
        self.long.find(self.hasher.hash_one(text), same).map_or(&[], |row| row.run.of(&self.postings))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.sieve.bytes()
            + self.short.bytes()
            + self.long.capacity() * (size_of::<LongText>() + 1)
            + self.bytes.len()
            + self.postings.len() * 4
    }
}

/// All of a short text, or the ends and the length of a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextKey {
    /// The first eight bytes, the first in the lowest place; zeros after a short text's end.
    first: u64,
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

    /// The key from the Arrow view of a text of at most [`SHORT_MAX`] bytes.
    #[inline]
    pub(crate) fn of_view(view: u128) -> TextKey {
        TextKey { first: (view >> 32) as u64, rest: (view >> 96) as u64 | u64::from(view as u32) << 32 }
    }

    /// The view of a text of at most [`SHORT_MAX`] bytes; of a longer one, something like it.
    #[inline]
    pub(crate) fn as_view(self) -> u128 {
        u128::from(self.first) << 32 | u128::from(self.rest) << 96 | u128::from(self.rest >> 32) & 0xffff_ffff
    }

    /// True if the text of a view stands in it.
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
    sieve: BloomFilter,
    mask: Mask,
    table: HashTable<PrefixRow>,
}

impl PrefixClass {
    /// The filter for texts that begin with none of the prefixes, and the part of a text that it tests.
    pub(super) fn sieve(&self) -> (&BloomFilter, Mask) {
        (&self.sieve, self.mask)
    }
}

#[derive(Debug)]
struct PrefixRow {
    hash: u64,
    /// The beginning, as a view.
    first: u128,
    at: u32,
    len: u32,
    run: Run,
}

impl Prefixes {
    /// Makes the index of prefixes, of which none may be empty.
    pub(crate) fn new(mut pairs: Vec<(&[u8], u32)>) -> Prefixes {
        pairs.sort_unstable();
        pairs.dedup();
        let postings: Box<[u32]> = pairs.iter().map(|(_, posting)| *posting).collect();
        let mut bytes: Vec<u8> = Vec::new();
        let mut rows: Vec<Vec<PrefixRow>> = CLASSES.iter().map(|_| Vec::new()).collect();
        for (at, run) in runs(&pairs, &postings, |a, b| a.0 == b.0) {
            let prefix = pairs[at].0;
            let class = CLASSES.partition_point(|&length| length <= prefix.len()).saturating_sub(1);
            let hash = prefix_hash(prefix, CLASSES[class]);
            let first = TextKey::of(prefix).as_view();
            rows[class].push(PrefixRow {
                hash,
                first,
                at: bytes.len() as u32,
                len: prefix.len() as u32,
                run,
            });
            bytes.extend_from_slice(prefix);
        }
        let class = |(&length, rows): (&usize, Vec<PrefixRow>)| {
            let mask = Mask::prefix(length.min(8));
            let sieve = BloomFilter::of(rows.iter().map(|row| mask.hash(row.first)));
            let mut table = HashTable::with_capacity(rows.len());
            for row in rows {
                table.insert_unique(row.hash, row, |row| row.hash);
            }
            PrefixClass { length, sieve, mask, table }
        };
        let classes = CLASSES.iter().zip(rows).filter(|(_, rows)| !rows.is_empty()).map(class).collect();
        Prefixes { classes, postings, bytes: bytes.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// Passes the postings of all prefixes of a text, which has this key, to `found`.
    #[inline]
    pub(crate) fn find(&self, key: TextKey, text: &[u8], mut found: impl FnMut(&[u32])) {
        for class in &self.classes {
            if class.sieve.has(class.mask.hash(key.as_view())) {
                self.find_in(class, text, &mut found);
            }
        }
    }

    /// The classes that there are prefixes of.
    pub(crate) fn classes(&self) -> &[PrefixClass] {
        &self.classes
    }

    /// Does the same as [`find`](Prefixes::find), for one class.
    #[inline]
    pub(crate) fn find_in(&self, class: &PrefixClass, text: &[u8], mut found: impl FnMut(&[u32])) {
        if text.len() < class.length {
            return;
        }
        for row in class.table.iter_hash(prefix_hash(text, class.length)) {
            if text.starts_with(&self.bytes[row.at as usize..(row.at + row.len) as usize]) {
                found(row.run.of(&self.postings));
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let table = |class: &PrefixClass| class.table.capacity() * (size_of::<PrefixRow>() + 1);
        let tables = self.classes.iter().map(|class| table(class) + class.sieve.bytes());
        tables.sum::<usize>() + self.bytes.len() + self.postings.len() * 4
    }
}

/// The hash of a text's first bytes; the text has so many.
#[inline]
fn prefix_hash(text: &[u8], length: usize) -> u64 {
    TextKey::of(&text[..length]).hash()
}

/// Runs of equal neighbours, each with the place of its first.
fn runs<T>(sorted: &[T], postings: &[u32], same: impl Fn(&T, &T) -> bool) -> Vec<(usize, Run)> {
    let mut start = 0;
    let run = |chunk: &[T]| {
        let from = start;
        start += chunk.len();
        (from, Run::new(from, &postings[from..start]))
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
            let points = TextPointIndex::new(pairs);
            let nonempty = || texts.iter().zip(0..).filter(|(text, _)| !text.is_empty());
            let prefixes = Prefixes::new(nonempty().map(|(text, at)| (text.as_bytes(), at)).collect());
            for text in asked.iter().chain(&texts) {
                let expected: Vec<u32> =
                    texts.iter().zip(0..).filter(|(other, _)| *other == text).map(|(_, at)| at).collect();
                let key = TextKey::of(text.as_bytes());
                prop_assert_eq!(points.get(key, text.as_bytes()), &expected);
                prop_assert!(expected.is_empty() || points.sieve().has(Mask::ALL.hash(key.as_view())));
                let mut found = Vec::new();
                prefixes.find(key, text.as_bytes(), |postings| found.extend_from_slice(postings));
                found.sort_unstable();
                let expected: Vec<u32> =
                    nonempty().filter(|(other, _)| text.starts_with(*other)).map(|(_, at)| at).collect();
                prop_assert_eq!(found, expected);
            }
            let points = PointIndex::new(numbers.iter().copied().zip(0..).collect());
            for key in 0..40 {
                let expected: Vec<u32> =
                    numbers.iter().zip(0..).filter(|(other, _)| **other == key).map(|(_, at)| at).collect();
                prop_assert_eq!(points.get(key), &expected);
            }
        }
    }
}
