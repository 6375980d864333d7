//! Numbers of any size, as the wanted types take them. All functions read one number that the grammar allows.

/// The whole number that `text` stands for, if it is one and fits: `5`, `5.0`, `50e-1` and `0.5e1` are all 5, exactly,
/// without a detour over floating point.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    match plain_integer(text) {
        Plain::Value(value) => Some(value),
        Plain::TooLarge => None,
        Plain::Scaled => scaled_integer(text),
    }
}

/// A number written without point and exponent.
pub(crate) enum Plain {
    Value(i64),
    TooLarge,
    /// It has a point or an exponent.
    Scaled,
}

/// Reads a number written without point and exponent; `-0` is 0.
#[inline]
pub(crate) fn plain_integer(text: &[u8]) -> Plain {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.len() <= 18 {
        let mut value = 0i64;
        for &digit in digits {
            if !digit.is_ascii_digit() {
                return Plain::Scaled;
            }
            value = value * 10 + i64::from(digit - b'0');
        }
        return Plain::Value(if negative { -value } else { value });
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Plain::Scaled;
    }
    match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
        Some(value) => Plain::Value(value),
        None => Plain::TooLarge,
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
#[inline]
pub(crate) fn double(text: &[u8]) -> f64 {
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
}
