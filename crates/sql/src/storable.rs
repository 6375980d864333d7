//! Converts the names and types of a query's columns to those that a Delta table can store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::SqlError;
use crate::error::state;

/// The columns of a table made of a query's: wide unsigned and other types that tables do not have become the nearest
/// that holds all their values, and columns without a name of their own get one.
pub(crate) fn storable(schema: &Schema) -> Result<SchemaRef, SqlError> {
    let mut taken = HashSet::new();
    if schema.fields().is_empty() {
        return Err(SqlError::invalid("a table has at least one column"));
    }
    // By their lower case, as they stand first.
    let mut stated: HashMap<String, &str> = HashMap::new();
    for name in schema.fields().iter().map(|field| field.name()) {
        if column_name(name) == *name {
            stated.entry(name.to_lowercase()).or_insert(name);
        }
    }
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let ty = storable_type(field.data_type()).ok_or_else(|| {
            SqlError::invalid(format!("a table cannot store column `{}` of type {}", field.name(), field.data_type()))
                .with_hint("Cast it to a type that tables have: BIGINT, DOUBLE, VARCHAR, TIMESTAMP, DATE, DECIMAL, BOOLEAN, BYTEA.")
        })?;
        let base = column_name(field.name());
        let is_stated = base == *field.name();
        if is_stated
            && let Some(first) = stated.get(&base.to_lowercase())
            && *first != base
        {
            let message = format!("columns `{first}` and `{base}` of a table differ only in case");
            return Err(SqlError::invalid(message).with_hint("Rename one of them: … AS name."));
        }
        let mut name = base.clone();
        let mut number = 2;
        // A name that is made here gives way to those that are stated.
        while !is_stated && stated.contains_key(&name.to_lowercase()) || !taken.insert(name.to_lowercase()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        fields.push(Field::new(name, ty, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns of a table as they are written down: names stay, or are refused.
pub(crate) fn written_down(schema: &Schema) -> Result<SchemaRef, SqlError> {
    let stored = storable(schema)?;
    for (field, written) in stored.fields().iter().zip(schema.fields()) {
        if field.name() != written.name() {
            return Err(SqlError::invalid(format!("a table cannot have a column `{}`", written.name())).with_hint(
                "Names must differ in more than case, and cannot contain a space, comma, semicolon, bracket, equals \
                 sign, tab or line break.",
            ));
        }
        if !written.is_nullable() {
            // Tables of rows do not keep it, and what is not kept is not promised.
            return Err(SqlError::invalid(format!(
                "column `{}` of a table cannot be NOT NULL",
                written.name()
            ))
            .with_state(state::NOT_SUPPORTED)
            .with_hint("Leave NOT NULL out. Columns of a stream may be NOT NULL: CREATE STREAM."));
        }
    }
    Ok(stored)
}

/// A name that tables may have: `count(*)` becomes `count`, `sum(t.x) / 2` becomes `sum_t_x_2`.
fn column_name(name: &str) -> String {
    const REFUSED: [char; 9] = [' ', ',', ';', '{', '}', '(', ')', '\n', '='];
    if !name.is_empty() && !name.contains(REFUSED) && !name.contains('\t') {
        return name.to_owned();
    }
    let mut plain = String::new();
    for character in name.chars() {
        if character.is_alphanumeric() || character == '_' {
            plain.push(character);
        } else if !plain.ends_with('_') && !plain.is_empty() {
            plain.push('_');
        }
    }
    let plain = plain.trim_end_matches('_');
    if plain.is_empty() { "column".to_owned() } else { plain.to_owned() }
}

fn storable_type(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Decimal128(_, _) => ty.clone(),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        // Beyond 2^63 an insert fails, with an error that tells the value.
        DataType::UInt64 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, _) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, value) => storable_type(value)?,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(Arc::new(Field::new("element", storable_type(item.data_type())?, true)))
        }
        DataType::Struct(fields) => {
            let fields: Option<Fields> = fields
                .iter()
                .map(|field| Some(Field::new(field.name(), storable_type(field.data_type())?, true)))
                .collect();
            DataType::Struct(fields?)
        }
        DataType::Map(_, _) => ty.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_name_get_one() {
        let schema = Schema::new(vec![
            Field::new("count(*)", DataType::UInt64, false),
            Field::new("avg(smartHomeData.power)", DataType::Float64, true),
            Field::new("Count", DataType::Null, true),
            Field::new("*", DataType::Utf8View, true),
        ]);
        let stored = storable(&schema).unwrap();
        let names: Vec<_> = stored.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["count_2", "avg_smartHomeData_power", "Count", "*"]);
        assert_eq!(stored.field(0).data_type(), &DataType::Int64);
        assert_eq!(stored.field(2).data_type(), &DataType::Utf8);
    }

    #[test]
    fn what_no_table_holds_is_refused_with_the_columns_name() {
        let schema = Schema::new(vec![Field::new("gap", DataType::Duration(TimeUnit::Second), true)]);
        assert!(storable(&schema).unwrap_err().to_string().contains("`gap`"));
    }
}
