//! Parses and prints points in time: RFC 3339, and the form of SQL's TIMESTAMP as Java reads it.

use std::fmt::Write;

const SECONDS_PER_DAY: i64 = 86_400;

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar. After Hinnant, "chrono-compatible low-level
/// date algorithms". The year must lie within ±10^9, the month within 1 to 12.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a count of days since 1970-01-01.
pub(super) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days of a month.
pub(super) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads RFC 3339 text (`2026-01-01T00:00:00.25Z`, `… +02:00`; a space may stand for the T) as microseconds since
/// 1970-01-01T00:00:00Z. Finer fractions are cut. Second 60 is accepted only where a leap second can be.
pub fn parse_rfc3339_micros(text: &str) -> Option<i64> {
    swiftwater_event::from_rfc3339_with_zone(text.as_bytes())
}

/// Appends microseconds since 1970-01-01T00:00:00Z as RFC 3339 text in UTC, with as many digits of the fraction as
/// it has.
pub fn push_rfc3339(micros: i64, out: &mut String) {
    let seconds = micros.div_euclid(1_000_000);
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a String cannot fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    let fraction = micros.rem_euclid(1_000_000);
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    out.push('Z');
}

/// Reads `yyyy-[m]m-[d]d hh:mm:ss[.f…]` as Java's `Timestamp.valueOf` does, taken as UTC, as seconds since 1970.
/// Month and day must lie within 1 to 12 and 1 to 31; beyond that the fields roll over (`02-31` is a day in March,
/// hour 25 one of the next day) where `rolls_over`, and are refused elsewhere.
pub(super) fn sql_timestamp_seconds(text: &str, rolls_over: bool) -> Option<i64> {
    let (date, clock) = super::java::trim_java(text).split_once(' ')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let sizes_fit = year.len() == 4 && (1..=2).contains(&month.len()) && (1..=2).contains(&day.len());
    if parts.next().is_some() || !sizes_fit {
        return None;
    }
    let (hour, rest) = clock.split_once(':')?;
    let (minute, second) = rest.split_once(':')?;
    let (second, fraction) = match second.split_once('.') {
        Some((second, fraction)) => (second, Some(fraction)),
        None => (second, None),
    };
    if fraction
        .is_some_and(|digits| !(1..=9).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()))
    {
        return None;
    }
    let number = |text: &str| text.parse::<i32>().ok().map(i64::from);
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    if year < 0 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    let is_time = day <= month_length(year, month)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    if !is_time && !rolls_over {
        return None;
    }
    let days = days_from_civil(year, month, 1) + day - 1;
    Some(days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc3339_is_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2021-01-01T00:00:00.5Z", Some(1_609_459_200_500_000)),
            ("2021-01-01t02:00:00.000001999+02:00", Some(1_609_459_200_000_001)),
            ("2020-12-31 19:00:00-05:00", Some(1_609_459_200_000_000)),
            ("1969-12-31T23:59:59.999999Z", Some(-1)),
            ("2021-02-29T00:00:00Z", None),
            ("2021-01-01T00:00:00", None),
            ("2021-01-01", None),
            ("2021-1-1T0:0:0Z", None),
            ("2021-01-01T00:00:00.Z", None),
            ("2021-01-01T24:00:00Z", None),
            ("2021-01-01T10:00:60Z", None),
            ("2020-12-31T23:59:60Z", Some(1_609_459_200_000_000)),
            ("2021-01-01T01:59:60+02:00", Some(1_609_459_200_000_000)),
            ("2021-01-01T00:00:00Zé", None),
            ("é021-01-01T00:00:00Z", None),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_rfc3339_micros(text), micros, "{text}");
        }
    }

    #[test]
    fn sql_timestamps_are_read() {
        let cases = [
            ("2021-01-01 00:00:00", Some(1_609_459_200)),
            ("2021-01-01 00:00:00.999", Some(1_609_459_200)),
            ("2021-1-1 0:0:0", Some(1_609_459_200)),
            ("1969-12-31 23:59:59", Some(-1)),
            ("2021-02-31 00:00:00", Some(1_614_729_600)),
            ("2021-01-01", None),
            ("2021-13-01 00:00:00", None),
            ("2021-01-01 00:00", None),
            ("2021-01-01 00:00:00.", None),
            ("21-01-01 00:00:00", None),
            ("bad", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(sql_timestamp_seconds(text, true), seconds, "{text}");
        }
        for text in
            ["2021-02-31 00:00:00", "2021-01-01 24:00:00", "2021-01-01 10:60:00", "2021-01-01 10:00:60"]
        {
            assert!(sql_timestamp_seconds(text, true).is_some(), "{text}");
            assert_eq!(sql_timestamp_seconds(text, false), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(micros in -62_135_596_800_000_000i64..253_402_300_800_000_000) {
            let mut text = String::new();
            push_rfc3339(micros, &mut text);
            prop_assert_eq!(parse_rfc3339_micros(&text), Some(micros));
        }

        #[test]
        fn days_and_dates_agree(days in -3_000_000i64..3_000_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month, day), days);
            prop_assert!((1..=month_length(year, month)).contains(&day));
        }

        #[test]
        fn any_micros_are_written(micros: i64) {
            push_rfc3339(micros, &mut String::new());
        }

        #[test]
        fn any_text_is_read(text in "[-0-9:. TZé+]{0,26}") {
            parse_rfc3339_micros(&text);
            sql_timestamp_seconds(&text, true);
        }
    }
}
