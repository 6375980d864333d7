//! 64 bytes at once, and bit masks of the bytes that have a property: the lowest bit is the first byte.
//!
//! One trait, and a type for each instruction set: AVX-512 with VBMI2 (from Ice Lake and Zen 4 on), AVX2, NEON, and
//! plain words. [`widest`] chooses one at run time. All of them return the same bits.

use super::wide::{self, Wide};

/// 64 bytes in registers.
///
/// # Safety
///
/// The methods are only to be called on a machine that has the instructions of the type; [`widest`] knows.
pub(crate) trait Block: Copy {
    /// The type of eight masks.
    type Wide: Wide;

    /// The 64 bytes from `at` on, which must all be readable.
    unsafe fn load(at: *const u8) -> Self;
    /// A bit for each byte that is `byte`.
    unsafe fn equal(self, byte: u8) -> u64;
    /// A bit for each byte that is `byte` once its bit 0x20 is set.
    unsafe fn equal_folded(self, byte: u8) -> u64;
    /// A bit for each byte that is less than `byte`, which is 1 to 0x80; all are compared without sign.
    unsafe fn below(self, byte: u8) -> u64;
    /// A bit for each byte from `0` to `9`.
    unsafe fn digits(self) -> u64;
    /// A bit for each byte beyond ASCII.
    unsafe fn non_ascii(self) -> u64;
    /// The bits of each byte that `low` has for its lower half and `high` for its upper one. If that costs more than it
    /// saves, all bits.
    unsafe fn buckets(self, low: &[u8; 16], high: &[u8; 16]) -> Self;
    /// A bit for each byte that has a bit in all three.
    unsafe fn common(self, second: Self, third: Self) -> u64;
    /// Writes `base` and the place of each set bit, in order; what is written behind these is of no account. Hardly ever
    /// there are more than `MOST`.
    #[inline(always)]
    unsafe fn places<const MOST: usize>(bits: u64, base: u32, out: &mut [u32; 64]) {
        // So many at once, whether there are or not, as a branch on that would be foretold badly: as in simdjson.
        let mut rest = bits;
        let (first, others) = out.split_at_mut(MOST);
        for place in first {
            *place = base + rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
        }
        for four in others.as_chunks_mut::<4>().0 {
            if rest == 0 {
                break;
            }
            for place in four {
                *place = base + rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
            }
        }
    }
    /// Prefetches the memory at an address, if there is any.
    #[inline(always)]
    fn fetch(_: *const u8) {}
}

/// Distance at which memory is prefetched: the machine's own prefetch comes too late.
pub(crate) const AHEAD: usize = 4 << 10;

/// The sets of instructions that there are blocks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

/// All that this machine has, the widest first.
pub(crate) fn isas() -> impl Iterator<Item = Isa> {
    [
        #[cfg(target_arch = "x86_64")]
        has_avx512().then_some(Isa::Avx512),
        #[cfg(target_arch = "x86_64")]
        has_avx2().then_some(Isa::Avx2),
        // Every 64-bit ARM has it.
        #[cfg(target_arch = "aarch64")]
        Some(Isa::Neon),
        Some(Isa::Portable),
    ]
    .into_iter()
    .flatten()
}

/// True if there is AVX2, and what else is allowed with it: machines have both or neither, but a hypervisor may hide some.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

/// True if there is AVX-512 as it is since Ice Lake and Zen 4; what was before is slowed down by it.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi2")
}

/// The widest that this machine has. Costs a few loads: to be asked once a buffer.
pub(crate) fn widest() -> Isa {
    isas().next().unwrap_or(Isa::Portable)
}

