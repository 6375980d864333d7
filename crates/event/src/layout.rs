//! The layout of a type's column: how it is built, and the Arrow fields that all such columns share.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use crate::{Primitive, Type};

/// A type, made ready for columns of it.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Values of any kind.
    Tagged,
    /// The same in what this bracket opens.
    TaggedWithin(u8),
    /// Values without parts.
    Primitive(Primitive),
    /// Lists: the field of the elements.
    List(FieldRef, Box<Layout>),
    /// Maps: the field of the entries, and those of key and value.
    Map(FieldRef, Fields, Box<Layout>),
}

impl Layout {
    pub(crate) fn of(ty: &Type) -> Layout {
        match ty {
            Type::Any => Layout::Tagged,
            Type::Primitive(primitive) => Layout::Primitive(*primitive),
            Type::List(inner) if inner.contains_any() => Layout::TaggedWithin(b'['),
            Type::Map(inner) if inner.contains_any() => Layout::TaggedWithin(b'{'),
            Type::List(inner) => {
                let inner = Layout::of(inner);
                Layout::List(Arc::new(Field::new("item", inner.arrow(), true)), Box::new(inner))
            }
            Type::Map(inner) => {
                let inner = Layout::of(inner);
                let key = Field::new("key", DataType::Utf8View, false);
                let fields = Fields::from(vec![key, Field::new("value", inner.arrow(), true)]);
                let entries = Field::new("entries", DataType::Struct(fields.clone()), false);
                Layout::Map(Arc::new(entries), fields, Box::new(inner))
            }
        }
    }

    /// The Arrow type of such a column; of a tagged one, that of the texts of its containers.
    fn arrow(&self) -> DataType {
        match self {
            Layout::Tagged | Layout::TaggedWithin(_) => DataType::Utf8View,
            Layout::Primitive(primitive) => match primitive {
                Primitive::Boolean => DataType::Boolean,
                Primitive::Integer => DataType::Int32,
                Primitive::Long => DataType::Int64,
                Primitive::Float => DataType::Float32,
                Primitive::Double => DataType::Float64,
                Primitive::String => DataType::Utf8View,
                Primitive::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            },
            Layout::List(field, _) => DataType::List(Arc::clone(field)),
            Layout::Map(field, ..) => DataType::Map(Arc::clone(field), false),
        }
    }
}
