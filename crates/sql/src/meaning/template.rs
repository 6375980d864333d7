//! Parses and applies the templates that format times: PostgreSQL's of `to_char`, and Spark's of `date_format`.
//!
//! Both are parsed into the same parts. PostgreSQL copies whatever is not a pattern of its own (its source,
//! `formatting.c`), and so does this module. Spark refuses such letters, and so does this module. Names of months and
//! days are English.

use chrono::{Datelike, NaiveDateTime, Timelike};

use crate::SqlError;

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    /// A whole number, filled up with zeros.
    Number {
        field: Field,
        width: usize,
        ordinal: Ordinal,
    },
    /// The first digits of the fraction of a second.
    Fraction(usize),
    /// The year with a comma: `2,026`.
    YearWithComma,
    /// One of two texts: before and after noon, or before and after Christ.
    Either {
        is_noon: bool,
        texts: [&'static str; 2],
    },
    Name {
        names: &'static [&'static str],
        field: Field,
        letters: usize,
        case: Case,
        width: usize,
    },
    /// Name of the zone, which is UTC; a local time has none.
    Zone(&'static str),
}

/// A number that a time has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Hour24,
    Hour12,
    /// 1 to 24, and 0 to 11, as Spark has them.
    Hour1To24,
    Hour0To11,
    Minute,
    Second,
    SecondOfDay,
    Year,
    /// The year modulo this power of 10: its last digits.
    YearModulo(i64),
    IsoYear,
    IsoYearModulo(i64),
    Century,
    Quarter,
    Month,
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
    Day,
    /// The day of the week: from Sunday, which is 1, and from Monday.
    DayOfWeek,
    IsoDayOfWeek,
    JulianDay,
}

/// An ordinal suffix after a number: `th`, `st`, `nd`, `rd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordinal {
    No,
    Lower,
    Upper,
}

/// Letters of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    Capital,
}

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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// The longest name of a month or day, to which PostgreSQL fills all up.
const NAME_WIDTH: usize = 9;
/// The longest month in Roman numbers.
const ROMAN_WIDTH: usize = 4;

/// The patterns of PostgreSQL's templates; of two with a common beginning, the longer one is first. All but names of months and
/// days may be in lower case as well.
const PATTERNS: [&str; 57] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF2",
    "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I",
    "J", "MI", "MM", "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS",
    "SS", "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY",
];

/// The parts of a template of PostgreSQL's.
pub(super) fn of_postgres(template: &str) -> Result<Vec<Part>, SqlError> {
    if template.contains('%') {
        return Err(SqlError::invalid(format!("`{template}` is not a valid template of to_char")).with_hint(
            "Templates are PostgreSQL's: to_char(ts, 'YYYY-MM-DD HH24:MI:SS'). date_format uses those with %: \
             date_format(ts, '%Y-%m-%d').",
        ));
    }
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut is_filled = true;
        for prefix in ["FM", "fm", "TM", "tm"] {
            if let Some(after) = rest.strip_prefix(prefix) {
                is_filled &= !prefix.eq_ignore_ascii_case("FM");
                rest = after;
                break;
            }
        }
        if let Some((pattern, after)) = pattern(rest) {
            rest = after;
            let mut ordinal = Ordinal::No;
            for (suffix, wanted) in [("TH", Ordinal::Upper), ("th", Ordinal::Lower), ("SP", Ordinal::No)] {
                if let Some(after) = rest.strip_prefix(suffix) {
                    (ordinal, rest) = (wanted, after);
                    break;
                }
            }
            parts.extend(part(pattern, is_filled, ordinal));
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = push_quoted(quoted, &mut parts);
        } else {
            let rest_of = rest.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(rest);
            let mut characters = rest_of.chars();
            if let Some(character) = characters.next() {
                push_literal(character, &mut parts);
            }
            rest = characters.as_str();
        }
    }
    Ok(parts)
}

/// The pattern at the beginning, and what follows it.
fn pattern(text: &str) -> Option<(&str, &str)> {
    let patterns = PATTERNS.iter().chain(&["Y"]);
    for known in patterns {
        let Some(begin) = text.get(..known.len()) else { continue };
        let is_lower = known.bytes().all(|byte| !byte.is_ascii_lowercase())
            && begin.eq_ignore_ascii_case(known)
            && begin.bytes().all(|byte| !byte.is_ascii_uppercase());
        if begin == *known || is_lower {
            return Some(text.split_at(known.len()));
        }
    }
    None
}

