//! Serializes the state of one group's aggregate, as a view stores it for a key.
//!
//! ```text
//! count    := varint
//! sum      := varint count, i128, form, varint n, varint 2 m + s, (n + m + s) f64
//!             the parts of the exact sum, those of the huge addends; s = 1, of older versions: the sum of the special ones
//! form     := byte 0 all were whole | 1 none was | byte 2 or 3, varint how many were not,
//!             varints how many were infinite, negatively so, and not numbers
//! least    := value                       greatest := value
//! chosen   := value, value, position      the chosen value, and the value that chose it (FIRST, LAST: null)
//! collected := varint 2 n + c, n (position, text), (c = 1) position
//!             values, of COLLECT_SET as group keys, of COLLECT_LIST as `value`; the first that was left out.
//!             Each event's number is less that of the position before
//! position := varint event, varint row
//! value    := 0 null | 1 false | 2 true | 3 i32 | 4 i64 | 5 f32 | 6 f64 | 7 text | 8 i64 time
//!           | 9 varint n, n value | 10 varint n, n (text, value)                       (list, map)
//! text     := varint n, n bytes           sketch := varint n, n bytes, the sketch's own form
//! ```
//!
//! Numbers are little endian. Values keep their type, so a deserialized state evaluates and merges as the original does.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_sketch::{Distinct, ExactSum, Quantiles, Specials};

use super::{Cells, OwnedValue, SumCell};

/// Flag in the form of a sum: the numbers of addends of each kind follow it.
const COUNTED: u8 = 2;

/// Maximum nesting of a value: beyond that of events.
const VALUE_DEPTH_MAX: usize = 600;

/// Bytes that are no state of these aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no state of these aggregates")]
pub struct InvalidState;

impl Cells {
    /// Appends a group's state.
    pub(crate) fn encode(&self, group: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Count(cells) => push_varint(cells[group], out),
            Cells::Sum(cells) | Cells::Average(cells) => cells[group].encode(out),
            Cells::Least(cells) | Cells::Greatest(cells) => {
                encode_value(&cells[group].get(&Bump::new()), out);
            }
            Cells::Distinct { cells, .. } => push_bytes(&cells[group].serialize(), out),
            Cells::Quantile { cells, .. } => push_bytes(&cells[group].serialize(), out),
            Cells::Ordered(cells) => cells.encode(group, out),
        }
    }

    /// Appends a cell with the state that `bytes` begin with.
    pub(crate) fn decode(&mut self, bytes: &mut &[u8]) -> Result<(), InvalidState> {
        match self {
            Cells::Count(cells) => cells.push(read_varint(bytes)?),
            Cells::Sum(cells) | Cells::Average(cells) => cells.push(SumCell::decode(bytes)?),
            Cells::Least(cells) | Cells::Greatest(cells) => {
                cells.push(OwnedValue::of(&decode_value(bytes, &Bump::new())?));
            }
            Cells::Distinct { cells, .. } => {
                cells.push(Distinct::deserialize(read_bytes(bytes)?).map_err(|_| InvalidState)?);
            }
            Cells::Quantile { cells, .. } => {
                cells.push(Quantiles::deserialize(read_bytes(bytes)?).map_err(|_| InvalidState)?);
            }
            Cells::Ordered(cells) => cells.decode(bytes)?,
        }
        Ok(())
    }

    /// Bytes of a group's cell on the heap.
    pub(crate) fn heap_bytes(&self, group: usize) -> usize {
        match self {
            Cells::Least(cells) | Cells::Greatest(cells) => cells[group].heap_bytes(),
            Cells::Distinct { cells, .. } => cells[group].bytes(),
            Cells::Quantile { cells, .. } => cells[group].bytes(),
            Cells::Ordered(cells) => cells.heap_bytes(group),
            Cells::Count(_) | Cells::Sum(_) | Cells::Average(_) => 0,
        }
    }
}

impl SumCell {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(self.count, out);
        out.extend(self.integers.to_le_bytes());
        let (parts, huge, specials) = self.doubles.parts();
        // Nearly all sums are plain, and store no counts.
        let is_plain = (self.fractions == 0 || self.fractions == self.count) && specials.count() == 0;
        out.push(u8::from(self.fractions > 0) | if is_plain { 0 } else { COUNTED });
        if !is_plain {
            let counts = [self.fractions, specials.infinite, specials.negative, specials.nan];
            counts.into_iter().for_each(|count| push_varint(count, out));
        }
        push_varint(parts.len() as u64, out);
        push_varint(2 * huge.len() as u64, out);
        for double in parts.iter().chain(huge) {
            out.extend(double.to_le_bytes());
        }
    }

    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<SumCell, InvalidState> {
        let count = read_varint(bytes)?;
        let integers = i128::from_le_bytes(read_array(bytes)?);
        let [form] = read_array::<1>(bytes)?;
        let mut fractions = if form & 1 == 1 { count } else { 0 };
        let mut specials = Specials::default();
        if form & COUNTED != 0 {
            fractions = read_varint(bytes)?;
            let mut next = || read_varint(bytes);
            specials = Specials { infinite: next()?, negative: next()?, nan: next()? };
        }
        let (parts, huge) = (read_varint(bytes)?, read_varint(bytes)?);
        let doubles = |count: u64, bytes: &mut &[u8]| -> Result<Vec<f64>, InvalidState> {
            (0..count).map(|_| read_array(bytes).map(f64::from_le_bytes)).collect()
        };
        let (parts, has_special) = (doubles(parts, bytes)?, huge % 2 == 1);
        let huge = doubles(huge / 2, bytes)?;
        if has_special {
            specials = ExactSum::specials_of(Some(f64::from_le_bytes(read_array(bytes)?)));
        }
        Ok(SumCell { count, integers, fractions, doubles: ExactSum::of_parts(&parts, &huge, specials) })
    }
}

