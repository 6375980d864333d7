//! Casts to a floating-point type that fail if the result is out of its range, as in PostgreSQL.
//!
//! ```text
//! before: CAST(x AS DOUBLE)     after: in_range(x)
//! ```
//!
//! DataFusion 55 returns infinity for `'1e400'::DOUBLE` and `1e300::REAL`, and zero for `'1e-400'::DOUBLE`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{ScalarFunction, schema_name_from_exprs};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::SqlError;
use crate::error::state;

/// Returns true if a cast from one type to the other may leave the range.
pub(crate) fn may_leave_range(from: &DataType, to: &DataType) -> bool {
    match from {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => to.is_floating(),
        DataType::Float64 | DataType::Decimal128(_, _) | DataType::Decimal256(_, _) => {
            *to == DataType::Float32
        }
        _ => false,
    }
}

/// The value cast to that type, or an error.
pub(crate) fn in_range(value: Expr, to: DataType) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(range_function(to)), vec![value]))
}

/// The function that casts to a type.
pub(crate) fn range_function(to: DataType) -> ScalarUDF {
    ScalarUDF::from(InRange { to, signature: Signature::any(1, Volatility::Immutable) })
}

/// The type that the function casts to; none of another function.
#[cfg(feature = "distributed")]
pub(crate) fn range_type(function: &ScalarUDF) -> Option<&DataType> {
    function.inner().downcast_ref::<InRange>().map(|range| &range.to)
}

/// An error that names a number and the type that it is out of range of.
pub(super) fn out_of_range(number: &str, ty: &DataType) -> SqlError {
    let name = crate::type_name(ty);
    SqlError::invalid(format!("`{number}` is out of range of {name}")).with_state(state::OUT_OF_RANGE)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InRange {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for InRange {
    fn name(&self) -> &str {
        "in_range"
    }

    /// A column is called by what is cast.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        schema_name_from_exprs(arguments).map_err(Into::into)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else { return plan_err!("a cast has one operand") };
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(1)?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let numbers = cast_with_options(&values, &self.to, &options)?;
        self.check(&values, &numbers)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&numbers, 0)?),
            false => ColumnarValue::Array(numbers),
        })
    }
}

impl InRange {
    fn check(&self, values: &ArrayRef, numbers: &ArrayRef) -> Result<()> {
        let doubles = cast(numbers, &DataType::Float64)?;
        let doubles = doubles.as_primitive::<Float64Type>();
        let is_suspect = |number: &f64| number.is_infinite() || *number == 0.0;
        if !doubles.values().iter().any(is_suspect) {
            return Ok(());
        }
        let texts = cast(values, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        for (number, text) in doubles.iter().zip(texts) {
            let (Some(number), Some(text)) = (number, text) else { continue };
            // A text that stands for infinity has no digits, one that stands for zero no other digit.
            let is_wrong = match number.is_infinite() {
                true => text.bytes().any(|byte| byte.is_ascii_digit()),
                false => {
                    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
                    number == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
                }
            };
            if is_wrong {
                return Err(DataFusionError::External(Box::new(out_of_range(text, &self.to))));
            }
        }
        Ok(())
    }
}
