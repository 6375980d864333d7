//! Aggregate cells that are sketches: COUNT(DISTINCT …), quantiles and TOP, one sketch per group.

use swiftwater_event::Value;
use swiftwater_lang::Dialect;
use swiftwater_sketch::{Distinct, Frequent, Quantiles};

use super::group_input::{Combinations, NumericInput, PASSED_OVER, SelectedRows};
use crate::expr::{encode_group_value, java_text};

/// Bullet's separator between the texts of several values that are one.
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

/// Takes hashes into their groups' sketches; answers the bytes newly on the heap.
pub(crate) fn update_distinct(
    cells: &mut [Distinct],
    rows: SelectedRows<'_>,
    hashes: &[Option<u64>],
) -> isize {
    rows.fold(cells, Distinct::bytes, |cell, row| {
        if let Some(hash) = hashes[row] {
            cell.update_hash(hash);
        }
    })
}

/// Takes numbers into their groups' sketches; returns the number of values that were no numbers, and the new bytes on
/// the heap.
pub(crate) fn update_quantiles(
    cells: &mut [Quantiles],
    rows: SelectedRows<'_>,
    numbers: &[NumericInput],
) -> (u64, isize) {
    let mut mistyped = 0;
    let heap = rows.fold(cells, Quantiles::bytes, |cell, row| match numbers[row] {
        NumericInput::Is(number) => cell.update(number),
        NumericInput::Unusable => mistyped += 1,
        NumericInput::Nothing => {}
    });
    (mistyped, heap)
}

/// Takes combinations into their groups' sketches; answers the bytes newly on the heap.
pub(crate) fn update_frequent(
    cells: &mut [Frequent],
    rows: SelectedRows<'_>,
    combinations: &Combinations,
) -> isize {
    let update = |cell: &mut Frequent, place: u32, count: u64| {
        cell.update_counted(combinations.get(place), count);
    };
    let places = &combinations.place_of_row;
    if let [cell] = cells
        && combinations.places() < places.len() / 2
    {
        // Counted before they are looked for in the map, in the order in which they came first.
        let (mut counts, mut there) = (vec![0; combinations.places()], Vec::new());
        for (_, row) in rows.iter().filter(|(_, row)| places[*row] != PASSED_OVER) {
            let count: &mut u64 = &mut counts[places[row] as usize];
            if *count == 0 {
                there.push(places[row]);
            }
            *count += 1;
        }
        let before = cell.bytes() as isize;
        there.into_iter().for_each(|place| update(cell, place, counts[place as usize]));
        return cell.bytes() as isize - before;
    }
    rows.fold(cells, Frequent::bytes, |cell, row| {
        if places[row] != PASSED_OVER {
            update(cell, places[row], 1);
        }
    })
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
