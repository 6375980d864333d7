//! Encodes numbers as `u64` keys in the order that the index uses.
//!
//! Whole numbers compare with each other exactly, and with doubles as doubles do. Therefore there is not one order of all
//! numbers, but two: of whole values and of doubles. A comparison with a constant is an interval in each. The interval is
//! computed with [`compare`] itself, so the index always agrees with it. The values -0 and 0 are adjacent keys; the
//! native dialect treats them as one number and Bullet as two.

use std::cmp::Ordering;

use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::Comparison};

use crate::expr::compare;

/// Keys from the first to the second, both within.
pub(crate) type Span = (u64, u64);

/// Every key.
pub(crate) const ALL: Span = (0, u64::MAX);

/// The key of a whole number.
#[inline]
pub(crate) fn long_key(value: i64) -> u64 {
    value as u64 ^ (1 << 63)
}

/// The whole number of a key.
#[inline]
pub(crate) fn long_of(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

/// The key of a double: all that are not a number have one, the largest.
#[inline]
pub(crate) fn double_key(value: f64) -> u64 {
    let bits = value.to_bits();
    let key = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    if value.is_nan() { u64::MAX } else { key }
}

/// The double of a key.
#[inline]
pub(crate) fn double_of(key: u64) -> f64 {
    if key == u64::MAX {
        return f64::NAN;
    }
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// A number that is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i64),
    Double(f64),
}

/// The ranges of values that compare in some way with a constant: of whole numbers and of doubles.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Spans {
    pub(crate) longs: Vec<Span>,
    pub(crate) doubles: Vec<Span>,
}

impl Spans {
    /// The ranges of values for which `value comparison constant` holds.
    pub(crate) fn of(comparison: Comparison, constant: Number, dialect: Dialect) -> Spans {
        let longs = match constant {
            Number::Whole(number) => equal_range(long_key(number), long_key(number)),
            Number::Double(double) => {
                let to = |ordering: Ordering| {
                    // The first whole number for which the comparison has gone past `ordering`.
                    first_key(|key| {
                        let value = Value::Long(long_of(key));
                        compare(&value, &Value::Double(double), dialect).is_some_and(|at| at > ordering)
                    })
                };
                (to(Ordering::Less), to(Ordering::Equal))
            }
        };
        let double = match constant {
            Number::Whole(number) => number as f64,
            Number::Double(double) => double,
        };
        let doubles = match (double == 0.0, dialect) {
            (true, Dialect::Native) => equal_range(double_key(-0.0), double_key(0.0)),
            _ => equal_range(double_key(double), double_key(double)),
        };
        Spans { longs: where_holds(comparison, longs), doubles: where_holds(comparison, doubles) }
    }

    /// The ranges of values between two constants by Bullet's BETWEEN: they are compared as doubles by Java's
    /// operators, so that there is one zero and NaN is in no range.
    pub(crate) fn between_doubles(low: f64, high: f64) -> Spans {
        let from = Spans::of(Comparison::Ge, Number::Double(low), Dialect::Native);
        let to = Spans::of(Comparison::Le, Number::Double(high), Dialect::Native);
        let no_nan = Spans { longs: vec![ALL], doubles: vec![(0, double_key(f64::INFINITY))] };
        if low.is_nan() || high.is_nan() {
            return Spans::default();
        }
        from.intersect(&to).intersect(&no_nan)
    }

    /// Values in both.
    pub(crate) fn intersect(&self, other: &Spans) -> Spans {
        Spans {
            longs: intersect(&self.longs, &other.longs),
            doubles: intersect(&self.doubles, &other.doubles),
        }
    }

    /// Values in either.
    pub(crate) fn add(&mut self, other: Spans) {
        self.longs = union(std::mem::take(&mut self.longs), other.longs);
        self.doubles = union(std::mem::take(&mut self.doubles), other.doubles);
    }

    pub(crate) fn has_long(&self, key: u64) -> bool {
        has(&self.longs, key)
    }

    pub(crate) fn has_double(&self, key: u64) -> bool {
        has(&self.doubles, key)
    }
}

/// The range from the first key that is not less to the one after the last that is not greater; `None`: past the last
/// key.
type EqualRange = (Option<u64>, Option<u64>);

fn equal_range(first: u64, last: u64) -> EqualRange {
    (Some(first), last.checked_add(1))
}

fn where_holds(comparison: Comparison, (from, to): EqualRange) -> Vec<Span> {
    let below = |end: Option<u64>| match end {
        None => Some(ALL),
        Some(end) => end.checked_sub(1).map(|last| (0, last)),
    };
    let from_on = |start: Option<u64>| start.map(|start| (start, u64::MAX));
    let equal = match (from_on(from), below(to)) {
        (Some((from, _)), Some((_, to))) if from <= to => Some((from, to)),
        _ => None,
    };
    let spans = match comparison {
        Comparison::Eq => [equal, None],
        Comparison::Ne => [below(from), from_on(to)],
        Comparison::Lt => [below(from), None],
        Comparison::Le => [below(to), None],
        Comparison::Gt => [from_on(to), None],
        Comparison::Ge => [from_on(from), None],
    };
    spans.into_iter().flatten().collect()
}

