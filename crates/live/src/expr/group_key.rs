//! Encodes values as group keys: equal keys have equal bytes.
//!
//! ```text
//! value  := null | false | true | whole | double | text | time | list | map        (one byte of tag each)
//! whole  := 3 i64      double := 4 f64      time := 6 i64                           (little endian)
//! text   := 5 length bytes
//! list   := 7 length value*
//! map    := 8 length (length bytes value)*                                         (by key)
//! length := u32, little endian
//! ```
//!
//! Native: a number that is whole and fits is a LONG whatever its type. -0.0 is 0, and all NaN are one value. Maps are
//! equal whatever the order of their keys. Bullet: the key is Java's text of the value, so null and 'null' are the same
//! key.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::java::java_text;
use super::order::{Number, sorted};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const WHOLE: u8 = 3;
const DOUBLE: u8 = 4;
const TEXT: u8 = 5;
const TIME: u8 = 6;
const LIST: u8 = 7;
const MAP: u8 = 8;

/// Maximum nesting of a decoded value: beyond that of events.
const DEPTH_MAX: usize = 600;

/// Appends one value of a group's key. Several may follow one another: none is the beginning of another.
pub fn encode_group_value(value: &Value<'_>, dialect: Dialect, out: &mut Vec<u8>) {
    if dialect.keys_are_text() {
        // Straight from the text where it is one; most keys are.
        if let Value::String(text) = value {
            return push_text(TEXT, text, out);
        }
        let mut text = String::new();
        java_text(value, &mut text);
        return push_text(TEXT, &text, out);
    }
    encode(value, out);
}

fn encode(value: &Value<'_>, out: &mut Vec<u8>) {
    if let Some(number) = Number::of(value) {
        return match (number.as_whole(), number) {
            (Some(whole), _) | (None, Number::Whole(whole)) => {
                out.push(WHOLE);
                out.extend(whole.to_le_bytes());
            }
            (None, Number::Double(double)) => {
                out.push(DOUBLE);
                out.extend(if double.is_nan() { f64::NAN } else { double }.to_le_bytes());
            }
        };
    }
    match value {
        Value::Boolean(truth) => out.push(if *truth { TRUE } else { FALSE }),
        Value::String(text) => push_text(TEXT, text, out),
        Value::Timestamp(micros) => {
            out.push(TIME);
            out.extend(micros.to_le_bytes());
        }
        Value::List(items) => {
            out.push(LIST);
            push_length(items.len(), out);
            for item in *items {
                encode(item, out);
            }
        }
        Value::Map(entries) => {
            out.push(MAP);
            push_length(entries.len(), out);
            for (key, item) in sorted(entries) {
                push_length(key.len(), out);
                out.extend(key.as_bytes());
                encode(item, out);
            }
        }
        _ => out.push(NULL),
    }
}

/// A whole number as a key has it.
pub(crate) fn encode_whole(number: i64, out: &mut [u8; 9]) {
    out[0] = WHOLE;
    out[1..].copy_from_slice(&number.to_le_bytes());
}

fn push_text(tag: u8, text: &str, out: &mut Vec<u8>) {
    out.push(tag);
    push_length(text.len(), out);
    out.extend(text.as_bytes());
}

/// Lengths are those of parts of one event, which is far shorter than 4 GiB.
fn push_length(length: usize, out: &mut Vec<u8>) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// The first value of an encoded key, its text and containers in the arena, and the bytes behind it. Bytes that hold no
/// value, which the encoding never makes, are a null and end the key.
pub fn decode_group_value<'a, 'b>(bytes: &'b [u8], arena: &'a Bump) -> (Value<'a>, &'b [u8]) {
    let mut rest = bytes;
    match decode(&mut rest, arena, 0) {
        Some(value) => (value, rest),
        None => (Value::Null, &[]),
    }
}

