//! Tasks beside statements and events: writes the catalog's snapshot, trims the log, writes ticks into it, and closes
//! both.
//!
//! A snapshot is written once all that it counts is synced. The log is then trimmed up to the first record that a table,
//! a view, a join, a durable query or a sink still needs ([`crate::supervisor::{Registry, TaskKind}`]).

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_catalog::Snapshot;
use swiftwater_event::Millis;
use swiftwater_log::{Head, LogPosition, PackedPayload};

use crate::EngineError;
use crate::supervisor::TaskKind;
use crate::{
    HistoryError,
    durable::{
        history::{History, run_blocking},
        stored_stream::{StoredStream, unavailable},
    },
};

impl History {
    /// Writes snapshots and trims the log, until the end.
    pub(crate) async fn run_checkpoints(&self) {
        let mut stop = self.supervisor.stop_signal(TaskKind::Checkpoint);
        let interval = self.checkpoint_interval();
        // Events that are already in the log need no time record after them.
        let mut was = (self.log.horizons().appended, None);
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = stop.received() => return,
            }
            self.backups.expire();
            let appended = self.log.horizons().appended;
            // The log may release what a table has committed since, also while nothing can be appended before that.
            if was != (appended, Some(self.needed_from())) {
                // Time goes on in the log only where something happened in it.
                if was.0 != appended {
                    self.log_time().await;
                }
                let written = self.checkpoint().await.inspect_err(|error| {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, "the catalog could not be written");
                });
                was = match written {
                    // Later events are for the next round.
                    Ok((counted, needed)) => (counted, Some(needed)),
                    Err(_) => (self.log.horizons().appended, None),
                };
            } else if self.log.resumes_after_record() {
                self.log_time().await;
            }
        }
    }

    fn checkpoint_interval(&self) -> Duration {
        Duration::from_millis(self.config.checkpoint_interval_ms.max(1))
    }

    /// The position up to which the log may be trimmed: all before it is synced, and no object needs it.
    pub(crate) fn needed_from(&self) -> LogPosition {
        // The position is read first: events appended from here on are retained in any case.
        let synced = self.log.horizons().synced;
        let retained = self.registry.retained_from(self);
        if let Some((LogPosition(position), object)) = &retained {
            tracing::trace!(position, %object, "the log is retained");
        }
        // A join needs the log before it is registered: from its statement on, and at a start from before its task begins.
        // One that has failed for good needs nothing, though it stays registered.
        let for_joins = self.retained.first();
        let positions = retained.map(|(position, _)| position).into_iter().chain(for_joins);
        positions.fold(synced, LogPosition::min)
    }

    /// The position before which the log is retained for no sink of events: such a sink reads the stream's table instead.
    pub(crate) fn retained_for_sinks(&self) -> LogPosition {
        // A log that may have little is not to be filled.
        let bytes = self.config.sinks_log_bytes_max.min(self.config.log_bytes_max / 2);
        LogPosition(self.log.horizons().appended.0.saturating_sub(bytes))
    }

    async fn log_time(&self) {
        if let Err(error) = self.tick(self.clock.now()).await {
            tracing::warn!(%error, "the time could not be written into the log");
        }
    }

    /// Writes a tick into the log: after a restart no event arrives before it. Returns the end of its record. Fails if an event
    /// would find no room.
    pub(crate) async fn tick_where_there_is_room(&self, now: Millis) -> Result<LogPosition, EngineError> {
        let room = self.log.reserve(PackedPayload::empty().bytes()).await.map_err(unavailable)?;
        self.log.append(Head::Tick { now }, PackedPayload::empty(), room).map_err(unavailable)
    }

    pub(crate) async fn tick(&self, now: Millis) -> Result<(), EngineError> {
        let room = self.log.reserve_urgent(PackedPayload::empty().bytes()).await.map_err(unavailable)?;
        self.log.append(Head::Tick { now }, PackedPayload::empty(), room).map_err(unavailable).map(|_| ())
    }

    /// The catalog as it is, with how far each stream is. It counts what may not be synced yet.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let stored: HashMap<u32, Arc<StoredStream>> =
            self.all_stored().into_iter().map(|stored| (stored.id.0, stored)).collect();
        let (catalog, position) = {
            let unchanged = self.catalog.changing();
            (unchanged.newest(), self.log.horizons().appended)
        };
        catalog.snapshot(position.0, |entry| stored.get(&entry.id).map(|stored| stored.numbers()))
    }

    /// Writes a snapshot of the catalog, and trims the log. Returns the position of the snapshot, and the first position of the
    /// log that is still needed.
    pub(crate) async fn checkpoint(&self) -> Result<(LogPosition, LogPosition), HistoryError> {
        // One at a time: an older snapshot must not take the place of a newer one.
        let _one_at_a_time = self.checkpoint_lock.lock().await;
        let snapshot = self.snapshot();
        let counted = LogPosition(snapshot.position);
        let appended = self.log.horizons().appended;
        // Events that the snapshot counts as stored must be on disk before the snapshot is.
        loop {
            // A log that is full may not get there before it is trimmed: what the last snapshot counts may go at once.
            let checkpointed_position = LogPosition(self.checkpointed_position.load(Ordering::Relaxed));
            self.log.trim(self.needed_from().min(checkpointed_position));
            let synced = tokio::time::timeout(self.checkpoint_interval(), self.log.synced(appended)).await;
            if let Ok(synced) = synced {
                break synced?;
            }
        }
        run_blocking(usize::MAX, || self.snapshots.lock().write(&snapshot))?;
        self.checkpointed_position.store(counted.0, Ordering::Relaxed);
        let needed = self.needed_from().min(counted);
        self.log.trim(needed);
        Ok((counted, needed))
    }

    /// Commits the pending events of all tables, stops all tasks, and writes a last checkpoint.
    pub(crate) async fn close(&self, grace: Duration) {
        let commit = async {
            for stored in self.all_stored() {
                self.flush_pending(&stored).await;
            }
        };
        if tokio::time::timeout(grace, commit).await.is_err() {
            tracing::info!(
                "not all tables were committed when the grace period was over; the log has the rest"
            );
        }
        self.supervisor.stop(grace).await;
        // A log that cannot sync is not waited for: what it has is read again at the next start.
        if let Ok(Err(error)) = tokio::time::timeout(grace, self.checkpoint()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the catalog could not be written");
        }
        self.store.close().await;
    }

    /// Waits until a table has committed all events of its stream.
    async fn flush_pending(&self, stored: &StoredStream) {
        let Some(next) = stored.request_flush(stored.next()) else { return };
        let Some(table) = stored.table() else { return };
        let mut progress = table.progress();
        let _ = progress.wait_for(|progress| progress.appended.0 >= next).await;
        let _ = table.flush().await;
    }
}
