//! Writes past the page cache with `O_DIRECT`.
//!
//! A large group is synced right after it is written, and hardly ever read again. In the page cache it would cost a copy
//! into pages that have to be found first, and would then displace pages that are read. A second descriptor of the file,
//! open with `O_DIRECT`, writes the whole blocks of such a write. The remainders before and after them share their blocks
//! with other groups, so they go through the page cache, as small groups do. Linux keeps the two consistent: see open(2),
//! `O_DIRECT`.

use std::{
    fs::File,
    io::{self, IoSlice},
    ops::Range,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{fs::OFlags, io::Errno};

/// The alignment in memory and in files: no disk has larger sectors.
pub(crate) const BLOCK: u64 = 4096;
/// Writes of fewer bytes than this cost as much either way.
pub(crate) const BYTES_MIN: u64 = 256 << 10;
/// Bytes of one system call.
const STAGED_BYTES: usize = 2 << 20;

/// The buffer in which writes are aligned for `O_DIRECT`; empty until the first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Staging(Arc<Mutex<Vec<u8>>>);

/// A file that is open a second time, past the page cache.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    staging: Staging,
    /// The file system opened it, and then took no write.
    is_refused: AtomicBool,
}

impl DirectFile {
    /// Opens a file that is there; `None` where its file system has no such thing.
    pub(crate) fn open(path: &Path, staging: &Staging) -> io::Result<Option<DirectFile>> {
        let opened = File::options().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
        match opened {
            Ok(file) => {
                Ok(Some(DirectFile { file, staging: staging.clone(), is_refused: AtomicBool::new(false) }))
            }
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The part of a write that can go past the page cache: whole blocks, if there are enough of them.
    pub(crate) fn part_of(&self, at: u64, bytes: u64) -> Option<Range<u64>> {
        let part = at.next_multiple_of(BLOCK)..(at + bytes) / BLOCK * BLOCK;
        let pays = bytes >= BYTES_MIN && !part.is_empty() && !self.is_refused.load(Ordering::Relaxed);
        pays.then_some(part)
    }

    /// Writes the first bytes of the parts to `place`, which is [`Self::part_of`] a write, and takes them off the parts.
    /// A write that the file system does not accept past the page cache goes through it, by `cached`.
    pub(crate) fn write(
        &self,
        parts: &mut &mut [IoSlice<'_>],
        place: Range<u64>,
        cached: &File,
    ) -> io::Result<()> {
        let mut staging = self.staging.0.lock().unwrap_or_else(PoisonError::into_inner);
        staging.resize(STAGED_BYTES + BLOCK as usize, 0);
        let aligned = staging.as_ptr().align_offset(BLOCK as usize);
        let Some(staged) = staging.get_mut(aligned..aligned + STAGED_BYTES) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mut at = place.start;
        while at < place.end {
            let length = (place.end - at).min(STAGED_BYTES as u64) as usize;
            let bytes = &mut staged[..length];
            take(parts, bytes);
            if self.is_refused.load(Ordering::Relaxed) {
                cached.write_all_at(bytes, at)?;
            } else if let Err(error) = self.file.write_all_at(bytes, at) {
                if !is_refusal(&error) {
                    return Err(error);
                }
                self.is_refused.store(true, Ordering::Relaxed);
                cached.write_all_at(bytes, at)?;
            }
            at += length as u64;
        }
        Ok(())
    }
}

/// Moves the first bytes of the parts, as many as fit; there must be as many.
pub(crate) fn take(parts: &mut &mut [IoSlice<'_>], mut into: &mut [u8]) {
    while let Some(part) = parts.first()
        && !into.is_empty()
    {
        let length = part.len().min(into.len());
        let (now, later) = into.split_at_mut(length);
        now.copy_from_slice(&part[..length]);
        into = later;
        IoSlice::advance_slices(parts, length);
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP))
}
