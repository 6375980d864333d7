//! Reads the rows of a Parquet file as JSON objects, one a line, in the order of the file.
//!
//! It is the input counterpart of the other forms. It writes values as [`Form::Ndjson`](super::Form) does; a null is
//! `null`.
//!
//! Memory: the pages of the columns of one row group that are being read, a batch of [`BATCH_ROWS`] rows, and its text. A
//! value that a file stores once for many rows is in memory once: a batch refers to texts in the pages.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::json::JsonWriter;
use crate::{ErrorKind, SqlError};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 256;
/// Rows that are written at once.
const WRITTEN_ROWS: usize = 16;
/// Bytes of texts that are written at once, unless one row alone has more.
const WRITTEN_BYTES: u64 = 1 << 20;

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
    /// Reads where everything is in the file. A file that is not Parquet is an error of kind Invalid.
    pub fn open(file: File) -> Result<ParquetRows, SqlError> {
        guarded(|| {
            let options = ArrowReaderOptions::new();
            let found = ArrowReaderMetadata::load(&file, options.clone()).map_err(unreadable)?;
            let fields = fields_in_place(found.schema().fields(), true);
            let schema = Schema::new_with_metadata(fields, found.schema().metadata().clone());
            let options = options.with_schema(Arc::new(schema));
            // For a group without members the reader has no column, and can be given none.
            let in_place = ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options);
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, in_place.unwrap_or(found));
            let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
            let writer = JsonWriter::events(builder.schema());
            let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(unreadable)?;
            Ok(ParquetRows { reader, writer, rows, given: 0, batch: None })
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of rows emitted.
    pub fn rows_emitted(&self) -> u64 {
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
            let count = written_at_once(&batch, from);
            self.writer.batch(&batch.slice(from, count), out)?;
            self.given += count as u64;
            if from + count < batch.num_rows() {
                self.batch = Some((batch, from + count));
            }
            Ok(true)
        })
    }
}

/// Columns whose texts are not copied out of their pages. Bytes within lists would be copied to be written, of all rows of a
/// batch each time, and are as they are.
fn fields_in_place(fields: &Fields, copies_a_few: bool) -> Fields {
    fields.iter().map(|field| field_in_place(field, copies_a_few)).collect()
}

fn field_in_place(field: &Field, copies_a_few: bool) -> FieldRef {
    Arc::new(field.clone().with_data_type(in_place(field.data_type(), copies_a_few)))
}

fn in_place(ty: &DataType, copies_a_few: bool) -> DataType {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary if copies_a_few => DataType::BinaryView,
        DataType::Dictionary(_, value) => match in_place(value, copies_a_few) {
            view @ (DataType::Utf8View | DataType::BinaryView) => view,
            _ => ty.clone(),
        },
        DataType::Struct(fields) => DataType::Struct(fields_in_place(fields, copies_a_few)),
        DataType::List(item) => DataType::List(field_in_place(item, false)),
        DataType::LargeList(item) => DataType::LargeList(field_in_place(item, false)),
        DataType::Map(entries, is_sorted) => DataType::Map(field_in_place(entries, false), *is_sorted),
        _ => ty.clone(),
    }
}

/// Number of a batch's rows, from `from` on, that are written at once.
fn written_at_once(batch: &RecordBatch, from: usize) -> usize {
    let most = WRITTEN_ROWS.min(batch.num_rows() - from);
    let mut bytes = 0;
    let fits = (from..from + most).take_while(|row| {
        bytes += batch.columns().iter().map(|column| text_bytes(column, *row, row + 1)).sum::<u64>();
        bytes <= WRITTEN_BYTES
    });
    fits.count().max(1)
}

/// Bytes of the texts of some rows.
fn text_bytes(array: &dyn Array, from: usize, to: usize) -> u64 {
    // A view's first four bytes are the length of its text.
    let of_views = |views: &[u128]| views[from..to].iter().map(|view| u64::from(*view as u32)).sum();
    match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            (offsets[to] - offsets[from]) as u64
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| text_bytes(column, from, to)).sum()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            text_bytes(list.values(), offsets[from] as usize, offsets[to] as usize)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            text_bytes(list.values(), offsets[from] as usize, offsets[to] as usize)
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            text_bytes(map.entries(), offsets[from] as usize, offsets[to] as usize)
        }
        _ => 0,
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

#[cfg(test)]
mod tests {
    use arrow::array::{
        ArrayRef, DictionaryArray, Int32Array, ListArray, MapArray, StringArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Int32Type;
    use datafusion::parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

    use super::*;

    fn read(columns: Vec<(&str, ArrayRef)>) -> ParquetRows {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let properties = WriterProperties::builder().set_dictionary_page_size_limit(64 << 20).build();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        ParquetRows::open(file).unwrap()
    }

    #[test]
    fn long_value_that_the_file_has_once_is_not_in_memory_for_each_row() {
        const ROWS: usize = 100;
        let long = "x".repeat(3 << 19);
        let keys = Int32Array::from_iter_values((0..ROWS as i32).map(|row| row / 20 % 2));
        let texts = Arc::new(StringArray::from(vec!["short", &long]));
        let dictionary = DictionaryArray::<Int32Type>::try_new(keys.clone(), texts).unwrap();
        let plain = arrow::compute::cast(&dictionary, &DataType::Utf8).unwrap();
        let large = arrow::compute::cast(&dictionary, &DataType::LargeUtf8).unwrap();
        let bytes = arrow::compute::cast(&plain, &DataType::Binary).unwrap();
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let ones = OffsetBuffer::<i32>::from_lengths(std::iter::repeat_n(1, ROWS));
        let list: ArrayRef = Arc::new(ListArray::new(item, ones.clone(), Arc::clone(&plain), None));
        let one = Arc::new(Field::new("one", DataType::Utf8, false));
        let structure: ArrayRef = Arc::new(StructArray::from(vec![(one, Arc::clone(&plain))]));
        let key = Arc::new(Field::new("keys", DataType::Int32, false));
        let value = Arc::new(Field::new("values", DataType::Utf8, true));
        let entries = StructArray::from(vec![(key, Arc::new(keys) as ArrayRef), (value, Arc::clone(&plain))]);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map: ArrayRef = Arc::new(MapArray::new(entry, ones, entries, None, false));
        for (what, column) in [
            ("dictionary", Arc::new(dictionary) as ArrayRef),
            ("plain", plain),
            ("large", large),
            ("bytes", bytes),
            ("list", list),
            ("structure", structure),
            ("map", map),
        ] {
            let mut rows = read(vec![("a", column)]);
            let (mut out, mut given) = (Vec::new(), 0);
            while rows.next(&mut out).unwrap() {
                let count = rows.rows_emitted() - given;
                assert!(count == 1 || out.len() < 1 << 20, "{what}: {count} rows of {} bytes", out.len());
                if let Some((batch, _)) = &rows.batch {
                    let held = batch.get_array_memory_size();
                    assert!(held < 16 << 20, "{what}: a batch of {held} bytes");
                }
                given = rows.rows_emitted();
                out.clear();
            }
            assert_eq!(given, ROWS as u64, "{what}");
        }
    }
}
