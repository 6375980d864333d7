//! Converts decoded values to Arrow arrays, and their types to Arrow's.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ListArray, MapArray, StringViewArray, StructArray, builder::StringViewBuilder,
    cast::AsArray, make_array, types::TimestampMicrosecondType,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use swiftwater_event::{Kind, Primitive, Tagged, Type, Value, Values, write_json};

/// The zone of all times.
const UTC: &str = "UTC";

/// The Arrow type of a column.
pub fn arrow_type(ty: &Type) -> DataType {
    match ty {
        Type::Any => DataType::Utf8View,
        Type::Primitive(primitive) => match primitive {
            Primitive::Boolean => DataType::Boolean,
            Primitive::Integer => DataType::Int32,
            Primitive::Long => DataType::Int64,
            Primitive::Float => DataType::Float32,
            Primitive::Double => DataType::Float64,
            Primitive::String => DataType::Utf8View,
            Primitive::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        },
        Type::List(inner) => DataType::List(Arc::new(Field::new("item", arrow_type(inner), true))),
        Type::Map(inner) => {
            let fields = vec![
                Field::new("key", DataType::Utf8View, false),
                Field::new("value", arrow_type(inner), true),
            ];
            let entries = Field::new("entries", DataType::Struct(Fields::from(fields)), false);
            DataType::Map(Arc::new(entries), false)
        }
    }
}

/// The nulls of the values.
pub(super) fn nulls(values: &Values) -> Option<NullBuffer> {
    let array: &dyn Array = match values {
        Values::Boolean(array) => array,
        Values::Integer(array) => array,
        Values::Long(array) => array,
        Values::Float(array) => array,
        Values::Double(array) => array,
        Values::String(array) => array,
        Values::Timestamp(array) => array,
        Values::Nested(array) => array,
        Values::Tagged(tagged) => {
            let nulls = NullBuffer::from_iter(tagged.kinds.iter().map(|kind| *kind != Kind::Null as i8));
            return (nulls.null_count() > 0).then_some(nulls);
        }
    };
    array.nulls().filter(|nulls| nulls.null_count() > 0).cloned()
}

/// The array with these values null.
pub(super) fn without(array: &ArrayRef, gone: &BooleanBuffer) -> ArrayRef {
    let kept = NullBuffer::new(!gone);
    let nulls = NullBuffer::union(array.nulls(), Some(&kept));
    let data = array.to_data().into_builder().nulls(nulls).build();
    // Only the nulls were changed, and they are of the same length.
    data.map_or_else(|_| ArrayRef::clone(array), make_array)
}

/// The values as an array of [`arrow_type`].
pub(super) fn into_array(values: Values) -> ArrayRef {
    match values {
        Values::Boolean(array) => Arc::new(array),
        Values::Integer(array) => Arc::new(array),
        Values::Long(array) => Arc::new(array),
        Values::Float(array) => Arc::new(array),
        Values::Double(array) => Arc::new(array),
        Values::String(array) => Arc::new(array),
        Values::Timestamp(array) => Arc::new(array.with_timezone(UTC)),
        Values::Nested(array) => with_zone(array),
        Values::Tagged(tagged) => Arc::new(json_texts(&tagged)),
    }
}

/// Times within lists and maps are made UTC's too; anything else is as it was.
fn with_zone(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Arc::new(array.as_primitive::<TimestampMicrosecondType>().clone().with_timezone(UTC))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>().clone();
            let (_, offsets, values, nulls) = list.into_parts();
            let values = with_zone(values);
            let field = Field::new("item", values.data_type().clone(), true);
            Arc::new(ListArray::new(Arc::new(field), offsets, values, nulls))
        }
        DataType::Map(..) => {
            let (_, offsets, entries, nulls, ordered) = array.as_map().clone().into_parts();
            let (_, columns, _) = entries.into_parts();
            let columns: Vec<ArrayRef> = columns.into_iter().map(with_zone).collect();
            let value = columns.last().map_or(DataType::Null, |values| values.data_type().clone());
            let fields = Fields::from(vec![
                Field::new("key", DataType::Utf8View, false),
                Field::new("value", value, true),
            ]);
            let entries = StructArray::new(fields, columns, None);
            let field = Field::new("entries", entries.data_type().clone(), false);
            Arc::new(MapArray::new(Arc::new(field), offsets, entries, nulls, ordered))
        }
        _ => array,
    }
}

/// Values of all kinds as JSON text; lists and objects as they are written.
fn json_texts(tagged: &Tagged) -> StringViewArray {
    let mut texts = StringViewBuilder::with_capacity(tagged.kinds.len());
    let mut text = Vec::new();
    for (&kind, &offset) in tagged.kinds.iter().zip(tagged.offsets.iter()) {
        let place = offset as usize;
        let value = match kind {
            kind if kind == Kind::Boolean as i8 => Value::Boolean(tagged.booleans.value(place)),
            kind if kind == Kind::Long as i8 => Value::Long(tagged.longs.value(place)),
            kind if kind == Kind::Double as i8 => Value::Double(tagged.doubles.value(place)),
            kind if kind == Kind::String as i8 => Value::String(tagged.strings.value(place)),
            kind if kind == Kind::Null as i8 => {
                texts.append_null();
                continue;
            }
            _ => {
                texts.append_value(tagged.containers.value(place));
                continue;
            }
        };
        text.clear();
        write_json(&value, &mut text);
        texts.append_value(String::from_utf8_lossy(&text));
    }
    texts.finish()
}
