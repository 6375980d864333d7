//! Verifies a backup directory and restores a data directory from it.
//!
//! A restore marks the data directory before it writes anything else, and removes the mark when everything is present and
//! synced. A server refuses to open a marked directory. A file gets its name only after its bytes are verified, so an
//! interrupted restore resumes with the files that have no name yet. The view store is rebuilt from the beginning on each
//! attempt.

use std::{
    fs::{self, File},
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use swiftwater_event::Clock;
use swiftwater_store::{Store, StoreError};
use swiftwater_views::{DumpError, ViewStore};

use super::{BackupFile, BackupManifest, Checksum, MANIFEST_NAME, ManifestError};
use crate::{
    HistoryConfig, HistoryError,
    durable::{directory::DataDir, history::run_blocking},
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 4 << 20;
/// The largest manifest that is read: some millions of files.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// The fault of a file of a backup.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {what}", path.display())]
pub struct BackupFault {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub what: String,
    /// The I/O error, if there was one.
    #[source]
    pub source: Option<io::Error>,
}

/// The reason why a backup cannot be verified or restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The directory has no manifest.
    #[error("`{}` is not a complete backup: it has no {MANIFEST_NAME}", .0.display())]
    NoBackup(PathBuf),
    /// The manifest is none.
    #[error("`{}` is not a readable backup", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The fault.
        #[source]
        source: ManifestError,
    },
    /// A file of the backup is missing or damaged.
    #[error("the backup is damaged")]
    Damaged(#[from] BackupFault),
    /// The destination is not empty.
    #[error("`{0}` is not empty")]
    NotEmpty(String),
    /// The data directory has the restore of another backup.
    #[error("`{}` contains an unfinished restore of another backup", .0.display())]
    Other(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The data directory cannot be had.
    #[error(transparent)]
    Directory(#[from] HistoryError),
    /// The store failed.
    #[error("the store")]
    Store(#[from] StoreError),
    /// The state of the views cannot be restored.
    #[error("the state of views cannot be restored")]
    Views(#[from] DumpError),
}

impl RestoreError {
    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RestoreError::NoBackup(_) => {
                Some("If `swiftwater backup` was interrupted, run it again: it resumes.")
            }
            RestoreError::Damaged(_) => {
                Some("If the server still runs, `swiftwater backup` fetches the damaged files again.")
            }
            RestoreError::NotEmpty(_) => Some("Restore a backup into an empty directory."),
            RestoreError::Other(_) => Some("Finish that restore, or delete the directory and begin again."),
            RestoreError::Directory(error) => error.hint(),
            _ => None,
        }
    }
}

type Result<T, E = RestoreError> = std::result::Result<T, E>;

fn io_error(path: &Path) -> impl Fn(io::Error) -> RestoreError {
    move |source| RestoreError::Io { path: path.to_owned(), source }
}

/// The manifest of a backup's directory.
fn manifest(dir: &Path) -> Result<BackupManifest> {
    let path = dir.join(MANIFEST_NAME);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RestoreError::NoBackup(dir.to_owned()));
        }
        opened => opened.map_err(io_error(&path))?,
    };
    let mut bytes = Vec::new();
    file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes).map_err(io_error(&path))?;
    BackupManifest::from_json(&bytes).map_err(|source| RestoreError::Manifest { path, source })
}

/// A file of a backup, read from its beginning to its end and held against the manifest.
struct Reading {
    file: File,
    path: PathBuf,
    wanted: BackupFile,
    read: u64,
    checksum: Checksum,
    piece: Vec<u8>,
}

impl Reading {
    fn open(dir: &Path, wanted: &BackupFile) -> Result<Reading, BackupFault> {
        let path = dir.join(wanted.place());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BackupFault { path, what: "is missing".to_owned(), source: None });
            }
            Err(error) => return Err(unreadable(&path, error)),
        };
        let (read, checksum, piece) = (0, Checksum::default(), vec![0; PIECE_BYTES]);
        Ok(Reading { file, path, wanted: wanted.clone(), read, checksum, piece })
    }

    /// The next bytes; none at the end, where all of them were right.
    fn next(&mut self) -> Result<Option<&[u8]>, BackupFault> {
        let read = loop {
            match self.file.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| unreadable(&self.path, error))?,
            }
        };
        let piece = &self.piece[..read];
        self.read += read as u64;
        self.checksum = self.checksum.and(piece);
        let BackupFile { bytes, crc32c, .. } = self.wanted;
        let what = match read {
            0 if self.read != bytes => format!("has {} bytes, expected {bytes}", self.read),
            0 if self.checksum != crc32c => {
                format!("is damaged: its checksum is {}, expected {crc32c}", self.checksum)
            }
            0 => return Ok(None),
            _ if self.read > bytes => format!("has more than the {bytes} bytes expected"),
            _ => return Ok(Some(piece)),
        };
        Err(BackupFault { path: self.path.clone(), what, source: None })
    }
}

fn unreadable(path: &Path, error: io::Error) -> BackupFault {
    BackupFault { path: path.to_owned(), what: "cannot be read".to_owned(), source: Some(error) }
}

/// Reads all of a backup: its manifest, and what is wrong with its files, if anything is. `progress` is told the bytes of
/// each piece.
pub fn verify_backup(
    dir: &Path,
    mut progress: impl FnMut(&BackupManifest, u64),
) -> Result<(BackupManifest, Vec<BackupFault>)> {
    let manifest = manifest(dir)?;
    let mut faults = Vec::new();
    for file in &manifest.files {
        let mut read = || -> Result<(), BackupFault> {
            let mut reading = Reading::open(dir, file)?;
            while let Some(piece) = reading.next()? {
                progress(&manifest, piece.len() as u64);
            }
            Ok(())
        };
        faults.extend(read().err());
    }
    Ok((manifest, faults))
}

