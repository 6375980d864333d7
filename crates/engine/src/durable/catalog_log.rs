//! Appends changes of the catalog to the log, and applies them.

use swiftwater_catalog::{Change, ChangeRecord};
use swiftwater_event::causes;
use swiftwater_log::Head;

use super::{history::History, stored_stream::unavailable};
use crate::{EngineError, Ticket};

impl History {
    /// Appends a change to the log, applies it to the catalog, and waits until it is on disk.
    pub(crate) async fn record(&self, change: Change) -> Result<(), EngineError> {
        let is_urgent = change.is_urgent();
        let record = ChangeRecord::new(self.clock.now(), change);
        let packed = self.log.pack(record.to_bytes().into()).map_err(unavailable)?;
        let bytes = packed.bytes();
        let room = if is_urgent { self.log.reserve_urgent(bytes) } else { self.log.reserve(bytes) };
        let room = room.await.map_err(unavailable)?;
        // One change at a time from the log on, so that a snapshot holds the changes before its position and no other.
        let end = {
            let _no_cut_is_made = self.backup_lock.read().await;
            let catalog = self.catalog.changing();
            let end = self.log.append(Head::Catalog, packed, room).map_err(unavailable)?;
            let applied = catalog.apply(|catalog| catalog.apply(&record));
            applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
            end
        };
        self.synced(Ticket(end.0)).await
    }

    /// Applies a change to the catalog and writes a snapshot of it, where the log has no room for the change.
    pub(crate) async fn record_by_snapshot(&self, change: Change) -> Result<(), EngineError> {
        let record = ChangeRecord::new(self.clock.now(), change);
        let applied = self.catalog.changing().apply(|catalog| catalog.apply(&record));
        applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
        let written = self.checkpoint().await;
        written.map(drop).map_err(|error| EngineError::NotStored(causes(&error)))
    }
}
