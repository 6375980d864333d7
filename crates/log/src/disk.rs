//! The disk interface of the log: one directory of files, and the difference between written and synced.

use std::io::{self, IoSlice};

/// A directory of files that belongs to one log alone.
///
/// Written bytes survive a crash only if [`DiskFile::sync`] was called after them; a name that was made, changed or
/// removed, only if [`Disk::sync_names`] was.
pub trait Disk: Send + Sync {
    /// The names of all files, in any order.
    fn names(&self) -> io::Result<Vec<Box<str>>>;
    /// Makes a file of this many bytes, zeros so far, whose room on the disk is taken; it must not be there yet.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read and write.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file to a name that no other file has.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. An open file remains readable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes durable which files there are.
    fn sync_names(&self) -> io::Result<()>;
    /// Bytes that can still be taken.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// A file, open to read and write.
pub trait DiskFile: Send + Sync {
    /// Its length.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads as much as there is at a place, at most as much as fits; 0 at the end of the file.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes all parts, one behind the other; if that fails, any of it may have been written.
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()>;
    /// Makes durable what was written. If that fails, what was written since the last sync may never become durable,
    /// even if a later sync succeeds.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file off.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
}
