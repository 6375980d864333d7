//! Infers, for SQL, the types of view columns that do not follow from declared columns.
//!
//! A view over a stream without declared columns may have values of any type. SQL needs one type per column, so the type is
//! inferred from the view's rows, unless the stream declares JSON. The types are BOOLEAN, LONG, DOUBLE (whole numbers and
//! fractions together), STRING, or JSON text for lists and objects. Text beside booleans, lists or objects is STRING, with
//! the others as JSON. A column without values has the type of the columns found in the stream's events, or else STRING.
//!
//! Numbers beside any other kind have no order that is right for all of them. The same is true of whole numbers beyond 2^53
//! beside fractions. A statement over such a view is refused.
//!
//! The inferred types are remembered, so a statement reads only the rows that had events since the previous one. Cost: one
//! pass over the view's keys, unless the view has had no events since.

use std::{
    borrow::Cow,
    ops::{BitOr, BitOrAssign, ControlFlow},
    sync::Arc,
};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray, cast::AsArray};
use arrow_schema::DataType;
use swiftwater_event::{Millis, Primitive, Type};
use swiftwater_live::KeyedQuery;

use super::{
    View,
    reading::{BATCH_KEYS, KeysAtOnce, RowColumns},
};
use crate::EngineError;

/// The largest whole number up to which all have a DOUBLE.
const DOUBLE_EXACT_MAX: u64 = 1 << 53;

/// The type that a column is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The type that the view's columns declare.
    Declared,
    Boolean,
    Long,
    Double,
    /// Strings as they are, other values as JSON.
    Text,
    /// JSON text.
    Json,
}

/// Kinds of values that a column has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const BOOLEAN: Kinds = Kinds(1);
    const LONG: Kinds = Kinds(2);
    /// A whole number that may have no DOUBLE.
    const LARGE: Kinds = Kinds(4);
    const DOUBLE: Kinds = Kinds(8);
    /// Text that a DOUBLE is written as, too: `"NaN"`, `"Infinity"`, `"-Infinity"`.
    const NOT_FINITE: Kinds = Kinds(16);
    const TEXT: Kinds = Kinds(32);
    const NESTED: Kinds = Kinds(64);

    /// The type of a JSON value.
    fn of(json: &str) -> Kinds {
        match json.as_bytes().first() {
            None | Some(b'n') => Kinds::default(),
            Some(b't' | b'f') => Kinds::BOOLEAN,
            Some(b'{' | b'[') => Kinds::NESTED,
            Some(b'"') if not_finite(json).is_some() => Kinds::NOT_FINITE,
            Some(b'"') => Kinds::TEXT,
            Some(_) => match json.parse::<i64>() {
                Ok(number) if number.unsigned_abs() <= DOUBLE_EXACT_MAX => Kinds::LONG,
                Ok(_) => Kinds::LARGE,
                Err(_) => Kinds::DOUBLE,
            },
        }
    }

    fn has(self, some: Kinds) -> bool {
        self.0 & some.0 != 0
    }

    /// True if it has no others than these.
    fn is_of(self, some: Kinds) -> bool {
        self.0 & !some.0 == 0
    }

    /// The type that such a column is read as; none where it has no values. An error names the types that conflict.
    fn shape(self) -> Result<Option<Shape>, &'static str> {
        let (whole, numbers) = (Kinds::LONG | Kinds::LARGE, Kinds::LONG | Kinds::LARGE | Kinds::DOUBLE);
        Ok(Some(match self {
            Kinds(0) => return Ok(None),
            Kinds::BOOLEAN => Shape::Boolean,
            Kinds::NESTED => Shape::Json,
            _ if self.is_of(whole) => Shape::Long,
            _ if self.has(Kinds::LARGE) && self.is_of(numbers | Kinds::NOT_FINITE) => {
                return Err("whole numbers beyond 2^53 and fractions");
            }
            _ if self.has(numbers) && self.is_of(numbers | Kinds::NOT_FINITE) => Shape::Double,
            _ if self.has(numbers) => return Err("numbers and values of other types"),
            _ => Shape::Text,
        }))
    }
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

impl BitOrAssign for Kinds {
    fn bitor_assign(&mut self, other: Kinds) {
        self.0 |= other.0;
    }
}

