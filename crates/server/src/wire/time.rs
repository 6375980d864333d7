//! Times as text: RFC 3339, written in UTC with milliseconds.

use std::io::Write;

use swiftwater_event::Millis;

/// Adds a time as a JSON string, `"2026-01-01T00:00:00.000Z"`.
pub fn write_time(time: Millis, out: &mut Vec<u8>) {
    let (days, millis) = (time.div_euclid(86_400_000), time.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60);
    let fraction = millis % 1000;
    let year_width = if year < 0 { 5 } else { 4 };
    write!(
        out,
        "\"{year:0year_width$}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z\""
    )
    .expect("memory takes every text");
}

/// The same, without the quotes.
pub fn time_text(time: Millis) -> String {
    let mut out = Vec::with_capacity(26);
    write_time(time, &mut out);
    String::from_utf8_lossy(&out[1..out.len() - 1]).into_owned()
}

/// Reads an RFC 3339 time, or a whole number of microseconds since 1970, as microseconds since 1970. Digits beyond
/// microseconds are cut off. `None` where it is neither.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(micros) = text.parse() {
        return Some(micros);
    }
    let bytes = text.as_bytes();
    let (head, rest) = bytes.split_at_checked(19)?;
    let marks = [head[4], head[7], head[13], head[16]];
    if marks != *b"--::" || !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let (year, month, day) = (digits(&head[..4])?, digits(&head[5..7])?, digits(&head[8..10])?);
    let (hour, minute, second) = (digits(&head[11..13])?, digits(&head[14..16])?, digits(&head[17..19])?);
    let days = days(year, month, day);
    if civil(days) != (year, month, day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (micros, zone) = fraction(rest)?;
    let offset_minutes = match zone {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), zone @ ..] if zone.len() == 5 && zone[2] == b':' => {
            let (hours, minutes) = (digits(&zone[..2])?, digits(&zone[3..])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let minutes = (days * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1_000_000 + micros)
}

/// The microseconds of `.123…`, if it is there, and what comes after.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let [b'.', fraction @ ..] = rest else { return Some((0, rest)) };
    let len = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let micros = (0..6).fold(0, |value, place| {
        let digit = if place < len { fraction[place] - b'0' } else { 0 };
        value * 10 + i64::from(digit)
    });
    (len > 0).then(|| (micros, &fraction[len..]))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// Days since 1970-01-01 of a date; this and its inverse after Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms".
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
        - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (
        year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day_of_year - (153 * month_from_march + 2) / 5 + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let check = |text: &str, expected: Option<&str>| {
            let written = parse_time(text).map(|micros| time_text(micros.div_euclid(1000)));
            assert_eq!(written.as_deref(), expected, "{text}");
        };
        check("0", Some("1970-01-01T00:00:00.000Z"));
        check("-1", Some("1969-12-31T23:59:59.999Z"));
        check("1767225600000000", Some("2026-01-01T00:00:00.000Z"));
        check("2024-02-29T23:59:59Z", Some("2024-02-29T23:59:59.000Z"));
        check("2026-11-21t20:43:41.5z", Some("2026-11-21T20:43:41.500Z"));
        check("2026-11-21T20:43:41.123456789+02:00", Some("2026-11-21T18:43:41.123Z"));
        check("1969-12-31 23:30:00.001-00:30", Some("1970-01-01T00:00:00.001Z"));
        for bad in [
            "",
            "now",
            "1.5",
            "2026-11-21",
            "2026-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T00:00:00",
            "2026-11-21T00:00:00.Z",
            "2026-11-21T00:00:00+24:00",
            "2026-11-21T00:00:00+0200",
            "2026-11-21T00:00:00Zx",
        ] {
            check(bad, None);
        }
    }
}
