//! The JSON text of single values: numbers, bytes, times, decimals.

use std::io::Write;

use swiftwater_event::{Value, rfc3339, write_json};

use crate::Fault;

const DAY_MICROS: i64 = 86_400_000_000;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

pub(crate) fn whole(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(feature = "protobuf")]
pub(crate) fn whole_unsigned(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The shortest text that reads back the same; those that are not finite are texts, which columns accept.
pub(crate) fn double(value: f64, out: &mut Vec<u8>) {
    write_json(&Value::Double(value), out);
}

/// As [`double`], with the digits that 32 bits need.
pub(crate) fn float(value: f32, out: &mut Vec<u8>) {
    write_json(&Value::Float(value), out);
}

pub(crate) fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    write_json(&Value::String(text), out);
}

/// Bytes as a text of base64, with `=` at its end (RFC 4648, section 4).
pub(crate) fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for part in bytes.chunks(3) {
        let at = |place: usize| u32::from(part.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_there = digit <= part.len();
            out.push(if is_there { BASE64[(bits >> (18 - 6 * digit) & 63) as usize] } else { b'=' });
        }
    }
    out.push(b'"');
}

/// The bytes of a text of base64; none if it is no such text.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for digit in digits {
        let value = u32::from(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        });
        (bits, count) = (bits << 6 | value, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// `'YYYY-MM-DD'` of a number of days since 1970-01-01.
pub(crate) fn date(days: i32, out: &mut Vec<u8>) -> Result<(), Fault> {
    let micros = i64::from(days).checked_mul(DAY_MICROS);
    let text = rfc3339(micros.ok_or_else(|| Fault::new(format!("day {days} is beyond the range of times")))?);
    string(text.split('T').next().unwrap_or_default(), out);
    Ok(())
}

/// A time of day, with the digits of its unit.
pub(crate) fn time(value: i64, unit: Unit, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (per_second, digits) = match unit {
        Unit::Millis => (1_000, 3),
        Unit::Micros => (1_000_000, 6),
        Unit::Nanos => (1_000_000_000, 9),
    };
    let (seconds, part) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    if !(0..86_400).contains(&seconds) {
        return Err(Fault::new(format!("{value} is no time of a day")));
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Writing to memory cannot fail.
    let _ = write!(out, "\"{hour:02}:{minute:02}:{second:02}.{part:0digits$}\"");
    Ok(())
}

/// A point in time as RFC 3339 text in UTC, with the digits that it needs: 3, 6 or 9. A local one has no zone.
pub(crate) fn timestamp(value: i64, unit: Unit, is_local: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (micros, nanos) = match unit {
        Unit::Millis => (value.checked_mul(1000), 0),
        Unit::Micros => (Some(value), 0),
        Unit::Nanos => (Some(value.div_euclid(1000)), value.rem_euclid(1000)),
    };
    let micros = micros.ok_or_else(|| Fault::new(format!("{value} ms is beyond the range of times")))?;
    instant(micros, nanos, is_local, out);
    Ok(())
}

/// A point in time: microseconds since 1970, and nanoseconds beyond them.
pub(crate) fn instant(micros: i64, nanos: i64, is_local: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    let text = rfc3339(micros);
    let text = text.trim_end_matches('Z');
    out.extend_from_slice(text.as_bytes());
    if nanos > 0 {
        if micros % 1000 == 0 {
            out.extend_from_slice(b"000");
        }
        let _ = write!(out, "{nanos:03}");
    }
    out.extend_from_slice(if is_local { b"\"" } else { b"Z\"" });
}

/// A whole number in two's complement, big-endian, of which `scale` digits are behind the point, as a text.
pub(crate) fn decimal(bytes: &[u8], scale: u32, out: &mut Vec<u8>) {
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let digits = match bytes.len() {
        0 => "0".to_owned(),
        1..=16 => {
            let extended = if is_negative { [0xff; 16] } else { [0; 16] };
            let mut wide = extended;
            wide[16 - bytes.len()..].copy_from_slice(bytes);
            i128::from_be_bytes(wide).unsigned_abs().to_string()
        }
        _ => digits_of(bytes, is_negative),
    };
    let scale = scale as usize;
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    out.push(b'"');
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

/// The decimal digits of a number's magnitude, by division: the caller bounds its length.
fn digits_of(bytes: &[u8], is_negative: bool) -> String {
    const BASE: u64 = 1_000_000_000;
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if is_negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (negated, overflows) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (negated, overflows);
        }
    }
    let mut words: Vec<u32> = magnitude
        .rchunks(4)
        .rev()
        .map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
        .collect();
    let mut parts = Vec::new();
    while words.iter().any(|word| *word != 0) {
        let mut rest = 0u64;
        for word in &mut words {
            let value = rest << 32 | u64::from(*word);
            (*word, rest) = ((value / BASE) as u32, value % BASE);
        }
        parts.push(rest);
    }
    let mut text = parts.pop().unwrap_or(0).to_string();
    while let Some(part) = parts.pop() {
        text.push_str(&format!("{part:09}"));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_are_base64() {
        for (given, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(text(|out| bytes(given.as_bytes(), out)), format!("\"{expected}\""));
            assert_eq!(from_base64(expected).unwrap(), given.as_bytes());
        }
    }

    #[test]
    fn times_are_texts() {
        assert_eq!(text(|out| date(0, out).unwrap()), "\"1970-01-01\"");
        assert_eq!(text(|out| date(-719_162, out).unwrap()), "\"0001-01-01\"");
        assert!(date(i32::MAX, &mut Vec::new()).is_err());
        assert_eq!(text(|out| time(1, Unit::Millis, out).unwrap()), "\"00:00:00.001\"");
        assert_eq!(text(|out| time(86_399_999_999, Unit::Micros, out).unwrap()), "\"23:59:59.999999\"");
        assert!(time(86_400_000, Unit::Millis, &mut Vec::new()).is_err());
        assert!(time(-1, Unit::Micros, &mut Vec::new()).is_err());
        let stamp = |value, unit, is_local| text(|out| timestamp(value, unit, is_local, out).unwrap());
        assert_eq!(stamp(-1, Unit::Millis, false), "\"1969-12-31T23:59:59.999Z\"");
        assert_eq!(stamp(1_500, Unit::Micros, true), "\"1970-01-01T00:00:00.001500\"");
        assert_eq!(stamp(1, Unit::Nanos, false), "\"1970-01-01T00:00:00.000000001Z\"");
        assert_eq!(stamp(1_001, Unit::Nanos, false), "\"1970-01-01T00:00:00.000001001Z\"");
        assert_eq!(stamp(-1, Unit::Nanos, false), "\"1969-12-31T23:59:59.999999999Z\"");
        assert!(timestamp(i64::MAX, Unit::Millis, false, &mut Vec::new()).is_err());
    }

    #[test]
    fn decimals_are_exact() {
        let shown = |bytes: &[u8], scale| text(|out| decimal(bytes, scale, out));
        assert_eq!(shown(&[], 2), "\"0.00\"");
        assert_eq!(shown(&[5], 0), "\"5\"");
        assert_eq!(shown(&[0xfb], 2), "\"-0.05\"");
        assert_eq!(shown(&[0x30, 0x39], 2), "\"123.45\"");
        assert_eq!(shown(&[0x80], 1), "\"-12.8\"");
        let mut long = [0u8; 17];
        long[0] = 1;
        assert_eq!(shown(&long, 0), "\"340282366920938463463374607431768211456\"");
        assert_eq!(shown(&long, 39), "\"0.340282366920938463463374607431768211456\"");
        assert_eq!(shown(&[0xff; 20], 1), "\"-0.1\"");
        let mut least = [0u8; 17];
        least[0] = 0xff;
        assert_eq!(shown(&least, 0), "\"-340282366920938463463374607431768211456\"");
    }
}
