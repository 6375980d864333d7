//! Finds keys of events by what stands right before a colon.
//!
//! Of a key that is spelled plainly, its closing quote stands before the colon, and its opening quote as far before that
//! as it is long. For few keys, [`Needle`]s look at three of these bytes at all colons of a block at once, so nothing is
//! spent on other keys, and the order of keys is of no account; after the filters of Palkar et al., "Filter Before You
//! Parse", VLDB 2018, but exact. For many keys, [`KeyTable`] looks each one up by its last eight bytes.

use memchr::memrchr;

use crate::structure::{
    Marks,
    block::{Block, Isa, with_block},
};

/// A key to be looked for.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    /// The key in its quotes.
    quoted: Box<[u8]>,
    /// How far before the colon, and which byte.
    probes: [(usize, u8); 3],
}

impl Needle {
    /// `None` for keys that cannot be spelled plainly.
    pub(crate) fn new(key: &str) -> Option<Needle> {
        if key.bytes().any(|byte| byte == b'"' || byte == b'\\' || byte < 0x20) {
            return None;
        }
        let quoted: Box<[u8]> = format!("\"{key}\"").into_bytes().into();
        // The opening quote tells the length; the last bytes are the ones in which numbered keys differ.
        let len = quoted.len();
        let probe = |back: usize| (back, quoted[len - back]);
        let probes = [probe(len), probe(2.min(len)), probe(3.min(len))];
        Some(Needle { quoted, probes })
    }

    /// Adds to `found` where the colon is after each key like this among the events' own keys in `bytes[start..end]`,
    /// none of which is spelled oddly.
    pub(crate) fn find(
        &self,
        isa: Isa,
        bytes: &[u8],
        marks: &Marks,
        span: (usize, usize),
        found: &mut Vec<usize>,
    ) {
        let needle = self;
        with_block!(isa, find(
            needle: &Needle,
            bytes: &[u8],
            marks: &Marks,
            span: (usize, usize),
            found: &mut Vec<usize>,
        ));
    }

    #[inline(always)]
    fn is_before(&self, bytes: &[u8], colon: usize) -> bool {
        colon.checked_sub(self.quoted.len()).is_some_and(|start| bytes[start..colon] == *self.quoted)
    }
}

/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn find<B: Block>(
    needle: &Needle,
    bytes: &[u8],
    marks: &Marks,
    (start, end): (usize, usize),
    found: &mut Vec<usize>,
) {
    let [far, last, before_last] = needle.probes;
    for (block, mut colons) in marks.colons(start, end) {
        let base = block * 64;
        if base >= far.0 && base + 64 <= bytes.len() {
            // SAFETY: from as far before the block as the first probe on, 64 bytes lie within the buffer, and so with
            // the other probes, which are nearer; the caller vouches for `B`.
            unsafe {
                let at = bytes.as_ptr().add(base);
                colons &= B::load(at.sub(far.0)).equal(far.1)
                    & B::load(at.sub(last.0)).equal(last.1)
                    & B::load(at.sub(before_last.0)).equal(before_last.1);
            }
        }
        while colons != 0 {
            let colon = base + colons.trailing_zeros() as usize;
            colons &= colons - 1;
            if needle.is_before(bytes, colon) {
                found.push(colon);
            }
        }
    }
}

/// Finds keys by their length and last eight bytes. Built once, for plainly spelled keys.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    /// Open addressing; [`KeyTable::EMPTY`] where there is none. The length is a power of two.
    slots: Vec<u32>,
    keys: Vec<(u64, Box<[u8]>)>,
}

impl KeyTable {
    const EMPTY: u32 = u32::MAX;

