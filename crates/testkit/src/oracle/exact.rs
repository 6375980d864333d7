//! Sums numbers without rounding, and rounds once at the end.

/// Bits below the point: the smallest double is 2^-1074.
const POINT: usize = 1074;
/// 32 bits each, with room above the largest double (2^1024) for 2^60 of them.
const LIMBS: usize = (POINT + 1024 + 64).div_ceil(32) + 2;

/// A sum held as one large whole number of units of 2^-1074, in digits of 32 bits that are carried only at the end.
struct Units {
    limbs: [i64; LIMBS],
}

impl Units {
    /// Adds `±mantissa × 2^shift` units.
    fn add(&mut self, negative: bool, mut mantissa: u128, shift: usize) {
        let mut limb = shift / 32;
        while mantissa > 0 {
            let piece = ((mantissa & 0xffff_ffff) as u64) << (shift % 32);
            let (low, high) = ((piece & 0xffff_ffff) as i64, (piece >> 32) as i64);
            let sign = if negative { -1 } else { 1 };
            self.limbs[limb] += sign * low;
            self.limbs[limb + 1] += sign * high;
            mantissa >>= 32;
            limb += 1;
        }
        // A limb takes 2^31 additions; one is far below that with a carry after each.
        self.carry();
    }

    /// Normalises all digits but the last into `[0, 2^32)`; the last then has the sum's sign.
    fn carry(&mut self) {
        for limb in 0..LIMBS - 1 {
            let over = self.limbs[limb].div_euclid(1 << 32);
            self.limbs[limb] = self.limbs[limb].rem_euclid(1 << 32);
            self.limbs[limb + 1] += over;
        }
    }

    fn bit(&self, bit: usize) -> bool {
        (self.limbs[bit / 32] >> (bit % 32)) & 1 == 1
    }

    /// The nearest double; of two equally near ones, the one whose last bit is 0.
    fn round(mut self) -> f64 {
        let negative = self.limbs[LIMBS - 1] < 0;
        if negative {
            for limb in &mut self.limbs {
                *limb = -*limb;
            }
            self.carry();
        }
        let Some(top) = (0..LIMBS * 32).rev().find(|bit| self.bit(*bit)) else { return 0.0 };
        let lowest = top.saturating_sub(52);
        let mut mantissa = (lowest..=top).rev().fold(0_u64, |bits, bit| bits << 1 | u64::from(self.bit(bit)));
        let half = lowest > 0 && self.bit(lowest - 1);
        let below_half = (0..lowest.saturating_sub(1)).any(|bit| self.bit(bit));
        if half && (below_half || mantissa & 1 == 1) {
            mantissa += 1;
        }
        // The bits of a double are `exponent × 2^52 + mantissa`, where a mantissa of 2^52 or more raises the exponent.
        let bits = ((lowest as u64) << 52) + mantissa;
        let magnitude = if bits >= f64::INFINITY.to_bits() { f64::INFINITY } else { f64::from_bits(bits) };
        if negative { -magnitude } else { magnitude }
    }
}

/// The exact sum, rounded to a double. If an operand is infinite or NaN, it is the result of floating-point addition.
pub(crate) fn exact_sum(longs: &[i64], doubles: &[f64]) -> f64 {
    if let Some(special) = doubles.iter().copied().filter(|number| !number.is_finite()).reduce(|a, b| a + b) {
        return special;
    }
    let mut units = Units { limbs: [0; LIMBS] };
    for long in longs {
        units.add(*long < 0, u128::from(long.unsigned_abs()), POINT);
    }
    for double in doubles {
        let exponent = (double.to_bits() >> 52 & 0x7ff) as usize;
        let fraction = double.to_bits() & ((1 << 52) - 1);
        let (mantissa, shift) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        units.add(double.is_sign_negative(), u128::from(mantissa), shift);
    }
    units.round()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn sums_are_rounded_once() {
        assert_eq!(exact_sum(&[], &[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(exact_sum(&[], &[0.1; 10]), 1.0);
        assert_eq!(exact_sum(&[], &[]), 0.0);
        assert_eq!(exact_sum(&[i64::MAX, 1], &[]), 9_223_372_036_854_775_808.0);
        assert_eq!(exact_sum(&[i64::MIN, -1], &[-0.0]), -9_223_372_036_854_775_808.0);
        assert_eq!(exact_sum(&[3], &[0.25, -1.0]), 2.25);
        assert_eq!(exact_sum(&[], &[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(exact_sum(&[], &[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(
            exact_sum(&[], &[f64::MIN_POSITIVE, -f64::from_bits(1)]),
            f64::MIN_POSITIVE - f64::from_bits(1)
        );
    }

    #[test]
    fn sum_of_two_is_what_the_processor_says() {
        let mut rng = Rng::new(11);
        for _ in 0..20_000 {
            let (a, b) = (f64::from_bits(rng.bits()), f64::from_bits(rng.bits()));
            // Exponents near one another, where rounding matters.
            let b = if rng.chance(0.7) { f64::from_bits(a.to_bits() ^ (b.to_bits() >> 9)) } else { b };
            if a.is_finite() && b.is_finite() {
                assert_eq!(exact_sum(&[], &[a, b]), a + b, "{a:e} {b:e}");
            }
        }
    }

    #[test]
    fn one_number_is_itself() {
        let mut rng = Rng::new(12);
        for _ in 0..20_000 {
            let number = f64::from_bits(rng.bits());
            if number.is_finite() {
                assert_eq!(exact_sum(&[], &[number]), number);
            }
            let long = rng.bits() as i64;
            assert_eq!(exact_sum(&[long], &[]), long as f64);
        }
    }

    #[test]
    fn order_does_not_matter() {
        let mut rng = Rng::new(13);
        let mut numbers: Vec<f64> =
            (0..100).map(|_| f64::from_bits(rng.bits())).filter(|x| x.is_finite()).collect();
        let sum = exact_sum(&[], &numbers);
        for _ in 0..50 {
            let (a, b) = (rng.below(numbers.len()), rng.below(numbers.len()));
            numbers.swap(a, b);
            assert_eq!(exact_sum(&[], &numbers).to_bits(), sum.to_bits());
        }
    }
}
