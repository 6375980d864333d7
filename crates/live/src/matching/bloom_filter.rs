//! A Bloom filter that precedes a hash table: it excludes most values that no query requests, for a whole column at a
//! time.
//!
//! Texts are looked up by their Arrow views. The hash of a text of up to twelve bytes is a sum of products of the view's
//! four words. AVX2 computes it for eight views at a time.

use super::points::TextKey;

/// Bits by hash: a clear one means that no value of this hash was put in.
#[derive(Debug, Default)]
pub(super) struct BloomFilter {
    words: Box<[u32]>,
    shift: u32,
}

/// The words of a view that count for a hash, and the bytes of each: all for whole texts, the first for prefixes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask([u32; 4]);

/// Odd, and with bits of all kinds; a word's high bits are products of all that is below.
const FACTORS: [u32; 4] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];

/// Maximum number of bits of a filter: its words are then numbered by 26 bits.
const BITS_MAX: usize = 1 << 31;

impl Mask {
    /// The mask for whole texts.
    pub(super) const ALL: Mask = Mask([u32::MAX; 4]);

    /// The mask for so many first bytes of a text, at most eight: the key of a longer text has no more.
    pub(super) fn prefix(length: usize) -> Mask {
        let bytes = |word: usize| match length.saturating_sub(word * 4) {
            0 => 0,
            count @ 1..4 => (1_u32 << (8 * count)) - 1,
            _ => u32::MAX,
        };
        Mask([0, bytes(0), bytes(1), 0])
    }

    /// True if a view tells all that counts of a text, even of one that does not stand in it.
    fn is_in_every_view(self) -> bool {
        self.0[0] == 0 && self.0[2] == 0 && self.0[3] == 0
    }

    /// The hash of what stands in a view.
    #[inline]
    pub(super) fn hash(self, view: u128) -> u32 {
        let words = [view as u32, (view >> 32) as u32, (view >> 64) as u32, (view >> 96) as u32];
        let product = |at: usize| (words[at] & self.0[at]).wrapping_mul(FACTORS[at]);
        product(0).wrapping_add(product(1)).wrapping_add(product(2).wrapping_add(product(3)))
    }
}

impl BloomFilter {
    /// 16 to 32 bits a value.
    pub(super) fn of(hashes: impl ExactSizeIterator<Item = u32>) -> BloomFilter {
        let bits = (hashes.len() * 16).next_power_of_two().clamp(64, BITS_MAX);
        let mut made = BloomFilter { words: vec![0; bits / 32].into(), shift: 32 - bits.trailing_zeros() };
        for hash in hashes {
            let bit = hash >> made.shift;
            made.words[(bit / 32) as usize] |= 1 << (bit % 32);
        }
        made
    }

