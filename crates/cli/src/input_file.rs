//! Opens files of events, compressed or not, and standard input.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::Context;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;

use crate::stdio::readable_within;

/// Interval at which a wait for standard input checks if it must end.
const LOOK_AROUND_MS: u16 = 100;

/// Bytes of an input that are read to detect its compression.
const FIRST_READ_BYTES: usize = 64 << 10;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// The input is not compressed.
    None,
    /// The input is compressed by gzip (RFC 1952).
    Gzip,
    /// The input is compressed by zstd (RFC 8878).
    Zstd,
}

impl Packing {
    /// Detects the compression by a file's first bytes. None of these can begin JSON.
    pub(crate) fn of(start: &[u8]) -> Packing {
        match start {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            // A skippable frame, as parallel packers put first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::None,
        }
    }

    /// The name in HTTP.
    pub(crate) fn content_encoding(self) -> Option<&'static str> {
        match self {
            Packing::None => None,
            Packing::Gzip => Some("gzip"),
            Packing::Zstd => Some("zstd"),
        }
    }

    /// Unpacks.
    pub(crate) fn unpack(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Packing::None => Box::new(packed),
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(256 << 10, packed))),
            Packing::Zstd => Box::new(zstd::Decoder::new(packed)?),
        })
    }
}

/// The source of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Place {
    /// `-` is standard input.
    pub(crate) fn of(path: &Path) -> Place {
        if path == Path::new("-") { Place::Stdin } else { Place::File(path.to_owned()) }
    }

    /// Returns true if the input can be read once only: standard input, and a pipe with a name (`<(…)` in a shell is
    /// one).
    pub(crate) fn is_read_once(&self) -> bool {
        match self {
            Place::Stdin => true,
            Place::File(path) => path.metadata().is_ok_and(|metadata| !metadata.is_file()),
        }
    }

    /// The name for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Place::Stdin => "standard input".to_owned(),
            Place::File(path) => path.display().to_string(),
        }
    }
}

/// An opened input.
pub(crate) struct Input {
    /// Its content, still compressed.
    pub(crate) reader: Box<dyn Read + Send>,
    /// Its compression.
    pub(crate) packing: Packing,
    /// Its length as it lies there, where it is a file.
    pub(crate) bytes: Option<u64>,
}

/// Ends the reading of standard input early, as if it had ended there.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopReading(Arc<AtomicBool>);

impl StopReading {
    /// Ends the input.
    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Opens an input and looks how it is packed.
pub(crate) fn open(place: &Place, stop: &StopReading) -> anyhow::Result<Input> {
    let (mut reader, bytes): (Box<dyn Read + Send>, _) = match place {
        Place::Stdin => {
            let fd = io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?;
            (Box::new(Stdin { file: File::from(fd), stop: stop.clone() }), None)
        }
        Place::File(path) => {
            let file = open_file(path)?;
            let metadata = file.metadata().with_context(|| format!("cannot open {}", path.display()))?;
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        }
    };
    let start = first_bytes(&mut reader).with_context(|| format!("cannot read {}", place.name()))?;
    let packing = Packing::of(&start);
    Ok(Input { reader: Box::new(io::Cursor::new(start).chain(reader)), packing, bytes })
}

/// The first bytes; enough to distinguish compressions, if there are as many.
fn first_bytes(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut start = vec![0; FIRST_READ_BYTES];
    let mut len = 0;
    while len < 4 {
        match reader.read(&mut start[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    start.truncate(len);
    Ok(start)
}

fn open_file(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        anyhow::bail!("cannot read {}: it is a directory", path.display());
    }
    Ok(file)
}

/// All bytes of a file that is not packed, without reading them; none where that cannot be: a packed file, a pipe.
pub(crate) fn map(path: &Path) -> anyhow::Result<Option<Bytes>> {
    let mut file = open_file(path)?;
    let metadata = file.metadata().with_context(|| format!("cannot open {}", path.display()))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    if metadata.len() == 0 {
        return Ok(Some(Bytes::new()));
    }
    let mut start = [0; 4];
    let read = file.read(&mut start).with_context(|| format!("cannot read {}", path.display()))?;
    if Packing::of(&start[..read]) != Packing::None {
        return Ok(None);
    }
    // SAFETY: the mapping is private and read-only. If another process truncates the file meanwhile, reading beyond
    // its new end fails with SIGBUS, which ends this process and harms nothing else; changed bytes are checked like
    // any input.
    let map = unsafe { memmap2::MmapOptions::new().map(&file) };
    let Ok(map) = map else { return Ok(None) };
    // Only advice: that it is not taken costs some time.
    let _ = map.advise(memmap2::Advice::Sequential);
    Ok(Some(Bytes::from_owner(map)))
}

/// Standard input that can be told to end; without the buffer that `std` puts before it, which `poll` does not see.
struct Stdin {
    file: File,
    stop: StopReading,
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.stop.stopped() {
            if readable_within(self.file.as_fd(), LOOK_AROUND_MS)? {
                return self.file.read(buffer);
            }
        }
        Ok(0)
    }
}

/// Counts the bytes that are read through it.
pub(crate) struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    /// Adds to `count`.
    pub(crate) fn new(inner: R, count: &Arc<AtomicU64>) -> Self {
        Counted { inner, count: Arc::clone(count) }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn packed_files_are_known_by_their_content() {
        let directory = tempfile::tempdir().unwrap();
        let text = b"{\"a\":1}\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let cases = [
            (text.to_vec(), Packing::None),
            (gzip.finish().unwrap(), Packing::Gzip),
            (zstd::encode_all(&text[..], 1).unwrap(), Packing::Zstd),
        ];
        for (content, packing) in cases {
            let path = directory.path().join("events");
            std::fs::write(&path, content).unwrap();
            let input = open(&Place::of(&path), &StopReading::default()).unwrap();
            assert_eq!(input.packing, packing);
            let mut read = Vec::new();
            packing.unpack(input.reader).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
            assert_eq!(map(&path).unwrap().is_some(), packing == Packing::None);
        }
    }

    #[test]
    fn an_empty_file_is_an_input() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty");
        std::fs::write(&path, "").unwrap();
        assert_eq!(map(&path).unwrap(), Some(Bytes::new()));
        assert_eq!(open(&Place::of(&path), &StopReading::default()).unwrap().packing, Packing::None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = map(Path::new("no/such/file")).unwrap_err();
        assert_eq!(error.to_string(), "cannot open no/such/file");
        assert!(map(Path::new(".")).unwrap_err().to_string().contains("directory"));
    }
}
