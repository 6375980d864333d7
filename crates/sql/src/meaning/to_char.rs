//! `to_char(time, template)` with PostgreSQL's templates, and Spark's `date_format(time, pattern)`.
//!
//! DataFusion's function of both names takes strftime patterns and copies whatever has no `%`. A PostgreSQL template
//! would therefore be returned unchanged. Formatting of numbers is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType};
use chrono::{DateTime, NaiveDateTime};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::UTC;
use super::template::{self, Part};
use crate::SqlError;
use crate::error::state;

/// The dialect of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TemplateDialect {
    Postgres,
    Spark,
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToChar {
    whose: TemplateDialect,
    signature: Signature,
}

impl ToChar {
    pub(super) fn new(whose: TemplateDialect) -> ToChar {
        ToChar { whose, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn parts(&self, template: &str) -> Result<Vec<Part>, SqlError> {
        match self.whose {
            TemplateDialect::Postgres => template::of_postgres(template),
            TemplateDialect::Spark => template::of_spark(template),
        }
    }
}

/// Name of Spark's `date_format` here, where `date_format` is DataFusion's.
pub(super) const SPARK: &str = "spark_date_format";

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        match self.whose {
            TemplateDialect::Postgres => "to_char",
            TemplateDialect::Spark => SPARK,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let [time, template] = arguments else {
            return plan_err!("{name} takes a time and a template");
        };
        let is_spark = self.whose == TemplateDialect::Spark;
        let time = match time {
            // Nanoseconds end in the year 2262.
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                DataType::Timestamp(TimeUnit::Nanosecond, zone.as_ref().map(|_| UTC.into()))
            }
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| UTC.into()))
            }
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if is_spark => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
            }
            DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
            // For an unsupported type the answer's type is in the error: DataFusion does not say why types do not fit.
            other => other.clone(),
        };
        match template {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                Ok(vec![time, DataType::Utf8])
            }
            _ => plan_err!("the template of {name} is a text"),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let name = self.name();
        match arguments.first() {
            Some(DataType::Timestamp(_, _) | DataType::Time64(_)) => Ok(DataType::Utf8),
            other => {
                let ty = other.map(crate::type_name).unwrap_or_default();
                let error = SqlError::invalid(format!("{name} does not format a {ty}"))
                    .with_state(state::NOT_SUPPORTED)
                    .with_hint(
                        "It formats timestamps, dates and times. A number is a text by round(x, 2)::VARCHAR.",
                    );
                Err(DataFusionError::External(Box::new(error)))
            }
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [times, templates] = columns.as_slice() else {
            return plan_err!("{} takes a time and a template", self.name());
        };
        let written =
            self.written(times, templates).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&written, 0)?),
            false => ColumnarValue::Array(written),
        })
    }
}

impl ToChar {
    fn written(&self, times: &ArrayRef, templates: &ArrayRef) -> Result<ArrayRef, SqlError> {
        let templates = templates.as_string::<i32>();
        let has_zone = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
        let is_time = matches!(times.data_type(), DataType::Time64(_));
        let far = || SqlError::invalid("a time is out of range").with_state(state::OUT_OF_RANGE);
        let at: Box<dyn Fn(usize) -> Option<NaiveDateTime>> = match times.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let values = times.as_primitive::<TimestampNanosecondType>().values().clone();
                Box::new(move |row| Some(DateTime::from_timestamp_nanos(values[row]).naive_utc()))
            }
            DataType::Timestamp(_, _) => {
                let values = times.as_primitive::<TimestampMicrosecondType>().values().clone();
                Box::new(move |row| DateTime::from_timestamp_micros(values[row]).map(|time| time.naive_utc()))
            }
            _ => {
                let nanos = cast(times, &DataType::Int64)
                    .map_err(|error| SqlError::internal("times cannot be read").with_source(error))?;
                let values = nanos.as_primitive::<arrow::datatypes::Int64Type>().values().clone();
                Box::new(move |row| Some(DateTime::from_timestamp_nanos(values[row]).naive_utc()))
            }
        };
        let mut out = StringBuilder::new();
        let mut text = String::new();
        let mut last: Option<(&str, Vec<Part>)> = None;
        for row in 0..times.len() {
            if times.is_null(row) || templates.is_null(row) {
                out.append_null();
                continue;
            }
            let template = templates.value(row);
            if template.is_empty() && self.whose == TemplateDialect::Postgres {
                out.append_null();
                continue;
            }
            let parts = match &last {
                Some((known, parts)) if *known == template => parts,
                _ => {
                    let parts = self.parts(template)?;
                    if is_time && template::needs_date(&parts) {
                        return Err(SqlError::invalid(format!(
                            "`{template}` needs a date, and the value is a time of day"
                        )));
                    }
                    &last.insert((template, parts)).1
                }
            };
            text.clear();
            template::write(parts, &at(row).ok_or_else(far)?, has_zone, &mut text);
            out.append_value(&text);
        }
        Ok(Arc::new(out.finish()))
    }
}
