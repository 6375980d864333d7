//! Small mergeable summaries of many values: distinct counts, distributions, most frequent values, and exact sums
//! ([`ExactSum`]).
//!
//! Each is exact while it is small and reports so ([`Distinct::is_estimated`] and its like). Beyond that it is one of the
//! sketches of [Apache DataSketches](https://datasketches.apache.org), with the bounds of its error. An empty sketch
//! allocates nothing, and one of few values little, because there is one per group and query.
//!
//! Knows nothing of events, queries or windows: values arrive as bytes or numbers.

#[cfg(feature = "datafusion")]
pub mod datafusion;

mod distinct;
mod exact_sum;
mod frequent;
mod hash;
mod image;
mod quantiles;

pub use distinct::{Distinct, DistinctFigures, hash_of_bytes, sample_figures};
pub use exact_sum::{ExactSum, Specials};
pub use frequent::{Frequent, FrequentItem};
pub use image::ImageError;
pub use quantiles::{QuantileView, Quantiles};

/// Limits of the sizes of sketches, and so of their precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SketchSizes {
    /// Hashes that a sketch of distinct values keeps: so many values are counted exactly. Between 32 and 67108864; the
    /// next power of two is taken. The error at three standard deviations is 3 / √n of the count.
    pub distinct_entries: u32,
    /// Values of which a sketch of quantiles is exact, and the k of KLL beyond those. Between 8 and 65535. The error of
    /// a rank at 99 % confidence is about 2.3 / k^0.97.
    pub quantile_k: u16,
    /// Entries of the map of a sketch of frequent items: three quarters so many are counted exactly. Between 8 and
    /// 67108864; the next power of two is taken. No count is off by more than 3.5 / n of all.
    pub top_entries: u32,
}

impl Default for SketchSizes {
    fn default() -> Self {
        SketchSizes { distinct_entries: 16384, quantile_k: 2048, top_entries: 1024 }
    }
}
