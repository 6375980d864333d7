//! The options and the outcome of one query over an input.

use std::sync::Arc;

use bytes::Bytes;
use swiftwater_event::{CheckLimits, EventBatch, Millis, Path, Rejection, StreamName};
use swiftwater_lang::{Dialect, Schema, plan::Literal};

use crate::{EngineConfig, QueryForm, RuntimeError};

/// The source of the bytes.
pub enum InputSource {
    /// All of them at once: a mapped file. Cut into blocks that all shards check and look at in parallel.
    Bytes(Bytes),
    /// A reader, read to the end by one shard after another.
    Reader(Box<dyn std::io::Read + Send>),
}

/// The events of a batch that may match the query, by row, in order.
pub type EventPrefilter = Arc<dyn Fn(&EventBatch) -> Vec<u32> + Send + Sync>;

/// The way an input is to be looked at.
#[derive(Clone, Default)]
pub struct InputOptions {
    /// Limits and shards.
    pub config: EngineConfig,
    /// Limits beyond which events are refused.
    pub check: CheckLimits,
    /// The dialect of the query.
    pub dialect: Dialect,
    /// Declared types of fields.
    pub schema: Option<Arc<Schema>>,
    /// The path that says when an event arrived (RFC 3339 text, or whole milliseconds); arrival never goes back: an
    /// event with an earlier time, or none, arrives with the one before it, and those before any with a time in 1970.
    /// Windows then lie on multiples of their length. Without it the input has no time: windows by time close at its
    /// end.
    pub time_field: Option<Path>,
    /// Each record tells its times.
    pub times: bool,
    /// The types of the records' values, where they are known apart from the schema that the query is checked against.
    pub types: Option<Arc<Schema>>,
    /// The values of `$1`, `$2`, … in the text.
    pub parameters: Vec<Literal>,
    /// The way the query is written.
    pub form: QueryForm,
    /// Workers that Bullet would have dealt the records to, record k to worker k mod n: the rows of a RAW result
    /// without a window by record depend on it. 1, and with a `time_field`: they come in the order of the input.
    pub workers: usize,
    /// Events that it leaves out are validated and counted, and not decoded: they must be such as the query does not
    /// match. Rows have the order of the input all the same. Ignored with a `time_field`, where each event moves time on,
    /// and with several `workers`, to which all events are dealt.
    pub prefilter: Option<EventPrefilter>,
}

/// The summary of the input that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputSummary {
    /// Good events looked at.
    pub accepted: u64,
    /// Events refused.
    pub rejected: u64,
    /// The first of them.
    pub rejections: Vec<Rejection>,
    /// Bytes read.
    pub bytes: u64,
}

/// An input that could not be looked at to its end.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The query was refused.
    #[error(transparent)]
    Engine(#[from] RuntimeError),
    /// Reading failed.
    #[error("the input could not be read to its end")]
    Read(#[from] std::io::Error),
}

/// Start of the time of an input that has times of its own, and of its windows: 1970.
pub(super) const TIME_BEGINS: Millis = 0;

/// The number of the query.
pub(super) const QUERY: swiftwater_live::QueryNumber = 1;

pub(super) fn input_name() -> StreamName {
    StreamName::new("input").expect("`input` follows the rules for names")
}