    /// True if a value of this hash may be in it.
    #[inline]
    pub(super) fn has(&self, hash: u32) -> bool {
        let bit = hash >> self.shift;
        self.words[(bit / 32) as usize] >> (bit % 32) & 1 == 1
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    /// Appends the rows whose texts may be in it; `text` gives one that does not stand in its view.
    pub(super) fn sift<'t>(
        &self,
        views: &[u128],
        mask: Mask,
        text: impl Fn(usize) -> &'t [u8],
        passed: &mut Vec<u32>,
    ) {
        let one = |row: usize| {
            let view = views[row];
            match mask.is_in_every_view() || TextKey::is_short(view) {
                true => self.has(mask.hash(view)),
                false => self.has(mask.hash(TextKey::of(text(row)).as_view())),
            }
        };
        let mut row = 0;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            row = unsafe { avx2::sift(self, views, mask, one, passed) };
        }
        passed.extend((row..views.len() as u32).filter(|&row| one(row as usize)));
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi32_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_blend_epi32,
        _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_i32gather_epi32, _mm256_loadu_si256,
        _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_permutevar8x32_epi32,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm256_shuffle_epi32, _mm256_sllv_epi32, _mm256_srl_epi32,
        _mm256_srli_epi32, _mm256_sub_epi32, _mm256_testz_si256,
    };

    use super::{BloomFilter, FACTORS, Mask};
    use crate::matching::points::SHORT_MAX;

    /// Appends the rows whose views may be in the set, eight rows at a time; returns the first row of the rest. A view
    /// that is not sufficient is decided by `one`.
    #[target_feature(enable = "avx2")]
    pub(super) fn sift(
        sieve: &BloomFilter,
        views: &[u128],
        mask: Mask,
        one: impl Fn(usize) -> bool,
        passed: &mut Vec<u32>,
    ) -> u32 {
        let mut row = 0;
        for views in views.as_chunks::<8>().0 {
            match eight(sieve, views, mask) {
                Some(mut bits) => {
                    while bits != 0 {
                        passed.push(row + bits.trailing_zeros());
                        bits &= bits - 1;
                    }
                }
                None => passed.extend((row..row + 8).filter(|&row| one(row as usize))),
            }
            row += 8;
        }
        row
    }

    /// A bit for each of eight views that may be in the set; `None` if one of them is not sufficient to decide.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight(sieve: &BloomFilter, views: &[u128; 8], mask: Mask) -> Option<u32> {
        let twice = |words: [u32; 4]| {
            let [a, b, c, d] = words.map(|word| word as i32);
            _mm256_setr_epi32(a, b, c, d, a, b, c, d)
        };
        let (masks, factors) = (twice(mask.0), twice(FACTORS));
        let mut sums = [masks; 4];
        let mut all = [masks; 4];
        for (at, (sum, all)) in sums.iter_mut().zip(&mut all).enumerate() {
            // SAFETY: there are eight views of sixteen bytes, and this reads the two from `2 * at` on.
            let two = unsafe { _mm256_loadu_si256(views.as_ptr().add(2 * at).cast::<__m256i>()) };
            *all = two;
            let products = _mm256_mullo_epi32(_mm256_and_si256(two, masks), factors);
            // In each half, every word becomes the sum of all.
            let pairs = _mm256_add_epi32(products, _mm256_shuffle_epi32::<0b10_11_00_01>(products));
            *sum = _mm256_add_epi32(pairs, _mm256_shuffle_epi32::<0b01_00_11_10>(pairs));
        }
        if !mask.is_in_every_view() {
            // Lengths are the first word of each half. None is negative.
            let longest = _mm256_or_si256(
                _mm256_cmpgt_epi32(all[0], _mm256_set1_epi32(SHORT_MAX as i32)),
                _mm256_cmpgt_epi32(all[1], _mm256_set1_epi32(SHORT_MAX as i32)),
            );
            let longest = _mm256_or_si256(
                longest,
                _mm256_or_si256(
                    _mm256_cmpgt_epi32(all[2], _mm256_set1_epi32(SHORT_MAX as i32)),
                    _mm256_cmpgt_epi32(all[3], _mm256_set1_epi32(SHORT_MAX as i32)),
                ),
            );
            if _mm256_testz_si256(longest, twice([u32::MAX, 0, 0, 0])) == 0 {
                return None;
            }
        }
        // Word `at` of a half from sum `at`: views 0, 2, 4, 6, then 1, 3, 5, 7.
        let low = _mm256_blend_epi32::<0b1010_1010>(sums[0], sums[1]);
        let high = _mm256_blend_epi32::<0b1010_1010>(sums[2], sums[3]);
        let mixed = _mm256_blend_epi32::<0b1100_1100>(low, high);
        let hashes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        let bits = _mm256_srl_epi32(hashes, _mm_cvtsi32_si128(sieve.shift as i32));
        // SAFETY: a hash shifted right is less than the number of bits, 32 to a word.
        let words =
            unsafe { _mm256_i32gather_epi32::<4>(sieve.words.as_ptr().cast(), _mm256_srli_epi32::<5>(bits)) };
        // The bit asked for becomes the sign.
        let within = _mm256_and_si256(bits, _mm256_set1_epi32(31));
        let signs = _mm256_sllv_epi32(words, _mm256_sub_epi32(_mm256_set1_epi32(31), within));
        Some(_mm256_movemask_ps(_mm256_castsi256_ps(signs)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_that_pass_are_those_whose_hashes_are_there(
            texts in proptest::collection::vec("[ab]{0,5}|[abé]{10,15}", 0..60),
            asked in proptest::collection::vec("[ab]{0,5}|[abé]{10,15}", 0..40),
            length in 0_usize..=9,
        ) {
            let array = StringViewArray::from_iter_values(&texts);
            let mask = if length == 9 { Mask::ALL } else { Mask::prefix(length) };
            let view = |text: &str| TextKey::of(text.as_bytes()).as_view();
            let sieve = BloomFilter::of(asked.iter().map(|text| mask.hash(view(text))));
            let mut passed = Vec::new();
            sieve.sift(array.views(), mask, |row| array.value(row).as_bytes(), &mut passed);
            let expected: Vec<u32> =
                (0..texts.len()).filter(|&row| sieve.has(mask.hash(view(&texts[row])))).map(|row| row as u32).collect();
            prop_assert_eq!(&passed, &expected);
            for (row, text) in texts.iter().enumerate() {
                let start = |text: &str| text.as_bytes()[..text.len().min(length)].to_vec();
                let is_asked = asked.iter().any(|other| match length {
                    9 => other == text,
                    _ => start(other) == start(text) && other.len() >= length,
                });
                prop_assert!(!is_asked || passed.contains(&(row as u32)), "{}", text);
            }
        }
    }
}
