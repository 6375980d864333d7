//! Computes the points at which a distribution is evaluated, and the rows of the result.
//!
//! Generated points (LINEAR, REGION) are rounded to 6 places, so that 0.1 added up three times is 0.3. Ranges include
//! their lower end and exclude their upper one.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::{
    Dialect,
    plan::{DistributionPoints, TableFunction},
};
use swiftwater_sketch::Quantiles;

use crate::expr::push_java_double;

/// 10 to the power of the places that made points are rounded to.
const PLACES: f64 = 1e6;

/// The rows of one group's distribution, as columns; appended to `columns`. Returns their number.
pub(crate) fn distribution_rows<'a>(
    function: &TableFunction,
    sketch: &Quantiles,
    points_max: usize,
    dialect: Dialect,
    arena: &'a Bump,
    columns: &mut [Vec<Value<'a>>],
) -> usize {
    match function {
        TableFunction::Quantile(points) => {
            let points = quantile_points(points, (0.0, 1.0), points_max, dialect);
            let view = sketch.evaluate();
            for &point in &points {
                // Without values, the least is above all and the greatest below all.
                let value = view.quantile(point).unwrap_or(match point {
                    0.0 => f64::INFINITY,
                    1.0 => f64::NEG_INFINITY,
                    _ => f64::NAN,
                });
                columns[0].push(Value::Double(point));
                columns[1].push(Value::Double(value));
            }
            points.len()
        }
        TableFunction::Frequency(points) => {
            ranges(&bounds(points, sketch, points_max, dialect), false, sketch, dialect, arena, columns)
        }
        TableFunction::CumulativeFrequency(points) => {
            ranges(&bounds(points, sketch, points_max, dialect), true, sketch, dialect, arena, columns)
        }
        TableFunction::Top { .. } => 0,
    }
}

/// The reason why Bullet can read no point of a distribution. QUANTILE has a point outside of 0 to 1, or the
/// other functions have points that do not ascend, as between infinities or where rounding makes two points equal.
pub(crate) fn wrong_points(
    function: &TableFunction,
    sketch: &Quantiles,
    points_max: usize,
) -> Option<&'static str> {
    match function {
        TableFunction::Quantile(points) => {
            let points = quantile_points(points, (0.0, 1.0), points_max, Dialect::Bullet);
            let are_ranks = points.iter().all(|point| (0.0..=1.0).contains(point));
            (!are_ranks).then_some("a point of QUANTILE is not from 0 to 1")
        }
        TableFunction::Frequency(points) | TableFunction::CumulativeFrequency(points) => {
            let points = bounds(points, sketch, points_max, Dialect::Bullet);
            let ascends = points.is_sorted_by(|a, b| a < b) && !points.iter().any(|point| point.is_nan());
            (!ascends).then_some("the points of a distribution do not ascend")
        }
        TableFunction::Top { .. } => None,
    }
}

/// The points between the ranges that values are counted in.
fn bounds(points: &DistributionPoints, sketch: &Quantiles, points_max: usize, dialect: Dialect) -> Vec<f64> {
    let least = sketch.least().unwrap_or(f64::INFINITY);
    let greatest = sketch.greatest().unwrap_or(f64::NEG_INFINITY);
    quantile_points(points, (least, greatest), points_max, dialect)
}

fn ranges<'a>(
    points: &[f64],
    cumulative: bool,
    sketch: &Quantiles,
    dialect: Dialect,
    arena: &'a Bump,
    columns: &mut [Vec<Value<'a>>],
) -> usize {
    let view = sketch.evaluate();
    let count = view.count();
    let mut before = 0;
    for place in 0..=points.len() {
        let below = points.get(place).map_or(count, |&point| view.below(point));
        let counted = if cumulative { below } else { below.saturating_sub(before) };
        before = below;
        // 0 / 0 where there are no values: not a number.
        let probability = counted as f64 / count as f64;
        let from = place.checked_sub(1).map(|place| points[place]).filter(|_| !cumulative);
        columns[0].push(Value::String(arena.alloc_str(&range_text(from, points.get(place).copied()))));
        columns[1].push(Value::Double(probability));
        // Bullet multiplies again, and so misses whole numbers by a little.
        let told = if dialect == Dialect::Bullet { probability * count as f64 } else { counted as f64 };
        columns[2].push(Value::Double(told));
    }
    points.len() + 1
}

