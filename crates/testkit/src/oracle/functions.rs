//! The oracle's scalar functions, one value at a time. A result that does not exist is null; callers answer null operands
//! before they call these functions.

use regex::Regex;
use swiftwater_event::{Primitive, Type};

use super::value::{Value, compare, long_of};

/// Three-valued truth: `None` is neither.
pub(crate) type Truth = Option<bool>;

/// A value as a condition.
pub(crate) fn truth(value: &Value) -> Truth {
    match value {
        Value::Boolean(truth) => Some(*truth),
        Value::Long(number) => Some(*number != 0),
        Value::Float(number) => Some(*number != 0.0),
        Value::Double(number) => Some(*number != 0.0),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        Value::Null | Value::String(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// `left + right` and its like; `whole` is LONG's operator, `broken` that of FLOAT and DOUBLE.
pub(crate) fn arithmetic(
    left: &Value,
    right: &Value,
    whole: fn(i64, i64) -> Option<i64>,
    broken: fn(f64, f64) -> Option<f64>,
) -> Value {
    match (left, right) {
        (Value::Long(a), Value::Long(b)) => whole(*a, *b).map_or(Value::Null, Value::Long),
        (Value::Float(_), Value::Float(_) | Value::Long(_)) | (Value::Long(_), Value::Float(_)) => {
            // One operation on two FLOATs rounds to the same FLOAT by way of DOUBLE.
            let float = |value: &Value| match value {
                Value::Long(number) => Some(*number as f32),
                other => other.double().map(|number| number as f32),
            };
            let (Some(a), Some(b)) = (float(left), float(right)) else { return Value::Null };
            broken(f64::from(a), f64::from(b)).map_or(Value::Null, |result| Value::Float(result as f32))
        }
        _ => match (left.double(), right.double()) {
            (Some(a), Some(b)) => broken(a, b).map_or(Value::Null, Value::Double),
            _ => Value::Null,
        },
    }
}

/// `text RLIKE pattern`: the whole text.
pub(crate) fn matches(text: &Value, pattern: &Value) -> Truth {
    let (Value::String(text), Value::String(pattern)) = (text, pattern) else { return None };
    Regex::new(&format!("^(?:{pattern})$")).ok().map(|regex| regex.is_match(text))
}

/// `text LIKE pattern`: `%` is any text, `_` any character.
pub(crate) fn is_like(text: &Value, pattern: &Value) -> Truth {
    fn like(text: &[char], pattern: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['%', rest @ ..], _) => (0..=text.len()).any(|skipped| like(&text[skipped..], rest)),
            (['_', pattern @ ..], [_, text @ ..]) => like(text, pattern),
            ([wanted, pattern @ ..], [found, text @ ..]) => wanted == found && like(text, pattern),
            (_, []) => false,
        }
    }
    let (Value::String(text), Value::String(pattern)) = (text, pattern) else { return None };
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    Some(like(&text, &pattern))
}

/// Kleene's OR of what a condition says of each element.
pub(crate) fn any(conditions: impl IntoIterator<Item = Truth>) -> Truth {
    let conditions: Vec<Truth> = conditions.into_iter().collect();
    if conditions.contains(&Some(true)) {
        Some(true)
    } else if conditions.contains(&None) {
        None
    } else {
        Some(false)
    }
}

/// Kleene's AND.
pub(crate) fn all(conditions: impl IntoIterator<Item = Truth>) -> Truth {
    any(conditions.into_iter().map(|truth| truth.map(|truth| !truth))).map(|truth| !truth)
}

/// Returns true if a list or map contains a value that equals `wanted`; within maps, their values are searched.
pub(crate) fn contains_value(container: &Value, wanted: &Value) -> Truth {
    let parts: Vec<&Value> = match container {
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
        _ => return None,
    };
    let equal = |value: &Value| compare(wanted, value).map(std::cmp::Ordering::is_eq);
    any(parts.into_iter().flat_map(|part| match part {
        Value::Map(entries) => entries.iter().map(|(_, value)| equal(value)).collect(),
        value => vec![equal(value)],
    }))
}

/// Returns true if a map, a map within a map, or a map of a list has a key.
pub(crate) fn contains_key(container: &Value, key: &Value) -> Truth {
    let Value::String(key) = key else { return None };
    let has = |entries: &[(String, Value)]| entries.iter().any(|(name, _)| name == key);
    match container {
        Value::Map(entries) if has(entries) => Some(true),
        Value::Map(entries) if entries.iter().any(|(_, value)| matches!(value, Value::Map(_))) => {
            any(entries.iter().map(|(_, value)| match value {
                Value::Map(inner) => Some(has(inner)),
                Value::Null => None,
                _ => Some(false),
            }))
        }
        Value::Map(_) => Some(false),
        Value::List(items) => any(items.iter().map(|item| match item {
            Value::Map(entries) => Some(has(entries)),
            _ => None,
        })),
        _ => None,
    }
}

/// Elements of a container, characters of a text.
pub(crate) fn size(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::Long(text.chars().count() as i64),
        Value::List(items) => Value::Long(items.len() as i64),
        Value::Map(entries) => Value::Long(entries.len() as i64),
        _ => Value::Null,
    }
}