/// Adds what stands in quotes, the first having been read; gives what follows them.
fn push_quoted<'a>(text: &'a str, parts: &mut Vec<Part>) -> &'a str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => push_literal(characters.next().unwrap_or('\\'), parts),
            _ => push_literal(character, parts),
        }
    }
    characters.as_str()
}

fn push_literal(character: char, parts: &mut Vec<Part>) {
    match parts.last_mut() {
        Some(Part::Literal(text)) => text.push(character),
        _ => parts.push(Part::Literal(character.to_string())),
    }
}

fn part(pattern: &str, is_filled: bool, ordinal: Ordinal) -> Option<Part> {
    let number = |field: Field, width: usize| {
        Some(Part::Number { field, width: if is_filled { width } else { 0 }, ordinal })
    };
    let name = |names: &'static [&'static str], field: Field, letters: usize, case: Case| {
        let width = if is_filled && letters > 3 { NAME_WIDTH } else { 0 };
        Some(Part::Name { names, field, letters, case, width })
    };
    let either = |is_noon: bool, texts: [&'static str; 2]| Some(Part::Either { is_noon, texts });
    let case = match pattern {
        _ if pattern.bytes().all(|byte| byte.is_ascii_uppercase()) => Case::Upper,
        _ if pattern.bytes().all(|byte| byte.is_ascii_lowercase()) => Case::Lower,
        _ => Case::Capital,
    };
    let is_lower = pattern.starts_with(|first: char| first.is_ascii_lowercase());
    match pattern.to_ascii_uppercase().as_str() {
        "FX" => None,
        "AM" | "PM" => either(true, if is_lower { ["am", "pm"] } else { ["AM", "PM"] }),
        "A.M." | "P.M." => either(true, if is_lower { ["a.m.", "p.m."] } else { ["A.M.", "P.M."] }),
        "AD" | "BC" => either(false, if is_lower { ["bc", "ad"] } else { ["BC", "AD"] }),
        "A.D." | "B.C." => either(false, if is_lower { ["b.c.", "a.d."] } else { ["B.C.", "A.D."] }),
        "HH" | "HH12" => number(Field::Hour12, 2),
        "HH24" => number(Field::Hour24, 2),
        "MI" => number(Field::Minute, 2),
        "SS" => number(Field::Second, 2),
        "SSSS" | "SSSSS" => number(Field::SecondOfDay, 0),
        "MS" => Some(Part::Fraction(3)),
        "US" => Some(Part::Fraction(6)),
        fraction if fraction.starts_with("FF") => Some(Part::Fraction(fraction[2..].parse().unwrap_or(6))),
        "YYYY" => number(Field::Year, 4),
        "Y,YYY" => Some(Part::YearWithComma),
        "YYY" => number(Field::YearModulo(1000), 3),
        "YY" => number(Field::YearModulo(100), 2),
        "Y" => number(Field::YearModulo(10), 1),
        "IYYY" => number(Field::IsoYear, 4),
        "IYY" => number(Field::IsoYearModulo(1000), 3),
        "IY" => number(Field::IsoYearModulo(100), 2),
        "I" => number(Field::IsoYearModulo(10), 1),
        "CC" => number(Field::Century, 2),
        "Q" => number(Field::Quarter, 0),
        "MM" => number(Field::Month, 2),
        "MONTH" => name(&MONTHS, Field::Month, usize::MAX, case),
        "MON" => name(&MONTHS, Field::Month, 3, case),
        "DAY" => name(&DAYS, Field::DayOfWeek, usize::MAX, case),
        "DY" => name(&DAYS, Field::DayOfWeek, 3, case),
        "RM" => {
            let width = if is_filled { ROMAN_WIDTH } else { 0 };
            Some(Part::Name { names: &ROMAN, field: Field::Month, letters: usize::MAX, case, width })
        }
        "WW" => number(Field::WeekOfYear, 2),
        "IW" => number(Field::IsoWeek, 2),
        "W" => number(Field::WeekOfMonth, 0),
        "DDD" => number(Field::DayOfYear, 3),
        "IDDD" => number(Field::IsoDayOfYear, 3),
        "DD" => number(Field::Day, 2),
        "D" => number(Field::DayOfWeek, 0),
        "ID" => number(Field::IsoDayOfWeek, 0),
        "J" => number(Field::JulianDay, 0),
        "TZ" => Some(Part::Zone(if is_lower { "utc" } else { "UTC" })),
        // PostgreSQL shows these of a local time, too.
        "TZH" => Some(Part::Literal("+00".to_owned())),
        "TZM" => Some(Part::Literal("00".to_owned())),
        "OF" => Some(Part::Literal(if is_filled { "+00" } else { "+0" }.to_owned())),
        _ => None,
    }
}

