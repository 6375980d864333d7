//! The decoded columns of a batch: one Arrow column per want, one row per event.

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};

use crate::WantId;

/// The kinds of JSON values in a tagged column; the numbers are its Arrow type ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum Kind {
    /// Missing, `null`, or in error (see [`Column::errors`]).
    Null = 0,
    /// `true` or `false`.
    Boolean = 1,
    /// A number written without point and exponent that fits 64 bits.
    Long = 2,
    /// Any other number.
    Double = 3,
    /// Text.
    String = 4,
    /// A list, kept as its JSON text.
    List = 5,
    /// An object, kept as its JSON text.
    Map = 6,
}

/// The number of kinds there are.
pub const KIND_COUNT: usize = 7;

/// A column of values of any kind: Arrow's dense union, taken apart. Row `r` is element `offsets[r]` of the child that
/// `kinds[r]` names; a null has no child.
#[derive(Debug, Clone)]
pub struct Tagged {
    /// One [`Kind`] a row.
    pub kinds: ScalarBuffer<i8>,
    /// One place in a child a row; 0 where the kind is null.
    pub offsets: ScalarBuffer<i32>,
    /// The values that are booleans.
    pub booleans: BooleanArray,
    /// The whole numbers.
    pub longs: Int64Array,
    /// The other numbers.
    pub doubles: Float64Array,
    /// The texts.
    pub strings: StringViewArray,
    /// The lists and objects, as JSON text.
    pub containers: StringViewArray,
}

/// One decoded column's values.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one a column and batch")]
pub enum Values {
    /// BOOLEAN.
    Boolean(BooleanArray),
    /// INTEGER.
    Integer(Int32Array),
    /// LONG.
    Long(Int64Array),
    /// FLOAT.
    Float(Float32Array),
    /// DOUBLE.
    Double(Float64Array),
    /// STRING: views into the batch's own buffer, or into one of unescaped texts.
    String(StringViewArray),
    /// TIMESTAMP, in microseconds.
    Timestamp(TimestampMicrosecondArray),
    /// A list or map of a known type: Arrow `List` or `Map` arrays, within one another at most once.
    Nested(ArrayRef),
    /// Wanted untyped.
    Tagged(Tagged),
}

/// One want's column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The values; null where the event has none, or one that does not fit the wanted type.
    pub values: Values,
    /// Rows whose path cannot be had at all (an element past the end of a list, a step into something that has no
    /// parts); none where absent. Such rows are null in `values`.
    pub errors: Option<BooleanBuffer>,
    /// Rows that hold a value which does not fit the wanted type; none where absent.
    pub mistyped: Option<BooleanBuffer>,
}

/// The columns of a batch, in the order of the plan's wants.
#[derive(Debug, Clone, Default)]
pub struct Decoded {
    /// Rows of every column.
    pub rows: usize,
    /// One per want.
    pub columns: Vec<Column>,
}

impl Decoded {
    /// The column of a want.
    pub fn column(&self, id: WantId) -> &Column {
        &self.columns[id.0 as usize]
    }
}