/// `base[index]`, `base[key]`.
pub(crate) fn element(base: &Value, index: &Value) -> Value {
    let found = match (base, index) {
        (Value::List(items), Value::Long(index)) => {
            usize::try_from(*index).ok().and_then(|index| items.get(index))
        }
        (Value::Map(entries), Value::String(key)) => {
            entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
        }
        _ => None,
    };
    found.cloned().unwrap_or(Value::Null)
}

/// The elements beside a true flag; null where there are fewer flags than elements.
pub(crate) fn filter(list: &Value, flags: &Value) -> Value {
    let (Value::List(items), Value::List(flags)) = (list, flags) else { return Value::Null };
    if flags.len() < items.len() {
        return Value::Null;
    }
    let kept = items.iter().zip(flags).filter(|(_, flag)| **flag == Value::Boolean(true));
    Value::List(kept.map(|(item, _)| item.clone()).collect())
}

pub(crate) fn absolute(value: &Value) -> Value {
    match value {
        Value::Long(number) => number.checked_abs().map_or(Value::Null, Value::Long),
        Value::Float(number) => Value::Float(number.abs()),
        Value::Double(number) => Value::Double(number.abs()),
        _ => Value::Null,
    }
}

/// Java's `hashCode`.
pub(crate) fn hash(value: &Value) -> i32 {
    let folded = |bits: u64| (bits ^ (bits >> 32)) as u32 as i32;
    let of_text = |text: &str| {
        text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
    };
    match value {
        Value::Null => 0,
        Value::Boolean(truth) => {
            if *truth {
                1231
            } else {
                1237
            }
        }
        Value::Long(number) => folded(*number as u64),
        Value::Float(number) => number.to_bits() as i32,
        Value::Double(number) => folded(number.to_bits()),
        Value::String(text) => of_text(text),
        Value::List(items) => {
            items.iter().fold(1_i32, |sum, item| sum.wrapping_mul(31).wrapping_add(hash(item)))
        }
        Value::Map(entries) => {
            entries.iter().fold(0_i32, |sum, (key, item)| sum.wrapping_add(of_text(key) ^ hash(item)))
        }
    }
}

/// A function from text to text.
pub(crate) fn on_text(value: &Value, function: impl Fn(&str) -> String) -> Value {
    if let Value::String(text) = value { Value::String(function(text)) } else { Value::Null }
}

/// The text without characters up to U+0020 at its ends.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// `SUBSTRING(text, start[, length])`: characters, counted from 1; a negative start counts from the end.
pub(crate) fn substring(text: &Value, start: &Value, length: Option<&Value>) -> Value {
    let Value::String(text) = text else { return Value::Null };
    let place = |value: &Value| match value {
        Value::Long(number) => Some(i128::from(*number)),
        other => other.double().map(|number| i128::from(number as i64)),
    };
    let Some(start) = place(start) else { return Value::Null };
    let Some(length) = length.map_or(Some(i128::MAX), place) else { return Value::Null };
    let size = text.chars().count() as i128;
    if start == 0 || start.abs() > size || length <= 0 {
        return Value::String(String::new());
    }
    let begin = if start > 0 { start - 1 } else { size + start };
    Value::String(text.chars().skip(begin as usize).take(length.min(size) as usize).collect())
}

/// A primitive as text, doubles as Java prints them; `None` for a container.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::Long(number) => Some(number.to_string()),
        Value::Float(number) => Some(java_number(&format!("{number:e}"))),
        Value::Double(number) => Some(java_number(&format!("{number:e}"))),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// `1.5e-7` (Rust's shortest digits) as Java writes it: plain from 10⁻³ to below 10⁷, else `1.5E-7`; always with a point.
fn java_number(scientific: &str) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific.replace("inf", "Infinity");
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    if digits == "0" {
        return format!("{sign}0.0");
    }
    let (whole, fraction) = match exponent {
        0..7 => {
            let digits = format!("{digits:0<width$}", width = exponent as usize + 2);
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            (whole.to_owned(), fraction.to_owned())
        }
        -3..0 => ("0".to_owned(), format!("{}{digits}", "0".repeat((-exponent - 1) as usize))),
        _ => {
            let (whole, fraction) = digits.split_at(1);
            let fraction = if fraction.is_empty() { "0" } else { fraction };
            return format!("{sign}{whole}.{fraction}E{exponent}");
        }
    };
    format!("{sign}{whole}.{fraction}")
}

