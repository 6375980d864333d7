//! Checks every second whether events can be stored. `/readyz` reports the result, and ingest refuses events at once if the
//! wait would be long.
//!
//! The log itself reports a disk that is full or fails. It cannot see two other faults. One is a disk that neither completes
//! a sync nor fails it. The other is a data directory that was deleted or replaced: the log would continue to write files
//! that no restart finds.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use swiftwater_log::LogPosition;

use crate::EngineError;
use crate::durable::{directory::DataDir, history::History};
use crate::supervisor::TaskKind;
use swiftwater_runtime::lock_order::OrderedMutex;

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A disk that has not finished a sync for so long is taken for one that stands still.
const STALLED_NANOS: u64 = 10_000_000_000;

/// The result of the last check.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// True if events are refused, for the reason in `why`.
    refuses: AtomicBool,
    why: OrderedMutex<Option<EngineError>>,
    /// The position up to which the log was synced, and the time since which nothing more was while something waited.
    synced: OrderedMutex<(LogPosition, Option<u64>)>,
}

impl History {
    /// Checks every second until the engine ends.
    pub(crate) async fn watch_readiness(&self) {
        let stop = self.supervisor.stop_signal(TaskKind::Checkpoint);
        while !stop.is_sent() {
            self.check_readiness();
            self.pause(TaskKind::Checkpoint, LOOK_INTERVAL).await;
        }
    }

    /// Checks whether events can be stored now, and records the result.
    pub(crate) fn check_readiness(&self) {
        let found = self.directory_error().or_else(|| self.stall());
        let was = std::mem::replace(&mut *self.readiness.why.lock(), found.clone());
        self.readiness.refuses.store(found.is_some(), Ordering::Release);
        match (was, found) {
            (None, Some(error)) => tracing::error!(%error, "events are refused"),
            (Some(_), None) => tracing::info!("events are accepted again"),
            _ => {}
        }
    }

    /// The reason why events are refused, independently of the log, if they are. One load where they are not.
    pub(crate) fn refusal(&self) -> Option<EngineError> {
        match self.readiness.refuses.load(Ordering::Acquire) {
            true => self.readiness.why.lock().clone(),
            false => None,
        }
    }

    /// The reason why no event can be stored now, if so.
    pub(crate) fn not_ready(&self) -> Option<EngineError> {
        self.check_readiness();
        let full = || self.log_is_full().then_some(EngineError::DiskFull);
        self.refusal().or_else(|| self.stall_error()).or_else(full).map(|error| self.with_numbers(error))
    }

    /// True if the log takes no event, and will not after its next record.
    fn log_is_full(&self) -> bool {
        !self.log.has_room_now() && (!self.log.resumes_after_record() || self.disk_too_small().is_some())
    }

    /// Adds the numbers to the error of a full disk, if the disk is the reason and not the limit of the log.
    pub(crate) fn with_numbers(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::DiskFull => self.disk_too_small().unwrap_or(EngineError::DiskFull),
            error => error,
        }
    }

    fn disk_too_small(&self) -> Option<EngineError> {
        let room = self.log.disk_room().ok().filter(|room| room.lacking_bytes() > 0)?;
        let options = self.config.log();
        Some(EngineError::DiskTooSmall {
            dir: self.log_dir().display().to_string(),
            needed_bytes: room.needed_bytes,
            has_bytes: room.free_bytes.saturating_add(room.own_bytes),
            free_bytes_min: options.free_bytes_min,
            segment_bytes: options.segment_bytes,
        })
    }

    /// Logs the reason why the server takes no events, if it starts so.
    pub(crate) fn report_if_not_ready(&self) {
        if let Some(error) = self.not_ready() {
            let hint = error.hint().unwrap_or_default();
            tracing::warn!(%error, hint, "the server starts, and refuses events of stored streams");
        }
    }

    fn directory_error(&self) -> Option<EngineError> {
        let missing = self.dir.as_ref().and_then(DataDir::missing)?;
        Some(EngineError::DirectoryGone(missing.display().to_string()))
    }

    fn stall(&self) -> Option<EngineError> {
        let horizons = self.log.horizons();
        let now = self.clock.monotonic_nanos();
        let mut synced = self.readiness.synced.lock();
        let waits = horizons.appended > horizons.synced;
        if !waits || synced.0 != horizons.synced {
            *synced = (horizons.synced, waits.then_some(now));
            return None;
        }
        let since = *synced.1.get_or_insert(now);
        let stalled = now.saturating_sub(since);
        (stalled >= STALLED_NANOS).then_some(EngineError::DiskStalled { seconds: stalled / 1_000_000_000 })
    }
}

/// The identity of a directory, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Directories that must stay where they are while a server runs.
#[derive(Debug, Default)]
pub(crate) struct Watched(Vec<(PathBuf, Identity)>);

impl Watched {
    /// Records the present identity of these directories.
    pub(crate) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Watched {
        Watched(paths.into_iter().filter_map(|path| Some((path.clone(), identity(&path)?))).collect())
    }

    /// The first that is not there any more, or is another one.
    pub(crate) fn missing(&self) -> Option<&PathBuf> {
        self.0.iter().find(|(path, was)| identity(path) != Some(*was)).map(|(path, _)| path)
    }
}

fn identity(path: &PathBuf) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some(Identity { device: found.dev(), inode: found.ino() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn directory_that_was_deleted_or_replaced_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let (log, catalog) = (root.path().join("log"), root.path().join("catalog"));
        std::fs::create_dir(&log).unwrap();
        std::fs::create_dir(&catalog).unwrap();
        let watched = Watched::new([log.clone(), catalog.clone()]);
        assert_eq!(watched.missing(), None);
        std::fs::write(log.join("x"), "y").unwrap();
        assert_eq!(watched.missing(), None);
        std::fs::rename(&log, root.path().join("away")).unwrap();
        assert_eq!(watched.missing(), Some(&log));
        std::fs::create_dir(&log).unwrap();
        assert_eq!(watched.missing(), Some(&log));
        std::fs::remove_dir(&log).unwrap();
        std::fs::rename(root.path().join("away"), &log).unwrap();
        assert_eq!(watched.missing(), None);
    }
}
