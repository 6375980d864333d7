//! Converts points in time: microseconds since 1970-01-01T00:00:00Z from text and from whole numbers, and back to text.

use crate::TimeUnit;

/// `value` of the unit as microseconds; nanoseconds are rounded down. `None` if it does not fit.
pub(crate) fn from_unit(value: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
    }
}

/// Reads an RFC 3339 time. A space may stand for the `T`; without a zone it is UTC; digits beyond microseconds are cut
/// off. Second 60 is accepted only where UTC can insert a leap second, at the end of June or December (RFC 3339,
/// section 5.7), and is then the first second of the next day.
pub fn from_rfc3339(text: &[u8]) -> Option<i64> {
    read(text, true)
}

/// Parses as [`from_rfc3339`] does, a text that must name its zone.
pub fn from_rfc3339_with_zone(text: &[u8]) -> Option<i64> {
    read(text, false)
}

fn read(text: &[u8], zone_is_optional: bool) -> Option<i64> {
    let (head, mut rest) = text.split_at_checked(19)?;
    let part = |from: usize, len: usize| {
        head[from..from + len].iter().try_fold(0i64, |value, digit| {
            digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
        })
    };
    let marks = [head[4], head[7], head[13], head[16]];
    if marks != *b"--::" || !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let (year, month, day) = (part(0, 4)?, part(5, 2)?, part(8, 2)?);
    let (hour, minute, second) = (part(11, 2)?, part(14, 2)?, part(17, 2)?);
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_in(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let mut micros = 0;
    if let [b'.', fraction @ ..] = rest {
        let len = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return None;
        }
        for place in 0..6 {
            let digit = fraction[..len].get(place).copied().unwrap_or(b'0');
            micros = micros * 10 + i64::from(digit - b'0');
        }
        rest = &fraction[len..];
    }
    let offset_minutes = match rest {
        [] if zone_is_optional => 0,
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digits = [h1, h2, m1, m2];
            if !digits.iter().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            let [h1, h2, m1, m2] = digits.map(|digit| i64::from(digit - b'0'));
            let (hours, minutes) = (h1 * 10 + h2, m1 * 10 + m2);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    if second == 60 && !ends_with_leap_second(minutes) {
        return None;
    }
    Some((minutes * 60 + second) * 1_000_000 + micros)
}

/// A time as [`from_rfc3339`] reads it: in UTC, with milliseconds, or with microseconds where they are not whole milliseconds.
pub fn rfc3339(micros: i64) -> String {
    let mut text = Vec::with_capacity(32);
    write_rfc3339(micros, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Adds `micros` as RFC 3339 in UTC, with milliseconds, or with microseconds where they are not whole milliseconds.
/// Years outside 0000 to 9999 are written with a sign, as ISO 8601 has it.
pub(crate) fn write_rfc3339(micros: i64, out: &mut Vec<u8>) {
    use std::io::Write;
    let (days, in_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = civil_from_days(days);
    let seconds = in_day / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Writing to memory cannot fail.
    let _ = match year {
        0..=9999 => write!(out, "{year:04}"),
        _ => write!(out, "{year:+07}"),
    };
    let _ = write!(out, "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    let fraction = in_day % 1_000_000;
    let _ = if fraction % 1000 == 0 {
        write!(out, ".{:03}Z", fraction / 1000)
    } else {
        write!(out, ".{fraction:06}Z")
    };
}

/// True if UTC can have a leap second at the end of this minute, counted from 1970: in the last one of 30 June or
/// 31 December (ITU-R TF.460). The list of those that there were is not consulted: it ends with the last announcement.
fn ends_with_leap_second(minutes: i64) -> bool {
    let next = minutes + 1;
    let (_, month, day) = civil_from_days(next.div_euclid(1440));
    next.rem_euclid(1440) == 0 && day == 1 && matches!(month, 1 | 7)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a day of the Gregorian calendar; after Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms".
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let written = from_rfc3339(text.as_bytes()).map(|micros| {
            let mut out = Vec::new();
            write_rfc3339(micros, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(written.as_deref(), expected, "{text}");
    }

    #[test]
    fn times_are_read_and_written() {
        check("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00.000Z"));
        check("2024-02-29 23:59:59", Some("2024-02-29T23:59:59.000Z"));
        check("2026-11-21t20:43:41.5z", Some("2026-11-21T20:43:41.500Z"));
        check("2026-11-21T20:43:41.123456789+02:00", Some("2026-11-21T18:43:41.123456Z"));
        check("1969-12-31T23:30:00.000001-00:30", Some("1970-01-01T00:00:00.000001Z"));
        check("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00.000Z"));
        check("9999-12-31T23:59:60Z", Some("+010000-01-01T00:00:00.000Z"));
        check("2016-12-31T23:59:60Z", Some("2017-01-01T00:00:00.000Z"));
        check("2015-06-30 23:59:60.25", Some("2015-07-01T00:00:00.250Z"));
        check("2017-01-01T01:59:60+02:00", Some("2017-01-01T00:00:00.000Z"));
        check("2016-12-31T15:29:60.5-08:30", Some("2017-01-01T00:00:00.500Z"));
        for bad in [
            "",
            "2026-11-21",
            "2026-11-21T20:43",
            "2026-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T00:60:00Z",
            "2026-11-21T00:00:61Z",
            "2016-12-31T23:59:61Z",
            "2026-11-21T10:00:60Z",
            "2016-12-31T23:58:60Z",
            "2016-12-30T23:59:60Z",
            "2016-03-31T23:59:60Z",
            "2016-06-31T23:59:60Z",
            "2016-12-31T23:59:60+02:00",
            "2017-01-01T02:59:60+02:00",
            "2026-11-21T00:00:00.Z",
            "2026-11-21T00:00:00+0200",
            "2026-11-21T00:00:00+24:00",
            "2026-11-21T00:00:00 Z",
            "2026-11-2 T00:00:00Z",
            "2026-11-00T00:00:00Z",
            "+026-11-21T00:00:00Z",
            "2026/11/21T00:00:00Z",
            "2026-11-21T00:00:00Zx",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn zone_is_required_where_none_is_assumed() {
        for zone in ["Z", "z", "+02:00", "-00:30"] {
            let text = format!("2026-11-21T20:43:41.5{zone}");
            assert!(from_rfc3339_with_zone(text.as_bytes()).is_some());
            assert_eq!(from_rfc3339_with_zone(text.as_bytes()), from_rfc3339(text.as_bytes()), "{text}");
        }
        assert_eq!(from_rfc3339_with_zone(b"2026-11-21T20:43:41.5"), None);
        assert_eq!(from_rfc3339_with_zone(b"2026-11-21T20:43:41"), None);
    }

    #[test]
    fn every_day_is_itself_again() {
        for days in (-800_000..3_000_000).step_by(13) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn units_are_scaled_or_do_not_fit() {
        assert_eq!(from_unit(5, TimeUnit::Second), Some(5_000_000));
        assert_eq!(from_unit(-1, TimeUnit::Nanosecond), Some(-1));
        assert_eq!(from_unit(i64::MAX, TimeUnit::Millisecond), None);
        assert_eq!(from_unit(i64::MIN, TimeUnit::Second), None);
    }
}