    /// Each key is found as its place.
    pub(crate) fn new<'k>(keys: impl Iterator<Item = &'k str>) -> KeyTable {
        let keys: Vec<(u64, Box<[u8]>)> =
            keys.map(|key| (tail(key.as_bytes(), 0, key.len()), key.as_bytes().into())).collect();
        let mut table = KeyTable { slots: vec![Self::EMPTY; (keys.len() * 4).next_power_of_two()], keys };
        for place in 0..table.keys.len() {
            let (tail, key) = &table.keys[place];
            let mut at = table.home(*tail, key.len());
            while table.slots[at] != Self::EMPTY {
                at = (at + 1) & (table.slots.len() - 1);
            }
            table.slots[at] = place as u32;
        }
        table
    }

    #[inline(always)]
    fn home(&self, tail: u64, len: usize) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
        let mixed = (tail ^ (len as u64).rotate_right(8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }

    /// Which key `bytes[start..end]` is.
    #[inline(always)]
    pub(crate) fn find(&self, bytes: &[u8], start: usize, end: usize) -> Option<usize> {
        let wanted = tail(bytes, start, end);
        let mut at = self.home(wanted, end - start);
        loop {
            let place = self.slots[at];
            if place == Self::EMPTY {
                return None;
            }
            let (tail, key) = &self.keys[place as usize];
            if *tail == wanted && **key == bytes[start..end] {
                return Some(place as usize);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// The last eight bytes of `bytes[start..end]`, the last one highest; zeros before shorter ones.
#[inline(always)]
fn tail(bytes: &[u8], start: usize, end: usize) -> u64 {
    let len = end - start;
    if len == 0 {
        return 0;
    }
    match end.checked_sub(8).and_then(|from| bytes.get(from..end)).and_then(|eight| eight.try_into().ok()) {
        Some(eight) => {
            let word = u64::from_le_bytes(eight);
            if len < 8 { word >> (64 - 8 * len) << (64 - 8 * len) } else { word }
        }
        None => {
            bytes[start..end]
                .iter()
                .rev()
                .fold((0, 64), |(word, shift), &byte| {
                    let shift = shift - 8;
                    (word | u64::from(byte) << shift, shift)
                })
                .0
        }
    }
}

/// Where the plainly spelled key begins whose closing quote is right before `colon`.
#[inline(always)]
pub(crate) fn key_start(bytes: &[u8], colon: usize) -> usize {
    let quote = colon - 1;
    #[cfg(target_arch = "x86_64")]
    if quote >= 16 {
        use std::arch::x86_64::*;
        // SAFETY: the 16 bytes before the quote lie within `bytes`; SSE2 is part of x86-64.
        let quotes = unsafe {
            let before = _mm_loadu_si128(bytes[quote - 16..quote].as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(before, _mm_set1_epi8(b'"' as i8))) as u32
        };
        if quotes != 0 {
            return quote - 16 + (32 - quotes.leading_zeros()) as usize;
        }
    }
    memrchr(b'"', &bytes[..quote]).map_or(0, |opening| opening + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::structure::block;

    proptest! {
        #[test]
        fn needles_and_table_find_what_a_plain_search_finds(
            keys in prop::collection::vec("[ab1]{0,3}|[a-z]{4,40}|ä[ab]{5,9}", 1..40),
            space in "[ ]{0,70}",
        ) {
            let fields: Vec<String> =
                keys.iter().map(|key| format!("\"{key}\":{space}{{\"{key}\":[\"a\",1]}}")).collect();
            let text = format!("{{{}}}{{\"ab\":\"ab\"}}", fields.join(","));
            let bytes = text.as_bytes();
            let end = bytes.len() - 11;
            let spans = [(0, end as u32), (end as u32, bytes.len() as u32)];
            let marks = Marks::of(bytes, &spans);
            let colons: Vec<usize> = marks
                .colons(0, end)
                .flat_map(|(block, bits)| (0..64).filter(move |at| bits >> at & 1 == 1).map(move |at| block * 64 + at))
                .collect();
            prop_assert_eq!(colons.len(), keys.len());
            let mut distinct = keys.clone();
            distinct.sort();
            distinct.dedup();
            let table = KeyTable::new(distinct.iter().step_by(2).map(String::as_str));
            for (place, wanted) in distinct.iter().enumerate() {
                let expected: Vec<usize> =
                    (0..keys.len()).filter(|&at| keys[at] == *wanted).map(|at| colons[at]).collect();
                for isa in block::isas() {
                    let mut found = Vec::new();
                    Needle::new(wanted).unwrap().find(isa, bytes, &marks, (0, end), &mut found);
                    prop_assert_eq!(&found, &expected);
                }
                for colon in expected {
                    let start = key_start(bytes, colon);
                    prop_assert_eq!(&text[start..colon - 1], wanted);
                    let found = table.find(bytes, start, colon - 1);
                    prop_assert_eq!(found, (place % 2 == 0).then_some(place / 2));
                }
            }
        }
    }
}
