//! What an approximate answer says of how exact it is.

/// One sketch of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct SketchMeta {
    /// The aggregate, as the plan prints it.
    pub aggregate: Box<str>,
    /// Whether the answer is an estimate; while a sketch is small it is exact.
    pub is_estimated: bool,
    /// What is known of it.
    pub figures: SketchFigures,
}

/// What is known of a sketch; of several groups' sketches, of the least exact.
#[derive(Debug, Clone, PartialEq)]
pub enum SketchFigures {
    /// COUNT(DISTINCT …).
    Distinct(DistinctFigures),
    /// GROUP BY, where groups are sampled (Bullet).
    Groups(DistinctFigures),
    /// QUANTILE, FREQ, CUMFREQ, APPROX_PERCENTILE_CONT.
    Quantiles {
        /// Bytes of the sketch, about.
        bytes: u64,
        /// Values taken in.
        items_seen: u64,
        /// The least value; `None` where there is none.
        least: Option<f64>,
        /// The greatest value.
        greatest: Option<f64>,
        /// How far the rank of an answer may be off, as a share of all values, at 99 % confidence.
        rank_error: f64,
    },
    /// TOP.
    Frequent {
        /// Combinations counted, each as often as it came.
        items_seen: u64,
        /// Combinations that the sketch knows.
        active_items: u64,
        /// By how much a count may be too high.
        count_error: u64,
    },
}

/// What is known of a sketch of distinct things.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctFigures {
    /// Bytes of the sketch, about.
    pub bytes: u64,
    /// The share of all hashes that is kept: 1 while exact.
    pub theta: f64,
    /// How many there are, about.
    pub estimate: f64,
    /// Least and greatest of how many there may be, at 1, 2 and 3 standard deviations.
    pub bounds: [(f64, f64); 3],
}