fn range_text(from: Option<f64>, to: Option<f64>) -> String {
    let mut text = String::new();
    match from {
        Some(from) => {
            text.push('[');
            push_java_double(from, &mut text);
        }
        None => text.push_str("(-∞"),
    }
    text.push_str(" to ");
    match to {
        Some(to) => push_java_double(to, &mut text),
        None => text.push_str("+∞"),
    }
    text.push(')');
    text
}

/// The points, ascending, each once. LINEAR ones lie evenly over `range`; of an empty range, or of only one point, that
/// is its beginning.
///
/// In Bullet they are added up to the last, and stay when rounding makes one of two.
fn quantile_points(
    points: &DistributionPoints,
    range: (f64, f64),
    most: usize,
    dialect: Dialect,
) -> Vec<f64> {
    let is_bullet = dialect == Dialect::Bullet;
    let rounded = if is_bullet { rounded_as_java } else { rounded };
    let most = most.max(1);
    let from_steps = |start: f64, step: f64, count: usize, end: Option<f64>| {
        let mut points = Vec::with_capacity(count);
        let mut point = start;
        for place in 0..count {
            let last = end.filter(|_| place + 1 == count);
            points.push(rounded(last.unwrap_or(point)));
            point += step;
        }
        points
    };
    let mut made = match *points {
        DistributionPoints::Linear(count) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).clamp(1, most);
            let (start, end) = range;
            if count == 1 || start >= end {
                vec![rounded(start)]
            } else {
                from_steps(start, (end - start) / (count - 1) as f64, count, Some(end).filter(|_| !is_bullet))
            }
        }
        DistributionPoints::Region { start, end, increment } => {
            let steps = ((end - start) / increment).floor();
            // A cast saturates, and is 0 of what is no number.
            let count = (steps as usize).saturating_add(1).min(most);
            from_steps(start, increment, count, None)
        }
        DistributionPoints::Manual(ref points) => {
            let mut points = points.clone();
            points.sort_by(f64::total_cmp);
            points.dedup();
            points.truncate(most);
            return points;
        }
    };
    // Rounding may make points of a narrow range one.
    if !is_bullet {
        made.dedup();
    }
    made
}

/// Rounds the number that is shown, half up, away from zero.
fn rounded_as_java(point: f64) -> f64 {
    const PLACES: usize = 6;
    let text = format!("{:?}", point.abs());
    let plain = match text.contains('e') {
        true => format!("{}", point.abs()),
        false => text,
    };
    // The rounded number there is a decimal: its zero has no sign.
    let point = if point == 0.0 { 0.0 } else { point };
    let Some((whole, fraction)) = plain.split_once('.').filter(|_| point.is_finite()) else { return point };
    let Some(next) = fraction.as_bytes().get(PLACES) else { return point };
    let kept: u128 = match format!("{whole}{}", &fraction[..PLACES]).parse() {
        Ok(kept) => kept,
        Err(_) => return point,
    };
    let kept = kept + u128::from(*next >= b'5');
    let rounded: f64 = format!("{kept}e-{PLACES}").parse().unwrap_or(point);
    if rounded == 0.0 { rounded } else { rounded.copysign(point) }
}

