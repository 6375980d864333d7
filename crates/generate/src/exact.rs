//! Logarithms and powers that are the same to the bit on every machine. They use only the four operations, which IEEE 754
//! defines exactly; a system's own mathematics library may round otherwise. Good to about 15 digits.

use std::f64::consts::{LN_2, SQRT_2};

/// The natural logarithm of a normal number above 0.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0, "{x}");
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    // The same digits between 1 and 2.
    let mut digits = f64::from_bits(bits & !(0x7ff << 52) | 1023 << 52);
    if digits > SQRT_2 {
        digits /= 2.0;
        exponent += 1;
    }
    // ln d = 2 artanh((d - 1) / (d + 1)), here of at most 0.172.
    let t = (digits - 1.0) / (digits + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for odd in (0..11).rev().map(|n| 2 * n + 1) {
        sum = sum * square + 1.0 / f64::from(odd);
    }
    2.0 * t * sum + exponent as f64 * LN_2
}

/// e to the power of a number from -700 to 700.
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!((-700.0..=700.0).contains(&x), "{x}");
    let twos = (x / LN_2 + 0.5).floor();
    let rest = x - twos * LN_2;
    let mut sum = 1.0;
    for n in (1..16).rev() {
        sum = sum * rest / f64::from(n) + 1.0;
    }
    sum * f64::from_bits(((twos as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_the_machine_says() {
        for x in [1e-300, 0.001, 0.7, 1.0, 1.4, 1.5, 2.0, 3.0, 1e6, 1e300] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-14 * f64::ln(x).abs().max(1.0), "{x}");
        }
        for x in [-700.0, -20.7, -1.0, -0.3, 0.0, 1e-9, 0.5, 1.0, 30.0, 700.0] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() <= 1e-12, "{x}");
        }
    }
}
