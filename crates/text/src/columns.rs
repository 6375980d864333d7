//! The columns that a query asks, and the values of a row, as their owner has them.

use std::sync::Arc;

use crate::{analyzer::Analyzer, query::Number};

/// The comparison of a column's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextKind {
    /// The texts are compared by their words.
    Words,
    /// The texts are compared as a whole, exactly.
    Whole,
    /// The texts are compared as a whole; a value is below each of its ancestors, which the separator divides.
    Path {
        /// The separator.
        separator: Box<str>,
    },
}

/// A column as a query asks it.
#[derive(Debug, Clone)]
pub struct SearchColumn {
    /// The number by which its values are asked for.
    pub id: u32,
    /// The comparison of its texts.
    pub kind: TextKind,
    /// The analyzer that divides its texts into words.
    pub analyzer: Arc<Analyzer>,
    /// The weight of its scores.
    pub boost: f32,
}

/// The reason why there is no such column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownColumn {
    /// The fault.
    pub message: String,
    /// The advice to the user.
    pub hint: Option<String>,
}

/// The columns of a table or stream.
pub trait SearchColumns {
    /// The columns that a word without a column is looked for in.
    fn defaults(&self) -> Vec<SearchColumn>;

    /// The column of a path.
    fn column(&self, path: &[Box<str>]) -> Result<SearchColumn, UnknownColumn>;
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'v> {
    /// A text.
    Text(&'v str),
    /// A number.
    Number(Number),
    /// A truth value.
    Boolean(bool),
    /// A time, in microseconds since 1970.
    Time(i64),
}

/// A row that is asked.
pub trait SearchRow {
    /// Visits the values of a column that are not null: the one there is, or all of a list, a map or an object at any depth.
    fn for_each_value(&self, column: u32, visit: &mut dyn FnMut(Value<'_>));
}
