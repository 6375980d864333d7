//! Bit masks of 512 bytes, one bit a byte: eight masks of [`super::block::Block`].
//!
//! A [`Carry`] for each operation that needs it passes state from one mask to the next.

/// 512 bits; the lowest bit of the first word is the first byte.
///
/// # Safety
///
/// The methods are only to be called on a machine that has the instructions of the type.
pub(crate) trait Wide: Copy {
    unsafe fn load(masks: &[u64; 8]) -> Self;
    unsafe fn store(self, masks: &mut [u64; 8]);
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// The bits that are set here and not in the other.
    unsafe fn and_not(self, other: Self) -> Self;
    /// A bit for each of the eight words that has a bit set.
    unsafe fn words(self) -> u8;
    /// All bits moved on by one place.
    unsafe fn shifted(self, carry: &mut Carry) -> Self;
    /// The sum of two numbers of 512 bits.
    unsafe fn plus(self, other: Self, carry: &mut Carry) -> Self;
    /// Each bit is the parity of the bits up to it, from the very first on.
    unsafe fn parities(self, carry: &mut Carry) -> Self;
}

/// One bit that goes over to the next 512.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Carry(pub(crate) u64);

/// The token after each of `tokens`, over `spaces`: where it begins. Two carries: over the spaces, and over one place.
///
/// # Safety
///
/// As for [`Wide`].
#[inline(always)]
pub(crate) unsafe fn next<W: Wide>(tokens: W, spaces: W, carries: &mut [Carry; 2]) -> W {
    // SAFETY: the caller's.
    unsafe {
        let behind = tokens.shifted(&mut carries[0]);
        behind.plus(spaces, &mut carries[1]).and_not(spaces)
    }
}

/// Moves each marker from the beginning of a run, or from within, to behind its end.
///
/// # Safety
///
/// As for [`Wide`].
#[inline(always)]
pub(crate) unsafe fn through<W: Wide>(markers: W, runs: W, carry: &mut Carry) -> W {
    // SAFETY: the caller's.
    unsafe { markers.plus(runs, carry).and_not(runs) }
}

/// Eight words in general registers, or in those that the compiler chooses.
#[derive(Clone, Copy)]
pub(crate) struct Words([u64; 8]);

impl Words {
    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = [0; 8];
        for (place, word) in words.iter_mut().enumerate() {
            *word = f(self.0[place], other.0[place]);
        }
        Words(words)
    }
}

// SAFETY: nothing here asks anything of the machine.
impl Wide for Words {
    #[inline(always)]
    unsafe fn load(masks: &[u64; 8]) -> Self {
        Words(*masks)
    }

    #[inline(always)]
    unsafe fn store(self, masks: &mut [u64; 8]) {
        *masks = self.0;
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        self.each(other, |a, b| a & b)
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        self.each(other, |a, b| a | b)
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        self.each(other, |a, b| a ^ b)
    }

    #[inline(always)]
    unsafe fn and_not(self, other: Self) -> Self {
        self.each(other, |a, b| a & !b)
    }

    #[inline(always)]
    unsafe fn words(self) -> u8 {
        self.0.iter().enumerate().fold(0, |words, (place, &word)| words | u8::from(word != 0) << place)
    }

    #[inline(always)]
    unsafe fn shifted(self, carry: &mut Carry) -> Self {
        let mut words = [0; 8];
        for (place, word) in words.iter_mut().enumerate() {
            *word = (self.0[place] << 1) | carry.0;
            carry.0 = self.0[place] >> 63;
        }
        Words(words)
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self, carry: &mut Carry) -> Self {
        let mut words = [0; 8];
        for (place, word) in words.iter_mut().enumerate() {
            let (sum, over) = self.0[place].overflowing_add(other.0[place]);
            let (sum, over_too) = sum.overflowing_add(carry.0);
            *word = sum;
            carry.0 = u64::from(over | over_too);
        }
        Words(words)
    }

    #[inline(always)]
    unsafe fn parities(self, carry: &mut Carry) -> Self {
        let mut words = self.0;
        for shift in [1, 2, 4, 8, 16, 32] {
            words.iter_mut().for_each(|word| *word ^= *word << shift);
        }
        for word in &mut words {
            *word ^= 0u64.wrapping_sub(carry.0);
            carry.0 = *word >> 63;
        }
        Words(words)
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Zmm;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Carry, Wide};

    #[derive(Clone, Copy)]
    pub(crate) struct Zmm(__m512i);

    // SAFETY: the intrinsics need AVX-512 F and BW, as the trait asks of its callers; memory is read and written through
    // references to as many bytes as a register has.
    impl Wide for Zmm {
        #[inline(always)]
        unsafe fn load(masks: &[u64; 8]) -> Self {
            // SAFETY: the caller vouches for AVX-512; the reference is to 64 bytes.
            unsafe { Zmm(_mm512_loadu_si512(masks.as_ptr().cast())) }
        }

