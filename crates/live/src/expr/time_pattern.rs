//! Date and time patterns of `java.time` (`yyyy-MM-dd HH:mm:ss`), parsed as its strict parser with smart resolving does.
//!
//! Letters: `u y` (year), `M L` (month), `d`, `D`, `E` (day), `H k K h a`, `m`, `s`, `S`, `n`, `X x Z` (an offset, parsed
//! and ignored), text in quotes, `[…]` for optional parts. Adjacent fields without a separator: the first one leaves the
//! others their width. Names are English. Other letters are refused.

use super::time::{civil_from_days, days_from_civil, month_length};

/// Maximum nesting of optional parts.
const NEST_MAX: usize = 16;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A pattern, read once and used for many texts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DateTimePattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Number(Number),
    Name { field: Field, is_short: bool },
    Text(Box<str>),
    Offset,
    Optional(Vec<Part>),
}

/// A run of digits.
#[derive(Debug, Clone, PartialEq)]
struct Number {
    field: Field,
    digits_min: usize,
    digits_max: usize,
    sign: Sign,
    /// Digits to leave to the fields that follow at once; `None`: this is one of those.
    reserved: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sign {
    Never,
    Minus,
    /// Also `+`, which must be there if there are more digits than the least number.
    PlusIfLong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    YearOfEra,
    /// Two digits, 2000 to 2099.
    ShortYear,
    Month,
    Day,
    DayOfYear,
    DayOfWeek,
    Hour,
    /// 1 to 24.
    ClockHour,
    HalfDay,
    /// 0 to 11.
    HalfHour,
    /// 1 to 12.
    HalfClockHour,
    Minute,
    Second,
    Nano,
    /// Nanoseconds from the digits after the point.
    Fraction,
}

const FIELD_COUNT: usize = Field::Fraction as usize + 1;

type Fields = [Option<i64>; FIELD_COUNT];

impl DateTimePattern {
    /// Reads a pattern; `None` if it cannot be used.
    pub(super) fn parse(pattern: &str) -> Option<DateTimePattern> {
        let mut rest = pattern;
        let parts = parse_parts(&mut rest, 0)?;
        rest.is_empty().then_some(DateTimePattern { parts })
    }

    /// Reads a date and time, as seconds since 1970-01-01 in UTC; `None` if the text is not of this form, or gives no
    /// date or no time.
    pub(super) fn seconds(&self, text: &str) -> Option<i64> {
        let mut fields = Fields::default();
        let mut rest = text;
        read_parts(&self.parts, &mut rest, &mut fields)?;
        if !rest.is_empty() {
            return None;
        }
        resolve(&fields)
    }
}

/// Reads up to the end, or to the `]` that closes an optional part.
fn parse_parts(rest: &mut &str, depth: usize) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    // The number that reserves digits for those that follow it at once.
    let mut base: Option<usize> = None;
    while let Some(letter) = rest.chars().next() {
        match letter {
            ']' if depth > 0 => return Some(parts),
            '[' if depth < NEST_MAX => {
                *rest = &rest[1..];
                let inner = parse_parts(rest, depth + 1)?;
                // A part that is not closed ends with the pattern.
                *rest = rest.strip_prefix(']').unwrap_or(rest);
                parts.push(Part::Optional(inner));
                base = None;
            }
            '[' | ']' | '{' | '}' | '#' => return None,
            '\'' => {
                parts.push(Part::Text(parse_quoted(rest)?));
                base = None;
            }
            _ if letter.is_ascii_alphabetic() => {
                let count = rest.bytes().take_while(|byte| *byte == letter as u8).count();
                *rest = &rest[count..];
                let part = field_part(letter, count)?;
                let Part::Number(mut number) = part else {
                    parts.push(part);
                    base = None;
                    continue;
                };
                let is_fixed = number.digits_min == number.digits_max && number.sign == Sign::Never;
                match base.and_then(|base| parts.get_mut(base)) {
                    Some(Part::Number(first)) if is_fixed => {
                        first.reserved = first.reserved.map(|reserved| reserved + number.digits_max);
                        number.reserved = None;
                    }
                    Some(Part::Number(first)) => {
                        if first.reserved == Some(0) {
                            first.reserved = None;
                        }
                        base = Some(parts.len());
                    }
                    _ => base = Some(parts.len()),
                }
                parts.push(Part::Number(number));
            }
            _ => {
                let (text, after) = rest.split_at(letter.len_utf8());
                parts.push(Part::Text(text.into()));
                *rest = after;
                base = None;
            }
        }
    }
    Some(parts)
}

