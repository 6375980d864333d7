//! Writes the snapshot of the view store to a temporary file that exists as long as its backup.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use swiftwater_views::{DumpError, StoreSnapshot};

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A file that goes with this.
#[derive(Debug)]
pub(super) struct ViewsFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl ViewsFile {
    /// Dumps the state of the views, in a file of this name. Waits for the disk.
    pub(super) fn put(snapshot: &StoreSnapshot, path: &Path) -> Result<ViewsFile, DumpError> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let mut aside = ViewsFile { path: path.into(), file, bytes: 0 };
        let mut writer = BufWriter::with_capacity(PIECE_BYTES, &aside.file);
        snapshot.write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        aside.bytes = aside.file.metadata()?.len();
        Ok(aside)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits for the disk.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut piece = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut piece, range.start)?;
        Ok(piece.into())
    }
}

impl Drop for ViewsFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "files of an ended backup are deleted at the next start");
        }
    }
}
