//! Writes single values as text: numbers, decimals, dates and times.

use std::io::Write;

use arrow::array::{Array, Decimal256Array};
use arrow::datatypes::TimeUnit;

/// Adds formatted text. Writing into memory does not fail.
pub(crate) fn append_fmt(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

/// A number as JSON, or its name where JSON has none; true if it is such a name.
pub(crate) fn double_name(value: f64) -> Option<&'static str> {
    if value.is_finite() {
        None
    } else if value.is_nan() {
        Some("NaN")
    } else if value > 0.0 {
        Some("Infinity")
    } else {
        Some("-Infinity")
    }
}

/// The shortest digits that read back as the same number.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    match double_name(value) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => append_fmt(out, format_args!("{value:?}")),
    }
}

/// Writes a FLOAT as [`write_double`] does, with no more digits than it has.
pub(crate) fn write_float(value: f32, out: &mut Vec<u8>) {
    match double_name(f64::from(value)) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => append_fmt(out, format_args!("{value:?}")),
    }
}

/// A decimal with all its digits: `-0.050`.
pub(crate) fn write_decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let digits = value.unsigned_abs().to_string();
    write_scaled(&digits, scale, out);
}

/// A decimal of up to 76 digits.
pub(crate) fn write_wide_decimal(array: &Decimal256Array, row: usize, out: &mut Vec<u8>) {
    let digits = array.value(row).to_string();
    let digits = match digits.strip_prefix('-') {
        Some(digits) => {
            out.push(b'-');
            digits
        }
        None => digits.as_str(),
    };
    let scale = match array.data_type() {
        arrow::datatypes::DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    write_scaled(digits, scale, out);
}

fn write_scaled(digits: &str, scale: i8, out: &mut Vec<u8>) {
    if scale <= 0 {
        out.extend_from_slice(digits.as_bytes());
        if digits != "0" {
            out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    match digits.len().checked_sub(scale) {
        Some(whole) if whole > 0 => {
            out.extend_from_slice(&digits.as_bytes()[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits.as_bytes()[whole..]);
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
            out.extend_from_slice(digits.as_bytes());
        }
    }
}

/// `2026-01-31`; years beyond 9999 or before 0 with their sign, as ISO 8601 extends it.
pub(crate) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => append_fmt(out, format_args!("{year:04}-{month:02}-{day:02}")),
        _ => append_fmt(out, format_args!("{year:+07}-{month:02}-{day:02}")),
    }
}

/// Units of a second, and how many digits they are.
pub(crate) fn resolution(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1_000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

/// `12:34:56.789`, as many digits of the second as the unit has.
pub(crate) fn write_time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let (per_second, digits) = resolution(unit);
    let seconds = value.div_euclid(per_second);
    let part = value.rem_euclid(per_second);
    append_fmt(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    if digits > 0 {
        append_fmt(out, format_args!(".{part:0digits$}"));
    }
}

/// `2026-01-31T12:34:56.789000Z`, with `T` or a space between, and what stands for UTC at the end.
pub(crate) fn write_timestamp(value: i64, unit: TimeUnit, between: u8, utc: &str, out: &mut Vec<u8>) {
    let (per_second, _) = resolution(unit);
    let day = 86_400 * per_second;
    write_date(value.div_euclid(day), out);
    out.push(between);
    write_time(value.rem_euclid(day), unit, out);
    out.extend_from_slice(utc.as_bytes());
}

/// Year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar.
/// After Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Base64 with padding (RFC 4648).
pub(crate) fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= three.len() {
                out.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
            } else {
                out.push(b'=');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_keep_all_digits() {
        for (value, scale, text) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 3, "0.005"),
            (-50, 3, "-0.050"),
            (12345, 2, "123.45"),
            (-12345, 5, "-0.12345"),
            (12, -3, "12000"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            assert_eq!(written(|out| write_decimal(value, scale, out)), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11016, "2000-02-29"),
            (20479, "2026-01-26"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+010000-01-01"),
            (-719_529, "-000001-12-31"),
        ] {
            assert_eq!(written(|out| write_date(days, out)), text);
        }
    }

    #[test]
    fn timestamps_are_rfc_3339() {
        let micros = TimeUnit::Microsecond;
        assert_eq!(written(|out| write_timestamp(-1, micros, b'T', "Z", out)), "1969-12-31T23:59:59.999999Z");
        assert_eq!(
            written(|out| write_timestamp(1_700_000_000, TimeUnit::Second, b'T', "Z", out)),
            "2023-11-14T22:13:20Z"
        );
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(written(|out| write_base64(bytes.as_bytes(), out)), text);
        }
    }
}