/// The parts of a pattern of Spark's: letters, as often as the field is wide.
pub(super) fn of_spark(template: &str) -> Result<Vec<Part>, SqlError> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let after = &rest[1..];
            if let Some(after) = after.strip_prefix('\'') {
                push_literal('\'', &mut parts);
                rest = after;
                continue;
            }
            let mut characters = after.chars();
            loop {
                match characters.next() {
                    Some('\'') => match characters.as_str().strip_prefix('\'') {
                        Some(more) => {
                            push_literal('\'', &mut parts);
                            characters = more.chars();
                        }
                        None => break,
                    },
                    Some(character) => push_literal(character, &mut parts),
                    None => return Err(no_pattern(template, "a quote that is not closed")),
                }
            }
            rest = characters.as_str();
            continue;
        }
        let count = rest.chars().take_while(|next| *next == first).count();
        if first.is_ascii_alphabetic() {
            parts.push(letters(template, first, count)?);
            rest = &rest[count..];
            continue;
        }
        if matches!(first, '[' | ']' | '{' | '}' | '#' | '%') {
            return Err(no_pattern(template, &format!("`{first}`")));
        }
        push_literal(first, &mut parts);
        rest = &rest[first.len_utf8()..];
    }
    Ok(parts)
}

fn no_pattern(template: &str, what: &str) -> SqlError {
    SqlError::invalid(format!("the pattern `{template}` has {what}, which is not supported")).with_hint(
        "Patterns are Spark's: date_format(ts, 'yyyy-MM-dd HH:mm:ss'); write other letters in quotes: \
                    'yyyy-MM-dd\\'T\\'HH'.",
    )
}

fn letters(template: &str, letter: char, count: usize) -> Result<Part, SqlError> {
    let number = |field: Field| Part::Number { field, width: count, ordinal: Ordinal::No };
    let name = |names: &'static [&'static str], field: Field, letters: usize| Part::Name {
        names,
        field,
        letters,
        case: Case::Capital,
        width: 0,
    };
    Ok(match (letter, count) {
        ('y' | 'u', 2) => number(Field::YearModulo(100)),
        ('y' | 'u', ..=6) => number(Field::Year),
        ('M' | 'L', ..=2) => number(Field::Month),
        ('M' | 'L', 3) => name(&MONTHS, Field::Month, 3),
        ('M' | 'L', 4) => name(&MONTHS, Field::Month, usize::MAX),
        ('Q' | 'q', ..=2) => number(Field::Quarter),
        ('d', ..=2) => number(Field::Day),
        ('D', ..=3) => number(Field::DayOfYear),
        ('E', ..=3) => name(&DAYS, Field::DayOfWeek, 3),
        ('E', 4) => name(&DAYS, Field::DayOfWeek, usize::MAX),
        ('a', 1) => Part::Either { is_noon: true, texts: ["AM", "PM"] },
        ('G', ..=3) => Part::Either { is_noon: false, texts: ["BC", "AD"] },
        ('h', ..=2) => number(Field::Hour12),
        ('H', ..=2) => number(Field::Hour24),
        ('k', ..=2) => number(Field::Hour1To24),
        ('K', ..=2) => number(Field::Hour0To11),
        ('m', ..=2) => number(Field::Minute),
        ('s', ..=2) => number(Field::Second),
        ('S', ..=9) => Part::Fraction(count),
        ('X', ..=5) => Part::Zone("Z"),
        ('x', 1) => Part::Zone("+00"),
        ('x', 2 | 4) | ('Z', ..=3) => Part::Zone("+0000"),
        ('x', 3 | 5) => Part::Zone("+00:00"),
        ('z', ..=3) | ('V', 2) => Part::Zone("UTC"),
        ('O', 1 | 4) => Part::Zone("GMT"),
        _ => return Err(no_pattern(template, &format!("`{}`", letter.to_string().repeat(count)))),
    })
}

