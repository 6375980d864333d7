//! Compares values with a text in Bullet's older query form.
//!
//! That form has only texts, and casts each to the type of the value that it is compared with.

use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::Comparison};

use super::compare::{compare, holds};

/// A text with all that it can stand for.
#[derive(Debug)]
pub(super) struct TextMatch {
    text: Box<str>,
    /// The number; none for `NaN` and infinities, which such texts do not mean.
    long: Option<i64>,
    double: Option<f64>,
    truth: Option<bool>,
    is_null: bool,
}

impl TextMatch {
    pub(super) fn new(text: &str) -> TextMatch {
        let trimmed = text.trim();
        let is = |word: &str| trimmed.eq_ignore_ascii_case(word);
        TextMatch {
            text: text.into(),
            long: trimmed.parse().ok(),
            double: trimmed.parse().ok().filter(|double: &f64| double.is_finite()),
            truth: if is("true") { Some(true) } else { is("false").then_some(false) },
            is_null: is("null"),
        }
    }

    /// True if `value comparison text` holds. A value that the text cannot be cast to differs from it, and nothing
    /// more.
    pub(super) fn holds(&self, value: &Value<'_>, comparison: Comparison, dialect: Dialect) -> bool {
        let cast = match value {
            Value::Null if self.is_null => {
                return comparison == Comparison::Eq;
            }
            Value::String(_) => Some(Value::String(&self.text)),
            Value::Integer(_) | Value::Long(_) => {
                self.long.map(Value::Long).or(self.double.map(Value::Double))
            }
            Value::Float(_) | Value::Double(_) => self.double.map(Value::Double),
            Value::Timestamp(_) => Some(self.long.map_or(Value::String(&self.text), Value::Long)),
            Value::Boolean(_) => self.truth.map(Value::Boolean),
            Value::Null | Value::Error | Value::List(_) | Value::Map(_) => None,
        };
        match cast.and_then(|cast| compare(value, &cast, dialect)) {
            Some(ordering) => holds(comparison, ordering),
            None => comparison == Comparison::Ne,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value<'_>, text: &str, expected: &str) {
        let of_text = TextMatch::new(text);
        let all =
            [(Comparison::Lt, '<'), (Comparison::Eq, '='), (Comparison::Gt, '>'), (Comparison::Ne, '!')];
        let found: String = all
            .into_iter()
            .filter(|(comparison, _)| of_text.holds(&value, *comparison, Dialect::Native))
            .map(|(_, sign)| sign)
            .collect();
        assert_eq!(found, expected, "{value:?} {text}");
    }

    #[test]
    fn text_is_cast_to_what_the_value_is() {
        check(Value::String("5"), "5", "=");
        check(Value::String("10"), "5", "<!");
        check(Value::Long(10), "5", ">!");
        check(Value::Long(5), " 5 ", "=");
        check(Value::Integer(5), "5.5", "<!");
        check(Value::Double(5.0), "5", "=");
        check(Value::Long(i64::MAX), "9223372036854775806", ">!");
        check(Value::Boolean(true), "TRUE", "=");
        check(Value::Boolean(false), "true", "<!");
        check(Value::Timestamp(1_000_000), "1000", "=");
        check(Value::Timestamp(1_000_000), "1970-01-01T00:00:01Z", "=");
    }

    #[test]
    fn text_that_cannot_be_cast_only_differs() {
        check(Value::Long(5), "five", "!");
        check(Value::Double(5.0), "NaN", "!");
        check(Value::Boolean(true), "1", "!");
        check(Value::List(&[]), "[]", "!");
        check(Value::Null, "x", "!");
        check(Value::Null, "NULL", "=");
        assert!(!TextMatch::new("null").holds(&Value::Null, Comparison::Le, Dialect::Native));
        check(Value::Timestamp(0), "today", "!");
    }
}
