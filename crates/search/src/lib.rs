//! The files of search indexes: one beside each data file of an indexed table, a *companion*.
//!
//! A companion is a function of its data file and of the index's definition. Document number is row number. It holds the terms
//! of columns, their rows and positions, and the lengths of texts; values themselves are read from the data file.
//!
//! ```text
//! record batches ─ IndexBuilder (runs in scratch files) ─► Segment ─ write_companion ─► bytes of a file
//! segments, companions ─ merge ─► Segment
//! bytes ─ Companion::open ─► select(IndexQuery) ─► Selection { certain, possible }
//! ```
//!
//! Knows no table, no directory and no task: bytes come from [`ReadBytes`], and files for what memory may not have from
//! [`ScratchFiles`]. The analysis and the query come from `swiftwater-text`, so a companion answers as a scan does. tantivy
//! provides the encodings of postings and positions.

mod builder;
mod companion;
mod dictionary;
mod encoding;
mod error;
mod fields;
mod merge;
mod numbers;
mod phrases;
mod read_ahead;
mod runs;
mod scratch;
mod segment;
mod select;
mod statistics;
mod terms;
mod visit_terms;

pub use builder::IndexBuilder;
pub use companion::{BLOCK_BYTES, Companion, DataFile, FORMAT, ReadBytes, write_companion};
pub use error::CompanionError;
pub use fields::{FieldKind, IndexField};
pub use merge::{MergedFields, merge};
pub use read_ahead::ReadAhead;
pub use scratch::{BuildLimits, ScratchFiles};
pub use segment::Segment;
pub use select::Selection;