fn rounded(point: f64) -> f64 {
    let scaled = point * PLACES;
    if scaled.abs() < 1e15 {
        return (scaled + 0.5).floor() / PLACES;
    }
    // Multiplying would lose what is to be rounded.
    format!("{point:.6}").parse().unwrap_or(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_points_have_six_places_however_large_they_are() {
        for (point, expected) in [
            (0.1 + 0.2, 0.3),
            (-1_288_490_147.800_000_2, -1_288_490_147.8),
            (1e300, 1e300),
            (f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(rounded(point), expected);
        }
    }

    fn sketch(numbers: &[f64]) -> Quantiles {
        let mut sketch = Quantiles::new(64);
        sketch.update_many(numbers.iter().copied());
        sketch
    }

    fn rows(function: TableFunction, numbers: &[f64]) -> Vec<String> {
        let arena = Bump::new();
        let mut columns = vec![Vec::new(); function.columns(1)];
        let count =
            distribution_rows(&function, &sketch(numbers), 100, Dialect::Native, &arena, &mut columns);
        assert!(columns.iter().all(|column| column.len() == count));
        let mut text = |row: usize| {
            let mut out = Vec::new();
            columns.iter().for_each(|column| {
                swiftwater_event::write_json(&column[row], &mut out);
                out.push(b' ');
            });
            String::from_utf8(out).expect("JSON").trim_end().to_owned()
        };
        (0..count).map(&mut text).collect()
    }

    const TENTHS: [f64; 10] = [7.0, 1.0, 2.0, 3.0, 4.0, 10.0, 5.0, 6.0, 8.0, 9.0];

    #[test]
    fn quantiles_are_values_at_their_places() {
        let at = |points| rows(TableFunction::Quantile(points), &TENTHS);
        assert_eq!(at(DistributionPoints::Linear(3)), ["0.0 1.0", "0.5 6.0", "1.0 10.0"]);
        assert_eq!(at(DistributionPoints::Linear(1)), ["0.0 1.0"]);
        assert_eq!(at(DistributionPoints::Manual(vec![0.9, 0.1, 0.9])), ["0.1 2.0", "0.9 10.0"]);
        let region = DistributionPoints::Region { start: 0.1, end: 0.35, increment: 0.1 };
        assert_eq!(at(region), ["0.1 2.0", "0.2 3.0", "0.3 4.0"]);
        let none = rows(TableFunction::Quantile(DistributionPoints::Linear(3)), &[]);
        assert_eq!(none, [r#"0.0 "Infinity""#, r#"0.5 "NaN""#, r#"1.0 "-Infinity""#]);
    }

    #[test]
    fn frequencies_are_of_ranges() {
        let points = DistributionPoints::Region { start: 2.0, end: 8.0, increment: 3.0 };
        assert_eq!(
            rows(TableFunction::Frequency(points.clone()), &TENTHS),
            [
                r#""(-∞ to 2.0)" 0.1 1.0"#,
                r#""[2.0 to 5.0)" 0.3 3.0"#,
                r#""[5.0 to 8.0)" 0.3 3.0"#,
                r#""[8.0 to +∞)" 0.3 3.0"#
            ]
        );
        assert_eq!(
            rows(TableFunction::CumulativeFrequency(points), &TENTHS)[2..],
            [r#""(-∞ to 8.0)" 0.7 7.0"#, r#""(-∞ to +∞)" 1.0 10.0"#]
        );
        assert_eq!(
            rows(TableFunction::Frequency(DistributionPoints::Manual(vec![1.0])), &[]),
            [r#""(-∞ to 1.0)" "NaN" 0.0"#, r#""[1.0 to +∞)" "NaN" 0.0"#]
        );
        let same = rows(TableFunction::Frequency(DistributionPoints::Linear(5)), &[3.0, 3.0]);
        assert_eq!(same, [r#""(-∞ to 3.0)" 0.0 0.0"#, r#""[3.0 to +∞)" 1.0 2.0"#]);
    }

    #[test]
    fn points_are_bounded() {
        assert_eq!(
            quantile_points(&DistributionPoints::Linear(u64::MAX), (0.0, 1.0), 100, Dialect::Native).len(),
            100
        );
        let region = DistributionPoints::Region { start: 0.0, end: f64::MAX, increment: 1e-300 };
        assert!(quantile_points(&region, (0.0, 1.0), 100, Dialect::Native).len() <= 100);
        assert_eq!(
            quantile_points(
                &DistributionPoints::Region { start: 0.0, end: 200.0, increment: 1.0 },
                (0.0, 1.0),
                100,
                Dialect::Native
            )[99],
            99.0
        );
        assert_eq!(
            quantile_points(&DistributionPoints::Linear(11), (0.0, 1.0), 100, Dialect::Native)[3],
            0.3
        );
    }
}
