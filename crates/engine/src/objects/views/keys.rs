//! Resolves the key, or the range of keys, that a reader writes to the keys of a view.
//!
//! A written value may have several meanings. A written key may therefore be several keys, and a bound may be several places
//! in the key order. A bound limits the keys of each kind that it may be, by its value as that kind. Keys of another kind
//! are before or after it, as they are relative to its first meaning. The keys of a range are therefore consecutive spans.
//! Knows nothing of a view's contents. Limits: [`MEANINGS_MAX`], [`KEY_MEANINGS_MAX`].

use std::ops::{Bound, Range};

use bumpalo::Bump;
use swiftwater_event::{Value, parse_value};
use swiftwater_live::{
    Key,
    expr::{ORDERED_KINDS, encode_ordered_value},
    parse_rfc3339_micros,
};

/// Maximum number of meanings of a bound of a range.
pub(super) const MEANINGS_MAX: usize = 64;

/// Maximum number of meanings of one written key: twelve numbers, each of which may be text.
pub(super) const KEY_MEANINGS_MAX: usize = 4096;

/// One value of a key as a reader writes it.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// Written text, whose meanings are tried in turn: a number, a truth value, null, a list or a map (JSON), a time
    /// (RFC 3339) or a number that is not finite (`NaN`, `Infinity`, `-Infinity`), text. In double quotes it is text.
    Written(String),
    /// A JSON value; a text may also be a time, or a number that is not finite, as these are written so. In a list or a map,
    /// either no text is read so, or each one that can be.
    Json(String),
    /// Null.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Whole(i64),
    /// A number that is no LONG.
    Double(f64),
    /// Text, or what is written as such in JSON.
    Text(String),
}

impl KeyValue {
    /// The possible meanings, the likeliest first; never empty.
    fn values<'a>(&'a self, arena: &'a Bump) -> Vec<Value<'a>> {
        match self {
            KeyValue::Null => vec![Value::Null],
            KeyValue::Boolean(truth) => vec![Value::Boolean(*truth)],
            KeyValue::Whole(whole) => vec![Value::Long(*whole)],
            KeyValue::Double(double) => vec![Value::Double(*double)],
            KeyValue::Text(text) => json_values(Value::String(text), arena),
            KeyValue::Json(json) => {
                let value = parse_value(json, arena).unwrap_or(Value::String(json));
                json_values(value, arena)
            }
            KeyValue::Written(text) => {
                let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                if let Some(text) = quoted {
                    return vec![Value::String(text)];
                }
                let number = match (text.parse::<i64>(), text.parse::<f64>()) {
                    (Ok(whole), _) => Some(Value::Long(whole)),
                    // Words like `inf` are no numbers that anybody means.
                    (_, Ok(double)) if text.ends_with(|c: char| c.is_ascii_digit()) => {
                        Some(Value::Double(double))
                    }
                    _ => None,
                };
                let word = match text.as_str() {
                    "true" => Some(Value::Boolean(true)),
                    "false" => Some(Value::Boolean(false)),
                    "null" => Some(Value::Null),
                    _ => None,
                };
                // A FLOAT is written with as many digits as tell it from other FLOATs.
                let float = match number {
                    Some(Value::Double(double)) => {
                        let float = f64::from(double as f32);
                        (float != double && float.is_finite()).then_some(Value::Double(float))
                    }
                    _ => None,
                };
                let mut values: Vec<Value<'a>> = number.or(word).into_iter().chain(float).collect();
                if text.starts_with(['[', '{'])
                    && let Some(container) = parse_value(text, arena)
                {
                    values.extend(json_values(container, arena));
                }
                values.extend(written_as_text(text));
                values.push(Value::String(text));
                values
            }
        }
    }
}

/// The possible meanings of a JSON value: itself, and with its texts read as what they spell.
fn json_values<'a>(value: Value<'a>, arena: &'a Bump) -> Vec<Value<'a>> {
    [Some(value), with_texts_read(value, arena)].into_iter().flatten().collect()
}

