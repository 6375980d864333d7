//! Writes rows as Parquet: one file per partition, streamed to the store in parts once it is large.
//!
//! The first rows of a file determine the encoding of each column. Repeated values get a dictionary, other numbers are
//! packed as differences, and floats have their bytes split into streams; zstd compresses all. Offsets and arrival times
//! take hardly any space, because they grow steadily.
//! Limits: [`ROW_GROUP_ROWS`] rows are buffered, encoded, before they are written; [`PARTITIONS_OPEN_MAX`] files are open at
//! once.

use std::{collections::HashSet, fmt::Display, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, RecordBatch,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use datafusion_common::ScalarValue;
use futures_util::{Stream, StreamExt};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    schema::types::ColumnPath,
};
use swiftwater_event::Millis;

use crate::{
    actions::Add,
    checksums::{ChecksumBuilder, TAG},
    error::{Result, StoreError},
    layout::Layout,
    life::StoreSession,
    load::TableLocation,
    options::StoreOptions,
    stats,
    table_version::partition_text,
};

/// Rows of a row group.
pub(crate) const ROW_GROUP_ROWS: usize = 1 << 20;
/// Files of different partitions that one commit writes at the same time; with more, those that were begun are finished.
pub(crate) const PARTITIONS_OPEN_MAX: usize = 64;
/// Encoded bytes that start an upload in parts; smaller files are put at once.
pub(crate) const PART_BYTES: usize = 8 << 20;
/// Rows that decide how a column is encoded.
const SAMPLE_ROWS: usize = 4096;

/// Columns of floating point numbers of which a value is no number, by name, and of these those that `known` lacks.
///
/// Parquet's bounds leave such values out, while to SQL they are greater or less than all others: with bounds a file would be
/// left out that has rows to find. So columns that have one get no bounds, neither in the file nor in the Delta log.
fn columns_with_nan(rows: &RecordBatch, known: &HashSet<String>) -> Vec<String> {
    fn has<T: ArrowPrimitiveType>(column: &ArrayRef, is_nan: impl Fn(T::Native) -> bool) -> bool {
        // The value under a null may be NaN, too; then bounds are missing that could be there.
        column.as_primitive_opt::<T>().is_some_and(|array| array.values().iter().any(|&value| is_nan(value)))
    }
    let schema = rows.schema_ref();
    let columns = schema.fields().iter().zip(rows.columns()).filter(|(field, column)| {
        let has_nan = match column.data_type() {
            DataType::Float32 => has::<Float32Type>(column, f32::is_nan),
            DataType::Float64 => has::<Float64Type>(column, f64::is_nan),
            _ => false,
        };
        has_nan && !known.contains(field.name())
    });
    columns.map(|(field, _)| field.name().clone()).collect()
}

