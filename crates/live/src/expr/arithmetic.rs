//! Evaluates `+ - * / %` and ABS on two values.
//!
//! The result has the widest type of DOUBLE, FLOAT, LONG, INTEGER among the operands. Bullet: whole numbers wrap; a
//! floating division by zero is infinite or NaN. Native: INTEGER counts as LONG; overflow and any division by zero are
//! errors.

use swiftwater_event::Value;
use swiftwater_lang::Dialect;

/// The operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A number by the types that arithmetic knows.
enum NumberPair {
    Integers(i32, i32),
    Longs(i64, i64),
    Floats(f32, f32),
    Doubles(f64, f64),
}

/// `left operator right`; neither is null or an error.
pub(super) fn apply<'a>(
    operator: Arithmetic,
    left: Value<'a>,
    right: Value<'a>,
    dialect: Dialect,
) -> Value<'a> {
    match (pair(left, right), dialect) {
        (None, _) => Value::Error,
        (Some(NumberPair::Integers(a, b)), Dialect::Bullet) => wrapping_integer(operator, a, b),
        (Some(NumberPair::Integers(a, b)), Dialect::Native) => {
            checked_long(operator, i64::from(a), i64::from(b))
        }
        (Some(NumberPair::Longs(a, b)), Dialect::Bullet) => wrapping_long(operator, a, b),
        (Some(NumberPair::Longs(a, b)), Dialect::Native) => checked_long(operator, a, b),
        (Some(NumberPair::Floats(_, b)), Dialect::Native) if divides(operator) && b == 0.0 => Value::Error,
        (Some(NumberPair::Doubles(_, b)), Dialect::Native) if divides(operator) && b == 0.0 => Value::Error,
        (Some(NumberPair::Floats(a, b)), _) => Value::Float(match operator {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Remainder => a % b,
        }),
        (Some(NumberPair::Doubles(a, b)), _) => Value::Double(match operator {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Remainder => a % b,
        }),
    }
}

fn divides(operator: Arithmetic) -> bool {
    matches!(operator, Arithmetic::Divide | Arithmetic::Remainder)
}

/// The operands at the wider type of the two; `None` if one is no number.
fn pair(left: Value<'_>, right: Value<'_>) -> Option<NumberPair> {
    use Value::{Double, Float, Integer, Long};
    Some(match (left, right) {
        (Long(a), Long(b)) => NumberPair::Longs(a, b),
        (Integer(a), Integer(b)) => NumberPair::Integers(a, b),
        (Double(a), Double(b)) => NumberPair::Doubles(a, b),
        (Integer(a), Long(b)) => NumberPair::Longs(i64::from(a), b),
        (Long(a), Integer(b)) => NumberPair::Longs(a, i64::from(b)),
        (Double(_), _) | (_, Double(_)) => NumberPair::Doubles(double(left)?, double(right)?),
        (Float(_), _) | (_, Float(_)) => NumberPair::Floats(float(left)?, float(right)?),
        _ => return None,
    })
}

fn double(value: Value<'_>) -> Option<f64> {
    super::compare::as_double(&value)
}

/// Straight to a float: by way of a double a LONG would be rounded twice.
fn float(value: Value<'_>) -> Option<f32> {
    match value {
        Value::Integer(number) => Some(number as f32),
        Value::Long(number) => Some(number as f32),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

fn wrapping_integer<'a>(operator: Arithmetic, a: i32, b: i32) -> Value<'a> {
    Value::Integer(match operator {
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Subtract => a.wrapping_sub(b),
        Arithmetic::Multiply => a.wrapping_mul(b),
        Arithmetic::Divide | Arithmetic::Remainder if b == 0 => return Value::Error,
        Arithmetic::Divide => a.wrapping_div(b),
        Arithmetic::Remainder => a.wrapping_rem(b),
    })
}

fn wrapping_long<'a>(operator: Arithmetic, a: i64, b: i64) -> Value<'a> {
    Value::Long(match operator {
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Subtract => a.wrapping_sub(b),
        Arithmetic::Multiply => a.wrapping_mul(b),
        Arithmetic::Divide | Arithmetic::Remainder if b == 0 => return Value::Error,
        Arithmetic::Divide => a.wrapping_div(b),
        Arithmetic::Remainder => a.wrapping_rem(b),
    })
}

fn checked_long<'a>(operator: Arithmetic, a: i64, b: i64) -> Value<'a> {
    let result = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide => a.checked_div(b),
        // The smallest LONG % -1 is 0, though the quotient does not fit.
        Arithmetic::Remainder if b == -1 => Some(0),
        Arithmetic::Remainder => a.checked_rem(b),
    };
    result.map_or(Value::Error, Value::Long)
}

/// `ABS(value)`; the value is neither null nor an error. The smallest whole number has no positive counterpart: it
/// stays as it is in Bullet, is an error in native.
pub(super) fn absolute(value: Value<'_>, dialect: Dialect) -> Value<'_> {
    match (value, dialect) {
        (Value::Integer(number), Dialect::Bullet) => Value::Integer(number.wrapping_abs()),
        (Value::Integer(number), Dialect::Native) => Value::Long(i64::from(number).abs()),
        (Value::Long(number), Dialect::Bullet) => Value::Long(number.wrapping_abs()),
        (Value::Long(number), Dialect::Native) => number.checked_abs().map_or(Value::Error, Value::Long),
        (Value::Float(number), _) => Value::Float(number.abs()),
        (Value::Double(number), _) => Value::Double(number.abs()),
        _ => Value::Error,
    }
}
