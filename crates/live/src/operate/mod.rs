//! The operators: turn matched events into records and groups, and into results as windows close and queries end.

mod cells;
mod explode;
mod group_input;
mod group_result;
mod group_table;
mod groups;
mod ordered_cells;
mod outer;
mod owned;
mod packed_counters;
mod pattern;
mod points;
mod record;
mod rows;
mod sketch_cells;
mod sketch_meta;
mod table;

mod sessions;
mod slice_plan;
mod slice_tree;
mod slices;
mod watermark;
mod window;
mod wire;

mod collector;

pub use cells::image::InvalidState;
pub(crate) use cells::image::{decode_value, encode_value, push_varint, read_varint};
pub use collector::{Collector, CollectorLimits, PatternFaults, ResultSet, ResultWindow, ResumeGranularity};
pub(crate) use explode::{Matches, explode};
pub(crate) use group_input::{Combinations, GroupInput, InputForm};
pub(crate) use group_result::{Bounds, GroupResult, with_single_row, write_groups};
pub(crate) use group_table::Deletion;
pub use group_table::GroupTable;
pub use groups::Groups;
pub(crate) use ordered_cells::{RowPosition, StreamOrder};
pub(crate) use owned::OwnedValue;
pub(crate) use pattern::Automaton;
pub use pattern::{PatternChunk, PatternEvent};
pub(crate) use record::{RecordWriter, write_row};
pub use rows::{RowChunk, RowTimes};
pub use sketch_meta::{DistinctFigures, SketchFigures, SketchMeta};
pub use slice_plan::SlicePlan;
pub use slices::{Partial, Slices};
pub use watermark::Timeline;
pub(crate) use window::{Axis, Shape};
pub use window::{CutCounts, Series, SliceBoundaries};
