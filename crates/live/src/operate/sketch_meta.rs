//! The error bounds that an approximate answer reports in its metadata.

pub use swiftwater_sketch::DistinctFigures;
use swiftwater_sketch::{Distinct, Frequent, Quantiles};

/// One sketch of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct SketchMeta {
    /// The aggregate, as the plan prints it.
    pub aggregate: Box<str>,
    /// True if the answer is an estimate; while a sketch is small it is exact.
    pub is_estimated: bool,
    /// Its figures.
    pub figures: SketchFigures,
}

/// The figures of a sketch; for several groups' sketches, those of the least exact one.
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
        /// Largest error of an answer's rank, as a share of all values, at 99 % confidence; 0 while exact.
        rank_error: f64,
    },
    /// TOP.
    Frequent {
        /// Combinations counted, each as often as it came.
        items_seen: u64,
        /// Combinations that the sketch knows.
        active_items: u64,
        /// Largest error of a count, which is never too low.
        count_error: u64,
    },
}

/// The metadata of the sketch with the most values: all have the same size, so it is the least exact. `None`: there is
/// no sketch.
pub(crate) fn distinct_meta(aggregate: &str, cells: &[Distinct]) -> Option<SketchMeta> {
    let counted = cells.iter().map(|cell| (cell, cell.evaluate()));
    let (cell, _) = counted.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let figures = SketchFigures::Distinct(cell.figures());
    Some(SketchMeta { aggregate: aggregate.into(), is_estimated: cell.is_estimated(), figures })
}

/// The metadata of the sketch with the most values.
pub(crate) fn quantiles_meta(aggregate: &str, cells: &[Quantiles]) -> Option<SketchMeta> {
    let cell = cells.iter().max_by_key(|cell| cell.count())?;
    let figures = SketchFigures::Quantiles {
        bytes: (size_of::<Quantiles>() + cell.bytes()) as u64,
        items_seen: cell.count(),
        least: cell.least(),
        greatest: cell.greatest(),
        rank_error: cell.rank_error(),
    };
    Some(SketchMeta { aggregate: aggregate.into(), is_estimated: cell.is_estimated(), figures })
}

/// The metadata of the sketch with the largest error of counts.
pub(crate) fn frequent_meta(aggregate: &str, cells: &[Frequent]) -> Option<SketchMeta> {
    let cell = cells.iter().max_by_key(|cell| (cell.error(), cell.values_count()))?;
    let figures = SketchFigures::Frequent {
        items_seen: cell.values_count(),
        active_items: cell.distinct_count(),
        count_error: cell.error(),
    };
    Some(SketchMeta { aggregate: aggregate.into(), is_estimated: cell.is_estimated(), figures })
}
