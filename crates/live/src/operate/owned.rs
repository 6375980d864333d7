//! Owned values that outlive their batch.

use bumpalo::Bump;
use swiftwater_event::Value;

/// A [`Value`] that owns its text and parts.
#[derive(Debug, Clone)]
pub(crate) enum OwnedValue {
    /// Anything of fixed size.
    Plain(Value<'static>),
    String(Box<str>),
    List(Box<[OwnedValue]>),
    Map(Box<[(Box<str>, OwnedValue)]>),
}

impl OwnedValue {
    pub(crate) const NULL: OwnedValue = OwnedValue::Plain(Value::Null);

    pub(crate) fn of(value: &Value<'_>) -> OwnedValue {
        OwnedValue::Plain(match *value {
            Value::String(text) => return OwnedValue::String(text.into()),
            Value::List(items) => return OwnedValue::List(items.iter().map(OwnedValue::of).collect()),
            Value::Map(entries) => {
                return OwnedValue::Map(
                    entries.iter().map(|(key, value)| ((*key).into(), OwnedValue::of(value))).collect(),
                );
            }
            Value::Null => Value::Null,
            Value::Error => Value::Error,
            Value::Boolean(x) => Value::Boolean(x),
            Value::Integer(x) => Value::Integer(x),
            Value::Long(x) => Value::Long(x),
            Value::Float(x) => Value::Float(x),
            Value::Double(x) => Value::Double(x),
            Value::Timestamp(x) => Value::Timestamp(x),
        })
    }

    /// The value, borrowed; containers are laid out in `arena`.
    pub(crate) fn get<'a>(&'a self, arena: &'a Bump) -> Value<'a> {
        match self {
            OwnedValue::Plain(value) => *value,
            OwnedValue::String(text) => Value::String(text),
            OwnedValue::List(items) => {
                Value::List(arena.alloc_slice_fill_iter(items.iter().map(|item| item.get(arena))))
            }
            OwnedValue::Map(entries) => Value::Map(
                arena.alloc_slice_fill_iter(entries.iter().map(|(key, value)| (&**key, value.get(arena)))),
            ),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            OwnedValue::Plain(_) => 0,
            OwnedValue::String(text) => text.len(),
            OwnedValue::List(items) => {
                items.iter().map(|item| size_of::<OwnedValue>() + item.heap_bytes()).sum()
            }
            OwnedValue::Map(entries) => entries
                .iter()
                .map(|(key, value)| 16 + key.len() + size_of::<OwnedValue>() + value.heap_bytes())
                .sum(),
        }
    }
}
