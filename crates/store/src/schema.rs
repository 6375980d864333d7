//! Converts types between Arrow's form in memory and Delta Lake's form in its log.
//!
//! ```text
//! type = "string" | "long" | "integer" | "short" | "byte" | "float" | "double" | "boolean" | "binary" | "date"
//!      | "timestamp" | "decimal(p,s)" | array | map | struct        (Delta Lake protocol, "Schema Serialization Format")
//! ```

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};

/// TIMESTAMP: microseconds, UTC.
pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(crate) fn list(element: DataType, nullable: bool) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, nullable)))
}

pub(crate) fn map(key: DataType, value: DataType, nullable: bool) -> DataType {
    let entries = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, nullable)]);
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
}

/// The type as which a table holds values of this type, of which there may be more kinds than Delta Lake has.
/// `None` where there is none.
pub(crate) fn stored_type(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Utf8View => ty.clone(),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) | DataType::BinaryView => {
            DataType::BinaryView
        }
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(..) => timestamp(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) if *s >= 0 => {
            DataType::Decimal128(*p, *s)
        }
        DataType::Dictionary(_, value) => stored_type(value)?,
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => list(stored_type(element.data_type())?, element.is_nullable()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => map(
                stored_type(fields[0].data_type())?,
                stored_type(fields[1].data_type())?,
                fields[1].is_nullable(),
            ),
            _ => return None,
        },
        DataType::Struct(fields) => DataType::Struct(stored_fields(fields)?),
        _ => return None,
    })
}

/// Converts each of these fields as [`stored_type`] does.
pub(crate) fn stored_fields(fields: &Fields) -> Option<Fields> {
    fields
        .iter()
        .map(|field| Some(Field::new(field.name(), stored_type(field.data_type())?, field.is_nullable())))
        .collect()
}

fn type_json(ty: &DataType) -> Option<Value> {
    Some(match ty {
        DataType::Boolean => json!("boolean"),
        DataType::Int8 => json!("byte"),
        DataType::Int16 => json!("short"),
        DataType::Int32 => json!("integer"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8View => json!("string"),
        DataType::BinaryView => json!("binary"),
        DataType::Date32 => json!("date"),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => json!("timestamp"),
        DataType::Decimal128(precision, scale) => json!(format!("decimal({precision},{scale})")),
        DataType::List(element) => json!({
            "type": "array",
            "elementType": type_json(element.data_type())?,
            "containsNull": element.is_nullable(),
        }),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => json!({
                "type": "map",
                "keyType": type_json(fields[0].data_type())?,
                "valueType": type_json(fields[1].data_type())?,
                "valueContainsNull": fields[1].is_nullable(),
            }),
            _ => return None,
        },
        DataType::Struct(fields) => json!({"type": "struct", "fields": fields_json(fields)?}),
        _ => return None,
    })
}

fn fields_json(fields: &Fields) -> Option<Vec<Value>> {
    fields
        .iter()
        .map(|field| {
            Some(json!({
                "name": field.name(),
                "type": type_json(field.data_type())?,
                "nullable": field.is_nullable(),
                "metadata": {},
            }))
        })
        .collect()
}

/// The text of a schema as it stands in the Delta log; `None` if a type has no word there.
pub(crate) fn to_delta(schema: &Schema) -> Option<String> {
    Some(json!({"type": "struct", "fields": fields_json(schema.fields())?}).to_string())
}

fn type_from(value: &Value) -> Option<DataType> {
    if let Some(word) = value.as_str() {
        return Some(match word {
            "boolean" => DataType::Boolean,
            "byte" => DataType::Int8,
            "short" => DataType::Int16,
            "integer" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "string" => DataType::Utf8View,
            "binary" => DataType::BinaryView,
            "date" => DataType::Date32,
            "timestamp" => timestamp(),
            _ => {
                let inner = word.strip_prefix("decimal(")?.strip_suffix(')')?;
                let (precision, scale) = inner.split_once(',')?;
                DataType::Decimal128(precision.trim().parse().ok()?, scale.trim().parse().ok()?)
            }
        });
    }
    match value["type"].as_str()? {
        "array" => {
            Some(list(type_from(&value["elementType"])?, value["containsNull"].as_bool().unwrap_or(true)))
        }
        "map" => Some(map(
            type_from(&value["keyType"])?,
            type_from(&value["valueType"])?,
            value["valueContainsNull"].as_bool().unwrap_or(true),
        )),
        "struct" => Some(DataType::Struct(fields_from(&value["fields"])?)),
        _ => None,
    }
}

fn fields_from(value: &Value) -> Option<Fields> {
    let field = |value: &Value| {
        let nullable = value["nullable"].as_bool().unwrap_or(true);
        Some(Field::new(value["name"].as_str()?, type_from(&value["type"])?, nullable))
    };
    value.as_array()?.iter().map(field).collect()
}

/// Reads the text of a schema in the Delta log; `None` if it has what is not known here.
pub(crate) fn from_delta(text: &str) -> Option<SchemaRef> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(Arc::new(Schema::new(fields_from(&value["fields"])?)))
}

/// Returns true if values of one type can be rewritten as those of the other, losing at most the last digits of a LONG.
pub(crate) fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64};
    matches!(
        (from, to),
        (Int8 | Int16 | Int32, Int64)
            | (Int8 | Int16, Int32)
            | (Int8 | Int16 | Int32 | Int64 | Float32, Float64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_survives_the_log() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, false),
            Field::new("b", list(map(DataType::Utf8View, DataType::Float64, true), true), true),
            Field::new("c", DataType::Decimal128(20, 3), true),
            Field::new("d", timestamp(), true),
            Field::new("e", DataType::Struct(vec![Field::new("x", DataType::Date32, true)].into()), true),
        ]);
        let text = to_delta(&schema).unwrap();
        assert_eq!(*from_delta(&text).unwrap(), schema, "{text}");
    }

    #[test]
    fn what_delta_has_no_word_for_is_stored_as_something_wider() {
        assert_eq!(stored_type(&DataType::UInt64), Some(DataType::Decimal128(20, 0)));
        assert_eq!(stored_type(&DataType::Timestamp(TimeUnit::Nanosecond, None)), Some(timestamp()));
        assert_eq!(stored_type(&DataType::Interval(arrow_schema::IntervalUnit::DayTime)), None);
        for ty in [DataType::UInt8, DataType::LargeUtf8, DataType::Null, DataType::Date64] {
            let stored = stored_type(&ty).unwrap();
            assert!(type_json(&stored).is_some(), "{ty}");
            assert_eq!(stored_type(&stored), Some(stored.clone()), "{ty}");
        }
    }
}