/// `'text'`, where `''` is a quote; two quotes alone are one quote.
fn parse_quoted(rest: &mut &str) -> Option<Box<str>> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != '\'' {
            text.push(c);
        } else if chars.next_if(|(_, next)| *next == '\'').is_some() {
            text.push('\'');
        } else {
            let is_quote = text.is_empty();
            *rest = &rest[at + 1..];
            return Some(if is_quote { "'".into() } else { text.into() });
        }
    }
    None
}

fn field_part(letter: char, count: usize) -> Option<Part> {
    let number = |field, digits_min, digits_max, sign| {
        Some(Part::Number(Number { field, digits_min, digits_max, sign, reserved: Some(0) }))
    };
    // One letter: as many digits as there are; two: exactly two.
    let plain = |field| match count {
        1 => number(field, 1, 19, Sign::Minus),
        2 => number(field, 2, 2, Sign::Never),
        _ => None,
    };
    match letter {
        'u' | 'y' => {
            let field = if letter == 'u' { Field::Year } else { Field::YearOfEra };
            match count {
                2 => number(Field::ShortYear, 2, 2, Sign::Never),
                1 | 3 => number(field, count, 19, Sign::Minus),
                4..=19 => number(field, count, 19, Sign::PlusIfLong),
                _ => None,
            }
        }
        'M' | 'L' => match count {
            3 | 4 => Some(Part::Name { field: Field::Month, is_short: count == 3 }),
            _ => plain(Field::Month),
        },
        'd' => plain(Field::Day),
        'D' => match count {
            1 => number(Field::DayOfYear, 1, 19, Sign::Minus),
            2 | 3 => number(Field::DayOfYear, count, 3, Sign::Never),
            _ => None,
        },
        'E' if count <= 4 => Some(Part::Name { field: Field::DayOfWeek, is_short: count < 4 }),
        'a' if count == 1 => Some(Part::Name { field: Field::HalfDay, is_short: true }),
        'H' => plain(Field::Hour),
        'k' => plain(Field::ClockHour),
        'K' => plain(Field::HalfHour),
        'h' => plain(Field::HalfClockHour),
        'm' => plain(Field::Minute),
        's' => plain(Field::Second),
        'S' if count <= 9 => number(Field::Fraction, count, count, Sign::Never),
        'n' if count <= 19 => number(Field::Nano, count, 19, Sign::Never),
        'X' | 'x' | 'Z' if count <= 5 => Some(Part::Offset),
        _ => None,
    }
}

fn read_parts(parts: &[Part], rest: &mut &str, fields: &mut Fields) -> Option<()> {
    for part in parts {
        match part {
            Part::Text(text) => *rest = rest.strip_prefix(&**text)?,
            Part::Number(number) => {
                let value = number.read(rest)?;
                set(fields, number.field, value)?;
            }
            Part::Name { field, is_short } => {
                let value = read_name(*field, *is_short, rest)?;
                set(fields, *field, value)?;
            }
            Part::Offset => read_offset(rest)?,
            Part::Optional(inner) => {
                let (mut after, mut read) = (*rest, *fields);
                if read_parts(inner, &mut after, &mut read).is_some() {
                    (*rest, *fields) = (after, read);
                }
            }
        }
    }
    Some(())
}

/// A field may come twice if it says the same.
fn set(fields: &mut Fields, field: Field, value: i64) -> Option<()> {
    match fields[field as usize].replace(value) {
        Some(before) if before != value => None,
        _ => Some(()),
    }
}

