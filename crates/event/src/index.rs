//! Where the brackets and commas of a text are, 64 bytes at a time, as bits.
//!
//! The text is known to be good, so its strings are told from the rest by the parity of their quotes; after Langdale and
//! Lemire, "Parsing Gigabytes of JSON per Second", VLDB 2019, of which this is the first stage. On x86-64 the widest
//! instructions that the machine has are chosen at run time (AVX2 with PCLMULQDQ, else SSE2); elsewhere it is done in
//! plain words.

/// The marks of one text, a bit a byte; nothing within strings is marked.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Brackets of both kinds.
    brackets: Vec<u8>,
    /// Brackets and commas.
    all: Vec<u8>,
    base: usize,
    has_escapes: bool,
    /// Kept in memory between the two passes: with the passes in one, LLVM takes the masks apart bit by bit.
    classes: Vec<Classes>,
}

/// What 64 bytes are, whether in strings or not; each mask in two halves, the lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Classes {
    quotes: [u32; 2],
    backslashes: [u32; 2],
    brackets: [u32; 2],
    commas: [u32; 2],
}

/// What goes over from one block to the next.
#[derive(Debug, Default)]
struct Carry {
    /// All ones within a string.
    in_string: u64,
    /// 1 if the first byte is escaped.
    escaped: u64,
    backslashes: u64,
}

impl Index {
    /// Marks `bytes[start..end]`, which is a checked event.
    pub(crate) fn read(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.base = start;
        let text = &bytes[start..end];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq") {
            // SAFETY: the features were just found.
            unsafe {
                self.classify_avx2(text);
                self.mark_clmul();
            }
            return;
        }
        self.classify(text, classes);
        self.mark(prefix_xor);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn classify_avx2(&mut self, text: &[u8]) {
        self.classify(text, |block| classes_avx2(block));
    }

    #[inline(always)]
    fn classify(&mut self, text: &[u8], classes: impl Fn(&[u8; 64]) -> Classes) {
        let (blocks, rest) = text.as_chunks::<64>();
        self.classes.clear();
        self.classes.extend(blocks.iter().map(&classes));
        if !rest.is_empty() {
            let mut block = [b' '; 64];
            block[..rest.len()].copy_from_slice(rest);
            self.classes.push(classes(&block));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "pclmulqdq")]
    fn mark_clmul(&mut self) {
        self.mark(|bits| prefix_xor_clmul(bits));
    }

    #[inline(always)]
    fn mark(&mut self, prefix_xor: impl Fn(u64) -> u64) {
        let mut carry = Carry::default();
        self.brackets.clear();
        self.all.clear();
        for classes in &self.classes {
            let in_string = in_string(classes, &mut carry, &prefix_xor);
            let brackets = whole(classes.brackets);
            let all = brackets | whole(classes.commas);
            self.brackets.extend_from_slice(&(brackets & !in_string).to_le_bytes());
            self.all.extend_from_slice(&(all & !in_string).to_le_bytes());
        }
        // Whoever reads marks reads 8 bytes of them at once.
        self.brackets.extend_from_slice(&[0; 8]);
        self.all.extend_from_slice(&[0; 8]);
        self.has_escapes = carry.backslashes != 0;
    }

    /// Whether there is a backslash anywhere in the text.
    #[inline(always)]
    pub(crate) fn has_escapes(&self) -> bool {
        self.has_escapes
    }

    /// The first comma or bracket from `at` on.
    #[inline(always)]
    pub(crate) fn next(&self, at: usize) -> usize {
        let mut at = at - self.base;
        loop {
            let marks = window(&self.all, at);
            if marks != 0 {
                return self.base + at + marks.trailing_zeros() as usize;
            }
            at += WINDOW;
        }
    }

    /// The end of the list or object within which `at` lies, outside its strings.
    #[inline(always)]
    pub(crate) fn container_end(&self, bytes: &[u8], at: usize) -> usize {
        let mut at = at - self.base;
        let mut depth = 1isize;
        loop {
            let mut marks = window(&self.brackets, at);
            while marks != 0 {
                let place = self.base + at + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                // `[` and `{` end in 0b011, `]` and `}` in 0b101.
                depth += if bytes[place] & 4 == 0 { 1 } else { -1 };
                if depth == 0 {
                    return place + 1;
                }
            }
            at += WINDOW;
        }
    }
}

/// How many marks [`window`] gives at least.
const WINDOW: usize = 56;

/// The marks from `at` on, at least 57 of them but for the end of the text, and at most 56 of them counted on: the
/// lowest bits of the result, the rest being cut off.
#[inline(always)]
fn window(marks: &[u8], at: usize) -> u64 {
    const COUNTED: u64 = (1 << WINDOW) - 1;
    let from = at / 8;
    let word =
        marks.get(from..from + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes);
    (word >> (at % 8)) & COUNTED
}

/// The bytes from each opening quote up to before its closing one.
#[inline(always)]
fn in_string(classes: &Classes, carry: &mut Carry, prefix_xor: &impl Fn(u64) -> u64) -> u64 {
    let (mut quotes, backslashes) = (whole(classes.quotes), whole(classes.backslashes));
    if backslashes | carry.escaped != 0 {
        quotes &= !escaped(backslashes, &mut carry.escaped);
        carry.backslashes |= backslashes;
    }
    let in_string = prefix_xor(quotes) ^ carry.in_string;
    carry.in_string = ((in_string as i64) >> 63) as u64;
    in_string
}

