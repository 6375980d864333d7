//! Reads JSON text that is known to be valid: the ends of values, and the contents of strings.
//!
//! Every function takes a whole buffer and a position in it where the grammar was checked ([`crate::grammar`]). On
//! unchecked text they may return nonsense or panic, but they never read outside the buffer.

use std::ops::Range;

use crate::scan::{quote_or_backslash, skip_space};

/// The string whose first byte after the quote is at `at`: the place of its closing quote, and whether it has escapes.
#[inline(always)]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let stop = quote_or_backslash(bytes, at);
    if bytes[stop] == b'"' { (stop, false) } else { (escaped_end(bytes, stop), true) }
}

#[cold]
fn escaped_end(bytes: &[u8], mut backslash: usize) -> usize {
    loop {
        let stop = quote_or_backslash(bytes, backslash + 2);
        if bytes[stop] == b'"' {
            return stop;
        }
        backslash = stop;
    }
}

/// The end of the value that begins at `at`, and whether it is a string with escapes.
#[inline(always)]
pub(crate) fn value_end(bytes: &[u8], at: usize) -> (usize, bool) {
    match bytes[at] {
        b'"' => {
            let (quote, escaped) = string_end(bytes, at + 1);
            (quote + 1, escaped)
        }
        b'{' | b'[' => (container_end(bytes, at + 1), false),
        _ => (scalar_end(bytes, at), false),
    }
}

/// The end of the number or literal at `at`.
#[inline(always)]
pub(crate) fn scalar_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && !matches!(bytes[at], b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
        at += 1;
    }
    at
}

/// The end of the list or object within which `at` lies, between two of its tokens.
pub(crate) fn container_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 1usize;
    loop {
        at = bracket_or_quote(bytes, at);
        match bytes[at] {
            b'"' => at = string_end(bytes, at + 1).0,
            b'{' | b'[' => depth += 1,
            _ => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
        }
        at += 1;
    }
}

#[inline(always)]
fn bracket_or_quote(bytes: &[u8], mut at: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while at + 16 <= bytes.len() {
            // SAFETY: 16 bytes from `at` on lie within `bytes`; SSE2 is part of x86-64.
            let stops = unsafe {
                let block = _mm_loadu_si128(bytes.as_ptr().add(at).cast());
                let quote = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                // `[` and `{`, `]` and `}` differ in one bit.
                let curly = _mm_or_si128(block, _mm_set1_epi8(0x20));
                let open = _mm_cmpeq_epi8(curly, _mm_set1_epi8(b'{' as i8));
                let close = _mm_cmpeq_epi8(curly, _mm_set1_epi8(b'}' as i8));
                _mm_movemask_epi8(_mm_or_si128(quote, _mm_or_si128(open, close))) as u32
            };
            if stops != 0 {
                return at + stops.trailing_zeros() as usize;
            }
            at += 16;
        }
    }
    while at < bytes.len() && !matches!(bytes[at], b'"' | b'{' | b'}' | b'[' | b']') {
        at += 1;
    }
    at
}

/// Visits the elements of the list at `at`: `element` receives an element's place and returns its end. Returns the end
/// of the list.
#[inline(always)]
pub(crate) fn each_element(bytes: &[u8], at: usize, mut element: impl FnMut(usize) -> usize) -> usize {
    let mut at = skip_space(bytes, at + 1);
    if bytes[at] == b']' {
        return at + 1;
    }
    loop {
        at = skip_space(bytes, element(at));
        if bytes[at] == b']' {
            return at + 1;
        }
        at = skip_space(bytes, at + 1);
    }
}

/// Visits the fields of the object at `at`: `field` receives the place of a key (without its quotes), a flag for its
/// escapes, and the place of the value, and returns the value's end.
#[inline(always)]
pub(crate) fn each_field(
    bytes: &[u8],
    at: usize,
    mut field: impl FnMut(Range<usize>, bool, usize) -> usize,
) -> usize {
    let mut at = skip_space(bytes, at + 1);
    if bytes[at] == b'}' {
        return at + 1;
    }
    loop {
        let (quote, escaped) = string_end(bytes, at + 1);
        let colon = skip_space(bytes, quote + 1);
        let value = skip_space(bytes, colon + 1);
        at = skip_space(bytes, field(at + 1..quote, escaped, value));
        if bytes[at] == b'}' {
            return at + 1;
        }
        at = skip_space(bytes, at + 1);
    }
}

/// Adds what the inner text of a string says to `out`.
pub(crate) fn unescape(mut inner: &[u8], out: &mut Vec<u8>) {
    while let Some(backslash) = memchr::memchr(b'\\', inner) {
        out.extend_from_slice(&inner[..backslash]);
        let (code, used) = match inner[backslash + 1] {
            b'b' => (8, 2),
            b'f' => (12, 2),
            b'n' => (10, 2),
            b'r' => (13, 2),
            b't' => (9, 2),
            b'u' => match hex4(&inner[backslash + 2..]) {
                high @ 0xd800..=0xdbff => {
                    let low = hex4(&inner[backslash + 8..]);
                    (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12)
                }
                code => (code, 6),
            },
            itself => (u32::from(itself), 2),
        };
        let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        inner = &inner[backslash + used..];
    }
    out.extend_from_slice(inner);
}

fn hex4(digits: &[u8]) -> u32 {
    digits[..4].iter().fold(0, |code, &digit| code * 16 + (digit as char).to_digit(16).unwrap_or(0))
}
