//! Values without parts: their types, their order, and what is shown of them.

use std::cmp::Ordering;

use swiftwater_event::Value;

/// Characters of a text value; the rest is replaced by `…`.
const TEXT_CHARACTERS_MAX: usize = 200;
/// The names of JSON's types, as [`type_of`] numbers them.
pub(super) const TYPES: [&str; 5] = ["boolean", "number", "string", "array", "object"];

/// A value without parts. Texts have at most 200 characters, and `…` in place of the others.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarValue {
    /// A boolean.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// Another number, or a whole one that does not fit.
    Double(f64),
    /// A text.
    Text(String),
}

/// The type's place in [`TYPES`]; none for null.
pub(super) fn type_of(value: &Value<'_>) -> Option<usize> {
    Some(match value {
        Value::Null | Value::Error => return None,
        Value::Boolean(_) => 0,
        Value::Integer(_) | Value::Long(_) | Value::Float(_) | Value::Double(_) | Value::Timestamp(_) => 1,
        Value::String(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) => 4,
    })
}

/// A value without parts: booleans, then numbers by their value, then texts by their bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'e> {
    Boolean(bool),
    Long(i64),
    Double(f64),
    Text(&'e str),
}

impl<'e> Scalar<'e> {
    /// None for null, lists and objects.
    pub(super) fn of(value: &Value<'e>) -> Option<Scalar<'e>> {
        Some(match *value {
            Value::Boolean(value) => Scalar::Boolean(value),
            Value::Integer(value) => Scalar::Long(value.into()),
            Value::Long(value) | Value::Timestamp(value) => Scalar::Long(value),
            Value::Float(value) => Scalar::Double(value.into()),
            Value::Double(value) => Scalar::Double(value),
            Value::String(text) => Scalar::Text(text),
            Value::Null | Value::Error | Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// The type's place in [`TYPES`].
    pub(super) fn ty(self) -> usize {
        match self {
            Scalar::Boolean(_) => 0,
            Scalar::Long(_) | Scalar::Double(_) => 1,
            Scalar::Text(_) => 2,
        }
    }

    pub(super) fn shown(self) -> ScalarValue {
        match self {
            Scalar::Boolean(value) => ScalarValue::Boolean(value),
            Scalar::Long(value) => ScalarValue::Long(value),
            Scalar::Double(value) => ScalarValue::Double(value),
            Scalar::Text(text) => ScalarValue::Text(cut(text)),
        }
    }
}

impl Ord for Scalar<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Scalar::Boolean(a), Scalar::Boolean(b)) => a.cmp(&b),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            (Scalar::Long(a), Scalar::Long(b)) => a.cmp(&b),
            (Scalar::Double(a), Scalar::Double(b)) => compare_doubles(a, b),
            (Scalar::Long(a), Scalar::Double(b)) => compare_mixed(a, b),
            (Scalar::Double(a), Scalar::Long(b)) => compare_mixed(b, a).reverse(),
            (a, b) => a.ty().cmp(&b.ty()),
        }
    }
}

impl PartialOrd for Scalar<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar<'_> {}

/// -0 and 0 are equal. A number of an event is never NaN.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    (a + 0.0).total_cmp(&(b + 0.0))
}

/// Compares exactly: a LONG has more digits than a DOUBLE.
fn compare_mixed(long: i64, double: f64) -> Ordering {
    const LONGS_END: f64 = 9_223_372_036_854_775_808.0;
    if double >= LONGS_END {
        return Ordering::Less;
    }
    if double < -LONGS_END {
        return Ordering::Greater;
    }
    let whole = double.trunc();
    long.cmp(&(whole as i64)).then_with(|| compare_doubles(0.0, double - whole))
}

/// The first characters of a text, with a mark where it goes on.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
