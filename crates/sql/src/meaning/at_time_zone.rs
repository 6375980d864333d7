//! `timezone(zone, time)`, the function that implements `time AT TIME ZONE zone`.
//!
//! ```text
//! time AT TIME ZONE zone     becomes  timezone(zone, time)
//! ```
//!
//! An instant becomes the local time that clocks in the zone show then, without a zone. A local time becomes the instant
//! at which the clocks show it, in UTC. DataFusion 55 plans `AT TIME ZONE` as a cast. The cast moves no clock if the
//! value already has a zone (apache/datafusion#13212, #25165), and it takes literals only.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::UTC;
use super::zone::Zone;
use crate::SqlError;
use crate::error::state;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AtTimeZone(Signature);

impl AtTimeZone {
    pub(super) const NAME: &str = "timezone";

    pub(super) fn new() -> AtTimeZone {
        AtTimeZone(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        AtTimeZone::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [zone, time] = arguments else {
            return plan_err!("AT TIME ZONE takes a time and a zone");
        };
        let zone = match zone {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
            DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            other => other.clone(),
        };
        let time = match time {
            DataType::Timestamp(unit, None) => DataType::Timestamp(*unit, None),
            DataType::Timestamp(unit, Some(_)) => instants(*unit),
            // A value without a time zone is read in the session's.
            DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Null => instants(TimeUnit::Microsecond),
            other => other.clone(),
        };
        Ok(vec![zone, time])
    }

    // DataFusion says nothing of why types cannot be coerced, so it is told here.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let wrong = |message: String, hint: &str| {
            let error = SqlError::invalid(message).with_state(state::TYPE_MISMATCH).with_hint(hint);
            Err(DataFusionError::External(Box::new(error)))
        };
        match arguments {
            [DataType::Utf8 | DataType::Interval(_), time] => match time {
                DataType::Timestamp(unit, None) => Ok(instants(*unit)),
                DataType::Timestamp(unit, Some(_)) => Ok(DataType::Timestamp(*unit, None)),
                other => wrong(
                    format!("AT TIME ZONE is of a timestamp or a date, not of a {}", crate::type_name(other)),
                    "Cast it: x::TIMESTAMPTZ AT TIME ZONE 'Europe/Berlin'.",
                ),
            },
            [zone, _] => wrong(
                format!("a time zone is a text or an interval, not a {}", crate::type_name(zone)),
                "Write AT TIME ZONE 'Europe/Berlin', or AT TIME ZONE INTERVAL '2 hours'.",
            ),
            _ => plan_err!("AT TIME ZONE takes a time and a zone"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [zones, times] = columns.as_slice() else {
            return plan_err!("AT TIME ZONE takes a time and a zone");
        };
        let moved = moved(zones, times).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let moved = cast(&moved, arguments.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&moved, 0)?),
            false => ColumnarValue::Array(moved),
        })
    }
}

fn instants(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some(UTC.into()))
}

/// The times as numbers, moved from UTC to the zone's clocks or back.
fn moved(zones: &ArrayRef, times: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let DataType::Timestamp(unit, from_zone) = times.data_type() else {
        return Err(SqlError::internal("AT TIME ZONE was given no timestamps"));
    };
    let per_second: i64 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let is_instant = from_zone.is_some();
    let numbers = cast(times, &DataType::Int64)
        .map_err(|error| SqlError::internal("times cannot be read").with_source(error))?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let mut named: HashMap<&str, Zone> = HashMap::new();
    let mut moved = Vec::with_capacity(times.len());
    for row in 0..times.len() {
        if times.is_null(row) || zones.is_null(row) {
            moved.push(None);
            continue;
        }
        let zone = match zones.data_type() {
            DataType::Utf8 => {
                let name = zones.as_string::<i32>().value(row);
                match named.get(name) {
                    Some(zone) => *zone,
                    None => *named.entry(name).or_insert(Zone::named(name)?),
                }
            }
            _ => {
                let interval = zones.as_primitive::<IntervalMonthDayNanoType>().value(row);
                Zone::at_interval(interval.months, interval.days, interval.nanoseconds)?
            }
        };
        let time = numbers.value(row);
        let seconds = time.div_euclid(per_second);
        let end = match is_instant {
            true => {
                zone.offset_at(seconds)?.checked_mul(per_second).and_then(|offset| time.checked_add(offset))
            }
            false => zone
                .offset_of_local(seconds)?
                .checked_mul(per_second)
                .and_then(|offset| time.checked_sub(offset)),
        };
        moved.push(Some(end.ok_or_else(|| {
            SqlError::invalid("a time with its zone is out of range").with_state(state::OUT_OF_RANGE)
        })?));
    }
    Ok(Arc::new(PrimitiveArray::<Int64Type>::from(moved)))
}
