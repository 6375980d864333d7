//! Writes and parses times as text: RFC 3339, written in UTC with milliseconds.

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
    swiftwater_event::from_rfc3339_with_zone(text.as_bytes())
}

/// Year, month and day; after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
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
        check("2017-01-01T01:59:60+02:00", Some("2017-01-01T00:00:00.000Z"));
        check("1969-12-31 23:30:00.001-00:30", Some("1970-01-01T00:00:00.001Z"));
        for bad in [
            "",
            "now",
            "1.5",
            "2026-11-21",
            "2026-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T10:00:60Z",
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
