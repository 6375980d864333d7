//! Typed access to the cells of a column: the type is resolved once per batch, not once per row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, LargeStringArray,
    ListArray, MapArray, StringArray, StringViewArray, StructArray, UnionArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::SqlError;

/// A column whose type is known.
pub(crate) enum Cells {
    Null,
    Boolean(BooleanArray),
    /// All whole numbers that fit.
    Long(ScalarBuffer<i64>, Option<NullBuffer>),
    UnsignedLong(ScalarBuffer<u64>, Option<NullBuffer>),
    Float(ScalarBuffer<f32>, Option<NullBuffer>),
    Double(ScalarBuffer<f64>, Option<NullBuffer>),
    Decimal(Decimal128Array, i8),
    WideDecimal(Decimal256Array),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Binary(BinaryArray),
    /// Days since 1970.
    Date(ScalarBuffer<i32>, Option<NullBuffer>),
    /// The time since midnight.
    Time(ScalarBuffer<i64>, Option<NullBuffer>, TimeUnit),
    /// The time since 1970: of an instant in UTC, else of a local time, without a zone.
    Timestamp(ScalarBuffer<i64>, Option<NullBuffer>, TimeUnit, Kind),
    List(OffsetBuffer<i32>, Option<NullBuffer>, Box<Cells>),
    Struct(Vec<(String, Cells)>, Option<NullBuffer>),
    Map(OffsetBuffer<i32>, Option<NullBuffer>, Box<Cells>, Box<Cells>),
    /// One of several kinds; of some the text is JSON already.
    Union(UnionArray, Vec<(i8, Cells, bool)>),
    /// Types that are seldom shown, as Arrow prints them: intervals, durations.
    Printed(ArrayRef),
}

/// The kinds of values that a timestamp column can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Instant,
    Local,
}

impl Cells {
    /// Takes local times for instants in UTC, as events have them.
    pub(crate) fn take_local_for_utc(&mut self) {
        match self {
            Cells::Timestamp(_, _, _, kind) => *kind = Kind::Instant,
            Cells::List(_, _, items) => items.take_local_for_utc(),
            Cells::Struct(fields, _) => fields.iter_mut().for_each(|(_, field)| field.take_local_for_utc()),
            Cells::Map(_, _, keys, values) => {
                keys.take_local_for_utc();
                values.take_local_for_utc();
            }
            _ => {}
        }
    }

    pub(crate) fn new(array: &ArrayRef) -> Result<Cells, SqlError> {
        Cells::of(array).map_err(|error| SqlError::internal("a column cannot be written").with_source(error))
    }