fn properties(sample: &RecordBatch, without_bounds: &HashSet<String>) -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("swiftwater ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_truncate_length(Some(stats::TEXT_BYTES))
        .set_column_index_truncate_length(Some(stats::TEXT_BYTES));
    let rows = sample.num_rows().min(SAMPLE_ROWS);
    for (field, column) in sample.schema().fields().iter().zip(sample.columns()) {
        builder = encoding(builder, field.name(), &column.slice(0, rows));
    }
    for name in without_bounds {
        let path = ColumnPath::from(vec![name.clone()]);
        builder = builder.set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    builder.build()
}

fn encoding(builder: WriterPropertiesBuilder, name: &str, sample: &ArrayRef) -> WriterPropertiesBuilder {
    let path = || ColumnPath::from(vec![name.to_owned()]);
    let otherwise = match sample.data_type() {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Encoding::DELTA_BINARY_PACKED,
        DataType::Date32 | DataType::Timestamp(..) => Encoding::DELTA_BINARY_PACKED,
        DataType::Float32 | DataType::Float64 => Encoding::BYTE_STREAM_SPLIT,
        DataType::Utf8View | DataType::BinaryView => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        // Booleans are bits as they are, and columns with parts keep Parquet's defaults.
        _ => return builder,
    };
    builder.set_column_dictionary_enabled(path(), repeats(sample)).set_column_encoding(path(), otherwise)
}

/// Returns true if the sample has so few distinct values that a dictionary saves space.
fn repeats(sample: &ArrayRef) -> bool {
    let valued = sample.len() - sample.null_count();
    if valued < 16 {
        return true;
    }
    let rows = RowConverter::new(vec![SortField::new(sample.data_type().clone())])
        .and_then(|converter| converter.convert_columns(std::slice::from_ref(sample)));
    let Ok(rows) = rows else { return true };
    let different: HashSet<_> = rows.iter().collect();
    different.len() * 4 < valued
}

/// Writes rows as files of a plain table, and returns their number. On failure no unfinished file remains; the finished ones
/// belong to no version.
pub(crate) async fn write_rows<E: Display>(
    place: &TableLocation,
    layout: &Layout,
    options: &StoreOptions,
    now: Millis,
    rows: impl Stream<Item = std::result::Result<RecordBatch, E>> + Send,
) -> Result<(Vec<Add>, u64)> {
    place.check().await?;
    let mut encoder = Encoder::new(place.clone(), layout.clone(), now, true);
    let mut count = 0;
    let mut rows = std::pin::pin!(rows);
    while let Some(batch) = rows.next().await {
        let written = match batch {
            Ok(batch) => {
                count += batch.num_rows() as u64;
                match layout.conform(&batch) {
                    Ok(batch) => encoder.write(&batch).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(StoreError::Input(error.to_string().into())),
        };
        if let Err(error) = written {
            encoder.abort().await;
            return Err(error);
        }
        if encoder.largest_bytes() >= options.compact_file_bytes {
            encoder.finish_files().await?;
        }
    }
    Ok((encoder.finish().await?, count))
}

/// One file that is being written.
struct OpenFile {
    partition: Vec<ScalarValue>,
    /// Path below the table.
    path: String,
    writer: ArrowWriter<Vec<u8>>,
    upload: Option<Box<dyn MultipartUpload>>,
    bytes: u64,
    sums: ChecksumBuilder,
}

impl OpenFile {
    fn new(
        life: StoreSession,
        layout: &Layout,
        partition: Vec<ScalarValue>,
        schema: SchemaRef,
        first: &RecordBatch,
        without_bounds: &HashSet<String>,
    ) -> Result<OpenFile> {
        let mut path = String::new();
        for (field, value) in layout.partition_fields().iter().zip(&partition) {
            // The log says the value; the path only helps people. So what would need quoting is left out.
            let text = partition_text(value).unwrap_or_else(|| "null".to_owned());
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            if plain(field.name()) && plain(&text) && text.len() <= 64 {
                path.push_str(&format!("{}={text}/", field.name()));
            }
        }
        path.push_str(&life.file_name());
        // Arrow's own schema is omitted: types are those of Delta Lake, for any reader.
        let options = ArrowWriterOptions::new()
            .with_properties(properties(first, without_bounds))
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options)
            .map_err(StoreError::parquet("beginning a file"))?;
        Ok(OpenFile { partition, path, writer, upload: None, bytes: 0, sums: ChecksumBuilder::default() })
    }
}

/// Writes files of one table. Its files belong to no version until they are committed.
pub(crate) struct Encoder {
    place: TableLocation,
    layout: Layout,
    file_schema: SchemaRef,
    open: Vec<OpenFile>,
    /// Columns that had NaN: files that begin from now on have no bounds of them.
    without_bounds: HashSet<String>,
    finished: Vec<Add>,
    now: Millis,
    data_change: bool,
}

impl Encoder {
    /// `data_change` is false where rows are only written anew.
    pub(crate) fn new(place: TableLocation, layout: Layout, now: Millis, data_change: bool) -> Encoder {
        let file_schema = layout.file_schema();
        let (open, finished, without_bounds) = (Vec::new(), Vec::new(), HashSet::new());
        Encoder { place, layout, file_schema, open, without_bounds, finished, now, data_change }
    }

    /// Bytes of the largest file that is open, as far as it is written.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.open.iter().map(|file| file.bytes + file.writer.in_progress_size() as u64).max().unwrap_or(0)
    }

    /// Adds rows that conform to the layout.
    pub(crate) async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let with_nan = columns_with_nan(batch, &self.without_bounds);
        if !with_nan.is_empty() {
            // Files that are open have bounds of them; this comes once for a column.
            self.finish_files().await?;
            self.without_bounds.extend(with_nan);
        }
        for (partition, rows) in self.layout.split(batch)? {
            let found = self.open.iter().position(|file| file.partition == partition);
            let index = match found {
                Some(index) => index,
                None => {
                    if self.open.len() >= PARTITIONS_OPEN_MAX {
                        self.finish_files().await?;
                    }
                    let schema = Arc::clone(&self.file_schema);
                    self.open.push(OpenFile::new(
                        self.place.life,
                        &self.layout,
                        partition,
                        schema,
                        &rows,
                        &self.without_bounds,
                    )?);
                    self.open.len() - 1
                }
            };
            let file = &mut self.open[index];
            file.writer.write(&rows).map_err(StoreError::parquet("encoding rows"))?;
            if file.writer.inner().len() >= PART_BYTES {
                self.send_part(index).await?;
            }
        }
        Ok(())
    }

    fn path(&self, file: &OpenFile) -> object_store::path::Path {
        file.path.split('/').fold(self.place.root(), |path, part| path.join(part))
    }

    async fn send_part(&mut self, index: usize) -> Result<()> {
        let failed = StoreError::store("uploading a file");
        let path = self.path(&self.open[index]);
        let file = &mut self.open[index];
        // The writer counts what it has written by itself, so its buffer may be taken.
        let part = Bytes::from(std::mem::take(file.writer.inner_mut()));
        file.bytes += part.len() as u64;
        file.sums.take(&part);
        if file.upload.is_none() {
            file.upload = Some(self.place.store.put_multipart(&path).await.map_err(&failed)?);
        }
        match &mut file.upload {
            Some(upload) => upload.put_part(PutPayload::from(part)).await.map_err(failed),
            None => Err(StoreError::Task("uploading a file")),
        }
    }

    /// Finishes the files that are open, and begins new ones with the next rows.
    pub(crate) async fn finish_files(&mut self) -> Result<()> {
        for index in 0..self.open.len() {
            let metadata = self.open[index].writer.finish().map_err(StoreError::parquet("ending a file"))?;
            if self.open[index].upload.is_some() {
                self.send_part(index).await?;
            }
            let path = self.path(&self.open[index]);
            let file = &mut self.open[index];
            match &mut file.upload {
                Some(upload) => {
                    upload.complete().await.map_err(StoreError::store("completing a file"))?;
                }
                None => {
                    let bytes = std::mem::take(file.writer.inner_mut());
                    file.bytes = bytes.len() as u64;
                    file.sums.take(&bytes);
                    let put = self.place.store.put(&path, PutPayload::from(Bytes::from(bytes))).await;
                    put.map_err(StoreError::store("putting a file"))?;
                }
            }
            let values = self.layout.partition_fields().iter().zip(&file.partition);
            self.finished.push(Add {
                path: file.path.clone(),
                partition_values: values
                    .map(|(field, value)| (field.name().clone(), partition_text(value)))
                    .collect(),
                size: file.bytes,
                modification_time: self.now,
                data_change: self.data_change,
                stats: Some(stats::to_delta(&metadata, &self.file_schema, &self.layout.time_column)),
                tags: Some([(TAG.to_owned(), Some(std::mem::take(&mut file.sums).finish().tag()))].into()),
            });
        }
        self.open.clear();
        Ok(())
    }

    /// Ends all files and returns them.
    pub(crate) async fn finish(mut self) -> Result<Vec<Add>> {
        self.finish_files().await?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// Aborts uploads that were begun, and deletes finished files, as a full disk needs their room. Vacuum removes the
    /// files that could not be deleted.
    pub(crate) async fn abort(mut self) {
        for add in &self.finished {
            let _ = self.place.store.delete(&self.place.file(&add.path)).await;
        }
        for file in &mut self.open {
            if let Some(upload) = &mut file.upload {
                let _ = upload.abort().await;
            }
        }
    }
}