#[inline(always)]
fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The bytes that a backslash before them escapes. `first` says whether the first is, and is left for the next block.
fn escaped(backslashes: u64, first: &mut u64) -> u64 {
    let mut escaped = *first;
    let mut rest = backslashes & !escaped;
    *first = 0;
    while rest != 0 {
        let place = rest.trailing_zeros();
        if place == 63 {
            *first = 1;
            break;
        }
        let next = 1 << (place + 1);
        escaped |= next;
        rest &= !next & (rest - 1);
    }
    escaped
}

/// Each bit is the parity of the bits up to it.
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn prefix_xor_clmul(bits: u64) -> u64 {
    use std::arch::x86_64::*;
    let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1));
    _mm_cvtsi128_si64(product) as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn classes_avx2(block: &[u8; 64]) -> Classes {
    use std::arch::x86_64::*;
    // SAFETY: both halves lie within the block.
    let halves = unsafe {
        [_mm256_loadu_si256(block.as_ptr().cast()), _mm256_loadu_si256(block.as_ptr().add(32).cast())]
    };
    let bits = |halves: [__m256i; 2]| halves.map(|half| _mm256_movemask_epi8(half) as u32);
    let equal = |byte: u8| halves.map(|half| _mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8)));
    // `[` and `{`, `]` and `}` differ in one bit.
    let brackets = halves.map(|half| {
        let curly = _mm256_or_si256(half, _mm256_set1_epi8(0x20));
        let open = _mm256_cmpeq_epi8(curly, _mm256_set1_epi8(b'{' as i8));
        _mm256_or_si256(open, _mm256_cmpeq_epi8(curly, _mm256_set1_epi8(b'}' as i8)))
    });
    Classes {
        quotes: bits(equal(b'"')),
        backslashes: bits(equal(b'\\')),
        brackets: bits(brackets),
        commas: bits(equal(b',')),
    }
}

#[cfg(target_arch = "x86_64")]
fn classes(block: &[u8; 64]) -> Classes {
    use std::arch::x86_64::*;
    let mut classes = Classes::default();
    for quarter in 0..4 {
        // SAFETY: each quarter lies within the block; SSE2 is part of x86-64.
        unsafe {
            let bytes = _mm_loadu_si128(block.as_ptr().add(quarter * 16).cast());
            let bits = |found| u32::from(_mm_movemask_epi8(found) as u16) << (quarter % 2 * 16);
            let curly = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
            let open = _mm_cmpeq_epi8(curly, _mm_set1_epi8(b'{' as i8));
            let close = _mm_cmpeq_epi8(curly, _mm_set1_epi8(b'}' as i8));
            classes.quotes[quarter / 2] |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8)));
            classes.backslashes[quarter / 2] |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8)));
            classes.brackets[quarter / 2] |= bits(_mm_or_si128(open, close));
            classes.commas[quarter / 2] |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b',' as i8)));
        }
    }
    classes
}

#[cfg(not(target_arch = "x86_64"))]
fn classes(block: &[u8; 64]) -> Classes {
    plain_classes(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_classes(block: &[u8; 64]) -> Classes {
    let mut classes = Classes::default();
    for (place, &byte) in block.iter().enumerate() {
        let (half, bit) = (place / 32, |is: bool| u32::from(is) << (place % 32));
        classes.quotes[half] |= bit(byte == b'"');
        classes.backslashes[half] |= bit(byte == b'\\');
        classes.brackets[half] |= bit(matches!(byte | 0x20, b'{' | b'}'));
        classes.commas[half] |= bit(byte == b',');
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_ways_to_classify_agree(block in prop::collection::vec(any::<u8>(), 64), seed in any::<u64>()) {
            let mut block: [u8; 64] = block.try_into().unwrap();
            for (place, byte) in block.iter_mut().enumerate() {
                if seed >> place & 1 == 1 {
                    *byte = b"\"\\{}[],;"[usize::from(*byte) % 8];
                }
            }
            let expected = plain_classes(&block);
            prop_assert_eq!(classes(&block), expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the feature was just found.
                prop_assert_eq!(unsafe { classes_avx2(&block) }, expected);
            }
        }

        #[test]
        fn parities_agree(bits in any::<u64>()) {
            let expected = (0..64).fold(0, |parity, place| {
                parity | u64::from((bits & (u64::MAX >> (63 - place))).count_ones() % 2) << place
            });
            prop_assert_eq!(prefix_xor(bits), expected);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the feature was just found.
                prop_assert_eq!(unsafe { prefix_xor_clmul(bits) }, expected);
            }
        }

        #[test]
        fn both_ways_to_read_agree(text in "([{}\\[\\],\"]|\\\\\\\\|\\\\\"|[a-z]{1,9}){0,200}") {
            let mut wide = Index::default();
            wide.read(text.as_bytes(), 0, text.len());
            let mut plain = Index::default();
            plain.classify(text.as_bytes(), classes);
            plain.mark(prefix_xor);
            prop_assert_eq!((&wide.brackets, &wide.all), (&plain.brackets, &plain.all));
            let mut in_string = false;
            let mut escaped = false;
            for (place, byte) in text.bytes().enumerate() {
                let marked = wide.all[place / 8] >> (place % 8) & 1 == 1;
                prop_assert_eq!(marked, !in_string && b"{}[],".contains(&byte), "at {}", place);
                // Outside strings good text has no backslash, so it does not matter what one does there.
                in_string ^= byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
            }
        }
    }
}
