//! The computation of standing queries: the matcher, expressions, operators and windows.
//!
//! The matcher finds the queries that an event concerns. Expressions are evaluated over whole batches. Operators fold
//! matched rows into partials. Windows determine when a result is due.
//!
//! All of it is pure steps: `(state, batch, now) -> outputs`. No I/O, no clock, no threads, no async; `engine` provides
//! those.

pub mod expr;

pub mod columns;
mod condition;
mod explain;
mod fingerprint;
mod joined;
mod keyed;
mod matching;
mod memory_rows;
mod operate;
mod plan_interning;
mod standing;
mod step;
mod stream_join;

pub use condition::{RowCondition, RowQuery};
pub use explain::explain;
pub use expr::parse_rfc3339_micros;
pub use fingerprint::{Fingerprint, FingerprintKey};
pub use joined::{CompiledJoin, JoinFailure, JoinedRows, KeyRows, LookupRequest, value_in};
pub use keyed::{
    Changes, Fold, Key, KeyLocation, KeyedPart, KeyedQuery, Row, RowHash, RowsChanges, RowsError, RowsFold,
    UnsupportedView, ViewTime, ViewWindows, by_part, count_rows,
};
pub use matching::{Index, Matching, QueryNumber, Rebuild, Rebuilt, ReplacedLevels, is_sampled};
pub use memory_rows::MemoryRows;
pub use operate::{
    Collector, CollectorLimits, CutCounts, DistinctFigures, GroupTable, Groups, InvalidState, Partial,
    PatternChunk, PatternEvent, PatternFaults, ResultSet, ResultWindow, ResumeGranularity, RowChunk,
    RowTimes, Series, SketchFigures, SketchMeta, SliceBoundaries, SlicePlan, Slices, Timeline,
};
pub use plan_interning::PlanInterner;
pub use standing::{SharedPlan, StandingQuery, WINDOWS_OVERLAP_MAX, event_filter};
pub use step::{
    EventTimeFold, Generation, MaxEventTime, NO_TIME, QueryStep, Shard, SingleRow, SourcePosition, StepInput,
    StepNanos, known_time,
};
pub use stream_join::{
    JoinBuffer, JoinEvent, JoinPair, JoinPlace, JoinProgress, JoinQuery, JoinTimeBounds, Match, SIDES,
    step as join_step,
};
pub use swiftwater_sketch::SketchSizes;
