//! The aggregates that return rows: distributions, exact over all values, and TOP, exact over all combinations.

use std::collections::BTreeMap;

use swiftwater_lang::plan::{DistributionPoints, TableAggregate, TableFunction};

use super::{Key, aggregate::sorted_numbers, functions::text, value::Value};

/// The most points that a distribution is looked at.
const POINTS_MAX: usize = 100;
/// Maximum rows of a TOP that does not state their number.
const TOP_DEFAULT: u64 = 500;

/// The result of a table aggregate for a group.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Vec<Value>>,
    /// Rows that may stand in place of those with the same last column.
    pub(crate) spare: Vec<Vec<Value>>,
    /// Rows with the same last column may come in another order.
    pub(crate) has_ties: bool,
}

impl Table {
    fn exact(rows: Vec<Vec<Value>>) -> Table {
        Table { rows, spare: Vec::new(), has_ties: false }
    }
}

/// The rows of a table aggregate over a group's rows of arguments.
pub(crate) fn table(table: &TableAggregate, rows: &[Vec<Value>]) -> Table {
    let numbers = || {
        let first: Vec<Value> = rows.iter().filter_map(|row| row.first().cloned()).collect();
        sorted_numbers(&first)
    };
    match &table.function {
        TableFunction::Quantile(points) => Table::exact(quantiles(points, &numbers())),
        TableFunction::Frequency(points) => Table::exact(ranges(points, &numbers(), false)),
        TableFunction::CumulativeFrequency(points) => Table::exact(ranges(points, &numbers(), true)),
        TableFunction::Top { count, threshold } => top(*count, threshold.unwrap_or(0), rows),
    }
}

/// The value that this share of the sorted numbers lies below.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64).floor() as usize;
    sorted[place.min(sorted.len() - 1)]
}

fn quantiles(points: &DistributionPoints, sorted: &[f64]) -> Vec<Vec<Value>> {
    let points = places(points, 0.0, 1.0);
    let value = |share: f64| match sorted {
        [] if share == 0.0 => f64::INFINITY,
        [] if share == 1.0 => f64::NEG_INFINITY,
        [] => f64::NAN,
        sorted => quantile(sorted, share),
    };
    points.iter().map(|share| vec![Value::Double(*share), Value::Double(value(*share))]).collect()
}

/// A row per range between points: from each point to the next one, or (cumulative) from the beginning on.
fn ranges(points: &DistributionPoints, sorted: &[f64], is_cumulative: bool) -> Vec<Vec<Value>> {
    let (least, greatest) = match sorted {
        [] => (f64::INFINITY, f64::NEG_INFINITY),
        [least, ..] => (*least, sorted[sorted.len() - 1]),
    };
    let points = places(points, least, greatest);
    let below = |point: Option<&f64>| match point {
        Some(point) => sorted.iter().filter(|number| *number < point).count(),
        None => sorted.len(),
    };
    let shown = |point: &f64| text(&Value::Double(*point)).unwrap_or_default();
    let mut rows = Vec::new();
    for place in 0..=points.len() {
        let before = if place == 0 || is_cumulative { None } else { points.get(place - 1) };
        let range = match (before, points.get(place)) {
            (None, None) => "(-∞ to +∞)".to_owned(),
            (None, Some(end)) => format!("(-∞ to {})", shown(end)),
            (Some(start), None) => format!("[{} to +∞)", shown(start)),
            (Some(start), Some(end)) => format!("[{} to {})", shown(start), shown(end)),
        };
        let count = below(points.get(place)) - before.map_or(0, |start| below(Some(start)));
        // Without numbers, no share can be computed.
        let share = count as f64 / sorted.len() as f64;
        rows.push(vec![Value::String(range), Value::Double(share), Value::Double(count as f64)]);
    }
    rows
}

/// The points, ascending; `least` and `greatest` are where LINEAR begins and ends. Those that are made are rounded to
/// six places behind the point, and each there is once.
fn places(points: &DistributionPoints, least: f64, greatest: f64) -> Vec<f64> {
    let mut made = match points {
        DistributionPoints::Manual(points) => return points[..points.len().min(POINTS_MAX)].to_vec(),
        DistributionPoints::Linear(count) if *count == 1 || least >= greatest => vec![least],
        DistributionPoints::Linear(count) => {
            let count = (*count as usize).min(POINTS_MAX);
            let mut made = steps(least, (greatest - least) / (count - 1) as f64, count);
            made[count - 1] = greatest;
            made
        }
        DistributionPoints::Region { start, end, increment } => {
            steps(*start, *increment, (((end - start) / increment).floor() as usize + 1).min(POINTS_MAX))
        }
    };
    made.iter_mut().for_each(|point| *point = rounded(*point));
    made.dedup();
    made
}

fn steps(start: f64, step: f64, count: usize) -> Vec<f64> {
    let mut point = start;
    let mut points = Vec::new();
    for _ in 0..count {
        points.push(point);
        point += step;
    }
    points
}

/// Rounds to six places, half a place up; large numbers are rounded by their text, since a product would have lost
/// those places.
fn rounded(number: f64) -> f64 {
    if number.abs() < 1e9 {
        return (number * 1e6 + 0.5).floor() / 1e6;
    }
    format!("{number:.6}").parse().unwrap_or(number)
}

/// The most frequent combinations, most frequent first; and those left out that are as frequent as the last of them,
/// for which of equals stay is left open.
fn top(count: u64, threshold: u64, rows: &[Vec<Value>]) -> Table {
    let mut counts: BTreeMap<Key, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(Key(row.clone())).or_default() += 1;
    }
    let mut found: Vec<(Key, u64)> = counts.into_iter().filter(|(_, count)| *count >= threshold).collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most = usize::try_from(if count == 0 { TOP_DEFAULT } else { count }).unwrap_or(usize::MAX);
    let mut spare = found.split_off(most.min(found.len()));
    let least = found.last().map(|(_, count)| *count);
    spare.retain(|(_, count)| Some(*count) == least);
    let has_ties = found.windows(2).any(|pair| pair[0].1 == pair[1].1) || !spare.is_empty();
    let with_count = |(Key(row), count): (Key, u64)| -> Vec<Value> {
        let keys = row.into_iter().map(Value::into_key);
        keys.chain([Value::Long(count as i64)]).collect()
    };
    Table {
        rows: found.into_iter().map(with_count).collect(),
        spare: spare.into_iter().map(with_count).collect(),
        has_ties,
    }
}