/// The first key for which a condition holds that holds for all keys after it too.
fn first_key(holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(u64::MAX) {
        return None;
    }
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

fn has(spans: &[Span], key: u64) -> bool {
    match spans {
        [(from, to)] => *from <= key && key <= *to,
        spans => {
            let after = spans.partition_point(|(from, _)| *from <= key);
            after > 0 && key <= spans[after - 1].1
        }
    }
}

/// Ascending spans that neither touch nor overlap.
fn union(mut spans: Vec<Span>, more: Vec<Span>) -> Vec<Span> {
    spans.extend(more);
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for (from, to) in spans {
        match joined.last_mut() {
            Some((_, last)) if from <= last.saturating_add(1) => *last = (*last).max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

fn intersect(left: &[Span], right: &[Span]) -> Vec<Span> {
    let mut common = Vec::new();
    let (mut a, mut b) = (0, 0);
    while let (Some(one), Some(other)) = (left.get(a), right.get(b)) {
        let (from, to) = (one.0.max(other.0), one.1.min(other.1));
        if from <= to {
            common.push((from, to));
        }
        if one.1 < other.1 { a += 1 } else { b += 1 }
    }
    common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMPARISONS: [Comparison; 6] =
        [Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge];

    fn is(comparison: Comparison, ordering: Ordering) -> bool {
        match comparison {
            Comparison::Eq => ordering.is_eq(),
            Comparison::Ne => ordering.is_ne(),
            Comparison::Lt => ordering.is_lt(),
            Comparison::Le => ordering.is_le(),
            Comparison::Gt => ordering.is_gt(),
            Comparison::Ge => ordering.is_ge(),
        }
    }

    fn longs() -> impl Strategy<Value = i64> {
        let edges = [0, 1, -1, i64::MAX, i64::MIN, i64::MAX - 1, (1 << 53) + 1, 1 << 53, (1 << 53) - 1];
        prop_oneof![proptest::sample::select(edges.to_vec()), any::<i64>(), -5_i64..5]
    }

    fn doubles() -> impl Strategy<Value = f64> {
        let edges = [
            0.0,
            -0.0,
            1.0,
            0.5,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            9_007_199_254_740_992.0,
            9_223_372_036_854_775_808.0,
            -9_223_372_036_854_775_808.0,
            f64::MIN_POSITIVE,
        ];
        prop_oneof![
            proptest::sample::select(edges.to_vec()),
            any::<f64>(),
            longs().prop_map(|long| long as f64)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn spans_agree_with_compare(long in longs(), double in doubles(), whole in longs(), point in doubles()) {
            for dialect in [Dialect::Native, Dialect::Bullet] {
                for comparison in COMPARISONS {
                    for (constant, value) in [
                        (Number::Whole(whole), Value::Long(whole)),
                        (Number::Double(point), Value::Double(point)),
                    ] {
                        let spans = Spans::of(comparison, constant, dialect);
                        let ordering = compare(&Value::Long(long), &value, dialect).expect("numbers compare");
                        prop_assert_eq!(spans.has_long(long_key(long)), is(comparison, ordering));
                        let ordering = compare(&Value::Double(double), &value, dialect).expect("numbers compare");
                        prop_assert_eq!(spans.has_double(double_key(double)), is(comparison, ordering));
                    }
                }
            }
        }

        #[test]
        fn keys_give_back_their_numbers(long in longs(), double in doubles()) {
            prop_assert_eq!(long_of(long_key(long)), long);
            let back = double_of(double_key(double));
            prop_assert!(back.to_bits() == double.to_bits() || back.is_nan() && double.is_nan());
        }

        #[test]
        fn unions_and_intersections_hold_what_they_should(
            left in proptest::collection::vec((0_u64..40, 0_u64..8), 0..6),
            right in proptest::collection::vec((0_u64..40, 0_u64..8), 0..6),
        ) {
            let spans = |pairs: &[(u64, u64)]| {
                union(Vec::new(), pairs.iter().map(|&(from, more)| (from, from + more)).collect())
            };
            let within = |pairs: &[(u64, u64)], key: u64| {
                pairs.iter().any(|&(from, more)| from <= key && key <= from + more)
            };
            let both = intersect(&spans(&left), &spans(&right));
            for key in 0..50 {
                prop_assert_eq!(has(&spans(&left), key), within(&left, key));
                prop_assert_eq!(has(&both, key), within(&left, key) && within(&right, key));
            }
        }
    }
}