fn not_finite(json: &str) -> Option<f64> {
    match json {
        "\"NaN\"" => Some(f64::NAN),
        "\"Infinity\"" => Some(f64::INFINITY),
        "\"-Infinity\"" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The types found in a view's rows so far.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundKinds {
    /// All rows of before this position were looked at.
    position: u64,
    /// The types of each column; empty if no row was read.
    kinds: Vec<Kinds>,
}

impl Shape {
    /// The shape of a type that was found in a stream's events.
    fn of_type(ty: &Type) -> Shape {
        match ty {
            Type::Primitive(Primitive::Boolean) => Shape::Boolean,
            Type::Primitive(Primitive::Integer | Primitive::Long) => Shape::Long,
            Type::Primitive(Primitive::Float | Primitive::Double) => Shape::Double,
            Type::List(_) | Type::Map(_) => Shape::Json,
            Type::Primitive(Primitive::String | Primitive::Timestamp(_)) | Type::Any => Shape::Text,
        }
    }

    /// Its type in Arrow; none where the view's columns say it.
    pub(super) fn data_type(self) -> Option<DataType> {
        match self {
            Shape::Declared => None,
            Shape::Boolean => Some(DataType::Boolean),
            Shape::Long => Some(DataType::Int64),
            Shape::Double => Some(DataType::Float64),
            Shape::Text | Shape::Json => Some(DataType::Utf8View),
        }
    }

    /// JSON texts as values of this shape.
    pub(super) fn read(self, texts: ArrayRef) -> ArrayRef {
        let Some(json) = texts.as_string_view_opt() else { return texts };
        match self {
            Shape::Declared | Shape::Json => texts,
            Shape::Boolean => {
                Arc::new(json.iter().map(|json| json.map(|json| json == "true")).collect::<BooleanArray>())
            }
            Shape::Long => {
                let number = |json: Option<&str>| json.and_then(|json| json.parse::<i64>().ok());
                Arc::new(json.iter().map(number).collect::<Int64Array>())
            }
            Shape::Double => {
                let number = |json: Option<&str>| {
                    json.and_then(|json| not_finite(json).or_else(|| json.parse::<f64>().ok()))
                };
                Arc::new(json.iter().map(number).collect::<Float64Array>())
            }
            Shape::Text => Arc::new(json.iter().map(|json| json.map(text_of)).collect::<StringViewArray>()),
        }
    }
}

/// A string as it is, another value as JSON.
fn text_of(json: &str) -> Cow<'_, str> {
    if json.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(json)
    {
        return Cow::Owned(text);
    }
    Cow::Borrowed(json)
}

impl View {
    /// True if the types of some columns are only found in its rows.
    fn has_untyped(&self) -> bool {
        self.is_untyped && self.columns.iter().any(|(_, ty)| *ty == Type::Any)
    }

    /// The types that its columns declare.
    pub(super) fn declared_shapes(&self) -> Vec<Shape> {
        vec![Shape::Declared; self.columns.len()]
    }

    /// The types that its columns are read as, for these keys. `of_events`: the types of the columns that follow from what was found in the
    /// stream's events.
    pub(super) fn shapes(
        &self,
        keys: &KeysAtOnce,
        now: Millis,
        of_events: impl FnOnce() -> Vec<Type>,
    ) -> Result<Vec<Shape>, EngineError> {
        if !self.has_untyped() {
            return Ok(self.declared_shapes());
        }
        let mut found = self.found.lock().clone();
        let was_empty = found.kinds.is_empty();
        self.find_kinds(keys, &mut found, now)?;
        if !was_empty && self.shapes_of(&found.kinds).is_err() {
            // Kinds that conflict may be gone by now.
            found = FoundKinds::default();
            self.find_kinds(keys, &mut found, now)?;
        }
        let shapes = self.shapes_of(&found.kinds)?;
        *self.found.lock() = found;
        if shapes.iter().all(Option::is_some) {
            return Ok(shapes.into_iter().flatten().collect());
        }
        let of_events = of_events();
        let shape = |(place, shape): (usize, Option<Shape>)| {
            shape.unwrap_or_else(|| of_events.get(place).map_or(Shape::Text, Shape::of_type))
        };
        Ok(shapes.into_iter().enumerate().map(shape).collect())
    }

    /// The types that the columns of some rows, JSON objects a line each, are read as by themselves. Types that do not go together are text.
    pub(super) fn shapes_of_rows(&self, rows: &[u8], now: Millis) -> Result<Vec<Shape>, EngineError> {
        if !self.has_untyped() {
            return Ok(self.declared_shapes());
        }
        let mut kinds = vec![Kinds::default(); self.columns.len()];
        RowColumns::of(self, self.declared_shapes())?.add_kinds(rows.to_vec(), now, &mut kinds)?;
        let shape = |((_, ty), kinds): (&(_, Type), &Kinds)| match ty {
            Type::Any => kinds.shape().unwrap_or(Some(Shape::Text)).unwrap_or(Shape::Text),
            _ => Shape::Declared,
        };
        Ok(self.columns.iter().zip(&kinds).map(shape).collect())
    }

