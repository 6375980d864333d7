//! A sum of doubles that does not depend on their order.
//!
//! It is stored as an expansion of doubles that do not overlap, and rounded once at the end, to nearest. After Shewchuk,
//! "Adaptive Precision Floating-Point Arithmetic" (1997), and the rounding step of Python's `fsum`. An expansion of
//! ordinary data has one or two parts, so adding costs a few additions.

use smallvec::SmallVec;

/// Doubles from here on are kept apart, scaled down, so that no sum of up to 2^63 parts overflows before its end.
const HUGE: f64 = f64::from_bits((960 + 1023) << 52);
const HUGE_SCALE: f64 = f64::from_bits((128 + 1023) << 52);

/// An exact sum. Equal multisets of addends give equal results, whatever their order and however they were merged.
#[derive(Debug, Clone, Default)]
pub struct ExactSum {
    parts: Expansion,
    /// Addends of 2^960 and more, divided by 2^128.
    huge: Option<Box<Expansion>>,
    /// The infinities and NaNs among the addends, where there are any.
    special: Option<Box<Specials>>,
}

/// The number of addends that were no finite numbers. Counted, so that they can be taken out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Specials {
    /// Infinity.
    pub infinite: u64,
    /// Negative infinity.
    pub negative: u64,
    /// No numbers.
    pub nan: u64,
}

impl Specials {
    /// The specials of one addend.
    fn of(x: f64) -> Specials {
        let is = |is: bool| u64::from(is);
        Specials {
            infinite: is(x == f64::INFINITY),
            negative: is(x == f64::NEG_INFINITY),
            nan: is(x.is_nan()),
        }
    }

    /// The number of addends.
    pub fn count(self) -> u64 {
        self.infinite.saturating_add(self.negative).saturating_add(self.nan)
    }

    /// Their sum; none if there are none.
    fn sum(self) -> Option<f64> {
        match self {
            Specials { infinite: 0, negative: 0, nan: 0 } => None,
            Specials { negative: 0, nan: 0, .. } => Some(f64::INFINITY),
            Specials { infinite: 0, nan: 0, .. } => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }
}

type Expansion = SmallVec<[f64; 2]>;

impl ExactSum {
    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        if !x.is_finite() {
            self.add_specials(Specials::of(x));
        } else if x.abs() >= HUGE {
            grow(self.huge.get_or_insert_default(), x / HUGE_SCALE);
        } else {
            grow(&mut self.parts, x);
        }
    }

    /// Adds a whole number, however large.
    pub fn add_integer(&mut self, x: i128) {
        const CHUNK: i128 = 1 << 48;
        let (high, middle, low) =
            (x.div_euclid(CHUNK * CHUNK), x.div_euclid(CHUNK).rem_euclid(CHUNK), x.rem_euclid(CHUNK));
        let chunk = CHUNK as f64;
        for part in [high as f64 * chunk * chunk, middle as f64 * chunk, low as f64] {
            self.add(part);
        }
    }

    /// Adds all addends of another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        for &part in &other.parts {
            grow(&mut self.parts, part);
        }
        for &part in other.huge.iter().flat_map(|huge| huge.iter()) {
            grow(self.huge.get_or_insert_default(), part);
        }
        if let Some(specials) = &other.special {
            self.add_specials(**specials);
        }
    }

    fn add_specials(&mut self, more: Specials) {
        let ours = self.special.get_or_insert_default();
        ours.infinite = ours.infinite.wrapping_add(more.infinite);
        ours.negative = ours.negative.wrapping_add(more.negative);
        ours.nan = ours.nan.wrapping_add(more.nan);
    }

    /// Retracts the addends of another sum: what is left is the sum of the others, exactly. It may retract more than it has,
    /// as long as that comes.
    pub fn retract(&mut self, other: &ExactSum) {
        for &part in &other.parts {
            grow(&mut self.parts, -part);
        }
        for &part in other.huge.iter().flat_map(|huge| huge.iter()) {
            grow(self.huge.get_or_insert_default(), -part);
        }
        if let Some(specials) = &other.special {
            self.add_specials(Specials {
                infinite: specials.infinite.wrapping_neg(),
                negative: specials.negative.wrapping_neg(),
                nan: specials.nan.wrapping_neg(),
            });
        }
    }

    /// Retracts one addend, as [`ExactSum::retract`] does.
    pub fn subtract(&mut self, x: f64) {
        if x.is_finite() {
            self.add(-x);
        } else {
            let specials = Specials::of(x);
            self.add_specials(Specials {
                infinite: specials.infinite.wrapping_neg(),
                negative: specials.negative.wrapping_neg(),
                nan: specials.nan.wrapping_neg(),
            });
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let of = |parts: &Expansion| if parts.spilled() { parts.capacity() * size_of::<f64>() } else { 0 };
        let huge = self.huge.as_deref().map_or(0, |huge| size_of_val(huge) + of(huge));
        of(&self.parts) + huge + self.special.as_deref().map_or(0, size_of_val)
    }

    /// Its content: the parts, those of the huge addends, and the counts of special ones.
    pub fn parts(&self) -> (&[f64], &[f64], Specials) {
        let specials = self.special.as_deref().copied().unwrap_or_default();
        (&self.parts, self.huge.as_ref().map_or(&[], |huge| huge), specials)
    }

    /// A sum of what [`ExactSum::parts`] told.
    pub fn of_parts(parts: &[f64], huge: &[f64], specials: Specials) -> ExactSum {
        let huge = (!huge.is_empty()).then(|| Box::new(Expansion::from_slice(huge)));
        let special = (specials != Specials::default()).then(|| Box::new(specials));
        ExactSum { parts: Expansion::from_slice(parts), huge, special }
    }

    /// The specials of the sum of a special addend, from older states.
    pub fn specials_of(special: Option<f64>) -> Specials {
        special.map(Specials::of).unwrap_or_default()
    }

    /// True if there is nothing that it is the sum of; what came to 0 is nothing, too.
    pub fn is_empty(&self) -> bool {
        let (parts, huge, specials) = self.parts();
        parts.is_empty() && huge.is_empty() && specials == Specials::default()
    }

    /// The sum, rounded to nearest; infinite where it overflows.
    pub fn round(&self) -> f64 {
        if let Some(special) = self.special.as_deref().and_then(|specials| specials.sum()) {
            return special;
        }
        let Some(huge) = self.huge.as_ref().filter(|huge| round(huge) != 0.0) else {
            return round(&self.parts);
        };
        let mut all = (**huge).clone();
        for &part in &self.parts {
            grow(&mut all, part / HUGE_SCALE);
        }
        round(&all) * HUGE_SCALE
    }
}

