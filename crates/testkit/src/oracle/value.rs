//! Values of the oracle, their orders, and their JSON.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value as Json};
use swiftwater_event::{Primitive, Type};

/// A value: JSON's kinds, with numbers told apart. INTEGER does not occur: in the native dialect it counts as LONG.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Long(i64),
    Float(f32),
    Double(f64),
    String(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// A number written without point and exponent is a LONG if it fits one, any other a DOUBLE.
    pub(crate) fn of(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Boolean(*truth),
            Json::Number(number) => match number.as_i64() {
                Some(long) => Value::Long(long),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Value::of).collect()),
            Json::Object(fields) => {
                Value::Map(fields.iter().map(|(key, value)| (key.clone(), Value::of(value))).collect())
            }
        }
    }

    /// JSON has no infinities and no NaN: they are texts.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Boolean(truth) => Json::Bool(*truth),
            Value::Long(number) => Json::from(*number),
            // A FLOAT is written with as few digits as tell it from other FLOATs.
            Value::Float(number) if number.is_finite() => {
                let shown = number.to_string().parse().ok();
                shown.and_then(Number::from_f64).map_or(Json::Null, Json::Number)
            }
            Value::Float(number) => not_finite(f64::from(*number)),
            Value::Double(number) => {
                Number::from_f64(*number).map_or_else(|| not_finite(*number), Json::Number)
            }
            Value::String(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Value::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// A number as a double.
    pub(crate) fn double(&self) -> Option<f64> {
        match self {
            Value::Long(number) => Some(*number as f64),
            Value::Float(number) => Some(f64::from(*number)),
            Value::Double(number) => Some(*number),
            _ => None,
        }
    }

    /// A number, or a text that stands for one that JSON cannot write.
    fn special_double(&self) -> Option<f64> {
        match self {
            Value::String(text) if text == "NaN" => Some(f64::NAN),
            Value::String(text) if text == "Infinity" => Some(f64::INFINITY),
            Value::String(text) if text == "-Infinity" => Some(f64::NEG_INFINITY),
            other => other.double(),
        }
    }

    /// The value of a group's key as shown: a number is a LONG if it is one, else a DOUBLE.
    pub(crate) fn into_key(self) -> Value {
        match self {
            Value::Float(_) | Value::Double(_) => match (whole(&self), self.double()) {
                (Some(number), _) => Value::Long(number),
                (None, Some(number)) => Value::Double(number),
                (None, None) => self,
            },
            Value::List(items) => Value::List(items.into_iter().map(Value::into_key).collect()),
            Value::Map(entries) => {
                Value::Map(entries.into_iter().map(|(key, value)| (key, value.into_key())).collect())
            }
            other => other,
        }
    }

    /// This value cast to the type that it is requested as: null if it does not fit. A whole number fits LONG and
    /// INTEGER however it is written.
    pub(crate) fn cast_to(self, ty: &Type) -> Value {
        match (ty, self) {
            (Type::Any, value) => value,
            (Type::Primitive(Primitive::Boolean), value @ Value::Boolean(_))
            | (Type::Primitive(Primitive::String), value @ Value::String(_)) => value,
            (Type::Primitive(Primitive::Integer), value) => match whole(&value) {
                Some(number) if i32::try_from(number).is_ok() => Value::Long(number),
                _ => Value::Null,
            },
            (Type::Primitive(Primitive::Long), value) => whole(&value).map_or(Value::Null, Value::Long),
            (Type::Primitive(Primitive::Float), value) => {
                value.special_double().map_or(Value::Null, |number| Value::Float(number as f32))
            }
            (Type::Primitive(Primitive::Double), value) => {
                value.special_double().map_or(Value::Null, Value::Double)
            }
            (Type::List(element), Value::List(items)) => {
                Value::List(items.into_iter().map(|item| item.cast_to(element)).collect())
            }
            (Type::Map(element), Value::Map(entries)) => {
                Value::Map(entries.into_iter().map(|(key, item)| (key, item.cast_to(element))).collect())
            }
            _ => Value::Null,
        }
    }
}

fn not_finite(number: f64) -> Json {
    let text = match number {
        _ if number.is_nan() => "NaN",
        _ if number > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    Json::from(text)
}

/// The whole number that a number is.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Long(number) => Some(*number),
        Value::Float(_) | Value::Double(_) => {
            value.double().filter(|number| number.fract() == 0.0).and_then(long_of)
        }
        _ => None,
    }
}

/// The whole part of a number, if it fits a LONG.
pub(crate) fn long_of(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { Some(number as i64) } else { None }
}

/// The way the operators `=` to `>=` see two values; `None` where they are not comparable. Whole numbers compare exactly,
/// other pairs of numbers as doubles; -0.0 equals 0.0.
pub(crate) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Long(a), Value::Long(b)) => Some(a.cmp(b)),
        _ => Some(double_order(left.double()?, right.double()?)),
    }
}

