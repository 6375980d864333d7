//! The syntax tree of MATCH_RECOGNIZE.

use super::{EventTime, Name, Node};
use crate::{plan::Skip, source::Span};

/// `MATCH_RECOGNIZE (…)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recognize {
    pub(crate) span: Span,
    /// PARTITION BY.
    pub(crate) keys: Vec<(Node, Option<Name>)>,
    pub(crate) order: Option<PatternOrder>,
    pub(crate) measures: Vec<(Node, Name)>,
    pub(crate) skip: Skip,
    /// PATTERN, with its place.
    pub(crate) pattern: (Span, Vec<PatternStep>),
    pub(crate) within_ms: u64,
    pub(crate) defines: Vec<(Name, Node)>,
}

/// ORDER BY of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PatternOrder {
    /// `EVENT(time[, lateness])`, or EVENT alone: as the stream declares.
    Event(Span, Option<Box<EventTime>>),
    /// A field: that of the stream's watermark.
    Field(Node),
}

/// A variable in a PATTERN, with its quantifier.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatternStep {
    pub(crate) name: Name,
    pub(crate) span: Span,
    /// `!A`.
    pub(crate) is_absent: bool,
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
}
