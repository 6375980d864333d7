//! Inserts rows of text into a table: `COPY … FROM STDIN` of PostgreSQL's protocol.
//!
//! Values arrive as text, in PostgreSQL's spelling of their types. This module converts them to the columns' types, some
//! thousands of rows at a time. An error about a value names its line. One [`Tables::insert`] inserts all rows, so they
//! are one commit. A [`CopyIn`] that is dropped without [`CopyIn::finish`] inserts nothing.
//!
//! Limits: [`BATCH_ROWS`] or [`BATCH_BYTES`] are buffered here, and [`BATCHES_WAITING`] such batches wait for the table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder, ListArray, StringArray, StringBuilder, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::json::ReaderBuilder;
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Ident;
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::array_text::array_elements;
use crate::error::state;
use crate::names::{Names, find_column};
use crate::sql::Sql;
use crate::text::place_of_span;
use crate::wire_copy::Source;
use crate::{SqlError, WireCopy, type_name};

/// Rows that become columns at once.
const BATCH_ROWS: usize = 8192;
/// Bytes of text that do.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait for the table.
const BATCHES_WAITING: usize = 2;
/// Bytes of a value that an error shows.
const VALUE_SHOWN_BYTES: usize = 100;

/// Rows on their way into a table.
pub struct CopyIn {
    fields: Vec<FieldRef>,
    values: Vec<StringBuilder>,
    /// Line of each waiting row in the input.
    lines: Vec<u64>,
    bytes: usize,
    batches: mpsc::Sender<Piece>,
    inserting: Option<JoinHandle<Result<u64, SqlError>>>,
}

enum Piece {
    Rows(RecordBatch),
    /// The end of the rows: without this the input is incomplete.
    End,
}

impl Sql {
    /// The query that gives what `COPY … TO STDOUT` copies. For a table or a stream it selects the columns that can be
    /// inserted, so that the output can be copied in again.
    pub async fn copied(&self, copy: &WireCopy) -> Result<String, SqlError> {
        match &copy.source {
            Source::Query(query) => Ok(query.clone()),
            Source::Table { name, .. } => {
                let (_, fields) = self.copy_target(copy).await?;
                let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
                let columns: Vec<String> = fields.iter().map(|field| quoted(field.name())).collect();
                Ok(format!("SELECT {} FROM {name}", columns.join(", ")))
            }
        }
    }

    /// Begins to take rows for `COPY … FROM STDIN`.
    pub async fn copy_in(&self, copy: &WireCopy) -> Result<CopyIn, SqlError> {
        let (table, fields) = self.copy_target(copy).await?;
        let schema = Arc::new(Schema::new(fields.clone()));
        let (batches, received) = mpsc::channel(BATCHES_WAITING);
        let pieces = stream::unfold(Some(received), |received| async move {
            let mut received = received?;
            match received.recv().await {
                Some(Piece::Rows(batch)) => Some((Ok(batch), Some(received))),
                Some(Piece::End) => None,
                None => {
                    let error = SqlError::invalid("the rows ended early").with_state(state::CANCELLED);
                    Some((Err(DataFusionError::from(error)), None))
                }
            }
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, pieces));
        let tables = Arc::clone(self.tables());
        let inserting = self.spawn(async move { tables.insert(&table, rows, false).await })?;
        let values = fields.iter().map(|_| StringBuilder::new()).collect();
        Ok(CopyIn { fields, values, lines: Vec::new(), bytes: 0, batches, inserting: Some(inserting) })
    }

    /// The table that is copied, and which of its columns.
    async fn copy_target(&self, copy: &WireCopy) -> Result<(String, Vec<FieldRef>), SqlError> {
        let Source::Table { name, columns } = &copy.source else {
            return Err(SqlError::internal("a query cannot receive rows"));
        };
        let names = Names::new(self.tables().names(), self.tables().names_all());
        let (ident, found) = names.target(name)?;
        let found = found.ok_or_else(|| names.missing(ident, &ident.value))?;
        let schema = self.tables().insertable(&found).await?.ok_or_else(|| {
            SqlError::invalid(format!("`{found}` cannot be copied"))
                .at(place_of_span(ident.span))
                .with_hint("COPY (SELECT …) TO STDOUT copies any answer.")
        })?;
        let fields = if columns.is_empty() {
            schema.fields().iter().cloned().collect()
        } else {
            named(&schema, columns)?
        };
        match fields.is_empty() {
            false => Ok((found, fields)),
            true => Err(SqlError::invalid(format!("`{found}` has no columns yet"))
                .at(place_of_span(ident.span))
                .with_hint("Columns come from events: send some first, or declare columns.")),
        }
    }
}

