//! The file sink: appends deliveries to a file, each once; it cuts off the remains of a crash before the next delivery.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Component, Path, PathBuf},
};

/// The longest name of a file or a folder.
const NAME_BYTES_MAX: usize = 255;
/// The longest path below the root.
const PATH_BYTES_MAX: usize = 3072;

/// A file below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSink {
    root: PathBuf,
    path: PathBuf,
}

/// The reason why a file does not accept a delivery.
#[derive(Debug, thiserror::Error)]
pub enum FileSinkError {
    /// Its path leads out of the root, or names no file.
    #[error("`{}` is not the path of a file below the directory of sinks", .0.escape_debug())]
    Path(String),
    /// It was made shorter by someone.
    #[error("{} has {found} bytes, and {delivered} were delivered to it", path.display())]
    Shorter {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        found: u64,
        /// Bytes that it should have.
        delivered: u64,
    },
    /// It cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl FileSink {
    /// A file at a path below a root. Neither needs to be there yet.
    pub fn new(root: &Path, path: &str) -> Result<FileSink, FileSinkError> {
        let names = || Path::new(path).components();
        let is_below = names().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        // No file system takes longer names, and none takes a NUL.
        let is_name = |part: Component<'_>| part.as_os_str().len() <= NAME_BYTES_MAX;
        let can_be = path.len() <= PATH_BYTES_MAX && !path.contains('\0') && names().all(is_name);
        let names_file = names().any(|part| matches!(part, Component::Normal(_))) && !path.ends_with('/');
        if !is_below || !can_be || !names_file {
            return Err(FileSinkError::Path(path.to_owned()));
        }
        Ok(FileSink { root: root.into(), path: root.join(path) })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes behind the first `delivered` ones, on disk when this returns; what is behind those is cut off. Returns
    /// its new length. Waits for the disk.
    pub fn append(&self, delivered: u64, bytes: &[u8]) -> Result<u64, FileSinkError> {
        let failed = |source| FileSinkError::Io { path: self.path.clone(), source };
        let folder = self.folder()?;
        if self.path.symlink_metadata().is_ok_and(|found| found.file_type().is_symlink()) {
            return Err(FileSinkError::Path(self.path.display().to_string()));
        }
        let is_new = !self.path.exists();
        let options = OpenOptions::new().create(true).write(true).truncate(false).open(&self.path);
        let mut file = options.map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        if found < delivered {
            return Err(FileSinkError::Shorter { path: self.path.clone(), found, delivered });
        }
        let write = |file: &mut File| -> io::Result<()> {
            if found > delivered {
                file.set_len(delivered)?;
            }
            file.seek(SeekFrom::Start(delivered))?;
            file.write_all(bytes)?;
            file.sync_data()?;
            if is_new { File::open(&folder)?.sync_all() } else { Ok(()) }
        };
        write(&mut file).map_err(failed)?;
        Ok(delivered + bytes.len() as u64)
    }

    /// The folder of the file. Missing ones are made, each durable in the one above it. A link may lead elsewhere, whatever
    /// the path says: each is looked at before anything is made behind it.
    fn folder(&self) -> Result<PathBuf, FileSinkError> {
        let failed = |source| FileSinkError::Io { path: self.path.clone(), source };
        make_directory(&self.root).map_err(failed)?;
        let root = self.root.canonicalize().map_err(failed)?;
        let below = self.path.strip_prefix(&self.root).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        let mut folder = root.clone();
        for name in below.components() {
            let next = folder.join(name);
            if next.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                make_directory(&next).map_err(failed)?;
            }
            folder = next.canonicalize().map_err(failed)?;
            if !folder.starts_with(&root) {
                return Err(FileSinkError::Path(self.path.display().to_string()));
            }
        }
        Ok(folder)
    }
}

/// Makes a directory, and what is missing above it, each durable in the one that has it.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_directory(above)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(above)?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn a_delivery_that_is_made_again_is_there_once() {
        let root = tempfile::tempdir().unwrap();
        let file = FileSink::new(root.path(), "a/b.ndjson").unwrap();
        assert_eq!(file.append(0, b"one\n").unwrap(), 4);
        assert_eq!(file.append(4, b"tw").unwrap(), 6);
        // As after a crash within it, or before it was noted.
        assert_eq!(file.append(4, b"two\n").unwrap(), 8);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"one\ntwo\n");
        std::fs::write(file.path(), b"on").unwrap();
        assert!(matches!(file.append(8, b"x"), Err(FileSinkError::Shorter { found: 2, delivered: 8, .. })));
    }

    #[test]
    fn a_path_stays_below_its_root() {
        let root = tempfile::tempdir().unwrap();
        let (name, deep) = ("x".repeat(256), "x/".repeat(2000));
        for path in ["/etc/x", "../x", "a/../../x", "", ".", "a/", "a\0b", &name, &format!("{deep}x")] {
            assert!(matches!(FileSink::new(root.path(), path), Err(FileSinkError::Path(_))), "{path}");
        }
        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
            for path in ["link/x", "link/new/x"] {
                let file = FileSink::new(root.path(), path).unwrap();
                assert!(matches!(file.append(0, b"x"), Err(FileSinkError::Path(_))), "{path}");
            }
            // Nothing is made behind the link.
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
            std::os::unix::fs::symlink(outside.path().join("y"), root.path().join("y")).unwrap();
            let file = FileSink::new(root.path(), "y").unwrap();
            assert!(matches!(file.append(0, b"x"), Err(FileSinkError::Path(_))));
        }
    }
}
