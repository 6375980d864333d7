//! A random number generator that gives the same sequence on every run.

/// A small, fast, seeded source of random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The same seed gives the same numbers, on every machine.
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number in `[0, bound)`; 0 where `bound` is 0. Even to within 2⁻³² for bounds below 2³².
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A number in `[0, 1)`.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True this share of the times.
    pub fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }

    /// A copy of one of them, each as likely as the others.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers() {
        let mut rng = Rng::new(1_234_567);
        // The reference implementation's first outputs for this seed.
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_are_spread() {
        let mut rng = Rng::new(7);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[rng.below(10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert_eq!(rng.below(0), 0);
    }
}