/// Calls a function that is generic over [`Block`] with the instructions of `$isa` allowed in it. The function must be
/// `unsafe` and `#[inline(always)]`.
macro_rules! with_block {
    ($isa:expr, $function:ident $(::<$generic:tt>)?($($name:ident: $ty:ty),* $(,)?) $(-> $result:ty)?) => {{
        use $crate::structure::block;
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn avx512($($name: $ty),*) $(-> $result)? {
            // SAFETY: as for the caller, who knows that the machine has these.
            unsafe { $function::<block::Avx512 $(, $generic)?>($($name),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn avx2($($name: $ty),*) $(-> $result)? {
            // SAFETY: as for the caller, who knows that the machine has these.
            unsafe { $function::<block::Avx2 $(, $generic)?>($($name),*) }
        }
        #[cfg(target_arch = "aarch64")]
        #[target_feature(enable = "neon")]
        unsafe fn neon($($name: $ty),*) $(-> $result)? {
            // SAFETY: as for the caller, who knows that the machine has these.
            unsafe { $function::<block::Neon $(, $generic)?>($($name),*) }
        }
        // SAFETY: a value of `Isa` other than `Portable` is only made where the machine has its instructions.
        unsafe {
            match $isa {
                #[cfg(target_arch = "x86_64")]
                block::Isa::Avx512 => avx512($($name),*),
                #[cfg(target_arch = "x86_64")]
                block::Isa::Avx2 => avx2($($name),*),
                #[cfg(target_arch = "aarch64")]
                block::Isa::Neon => neon($($name),*),
                block::Isa::Portable => $function::<block::Portable $(, $generic)?>($($name),*),
            }
        }
    }};
}
pub(crate) use with_block;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Block;
    use crate::structure::wide;

    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512i);

    // SAFETY, of all blocks in here: the intrinsics need what the trait asks of its callers; memory is read by `load` as
    // far as its caller vouches for, and written by `places` through references to as many bytes as a register has.
    impl Block for Avx512 {
        type Wide = wide::Zmm;

        #[inline(always)]
        fn fetch(at: *const u8) {
            // SAFETY: it is a hint, with any address; SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }

        #[inline(always)]
        unsafe fn load(at: *const u8) -> Self {
            // SAFETY: the caller vouches for AVX-512 and for 64 bytes at `at`.
            unsafe { Avx512(_mm512_loadu_si512(at.cast())) }
        }

        #[inline(always)]
        unsafe fn equal(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte as i8)) }
        }

        #[inline(always)]
        unsafe fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                let folded = _mm512_or_si512(self.0, _mm512_set1_epi8(0x20));
                _mm512_cmpeq_epi8_mask(folded, _mm512_set1_epi8(byte as i8))
            }
        }

        #[inline(always)]
        unsafe fn below(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { _mm512_cmplt_epu8_mask(self.0, _mm512_set1_epi8(byte as i8)) }
        }

        #[inline(always)]
        unsafe fn digits(self) -> u64 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe {
                let from_zero = _mm512_sub_epi8(self.0, _mm512_set1_epi8(b'0' as i8));
                _mm512_cmplt_epu8_mask(from_zero, _mm512_set1_epi8(10))
            }
        }

        #[inline(always)]
        unsafe fn non_ascii(self) -> u64 {
            // SAFETY: the caller vouches for AVX-512.
            unsafe { _mm512_movepi8_mask(self.0) }
        }

        #[inline(always)]
        unsafe fn buckets(self, low: &[u8; 16], high: &[u8; 16]) -> Self {
            // SAFETY: the caller vouches for AVX-512; both tables have 16 bytes.
            unsafe {
                let [low, high] =
                    [low, high].map(|table| _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())));
                let half = _mm512_set1_epi8(0x0f);
                let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(self.0), half);
                let lower = _mm512_and_si512(self.0, half);
                Avx512(_mm512_and_si512(_mm512_shuffle_epi8(low, lower), _mm512_shuffle_epi8(high, upper)))
            }
        }

        #[inline(always)]
        unsafe fn common(self, second: Self, third: Self) -> u64 {
            // SAFETY: the caller vouches for AVX-512; the table has 64 bytes, and each part of `out` sixteen numbers.
            unsafe { _mm512_test_epi8_mask(_mm512_and_si512(self.0, second.0), third.0) }
        }

        #[inline(always)]
        unsafe fn places<const MOST: usize>(bits: u64, base: u32, out: &mut [u32; 64]) {
            const PLACES: [u8; 64] = {
                let mut places = [0; 64];
                let mut place = 0;
                while place < 64 {
                    places[place] = place as u8;
                    place += 1;
                }
                places
            };
            // SAFETY: the caller vouches for AVX-512; the table has 64 bytes, and each part of `out` sixteen numbers.
            unsafe {
                let places = _mm512_loadu_si512(PLACES.as_ptr().cast());
                let mut places = _mm512_maskz_compress_epi8(bits, places);
                let base = _mm512_set1_epi32(base as i32);
                let mut left = bits.count_ones();
                for sixteen in out.as_chunks_mut::<16>().0 {
                    let wide = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places));
                    _mm512_storeu_si512(sixteen.as_mut_ptr().cast(), _mm512_add_epi32(wide, base));
                    if left <= 16 {
                        break;
                    }
                    left -= 16;
                    places = _mm512_alignr_epi32::<4>(places, places);
                }
            }
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Avx2([__m256i; 2]);

    impl Avx2 {
        #[inline(always)]
        unsafe fn bits(halves: [__m256i; 2]) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                let [low, high] = [_mm256_movemask_epi8(halves[0]), _mm256_movemask_epi8(halves[1])];
                u64::from(low as u32) | u64::from(high as u32) << 32
            }
        }

        #[inline(always)]
        unsafe fn least(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                // At most `byte - 1` where the lesser of the two is the byte itself.
                let most = _mm256_set1_epi8(byte.wrapping_sub(1) as i8);
                let [low, high] = self.0;
                Self::bits([
                    _mm256_cmpeq_epi8(_mm256_min_epu8(low, most), low),
                    _mm256_cmpeq_epi8(_mm256_min_epu8(high, most), high),
                ])
            }
        }
    }

    impl Block for Avx2 {
        type Wide = wide::Words;

        #[inline(always)]
        fn fetch(at: *const u8) {
            // SAFETY: it is a hint, with any address; SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }

        #[inline(always)]
        unsafe fn load(at: *const u8) -> Self {
            // SAFETY: the caller vouches for AVX2 and for 64 bytes at `at`.
            unsafe { Avx2([_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(32).cast())]) }
        }

        #[inline(always)]
        unsafe fn equal(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                let byte = _mm256_set1_epi8(byte as i8);
                Self::bits([_mm256_cmpeq_epi8(self.0[0], byte), _mm256_cmpeq_epi8(self.0[1], byte)])
            }
        }

        #[inline(always)]
        unsafe fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                let bit = _mm256_set1_epi8(0x20);
                Avx2([_mm256_or_si256(self.0[0], bit), _mm256_or_si256(self.0[1], bit)]).equal(byte)
            }
        }

        #[inline(always)]
        unsafe fn below(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe { self.least(byte) }
        }

        #[inline(always)]
        unsafe fn digits(self) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                let zero = _mm256_set1_epi8(b'0' as i8);
                Avx2([_mm256_sub_epi8(self.0[0], zero), _mm256_sub_epi8(self.0[1], zero)]).least(10)
            }
        }

        #[inline(always)]
        unsafe fn non_ascii(self) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe { Self::bits(self.0) }
        }

        #[inline(always)]
        unsafe fn buckets(self, low: &[u8; 16], high: &[u8; 16]) -> Self {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                // Without closures: what is in one may not be compiled for these instructions.
                let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast()));
                let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast()));
                let half = _mm256_set1_epi8(0x0f);
                let mut found = self.0;
                for bytes in &mut found {
                    let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(*bytes), half);
                    let lower = _mm256_and_si256(*bytes, half);
                    let lower = _mm256_shuffle_epi8(low, lower);
                    *bytes = _mm256_and_si256(lower, _mm256_shuffle_epi8(high, upper));
                }
                Avx2(found)
            }
        }

        #[inline(always)]
        unsafe fn common(self, second: Self, third: Self) -> u64 {
            // SAFETY: the caller vouches for AVX2.
            unsafe {
                let zero = _mm256_setzero_si256();
                let mut none = [zero; 2];
                for (half, none) in none.iter_mut().enumerate() {
                    let two = _mm256_and_si256(self.0[half], second.0[half]);
                    *none = _mm256_cmpeq_epi8(_mm256_and_si256(two, third.0[half]), zero);
                }
                !Self::bits(none)
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::Block;
    use crate::structure::wide;

    #[derive(Clone, Copy)]
    pub(crate) struct Neon([uint8x16_t; 4]);

    impl Neon {
        /// A bit for each byte that is all ones: pairs of bytes, each with a bit of its own, are added up three times.
        #[inline(always)]
        unsafe fn bits(quarters: [uint8x16_t; 4]) -> u64 {
            const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
            // SAFETY: the caller vouches for Neon; both tables have 16 bytes.
            unsafe {
                let weights = vld1q_u8(WEIGHTS.as_ptr());
                let [a, b, c, d] = quarters.map(|quarter| vandq_u8(quarter, weights));
                let sums = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
                vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
            }
        }
    }

    // SAFETY: the intrinsics need what the trait asks of its callers, and memory is read by `load` alone, as far as its
    // caller vouches for.
    impl Block for Neon {
        type Wide = wide::Words;

        #[inline(always)]
        unsafe fn load(at: *const u8) -> Self {
            // SAFETY: the caller vouches for Neon and for 64 bytes at `at`.
            unsafe { Neon([vld1q_u8(at), vld1q_u8(at.add(16)), vld1q_u8(at.add(32)), vld1q_u8(at.add(48))]) }
        }

        #[inline(always)]
        unsafe fn equal(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe { Self::bits(self.0.map(|quarter| vceqq_u8(quarter, vdupq_n_u8(byte)))) }
        }

        #[inline(always)]
        unsafe fn equal_folded(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe { Neon(self.0.map(|quarter| vorrq_u8(quarter, vdupq_n_u8(0x20)))).equal(byte) }
        }

        #[inline(always)]
        unsafe fn below(self, byte: u8) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe { Self::bits(self.0.map(|quarter| vcltq_u8(quarter, vdupq_n_u8(byte)))) }
        }

        #[inline(always)]
        unsafe fn digits(self) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe { Neon(self.0.map(|quarter| vsubq_u8(quarter, vdupq_n_u8(b'0')))).below(10) }
        }

        #[inline(always)]
        unsafe fn non_ascii(self) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe { Self::bits(self.0.map(|quarter| vcgeq_u8(quarter, vdupq_n_u8(0x80)))) }
        }

        #[inline(always)]
        unsafe fn buckets(self, low: &[u8; 16], high: &[u8; 16]) -> Self {
            // SAFETY: the caller vouches for Neon; both tables have 16 bytes.
            unsafe {
                let (low, high) = (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr()));
                Neon(self.0.map(|quarter| {
                    let lower = vqtbl1q_u8(low, vandq_u8(quarter, vdupq_n_u8(0x0f)));
                    vandq_u8(lower, vqtbl1q_u8(high, vshrq_n_u8::<4>(quarter)))
                }))
            }
        }

        #[inline(always)]
        unsafe fn common(self, second: Self, third: Self) -> u64 {
            // SAFETY: the caller vouches for Neon.
            unsafe {
                let mut some = self.0;
                for (quarter, some) in some.iter_mut().enumerate() {
                    *some = vtstq_u8(vandq_u8(*some, second.0[quarter]), third.0[quarter]);
                }
                Self::bits(some)
            }
        }
    }
}

