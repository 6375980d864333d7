//! The files of a statement that search indexes answered, as the scans that asked them report and as its progress shows.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// Paths of files whose search index selected the rows that a scan reads, none of them perhaps. A statement's session carries it
/// as an extension.
#[derive(Debug, Default)]
pub struct IndexedFiles(Mutex<BTreeSet<String>>);

impl IndexedFiles {
    /// Adds files.
    pub fn extend(&self, paths: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// The paths, each once.
    pub fn paths(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