/// Appends a value with its type.
pub(crate) fn encode_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match *value {
        Value::Null | Value::Error => out.push(0),
        Value::Boolean(truth) => out.push(1 + u8::from(truth)),
        Value::Integer(x) => push_tagged(3, &x.to_le_bytes(), out),
        Value::Long(x) => push_tagged(4, &x.to_le_bytes(), out),
        Value::Float(x) => push_tagged(5, &x.to_le_bytes(), out),
        Value::Double(x) => push_tagged(6, &x.to_le_bytes(), out),
        Value::Timestamp(x) => push_tagged(8, &x.to_le_bytes(), out),
        Value::String(text) => {
            out.push(7);
            push_bytes(text.as_bytes(), out);
        }
        Value::List(items) => {
            out.push(9);
            push_varint(items.len() as u64, out);
            items.iter().for_each(|item| encode_value(item, out));
        }
        Value::Map(entries) => {
            out.push(10);
            push_varint(entries.len() as u64, out);
            for (key, value) in entries {
                push_bytes(key.as_bytes(), out);
                encode_value(value, out);
            }
        }
    }
}

/// The value that `bytes` begin with, its text and parts in the arena.
pub(crate) fn decode_value<'a>(bytes: &mut &[u8], arena: &'a Bump) -> Result<Value<'a>, InvalidState> {
    decode_nested(bytes, arena, 0)
}

fn decode_nested<'a>(bytes: &mut &[u8], arena: &'a Bump, depth: usize) -> Result<Value<'a>, InvalidState> {
    if depth > VALUE_DEPTH_MAX {
        return Err(InvalidState);
    }
    let [tag] = read_array(bytes)?;
    Ok(match tag {
        0 => Value::Null,
        1 => Value::Boolean(false),
        2 => Value::Boolean(true),
        3 => Value::Integer(i32::from_le_bytes(read_array(bytes)?)),
        4 => Value::Long(i64::from_le_bytes(read_array(bytes)?)),
        5 => Value::Float(f32::from_le_bytes(read_array(bytes)?)),
        6 => Value::Double(f64::from_le_bytes(read_array(bytes)?)),
        7 => Value::String(read_text(bytes, arena)?),
        8 => Value::Timestamp(i64::from_le_bytes(read_array(bytes)?)),
        9 => {
            let mut items = bumpalo::collections::Vec::new_in(arena);
            for _ in 0..read_varint(bytes)? {
                items.push(decode_nested(bytes, arena, depth + 1)?);
            }
            Value::List(items.into_bump_slice())
        }
        10 => {
            let mut entries = bumpalo::collections::Vec::new_in(arena);
            for _ in 0..read_varint(bytes)? {
                let key = read_text(bytes, arena)?;
                entries.push((key, decode_nested(bytes, arena, depth + 1)?));
            }
            Value::Map(entries.into_bump_slice())
        }
        _ => return Err(InvalidState),
    })
}

fn read_text<'a>(bytes: &mut &[u8], arena: &'a Bump) -> Result<&'a str, InvalidState> {
    let text = std::str::from_utf8(read_bytes(bytes)?).map_err(|_| InvalidState)?;
    Ok(arena.alloc_str(text))
}

fn push_tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

pub(crate) fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn read_varint(bytes: &mut &[u8]) -> Result<u64, InvalidState> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = read_array(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(InvalidState)
}

pub(crate) fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(crate) fn read_bytes<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8], InvalidState> {
    let length = usize::try_from(read_varint(bytes)?).map_err(|_| InvalidState)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(InvalidState)?;
    *bytes = rest;
    Ok(taken)
}

pub(crate) fn read_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], InvalidState> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(InvalidState)?;
    *bytes = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::Dialect;

    use super::*;

    /// They told only whether some were not whole, and what the special ones came to.
    #[test]
    fn sums_of_older_versions_are_read() {
        for (special, expected) in [(None, 2.5), (Some(f64::INFINITY), f64::INFINITY)] {
            let mut state = vec![2];
            state.extend(2_i128.to_le_bytes());
            state.extend([1, 1, u8::from(special.is_some())]);
            state.extend(0.5_f64.to_le_bytes());
            special.iter().for_each(|special: &f64| state.extend(special.to_le_bytes()));
            let mut bytes = &state[..];
            let cell = SumCell::decode(&mut bytes).expect("a state");
            assert!(bytes.is_empty());
            assert!(matches!(cell.sum(Dialect::Native), Value::Double(sum) if sum == expected));
            let mut again = Vec::new();
            cell.encode(&mut again);
            let read = SumCell::decode(&mut &again[..]).expect("a state");
            assert!(matches!(read.sum(Dialect::Native), Value::Double(sum) if sum == expected));
        }
    }
}
