//! The bytes of a segment while it is built: in memory while they are few, beyond that in a scratch file.
//!
//! Scratch files have no name, so nothing is left of them when the process ends in any way. Knows no directory: the caller
//! creates the files ([`ScratchFiles`]).

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    ops::Range,
    os::unix::fs::FileExt,
    sync::Arc,
};

use tantivy::{
    HasLen,
    directory::{AntiCallToken, FileHandle, OwnedBytes, TerminatingWrite},
};

/// Bytes that are read or written at a time.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Creates the files that a build or a merge writes beyond its memory.
pub trait ScratchFiles: fmt::Debug + Send + Sync {
    /// An empty file, open for reading and writing, that is deleted when it is closed.
    fn create(&self) -> io::Result<File>;
}

/// The memory of one build or merge.
#[derive(Debug, Clone)]
pub struct BuildLimits {
    /// Bytes of terms in memory; beyond it they are written to scratch files. The lengths of texts, a byte for each row of a
    /// column of texts, and the rows of the one term that is written at a time are not counted.
    pub memory_bytes_max: usize,
    /// The scratch files.
    pub scratch: Arc<dyn ScratchFiles>,
}

impl BuildLimits {
    /// The bytes that each of the four parts of a segment has in memory.
    fn spool_bytes(&self) -> usize {
        (self.memory_bytes_max / 32).max(CHUNK_BYTES)
    }
}

/// Bytes that are written once, one behind the other, and then read.
#[derive(Default)]
pub(crate) struct Spool {
    /// The bytes behind those in the file.
    memory: Vec<u8>,
    file: Option<(File, usize)>,
    /// Bytes that memory may have, and the files for more; none: all are in memory.
    limits: Option<(usize, Arc<dyn ScratchFiles>)>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("bytes", &self.length()).finish_non_exhaustive()
    }
}

impl Spool {
    pub(crate) fn new(limits: Option<&BuildLimits>) -> Spool {
        let limits = limits.map(|limits| (limits.spool_bytes(), Arc::clone(&limits.scratch)));
        Spool { limits, ..Spool::default() }
    }

    /// The bytes that are in the file.
    fn file_bytes(&self) -> usize {
        self.file.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// The number of all bytes.
    pub(crate) fn length(&self) -> usize {
        self.file_bytes() + self.memory.len()
    }

    /// Moves all bytes into the file, if there may be one.
    pub(crate) fn leave_memory(&mut self) -> io::Result<()> {
        let Some((_, scratch)) = &self.limits else { return Ok(()) };
        let (file, written) = match &mut self.file {
            Some(file) => file,
            none => none.insert((scratch.create()?, 0)),
        };
        file.write_all_at(&self.memory, *written as u64)?;
        *written += self.memory.len();
        self.memory = Vec::new();
        Ok(())
    }

    /// Reads some of the bytes, all or an error.
    pub(crate) fn read_at(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let in_file = self.file_bytes();
        let mut bytes = vec![0; range.len()];
        let (from_file, from_memory) =
            bytes.split_at_mut(in_file.clamp(range.start, range.end) - range.start);
        if let Some((file, _)) = self.file.as_ref().filter(|_| !from_file.is_empty()) {
            file.read_exact_at(from_file, range.start as u64)?;
        }
        if !from_memory.is_empty() {
            let range = range.start.max(in_file) - in_file..range.end - in_file;
            let found = self.memory.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
            from_memory.copy_from_slice(found);
        }
        Ok(bytes)
    }

    /// Reads all bytes, from the first on.
    pub(crate) fn reader(&self) -> SpoolReader<'_> {
        SpoolReader { spool: self, at: 0, chunk: Vec::new(), read: 0 }
    }

    /// The bytes, for tantivy.
    pub(crate) fn into_handle(self) -> Arc<dyn FileHandle> {
        match self.file {
            None => Arc::new(OwnedBytes::new(self.memory)),
            Some(_) => Arc::new(SpoolHandle(self)),
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let limit = self.limits.as_ref().map_or(usize::MAX, |(limit, _)| *limit);
        if self.memory.len() + bytes.len() > limit {
            self.leave_memory()?;
        }
        // No more of a long piece is copied than memory may have.
        let taken = bytes.len().min(limit);
        self.memory.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for &mut Spool {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        Ok(())
    }
}

impl PartialEq for Spool {
    /// Compares the bytes; those that cannot be read are equal to none.
    fn eq(&self, other: &Spool) -> bool {
        let length = self.length();
        length == other.length()
            && (0..length).step_by(CHUNK_BYTES).all(|from| {
                let range = from..(from + CHUNK_BYTES).min(length);
                match (self.read_at(range.clone()), other.read_at(range)) {
                    (Ok(mine), Ok(theirs)) => mine == theirs,
                    _ => false,
                }
            })
    }
}

/// Reads a spool from its beginning to its end, a chunk at a time.
pub(crate) struct SpoolReader<'s> {
    spool: &'s Spool,
    /// The end of the chunk in the spool.
    at: usize,
    chunk: Vec<u8>,
    /// The bytes of the chunk that were returned.
    read: usize,
}

impl Read for SpoolReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            let end = (self.at + CHUNK_BYTES).min(self.spool.length());
            self.chunk = self.spool.read_at(self.at..end)?;
            (self.at, self.read) = (end, 0);
        }
        let count = out.len().min(self.chunk.len() - self.read);
        out[..count].copy_from_slice(&self.chunk[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

/// The bytes of a spool that has a file.
#[derive(Debug)]
struct SpoolHandle(Spool);

impl HasLen for SpoolHandle {
    fn len(&self) -> usize {
        self.0.length()
    }
}

impl FileHandle for SpoolHandle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        self.0.read_at(range).map(OwnedBytes::new)
    }
}
