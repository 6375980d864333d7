//! Makes numeric functions fail where they have no result: `ln(0)`, `acos(2)`, `power(-8, 0.5)`, `exp(1000)`.
//!
//! DataFusion 55 returns NaN and infinities, which enter sums unnoticed. `chr(0)` fails too, because a text with a zero
//! byte cannot be sent to any PostgreSQL client.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::SqlError;
use crate::error::state;

/// Functions of which a finite number has a finite result, or none.
const FUNCTIONS: [&str; 14] = [
    "acos", "acosh", "asin", "atanh", "cosh", "exp", "ln", "log", "log10", "log2", "power", "sinh", "sqrt",
    "chr",
];

/// Replaces DataFusion's functions by those that fail.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in FUNCTIONS {
        let inner = state.udf(name)?;
        let aliases = inner.aliases().to_vec();
        state.register_udf(Arc::new(ScalarUDF::from(Checked { inner, aliases })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    // Rewritten to less, it would not be checked.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(arguments))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = arguments.args.clone();
        let result = self.inner.invoke_with_args(arguments)?;
        let array = match &result {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        if array.data_type().is_string() {
            check_text(&array)?;
        } else if array.data_type().is_floating() {
            check_numbers(self.name(), &given, &array)?;
        }
        Ok(result)
    }
}

fn fault(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::invalid(message).with_state(state::OUT_OF_RANGE)))
}

fn check_text(texts: &ArrayRef) -> Result<()> {
    let texts = cast(texts, &DataType::Utf8)?;
    match texts.as_string::<i32>().iter().flatten().any(|text| text.contains('\0')) {
        true => Err(fault("a text cannot have the character 0".to_owned())),
        false => Ok(()),
    }
}

fn check_numbers(name: &str, arguments: &[ColumnarValue], results: &ArrayRef) -> Result<()> {
    let results = cast(results, &DataType::Float64)?;
    let results = results.as_primitive::<Float64Type>();
    // The common case, only finite results, is checked first.
    if results.values().iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let numbers = arguments.iter().map(|argument| {
        let column = argument.to_array(results.len())?;
        Ok(cast(&column, &DataType::Float64)?)
    });
    let numbers = numbers.collect::<Result<Vec<ArrayRef>>>()?;
    for row in 0..results.len() {
        if results.is_null(row) || results.value(row).is_finite() {
            continue;
        }
        let values: Vec<f64> =
            numbers.iter().map(|column| column.as_primitive::<Float64Type>().value(row)).collect();
        if values.iter().all(|value| value.is_finite()) {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            return Err(fault(format!("{name}({}) is not a number, or too large", values.join(", "))));
        }
    }
    Ok(())
}
