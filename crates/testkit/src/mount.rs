//! Mounts a small file system in memory for a test: a real disk that fills up.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system of its own at a directory; unmounted when it is dropped.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts one of a size (as `mount` takes it: `4m`). Fails with the reason if that is impossible here: only root
    /// may.
    pub fn new(path: &Path, size: &str) -> io::Result<Mount> {
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output()?;
        match mounted.status.success() {
            true => Ok(Mount(path.to_owned())),
            false => Err(io::Error::other(String::from_utf8_lossy(&mounted.stderr).trim().to_owned())),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The unmount is lazy: a process with an open file there may end a moment later.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
