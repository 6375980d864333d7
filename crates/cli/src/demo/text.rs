//! Appends JSON strings and numbers, and RFC 3339 times, to a buffer.

const DAY_MS: i64 = 86_400_000;
/// 0000-01-01 and 9999-12-31, in days since 1970-01-01: RFC 3339 has no other years.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;

/// Writes times, keeping the date it wrote last: times that follow each other mostly share it.
#[derive(Debug, Clone)]
pub(super) struct TimeWriter {
    day: i64,
    date: [u8; 10],
}

impl TimeWriter {
    /// A writer that remembers 1970-01-01.
    pub(super) fn new() -> TimeWriter {
        TimeWriter { day: 0, date: *b"1970-01-01" }
    }

    /// Appends `2013-01-01` for the day that holds `ms`, milliseconds since 1970-01-01T00:00:00Z.
    pub(super) fn date(&mut self, ms: i64, out: &mut Vec<u8>) {
        let day = ms.div_euclid(DAY_MS).clamp(*DAYS.start(), *DAYS.end());
        if day != self.day {
            self.day = day;
            self.date = date_of(day);
        }
        out.extend_from_slice(&self.date);
    }

    /// Appends `"2013-01-01T10:17:00.000Z"`, with its quotes, for `ms` since 1970-01-01T00:00:00Z.
    /// Times outside the years 0 to 9999 are written with the nearest date inside them.
    pub(super) fn instant(&mut self, ms: i64, out: &mut Vec<u8>) {
        out.push(b'"');
        self.date(ms, out);
        let of_day = ms.rem_euclid(DAY_MS) as u32;
        let (seconds, millis) = (of_day / 1000, of_day % 1000);
        out.push(b'T');
        two_digits(seconds / 3600, out);
        out.push(b':');
        two_digits(seconds / 60 % 60, out);
        out.push(b':');
        two_digits(seconds % 60, out);
        out.push(b'.');
        out.push(b'0' + (millis / 100) as u8);
        two_digits(millis % 100, out);
        out.extend_from_slice(b"Z\"");
    }
}

/// The Gregorian date of a day since 1970-01-01, after Hinnant, "chrono-compatible low-level date algorithms".
fn date_of(day: i64) -> [u8; 10] {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = (year_of_era + era * 400 + i64::from(month <= 2)) as u32;

    let mut date = Vec::with_capacity(10);
    two_digits(year / 100, &mut date);
    two_digits(year % 100, &mut date);
    date.push(b'-');
    two_digits(month, &mut date);
    date.push(b'-');
    two_digits(day_of_month, &mut date);
    date.try_into().expect("four, two and two digits and two dashes are ten bytes")
}

/// Appends a number below 100 with a leading zero.
pub(super) fn two_digits(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

/// Appends an integer.
pub(super) fn integer(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an integer, or `null`.
pub(super) fn integer_or_null(number: Option<impl itoa::Integer>, out: &mut Vec<u8>) {
    match number {
        Some(number) => integer(number, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a number with at most two decimals, or `null` where there is none or it is not finite.
pub(super) fn decimal_or_null(number: Option<f64>, out: &mut Vec<u8>) {
    // Beyond 2^53 hundredths there are no decimals to keep, and `as` would saturate.
    match number.filter(|number| number.abs() < 9e13) {
        Some(number) => {
            let hundredths = (number * 100.0).round() as i64;
            if hundredths < 0 {
                out.push(b'-');
            }
            integer(hundredths.unsigned_abs() / 100, out);
            if hundredths % 100 != 0 {
                out.push(b'.');
                two_digits((hundredths.unsigned_abs() % 100) as u32, out);
            }
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a JSON string, quoted and escaped.
pub(super) fn string(value: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in value.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Appends a JSON string, or `null`.
pub(super) fn string_or_null(value: Option<&str>, out: &mut Vec<u8>) {
    match value {
        Some(value) => string(value, out),
        None => out.extend_from_slice(b"null"),
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
    fn instants_are_rfc_3339_with_milliseconds() {
        let mut times = TimeWriter::new();
        let mut check = |ms, expected| assert_eq!(written(|out| times.instant(ms, out)), expected);
        check(0, r#""1970-01-01T00:00:00.000Z""#);
        check(-1, r#""1969-12-31T23:59:59.999Z""#);
        check(1_357_035_420_007, r#""2013-01-01T10:17:00.007Z""#);
        check(951_782_400_000, r#""2000-02-29T00:00:00.000Z""#);
        check(4_107_542_399_999, r#""2100-02-28T23:59:59.999Z""#);
        check(4_107_542_400_000, r#""2100-03-01T00:00:00.000Z""#);
        check(253_402_300_799_999, r#""9999-12-31T23:59:59.999Z""#);
        assert!(written(|out| times.instant(i64::MAX, out)).starts_with(r#""9999-12-31T"#));
        assert!(written(|out| times.instant(i64::MIN, out)).starts_with(r#""0000-01-01T"#));
    }

    #[test]
    fn strings_read_back_as_they_were() {
        for value in ["", "swiftwater", "a\"b\\c", "\0\u{1}\n\t\r\u{1b}\u{7f}", "né \u{fffd}\u{2028}🦀"] {
            let json = written(|out| string(value, out));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
            assert!(!json.bytes().any(|byte| byte < 0x20), "{json} is on one line");
        }
    }

    #[test]
    fn decimals_have_two_places_at_most() {
        let check = |number, expected| assert_eq!(written(|out| decimal_or_null(number, out)), expected);
        check(Some(0.0), "0");
        check(Some(99.996), "100");
        check(Some(12.5), "12.50");
        check(Some(0.07), "0.07");
        check(Some(-1.25), "-1.25");
        check(Some(-0.001), "0");
        check(Some(f64::NAN), "null");
        check(Some(f64::INFINITY), "null");
        check(None, "null");
    }
}
