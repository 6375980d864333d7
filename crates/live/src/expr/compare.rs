//! Compares two values: which kinds are comparable, and by which rules.

use std::cmp::Ordering;

use swiftwater_event::Value;
use swiftwater_lang::Dialect;
use swiftwater_lang::plan::Comparison;

use super::time;

/// The way two values compare under a dialect's rules; `None` if they are not comparable, which a null, an error and a
/// container never are.
///
/// Bullet: as Java's `compareTo` where the types are equal, as doubles where two numeric types differ; so NaN equals
/// NaN and comes last, and -0.0 comes before 0.0. Native: whole numbers exactly, else as doubles, with one zero;
/// a TIMESTAMP with another, with RFC 3339 text, and with a number of milliseconds since 1970.
pub fn compare(left: &Value<'_>, right: &Value<'_>, dialect: Dialect) -> Option<Ordering> {
    use Value::{Boolean, Double, Float, Integer, Long, String, Timestamp};
    Some(match (left, right) {
        (Long(a), Long(b)) => a.cmp(b),
        (Integer(a), Integer(b)) => a.cmp(b),
        (String(a), String(b)) => compare_text(a, b, dialect),
        (Boolean(a), Boolean(b)) => a.cmp(b),
        (Float(a), Float(b)) => compare_doubles(f64::from(*a), f64::from(*b), dialect),
        (Integer(a), Long(b)) => i64::from(*a).cmp(b),
        (Long(a), Integer(b)) => a.cmp(&i64::from(*b)),
        (Integer(_) | Long(_) | Float(_) | Double(_), Integer(_) | Long(_) | Float(_) | Double(_)) => {
            compare_doubles(as_double(left)?, as_double(right)?, dialect)
        }
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        (Timestamp(a), String(b)) => a.cmp(&time::parse_rfc3339_micros(b)?),
        (String(a), Timestamp(b)) => time::parse_rfc3339_micros(a)?.cmp(b),
        (Timestamp(a), _) => compare_micros(*a, right)?,
        (_, Timestamp(b)) => compare_micros(*b, left)?.reverse(),
        _ => return None,
    })
}

/// A timestamp against a number of milliseconds.
fn compare_micros(micros: i64, number: &Value<'_>) -> Option<Ordering> {
    match number {
        Value::Integer(_) | Value::Long(_) => {
            let millis = as_long(number)?;
            Some(i128::from(micros).cmp(&(i128::from(millis) * 1000)))
        }
        Value::Float(_) | Value::Double(_) => {
            Some(compare_doubles(micros as f64 / 1000.0, as_double(number)?, Dialect::Native))
        }
        _ => None,
    }
}

/// The whole number that a value is.
pub(super) fn as_long(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        _ => None,
    }
}

/// Any number as a double.
pub(super) fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(f64::from(*number)),
        Value::Long(number) => Some(*number as f64),
        Value::Float(number) => Some(f64::from(*number)),
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

/// NaN equals NaN and is the largest in both dialects; -0.0 is less than 0.0 in Bullet only.
pub(super) fn compare_doubles(left: f64, right: f64, dialect: Dialect) -> Ordering {
    match left.partial_cmp(&right) {
        Some(Ordering::Equal) if dialect == Dialect::Bullet => {
            right.is_sign_negative().cmp(&left.is_sign_negative())
        }
        Some(ordering) => ordering,
        None => left.is_nan().cmp(&right.is_nan()),
    }
}

/// Compares by UTF-8 byte, or by UTF-16 unit.
pub(super) fn compare_text(left: &str, right: &str, dialect: Dialect) -> Ordering {
    if dialect.compares_utf16() { compare_utf16(left, right) } else { left.cmp(right) }
}

/// The two orders differ only where a character above U+FFFF (in UTF-16, a pair from U+D800 on) meets one from U+E000
/// to U+FFFF.
fn compare_utf16(left: &str, right: &str) -> Ordering {
    let same = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    let (Some(&a), Some(&b)) = (left.as_bytes().get(same), right.as_bytes().get(same)) else {
        return left.len().cmp(&right.len());
    };
    // Lead bytes of what is above U+FFFF are 0xF0 and more, of U+E000 to U+FFFF 0xEE and 0xEF; where the first
    // difference lies behind the lead byte, both characters are of one length and the orders agree.
    let unit = |byte: u8| match byte {
        0xF0.. => 0xED,
        0xEE | 0xEF => 0xF0,
        _ => byte,
    };
    match unit(a).cmp(&unit(b)) {
        Ordering::Equal => a.cmp(&b),
        ordering => ordering,
    }
}

/// True if an ordering makes a comparison true.
pub(super) fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Eq => ordering.is_eq(),
        Comparison::Ne => ordering.is_ne(),
        Comparison::Lt => ordering.is_lt(),
        Comparison::Le => ordering.is_le(),
        Comparison::Gt => ordering.is_gt(),
        Comparison::Ge => ordering.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_that_do_not_compare() {
        let pairs = [
            (Value::Long(1), Value::String("1")),
            (Value::Boolean(true), Value::Long(1)),
            (Value::Null, Value::Null),
            (Value::Error, Value::Long(1)),
            (Value::List(&[]), Value::List(&[])),
            (Value::Timestamp(0), Value::String("today")),
            (Value::Timestamp(0), Value::Boolean(true)),
        ];
        for (left, right) in pairs {
            for dialect in [Dialect::Native, Dialect::Bullet] {
                assert_eq!(compare(&left, &right, dialect), None, "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn numbers_compare_across_types() {
        let less = [
            (Value::Integer(1), Value::Long(2)),
            (Value::Long(i64::MAX - 1), Value::Long(i64::MAX)),
            (Value::Float(1.5), Value::Double(1.6)),
            (Value::Double(f64::INFINITY), Value::Double(f64::NAN)),
            (Value::Timestamp(1_000_999), Value::Long(1001)),
            (Value::Timestamp(0), Value::String("1970-01-01T00:00:00.000001Z")),
        ];
        for (left, right) in less {
            assert_eq!(compare(&left, &right, Dialect::Native), Some(Ordering::Less), "{left:?} {right:?}");
            assert_eq!(
                compare(&right, &left, Dialect::Native),
                Some(Ordering::Greater),
                "{left:?} {right:?}"
            );
        }
        let zeros = (Value::Double(-0.0), Value::Double(0.0));
        assert_eq!(compare(&zeros.0, &zeros.1, Dialect::Native), Some(Ordering::Equal));
        assert_eq!(compare(&zeros.0, &zeros.1, Dialect::Bullet), Some(Ordering::Less));
        let large = (Value::Long(i64::MAX), Value::Double(9_223_372_036_854_775_808.0));
        assert_eq!(compare(&large.0, &large.1, Dialect::Native), Some(Ordering::Equal));
    }

    #[test]
    fn text_order_of_the_dialects() {
        assert_eq!(compare_text("\u{ff5e}", "\u{1f600}", Dialect::Native), Ordering::Less);
        assert_eq!(compare_text("\u{ff5e}", "\u{1f600}", Dialect::Bullet), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn utf16_order_is_that_of_the_units(left in "[a\u{d7ff}\u{e000}\u{ff5e}\u{10000}\u{10ffff}é]{0,4}",
                                            right in "[a\u{d7ff}\u{e000}\u{ff5e}\u{10000}\u{10ffff}é]{0,4}") {
            prop_assert_eq!(compare_utf16(&left, &right), left.encode_utf16().cmp(right.encode_utf16()));
        }
    }
}
