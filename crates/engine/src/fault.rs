//! Faults of the engine itself: a panic ends the queries that it concerns, never a shard or the ticker.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

use crate::EndReason;

/// Does the work; where it panics, answers why the queries concerned must end. What the work had in hand must not be
/// used any more, or be such that it can be.
pub(crate) fn guarded<T>(what: &'static str, work: impl FnOnce() -> T) -> Result<T, EndReason> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        error!(what, "a fault of the engine: the queries concerned are ended");
        EndReason::Failed(format!("{what}: this is a fault of the server, which its log describes"))
    })
}