/// `CAST(value AS ty)`: a number that does not fit, and text that says no such thing, are null.
pub(crate) fn cast(value: &Value, ty: &Type) -> Value {
    let cast = match (ty, value) {
        (Type::Any, _) => Some(value.clone()),
        (_, Value::Null) | (Type::Primitive(_), Value::List(_) | Value::Map(_)) => None,
        (Type::Primitive(Primitive::Boolean), _) => truth(value).map(Value::Boolean),
        (Type::Primitive(Primitive::Integer), _) => {
            long(value).filter(|number| i32::try_from(*number).is_ok()).map(Value::Long)
        }
        (Type::Primitive(Primitive::Long), _) => long(value).map(Value::Long),
        (Type::Primitive(Primitive::Float), Value::Long(number)) => Some(Value::Float(*number as f32)),
        (Type::Primitive(Primitive::Float), _) => double(value).map(|number| Value::Float(number as f32)),
        (Type::Primitive(Primitive::Double), _) => double(value).map(Value::Double),
        (Type::Primitive(Primitive::String), _) => text(value).map(Value::String),
        _ => None,
    };
    cast.unwrap_or(Value::Null)
}

fn long(value: &Value) -> Option<i64> {
    match value {
        Value::Boolean(truth) => Some(i64::from(*truth)),
        Value::Long(number) => Some(*number),
        Value::String(text) => trimmed(text).parse().ok().or_else(|| long_of(parsed_double(text)?)),
        _ => long_of(value.double()?),
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Boolean(truth) => Some(if *truth { 1.0 } else { 0.0 }),
        Value::String(text) => parsed_double(text),
        _ => value.double(),
    }
}

/// Parses a double as Java does: with a letter for its type at the end, perhaps; NaN and Infinity in this spelling
/// only.
fn parsed_double(text: &str) -> Option<f64> {
    let text = trimmed(text);
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned == "NaN" || unsigned == "Infinity" {
        return text.parse().ok();
    }
    let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    if number.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E')) {
        number.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_java_prints_them() {
        let printed = |number: f64| text(&Value::Double(number)).unwrap();
        for (number, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (100.0, "100.0"),
            (1234567.0, "1234567.0"),
            (12345678.0, "1.2345678E7"),
            (1e10, "1.0E10"),
            (0.001, "0.001"),
            (0.00123, "0.00123"),
            (0.0001, "1.0E-4"),
            (-2.5e-7, "-2.5E-7"),
            (1.25, "1.25"),
        ] {
            assert_eq!(printed(number), expected);
        }
        assert_eq!(text(&Value::Float(0.1)).unwrap(), "0.1");
    }

    #[test]
    fn casts() {
        let from = |text: &str, ty| cast(&Value::String(text.to_owned()), &ty);
        assert_eq!(from("5.7", Type::LONG), Value::Long(5));
        assert_eq!(from(" 9007199254740993 ", Type::LONG), Value::Long(9_007_199_254_740_993));
        assert_eq!(from("x", Type::LONG), Value::Null);
        assert_eq!(from("1e3f", Type::DOUBLE), Value::Double(1000.0));
        assert_eq!(from("inf", Type::DOUBLE), Value::Null);
        assert_eq!(from("TRUE", Type::BOOLEAN), Value::Boolean(true));
        assert_eq!(from("yes", Type::BOOLEAN), Value::Null);
        assert_eq!(cast(&Value::Double(1e19), &Type::LONG), Value::Null);
        assert_eq!(cast(&Value::Double(-1.9), &Type::INTEGER), Value::Long(-1));
        assert_eq!(cast(&Value::Long(3_000_000_000), &Type::INTEGER), Value::Null);
    }

    #[test]
    fn parts_of_text() {
        let part = |start, length: Option<i64>| {
            let length = length.map(Value::Long);
            substring(&Value::String("héllo".to_owned()), &Value::Long(start), length.as_ref())
        };
        for (start, length, expected) in [
            (1, None, "héllo"),
            (2, Some(2), "él"),
            (-2, None, "lo"),
            (-6, None, ""),
            (0, None, ""),
            (6, None, ""),
            (2, Some(-1), ""),
            (4, Some(99), "lo"),
        ] {
            assert_eq!(part(start, length), Value::String(expected.to_owned()), "{start} {length:?}");
        }
    }

    #[test]
    fn like_matches_the_whole_text() {
        let like = |text: &str, pattern: &str| {
            is_like(&Value::String(text.to_owned()), &Value::String(pattern.to_owned()))
        };
        assert_eq!(like("hello", "h%o"), Some(true));
        assert_eq!(like("hello", "h_o"), Some(false));
        assert_eq!(like("é😀", "__"), Some(true));
        assert_eq!(like("", "%"), Some(true));
        assert_eq!(like("ab", "a"), Some(false));
    }
}
