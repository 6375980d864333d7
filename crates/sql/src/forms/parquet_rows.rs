//! Rows of a Parquet file as JSON objects, a line each, in the order of the file: the way in, as the other forms are ways
//! out. Values are written as [`Form::Ndjson`](super::Form) writes them; a null is `null`.
//!
//! Memory: the pages of one row group's columns that are being read, and a batch of [`BATCH_ROWS`] rows.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::json::JsonWriter;
use crate::{ErrorKind, SqlError};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 256;
/// Rows that are written at once: they may be far longer than they are in the file, where equal values are kept once.
const WRITTEN_ROWS: usize = 16;

/// A file's rows, from the first to the last.
pub struct ParquetRows {
    reader: ParquetRecordBatchReader,
    writer: JsonWriter,
    rows: u64,
    given: u64,
    /// A batch, and how many of its rows were given.
    batch: Option<(RecordBatch, usize)>,
}

impl ParquetRows {
    /// Reads where everything is in the file. What is no Parquet file is an error of kind Invalid.
    pub fn open(file: File) -> Result<ParquetRows, SqlError> {
        guarded(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(unreadable)?;
            let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
            let writer = JsonWriter::lines(builder.schema());
            let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
            Ok(ParquetRows { reader, writer, rows, given: 0, batch: None })
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many were given.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Adds the next few rows; false at the end. After an error there are no more.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, SqlError> {
        guarded(|| {
            let (batch, from) = match self.batch.take() {
                Some(rest) => rest,
                None => match self.reader.next() {
                    None => return Ok(false),
                    Some(batch) => (batch.map_err(unreadable)?, 0),
                },
            };
            let count = WRITTEN_ROWS.min(batch.num_rows() - from);
            self.writer.batch(&batch.slice(from, count), out)?;
            self.given += count as u64;
            if from + count < batch.num_rows() {
                self.batch = Some((batch, from + count));
            }
            Ok(true)
        })
    }
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> SqlError {
    let told = error.to_string();
    let told = told.trim_start_matches("Parquet error: ").trim_start_matches("Parquet argument error: ");
    SqlError::new(ErrorKind::Invalid, format!("the Parquet file cannot be read: {told}")).with_source(error)
}

/// The library that reads Parquet panics on some damaged files; that is the file's fault, and an error like others.
fn guarded<T>(read: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(SqlError::new(ErrorKind::Invalid, "the Parquet file cannot be read: it is damaged"))
    })
}
