//! Parses numbers of any size as the wanted types. All functions parse one number that the grammar allows.

/// The whole number that is written there, if it is one and fits: `5`, `5.0`, `50e-1` and `0.5e1` are all 5, exactly,
/// without a detour over floating point. It begins at `start`, and ends where `text` does.
#[inline(always)]
pub(crate) fn integer_in(text: &[u8], start: usize) -> Option<i64> {
    match plain_integer_in(text, start) {
        PlainInteger::Value(value) => Some(value),
        PlainInteger::TooLarge => None,
        PlainInteger::Scaled => scaled_integer(&text[start..]),
    }
}

/// [`integer_in`], of a number alone.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    integer_in(text, 0)
}

/// A number written without point and exponent.
pub(crate) enum PlainInteger {
    Value(i64),
    TooLarge,
    /// It has a point or an exponent.
    Scaled,
}

/// Reads a number written without point and exponent, which ends `text`; it begins at `start`. `-0` is 0.
#[inline(always)]
pub(crate) fn plain_integer_in(text: &[u8], start: usize) -> PlainInteger {
    let negative = text[start] == b'-';
    let len = text.len() - start - usize::from(negative);
    // The last eight bytes, and the eight before these.
    let value = match (text.last_chunk(), text[..text.len().saturating_sub(8)].last_chunk()) {
        (Some(last), _) if len <= 8 => eight_digits(last, len),
        (Some(last), Some(first)) if len <= 16 => {
            eight_digits(first, len - 8).and_then(|first| Some(first * 100_000_000 + eight_digits(last, 8)?))
        }
        _ => return long_integer(&text[start..]),
    };
    match value {
        Some(value) => PlainInteger::Value(if negative { -(value as i64) } else { value as i64 }),
        None => PlainInteger::Scaled,
    }
}

/// The number that the last `len` of these bytes are, 1 to 8, if all of them are digits: all at once, as in simdjson.
#[inline(always)]
fn eight_digits(bytes: &[u8; 8], len: usize) -> Option<u64> {
    const fn repeat(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // Each digit's value; zeros before the first.
    let digits = (u64::from_le_bytes(*bytes) ^ repeat(b'0')) & (u64::MAX << (64 - 8 * len));
    // A value above 9 reaches 0x80.
    if (digits.wrapping_add(repeat(0x76)) | digits) & repeat(0x80) != 0 {
        return None;
    }
    // Twos, fours, and all eight.
    let twos = digits.wrapping_mul(1 + (10 << 8)) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = twos.wrapping_mul(1 + (100 << 16)) >> 16 & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(1 + (10_000 << 32)) >> 32)
}

/// [`plain_integer_in`], of a number alone.
pub(crate) fn plain_integer(text: &[u8]) -> PlainInteger {
    plain_integer_in(text, 0)
}

#[cold]
fn long_integer(text: &[u8]) -> PlainInteger {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.iter().all(u8::is_ascii_digit) {
        return PlainInteger::Scaled;
    }
    match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
        Some(value) => PlainInteger::Value(value),
        None => PlainInteger::TooLarge,
    }
}

#[cold]
fn scaled_integer(text: &[u8]) -> Option<i64> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let exponent_at = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = rest.split_at(exponent_at.unwrap_or(rest.len()));
    let point_at = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    let fraction_len = mantissa.len().saturating_sub(point_at + 1);
    let digits = || mantissa.iter().filter(|&&byte| byte != b'.').map(|&digit| digit - b'0');
    // The number is `digits` × 10^(exponent - fraction_len); zeros at the end of `digits` are moved into the exponent.
    let Some(zeros) = digits().rev().position(|digit| digit != 0) else { return Some(0) };
    let exponent = if exponent.is_empty() { 0 } else { saturating_exponent(&exponent[1..]) };
    let power = exponent.saturating_sub(fraction_len as i64).saturating_add(zeros as i64);
    let power = u32::try_from(power).ok().filter(|&power| power <= 18)?;
    let count = mantissa.iter().filter(|&&byte| byte != b'.').count() - zeros;
    let mut value = 0i64;
    for digit in digits().take(count) {
        // Built up below zero, where there is room for one more.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    value = value.checked_mul(10i64.pow(power))?;
    if negative { Some(value) } else { value.checked_neg() }
}