/// One zero; NaN equals itself and is the largest.
fn double_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The order of everything, for ORDER BY, MIN, MAX and the equality of group keys: null, booleans, numbers (exactly,
/// whatever their types), strings, lists, maps.
pub(crate) fn total_order(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Boolean(_) => 1,
            Value::Long(_) | Value::Float(_) | Value::Double(_) => 2,
            Value::String(_) => 3,
            Value::List(_) => 4,
            Value::Map(_) => 5,
        }
    }
    match (left, right) {
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Long(a), Value::Long(b)) => a.cmp(b),
        (Value::Long(a), Value::Float(_) | Value::Double(_)) => {
            right.double().map_or(Ordering::Less, |b| long_and_double(*a, b))
        }
        (Value::Float(_) | Value::Double(_), Value::Long(b)) => {
            left.double().map_or(Ordering::Less, |a| long_and_double(*b, a).reverse())
        }
        (Value::List(a), Value::List(b)) => {
            let parts = a.iter().zip(b).map(|(a, b)| total_order(a, b)).find(|order| order.is_ne());
            parts.unwrap_or(a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => {
            let sorted = |entries: &[(String, Value)]| {
                let mut entries = entries.to_vec();
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                entries
            };
            let (a, b) = (sorted(a), sorted(b));
            let entries = a.iter().zip(&b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| total_order(&a.1, &b.1)));
            entries.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        _ => match (left.double(), right.double()) {
            (Some(a), Some(b)) => double_order(a, b),
            _ => rank(left).cmp(&rank(right)),
        },
    }
}

/// Exact, though not every LONG is a DOUBLE.
fn long_and_double(long: i64, double: f64) -> Ordering {
    match long_of(double) {
        // The fraction decides between equal whole parts; a whole part cut off a negative number is above it.
        Some(whole) => long.cmp(&whole).then_with(|| double_order(0.0, double.fract())),
        None if double.is_nan() || double > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Value {
        Value::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn number_kinds_follow_the_text() {
        assert_eq!(of("5"), Value::Long(5));
        assert_eq!(of("5.0"), Value::Double(5.0));
        assert_eq!(of("5e0"), Value::Double(5.0));
        assert_eq!(of("9223372036854775807"), Value::Long(i64::MAX));
        assert_eq!(of("9223372036854775808"), Value::Double(9_223_372_036_854_775_808.0));
        assert_eq!(of("-9223372036854775808"), Value::Long(i64::MIN));
    }

    #[test]
    fn long_and_double_compare_exactly_in_the_total_order() {
        let two_53 = 9_007_199_254_740_992;
        assert_eq!(total_order(&Value::Long(two_53 + 1), &Value::Double(two_53 as f64)), Ordering::Greater);
        assert_eq!(compare(&Value::Long(two_53 + 1), &Value::Double(two_53 as f64)), Some(Ordering::Equal));
        assert_eq!(total_order(&Value::Long(-3), &Value::Double(-2.5)), Ordering::Less);
        assert_eq!(total_order(&Value::Long(-2), &Value::Double(-2.5)), Ordering::Greater);
        assert_eq!(total_order(&Value::Long(i64::MAX), &Value::Double(1e19)), Ordering::Less);
        assert_eq!(total_order(&Value::Double(-1e19), &Value::Long(i64::MIN)), Ordering::Less);
        assert_eq!(total_order(&Value::Long(0), &Value::Double(-0.0)), Ordering::Equal);
    }

    #[test]
    fn kinds_have_their_order() {
        let ordered = [
            "null", "false", "true", "-1e30", "-1", "0.5", "1", "\"\"", "\"a\"", "\"ß\"", "\"😀\"", "[]",
            "{}",
        ];
        for (at, low) in ordered.iter().enumerate() {
            for high in &ordered[at + 1..] {
                assert_eq!(total_order(&of(low), &of(high)), Ordering::Less, "{low} {high}");
                assert_eq!(total_order(&of(high), &of(low)), Ordering::Greater, "{high} {low}");
            }
        }
        assert_eq!(total_order(&of(r#"{"a":1,"b":2}"#), &of(r#"{"b":2.0,"a":1}"#)), Ordering::Equal);
    }

    #[test]
    fn only_like_kinds_compare() {
        assert_eq!(compare(&of("1"), &of("\"1\"")), None);
        assert_eq!(compare(&of("true"), &of("1")), None);
        assert_eq!(compare(&of("[1]"), &of("[1]")), None);
        assert_eq!(compare(&of("null"), &of("null")), None);
        assert_eq!(compare(&of("1"), &of("1.0")), Some(Ordering::Equal));
        assert_eq!(compare(&of("false"), &of("true")), Some(Ordering::Less));
    }

    #[test]
    fn wanted_types() {
        assert_eq!(of("5.0").cast_to(&Type::LONG), Value::Long(5));
        assert_eq!(of("5.5").cast_to(&Type::LONG), Value::Null);
        assert_eq!(of("3000000000").cast_to(&Type::INTEGER), Value::Null);
        assert_eq!(of("5").cast_to(&Type::DOUBLE), Value::Double(5.0));
        assert_eq!(of("\"5\"").cast_to(&Type::DOUBLE), Value::Null);
        assert_eq!(of("5").cast_to(&Type::STRING), Value::Null);
        let longs = Type::list(Type::LONG).unwrap();
        assert_eq!(of("[1,\"x\"]").cast_to(&longs), Value::List(vec![Value::Long(1), Value::Null]));
    }
}
