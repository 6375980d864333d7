//! The oracle's aggregate functions, over all values of a group at once.

use std::{cmp::Ordering, collections::BTreeSet};

use swiftwater_lang::plan::AggregateFunction;

use super::{
    Key,
    exact::exact_sum,
    table::quantile,
    value::{Value, total_order},
};

/// The result of a function over a group's rows of arguments, in the order of the stream; for `COUNT(*)` the arguments
/// are any that are not null.
pub(crate) fn aggregate(function: AggregateFunction, rows: &[Vec<Value>]) -> Value {
    match function {
        AggregateFunction::CountDistinct => {
            let there = rows.iter().filter(|row| !row.iter().any(Value::is_null));
            Value::Long(there.map(|row| Key(row.clone())).collect::<BTreeSet<_>>().len() as i64)
        }
        AggregateFunction::ArgMin | AggregateFunction::ArgMax => {
            let usable = rows.iter().filter(|row| !row.iter().any(Value::is_null) && has_order(&&row[1]));
            let mut best: Option<&Vec<Value>> = None;
            for row in usable {
                let is_better = best.is_none_or(|best| match total_order(&row[1], &best[1]) {
                    Ordering::Less => function == AggregateFunction::ArgMin,
                    Ordering::Greater => function == AggregateFunction::ArgMax,
                    Ordering::Equal => false,
                });
                best = if is_better { Some(row) } else { best };
            }
            best.map_or(Value::Null, |row| row[0].clone())
        }
        _ => {
            let first: Vec<Value> = rows.iter().filter_map(|row| row.first().cloned()).collect();
            of_values(function, &first)
        }
    }
}

fn of_values(function: AggregateFunction, values: &[Value]) -> Value {
    let there = || values.iter().filter(|value| !value.is_null());
    match function {
        AggregateFunction::Count => Value::Long(there().count() as i64),
        AggregateFunction::Sum => sum(values),
        AggregateFunction::Avg => {
            let numbers = values.iter().filter(|value| value.double().is_some()).count();
            if numbers == 0 { Value::Null } else { Value::Double(total(values) / numbers as f64) }
        }
        AggregateFunction::CountDistinct
        | AggregateFunction::ArgMin
        | AggregateFunction::ArgMax
        | AggregateFunction::FirstEvent
        | AggregateFunction::LastEvent => Value::Null,
        AggregateFunction::First => there().next().cloned().unwrap_or(Value::Null),
        AggregateFunction::Last => there().next_back().cloned().unwrap_or(Value::Null),
        AggregateFunction::CollectList { values_max } => {
            Value::List(there().take(values_max as usize).cloned().collect())
        }
        AggregateFunction::CollectSet { values_max } => {
            let mut seen = BTreeSet::new();
            let new = there().filter(|value| seen.insert(Key(vec![(*value).clone()])));
            Value::List(new.take(values_max as usize).cloned().map(Value::into_key).collect())
        }
        AggregateFunction::Percentile { millionths } => {
            let numbers = sorted_numbers(values);
            if numbers.is_empty() {
                Value::Null
            } else {
                Value::Double(quantile(&numbers, f64::from(millionths) / 1e6))
            }
        }
        AggregateFunction::Min => {
            there().filter(has_order).min_by(|a, b| ordered(a, b)).cloned().unwrap_or(Value::Null)
        }
        AggregateFunction::Max => {
            there().filter(has_order).max_by(|a, b| ordered(a, b)).cloned().unwrap_or(Value::Null)
        }
    }
}

fn longs(values: &[Value]) -> Vec<i64> {
    let longs = values.iter().map(|value| if let Value::Long(number) = value { Some(*number) } else { None });
    longs.flatten().collect()
}

fn doubles(values: &[Value]) -> Vec<f64> {
    let doubles = values.iter().filter(|value| !matches!(value, Value::Long(_)));
    doubles.filter_map(Value::double).collect()
}

