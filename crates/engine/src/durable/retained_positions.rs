//! Positions from which the log is retained for objects, also before their tasks start: a join needs the log from the moment
//! at which its statement reads the position, and at a start from before the first trim.

use std::{collections::BTreeMap, sync::Mutex};

use swiftwater_log::LogPosition;
use swiftwater_runtime::parts::lock;

/// Positions in the log, by the number of the object that needs the log from there on.
#[derive(Debug, Default)]
pub(crate) struct RetainedPositions(Mutex<BTreeMap<u32, LogPosition>>);

impl RetainedPositions {
    /// Retains the log from a position on for an object. `position` runs under the lock: a trim that does not see the position
    /// stops before it, as it reads the end of the synced log first.
    pub(crate) fn set(&self, object: u32, position: impl FnOnce() -> LogPosition) -> LogPosition {
        let mut positions = lock(&self.0);
        let position = position();
        positions.insert(object, position);
        position
    }

    /// The object needs nothing of the log any more.
    pub(crate) fn release(&self, object: u32) {
        lock(&self.0).remove(&object);
    }

    /// The first position that an object needs.
    pub(crate) fn first(&self) -> Option<LogPosition> {
        lock(&self.0).values().min().copied()
    }
}
