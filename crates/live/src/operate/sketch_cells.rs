//! Cells that are sketches: COUNT(DISTINCT …) and quantiles, one sketch per group.

use swiftwater_event::Value;
use swiftwater_lang::Dialect;
use swiftwater_sketch::{Distinct, Quantiles};

use super::cells::PASSED_OVER;
use crate::expr::{cast_to_double, encode_group_value, java_text};

/// What Bullet puts between the texts of several values that are one.
pub(crate) const SEPARATOR: char = '|';

/// Appends the bytes that a combination of values is known by: equal combinations have equal bytes. False where it is
/// none that counts.
///
/// Native: typed values, so 1 and '1' are two; with `nulls` nulls are values too. Bullet: text, so they are one, and
/// null is `null`; of lists and maps it has no text.
pub(crate) fn encode_combination(
    arguments: &[Vec<Value<'_>>],
    row: usize,
    dialect: Dialect,
    nulls: bool,
    out: &mut Vec<u8>,
) -> bool {
    if !dialect.keys_are_text() {
        for argument in arguments {
            let value = &argument[row];
            if !nulls && matches!(value, Value::Null | Value::Error) {
                return false;
            }
            encode_group_value(value, dialect, out);
        }
        return true;
    }
    for (place, argument) in arguments.iter().enumerate() {
        if place > 0 {
            out.push(SEPARATOR as u8);
        }
        match &argument[row] {
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            Value::List(_) | Value::Map(_) => return false,
            value => {
                let mut text = String::new();
                java_text(value, &mut text);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    true
}

/// Takes combinations into their groups' sketches; answers the bytes newly on the heap.
pub(crate) fn update_distinct(
    cells: &mut [Distinct],
    group_of_row: &[u32],
    arguments: &[Vec<Value<'_>>],
    dialect: Dialect,
) -> isize {
    let mut heap = 0;
    let mut bytes = Vec::new();
    for (row, &group) in group_of_row.iter().enumerate() {
        if group == PASSED_OVER {
            continue;
        }
        bytes.clear();
        let is_value = encode_combination(arguments, row, dialect, false, &mut bytes);
        // Bullet's sketch takes in no empty text.
        if is_value && !(bytes.is_empty() && dialect.keys_are_text()) {
            let cell = &mut cells[group as usize];
            let before = cell.bytes() as isize;
            cell.update(&bytes);
            heap += cell.bytes() as isize - before;
        }
    }
    heap
}

/// Takes numbers into their groups' sketches; answers how many values were no numbers, and the bytes newly on the heap.
pub(crate) fn update_quantiles(
    cells: &mut [Quantiles],
    group_of_row: &[u32],
    values: &[Value<'_>],
    dialect: Dialect,
) -> (u64, isize) {
    let mut mistyped = 0;
    let mut heap = 0;
    for (&group, value) in group_of_row.iter().zip(values) {
        if group == PASSED_OVER || matches!(value, Value::Null | Value::Error) {
            continue;
        }
        let number = match value {
            Value::Boolean(_) | Value::String(_) | Value::Timestamp(_)
                if !dialect.aggregates_are_double() =>
            {
                None
            }
            value => cast_to_double(value),
        };
        let Some(number) = number else {
            mistyped += 1;
            continue;
        };
        let cell = &mut cells[group as usize];
        let before = cell.bytes() as isize;
        cell.update(number);
        heap += cell.bytes() as isize - before;
    }
    (mistyped, heap)
}

/// Merges sketches into those of their groups; answers the bytes newly on the heap.
pub(crate) fn merge_sketches<T>(
    ours: &mut [T],
    theirs: &[T],
    group_of: &[u32],
    merge: impl Fn(&mut T, &T),
    bytes: impl Fn(&T) -> usize,
) -> isize {
    let mut heap = 0;
    for (&group, sketch) in group_of.iter().zip(theirs) {
        if group != PASSED_OVER {
            let cell = &mut ours[group as usize];
            let before = bytes(cell) as isize;
            merge(cell, sketch);
            heap += bytes(cell) as isize - before;
        }
    }
    heap
}
