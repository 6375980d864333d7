//! Which of many intervals hold a key: a segment tree (Bentley 1977) over the elementary intervals between all bounds.
//!
//! Each interval is filed at the O(log n) nodes that make it up, so n intervals take O(n log n) room however much they
//! overlap. A key's elementary interval is found through a grid of buckets, even in value, and a few steps of bisection
//! within one; from its leaf, links lead over the nodes above that have anything filed. So a key in no interval costs
//! one bucket, and another what it is in.

use super::number::{Span, double_key, double_of, long_of};

/// Whether keys are of whole numbers or of doubles: it decides what is even in value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Long,
    Double,
}

/// Intervals of keys, each with the number of a posting.
#[derive(Debug)]
pub(crate) struct Stabbing {
    domain: Domain,
    /// Where elementary intervals begin, ascending; each ends where the next begins, the last at the last key.
    bounds: Box<[u64]>,
    /// By elementary interval: the lowest node on its way up that has anything filed; 0 if none has.
    leaves: Box<[u32]>,
    /// Nodes, the root being 1.
    nodes: Box<[Node]>,
    postings: Box<[u32]>,
    grid: Grid,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    start: u32,
    count: u32,
    /// The next node above that has anything filed; 0 if none has.
    above: u32,
}

/// Buckets of equal width over what lies between the bounds that are not the ends of the domain.
#[derive(Debug)]
struct Grid {
    low: f64,
    scale: f64,
    /// How many bounds lie in the buckets before each one; one more than there are buckets.
    starts: Box<[u32]>,
    /// A bit a bucket: some key in it may be in an interval.
    filled: Box<[u64]>,
}

impl Stabbing {
    /// Of these intervals; none may be empty.
    pub(crate) fn new(domain: Domain, intervals: &[(Span, u32)]) -> Stabbing {
        let mut bounds: Vec<u64> =
            intervals.iter().flat_map(|((from, to), _)| [Some(*from), to.checked_add(1)]).flatten().collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len();
        let place = |key: u64| bounds.partition_point(|&bound| bound < key);
        let mut filed: Vec<(u32, u32)> = Vec::new();
        for &((from, to), posting) in intervals {
            let mut left = leaves + place(from);
            let mut right = leaves + to.checked_add(1).map_or(leaves, place);
            while left < right {
                if left & 1 == 1 {
                    filed.push((left as u32, posting));
                    left += 1;
                }
                if right & 1 == 1 {
                    right -= 1;
                    filed.push((right as u32, posting));
                }
                left >>= 1;
                right >>= 1;
            }
        }
        filed.sort_unstable();
        let mut nodes = vec![Node::default(); 2 * leaves];
        for (at, &(node, _)) in filed.iter().enumerate() {
            let node = &mut nodes[node as usize];
            if node.count == 0 {
                node.start = at as u32;
            }
            node.count += 1;
        }
        for node in 2..nodes.len() {
            let parent = node / 2;
            nodes[node].above = if nodes[parent].count > 0 { parent as u32 } else { nodes[parent].above };
        }
        let lowest: Box<[u32]> = (leaves..2 * leaves)
            .map(|leaf| if nodes[leaf].count > 0 { leaf as u32 } else { nodes[leaf].above })
            .collect();
        let postings = filed.into_iter().map(|(_, posting)| posting).collect();
        let grid = Grid::new(domain, &bounds, &lowest);
        Stabbing { domain, bounds: bounds.into(), leaves: lowest, nodes: nodes.into(), postings, grid }
    }

    /// Tells the postings of all intervals that hold the key.
    pub(crate) fn stab(&self, key: u64, mut found: impl FnMut(&[u32])) {
        let bucket = self.grid.bucket(value_of(self.domain, key));
        if self.grid.filled[bucket / 64] >> (bucket % 64) & 1 == 0 {
            return;
        }
        let (from, to) = (self.grid.starts[bucket] as usize, self.grid.starts[bucket + 1] as usize);
        let after = from + self.bounds[from..to].partition_point(|&bound| bound <= key);
        // Before the first bound there is nothing.
        let Some(leaf) = after.checked_sub(1) else { return };
        let mut node = self.leaves[leaf];
        while node != 0 {
            let Node { start, count, above } = self.nodes[node as usize];
            found(&self.postings[start as usize..(start + count) as usize]);
            node = above;
        }
    }

    /// Whether some interval may hold a value.
    #[inline]
    pub(crate) fn may_hold(&self, value: f64) -> bool {
        let bucket = self.grid.bucket(value);
        self.grid.filled[bucket / 64] >> (bucket % 64) & 1 == 1
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bounds.len() * (8 + 4 + 2 * size_of::<Node>())
            + self.postings.len() * 4
            + self.grid.starts.len() * 5
    }
}