impl Number {
    fn read(&self, rest: &mut &str) -> Option<i64> {
        let (sign, body) = match rest.as_bytes().first()? {
            b'-' if self.sign != Sign::Never => (Some(b'-'), &rest[1..]),
            b'+' if self.sign == Sign::PlusIfLong => (Some(b'+'), &rest[1..]),
            b'-' | b'+' => return None,
            _ => (None, *rest),
        };
        let reserved = self.reserved.unwrap_or(0);
        let found = body.bytes().take(self.digits_max + reserved).take_while(u8::is_ascii_digit).count();
        let taken = if reserved > 0 { found.saturating_sub(reserved).max(self.digits_min) } else { found };
        if found < self.digits_min || taken > found {
            return None;
        }
        let digits = body.get(..taken)?;
        *rest = &body[taken..];
        let value: i64 = digits.parse().ok()?;
        let is_long = taken > self.digits_min;
        match sign {
            Some(b'-') if value == 0 => return None,
            Some(b'-') => return Some(-value),
            Some(_) if !is_long => return None,
            None if self.sign == Sign::PlusIfLong && is_long => return None,
            _ => {}
        }
        match self.field {
            Field::Fraction => Some(value * 10i64.pow(9 - u32::try_from(taken).ok()?.min(9))),
            Field::ShortYear => Some(2000 + value),
            _ => Some(value),
        }
    }
}

fn read_name(field: Field, is_short: bool, rest: &mut &str) -> Option<i64> {
    let names: &[&str] = match field {
        Field::Month => &MONTHS,
        Field::DayOfWeek => &DAYS,
        _ => &["AM", "PM"],
    };
    let first = i64::from(field != Field::HalfDay);
    for (value, name) in (first..).zip(names) {
        let name = if is_short { name.get(..3).unwrap_or(name) } else { name };
        if let Some(after) = rest.strip_prefix(name) {
            *rest = after;
            return Some(value);
        }
    }
    None
}

/// `Z`, `+02`, `+0200`, `+02:00`.
fn read_offset(rest: &mut &str) -> Option<()> {
    if let Some(after) = rest.strip_prefix('Z') {
        *rest = after;
        return Some(());
    }
    let two_digits = |text: &'_ str| text.bytes().take(2).take_while(u8::is_ascii_digit).count() == 2;
    let hours = rest.strip_prefix(['+', '-']).filter(|text| two_digits(text))?;
    let mut after = &hours[2..];
    let minutes = after.strip_prefix(':').unwrap_or(after);
    if two_digits(minutes) {
        after = &minutes[2..];
    }
    *rest = after;
    Some(())
}

