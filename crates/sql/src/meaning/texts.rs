//! Formats times that are concatenated with texts as PostgreSQL does.
//!
//! ```text
//! before: t || ' o''clock'     after: timestamp_text(t) || ' o''clock'
//! ```
//!
//! The text of a time is `2026-01-31 12:34:56.5`; an instant ends in `+00`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{ScalarFunction, schema_name_from_exprs};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::Dialect;
use crate::forms::write_pg_timestamp;

/// The text of a time.
pub(super) fn written(time: Expr) -> Expr {
    let function = timestamp_text();
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![time]))
}

/// Times that are put together with texts are written first.
pub(super) fn in_concat(expr: Expr, schema: &DFSchema, dialect: Dialect) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else { return Ok(Transformed::no(expr)) };
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, _)));
    if dialect != Dialect::Native || is_time(left) == is_time(right) {
        return Ok(Transformed::no(expr));
    }
    let text = |expr: &Expr| if is_time(expr) { written(expr.clone()) } else { expr.clone() };
    let (left, right) = (Box::new(text(left)), Box::new(text(right)));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op: *op, right })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimestampText(Signature);

/// The function that writes a time as PostgreSQL does.
pub(crate) fn timestamp_text() -> ScalarUDF {
    ScalarUDF::from(TimestampText(Signature::any(1, Volatility::Immutable)))
}

impl ScalarUDFImpl for TimestampText {
    fn name(&self) -> &str {
        "timestamp_text"
    }

    /// A column is called by what is cast.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(schema_name_from_exprs(arguments)?)
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [time] = arguments.args.as_slice() else { return plan_err!("timestamp_text takes a time") };
        let is_constant = matches!(time, ColumnarValue::Scalar(_));
        let times = time.to_array(1)?;
        let DataType::Timestamp(unit, zone) = times.data_type() else {
            return plan_err!("timestamp_text takes a time");
        };
        let (unit, has_zone): (TimeUnit, bool) = (*unit, zone.is_some());
        let values = cast(&times, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let mut out = StringBuilder::new();
        let mut text = Vec::new();
        for row in 0..times.len() {
            if times.is_null(row) {
                out.append_null();
                continue;
            }
            text.clear();
            write_pg_timestamp(values.value(row), unit, has_zone, &mut text);
            out.append_value(String::from_utf8_lossy(&text));
        }
        let texts = out.finish();
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(Arc::new(texts)),
        })
    }
}
