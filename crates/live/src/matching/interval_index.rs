//! Finds the intervals that contain a key: a segment tree (Bentley 1977) over the elementary intervals between all
//! bounds.
//!
//! An interval of many pieces is filed at the O(log n) nodes that compose it. An interval of few pieces is filed at each
//! piece. Therefore n intervals take O(n log n) space however much they overlap. A grid of buckets, even in value, and a
//! few steps of bisection within a bucket find a key's piece. From the piece's leaf, links lead to the ancestors that
//! have intervals. A key in no interval costs one bucket; any other key also costs its intervals. Narrow intervals are
//! found at the piece itself.

use super::{
    number::{Span, double_key, double_of, long_of},
    points::{Run, prefetch},
};

/// The type of the keys, whole numbers or doubles: it decides which values are even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Long,
    Double,
}

/// Intervals of keys, each with the number of a posting.
#[derive(Debug)]
pub(crate) struct IntervalIndex {
    domain: Domain,
    pieces: Box<[ElementaryInterval]>,
    /// Nodes that have anything filed, those above others first; the first is none.
    nodes: Box<[Node]>,
    postings: Box<[u32]>,
    grid: BucketGrid,
}

/// An elementary interval: it ends where the next begins, the last at the last key.
#[derive(Debug, Clone, Copy)]
struct ElementaryInterval {
    start: u64,
    /// The narrow intervals that contain it.
    narrow: Run,
    /// The lowest node on its way up that has anything filed; 0 if none has.
    node: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    postings: Run,
    /// The next node above that has anything filed; 0 if none has.
    above: u32,
}

/// Intervals of at most so many pieces are narrow.
const NARROW_MAX: usize = 12;

/// Buckets of equal width over what lies between the bounds that are not the ends of the domain.
#[derive(Debug)]
struct BucketGrid {
    low: f64,
    scale: f64,
    /// Number of bounds in the buckets before each one, and in all buckets at the end.
    starts: Box<[u32]>,
    /// A bit a bucket: some key in it may be in an interval.
    filled: Box<[u32]>,
}

