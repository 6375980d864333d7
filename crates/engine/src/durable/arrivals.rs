//! Samples the arrival times of a stream's events, to report how long the oldest waiting event has waited.

use std::collections::VecDeque;

use swiftwater_event::Millis;

/// No more instants are kept; with more, every second one is left out.
const INSTANTS_MAX: usize = 64;

/// Instants are at least so far apart.
const APART_MIN_MS: i64 = 250;

/// Some arrival times, each with the first event of that time. The longer events wait, the further apart they are, so that
/// the error is a thirtieth of the wait, or [`APART_MIN_MS`].
#[derive(Debug)]
pub(crate) struct Arrivals {
    instants: VecDeque<(u64, Millis)>,
    apart_ms: i64,
}

impl Arrivals {
    pub(crate) fn new() -> Arrivals {
        Arrivals { instants: VecDeque::new(), apart_ms: APART_MIN_MS }
    }

    /// True if every second instant is removed before the next one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.instants.len() == INSTANTS_MAX
    }

    /// Events came, from this offset on.
    pub(crate) fn record(&mut self, first: u64, arrival: Millis) {
        if self.instants.back().is_some_and(|(_, last)| arrival - *last < self.apart_ms) {
            return;
        }
        if self.instants.len() == INSTANTS_MAX {
            let mut place = 0;
            self.instants.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.apart_ms *= 2;
        }
        self.instants.push_back((first, arrival));
    }

    /// Approximate arrival of the event at an offset, as in [`Arrivals::of`], without forgetting earlier ones.
    pub(crate) fn at(&self, offset: u64) -> Option<Millis> {
        let behind = self.instants.partition_point(|(first, _)| *first <= offset);
        self.instants.get(behind.saturating_sub(1)).map(|(_, arrival)| *arrival)
    }

    /// Approximate arrival of the event at an offset, no later than the true one; none if it is too early to be known.
    /// Forgets the earlier arrivals.
    pub(crate) fn of(&mut self, offset: u64) -> Option<Millis> {
        while self.instants.get(1).is_some_and(|(first, _)| *first <= offset) {
            self.instants.pop_front();
        }
        if self.instants.len() < INSTANTS_MAX / 4 {
            self.apart_ms = (self.apart_ms / 2).max(APART_MIN_MS);
        }
        self.instants.front().map(|(_, arrival)| *arrival)
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_testkit::Rng;

    use super::*;

    #[test]
    fn what_is_told_is_near_the_arrival_and_never_after_it_in_little_memory() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut arrivals, mut all, mut now) = (Arrivals::new(), Vec::<i64>::new(), 0);
            let mut waiting = 0;
            for _ in 0..5_000 {
                now += rng.below(400) as i64;
                arrivals.record(all.len() as u64, now);
                all.extend(std::iter::repeat_n(now, 1 + rng.below(3)));
                if rng.chance(0.01) {
                    waiting += rng.below(all.len() - waiting);
                }
                assert!(arrivals.instants.len() <= INSTANTS_MAX);
                if rng.chance(0.1) && waiting < all.len() {
                    let told = arrivals.of(waiting as u64).unwrap();
                    let (right, apart) = (all[waiting], 2 * APART_MIN_MS + (now - all[0]) / 16);
                    assert_eq!(arrivals.at(waiting as u64), Some(told));
                    assert!(told <= right && right - told <= apart, "{told} for {right} at {now}");
                }
            }
        }
    }
}