/// A value with its texts taken for what is written as text; none where there are none such in it.
fn with_texts_read<'a>(value: Value<'a>, arena: &'a Bump) -> Option<Value<'a>> {
    match value {
        Value::String(text) => written_as_text(text),
        Value::List(items) => {
            let read: Vec<_> = items.iter().map(|item| with_texts_read(*item, arena)).collect();
            read.iter().any(Option::is_some).then(|| {
                let items = items.iter().zip(&read).map(|(item, read)| read.unwrap_or(*item));
                Value::List(arena.alloc_slice_fill_iter(items))
            })
        }
        Value::Map(entries) => {
            let read: Vec<_> = entries.iter().map(|(_, value)| with_texts_read(*value, arena)).collect();
            read.iter().any(Option::is_some).then(|| {
                let entries =
                    entries.iter().zip(&read).map(|((key, value), read)| (*key, read.unwrap_or(*value)));
                Value::Map(arena.alloc_slice_fill_iter(entries))
            })
        }
        _ => None,
    }
}

/// The values other than text that are written as this text in JSON.
fn written_as_text(text: &str) -> Option<Value<'static>> {
    match text {
        "NaN" => Some(Value::Double(f64::NAN)),
        "Infinity" => Some(Value::Double(f64::INFINITY)),
        "-Infinity" => Some(Value::Double(f64::NEG_INFINITY)),
        _ => parse_rfc3339_micros(text).map(Value::Timestamp),
    }
}

/// The keys that written values may be, the likeliest first; none where they may be more than [`KEY_MEANINGS_MAX`].
pub(super) fn keys_of(values: &[KeyValue]) -> Option<Vec<Key>> {
    let arena = Bump::new();
    let mut all: Vec<Vec<Value<'_>>> = vec![Vec::new()];
    for value in values {
        let more = value.values(&arena);
        if all.len() * more.len() > KEY_MEANINGS_MAX {
            return None;
        }
        all = all
            .iter()
            .flat_map(|before| more.iter().map(move |value| [&before[..], &[*value]].concat()))
            .collect();
    }
    Some(all.iter().map(|values| Key::of(values)).collect())
}

/// Keys in order, as their bytes are: from the first on, before the second.
pub(super) type Span = Range<Vec<u8>>;

/// The end of all keys: no key begins so.
pub(super) const END: [u8; 1] = [0xff];

/// All keys.
pub(super) fn all_keys() -> Vec<Span> {
    vec![span((Bound::Unbounded, Bound::Unbounded))]
}

