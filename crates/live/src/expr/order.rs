//! The total order of ORDER BY, MIN and MAX in the native dialect, over values of all kinds; and Bullet's differences
//! from it.

use std::cmp::Ordering;

use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::compare::compare_text;

/// Nulls (and errors), then booleans, numbers, text, timestamps, lists, maps.
///
/// Numbers by their exact value, whatever their type; one zero; NaN equals NaN and is the largest. Text by code point.
/// Lists element by element, the shorter first. Maps as lists of their entries in the order of their keys, so that the
/// order of keys in the event does not matter.
pub fn total_order(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (left, right) {
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let first_difference =
                a.iter().zip(*b).map(|(a, b)| total_order(a, b)).find(|order| order.is_ne());
            first_difference.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => compare_maps(a, b),
        _ => match (Number::of(left), Number::of(right)) {
            (Some(a), Some(b)) => a.compare(b),
            _ => rank(left).cmp(&rank(right)),
        },
    }
}

/// The way rows are ordered by one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOrder {
    /// Largest first.
    pub descending: bool,
    /// A CAST makes the key: in Bullet a null of that has a type, and can be compared with no value.
    pub is_cast: bool,
}

impl KeyOrder {
    /// The order of two rows by the key; where they have none, `is_comparable` becomes false.
    pub(crate) fn compare(
        self,
        left: &Value<'_>,
        right: &Value<'_>,
        dialect: Dialect,
        is_comparable: &mut bool,
    ) -> Ordering {
        if self.is_cast && dialect == Dialect::Bullet {
            let either = |is: fn(&Value<'_>) -> bool| is(left) || is(right);
            let has_null = either(|value| matches!(value, Value::Null));
            // An error is a null without a type.
            *is_comparable &= !has_null || either(|value| matches!(value, Value::Error));
        }
        let order = row_order(left, right, dialect, is_comparable);
        if self.descending { order.reverse() } else { order }
    }
}

/// The order of rows by one key under a dialect's rules, total in either.
///
/// Bullet's is that of the native dialect but for text, by UTF-16 unit, and zeros, of which -0.0 is the lesser. It has
/// none for values of different kinds, nor for containers: then `is_comparable` becomes false.
fn row_order(left: &Value<'_>, right: &Value<'_>, dialect: Dialect, is_comparable: &mut bool) -> Ordering {
    if dialect == Dialect::Native {
        return total_order(left, right);
    }
    match (left, right) {
        (Value::String(a), Value::String(b)) => compare_text(a, b, dialect),
        (Value::Null | Value::Error, _) | (_, Value::Null | Value::Error) => total_order(left, right),
        _ => {
            let is_container = matches!(left, Value::List(_) | Value::Map(_));
            *is_comparable &= rank(left) == rank(right) && !is_container;
            total_order(left, right).then_with(|| is_negative_zero(right).cmp(&is_negative_zero(left)))
        }
    }
}

fn is_negative_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Float(number) => *number == 0.0 && number.is_sign_negative(),
        Value::Double(number) => *number == 0.0 && number.is_sign_negative(),
        _ => false,
    }
}

fn rank(value: &Value<'_>) -> u8 {
    match value {
        Value::Null | Value::Error => 0,
        Value::Boolean(_) => 1,
        Value::Integer(_) | Value::Long(_) | Value::Float(_) | Value::Double(_) => 2,
        Value::String(_) => 3,
        Value::Timestamp(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) => 6,
    }
}

fn compare_maps(left: &[(&str, Value<'_>)], right: &[(&str, Value<'_>)]) -> Ordering {
    let (left, right) = (sorted(left), sorted(right));
    let differences = left
        .iter()
        .zip(&right)
        .map(|((key_a, a), (key_b, b))| key_a.cmp(key_b).then_with(|| total_order(a, b)));
    let mut differences = differences.filter(|order| order.is_ne());
    differences.next().unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// The entries by key.
pub(super) fn sorted<'m, 'a>(entries: &'m [(&'a str, Value<'a>)]) -> Vec<&'m (&'a str, Value<'a>)> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}

/// A number of either kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(i64),
    Double(f64),
}

impl Number {
    pub(super) fn of(value: &Value<'_>) -> Option<Number> {
        match value {
            Value::Integer(number) => Some(Number::Whole(i64::from(*number))),
            Value::Long(number) => Some(Number::Whole(*number)),
            Value::Float(number) => Some(Number::Double(f64::from(*number))),
            Value::Double(number) => Some(Number::Double(*number)),
            _ => None,
        }
    }

    fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            (Number::Double(a), Number::Double(b)) => {
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (Number::Whole(a), Number::Double(b)) => compare_exactly(a, b),
            (Number::Double(a), Number::Whole(b)) => compare_exactly(b, a).reverse(),
        }
    }

    /// The whole number that this is, if it is one that fits: so 1.0 and 1 are one key.
    pub(super) fn as_whole(self) -> Option<i64> {
        match self {
            Number::Whole(number) => Some(number),
            Number::Double(number) => {
                let is_whole = (-LIMIT..LIMIT).contains(&number) && number.trunc() == number;
                is_whole.then_some(number as i64)
            }
        }
    }
}

/// 2^63: doubles below it, and not below its negative, have a whole part that fits.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Compares without rounding: by the whole part, then by the fraction.
fn compare_exactly(whole: i64, double: f64) -> Ordering {
    if double.is_nan() || double >= LIMIT {
        return Ordering::Less;
    }
    if double < -LIMIT {
        return Ordering::Greater;
    }
    let truncated = double.trunc();
    whole.cmp(&(truncated as i64)).then_with(|| truncated.partial_cmp(&double).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr::tests_support::{Owned, value};

    #[test]
    fn kinds_have_their_places() {
        let entry = [("a", Value::Long(1))];
        let ascending = [
            Value::Null,
            Value::Boolean(false),
            Value::Boolean(true),
            Value::Double(f64::NEG_INFINITY),
            Value::Double(-0.5),
            Value::Long(0),
            Value::Float(0.5),
            Value::Long(i64::MAX - 1),
            Value::Long(i64::MAX),
            Value::Double(9_223_372_036_854_775_808.0),
            Value::Double(f64::NAN),
            Value::String(""),
            Value::String("a"),
            Value::Timestamp(-1),
            Value::List(&[]),
            Value::List(&[Value::Null]),
            Value::Map(&[]),
            Value::Map(&entry),
        ];
        for (a, left) in ascending.iter().enumerate() {
            for (b, right) in ascending.iter().enumerate() {
                assert_eq!(total_order(left, right), a.cmp(&b), "{left:?} {right:?}");
            }
        }
        assert!(total_order(&Value::Double(-0.0), &Value::Integer(0)).is_eq());
        assert!(total_order(&Value::Null, &Value::Error).is_eq());
    }

    proptest! {
        #[test]
        fn order_is_total(a in value(), b in value(), c in value()) {
            let arena = bumpalo::Bump::new();
            let [a, b, c] = [a, b, c].map(|owned: Owned| owned.in_arena(&arena));
            prop_assert!(total_order(&a, &a).is_eq());
            prop_assert_eq!(total_order(&a, &b), total_order(&b, &a).reverse());
            if total_order(&a, &b).is_le() && total_order(&b, &c).is_le() {
                prop_assert!(total_order(&a, &c).is_le());
            }
        }
    }
}
