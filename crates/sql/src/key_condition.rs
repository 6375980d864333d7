//! Translates a statement's filters into conditions on the key columns of a table.
//!
//! A condition is true for at least the rows for which its filter is true. A table may therefore skip the other rows, and
//! need not do so exactly: DataFusion evaluates the filter itself afterwards. A literal has the type of its column. A
//! comparison with another type, or of anything but a bare column, is no condition.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList, Like};
use datafusion::logical_expr::{Expr, Operator};

/// A condition on key columns, which are named by their places in the table.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyCondition {
    /// All of these hold; of none, always.
    All(Vec<KeyCondition>),
    /// One of these holds; of none, never.
    Any(Vec<KeyCondition>),
    /// A column is null.
    Null(usize),
    /// A column is one of these values.
    In(usize, Vec<KeyLiteral>),
    /// A column has a value from the first to the second, both included; without one, from the least or to the greatest.
    Within(usize, Option<KeyLiteral>, Option<KeyLiteral>),
    /// A column is text that begins so.
    Begins(usize, String),
}

/// A value that a key column is compared with. It is never null and, as a number, never NaN.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyLiteral {
    /// A value of a BOOLEAN column.
    Boolean(bool),
    /// A value of a column of whole numbers.
    Whole(i64),
    /// A value of a DOUBLE column.
    Double(f64),
    /// A value of a text column.
    Text(String),
    /// A value of a TIMESTAMP column, in microseconds.
    Time(i64),
}

/// A literal in the type of its column.
enum ColumnLiteral {
    Null,
    Value(KeyLiteral),
}

impl KeyCondition {
    /// The condition that a filter puts on key columns; none where it puts none.
    pub(crate) fn of(filter: &Expr, schema: &Schema, is_key: &dyn Fn(usize) -> bool) -> Option<KeyCondition> {
        let of = |filter: &Expr| KeyCondition::of(filter, schema, is_key);
        let column = |expr: &Expr| match expr {
            Expr::Column(column) => schema.index_of(&column.name).ok().filter(|place| is_key(*place)),
            _ => None,
        };
        let truth = |expr: &Expr, truth: bool| {
            let column = column(expr)?;
            (*schema.field(column).data_type() == DataType::Boolean)
                .then(|| KeyCondition::In(column, vec![KeyLiteral::Boolean(truth)]))
        };
        let literal = |column: usize, expr: &Expr| compared(expr, schema.field(column).data_type());
        match filter {
            Expr::Column(_) => truth(filter, true),
            Expr::IsTrue(inner) => truth(inner, true),
            Expr::Not(inner) | Expr::IsFalse(inner) => truth(inner, false),
            Expr::IsNull(inner) => Some(KeyCondition::Null(column(inner)?)),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => match (of(left), of(right)) {
                (Some(left), Some(right)) => Some(KeyCondition::All(vec![left, right])),
                (left, right) => left.or(right),
            },
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                Some(KeyCondition::Any(vec![of(left)?, of(right)?]))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (column, value, op) = match (column(left), column(right)) {
                    (Some(column), None) => (column, literal(column, right)?, *op),
                    (None, Some(column)) => (column, literal(column, left)?, op.swap()?),
                    _ => return None,
                };
                let value = match (value, op) {
                    (ColumnLiteral::Value(value), _) => value,
                    (ColumnLiteral::Null, Operator::IsNotDistinctFrom) => {
                        return Some(KeyCondition::Null(column));
                    }
                    (ColumnLiteral::Null, _) => return None,
                };
                match op {
                    Operator::Eq | Operator::IsNotDistinctFrom => Some(KeyCondition::In(column, vec![value])),
                    Operator::Lt | Operator::LtEq => Some(KeyCondition::Within(column, None, Some(value))),
                    Operator::Gt | Operator::GtEq => Some(KeyCondition::Within(column, Some(value), None)),
                    _ => None,
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let column = column(expr)?;
                match (literal(column, low)?, literal(column, high)?) {
                    (ColumnLiteral::Value(low), ColumnLiteral::Value(high)) => {
                        Some(KeyCondition::Within(column, Some(low), Some(high)))
                    }
                    _ => None,
                }
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let column = column(expr)?;
                let mut values = Vec::with_capacity(list.len());
                for value in list {
                    // Nothing is equal to null.
                    if let ColumnLiteral::Value(value) = literal(column, value)? {
                        values.push(value);
                    }
                }
                Some(KeyCondition::In(column, values))
            }
            Expr::Like(Like {
                negated: false,
                expr,
                pattern,
                escape_char: None,
                case_insensitive: false,
            }) => {
                let column = column(expr)?;
                let ColumnLiteral::Value(KeyLiteral::Text(pattern)) = literal(column, pattern)? else {
                    return None;
                };
                let end = pattern.find(['%', '_', '\\']).unwrap_or(pattern.len());
                (end > 0).then(|| KeyCondition::Begins(column, pattern[..end].to_owned()))
            }
            _ => None,
        }
    }
}

/// A literal of a column's own type.
fn compared(expr: &Expr, ty: &DataType) -> Option<ColumnLiteral> {
    let Expr::Literal(value, _) = expr else { return None };
    if value.is_null() {
        return Some(ColumnLiteral::Null);
    }
    let value = match (ty, value) {
        (DataType::Boolean, ScalarValue::Boolean(Some(truth))) => KeyLiteral::Boolean(*truth),
        (DataType::Int32, ScalarValue::Int32(Some(whole))) => KeyLiteral::Whole((*whole).into()),
        (DataType::Int64, ScalarValue::Int64(Some(whole))) => KeyLiteral::Whole(*whole),
        (DataType::Float64, ScalarValue::Float64(Some(double))) if !double.is_nan() => {
            KeyLiteral::Double(*double)
        }
        (
            DataType::Utf8View,
            ScalarValue::Utf8View(Some(text))
            | ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
        ) => KeyLiteral::Text(text.clone()),
        (
            DataType::Timestamp(TimeUnit::Microsecond, zone),
            ScalarValue::TimestampMicrosecond(Some(micros), literal_zone),
        ) if zone == literal_zone => KeyLiteral::Time(*micros),
        _ => return None,
    };
    Some(ColumnLiteral::Value(value))
}
