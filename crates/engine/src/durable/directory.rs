//! The data directory, which contains all durable state of one server.
//!
//! ```text
//! DIR/lock           locked by the one process that may write
//! DIR/restoring      names the backup that is being restored here; no server opens the directory while this file exists
//! DIR/catalog/       the catalog's snapshot (snapshots.rs)
//! DIR/log/           segments of the log (room `log`)
//! DIR/tables/NAME/   a Delta Lake table for each stored stream and plain table, unless the store is elsewhere
//! DIR/views/         the state of views by key (room `views`)
//! DIR/tables/_swiftwater_store   the store's id, wherever the store is
//! DIR/exports/       files that COPY … TO writes
//! DIR/spill/         files that SQL and builds of index files spill, and copies of `views/` for backups; emptied at each start
//! ```

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use swiftwater_log::create_directories;

use crate::{HistoryError, durable::readiness::Watched};

const LOCK: &str = "lock";
const RESTORING: &str = "restoring";
const UNFINISHED: &str = "restoring.new";

/// A data directory, locked for this process.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// The directories that must stay in place while the server runs.
    watched: Watched,
    /// Locked while it is open; the system releases the lock at any end of the process.
    _lock: File,
}

impl DataDir {
    /// Makes what is missing and locks the directory.
    pub(crate) fn open(path: &Path) -> Result<DataDir, HistoryError> {
        let fault = |source: io::Error| HistoryError::Directory { path: path.to_owned(), source };
        let mut dir = DataDir::lock(path)?;
        if dir.restoring().map_err(fault)?.is_some() {
            return Err(HistoryError::Restoring(path.to_owned()));
        }
        for part in ["log", "catalog", "tables", "exports"] {
            create_directories(&path.join(part)).map_err(fault)?;
        }
        let spill = path.join("spill");
        match fs::remove_dir_all(&spill) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => fs::create_dir_all(&spill).map_err(fault)?,
        }
        dir.watched = Watched::new([path.to_owned(), dir.log(), dir.catalog()]);
        Ok(dir)
    }

    /// Locks the directory as it is, or a new one.
    pub(crate) fn lock(path: &Path) -> Result<DataDir, HistoryError> {
        let fault = |source: io::Error| HistoryError::Directory { path: path.to_owned(), source };
        create_directories(path).map_err(fault)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { path: path.to_owned(), watched: Watched::default(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(HistoryError::Locked(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(fault(source)),
        }
    }

    /// A part without which nothing is durable, and which was deleted or replaced since the directory was opened.
    pub(crate) fn missing(&self) -> Option<&Path> {
        self.watched.missing().map(PathBuf::as_path)
    }

    /// True if it contains nothing but the lock.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if ![LOCK, UNFINISHED].iter().any(|ours| name == *ours) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The backup that is being restored here, if any.
    pub(crate) fn restoring(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path.join(RESTORING)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Records durably which backup is being restored here; until [`restored`](Self::restored) no server opens it.
    pub(crate) fn mark_restoring(&self, mark: &str) -> io::Result<()> {
        let unfinished = self.path.join(UNFINISHED);
        let mut file = File::create(&unfinished)?;
        io::Write::write_all(&mut file, mark.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(RESTORING))?;
        self.sync_names()
    }

    /// All is there, and synced.
    pub(crate) fn restored(&self) -> io::Result<()> {
        self.sync_names()?;
        fs::remove_file(self.path.join(RESTORING))?;
        self.sync_names()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        self.path.join("catalog")
    }

    pub(crate) fn tables(&self) -> PathBuf {
        self.path.join("tables")
    }

    pub(crate) fn views(&self) -> PathBuf {
        self.path.join("views")
    }

    pub(crate) fn sinks(&self) -> PathBuf {
        self.path.join("sinks")
    }

    pub(crate) fn schemas(&self) -> PathBuf {
        self.path.join("schemas")
    }

    pub(crate) fn spill(&self) -> PathBuf {
        self.path.join("spill")
    }

    pub(crate) fn exports(&self) -> PathBuf {
        self.path.join("exports")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_one_process_s_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/data");
        let first = DataDir::open(&path).unwrap();
        fs::write(first.spill().join("left"), "x").unwrap();
        assert!(matches!(DataDir::open(&path), Err(HistoryError::Locked(_))));
        assert!(first.spill().join("left").exists(), "nobody else takes away what is put aside");
        drop(first);
        let again = DataDir::open(&path).unwrap();
        assert_eq!(
            fs::read_dir(again.spill()).unwrap().count(),
            0,
            "what was put aside is of no use any more"
        );
    }
}
