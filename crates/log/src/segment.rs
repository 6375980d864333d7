//! Segments: the files of the log.
//!
//! ```text
//! segment = header header zeros frame*        frames begin at byte 4096
//! header  = "SWFTLOG" 0x0a  version:u32  reserved:u32  sequence:u64  base:u64  crc:u32    the second at byte 2048
//! ```
//!
//! `sequence` counts segments, `base` is the position of the first frame, `crc` is the CRC-32C of the bytes before it. A
//! file is named by its sequence, `0000000000000007.segment`; a file that waits for reuse ends in `.spare`. A frame at
//! byte `b` has the position `base + b - 4096`. The contents of a segment end where the next begins, even if frames
//! follow. Those had not been synced when the disk failed, and were written again in the next segment. Sequences are not
//! reused. A file gets its name, durably, before its header, and its header, durably, before its first frame.

use std::io::IoSlice;

use crate::{DiskFile, LogError, frame};

/// The version that this program writes, and the newest that it reads. 2: frames of events may have a hash.
pub(crate) const VERSION: u32 = 2;
/// Frames begin here, so that no write of theirs touches a sector of the headers.
pub(crate) const FRAMES_START: u64 = 4096;
const SECOND_HEADER: u64 = 2048;
const MAGIC: &[u8; 8] = b"SWFTLOG\n";
const HEADER_BYTES: usize = 36;

/// The properties of a segment in its name and header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentId {
    /// The format's version; the seed contains it, so it stays as it was when the segment was begun.
    pub(crate) version: u32,
    pub(crate) sequence: u64,
    pub(crate) base: u64,
}

impl SegmentId {
    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&self.version.to_le_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        header[24..32].copy_from_slice(&self.base.to_le_bytes());
        let crc = crc32c::crc32c(&header[..32]);
        header[32..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// The initial value of its frames' checksums.
    pub(crate) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.header()[..32])
    }

    /// The place of a position in the file.
    pub(crate) fn place(&self, position: u64) -> u64 {
        position - self.base + FRAMES_START
    }

    /// Writes the headers; they are not synced.
    pub(crate) fn write_headers(&self, file: &dyn DiskFile) -> std::io::Result<()> {
        let header = self.header();
        let mut page = [0; FRAMES_START as usize];
        page[..HEADER_BYTES].copy_from_slice(&header);
        page[SECOND_HEADER as usize..][..HEADER_BYTES].copy_from_slice(&header);
        file.write_all_at(&mut [IoSlice::new(&page)], 0)
    }
}

/// The kind of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A segment.
    Segment(SegmentId),
    /// One that got its name and no more before a crash: nothing in it was ever synced.
    Unborn,
}

/// Reads who a segment is from the front of its file, whose name says `sequence`.
pub(crate) fn identify(file: &dyn DiskFile, name: &str, sequence: u64) -> Result<FileKind, LogError> {
    let mut page = vec![0; FRAMES_START as usize + frame::FIXED_BYTES + frame::META_BYTES_MAX];
    let mut filled = 0;
    while filled < page.len() {
        match file.read_at(&mut page[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(source) => return Err(LogError::io("read the header of", name, source)),
        }
    }
    page.truncate(filled);
    for start in [0, SECOND_HEADER as usize] {
        let Some(header) = page.get(start..start + HEADER_BYTES) else { continue };
        match read_header(header) {
            Some(SegmentId { version, .. }) if version > VERSION => {
                return Err(LogError::Newer { name: name.into(), version, version_max: VERSION });
            }
            Some(id) if id.sequence == sequence => return Ok(FileKind::Segment(id)),
            // The header of an earlier use of the file, or none.
            _ => {}
        }
    }
    // Both headers are gone. If a first frame is there, they were once synced: its position says the base.
    let first = page.get(FRAMES_START as usize..).unwrap_or_default();
    if let Some(base) = frame::position_in(first) {
        let mut ids = (1..=VERSION).map(|version| SegmentId { version, sequence, base });
        if let Some(id) = ids.find(|id| frame::read_front(first, id.seed(), base).is_ok()) {
            tracing::warn!(%name, "both headers of a log segment are damaged; its first frame identifies it");
            return Ok(FileKind::Segment(id));
        }
    }
    Ok(FileKind::Unborn)
}

fn read_header(header: &[u8]) -> Option<SegmentId> {
    let number = |at: usize| header.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let short = |at: usize| header.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    if header.get(..8)? != MAGIC || short(32)? != crc32c::crc32c(header.get(..32)?) {
        return None;
    }
    Some(SegmentId { version: short(8)?, sequence: number(16)?, base: number(24)? })
}

/// The name of a segment's file.
pub(crate) fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}.segment")
}

/// The name of a file that waits to be used again.
pub(crate) fn spare_name(sequence: u64) -> String {
    format!("{sequence:016x}.spare")
}

/// The sequence and kind of a file of the log by its name; `None`: it is no file of the log.
pub(crate) fn parse_name(name: &str) -> Option<(u64, bool)> {
    let (digits, spare) = match name.strip_suffix(".segment") {
        Some(digits) => (digits, false),
        None => (name.strip_suffix(".spare")?, true),
    };
    if digits.len() != 16 || !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(|sequence| (sequence, spare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_made() {
        for sequence in [0, 7, u64::MAX] {
            assert_eq!(parse_name(&segment_name(sequence)), Some((sequence, false)));
            assert_eq!(parse_name(&spare_name(sequence)), Some((sequence, true)));
        }
        for name in ["", "lock", "7.segment", "000000000000000G.segment", "0000000000000007.segment.bak"] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn header_that_lost_a_bit_is_none() {
        let id = SegmentId { version: VERSION, sequence: 9, base: 1 << 40 };
        let header = id.header();
        assert_eq!(read_header(&header), Some(id));
        for bit in 0..header.len() * 8 {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_header(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn seeds_of_segments_differ() {
        let seed = |version, sequence, base| SegmentId { version, sequence, base }.seed();
        assert_ne!(seed(2, 3, 4096), seed(2, 4, 4096));
        assert_ne!(seed(2, 3, 4096), seed(2, 3, 4104));
    }
}
