//! The layout of a table's rows: the columns in its files, the columns derived from a file's partition, and the conversion
//! of rows to that form.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Int32Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    UInt32Array, cast::AsArray, new_null_array, types::TimestampMicrosecondType,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{ScalarValue, utils::memory::get_record_batch_memory_size};

use crate::{
    error::{Result, StoreError},
    schema,
    spec::{DAY_COLUMN, HOUR_COLUMN, OFFSET_COLUMN, TIME_COLUMN},
};

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// The schema, partitioning and time column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Name of the table, for messages.
    pub(crate) table: Box<str>,
    /// The columns that files hold, then the partition columns.
    pub(crate) schema: SchemaRef,
    /// Number of partition columns, at the end of the schema.
    pub(crate) partitions: usize,
    /// The column that days, hours and retention are reckoned by.
    pub(crate) time_column: Box<str>,
}

impl Layout {
    /// Makes a layout with the partition columns last.
    pub(crate) fn new(table: &str, fields: Vec<Field>, partition: &[Box<str>], time: Option<&str>) -> Layout {
        let is_partition = |field: &Field| partition.iter().position(|name| **name == **field.name());
        let (mut last, mut ordered): (Vec<Field>, Vec<Field>) =
            fields.into_iter().partition(|field| is_partition(field).is_some());
        last.sort_by_key(|field| is_partition(field));
        let partitions = last.len();
        ordered.append(&mut last);
        Layout {
            table: table.into(),
            schema: Arc::new(Schema::new(ordered)),
            partitions,
            time_column: time.unwrap_or(TIME_COLUMN).into(),
        }
    }

