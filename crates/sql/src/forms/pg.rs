//! Writes cells in PostgreSQL's text format: `t` and `f`, `2026-01-31 12:34:56+00`, `{1,2}`, `\x00ff`.
//!
//! Times have microseconds at most, as in PostgreSQL; finer digits are cut off.

use arrow::array::Array;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::record_batch::RecordBatch;

use super::cells::{Cells, Kind, print};
use super::json::range;
use super::scalar::{append_fmt, write_double, write_float, write_time, write_timestamp};
use crate::SqlError;

/// PostgreSQL's types, as many as are needed to show ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they are named as PostgreSQL names them")]
pub enum PgType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Json,
    BoolArray,
    Int2Array,
    Int4Array,
    Int8Array,
    Float4Array,
    Float8Array,
    NumericArray,
    TextArray,
    DateArray,
    TimestampArray,
    TimestampTzArray,
}

impl PgType {
    /// Its number in PostgreSQL's `pg_type`.
    pub fn oid(self) -> i32 {
        match self {
            PgType::Bool => 16,
            PgType::Bytea => 17,
            PgType::Int8 => 20,
            PgType::Int2 => 21,
            PgType::Int4 => 23,
            PgType::Text => 25,
            PgType::Json => 114,
            PgType::Float4 => 700,
            PgType::Float8 => 701,
            PgType::Date => 1082,
            PgType::Time => 1083,
            PgType::Timestamp => 1114,
            PgType::TimestampTz => 1184,
            PgType::Numeric => 1700,
            PgType::BoolArray => 1000,
            PgType::Int2Array => 1005,
            PgType::Int4Array => 1007,
            PgType::TextArray => 1009,
            PgType::Int8Array => 1016,
            PgType::Float4Array => 1021,
            PgType::Float8Array => 1022,
            PgType::TimestampArray => 1115,
            PgType::DateArray => 1182,
            PgType::TimestampTzArray => 1185,
            PgType::NumericArray => 1231,
        }
    }

    /// Bytes of its values; -1: they differ.
    pub fn size(self) -> i16 {
        match self {
            PgType::Bool => 1,
            PgType::Int2 => 2,
            PgType::Int4 | PgType::Float4 | PgType::Date => 4,
            PgType::Int8 | PgType::Float8 | PgType::Time | PgType::Timestamp | PgType::TimestampTz => 8,
            _ => -1,
        }
    }

    /// The type of its elements, if it is an array.
    pub fn element(self) -> Option<PgType> {
        Some(match self {
            PgType::BoolArray => PgType::Bool,
            PgType::Int2Array => PgType::Int2,
            PgType::Int4Array => PgType::Int4,
            PgType::Int8Array => PgType::Int8,
            PgType::Float4Array => PgType::Float4,
            PgType::Float8Array => PgType::Float8,
            PgType::NumericArray => PgType::Numeric,
            PgType::TextArray => PgType::Text,
            PgType::DateArray => PgType::Date,
            PgType::TimestampArray => PgType::Timestamp,
            PgType::TimestampTzArray => PgType::TimestampTz,
            _ => return None,
        })
    }

    /// The type that shows a column of ours.
    pub fn of(ty: &DataType) -> PgType {
        match ty {
            DataType::Boolean => PgType::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => PgType::Int2,
            DataType::UInt16 | DataType::Int32 => PgType::Int4,
            DataType::UInt32 | DataType::Int64 => PgType::Int8,
            DataType::UInt64
            | DataType::Decimal32(_, _)
            | DataType::Decimal64(_, _)
            | DataType::Decimal128(_, _)
            | DataType::Decimal256(_, _) => PgType::Numeric,
            DataType::Float16 | DataType::Float32 => PgType::Float4,
            DataType::Float64 => PgType::Float8,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => PgType::Bytea,
            DataType::Date32 | DataType::Date64 => PgType::Date,
            DataType::Time32(_) | DataType::Time64(_) => PgType::Time,
            DataType::Timestamp(_, None) => PgType::Timestamp,
            DataType::Timestamp(_, Some(_)) => PgType::TimestampTz,
            DataType::Struct(_) | DataType::Map(_, _) | DataType::Union(_, _) => PgType::Json,
            DataType::Dictionary(_, value) => PgType::of(value),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                match PgType::of(item.data_type()) {
                    PgType::Bool => PgType::BoolArray,
                    PgType::Int2 => PgType::Int2Array,
                    PgType::Int4 => PgType::Int4Array,
                    PgType::Int8 => PgType::Int8Array,
                    PgType::Float4 => PgType::Float4Array,
                    PgType::Float8 => PgType::Float8Array,
                    PgType::Numeric => PgType::NumericArray,
                    PgType::Text => PgType::TextArray,
                    PgType::Date => PgType::DateArray,
                    PgType::Timestamp => PgType::TimestampArray,
                    PgType::TimestampTz => PgType::TimestampTzArray,
                    // Lists of lists and of structs are shown as JSON: PostgreSQL's arrays have one element type.
                    _ => PgType::Json,
                }
            }
            // Intervals are printed, not taken apart.
            _ => PgType::Text,
        }
    }
}

