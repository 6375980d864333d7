//! A histogram of latencies. Its buckets are whole nanoseconds, as wide as 1/256 of their values at most, so a percentile is
//! no further off than that. The extremes and the sum are exact. It takes 120 KB, however many values it counts.

/// Buckets of one power of two.
const BUCKETS: u64 = 256;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// See the head of this module.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; bucket(u64::MAX) + 1];
        }
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.fill(0);
        *self = Histogram { counts, ..Histogram::default() };
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value; 0 of none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest value; 0 of none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value that a share of all, between 0 and 1, is not above; 0 of none.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return highest(place).clamp(self.min, self.max);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    let power = (u64::BITS - 1).saturating_sub(value.leading_zeros()).saturating_sub(BUCKET_BITS);
    (u64::from(power) * BUCKETS + (value >> power)) as usize
}

/// The highest value of a bucket.
fn highest(place: usize) -> u64 {
    let place = place as u64;
    let power = (place / BUCKETS).saturating_sub(1);
    let digits = place - power * BUCKETS;
    ((u128::from(digits + 1) << power) - 1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_near(
            mut values in prop::collection::vec((0..64u32, any::<u64>()).prop_map(|(less, bits)| bits >> less), 1..200),
            share in 0.0..=1.0f64,
            cut in 0..200usize,
        ) {
            let (mut left, mut right) = (Histogram::default(), Histogram::default());
            for (place, value) in values.iter().enumerate() {
                if place < cut { left.record(*value) } else { right.record(*value) }
            }
            left.merge(&right);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, found) = (values[rank - 1], left.quantile(share));
            prop_assert!(found >= exact && found - exact <= exact / 256, "{} for {}", found, exact);
            prop_assert_eq!((left.min(), left.max()), (values[0], values[values.len() - 1]));
            prop_assert_eq!(left.count(), values.len() as u64);
        }
    }

    #[test]
    fn an_empty_one_is_all_zeros() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.min(), histogram.max(), histogram.quantile(0.5)), (0, 0, 0));
        histogram.record(7);
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (7, 7.0));
        histogram.clear();
        assert_eq!((histogram.min(), histogram.max(), histogram.quantile(0.99)), (0, 0, 0));
    }
}