fn value_of(domain: Domain, key: u64) -> f64 {
    match domain {
        Domain::Long => long_of(key) as f64,
        // Keys before that of the least double are of none, but may be bounds.
        Domain::Double => double_of(key.max(double_key(f64::NEG_INFINITY))),
    }
}

impl Grid {
    fn new(domain: Domain, bounds: &[u64], leaves: &[u32]) -> Grid {
        let values: Vec<f64> = bounds.iter().map(|&bound| value_of(domain, bound)).collect();
        // Half-open intervals have the ends of the domain as bounds: what is even must not reach out to them.
        let is_inner = |&(bound, value): &(&u64, &f64)| *bound != 0 && value.is_finite();
        let mut inner = bounds.iter().zip(&values).filter(is_inner).map(|(_, value)| *value);
        let low = inner.next().unwrap_or(0.0);
        let high = inner.next_back().unwrap_or(low);
        let buckets = (bounds.len() * 2).next_power_of_two().max(1);
        let scale = buckets as f64 / (high - low);
        let scale = if scale.is_finite() { scale } else { 0.0 };
        let mut grid = Grid {
            low,
            scale,
            starts: vec![0; buckets + 1].into(),
            filled: vec![0; buckets.div_ceil(64)].into(),
        };
        for &value in &values {
            let bucket = grid.bucket(value);
            grid.starts[bucket + 1] += 1;
        }
        for bucket in 0..buckets {
            grid.starts[bucket + 1] += grid.starts[bucket];
            let (from, to) = (grid.starts[bucket] as usize, grid.starts[bucket + 1] as usize);
            // Elementary intervals that reach into the bucket: the last that began before it, and those that begin in it.
            if leaves[from.saturating_sub(1)..to].iter().any(|&node| node != 0) {
                grid.filled[bucket / 64] |= 1 << (bucket % 64);
            }
        }
        grid
    }

    /// The bucket of a value: never less for a greater one. What is not a number is the greatest.
    #[inline]
    fn bucket(&self, value: f64) -> usize {
        let last = self.starts.len() - 2;
        // Rounding keeps order, and a cast saturates.
        let bucket = ((value - self.low) * self.scale) as usize;
        if value.is_nan() { last } else { bucket.min(last) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::number::long_key;
    use super::*;

    fn found(stabbing: &Stabbing, key: u64) -> Vec<u32> {
        let mut all = Vec::new();
        stabbing.stab(key, |postings| all.extend_from_slice(postings));
        all.sort_unstable();
        all
    }

    fn expected(intervals: &[(Span, u32)], key: u64) -> Vec<u32> {
        let holds = intervals.iter().filter(|((from, to), _)| *from <= key && key <= *to);
        let mut all: Vec<u32> = holds.map(|(_, posting)| *posting).collect();
        all.sort_unstable();
        all
    }

    fn keys(domain: Domain) -> BoxedStrategy<u64> {
        let ends = proptest::sample::select(vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1]);
        match domain {
            Domain::Long => {
                prop_oneof![1 => ends, 6 => (-20_i64..20).prop_map(long_key), 1 => any::<u64>()].boxed()
            }
            Domain::Double => {
                let specials =
                    vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN];
                prop_oneof![
                    1 => ends,
                    6 => (-20_i32..20).prop_map(|number| double_key(f64::from(number) / 8.0)),
                    2 => proptest::sample::select(specials).prop_map(double_key),
                ]
                .boxed()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn a_stab_finds_what_holds_the_key(
            (domain, pairs, stabs) in prop_oneof![Just(Domain::Long), Just(Domain::Double)].prop_flat_map(|domain| (
                Just(domain),
                proptest::collection::vec((keys(domain), keys(domain)), 1..40),
                proptest::collection::vec(keys(domain), 1..40),
            ))
        ) {
            let intervals: Vec<(Span, u32)> = pairs
                .iter()
                .enumerate()
                .map(|(at, &(a, b))| ((a.min(b), a.max(b)), at as u32))
                .collect();
            let stabbing = Stabbing::new(domain, &intervals);
            let bounds = pairs.iter().flat_map(|&(a, b)| [a, b, a.wrapping_add(1), b.wrapping_sub(1)]);
            for key in stabs.into_iter().chain(bounds) {
                prop_assert_eq!(found(&stabbing, key), expected(&intervals, key), "{:?} {}", domain, key);
            }
        }
    }

    #[test]
    fn overlapping_intervals_take_room_by_their_logarithm() {
        let intervals: Vec<(Span, u32)> =
            (0..10_000).map(|at| ((long_key(i64::from(at)), u64::MAX), at)).collect();
        let stabbing = Stabbing::new(Domain::Long, &intervals);
        assert!(stabbing.postings.len() < 10_000 * 15, "{}", stabbing.postings.len());
        assert_eq!(found(&stabbing, long_key(41)).len(), 42);
    }
}
