//! Counts distinct values.
//!
//! A small number of values is stored as their hashes, in order; a larger one as a theta sketch. The answer is that of
//! the `k` least hashes of all values, whatever else the sketch contains. It is a function of the set of values alone.
//! Therefore it is the same for every split of them and every order of merging, estimates included.
//!
//! ```text
//! image := 1 'd' lg_k body            lg_k: one byte
//! body  := 0 hash*                    hashes of 8 bytes, ascending
//!        | 1 theta                    a compact theta sketch in the format of Apache DataSketches
//! ```

use datasketches::{
    common::{NumStdDev, ResizeFactor},
    theta::{CompactThetaSketch, ThetaSketch, ThetaSketchBuilder, ThetaUnion, ThetaUnionBuilder},
};

use crate::{
    hash::hash_bytes,
    image::{self, ImageError, Reader},
};

const KIND: u8 = b'd';
const OF: &str = "distinct values";

/// Values that are kept as hashes in order: 512 bytes, less than the least table of a sketch that is to hold as many.
const FEW_MAX: usize = 64;

/// Hashes of a theta sketch have 63 bits; this one stands for "all".
const THETA_ALL: u64 = i64::MAX as u64;

/// A sketch of distinct values.
#[derive(Debug)]
pub struct Distinct {
    lg_k: u8,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Hashes, ascending, each once; at most [`few_max`].
    Few(Vec<u64>),
    Many(Box<Many>),
}

#[derive(Debug, Default)]
struct Many {
    /// The sketch of single values.
    taken: Option<ThetaSketch>,
    /// The union of merged sketches.
    merged: Option<ThetaUnion>,
}

/// The figures of a sketch of distinct values.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctFigures {
    /// Bytes of the sketch, about.
    pub bytes: u64,
    /// The share of all hashes that is kept: 1 while exact.
    pub theta: f64,
    /// The estimated number of distinct values.
    pub estimate: f64,
    /// Least and greatest of how many there may be, at 1, 2 and 3 standard deviations.
    pub bounds: [(f64, f64); 3],
}

fn few_max(lg_k: u8) -> usize {
    FEW_MAX.min(1 << lg_k)
}

/// The hash by which sketches know a value: of its bytes, the same everywhere.
pub fn hash_of_bytes(bytes: &[u8]) -> u64 {
    hash_bytes(bytes)
}

impl Distinct {
    /// A sketch that is exact up to so many values: between 32 and 2^26, the next power of two.
    pub fn new(entries: u32) -> Distinct {
        let lg_k = entries.clamp(32, 1 << 26).next_power_of_two().trailing_zeros() as u8;
        Distinct { lg_k, state: State::Few(Vec::new()) }
    }

    /// Takes in a value.
    #[inline]
    pub fn update(&mut self, value: &[u8]) {
        self.update_hash(hash_bytes(value));
    }

