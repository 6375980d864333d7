//! Compares the rows of engines: as multisets, doubles within 1e-9 of one another, other numbers exactly.

use std::cmp::Ordering;

use anyhow::{bail, ensure};
use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type},
};

const TOLERANCE: f64 = 1e-9;

/// The scale at which exact numbers are compared: more digits than any answer has behind the point.
const SCALE: i8 = 12;

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    /// A whole number or decimal, times ten to the power of `SCALE`.
    Exact(i128),
    Double(f64),
    Text(String),
}

/// Rows with their columns, in any order.
#[derive(Debug)]
pub(crate) struct Rows(Vec<Vec<Value>>);

impl Rows {
    pub(crate) fn new(batches: &[RecordBatch]) -> anyhow::Result<Rows> {
        let mut rows = Vec::new();
        for batch in batches {
            let first = rows.len();
            rows.resize_with(first + batch.num_rows(), Vec::new);
            for column in batch.columns() {
                let values = values(column)?;
                rows[first..].iter_mut().zip(values).for_each(|(row, value)| row.push(value));
            }
        }
        Ok(Rows(rows))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fails with the first pair of rows that differ.
    pub(crate) fn compare(&self, other: &Rows) -> anyhow::Result<()> {
        ensure!(self.len() == other.len(), "{} and {} rows", self.len(), other.len());
        // A column that either has as doubles comes last in the order, since it is not the same to the bit.
        let columns = self.0.first().map_or(0, Vec::len);
        let is_double = |column: usize| {
            [self, other]
                .iter()
                .any(|rows| rows.0.iter().any(|row| matches!(row.get(column), Some(Value::Double(_)))))
        };
        let (mut order, doubles): (Vec<usize>, Vec<usize>) =
            (0..columns).partition(|&column| !is_double(column));
        order.extend(doubles);
        let sorted = |rows: &Rows| {
            let mut rows: Vec<Vec<Value>> = rows.0.clone();
            rows.sort_by(|a, b| {
                order
                    .iter()
                    .map(|&column| compare(&a[column], &b[column]))
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
            rows
        };
        for (a, b) in sorted(self).iter().zip(&sorted(other)) {
            ensure!(a.len() == b.len(), "{} and {} columns", a.len(), b.len());
            let are_equal = a.iter().zip(b).all(|(a, b)| equal(a, b));
            ensure!(are_equal, "{a:?} and {b:?}");
        }
        Ok(())
    }
}

fn values(column: &ArrayRef) -> anyhow::Result<Vec<Value>> {
    let each = |of: &dyn Fn(usize) -> Value| {
        (0..column.len()).map(|row| if column.is_null(row) { Value::Null } else { of(row) }).collect()
    };
    Ok(match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let numbers = cast(column, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            each(&|row| Value::Double(numbers.value(row)))
        }
        kind if kind.is_integer() => {
            let numbers = cast(column, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            each(&|row| Value::Exact(i128::from(numbers.value(row)) * 10_i128.pow(SCALE as u32)))
        }
        DataType::Decimal128(_, scale) => {
            let numbers = column.as_primitive::<Decimal128Type>();
            ensure!((0..=SCALE).contains(scale), "a decimal with {scale} digits behind the point");
            let factor = 10_i128.pow((SCALE - scale) as u32);
            let products = numbers.iter().flatten().all(|number| number.checked_mul(factor).is_some());
            ensure!(products, "a decimal that is too large");
            each(&|row| Value::Exact(numbers.value(row) * factor))
        }
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Dictionary(..)
        | DataType::Date32 => {
            let texts = cast(column, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            each(&|row| Value::Text(texts.value(row).to_owned()))
        }
        other => bail!("no comparison of {other}"),
    })
}

fn as_double(value: &Value) -> Option<f64> {
    match value {
        Value::Exact(number) => Some(*number as f64 / 10_f64.powi(i32::from(SCALE))),
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Exact(a), Value::Exact(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (a, b) => match (as_double(a), as_double(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        },
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Double(_), _) | (_, Value::Double(_)) => match (as_double(a), as_double(b)) {
            (Some(a), Some(b)) => a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            _ => false,
        },
        (a, b) => compare(a, b).is_eq(),
    }
}
