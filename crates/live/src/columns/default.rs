//! Replaces missing and null values of a column by the column's default.

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringViewArray, cast::AsArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_select::zip::zip;
use bumpalo::Bump;
use swiftwater_event::{Millis, Primitive, Type, Value, Values};
use swiftwater_lang::{
    Dialect,
    ddl::DefaultValue,
    plan::{Expr, Function},
};

use crate::expr::{EvalCounts, Program, Rows, Scratch, Wants};

/// A column's default, as its type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Default {
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    String(Box<str>),
    /// Microseconds.
    Timestamp(i64),
    /// Arrival of the batch: microseconds, or milliseconds for a LONG.
    Now,
}

impl Default {
    /// The default of a column of this type. `Ok(None)`: it is NULL, which is none; `Err`: it does not fit.
    pub(super) fn new(default: &DefaultValue, ty: &Type) -> Result<Option<Default>, ()> {
        let constant = match default {
            DefaultValue::Now => {
                return match ty {
                    Type::Primitive(Primitive::Timestamp(_) | Primitive::Long) => Ok(Some(Default::Now)),
                    _ => Err(()),
                };
            }
            DefaultValue::Constant(constant) => constant,
        };
        let expr = constant.expr().map_err(|_| ())?;
        let cast = Expr::Call { function: Function::Cast(ty.clone()), args: vec![expr.clone()] };
        let arena = Bump::new();
        if matches!(value_of(&expr, &arena)?, Value::Null) {
            return Ok(None);
        }
        match value_of(&cast, &arena)? {
            Value::Boolean(value) => Ok(Some(Default::Boolean(value))),
            Value::Integer(value) => Ok(Some(Default::Integer(value))),
            Value::Long(value) => Ok(Some(Default::Long(value))),
            Value::Float(value) => Ok(Some(Default::Float(value))),
            Value::Double(value) => Ok(Some(Default::Double(value))),
            Value::String(value) => Ok(Some(Default::String(value.into()))),
            Value::Timestamp(value) => Ok(Some(Default::Timestamp(value))),
            Value::Null | Value::Error | Value::List(_) | Value::Map(_) => Err(()),
        }
    }

    /// The values with this where they are null.
    pub(super) fn fill(&self, values: Values, nulls: &NullBuffer, now: Millis) -> Values {
        match (self, values) {
            (Default::Boolean(default), Values::Boolean(array)) => {
                let valid = nulls.inner();
                let filled = match default {
                    true => array.values() | &!valid,
                    false => array.values() & valid,
                };
                Values::Boolean(BooleanArray::new(filled, None))
            }
            (Default::Integer(default), Values::Integer(array)) => {
                Values::Integer(numbers(&array, nulls, *default))
            }
            (Default::Long(default), Values::Long(array)) => Values::Long(numbers(&array, nulls, *default)),
            (Default::Now, Values::Long(array)) => Values::Long(numbers(&array, nulls, now)),
            (Default::Float(default), Values::Float(array)) => {
                Values::Float(numbers(&array, nulls, *default))
            }
            (Default::Double(default), Values::Double(array)) => {
                Values::Double(numbers(&array, nulls, *default))
            }
            (Default::Timestamp(default), Values::Timestamp(array)) => {
                Values::Timestamp(numbers(&array, nulls, *default))
            }
            (Default::Now, Values::Timestamp(array)) => {
                Values::Timestamp(numbers(&array, nulls, now.saturating_mul(1000)))
            }
            (Default::String(default), Values::String(array)) => Values::String(texts(array, nulls, default)),
            // A default is of its column's type: it was cast to that.
            (_, values) => values,
        }
    }
}

fn value_of<'a>(expr: &Expr, arena: &'a Bump) -> Result<Value<'a>, ()> {
    let program = Program::compile(expr, Dialect::Native, &mut Wants::new()).map_err(|_| ())?;
    let mut values = Vec::new();
    let rows = Rows::Slots { columns: &[], count: 1, now: 0 };
    let mut counts = EvalCounts::default();
    program.evaluate(&rows, &mut Scratch::new(), arena, &mut counts, &mut values);
    match values.first() {
        Some(value) if counts.expression_errors == 0 => Ok(*value),
        _ => Err(()),
    }
}

fn numbers<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    nulls: &NullBuffer,
    default: T::Native,
) -> PrimitiveArray<T> {
    let values = array.values().iter().zip(nulls.iter());
    PrimitiveArray::from_iter_values(values.map(|(value, is_valid)| if is_valid { *value } else { default }))
}

fn texts(array: StringViewArray, nulls: &NullBuffer, default: &str) -> StringViewArray {
    let default = StringViewArray::new_scalar(default);
    let is_valid = BooleanArray::new(BooleanBuffer::clone(nulls.inner()), None);
    // Both sides are texts, and there are as many nulls as values, so nothing is left that could fail.
    let filled: Option<ArrayRef> = zip(&is_valid, &array, &default).ok();
    filled.map_or(array, |filled| filled.as_string_view().clone())
}
