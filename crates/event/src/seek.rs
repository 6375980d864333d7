//! Finds keys of events by the bytes right before a colon.
//!
//! In a key that is spelled without escapes, the closing quote is right before the colon, and the key's last bytes are
//! before the quote.
//!
//! - Up to 12 wanted keys: [`Suffixes`] tests the last three bytes of each key, at all colons of a block at once, in
//!   tables of 16 entries by half bytes. Hardly any other key is then looked at, and the order of keys does not matter.
//!   This is Teddy (Wang et al., "Hyperscan", NSDI 2019, which finds many patterns at once), applied before a colon.
//!   Like the filters of Palkar et al. ("Filter Before You Parse", VLDB 2018), it may pass too much.
//! - More wanted keys: [`Tails`] tests one bit for each hash of three such bytes, one colon after another, without a
//!   branch. If it passes all colons of a search, the next 32 searches skip it.
//!
//! [`KeyTable`] finds the passed keys exactly, by their length and last eight bytes; a longer key is compared whole. So
//! the filters cannot change a result.

use memchr::memrchr;

use crate::structure::{
    Marks,
    block::{self, Block, Isa, with_block},
};

/// A filter of keys by their last bytes.
#[derive(Debug)]
pub(crate) struct Suffixes {
    /// The groups of keys, a bit each, that may have a byte two, three and four places before the colon: by its lower
    /// half and by its upper half.
    tables: [[[u8; 16]; 2]; 3],
}

impl Suffixes {
    const GROUPS: usize = 8;

    /// The filter for these keys, which are spelled plainly.
    pub(crate) fn new<'k>(keys: impl Iterator<Item = &'k str>) -> Suffixes {
        // Neighbours by their ends are put in one group: what a group lets pass are all mixtures of its keys' bytes.
        let mut reversed: Vec<Vec<u8>> = keys.map(|key| key.bytes().rev().collect()).collect();
        reversed.sort_unstable();
        let mut tables = [[[0; 16]; 2]; 3];
        for (place, key) in reversed.iter().enumerate() {
            let group = 1 << (place * Self::GROUPS / reversed.len());
            for (back, [low, high]) in tables.iter_mut().enumerate() {
                let byte = match back.cmp(&key.len()) {
                    std::cmp::Ordering::Less => key[back],
                    // The opening quote.
                    std::cmp::Ordering::Equal => b'"',
                    std::cmp::Ordering::Greater => {
                        low.iter_mut().chain(high).for_each(|groups| *groups |= group);
                        continue;
                    }
                };
                low[usize::from(byte & 15)] |= group;
                high[usize::from(byte >> 4)] |= group;
            }
        }
        Suffixes { tables }
    }
}

/// A filter of keys by their last three bytes: one bit for each hash of those.
#[derive(Debug)]
pub(crate) struct Tails {
    bits: Box<[u64; Tails::WORDS]>,
}

impl Tails {
    const WORDS: usize = 256;

    /// The filter for these keys, which are spelled plainly.
    pub(crate) fn new<'k>(keys: impl Iterator<Item = &'k str>) -> Tails {
        let mut tails = Tails { bits: Box::new([0; Self::WORDS]) };
        for key in keys {
            match *key.as_bytes() {
                [.., third, second, last] => tails.add([third, second, last]),
                [second, last] => tails.add([b'"', second, last]),
                // Anything may stand before the opening quote.
                [last] => (0..=u8::MAX).for_each(|before| tails.add([before, b'"', last])),
                [] => tails.bits.fill(u64::MAX),
            }
        }
        tails
    }

    fn add(&mut self, [third, second, last]: [u8; 3]) {
        let (word, bit) = Self::place([third, second, last, b'"']);
        self.bits[word] |= 1 << bit;
    }

    /// The word and the bit for the four bytes before a colon, of which the closing quote is one.
    #[inline(always)]
    fn place(before: [u8; 4]) -> (usize, u32) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
        let hash = u32::from_le_bytes(before).wrapping_mul(0x9e37_79b1);
        ((hash >> 24) as usize, (hash >> 18) & 63)
    }

    #[inline(always)]
    fn may_match(&self, bytes: &[u8], colon: usize) -> bool {
        let before = bytes[..colon].last_chunk();
        before.is_none_or(|before| {
            let (word, bit) = Self::place(*before);
            (self.bits[word] >> bit) & 1 != 0
        })
    }
}

