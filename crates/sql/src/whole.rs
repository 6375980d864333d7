//! Converts numbers that are written to a column of whole numbers; a fraction, or a value beyond the column's type, is an
//! error.
//!
//! ```text
//! before: x, of DOUBLE or DECIMAL     after: whole(x)
//! ```
//!
//! A cast would cut the fraction off silently.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::state;
use crate::{SqlError, type_name};

/// Returns true if values of one type may have fractions that the other type does not have.
pub(crate) fn is_cut(from: &DataType, into: &DataType) -> bool {
    (from.is_floating() || from.is_decimal()) && into.is_integer()
}

/// A value as what a column of whole numbers holds.
pub(crate) fn whole(value: Expr, column: &str, ty: &DataType) -> Expr {
    whole_function(column, ty).call(vec![value])
}

/// The function of a column's name and type.
pub(crate) fn whole_function(column: &str, ty: &DataType) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Whole { column: column.to_owned(), ty: ty.clone(), signature })
}

/// The column's name and type; none of another function.
#[cfg(feature = "distributed")]
pub(crate) fn whole_column(function: &ScalarUDF) -> Option<(&str, &DataType)> {
    function.inner().downcast_ref::<Whole>().map(|whole| (whole.column.as_str(), &whole.ty))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    column: String,
    ty: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "whole"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let Some(given) = arrays.first() else {
            return Err(DataFusionError::Plan("whole takes a number".to_owned()));
        };
        // Null where a number is beyond the type.
        let whole =
            cast_with_options(given, &self.ty, &CastOptions { safe: true, ..CastOptions::default() })?;
        match first_cut(given, &whole)? {
            None => Ok(ColumnarValue::Array(whole)),
            Some(row) => {
                let (value, ty) = (array_value_to_string(given, row)?, type_name(&self.ty));
                let told = format!("column `{}` is {ty}, and {value} is not in its range", self.column);
                let error = SqlError::invalid(told).with_state(state::OUT_OF_RANGE);
                Err(error.with_hint(format!("ROUND it, or CAST it AS {ty}, which rounds as well.")).into())
            }
        }
    }
}

/// The first number that became another, or none.
fn first_cut(given: &ArrayRef, whole: &ArrayRef) -> Result<Option<usize>> {
    if given.data_type().is_floating() {
        // By value: 0 is -0. A whole number that was made of a DOUBLE is one again without rounding.
        let (given, whole) = (cast(given, &DataType::Float64)?, cast(whole, &DataType::Float64)?);
        let (given, whole) = (given.as_primitive::<Float64Type>(), whole.as_primitive::<Float64Type>());
        let is_cut = |row: &usize| {
            given.is_valid(*row) && (whole.is_null(*row) || given.value(*row) != whole.value(*row))
        };
        return Ok((0..given.len()).find(is_cut));
    }
    let back = cast(whole, given.data_type())?;
    Ok(distinct(&back, given)?.values().set_indices().next())
}
