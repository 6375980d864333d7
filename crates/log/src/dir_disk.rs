//! Implements [`Disk`] over a directory of the machine's file system.

use std::{
    fs::File,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::{
    Disk, DiskFile,
    direct::{BLOCK, DirectFile, Staging, take},
};

/// The file that is locked while the directory is in use; it is no file of the log.
const LOCK: &str = "lock";
/// The most parts of one system call; Linux allows 1,024.
const PARTS_MAX: usize = 1024;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A directory of the machine's file system, locked against other processes while this value lives.
#[derive(Debug)]
pub struct DirDisk {
    path: PathBuf,
    directory: File,
    staging: Staging,
    /// Unlocked when it is closed.
    _lock: File,
}

impl DirDisk {
    /// Opens a directory, making it and those above it where they are missing.
    ///
    /// Fails with [`io::ErrorKind::ResourceBusy`] where another process, or another value of this one, has it open.
    pub fn open(path: impl AsRef<Path>) -> io::Result<DirDisk> {
        let path = path.as_ref().to_owned();
        create_directories(&path)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                io::Error::from(io::ErrorKind::ResourceBusy)
            } else {
                error.into()
            }
        })?;
        Ok(DirDisk { directory: File::open(&path)?, path, staging: Staging::default(), _lock: lock })
    }
}

/// Makes a directory and what is missing above it, each durable in the one that holds it.
pub fn create_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        create_directories(above)?;
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

impl Disk for DirDisk {
    fn names(&self) -> io::Result<Vec<Box<str>>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string()
                && name != LOCK
            {
                names.push(name.into());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let file = File::options().create_new(true).read(true).write(true).open(&path)?;
        let taken = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => write_zeros(&file, bytes),
            taken => taken.map_err(io::Error::from),
        };
        if let Err(error) = taken {
            // The first error counts; a file that cannot be removed either is found again, and is no segment.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        let direct = DirectFile::open(&path, &self.staging)?;
        Ok(Box::new(DirFile { file, direct }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path.join(name);
        let file = File::options().read(true).write(true).open(&path)?;
        let direct = DirectFile::open(&path, &self.staging)?;
        Ok(Box::new(DirFile { file, direct }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let file_system = rustix::fs::fstatvfs(&self.directory)?;
        Ok(file_system.f_bavail.saturating_mul(file_system.f_frsize))
    }
}

fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

struct DirFile {
    file: File,
    /// The same file; `None` where all goes through the page cache.
    direct: Option<DirectFile>,
}

impl DirFile {
    fn write_cached(&self, mut parts: &mut [IoSlice<'_>], mut at: u64) -> io::Result<()> {
        // Empty parts would look like a write that gets nowhere.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let count = parts.len().min(PARTS_MAX);
            match rustix::io::pwritev(&self.file, &parts[..count], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut parts, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl DiskFile for DirFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(into, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write_all_at(&self, mut parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        if let Some(direct) = &self.direct
            && let Some(part) = direct.part_of(at, bytes)
        {
            let mut front = [0; BLOCK as usize];
            let front = &mut front[..(part.start - at) as usize];
            take(&mut parts, front);
            self.file.write_all_at(front, at)?;
            direct.write(&mut parts, part.clone(), &self.file)?;
            return self.write_cached(parts, part.end);
        }
        self.write_cached(parts, at)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync, of what either descriptor wrote: the length is written with it where it changed, times are not.
        self.file.sync_data()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes, each of parts of these sizes at a place, over one another.
    fn writes() -> impl Strategy<Value = Vec<(u64, Vec<usize>)>> {
        let size = prop_oneof![0..5000_usize, Just(4096), 100_000..600_000_usize];
        let place = prop_oneof![0..3_000_000_u64, (0..700_u64).prop_map(|block| block * BLOCK)];
        prop::collection::vec((place, prop::collection::vec(size, 0..8)), 1..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 200 }))]

        #[test]
        fn what_was_written_is_read_however_it_went(writes in writes()) {
            const BYTES: usize = 8 << 20;
            let directory = tempfile::tempdir().unwrap();
            let disk = DirDisk::open(directory.path()).unwrap();
            let file = disk.create("one", BYTES as u64).unwrap();
            let mut expected = vec![0; BYTES];
            let mut mark = 0_u8;
            for (at, sizes) in writes {
                let mut from = at as usize;
                let parts: Vec<Vec<u8>> = sizes
                    .iter()
                    .map(|&size| {
                        mark = mark.wrapping_add(1);
                        let part: Vec<u8> = (0..size).map(|at| mark ^ (at / 7) as u8).collect();
                        expected[from..from + size].copy_from_slice(&part);
                        from += size;
                        part
                    })
                    .collect();
                let mut slices: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
                file.write_all_at(&mut slices, at).unwrap();
                // By turns from what was and what was not synced.
                if mark.is_multiple_of(2) {
                    file.sync().unwrap();
                }
                let mut read = vec![1; BYTES];
                let length = file.read_at(&mut read, 0).unwrap();
                prop_assert_eq!(length, BYTES);
                prop_assert!(read == expected, "write of {:?} at {}", sizes, at);
            }
            prop_assert_eq!(file.bytes().unwrap(), BYTES as u64);
            drop(file);
            let mut read = vec![1; BYTES];
            disk.open("one").unwrap().read_at(&mut read, 0).unwrap();
            prop_assert!(read == expected, "opened again");
        }
    }
}
