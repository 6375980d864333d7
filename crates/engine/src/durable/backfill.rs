//! Reads a stored stream's events from its table, for readers whose events are no longer in the log.
//!
//! Events are read in offset order, a limited number at a time. If the table stores their text, they are as they were sent.
//! Otherwise they are rebuilt from the columns: a missing field may be null or its default, and numbers and times may be
//! spelled otherwise. Events that the stream's retention has deleted are skipped.

use std::sync::Arc;

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Int64Type, TimestampMicrosecondType},
};
use arrow_schema::DataType;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Map, Value};
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Millis, Offset, Step, check_block};
use swiftwater_lang::ddl;
use swiftwater_sql::{
    ErrorKind as SqlErrorKind, RunOptions, Sql, SqlError,
    forms::{Form, FormWriter},
};
use swiftwater_store::{EVENT_COLUMN, OFFSET_COLUMN, TIME_COLUMN};

use crate::durable::{event_shape::EventShape, stored_stream::StoredStream};

/// Offsets that are read at once.
pub(crate) const PAST_EVENTS: u64 = 20_000;

/// The first column whose path leads into a list: its rows cannot be made events again.
pub(crate) fn column_within_list(stream: &ddl::CreateStream) -> Option<&ddl::ColumnDef> {
    let is_in_list = |column: &&ddl::ColumnDef| {
        column.event_path().steps().iter().any(|step| matches!(step, Step::Index(_)))
    };
    stream.columns.iter().find(is_in_list)
}

/// The events of a stream with offsets in `[from, until)`, which are all in the table: batches of one arrival each, and of
/// offsets that follow one another. `nulls` is for events whose text is not stored.
pub(crate) async fn past_events(
    sql: &Sql,
    stored: &StoredStream,
    (from, until): (u64, u64),
    nulls: NullFields,
) -> Result<Vec<EventBatch>, SqlError> {
    let name = stored.name.as_str().replace('"', "\"\"");
    let text = format!(
        "SELECT * FROM \"{name}\" WHERE {OFFSET_COLUMN} >= {from} AND {OFFSET_COLUMN} < {until} ORDER BY {OFFSET_COLUMN}"
    );
    let mut answer = sql.run(text, RunOptions::default()).await?;
    let mut all = Vec::new();
    while let Some(rows) = answer.next().await {
        events_of(stored, &rows?, nulls, &mut all)?;
    }
    Ok(all)
}

/// The offset of the first event with one in `[from, until)` that the table has.
pub(crate) async fn first_past(
    sql: &Sql,
    stored: &StoredStream,
    (from, until): (u64, u64),
) -> Result<Option<u64>, SqlError> {
    let name = stored.name.as_str().replace('"', "\"\"");
    let text = format!(
        "SELECT min({OFFSET_COLUMN}) AS first FROM \"{name}\" WHERE {OFFSET_COLUMN} >= {from} AND {OFFSET_COLUMN} < {until}"
    );
    let mut answer = sql.run(text, RunOptions::default()).await?;
    let mut first = None;
    while let Some(rows) = answer.next().await {
        let rows = rows?;
        let column = rows.column(0).as_primitive_opt::<Int64Type>();
        first = first.or(column.and_then(|column| column.iter().flatten().next()));
    }
    Ok(first.and_then(|first| u64::try_from(first).ok()))
}

