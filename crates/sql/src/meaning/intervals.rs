//! Intervals that are compared, by their length: a month is 30 days, a day 24 hours, as PostgreSQL counts.
//!
//! DataFusion 55 compares months, then days, then the rest, so 25 hours are less than a day. Limits: `ORDER BY`, `min` and `max` of
//! intervals still go by that; the difference of two times is a duration, of which there is no doubt.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, ScalarFunction, schema_name_from_exprs};
use datafusion::logical_expr::{
    self, BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

const DAY: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;
const PRECISION: u8 = 38;

/// A comparison of intervals, by their length.
pub(super) fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            match lengths([&left, &right], schema) {
                Some([left, right]) => {
                    let (left, right) = (Box::new(left), Box::new(right));
                    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
                }
                None => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let between = |expr, low, high| Expr::Between(Between { expr, negated, low, high });
            Ok(match lengths([&expr, &low, &high], schema) {
                Some([expr, low, high]) => {
                    Transformed::yes(between(Box::new(expr), Box::new(low), Box::new(high)))
                }
                None => Transformed::no(between(expr, low, high)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `date_part('microsecond', interval)` and the like: DataFusion 55 loses the fraction of more than two seconds.
pub(super) fn parts(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    let (true, [Expr::Literal(part, _), interval]) = (call.func.name() == "date_part", call.args.as_slice())
    else {
        return Ok(Transformed::no(expr));
    };
    let per_second = match part.try_as_str().flatten().unwrap_or_default().to_lowercase().as_str() {
        "microsecond" | "microseconds" | "us" => 1e6,
        "millisecond" | "milliseconds" | "ms" => 1e3,
        _ => return Ok(Transformed::no(expr)),
    };
    if !interval.get_type(schema).is_ok_and(|ty| matches!(ty, DataType::Interval(_))) {
        return Ok(Transformed::no(expr));
    }
    let epoch = call.func.call(vec![logical_expr::lit("epoch"), interval.clone()]);
    let seconds = epoch % logical_expr::lit(60.0) * logical_expr::lit(per_second);
    Ok(Transformed::yes(datafusion::functions::math::round().call(vec![seconds])))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The lengths of what is compared, where one is an interval and the others can be.
fn lengths<const N: usize>(compared: [&Expr; N], schema: &DFSchema) -> Option<[Expr; N]> {
    let mut types = Vec::with_capacity(N);
    for expr in compared {
        types.push(expr.get_type(schema).ok()?);
    }
    let is_length = |ty: &DataType| {
        ty.is_null() || ty.is_string() || matches!(ty, DataType::Interval(_) | DataType::Duration(_))
    };
    let has_interval = types.iter().any(|ty| matches!(ty, DataType::Interval(_)));
    if !has_interval || !types.iter().all(is_length) {
        return None;
    }
    let mut types = types.into_iter();
    Some(compared.map(|expr| {
        let operand = match types.next() {
            Some(DataType::Duration(_)) => {
                logical_expr::cast(expr.clone(), DataType::Duration(TimeUnit::Nanosecond))
            }
            _ => logical_expr::cast(expr.clone(), DataType::Interval(IntervalUnit::MonthDayNano)),
        };
        let function = ScalarUDF::from(Length(Signature::any(1, Volatility::Immutable)));
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![operand]))
    }))
}

/// How many nanoseconds an interval is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length(Signature);

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    /// A comparison is called by what is compared.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        schema_name_from_exprs(arguments).map_err(Into::into)
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(PRECISION, 0))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return plan_err!("interval_length takes an interval");
        };
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(1)?;
        let lengths: Decimal128Array = match values.data_type() {
            DataType::Duration(_) => {
                let nanos = cast(&values, &DataType::Int64)?;
                nanos.as_primitive::<Int64Type>().iter().map(|nanos| nanos.map(i128::from)).collect()
            }
            _ => {
                let intervals = values.as_primitive::<IntervalMonthDayNanoType>();
                let length = |interval: arrow::datatypes::IntervalMonthDayNano| {
                    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
                    days * DAY + i128::from(interval.nanoseconds)
                };
                intervals.iter().map(|interval| interval.map(length)).collect()
            }
        };
        let lengths: ArrayRef = Arc::new(lengths.with_precision_and_scale(PRECISION, 0)?);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(lengths),
        })
    }
}