/// The keys between bounds.
pub(super) fn span((from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Span {
    // The least bytes that are greater.
    let behind = |key: &[u8]| [key, &[0]].concat();
    let start = match from {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => behind(key),
    };
    let end = match to {
        Bound::Unbounded => END.to_vec(),
        Bound::Included(key) => behind(key),
        Bound::Excluded(key) => key.to_vec(),
    };
    start..end
}

/// The keys from one on, or from the first values of one; none where it may be more than [`MEANINGS_MAX`].
pub(super) fn keys_from(values: &[KeyValue]) -> Option<Vec<Span>> {
    let mut spans = Vec::new();
    push_from(&encoded(values)?, &[], &mut spans);
    Some(spans)
}

/// The others.
pub(super) fn keys_before(values: &[KeyValue]) -> Option<Vec<Span>> {
    let from = keys_from(values)?;
    let starts = std::iter::once(Vec::new()).chain(from.iter().map(|span| span.end.clone()));
    let ends = from.iter().map(|span| span.start.clone()).chain(std::iter::once(END.to_vec()));
    Some(starts.zip(ends).map(|(start, end)| start..end).filter(|span| span.start < span.end).collect())
}

/// The keys that begin with all that these values may be.
pub(super) fn keys_within(values: &[KeyValue]) -> Option<Vec<Span>> {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for meanings in encoded(values)? {
        let more = |before: &Vec<u8>| -> Vec<Vec<u8>> {
            meanings.iter().map(|value| [&before[..], &value[..]].concat()).collect()
        };
        prefixes = prefixes.iter().flat_map(more).collect();
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    Some(prefixes.into_iter().map(|prefix| prefix.clone()..behind_prefix(&prefix)).collect())
}

/// The keys that are in a span of both, which are in order.
pub(super) fn keys_in_both(some: &[Span], others: &[Span]) -> Vec<Span> {
    let mut both = Vec::new();
    for one in some {
        for other in others {
            let start = std::cmp::max(&one.start, &other.start);
            let end = std::cmp::min(&one.end, &other.end);
            if start < end {
                both.push(start.clone()..end.clone());
            }
        }
    }
    both
}

/// True if a key is in one of these spans, which are in order.
pub(super) fn is_in(spans: &[Span], key: &[u8]) -> bool {
    let place = spans.partition_point(|span| span.end[..] <= *key);
    spans.get(place).is_some_and(|span| span.start[..] <= *key)
}

/// The values that each text may stand for, as keys have them; none where all together may be too much.
fn encoded(values: &[KeyValue]) -> Option<Vec<Vec<Vec<u8>>>> {
    let arena = Bump::new();
    let bytes = |value: &Value<'_>| {
        let mut bytes = Vec::new();
        encode_ordered_value(value, &mut bytes);
        bytes
    };
    let all: Vec<Vec<Vec<u8>>> =
        values.iter().map(|value| value.values(&arena).iter().map(bytes).collect()).collect();
    let count = all.iter().fold(1_usize, |count, meanings| count.saturating_mul(meanings.len()));
    (count <= MEANINGS_MAX).then_some(all)
}

/// Adds the keys that begin with `prefix` and then have these values or what lies behind them, in order.
fn push_from(values: &[Vec<Vec<u8>>], prefix: &[u8], spans: &mut Vec<Span>) {
    let end = behind_prefix(prefix);
    let Some((meanings, rest)) = values.split_first() else { return push(prefix.to_vec()..end, spans) };
    let likeliest = meanings.first().and_then(|value| kind_of(value));
    for (kind, &first) in ORDERED_KINDS.iter().enumerate() {
        let of_kind = match ORDERED_KINDS.get(kind + 1) {
            Some(&next) => [prefix, &[first]].concat()..[prefix, &[next]].concat(),
            None => [prefix, &[first]].concat()..end.clone(),
        };
        // Only a list or a map may be two of a kind, and these have no order that anybody knows.
        match meanings.iter().filter(|value| kind_of(value) == Some(kind)).min() {
            Some(value) => {
                let value = [prefix, &value[..]].concat();
                push_from(rest, &value, spans);
                push(behind_prefix(&value)..of_kind.end, spans);
            }
            None if Some(kind) > likeliest => push(of_kind, spans),
            None => {}
        }
    }
}

/// Adds a span behind others.
fn push(span: Span, spans: &mut Vec<Span>) {
    if span.start >= span.end {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.end == span.start => last.end = span.end,
        _ => spans.push(span),
    }
}

/// The kind of an encoded value, by its place in the order.
fn kind_of(value: &[u8]) -> Option<usize> {
    ORDERED_KINDS.iter().rposition(|first| value.first() >= Some(first))
}

/// The end of the keys that begin with these bytes.
pub(super) fn behind_prefix(prefix: &[u8]) -> Vec<u8> {
    after_prefix(prefix).unwrap_or_else(|| END.to_vec())
}

/// The least bytes that are greater than all that begin with these; none where there are none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use swiftwater_live::expr::total_order;

    use super::*;

    const WRITTEN: [&str; 13] = [
        "null",
        "true",
        "-Infinity",
        "-3",
        "5",
        "12",
        "12.5",
        "NaN",
        "\"12\"",
        "",
        "x",
        "2026-01-02T00:00:00Z",
        "[12]",
    ];

    const TIME: i64 = 1_767_312_000_000_000;

    /// Kinds and values around what is written.
    fn values() -> Vec<Value<'static>> {
        let texts = ["", "-3", "0", "12", "13", "2026-01-02T00:00:00Z", "5", "NaN", "[12]", "null", "x", "y"];
        let numbers = [f64::NEG_INFINITY, -4.0, -3.0, 5.0, 11.0, 12.0, 12.5, 13.0, f64::INFINITY, f64::NAN];
        let mut values = vec![Value::Null, Value::Boolean(false), Value::Boolean(true)];
        values.extend(numbers.map(Value::Double));
        values.extend(texts.map(Value::String));
        values.extend([TIME - 1, TIME, TIME + 1].map(Value::Timestamp));
        values.extend([Value::List(&[Value::Long(12)]), Value::List(&[]), Value::Map(&[])]);
        values
    }

    fn kind(value: &Value<'_>) -> Option<usize> {
        let mut bytes = Vec::new();
        encode_ordered_value(value, &mut bytes);
        kind_of(&bytes)
    }

    /// The way a key lies to a bound, value by value; the order of lists and maps is that of their bytes.
    fn compare(key: &[Value<'_>], bound: &[KeyValue]) -> Ordering {
        let arena = Bump::new();
        for (value, written) in key.iter().zip(bound) {
            let meanings = written.values(&arena);
            let order = match meanings.iter().find(|meaning| kind(meaning) == kind(value)) {
                Some(meaning @ (Value::List(_) | Value::Map(_))) => {
                    Key::of(&[*value]).ordered.cmp(&Key::of(&[*meaning]).ordered)
                }
                Some(meaning) => total_order(value, meaning),
                None => kind(value).cmp(&kind(&meanings[0])),
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    #[test]
    fn a_range_has_the_keys_that_its_bounds_say() {
        let written = |text: &str| KeyValue::Written(text.to_owned());
        let ones = WRITTEN.map(|text| vec![written(text)]);
        let twos = WRITTEN.iter().flat_map(|a| ["12", "x"].map(|b| vec![written(a), written(b)]));
        for bound in ones.into_iter().chain(twos) {
            let from = keys_from(&bound).unwrap();
            let before = keys_before(&bound).unwrap();
            let within = keys_within(&bound).unwrap();
            for spans in [&from, &before, &within] {
                let ends: Vec<&Vec<u8>> = spans.iter().flat_map(|span| [&span.start, &span.end]).collect();
                assert!(ends.is_sorted(), "{bound:?}");
            }
            for a in values() {
                for b in values() {
                    let key = Key::of(&[a, b]).ordered;
                    let order = compare(&[a, b], &bound);
                    assert_eq!(is_in(&from, &key), order.is_ge(), "{a:?} {b:?} from {bound:?}");
                    assert_eq!(is_in(&before, &key), order.is_lt(), "{a:?} {b:?} before {bound:?}");
                    let is_so = |(value, written): (&Value<'_>, &KeyValue)| {
                        let arena = Bump::new();
                        written.values(&arena).iter().any(|meaning| total_order(value, meaning).is_eq())
                    };
                    let expected = [a, b].iter().zip(&bound).all(is_so);
                    assert_eq!(is_in(&within, &key), expected, "{a:?} {b:?} within {bound:?}");
                }
            }
        }
    }

    #[test]
    fn what_has_one_meaning_is_one_span() {
        let bound = [KeyValue::Json("5".to_owned()), KeyValue::Json("\"x\"".to_owned())];
        for spans in [keys_from(&bound), keys_before(&bound), keys_within(&bound)] {
            assert_eq!(spans.unwrap().len(), 1);
        }
        assert_eq!(keys_from(&[]), Some(all_keys()));
        assert_eq!(keys_before(&[]), Some(Vec::new()));
        assert_eq!(keys_within(&[]), Some(all_keys()));
        let times = vec![KeyValue::Text("2026-01-02T00:00:00Z".to_owned()); 7];
        assert_eq!((keys_from(&times), keys_within(&times)), (None, None));
        assert!(keys_from(&times[1..]).is_some());
    }

    #[test]
    fn texts_in_json_are_texts_or_what_is_written_so() {
        let arena = Bump::new();
        let check = |json: &str, expected: &[Value<'_>]| {
            let json = KeyValue::Json(json.to_owned());
            let found = json.values(&arena);
            assert_eq!(found.len(), expected.len(), "{json:?}");
            let are_same = found.iter().zip(expected).all(|(a, b)| total_order(a, b).is_eq());
            assert!(are_same, "{json:?}: {found:?}");
        };
        let (nan, time) = (Value::Double(f64::NAN), Value::Timestamp(TIME));
        let text = "2026-01-02T00:00:00Z";
        check("5.0", &[Value::Long(5)]);
        check("\"5\"", &[Value::String("5")]);
        check("\"NaN\"", &[Value::String("NaN"), nan]);
        check(r#"["x",1]"#, &[Value::List(&[Value::String("x"), Value::Long(1)])]);
        check(
            r#"["x",{"a":["NaN"]}]"#,
            &[
                Value::List(&[
                    Value::String("x"),
                    Value::Map(&[("a", Value::List(&[Value::String("NaN")]))]),
                ]),
                Value::List(&[Value::String("x"), Value::Map(&[("a", Value::List(&[nan]))])]),
            ],
        );
        check(
            r#"{"at":"2026-01-02T00:00:00Z"}"#,
            &[Value::Map(&[("at", Value::String(text))]), Value::Map(&[("at", time)])],
        );
    }
}
