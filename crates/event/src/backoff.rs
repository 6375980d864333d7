//! Computes the pauses between retries of an operation that fails.

use std::time::Duration;

/// The pauses of one activity: each is twice as long as the one before, up to a maximum, until the activity succeeds.
///
/// With a seed each pause is shorter by up to a quarter, so that what failed together is not attempted again together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
    /// The state of the generator; none without a seed.
    random: Option<u64>,
}

impl Backoff {
    /// Pauses from `first` to `max`, exactly.
    pub const fn new(first: Duration, max: Duration) -> Backoff {
        Backoff { first, max, failures: 0, random: None }
    }

    /// The same pauses, shortened at random: equal seeds give equal pauses.
    #[must_use]
    pub const fn seeded(self, seed: u64) -> Backoff {
        Backoff { random: Some(seed), ..self }
    }

    /// Counts a failure. Returns the pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1_u32 << self.failures.min(31)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let Some(state) = &mut self.random else { return doubled };
        // SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state, and any seed is good.
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let shortened_by = doubled / 4 / 1024 * (bits % 1024) as u32;
        doubled - shortened_by
    }

    /// Counts a success: the next pause is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
        let pauses: Vec<u128> = (0..12).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9..], [51_200, 60_000, 60_000]);
        assert_eq!(backoff.failures(), 12);
        backoff.reset();
        assert_eq!((backoff.failures(), backoff.pause().as_millis()), (0, 100));
        for _ in 0..1000 {
            assert!(backoff.pause() <= Duration::from_secs(60));
        }
    }

    #[test]
    fn seeded_pauses_differ_by_up_to_a_quarter_and_are_the_same_for_the_same_seed() {
        let exact = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));
        let pauses = |seed| {
            let mut backoff = exact.clone().seeded(seed);
            (0..10).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
        let mut exact = exact.clone();
        for pause in pauses(3) {
            let longest = exact.pause();
            assert!(pause <= longest && pause * 4 >= longest * 3, "{pause:?} of {longest:?}");
        }
    }
}
