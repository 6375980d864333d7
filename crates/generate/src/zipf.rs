//! Draws one of n values by Zipf's law: the n-th most frequent one has a weight of n to the power of minus the skew.
//!
//! After Walker's alias tables (Vose, IEEE TSE 1991): a draw costs one random number and one memory access, however many
//! values there are.

use crate::{exact, rng::Rng};

/// See the head of this module.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    count: usize,
    /// The share of each value's place that is its own, of 2^32, and the value that has the rest. None where all are
    /// alike.
    places: Vec<(u32, u32)>,
}

/// Ranks are dealt out to values in steps of about so much of all, that those of a kind are not next to each other.
const STRIDE: f64 = 0.618;

impl Zipf {
    /// The law over `count` values, at most 2^24 and at least one; a skew of 0 draws all alike.
    pub(crate) fn new(count: usize, skew: f64) -> Zipf {
        debug_assert!((1..=1 << 24).contains(&count), "{count}");
        if skew == 0.0 || count == 1 {
            return Zipf { count, places: Vec::new() };
        }
        let stride = coprime(count);
        let mut shares = vec![0.0; count];
        let mut total = 0.0;
        for rank in 0..count {
            let weight = exact::exp(-skew * exact::ln((rank + 1) as f64));
            shares[(rank * stride) % count] = weight;
            total += weight;
        }
        // In places of one each.
        let scale = count as f64 / total;
        shares.iter_mut().for_each(|share| *share *= scale);
        let (mut less, mut more) = (Vec::new(), Vec::new());
        for (value, share) in shares.iter().enumerate() {
            if *share < 1.0 { less.push(value) } else { more.push(value) }
        }
        let mut places: Vec<(u32, u32)> = (0..count as u32).map(|value| (u32::MAX, value)).collect();
        while let (Some(poor), Some(&rich)) = (less.pop(), more.last()) {
            places[poor] = ((shares[poor] * 4_294_967_296.0) as u32, rich as u32);
            shares[rich] -= 1.0 - shares[poor];
            if shares[rich] < 1.0 {
                more.pop();
                less.push(rich);
            }
        }
        Zipf { count, places }
    }

    /// A value in `[0, count)`.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let bits = rng.bits();
        let value = (((bits >> 32) * self.count as u64) >> 32) as usize;
        match self.places.get(value) {
            Some(&(own, other)) if bits as u32 >= own => other as usize,
            _ => value,
        }
    }
}

/// A number with no divisor in common with `count`, and some share of it.
fn coprime(count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut stride = ((count as f64 * STRIDE) as usize).max(1);
    while gcd(stride, count) != 1 {
        stride += 1;
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(count: usize, skew: f64, draws: usize) -> Vec<usize> {
        let (zipf, mut rng) = (Zipf::new(count, skew), Rng::new(5));
        let mut counts = vec![0; count];
        (0..draws).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn the_nth_has_its_share() {
        for skew in [0.5, 1.0, 1.5] {
            let counts = drawn(1000, skew, 1_000_000);
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-skew)).sum();
            for rank in [1, 2, 10, 100] {
                let expected = f64::from(rank).powf(-skew) / total * 1e6;
                let found = counts[rank as usize - 1] as f64;
                assert!((found / expected - 1.0).abs() < 0.15, "{skew}, {rank}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn without_skew_all_are_alike() {
        let counts = drawn(50, 0.0, 500_000);
        assert!(counts[0] < 10_500 && counts[49] > 9_500, "{counts:?}");
    }

    #[test]
    fn few_values_are_drawn_too() {
        for count in [1, 2, 3, 7] {
            assert!(drawn(count, 1.0, 10_000).iter().all(|drawn| *drawn > 500), "{count}");
        }
    }
}
