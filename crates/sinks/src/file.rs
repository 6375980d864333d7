//! A file that grows by deliveries, each there once: what a crash left behind is cut off before the next.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Component, Path, PathBuf},
};

/// A file below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSink {
    root: PathBuf,
    path: PathBuf,
}

/// Why a file does not take a delivery.
#[derive(Debug, thiserror::Error)]
pub enum FileSinkError {
    /// Its path leads out of the root, or names no file.
    #[error("`{0}` is no path of a file below the directory for sinks")]
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
        /// Why.
        source: io::Error,
    },
}

impl FileSink {
    /// A file at a path below a root. Neither needs to be there yet.
    pub fn new(root: &Path, path: &str) -> Result<FileSink, FileSinkError> {
        let names = || Path::new(path).components();
        let is_below = names().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below || !names().any(|part| matches!(part, Component::Normal(_))) || path.ends_with('/') {
            return Err(FileSinkError::Path(path.to_owned()));
        }
        Ok(FileSink { root: root.into(), path: root.join(path) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes behind the first `delivered` ones, on disk when this returns; what is behind those is cut off. Answers
    /// how many bytes it has then. Waits for the disk.
    pub fn append(&self, delivered: u64, bytes: &[u8]) -> Result<u64, FileSinkError> {
        let failed = |source| FileSinkError::Io { path: self.path.clone(), source };
        let folder = self.path.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder).map_err(failed)?;
        // A link may lead elsewhere, whatever the path says.
        let (real, root) =
            (folder.canonicalize().map_err(failed)?, self.root.canonicalize().map_err(failed)?);
        let is_link = self.path.symlink_metadata().is_ok_and(|found| found.file_type().is_symlink());
        if !real.starts_with(&root) || is_link {
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
            if is_new { File::open(folder)?.sync_all() } else { Ok(()) }
        };
        write(&mut file).map_err(failed)?;
        Ok(delivered + bytes.len() as u64)
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
        for path in ["/etc/x", "../x", "a/../../x", "", ".", "a/"] {
            assert!(matches!(FileSink::new(root.path(), path), Err(FileSinkError::Path(_))), "{path}");
        }
        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
            let file = FileSink::new(root.path(), "link/x").unwrap();
            assert!(matches!(file.append(0, b"x"), Err(FileSinkError::Path(_))));
            std::os::unix::fs::symlink(outside.path().join("y"), root.path().join("y")).unwrap();
            let file = FileSink::new(root.path(), "y").unwrap();
            assert!(matches!(file.append(0, b"x"), Err(FileSinkError::Path(_))));
        }
    }
}