/// Converts fields to seconds.
fn resolve(fields: &Fields) -> Option<i64> {
    let get = |field: Field| fields[field as usize];
    let within = |value: i64, from: i64, to: i64| (from..=to).contains(&value).then_some(value);
    let year = match (get(Field::Year), get(Field::ShortYear), get(Field::YearOfEra)) {
        (Some(year), ..) | (None, Some(year), _) => year,
        (None, None, Some(year)) => within(year, 1, i64::MAX)?,
        (None, None, None) => return None,
    };
    within(year, -999_999_999, 999_999_999)?;
    let days = match (get(Field::Month), get(Field::Day), get(Field::DayOfYear)) {
        (Some(month), Some(day), _) => {
            within(month, 1, 12)?;
            // A 31st of a shorter month is its last day.
            let day = within(day, 1, 31)?.min(month_length(year, month));
            days_from_civil(year, month, day)
        }
        (_, _, Some(day)) => {
            let days = days_from_civil(year, 1, 1) + within(day, 1, 366)? - 1;
            (civil_from_days(days).0 == year).then_some(days)?
        }
        _ => return None,
    };
    // 1970-01-01 was a Thursday.
    if get(Field::DayOfWeek).is_some_and(|day| day != (days + 3).rem_euclid(7) + 1) {
        return None;
    }
    let hour = match (get(Field::Hour), get(Field::ClockHour), get(Field::HalfDay)) {
        (Some(hour), ..) => within(hour, 0, 24)?,
        (None, Some(hour), _) => within(hour, 0, 24)? % 24,
        (None, None, Some(half)) => {
            let hour = match (get(Field::HalfHour), get(Field::HalfClockHour)) {
                (Some(hour), _) => within(hour, 0, 11)?,
                (None, Some(hour)) => within(hour, 0, 12)? % 12,
                (None, None) => return None,
            };
            half * 12 + hour
        }
        (None, None, None) => return None,
    };
    let nano = get(Field::Fraction).or(get(Field::Nano));
    let (minute, second) = (get(Field::Minute), get(Field::Second));
    let has_gap =
        (minute.is_none() && (second.is_some() || nano.is_some())) || (second.is_none() && nano.is_some());
    if has_gap {
        return None;
    }
    let (minute, second) = (within(minute.unwrap_or(0), 0, 59)?, within(second.unwrap_or(0), 0, 59)?);
    let nano = within(nano.unwrap_or(0), 0, 999_999_999)?;
    if hour == 24 && (minute, second, nano) != (0, 0, 0) {
        return None;
    }
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_by_their_pattern() {
        let cases = [
            ("yyyyMMddHH", "2021010100", Some(1_609_459_200)),
            ("yyyyMMdd", "20210101", None),
            ("yyyy-MM-dd", "2021-01-01", None),
            ("yyyy-MM-dd'T'HH:mm:ss", "2021-01-01T05:06:07", Some(1_609_477_567)),
            ("yyyy", "x", None),
            ("yyyyMMddHHmmssSSS", "20210101000000123", Some(1_609_459_200)),
            ("uuuu/M/d H:m", "2021/1/1 0:0", Some(1_609_459_200)),
            ("uuuu/M/d H:m", "2021/12/31 23:59", Some(1_640_995_140)),
            ("yy-MM-dd HH", "21-01-01 00", Some(1_609_459_200)),
            ("dd MMM yyyy hh:mm a", "01 Jan 2021 12:30 AM", Some(1_609_461_000)),
            ("EEE, dd MMMM yyyy HH:mm:ss Z", "Fri, 01 January 2021 00:00:00 +0200", Some(1_609_459_200)),
            ("EEE, dd MMMM yyyy HH", "Mon, 01 January 2021 00", None),
            ("yyyy-MM-dd HH:mm", "2021-02-31 00:00", Some(1_614_470_400)),
            ("yyyy-MM-dd HH:mm", "2021-13-01 00:00", None),
            ("yyyy-MM-dd HH:mm", "2021-01-01 24:00", Some(1_609_545_600)),
            ("yyyy-MM-dd HH:mm", "2021-01-01 24:01", None),
            ("yyyy-MM-dd HH:mm", "2021-1-01 00:00", None),
            ("yyyy-MM-dd HH:mm", "12021-01-01 00:00", None),
            ("yyyy-MM-dd HH:mm", "+12021-01-01 00:00", Some(317_178_979_200)),
            ("yyyy-MM-dd[ HH:mm]", "2021-01-01", None),
            ("yyyy-MM-dd HH[:mm[:ss]]", "2021-01-01 00:01", Some(1_609_459_260)),
            ("yyyy-DDD HH", "2021-001 00", Some(1_609_459_200)),
            ("yyyy-DDD HH", "2021-366 00", None),
            ("yyyy''MM''dd HH", "2021'01'01 00", Some(1_609_459_200)),
            ("yyyy-MM-dd HH ss", "2021-01-01 00 00", None),
            ("yyyy年MM月dd日HH", "2021年01月01日00", Some(1_609_459_200)),
            ("yyyy-MM-dd HH", "2021-01-01 00 ", None),
        ];
        for (pattern, text, seconds) in cases {
            let parsed = DateTimePattern::parse(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert_eq!(parsed.seconds(text), seconds, "{text} by {pattern}");
        }
    }

    #[test]
    fn other_patterns_are_refused() {
        for pattern in ["yyyy-QQ", "ddd", "b", "'open", "{", "y]", "HHH", "#"] {
            assert_eq!(DateTimePattern::parse(pattern), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(pattern in "[yuMdDHhkKamsSnEXZ'\\[\\]: é-]{0,20}", text in "[-+0-9: 'JanMPé]{0,30}") {
            if let Some(pattern) = DateTimePattern::parse(&pattern) {
                pattern.seconds(&text);
            }
        }
    }
}