fn saturating_exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let value = digits
        .iter()
        .fold(0i64, |value, &digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -value } else { value }
}

/// The double nearest to `text`; infinite beyond the largest.
#[inline(always)]
pub(crate) fn double(text: &[u8]) -> f64 {
    short_double(text).unwrap_or_else(|| long_double(text))
}

/// The same of a number without exponent that has at most 15 digits: both these and the power of ten are doubles, so their
/// quotient is rounded once (Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990).
#[inline(always)]
fn short_double(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() > 16 {
        return None;
    }
    let (mut value, mut point) = (0u64, digits.len());
    for (place, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + u64::from(digit);
        } else if *byte == b'.' {
            point = place + 1;
        } else {
            return None;
        }
    }
    if value >= 1_000_000_000_000_000 {
        return None;
    }
    let value = value as f64 / POWERS.get(digits.len() - point)?;
    Some(if negative { -value } else { value })
}

#[cold]
fn long_double(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// The float nearest to `text`, rounded once; infinite beyond the largest.
#[inline]
pub(crate) fn float(text: &[u8]) -> f32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f32::NAN)
}

/// The number that is not finite and that `text`, with its quotes, names as we write it ([`crate::write_json`]).
#[cold]
pub(crate) fn special(text: &[u8]) -> Option<f64> {
    match text {
        b"\"NaN\"" => Some(f64::NAN),
        b"\"Infinity\"" => Some(f64::INFINITY),
        b"\"-Infinity\"" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// [`special`], as a float.
#[cold]
pub(crate) fn special_float(text: &[u8]) -> Option<f32> {
    special(text).map(|number| number as f32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_numbers_are_taken_however_they_are_written() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e5", Some(0)),
            ("5.0", Some(5)),
            ("1e3", Some(1000)),
            ("50e-1", Some(5)),
            ("0.05E+2", Some(5)),
            ("5.5", None),
            ("1e-1", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775808.000", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("922337203685477580.7e1", Some(i64::MAX)),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", None),
            ("1e99999999999999999999", None),
            ("0e99999999999999999999", Some(0)),
            ("1e-99999999999999999999", None),
            ("100000000000000000000e-20", Some(1)),
            ("123456789012345678901234567890", None),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_what_the_standard_library_reads(
            number in "-?(0|[1-9][0-9]{0,19})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?|-?(0|[1-9][0-9]{0,19})",
            before in "[0-9.-]{0,20}",
        ) {
            let expected: f64 = number.parse().unwrap();
            prop_assert_eq!(double(number.as_bytes()).to_bits(), expected.to_bits());
            let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            let expected = is_plain.then(|| number.parse::<i64>().ok());
            let text = format!("{before}{number}");
            let found = match plain_integer_in(text.as_bytes(), before.len()) {
                PlainInteger::Value(value) => Some(Some(value)),
                PlainInteger::TooLarge => Some(None),
                PlainInteger::Scaled => None,
            };
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_byte_but_a_digit_ends_a_plain_integer() {
        // Miri is a hundred times slower.
        let apart = if cfg!(miri) { 29 } else { 1 };
        for len in 1..=17 {
            for place in 0..len {
                for byte in
                    (0..=u8::MAX).step_by(apart).filter(|byte| !byte.is_ascii_digit() && *byte != b'-')
                {
                    let mut text = [b'7'; 24];
                    text[24 - len + place] = byte;
                    let found = plain_integer_in(&text, 24 - len);
                    assert!(matches!(found, PlainInteger::Scaled), "{byte} at {place} of {len}");
                }
            }
        }
    }
}
