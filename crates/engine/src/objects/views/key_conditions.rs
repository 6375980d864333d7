//! Finds the spans of keys that may satisfy a statement's condition on a view's key columns.
//!
//! The condition on each value of a key becomes spans of that value in key order. The spans of keys are those of the first
//! value and, within each span of a single value, those of the second, and so on. A value of another kind than the literal's
//! may be shown as a value of the column's type (a time as text, text `NaN` as a number). Values of other kinds are
//! therefore never excluded, except null, which satisfies no comparison. The spans may include keys that do not satisfy the
//! condition, but never miss one that does.
//! Limits: [`SPANS_MAX`].

use std::collections::BTreeMap;

use swiftwater_event::Value;
use swiftwater_live::expr::{ORDERED_KINDS, decode_ordered_value, encode_ordered_value};
use swiftwater_sql::{KeyCondition, KeyLiteral};

use super::keys::{END, Span, all_keys, behind_prefix, keys_in_both};

/// Spans that are read one by one. If there are more, the key is narrowed by its earlier values only.
const SPANS_MAX: usize = 4096;

/// Bytes of an encoded number that determine the nearest double.
const DOUBLE_BYTES: usize = 9;

/// Bound below which each whole number has a double of its own.
const DOUBLE_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The values that a key may have in each of its places; all, where a place is not there.
type Places = BTreeMap<usize, Vec<Span>>;

/// Spans, in order, of the keys whose rows may satisfy a condition. `columns` is the column that shows each value of
/// the key.
pub(super) fn keys_satisfying(condition: &KeyCondition, columns: &[Option<usize>]) -> Vec<Span> {
    let mut places = places(condition, columns);
    let mut spans = Vec::new();
    // Beginnings of keys that are known, each with what lies within it still to be narrowed.
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    for place in 0..columns.len() {
        let Some(values) = places.remove(&place) else { break };
        if open.len().saturating_mul(values.len()) > SPANS_MAX {
            break;
        }
        let mut next = Vec::new();
        for prefix in &open {
            for value in &values {
                let start = [&prefix[..], &value.start].concat();
                match is_one_value(value) {
                    true => next.push(start),
                    false => spans.push(start..end_within(prefix, &value.end)),
                }
            }
        }
        open = next;
    }
    spans.extend(open.into_iter().map(|prefix| match prefix.is_empty() {
        true => all_keys().swap_remove(0),
        false => prefix.clone()..behind_prefix(&prefix),
    }));
    united(spans)
}

/// The end of a span of values within the keys that begin so.
fn end_within(prefix: &[u8], end: &[u8]) -> Vec<u8> {
    match end == END {
        true => behind_prefix(prefix),
        false => [prefix, end].concat(),
    }
}

/// True if a span of values has one value only, all of whose bytes are known.
fn is_one_value(span: &Span) -> bool {
    let arena = bumpalo::Bump::new();
    decode_ordered_value(&span.start, &arena).is_some_and(|(_, rest)| rest.is_empty())
        && behind_prefix(&span.start) == span.end
}