/// The first test of each key.
#[derive(Debug)]
pub(crate) enum Filter {
    /// The filter for a few wanted keys.
    Suffixes(Suffixes),
    /// The filter for many wanted keys.
    Tails(Tails),
}

impl Filter {
    /// Number of keys beyond which the groups of [`Suffixes`] pass too many other keys.
    const SUFFIXES_MAX: usize = 12;

    /// The filter for these keys, which are spelled plainly.
    pub(crate) fn new<'k>(keys: impl Iterator<Item = &'k str> + Clone) -> Filter {
        if keys.clone().count() <= Self::SUFFIXES_MAX {
            Filter::Suffixes(Suffixes::new(keys))
        } else {
            Filter::Tails(Tails::new(keys))
        }
    }
}

/// Colons of events' own keys, in order.
#[derive(Debug, Default)]
pub(crate) struct Colons {
    places: Vec<u32>,
    len: usize,
    /// Searches yet to come without [`Tails`]: they passed all colons last time.
    unfiltered: u32,
}

impl Colons {
    /// Bytes that are searched at once.
    pub(crate) const BYTES_MAX: usize = 8 << 10;
    /// Searches without [`Tails`] once they passed all.
    const UNFILTERED: u32 = 32;

    /// Finds the colons in `bytes[start..end]`, at most [`Colons::BYTES_MAX`]; those only that `filter` passes, or more.
    pub(crate) fn find(
        &mut self,
        isa: Isa,
        bytes: &[u8],
        marks: &Marks,
        span: (usize, usize),
        filter: &Filter,
    ) {
        self.places.resize(Self::BYTES_MAX + 128 + 64, 0);
        let colons = self;
        with_block!(isa, find(
            colons: &mut Colons,
            bytes: &[u8],
            marks: &Marks,
            span: (usize, usize),
            filter: &Filter,
        ));
    }

    /// Forgets what the last search passed, for another plan or buffer.
    pub(crate) fn forget(&mut self) {
        self.unfiltered = 0;
    }

    pub(crate) fn places(&self) -> &[u32] {
        &self.places[..self.len]
    }

    /// Retains those that may match by `tails`.
    #[inline(always)]
    fn retain(&mut self, bytes: &[u8], tails: &Tails) {
        let mut kept = 0;
        // Each is written, whether it is kept or not, as a branch on that would be foretold badly.
        for at in 0..self.len {
            let colon = self.places[at];
            self.places[kept] = colon;
            kept += usize::from(tails.may_match(bytes, colon as usize));
        }
        if kept == self.len {
            self.unfiltered = Self::UNFILTERED;
        }
        self.len = kept;
    }

    /// # Safety
    ///
    /// The machine has the instructions of `B`.
    #[inline(always)]
    unsafe fn add<B: Block>(&mut self, block: usize, colons: u64) {
        if let Some(out) = self.places[self.len..].first_chunk_mut() {
            // SAFETY: the caller's.
            unsafe { B::places::<8>(colons, (block * 64) as u32, out) };
        }
        self.len += colons.count_ones() as usize;
    }
}

