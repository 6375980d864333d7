//! Encodes group keys as bytes in the order of their values, for a store that sorts its keys.
//!
//! ```text
//! value  := 00 null | 10 false | 11 true | 20 number | 30 text | 40 time | 50 other
//! number := f64 (01 i64 | 02)      a whole number: the nearest double and itself; any other number: the double
//! text   := bytes, a 00 in them as 00 FF, and at the end 00 01
//! time   := i64                    other := as text, the value as `group_key` encodes it
//! ```
//!
//! Numbers are big endian, with their bits transformed so that bytes compare as the numbers do. The order is that of
//! [`super::total_order`], except for lists and maps, which are only distinct. No value is a prefix of another, so the
//! first differing value orders keys of several values. The bytes of the first values of a key are a prefix of the key.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::{
    group_key::{decode_group_value, encode_group_value},
    order::Number,
};

const NULL: u8 = 0x00;
const FALSE: u8 = 0x10;
const TRUE: u8 = 0x11;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
const TIME: u8 = 0x40;
const OTHER: u8 = 0x50;

/// The first byte of each kind of values, in their order: nulls, truth values, numbers, texts, times, lists and maps. The first
/// byte of each value is not below that of its kind, and below that of the next one.
pub const ORDERED_KINDS: [u8; 6] = [NULL, FALSE, NUMBER, TEXT, TIME, OTHER];

const WHOLE: u8 = 1;
const DOUBLE: u8 = 2;

/// Appends one value of a native key.
pub fn encode_ordered_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Error => out.push(NULL),
        Value::Boolean(truth) => out.push(if *truth { TRUE } else { FALSE }),
        Value::String(text) => {
            out.push(TEXT);
            push_bytes(text.as_bytes(), out);
        }
        Value::Timestamp(micros) => {
            out.push(TIME);
            out.extend(ordered_whole(*micros));
        }
        Value::Integer(_) | Value::Long(_) | Value::Float(_) | Value::Double(_) => {
            let Some(number) = Number::of(value) else { return };
            out.push(NUMBER);
            match (number.as_whole(), number) {
                (Some(whole), _) | (None, Number::Whole(whole)) => {
                    out.extend(ordered_double(whole as f64));
                    out.push(WHOLE);
                    out.extend(ordered_whole(whole));
                }
                (None, Number::Double(double)) => {
                    out.extend(ordered_double(if double.is_nan() { f64::NAN } else { double }));
                    out.push(DOUBLE);
                }
            }
        }
        Value::List(_) | Value::Map(_) => {
            let mut bytes = Vec::new();
            encode_group_value(value, Dialect::Native, &mut bytes);
            out.push(OTHER);
            push_bytes(&bytes, out);
        }
    }
}

/// The first value of an encoded key, its text and containers in the arena, and the bytes behind it; none where the bytes
/// hold no value.
pub fn decode_ordered_value<'a, 'b>(bytes: &'b [u8], arena: &'a Bump) -> Option<(Value<'a>, &'b [u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    let value = match tag {
        NULL => Value::Null,
        FALSE => Value::Boolean(false),
        TRUE => Value::Boolean(true),
        NUMBER => {
            let double = u64::from_be_bytes(read_array(&mut rest)?);
            match read_array::<1>(&mut rest)? {
                [WHOLE] => Value::Long(whole_of(read_array(&mut rest)?)),
                [DOUBLE] => Value::Double(double_of(double)),
                _ => return None,
            }
        }
        TEXT => {
            let text = String::from_utf8(read_bytes(&mut rest)?).ok()?;
            Value::String(arena.alloc_str(&text))
        }
        TIME => Value::Timestamp(whole_of(read_array(&mut rest)?)),
        OTHER => decode_group_value(&read_bytes(&mut rest)?, arena).0,
        _ => return None,
    };
    Some((value, rest))
}

fn ordered_whole(whole: i64) -> [u8; 8] {
    (whole as u64 ^ 1 << 63).to_be_bytes()
}

fn whole_of(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

/// Negative numbers have all bits turned, others the sign's: bytes then compare as the numbers do, NaN last.
fn ordered_double(double: f64) -> [u8; 8] {
    let bits = (double + 0.0).to_bits();
    let turned = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    turned.to_be_bytes()
}

fn double_of(turned: u64) -> f64 {
    f64::from_bits(if turned >> 63 == 1 { turned & !(1 << 63) } else { !turned })
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 1]);
}

fn read_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match rest {
            [0, 0xff, after @ ..] => {
                bytes.push(0);
                *rest = after;
            }
            [0, 1, after @ ..] => {
                *rest = after;
                return Some(bytes);
            }
            [0, ..] | [] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                *rest = after;
            }
        }
    }
}

fn read_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr::{
        tests_support::{Owned, value},
        total_order,
    };

    fn key(value: &Value<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_ordered_value(value, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_that_doubles_cannot_tell_apart_keep_their_order() {
        let ascending = [
            Value::Double(f64::NEG_INFINITY),
            Value::Long(i64::MIN),
            Value::Long(i64::MIN + 1),
            Value::Double(-0.5),
            Value::Long(0),
            Value::Double(f64::MIN_POSITIVE),
            Value::Long((1 << 53) - 1),
            Value::Long(1 << 53),
            Value::Long((1 << 53) + 1),
            Value::Long(i64::MAX),
            Value::Double(9_223_372_036_854_775_808.0),
            Value::Double(f64::INFINITY),
            Value::Double(f64::NAN),
            Value::String(""),
        ];
        for pair in ascending.windows(2) {
            assert!(key(&pair[0]) < key(&pair[1]), "{pair:?}");
        }
        assert_eq!(key(&Value::Double(-0.0)), key(&Value::Integer(0)));
    }

    #[test]
    fn bytes_that_are_no_key() {
        let arena = Bump::new();
        for bytes in [&[][..], &[NUMBER, 1], &[TEXT, b'a'], &[TEXT, 0], &[TEXT, 0xff, 0, 1], &[99]] {
            assert!(decode_ordered_value(bytes, &arena).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_have_the_order_of_the_values(a in value(), b in value(), c in value(), d in value()) {
            let arena = Bump::new();
            let [a, b, c, d] = [a, b, c, d].map(|owned: Owned| owned.in_arena(&arena));
            let both = |first: &Value<'_>, second: &Value<'_>| [key(first), key(second)].concat();
            let expected = total_order(&a, &b).then(total_order(&c, &d));
            let is_container = |value: &Value<'_>| matches!(value, Value::List(_) | Value::Map(_));
            let got = both(&a, &c).cmp(&both(&b, &d));
            if [a, b, c, d].iter().any(is_container) {
                prop_assert_eq!(got.is_eq(), expected.is_eq());
            } else {
                prop_assert_eq!(got, expected);
            }
        }

        #[test]
        fn what_is_encoded_is_decoded(a in value(), b in value()) {
            let arena = Bump::new();
            let [a, b] = [a, b].map(|owned: Owned| owned.in_arena(&arena));
            let bytes = [key(&a), key(&b)].concat();
            let (first, rest) = decode_ordered_value(&bytes, &arena).expect("a value");
            let (second, rest) = decode_ordered_value(rest, &arena).expect("a value");
            prop_assert!(total_order(&first, &a).is_eq() && total_order(&second, &b).is_eq() && rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            decode_ordered_value(&bytes, &Bump::new());
        }
    }
}