/// A batch, cell by cell.
pub struct PgWriter {
    columns: Vec<(Cells, PgType)>,
}

impl PgWriter {
    /// The cells of a batch.
    pub fn new(batch: &RecordBatch) -> Result<PgWriter, SqlError> {
        let columns = batch
            .columns()
            .iter()
            .map(|column| Ok((Cells::new(column)?, PgType::of(column.data_type()))))
            .collect::<Result<Vec<_>, SqlError>>()?;
        Ok(PgWriter { columns })
    }

    /// Adds the text of a cell; false if it is null.
    pub fn write(&self, row: usize, column: usize, out: &mut Vec<u8>) -> bool {
        match self.columns.get(column) {
            Some((cells, PgType::Json)) if !cells.is_null(row) => {
                cells.write_json(row, 0, out);
                true
            }
            Some((cells, _)) => cells.write_pg(row, out),
            None => false,
        }
    }

    /// Adds the binary form of a cell; false if it is null.
    pub fn write_binary(&self, row: usize, column: usize, out: &mut Vec<u8>) -> bool {
        match self.columns.get(column) {
            Some((cells, PgType::Json)) if !cells.is_null(row) => {
                cells.write_json(row, 0, out);
                true
            }
            Some((cells, ty)) => cells.write_pg_binary(row, *ty, out),
            None => false,
        }
    }

    /// A whole number; none if the cell is null or of another type.
    pub fn long(&self, row: usize, column: usize) -> Option<i64> {
        match self.columns.get(column)? {
            (cells @ Cells::Long(values, _), _) if !cells.is_null(row) => Some(values[row]),
            _ => None,
        }
    }
}

impl Cells {
    fn write_pg(&self, row: usize, out: &mut Vec<u8>) -> bool {
        if self.is_null(row) {
            return false;
        }
        match self {
            Cells::Boolean(array) => out.push(if array.value(row) { b't' } else { b'f' }),
            Cells::Float(values, _) => write_float(values[row], out),
            Cells::Double(values, _) => write_double(values[row], out),
            Cells::Binary(array) => {
                out.extend_from_slice(b"\\x");
                for byte in array.value(row) {
                    append_fmt(out, format_args!("{byte:02x}"));
                }
            }
            Cells::Time(values, _, unit) => {
                write_time(micros(values[row], *unit), TimeUnit::Microsecond, out);
                trim_fraction(out);
            }
            Cells::Timestamp(values, _, unit, kind) => {
                write_pg_timestamp(values[row], *unit, *kind == Kind::Instant, out);
            }
            Cells::List(offsets, _, items) => {
                out.push(b'{');
                for (index, item) in range(offsets, row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    let mut text = Vec::new();
                    if items.write_pg(item, &mut text) {
                        write_element(&text, out);
                    } else {
                        out.extend_from_slice(b"NULL");
                    }
                }
                out.push(b'}');
            }
            Cells::Printed(array) if array.is_valid(row) => {
                out.extend_from_slice(print(array, row).as_bytes())
            }
            _ => return self.write_plain(row, out),
        }
        true
    }
}

/// A timestamp as PostgreSQL writes it, an instant with its zone.
pub(crate) fn write_pg_timestamp(value: i64, unit: TimeUnit, is_instant: bool, out: &mut Vec<u8>) {
    write_timestamp(micros(value, unit), TimeUnit::Microsecond, b' ', "", out);
    trim_fraction(out);
    if is_instant {
        out.extend_from_slice(b"+00");
    }
}

/// Microseconds of a time in another unit; finer ones are cut off.
pub(super) fn micros(value: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => value.saturating_mul(1_000_000),
        TimeUnit::Millisecond => value.saturating_mul(1_000),
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1_000),
    }
}

/// Takes zeros off the end of a fraction, and a point without one.
fn trim_fraction(out: &mut Vec<u8>) {
    while out.last() == Some(&b'0') {
        out.pop();
    }
    if out.last() == Some(&b'.') {
        out.pop();
    }
}

/// An element of an array, in quotes where it could be read as something else.
fn write_element(text: &[u8], out: &mut Vec<u8>) {
    let needs_quotes = text.is_empty()
        || text.eq_ignore_ascii_case(b"null")
        || text
            .iter()
            .any(|byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || byte.is_ascii_whitespace());
    if !needs_quotes {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