    /// The layout with metadata of its fields; none for a field that stays as it is.
    pub(crate) fn with_fields(&self, describe: &(dyn Fn(&Field) -> Option<Field> + Sync)) -> Layout {
        let described: Vec<Option<Field>> =
            self.schema.fields().iter().map(|field| describe(field)).collect();
        if described.iter().all(Option::is_none) {
            return self.clone();
        }
        let fields = self.schema.fields().iter().zip(described);
        let fields = fields.map(|(field, described)| described.map_or_else(|| Arc::clone(field), Arc::new));
        Layout { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), ..self.clone() }
    }

    /// The column at a place, of a batch that may have it in another type, or not at all: then it is null.
    pub(crate) fn column(&self, place: usize, batch: &RecordBatch) -> Result<ArrayRef> {
        let field = self.schema.field(place);
        match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => arrow_cast::cast(column, field.data_type()).map_err(|error| StoreError::Rows {
                table: self.table.clone(),
                why: format!("column `{}`: {error}", field.name()).into(),
            }),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        }
    }

    /// The columns that files hold.
    pub(crate) fn file_schema(&self) -> SchemaRef {
        let held = self.schema.fields().len() - self.partitions;
        Arc::new(Schema::new(self.schema.fields()[..held].to_vec()))
    }

    /// The partition columns.
    pub(crate) fn partition_fields(&self) -> &[Arc<Field>] {
        &self.schema.fields()[self.schema.fields().len() - self.partitions..]
    }

    /// Converts a batch to this layout: columns by name, missing ones null, values of another type converted, texts
    /// copied out of buffers of which they use a small part, days and hours made from the time column.
    pub(crate) fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if Arc::ptr_eq(batch.schema_ref(), &self.schema) {
            return Ok(batch.clone());
        }
        let fault = |why: String| StoreError::Rows { table: self.table.clone(), why: why.into() };
        let mut used = 0;
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let given = batch.column_by_name(field.name());
            used += usize::from(given.is_some());
            let column = match given {
                Some(column) if column.data_type() == field.data_type() => Arc::clone(column),
                Some(column) => arrow_cast::cast(column, field.data_type())
                    .map_err(|error| fault(format!("column `{}`: {error}", field.name())))?,
                None if [DAY_COLUMN, HOUR_COLUMN].contains(&field.name().as_str()) => {
                    self.partition_values(field, batch)?
                }
                None if !field.is_nullable() => {
                    return Err(fault(format!("column `{}` is missing", field.name())));
                }
                None => new_null_array(field.data_type(), batch.num_rows()),
            };
            columns.push(compact(column));
        }
        if used < batch.num_columns() {
            let batch = batch.schema();
            let unknown = batch.fields().iter().find(|field| self.schema.index_of(field.name()).is_err());
            let name = unknown.map_or("?", |field| field.name());
            return Err(fault(format!("it has no column `{name}`")));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| fault(error.to_string()))
    }

    /// The day or the hour of the time column.
    fn partition_values(&self, field: &Field, batch: &RecordBatch) -> Result<ArrayRef> {
        let fault = |why: String| StoreError::Rows { table: self.table.clone(), why: why.into() };
        let time = batch
            .column_by_name(&self.time_column)
            .ok_or_else(|| fault(format!("time column `{}` is missing", self.time_column)))?;
        let time = arrow_cast::cast(time, &schema::timestamp())
            .map_err(|error| fault(format!("time column `{}`: {error}", self.time_column)))?;
        let time = time.as_primitive::<TimestampMicrosecondType>();
        Ok(if field.name() == DAY_COLUMN { Arc::new(days(time)) } else { Arc::new(hours(time)) })
    }

    /// Divides rows by partition: pairs of the partition columns' values and the rows of the other columns, in their
    /// order.
    pub(crate) fn split(&self, batch: &RecordBatch) -> Result<Vec<(Vec<ScalarValue>, RecordBatch)>> {
        let failed = StoreError::arrow("separating partitions");
        let held = batch.num_columns() - self.partitions;
        let files: Vec<usize> = (0..held).collect();
        let rows = batch.project(&files).map_err(&failed)?;
        if self.partitions == 0 || batch.num_rows() == 0 {
            return Ok(vec![(Vec::new(), rows)]);
        }
        let keys = &batch.columns()[held..];
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
        let converted = RowConverter::new(fields).and_then(|converter| converter.convert_columns(keys));
        let converted = converted.map_err(&failed)?;
        let mut groups: std::collections::HashMap<_, Vec<u32>> = std::collections::HashMap::new();
        let mut order = Vec::new();
        for (row, key) in converted.iter().enumerate() {
            let group = groups.entry(key).or_default();
            if group.is_empty() {
                order.push(key);
            }
            group.push(row as u32);
        }
        let mut parts = Vec::with_capacity(order.len());
        for key in order {
            let Some(group) = groups.remove(&key) else { continue };
            let first = group[0] as usize;
            let values = keys
                .iter()
                .map(|column| ScalarValue::try_from_array(column, first))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| StoreError::Rows {
                    table: self.table.clone(),
                    why: format!("a partition's value: {error}").into(),
                })?;
            let part = if group.len() == batch.num_rows() {
                rows.clone()
            } else {
                arrow_select::take::take_record_batch(&rows, &UInt32Array::from(group)).map_err(&failed)?
            };
            parts.push((values, part));
        }
        Ok(parts)
    }

    /// The offsets of the first and the last row, if the table has offsets and the batch has rows.
    pub(crate) fn offsets(&self, batch: &RecordBatch) -> Option<(u64, u64)> {
        let column = batch.column_by_name(OFFSET_COLUMN)?;
        let values = column.as_primitive_opt::<arrow_array::types::Int64Type>()?.values();
        Some((u64::try_from(*values.first()?).ok()?, u64::try_from(*values.last()?).ok()?))
    }
}

/// The UTC day of a time, since 1970-01-01.
pub(crate) fn day_of(micros: i64) -> i64 {
    micros.div_euclid(24 * MICROS_PER_HOUR)
}

/// Returns true if a day, counted from 1970-01-01, is in a year with four digits, 0001 to 9999. Python's `datetime` and
/// Spark's SQL know no others, and a reader that meets one in the Delta log reads nothing of the table: there are none in
/// it.
pub(crate) fn is_in_calendar(day: i64) -> bool {
    (-719_162..=2_932_896).contains(&day)
}

/// The days of times; none for a time out of the calendar.
fn days(time: &TimestampMicrosecondArray) -> Date32Array {
    time.unary_opt(|micros| Some(day_of(micros)).filter(|day| is_in_calendar(*day)).map(|day| day as i32))
}

fn hours(time: &TimestampMicrosecondArray) -> Int32Array {
    time.unary(|micros| micros.div_euclid(MICROS_PER_HOUR).rem_euclid(24) as i32)
}