/// Adds `x` without rounding: afterwards the parts do not overlap and grow in magnitude.
fn grow(parts: &mut Expansion, mut x: f64) {
    let mut kept = 0;
    for at in 0..parts.len() {
        let mut y = parts[at];
        if x.abs() < y.abs() {
            std::mem::swap(&mut x, &mut y);
        }
        let high = x + y;
        let low = y - (high - x);
        if low != 0.0 {
            parts[kept] = low;
            kept += 1;
        }
        x = high;
    }
    parts.truncate(kept);
    if x != 0.0 {
        parts.push(x);
    }
}

fn round(parts: &Expansion) -> f64 {
    let mut rest = parts.len();
    let Some(&last) = parts.last() else { return 0.0 };
    let mut high = last;
    let mut low = 0.0;
    rest -= 1;
    while rest > 0 {
        let x = high;
        rest -= 1;
        let y = parts[rest];
        high = x + y;
        low = y - (high - x);
        if low != 0.0 {
            break;
        }
    }
    // The rounded remainder may be exactly half: the parts below it then decide.
    if rest > 0 && ((low < 0.0 && parts[rest - 1] < 0.0) || (low > 0.0 && parts[rest - 1] > 0.0)) {
        let y = low * 2.0;
        let x = high + y;
        if y == x - high {
            high = x;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        for &value in values {
            sum.add(value);
        }
        sum.round()
    }

    #[test]
    fn cancellation_loses_nothing() {
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX, -f64::MAX, 3.5]), 3.5);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
    }

    #[test]
    fn specials_win() {
        assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn integers_join_exactly() {
        let mut sum = ExactSum::default();
        sum.add(-(2f64.powi(100)));
        sum.add_integer((1 << 100) + 7);
        assert_eq!(sum.round(), 7.0);
        let mut sum = ExactSum::default();
        sum.add_integer(-5);
        assert_eq!(sum.round(), -5.0);
    }

    proptest! {
        #[test]
        fn what_is_taken_out_was_never_there(
            left in prop::collection::vec(any::<f64>(), 0..20),
            gone in prop::collection::vec(any::<f64>(), 0..20),
        ) {
            let mut both = ExactSum::default();
            left.iter().chain(&gone).for_each(|&value| both.add(value));
            let mut out = ExactSum::default();
            gone.iter().for_each(|&value| out.add(value));
            both.retract(&out);
            let (expected, found) = (sum(&left), both.round());
            prop_assert!(expected == found || expected.is_nan() && found.is_nan(), "{expected} {found}");
        }

        #[test]
        fn order_and_split_do_not_matter(mut values in prop::collection::vec(any::<f64>(), 0..40), cut in 0usize..40) {
            let whole = sum(&values);
            values.reverse();
            let reversed = sum(&values);
            let cut = cut.min(values.len());
            let (mut left, mut right) = (ExactSum::default(), ExactSum::default());
            values[..cut].iter().for_each(|&value| left.add(value));
            values[cut..].iter().for_each(|&value| right.add(value));
            left.merge(&right);
            prop_assert!(whole == reversed || whole.is_nan() && reversed.is_nan());
            prop_assert!(whole == left.round() || whole.is_nan() && left.round().is_nan());
        }
    }
}
