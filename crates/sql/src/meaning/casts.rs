//! Rewrites casts and `round` so that they return PostgreSQL's results.
//!
//! | cast | PostgreSQL and here | DataFusion 55 |
//! | --- | --- | --- |
//! | a double to a whole number | the nearest; ties to the even one, of a literal away from zero | cuts the fraction off |
//! | `round` of a double | the nearest; ties to the even one, of a literal away from zero | ties away from zero |
//! | a decimal to a whole number | the nearest; ties away from zero | cuts the fraction off |
//! | a time to a text | `2026-01-31 12:34:56+00` | `2026-01-31T12:34:56Z` |
//! | a text with an offset to a time without a zone | PostgreSQL ignores the offset; refused here | the time in UTC |
//! | a text to a double beyond its range | an error | infinity, or zero |
//! | anything to `VARCHAR(n)` | the first n characters | all of them |

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::{cast, unary};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float64Type, Int64Type,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, schema_name_from_exprs};
use datafusion::logical_expr::{
    self, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::{finite, texts};
use crate::SqlError;
use crate::error::state;

/// A cast that is PostgreSQL's.
pub(super) fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field }) = &expr else { return Ok(Transformed::no(expr)) };
    let Ok(from) = inner.get_type(schema) else { return Ok(Transformed::no(expr)) };
    let to = field.data_type();
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if let (true, Some(whole)) = (to.is_integer(), without_fraction(&from)) {
        let inner = Box::new(logical_expr::cast(inner.as_ref().clone(), whole));
        return Ok(Transformed::yes(Expr::Cast(Cast { expr: inner, field: Arc::clone(field) })));
    }
    if finite::may_leave_range(&from, to) {
        return Ok(Transformed::yes(finite::in_range(inner.as_ref().clone(), to.clone())));
    }
    let step = if from.is_floating() && to.is_integer() {
        let is_literal = matches!(**inner, Expr::Literal(..));
        Step::Rounded { to_even: !is_literal }
    } else if matches!(from, DataType::Timestamp(_, _)) && is_text(to) {
        let text = logical_expr::cast(texts::written(inner.as_ref().clone()), to.clone());
        return Ok(Transformed::yes(text));
    } else if is_text(&from) && matches!(to, DataType::Timestamp(_, _)) {
        Step::TimeText { may_have_offset: matches!(to, DataType::Timestamp(_, Some(_))) }
    } else {
        return Ok(Transformed::no(expr));
    };
    let inner = match step {
        Step::Rounded { .. } | Step::RoundFunction => {
            logical_expr::cast(inner.as_ref().clone(), DataType::Float64)
        }
        Step::TimeText { .. } => logical_expr::cast(inner.as_ref().clone(), DataType::Utf8),
    };
    let inner = Box::new(step.call(inner));
    Ok(Transformed::yes(Expr::Cast(Cast { expr: inner, field: Arc::clone(field) })))
}

/// The type of decimals of the same digits, of which there is no fraction: a cast to it rounds, one to a whole number does not.
fn without_fraction(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Decimal32(_, 1..) | DataType::Decimal64(_, 1..) | DataType::Decimal128(_, 1..) => {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)
        }
        DataType::Decimal256(_, 1..) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0),
        _ => return None,
    })
}

/// `round(x)` of a double: to the nearest whole number, of two the even one. A literal is a decimal to PostgreSQL.
pub(super) fn rounded(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(function) = &expr else { return Ok(Transformed::no(expr)) };
    let (true, [value]) = (function.func.name() == "round", function.args.as_slice()) else {
        return Ok(Transformed::no(expr));
    };
    let is_double = value.get_type(schema).is_ok_and(|ty| ty.is_floating());
    if !is_double || matches!(value, Expr::Literal(..)) {
        return Ok(Transformed::no(expr));
    }
    let value = logical_expr::cast(value.clone(), DataType::Float64);
    Ok(Transformed::yes(Step::RoundFunction.call(value)))
}

/// A change of a value before DataFusion casts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Rounded {
        to_even: bool,
    },
    /// Rounding as by the function `round`.
    RoundFunction,
    /// The text of a time, with seconds where it has none; it fails where an offset from UTC would be passed over.
    TimeText {
        may_have_offset: bool,
    },
}

impl Step {
    fn call(self, value: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(self.function()), vec![value]))
    }

    fn function(self) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(StepFunction { step: self, signature })
    }
}