        #[inline(always)]
        unsafe fn store(self, masks: &mut [u64; 8]) {
            // SAFETY: the caller vouches for AVX-512; the reference is to 64 bytes.
            unsafe { _mm512_storeu_si512(masks.as_mut_ptr().cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn and(self, other: Self) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { Zmm(_mm512_and_si512(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn or(self, other: Self) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { Zmm(_mm512_or_si512(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { Zmm(_mm512_xor_si512(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn and_not(self, other: Self) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { Zmm(_mm512_andnot_si512(other.0, self.0)) }
        }

        #[inline(always)]
        unsafe fn words(self) -> u8 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { _mm512_test_epi64_mask(self.0, self.0) }
        }

        #[inline(always)]
        unsafe fn shifted(self, carry: &mut Carry) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                let highest = _mm512_srli_epi64::<63>(self.0);
                // The highest bits of the words, each one word on, the carry before them.
                let before = _mm512_maskz_set1_epi64(1 << 7, carry.0 as i64);
                let from_below = _mm512_alignr_epi64::<7>(highest, before);
                carry.0 = u64::from(_mm512_movepi64_mask(self.0) >> 7);
                Zmm(_mm512_or_si512(_mm512_slli_epi64::<1>(self.0), from_below))
            }
        }

        #[inline(always)]
        unsafe fn plus(self, other: Self, carry: &mut Carry) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                let sum = _mm512_add_epi64(self.0, other.0);
                let ones = _mm512_set1_epi64(-1);
                // The words that generate a carry, and those that propagate one: an addition of both carries all of
                // them.
                let gives = u32::from(_mm512_cmplt_epu64_mask(sum, self.0));
                let passes = u32::from(_mm512_cmpeq_epi64_mask(sum, ones));
                let takes = (((gives << 1) | carry.0 as u32) + passes) ^ passes;
                carry.0 = u64::from(takes >> 8);
                Zmm(_mm512_mask_sub_epi64(sum, takes as u8, sum, ones))
            }
        }

        #[inline(always)]
        unsafe fn parities(self, carry: &mut Carry) -> Self {
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                let mut x = self.0;
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<1>(x));
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<2>(x));
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<4>(x));
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<8>(x));
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<16>(x));
                x = _mm512_xor_si512(x, _mm512_slli_epi64::<32>(x));
                // The same once more for the words' own parities.
                let mut words = u32::from(_mm512_movepi64_mask(x));
                words ^= words << 1;
                words ^= words << 2;
                words ^= words << 4;
                let flipped = (words << 1) ^ 0u32.wrapping_sub(carry.0 as u32);
                carry.0 = u64::from(flipped >> 8) & 1;
                Zmm(_mm512_mask_xor_epi64(x, flipped as u8, x, _mm512_set1_epi64(-1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::structure::block::{self, Block, with_block};

    type Results = (Vec<[u64; 8]>, u8, [u64; 3]);

    #[inline(always)]
    unsafe fn all<B: Block>(a: &[u64; 8], b: &[u64; 8], carry: u64) -> Results {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let (x, y) = (B::Wide::load(a), B::Wide::load(b));
            let mut carries = [Carry(carry); 3];
            let wides = [
                x.and(y),
                x.or(y),
                x.xor(y),
                x.and_not(y),
                x.shifted(&mut carries[0]),
                x.plus(y, &mut carries[1]),
                x.parities(&mut carries[2]),
            ];
            let stored = wides.map(|wide| {
                let mut masks = [0; 8];
                wide.store(&mut masks);
                masks
            });
            (stored.to_vec(), x.words(), carries.map(|carry| carry.0))
        }
    }

    fn masks() -> impl Strategy<Value = [u64; 8]> {
        // Runs of ones and zeros, so that carries run through whole words.
        prop::array::uniform8(prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just(1), any::<u64>()])
    }

    proptest! {
        #[test]
        fn registers_do_as_words_do(a in masks(), b in masks(), carry in 0u64..2) {
            let (a, b) = (&a, &b);
            let mut found = Vec::new();
            for isa in block::isas() {
                found.push(with_block!(isa, all(a: &[u64; 8], b: &[u64; 8], carry: u64) -> Results));
            }
            for other in &found {
                prop_assert_eq!(other, &found[found.len() - 1]);
            }
            // The words themselves against plain arithmetic.
            let (wides, words, carries) = &found[found.len() - 1];
            let bit = |masks: &[u64; 8], at: usize| masks[at / 64] >> (at % 64) & 1;
            let (mut over, mut parity) = (carry, carry);
            for at in 0..512 {
                prop_assert_eq!(bit(&wides[4], at), if at == 0 { carry } else { bit(a, at - 1) });
                let sum = bit(a, at) + bit(b, at) + over;
                prop_assert_eq!(bit(&wides[5], at), sum & 1);
                over = sum >> 1;
                parity ^= bit(a, at);
                prop_assert_eq!(bit(&wides[6], at), parity);
                prop_assert_eq!(bit(&wides[3], at), bit(a, at) & !bit(b, at));
            }
            prop_assert_eq!(*carries, [bit(a, 511), over, parity]);
            prop_assert_eq!(*words, (0..8).fold(0, |words, at| words | u8::from(a[at] != 0) << at));
        }
    }
}