/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn find<B: Block>(
    found: &mut Colons,
    bytes: &[u8],
    marks: &Marks,
    (start, end): (usize, usize),
    filter: &Filter,
) {
    found.len = 0;
    match filter {
        Filter::Tails(tails) => {
            for (block, colons) in marks.colons(start, end) {
                B::fetch(bytes.as_ptr().wrapping_add(block * 64 + block::AHEAD));
                // SAFETY: the caller vouches for `B`.
                unsafe { found.add::<B>(block, colons) };
            }
            match found.unfiltered.checked_sub(1) {
                None => found.retain(bytes, tails),
                Some(left) => found.unfiltered = left,
            }
        }
        Filter::Suffixes(Suffixes { tables: [last, second, third] }) => {
            for (block, mut colons) in marks.colons(start, end) {
                B::fetch(bytes.as_ptr().wrapping_add(block * 64 + block::AHEAD));
                let base = block * 64;
                // SAFETY: from four bytes before the block on, 68 bytes lie within the buffer; the caller vouches for `B`.
                unsafe {
                    if base >= 4 && base + 64 <= bytes.len() {
                        let at = bytes.as_ptr().add(base);
                        let last = B::load(at.sub(2)).buckets(&last[0], &last[1]);
                        let second = B::load(at.sub(3)).buckets(&second[0], &second[1]);
                        let third = B::load(at.sub(4)).buckets(&third[0], &third[1]);
                        colons &= last.common(second, third);
                    }
                    found.add::<B>(block, colons);
                }
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
        let mut table =
            KeyTable { slots: vec![Self::EMPTY; (keys.len() * 4).next_power_of_two().max(2)], keys };
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
        // The highest bits, as a short key leaves the lowest ones alone.
        (mixed >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// The index of the key `bytes[start..end]`.
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
            // A key of up to eight bytes is all in its tail.
            if *tail == wanted && key.len() == end - start && (key.len() <= 8 || **key == bytes[start..end]) {
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

/// Start of the plainly spelled key whose closing quote is right before `colon`.
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

/// True if a key is spelled without escapes wherever it is spelled plainly.
pub(crate) fn is_plain(key: &str) -> bool {
    key.bytes().all(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_keys_are_spread_over_the_table() {
        let keys: Vec<String> = (1..=62).map(|number| format!("s{number:02}")).collect();
        let table = KeyTable::new(keys.iter().map(String::as_str));
        let is_at_home = |(tail, key): &&(u64, Box<[u8]>)| {
            let place = table.slots[table.home(*tail, key.len())];
            table.keys.get(place as usize).is_some_and(|(_, other)| other == key)
        };
        let at_home = table.keys.iter().filter(is_at_home).count();
        assert!(at_home > 45, "{at_home} of 62");
    }

    proptest! {
        #[test]
        fn what_is_passed_and_found_is_what_a_plain_search_finds(
            // Miri is a hundred times slower.
            keys in prop::collection::vec("[ab1]{0,3}|[a-z]{4,40}|ä[ab]{5,9}", 1..if cfg!(miri) { 6 } else { 40 }),
            space in "[ ]{0,70}",
        ) {
            let fields: Vec<String> =
                keys.iter().map(|key| format!("\"{key}\":{space}{{\"{key}\":[\"a\",1]}}")).collect();
            let text = format!("{{{}}}{{\"ab\":\"ab\"}}", fields.join(","));
            let bytes = text.as_bytes();
            let end = bytes.len() - 11;
            let marks = Marks::of(bytes, &[(0, end as u32), (end as u32, bytes.len() as u32)]);
            let mut colons = Colons::default();
            let any = Filter::Tails(Tails::new([""].into_iter()));
            colons.find(block::widest(), bytes, &marks, (0, end), &any);
            let places: Vec<usize> = colons.places().iter().map(|&place| place as usize).collect();
            prop_assert_eq!(places.len(), keys.len());
            for (&colon, key) in places.iter().zip(&keys) {
                prop_assert_eq!(&text[key_start(bytes, colon)..colon - 1], key);
            }
            let mut wanted = keys.clone();
            wanted.sort();
            wanted.dedup();
            let wanted: Vec<&str> = wanted.iter().step_by(2).map(String::as_str).collect();
            let table = KeyTable::new(wanted.iter().copied());
            let filters = [
                Filter::Suffixes(Suffixes::new(wanted.iter().copied())),
                Filter::Tails(Tails::new(wanted.iter().copied())),
            ];
            let expected: Vec<(usize, usize)> = places
                .iter()
                .zip(&keys)
                .filter_map(|(&colon, key)| Some((colon, wanted.iter().position(|other| other == key)?)))
                .collect();
            for (isa, filter) in block::isas().flat_map(|isa| filters.iter().map(move |filter| (isa, filter))) {
                colons.forget();
                colons.find(isa, bytes, &marks, (0, end), filter);
                let found: Vec<(usize, usize)> = colons
                    .places()
                    .iter()
                    .filter_map(|&colon| {
                        let colon = colon as usize;
                        Some((colon, table.find(bytes, key_start(bytes, colon), colon - 1)?))
                    })
                    .collect();
                prop_assert_eq!(&found, &expected, "{:?}", isa);
            }
        }
    }
}
