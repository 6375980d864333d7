//! The messages for exceeded memory limits: which setting it is, how much is in use, and what to do.
//!
//! Knows the settings, but not the owners of the memory. Such a message is the reason of a query's end; its reader and the
//! log get it.

use crate::EngineConfig;

/// One query holds too much.
pub(crate) fn query_state(held_bytes: u64, config: &EngineConfig) -> String {
    format!(
        "the query has {held_bytes} bytes of groups and rows, limit is {} (`engine.query_state_bytes_max`): shorten its \
         window, group by fewer values, or raise the limit",
        config.query_state_bytes_max
    )
}

/// All queries together hold too much, and this one has just taken more.
pub(crate) fn all_state(held_bytes: u64, config: &EngineConfig) -> String {
    format!(
        "all queries have {held_bytes} bytes of groups and rows, limit is {} (`engine.state_bytes_max`): end the \
         largest (`swiftwater top --sort state`), or raise the limit",
        config.state_bytes_max
    )
}

/// One result is too large.
pub(crate) fn one_result(bytes: usize, config: &EngineConfig) -> String {
    format!(
        "one result has {bytes} bytes, limit is {} (`engine.emit_bytes_max`): select less of each event, state a LIMIT, or \
         raise the limit",
        config.emit_bytes_max
    )
}

/// The error of a batch whose results are too large.
pub(crate) fn one_batch(config: &EngineConfig) -> String {
    format!(
        "the records of one batch exceed {} bytes (`engine.emit_bytes_max`): select less of each event, or raise the \
         limit",
        config.emit_bytes_max
    )
}

/// The limit of a reader's queue that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// The setting of the limit.
    pub(crate) setting: &'static str,
    /// Bytes, or emits, that wait.
    pub(crate) held: u64,
    /// The limit.
    pub(crate) limit: u64,
}

impl Full {
    /// The reason for the end of a query whose reader is too slow.
    pub(crate) fn cut_off(self) -> String {
        let Full { setting, held, limit } = self;
        format!(
            "the reader is slower than the results (`engine.slow_reader` is `cut_off`): {held} wait, limit is \
             {limit} (`{setting}`): read faster, select less, or raise the limit"
        )
    }
}