/// Makes a data directory, and a store where the settings say so, of a backup. Both must be empty, or what an interrupted
/// restore of the same backup has left; then it goes on. `progress` is told the bytes of each piece.
pub async fn restore(
    config: &HistoryConfig,
    backup: &Path,
    clock: Arc<dyn Clock>,
    mut progress: impl FnMut(&BackupManifest, u64),
) -> Result<BackupManifest> {
    let manifest = manifest(backup)?;
    let mark = format!("{} {}\n", manifest.id, manifest.checksum());
    let dir = DataDir::lock(&config.dir)?;
    let is_begun = match dir.restoring().map_err(io_error(&config.dir))? {
        Some(found) if found == mark => true,
        Some(_) => return Err(RestoreError::Other(config.dir.clone())),
        None => false,
    };
    if !is_begun && !dir.is_empty().map_err(io_error(&config.dir))? {
        return Err(RestoreError::NotEmpty(config.dir.display().to_string()));
    }
    let options = config.store(dir.tables().to_string_lossy().into_owned());
    let location = options.location.clone();
    if !is_begun && !config.store_location.is_empty() {
        let store = Store::open(options.clone(), Arc::clone(&clock)).await?;
        if !store.is_empty().await? {
            return Err(RestoreError::NotEmpty(location));
        }
    }
    dir.mark_restoring(&mark).map_err(io_error(&config.dir))?;
    let store = Store::open(options, clock).await?;
    for part in ["catalog", "log"] {
        let path = config.dir.join(part);
        fs::create_dir_all(&path).map_err(io_error(&path))?;
    }
    for file in &manifest.files {
        let mut told = |bytes| progress(&manifest, bytes);
        match file.name.split_once('/') {
            Some(("tables", path)) => put(&store, path, backup, file, &mut told).await?,
            Some(("views", _)) => run_blocking(usize::MAX, || load(&dir.views(), backup, file, told))?,
            _ => run_blocking(usize::MAX, || copy(&config.dir.join(&file.name), backup, file, &mut told))?,
        }
    }
    for part in ["catalog", "log"] {
        let path = config.dir.join(part);
        sync(&path).map_err(io_error(&path))?;
    }
    dir.restored().map_err(io_error(&config.dir))?;
    Ok(manifest)
}

/// Writes a file into the store, unless it exists: it has its name only when it is complete.
async fn put(
    store: &Store,
    path: &str,
    backup: &Path,
    file: &BackupFile,
    progress: &mut impl FnMut(u64),
) -> Result<()> {
    if store.file_bytes(path).await? == Some(file.bytes) {
        progress(file.bytes);
        return Ok(());
    }
    let mut reading = Reading::open(backup, file)?;
    let mut put = store.put_file(path)?;
    loop {
        match run_blocking(usize::MAX, || reading.next()) {
            Ok(Some(piece)) => {
                put.write(piece).await?;
                progress(piece.len() as u64);
            }
            Ok(None) => return Ok(put.finish().await?),
            Err(fault) => {
                put.abort().await;
                return Err(fault.into());
            }
        }
    }
}

/// Copies a file into the data directory, unless it is there: it has its name only when it is whole and synced.
fn copy(to: &Path, backup: &Path, file: &BackupFile, progress: &mut impl FnMut(u64)) -> Result<()> {
    if fs::metadata(to).is_ok_and(|found| found.len() == file.bytes) {
        progress(file.bytes);
        return Ok(());
    }
    let mut reading = Reading::open(backup, file)?;
    let unfinished = to.with_extension("restoring");
    let mut written = File::create(&unfinished).map_err(io_error(&unfinished))?;
    while let Some(piece) = reading.next()? {
        io::Write::write_all(&mut written, piece).map_err(io_error(&unfinished))?;
        progress(piece.len() as u64);
    }
    written.sync_all().map_err(io_error(&unfinished))?;
    fs::rename(&unfinished, to).map_err(io_error(to))
}

/// Makes the store of the views, durable when this returns, whatever an interrupted restore has left of it.
fn load(to: &Path, backup: &Path, file: &BackupFile, progress: impl FnMut(u64)) -> Result<()> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(to)(error)),
        _ => {}
    }
    let mut bytes = Bytes { reading: Reading::open(backup, file)?, left: 0..0, progress };
    ViewStore::load(to, &mut bytes).or_else(|error| {
        // If the file is damaged, that is the cause, and its error is returned.
        while bytes.reading.next()?.is_some() {}
        Err(error.into())
    })
}

/// The bytes of a file, an error at its end where they are not those of the manifest.
struct Bytes<P> {
    reading: Reading,
    /// The rest of the last piece.
    left: Range<usize>,
    progress: P,
}

impl<P: FnMut(u64)> Read for Bytes<P> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            let piece = self.reading.next().map_err(io::Error::other)?;
            self.left = 0..piece.map_or(0, <[u8]>::len);
            (self.progress)(self.left.len() as u64);
        }
        let count = to.len().min(self.left.len());
        to[..count].copy_from_slice(&self.reading.piece[self.left.start..][..count]);
        self.left.start += count;
        Ok(count)
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
