//! Evaluates CAST, and the cast to BOOLEAN that conditions apply.
//!
//! Bullet: Java's narrowing, which wraps whole numbers and saturates others. Text is a number if Java reads it as a
//! double, and true only if it is `true`. Native: a number that does not fit is an error, and so is text that is neither
//! `true` nor `false`. Text that is a whole number is read exactly.

use bumpalo::Bump;
use swiftwater_event::{Primitive, TimeUnit, Type, Value};
use swiftwater_lang::Dialect;

use super::compare::as_double;
use super::java;
use super::predicate::Truth;
use super::time;

/// `CAST(value AS ty)`; the value is neither null nor an error. Containers cast to containers of the same nesting,
/// element by element; nothing else crosses a level of nesting.
pub(super) fn cast<'a>(value: Value<'a>, ty: &Type, dialect: Dialect, arena: &'a Bump) -> Value<'a> {
    let inner = |value: Value<'a>, ty: &Type| match value {
        Value::Null => Some(Value::Null),
        value => Some(cast(value, ty, dialect, arena)).filter(|value| !matches!(value, Value::Error)),
    };
    match (ty, value) {
        (Type::Any, value) => value,
        (_, Value::Null) => Value::Null,
        (Type::Primitive(_), Value::List(_) | Value::Map(_)) => Value::Error,
        (Type::Primitive(primitive), value) => cast_primitive(value, *primitive, dialect, arena),
        (Type::List(element), Value::List(items)) => {
            let cast_items = bumpalo::collections::Vec::from_iter_in(
                items.iter().map_while(|item| inner(*item, element)),
                arena,
            );
            if cast_items.len() == items.len() {
                Value::List(cast_items.into_bump_slice())
            } else {
                Value::Error
            }
        }
        (Type::Map(element), Value::Map(entries)) => {
            let cast_entries = bumpalo::collections::Vec::from_iter_in(
                entries.iter().map_while(|(key, item)| Some((*key, inner(*item, element)?))),
                arena,
            );
            if cast_entries.len() == entries.len() {
                Value::Map(cast_entries.into_bump_slice())
            } else {
                Value::Error
            }
        }
        (Type::List(_) | Type::Map(_), _) => Value::Error,
    }
}

fn cast_primitive<'a>(value: Value<'a>, to: Primitive, dialect: Dialect, arena: &'a Bump) -> Value<'a> {
    let cast = match to {
        Primitive::Boolean => return truth(value, dialect).to_value(),
        Primitive::Integer => integer(&value, dialect).map(Value::Integer),
        Primitive::Long => long(&value, dialect).map(Value::Long),
        Primitive::Float => float(&value).map(Value::Float),
        Primitive::Double => cast_to_double(&value).map(Value::Double),
        Primitive::String => Some(Value::String(text(value, arena))),
        Primitive::Timestamp(unit) => timestamp(&value, unit).map(Value::Timestamp),
    };
    cast.unwrap_or(Value::Error)
}

/// A primitive as a condition: a number is true if it is not 0.
pub(super) fn truth(value: Value<'_>, dialect: Dialect) -> Truth {
    match value {
        Value::Null => Truth::Null,
        Value::Boolean(truth) => Truth::of(truth),
        Value::Integer(number) => Truth::of(number != 0),
        Value::Long(number) => Truth::of(number != 0),
        Value::Float(number) => Truth::of(number != 0.0),
        Value::Double(number) => Truth::of(number != 0.0),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Truth::True,
        Value::String(text) if dialect == Dialect::Bullet || text.eq_ignore_ascii_case("false") => {
            Truth::False
        }
        Value::Error | Value::String(_) | Value::Timestamp(_) | Value::List(_) | Value::Map(_) => {
            Truth::Error
        }
    }
}

fn integer(value: &Value<'_>, dialect: Dialect) -> Option<i32> {
    match (value, dialect) {
        (Value::Long(number), Dialect::Bullet) => Some(*number as i32),
        // Straight from the double: by way of a LONG it would wrap where Java saturates.
        (Value::Float(_) | Value::Double(_) | Value::String(_), Dialect::Bullet) => {
            cast_to_double(value).map(|number| number as i32)
        }
        _ => i32::try_from(long(value, dialect)?).ok(),
    }
}

fn long(value: &Value<'_>, dialect: Dialect) -> Option<i64> {
    match value {
        Value::Boolean(truth) => Some(i64::from(*truth)),
        Value::Integer(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        Value::Timestamp(micros) => Some(micros.div_euclid(1000)),
        Value::Float(_) | Value::Double(_) | Value::String(_) if dialect == Dialect::Bullet => {
            cast_to_double(value).map(|number| number as i64)
        }
        Value::Float(_) | Value::Double(_) => exact_long(cast_to_double(value)?),
        Value::String(text) => match java::trim_java(text).parse() {
            Ok(number) => Some(number),
            Err(_) => exact_long(cast_to_double(value)?),
        },
        Value::Null | Value::Error | Value::List(_) | Value::Map(_) => None,
    }
}

/// The whole part of a number, if it fits.
fn exact_long(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&number).then_some(number as i64)
}

fn float(value: &Value<'_>) -> Option<f32> {
    match value {
        Value::Integer(number) => Some(*number as f32),
        Value::Long(number) => Some(*number as f32),
        Value::Float(number) => Some(*number),
        _ => cast_to_double(value).map(|number| number as f32),
    }
}

