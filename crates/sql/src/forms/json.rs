//! Writes rows as JSON objects: in one array, or one object a line.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use super::cells::{Cells, Kind, print};
use super::scalar::{
    append_fmt, double_name, write_base64, write_date, write_decimal, write_double, write_float, write_time,
    write_timestamp, write_wide_decimal,
};
use crate::SqlError;

/// Nesting of values beyond which they are null.
const NESTING_MAX: usize = 64;

pub(crate) struct JsonWriter {
    /// `"name":`, as each row begins it.
    names: Vec<Vec<u8>>,
    is_array: bool,
    /// Local times are written as instants in UTC.
    local_is_utc: bool,
    has_rows: bool,
}

impl JsonWriter {
    pub(crate) fn array(schema: &SchemaRef) -> JsonWriter {
        JsonWriter { names: names(schema), is_array: true, local_is_utc: false, has_rows: false }
    }

    pub(crate) fn lines(schema: &SchemaRef) -> JsonWriter {
        JsonWriter { names: names(schema), is_array: false, local_is_utc: false, has_rows: false }
    }

    /// Rows that become events: a time without a zone is one in UTC there.
    pub(crate) fn events(schema: &SchemaRef) -> JsonWriter {
        JsonWriter { local_is_utc: true, ..JsonWriter::lines(schema) }
    }

    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        if self.is_array {
            out.push(b'[');
        }
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let mut columns = batch.columns().iter().map(Cells::new).collect::<Result<Vec<_>, SqlError>>()?;
        if self.local_is_utc {
            columns.iter_mut().for_each(Cells::take_local_for_utc);
        }
        for row in 0..batch.num_rows() {
            if self.is_array && self.has_rows {
                out.extend_from_slice(b",\n");
            }
            self.has_rows = true;
            out.push(b'{');
            for (index, (name, column)) in self.names.iter().zip(&columns).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name);
                column.write_json(row, 0, out);
            }
            out.push(b'}');
            if !self.is_array {
                out.push(b'\n');
            }
        }
        Ok(())
    }

    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        if self.is_array {
            out.extend_from_slice(b"]\n");
        }
    }
}

fn names(schema: &SchemaRef) -> Vec<Vec<u8>> {
    let name = |name: &str| {
        let mut text = Vec::new();
        write_text(name, &mut text);
        text.push(b':');
        text
    };
    schema.fields().iter().map(|field| name(field.name())).collect()
}

/// A text in quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..0x20 => b"",
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..at]);
        if escape.is_empty() {
            append_fmt(out, format_args!("\\u{byte:04x}"));
        } else {
            out.extend_from_slice(escape);
        }
        from = at + 1;
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

impl Cells {
    /// A cell as a JSON value.
    pub(crate) fn write_json(&self, row: usize, depth: usize, out: &mut Vec<u8>) {
        if depth > NESTING_MAX || self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            Cells::Null => out.extend_from_slice(b"null"),
            Cells::Boolean(_) | Cells::Long(_, _) | Cells::UnsignedLong(_, _) | Cells::Decimal(_, _) => {
                self.write_number(row, out);
            }
            Cells::WideDecimal(_) => self.write_number(row, out),
            Cells::Float(values, _) => match double_name(f64::from(values[row])) {
                Some(name) => write_text(name, out),
                None => write_float(values[row], out),
            },
            Cells::Double(values, _) => match double_name(values[row]) {
                Some(name) => write_text(name, out),
                None => write_double(values[row], out),
            },
            Cells::Text(_) | Cells::LargeText(_) | Cells::TextView(_) => {
                write_text(self.text(row).unwrap_or_default(), out);
            }
            Cells::Binary(array) => {
                out.push(b'"');
                write_base64(array.value(row), out);
                out.push(b'"');
            }
            Cells::Date(_, _) | Cells::Time(_, _, _) | Cells::Timestamp(_, _, _, _) => {
                out.push(b'"');
                self.write_moment(row, out);
                out.push(b'"');
            }
            Cells::List(offsets, _, items) => {
                out.push(b'[');
                for (index, item) in range(offsets, row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    items.write_json(item, depth + 1, out);
                }
                out.push(b']');
            }
            Cells::Struct(fields, _) => {
                out.push(b'{');
                for (index, (name, cells)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_text(name, out);
                    out.push(b':');
                    cells.write_json(row, depth + 1, out);
                }
                out.push(b'}');
            }
            Cells::Map(offsets, _, keys, values) => {
                out.push(b'{');
                for (index, entry) in range(offsets, row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_key(keys, entry, depth, out);
                    out.push(b':');
                    values.write_json(entry, depth + 1, out);
                }
                out.push(b'}');
            }
            Cells::Union(_, _) => match self.member(row) {
                Some((cells, place, true)) => {
                    out.extend_from_slice(cells.text(place).unwrap_or("null").as_bytes());
                }
                Some((cells, place, false)) => cells.write_json(place, depth + 1, out),
                None => out.extend_from_slice(b"null"),
            },
            Cells::Printed(array) => write_text(&print(array, row), out),
        }
    }

    /// Booleans, whole numbers and decimals, which look the same everywhere.
    pub(crate) fn write_number(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Boolean(array) => {
                out.extend_from_slice(if array.value(row) {
                    b"true".as_slice()
                } else {
                    b"false".as_slice()
                });
            }
            Cells::Long(values, _) => append_fmt(out, format_args!("{}", values[row])),
            Cells::UnsignedLong(values, _) => append_fmt(out, format_args!("{}", values[row])),
            Cells::Decimal(array, scale) => write_decimal(array.value(row), *scale, out),
            Cells::WideDecimal(array) => write_wide_decimal(array, row, out),
            _ => {}
        }
    }

    /// Dates, times and timestamps, as RFC 3339 has them.
    pub(crate) fn write_moment(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Date(values, _) => write_date(i64::from(values[row]), out),
            Cells::Time(values, _, unit) => write_time(values[row], *unit, out),
            Cells::Timestamp(values, _, unit, kind) => {
                let zone = if *kind == Kind::Instant { "Z" } else { "" };
                write_timestamp(values[row], *unit, b'T', zone, out);
            }
            _ => {}
        }
    }
}

pub(crate) fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    // Offsets of Arrow never fall and never are negative.
    let at = |index: usize| usize::try_from(offsets[index]).unwrap_or(0);
    at(row)..at(row + 1)
}

/// Keys of objects are texts, whatever a map's are.
fn write_key(keys: &Cells, entry: usize, depth: usize, out: &mut Vec<u8>) {
    if let Some(text) = keys.text(entry) {
        write_text(text, out);
        return;
    }
    let mut key = Vec::new();
    keys.write_json(entry, depth + 1, &mut key);
    if key.first() == Some(&b'"') {
        out.extend_from_slice(&key);
    } else {
        write_text(&String::from_utf8_lossy(&key), out);
    }
}
