//! The directory that a backup is fetched into: its complete files, the unfinished ones, and those that are no longer
//! needed.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use swiftwater_engine::{BackupFile, BackupManifest, Checksum, MANIFEST_NAME};

const LOCK: &str = "backup.lock";
const UNFINISHED: &str = "unfinished";
/// Directories of the files; nothing else in the directory is ever deleted.
const PARTS: [&str; 4] = ["catalog", "log", "tables", "views"];
const PIECE_BYTES: usize = 1 << 20;

/// A backup's directory, which no other process fetches into as long as this lives.
pub(super) struct BackupDir {
    path: PathBuf,
    _lock: File,
}

impl BackupDir {
    /// Opens a directory that holds a backup, whole or not, or nothing; a new one is made.
    pub(super) fn open(path: &Path) -> anyhow::Result<BackupDir> {
        let shown = path.display();
        fs::create_dir_all(path).with_context(|| format!("cannot create `{shown}`"))?;
        let is_backup = [MANIFEST_NAME, UNFINISHED].iter().any(|name| path.join(name).exists());
        if !is_backup {
            for entry in fs::read_dir(path).with_context(|| format!("cannot read `{shown}`"))? {
                let name = entry.with_context(|| format!("cannot read `{shown}`"))?.file_name();
                if name != LOCK && name != *format!("{UNFINISHED}.new") {
                    bail!("`{shown}` is not empty, and contains no backup; use another directory");
                }
            }
        }
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
        let lock = lock.with_context(|| format!("cannot write to `{shown}`"))?;
        match lock.try_lock() {
            Ok(()) => Ok(BackupDir { path: path.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => bail!("another process writes a backup into `{shown}`"),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock `{shown}`"))
            }
        }
    }

    /// The cut that was being fetched.
    pub(super) fn unfinished(&self) -> Option<String> {
        let id = fs::read_to_string(self.path.join(UNFINISHED)).ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Records which snapshot is being fetched from now on.
    pub(super) fn begin(&self, manifest: &BackupManifest) -> anyhow::Result<()> {
        self.put(UNFINISHED, format!("{}\n", manifest.id).as_bytes())
    }

    /// The path of a complete file, and of one that is being fetched.
    pub(super) fn places(&self, file: &BackupFile) -> (PathBuf, PathBuf) {
        let place = file.place();
        (self.path.join(&place), self.path.join(format!("{place}.part")))
    }

    /// All files are there: makes them durable, then the manifest, then sweeps what is no longer needed.
    pub(super) fn finish(&self, manifest: &BackupManifest) -> anyhow::Result<()> {
        let mut directories = BTreeSet::from([self.path.clone()]);
        for file in &manifest.files {
            let (place, _) = self.places(file);
            let above = place.ancestors().skip(1).take_while(|above| *above != self.path);
            for directory in above {
                if !directories.insert(directory.to_owned()) {
                    break;
                }
            }
        }
        for directory in &directories {
            sync(directory)?;
        }
        self.put(MANIFEST_NAME, &manifest.to_json())?;
        let needed: HashSet<PathBuf> = manifest.files.iter().map(|file| self.places(file).0).collect();
        for part in PARTS {
            sweep(&self.path.join(part), &needed)?;
        }
        remove(&self.path.join(UNFINISHED))
    }

    /// Replaces a file by another, durably.
    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let (place, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let put = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &place)
        };
        put().with_context(|| format!("cannot write `{}`", place.display()))?;
        sync(&self.path)
    }
}

fn sync(directory: &Path) -> anyhow::Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot sync the files in `{}`", directory.display()))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes the files below a directory that are not needed, and directories that hold none.
fn sweep(directory: &Path, needed: &HashSet<PathBuf>) -> anyhow::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read `{}`", directory.display()))?,
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read `{}`", directory.display()))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sweep(&path, needed)?;
            // One that is not empty stays.
            let _ = fs::remove_dir(&path);
        } else if !needed.contains(&path) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// The checksum of a file's bytes, and how many there are; `None` if it is not there.
pub(super) fn checksum(path: &Path) -> anyhow::Result<Option<(Checksum, u64)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("cannot open `{}`", path.display()))?,
    };
    let (mut checksum, mut bytes, mut piece) = (Checksum::default(), 0, vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
            Ok(0) => return Ok(Some((checksum, bytes))),
            Ok(read) => {
                checksum = checksum.and(&piece[..read]);
                bytes += read as u64;
            }
        }
    }
}
