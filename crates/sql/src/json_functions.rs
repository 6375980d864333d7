//! Functions that query JSON texts.
//!
//! An event that its columns do not fully represent is stored with its text; these functions query that text.
//!
//! | written | answer |
//! | --- | --- |
//! | `json_get_str(text, key, …)` | the text at that path |
//! | `json_get_int(…)`, `json_get_float(…)`, `json_get_bool(…)` | the whole number, the number, the boolean |
//! | `json_get_json(…)`, `text -> key` | what is there, as JSON |
//! | `json_as_text(…)`, `text ->> key` | the same, texts without their quotes |
//! | `json_length(…)` | how many elements or members there are |
//!
//! A key is a name, or a position in a list from 0. A value that is missing, has another type, or is not JSON, is null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use serde_json::Value;

/// Makes a session know all of them.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for wanted in [
        JsonResult::Text,
        JsonResult::Long,
        JsonResult::Double,
        JsonResult::Boolean,
        JsonResult::Json,
        JsonResult::AsText,
        JsonResult::Length,
    ] {
        state.register_udf(function(wanted))?;
    }
    state.register_expr_planner(Arc::new(Arrows))
}

fn function(wanted: JsonResult) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(JsonGet { wanted, signature: Signature::variadic_any(Volatility::Immutable) }))
}

/// The result of a function for the value at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum JsonResult {
    Text,
    Long,
    Double,
    Boolean,
    Json,
    AsText,
    Length,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonGet {
    wanted: JsonResult,
    signature: Signature,
}

impl ScalarUDFImpl for JsonGet {
    fn name(&self) -> &str {
        match self.wanted {
            JsonResult::Text => "json_get_str",
            JsonResult::Long => "json_get_int",
            JsonResult::Double => "json_get_float",
            JsonResult::Boolean => "json_get_bool",
            JsonResult::Json => "json_get_json",
            JsonResult::AsText => "json_as_text",
            JsonResult::Length => "json_length",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let is_text = |ty: &DataType| {
            matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
        };
        if !arguments.first().is_some_and(is_text) {
            return Err(DataFusionError::Plan(format!("{} takes a text and then keys", self.name())));
        }
        if !arguments[1..].iter().all(|ty| is_text(ty) || ty.is_integer()) {
            return Err(DataFusionError::Plan(format!(
                "a key of {} is a text or a whole number",
                self.name()
            )));
        }
        Ok(match self.wanted {
            JsonResult::Text | JsonResult::Json | JsonResult::AsText => DataType::Utf8,
            JsonResult::Long | JsonResult::Length => DataType::Int64,
            JsonResult::Double => DataType::Float64,
            JsonResult::Boolean => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let Some((texts, keys)) = arrays.split_first() else {
            return Err(DataFusionError::Plan(format!("{} takes a text and then keys", self.name())));
        };
        let texts = cast(texts, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let keys = keys.iter().map(Keys::of).collect::<Result<Vec<_>>>()?;
        let rows = if arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_))) {
            1
        } else {
            rows
        };
        let found = (0..rows).map(|row| {
            if texts.is_null(row) {
                return None;
            }
            let whole: Value = serde_json::from_str(texts.value(row)).ok()?;
            keys.iter().try_fold(whole, |value, keys| keys.step(value, row))
        });
        let answer: ArrayRef = match self.wanted {
            JsonResult::Text => Arc::new(found.map(|value| text(value?)).collect::<StringArray>()),
            JsonResult::Json => {
                Arc::new(found.map(|value| Some(value?.to_string())).collect::<StringArray>())
            }
            JsonResult::AsText => Arc::new(found.map(|value| as_text(value?)).collect::<StringArray>()),
            JsonResult::Long => Arc::new(found.map(|value| value?.as_i64()).collect::<Int64Array>()),
            JsonResult::Length => Arc::new(found.map(|value| length(&value?)).collect::<Int64Array>()),
            JsonResult::Double => Arc::new(found.map(|value| value?.as_f64()).collect::<Float64Array>()),
            JsonResult::Boolean => Arc::new(found.map(|value| value?.as_bool()).collect::<BooleanArray>()),
        };
        Ok(ColumnarValue::Array(answer))
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn as_text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn length(value: &Value) -> Option<i64> {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => return None,
    };
    i64::try_from(length).ok()
}

/// One step of a path, row by row.
enum Keys {
    Names(StringArray),
    Places(Int64Array),
}

impl Keys {
    fn of(array: &ArrayRef) -> Result<Keys> {
        Ok(if array.data_type().is_integer() {
            Keys::Places(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        } else {
            Keys::Names(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
        })
    }

    fn step(&self, value: Value, row: usize) -> Option<Value> {
        match (self, value) {
            (Keys::Names(names), Value::Object(mut members)) if names.is_valid(row) => {
                members.remove(names.value(row))
            }
            (Keys::Places(places), Value::Array(mut items)) if places.is_valid(row) => {
                let place = usize::try_from(places.value(row)).ok()?;
                (place < items.len()).then(|| items.swap_remove(place))
            }
            _ => None,
        }
    }
}

/// `->` and `->>`.
#[derive(Debug)]
struct Arrows;

impl ExprPlanner for Arrows {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let wanted = match expr.op {
            BinaryOperator::Arrow => JsonResult::Json,
            BinaryOperator::LongArrow => JsonResult::AsText,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let call = ScalarFunction::new_udf(function(wanted), vec![expr.left, expr.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}
