//! Evaluates functions on lists and maps: sizes, elements and filters.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::cast;
use super::java_type::JavaType;
use super::text;

/// SIZEOF: elements of a container, units of text (UTF-16 in Bullet, characters in native). `None` for anything else,
/// which in Bullet is also what has no container type.
pub(super) fn size(value: &Value<'_>, declared: Option<JavaType>, dialect: Dialect) -> Option<usize> {
    match value {
        Value::String(text) => Some(text::length(text, dialect)),
        Value::List(_) | Value::Map(_)
            if dialect == Dialect::Bullet && java_type(value, declared) == JavaType::Unknown =>
        {
            None
        }
        Value::List(items) => Some(items.len()),
        Value::Map(entries) => Some(entries.len()),
        _ => None,
    }
}

/// SIZEOF in the native dialect.
pub(crate) fn native_size(value: &Value<'_>) -> Option<usize> {
    size(value, None, Dialect::Native)
}

/// The declared type of a container, else what Bullet makes of its value.
pub(super) fn java_type(value: &Value<'_>, declared: Option<JavaType>) -> JavaType {
    match declared {
        Some(declared) if declared != JavaType::Unknown => declared,
        _ => JavaType::of_value(value),
    }
}

/// `base[index]`, neither null nor an error: null where a map has no such key, an error where a list has no such
/// place, or where the base has no parts of that kind.
pub(super) fn element<'a>(base: Value<'a>, index: Value<'a>, dialect: Dialect) -> Value<'a> {
    match (base, index) {
        (Value::Map(entries), Value::String(key)) => {
            entries.iter().rev().find(|(name, _)| *name == key).map_or(Value::Null, |(_, value)| *value)
        }
        (Value::List(items), Value::Integer(_) | Value::Long(_)) => place(items, &index, dialect),
        (Value::List(items), Value::Float(_) | Value::Double(_)) if dialect == Dialect::Bullet => {
            place(items, &index, dialect)
        }
        _ => Value::Error,
    }
}

fn place<'a>(items: &[Value<'a>], index: &Value<'a>, dialect: Dialect) -> Value<'a> {
    let place = match dialect {
        Dialect::Bullet => cast::java_integer(index).map(i64::from),
        Dialect::Native => cast::java_long(index),
    };
    place
        .and_then(|place| usize::try_from(place).ok())
        .and_then(|place| items.get(place))
        .copied()
        .unwrap_or(Value::Error)
}

/// FILTER: the elements whose flag is true; an error if there are fewer flags than elements.
pub(super) fn filter<'a>(list: Value<'a>, flags: Value<'a>, arena: &'a Bump) -> Value<'a> {
    let (Value::List(items), Value::List(flags)) = (list, flags) else { return Value::Error };
    if flags.len() < items.len() {
        return Value::Error;
    }
    let kept = items.iter().zip(flags).filter(|(_, flag)| matches!(flag, Value::Boolean(true)));
    Value::List(bumpalo::collections::Vec::from_iter_in(kept.map(|(item, _)| *item), arena).into_bump_slice())
}

/// Converts whole numbers that fit 32 bits to INTEGER, also inside containers; a container without such numbers is not
/// copied.
pub(super) fn narrow<'a>(value: Value<'a>, arena: &'a Bump) -> Value<'a> {
    match value {
        Value::Long(number) => i32::try_from(number).map_or(value, Value::Integer),
        Value::List(items) if items.iter().any(may_narrow) => {
            Value::List(arena.alloc_slice_fill_iter(items.iter().map(|item| narrow(*item, arena))))
        }
        Value::Map(entries) if entries.iter().any(|(_, item)| may_narrow(item)) => Value::Map(
            arena.alloc_slice_fill_iter(entries.iter().map(|(key, item)| (*key, narrow(*item, arena)))),
        ),
        value => value,
    }
}

fn may_narrow(value: &Value<'_>) -> bool {
    matches!(value, Value::Long(_) | Value::List(_) | Value::Map(_))
}
