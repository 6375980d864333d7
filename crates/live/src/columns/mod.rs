//! Converts a batch of events to Arrow columns: the events that fit their stream, and the columns that the engine stores
//! of them.
//!
//! [`StreamColumns`] are declared: an event that does not fit them is rejected with a reason. [`InferredColumns`] are
//! inferred from the events, so they reject none. Both decode a batch once. They also report which events the columns do
//! not fully represent, so that the text of those events is stored.
//!
//! Types, both ways: BOOLEAN Boolean, INTEGER Int32, LONG Int64, FLOAT Float32, DOUBLE Float64, STRING Utf8View,
//! TIMESTAMP microseconds in UTC, LIST List, MAP Map with keys of Utf8View, JSON (ANY) its text as Utf8View. Texts are
//! views into the batch's own bytes, which the columns keep alive.
//!
//! Columns do not represent the following differences. An event that its columns represent fully loses them:
//!
//! - the order of its fields;
//! - the spelling of a number, a time or an escape;
//! - digits beyond those of the type;
//! - a field that is null, a field that is missing, and a field with the column's default.

mod arrow;
mod declared;
mod default;
mod inferred;
mod misfit;

use arrow_array::{ArrayRef, StringViewArray, builder::StringViewBuilder};
use arrow_buffer::BooleanBuffer;
use bumpalo::Bump;
use swiftwater_event::{Decoder, EventBatch};
use swiftwater_lang::ddl::CreateStream;

pub use self::{
    arrow::arrow_type,
    declared::{ColumnsError, StreamColumns},
    inferred::{InferredBatch, InferredColumn, InferredColumns},
};
use crate::expr::Scratch;

/// A batch validated against declared columns.
#[derive(Debug)]
pub struct ValidatedBatch {
    /// The events that fit, in order; where all do, the batch itself. Bad ones may lie between them in its buffer.
    pub good: EventBatch,
    /// A column for each that is declared, a row for each good event.
    pub columns: Vec<ArrayRef>,
    /// The good events that the columns do not describe completely: they have other fields, or one twice. `None`: of
    /// all they do.
    pub text_needed: Option<BooleanBuffer>,
    /// The others, in order, each once, with the first thing that is wrong: of columns in their order, then of
    /// conditions in theirs.
    pub rejected: Vec<RejectedEvent>,
}

/// Columns of events that were validated before.
#[derive(Debug)]
pub struct DecodedColumns {
    /// A column for each that is declared, a row for each event.
    pub columns: Vec<ArrayRef>,
    /// The events that the columns do not say whole. `None`: of all they do.
    pub text_needed: Option<BooleanBuffer>,
}

/// An event that does not fit its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedEvent {
    /// Its row in the validated batch.
    pub row: u32,
    /// The path in the event; empty for the event as a whole.
    pub path: Box<str>,
    /// The rule that it breaks.
    pub rule: ValidationRule,
    /// The fault.
    pub message: String,
}

/// The rules for events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationRule {
    /// A value is of its column's type.
    Type,
    /// A `NOT NULL` column has a value.
    NotNull,
    /// A `CHECK` holds.
    Check,
    /// It is no longer than the stream takes them.
    Size,
}

impl RejectedEvent {
    /// Events that are longer than a stream takes them; no time where it takes any.
    pub fn of_size(batch: &EventBatch, bytes_max: usize) -> impl Iterator<Item = RejectedEvent> {
        let rows = if bytes_max < usize::MAX { batch.len() } else { 0 };
        (0..rows).filter_map(move |row| {
            let bytes = batch.span(row).len();
            let message = || format!("the event has {bytes} bytes, the limit is {bytes_max}");
            (bytes > bytes_max).then(|| RejectedEvent {
                row: row as u32,
                path: "".into(),
                rule: ValidationRule::Size,
                message: message(),
            })
        })
    }
}

/// The longest event of a stream in bytes, as it is declared.
pub fn event_bytes_max(stream: &CreateStream) -> usize {
    stream.options.event_bytes_max.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Memory that is used again for the next batch: one per thread is best.
#[derive(Debug, Default)]
pub struct ColumnsScratch {
    decoder: Decoder,
    scratch: Scratch,
    arena: Bump,
    rows: Vec<u32>,
}

/// The text of the events that need it, null for the others: one row per event. `text_needed` is of as many events.
pub fn event_texts(events: &EventBatch, text_needed: Option<&BooleanBuffer>) -> StringViewArray {
    let Some(needed) = text_needed else { return StringViewArray::new_null(events.len()) };
    let mut texts = StringViewBuilder::with_capacity(events.len());
    for row in 0..events.len() {
        // Events are UTF-8: it was checked when the batch was made.
        match std::str::from_utf8(events.event(row)) {
            Ok(text) if needed.value(row) => texts.append_value(text),
            _ => texts.append_null(),
        }
    }
    texts.finish()
}