/// The spans that a condition leaves for each value of a key.
fn places(condition: &KeyCondition, columns: &[Option<usize>]) -> Places {
    let at = |column: &usize, values: Vec<Span>| -> Places {
        let place = columns.iter().position(|shown| shown.as_ref() == Some(column));
        place.map(|place| (place, values)).into_iter().collect()
    };
    match condition {
        KeyCondition::All(all) => {
            let mut both = Places::new();
            for condition in all {
                for (place, values) in places(condition, columns) {
                    let narrowed = match both.get(&place) {
                        Some(others) => intersection(others, &values),
                        None => values,
                    };
                    both.insert(place, narrowed);
                }
            }
            both
        }
        KeyCondition::Any(any) => {
            let each = any.iter().map(|condition| places(condition, columns));
            // A place that one of them does not mention may have any value.
            let either = each.reduce(|some, mut others| {
                let both = some.into_iter().filter_map(|(place, mut values)| {
                    values.append(&mut others.remove(&place)?);
                    Some((place, united(values)))
                });
                both.collect()
            });
            either.unwrap_or_default()
        }
        KeyCondition::Null(column) => {
            let null = encoded(&Value::Null);
            at(column, vec![null.clone()..behind_prefix(&null)])
        }
        KeyCondition::In(column, literals) => {
            let kinds = literals.iter().map(kind_of).collect::<Option<Vec<_>>>();
            let Some(kinds) = kinds else { return Places::new() };
            let mut values = literals.iter().map(|literal| first_of(literal)..end_of(literal)).collect();
            if let Some(&kind) = kinds.first() {
                add_other_kinds(kind, &mut values);
            }
            at(column, united(values))
        }
        KeyCondition::Within(column, from, to) => {
            let Some(kind) = from.as_ref().or(to.as_ref()).and_then(kind_of) else { return Places::new() };
            let whole = span_of_kind(kind);
            let start = from.as_ref().map_or(whole.start, first_of);
            let end = to.as_ref().map_or(whole.end, end_of);
            let mut values = vec![start..end];
            add_other_kinds(kind, &mut values);
            at(column, united(values))
        }
        KeyCondition::Begins(column, text) => {
            let mut start = encoded(&Value::String(text));
            // The two bytes at the end are removed.
            start.truncate(start.len() - 2);
            let end = behind_prefix(&start);
            let Some(kind) = kind_of(&KeyLiteral::Text(text.clone())) else { return Places::new() };
            let mut values = vec![start..end];
            add_other_kinds(kind, &mut values);
            at(column, united(values))
        }
    }
}

fn encoded(value: &Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_ordered_value(value, &mut bytes);
    bytes
}

fn value_of(literal: &KeyLiteral) -> Value<'_> {
    match literal {
        KeyLiteral::Boolean(truth) => Value::Boolean(*truth),
        KeyLiteral::Whole(whole) => Value::Long(*whole),
        KeyLiteral::Double(double) => Value::Double(*double),
        KeyLiteral::Text(text) => Value::String(text),
        KeyLiteral::Time(micros) => Value::Timestamp(*micros),
    }
}

/// The bytes with which the values begin that a literal is equal to.
fn first_of(literal: &KeyLiteral) -> Vec<u8> {
    let mut bytes = encoded(&value_of(literal));
    if let KeyLiteral::Double(double) = literal
        && double.abs() >= DOUBLE_EXACT_MAX
    {
        // Several whole numbers are shown as this double.
        bytes.truncate(DOUBLE_BYTES);
    }
    bytes
}

/// The end of these values.
fn end_of(literal: &KeyLiteral) -> Vec<u8> {
    behind_prefix(&first_of(literal))
}

/// The place in the order of kinds of what a literal is.
fn kind_of(literal: &KeyLiteral) -> Option<usize> {
    let first = *first_of(literal).first()?;
    ORDERED_KINDS.iter().rposition(|kind| *kind <= first)
}

fn span_of_kind(kind: usize) -> Span {
    let end = ORDERED_KINDS.get(kind + 1).map_or_else(|| END.to_vec(), |next| vec![*next]);
    vec![ORDERED_KINDS[kind]]..end
}

/// Adds the values of all kinds but this and null.
fn add_other_kinds(kind: usize, values: &mut Vec<Span>) {
    values.extend((1..ORDERED_KINDS.len()).filter(|other| *other != kind).map(span_of_kind));
}

/// The same values as spans that are in order and apart.
fn united(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.start < span.end);
    spans.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    let mut united: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match united.last_mut() {
            // Spans that only touch stay apart: each may be one value.
            Some(last) if span.start < last.end => {
                if last.end < span.end {
                    last.end = span.end;
                }
            }
            _ => united.push(span),
        }
    }
    united
}

/// The spans that are in both, which are in order and apart.
fn intersection(some: &[Span], others: &[Span]) -> Vec<Span> {
    match some.len().saturating_mul(others.len()) > SPANS_MAX * SPANS_MAX {
        // Either has all that are in both.
        true => if some.len() < others.len() { some } else { others }.to_vec(),
        false => keys_in_both(some, others),
    }
}
