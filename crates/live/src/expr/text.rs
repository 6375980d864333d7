//! Evaluates functions on text.
//!
//! Positions and lengths are counted as the dialect counts: UTF-16 units in Bullet, characters in native. If Java would
//! cut a surrogate pair in two, the half becomes U+FFFD, because text here is always well formed.

use bumpalo::Bump;
use bumpalo::collections::String as BumpString;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::{cast, java};

/// Units of a text.
pub(super) fn length(text: &str, dialect: Dialect) -> usize {
    match dialect {
        _ if text.is_ascii() => text.len(),
        Dialect::Bullet => text.encode_utf16().count(),
        Dialect::Native => text.chars().count(),
    }
}

/// TRIM: characters up to U+0020, at both ends.
pub(super) fn trim(value: Value<'_>) -> Value<'_> {
    match value {
        Value::String(text) => Value::String(java::trim_java(text)),
        _ => Value::Error,
    }
}

/// LOWER.
pub(super) fn lower<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    match value {
        Value::String(text) if text.is_ascii() => {
            let copy = arena.alloc_str(text);
            copy.make_ascii_lowercase();
            Value::String(copy)
        }
        Value::String(text) => Value::String(arena.alloc_str(&text.to_lowercase())),
        _ => Value::Error,
    }
}

/// UPPER: full Unicode, so one character may become several.
pub(super) fn upper<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    match value {
        Value::String(text) if text.is_ascii() => {
            let copy = arena.alloc_str(text);
            copy.make_ascii_uppercase();
            Value::String(copy)
        }
        Value::String(text) => Value::String(arena.alloc_str(&text.to_uppercase())),
        _ => Value::Error,
    }
}

/// `a || b` (native): primitives, taken as text.
pub(super) fn concat<'a>(left: Value<'a>, right: Value<'a>, arena: &'a Bump) -> Value<'a> {
    if matches!(left, Value::List(_) | Value::Map(_)) || matches!(right, Value::List(_) | Value::Map(_)) {
        return Value::Error;
    }
    let (left, right) = (cast::text(left, arena), cast::text(right, arena));
    let mut joined = BumpString::with_capacity_in(left.len() + right.len(), arena);
    joined.push_str(left);
    joined.push_str(right);
    Value::String(joined.into_bump_str())
}

/// `SUBSTRING(text, start[, length])`: places from 1; a negative start counts from the end; a start of 0 or beyond
/// the text, and a length that is not positive, give the empty text; a length beyond the end is cut.
pub(super) fn substring<'a>(
    text: Value<'a>,
    start: Value<'a>,
    length: Option<Value<'a>>,
    dialect: Dialect,
    arena: &'a Bump,
) -> Value<'a> {
    let Value::String(text) = text else { return Value::Error };
    if text.is_empty() {
        return Value::String("");
    }
    let size = self::length(text, dialect) as i64;
    let (Some(start), Ok(length)) =
        (place(&start, dialect), length.map(|length| place(&length, dialect).ok_or(())).transpose())
    else {
        return Value::Error;
    };
    if start == 0 || (start.unsigned_abs() > size.unsigned_abs() && start != i64::from(i32::MIN)) {
        return Value::String("");
    }
    let begin = if start > 0 { start - 1 } else { size + start };
    let end = match length {
        None => size,
        Some(length) if length <= 0 => return Value::String(""),
        Some(length) => begin.saturating_add(length).min(size),
    };
    // Java's arithmetic is of 32 bits: where it overflows, its `substring` throws.
    let overflows =
        dialect == Dialect::Bullet && length.is_some_and(|length| begin + length > i64::from(i32::MAX));
    if begin < 0 || overflows {
        return if dialect == Dialect::Bullet { Value::Error } else { Value::String("") };
    }
    Value::String(cut(text, begin as usize, end as usize, dialect, arena))
}

fn place(value: &Value<'_>, dialect: Dialect) -> Option<i64> {
    match dialect {
        Dialect::Bullet => cast::java_integer(value).map(i64::from),
        Dialect::Native => cast::java_long(value),
    }
}

/// The units from `begin` to before `end`, both within the text.
fn cut<'a>(text: &'a str, begin: usize, end: usize, dialect: Dialect, arena: &'a Bump) -> &'a str {
    if text.is_ascii() {
        return text.get(begin..end).unwrap_or("");
    }
    if dialect == Dialect::Native {
        let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
        return text.get(byte(begin)..byte(end)).unwrap_or("");
    }
    let units = text.encode_utf16().skip(begin).take(end - begin);
    let mut kept = BumpString::new_in(arena);
    kept.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
    kept.into_bump_str()
}

#[cfg(test)]
mod tests {
    use Dialect::{Bullet, Native};
    use proptest::prelude::*;

    use super::*;

    fn part(text: &str, start: i32, length: Option<i32>, dialect: Dialect) -> String {
        let arena = Bump::new();
        match substring(
            Value::String(text),
            Value::Integer(start),
            length.map(Value::Integer),
            dialect,
            &arena,
        ) {
            Value::String(text) => text.to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn parts_of_text() {
        for (start, length, expected) in [
            (1, None, "hello"),
            (3, None, "llo"),
            (0, None, ""),
            (6, None, ""),
            (-2, None, "lo"),
            (-5, None, "hello"),
            (-6, None, ""),
            (2, Some(2), "el"),
            (2, Some(99), "ello"),
            (2, Some(0), ""),
            (2, Some(-1), ""),
        ] {
            for dialect in [Bullet, Native] {
                assert_eq!(part("hello", start, length, dialect), expected, "{start} {length:?}");
            }
        }
        assert_eq!(part("hello", 2, Some(i32::MAX), Bullet), "Error");
        assert_eq!(part("hello", 1, Some(i32::MAX), Bullet), "hello");
        assert_eq!(part("hello", i32::MIN, None, Bullet), "Error");
        assert_eq!(part("", 1, None, Bullet), "");
    }

    #[test]
    fn units_of_the_dialects() {
        assert_eq!(part("😀ab", 2, None, Native), "ab");
        assert_eq!(part("😀ab", 3, None, Bullet), "ab");
        assert_eq!(part("😀ab", 2, Some(2), Bullet), "\u{fffd}a");
        assert_eq!(length("😀é", Bullet), 3);
        assert_eq!(length("😀é", Native), 2);
    }

    #[test]
    fn letters() {
        let arena = Bump::new();
        let text = |value| format!("{value:?}");
        assert_eq!(text(upper(Value::String("straße"), &arena)), r#"String("STRASSE")"#);
        assert_eq!(text(lower(Value::String("ÀB"), &arena)), r#"String("àb")"#);
        assert_eq!(text(trim(Value::String("\t x\u{a0} "))), r#"String("x\u{a0}")"#);
        assert_eq!(text(trim(Value::Long(1))), "Error");
        assert_eq!(text(concat(Value::String("a"), Value::Double(1.0), &arena)), r#"String("a1.0")"#);
        assert_eq!(text(concat(Value::String("a"), Value::List(&[]), &arena)), "Error");
    }

    proptest! {
        #[test]
        fn any_cut_is_text(text in "\\PC{0,6}", start: i64, length: Option<i64>, small in -8i64..8) {
            let arena = Bump::new();
            for dialect in [Bullet, Native] {
                for start in [start, small] {
                    substring(Value::String(&text), Value::Long(start), length.map(Value::Long), dialect, &arena);
                    substring(Value::String(&text), Value::Long(start), Some(Value::Long(small)), dialect, &arena);
                }
            }
        }
    }
}
