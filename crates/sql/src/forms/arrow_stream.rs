//! Writes record batches as an Arrow IPC stream.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;

use crate::SqlError;

pub(crate) struct ArrowWriter {
    schema: SchemaRef,
    writer: StreamWriter<Vec<u8>>,
}

impl ArrowWriter {
    pub(crate) fn new(schema: &SchemaRef) -> Result<ArrowWriter, SqlError> {
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .map(|field| Field::new(field.name(), plain(field.data_type()), field.is_nullable()))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(unwritten)?;
        Ok(ArrowWriter { schema, writer })
    }

    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.get_mut());
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| {
                if column.data_type() == field.data_type() {
                    Ok(Arc::clone(column))
                } else {
                    cast(column, field.data_type())
                }
            })
            .collect::<Result<Vec<_>, ArrowError>>()
            .map_err(unwritten)?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows).map_err(unwritten)?;
        self.writer.write(&batch).map_err(unwritten)?;
        self.take(out);
        Ok(())
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        self.writer.finish().map_err(unwritten)?;
        self.take(out);
        Ok(())
    }
}

fn unwritten(error: ArrowError) -> SqlError {
    SqlError::internal("rows cannot be written as Arrow").with_source(error)
}

/// The type in which it leaves: views, and the dictionaries that scans make, are not known to all readers.
pub(crate) fn plain(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain(value),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    }
}

fn plain_field(field: &Arc<Field>) -> Arc<Field> {
    Arc::new(Field::new(field.name(), plain(field.data_type()), field.is_nullable()))
}
