//! Statistics of one file: as Parquet has them, as JSON in the Delta log, as DataFusion requires them.
//!
//! ```text
//! stats = {"numRecords": n, "minValues": {column: value}, "maxValues": {column: value}, "nullCount": {column: n}}
//! ```
//! (Delta Lake protocol, "Per-file Statistics"). Only columns without parts have bounds, and only the first [`COLUMNS_MAX`]
//! and the one that retention uses. Texts are cut to [`TEXT_BYTES`]; the upper bound is rounded up.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion_common::{ColumnStatistics, ScalarValue, Statistics, stats::Precision};
use parquet::file::{metadata::ParquetMetaData, statistics::Statistics as ParquetStatistics};
use serde_json::{Map, Value};

use crate::layout::{day_of, is_in_calendar};

/// Columns with statistics, as in Spark.
pub(crate) const COLUMNS_MAX: usize = 32;
/// Bytes of a text's bound.
pub(crate) const TEXT_BYTES: usize = 32;
/// A text shorter than this was not cut: cutting between characters leaves three bytes at most.
const WHOLE_TEXT_BYTES: usize = TEXT_BYTES - 3;

/// Parquet's bounds of a chunk as values of the column's type.
fn bounds(stats: &ParquetStatistics, ty: &DataType) -> Option<(ScalarValue, ScalarValue)> {
    let pair = |lower: Option<ScalarValue>, upper: Option<ScalarValue>| Some((lower?, upper?));
    match (stats, ty) {
        (ParquetStatistics::Int32(stats), _) => {
            let value = |value: &i32| match ty {
                DataType::Int32 => Some(ScalarValue::Int32(Some(*value))),
                DataType::Int16 => Some(ScalarValue::Int16(Some(*value as i16))),
                DataType::Int8 => Some(ScalarValue::Int8(Some(*value as i8))),
                DataType::Date32 => Some(ScalarValue::Date32(Some(*value))),
                _ => None,
            };
            pair(stats.min_opt().and_then(value), stats.max_opt().and_then(value))
        }
        (ParquetStatistics::Int64(stats), _) => {
            let value = |value: &i64| match ty {
                DataType::Int64 => Some(ScalarValue::Int64(Some(*value))),
                DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                    Some(ScalarValue::TimestampMicrosecond(Some(*value), zone.clone()))
                }
                _ => None,
            };
            pair(stats.min_opt().and_then(value), stats.max_opt().and_then(value))
        }
        (ParquetStatistics::Float(stats), DataType::Float32) => {
            let value = |value: &f32| value.is_finite().then_some(ScalarValue::Float32(Some(*value)));
            pair(stats.min_opt().and_then(value), stats.max_opt().and_then(value))
        }
        (ParquetStatistics::Double(stats), DataType::Float64) => {
            let value = |value: &f64| value.is_finite().then_some(ScalarValue::Float64(Some(*value)));
            pair(stats.min_opt().and_then(value), stats.max_opt().and_then(value))
        }
        (ParquetStatistics::ByteArray(stats), DataType::Utf8View) => {
            let value = |bytes: &[u8]| {
                let text = std::str::from_utf8(bytes).ok()?;
                Some(ScalarValue::Utf8View(Some(text.to_owned())))
            };
            pair(stats.min_bytes_opt().and_then(value), stats.max_bytes_opt().and_then(value))
        }
        _ => None,
    }
}

