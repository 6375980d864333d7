//! Determines the types that Bullet sees in containers.
//!
//! Bullet types a container as a whole: a container of primitives of one type, or of maps of them. Any other container
//! has an unknown element type, and no element is comparable with that. A list of lists, or a map of lists, has no
//! container type at all.

use swiftwater_event::{Primitive, Type, Value};

/// A primitive type of Bullet; TIMESTAMP is not Bullet's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JavaPrimitive {
    Boolean,
    Integer,
    Long,
    Float,
    Double,
    String,
    Timestamp,
}

/// A type of Bullet. The element type of a container is `None` where it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JavaType {
    Null,
    Unknown,
    Primitive(JavaPrimitive),
    Map(Option<JavaPrimitive>),
    MapMap(Option<JavaPrimitive>),
    List(Option<JavaPrimitive>),
    MapList(Option<JavaPrimitive>),
}

/// True if Bullet has a type for this container: it has none for a list of lists, nor for a map of lists.
pub(crate) fn has_container_type(value: &Value<'_>) -> bool {
    JavaType::of_value(value) != JavaType::Unknown
}

impl JavaType {
    /// The type of a declared container; `None` for anything else.
    pub(super) fn of_type(ty: &Type) -> Option<JavaType> {
        let primitive = |ty: &Type| match ty {
            Type::Primitive(Primitive::Boolean) => Some(JavaPrimitive::Boolean),
            Type::Primitive(Primitive::Integer) => Some(JavaPrimitive::Integer),
            Type::Primitive(Primitive::Long) => Some(JavaPrimitive::Long),
            Type::Primitive(Primitive::Float) => Some(JavaPrimitive::Float),
            Type::Primitive(Primitive::Double) => Some(JavaPrimitive::Double),
            Type::Primitive(Primitive::String) => Some(JavaPrimitive::String),
            Type::Primitive(Primitive::Timestamp(_)) => Some(JavaPrimitive::Timestamp),
            Type::Any | Type::List(_) | Type::Map(_) => None,
        };
        match ty {
            Type::Any | Type::Primitive(_) => None,
            Type::List(inner) => match &**inner {
                Type::Map(value) => primitive(value).map(|value| JavaType::MapList(Some(value))),
                inner => primitive(inner).map(|element| JavaType::List(Some(element))),
            },
            Type::Map(inner) => match &**inner {
                Type::Map(value) => primitive(value).map(|value| JavaType::MapMap(Some(value))),
                inner => primitive(inner).map(|value| JavaType::Map(Some(value))),
            },
        }
    }

    /// The type of a value, as Bullet works it out where none is declared.
    pub(super) fn of_value(value: &Value<'_>) -> JavaType {
        JavaType::Primitive(match value {
            Value::Null | Value::Error => return JavaType::Null,
            Value::Boolean(_) => JavaPrimitive::Boolean,
            Value::Integer(_) => JavaPrimitive::Integer,
            Value::Long(_) => JavaPrimitive::Long,
            Value::Float(_) => JavaPrimitive::Float,
            Value::Double(_) => JavaPrimitive::Double,
            Value::String(_) => JavaPrimitive::String,
            Value::Timestamp(_) => JavaPrimitive::Timestamp,
            Value::List(items) => {
                return match JavaType::common(items.iter()) {
                    JavaType::Unknown => JavaType::List(None),
                    JavaType::Primitive(element) => JavaType::List(Some(element)),
                    JavaType::Map(value) => JavaType::MapList(value),
                    _ => JavaType::Unknown,
                };
            }
            Value::Map(entries) => {
                return match JavaType::common(entries.iter().map(|(_, value)| value)) {
                    JavaType::Unknown => JavaType::Map(None),
                    JavaType::Primitive(value) => JavaType::Map(Some(value)),
                    JavaType::Map(value) => JavaType::MapMap(value),
                    _ => JavaType::Unknown,
                };
            }
        })
    }

    /// The one type of all elements that are not null; a map of unknown values if all are maps of several types.
    fn common<'v>(values: impl Iterator<Item = &'v Value<'v>>) -> JavaType {
        let mut types = values.map(JavaType::of_value).filter(|ty| *ty != JavaType::Null);
        let Some(first) = types.next() else { return JavaType::Unknown };
        let (mut is_one, mut all_maps) = (true, first.is_map());
        for ty in types {
            is_one &= ty == first;
            all_maps &= ty.is_map();
        }
        match (is_one, all_maps) {
            (true, _) => first,
            (false, true) => JavaType::Map(None),
            (false, false) => JavaType::Unknown,
        }
    }

    fn is_map(self) -> bool {
        matches!(self, JavaType::Map(_) | JavaType::MapMap(_))
    }

    /// The type of what a declared container holds.
    pub(super) fn element(self) -> JavaType {
        match self {
            JavaType::MapMap(value) | JavaType::MapList(value) => JavaType::Map(value),
            JavaType::Map(Some(element)) | JavaType::List(Some(element)) => JavaType::Primitive(element),
            _ => JavaType::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_values() {
        use JavaPrimitive::{Integer, String};
        let integers = [Value::Integer(1), Value::Null];
        let mixed = [Value::Integer(1), Value::Double(1.5)];
        let map = [("a", Value::String("x"))];
        let map_of_integers = [("a", Value::Integer(1))];
        let maps = [Value::Map(&map), Value::Null];
        let several_maps = [Value::Map(&map), Value::Map(&map_of_integers)];
        let map_map = [("m", Value::Map(&map))];
        let deep = [("m", Value::Map(&map_map))];
        let lists = [Value::List(&integers)];
        let cases = [
            (Value::List(&integers), JavaType::List(Some(Integer))),
            (Value::List(&mixed), JavaType::List(None)),
            (Value::List(&[]), JavaType::List(None)),
            (Value::List(&maps), JavaType::MapList(Some(String))),
            (Value::List(&several_maps), JavaType::MapList(None)),
            (Value::List(&lists), JavaType::Unknown),
            (Value::Map(&map), JavaType::Map(Some(String))),
            (Value::Map(&map_map), JavaType::MapMap(Some(String))),
            (Value::Map(&deep), JavaType::Unknown),
            (Value::Map(&[]), JavaType::Map(None)),
        ];
        for (value, ty) in cases {
            assert_eq!(JavaType::of_value(&value), ty, "{value:?}");
        }
    }
}