fn events_of(
    stored: &StoredStream,
    rows: &RecordBatch,
    nulls: NullFields,
    all: &mut Vec<EventBatch>,
) -> Result<(), SqlError> {
    let missing =
        |name: &str| SqlError::new(SqlErrorKind::Internal, format!("the table has no column {name}"));
    let offsets =
        rows.column_by_name(OFFSET_COLUMN).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let offsets = offsets.ok_or_else(|| missing(OFFSET_COLUMN))?;
    let times = rows
        .column_by_name(TIME_COLUMN)
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let times = times.ok_or_else(|| missing(TIME_COLUMN))?;
    let arrivals: Vec<Millis> = times.values().iter().map(|micros| micros.div_euclid(1000)).collect();
    let limits = CheckLimits { event_bytes_max: usize::MAX >> 1, depth_max: 512, ..CheckLimits::default() };
    let batch = check_block(Bytes::from(event_lines(stored, rows, nulls)?), &limits, 1).batch;
    if batch.len() != rows.num_rows() {
        return Err(SqlError::new(SqlErrorKind::Corrupt, "a row of the table is not an event"));
    }
    let mut start = 0;
    for end in 1..=rows.num_rows() {
        let goes_on = end < rows.num_rows()
            && offsets.value(end) == offsets.value(end - 1) + 1
            && arrivals[end] == arrivals[start];
        if goes_on {
            continue;
        }
        let chosen: Vec<u32> = (start as u32..end as u32).collect();
        let first = Offset(u64::try_from(offsets.value(start)).unwrap_or(0));
        let meta = EventMeta { arrival: arrivals[start], first, ..EventMeta::default() };
        all.push(batch.select(&chosen).with_meta(meta));
        start = end;
    }
    Ok(())
}

/// The treatment of fields that are null in the columns of an event, which may not have had them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullFields {
    Written,
    LeftOut,
}

/// A row an event, each with the end of its line. An event whose text is stored is as it was sent.
pub(crate) fn event_lines(
    stored: &StoredStream,
    rows: &RecordBatch,
    nulls: NullFields,
) -> Result<Vec<u8>, SqlError> {
    let texts = rows.column_by_name(EVENT_COLUMN);
    let text = |row: usize| match texts {
        Some(texts) if texts.is_valid(row) => match texts.data_type() {
            DataType::Utf8View => Some(texts.as_string_view().value(row)),
            DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(row)),
            DataType::Utf8 => Some(texts.as_string::<i32>().value(row)),
            _ => None,
        },
        _ => None,
    };
    let mut told = Vec::new();
    if (0..rows.num_rows()).any(|row| text(row).is_none()) {
        let schema = rows.schema();
        let own: Vec<usize> = (0..schema.fields().len())
            .filter(|&place| !ddl::SYSTEM_COLUMNS.contains(&schema.field(place).name().as_str()))
            .collect();
        let own =
            rows.project(&own).map_err(|error| SqlError::new(SqlErrorKind::Internal, error.to_string()))?;
        let shape = EventShape::new(&stored.declared(), &own.schema())?;
        let mut writer = FormWriter::new(Form::Ndjson, &Arc::clone(&shape.schema))?;
        writer.batch(&shape.events(&own)?, &mut told)?;
    }
    let mut told = told.split_inclusive(|&byte| byte == b'\n');
    let mut lines = Vec::new();
    for row in 0..rows.num_rows() {
        let of_columns = told.next();
        match (text(row), of_columns) {
            (Some(text), _) => {
                lines.extend_from_slice(text.as_bytes());
                lines.push(b'\n');
            }
            (None, Some(line)) if nulls == NullFields::Written => lines.extend_from_slice(line),
            (None, Some(line)) => write_without_nulls(line, &mut lines)?,
            (None, None) => {
                return Err(SqlError::new(SqlErrorKind::Internal, "a row of the table cannot be read"));
            }
        }
    }
    Ok(lines)
}

/// An object without its members that are null.
fn write_without_nulls(line: &[u8], lines: &mut Vec<u8>) -> Result<(), SqlError> {
    let broken = |_| SqlError::new(SqlErrorKind::Internal, "a row of the table is not an object");
    let mut members: Map<String, Value> = serde_json::from_slice(line).map_err(broken)?;
    members.retain(|_, value| !value.is_null());
    serde_json::to_writer(&mut *lines, &members).map_err(broken)?;
    lines.push(b'\n');
    Ok(())
}
