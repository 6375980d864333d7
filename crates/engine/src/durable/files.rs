//! Opens the files of a data directory at a start: the newest snapshot of the catalog, the log, which is replayed from there,
//! and the view store if there are joins. Blocks its thread.

use std::{path::Path, sync::Arc};

use swiftwater_catalog::Snapshot;
use swiftwater_event::Clock;
use swiftwater_log::{Disk, Log, LogError, LogOptions, LogPosition};

use super::{
    history::Disks,
    replay::Replay,
    snapshots::Snapshots,
    view_store::{ViewFiles, joins_at_start},
};
use crate::{HistoryConfig, HistoryError};

/// The open files, and what was read from them.
pub(super) struct OpenFiles {
    pub(super) log: Log,
    pub(super) snapshots: Snapshots,
    /// The position in the log of the newest snapshot.
    pub(super) checkpointed_position: u64,
    pub(super) replay: Replay,
    /// The store is open if the catalog has joins.
    pub(super) view_files: ViewFiles,
}

/// Opens all files, and replays the log. `log_dir` is for the messages.
pub(super) fn open_files(
    config: &HistoryConfig,
    log_dir: &Path,
    Disks { log: disk, catalog, views: views_dir }: Disks,
    clock: &Arc<dyn Clock>,
) -> Result<OpenFiles, HistoryError> {
    let (snapshots, snapshot) = Snapshots::open(catalog)?;
    let checkpointed_position = snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
    let open_log = |known_end| open_log(config, log_dir, (&disk, clock), known_end);
    let mut log = open_log(LogPosition(snapshot.as_ref().map_or(0, Snapshot::log_end)))?;
    check_front(config, log_dir, &log, checkpointed_position)?;
    let replay = Replay::of(config, &log, snapshot)?;
    let (view_store, read) = joins_at_start(config, &replay.catalog, views_dir.as_deref())?;
    // The joins are known once the log is read. Nothing was written to it yet: what is missing may be put back.
    if read > log.horizons().appended {
        drop(log);
        log = open_log(read)?;
    }
    let view_files = ViewFiles::new(views_dir, view_store);
    Ok(OpenFiles { log, snapshots, checkpointed_position, replay, view_files })
}

/// Opens the log, which was synced up to `known_end` once.
fn open_log(
    config: &HistoryConfig,
    log_dir: &Path,
    (disk, clock): (&Arc<dyn Disk>, &Arc<dyn Clock>),
    known_end: LogPosition,
) -> Result<Log, HistoryError> {
    let options = LogOptions { known_end, ..config.log() };
    let opened = Log::open(Arc::clone(disk), Arc::clone(clock), options, Box::new(|_| ()));
    opened.map_err(|error| match error {
        LogError::Short { end, known } => {
            HistoryError::LogLost { dir: log_dir.to_owned(), end: end.0, known: known.0 }
        }
        source => HistoryError::LogUnopened { dir: log_dir.to_owned(), source },
    })
}

/// Refuses a log that begins behind the newest snapshot, unless what is lost of it is to be skipped.
fn check_front(
    config: &HistoryConfig,
    log_dir: &Path,
    log: &Log,
    checkpointed_position: u64,
) -> Result<(), HistoryError> {
    // It is trimmed up to there at most.
    let begins = log.usage().oldest.0;
    if begins > checkpointed_position {
        let dir = log_dir.to_owned();
        let error = HistoryError::LogFrontLost { dir, begins, known: checkpointed_position };
        if !config.log_skip_corrupt {
            return Err(error);
        }
        tracing::error!(%error, "the log continues without them, because of data.log_skip_corrupt");
    }
    Ok(())
}