    /// Takes in values.
    pub fn update_many<'v>(&mut self, values: impl IntoIterator<Item = &'v [u8]>) {
        values.into_iter().for_each(|value| self.update(value));
    }

    /// Takes in a value of which [`hash_of_bytes`] is known.
    #[inline]
    pub fn update_hash(&mut self, hash: u64) {
        let lg_k = self.lg_k;
        match &mut self.state {
            State::Many(many) => many.sketch_mut(lg_k).update(hash),
            State::Few(hashes) => {
                let Err(place) = hashes.binary_search(&hash) else { return };
                if hashes.len() < few_max(lg_k) {
                    hashes.insert(place, hash);
                } else {
                    self.grow().sketch_mut(lg_k).update(hash);
                }
            }
        }
    }

    /// Takes in all that another sketch has.
    pub fn merge(&mut self, other: &Distinct) {
        match &other.state {
            State::Few(hashes) => hashes.iter().for_each(|&hash| self.update_hash(hash)),
            State::Many(theirs) => {
                // The smaller one of two sizes counts: values that the other never kept are unknown.
                let (before, lg_k) = (self.lg_k, self.lg_k.min(other.lg_k));
                let ours = self.grow();
                let mut merged = match ours.merged.take() {
                    Some(merged) if lg_k == before => merged,
                    Some(merged) => {
                        let mut smaller = union(lg_k);
                        join(&mut smaller, &merged.to_sketch(false));
                        smaller
                    }
                    None => union(lg_k),
                };
                for taken in [ours.taken.take().as_ref(), theirs.taken.as_ref()].into_iter().flatten() {
                    joined(merged.update(taken));
                }
                if let Some(theirs) = &theirs.merged {
                    join(&mut merged, &theirs.to_sketch(false));
                }
                ours.merged = Some(merged);
                self.lg_k = lg_k;
            }
        }
    }

    /// The number of distinct values, approximately: exactly unless [`is_estimated`](Distinct::is_estimated).
    pub fn evaluate(&self) -> f64 {
        let (kept, theta) = self.least_hashes();
        if theta == THETA_ALL { kept as f64 } else { kept as f64 / (theta as f64 / THETA_ALL as f64) }
    }

    /// True if there were more values than are counted exactly.
    pub fn is_estimated(&self) -> bool {
        self.least_hashes().1 != THETA_ALL
    }

    /// True if no value came.
    pub fn is_empty(&self) -> bool {
        matches!(&self.state, State::Few(hashes) if hashes.is_empty())
    }

    /// The figures of the sketch. Costs more than [`evaluate`](Distinct::evaluate) where it is estimated.
    pub fn figures(&self) -> DistinctFigures {
        let bytes = (size_of::<Distinct>() + self.bytes()) as u64;
        match &self.state {
            State::Few(hashes) => exact_figures(hashes.len(), bytes),
            State::Many(many) => figures_of(&many.compact(self.lg_k), bytes),
        }
    }

    /// Bytes on the heap, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        match &self.state {
            State::Few(hashes) => hashes.capacity() * size_of::<u64>(),
            State::Many(many) => {
                size_of::<Many>()
                    + many.taken.as_ref().map_or(0, ThetaSketch::estimated_size)
                    + many.merged.as_ref().map_or(0, ThetaUnion::estimated_size)
            }
        }
    }

    /// The sketch as bytes.
    pub fn serialize(&self) -> Vec<u8> {
        let mut out = image::begin(KIND);
        out.push(self.lg_k);
        match &self.state {
            State::Few(hashes) => {
                out.push(0);
                out.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
            }
            State::Many(many) => {
                out.push(1);
                out.extend(many.compact(self.lg_k).serialize());
            }
        }
        out
    }

    /// A sketch from bytes that [`serialize`](Distinct::serialize) made.
    pub fn deserialize(bytes: &[u8]) -> Result<Distinct, ImageError> {
        let (kind, mut reader) = Reader::begin(bytes, OF)?;
        if kind != KIND {
            return Err(ImageError::Kind { wanted: OF });
        }
        let [lg_k, body] = reader.take()?;
        if !(5..=26).contains(&lg_k) {
            return Err(reader.content(format!("lg_k is {lg_k}")));
        }
        let state = match body {
            0 => {
                let (hashes, rest) = reader.rest().as_chunks::<8>();
                if !rest.is_empty() || hashes.len() > few_max(lg_k) {
                    return Err(reader.length());
                }
                let hashes: Vec<u64> = hashes.iter().map(|hash| u64::from_le_bytes(*hash)).collect();
                if !hashes.is_sorted_by(|a, b| a < b) {
                    return Err(reader.content("hashes are not ascending"));
                }
                State::Few(hashes)
            }
            1 => {
                let theta =
                    CompactThetaSketch::deserialize(reader.rest()).map_err(|error| reader.content(error))?;
                let mut merged = union(lg_k);
                join(&mut merged, &theta);
                State::Many(Box::new(Many { taken: None, merged: Some(merged) }))
            }
            other => return Err(reader.content(format!("its body is of kind {other}"))),
        };
        Ok(Distinct { lg_k, state })
    }

    /// The number of the `k` least hashes, and the bound below which they are.
    fn least_hashes(&self) -> (usize, u64) {
        match &self.state {
            State::Few(hashes) => (hashes.len(), THETA_ALL),
            State::Many(many) => match (&many.taken, &many.merged) {
                (Some(taken), None) => {
                    let k = 1 << self.lg_k;
                    if taken.num_retained() <= k {
                        return (taken.num_retained(), taken.theta64());
                    }
                    let mut hashes: Vec<u64> = taken.iter().map(|entry| entry.hash()).collect();
                    let (_, theta, _) = hashes.select_nth_unstable(k);
                    (k, *theta)
                }
                _ => {
                    let compact = many.compact(self.lg_k);
                    (compact.num_retained(), compact.theta64())
                }
            },
        }
    }

    /// Makes room for more than few.
    fn grow(&mut self) -> &mut Many {
        if let State::Few(hashes) = &self.state {
            let mut many = Many::default();
            for hash in hashes {
                many.sketch_mut(self.lg_k).update(hash);
            }
            self.state = State::Many(Box::new(many));
        }
        match &mut self.state {
            State::Many(many) => many,
            State::Few(_) => unreachable!("it has grown just now"),
        }
    }
}