fn named(schema: &Schema, columns: &[Ident]) -> Result<Vec<FieldRef>, SqlError> {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
    for ident in columns {
        let field = &schema.fields()[find_column(schema, ident)?];
        if fields.contains(field) {
            return Err(SqlError::invalid(format!("column `{}` is named twice", ident.value))
                .at(place_of_span(ident.span)));
        }
        fields.push(Arc::clone(field));
    }
    Ok(fields)
}

impl CopyIn {
    /// Number of values of a row.
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Takes a row that stands on this line; waits while the table has enough to do. After an error nothing is put in.
    pub async fn push(&mut self, line: u64, row: &[Option<String>]) -> Result<(), SqlError> {
        if row.len() != self.fields.len() {
            let names: Vec<&str> = self.fields.iter().map(|field| field.name().as_str()).collect();
            let what = format!("line {line}: {} values, expected {}", row.len(), self.fields.len());
            return Err(SqlError::invalid(what)
                .with_state(state::BAD_COPY)
                .with_hint(format!("Columns are: {}.", names.join(", "))));
        }
        for (values, value) in self.values.iter_mut().zip(row) {
            self.bytes += value.as_ref().map_or(0, String::len);
            values.append_option(value.as_deref());
        }
        self.lines.push(line);
        if self.lines.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    /// Inserts all rows; returns their number.
    pub async fn finish(mut self) -> Result<u64, SqlError> {
        if !self.lines.is_empty() {
            self.send().await?;
        }
        // If the send fails, the insert has failed and returns its error.
        let _ = self.batches.send(Piece::End).await;
        self.ended().await
    }

    async fn send(&mut self) -> Result<(), SqlError> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (field, values) in self.fields.iter().zip(&mut self.values) {
            columns.push(column(field, &values.finish(), &self.lines)?);
        }
        self.lines.clear();
        self.bytes = 0;
        let batch = RecordBatch::try_new(Arc::new(Schema::new(self.fields.clone())), columns);
        let batch = batch.map_err(DataFusionError::from)?;
        match self.batches.send(Piece::Rows(batch)).await {
            Ok(()) => Ok(()),
            Err(_) => match self.ended().await {
                Err(error) => Err(error),
                Ok(_) => Err(SqlError::internal("an insert ended before its rows did")),
            },
        }
    }

    async fn ended(&mut self) -> Result<u64, SqlError> {
        match self.inserting.take() {
            Some(inserting) => inserting
                .await
                .map_err(|error| SqlError::internal("an insert ended early").with_source(error))?,
            None => Err(SqlError::internal("an insert has ended already")),
        }
    }
}

/// Texts as a column; `lines` has the line of each.
fn column(field: &FieldRef, texts: &StringArray, lines: &[u64]) -> Result<ArrayRef, SqlError> {
    let fault = |row: usize, what: String| {
        SqlError::invalid(format!("line {}, column `{}`: {what}", lines[row], field.name()))
    };
    if let (false, Some(row)) = (field.is_nullable(), (0..texts.len()).find(|row| texts.is_null(*row))) {
        return Err(fault(row, "null is not allowed".to_owned()).with_state(state::NOT_NULL));
    }
    values(texts, field.data_type()).map_err(|row| {
        let text = texts.value(row);
        let shown = &text[..text.floor_char_boundary(VALUE_SHOWN_BYTES)];
        let more = if shown.len() < text.len() { "…" } else { "" };
        let what = format!("`{shown}{more}` is not a valid {}", type_name(field.data_type()));
        fault(row, what).with_state(state::INVALID_TEXT)
    })
}

/// Texts as values of a type; or the first row that cannot be one.
fn values(texts: &StringArray, ty: &DataType) -> Result<ArrayRef, usize> {
    match ty {
        DataType::List(item) => lists(texts, item),
        DataType::Map(_, _) | DataType::Struct(_) => objects(texts, ty),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let mut bytes = BinaryBuilder::new();
            for (row, text) in texts.iter().enumerate() {
                bytes.append_option(text.map(|text| binary(text).ok_or(row)).transpose()?);
            }
            cast(&bytes.finish(), ty).map_err(|_| 0)
        }
        _ => {
            // A value that cannot be cast becomes null.
            let cast = cast(texts, ty).map_err(|_| 0_usize)?;
            match (0..texts.len()).find(|row| cast.is_null(*row) && texts.is_valid(*row)) {
                Some(row) => Err(row),
                None => Ok(cast),
            }
        }
    }
}

