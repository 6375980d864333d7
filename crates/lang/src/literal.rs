//! Converts JSON constants, the values of a query's parameters, to literals.

use serde_json::Value;

use crate::plan::Literal;

impl Literal {
    /// The constant that a JSON value is: as the same digits in a query's text would be, so 5 is an INTEGER. For a
    /// list, an object, or a number that neither a LONG nor a DOUBLE can represent, the error names it.
    pub fn of_json(value: &Value) -> Result<Literal, &'static str> {
        match value {
            Value::Null => Ok(Literal::Null),
            Value::Bool(value) => Ok(Literal::Boolean(*value)),
            Value::String(text) => Ok(Literal::String(text.as_str().into())),
            Value::Array(_) => Err("a list"),
            Value::Object(_) => Err("an object"),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Ok(i32::try_from(whole).map_or(Literal::Long(whole), Literal::Integer)),
                (None, Some(double)) if number.is_f64() && double.is_finite() => Ok(Literal::Double(double)),
                (None, _) => Err("a number out of the range of LONG"),
            },
        }
    }
}