impl IntervalIndex {
    /// Builds the index of these intervals; none may be empty.
    pub(crate) fn new(domain: Domain, intervals: &[(Span, u32)]) -> IntervalIndex {
        let mut bounds: Vec<u64> =
            intervals.iter().flat_map(|((from, to), _)| [Some(*from), to.checked_add(1)]).flatten().collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len();
        let place = |key: u64| bounds.partition_point(|&bound| bound < key);
        // Numbers of leaves and of the nodes above them, the root being 1, with postings.
        let mut filed: Vec<(u32, u32)> = Vec::new();
        let mut narrow: Vec<(u32, u32)> = Vec::new();
        for &((from, to), posting) in intervals {
            let (from, to) = (place(from), to.checked_add(1).map_or(leaves, place));
            if to - from <= NARROW_MAX {
                narrow.extend((from..to).map(|piece| (piece as u32, posting)));
                continue;
            }
            let (mut left, mut right) = (leaves + from, leaves + to);
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
        narrow.sort_unstable();
        let postings: Box<[u32]> = narrow.iter().chain(&filed).map(|(_, posting)| *posting).collect();
        let mut nodes = vec![Node::default()];
        // By number of a node: the place of the lowest from it on up that has anything filed.
        let mut lowest = vec![0_u32; 2 * leaves];
        let mut at = 0;
        for number in 1..2 * leaves {
            lowest[number] = lowest[number / 2];
            let count = filed[at..].iter().take_while(|(node, _)| *node as usize == number).count();
            if count > 0 {
                let start = narrow.len() + at;
                let run = Run::new(start, &postings[start..start + count]);
                nodes.push(Node { postings: run, above: lowest[number] });
                lowest[number] = nodes.len() as u32 - 1;
                at += count;
            }
        }
        let mut at = 0;
        let piece = |(number, &start): (usize, &u64)| {
            let count = narrow[at..].iter().take_while(|(piece, _)| *piece as usize == number).count();
            let run = Run::new(at, &postings[at..at + count]);
            at += count;
            ElementaryInterval { start, narrow: run, node: lowest[leaves + number] }
        };
        let pieces: Box<[ElementaryInterval]> = bounds.iter().enumerate().map(piece).collect();
        let grid = BucketGrid::new(domain, &pieces);
        IntervalIndex { domain, pieces, nodes: nodes.into(), postings, grid }
    }

    /// Passes the postings of all intervals that contain the key to `found`.
    #[inline]
    pub(crate) fn stab(&self, key: u64, mut found: impl FnMut(&[u32])) {
        let bucket = self.grid.bucket(value_of(self.domain, key));
        if !self.grid.is_filled(bucket) {
            return;
        }
        let (from, to) = (self.grid.starts[bucket] as usize, self.grid.starts[bucket + 1] as usize);
        let after = from + self.pieces[from..to].partition_point(|piece| piece.start <= key);
        // Before the first bound there is nothing.
        let Some(piece) = after.checked_sub(1) else { return };
        let ElementaryInterval { narrow, node, .. } = &self.pieces[piece];
        let narrow = narrow.of(&self.postings);
        if !narrow.is_empty() {
            found(narrow);
        }
        let mut node = *node;
        while node != 0 {
            let Node { postings, above } = &self.nodes[node as usize];
            found(postings.of(&self.postings));
            node = *above;
        }
    }

    /// Prefetches the memory that a search for the value will read.
    #[inline]
    pub(crate) fn prefetch(&self, value: f64) {
        prefetch(&self.pieces, self.grid.starts[self.grid.bucket(value)] as usize);
    }

    /// Appends the rows whose values some interval may hold.
    pub(crate) fn sift(&self, rows: usize, value: impl Fn(usize) -> f64, passed: &mut Vec<u32>) {
        let grid = &self.grid;
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            done = unsafe { avx2::sift(grid, rows, &value, passed) };
        }
        passed.extend((done..rows as u32).filter(|&row| grid.is_filled(grid.bucket(value(row as usize)))));
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<ElementaryInterval>()
            + self.nodes.len() * size_of::<Node>()
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

impl BucketGrid {
    fn new(domain: Domain, pieces: &[ElementaryInterval]) -> BucketGrid {
        let values: Vec<f64> = pieces.iter().map(|piece| value_of(domain, piece.start)).collect();
        // Half-open intervals have the ends of the domain as bounds: what is even must not reach out to them.
        let is_inner = |&(piece, value): &(&ElementaryInterval, &f64)| piece.start != 0 && value.is_finite();
        let mut inner = pieces.iter().zip(&values).filter(is_inner).map(|(_, value)| *value);
        let low = inner.next().unwrap_or(0.0);
        let high = inner.next_back().unwrap_or(low);
        let buckets = (pieces.len() * 2).next_power_of_two().max(1);
        let scale = buckets as f64 / (high - low);
        // Not zero, of which infinity makes what is not a number.
        let scale = if scale.is_finite() { scale.max(f64::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
        let mut grid = BucketGrid {
            low,
            scale,
            starts: vec![0; buckets + 1].into(),
            filled: vec![0; buckets.div_ceil(32)].into(),
        };
        for &value in &values {
            let bucket = grid.bucket(value);
            grid.starts[bucket + 1] += 1;
        }
        for bucket in 0..buckets {
            grid.starts[bucket + 1] += grid.starts[bucket];
            let (from, to) = (grid.starts[bucket] as usize, grid.starts[bucket + 1] as usize);
            // Elementary intervals that reach into the bucket: the last that began before it, and those that begin in it.
            let is_filled = |piece: &ElementaryInterval| piece.node != 0 || !piece.narrow.is_empty();
            if pieces[from.saturating_sub(1)..to].iter().any(is_filled) {
                grid.filled[bucket / 32] |= 1 << (bucket % 32);
            }
        }
        grid
    }

    #[inline]
    fn is_filled(&self, bucket: usize) -> bool {
        self.filled[bucket / 32] >> (bucket % 32) & 1 == 1
    }

    /// The bucket of a value: never less for a greater one. NaN is in the last one.
    #[inline]
    fn bucket(&self, value: f64) -> usize {
        let last = self.starts.len() - 2;
        // Rounding keeps order, and a cast saturates.
        let bucket = ((value - self.low) * self.scale) as usize;
        if value.is_nan() { last } else { bucket.min(last) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_castsi128_ps, _mm_i32gather_epi32, _mm_movemask_ps, _mm_set1_epi32,
        _mm_sllv_epi32, _mm_srli_epi32, _mm_sub_epi32, _mm256_cvttpd_epi32, _mm256_max_pd, _mm256_min_pd,
        _mm256_mul_pd, _mm256_set1_pd, _mm256_setr_pd, _mm256_setzero_pd, _mm256_sub_pd,
    };

    use super::BucketGrid;

    /// Appends the rows whose values are in filled buckets, four at a time; answers from which row on there are no four.
    #[target_feature(enable = "avx2")]
    pub(super) fn sift(
        grid: &BucketGrid,
        rows: usize,
        value: impl Fn(usize) -> f64,
        passed: &mut Vec<u32>,
    ) -> u32 {
        let last = grid.starts.len() - 2;
        // Places are whole numbers of 31 bits here.
        if i32::try_from(last).is_err() {
            return 0;
        }
        let (low, scale, most) =
            (_mm256_set1_pd(grid.low), _mm256_set1_pd(grid.scale), _mm256_set1_pd(last as f64));
        let mut row = 0;
        while row + 4 <= rows {
            let values = _mm256_setr_pd(value(row), value(row + 1), value(row + 2), value(row + 3));
            let places = _mm256_mul_pd(_mm256_sub_pd(values, low), scale);
            // The lesser of two is the second where the first is not a number: the last bucket, as it should be.
            let places = _mm256_max_pd(_mm256_min_pd(places, most), _mm256_setzero_pd());
            let buckets = _mm256_cvttpd_epi32(places);
            // SAFETY: a bucket is from the first to the last, and there are as many bits, 32 to a word.
            let words = unsafe {
                _mm_i32gather_epi32::<4>(grid.filled.as_ptr().cast(), _mm_srli_epi32::<5>(buckets))
            };
            let within = _mm_and_si128(buckets, _mm_set1_epi32(31));
            let signs = _mm_sllv_epi32(words, _mm_sub_epi32(_mm_set1_epi32(31), within));
            let mut bits = _mm_movemask_ps(_mm_castsi128_ps(signs)) as u32;
            while bits != 0 {
                passed.push(row as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
            row += 4;
        }
        row as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::number::long_key;
    use super::*;

    fn stabbed(stabbing: &IntervalIndex, key: u64) -> Vec<u32> {
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
            let stabbing = IntervalIndex::new(domain, &intervals);
            let bounds = pairs.iter().flat_map(|&(a, b)| [a, b, a.wrapping_add(1), b.wrapping_sub(1)]);
            let keys: Vec<u64> = stabs.into_iter().chain(bounds).collect();
            let mut passed = Vec::new();
            stabbing.sift(keys.len(), |row| value_of(domain, keys[row]), &mut passed);
            for (row, key) in keys.into_iter().enumerate() {
                let may = passed.contains(&(row as u32));
                prop_assert!(may || expected(&intervals, key).is_empty(), "{:?} {}", domain, key);
                prop_assert_eq!(stabbed(&stabbing, key), expected(&intervals, key), "{:?} {}", domain, key);
            }
        }
    }

    #[test]
    fn overlapping_intervals_take_room_by_their_logarithm() {
        let intervals: Vec<(Span, u32)> =
            (0..10_000).map(|at| ((long_key(i64::from(at)), u64::MAX), at)).collect();
        let stabbing = IntervalIndex::new(Domain::Long, &intervals);
        assert!(stabbing.postings.len() < 10_000 * 15, "{}", stabbing.postings.len());
        assert_eq!(stabbed(&stabbing, long_key(41)).len(), 42);
    }
}
