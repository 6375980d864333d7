//! Positions from which the log is retained for objects, also before their tasks start: a join needs the log from the moment
//! at which its statement reads the position, and at a start from before the first trim.

use std::collections::BTreeMap;

use swiftwater_log::LogPosition;
use swiftwater_runtime::lock_order::OrderedMutex;

/// Positions in the log, by the number of the object that needs the log from there on.
#[derive(Debug, Default)]
pub(crate) struct RetainedPositions(OrderedMutex<BTreeMap<u32, LogPosition>>);

impl RetainedPositions {
    /// Retains the log from a position on for an object. `position` runs under the lock: a trim that does not see the position
    /// stops before it, as it reads the end of the synced log first.
    pub(crate) fn set(&self, object: u32, position: impl FnOnce() -> LogPosition) -> LogPosition {
        let mut positions = self.0.lock();
        let position = position();
        positions.insert(object, position);
        position
    }

    /// The object needs nothing of the log any more.
    pub(crate) fn release(&self, object: u32) {
        self.0.lock().remove(&object);
    }

    /// The first position that an object needs.
    pub(crate) fn first(&self) -> Option<LogPosition> {
        self.0.lock().values().min().copied()
    }
}