/// All numbers as doubles, ascending; without NaN.
pub(crate) fn sorted_numbers(values: &[Value]) -> Vec<f64> {
    let mut numbers: Vec<f64> =
        values.iter().filter_map(Value::double).filter(|number| !number.is_nan()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The exact sum of all numbers, as a double.
fn total(values: &[Value]) -> f64 {
    exact_sum(&longs(values), &doubles(values))
}

fn sum(values: &[Value]) -> Value {
    if !doubles(values).is_empty() {
        return Value::Double(total(values));
    }
    let longs = longs(values);
    if longs.is_empty() {
        return Value::Null;
    }
    let sum: i128 = longs.iter().map(|long| i128::from(*long)).sum();
    i64::try_from(sum).map_or(Value::Null, Value::Long)
}

fn has_order(value: &&Value) -> bool {
    !matches!(value, Value::List(_) | Value::Map(_))
}

/// The order of equal numbers: a LONG is least and a FLOAT greatest, so that their order of arrival does not matter.
fn ordered(a: &Value, b: &Value) -> Ordering {
    fn kind(value: &Value) -> u8 {
        match value {
            Value::Double(_) => 1,
            Value::Float(_) => 2,
            _ => 0,
        }
    }
    total_order(a, b).then_with(|| kind(a).cmp(&kind(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: AggregateFunction, values: &str, expected: &str) {
        let values: Vec<serde_json::Value> = serde_json::from_str(values).unwrap();
        let rows: Vec<Vec<Value>> = values.iter().map(|value| vec![Value::of(value)]).collect();
        assert_eq!(aggregate(function, &rows).to_json().to_string(), expected);
    }

    #[test]
    fn order_counts_for_some() {
        check(AggregateFunction::First, "[null, 2, 1]", "2");
        check(AggregateFunction::Last, "[2, 1, null]", "1");
        check(AggregateFunction::CollectList { values_max: 3 }, "[3, null, 1, 3, 4]", "[3,1,3]");
        check(AggregateFunction::CollectSet { values_max: 2 }, "[3.0, null, 3, 1, 4]", "[3,1]");
        check(AggregateFunction::CollectSet { values_max: 2 }, "[]", "[]");
    }

    #[test]
    fn count_leaves_nulls_out() {
        check(AggregateFunction::Count, r#"[1, null, "a", [], false]"#, "4");
        check(AggregateFunction::Count, "[]", "0");
    }

    #[test]
    fn sum_keeps_its_type() {
        check(AggregateFunction::Sum, "[1, 2, null]", "3");
        check(AggregateFunction::Sum, "[1, 2.0]", "3.0");
        check(AggregateFunction::Sum, r#"[1, "2", true, [3]]"#, "1");
        check(AggregateFunction::Sum, r#"["2", null]"#, "null");
        check(AggregateFunction::Sum, "[]", "null");
    }

    #[test]
    fn sum_is_checked_at_its_end_only() {
        check(AggregateFunction::Sum, "[9223372036854775807, 1]", "null");
        check(AggregateFunction::Sum, "[9223372036854775807, 1, -2]", "9223372036854775806");
        check(AggregateFunction::Sum, "[9223372036854775807, 1, 0.0]", "9.223372036854776e+18");
    }

    #[test]
    fn average_is_a_double() {
        check(AggregateFunction::Avg, r#"[1, 2, "9", null]"#, "1.5");
        check(AggregateFunction::Avg, "[2]", "2.0");
        check(AggregateFunction::Avg, r#"["a"]"#, "null");
    }

    #[test]
    fn least_and_greatest_order_kinds() {
        let values = r#"[5, "b", true, null, 4.5, "a", [1]]"#;
        check(AggregateFunction::Min, values, "true");
        check(AggregateFunction::Max, values, "\"b\"");
        check(AggregateFunction::Min, "[1.0, 1]", "1");
        check(AggregateFunction::Max, "[1.0, 1]", "1.0");
        check(AggregateFunction::Max, "[null, {}]", "null");
    }
}
