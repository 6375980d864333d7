//! Parses the times in events.

use super::value::Value;

/// Milliseconds since 1970: a number of them, or RFC 3339 text; what is below a millisecond is cut off. A
/// time further from 1970 than a date of ECMAScript can be is invalid.
pub(super) fn millis(value: &Value) -> Option<i64> {
    let millis = match value {
        Value::Long(number) => Some(*number),
        Value::Double(number) => super::value::long_of(number.floor()),
        Value::Float(number) => super::value::long_of(f64::from(*number).floor()),
        Value::String(text) => rfc3339_millis(text),
        _ => None,
    };
    millis.filter(|millis| millis.unsigned_abs() <= 8_640_000_000_000_000)
}

/// `yyyy-mm-ddThh:mm:ss[.f…](Z|±hh:mm)`.
fn rfc3339_millis(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let sign = |at: usize, signs: &[u8]| text.as_bytes().get(at).filter(|byte| signs.contains(byte)).copied();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    for (at, signs) in [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")] {
        sign(at, signs.as_bytes())?;
    }
    let digits = match sign(19, b".") {
        Some(_) => text[20..].bytes().take_while(u8::is_ascii_digit).count(),
        None => 0,
    };
    let fraction = text.get(20..20 + digits).unwrap_or_default();
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let zone = if digits > 0 { 20 + digits } else { 19 };
    let minutes_east = match sign(zone, b"Zz+-")? {
        b'Z' | b'z' if text.len() == zone + 1 => 0,
        east if text.len() == zone + 6 && sign(zone + 3, b":").is_some() => {
            let minutes = number(zone + 1, zone + 3)? * 60 + number(zone + 4, zone + 6)?;
            if east == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = |month: i64| match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=month_days(month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let year_days =
        |years: std::ops::Range<i64>| years.map(|year| 365 + i64::from(is_leap(year))).sum::<i64>();
    let before = if year >= 1970 { year_days(1970..year) } else { -year_days(year..1970) };
    let days = before + (1..month).map(month_days).sum::<i64>() + day - 1;
    let minutes = days * 1440 + hour * 60 + minute - minutes_east;
    // A leap second is the last of a half year, so the second after it begins one.
    let halves = |years: std::ops::Range<i64>| {
        years.flat_map(|year| {
            let first = year_days(1970..year);
            [first, first + 181 + i64::from(is_leap(year))]
        })
    };
    if second == 60 && !halves(1970..year.max(1970) + 2).any(|day| day * 1440 == minutes + 1) {
        return None;
    }
    Some((minutes * 60 + second) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2021-01-01T00:00:00.5Z", Some(1_609_459_200_500)),
            ("2021-01-01T02:00:00.001999+02:00", Some(1_609_459_200_001)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000)),
            ("2021-02-29T00:00:00Z", None),
            ("2021-01-01", None),
            ("2021-01-01T10:00:60Z", None),
            ("2020-12-31T23:59:60Z", Some(1_609_459_200_000)),
            ("2021-07-01T01:59:60+02:00", Some(1_625_097_600_000)),
        ] {
            assert_eq!(rfc3339_millis(text), expected, "{text}");
        }
    }
}