/// Any primitive as a DOUBLE: text as Java reads it, a BOOLEAN as 1 or 0, a TIMESTAMP as milliseconds; `None` for what
/// is no number then, and for null.
pub fn cast_to_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Boolean(truth) => Some(f64::from(u8::from(*truth))),
        Value::String(text) => java::parse_java_double(text),
        Value::Timestamp(micros) => Some(*micros as f64 / 1000.0),
        value => as_double(value),
    }
}

/// Java's `Number.longValue`: saturates, NaN is 0; `None` if the value is no number.
pub(super) fn java_long(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        Value::Float(number) => Some(*number as i64),
        Value::Double(number) => Some(*number as i64),
        _ => None,
    }
}

/// Java's `Number.intValue`: a LONG wraps, a DOUBLE saturates.
pub(super) fn java_integer(value: &Value<'_>) -> Option<i32> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Long(number) => Some(*number as i32),
        Value::Float(number) => Some(*number as i32),
        Value::Double(number) => Some(*number as i32),
        _ => None,
    }
}

/// A primitive as text, as Java prints it.
pub(super) fn text<'a>(value: Value<'a>, arena: &'a Bump) -> &'a str {
    if let Value::String(text) = value {
        return text;
    }
    let mut text = String::new();
    java::java_text(&value, &mut text);
    arena.alloc_str(&text)
}

fn timestamp(value: &Value<'_>, unit: TimeUnit) -> Option<i64> {
    match value {
        Value::Timestamp(micros) => Some(*micros),
        Value::String(text) => time::parse_rfc3339_micros(text),
        Value::Integer(_) | Value::Long(_) => {
            let number = java_long(value)?;
            match unit {
                TimeUnit::Second => number.checked_mul(1_000_000),
                TimeUnit::Millisecond => number.checked_mul(1000),
                TimeUnit::Microsecond => Some(number),
                TimeUnit::Nanosecond => Some(number.div_euclid(1000)),
            }
        }
        Value::Float(_) | Value::Double(_) => {
            let micros_per_unit = match unit {
                TimeUnit::Second => 1e6,
                TimeUnit::Millisecond => 1e3,
                TimeUnit::Microsecond => 1.0,
                TimeUnit::Nanosecond => 1e-3,
            };
            exact_long((as_double(value)? * micros_per_unit).floor())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use Dialect::{Bullet, Native};

    use super::*;

    fn check(value: Value<'_>, ty: Type, dialect: Dialect, expected: &str) {
        let arena = Bump::new();
        let got = format!("{:?}", cast(value, &ty, dialect, &arena));
        assert_eq!(got, expected, "CAST({value:?} AS {ty}) in {dialect:?}");
    }

    #[test]
    fn casts_to_whole_numbers() {
        for (value, bullet, native) in [
            (Value::String("5.7"), "Integer(5)", "Integer(5)"),
            (Value::String(" 3.9 "), "Integer(3)", "Integer(3)"),
            (Value::String("abc"), "Error", "Error"),
            (Value::String("NaN"), "Integer(0)", "Error"),
            (Value::Double(-1.9), "Integer(-1)", "Integer(-1)"),
            (Value::Double(1e10), "Integer(2147483647)", "Error"),
            (Value::Float(f32::NEG_INFINITY), "Integer(-2147483648)", "Error"),
            (Value::Long(4294967297), "Integer(1)", "Error"),
            (Value::Boolean(true), "Integer(1)", "Integer(1)"),
            (Value::List(&[]), "Error", "Error"),
        ] {
            check(value, Type::INTEGER, Bullet, bullet);
            check(value, Type::INTEGER, Native, native);
        }
        check(Value::String("9223372036854775807"), Type::LONG, Native, "Long(9223372036854775807)");
        check(Value::String("9007199254740993"), Type::LONG, Bullet, "Long(9007199254740992)");
        check(Value::Double(1e19), Type::LONG, Bullet, "Long(9223372036854775807)");
        check(Value::Double(1e19), Type::LONG, Native, "Error");
    }

    #[test]
    fn casts_to_other_types() {
        check(Value::Long(i64::MAX), Type::FLOAT, Bullet, "Float(9.223372e18)");
        check(Value::Boolean(true), Type::DOUBLE, Bullet, "Double(1.0)");
        check(Value::Double(1.0), Type::STRING, Bullet, "String(\"1.0\")");
        check(Value::Boolean(true), Type::STRING, Native, "String(\"true\")");
        check(Value::String("TRUE"), Type::BOOLEAN, Native, "Boolean(true)");
        check(Value::String("yes"), Type::BOOLEAN, Bullet, "Boolean(false)");
        check(Value::String("yes"), Type::BOOLEAN, Native, "Error");
        check(Value::Double(f64::NAN), Type::BOOLEAN, Bullet, "Boolean(true)");
        let millis = Type::Primitive(Primitive::Timestamp(TimeUnit::Millisecond));
        check(Value::Long(5), millis.clone(), Native, "Timestamp(5000)");
        check(Value::Long(i64::MAX), millis.clone(), Native, "Error");
        check(Value::String("1970-01-01T00:00:01Z"), millis, Native, "Timestamp(1000000)");
        check(Value::Timestamp(1_500_000), Type::STRING, Native, "String(\"1970-01-01T00:00:01.5Z\")");
        check(Value::Timestamp(-1), Type::LONG, Native, "Long(-1)");
    }

    #[test]
    fn containers_cast_element_by_element() {
        let items = [Value::String("1"), Value::Null];
        check(Value::List(&items), Type::List(Box::new(Type::LONG)), Native, "List([Long(1), Null])");
        let bad = [Value::String("x")];
        check(Value::List(&bad), Type::List(Box::new(Type::LONG)), Native, "Error");
    }
}
