//! Finds significant bytes in JSON text, many at a time.
//!
//! On x86-64 it uses SSE2, which every x86-64 has, so nothing is chosen at run time. Elsewhere it uses eight bytes in a
//! general register. Every function is exact: at the end of the text it does byte by byte what it does fast elsewhere.

/// True if `byte` is JSON's white space.
#[inline(always)]
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// True if the first byte of a value begins a list or an object.
#[inline(always)]
pub(crate) const fn is_open(first: u8) -> bool {
    // This bit turns a `[` into a `{`.
    first | 0x20 == b'{'
}

/// The first place from `at` on that is not white space, or the end.
#[inline(always)]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] <= b' ' && is_space(bytes[at]) {
        at += 1;
    }
    at
}

/// Does the same as [`skip_space`], between the tokens of text that is known to be good: any byte up to a space is
/// white space there.
#[inline(always)]
pub(crate) fn skip_blank(bytes: &[u8], at: usize) -> usize {
    if bytes[at] > b' ' { at } else { skip_blanks(bytes, at) }
}

// Loops that are seldom run are functions of their own: what they count would take registers from the others.
#[inline(never)]
fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while bytes[at] <= b' ' {
        at += 1;
    }
    at
}

/// The end of the token before `at`, with nothing but white space between, in text that is known to be good.
#[inline(always)]
pub(crate) fn trim_blank(bytes: &[u8], at: usize) -> usize {
    if bytes[at - 1] > b' ' { at } else { trim_blanks(bytes, at) }
}

#[inline(never)]
fn trim_blanks(bytes: &[u8], mut at: usize) -> usize {
    while bytes[at - 1] <= b' ' {
        at -= 1;
    }
    at
}

/// The first place from `at` on that ends the plain part of a string: a quote, a backslash, a control character and,
/// if `NON_ASCII`, any byte beyond ASCII. The end of `bytes` if there is none.
#[inline(always)]
pub(crate) fn string_stop<const NON_ASCII: bool>(bytes: &[u8], mut at: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while at + 16 <= bytes.len() {
            // SAFETY: 16 bytes from `at` on lie within `bytes`; SSE2 is part of x86-64.
            let stops = unsafe {
                let block = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
                let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                let control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1f)), block);
                let mut stops = _mm_or_si128(_mm_or_si128(quote, backslash), control);
                if NON_ASCII {
                    stops = _mm_or_si128(stops, block);
                }
                _mm_movemask_epi8(stops) as u32
            };
            if stops != 0 {
                return at + stops.trailing_zeros() as usize;
            }
            at += 16;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    while let Some(block) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(block.try_into().unwrap_or_default());
        let mut stops = zero_bytes(word ^ repeat(b'"')) | zero_bytes(word ^ repeat(b'\\'));
        stops |= zero_bytes(word & repeat(0xe0));
        if NON_ASCII {
            stops |= word & repeat(0x80);
        }
        if stops != 0 {
            // The lowest mark is exact: false ones arise only above a true one.
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'"' || byte == b'\\' || byte < 0x20 || (NON_ASCII && byte >= 0x80) {
            return at;
        }
        at += 1;
    }
    at
}

/// The first quote or backslash from `at` on, or the end of `bytes`.
#[inline(always)]
pub(crate) fn quote_or_backslash(bytes: &[u8], mut at: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while at + 16 <= bytes.len() {
            // SAFETY: 16 bytes from `at` on lie within `bytes`; SSE2 is part of x86-64.
            let stops = unsafe {
                let block = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
                let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                _mm_movemask_epi8(_mm_or_si128(quote, backslash)) as u32
            };
            if stops != 0 {
                return at + stops.trailing_zeros() as usize;
            }
            at += 16;
        }
    }
    while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\\' {
        at += 1;
    }
    at
}

/// True if the `len` bytes from `a` on are those from `b` on; not if there are not so many. `len` is not 0.
#[inline(always)]
pub(crate) fn same(bytes: &[u8], a: usize, b: usize, len: usize) -> bool {
    // Most keys are short, and most lie far enough from the end of the buffer for one comparison of a whole register.
    #[cfg(target_arch = "x86_64")]
    if len <= 16 && a.max(b) + 16 <= bytes.len() {
        // SAFETY: 16 bytes from both places on lie within `bytes`.
        return unsafe { equal_16(bytes, a, b) } | (u32::MAX << len) == u32::MAX;
    } else if len <= 32 && a.max(b) + 32 <= bytes.len() {
        // SAFETY: 32 bytes from both places on lie within `bytes`, and `len` is 17 to 32.
        return unsafe { equal_16(bytes, a, b) & equal_16(bytes, a + len - 16, b + len - 16) } == 0xffff;
    }
    let (a, b) = (bytes.get(a..a + len), bytes.get(b..b + len));
    a.is_some() && a == b
}

/// A bit for each of the 16 bytes from `a` on that equals that from `b` on.
///
/// # Safety
///
/// From both places on, 16 bytes must be within `bytes`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn equal_16(bytes: &[u8], a: usize, b: usize) -> u32 {
    use std::arch::x86_64::*;
    debug_assert!(a.max(b) + 16 <= bytes.len());
    // SAFETY: the caller says so; SSE2 is part of x86-64.
    unsafe {
        let [a, b] = [a, b].map(|at| _mm_loadu_si128(bytes.as_ptr().add(at).cast()));
        _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
const fn repeat(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// Marks (0x80) the bytes that are zero; above the lowest of them it may mark others.
#[cfg(not(target_arch = "x86_64"))]
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeat(1)) & !word & repeat(0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place() {
        // Miri is a hundred times slower: each kind of byte once, at each place of one length.
        let (lens, apart): (&[usize], usize) =
            if cfg!(miri) { (&[17], 31) } else { (&[1, 7, 8, 15, 16, 17, 40], 1) };
        for &len in lens {
            for place in 0..len {
                for byte in (0..=255u8).step_by(apart).chain([b'"', b'\\', 0x1f, 0x80]) {
                    let mut text = vec![b'a'; len];
                    text[place] = byte;
                    let ends = byte == b'"' || byte == b'\\' || byte < 0x20;
                    assert_eq!(string_stop::<false>(&text, 0), if ends { place } else { len });
                    let ends = ends || byte >= 0x80;
                    assert_eq!(string_stop::<true>(&text, 0), if ends { place } else { len });
                    let ends = byte == b'"' || byte == b'\\';
                    assert_eq!(quote_or_backslash(&text, 0), if ends { place } else { len });
                }
            }
        }
    }
}