fn to_json(value: &ScalarValue) -> Option<Value> {
    Some(match value {
        ScalarValue::Int8(Some(value)) => Value::from(*value),
        ScalarValue::Int16(Some(value)) => Value::from(*value),
        ScalarValue::Int32(Some(value)) => Value::from(*value),
        ScalarValue::Int64(Some(value)) => Value::from(*value),
        ScalarValue::Float32(Some(value)) => Value::from(f64::from(*value)),
        ScalarValue::Float64(Some(value)) => Value::from(*value),
        ScalarValue::Utf8View(Some(text)) => Value::from(text.as_str()),
        ScalarValue::Date32(Some(days)) if is_in_calendar(i64::from(*days)) => {
            Value::from(date32_to_datetime(*days)?.format("%Y-%m-%d").to_string())
        }
        ScalarValue::TimestampMicrosecond(Some(micros), _) if is_in_calendar(day_of(*micros)) => {
            Value::from(timestamp_us_to_datetime(*micros)?.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
        }
        _ => return None,
    })
}

/// The statistics of a written file as the Delta log has them.
pub(crate) fn to_delta(metadata: &ParquetMetaData, schema: &Schema, time_column: &str) -> String {
    let columns = metadata.file_metadata().schema_descr().columns();
    let (mut lower, mut upper, mut nulls) = (Map::new(), Map::new(), Map::new());
    for (place, field) in schema.fields().iter().enumerate() {
        if place >= COLUMNS_MAX && field.name() != time_column {
            continue;
        }
        let Some(index) = columns.iter().position(|column| {
            let parts = column.path().parts();
            parts.len() == 1 && parts[0] == *field.name()
        }) else {
            continue;
        };
        let (mut range, mut has_range) = (None::<(ScalarValue, ScalarValue)>, true);
        let mut null_count = Some(0);
        for group in metadata.row_groups() {
            let stats = group.column(index).statistics();
            let group_nulls = stats.and_then(ParquetStatistics::null_count_opt);
            null_count = null_count.and_then(|count| group_nulls.map(|more| count + more));
            if group_nulls == Some(group.num_rows() as u64) {
                continue;
            }
            match (stats.and_then(|stats| bounds(stats, field.data_type())), &mut range) {
                (None, _) => has_range = false,
                (Some(found), range @ None) => *range = Some(found),
                (Some((low, high)), Some(range)) => {
                    if low.partial_cmp(&range.0) == Some(Ordering::Less) {
                        range.0 = low;
                    }
                    if high.partial_cmp(&range.1) == Some(Ordering::Greater) {
                        range.1 = high;
                    }
                }
            }
        }
        if let Some(count) = null_count {
            nulls.insert(field.name().clone(), Value::from(count));
        }
        if let Some((low, high)) = range.filter(|_| has_range)
            && let (Some(low), Some(high)) = (to_json(&low), to_json(&high))
        {
            lower.insert(field.name().clone(), low);
            upper.insert(field.name().clone(), high);
        }
    }
    let rows = metadata.file_metadata().num_rows();
    serde_json::json!({"numRecords": rows, "minValues": lower, "maxValues": upper, "nullCount": nulls})
        .to_string()
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
}

/// A bound from the Delta log; exact only where nothing can have been cut off.
fn from_json(value: Option<&Value>, ty: &DataType, side: Side) -> Precision<ScalarValue> {
    let Some(value) = value else { return Precision::Absent };
    let exact = |scalar: Option<ScalarValue>| scalar.map_or(Precision::Absent, Precision::Exact);
    let inexact = |scalar: Option<ScalarValue>| scalar.map_or(Precision::Absent, Precision::Inexact);
    match ty {
        DataType::Int8 => {
            exact(value.as_i64().and_then(|v| v.try_into().ok()).map(|v| ScalarValue::Int8(Some(v))))
        }
        DataType::Int16 => {
            exact(value.as_i64().and_then(|v| v.try_into().ok()).map(|v| ScalarValue::Int16(Some(v))))
        }
        DataType::Int32 => {
            exact(value.as_i64().and_then(|v| v.try_into().ok()).map(|v| ScalarValue::Int32(Some(v))))
        }
        DataType::Int64 => exact(value.as_i64().map(|v| ScalarValue::Int64(Some(v)))),
        // Others leave NaN out of their bounds.
        DataType::Float32 => inexact(value.as_f64().map(|v| ScalarValue::Float32(Some(v as f32)))),
        DataType::Float64 => inexact(value.as_f64().map(|v| ScalarValue::Float64(Some(v)))),
        DataType::Utf8View => match value.as_str() {
            Some(text) if text.len() < WHOLE_TEXT_BYTES => {
                Precision::Exact(ScalarValue::Utf8View(Some(text.to_owned())))
            }
            Some(text) => Precision::Inexact(ScalarValue::Utf8View(Some(text.to_owned()))),
            None => Precision::Absent,
        },
        DataType::Date32 => {
            exact(value.as_str().and_then(|text| ScalarValue::try_from_string(text.to_owned(), ty).ok()))
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let Some(text) = value.as_str() else { return Precision::Absent };
            let Ok(ScalarValue::TimestampMicrosecond(Some(micros), _)) =
                ScalarValue::try_from_string(text.to_owned(), ty)
            else {
                return Precision::Absent;
            };
            let scalar = |micros| ScalarValue::TimestampMicrosecond(Some(micros), zone.clone());
            // Others cut their bounds to milliseconds.
            let digits =
                text.split('.').nth(1).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
            match (digits >= 6, side) {
                (true, _) => Precision::Exact(scalar(micros)),
                (false, Side::Lower) => Precision::Inexact(scalar(micros)),
                (false, Side::Upper) => Precision::Inexact(scalar(micros.saturating_add(999))),
            }
        }
        _ => Precision::Absent,
    }
}

/// The statistics of a file as DataFusion wants them: for the columns that files hold, then for partition columns, of
/// which every row has the same value. Returns how many rows there are, where that is known.
pub(crate) fn from_delta(
    text: Option<&str>,
    bytes: u64,
    file_schema: &Schema,
    partition: &[ScalarValue],
) -> (Option<u64>, Arc<Statistics>) {
    let stats: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let rows = stats["numRecords"].as_u64();
    let count =
        |count: Option<u64>| count.map_or(Precision::Absent, |count| Precision::Exact(count as usize));
    let mut columns = Vec::with_capacity(file_schema.fields().len() + partition.len());
    for field in file_schema.fields() {
        let name = field.name().as_str();
        columns.push(ColumnStatistics {
            null_count: count(stats["nullCount"].get(name).and_then(Value::as_u64)),
            min_value: from_json(stats["minValues"].get(name), field.data_type(), Side::Lower),
            max_value: from_json(stats["maxValues"].get(name), field.data_type(), Side::Upper),
            ..ColumnStatistics::new_unknown()
        });
    }
    for value in partition {
        let is_null = value.is_null();
        let bound = || if is_null { Precision::Absent } else { Precision::Exact(value.clone()) };
        columns.push(ColumnStatistics {
            null_count: if is_null { count(rows) } else { Precision::Exact(0) },
            min_value: bound(),
            max_value: bound(),
            ..ColumnStatistics::new_unknown()
        });
    }
    let statistics = Statistics {
        num_rows: count(rows),
        // Columns take about four times the bytes of the file in memory.
        total_byte_size: Precision::Inexact((bytes as usize).saturating_mul(4)),
        column_statistics: columns,
    };
    (rows, Arc::new(statistics))
}
