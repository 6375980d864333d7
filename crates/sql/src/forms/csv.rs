//! Writes rows as CSV: RFC 4180, with a header.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use super::cells::{Cells, print};
use super::scalar::{write_base64, write_double, write_float};
use crate::SqlError;

pub(crate) struct CsvWriter {
    names: Vec<String>,
    cell: Vec<u8>,
}

impl CsvWriter {
    pub(crate) fn new(schema: &SchemaRef) -> CsvWriter {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        CsvWriter { names, cell: Vec::new() }
    }

    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        if self.names.is_empty() {
            return;
        }
        for (index, name) in self.names.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_field(name.as_bytes(), out);
        }
        out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let columns = cells(batch)?;
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                self.cell.clear();
                if column.write_plain(row, &mut self.cell) {
                    write_field(&self.cell, out);
                }
            }
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}

pub(crate) fn cells(batch: &RecordBatch) -> Result<Vec<Cells>, SqlError> {
    batch.columns().iter().map(Cells::new).collect()
}

/// A field, in quotes where it needs them; an empty one too, since nothing at all is a null.
fn write_field(field: &[u8], out: &mut Vec<u8>) {
    let needs_quotes = field.is_empty()
        || field.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'))
        || field.first() == Some(&b' ')
        || field.last() == Some(&b' ');
    if !needs_quotes {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for &byte in field {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

impl Cells {
    /// A cell as plain text, nested ones as JSON; false if it is null.
    pub(crate) fn write_plain(&self, row: usize, out: &mut Vec<u8>) -> bool {
        if self.is_null(row) {
            return false;
        }
        match self {
            Cells::Null => return false,
            Cells::Boolean(_)
            | Cells::Long(_, _)
            | Cells::UnsignedLong(_, _)
            | Cells::Decimal(_, _)
            | Cells::WideDecimal(_) => self.write_number(row, out),
            Cells::Float(values, _) => write_float(values[row], out),
            Cells::Double(values, _) => write_double(values[row], out),
            Cells::Text(_) | Cells::LargeText(_) | Cells::TextView(_) => {
                out.extend_from_slice(self.text(row).unwrap_or_default().as_bytes());
            }
            Cells::Binary(array) => write_base64(array.value(row), out),
            Cells::Date(_, _) | Cells::Time(_, _, _) | Cells::Timestamp(_, _, _, _) => {
                self.write_moment(row, out)
            }
            Cells::List(_, _, _) | Cells::Struct(_, _) | Cells::Map(_, _, _, _) => {
                self.write_json(row, 0, out)
            }
            Cells::Union(_, _) => {
                return match self.member(row) {
                    Some((cells, place, _)) => cells.write_plain(place, out),
                    None => false,
                };
            }
            Cells::Printed(array) => out.extend_from_slice(print(array, row).as_bytes()),
        }
        true
    }
}