/// Texts are views into whatever buffers they came in, for events the events' own bytes: copied out where they use less
/// than half of them, so that rows that wait hold no more memory than they say.
fn compact(column: ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_any().downcast_ref::<StringViewArray>() else { return column };
    let held: usize = texts.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    if held == 0 || held < 2 * texts.total_buffer_bytes_used() {
        return column;
    }
    Arc::new(texts.gc())
}

/// Bytes that a batch holds in memory. A buffer is counted once, however many columns have their texts in it: those within
/// maps, lists and objects all lie in the events' own bytes.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    let arrays = batch.columns().iter().map(|array| {
        // Both sizes include the buffers.
        array.get_array_memory_size().saturating_sub(array.get_buffer_memory_size())
    });
    arrays.sum::<usize>() + get_record_batch_memory_size(batch)
}

/// The schema that a table has once it has these fields, too.
pub(crate) struct EvolvedSchema {
    /// All fields: those that were there, then new ones.
    pub(crate) fields: Vec<Field>,
    /// True if a field was added or may now be null.
    pub(crate) is_changed: bool,
    /// Fields whose type grew: their files must be rewritten.
    pub(crate) widened: Vec<Box<str>>,
}

/// Joins what is there with what is asked for. Columns that are not asked for any more stay, null from now on; new ones
/// can be null, as they are in older rows.
pub(crate) fn evolve(table: &str, there: &Schema, wanted: &[Field]) -> Result<EvolvedSchema> {
    let mut fields: Vec<Field> = there.fields().iter().map(|field| field.as_ref().clone()).collect();
    let (mut is_changed, mut widened) = (false, Vec::new());
    for field in &mut fields {
        let still = wanted.iter().find(|other| other.name() == field.name());
        if !field.is_nullable() && still.is_none_or(|other| other.is_nullable()) {
            field.set_nullable(true);
            is_changed = true;
        }
        let Some(other) = still else { continue };
        if field.data_type() == other.data_type() || schema::widens(other.data_type(), field.data_type()) {
            continue;
        }
        if !schema::widens(field.data_type(), other.data_type()) {
            let (from, to) = (type_name(field.data_type()), type_name(other.data_type()));
            let why = format!("column `{}` is {from} and cannot become {to}", field.name());
            return Err(StoreError::Spec { table: table.into(), why: why.into() });
        }
        widened.push(field.name().as_str().into());
        field.set_data_type(other.data_type().clone());
        is_changed = true;
    }
    for other in wanted {
        if there.index_of(other.name()).is_err() {
            fields.push(other.clone().with_nullable(true));
            is_changed = true;
        }
    }
    Ok(EvolvedSchema { fields, is_changed, widened })
}

/// The name of a type for messages.
fn type_name(ty: &DataType) -> String {
    match ty {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "LONG".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Utf8View => "STRING".to_owned(),
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{StructArray, builder::StringViewBuilder};
    use arrow_schema::Fields;

    use super::*;

    /// Rows whose texts lie within objects, in one buffer.
    fn rows(texts: usize, buffer: usize) -> RecordBatch {
        let mut text = StringViewBuilder::new().with_fixed_block_size(buffer as u32);
        text.append_value("x".repeat(buffer));
        let text: ArrayRef = Arc::new(text.finish());
        let fields: Fields =
            (0..texts).map(|n| Field::new(format!("t{n}"), DataType::Utf8View, true)).collect();
        let object = StructArray::new(fields.clone(), vec![text; texts], None);
        let schema = Schema::new(vec![Field::new("o", DataType::Struct(fields), true)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(object)]).unwrap()
    }

    #[test]
    fn times_out_of_the_calendar_have_no_day() {
        let day = 24 * MICROS_PER_HOUR;
        let (first, last) = (-719_162 * day, 2_932_897 * day - 1);
        let found = days(&TimestampMicrosecondArray::from(vec![first - 1, first, -1, 0, last, last + 1]));
        let expected = [None, Some(-719_162), Some(-1), Some(0), Some(2_932_896), None];
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_columns_share_is_counted_once() {
        const BUFFER: usize = 1 << 20;
        let (one, many) = (bytes_of(&rows(1, BUFFER)), bytes_of(&rows(50, BUFFER)));
        assert!((BUFFER..BUFFER + BUFFER / 8).contains(&one), "{one}");
        // Each column has an array of its own.
        assert!((one + 49 * 100..one + 49 * 400).contains(&many), "{many}, and {one} of one");
    }
}