/// Returns true if a template uses parts of a date.
pub(super) fn needs_date(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Number { field, .. } => !matches!(
            field,
            Field::Hour24
                | Field::Hour12
                | Field::Hour1To24
                | Field::Hour0To11
                | Field::Minute
                | Field::Second
                | Field::SecondOfDay
        ),
        Part::Either { is_noon, .. } => !is_noon,
        Part::YearWithComma | Part::Name { .. } | Part::Zone(_) => true,
        Part::Literal(_) | Part::Fraction(_) => false,
    })
}

/// Writes a time by a template.
pub(super) fn write(parts: &[Part], time: &NaiveDateTime, has_zone: bool, out: &mut String) {
    for part in parts {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::Number { field, width, ordinal } => write_number(field.of(time), *width, *ordinal, out),
            Part::Fraction(digits) => {
                let nanos = format!("{:09}", time.nanosecond() % 1_000_000_000);
                out.push_str(&nanos[..*digits]);
            }
            Part::YearWithComma => {
                let year = Field::Year.of(time);
                out.push_str(&format!("{},{:03}", year / 1000, year % 1000));
            }
            Part::Either { is_noon, texts } => {
                let is_second = if *is_noon { time.hour() >= 12 } else { time.year() > 0 };
                out.push_str(texts[usize::from(is_second)]);
            }
            Part::Name { names, field, letters, case, width } => {
                let index = usize::try_from(field.of(time)).unwrap_or(1).saturating_sub(1);
                let name = names.get(index).copied().unwrap_or_default();
                let name: String = name.chars().take(*letters).collect();
                let name = match case {
                    Case::Upper => name.to_uppercase(),
                    Case::Lower => name.to_lowercase(),
                    Case::Capital => name,
                };
                out.push_str(&format!("{name:<width$}"));
            }
            Part::Zone(text) if has_zone => out.push_str(text),
            Part::Zone(_) => {}
        }
    }
}

fn write_number(number: i64, width: usize, ordinal: Ordinal, out: &mut String) {
    out.push_str(&format!("{number:0width$}"));
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    match ordinal {
        Ordinal::No => {}
        Ordinal::Lower => out.push_str(suffix),
        Ordinal::Upper => out.push_str(&suffix.to_uppercase()),
    }
}

impl Field {
    fn of(self, time: &NaiveDateTime) -> i64 {
        let iso = time.iso_week();
        // PostgreSQL shows a year before Christ without its sign.
        let year = |year: i32| i64::from(if year <= 0 { 1 - year } else { year });
        match self {
            Field::Hour24 => time.hour().into(),
            Field::Hour12 => time.hour12().1.into(),
            Field::Hour1To24 => {
                if time.hour() == 0 {
                    24
                } else {
                    time.hour().into()
                }
            }
            Field::Hour0To11 => i64::from(time.hour() % 12),
            Field::Minute => time.minute().into(),
            Field::Second => time.second().into(),
            Field::SecondOfDay => time.num_seconds_from_midnight().into(),
            Field::Year => year(time.year()),
            Field::YearModulo(digits) => year(time.year()) % digits,
            Field::IsoYear => year(iso.year()),
            Field::IsoYearModulo(digits) => year(iso.year()) % digits,
            Field::Century => match i64::from(time.year()) {
                after @ 1.. => (after - 1) / 100 + 1,
                before => before / 100 - 1,
            },
            Field::Quarter => i64::from(time.month0() / 3 + 1),
            Field::Month => time.month().into(),
            Field::WeekOfMonth => i64::from(time.day0() / 7 + 1),
            Field::WeekOfYear => i64::from(time.ordinal0() / 7 + 1),
            Field::IsoWeek => iso.week().into(),
            Field::DayOfYear => time.ordinal().into(),
            Field::IsoDayOfYear => i64::from((iso.week() - 1) * 7 + time.weekday().number_from_monday()),
            Field::Day => time.day().into(),
            Field::DayOfWeek => time.weekday().number_from_sunday().into(),
            Field::IsoDayOfWeek => time.weekday().number_from_monday().into(),
            // Day 1 of chrono's is the first of January of the year 1.
            Field::JulianDay => i64::from(time.num_days_from_ce()) + 1_721_425,
        }
    }
}
