//! Values in comparisons: numbers, times and texts.

use std::cmp::Ordering;

use swiftwater_event::from_rfc3339;

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Its text.
    pub text: String,
    /// True if it is in quotation marks, and so no number.
    pub is_quoted: bool,
}

/// A number of a query or of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i128),
    /// Any other.
    Float(f64),
}

/// A stretch of time in microseconds since 1970, half-open: a date is a day, everything else one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Scalar {
    /// Returns true if it stands for no bound.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_quoted && self.text == "*"
    }

    pub(crate) fn number(&self) -> Option<Number> {
        if self.is_quoted { None } else { Number::parse(&self.text) }
    }

    /// The time that it means: a date, RFC 3339 with or without a zone (UTC), or one relative to now, where that is known.
    pub(crate) fn period(&self, now_micros: Option<i64>) -> Option<Period> {
        match self.relative_micros() {
            Some(offset) => now_micros.map(|now| Period::at(now.saturating_add(offset))),
            None => time(&self.text),
        }
    }

    /// The distance from now of `now`, `now-15m`, `now+1h`.
    pub(crate) fn relative_micros(&self) -> Option<i64> {
        self.text.strip_prefix("now").filter(|_| !self.is_quoted).and_then(duration_micros)
    }
}

impl Period {
    fn at(from: i64) -> Period {
        Period { from, to: from.saturating_add(1) }
    }
}

/// The moment that a text means, in microseconds since 1970: a date, RFC 3339 with or without a zone (UTC), milliseconds since
/// 1970, or one relative to now, such as `now-15m`. A date is its first instant.
pub fn moment_micros(text: &str, now_micros: i64) -> Option<i64> {
    if let Ok(millis) = text.parse::<i64>() {
        return millis.checked_mul(1000);
    }
    let scalar = Scalar { text: text.to_owned(), is_quoted: false };
    scalar.period(Some(now_micros)).map(|period| period.from)
}

/// A signed duration such as `-15m`; nothing is no time.
fn duration_micros(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (sign, text) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let count: i64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => DAY_MICROS,
        "w" => 7 * DAY_MICROS,
        _ => return None,
    };
    count.checked_mul(unit)?.checked_mul(sign)
}

/// A date or a date with a time, which may have no seconds and no zone.
pub(crate) fn time(text: &str) -> Option<Period> {
    let bytes = text.as_bytes();
    if bytes.get(4) != Some(&b'-') || bytes.len() > 64 {
        return None;
    }
    match bytes.len() {
        10 => {
            let from = from_rfc3339(format!("{text}T00:00:00").as_bytes())?;
            Some(Period { from, to: from.saturating_add(DAY_MICROS) })
        }
        16 => from_rfc3339(format!("{text}:00").as_bytes()).map(Period::at),
        _ => from_rfc3339(bytes).map(Period::at),
    }
}

impl Number {
    pub(crate) fn parse(text: &str) -> Option<Number> {
        // Rust reads words such as `inf` as numbers; they are none here.
        if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'))
            || !text.bytes().any(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        if let Ok(integer) = text.parse::<i128>() {
            return Some(Number::Integer(integer));
        }
        text.parse::<f64>().ok().map(Number::Float)
    }

    /// Compares by value, exactly. A value that is not a number (NaN) compares with nothing.
    pub(crate) fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Integer(a), Number::Float(b)) => compare_exactly(a, b),
            (Number::Float(a), Number::Integer(b)) => compare_exactly(b, a).map(Ordering::reverse),
        }
    }
}

fn compare_exactly(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // 2^127; every float between -2^127 and this has a whole part that is an i128.
    const END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if float >= END {
        return Some(Ordering::Less);
    }
    if float < -END {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    let by_whole = integer.cmp(&(whole as i128));
    Some(by_whole.then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), is_quoted: false }
    }

    #[test]
    fn times_are_dates_instants_and_relative() {
        let now = 1_767_225_600_000_000; // 2026-01-01T00:00:00Z
        for (text, expected) in [
            ("2026-01-01", Some((now, now + DAY_MICROS))),
            ("2026-01-01T00:00:00Z", Some((now, now + 1))),
            ("2026-01-01T01:00:00+01:00", Some((now, now + 1))),
            ("2026-01-01T00:00", Some((now, now + 1))),
            ("2026-01-01T00:00:00.5", Some((now + 500_000, now + 500_001))),
            ("now", Some((now, now + 1))),
            ("now-15m", Some((now - 900_000_000, now - 899_999_999))),
            ("now+2w", Some((now + 14 * DAY_MICROS, now + 14 * DAY_MICROS + 1))),
            ("now-15", None),
            ("nowhere", None),
            ("2026-13-01", None),
            ("500", None),
            ("", None),
        ] {
            let found = scalar(text).period(Some(now)).map(|period| (period.from, period.to));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn numbers_compare_by_value() {
        let compare =
            |a: &str, b: &str| Number::parse(a).unwrap().compare(Number::parse(b).unwrap()).unwrap();
        assert_eq!(compare("500", "500.0"), Ordering::Equal);
        assert_eq!(compare("9007199254740993", "9007199254740992.0"), Ordering::Greater);
        assert_eq!(compare("1", "1.5"), Ordering::Less);
        assert_eq!(compare("-1", "-1.5"), Ordering::Greater);
        assert_eq!(compare("1e300", "5"), Ordering::Greater);
        assert_eq!(compare("5", "-1e300"), Ordering::Greater);
        assert!(
            Number::parse("inf").is_none()
                && Number::parse("1.2.3").is_none()
                && Number::parse("e").is_none()
        );
        assert_eq!(Number::Float(f64::NAN).compare(Number::Integer(1)), None);
    }
}
