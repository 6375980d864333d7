//! Small random tables, and the engine's answers as rows that can be compared.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use swiftwater_sql::{SchemaRef, Sql, SqlOptions, TableKind};

use super::{Row, Table, Type, Value};
use crate::common::{Chance, MemoryTables};

/// Texts of the tables; the first is the likeliest.
pub(crate) const TEXTS: [&str; 4] = ["k", "j", "m", "z"];
/// Upper bound, exclusive, of the whole numbers of the tables.
pub(crate) const LONGS: u64 = 4;

/// Three tables of up to twenty rows each: two columns of whole numbers and one of texts, a quarter of them null. One in eight
/// tables is empty, and one in eight has no nulls.
pub(crate) fn small_tables(chance: &mut Chance) -> Vec<Table> {
    let make = |name, chance: &mut Chance| {
        let nulls = if chance.below(8) == 0 { 0 } else { 4 };
        let rows = if chance.below(8) == 0 { 0 } else { chance.below(20) + 1 };
        let rows = (0..rows).map(|_| {
            let long = |chance: &mut Chance| match nulls > 0 && chance.below(nulls) == 0 {
                true => Value::Null,
                false => Value::Long(chance.below(LONGS) as i64),
            };
            let text = |chance: &mut Chance| match nulls > 0 && chance.below(nulls) == 0 {
                true => Value::Null,
                false => Value::Text(TEXTS[chance.below(4).min(chance.below(4)) as usize].to_owned()),
            };
            vec![long(chance), long(chance), text(chance)]
        });
        let rows = rows.collect();
        Table { name, columns: vec![("a", Type::Long), ("b", Type::Long), ("c", Type::Text)], rows }
    };
    vec![make("t0", chance), make("t1", chance), make("t2", chance)]
}

/// SQL over the tables, in batches of a few rows, by so many threads.
pub(crate) fn over(tables: &[Table], threads: usize, batch_rows: usize) -> Sql {
    let memory = Arc::new(MemoryTables::default());
    for table in tables {
        let fields = table.columns.iter().map(|(name, ty)| {
            let ty = match ty {
                Type::Long => DataType::Int64,
                _ => DataType::Utf8,
            };
            Field::new(*name, ty, true)
        });
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batches = table.rows.chunks(3).map(|rows| {
            let columns = table.columns.iter().enumerate().map(|(index, (_, ty))| -> ArrayRef {
                let values = rows.iter().map(|row| &row[index]);
                match ty {
                    Type::Long => Arc::new(Int64Array::from_iter(values.map(|value| match value {
                        Value::Long(value) => Some(*value),
                        _ => None,
                    }))),
                    _ => Arc::new(StringArray::from_iter(values.map(|value| match value {
                        Value::Text(text) => Some(text.as_str()),
                        _ => None,
                    }))),
                }
            });
            RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
        });
        memory.put(table.name, TableKind::Table, Arc::clone(&schema), batches.collect());
    }
    crate::start(SqlOptions { threads, batch_rows, ..SqlOptions::default() }, memory)
}

/// Rows as the engine writes them as CSV: a null is nothing.
pub(crate) fn shown(row: &[Value]) -> String {
    let values: Vec<String> = row
        .iter()
        .map(|value| match value {
            Value::Null => String::new(),
            Value::Boolean(value) => value.to_string(),
            Value::Long(value) => value.to_string(),
            Value::Text(text) => text.clone(),
        })
        .collect();
    values.join(",")
}

/// A line of CSV as a row, whose columns have these types.
pub(crate) fn read(line: &str, types: &[Type]) -> Row {
    let values: Vec<&str> = line.split(',').collect();
    assert_eq!(values.len(), types.len(), "{line}");
    let row = values.iter().zip(types).map(|(value, ty)| match ty {
        _ if value.is_empty() => Value::Null,
        Type::Boolean => Value::Boolean(value.parse().unwrap()),
        Type::Long => Value::Long(value.parse().unwrap()),
        Type::Text => Value::Text((*value).to_owned()),
    });
    row.collect()
}
