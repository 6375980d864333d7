//! Writes cells in PostgreSQL's binary format (its source, `src/backend/utils/adt`: the `*_send` functions).
//!
//! Numbers are big-endian. Dates count from 2000-01-01. A numeric is a sequence of digits to the base 10,000. An array
//! has its number of dimensions, whether there are nulls, and the number of its elements' type. Its length and its
//! elements, each with its length, follow.

use arrow::array::Array;

use super::cells::{Cells, print};
use super::json::range;
use super::pg::{PgType, micros};
use super::scalar::{write_decimal, write_wide_decimal};

/// The days from 1970-01-01 to 2000-01-01.
const DAYS: i32 = 10_957;
const MICROS: i64 = 86_400_000_000 * DAYS as i64;

impl Cells {
    pub(super) fn write_pg_binary(&self, row: usize, ty: PgType, out: &mut Vec<u8>) -> bool {
        if self.is_null(row) {
            return false;
        }
        match self {
            Cells::Boolean(array) => out.push(u8::from(array.value(row))),
            Cells::Long(values, _) => match ty {
                PgType::Int2 | PgType::Int2Array => {
                    out.extend_from_slice(&(values[row] as i16).to_be_bytes())
                }
                PgType::Int4 | PgType::Int4Array => {
                    out.extend_from_slice(&(values[row] as i32).to_be_bytes())
                }
                _ => out.extend_from_slice(&values[row].to_be_bytes()),
            },
            Cells::UnsignedLong(values, _) => write_numeric(values[row].to_string().as_bytes(), out),
            Cells::Float(values, _) => out.extend_from_slice(&values[row].to_be_bytes()),
            Cells::Double(values, _) => out.extend_from_slice(&values[row].to_be_bytes()),
            Cells::Decimal(array, scale) => {
                let mut text = Vec::new();
                write_decimal(array.value(row), *scale, &mut text);
                write_numeric(&text, out);
            }
            Cells::WideDecimal(array) => {
                let mut text = Vec::new();
                write_wide_decimal(array, row, &mut text);
                write_numeric(&text, out);
            }
            Cells::Binary(array) => out.extend_from_slice(array.value(row)),
            Cells::Date(values, _) => {
                out.extend_from_slice(&values[row].saturating_sub(DAYS).to_be_bytes());
            }
            Cells::Time(values, _, unit) => out.extend_from_slice(&micros(values[row], *unit).to_be_bytes()),
            Cells::Timestamp(values, _, unit, _) => {
                let since = micros(values[row], *unit).saturating_sub(MICROS);
                out.extend_from_slice(&since.to_be_bytes());
            }
            Cells::List(offsets, _, items) => write_array(items, range(offsets, row), ty, out),
            Cells::Printed(array) if array.is_valid(row) => {
                out.extend_from_slice(print(array, row).as_bytes());
            }
            // A text's binary form is its text.
            _ => return self.write_plain(row, out),
        }
        true
    }
}

fn write_array(items: &Cells, range: std::ops::Range<usize>, ty: PgType, out: &mut Vec<u8>) {
    let element = ty.element().unwrap_or(PgType::Text);
    let has_nulls = range.clone().any(|item| items.is_null(item));
    let length = i32::try_from(range.len()).unwrap_or(i32::MAX);
    out.extend_from_slice(&i32::from(length > 0).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&element.oid().to_be_bytes());
    if length == 0 {
        return;
    }
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for item in range {
        let from = out.len();
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        if items.write_pg_binary(item, element, out) {
            let length = i32::try_from(out.len() - from - 4).unwrap_or(i32::MAX);
            out[from..from + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// A numeric from its decimal text, `-12.340`.
fn write_numeric(text: &[u8], out: &mut Vec<u8>) {
    let (sign, text) = match text.strip_prefix(b"-") {
        Some(text) => (0x4000_u16, text),
        None => (0, text),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    // Groups of four digits before and behind the point, filled up with zeros on the outside.
    let mut digits = Vec::with_capacity(text.len() / 4 + 2);
    let group = |part: &[u8], width: u32| {
        let value = part.iter().fold(0_i16, |value, digit| value * 10 + i16::from(digit - b'0'));
        value * 10_i16.pow(width)
    };
    let (first, rest) = whole.split_at(whole.len() % 4);
    if !first.is_empty() {
        digits.push(group(first, 0));
    }
    digits.extend(rest.chunks(4).map(|part| group(part, 0)));
    let mut weight = digits.len() as i16 - 1;
    digits.extend(fraction.chunks(4).map(|part| group(part, 4 - part.len() as u32)));
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    weight -= zeros as i16;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    out.extend_from_slice(&(digits.len() as i16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(fraction.len() as u16).to_be_bytes());
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Vec<i16> {
        let mut out = Vec::new();
        write_numeric(text.as_bytes(), &mut out);
        out.chunks(2).map(|two| i16::from_be_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn numerics_are_as_postgresql_sends_them() {
        // Number of digits, weight of the first, sign, digits behind the point; then the digits.
        assert_eq!(numeric("0"), [0, 0, 0, 0]);
        assert_eq!(numeric("0.00"), [0, 0, 0, 2]);
        assert_eq!(numeric("1"), [1, 0, 0, 0, 1]);
        assert_eq!(numeric("12340.5"), [3, 1, 0, 1, 1, 2340, 5000]);
        assert_eq!(numeric("-0.0005"), [1, -1, 0x4000, 4, 5]);
        assert_eq!(numeric("0.00005"), [1, -2, 0, 5, 5000]);
        assert_eq!(numeric("120000"), [1, 1, 0, 0, 12]);
    }
}