fn decode<'a>(bytes: &mut &[u8], arena: &'a Bump, depth: usize) -> Option<Value<'a>> {
    if depth > DEPTH_MAX {
        return None;
    }
    let (&tag, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match tag {
        NULL => Value::Null,
        FALSE => Value::Boolean(false),
        TRUE => Value::Boolean(true),
        WHOLE => Value::Long(i64::from_le_bytes(read_array(bytes)?)),
        DOUBLE => Value::Double(f64::from_le_bytes(read_array(bytes)?)),
        TIME => Value::Timestamp(i64::from_le_bytes(read_array(bytes)?)),
        TEXT => Value::String(read_text(bytes, arena)?),
        LIST => {
            let length = read_length(bytes)?;
            let mut items = bumpalo::collections::Vec::new_in(arena);
            for _ in 0..length {
                items.push(decode(bytes, arena, depth + 1)?);
            }
            Value::List(items.into_bump_slice())
        }
        MAP => {
            let length = read_length(bytes)?;
            let mut entries = bumpalo::collections::Vec::new_in(arena);
            for _ in 0..length {
                let key = read_text(bytes, arena)?;
                entries.push((key, decode(bytes, arena, depth + 1)?));
            }
            Value::Map(entries.into_bump_slice())
        }
        _ => return None,
    })
}

fn read_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(read_array(bytes)?) as usize)
}

fn read_text<'a>(bytes: &mut &[u8], arena: &'a Bump) -> Option<&'a str> {
    let length = read_length(bytes)?;
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    *bytes = &bytes[length..];
    Some(arena.alloc_str(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr::tests_support::{Owned, value};
    use crate::expr::total_order;

    fn key(value: &Value<'_>, dialect: Dialect) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_group_value(value, dialect, &mut bytes);
        bytes
    }

    #[test]
    fn equal_keys() {
        let (x, y) = (("x", Value::Long(1)), ("y", Value::Double(2.0)));
        let (one, other) = ([x, y], [("y", Value::Integer(2)), x]);
        let pairs = [
            (Value::Integer(1), Value::Double(1.0), true),
            (Value::Double(-0.0), Value::Long(0), true),
            (Value::Double(f64::NAN), Value::Float(-f32::NAN), true),
            (Value::Map(&one), Value::Map(&other), true),
            (Value::Long(i64::MAX), Value::Double(9_223_372_036_854_775_808.0), false),
            (Value::String("1"), Value::Long(1), false),
            (Value::Null, Value::String("null"), false),
            (Value::List(&[]), Value::Map(&[]), false),
        ];
        for (left, right, equal) in pairs {
            assert_eq!(
                key(&left, Dialect::Native) == key(&right, Dialect::Native),
                equal,
                "{left:?} {right:?}"
            );
        }
        assert_eq!(key(&Value::Null, Dialect::Bullet), key(&Value::String("null"), Dialect::Bullet));
        assert_eq!(key(&Value::Long(1), Dialect::Bullet), key(&Value::String("1"), Dialect::Bullet));
        assert_ne!(key(&Value::Long(1), Dialect::Bullet), key(&Value::Double(1.0), Dialect::Bullet));
    }

    #[test]
    fn bytes_that_are_no_key() {
        let arena = Bump::new();
        for bytes in [&[][..], &[WHOLE, 1], &[TEXT, 9, 0, 0, 0, b'a'], &[TEXT, 1, 0, 0, 0, 0xff], &[99]] {
            assert!(matches!(decode_group_value(bytes, &arena), (Value::Null, [])), "{bytes:?}");
        }
        let deep = [LIST, 1, 0, 0, 0].repeat(100_000);
        assert!(matches!(decode_group_value(&deep, &arena), (Value::Null, [])));
    }

    proptest! {
        #[test]
        fn keys_are_equal_where_the_order_says_so(a in value(), b in value()) {
            let arena = Bump::new();
            let [a, b] = [a, b].map(|owned: Owned| owned.in_arena(&arena));
            let are_equal = key(&a, Dialect::Native) == key(&b, Dialect::Native);
            prop_assert_eq!(are_equal, total_order(&a, &b).is_eq(), "{:?} {:?}", a, b);
        }

        #[test]
        fn what_is_encoded_is_decoded(a in value(), b in value()) {
            let arena = Bump::new();
            let [a, b] = [a, b].map(|owned: Owned| owned.in_arena(&arena));
            let mut bytes = key(&a, Dialect::Native);
            encode_group_value(&b, Dialect::Native, &mut bytes);
            let (first, rest) = decode_group_value(&bytes, &arena);
            let (second, rest) = decode_group_value(rest, &arena);
            prop_assert!(total_order(&first, &a).is_eq() && total_order(&second, &b).is_eq() && rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(0u8..10, 0..40)) {
            let arena = Bump::new();
            decode_group_value(&bytes, &arena);
        }
    }
}