fn binary(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else { return Some(text.as_bytes().to_vec()) };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// `{a,b}`.
fn lists(texts: &StringArray, item: &FieldRef) -> Result<ArrayRef, usize> {
    let mut elements = StringBuilder::new();
    let (mut lengths, mut rows) = (Vec::with_capacity(texts.len()), Vec::new());
    for (row, text) in texts.iter().enumerate() {
        let found = text.map(|text| array_elements(text).ok_or(row)).transpose()?.unwrap_or_default();
        lengths.push(found.len());
        for element in found {
            rows.push(row);
            elements.append_option(element);
        }
    }
    let items = values(&elements.finish(), item.data_type())
        .map_err(|element| rows.get(element).copied().unwrap_or(0))?;
    let nulls = NullBuffer::from(texts.iter().map(|text| text.is_some()).collect::<Vec<_>>());
    let list = ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), items, Some(nulls));
    list.map(|list| Arc::new(list) as ArrayRef).map_err(|_| 0)
}

/// `{"a": 1}`, JSON.
fn objects(texts: &StringArray, ty: &DataType) -> Result<ArrayRef, usize> {
    let mut parts: Vec<ArrayRef> = Vec::with_capacity(texts.len());
    let schema = Arc::new(Schema::new(vec![arrow::datatypes::Field::new("v", ty.clone(), true)]));
    for (row, text) in texts.iter().enumerate() {
        let text = text.unwrap_or("null");
        serde_json::from_str::<serde_json::Value>(text).map_err(|_| row)?;
        let object = format!("{{\"v\":{text}}}");
        let reader = ReaderBuilder::new(Arc::clone(&schema)).build(object.as_bytes());
        let batches: Result<Vec<RecordBatch>, _> = reader.and_then(|reader| reader.collect());
        match batches.as_deref() {
            Ok([batch]) if batch.num_rows() == 1 => parts.push(Arc::clone(batch.column(0))),
            _ => return Err(row),
        }
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    if parts.is_empty() { Ok(new_empty_array(ty)) } else { concat(&parts).map_err(|_| 0) }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};
    use arrow::util::display::{ArrayFormatter, FormatOptions};

    use super::*;

    #[track_caller]
    fn check(ty: DataType, texts: &[Option<&str>], expected: Result<&str, &str>) {
        let field = Arc::new(Field::new("c", ty, true));
        let lines: Vec<u64> = (1..=texts.len() as u64).collect();
        let found = column(&field, &StringArray::from(texts.to_vec()), &lines);
        let shown = found.map(|array| {
            let options = FormatOptions::new().with_null("null");
            let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
            (0..array.len()).map(|row| formatter.value(row).to_string()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref().map_err(ToString::to_string), expected.map_err(str::to_owned));
    }

    #[test]
    fn texts_become_values_as_postgresql_spells_them() {
        check(DataType::Int64, &[Some("7"), None, Some("-1")], Ok("7 null -1"));
        check(DataType::Int64, &[None, Some("x")], Err("line 2, column `c`: `x` is not a valid BIGINT"));
        check(
            DataType::Int32,
            &[Some("3000000000")],
            Err("line 1, column `c`: `3000000000` is not a valid INTEGER"),
        );
        check(DataType::Float64, &[Some("1e3"), Some("NaN"), Some("-Infinity")], Ok("1000.0 NaN -inf"));
        check(DataType::Boolean, &[Some("t"), Some("false"), Some("yes")], Ok("true false true"));
        check(DataType::Utf8View, &[Some(""), Some("ä")], Ok(" ä"));
        check(DataType::Binary, &[Some("\\x00ff"), Some("a")], Ok("00ff 61"));
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        check(
            utc,
            &[Some("2026-01-31 12:34:56.5+00"), Some("2026-01-31T12:34:56Z")],
            Ok("2026-01-31T12:34:56.500Z 2026-01-31T12:34:56Z"),
        );
        let longs = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        check(longs.clone(), &[Some("{1,NULL}"), None, Some("{}")], Ok("[1, null] null []"));
        check(longs, &[Some("{1}"), Some("{x}")], Err("line 2, column `c`: `{x}` is not a valid BIGINT[]"));
    }

    #[test]
    fn objects_are_json() {
        let fields = vec![Field::new("x", DataType::Int64, true)];
        let ty = DataType::Struct(fields.into());
        check(ty.clone(), &[Some("{\"x\": 1}"), None], Ok("{x: 1} null"));
        let field = Field::new("c", ty, true);
        let texts = StringArray::from(vec![Some("[]")]);
        assert!(column(&Arc::new(field), &texts, &[1]).is_err());
    }
}
