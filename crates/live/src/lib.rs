//! Standing queries at work: the matcher finds which events concern which query, expressions are evaluated over whole
//! batches, operators fold matched rows into partials, windows say when a result is due.
//!
//! All of it is pure steps: `(state, batch, now) -> outputs`. No I/O, no clock, no threads, no async; `engine` brings
//! those.

pub mod expr;

pub mod columns;
mod condition;
mod explain;
mod fingerprint;
mod joined;
mod kept_rows;
mod keyed;
mod matching;
mod operate;
mod plan_interning;
mod standing;
mod step;
mod stream_join;

pub use condition::RowCondition;
pub use explain::explain;
pub use expr::parse_rfc3339_micros;
pub use fingerprint::{Fingerprint, FingerprintKey};
pub use joined::{CompiledJoin, JoinFailure, JoinedRows, LookUp, RowsOfKey, value_in};
pub use kept_rows::KeptRows;
pub use keyed::{
    Changes, Fold, Held, Key, KeyedPart, KeyedQuery, Row, RowsChanges, RowsError, RowsFold, Shown, Unfit,
    ViewTime, ViewWindows, by_part, count_rows,
};
pub use matching::{Index, Matching, QueryNumber, Rebuild, Rebuilt, Replaced, is_sampled};
pub use operate::{
    Collector, CollectorLimits, CutCounts, Cuts, DistinctFigures, GroupTable, Groups, NoState, Partial,
    PatternChunk, PatternEvent, PatternFaults, ResultSet, ResultWindow, Resumes, RowChunk, RowTimes, Series,
    SketchFigures, SketchMeta, SlicePlan, Slices, Timeline,
};
pub use plan_interning::PlanInterner;
pub use standing::{Common, StandingQuery, WINDOWS_OVERLAP_MAX};
pub use step::{Generation, NO_TIME, Peak, Place, QueryStep, Shard, SingleRow, StepInput, StepNanos, Timed};
pub use stream_join::{
    Apart, JoinEvent, JoinPair, JoinPlace, JoinProgress, JoinQuery, Kept, Match, SIDES, step as join_step,
};
pub use swiftwater_sketch::SketchSizes;