/// Eight bytes in each of eight general registers.
#[derive(Clone, Copy)]
pub(crate) struct Portable([u64; 8]);

const fn repeat(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

impl Portable {
    /// A bit for each byte whose highest bit is set in `words`; their other bits are of no account.
    #[inline(always)]
    fn bits(words: [u64; 8]) -> u64 {
        let mut bits = 0;
        for (place, word) in words.into_iter().enumerate() {
            // The product brings the eight bits together in the highest byte.
            let eight = ((word & repeat(0x80)) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            bits |= eight << (place * 8);
        }
        bits
    }

    /// Marks bytes of a word that are less than `byte`, at most 0x80, by their highest bit.
    #[inline(always)]
    fn mark_below(word: u64, byte: u8) -> u64 {
        // Only the lower seven bits are compared, so nothing is borrowed from the next byte.
        let reaches = (word | repeat(0x80)) - repeat(byte & 0x7f);
        let is_less = if byte == 0x80 { repeat(0x80) } else { !reaches };
        is_less & !word & repeat(0x80)
    }
}

// SAFETY: memory is read by `load` alone, as far as its caller vouches for.
impl Block for Portable {
    type Wide = wide::Words;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        let mut words = [0; 8];
        for (place, word) in words.iter_mut().enumerate() {
            // SAFETY: the caller vouches for 64 bytes at `at`.
            *word = u64::from_le_bytes(unsafe { at.add(place * 8).cast::<[u8; 8]>().read() });
        }
        Portable(words)
    }

    #[inline(always)]
    unsafe fn equal(self, byte: u8) -> u64 {
        Self::bits(self.0.map(|word| Self::mark_below(word ^ repeat(byte), 1)))
    }

    #[inline(always)]
    unsafe fn equal_folded(self, byte: u8) -> u64 {
        // SAFETY: this reads no memory and needs no instructions.
        unsafe { Portable(self.0.map(|word| word | repeat(0x20))).equal(byte) }
    }

    #[inline(always)]
    unsafe fn below(self, byte: u8) -> u64 {
        Self::bits(self.0.map(|word| Self::mark_below(word, byte)))
    }

    #[inline(always)]
    unsafe fn digits(self) -> u64 {
        Self::bits(self.0.map(|word| Self::mark_below(word, b'9' + 1) & !Self::mark_below(word, b'0')))
    }

    #[inline(always)]
    unsafe fn non_ascii(self) -> u64 {
        Self::bits(self.0)
    }

    #[inline(always)]
    unsafe fn buckets(self, _: &[u8; 16], _: &[u8; 16]) -> Self {
        Portable([u64::MAX; 8])
    }

    #[inline(always)]
    unsafe fn common(self, _: Self, _: Self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[inline(always)]
    unsafe fn all<B: Block>(block: &[u8; 64], byte: u8) -> [u64; 6] {
        // SAFETY: the block has 64 bytes; the caller vouches for the instructions.
        unsafe {
            let loaded = B::load(block.as_ptr());
            [
                loaded.equal(byte),
                loaded.equal_folded(byte),
                loaded.below(byte.clamp(1, 0x80)),
                loaded.digits(),
                loaded.non_ascii(),
                loaded.below(0x20),
            ]
        }
    }

    fn naive(block: &[u8; 64], byte: u8) -> [u64; 6] {
        let bits = |is: &dyn Fn(u8) -> bool| {
            block.iter().enumerate().fold(0, |bits, (place, &byte)| bits | u64::from(is(byte)) << place)
        };
        [
            bits(&|other| other == byte),
            bits(&|other| other | 0x20 == byte),
            bits(&|other| other < byte.clamp(1, 0x80)),
            bits(&|other| other.is_ascii_digit()),
            bits(&|other| !other.is_ascii()),
            bits(&|other| other < 0x20),
        ]
    }

    #[inline(always)]
    unsafe fn places<B: Block>(bits: u64, base: u32) -> [u32; 64] {
        let mut out = [0; 64];
        // SAFETY: the caller vouches for the instructions.
        unsafe { B::places::<8>(bits, base, &mut out) };
        out
    }

    proptest! {
        #[test]
        fn places_are_those_of_the_bits(
            bits in prop_oneof![any::<u64>(), (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c)| a & b & c)],
            base in 0..1u32 << 30,
        ) {
            let expected: Vec<u32> = (0..64).filter(|at| bits >> at & 1 == 1).map(|at| base + at).collect();
            for isa in isas() {
                let found = with_block!(isa, places(bits: u64, base: u32) -> [u32; 64]);
                prop_assert_eq!(&found[..expected.len()], &expected[..], "{:?}", isa);
            }
        }

        #[test]
        fn every_set_of_instructions_gives_the_same_bits(
            block in prop::collection::vec(any::<u8>(), 64),
            byte in any::<u8>(),
            planted in any::<u64>(),
        ) {
            let mut block: [u8; 64] = block.try_into().unwrap();
            for (place, other) in block.iter_mut().enumerate() {
                if planted >> place & 1 == 1 {
                    *other = byte.wrapping_add((place % 3) as u8).wrapping_sub(1);
                }
            }
            for isa in isas() {
                let block = &block;
                let found = with_block!(isa, all(block: &[u8; 64], byte: u8) -> [u64; 6]);
                prop_assert_eq!(found, naive(block, byte), "{:?}", isa);
            }
        }
    }
}