/// The function of each step.
#[cfg(feature = "distributed")]
pub(crate) fn step_functions() -> Vec<ScalarUDF> {
    let steps = [false, true]
        .into_iter()
        .flat_map(|is| [Step::Rounded { to_even: is }, Step::TimeText { may_have_offset: is }]);
    steps.chain([Step::RoundFunction]).map(Step::function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StepFunction {
    step: Step,
    signature: Signature,
}

impl ScalarUDFImpl for StepFunction {
    fn name(&self) -> &str {
        match self.step {
            Step::Rounded { .. } => "rounded",
            Step::RoundFunction => "round_to_even",
            Step::TimeText { .. } => "time_text",
        }
    }

    /// A column is called by what is cast.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let value = schema_name_from_exprs(arguments)?;
        Ok(if self.step == Step::RoundFunction { format!("round({value})") } else { value })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [one] => Ok(one.clone()),
            _ => plan_err!("a cast has one operand"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else { return plan_err!("a cast has one operand") };
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(1)?;
        let values = match self.step {
            Step::RoundFunction | Step::Rounded { .. } => {
                let to_even = self.step != Step::Rounded { to_even: false };
                let round = if to_even { f64::round_ties_even } else { f64::round };
                Arc::new(unary::<Float64Type, _, Float64Type>(values.as_primitive::<Float64Type>(), round))
                    as ArrayRef
            }
            Step::TimeText { may_have_offset } => {
                let text = values.as_string::<i32>();
                if let Some(wrong) = text.iter().flatten().find(|text| !may_have_offset && has_offset(text)) {
                    let error = SqlError::invalid(format!("`{wrong}` has an offset from UTC, and TIMESTAMP has none"))
                        .with_state(state::INVALID_TEXT)
                        .with_hint("Write x::TIMESTAMPTZ, or x::TIMESTAMPTZ AT TIME ZONE 'Europe/Berlin' for the local time.");
                    return Err(DataFusionError::External(Box::new(error)));
                }
                let whole = text.iter().map(|text| text.map(with_seconds));
                Arc::new(whole.collect::<StringArray>()) as ArrayRef
            }
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// `2026-01-31 10:00` with `:00` for its seconds.
fn with_seconds(text: &str) -> Cow<'_, str> {
    let end = text.find(':').map_or(0, |colon| colon + 3);
    let minutes = text.get(end.saturating_sub(2)..end).unwrap_or_default();
    let has_minutes = minutes.len() == 2 && minutes.bytes().all(|byte| byte.is_ascii_digit());
    match text.get(end..) {
        Some(rest)
            if has_minutes
                && !rest.starts_with([':', '.'])
                && !rest.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            Cow::Owned(format!("{}:00{rest}", &text[..end]))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Returns true if a time's text ends in an offset other than zero, or in the name of a time zone.
fn has_offset(text: &str) -> bool {
    let text = text.trim();
    // Behind the date, whose parts are set apart by the same sign.
    let Some(time) = text.find(':').and_then(|colon| text.get(colon..)) else { return false };
    if time.ends_with(|last: char| last.is_ascii_alphabetic()) {
        let word = time
            .rsplit(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '_' | '/')))
            .next()
            .unwrap_or_default();
        return !["z", "utc", "am", "pm"].iter().any(|known| word.eq_ignore_ascii_case(known));
    }
    time.find(['+', '-']).is_some_and(|sign| time[sign..].bytes().any(|byte| matches!(byte, b'1'..=b'9')))
}

/// `VARCHAR(n)`: the first characters of a text.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Varchar(Signature);

impl Varchar {
    pub(super) const NAME: &str = "varchar_of";

    pub(super) fn new() -> Varchar {
        Varchar(Signature::any(2, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Varchar {
    fn name(&self) -> &str {
        Varchar::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [texts, lengths] = columns.as_slice() else {
            return plan_err!("varchar_of takes a text and a length");
        };
        let (texts, lengths) = (cast(texts, &DataType::Utf8)?, cast(lengths, &DataType::Int64)?);
        let lengths = lengths.as_primitive::<Int64Type>();
        let cut = texts.as_string::<i32>().iter().zip(lengths).map(|row| {
            let (text, length) = (row.0?, usize::try_from(row.1?).ok()?);
            Some(text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end]))
        });
        let cut: ArrayRef = Arc::new(cut.collect::<StringArray>());
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&cut, 0)?),
            false => ColumnarValue::Array(cut),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::has_offset;

    #[test]
    fn offsets_are_found_behind_the_time() {
        for text in [
            "2026-01-01 00:00:00+02",
            "2026-01-01T00:00-05:30",
            "2026-01-01 00:00 Europe/Berlin",
            "0:00+0100",
        ] {
            assert!(has_offset(text), "{text}");
        }
        for text in
            ["2026-01-01", "2026-01-01 10:00:00", "2026-01-01T10:00:00Z", "2026-01-01 10:00+00:00", "x", ""]
        {
            assert!(!has_offset(text), "{text}");
        }
    }
}
