//! One query over an input that ends: the same matcher and operators, run in the calling process, as fast as the input
//! can be read, with the same answer for any number of shards and any block size.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Clock, Path, Rejection};
use swiftwater_lang::{Dialect, Schema};

use crate::{Emit, EngineConfig, EngineError};

/// Where the bytes come from.
pub enum InputSource {
    /// All of them at once: a mapped file. Cut into blocks that all shards check and look at in parallel.
    Bytes(Bytes),
    /// Read to the end, from the calling thread.
    Reader(Box<dyn std::io::Read + Send>),
}

/// How an input is to be looked at.
#[derive(Clone)]
pub struct InputOptions {
    /// Limits and shards.
    pub config: EngineConfig,
    /// Which events are refused.
    pub check: CheckLimits,
    /// Whose rules hold.
    pub dialect: Dialect,
    /// Declared types of fields.
    pub schema: Option<Arc<Schema>>,
    /// The path that says when an event arrived (RFC 3339 text, or whole milliseconds); arrival never goes back: an
    /// event with an earlier time, or none, arrives with the one before it. Without it the input has no time: windows
    /// by time close at its end.
    pub time_field: Option<Path>,
    /// Each record tells its times.
    pub times: bool,
}

/// What was read.
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
    Engine(#[from] EngineError),
    /// Reading failed.
    #[error("the input could not be read to its end")]
    Read(#[from] std::io::Error),
}

/// Runs one query over an input; `on_emit` gets each emit in order, the last one with `finished`, and may stop it.
/// `on_progress` is told the bytes looked at so far, now and then.
pub fn run_input(
    source: InputSource,
    text: &str,
    options: &InputOptions,
    clock: Arc<dyn Clock>,
    on_progress: &mut dyn FnMut(u64),
    on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
) -> Result<InputSummary, InputError> {
    unimplemented!()
}