impl Clone for Distinct {
    fn clone(&self) -> Distinct {
        let state = match &self.state {
            State::Few(hashes) => State::Few(hashes.clone()),
            State::Many(many) => {
                let mut merged = union(self.lg_k);
                join(&mut merged, &many.compact(self.lg_k));
                State::Many(Box::new(Many { taken: None, merged: Some(merged) }))
            }
        };
        Distinct { lg_k: self.lg_k, state }
    }
}

impl Many {
    #[inline]
    fn sketch_mut(&mut self, lg_k: u8) -> &mut ThetaSketch {
        self.taken.get_or_insert_with(|| {
            let builder = ThetaSketchBuilder::default().lg_k(lg_k).resize_factor(ResizeFactor::X2);
            builder.build().expect("lg_k is in range, and the default seed is good")
        })
    }

    /// The `k` least hashes of all.
    fn compact(&self, lg_k: u8) -> CompactThetaSketch {
        match (&self.taken, &self.merged) {
            (None, Some(merged)) => merged.to_sketch(false),
            (taken, merged) => {
                let mut all = union(lg_k);
                if let Some(taken) = taken {
                    joined(all.update(taken));
                }
                if let Some(merged) = merged {
                    join(&mut all, &merged.to_sketch(false));
                }
                all.to_sketch(false)
            }
        }
    }
}

fn union(lg_k: u8) -> ThetaUnion {
    let builder = ThetaUnionBuilder::default().lg_k(lg_k).resize_factor(ResizeFactor::X2);
    builder.build().expect("lg_k is in range, and the default seed is good")
}

fn join(union: &mut ThetaUnion, sketch: &CompactThetaSketch) {
    joined(union.update(sketch));
}

/// Sketches join unless their seeds differ; here all have the default one, and images of others are refused.
fn joined(result: Result<(), datasketches::error::Error>) {
    debug_assert!(result.is_ok(), "{result:?}");
}

fn exact_figures(count: usize, bytes: u64) -> DistinctFigures {
    let count = count as f64;
    DistinctFigures { bytes, theta: 1.0, estimate: count, bounds: [(count, count); 3] }
}

fn figures_of(compact: &CompactThetaSketch, bytes: u64) -> DistinctFigures {
    let bounds = [NumStdDev::One, NumStdDev::Two, NumStdDev::Three]
        .map(|deviations| (compact.lower_bound(deviations), compact.upper_bound(deviations)));
    DistinctFigures { bytes, theta: compact.theta(), estimate: compact.estimate(), bounds }
}

/// The figures of a sample by hash: the hashes of the values that were kept, and the least hash of the others
/// ([`None`]: there are no others). Hashes are as [`hash_of_bytes`] gives them.
pub fn sample_figures(kept: &[u64], others: Option<u64>, bytes: u64) -> DistinctFigures {
    // A theta sketch is just that: hashes, and a bound that they are below. It takes hashes of 63 bits other than 0.
    let Some(theta) = others.map(|hash| hash >> 1) else { return exact_figures(kept.len(), bytes) };
    let mut hashes: Vec<u64> =
        kept.iter().map(|hash| hash >> 1).filter(|&hash| hash > 0 && hash < theta).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let seed_hash = union(5).to_sketch(true).seed_hash();
    let mut image = vec![3, 3, 3, 0, 0, 0b1_1010];
    image.extend(seed_hash.to_le_bytes());
    image.extend((hashes.len() as u32).to_le_bytes());
    image.extend([0; 4]);
    image.extend(theta.to_le_bytes());
    image.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
    match CompactThetaSketch::deserialize(&image) {
        Ok(compact) => figures_of(&compact, bytes),
        Err(error) => {
            debug_assert!(false, "{error}");
            exact_figures(kept.len(), bytes)
        }
    }
}