    fn shapes_of(&self, kinds: &[Kinds]) -> Result<Vec<Option<Shape>>, EngineError> {
        let shape = |((name, ty), kinds): (&(Box<str>, Type), &Kinds)| match ty {
            Type::Any => kinds.shape().map_err(|what| EngineError::ViewColumnMixed {
                view: self.name().to_owned(),
                column: name.to_string(),
                what,
            }),
            _ => Ok(Some(Shape::Declared)),
        };
        self.columns.iter().zip(kinds).map(shape).collect()
    }

    /// Reads the rows that changed since the last search.
    fn find_kinds(&self, keys: &KeysAtOnce, found: &mut FoundKinds, now: Millis) -> Result<(), EngineError> {
        if !found.kinds.is_empty() && found.position >= keys.at.position {
            // No row has changed since.
            return Ok(());
        }
        found.kinds.resize(self.columns.len(), Kinds::default());
        let (since, kinds) = (found.position, &mut found.kinds);
        let no_groups = || self.query.no_groups().ok_or_else(|| self.unavailable("it has no groups"));
        let mut columns = RowColumns::of(self, self.declared_shapes())?;
        let mut groups = no_groups()?;
        self.walk_keys(keys, |key, state| {
            let changed = KeyedQuery::changed_of_state(state).map_err(|error| self.unavailable(error))?;
            if changed > since {
                self.add(&mut groups, &key, state, now)?;
            }
            if groups.len() >= BATCH_KEYS {
                let some = std::mem::replace(&mut groups, no_groups()?);
                columns.add_kinds(self.query.rows(some, now).text.into(), now, kinds)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        columns.add_kinds(self.query.rows(groups, now).text.into(), now, kinds)?;
        found.position = found.position.max(keys.at.position);
        Ok(())
    }
}

impl RowColumns<'_> {
    /// Adds the kinds of the values of some rows.
    fn add_kinds(&mut self, rows: Vec<u8>, now: Millis, kinds: &mut [Kinds]) -> Result<(), EngineError> {
        if rows.is_empty() {
            return Ok(());
        }
        let rows = self.batch(rows, now)?;
        for ((array, kinds), (_, ty)) in rows.columns().iter().zip(kinds).zip(&self.view.columns) {
            if *ty == Type::Any
                && let Some(json) = array.as_string_view_opt()
            {
                json.iter().flatten().for_each(|json| *kinds |= Kinds::of(json));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(values: &[&str]) -> Result<Option<Shape>, &'static str> {
        values.iter().map(|json| Kinds::of(json)).fold(Kinds::default(), BitOr::bitor).shape()
    }

    #[test]
    fn a_column_has_the_type_that_all_its_values_have() {
        for (values, expected) in [
            (&["null"][..], None),
            (&["true", "null", "false"], Some(Shape::Boolean)),
            (&["1", "-9223372036854775808"], Some(Shape::Long)),
            (&["1", "2.5"], Some(Shape::Double)),
            (&["1e400", "\"Infinity\""], Some(Shape::Double)),
            (&["7", "\"NaN\""], Some(Shape::Double)),
            (&["\"NaN\""], Some(Shape::Text)),
            (&["\"web1\"", "\"\""], Some(Shape::Text)),
            (&["\"web1\"", "true", "[1]"], Some(Shape::Text)),
            (&["[]", "{\"a\":1}"], Some(Shape::Json)),
        ] {
            assert_eq!(shape(values), Ok(expected), "{values:?}");
        }
        for values in [&["1", "\"a\""][..], &["1.5", "true"], &["1", "[]"], &["9007199254740993", "0.5"]] {
            assert!(shape(values).is_err(), "{values:?}");
        }
    }

    #[test]
    fn text_is_read_without_its_quotes_and_escapes() {
        let json = ["\"a\\\"b\"", "\"\\u00e9\"", "5", "[\"x\"]"];
        let texts: ArrayRef = Arc::new(json.into_iter().map(Some).collect::<StringViewArray>());
        let read = Shape::Text.read(Arc::clone(&texts));
        let read: Vec<Option<&str>> = read.as_string_view().iter().collect();
        assert_eq!(read, [Some("a\"b"), Some("é"), Some("5"), Some("[\"x\"]")]);
        assert_eq!(&Shape::Json.read(Arc::clone(&texts)), &texts);
    }
}
