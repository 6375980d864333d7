//! The output formats of an answer: encodes record batches as bytes.
//!
//! | form | a null | NaN, infinities | whole numbers | decimals | timestamps | binary | lists, maps, structs |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | JSON, NDJSON | `null` | `"NaN"`, `"Infinity"`, `"-Infinity"` | numbers | numbers, with all their digits | RFC 3339, UTC | base64 | arrays and objects |
//! | CSV | nothing between the commas | `NaN`, `Infinity`, `-Infinity` | digits | digits | RFC 3339, UTC | base64 | JSON |
//! | Arrow | Arrow's own encoding of all types; text and binary views become plain ones, which more readers support ||||||||
//!
//! CSV writes an empty text as `""`, which distinguishes it from a null. Instants end in `Z`; timestamps without a zone
//! have none.

mod arrow_stream;
mod cells;
mod csv;
mod json;
mod json_text;
mod parquet_rows;
mod pg;
mod pg_binary;
mod scalar;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::SqlError;

use arrow_stream::ArrowWriter;
use csv::CsvWriter;
use json::JsonWriter;

pub(crate) use arrow_stream::plain;
pub(crate) use json_text::json_text;
pub use parquet_rows::ParquetRows;
pub(crate) use pg::write_pg_timestamp;
pub use pg::{PgType, PgWriter};

/// A form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// One JSON array with an object for each row.
    Json,
    /// An object a line.
    Ndjson,
    /// RFC 4180 with a header, lines ended by CR LF.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

impl Form {
    /// All, the one that is given where any will do first.
    pub const ALL: [Form; 4] = [Form::Json, Form::Ndjson, Form::Csv, Form::Arrow];

    /// Its name for `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Ndjson => "application/x-ndjson",
            Form::Csv => "text/csv; charset=utf-8; header=present",
            Form::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// The form that a media type, without parameters, names.
    pub fn of_media_type(media_type: &str) -> Option<Form> {
        match media_type.trim().to_ascii_lowercase().as_str() {
            "application/json" => Some(Form::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Form::Ndjson),
            "text/csv" => Some(Form::Csv),
            "application/vnd.apache.arrow.stream" => Some(Form::Arrow),
            _ => None,
        }
    }
}

/// Writes an answer: its beginning, then each batch, then its end. Its output can be taken out of the buffer at any
/// time.
pub struct FormWriter {
    writer: Writer,
}

enum Writer {
    Json(JsonWriter),
    Csv(CsvWriter),
    Arrow(Box<ArrowWriter>),
}

impl FormWriter {
    /// The writer of an answer with these columns.
    pub fn new(form: Form, schema: &SchemaRef) -> Result<FormWriter, SqlError> {
        let writer = match form {
            Form::Json => Writer::Json(JsonWriter::array(schema)),
            Form::Ndjson => Writer::Json(JsonWriter::lines(schema)),
            Form::Csv => Writer::Csv(CsvWriter::new(schema)),
            Form::Arrow => Writer::Arrow(Box::new(ArrowWriter::new(schema)?)),
        };
        Ok(FormWriter { writer })
    }

    /// Writes the part before all rows.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        match &mut self.writer {
            Writer::Json(writer) => writer.begin(out),
            Writer::Csv(writer) => writer.begin(out),
            Writer::Arrow(writer) => writer.take(out),
        }
    }

    /// The rows of a batch, which has the columns that the writer was made for.
    pub fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match &mut self.writer {
            Writer::Json(writer) => writer.batch(batch, out),
            Writer::Csv(writer) => writer.batch(batch, out),
            Writer::Arrow(writer) => writer.batch(batch, out),
        }
    }

    /// Writes the part after all rows.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match &mut self.writer {
            Writer::Json(writer) => writer.end(out),
            Writer::Csv(_) => {}
            Writer::Arrow(writer) => writer.end(out)?,
        }
        Ok(())
    }
}

/// Each cell of a batch as text, for a table on a terminal: row by row, null as none. At most `rows` rows.
pub fn texts(batch: &RecordBatch, rows: usize) -> Result<Vec<Vec<Option<String>>>, SqlError> {
    let columns = csv::cells(batch)?;
    let mut lines = Vec::with_capacity(batch.num_rows().min(rows));
    let mut text = Vec::new();
    for row in 0..batch.num_rows().min(rows) {
        let mut line = Vec::with_capacity(columns.len());
        for column in &columns {
            text.clear();
            line.push(
                column.write_plain(row, &mut text).then(|| String::from_utf8_lossy(&text).into_owned()),
            );
        }
        lines.push(line);
    }
    Ok(lines)
}