    fn of(array: &ArrayRef) -> Result<Cells, ArrowError> {
        Ok(match array.data_type() {
            DataType::Null => Cells::Null,
            DataType::Boolean => Cells::Boolean(array.as_boolean().clone()),
            DataType::Int8 => long::<Int8Type>(array),
            DataType::Int16 => long::<Int16Type>(array),
            DataType::Int32 => long::<Int32Type>(array),
            DataType::Int64 => {
                let array = array.as_primitive::<Int64Type>();
                Cells::Long(array.values().clone(), array.nulls().cloned())
            }
            DataType::UInt8 => long::<UInt8Type>(array),
            DataType::UInt16 => long::<UInt16Type>(array),
            DataType::UInt32 => long::<UInt32Type>(array),
            DataType::UInt64 => {
                let array = array.as_primitive::<UInt64Type>();
                Cells::UnsignedLong(array.values().clone(), array.nulls().cloned())
            }
            DataType::Float16 => Cells::of(&cast(array, &DataType::Float32)?)?,
            DataType::Float32 => {
                let array = array.as_primitive::<Float32Type>();
                Cells::Float(array.values().clone(), array.nulls().cloned())
            }
            DataType::Float64 => {
                let array = array.as_primitive::<Float64Type>();
                Cells::Double(array.values().clone(), array.nulls().cloned())
            }
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                Cells::of(&cast(array, &DataType::Decimal128(*precision, *scale))?)?
            }
            DataType::Decimal128(_, scale) => Cells::Decimal(array.as_primitive().clone(), *scale),
            DataType::Decimal256(_, _) => Cells::WideDecimal(array.as_primitive().clone()),
            DataType::Utf8 => Cells::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Cells::LargeText(array.as_string().clone()),
            DataType::Utf8View => Cells::TextView(array.as_string_view().clone()),
            DataType::Binary => Cells::Binary(array.as_binary().clone()),
            DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Cells::of(&cast(array, &DataType::Binary)?)?
            }
            DataType::Date32 => {
                let array = array.as_primitive::<arrow::datatypes::Date32Type>();
                Cells::Date(array.values().clone(), array.nulls().cloned())
            }
            DataType::Date64 => Cells::of(&cast(array, &DataType::Date32)?)?,
            DataType::Time32(unit) => {
                let wide = cast(array, &DataType::Int32)?;
                let wide = cast(&wide, &DataType::Int64)?;
                let wide = wide.as_primitive::<Int64Type>();
                Cells::Time(wide.values().clone(), wide.nulls().cloned(), *unit)
            }
            DataType::Time64(unit) => {
                let wide = cast(array, &DataType::Int64)?;
                let wide = wide.as_primitive::<Int64Type>();
                Cells::Time(wide.values().clone(), wide.nulls().cloned(), *unit)
            }
            DataType::Timestamp(unit, zone) => {
                let wide = cast(array, &DataType::Int64)?;
                let wide = wide.as_primitive::<Int64Type>();
                let kind = if zone.is_some() { Kind::Instant } else { Kind::Local };
                Cells::Timestamp(wide.values().clone(), wide.nulls().cloned(), *unit, kind)
            }
            DataType::List(_) => list(array.as_list())?,
            DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                list(cast(array, &DataType::List(Arc::clone(item)))?.as_list())?
            }
            DataType::Struct(_) => structure(array.as_struct())?,
            DataType::Map(_, _) => map(array.as_map())?,
            DataType::Dictionary(_, value) => Cells::of(&cast(array, value)?)?,
            DataType::RunEndEncoded(_, values) => Cells::of(&cast(array, values.data_type())?)?,
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let children = fields.iter().map(|(id, field)| {
                    let holds_json = matches!(field.name().as_str(), "array" | "object")
                        && matches!(field.data_type(), DataType::Utf8);
                    Ok((id, Cells::of(union.child(id))?, holds_json))
                });
                let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
                Cells::Union(union.clone(), children)
            }
            _ => Cells::Printed(Arc::clone(array)),
        })
    }

    /// Returns true if a cell is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        let absent = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match self {
            Cells::Null => true,
            Cells::Boolean(array) => array.is_null(row),
            Cells::Long(_, nulls)
            | Cells::UnsignedLong(_, nulls)
            | Cells::Float(_, nulls)
            | Cells::Double(_, nulls)
            | Cells::Date(_, nulls)
            | Cells::Time(_, nulls, _)
            | Cells::Timestamp(_, nulls, _, _)
            | Cells::List(_, nulls, _)
            | Cells::Struct(_, nulls)
            | Cells::Map(_, nulls, _, _) => absent(nulls),
            Cells::Decimal(array, _) => array.is_null(row),
            Cells::WideDecimal(array) => array.is_null(row),
            Cells::Text(array) => array.is_null(row),
            Cells::LargeText(array) => array.is_null(row),
            Cells::TextView(array) => array.is_null(row),
            Cells::Binary(array) => array.is_null(row),
            Cells::Union(_, _) => match self.member(row) {
                Some((cells, place, _)) => cells.is_null(place),
                None => true,
            },
            Cells::Printed(array) => array.is_null(row),
        }
    }

    /// The column of a union that has the value, its row there, and a flag that its text is JSON.
    pub(crate) fn member(&self, row: usize) -> Option<(&Cells, usize, bool)> {
        let Cells::Union(array, children) = self else {
            return None;
        };
        let id = array.type_id(row);
        let (_, cells, holds_json) = children.iter().find(|(child, _, _)| *child == id)?;
        Some((cells, array.value_offset(row), *holds_json))
    }

    /// The text of a cell of text.
    pub(crate) fn text(&self, row: usize) -> Option<&str> {
        match self {
            Cells::Text(array) => Some(array.value(row)),
            Cells::LargeText(array) => Some(array.value(row)),
            Cells::TextView(array) => Some(array.value(row)),
            _ => None,
        }
    }
}

/// The text of a cell as Arrow prints it.
pub(crate) fn print(array: &ArrayRef, row: usize) -> String {
    match ArrayFormatter::try_new(array, &FormatOptions::default()) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => String::new(),
    }
}

fn long<T>(array: &ArrayRef) -> Cells
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let array = array.as_primitive::<T>();
    Cells::Long(array.values().iter().map(|&value| value.into()).collect(), array.nulls().cloned())
}

fn list(array: &ListArray) -> Result<Cells, ArrowError> {
    let items = Cells::of(array.values())?;
    Ok(Cells::List(array.offsets().clone(), array.nulls().cloned(), Box::new(items)))
}

fn structure(array: &StructArray) -> Result<Cells, ArrowError> {
    let fields = array.fields().iter().zip(array.columns());
    let fields =
        fields.map(|(field, column): (&Arc<Field>, _)| Ok((field.name().clone(), Cells::of(column)?)));
    Ok(Cells::Struct(fields.collect::<Result<Vec<_>, ArrowError>>()?, array.nulls().cloned()))
}

fn map(array: &MapArray) -> Result<Cells, ArrowError> {
    let keys = Cells::of(array.keys())?;
    let values = Cells::of(array.values())?;
    Ok(Cells::Map(array.offsets().clone(), array.nulls().cloned(), Box::new(keys), Box::new(values)))
}
